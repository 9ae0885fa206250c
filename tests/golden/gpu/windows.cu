#include "gpu_prelude.h"

typedef struct k0_conv_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_conv_arguments;

ST_KERNEL(k0_conv, k0_conv_arguments, 256)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const st_i64 v2 = (st_i64)0x0ull;
    const st_i64 v5 = (st_i64)0x18ull;
    const st_i32 i6 = (st_i32)(ST_BLOCK * 256 + ST_THREAD);
    if (i6 < (589824)) {
        const st_i64 v25 = (((i6) / (36864)));
        const st_i32 n26 = v25;
        const st_i64 v27 = (((((i6) / (576))) % (64)));
        const st_i32 n28 = v27;
        const st_i64 v29 = (((((i6) / (24))) % (24)));
        const st_i32 n30 = v29;
        const st_i64 v31 = (((i6) % (24)));
        const st_i32 n32 = v31;
        float a1 = 0;
        for (st_i32 i4 = 0; i4 < (7); i4++) {
            const st_i64 v3 = (i4 + n30 + -3);
            const st_bool v41 = (st_bool)(v3 >= v2);
            const st_bool v42 = (st_bool)(v3 < v5);
            const st_bool v43 = (st_bool)(v41 & v42);
            for (st_i32 i5 = 0; i5 < (7); i5++) {
                const st_i64 v8 = (i5 + n32 + -3);
                const st_bool v44 = (st_bool)(v8 >= v2);
                const st_bool v45 = (st_bool)(v8 < v5);
                const st_bool v46 = (st_bool)(v44 & v45);
                const st_bool v47 = (st_bool)(v43 & v46);
                const float v13 = v47 ? b0[(24 * i4 + i5 + i6 + -75)] : 0;
                const float v14 = b1[(7 * i4 + i5 + 49 * n28)];
                const float v48 = (float)(v13 * v14);
                if (v47) a1 = (float)(a1 + v48);
            }
        }
        const float v19 = a1;
        b2[(i6)] = v19;
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

#include "gpu_prelude.h"

typedef struct k1_reduce_window_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out1 */
} k1_reduce_window_arguments;

ST_KERNEL(k1_reduce_window, k1_reduce_window_arguments, 256)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    float *b1 = ST_GLOBAL(float, ST_ARG(b1));
    const st_i64 v2 = (st_i64)0x0ull;
    const st_i32 i7 = (st_i32)(ST_BLOCK * 256 + ST_THREAD);
    if (i7 < (147456)) {
        const st_i64 v18 = (((i7) / (144)));
        const st_i32 n19 = v18;
        const st_i64 v20 = (((((i7) / (12))) % (12)));
        const st_i32 n21 = v20;
        const st_i64 v22 = (((i7) % (12)));
        const st_i32 n23 = v22;
        float a1 = st_f32_of_bits(0xff800000u);
        for (st_i32 i4 = 0; i4 < (3); i4++) {
            const st_i64 v3 = (i4 + 2 * n21 + -1);
            const st_bool v27 = (st_bool)(v3 >= v2);
            for (st_i32 i5 = 0; i5 < (3); i5++) {
                const st_i64 v5 = (i5 + 2 * n23 + -1);
                const st_bool v28 = (st_bool)(v5 >= v2);
                const st_bool v29 = (st_bool)(v27 & v28);
                const float v8 = v29 ? b0[(24 * i4 + i5 + 576 * n19 + 48 * n21 + 2 * n23 + -25)] : 0;
                if (v29) a1 = (float)(st_maximum_f32(a1, v8));
            }
        }
        const float v12 = a1;
        b1[(i7)] = v12;
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

