/* The gradient of conv to its weight, and col2im: folds that gather what the sums scatter. */
#include "codegen/lower/lower.h"

#include <stator/ops.h>

#define SPATIAL 2u /* first spatial axis of N C ... */

static bool is_known_padding(cg_nest *nest, uint32_t low)
{
    if (low == 0) {
        cg_refuse(nest, "an amount of padding exceeds the limit of 16 terms, depth 4");
    }
    return low != 0;
}

/* ---- conv_weight_grad: w[m, c, k..] folds over images and positions of g ---- */

void cg_weight_grad(const cg_node *node, cg_fold *out)
{
    const cg_value *g = cg_value_of(node->unit, cg_operand(node, 1));
    *out = (cg_fold){.acc = ST_ACC_SUM, .dtype = cg_wide_dtype(node->out->dtype)};
    for (uint32_t a = 0; a < g->rank; a++) {
        if (a != 1u) {
            out->inner[out->n_inner++] = g->dims[a];
        }
    }
}

/* Input channel that weight c of output channel m sees. */
static uint32_t input_channel(cg_nest *nest, const cg_node *node, uint32_t m, uint32_t c)
{
    const int64_t groups = cg_attr(node, STATOR_conv_weight_grad_groups)->i;
    if (groups == 1) {
        return c;
    }
    const uint32_t per_group =
        cg_sym_of(nest, STATOR_SYM_FLOORDIV, node->out->dims[0], cg_int(nest, groups));
    const uint32_t group = cg_sym_of(nest, STATOR_SYM_FLOORDIV, m, per_group);
    return cg_add(nest, cg_mul(nest, group, node->out->dims[1]), c);
}

void cg_weight_grad_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                            const uint32_t *inner, cg_element *out)
{
    st_loop_builder *b = &nest->b;
    const cg_value *x = cg_value_of(nest->unit, cg_operand(node, 0));
    const uint32_t wide = cg_wide_dtype(node->out->dtype);
    uint32_t at_x[CG_RANK_MAX] = {inner[0], input_channel(nest, node, index[0], index[1])};
    uint32_t at_g[CG_RANK_MAX] = {inner[0], index[0]};
    for (uint32_t i = 0; i + SPATIAL < x->rank; i++) {
        const uint32_t low = cg_attr_dim(node, STATOR_conv_weight_grad_pads, i);
        if (!is_known_padding(nest, low)) {
            return;
        }
        at_g[SPATIAL + i] = inner[1u + i];
        at_x[SPATIAL + i] = cg_window_position(
            nest, inner[1u + i], cg_attr_int_at(node, STATOR_conv_weight_grad_strides, i),
            index[SPATIAL + i], cg_attr_int_at(node, STATOR_conv_weight_grad_dilations, i), low);
        out->mask = st_loop_both(
            b, out->mask, cg_within(nest, at_x[SPATIAL + i], x->dims[SPATIAL + i], true, true));
    }
    const st_loop_ref from = cg_masked_operand(nest, cg_operand(node, 0), at_x, out->mask);
    const st_loop_ref grad = cg_wide_at(nest, cg_operand(node, 1), at_g);
    out->value = from && grad ? st_loop_apply(b, ST_LOOP_mul, wide, from, grad, 0) : 0;
}

/* ---- col2im: y[n, c, i..] folds over block positions k; block k of column l covers
 * i = l * stride + k * dilation - low ---- */

void cg_col2im(const cg_node *node, cg_fold *out)
{
    st_symtab *tab = &node->unit->syms->tab;
    *out = (cg_fold){.acc = ST_ACC_SUM, .dtype = cg_wide_dtype(node->out->dtype)};
    for (uint32_t i = 0; i < cg_attr(node, STATOR_col2im_block)->count; i++) {
        out->inner[out->n_inner++] = st_sym_int(tab, cg_attr_int_at(node, STATOR_col2im_block, i));
    }
}

uint32_t cg_col2im_columns(const cg_node *node, uint32_t i)
{
    st_symtab *tab = &node->unit->syms->tab;
    const uint32_t n = node->out->rank - SPATIAL;
    const st_sym_window window = {.size = node->out->dims[SPATIAL + i],
                                  .low = cg_attr_dim(node, STATOR_col2im_pads, i),
                                  .high = cg_attr_dim(node, STATOR_col2im_pads, i + n),
                                  .taps =
                                      st_sym_int(tab, cg_attr_int_at(node, STATOR_col2im_block, i)),
                                  .dilation = cg_attr_int_at(node, STATOR_col2im_dilations, i),
                                  .stride = cg_attr_int_at(node, STATOR_col2im_strides, i)};
    return st_sym_window_count(tab, &window);
}

void cg_col2im_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                       const uint32_t *inner, cg_element *out)
{
    st_loop_builder *b = &nest->b;
    uint32_t row = index[1];
    uint32_t column = cg_int(nest, 0);
    for (uint32_t i = 0; i + SPATIAL < node->out->rank; i++) {
        const uint32_t low = cg_attr_dim(node, STATOR_col2im_pads, i);
        const uint32_t stride = cg_int(nest, cg_attr_int_at(node, STATOR_col2im_strides, i));
        const uint32_t dilation = cg_int(nest, cg_attr_int_at(node, STATOR_col2im_dilations, i));
        const uint32_t columns = cg_col2im_columns(node, i);
        if (!is_known_padding(nest, columns)) {
            return;
        }
        const uint32_t from =
            cg_sub(nest, cg_add(nest, index[SPATIAL + i], low), cg_mul(nest, inner[i], dilation));
        const uint32_t at = cg_sym_of(nest, STATOR_SYM_FLOORDIV, from, stride);
        const uint32_t rest = cg_sym_of(nest, STATOR_SYM_MOD, from, stride);
        if (!cg_is_zero(nest, rest)) {
            out->mask = st_loop_both(b, out->mask,
                                     st_loop_apply(b, ST_LOOP_eq, 0, st_loop_index(b, rest),
                                                   st_loop_int(b, STATOR_I64, 0), 0));
        }
        out->mask = st_loop_both(b, out->mask, cg_within(nest, at, columns, true, true));
        row = cg_add(nest,
                     cg_mul(nest, row, cg_int(nest, cg_attr_int_at(node, STATOR_col2im_block, i))),
                     inner[i]);
        column = cg_add(nest, cg_mul(nest, column, columns), at);
    }
    const uint32_t own[3] = {index[0], row, column};
    out->value = cg_masked_operand(nest, cg_operand(node, 0), own, out->mask);
}
