/* Floor division and remainder of a sym by a sym, on polynomials over atoms: common integer and
 * symbol factors are cancelled, and multiples of the divisor are taken out by long division:
 *
 *     floordiv(12*N*S*64, 64*N) = 12*S
 *     floordiv(64*P + 64*T + 1, P + T) = 64 + floordiv(1, P + T)
 *
 * Division is defined where the divisor is not 0; a simplified form may be defined in more places
 * than what it came from. Invariant of a division on its way: floordiv(a0, b0) = q + floordiv(a, b)
 * and mod(a0, b0) = g * mod(a, b). */
#include "core/base/sym/sym_lin.h"

#include "core/base/check.h"
#include <string.h>

#define ROUNDS 16u /* rewrites of one division */
#define POLY_MAX 32u

/* A polynomial over atoms with integer coefficients (every den is 1). */
typedef struct poly {
    uint32_t count;
    st_mono terms[POLY_MAX];
} poly;

static bool same_atoms(const st_mono *a, const st_mono *b)
{
    return a->count == b->count && memcmp(a->atoms, b->atoms, a->count * sizeof a->atoms[0]) == 0;
}

/* p += t; INT64_MIN is refused, so that every number can be negated. */
static bool poly_add(poly *p, const st_mono *t)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (same_atoms(&p->terms[i], t)) {
            if (!st_add_i64(p->terms[i].num, t->num, &p->terms[i].num) ||
                p->terms[i].num == INT64_MIN) {
                return false;
            }
            if (p->terms[i].num == 0) {
                p->count--;
                memmove(&p->terms[i], &p->terms[i + 1], (p->count - i) * sizeof *t);
            }
            return true;
        }
    }
    if (p->count == POLY_MAX || t->num == INT64_MIN) {
        return false;
    }
    if (t->num != 0) {
        p->terms[p->count++] = *t;
    }
    return true;
}

/* The sym times `scale` (which every denominator divides). */
static bool poly_from_sym(const st_symtab *tab, uint32_t sym, int64_t scale, poly *out)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    st_mono t = {.den = 1};
    out->count = 0;
    if (!st_mul_i64(row->constant, scale, &t.num) || !poly_add(out, &t)) {
        return false;
    }
    for (uint32_t i = 0; i < row->term_count; i++) {
        if (!st_mono_from_term(tab, st_sym_term(tab, row, i), &t) ||
            !st_mul_i64(t.num, scale / t.den, &t.num)) {
            return false;
        }
        t.den = 1;
        if (!poly_add(out, &t)) {
            return false;
        }
    }
    return true;
}

/* scale becomes a multiple of every denominator in sym. */
static bool join_denominators(const st_symtab *tab, uint32_t sym, int64_t *scale)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        int64_t q = 1;
        st_atom_base(tab, st_sym_term(tab, row, i)->atom, &q);
        const int64_t g = (int64_t)st_gcd_u64((uint64_t)*scale, (uint64_t)q);
        if (!st_mul_i64(*scale, q / g, scale)) {
            return false;
        }
    }
    return true;
}

static uint32_t poly_intern(st_symtab *tab, const poly *p)
{
    st_lin lin;
    st_lin_set(&lin, 0);
    for (uint32_t i = 0; i < p->count; i++) {
        if (!st_lin_add_mono(tab, &lin, &p->terms[i])) {
            return 0;
        }
    }
    return st_lin_intern(tab, &lin);
}

/* a / b as monomials: 1 when b's atoms are among a's; *out has a's other atoms and number 1. */
static bool mono_without(const st_mono *a, const st_mono *b, st_mono *out)
{
    *out = (st_mono){.num = 1, .den = 1};
    uint32_t j = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (j < b->count && a->atoms[i] == b->atoms[j]) {
            j++;
        } else {
            out->atoms[out->count++] = a->atoms[i];
        }
    }
    return j == b->count;
}

typedef struct division {
    poly a, b, q;
    st_mono g;
} division;

static void divide_all(poly *p, int64_t by)
{
    for (uint32_t i = 0; i < p->count; i++) {
        p->terms[i].num /= by;
    }
}

/* Cancels the common integer factor, with the sign that makes b's numbers positive. */
static bool cancel_numbers(division *d)
{
    uint64_t g = 0;
    bool all_negative = true;
    for (uint32_t i = 0; i < d->a.count; i++) {
        g = st_gcd_u64(g, st_abs_u64(d->a.terms[i].num));
    }
    for (uint32_t i = 0; i < d->b.count; i++) {
        g = st_gcd_u64(g, st_abs_u64(d->b.terms[i].num));
        all_negative &= d->b.terms[i].num < 0;
    }
    if (g > INT64_MAX || (g == 1 && !all_negative)) {
        return false;
    }
    const int64_t by = all_negative ? -(int64_t)g : (int64_t)g;
    int64_t scaled = 0;
    if (!st_mul_i64(d->g.num, by, &scaled)) {
        return false;
    }
    d->g.num = scaled;
    divide_all(&d->a, by);
    divide_all(&d->b, by);
    return true;
}

static bool has_factor(const poly *p, const st_mono *factor)
{
    st_mono rest;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!mono_without(&p->terms[i], factor, &rest)) {
            return false;
        }
    }
    return true;
}

static void drop_factor(poly *p, const st_mono *factor)
{
    for (uint32_t i = 0; i < p->count; i++) {
        st_mono rest;
        mono_without(&p->terms[i], factor, &rest);
        rest.num = p->terms[i].num;
        p->terms[i] = rest;
    }
}

/* Cancels one atom that every term of a and b has. */
static bool cancel_atom(division *d)
{
    for (uint32_t i = 0; d->b.count != 0 && i < d->b.terms[0].count; i++) {
        const st_mono factor = {.num = 1, .den = 1, .count = 1, .atoms = {d->b.terms[0].atoms[i]}};
        st_mono g;
        if (has_factor(&d->a, &factor) && has_factor(&d->b, &factor) &&
            st_mono_mul(&d->g, &factor, &g)) {
            d->g = g;
            drop_factor(&d->a, &factor);
            drop_factor(&d->b, &factor);
            return true;
        }
    }
    return false;
}

/* p += t * b * sign */
static bool poly_add_product(poly *p, const st_mono *t, const poly *b, int64_t sign)
{
    for (uint32_t i = 0; i < b->count; i++) {
        st_mono x;
        if (!st_mono_mul(t, &b->terms[i], &x) || !st_mul_i64(x.num, sign, &x.num) ||
            !poly_add(p, &x)) {
            return false;
        }
    }
    return true;
}

/* Order of monomials: higher degree first, then by the age of the atoms. Long division goes by it,
 * so that its result does not depend on how a polynomial came about. */
static bool goes_before(const st_mono *a, const st_mono *b)
{
    if (a->count != b->count) {
        return a->count > b->count;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->atoms[i] != b->atoms[i]) {
            return a->atoms[i] < b->atoms[i];
        }
    }
    return false;
}

static const st_mono *leading(const poly *b)
{
    const st_mono *lead = &b->terms[0];
    for (uint32_t i = 1; i < b->count; i++) {
        lead = goes_before(&b->terms[i], lead) ? &b->terms[i] : lead;
    }
    return lead;
}

/* The first term of a, in that order, that gives up a multiple of lead; *out is its quotient. A
 * single divisor takes what it can of every coefficient, a sum only what goes without rest. */
static bool find_multiple(const poly *a, const st_mono *lead, bool is_single, st_mono *out)
{
    const st_mono *found = NULL;
    for (uint32_t i = 0; i < a->count; i++) {
        const st_mono *t = &a->terms[i];
        st_mono quotient;
        if (st_floordiv(t->num, lead->num) != 0 && (is_single || t->num % lead->num == 0) &&
            mono_without(t, lead, &quotient) && (found == NULL || goes_before(t, found))) {
            quotient.num = st_floordiv(t->num, lead->num);
            *out = quotient;
            found = t;
        }
    }
    return found != NULL;
}

/* Takes multiples of b out of a. By a sum b this counts only when fewer terms are left. */
static bool take_multiples(division *d)
{
    if (d->b.count == 0) {
        return false;
    }
    const bool is_single = d->b.count == 1;
    const st_mono *lead = leading(&d->b);
    poly a = d->a;
    poly q = d->q;
    uint32_t steps = 0;
    st_mono t;
    while (steps < ROUNDS && find_multiple(&a, lead, is_single, &t)) {
        if (!poly_add(&q, &t) || !poly_add_product(&a, &t, &d->b, -1)) {
            return false;
        }
        steps++;
    }
    if (steps == 0 || (!is_single && a.count >= d->a.count)) {
        return false;
    }
    d->a = a;
    d->q = q;
    return true;
}

static bool start_division(st_symtab *tab, uint32_t a, uint32_t b, division *d)
{
    int64_t scale = 1;
    d->q.count = 0;
    d->g = (st_mono){.num = 1, .den = 1};
    if (!join_denominators(tab, a, &scale) || !join_denominators(tab, b, &scale) ||
        !poly_from_sym(tab, a, scale, &d->a) || !poly_from_sym(tab, b, scale, &d->b)) {
        return false;
    }
    d->g.den = scale;
    for (uint32_t round = 0; round < ROUNDS && d->a.count != 0; round++) {
        if (!cancel_numbers(d) && !cancel_atom(d) && !take_multiples(d)) {
            break;
        }
    }
    return true;
}

/* floordiv(floordiv(x, y), b) = floordiv(x, y*b) for b > 0; 0 when it is not of that form. */
static uint32_t div_nested(st_symtab *tab, uint32_t a, uint32_t b)
{
    const uint32_t atom = st_sym_single_atom(tab, a);
    int64_t lo = 0;
    int64_t hi = 0;
    if (atom == 0 || st_atom_at(tab, atom)->kind != STATOR_ATOM_FLOORDIV) {
        return 0;
    }
    st_sym_range(tab, b, &lo, &hi);
    if (lo < 0) {
        return 0;
    }
    const stator_atom_row row = *st_atom_at(tab, atom);
    return st_sym_floordiv(tab, row.a, st_sym_mul(tab, row.b, b));
}

/* 1 when floor(a / b) is surely 0 or -1: *out is which. */
static bool fold_small(const st_symtab *tab, uint32_t a, uint32_t b, int64_t *out)
{
    st_lin x;
    st_lin y;
    int64_t lo = 0;
    int64_t hi = 0;
    st_lin_set(&x, 0);
    st_lin_set(&y, 0);
    if (!st_lin_add_sym(tab, &x, a, 1) || !st_lin_add_sym(tab, &y, b, 1)) {
        return false;
    }
    st_lin_range(tab, &x, ST_RANGE_STEPS, &lo, &hi);
    *out = lo >= 0 ? 0 : -1;
    if (lo < 0 && hi >= 0) {
        return false;
    }
    /* 0 <= a < b, or -b <= a < 0; both need b - a > 0 or b + a >= 0 */
    return st_lin_add_lin(&y, &x, lo >= 0 ? -1 : 1) &&
           st_lin_lower(tab, &y, ST_RANGE_STEPS) >= (lo >= 0 ? 1 : 0);
}

uint32_t st_sym_div_sym(st_symtab *tab, uint32_t a, uint32_t b)
{
    division d;
    int64_t c = 0;
    if (!start_division(tab, a, b, &d)) {
        return 0;
    }
    const uint32_t q = poly_intern(tab, &d.q);
    if (q == 0 || d.a.count == 0) {
        return q;
    }
    const uint32_t num = poly_intern(tab, &d.a);
    const uint32_t den = poly_intern(tab, &d.b);
    if (num == 0 || den == 0) {
        return 0;
    }
    if (st_sym_const(tab, den, &c)) {
        return st_sym_add(tab, q, st_sym_floordiv(tab, num, den));
    }
    const uint32_t nested = div_nested(tab, num, den);
    if (nested != 0) {
        return st_sym_add(tab, q, nested);
    }
    if (fold_small(tab, num, den, &c)) {
        return st_sym_add(tab, q, st_sym_int(tab, c));
    }
    const uint32_t atom = st_atom_make(tab, STATOR_ATOM_FLOORDIV, num, den);
    return st_sym_add(tab, q, st_atom_sym(tab, atom));
}

/* g * a, where g may have a denominator that a makes up for. */
static uint32_t scale_back(st_symtab *tab, uint32_t a, const st_mono *g)
{
    st_mono whole = *g;
    whole.den = 1;
    st_lin lin;
    st_lin_set(&lin, 0);
    if (a == 0 || !st_lin_add_mono(tab, &lin, &whole)) {
        return 0;
    }
    const uint32_t product = st_sym_mul(tab, a, st_lin_intern(tab, &lin));
    return product != 0 && g->den != 1 ? st_sym_floordiv(tab, product, st_sym_int(tab, g->den))
                                       : product;
}

uint32_t st_sym_mod_sym(st_symtab *tab, uint32_t a, uint32_t b)
{
    division d;
    int64_t c = 0;
    if (!start_division(tab, a, b, &d)) {
        return 0;
    }
    if (d.a.count == 0) {
        return st_sym_int(tab, 0);
    }
    const uint32_t num = poly_intern(tab, &d.a);
    const uint32_t den = poly_intern(tab, &d.b);
    if (num == 0 || den == 0) {
        return 0;
    }
    if (st_sym_const(tab, den, &c)) {
        return c > 0 ? scale_back(tab, st_sym_mod(tab, num, den), &d.g) : 0;
    }
    if (fold_small(tab, num, den, &c)) {
        return scale_back(tab, c == 0 ? num : st_sym_add(tab, num, den), &d.g);
    }
    const uint32_t atom = st_atom_make(tab, STATOR_ATOM_MOD, num, den);
    return scale_back(tab, st_atom_sym(tab, atom), &d.g);
}
