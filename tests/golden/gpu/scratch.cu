#include "gpu_prelude.h"

typedef struct k0_reduce_max_exp_reduce_sum_mul_arguments {
    st_u64 b1; /* in0 */
    st_u64 b2; /* out0 */
    st_u64 scratch;
} k0_reduce_max_exp_reduce_sum_mul_arguments;

ST_DEVICE float st_max_f32(float a, st_u32 n)
{
    for (st_u32 m = 1; m < n; m *= 2) {
        const float o = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(a), m));
        a = (float)(st_maximum_f32(a, o));
    }
    return a;
}

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

ST_KERNEL(k0_reduce_max_exp_reduce_sum_mul, k0_reduce_max_exp_reduce_sum_mul_arguments, 512)
{
    ST_SHARED(float, m1, 512 / ST_WARP);
    ST_SHARED(float, m6, 512 / ST_WARP);
    float *b0 = ST_GLOBAL(float, ST_ARG(scratch) + (st_u64)ST_BLOCK * 65536 + 0); /* row1 */
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const float v16 = 1.0f;
    const st_i32 i0 = (st_i32)ST_BLOCK;
    float a1 = st_f32_of_bits(0xff800000u);
    for (st_i32 f1 = (st_i32)ST_THREAD * 4; f1 < (16383); f1 += 2048) {
        const st_i32 i1 = f1;
        const st_i32 c1 = (16383) - f1 < 4 ? (16383) - f1 : 4;
        const st_u32x4 w2 = st_take_u32x4(b1 + (16383 * i0 + i1), (st_u32)c1);
        const float x2[4] = {st_f32_of_bits(w2.x), st_f32_of_bits(w2.y), st_f32_of_bits(w2.z), st_f32_of_bits(w2.w)};
        ST_UNROLL
        for (st_i32 e = 0; e < 4; e++) {
            const st_i32 i1 = f1 + (e < c1 ? e : c1 - 1);
            const float v2 = x2[e];
            const float v66 = (float)(st_sqrt_f32(v2));
            if (e < c1) a1 = (float)(st_maximum_f32(a1, v66));
        }
    }
    float a6 = 0;
    a1 = st_max_f32(a1, ST_WARP);
    if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
    st_barrier();
    a1 = st_max_f32(m1[ST_THREAD % (512 / ST_WARP)], 512 / ST_WARP);
    const float v9 = a1;
    for (st_i32 f2 = (st_i32)ST_THREAD * 4; f2 < (16383); f2 += 2048) {
        const st_i32 i2 = f2;
        const st_i32 c2 = (16383) - f2 < 4 ? (16383) - f2 : 4;
        const st_u32x4 w7 = st_take_u32x4(b1 + (16383 * i0 + i2), (st_u32)c2);
        const float x7[4] = {st_f32_of_bits(w7.x), st_f32_of_bits(w7.y), st_f32_of_bits(w7.z), st_f32_of_bits(w7.w)};
        float x12[4];
        ST_UNROLL
        for (st_i32 e = 0; e < 4; e++) {
            const st_i32 i2 = f2 + (e < c2 ? e : c2 - 1);
            const float v7 = x7[e];
            const float v67 = (float)(st_sqrt_f32(v7));
            const float v68 = (float)(v67 - v9);
            const float v26 = 89.0f;
            const st_bool v69 = (st_bool)(v26 < v68);
            const float v70 = (float)(v69 ? v26 : v68);
            const float v29 = -104.0f;
            const st_bool v71 = (st_bool)(v29 > v70);
            const float v72 = (float)(v71 ? v29 : v70);
            const float v32 = 1.4426950216293335f;
            const float v33 = 12582912.0f;
            const float v73 = (float)(st_fma_f32(v72, v32, v33));
            const float v74 = (float)(v73 - v33);
            const float v36 = 1.9046542121259336e-09f;
            const float v37 = -0.6931471824645996f;
            const float v75 = (float)(st_fma_f32(v74, v37, v72));
            const float v76 = (float)(st_fma_f32(v74, v36, v75));
            const float v40 = 0.001383890281431377f;
            const float v41 = 0.008369192481040955f;
            const float v77 = (float)(st_fma_f32(v40, v76, v41));
            const float v43 = 0.04166810214519501f;
            const float v78 = (float)(st_fma_f32(v77, v76, v43));
            const float v45 = 0.16666516661643982f;
            const float v79 = (float)(st_fma_f32(v78, v76, v45));
            const float v47 = 0.4999999403953552f;
            const float v80 = (float)(st_fma_f32(v79, v76, v47));
            const float v81 = (float)(st_fma_f32(v80, v76, v16));
            const float v82 = (float)(st_fma_f32(v81, v76, v16));
            const float v51 = 12583166.0f;
            const float v83 = (float)(v74 + v51);
            const st_i32 v84 = (st_i32)(st_bits_of_f32(v83));
            const st_i32 v54 = (st_i32)0x1ull;
            const st_i32 v85 = (st_i32)(v84 >> v54);
            const st_i32 v56 = (st_i32)0x17ull;
            const st_i32 v86 = (st_i32)((st_u32)v85 << (st_u32)v56);
            const float v87 = (float)st_f32_of_bits((v86));
            const float v88 = (float)(v82 * v87);
            const st_i32 v89 = (st_i32)((st_u32)v84 - (st_u32)v85);
            const st_i32 v90 = (st_i32)((st_u32)v89 << (st_u32)v56);
            const float v91 = (float)st_f32_of_bits((v90));
            const float v92 = (float)(v88 * v91);
            x12[e] = v92;
            if (e < c2) a6 = (float)(a6 + v92);
        }
        st_give_u32x4(b0 + (i2), (st_u32)c2, st_bits_of_f32(x12[0]), st_bits_of_f32(x12[1]), st_bits_of_f32(x12[2]), st_bits_of_f32(x12[3]));
    }
    a6 = st_sum_f32(a6, ST_WARP);
    if (ST_LANE == 0) m6[ST_THREAD / ST_WARP] = a6;
    st_barrier();
    a6 = st_sum_f32(m6[ST_THREAD % (512 / ST_WARP)], 512 / ST_WARP);
    const float v17 = a6;
    const float v93 = (float)(v16 / v17);
    for (st_i32 f3 = (st_i32)ST_THREAD * 4; f3 < (16383); f3 += 2048) {
        const st_i32 i3 = f3;
        const st_i32 c3 = (16383) - f3 < 4 ? (16383) - f3 : 4;
        const st_u32x4 w15 = st_take_u32x4(b0 + (i3), (st_u32)c3);
        const float x15[4] = {st_f32_of_bits(w15.x), st_f32_of_bits(w15.y), st_f32_of_bits(w15.z), st_f32_of_bits(w15.w)};
        float x20[4];
        ST_UNROLL
        for (st_i32 e = 0; e < 4; e++) {
            const st_i32 i3 = f3 + (e < c3 ? e : c3 - 1);
            const float v15 = x15[e];
            const float v94 = (float)(v15 * v93);
            x20[e] = v94;
        }
        st_give_u32x4(b2 + (16383 * i0 + i3), (st_u32)c3, st_bits_of_f32(x20[0]), st_bits_of_f32(x20[1]), st_bits_of_f32(x20[2]), st_bits_of_f32(x20[3]));
    }
}
// 1 iterations a block, 256 bytes of shared memory, 65536 of scratch

