/* libamdhip64 over the CUDA driver API: HIP's functions by CUDA's. Over the software device it is
 * CI for plugins/hip, with warps of 32 and of 64; over the real driver
 * (STATOR_HIP_ON_CUDA=libcuda.so.1) it runs plugins/hip on an NVIDIA GPU.
 *
 * Handles and flags are the same in both, and numbers of errors, of which HIP has fewer and its
 * own names. Numbers of attributes are not, and the properties of a device have a struct in HIP
 * alone, of which gcnArchName is filled: it names a chip with warps of the device's width. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "hip_on_cuda.h"

#define NOT_INITIALIZED 3
#define INVALID_VALUE 1
#define NO_DEVICE 100
#define UNKNOWN 999
#define CUDA_WARP_SIZE 10

static void *cuda;

static void open_cuda(void)
{
    cuda = hip_under("STATOR_HIP_ON_CUDA", "libcuda.so.1");
}

static void *find(const char *symbol)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_cuda);
    return cuda != NULL ? dlsym(cuda, symbol) : NULL;
}

/* ---- errors ---- */

/* By their numbers, with HIP's names. */
static const struct {
    int number;
    const char *name;
} errors[] = {{0, "hipSuccess"},
              {INVALID_VALUE, "hipErrorInvalidValue"},
              {2, "hipErrorOutOfMemory"},
              {NOT_INITIALIZED, "hipErrorNotInitialized"},
              {4, "hipErrorDeinitialized"},
              {NO_DEVICE, "hipErrorNoDevice"},
              {101, "hipErrorInvalidDevice"},
              {200, "hipErrorInvalidImage"},
              {201, "hipErrorInvalidContext"},
              {209, "hipErrorNoBinaryForGpu"},
              {214, "hipErrorECCNotCorrectable"},
              {218, "hipErrorInvalidKernelFile"},
              {400, "hipErrorInvalidHandle"},
              {500, "hipErrorNotFound"},
              {600, "hipErrorNotReady"},
              {700, "hipErrorIllegalAddress"},
              {701, "hipErrorLaunchOutOfResources"},
              {702, "hipErrorLaunchTimeOut"},
              {709, "hipErrorContextIsDestroyed"},
              {710, "hipErrorAssert"},
              {719, "hipErrorLaunchFailure"},
              {801, "hipErrorNotSupported"},
              {UNKNOWN, "hipErrorUnknown"}};

/* CUDA's number of the last error that has none in HIP. */
static _Atomic int unknown;

static const char *name_of(int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].number == error) {
            return errors[i].name;
        }
    }
    return NULL;
}

static int to_hip(int result)
{
    if (name_of(result) != NULL) {
        return result;
    }
    unknown = result;
    return UNKNOWN;
}

/* ---- functions that hand their arguments over as they are ---- */

#define FORWARD(hip, cu, parameters, arguments)                                                    \
    HIP_EXPORT int hip parameters;                                                                 \
    int hip parameters                                                                             \
    {                                                                                              \
        static int(*_Atomic at) parameters;                                                        \
        int(*function) parameters = at;                                                            \
        if (function == NULL) {                                                                    \
            function = (int(*) parameters)(uintptr_t)find(#cu);                                    \
            at = function;                                                                         \
        }                                                                                          \
        return function != NULL ? to_hip(function arguments) : NOT_INITIALIZED;                    \
    }

/* clang-format off */
FORWARD(hipInit, cuInit, (unsigned flags), (flags))
FORWARD(hipGetDeviceCount, cuDeviceGetCount, (int *out), (out))
FORWARD(hipDeviceGet, cuDeviceGet, (int *out, int number), (out, number))
FORWARD(hipDeviceGetName, cuDeviceGetName, (char *out, int size, int device), (out, size, device))
FORWARD(hipDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *out, int device), (out, device))
FORWARD(hipDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **out, int device), (out, device))
FORWARD(hipDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int device), (device))
FORWARD(hipCtxGetCurrent, cuCtxGetCurrent, (void **out), (out))
FORWARD(hipCtxSetCurrent, cuCtxSetCurrent, (void *context), (context))
FORWARD(hipMalloc, cuMemAlloc_v2, (void **out, size_t bytes), (out, bytes))
FORWARD(hipFree, cuMemFree_v2, (void *p), (p))
FORWARD(hipMemGetAddressRange, cuMemGetAddressRange_v2, (void **base, size_t *bytes, void *p), (base, bytes, p))
FORWARD(hipPointerGetAttribute, cuPointerGetAttribute, (void *out, int attribute, void *p), (out, attribute, p))
FORWARD(hipMemGetInfo, cuMemGetInfo_v2, (size_t *out_free, size_t *out_total), (out_free, out_total))
FORWARD(hipHostMalloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags), (out, bytes, flags))
FORWARD(hipHostFree, cuMemFreeHost, (void *p), (p))
FORWARD(hipHostGetFlags, cuMemHostGetFlags, (unsigned *flags, void *p), (flags, p))
FORWARD(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (void *dst, const void *src, size_t bytes, void *stream), (dst, src, bytes, stream))
FORWARD(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *dst, void *src, size_t bytes, void *stream), (dst, src, bytes, stream))
FORWARD(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (void *dst, void *src, size_t bytes, void *stream), (dst, src, bytes, stream))
FORWARD(hipMemsetD8Async, cuMemsetD8Async, (void *dst, unsigned char value, size_t bytes, void *stream), (dst, value, bytes, stream))
FORWARD(hipStreamCreateWithFlags, cuStreamCreate, (void **out, unsigned flags), (out, flags))
FORWARD(hipStreamDestroy, cuStreamDestroy_v2, (void *stream), (stream))
FORWARD(hipStreamSynchronize, cuStreamSynchronize, (void *stream), (stream))
FORWARD(hipStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags))
FORWARD(hipEventCreateWithFlags, cuEventCreate, (void **out, unsigned flags), (out, flags))
FORWARD(hipEventDestroy, cuEventDestroy_v2, (void *event), (event))
FORWARD(hipEventRecord, cuEventRecord, (void *event, void *stream), (event, stream))
FORWARD(hipEventSynchronize, cuEventSynchronize, (void *event), (event))
FORWARD(hipEventElapsedTime, cuEventElapsedTime, (float *out, void *begin, void *end), (out, begin, end))
FORWARD(hipModuleLoadData, cuModuleLoadData, (void **out, const void *image), (out, image))
FORWARD(hipModuleUnload, cuModuleUnload, (void *module), (module))
FORWARD(hipModuleGetFunction, cuModuleGetFunction, (void **out, void *module, const char *name), (out, module, name))
FORWARD(hipModuleLaunchKernel, cuLaunchKernel, (void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments, void **extra), (kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra))
FORWARD(hip_on_cuda_attribute, cuDeviceGetAttribute, (int *out, int attribute, int device), (out, attribute, device))
FORWARD(hip_on_cuda_error_text, cuGetErrorString, (int error, const char **out), (error, out))
/* clang-format on */

HIP_EXPORT int hipRuntimeGetVersion(int *out);
HIP_EXPORT int hipDeviceGetAttribute(int *out, int attribute, int device);
HIP_EXPORT int hipGetDevicePropertiesR0600(void *properties, int device);
HIP_EXPORT int hipGetDeviceProperties(void *properties, int device);
HIP_EXPORT const char *hipGetErrorName(int error);
HIP_EXPORT const char *hipGetErrorString(int error);

/* 6.0.0, as the file's name says. */
int hipRuntimeGetVersion(int *out)
{
    *out = 60000000;
    return 0;
}

int hipDeviceGetAttribute(int *out, int attribute, int device)
{
    static const int pairs[][2] = {{6, 20},  {19, 38}, {23, 75},
                                   {61, 76}, {56, 1},  {63, 16},
                                   {72, 82}, {74, 8},  {87, CUDA_WARP_SIZE}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (pairs[i][0] == attribute) {
            return hip_on_cuda_attribute(out, pairs[i][1], device);
        }
    }
    return INVALID_VALUE;
}

/* Fills a hipDeviceProp_t of so many bytes whose gcnArchName stands at `at`. */
static int fill_properties(char *properties, size_t bytes, size_t at, int device)
{
    int warp = 0;
    const int result = hip_on_cuda_attribute(&warp, CUDA_WARP_SIZE, device);
    if (result == 0) {
        memset(properties, 0, bytes);
        snprintf(properties + at, 256, "%s", warp == 64 ? "gfx90a:sramecc+:xnack-" : "gfx1100");
    }
    return result;
}

int hipGetDevicePropertiesR0600(void *properties, int device)
{
    return fill_properties(properties, 1472, 1160, device);
}

int hipGetDeviceProperties(void *properties, int device)
{
    return fill_properties(properties, 792, 396, device);
}

const char *hipGetErrorName(int error)
{
    return name_of(error);
}

const char *hipGetErrorString(int error)
{
    const char *text = NULL;
    if (error == NO_DEVICE) {
        return "no ROCm-capable device is detected";
    }
    const int number = error == UNKNOWN && unknown != 0 ? unknown : error;
    return hip_on_cuda_error_text(number, &text) == 0 ? text : NULL;
}
