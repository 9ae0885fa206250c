/* Softmax of rows of a matrix, a block each, with exp2 in the place of exp: the greatest of a row and
 * the sum of a row are taken over the block by shuffles and one barrier each. */
#include "gpu_prelude.h"

#define THREADS 128
#define WARPS (THREADS / ST_WARP)

struct softmax_arguments {
    st_u64 x, y;
    st_i64 columns;
};

/* 2 to the x, for x <= 0: a polynomial, whose bits are equal on every device. */
ST_DEVICE float exp2_of(float x) {
    const float whole = st_floor_f32(x);
    const float r = x - whole;
    float p = st_fma_f32(1.8775767e-3f, r, 8.9893397e-3f);
    p = st_fma_f32(p, r, 5.5826318e-2f);
    p = st_fma_f32(p, r, 2.4015361e-1f);
    p = st_fma_f32(p, r, 6.9315308e-1f);
    p = st_fma_f32(p, r, 9.9999994e-1f);
    if (whole < -126.0f) {
        return 0.0f;
    }
    return p * st_f32_of_bits((st_u32)((st_i32)whole + 127) << 23);
}

ST_DEVICE float greater(float a, float b) {
    return a > b ? a : b;
}

ST_KERNEL(softmax, struct softmax_arguments, THREADS) {
    ST_SHARED(float, maxima, WARPS);
    ST_SHARED(float, sums, WARPS);
    const float *x = ST_GLOBAL(const float, ST_ARG(x)) + ST_BLOCK * ST_ARG(columns);
    float *y = ST_GLOBAL(float, ST_ARG(y)) + ST_BLOCK * ST_ARG(columns);
    float top = -3.0e38f;
    float sum = 0.0f;
    for (st_i64 i = ST_THREAD; i < ST_ARG(columns); i += THREADS) {
        top = greater(top, x[i]);
    }
    for (st_u32 mask = ST_WARP / 2; mask > 0; mask /= 2) {
        top = greater(top, st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(top), mask)));
    }
    if (ST_LANE == 0) {
        maxima[ST_THREAD / ST_WARP] = top;
    }
    st_barrier();
    for (st_u32 i = 0; i < WARPS; i++) {
        top = greater(top, maxima[i]);
    }
    for (st_i64 i = ST_THREAD; i < ST_ARG(columns); i += THREADS) {
        sum += exp2_of(x[i] - top);
    }
    for (st_u32 mask = ST_WARP / 2; mask > 0; mask /= 2) {
        sum += st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(sum), mask));
    }
    if (ST_LANE == 0) {
        sums[ST_THREAD / ST_WARP] = sum;
    }
    st_barrier();
    sum = 0.0f;
    for (st_u32 i = 0; i < WARPS; i++) {
        sum += sums[i];
    }
    for (st_i64 i = ST_THREAD; i < ST_ARG(columns); i += THREADS) {
        y[i] = exp2_of(x[i] - top) / sum;
    }
}
