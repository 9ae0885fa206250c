/* libhiprtc over NVRTC (STATOR_HIPRTC_ON_NVRTC names its file, else the software device's): a
 * program for a gfx becomes one for the architecture STATOR_HIP_ON_CUDA_ARCH, otherwise sm_90.
 * Options of clang become NVRTC's or are dropped, and what clang and HIP have built in and NVRTC
 * has not is defined in front of the program's header: shuffles without a mask, and `_Float16`,
 * of which casts from and to float are there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_on_cuda.h"

#define INTERNAL_ERROR 11
#define OUT_OF_MEMORY 1
#define OPTIONS_MAX 16

static void *nvrtc;

static void open_nvrtc(void)
{
    nvrtc = hip_under("STATOR_HIPRTC_ON_NVRTC", "libnvrtc.so.13");
}

static void *find(const char *symbol)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_nvrtc);
    return nvrtc != NULL ? dlsym(nvrtc, symbol) : NULL;
}

/* clang-format off */
#define FORWARD(hip, nv, parameters, arguments)                                                    \
    HIP_EXPORT int hip parameters;                                                                 \
    int hip parameters                                                                             \
    {                                                                                              \
        int(*function) parameters = (int(*) parameters)(uintptr_t)find(#nv);                       \
        return function != NULL ? function arguments : INTERNAL_ERROR;                             \
    }

FORWARD(hiprtcDestroyProgram, nvrtcDestroyProgram, (void **program), (program))
FORWARD(hiprtcGetProgramLogSize, nvrtcGetProgramLogSize, (void *program, size_t *out), (program, out))
FORWARD(hiprtcGetProgramLog, nvrtcGetProgramLog, (void *program, char *out), (program, out))
FORWARD(hiprtcGetCodeSize, nvrtcGetCUBINSize, (void *program, size_t *out), (program, out))
FORWARD(hiprtcGetCode, nvrtcGetCUBIN, (void *program, char *out), (program, out))
FORWARD(hip_on_nvrtc_create, nvrtcCreateProgram, (void **out, const char *text, const char *name, int n, const char *const *headers, const char *const *names), (out, text, name, n, headers, names))
FORWARD(hip_on_nvrtc_compile, nvrtcCompileProgram, (void *program, int n, const char *const *options), (program, n, options))
/* clang-format on */

HIP_EXPORT int hiprtcVersion(int *major, int *minor);
HIP_EXPORT int hiprtcCreateProgram(void **out, const char *text, const char *name, int n,
                                   const char *const *headers, const char *const *names);
HIP_EXPORT int hiprtcCompileProgram(void *program, int n, const char *const *options);

static const char built_in[] =
    "#define __shfl_xor(x, mask, width) __shfl_xor_sync(0xffffffffu, x, mask)\n"
    "#define __ballot(x) __ballot_sync(0xffffffffu, x)\n"
    "#define __builtin_amdgcn_wave_barrier() __syncwarp()\n"
    "#define __builtin_amdgcn_fence(order, scope) ((void)0)\n"
    "struct _Float16 {\n"
    "    unsigned short bits;\n"
    "    __device__ explicit _Float16(float x)\n"
    "    {\n"
    "        asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x));\n"
    "    }\n"
    "    __device__ operator float() const\n"
    "    {\n"
    "        float x;\n"
    "        asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(bits));\n"
    "        return x;\n"
    "    }\n"
    "};\n";

int hiprtcVersion(int *major, int *minor)
{
    *major = 6;
    *minor = 0;
    return find("nvrtcVersion") != NULL ? 0 : INTERNAL_ERROR;
}

int hiprtcCreateProgram(void **out, const char *text, const char *name, int n,
                        const char *const *headers, const char *const *names)
{
    char *first = NULL;
    if (n != 1 || asprintf(&first, "%s%s", built_in, headers[0]) < 0) {
        return OUT_OF_MEMORY;
    }
    const char *const changed[] = {first};
    const int result = hip_on_nvrtc_create(out, text, name, 1, changed, names);
    free(first);
    return result;
}

int hiprtcCompileProgram(void *program, int n, const char *const *options)
{
    const char *arch = getenv("STATOR_HIP_ON_CUDA_ARCH");
    char target[60];
    const char *changed[OPTIONS_MAX] = {target, "--std=c++17"};
    int count = 2;
    snprintf(target, sizeof(target), "--gpu-architecture=%.30s", arch != NULL ? arch : "sm_90");
    for (int i = 0; i < n && count < OPTIONS_MAX; i++) {
        if (strcmp(options[i], "-ffp-contract=off") == 0) {
            changed[count++] = "--fmad=false";
        } else if (strncmp(options[i], "-D", 2) == 0) {
            changed[count++] = options[i];
        }
    }
    return hip_on_nvrtc_compile(program, count, changed);
}
