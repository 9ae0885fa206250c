/* Reverse-mode gradients of values in a builder: docs in gradient.c. */
#ifndef STATOR_IR_GRADIENT_H
#define STATOR_IR_GRADIENT_H

#include "ir/infer.h"

/* Appends to b what computes, for each xs[i], the sum over y's elements of seed * dy/dxs[i]. seed
 * has y's type; xs are float values (inputs, usually); out[i] has the type of xs[i], zeros where y
 * does not depend on it. UNSUPPORTED names the first op on the way that has no rule. */
stator_status st_gradient(stator_builder *b, stator_ref y, stator_ref seed, uint32_t n,
                          const stator_ref *xs, stator_ref *out, stator_diag **err);
/* What is to be differentiated: several ys, whose gradients add up. */
typedef struct st_gradient_request {
    uint32_t n_y, n_x;
    const stator_ref *ys, *seeds; /* a seed has its y's type */
    const stator_ref *xs;
    stator_ref first; /* nodes before it are not visited: xs are held fixed there; 0: all are */
    /* May the rule of this composite be used, which has a decomposition as well? NULL: yes. `node`
     * is the builder's. */
    bool (*may_use_rule)(void *self, const char *op, stator_ref node);
    void *self;
} st_gradient_request;
/* out[i] is the gradient to xs[i]. What the gradient of a node adds to the graph has the origin
 * "backward of" the node's (st_module_origin_backward). */
stator_status st_gradient_many(stator_builder *b, const st_gradient_request *request,
                               stator_ref *out, stator_diag **err);

#endif
