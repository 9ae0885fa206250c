/* Inner values of two compiles of a model, side by side; see bisect_observe.h.
 *
 * Values are observed in groups, in topological order, so that few compiles are needed. A group
 * that cannot be compiled, or that makes the difference vanish (an output keeps a rewrite or a
 * fusion from happening), is halved; a number of observations bounds the work. */
#include "bisect_observe.h"

#include <stdlib.h>
#include <string.h>

#define GROUP_VALUES 48u
#define GROUP_BYTES (UINT64_C(128) << 20)
#define MAX_OBSERVATIONS 400u

/* ---- compiling and calling ---- */

stator_function *bisect_compile(stator_ctx *ctx, stator_model *model, const bisect_recipe *recipe)
{
    cli_compile flags = {.fuel = 0};
    if (recipe->flags != NULL) {
        flags = *recipe->flags;
    }
    flags.fuel = recipe->fuel;
    flags.fuel_scope = recipe->fuel_scope;
    flags.compile_flags = recipe->compile_flags;
    if (flags.fuel_scope != NULL || flags.compile_flags != 0) {
        flags.strict = 0; /* a claim that is refused runs on eager */
    }
    return cli_compile_model(ctx, model, &flags, recipe->backend, -1);
}

static stator_tensor *copy_tensor(stator_ctx *ctx, const stator_tensor *from)
{
    const DLTensor *view = stator_tensor_view(from);
    stator_tensor *to = NULL;
    if (stator_tensor_create(ctx, stator_tensor_dtype(from), (uint32_t)view->ndim, view->shape,
                             &to) == STATOR_OK &&
        stator_tensor_size_bytes(to) != 0) {
        memcpy(stator_tensor_data(to), stator_tensor_data(from), stator_tensor_size_bytes(to));
    }
    return to;
}

int bisect_call(stator_ctx *ctx, stator_function *function, uint32_t n_in, stator_tensor *const *in,
                uint32_t n_out, bisect_results *out)
{
    *out = (bisect_results){.n_out = n_out, .n_in = n_in};
    out->tensors = calloc((size_t)n_out + n_in + 1u, sizeof(stator_tensor *));
    int ok = out->tensors != NULL;
    for (uint32_t i = 0; ok && i < n_in; i++) {
        out->tensors[n_out + i] = copy_tensor(ctx, in[i]);
        ok = out->tensors[n_out + i] != NULL;
    }
    if (!ok || stator_call_tensors(function, n_in, &out->tensors[n_out], n_out, out->tensors) !=
                   STATOR_OK) {
        bisect_results_free(out);
        return 0;
    }
    return 1;
}

void bisect_results_free(bisect_results *results)
{
    for (uint32_t i = 0; results->tensors != NULL && i < results->n_out + results->n_in; i++) {
        stator_tensor_release(results->tensors[i]);
    }
    free(results->tensors);
    *results = (bisect_results){0};
}

/* ---- naming ---- */

static const stator_graph_view *view_of(stator_ctx *ctx, const stator_graph *graph)
{
    return stator_ctx_host(ctx)->ir->view(graph);
}

static void copy_text(char *to, const char *from)
{
    (void)snprintf(to, BISECT_NAME, "%s", from);
}

static void describe_origin(const stator_graph_view *v, uint32_t origin, bisect_place *out)
{
    const stator_origin_row *row = stator_column_at(&v->origins, origin);
    const char *file = stator_string_at(v, row->file);
    const char *kind = stator_string_at(v, row->kind);
    char line[16] = "";
    copy_text(out->node, stator_string_at(v, row->name));
    if (row->line != 0) {
        (void)snprintf(line, sizeof line, ":%u", row->line);
    }
    (void)snprintf(out->origin, sizeof out->origin, "%.40s%s'%.60s'%s%.40s%s%s", kind,
                   kind[0] != '\0' ? " " : "", out->node, file[0] != '\0' ? " (" : "", file, line,
                   file[0] != '\0' ? ")" : "");
}

void bisect_describe(stator_ctx *ctx, const stator_model *model, uint32_t value, bisect_place *out)
{
    const stator_graph *graph = stator_model_graph(model);
    if (graph == NULL) {
        return;
    }
    const stator_graph_view *v = view_of(ctx, graph);
    if (value == 0 || value > v->n_values) {
        return;
    }
    const stator_value_row *row = stator_value_at(v, value);
    out->value = value;
    copy_text(out->name, stator_string_at(v, row->name));
    const uint32_t origin = row->node != 0 ? stator_node_at(v, row->node)->origin : 0;
    if (origin != 0) {
        describe_origin(v, origin, out);
    }
    if (out->name[0] == '\0') {
        (void)snprintf(out->name, sizeof out->name, "%%%u", value);
    }
    if (out->node[0] == '\0') {
        copy_text(out->node, out->name); /* a graph written by hand names values, not nodes */
    }
}

/* ---- observing ---- */

typedef struct observer {
    const bisect_pair *pair;
    const stator_graph_view *v;
    uint32_t *values; /* candidates in topological order */
    uint32_t n;
    uint32_t left; /* observations that may still be made */
    bisect_place *out;
} observer;

/* The model with the values as outputs in front of its own. */
static stator_model *with_values(const observer *o, uint32_t first, uint32_t count)
{
    uint32_t *all = calloc((size_t)count + o->v->n_outputs + 1u, sizeof *all);
    stator_model *model = NULL;
    if (all == NULL) {
        return NULL;
    }
    memcpy(all, &o->values[first], count * sizeof *all);
    for (uint32_t k = 0; k < o->v->n_outputs; k++) {
        all[count + k] = stator_output_at(o->v, k);
    }
    if (stator_x_model_with_outputs(o->pair->model, count + o->v->n_outputs, all, &model) !=
        STATOR_OK) {
        model = NULL;
    }
    free(all);
    return model;
}

static int call_recipe(const observer *o, stator_model *model, const bisect_recipe *recipe,
                       uint32_t n_out, bisect_results *out)
{
    const bisect_pair *p = o->pair;
    stator_function *function = bisect_compile(p->ctx, model, recipe);
    const int ok = function != NULL && bisect_call(p->ctx, function, p->n_in, p->in, n_out, out);
    stator_function_destroy(function);
    return ok;
}

/* Takes the first of the values that differs. Returns 1 when the answers differ anywhere. */
static int judge(observer *o, uint32_t first, uint32_t count, const bisect_results *good,
                 const bisect_results *bad)
{
    int differs = 0;
    for (uint32_t i = 0; i < good->n_out + good->n_in && !o->out->is_found; i++) {
        st_difference d;
        st_compare_runs(stator_tensor_view(bad->tensors[i]), stator_tensor_view(good->tensors[i]),
                        &o->pair->tolerance, &d);
        differs |= !d.ok;
        if (!d.ok && i < count) {
            o->out->is_found = 1;
            o->out->max_abs = d.max_abs;
            bisect_describe(o->pair->ctx, o->pair->model, o->values[first + i], o->out);
        }
    }
    return differs;
}

/* 1: both ran; *out_differs says whether any of the observed answers did. */
static int observe_group(observer *o, uint32_t first, uint32_t count, int *out_differs)
{
    bisect_results good = {0};
    bisect_results bad = {0};
    const uint32_t n_out = count + o->v->n_outputs;
    stator_model *model = with_values(o, first, count);
    const int ok = model != NULL && call_recipe(o, model, &o->pair->good, n_out, &good) &&
                   call_recipe(o, model, &o->pair->bad, n_out, &bad);
    *out_differs = ok && judge(o, first, count, &good, &bad);
    bisect_results_free(&good);
    bisect_results_free(&bad);
    stator_model_destroy(model);
    o->left--;
    return ok;
}

static void search(observer *o, uint32_t first, uint32_t count)
{
    int differs = 0;
    if (o->left == 0 || count == 0 || o->out->is_found) {
        return;
    }
    const int ok = observe_group(o, first, count, &differs);
    if (count > 1 && (!ok || !differs)) {
        search(o, first, count / 2);
        search(o, first + count / 2, count - count / 2);
    }
}

/* Bytes of a value, as far as its sizes are known. */
static uint64_t bytes_of(const stator_graph_view *v, uint32_t value)
{
    const stator_type_row *type = stator_value_type(v, value);
    uint64_t bytes = 16;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        int64_t size = 1;
        if (stator_sym_is_const(v, stator_dim_at(v, type, axis), &size) && size > 0 &&
            bytes < GROUP_BYTES) {
            bytes *= size < 1 << 20 ? (uint64_t)size : 1u << 20;
        }
    }
    return bytes;
}

/* Results of all nodes but constants. */
static int list_values(observer *o)
{
    o->values = calloc(o->v->n_values + 1u, sizeof *o->values);
    for (uint32_t n = 1; o->values != NULL && n <= o->v->n_nodes; n++) {
        const stator_node_row *row = stator_node_at(o->v, n);
        if ((stator_op_at(o->v, row->op)->flags & STATOR_OP_CONSTANT) != 0) {
            continue;
        }
        for (uint32_t k = 0; k < row->result_count; k++) {
            o->values[o->n++] = row->result_begin + k;
        }
    }
    return o->values != NULL;
}

static void observe_wanted(observer *o, uint32_t wanted)
{
    uint32_t *const all = o->values;
    int differs = 0;
    o->values = &wanted;
    const int is_seen = observe_group(o, 0, 1, &differs);
    o->values = all;
    o->out->is_wanted = o->out->is_found;
    o->out->hides_wanted = is_seen && !differs;
}

void bisect_observe(const bisect_pair *pair, uint32_t wanted, bisect_place *out)
{
    *out = (bisect_place){0};
    const stator_graph *graph = stator_model_graph(pair->model);
    observer o = {.pair = pair, .left = MAX_OBSERVATIONS, .out = out};
    if (graph == NULL) {
        return;
    }
    o.v = view_of(pair->ctx, graph);
    if (list_values(&o)) {
        if (wanted != 0 && wanted <= o.v->n_values && stator_value_at(o.v, wanted)->node != 0) {
            observe_wanted(&o, wanted);
        }
        for (uint32_t first = 0; first < o.n && !out->is_found;) {
            uint32_t count = 0;
            uint64_t bytes = 0;
            while (first + count < o.n && count < GROUP_VALUES &&
                   (count == 0 || bytes < GROUP_BYTES)) {
                bytes += bytes_of(o.v, o.values[first + count++]);
            }
            search(&o, first, count);
            first += count;
        }
    }
    free(o.values);
}
