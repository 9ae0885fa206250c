#include "gpu_prelude.h"

typedef struct k0_conv_max_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* in2 */
    st_u64 b3; /* out0 */
} k0_conv_max_arguments;

#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))

ST_KERNEL(k0_conv_max, k0_conv_max_arguments, 128)
{
    ST_SHARED(float, ta, 2176);
    ST_SHARED(float, tb, 2176);
    ST_SHARED(st_u32, ub, 128);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    const float *b2 = ST_GLOBAL(const float, ST_ARG(b2));
    float *b3 = ST_GLOBAL(float, ST_ARG(b3));
    const st_i64 v2 = (st_i64)0x0ull;
    const st_i64 v5 = (st_i64)0xeull;
    const float v23 = 0.0f;
    const st_i32 i9 = (st_i32)ST_BLOCK;
    const st_i64 v42 = (0);
    const st_i32 n43 = v42;
    const st_i64 v44 = (i9);
    const st_i32 n45 = v44;
    const st_i32 row = (st_i32)(ST_THREAD / 64 * 32 + ST_THREAD % 32 / 8 * 4);
    const st_i32 column = (st_i32)(ST_THREAD / 32 % 2 * 32 + ST_THREAD % 8 * 4);
    float c[8][4] = {{0}};
    float xa[8];
    float xb[8];
    const st_i32 steps = ((72) + 15) / 16;
    if (ST_THREAD < 16) {
        const st_i32 i8 = 0 * 16 + (st_i32)ST_THREAD;
        const st_i64 v36 = (((i8) / (9)));
        const st_i32 n37 = v36;
        const st_i64 v38 = (((((i8) / (3))) % (3)));
        const st_i32 n39 = v38;
        const st_i64 v40 = (((i8) % (3)));
        const st_i32 n41 = v40;
        st_store_u32x4(ub + (0 % 2 * 16 + (st_i32)ST_THREAD) * 4, (st_u32)n37, (st_u32)n39, (st_u32)n41, 0);
    }
    st_barrier();
    for (st_i32 step = 0; step <= steps; step++) {
        if (step < steps) {
            const st_i32 first_step = step * 16;
            ST_UNROLL
            for (st_u32 g = 0; g < 2; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_i32 at_side = (st_i32)(at / 4);
                const st_i32 at_step = (st_i32)(at % 4 * 4);
                const st_i32 i10 = at_side;
                const st_i32 f8 = first_step + at_step;
                st_bool is_whole = 1;
                {
                    const st_i32 i8 = f8 + 3;
                    const st_i64 v47 = (i10 + 64 * n43);
                    const st_i64 v48 = (40);
                    const st_bool v70 = (st_bool)(v47 < v48);
                    is_whole = v70;
                    is_whole = is_whole && i8 < (72);
                }
                const st_i32 i8 = f8;
                const st_i64 v47 = (i10 + 64 * n43);
                const st_i64 v48 = (40);
                if (is_whole && (st_u64)(b1 + (i8 + 72 * i10 + 4608 * n43)) % 16 == 0) {
                    const st_u32x4 w = st_load_u32x4(b1 + (i8 + 72 * i10 + 4608 * n43));
                    const float x14[4] = {st_f32_of_bits(w.x >> 0), st_f32_of_bits(w.y >> 0), st_f32_of_bits(w.z >> 0), st_f32_of_bits(w.w >> 0)};
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i8 = f8 + e;
                        const st_i64 v47 = (i10 + 64 * n43);
                        const st_i64 v48 = (40);
                        const st_bool v70 = 1;
                        const float v14 = v70 ? x14[e] : 0;
                        xa[g * 4 + e] = v14;
                    }
                } else {
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i8 = f8 + e;
                        float value = 0;
                        if (i8 < (72)) {
                            const st_i64 v47 = (i10 + 64 * n43);
                            const st_i64 v48 = (40);
                            const st_bool v70 = (st_bool)(v47 < v48);
                            const float v14 = v70 ? b1[(i8 + 72 * i10 + 4608 * n43)] : 0;
                            value = v14;
                        }
                        xa[g * 4 + e] = value;
                    }
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_i32 at_side = (st_i32)(ST_THREAD % 32 + g % 2 * 32);
                const st_i32 at_step = (st_i32)(ST_THREAD / 32 + g / 2 * 4);
                const st_i32 i11 = at_side;
                const st_i32 i8 = first_step + at_step;
                float value = 0;
                const st_u32x4 words = st_load_u32x4(ub + (step % 2 * 16 + at_step) * 4);
                const st_i32 n37 = (st_i32)words.x;
                const st_i32 n39 = (st_i32)words.y;
                const st_i32 n41 = (st_i32)words.z;
                if (i8 < (72)) {
                    const st_i64 v51 = (i11 + 64 * n45);
                    const st_i64 v52 = (392);
                    const st_bool v71 = (st_bool)(v51 < v52);
                    const st_i64 v30 = (((i11 + 64 * n45) / (196)));
                    const st_i32 n31 = v30;
                    const st_i64 v32 = (((4 * n45 + ((i11 + 8 * n45) / (14))) % (14)));
                    const st_i32 n33 = v32;
                    const st_i64 v34 = (((i11 + 8 * n45) % (14)));
                    const st_i32 n35 = v34;
                    const st_i64 v3 = (n33 + n39 + -1);
                    const st_bool v73 = (st_bool)(v3 >= v2);
                    const st_bool v74 = (st_bool)(v3 < v5);
                    const st_bool v75 = (st_bool)(v73 & v74);
                    const st_i64 v8 = (n35 + n41 + -1);
                    const st_bool v76 = (st_bool)(v8 >= v2);
                    const st_bool v77 = (st_bool)(v8 < v5);
                    const st_bool v78 = (st_bool)(v76 & v77);
                    const st_bool v79 = (st_bool)(v75 & v78);
                    const st_bool v80 = (st_bool)(v79 & v71);
                    const float v13 = v80 ? b0[(1568 * n31 + 14 * n33 + n35 + 196 * n37 + 14 * n39 + n41 + -15)] : 0;
                    value = v13;
                }
                xb[g] = value;
            }
        }
        if (step > 0) {
            const st_i32 half = (step + 1) % 2;
            float p[2][8], q[2][4];
            ST_UNROLL
            for (st_i32 k = -1; k < 16; k++) {
                if (k < 15) { /* the next step's, while this one's are multiplied */
                    ST_UNROLL
                    for (st_u32 i = 0; i < 8; i += 4) {
                        const st_u32x4 w = st_load_u32x4(ta + (half * 1088 + (k + 1) * 68 + row + (st_i32)(i * 4)));
                        p[(k + 1) % 2][i + 0] = st_f32_of_bits(w.x);
                        p[(k + 1) % 2][i + 1] = st_f32_of_bits(w.y);
                        p[(k + 1) % 2][i + 2] = st_f32_of_bits(w.z);
                        p[(k + 1) % 2][i + 3] = st_f32_of_bits(w.w);
                    }
                    ST_UNROLL
                    for (st_u32 i = 0; i < 4; i += 4) {
                        const st_u32x4 w = st_load_u32x4(tb + (half * 1088 + (k + 1) * 68 + column + (st_i32)(i * 8)));
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
                const st_u32 at = ST_THREAD + g * 128;
                const st_i32 at_side = (st_i32)(at / 4);
                const st_i32 at_step = (st_i32)(at % 4 * 4);
                float *to = ta + (step % 2 * 1088 + at_step * 68 + at_side);
                ST_UNROLL
                for (st_u32 e = 0; e < 4; e++) {
                    to[e * 68] = xa[g * 4 + e];
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_i32 at_side = (st_i32)(ST_THREAD % 32 + g % 2 * 32);
                const st_i32 at_step = (st_i32)(ST_THREAD / 32 + g / 2 * 4);
                float *to = tb + (step % 2 * 1088 + at_step * 68 + at_side);
                *to = xb[g];
            }
            if (ST_THREAD < 16) {
                const st_i32 i8 = (step + 1) * 16 + (st_i32)ST_THREAD;
                const st_i64 v36 = (((i8) / (9)));
                const st_i32 n37 = v36;
                const st_i64 v38 = (((((i8) / (3))) % (3)));
                const st_i32 n39 = v38;
                const st_i64 v40 = (((i8) % (3)));
                const st_i32 n41 = v40;
                st_store_u32x4(ub + ((step + 1) % 2 * 16 + (st_i32)ST_THREAD) * 4, (st_u32)n37, (st_u32)n39, (st_u32)n41, 0);
            }
        }
        st_barrier();
    }
    ST_UNROLL
    for (st_i32 i = 0; i < 8; i++) {
        const st_i32 i10 = row + i / 4 * 16 + i % 4;
        const st_i64 v47 = (i10 + 64 * n43);
        const st_i64 v48 = (40);
        const st_bool v70 = (st_bool)(v47 < v48);
        ST_UNROLL
        for (st_i32 j = 0; j < 4; j++) {
            const st_i32 i11 = column + j / 4 * 32 + j % 4;
            const float a1 = c[i][j];
            const st_i64 v51 = (i11 + 64 * n45);
            const st_i64 v52 = (392);
            const st_bool v71 = (st_bool)(v51 < v52);
            const st_bool v72 = (st_bool)(v70 & v71);
            const st_i64 v30 = (((i11 + 64 * n45) / (196)));
            const st_i32 n31 = v30;
            const st_i64 v32 = (((4 * n45 + ((i11 + 8 * n45) / (14))) % (14)));
            const st_i32 n33 = v32;
            const st_i64 v34 = (((i11 + 8 * n45) % (14)));
            const st_i32 n35 = v34;
            const float v21 = v72 ? b2[(i10 + 64 * n43)] : 0;
            const float v20 = a1;
            const float v82 = (float)(v20 + v21);
            const float v83 = (float)(ST_MAX(v82, v23));
            if (v72) b3[(7840 * n31 + 14 * n33 + n35 + 196 * i10 + 12544 * n43)] = v83;
        }
    }
}
// 1 iterations a block, 17920 bytes of shared memory, 0 of scratch

