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
/* Pages tell what an address is: of no one, of pinned memory, of device 1, else of device 0. */
int32_t fake_address_attribute(void *value, int attribute, st_gpu_address address)
{
    if (address < 4096) {
        return CUDA_RESULT_INVALID_VALUE;
    }
    const int type = address < 2 * 4096 ? CUDA_MEMORY_TYPE_HOST : 2;
    const int ordinal = address / 4096 == 2;
    memcpy(value, attribute == CUDA_ADDRESS_MEMORY_TYPE ? &type : &ordinal, sizeof type);
    return 0;
}
int32_t fake_memory_info(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = ALLOC_BYTES_MAX;
    *total_bytes = MEMORY_BYTES;
    return 0;
}
#ifndef FAKE_LACKS
int32_t fake_pinned_alloc(void **memory, size_t bytes, uint32_t flags)
{
    (void)flags;
    *memory = malloc(bytes);
    return *memory != NULL ? 0 : CUDA_RESULT_OUT_OF_MEMORY;
}
#endif
int32_t fake_pinned_free(void *memory)
{
    free(memory);
    return 0;
}
int32_t fake_copy_to_device(st_gpu_address dst, const void *src, size_t bytes, void *stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return 0;
}
int32_t fake_copy_to_host(void *dst, st_gpu_address src, size_t bytes, void *stream)
{
    (void)stream;
    memcpy(dst, (const void *)(uintptr_t)src, bytes);
    return 0;
}
int32_t fake_copy_on_device(st_gpu_address dst, st_gpu_address src, size_t bytes, void *stream)
{
    return fake_copy_to_host((void *)(uintptr_t)dst, src, bytes, stream);
}
int32_t fake_fill(st_gpu_address dst, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    memset((void *)(uintptr_t)dst, value, bytes);
    return 0;
}

/* ---- streams and events ---- */

int32_t fake_stream_create(void **stream, uint32_t flags)
{
    static char one;
    *stream = (void *)&one;
    return flags == 1 /* CU_STREAM_NON_BLOCKING */ ? 0 : 1;
}
int32_t fake_stream_destroy(void *stream)
{
    return stream == NULL;
}
int32_t fake_stream_wait(void *stream)
{
    (void)stream;
    return 0;
}
int32_t fake_stream_wait_event(void *stream, void *event, uint32_t flags)
{
    (void)stream, (void)event, (void)flags;
    return 0;
}
int32_t fake_event_create(void **event, uint32_t flags)
{
    static char untimed;
    static char timed;
    *event = (void *)(flags == 2 /* CU_EVENT_DISABLE_TIMING */ ? &untimed : &timed);
    return 0;
}
int32_t fake_event_destroy(void *event)
{
    return event == NULL;
}
int32_t fake_event_record(void *event, void *stream)
{
    (void)event, (void)stream;
    return 0;
}
int32_t fake_event_wait(void *event)
{
    (void)event;
    return 0;
}
int32_t fake_event_elapsed(float *milliseconds, void *begin, void *end)
{
    (void)begin, (void)end;
    *milliseconds = 1.5f;
    return 0;
}

/* ---- code ---- */

/* An image that begins with '!' or '?' is refused as PTX or machine code of a newer compiler. */
int32_t fake_module_load(void **module, const void *image)
{
    static char one;
    *module = (void *)&one;
    return *(const char *)image == '!'   ? CUDA_RESULT_UNSUPPORTED_PTX_VERSION
           : *(const char *)image == '?' ? CUDA_RESULT_INVALID_IMAGE
                                         : 0;
}
int32_t fake_module_unload(void *module)
{
    return module == NULL;
}
int32_t fake_module_function(void **function, void *module, const char *name)
{
    static char one;
    (void)module;
    *function = (void *)&one;
    return strcmp(name, "absent") == 0 ? 500 : 0;
}
int32_t fake_function_attribute(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return 0;
}
int32_t fake_launch(void *function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                    uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t shared_bytes,
                    void *stream, void **arguments, void **extra)
{
    (void)function, (void)shared_bytes, (void)stream;
    const uint64_t threads = (uint64_t)grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (extra != NULL || arguments[0] == NULL) {
        return 1;
    }
    *(uint64_t *)arguments[0] = threads; /* the real one only reads; tests look here */
    return FAKE_LAUNCH;
}
