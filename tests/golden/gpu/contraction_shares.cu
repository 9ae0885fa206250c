#include "gpu_prelude.h"

typedef struct k0_conv_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_conv_arguments;

ST_KERNEL(k0_conv, k0_conv_arguments, 256)
{
    ST_SHARED(float, ta, 4608);
    ST_SHARED(float, tb, 4608);
    ST_SHARED(st_u32, ub, 512);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const st_i64 v2 = (st_i64)0x0ull;
    const st_i64 v5 = (st_i64)0xcull;
    const st_i32 i8 = (st_i32)ST_BLOCK;
    const st_i64 v35 = (((i8) / (5)));
    const st_i32 n36 = v35;
    const st_i64 v37 = (((i8) % (5)));
    const st_i32 n38 = v37;
    const st_u32 member = ST_THREAD % 32;
    const st_i32 share = (st_i32)(ST_THREAD / 32);
    const st_i32 row = (st_i32)(member / 32 * 32 + member % 32 / 8 * 4);
    const st_i32 column = (st_i32)(member / 32 % 1 * 32 + member % 8 * 4);
    float c[8][4] = {{0}};
    float xa[8];
    float xb[8];
    const st_i32 steps = ((576) + 63) / 64;
    if (ST_THREAD < 64) {
        const st_i32 i7 = 0 * 64 + (st_i32)ST_THREAD;
        const st_i64 v29 = (((i7) / (9)));
        const st_i32 n30 = v29;
        const st_i64 v31 = (((((i7) / (3))) % (3)));
        const st_i32 n32 = v31;
        const st_i64 v33 = (((i7) % (3)));
        const st_i32 n34 = v33;
        st_store_u32x4(ub + (0 % 2 * 64 + (st_i32)ST_THREAD) * 4, (st_u32)n30, (st_u32)n32, (st_u32)n34, 0);
    }
    st_barrier();
    for (st_i32 step = 0; step <= steps; step++) {
        if (step < steps) {
            const st_i32 first_step = step * 64 + share * 8;
            ST_UNROLL
            for (st_u32 g = 0; g < 2; g++) {
                const st_u32 at = member + g * 32;
                const st_i32 at_side = (st_i32)(at / 2);
                const st_i32 at_step = (st_i32)(at % 2 * 4);
                const st_i32 i9 = at_side;
                const st_i32 f7 = first_step + at_step;
                st_bool is_whole = 1;
                {
                    const st_i32 i7 = f7 + 3;
                    const st_i64 v40 = (i9 + 32 * n36);
                    const st_i64 v41 = (48);
                    const st_bool v61 = (st_bool)(v40 < v41);
                    is_whole = v61;
                    is_whole = is_whole && 1;
                }
                const st_i32 i7 = f7;
                const st_i64 v40 = (i9 + 32 * n36);
                const st_i64 v41 = (48);
                if (is_whole && (st_u64)(b1 + (i7 + 576 * i9 + 18432 * n36)) % 16 == 0) {
                    const st_u32x4 w = st_load_u32x4(b1 + (i7 + 576 * i9 + 18432 * n36));
                    const float x14[4] = {st_f32_of_bits(w.x >> 0), st_f32_of_bits(w.y >> 0), st_f32_of_bits(w.z >> 0), st_f32_of_bits(w.w >> 0)};
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i7 = f7 + e;
                        const st_i64 v40 = (i9 + 32 * n36);
                        const st_i64 v41 = (48);
                        const st_bool v61 = 1;
                        const float v14 = v61 ? x14[e] : 0;
                        xa[g * 4 + e] = v14;
                    }
                } else {
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i7 = f7 + e;
                        float value = 0;
                        if (1) {
                            const st_i64 v40 = (i9 + 32 * n36);
                            const st_i64 v41 = (48);
                            const st_bool v61 = (st_bool)(v40 < v41);
                            const float v14 = v61 ? b1[(i7 + 576 * i9 + 18432 * n36)] : 0;
                            value = v14;
                        }
                        xa[g * 4 + e] = value;
                    }
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_i32 at_side = (st_i32)(member % 32 + g % 1 * 32);
                const st_i32 at_step = (st_i32)(member / 32 + g / 1 * 1);
                const st_i32 i10 = at_side;
                const st_i32 i7 = first_step + at_step;
                float value = 0;
                const st_u32x4 words = st_load_u32x4(ub + (share * 8 + step % 2 * 64 + at_step) * 4);
                const st_i32 n30 = (st_i32)words.x;
                const st_i32 n32 = (st_i32)words.y;
                const st_i32 n34 = (st_i32)words.z;
                if (1) {
                    const st_i64 v44 = (i10 + 32 * n38);
                    const st_i64 v45 = (144);
                    const st_bool v62 = (st_bool)(v44 < v45);
                    const st_i64 v25 = (2 * n38 + ((i10 + 8 * n38) / (12)));
                    const st_i32 n26 = v25;
                    const st_i64 v27 = (((i10 + 8 * n38) % (12)));
                    const st_i32 n28 = v27;
                    const st_i64 v3 = (n26 + n32 + -1);
                    const st_bool v64 = (st_bool)(v3 >= v2);
                    const st_bool v65 = (st_bool)(v3 < v5);
                    const st_bool v66 = (st_bool)(v64 & v65);
                    const st_i64 v8 = (n28 + n34 + -1);
                    const st_bool v67 = (st_bool)(v8 >= v2);
                    const st_bool v68 = (st_bool)(v8 < v5);
                    const st_bool v69 = (st_bool)(v67 & v68);
                    const st_bool v70 = (st_bool)(v66 & v69);
                    const st_bool v71 = (st_bool)(v70 & v62);
                    const float v13 = v71 ? b0[(144 * n30 + 12 * n32 + n34 + i10 + 32 * n38 + -13)] : 0;
                    value = v13;
                }
                xb[g] = value;
            }
        }
        if (step > 0) {
            const st_i32 half = (step + 1) % 2;
            float p[2][8], q[2][4];
            ST_UNROLL
            for (st_i32 k = -1; k < 8; k++) {
                if (k < 7) { /* the next step's, while this one's are multiplied */
                    ST_UNROLL
                    for (st_u32 i = 0; i < 8; i += 4) {
                        const st_u32x4 w = st_load_u32x4(ta + (share * 576 + half * 288 + (k + 1) * 36 + row + (st_i32)(i * 4)));
                        p[(k + 1) % 2][i + 0] = st_f32_of_bits(w.x);
                        p[(k + 1) % 2][i + 1] = st_f32_of_bits(w.y);
                        p[(k + 1) % 2][i + 2] = st_f32_of_bits(w.z);
                        p[(k + 1) % 2][i + 3] = st_f32_of_bits(w.w);
                    }
                    ST_UNROLL
                    for (st_u32 i = 0; i < 4; i += 4) {
                        const st_u32x4 w = st_load_u32x4(tb + (share * 576 + half * 288 + (k + 1) * 36 + column + (st_i32)(i * 8)));
                        q[(k + 1) % 2][i + 0] = st_f32_of_bits(w.x);
                        q[(k + 1) % 2][i + 1] = st_f32_of_bits(w.y);
                        q[(k + 1) % 2][i + 2] = st_f32_of_bits(w.z);
                        q[(k + 1) % 2][i + 3] = st_f32_of_bits(w.w);
                    }
                }
                if (k < 0) { continue; }
                ST_UNROLL
                for (st_u32 i = 0; i < 8; i++) {
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        c[i][j] = st_fma_f32(p[k % 2][i], q[k % 2][j], c[i][j]);
                    }
                }
            }
        }
        if (step < steps) {
            ST_UNROLL
            for (st_u32 g = 0; g < 2; g++) {
                const st_u32 at = member + g * 32;
                const st_i32 at_side = (st_i32)(at / 2);
                const st_i32 at_step = (st_i32)(at % 2 * 4);
                float *to = ta + (share * 576 + step % 2 * 288 + at_step * 36 + at_side);
                ST_UNROLL
                for (st_u32 e = 0; e < 4; e++) {
                    to[e * 36] = xa[g * 4 + e];
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_i32 at_side = (st_i32)(member % 32 + g % 1 * 32);
                const st_i32 at_step = (st_i32)(member / 32 + g / 1 * 1);
                float *to = tb + (share * 576 + step % 2 * 288 + at_step * 36 + at_side);
                *to = xb[g];
            }
            if (ST_THREAD < 64) {
                const st_i32 i7 = (step + 1) * 64 + (st_i32)ST_THREAD;
                const st_i64 v29 = (((i7) / (9)));
                const st_i32 n30 = v29;
                const st_i64 v31 = (((((i7) / (3))) % (3)));
                const st_i32 n32 = v31;
                const st_i64 v33 = (((i7) % (3)));
                const st_i32 n34 = v33;
                st_store_u32x4(ub + ((step + 1) % 2 * 64 + (st_i32)ST_THREAD) * 4, (st_u32)n30, (st_u32)n32, (st_u32)n34, 0);
            }
        }
        st_barrier();
    }
    for (st_i32 other = 1; other < 8; other++) {
        ST_UNROLL
        for (st_u32 f = 0; f < 8; f += 8) {
            if (share == other) {
                ST_UNROLL
                for (st_u32 i = 0; i < 32; i++) {
                    ta[i * 32 + member] = c[f + i / 4][i % 4];
                }
            }
            st_barrier();
            if (share == 0) {
                ST_UNROLL
                for (st_u32 i = 0; i < 32; i++) {
                    c[f + i / 4][i % 4] += ta[i * 32 + member];
                }
            }
            st_barrier();
        }
    }
    if (share == 0) {
        ST_UNROLL
        for (st_i32 i = 0; i < 8; i++) {
            const st_i32 i9 = row + i / 4 * 16 + i % 4;
            const st_i64 v40 = (i9 + 32 * n36);
            const st_i64 v41 = (48);
            const st_bool v61 = (st_bool)(v40 < v41);
            ST_UNROLL
            for (st_i32 j = 0; j < 4; j++) {
                const st_i32 i10 = column + j / 4 * 32 + j % 4;
                const float a1 = c[i][j];
                const st_i64 v44 = (i10 + 32 * n38);
                const st_i64 v45 = (144);
                const st_bool v62 = (st_bool)(v44 < v45);
                const st_bool v63 = (st_bool)(v61 & v62);
                const st_i64 v25 = (2 * n38 + ((i10 + 8 * n38) / (12)));
                const st_i32 n26 = v25;
                const st_i64 v27 = (((i10 + 8 * n38) % (12)));
                const st_i32 n28 = v27;
                const float v20 = a1;
                if (v63) b2[(144 * i9 + i10 + 4608 * n36 + 32 * n38)] = v20;
            }
        }
    }
}
// 1 iterations a block, 38912 bytes of shared memory, 0 of scratch

