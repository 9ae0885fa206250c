/* What the tests of the software device share: the API by dlopen, as a plugin opens it, and short
 * forms of its calls. Each case runs in a process of its own, since options are read once. */
#ifndef STATOR_TESTS_SOFT_TEST_H
#define STATOR_TESTS_SOFT_TEST_H

#include "soft_cuda.h"

typedef struct soft_nvrtc_program *nvrtcProgram;

/* The functions in use, by the symbols of the real libraries. */
typedef struct soft_api {
    CUresult (*cuInit)(unsigned);
    CUresult (*cuDeviceGetCount)(int *);
    CUresult (*cuDeviceGetAttribute)(int *, CUdevice_attribute, CUdevice);
    CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
    CUresult (*cuDevicePrimaryCtxRelease_v2)(CUdevice);
    CUresult (*cuCtxSetCurrent)(CUcontext);
    CUresult (*cuCtxSynchronize)(void);
    CUresult (*cuMemAlloc_v2)(CUdeviceptr *, size_t);
    CUresult (*cuMemFree_v2)(CUdeviceptr);
    CUresult (*cuMemHostAlloc)(void **, size_t, unsigned);
    CUresult (*cuMemFreeHost)(void *);
    CUresult (*cuMemcpyHtoDAsync_v2)(CUdeviceptr, const void *, size_t, CUstream);
    CUresult (*cuMemcpyDtoHAsync_v2)(void *, CUdeviceptr, size_t, CUstream);
    CUresult (*cuMemcpyDtoDAsync_v2)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    CUresult (*cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D *, CUstream);
    CUresult (*cuMemsetD32Async)(CUdeviceptr, unsigned, size_t, CUstream);
    CUresult (*cuPointerGetAttribute)(void *, CUpointer_attribute, CUdeviceptr);
    CUresult (*cuStreamCreate)(CUstream *, unsigned);
    CUresult (*cuStreamDestroy_v2)(CUstream);
    CUresult (*cuStreamSynchronize)(CUstream);
    CUresult (*cuStreamQuery)(CUstream);
    CUresult (*cuStreamWaitEvent)(CUstream, CUevent, unsigned);
    CUresult (*cuEventCreate)(CUevent *, unsigned);
    CUresult (*cuEventDestroy_v2)(CUevent);
    CUresult (*cuEventRecord)(CUevent, CUstream);
    CUresult (*cuEventQuery)(CUevent);
    CUresult (*cuEventSynchronize)(CUevent);
    CUresult (*cuEventElapsedTime_v2)(float *, CUevent, CUevent);
    CUresult (*cuModuleLoadData)(CUmodule *, const void *);
    CUresult (*cuModuleUnload)(CUmodule);
    CUresult (*cuModuleGetFunction)(CUfunction *, CUmodule, const char *);
    CUresult (*cuFuncGetAttribute)(int *, CUfunction_attribute, CUfunction);
    CUresult (*cuFuncSetAttribute)(CUfunction, CUfunction_attribute, int);
    CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void **, void **);
    CUresult (*cuGetErrorString)(CUresult, const char **);
    CUresult (*cuGetProcAddress_v2)(const char *, void **, int, uint64_t, int *);
    CUresult (*cuGetExportTable)(const void **, const void *);
    int (*nvrtcCreateProgram)(nvrtcProgram *, const char *, const char *, int, const char *const *,
                              const char *const *);
    int (*nvrtcCompileProgram)(nvrtcProgram, int, const char *const *);
    int (*nvrtcGetProgramLogSize)(nvrtcProgram, size_t *);
    int (*nvrtcGetProgramLog)(nvrtcProgram, char *);
    int (*nvrtcGetCUBINSize)(nvrtcProgram, size_t *);
    int (*nvrtcGetCUBIN)(nvrtcProgram, char *);
    int (*nvrtcDestroyProgram)(nvrtcProgram *);
} soft_api;

extern soft_api cu;

/* Ends the case with status 1 and the place when it does not hold. */
#define CHECK(condition) soft_check((condition), __FILE__, __LINE__, #condition)
#define CHECK_OK(call) CHECK((call) == CUDA_SUCCESS)
void soft_check(_Bool holds, const char *file, int line, const char *text);

/* Opens the libraries and makes the device's context current. */
CUcontext soft_test_open(CUdevice device);
/* A kernel of tests/softgpu/kernels/<name>.cu, whose function has that name. */
CUfunction soft_test_kernel(const char *name);
/* A kernel of a text. */
CUfunction soft_test_kernel_of(const char *text, const char *name);
/* Launches blocks of as many threads as the kernel is written for; `arguments` is its struct. */
CUresult soft_test_launch(CUfunction function, unsigned blocks, void *arguments, CUstream stream);
/* The text of an error. */
const char *soft_test_error(CUresult error);
/* `n` floats of device memory; filled when `values` is not NULL. */
CUdeviceptr soft_test_floats(const float *values, size_t n);

typedef struct soft_case {
    const char *name;
    void (*run)(void);
    const char *environment; /* "NAME=VALUE", some after a blank; NULL: nothing */
    int status;              /* of the process */
    const char *says;        /* a part of what it writes to stderr; NULL: it is not looked at */
} soft_case;

/* Runs each case in a child process; the number of those that did not do as their row says. */
int soft_run_cases(const soft_case *cases, size_t n);

#endif
