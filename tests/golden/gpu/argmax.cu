#include "gpu_prelude.h"

typedef struct k0_argmax_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
} k0_argmax_arguments;

/* Does x at i take the place of y at j? */
#define ST_BETTER(x, i, y, j, less) \
    ((x) != (x) || (y) != (y) ? (y) == (y) || ((x) != (x) && (i) < (j)) \
                              : (x) == (y) ? (i) < (j) : (less))

ST_DEVICE void st_argmax_f32(float *a, st_i64 *at, st_u32 n)
{
    for (st_u32 m = 1; m < n; m *= 2) {
        const float o = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(*a), m));
        const st_i64 ot = (st_i64)st_shuffle_xor_u64((st_u64)*at, m);
        { if (ST_BETTER(o, ot, (*a), (*at), o > (*a))) { (*a) = o; (*at) = ot; } }
    }
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

ST_KERNEL(k0_argmax, k0_argmax_arguments, 512)
{
    ST_SHARED(float, m1, 512 / ST_WARP);
    ST_SHARED(st_i64, mt1, 512 / ST_WARP);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    st_i64 *b1 = ST_GLOBAL(st_i64, ST_ARG(b1));
    if (((ST_ARG(b0)) & 15) == 0) {
        const st_i32 i0 = (st_i32)ST_BLOCK;
        float a1 = st_f32_of_bits(0xff800000u);
        st_i64 at1 = 9223372036854775807ll;
        for (st_i32 f1 = (st_i32)ST_THREAD * 4; f1 < (5000); f1 += 2048) {
            const st_i32 i1 = f1;
            const st_u32x4 w2 = st_load_u32x4(b0 + (5000 * i0 + i1));
            const float x2[4] = {st_f32_of_bits(w2.x), st_f32_of_bits(w2.y), st_f32_of_bits(w2.z), st_f32_of_bits(w2.w)};
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i1 = f1 + e;
                const float v2 = x2[e];
                const st_i64 v3 = (i1);
                { if (ST_BETTER(v2, v3, a1, at1, v2 > a1)) { a1 = v2; at1 = v3; } }
            }
        }
        st_argmax_f32(&a1, &at1, ST_WARP);
        if (ST_LANE == 0) { m1[ST_THREAD / ST_WARP] = a1; mt1[ST_THREAD / ST_WARP] = at1; }
        st_barrier();
        a1 = m1[ST_THREAD % (512 / ST_WARP)];
        at1 = mt1[ST_THREAD % (512 / ST_WARP)];
        st_argmax_f32(&a1, &at1, 512 / ST_WARP);
        const st_i64 v6 = at1;
        if (ST_THREAD == 0) b1[(i0)] = v6;
    } else {
        const st_i32 i0 = (st_i32)ST_BLOCK;
        float a1 = st_f32_of_bits(0xff800000u);
        st_i64 at1 = 9223372036854775807ll;
        for (st_i32 f1 = (st_i32)ST_THREAD * 4; f1 < (5000); f1 += 2048) {
            const st_i32 i1 = f1;
            const st_u32x4 w2 = st_take_u32x4(b0 + (5000 * i0 + i1), 4);
            const float x2[4] = {st_f32_of_bits(w2.x), st_f32_of_bits(w2.y), st_f32_of_bits(w2.z), st_f32_of_bits(w2.w)};
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i1 = f1 + e;
                const float v2 = x2[e];
                const st_i64 v3 = (i1);
                { if (ST_BETTER(v2, v3, a1, at1, v2 > a1)) { a1 = v2; at1 = v3; } }
            }
        }
        st_argmax_f32(&a1, &at1, ST_WARP);
        if (ST_LANE == 0) { m1[ST_THREAD / ST_WARP] = a1; mt1[ST_THREAD / ST_WARP] = at1; }
        st_barrier();
        a1 = m1[ST_THREAD % (512 / ST_WARP)];
        at1 = mt1[ST_THREAD % (512 / ST_WARP)];
        st_argmax_f32(&a1, &at1, 512 / ST_WARP);
        const st_i64 v6 = at1;
        if (ST_THREAD == 0) b1[(i0)] = v6;
    }
}
// 1 iterations a block, 256 bytes of shared memory, 0 of scratch

