/* Streams and events, and what a wait ends: memory that others may use from then on, and words of
 * checks.
 *
 * A stream counts epochs: each wait begins one, and when it is over everything queued in the epochs
 * before is done. */
#include "codegen/gpu/gpu_runtime.h"

/* ---- streams ---- */

static gpu_stream *find(const st_gpu *gpu, const void *handle)
{
    for (uint32_t i = 0; i < gpu->streams.count; i++) {
        if (gpu->streams.data[i]->is_open && gpu->streams.data[i]->handle == handle) {
            return gpu->streams.data[i];
        }
    }
    return NULL;
}

/* One that has been destroyed serves again: its epochs go on. */
static gpu_stream *add(st_gpu *gpu, void *handle, void *driver_stream)
{
    gpu_stream *stream = NULL;
    for (uint32_t i = 0; i < gpu->streams.count && stream == NULL; i++) {
        stream = gpu->streams.data[i]->is_open ? NULL : gpu->streams.data[i];
    }
    if (stream == NULL) {
        stream = st_calloc(gpu->mem, 1, sizeof *stream);
        gpu_stream **at = stream ? st_vec_push(gpu->mem, &gpu->streams) : NULL;
        if (at == NULL) {
            st_free(gpu->mem, stream);
            return NULL;
        }
        *at = stream;
        stream->epoch = stream->waited = 1;
    }
    stream->handle = handle;
    stream->driver_stream = driver_stream;
    stream->is_open = true;
    return stream;
}

gpu_stream *gpu_stream_of(st_gpu *gpu, void *handle)
{
    gpu_stream *stream = find(gpu, handle);
    return stream || handle == NULL ? stream : add(gpu, handle, st_gpu_stream(gpu->driver, handle));
}

stator_status gpu_queue_on(st_gpu *gpu, void *handle, gpu_stream **out, stator_diag **err)
{
    pthread_mutex_lock(&gpu->lock);
    gpu_stream *stream = gpu_stream_of(gpu, handle);
    if (stream) {
        stream->queued = stream->epoch;
    }
    pthread_mutex_unlock(&gpu->lock);
    *out = stream;
    return stream ? STATOR_OK : st_fail_oom(err);
}

void gpu_note_queued(st_gpu *gpu, gpu_stream *stream)
{
    pthread_mutex_lock(&gpu->lock);
    stream->queued = stream->epoch;
    pthread_mutex_unlock(&gpu->lock);
}

/* Of the driver's function; out of memory: the stream goes again. */
static stator_status create(st_gpu *gpu, bool is_own, void **out, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    *out = NULL;
    void *made = NULL;
    ST_TRY(driver->stream_create(driver->self, &made, err));
    pthread_mutex_lock(&gpu->lock);
    const gpu_stream *stream = add(gpu, is_own ? NULL : made, made);
    pthread_mutex_unlock(&gpu->lock);
    if (stream == NULL) {
        driver->stream_destroy(driver->self, made);
        return st_fail_oom(err);
    }
    *out = made;
    return STATOR_OK;
}

stator_status st_gpu_stream_create(st_gpu *gpu, void **out, stator_diag **err)
{
    return create(gpu, false, out, err);
}

stator_status gpu_streams_create(st_gpu *gpu, stator_diag **err)
{
    void *own = NULL;
    return create(gpu, true, &own, err);
}

/* ---- waits ---- */

/* *out_epoch: everything queued in the epochs before is done. */
static stator_status drain(st_gpu *gpu, gpu_stream *stream, uint64_t *out_epoch, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    pthread_mutex_lock(&gpu->lock);
    const uint64_t epoch = ++stream->epoch;
    pthread_mutex_unlock(&gpu->lock);
    ST_TRY(driver->stream_wait(driver->self, stream->driver_stream, err));
    pthread_mutex_lock(&gpu->lock);
    stream->waited = stream->waited < epoch ? epoch : stream->waited;
    pthread_mutex_unlock(&gpu->lock);
    *out_epoch = epoch;
    return STATOR_OK;
}

stator_status gpu_stream_drain(st_gpu *gpu, gpu_stream *stream, stator_diag **err)
{
    uint64_t epoch = 0;
    return drain(gpu, stream, &epoch, err);
}

stator_status gpu_stream_wait(st_gpu *gpu, gpu_stream *stream, stator_diag **err)
{
    uint64_t epoch = 0;
    atomic_fetch_add(&gpu->waits, 1);
    ST_TRY(drain(gpu, stream, &epoch, err));
    pthread_mutex_lock(&gpu->lock);
    gpu_words_take_back(gpu, stream, epoch, false);
    pthread_mutex_unlock(&gpu->lock);
    return STATOR_OK;
}

void gpu_wait_for_all(st_gpu *gpu)
{
    const st_gpu_driver *driver = gpu->driver;
    for (uint32_t i = 0; i < gpu->streams.count; i++) {
        gpu_stream *stream = gpu->streams.data[i];
        stator_diag *err = NULL;
        if (!stream->is_open || !gpu_is_busy(stream)) {
            continue;
        }
        const uint64_t epoch = ++stream->epoch;
        if (driver->stream_wait(driver->self, stream->driver_stream, &err) == STATOR_OK) {
            stream->waited = epoch;
        }
        st_diag_release(err);
    }
}

/* A stream that is being waited for is not destroyed (n_waits). */
void gpu_wait_for_queued(st_gpu *gpu)
{
    const st_gpu_driver *driver = gpu->driver;
    pthread_mutex_lock(&gpu->lock);
    for (uint32_t i = 0; i < gpu->streams.count; i++) {
        gpu_stream *stream = gpu->streams.data[i];
        stator_diag *err = NULL;
        if (!stream->is_open || !gpu_is_busy(stream)) {
            continue;
        }
        const uint64_t epoch = ++stream->epoch;
        stream->n_waits++;
        pthread_mutex_unlock(&gpu->lock);
        const stator_status status = driver->stream_wait(driver->self, stream->driver_stream, &err);
        st_diag_release(err);
        pthread_mutex_lock(&gpu->lock);
        if (status == STATOR_OK && stream->waited < epoch) {
            stream->waited = epoch;
        }
        stream->n_waits--;
        pthread_cond_broadcast(&gpu->wait_ended);
    }
    pthread_mutex_unlock(&gpu->lock);
}

stator_status st_gpu_wait(st_gpu *gpu, void *handle, stator_diag **err)
{
    pthread_mutex_lock(&gpu->lock);
    gpu_stream *stream = gpu_stream_of(gpu, handle);
    pthread_mutex_unlock(&gpu->lock);
    ST_TRY_MEM(stream, err);
    return gpu_stream_wait(gpu, stream, err);
}

stator_status st_gpu_late_failure(st_gpu *gpu, void *handle, uint64_t *out_first,
                                  uint64_t *out_last, stator_diag **err)
{
    *out_first = *out_last = 0;
    ST_TRY(gpu->driver->check(gpu->driver->self, err)); /* pinned memory ends with the driver */
    pthread_mutex_lock(&gpu->lock);
    gpu_stream *stream = find(gpu, handle);
    const stator_status status =
        stream ? gpu_words_tell(gpu, stream, out_first, out_last, err) : STATOR_OK;
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* What its work has used is nobody's from then on; checks that failed are told to nobody. */
void st_gpu_stream_destroy(st_gpu *gpu, void *handle)
{
    stator_diag *err = NULL;
    pthread_mutex_lock(&gpu->lock);
    gpu_stream *stream = handle ? find(gpu, handle) : NULL;
    pthread_mutex_unlock(&gpu->lock);
    if (stream == NULL) {
        return;
    }
    const bool is_over = gpu_stream_wait(gpu, stream, &err) == STATOR_OK;
    st_diag_release(err);
    pthread_mutex_lock(&gpu->lock);
    while (stream->n_waits) {
        pthread_cond_wait(&gpu->wait_ended, &gpu->lock);
    }
    stream->waited = ++stream->epoch;
    if (is_over) { /* else there are no words any more */
        gpu_words_take_back(gpu, stream, stream->waited, true);
    }
    stream->is_open = false;
    pthread_mutex_unlock(&gpu->lock);
    gpu->driver->stream_destroy(gpu->driver->self, handle);
}

/* A caller's own streams are left to it. */
void gpu_streams_destroy(st_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->streams.count; i++) {
        if (i == 0) {
            gpu->driver->stream_destroy(gpu->driver->self, gpu->streams.data[i]->driver_stream);
        }
        st_free(gpu->mem, gpu->streams.data[i]);
    }
    st_vec_free(gpu->mem, &gpu->streams);
}

/* ---- events ---- */

stator_status st_gpu_event_create(st_gpu *gpu, void **out, stator_diag **err)
{
    *out = NULL;
    return gpu->driver->event_create(gpu->driver->self, 0, out, err);
}

void st_gpu_event_destroy(st_gpu *gpu, void *event)
{
    gpu->driver->event_destroy(gpu->driver->self, event);
}

stator_status st_gpu_event_record(st_gpu *gpu, void *event, void *handle, stator_diag **err)
{
    gpu_stream *stream = NULL;
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    return gpu->driver->event_record(gpu->driver->self, event, stream->driver_stream, err);
}

stator_status st_gpu_event_wait(st_gpu *gpu, void *event, void *handle, stator_diag **err)
{
    gpu_stream *stream = NULL;
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    return gpu->driver->stream_wait_event(gpu->driver->self, stream->driver_stream, event, err);
}
