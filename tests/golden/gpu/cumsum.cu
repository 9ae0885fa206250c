#include "gpu_prelude.h"

typedef struct k0_cumsum_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
} k0_cumsum_arguments;

ST_KERNEL(k0_cumsum, k0_cumsum_arguments, 256)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    float *b1 = ST_GLOBAL(float, ST_ARG(b1));
    const st_i32 i0 = (st_i32)(ST_BLOCK * 256 + ST_THREAD);
    if (i0 < (100)) {
        double a1 = 0;
        for (st_i32 i1 = 0; i1 < (50); i1++) {
            const float v2 = b0[(50 * i0 + i1)];
            const double v12 = (double)(v2);
            a1 = (double)(a1 + v12);
            const double v5 = a1;
            const float v13 = (float)(v5);
            b1[(50 * i0 + i1)] = v13;
        }
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

