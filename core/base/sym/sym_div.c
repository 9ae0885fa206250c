/* Floor division and remainder of syms, by an integer; sym_poly.c divides by a sym.
 *
 * For c > 0: every term gives up its multiples of c (coefficients and constant of what stays lie in
 * [0, c)), terms known to be multiples of c are divided exactly, common factors are cancelled,
 * floordiv(floordiv(x, b) + r, c) becomes floordiv(x + b*r, b*c), what lies below a common factor
 * is dropped (floordiv(4*a + b, 8) = floordiv(a, 2) for 0 <= b < 4), a quotient that the range pins
 * down becomes an integer, and a bound is divided by itself, since rounding down keeps order:
 *
 *     floordiv(4*a + 2*b + 5, 4) = a + 1 + floordiv(b, 2)
 *     floordiv(max(a, 1) + 1, 2) = max(floordiv(a + 1, 2), 1)
 *
 * Rules after Graham, Knuth, Patashnik, "Concrete Mathematics", chapter 3. */
#include "core/base/sym/sym_lin.h"

#include "core/base/check.h"

#define ROUNDS 16u /* rewrites of one division; each but the last shrinks it */

static uint64_t coef_gcd(const st_lin *lin, uint64_t g)
{
    for (uint32_t i = 0; i < lin->count; i++) {
        g = st_gcd_u64(g, st_abs_u64(lin->terms[i].coef));
    }
    return g;
}

/* Is coef * atom always a multiple of c? Then *out is the quotient. */
static bool divides_term(const st_symtab *tab, const stator_term_row *t, int64_t c, st_mono *out)
{
    int64_t q = 1;
    const uint32_t base = st_atom_base(tab, t->atom, &q);
    int64_t den = 0;
    /* In 128 bits: a product past 64 must not hide a division that its rest would show again. */
    const __int128 all = (__int128)t->coef * st_atom_at(tab, base)->divisor;
    return st_mul_i64(q, c, &den) && all % den == 0 && st_mono_from_term(tab, t, out) &&
           st_mul_i64(out->den, c, &out->den);
}

/* r = q*c + r with the coefficients and constant of the new r in [0, c); q grows. */
static bool split(st_symtab *tab, st_lin *r, int64_t c, st_lin *q)
{
    if (!st_lin_add_const(q, st_floordiv(r->constant, c))) {
        return false;
    }
    r->constant = st_floormod(r->constant, c);
    for (uint32_t i = r->count; i-- > 0;) {
        const stator_term_row t = r->terms[i];
        st_mono quotient;
        if (divides_term(tab, &t, c, &quotient)) {
            if (!st_lin_add_mono(tab, q, &quotient)) {
                return false;
            }
            st_lin_remove(r, i);
            continue;
        }
        if (!st_lin_add_term(q, t.atom, st_floordiv(t.coef, c))) {
            return false;
        }
        r->terms[i].coef = st_floormod(t.coef, c);
    }
    return true;
}

/* floordiv(floordiv(x, b) + r, c) -> floordiv(x + b*r, b*c) when one division has coefficient 1.
 * Leaves everything as it is when numbers would overflow. */
static bool merge_nested(const st_symtab *tab, st_lin *r, int64_t *c)
{
    uint32_t found = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const stator_atom_row *row = st_atom_at(tab, r->terms[i].atom);
        int64_t b = 0;
        if (r->terms[i].coef == 1 && row->kind == STATOR_ATOM_FLOORDIV &&
            st_sym_const(tab, row->b, &b) && b > 0) {
            found = i;
            n++;
        }
    }
    if (n != 1) {
        return false;
    }
    const stator_atom_row *row = st_atom_at(tab, r->terms[found].atom);
    int64_t b = 0;
    int64_t bc = 0;
    st_sym_const(tab, row->b, &b);
    st_lin merged;
    st_lin_copy(&merged, r);
    st_lin_remove(&merged, found);
    if (!st_mul_i64(b, *c, &bc) || !st_lin_scale(&merged, b) ||
        !st_lin_add_sym(tab, &merged, row->a, 1)) {
        return false;
    }
    st_lin_copy(r, &merged);
    *c = bc;
    return true;
}

/* Cancels what all coefficients of r and c have in common; the constant rounds down, which floor
 * allows: floor((g*x + k) / (g*c)) = floor((x + floor(k/g)) / c). */
static void cancel(st_lin *r, int64_t *c)
{
    const int64_t g = (int64_t)coef_gcd(r, (uint64_t)*c);
    *c /= g;
    r->constant = st_floordiv(r->constant, g);
    for (uint32_t i = 0; i < r->count; i++) {
        r->terms[i].coef /= g;
    }
}

/* 1 when range(r) lies in one multiple of c: *out = floor(r / c). */
static bool fold_by_range(const st_symtab *tab, const st_lin *r, int64_t c, int64_t *out)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_lin_range(tab, r, ST_RANGE_STEPS, &lo, &hi);
    *out = st_floordiv(lo, c);
    return lo != INT64_MIN && hi != INT64_MAX && *out == st_floordiv(hi, c);
}

/* floordiv(r, c) into q + floordiv(r', c'), all of r' needed. r->count 0 when nothing is left. */
static bool reduce_division(st_symtab *tab, st_lin *r, int64_t *c, st_lin *q)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bool changed = false;
        if (!st_lin_canon(tab, r, &changed) || !split(tab, r, *c, q)) {
            return false;
        }
        cancel(r, c);
        if (*c == 1) {
            const bool ok = st_lin_add_lin(q, r, 1);
            st_lin_set(r, 0);
            return ok;
        }
        if (r->count == 0) {
            return true;
        }
        if (merge_nested(tab, r, c)) {
            continue;
        }
        if (!st_lin_canon(tab, r, &changed)) {
            return false;
        }
        if (!changed) {
            return true;
        }
    }
    return true;
}

/* r = g*r' + rest with g a divisor of *c and 0 <= rest < g: the rest changes no quotient by *c, and
 * r and *c become r' and *c / g. Takes the largest such g; *out_g is 1 when there is none. */
static bool drop_rest(const st_symtab *tab, st_lin *r, int64_t *c, st_lin *rest, int64_t *out_g)
{
    *out_g = 1;
    for (uint32_t i = 0; i < r->count; i++) {
        const int64_t g = (int64_t)st_gcd_u64((uint64_t)*c, st_abs_u64(r->terms[i].coef));
        int64_t lo = 0;
        int64_t hi = 0;
        st_lin part;
        if (g <= *out_g) {
            continue;
        }
        st_lin_copy(&part, r);
        for (uint32_t k = part.count; k-- > 0;) {
            if (part.terms[k].coef % g == 0) {
                st_lin_remove(&part, k);
            }
        }
        part.constant = st_floormod(part.constant, g);
        st_lin_range(tab, &part, ST_RANGE_STEPS, &lo, &hi);
        if (lo >= 0 && hi < g) {
            st_lin_copy(rest, &part);
            *out_g = g;
        }
    }
    if (*out_g == 1) {
        return true;
    }
    if (!st_lin_add_lin(r, rest, -1)) {
        return false;
    }
    cancel(r, c);
    return true;
}

/* floordiv(max(x, n) + k, c) = max(floordiv(x + k, c), floordiv(n + k, c)) for integers n and k,
 * min likewise; 0 where r is no such form. */
static uint32_t divide_bounded(st_symtab *tab, const st_lin *r, int64_t c)
{
    if (r->count != 1 || r->terms[0].coef != 1) {
        return 0;
    }
    const stator_atom_row row = *st_atom_at(tab, r->terms[0].atom);
    int64_t bound = 0;
    if ((row.kind != STATOR_ATOM_MIN && row.kind != STATOR_ATOM_MAX) ||
        !st_sym_const(tab, row.b, &bound)) {
        return 0;
    }
    const uint32_t k = st_sym_int(tab, r->constant);
    const uint32_t by = st_sym_int(tab, c);
    const uint32_t x = st_sym_floordiv(tab, st_sym_add(tab, row.a, k), by);
    const uint32_t n = st_sym_floordiv(tab, st_sym_add(tab, row.b, k), by);
    return row.kind == STATOR_ATOM_MIN ? st_sym_min(tab, x, n) : st_sym_max(tab, x, n);
}

/* floordiv(a, c) for c > 0. 0: limit. */
static uint32_t div_int(st_symtab *tab, const st_lin *a, int64_t c)
{
    st_lin q;
    st_lin r;
    st_lin_set(&q, 0);
    st_lin_copy(&r, a);
    int64_t folded = 0;
    int64_t unused = 1;
    st_lin rest;
    if (!reduce_division(tab, &r, &c, &q) || !drop_rest(tab, &r, &c, &rest, &unused)) {
        return 0;
    }
    if (r.count != 0) {
        if (fold_by_range(tab, &r, c, &folded)) {
            return st_lin_add_const(&q, folded) ? st_lin_intern(tab, &q) : 0;
        }
        const uint32_t bounded = divide_bounded(tab, &r, c);
        if (bounded != 0) {
            return st_lin_add_sym(tab, &q, bounded, 1) ? st_lin_intern(tab, &q) : 0;
        }
        const uint32_t atom =
            st_atom_make(tab, STATOR_ATOM_FLOORDIV, st_lin_intern(tab, &r), st_sym_int(tab, c));
        if (atom == 0 || !st_lin_add_term(&q, atom, 1)) {
            return 0;
        }
    }
    return st_lin_intern(tab, &q);
}

/* k * mod(x, m) counts as k * x modulo c when c divides k * m. */
static bool open_mods(const st_symtab *tab, st_lin *r, int64_t c, bool *out_changed)
{
    *out_changed = false;
    for (uint32_t i = 0; i < r->count; i++) {
        const stator_term_row t = r->terms[i];
        const stator_atom_row *row = st_atom_at(tab, t.atom);
        int64_t m = 0;
        int64_t km = 0;
        if (row->kind == STATOR_ATOM_MOD && st_sym_const(tab, row->b, &m) &&
            st_mul_i64(t.coef, m, &km) && km % c == 0) {
            st_lin_remove(r, i);
            *out_changed = true;
            return st_lin_add_sym(tab, r, row->a, t.coef);
        }
    }
    return true;
}

/* r modulo c, reduced: coefficients in [0, c), no multiples of c. */
static bool reduce_mod(st_symtab *tab, st_lin *r, int64_t c)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        st_lin unused;
        st_lin_set(&unused, 0);
        bool changed = false;
        bool opened = false;
        if (!split(tab, r, c, &unused) || !open_mods(tab, r, c, &opened) ||
            !st_lin_canon(tab, r, &changed)) {
            return false;
        }
        if (!opened && !changed) {
            return true;
        }
    }
    return true;
}

/* mod(a, c) for c > 0. 0: limit. */
static uint32_t mod_int(st_symtab *tab, const st_lin *a, int64_t c)
{
    st_lin r;
    st_lin_copy(&r, a);
    if (!reduce_mod(tab, &r, c)) {
        return 0;
    }
    /* mod(g*x + g*k + k0, g*c) = g * mod(x + k, c) + k0 */
    const int64_t g = (int64_t)coef_gcd(&r, (uint64_t)c);
    const int64_t rest = st_floormod(r.constant, g);
    cancel(&r, &c);
    st_lin sum;
    st_lin_set(&sum, rest);
    int64_t folded = 0;
    int64_t shift = 0;
    if (r.count == 0 || c == 1) {
        r.constant = c == 1 ? 0 : st_floormod(r.constant, c);
        return st_sym_int(tab, r.constant * g + rest);
    }
    if (fold_by_range(tab, &r, c, &folded)) {
        const bool ok = st_mul_i64(folded, -c, &shift) && st_lin_add_const(&r, shift) &&
                        st_lin_add_lin(&sum, &r, g);
        return ok ? st_lin_intern(tab, &sum) : 0;
    }
    /* mod(h*x + y, h*c) = h * mod(x, c) + y where 0 <= y < h */
    st_lin low;
    int64_t h = 1;
    int64_t factor = 0;
    st_lin_set(&low, 0);
    if (!drop_rest(tab, &r, &c, &low, &h) || !st_lin_add_lin(&sum, &low, g) ||
        !st_mul_i64(g, h, &factor)) {
        return 0;
    }
    const uint32_t atom =
        st_atom_make(tab, STATOR_ATOM_MOD, st_lin_intern(tab, &r), st_sym_int(tab, c));
    return atom != 0 && st_lin_add_term(&sum, atom, factor) ? st_lin_intern(tab, &sum) : 0;
}

/* ---- public ---- */

/* Is b an integer by which one divides? Then *out is a, negated where b is, and *out_c is |b|. */
static bool is_by_int(const st_symtab *tab, uint32_t a, uint32_t b, st_lin *out, int64_t *out_c)
{
    int64_t c = 0;
    st_lin_set(out, 0);
    if (!st_sym_const(tab, b, &c) || c == 0 || c == INT64_MIN) {
        return false;
    }
    *out_c = c < 0 ? -c : c;
    return st_lin_add_sym(tab, out, a, c < 0 ? -1 : 1);
}

uint32_t st_sym_floordiv(st_symtab *tab, uint32_t a, uint32_t b)
{
    int64_t c = 0;
    st_lin lin;
    if (a == 0 || b == 0) {
        return 0;
    }
    if (!st_sym_const(tab, b, &c)) {
        return st_sym_div_sym(tab, a, b);
    }
    return is_by_int(tab, a, b, &lin, &c) ? div_int(tab, &lin, c) : 0;
}

uint32_t st_sym_ceildiv(st_symtab *tab, uint32_t a, uint32_t b)
{
    int64_t c = 0;
    if (b != 0 && st_sym_const(tab, b, &c) && c > 0) {
        return st_sym_floordiv(tab, st_sym_add(tab, a, st_sym_int(tab, c - 1)), b);
    }
    const uint32_t minus_one = st_sym_int(tab, -1);
    return st_sym_mul(tab, st_sym_floordiv(tab, st_sym_mul(tab, a, minus_one), b), minus_one);
}

uint32_t st_sym_mod(st_symtab *tab, uint32_t a, uint32_t b)
{
    int64_t c = 0;
    int64_t size = 0;
    st_lin lin;
    if (a == 0 || b == 0) {
        return 0;
    }
    if (!st_sym_const(tab, b, &c)) {
        return st_sym_mod_sym(tab, a, b);
    }
    /* mod(a, -c) = -mod(-a, c) */
    const uint32_t rest = is_by_int(tab, a, b, &lin, &size) ? mod_int(tab, &lin, size) : 0;
    return c < 0 ? st_sym_mul(tab, rest, st_sym_int(tab, -1)) : rest;
}
