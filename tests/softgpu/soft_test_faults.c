/* Tests of the software device: injected faults, leaks, misuse, and a fork. */
#include "soft_test_cases.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct arguments {
    CUdeviceptr x, y;
    int64_t n;
};

/* The second allocation fails; the third is fine. */
void case_fail_alloc(void)
{
    CUdeviceptr p[3] = {0, 0, 0};
    soft_test_open(0);
    CHECK_OK(cu.cuMemAlloc_v2(&p[0], 100));
    CHECK(cu.cuMemAlloc_v2(&p[1], 100) == CUDA_ERROR_OUT_OF_MEMORY && p[1] == 0);
    CHECK_OK(cu.cuMemAlloc_v2(&p[2], 100));
    CHECK_OK(cu.cuMemFree_v2(p[0]));
    CHECK_OK(cu.cuMemFree_v2(p[2]));
}

void case_fail_pinned(void)
{
    void *p = NULL;
    soft_test_open(0);
    CHECK(cu.cuMemHostAlloc(&p, 100, 0) == CUDA_ERROR_OUT_OF_MEMORY && p == NULL);
    CHECK_OK(cu.cuMemHostAlloc(&p, 100, 0));
    CHECK_OK(cu.cuMemFreeHost(p));
}

/* A launch is refused; nothing is lost. */
void case_fail_launch(void)
{
    soft_test_open(0);
    const CUfunction f = soft_test_kernel("pointwise");
    struct arguments a = {soft_test_floats(NULL, 8), 0, 8};
    a.y = a.x;
    CHECK_OK(soft_test_launch(f, 1, &a, NULL));
    CHECK(soft_test_launch(f, 1, &a, NULL) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK_OK(soft_test_launch(f, 1, &a, NULL));
    CHECK_OK(cu.cuMemFree_v2(a.x));
}

/* The device is lost while a kernel runs: each call says so until the context is begun anew. */
void case_fail_lost(void)
{
    CUdeviceptr p = 0;
    soft_test_open(0);
    const CUfunction f = soft_test_kernel("pointwise");
    struct arguments a = {soft_test_floats(NULL, 8), 0, 8};
    a.y = a.x;
    CHECK_OK(soft_test_launch(f, 1, &a, NULL));
    CHECK(cu.cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cu.cuMemAlloc_v2(&p, 8) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cu.cuStreamSynchronize(NULL) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(strstr(soft_test_error(CUDA_ERROR_LAUNCH_FAILED), "lost") != NULL);
    CHECK(cu.cuMemFree_v2(a.x) == CUDA_ERROR_LAUNCH_FAILED); /* freed all the same */
    CHECK_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    soft_test_open(0);
    CHECK_OK(cu.cuMemAlloc_v2(&p, 8));
    CHECK_OK(cu.cuMemFree_v2(p));
}

void case_leak(void)
{
    soft_test_open(0);
    soft_test_floats(NULL, 25);
}

void case_double_free(void)
{
    soft_test_open(0);
    const CUdeviceptr p = soft_test_floats(NULL, 8);
    CHECK_OK(cu.cuMemFree_v2(p));
    CHECK(cu.cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
}

/* 3 floats in a place of 256 bytes: the fourth is seen when the memory is freed. */
void case_beside(void)
{
    soft_test_open(0);
    struct arguments a = {soft_test_floats(NULL, 4), soft_test_floats(NULL, 3), 4};
    CHECK_OK(soft_test_launch(soft_test_kernel("pointwise"), 1, &a, NULL));
    CHECK_OK(cu.cuCtxSynchronize());
    CHECK_OK(cu.cuMemFree_v2(a.x));
    CHECK_OK(cu.cuMemFree_v2(a.y));
}

void case_fork(void)
{
    int status = 0;
    CUdeviceptr p = 0;
    soft_test_open(0);
    const pid_t child = fork();
    if (child == 0) {
        _exit(cu.cuMemAlloc_v2(&p, 8) == CUDA_ERROR_NOT_INITIALIZED ? 5 : 6);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

void case_proc_address(void)
{
    void *found = NULL;
    int status = -1;
    soft_test_open(0);
    CHECK_OK(cu.cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status));
    CHECK(*(void **)&cu.cuMemAlloc_v2 == found && status == 0);
    CHECK(cu.cuGetProcAddress_v2("cuNothing", &found, 12000, 0, &status) == CUDA_ERROR_NOT_FOUND);
    CHECK(found == NULL && status == 1);
    const void *table = &table;
    CHECK(cu.cuGetExportTable(&table, "any 16 bytes....") == CUDA_ERROR_NOT_FOUND);
    CHECK(table == NULL);
}

void case_bad_option(void)
{
    soft_test_open(0);
}
