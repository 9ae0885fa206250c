/* The backend "inspect": prints each op with its shapes, its time and whether NaN or infinity came
 * out, and computes with `eager`. A way to see where a model goes wrong or slow:
 *
 *     stator run model.onnx --backend inspect --plugin-dir build
 *     stator run model.onnx --backend inspect --backend-option op=conv --backend-option elements=4
 *
 * It is also a whole backend to start from. Compiling takes the graph apart: the host compiles each
 * node with `eager` as a program of its own (host->nested->compile_node). Everything the plugin
 * knows of Stator comes through the host table; it links nothing of it. */
#include "inspect_plugin.h"

#include <stdio.h>
#include <string.h>

#define VERSION "1.0.0"
#define ABOUT "prints each op with shapes and times, computes with eager"

void *inspect_alloc(const stator_host *host, uint64_t count, uint64_t size)
{
    void *p = NULL;
    if (size == 0 || count <= (UINT64_MAX - 1) / size) {
        p = host->mem->alloc(host->ctx, count * size + 1, 16);
    }
    if (p != NULL) {
        memset(p, 0, (size_t)(count * size + 1));
    }
    return p;
}

static stator_status no_memory(const stator_host *host, stator_diag **err)
{
    return stator_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "inspect: out of memory");
}

/* ---- instances ---- */

static const stator_option_desc options[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_I64,
     .key = "elements",
     .default_text = "0",
     .min_i64 = 0,
     .max_i64 = 64,
     .help = "print this many leading elements of each result"},
    STATOR_OPTION_ROW(STATOR_OPTION_STR, 0, "op", "", "print nodes of this op only"),
};

static void destroy(void *self, void *inst)
{
    inspect_instance *instance = inst;
    (void)self;
    if (instance != NULL) {
        const stator_host *host = instance->host;
        if (instance->eager != NULL) {
            host->nested->close(instance->eager);
        }
        host->mem->free(host->ctx, (void *)(uintptr_t)instance->only);
        host->mem->free(host->ctx, instance);
    }
}

static const char *copy_text(const stator_host *host, const char *text)
{
    char *copy = inspect_alloc(host, strlen(text) + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, strlen(text) + 1);
    }
    return copy;
}

static stator_status create(void *self, const stator_options *values, uint32_t device, void **inst,
                            stator_diag **err)
{
    const stator_host *host = self;
    (void)device;
    *inst = NULL;
    /* A slot that was appended later than the rest is asked for before it is used. */
    if (!STATOR_HAS(host->nested, compile_node)) {
        return stator_fail(host, err, STATOR_UNIMPLEMENTED,
                           "inspect: this host has no nested->compile_node");
    }
    inspect_instance *instance = inspect_alloc(host, 1, sizeof *instance);
    if (instance == NULL) {
        return no_memory(host, err);
    }
    instance->host = host;
    instance->elements = host->opt->get_i64(values, "elements");
    instance->only = copy_text(host, host->opt->get_str(values, "op"));
    const stator_status status =
        instance->only == NULL
            ? no_memory(host, err)
            : host->nested->open(host->ctx, "inspect", "eager", NULL, &instance->eager, err);
    if (status != STATOR_OK) {
        destroy(self, instance);
        return status;
    }
    *inst = instance;
    return STATOR_OK;
}

static int32_t keep(void *inst, const char *op, uint32_t version, const stator_dtype *dtypes,
                    const uint32_t *ranks, uint32_t n)
{
    const inspect_instance *instance = inst;
    return instance->host->nested->keep(instance->eager, op, version, dtypes, ranks, n);
}

/* inspect runs the nodes that `eager` can run. */
static stator_status capability(void *inst, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const inspect_instance *instance = inst;
    const stator_host *host = instance->host;
    const uint32_t n = host->ir->view(graph)->n_nodes;
    uint8_t *accepts = inspect_alloc(host, n + 1u, 1);
    if (accepts == NULL) {
        return no_memory(host, err);
    }
    const stator_status status = host->nested->capability(instance->eager, graph, accepts, err);
    for (stator_ref node = 1; status == STATOR_OK && node <= n; node++) {
        if (accepts[node]) {
            sink->yes(sink->self, node, 0);
        } else {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "eager cannot run it");
        }
    }
    host->mem->free(host->ctx, accepts);
    return status;
}

/* ---- compiling ---- */

static void exe_destroy(void *inst, void *exe_)
{
    const inspect_instance *instance = inst;
    const stator_host *host = instance->host;
    inspect_exe *exe = exe_;
    for (uint32_t i = 0; exe->steps != NULL && i < exe->n_steps; i++) {
        inspect_step *step = &exe->steps[i];
        if (step->exe != NULL) {
            host->nested->exe_destroy(instance->eager, step->exe);
        }
        host->mem->free(host->ctx, step->title);
        host->mem->free(host->ctx, step->in);
        host->mem->free(host->ctx, step->out);
        host->mem->free(host->ctx, step->symbols);
    }
    host->mem->free(host->ctx, exe->steps);
    host->mem->free(host->ctx, exe->outputs);
    host->mem->free(host->ctx, exe->last_use);
    host->mem->free(host->ctx, exe->dtypes);
    host->mem->free(host->ctx, exe);
}

/* "conv Conv_0": the op, and the node of the imported model that it came from. */
static char *make_title(const stator_host *host, const stator_graph_view *v,
                        const stator_node_row *row)
{
    const char *op = stator_op_at(v, row->op)->name;
    const char *name = "";
    if (row->origin != 0) {
        const stator_origin_row *origin = stator_origin_at(v, row->origin);
        name = stator_string_at(v, origin->name);
    }
    const size_t size = strlen(op) + strlen(name) + 2;
    char *title = inspect_alloc(host, size, 1);
    if (title != NULL) {
        (void)snprintf(title, size, "%s %s", op, name);
    }
    return title;
}

/* The number of an unbacked symbol when the size is that symbol alone, else UINT32_MAX. */
static uint32_t lone_unbacked(const stator_graph_view *v, stator_ref sym)
{
    const stator_sym_row *row = stator_sym_at(v, sym);
    if (row->constant != 0 || row->term_count != 1) {
        return UINT32_MAX;
    }
    const stator_term_row *term = stator_term_at(v, row, 0);
    const stator_atom_row *atom = stator_atom_at(v, term->atom);
    return term->coef == 1 && atom->kind == STATOR_ATOM_SYMBOL &&
                   (atom->flags & STATOR_ATOM_UNBACKED)
               ? atom->index
               : UINT32_MAX;
}

/* Sizes that are known only when the node has run: those in the types of its results, and what
 * sym_bind reads out of its operand. */
static stator_status find_symbols(const inspect_instance *instance, const stator_graph *graph,
                                  stator_ref node, inspect_step *step, stator_diag **err)
{
    const stator_host *host = instance->host;
    const stator_graph_view *v = host->ir->view(graph);
    const stator_attr_row *bound = host->ir->attr(graph, node, "syms");
    const uint32_t n_bound = bound != NULL && bound->kind == STATOR_ATTR_DIMS ? bound->count : 0;
    step->symbols = inspect_alloc(host, (uint64_t)step->n_out * STATOR_RANK_MAX + n_bound,
                                  sizeof *step->symbols);
    if (step->symbols == NULL) {
        return no_memory(host, err);
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        const stator_type_row *type = stator_value_type(v, step->out[k]);
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            const uint32_t symbol = lone_unbacked(v, stator_dim_at(v, type, axis));
            if (symbol != UINT32_MAX) {
                step->symbols[step->n_symbols++] = (inspect_symbol){symbol, k, axis, 0};
            }
        }
    }
    for (uint32_t i = 0; i < n_bound; i++) {
        const uint32_t symbol = lone_unbacked(v, stator_ref_at(v, bound->begin + i));
        if (symbol != UINT32_MAX) {
            step->symbols[step->n_symbols++] = (inspect_symbol){symbol, 0, i, 1};
        }
    }
    return STATOR_OK;
}

/* The distinct operands in order, which is what compile_node makes the inputs. */
static void list_operands(const stator_graph_view *v, const stator_node_row *row,
                          inspect_step *step)
{
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        uint32_t i = 0;
        while (i < step->n_in && step->in[i] != operand) {
            i++;
        }
        if (operand != 0 && i == step->n_in) {
            step->in[step->n_in++] = operand;
        }
    }
}

static stator_status make_step(inspect_exe *exe, const stator_graph *graph, stator_ref node,
                               stator_diag **err)
{
    const stator_host *host = exe->instance->host;
    const stator_graph_view *v = host->ir->view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    inspect_step *step = &exe->steps[node - 1];
    stator_exe_info info = {.struct_size = sizeof info};
    step->op = stator_op_at(v, row->op)->name;
    step->title = make_title(host, v, row);
    step->in = inspect_alloc(host, row->operand_count, sizeof *step->in);
    step->out = inspect_alloc(host, row->result_count, sizeof *step->out);
    if (step->title == NULL || step->in == NULL || step->out == NULL) {
        return no_memory(host, err);
    }
    list_operands(v, row, step);
    for (uint32_t k = 0; k < row->result_count; k++) {
        step->out[step->n_out++] = row->result_begin + k;
    }
    stator_status status = find_symbols(exe->instance, graph, node, step, err);
    if (status == STATOR_OK) {
        status = host->nested->compile_node(exe->instance->eager, graph, node, &step->exe, err);
    }
    if (status == STATOR_OK) {
        status = host->nested->exe_info(exe->instance->eager, step->exe, &info);
    }
    step->workspace_bytes = info.workspace_bytes;
    if (info.workspace_bytes > exe->workspace_bytes) {
        exe->workspace_bytes = info.workspace_bytes;
    }
    return status;
}

/* Facts about values: dtypes, and when each is read last. */
static stator_status note_values(inspect_exe *exe, const stator_graph_view *v, stator_diag **err)
{
    const stator_host *host = exe->instance->host;
    exe->dtypes = inspect_alloc(host, v->n_values + 1u, sizeof *exe->dtypes);
    exe->last_use = inspect_alloc(host, v->n_values + 1u, sizeof *exe->last_use);
    exe->outputs = inspect_alloc(host, v->n_outputs, sizeof *exe->outputs);
    if (exe->dtypes == NULL || exe->last_use == NULL || exe->outputs == NULL) {
        return no_memory(host, err);
    }
    for (stator_ref value = 1; value <= v->n_values; value++) {
        exe->dtypes[value] = stator_value_type(v, value)->dtype;
    }
    for (uint32_t i = 0; i < exe->n_steps; i++) {
        for (uint32_t k = 0; k < exe->steps[i].n_out; k++) {
            exe->last_use[exe->steps[i].out[k]] = i;
        }
        for (uint32_t k = 0; k < exe->steps[i].n_in; k++) {
            exe->last_use[exe->steps[i].in[k]] = i;
        }
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        exe->outputs[k] = stator_output_at(v, k);
        exe->last_use[exe->outputs[k]] = exe->n_steps;
    }
    return STATOR_OK;
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **out_exe, stator_diag **err)
{
    inspect_instance *instance = inst;
    const stator_host *host = instance->host;
    const stator_graph_view *v = host->ir->view(graph);
    const uint32_t n_nodes = v->n_nodes, n_values = v->n_values;
    stator_status status = STATOR_OK;
    (void)fuel; /* nothing here is optional */
    *out_exe = NULL;
    inspect_exe *exe = inspect_alloc(host, 1, sizeof *exe);
    if (exe == NULL) {
        return no_memory(host, err);
    }
    *exe = (inspect_exe){.instance = instance,
                         .steps = inspect_alloc(host, n_nodes, sizeof *exe->steps),
                         .n_steps = n_nodes,
                         .n_values = n_values,
                         .n_inputs = v->n_inputs,
                         .n_outputs = v->n_outputs};
    if (exe->steps == NULL) {
        status = no_memory(host, err);
    }
    for (stator_ref node = 1; status == STATOR_OK && node <= n_nodes; node++) {
        status = make_step(exe, graph, node, err);
    }
    if (status == STATOR_OK) {
        status = note_values(exe, host->ir->view(graph), err);
    }
    if (status != STATOR_OK) {
        exe_destroy(instance, exe);
        return status;
    }
    *out_exe = exe;
    return STATOR_OK;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    (void)exe;
    out->flags = 0;
    out->workspace_bytes = 0; /* each call takes its own from the host */
    return STATOR_OK;
}

/* ---- the plugin ---- */

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "inspect", ABOUT, options),
    .tags = "debug,cpu",
    .priority = -100,
    .flags = STATOR_BACKEND_SERIAL_RUN, /* lines of two calls do not mix */
    .create = create,
    .destroy = destroy,
    .pipeline = stator_pipeline_imported, /* as eager: the graph is shown as it was */
    .keep = keep,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = inspect_run,
    .exe_destroy = exe_destroy,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("inspect", VERSION, "Stator examples", "[\"backend\"]",
              ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-100,"
              "\"description\":\"" ABOUT "\"",
              items, stator_init_host, NULL);
