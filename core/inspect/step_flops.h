/* core/inspect answers stator/inspect.h: passes and options, what is cached, memory, the steps of a
 * program and how much each computes.
 *
 * How much a node computes, for people who look at times. */
#ifndef STATOR_INSPECT_STEP_FLOPS_H
#define STATOR_INSPECT_STEP_FLOPS_H

#include <stator/ir.h>

/* Floating-point (or integer) operations of a node of the graph: two for each multiplication
 * that a contraction adds up, one an element of pointwise ops and reductions, 0 of what only
 * moves data and of einsum. A size known only at call time makes it 0. */
uint64_t st_node_flops(const stator_graph_view *v, stator_ref node);

#endif
