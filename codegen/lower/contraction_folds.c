/* Contractions and windows as plain folds: what runs when no library or special kernel takes them.
 * Padding is a mask; an element outside contributes nothing. */
#include "codegen/lower/lower.h"

#include <stator/ops.h>
#include <string.h>

#define SPATIAL 2u /* first spatial axis of N C ... */

/* ---- dot_general ---- */

static bool holds(const cg_node *node, uint32_t attr, uint32_t axis, uint32_t rank)
{
    for (uint32_t i = 0; i < cg_attr(node, attr)->count; i++) {
        if (cg_attr_axis_at(node, attr, i, rank) == axis) {
            return true;
        }
    }
    return false;
}

void cg_dot(const cg_node *node, cg_fold *out)
{
    const cg_value *x = cg_value_of(node->unit, cg_operand(node, 0));
    *out = (cg_fold){.acc = ST_ACC_SUM, .dtype = cg_wide_dtype(node->out->dtype)};
    for (uint32_t i = 0; i < cg_attr(node, STATOR_dot_general_contract_x)->count; i++) {
        out->inner[out->n_inner++] =
            x->dims[cg_attr_axis_at(node, STATOR_dot_general_contract_x, i, x->rank)];
    }
}

/* One operand's index: batch axes first in the result, then the free ones from index *next on. */
static void dot_index(const cg_node *node, uint32_t operand, const uint32_t *index,
                      const uint32_t *inner, uint32_t *next, uint32_t *out)
{
    const uint32_t batch = operand ? STATOR_dot_general_batch_y : STATOR_dot_general_batch_x;
    const uint32_t contract =
        operand ? STATOR_dot_general_contract_y : STATOR_dot_general_contract_x;
    const cg_value *v = cg_value_of(node->unit, cg_operand(node, operand));
    for (uint32_t i = 0; i < cg_attr(node, batch)->count; i++) {
        out[cg_attr_axis_at(node, batch, i, v->rank)] = index[i];
    }
    for (uint32_t i = 0; i < cg_attr(node, contract)->count; i++) {
        out[cg_attr_axis_at(node, contract, i, v->rank)] = inner[i];
    }
    for (uint32_t a = 0; a < v->rank; a++) {
        if (!holds(node, batch, a, v->rank) && !holds(node, contract, a, v->rank)) {
            out[a] = index[(*next)++];
        }
    }
}

static st_loop_ref multiply(cg_nest *nest, uint32_t dtype, st_loop_ref x, st_loop_ref y)
{
    return st_loop_apply(&nest->b, ST_LOOP_mul, dtype, st_loop_cast(&nest->b, dtype, x),
                         st_loop_cast(&nest->b, dtype, y), 0);
}

void cg_dot_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                    const uint32_t *inner, cg_element *out)
{
    uint32_t own[2][CG_RANK_MAX];
    uint32_t next = cg_attr(node, STATOR_dot_general_batch_x)->count;
    dot_index(node, 0, index, inner, &next, own[0]);
    dot_index(node, 1, index, inner, &next, own[1]);
    const st_loop_ref x = cg_wide_at(nest, cg_operand(node, 0), own[0]);
    const st_loop_ref y = cg_wide_at(nest, cg_operand(node, 1), own[1]);
    out->value = x && y ? multiply(nest, cg_wide_dtype(node->out->dtype), x, y) : 0;
}

/* ---- convolutions ---- */

uint32_t cg_window_position(cg_nest *nest, uint32_t o, int64_t stride, uint32_t k, int64_t dilation,
                            uint32_t low)
{
    const uint32_t moved = cg_add(nest, cg_mul(nest, o, cg_int(nest, stride)),
                                  cg_mul(nest, k, cg_int(nest, dilation)));
    return cg_sub(nest, moved, low);
}

st_loop_ref cg_masked_operand(cg_nest *nest, stator_ref operand, const uint32_t *index,
                              st_loop_ref ok)
{
    const st_loop_ref outer = nest->mask;
    nest->mask = st_loop_both(&nest->b, outer, ok);
    const st_loop_ref value = cg_wide_at(nest, operand, index);
    nest->mask = outer;
    return value;
}

/* Input channel of inner channel c for output channel m. */
static uint32_t channel_of(cg_nest *nest, const cg_node *node, uint32_t m, uint32_t c)
{
    const cg_unit *unit = nest->unit;
    const int64_t groups = cg_attr(node, STATOR_conv_groups)->i;
    if (groups == 1) {
        return c;
    }
    const uint32_t per_group =
        cg_sym_of(nest, STATOR_SYM_FLOORDIV, node->out->dims[1], cg_int(nest, groups));
    const uint32_t group = cg_sym_of(nest, STATOR_SYM_FLOORDIV, m, per_group);
    const cg_value *w = cg_value_of(unit, cg_operand(node, 1));
    return cg_add(nest, cg_mul(nest, group, w->dims[1]), c);
}

void cg_conv(const cg_node *node, cg_fold *out)
{
    const cg_value *w = cg_value_of(node->unit, cg_operand(node, 1));
    *out = (cg_fold){.acc = ST_ACC_SUM, .dtype = cg_wide_dtype(node->out->dtype)};
    for (uint32_t a = 1; a < w->rank; a++) {
        out->inner[out->n_inner++] = w->dims[a];
    }
}

void cg_conv_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                     const uint32_t *inner, cg_element *out)
{
    const cg_value *x = cg_value_of(nest->unit, cg_operand(node, 0));
    const uint32_t n_spatial = x->rank - SPATIAL;
    uint32_t at_x[CG_RANK_MAX] = {index[0], channel_of(nest, node, index[1], inner[0])};
    uint32_t at_w[CG_RANK_MAX] = {index[1], inner[0]};
    for (uint32_t i = 0; i < n_spatial; i++) {
        const uint32_t low = cg_attr_dim(node, STATOR_conv_pads, i);
        const uint32_t high = cg_attr_dim(node, STATOR_conv_pads, i + n_spatial);
        if (low == 0 || high == 0) {
            cg_refuse(nest, "an amount of padding exceeds the limit of 16 terms, depth 4");
            return;
        }
        at_w[SPATIAL + i] = inner[1u + i];
        at_x[SPATIAL + i] = cg_window_position(
            nest, index[SPATIAL + i], cg_attr_int_at(node, STATOR_conv_strides, i), inner[1u + i],
            cg_attr_int_at(node, STATOR_conv_dilations, i), low);
        out->mask = st_loop_both(&nest->b, out->mask,
                                 cg_within(nest, at_x[SPATIAL + i], x->dims[SPATIAL + i],
                                           !cg_is_zero(nest, low), !cg_is_zero(nest, high)));
    }
    const st_loop_ref a = cg_masked_operand(nest, cg_operand(node, 0), at_x, out->mask);
    const st_loop_ref w = cg_wide_at(nest, cg_operand(node, 1), at_w);
    out->value = a && w ? multiply(nest, cg_wide_dtype(node->out->dtype), a, w) : 0;
}

st_loop_ref cg_conv_finish(cg_nest *nest, const cg_node *node, const uint32_t *index,
                           st_loop_ref folded)
{
    const stator_ref bias = cg_operand(node, 2);
    const uint32_t dtype = node->out->dtype;
    if (bias == 0) {
        return st_loop_cast(&nest->b, dtype, folded);
    }
    const st_loop_ref b =
        st_loop_cast(&nest->b, cg_wide_dtype(dtype), cg_wide_at(nest, bias, index + 1));
    const st_loop_ref sum = b ? st_loop_apply(&nest->b, ST_LOOP_add, 0, folded, b, 0) : 0;
    return st_loop_cast(&nest->b, dtype, sum);
}

/* ---- transposed convolution: each output position gathers from the inputs that reach it ----
 *
 * Tap k reaches position p = o + low from input (p - k*d) / s when s divides p - k*d. With g =
 * gcd(d, s) these are the taps k = k0 + j * (s/g), where k0 = (p/g) * (d/g)^-1 mod s/g, and none
 * when g does not divide p; so the fold runs over j alone, and its input is (p - k0*d) / s - j *
 * (d/g). */

/* The taps of one spatial axis. */
typedef struct taps {
    int64_t stride, dilation;
    int64_t common;  /* gcd of both */
    int64_t step;    /* between taps that hit: stride / common */
    int64_t inverse; /* inverse of dilation / common modulo step */
} taps;

static taps taps_of(const cg_node *node, uint32_t i)
{
    taps t = {.stride = cg_attr_int_at(node, STATOR_conv_transpose_strides, i),
              .dilation = cg_attr_int_at(node, STATOR_conv_transpose_dilations, i)};
    t.common = t.dilation;
    for (int64_t rest = t.stride; rest != 0;) {
        const int64_t next = t.common % rest;
        t.common = rest;
        rest = next;
    }
    t.step = t.stride / t.common;
    const int64_t factor = t.dilation / t.common % t.step;
    while (t.inverse < t.step && t.inverse * factor % t.step != 1 % t.step) {
        t.inverse++;
    }
    return t;
}

void cg_conv_transpose(const cg_node *node, cg_fold *out)
{
    const cg_unit *unit = node->unit;
    const cg_value *w = cg_value_of(unit, cg_operand(node, 1));
    st_symtab *tab = &unit->syms->tab;
    const int64_t groups = cg_attr(node, STATOR_conv_transpose_groups)->i;
    *out = (cg_fold){.acc = ST_ACC_SUM, .dtype = cg_wide_dtype(node->out->dtype)};
    out->inner[out->n_inner++] = st_sym_floordiv(tab, w->dims[0], st_sym_int(tab, groups));
    for (uint32_t a = SPATIAL; a < w->rank; a++) {
        const int64_t step = taps_of(node, a - SPATIAL).step;
        out->inner[out->n_inner++] = st_sym_ceildiv(tab, w->dims[a], st_sym_int(tab, step));
    }
}

/* One tap on a spatial axis, by indices. */
typedef struct tap_position {
    uint32_t output; /* position */
    uint32_t number; /* index among the taps that reach the output */
    uint32_t tap;    /* index of the tap in w */
    uint32_t input;  /* position */
} tap_position;

/* Tap and input position on spatial axis i for the output position and number; out->mask holds
 * where both are there. */
static void tap_at(cg_nest *nest, const cg_node *node, uint32_t i, tap_position *at,
                   cg_element *out)
{
    st_loop_builder *b = &nest->b;
    const uint32_t j = at->number;
    const taps t = taps_of(node, i);
    const uint32_t low = cg_attr_dim(node, STATOR_conv_transpose_pads, i);
    const uint32_t size = cg_value_of(nest->unit, cg_operand(node, 1))->dims[SPATIAL + i];
    const uint32_t from = cg_value_of(nest->unit, cg_operand(node, 0))->dims[SPATIAL + i];
    if (low == 0) {
        cg_refuse(nest, "an amount of padding exceeds the limit of 16 terms, depth 4");
        return;
    }
    const uint32_t p = cg_add(nest, at->output, low);
    const uint32_t shared = cg_sym_of(nest, STATOR_SYM_FLOORDIV, p, cg_int(nest, t.common));
    const uint32_t first = cg_sym_of(
        nest, STATOR_SYM_MOD, cg_mul(nest, shared, cg_int(nest, t.inverse)), cg_int(nest, t.step));
    const uint32_t rest = cg_sub(nest, p, cg_mul(nest, first, cg_int(nest, t.dilation)));
    const uint32_t base =
        cg_sym_of(nest, STATOR_SYM_FLOORDIV, t.dilation == 1 ? p : rest, cg_int(nest, t.stride));
    at->tap = cg_add(nest, first, cg_mul(nest, j, cg_int(nest, t.step)));
    at->input = cg_sub(nest, base, cg_mul(nest, j, cg_int(nest, t.dilation / t.common)));
    if (t.common != 1) {
        const uint32_t off = cg_sym_of(nest, STATOR_SYM_MOD, p, cg_int(nest, t.common));
        out->mask = st_loop_both(b, out->mask,
                                 st_loop_apply(b, ST_LOOP_eq, 0, st_loop_index(b, off),
                                               st_loop_int(b, STATOR_I64, 0), 0));
    }
    const bool is_whole =
        cg_is_zero(nest, cg_sym_of(nest, STATOR_SYM_MOD, size, cg_int(nest, t.step)));
    out->mask = st_loop_both(b, out->mask, cg_within(nest, at->tap, size, false, !is_whole));
    out->mask = st_loop_both(b, out->mask, cg_within(nest, at->input, from, true, true));
}

void cg_conv_transpose_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                               const uint32_t *inner, cg_element *out)
{
    const cg_value *w = cg_value_of(nest->unit, cg_operand(node, 1));
    const int64_t groups = cg_attr(node, STATOR_conv_transpose_groups)->i;
    cg_fold fold;
    cg_conv_transpose(node, &fold);
    /* Output channel m lies in group m / (M/g); its inputs are that group's channels. */
    const uint32_t group =
        groups == 1 ? cg_int(nest, 0) : cg_sym_of(nest, STATOR_SYM_FLOORDIV, index[1], w->dims[1]);
    const uint32_t c = cg_add(nest, cg_mul(nest, group, fold.inner[0]), inner[0]);
    uint32_t at_x[CG_RANK_MAX] = {index[0], c};
    uint32_t at_w[CG_RANK_MAX] = {
        c, groups == 1 ? index[1] : cg_sym_of(nest, STATOR_SYM_MOD, index[1], w->dims[1])};
    for (uint32_t i = 0; i + SPATIAL < w->rank && nest->refusal == NULL; i++) {
        tap_position at = {.output = index[SPATIAL + i], .number = inner[1u + i]};
        tap_at(nest, node, i, &at, out);
        at_w[SPATIAL + i] = at.tap;
        at_x[SPATIAL + i] = at.input;
    }
    if (nest->refusal) {
        return;
    }
    const st_loop_ref a = cg_masked_operand(nest, cg_operand(node, 0), at_x, out->mask);
    const st_loop_ref k = cg_masked_operand(nest, cg_operand(node, 1), at_w, out->mask);
    out->value = a && k ? multiply(nest, cg_wide_dtype(node->out->dtype), a, k) : 0;
}

/* ---- reduce_window: the trailing axes slide ---- */

void cg_window(const cg_node *node, cg_fold *out)
{
    st_symtab *tab = &node->unit->syms->tab;
    *out = (cg_fold){.acc = cg_attr_is(node, STATOR_reduce_window_kind, "sum")   ? ST_ACC_SUM
                            : cg_attr_is(node, STATOR_reduce_window_kind, "max") ? ST_ACC_MAX
                                                                                 : ST_ACC_MIN,
                     .dtype = cg_wide_dtype(node->out->dtype)};
    for (uint32_t i = 0; i < cg_attr(node, STATOR_reduce_window_window)->count; i++) {
        out->inner[out->n_inner++] =
            st_sym_int(tab, cg_attr_int_at(node, STATOR_reduce_window_window, i));
    }
}

void cg_window_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                       const uint32_t *inner, cg_element *out)
{
    const cg_value *x = cg_value_of(nest->unit, cg_operand(node, 0));
    const uint32_t n = cg_attr(node, STATOR_reduce_window_window)->count;
    const uint32_t lead = x->rank - n;
    uint32_t own[CG_RANK_MAX];
    memcpy(own, index, lead * sizeof *own);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t low = cg_attr_dim(node, STATOR_reduce_window_pads, i);
        const uint32_t high = cg_attr_dim(node, STATOR_reduce_window_pads, i + n);
        if (low == 0 || high == 0) {
            cg_refuse(nest, "an amount of padding exceeds the limit of 16 terms, depth 4");
            return;
        }
        own[lead + i] = cg_window_position(
            nest, index[lead + i], cg_attr_int_at(node, STATOR_reduce_window_strides, i), inner[i],
            cg_attr_int_at(node, STATOR_reduce_window_dilations, i), low);
        out->mask = st_loop_both(&nest->b, out->mask,
                                 cg_within(nest, own[lead + i], x->dims[lead + i],
                                           !cg_is_zero(nest, low), !cg_is_zero(nest, high)));
    }
    out->value = cg_masked_operand(nest, cg_operand(node, 0), own, out->mask);
}
