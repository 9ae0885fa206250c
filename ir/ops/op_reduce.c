/* Infer rules of reductions, running sums, sorting, and of ops whose number of results depends on
 * the data (nonzero, unique). In: one operand. Out: types; a size known only at run time is an
 * unbacked symbol with the number of elements as its upper bound. */
#include "ir/ops/rules.h"
#include <stator/ops.h>

/* Result k: x without the axes of the set, or with size 1 there. */
static stator_status set_reduced(st_infer *in, uint32_t set, bool keep, stator_dtype dtype)
{
    stator_ref dims[STATOR_RANK_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < st_in_rank(in, 0); i++) {
        if ((set >> i & 1u) == 0) {
            dims[n++] = st_in_dim(in, 0, i);
        } else if (keep) {
            dims[n++] = st_in_size(in, 1);
        }
    }
    return st_in_set(in, 0, dtype, n, dims);
}

stator_status st_infer_reduce(st_infer *in)
{
    uint32_t set = 0;
    ST_TRY(st_in_axes(in, st_in_place(in, "axes"), st_in_rank(in, 0), &set));
    return set_reduced(in, set, st_in_int(in, st_in_place(in, "keepdims")) != 0,
                       st_in_dtype(in, 0));
}

/* Where there is a result there is an element along the axis. */
static stator_status has_element(const st_infer *in, uint32_t axis)
{
    stator_ref wanted = st_in_size(in, 1);
    for (uint32_t i = 0; i < st_in_rank(in, 0); i++) {
        wanted = i == axis ? wanted : st_in_op(in, STATOR_SYM_MIN, wanted, st_in_dim(in, 0, i));
    }
    return st_in_filled(in, wanted, st_in_dim(in, 0, axis),
                        "the axis is empty, there is no element to point at");
}

stator_status st_infer_arg(st_infer *in)
{
    uint32_t axis = 0;
    int64_t size;
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_argmax_axis), st_in_rank(in, 0), &axis));
    ST_IN_FAIL_IF(st_in_const(in, st_in_dim(in, 0, axis), &size) && size == 0, in,
                  "axis %u of x is empty, there is no element to point at", axis);
    ST_TRY(has_element(in, axis));
    return set_reduced(in, 1u << axis, st_in_int(in, STATOR_argmax_keepdims) != 0, STATOR_I64);
}

stator_status st_infer_along(st_infer *in)
{
    uint32_t axis = 0;
    ST_TRY(st_in_axis(in, st_in_int(in, st_in_place(in, "axis")), st_in_rank(in, 0), &axis));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_along_float(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, 1u << STATOR_CLASS_FLOAT, "a float dtype (cast first)"));
    return st_infer_along(in);
}

stator_status st_infer_sort(st_infer *in)
{
    uint32_t axis = 0;
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_sort_axis), st_in_rank(in, 0), &axis));
    ST_TRY(st_in_like(in, 0, 0, 0));
    return st_in_like(in, 1, 0, STATOR_I64);
}

stator_status st_infer_topk(st_infer *in)
{
    stator_ref k = 0, dims[STATOR_RANK_MAX];
    char a_text[96], b_text[96];
    uint32_t axis = 0;
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_list_count(in, STATOR_topk_k, 1));
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_topk_axis), rank, &axis));
    st_in_syms(in, STATOR_topk_k, &k, 1);
    st_in_dims(in, 0, dims);
    ST_IN_FAIL_IF(k != 0 && st_sym_le(&in->m->symtab, k, dims[axis]) == 0, in,
                  "k is %s, axis %u of x has only %s elements", st_in_sym_text(in, k, a_text), axis,
                  st_in_sym_text(in, dims[axis], b_text));
    ST_TRY(st_in_at_most(in, k, dims[axis], "k and the axis of x"));
    dims[axis] = k;
    ST_TRY(st_in_set(in, 0, st_in_dtype(in, 0), rank, dims));
    return st_in_set(in, 1, STATOR_I64, rank, dims);
}

stator_status st_infer_nonzero(st_infer *in)
{
    const stator_ref dims[2] = {st_in_size(in, st_in_rank(in, 0)),
                                st_in_unbacked(in, 0, 1, st_in_numel_bound(in, 0))};
    return st_in_set(in, 0, STATOR_I64, 2, dims);
}

stator_status st_infer_unique(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    uint32_t axis = 0;
    int64_t lo, hi = st_in_numel_bound(in, 0);
    const uint32_t rank = st_in_rank(in, 0);
    st_in_dims(in, 0, dims);
    if (!st_in_has_attr(in, STATOR_unique_axis)) {
        const stator_ref count = st_in_unbacked(in, 0, 0, hi);
        const stator_ref all = st_in_product(in, dims, rank);
        ST_TRY(st_in_set(in, 0, st_in_dtype(in, 0), 1, &count));
        ST_TRY(st_in_set(in, 1, STATOR_I64, 1, &count));
        ST_TRY(st_in_set(in, 2, STATOR_I64, 1, &all));
        return st_in_set(in, 3, STATOR_I64, 1, &count);
    }
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_unique_axis), rank, &axis));
    st_in_range(in, dims[axis], &lo, &hi);
    const stator_ref all = dims[axis];
    const stator_ref count = st_in_unbacked(in, 0, axis, hi);
    dims[axis] = count;
    ST_TRY(st_in_set(in, 0, st_in_dtype(in, 0), rank, dims));
    ST_TRY(st_in_set(in, 1, STATOR_I64, 1, &count));
    ST_TRY(st_in_set(in, 2, STATOR_I64, 1, &all));
    return st_in_set(in, 3, STATOR_I64, 1, &count);
}
