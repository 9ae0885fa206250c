/* The gradient of scan: a scan that runs the other way.
 *
 *     s', ys = scan(s, xs, c)   with   s', y = f(s, x, c)   at iteration k = 0..n-1
 *
 * First the scan runs again and stacks the states that each iteration began with. Then, for k =
 * n-1..0, f is differentiated in a body that carries the gradients of the state and the sums of the
 * gradients of the captures, reads the saved state, the slices of xs and of the gradients of ys,
 * and stacks the gradients of the slices. Values that are no floats are passed along without a
 * gradient. */
#include "core/base/check.h"
#include "ir/gradient.h"
#include "ir/ops/op_kit.h"
#include <stator/ops.h>

#define VALUES_MAX 64u

typedef struct list {
    stator_ref at[4u * VALUES_MAX];
    uint32_t n;
} list;

typedef struct flags {
    int64_t axes[2u * VALUES_MAX], reverse[2u * VALUES_MAX];
    uint32_t n;
} flags;

typedef struct scan {
    stator_builder *b;
    const stator_graph *body;
    const stator_graph_view *v; /* view of body */
    const stator_ref *operands;
    const stator_attr *attrs;
    const stator_ref *out_grads;
    uint32_t n, carried, scanned, stacked;
    stator_ref saved[VALUES_MAX];
    stator_ref *map; /* body's values in the builder of a region */
    stator_diag **err;
} scan;

static void push(list *l, stator_ref value)
{
    l->at[l->n++] = value;
}

static int64_t entry(const scan *s, uint32_t attr, uint32_t i)
{
    const stator_attr *a = &s->attrs[attr];
    return i < a->count ? ((const int64_t *)a->list)[i] : 0;
}

static void push_flags(flags *f, int64_t axis, int64_t reverse)
{
    f->axes[f->n] = axis;
    f->reverse[f->n++] = reverse;
}

static int is_float(const scan *s, stator_ref value)
{
    return st_dtype_class(stator_value_type(s->v, value)->dtype) == STATOR_CLASS_FLOAT;
}

/* Input i (from 0) of the body gets a gradient. */
static int has_grad(const scan *s, uint32_t i)
{
    return is_float(s, i + 1u);
}

static stator_status input_like(stator_builder *r, const scan *s, stator_ref value, stator_ref *out)
{
    return st_build_input(r, "", stator_value_at(s->v, value)->type, out, s->err);
}

/* `axes`: of what is scanned, and of what is stacked. */
static stator_status scan_node(const scan *s, const list *operands, uint32_t carried,
                               const flags axes[2], stator_graph *body, stator_ref *results)
{
    const flags *in = &axes[0];
    const flags *out = &axes[1];
    stator_graph *regions[] = {body};
    const stator_attr attrs[] = {ST_KIT_INT("carried", carried),
                                 ST_KIT_INT("scanned", in->n),
                                 ST_KIT_INT("stacked", out->n),
                                 ST_KIT_INTS("axes", in->axes, in->n),
                                 ST_KIT_INTS("reverse", in->reverse, in->n),
                                 ST_KIT_INTS("out_axes", out->axes, out->n),
                                 ST_KIT_INTS("out_reverse", out->reverse, out->n)};
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = STATOR_OPCODE_scan,
                                   .operands = operands->at,
                                   .operand_count = operands->n,
                                   .attr_count = 7,
                                   .attrs = attrs,
                                   .regions = regions,
                                   .region_count = 1,
                                   .result_count = carried + out->n};
    return st_build_node(s->b, &desc, results, s->err);
}

/* ---- the states ---- */

static stator_status write_saving(stator_builder *r, const scan *s)
{
    ST_TRY(st_build_clone_inputs(r, s->body, s->map, s->err));
    if (s->v->n_nodes != 0) {
        ST_TRY(st_build_clone(r, s->body, 1, s->v->n_nodes, s->map, s->err));
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        ST_TRY(st_build_output(r, "", s->map[stator_output_at(s->v, i)], s->err));
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        ST_TRY(st_build_output(r, "", s->map[i + 1u], s->err));
    }
    return STATOR_OK;
}

typedef stator_status (*write_fn)(stator_builder *r, const scan *s);

static stator_status make_body(const scan *s, const char *name, write_fn write, stator_graph **out)
{
    stator_builder *r = NULL;
    ST_TRY(st_build_region_begin(s->b, name, &r, s->err));
    const stator_status status = write(r, s);
    if (status != STATOR_OK) {
        st_build_region_abort(r);
        return status;
    }
    return st_build_region_end(r, out, s->err);
}

static stator_status save_states(scan *s)
{
    stator_graph *body = NULL;
    stator_ref results[2u * VALUES_MAX];
    list operands = {.n = 0};
    flags axes[2] = {{.n = 0}, {.n = 0}};
    if (s->carried == 0) {
        return STATOR_OK;
    }
    ST_TRY(make_body(s, "states", write_saving, &body));
    for (uint32_t i = 0; i < s->n; i++) {
        push(&operands, s->operands[i]);
    }
    for (uint32_t i = 0; i < s->scanned; i++) {
        push_flags(&axes[0], entry(s, STATOR_scan_axes, i), entry(s, STATOR_scan_reverse, i));
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        push_flags(&axes[1], 0, 0);
    }
    ST_TRY(scan_node(s, &operands, s->carried, axes, body, results));
    for (uint32_t i = 0; i < s->carried; i++) {
        s->saved[i] = results[s->carried + i];
    }
    return STATOR_OK;
}

/* ---- the way back ---- */

/* Inputs: gradients of the state, sums of those of the captures; saved states, slices, gradients of
 * the stacked; captures. */
static stator_status write_inputs(stator_builder *r, const scan *s, list *seeds, list *sums)
{
    stator_ref value;
    const uint32_t captures = s->carried + s->scanned;
    for (uint32_t i = 0; i < s->carried; i++) {
        if (has_grad(s, i)) {
            ST_TRY(input_like(r, s, i + 1u, &value));
            push(seeds, value);
        }
    }
    for (uint32_t i = captures; i < s->n; i++) {
        if (has_grad(s, i)) {
            ST_TRY(input_like(r, s, i + 1u, &value));
            push(sums, value);
        }
    }
    for (uint32_t i = 0; i < captures; i++) {
        ST_TRY(input_like(r, s, i + 1u, &s->map[i + 1u]));
    }
    for (uint32_t i = 0; i < s->stacked; i++) {
        if (s->out_grads[s->carried + i] != 0) {
            ST_TRY(input_like(r, s, stator_output_at(s->v, s->carried + i), &value));
            push(seeds, value);
        }
    }
    for (uint32_t i = captures; i < s->n; i++) {
        ST_TRY(input_like(r, s, i + 1u, &s->map[i + 1u]));
    }
    return STATOR_OK;
}

static stator_status write_back_body(stator_builder *r, const scan *s)
{
    list seeds = {.n = 0}, sums = {.n = 0}, ys = {.n = 0}, xs = {.n = 0};
    stator_ref grads[4u * VALUES_MAX], at[VALUES_MAX] = {0};
    st_kit k = {.b = r, .err = s->err, .status = STATOR_OK};
    ST_TRY(write_inputs(r, s, &seeds, &sums));
    if (s->v->n_nodes != 0) {
        ST_TRY(st_build_clone(r, s->body, 1, s->v->n_nodes, s->map, s->err));
    }
    for (uint32_t i = 0; i < s->carried + s->stacked; i++) {
        if (i < s->carried ? has_grad(s, i) : s->out_grads[i] != 0) {
            push(&ys, s->map[stator_output_at(s->v, i)]);
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (has_grad(s, i)) {
            push(&xs, s->map[i + 1u]);
        }
    }
    ST_TRY(st_gradient_many(r, ys.n, ys.at, seeds.at, xs.n, xs.at, grads, s->err));
    for (uint32_t i = 0, n = 0; i < s->n; i++) {
        at[i] = has_grad(s, i) ? grads[n++] : 0;
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        ST_TRY(at[i] ? st_build_output(r, "", at[i], s->err) : STATOR_OK);
    }
    for (uint32_t i = s->carried + s->scanned, n = 0; i < s->n; i++) {
        if (at[i] != 0) {
            const stator_ref sum = st_kit_binary(&k, "add", sums.at[n++], at[i]);
            ST_TRY(k.status);
            ST_TRY(st_build_output(r, "", sum, s->err));
        }
    }
    for (uint32_t i = s->carried; i < s->carried + s->scanned; i++) {
        ST_TRY(at[i] ? st_build_output(r, "", at[i], s->err) : STATOR_OK);
    }
    return STATOR_OK;
}

/* The first values of the gradients that are carried. */
static uint32_t push_carried(const scan *s, st_kit *k, list *operands)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const int is_state = i < s->carried;
        if (!has_grad(s, i) || (!is_state && i < s->carried + s->scanned)) {
            continue;
        }
        push(operands, is_state && s->out_grads[i] != 0
                           ? s->out_grads[i]
                           : st_kit_expr(k, "zeros_like(x)", "x", &s->operands[i], 0, NULL));
    }
    return operands->n;
}

static void push_scanned(const scan *s, list *operands, flags *in, flags *out)
{
    for (uint32_t i = 0; i < s->carried; i++) {
        push(operands, s->saved[i]);
        push_flags(in, 0, 1);
    }
    for (uint32_t i = 0; i < s->scanned; i++) {
        const int64_t axis = entry(s, STATOR_scan_axes, i);
        const int64_t reverse = !entry(s, STATOR_scan_reverse, i);
        push(operands, s->operands[s->carried + i]);
        push_flags(in, axis, reverse);
        if (has_grad(s, s->carried + i)) {
            push_flags(out, axis, reverse);
        }
    }
    for (uint32_t i = 0; i < s->stacked; i++) {
        if (s->out_grads[s->carried + i] != 0) {
            push(operands, s->out_grads[s->carried + i]);
            push_flags(in, entry(s, STATOR_scan_out_axes, i),
                       !entry(s, STATOR_scan_out_reverse, i));
        }
    }
}

static stator_status go_back(scan *s, stator_ref *in_grads)
{
    stator_graph *body = NULL;
    stator_ref results[4u * VALUES_MAX];
    list operands = {.n = 0};
    flags axes[2] = {{.n = 0}, {.n = 0}};
    st_kit k = {.b = s->b, .err = s->err, .status = STATOR_OK};
    const uint32_t captures = s->carried + s->scanned;
    ST_TRY(make_body(s, "back", write_back_body, &body));
    const uint32_t carried = push_carried(s, &k, &operands);
    ST_TRY(k.status);
    push_scanned(s, &operands, &axes[0], &axes[1]);
    for (uint32_t i = captures; i < s->n; i++) {
        push(&operands, s->operands[i]);
    }
    ST_TRY(scan_node(s, &operands, carried, axes, body, results));
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        in_grads[i] = i < s->carried && has_grad(s, i) ? results[next++] : 0;
    }
    for (uint32_t i = captures; i < s->n; i++) {
        in_grads[i] = has_grad(s, i) ? results[next++] : 0;
    }
    for (uint32_t i = s->carried; i < captures; i++) {
        in_grads[i] = has_grad(s, i) ? results[next++] : 0;
    }
    return STATOR_OK;
}

stator_status st_gradient_scan(stator_builder *b, const stator_graph *body,
                               const st_decompose_node *node, const stator_ref *out_grads,
                               stator_ref *in_grads, stator_diag **err)
{
    scan s = {.b = b,
              .body = body,
              .v = st_graph_view(body),
              .operands = node->operands,
              .attrs = node->attrs,
              .out_grads = out_grads,
              .n = node->n_operands,
              .carried = (uint32_t)node->attrs[STATOR_scan_carried].i,
              .scanned = (uint32_t)node->attrs[STATOR_scan_scanned].i,
              .stacked = (uint32_t)node->attrs[STATOR_scan_stacked].i,
              .err = err};
    if (s.n > VALUES_MAX || s.stacked > VALUES_MAX) {
        return st_fail(err, STATOR_UNSUPPORTED, "scan has too many values for a gradient");
    }
    st_mem *mem = b->module->mem;
    s.map = st_calloc(mem, s.v->n_values + 1u, sizeof *s.map);
    stator_status status = s.map ? save_states(&s) : st_fail_oom(err);
    if (status == STATOR_OK) {
        status = go_back(&s, in_grads);
    }
    st_free(mem, s.map);
    return status;
}
