/* The guard table of one executable: what must hold of the inputs for it to be used, flat, checked
 * without allocating. Checking also binds the symbols that appear as sizes.
 *
 * A row is one input: dtype, rank and a size per axis; a size is a plain integer (compared), the
 * first sight of a symbol (bound, then held against range and divisor), or an expression (evaluated
 * and compared after all symbols are bound). */
#ifndef STATOR_RUNTIME_GUARD_H
#define STATOR_RUNTIME_GUARD_H

#include "core/base/shape_constraint.h"
#include "core/base/sym/sym.h"
#include <stator/dlpack.h>
#include <stator/ir.h>

enum st_guard_size_kind {
    ST_SIZE_CONST = 1,
    ST_SIZE_BIND = 2,
    ST_SIZE_EXPR = 3,
    ST_SIZE_ANY = 4 /* baked in as `lo`, and any other value will do */
};

typedef struct st_guard_size {
    uint32_t kind;
    uint32_t symbol; /* BIND: index into syms[] */
    int64_t lo;      /* CONST, ANY: the value; BIND: range and divisor */
    int64_t hi;
    int64_t divisor;
    st_symprog prog; /* EXPR */
    char *text;      /* the size as text, "N" or "2*N + 1", for messages; NULL: not set */
} st_guard_size;

typedef struct st_guard_input {
    DLDataType dtype;
    uint32_t rank;
    uint32_t size_begin;
    /* Not NULL: shape and contents must equal these; the size in bytes is that of the contents. */
    const int64_t *value_shape;
    const void *value;
    uint64_t value_bytes;
    const char *name; /* for messages; borrowed from the graph's module */
} st_guard_input;

/* A constraint on bound sizes: a violation fails the call, it does not ask for another
 * executable. */
typedef struct st_guard_shape_constraint {
    uint32_t kind; /* st_shape_constraint_kind */
    int64_t step;
    st_symprog size[3];
    char *text;
} st_guard_shape_constraint;

typedef struct st_guard {
    st_mem *mem;
    st_guard_input *inputs;
    uint32_t n_inputs;
    st_guard_size *sizes;
    uint32_t n_sizes;
    uint32_t n_symbols; /* length of syms[] */
    uint32_t n_exprs;
    st_guard_shape_constraint *shape_constraints;
    uint32_t n_shape_constraints;
} st_guard;

/* The table for the inputs `values` (value refs of the viewed graph) in call order. Names are
 * borrowed from the view. */
stator_status st_guard_init(st_guard *guard, st_mem *mem, const stator_graph_view *view,
                            const stator_ref *values, uint32_t n_values, stator_diag **err);
/* Sizes of a guard may be given their text (memory of guard->mem), which it frees; so may shape
 * constraints. */
void st_guard_deinit(st_guard *guard);
/* 1 when the inputs fit; syms (n_symbols long) then holds every backed symbol, the others are
 * INT64_MIN. in[] are dense. */
bool st_guard_check(const st_guard *guard, const DLTensor *in, int64_t *syms);
/* The shape constraints, with what a check bound: the status and text of
 * core/base/shape_constraint.h for the first that does not hold. One with a size that inputs do
 * not tell, or that cannot be computed (it passes 64 bits, divides by 0), is passed over:
 * kernels test those. */
stator_status st_guard_check_shape_constraints(const st_guard *guard, const int64_t *syms,
                                               stator_diag **err);
/* Why the inputs do not fit, in words: "input 'x' is f32[1, 3, 8], expected f32[N, 4, 8]", and when
 * a symbol is the reason, what it must be: ": size N must be in 1..64". */
void st_guard_explain(const st_guard *guard, const DLTensor *in, st_str *out);
/* "f32[N, 4, 8]", what one input must be. */
void st_guard_print_expected(const st_guard *guard, uint32_t input, st_str *out);
/* "in 1..64 and a multiple of 8", of a size that is BIND. */
void st_guard_print_range(const st_guard_size *size, st_str *out);
/* "input 'x' is f32[1, 3, 8], expected f32[N, 4, 8]", of one input. */
void st_guard_print_input(const st_guard *guard, uint32_t input, const DLTensor *t, st_str *out);

#endif
