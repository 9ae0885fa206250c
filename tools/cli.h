/* The stator command: what its subcommands share. One file a subcommand (cmd_<name>.c), one row
 * each in commands.def. Exit status: 0 ok, 1 a wrong answer, 2 a command line that cannot be
 * parsed, 3 any failure (unknown names, files and devices among them). With --json an error is
 * {"error": {code, message, hint}} on stdout. */
#ifndef STATOR_CLI_H
#define STATOR_CLI_H

#include <cjson/cJSON.h>
#include <stator/inspect.h>
#include <stdio.h>

enum cli_status { CLI_OK = 0, CLI_WRONG = 1, CLI_USAGE = 2, CLI_FAILED = 3 };

/* ---- options ---- */

enum cli_option_kind {
    CLI_FLAG = 1,   /* sets an int to 1 */
    CLI_TEXT = 2,   /* const char * */
    CLI_NUMBER = 3, /* int64_t, 0 or more */
    CLI_REAL = 4,   /* double */
    CLI_LIST = 5    /* repeatable, cli_list */
};

typedef struct cli_list {
    const char *items[64];
    uint32_t count;
} cli_list;

typedef struct cli_option {
    const char *name; /* "--json" */
    uint32_t kind;
    void *target;
    const char *value_name; /* "FILE" in the help */
    const char *help;
} cli_option;

/* Reads argv[1..] into options and at most max_positional positional arguments. Returns -1 to go
 * on, else the exit status (0 after --help, 2 on a bad line, whose text went to stderr). */
typedef struct cli_usage {
    const char *command;    /* "run" */
    const char *positional; /* "MODEL" */
    const char *summary;
    const cli_option *const
        *tables; /* option tables, each ended by a row without name; NULL ends */
} cli_usage;
int cli_parse(const cli_usage *usage, int argc, char **argv, const char **positional,
              uint32_t max_positional, uint32_t *out_count);

/* Options every subcommand has. */
typedef struct cli_common {
    int json;
    cli_list plugin_dirs;
    int64_t threads;
} cli_common;
#define CLI_COMMON_ROWS(c)                                                                         \
    {"--json", CLI_FLAG, &(c)->json, NULL, "print facts as JSON"},                                 \
        {"--plugin-dir", CLI_LIST, &(c)->plugin_dirs, "DIR", "look for plugins here too"},         \
        {"--threads", CLI_NUMBER, &(c)->threads, "T", "threads to use (0: all cores)"},            \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL                                                                  \
    }

stator_status cli_open(const cli_common *common, stator_ctx **out_ctx);

/* The log of every context that cli_open makes; see cli_log.c. main calls cli_log_begin first. */
void cli_log_begin(void);
void cli_log(void *self, const char *channel, uint32_t level, const char *text);

/* ---- failing ---- */

/* Prints the context's last error (text to stderr, or JSON to stdout) and returns CLI_FAILED. */
int cli_fail_ctx(stator_ctx *ctx, int json);
/* The same for an error of the command's own. hint may be NULL. */
int cli_fail(int json, const char *code, const char *hint, const char *format, ...)
    STATOR_PRINTF(4, 5);
/* json -1 prints nothing: the text stays here until the next failure. */
const char *cli_last_error(void);
/* Says that there is no backend of that name: did-you-mean and the list. */
int cli_unknown_backend(stator_ctx *ctx, const char *name, int json);
/* Prints and frees a JSON value, with a newline. */
void cli_print_json(cJSON *value);

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
int cli_tensors_add(cli_tensors *list, const char *name, stator_tensor *tensor);

/* Readers: each fills *out_tensor or an error text (errbuf of 512) and returns 1 or 0. Files are
 * hostile: sizes are checked before memory is asked for. */
int cli_read_npy(stator_ctx *ctx, const char *path, stator_tensor **out_tensor, char *errbuf);
int cli_parse_npy(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                  char *errbuf);
int cli_read_npz(stator_ctx *ctx, const char *path, cli_tensors *out, char *errbuf);
int cli_parse_npz(stator_ctx *ctx, const void *bytes, uint64_t size, cli_tensors *out,
                  char *errbuf);
int cli_write_npz(const char *path, const cli_tensors *tensors, char *errbuf);
int cli_read_pb(stator_ctx *ctx, const char *path, stator_tensor **out_tensor, char *errbuf);
int cli_parse_pb(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                 char *errbuf);
/* f32 CxHxW / 255, then (x - mean) / std; channels as the model's input wants them. */
typedef struct cli_image_norm {
    float mean[4];
    float std[4];
    uint32_t n_mean;
    uint32_t n_std;
} cli_image_norm;
int cli_read_png(stator_ctx *ctx, const char *path, uint32_t channels, const cli_image_norm *norm,
                 stator_tensor **out_tensor, char *errbuf);
int cli_parse_png(stator_ctx *ctx, const void *bytes, uint64_t size, uint32_t channels,
                  const cli_image_norm *norm, stator_tensor **out_tensor, char *errbuf);
/* Test-set folder: input_I.pb or output_I.pb ("input", "output") in order of I. */
int cli_read_pb_folder(stator_ctx *ctx, const char *dir, const char *prefix, cli_tensors *out,
                       char *errbuf);
/* Random contents (floats normal, integers 0 or 1) from a seed; reproducible. */
void cli_fill_random(stator_tensor *tensor, uint64_t seed, uint32_t index);

/* The input flags of every subcommand that runs a model. */
typedef struct cli_inputs {
    const char *inputs; /* DIR or FILE.npz */
    cli_list input;     /* NAME=FILE.npy */
    cli_list image;     /* NAME=FILE.png */
    const char *mean;   /* comma lists */
    const char *std;
    int64_t random; /* seed, -1 when not given */
    cli_list dim;   /* N=8 */
} cli_inputs;
#define CLI_INPUT_ROWS(i)                                                                          \
    {"--inputs", CLI_TEXT, &(i)->inputs, "DIR|FILE.npz",                                           \
     "inputs: a folder of input_I.pb, or npz"},                                                    \
        {"--input", CLI_LIST, &(i)->input, "NAME=FILE.npy", "one input"},                          \
        {"--image", CLI_LIST, &(i)->image, "NAME=FILE.png", "one input from a picture"},           \
        {"--mean", CLI_TEXT, &(i)->mean, "M,..", "subtracted from picture channels"},              \
        {"--std", CLI_TEXT, &(i)->std, "S,..", "divides picture channels"},                        \
        {"--random", CLI_NUMBER, &(i)->random, "SEED", "random inputs (the default, seed 0)"},     \
        {"--dim", CLI_LIST, &(i)->dim, "N=8", "size of a symbolic dimension (default 1)"},         \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL                                                                  \
    }

/* The model's inputs in call order, from the flags. On failure prints and returns 0. */
int cli_load_inputs(stator_ctx *ctx, stator_model *model, const cli_inputs *flags, int json,
                    stator_tensor ***out_in, uint32_t *out_count);

void cli_free_inputs(stator_tensor **in, uint32_t n);

/* --dim N=8, read. */
typedef struct cli_dims {
    char text[64][256];
    const char *names[64];
    int64_t values[64];
    uint32_t count;
} cli_dims;
/* On a malformed one prints and returns 0. */
int cli_parse_dims(const cli_list *flags, cli_dims *out, int json);

/* ---- graphs ---- */

/* A model whose graph is looked at: loaded, its symbolic sizes set, brought to a stage. */
typedef struct cli_graph {
    cli_common common;
    cli_inputs inputs;
    const char *after;   /* stage, or NULL */
    const char *backend; /* whose pipeline */
    stator_ctx *ctx;
    stator_model *model;
} cli_graph;
#define CLI_STAGE_ROWS(g)                                                                          \
    {"--after", CLI_TEXT, &(g)->after, "PASS", "the graph after this stage of the pipeline"},      \
        {"--backend", CLI_TEXT, &(g)->backend, "NAME", "whose pipeline --after means"},            \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL                                                                  \
    }

/* CLI_OK, or prints and gives the exit status. Close it in both cases. */
int cli_graph_open(cli_graph *g, const char *path);
void cli_graph_close(cli_graph *g);

/* ---- compiling ---- */

typedef struct cli_compile {
    const char *backend;
    const char *mode;
    cli_list options; /* K=V */
    int strict;
    const char *fallback;
    int64_t fuel; /* see stator_compile_options; no option of the command line */
    const char *fuel_scope;
    uint32_t compile_flags; /* more of stator_compile_flag */
} cli_compile;
/* CLI_MODE_ROWS: for commands that name their backends in another way. */
#define CLI_MODE_ROWS(c)                                                                           \
    {"--mode", CLI_TEXT, &(c)->mode, "MODE", "default, reduce-overhead, max-autotune, ..."},       \
        {"--backend-option", CLI_LIST, &(c)->options, "K=V", "an option of the backend"},          \
        {"--strict", CLI_FLAG, &(c)->strict, NULL, "nodes left to another backend are an error"},  \
        {"--fallback", CLI_TEXT, &(c)->fallback, "NAME",                                           \
         "use this if the backend is there but unavailable"},                                      \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL                                                                  \
    }
#define CLI_COMPILE_ROWS(c)                                                                        \
    {"--backend", CLI_TEXT, &(c)->backend, "NAME", "backend (default: highest priority)"},         \
        CLI_MODE_ROWS(c)

/* stator_compile with these flags; prints on failure (status 3) and returns NULL. */
stator_function *cli_compile_model(stator_ctx *ctx, stator_model *model, const cli_compile *flags,
                                   const char *backend, int json);

/* ---- comparing ---- */

typedef struct cli_difference {
    double max_abs; /* NaN or inf where they differ so */
    double max_rel;
    int ok;
    const char *reason; /* NULL when ok: "dtype", "shape", "values" */
} cli_difference;
/* |a - b| <= atol + rtol*|b|; NaN equals NaN, inf by sign; bf16 also within 2 ulp. */
void cli_compare(const DLTensor *got, const DLTensor *want, double rtol, double atol,
                 cli_difference *out);
/* A number for JSON: "nan", "inf" as strings. */
cJSON *cli_json_number(double value);
const char *cli_dtype_name(stator_dtype dtype);

/* ---- subcommands ---- */

#define CLI_COMMAND(name, function, help) int function(int argc, char **argv);
#include "commands.def"
#undef CLI_COMMAND

#endif
