/* Copies between the host and the device.
 *
 * A caller's memory must have been read when an upload returns, which the driver promises of pinned
 * memory alone: few bytes go through a pinned block, for many the stream is waited for. */
#include "codegen/gpu/gpu_runtime.h"

#include <stator/plugin.h>
#include <string.h>

#define STAGED_BYTES_MAX (UINT64_C(64) << 10)
#define PINNED_BYTES_MAX (UINT64_C(16) << 20) /* held for copies before a wait makes room */

/* A pinned block for the host to use at once. */
static stator_status take_pinned(st_gpu *gpu, gpu_stream *stream, uint64_t bytes,
                                 st_gpu_address *out, stator_diag **err)
{
    pthread_mutex_lock(&gpu->lock);
    const bool is_full = gpu->pinned.held > PINNED_BYTES_MAX && gpu_is_busy(stream);
    if (is_full) {
        gpu_wait_for_all(gpu);
    }
    pthread_mutex_unlock(&gpu->lock);
    return gpu_take(gpu, &gpu->pinned, NULL, bytes, out, err);
}

stator_status gpu_upload(st_gpu *gpu, gpu_stream *stream, st_gpu_address dst, const void *src,
                         uint64_t bytes, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    st_gpu_address staged = 0;
    if (bytes == 0) {
        return STATOR_OK;
    }
    if (bytes > STAGED_BYTES_MAX) {
        ST_TRY(driver->copy_to_device(driver->self, dst, src, bytes, stream->driver_stream, err));
        return gpu_stream_drain(gpu, stream, err);
    }
    ST_TRY(take_pinned(gpu, stream, bytes, &staged, err));
    memcpy(gpu_pointer(staged), src, (size_t)bytes);
    const stator_status status = driver->copy_to_device(driver->self, dst, gpu_pointer(staged),
                                                        bytes, stream->driver_stream, err);
    gpu_note_queued(gpu, stream);
    gpu_give(gpu, &gpu->pinned, stream, staged);
    return status;
}

stator_status gpu_read_back(st_gpu *gpu, gpu_stream *stream, void *dst, st_gpu_address src,
                            uint64_t bytes, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    st_gpu_address staged = 0;
    ST_TRY(take_pinned(gpu, stream, bytes, &staged, err));
    stator_status status = driver->copy_to_host(driver->self, gpu_pointer(staged), src, bytes,
                                                stream->driver_stream, err);
    ST_THEN(status, gpu_stream_wait(gpu, stream, err));
    if (status == STATOR_OK) {
        memcpy(dst, gpu_pointer(staged), (size_t)bytes);
    }
    gpu_give(gpu, &gpu->pinned, stream, staged);
    return status;
}

/* ---- slots ---- */

static stator_status copy_by(st_gpu *gpu, gpu_stream *stream, void *dst, const void *src,
                             uint64_t bytes, uint32_t direction, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    switch (direction) {
    case STATOR_COPY_TO_DEVICE:
        return gpu_upload(gpu, stream, gpu_address(dst), src, bytes, err);
    case STATOR_COPY_TO_HOST:
        return driver->copy_to_host(driver->self, dst, gpu_address(src), bytes,
                                    stream->driver_stream, err);
    case STATOR_COPY_ON_DEVICE:
        return driver->copy_on_device(driver->self, gpu_address(dst), gpu_address(src), bytes,
                                      stream->driver_stream, err);
    default:
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "a copy in direction %u; expected 1 (to the device), 2 (to the host) or 3 "
                       "(on the device)",
                       direction);
    }
}

stator_status st_gpu_copy(st_gpu *gpu, void *dst, const void *src, uint64_t bytes,
                          uint32_t direction, void *handle, stator_diag **err)
{
    gpu_stream *stream = NULL;
    if (bytes == 0) {
        return STATOR_OK;
    }
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    const stator_status status = copy_by(gpu, stream, dst, src, bytes, direction, err);
    gpu_note_queued(gpu, stream);
    return status;
}

stator_status st_gpu_fill(st_gpu *gpu, void *dst, uint8_t value, uint64_t bytes, void *handle,
                          stator_diag **err)
{
    gpu_stream *stream = NULL;
    if (bytes == 0) {
        return STATOR_OK;
    }
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    const stator_status status = gpu->driver->fill(gpu->driver->self, gpu_address(dst), value,
                                                   bytes, stream->driver_stream, err);
    gpu_note_queued(gpu, stream);
    return status;
}
