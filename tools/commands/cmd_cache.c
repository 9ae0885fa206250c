/* stator cache: the compiled programs kept on disk. list shows the entries, why says whether a
 * model would come from them and how its key differs from the nearest one, clear removes them all.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/cli.h"

#include <string.h>
#include <time.h>

typedef struct cache_command {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    int long_list;
    stator_ctx *ctx;
    cJSON *rows; /* NULL: print */
    uint64_t bytes;
    uint32_t n;
} cache_command;

/* ---- list ---- */

/* "field: value" of the key, without the field; *out_n its length. */
static const char *field_of(const char *key, const char *field, int *out_n)
{
    const size_t n = strlen(field);
    for (const char *at = key; *at != '\0'; at += strcspn(at, "\n")) {
        at += *at == '\n';
        if (strncmp(at, field, n) == 0 && at[n] == ':') {
            at += n + 1u + (at[n + 1u] == ' ');
            *out_n = (int)strcspn(at, "\n");
            return at;
        }
    }
    *out_n = 0;
    return "";
}

/* A file with an entry's name but without an entry's head is listed without a key. */
static bool is_sound(const stator_x_cache_row *row)
{
    return row->key[0] != '\0';
}

static void print_entry(const cache_command *c, const stator_x_cache_row *row)
{
    char when[32] = "";
    struct tm tm;
    const time_t used = (time_t)row->used_s;
    int n = 0;
    if (localtime_r(&used, &tm) != NULL) {
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    }
    const char *about =
        field_of(row->key, strcmp(row->kind, "code") == 0 ? "backend" : "packed", &n);
    if (n == 0) {
        about = is_sound(row) ? row->key : "damaged, removed when it is read";
        n = (int)strcspn(about, "\n");
    }
    (void)printf("%s %s %12llu  %s  %.*s\n", row->name, row->kind,
                 (unsigned long long)row->size_bytes, when, n < 60 ? n : 60, about);
    if (c->long_list) {
        for (const char *at = row->key; *at != '\0'; at += strcspn(at, "\n")) {
            at += *at == '\n';
            (void)printf("    %.*s\n", (int)strcspn(at, "\n"), at);
        }
    }
}

static void on_row(void *self, const stator_x_cache_row *row)
{
    cache_command *c = self;
    c->n++;
    c->bytes += row->size_bytes;
    if (c->rows == NULL) {
        print_entry(c, row);
        return;
    }
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "name", row->name);
    cJSON_AddStringToObject(entry, "kind", row->kind);
    cJSON_AddNumberToObject(entry, "size_bytes", (double)row->size_bytes);
    cJSON_AddNumberToObject(entry, "used_s", (double)row->used_s);
    cJSON_AddStringToObject(entry, "key", row->key);
    cJSON_AddBoolToObject(entry, "damaged", !is_sound(row));
    cJSON_AddItemToArray(c->rows, entry);
}

static cli_status list(cache_command *c)
{
    const char *reason = NULL;
    const char *folder = stator_x_cache_folder(c->ctx, &reason);
    c->rows = c->common.json ? cJSON_CreateArray() : NULL;
    if (stator_x_cache_list(c->ctx, on_row, c) != STATOR_OK) {
        cJSON_Delete(c->rows);
        return cli_fail_ctx(c->ctx, c->common.json);
    }
    if (c->rows == NULL) {
        (void)printf("%u entries, %llu bytes, %s%s\n", c->n, (unsigned long long)c->bytes,
                     folder != NULL ? "in " : "no folder: ", folder != NULL ? folder : reason);
        return CLI_OK;
    }
    cJSON *all = cJSON_CreateObject();
    cli_json_text(all, "folder", folder);
    cli_json_text(all, "reason", folder != NULL ? NULL : reason);
    cJSON_AddNumberToObject(all, "size_bytes", (double)c->bytes);
    cJSON_AddItemToObject(all, "entries", c->rows);
    cli_print_json(all);
    return CLI_OK;
}

/* ---- clear ---- */

static cli_status clear(cache_command *c)
{
    uint64_t entries = 0;
    uint64_t bytes = 0;
    const char *reason = NULL;
    CLI_FAIL_IF(stator_x_cache_folder(c->ctx, &reason) == NULL, c->common.json, "UNAVAILABLE", NULL,
                "nothing was removed: %s", reason);
    CLI_TRY_CTX(c->ctx, c->common.json, stator_x_cache_clear(c->ctx, &entries, &bytes));
    if (!c->common.json) {
        (void)printf("%llu entries removed, %llu bytes\n", (unsigned long long)entries,
                     (unsigned long long)bytes);
        return CLI_OK;
    }
    cJSON *all = cJSON_CreateObject();
    cJSON_AddNumberToObject(all, "removed", (double)entries);
    cJSON_AddNumberToObject(all, "size_bytes", (double)bytes);
    cli_print_json(all);
    return CLI_OK;
}

/* ---- why ---- */

static void on_answer(void *self, int32_t is_hit, const char *text)
{
    const cache_command *c = self;
    if (!c->common.json) {
        (void)printf("%s: %s\n", is_hit ? "hit" : "miss", text);
        return;
    }
    cJSON *all = cJSON_CreateObject();
    cJSON_AddBoolToObject(all, "hit", is_hit);
    cli_json_text(all, "entry", is_hit ? text : NULL);
    cli_json_text(all, "reason", is_hit ? NULL : text);
    cli_print_json(all);
}

static cli_status why(cache_command *c, const char *path)
{
    const cli_program_flags flags = {&c->common, &c->inputs, &c->compile, c->compile.backend};
    cli_program p;
    cli_status status = cli_program_open(&p, &flags, path);
    if (status == CLI_OK &&
        stator_x_cache_why(p.function, p.n_in, p.in, on_answer, c) != STATOR_OK) {
        status = cli_fail_ctx(p.ctx, c->common.json);
    }
    cli_program_close(&p);
    return status;
}

/* ---- the command ---- */

enum action { LIST = 0, CLEAR, WHY, ANY };

/* The action that a command line asks for, so that it takes the options of that one alone; ANY:
 * none */
static enum action action_of(int argc, char **argv)
{
    static const char *const words[] = {[LIST] = "list", [CLEAR] = "clear", [WHY] = "why"};
    bool wants_help = false;
    for (int i = 1; i < argc; i++) {
        for (uint32_t k = LIST; k <= WHY; k++) {
            if (strcmp(argv[i], words[k]) == 0) {
                return (enum action)k;
            }
        }
        wants_help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    }
    return wants_help ? ANY : LIST;
}

/* list or clear, with a context. */
static cli_status with_folder(cache_command *c, cli_status (*action)(cache_command *c))
{
    const cli_status status = cli_open(&c->common, &c->ctx) == STATOR_OK
                                  ? action(c)
                                  : cli_fail_ctx(c->ctx, c->common.json);
    stator_ctx_destroy(c->ctx);
    return status;
}

static cli_status dispatch(cache_command *c, const cli_usage *usage, const char *const *words)
{
    const uint32_t n = words[0] == NULL ? 0 : words[1] == NULL ? 1 : 2;
    const bool is_why = n >= 1 && strcmp(words[0], "why") == 0;
    if (n == 0 || (n == 1 && strcmp(words[0], "list") == 0)) {
        return with_folder(c, list);
    }
    if (n == 1 && strcmp(words[0], "clear") == 0) {
        return with_folder(c, clear);
    }
    if (is_why && n == 2) {
        return why(c, words[1]);
    }
    return cli_misused(usage, is_why ? "cache why needs a model" : "one of list, why MODEL, clear");
}

cli_status cmd_cache(int argc, char **argv)
{
    cache_command c = {.inputs.random = -1};
    const enum action action = action_of(argc, argv);
    const bool is_list = action == LIST || action == ANY;
    const bool is_why = action == WHY || action == ANY;
    const cli_option keys[] = {
        {"--keys", CLI_FLAG, &c.long_list, NULL, "list: what each entry depends on"}, CLI_END};
    cli_usage usage = {.own = is_list ? keys : NULL,
                       .inputs = is_why ? &c.inputs : NULL,
                       .backend = is_why ? &c.compile.backend : NULL,
                       .compile = is_why ? &c.compile : NULL,
                       .common = &c.common};
    const char *words[2] = {NULL, NULL};
    const cli_status status = cli_parse(&usage, argc, argv, words);
    return status != CLI_GO_ON ? status : dispatch(&c, &usage, words);
}
