#include "gpu_prelude.h"

typedef struct k0_cast_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* w2 */
} k0_cast_arguments;

#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))

ST_KERNEL(k0_cast, k0_cast_arguments, 256)
{
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    st_u16 *b1 = ST_GLOBAL(st_u16, ST_ARG(b1));
    ST_SHARED(st_u16, b2, 4224); /* tile */
    const float v3 = 0.0f;
    const st_i32 i2 = (st_i32)ST_BLOCK;
    const st_i64 v9 = (i2);
    const st_i32 n10 = v9;
    const st_i64 v11 = (0);
    const st_i32 n12 = v11;
    for (st_i32 i3 = (st_i32)(ST_THREAD); i3 < (4096); i3 += 256) {
        const st_i64 v15 = (64 * n10 + ((i3) % (64)));
        const st_i64 v16 = (67);
        const st_bool v40 = (st_bool)(v15 < v16);
        const st_i64 v18 = (64 * n12 + ((i3) / (64)));
        const st_i64 v19 = (45);
        const st_bool v41 = (st_bool)(v18 < v19);
        const st_bool v42 = (st_bool)(v40 & v41);
        const st_u16 v22 = v42 ? b0[(64 * n10 + 4288 * n12 + ((i3) % (64)) + 67 * ((i3) / (64)))] : 0;
        b2[(((i3) % (64)) + 66 * ((i3) / (64)))] = v22;
    }
    st_barrier();
    for (st_i32 i4 = (st_i32)(ST_THREAD); i4 < (4096); i4 += 256) {
        const st_i64 v24 = (64 * n10 + ((i4) / (64)));
        const st_i64 v25 = (67);
        const st_bool v43 = (st_bool)(v24 < v25);
        const st_i64 v27 = (64 * n12 + ((i4) % (64)));
        const st_i64 v28 = (45);
        const st_bool v44 = (st_bool)(v27 < v28);
        const st_bool v45 = (st_bool)(v43 & v44);
        const st_u16 v1 = b2[(66 * ((i4) % (64)) + ((i4) / (64)))];
        const float v46 = (float)st_f32_of_f16(v1);
        const float v47 = (float)(ST_MAX(v46, v3));
        const st_u16 v48 = (st_u16)st_f16_of_f32(v47);
        if (v45) b1[(2880 * n10 + 64 * n12 + ((i4) % (64)) + 45 * ((i4) / (64)))] = v48;
    }
}
// 1 iterations a block, 8448 bytes of shared memory, 0 of scratch

#include "gpu_prelude.h"

typedef struct k1_dot_general_arguments {
    st_u64 b0; /* w2 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k1_dot_general_arguments;

ST_KERNEL(k1_dot_general, k1_dot_general_arguments, 128)
{
    ST_DYNAMIC_SHARED(st_u8, tile);
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    const st_u16 *b1 = ST_GLOBAL(const st_u16, ST_ARG(b1));
    st_u16 *b2 = ST_GLOBAL(st_u16, ST_ARG(b2));
    const st_i32 i3 = (st_i32)ST_BLOCK;
    const st_i64 v14 = (((i3) / (2)));
    const st_i32 n15 = v14;
    const st_i64 v16 = (((i3) % (2)));
    const st_i32 n17 = v16;
    st_u8 *const ta = tile;
    st_u8 *const tb = tile + 16384;
    const st_u32 warp_row = ST_THREAD / 64 * 32;
    const st_u32 warp_column = ST_THREAD / 32 % 2 * 32;
    float c[2][4][4] = {{{0}}};
    st_u32 xa[8];
    st_u32 xb[8];
    st_u32 p[2][1][2][4], q[2][1][2][4];
    const st_i32 steps = ((45) + 31) / 32;
    for (st_i32 step = -3; step < steps; step++) {
        const st_i32 next = step + 3;
        if (next < steps) {
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 16 * 2;
                const st_u32 slow = at / 16;
                const st_i32 i4 = (st_i32)slow;
                const st_i32 f2 = next * 32 + (st_i32)fast;
                ST_UNROLL
                for (st_i32 e = 0; e < 2; e++) {
                    const st_i32 i2 = f2 + e;
                    st_u16 value = 0;
                    if (i2 < (45)) {
                        const st_i64 v19 = (i4 + 64 * n15);
                        const st_i64 v20 = (67);
                        const st_bool v34 = (st_bool)(v19 < v20);
                        const st_u16 v2 = v34 ? b0[(i2 + 45 * i4 + 2880 * n15)] : 0;
                        value = v2;
                    }
                    const st_u32 w = g * 1 + (st_u32)e / 2;
                    xa[w] = e % 2 == 0 ? (st_u32)value : xa[w] | (st_u32)value << 16;
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 32 * 2;
                const st_u32 slow = at / 32;
                const st_i32 f5 = (st_i32)fast;
                const st_i32 i2 = next * 32 + (st_i32)slow;
                ST_UNROLL
                for (st_i32 e = 0; e < 2; e++) {
                    const st_i32 i5 = f5 + e;
                    st_u16 value = 0;
                    if (i2 < (45)) {
                        const st_i64 v23 = (i5 + 64 * n17);
                        const st_i64 v24 = (83);
                        const st_bool v35 = (st_bool)(v23 < v24);
                        const st_u16 v4 = v35 ? b1[(83 * i2 + i5 + 64 * n17)] : 0;
                        value = v4;
                    }
                    const st_u32 w = g * 1 + (st_u32)e / 2;
                    xb[w] = e % 2 == 0 ? (st_u32)value : xb[w] | (st_u32)value << 16;
                }
            }
        }
        st_copies_commit();
        if (step == -1) {
            st_copies_wait(2);
            st_barrier();
            const st_u32 half = 0, k = 0, to = 0;
            ST_UNROLL
            for (st_u32 i = 0; i < 2; i++) {
                const st_u32 row = warp_row + i * 16 + ST_LANE % 16;
                const st_u32 chunk = k * 2 + ST_LANE / 16;
                st_load_matrices(p[to][0][i], ta + (half * 4096 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
            }
            ST_UNROLL
            for (st_u32 i = 0; i < 2; i++) {
                const st_u32 row = k * 16 + ST_LANE % 16;
                const st_u32 chunk = (warp_column + i * 16) / 8 + ST_LANE / 16;
                st_load_matrices_across(q[to][0][i], tb + (half * 4096 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
            }
        } else if (step >= 0) {
            ST_UNROLL
            for (st_u32 n = 0; n < 2; n++) {
                const st_u32 from = n % 2;
                const st_u32 to = (n + 1) % 2;
                const st_u32 k = (n + 1) % 2;
                const st_u32 half = (st_u32)(step + (n + 1) / 2) % 4;
                if (n == 1) {
                    st_copies_wait(2);
                    st_barrier();
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    const st_u32 row = warp_row + i * 16 + ST_LANE % 16;
                    const st_u32 chunk = k * 2 + ST_LANE / 16;
                    st_load_matrices(p[to][0][i], ta + (half * 4096 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    const st_u32 row = k * 16 + ST_LANE % 16;
                    const st_u32 chunk = (warp_column + i * 16) / 8 + ST_LANE / 16;
                    st_load_matrices_across(q[to][0][i], tb + (half * 4096 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_f16(c[i][j], p[from][0][i], q[from][0][j / 2] + j % 2 * 2);
                    }
                }
            }
        }
        if (next < steps) {
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 16 * 2;
                const st_u32 slow = at / 16;
                st_u8 *to = ta + ((st_u32)next % 4 * 4096 + slow * 64 + ((fast / 8) ^ slow / 2 % 4) * 16 + fast % 8 * 2);
                st_store_u32(to, xa[g * 1 + 0]);
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 32 * 2;
                const st_u32 slow = at / 32;
                st_u8 *to = tb + ((st_u32)next % 4 * 4096 + slow * 128 + ((fast / 8) ^ slow / 1 % 8) * 16 + fast % 8 * 2);
                st_store_u32(to, xb[g * 1 + 0]);
            }
        }
    }
    st_copies_wait(0);
    st_barrier();
    float *const sums = (float *)tile + ST_THREAD / 32 * 640;
    ST_UNROLL
    for (st_u32 i = 0; i < 2; i++) {
        ST_UNROLL
        for (st_u32 j = 0; j < 4; j++) {
            float *to = sums + (ST_LANE / 4 * 40 + j * 8 + ST_LANE % 4 * 2);
            st_store_u32x2(to, st_bits_of_f32(c[i][j][0]), st_bits_of_f32(c[i][j][1]));
            st_store_u32x2(to + 320, st_bits_of_f32(c[i][j][2]), st_bits_of_f32(c[i][j][3]));
        }
        st_warp_barrier();
        for (st_u32 r = 0; r < 16; r++) {
            const st_i32 i4 = (st_i32)(warp_row + i * 16 + r);
            const st_i64 v19 = (i4 + 64 * n15);
            const st_i64 v20 = (67);
            const st_bool v34 = (st_bool)(v19 < v20);
            ST_UNROLL
            for (st_u32 j = ST_LANE; j < 32; j += 32) {
                const st_i32 i5 = (st_i32)(warp_column + j);
                const float a1 = sums[r * 40 + j];
                const st_i64 v23 = (i5 + 64 * n17);
                const st_i64 v24 = (83);
                const st_bool v35 = (st_bool)(v23 < v24);
                const st_bool v36 = (st_bool)(v34 & v35);
                const float v9 = a1;
                const st_u16 v40 = (st_u16)st_f16_of_f32(v9);
                if (v36) b2[(83 * i4 + i5 + 5312 * n15 + 64 * n17)] = v40;
            }
        }
        st_warp_barrier();
    }
}
// 1 iterations a block, 32768 bytes of shared memory, 0 of scratch

