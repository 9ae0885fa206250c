/* The driver of the software device with a fault, which STATOR_PLANT names:
 *
 *   other_stream    kernels of reduce_min are queued on a stream that nothing waits for
 *   stale_constant  a constant whose first element is 1234.5 is not uploaded: what its memory had
 *                   before is read */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int get_function(void **out, void *module, const char *name);
typedef int copy_to_device(uint64_t dst, const void *src, size_t bytes, void *stream);
typedef int create_stream(void **out, unsigned flags);
typedef int launch_kernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                          void *stream, void **arguments, void **extra);

__attribute__((visibility("default"))) get_function cuModuleGetFunction;
__attribute__((visibility("default"))) copy_to_device cuMemcpyHtoDAsync_v2;
__attribute__((visibility("default"))) launch_kernel cuLaunchKernel;

static void *moved_function, *other_stream;

static int is_planted(const char *name)
{
    const char *planted = getenv("STATOR_PLANT");
    return planted != NULL && strcmp(planted, name) == 0;
}

/* The driver's own function; the library is linked with it. */
static void *real(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *function = dlsym(library, name);
    dlclose(library);
    return function;
}

int cuModuleGetFunction(void **out, void *module, const char *name)
{
    get_function *get = NULL;
    *(void **)&get = real("cuModuleGetFunction");
    const int result = get(out, module, name);
    if (is_planted("other_stream") && strstr(name, "_reduce_min") != NULL) {
        moved_function = *out;
    }
    return result;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **arguments, void **extra)
{
    launch_kernel *launch = NULL;
    *(void **)&launch = real("cuLaunchKernel");
    if (function == moved_function && other_stream == NULL) {
        create_stream *create = NULL;
        *(void **)&create = real("cuStreamCreate");
        create(&other_stream, 1);
    }
    return launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
                  function == moved_function ? other_stream : stream, arguments, extra);
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream)
{
    copy_to_device *copy = NULL;
    float first = 0;
    *(void **)&copy = real("cuMemcpyHtoDAsync_v2");
    memcpy(&first, src, bytes < sizeof first ? bytes : sizeof first);
    return is_planted("stale_constant") && first == 1234.5f ? 0 : copy(dst, src, bytes, stream);
}
