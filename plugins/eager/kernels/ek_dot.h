/* The contraction engine behind dot_general, matmul and einsum: z[batch, m, n] = sum over k of
 * x[batch, m, k] * y[batch, n, k], where each group is a list of strided axes of an operand. */
#ifndef STATOR_EK_DOT_H
#define STATOR_EK_DOT_H

#include "plugins/eager/kernels/ek_gemm.h"

/* An einsum's intermediate may have more axes than a tensor; none is of size 1, so that 63 is
 * enough for any number of elements that fits 64 bits. */
#define EK_AXES_MAX 64u

/* A list of axes of one operand, outermost first. */
typedef struct ek_axes {
    uint32_t n;
    int64_t size[EK_AXES_MAX];
    int64_t stride[EK_AXES_MAX]; /* in elements; 0 repeats */
} ek_axes;

static inline void ek_axes_add(ek_axes *a, int64_t size, int64_t stride)
{
    a->size[a->n] = size;
    a->stride[a->n++] = stride;
}
static inline int64_t ek_axes_count(const ek_axes *a)
{
    return ek_product(a->size, 0, a->n);
}
/* Element offset of the i-th index of the axes, row-major. */
static inline int64_t ek_axes_offset(const ek_axes *a, int64_t i)
{
    return ek_offset(i, a->size, a->stride, a->n);
}

typedef struct ek_contraction {
    const ek_call *call;
    const ek_tensor *x, *y, *z;     /* z: dense, its axes batch, m, n; strides are not read */
    ek_axes batch_x, batch_y, m, n; /* equal sizes in batch_x and batch_y */
    ek_axes k_x, k_y;               /* equal sizes */
    int64_t n_batch, n_m, n_n, n_k; /* from here on the engine's own */
    ek_wide *packed_x, *packed_y;
    ek_wide *scratch; /* a tile for each worker */
    int64_t tiles_m, tiles_n;
    uint8_t is_int;
} ek_contraction;

/* Computes z; x, y, z have real dtypes that are all computed as integers or all as floats. */
stator_status ek_contract(ek_contraction *c, stator_diag **err);

/* Sizes of the result of einsum (c->out[0] has its rank alone); 0 when the operands do not fit. */
bool ek_einsum_shape(const ek_call *c, int64_t *out_dims);

#endif
