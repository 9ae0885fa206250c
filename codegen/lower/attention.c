/* sdpa: attention that never has the whole matrix of scores. A row of queries goes twice over its
 * keys:
 *
 *     loop over batch, heads, rows                        parallel
 *       loop over s: m = max of score(s)
 *       loop over s, in order:  p = exp(score(s) - m), n = sum of p
 *         loop over e:  o[e] += p * v[s, e]
 *       loop over e:  out[e] = o[e] / n
 *
 * The scores are computed again rather than stored, whose number may be unknown. A key of no weight
 * counts nothing, whatever its value; a row that attends to nothing is 0.
 *
 * Its gradient, where it is kept, goes once more over the rows of the heads that share k and v:
 *
 *     loop over batch, heads of k and v                   parallel
 *       loop over their rows, in order
 *         loop over s: m = max of score(s)
 *         loop over s:  p = exp(score(s) - m), n = sum of p, c = sum of p * (dy . v[s])
 *         loop over s, in order:  p /= n, ds = scale * p * (dy . v[s] - c / n)
 *           dq += ds * k[s], dk[s] += ds * q, dv[s] += p * dy
 *
 * A library does each as a contraction of its own (ST_CONTRACTION_SDPA, _SDPA_GRADIENT), its
 * operands seen through their views. */
#include "codegen/lower/lower.h"
#include "codegen/target/contraction_desc.h"

#include <math.h>
#include <stator/ops.h>
#include <string.h>

#define WIDTH_MAX 4096 /* elements of a row of v: the sums of a row are on the stack */

enum operand { Q, K, V, MASK, DY = MASK, MASK_OF_GRADIENT };
enum result { DQ, DK, DV };
_Static_assert((int)STATOR_sdpa_scale == (int)STATOR_sdpa_gradient_scale &&
                   (int)STATOR_sdpa_is_causal == (int)STATOR_sdpa_gradient_is_causal,
               "attributes of both are read alike");

typedef struct attention {
    cg_nest *nest;
    const cg_node *node;
    const cg_value *q, *k, *v, *mask; /* mask NULL: none */
    stator_ref mask_value;
    uint32_t dtype; /* dtype of scores and sums */
    uint32_t at[4]; /* batch, head, row of queries */
    uint32_t group; /* head of k and v */
} attention;

const char *cg_sdpa_refuses(const stator_graph_view *view, const stator_node_row *row)
{
    const stator_type_row *q = stator_value_type(view, stator_operand(view, row, Q));
    const stator_type_row *v = stator_value_type(view, stator_operand(view, row, V));
    const stator_ref heads = stator_dim_at(view, q, 1);
    const stator_ref groups = stator_dim_at(view, v, 1);
    int64_t width = 0;
    int64_t n = 0;
    if (heads != groups &&
        !(stator_sym_is_const(view, heads, &n) && stator_sym_is_const(view, groups, &n))) {
        return "attention in groups whose numbers are not known";
    }
    if (!stator_sym_is_const(view, stator_dim_at(view, v, 3), &width)) {
        return "attention whose values have a width that is not known";
    }
    return width > WIDTH_MAX ? "attention with very wide values" : NULL;
}

/* ---- a score ---- */

static st_loop_ref scale_of(const attention *a)
{
    st_loop_builder *b = &a->nest->b;
    const stator_attr_row *scale = cg_attr(a->node, STATOR_sdpa_scale);
    if (scale->kind != STATOR_ATTR_NONE) {
        return st_loop_float(b, a->dtype, scale->f);
    }
    const st_loop_ref depth = st_loop_cast(b, a->dtype, st_loop_index(b, a->q->dims[3]));
    return st_loop_apply(b, ST_LOOP_rsqrt, 0, depth, 0, 0);
}

/* The element at the row of queries and place d, or at key s. */
static st_loop_ref row_at(const attention *a, uint32_t operand, uint32_t d)
{
    const uint32_t at[4] = {a->at[0], a->at[1], a->at[2], d};
    return cg_wide_at(a->nest, cg_operand(a->node, operand), at);
}

static st_loop_ref key_at(const attention *a, uint32_t operand, uint32_t s, uint32_t d)
{
    const uint32_t at[4] = {a->at[0], a->group, s, d};
    return cg_wide_at(a->nest, cg_operand(a->node, operand), at);
}

/* The gradient's: what is not finite is 0, unless all is promised to be. */
static st_loop_ref finite(const attention *a, st_loop_ref value)
{
    st_loop_builder *b = &a->nest->b;
    const st_loop_ref zero = st_loop_float(b, a->dtype, 0);
    if (value == 0 || cg_attr(a->node, STATOR_sdpa_gradient_finite)->i != 0) {
        return value;
    }
    const st_loop_ref is_finite =
        st_loop_apply(b, ST_LOOP_eq, 0, st_loop_apply(b, ST_LOOP_sub, 0, value, value, 0), zero, 0);
    return st_loop_apply(b, ST_LOOP_select, a->dtype, is_finite, value, zero);
}

/* The product of the row of operand x, q or dy, with row s of operand y, k or v. */
static st_loop_ref product(const attention *a, uint32_t x, uint32_t y, uint32_t s)
{
    cg_nest *nest = a->nest;
    st_loop_builder *b = &nest->b;
    const st_loop_ref sum = st_loop_acc(b, ST_ACC_SUM, a->dtype, 0);
    const uint32_t d = cg_open(nest, (x == Q ? a->q : a->v)->dims[3], ST_AXIS_REDUCE);
    const st_loop_ref left = row_at(a, x, d);
    const st_loop_ref right = y == K ? key_at(a, K, s, d) : finite(a, key_at(a, V, s, d));
    if (left && right) {
        st_loop_update(b, sum, st_loop_apply(b, ST_LOOP_mul, 0, left, right, 0), 0, 0);
    }
    cg_close(nest, 1);
    return st_loop_read(b, sum, a->dtype);
}

/* The mask at key s: its axes stand for the last ones of the scores. */
static st_loop_ref mask_at(const attention *a, uint32_t s)
{
    const uint32_t scores[4] = {a->q->dims[0], a->q->dims[1], a->q->dims[2], a->k->dims[2]};
    uint32_t index[4] = {a->at[0], a->at[1], a->at[2], s};
    const uint32_t skipped = 4u - a->mask->rank;
    cg_fit_index(a->nest, a->mask, scores + skipped, index + skipped);
    return cg_wide_at(a->nest, a->mask_value, index + skipped);
}

/* The score under the mask; what is masked by -inf is -inf, a NaN too. */
static st_loop_ref masked(const attention *a, st_loop_ref value, uint32_t s)
{
    st_loop_builder *b = &a->nest->b;
    const st_loop_ref never = st_loop_float(b, a->dtype, -INFINITY);
    const st_loop_ref mask = mask_at(a, s);
    if (a->mask->dtype == STATOR_BOOL) {
        return st_loop_apply(b, ST_LOOP_select, a->dtype, mask, value, never);
    }
    const st_loop_ref added = st_loop_cast(b, a->dtype, mask);
    const st_loop_ref is_never = st_loop_apply(b, ST_LOOP_eq, 0, added, never, 0);
    return st_loop_apply(b, ST_LOOP_select, a->dtype, is_never, never,
                         st_loop_apply(b, ST_LOOP_add, 0, value, added, 0));
}

static st_loop_ref score(const attention *a, uint32_t s)
{
    st_loop_builder *b = &a->nest->b;
    const st_loop_ref scaled =
        st_loop_apply(b, ST_LOOP_mul, 0, product(a, Q, K, s), scale_of(a), 0);
    const st_loop_ref value = a->mask ? masked(a, scaled, s) : scaled;
    if (cg_attr(a->node, STATOR_sdpa_is_causal)->i == 0) {
        return value;
    }
    const st_loop_ref is_past =
        st_loop_apply(b, ST_LOOP_le, 0, st_loop_index(b, s), st_loop_index(b, a->at[2]), 0);
    return st_loop_apply(b, ST_LOOP_select, a->dtype, is_past, value,
                         st_loop_float(b, a->dtype, -INFINITY));
}

/* ---- a row ---- */

/* The largest score, 0 where that is -inf. */
static st_loop_ref largest(const attention *a)
{
    cg_nest *nest = a->nest;
    st_loop_builder *b = &nest->b;
    const st_loop_ref max = st_loop_acc(b, ST_ACC_MAX, a->dtype, 0);
    const uint32_t s = cg_open(nest, a->k->dims[2], ST_AXIS_REDUCE);
    const st_loop_ref value = score(a, s);
    if (value) {
        st_loop_update(b, max, value, 0, 0);
    }
    cg_close(nest, 1);
    const st_loop_ref m = st_loop_read(b, max, a->dtype);
    const st_loop_ref is_none =
        st_loop_apply(b, ST_LOOP_eq, 0, m, st_loop_float(b, a->dtype, -INFINITY), 0);
    return st_loop_apply(b, ST_LOOP_select, a->dtype, is_none, st_loop_float(b, a->dtype, 0), m);
}

/* One pass over the keys: sums[e] += p * v[s, e]. The sum of p. */
static st_loop_ref weigh(const attention *a, st_loop_ref m, uint32_t sums)
{
    cg_nest *nest = a->nest;
    st_loop_builder *b = &nest->b;
    const st_loop_ref zero = st_loop_float(b, a->dtype, 0);
    const st_loop_ref n = st_loop_acc(b, ST_ACC_SUM, a->dtype, 0);
    const uint32_t s = cg_open(nest, a->k->dims[2], ST_AXIS_SERIAL);
    const st_loop_ref p =
        st_loop_apply(b, ST_LOOP_exp, 0, st_loop_apply(b, ST_LOOP_sub, 0, score(a, s), m, 0), 0, 0);
    if (p) {
        st_loop_update(b, n, p, 0, 0);
    }
    const uint32_t e = cg_open(nest, a->v->dims[3], 0);
    const st_loop_ref v = key_at(a, V, s, e);
    const st_loop_ref counts = st_loop_apply(b, ST_LOOP_ne, 0, p, zero, 0);
    const st_loop_ref part = st_loop_apply(b, ST_LOOP_select, a->dtype, counts,
                                           st_loop_apply(b, ST_LOOP_mul, 0, p, v, 0), zero);
    const st_loop_ref old = st_loop_load(b, sums, e, 0, 0);
    if (part && old) {
        st_loop_store(b, sums, e, st_loop_apply(b, ST_LOOP_add, 0, old, part, 0), 0);
    }
    cg_close(nest, 2);
    return st_loop_read(b, n, a->dtype);
}

static void store_row(const attention *a, st_loop_ref n, uint32_t sums)
{
    cg_nest *nest = a->nest;
    st_loop_builder *b = &nest->b;
    const st_loop_ref is_none =
        st_loop_apply(b, ST_LOOP_eq, 0, n, st_loop_float(b, a->dtype, 0), 0);
    const st_loop_ref part =
        st_loop_apply(b, ST_LOOP_select, a->dtype, is_none, st_loop_float(b, a->dtype, 1), n);
    const uint32_t e = cg_open(nest, a->v->dims[3], 0);
    const uint32_t at_out[4] = {a->at[0], a->at[1], a->at[2], e};
    const st_loop_ref value =
        st_loop_apply(b, ST_LOOP_div, 0, st_loop_load(b, sums, e, 0, 0), part, 0);
    cg_put(nest, a->node, 0, at_out, st_loop_cast(b, a->node->out->dtype, value), 0);
    cg_close(nest, 1);
}

static attention attention_of(cg_nest *nest, const cg_node *node)
{
    const cg_unit *unit = node->unit;
    const bool is_gradient = node->row->op == STATOR_OPCODE_sdpa_gradient;
    const stator_ref mask = cg_operand(node, is_gradient ? MASK_OF_GRADIENT : MASK);
    return (attention){.nest = nest,
                       .node = node,
                       .q = cg_value_of(unit, cg_operand(node, Q)),
                       .k = cg_value_of(unit, cg_operand(node, K)),
                       .v = cg_value_of(unit, cg_operand(node, V)),
                       .mask = mask ? cg_value_of(unit, mask) : NULL,
                       .mask_value = mask,
                       .dtype = cg_wide_dtype(node->out->dtype)};
}

/* The head of k and v that query head h attends to. */
static uint32_t group_of(const attention *a, uint32_t h)
{
    const uint32_t heads = a->q->dims[1];
    const uint32_t groups = a->k->dims[1];
    return heads == groups ? h
                           : cg_sym_of(a->nest, STATOR_SYM_FLOORDIV, h,
                                       cg_sym_of(a->nest, STATOR_SYM_FLOORDIV, heads, groups));
}

void cg_sdpa(cg_nest *nest, const cg_node *node)
{
    st_loop_builder *b = &nest->b;
    attention a = attention_of(nest, node);
    const uint32_t n_open = cg_open_all(nest, 3, a.q->dims, UINT32_MAX, 0, a.at);
    a.group = group_of(&a, a.at[1]);
    const uint32_t sums = st_loop_buffer_add(
        b, "sums", a.dtype, a.v->dims[3],
        ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN | ST_BUFFER_UNIQUE, 0);
    const st_loop_ref m = largest(&a);
    const uint32_t e = cg_open(nest, a.v->dims[3], 0);
    st_loop_store(b, sums, e, st_loop_float(b, a.dtype, 0), 0);
    cg_close(nest, 1);
    const st_loop_ref n = weigh(&a, m, sums);
    store_row(&a, n, sums);
    cg_close(nest, n_open);
}

/* ---- the gradient ---- */

/* exp(score of key s - m). */
static st_loop_ref weight(const attention *a, st_loop_ref m, uint32_t s)
{
    st_loop_builder *b = &a->nest->b;
    return st_loop_apply(b, ST_LOOP_exp, 0, st_loop_apply(b, ST_LOOP_sub, 0, score(a, s), m, 0), 0,
                         0);
}

/* Element `at` of result k grows by x * y. */
static void grow(const attention *a, uint32_t k, const uint32_t *at, st_loop_ref x, st_loop_ref y)
{
    st_loop_builder *b = &a->nest->b;
    if (x == 0 || y == 0 || !cg_is_wanted(a->nest->unit, a->node, k)) {
        return;
    }
    const st_loop_ref old = st_loop_cast(b, a->dtype, cg_written(a->nest, a->node, k, at, 0));
    const st_loop_ref sum =
        st_loop_apply(b, ST_LOOP_add, 0, old, st_loop_apply(b, ST_LOOP_mul, 0, x, y, 0), 0);
    cg_put(a->nest, a->node, k, at, st_loop_cast(b, a->node->out->dtype, sum), 0);
}

/* The row at hand, or row s of the keys, of result k is 0. */
static void clear(const attention *a, uint32_t k, uint32_t width, const uint32_t at[3])
{
    uint32_t index[4] = {at[0], at[1], at[2], 0};
    if (cg_is_wanted(a->nest->unit, a->node, k)) {
        index[3] = cg_open(a->nest, width, 0);
        cg_put(a->nest, a->node, k, index, st_loop_float(&a->nest->b, a->node->out->dtype, 0), 0);
        cg_close(a->nest, 1);
    }
}

/* The sum n of the row's weights, 1 where it is 0, and the mean of dy . v[s] by them. */
static void weigh_slopes(const attention *a, st_loop_ref m, st_loop_ref *out_n,
                         st_loop_ref *out_mean)
{
    cg_nest *nest = a->nest;
    st_loop_builder *b = &nest->b;
    const st_loop_ref n = st_loop_acc(b, ST_ACC_SUM, a->dtype, 0);
    const st_loop_ref c = st_loop_acc(b, ST_ACC_SUM, a->dtype, 0);
    const uint32_t s = cg_open(nest, a->k->dims[2], ST_AXIS_REDUCE);
    const st_loop_ref p = weight(a, m, s);
    const st_loop_ref dp = product(a, DY, V, s);
    if (p && dp) {
        st_loop_update(b, n, p, 0, 0);
        st_loop_update(b, c, st_loop_apply(b, ST_LOOP_mul, 0, p, dp, 0), 0, 0);
    }
    cg_close(nest, 1);
    const st_loop_ref sum = st_loop_read(b, n, a->dtype);
    const st_loop_ref is_none =
        st_loop_apply(b, ST_LOOP_eq, 0, sum, st_loop_float(b, a->dtype, 0), 0);
    *out_n =
        st_loop_apply(b, ST_LOOP_select, a->dtype, is_none, st_loop_float(b, a->dtype, 1), sum);
    *out_mean = st_loop_apply(b, ST_LOOP_div, 0, st_loop_read(b, c, a->dtype), *out_n, 0);
}

/* What the row adds to the three results. */
static void add_row(const attention *a)
{
    cg_nest *nest = a->nest;
    st_loop_builder *b = &nest->b;
    st_loop_ref n = 0, mean = 0;
    const st_loop_ref m = largest(a);
    clear(a, DQ, a->q->dims[3], a->at);
    weigh_slopes(a, m, &n, &mean);
    const uint32_t s = cg_open(nest, a->k->dims[2], ST_AXIS_SERIAL);
    const st_loop_ref p = st_loop_apply(b, ST_LOOP_div, 0, weight(a, m, s), n, 0);
    const st_loop_ref slope = st_loop_apply(b, ST_LOOP_sub, 0, product(a, DY, V, s), mean, 0);
    const st_loop_ref ds = st_loop_apply(
        b, ST_LOOP_mul, 0, st_loop_apply(b, ST_LOOP_mul, 0, p, slope, 0), scale_of(a), 0);
    const uint32_t d = cg_open(nest, a->q->dims[3], 0);
    const uint32_t at_q[4] = {a->at[0], a->at[1], a->at[2], d};
    const uint32_t at_k[4] = {a->at[0], a->group, s, d};
    grow(a, DQ, at_q, ds, finite(a, key_at(a, K, s, d)));
    grow(a, DK, at_k, ds, finite(a, row_at(a, Q, d)));
    cg_close(nest, 1);
    const uint32_t e = cg_open(nest, a->v->dims[3], 0);
    const uint32_t at_v[4] = {a->at[0], a->group, s, e};
    grow(a, DV, at_v, p, row_at(a, DY, e));
    cg_close(nest, 2);
}

void cg_sdpa_gradient(cg_nest *nest, const cg_node *node)
{
    attention a = attention_of(nest, node);
    uint32_t at[4] = {0};
    const uint32_t n_open = cg_open_all(nest, 2, a.k->dims, UINT32_MAX, 0, at);
    a.at[0] = at[0];
    a.group = at[1];
    at[2] = cg_open(nest, a.k->dims[2], ST_AXIS_SERIAL);
    clear(&a, DK, a.k->dims[3], at);
    clear(&a, DV, a.v->dims[3], at);
    cg_close(nest, 1);
    const uint32_t share = cg_sym_of(nest, STATOR_SYM_FLOORDIV, a.q->dims[1], a.k->dims[1]);
    const uint32_t head = cg_open(nest, share, ST_AXIS_SERIAL);
    a.at[1] =
        cg_sym_of(nest, STATOR_SYM_ADD, cg_sym_of(nest, STATOR_SYM_MUL, a.group, share), head);
    a.at[2] = cg_open(nest, a.q->dims[2], ST_AXIS_SERIAL);
    add_row(&a);
    cg_close(nest, n_open + 2u);
}

/* ---- as a contraction ---- */

/* The operand as elements of a buffer, strides apart along B H T S and their like; axes that it
 * does not have, or that are 1 where `of` is not, do not move it. */
static bool set_operand(cg_unit *unit, const st_kernel *kernel, stator_ref value,
                        const uint32_t *of, st_contraction_operand *out)
{
    const cg_value *v = cg_value_of(unit, value);
    const uint32_t zero = st_sym_int(&unit->syms->tab, 0);
    cg_strided seen;
    if (zero == 0 || v->rank > 4 || !cg_strided_of(unit, value, &seen)) {
        return false;
    }
    *out = (st_contraction_operand){
        .buffer = cg_buffer_index(kernel, seen.buffer), .dtype = v->dtype, .offset = seen.offset};
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t a = i + v->rank - 4u;
        const bool is_there = i + v->rank >= 4u;
        out->dims[i] = is_there ? seen.stride[a] : zero;
        if (is_there && v->dims[a] != of[i] && !cg_is_one(unit, v->dims[a])) {
            return false;
        }
    }
    return out->buffer != UINT32_MAX;
}

/* A mask that is the same known number everywhere: does it change nothing? */
static bool is_idle_mask(const cg_value *mask)
{
    return (mask->flags & CG_VALUE_SPLAT) &&
           (mask->dtype == STATOR_BOOL ? mask->splat.i != 0 : mask->splat.f == 0);
}

/* Result k where it lies; a buffer of UINT32_MAX where nobody reads it. */
static bool set_result(cg_unit *unit, const cg_node *node, const st_kernel *kernel, uint32_t k,
                       st_contraction_operand *out)
{
    const cg_value *v = cg_value_of(unit, node->row->result_begin + k);
    const bool is_wanted = cg_is_wanted(unit, node, k);
    uint32_t strides[CG_RANK_MAX] = {0};
    *out = (st_contraction_operand){.buffer =
                                        is_wanted ? cg_buffer_index(kernel, v->buffer) : UINT32_MAX,
                                    .dtype = v->dtype,
                                    .offset = st_sym_int(&unit->syms->tab, 0)};
    if ((is_wanted && out->buffer == UINT32_MAX) || !cg_strides(unit, v, strides)) {
        return false;
    }
    memcpy(out->dims, strides, 4 * sizeof *strides);
    return out->offset != 0;
}

/* Sizes and attributes, and the operands that attention and its gradient have. */
static bool set_attention(cg_unit *unit, const attention *a, const st_kernel *kernel,
                          st_contraction *out)
{
    const stator_attr_row *scale = cg_attr(a->node, STATOR_sdpa_scale);
    st_contraction_sdpa *s = &out->sdpa;
    const uint32_t of_q[4] = {a->q->dims[0], a->q->dims[1], a->q->dims[2], a->q->dims[3]};
    const uint32_t of_k[4] = {a->q->dims[0], a->k->dims[1], a->k->dims[2], a->q->dims[3]};
    const uint32_t of_v[4] = {a->q->dims[0], a->k->dims[1], a->k->dims[2], a->v->dims[3]};
    const uint32_t of_mask[4] = {a->q->dims[0], a->q->dims[1], a->q->dims[2], a->k->dims[2]};
    *s = (st_contraction_sdpa){.batch = of_q[0],
                               .heads = of_q[1],
                               .groups = of_k[1],
                               .queries = of_q[2],
                               .keys = of_k[2],
                               .depth = of_q[3],
                               .width = of_v[3],
                               .is_causal = cg_attr(a->node, STATOR_sdpa_is_causal)->i != 0,
                               .has_mask = a->mask != NULL && !is_idle_mask(a->mask),
                               .has_scale = scale->kind != STATOR_ATTR_NONE};
    s->scale = s->has_scale ? scale->f : 0;
    out->acc_dtype = a->dtype;
    return set_operand(unit, kernel, cg_operand(a->node, Q), of_q, &out->x) &&
           set_operand(unit, kernel, cg_operand(a->node, K), of_k, &out->y) &&
           set_operand(unit, kernel, cg_operand(a->node, V), of_v, &s->v) &&
           (!s->has_mask || set_operand(unit, kernel, a->mask_value, of_mask, &s->mask));
}

bool cg_sdpa_contraction(cg_unit *unit, const cg_node *node, const st_kernel *kernel,
                         st_contraction *out)
{
    const attention a = attention_of(NULL, node);
    out->kind = ST_CONTRACTION_SDPA;
    return set_result(unit, node, kernel, 0, &out->out) && out->out.buffer != UINT32_MAX &&
           set_attention(unit, &a, kernel, out);
}

bool cg_sdpa_gradient_contraction(cg_unit *unit, const cg_node *node, const st_kernel *kernel,
                                  st_contraction *out)
{
    const attention a = attention_of(NULL, node);
    const uint32_t of_dy[4] = {a.q->dims[0], a.q->dims[1], a.q->dims[2], a.v->dims[3]};
    out->kind = ST_CONTRACTION_SDPA_GRADIENT;
    if (!set_attention(unit, &a, kernel, out)) {
        return false;
    }
    out->sdpa.is_finite = cg_attr(node, STATOR_sdpa_gradient_finite)->i != 0;
    return set_operand(unit, kernel, cg_operand(node, DY), of_dy, &out->sdpa.dy) &&
           set_result(unit, node, kernel, DQ, &out->out) &&
           set_result(unit, node, kernel, DK, &out->sdpa.dk) &&
           set_result(unit, node, kernel, DV, &out->sdpa.dv);
}
