/* Memory that the host does not read, for programs whose values lie on a device (header unstable,
 * see docs/gpu.md).
 *
 * An emitter with this table has kernels that take addresses of the device: pointers to the
 * language, which codegen passes on and never reads through. The work of a call is queued in order
 * on the call's stream; what is taken, copied and given back follows that order, and nothing waits
 * but `read_back`, `wait` and
 * `read_marks`. Threads: any, concurrently; a call of the device is used by one
 * thread at a time. Statuses: RESOURCE_EXHAUSTED, UNAVAILABLE when the device is lost, INTERNAL. */
#ifndef STATOR_CODEGEN_DEVICE_MEMORY_H
#define STATOR_CODEGEN_DEVICE_MEMORY_H

#include <stator/plugin.h>

/* What it means when a CHECK of this origin fails in a kernel (st_loop_inst.origin). */
typedef struct st_check_text {
    uint32_t origin;
    const char *text; /* "gather 'g': an index is outside its axis" */
} st_check_text;

typedef struct st_device_memory {
    uint32_t struct_size;
    uint32_t reserved;
    void *self;

    /* ---- of an executable ---- */
    /* The bytes of a constant on the device, uploaded once for each content; given back when no
     * executable needs them. */
    stator_status (*constant_take)(void *self, stator_blob *blob, void **out_constant,
                                   const void **out_data, stator_diag **err);
    void (*constant_give)(void *self, void *constant);
    /* The checks of an executable, copied: one that failed may be told when it is gone. */
    stator_status (*checks_create)(void *self, const st_check_text *checks, uint32_t n,
                                   void **out_checks, stator_diag **err);
    void (*checks_release)(void *self, void *checks);

    /* ---- of a call ---- */
    /* A call, on call->stream, of an executable with these checks (NULL: none). `around`: the call
     * of which it is a step, or NULL. What it gives is for `launch` and the functions below. */
    stator_status (*begin)(void *self, const stator_call *call, void *checks, void *around,
                           void **out_device_call, stator_diag **err);
    /* Everything is queued, or the call has failed. Waits for nothing. */
    void (*end)(void *self, void *device_call);
    stator_status (*take)(void *self, void *device_call, uint64_t bytes, void **out,
                          stator_diag **err);
    void (*give)(void *self, void *device_call, void *p); /* NULL: nothing */
    /* A launch of the kernel in this call is refused from here on by the driver alone: its grid is
     * one that the device takes, and the call has the memory that it works in. */
    stator_status (*reserve)(void *self, void *device_call, void *module, uint32_t kernel,
                             int64_t count, stator_diag **err);
    stator_status (*copy)(void *self, void *device_call, void *dst, const void *src, uint64_t bytes,
                          stator_diag **err);
    /* To the host, at once: waits. Also tells a check of the call that has failed. */
    stator_status (*read_back)(void *self, void *device_call, void *dst, const void *src,
                               uint64_t bytes, stator_diag **err);
    stator_status (*wait)(void *self, void *device_call, stator_diag **err); /* likewise */
    /* Queues a mark, which takes the time of the device. */
    stator_status (*mark)(void *self, void *device_call, stator_diag **err);
    /* When the device came to each of the call's n marks, from the first on. Waits. */
    stator_status (*read_marks)(void *self, void *device_call, uint64_t *out_ns, uint32_t n,
                                stator_diag **err);
} st_device_memory;

#endif
