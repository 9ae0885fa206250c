/* cuGetProcAddress: functions by their plain names, as the newest of their versions. And tables of
 * functions that have no names, of which there are none. */
#include <string.h>

#include "soft_cuda.h"

typedef void (*function)(void);

/* plain name, the symbol behind it */
#define FUNCTIONS(X)                                                                               \
    X(cuInit, cuInit)                                                                              \
    X(cuDriverGetVersion, cuDriverGetVersion)                                                      \
    X(cuDeviceGet, cuDeviceGet)                                                                    \
    X(cuDeviceGetCount, cuDeviceGetCount)                                                          \
    X(cuDeviceGetName, cuDeviceGetName)                                                            \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2)                                                       \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute)                                                  \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                          \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                                     \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2)                                   \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)                                      \
    X(cuCtxSetCurrent, cuCtxSetCurrent)                                                            \
    X(cuCtxGetCurrent, cuCtxGetCurrent)                                                            \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2)                                                       \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2)                                                         \
    X(cuCtxGetDevice, cuCtxGetDevice)                                                              \
    X(cuCtxSynchronize, cuCtxSynchronize)                                                          \
    X(cuMemAlloc, cuMemAlloc_v2)                                                                   \
    X(cuMemFree, cuMemFree_v2)                                                                     \
    X(cuMemHostAlloc, cuMemHostAlloc)                                                              \
    X(cuMemFreeHost, cuMemFreeHost)                                                                \
    X(cuMemHostGetFlags, cuMemHostGetFlags)                                                        \
    X(cuMemGetInfo, cuMemGetInfo_v2)                                                               \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2)                                               \
    X(cuMemcpyAsync, cuMemcpyAsync)                                                                \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2)                                                               \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2)                                                               \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2)                                                               \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                                                     \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                                                     \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                                                     \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2)                                                         \
    X(cuMemsetD8Async, cuMemsetD8Async)                                                            \
    X(cuMemsetD32Async, cuMemsetD32Async)                                                          \
    X(cuPointerGetAttribute, cuPointerGetAttribute)                                                \
    X(cuPointerGetAttributes, cuPointerGetAttributes)                                              \
    X(cuStreamCreate, cuStreamCreate)                                                              \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority)                                      \
    X(cuStreamDestroy, cuStreamDestroy_v2)                                                         \
    X(cuStreamSynchronize, cuStreamSynchronize)                                                    \
    X(cuStreamQuery, cuStreamQuery)                                                                \
    X(cuStreamWaitEvent, cuStreamWaitEvent)                                                        \
    X(cuLaunchHostFunc, cuLaunchHostFunc)                                                          \
    X(cuEventCreate, cuEventCreate)                                                                \
    X(cuEventDestroy, cuEventDestroy_v2)                                                           \
    X(cuEventRecord, cuEventRecord)                                                                \
    X(cuEventQuery, cuEventQuery)                                                                  \
    X(cuEventSynchronize, cuEventSynchronize)                                                      \
    X(cuEventElapsedTime, cuEventElapsedTime_v2)                                                   \
    X(cuModuleLoadData, cuModuleLoadData)                                                          \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx)                                                      \
    X(cuModuleUnload, cuModuleUnload)                                                              \
    X(cuModuleGetFunction, cuModuleGetFunction)                                                    \
    X(cuFuncGetAttribute, cuFuncGetAttribute)                                                      \
    X(cuFuncSetAttribute, cuFuncSetAttribute)                                                      \
    X(cuLaunchKernel, cuLaunchKernel)                                                              \
    X(cuLaunchKernelEx, cuLaunchKernelEx)                                                          \
    X(cuGetErrorName, cuGetErrorName)                                                              \
    X(cuGetErrorString, cuGetErrorString)

/* Only addresses are taken here; what they take is declared where they are defined. */
#define DECLARE(name, symbol) extern char symbol##_at[] __asm__(#symbol);
FUNCTIONS(DECLARE)

SOFT_EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
SOFT_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                                         int *status);

CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
#define ROW(plain, symbol) {#plain, symbol##_at},
    static const struct {
        const char *name;
        char *address;
    } functions[] = {FUNCTIONS(ROW)};
    (void)version;
    (void)flags;
    *out = NULL;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            *out = functions[i].address;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status)
{
    const CUresult result = cuGetProcAddress(name, out, version, flags);
    if (status != NULL) {
        *status = result == CUDA_SUCCESS ? 0 : 1; /* found; not found */
    }
    return result;
}

/* NVRTC looks this function up where a libcuda is in the process, and crashes without it. */
SOFT_EXPORT CUresult cuGetExportTable(const void **table, const void *id);

CUresult cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
