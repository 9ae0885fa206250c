/* A model's graph at a stage, with numbers for symbolic sizes: what print, opt and draw begin with.
 * See cli.h. */
#include "tools/cli/cli.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/str.h"

#include <stdlib.h>
#include <string.h>

/* ---- symbolic sizes ---- */

/* Replaces g->model by a copy with the sizes of --dim. */
static cli_status bind_dims(cli_graph *g)
{
    cli_dims dims;
    stator_model *bound = NULL;
    CLI_NEED(cli_parse_dims(&g->inputs.dim, &dims, g->common.json));
    if (dims.count == 0) {
        return CLI_OK;
    }
    CLI_TRY_CTX(g->ctx, g->common.json,
                stator_x_model_with_sizes(g->model, dims.count, dims.names, dims.values, &bound));
    stator_model_destroy(g->model);
    g->model = bound;
    return CLI_OK;
}

/* ---- stages ---- */

typedef struct stage_search {
    stator_ctx *ctx;
    const char *name;
    stator_model *found;
    stator_status status;
    char known[512]; /* "import, freeze" */
} stage_search;

static void on_stage(void *self, const char *stage, const stator_graph *graph, uint64_t ns)
{
    (void)ns;
    stage_search *search = self;
    const size_t used = strlen(search->known);
    (void)snprintf(search->known + used, sizeof search->known - used, "%s%s", used > 0 ? ", " : "",
                   stage);
    if (strcmp(stage, search->name) == 0 && search->status == STATOR_OK) {
        stator_model_destroy(search->found); /* the last run of a pass that runs twice */
        search->status = stator_x_model_of_graph(search->ctx, graph, &search->found);
    }
}

/* Replaces g->model by the graph after a stage of the backend's pipeline. */
static cli_status go_to_stage(cli_graph *g)
{
    stage_search search = {.ctx = g->ctx, .name = g->stage.after};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = g->stage.backend};
    stator_function *function = NULL;
    stator_status status = stator_compile(g->model, &options, &function);
    if (status == STATOR_OK) {
        status = stator_x_stages(function, NULL, on_stage, &search);
    }
    stator_function_destroy(function);
    if (status != STATOR_OK || search.status != STATOR_OK) {
        stator_model_destroy(search.found);
        return cli_fail_ctx(g->ctx, g->common.json);
    }
    if (search.found == NULL) {
        const char *backend = g->stage.backend;
        return cli_fail(g->common.json, "NOT_FOUND",
                        "--backend names another; `stator passes --backend NAME` lists its stages",
                        "the pipeline of %s has no stage '%s' (it has: %s)",
                        backend != NULL ? backend : "the default backend", g->stage.after,
                        search.known);
    }
    stator_model_destroy(g->model);
    g->model = search.found;
    return CLI_OK;
}

/* ---- ops ---- */

const stator_op_desc *cli_find_op(stator_ctx *ctx, const char *name, int json)
{
    const stator_ir_api *ir = stator_ctx_host(ctx)->ir;
    const uint32_t count = ir->op_count(ctx);
    const char **names = calloc(count + 1u, sizeof *names);
    const stator_op_desc *found = NULL;
    char near[96] = "";
    for (uint32_t op = 1; op <= count; op++) {
        const stator_op_desc *desc = ir->op_desc(ctx, op);
        found = strcmp(desc->name, name) == 0 ? desc : found;
        if (names != NULL) {
            names[op - 1] = desc->name;
        }
    }
    if (found == NULL) {
        (void)cli_fail(json, "NOT_FOUND", "`stator ops` lists them", "there is no op '%s'%s", name,
                       names != NULL ? cli_did_you_mean(name, names, count, near) : "");
    }
    free(names);
    return found;
}

/* ---- opening ---- */

/* Appends "shape = {1, 0}" of a small input of integers, whose value may be what decides. */
static void add_value(st_str *out, const char *name, const stator_tensor *tensor)
{
    const DLTensor *view = stator_tensor_view(tensor);
    const stator_dtype dtype = stator_tensor_dtype(tensor);
    const uint32_t class_ = st_dtype_class(dtype);
    uint64_t count = 0;
    if (class_ == STATOR_CLASS_FLOAT || class_ == STATOR_CLASS_COMPLEX ||
        !st_numel(view->shape, (uint32_t)view->ndim, &count) || count > 8) {
        return;
    }
    st_str_addf(out, "%s%s = {", out->len > 0 ? "; " : "", name);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        st_str_addf(out, "%s%lld", i > 0 ? ", " : "",
                    (long long)st_load_i64(dtype, stator_tensor_data(tensor), i));
    }
    st_str_add(out, "}");
}

/* The graph holds for made-up values alone: say which. */
static void note_assumed(cli_graph *g, stator_tensor *const *in, uint32_t n)
{
    st_mem mem;
    st_str values;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&values, &mem);
    for (uint32_t i = 0; i < n; i++) {
        stator_port_info port = {.struct_size = sizeof port};
        if (stator_model_input_info(g->model, i, &port) == STATOR_OK) {
            add_value(&values, port.name, in[i]);
        }
    }
    (void)snprintf(g->assumed, sizeof g->assumed,
                   "the graph depends on the values of inputs; this is the one for --random %lld%s"
                   "%.300s",
                   (long long)(g->inputs.random >= 0 ? g->inputs.random : 0),
                   values.len > 0 ? ": " : "", values.data != NULL ? values.data : "");
    st_str_deinit(&values);
    if (!g->common.json) {
        (void)fprintf(stderr, "stator: %s\nhint: give the values with --input or --inputs\n",
                      g->assumed);
    }
}

/* A model that needs input values before it has a graph gets them from the input flags. */
static cli_status give_values(cli_graph *g)
{
    stator_tensor **in = NULL;
    uint32_t n = 0;
    if (stator_model_graph(g->model) != NULL) {
        return CLI_OK;
    }
    CLI_NEED(cli_load_inputs(g->ctx, g->model, &g->inputs, g->common.json, &in, &n));
    if (!cli_has_input_files(&g->inputs)) {
        note_assumed(g, in, n);
    }
    cli_free_inputs(in, n);
    return CLI_OK;
}

static bool has_ending(const char *path, const char *ending)
{
    const size_t len = strlen(path);
    const size_t n = strlen(ending);
    return len >= n && strcmp(path + len - n, ending) == 0;
}

static cli_status tidy(cli_graph *g, const char *path)
{
    stator_model *tidied = NULL;
    if (g->stage.after != NULL || has_ending(path, ".stir") || has_ending(path, ".stirb")) {
        return CLI_OK;
    }
    CLI_TRY_CTX(g->ctx, g->common.json, stator_x_run_pass(g->model, "dce", 0, NULL, NULL, &tidied));
    stator_model_destroy(g->model);
    g->model = tidied;
    return CLI_OK;
}

cli_status cli_graph_open(cli_graph *g, const char *path)
{
    CLI_TRY(cli_open_model(&g->common, path, &g->ctx, &g->model));
    CLI_TRY(give_values(g));
    CLI_TRY(bind_dims(g));
    if (g->stage.after != NULL) {
        CLI_TRY(go_to_stage(g));
    } else if (g->stage.backend != NULL) {
        CLI_TRY(cli_unknown_backend(g->ctx, g->stage.backend, g->common.json));
    }
    return g->is_tidy ? tidy(g, path) : CLI_OK;
}

/* The text on stdout or, with `root`, in it. */
static cli_status write_text(const cli_graph *g, cJSON *root)
{
    const stator_host *host = stator_ctx_host(g->ctx);
    char *text = NULL;
    uint64_t len = 0;
    stator_diag *diag = NULL;
    if (host->ir->print(g->ctx, stator_model_graph(g->model), &text, &len, &diag) != STATOR_OK) {
        const cli_status status =
            cli_fail(g->common.json, "INTERNAL", NULL, "%s", host->diag->text(diag));
        host->diag->release(diag);
        return status;
    }
    if (root != NULL) {
        cJSON_AddStringToObject(root, "text", text);
    } else {
        (void)fwrite(text, 1, len, stdout);
    }
    host->mem->free(g->ctx, text);
    return CLI_OK;
}

cli_status cli_graph_write(const cli_graph *g, const char *output, cJSON *root)
{
    if (output == NULL) {
        return write_text(g, root);
    }
    CLI_TRY_CTX(g->ctx, g->common.json, stator_x_model_write(g->model, output));
    if (root != NULL) {
        cJSON_AddStringToObject(root, "file", output);
    }
    return CLI_OK;
}

void cli_graph_print_json(const cli_graph *g, cJSON *root)
{
    cli_json_text(root, "assumed", g->assumed[0] != '\0' ? g->assumed : NULL);
    cli_print_json(root);
}

void cli_graph_close(cli_graph *g)
{
    stator_model_destroy(g->model);
    stator_ctx_destroy(g->ctx);
}
