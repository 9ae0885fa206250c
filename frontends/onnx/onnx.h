/* Inside the onnx frontend: the import's state, and what an operator function may use.
 *
 *   file --ox_wire--> reduced bytes + table of cut ranges --protobuf-c--> ModelProto
 *        --ox_model--> inputs, initialisers --ox_graph--> nodes in order --map.def--> ox_<family>.c
 *
 * An operator function translates one ONNX node: it reads operands with ox_in, attributes with
 * ox_attr_*, builds nodes with the helpers below and names its results with ox_out. It returns
 * nothing: the first failure is kept, in the node's emitter or in the import (`ox_fail`), after
 * it every helper does nothing and returns 0, so straight code needs no checks; only loops and
 * array accesses over values that may be 0 or unset must look at ox_ok. Arrays handed out live
 * as long as the import. Facts about operators come from the operator texts of the onnx package
 * (docs/Operators.md and the version history in docs/Changelog.md). */
#ifndef STATOR_FRONTEND_ONNX_H
#define STATOR_FRONTEND_ONNX_H

#include "core/base/arena.h"
#include "core/base/check.h"
#include "core/base/map.h"
#include "core/base/str.h"
#include "core/base/vec.h"
#include "onnx.pb-c.h"
#include <stator/emit.h>

#define OX_OPSET_MIN                                                                               \
    1u /* operator sets 7 and newer are complete, older ones as far as they agree */
#define OX_OPSET_MAX 28u   /* the newest in onnx 1.23 */
#define OX_NESTING_MAX 32u /* subgraphs and functions inside each other */

typedef struct ox_import ox_import; /* one import; see ox_import.h */
typedef struct ox_scope ox_scope;   /* names of one graph that is being built */
typedef struct ox_row ox_row;       /* a row of map.def */

/* One node on its way in. */
typedef struct ox_node {
    ox_import *im;
    ox_scope *scope;
    stator_emitter e; /* over the scope's region; its failure is the import's when the node ends */
    const Onnx__NodeProto *proto;
    const ox_row *row;
    const char *name;  /* the node's name, or one made from op and first output */
    int64_t version;   /* version of the default domain's operator set in force here */
    uint32_t in_count; /* absent optional operands count */
    uint32_t out_count;
    const stator_ref *in;
    stator_ref *out;
} ox_node;

typedef void (*ox_op_fn)(ox_node *n);

enum ox_row_kind {
    OX_ROW_DIRECT, /* text names a Stator op: same operands, attributes of the same names */
    OX_ROW_EXPR,   /* text is an expression program over operands a, b, c, d and attributes */
    OX_ROW_FN,
    OX_ROW_SEQUENCE /* FN whose operands may be sequences */
};

struct ox_row {
    const char *name;
    uint32_t since; /* first operator set that has it */
    uint32_t kind;
    const char *text;
    ox_op_fn fn;
    const char *attrs; /* EXPR: "alpha:float=1; p:int=2" given to the program by name */
};

#define ONNX_DIRECT(name, since, text)
#define ONNX_EXPR(name, since, attrs, text)
#define ONNX_FN(name, since, function) void function(ox_node *n);
#define ONNX_SEQUENCE(name, since, function) void function(ox_node *n);
#include "frontends/onnx/map.def"
#undef ONNX_DIRECT
#undef ONNX_EXPR
#undef ONNX_FN
#undef ONNX_SEQUENCE

/* ---- state ---- */

bool ox_ok(const ox_node *n);
/* Keeps the first failure: "node 'conv1' (Conv): <text>". Returns 0. */
stator_ref ox_fail(ox_node *n, stator_status code, const char *format, ...) STATOR_PRINTF(3, 4);
/* Fails with INVALID_ARGUMENT and this text unless the condition holds, which is looked at only
 * when nothing failed before. True: nothing has failed. */
#define ox_expect(n, condition, ...)                                                               \
    ox_holds(ox_ok(n) && ((condition) || ox_fail(n, STATOR_INVALID_ARGUMENT, __VA_ARGS__) != 0))
static inline bool ox_holds(bool holds)
{
    return holds;
}
/* The same in a function that returns nothing: it ends unless nothing has failed. */
#define OX_NEED(n, ...)                                                                            \
    do {                                                                                           \
        if (!ox_expect(n, __VA_ARGS__)) {                                                          \
            return;                                                                                \
        }                                                                                          \
    } while (0)
/* Memory of the import, zeroed; NULL after keeping the failure. */
void *ox_alloc(ox_node *n, uint64_t count, uint64_t size);

/* ---- operands and results ---- */

stator_ref ox_in(const ox_node *n, uint32_t k);    /* 0 when absent */
stator_ref ox_need(ox_node *n, uint32_t k);        /* fails when absent */
bool ox_wants(const ox_node *n, uint32_t k);       /* is result k used by name? */
void ox_out(ox_node *n, uint32_t k, stator_ref v); /* past the node's results: ignored */

/* ---- types; each fails on v == 0 ---- */

stator_dtype ox_dtype(ox_node *n, stator_ref v);
uint32_t ox_rank(ox_node *n, stator_ref v);
stator_ref ox_dim(ox_node *n, stator_ref v, int64_t axis); /* negative from the end */
uint32_t ox_dims(ox_node *n, stator_ref v, stator_ref out[STATOR_RANK_MAX]); /* gives the rank */
bool ox_dim_known(ox_node *n, stator_ref v, int64_t axis, int64_t *out);     /* 1 when static */
int64_t ox_dim_need(ox_node *n, stator_ref v, int64_t axis,
                    const char *what); /* fails if symbolic */
bool ox_is_float(ox_node *n, stator_ref v);
bool ox_is_unsigned(ox_node *n, stator_ref v);
/* Fails unless lo <= rank <= hi. */
void ox_check_rank(ox_node *n, stator_ref v, uint32_t lo, uint32_t hi, const char *what);
/* axis in [-rank, rank) brought into [0, rank), else fails (returns 0). */
uint32_t ox_axis(ox_node *n, int64_t axis, uint32_t rank);
/* Stator's dtype for TensorProto.DataType; 0 after failing with the type's name. */
stator_dtype ox_dtype_of(ox_node *n, int64_t onnx_type);

/* ---- attributes; a wrong kind fails and names the attribute ---- */

bool ox_has_attr(ox_node *n, const char *name);
/* Is the node in training mode? What it says itself, unless the option `training` speaks of all. */
bool ox_is_training(ox_node *n, bool own);
int64_t ox_attr_int(ox_node *n, const char *name, int64_t absent);
int64_t ox_attr_int_need(ox_node *n, const char *name);
double ox_attr_float(ox_node *n, const char *name, double absent);
const char *ox_attr_str(ox_node *n, const char *name, const char *absent);
const int64_t *ox_attr_ints(ox_node *n, const char *name, uint32_t *out_count);  /* NULL: absent */
const double *ox_attr_floats(ox_node *n, const char *name, uint32_t *out_count); /* NULL: absent */
const char *const *ox_attr_strs(ox_node *n, const char *name, uint32_t *out_count);
const Onnx__TensorProto *ox_attr_tensor(ox_node *n, const char *name); /* NULL: absent */
const Onnx__SparseTensorProto *ox_attr_sparse(ox_node *n, const char *name);
const Onnx__GraphProto *ox_attr_graph(ox_node *n, const char *name); /* NULL: absent */
/* The list brought to `count` entries: absent gives `fill`, another length fails. */
const int64_t *ox_attr_ints_or(ox_node *n, const char *name, uint32_t count, int64_t fill);

/* ---- symbolic integers: the emitter's ---- */

#define ox_sym(n, value) stator_emit_size(&(n)->e, value)
#define ox_sym_op(n, op, a, b) stator_emit_sym(&(n)->e, op, a, b)
#define ox_sym_try(n, op, a, b) stator_emit_sym_try(&(n)->e, op, a, b)
#define ox_sym_prod(n, count, syms) stator_emit_sym_product(&(n)->e, count, syms)
#define ox_sym_const(n, sym, out) stator_emit_const(&(n)->e, sym, out)
#define ox_sym_is(n, sym, value) stator_emit_is(&(n)->e, sym, value)
/* Least and greatest value; both 0 after a failure. */
void ox_sym_range(ox_node *n, stator_ref sym, int64_t *out_lo, int64_t *out_hi);

/* ---- constants ---- */

stator_ref ox_const(ox_node *n, stator_dtype dtype, uint32_t rank, const int64_t *dims,
                    const void *data);
stator_ref ox_scalar(ox_node *n, stator_dtype dtype, double value);     /* rank 0, any real dtype */
stator_ref ox_like(ox_node *n, stator_ref v, double value);             /* scalar of v's dtype */
stator_ref ox_int(ox_node *n, int64_t value);                           /* i64, rank 0 */
stator_ref ox_ints(ox_node *n, uint32_t count, const int64_t *values);  /* i64, rank 1 */
stator_ref ox_floats(ox_node *n, uint32_t count, const double *values); /* f32, rank 1 */
stator_ref ox_tensor(ox_node *n, const Onnx__TensorProto *tensor);      /* a constant node */
stator_ref ox_sparse_tensor(ox_node *n, const Onnx__SparseTensorProto *tensor); /* made dense */

/* ---- values known at import time ---- */

/* All elements as syms when each is known (constants, sizes and arithmetic over them); NULL when
 * not. The value must be an integer tensor with a static number of elements. */
const stator_ref *ox_known(ox_node *n, stator_ref v, uint32_t *out_count);
/* The same, but what is unknown becomes unbacked symbols; fails when the count is not static. */
const stator_ref *ox_sizes(ox_node *n, stator_ref v, uint32_t *out_count, const char *what);
/* The one element of v as a size, as ox_sizes. */
stator_ref ox_size_of(ox_node *n, stator_ref v, const char *what);
/* Plain integers that the import cannot go on without (axes, permutations, ranks). Unknown: the
 * inputs that v is computed from are asked for and the import fails with NEED_VALUE. */
const int64_t *ox_need_ints(ox_node *n, stator_ref v, uint32_t *out_count, const char *what);
int64_t ox_need_int(ox_node *n, stator_ref v, const char *what); /* one element */
const double *ox_need_floats(ox_node *n, stator_ref v, uint32_t *out_count, const char *what);
/* Fails with NEED_VALUE after asking for the inputs that v (or, failing that, any size) comes from;
 * UNIMPLEMENTED when there is none to ask for. */
void ox_ask(ox_node *n, stator_ref v, const char *what);
/* NULL when v is not known; asks for nothing. Any real dtype. */
const double *ox_known_floats(ox_node *n, stator_ref v, uint32_t *out_count);
/* 1 and the integers when v is known to be plain integers, else 0; asks for nothing. */
bool ox_known_ints(ox_node *n, stator_ref v, uint32_t *out_count, const int64_t **out);
/* i64 tensor of rank 1 of these syms; and rank 0 of one. */
#define ox_from_dims(n, count, syms) stator_emit_from_dims(&(n)->e, count, syms)
#define ox_from_dim(n, sym) stator_emit_from_dims(&(n)->e, UINT32_MAX, &(stator_ref){sym})

/* ---- nodes ---- */

/* The emitter's words (stator/emit.h) over a node. */
#define ox_op(n, op, ...) stator_emit_op(&(n)->e, op, __VA_ARGS__)
#define ox_expr(n, program, names, ...) stator_emit_expr(&(n)->e, program, names, __VA_ARGS__)
#define ox_un(n, op, x) stator_emit_unary(&(n)->e, op, x)
#define ox_bin(n, op, x, y) stator_emit_binary(&(n)->e, op, x, y)
#define ox_add(n, x, y) ox_bin(n, "add", x, y)
#define ox_sub(n, x, y) ox_bin(n, "sub", x, y)
#define ox_mul(n, x, y) ox_bin(n, "mul", x, y)
#define ox_div(n, x, y) ox_bin(n, "div", x, y)
#define ox_matmul(n, x, y) ox_bin(n, "matmul", x, y)
#define ox_select(n, c, x, y) ox_op(n, "select", STATOR_IN(c, x, y), STATOR_NONE)
#define ox_reshape(n, x, ...) stator_emit_reshape(&(n)->e, x, __VA_ARGS__)
#define ox_expand(n, x, ...) stator_emit_expand(&(n)->e, x, __VA_ARGS__)
#define ox_slice(n, x, axis, start, size, step)                                                    \
    stator_emit_slice(&(n)->e, x, axis, start, size, step)
#define ox_slice_const(n, x, axis, start, size)                                                    \
    ox_slice(n, x, axis, ox_sym(n, start), ox_sym(n, size), 1)
#define ox_concat(n, axis, ...) stator_emit_concat(&(n)->e, axis, __VA_ARGS__)
#define ox_gather(n, x, index, axis) stator_emit_gather(&(n)->e, x, index, axis)
#define ox_reduce(n, op, x, count, axes, keepdims)                                                 \
    stator_emit_reduce(&(n)->e, op, x, count, axes, keepdims)
#define ox_iota(n, dtype, rank, dims, axis) stator_emit_iota(&(n)->e, dtype, rank, dims, axis)
stator_ref ox_cast(ox_node *n, stator_ref x, stator_dtype dtype); /* x itself when it has it */
stator_ref ox_transpose(ox_node *n, stator_ref x, const int64_t *perm);
stator_ref ox_unsqueeze(ox_node *n, stator_ref x, uint32_t axis); /* axis in the result */
stator_ref ox_squeeze(ox_node *n, stator_ref x, uint32_t axis);   /* its size is taken to be 1 */
/* x as channels on axis 1 of a tensor of `rank`: [C] to [1, C, 1, ..]; rank 1 operands only. */
stator_ref ox_channels(ox_node *n, stator_ref x, uint32_t rank);

#endif
