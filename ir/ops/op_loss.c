/* Infer rules of losses. In: scores x, targets, and weights. Out: one value a row or an element, or
 * with reduction sum and mean a scalar, of x's dtype. */
#include "core/base/check.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>

#include <stdio.h>

#define FLOAT_ONLY (1u << STATOR_CLASS_FLOAT)

/* `reduction` is the first attribute of every loss. */
#define REDUCTION STATOR_nll_loss_reduction
_Static_assert(STATOR_mse_loss_reduction == REDUCTION && STATOR_l1_loss_reduction == REDUCTION &&
                   STATOR_huber_loss_reduction == REDUCTION &&
                   STATOR_bce_with_logits_reduction == REDUCTION &&
                   STATOR_kl_div_reduction == REDUCTION &&
                   STATOR_cross_entropy_reduction == REDUCTION,
               "reduction comes first");

/* The result: like operand `rows` where nothing is reduced. */
static stator_status result(st_infer *in, uint32_t rows, const char *words)
{
    const stator_dtype dtype = st_in_dtype(in, 0);
    ST_TRY(st_in_one_of(in, REDUCTION, words));
    return st_in_string_is(in, REDUCTION, "none") ? st_in_like(in, 0, rows, dtype)
                                                  : st_in_set(in, 0, dtype, 0, NULL);
}

/* The target has x's dtype and sizes. */
static stator_status like_x(const st_infer *in)
{
    const uint32_t rank = st_in_rank(in, 0);
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_same_dtype(in, 0, 1));
    ST_TRY(st_in_rank_is(in, 1, rank, rank));
    for (uint32_t i = 0; i < rank; i++) {
        ST_TRY(st_in_same_dim(in, st_in_dim(in, 0, i), st_in_dim(in, 1, i), "x and target"));
    }
    return STATOR_OK;
}

stator_status st_infer_element_loss(st_infer *in)
{
    ST_TRY(like_x(in));
    return result(in, 0, "none,sum,mean");
}

stator_status st_infer_bce_with_logits(st_infer *in)
{
    char name[32];
    ST_TRY(like_x(in));
    for (uint32_t k = 2; k < 4; k++) {
        if (!st_in_has(in, k)) {
            continue;
        }
        const uint32_t rank = st_in_rank(in, k), x_rank = st_in_rank(in, 0);
        ST_TRY(st_in_same_dtype(in, 0, k));
        ST_TRY(st_in_rank_is(in, k, 0, x_rank));
        for (uint32_t i = 0; i < rank; i++) {
            ST_TRY(st_in_fits(in, st_in_dim(in, k, i), st_in_dim(in, 0, x_rank - rank + i),
                              st_in_operand_name(in, k, name), i));
        }
    }
    return result(in, 0, "none,sum,mean");
}

stator_status st_infer_kl_div(st_infer *in)
{
    ST_TRY(like_x(in));
    ST_TRY(st_in_rank_is(in, 0, st_in_has_attr(in, STATOR_kl_div_temperature) ? 2 : 1,
                         STATOR_RANK_MAX));
    return result(in, 0, "none,sum,mean,batchmean");
}

/* x has classes along axis 1; the targets are indices in x's shape without it, w has an entry for
 * each class. */
static stator_status index_targets(const st_infer *in)
{
    char name[32], what[48];
    const uint32_t rank = st_in_rank(in, 0);
    (void)snprintf(what, sizeof what, "%s and target", st_in_operand_name(in, 0, name));
    ST_TRY(st_in_rank_is(in, 1, rank - 1u, rank - 1u));
    ST_TRY(st_in_index_dtype(in, 1));
    for (uint32_t i = 0; i + 1u < rank; i++) {
        ST_TRY(
            st_in_same_dim(in, st_in_dim(in, 0, i == 0 ? 0 : i + 1u), st_in_dim(in, 1, i), what));
    }
    return STATOR_OK;
}

static stator_status class_weights(const st_infer *in)
{
    if (!st_in_has(in, 2)) {
        return STATOR_OK;
    }
    ST_TRY(st_in_same_dtype(in, 0, 2));
    ST_TRY(st_in_rank_is(in, 2, 1, 1));
    return st_in_same_dim(in, st_in_dim(in, 2, 0), st_in_dim(in, 0, 1), "w and classes");
}

stator_status st_infer_nll_loss(st_infer *in)
{
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    ST_TRY(index_targets(in));
    ST_TRY(class_weights(in));
    return result(in, 1, "none,sum,mean");
}

stator_status st_infer_cross_entropy(st_infer *in)
{
    const uint32_t rank = st_in_rank(in, 0);
    stator_ref rows[STATOR_RANK_MAX];
    ST_TRY(st_in_class_is(in, 0, FLOAT_ONLY, "a float dtype"));
    ST_TRY(st_in_rank_is(in, 0, 2, STATOR_RANK_MAX));
    ST_TRY(st_dtype_class(st_in_dtype(in, 1)) == STATOR_CLASS_FLOAT ? like_x(in)
                                                                    : index_targets(in));
    ST_TRY(class_weights(in));
    ST_TRY(st_in_one_of(in, REDUCTION, "none,sum,mean"));
    for (uint32_t i = 0; i + 1u < rank; i++) {
        rows[i] = st_in_dim(in, 0, i == 0 ? 0 : i + 1u);
    }
    const uint32_t rows_rank = st_in_string_is(in, REDUCTION, "none") ? rank - 1u : 0;
    return st_in_set(in, 0, st_in_dtype(in, 0), rows_rank, rows);
}
