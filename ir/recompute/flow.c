/* Maximum flow by Dinic's algorithm (Algorithm for solution of a problem of maximum flow in a
 * network with power estimation, 1970).
 *
 * In: places, arcs with integer capacities. Out: the cut. Each phase counts, from the sink
 * backwards, how many arcs with room lead there, up to the source's own distance; then flow is
 * pushed along arcs that lead one closer, until no such path is left. At the end no arc with room
 * leads from the source's side to the sink's. There is no recursion: a path may be as long as the
 * graph. The work is counted in arcs looked at, and capped. */
#include "ir/recompute/flow.h"

#include "core/base/diag.h"

#include <string.h>

void st_flow_init(st_flow *flow, st_mem *mem, uint64_t max_steps)
{
    *flow = (st_flow){.mem = mem, .max_steps = max_steps};
}

void st_flow_deinit(st_flow *flow)
{
    st_vec_free(flow->mem, &flow->arcs);
    st_free(flow->mem, flow->first);
    st_free(flow->mem, flow->ends);
    st_free(flow->mem, flow->left);
}

uint32_t st_flow_place(st_flow *flow)
{
    return flow->n_places++;
}

bool st_flow_add(st_flow *flow, uint32_t from, uint32_t to, int64_t capacity)
{
    st_flow_arc *arc = st_vec_push(flow->mem, &flow->arcs);
    ST_NEED(arc != NULL);
    *arc = (st_flow_arc){from, to, capacity};
    return true;
}

bool st_flow_prepare(st_flow *flow)
{
    const uint64_t n = flow->n_places + UINT64_C(1), m = flow->arcs.count * UINT64_C(2);
    flow->first = st_calloc(flow->mem, n * 4u, sizeof *flow->first);
    flow->ends = st_calloc(flow->mem, m + 1u, sizeof *flow->ends);
    flow->left = st_calloc(flow->mem, m + 1u, sizeof *flow->left);
    ST_NEED(flow->first != NULL && flow->ends != NULL && flow->left != NULL);
    flow->level = flow->first + n;
    flow->next = flow->level + n;
    flow->path = flow->next + n;
    for (uint32_t k = 0; k < flow->arcs.count; k++) {
        flow->first[flow->arcs.data[k].from + 1u]++;
        flow->first[flow->arcs.data[k].to + 1u]++;
    }
    for (uint32_t p = 0; p < flow->n_places; p++) {
        flow->first[p + 1u] += flow->first[p];
    }
    memcpy(flow->next, flow->first, n * sizeof *flow->next);
    for (uint32_t k = 0; k < flow->arcs.count; k++) {
        flow->ends[flow->next[flow->arcs.data[k].from]++] = 2u * k;
        flow->ends[flow->next[flow->arcs.data[k].to]++] = 2u * k + 1u;
    }
    return true;
}

/* The place that an end leads to. */
static uint32_t other_place(const st_flow *flow, uint32_t end)
{
    const st_flow_arc *arc = &flow->arcs.data[end / 2u];
    return (end & 1u) != 0 ? arc->from : arc->to;
}

/* Distances to the sink over arcs with room; false: the source has none. */
static bool count_levels(st_flow *flow, uint32_t source, uint32_t sink)
{
    uint32_t *queue = flow->path;
    uint32_t n = 1;
    memset(flow->level, 0xFF, flow->n_places * sizeof *flow->level);
    flow->level[sink] = 0;
    queue[0] = sink;
    for (uint32_t at = 0; at < n; at++) {
        const uint32_t place = queue[at];
        if (flow->level[source] <= flow->level[place]) {
            break;
        }
        for (uint32_t k = flow->first[place]; k < flow->first[place + 1u]; k++) {
            const uint32_t end = flow->ends[k], from = other_place(flow, end);
            if (flow->level[from] == UINT32_MAX && flow->left[end ^ 1u] > 0) {
                flow->level[from] = flow->level[place] + 1u;
                queue[n++] = from;
            }
        }
        flow->steps += flow->first[place + 1u] - flow->first[place];
    }
    return flow->level[source] != UINT32_MAX;
}

/* Pushes what fits along path[0..n), ends from the source to the sink; how many of them stay on the
 * path: those in front of the first that is full now. */
static uint32_t push(st_flow *flow, uint32_t n)
{
    int64_t most = ST_FLOW_FREE;
    uint32_t stay = n;
    for (uint32_t i = 0; i < n; i++) {
        most = flow->left[flow->path[i]] < most ? flow->left[flow->path[i]] : most;
    }
    for (uint32_t i = n; i > 0; i--) {
        flow->left[flow->path[i - 1u]] -= most;
        flow->left[flow->path[i - 1u] ^ 1u] += most;
        stay = flow->left[flow->path[i - 1u]] == 0 ? i - 1u : stay;
    }
    flow->steps += 2u * UINT64_C(1) * n;
    return stay < n ? stay : 0;
}

/* The next end of a place that leads one closer to the sink; false: there is none any more. */
static bool advance(st_flow *flow, uint32_t place, uint32_t *out_end)
{
    for (; flow->next[place] < flow->first[place + 1u]; flow->next[place]++) {
        const uint32_t end = flow->ends[flow->next[place]];
        flow->steps++;
        if (flow->left[end] > 0 && flow->level[other_place(flow, end)] + 1u == flow->level[place]) {
            *out_end = end;
            return true;
        }
    }
    return false;
}

/* Pushes until no path along falling distances has room. */
static void push_all(st_flow *flow, uint32_t source, uint32_t sink)
{
    uint32_t n = 0, place = source;
    memcpy(flow->next, flow->first, flow->n_places * sizeof *flow->next);
    while (flow->steps < flow->max_steps) {
        uint32_t end = 0;
        if (place == sink) {
            n = push(flow, n);
        } else if (advance(flow, place, &end)) {
            flow->path[n++] = end;
        } else if (place == source) {
            return;
        } else { /* nothing leads on from here: the arc that came here is done with */
            n--;
            flow->next[other_place(flow, flow->path[n] ^ 1u)]++;
        }
        place = n == 0 ? source : other_place(flow, flow->path[n - 1u]);
    }
}

bool st_flow_cut(st_flow *flow, uint32_t source, uint32_t sink)
{
    for (uint32_t k = 0; k < flow->arcs.count; k++) {
        flow->left[2u * k] = flow->arcs.data[k].capacity;
        flow->left[2u * k + 1u] = 0;
    }
    while (flow->steps < flow->max_steps) {
        if (!count_levels(flow, source, sink)) {
            return true;
        }
        push_all(flow, source, sink);
    }
    return false;
}
