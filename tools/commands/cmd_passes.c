/* stator passes and stator ops: the passes, a backend's pipeline, the op table. */
#include "tools/cli/cli.h"

#include <string.h>

typedef struct pass_list {
    cJSON *array; /* NULL: print */
} pass_list;

static void on_pass(void *self, const char *name, const char *doc)
{
    pass_list *list = self;
    if (list->array == NULL) {
        (void)printf("%-22s %s\n", name, doc);
        return;
    }
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "doc", doc);
    cJSON_AddItemToArray(list->array, row);
}

/* ---- one pass ---- */

#define NAMES_MAX 64u

typedef struct pass_search {
    const char *name;
    const char *doc;              /* NULL: not found */
    const char *names[NAMES_MAX]; /* names of the passes that exist */
    uint32_t n_names;
} pass_search;

static void find_pass(void *self, const char *name, const char *doc)
{
    pass_search *search = self;
    if (search->doc == NULL && strcmp(name, search->name) == 0) {
        search->doc = doc;
    }
    if (search->n_names < NAMES_MAX) {
        search->names[search->n_names++] = name;
    }
}

/* One of Stator's own, which have no options. */
static cli_status show_own(const pass_search *search, int json)
{
    if (!json) {
        (void)printf("%-22s %s\n  it has no options\n", search->name, search->doc);
        return CLI_OK;
    }
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", search->name);
    cJSON_AddStringToObject(row, "doc", search->doc);
    cJSON_AddItemToObject(row, "options", cJSON_CreateArray());
    cli_print_json(row);
    return CLI_OK;
}

/* The pass with its options. One that cannot be used says why, as `stator plugins` does. */
static cli_status show_pass(stator_ctx *ctx, const char *name, int json)
{
    stator_item_info item;
    pass_search search = {.name = name};
    char how[192];
    char near[96];
    CLI_TRY_CTX(ctx, json, stator_ctx_scan(ctx));
    if (cli_find_item(ctx, "pass", name, 0, &item)) {
        (void)snprintf(how, sizeof how, "--pass-option %.100s:KEY=VALUE", name);
        return cli_show_item(ctx, &item, how, json);
    }
    CLI_TRY_CTX(ctx, json, stator_x_passes(ctx, find_pass, &search));
    return search.doc != NULL
               ? show_own(&search, json)
               : cli_fail(json, "NOT_FOUND", "'stator passes' lists them",
                          "there is no pass '%s'%s", name,
                          cli_did_you_mean(name, search.names, search.n_names, near));
}

/* ---- all of them ---- */

static cli_status list_passes(stator_ctx *ctx, const char *backend, int json)
{
    pass_list list = {.array = json ? cJSON_CreateArray() : NULL};
    const stator_status result = backend != NULL ? stator_x_pipeline(ctx, backend, on_pass, &list)
                                                 : stator_x_passes(ctx, on_pass, &list);
    if (result == STATOR_OK && json) {
        cli_print_json(list.array);
    } else {
        cJSON_Delete(list.array);
    }
    return result == STATOR_OK ? CLI_OK : cli_fail_ctx(ctx, json);
}

cli_status cmd_passes(int argc, char **argv)
{
    cli_common common = {0};
    const char *backend = NULL;
    const cli_option own[] = {
        {"--backend", CLI_TEXT, &backend, "NAME", "only the pipeline of this backend, in order"},
        CLI_END};
    cli_usage usage = {.own = own, .common = &common};
    const char *name = NULL;
    CLI_PARSE(&usage, &name);
    CLI_MISUSED_IF(name != NULL && backend != NULL, &usage,
                   "--backend lists a pipeline; leave it or the name out");
    stator_ctx *ctx = NULL;
    const cli_status status = cli_open(&common, &ctx) != STATOR_OK ? cli_fail_ctx(ctx, common.json)
                              : name != NULL ? show_pass(ctx, name, common.json)
                                             : list_passes(ctx, backend, common.json);
    stator_ctx_destroy(ctx);
    return status;
}

/* ---- ops ---- */

static const struct {
    uint64_t flag;
    const char *name;
} flag_names[] = {{STATOR_OP_POINTWISE, "pointwise"},
                  {STATOR_OP_VIEW, "view"},
                  {STATOR_OP_REDUCES, "reduces"},
                  {STATOR_OP_COMMUTES, "commutes"},
                  {STATOR_OP_ASSOCIATES, "associates"},
                  {STATOR_OP_RANDOM, "random"},
                  {STATOR_OP_EFFECT, "effect"},
                  {STATOR_OP_NO_RECOMPUTE, "no-recompute"},
                  {STATOR_OP_COMPOSITE, "composite"},
                  {STATOR_OP_REGIONS, "regions"},
                  {STATOR_OP_UNBACKED, "unbacked"},
                  {STATOR_OP_CONSTANT, "constant"},
                  {STATOR_OP_IDEMPOTENT, "idempotent"},
                  {STATOR_OP_INVOLUTION, "involution"},
                  {STATOR_OP_CONTRACTS, "contracts"},
                  {STATOR_OP_AUTOCAST_LOW, "autocast-low"},
                  {STATOR_OP_AUTOCAST_F32, "autocast-f32"},
                  {STATOR_OP_AUTOCAST_WIDEST, "autocast-widest"}};

/* Flags that the text says as well, of those that no line of it tells otherwise. */
#define AUTOCAST_FLAGS (STATOR_OP_AUTOCAST_LOW | STATOR_OP_AUTOCAST_F32 | STATOR_OP_AUTOCAST_WIDEST)

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"none", "int",    "float", "string", "dtype",
                                        "ints", "floats", "dims",  "blob"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

static cJSON *op_json(const stator_op_desc *op)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", op->name);
    cJSON_AddNumberToObject(row, "version", op->version);
    cJSON_AddStringToObject(row, "operands", op->operands);
    cJSON_AddStringToObject(row, "results", op->results);
    cJSON *attrs = cJSON_AddArrayToObject(row, "attrs");
    for (uint32_t a = 0; a < op->attr_count; a++) {
        cJSON *attr = cJSON_CreateObject();
        cJSON_AddStringToObject(attr, "name", op->attrs[a].name);
        cJSON_AddStringToObject(attr, "kind", kind_name(op->attrs[a].kind));
        cJSON_AddBoolToObject(attr, "required", op->attrs[a].is_required != 0);
        cJSON_AddItemToArray(attrs, attr);
    }
    cJSON *flags = cJSON_AddArrayToObject(row, "flags");
    for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; i++) {
        if ((op->flags & flag_names[i].flag) != 0) {
            cJSON_AddItemToArray(flags, cJSON_CreateString(flag_names[i].name));
        }
    }
    cli_json_text(row, "body", op->body);
    cJSON_AddStringToObject(row, "doc", op->doc != NULL ? op->doc : "");
    return row;
}

static void print_op(const stator_op_desc *op)
{
    (void)printf("%s = %s(%s)", op->results, op->name, op->operands);
    for (uint32_t a = 0; a < op->attr_count; a++) {
        (void)printf("%s%s: %s", a == 0 ? " {" : ", ", op->attrs[a].name,
                     kind_name(op->attrs[a].kind));
    }
    (void)printf("%s\n    %s\n", op->attr_count > 0 ? "}" : "", op->doc != NULL ? op->doc : "");
    if (op->body != NULL) {
        (void)printf("    = %s\n", op->body);
    }
    for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; i++) {
        if ((op->flags & flag_names[i].flag & AUTOCAST_FLAGS) != 0) {
            (void)printf("    %s\n", flag_names[i].name);
        }
    }
}

/* Every op, or the one named. */
static cli_status list_ops(stator_ctx *ctx, const char *wanted, int json)
{
    const stator_ir_api *ir = stator_ctx_host(ctx)->ir;
    const stator_op_desc *only = wanted != NULL ? cli_find_op(ctx, wanted, json) : NULL;
    CLI_NEED(wanted == NULL || only != NULL);
    cJSON *array = cJSON_CreateArray();
    for (uint32_t op = 1; op <= ir->op_count(ctx); op++) {
        const stator_op_desc *desc = ir->op_desc(ctx, op);
        if (only != NULL && desc != only) {
            continue;
        }
        if (json) {
            cJSON_AddItemToArray(array, op_json(desc));
        } else {
            print_op(desc);
        }
    }
    if (json) {
        cli_print_json(array);
    } else {
        cJSON_Delete(array);
    }
    return CLI_OK;
}

cli_status cmd_ops(int argc, char **argv)
{
    cli_common common = {0};
    cli_usage usage = {.common = &common};
    const char *wanted = NULL;
    CLI_PARSE(&usage, &wanted);
    stator_ctx *ctx = NULL;
    const cli_status status = cli_open(&common, &ctx) == STATOR_OK
                                  ? list_ops(ctx, wanted, common.json)
                                  : cli_fail_ctx(ctx, common.json);
    stator_ctx_destroy(ctx);
    return status;
}
