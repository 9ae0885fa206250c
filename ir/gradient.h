/* Reverse-mode gradients of values in a builder: docs in gradient.c. */
#ifndef STATOR_IR_GRADIENT_H
#define STATOR_IR_GRADIENT_H

#include "ir/graph.h"

/* Appends to b what computes, for each xs[i], the sum over y's elements of seed * dy/dxs[i]. seed
 * has y's type; xs are float values (inputs, usually); out[i] has the type of xs[i], zeros where y
 * does not depend on it. UNSUPPORTED names the first op on the way that has no rule. */
stator_status st_gradient(stator_builder *b, stator_ref y, stator_ref seed, uint32_t n,
                          const stator_ref *xs, stator_ref *out, stator_diag **err);

#endif
