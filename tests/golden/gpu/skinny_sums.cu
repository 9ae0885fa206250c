#include "gpu_prelude.h"

typedef struct k0_dot_general_dot_general_sub_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* in2 */
    st_u64 b3; /* out0 */
    st_u64 b4; /* out1 */
} k0_dot_general_dot_general_sub_arguments;

ST_KERNEL(k0_dot_general_dot_general_sub, k0_dot_general_dot_general_sub_arguments, 96)
{
    ST_SHARED(float, ts, 144);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    const float *b2 = ST_GLOBAL(const float, ST_ARG(b2));
    float *b3 = ST_GLOBAL(float, ST_ARG(b3));
    float *b4 = ST_GLOBAL(float, ST_ARG(b4));
    const st_i32 i3 = (st_i32)ST_BLOCK;
    const st_i64 v18 = (0);
    const st_i32 n19 = v18;
    const st_i64 v20 = (i3);
    const st_i32 n21 = v20;
    const st_i32 wide = (st_i32)(ST_THREAD % 2 * 4);
    float c0[3][4] = {{0}};
    float c1[3][4] = {{0}};
    for (st_i32 first_step = (st_i32)(ST_THREAD / 2 * 4); first_step < (130); first_step += 192) {
        float xa[12];
        ST_UNROLL
        for (st_u32 g = 0; g < 12; g++) {
            const st_u32 at = g;
            const st_i32 at_side = (st_i32)(at % 3);
            const st_i32 at_step = (st_i32)(at / 3);
            const st_i32 i4 = at_side;
            const st_i32 i2 = first_step + at_step;
            float value = 0;
            if (i2 < (130)) {
                const float v3 = b0[(3 * i2 + i4 + 3 * n19)];
                value = v3;
            }
            xa[g] = value;
        }
        {
            float xb[16];
            st_bool is_whole_b = 0;
            {
                const st_u32 g = 3;
                const st_u32 at = g;
                const st_i32 at_side = wide + (st_i32)(at % 1 * 4);
                const st_i32 at_step = (st_i32)(at / 1);
                const st_i32 f5 = at_side;
                const st_i32 i2 = first_step + at_step;
                st_bool is_whole = 1;
                {
                    const st_i32 i5 = f5 + 3;
                    is_whole = is_whole && i2 < (130);
                }
                const st_i32 i5 = f5;
                is_whole_b = is_whole && (st_u64)(b1 + (40 * i2 + i5 + 8 * n21)) % 16 == 0;
            }
            if (is_whole_b) {
                ST_UNROLL
                for (st_u32 g = 0; g < 4; g++) {
                    const st_u32 at = g;
                    const st_i32 at_side = wide + (st_i32)(at % 1 * 4);
                    const st_i32 at_step = (st_i32)(at / 1);
                    const st_i32 f5 = at_side;
                    const st_i32 i2 = first_step + at_step;
                    const st_i32 i5 = f5;
                    const st_u32x4 w = st_load_u32x4(b1 + (40 * i2 + i5 + 8 * n21));
                    const float x4[4] = {st_f32_of_bits(w.x >> 0), st_f32_of_bits(w.y >> 0), st_f32_of_bits(w.z >> 0), st_f32_of_bits(w.w >> 0)};
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i5 = f5 + e;
                        const float v4 = x4[e];
                        xb[g * 4 + e] = v4;
                    }
                }
            } else {
                ST_UNROLL
                for (st_u32 g = 0; g < 4; g++) {
                    const st_u32 at = g;
                    const st_i32 at_side = wide + (st_i32)(at % 1 * 4);
                    const st_i32 at_step = (st_i32)(at / 1);
                    const st_i32 f5 = at_side;
                    const st_i32 i2 = first_step + at_step;
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i5 = f5 + e;
                        float value = 0;
                        if (i2 < (130)) {
                            const float v4 = b1[(40 * i2 + i5 + 8 * n21)];
                            value = v4;
                        }
                        xb[g * 4 + e] = value;
                    }
                }
            }
            ST_UNROLL
            for (st_u32 k = 0; k < 4; k++) {
                ST_UNROLL
                for (st_u32 i = 0; i < 3; i++) {
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        c0[i][j] = st_fma_f32(xa[k * 3 + i], xb[k * 4 + j], c0[i][j]);
                    }
                }
            }
        }
        {
            float xb[16];
            st_bool is_whole_b = 0;
            {
                const st_u32 g = 3;
                const st_u32 at = g;
                const st_i32 at_side = wide + (st_i32)(at % 1 * 4);
                const st_i32 at_step = (st_i32)(at / 1);
                const st_i32 f5 = at_side;
                const st_i32 i2 = first_step + at_step;
                st_bool is_whole = 1;
                {
                    const st_i32 i5 = f5 + 3;
                    is_whole = is_whole && i2 < (130);
                }
                const st_i32 i5 = f5;
                is_whole_b = is_whole && (st_u64)(b2 + (40 * i2 + i5 + 8 * n21)) % 16 == 0;
            }
            if (is_whole_b) {
                ST_UNROLL
                for (st_u32 g = 0; g < 4; g++) {
                    const st_u32 at = g;
                    const st_i32 at_side = wide + (st_i32)(at % 1 * 4);
                    const st_i32 at_step = (st_i32)(at / 1);
                    const st_i32 f5 = at_side;
                    const st_i32 i2 = first_step + at_step;
                    const st_i32 i5 = f5;
                    const st_u32x4 w = st_load_u32x4(b2 + (40 * i2 + i5 + 8 * n21));
                    const float x7[4] = {st_f32_of_bits(w.x >> 0), st_f32_of_bits(w.y >> 0), st_f32_of_bits(w.z >> 0), st_f32_of_bits(w.w >> 0)};
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i5 = f5 + e;
                        const float v7 = x7[e];
                        xb[g * 4 + e] = v7;
                    }
                }
            } else {
                ST_UNROLL
                for (st_u32 g = 0; g < 4; g++) {
                    const st_u32 at = g;
                    const st_i32 at_side = wide + (st_i32)(at % 1 * 4);
                    const st_i32 at_step = (st_i32)(at / 1);
                    const st_i32 f5 = at_side;
                    const st_i32 i2 = first_step + at_step;
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i5 = f5 + e;
                        float value = 0;
                        if (i2 < (130)) {
                            const float v7 = b2[(40 * i2 + i5 + 8 * n21)];
                            value = v7;
                        }
                        xb[g * 4 + e] = value;
                    }
                }
            }
            ST_UNROLL
            for (st_u32 k = 0; k < 4; k++) {
                ST_UNROLL
                for (st_u32 i = 0; i < 3; i++) {
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        c1[i][j] = st_fma_f32(xa[k * 3 + i], xb[k * 4 + j], c1[i][j]);
                    }
                }
            }
        }
    }
    {
        float s[12];
        st_u32 f = 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 12; i++) { s[i] = c0[i % 3][i / 3]; }
        ST_UNROLL
        for (st_u32 i = 0; i < 6; i++) {
            const st_bool is_upper = (ST_THREAD & 2) != 0;
            const float given = is_upper ? s[i] : s[i + 6];
            const float kept = is_upper ? s[i + 6] : s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 2));
            s[i] = kept + taken;
        }
        f += (ST_THREAD & 2) != 0 ? 6 : 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 3; i++) {
            const st_bool is_upper = (ST_THREAD & 4) != 0;
            const float given = is_upper ? s[i] : s[i + 3];
            const float kept = is_upper ? s[i + 3] : s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 4));
            s[i] = kept + taken;
        }
        f += (ST_THREAD & 4) != 0 ? 3 : 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 3; i++) {
            const float given = s[i];
            const float kept = s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 8));
            s[i] = kept + taken;
        }
        ST_UNROLL
        for (st_u32 i = 0; i < 3; i++) {
            const float given = s[i];
            const float kept = s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 16));
            s[i] = kept + taken;
        }
        ST_UNROLL
        for (st_u32 i = 0; i < 3 && (ST_THREAD & 24) == 0; i++) {
            const st_u32 column = (st_u32)wide + (f + i) / 3;
            ts[(ST_THREAD / 32 * 2 + 0) * 24 + (f + i) % 3 * 8 + column] = s[i];
        }
    }
    {
        float s[12];
        st_u32 f = 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 12; i++) { s[i] = c1[i % 3][i / 3]; }
        ST_UNROLL
        for (st_u32 i = 0; i < 6; i++) {
            const st_bool is_upper = (ST_THREAD & 2) != 0;
            const float given = is_upper ? s[i] : s[i + 6];
            const float kept = is_upper ? s[i + 6] : s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 2));
            s[i] = kept + taken;
        }
        f += (ST_THREAD & 2) != 0 ? 6 : 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 3; i++) {
            const st_bool is_upper = (ST_THREAD & 4) != 0;
            const float given = is_upper ? s[i] : s[i + 3];
            const float kept = is_upper ? s[i + 3] : s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 4));
            s[i] = kept + taken;
        }
        f += (ST_THREAD & 4) != 0 ? 3 : 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 3; i++) {
            const float given = s[i];
            const float kept = s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 8));
            s[i] = kept + taken;
        }
        ST_UNROLL
        for (st_u32 i = 0; i < 3; i++) {
            const float given = s[i];
            const float kept = s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 16));
            s[i] = kept + taken;
        }
        ST_UNROLL
        for (st_u32 i = 0; i < 3 && (ST_THREAD & 24) == 0; i++) {
            const st_u32 column = (st_u32)wide + (f + i) / 3;
            ts[(ST_THREAD / 32 * 2 + 1) * 24 + (f + i) % 3 * 8 + column] = s[i];
        }
    }
    st_barrier();
    for (st_u32 r = ST_THREAD; r < 24; r += 96) {
        const st_i32 i4 = (st_i32)(r / 8);
        const st_i32 i5 = (st_i32)(r % 8);
        const st_u32 place = (st_u32)(i4 * 8 + i5);
        float a1 = ts[0 + place];
        for (st_u32 w = 1; w < 3; w++) {
            const float other = ts[w * 48 + 0 + place];
            a1 = a1 + other;
        }
        float a2 = ts[24 + place];
        for (st_u32 w = 1; w < 3; w++) {
            const float other = ts[w * 48 + 24 + place];
            a2 = a2 + other;
        }
        const float v11 = a1;
        b3[(40 * i4 + i5 + 120 * n19 + 8 * n21)] = v11;
        const float v13 = a2;
        const float v29 = (float)(v11 - v13);
        b4[(40 * i4 + i5 + 120 * n19 + 8 * n21)] = v29;
    }
}
// 1 iterations a block, 576 bytes of shared memory, 0 of scratch

