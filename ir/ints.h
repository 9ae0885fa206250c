/* Functions that the files of symbolic contents share (ints.c evaluates, ints_ops.c has one rule
 * per op). */
#ifndef STATOR_IR_INTS_H
#define STATOR_IR_INTS_H

#include "ir/graph.h"

#define ST_INTS_MAX 64u /* elements of a tensor whose contents are followed */

/* One element: the rational sym / den, den >= 1; sym 0 is unknown. Integer tensors have den 1. */
typedef struct st_int_elem {
    stator_ref sym;
    uint32_t den;
} st_int_elem;

typedef struct st_ints {
    uint32_t dtype;
    uint32_t rank;
    uint32_t n;
    int64_t dims[STATOR_RANK_MAX];
    st_int_elem e[ST_INTS_MAX];
} st_ints;

typedef struct st_ints_eval {
    stator_builder *b;
    const stator_graph_view *v;
    const stator_node_row *node;
    uint32_t index; /* result that is asked for */
    uint32_t depth;
} st_ints_eval;

/* Contents of a value; 0 when its type is not a small static one or nothing is known. */
bool st_ints_of(const st_ints_eval *at, stator_ref value, st_ints *out);
/* Contents of operand k of the node at hand; 0 also when it is absent. */
bool st_ints_operand(const st_ints_eval *at, uint32_t k, st_ints *out);

/* Applies the rule of the node's op to *out, whose dtype, dims and n are set and every element is
 * unknown; 0 when there is none, or it learns nothing. */
bool st_ints_apply_rule(const st_ints_eval *at, st_ints *out);

st_int_elem st_int_const(const st_ints_eval *at, int64_t value);
bool st_int_is_const(const st_ints_eval *at, st_int_elem e, int64_t *out); /* an integer */

#endif
