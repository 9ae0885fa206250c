/* Functions that the files of the pass `move_into_scan` share: ops that treat the rows of their
 * first axis alike. */
#ifndef STATOR_PASSES_MOVE_INTO_SCAN_H
#define STATOR_PASSES_MOVE_INTO_SCAN_H

#include "core/base/arena.h"
#include "ir/passes/pass_copy.h"

#define ST_ROW_OPERANDS 64u /* operands of a node that has rows: bits of a mask */

/* Is the node's one result made row by row along its first axis, which has `length` entries? Its
 * operands are then timed (their first axis is that axis: bit k of *out_timed) or the same for all
 * rows. */
bool st_row_is(const stator_graph_view *v, stator_ref node, stator_ref length, uint64_t *out_timed);

/* Does the op only move what it reads? Then two may do it. */
bool st_row_is_move(const stator_graph_view *v, stator_ref node);

/* A node that is to be built for one row; operands[k]: rows of timed operands, else whole ones. */
typedef struct st_row {
    const stator_graph_view *v;
    stator_ref node;
    uint64_t timed;
    stator_ref operands[ST_ROW_OPERANDS];
} st_row;
stator_ref st_row_build(stator_emitter *e, const st_row *r, st_arena *arena);

/* The type of one row of a value. */
stator_ref st_row_type(stator_builder *b, const stator_graph_view *v, stator_ref value);

#endif
