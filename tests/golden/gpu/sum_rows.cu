#include "gpu_prelude.h"

typedef struct k0_reduce_sum_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
    st_i64 s0;
} k0_reduce_sum_arguments;

ST_DEVICE float st_sum_f32(float a, st_u32 n)
{
    for (st_u32 m = 1; m < n; m *= 2) {
        const float o = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(a), m));
        a = (float)(a + o);
    }
    return a;
}

ST_DEVICE st_u32 st_take_u16x2(const void *from, st_u32 n)
{
    const st_u16 *p = (const st_u16 *)from;
    if (n == 2 && (st_u64)from % 4 == 0) {
        return st_load_u32(from);
    }
    st_u32 w;
    const st_u32 x0 = p[0];
    const st_u32 x1 = p[(n > 1 ? 1 : n - 1)];
    w = x0 | x1 << 16;
    return w;
}

ST_KERNEL(k0_reduce_sum, k0_reduce_sum_arguments, 512)
{
    ST_SHARED(float, m1, 512 / ST_WARP);
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    st_u16 *b1 = ST_GLOBAL(st_u16, ST_ARG(b1));
    const st_i64 s0 = (st_i64)ST_ARG(s0);
    if (((ST_ARG(b0)) & 3) == 0) {
        const st_i64 i0 = (st_i64)ST_BLOCK;
        float a1 = 0;
        for (st_i64 f1 = (st_i64)ST_THREAD * 2; f1 < (2000ll); f1 += 1024) {
            const st_i64 i1 = f1;
            const st_u32 w2 = st_load_u32(b0 + (2000ll * i0 + i1));
            const st_u16 x2[2] = {(st_u16)(w2), (st_u16)(w2 >> 16)};
            ST_UNROLL
            for (st_i64 e = 0; e < 2; e++) {
                const st_i64 i1 = f1 + e;
                const st_u16 v2 = x2[e];
                const float v12 = (float)st_f32_of_bf16(v2);
                a1 = (float)(a1 + v12);
            }
        }
        a1 = st_sum_f32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_sum_f32(m1[ST_THREAD % (512 / ST_WARP)], 512 / ST_WARP);
        const float v6 = a1;
        const st_u16 v13 = (st_u16)st_bf16_of_f32(v6);
        if (ST_THREAD == 0) b1[(i0)] = v13;
    } else {
        const st_i64 i0 = (st_i64)ST_BLOCK;
        float a1 = 0;
        for (st_i64 f1 = (st_i64)ST_THREAD * 2; f1 < (2000ll); f1 += 1024) {
            const st_i64 i1 = f1;
            const st_u32 w2 = st_take_u16x2(b0 + (2000ll * i0 + i1), 2);
            const st_u16 x2[2] = {(st_u16)(w2), (st_u16)(w2 >> 16)};
            ST_NO_UNROLL
            for (st_i64 e = 0; e < 2; e++) {
                const st_i64 i1 = f1 + e;
                const st_u16 v2 = x2[e];
                const float v12 = (float)st_f32_of_bf16(v2);
                a1 = (float)(a1 + v12);
            }
        }
        a1 = st_sum_f32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_sum_f32(m1[ST_THREAD % (512 / ST_WARP)], 512 / ST_WARP);
        const float v6 = a1;
        const st_u16 v13 = (st_u16)st_bf16_of_f32(v6);
        if (ST_THREAD == 0) b1[(i0)] = v13;
    }
}
// 1 iterations a block, 128 bytes of shared memory, 0 of scratch

