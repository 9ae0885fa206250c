/* The driver API of devices, contexts and errors. */
#include "soft_context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft_memory.h"
#include "soft_module.h"
#include "soft_stream.h"

#define CONTEXTS_MAX 16
#define MISUSE_STATUS 67 /* of the process, when memory was leaked, freed twice or written beside */

SOFT_EXPORT CUresult cuInit(unsigned flags);
SOFT_EXPORT CUresult cuDriverGetVersion(int *out);
SOFT_EXPORT CUresult cuDeviceGetCount(int *out);
SOFT_EXPORT CUresult cuDeviceGet(CUdevice *out, int ordinal);
SOFT_EXPORT CUresult cuDeviceGetName(char *out, int bytes, CUdevice device);
SOFT_EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice device);
SOFT_EXPORT CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device);
SOFT_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device);
SOFT_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
SOFT_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
SOFT_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active);
SOFT_EXPORT CUresult cuCtxSetCurrent(CUcontext context);
SOFT_EXPORT CUresult cuCtxGetCurrent(CUcontext *out);
SOFT_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context);
SOFT_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out);
SOFT_EXPORT CUresult cuCtxGetDevice(CUdevice *out);
SOFT_EXPORT CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr p);
SOFT_EXPORT CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes,
                                            void **values, CUdeviceptr p);
SOFT_EXPORT CUresult cuGetErrorName(CUresult error, const char **out);
SOFT_EXPORT CUresult cuGetErrorString(CUresult error, const char **out);

/* ---- begin and end ---- */

static void after_fork(void)
{
    soft.is_forked = soft.is_initialised;
}

void soft_end(void)
{
    for (unsigned i = 0; i < soft.options.n_devices; i++) {
        soft.n_misuses += soft_free_all(&soft.devices[i]);
    }
    soft.is_ended = true;
}

/* The driver ends before what the process registered earlier than it. Tells what was not freed, and
 * ends the process with a status when a mistake was seen. */
static void at_end(void)
{
    if (soft.is_forked || soft_enter() != CUDA_SUCCESS) {
        return;
    }
    soft_end();
    (void)soft_leave(CUDA_SUCCESS);
    if (soft.n_misuses != 0) {
        fflush(NULL);
        _exit(MISUSE_STATUS);
    }
}

CUresult cuInit(unsigned flags)
{
    const CUresult result = soft_enter();
    if (result != CUDA_ERROR_NOT_INITIALIZED || soft.is_forked) {
        return result != CUDA_SUCCESS ? result : soft_leave(CUDA_SUCCESS);
    }
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    const bool is_first = !soft.is_initialised;
    CUresult made = flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (is_first && made == CUDA_SUCCESS) {
        if (!soft_options_read(&soft.options)) {
            made = CUDA_ERROR_INVALID_VALUE;
        } else if (soft.options.n_devices == 0) {
            made = CUDA_ERROR_NO_DEVICE;
        } else {
            for (int i = 0; i < SOFT_DEVICES_MAX; i++) {
                soft.devices[i].ordinal = i;
            }
            soft.random = soft.options.seed;
            pthread_atfork(NULL, NULL, after_fork);
            atexit(at_end);
            soft.is_initialised = true;
        }
    }
    pthread_mutex_unlock(&once);
    return made;
}

CUresult cuDriverGetVersion(int *out)
{
    *out = SOFT_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

static CUresult enter_device(CUdevice ordinal)
{
    const CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && (unsigned)ordinal >= soft.options.n_devices) {
        return soft_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    return result;
}

CUresult cuDeviceGetCount(int *out)
{
    const CUresult result = soft_enter();
    *out = (int)soft.options.n_devices;
    return result != CUDA_SUCCESS ? result : soft_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
    const CUresult result = enter_device(ordinal);
    *out = ordinal;
    return result != CUDA_SUCCESS ? result : soft_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *out, int bytes, CUdevice device)
{
    const CUresult result = enter_device(device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    snprintf(out, (size_t)bytes, "%s", soft.options.chip->name);
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice device)
{
    const CUresult result = enter_device(device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *out = soft.options.chip->memory_bytes;
    return soft_leave(CUDA_SUCCESS);
}

/* A table of the chip's values: numbers of the vendor's enum and what they are. */
static bool attribute_of(CUdevice_attribute attribute, int *out)
{
    const soft_chip *c = soft.options.chip;
    const struct {
        CUdevice_attribute attribute;
        unsigned value;
    } values[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, c->block_threads_max},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, c->block_threads_max},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, c->block_threads_max},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, c->shared_bytes},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, c->warp},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, c->registers},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, c->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, c->l2_bytes},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2 * c->block_threads_max},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, c->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, c->minor},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, c->shared_optin_bytes + 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, c->registers},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, c->shared_optin_bytes},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (values[i].attribute == attribute) {
            *out = (int)values[i].value;
            return true;
        }
    }
    return false;
}

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult result = enter_device(device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *out = 0;
    return soft_leave(attribute_of(attribute, out)
                          ? CUDA_SUCCESS
                          : soft_refuse(CUDA_ERROR_INVALID_VALUE,
                                        "device attribute %d is not known here", (int)attribute));
}

/* ---- contexts ---- */

static _Thread_local struct {
    soft_device *contexts[CONTEXTS_MAX];
    unsigned n;
} stack;

soft_device *soft_current_context(void)
{
    return stack.n == 0 ? NULL : stack.contexts[stack.n - 1];
}

static bool is_context(const soft_device *context)
{
    return context >= soft.devices && context < soft.devices + soft.options.n_devices;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice ordinal)
{
    const CUresult result = enter_device(ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    soft_device *device = &soft.devices[ordinal];
    if (soft_is_to_fail(SOFT_FAIL_CONTEXT) ||
        (device->retained == 0 && !soft_streams_begin(device))) {
        return soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    device->retained++;
    *out = device;
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    const CUresult result = enter_device(ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    soft_device *device = &soft.devices[ordinal];
    if (device->retained == 0) {
        soft_count_misuse();
        return soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (--device->retained == 0) {
        soft_device_wait(device);
        soft.n_misuses += soft_free_all(device);
        soft_streams_destroy(device);
        soft_events_destroy(device);
        soft_modules_destroy(device);
        device->fault = CUDA_SUCCESS;
    }
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    const CUresult result = enter_device(device);
    (void)flags; /* how a thread waits, which is the same here */
    return result != CUDA_SUCCESS ? result : soft_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active)
{
    const CUresult result = enter_device(device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *flags = 0;
    *is_active = soft.devices[device].retained != 0;
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (context != NULL && !is_context(context)) {
        return soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (context == NULL) {
        stack.n -= stack.n > 0;
    } else {
        stack.n += stack.n == 0;
        stack.contexts[stack.n - 1] = context;
    }
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    const CUresult result = soft_enter();
    *out = soft_current_context();
    return result != CUDA_SUCCESS ? result : soft_leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!is_context(context) || stack.n == CONTEXTS_MAX) {
        return soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    stack.contexts[stack.n++] = context;
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (stack.n == 0) {
        return soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    soft_device *top = stack.contexts[--stack.n];
    if (out != NULL) {
        *out = top;
    }
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *out)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *out = device->ordinal;
    return soft_leave(CUDA_SUCCESS);
}

/* ---- pointers ---- */

/* Writes one attribute of what a pointer lies in; range NULL: the API does not know the pointer. */
static CUresult pointer_attribute(const soft_range *range, CUpointer_attribute attribute,
                                  CUdeviceptr p, void *out)
{
    const bool is_device = range != NULL && !range->is_pinned;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = range != NULL ? range->device : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = range == NULL ? 0u
                           : is_device   ? (unsigned)CU_MEMORYTYPE_DEVICE
                                         : (unsigned)CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = range != NULL ? p : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)out = range != NULL && !is_device ? (void *)(uintptr_t)p : NULL;
        return is_device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = range != NULL ? range->device->ordinal : -2;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = range != NULL ? range->start : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = range != NULL ? range->bytes : 0;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr p)
{
    soft_range range;
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const bool is_known = soft_find_range(p, &range);
    return soft_leave(is_known ? pointer_attribute(&range, attribute, p, out)
                               : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr p)
{
    soft_range range;
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const bool is_known = soft_find_range(p, &range);
    for (unsigned i = 0; i < n; i++) {
        pointer_attribute(is_known ? &range : NULL, attributes[i], p, values[i]);
    }
    return soft_leave(CUDA_SUCCESS);
}

/* ---- errors ---- */

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

CUresult cuGetErrorName(CUresult error, const char **out)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code == error) {
            *out = errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

/* For an error that a kernel has left behind, the text is what the kernel did; for options that
 * cuInit refuses, which one. */
CUresult cuGetErrorString(CUresult error, const char **out)
{
    if (error == CUDA_ERROR_INVALID_VALUE && !soft.is_initialised && *soft.wrong_option != '\0') {
        *out = soft.wrong_option;
        return CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < soft.options.n_devices && error != CUDA_SUCCESS; i++) {
        if (soft.devices[i].fault == error) {
            *out = soft.devices[i].fault_text;
            return CUDA_SUCCESS;
        }
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code == error) {
            *out = errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
