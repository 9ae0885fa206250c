/* Lowerings that move data: each turns an index of its result into an index of an operand, with a
 * mask where a result element comes from nowhere. No element is copied. */
#include "codegen/lower/lower.h"

#include <stator/ops.h>
#include <string.h>

/* ---- conditions ---- */

/* Is the index known to be outside 0..size - 1? */
static bool is_outside(const cg_nest *nest, uint32_t index, uint32_t size)
{
    st_symtab *tab = &nest->unit->syms->tab;
    return st_sym_lt(tab, index, st_sym_int(tab, 0)) == 1 || st_sym_le(tab, size, index) == 1;
}

/* The integer type that holds the bits of a storage type: what is only moved keeps all of them. */
static uint32_t bits_of(uint32_t dtype)
{
    return dtype == STATOR_BF16 || dtype == STATOR_F16 ? (uint32_t)STATOR_U16 : (uint32_t)STATOR_U8;
}

static st_loop_ref chosen_of(cg_nest *nest, uint32_t dtype, st_loop_ref ok, st_loop_ref value,
                             st_loop_ref other)
{
    st_loop_builder *b = &nest->b;
    const bool is_storage = st_loop_class_of(dtype) == ST_LOOP_STORAGE;
    const uint32_t moved = is_storage ? bits_of(dtype) : dtype;
    other = st_loop_cast(b, dtype, other);
    if (is_storage) {
        value = st_loop_apply(b, ST_LOOP_bitcast, moved, value, 0, 0);
        other = st_loop_apply(b, ST_LOOP_bitcast, moved, other, 0, 0);
    }
    const st_loop_ref chosen = st_loop_apply(b, ST_LOOP_select, moved, ok, value, other);
    return is_storage ? st_loop_apply(b, ST_LOOP_bitcast, dtype, chosen, 0, 0) : chosen;
}

/* The operand's element where `ok` holds and `other` elsewhere; nothing is loaded there. */
static st_loop_ref masked_at(cg_nest *nest, stator_ref operand, const uint32_t *index,
                             st_loop_ref ok, st_loop_ref other)
{
    const uint32_t dtype = cg_value_of(nest->unit, operand)->dtype;
    const st_loop_ref outer = nest->mask;
    nest->mask = st_loop_both(&nest->b, outer, ok);
    const st_loop_ref value = cg_at(nest, operand, index);
    nest->mask = outer;
    return ok == 0 || value == 0 ? value : chosen_of(nest, dtype, ok, value, other);
}

/* ---- views ---- */

/* Replaces dims[a] for each axis behind `solved` by the least product of the result's last axes
 * that is proved to be no smaller; 0 where there is none. */
static bool join_last_axes(st_symtab *tab, const cg_value *to, uint32_t rank, uint32_t solved,
                           uint32_t *dims)
{
    uint32_t left = to->rank;
    for (uint32_t a = rank; a-- > solved + 1u;) {
        uint32_t size = st_sym_int(tab, 1);
        do {
            size = left != 0 && size != 0 ? st_sym_mul(tab, size, to->dims[--left]) : 0;
        } while (size != 0 && st_sym_le(tab, dims[a], size) != 1);
        if (size == 0) {
            return false;
        }
        dims[a] = size;
    }
    return true;
}

/* The sizes of x in terms of the result's, into `dims`, where they follow. A call is refused in
 * which x and the result have different numbers of elements. So where each axis of x is proved to
 * be at most as large as one of other sizes, whose product is the result's number of elements, they
 * are equal (or there is no element): the result's indices then divide by the numbers that they
 * were multiplied by.
 *
 *     [B, C, H, W] to [B*C*P, 2, Q, 2], H <= 2*P, W <= 2*Q    ->    [B, C, 2*P, 2*Q] */
static void sizes_as_in_result(cg_nest *nest, const cg_value *from, const cg_value *to,
                               uint32_t *dims)
{
    st_symtab *tab = &nest->unit->syms->tab;
    const uint32_t total = cg_product(tab, to->dims, to->rank);
    memcpy(dims, from->dims, from->rank * sizeof *dims);
    if (total == 0 || cg_product(tab, dims, from->rank) == total) {
        return;
    }
    for (uint32_t solved = from->rank; solved-- > 0;) {
        if (join_last_axes(tab, to, from->rank, solved, dims)) {
            dims[solved] = st_sym_int(tab, 1);
            const uint32_t others = cg_product(tab, dims, from->rank);
            dims[solved] = others != 0 ? st_sym_floordiv(tab, total, others) : 0;
            if (dims[solved] != 0 && st_sym_le(tab, from->dims[solved], dims[solved]) == 1 &&
                st_sym_mul(tab, dims[solved], others) == total) {
                return;
            }
        }
        memcpy(dims, from->dims, from->rank * sizeof *dims);
    }
}

/* Axes that both shapes begin or end with are passed on; only what lies between is renumbered,
 * so that symbolic sizes in front (batch, length) take no part in divisions. */
st_loop_ref cg_reshape(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const stator_ref x = cg_operand(node, 0);
    const cg_value *from = cg_value_of(nest->unit, x);
    const cg_value *to = node->out;
    uint32_t dims[CG_RANK_MAX];
    uint32_t front = 0;
    uint32_t back = 0;
    uint32_t own[CG_RANK_MAX];
    (void)result;
    sizes_as_in_result(nest, from, to, dims);
    while (front < from->rank && front < to->rank && dims[front] == to->dims[front]) {
        own[front] = index[front];
        front++;
    }
    while (back < from->rank - front && back < to->rank - front &&
           dims[from->rank - 1u - back] == to->dims[to->rank - 1u - back]) {
        own[from->rank - 1u - back] = index[to->rank - 1u - back];
        back++;
    }
    if (front == 0 && back == 0) {
        return cg_at_flat(nest, x, dims, cg_flatten(nest, to->rank, to->dims, index));
    }
    const uint32_t flat =
        cg_flatten(nest, to->rank - front - back, to->dims + front, index + front);
    cg_split_flat(nest, from->rank - front - back, from->dims + front, dims + front, flat,
                  own + front);
    return cg_at(nest, x, own);
}

st_loop_ref cg_transpose(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    uint32_t own[CG_RANK_MAX];
    (void)result;
    for (uint32_t a = 0; a < node->out->rank; a++) {
        own[cg_attr_axis_at(node, STATOR_transpose_perm, a, node->out->rank)] = index[a];
    }
    return cg_at(nest, cg_operand(node, 0), own);
}

st_loop_ref cg_expand(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const cg_value *x = cg_value_of(nest->unit, cg_operand(node, 0));
    const uint32_t shift = node->out->rank - x->rank;
    uint32_t own[CG_RANK_MAX];
    (void)result;
    for (uint32_t a = 0; a < x->rank; a++) {
        const uint32_t size = x->dims[a];
        own[a] = index[a + shift];
        if (cg_is_one(nest->unit, size)) {
            own[a] = cg_int(nest, 0);
        } else if (size != node->out->dims[a + shift]) {
            own[a] = cg_sym_of(nest, STATOR_SYM_MIN, own[a], cg_sub(nest, size, cg_int(nest, 1)));
        }
    }
    return cg_at(nest, cg_operand(node, 0), own);
}

st_loop_ref cg_slice(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    uint32_t own[CG_RANK_MAX];
    (void)result;
    for (uint32_t a = 0; a < node->out->rank; a++) {
        const uint32_t start = cg_attr_dim(node, STATOR_slice_starts, a);
        const uint32_t step = cg_int(nest, cg_attr_int_at(node, STATOR_slice_steps, a));
        if (start == 0) {
            cg_refuse(nest, "a start of a slice exceeds the limit of 16 terms, depth 4");
            return 0;
        }
        own[a] = cg_add(nest, start, cg_mul(nest, index[a], step));
    }
    return cg_at(nest, cg_operand(node, 0), own);
}

/* ---- joining and padding ---- */

st_loop_ref cg_concat(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const cg_unit *unit = nest->unit;
    const uint32_t n = node->row->operand_count;
    const uint32_t axis = cg_axis(node, STATOR_concat_axis, node->out->rank);
    const uint32_t dtype = node->out->dtype;
    const uint32_t wide = cg_wide_dtype(dtype);
    uint32_t own[CG_RANK_MAX];
    uint32_t begin = cg_int(nest, 0);
    st_loop_ref chosen = 0;
    (void)result;
    memcpy(own, index, node->out->rank * sizeof *own);
    for (uint32_t k = 0; k < n; k++) {
        const stator_ref operand = cg_operand(node, k);
        const uint32_t size = cg_value_of(unit, operand)->dims[axis];
        own[axis] = cg_sub(nest, index[axis], begin);
        begin = cg_add(nest, begin, size);
        if (is_outside(nest, own[axis], size)) {
            continue;
        }
        const st_loop_ref ok = cg_within(nest, own[axis], size, k > 0, k + 1u < n);
        const st_loop_ref other = chosen ? chosen : st_loop_number(&nest->b, wide, 0);
        chosen = masked_at(nest, operand, own, ok, other);
        if (chosen == 0) {
            return 0;
        }
    }
    return chosen;
}

/* The operand's position for position p of a padded axis of the modes that repeat data. */
static uint32_t repeated(cg_nest *nest, const cg_node *node, uint32_t p, uint32_t size)
{
    const uint32_t one = cg_int(nest, 1);
    const uint32_t zero = cg_int(nest, 0);
    const uint32_t last = cg_sub(nest, size, one);
    if (cg_attr_is(node, STATOR_pad_mode, "edge")) {
        return cg_sym_of(nest, STATOR_SYM_MIN, cg_sym_of(nest, STATOR_SYM_MAX, p, zero), last);
    }
    if (cg_attr_is(node, STATOR_pad_mode, "wrap")) {
        return cg_sym_of(nest, STATOR_SYM_MOD, p, size);
    }
    /* reflect: a period of twice the size less the two ends; 1 for an axis of one element */
    const uint32_t period = cg_mul(nest, last, cg_int(nest, 2));
    const uint32_t q =
        cg_sym_of(nest, STATOR_SYM_MOD, p, cg_sym_of(nest, STATOR_SYM_MAX, period, one));
    return cg_sym_of(nest, STATOR_SYM_MIN, q, cg_sub(nest, period, q));
}

st_loop_ref cg_pad(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const cg_value *x = cg_value_of(nest->unit, cg_operand(node, 0));
    const bool is_constant = cg_attr_is(node, STATOR_pad_mode, "constant");
    const stator_ref filler = cg_operand(node, 1);
    const uint32_t wide = cg_wide_dtype(x->dtype);
    uint32_t own[CG_RANK_MAX];
    st_loop_ref ok = 0;
    bool is_nowhere = false;
    (void)result;
    for (uint32_t a = 0; a < x->rank; a++) {
        const uint32_t low = cg_attr_dim(node, STATOR_pad_low, a);
        const uint32_t high = cg_attr_dim(node, STATOR_pad_high, a);
        if (low == 0 || high == 0) {
            cg_refuse(nest, "an amount of padding exceeds the limit of 16 terms, depth 4");
            return 0;
        }
        own[a] = cg_sub(nest, index[a], low);
        if (cg_is_zero(nest, low) && cg_is_zero(nest, high)) {
            continue;
        }
        if (is_constant) {
            is_nowhere = is_nowhere || is_outside(nest, own[a], x->dims[a]);
            ok = st_loop_both(&nest->b, ok,
                              cg_within(nest, own[a], x->dims[a], !cg_is_zero(nest, low),
                                        !cg_is_zero(nest, high)));
        } else {
            own[a] = repeated(nest, node, own[a], x->dims[a]);
        }
    }
    const uint32_t nowhere[CG_RANK_MAX] = {cg_int(nest, 0)};
    const st_loop_ref other =
        filler ? cg_at(nest, filler, nowhere) : st_loop_number(&nest->b, wide, 0);
    return is_nowhere ? st_loop_cast(&nest->b, x->dtype, other)
                      : masked_at(nest, cg_operand(node, 0), own, ok, other);
}

/* ---- indirect ---- */

/* Are all elements of the constant indices of an axis of this size? They need no test then. */
static bool is_inside(const cg_nest *nest, const cg_value *indices, uint32_t size)
{
    int64_t least = 0;
    int64_t most = 0;
    st_sym_range(&nest->unit->syms->tab, size, &least, &most);
    return (indices->flags & CG_VALUE_RANGED) && indices->lo >= 0 && indices->hi < least;
}

uint32_t cg_bound_index(cg_nest *nest, stator_ref tensor, const uint32_t *index, uint32_t size,
                        st_loop_ref *out_ok)
{
    st_loop_builder *b = &nest->b;
    const st_loop_ref raw = st_loop_cast(b, STATOR_I64, cg_at(nest, tensor, index));
    const cg_value *indices = cg_value_of(nest->unit, tensor);
    if (raw && is_inside(nest, indices, size)) {
        const uint32_t known = st_loop_bind(b, raw, 0, indices->hi);
        return known ? known : cg_int(nest, 0);
    }
    const st_loop_ref zero = st_loop_int(b, STATOR_I64, 0);
    const st_loop_ref n = st_loop_index(b, size);
    if (raw == 0 || n == 0) {
        return cg_int(nest, 0);
    }
    const st_loop_ref is_negative = st_loop_apply(b, ST_LOOP_lt, 0, raw, zero, 0);
    const st_loop_ref from_end = st_loop_apply(b, ST_LOOP_add, 0, raw, n, 0);
    const st_loop_ref at = st_loop_apply(b, ST_LOOP_select, STATOR_I64, is_negative, from_end, raw);
    const st_loop_ref ok = st_loop_both(b, st_loop_apply(b, ST_LOOP_ge, 0, at, zero, 0),
                                        st_loop_apply(b, ST_LOOP_lt, 0, at, n, 0));
    if (!nest->unit->config->is_unchecked) {
        st_loop_check(b, ok, nest->mask);
    }
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&nest->unit->syms->tab, size, &lo, &hi);
    const uint32_t sym = st_loop_bind(b, at, 0, hi == INT64_MAX ? hi : hi > 0 ? hi - 1 : 0);
    *out_ok = st_loop_both(b, *out_ok, ok);
    return sym ? sym : cg_int(nest, 0);
}

static st_loop_ref checked_at(cg_nest *nest, stator_ref operand, const uint32_t *index,
                              st_loop_ref ok)
{
    const uint32_t wide = cg_wide_dtype(cg_value_of(nest->unit, operand)->dtype);
    const st_loop_ref other = ok ? st_loop_number(&nest->b, wide, 0) : 0;
    return masked_at(nest, operand, index, ok, other);
}

st_loop_ref cg_gather(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const stator_ref x = cg_operand(node, 0);
    const stator_ref indices = cg_operand(node, 1);
    const cg_value *from = cg_value_of(nest->unit, x);
    const uint32_t axis = cg_axis(node, STATOR_gather_axis, from->rank);
    const uint32_t wide = cg_value_of(nest->unit, indices)->rank;
    uint32_t own[CG_RANK_MAX];
    st_loop_ref ok = 0;
    (void)result;
    memcpy(own, index, axis * sizeof *own);
    own[axis] = cg_bound_index(nest, indices, index + axis, from->dims[axis], &ok);
    for (uint32_t a = axis + 1u; a < from->rank; a++) {
        own[a] = index[a - 1u + wide];
    }
    return checked_at(nest, x, own, ok);
}

st_loop_ref cg_gather_elements(cg_nest *nest, const cg_node *node, uint32_t result,
                               const uint32_t *index)
{
    const stator_ref x = cg_operand(node, 0);
    const cg_value *from = cg_value_of(nest->unit, x);
    const uint32_t axis = cg_axis(node, STATOR_gather_elements_axis, from->rank);
    uint32_t own[CG_RANK_MAX];
    st_loop_ref ok = 0;
    (void)result;
    memcpy(own, index, from->rank * sizeof *own);
    own[axis] = cg_bound_index(nest, cg_operand(node, 1), index, from->dims[axis], &ok);
    return checked_at(nest, x, own, ok);
}

st_loop_ref cg_gather_nd(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    const stator_ref x = cg_operand(node, 0);
    const stator_ref indices = cg_operand(node, 1);
    const cg_value *from = cg_value_of(nest->unit, x);
    const cg_value *tuples = cg_value_of(nest->unit, indices);
    const uint32_t batch = (uint32_t)cg_attr(node, STATOR_gather_nd_batch_dims)->i;
    int64_t n = 0;
    uint32_t own[CG_RANK_MAX];
    uint32_t at[CG_RANK_MAX];
    st_loop_ref ok = 0;
    (void)result;
    if (!st_sym_const(&nest->unit->syms->tab, tuples->dims[tuples->rank - 1u], &n) || n < 0 ||
        batch + (uint64_t)n > from->rank) {
        cg_refuse(nest, "the length of an index tuple is not known");
        return 0;
    }
    memcpy(own, index, batch * sizeof *own);
    memcpy(at, index, (tuples->rank - 1u) * sizeof *at);
    for (uint32_t k = 0; k < (uint32_t)n; k++) {
        at[tuples->rank - 1u] = cg_int(nest, k);
        own[batch + k] = cg_bound_index(nest, indices, at, from->dims[batch + k], &ok);
    }
    for (uint32_t a = batch + (uint32_t)n; a < from->rank; a++) {
        own[a] = index[a - (uint32_t)n - batch + tuples->rank - 1u];
    }
    return checked_at(nest, x, own, ok);
}
