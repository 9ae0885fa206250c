#include "gpu_prelude.h"

typedef struct k0_reduce_max_exp_reduce_sum_mul_arguments {
    st_u64 b1; /* in0 */
    st_u64 b2; /* out0 */
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

ST_KERNEL_BLOCKS(k0_reduce_max_exp_reduce_sum_mul, k0_reduce_max_exp_reduce_sum_mul_arguments, 256, 4)
{
    ST_SHARED(float, m1, 256 / ST_WARP);
    ST_SHARED(float, m5, 256 / ST_WARP);
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    if (((ST_ARG(b1) | ST_ARG(b2)) & 15) == 0) {
        float b0[16]; /* row1 */
        const float v14 = 1.0f;
        const st_i32 i0 = (st_i32)ST_BLOCK;
        float a1 = st_f32_of_bits(0xff800000u);
        st_u32x4 w2[4];
        ST_UNROLL
        for (st_i32 j1 = 0; j1 < 4; j1++) {
            const st_i32 i1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            w2[j1] = st_load_u32x4(b1 + (4096 * i0 + i1));
        }
        ST_UNROLL
        for (st_i32 j1 = 0; j1 < 4; j1++) {
            const st_i32 f1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i1 = f1;
            const float x2[4] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y), st_f32_of_bits(w2[j1].z), st_f32_of_bits(w2[j1].w)};
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i1 = f1 + e;
                const float v2 = x2[e];
                a1 = (float)(st_maximum_f32(a1, v2));
            }
        }
        float a5 = 0;
        a1 = st_max_f32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_max_f32(m1[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
        const float v7 = a1;
        ST_UNROLL
        for (st_i32 j2 = 0; j2 < 4; j2++) {
            const st_i32 f2 = (j2 * 256 + (st_i32)ST_THREAD) * 4;
            float *r0 = b0 + j2 * 4;
            const st_i32 i2 = f2;
            const float x6[4] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y), st_f32_of_bits(w2[j2].z), st_f32_of_bits(w2[j2].w)};
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i2 = f2 + e;
                const float v6 = x6[e];
                const float v62 = (float)(v6 - v7);
                const float v22 = 89.0f;
                const st_bool v63 = (st_bool)(v22 < v62);
                const float v64 = (float)(v63 ? v22 : v62);
                const float v25 = -104.0f;
                const st_bool v65 = (st_bool)(v25 > v64);
                const float v66 = (float)(v65 ? v25 : v64);
                const float v28 = 1.4426950216293335f;
                const float v29 = 12582912.0f;
                const float v67 = (float)(st_fma_f32(v66, v28, v29));
                const float v68 = (float)(v67 - v29);
                const float v32 = 1.9046542121259336e-09f;
                const float v33 = -0.6931471824645996f;
                const float v69 = (float)(st_fma_f32(v68, v33, v66));
                const float v70 = (float)(st_fma_f32(v68, v32, v69));
                const float v36 = 0.001383890281431377f;
                const float v37 = 0.008369192481040955f;
                const float v71 = (float)(st_fma_f32(v36, v70, v37));
                const float v39 = 0.04166810214519501f;
                const float v72 = (float)(st_fma_f32(v71, v70, v39));
                const float v41 = 0.16666516661643982f;
                const float v73 = (float)(st_fma_f32(v72, v70, v41));
                const float v43 = 0.4999999403953552f;
                const float v74 = (float)(st_fma_f32(v73, v70, v43));
                const float v75 = (float)(st_fma_f32(v74, v70, v14));
                const float v76 = (float)(st_fma_f32(v75, v70, v14));
                const float v47 = 12583166.0f;
                const float v77 = (float)(v68 + v47);
                const st_i32 v78 = (st_i32)(st_bits_of_f32(v77));
                const st_i32 v50 = (st_i32)0x1ull;
                const st_i32 v79 = (st_i32)(v78 >> v50);
                const st_i32 v52 = (st_i32)0x17ull;
                const st_i32 v80 = (st_i32)((st_u32)v79 << (st_u32)v52);
                const float v81 = (float)st_f32_of_bits((v80));
                const float v82 = (float)(v76 * v81);
                const st_i32 v83 = (st_i32)((st_u32)v78 - (st_u32)v79);
                const st_i32 v84 = (st_i32)((st_u32)v83 << (st_u32)v52);
                const float v85 = (float)st_f32_of_bits((v84));
                const float v86 = (float)(v82 * v85);
                r0[e] = v86;
                a5 = (float)(a5 + v86);
            }
        }
        a5 = st_sum_f32(a5, ST_WARP);
        if (ST_LANE == 0) m5[ST_THREAD / ST_WARP] = a5;
        st_barrier();
        a5 = st_sum_f32(m5[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
        const float v15 = a5;
        const float v87 = (float)(v14 / v15);
        ST_UNROLL
        for (st_i32 j3 = 0; j3 < 4; j3++) {
            const st_i32 f3 = (j3 * 256 + (st_i32)ST_THREAD) * 4;
            float *r0 = b0 + j3 * 4;
            const st_i32 i3 = f3;
            float x18[4];
            ST_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i3 = f3 + e;
                const float v13 = r0[e];
                const float v88 = (float)(v13 * v87);
                x18[e] = v88;
            }
            st_store_u32x4(b2 + (4096 * i0 + i3), st_bits_of_f32(x18[0]), st_bits_of_f32(x18[1]), st_bits_of_f32(x18[2]), st_bits_of_f32(x18[3]));
        }
    } else {
        float b0[16]; /* row1 */
        const float v14 = 1.0f;
        const st_i32 i0 = (st_i32)ST_BLOCK;
        float a1 = st_f32_of_bits(0xff800000u);
        st_u32x4 w2[4];
        ST_NO_UNROLL
        for (st_i32 j1 = 0; j1 < 4; j1++) {
            const st_i32 i1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            w2[j1] = st_take_u32x4(b1 + (4096 * i0 + i1), 4);
        }
        ST_NO_UNROLL
        for (st_i32 j1 = 0; j1 < 4; j1++) {
            const st_i32 f1 = (j1 * 256 + (st_i32)ST_THREAD) * 4;
            const st_i32 i1 = f1;
            const float x2[4] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y), st_f32_of_bits(w2[j1].z), st_f32_of_bits(w2[j1].w)};
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i1 = f1 + e;
                const float v2 = x2[e];
                a1 = (float)(st_maximum_f32(a1, v2));
            }
        }
        float a5 = 0;
        a1 = st_max_f32(a1, ST_WARP);
        if (ST_LANE == 0) m1[ST_THREAD / ST_WARP] = a1;
        st_barrier();
        a1 = st_max_f32(m1[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
        const float v7 = a1;
        ST_NO_UNROLL
        for (st_i32 j2 = 0; j2 < 4; j2++) {
            const st_i32 f2 = (j2 * 256 + (st_i32)ST_THREAD) * 4;
            float *r0 = b0 + j2 * 4;
            const st_i32 i2 = f2;
            const float x6[4] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y), st_f32_of_bits(w2[j2].z), st_f32_of_bits(w2[j2].w)};
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i2 = f2 + e;
                const float v6 = x6[e];
                const float v62 = (float)(v6 - v7);
                const float v22 = 89.0f;
                const st_bool v63 = (st_bool)(v22 < v62);
                const float v64 = (float)(v63 ? v22 : v62);
                const float v25 = -104.0f;
                const st_bool v65 = (st_bool)(v25 > v64);
                const float v66 = (float)(v65 ? v25 : v64);
                const float v28 = 1.4426950216293335f;
                const float v29 = 12582912.0f;
                const float v67 = (float)(st_fma_f32(v66, v28, v29));
                const float v68 = (float)(v67 - v29);
                const float v32 = 1.9046542121259336e-09f;
                const float v33 = -0.6931471824645996f;
                const float v69 = (float)(st_fma_f32(v68, v33, v66));
                const float v70 = (float)(st_fma_f32(v68, v32, v69));
                const float v36 = 0.001383890281431377f;
                const float v37 = 0.008369192481040955f;
                const float v71 = (float)(st_fma_f32(v36, v70, v37));
                const float v39 = 0.04166810214519501f;
                const float v72 = (float)(st_fma_f32(v71, v70, v39));
                const float v41 = 0.16666516661643982f;
                const float v73 = (float)(st_fma_f32(v72, v70, v41));
                const float v43 = 0.4999999403953552f;
                const float v74 = (float)(st_fma_f32(v73, v70, v43));
                const float v75 = (float)(st_fma_f32(v74, v70, v14));
                const float v76 = (float)(st_fma_f32(v75, v70, v14));
                const float v47 = 12583166.0f;
                const float v77 = (float)(v68 + v47);
                const st_i32 v78 = (st_i32)(st_bits_of_f32(v77));
                const st_i32 v50 = (st_i32)0x1ull;
                const st_i32 v79 = (st_i32)(v78 >> v50);
                const st_i32 v52 = (st_i32)0x17ull;
                const st_i32 v80 = (st_i32)((st_u32)v79 << (st_u32)v52);
                const float v81 = (float)st_f32_of_bits((v80));
                const float v82 = (float)(v76 * v81);
                const st_i32 v83 = (st_i32)((st_u32)v78 - (st_u32)v79);
                const st_i32 v84 = (st_i32)((st_u32)v83 << (st_u32)v52);
                const float v85 = (float)st_f32_of_bits((v84));
                const float v86 = (float)(v82 * v85);
                r0[e] = v86;
                a5 = (float)(a5 + v86);
            }
        }
        a5 = st_sum_f32(a5, ST_WARP);
        if (ST_LANE == 0) m5[ST_THREAD / ST_WARP] = a5;
        st_barrier();
        a5 = st_sum_f32(m5[ST_THREAD % (256 / ST_WARP)], 256 / ST_WARP);
        const float v15 = a5;
        const float v87 = (float)(v14 / v15);
        ST_NO_UNROLL
        for (st_i32 j3 = 0; j3 < 4; j3++) {
            const st_i32 f3 = (j3 * 256 + (st_i32)ST_THREAD) * 4;
            float *r0 = b0 + j3 * 4;
            const st_i32 i3 = f3;
            float x18[4];
            ST_NO_UNROLL
            for (st_i32 e = 0; e < 4; e++) {
                const st_i32 i3 = f3 + e;
                const float v13 = r0[e];
                const float v88 = (float)(v13 * v87);
                x18[e] = v88;
            }
            st_give_u32x4(b2 + (4096 * i0 + i3), 4, st_bits_of_f32(x18[0]), st_bits_of_f32(x18[1]), st_bits_of_f32(x18[2]), st_bits_of_f32(x18[3]));
        }
    }
}
// 1 iterations a block, 128 bytes of shared memory, 0 of scratch

