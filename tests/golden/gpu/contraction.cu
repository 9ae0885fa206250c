#include "gpu_prelude.h"

typedef struct k0_dot_general_add_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* in2 */
    st_u64 b3; /* in3 */
    st_u64 b4; /* out0 */
} k0_dot_general_add_arguments;

ST_KERNEL(k0_dot_general_add, k0_dot_general_add_arguments, 128)
{
    ST_SHARED(float, ta, 2176);
    ST_SHARED(float, tb, 2176);
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    const float *b2 = ST_GLOBAL(const float, ST_ARG(b2));
    const float *b3 = ST_GLOBAL(const float, ST_ARG(b3));
    float *b4 = ST_GLOBAL(float, ST_ARG(b4));
    const float v10 = 0.5f;
    const float v12 = 0.7071067690849304f;
    const float v15 = 1.0f;
    const st_i32 i3 = (st_i32)ST_BLOCK;
    const st_i64 v23 = (((i3) / (2)));
    const st_i32 n24 = v23;
    const st_i64 v25 = (((i3) % (2)));
    const st_i32 n26 = v25;
    const st_i32 row = (st_i32)(ST_THREAD / 64 * 32 + ST_THREAD % 32 / 8 * 4);
    const st_i32 column = (st_i32)(ST_THREAD / 32 % 2 * 32 + ST_THREAD % 8 * 4);
    float c[8][4] = {{0}};
    float xa[8];
    float xb[8];
    const st_i32 steps = ((50) + 15) / 16;
    for (st_i32 step = 0; step <= steps; step++) {
        if (step < steps) {
            const st_i32 first_step = step * 16;
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_i32 at_side = (st_i32)(at / 16);
                const st_i32 at_step = (st_i32)(at % 16);
                const st_i32 i4 = at_side;
                const st_i32 i2 = first_step + at_step;
                float value = 0;
                if (i2 < (50)) {
                    const st_i64 v28 = (i4 + 64 * n24);
                    const st_i64 v29 = (70);
                    const st_bool v107 = (st_bool)(v28 < v29);
                    const float v2 = v107 ? b0[(i2 + 50 * i4 + 3200 * n24)] : 0;
                    value = v2;
                }
                xa[g] = value;
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_i32 at_side = (st_i32)(ST_THREAD % 32 + g % 2 * 32);
                const st_i32 at_step = (st_i32)(ST_THREAD / 32 + g / 2 * 4);
                const st_i32 i5 = at_side;
                const st_i32 i2 = first_step + at_step;
                float value = 0;
                if (i2 < (50)) {
                    const st_i64 v32 = (i5 + 64 * n26);
                    const st_i64 v33 = (90);
                    const st_bool v108 = (st_bool)(v32 < v33);
                    const float v3 = v108 ? b1[(90 * i2 + i5 + 64 * n26)] : 0;
                    value = v3;
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
            for (st_u32 g = 0; g < 8; g++) {
                const st_u32 at = ST_THREAD + g * 128;
                const st_i32 at_side = (st_i32)(at / 16);
                const st_i32 at_step = (st_i32)(at % 16);
                float *to = ta + (step % 2 * 1088 + at_step * 68 + at_side);
                *to = xa[g];
            }
            ST_UNROLL
            for (st_u32 g = 0; g < 8; g++) {
                const st_i32 at_side = (st_i32)(ST_THREAD % 32 + g % 2 * 32);
                const st_i32 at_step = (st_i32)(ST_THREAD / 32 + g / 2 * 4);
                float *to = tb + (step % 2 * 1088 + at_step * 68 + at_side);
                *to = xb[g];
            }
        }
        st_barrier();
    }
    float s[8][4];
    ST_UNROLL
    for (st_u32 i = 0; i < 8; i++) {
        ST_UNROLL
        for (st_u32 j = 0; j < 4; j++) { s[i][j] = c[i][j]; }
    }
    /* not unrolled */
    for (st_i32 i = 0; i < 8; i++) {
        const st_i32 i4 = row + i / 4 * 16 + i % 4;
        const st_i64 v28 = (i4 + 64 * n24);
        const st_i64 v29 = (70);
        const st_bool v107 = (st_bool)(v28 < v29);
        /* not unrolled */
        for (st_i32 j = 0; j < 4; j++) {
            const st_i32 i5 = column + j / 4 * 32 + j % 4;
            const float a1 = s[i][j];
            const st_i64 v32 = (i5 + 64 * n26);
            const st_i64 v33 = (90);
            const st_bool v108 = (st_bool)(v32 < v33);
            const st_bool v109 = (st_bool)(v107 & v108);
            const float v7 = a1;
            const float v8 = v109 ? b2[(i5 + 64 * n26)] : 0;
            const float v111 = (float)(v7 + v8);
            const float v112 = (float)(v111 * v10);
            const float v113 = (float)(v111 * v12);
            const float v114 = (float)(st_abs_f32(v113));
            const float v115 = (float)(v114 * v114);
            const float v45 = -0.0006020799628458917f;
            const float v46 = 0.004998959135264158f;
            const float v116 = (float)(st_fma_f32(v45, v115, v46));
            const float v48 = -0.026770493015646935f;
            const float v117 = (float)(st_fma_f32(v116, v115, v48));
            const float v50 = 0.11281921714544296f;
            const float v118 = (float)(st_fma_f32(v117, v115, v50));
            const float v52 = -0.3761250376701355f;
            const float v119 = (float)(st_fma_f32(v118, v115, v52));
            const float v54 = 0.12837915122509003f;
            const float v120 = (float)(st_fma_f32(v119, v115, v54));
            const float v121 = (float)(st_fma_f32(v114, v120, v114));
            const float v57 = 4.0f;
            const st_bool v122 = (st_bool)(v57 < v114);
            const float v123 = (float)(v122 ? v57 : v114);
            const float v60 = 0.0002844730915967375f;
            const float v61 = -0.004408295266330242f;
            const float v124 = (float)(st_fma_f32(v60, v123, v61));
            const float v63 = 0.032138969749212265f;
            const float v125 = (float)(st_fma_f32(v124, v123, v63));
            const float v65 = -0.15009404718875885f;
            const float v126 = (float)(st_fma_f32(v125, v123, v65));
            const float v67 = -0.9190830588340759f;
            const float v127 = (float)(st_fma_f32(v126, v123, v67));
            const float v69 = -1.6269986629486084f;
            const float v128 = (float)(st_fma_f32(v127, v123, v69));
            const float v71 = -0.00025607342831790447f;
            const float v129 = (float)(st_fma_f32(v128, v123, v71));
            const float v73 = 12582912.0f;
            const float v130 = (float)(v129 + v73);
            const float v131 = (float)(v130 - v73);
            const float v132 = (float)(v129 - v131);
            const float v77 = 0.0013669102918356657f;
            const float v78 = 0.009684810414910316f;
            const float v133 = (float)(st_fma_f32(v77, v132, v78));
            const float v80 = 0.055496811866760254f;
            const float v134 = (float)(st_fma_f32(v133, v132, v80));
            const float v82 = 0.24021919071674347f;
            const float v135 = (float)(st_fma_f32(v134, v132, v82));
            const float v84 = 0.6931474208831787f;
            const float v136 = (float)(st_fma_f32(v135, v132, v84));
            const float v86 = 1.0000001192092896f;
            const float v137 = (float)(st_fma_f32(v136, v132, v86));
            const st_i32 v138 = (st_i32)(st_bits_of_f32(v137));
            const st_i32 v139 = (st_i32)(st_bits_of_f32(v130));
            const st_i32 v90 = (st_i32)0x17ull;
            const st_i32 v140 = (st_i32)((st_u32)v139 << (st_u32)v90);
            const st_i32 v141 = (st_i32)((st_u32)v138 + (st_u32)v140);
            const float v142 = (float)st_f32_of_bits((v141));
            const float v143 = (float)(v15 - v142);
            const float v95 = 0.8999999761581421f;
            const st_bool v144 = (st_bool)(v114 > v95);
            const float v145 = (float)(v144 ? v143 : v121);
            const st_i32 v146 = (st_i32)(st_bits_of_f32(v145));
            const st_i32 v147 = (st_i32)(st_bits_of_f32(v113));
            const st_i32 v100 = (st_i32)0x80000000ull;
            const st_i32 v148 = (st_i32)(v147 & v100);
            const st_i32 v149 = (st_i32)(v146 | v148);
            const float v150 = (float)st_f32_of_bits((v149));
            const float v151 = (float)(v150 + v15);
            const float v152 = (float)(v112 * v151);
            const float v18 = v109 ? b3[(90 * i4 + i5 + 5760 * n24 + 64 * n26)] : 0;
            const float v153 = (float)(v152 + v18);
            if (v109) b4[(90 * i4 + i5 + 5760 * n24 + 64 * n26)] = v153;
        }
    }
}
// 1 iterations a block, 17408 bytes of shared memory, 0 of scratch

