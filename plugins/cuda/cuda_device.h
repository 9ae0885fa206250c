/* A GPU as this process uses it: its primary context, and the table of functions (gpu_driver.h)
 * over the driver API.
 *
 * The context is the device's primary one, which PyTorch and the CUDA runtime use too, so that
 * addresses, streams and events pass between them and us. Its flags are left as they are: how a
 * thread waits is the process's choice. The driver's default spins while it has fewer contexts than
 * the machine has processors, which is what short kernels want.
 *
 * Each function makes the context current for its own duration where another one is: a thread
 * without a context keeps ours, which spares later calls the change. */
#ifndef STATOR_CUDA_CUDA_DEVICE_H
#define STATOR_CUDA_CUDA_DEVICE_H

#include "cuda_compile.h"

#include "codegen/gpu/gpu_driver.h"

#include <stdatomic.h>

/* The driver of a process, begun once. */
typedef struct cuda_driver {
    cuda_driver_api api;
    char path[CUDA_PATH_BYTES];
    int version;      /* 13000: the newest CUDA whose programs it runs is 13.0 */
    int device_count; /* those that CUDA_VISIBLE_DEVICES leaves, which the driver itself obeys */
} cuda_driver;

typedef struct cuda_device {
    st_gpu_driver table; /* self is this struct */
    const cuda_driver *driver;
    cuda_compiler compiler;
    cuda_ordinal ordinal;
    cuda_context context;
    _Atomic int32_t lost;          /* the error that ended the context; 0: it lives */
    _Atomic uint64_t held_bytes;   /* of device memory, allocated through the table */
    const volatile uint32_t *here; /* *here is 1, and 0 in a child made by fork */
} cuda_device;

/* Opens the library (option `driver`, NULL or "": looked for) and begins it. No context is made.
 * NOT_FOUND: the library is missing; UNAVAILABLE: it sees no device, with the reason. */
stator_status cuda_driver_begin(cuda_driver *driver, const char *file, stator_diag **err);

/* What the device is like; `id` is the driver's number, below device_count. */
stator_status cuda_describe(const cuda_driver *driver, uint32_t id, st_gpu_device *out,
                            stator_diag **err);

/* What to open. */
typedef struct cuda_device_options {
    const char *nvrtc; /* option nvrtc; outlives the device */
    const char *arch;  /* option arch; NULL or "": the device's own */
} cuda_device_options;

/* Retains the primary context and fills the table. The driver outlives the device, which is where
 * it stays. NOT_FOUND: there is no such device. */
stator_status cuda_device_open(cuda_device *device, const cuda_driver *driver, uint32_t id,
                               const cuda_device_options *options, stator_diag **err);
void cuda_device_close(cuda_device *device);

/* ---- cuda_driver.c ---- */

/* Fills table's functions; the rest of the device is ready. */
void cuda_fill_table(cuda_device *device);

/* Is it an address of the device? INVALID_ARGUMENT: one of host memory, which the driver does not
 * know or calls pinned, or one of another device. */
stator_status cuda_check_address(cuda_device *device, const void *p, stator_diag **err);

/* ---- cuda_context.c: around each call of the driver ---- */

/* "CUDA_ERROR_OUT_OF_MEMORY", and the driver's words for it. */
const char *cuda_error_name(const cuda_driver *driver, cuda_result result);
const char *cuda_error_text(const cuda_driver *driver, cuda_result result);

/* A word that is 1 in this process and 0 in a child made by fork; NULL: no memory, or a Linux
 * before 4.14. */
volatile uint32_t *cuda_mark_process(void);
void cuda_unmark_process(const volatile uint32_t *mark); /* NULL: nothing */

typedef struct cuda_scope {
    cuda_context before; /* current on this thread; made so again */
    bool is_changed;
} cuda_scope;

/* Makes the context current. UNAVAILABLE: it is lost; FAILED_PRECONDITION: this is a child made by
 * fork, and the driver does not survive that. */
stator_status cuda_enter(cuda_device *device, cuda_scope *scope, stator_diag **err);
/* Ends what cuda_enter began; what the driver answered becomes a status, with `doing` ("copying to
 * the device") in its text. An error that ends the context is remembered. */
stator_status cuda_leave(cuda_device *device, const cuda_scope *scope, cuda_result result,
                         const char *doing, stator_diag **err);

#endif
