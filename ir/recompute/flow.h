/* Maximum flow, and with it the minimum cut, in a graph with capacities. */
#ifndef STATOR_RECOMPUTE_FLOW_H
#define STATOR_RECOMPUTE_FLOW_H

#include "core/base/vec.h"

#define ST_FLOW_FREE (INT64_MAX / 4) /* a capacity that no cut may hold */

typedef struct st_flow_arc {
    uint32_t from, to;
    int64_t capacity; /* 0 to ST_FLOW_FREE */
} st_flow_arc;

typedef struct st_flow {
    st_mem *mem;
    st_vec(st_flow_arc) arcs; /* in the order they were added; capacities may change between runs */
    uint32_t n_places;
    uint64_t steps, max_steps; /* arcs looked at so far, and how many may be */
    /* From here on the solver's own, of st_flow_prepare. */
    uint32_t *first; /* by place: its ends in `ends`, one past the last place as well */
    uint32_t *ends;  /* 2 * arc: leaves along it, 2 * arc + 1: against it */
    int64_t *left;   /* by end: what still fits */
    uint32_t *level; /* by place: arcs to the sink, UINT32_MAX: none leads there */
    uint32_t *next, *path;
} st_flow;

void st_flow_init(st_flow *flow, st_mem *mem, uint64_t max_steps);
void st_flow_deinit(st_flow *flow);
uint32_t st_flow_place(st_flow *flow);
/* False: out of memory. */
bool st_flow_add(st_flow *flow, uint32_t from, uint32_t to, int64_t capacity);
/* Once, when all places and arcs are there; false: out of memory. */
bool st_flow_prepare(st_flow *flow);

/* A minimum cut between two places, of all of them the one with the fewest places at the sink's
 * side: flow->level of a place is not UINT32_MAX there. False: max_steps were not enough, and there
 * is no cut. */
bool st_flow_cut(st_flow *flow, uint32_t source, uint32_t sink);
static inline bool st_flow_is_sink_side(const st_flow *flow, uint32_t place)
{
    return flow->level[place] != UINT32_MAX;
}

#endif
