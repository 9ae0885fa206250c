#include "gpu_prelude.h"

typedef struct k0_reduce_sum_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
} k0_reduce_sum_arguments;

ST_DEVICE st_i32 st_sum_i32(st_i32 a, st_u32 n)
{
    for (st_u32 m = 1; m < n; m *= 2) {
        const st_i32 o = (st_i32)st_shuffle_xor_u32((st_u32)a, m);
        a = (st_i32)((st_u32)a + (st_u32)o);
    }
    return a;
}

ST_DEVICE st_u32x4 st_take_u32x4(const void *from, st_u32 n)
{
    const st_u32 *p = (const st_u32 *)from;
    if (n == 4 && (st_u64)from % 16 == 0) {
        return st_load_u32x4(from);
    }
    st_u32x4 w;
    const st_u32 x0 = st_load_u32(p + 0);
    const st_u32 x1 = st_load_u32(p + (n > 1 ? 1 : n - 1));
    const st_u32 x2 = st_load_u32(p + (n > 2 ? 2 : n - 1));
    const st_u32 x3 = st_load_u32(p + (n > 3 ? 3 : n - 1));
    w.x = x0;
    w.y = x1;
    w.z = x2;
    w.w = x3;
    return w;
}

ST_KERNEL(k0_reduce_sum, k0_reduce_sum_arguments, 512)
{
    ST_SHARED(st_i32, m1, 512 / ST_WARP);
    const st_i32 *b0 = ST_GLOBAL(const st_i32, ST_ARG(b0));
    st_i32 *b1 = ST_GLOBAL(st_i32, ST_ARG(b1));
    if (((ST_ARG(b0)) & 15) == 0) {
        st_i32 a1 = 0;
        for (st_i32 f2 = (st_i32)ST_THREAD * 4; f2 < (10000); f2 += 2048) {
            const st_i32 i2 = f2;
            const st_u32x4 w2 = st_load_u32x4(b0 + (i2));
            const st_i32 x2[4] = {(st_i32)(w2.x), (st_i32)(w2.y), (st_i32)(w2.z), (st_i32)(w2.w)};
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i2 = f2 + e;
                const st_i32 v2 = x2[e];
                a1 = (st_i32)((st_u32)a1 + (st_u32)v2);
            }
        }
        a1 = st_sum_i32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_sum_i32(m1[ST_THREAD % (512 / ST_WARP)], 512 / ST_WARP);
        const st_i32 v6 = a1;
        if (ST_THREAD == 0) b1[(0)] = v6;
    } else {
        st_i32 a1 = 0;
        for (st_i32 f2 = (st_i32)ST_THREAD * 4; f2 < (10000); f2 += 2048) {
            const st_i32 i2 = f2;
            const st_u32x4 w2 = st_take_u32x4(b0 + (i2), 4);
            const st_i32 x2[4] = {(st_i32)(w2.x), (st_i32)(w2.y), (st_i32)(w2.z), (st_i32)(w2.w)};
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i2 = f2 + e;
                const st_i32 v2 = x2[e];
                a1 = (st_i32)((st_u32)a1 + (st_u32)v2);
            }
        }
        a1 = st_sum_i32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_sum_i32(m1[ST_THREAD % (512 / ST_WARP)], 512 / ST_WARP);
        const st_i32 v6 = a1;
        if (ST_THREAD == 0) b1[(0)] = v6;
    }
}
// 1 iterations a block, 128 bytes of shared memory, 0 of scratch

