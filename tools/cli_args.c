/* Command lines: option tables, help, contexts, errors. See cli.h. */
#include "cli.h"

#include "core/base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_option *find_option(const cli_usage *usage, const char *name, size_t len)
{
    for (size_t t = 0; usage->tables[t] != NULL; t++) {
        for (const cli_option *o = usage->tables[t]; o->name != NULL; o++) {
            if (strlen(o->name) == len && strncmp(o->name, name, len) == 0) {
                return o;
            }
        }
    }
    return NULL;
}

static void print_usage(const cli_usage *usage, FILE *out)
{
    (void)fprintf(out, "usage: stator %s%s%s [OPTIONS]\n%s\n\n", usage->command,
                  usage->positional[0] != '\0' ? " " : "", usage->positional, usage->summary);
    for (size_t t = 0; usage->tables[t] != NULL; t++) {
        for (const cli_option *o = usage->tables[t]; o->name != NULL; o++) {
            char left[64];
            (void)snprintf(left, sizeof left, "%s %s", o->name,
                           o->value_name != NULL ? o->value_name : "");
            (void)fprintf(out, "  %-26s %s\n", left, o->help);
        }
    }
    (void)fprintf(out, "  %-26s %s\n", "--help", "this text");
}

static int unknown_option(const cli_usage *usage, const char *arg)
{
    const char *names[96];
    uint32_t n = 0;
    for (size_t t = 0; usage->tables[t] != NULL; t++) {
        for (const cli_option *o = usage->tables[t]; o->name != NULL && n < 96; o++) {
            names[n++] = o->name;
        }
    }
    const char *near = st_nearest(arg, names, n);
    (void)fprintf(stderr, "stator %s: there is no option '%s'%s%s%s; see stator %s --help\n",
                  usage->command, arg, near != NULL ? ", did you mean '" : "",
                  near != NULL ? near : "", near != NULL ? "'?" : "", usage->command);
    return CLI_USAGE;
}

/* 1 when the text is a whole value of the option's kind. */
static int store_value(const cli_option *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    switch (o->kind) {
    case CLI_TEXT:
        *(const char **)o->target = text;
        return 1;
    case CLI_NUMBER:
        *(int64_t *)o->target = strtoll(text, &end, 10);
        return end != text && *end == '\0' && errno == 0 && *(int64_t *)o->target >= 0;
    case CLI_REAL:
        *(double *)o->target = strtod(text, &end);
        return end != text && *end == '\0';
    case CLI_LIST: {
        cli_list *list = o->target;
        if (list->count == sizeof list->items / sizeof list->items[0]) {
            return 0;
        }
        list->items[list->count++] = text;
        return 1;
    }
    default:
        return 0;
    }
}

/* One option at argv[*i]; -1 to go on. */
static int take_option(const cli_usage *usage, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    const char *equals = strchr(arg, '=');
    const size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    const cli_option *o = find_option(usage, arg, len);
    if (o == NULL) {
        return unknown_option(usage, arg);
    }
    if (o->kind == CLI_FLAG) {
        *(int *)o->target = 1;
        if (equals == NULL) {
            return -1;
        }
    }
    const char *value = equals != NULL ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    if (value == NULL || !store_value(o, value)) {
        (void)fprintf(stderr, "stator %s: %s wants %s%s%s\n", usage->command, o->name,
                      o->value_name != NULL ? o->value_name : "no value",
                      value != NULL ? ", not " : "", value != NULL ? value : "");
        return CLI_USAGE;
    }
    return -1;
}

int cli_parse(const cli_usage *usage, int argc, char **argv, const char **positional,
              uint32_t max_positional, uint32_t *out_count)
{
    uint32_t n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_usage(usage, stdout);
            return CLI_OK;
        }
        if (strcmp(argv[i], "-o") == 0) {
            argv[i] = (char *)(uintptr_t)"--output";
        }
        if (argv[i][0] == '-' && argv[i][1] == '-') {
            const int status = take_option(usage, argc, argv, &i);
            if (status >= 0) {
                return status;
            }
        } else if (n < max_positional) {
            positional[n++] = argv[i];
        } else {
            (void)fprintf(stderr,
                          "stator %s: '%s' is one argument too many; see stator %s --help\n",
                          usage->command, argv[i], usage->command);
            return CLI_USAGE;
        }
    }
    *out_count = n;
    if (n < max_positional && usage->positional[0] != '\0' && usage->positional[0] != '[') {
        (void)fprintf(stderr, "stator %s: %s is missing; see stator %s --help\n", usage->command,
                      usage->positional, usage->command);
        return CLI_USAGE;
    }
    return -1;
}

stator_status cli_open(const cli_common *common, stator_ctx **out_ctx)
{
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .threads = (int32_t)common->threads,
                                        .plugin_dir_count = common->plugin_dirs.count,
                                        .plugin_dirs = common->plugin_dirs.items,
                                        .log = cli_log};
    return stator_ctx_create(&options, out_ctx);
}

/* ---- failing ---- */

/* The command is one thread; a child of `stator conform` reports its failure through this. */
static char last_error[2048];

const char *cli_last_error(void)
{
    return last_error;
}

static int print_error(int json, const char *code, const char *message, const char *hint)
{
    (void)snprintf(last_error, sizeof last_error, "%s: %s", code, message);
    if (json < 0) {
        return CLI_FAILED;
    }
    if (!json) {
        (void)fprintf(stderr, "stator: %s\n", message);
        if (hint != NULL && hint[0] != '\0') {
            (void)fprintf(stderr, "hint: %s\n", hint);
        }
        return CLI_FAILED;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(root, "error");
    cJSON_AddStringToObject(error, "code", code);
    cJSON_AddStringToObject(error, "message", message);
    if (hint != NULL && hint[0] != '\0') {
        cJSON_AddStringToObject(error, "hint", hint);
    } else {
        cJSON_AddNullToObject(error, "hint");
    }
    cli_print_json(root);
    return CLI_FAILED;
}

int cli_fail_ctx(stator_ctx *ctx, int json)
{
    if (ctx == NULL) {
        return print_error(json, "RESOURCE_EXHAUSTED", "cannot make a context", NULL);
    }
    return print_error(json, stator_status_name(stator_ctx_error_code(ctx)),
                       stator_ctx_error_text(ctx), stator_ctx_error_hint(ctx));
}

int cli_fail(int json, const char *code, const char *hint, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return print_error(json, code, text, hint);
}

int cli_unknown_backend(stator_ctx *ctx, const char *name, int json)
{
    /* The registry's own text: asked by way of the pipeline of that backend. */
    return stator_x_pipeline(ctx, name, NULL, NULL) == STATOR_OK ? CLI_OK : cli_fail_ctx(ctx, json);
}

void cli_print_json(cJSON *value)
{
    char *text = cJSON_Print(value);
    (void)printf("%s\n", text != NULL ? text : "{\"error\": {\"code\": \"RESOURCE_EXHAUSTED\"}}");
    cJSON_free(text);
    cJSON_Delete(value);
}
