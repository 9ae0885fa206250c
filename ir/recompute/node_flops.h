/* How much a node computes: for people who look at times, and for the choice of what is computed
 * again (kept.h). */
#ifndef STATOR_RECOMPUTE_NODE_FLOPS_H
#define STATOR_RECOMPUTE_NODE_FLOPS_H

#include "core/base/sym/sym.h"
#include <stator/ir.h>

/* Floating-point (or integer) operations of a node of the graph: two for each multiplication
 * that a contraction adds up, one an element of pointwise ops and reductions, 0 of what only
 * moves data and of einsum. A size known only at call time counts as the likely one of `likely`
 * (st_sym_size_hint), or, where that is NULL, makes it 0. */
uint64_t st_node_flops(const stator_graph_view *v, stator_ref node, const st_symtab *likely);

#endif
