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
#include "ir/gradient/gradient_rules.h"
#include <stator/ops.h>
#include <string.h>

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
    const stator_graph *body;
    const stator_graph_view *v; /* view of body */
    const stator_ref *operands;
    const stator_attr *attrs;
    const stator_ref *out_grads;
    uint32_t n, carried, scanned, stacked;
    stator_ref saved[VALUES_MAX];
    stator_ref *map; /* body's values in the builder of a region */
    stator_emitter e;
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

static bool is_float(const scan *s, stator_ref value)
{
    return st_dtype_class(stator_value_type(s->v, value)->dtype) == STATOR_CLASS_FLOAT;
}

/* Input i (from 0) of the body gets a gradient. */
static bool has_grad(const scan *s, uint32_t i)
{
    return is_float(s, i + 1u);
}

static stator_ref input_like(scan *s, stator_ref value)
{
    return stator_emit_input(&s->e, "", stator_value_at(s->v, value)->type);
}

/* `axes`: of what is scanned, and of what is stacked. */
static void scan_node(scan *s, const list *operands, uint32_t carried, const flags axes[2],
                      stator_graph *body, stator_ref *results)
{
    const flags *in = &axes[0];
    const flags *out = &axes[1];
    stator_emit_node(&s->e, "scan", operands->n, operands->at,
                     STATOR_AT(STATOR_A_INT("carried", carried), STATOR_A_INT("scanned", in->n),
                               STATOR_A_INT("stacked", out->n),
                               STATOR_A_INTS("axes", in->n, in->axes),
                               STATOR_A_INTS("reverse", in->n, in->reverse),
                               STATOR_A_INTS("out_axes", out->n, out->axes),
                               STATOR_A_INTS("out_reverse", out->n, out->reverse)),
                     1, &body, carried + out->n, results);
}

/* ---- the states ---- */

static stator_graph *saving_body(scan *s)
{
    stator_builder *around = stator_emit_region_begin(&s->e, "states");
    if (around != NULL) {
        stator_emit_check(&s->e, st_build_clone_inputs(s->e.b, s->body, s->map, s->e.err));
    }
    stator_emit_clone(&s->e, s->body, 1, s->v->n_nodes, s->map);
    for (uint32_t i = 0; i < s->carried; i++) {
        stator_emit_output(&s->e, "", s->map[stator_output_at(s->v, i)]);
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        stator_emit_output(&s->e, "", s->map[i + 1u]);
    }
    return stator_emit_region_end(&s->e, around);
}

static void save_states(scan *s)
{
    stator_ref results[2u * VALUES_MAX];
    list operands = {.n = 0};
    flags axes[2] = {{.n = 0}, {.n = 0}};
    if (s->carried == 0) {
        return;
    }
    stator_graph *body = saving_body(s);
    for (uint32_t i = 0; i < s->n; i++) {
        push(&operands, s->operands[i]);
    }
    for (uint32_t i = 0; i < s->scanned; i++) {
        push_flags(&axes[0], entry(s, STATOR_scan_axes, i), entry(s, STATOR_scan_reverse, i));
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        push_flags(&axes[1], 0, 0);
    }
    scan_node(s, &operands, s->carried, axes, body, results);
    memcpy(s->saved, results + s->carried, s->carried * sizeof *results);
}

/* ---- the way back ---- */

/* Inputs: gradients of the state, sums of those of the captures; saved states, slices, gradients of
 * the stacked; captures. */
static void write_inputs(scan *s, list *seeds, list *sums)
{
    const uint32_t captures = s->carried + s->scanned;
    for (uint32_t i = 0; i < s->carried; i++) {
        if (has_grad(s, i)) {
            push(seeds, input_like(s, i + 1u));
        }
    }
    for (uint32_t i = captures; i < s->n; i++) {
        if (has_grad(s, i)) {
            push(sums, input_like(s, i + 1u));
        }
    }
    for (uint32_t i = 0; i < captures; i++) {
        s->map[i + 1u] = input_like(s, i + 1u);
    }
    for (uint32_t i = 0; i < s->stacked; i++) {
        if (s->out_grads[s->carried + i] != 0) {
            push(seeds, input_like(s, stator_output_at(s->v, s->carried + i)));
        }
    }
    for (uint32_t i = captures; i < s->n; i++) {
        s->map[i + 1u] = input_like(s, i + 1u);
    }
}

static stator_graph *back_body(scan *s)
{
    list seeds = {.n = 0}, sums = {.n = 0}, ys = {.n = 0}, xs = {.n = 0};
    stator_ref grads[4u * VALUES_MAX] = {0}, at[VALUES_MAX] = {0};
    stator_builder *around = stator_emit_region_begin(&s->e, "back");
    write_inputs(s, &seeds, &sums);
    stator_emit_clone(&s->e, s->body, 1, s->v->n_nodes, s->map);
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
    if (s->e.status == STATOR_OK) {
        const st_gradient_request request = {
            .n_y = ys.n, .n_x = xs.n, .ys = ys.at, .seeds = seeds.at, .xs = xs.at};
        stator_emit_check(&s->e, st_gradient_many(s->e.b, &request, grads, s->e.err));
    }
    for (uint32_t i = 0, n = 0; i < s->n; i++) {
        at[i] = has_grad(s, i) ? grads[n++] : 0;
    }
    for (uint32_t i = 0; i < s->carried; i++) {
        if (at[i] != 0) {
            stator_emit_output(&s->e, "", at[i]);
        }
    }
    for (uint32_t i = s->carried + s->scanned, n = 0; i < s->n; i++) {
        if (at[i] != 0) {
            stator_emit_output(&s->e, "", stator_emit_binary(&s->e, "add", sums.at[n++], at[i]));
        }
    }
    for (uint32_t i = s->carried; i < s->carried + s->scanned; i++) {
        if (at[i] != 0) {
            stator_emit_output(&s->e, "", at[i]);
        }
    }
    return stator_emit_region_end(&s->e, around);
}

/* The first values of the gradients that are carried. */
static uint32_t push_carried(scan *s, list *operands)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const bool is_state = i < s->carried;
        if (!has_grad(s, i) || (!is_state && i < s->carried + s->scanned)) {
            continue;
        }
        push(operands, is_state && s->out_grads[i] != 0
                           ? s->out_grads[i]
                           : stator_emit_expr(&s->e, "zeros_like(x)", "x",
                                              STATOR_IN(s->operands[i]), STATOR_NONE));
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

static void go_back(scan *s, stator_ref *in_grads)
{
    stator_ref results[4u * VALUES_MAX];
    list operands = {.n = 0};
    flags axes[2] = {{.n = 0}, {.n = 0}};
    const uint32_t captures = s->carried + s->scanned;
    stator_graph *body = back_body(s);
    const uint32_t carried = push_carried(s, &operands);
    push_scanned(s, &operands, &axes[0], &axes[1]);
    for (uint32_t i = captures; i < s->n; i++) {
        push(&operands, s->operands[i]);
    }
    scan_node(s, &operands, carried, axes, body, results);
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
}

stator_status st_grad_scan(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                           stator_diag **err)
{
    const st_decompose_node *node = v->of;
    scan s = {.body = node->regions[0],
              .v = st_graph_view(node->regions[0]),
              .operands = node->operands,
              .attrs = node->attrs,
              .out_grads = v->grads,
              .n = node->n_operands,
              .carried = (uint32_t)node->attrs[STATOR_scan_carried].i,
              .scanned = (uint32_t)node->attrs[STATOR_scan_scanned].i,
              .stacked = (uint32_t)node->attrs[STATOR_scan_stacked].i,
              .e = st_op_emitter(b, err)};
    ST_FAIL_IF(s.n > VALUES_MAX || s.stacked > VALUES_MAX, err, STATOR_UNSUPPORTED,
               "scan has too many values for a gradient");
    st_mem *mem = b->module->mem;
    s.map = st_calloc(mem, s.v->n_values + 1u, sizeof *s.map);
    ST_TRY_MEM(s.map, err);
    save_states(&s);
    go_back(&s, in_grads);
    st_free(mem, s.map);
    return s.e.status;
}
