#include "gpu_prelude.h"

typedef struct k0_cast_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
    st_i64 s0;
} k0_cast_arguments;

ST_KERNEL(k0_cast, k0_cast_arguments, 256)
{
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    st_u16 *b1 = ST_GLOBAL(st_u16, ST_ARG(b1));
    const st_i64 s0 = (st_i64)ST_ARG(s0);
    const float v3 = 0.5f;
    const float v5 = 0.7071067690849304f;
    const float v8 = 1.0f;
    const st_i64 i2 = (st_i64)(ST_BLOCK * 256 + ST_THREAD);
    if (i2 < (64ll * s0)) {
        const st_u16 v1 = b0[(i2)];
        const float v60 = (float)st_f32_of_bf16(v1);
        const float v61 = (float)(st_abs_f32(v60));
        const float v17 = 13.75f;
        const st_bool v62 = (st_bool)(v61 < v17);
        const float v63 = (float)(v62 ? v61 : v17);
        const float v20 = 2.7827161019899904e-08f;
        const float v21 = -1.7630936781642959e-06f;
        const float v64 = (float)(st_fma_f32(v20, v63, v21));
        const float v23 = 4.816544606001116e-05f;
        const float v65 = (float)(st_fma_f32(v64, v63, v23));
        const float v25 = -0.0007496445323340595f;
        const float v66 = (float)(st_fma_f32(v65, v63, v25));
        const float v27 = 0.0074503058567643166f;
        const float v67 = (float)(st_fma_f32(v66, v63, v27));
        const float v29 = -0.05089779570698738f;
        const float v68 = (float)(st_fma_f32(v67, v63, v29));
        const float v31 = -0.46263083815574646f;
        const float v69 = (float)(st_fma_f32(v68, v63, v31));
        const float v33 = -1.1491435766220093f;
        const float v70 = (float)(st_fma_f32(v69, v63, v33));
        const float v35 = 12582912.0f;
        const float v71 = (float)(st_fma_f32(v70, v63, v35));
        const float v72 = (float)(v35 - v71);
        const float v73 = (float)(st_fma_f32(v70, v63, v72));
        const float v39 = 1804.9927978515625f;
        const float v40 = 7948.75537109375f;
        const float v74 = (float)(st_fma_f32(v39, v73, v40));
        const float v42 = 22714.578125f;
        const float v75 = (float)(st_fma_f32(v74, v73, v42));
        const float v44 = 32761.806640625f;
        const float v76 = (float)(st_fma_f32(v75, v73, v44));
        const st_i32 v77 = (st_i32)(st_bits_of_f32(v76));
        const st_i32 v78 = (st_i32)(st_bits_of_f32(v71));
        const st_i32 v48 = (st_i32)0x17ull;
        const st_i32 v79 = (st_i32)((st_u32)v78 << (st_u32)v48);
        const st_i32 v80 = (st_i32)((st_u32)v77 + (st_u32)v79);
        const float v81 = (float)st_f32_of_bits((v80));
        const float v52 = -1.52587890625e-05f;
        const float v82 = (float)(v63 * v52);
        const float v54 = 0.0f;
        const st_bool v83 = (st_bool)(v60 > v54);
        const float v84 = (float)(v83 ? v8 : v54);
        const float v85 = (float)(v60 * v84);
        const float v86 = (float)(st_fma_f32(v82, v81, v85));
        const st_u16 v87 = (st_u16)st_bf16_of_f32(v86);
        b1[(i2)] = v87;
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

