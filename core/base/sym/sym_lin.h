/* Linear forms: what the files of the symbolic engine (sym*.c) work on before a result is interned.
 * A form is constant + sum(coef * atom), terms sorted by atom, no zero coefficient; it lies on the
 * stack and may be larger than an interned sym may be. */
#ifndef STATOR_BASE_SYM_LIN_H
#define STATOR_BASE_SYM_LIN_H

#include "core/base/sym/sym.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ST_LIN_MAX 64u

typedef struct st_lin {
    int64_t constant;
    uint32_t count;
    uint32_t reserved;
    stator_term_row terms[ST_LIN_MAX];
} st_lin;

/* num / den times a product of atoms (sorted, none of them a PRODUCT or an exact division). */
#define ST_MONO_MAX 8u
typedef struct st_mono {
    int64_t num;
    int64_t den;
    uint32_t count;
    uint32_t atoms[ST_MONO_MAX];
} st_mono;

uint64_t st_abs_u64(int64_t v);
uint64_t st_gcd_u64(uint64_t a, uint64_t b);

/* Each returns 0 on overflow or when the form is full; the form is then of no use. */
void st_lin_set(st_lin *lin, int64_t constant);
void st_lin_copy(st_lin *to, const st_lin *from);
void st_lin_remove(st_lin *lin, uint32_t i);
bool st_lin_add_const(st_lin *lin, int64_t value);
bool st_lin_add_term(st_lin *lin, uint32_t atom, int64_t coef);
bool st_lin_add_sym(const st_symtab *tab, st_lin *lin, uint32_t sym, int64_t factor);
bool st_lin_add_lin(st_lin *lin, const st_lin *other, int64_t factor);
bool st_lin_scale(st_lin *lin, int64_t factor);
int64_t st_lin_coef(const st_lin *lin, uint32_t atom); /* 0 when absent */

/* Brings pairs that mean one thing together (sym.c); sets *out_changed. 0: limit or memory. */
bool st_lin_canon(st_symtab *tab, st_lin *lin, bool *out_changed);
/* The ref of the form; 0: limit or memory. */
uint32_t st_lin_intern(st_symtab *tab, st_lin *lin);
/* Atom of this kind over two syms, made when new; 0: limit of depth or memory. */
uint32_t st_atom_make(st_symtab *tab, uint32_t kind, uint32_t a, uint32_t b);
uint32_t st_atom_find(const st_symtab *tab, uint32_t kind, uint32_t a, uint32_t b);
uint32_t st_atom_sym(st_symtab *tab, uint32_t atom); /* 1 * atom */
/* The one atom of a sym that is exactly 1 * atom, else 0. */
uint32_t st_sym_single_atom(const st_symtab *tab, uint32_t sym);
/* When atom is floordiv(base, q) with q dividing base always: base and q. Else atom itself and 1.
 */
uint32_t st_atom_base(const st_symtab *tab, uint32_t atom, int64_t *out_q);

/* Products (sym_arith.c). */
bool st_mono_from_term(const st_symtab *tab, const stator_term_row *term, st_mono *out);
bool st_mono_mul(const st_mono *a, const st_mono *b, st_mono *out);
bool st_lin_add_mono(st_symtab *tab, st_lin *lin, const st_mono *mono);

/* Division by a sym that is no integer (sym_poly.c). 0: limit. */
uint32_t st_sym_div_sym(st_symtab *tab, uint32_t a, uint32_t b);
uint32_t st_sym_mod_sym(st_symtab *tab, uint32_t a, uint32_t b);

/* Bounds (sym_prove.c): INT64_MIN and INT64_MAX when nothing is known. */
int64_t st_lin_lower(const st_symtab *tab, const st_lin *lin, uint32_t steps);
void st_lin_range(const st_symtab *tab, const st_lin *lin, uint32_t steps, int64_t *out_lo,
                  int64_t *out_hi);
/* Range and divisor of an atom to be made. */
void st_atom_facts(const st_symtab *tab, stator_atom_row *row);
/* Every value of the form is constant + a multiple of this; 0 for a plain integer. */
uint64_t st_lin_modulus(const st_symtab *tab, const st_lin *lin);

#define ST_RANGE_STEPS 32u
#define ST_PROOF_STEPS 400u

#ifdef __cplusplus
}
#endif
#endif
