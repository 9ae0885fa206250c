/* A libcuda of one or two devices for the tests of plugins/cuda: memory is the host's, nothing is
 * queued, no kernel runs. What fails is chosen when it is built:
 *
 *   FAKE_DEVICES=0    it begins and sees no device
 *   FAKE_LACKS        cuMemHostAlloc is not exported
 *   FAKE_INIT=803     cuInit answers this
 *   FAKE_LAUNCH=700   each launch answers this
 *
 * An allocation of more than 1 MiB runs out of memory. */
#include "plugins/cuda/cuda_api.h"

#include <stdlib.h>
#include <string.h>

#ifndef FAKE_DEVICES
#define FAKE_DEVICES 2
#endif
#ifndef FAKE_INIT
#define FAKE_INIT CUDA_RESULT_SUCCESS
#endif
#ifndef FAKE_LAUNCH
#define FAKE_LAUNCH CUDA_RESULT_SUCCESS
#endif

typedef uint64_t st_gpu_address; /* as in codegen/gpu/gpu_driver.h */

/* Each function is fake_FIELD here and has the driver's name outside. */
#define CUDA_FUNCTION(field, symbol, arguments)                                                    \
    __attribute__((visibility("default"))) int32_t fake_##field arguments __asm__(symbol);
#define GPU_FUNCTION(field, cuda, hip, arguments) CUDA_FUNCTION(field, cuda, arguments)
#include "codegen/gpu/gpu_native_functions.def"
#include "plugins/cuda/cuda_own_functions.def"
#undef GPU_FUNCTION
#undef CUDA_FUNCTION

enum { MEMORY_BYTES = 8 << 20, ALLOC_BYTES_MAX = 1 << 20 };

static _Thread_local void *current;
static char contexts[2];

int32_t fake_init(uint32_t flags)
{
    return flags == 0 ? FAKE_INIT : 1;
}
int32_t fake_driver_version(int *version)
{
    *version = 13000;
    return 0;
}
int32_t fake_error_name(int32_t error, const char **name)
{
    *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_A_TEST";
    return 0;
}
int32_t fake_error_text(int32_t error, const char **text)
{
    *text = error == 700 ? "an illegal memory access was encountered" : "an error of a test";
    return 0;
}

/* ---- devices and contexts ---- */

int32_t fake_device_count(int *count)
{
    *count = FAKE_DEVICES;
    return 0;
}
int32_t fake_device_get(int32_t *device, int number)
{
    *device = number;
    return 0;
}
int32_t fake_device_name(char *name, int size, int32_t device)
{
    (void)device;
    strncpy(name, "Fake H100", (size_t)size - 1);
    return 0;
}
int32_t fake_device_attribute(int *value, int attribute, int32_t device)
{
    *value = attribute == CUDA_ATTRIBUTE_CAPABILITY_MAJOR       ? 9
             : attribute == CUDA_ATTRIBUTE_CAPABILITY_MINOR     ? 0
             : attribute == CUDA_ATTRIBUTE_WARP_SIZE            ? 32
             : attribute == CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132
             : attribute == CUDA_ATTRIBUTE_SHARED_BYTES         ? 49152
             : attribute == CUDA_ATTRIBUTE_COMPUTE_MODE         ? 2 * (device == 1)
                                                                : 1024;
    return 0;
}
int32_t fake_device_memory(size_t *bytes, int32_t device)
{
    (void)device;
    *bytes = MEMORY_BYTES;
    return 0;
}
int32_t fake_context_retain(void **context, int32_t device)
{
    *context = (void *)&contexts[device];
    return 0;
}
int32_t fake_context_release(int32_t device)
{
    (void)device;
    return 0;
}
int32_t fake_context_get(void **context)
{
    *context = current;
    return 0;
}
int32_t fake_context_set(void *context)
{
    current = context;
    return 0;
}

/* ---- memory ---- */

/* What stands in front of an allocation, which begins at a multiple of 256 as the real ones do. */
typedef struct block {
    _Alignas(256) size_t bytes;
} block;

int32_t fake_memory_alloc(st_gpu_address *address, size_t bytes)
{
    const size_t size = (sizeof(block) + bytes + 255) / 256 * 256;
    block *b = bytes <= ALLOC_BYTES_MAX ? aligned_alloc(256, size) : NULL;
    if (current == NULL) {
        free(b);
        return 201; /* no context */
    }
    if (b == NULL) {
        return CUDA_RESULT_OUT_OF_MEMORY;
    }
    b->bytes = bytes;
    *address = (st_gpu_address)(uintptr_t)(b + 1);
    return 0;
}
int32_t fake_memory_free(st_gpu_address address)
{
    free((block *)(uintptr_t)address - 1);
    return 0;
}
int32_t fake_memory_range(st_gpu_address *base, size_t *bytes, st_gpu_address address)
{
    *base = address;
    *bytes = ((block *)(uintptr_t)address - 1)->bytes;
    return 0;
}
