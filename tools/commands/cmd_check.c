/* stator check: one op on one backend against eager, on random operands of the types that a case
 * gives. Prints the greatest error of each result and the command that repeats it. See
 * check_case.h. eager itself is checked against the op's decomposition, which aot_eager runs; where
 * there is none, or the backend left the op to eager, it says that nothing was compared. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include "tools/check_case.h"

#include <stdlib.h>
#include <string.h>

#define REFERENCE "eager"
#define DECOMPOSING "aot_eager" /* runs the mid-level passes, then the reference's kernels */

typedef struct check {
    cli_common common;
    cli_compile compile;
    cli_inputs inputs; /* --random and --dim alone */
    st_tolerance tolerance;
    const char *name, *text;
    const stator_op_desc *op;
    stator_ctx *ctx;
    stator_model *model;
    char backend[64];
    const char *against; /* backend that the results are compared with; NULL: none, see note */
    char note[256];
    bool is_split; /* the graph that was compiled last no longer has the op */
    stator_tensor **in;
    uint32_t n_in;
    stator_tensor **got, **want;
    uint32_t n_out;
} check;

/* ---- the program ---- */

static cli_status fail_diag(const check *c, stator_status code, stator_diag *diag)
{
    const cli_status status = cli_fail(c->common.json, stator_status_name(code), st_diag_hint(diag),
                                       "%s", st_diag_text(diag));
    st_diag_release(diag);
    return status;
}

static cli_status load_text(check *c, const st_str *text)
{
    const stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .frontend = "text"};
    return stator_model_load_bytes(c->ctx, text->data, text->len, "case", &options, &c->model) ==
                   STATOR_OK
               ? CLI_OK
               : cli_fail_ctx(c->ctx, c->common.json);
}

static cli_status make_model(check *c)
{
    c->op = cli_find_op(c->ctx, c->name, c->common.json);
    if (c->op == NULL) {
        return CLI_FAILED;
    }
    st_mem mem;
    st_str text;
    stator_diag *diag = NULL;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&text, &mem);
    const stator_status status = check_case_text(c->op, c->text, &text, &diag);
    const cli_status result =
        status == STATOR_OK ? load_text(c, &text) : fail_diag(c, status, diag);
    st_str_deinit(&text);
    return result;
}

/* ---- running ---- */

/* The available backend of highest priority that is not the reference. */
static cli_status choose_backend(check *c)
{
    int32_t best = 0;
    if (c->compile.backend != NULL) {
        (void)snprintf(c->backend, sizeof c->backend, "%s", c->compile.backend);
        return CLI_OK;
    }
    for (uint32_t i = 0; i < stator_ctx_item_count(c->ctx); i++) {
        stator_item_info info = {.struct_size = sizeof info};
        if (stator_ctx_item_info(c->ctx, i, &info) == STATOR_OK &&
            strcmp(info.kind, "backend") == 0 && strcmp(info.state, "AVAILABLE") == 0 &&
            strcmp(info.name, REFERENCE) != 0 && info.shadowed_by == NULL &&
            !st_list_has(info.tags, "debug") && !st_list_has(info.tags, "experimental") &&
            (c->backend[0] == '\0' || info.priority > best)) {
            (void)snprintf(c->backend, sizeof c->backend, "%s", info.name);
            best = info.priority;
        }
    }
    return c->backend[0] != '\0' ? CLI_OK
                                 : cli_fail(c->common.json, "NOT_FOUND",
                                            "`stator backends --all` lists what is there",
                                            "there is no backend beside " REFERENCE " to check");
}

/* Nodes that a function ran elsewhere than on the reference. */
static uint32_t nodes_elsewhere(stator_function *function)
{
    stator_coverage rows[CLI_COVERAGE_MAX];
    const uint32_t n = cli_coverage(function, rows);
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < n; i++) {
        nodes += strcmp(rows[i].backend, REFERENCE) != 0 ? rows[i].nodes : 0;
    }
    return nodes;
}

/* Compiles for a backend and calls. */
static cli_status run_on(check *c, const cli_compile *flags, const char *backend,
                         stator_tensor ***out, uint32_t *out_elsewhere)
{
    stator_function *function = cli_compile_model(c->ctx, c->model, flags, backend, c->common.json);
    cli_status status = CLI_FAILED;
    if (function == NULL) {
        return status;
    }
    *out = calloc(c->n_out + 1u, sizeof(stator_tensor *));
    if (*out == NULL) {
        status = cli_fail(c->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    } else if (stator_call_tensors(function, c->n_in, c->in, c->n_out, *out) != STATOR_OK) {
        status = cli_fail_ctx(c->ctx, c->common.json);
    } else {
        *out_elsewhere = nodes_elsewhere(function);
        status = CLI_OK;
    }
    stator_function_destroy(function);
    return status;
}

static void on_stage(void *self, const char *stage, const stator_graph *graph, uint64_t ns)
{
    check *c = self;
    const stator_ir_api *ir = stator_ctx_host(c->ctx)->ir;
    const stator_graph_view *v = ir->view(graph);
    (void)stage;
    (void)ns;
    c->is_split = true;
    for (uint32_t node = 1; node <= v->n_nodes; node++) {
        const stator_op_desc *op = ir->op_desc(c->ctx, stator_node_at(v, node)->op);
        c->is_split &= op == NULL || strcmp(op->name, c->name) != 0;
    }
}

/* Does the pipeline of aot_eager replace the op by others? */
static bool has_decomposition(check *c)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = DECOMPOSING};
    stator_function *function = NULL;
    c->is_split = false;
    if ((c->op->flags & STATOR_OP_COMPOSITE) != 0 &&
        stator_compile(c->model, &options, &function) == STATOR_OK &&
        stator_x_stages(function, NULL, on_stage, c) != STATOR_OK) {
        c->is_split = false;
    }
    stator_function_destroy(function);
    return c->is_split;
}

/* Chooses the backend to compare the results of c->backend with. */
static void choose_against(check *c, uint32_t elsewhere)
{
    if (elsewhere > 0) {
        c->against = REFERENCE;
    } else if (strcmp(c->backend, REFERENCE) != 0) {
        (void)snprintf(c->note, sizeof c->note,
                       "nothing was compared: %s ran on " REFERENCE ", the reference, not on %s",
                       c->name, c->backend);
    } else if (has_decomposition(c)) {
        c->against = DECOMPOSING;
        (void)snprintf(c->note, sizeof c->note,
                       REFERENCE " is the reference: its kernel against the op's decomposition");
    } else {
        (void)snprintf(c->note, sizeof c->note,
                       "nothing was compared: " REFERENCE
                       " is the reference, and %s has no decomposition",
                       c->name);
    }
}

static cli_status run_both(check *c)
{
    const cli_compile plain = {.backend = NULL};
    uint32_t elsewhere = 0;
    cli_status status = choose_backend(c);
    if (status == CLI_OK) {
        status = run_on(c, &c->compile, c->backend, &c->got, &elsewhere);
    }
    if (status == CLI_OK) {
        choose_against(c, elsewhere);
    }
    return status == CLI_OK && c->against != NULL
               ? run_on(c, &plain, c->against, &c->want, &elsewhere)
               : status;
}

/* ---- reporting ---- */

static void quote(st_str *out, const char *text)
{
    st_str_add(out, " '");
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            st_str_add(out, "'\\''");
        } else {
            st_str_addn(out, text, 1);
        }
    }
    st_str_add(out, "'");
}

static void add_list(st_str *out, const char *flag, const cli_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        st_str_addf(out, " %s", flag);
        quote(out, list->items[i]);
    }
}

/* The command that does the same again. */
static void add_command(const check *c, st_str *out)
{
    st_str_addf(out, "stator check %s", c->name);
    quote(out, c->text);
    st_str_addf(out, " --backend %s --random %lld", c->backend,
                (long long)(c->inputs.random >= 0 ? c->inputs.random : 0));
    char number[32];
    if (c->tolerance.rtol >= 0) {
        st_str_addf(out, " --rtol %s", st_format_f64(c->tolerance.rtol, number));
    }
    if (c->tolerance.atol >= 0) {
        st_str_addf(out, " --atol %s", st_format_f64(c->tolerance.atol, number));
    }
    add_list(out, "--dim", &c->inputs.dim);
    add_list(out, "--backend-option", &c->compile.options);
    add_list(out, "--plugin-dir", &c->common.plugin_dirs);
    if (c->compile.mode != NULL) {
        st_str_add(out, " --mode");
        quote(out, c->compile.mode);
    }
    if (c->compile.fallback != NULL) {
        st_str_add(out, " --fallback");
        quote(out, c->compile.fallback);
    }
    if (c->compile.node_fallbacks != NULL) {
        st_str_add(out, " --node-fallbacks");
        quote(out, c->compile.node_fallbacks);
    }
    if (c->compile.device != NULL) {
        st_str_add(out, " --device");
        quote(out, c->compile.device);
    }
    st_str_add(out, c->compile.strict ? " --strict" : "");
    st_str_add(out, c->compile.strict_copies ? " --strict-copies" : "");
}

static cJSON *result_json(const check *c, uint32_t k, int *all_ok)
{
    const DLTensor *got = stator_tensor_view(c->got[k]);
    char name[32];
    st_difference d;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", cli_output_name(c->model, k, name));
    cJSON_AddStringToObject(row, "dtype", cli_dtype_name(stator_tensor_dtype(c->got[k])));
    cJSON_AddItemToObject(row, "shape", cli_json_shape(got));
    if (c->against == NULL) {
        cJSON_AddNullToObject(row, "max_abs_err");
        cJSON_AddNullToObject(row, "max_rel_err");
        cJSON_AddNullToObject(row, "ok");
        return row;
    }
    st_compare(got, stator_tensor_view(c->want[k]), &c->tolerance, &d);
    cli_json_difference(row, &d);
    *all_ok &= d.ok;
    return row;
}

static void print_rows(const check *c, const cJSON *rows, const char *command)
{
    const cJSON *row = NULL;
    (void)printf("%s on %s%s%s, seed %lld\n", c->name, c->backend,
                 c->against != NULL ? " against " : "", c->against != NULL ? c->against : "",
                 (long long)(c->inputs.random >= 0 ? c->inputs.random : 0));
    cJSON_ArrayForEach(row, rows)
    {
        char *shape = cJSON_PrintUnformatted(cJSON_GetObjectItem(row, "shape"));
        const cJSON *ok = cJSON_GetObjectItem(row, "ok");
        char numbers[2][32];
        (void)printf("%s: %s%s", cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")),
                     cJSON_GetStringValue(cJSON_GetObjectItem(row, "dtype")),
                     shape != NULL ? shape : "");
        if (!cJSON_IsNull(ok)) {
            (void)printf(" %s, max error %s (relative %s)", cJSON_IsTrue(ok) ? "ok" : "WRONG",
                         cli_number_text(cJSON_GetObjectItem(row, "max_abs_err"), numbers[0]),
                         cli_number_text(cJSON_GetObjectItem(row, "max_rel_err"), numbers[1]));
        }
        (void)printf("\n");
        cJSON_free(shape);
    }
    if (c->note[0] != '\0') {
        (void)printf("%s\n", c->note);
    }
    (void)printf("repeat: %s\n", command);
}

static cli_status report(const check *c)
{
    int all_ok = 1;
    st_mem mem;
    st_str command;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&command, &mem);
    add_command(c, &command);
    const char *text = st_str_ok(&command) ? command.data : "";
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t k = 0; k < c->n_out; k++) {
        cJSON_AddItemToArray(rows, result_json(c, k, &all_ok));
    }
    if (c->common.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "op", c->name);
        cJSON_AddStringToObject(root, "case", c->text);
        cJSON_AddStringToObject(root, "backend", c->backend);
        cli_json_text(root, "against", c->against);
        cJSON_AddNumberToObject(root, "seed",
                                c->inputs.random >= 0 ? (double)c->inputs.random : 0.0);
        cJSON_AddItemToObject(root, "ok",
                              c->against != NULL ? cJSON_CreateBool(all_ok) : cJSON_CreateNull());
        cli_json_text(root, "note", c->note[0] != '\0' ? c->note : NULL);
        cJSON_AddItemToObject(root, "outputs", rows);
        cJSON_AddStringToObject(root, "repeat", text);
        cli_print_json(root);
    } else {
        print_rows(c, rows, text);
        cJSON_Delete(rows);
    }
    st_str_deinit(&command);
    return all_ok ? CLI_OK : CLI_WRONG;
}

static cli_status run_check(check *c)
{
    CLI_TRY(cli_open_scanned(&c->common, &c->ctx));
    CLI_TRY(make_model(c));
    CLI_NEED(cli_load_inputs(c->ctx, c->model, &c->inputs, c->common.json, &c->in, &c->n_in));
    c->n_out = stator_model_output_count(c->model);
    CLI_TRY(run_both(c));
    return report(c);
}

static void end_check(check *c)
{
    cli_free_inputs(c->in, c->n_in);
    cli_free_inputs(c->got, c->n_out);
    cli_free_inputs(c->want, c->n_out);
    stator_model_destroy(c->model);
    stator_ctx_destroy(c->ctx);
}

cli_status cmd_check(int argc, char **argv)
{
    check c = {.tolerance = ST_TOLERANCE_CHOSEN, .inputs = {.random = -1}};
    cli_usage usage = {.tolerance = &c.tolerance,
                       .random = &c.inputs,
                       .backend = &c.compile.backend,
                       .compile = &c.compile,
                       .common = &c.common};
    const char *words[2] = {NULL, NULL};
    cli_status status = cli_parse(&usage, argc, argv, words);
    if (status == CLI_GO_ON) {
        c.name = words[0];
        c.text = words[1];
        status = run_check(&c);
        end_check(&c);
    }
    return status;
}
