/* Command lines: option tables, help, contexts, errors. See cli.h. */
#include "tools/cli/cli.h"

#include "core/base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the subcommands ---- */

typedef struct cli_command {
    const char *name, *positional, *summary;
} cli_command;

static const cli_command rows[] = {
#define CLI_COMMAND(name, function, help, positional, summary) {name, positional, summary},
#include "tools/commands.def"
#undef CLI_COMMAND
};

static const cli_command *row_of(const char *name)
{
    size_t i = sizeof rows / sizeof rows[0] - 1;
    while (i > 0 && strcmp(rows[i].name, name) != 0) {
        i--;
    }
    return &rows[i];
}

/* ---- the options that several subcommands have ---- */

enum option_group {
    GROUP_TOLERANCE = 1,
    GROUP_STAGE = 2,
    GROUP_INPUTS = 3,
    GROUP_RANDOM = 4,
    GROUP_BACKEND = 5,
    GROUP_COMPILE = 6,
    GROUP_COMMON = 7,
    GROUP_THREADS = 8
};

typedef struct shared_option {
    uint32_t group;
    uint32_t kind;
    size_t offset; /* position of the target in the group's struct */
    const char *name, *value_name, *help;
} shared_option;

#define AT(group, field) offsetof(cli_##group, field)
/* clang-format off */
static const shared_option shared[] = {
    {GROUP_TOLERANCE, CLI_REAL, offsetof(st_tolerance, rtol), "--rtol", "R", "relative tolerance (default: see below)"},
    {GROUP_TOLERANCE, CLI_REAL, offsetof(st_tolerance, atol), "--atol", "A", "absolute tolerance (default: see below)"},
    {GROUP_STAGE, CLI_TEXT, AT(stage, after), "--after", "PASS", "the graph after this stage of the pipeline"},
    {GROUP_STAGE, CLI_TEXT, AT(stage, backend), "--backend", "NAME", "whose pipeline --after means"},
    {GROUP_INPUTS, CLI_TEXT, AT(inputs, inputs), "--inputs", "DIR|FILE.npz", "inputs: a folder of input_I.pb, or npz"},
    {GROUP_INPUTS, CLI_LIST, AT(inputs, input), "--input", "NAME=FILE.npy", "one input"},
    {GROUP_INPUTS, CLI_LIST, AT(inputs, image), "--image", "NAME=FILE.png", "one input from a picture"},
    {GROUP_INPUTS, CLI_REALS, AT(inputs, mean), "--mean", "M,..", "subtracted from picture channels"},
    {GROUP_INPUTS, CLI_REALS, AT(inputs, std), "--std", "S,..", "divides picture channels"},
    {GROUP_RANDOM, CLI_NUMBER, AT(inputs, random), "--random", "SEED", "random inputs (the default, seed 0)"},
    {GROUP_RANDOM, CLI_SIZES, AT(inputs, dim), "--dim", "N=8", "size of a symbolic dimension (default 1)"},
    {GROUP_BACKEND, CLI_TEXT, 0, "--backend", "NAME", "backend (default: highest priority)"},
    {GROUP_COMPILE, CLI_TEXT, AT(compile, mode), "--mode", "MODE", "default, reduce-overhead, max-autotune, ..."},
    {GROUP_COMPILE, CLI_PAIRS, AT(compile, options), "--backend-option", "K=V", "an option of the backend"},
    {GROUP_COMPILE, CLI_PASS_PAIRS, AT(compile, options), "--pass-option", "PASS:K=V", "an option of a plugin's pass"},
    {GROUP_COMPILE, CLI_FLAG, AT(compile, strict), "--strict", NULL, "nodes left to another backend are an error"},
    {GROUP_COMPILE, CLI_FLAG, AT(compile, strict_sizes), "--strict-sizes", NULL, "other sizes than the model declares are an error"},
    {GROUP_COMPILE, CLI_FLAG, AT(compile, strict_copies), "--strict-copies", NULL, "values that parts hand on from one memory to another are an error"},
    {GROUP_COMPILE, CLI_TEXT, AT(compile, device), "--device", "NAME:N", "device N of backend NAME, as cuda:1 (default 0)"},
    {GROUP_COMPILE, CLI_TEXT, AT(compile, fallback), "--fallback", "NAME", "use this if the backend is there but unavailable"},
    {GROUP_COMPILE, CLI_TEXT, AT(compile, node_fallbacks), "--node-fallbacks", "A,B", "nodes that the backend leaves go to the first of these (default eager)"},
    {GROUP_COMMON, CLI_FLAG, AT(common, json), "--json", NULL, "print facts as JSON"},
    {GROUP_COMMON, CLI_LIST, AT(common, plugin_dirs), "--plugin-dir", "DIR", "look for plugins here too"},
    {GROUP_COMMON, CLI_TEXT, AT(common, logs), "--logs", "NAMES", "log these channels on stderr (as STATOR_LOGS)"},
    {GROUP_THREADS, CLI_NUMBER, 0, "--threads", "T", "threads to use (0: all cores)"}};
/* clang-format on */
#define SHARED_COUNT (sizeof shared / sizeof shared[0])

#define THREADS_MAX 4096

/* Options that say nothing without another one. */
static const struct {
    const char *name, *needs;
} needs[] = {{"--mean", "--image"}, {"--std", "--image"}, {"--top", "--labels"}};

/* Where the subcommand wants a group, NULL when it takes none of it. */
static void *target_of(const cli_usage *usage, uint32_t group)
{
    switch (group) {
    case GROUP_TOLERANCE:
        return usage->tolerance;
    case GROUP_STAGE:
        return usage->stage;
    case GROUP_INPUTS:
        return usage->inputs;
    case GROUP_RANDOM:
        return usage->inputs != NULL ? usage->inputs : usage->random;
    case GROUP_BACKEND:
        return usage->backend;
    case GROUP_COMPILE:
        return usage->compile;
    case GROUP_THREADS:
        return usage->computes || usage->inputs != NULL || usage->random != NULL ||
                       usage->compile != NULL
                   ? &usage->common->threads
                   : NULL;
    default:
        return usage->common;
    }
}

/* Every option of the subcommand, its own first: fills *out with number *at and counts it up; 0 at
 * the end. */
static bool next_option(const cli_usage *usage, size_t *at, cli_option *out)
{
    size_t n_own = 0;
    while (usage->own != NULL && usage->own[n_own].name != NULL) {
        n_own++;
    }
    if (*at < n_own) {
        *out = usage->own[(*at)++];
        return true;
    }
    while (*at - n_own < SHARED_COUNT) {
        const shared_option *s = &shared[(*at)++ - n_own];
        char *target = target_of(usage, s->group);
        if (target != NULL) {
            *out = (cli_option){s->name, s->kind, target + s->offset, s->value_name, s->help};
            return true;
        }
    }
    return false;
}

static bool find_option(const cli_usage *usage, const char *name, size_t len, cli_option *out)
{
    for (size_t at = 0; next_option(usage, &at, out);) {
        if (strlen(out->name) == len && strncmp(out->name, name, len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- help and complaints ---- */

static void print_option(const char *name, const char *value_name, const char *help)
{
    char left[64];
    (void)snprintf(left, sizeof left, "%s%s%s", name, value_name != NULL ? " " : "",
                   value_name != NULL ? value_name : "");
    (void)printf("  %-26s %s\n", left, help);
}

static void print_usage(const cli_usage *usage)
{
    cli_option o;
    const cli_command *row = usage->row;
    (void)printf("usage: stator %s%s%s [OPTIONS]\n%s\n\n", row->name,
                 row->positional[0] != '\0' ? " " : "", row->positional, row->summary);
    for (size_t at = 0; next_option(usage, &at, &o);) {
        print_option(o.name, o.value_name, o.help);
    }
    print_option("--help", NULL, "this text (-h)");
    if (usage->tolerance != NULL) {
        (void)printf("\n%s", ST_COMPARE_RULE);
    }
}

cli_status cli_misused(const cli_usage *usage, const char *format, ...)
{
    va_list args;
    char text[2048];
    (void)fprintf(stderr, "stator %s: ", usage->row->name);
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_put(stderr, text);
    (void)fprintf(stderr, "; see stator %s --help\n", usage->row->name);
    return CLI_USAGE;
}

static cli_status unknown_option(const cli_usage *usage, const char *arg)
{
    const char *names[96];
    cli_option o;
    char near[96];
    uint32_t n = 0;
    for (size_t at = 0; n < 96 && next_option(usage, &at, &o);) {
        names[n++] = o.name;
    }
    return cli_misused(usage, "there is no option '%s'%s", arg,
                       cli_did_you_mean(arg, names, n, near));
}

/* ---- reading ---- */

/* Is the option given several times? */
static bool is_list(const cli_option *o)
{
    return o->kind == CLI_LIST || o->kind == CLI_PAIRS || o->kind == CLI_SIZES ||
           o->kind == CLI_PASS_PAIRS;
}

static bool add_to_list(cli_list *list, const char *text)
{
    if (list->count == sizeof list->items / sizeof list->items[0]) {
        return false;
    }
    list->items[list->count++] = text;
    return true;
}

/* 1 when the text, which has the form, is a whole value of the option's kind. */
static bool store_value(const cli_option *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    switch (o->kind) {
    case CLI_TEXT:
    case CLI_REALS:
        *(const char **)o->target = text;
        return true;
    case CLI_NUMBER:
        *(int64_t *)o->target = strtoll(text, &end, 10);
        return end != text && *end == '\0' && errno == 0 && *(int64_t *)o->target >= 0;
    case CLI_REAL:
        *(double *)o->target = strtod(text, &end);
        return end != text && *end == '\0' && *(double *)o->target >= 0;
    default:
        return is_list(o) && add_to_list(o->target, text);
    }
}

/* KEY=VALUE, with a whole number where is_size. */
static bool is_pair(const char *text, bool is_size)
{
    const char *equals = strchr(text, '=');
    char *end = NULL;
    if (equals == NULL || equals == text) {
        return false;
    }
    errno = 0;
    const long long value = is_size ? strtoll(equals + 1, &end, 10) : 0;
    return !is_size || (end != equals + 1 && *end == '\0' && errno == 0 && value >= 0);
}

/* Numbers between commas. */
static bool is_numbers(const char *text)
{
    for (;;) {
        char *end = NULL;
        (void)strtof(text, &end);
        if (end == text || (*end != ',' && *end != '\0')) {
            return false;
        }
        if (*end == '\0') {
            return true;
        }
        text = end + 1;
    }
}

/* Is it what options of that kind are given? Numbers are seen as they are read. */
static bool has_form(const cli_option *o, const char *text)
{
    switch (o->kind) {
    case CLI_PASS_PAIRS:
        return is_pair(text, false) && strcspn(text, ":") < strcspn(text, "=");
    case CLI_PAIRS:
    case CLI_SIZES:
        return is_pair(text, o->kind == CLI_SIZES);
    case CLI_REALS:
        return is_numbers(text);
    default:
        return true;
    }
}

static cli_status bad_value(const cli_usage *usage, const cli_option *o, const char *value)
{
    CLI_MISUSED_IF(is_list(o) && value != NULL && has_form(o, value), usage,
                   "%s may be given at most %zu times", o->name,
                   sizeof((cli_list *)0)->items / sizeof(char *));
    return cli_misused(
        usage, "%s wants %s%s%s%s", o->name, o->value_name != NULL ? o->value_name : "no value",
        value != NULL ? ", not '" : "", value != NULL ? value : "", value != NULL ? "'" : "");
}

typedef struct line {
    const cli_usage *usage;
    int argc;
    char **argv;
    int at;
    const char *given[96]; /* names of the options read */
    uint32_t n_given;
} line;

/* The option at argv[at]; CLI_GO_ON to go on. */
static cli_status take_option(line *l)
{
    const char *arg = l->argv[l->at];
    const char *equals = strchr(arg, '=');
    const size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    cli_option o;
    if (strcmp(arg, "-o") == 0 ? !find_option(l->usage, "--output", 8, &o)
                               : !find_option(l->usage, arg, len, &o)) {
        return unknown_option(l->usage, arg);
    }
    if (l->n_given < sizeof l->given / sizeof l->given[0]) {
        l->given[l->n_given++] = o.name;
    }
    if (o.kind == CLI_FLAG && equals == NULL) {
        *(int *)o.target = 1;
        return CLI_GO_ON;
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (equals == NULL && l->at + 1 < l->argc && strncmp(l->argv[l->at + 1], "--", 2) != 0) {
        value = l->argv[++l->at]; /* a word that begins with two dashes is the next option */
    }
    return value != NULL && has_form(&o, value) && store_value(&o, value)
               ? CLI_GO_ON
               : bad_value(l->usage, &o, value);
}

static bool is_given(const line *l, const char *name)
{
    for (uint32_t i = 0; i < l->n_given; i++) {
        if (strcmp(l->given[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Options that would be ignored are an error: CLI_GO_ON when there is none. */
static cli_status check_given(const line *l)
{
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        CLI_MISUSED_IF(is_given(l, needs[i].name) && !is_given(l, needs[i].needs), l->usage,
                       "%s is of use only with %s", needs[i].name, needs[i].needs);
    }
    CLI_MISUSED_IF(l->usage->common->threads > THREADS_MAX, l->usage, "--threads is at most %d",
                   THREADS_MAX);
    static const char *const files[] = {"--inputs", "--input", "--image"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        CLI_MISUSED_IF(is_given(l, "--random") && is_given(l, files[i]), l->usage,
                       "--random fills every input; leave it or %s out", files[i]);
    }
    return CLI_GO_ON;
}

/* A folder that is named must be there: a misspelt one would only look like missing plugins. */
static cli_status check_plugin_dirs(const cli_common *common)
{
    for (uint32_t i = 0; i < common->plugin_dirs.count; i++) {
        const char *dir = common->plugin_dirs.items[i];
        struct stat st;
        CLI_FAIL_IF(stat(dir, &st) != 0, common->json, "NOT_FOUND", NULL, "--plugin-dir '%s': %s",
                    dir, strerror(errno));
        CLI_FAIL_IF(!S_ISDIR(st.st_mode), common->json, "NOT_FOUND",
                    "STATOR_PLUGIN_FILES names single files", "--plugin-dir '%s' is not a folder",
                    dir);
    }
    return CLI_GO_ON;
}

/* A pipe cannot be read twice. CLI_GO_ON: the model is no pipe. */
static cli_status check_file(const cli_usage *usage, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode)
               ? cli_fail(
                     usage->common->json, "INVALID_ARGUMENT", "write the model to a file first",
                     "%s loads the model several times, and '%s' is a pipe", usage->row->name, path)
               : CLI_GO_ON;
}

cli_status cli_parse(cli_usage *usage, int argc, char **argv, const char **words)
{
    line l = {.usage = usage, .argc = argc, .argv = argv};
    usage->row = row_of(argv[0]);
    const char *positional = usage->row->positional;
    const uint32_t wanted = positional[0] == '\0'             ? 0
                            : strchr(positional, ' ') == NULL ? 1
                                                              : 2; /* "OP CASE" */
    uint32_t n = 0;
    bool only_positional = false;
    for (l.at = 1; l.at < argc; l.at++) {
        const char *arg = argv[l.at];
        const bool is_option = !only_positional && arg[0] == '-' && arg[1] != '\0';
        if (is_option && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            print_usage(usage);
            return CLI_OK;
        }
        if (is_option && strcmp(arg, "--") == 0) {
            only_positional = true;
        } else if (is_option) {
            const cli_status status = take_option(&l);
            if (status != CLI_GO_ON) {
                return status;
            }
        } else if (n < wanted) {
            const bool is_model = n == 0 && strncmp(positional, "MODEL", 5) == 0;
            words[n++] = is_model && strcmp(arg, "-") == 0 ? "/dev/stdin" : arg;
        } else {
            return cli_misused(usage, "'%s' is one argument too many", arg);
        }
    }
    CLI_MISUSED_IF(n < wanted && positional[0] != '[', usage, "%s is missing", positional);
    cli_status status = check_given(&l);
    if (status == CLI_GO_ON && usage->reads_again && n > 0) {
        status = check_file(usage, words[0]);
    }
    return status != CLI_GO_ON ? status : check_plugin_dirs(usage->common);
}

stator_status cli_open(const cli_common *common, stator_ctx **out_ctx)
{
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .threads = (int32_t)common->threads,
                                        .plugin_dir_count = common->plugin_dirs.count,
                                        .plugin_dirs = common->plugin_dirs.items,
                                        .log = common->log != NULL ? common->log : cli_log,
                                        .log_self = common->log_self,
                                        .log_channels = common->logs};
    return stator_ctx_create(&options, out_ctx);
}

/* ---- failing ---- */

/* The command is one thread; a child of `stator conform` reports its failure through this. */
static char last_error[2048 + 64]; /* a text of cli_fail behind its code */

const char *cli_last_error(void)
{
    return last_error;
}

static cli_status print_error(int json, const char *code, const char *message, const char *hint)
{
    (void)snprintf(last_error, sizeof last_error, "%.60s: %s", code, message);
    CLI_NEED(json >= 0);
    if (!json) {
        (void)fprintf(stderr, "stator: ");
        cli_put_lines(stderr, message);
        (void)fprintf(stderr, "\n");
        if (hint != NULL && hint[0] != '\0') {
            (void)fprintf(stderr, "hint: ");
            cli_put_lines(stderr, hint);
            (void)fprintf(stderr, "\n");
        }
        return CLI_FAILED;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(root, "error");
    cJSON_AddStringToObject(error, "code", code);
    cJSON_AddStringToObject(error, "message", message);
    cli_json_text(error, "hint", hint != NULL && hint[0] != '\0' ? hint : NULL);
    cli_print_json(root);
    return CLI_FAILED;
}

cli_status cli_fail_ctx(stator_ctx *ctx, int json)
{
    if (ctx == NULL) {
        return print_error(json, "RESOURCE_EXHAUSTED", "cannot make a context", NULL);
    }
    return print_error(json, stator_status_name(stator_ctx_error_code(ctx)),
                       stator_ctx_error_text(ctx), stator_ctx_error_hint(ctx));
}

cli_status cli_fail(int json, const char *code, const char *hint, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return print_error(json, code, text, hint);
}

cli_status cli_open_scanned(const cli_common *common, stator_ctx **out_ctx)
{
    const bool is_ok =
        cli_open(common, out_ctx) == STATOR_OK && stator_ctx_scan(*out_ctx) == STATOR_OK;
    return is_ok ? CLI_OK : cli_fail_ctx(*out_ctx, common->json);
}

cli_status cli_open_model(const cli_common *common, const char *path, stator_ctx **out_ctx,
                          stator_model **out_model)
{
    const bool is_ok = cli_open(common, out_ctx) == STATOR_OK &&
                       stator_model_load(*out_ctx, path, NULL, out_model) == STATOR_OK;
    return is_ok ? CLI_OK : cli_fail_ctx(*out_ctx, common->json);
}

const char *cli_did_you_mean(const char *word, const char *const *names, uint32_t n, char out[96])
{
    const char *near = st_nearest(word, names, n);
    out[0] = '\0';
    if (near != NULL) {
        (void)snprintf(out, 96, ", did you mean '%.60s'?", near);
    }
    return out;
}

cli_status cli_unknown_backend(stator_ctx *ctx, const char *name, int json)
{
    /* The registry's own text: asked by way of the pipeline of that backend. */
    return stator_x_pipeline(ctx, name, NULL, NULL) == STATOR_OK ? CLI_OK : cli_fail_ctx(ctx, json);
}
