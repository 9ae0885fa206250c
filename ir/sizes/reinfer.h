/* A module under other sizes: inputs change as a plan says, every other type is inferred anew. */
#ifndef STATOR_IR_REINFER_H
#define STATOR_IR_REINFER_H

#include "ir/sizes/size_plan.h"

/* *out_module is a copy of `from` under the plan. Values, names and origins of the root graph keep
 * their refs, unless the plan has axes: numbers that stand for their sizes are then read as these,
 * which may take nodes of its own (baked_in.h). at (may be NULL) holds, by place in plan->ranges,
 * the sizes of the call at hand: the ranges are then narrowed to the neighbourhood in which no min
 * or max of the module's sizes changes sides, so that these go away:
 *
 *     S in [2, inf] called with 16, min(S, 128)   gives   S in [2, 128] and S
 *
 * A text that names op, node and sizes when the graph does not work under the plan. */
stator_status st_reinfer(const st_module *from, st_size_plan *plan, const int64_t *at,
                         st_module **out_module, stator_diag **err);
/* 1 when the call inputs of the module's root are as the plan says. */
bool st_reinfer_follows(st_module *m, const st_size_plan *plan);

#endif
