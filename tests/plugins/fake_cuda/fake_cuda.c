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

/* Each function is fake_FIELD here and has the driver's name outside. */
#define CUDA_FUNCTION(field, symbol, arguments)                                                    \
    __attribute__((visibility("default"))) cuda_result fake_##field arguments __asm__(symbol);
#include "plugins/cuda/cuda_driver_functions.def"
#undef CUDA_FUNCTION

enum { MEMORY_BYTES = 8 << 20, ALLOC_BYTES_MAX = 1 << 20 };

static _Thread_local cuda_context current;
static char contexts[2];

cuda_result fake_init(uint32_t flags)
{
    return flags == 0 ? FAKE_INIT : 1;
}
cuda_result fake_driver_version(int *version)
{
    *version = 13000;
    return 0;
}
cuda_result fake_error_name(cuda_result error, const char **name)
{
    *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_A_TEST";
    return 0;
}
cuda_result fake_error_text(cuda_result error, const char **text)
{
    *text = error == 700 ? "an illegal memory access was encountered" : "an error of a test";
    return 0;
}

/* ---- devices and contexts ---- */

cuda_result fake_device_count(int *count)
{
    *count = FAKE_DEVICES;
    return 0;
}
cuda_result fake_device_get(cuda_ordinal *device, int number)
{
    *device = number;
    return 0;
}
cuda_result fake_device_name(char *name, int size, cuda_ordinal device)
{
    (void)device;
    strncpy(name, "Fake H100", (size_t)size - 1);
    return 0;
}
cuda_result fake_device_attribute(int *value, int attribute, cuda_ordinal device)
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
cuda_result fake_device_memory(size_t *bytes, cuda_ordinal device)
{
    (void)device;
    *bytes = MEMORY_BYTES;
    return 0;
}
cuda_result fake_context_retain(cuda_context *context, cuda_ordinal device)
{
    *context = (cuda_context)(void *)&contexts[device];
    return 0;
}
cuda_result fake_context_release(cuda_ordinal device)
{
    (void)device;
    return 0;
}
cuda_result fake_context_get(cuda_context *context)
{
    *context = current;
    return 0;
}
cuda_result fake_context_set(cuda_context context)
{
    current = context;
    return 0;
}

/* ---- memory ---- */

/* What stands in front of an allocation, which begins at a multiple of 256 as the real ones do. */
typedef struct block {
    _Alignas(256) size_t bytes;
} block;

cuda_result fake_memory_alloc(cuda_address *address, size_t bytes)
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
    *address = (cuda_address)(uintptr_t)(b + 1);
    return 0;
}
cuda_result fake_memory_free(cuda_address address)
{
    free((block *)(uintptr_t)address - 1);
    return 0;
}
cuda_result fake_memory_range(cuda_address *base, size_t *bytes, cuda_address address)
{
    *base = address;
    *bytes = ((block *)(uintptr_t)address - 1)->bytes;
    return 0;
}
/* Pages tell what an address is: of no one, of pinned memory, of device 1, else of device 0. */
cuda_result fake_address_attribute(void *value, int attribute, cuda_address address)
{
    if (address < 4096) {
        return CUDA_RESULT_INVALID_VALUE;
    }
    const int type = address < 2 * 4096 ? CUDA_MEMORY_TYPE_HOST : 2;
    const int ordinal = address / 4096 == 2;
    memcpy(value, attribute == CUDA_ADDRESS_MEMORY_TYPE ? &type : &ordinal, sizeof type);
    return 0;
}
cuda_result fake_memory_info(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = ALLOC_BYTES_MAX;
    *total_bytes = MEMORY_BYTES;
    return 0;
}
#ifndef FAKE_LACKS
cuda_result fake_pinned_alloc(void **memory, size_t bytes, uint32_t flags)
{
    (void)flags;
    *memory = malloc(bytes);
    return *memory != NULL ? 0 : CUDA_RESULT_OUT_OF_MEMORY;
}
#endif
cuda_result fake_pinned_free(void *memory)
{
    free(memory);
    return 0;
}
cuda_result fake_copy_to_device(cuda_address dst, const void *src, size_t bytes, cuda_stream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return 0;
}
cuda_result fake_copy_to_host(void *dst, cuda_address src, size_t bytes, cuda_stream stream)
{
    (void)stream;
    memcpy(dst, (const void *)(uintptr_t)src, bytes);
    return 0;
}
cuda_result fake_copy_on_device(cuda_address dst, cuda_address src, size_t bytes,
                                cuda_stream stream)
{
    return fake_copy_to_host((void *)(uintptr_t)dst, src, bytes, stream);
}
cuda_result fake_fill(cuda_address dst, unsigned char value, size_t bytes, cuda_stream stream)
{
    (void)stream;
    memset((void *)(uintptr_t)dst, value, bytes);
    return 0;
}

/* ---- streams and events ---- */

cuda_result fake_stream_create(cuda_stream *stream, uint32_t flags)
{
    static char one;
    *stream = (cuda_stream)(void *)&one;
    return flags == CUDA_STREAM_NON_BLOCKING ? 0 : 1;
}
cuda_result fake_stream_destroy(cuda_stream stream)
{
    return stream == NULL;
}
cuda_result fake_stream_wait(cuda_stream stream)
{
    (void)stream;
    return 0;
}
cuda_result fake_stream_wait_event(cuda_stream stream, cuda_event event, uint32_t flags)
{
    (void)stream, (void)event, (void)flags;
    return 0;
}
cuda_result fake_event_create(cuda_event *event, uint32_t flags)
{
    static char untimed;
    static char timed;
    *event = (cuda_event)(void *)(flags == CUDA_EVENT_DISABLE_TIMING ? &untimed : &timed);
    return 0;
}
cuda_result fake_event_destroy(cuda_event event)
{
    return event == NULL;
}
cuda_result fake_event_record(cuda_event event, cuda_stream stream)
{
    (void)event, (void)stream;
    return 0;
}
cuda_result fake_event_wait(cuda_event event)
{
    (void)event;
    return 0;
}
cuda_result fake_event_elapsed(float *milliseconds, cuda_event begin, cuda_event end)
{
    (void)begin, (void)end;
    *milliseconds = 1.5f;
    return 0;
}

/* ---- code ---- */

/* An image that begins with '!' is refused as one of a newer compiler. */
cuda_result fake_module_load(cuda_module *module, const void *image)
{
    static char one;
    *module = (cuda_module)(void *)&one;
    return *(const char *)image == '!' ? CUDA_RESULT_UNSUPPORTED_PTX_VERSION : 0;
}
cuda_result fake_module_unload(cuda_module module)
{
    return module == NULL;
}
cuda_result fake_module_function(cuda_function *function, cuda_module module, const char *name)
{
    static char one;
    (void)module;
    *function = (cuda_function)(void *)&one;
    return strcmp(name, "absent") == 0 ? 500 : 0;
}
cuda_result fake_function_attribute(cuda_function function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return 0;
}
cuda_result fake_launch(cuda_function function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                        uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t shared_bytes,
                        cuda_stream stream, void **arguments, void **extra)
{
    (void)function, (void)shared_bytes, (void)stream;
    const uint64_t threads = (uint64_t)grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (extra != NULL || arguments[0] == NULL) {
        return 1;
    }
    *(uint64_t *)arguments[0] = threads; /* the real one only reads; tests look here */
    return FAKE_LAUNCH;
}
