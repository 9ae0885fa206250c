/* Einstein summation: an equation such as "b...ij,jk->...ik" as label numbers. Labels 0 to 25 are
 * a to z, 26 to 51 A to Z, from 52 on the axes an ellipsis stands for (counted from the last). */
#ifndef STATOR_IR_OPS_EINSUM_H
#define STATOR_IR_OPS_EINSUM_H

#include "ir/infer.h"

#define ST_EINSUM_OPERANDS_MAX 64u
#define ST_EINSUM_LETTERS 52u
#define ST_EINSUM_LABELS (ST_EINSUM_LETTERS + STATOR_RANK_MAX)
#define ST_EINSUM_LABELS_MAX (2u * ST_EINSUM_LABELS)

typedef struct st_einsum {
    uint8_t labels[ST_EINSUM_OPERANDS_MAX][STATOR_RANK_MAX]; /* one an axis */
    uint8_t out[ST_EINSUM_LABELS];
    uint32_t n_out;
} st_einsum;

/* Parses the equation for operands of these ranks; without "->" the result has the ellipsis and
 * then every label used once, in alphabetical order. */
stator_status st_einsum_parse(const char *equation, uint32_t n, const uint32_t *ranks,
                              st_einsum *out, stator_diag **err);

#endif
