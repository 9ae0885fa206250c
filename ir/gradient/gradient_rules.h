/* Gradient rules that are C functions: the column `differentiate` of the op table.
 *
 * Each sees a node, its results and the gradients of these (0: none, and of results that are no
 * floats), one of which is there at least. It gives one for each operand, 0 for none; what it gives
 * for an operand that is no float, or that no wanted value needs, is dropped. in_grads is all 0
 * before. A gradient has the operand's type, or a type that broadcasting gave the operand. */
#ifndef STATOR_IR_GRADIENT_RULES_H
#define STATOR_IR_GRADIENT_RULES_H

#include "ir/gradient/gradient.h"
#include "ir/op_emitter.h"

typedef struct st_gradient_node {
    const st_decompose_node *of; /* op, operands, attributes, regions */
    const stator_ref *results;   /* values of the builder's graph */
    const stator_ref *grads;     /* of the results */
} st_gradient_node;

#define ST_GRADIENT_RULE(name)                                                                     \
    stator_status name(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,         \
                       stator_diag **err)

/* gradient_movement.c */
ST_GRADIENT_RULE(st_grad_dot_general);
ST_GRADIENT_RULE(st_grad_transpose);
ST_GRADIENT_RULE(st_grad_slice);
ST_GRADIENT_RULE(st_grad_pad);
ST_GRADIENT_RULE(st_grad_concat);
/* gradient_window.c */
ST_GRADIENT_RULE(st_grad_reduce_window);
ST_GRADIENT_RULE(st_grad_max_pool);
/* gradient_scatter.c */
ST_GRADIENT_RULE(st_grad_gather_nd);
ST_GRADIENT_RULE(st_grad_scatter_elements);
ST_GRADIENT_RULE(st_grad_scatter_nd);
/* gradient_sampling.c */
ST_GRADIENT_RULE(st_grad_deform_conv);
ST_GRADIENT_RULE(st_grad_roi_align);
/* gradient_scan.c */
ST_GRADIENT_RULE(st_grad_scan);
/* gradient_control.c */
ST_GRADIENT_RULE(st_grad_call);
ST_GRADIENT_RULE(st_grad_cond);
ST_GRADIENT_RULE(st_grad_while);

#endif
