/* stator check: one op on one backend against eager, on random operands of the types that a case
 * gives. Prints the greatest error of each result and the command that repeats it. See
 * check_case.h. */
#define _GNU_SOURCE
#include "cli.h"

#include "check_case.h"

#include <stdlib.h>
#include <string.h>

typedef struct check {
    cli_common common;
    cli_compile compile;
    cli_inputs inputs; /* --random and --dim alone */
    double rtol, atol;
    const char *op, *text;
    stator_ctx *ctx;
    stator_model *model;
    const char *backend; /* whose name the compile gave */
    stator_tensor **in;
    uint32_t n_in;
    stator_tensor **got, **want;
    uint32_t n_out;
} check;

/* ---- the program ---- */

static const stator_op_desc *find_op(const check *c, const char **out_near)
{
    const stator_ir_api *ir = stator_ctx_host(c->ctx)->ir;
    const uint32_t count = ir->op_count(c->ctx);
    const char **names = calloc(count + 1u, sizeof *names);
    const stator_op_desc *found = NULL;
    *out_near = NULL;
    for (uint32_t op = 1; names != NULL && op <= count; op++) {
        const stator_op_desc *desc = ir->op_desc(c->ctx, op);
        names[op - 1] = desc->name;
        found = strcmp(desc->name, c->op) == 0 ? desc : found;
    }
    if (found == NULL && names != NULL) {
        *out_near = st_nearest(c->op, names, count);
    }
    free(names);
    return found;
}

static int fail_diag(const check *c, stator_status code, stator_diag *diag)
{
    const int status = cli_fail(c->common.json, stator_status_name(code), st_diag_hint(diag), "%s",
                                st_diag_text(diag));
    st_diag_release(diag);
    return status;
}

static int load_text(check *c, const st_str *text)
{
    const stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .frontend = "text"};
    return stator_model_load_bytes(c->ctx, text->data, text->len, "case", &options, &c->model) ==
                   STATOR_OK
               ? CLI_OK
               : cli_fail_ctx(c->ctx, c->common.json);
}

static int make_model(check *c)
{
    const char *near = NULL;
    const stator_op_desc *op = find_op(c, &near);
    if (op == NULL) {
        return cli_fail(c->common.json, "NOT_FOUND", "`stator ops` lists them",
                        "there is no op '%s'%s%s%s", c->op, near != NULL ? ", did you mean '" : "",
                        near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    st_mem mem;
    st_str text;
    stator_diag *diag = NULL;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&text, &mem);
    const stator_status status = check_case_text(op, c->text, &text, &diag);
    const int result = status == STATOR_OK ? load_text(c, &text) : fail_diag(c, status, diag);
    st_str_deinit(&text);
    return result;
}

/* ---- running ---- */

/* Compiles and calls; the backend's name is that of the first coverage row. */
static int run_on(check *c, const char *backend, const char **out_name, stator_tensor ***out)
{
    const cli_compile plain = {.backend = NULL};
    const int is_reference = out == &c->want;
    stator_function *function = cli_compile_model(
        c->ctx, c->model, is_reference ? &plain : &c->compile, backend, c->common.json);
    int status = CLI_FAILED;
    if (function == NULL) {
        return status;
    }
    *out = calloc(c->n_out + 1u, sizeof(stator_tensor *));
    if (*out == NULL) {
        status = cli_fail(c->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    } else if (stator_call_tensors(function, c->n_in, c->in, c->n_out, *out) != STATOR_OK) {
        status = cli_fail_ctx(c->ctx, c->common.json);
    } else {
        stator_coverage row = {.backend = ""};
        (void)stator_function_coverage(function, 1, &row);
        *out_name = row.backend;
        status = CLI_OK;
    }
    stator_function_destroy(function);
    return status;
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
    st_str_addf(out, "stator check %s", c->op);
    quote(out, c->text);
    st_str_addf(out, " --backend %s --random %lld", c->backend,
                (long long)(c->inputs.random >= 0 ? c->inputs.random : 0));
    add_list(out, "--dim", &c->inputs.dim);
    add_list(out, "--backend-option", &c->compile.options);
    add_list(out, "--plugin-dir", &c->common.plugin_dirs);
    if (c->compile.mode != NULL) {
        st_str_add(out, " --mode");
        quote(out, c->compile.mode);
    }
}

static cJSON *result_json(const check *c, uint32_t k, int *all_ok)
{
    const DLTensor *got = stator_tensor_view(c->got[k]);
    stator_port_info port = {.struct_size = sizeof port};
    const stator_status known = stator_model_output_info(c->model, k, &port);
    cli_difference d;
    cli_compare(got, stator_tensor_view(c->want[k]), c->rtol, c->atol, &d);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", known == STATOR_OK ? port.name : "");
    cJSON_AddStringToObject(row, "dtype", cli_dtype_name(stator_tensor_dtype(c->got[k])));
    cJSON *shape = cJSON_AddArrayToObject(row, "shape");
    for (int32_t axis = 0; axis < got->ndim; axis++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)got->shape[axis]));
    }
    cJSON_AddItemToObject(row, "max_abs_err", cli_json_number(d.max_abs));
    cJSON_AddItemToObject(row, "max_rel_err", cli_json_number(d.max_rel));
    cJSON_AddBoolToObject(row, "ok", d.ok);
    *all_ok &= d.ok;
    return row;
}

static void print_rows(const check *c, const cJSON *rows, const char *command)
{
    const cJSON *row = NULL;
    (void)printf("%s on %s against eager, seed %lld\n", c->op, c->backend,
                 (long long)(c->inputs.random >= 0 ? c->inputs.random : 0));
    cJSON_ArrayForEach(row, rows)
    {
        char *shape = cJSON_PrintUnformatted(cJSON_GetObjectItem(row, "shape"));
        char *abs_err = cJSON_PrintUnformatted(cJSON_GetObjectItem(row, "max_abs_err"));
        char *rel_err = cJSON_PrintUnformatted(cJSON_GetObjectItem(row, "max_rel_err"));
        (void)printf("%s: %s%s %s, max error %s (relative %s)\n",
                     cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")),
                     cJSON_GetStringValue(cJSON_GetObjectItem(row, "dtype")),
                     shape != NULL ? shape : "",
                     cJSON_IsTrue(cJSON_GetObjectItem(row, "ok")) ? "ok" : "WRONG",
                     abs_err != NULL ? abs_err : "?", rel_err != NULL ? rel_err : "?");
        cJSON_free(shape);
        cJSON_free(abs_err);
        cJSON_free(rel_err);
    }
    (void)printf("repeat: %s\n", command);
}

static int report(const check *c)
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
        cJSON_AddStringToObject(root, "op", c->op);
        cJSON_AddStringToObject(root, "case", c->text);
        cJSON_AddStringToObject(root, "backend", c->backend);
        cJSON_AddNumberToObject(root, "seed",
                                c->inputs.random >= 0 ? (double)c->inputs.random : 0.0);
        cJSON_AddBoolToObject(root, "ok", all_ok);
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

static int run_check(check *c)
{
    const char *reference = NULL;
    if (cli_open(&c->common, &c->ctx) != STATOR_OK) {
        return cli_fail_ctx(c->ctx, c->common.json);
    }
    int status = make_model(c);
    if (status != CLI_OK) {
        return status;
    }
    if (!cli_load_inputs(c->ctx, c->model, &c->inputs, c->common.json, &c->in, &c->n_in)) {
        return CLI_FAILED;
    }
    c->n_out = stator_model_output_count(c->model);
    status = run_on(c, c->compile.backend, &c->backend, &c->got);
    if (status == CLI_OK) {
        status = run_on(c, "eager", &reference, &c->want);
    }
    return status == CLI_OK ? report(c) : status;
}

static void end_check(check *c)
{
    cli_free_inputs(c->in, c->n_in);
    cli_free_inputs(c->got, c->n_out);
    cli_free_inputs(c->want, c->n_out);
    stator_model_destroy(c->model);
    stator_ctx_destroy(c->ctx);
}

int cmd_check(int argc, char **argv)
{
    check c = {.rtol = 1e-3, .atol = 1e-7, .inputs = {.random = -1}};
    const cli_option own[] = {
        {"--random", CLI_NUMBER, &c.inputs.random, "SEED", "seed of the operands (0)"},
        {"--dim", CLI_LIST, &c.inputs.dim, "N=8", "size of a symbolic dimension (default 1)"},
        {"--rtol", CLI_REAL, &c.rtol, "R", "relative tolerance (1e-3)"},
        {"--atol", CLI_REAL, &c.atol, "A", "absolute tolerance (1e-7)"},
        {NULL, 0, NULL, NULL, NULL}};
    const cli_option compile[] = {CLI_COMPILE_ROWS(&c.compile)};
    const cli_option common[] = {CLI_COMMON_ROWS(&c.common)};
    const cli_option *const tables[] = {own, compile, common, NULL};
    const cli_usage usage = {
        .command = "check",
        .positional = "OP CASE",
        .summary = "Runs one op on a backend and on eager; CASE: 'f32 4x16; f32 16 axis=1'.",
        .tables = tables};
    const char *words[2] = {NULL, NULL};
    uint32_t n = 0;
    int status = cli_parse(&usage, argc, argv, words, 2, &n);
    if (status < 0) {
        c.op = words[0];
        c.text = words[1];
        status = run_check(&c);
        end_check(&c);
    }
    return status;
}
