/* Types that the files of the pass `split` share: split.c folds one by one, split_pair.c two of
 * which the second needs the first one's result. */
#ifndef STATOR_PASSES_SPLIT_H
#define STATOR_PASSES_SPLIT_H

#include "ir/passes/pass_copy.h"

#define ST_FOLD_RANK_MAX 7u /* splitting adds an axis, and backends take 8 */

/* Which folds are split, and into how many parts. */
typedef struct st_split_rule {
    int64_t fold_min;  /* elements that are folded into what one unit makes */
    int64_t units_max; /* threads or blocks from which on the machine is busy without a split */
    int64_t columns;   /* contiguous results that one of them makes at once */
    uint32_t part_log2_min; /* elements of a part */
    int64_t parts_max;
    int64_t pair_parts_max;  /* of two folds of long rows, which read memory once that way */
    bool leaves_cached_rows; /* fold_min grows with the square of the units */
    bool divides_parts;      /* units share parts_max, as each has as many parts */
} st_split_rule;

/* One fold, and how it is cut. */
typedef struct st_fold {
    const stator_node_row *row;
    uint32_t rank, dtype;
    uint32_t is_arg, is_last; /* argmin, argmax; the last one of equals */
    uint32_t folded;          /* axes, as bits */
    int64_t keeps;            /* axes of size 1 in their places */
    int64_t dims[ST_FOLD_RANK_MAX];
    uint32_t at;           /* first axis that the first step folds */
    int64_t parts, length; /* parts of this axis; 1 part: it is not split */
    int64_t rest;          /* elements that the last part lacks */
} st_fold;

/* Two folds of the same elements. */
typedef struct st_fold_pair {
    stator_ref first, second; /* nodes */
    uint32_t is_exp;          /* reduce_max, and the sum of exp(x - max); else sum, and the sum of
                               * the squares of x - a, where a is made of the sum */
    stator_ref shift;         /* a, or max, in the graph that is read */
    st_fold fold;             /* how the first fold is split */
    /* In the graph that is written: what is taken off each part, and the part's second fold. */
    stator_ref base, part;
} st_fold_pair;

typedef struct st_splitter {
    st_copy *copy;
    const st_split_rule *rule;
    uint32_t *uses; /* by value: nodes, outputs, write-backs */
    struct {
        st_fold_pair *data;
        uint32_t count, capacity;
    } pairs;
} st_splitter;

/* Operands of a program over a fold: `values` by name. */
typedef struct st_fold_program {
    const char *text;
    uint32_t n_values;
    const char *const *names;
    const stator_ref *values;
    uint32_t n_out;
} st_fold_program;

/* The fold of a node over known sizes; 0: it is none. */
bool st_fold_read(const st_copy *c, stator_ref node, st_fold *out);
/* How it is cut; 0: it is better left alone. is_pair: memory would be read twice. */
bool st_fold_plan(const st_split_rule *rule, st_fold *f, bool is_pair);
/* Runs a program, with these attributes: parts, length, rest, keeps, at, last, n; the lists shape
 * (of the operand in parts), low, high (of what it lacks), out (of the result with all its axes),
 * base (of a part's result, all parts as one), first and second (the axes of both steps). */
void st_fold_build(st_copy *c, const st_fold *f, const st_fold_program *program, stator_ref *out);
/* The folded operand in the graph being written, with producers of its own where it has one more
 * reader. */
stator_ref st_fold_operand(st_splitter *s, stator_ref value);
/* Do two values have the same sizes? */
bool st_fold_is_shaped_as(const stator_graph_view *v, stator_ref value, stator_ref other);
/* A scalar that changes no result, of the operand's dtype or f32; 0: no part lacks anything. */
stator_ref st_fold_filler(st_copy *c, const st_fold *f);

/* Puts w as x, filled up and cut, into t. */
#define ST_FOLD_CUT                                                                                \
    "w = wide(x); p = rest == 0 ? w : pad(w, e, low=low, high=high); "                             \
    "t = parts == 1 ? p : reshape(p, shape=shape); "

/* ---- split_pair.c ---- */

/* Finds the pairs of the graph. */
void st_fold_pairs(st_splitter *s);
/* Writes node when it is one of a pair; false: it is not. */
bool st_fold_pair_visit(st_splitter *s, stator_ref node);

#endif
