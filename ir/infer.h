/* What an infer rule sees and does. Rules live in ir/ops/<family>.c; helpers here. All sizes are
 * syms; a rule that meets a limit of the symbolic engine makes an unbacked symbol. */
#ifndef STATOR_IR_INFER_H
#define STATOR_IR_INFER_H

#include "ir/sizes/shape_constraint_list.h"

typedef struct st_infer {
    stator_builder *b;
    st_module *m;
    const stator_graph_view *v;
    const st_op *op;
    const stator_ref *operands; /* value refs, 0 absent */
    uint32_t n_operands;
    const stator_attr_row *const *attrs; /* by schema place */
    stator_graph *const *regions;
    uint32_t n_regions;
    const stator_ref *given_types;           /* result types the caller declared, or NULL */
    uint32_t n_results;                      /* in: wanted (0: the schema's); a rule may set it */
    stator_ref *types;                       /* out, room for 256 */
    st_shape_constraints *shape_constraints; /* receives what cannot be decided yet, or NULL */
    stator_diag **err;                       /* receives why a rule fails */
} st_infer;

/* Is the node that is inferred of this built-in op (stator_opcode)? */
bool st_in_is(const st_infer *in, uint32_t opcode);
/* Reading operands. */
stator_dtype st_in_dtype(const st_infer *in, uint32_t k);
uint32_t st_in_rank(const st_infer *in, uint32_t k);
stator_ref st_in_dim(const st_infer *in, uint32_t k, uint32_t axis);
const stator_ref *st_in_dims(const st_infer *in, uint32_t k, stator_ref out[STATOR_RANK_MAX]);
/* Reading attributes. */
int64_t st_in_int(const st_infer *in, uint32_t a);
uint32_t st_in_list(const st_infer *in, uint32_t a, int64_t *out, uint32_t capacity);    /* INTS */
uint32_t st_in_syms(const st_infer *in, uint32_t a, stator_ref *out, uint32_t capacity); /* DIMS */
/* An axis attribute brought into [0, rank); fails with a text naming op and range. */
stator_status st_in_axis(const st_infer *in, int64_t axis, uint32_t rank, uint32_t *out);
/* Failing: "conv: weight has 4 channels, input has 3". */
stator_status st_in_fail(const st_infer *in, const char *format, ...) STATOR_PRINTF(2, 3);
#define ST_IN_FAIL_IF(condition, ...) ST_FAIL_BY_IF(st_in_fail, condition, __VA_ARGS__)
/* Notes a constraint that cannot be decided yet: sizes a and b must obey `kind` at the call. */
void st_in_shape_constraint(const st_infer *in, uint32_t kind, stator_ref a, stator_ref b,
                            const char *what);
/* Are two sizes equal? Proved unequal fails; unknown becomes a shape constraint. */
stator_status st_in_same_dim(const st_infer *in, stator_ref a, stator_ref b, const char *what);
/* `a` is 1 or `b`; `name` is what has it ("mask"), at its axis `axis`. */
stator_status st_in_fits(const st_infer *in, stator_ref a, stator_ref b, const char *name,
                         uint32_t axis);
/* least, 1 or 0, <= size: `what` is the whole text of the shape constraint. */
stator_status st_in_filled(const st_infer *in, stator_ref least, stator_ref size, const char *what);
/* a <= b; a is a multiple of b. As for equal sizes. */
stator_status st_in_at_most(const st_infer *in, stator_ref a, stator_ref b, const char *what);
stator_status st_in_multiple(const st_infer *in, stator_ref a, stator_ref b, const char *what);
/* One size of a broadcast; 0 when its formula is beyond a limit. */
stator_ref st_in_broadcast_dim(const st_infer *in, stator_ref a, stator_ref b);
/* Numpy broadcasting of two dims lists; result into out. */
stator_status st_in_broadcast(const st_infer *in, const stator_ref *a, uint32_t a_rank,
                              const stator_ref *b, uint32_t b_rank, stator_ref *out,
                              uint32_t *out_rank);
/* Setting result k. */
stator_status st_in_set(st_infer *in, uint32_t k, stator_dtype dtype, uint32_t rank,
                        const stator_ref *dims);

/* ---- more helpers ---- */

bool st_in_has(const st_infer *in, uint32_t k);             /* operand k is there */
bool st_in_has_attr(const st_infer *in, uint32_t a);        /* attribute a is not absent */
uint32_t st_in_place(const st_infer *in, const char *name); /* an attribute's place; must exist */
const char *st_in_string(const st_infer *in, uint32_t a);   /* "" when absent */
bool st_in_string_is(const st_infer *in, uint32_t a, const char *word);
/* Name of operand k as the row writes it ("x"), into buf. */
const char *st_in_operand_name(const st_infer *in, uint32_t k, char buf[32]);
/* Text of a sym ("N + 1"), into buf. */
const char *st_in_sym_text(const st_infer *in, stator_ref sym, char buf[96]);
/* Sizes. 0 stands for "beyond a limit" and goes through every operation; st_in_set makes an
 * unbacked symbol of it. op as in stator_types_api.sym_op. */
stator_ref st_in_size(const st_infer *in, int64_t value);
stator_ref st_in_op(const st_infer *in, uint32_t op, stator_ref a, stator_ref b);
stator_ref st_in_op_int(const st_infer *in, uint32_t op, stator_ref a, int64_t b);
stator_ref st_in_product(const st_infer *in, const stator_ref *dims, uint32_t n);
bool st_in_const(const st_infer *in, stator_ref sym, int64_t *out);
void st_in_range(const st_infer *in, stator_ref sym, int64_t *out_lo, int64_t *out_hi);
/* The size of result k's axis, known only when the program runs: what the caller declared for it
 * (given_types), else a fresh unbacked symbol in [0, hi]. 0: out of memory. */
stator_ref st_in_unbacked(const st_infer *in, uint32_t k, uint32_t axis, int64_t hi);
/* Largest possible element count of operand k (INT64_MAX when open). */
int64_t st_in_numel_bound(const st_infer *in, uint32_t k);
/* Checks. */
stator_status st_in_rank_is(const st_infer *in, uint32_t k, uint32_t lo, uint32_t hi);
stator_status st_in_same_dtype(const st_infer *in, uint32_t a, uint32_t b);
stator_status st_in_dtype_is(const st_infer *in, uint32_t k, stator_dtype dtype);
/* classes: bit (1 << stator_dtype_class); what: "a float dtype". */
stator_status st_in_class_is(const st_infer *in, uint32_t k, uint32_t classes, const char *what);
stator_status st_in_index_dtype(const st_infer *in, uint32_t k);
/* Operand k is a scalar (rank 0, or rank 1 of size 1 when one_ok). */
stator_status st_in_scalar(const st_infer *in, uint32_t k, bool one_ok);
/* The string attribute is one of a comma-separated list. */
stator_status st_in_one_of(const st_infer *in, uint32_t a, const char *words);
/* A list attribute (INTS or DIMS) has exactly n entries. */
stator_status st_in_list_count(const st_infer *in, uint32_t a, uint32_t n);
/* Axes of a list attribute in [0, rank), each once, as a bit set. */
stator_status st_in_axes(const st_infer *in, uint32_t a, uint32_t rank, uint32_t *out_set);
/* Places of a window (core/base/sym/sym.h) along an axis, 0 or less where it is larger; *out 0: not
 * known. Fails for a stride or dilation below 1 and where known sizes pass 64 bits. */
stator_status st_in_window_count(const st_infer *in, const st_sym_window *w, uint32_t axis,
                                 stator_ref *out);
/* The same; fails too where the window is proved larger than the padded size. */
stator_status st_in_window_size(const st_infer *in, const st_sym_window *w, uint32_t axis,
                                stator_ref *out);
/* Sets result k to the type of operand j, with another dtype when dtype is not 0. */
stator_status st_in_like(st_infer *in, uint32_t k, uint32_t j, stator_dtype dtype);

/* A row as an attribute for st_build_node; lists are copied into the arena. `type` receives the
 * type ref of a BLOB. */
stator_status st_attr_from_row(const stator_graph_view *v, const st_module *m, st_arena *arena,
                               const char *name, const stator_attr_row *row, stator_attr *out,
                               stator_diag **err);

/* A node to decompose, as a decomposition function sees it. */
typedef struct st_decompose_node {
    const st_op *op;
    const stator_ref *operands; /* already values of the builder's graph */
    uint32_t n_operands;
    uint32_t n_attrs;
    const stator_attr *attrs; /* by schema place, as stator_attr */
    stator_graph *const *regions;
    uint32_t n_regions;
    uint32_t n_results;
} st_decompose_node;

/* Decomposes through body, C function or op library. NOT_FOUND when the op is a primitive. */
stator_status st_decompose(stator_builder *b, const st_decompose_node *node,
                           stator_ref *out_results, stator_diag **err);

#endif
