#include "gpu_prelude.h"

typedef struct k0_reduce_sum_reduce_max_sub_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
} k0_reduce_sum_reduce_max_sub_arguments;

ST_KERNEL(k0_reduce_sum_reduce_max_sub, k0_reduce_sum_reduce_max_sub_arguments, 1024)
{
    ST_SHARED(float, m1, 1024);
    ST_SHARED(float, m2, 1024);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    float *b1 = ST_GLOBAL(float, ST_ARG(b1));
    const st_i32 f0 = (st_i32)(ST_BLOCK * 32 + ST_THREAD % 32);
    const st_bool is_column = f0 < (4095);
    const st_i32 i0 = is_column ? f0 : (4095) - 1;
    float a1 = 0;
    float a2 = st_f32_of_bits(0xff800000u);
    if (is_column) for (st_i32 i1 = (st_i32)(ST_THREAD / 32); i1 < (2048); i1 += 32) {
        const float v3 = b0[(i0 + 4095 * i1)];
        a1 = (float)(a1 + v3);
        a2 = (float)(st_maximum_f32(a2, v3));
    }
    m2[ST_THREAD] = a2;
    st_barrier();
    a2 = m2[ST_THREAD % 32];
    for (st_u32 k = ST_THREAD % 32 + 32; k < 1024; k += 32) {
        const float o = m2[k];
        a2 = (float)(st_maximum_f32(a2, o));
    }
    const float v7 = a2;
    m1[ST_THREAD] = a1;
    st_barrier();
    a1 = m1[ST_THREAD % 32];
    for (st_u32 k = ST_THREAD % 32 + 32; k < 1024; k += 32) {
        const float o = m1[k];
        a1 = (float)(a1 + o);
    }
    const float v8 = a1;
    const float v13 = (float)(v7 - v8);
    if (is_column && ST_THREAD / 32 == 0) b1[(i0)] = v13;
}
// 32 iterations a block, 16384 bytes of shared memory, 0 of scratch

