/* Infer rules of pointwise ops: the result's shape is that of the one operand, or the NumPy
 * broadcast of all of them. In: operands of equal dtype. Out: one type. Their decompositions are
 * expression bodies in ir/ops.def. */
#include "core/base/check.h"
#include "ir/ops/rules.h"

#define CLASS(c) (1u << STATOR_CLASS_##c)

stator_status st_infer_same(st_infer *in)
{
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_same_float(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, CLASS(FLOAT) | CLASS(COMPLEX), "a float dtype (cast first)"));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_same_bits(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, CLASS(BOOL) | CLASS(INT) | CLASS(UINT), "bool or an integer"));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_abs(st_infer *in)
{
    const stator_dtype dtype = st_in_dtype(in, 0);
    const stator_dtype real = dtype == STATOR_C64    ? STATOR_F32
                              : dtype == STATOR_C128 ? STATOR_F64
                                                     : dtype;
    return st_in_like(in, 0, 0, real);
}

stator_status st_infer_predicate(st_infer *in)
{
    return st_in_like(in, 0, 0, STATOR_BOOL);
}

static stator_status dtype_attr(const st_infer *in, uint32_t a, stator_dtype *out)
{
    const int64_t dtype = st_in_int(in, a);
    *out = (stator_dtype)dtype;
    ST_IN_FAIL_IF(dtype <= STATOR_DTYPE_NONE || dtype >= STATOR_DTYPE_COUNT, in,
                  "dtype %lld is not one of 1 to %d", (long long)dtype, STATOR_DTYPE_COUNT - 1);
    return STATOR_OK;
}

stator_status st_infer_cast(st_infer *in)
{
    stator_dtype dtype = 0;
    ST_TRY(dtype_attr(in, st_in_place(in, "dtype"), &dtype));
    ST_TRY(st_in_one_of(in, st_in_place(in, "round"), "even,up"));
    return st_in_like(in, 0, 0, dtype);
}

stator_status st_infer_bitcast(st_infer *in)
{
    stator_dtype dtype = 0;
    ST_TRY(dtype_attr(in, 0, &dtype));
    ST_IN_FAIL_IF(st_dtype_bits(dtype) != st_dtype_bits(st_in_dtype(in, 0)), in,
                  "%s has %u bits and %s has %u, expected equal widths",
                  st_dtype_name(st_in_dtype(in, 0)), st_dtype_bits(st_in_dtype(in, 0)),
                  st_dtype_name(dtype), st_dtype_bits(dtype));
    return st_in_like(in, 0, 0, dtype);
}

/* Broadcasts all operands that are there; dtype 0: that of the last one. */
static stator_status broadcast_all(st_infer *in, stator_dtype dtype)
{
    stator_ref dims[STATOR_RANK_MAX], other[STATOR_RANK_MAX];
    uint32_t rank = 0, last = 0;
    for (uint32_t k = 0; k < in->n_operands; k++) {
        if (st_in_has(in, k)) {
            st_in_dims(in, k, other);
            ST_TRY(st_in_broadcast(in, dims, rank, other, st_in_rank(in, k), dims, &rank));
            last = k;
        }
    }
    return st_in_set(in, 0, dtype ? dtype : st_in_dtype(in, last), rank, dims);
}

static stator_status equal_dtypes(const st_infer *in, uint32_t first)
{
    for (uint32_t k = first + 1u; k < in->n_operands; k++) {
        ST_TRY(st_in_same_dtype(in, first, k));
    }
    return STATOR_OK;
}

stator_status st_infer_broadcast(st_infer *in)
{
    ST_TRY(equal_dtypes(in, 0));
    return broadcast_all(in, 0);
}

stator_status st_infer_broadcast_float(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, CLASS(FLOAT), "a float dtype (cast first)"));
    return st_infer_broadcast(in);
}

stator_status st_infer_broadcast_bits(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, CLASS(BOOL) | CLASS(INT) | CLASS(UINT), "bool or an integer"));
    return st_infer_broadcast(in);
}

stator_status st_infer_broadcast_int(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, CLASS(INT) | CLASS(UINT), "an integer dtype"));
    return st_infer_broadcast(in);
}

stator_status st_infer_compare(st_infer *in)
{
    ST_TRY(equal_dtypes(in, 0));
    return broadcast_all(in, STATOR_BOOL);
}

stator_status st_infer_order(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, ~CLASS(COMPLEX), "a dtype with an order"));
    return st_infer_compare(in);
}

stator_status st_infer_select(st_infer *in)
{
    ST_TRY(st_in_dtype_is(in, 0, STATOR_BOOL));
    ST_TRY(st_in_same_dtype(in, 1, 2));
    return broadcast_all(in, 0);
}

stator_status st_infer_check(st_infer *in)
{
    ST_TRY(st_in_dtype_is(in, 0, STATOR_BOOL));
    return st_in_like(in, 0, 0, 0);
}
