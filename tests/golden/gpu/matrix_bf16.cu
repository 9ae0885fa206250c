#include "gpu_prelude.h"

typedef struct k0_dot_general_add_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* in2 */
    st_u64 b3; /* out0 */
} k0_dot_general_add_arguments;

ST_KERNEL(k0_dot_general_add, k0_dot_general_add_arguments, 128)
{
    ST_DYNAMIC_SHARED(st_u8, tile);
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    const st_u16 *b1 = ST_GLOBAL(const st_u16, ST_ARG(b1));
    const st_u16 *b2 = ST_GLOBAL(const st_u16, ST_ARG(b2));
    st_u16 *b3 = ST_GLOBAL(st_u16, ST_ARG(b3));
    const st_i32 i3 = (st_i32)ST_BLOCK;
    const st_i64 v19 = (0);
    const st_i32 n20 = v19;
    const st_i64 v21 = (i3);
    const st_i32 n22 = v21;
    st_u8 *const ta = tile;
    st_u8 *const tb = tile + 16384;
    const st_u32 warp_row = ST_THREAD / 64 * 32;
    const st_u32 warp_column = ST_THREAD / 32 % 2 * 32;
    float c[2][4][4] = {{{0}}};
    const st_u16 *from_a; /* of the first steps, whose place in a stage is put_a */
    st_u8 *put_a;
    {
        const st_u32 g = 0;
        const st_i32 next = 0;
        const st_u32 at = ST_THREAD + g * 128;
        const st_u32 fast = at % 4 * 8;
        const st_u32 slow = at / 4;
        const st_i32 i4 = (st_i32)slow;
        const st_i32 f2 = next * 32 + (st_i32)fast;
        const st_i32 i2 = f2;
        st_u8 *to = ta + ((st_u32)next % 4 * 4096 + slow * 64 + ((fast / 8) ^ slow / 2 % 4) * 16 + fast % 8 * 2);
        put_a = to;
        from_a = b0 + (i2 + 96 * i4 + 6144 * n20);
    }
    st_bool is_fast_a = (st_u64)from_a % 16 == 0;
    const st_u16 *from_b; /* of the first steps, whose place in a stage is put_b */
    st_u8 *put_b;
    {
        const st_u32 g = 0;
        const st_i32 next = 0;
        const st_u32 at = ST_THREAD + g * 128;
        const st_u32 fast = at % 8 * 8;
        const st_u32 slow = at / 8;
        const st_i32 f5 = (st_i32)fast;
        const st_i32 i2 = next * 32 + (st_i32)slow;
        const st_i32 i5 = f5;
        st_u8 *to = tb + ((st_u32)next % 4 * 4096 + slow * 128 + ((fast / 8) ^ slow / 1 % 8) * 16 + fast % 8 * 2);
        put_b = to;
        from_b = b1 + (80 * i2 + i5 + 64 * n22);
    }
    st_bool is_fast_b = (st_u64)from_b % 16 == 0;
    {
        const st_i32 i5 = 63;
        const st_i64 v25 = (i5 + 64 * n22);
        const st_i64 v26 = (80);
        const st_bool v37 = (st_bool)(v25 < v26);
        is_fast_b = is_fast_b && v37;
    }
    st_u32 p[2][1][2][4], q[2][1][2][4];
    const st_i32 steps = ((96) + 31) / 32;
    for (st_i32 step = -3; step < steps; step++) {
        const st_i32 next = step + 3;
        if (next < steps) {
            if (is_fast_a) {
                ST_UNROLL
                for (st_u32 g = 0; g < 2; g++) {
                    st_copy_async_16(put_a + ((st_u32)next % 4 * 4096 + g * 2048), from_a + (next * 32 + (st_i64)((st_i32)g * 32) * (96)));
                }
            } else {
                ST_NO_UNROLL
                for (st_u32 g = 0; g < 2; g++) {
                    const st_u32 at = ST_THREAD + g * 128;
                    const st_u32 fast = at % 4 * 8;
                    const st_u32 slow = at / 4;
                    const st_i32 i4 = (st_i32)slow;
                    const st_i32 f2 = next * 32 + (st_i32)fast;
                    st_u8 *to = ta + ((st_u32)next % 4 * 4096 + slow * 64 + ((fast / 8) ^ slow / 2 % 4) * 16 + fast % 8 * 2);
                    st_bool is_whole = 1;
                    {
                        const st_i32 i2 = f2 + 7;
                        is_whole = is_whole && 1;
                    }
                    const st_i32 i2 = f2;
                    if (is_whole && (st_u64)(b0 + (i2 + 96 * i4 + 6144 * n20)) % 16 == 0) {
                        st_copy_async_16(to, b0 + (i2 + 96 * i4 + 6144 * n20));
                    } else {
                        ST_NO_UNROLL
                        for (st_i32 e = 0; e < 8; e++) {
                            const st_i32 i2 = f2 + e;
                            st_u16 value = 0;
                            if (1) {
                                const st_u16 v2 = b0[(i2 + 96 * i4 + 6144 * n20)];
                                value = v2;
                            }
                            ((st_u16 *)to)[e] = value;
                        }
                    }
                }
            }
            if (is_fast_b) {
                ST_UNROLL
                for (st_u32 g = 0; g < 2; g++) {
                    st_copy_async_16(put_b + ((st_u32)next % 4 * 4096 + g * 2048), from_b + (st_i64)(next * 32 + (st_i32)g * 16) * (80));
                }
            } else {
                ST_NO_UNROLL
                for (st_u32 g = 0; g < 2; g++) {
                    const st_u32 at = ST_THREAD + g * 128;
                    const st_u32 fast = at % 8 * 8;
                    const st_u32 slow = at / 8;
                    const st_i32 f5 = (st_i32)fast;
                    const st_i32 i2 = next * 32 + (st_i32)slow;
                    st_u8 *to = tb + ((st_u32)next % 4 * 4096 + slow * 128 + ((fast / 8) ^ slow / 1 % 8) * 16 + fast % 8 * 2);
                    st_bool is_whole = 1;
                    {
                        const st_i32 i5 = f5 + 7;
                        const st_i64 v25 = (i5 + 64 * n22);
                        const st_i64 v26 = (80);
                        const st_bool v37 = (st_bool)(v25 < v26);
                        is_whole = v37;
                        is_whole = is_whole && 1;
                    }
                    const st_i32 i5 = f5;
                    if (is_whole && (st_u64)(b1 + (80 * i2 + i5 + 64 * n22)) % 16 == 0) {
                        st_copy_async_16(to, b1 + (80 * i2 + i5 + 64 * n22));
                    } else {
                        ST_NO_UNROLL
                        for (st_i32 e = 0; e < 8; e++) {
                            const st_i32 i5 = f5 + e;
                            st_u16 value = 0;
                            if (1) {
                                const st_i64 v25 = (i5 + 64 * n22);
                                const st_i64 v26 = (80);
                                const st_bool v37 = (st_bool)(v25 < v26);
                                const st_u16 v4 = v37 ? b1[(80 * i2 + i5 + 64 * n22)] : 0;
                                value = v4;
                            }
                            ((st_u16 *)to)[e] = value;
                        }
                    }
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
                        st_mma_bf16(c[i][j], p[from][0][i], q[from][0][j / 2] + j % 2 * 2);
                    }
                }
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
            ST_UNROLL
            for (st_u32 j = ST_LANE; j < 32; j += 32) {
                const st_i32 i5 = (st_i32)(warp_column + j);
                const float a1 = sums[r * 40 + j];
                const st_i64 v25 = (i5 + 64 * n22);
                const st_i64 v26 = (80);
                const st_bool v37 = (st_bool)(v25 < v26);
                const float v9 = a1;
                const st_u16 v41 = (st_u16)st_bf16_of_f32(v9);
                const float v42 = st_round_bf16(v9);
                const st_u16 v12 = v37 ? b2[(i5 + 64 * n22)] : 0;
                const float v43 = (float)st_f32_of_bf16(v12);
                const float v44 = (float)(v42 + v43);
                const st_u16 v45 = (st_u16)st_bf16_of_f32(v44);
                if (v37) b3[(80 * i4 + i5 + 5120 * n20 + 64 * n22)] = v45;
            }
        }
        st_warp_barrier();
    }
}
// 1 iterations a block, 32768 bytes of shared memory, 0 of scratch

