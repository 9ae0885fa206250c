/* Infer rules of normalisations. In: x and optional per-channel or per-axis vectors; the
 * float dtypes of scales and statistics may differ from x's, as ONNX allows. Out: x's type, and the
 * types of statistics. */
#include "ir/ops/rules.h"
#include <stator/ops.h>

#define FLOAT_ONLY (1u << STATOR_CLASS_FLOAT)

static stator_status all_float(const st_infer *in)
{
    for (uint32_t k = 0; k < in->n_operands; k++) {
        ST_TRY(st_in_class_is(in, k, FLOAT_ONLY, "a float dtype"));
    }
    return STATOR_OK;
}

/* Operand k broadcasts to x without changing its shape. */
static stator_status fits_x(const st_infer *in, uint32_t k)
{
    char name[32];
    if (!st_in_has(in, k)) {
        return STATOR_OK;
    }
    const uint32_t x_rank = st_in_rank(in, 0), rank = st_in_rank(in, k);
    st_in_operand_name(in, k, name);
    ST_IN_FAIL_IF(rank > x_rank, in, "%s has rank %u, more than x (%u)", name, rank, x_rank);
    for (uint32_t i = 0; i < rank; i++) {
        ST_TRY(st_in_fits(in, st_in_dim(in, k, i), st_in_dim(in, 0, x_rank - rank + i), name, i));
    }
    return STATOR_OK;
}

static stator_dtype wide_of(stator_dtype dtype)
{
    return dtype == STATOR_F64 ? STATOR_F64 : STATOR_F32;
}

stator_status st_infer_layer_norm(st_infer *in)
{
    stator_ref dims[STATOR_RANK_MAX];
    uint32_t axis = 0;
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(all_float(in));
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_layer_norm_axis), rank, &axis));
    ST_TRY(fits_x(in, 1));
    ST_TRY(fits_x(in, 2));
    st_in_dims(in, 0, dims);
    for (uint32_t i = axis; i < rank; i++) {
        dims[i] = st_in_size(in, 1);
    }
    ST_TRY(st_in_like(in, 0, 0, 0));
    for (uint32_t k = 1; k < 3; k++) {
        ST_TRY(st_in_set(in, k, wide_of(st_in_dtype(in, 0)), rank, dims));
    }
    return STATOR_OK;
}

stator_status st_infer_rms_norm(st_infer *in)
{
    uint32_t axis = 0;
    ST_TRY(all_float(in));
    ST_TRY(st_in_axis(in, st_in_int(in, STATOR_rms_norm_axis), st_in_rank(in, 0), &axis));
    ST_TRY(fits_x(in, 1));
    return st_in_like(in, 0, 0, 0);
}

/* Operands first..last are vectors with one entry a channel (axis 1 of x). */
static stator_status per_channel(const st_infer *in, uint32_t first, uint32_t last)
{
    char name[32];
    ST_TRY(all_float(in));
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    for (uint32_t k = first; k <= last; k++) {
        if (st_in_has(in, k)) {
            ST_TRY(st_in_rank_is(in, k, 1, 1));
            ST_TRY(st_in_same_dim(in, st_in_dim(in, k, 0), st_in_dim(in, 0, 1),
                                  st_in_operand_name(in, k, name)));
        }
    }
    return STATOR_OK;
}

stator_status st_infer_batch_norm(st_infer *in)
{
    ST_TRY(per_channel(in, 1, 4));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_batch_norm_train(st_infer *in)
{
    ST_TRY(per_channel(in, 1, 4));
    ST_TRY(st_in_like(in, 0, 0, 0));
    ST_TRY(st_in_like(in, 1, 3, 0));
    return st_in_like(in, 2, 4, 0);
}

stator_status st_infer_group_norm(st_infer *in)
{
    int64_t channels;
    const int64_t groups = st_in_int(in, STATOR_group_norm_groups);
    ST_TRY(per_channel(in, 1, 2));
    ST_IN_FAIL_IF(groups < 1 ||
                      (st_in_const(in, st_in_dim(in, 0, 1), &channels) && channels % groups != 0),
                  in, "groups is %lld, expected a divisor of the channels", (long long)groups);
    ST_TRY(st_in_multiple(in, st_in_dim(in, 0, 1), st_in_size(in, groups), "channels by groups"));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_lrn(st_infer *in)
{
    ST_TRY(all_float(in));
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    ST_IN_FAIL_IF(st_in_int(in, STATOR_lrn_size) < 1, in, "size is %lld, expected at least 1",
                  (long long)st_in_int(in, STATOR_lrn_size));
    return st_in_like(in, 0, 0, 0);
}

stator_status st_infer_lp_norm(st_infer *in)
{
    const int64_t p = st_in_int(in, STATOR_lp_norm_p);
    ST_IN_FAIL_IF(p != 1 && p != 2, in, "p is %lld, expected 1 or 2", (long long)p);
    return st_infer_along_float(in);
}
