/* Products, minimum and maximum of syms.
 *
 * A product distributes over sums, so a PRODUCT atom is a product of atoms: factors sorted by atom,
 * nested to the left, PRODUCT(PRODUCT(x, y), z), never more than ST_MONO_MAX of them. A factor that
 * is an exact division x/q gives its base x, and 1/q joins the coefficient. */
#include "core/base/sym/sym_lin.h"

#include "core/base/check.h"

/* ---- products ---- */

static bool add_factors(const st_symtab *tab, uint32_t atom, st_mono *mono)
{
    const stator_atom_row *row = st_atom_at(tab, atom);
    if (row->kind == STATOR_ATOM_PRODUCT) {
        return add_factors(tab, st_sym_single_atom(tab, row->a), mono) &&
               add_factors(tab, st_sym_single_atom(tab, row->b), mono);
    }
    if (mono->count == ST_MONO_MAX) {
        return false;
    }
    uint32_t i = mono->count++;
    while (i > 0 && mono->atoms[i - 1] > atom) {
        mono->atoms[i] = mono->atoms[i - 1];
        i--;
    }
    mono->atoms[i] = atom;
    return true;
}

bool st_mono_from_term(const st_symtab *tab, const stator_term_row *term, st_mono *out)
{
    int64_t q = 1;
    const uint32_t base = st_atom_base(tab, term->atom, &q);
    *out = (st_mono){.num = term->coef, .den = q};
    return add_factors(tab, base, out);
}

bool st_mono_mul(const st_mono *a, const st_mono *b, st_mono *out)
{
    *out = (st_mono){.num = 1, .den = 1};
    if (a->count + b->count > ST_MONO_MAX || !st_mul_i64(a->num, b->num, &out->num) ||
        !st_mul_i64(a->den, b->den, &out->den)) {
        return false;
    }
    uint32_t i = 0;
    uint32_t j = 0;
    while (i < a->count || j < b->count) {
        const bool from_a = j == b->count || (i < a->count && a->atoms[i] <= b->atoms[j]);
        out->atoms[out->count++] = from_a ? a->atoms[i++] : b->atoms[j++];
    }
    return true;
}

/* The atom of a product of one or more factors. */
static uint32_t product_atom(st_symtab *tab, const st_mono *mono)
{
    uint32_t atom = mono->atoms[0];
    for (uint32_t i = 1; i < mono->count && atom != 0; i++) {
        atom = st_atom_make(tab, STATOR_ATOM_PRODUCT, st_atom_sym(tab, atom),
                            st_atom_sym(tab, mono->atoms[i]));
    }
    return atom;
}

bool st_lin_add_mono(st_symtab *tab, st_lin *lin, const st_mono *mono)
{
    if (mono->num == 0) {
        return true;
    }
    const uint64_t g = st_gcd_u64(st_abs_u64(mono->num), (uint64_t)mono->den);
    const int64_t num = mono->num / (int64_t)g;
    const int64_t den = mono->den / (int64_t)g;
    if (mono->count == 0) {
        return den == 1 && st_lin_add_const(lin, num);
    }
    uint32_t atom = product_atom(tab, mono);
    if (atom != 0 && den != 1) {
        atom =
            st_atom_make(tab, STATOR_ATOM_FLOORDIV, st_atom_sym(tab, atom), st_sym_int(tab, den));
    }
    return atom != 0 && st_lin_add_term(lin, atom, num);
}

/* sum += x * b */
static bool add_term_times_sym(st_symtab *tab, st_lin *sum, const st_mono *x, uint32_t b)
{
    const stator_sym_row row = *st_sym_row_at(tab, b);
    const st_mono constant = {.num = row.constant, .den = 1};
    st_mono product;
    if (!st_mono_mul(x, &constant, &product) || !st_lin_add_mono(tab, sum, &product)) {
        return false;
    }
    for (uint32_t i = 0; i < row.term_count; i++) {
        st_mono y;
        if (!st_mono_from_term(tab, st_sym_term(tab, &row, i), &y) ||
            !st_mono_mul(x, &y, &product) || !st_lin_add_mono(tab, sum, &product)) {
            return false;
        }
    }
    return true;
}

uint32_t st_sym_mul(st_symtab *tab, uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0) {
        return 0;
    }
    st_lin sum;
    st_lin_set(&sum, 0);
    int64_t factor = 0;
    if (st_sym_const(tab, b, &factor)) {
        return st_lin_add_sym(tab, &sum, a, factor) ? st_lin_intern(tab, &sum) : 0;
    }
    if (st_sym_const(tab, a, &factor)) {
        return st_lin_add_sym(tab, &sum, b, factor) ? st_lin_intern(tab, &sum) : 0;
    }
    const stator_sym_row row = *st_sym_row_at(tab, a);
    const st_mono constant = {.num = row.constant, .den = 1};
    if (!add_term_times_sym(tab, &sum, &constant, b)) {
        return 0;
    }
    for (uint32_t i = 0; i < row.term_count; i++) {
        st_mono x;
        if (!st_mono_from_term(tab, st_sym_term(tab, &row, i), &x) ||
            !add_term_times_sym(tab, &sum, &x, b)) {
            return 0;
        }
    }
    return st_lin_intern(tab, &sum);
}

/* ---- minimum and maximum ---- */

/* Moves what both forms have (equal terms, the smaller constant) to `common`. */
static bool split_common(st_lin *a, st_lin *b, st_lin *common)
{
    const int64_t least = a->constant < b->constant ? a->constant : b->constant;
    st_lin_set(common, least);
    if (!st_sub_i64(a->constant, least, &a->constant) ||
        !st_sub_i64(b->constant, least, &b->constant)) {
        return false;
    }
    for (uint32_t i = a->count; i-- > 0;) {
        const stator_term_row t = a->terms[i];
        if (st_lin_coef(b, t.atom) == t.coef && t.coef != INT64_MIN) {
            if (!st_lin_add_term(common, t.atom, t.coef) || !st_lin_add_term(b, t.atom, -t.coef)) {
                return false;
            }
            st_lin_remove(a, i);
        }
    }
    return true;
}

static uint64_t content(const st_lin *lin)
{
    uint64_t g = st_abs_u64(lin->constant);
    for (uint32_t i = 0; i < lin->count; i++) {
        g = st_gcd_u64(g, st_abs_u64(lin->terms[i].coef));
    }
    return g;
}

static void divide(st_lin *lin, int64_t by)
{
    lin->constant /= by;
    for (uint32_t i = 0; i < lin->count; i++) {
        lin->terms[i].coef /= by;
    }
}

/* min(min(x, y), z) with z <= y is min(x, z), max likewise; 0 where z hides neither x nor y. */
static uint32_t without_hidden(st_symtab *tab, uint32_t kind, uint32_t nested, uint32_t z)
{
    const uint32_t atom = st_sym_single_atom(tab, nested);
    if (atom == 0 || st_atom_at(tab, atom)->kind != kind) {
        return 0;
    }
    const bool is_min = kind == STATOR_ATOM_MIN;
    const uint32_t parts[2] = {st_atom_at(tab, atom)->a, st_atom_at(tab, atom)->b};
    for (int i = 0; i < 2; i++) {
        const uint32_t hidden = parts[1 - i];
        if ((is_min ? st_sym_le(tab, z, hidden) : st_sym_le(tab, hidden, z)) == 1) {
            return is_min ? st_sym_min(tab, parts[i], z) : st_sym_max(tab, parts[i], z);
        }
    }
    return 0;
}

/* min or max of two syms whose order is not known. */
static uint32_t make_extremum(st_symtab *tab, uint32_t kind, uint32_t a, uint32_t b)
{
    st_lin x;
    st_lin y;
    st_lin common;
    st_lin_set(&x, 0);
    st_lin_set(&y, 0);
    if (!st_lin_add_sym(tab, &x, a, 1) || !st_lin_add_sym(tab, &y, b, 1) ||
        !split_common(&x, &y, &common)) {
        return 0;
    }
    uint64_t g = st_gcd_u64(content(&x), content(&y));
    g = g == 0 || g > INT64_MAX ? 1 : g;
    divide(&x, (int64_t)g);
    divide(&y, (int64_t)g);
    const bool x_is_const = x.count == 0;
    const bool y_is_const = y.count == 0;
    uint32_t p = st_lin_intern(tab, &x);
    uint32_t q = st_lin_intern(tab, &y);
    /* Without the common parts ranges may fit 64 bits that did not before. */
    const bool is_min = kind == STATOR_ATOM_MIN;
    if (p == 0 || q == 0) {
        return 0;
    }
    if (st_sym_le(tab, p, q) == 1 || st_sym_le(tab, q, p) == 1) {
        const bool first = (st_sym_le(tab, p, q) == 1) == is_min;
        return st_lin_add_sym(tab, &common, first ? p : q, (int64_t)g) ? st_lin_intern(tab, &common)
                                                                       : 0;
    }
    uint32_t flat = without_hidden(tab, kind, p, q);
    flat = flat != 0 ? flat : without_hidden(tab, kind, q, p);
    if (flat != 0) {
        return st_lin_add_sym(tab, &common, flat, (int64_t)g) ? st_lin_intern(tab, &common) : 0;
    }
    if (x_is_const || (p > q && !y_is_const)) { /* operands in order of age, an integer last */
        const uint32_t t = p;
        p = q;
        q = t;
    }
    const uint32_t atom = st_atom_make(tab, kind, p, q);
    return atom != 0 && st_lin_add_term(&common, atom, (int64_t)g) ? st_lin_intern(tab, &common)
                                                                   : 0;
}

uint32_t st_sym_min(st_symtab *tab, uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0) {
        return 0;
    }
    if (st_sym_le(tab, a, b) == 1) {
        return a;
    }
    if (st_sym_le(tab, b, a) == 1) {
        return b;
    }
    return make_extremum(tab, STATOR_ATOM_MIN, a, b);
}

uint32_t st_sym_max(st_symtab *tab, uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0) {
        return 0;
    }
    if (st_sym_le(tab, a, b) == 1) {
        return b;
    }
    if (st_sym_le(tab, b, a) == 1) {
        return a;
    }
    return make_extremum(tab, STATOR_ATOM_MAX, a, b);
}
