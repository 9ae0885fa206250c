#include "gpu_prelude.h"

typedef struct k0_max_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_max_arguments;

#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))

ST_KERNEL(k0_max, k0_max_arguments, 256)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const float v4 = 0.0f;
    const st_i32 i2 = (st_i32)(ST_BLOCK * 256 + ST_THREAD);
    if (i2 < (64000)) {
        const st_i64 v9 = (((i2) / (1000)));
        const st_i32 n10 = v9;
        const st_i64 v11 = (((i2) % (1000)));
        const st_i32 n12 = v11;
        const float v1 = b0[(i2)];
        const float v2 = b1[(n12)];
        const float v15 = (float)(v1 + v2);
        const float v16 = (float)(ST_MAX(v15, v4));
        b2[(i2)] = v16;
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

