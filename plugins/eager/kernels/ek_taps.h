/* Where the taps of a sliding window fall: shared by conv, its gradients and col2im.
 *
 * A window op couples two grids: positions (the outputs of a convolution) and an image (its input).
 * Along axis a, position p and tap k touch image index p*stride + k*dilation - low, which may lie
 * outside. Positions are walked in row-major order, a run along the last axis at a time. */
#ifndef STATOR_EK_TAPS_H
#define STATOR_EK_TAPS_H

#include "plugins/eager/kernels/ek_gemm.h"

#define EK_TAPS_AXES 14u /* spatial axes at most */

typedef struct ek_taps {
    uint32_t n; /* spatial axes */
    int64_t position[EK_TAPS_AXES], image[EK_TAPS_AXES], kernel[EK_TAPS_AXES];
    int64_t stride[EK_TAPS_AXES], dilation[EK_TAPS_AXES], low[EK_TAPS_AXES];
    int64_t n_positions, n_image, n_kernel; /* products */
} ek_taps;

/* Part of a run along the last axis that lies inside the image. */
typedef struct ek_tap_run {
    int64_t length; /* positions up to the end of the row, or of what was asked for */
    int64_t skip;   /* positions before the first inside */
    int64_t count;  /* inside, one after the other */
    int64_t offset; /* image element of the first inside; the next ones are stride[n-1] apart */
} ek_tap_run;

/* Reads strides, dilations and low paddings (places of the attributes) and fills the products.
 * position, image and kernel are filled by the caller before. */
static inline void ek_taps_read(const ek_call *c, ek_taps *t, uint32_t strides, uint32_t pads,
                                uint32_t dilations)
{
    for (uint32_t a = 0; a < t->n; a++) {
        t->stride[a] = ek_int_at(c, strides, a, 1);
        t->dilation[a] = ek_int_at(c, dilations, a, 1);
        t->low[a] = ek_int_at(c, pads, a, 0);
    }
    t->n_positions = ek_product(t->position, 0, t->n);
    t->n_image = ek_product(t->image, 0, t->n);
    t->n_kernel = ek_product(t->kernel, 0, t->n);
}
/* Refuses what would overflow. */
stator_status ek_taps_check(const ek_call *c, const ek_taps *t, stator_diag **err);
/* The values one tap sees at positions [first, first + n)
 * of x from element `base` on, zeros outside the image. */
void ek_taps_gather(const ek_taps *t, const ek_tensor *x, int64_t base, const int64_t *tap,
                    int64_t first, int64_t n, ek_wide *row);

/* The run of positions [p, p + length), length <= limit, for one tap (an index on each axis). */
static inline ek_tap_run ek_tap_run_at(const ek_taps *t, const int64_t *tap, int64_t p,
                                       int64_t limit)
{
    int64_t at[EK_TAPS_AXES] = {0};
    const uint32_t last = t->n - 1u;
    ek_unflatten(p, t->position, t->n, at);
    ek_tap_run run = {.length = t->position[last] - at[last]};
    run.length = run.length < limit ? run.length : limit;
    int64_t offset = 0;
    for (uint32_t a = 0; a < last; a++) {
        const int64_t i = at[a] * t->stride[a] + tap[a] * t->dilation[a] - t->low[a];
        if (i < 0 || i >= t->image[a]) {
            return run;
        }
        offset = offset * t->image[a] + i;
    }
    const int64_t stride = t->stride[last];
    const int64_t first = at[last] * stride + tap[last] * t->dilation[last] - t->low[last];
    run.skip = first >= 0 ? 0 : (-first + stride - 1) / stride;
    const int64_t end = first >= t->image[last] ? 0 : (t->image[last] - 1 - first) / stride + 1;
    run.skip = run.skip < run.length ? run.skip : run.length;
    run.count = (end < run.length ? end : run.length) - run.skip;
    run.count = run.count > 0 ? run.count : 0;
    run.offset = offset * t->image[last] + first + run.skip * stride;
    return run;
}

#endif
