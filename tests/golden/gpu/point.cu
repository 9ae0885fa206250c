#include "gpu_prelude.h"

typedef struct k0_max_arguments {
    st_u64 b0; /* in0 */
    st_u64 b1; /* in1 */
    st_u64 b2; /* out0 */
} k0_max_arguments;

#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))

ST_DEVICE st_u32x4 st_take_u32x4(const void *from, st_u32 n)
{
    const st_u32 *p = (const st_u32 *)from;
    if (n == 4 && (st_u64)from % 16 == 0) {
        return st_load_u32x4(from);
    }
    st_u32x4 w;
    const st_u32 x0 = st_load_u32(p + 0);
    const st_u32 x1 = st_load_u32(p + (n > 1 ? 1 : n - 1));
    const st_u32 x2 = st_load_u32(p + (n > 2 ? 2 : n - 1));
    const st_u32 x3 = st_load_u32(p + (n > 3 ? 3 : n - 1));
    w.x = x0;
    w.y = x1;
    w.z = x2;
    w.w = x3;
    return w;
}

ST_DEVICE void st_give_u32x4(void *to, st_u32 n, st_u32 x, st_u32 y, st_u32 z, st_u32 w)
{
    st_u32 *p = (st_u32 *)to;
    if (n == 4 && (st_u64)to % 16 == 0) {
        st_store_u32x4(to, x, y, z, w);
        return;
    }
    if (n > 0) st_store_u32(p + 0, x);
    if (n > 1) st_store_u32(p + 1, y);
    if (n > 2) st_store_u32(p + 2, z);
    if (n > 3) st_store_u32(p + 3, w);
}

ST_KERNEL(k0_max, k0_max_arguments, 256)
{
    const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
    const float *b1 = ST_GLOBAL(const float, ST_ARG(b1));
    float *b2 = ST_GLOBAL(float, ST_ARG(b2));
    const float v4 = 0.0f;
    const st_i32 f2 = (st_i32)((ST_BLOCK * 256 + ST_THREAD) * 4);
    if (f2 < (64000)) {
        const st_i32 i2 = f2;
        const st_u32x4 w1 = st_take_u32x4(b0 + (i2), 4);
        const float x1[4] = {st_f32_of_bits(w1.x), st_f32_of_bits(w1.y), st_f32_of_bits(w1.z), st_f32_of_bits(w1.w)};
        float x6[4];
        ST_UNROLL
        for (st_i32 e = 0; e < 4; e++) {
            const st_i32 i2 = f2 + e;
            const st_i64 v9 = (((i2) / (1000)));
            const st_i32 n10 = v9;
            const st_i64 v11 = (((i2) % (1000)));
            const st_i32 n12 = v11;
            const float v1 = x1[e];
            const float v2 = b1[(n12)];
            const float v15 = (float)(v1 + v2);
            const float v16 = (float)(ST_MAX(v15, v4));
            x6[e] = v16;
        }
        st_give_u32x4(b2 + (i2), 4, st_bits_of_f32(x6[0]), st_bits_of_f32(x6[1]), st_bits_of_f32(x6[2]), st_bits_of_f32(x6[3]));
    }
}
// 1024 iterations a block, 0 bytes of shared memory, 0 of scratch

