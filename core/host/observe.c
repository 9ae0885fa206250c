/* Where two ways to compile one model part; see stator/inspect.h.
 *
 * Inner values are read by compiling again with them as more outputs, in groups and in topological
 * order, so that few compiles are needed. A group that cannot be compiled, or that makes the
 * difference vanish (an output keeps a rewrite or a fusion from happening), is halved; a number of
 * observations bounds the work. */
#include "core/base/compare.h"
#include "core/host/function.h"

#include <stator/inspect.h>
#include <stdio.h>
#include <string.h>

#define GROUP_VALUES 48u
#define GROUP_BYTES (UINT64_C(128) << 20)
#define MAX_OBSERVATIONS 400u

/* ---- calling ---- */

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

static void release_all(stator_tensor **tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        stator_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

stator_status stator_x_call_copies(stator_function *function, uint32_t n_in,
                                   stator_tensor *const *in, uint32_t n_out, stator_tensor **out)
{
    stator_ctx *ctx = st_function_ctx(function);
    stator_status status = STATOR_OK;
    memset(out, 0, ((size_t)n_out + n_in) * sizeof *out);
    for (uint32_t i = 0; status == STATOR_OK && i < n_in; i++) {
        out[n_out + i] = in[i] != NULL ? copy_tensor(ctx, in[i]) : NULL;
        status = in[i] == NULL || out[n_out + i] != NULL ? STATOR_OK : STATOR_RESOURCE_EXHAUSTED;
    }
    if (status == STATOR_OK) {
        status = stator_call_tensors(function, n_in, &out[n_out], n_out, out);
    }
    if (status != STATOR_OK) {
        release_all(out, n_out + n_in);
    }
    return status;
}

/* ---- naming ---- */

static void copy_text(char *to, const char *from)
{
    (void)snprintf(to, STATOR_X_PLACE_TEXT, "%s", from);
}

static void describe_origin(const stator_graph_view *v, uint32_t origin, stator_x_place *out)
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

void stator_x_describe(const stator_model *model, uint32_t value, stator_x_place *out)
{
    const stator_graph *graph = stator_model_graph(model);
    const stator_graph_view *v = graph != NULL ? st_graph_view(graph) : NULL;
    if (v == NULL || value == 0 || value > v->n_values) {
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
    const stator_x_pair *pair;
    st_mem *mem;
    const stator_graph_view *v;
    uint32_t *values; /* candidates in topological order */
    uint32_t n;
    uint32_t left; /* observations that may still be made */
    stator_x_place *out;
} observer;

/* What one call gave: outputs, then the inputs as the call left them. */
typedef struct results {
    stator_tensor **tensors;
    uint32_t n;
} results;

static void free_results(const observer *o, results *r)
{
    if (r->tensors != NULL) {
        release_all(r->tensors, r->n);
    }
    st_free(o->mem, (void *)r->tensors);
    *r = (results){.tensors = NULL};
}

/* The model with the values as outputs in front of its own. */
static stator_model *with_values(const observer *o, uint32_t first, uint32_t count)
{
    uint32_t *all = st_calloc(o->mem, (uint64_t)count + o->v->n_outputs + 1u, sizeof *all);
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
    st_free(o->mem, all);
    return model;
}

static int call_way(const observer *o, stator_model *model, const stator_compile_options *way,
                    uint32_t n_out, results *out)
{
    const stator_x_pair *p = o->pair;
    stator_function *function = NULL;
    *out = (results){.n = n_out + p->n_in};
    out->tensors = st_calloc(o->mem, out->n + UINT64_C(1), sizeof(stator_tensor *));
    const int ok = out->tensors != NULL && stator_compile(model, way, &function) == STATOR_OK &&
                   stator_x_call_copies(function, p->n_in, p->in, n_out, out->tensors) == STATOR_OK;
    stator_function_destroy(function);
    return ok;
}

/* Takes the first of the values that differs. Returns 1 when the answers differ anywhere. */
static int judge(observer *o, uint32_t first, uint32_t count, const results *good,
                 const results *bad)
{
    const st_tolerance tolerance = {o->pair->rtol, o->pair->atol};
    int differs = 0;
    for (uint32_t i = 0; i < good->n && !o->out->is_found; i++) {
        st_difference d;
        st_compare(stator_tensor_view(bad->tensors[i]), stator_tensor_view(good->tensors[i]),
                        &tolerance, &d);
        differs |= !d.ok;
        if (!d.ok && i < count) {
            o->out->is_found = 1;
            o->out->max_abs = d.max_abs;
            stator_x_describe(o->pair->model, o->values[first + i], o->out);
        }
    }
    return differs;
}

/* 1: both ran; *out_differs says whether any of the observed answers did. */
static int observe_group(observer *o, uint32_t first, uint32_t count, int *out_differs)
{
    results good = {.tensors = NULL};
    results bad = {.tensors = NULL};
    const uint32_t n_out = count + o->v->n_outputs;
    stator_model *model = with_values(o, first, count);
    const int ok = model != NULL && call_way(o, model, o->pair->good, n_out, &good) &&
                   call_way(o, model, o->pair->bad, n_out, &bad);
    *out_differs = ok && judge(o, first, count, &good, &bad);
    free_results(o, &good);
    free_results(o, &bad);
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
    o->values = st_calloc(o->mem, o->v->n_values + UINT64_C(1), sizeof *o->values);
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

static void observe_wanted(observer *o)
{
    uint32_t *const all = o->values;
    uint32_t wanted = o->pair->wanted;
    int differs = 0;
    o->values = &wanted;
    const int is_seen = observe_group(o, 0, 1, &differs);
    o->values = all;
    o->out->is_wanted = o->out->is_found;
    o->out->hides_wanted = is_seen && !differs;
}

static void observe_all(observer *o)
{
    for (uint32_t first = 0; first < o->n && !o->out->is_found;) {
        uint32_t count = 0;
        uint64_t bytes = 0;
        while (first + count < o->n && count < GROUP_VALUES &&
               (count == 0 || bytes < GROUP_BYTES)) {
            bytes += bytes_of(o->v, o->values[first + count++]);
        }
        search(o, first, count);
        first += count;
    }
}

void stator_x_first_difference(const stator_x_pair *pair, stator_x_place *out)
{
    const stator_graph *graph = stator_model_graph(pair->model);
    *out = (stator_x_place){.struct_size = sizeof *out};
    if (graph == NULL) {
        return;
    }
    observer o = {.pair = pair,
                  .mem = &pair->model->ctx->mem,
                  .v = st_graph_view(graph),
                  .left = MAX_OBSERVATIONS,
                  .out = out};
    if (list_values(&o)) {
        const uint32_t wanted = pair->wanted;
        if (wanted != 0 && wanted <= o.v->n_values && stator_value_at(o.v, wanted)->node != 0) {
            observe_wanted(&o);
        }
        observe_all(&o);
    }
    st_free(o.mem, o.values);
}
