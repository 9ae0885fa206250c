#include "gpu_prelude.h"

typedef struct k0_transpose_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* out0 */
} k0_transpose_arguments;

ST_KERNEL(k0_transpose, k0_transpose_arguments, 256)
{
    const st_u16 *b0 = ST_GLOBAL(const st_u16, ST_ARG(b0));
    st_u16 *b1 = ST_GLOBAL(st_u16, ST_ARG(b1));
    ST_SHARED(st_u16, b2, 4224); /* tile */
    const st_i32 i3 = (st_i32)ST_BLOCK;
    const st_i64 v6 = (((i3) / (8)));
    const st_i32 n7 = v6;
    const st_i64 v8 = (((((i3) / (2))) % (4)));
    const st_i32 n9 = v8;
    const st_i64 v10 = (((i3) % (2)));
    const st_i32 n11 = v10;
    for (st_i32 i4 = (st_i32)(ST_THREAD); i4 < (4096); i4 += 256) {
        const st_i64 v14 = (64 * n9 + ((i4) % (64)));
        const st_i64 v15 = (200);
        const st_bool v24 = (st_bool)(v14 < v15);
        const st_u16 v17 = v24 ? b0[(25600 * n7 + 64 * n9 + 12800 * n11 + ((i4) % (64)) + 200 * ((i4) / (64)))] : 0;
        b2[(((i4) % (64)) + 66 * ((i4) / (64)))] = v17;
    }
    st_barrier();
    for (st_i32 i5 = (st_i32)(ST_THREAD); i5 < (4096); i5 += 256) {
        const st_i64 v19 = (64 * n9 + ((i5) / (64)));
        const st_i64 v20 = (200);
        const st_bool v25 = (st_bool)(v19 < v20);
        const st_u16 v1 = b2[(66 * ((i5) % (64)) + ((i5) / (64)))];
        if (v25) b1[(25600 * n7 + 8192 * n9 + 64 * n11 + ((i5) % (64)) + 128 * ((i5) / (64)))] = v1;
    }
}
// 1 iterations a block, 8448 bytes of shared memory, 0 of scratch

