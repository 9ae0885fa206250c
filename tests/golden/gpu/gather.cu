#include "gpu_prelude.h"

typedef struct k0_cast_arguments {
    st_u64 b0; /* in1 */
    st_u64 b1; /* in0 */
    st_u64 b2; /* out0 */
    st_u64 status;
} k0_cast_arguments;

/* Element i of integers of four bits, the one of even index in the low ones. */
ST_DEVICE st_u8 st_u4(const st_u8 *b, st_i64 i)
{
    return (st_u8)(b[i >> 1] >> (i & 1) * 4 & 15);
}

ST_KERNEL(k0_cast, k0_cast_arguments, 256)
{
    const st_i64 *b0 = ST_GLOBAL(const st_i64, ST_ARG(b0));
    const st_u8 *b1 = ST_GLOBAL(const st_u8, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const st_i64 v2 = (st_i64)0x0ull;
    const st_i64 v3 = (st_i64)0x8ull;
    const st_u8 v12 = (st_u8)0x0ull;
    const st_i32 i2 = (st_i32)(ST_BLOCK * 256 + ST_THREAD);
    if (i2 < (18)) {
        const st_i64 v19 = (((i2) / (6)));
        const st_i32 n20 = v19;
        const st_i64 v21 = (((i2) % (6)));
        const st_i32 n22 = v21;
        const st_i64 v1 = b0[(n20)];
        const st_bool v31 = (st_bool)(v1 < v2);
        const st_i64 v32 = (st_i64)((st_u64)v1 + (st_u64)v3);
        const st_i64 v33 = (st_i64)(v31 ? v32 : v1);
        const st_bool v34 = (st_bool)(v33 < v3);
        const st_bool v35 = (st_bool)(v33 >= v2);
        const st_bool v36 = (st_bool)(v35 & v34);
        { if (!v36) st_set_status(ST_ARG(status), 1); }
        const st_i32 n11 = v33;
        const st_u8 v13 = v36 ? st_u4(b1, (6 * n11 + n22)) : 0;
        const st_u8 v37 = (st_u8)(v36 ? v13 : v12);
        const float v38 = (float)(v37);
        b2[(i2)] = v38;
    }
}
// 256 iterations a block, 0 bytes of shared memory, 0 of scratch

