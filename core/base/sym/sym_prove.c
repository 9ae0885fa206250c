/* Bounds and proofs. Everything is reduced to "the lowest value this linear form can have".
 *
 * The naive bound adds up the bounds of the atoms. It forgets that atoms share symbols, so the
 * youngest atom is eliminated, in every way that bounds it from the right side, and the result
 * bounded again, within a budget of steps:
 *
 *     q * floordiv(a, c)   = q/c * (a - m), m = mod(a, c) in [m0, m1]; the form is scaled by c
 *     q * min(x, y)        q > 0: the lower of both cases, q < 0: the higher; max the other way
 *     q * x*y              q > 0: at least q * lo(y) * x when x >= 0, q < 0: q * hi(y) * x
 *     q * mod(a, b)        q < 0: at least q * a when a >= 0, and q * (b - 1)
 *
 * Bounds depend on the form and its atoms alone, never on what else is in the table: an operation
 * gives the same ref whenever it is asked.
 *
 * The bound is then rounded up to the next value the coefficients allow (2*N + 1 >= 0 gives 1).
 * INT64_MIN and INT64_MAX stand for no bound; overflow loses the bound, never makes a wrong one. */
#include "core/base/sym/sym_lin.h"

#include "core/base/check.h"

typedef struct prover {
    const st_symtab *tab;
    uint32_t steps; /* left */
} prover;

/* ---- naive bounds ---- */

uint64_t st_lin_modulus(const st_symtab *tab, const st_lin *lin)
{
    uint64_t g = 0;
    for (uint32_t i = 0; i < lin->count; i++) {
        const uint64_t k = st_abs_u64(lin->terms[i].coef);
        const uint64_t d = (uint64_t)st_atom_at(tab, lin->terms[i].atom)->divisor;
        uint64_t kd = 0;
        g = st_gcd_u64(g, st_mul_u64(k, d, &kd) ? kd : k);
    }
    return g;
}

/* The least value >= lo that is congruent to the form's constant. */
static int64_t round_up(const st_symtab *tab, const st_lin *lin, int64_t lo)
{
    const uint64_t g = st_lin_modulus(tab, lin);
    if (g <= 1 || g > INT64_MAX) {
        return lo;
    }
    const int64_t m = (int64_t)g;
    int64_t shift = st_floormod(lin->constant, m) - st_floormod(lo, m);
    shift += shift < 0 ? m : 0;
    int64_t up = 0;
    return st_add_i64(lo, shift, &up) ? up : lo;
}

static int64_t naive_lower(const st_symtab *tab, const st_lin *lin)
{
    int64_t sum = lin->constant;
    for (uint32_t i = 0; i < lin->count; i++) {
        const int64_t k = lin->terms[i].coef;
        const stator_atom_row *row = st_atom_at(tab, lin->terms[i].atom);
        const int64_t bound = k > 0 ? row->lo : row->hi;
        int64_t v = 0;
        if (bound == INT64_MIN || bound == INT64_MAX || !st_mul_i64(k, bound, &v) ||
            !st_add_i64(sum, v, &sum)) {
            return INT64_MIN;
        }
    }
    return lin->count == 0 ? sum : round_up(tab, lin, sum);
}

static void naive_range(const st_symtab *tab, uint32_t sym, int64_t *lo, int64_t *hi)
{
    st_lin lin;
    st_lin_set(&lin, 0);
    *lo = st_lin_add_sym(tab, &lin, sym, 1) ? naive_lower(tab, &lin) : INT64_MIN;
    st_lin_set(&lin, 0);
    const int64_t up = st_lin_add_sym(tab, &lin, sym, -1) ? naive_lower(tab, &lin) : INT64_MIN;
    *hi = up == INT64_MIN ? INT64_MAX : -up;
}

/* ---- elimination ---- */

static int64_t lower(prover *p, const st_lin *lin, uint32_t below);

/* The bound of `rest` + q * sym. */
static int64_t lower_with(prover *p, const st_lin *rest, uint32_t sym, int64_t q, uint32_t below)
{
    st_lin lin;
    st_lin_copy(&lin, rest);
    return st_lin_add_sym(p->tab, &lin, sym, q) ? lower(p, &lin, below) : INT64_MIN;
}

/* The bound of rest + q * (a - m) / c, m the remainder of a by c (or just in [0, c-1] when c is
 * only a bound of the divisor). */
static int64_t lower_quotient(prover *p, const st_lin *rest, uint32_t a, int64_t c, int64_t q,
                              uint32_t atom)
{
    const int64_t g = (int64_t)st_gcd_u64(st_abs_u64(q), (uint64_t)c);
    const int64_t s = c / g;
    const int64_t f = q / g;
    st_lin numerator;
    st_lin_set(&numerator, 0);
    if (!st_lin_add_sym(p->tab, &numerator, a, 1)) {
        return INT64_MIN;
    }
    const int64_t step = (int64_t)st_gcd_u64(st_lin_modulus(p->tab, &numerator),
                                             (uint64_t)c); /* multiples that m moves in */
    const int64_t m0 = st_floormod(numerator.constant, step);
    const int64_t m1 = c - step + m0;
    int64_t loss = 0;
    int64_t minus_f = 0;
    st_lin lin;
    st_lin_copy(&lin, rest);
    if (!st_lin_scale(&lin, s) || !st_lin_add_lin(&lin, &numerator, f) ||
        !st_sub_i64(0, f, &minus_f) || !st_mul_i64(minus_f, f > 0 ? m1 : m0, &loss) ||
        !st_lin_add_const(&lin, loss)) {
        return INT64_MIN;
    }
    const int64_t bound = lower(p, &lin, atom);
    /* ceil(bound / s) */
    return bound == INT64_MIN ? INT64_MIN : s == 1 ? bound : -st_floordiv(-bound, s);
}

static int64_t without_floordiv(prover *p, const st_lin *rest, uint32_t atom, int64_t q)
{
    const stator_atom_row *row = st_atom_at(p->tab, atom);
    int64_t c = 0;
    if (st_sym_const(p->tab, row->b, &c)) {
        return c > 0 ? lower_quotient(p, rest, row->a, c, q, atom) : INT64_MIN;
    }
    /* a >= 0, b in [lo, hi]: floor(a / hi) <= floordiv(a, b) <= floor(a / lo). */
    int64_t a_lo = 0;
    int64_t lo = 0;
    int64_t hi = 0;
    naive_range(p->tab, row->a, &a_lo, &hi);
    naive_range(p->tab, row->b, &lo, &hi);
    c = q < 0 ? st_max_i64(lo, 1) : hi;
    if (a_lo < 0 || lo < 0 || c <= 0 || c == INT64_MAX) {
        return INT64_MIN;
    }
    /* c * q * floordiv(a, b) is at least q * a for q < 0, and q * (a - (c - 1)) for q > 0. */
    st_lin lin;
    st_lin_copy(&lin, rest);
    int64_t loss = 0;
    if (!st_lin_scale(&lin, c) || !st_mul_i64(q, 1 - c, &loss) ||
        (q > 0 && !st_lin_add_const(&lin, loss))) {
        return INT64_MIN;
    }
    const int64_t bound = lower_with(p, &lin, row->a, q, atom);
    return bound == INT64_MIN ? INT64_MIN : -st_floordiv(-bound, c);
}

/* b * floordiv(a, b) = a - mod(a, b), mod in [0, b - 1] for b >= 1 */
static int64_t without_division_product(prover *p, const st_lin *rest, uint32_t x, uint32_t y,
                                        uint32_t atom, int64_t q)
{
    const uint32_t x_atom = st_sym_single_atom(p->tab, x);
    const stator_atom_row *div = x_atom != 0 ? st_atom_at(p->tab, x_atom) : NULL;
    int64_t lo = 0;
    int64_t hi = 0;
    if (div == NULL || div->kind != STATOR_ATOM_FLOORDIV || div->b != y) {
        return INT64_MIN;
    }
    naive_range(p->tab, y, &lo, &hi);
    if (lo < 0) {
        return INT64_MIN;
    }
    st_lin lin;
    st_lin_copy(&lin, rest);
    if (q > 0) { /* - q * mod >= - q * (b - 1) */
        int64_t minus_q = 0;
        if (!st_sub_i64(0, q, &minus_q) || !st_lin_add_sym(p->tab, &lin, y, minus_q) ||
            !st_lin_add_const(&lin, q)) {
            return INT64_MIN;
        }
    }
    return lower_with(p, &lin, div->a, q, atom);
}

static int64_t without_factor(prover *p, const st_lin *rest, uint32_t x, uint32_t y, uint32_t atom,
                              int64_t q)
{
    int64_t x_lo = 0;
    int64_t lo = 0;
    int64_t hi = 0;
    naive_range(p->tab, x, &x_lo, &hi);
    naive_range(p->tab, y, &lo, &hi);
    const int64_t bound = q > 0 ? lo : hi;
    int64_t k = 0;
    if (x_lo < 0 || bound == INT64_MIN || bound == INT64_MAX || !st_mul_i64(q, bound, &k)) {
        return INT64_MIN;
    }
    return lower_with(p, rest, x, k, atom);
}

static int64_t without_product(prover *p, const st_lin *rest, uint32_t atom, int64_t q)
{
    const stator_atom_row *row = st_atom_at(p->tab, atom);
    int64_t best = without_division_product(p, rest, row->a, row->b, atom, q);
    best = st_max_i64(best, without_division_product(p, rest, row->b, row->a, atom, q));
    best = st_max_i64(best, without_factor(p, rest, row->a, row->b, atom, q));
    return st_max_i64(best, without_factor(p, rest, row->b, row->a, atom, q));
}

static int64_t without_mod(prover *p, const st_lin *rest, uint32_t atom, int64_t q)
{
    const stator_atom_row *row = st_atom_at(p->tab, atom);
    int64_t best = INT64_MIN;
    int64_t lo = 0;
    int64_t hi = 0;
    if (q < 0) {
        naive_range(p->tab, row->b, &lo, &hi);
        const bool is_positive = lo >= 0;
        naive_range(p->tab, row->a, &lo, &hi);
        if (is_positive && lo >= 0) {
            best = lower_with(p, rest, row->a, q, atom);
        }
        st_lin lin;
        st_lin_copy(&lin, rest);
        int64_t minus_q = 0;
        if (is_positive && st_sub_i64(0, q, &minus_q) && st_lin_add_const(&lin, minus_q)) {
            best = st_max_i64(best, lower_with(p, &lin, row->b, q, atom));
        }
    }
    return best;
}

static int64_t without_extremum(prover *p, const st_lin *rest, uint32_t atom, int64_t q)
{
    const stator_atom_row *row = st_atom_at(p->tab, atom);
    const int64_t x = lower_with(p, rest, row->a, q, atom);
    const int64_t y = lower_with(p, rest, row->b, q, atom);
    return (row->kind == STATOR_ATOM_MIN) == (q > 0) ? st_min_i64(x, y) : st_max_i64(x, y);
}

static int64_t eliminate(prover *p, const st_lin *lin, uint32_t i)
{
    const uint32_t atom = lin->terms[i].atom;
    const int64_t q = lin->terms[i].coef;
    st_lin rest;
    st_lin_copy(&rest, lin);
    st_lin_remove(&rest, i);
    switch (st_atom_at(p->tab, atom)->kind) {
    case STATOR_ATOM_FLOORDIV:
        return without_floordiv(p, &rest, atom, q);
    case STATOR_ATOM_MOD:
        return without_mod(p, &rest, atom, q);
    case STATOR_ATOM_PRODUCT:
        return without_product(p, &rest, atom, q);
    case STATOR_ATOM_MIN:
    case STATOR_ATOM_MAX:
        return without_extremum(p, &rest, atom, q);
    default:
        return INT64_MIN;
    }
}

/* A bound of the form; only atoms older than `below` are eliminated. */
static int64_t lower(prover *p, const st_lin *lin, uint32_t below)
{
    int64_t best = naive_lower(p->tab, lin);
    for (uint32_t i = lin->count; i-- > 0 && p->steps > 0;) {
        const uint32_t atom = lin->terms[i].atom;
        if (atom < below && st_atom_at(p->tab, atom)->kind != STATOR_ATOM_SYMBOL) {
            p->steps--;
            best = st_max_i64(best, eliminate(p, lin, i));
        }
    }
    return best == INT64_MIN || lin->count == 0 ? best : round_up(p->tab, lin, best);
}

int64_t st_lin_lower(const st_symtab *tab, const st_lin *lin, uint32_t steps)
{
    prover p = {tab, steps};
    return lower(&p, lin, UINT32_MAX);
}

void st_lin_range(const st_symtab *tab, const st_lin *lin, uint32_t steps, int64_t *out_lo,
                  int64_t *out_hi)
{
    st_lin negated;
    st_lin_copy(&negated, lin);
    *out_lo = st_lin_lower(tab, lin, steps);
    const int64_t up = st_lin_scale(&negated, -1) ? st_lin_lower(tab, &negated, steps) : INT64_MIN;
    *out_hi = up == INT64_MIN ? INT64_MAX : -up;
}

void st_sym_range(const st_symtab *tab, uint32_t sym, int64_t *out_lo, int64_t *out_hi)
{
    st_lin lin;
    st_lin_set(&lin, 0);
    if (!st_lin_add_sym(tab, &lin, sym, 1)) {
        *out_lo = INT64_MIN;
        *out_hi = INT64_MAX;
    } else if (lin.count == 0) {
        *out_lo = *out_hi = lin.constant;
    } else {
        st_lin_range(tab, &lin, ST_RANGE_STEPS, out_lo, out_hi);
    }
}

/* ---- facts of new atoms ---- */

typedef struct range {
    int64_t lo, hi;
} range;

/* floor(v / d) for d >= 1, where v and d may be open. */
static int64_t open_div(int64_t v, int64_t d)
{
    if (v == INT64_MIN || v == INT64_MAX) {
        return v;
    }
    return d == INT64_MAX ? (v < 0 ? -1 : 0) : st_floordiv(v, d);
}

static range quotient_range(range a, range b)
{
    if (b.lo < 0) {
        return (range){INT64_MIN, INT64_MAX};
    }
    const int64_t d0 = st_max_i64(b.lo, 1); /* defined only where b >= 1 */
    const int64_t d1 = st_max_i64(b.hi, d0);
    return (range){open_div(a.lo, a.lo >= 0 ? d1 : d0), open_div(a.hi, a.hi >= 0 ? d0 : d1)};
}

static range mod_range(range a, range b)
{
    range r = {b.lo < 0 ? (b.lo == INT64_MIN ? INT64_MIN : b.lo + 1) : 0,
               b.hi == INT64_MAX ? INT64_MAX : st_max_i64(b.hi - 1, 0)};
    if (b.lo >= 0 && a.lo >= 0) {
        r.hi = st_min_i64(r.hi, a.hi);
    }
    return r;
}

/* v * w where INT64_MIN and INT64_MAX are infinite. */
static int64_t open_mul(int64_t v, int64_t w)
{
    if (v == 0 || w == 0) {
        return 0;
    }
    int64_t r = 0;
    const bool v_open = v == INT64_MIN || v == INT64_MAX;
    const bool w_open = w == INT64_MIN || w == INT64_MAX;
    if (v_open || w_open || !st_mul_i64(v, w, &r)) {
        return (v < 0) == (w < 0) ? INT64_MAX : INT64_MIN;
    }
    return r;
}

static range product_range(range a, range b)
{
    const int64_t c[4] = {open_mul(a.lo, b.lo), open_mul(a.lo, b.hi), open_mul(a.hi, b.lo),
                          open_mul(a.hi, b.hi)};
    return (range){st_min_i64(st_min_i64(c[0], c[1]), st_min_i64(c[2], c[3])),
                   st_max_i64(st_max_i64(c[0], c[1]), st_max_i64(c[2], c[3]))};
}

static range atom_range(const stator_atom_row *row, range a, range b)
{
    switch (row->kind) {
    case STATOR_ATOM_FLOORDIV:
        return quotient_range(a, b);
    case STATOR_ATOM_MOD:
        return mod_range(a, b);
    case STATOR_ATOM_PRODUCT:
        return product_range(a, b);
    case STATOR_ATOM_MIN:
        return (range){st_min_i64(a.lo, b.lo), st_min_i64(a.hi, b.hi)};
    default:
        return (range){st_max_i64(a.lo, b.lo), st_max_i64(a.hi, b.hi)};
    }
}

static int64_t atom_divisor(const st_symtab *tab, const stator_atom_row *row)
{
    const int64_t a = st_sym_divisor(tab, row->a);
    const int64_t b = st_sym_divisor(tab, row->b);
    int64_t c = 0;
    if (row->kind == STATOR_ATOM_FLOORDIV) {
        return st_sym_const(tab, row->b, &c) && c > 0 && a % c == 0 && a != 0 ? a / c : 1;
    }
    if (row->kind == STATOR_ATOM_PRODUCT) {
        return a > 0 && b > 0 ? (st_mul_i64(a, b, &c) ? c : st_max_i64(a, b)) : 1;
    }
    const int64_t g = (int64_t)st_gcd_u64((uint64_t)a, (uint64_t)b);
    return g > 0 ? g : 1;
}

void st_atom_facts(const st_symtab *tab, stator_atom_row *row)
{
    range a;
    range b;
    st_sym_range(tab, row->a, &a.lo, &a.hi);
    st_sym_range(tab, row->b, &b.lo, &b.hi);
    const range r = atom_range(row, a, b);
    row->lo = r.lo;
    row->hi = r.hi;
    row->divisor = atom_divisor(tab, row);
}

/* ---- proofs ---- */

/* d = b - a with every mod(x, y) written as x - y * floordiv(x, y); 0 when that exceeds a limit. */
static bool open_mods(st_symtab *tab, st_lin *d)
{
    for (uint32_t round = 0; round < ST_SYM_TERMS_MAX; round++) {
        uint32_t i = 0;
        while (i < d->count && st_atom_at(tab, d->terms[i].atom)->kind != STATOR_ATOM_MOD) {
            i++;
        }
        if (i == d->count) {
            return round != 0;
        }
        const stator_atom_row row = *st_atom_at(tab, d->terms[i].atom);
        const int64_t q = d->terms[i].coef;
        const uint32_t whole = st_sym_mul(tab, st_sym_floordiv(tab, row.a, row.b), row.b);
        int64_t minus_q = 0;
        st_lin_remove(d, i);
        if (whole == 0 || !st_sub_i64(0, q, &minus_q) || !st_lin_add_sym(tab, d, row.a, q) ||
            !st_lin_add_sym(tab, d, whole, minus_q)) {
            return false;
        }
    }
    return false;
}

static range both(range a, range b)
{
    return (range){st_max_i64(a.lo, b.lo), st_min_i64(a.hi, b.hi)};
}

/* Range of b - a; 0 when it cannot be formed. */
static bool difference(st_symtab *tab, uint32_t a, uint32_t b, range *out, st_lin *d)
{
    st_lin_set(d, 0);
    if (a == 0 || b == 0 || !st_lin_add_sym(tab, d, b, 1) || !st_lin_add_sym(tab, d, a, -1)) {
        return false;
    }
    st_lin_range(tab, d, ST_PROOF_STEPS, &out->lo, &out->hi);
    st_lin opened;
    st_lin_copy(&opened, d);
    if (out->lo <= 0 && out->hi >= 0 && out->lo != out->hi && open_mods(tab, &opened)) {
        range r;
        st_lin_range(tab, &opened, ST_PROOF_STEPS, &r.lo, &r.hi);
        *out = both(*out, r);
    }
    return true;
}

/* Are both plain integers? Their difference may leave 64 bits. */
static bool are_ints(const st_symtab *tab, uint32_t a, uint32_t b, int64_t *out_a, int64_t *out_b)
{
    return a != 0 && b != 0 && st_sym_const(tab, a, out_a) && st_sym_const(tab, b, out_b);
}

st_proof st_sym_eq(st_symtab *tab, uint32_t a, uint32_t b)
{
    range r;
    st_lin d;
    int64_t x = 0;
    int64_t y = 0;
    if (a == b && a != 0) {
        return ST_PROVED;
    }
    if (are_ints(tab, a, b, &x, &y)) {
        return st_proof_of(x == y);
    }
    if (!difference(tab, a, b, &r, &d)) {
        return ST_UNDECIDED;
    }
    if (r.lo > 0 || r.hi < 0) {
        return ST_DISPROVED;
    }
    if (r.lo == 0 && r.hi == 0) {
        return ST_PROVED;
    }
    const uint64_t g = st_lin_modulus(tab, &d);
    return g > 1 && st_abs_u64(d.constant) % g != 0 ? ST_DISPROVED : ST_UNDECIDED;
}

/* b - a >= least, where least is 0 or 1. */
static st_proof is_above(st_symtab *tab, uint32_t a, uint32_t b, int64_t least)
{
    range r;
    st_lin d;
    int64_t x = 0;
    int64_t y = 0;
    if (are_ints(tab, a, b, &x, &y)) {
        return st_proof_of(least == 0 ? x <= y : x < y);
    }
    if (!difference(tab, a, b, &r, &d)) {
        return ST_UNDECIDED;
    }
    return r.lo >= least ? ST_PROVED : r.hi < least ? ST_DISPROVED : ST_UNDECIDED;
}

st_proof st_sym_lt(st_symtab *tab, uint32_t a, uint32_t b)
{
    return is_above(tab, a, b, 1);
}

st_proof st_sym_le(st_symtab *tab, uint32_t a, uint32_t b)
{
    return is_above(tab, a, b, 0);
}
