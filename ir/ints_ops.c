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

/* The least value that the sym can have. */
static int64_t lower(const st_ints_eval *at, stator_ref sym)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(tab_of(at), sym, &lo, &hi);
    return lo;
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
    if (lower(at, x) >= 0) {
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

typedef st_int_elem (*binary_fn)(const st_ints_eval *at, st_int_elem x, st_int_elem y);

static st_int_elem sum(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    const uint32_t op = at->node->op == STATOR_OPCODE_sub ? STATOR_SYM_SUB : STATOR_SYM_ADD;
    const stator_ref a = scaled(at, x.sym, y.den);
    const stator_ref b = scaled(at, y.sym, x.den);
    return make(at, st_sym_op(tab_of(at), op, a, b), (uint64_t)x.den * y.den);
}

static st_int_elem product(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    return make(at, st_sym_mul(tab_of(at), x.sym, y.sym), (uint64_t)x.den * y.den);
}

/* Are the node's operands of this class of dtypes? */
static bool is_of(const st_ints_eval *at, uint32_t class_)
{
    const stator_type_row *x = stator_value_type(at->v, stator_operand(at->v, at->node, 0));
    return st_dtype_class(x->dtype) == class_;
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
    if (x.sym == y.sym && lower(at, x.sym) > 0) {
        return st_int_const(at, 1);
    }
    return lower(at, y.sym) > 0 ? make(at, truncated_quotient(at, x.sym, y.sym), 1) : UNKNOWN;
}

static st_int_elem quotient(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    int64_t b = 0;
    if (!is_of(at, STATOR_CLASS_FLOAT)) {
        return int_div(at, x, y);
    }
    if (x.sym == y.sym && x.den == y.den && lower(at, x.sym) > 0) {
        return st_int_const(at, 1);
    }
    if (!st_sym_const(tab_of(at), y.sym, &b) || b <= 0) {
        return UNKNOWN;
    }
    uint64_t den = 0;
    return st_mul_u64(x.den, (uint64_t)b, &den) ? make(at, scaled(at, x.sym, y.den), den) : UNKNOWN;
}

static st_int_elem modulo(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    int64_t b = 0;
    if (is_of(at, STATOR_CLASS_FLOAT) || x.den != 1 || y.den != 1) {
        return UNKNOWN;
    }
    if (st_int_is_const(at, y, &b) && b == 0) {
        return st_int_const(at, 0);
    }
    int64_t a = 0;
    if (b < 0 && st_int_is_const(at, x, &a)) {
        return b == -1 ? st_int_const(at, 0) : st_int_const(at, st_floormod(a, b));
    }
    return lower(at, y.sym) > 0 ? make(at, st_sym_mod(tab_of(at), x.sym, y.sym), 1) : UNKNOWN;
}

static st_int_elem remainder_of(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    int64_t a = 0;
    int64_t b = 0;
    if (!is_of(at, STATOR_CLASS_FLOAT) && st_int_is_const(at, x, &a) &&
        st_int_is_const(at, y, &b)) {
        return st_int_const(at, b == 0 || b == -1 ? 0 : a % b);
    }
    return lower(at, x.sym) >= 0 ? modulo(at, x, y) : UNKNOWN;
}

static st_int_elem least(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    return x.den == y.den ? make(at, st_sym_min(tab_of(at), x.sym, y.sym), x.den) : UNKNOWN;
}

static st_int_elem most(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    return x.den == y.den ? make(at, st_sym_max(tab_of(at), x.sym, y.sym), x.den) : UNKNOWN;
}

/* A proof's answer as a bool element. */
static st_int_elem truth(const st_ints_eval *at, st_proof answer)
{
    return answer == ST_UNDECIDED ? UNKNOWN : st_int_const(at, answer);
}

static st_int_elem compared(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    st_symtab *tab = tab_of(at);
    if (x.den != y.den) {
        return UNKNOWN;
    }
    switch (at->node->op) {
    case STATOR_OPCODE_eq:
        return truth(at, st_sym_eq(tab, x.sym, y.sym));
    case STATOR_OPCODE_ne:
        return truth(at, st_proof_not(st_sym_eq(tab, x.sym, y.sym)));
    case STATOR_OPCODE_lt:
        return truth(at, st_sym_lt(tab, x.sym, y.sym));
    case STATOR_OPCODE_le:
        return truth(at, st_sym_le(tab, x.sym, y.sym));
    case STATOR_OPCODE_gt:
        return truth(at, st_sym_lt(tab, y.sym, x.sym));
    default:
        return truth(at, st_sym_le(tab, y.sym, x.sym));
    }
}

static st_int_elem bits(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    int64_t a = 0;
    int64_t b = 0;
    if (!st_int_is_const(at, x, &a) || !st_int_is_const(at, y, &b)) {
        return UNKNOWN;
    }
    return st_int_const(at, at->node->op == STATOR_OPCODE_bit_and ? a & b : a | b);
}

static st_int_elem power(const st_ints_eval *at, st_int_elem x, st_int_elem y)
{
    int64_t n = 0;
    if (!st_int_is_const(at, y, &n) || n < 0 || n > 16) {
        return UNKNOWN;
    }
    st_int_elem r = st_int_const(at, 1);
    for (int64_t i = 0; i < n && r.sym != 0; i++) {
        r = product(at, r, x);
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

/* floor, ceil, and for trunc and casts toward zero; what is no integer is rounded by no rule. */
static st_int_elem rounded(const st_ints_eval *at, st_int_elem x)
{
    const stator_ref den = st_sym_int(tab_of(at), x.den);
    if (x.den == 1) {
        return x;
    }
    switch (at->node->op) {
    case STATOR_OPCODE_round:
        return UNKNOWN;
    case STATOR_OPCODE_floor:
        return make(at, st_sym_floordiv(tab_of(at), x.sym, den), 1);
    case STATOR_OPCODE_ceil:
        return make(at, st_sym_ceildiv(tab_of(at), x.sym, den), 1);
    default:
        return make(at, truncated_quotient(at, x.sym, den), 1);
    }
}

static st_int_elem squared(const st_ints_eval *at, st_int_elem x)
{
    return product(at, x, x);
}

static st_int_elem not_bool(const st_ints_eval *at, st_int_elem x)
{
    int64_t c = 0;
    return is_of(at, STATOR_CLASS_BOOL) && st_int_is_const(at, x, &c) && (c == 0 || c == 1)
               ? st_int_const(at, !c)
               : UNKNOWN;
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
        out->e[i] = a.sym != 0 && b.sym != 0 ? fn(at, a, b) : UNKNOWN;
    }
    return true;
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
                        : lower(at, x.e[i].sym) > 0              ? st_int_const(at, 1)
                                                                 : UNKNOWN;
        } else {
            out->e[i] =
                st_dtype_class(out->dtype) == STATOR_CLASS_FLOAT ? x.e[i] : rounded(at, x.e[i]);
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
                        : k == 1                 ? most(at, e, b)
                                                 : least(at, e, b);
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
    const int64_t place = st_normalize_axis(axis, out->rank);
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
            const int64_t p = stator_attr_int_at(at->v, perm, a);
            in[st_normalize_axis(p, out->rank)] = coords[a];
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
            coords[a] = start[a] + coords[a] * stator_attr_int_at(at->v, steps, a);
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
    return (uint32_t)st_normalize_axis(attr->i, rank);
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

#define NO_IDENTITY INT64_MIN

/* Folds over axes. `identity` is the fold of no elements; UNKNOWN where there is none. */
static bool reduce(const st_ints_eval *at, st_ints *out, binary_fn fn, st_int_elem identity)
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
        const int64_t axis = stator_attr_int_at(at->v, axes, i);
        set |= 1u << st_normalize_axis(axis, x.rank);
    }
    for (uint32_t i = 0; identity.sym != 0 && i < out->n; i++) {
        out->e[i] = identity;
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
        out->e[p] = !seen[p] ? x.e[i] : e.sym == 0 || x.e[i].sym == 0 ? UNKNOWN : fn(at, e, x.e[i]);
        seen[p] = true;
    }
    return true;
}

/* ---- the table ---- */

static const struct {
    unary_fn unary;   /* element by element */
    binary_fn binary; /* two operands, which broadcast */
    binary_fn fold;   /* a reduction over axes, from its identity where it has one */
    int64_t identity;
    bool (*fill)(const st_ints_eval *at, st_ints *out); /* makes the whole tensor */
} rules[STATOR_OPCODE_end] = {
#define UNARY(op, fn) [STATOR_OPCODE_##op] = {.unary = fn}
#define BINARY(op, fn) [STATOR_OPCODE_##op] = {.binary = fn}
#define REDUCE(op, fn, identity_) [STATOR_OPCODE_##op] = {.fold = fn, .identity = identity_}
#define RULE(op) [STATOR_OPCODE_##op] = {.fill = rule_##op}
    /* clang-format off */
    UNARY(neg, negated), UNARY(abs, absolute), UNARY(square, squared), UNARY(floor, rounded),
    UNARY(ceil, rounded), UNARY(trunc, rounded), UNARY(round, rounded), UNARY(bit_not, not_bool),
    BINARY(add, sum), BINARY(sub, sum), BINARY(mul, product), BINARY(div, quotient),
    BINARY(mod, modulo), BINARY(rem, remainder_of), BINARY(min, least), BINARY(max, most),
    BINARY(eq, compared), BINARY(ne, compared), BINARY(lt, compared), BINARY(le, compared),
    BINARY(gt, compared), BINARY(ge, compared), BINARY(bit_and, bits), BINARY(bit_or, bits),
    BINARY(pow, power), REDUCE(reduce_sum, sum, 0), REDUCE(reduce_prod, product, 1),
    REDUCE(reduce_min, least, NO_IDENTITY), REDUCE(reduce_max, most, NO_IDENTITY),
    RULE(dims), RULE(sym_bind), RULE(iota), RULE(cast), RULE(reshape), RULE(expand),
    RULE(transpose), RULE(slice), RULE(concat), RULE(gather), RULE(gather_elements),
    RULE(select), RULE(clamp),
/* clang-format on */
#undef UNARY
#undef BINARY
#undef REDUCE
#undef RULE
};

bool st_ints_apply_rule(const st_ints_eval *at, st_ints *out)
{
    const uint32_t op = at->node->op;
    if (op >= STATOR_OPCODE_end) {
        return false;
    }
    if (rules[op].fold != NULL) {
        const int64_t identity = rules[op].identity;
        return reduce(at, out, rules[op].fold,
                      identity == NO_IDENTITY ? UNKNOWN : st_int_const(at, identity));
    }
    return rules[op].unary != NULL    ? apply_unary(at, out, rules[op].unary)
           : rules[op].binary != NULL ? apply_binary(at, out, rules[op].binary)
                                      : rules[op].fill != NULL && rules[op].fill(at, out);
}

_Static_assert((int)STATOR_reduce_sum_axes == (int)STATOR_reduce_prod_axes &&
                   (int)STATOR_reduce_sum_axes == (int)STATOR_reduce_max_axes &&
                   (int)STATOR_reduce_sum_keepdims == (int)STATOR_reduce_min_keepdims,
               "the reductions have one list of attributes");
