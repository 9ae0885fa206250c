/* The software device's driver as an application beside Stator uses it, PyTorch say: memory and
 * streams of its own in the device's primary context. HIP's stands on the same one, so that it
 * serves hip_soft too. */
#ifndef STATOR_TEST_SOFT_DRIVER_H
#define STATOR_TEST_SOFT_DRIVER_H

#include "api_check.h"

#include <dlfcn.h>
#include <unistd.h>

#define SOFT_DRIVER ST_TEST_BUILD "/tests/softgpu/libcuda.so.1"

typedef void *handle;
static struct driver {
    int (*init)(unsigned);
    int (*retain)(handle *, int);
    int (*set)(handle);
    int (*stream_create)(handle *, unsigned);
    int (*stream_wait)(handle);
    int (*stream_destroy)(handle);
    int (*alloc)(uint64_t *, size_t);
    int (*free)(uint64_t);
    int (*pinned_alloc)(void **, size_t, unsigned);
    int (*pinned_free)(void *);
    int (*event_create)(handle *, unsigned);
    int (*event_destroy)(handle);
    int (*to_host)(void *, uint64_t, size_t, handle);
    int (*to_device)(uint64_t, const void *, size_t, handle);
} cu;

static inline void bind(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(out, &found, sizeof found);
}

static inline void open_driver(void)
{
    void *library = dlopen(SOFT_DRIVER, RTLD_NOW);
    CHECK(library != NULL);
    bind(library, "cuInit", &cu.init);
    bind(library, "cuDevicePrimaryCtxRetain", &cu.retain);
    bind(library, "cuCtxSetCurrent", &cu.set);
    bind(library, "cuStreamCreate", &cu.stream_create);
    bind(library, "cuStreamSynchronize", &cu.stream_wait);
    bind(library, "cuStreamDestroy_v2", &cu.stream_destroy);
    bind(library, "cuMemAlloc_v2", &cu.alloc);
    bind(library, "cuMemFree_v2", &cu.free);
    bind(library, "cuMemHostAlloc", &cu.pinned_alloc);
    bind(library, "cuMemFreeHost", &cu.pinned_free);
    bind(library, "cuEventCreate", &cu.event_create);
    bind(library, "cuEventDestroy_v2", &cu.event_destroy);
    bind(library, "cuMemcpyDtoHAsync_v2", &cu.to_host);
    bind(library, "cuMemcpyHtoDAsync_v2", &cu.to_device);
    CHECK(cu.init(0) == 0);
}

/* Makes the context of a device current. */
static inline void enter_device(int device)
{
    handle context = NULL;
    CHECK(cu.retain(&context, device) == 0 && cu.set(context) == 0);
}

/* A stream of a device, whose context is current from then on. */
static inline handle new_stream(int device)
{
    handle stream = NULL;
    enter_device(device);
    CHECK(cu.stream_create(&stream, 1) == 0);
    return stream;
}

#endif
