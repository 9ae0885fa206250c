#include "gpu_prelude.h"

typedef struct k0_reduce_max_exp_reduce_sum_mul_arguments {
    st_u64 b1; /* in0 */
    st_u64 b2; /* out0 */
    st_i64 s0;
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

ST_DEVICE st_u32x2 st_take_u32x2(const void *from, st_u32 n)
{
    const st_u32 *p = (const st_u32 *)from;
    if (n == 2 && (st_u64)from % 8 == 0) {
        return st_load_u32x2(from);
    }
    st_u32x2 w;
    const st_u32 x0 = st_load_u32(p + 0);
    const st_u32 x1 = st_load_u32(p + (n > 1 ? 1 : n - 1));
    w.x = x0;
    w.y = x1;
    return w;
}

ST_DEVICE void st_give_u32x2(void *to, st_u32 n, st_u32 x, st_u32 y)
{
    st_u32 *p = (st_u32 *)to;
    if (n == 2 && (st_u64)to % 8 == 0) {
        st_store_u32x2(to, x, y);
        return;
    }
    if (n > 0) st_store_u32(p + 0, x);
    if (n > 1) st_store_u32(p + 1, y);
}

ST_KERNEL_BLOCKS(k0_reduce_max_exp_reduce_sum_mul, k0_reduce_max_exp_reduce_sum_mul_arguments, 64, 16)
{
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const st_i64 s0 = (st_i64)ST_ARG(s0);
    if (((ST_ARG(b1) | ST_ARG(b2)) & 7) == 0) {
        float b0[2]; /* row1 */
        const float v14 = 1.0f;
        const st_i64 f0 = (st_i64)(ST_BLOCK * 8 + ST_THREAD / 8);
        const st_bool is_row = f0 < (s0);
        const st_i64 i0 = is_row ? f0 : (s0) - 1;
        float a1 = st_f32_of_bits(0xff800000u);
        st_u32x2 w2[1];
        ST_UNROLL
        for (st_i64 j1 = 0; j1 < 1; j1++) {
            const st_i64 i1 = (j1 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && i1 < 10) {
                w2[j1] = st_load_u32x2(b1 + (10ll * i0 + i1));
            }
        }
        ST_UNROLL
        for (st_i64 j1 = 0; j1 < 1; j1++) {
            const st_i64 f1 = (j1 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && f1 < 10) {
                const st_i64 i1 = f1;
                const float x2[2] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y)};
                ST_UNROLL
                for (st_i64 e = 0; e < 2; e++) {
                    const st_i64 i1 = f1 + e;
                    const float v2 = x2[e];
                    a1 = (float)(st_maximum_f32(a1, v2));
                }
            }
        }
        float a5 = 0;
        a1 = st_max_f32(a1, 8);
        const float v7 = a1;
        ST_UNROLL
        for (st_i64 j2 = 0; j2 < 1; j2++) {
            const st_i64 f2 = (j2 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && f2 < 10) {
                float *r0 = b0 + j2 * 2;
                const st_i64 i2 = f2;
                const float x6[2] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y)};
                ST_UNROLL
                for (st_i64 e = 0; e < 2; e++) {
                    const st_i64 i2 = f2 + e;
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
        }
        a5 = st_sum_f32(a5, 8);
        const float v15 = a5;
        const float v87 = (float)(v14 / v15);
        ST_UNROLL
        for (st_i64 j3 = 0; j3 < 1; j3++) {
            const st_i64 f3 = (j3 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && f3 < 10) {
                float *r0 = b0 + j3 * 2;
                const st_i64 i3 = f3;
                float x18[2];
                ST_UNROLL
                for (st_i64 e = 0; e < 2; e++) {
                    const st_i64 i3 = f3 + e;
                    const float v13 = r0[e];
                    const float v88 = (float)(v13 * v87);
                    x18[e] = v88;
                }
                st_store_u32x2(b2 + (10ll * i0 + i3), st_bits_of_f32(x18[0]), st_bits_of_f32(x18[1]));
            }
        }
    } else {
        float b0[2]; /* row1 */
        const float v14 = 1.0f;
        const st_i64 f0 = (st_i64)(ST_BLOCK * 8 + ST_THREAD / 8);
        const st_bool is_row = f0 < (s0);
        const st_i64 i0 = is_row ? f0 : (s0) - 1;
        float a1 = st_f32_of_bits(0xff800000u);
        st_u32x2 w2[1];
        ST_NO_UNROLL
        for (st_i64 j1 = 0; j1 < 1; j1++) {
            const st_i64 i1 = (j1 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && i1 < 10) {
                w2[j1] = st_take_u32x2(b1 + (10ll * i0 + i1), 2);
            }
        }
        ST_NO_UNROLL
        for (st_i64 j1 = 0; j1 < 1; j1++) {
            const st_i64 f1 = (j1 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && f1 < 10) {
                const st_i64 i1 = f1;
                const float x2[2] = {st_f32_of_bits(w2[j1].x), st_f32_of_bits(w2[j1].y)};
                ST_NO_UNROLL
                for (st_i64 e = 0; e < 2; e++) {
                    const st_i64 i1 = f1 + e;
                    const float v2 = x2[e];
                    a1 = (float)(st_maximum_f32(a1, v2));
                }
            }
        }
        float a5 = 0;
        a1 = st_max_f32(a1, 8);
        const float v7 = a1;
        ST_NO_UNROLL
        for (st_i64 j2 = 0; j2 < 1; j2++) {
            const st_i64 f2 = (j2 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && f2 < 10) {
                float *r0 = b0 + j2 * 2;
                const st_i64 i2 = f2;
                const float x6[2] = {st_f32_of_bits(w2[j2].x), st_f32_of_bits(w2[j2].y)};
                ST_NO_UNROLL
                for (st_i64 e = 0; e < 2; e++) {
                    const st_i64 i2 = f2 + e;
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
        }
        a5 = st_sum_f32(a5, 8);
        const float v15 = a5;
        const float v87 = (float)(v14 / v15);
        ST_NO_UNROLL
        for (st_i64 j3 = 0; j3 < 1; j3++) {
            const st_i64 f3 = (j3 * 8 + (st_i64)(ST_THREAD % 8)) * 2;
            if (is_row && f3 < 10) {
                float *r0 = b0 + j3 * 2;
                const st_i64 i3 = f3;
                float x18[2];
                ST_NO_UNROLL
                for (st_i64 e = 0; e < 2; e++) {
                    const st_i64 i3 = f3 + e;
                    const float v13 = r0[e];
                    const float v88 = (float)(v13 * v87);
                    x18[e] = v88;
                }
                st_give_u32x2(b2 + (10ll * i0 + i3), 2, st_bits_of_f32(x18[0]), st_bits_of_f32(x18[1]));
            }
        }
    }
}
// 8 iterations a block, 0 bytes of shared memory, 0 of scratch

