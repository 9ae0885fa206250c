/* The op table: built-in rows (ir/ops.def) and rows that op libraries add. An op's id is its index,
 * from 1, for one process; built-in ops have the ids of stator_opcode (<stator/ops.h>). Everything
 * that depends on which op a node is comes from here.
 *
 * A row of ops.def:
 *   STATOR_OP(silu, .operands = "x", .results = "y", .attrs = "", .infer = st_infer_same,
 *             .flags = STATOR_OP_POINTWISE, .body = "mul(x, sigmoid(x))", .doc = "...")
 * .attrs is "name:kind=default; ..." with kinds int float string dtype ints floats dims blob.
 * Without "=default" the attribute is required; "=none" is absent unless given. The generated
 * header <stator/ops.h> has an enumerator STATOR_<op>_<attr> for each attribute's place. */
#ifndef STATOR_IR_OPTABLE_H
#define STATOR_IR_OPTABLE_H

#include "core/base/arena.h"
#include "core/base/diag.h"
#include "core/base/map.h"
#include "core/base/seg.h"
#include <stator/ir.h>

struct st_infer;

/* Computes result types (see infer.h). */
typedef stator_status (*st_infer_fn)(struct st_infer *in);

struct stator_builder;
struct st_decompose_node;
/* Writes the decomposition of a node into b; out_results[k] = value computing result k. */
typedef stator_status (*st_decompose_fn)(struct stator_builder *b,
                                         const struct st_decompose_node *node,
                                         uint32_t *out_results, stator_diag **err);

struct st_gradient_node;
/* Writes the gradients of a node's operands into b; in_grads[k] 0: none (gradient_rules.h). */
typedef stator_status (*st_gradient_fn)(struct stator_builder *b,
                                        const struct st_gradient_node *node, uint32_t *in_grads,
                                        stator_diag **err);

struct st_baked_in_reading;
struct st_baked_in_again;
/* Unifies sizes of a file whose numbers stand for sizes (baked_in.h): says which sizes of the
 * operands have to be equal, where some have symbols and others numbers. */
typedef void (*st_unify_sizes_fn)(struct st_baked_in_reading *reading);
/* The result is wanted with other sizes: fills `required` by operand and changes `attrs`; 0: it
 * cannot be had. */
typedef bool (*st_size_requirements_fn)(struct st_baked_in_again *again);

/* What it costs to compute a node again instead of keeping its results (ir/recompute/kept.c). */
typedef enum st_recompute {
    ST_RECOMPUTE_BY_FLAGS = 0, /* of a row: what its flags say, HEAVY where they say nothing */
    ST_RECOMPUTE_FREE,         /* nothing: views, sizes, constants */
    ST_RECOMPUTE_POINTWISE,    /* a step of a fused loop over its result */
    ST_RECOMPUTE_SWEEP,        /* a loop or two over what it reads */
    ST_RECOMPUTE_HEAVY,        /* more: contractions, windows, sorts; only where allowed */
    ST_RECOMPUTE_RANDOM,       /* only where allowed */
    ST_RECOMPUTE_NEVER         /* effects, control flow, sizes that a run tells */
} st_recompute;

typedef struct st_op_def { /* one row as written */
    const char *name;
    const char *operands;
    const char *results;
    const char *attrs;
    const char *body;
    const char *grad;    /* gradients of the operands as an expression program */
    const char *no_grad; /* why there is none */
    const char *doc;
    /* Operands that are running statistics, which no optimizer changes. Result new_NAME, where
     * there is one, is what becomes of NAME. */
    const char *statistics;
    /* The op that computes the first result where the model is used and not trained: its operands
     * are the first ones of this op, its attributes those of the same names. Statistics stay. */
    const char *inference;
    st_infer_fn infer;
    st_decompose_fn decompose;    /* structural composites whose body is C */
    st_gradient_fn differentiate; /* gradients that are C */
    st_unify_sizes_fn
        unify_sizes; /* NULL: baked-in sizes are left alone, as POINTWISE needs none */
    st_size_requirements_fn size_requirements;
    uint64_t flags;
    uint32_t version;
    uint32_t regions;
    st_recompute recompute;
    double rtol, atol; /* tolerance of the op in f32 (0: exact) */
} st_op_def;

typedef struct st_op {   /* one row as used */
    stator_op_desc desc; /* first: view->ops points here */
    const st_op_def *def;
    st_infer_fn infer;
    st_decompose_fn decompose;
    st_unify_sizes_fn unify_sizes;
    st_size_requirements_fn size_requirements;
    const void *oplib_op; /* stator_oplib_op, when a library brought it */
    void *oplib_self;
    const char *plugin; /* plugin that holds the library, for messages; borrowed */
} st_op;

typedef struct st_optable {
    st_mem *mem;
    st_arena arena;
    st_seg ops; /* const st_op *, from 1 */
    st_hashset by_name;
} st_optable;

/* A table holding the built-in rows. */
stator_status st_optable_init(st_optable *table, st_mem *mem, stator_diag **err);
void st_optable_deinit(st_optable *table);
uint32_t st_optable_find(const st_optable *table, const char *name); /* 0 unknown */
const st_op *st_optable_at(const st_optable *table, uint32_t op);
uint32_t st_optable_count(const st_optable *table);
/* Never BY_FLAGS. */
st_recompute st_op_recompute(const st_op *op);
/* Adds an op of a library that `plugin` holds; ALREADY_EXISTS when the name is taken. */
stator_status st_optable_add(st_optable *table, const char *plugin, const void *oplib_op,
                             void *self, stator_diag **err);
/* Reads "name:kind=default; ..." into the arena; `whose` stands before messages. */
stator_status st_attr_schema_read(st_arena *arena, const char *whose, const char *text,
                                  stator_attr_desc **out, uint32_t *out_count, stator_diag **err);
/* 1 for INTS, FLOATS and DIMS. */
bool st_attr_is_list(uint32_t kind);
/* 1 when an attribute that is not given stays absent (a node's row of kind NONE): "=none". For
 * kind STRING "none" is a word like any other. Such a desc has s = "none". */
bool st_attr_default_is_absent(const stator_attr_desc *desc);
/* The elements of a list default such as "[1, 1]" (desc->s); 0 when it cannot be read. */
bool st_attr_default_list(const stator_attr_desc *desc, double *out, uint32_t capacity,
                          uint32_t *out_count);
/* Least and largest number of names in "x, w, b?" (? optional; * any number: UINT32_MAX). */
void st_name_counts(const char *names, uint32_t *out_min, uint32_t *out_max);
/* The built-in row definitions, for tests and the header generator. */
const st_op_def *st_op_defs(uint32_t *out_count);

#endif
