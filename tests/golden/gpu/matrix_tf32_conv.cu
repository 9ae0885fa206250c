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
    ST_DYNAMIC_SHARED(st_u8, tile);
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
    st_u8 *const ta = tile;
    st_u8 *const tb = tile + 16384;
    const st_u32 warp_row = ST_THREAD / 64 * 32;
    const st_u32 warp_column = ST_THREAD / 32 % 2 * 32;
    float c[2][4][4] = {{{0}}};
    st_u32 xb[8];
    const float *from_a; /* of the first steps, whose place in a stage is put_a */
    st_u8 *put_a;
    {
        const st_u32 g = 0;
        const st_i32 next = 0;
        const st_u32 at = ST_THREAD + g * 128;
        const st_u32 fast = at % 4 * 4;
        const st_u32 slow = at / 4;
        const st_i32 i10 = (st_i32)slow;
        const st_i32 f8 = next * 16 + (st_i32)fast;
        const st_i32 i8 = f8;
        st_u8 *to = ta + ((st_u32)next % 4 * 4096 + slow * 64 + ((fast / 4) ^ slow / 2 % 4) * 16 + fast % 4 * 4);
        put_a = to;
        from_a = b1 + (i8 + 72 * i10 + 4608 * n43);
    }
    st_bool is_fast_a = (st_u64)from_a % 16 == 0;
    {
        const st_i32 i10 = 63;
        const st_i64 v47 = (i10 + 64 * n43);
        const st_i64 v48 = (40);
        const st_bool v70 = (st_bool)(v47 < v48);
        is_fast_a = is_fast_a && v70;
    }
    st_u32 p[2][1][2][4], q[2][1][2][4];
    const st_i32 steps = ((72) + 15) / 16;
    for (st_i32 step = -3; step < steps; step++) {
        const st_i32 next = step + 3;
        if (next < steps) {
            if (is_fast_a && next * 16 + 16 <= (72)) {
                ST_UNROLL
                for (st_u32 g = 0; g < 2; g++) {
                    st_copy_async_16(put_a + ((st_u32)next % 4 * 4096 + g * 2048), from_a + (next * 16 + (st_i64)((st_i32)g * 32) * (72)));
                }
            } else {
                ST_NO_UNROLL
                for (st_u32 g = 0; g < 2; g++) {
                    const st_u32 at = ST_THREAD + g * 128;
                    const st_u32 fast = at % 4 * 4;
                    const st_u32 slow = at / 4;
                    const st_i32 i10 = (st_i32)slow;
                    const st_i32 f8 = next * 16 + (st_i32)fast;
                    st_u8 *to = ta + ((st_u32)next % 4 * 4096 + slow * 64 + ((fast / 4) ^ slow / 2 % 4) * 16 + fast % 4 * 4);
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
                    if (is_whole && (st_u64)(b1 + (i8 + 72 * i10 + 4608 * n43)) % 16 == 0) {
                        st_copy_async_16(to, b1 + (i8 + 72 * i10 + 4608 * n43));
                    } else {
                        ST_NO_UNROLL
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
                            ((float *)to)[e] = value;
                        }
                    }
                }
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 64 * 1;
                const st_u32 slow = at / 64;
                const st_i32 f11 = (st_i32)fast;
                const st_i32 i8 = next * 16 + (st_i32)slow;
                ST_UNROLL
                for (st_i32 e = 0; e < 1; e++) {
                    const st_i32 i11 = f11 + e;
                    float value = 0;
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
                        const st_i64 v36 = (((i8) / (9)));
                        const st_i32 n37 = v36;
                        const st_i64 v38 = (((((i8) / (3))) % (3)));
                        const st_i32 n39 = v38;
                        const st_i64 v40 = (((i8) % (3)));
                        const st_i32 n41 = v40;
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
                    xb[g * 1 + (st_u32)e] = st_bits_of_f32(value);
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
                ST_UNROLL
                for (st_u32 e = 0; e < 4; e++) {
                    p[to][0][i][e] = st_tf32_of_f32(p[to][0][i][e]);
                }
            }
            ST_UNROLL
            for (st_u32 i = 0; i < 2; i++) {
                ST_UNROLL
                for (st_u32 e = 0; e < 4; e++) {
                    const st_u32 row = k * 8 + e % 2 * 4 + ST_LANE % 4;
                    const st_u32 side = warp_column + i * 16 + e / 2 * 8 + ST_LANE / 4;
                    q[to][0][i][e] = st_load_u32(tb + (half * 4096 + row * 256 + ((side / 4) ^ row % 4 * 2) * 16 + side % 4 * 4));
                }
                ST_UNROLL
                for (st_u32 e = 0; e < 4; e++) {
                    q[to][0][i][e] = st_tf32_of_f32(q[to][0][i][e]);
                }
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
                    ST_UNROLL
                    for (st_u32 e = 0; e < 4; e++) {
                        p[to][0][i][e] = st_tf32_of_f32(p[to][0][i][e]);
                    }
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    ST_UNROLL
                    for (st_u32 e = 0; e < 4; e++) {
                        const st_u32 row = k * 8 + e % 2 * 4 + ST_LANE % 4;
                        const st_u32 side = warp_column + i * 16 + e / 2 * 8 + ST_LANE / 4;
                        q[to][0][i][e] = st_load_u32(tb + (half * 4096 + row * 256 + ((side / 4) ^ row % 4 * 2) * 16 + side % 4 * 4));
                    }
                    ST_UNROLL
                    for (st_u32 e = 0; e < 4; e++) {
                        q[to][0][i][e] = st_tf32_of_f32(q[to][0][i][e]);
                    }
                }
                ST_UNROLL
                for (st_u32 i = 0; i < 2; i++) {
                    ST_UNROLL
                    for (st_u32 j = 0; j < 4; j++) {
                        st_mma_tf32(c[i][j], p[from][0][i], q[from][0][j / 2] + j % 2 * 2);
                    }
                }
            }
        }
        if (next < steps) {
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_u32 fast = at % 64 * 1;
                const st_u32 slow = at / 64;
                st_u8 *to = tb + ((st_u32)next % 4 * 4096 + slow * 256 + ((fast / 4) ^ slow % 4 * 2) * 16 + fast % 4 * 4);
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
            const st_i32 i10 = (st_i32)(warp_row + i * 16 + r);
            const st_i64 v47 = (i10 + 64 * n43);
            const st_i64 v48 = (40);
            const st_bool v70 = (st_bool)(v47 < v48);
            ST_UNROLL
            for (st_u32 j = ST_LANE; j < 32; j += 32) {
                const st_i32 i11 = (st_i32)(warp_column + j);
                const float a1 = sums[r * 40 + j];
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
        st_warp_barrier();
    }
}
// 1 iterations a block, 32768 bytes of shared memory, 0 of scratch

