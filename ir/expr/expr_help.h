/* Functions that the helpers of expression programs share (expr_helpers.c, expr_shapes.c). */
#ifndef STATOR_IR_EXPR_HELP_H
#define STATOR_IR_EXPR_HELP_H

#include "ir/expr/expr_eval.h"

typedef struct st_help {
    st_xeval *e;
    const st_expr_node *node;
    const st_xvalue *args;
    uint32_t n;
    uint32_t with; /* `with` of the helper's row */
    st_xvalue *out;
} st_help;

/* Reading argument k; what does not fit fails with the function's name. */
stator_status st_help_tensor(const st_help *c, uint32_t k, stator_ref *out);
stator_status st_help_int(const st_help *c, uint32_t k, int64_t lo, int64_t hi, int64_t *out);
/* One integer or a list, brought into [0, rank), as a bit set. */
stator_status st_help_axes(const st_help *c, uint32_t k, uint32_t rank, uint32_t *out);
/* A dtype, or the dtype of a tensor. */
stator_status st_help_dtype(const st_help *c, uint32_t k, stator_dtype *out);
stator_ref st_help_dim(const st_help *c, stator_ref x, uint32_t axis);

/* Functions that make tensors (expr_shapes.c). */
stator_status st_help_squeeze(const st_help *c);
stator_status st_help_unsqueeze(const st_help *c);
stator_status st_help_zeros_like(const st_help *c);
stator_status st_help_ones_like(const st_help *c);
stator_status st_help_full_like(const st_help *c);
stator_status st_help_scalar(const st_help *c);
stator_status st_help_cast(const st_help *c);
stator_status st_help_wide(const st_help *c);

#endif
