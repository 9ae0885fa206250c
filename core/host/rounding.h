/* Values that a rounding makes, and what a rounding that falls the other way looks like. */
#ifndef STATOR_HOST_ROUNDING_H
#define STATOR_HOST_ROUNDING_H

#include <stator/dlpack.h>
#include <stator/ir.h>

/* Is the value the result of a node that rounds: round, floor, ceil, trunc, or a cast of floats to
 * integers? */
bool st_rounds(const stator_graph_view *v, stator_ref value);
/* Two dense tensors of equal shape and dtype, whole numbers: do they differ by exactly 1, in one
 * element or in at most one of 50? A kernel that rounds wrongly is off in more. */
bool st_is_rounding_step(const DLTensor *got, const DLTensor *want);

#endif
