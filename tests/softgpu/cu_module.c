/* The driver API of modules and launches. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft_block.h"
#include "soft_module.h"
#include "soft_stream.h"

#define NAME_BYTES 128

struct soft_function {
    soft_object head;
    char name[NAME_BYTES];
    const struct st_soft_kernel *kernel;
    unsigned static_shared_bytes;
    unsigned dynamic_shared_max;
};
typedef struct soft_function soft_function;

struct soft_module {
    soft_object head;
    void *object; /* of dlopen */
    soft_object *functions;
    unsigned static_shared_bytes;
};
typedef struct soft_module soft_module;

SOFT_EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image);
SOFT_EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n_options,
                                        void *options, void **values);
SOFT_EXPORT CUresult cuModuleUnload(CUmodule module);
SOFT_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name);
SOFT_EXPORT CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute,
                                        CUfunction function);
SOFT_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                        int value);
SOFT_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                      void **parameters, void **extra);
SOFT_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                    unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                    CUstream stream, void **parameters, void **extra);

/* ---- modules ---- */

/* The size of a shared object, whose table of sections comes last; 0 when it is none. */
static size_t image_bytes(const void *image)
{
    Elf64_Ehdr head;
    memcpy(&head, image, SELFMAG);
    if (memcmp(&head, ELFMAG, SELFMAG) != 0) {
        return 0;
    }
    memcpy(&head, image, sizeof(head));
    return head.e_type == ET_DYN ? head.e_shoff + (size_t)head.e_shnum * head.e_shentsize : 0;
}

/* Writes an image to a file of its own, which dlopen reads; false with a message. */
static bool write_image(const void *image, size_t bytes, char *path, size_t path_bytes)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, path_bytes, "%.200s/softgpu-XXXXXX.so", folder != NULL ? folder : "/tmp");
    const int fd = mkstemps(path, 3);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    const bool is_written = file != NULL && fwrite(image, 1, bytes, file) == bytes;
    const bool is_closed = file != NULL && fclose(file) == 0;
    if (!is_written || !is_closed) {
        soft_say("cannot write a module to %s", path);
    }
    return is_written && is_closed;
}

/* The bytes of all shared arrays that the kernels of a module have. */
static unsigned static_shared(void *object)
{
    const struct st_soft_shared *const *ends = dlsym(object, "st_soft_shared_ends");
    unsigned bytes = 0;
    const struct st_soft_shared *array = ends != NULL ? ends[0] : NULL;
    for (; array != NULL && array < ends[1]; array++) {
        bytes = (bytes + array->align - 1) / array->align * array->align + array->bytes;
    }
    return bytes;
}

/* Whether the image is for this chip: no newer, and of its generation unless it is PTX. */
static bool is_for_chip(void *object)
{
    const uint32_t *arch = dlsym(object, "st_soft_arch");
    const uint32_t *is_ptx = dlsym(object, "st_soft_is_ptx");
    const soft_chip *chip = soft.options.chip;
    return arch != NULL && is_ptx != NULL && *arch <= chip->major * 10 + chip->minor &&
           (*is_ptx != 0 || *arch / 10 == chip->major);
}

static CUresult load(soft_device *device, const void *image, CUmodule *out)
{
    char path[300];
    const size_t bytes = image_bytes(image);
    if (bytes == 0) {
        return soft_refuse(CUDA_ERROR_INVALID_IMAGE,
                           "the image is none of the software device's libnvrtc");
    }
    if (!write_image(image, bytes, path, sizeof(path))) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    soft_module *module = soft_object_create(device, SOFT_MODULE, sizeof(soft_module));
    void *object = module != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (object == NULL && module != NULL) {
        soft_say("%s", dlerror());
    }
    if (!soft.options.keeps_objects) {
        unlink(path);
    }
    if (object == NULL || !is_for_chip(object)) {
        if (module != NULL) {
            soft_object_destroy(&module->head);
        }
        return object == NULL ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    module->object = object;
    module->static_shared_bytes = static_shared(object);
    module->head.next = device->modules;
    device->modules = &module->head;
    *out = module;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (soft_is_to_fail(SOFT_FAIL_MODULE)) {
        return soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    if (soft_is_to_fail(SOFT_FAIL_IMAGE)) {
        return soft_leave(CUDA_ERROR_INVALID_IMAGE);
    }
    return soft_leave(load(device, image, out));
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n_options, void *options,
                            void **values)
{
    (void)n_options;
    (void)options;
    (void)values;
    return cuModuleLoadData(out, image);
}

static void destroy_module(soft_module *module)
{
    soft_object **at = &module->head.device->modules;
    while (*at != &module->head) {
        at = &(*at)->next;
    }
    *at = module->head.next;
    for (soft_object *o = module->functions, *next = NULL; o != NULL; o = next) {
        next = o->next;
        soft_object_destroy(o);
    }
    dlclose(module->object);
    soft_object_destroy(&module->head);
}

void soft_modules_destroy(soft_device *device)
{
    while (device->modules != NULL) {
        destroy_module((soft_module *)device->modules);
    }
}

CUresult cuModuleUnload(CUmodule module)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(module, SOFT_MODULE)) {
        soft_count_misuse();
        return soft_leave(
            soft_refuse(CUDA_ERROR_INVALID_HANDLE, "cuModuleUnload: this is no module any more"));
    }
    result = soft_device_wait(module->head.device);
    destroy_module(module);
    return soft_leave(result);
}

/* ---- functions ---- */

static CUresult get_function(soft_module *module, const char *name, CUfunction *out)
{
    char symbol[NAME_BYTES + 16];
    const soft_chip *chip = soft.options.chip;
    snprintf(symbol, sizeof(symbol), "%s_st_kernel", name);
    const struct st_soft_kernel *kernel = dlsym(module->object, symbol);
    if (kernel == NULL || strlen(name) >= NAME_BYTES) {
        return soft_refuse(CUDA_ERROR_NOT_FOUND, "the module has no kernel '%s'", name);
    }
    if (module->static_shared_bytes > chip->shared_bytes ||
        kernel->argument_bytes > chip->argument_bytes_max || kernel->warp != chip->warp) {
        return soft_refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                           "kernel '%s' has %u bytes of shared memory, %u of arguments and warps "
                           "of %u; the device %u, %u and %u",
                           name, module->static_shared_bytes, kernel->argument_bytes, kernel->warp,
                           chip->shared_bytes, chip->argument_bytes_max, chip->warp);
    }
    soft_function *function =
        soft_object_create(module->head.device, SOFT_FUNCTION, sizeof(soft_function));
    if (function == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    snprintf(function->name, sizeof(function->name), "%s", name);
    function->kernel = kernel;
    function->static_shared_bytes = module->static_shared_bytes;
    function->dynamic_shared_max = chip->shared_bytes - module->static_shared_bytes;
    function->head.next = module->functions;
    module->functions = &function->head;
    *out = function;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    return soft_leave(soft_is_object(module, SOFT_MODULE) ? get_function(module, name, out)
                                                          : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction function)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(function, SOFT_FUNCTION)) {
        return soft_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    const soft_chip *chip = soft.options.chip;
    const unsigned values[] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = function->kernel->threads,
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = function->static_shared_bytes,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = 32,
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = chip->major * 10 + chip->minor,
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = chip->major * 10 + chip->minor,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = function->dynamic_shared_max,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = 0,
    };
    if ((unsigned)attribute >= sizeof(values) / sizeof(values[0])) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *out = (int)values[attribute];
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(function, SOFT_FUNCTION)) {
        return soft_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        return soft_leave(CUDA_SUCCESS);
    }
    const int max = (int)(soft.options.chip->shared_optin_bytes - function->static_shared_bytes);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > max) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    function->dynamic_shared_max = (unsigned)value;
    return soft_leave(CUDA_SUCCESS);
}

/* ---- launches ---- */

/* The bytes of the one argument, from `parameters` or from a buffer in `extra`; NULL and a message
 * when there are none, or not as many as the kernel wants. */
static const void *find_arguments(const soft_function *f, void **parameters, void **extra)
{
    const void *buffer = NULL;
    size_t bytes = f->kernel->argument_bytes;
    if (parameters != NULL) {
        return parameters[0];
    }
    for (void **at = extra; at != NULL && *at != SOFT_LAUNCH_PARAM_END; at += 2) {
        if (*at == SOFT_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = at[1];
        } else if (*at == SOFT_LAUNCH_PARAM_BUFFER_SIZE) {
            bytes = *(const size_t *)at[1];
        }
    }
    if (buffer == NULL || bytes != f->kernel->argument_bytes) {
        soft_say("kernel '%s' wants %u bytes of arguments and gets %zu", f->name,
                 f->kernel->argument_bytes, buffer != NULL ? bytes : 0);
        return NULL;
    }
    return buffer;
}

/* Whether the chip can run this launch. */
static CUresult check_launch(const soft_function *f, const CUlaunchConfig *c)
{
    const unsigned threads = c->blockDimX;
    if (c->gridDimX == 0 || c->gridDimY == 0 || c->gridDimZ == 0 || c->gridDimX > 0x7fffffffu ||
        c->gridDimY > 65535 || c->gridDimZ > 65535) {
        return soft_refuse(CUDA_ERROR_INVALID_VALUE, "kernel '%s': a grid of %u x %u x %u blocks",
                           f->name, c->gridDimX, c->gridDimY, c->gridDimZ);
    }
    if (threads > soft.options.chip->block_threads_max) {
        return soft_refuse(CUDA_ERROR_INVALID_VALUE, "kernel '%s': %u threads in a block", f->name,
                           threads);
    }
    if (c->blockDimY != 1 || c->blockDimZ != 1 || threads != f->kernel->threads) {
        return soft_refuse(threads > f->kernel->threads ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                                        : CUDA_ERROR_INVALID_VALUE,
                           "kernel '%s' is written for blocks of %u threads and launched with "
                           "%u x %u x %u",
                           f->name, f->kernel->threads, threads, c->blockDimY, c->blockDimZ);
    }
    if (c->sharedMemBytes > f->dynamic_shared_max) {
        return soft_refuse(CUDA_ERROR_INVALID_VALUE,
                           "kernel '%s': %u bytes of dynamic shared memory, but at most %u are "
                           "allowed (cuFuncSetAttribute)",
                           f->name, c->sharedMemBytes, f->dynamic_shared_max);
    }
    return CUDA_SUCCESS;
}

static CUresult launch(soft_device *device, soft_function *f, const CUlaunchConfig *c,
                       const void *arguments)
{
    soft_stream *stream = soft_stream_of(device, c->hStream);
    if (stream == NULL || f->head.device != device) {
        return soft_refuse(
            CUDA_ERROR_INVALID_HANDLE,
            "kernel '%s': its stream is destroyed, or it or the stream is of another "
            "device",
            f->name);
    }
    const CUresult result = check_launch(f, c);
    if (result != CUDA_SUCCESS || arguments == NULL) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    soft_op *op = soft_op_create(SOFT_OP_KERNEL, f->kernel->argument_bytes);
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(op + 1, arguments, f->kernel->argument_bytes);
    op->of.launch = (soft_launch){
        .name = f->name,
        .kernel = f->kernel,
        .n_blocks = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ,
        .threads = c->blockDimX,
        .shared_bytes = f->static_shared_bytes + c->sharedMemBytes,
        .arguments = op + 1,
        .order = soft.options.order,
        .seed = soft_random(&soft.random, UINT64_MAX),
    };
    soft_stream_push(stream, op);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(function, SOFT_FUNCTION)) {
        return soft_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (soft_is_to_fail(SOFT_FAIL_LAUNCH)) {
        return soft_leave(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    return soft_leave(
        launch(device, function, config, find_arguments(function, parameters, extra)));
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream,
                        void **parameters, void **extra)
{
    const CUlaunchConfig config = {.gridDimX = gx,
                                   .gridDimY = gy,
                                   .gridDimZ = gz,
                                   .blockDimX = bx,
                                   .blockDimY = by,
                                   .blockDimZ = bz,
                                   .sharedMemBytes = shared_bytes,
                                   .hStream = stream};
    return cuLaunchKernelEx(&config, function, parameters, extra);
}
