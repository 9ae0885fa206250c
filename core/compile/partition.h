/* Division of a graph into convex parts: each runs on one backend, or is one control-flow node that
 * the host runs itself. See partition.c for the method. */
#ifndef STATOR_COMPILE_PARTITION_H
#define STATOR_COMPILE_PARTITION_H

#include "core/base/diag.h"
#include "ir/graph.h"

/* Who runs a node. */
enum st_color {
    ST_COLOR_MAIN = 0,
    ST_COLOR_FALLBACK = 1, /* the first of ST_FALLBACKS_MAX colors of fallback backends */
    ST_FALLBACKS_MAX = 8,
    ST_COLOR_HOST = ST_COLOR_FALLBACK + ST_FALLBACKS_MAX, /* control flow, its bodies divided too */
    ST_COLORS
};

static inline bool st_is_fallback(uint32_t color)
{
    return color >= ST_COLOR_FALLBACK && color < ST_COLOR_HOST;
}

typedef struct st_part {
    stator_graph *graph; /* NULL for a part of the host */
    uint32_t color;
    uint32_t n_nodes, n_in, n_out;
    const stator_ref *nodes; /* nodes of the whole graph, in order, without constants */
    /* Values of the whole graph. A part of the host: the node's operands (0 absent) and results. */
    stator_ref *in;
    stator_ref *out;
    stator_ref *node_of; /* by node of the part's graph: node of the whole graph */
} st_part;

typedef struct st_parts {
    st_mem *mem;
    st_part *parts;
    uint32_t n_parts;
    stator_ref *order; /* all nodes but constants, part by part */
} st_parts;

typedef struct st_partition_request {
    stator_graph *graph;
    uint8_t *color;          /* by node; changed where a group is dissolved */
    const uint8_t *fallback; /* by node: the color instead of main's; NULL: ST_COLOR_FALLBACK */
    const uint32_t *group;   /* by node: ATOMIC group, 0 none; may be NULL */
    st_mem *mem;
    bool may_dissolve; /* groups that are not convex go to the fallback instead of failing */
} st_partition_request;

/* Parts come in an order in which each may run; every part is convex. FAILED_PRECONDITION: a group
 * is not convex and may not be dissolved. */
stator_status st_partition(const st_partition_request *request, st_parts *out_parts,
                           stator_diag **err);
void st_parts_deinit(st_parts *parts);

#endif
