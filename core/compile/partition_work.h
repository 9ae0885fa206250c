/* State that the files of the partitioner share. */
#ifndef STATOR_COMPILE_PARTITION_WORK_H
#define STATOR_COMPILE_PARTITION_WORK_H

#include "core/base/vec.h"
#include "core/compile/partition.h"

typedef struct st_part_work {
    stator_graph *graph;
    const stator_graph_view *v;
    st_mem *mem;
    uint8_t *color;
    const uint8_t *fallback;      /* NULL: none */
    uint32_t *group;              /* own copy; dissolved groups are 0 */
    uint32_t *level;              /* by node */
    uint32_t *part_of;            /* by node; UINT32_MAX for constants */
    uint8_t *escapes;             /* by value: read outside its part */
    st_vec(stator_ref) producers; /* nodes that must run before, node by node */
    uint32_t *producer_begin;     /* by node, n_nodes + 2 of them */
    stator_ref *map;              /* by value: in the part that is written, 0 not there */
    uint32_t n_parts;
    uint8_t *is_final; /* by node: only written values need it; it comes last in its part */
    bool may_dissolve;
} st_part_work;

static inline bool st_part_is_constant(const st_part_work *w, stator_ref node)
{
    const stator_op_desc *op = stator_op_at(w->v, stator_node_at(w->v, node)->op);
    return (op->flags & STATOR_OP_CONSTANT) != 0;
}

/* Fills producers (partition_edges.c). */
stator_status st_part_edges(st_part_work *w, stator_diag **err);
/* Fills level (partition_levels.c). */
stator_status st_part_levels(st_part_work *w, stator_diag **err);
/* Fills is_final, once there are parts (partition_write.c). */
void st_part_find_finals(st_part_work *w);
/* Writes the graph of a part whose nodes and color are set (partition_write.c). */
stator_status st_part_write(st_part_work *w, st_part *part, uint32_t number, stator_diag **err);

#endif
