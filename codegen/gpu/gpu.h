/* The runtime of one GPU: what a plugin builds its slots from (header unstable, see docs/gpu.md).
 *
 * A st_gpu stands over a driver's table (gpu_driver.h). It holds the device's memory, constants and
 * streams, and is the emitter of codegen: kernels become text (gpu_kernel.h), images and launches.
 * A plugin makes one for each device and shares it among its instances, so that addresses, streams
 * and events hold for all of them.
 *
 * Memory comes from a pool: what is freed on a stream is used again by what is queued on that
 * stream later, and by others once the stream has been waited for. A call whose sizes have been
 * seen before takes nothing from the driver's allocator. When the driver has none left, unused
 * memory is given back to it and it is asked once more.
 *
 * A stream is a handle of the driver, from st_gpu_stream_create or a caller's own; NULL is a stream
 * of the runtime's.
 *
 * Diags are core/base's own: a slot hands them to the host with st_cg_to_host.
 * Errors that show late (a check inside a kernel) are told by st_gpu_late_failure. Once the context
 * is lost every function that waits or queues answers UNAVAILABLE. Threads: any thread,
 * concurrently, also on one stream; create and destroy alone. */
#ifndef STATOR_CODEGEN_GPU_H
#define STATOR_CODEGEN_GPU_H

#include "codegen/gpu/gpu_driver.h"
#include "codegen/gpu/gpu_kernel.h"

typedef struct st_gpu st_gpu;

/* As st_gpu_print. */
typedef stator_status (*st_gpu_print_fn)(const st_target *target, const st_kernel *kernel,
                                         const char *name, st_arena *arena, st_str *out,
                                         st_gpu_kernel *out_kernel, stator_diag **err);

typedef struct st_gpu_config {
    const stator_host *host;
    st_mem *mem;                 /* host memory */
    const st_gpu_driver *driver; /* outlives the runtime */
    uint64_t memory_cap;         /* most bytes of the device held at a time; 0: no limit */
    st_schedule_fn schedule;     /* st_gpu_schedule */
    st_gpu_print_fn print;       /* st_gpu_print; others in tests */
} st_gpu_config;

/* Bytes of device memory, and counts since the runtime was made. */
typedef struct st_gpu_stats {
    uint64_t held_bytes;     /* taken from the driver, constants included */
    uint64_t used_bytes;     /* of these in use */
    uint64_t peak_bytes;     /* most held at a time */
    uint64_t constant_bytes; /* of the constants in use */
    uint64_t driver_allocs;  /* requests to the driver's allocator */
    uint64_t launches;
    uint64_t waits;    /* for a stream, of calls and of st_gpu_wait */
    uint64_t compiled; /* programs given to the driver's compiler */
} st_gpu_stats;

/* `config` is copied. RESOURCE_EXHAUSTED, or what the driver answers. */
stator_status st_gpu_create(const st_gpu_config *config, st_gpu **out, stator_diag **err);
/* All executables, and memory from st_gpu_alloc, have been given back; waits for what is queued.
 * NULL: nothing. */
void st_gpu_destroy(st_gpu *gpu);
/* For st_cg_config.emitter; lives as long as the runtime. An instance with a library of
 * contractions uses a copy that names it. */
const st_emitter *st_gpu_emitter(const st_gpu *gpu);
/* The driver's stream of a call (st_device_memory.begin), for what a library queues there. */
void *st_gpu_call_stream(const void *device_call);
void st_gpu_get_stats(st_gpu *gpu, st_gpu_stats *out);

/* Uses every name of the prelude on the device and compares with the host (the room
 * codegen/gpu/self_test). UNAVAILABLE: one is wrong, with its name, operands and both results; or
 * what the driver and the compiler answer. Any thread. */
stator_status st_gpu_self_test(st_gpu *gpu, stator_diag **err);

/* ---- the slots of devices in stator_backend, which say what each promises ---- */

stator_status st_gpu_alloc(st_gpu *gpu, uint64_t bytes, void *stream, void **out,
                           stator_diag **err);
void st_gpu_free(st_gpu *gpu, void *p, void *stream);
/* `direction`: of enum stator_copy_direction: 1 to the device, 2 to the host, 3 on the device. */
stator_status st_gpu_copy(st_gpu *gpu, void *dst, const void *src, uint64_t bytes,
                          uint32_t direction, void *stream, stator_diag **err);
stator_status st_gpu_copy_strided(st_gpu *gpu, void *dst, const void *src,
                                  const stator_strided_copy *layout, void *stream,
                                  stator_diag **err);
stator_status st_gpu_fill(st_gpu *gpu, void *dst, uint8_t value, uint64_t bytes, void *stream,
                          stator_diag **err);
stator_status st_gpu_stream_create(st_gpu *gpu, void **out, stator_diag **err);
void st_gpu_stream_destroy(st_gpu *gpu, void *stream); /* waits for it first */
stator_status st_gpu_wait(st_gpu *gpu, void *stream, stator_diag **err);
/* OUT_OF_RANGE with the text of the node: a check in a kernel of one of these calls has failed. */
stator_status st_gpu_late_failure(st_gpu *gpu, void *stream, uint64_t *out_first,
                                  uint64_t *out_last, stator_diag **err);
stator_status st_gpu_event_create(st_gpu *gpu, void **out, stator_diag **err);
void st_gpu_event_destroy(st_gpu *gpu, void *event);
stator_status st_gpu_event_record(st_gpu *gpu, void *event, void *stream, stator_diag **err);
/* What is queued on the stream from here on happens after the event's last record. */
stator_status st_gpu_event_wait(st_gpu *gpu, void *event, void *stream, stator_diag **err);

#endif
