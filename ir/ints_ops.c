/* Symbolic contents, one rule per op: arithmetic, comparison and movement of small tensors.
 *
 * A rule fills the elements it can tell; an element stays unknown (sym 0) when an operand is
 * unknown, when a limit of the symbolic engine is met, or when an order that it needs is not
 * proved. Integer division truncates toward zero, as the ops do. */
#include "core/base/check.h"
#include "ir/ints.h"
#include <stator/ops.h>
#include <string.h>

static const st_int_elem UNKNOWN = {0, 0};

static st_symtab *tab_of(const st_ints_eval *at)
{
    return &at->b->module->symtab;
}

static bool is_float(const st_ints *t)
{
    return st_dtype_class(t->dtype) == STATOR_CLASS_FLOAT;
}

/* sym / den with the fraction cut down by what both are known to be multiples of. */
static st_int_elem make(const st_ints_eval *at, stator_ref sym, uint64_t den)
{
    if (sym == 0 || den == 0 || den > UINT32_MAX) {
        return UNKNOWN;
    }
    int64_t c = 0;
    uint64_t a = den;
    uint64_t b = st_sym_const(tab_of(at), sym, &c) ? (c < 0 ? 0 - (uint64_t)c : (uint64_t)c)
                                                   : (uint64_t)st_sym_divisor(tab_of(at), sym);
    while (b != 0) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    if (a > 1) {
        sym = st_sym_floordiv(tab_of(at), sym, st_sym_int(tab_of(at), (int64_t)a));
    }
    return sym != 0 ? (st_int_elem){sym, (uint32_t)(den / a)} : UNKNOWN;
}

static stator_ref scaled(const st_ints_eval *at, stator_ref sym, int64_t k)
{
    return k == 1 ? sym : st_sym_mul(tab_of(at), sym, st_sym_int(tab_of(at), k));
}

static bool is_nonneg(const st_ints_eval *at, stator_ref sym)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(tab_of(at), sym, &lo, &hi);
    return lo >= 0;
}

static bool is_positive(const st_ints_eval *at, stator_ref sym)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(tab_of(at), sym, &lo, &hi);
    return lo > 0;
}

/* Is x / y above -1, so that truncating it gives 0 or what rounding down gives? */
static bool is_above_minus(const st_ints_eval *at, stator_ref x, stator_ref y)
{
    return st_sym_lt(tab_of(at), scaled(at, y, -1), x) == 1;
}

/* x / y truncated toward zero, y > 0; 0: not known. Where x may be negative but is above -y, as
 * a size less one is, it is max(floordiv(x, y), 0). Of any other x whose sign is not known it is
 * the quotient of what is above zero less that of what is below. In an import under the ranges
 * of a call these go on: max(x, 0) divides a range in two, and the call's size tells in which
 * half it lies (reinfer.h). In one for all sizes they would only grow past the limits. */
static stator_ref truncated_quotient(const st_ints_eval *at, stator_ref x, stator_ref y)
{
    st_symtab *tab = tab_of(at);
    const stator_ref zero = st_sym_int(tab, 0);
    if (is_nonneg(at, x)) {
        return st_sym_floordiv(tab, x, y);
    }
    if (is_above_minus(at, x, y)) {
        return st_sym_max(tab, st_sym_floordiv(tab, x, y), zero);
    }
    if (at->b->module->plan == NULL) {
        return 0;
    }
    const stator_ref above = st_sym_max(tab, x, zero);
    const stator_ref below = st_sym_max(tab, scaled(at, x, -1), zero);
    return st_sym_sub(tab, st_sym_floordiv(tab, above, y), st_sym_floordiv(tab, below, y));
}

/* ---- scalar rules: two operands ---- */

typedef st_int_elem (*binary_fn)(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats);

static st_int_elem add(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    const stator_ref a = scaled(at, x.sym, y.den);
    const stator_ref b = scaled(at, y.sym, x.den);
    return a == 0 || b == 0 ? UNKNOWN
                            : make(at, st_sym_add(tab_of(at), a, b), (uint64_t)x.den * y.den);
}

static st_int_elem sub(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    const stator_ref a = scaled(at, x.sym, y.den);
    const stator_ref b = scaled(at, y.sym, x.den);
    return a == 0 || b == 0 ? UNKNOWN
                            : make(at, st_sym_sub(tab_of(at), a, b), (uint64_t)x.den * y.den);
}

static st_int_elem mul(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return make(at, st_sym_mul(tab_of(at), x.sym, y.sym), (uint64_t)x.den * y.den);
}

static st_int_elem int_div(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    int64_t a = 0;
    int64_t b = 0;
    if (st_int_is_const(at, y, &b) && b == 0) {
        return st_int_const(at, 0);
    }
    if (st_int_is_const(at, x, &a) && st_int_is_const(at, y, &b)) {
        return a == INT64_MIN && b == -1 ? UNKNOWN : st_int_const(at, a / b);
    }
    if (x.sym == y.sym && is_positive(at, x.sym)) {
        return st_int_const(at, 1);
    }
    return is_positive(at, y.sym) ? make(at, truncated_quotient(at, x.sym, y.sym), 1) : UNKNOWN;
}

static st_int_elem quotient(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    int64_t b = 0;
    if (!floats) {
        return int_div(at, x, y);
    }
    if (x.sym == y.sym && x.den == y.den && is_positive(at, x.sym)) {
        return st_int_const(at, 1);
    }
    if (!st_sym_const(tab_of(at), y.sym, &b) || b <= 0) {
        return UNKNOWN;
    }
    uint64_t den = 0;
    return st_mul_u64(x.den, (uint64_t)b, &den) ? make(at, scaled(at, x.sym, y.den), den) : UNKNOWN;
}

static st_int_elem modulo(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    int64_t b = 0;
    if (floats || x.den != 1 || y.den != 1) {
        return UNKNOWN;
    }
    if (st_int_is_const(at, y, &b) && b == 0) {
        return st_int_const(at, 0);
    }
    int64_t a = 0;
    if (b < 0 && st_int_is_const(at, x, &a)) {
        return b == -1 ? st_int_const(at, 0) : st_int_const(at, st_floormod(a, b));
    }
    return is_positive(at, y.sym) ? make(at, st_sym_mod(tab_of(at), x.sym, y.sym), 1) : UNKNOWN;
}

static st_int_elem remainder_of(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    int64_t a = 0;
    int64_t b = 0;
    if (!floats && st_int_is_const(at, x, &a) && st_int_is_const(at, y, &b)) {
        return st_int_const(at, b == 0 || b == -1 ? 0 : a % b);
    }
    return is_nonneg(at, x.sym) ? modulo(at, x, y, floats) : UNKNOWN;
}

static st_int_elem least(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return x.den == y.den ? make(at, st_sym_min(tab_of(at), x.sym, y.sym), x.den) : UNKNOWN;
}

static st_int_elem most(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return x.den == y.den ? make(at, st_sym_max(tab_of(at), x.sym, y.sym), x.den) : UNKNOWN;
}

/* A proof's answer as a bool element. */
static st_int_elem truth(const st_ints_eval *at, st_proof answer)
{
    return answer == ST_UNDECIDED ? UNKNOWN : st_int_const(at, answer);
}

static st_int_elem is_eq(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return x.den == y.den ? truth(at, st_sym_eq(tab_of(at), x.sym, y.sym)) : UNKNOWN;
}

static st_int_elem is_ne(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return x.den == y.den ? truth(at, st_proof_not(st_sym_eq(tab_of(at), x.sym, y.sym))) : UNKNOWN;
}

static st_int_elem is_lt(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return x.den == y.den ? truth(at, st_sym_lt(tab_of(at), x.sym, y.sym)) : UNKNOWN;
}

static st_int_elem is_le(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    return x.den == y.den ? truth(at, st_sym_le(tab_of(at), x.sym, y.sym)) : UNKNOWN;
}

static st_int_elem is_gt(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    return is_lt(at, y, x, floats);
}

static st_int_elem is_ge(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    return is_le(at, y, x, floats);
}

static st_int_elem both(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    int64_t a = 0;
    int64_t b = 0;
    return st_int_is_const(at, x, &a) && st_int_is_const(at, y, &b) ? st_int_const(at, a & b)
                                                                    : UNKNOWN;
}

static st_int_elem either(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    (void)floats;
    int64_t a = 0;
    int64_t b = 0;
    return st_int_is_const(at, x, &a) && st_int_is_const(at, y, &b) ? st_int_const(at, a | b)
                                                                    : UNKNOWN;
}

static st_int_elem power(const st_ints_eval *at, st_int_elem x, st_int_elem y, bool floats)
{
    int64_t n = 0;
    if (!st_int_is_const(at, y, &n) || n < 0 || n > 16) {
        return UNKNOWN;
    }
    st_int_elem r = st_int_const(at, 1);
    for (int64_t i = 0; i < n && r.sym != 0; i++) {
        r = mul(at, r, x, floats);
    }
    return r;
}

/* ---- scalar rules: one operand ---- */

typedef st_int_elem (*unary_fn)(const st_ints_eval *at, st_int_elem x);

static st_int_elem negated(const st_ints_eval *at, st_int_elem x)
{
    return make(at, scaled(at, x.sym, -1), x.den);
}

static st_int_elem absolute(const st_ints_eval *at, st_int_elem x)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(tab_of(at), x.sym, &lo, &hi);
    return lo >= 0 ? x : hi <= 0 ? negated(at, x) : UNKNOWN;
}

static st_int_elem floored(const st_ints_eval *at, st_int_elem x)
{
    return x.den == 1
               ? x
               : make(at, st_sym_floordiv(tab_of(at), x.sym, st_sym_int(tab_of(at), x.den)), 1);
}

static st_int_elem ceiled(const st_ints_eval *at, st_int_elem x)
{
    return x.den == 1
               ? x
               : make(at, st_sym_ceildiv(tab_of(at), x.sym, st_sym_int(tab_of(at), x.den)), 1);
}

static st_int_elem truncated(const st_ints_eval *at, st_int_elem x)
{
    return x.den == 1 ? x
                      : make(at, truncated_quotient(at, x.sym, st_sym_int(tab_of(at), x.den)), 1);
}

static st_int_elem only_integer(const st_ints_eval *at, st_int_elem x)
{
    (void)at;
    return x.den == 1 ? x : UNKNOWN;
}

static st_int_elem squared(const st_ints_eval *at, st_int_elem x)
{
    return mul(at, x, x, false);
}

static st_int_elem not_bool(const st_ints_eval *at, st_int_elem x)
{
    int64_t c = 0;
    return st_int_is_const(at, x, &c) && (c == 0 || c == 1) ? st_int_const(at, !c) : UNKNOWN;
}

/* ---- walking ---- */

/* Row-major coordinates of element i. */
static void coords_of(const st_ints *t, uint32_t i, int64_t *out)
{
    for (uint32_t a = t->rank; a > 0; a--) {
        out[a - 1] = i % (uint32_t)t->dims[a - 1];
        i /= (uint32_t)t->dims[a - 1];
    }
}

static uint32_t place_of(const st_ints *t, const int64_t *coords)
{
    int64_t i = 0;
    for (uint32_t a = 0; a < t->rank; a++) {
        i = i * t->dims[a] + coords[a];
    }
    return (uint32_t)i;
}

/* The element of `from` that broadcasts to out's element i. */
static st_int_elem broadcast_elem(const st_ints *out, uint32_t i, const st_ints *from)
{
    int64_t at[STATOR_RANK_MAX] = {0};
    int64_t in[STATOR_RANK_MAX] = {0};
    coords_of(out, i, at);
    for (uint32_t a = 0; a < from->rank; a++) {
        in[a] = from->dims[a] == 1 ? 0 : at[out->rank - from->rank + a];
    }
    return from->e[place_of(from, in)];
}

static bool apply_unary(const st_ints_eval *at, st_ints *out, unary_fn fn)
{
    st_ints x;
    if (!st_ints_operand(at, 0, &x)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->e[i] = x.e[i].sym != 0 ? fn(at, x.e[i]) : UNKNOWN;
    }
    return true;
}

static bool apply_binary(const st_ints_eval *at, st_ints *out, binary_fn fn)
{
    st_ints x;
    st_ints y;
    if (!st_ints_operand(at, 0, &x) || !st_ints_operand(at, 1, &y)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        const st_int_elem a = broadcast_elem(out, i, &x);
        const st_int_elem b = broadcast_elem(out, i, &y);
        out->e[i] = a.sym != 0 && b.sym != 0 ? fn(at, a, b, is_float(&x)) : UNKNOWN;
    }
    return true;
}

#define UNARY(name_, fn_)                                                                          \
    static bool rule_##name_(const st_ints_eval *at, st_ints *out)                                 \
    {                                                                                              \
        return apply_unary(at, out, fn_);                                                          \
    }
#define BINARY(name_, fn_)                                                                         \
    static bool rule_##name_(const st_ints_eval *at, st_ints *out)                                 \
    {                                                                                              \
        return apply_binary(at, out, fn_);                                                         \
    }
UNARY(neg, negated)
UNARY(abs, absolute)
UNARY(floor, floored)
UNARY(ceil, ceiled)
UNARY(trunc, truncated)
UNARY(round, only_integer)
UNARY(square, squared)
BINARY(add, add)
BINARY(sub, sub)
BINARY(mul, mul)
BINARY(div, quotient)
BINARY(mod, modulo)
BINARY(rem, remainder_of)
BINARY(min, least)
BINARY(max, most)
BINARY(eq, is_eq)
BINARY(ne, is_ne)
BINARY(lt, is_lt)
BINARY(le, is_le)
BINARY(gt, is_gt)
BINARY(ge, is_ge)
BINARY(bit_and, both)
BINARY(bit_or, either)
BINARY(pow, power)
#undef UNARY
#undef BINARY

static bool rule_bit_not(const st_ints_eval *at, st_ints *out)
{
    return out->dtype == STATOR_BOOL && apply_unary(at, out, not_bool);
}

static bool rule_cast(const st_ints_eval *at, st_ints *out)
{
    st_ints x;
    if (!st_ints_operand(at, 0, &x)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t c = 0;
        if (x.e[i].sym == 0) {
            continue;
        }
        if (out->dtype == STATOR_BOOL) {
            out->e[i] = st_sym_const(tab_of(at), x.e[i].sym, &c) ? st_int_const(at, c != 0)
                        : is_positive(at, x.e[i].sym)            ? st_int_const(at, 1)
                                                                 : UNKNOWN;
        } else {
            out->e[i] = is_float(out) ? x.e[i] : truncated(at, x.e[i]);
        }
    }
    return true;
}

static bool rule_select(const st_ints_eval *at, st_ints *out)
{
    st_ints c;
    st_ints x;
    st_ints y;
    if (!st_ints_operand(at, 0, &c)) {
        return false;
    }
    const bool has_x = st_ints_operand(at, 1, &x);
    const bool has_y = st_ints_operand(at, 2, &y);
    bool any = false;
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t flag = 0;
        if (!st_int_is_const(at, broadcast_elem(out, i, &c), &flag)) {
            continue;
        }
        const bool is_there = flag ? has_x : has_y;
        out->e[i] = is_there ? broadcast_elem(out, i, flag ? &x : &y) : UNKNOWN;
        any |= out->e[i].sym != 0;
    }
    return any;
}

static bool rule_clamp(const st_ints_eval *at, st_ints *out)
{
    st_ints x;
    st_ints bound;
    if (!st_ints_operand(at, 0, &x)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->e[i] = broadcast_elem(out, i, &x);
    }
    for (uint32_t k = 1; k <= 2; k++) {
        if (stator_operand(at->v, at->node, k) == 0) {
            continue;
        }
        if (!st_ints_operand(at, k, &bound)) {
            return false;
        }
        for (uint32_t i = 0; i < out->n; i++) {
            const st_int_elem b = broadcast_elem(out, i, &bound);
            const st_int_elem e = out->e[i];
            out->e[i] = e.sym == 0 || b.sym == 0 ? UNKNOWN
                        : k == 1                 ? most(at, e, b, false)
                                                 : least(at, e, b, false);
        }
    }
    return true;
}

/* ---- sources ---- */

static const stator_attr_row *attr_at(const st_ints_eval *at, uint32_t place)
{
    return stator_attr_at(at->v, at->node, place);
}

static bool rule_dims(const st_ints_eval *at, st_ints *out)
{
    const stator_attr_row *values = attr_at(at, STATOR_dims_values);
    if (values->count != out->n) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->e[i] = (st_int_elem){stator_ref_at(at->v, values->begin + i), 1};
    }
    return true;
}

static bool rule_sym_bind(const st_ints_eval *at, st_ints *out)
{
    const stator_attr_row *syms = attr_at(at, STATOR_sym_bind_syms);
    st_ints x;
    const bool is_known = st_ints_operand(at, 0, &x);
    for (uint32_t i = 0; i < out->n && i < syms->count; i++) {
        out->e[i] = is_known && x.e[i].sym != 0
                        ? x.e[i]
                        : (st_int_elem){stator_ref_at(at->v, syms->begin + i), 1};
    }
    return true;
}

static bool rule_iota(const st_ints_eval *at, st_ints *out)
{
    const int64_t axis = attr_at(at, STATOR_iota_axis)->i;
    const int64_t place = axis < 0 ? axis + out->rank : axis;
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t coords[STATOR_RANK_MAX] = {0};
        coords_of(out, i, coords);
        out->e[i] = st_int_const(at, coords[place]);
    }
    return true;
}

/* ---- movement ---- */

static bool rule_reshape(const st_ints_eval *at, st_ints *out)
{
    st_ints x;
    if (!st_ints_operand(at, 0, &x) || x.n != out->n) {
        return false;
    }
    memcpy(out->e, x.e, sizeof out->e);
    return true;
}

static bool rule_expand(const st_ints_eval *at, st_ints *out)
{
    st_ints x;
    if (!st_ints_operand(at, 0, &x)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->e[i] = broadcast_elem(out, i, &x);
    }
    return true;
}

static int64_t int_at(const st_ints_eval *at, const stator_attr_row *list, uint32_t i)
{
    return stator_attr_int_at(at->v, list, i);
}

static bool rule_transpose(const st_ints_eval *at, st_ints *out)
{
    const stator_attr_row *perm = attr_at(at, STATOR_transpose_perm);
    st_ints x;
    if (!st_ints_operand(at, 0, &x)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t coords[STATOR_RANK_MAX] = {0};
        int64_t in[STATOR_RANK_MAX] = {0};
        coords_of(out, i, coords);
        for (uint32_t a = 0; a < out->rank && a < perm->count; a++) {
            const int64_t p = int_at(at, perm, a);
            in[p < 0 ? p + out->rank : p] = coords[a];
        }
        out->e[i] = x.e[place_of(&x, in)];
    }
    return true;
}

static bool rule_slice(const st_ints_eval *at, st_ints *out)
{
    const stator_attr_row *starts = attr_at(at, STATOR_slice_starts);
    const stator_attr_row *steps = attr_at(at, STATOR_slice_steps);
    int64_t start[STATOR_RANK_MAX] = {0};
    st_ints x;
    if (!st_ints_operand(at, 0, &x) || starts->count != x.rank || steps->count != x.rank) {
        return false;
    }
    for (uint32_t a = 0; a < x.rank; a++) {
        if (!stator_sym_is_const(at->v, stator_ref_at(at->v, starts->begin + a), &start[a])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t coords[STATOR_RANK_MAX] = {0};
        coords_of(out, i, coords);
        for (uint32_t a = 0; a < x.rank; a++) {
            coords[a] = start[a] + coords[a] * int_at(at, steps, a);
            if (coords[a] < 0 || coords[a] >= x.dims[a]) {
                return false;
            }
        }
        out->e[i] = x.e[place_of(&x, coords)];
    }
    return true;
}

static uint32_t axis_of(const stator_attr_row *attr, uint32_t rank)
{
    return (uint32_t)(attr->i < 0 ? attr->i + rank : attr->i);
}

static bool rule_concat(const st_ints_eval *at, st_ints *out)
{
    const uint32_t axis = axis_of(attr_at(at, STATOR_concat_axis), out->rank);
    int64_t offset = 0;
    bool any = false;
    for (uint32_t k = 0; k < at->node->operand_count; k++) {
        st_ints x;
        const stator_type_row *type = stator_value_type(at->v, stator_operand(at->v, at->node, k));
        int64_t size = 0;
        if (axis >= out->rank ||
            !stator_sym_is_const(at->v, stator_dim_at(at->v, type, axis), &size)) {
            return false;
        }
        const bool is_known = st_ints_operand(at, k, &x);
        for (uint32_t i = 0; is_known && i < x.n; i++) {
            int64_t coords[STATOR_RANK_MAX] = {0};
            coords_of(&x, i, coords);
            coords[axis] += offset;
            out->e[place_of(out, coords)] = x.e[i];
        }
        any |= is_known;
        offset += size;
    }
    return any;
}

/* The constant index e brought into [0, size). */
static bool index_of(const st_ints_eval *at, st_int_elem e, int64_t size, int64_t *out)
{
    if (!st_int_is_const(at, e, out)) {
        return false;
    }
    *out += *out < 0 ? size : 0;
    return *out >= 0 && *out < size;
}

static bool rule_gather(const st_ints_eval *at, st_ints *out)
{
    st_ints x;
    st_ints index;
    if (!st_ints_operand(at, 0, &x) || !st_ints_operand(at, 1, &index)) {
        return false;
    }
    const uint32_t axis = axis_of(attr_at(at, STATOR_gather_axis), x.rank);
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t coords[STATOR_RANK_MAX] = {0};
        int64_t in[STATOR_RANK_MAX] = {0};
        coords_of(out, i, coords);
        for (uint32_t a = 0; a < x.rank; a++) {
            in[a] = a == axis ? 0 : coords[a < axis ? a : a + index.rank - 1u];
        }
        if (index_of(at, index.e[place_of(&index, coords + axis)], x.dims[axis], &in[axis])) {
            out->e[i] = x.e[place_of(&x, in)];
        }
    }
    return true;
}

static bool rule_gather_elements(const st_ints_eval *at, st_ints *out)
{
    st_ints x;
    st_ints index;
    if (!st_ints_operand(at, 0, &x) || !st_ints_operand(at, 1, &index)) {
        return false;
    }
    const uint32_t axis = axis_of(attr_at(at, STATOR_gather_elements_axis), x.rank);
    for (uint32_t i = 0; i < out->n; i++) {
        int64_t coords[STATOR_RANK_MAX] = {0};
        coords_of(out, i, coords);
        if (index_of(at, index.e[i], x.dims[axis], &coords[axis])) {
            out->e[i] = x.e[place_of(&x, coords)];
        }
    }
    return true;
}

/* ---- reductions ---- */

static bool reduce(const st_ints_eval *at, st_ints *out, binary_fn fn, int64_t identity,
                   bool has_identity)
{
    const stator_attr_row *axes = attr_at(at, STATOR_reduce_sum_axes);
    const bool keepdims = attr_at(at, STATOR_reduce_sum_keepdims)->i != 0;
    uint32_t set = 0;
    st_ints x;
    bool seen[ST_INTS_MAX] = {false};
    if (!st_ints_operand(at, 0, &x)) {
        return false;
    }
    for (uint32_t i = 0; i < axes->count; i++) {
        const int64_t axis = int_at(at, axes, i);
        set |= 1u << (axis < 0 ? axis + x.rank : axis);
    }
    for (uint32_t i = 0; has_identity && i < out->n; i++) {
        out->e[i] = st_int_const(at, identity);
        seen[i] = true;
    }
    for (uint32_t i = 0; i < x.n; i++) {
        int64_t coords[STATOR_RANK_MAX] = {0};
        int64_t to[STATOR_RANK_MAX] = {0};
        uint32_t rank = 0;
        coords_of(&x, i, coords);
        for (uint32_t a = 0; a < x.rank; a++) {
            const bool is_reduced = (set >> a & 1u) != 0;
            if (!is_reduced || keepdims) {
                to[rank++] = is_reduced ? 0 : coords[a];
            }
        }
        const uint32_t p = place_of(out, to);
        const st_int_elem e = out->e[p];
        out->e[p] = !seen[p]                        ? x.e[i]
                    : e.sym == 0 || x.e[i].sym == 0 ? UNKNOWN
                                                    : fn(at, e, x.e[i], is_float(&x));
        seen[p] = true;
    }
    return true;
}

static bool rule_reduce_sum(const st_ints_eval *at, st_ints *out)
{
    return reduce(at, out, add, 0, true);
}

static bool rule_reduce_prod(const st_ints_eval *at, st_ints *out)
{
    return reduce(at, out, mul, 1, true);
}

static bool rule_reduce_min(const st_ints_eval *at, st_ints *out)
{
    return reduce(at, out, least, 0, false);
}

static bool rule_reduce_max(const st_ints_eval *at, st_ints *out)
{
    return reduce(at, out, most, 0, false);
}

/* ---- the table ---- */

st_ints_fn st_ints_rule(const char *op)
{
    static const struct {
        const char *op;
        st_ints_fn fn;
    } rules[] = {
#define RULE(name_) {#name_, rule_##name_}
        /* clang-format off */
        RULE(dims), RULE(sym_bind), RULE(iota), RULE(cast), RULE(reshape), RULE(expand),
        RULE(transpose), RULE(slice), RULE(concat), RULE(gather), RULE(gather_elements),
        RULE(add), RULE(sub), RULE(mul), RULE(div), RULE(mod), RULE(rem), RULE(min), RULE(max),
        RULE(pow), RULE(neg), RULE(abs), RULE(floor), RULE(ceil), RULE(trunc), RULE(round),
        RULE(square), RULE(select), RULE(clamp), RULE(eq), RULE(ne), RULE(lt), RULE(le),
        RULE(gt), RULE(ge), RULE(bit_and), RULE(bit_or), RULE(bit_not), RULE(reduce_sum),
        RULE(reduce_prod), RULE(reduce_min), RULE(reduce_max),
    /* clang-format on */
#undef RULE
    };
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].op, op) == 0) {
            return rules[i].fn;
        }
    }
    return NULL;
}

_Static_assert((int)STATOR_reduce_sum_axes == (int)STATOR_reduce_prod_axes &&
                   (int)STATOR_reduce_sum_axes == (int)STATOR_reduce_max_axes &&
                   (int)STATOR_reduce_sum_keepdims == (int)STATOR_reduce_min_keepdims,
               "the reductions have one list of attributes");
