/* See soft_test.h. */
#define _GNU_SOURCE
#include "soft_test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

soft_api cu;

void soft_check(_Bool holds, const char *file, int line, const char *text)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s does not hold\n", file, line, text);
        _exit(1);
    }
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "%s is missing\n", name);
        _exit(1);
    }
    return found;
}

CUcontext soft_test_open(CUdevice device)
{
    CUcontext context = NULL;
    void *cuda = dlopen(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *nvrtc = dlopen(ST_TEST_BUILD "/tests/softgpu/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    CHECK(cuda != NULL && nvrtc != NULL);
#define BIND(library, name) *(void **)&cu.name = symbol(library, #name)
    BIND(cuda, cuInit);
    BIND(cuda, cuDeviceGetCount);
    BIND(cuda, cuDeviceGetAttribute);
    BIND(cuda, cuDevicePrimaryCtxRetain);
    BIND(cuda, cuDevicePrimaryCtxRelease_v2);
    BIND(cuda, cuCtxSetCurrent);
    BIND(cuda, cuCtxSynchronize);
    BIND(cuda, cuMemAlloc_v2);
    BIND(cuda, cuMemFree_v2);
    BIND(cuda, cuMemHostAlloc);
    BIND(cuda, cuMemFreeHost);
    BIND(cuda, cuMemcpyHtoDAsync_v2);
    BIND(cuda, cuMemcpyDtoHAsync_v2);
    BIND(cuda, cuMemcpyDtoDAsync_v2);
    BIND(cuda, cuMemcpy2DAsync_v2);
    BIND(cuda, cuMemsetD32Async);
    BIND(cuda, cuPointerGetAttribute);
    BIND(cuda, cuStreamCreate);
    BIND(cuda, cuStreamDestroy_v2);
    BIND(cuda, cuStreamSynchronize);
    BIND(cuda, cuStreamQuery);
    BIND(cuda, cuStreamWaitEvent);
    BIND(cuda, cuEventCreate);
    BIND(cuda, cuEventDestroy_v2);
    BIND(cuda, cuEventRecord);
    BIND(cuda, cuEventQuery);
    BIND(cuda, cuEventSynchronize);
    BIND(cuda, cuEventElapsedTime_v2);
    BIND(cuda, cuModuleLoadData);
    BIND(cuda, cuModuleUnload);
    BIND(cuda, cuModuleGetFunction);
    BIND(cuda, cuFuncGetAttribute);
    BIND(cuda, cuFuncSetAttribute);
    BIND(cuda, cuLaunchKernel);
    BIND(cuda, cuGetErrorString);
    BIND(cuda, cuGetProcAddress_v2);
    BIND(cuda, cuGetExportTable);
    BIND(nvrtc, nvrtcCreateProgram);
    BIND(nvrtc, nvrtcCompileProgram);
    BIND(nvrtc, nvrtcGetProgramLogSize);
    BIND(nvrtc, nvrtcGetProgramLog);
    BIND(nvrtc, nvrtcGetCUBINSize);
    BIND(nvrtc, nvrtcGetCUBIN);
    BIND(nvrtc, nvrtcDestroyProgram);
    CHECK_OK(cu.cuInit(0));
    CHECK_OK(cu.cuDevicePrimaryCtxRetain(&context, device));
    CHECK_OK(cu.cuCtxSetCurrent(context));
    return context;
}

CUfunction soft_test_kernel_of(const char *text, const char *name)
{
    nvrtcProgram program = NULL;
    CUmodule module = NULL;
    CUfunction function = NULL;
    size_t bytes = 0;
    char arch[40];
    int major = 0;
    int minor = 0;
    cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    snprintf(arch, sizeof(arch), "--gpu-architecture=sm_%d%d", major, minor);
    CHECK(cu.nvrtcCreateProgram(&program, text, "program.cu", 1, (const char *const[]){""},
                                (const char *const[]){"gpu_prelude.h"}) == 0);
    if (cu.nvrtcCompileProgram(program, 2, (const char *const[]){arch, "--fmad=false"}) != 0) {
        char log[4000] = "";
        cu.nvrtcGetProgramLog(program, log);
        fprintf(stderr, "%s", log);
        _exit(1);
    }
    CHECK(cu.nvrtcGetCUBINSize(program, &bytes) == 0);
    char *image = malloc(bytes);
    CHECK(image != NULL && cu.nvrtcGetCUBIN(program, image) == 0);
    CHECK(cu.nvrtcDestroyProgram(&program) == 0);
    CHECK_OK(cu.cuModuleLoadData(&module, image));
    free(image);
    CHECK_OK(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

CUfunction soft_test_kernel(const char *name)
{
    char path[400];
    char text[8000];
    snprintf(path, sizeof(path), "%s/tests/softgpu/kernels/%s.cu", ST_TEST_SOURCE, name);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    const size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    return soft_test_kernel_of(text, name);
}

CUresult soft_test_launch(CUfunction function, unsigned blocks, void *arguments, CUstream stream)
{
    int threads = 0;
    CHECK_OK(cu.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    return cu.cuLaunchKernel(function, blocks, 1, 1, (unsigned)threads, 1, 1, 0, stream,
                             (void *[]){arguments}, NULL);
}

const char *soft_test_error(CUresult error)
{
    const char *text = NULL;
    cu.cuGetErrorString(error, &text);
    return text != NULL ? text : "";
}

CUdeviceptr soft_test_floats(const float *values, size_t n)
{
    CUdeviceptr p = 0;
    CHECK_OK(cu.cuMemAlloc_v2(&p, n * sizeof(float)));
    if (values != NULL) {
        CHECK_OK(cu.cuMemcpyHtoDAsync_v2(p, values, n * sizeof(float), NULL));
        CHECK_OK(cu.cuStreamSynchronize(NULL));
    }
    return p;
}

/* ---- cases ---- */

static void set_environment(const char *list)
{
    while (list != NULL && *list != '\0') {
        char pair[400];
        const size_t n = strcspn(list, " ");
        snprintf(pair, sizeof(pair), "%.*s", (int)n, list);
        char *value = strchr(pair, '=');
        *value = '\0';
        setenv(pair, value + 1, 1);
        list += n + (list[n] == ' ');
    }
}

/* Runs the case in a child; its status, with what it wrote. */
static int run_case(const soft_case *c, char *said, size_t room)
{
    int ends[2];
    int status = 0;
    size_t n = 0;
    if (pipe(ends) != 0) {
        return -1;
    }
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        set_environment(c->environment);
        c->run();
        exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n + 1 < room; n += (size_t)(got > 0 ? got : 0)) {
        got = read(ends[0], said + n, room - 1 - n);
    }
    said[n] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int soft_run_cases(const soft_case *cases, size_t n)
{
    int n_failed = 0;
    for (size_t i = 0; i < n; i++) {
        char said[8000];
        const soft_case *c = &cases[i];
        const int status = run_case(c, said, sizeof(said));
        const _Bool is_said = c->says == NULL || strstr(said, c->says) != NULL;
        if (status == c->status && is_said) {
            printf("ok      %s\n", c->name);
            continue;
        }
        n_failed++;
        printf("FAILED  %s (%s): status %d, expected %d; it said:\n%s", c->name,
               c->environment != NULL ? c->environment : "", status, c->status, said);
        if (!is_said) {
            printf("which lacks: %s\n", c->says);
        }
    }
    return n_failed;
}
