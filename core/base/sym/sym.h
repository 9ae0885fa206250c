/* Symbolic integers: normal forms, ranges, divisibility, proofs, evaluation. One table per module;
 * rows are those of stator/ir.h so that a graph view exposes them as they are.
 *
 * A sym is constant + sum(coef * atom); an atom is a symbol or an interned floordiv, mod,
 * product, min or max of syms. Terms are sorted by atom, equal forms have equal refs. Limits: 16
 * terms, depth 4; past them an operation returns 0 and the caller specialises and says so.
 * Overflow of int64 in a constant also returns 0, as does division by the constant 0. Sym ref 0
 * is "none"; every integer is a sym. Rules used: product distributes over sums; floordiv and mod
 * take out multiples of the divisor (floordiv(4*a + 2*b + 5, 4) = a + 1 + floordiv(b, 2), gcd
 * reduced); floordiv(floordiv(a,b),c) = floordiv(a, b*c); mod is 0 when divisibility proves it;
 * min and max fold when ranges prove an order. */
#ifndef STATOR_BASE_SYM_H
#define STATOR_BASE_SYM_H

#include "core/base/bytes.h"
#include "core/base/map.h"
#include "core/base/seg.h"
#include "core/base/str.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ST_SYM_TERMS_MAX 16u
#define ST_SYM_DEPTH_MAX 4u

typedef struct st_symtab {
    st_mem *mem;
    st_seg syms;   /* stator_sym_row */
    st_seg terms;  /* stator_term_row */
    st_seg atoms;  /* stator_atom_row; `name` is an id of the owner's string table */
    st_seg depths; /* uint32_t by atom */
    st_hashset sym_set;
    st_hashset atom_set;
    uint32_t n_symbols;
} st_symtab;

/* Rows. */
static inline const stator_sym_row *st_sym_row_at(const st_symtab *tab, uint32_t sym)
{
    return (const stator_sym_row *)st_seg_at(&tab->syms, sym);
}
static inline const stator_term_row *st_sym_term(const st_symtab *tab, const stator_sym_row *row,
                                                 uint32_t i)
{
    return (const stator_term_row *)st_seg_at(&tab->terms, row->term_begin + i);
}
static inline const stator_atom_row *st_atom_at(const st_symtab *tab, uint32_t atom)
{
    return (const stator_atom_row *)st_seg_at(&tab->atoms, atom);
}

/* The columns alone, of a table or of a view, so that plugins are served as well. */
typedef struct st_sym_cols {
    stator_column syms, terms, atoms;
} st_sym_cols;
st_sym_cols st_sym_columns(const st_symtab *tab);
static inline st_sym_cols st_sym_view_columns(const stator_graph_view *v)
{
    const st_sym_cols cols = {v->syms, v->terms, v->atoms};
    return cols;
}
typedef bool (*st_sym_atom_fn)(const void *self, const stator_atom_row *row, uint32_t atom);

bool st_symtab_init(st_symtab *tab, st_mem *mem); /* 0: out of memory */
void st_symtab_deinit(st_symtab *tab);
/* *to, uninitialised storage, becomes a copy in `mem` with the same refs; 0: out of memory, *to is
 * then deinitialised. */
bool st_symtab_clone(st_symtab *to, st_mem *mem, const st_symtab *from);

uint32_t st_sym_int(st_symtab *tab, int64_t value);
/* The symbol with this name id, made with range and divisor when new; an existing one is returned
 * as it is. name 0 always makes a fresh one. */
uint32_t st_sym_symbol(st_symtab *tab, uint32_t name, int64_t lo, int64_t hi, int64_t divisor,
                       uint32_t flags);
uint32_t st_sym_add(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_sub(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_mul(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_floordiv(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_ceildiv(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_mod(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_min(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_max(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_op(st_symtab *tab, uint32_t op, uint32_t a, uint32_t b); /* types_api.sym_op */

/* A window along an axis: `taps` elements of it, dilation apart, moved by stride over
 * low + size + high elements. */
typedef struct st_sym_window {
    uint32_t size, low, high, taps; /* syms */
    int64_t dilation, stride;
} st_sym_window;
/* How many elements a window reaches over: dilation * (taps - 1) + 1. */
uint32_t st_sym_window_reach(st_symtab *tab, const st_sym_window *w);
/* How many places it has: floordiv(low + size + high - reach, stride) + 1, which is 0 or less where
 * the window is larger. */
uint32_t st_sym_window_count(st_symtab *tab, const st_sym_window *w);

bool st_sym_const(const st_symtab *tab, uint32_t sym, int64_t *out); /* 1 when a plain integer */
void st_sym_range(const st_symtab *tab, uint32_t sym, int64_t *out_lo, int64_t *out_hi);
int64_t st_sym_divisor(const st_symtab *tab, uint32_t sym); /* >= 1; 0 for the constant 0 */
/* The sizes of a call as hints, by symbol; INT64_MIN where there is none. */
void st_symtab_set_hints(st_symtab *tab, const int64_t *hints, uint32_t n_symbols);
/* A hint for one symbol: nothing when the sym is another. */
void st_sym_set_hint(st_symtab *tab, uint32_t sym, int64_t hint);
/* The size to decide by where a choice has to be made for all sizes (library or loops, tiles, an
 * algorithm): the value under the symbols' hints, and where a symbol has none under a likely
 * value of its range, held within what is proved of the sym. What is decided by it must be right
 * for every size in range. */
int64_t st_sym_size_hint(const st_symtab *tab, uint32_t sym);
/* What can be said of a relation for all sizes; the numbers are those of sym_compare in
 * plugin.h. */
typedef enum st_proof { ST_UNDECIDED = -1, ST_DISPROVED = 0, ST_PROVED = 1 } st_proof;

static inline st_proof st_proof_of(bool is_true)
{
    return is_true ? ST_PROVED : ST_DISPROVED;
}

static inline st_proof st_proof_not(st_proof answer)
{
    return answer == ST_UNDECIDED ? answer : st_proof_of(answer == ST_DISPROVED);
}

st_proof st_sym_eq(st_symtab *tab, uint32_t a, uint32_t b);
st_proof st_sym_lt(st_symtab *tab, uint32_t a, uint32_t b);
st_proof st_sym_le(st_symtab *tab, uint32_t a, uint32_t b);
/* The atom when the sym is exactly one symbol, else 0. */
uint32_t st_sym_as_symbol(const st_symtab *tab, uint32_t sym);
/* The first atom that `is` holds for: term by term, a quotient and the like before what it is made
 * of; 0: none. What only looks at each atom answers 0. */
uint32_t st_sym_find_atom(const st_symtab *tab, uint32_t sym, st_sym_atom_fn is, const void *self);
/* The same over columns, as a graph's view has them. */
uint32_t st_sym_find_in(const st_sym_cols *cols, uint32_t sym, st_sym_atom_fn is, const void *self);
/* Is it made of this atom? */
bool st_sym_uses(const st_sym_cols *cols, uint32_t sym, uint32_t atom);

/* Value under env (by symbol index). 0 when a symbol it needs is INT64_MIN (unset), on overflow or
 * division by zero. */
bool st_sym_eval(const st_sym_cols *cols, uint32_t sym, const int64_t *env, int64_t *out);

/* A sym flattened for repeated evaluation without the graph: postfix code in one block, pairs of
 * operation and argument. Operations beside these are of enum stator_atom_kind and take two. */
enum st_symprog_op {
    ST_SYMPROG_CONST = 100,  /* pushes the argument */
    ST_SYMPROG_SYMBOL = 101, /* pushes env[argument] */
    ST_SYMPROG_MADD = 102    /* x = pop, top += argument * x */
};
#define ST_SYMPROG_STACK 64u /* most numbers at a time */
typedef struct st_symprog {
    int64_t *code;
    uint32_t count;
    uint32_t is_const;
    int64_t constant;
} st_symprog;
bool st_symprog_init(st_symprog *prog, st_mem *mem, const st_sym_cols *cols, uint32_t sym);
void st_symprog_deinit(st_symprog *prog, st_mem *mem);
bool st_symprog_eval(const st_symprog *prog, const int64_t *env, int64_t *out);
/* Do they compute the same, step by step? Equal syms give the same code. */
bool st_symprog_is_same(const st_symprog *a, const st_symprog *b);
/* To bytes and back (bytes.h). Reading checks the code: it stays within its stack and names none
 * but the first n_symbols symbols. 0: out of memory, or the reader failed; *prog is empty then. */
void st_symprog_put(const st_symprog *prog, st_str *out);
bool st_symprog_read(st_symprog *prog, st_mem *mem, st_reader *r, uint32_t n_symbols);

/* Text: "2*N + floordiv(H, 2) + 1"; symbols by name through `name_of`. */
void st_sym_print(const st_symtab *tab, uint32_t sym,
                  const char *(*name_of)(void *self, uint32_t name), void *self, st_str *out);

#ifdef __cplusplus
}
#endif
#endif
