/* Tests of the software device: kernels, memory, streams, events, faults and limits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soft_test.h"

#define LEAKS_OFF "STATOR_SOFT_LEAKS=0"

struct pointwise_arguments {
    CUdeviceptr x, y;
    int64_t n;
};

static void pointwise(void)
{
    enum { N = 100000 };
    static float x[N];
    static float y[N];
    CUdeviceptr pinned_y = 0;
    soft_test_open(0);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i * 0.25f;
    }
    struct pointwise_arguments a = {soft_test_floats(x, N), soft_test_floats(NULL, N), N};
    CHECK_OK(soft_test_launch(soft_test_kernel("pointwise"), (N + 255) / 256, &a, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, a.y, sizeof(y), NULL));
    CHECK(y[1] == 0.0f); /* nothing has run yet */
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    for (int i = 0; i < N; i++) {
        CHECK(y[i] == x[i] * x[i] + 1.0f);
    }
    CHECK_OK(cu.cuMemFree_v2(a.x));
    CHECK_OK(cu.cuMemFree_v2(a.y));
    CHECK(cu.cuMemFree_v2(pinned_y) == CUDA_SUCCESS);
    CHECK_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

struct softmax_arguments {
    CUdeviceptr x, y;
    int64_t columns;
};

static void softmax(void)
{
    enum { ROWS = 33, COLUMNS = 1000 };
    static float x[ROWS * COLUMNS];
    static float y[ROWS * COLUMNS];
    soft_test_open(0);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)((i * 7919) % 1013) * 0.01f;
    }
    struct softmax_arguments a = {soft_test_floats(x, ROWS * COLUMNS),
                                  soft_test_floats(NULL, ROWS * COLUMNS), COLUMNS};
    CHECK_OK(soft_test_launch(soft_test_kernel("softmax"), ROWS, &a, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, a.y, sizeof(y), NULL));
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int i = 0; i < COLUMNS; i++) {
            sum += exp2((double)x[row * COLUMNS + i]);
        }
        for (int i = 0; i < COLUMNS; i++) {
            const double want = exp2((double)x[row * COLUMNS + i]) / sum;
            CHECK(fabs((double)y[row * COLUMNS + i] - want) <= 1e-6 * want + 1e-9);
        }
    }
}

int main(void)
{
    const soft_case cases[] = {
        {"pointwise", pointwise, NULL, 0, NULL},
        {"pointwise ascending", pointwise, "STATOR_SOFT_ORDER=ascending", 0, NULL},
        {"softmax", softmax, LEAKS_OFF, 0, NULL},
        {"softmax in another order", softmax, LEAKS_OFF " STATOR_SOFT_ORDER=random:77", 0, NULL},
        {"softmax descending", softmax, LEAKS_OFF " STATOR_SOFT_ORDER=descending", 0, NULL},
    };
    return soft_run_cases(cases, sizeof(cases) / sizeof(cases[0])) == 0 ? 0 : 1;
}
