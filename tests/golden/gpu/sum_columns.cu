#include "gpu_prelude.h"

typedef struct k0_reduce_sum_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
} k0_reduce_sum_arguments;

ST_KERNEL(k0_reduce_sum, k0_reduce_sum_arguments, 256)
{
    ST_SHARED(float, m1, 256);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    float *b1 = ST_GLOBAL(float, ST_ARG(b1));
    const st_i32 i0 = (st_i32)(ST_BLOCK * 32 + ST_THREAD % 32);
    float a1 = 0;
    for (st_i32 i1 = (st_i32)(ST_THREAD / 32); i1 < (64); i1 += 8) {
        const float v2 = b0[(i0 + 65536 * i1)];
        a1 = (float)(a1 + v2);
    }
    m1[ST_THREAD] = a1;
    st_barrier();
    a1 = m1[ST_THREAD % 32];
    for (st_u32 k = ST_THREAD % 32 + 32; k < 256; k += 32) {
        const float o = m1[k];
        a1 = (float)(a1 + o);
    }
    const float v5 = a1;
    if (ST_THREAD / 32 == 0) b1[(i0)] = v5;
}
// 32 iterations a block, 2048 bytes of shared memory, 0 of scratch

