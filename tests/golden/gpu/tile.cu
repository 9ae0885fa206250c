#include "gpu_prelude.h"

typedef struct k0_add_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_add_arguments;

ST_KERNEL(k0_add, k0_add_arguments, 256)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    ST_SHARED(float, b3, 1056); /* tile */
    const st_i32 i2 = (st_i32)ST_BLOCK;
    const st_i64 v7 = (((i2) / (3)));
    const st_i32 n8 = v7;
    const st_i64 v9 = (((i2) % (3)));
    const st_i32 n10 = v9;
    for (st_i32 i3 = (st_i32)(ST_THREAD); i3 < (1024); i3 += 256) {
        const st_i64 v13 = (32 * n8 + ((i3) % (32)));
        const st_i64 v14 = (70);
        const st_bool v24 = (st_bool)(v13 < v14);
        const float v16 = v24 ? b0[(32 * n8 + 2240 * n10 + ((i3) % (32)) + 70 * ((i3) / (32)))] : 0;
        b3[(((i3) % (32)) + 33 * ((i3) / (32)))] = v16;
    }
    st_barrier();
    for (st_i32 i4 = (st_i32)(ST_THREAD); i4 < (1024); i4 += 256) {
        const st_i64 v18 = (32 * n8 + ((i4) / (32)));
        const st_i64 v19 = (70);
        const st_bool v25 = (st_bool)(v18 < v19);
        const float v1 = b3[(33 * ((i4) % (32)) + ((i4) / (32)))];
        const float v2 = v25 ? b1[(32 * n10 + ((i4) % (32)))] : 0;
        const float v26 = (float)(v1 + v2);
        if (v25) b2[(3072 * n8 + 32 * n10 + ((i4) % (32)) + 96 * ((i4) / (32)))] = v26;
    }
}
// 1 iterations a block, 4224 bytes of shared memory, 0 of scratch

