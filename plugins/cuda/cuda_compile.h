/* NVRTC: a kernel's text becomes an image that the driver loads. No device and no context is
 * needed. */
#ifndef STATOR_CUDA_CUDA_COMPILE_H
#define STATOR_CUDA_CUDA_COMPILE_H

#include "cuda_api.h"

#include "codegen/gpu/gpu_open.h"
#include "core/base/diag.h"
#include "core/base/str.h"

#include <pthread.h>

enum { CUDA_ARCHS_MAX = 64 };

/* The text of "gpu_prelude.h" for CUDA: gpu_prelude_cuda.h and gpu_prelude_device.h of
 * codegen/gpu, made a string by the build. */
extern const char cuda_prelude[];

/* The compiler of one instance; it is opened when the first text is compiled. Any thread. */
typedef struct cuda_compiler {
    const char *file;      /* option nvrtc; NULL or "": looked for. Outlives the compiler. */
    pthread_mutex_t mutex; /* guards is_tried and what follows it until that is set */
    bool is_tried;
    bool is_usable;
    cuda_nvrtc_api api;
    char path[ST_GPU_PATH_BYTES];
    int major;
    int minor;
    int arch_count;
    int archs[CUDA_ARCHS_MAX]; /* 90 for sm_90, ascending */
    st_gpu_missing why;        /* where it is not usable */
} cuda_compiler;

void cuda_compiler_init(cuda_compiler *compiler, const char *file);
void cuda_compiler_deinit(cuda_compiler *compiler);

/* Opens NVRTC where that was not tried yet. NOT_FOUND: it is missing, with what to install. */
stator_status cuda_compiler_open(cuda_compiler *compiler, stator_diag **err);

/* As st_gpu_vendor.refuse_arch. */
const char *cuda_refuse_arch(const char *own, const char *wanted);

/* Appends the image of a program to `out`: machine code for `arch` ("sm_90"), or where NVRTC is
 * older than the device PTX of the newest arch it knows, with the 0 behind it, which the driver
 * compiles when it loads the image; "compute_90" asks for PTX. `name` stands in the log.
 * UNAVAILABLE: NVRTC is missing; UNSUPPORTED: NVRTC no longer makes code for so old a device;
 * INTERNAL: the text does not compile, with log and text; RESOURCE_EXHAUSTED. */
stator_status cuda_compile(cuda_compiler *compiler, const char *arch, const char *name,
                           const char *text, uint64_t text_bytes, st_str *out, stator_diag **err);

#endif
