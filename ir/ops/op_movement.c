/* Infer rules of views and data movement: reshape, transpose, expand, slice, concat, pad,
 * gathers and scatters, tile, one_hot, trilu, max_unpool. In: operands and static or symbolic
 * sizes. Out: one type. What is proved to be out of range is refused here, the rest is stated as
 * a shape constraint. */
#include "ir/ops/rules.h"
#include <stator/ops.h>
#include <stdio.h>

stator_status st_infer_reshape(st_infer *in)
{
    stator_ref from[STATOR_RANK_MAX], to[STATOR_RANK_MAX];
    char a_text[96], b_text[96];
    const uint32_t rank = st_in_syms(in, STATOR_reshape_shape, to, STATOR_RANK_MAX);
    if (rank <= STATOR_RANK_MAX) {
        st_in_dims(in, 0, from);
        const stator_ref a = st_in_product(in, from, st_in_rank(in, 0));
        const stator_ref b = st_in_product(in, to, rank);
        ST_IN_FAIL_IF(a != 0 && b != 0 && st_sym_eq(&in->m->symtab, a, b) == 0, in,
                      "x has %s elements, the new shape has %s", st_in_sym_text(in, a, a_text),
                      st_in_sym_text(in, b, b_text));
        ST_TRY(st_in_same_dim(in, a, b, "elements of x and of the new shape"));
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, to);
}

stator_status st_infer_transpose(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    int64_t perm[STATOR_RANK_MAX];
    uint32_t set = 0;
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_list_count(in, STATOR_transpose_perm, rank));
    st_in_list(in, STATOR_transpose_perm, perm, STATOR_RANK_MAX);
    ST_TRY(st_in_axes(in, STATOR_transpose_perm, rank, &set));
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t axis = perm[i] < 0 ? perm[i] + (int64_t)rank : perm[i];
        dims[i] = st_in_dim(in, 0, (uint32_t)axis);
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

/* Can size `from` become `to` in broadcast_to? 0 when it is proved impossible. */
static bool expands(const st_infer *in, stator_ref from, stator_ref to)
{
    const stator_ref one = st_in_size(in, 1);
    return from == 0 || to == 0 || st_sym_eq(&in->m->symtab, from, one) != 0 ||
           st_sym_eq(&in->m->symtab, from, to) != 0;
}

stator_status st_infer_expand(st_infer *in)
{
    stator_ref to[STATOR_RANK_MAX];
    char a_text[96], b_text[96];
    const uint32_t x_rank = st_in_rank(in, 0);
    const uint32_t rank = st_in_syms(in, STATOR_expand_shape, to, STATOR_RANK_MAX);
    ST_IN_FAIL_IF(rank < x_rank, in, "x has rank %u, the shape only %u sizes", x_rank, rank);
    for (uint32_t i = 0; i < x_rank && rank <= STATOR_RANK_MAX; i++) {
        const stator_ref from = st_in_dim(in, 0, i);
        ST_IN_FAIL_IF(!expands(in, from, to[rank - x_rank + i]), in,
                      "axis %u of x has size %s, which cannot become %s", i,
                      st_in_sym_text(in, from, a_text),
                      st_in_sym_text(in, to[rank - x_rank + i], b_text));
        ST_TRY(st_in_fits(in, from, to[rank - x_rank + i], "x", i));
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, to);
}

static void constrain_range(const st_infer *in, uint32_t axis, stator_ref start, stator_ref size,
                            int64_t step)
{
    const st_shape_constraint constraint = {.kind = ST_SHAPE_CONSTRAINT_INSIDE,
                                            .size = {start, size, st_in_dim(in, 0, axis)},
                                            .step = step};
    char what[32];
    if (in->shape_constraints != NULL) {
        (void)snprintf(what, sizeof what, "axis %u", axis);
        st_shape_constraints_add(in->shape_constraints, &in->m->symtab, &constraint,
                                 in->op->desc.name, what);
    }
}

/* First and last index of a slice axis lie in the source. */
static stator_status slice_in_range(const st_infer *in, uint32_t axis, stator_ref start,
                                    stator_ref size, int64_t step)
{
    char a_text[96], b_text[96];
    st_symtab *tab = &in->m->symtab;
    const stator_ref dim = st_in_dim(in, 0, axis);
    const stator_ref zero = st_in_size(in, 0);
    int64_t lo, hi;
    bool is_proved = true;
    st_in_range(in, size, &lo, &hi);
    if (lo < 1) {
        constrain_range(in, axis, start, size, step);
        return STATOR_OK;
    }
    const stator_ref last =
        st_in_op(in, STATOR_SYM_ADD, start,
                 st_in_op_int(in, STATOR_SYM_MUL, st_in_op_int(in, STATOR_SYM_SUB, size, 1), step));
    const stator_ref ends[2] = {start, last};
    for (uint32_t i = 0; i < 2; i++) {
        if (ends[i] != 0 &&
            (st_sym_le(tab, zero, ends[i]) == 0 || st_sym_lt(tab, ends[i], dim) == 0)) {
            return st_in_fail(in, "axis %u: index %s is outside a size of %s", axis,
                              st_in_sym_text(in, ends[i], a_text), st_in_sym_text(in, dim, b_text));
        }
        is_proved = is_proved && ends[i] != 0 && st_sym_le(tab, zero, ends[i]) == 1 &&
                    st_sym_lt(tab, ends[i], dim) == 1;
    }
    if (!is_proved) {
        constrain_range(in, axis, start, size, step);
    }
    return STATOR_OK;
}

stator_status st_infer_slice(st_infer *in)
{
    stator_ref starts[STATOR_RANK_MAX], sizes[STATOR_RANK_MAX];
    int64_t steps[STATOR_RANK_MAX];
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_list_count(in, STATOR_slice_starts, rank));
    ST_TRY(st_in_list_count(in, STATOR_slice_sizes, rank));
    ST_TRY(st_in_list_count(in, STATOR_slice_steps, rank));
    st_in_syms(in, STATOR_slice_starts, starts, STATOR_RANK_MAX);
    st_in_syms(in, STATOR_slice_sizes, sizes, STATOR_RANK_MAX);
    st_in_list(in, STATOR_slice_steps, steps, STATOR_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++) {
        ST_IN_FAIL_IF(steps[i] == 0 || steps[i] == INT64_MIN, in,
                      "the step of axis %u is %lld, expected another", i, (long long)steps[i]);
        ST_TRY(slice_in_range(in, i, starts[i], sizes[i], steps[i]));
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, sizes);
}

stator_status st_infer_concat(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    uint32_t axis = 0;
    int64_t value;
    ST_IN_FAIL_IF(in->n_operands == 0, in, "has no operand, expected at least one");
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_concat_axis), rank, &axis));
    st_in_dims(in, 0, dims);
    for (uint32_t k = 1; k < in->n_operands; k++) {
        ST_TRY(st_in_same_dtype(in, 0, k));
        ST_TRY(st_in_rank_is(in, k, rank, rank));
        for (uint32_t i = 0; i < rank; i++) {
            const stator_ref dim = st_in_dim(in, k, i);
            if (i == axis) {
                dims[i] = st_in_op(in, STATOR_SYM_ADD, dims[i], dim);
                continue;
            }
            ST_TRY(st_in_same_dim(in, dims[i], dim, "axes beside the joined one"));
            dims[i] = st_in_const(in, dim, &value) ? dim : dims[i];
        }
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

stator_status st_infer_pad(st_infer *in)
{
    stator_ref low[STATOR_RANK_MAX], high[STATOR_RANK_MAX], dims[STATOR_RANK_MAX];
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_list_count(in, STATOR_pad_low, rank));
    ST_TRY(st_in_list_count(in, STATOR_pad_high, rank));
    ST_TRY(st_in_one_of(in, STATOR_pad_mode, "constant,reflect,edge,wrap"));
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(st_in_scalar(in, 1, true));
    st_in_syms(in, STATOR_pad_low, low, STATOR_RANK_MAX);
    st_in_syms(in, STATOR_pad_high, high, STATOR_RANK_MAX);
    const bool is_constant = st_in_string_is(in, STATOR_pad_mode, "constant");
    for (uint32_t i = 0; i < rank; i++) {
        int64_t size, value;
        const stator_ref dim = st_in_dim(in, 0, i);
        dims[i] = st_in_op(in, STATOR_SYM_ADD, st_in_op(in, STATOR_SYM_ADD, dim, low[i]), high[i]);
        if (!is_constant && st_in_const(in, dim, &size) && size == 0 &&
            st_in_const(in, dims[i], &value) && value > 0) {
            return st_in_fail(in, "mode %s needs elements to repeat, axis %u has none",
                              st_in_string(in, STATOR_pad_mode), i);
        }
        if (!is_constant) {
            ST_TRY(st_in_filled(in, st_in_op_int(in, STATOR_SYM_MIN, dims[i], 1), dim,
                                "an empty axis, which only mode constant can pad"));
        }
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

/* dims = x's first `axis` sizes, `mid`, x's sizes from `resume` on. */
static stator_status spliced(st_infer *in, uint32_t axis, const stator_ref *mid, uint32_t n_mid,
                             uint32_t resume)
{
    stator_ref dims[3 * STATOR_RANK_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < axis; i++) {
        dims[n++] = st_in_dim(in, 0, i);
    }
    for (uint32_t i = 0; i < n_mid; i++) {
        dims[n++] = mid[i];
    }
    for (uint32_t i = resume; i < st_in_rank(in, 0); i++) {
        dims[n++] = st_in_dim(in, 0, i);
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), n, dims);
}

stator_status st_infer_gather(st_infer *in)
{
    stator_ref mid[STATOR_RANK_MAX];
    uint32_t axis = 0;
    ST_TRY(st_in_index_dtype(in, 1));
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_gather_axis), st_in_rank(in, 0), &axis));
    st_in_dims(in, 1, mid);
    return spliced(in, axis, mid, st_in_rank(in, 1), axis + 1u);
}

/* The rule that gather_elements and scatter_elements share: equal ranks, and index no larger than x
 * beside the axis. */
static stator_status check_elements(const st_infer *in, uint32_t axis_attr)
{
    uint32_t axis = 0;
    char a_text[96], b_text[96];
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_index_dtype(in, 1));
    ST_TRY(st_in_rank_is(in, 1, rank, rank));
    ST_TRY(st_in_axis(in, st_in_int(in, axis_attr), rank, &axis));
    for (uint32_t i = 0; i < rank; i++) {
        const stator_ref a = st_in_dim(in, 1, i), b = st_in_dim(in, 0, i);
        ST_IN_FAIL_IF(i != axis && st_sym_le(&in->m->symtab, a, b) == 0, in,
                      "axis %u: index has size %s, x only %s", i, st_in_sym_text(in, a, a_text),
                      st_in_sym_text(in, b, b_text));
        if (i != axis) {
            ST_TRY(st_in_at_most(in, a, b, "index and x beside the axis"));
        }
    }
    return STATOR_OK;
}

stator_status st_infer_gather_elements(st_infer *in)
{
    ST_TRY(check_elements(in, STATOR_gather_elements_axis));
    return st_in_like(in, 0, 1, st_in_dtype(in, 0));
}

/* Length of the index tuples: the last size of index. */
static stator_status tuple_length(const st_infer *in, uint32_t *out)
{
    int64_t length = 0;
    *out = 0;
    ST_TRY(st_in_index_dtype(in, 1));
    ST_TRY(st_in_rank_is(in, 1, 1, STATOR_RANK_MAX));
    ST_IN_FAIL_IF(!st_in_const(in, st_in_dim(in, 1, st_in_rank(in, 1) - 1u), &length), in,
                  "the last size of index must be known when the graph is built");
    ST_IN_FAIL_IF(length > st_in_rank(in, 0), in, "index tuples have %lld entries, x has rank %u",
                  (long long)length, st_in_rank(in, 0));
    *out = (uint32_t)length;
    return STATOR_OK;
}

stator_status st_infer_gather_nd(st_infer *in)
{
    stator_ref mid[STATOR_RANK_MAX];
    uint32_t length = 0;
    const int64_t batch = st_in_int(in, STATOR_gather_nd_batch_dims);
    ST_TRY(tuple_length(in, &length));
    const uint32_t i_rank = st_in_rank(in, 1);
    ST_IN_FAIL_IF(batch < 0 || batch >= i_rank || batch + length > st_in_rank(in, 0), in,
                  "batch_dims %lld with index of rank %u, tuples of %u and x of rank %u",
                  (long long)batch, i_rank, length, st_in_rank(in, 0));
    for (uint32_t i = 0; i < (uint32_t)batch; i++) {
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, i), st_in_dim(in, 1, i), "batch axes"));
    }
    st_in_dims(in, 1, mid);
    return spliced(in, 0, mid, i_rank - 1u, (uint32_t)batch + length);
}

/* Operand b has the rank and the sizes of operand a. */
static stator_status same_dims(const st_infer *in, uint32_t a, uint32_t b, const char *what)
{
    const uint32_t rank = st_in_rank(in, a);
    ST_TRY(st_in_rank_is(in, b, rank, rank));
    for (uint32_t i = 0; i < rank; i++) {
        ST_TRY(st_in_same_dim(in, st_in_dim(in, a, i), st_in_dim(in, b, i), what));
    }
    return STATOR_OK;
}

stator_status st_infer_scatter_elements(st_infer *in)
{
    ST_TRY(check_elements(in, STATOR_scatter_elements_axis));
    ST_TRY(st_in_same_dtype(in, 0, 2));
    ST_TRY(st_in_one_of(in, STATOR_scatter_elements_reduction, "none,add,mul,min,max"));
    ST_TRY(same_dims(in, 1, 2, "index and updates"));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_scatter_nd(st_infer *in)
{
    uint32_t length = 0;
    ST_TRY(tuple_length(in, &length));
    ST_TRY(st_in_same_dtype(in, 0, 2));
    ST_TRY(st_in_one_of(in, STATOR_scatter_nd_reduction, "none,add,mul,min,max"));
    const uint32_t lead = st_in_rank(in, 1) - 1u;
    const uint32_t rank = lead + st_in_rank(in, 0) - length;
    ST_TRY(st_in_rank_is(in, 2, rank, rank));
    for (uint32_t i = 0; i < rank; i++) {
        const stator_ref want =
            i < lead ? st_in_dim(in, 1, i) : st_in_dim(in, 0, length + i - lead);
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 2, i), want, "updates"));
    }
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_assign(st_infer *in)
{
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(same_dims(in, 0, 1, "target and value"));
    return st_in_like(in, 0, 0, 0);
}

/* ---- composites ---- */

stator_status st_infer_shape_attr(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = st_in_syms(in, STATOR_max_unpool_shape, dims, STATOR_RANK_MAX);
    ST_TRY(st_in_dtype_is(in, 1, STATOR_I64));
    ST_TRY(same_dims(in, 0, 1, "x and indices"));
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

stator_status st_infer_tile(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_list_count(in, STATOR_tile_repeats, rank));
    st_in_syms(in, STATOR_tile_repeats, dims, STATOR_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t repeats;
        ST_IN_FAIL_IF(st_in_const(in, dims[i], &repeats) && repeats < 0, in,
                      "axis %u is repeated %lld times", i, (long long)repeats);
        ST_TRY(st_in_at_most(in, st_in_size(in, 0), dims[i], "a number of repeats"));
        dims[i] = st_in_op(in, STATOR_SYM_MUL, st_in_dim(in, 0, i), dims[i]);
    }
    return st_in_set(in, 0, st_in_dtype(in, 0), rank, dims);
}

stator_status st_infer_one_hot(st_infer *in)
{
    stator_ref depth = 0, dims[STATOR_RANK_MAX + 1];
    uint32_t axis = 0;
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_class_is(in, 0, 1u << STATOR_CLASS_INT | 1u << STATOR_CLASS_UINT,
                          "an integer dtype"));
    ST_TRY(st_in_same_dtype(in, 1, 2));
    ST_TRY(st_in_scalar(in, 1, false));
    ST_TRY(st_in_scalar(in, 2, false));
    ST_TRY(st_in_list_count(in, STATOR_one_hot_depth, 1));
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_one_hot_axis), rank + 1u, &axis));
    st_in_syms(in, STATOR_one_hot_depth, &depth, 1);
    for (uint32_t i = 0; i < rank + 1u; i++) {
        dims[i] = i == axis ? depth : st_in_dim(in, 0, i < axis ? i : i - 1u);
    }
    return st_in_set(in, 0, st_in_dtype(in, 1), rank + 1u, dims);
}

stator_status st_infer_trilu(st_infer *in)
{
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    ST_TRY(st_in_list_count(in, STATOR_trilu_k, 1));
    return st_in_like(in, 0, 0, 0);
}
