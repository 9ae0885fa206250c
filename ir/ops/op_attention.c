/* Infer rules of scaled dot product attention and of its gradient, with grouped heads: H query
 * heads share G key and value heads, H a multiple of G. */
#include "ir/ops/rules.h"
#include <stator/ops.h>

/* Operand `at`, the mask, broadcasts to [B, H, T, S]. */
static stator_status check_mask(const st_infer *in, uint32_t at, const stator_ref *scores)
{
    if (!st_in_has(in, at)) {
        return STATOR_OK;
    }
    const uint32_t rank = st_in_rank(in, at);
    if (st_in_dtype(in, at) != STATOR_BOOL) {
        ST_TRY(st_in_same_dtype(in, 0, at));
    }
    ST_TRY(st_in_rank_is(in, at, 0, 4));
    for (uint32_t i = 0; i < rank; i++) {
        ST_TRY(st_in_fits(in, st_in_dim(in, at, i), scores[4u - rank + i], "mask", i));
    }
    return STATOR_OK;
}

/* is_causal and finite, which both ops have at the same places, are no or yes: a kernel may ask for
 * 0 or for 1. */
static stator_status check_switches(const st_infer *in)
{
    _Static_assert((int)STATOR_sdpa_is_causal == (int)STATOR_sdpa_gradient_is_causal &&
                       (int)STATOR_sdpa_finite == (int)STATOR_sdpa_gradient_finite,
                   "sdpa and its gradient have the same attributes");
    static const struct {
        const char *name;
        uint32_t place;
    } switches[] = {{"is_causal", STATOR_sdpa_is_causal}, {"finite", STATOR_sdpa_finite}};
    for (uint32_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const int64_t value = st_in_int(in, switches[i].place);
        ST_IN_FAIL_IF(value != 0 && value != 1, in, "%s is %lld, expected 0 or 1", switches[i].name,
                      (long long)value);
    }
    return STATOR_OK;
}

/* q, k and v, and the mask, which is operand `mask`. */
static stator_status check_attention(st_infer *in, uint32_t mask)
{
    int64_t heads, groups;
    ST_TRY(check_switches(in));
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
    return check_mask(in, mask, scores);
}

stator_status st_infer_sdpa(st_infer *in)
{
    ST_TRY(check_attention(in, 3));
    const stator_ref dims[4] = {st_in_dim(in, 0, 0), st_in_dim(in, 0, 1), st_in_dim(in, 0, 2),
                                st_in_dim(in, 2, 3)};
    return st_in_set(in, 0, st_in_dtype(in, 0), 4, dims);
}

stator_status st_infer_sdpa_gradient(st_infer *in)
{
    static const char *const axes[] = {"batches of q and dy", "heads of q and dy",
                                       "length of q and dy"};
    ST_TRY(check_attention(in, 4));
    ST_TRY(st_in_rank_is(in, 3, 4, 4));
    ST_TRY(st_in_same_dtype(in, 0, 3));
    for (uint32_t i = 0; i < 3; i++) {
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, i), st_in_dim(in, 3, i), axes[i]));
    }
    ST_TRY(st_in_same_dim(in, st_in_dim(in, 2, 3), st_in_dim(in, 3, 3), "width of v and dy"));
    for (uint32_t k = 0; k < 3; k++) {
        ST_TRY(st_in_like(in, k, k, st_in_dtype(in, k)));
    }
    return STATOR_OK;
}
