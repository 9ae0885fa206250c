/* recompose: composites that an exporter has written out become one node again (docs/passes.md).
 *
 * A pattern is a small graph: a row's program over variables, brought to the normal form of
 * canonicalize in a module of its own. Matching walks pattern and graph together. Where both are
 * sums, or products, their terms are compared as multisets (st_rc_terms); elsewhere op, attributes
 * and operands must agree, commuting operands in either order. Numbers of few bits are the same,
 * others agree within a tolerance of the dtype; FLOAT attributes of the composite are holes that
 * the graph's numbers fill. Attention has views, masks and scales that no body shows, and is looked
 * for in C (recompose_sdpa.c).
 *
 * The pass plans from the last node to the first, so that the largest composite wins and what only
 * it used is known to be dead, and then copies the graph from the first node to the last. */
#ifndef STATOR_PASSES_RECOMPOSE_H
#define STATOR_PASSES_RECOMPOSE_H

#include "core/base/arena.h"
#include "core/base/check.h"
#include "ir/passes/pass_copy.h"

#define ST_RC_VARS 3u
#define ST_RC_HOLES 3u
#define ST_RC_NODES 48u
#define ST_RC_GOALS 24u
#define ST_RC_LEAVES 12u
#define ST_RC_GROUPS 32u
#define ST_RC_STEPS 1024u /* comparisons one attempt may take */

enum st_rc_axes { ST_AXES_NONE = 0, ST_AXES_ONE, ST_AXES_TRAILING };
enum st_rc_term_kind { ST_TERM_NONE = 0, ST_TERM_PRODUCT, ST_TERM_SUM };

typedef struct st_rc_def { /* one row of recompose.def */
    const char *name;
    uint32_t op;         /* stator_opcode, as the anchors: 0 behind the last */
    const char *program; /* NULL: the op's body */
    uint32_t anchors[3];
    const char *set;
    const char *to;
    uint32_t operands;
    uint32_t axes; /* st_rc_axes */
} st_rc_def;

/* The rows of recompose.def. */
const st_rc_def *st_rc_defs(uint32_t *out_count);

/* ---- terms ---- */

/* A value of which a sum or a product is made: value^power, or power * value. A group is a value
 * that is itself made of leaves first..first+count; every leaf is a group of one. */
typedef struct st_rc_group {
    stator_ref value; /* 0: a number alone */
    double power;
    uint32_t first, count;
} st_rc_group;

typedef struct st_rc_terms {
    uint32_t kind; /* st_rc_term_kind */
    uint32_t n_leaves;
    uint32_t n_groups;
    uint32_t numbers;            /* bit i: leaf i is a number */
    double number[ST_RC_LEAVES]; /* a number's part of the product or sum */
    st_rc_group leaf[ST_RC_LEAVES];
    st_rc_group group[ST_RC_GROUPS];
} st_rc_terms;

/* Is the value a number (a constant with one value everywhere, or simple arithmetic of such)? */
bool st_rc_number(const stator_graph *graph, stator_ref value, double *out);
/* Kind of the value's node as a term: ST_TERM_NONE when it is neither a sum nor a product. */
uint32_t st_rc_term_kind(const stator_graph *graph, stator_ref value);
/* Takes a value apart. Anything is a sum or product of one leaf at least. */
void st_rc_terms_of(const stator_graph *graph, uint32_t kind, stator_ref value, st_rc_terms *out);

/* ---- patterns ---- */

typedef struct st_rc_pattern {
    const st_rc_def *def;
    const stator_graph *graph; /* inputs 1..def->operands are the variables */
    stator_ref root;
    uint32_t kind; /* st_rc_term_kind of the root */
    uint32_t op;   /* its op, which counts when kind is NONE */
} st_rc_pattern;

typedef struct st_rc_patterns {
    st_arena arena;
    st_module *module; /* the patterns' module; NULL: there are no patterns */
    st_rc_pattern *list;
    uint32_t n;
} st_rc_patterns;

/* The value that attribute number k stands for in patterns, and the size of the reduced axis. */
double st_rc_hole(uint32_t k);
#define ST_RC_SIZE 10007

/* The patterns of all rows one of whose anchors is in `graph`. */
stator_status st_rc_patterns_init(st_rc_patterns *set, st_mem *mem, const stator_graph *graph,
                                  stator_diag **err);
void st_rc_patterns_deinit(st_rc_patterns *set);

/* ---- matching ---- */

typedef struct st_rc_found {
    stator_ref vars[ST_RC_VARS];
    double holes[ST_RC_HOLES]; /* FLOAT attributes in the schema's order */
    uint32_t has_hole;
    double size;        /* number that stood for the count of reduced elements; 0: none */
    uint32_t axes;      /* bit set */
    uint32_t axes_rank; /* rank of the reduced value, 0: nothing was reduced */
    stator_ref reduced; /* value that was reduced */
    uint32_t n_nodes;
    stator_ref nodes[ST_RC_NODES]; /* nodes that the composite replaces */
} st_rc_found;

/* Does `value` compute the pattern? */
bool st_rc_match(const st_rc_pattern *pattern, const stator_graph *graph, stator_ref value,
                 st_rc_found *out);
/* The attribute `axis` of what was found; 0: the axes are not what the row says. */
bool st_rc_axis(const st_rc_pattern *pattern, const stator_graph *graph, const st_rc_found *found,
                int64_t *out_axis);

/* ---- attention ---- */

/* A value through at most two reshapes or transposes. */
typedef struct st_rc_step {
    uint32_t rank; /* 0: no step */
    uint32_t is_transpose;
    stator_ref dims[STATOR_RANK_MAX]; /* shape of a reshape */
    int64_t perm[STATOR_RANK_MAX];
} st_rc_step;

typedef struct st_rc_moved {
    stator_ref value; /* value in the graph that is read */
    st_rc_step steps[3];
} st_rc_moved;

enum st_rc_mask_kind { ST_MASK_ADDED = 1, ST_MASK_TRUE, ST_MASK_FALSE };
typedef struct st_rc_mask {
    uint32_t kind; /* values added; a bool that is true, or false, where the scores stay */
    double fill;   /* a bool mask's value of masked scores */
    st_rc_moved at;
} st_rc_mask;

#define ST_RC_MASKS 3u
typedef struct st_rc_attention {
    st_rc_moved q, k, v;
    double scale;
    uint32_t n_masks;
    st_rc_mask masks[ST_RC_MASKS];
    st_rc_step result; /* back to the shape that the graph has */
    uint32_t n_nodes;
    stator_ref nodes[ST_RC_NODES];
} st_rc_attention;

extern const char st_rc_sdpa_name[]; /* the rule's name */
/* Does the contraction that makes `value` end an attention? uses[v] is how often v is read. */
bool st_rc_match_sdpa(const st_rc_patterns *set, const stator_graph *graph, const uint32_t *uses,
                      stator_ref value, st_rc_attention *out);
/* Builds it over map (values of the graph that is read -> the emitter's). *out_node: the sdpa. */
stator_ref st_rc_build_sdpa(const st_rc_attention *a, stator_emitter *e, const stator_ref *map,
                            stator_ref *out_node);

/* The node that makes a value, NULL for an input or a result other than the first. */
static inline const stator_node_row *st_rc_producer(const stator_graph_view *v, stator_ref value)
{
    const stator_value_row *row = stator_value_at(v, value);
    return row->node != 0 && row->index == 0 ? stator_node_at(v, row->node) : NULL;
}

static inline bool st_rc_is(const stator_node_row *row, uint32_t opcode)
{
    return row != NULL && row->op == opcode;
}

#endif
