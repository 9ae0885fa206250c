/* What stands around each call of the driver: the context is made current, and an answer becomes a
 * status.
 *
 * An error of the driver is one of three: the request cannot be met now (out of memory), the
 * request was wrong, or the context has ended with all that is in it, because a kernel did what the
 * machine stops at. The last kind is told by the call that meets it and from then on by every call;
 * the drivers offer no way back but a new process. */
#define _GNU_SOURCE
#include "codegen/gpu/gpu_native.h"

#include "core/base/diag.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- fork ---- */

/* A page that holds 1 here and reads 0 in a child made by fork, without a system call at each look
 * (getpid is one). NULL: no memory, or a kernel before 4.14. */
volatile uint32_t *st_gpu_mark_process(void)
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

void st_gpu_unmark_process(const volatile uint32_t *mark)
{
    if (mark != NULL) {
        (void)munmap((void *)(uintptr_t)mark, (size_t)sysconf(_SC_PAGESIZE));
    }
}

/* ---- memory ---- */

/* The kernel reads the set of signals before it refuses what is to be done with it. */
bool st_gpu_can_read(const void *p)
{
    enum { DO_NOTHING = -1, SET_BYTES = 8 };
    const uintptr_t at = (uintptr_t)p & ~(uintptr_t)(SET_BYTES - 1);
    return at != 0 && /* no set at all, to the call */
           (syscall(SYS_rt_sigprocmask, DO_NOTHING, at, NULL, SET_BYTES) == 0 || errno != EFAULT);
}

/* ---- around each call ---- */

stator_status st_gpu_say_ended(const st_gpu_native *driver, const char *doing, stator_diag **err)
{
    (void)st_fail(err, STATOR_UNAVAILABLE,
                  "%s has shut down, as it does when the process ends%s%s; no device of %s can be "
                  "used any more",
                  driver->vendor->driver->what, doing[0] != '\0' ? ", seen while " : "", doing,
                  driver->name);
    if (err != NULL) {
        st_diag_set_hint(*err, "use devices before main returns, not in exit handlers and "
                               "destructors of statics");
    }
    return STATOR_UNAVAILABLE;
}

static stator_status say_lost(const st_gpu_context *d, int32_t lost, const char *doing,
                              stator_diag **err)
{
    if (lost == ST_GPU_RESULT_DEINITIALIZED) {
        return st_gpu_say_ended(d->driver, doing, err);
    }
    (void)st_fail(err, STATOR_UNAVAILABLE,
                  "the context of %s:%d is lost%s%s (%s, %d, %s); start a new process",
                  d->driver->name, (int)d->table.device.id, doing[0] != '\0' ? ", seen while " : "",
                  doing, d->driver->vendor->error_name(d->driver, lost), (int)lost,
                  d->driver->vendor->error_text(d->driver, lost));
    if (err != NULL) {
        st_diag_set_hint(*err, "a kernel did this, ours or another library's in this process; %s",
                         d->driver->vendor->find_fault);
    }
    return STATOR_UNAVAILABLE;
}

stator_status st_gpu_enter(st_gpu_context *d, st_gpu_scope *scope, stator_diag **err)
{
    const int32_t lost = atomic_load_explicit(&d->lost, memory_order_relaxed);
    *scope = (st_gpu_scope){NULL, false};
    ST_FAIL_IF(*d->here == 0, err, STATOR_FAILED_PRECONDITION,
               "%s:%d was opened by the process that this one was forked from, and %s "
               "does not survive fork; start a new process (in Python: the start method "
               "'spawn')",
               d->driver->name, (int)d->table.device.id, d->driver->vendor->driver->what);
    if (lost != 0) {
        return say_lost(d, lost, "", err);
    }
    int32_t result = d->driver->api.context_get(&scope->before);
    if (result == ST_GPU_RESULT_SUCCESS && scope->before != d->context) {
        result = d->driver->api.context_set(d->context);
        scope->is_changed = scope->before != NULL;
    }
    return result == ST_GPU_RESULT_SUCCESS
               ? STATOR_OK
               : st_gpu_leave(d, scope, result, "making the context current", err);
}

/* Does this error end the context? */
static bool ends_context(const st_gpu_vendor *vendor, int32_t result)
{
    for (uint32_t i = 0; i < vendor->ending_count; i++) {
        if (vendor->ending[i] == result) {
            return true;
        }
    }
    return false;
}

stator_status st_gpu_leave(st_gpu_context *d, const st_gpu_scope *scope, int32_t result,
                           const char *doing, stator_diag **err)
{
    if (scope->is_changed) {
        (void)d->driver->api.context_set(scope->before);
    }
    if (result == ST_GPU_RESULT_SUCCESS) {
        return STATOR_OK;
    }
    if (ends_context(d->driver->vendor, result)) {
        int32_t none = 0;
        (void)atomic_compare_exchange_strong(&d->lost, &none, result);
        return say_lost(d, result, doing, err);
    }
    const bool is_memory = result == ST_GPU_RESULT_OUT_OF_MEMORY;
    return st_fail(err, is_memory ? STATOR_RESOURCE_EXHAUSTED : STATOR_INTERNAL,
                   "%s:%d: %s failed: %s, %d, %s", d->driver->name, (int)d->table.device.id, doing,
                   d->driver->vendor->error_name(d->driver, result), (int)result,
                   d->driver->vendor->error_text(d->driver, result));
}
