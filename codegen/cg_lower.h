/* The lowerings that codegen/lower.def names. */
#ifndef STATOR_CODEGEN_CG_LOWER_H
#define STATOR_CODEGEN_CG_LOWER_H

#include "codegen/cg_unit.h"

#define CG_POINT(op, function, cost)                                                               \
    st_loop_ref function(cg_nest *nest, const cg_node *node, uint32_t result,                      \
                         const uint32_t *index);
#define CG_FOLD(op, fold, element, finish)
#define CG_REPEAT(op, fold, element, finish)
#include "codegen/lower.def"
#undef CG_POINT
#undef CG_FOLD
#undef CG_REPEAT

/* Pointwise ops that are a row of codegen/loop_ops.def. */
st_loop_ref cg_scalar(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index);

/* ---- cg_fold.c ---- */
void cg_reduce(const cg_node *node, cg_fold *out);
void cg_reduce_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                       const uint32_t *inner, cg_element *out);
void cg_arg(const cg_node *node, cg_fold *out);
void cg_arg_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                    const uint32_t *inner, cg_element *out);
st_loop_ref cg_arg_finish(cg_nest *nest, const cg_node *node, const uint32_t *index,
                          st_loop_ref folded);

/* ---- cg_contract.c ---- */
void cg_dot(const cg_node *node, cg_fold *out);
void cg_dot_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                    const uint32_t *inner, cg_element *out);
void cg_conv(const cg_node *node, cg_fold *out);
void cg_conv_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                     const uint32_t *inner, cg_element *out);
st_loop_ref cg_conv_finish(cg_nest *nest, const cg_node *node, const uint32_t *index,
                           st_loop_ref folded);
void cg_conv_transpose(const cg_node *node, cg_fold *out);
void cg_conv_transpose_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                               const uint32_t *inner, cg_element *out);
void cg_window(const cg_node *node, cg_fold *out);
void cg_window_element(cg_nest *nest, const cg_node *node, const uint32_t *index,
                       const uint32_t *inner, cg_element *out);

#endif
