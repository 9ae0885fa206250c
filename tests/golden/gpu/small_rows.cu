#include "gpu_prelude.h"

typedef struct k0_reduce_max_exp_reduce_sum_mul_arguments {
    st_u64 b1; /* in0 */
    st_u64 b2; /* out0 */
    st_i64 s0;
} k0_reduce_max_exp_reduce_sum_mul_arguments;

ST_KERNEL(k0_reduce_max_exp_reduce_sum_mul, k0_reduce_max_exp_reduce_sum_mul_arguments, 256)
{
    float b0[10]; /* row1 */
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const st_i64 s0 = (st_i64)ST_ARG(s0);
    const float v14 = 1.0f;
    const st_i64 i0 = (st_i64)(ST_BLOCK * 256 + ST_THREAD);
    if (i0 < (s0)) {
        float a1 = st_f32_of_bits(0xff800000u);
        for (st_i64 i1 = 0; i1 < (10ll); i1++) {
            const float v2 = b1[(10ll * i0 + i1)];
            a1 = (float)(st_maximum_f32(a1, v2));
        }
        float a5 = 0;
        const float v7 = a1;
        for (st_i64 i2 = 0; i2 < (10ll); i2++) {
            const float v6 = b1[(10ll * i0 + i2)];
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
            b0[(i2)] = v86;
            a5 = (float)(a5 + v86);
        }
        const float v15 = a5;
        const float v87 = (float)(v14 / v15);
        for (st_i64 i3 = 0; i3 < (10ll); i3++) {
            const float v13 = b0[(i3)];
            const float v88 = (float)(v13 * v87);
            b2[(10ll * i0 + i3)] = v88;
        }
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

