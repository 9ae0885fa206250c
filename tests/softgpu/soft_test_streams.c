/* Tests of the software device: streams, events and copies. */
#define _GNU_SOURCE
#include "soft_test_cases.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N 1000

struct arguments {
    CUdeviceptr x, y;
    int64_t n;
};

static void launch_pointwise(CUfunction f, CUdeviceptr x, CUdeviceptr y, CUstream stream)
{
    struct arguments a = {x, y, N};
    CHECK_OK(soft_test_launch(f, (N + 255) / 256, &a, stream));
    a.x = 0; /* the arguments were copied */
}

/* One stream squares, another squares the result: twice as many elements when the event orders
 * them. */
static int right_of_two_streams(bool has_event)
{
    float x[N];
    float y[N];
    CUstream first = NULL;
    CUstream second = NULL;
    CUevent event = NULL;
    int n_right = 0;
    for (int i = 0; i < N; i++) {
        x[i] = 2.0f;
    }
    const CUfunction f = soft_test_kernel("pointwise");
    const CUdeviceptr a = soft_test_floats(x, N);
    const CUdeviceptr b = soft_test_floats(NULL, N);
    const CUdeviceptr c = soft_test_floats(NULL, N);
    CHECK_OK(cu.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CHECK_OK(cu.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CHECK_OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    launch_pointwise(f, a, b, first);
    CHECK_OK(cu.cuEventRecord(event, first));
    if (has_event) {
        CHECK_OK(cu.cuStreamWaitEvent(second, event, 0));
    }
    CHECK_OK(cu.cuEventDestroy_v2(event)); /* what waits for it goes on waiting */
    launch_pointwise(f, b, c, second);
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, c, sizeof(y), second));
    CHECK_OK(cu.cuStreamSynchronize(second));
    for (int i = 0; i < N; i++) {
        n_right += y[i] == 26.0f;
    }
    CHECK_OK(cu.cuStreamDestroy_v2(first));
    CHECK_OK(cu.cuStreamDestroy_v2(second));
    CHECK_OK(cu.cuMemFree_v2(a));
    CHECK_OK(cu.cuMemFree_v2(b));
    CHECK_OK(cu.cuMemFree_v2(c));
    return n_right;
}

void case_streams(void)
{
    int n_wrong = 0;
    soft_test_open(0);
    for (int i = 0; i < 12; i++) {
        CHECK(right_of_two_streams(true) == N);
        n_wrong += right_of_two_streams(false) != N;
    }
    CHECK(n_wrong >= 2);
}

void case_events(void)
{
    CUstream stream = NULL;
    CUevent begin = NULL;
    CUevent end = NULL;
    float ms = -1;
    soft_test_open(0);
    const CUfunction f = soft_test_kernel("pointwise");
    const CUdeviceptr x = soft_test_floats(NULL, N);
    CHECK_OK(cu.cuStreamCreate(&stream, 0));
    CHECK_OK(cu.cuEventCreate(&begin, 0));
    CHECK_OK(cu.cuEventCreate(&end, 0));
    CHECK_OK(cu.cuEventQuery(begin)); /* never recorded: it has happened */
    CHECK(cu.cuEventElapsedTime_v2(&ms, begin, end) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_OK(cu.cuEventRecord(begin, stream));
    launch_pointwise(f, x, x, stream);
    CHECK_OK(cu.cuEventRecord(end, stream));
    CHECK(cu.cuEventElapsedTime_v2(&ms, begin, end) == CUDA_ERROR_NOT_READY);
    CHECK(cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    int n_queries = 0;
    while (cu.cuEventQuery(end) == CUDA_ERROR_NOT_READY) {
        CHECK(++n_queries < 10); /* each makes a step */
    }
    CHECK_OK(cu.cuEventSynchronize(end));
    CHECK_OK(cu.cuEventElapsedTime_v2(&ms, begin, end));
    CHECK(ms >= 0 && ms < 60000);
    CHECK_OK(cu.cuEventDestroy_v2(begin));
    CHECK(cu.cuEventRecord(begin, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_OK(cu.cuEventDestroy_v2(end));
    CHECK_OK(cu.cuStreamDestroy_v2(stream));
    CHECK(cu.cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
}

/* Whatever pointer is given for a handle, nothing is read through it. */
void case_no_handles(void)
{
    CUevent event = NULL;
    soft_test_open(0);
    const CUdeviceptr memory = soft_test_floats(NULL, N);
    CHECK_OK(cu.cuEventCreate(&event, 0));
    const uintptr_t junk[] = {3, 8, memory, (uintptr_t)&event, (uintptr_t)event, UINTPTR_MAX - 7};
    for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
        const CUstream stream = (CUstream)junk[i];
        CHECK(cu.cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
        CHECK(cu.cuEventRecord(event, stream) == CUDA_ERROR_INVALID_HANDLE);
        CHECK(junk[i] == (uintptr_t)event ||
              cu.cuEventQuery((CUevent)junk[i]) == CUDA_ERROR_INVALID_HANDLE);
    }
    CHECK_OK(cu.cuEventDestroy_v2(event));
    CHECK_OK(cu.cuMemFree_v2(memory));
}

/* The stream 0 waits for what was queued on others before, and they for it. */
void case_legacy_stream(void)
{
    soft_test_open(0);
    const CUfunction f = soft_test_kernel("pointwise");
    for (int i = 0; i < 12; i++) {
        float x[N] = {1.0f};
        CUstream a = NULL;
        CUstream b = NULL;
        const CUdeviceptr p = soft_test_floats(x, N);
        CHECK_OK(cu.cuStreamCreate(&a, 0));
        CHECK_OK(cu.cuStreamCreate(&b, 0));
        launch_pointwise(f, p, p, a);    /* 2 */
        launch_pointwise(f, p, p, NULL); /* 5 */
        launch_pointwise(f, p, p, b);    /* 26 */
        CHECK_OK(cu.cuMemcpyDtoHAsync_v2(x, p, sizeof(x), b));
        CHECK_OK(cu.cuStreamSynchronize(b));
        CHECK(x[0] == 26.0f);
        CHECK_OK(cu.cuStreamDestroy_v2(a));
        CHECK_OK(cu.cuStreamDestroy_v2(b));
        CHECK_OK(cu.cuMemFree_v2(p));
    }
}

/* Pinned memory: kernels see it at the host's pointer; copies into it are late too. */
void case_pinned(void)
{
    float *pinned = NULL;
    unsigned type = 0;
    soft_test_open(0);
    CHECK_OK(cu.cuMemHostAlloc((void **)&pinned, 2 * N * sizeof(float), 0));
    const CUdeviceptr p = (CUdeviceptr)(uintptr_t)pinned;
    for (int i = 0; i < N; i++) {
        pinned[i] = (float)i;
    }
    CHECK(pinned[N] != pinned[N]); /* fresh memory is NaN */
    launch_pointwise(soft_test_kernel("pointwise"), p, p + N * sizeof(float), NULL);
    CHECK(pinned[N] != pinned[N]);
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    CHECK(pinned[N + 3] == 10.0f);
    CHECK_OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 8));
    CHECK(type == CU_MEMORYTYPE_HOST);
    CHECK(cu.cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
    CHECK_OK(cu.cuMemFreeHost(pinned));
}

void case_copies(void)
{
    enum { ROWS = 5, COLUMNS = 7, WIDE = 11 };
    float x[ROWS * COLUMNS];
    float y[ROWS * WIDE];
    soft_test_open(0);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)i;
    }
    const CUdeviceptr p = soft_test_floats(NULL, ROWS * WIDE);
    CHECK_OK(cu.cuMemsetD32Async(p, 0x40000000u, ROWS * WIDE, NULL)); /* 2.0f */
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = x,
                                .srcPitch = COLUMNS * sizeof(float),
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = p,
                                .dstXInBytes = 2 * sizeof(float),
                                .dstPitch = WIDE * sizeof(float),
                                .WidthInBytes = COLUMNS * sizeof(float),
                                .Height = ROWS};
    CHECK_OK(cu.cuMemcpy2DAsync_v2(&rows, NULL));
    CHECK_OK(cu.cuMemcpyDtoDAsync_v2(p, p + WIDE * sizeof(float), 4, NULL));
    CHECK_OK(cu.cuMemcpyDtoHAsync_v2(y, p, sizeof(y), NULL));
    CHECK_OK(cu.cuStreamSynchronize(NULL));
    CHECK(y[WIDE] == 2.0f && y[WIDE + 2] == 7.0f && y[WIDE + 8] == 13.0f && y[WIDE + 9] == 2.0f);
    CHECK(cu.cuMemcpyDtoHAsync_v2(y, p + 4, sizeof(y), NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)x, y, 4, NULL) ==
          CUDA_ERROR_INVALID_VALUE);
}

/* The source of a copy goes before the stream was waited for. */
void case_source_gone(void)
{
    soft_test_open(0);
    const CUdeviceptr p = soft_test_floats(NULL, N);
    float *source = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_OK(cu.cuMemcpyHtoDAsync_v2(p, source, N * sizeof(float), NULL));
    CHECK(mprotect(source, 65536, PROT_NONE) == 0); /* as if it were unmapped */
    CHECK(cu.cuStreamSynchronize(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void *use_a_stream(void *context)
{
    CUstream stream = NULL;
    CHECK_OK(cu.cuCtxSetCurrent(context));
    CHECK_OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUfunction f = soft_test_kernel("pointwise");
    for (int i = 0; i < 20; i++) {
        float x[N] = {(float)i};
        CUdeviceptr p = 0;
        CHECK_OK(cu.cuMemAlloc_v2(&p, sizeof(x)));
        CHECK_OK(cu.cuMemcpyHtoDAsync_v2(p, x, sizeof(x), stream));
        launch_pointwise(f, p, p, stream);
        CHECK_OK(cu.cuMemcpyDtoHAsync_v2(x, p, sizeof(x), stream));
        CHECK_OK(cu.cuStreamSynchronize(stream));
        CHECK(x[0] == (float)(i * i + 1) && x[N - 1] == 1.0f);
        CHECK_OK(cu.cuMemFree_v2(p));
    }
    CHECK_OK(cu.cuStreamDestroy_v2(stream));
    return NULL;
}

void case_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    void *context = soft_test_open(0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, use_a_stream, context) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

void case_two_devices(void)
{
    int n = 0;
    CUstream stream = NULL;
    CUcontext first = soft_test_open(0);
    CUcontext second = soft_test_open(1);
    CHECK_OK(cu.cuDeviceGetCount(&n));
    CHECK(n == 2 && first != second);
    const CUdeviceptr p = soft_test_floats(NULL, 8);
    CHECK_OK(cu.cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    CHECK(n == 1);
    CHECK_OK(cu.cuStreamCreate(&stream, 0));
    CHECK_OK(cu.cuCtxSetCurrent(first));
    CHECK(cu.cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cu.cuDevicePrimaryCtxRetain(&first, 2) == CUDA_ERROR_INVALID_DEVICE);
    CHECK_OK(cu.cuMemFree_v2(p));
    CHECK_OK(cu.cuStreamDestroy_v2(stream));
    CHECK_OK(cu.cuDevicePrimaryCtxRelease_v2(1));
    CHECK_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

void case_one_device(void)
{
    int n = 0;
    soft_test_open(0);
    CHECK_OK(cu.cuDeviceGetCount(&n));
    CHECK(n == 1);
}
