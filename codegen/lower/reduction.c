/* Reductions: each element of the result folds over axes of one operand. */
#include "codegen/lower/lower.h"
#include "core/base/check.h"

#include <stator/ops.h>

static uint32_t acc_of(const cg_node *node, uint32_t dtype)
{
    const bool is_bool = dtype == STATOR_BOOL;
    switch (node->row->op) {
    case STATOR_OPCODE_reduce_sum:
        return ST_ACC_SUM;
    case STATOR_OPCODE_reduce_prod:
        return ST_ACC_PROD;
    case STATOR_OPCODE_reduce_min:
        return is_bool ? ST_ACC_ALL : ST_ACC_MIN;
    default:
        return is_bool ? ST_ACC_ANY : ST_ACC_MAX;
    }
}

static void add_inner(const cg_node *node, cg_fold *out, uint32_t axis)
{
    const cg_value *x = cg_value_of(node->unit, cg_operand(node, 0));
    out->at[out->n_inner] = axis;
    out->inner[out->n_inner++] = x->dims[axis];
}

void cg_reduce(const cg_node *node, cg_fold *out)
{
    const cg_value *x = cg_value_of(node->unit, cg_operand(node, 0));
    const stator_attr_row *axes = cg_attr(node, STATOR_reduce_sum_axes);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < axes->count; i++) {
        mask |= 1u << cg_attr_axis_at(node, STATOR_reduce_sum_axes, i, x->rank);
    }
    *out = (cg_fold){
        .acc = acc_of(node, x->dtype), .dtype = cg_wide_dtype(x->dtype), .is_reduction = 1};
    for (uint32_t a = 0; a < x->rank; a++) {
        if (mask & (1u << a)) {
            add_inner(node, out, a);
        }
    }
}

/* The operand's index: inner axes at their positions, the result's own between them. */
static void operand_index(const cg_node *node, const cg_fold *fold, bool keeps_dims,
                          const uint32_t *index, const uint32_t *inner, uint32_t *out)
{
    const cg_value *x = cg_value_of(node->unit, cg_operand(node, 0));
    uint32_t next = 0;
    uint32_t own = 0;
    for (uint32_t a = 0; a < x->rank; a++) {
        if (next < fold->n_inner && fold->at[next] == a) {
            out[a] = inner[next++];
            own += keeps_dims != 0;
        } else {
            out[a] = index[own++];
        }
    }
}

void cg_reduce_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                       const uint32_t *inner, cg_element *out)
{
    uint32_t own[CG_RANK_MAX];
    cg_fold fold;
    cg_reduce(node, &fold);
    operand_index(node, &fold, cg_attr(node, STATOR_reduce_sum_keepdims)->i != 0, index, inner,
                  own);
    out->value = cg_wide_at(nest, cg_operand(node, 0), own);
}

/* ---- argmin, argmax ---- */

void cg_arg(const cg_node *node, cg_fold *out)
{
    const cg_value *x = cg_value_of(node->unit, cg_operand(node, 0));
    const int64_t axis = cg_attr(node, STATOR_argmax_axis)->i;
    const bool is_min = node->row->op == STATOR_OPCODE_argmin;
    *out = (cg_fold){.acc = is_min ? ST_ACC_ARGMIN : ST_ACC_ARGMAX,
                     .dtype = cg_wide_dtype(x->dtype),
                     .is_reduction = 1};
    add_inner(node, out, (uint32_t)st_normalize_axis(axis, x->rank));
}

/* The last one of equals is the first one counted from the end. */
static uint32_t counted_from_end(cg_nest *nest, uint32_t position, uint32_t size)
{
    return cg_sub(nest, cg_sub(nest, size, cg_int(nest, 1)), position);
}

void cg_arg_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                    const uint32_t *inner, cg_element *out)
{
    uint32_t own[CG_RANK_MAX];
    cg_fold fold;
    cg_arg(node, &fold);
    operand_index(node, &fold, cg_attr(node, STATOR_argmax_keepdims)->i != 0, index, inner, own);
    const bool is_last = cg_attr(node, STATOR_argmax_select_last)->i != 0;
    out->value = cg_wide_at(nest, cg_operand(node, 0), own);
    out->index = st_loop_index(&nest->b, is_last ? counted_from_end(nest, inner[0], fold.inner[0])
                                                 : inner[0]);
}

st_loop_ref cg_arg_finish(cg_nest *nest, const cg_node *node, const uint32_t *index,
                          st_loop_ref folded)
{
    cg_fold fold;
    (void)index;
    if (cg_attr(node, STATOR_argmax_select_last)->i == 0) {
        return folded;
    }
    cg_arg(node, &fold);
    const uint32_t last = cg_sub(nest, fold.inner[0], cg_int(nest, 1));
    return st_loop_apply(&nest->b, ST_LOOP_sub, 0, st_loop_index(&nest->b, last), folded, 0);
}
