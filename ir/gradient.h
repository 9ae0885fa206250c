/* Reverse-mode gradients of values in a builder: docs in gradient.c. */
#ifndef STATOR_IR_GRADIENT_H
#define STATOR_IR_GRADIENT_H

#include "ir/infer.h"

/* Appends to b what computes, for each xs[i], the sum over y's elements of seed * dy/dxs[i]. seed
 * has y's type; xs are float values (inputs, usually); out[i] has the type of xs[i], zeros where y
 * does not depend on it. UNSUPPORTED names the first op on the way that has no rule. */
stator_status st_gradient(stator_builder *b, stator_ref y, stator_ref seed, uint32_t n,
                          const stator_ref *xs, stator_ref *out, stator_diag **err);
/* The same for several ys, whose gradients add up. */
stator_status st_gradient_many(stator_builder *b, uint32_t n_y, const stator_ref *ys,
                               const stator_ref *seeds, uint32_t n, const stator_ref *xs,
                               stator_ref *out, stator_diag **err);
/* Gradients of a scan's operands from those of its results (out_grads[k] 0: none); in_grads[k] is 0
 * for operands that are no floats. */
stator_status st_gradient_scan(stator_builder *b, const stator_graph *body,
                               const st_decompose_node *node, const stator_ref *out_grads,
                               stator_ref *in_grads, stator_diag **err);

#endif
