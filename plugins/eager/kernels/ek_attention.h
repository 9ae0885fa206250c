/* What the kernels of sdpa and sdpa_gradient share: the sizes of a call and its masked scores. */
#ifndef STATOR_EK_ATTENTION_H
#define STATOR_EK_ATTENTION_H

#include "plugins/eager/kernels/ek_gemm.h"

typedef struct ek_attention {
    const ek_call *call;
    int64_t batch, heads, groups, queries, keys, depth, width;
    const ek_tensor *mask;  /* NULL: none */
    int64_t mask_stride[4]; /* strides of [B, H, T, S], 0 where it broadcasts */
    double scale;
    bool is_causal;
} ek_attention;

/* Reads q, k and v, operands 0 to 2, the mask, operand `mask_at`, and the attributes.
 * INVALID_ARGUMENT: the sizes do not fit. */
stator_status ek_attention_init(ek_attention *a, const ek_call *call, uint32_t mask_at,
                                stator_diag **err);
/* Score of key s for query t, of which `product` is that of q and k: -inf where the mask or
 * causality forbids it. */
double ek_attention_score(const ek_attention *a, int64_t batch, int64_t head, int64_t t, int64_t s,
                          double product);
/* Replaces n scores by the exponentials of what they are below the greatest and returns their sum:
 * 0, and the exponentials too, where there is nothing to attend to. */
double ek_attention_soften(double *scores, int64_t n);

#endif
