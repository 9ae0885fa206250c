#include "gpu_prelude.h"

typedef struct k0_dot_general_max_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* in2 */
    st_u64 b3; /* out0 */
} k0_dot_general_max_arguments;

#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))

ST_KERNEL(k0_dot_general_max, k0_dot_general_max_arguments, 128)
{
    ST_SHARED(float, ts, 224);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    const float *b2 = ST_GLOBAL(const float, ST_ARG(b2));
    float *b3 = ST_GLOBAL(float, ST_ARG(b3));
    const float v10 = 0.0f;
    const st_i32 i3 = (st_i32)ST_BLOCK;
    const st_i64 v15 = (0);
    const st_i32 n16 = v15;
    const st_i64 v17 = (i3);
    const st_i32 n18 = v17;
    const st_i32 wide = (st_i32)(ST_THREAD % 2 * 4);
    float c0[7][4] = {{0}};
    for (st_i32 first_step = (st_i32)(ST_THREAD / 2 * 4); first_step < (200); first_step += 256) {
        float xa[28];
        st_bool is_whole_a = 0;
        {
            const st_u32 g = 6;
            const st_u32 at = g;
            const st_i32 at_side = (st_i32)(at / 1);
            const st_i32 at_step = (st_i32)(at % 1 * 4);
            const st_i32 i4 = at_side;
            const st_i32 f2 = first_step + at_step;
            st_bool is_whole = 1;
            {
                const st_i32 i2 = f2 + 3;
                is_whole = is_whole && 1;
            }
            const st_i32 i2 = f2;
            is_whole_a = is_whole && (st_u64)(b0 + (i2 + 200 * i4 + 1400 * n16)) % 16 == 0;
        }
        if (is_whole_a) {
            ST_UNROLL
            for (st_u32 g = 0; g < 7; g++) {
                const st_u32 at = g;
                const st_i32 at_side = (st_i32)(at / 1);
                const st_i32 at_step = (st_i32)(at % 1 * 4);
                const st_i32 i4 = at_side;
                const st_i32 f2 = first_step + at_step;
                const st_i32 i2 = f2;
                const st_u32x4 w = st_load_u32x4(b0 + (i2 + 200 * i4 + 1400 * n16));
                const float x2[4] = {st_f32_of_bits(w.x >> 0), st_f32_of_bits(w.y >> 0), st_f32_of_bits(w.z >> 0), st_f32_of_bits(w.w >> 0)};
                ST_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i2 = f2 + e;
                    const float v2 = x2[e];
                    xa[g * 4 + e] = v2;
                }
            }
        } else {
            ST_UNROLL
            for (st_u32 g = 0; g < 7; g++) {
                const st_u32 at = g;
                const st_i32 at_side = (st_i32)(at / 1);
                const st_i32 at_step = (st_i32)(at % 1 * 4);
                const st_i32 i4 = at_side;
                const st_i32 f2 = first_step + at_step;
                ST_UNROLL
                for (st_i32 e = 0; e < 4; e++) {
                    const st_i32 i2 = f2 + e;
                    float value = 0;
                    if (1) {
                        const float v2 = b0[(i2 + 200 * i4 + 1400 * n16)];
                        value = v2;
                    }
                    xa[g * 4 + e] = value;
                }
            }
        }
        {
            float xb[16];
            ST_UNROLL
            for (st_u32 g = 0; g < 16; g++) {
                const st_u32 at = g;
                const st_i32 at_side = wide + (st_i32)(at % 4);
                const st_i32 at_step = (st_i32)(at / 4);
                const st_i32 i5 = at_side;
                const st_i32 i2 = first_step + at_step;
                float value = 0;
                if (1) {
                    const st_i64 v21 = (i5 + 8 * n18);
                    const st_i64 v22 = (90);
                    const st_bool v28 = (st_bool)(v21 < v22);
                    const float v3 = v28 ? b1[(90 * i2 + i5 + 8 * n18)] : 0;
                    value = v3;
                }
                xb[g] = value;
            }
            ST_UNROLL
            for (st_u32 k = 0; k < 4; k++) {
                ST_UNROLL
                for (st_u32 i = 0; i < 7; i++) {
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        c0[i][j] = st_fma_f32(xa[i * 4 + k], xb[k * 4 + j], c0[i][j]);
                    }
                }
            }
        }
    }
    {
        float s[28];
        st_u32 f = 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 28; i++) { s[i] = c0[i % 7][i / 7]; }
        ST_UNROLL
        for (st_u32 i = 0; i < 14; i++) {
            const st_bool is_upper = (ST_THREAD & 2) != 0;
            const float given = is_upper ? s[i] : s[i + 14];
            const float kept = is_upper ? s[i + 14] : s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 2));
            s[i] = kept + taken;
        }
        f += (ST_THREAD & 2) != 0 ? 14 : 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 7; i++) {
            const st_bool is_upper = (ST_THREAD & 4) != 0;
            const float given = is_upper ? s[i] : s[i + 7];
            const float kept = is_upper ? s[i + 7] : s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 4));
            s[i] = kept + taken;
        }
        f += (ST_THREAD & 4) != 0 ? 7 : 0;
        ST_UNROLL
        for (st_u32 i = 0; i < 7; i++) {
            const float given = s[i];
            const float kept = s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 8));
            s[i] = kept + taken;
        }
        ST_UNROLL
        for (st_u32 i = 0; i < 7; i++) {
            const float given = s[i];
            const float kept = s[i];
            const float taken = st_f32_of_bits(st_shuffle_xor_u32(st_bits_of_f32(given), 16));
            s[i] = kept + taken;
        }
        ST_UNROLL
        for (st_u32 i = 0; i < 7 && (ST_THREAD & 24) == 0; i++) {
            const st_u32 column = (st_u32)wide + (f + i) / 7;
            ts[(ST_THREAD / 32 * 1 + 0) * 56 + (f + i) % 7 * 8 + column] = s[i];
        }
    }
    st_barrier();
    for (st_u32 r = ST_THREAD; r < 56; r += 128) {
        const st_i32 i4 = (st_i32)(r / 8);
        const st_i32 i5 = (st_i32)(r % 8);
        const st_u32 place = (st_u32)(i4 * 8 + i5);
        float a1 = ts[0 + place];
        for (st_u32 w = 1; w < 4; w++) {
            const float other = ts[w * 56 + 0 + place];
            a1 = a1 + other;
        }
        const st_i64 v21 = (i5 + 8 * n18);
        const st_i64 v22 = (90);
        const st_bool v28 = (st_bool)(v21 < v22);
        const float v7 = a1;
        const float v8 = v28 ? b2[(i5 + 8 * n18)] : 0;
        const float v30 = (float)(v7 + v8);
        const float v31 = (float)(ST_MAX(v30, v10));
        if (v28) b3[(90 * i4 + i5 + 630 * n16 + 8 * n18)] = v31;
    }
}
// 1 iterations a block, 896 bytes of shared memory, 0 of scratch

