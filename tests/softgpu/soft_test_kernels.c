/* Tests of the software device: kernels, right ones and such as break a rule. */
#include "soft_test_cases.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PRELUDE "#include \"gpu_prelude.h\"\n"
/* The arguments of most kernels here: two addresses and a number. */
#define ARGUMENTS PRELUDE "struct arguments { st_u64 x, y; st_i64 n; };\n"

struct arguments {
    CUdeviceptr x, y;
    int64_t n;
};

void case_pointwise(void)
{
    enum { N = 100000 };
    static float x[N];
    static float y[N];
    soft_test_open(0);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i * 0.25f;
    }
    struct arguments a = {soft_test_floats(x, N), soft_test_floats(NULL, N), N};
    CHECK_OK(soft_test_launch(soft_test_kernel("pointwise"), (N + 255) / 256, &a, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, a.y, sizeof(y), NULL));
    CHECK(y[1] == 0.0f); /* nothing has run yet */
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    for (int i = 0; i < N; i++) {
        CHECK(y[i] == x[i] * x[i] + 1.0f);
    }
    CHECK_OK(cu.cuMemFree_v2(a.x));
    CHECK_OK(cu.cuMemFree_v2(a.y));
    CHECK_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

/* Rows of numbers, as a softmax reads them. */
static void fill_rows(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = (float)((i * 7919) % 1013) * 0.01f;
    }
}

void case_softmax(void)
{
    enum { ROWS = 33, COLUMNS = 1000 };
    static float x[ROWS * COLUMNS];
    static float y[ROWS * COLUMNS];
    static float again[ROWS * COLUMNS];
    soft_test_open(0);
    fill_rows(x, ROWS * COLUMNS);
    struct arguments a = {soft_test_floats(x, ROWS * COLUMNS),
                          soft_test_floats(NULL, ROWS * COLUMNS), COLUMNS};
    const CUfunction softmax = soft_test_kernel("softmax");
    CHECK_OK(soft_test_launch(softmax, ROWS, &a, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, a.y, sizeof(y), NULL));
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int i = 0; i < COLUMNS; i++) {
            sum += exp2((double)x[row * COLUMNS + i]);
        }
        for (int i = 0; i < COLUMNS; i++) { /* the polynomial's error */
            const double want = exp2((double)x[row * COLUMNS + i]) / sum;
            CHECK(fabs((double)y[row * COLUMNS + i] - want) <= 1e-6 * want + 1e-9);
        }
    }
    for (int i = 0; i < 10; i++) { /* each launch has another order, and the same bits */
        CHECK_OK(soft_test_launch(softmax, ROWS, &a, NULL));
        CHECK_OK(cu.cuMemcpyDtoHAsync_v2(again, a.y, sizeof(again), NULL));
        CHECK_OK(cu.cuStreamSynchronize(NULL));
        CHECK(memcmp(y, again, sizeof(y)) == 0);
    }
}

/* Sums 256 numbers over a block; without the barrier, what other warps have not yet written is
 * read. */
#define BLOCK_SUM(barrier)                                                                         \
    ARGUMENTS "ST_KERNEL(block_sum, struct arguments, 256) {\n"                                    \
              "    ST_SHARED(float, all, 256);\n"                                                  \
              "    float sum = 0;\n"                                                               \
              "    all[ST_THREAD] = ST_GLOBAL(const float, ST_ARG(x))[ST_THREAD];\n" barrier       \
              "    for (int i = 0; i < 256; i++) { sum += all[i]; }\n"                             \
              "    if (ST_THREAD == 100) { ST_GLOBAL(float, ST_ARG(y))[0] = sum; }\n"              \
              "}\n"

static float block_sum(CUfunction function, struct arguments *a)
{
    float sum = 0;
    CHECK_OK(soft_test_launch(function, 1, a, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(&sum, a->y, sizeof(sum), NULL));
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    return sum;
}

void case_missing_barrier(void)
{
    float x[256];
    soft_test_open(0);
    for (int i = 0; i < 256; i++) {
        x[i] = 1.0f;
    }
    struct arguments a = {soft_test_floats(x, 256), soft_test_floats(NULL, 1), 256};
    const CUfunction right = soft_test_kernel_of(BLOCK_SUM("    st_barrier();\n"), "block_sum");
    const CUfunction wrong = soft_test_kernel_of(BLOCK_SUM(""), "block_sum");
    for (int i = 0; i < 8; i++) {
        CHECK(block_sum(right, &a) == 256.0f);
        CHECK(block_sum(wrong, &a) != 256.0f); /* shared memory begins as NaN */
    }
}

/* Launches one block of a kernel that must fail with this error, which then stays. */
static void launch_wrong(const char *text, CUresult error)
{
    soft_test_open(0);
    struct arguments a = {soft_test_floats(NULL, 64), soft_test_floats(NULL, 64), 64};
    CUdeviceptr more = 0;
    CHECK_OK(soft_test_launch(soft_test_kernel_of(text, "wrong"), 1, &a, NULL));
    CHECK(cu.cuStreamSynchronize(NULL) == error);
    CHECK(cu.cuStreamSynchronize(NULL) == error);
    CHECK(cu.cuMemAlloc_v2(&more, 4) == error);
    CHECK(strstr(soft_test_error(error), "kernel 'wrong', block 0") != NULL);
}

void case_divergent_barrier(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    if (ST_THREAD >= 32) { st_barrier(); }\n" /* line 4 */
                           "    else { st_barrier(); }\n"                 /* line 5 */
                           "}\n",
                 CUDA_ERROR_LAUNCH_FAILED);
}

void case_ended_thread(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    if (ST_THREAD == 63) { return; }\n"
                           "    st_barrier();\n" /* line 5 */
                           "}\n",
                 CUDA_ERROR_LAUNCH_FAILED);
}

void case_lane_missing(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    if (ST_LANE != 3) {\n"
                           "        ST_GLOBAL(st_u32, ST_ARG(y))[ST_THREAD] =\n"
                           "            st_shuffle_xor_u32(ST_THREAD, 1);\n" /* line 6 */
                           "    }\n"
                           "}\n",
                 CUDA_ERROR_LAUNCH_FAILED);
}

void case_shuffle_width(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 48) {\n"
                           "    ST_GLOBAL(st_u32, ST_ARG(y))[ST_THREAD] =\n"
                           "        st_shuffle_xor_u32(ST_THREAD, 16);\n"
                           "}\n",
                 CUDA_ERROR_LAUNCH_FAILED);
}

void case_past_the_end(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    ST_GLOBAL(float, ST_ARG(y))[ST_THREAD + 1] = 0;\n"
                           "}\n",
                 CUDA_ERROR_ILLEGAL_ADDRESS);
}

void case_no_address(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    *(volatile float *)ST_ARG(y) = 0;\n"
                           "}\n",
                 CUDA_ERROR_ILLEGAL_ADDRESS);
}

void case_null_address(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    ST_GLOBAL(volatile float, 0)[2] = 0;\n"
                           "}\n",
                 CUDA_ERROR_ILLEGAL_ADDRESS);
}

void case_misaligned(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    ST_GLOBAL(double, ST_ARG(y) + 4)[0] = 0;\n"
                           "}\n",
                 CUDA_ERROR_MISALIGNED_ADDRESS);
}

void case_division(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    ST_GLOBAL(st_i64, ST_ARG(y))[0] = 7 / (ST_ARG(n) - 64);\n"
                           "}\n",
                 CUDA_ERROR_LAUNCH_FAILED);
}

void case_stack(void)
{
    launch_wrong(ARGUMENTS "ST_KERNEL(wrong, struct arguments, 64) {\n"
                           "    volatile st_u8 big[100000];\n"
                           "    for (int i = 99999; i >= 0; i--) { big[i] = 1; }\n"
                           "}\n",
                 CUDA_ERROR_LAUNCH_FAILED);
}

void case_host_pointer(void)
{
    float *host = malloc(64 * sizeof(float));
    soft_test_open(0);
    struct arguments a = {(CUdeviceptr)(uintptr_t)host, soft_test_floats(NULL, 64), 64};
    CHECK_OK(soft_test_launch(soft_test_kernel("pointwise"), 1, &a, NULL));
    CHECK(cu.cuStreamSynchronize(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
    free(host);
}

void case_use_after_free(void)
{
    soft_test_open(0);
    struct arguments a = {soft_test_floats(NULL, 64), soft_test_floats(NULL, 64), 64};
    CHECK_OK(cu.cuMemFree_v2(a.x));
    CHECK_OK(soft_test_launch(soft_test_kernel("pointwise"), 1, &a, NULL));
    CHECK(cu.cuStreamSynchronize(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The host may not look at device memory: this ends the process. */
void case_host_dereference(void)
{
    soft_test_open(0);
    const CUdeviceptr x = soft_test_floats(NULL, 64);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would end the process otherwise */
    *(volatile float *)(uintptr_t)x = 0;
}

/* An argument struct of the same size, and a kernel's own functions, which have a definition
 * here. */
void case_functions(void)
{
    float y[64];
    soft_test_open(0);
    struct arguments a = {0, soft_test_floats(NULL, 64), 64};
    const CUfunction f = soft_test_kernel_of(
        ARGUMENTS "ST_KERNEL(functions, struct arguments, 64) {\n"
                  "    const float x = (float)ST_THREAD;\n"
                  "    float y = st_exp_f32(x * 0.1f) + st_tanh_f32(x) + st_fmod_f32(x, 3.0f);\n"
                  "    y += (float)(st_pow_f64(x, 0.5) + st_erf_f64(x));\n"
                  "    y = st_fma_f32(y, 2.0f, st_sqrt_f32(st_abs_f32(-x)));\n"
                  "    ST_GLOBAL(float, ST_ARG(y))[ST_THREAD] =\n"
                  "        y + st_floor_f32(x / 3) + st_rint_f32(x / 4) + st_trunc_f32(x / 5);\n"
                  "}\n",
        "functions");
    CHECK_OK(soft_test_launch(f, 1, &a, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, a.y, sizeof(y), NULL));
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    for (int i = 0; i < 64; i++) {
        const float x = (float)i;
        float want = expf(x * 0.1f) + tanhf(x) + fmodf(x, 3.0f);
        want += (float)(pow((double)x, 0.5) + erf((double)x));
        want = fmaf(want, 2.0f, sqrtf(x));
        CHECK(y[i] == want + floorf(x / 3) + rintf(x / 4) + truncf(x / 5));
    }
}

void case_does_not_compile(void)
{
    soft_test_open(0);
    soft_test_kernel_of(PRELUDE "int f(void) { return unknown(1); }\n", "f");
}

/* What the compiler is asked for matters: products and sums become one fma unless that is
 * refused. */
void case_options(void)
{
    static const char text[] = PRELUDE "int f;\n";
    nvrtcProgram program = NULL;
    char log[400];
    soft_test_open(0);
    CHECK(cu.nvrtcCreateProgram(&program, text, "f.cu", 0, NULL, NULL) == 0);
    CHECK(cu.nvrtcCompileProgram(program, 0, NULL) == 6); /* the header was not given */
    CHECK(cu.nvrtcCompileProgram(program, 1, (const char *const[]){"--ftz=true"}) == 5);
    CHECK(cu.nvrtcGetProgramLog(program, log) == 0 && strstr(log, "--ftz=true") != NULL);
    CHECK(cu.nvrtcCompileProgram(program, 1, (const char *const[]){"-arch=sm_12"}) == 5);
    CHECK(cu.nvrtcDestroyProgram(&program) == 0 && program == NULL);
}

void case_limits(void)
{
    soft_test_open(0);
    CUfunction f = soft_test_kernel("pointwise");
    struct arguments a = {0, 0, 0};
    void *const arguments[] = {&a};
#define LAUNCH(blocks, blocks_y, threads, shared)                                                  \
    cu.cuLaunchKernel(f, blocks, blocks_y, 1, threads, 1, 1, shared, NULL, (void **)arguments, NULL)
    CHECK(LAUNCH(0, 1, 256, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(LAUNCH(1, 70000, 256, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(LAUNCH(1, 1, 2048, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(LAUNCH(1, 1, 512, 0) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK(LAUNCH(1, 1, 128, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(LAUNCH(1, 1, 256, 100000) == CUDA_ERROR_INVALID_VALUE);
    CHECK_OK(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    CHECK_OK(LAUNCH(1, 1, 256, 100000));
    CHECK(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK_OK(cu.cuCtxSynchronize());
#undef LAUNCH
}

void case_small_chip(void)
{
    CUdeviceptr p = 0;
    int n = 0;
    soft_test_open(0);
    CUfunction f = soft_test_kernel("pointwise");
    CHECK_OK(cu.cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    CHECK(n == 1);
    CHECK(cu.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuMemAlloc_v2(&p, (size_t)300 << 20) == CUDA_ERROR_OUT_OF_MEMORY && p == 0);
    CHECK_OK(cu.cuMemAlloc_v2(&p, (size_t)200 << 20));
    CHECK_OK(cu.cuMemFree_v2(p));
}
