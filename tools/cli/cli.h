/* The stator command: what its subcommands share. One file a subcommand (cmd_<name>.c), one row
 * each in commands.def. Exit status: 0 ok, 1 a wrong answer, 2 a command line that cannot be
 * parsed, 3 any failure (unknown names, files and devices among them). With --json an error is
 * {"error": {code, message, hint}} on stdout. */
#ifndef STATOR_CLI_H
#define STATOR_CLI_H

#include "core/base/compare.h"
#include "core/base/diag.h"
#include "core/base/files/out_file.h"

#include <cjson/cJSON.h>
#include <stator/inspect.h>
#include <stdio.h>

/* Exit statuses of a command; cli_parse alone answers CLI_GO_ON: the command is to run. */
typedef enum cli_status {
    CLI_GO_ON = -1,
    CLI_OK = 0,
    CLI_WRONG = 1,
    CLI_USAGE = 2,
    CLI_FAILED = 3
} cli_status;

/* ---- options ---- */

enum cli_option_kind {
    CLI_FLAG = 1,      /* sets an int to 1 */
    CLI_TEXT = 2,      /* const char * */
    CLI_NUMBER = 3,    /* int64_t, 0 or more */
    CLI_REAL = 4,      /* double */
    CLI_LIST = 5,      /* repeatable, cli_list */
    CLI_PAIRS = 6,     /* a list of KEY=VALUE */
    CLI_SIZES = 7,     /* a list of NAME=SIZE, SIZE a whole number, 0 or more */
    CLI_REALS = 8,     /* const char *, numbers between commas */
    CLI_PASS_PAIRS = 9 /* CLI_PAIRS whose key names a pass: PASS:KEY=VALUE */
};

#define CLI_OPTIONS_MAX 64u /* values of one repeatable option */

typedef struct cli_list {
    const char *items[CLI_OPTIONS_MAX];
    uint32_t count;
} cli_list;

typedef struct cli_option {
    const char *name; /* "--json" */
    uint32_t kind;
    void *target;
    const char *value_name; /* "FILE" in the help */
    const char *help;
} cli_option;
#define CLI_END                                                                                    \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* The options that several subcommands have, in groups; cli_args.c has the one table of them. */

typedef struct cli_common { /* options of every subcommand */
    int json;
    cli_list plugin_dirs;
    const char *logs; /* channels, as STATOR_LOGS has them */
    /* Takes the log in the place of cli_log; no option of the command line. */
    void (*log)(void *self, const char *channel, uint32_t level, const char *text);
    void *log_self;
    int64_t threads;
} cli_common;

typedef struct cli_inputs { /* options of every subcommand that needs a model's inputs */
    const char *inputs;     /* DIR or FILE.npz */
    cli_list input;         /* NAME=FILE.npy */
    cli_list image;         /* NAME=FILE.png */
    const char *mean;       /* comma lists */
    const char *std;
    int64_t random; /* seed, -1 when not given */
    cli_list dim;   /* N=8 */
} cli_inputs;

typedef struct cli_compile { /* options of every subcommand that compiles */
    const char *backend;
    const char *mode;
    cli_list options; /* K=V */
    int strict;
    int strict_sizes;
    int strict_copies;
    const char *device; /* NAME:N */
    const char *fallback;
    const char *node_fallbacks; /* with commas between */
    int64_t fuel;               /* see stator_compile_options; no option of the command line */
    const char *fuel_scope;
    uint32_t compile_flags; /* more of stator_compile_flag */
    int64_t verify;         /* calls; see stator_compile_options */
    uint32_t outputs;       /* stator_outputs */
} cli_compile;

typedef struct cli_stage {
    const char *after;   /* stage, or NULL */
    const char *backend; /* the backend of the pipeline */
} cli_stage;

/* The options that a subcommand takes. A group that is NULL is not taken. */
typedef struct cli_usage {
    const struct cli_command *row; /* of commands.def; cli_parse fills it in */
    const cli_option *own;         /* ended by CLI_END; NULL: none */
    st_tolerance *tolerance;
    cli_stage *stage;
    cli_inputs *inputs;
    cli_inputs *random; /* takes --random and --dim of the inputs alone */
    const char **backend;
    cli_compile *compile; /* without --backend */
    cli_common *common;
    bool computes;    /* takes --threads though it has none of inputs, random and compile */
    bool reads_again; /* MODEL is loaded more than once: it cannot be a pipe */
} cli_usage;

/* Reads argv[1..] into the targets and the positional arguments, as many as the row of argv[0]
 * has, into words. Returns CLI_GO_ON, else the exit status (0 after --help, 2 on a bad line,
 * whose text went to stderr). */
cli_status cli_parse(cli_usage *usage, int argc, char **argv, const char **words);
/* The same in a subcommand, which ends unless it goes on. */
#define CLI_PARSE(usage, words)                                                                    \
    do {                                                                                           \
        const cli_status cli_parsed_ = cli_parse((usage), argc, argv, (words));                    \
        if (cli_parsed_ != CLI_GO_ON) {                                                            \
            return cli_parsed_;                                                                    \
        }                                                                                          \
    } while (0)

/* Says on stderr how the command line is wrong and where help is; CLI_USAGE. */
cli_status cli_misused(const cli_usage *usage, const char *format, ...) STATOR_PRINTF(2, 3);
#define CLI_MISUSED_IF(condition, ...) ST_FAIL_BY_IF(cli_misused, condition, __VA_ARGS__)

stator_status cli_open(const cli_common *common, stator_ctx **out_ctx);
/* The same, and the plugins found, or a model loaded. CLI_OK, or prints and gives the exit status;
 * what was opened is the caller's in both cases. */
cli_status cli_open_scanned(const cli_common *common, stator_ctx **out_ctx);
cli_status cli_open_model(const cli_common *common, const char *path, stator_ctx **out_ctx,
                          stator_model **out_model);

/* The log of every context that cli_open makes; see cli_log.c. main calls cli_log_begin first. */
void cli_log_begin(void);
void cli_log(void *self, const char *channel, uint32_t level, const char *text);

/* From begin to end, what ends the command inside a plugin's slot is named on stderr; see
 * cli_culprit.c. main alone calls these; the middle one is its cleanup handler. */
void cli_culprit_begin(void);
void cli_culprit_thread_ended(void *unused);
void cli_culprit_end(void);

/* ---- failing ---- */

/* Prints the context's last error (text to stderr, or JSON to stdout) and returns CLI_FAILED. */
cli_status cli_fail_ctx(stator_ctx *ctx, int json);
/* Returns the exit status of what did not end with CLI_OK; of a call of the library, after printing
 * the context's error. */
#define CLI_TRY(expr)                                                                              \
    do {                                                                                           \
        const cli_status cli_status_ = (expr);                                                     \
        if (cli_status_ != CLI_OK) {                                                               \
            return cli_status_;                                                                    \
        }                                                                                          \
    } while (0)
#define CLI_TRY_CTX(ctx, json, expr)                                                               \
    CLI_TRY((expr) == STATOR_OK ? CLI_OK : cli_fail_ctx((ctx), (json)))
/* The same for an error of the command's own. hint may be NULL. */
cli_status cli_fail(int json, const char *code, const char *hint, const char *format, ...)
    STATOR_PRINTF(4, 5);
/* The same where the condition holds. */
#define CLI_FAIL_IF(condition, ...) ST_FAIL_BY_IF(cli_fail, condition, __VA_ARGS__)
/* Returns CLI_FAILED unless it holds; what failed has printed why. */
#define CLI_NEED(is_done) CLI_TRY((is_done) ? CLI_OK : CLI_FAILED)
/* json -1 prints nothing: the text stays here until the next failure. */
const char *cli_last_error(void);
/* ---- items of plugins ---- */

cJSON *cli_item_json(const stator_item_info *info);
/* Its row, and below it state, reason, hint and devices. */
void cli_print_item(const stator_item_info *info, bool with_kind);
/* The item of that kind and name, of several the one that the name means, probed first where
 * `probes`; 0: there is none. */
bool cli_find_item(stator_ctx *ctx, const char *kind, const char *name, int probes,
                   stator_item_info *out_info);
/* The item with its options, and how they are given. One that cannot be used says why, as the
 * listing does. CLI_OK, or prints and gives the exit status. */
cli_status cli_show_item(stator_ctx *ctx, const stator_item_info *info, const char *how_given,
                         int json);

/* Says that there is no backend of that name: did-you-mean and the list. */
cli_status cli_unknown_backend(stator_ctx *ctx, const char *name, int json);
/* ", did you mean 'x'?" for the nearest of the names, or "". */
const char *cli_did_you_mean(const char *word, const char *const *names, uint32_t n, char out[96]);
/* The op of that name; else says so, with the nearest, and gives NULL. */
const stator_op_desc *cli_find_op(stator_ctx *ctx, const char *name, int json);

/* ---- texts of others ---- */

/* Control characters and what is no UTF-8 as \xNN: a name of a model. cli_put_lines leaves newlines
 * and tabs: a message. */
void cli_put(FILE *to, const char *text);
void cli_put_lines(FILE *to, const char *text);
/* JSON is UTF-8, names of files and models are any bytes: U+FFFD stands for what is none. */
void cli_put_utf8(FILE *to, const char *text);
/* The same as cli_put into a buffer, cut to what fits; for printf. */
#define CLI_CLEAN_BYTES 1024u
const char *cli_clean(const char *text, char out[CLI_CLEAN_BYTES]);

/* ---- facts ---- */

/* Prints and frees a JSON value, with a newline. */
void cli_print_json(cJSON *value);
/* Adds a text, or null. */
void cli_json_text(cJSON *object, const char *key, const char *text);
/* A number; "nan", "inf" and "-inf" as strings. */
cJSON *cli_json_number(double value);
cJSON *cli_json_size(int64_t size);
cJSON *cli_json_shape(const DLTensor *view);
/* A number for people: "0.25", "nan" whatever its sign is. */
const char *cli_double_text(double value, char out[32]);
/* The same of one made by cli_json_number. */
const char *cli_number_text(const cJSON *number, char out[32]);

#define CLI_COVERAGE_MAX 16u
uint32_t cli_coverage(stator_function *function, stator_coverage rows[CLI_COVERAGE_MAX]);
/* {total, by_backend: {"eager": nodes}} of a function that was called. */
cJSON *cli_json_coverage(stator_function *function);
/* "a: 3 nodes in 1 partition; b: 1 node in 1 partition", with a newline. */
void cli_print_coverage(stator_function *function);
/* {workspace_bytes, scratch_bytes, ...} of stator_x_memory_of. */
cJSON *cli_json_memory(stator_function *function);

double cli_ms_since(uint64_t start_ns);
void cli_sort(double *values, size_t n); /* ascending */

/* ---- files that are written: cli_file.c ---- */

/* false: said why. A file that was opened must be closed; what could not be written to it shows
 * then, and the old one stays. */
bool cli_file_open(st_out_file *file, const char *path, int json);
bool cli_file_close(st_out_file *file, int json);
/* Could it be written? Asked before long work. */
bool cli_file_check(const char *path, int json);
/* All in one. */
bool cli_write_file(const char *path, const void *bytes, uint64_t size, int json);

/* ---- cli_profile.c ---- */

/* How long steps take, from here to the stop; NULL: said why. */
typedef struct cli_profile cli_profile;
cli_profile *cli_profile_start(stator_ctx *ctx, const char *path, int json);
/* Writes the trace, its events with what explain knows of the steps; CLI_OK, or says why not. */
struct cli_program;
cli_status cli_profile_stop(cli_profile *profile, const struct cli_program *program,
                            const char *path, int json);
void cli_profile_print(const cli_profile *profile);
/* [{step, calls, total_ms, share}], the longest first. */
cJSON *cli_profile_json(const cli_profile *profile);
void cli_profile_free(cli_profile *profile);

/* ---- inputs ---- */

/* Named tensors, as read from files. */
typedef struct cli_tensors {
    stator_ctx *ctx;
    char **names; /* NULL where a file gives no name */
    stator_tensor **tensors;
    uint32_t count;
} cli_tensors;

void cli_tensors_free(cli_tensors *list);
/* Appends; takes over the tensor, copies the name. 0 when out of memory. */
bool cli_tensors_add(cli_tensors *list, const char *name, stator_tensor *tensor);

/* The tensor itself, or a copy of it, in host memory; NULL after a failure. */
stator_status cli_on_host(stator_ctx *ctx, stator_tensor *tensor, stator_tensor **out);

/* Numbers that NumPy has no type for travel as integers: bf16 and f8 as their bits in u16 and u8,
 * i4 and u4 one to an i8 or u8. Brings such a tensor to the dtype that is wanted, and leaves every
 * other as it is. Takes the tensor over; NULL when out of memory. */
stator_tensor *cli_from_numpy(stator_ctx *ctx, stator_dtype wanted, stator_tensor *tensor);
/* The other way, for writing. */
stator_tensor *cli_to_numpy(stator_ctx *ctx, stator_tensor *tensor);

/* Readers: each fills *out_tensor or an error text (errbuf of 512) and returns 1 or 0. Files are
 * hostile: sizes are checked before memory is asked for. */
bool cli_read_npy(stator_ctx *ctx, const char *path, stator_tensor **out_tensor, char *errbuf);
bool cli_parse_npy(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                   char *errbuf);
bool cli_read_npz(stator_ctx *ctx, const char *path, cli_tensors *out, char *errbuf);
bool cli_parse_npz(stator_ctx *ctx, const void *bytes, uint64_t size, cli_tensors *out,
                   char *errbuf);
bool cli_write_npz(const char *path, const cli_tensors *tensors, char *errbuf);
/* Could an archive of that path be written (one is no stream), and hold an array of that name? */
bool cli_check_npz(const char *path, char *errbuf);
bool cli_check_npz_name(const char *name, char *errbuf);
bool cli_read_pb(stator_ctx *ctx, const char *path, stator_tensor **out_tensor, char *errbuf);
bool cli_parse_pb(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                  char *errbuf);
/* f32 CxHxW / 255, then (x - mean) / std; channels as the model's input wants them. */
typedef struct cli_image_norm {
    float mean[4];
    float std[4];
    uint32_t n_mean;
    uint32_t n_std;
} cli_image_norm;
bool cli_read_png(stator_ctx *ctx, const char *path, uint32_t channels, const cli_image_norm *norm,
                  stator_tensor **out_tensor, char *errbuf);
bool cli_parse_png(stator_ctx *ctx, const void *bytes, uint64_t size, uint32_t channels,
                   const cli_image_norm *norm, stator_tensor **out_tensor, char *errbuf);
/* Test-set folder: input_I.pb or output_I.pb ("input", "output") in order of I. */
bool cli_read_pb_folder(stator_ctx *ctx, const char *dir, const char *prefix, cli_tensors *out,
                        char *errbuf);
/* Random contents (floats normal, integers 0 or 1) from a seed; reproducible. */
void cli_fill_random(stator_tensor *tensor, uint64_t seed, uint32_t index);

bool cli_has_input_files(const cli_inputs *flags);
/* The model's inputs in call order, from the flags. On failure prints and returns 0. */
bool cli_load_inputs(stator_ctx *ctx, stator_model *model, const cli_inputs *flags, int json,
                     stator_tensor ***out_in, uint32_t *out_count);

void cli_free_inputs(stator_tensor **in, uint32_t n);
/* The name of output k, "output_K" where the model gives none. */
const char *cli_output_name(const stator_model *model, uint32_t k, char out[32]);

/* --dim N=8, read. */
typedef struct cli_dims {
    char text[64][256];
    const char *names[64];
    int64_t values[64];
    uint32_t count;
} cli_dims;
/* Reads the --dim flags. False after printing that one is malformed. */
bool cli_parse_dims(const cli_list *flags, cli_dims *out, int json);

/* ---- graphs ---- */

/* A model whose graph is looked at: loaded, its symbolic sizes set, brought to a stage. */
typedef struct cli_graph {
    cli_common common;
    cli_inputs inputs;
    cli_stage stage;
    stator_ctx *ctx;
    stator_model *model;
    char assumed[512]; /* assumptions that were needed for a graph; "": none */
    /* Without the nodes that no output needs, for people who look at the graph: frontends leave
     * some, as the indices of a MaxPool that nobody reads. What was written as text stays as it
     * was written, and so does a stage. */
    bool is_tidy;
} cli_graph;
/* CLI_OK, or prints and gives the exit status. Close it in both cases. */
cli_status cli_graph_open(cli_graph *g, const char *path);
void cli_graph_close(cli_graph *g);
/* Writes the graph to the file, adding `file` to root, or its text to stdout, with root NULL, or to
 * root as `text`. CLI_OK, or prints and gives the exit status. */
cli_status cli_graph_write(const cli_graph *g, const char *output, cJSON *root);
/* Prints {file or text, .. , assumed}; takes root over. */
void cli_graph_print_json(const cli_graph *g, cJSON *root);

/* ---- compiling ---- */

/* The number of --budget; whether it lies from 0 to 1 the library says. */
cli_status cli_read_budget(const char *text, int json, double *out_budget);
/* Storage that options of a compile point at. */
typedef struct cli_options_room {
    const char *keys[CLI_OPTIONS_MAX];
    const char *values[CLI_OPTIONS_MAX];
    char texts[CLI_OPTIONS_MAX][256];
} cli_options_room;
/* KEY=VALUE of --backend-option and --pass-option as lists in `room`; 0, and prints, on failure. */
bool cli_split_options(const cli_list *pairs, int json, cli_options_room *room);
/* The flags as options, which borrow from them and from `room`; 0, and prints, on failure. */
bool cli_compile_options(const cli_compile *flags, const char *backend, int json,
                         cli_options_room *room, stator_compile_options *out);
/* stator_compile with these flags; prints on failure (status 3) and returns NULL. */
stator_function *cli_compile_model(stator_ctx *ctx, stator_model *model, const cli_compile *flags,
                                   const char *backend, int json);

/* A model on a backend with inputs for a call. */
typedef struct cli_program {
    stator_ctx *ctx;
    stator_model *model;
    stator_function *function;
    stator_tensor **in;
    uint32_t n_in;
} cli_program;

/* The settings that a program is made with; borrowed. */
typedef struct cli_program_flags {
    const cli_common *common;
    const cli_inputs *inputs;
    const cli_compile *compile;
    const char *backend; /* in the place of compile->backend's */
} cli_program_flags;

/* Opens a context, loads, names the backend and reads the inputs. CLI_OK, or prints and gives the
 * exit status. Close it in both cases. */
cli_status cli_program_open(cli_program *p, const cli_program_flags *flags, const char *path);
void cli_program_close(cli_program *p);

/* ---- comparing ---- */

/* Adds max_abs_err, max_rel_err and ok. */
void cli_json_difference(cJSON *row, const st_difference *difference);
const char *cli_dtype_name(stator_dtype dtype);

/* ---- subcommands ---- */

#define CLI_COMMAND(name, function, help, positional, summary)                                     \
    cli_status function(int argc, char **argv);
#include "tools/commands.def"
#undef CLI_COMMAND

#endif
