/* The driver of one GPU as a table of functions (header unstable, see docs/gpu.md).
 *
 * Everything in codegen/gpu that touches a device goes through this table; plugins/cuda fills it
 * from the CUDA driver API and NVRTC, plugins/hip from the HIP runtime and hiprtc. So memory,
 * launches, checks and times are written once for both.
 *
 * Addresses of device memory are numbers (st_gpu_address): the host never reads through them.
 * Streams, events, modules and functions are handles of the driver. Each function makes the
 * device's context current on the calling thread itself. Threads: any thread, concurrently, on one
 * stream too: what a thread queues on it happens in that thread's order.
 *
 * Errors: RESOURCE_EXHAUSTED when device memory runs out, with the bytes asked for, free and held;
 * UNAVAILABLE once the context is lost (an illegal address, a launch that timed out): from then on
 * every function answers so; INTERNAL with the driver's name of the error for the rest. */
#ifndef STATOR_CODEGEN_GPU_DRIVER_H
#define STATOR_CODEGEN_GPU_DRIVER_H

#include "core/base/diag.h"
#include "core/base/str.h"

typedef uint64_t st_gpu_address; /* 0: none */

/* What the device is like. Sizes are bytes. */
typedef struct st_gpu_device {
    int32_t device_type; /* kDLCUDA or kDLROCM */
    int32_t id;          /* the driver's number of the device */
    char name[96];       /* "NVIDIA H100 80GB HBM3" */
    char arch[32];       /* what the compiler is told: "sm_90", "gfx90a" */
    uint64_t memory_bytes;
    uint32_t n_multiprocessors;
    uint32_t warp_size;          /* 32 or 64 threads */
    uint32_t block_threads_max;  /* threads of a block */
    uint32_t shared_bytes;       /* shared memory of a block, without asking for more */
    uint32_t shared_optin_bytes; /* the most that a block can ask for */
    uint32_t registers;          /* of 32 bits, of a multiprocessor */
    uint32_t argument_bytes_max; /* of a kernel's arguments */
    uint64_t l2_bytes;
    uint32_t has_matrices; /* 1: code for `arch` has the matrix instructions of the prelude */
} st_gpu_device;

typedef struct st_gpu_launch {
    void *function;
    uint32_t blocks[3];
    uint32_t threads; /* of a block */
    uint32_t dynamic_shared_bytes;
    void
        *arguments; /* the kernel's one argument, a struct by value; copied before launch returns */
    uint32_t argument_bytes;
} st_gpu_launch;

enum st_gpu_event_flag { ST_GPU_EVENT_TIMED = 1u << 0 };

typedef struct st_gpu_driver {
    uint32_t struct_size;
    uint32_t reserved;
    void *self; /* one device with its context */
    st_gpu_device device;
    void *default_stream; /* what a stream of the application with the handle 1 is */

    /* ---- memory ---- */
    stator_status (*alloc)(void *self, uint64_t bytes, st_gpu_address *out, stator_diag **err);
    void (*free)(void *self, st_gpu_address p);
    /* Memory of the host that the device reads and writes too, at the same pointer. */
    stator_status (*alloc_pinned)(void *self, uint64_t bytes, void **out, stator_diag **err);
    void (*free_pinned)(void *self, void *p);
    /* In stream order. Host memory that is not pinned has been read, or is written, when the call
     * returns or, at the latest, when the stream is waited for. */
    stator_status (*copy_to_device)(void *self, st_gpu_address dst, const void *src, uint64_t bytes,
                                    void *stream, stator_diag **err);
    stator_status (*copy_to_host)(void *self, void *dst, st_gpu_address src, uint64_t bytes,
                                  void *stream, stator_diag **err);
    stator_status (*copy_on_device)(void *self, st_gpu_address dst, st_gpu_address src,
                                    uint64_t bytes, void *stream, stator_diag **err);
    stator_status (*fill)(void *self, st_gpu_address dst, uint8_t value, uint64_t bytes,
                          void *stream, stator_diag **err);
    /* Does the context live? Asked before the host writes to pinned memory, which goes with it. */
    stator_status (*check)(void *self, stator_diag **err);
    stator_status (*memory_info)(void *self, uint64_t *out_free, uint64_t *out_total,
                                 stator_diag **err);

    /* ---- streams and events ---- */
    stator_status (*stream_create)(void *self, void **out, stator_diag **err);
    void (*stream_destroy)(void *self, void *stream); /* waits for it first */
    stator_status (*stream_wait)(void *self, void *stream, stator_diag **err);
    stator_status (*event_create)(void *self, uint32_t flags, void **out, stator_diag **err);
    void (*event_destroy)(void *self, void *event);
    stator_status (*event_record)(void *self, void *event, void *stream, stator_diag **err);
    /* What is queued on the stream from here on waits for the event. */
    stator_status (*stream_wait_event)(void *self, void *stream, void *event, stator_diag **err);
    stator_status (*event_wait)(void *self, void *event, stator_diag **err);
    /* Of two timed events that have happened. */
    stator_status (*event_elapsed)(void *self, void *begin, void *end, double *out_milliseconds,
                                   stator_diag **err);

    /* ---- code ---- */
    /* Compiles the text of a program, which includes "gpu_prelude.h", to an image for this device.
     * No context is needed. UNAVAILABLE: there is no compiler, with what to install; INTERNAL: the
     * compiler's log. */
    stator_status (*compile)(void *self, const char *name, const char *text, uint64_t text_bytes,
                             st_str *out_image, stator_diag **err);
    stator_status (*module_load)(void *self, const void *image, uint64_t bytes, void **out,
                                 stator_diag **err);
    void (*module_unload)(void *self, void *module);
    stator_status (*module_function)(void *self, void *module, const char *name, void **out,
                                     stator_diag **err);
    stator_status (*launch)(void *self, const st_gpu_launch *launch, void *stream,
                            stator_diag **err);
} st_gpu_driver;

/* The driver's handle of an application's stream, whose default is 1 as DLPack has it. */
static inline void *st_gpu_stream(const st_gpu_driver *driver, void *handle)
{
    return (uintptr_t)handle == 1u ? driver->default_stream : handle;
}

#endif
