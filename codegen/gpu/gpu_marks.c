/* Marks on a call's stream: events with times, from which a profile has how long steps took on the
 * device. They are kept for later calls. */
#include "codegen/gpu/gpu_runtime.h"

#include <math.h>

/* An event that nobody uses, or a new one. */
static stator_status take_event(st_gpu *gpu, void **out, stator_diag **err)
{
    pthread_mutex_lock(&gpu->lock);
    *out = gpu->unused_events.count ? gpu->unused_events.data[--gpu->unused_events.count] : NULL;
    pthread_mutex_unlock(&gpu->lock);
    return *out ? STATOR_OK
                : gpu->driver->event_create(gpu->driver->self, ST_GPU_EVENT_TIMED, out, err);
}

stator_status gpu_mark(void *self, void *call_, stator_diag **err)
{
    st_gpu *gpu = self;
    gpu_call *call = call_;
    const st_gpu_driver *driver = gpu->driver;
    void *event = NULL;
    ST_TRY(take_event(gpu, &event, err));
    void **at = st_vec_push(gpu->mem, &call->marks);
    if (at == NULL) {
        driver->event_destroy(driver->self, event);
        return st_fail_oom(err);
    }
    *at = event;
    return driver->event_record(driver->self, event, call->stream->driver_stream, err);
}

/* Each time is the sum of those between neighbours: a long time of the driver is less exact. */
stator_status gpu_read_marks(void *self, void *call_, uint64_t *out_ns, uint32_t n,
                             stator_diag **err)
{
    st_gpu *gpu = self;
    const gpu_call *call = call_;
    const st_gpu_driver *driver = gpu->driver;
    ST_FAIL_IF(n != call->marks.count, err, STATOR_INTERNAL, "a call has %u marks, not %u",
               call->marks.count, n);
    ST_TRY(gpu_stream_wait(gpu, call->stream, err));
    for (uint32_t i = 0; i < n; i++) {
        double milliseconds = 0;
        if (i) {
            ST_TRY(driver->event_elapsed(driver->self, call->marks.data[i - 1u],
                                         call->marks.data[i], &milliseconds, err));
        }
        out_ns[i] = (i ? out_ns[i - 1u] : 0) + (uint64_t)(fmax(milliseconds, 0) * 1e6);
    }
    return STATOR_OK;
}

void gpu_give_marks(st_gpu *gpu, gpu_call *call)
{
    for (uint32_t i = 0; i < call->marks.count; i++) {
        void **at = st_vec_push(gpu->mem, &gpu->unused_events);
        if (at) {
            *at = call->marks.data[i];
        } else {
            gpu->driver->event_destroy(gpu->driver->self, call->marks.data[i]);
        }
    }
    call->marks.count = 0;
}

void gpu_marks_destroy(st_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->unused_events.count; i++) {
        gpu->driver->event_destroy(gpu->driver->self, gpu->unused_events.data[i]);
    }
    st_vec_free(gpu->mem, &gpu->unused_events);
}
