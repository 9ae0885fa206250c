/* Numbers of a file, read as the sizes they stood for when it was written.
 *
 * A model made for inputs of one size has that size in its nodes too: a reshape to [1, 8, 12, 64],
 * positions 0 to 7, a mask of 8 by 8. When such an input gets a symbol instead (a size plan with
 * axes), what is written under it is brought along, node by node, where the model could not work
 * otherwise:
 *
 *     x: f32[1, S, 768], S was 8
 *     reshape(x) {shape = [1, 8, 12, 64]}     becomes   {shape = [1, S, 12, 64]}
 *     add(x, gather(table, {0, 1, .., 7}))    becomes   add(x, gather(table, iota(S)))
 *
 * A number is taken for a size only where it meets that size: the parts of a reshape that have as
 * many elements as they had, an axis that has to broadcast or join with one of a symbol. A constant
 * goes on past its end only when its elements say how: counted in steps of 0 or 1, the same all
 * along (floats and bytes that are all one number: 0, 1, or a mask's large negative one), or of one
 * value up to the diagonal and of another past it. Bytes do not count: they would begin anew.
 *
 * What one reader of a value has shown to have a symbol's size has it for all that are built
 * later; where an earlier one still has the number, the model is refused. Whatever is not like
 * that stays as it is, and the model is then refused for other sizes, with the node's name. A
 * baked-in size of 1 is never read. */
#ifndef STATOR_IR_BAKED_IN_H
#define STATOR_IR_BAKED_IN_H

#include "core/base/vec.h"
#include "ir/graph.h"

/* A value that was built again with other sizes. */
typedef struct st_baked_in_value {
    stator_graph *graph;            /* NULL: it is there no more */
    stator_ref value, again;        /* again 0: it is a constant that does not go on */
    stator_ref to[STATOR_RANK_MAX]; /* the required sizes, 0: unchanged */
    uint32_t n_values;              /* values of the graph at that time */
    uint32_t older;                 /* place of the one before of this value, plus 1; 0: none */
} st_baked_in_value;

#define ST_BAKED_IN_PARTS 4u

/* The index of a symbol within that of a size that a reshape merged: [N, 12, S] as 12 * N * S has
 * N in steps of 12 * S as they were, and S in steps of 1. */
typedef struct st_baked_in_part {
    stator_ref size;
    int64_t was, step;
} st_baked_in_part;
typedef struct st_baked_in_merge {
    stator_ref size;
    uint32_t n_parts; /* 0: it was merged in two ways */
    st_baked_in_part parts[ST_BAKED_IN_PARTS];
} st_baked_in_merge;

typedef struct st_baked_in {
    st_module *m;
    st_arena arena; /* attributes of the current node */
    uint32_t depth; /* nodes being read, one inside the other */
    uint32_t n_symbols;
    int64_t *sizes; /* by symbol: what it was */
    st_vec(st_baked_in_value) values;
    st_map newest; /* graph and value -> place of its last one in values, plus 1; may be stale */
    st_vec(st_baked_in_merge) merges;
    st_map merge_of; /* size -> place in merges, plus 1 */
    st_str log;      /* names and types of the constants that were made longer */
    bool is_oom;
} st_baked_in;

/* While m->baked_in points to it, the module's builders read baked-in sizes. A symbol's `hint`
 * is what the file has for it. */
void st_baked_in_begin(st_baked_in *s, st_module *m);
void st_baked_in_end(st_baked_in *s);
/* *desc with operands and sizes brought along; its lists live until the node is built. Fails for
 * want of memory, and with FAILED_PRECONDITION for a mean by a number that was a size. Calls nest:
 * st_baked_in_done ends one. */
stator_status st_baked_in_read(st_baked_in *s, stator_builder *b, stator_node_desc *desc,
                               stator_diag **err);
void st_baked_in_done(st_baked_in *s);
/* When all of b's graph is written: FAILED_PRECONDITION where a value that was built again with
 * other sizes for one reader still has the baked-in ones for another. */
stator_status st_baked_in_check(st_baked_in *s, const stator_builder *b, stator_diag **err);
/* Lists of sizes for each axis of an operand, as of a slice or a resize, of an op whose operand 0
 * was `was` and is `is`: what took an axis as a whole does so still. The lists are written. */
void st_baked_in_keep_whole(st_module *m, const st_op *op, stator_attr *attrs,
                            const stator_type_row *was, const stator_type_row *is);
/* Values of the graph from `from` on are there no more. */
void st_baked_in_forget(st_baked_in *s, const stator_graph *graph, stator_ref from);

#endif
