/* Infer rule of scaled dot product attention, with grouped heads: H query heads share G key and
 * value heads, H a multiple of G. */
#include "ir/ops/rules.h"
#include <stator/ops.h>

/* The mask broadcasts to [B, H, T, S]. */
static stator_status check_mask(const st_infer *in, const stator_ref *scores)
{
    if (!st_in_has(in, 3)) {
        return STATOR_OK;
    }
    const uint32_t rank = st_in_rank(in, 3);
    if (st_in_dtype(in, 3) != STATOR_BOOL) {
        ST_TRY(st_in_same_dtype(in, 0, 3));
    }
    ST_TRY(st_in_rank_is(in, 3, 0, 4));
    for (uint32_t i = 0; i < rank; i++) {
        ST_TRY(st_in_fits(in, st_in_dim(in, 3, i), scores[4u - rank + i], "mask", i));
    }
    return STATOR_OK;
}

stator_status st_infer_sdpa(st_infer *in)
{
    int64_t heads, groups;
    for (uint32_t k = 0; k < 3; k++) {
        ST_TRY(st_in_rank_is(in, k, 4, 4));
        ST_TRY(st_in_class_is(in, k, 1u << STATOR_CLASS_FLOAT, "a float dtype"));
        ST_TRY(st_in_same_dtype(in, 0, k));
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 0), st_in_dim(in, k, 0), "batches"));
    }
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 1, 1), st_in_dim(in, 2, 1), "heads of k and v"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 1, 2), st_in_dim(in, 2, 2), "length of k and v"));
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, 3), st_in_dim(in, 1, 3), "depth of q and k"));
    if (st_in_const(in, st_in_dim(in, 0, 1), &heads) &&
        st_in_const(in, st_in_dim(in, 1, 1), &groups) && (groups == 0 || heads % groups != 0)) {
        return st_in_fail(in, "%lld query heads are no multiple of %lld key heads",
                          (long long)heads, (long long)groups);
    }
    ST_TRY(
        st_in_multiple(in, st_in_dim(in, 0, 1), st_in_dim(in, 1, 1), "query heads by key heads"));
    const stator_ref scores[4] = {st_in_dim(in, 0, 0), st_in_dim(in, 0, 1), st_in_dim(in, 0, 2),
                                  st_in_dim(in, 1, 2)};
    ST_TRY(check_mask(in, scores));
    const stator_ref dims[4] = {scores[0], scores[1], scores[2], st_in_dim(in, 2, 3)};
    return st_in_set(in, 0, st_in_dtype(in, 0), 4, dims);
}
