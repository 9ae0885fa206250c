/* Where two ways to compile one model part; see stator/inspect.h.
 *
 * Inner values are read by compiling again with them as more outputs, in groups and in
 * topological order, so that few compiles are needed. A group that cannot be compiled, or that
 * makes the difference vanish (an output keeps a rewrite or a fusion from happening), is halved;
 * a number of observations bounds the work. A value that is off by a step of its rounding is
 * pinned: the model is cut so that the value becomes an input, which both ways get from the good
 * one, and the search goes on with the values behind it. */
#include "core/base/compare.h"
#include "core/base/sized.h"
#include "core/host/function.h"
#include "core/host/rounding.h"

#include <stator/inspect.h>
#include <stdio.h>
#include <string.h>

#define GROUP_VALUES 48u
#define GROUP_BYTES (UINT64_C(128) << 20)
#define OBSERVATIONS_MAX 400u
#define PINS_MAX 64u

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
    ST_THEN(status, stator_call_tensors(function, n_in, &out[n_out], n_out, out));
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
    const stator_origin_row *row = stator_origin_at(v, origin);
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

static void describe(const stator_model *model, uint32_t value, stator_x_place *out)
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

stator_status stator_x_describe(const stator_model *model, uint32_t value, stator_x_place *out)
{
    stator_x_place place;
    stator_diag *diag = NULL;
    stator_status status = ST_SIZED_READ(stator_x_place, &place, out, &diag);
    if (status == STATOR_OK) {
        describe(model, value, &place);
        status = ST_SIZED_WRITE(stator_x_place, out, &place, &diag);
    }
    return st_ctx_fail(model->ctx, status, diag);
}

/* ---- observing ---- */

typedef struct observer {
    const stator_x_pair *pair;
    st_mem *mem;
    stator_model *model; /* the pair's model, or a copy with pinned values as further inputs */
    stator_tensor **in;
    uint32_t n_in;
    const stator_graph_view *v;
    uint32_t *values;   /* candidates in topological order */
    uint32_t *original; /* by candidate: its value in the pair's model */
    uint32_t n;
    stator_tensor *step; /* the good value of candidate step_at, one rounding step off */
    uint32_t step_at;
    uint32_t left; /* observations that may still be made */
    stator_x_place *out;
} observer;

static bool is_done(const observer *o)
{
    return o->out->is_found || o->step != NULL;
}

/* Results of one call: its outputs, then the inputs as the call left them. */
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
    if (stator_x_model_with_outputs(o->model, count + o->v->n_outputs, all, &model) != STATOR_OK) {
        model = NULL;
    }
    st_free(o->mem, all);
    return model;
}

static bool call_way(const observer *o, stator_model *model, const stator_compile_options *way,
                     uint32_t n_out, results *out)
{
    stator_function *function = NULL;
    *out = (results){.n = n_out + o->n_in};
    out->tensors = st_calloc(o->mem, out->n + UINT64_C(1), sizeof(stator_tensor *));
    const bool ok =
        out->tensors != NULL && stator_compile(model, way, &function) == STATOR_OK &&
        stator_x_call_copies(function, o->n_in, o->in, n_out, out->tensors) == STATOR_OK;
    stator_function_destroy(function);
    return ok;
}

/* Takes the first of the values that differs. Returns 1 when the answers differ anywhere. */
static bool judge(observer *o, uint32_t first, uint32_t count, const results *good,
                  const results *bad)
{
    const st_tolerance tolerance = {o->pair->rtol, o->pair->atol};
    bool differs = false;
    for (uint32_t i = 0; i < good->n && !is_done(o); i++) {
        const DLTensor *got = stator_tensor_view(bad->tensors[i]);
        const DLTensor *want = stator_tensor_view(good->tensors[i]);
        st_difference d;
        st_compare(got, want, &tolerance, &d);
        differs |= !d.ok;
        if (d.ok || i >= count) {
            continue;
        }
        if (st_rounds(o->v, o->values[first + i]) && st_is_rounding_step(got, want)) {
            o->step = good->tensors[i];
            o->step_at = first + i;
            stator_tensor_retain(o->step);
            continue;
        }
        o->out->is_found = 1;
        o->out->max_abs = d.max_abs;
        describe(o->pair->model, o->original[first + i], o->out);
    }
    return differs;
}

/* 1: both ran; *out_differs says whether any of the observed answers did. */
static bool observe_group(observer *o, uint32_t first, uint32_t count, bool *out_differs)
{
    results good = {.tensors = NULL};
    results bad = {.tensors = NULL};
    const uint32_t n_out = count + o->v->n_outputs;
    stator_model *model = with_values(o, first, count);
    const bool ok = model != NULL && call_way(o, model, o->pair->good, n_out, &good) &&
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
    bool differs = false;
    if (o->left == 0 || count == 0 || is_done(o)) {
        return;
    }
    const bool ok = observe_group(o, first, count, &differs);
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
static bool list_values(observer *o)
{
    o->n = 0;
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
    uint32_t *const original = o->original;
    uint32_t wanted = o->pair->wanted;
    bool differs = false;
    o->values = o->original = &wanted;
    const bool is_seen = observe_group(o, 0, 1, &differs);
    o->values = all;
    o->original = original;
    stator_tensor_release(o->step); /* a step is met again where it comes in order */
    o->step = NULL;
    o->out->is_wanted = o->out->is_found;
    o->out->hides_wanted = is_seen && !differs;
}

static void observe_from(observer *o, uint32_t first)
{
    while (first < o->n && !is_done(o)) {
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

/* ---- steps of roundings ---- */

int32_t stator_x_has_rounding(const stator_model *model)
{
    const stator_graph *graph = stator_model_graph(model);
    const stator_graph_view *v = graph != NULL ? st_graph_view(graph) : NULL;
    for (uint32_t n = 1; v != NULL && n <= v->n_nodes; n++) {
        if (st_rounds(v, stator_node_at(v, n)->result_begin)) {
            return 1;
        }
    }
    return 0;
}

static void note_step(const observer *o)
{
    stator_x_place place = {.struct_size = sizeof place};
    if (o->out->n_steps++ == 0) {
        describe(o->pair->model, o->original[o->step_at], &place);
        copy_text(o->out->step_node, place.node);
        copy_text(o->out->step_name, place.name);
    }
}

/* The model without the node that makes the value, which a call gives behind the other inputs. */
static stator_model *cut_at(const observer *o, uint32_t value)
{
    const stator_graph_view *v = o->v;
    const uint32_t maker = stator_value_at(v, value)->node;
    const uint32_t n_call = o->n_in;
    stator_model *model = NULL;
    stator_ref *nodes =
        st_calloc(o->mem, (uint64_t)v->n_nodes + v->n_inputs + v->n_outputs + 2u, sizeof *nodes);
    if (nodes == NULL) {
        return NULL;
    }
    stator_ref *inputs = nodes + v->n_nodes;
    stator_ref *outputs = inputs + v->n_inputs + 1u;
    uint32_t n_nodes = 0;
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        if (n != maker) {
            nodes[n_nodes++] = n;
        }
    }
    (void)st_graph_call_inputs(stator_model_graph(o->model), inputs);
    inputs[n_call] = value;
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        outputs[k] = stator_output_at(v, k);
    }
    const stator_x_cut cut = {.struct_size = sizeof cut,
                              .n_nodes = n_nodes,
                              .n_inputs = n_call + 1u,
                              .n_outputs = v->n_outputs,
                              .nodes = nodes,
                              .inputs = inputs,
                              .outputs = outputs};
    if (stator_x_model_cut(o->model, &cut, &model) != STATOR_OK) {
        model = NULL;
    }
    st_free(o->mem, nodes);
    return model;
}

static void leave_model(observer *o)
{
    if (o->model != o->pair->model) {
        stator_model_destroy(o->model);
    }
    st_free(o->mem, o->values);
    o->values = NULL;
}

/* Goes on with the model in which the step's value is an input. Takes the step over. 0: it
 * cannot be cut so. */
static bool pin_step(observer *o)
{
    stator_model *next = cut_at(o, o->values[o->step_at]);
    stator_tensor **in = st_realloc(o->mem, o->in, (o->n_in + UINT64_C(1)) * sizeof *in, 16);
    o->in = in != NULL ? in : o->in;
    if (next == NULL || in == NULL) {
        stator_model_destroy(next);
        return false;
    }
    leave_model(o);
    o->model = next;
    o->in[o->n_in++] = o->step;
    o->step = NULL;
    o->v = st_graph_view(stator_model_graph(next));
    memmove(&o->original[o->step_at], &o->original[o->step_at + 1u],
            (o->n - o->step_at - 1u) * sizeof *o->original);
    return list_values(o);
}

/* Looks at all values in order; behind one that is off by a step, at those of a model in which
 * it is not. */
static void observe_all(observer *o)
{
    observe_from(o, 0);
    while (o->step != NULL) {
        bool differs = false;
        note_step(o);
        if (o->out->n_steps > PINS_MAX || !pin_step(o)) {
            return;
        }
        o->left++; /* a run of the whole model is not charged to the search */
        if (observe_group(o, 0, 0, &differs) && !differs) {
            o->out->is_rounding = 1;
            return;
        }
        observe_from(o, o->step_at);
    }
}

static void end_observer(observer *o)
{
    stator_tensor_release(o->step);
    for (uint32_t i = o->pair->n_in; i < o->n_in; i++) {
        stator_tensor_release(o->in[i]);
    }
    leave_model(o);
    st_free(o->mem, o->in);
    st_free(o->mem, o->original);
}

static void observe(const stator_x_pair *pair, const stator_graph *graph, stator_x_place *out)
{
    observer o = {.pair = pair,
                  .mem = &pair->model->ctx->mem,
                  .model = pair->model,
                  .n_in = pair->n_in,
                  .v = st_graph_view(graph),
                  .left = OBSERVATIONS_MAX,
                  .out = out};
    o.in = st_calloc(o.mem, pair->n_in + UINT64_C(1), sizeof *o.in);
    o.original = st_calloc(o.mem, o.v->n_values + UINT64_C(1), sizeof *o.original);
    if (o.in != NULL && o.original != NULL && list_values(&o)) {
        const uint32_t wanted = pair->wanted;
        if (pair->n_in != 0) {
            memcpy(o.in, pair->in, pair->n_in * sizeof *o.in);
        }
        memcpy(o.original, o.values, o.n * sizeof *o.original);
        if (wanted != 0 && wanted <= o.v->n_values && stator_value_at(o.v, wanted)->node != 0) {
            observe_wanted(&o);
        }
        observe_all(&o);
    }
    end_observer(&o);
}

stator_status stator_x_first_difference(const stator_x_pair *given, stator_x_place *out)
{
    stator_x_pair pair;
    stator_x_place place = {.struct_size = sizeof place};
    ST_TRY(ST_SIZED_READ(stator_x_pair, &pair, given, NULL));
    stator_ctx *ctx = pair.model->ctx;
    ST_TRY(ST_CTX_WRITE(ctx, stator_x_place, out, &place));
    const stator_graph *graph = stator_model_graph(pair.model);
    if (graph != NULL) {
        observe(&pair, graph, &place);
    }
    return ST_CTX_WRITE(ctx, stator_x_place, out, &place);
}
