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
    ST_SHARED(float, m1, 256 / ST_WARP);
    ST_SHARED(float, m5, 256 / ST_WARP);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    const float *b2 = ST_GLOBAL(const float, ST_ARG(b2));
    float *b3 = ST_GLOBAL(float, ST_ARG(b3));
    if (((ST_ARG(b0) | ST_ARG(b1) | ST_ARG(b2) | ST_ARG(b3)) & 15) == 0) {
        const float v8 = 1024.0f;
        const float v18 = 9.999999747378752e-06f;
        const st_i32 i0 = (st_i32)ST_BLOCK;
        float a1 = 0;
        st_u32x4 w2[1];
        ST_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 i1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            w2[j1] = st_load_u32x4(b0 + (1024 * i0 + i1));
        }
        ST_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 f1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i1 = f1;
            const float x2[4] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y), st_f32_of_bits(w2[j1].z), st_f32_of_bits(w2[j1].w)};
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i1 = f1 + e;
                const float v2 = x2[e];
                a1 = (float)(a1 + v2);
            }
        }
        float a5 = 0;
        a1 = st_sum_f32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_sum_f32(m1[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
        const float v7 = a1;
        const float v41 = (float)(v7 / v8);
        ST_UNROLL
        for (st_i32 j2 = 0; j2 < 1; j2++) {
            const st_i32 f2 = (j2 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i2 = f2;
            const float x6[4] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y), st_f32_of_bits(w2[j2].z), st_f32_of_bits(w2[j2].w)};
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i2 = f2 + e;
                const float v6 = x6[e];
                const float v42 = (float)(v6 - v41);
                const float v43 = (float)(v42 * v42);
                a5 = (float)(a5 + v43);
            }
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
        st_u32x4 w22[1];
        st_u32x4 w24[1];
        ST_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 i3 = (j3 * 256 + (st_i32)ST_THREAD) * 4;
            w22[j3] = st_load_u32x4(b1 + (i3));
            w24[j3] = st_load_u32x4(b2 + (i3));
        }
        ST_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 f3 = (j3 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i3 = f3;
            const float x14[4] = {st_f32_of_bits(w2[j3].x), st_f32_of_bits(w2[j3].y), st_f32_of_bits(w2[j3].z), st_f32_of_bits(w2[j3].w)};
            const float x22[4] = {st_f32_of_bits(w22[j3].x), st_f32_of_bits(w22[j3].y), st_f32_of_bits(w22[j3].z), st_f32_of_bits(w22[j3].w)};
            const float x24[4] = {st_f32_of_bits(w24[j3].x), st_f32_of_bits(w24[j3].y), st_f32_of_bits(w24[j3].z), st_f32_of_bits(w24[j3].w)};
            float x26[4];
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i3 = f3 + e;
                const float v14 = x14[e];
                const float v48 = (float)(v14 - v41);
                const float v49 = (float)(v48 * v47);
                const float v22 = x22[e];
                const float v50 = (float)(v49 * v22);
                const float v24 = x24[e];
                const float v51 = (float)(v50 + v24);
                x26[e] = v51;
            }
            st_store_u32x4(b3 + (1024 * i0 + i3), st_bits_of_f32(x26[0]), st_bits_of_f32(x26[1]), st_bits_of_f32(x26[2]), st_bits_of_f32(x26[3]));
        }
    } else {
        const float v8 = 1024.0f;
        const float v18 = 9.999999747378752e-06f;
        const st_i32 i0 = (st_i32)ST_BLOCK;
        float a1 = 0;
        st_u32x4 w2[1];
        ST_NO_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 i1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            w2[j1] = st_take_u32x4(b0 + (1024 * i0 + i1), 4);
        }
        ST_NO_UNROLL
        for (st_i32 j1 = 0; j1 < 1; j1++) {
            const st_i32 f1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i1 = f1;
            const float x2[4] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y), st_f32_of_bits(w2[j1].z), st_f32_of_bits(w2[j1].w)};
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i1 = f1 + e;
                const float v2 = x2[e];
                a1 = (float)(a1 + v2);
            }
        }
        float a5 = 0;
        a1 = st_sum_f32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_sum_f32(m1[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
        const float v7 = a1;
        const float v41 = (float)(v7 / v8);
        ST_NO_UNROLL
        for (st_i32 j2 = 0; j2 < 1; j2++) {
            const st_i32 f2 = (j2 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i2 = f2;
            const float x6[4] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y), st_f32_of_bits(w2[j2].z), st_f32_of_bits(w2[j2].w)};
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i2 = f2 + e;
                const float v6 = x6[e];
                const float v42 = (float)(v6 - v41);
                const float v43 = (float)(v42 * v42);
                a5 = (float)(a5 + v43);
            }
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
        st_u32x4 w22[1];
        st_u32x4 w24[1];
        ST_NO_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 i3 = (j3 * 256 + (st_i32)ST_THREAD) * 4;
            w22[j3] = st_take_u32x4(b1 + (i3), 4);
            w24[j3] = st_take_u32x4(b2 + (i3), 4);
        }
        ST_NO_UNROLL
        for (st_i32 j3 = 0; j3 < 1; j3++) {
            const st_i32 f3 = (j3 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i3 = f3;
            const float x14[4] = {st_f32_of_bits(w2[j3].x), st_f32_of_bits(w2[j3].y), st_f32_of_bits(w2[j3].z), st_f32_of_bits(w2[j3].w)};
            const float x22[4] = {st_f32_of_bits(w22[j3].x), st_f32_of_bits(w22[j3].y), st_f32_of_bits(w22[j3].z), st_f32_of_bits(w22[j3].w)};
            const float x24[4] = {st_f32_of_bits(w24[j3].x), st_f32_of_bits(w24[j3].y), st_f32_of_bits(w24[j3].z), st_f32_of_bits(w24[j3].w)};
            float x26[4];
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i3 = f3 + e;
                const float v14 = x14[e];
                const float v48 = (float)(v14 - v41);
                const float v49 = (float)(v48 * v47);
                const float v22 = x22[e];
                const float v50 = (float)(v49 * v22);
                const float v24 = x24[e];
                const float v51 = (float)(v50 + v24);
                x26[e] = v51;
            }
            st_give_u32x4(b3 + (1024 * i0 + i3), 4, st_bits_of_f32(x26[0]), st_bits_of_f32(x26[1]), st_bits_of_f32(x26[2]), st_bits_of_f32(x26[3]));
        }
    }
}
// 1 iterations a block, 128 bytes of shared memory, 0 of scratch

