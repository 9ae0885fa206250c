#include "gpu_prelude.h"

typedef struct k0_reduce_sum_reduce_sum_add_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_reduce_sum_reduce_sum_add_arguments;

ST_DEVICE float st_sum_f32(float a, st_u32 n)
{
    for (st_u32 m = 1; m < n; m *= 2) {
        const float o = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(a), m));
        a = (float)(a + o);
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

ST_DEVICE void st_give_u32x4(void *to, st_u32 n, st_u32 x, st_u32 y, st_u32 z, st_u32 w)
{
    st_u32 *p = (st_u32 *)to;
    if (n == 4 && (st_u64)to % 16 == 0) {
        st_store_u32x4(to, x, y, z, w);
        return;
    }
    if (n > 0) st_store_u32(p + 0, x);
    if (n > 1) st_store_u32(p + 1, y);
    if (n > 2) st_store_u32(p + 2, z);
    if (n > 3) st_store_u32(p + 3, w);
}

ST_KERNEL_BLOCKS(k0_reduce_sum_reduce_sum_add, k0_reduce_sum_reduce_sum_add_arguments, 256, 4)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    if (((ST_ARG(b0) | ST_ARG(b1) | ST_ARG(b2)) & 15) == 0) {
        const float v8 = 100.0f;
        const float v18 = 9.999999747378752e-06f;
        const st_i32 i0 = (st_i32)(ST_BLOCK * 8 + ST_THREAD / 32);
        float a1 = 0;
        st_u32x4 w2[1];
        ST_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 i1 = (j1 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (i1 < 100) {
                w2[j1] = st_load_u32x4(b0 + (100 * i0 + i1));
            }
        }
        ST_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 f1 = (j1 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (f1 < 100) {
                const st_i32 i1 = f1;
                const float x2[4] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y), st_f32_of_bits(w2[j1].z), st_f32_of_bits(w2[j1].w)};
                ST_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i1 = f1 + e;
                    const float v2 = x2[e];
                    a1 = (float)(a1 + v2);
                }
            }
        }
        float a5 = 0;
        a1 = st_sum_f32(a1, 32);
        const float v7 = a1;
        const float v40 = (float)(v7 / v8);
        ST_UNROLL
        for (st_i32 j2 = 0; j2 < 1; j2++) {
            const st_i32 f2 = (j2 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (f2 < 100) {
                const st_i32 i2 = f2;
                const float x6[4] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y), st_f32_of_bits(w2[j2].z), st_f32_of_bits(w2[j2].w)};
                ST_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i2 = f2 + e;
                    const float v6 = x6[e];
                    const float v41 = (float)(v6 - v40);
                    const float v42 = (float)(v41 * v41);
                    a5 = (float)(a5 + v42);
                }
            }
        }
        a5 = st_sum_f32(a5, 32);
        const float v16 = a5;
        const float v43 = (float)(v16 / v8);
        const float v44 = (float)(v43 + v18);
        const float v33 = 1.0f;
        const float v45 = (float)(st_sqrt_f32(v44));
        const float v46 = (float)(v33 / v45);
        st_u32x4 w22[1];
        ST_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 i3 = (j3 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (i3 < 100) {
                w22[j3] = st_load_u32x4(b1 + (i3));
            }
        }
        ST_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 f3 = (j3 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (f3 < 100) {
                const st_i32 i3 = f3;
                const float x14[4] = {st_f32_of_bits(w2[j3].x), st_f32_of_bits(w2[j3].y), st_f32_of_bits(w2[j3].z), st_f32_of_bits(w2[j3].w)};
                const float x22[4] = {st_f32_of_bits(w22[j3].x), st_f32_of_bits(w22[j3].y), st_f32_of_bits(w22[j3].z), st_f32_of_bits(w22[j3].w)};
                float x25[4];
                ST_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i3 = f3 + e;
                    const float v14 = x14[e];
                    const float v47 = (float)(v14 - v40);
                    const float v48 = (float)(v47 * v46);
                    const float v22 = x22[e];
                    const float v49 = (float)(v48 * v22);
                    const float v50 = (float)(v49 + v22);
                    x25[e] = v50;
                }
                st_store_u32x4(b2 + (100 * i0 + i3), st_bits_of_f32(x25[0]), st_bits_of_f32(x25[1]), st_bits_of_f32(x25[2]), st_bits_of_f32(x25[3]));
            }
        }
    } else {
        const float v8 = 100.0f;
        const float v18 = 9.999999747378752e-06f;
        const st_i32 i0 = (st_i32)(ST_BLOCK * 8 + ST_THREAD / 32);
        float a1 = 0;
        st_u32x4 w2[1];
        ST_NO_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 i1 = (j1 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (i1 < 100) {
                w2[j1] = st_take_u32x4(b0 + (100 * i0 + i1), 4);
            }
        }
        ST_NO_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 f1 = (j1 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (f1 < 100) {
                const st_i32 i1 = f1;
                const float x2[4] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y), st_f32_of_bits(w2[j1].z), st_f32_of_bits(w2[j1].w)};
                ST_NO_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i1 = f1 + e;
                    const float v2 = x2[e];
                    a1 = (float)(a1 + v2);
                }
            }
        }
        float a5 = 0;
        a1 = st_sum_f32(a1, 32);
        const float v7 = a1;
        const float v40 = (float)(v7 / v8);
        ST_NO_UNROLL
        for (st_i32 j2 = 0; j2 < 1; j2++) {
            const st_i32 f2 = (j2 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (f2 < 100) {
                const st_i32 i2 = f2;
                const float x6[4] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y), st_f32_of_bits(w2[j2].z), st_f32_of_bits(w2[j2].w)};
                ST_NO_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i2 = f2 + e;
                    const float v6 = x6[e];
                    const float v41 = (float)(v6 - v40);
                    const float v42 = (float)(v41 * v41);
                    a5 = (float)(a5 + v42);
                }
            }
        }
        a5 = st_sum_f32(a5, 32);
        const float v16 = a5;
        const float v43 = (float)(v16 / v8);
        const float v44 = (float)(v43 + v18);
        const float v33 = 1.0f;
        const float v45 = (float)(st_sqrt_f32(v44));
        const float v46 = (float)(v33 / v45);
        st_u32x4 w22[1];
        ST_NO_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 i3 = (j3 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (i3 < 100) {
                w22[j3] = st_take_u32x4(b1 + (i3), 4);
            }
        }
        ST_NO_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 f3 = (j3 * 32 + (st_i32)(ST_THREAD % 32)) * 4;
            if (f3 < 100) {
                const st_i32 i3 = f3;
                const float x14[4] = {st_f32_of_bits(w2[j3].x), st_f32_of_bits(w2[j3].y), st_f32_of_bits(w2[j3].z), st_f32_of_bits(w2[j3].w)};
                const float x22[4] = {st_f32_of_bits(w22[j3].x), st_f32_of_bits(w22[j3].y), st_f32_of_bits(w22[j3].z), st_f32_of_bits(w22[j3].w)};
                float x25[4];
                ST_NO_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i3 = f3 + e;
                    const float v14 = x14[e];
                    const float v47 = (float)(v14 - v40);
                    const float v48 = (float)(v47 * v46);
                    const float v22 = x22[e];
                    const float v49 = (float)(v48 * v22);
                    const float v50 = (float)(v49 + v22);
                    x25[e] = v50;
                }
                st_give_u32x4(b2 + (100 * i0 + i3), 4, st_bits_of_f32(x25[0]), st_bits_of_f32(x25[1]), st_bits_of_f32(x25[2]), st_bits_of_f32(x25[3]));
            }
        }
    }
}
// 8 iterations a block, 0 bytes of shared memory, 0 of scratch

#include "gpu_prelude.h"

typedef struct k3_argmax_arguments {
    st_u64 b0; /* in2 */
    st_u64 b1; /* out1 */
} k3_argmax_arguments;

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

ST_KERNEL_BLOCKS(k3_argmax, k3_argmax_arguments, 64, 16)
{
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    st_i64 *b1 = ST_GLOBAL(st_i64, ST_ARG(b1));
    const st_i32 f0 = (st_i32)(ST_BLOCK * 8 + ST_THREAD / 8);
    const st_bool is_row = f0 < (3);
    const st_i32 i0 = is_row ? f0 : (3) - 1;
    float a1 = st_f32_of_bits(0xff800000u);
    st_i64 at1 = 9223372036854775807ll;
    ST_UNROLL
    for (st_i32 j1 = 0; j1 < 5; j1++) {
        const st_i32 f1 = (j1 * 8 + (st_i32)(ST_THREAD % 8)) * 1;
        if (is_row && f1 < 33) {
            const st_i32 i1 = f1;
            ST_UNROLL
            for (st_i32 e = 0; e < 1; e++) {
                const st_i32 i1 = f1 + e;
                const st_u16 v2 = b0[(33 * i0 + i1)];
                const float v11 = (float)st_f32_of_f16(v2);
                const st_i64 v4 = (i1);
                { if (ST_BETTER(v11, v4, a1, at1, v11 > a1)) { a1 = v11; at1 = v4; } }
            }
        }
    }
    st_argmax_f32(&a1, &at1, 8);
    const st_i64 v7 = at1;
    if (is_row && ST_THREAD % 8 == 0) b1[(i0)] = v7;
}
// 8 iterations a block, 0 bytes of shared memory, 0 of scratch

