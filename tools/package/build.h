/* stator build: what its files share.
 *
 *   cmd_build.c      the command
 *   build_names.c    texts of a model as C identifiers, literals and comments
 *   build_ports.c    inputs and outputs of a graph; sizes as C expressions
 *   build_header.c   the public header of a package
 *   build_source.c   the public functions: checks, then the backend's plan
 *   build_files.c    the folder of sources, the C compiler
 *   build_watch.c    what happens when the command is interrupted
 *
 * Nothing that a model says gets into C but through build_names.c. */
#ifndef STATOR_TOOLS_BUILD_H
#define STATOR_TOOLS_BUILD_H

#include "tools/cli/cli.h"

#include "core/base/str.h"

#include <spawn.h>

#define BUILD_NAME_MAX 64u /* bytes of an identifier */

/* ---- names ---- */

typedef char build_name[BUILD_NAME_MAX + 16u];

/* An identifier of C and C++ that is no keyword and no usual macro. */
void build_identifier(const char *text, build_name out);
/* The same, different from the first n of others. */
void build_unique(const char *text, const build_name *others, uint32_t n, build_name out);
/* A string literal, or NULL. */
void build_literal(const char *text, st_str *out);
/* For the inside of a comment: letters, digits and a few signs, others are '?'. */
void build_remark(const char *text, st_str *out);

/* ---- ports ---- */

typedef struct build_port {
    build_name id;    /* member of the struct */
    const char *name; /* in the graph */
    const char *c_type;
    const char *dtype; /* "f32" */
    uint32_t bytes;    /* size of an element */
    uint32_t rank;
    stator_ref dims[STATOR_RANK_MAX]; /* syms of the graph */
} build_port;

/* A program's outside. The graph is borrowed. */
typedef struct build_ports {
    const stator_graph_view *v;
    build_port *in, *out;
    uint32_t n_in, n_out;
    const stator_atom_row **symbols; /* by index: those that a size of an input is; NULL: others */
} build_ports;

/* On failure prints and returns 0. */
bool build_ports_init(build_ports *ports, const stator_host *host, const stator_graph *graph,
                      int json);
void build_ports_deinit(build_ports *ports);
/* "N", "2*N + 1": for metadata and comments, not for C. */
void build_sym_text(const stator_graph_view *v, stator_ref sym, st_str *out);
/* A C expression over s[] and &ok, by the functions of build_source.c. */
void build_sym_code(const stator_graph_view *v, stator_ref sym, st_str *out);

/* ---- texts ---- */

typedef struct build_facts {
    build_name name;   /* prefix of all public names */
    build_name upper;  /* prefix of enumerators and macros */
    const char *model; /* file name, for a remark */
    const char *cpu;
    const build_ports *ports;
} build_facts;

void build_header(const build_facts *facts, st_str *out);
/* Includes "package.h". */
void build_source(const build_facts *facts, st_str *out);

/* ---- files ---- */

typedef struct build_watch build_watch;

typedef struct build_folder {
    build_watch *watch; /* from build_watch_begin on */
    const char *output; /* as the user gave them, for messages */
    const char *sources;
    char path[4096]; /* absolute, of the folder that is removed in the end; "" until it is made */
    char *former;    /* --sources: lines of what former builds made there */
    int json;
    bool failed;      /* an error was printed */
    int fd;           /* folder of the files for the compiler: the user's own, or that at path */
    int kept_fd;      /* the user's own folder, or -1 */
    int work_fd;      /* at path */
    uint32_t n_files; /* for the compiler, by name */
    char (*files)[64];
    uint64_t data_bytes;
} build_folder;
#define BUILD_FOLDER_NONE                                                                          \
    {                                                                                              \
        .fd = -1, .kept_fd = -1, .work_fd = -1                                                     \
    }

/* A folder beside `output`, in which the library is made. The sources lie there too, or in the
 * folder `sources`, which is made when it is not there and stays. Of a user's folder nothing is
 * changed but files that are new or that a former build made: their names are in its
 * stator-build.list. On failure each prints and returns 0. */
bool build_folder_open(build_folder *folder, const char *output, const char *sources);
/* Removes what was made, unless it is kept. */
void build_folder_remove(const build_folder *folder);
/* The same, and gives the memory back. The watch stays. */
void build_folder_close(build_folder *folder);
/* Writes a file; the compiler is given those that end in .c, .o and .s. */
bool build_folder_add(build_folder *folder, const char *name, const void *bytes, uint64_t size);
/* A piece of a backend; STATOR_CANCELLED after a failure. */
stator_status build_folder_piece(void *folder, uint32_t kind, const char *name, const void *bytes,
                                 uint64_t size);
/* Compiles and links what is there, exporting names that begin with `name`_, to `output`. */
bool build_folder_link(build_folder *folder, const char *cc, const char *name, const char *output);
/* From here on a signal that ends the command first ends the compiler and removes the folder.
 * Before any other thread is made: those have the signals blocked as this one has. 0: it cannot. */
bool build_watch_begin(build_folder *folder);
void build_watch_end(build_folder *folder);
/* Around what changes the folder. */
void build_watch_lock(build_folder *folder);
void build_watch_unlock(build_folder *folder);
/* Runs argv to its end; the error of starting it, or 0. */
int32_t build_watch_run(build_folder *folder, const posix_spawn_file_actions_t *actions,
                        char *const *argv, int *out_status);
/* What is written is renamed to its place: is there nothing, or a file? A device, a pipe or a
 * folder would be lost. 0: it was said. */
bool build_may_replace(const char *path, int json);

#endif
