/* What stands around each call of the driver: the context is made current, and an answer becomes a
 * status.
 *
 * An error of the driver is one of three: the request cannot be met now (out of memory), the
 * request was wrong, or the context has ended with all that is in it, because a kernel did what the
 * machine stops at. The last kind is told by the call that meets it and from then on by every call;
 * CUDA offers no way back but a new process. */
#define _GNU_SOURCE
#include "cuda_device.h"

#include "core/base/diag.h"

#include <sys/mman.h>
#include <unistd.h>

const char *cuda_error_name(const cuda_driver *driver, cuda_result result)
{
    const char *name = NULL;
    return driver->api.error_name(result, &name) == CUDA_RESULT_SUCCESS && name != NULL
               ? name
               : "an error of a newer driver";
}

const char *cuda_error_text(const cuda_driver *driver, cuda_result result)
{
    const char *text = NULL;
    return driver->api.error_text(result, &text) == CUDA_RESULT_SUCCESS && text != NULL ? text
                                                                                        : "no text";
}

/* ---- fork ---- */

/* A page that holds 1 here and reads 0 in a child made by fork, without a system call at each look
 * (getpid is one). NULL: no memory, or a kernel before 4.14. */
volatile uint32_t *cuda_mark_process(void)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    volatile uint32_t *mark =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED) {
        return NULL;
    }
    if (madvise((void *)(uintptr_t)mark, bytes, MADV_WIPEONFORK) != 0) {
        (void)munmap((void *)(uintptr_t)mark, bytes);
        return NULL;
    }
    *mark = 1;
    return mark;
}

void cuda_unmark_process(const volatile uint32_t *mark)
{
    if (mark != NULL) {
        (void)munmap((void *)(uintptr_t)mark, (size_t)sysconf(_SC_PAGESIZE));
    }
}

/* ---- around each call ---- */

static stator_status say_lost(const cuda_device *d, int32_t lost, const char *doing,
                              stator_diag **err)
{
    (void)st_fail(err, STATOR_UNAVAILABLE,
                  "the context of cuda:%d is lost%s%s (%s, %d, %s); start a new process",
                  (int)d->table.device.id, doing[0] != '\0' ? ", seen while " : "", doing,
                  cuda_error_name(d->driver, lost), (int)lost, cuda_error_text(d->driver, lost));
    if (err != NULL) {
        st_diag_set_hint(*err, "a kernel did this, ours or another library's in this process; "
                               "compute-sanitizer names it");
    }
    return STATOR_UNAVAILABLE;
}

stator_status cuda_enter(cuda_device *d, cuda_scope *scope, stator_diag **err)
{
    const int32_t lost = atomic_load_explicit(&d->lost, memory_order_relaxed);
    *scope = (cuda_scope){NULL, false};
    ST_FAIL_IF(*d->here == 0, err, STATOR_FAILED_PRECONDITION,
               "cuda:%d was opened by the process that this one was forked from, and the CUDA "
               "driver does not survive fork; start a new process (in Python: the start method "
               "'spawn')",
               (int)d->table.device.id);
    if (lost != 0) {
        return say_lost(d, lost, "", err);
    }
    cuda_result result = d->driver->api.context_get(&scope->before);
    if (result == CUDA_RESULT_SUCCESS && scope->before != d->context) {
        result = d->driver->api.context_set(d->context);
        scope->is_changed = scope->before != NULL;
    }
    return result == CUDA_RESULT_SUCCESS
               ? STATOR_OK
               : cuda_leave(d, scope, result, "making the context current", err);
}

/* Does this error end the context? Of these cuda.h says that the process must be started anew. */
static bool ends_context(cuda_result result)
{
    static const cuda_result ends[] = {CUDA_RESULT_DEINITIALIZED,
                                       CUDA_RESULT_ECC_UNCORRECTABLE,
                                       CUDA_RESULT_NVLINK_UNCORRECTABLE,
                                       CUDA_RESULT_CONTAINED,
                                       CUDA_RESULT_ILLEGAL_ADDRESS,
                                       CUDA_RESULT_LAUNCH_TIMEOUT,
                                       CUDA_RESULT_CONTEXT_IS_DESTROYED,
                                       CUDA_RESULT_ASSERT,
                                       CUDA_RESULT_HARDWARE_STACK_ERROR,
                                       CUDA_RESULT_ILLEGAL_INSTRUCTION,
                                       CUDA_RESULT_MISALIGNED_ADDRESS,
                                       CUDA_RESULT_INVALID_ADDRESS_SPACE,
                                       CUDA_RESULT_INVALID_PC,
                                       CUDA_RESULT_LAUNCH_FAILED,
                                       CUDA_RESULT_TENSOR_MEMORY_LEAK,
                                       CUDA_RESULT_EXTERNAL_DEVICE,
                                       CUDA_RESULT_UNKNOWN};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (ends[i] == result) {
            return true;
        }
    }
    return false;
}

stator_status cuda_leave(cuda_device *d, const cuda_scope *scope, cuda_result result,
                         const char *doing, stator_diag **err)
{
    if (scope->is_changed) {
        (void)d->driver->api.context_set(scope->before);
    }
    if (result == CUDA_RESULT_SUCCESS) {
        return STATOR_OK;
    }
    if (ends_context(result)) {
        int32_t none = 0;
        (void)atomic_compare_exchange_strong(&d->lost, &none, result);
        return say_lost(d, result, doing, err);
    }
    const bool is_memory = result == CUDA_RESULT_OUT_OF_MEMORY;
    return st_fail(err, is_memory ? STATOR_RESOURCE_EXHAUSTED : STATOR_INTERNAL,
                   "cuda:%d: %s failed: %s, %d, %s", (int)d->table.device.id, doing,
                   cuda_error_name(d->driver, result), (int)result,
                   cuda_error_text(d->driver, result));
}
