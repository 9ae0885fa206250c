#include "gpu_prelude.h"

typedef struct k0_dot_general_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_dot_general_arguments;

/* What a value is more than a piece of it; beyond the largest, nothing. */
ST_DEVICE float st_rest_of(float x, st_u16 piece)
{
    const float rest = x - st_f32_of_bf16(piece);
    return rest - rest == 0 ? rest : 0;
}

ST_KERNEL(k0_dot_general, k0_dot_general_arguments, 128)
{
    ST_DYNAMIC_SHARED(st_u8, tile);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const st_i32 i4 = (st_i32)ST_BLOCK;
    const st_i64 v12 = (((i4) / (2)));
    const st_i32 n13 = v12;
    const st_i64 v14 = (0);
    const st_i32 n15 = v14;
    const st_i64 v16 = (((i4) % (2)));
    const st_i32 n17 = v16;
    st_u8 *const ta = tile;
    st_u8 *const tb = tile + 36864;
    const st_u32 warp_row = ST_THREAD / 64 * 32;
    const st_u32 warp_column = ST_THREAD / 32 % 2 * 32;
    float c[2][4][4] = {{{0}}};
    st_u32 xa[16];
    st_u32 xb[16];
    st_u32 p[2][3][2][4], q[2][3][2][4];
    const st_i32 steps = ((33) + 31) / 32;
    for (st_i32 step = -2; step < steps; step++) {
        const st_i32 next = step + 2;
        if (next < steps) {
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 16 * 2;
                const st_u32 slow = at / 16;
                const st_i32 i5 = (st_i32)slow;
                const st_i32 f3 = next * 32 + (st_i32)fast;
                ST_UNROLL
                for (st_i32 e = 0; e < 2; e++) {
                    const st_i32 i3 = f3 + e;
                    float value = 0;
                    if (i3 < (33)) {
                        const st_i64 v19 = (i5 + 64 * n15);
                        const st_i64 v20 = (40);
                        const st_bool v31 = (st_bool)(v19 < v20);
                        const float v2 = v31 ? b0[(i3 + 33 * i5 + 1320 * n13 + 2112 * n15)] : 0;
                        value = v2;
                    }
                    xa[g * 2 + (st_u32)e] = st_bits_of_f32(value);
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 4; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 16 * 4;
                const st_u32 slow = at / 16;
                const st_i32 f6 = (st_i32)fast;
                const st_i32 i3 = next * 32 + (st_i32)slow;
                st_bool is_whole = 1;
                {
                    const st_i32 i6 = f6 + 3;
                    const st_i64 v23 = (i6 + 64 * n17);
                    const st_i64 v24 = (72);
                    const st_bool v32 = (st_bool)(v23 < v24);
                    is_whole = v32;
                    is_whole = is_whole && i3 < (33);
                }
                const st_i32 i6 = f6;
                if (is_whole && (st_u64)(b1 + (72 * i3 + i6 + 2376 * n13 + 64 * n17)) % 16 == 0) {
                    const st_u32x4 w = st_load_u32x4(b1 + (72 * i3 + i6 + 2376 * n13 + 64 * n17));
                    const float x3[4] = {st_f32_of_bits(w.x >> 0), st_f32_of_bits(w.y >> 0), st_f32_of_bits(w.z >> 0), st_f32_of_bits(w.w >> 0)};
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i6 = f6 + e;
                        float value = 0;
                        if (i3 < (33)) {
                            const st_i64 v23 = (i6 + 64 * n17);
                            const st_i64 v24 = (72);
                            const st_bool v32 = (st_bool)(v23 < v24);
                            const float v3 = v32 ? x3[e] : 0;
                            value = v3;
                        }
                        xb[g * 4 + (st_u32)e] = st_bits_of_f32(value);
                    }
                } else {
                    ST_UNROLL
                    for (st_i32 e = 0; e < 4; e++) {
                        const st_i32 i6 = f6 + e;
                        float value = 0;
                        if (i3 < (33)) {
                            const st_i64 v23 = (i6 + 64 * n17);
                            const st_i64 v24 = (72);
                            const st_bool v32 = (st_bool)(v23 < v24);
                            const float v3 = v32 ? b1[(72 * i3 + i6 + 2376 * n13 + 64 * n17)] : 0;
                            value = v3;
                        }
                        xb[g * 4 + (st_u32)e] = st_bits_of_f32(value);
                    }
                }
            }
        }
        st_copies_commit();
        if (step == -1) {
            st_copies_wait(1);
            st_barrier();
            const st_u32 half = 0, k = 0, to = 0;
            ST_UNROLL
            for (st_u32 i = 0; i < 2; i++) {
                const st_u32 row = warp_row + i * 16 + ST_LANE % 16;
                const st_u32 chunk = k * 2 + ST_LANE / 16;
                st_load_matrices(p[to][0][i], ta + (half * 12288 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
                st_load_matrices(p[to][1][i], ta + (half * 12288 + 4096 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
                st_load_matrices(p[to][2][i], ta + (half * 12288 + 8192 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
            }
            ST_UNROLL
            for (st_u32 i = 0; i < 2; i++) {
                const st_u32 row = k * 16 + ST_LANE % 16;
                const st_u32 chunk = (warp_column + i * 16) / 8 + ST_LANE / 16;
                st_load_matrices_across(q[to][0][i], tb + (half * 12288 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
                st_load_matrices_across(q[to][1][i], tb + (half * 12288 + 4096 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
                st_load_matrices_across(q[to][2][i], tb + (half * 12288 + 8192 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
            }
        } else if (step >= 0) {
            ST_UNROLL
            for (st_u32 n = 0; n < 2; n++) {
                const st_u32 from = n % 2;
                const st_u32 to = (n + 1) % 2;
                const st_u32 k = (n + 1) % 2;
                const st_u32 half = (st_u32)(step + (n + 1) / 2) % 3;
                if (n == 1) {
                    st_copies_wait(1);
                    st_barrier();
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    const st_u32 row = warp_row + i * 16 + ST_LANE % 16;
                    const st_u32 chunk = k * 2 + ST_LANE / 16;
                    st_load_matrices(p[to][0][i], ta + (half * 12288 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
                    st_load_matrices(p[to][1][i], ta + (half * 12288 + 4096 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
                    st_load_matrices(p[to][2][i], ta + (half * 12288 + 8192 + row * 64 + ((chunk) ^ row / 2 % 4) * 16));
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    const st_u32 row = k * 16 + ST_LANE % 16;
                    const st_u32 chunk = (warp_column + i * 16) / 8 + ST_LANE / 16;
                    st_load_matrices_across(q[to][0][i], tb + (half * 12288 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
                    st_load_matrices_across(q[to][1][i], tb + (half * 12288 + 4096 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
                    st_load_matrices_across(q[to][2][i], tb + (half * 12288 + 8192 + row * 128 + ((chunk) ^ row / 1 % 8) * 16));
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    float d[4][4] = {{0}};
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_bf16(d[j], p[from][2][i], q[from][0][j / 2] + j % 2 * 2);
                    }
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_bf16(d[j], p[from][1][i], q[from][1][j / 2] + j % 2 * 2);
                    }
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_bf16(d[j], p[from][0][i], q[from][2][j / 2] + j % 2 * 2);
                    }
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_bf16(d[j], p[from][1][i], q[from][0][j / 2] + j % 2 * 2);
                    }
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_bf16(d[j], p[from][0][i], q[from][1][j / 2] + j % 2 * 2);
                    }
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_bf16(d[j], p[from][0][i], q[from][0][j / 2] + j % 2 * 2);
                    }
                    ST_UNROLL
                    for (st_u32 e = 0; e < 16; e++) {
                        c[i][e / 4][e % 4] = c[i][e / 4][e % 4] + d[e / 4][e % 4];
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
                st_u8 *to = ta + ((st_u32)next % 3 * 12288 + slow * 64 + ((fast / 8) ^ slow / 2 % 4) * 16 + fast % 8 * 2);
                st_u32 h[3][1];
                ST_UNROLL
                for (st_u32 e = 0; e < 2; e++) {
                    float rest = st_f32_of_bits(xa[g * 2 + e]);
                    ST_UNROLL
                    for (st_u32 n = 0; n < 3; n++) {
                        const st_u16 piece = st_bf16_of_f32(rest);
                        h[n][e / 2] = e % 2 == 0 ? (st_u32)piece : h[n][e / 2] | (st_u32)piece << 16;
                        rest = st_rest_of(rest, piece);
                    }
                }
                ST_UNROLL
                for (st_u32 n = 0; n < 3; n++) {
                    st_store_u32(to + n * 4096, h[n][0]);
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 4; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 16 * 4;
                const st_u32 slow = at / 16;
                st_u8 *to = tb + ((st_u32)next % 3 * 12288 + slow * 128 + ((fast / 8) ^ slow / 1 % 8) * 16 + fast % 8 * 2);
                st_u32 h[3][2];
                ST_UNROLL
                for (st_u32 e = 0; e < 4; e++) {
                    float rest = st_f32_of_bits(xb[g * 4 + e]);
                    ST_UNROLL
                    for (st_u32 n = 0; n < 3; n++) {
                        const st_u16 piece = st_bf16_of_f32(rest);
                        h[n][e / 2] = e % 2 == 0 ? (st_u32)piece : h[n][e / 2] | (st_u32)piece << 16;
                        rest = st_rest_of(rest, piece);
                    }
                }
                ST_UNROLL
                for (st_u32 n = 0; n < 3; n++) {
                    st_store_u32x2(to + n * 4096, h[n][0], h[n][1]);
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
            const st_i32 i5 = (st_i32)(warp_row + i * 16 + r);
            const st_i64 v19 = (i5 + 64 * n15);
            const st_i64 v20 = (40);
            const st_bool v31 = (st_bool)(v19 < v20);
            ST_UNROLL
            for (st_u32 j = ST_LANE; j < 32; j += 32) {
                const st_i32 i6 = (st_i32)(warp_column + j);
                const float a1 = sums[r * 40 + j];
                const st_i64 v23 = (i6 + 64 * n17);
                const st_i64 v24 = (72);
                const st_bool v32 = (st_bool)(v23 < v24);
                const st_bool v33 = (st_bool)(v31 & v32);
                const float v7 = a1;
                if (v33) b2[(72 * i5 + i6 + 2880 * n13 + 4608 * n15 + 64 * n17)] = v7;
            }
        }
        st_warp_barrier();
    }
}
// 1 iterations a block, 73728 bytes of shared memory, 0 of scratch

