#include "gpu_prelude.h"

typedef struct k0_reduce_sum_reduce_sum_add_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* in2 */
    st_u64 b3; /* out0 */
} k0_reduce_sum_reduce_sum_add_arguments;

ST_DEVICE float st_sum_f32(float a, st_u32 n)
{
    for (st_u32 m = 1; m < n; m *= 2) {
        const float o = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(a), m));
        a = (float)(a + o);
    }
    return a;
}

ST_KERNEL(k0_reduce_sum_reduce_sum_add, k0_reduce_sum_reduce_sum_add_arguments, 256)
{
    ST_SHARED(float, m1, 256 / ST_WARP);
    ST_SHARED(float, m5, 256 / ST_WARP);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    const float *b2 = ST_GLOBAL(const float, ST_ARG(b2));
    float *b3 = ST_GLOBAL(float, ST_ARG(b3));
    const float v8 = 1024.0f;
    const float v18 = 9.999999747378752e-06f;
    const st_i32 i0 = (st_i32)ST_BLOCK;
    float a1 = 0;
    for (st_i32 i1 = (st_i32)ST_THREAD; i1 < (1024); i1 += 256) {
        const float v2 = b0[(1024 * i0 + i1)];
        a1 = (float)(a1 + v2);
    }
    float a5 = 0;
    a1 = st_sum_f32(a1, ST_WARP);
    if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
    st_barrier();
    a1 = st_sum_f32(m1[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
    const float v7 = a1;
    const float v41 = (float)(v7 / v8);
    for (st_i32 i2 = (st_i32)ST_THREAD; i2 < (1024); i2 += 256) {
        const float v6 = b0[(1024 * i0 + i2)];
        const float v42 = (float)(v6 - v41);
        const float v43 = (float)(v42 * v42);
        a5 = (float)(a5 + v43);
    }
    a5 = st_sum_f32(a5, ST_WARP);
    if (ST_LANE == 0) m5[ST_THREAD / ST_WARP] = a5;
    st_barrier();
    a5 = st_sum_f32(m5[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
    const float v16 = a5;
    const float v44 = (float)(v16 / v8);
    const float v45 = (float)(v44 + v18);
    const float v34 = 1.0f;
    const float v46 = (float)(st_sqrt_f32(v45));
    const float v47 = (float)(v34 / v46);
    for (st_i32 i3 = (st_i32)ST_THREAD; i3 < (1024); i3 += 256) {
        const float v14 = b0[(1024 * i0 + i3)];
        const float v48 = (float)(v14 - v41);
        const float v49 = (float)(v48 * v47);
        const float v22 = b1[(i3)];
        const float v50 = (float)(v49 * v22);
        const float v24 = b2[(i3)];
        const float v51 = (float)(v50 + v24);
        b3[(1024 * i0 + i3)] = v51;
    }
}
// 1 iterations a block, 128 bytes of shared memory, 0 of scratch

