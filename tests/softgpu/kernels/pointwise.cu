/* y = x * x + 1, one element a thread. */
#include "gpu_prelude.h"

struct pointwise_arguments {
    st_u64 x, y;
    st_i64 n;
};

ST_DEVICE st_i64 index_of(void) {
    return ST_BLOCK * 256 + ST_THREAD;
}

ST_KERNEL(pointwise, struct pointwise_arguments, 256) {
    const st_i64 i = index_of();
    if (i < ST_ARG(n)) {
        const float x = ST_GLOBAL(const float, ST_ARG(x))[i];
        ST_GLOBAL(float, ST_ARG(y))[i] = x * x + 1.0f;
    }
}
