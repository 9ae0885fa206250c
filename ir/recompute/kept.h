/* Which values a forward part keeps for the backward part, and which nodes the latter computes
 * again: docs in kept.c. */
#ifndef STATOR_RECOMPUTE_KEPT_H
#define STATOR_RECOMPUTE_KEPT_H

#include "ir/graph.h"

/* What may be computed again beside what is cheap; the numbers of stator_recompute in
 * stator/train.h. */
enum { ST_RECOMPUTE_ALLOW_HEAVY = 1u << 0, ST_RECOMPUTE_ALLOW_RANDOM = 1u << 1 };

typedef struct st_keep_limits {
    double budget;      /* 0 to 1: of the bytes that are kept where only cheap nodes run again */
    uint32_t allowed;   /* ST_RECOMPUTE_ALLOW_...; below 1 the budget allows heavy nodes */
    uint64_t max_steps; /* 0: ST_KEEP_STEPS */
    bool is_one_graph;  /* the parts stay one graph, a training step: inputs are there until its end
                         * and keep what they hold, and what stands behind the first node of the
                         * backward part is no forward part */
} st_keep_limits;

#define ST_KEEP_STEPS (UINT64_C(1) << 27) /* arcs looked at: half a second */

typedef struct st_kept {
    uint8_t *is_again;    /* by node: the backward part computes it again */
    uint8_t *is_backward; /* by node: it is of the backward part, or reads what that makes */
    uint32_t n_again;
    bool is_capped; /* the work did not suffice for the budget; for budget 1: nothing is again */
    double bytes;   /* of what is kept, parameters and constants apart */
} st_kept;

/* `limits` NULL: budget 1. Free with st_kept_deinit, also after a failure. */
stator_status st_kept_plan(const stator_graph *graph, const st_keep_limits *limits, st_mem *mem,
                           st_kept *out, stator_diag **err);
/* What a user is told of a plan that is capped. */
const char *st_kept_capped_note(const st_kept *kept);
void st_kept_deinit(st_kept *kept, st_mem *mem);
/* Do types or attributes of the node name a size that only the running graph tells? */
bool st_node_holds_unbacked(const stator_graph *graph, const stator_node_row *row);

#endif
