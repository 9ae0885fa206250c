/* The driver API of streams and events. */
#include <stdlib.h>

#include "soft_stream.h"

SOFT_EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags);
SOFT_EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority);
SOFT_EXPORT CUresult cuStreamDestroy_v2(CUstream handle);
SOFT_EXPORT CUresult cuStreamSynchronize(CUstream handle);
SOFT_EXPORT CUresult cuStreamQuery(CUstream handle);
SOFT_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags);
SOFT_EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags);
SOFT_EXPORT CUresult cuEventDestroy_v2(CUevent event);
SOFT_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle);
SOFT_EXPORT CUresult cuEventQuery(CUevent event);
SOFT_EXPORT CUresult cuEventSynchronize(CUevent event);
SOFT_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
SOFT_EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end);
SOFT_EXPORT CUresult cuCtxSynchronize(void);
SOFT_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument);
SOFT_EXPORT CUresult softLaunchHost(CUstream handle, CUhostFn function, CUhostFn release,
                                    void *argument);

/* Enters with the stream behind a handle. */
static CUresult enter_stream(CUstream handle, soft_stream **out)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *out = soft_stream_of(device, handle);
    if (*out == NULL) {
        return soft_leave(soft_refuse(CUDA_ERROR_INVALID_HANDLE,
                                      "a stream is destroyed, of another device or none at all"));
    }
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *out = soft_stream_create(device, flags);
    return soft_leave(*out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(out, flags);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(handle, SOFT_STREAM) || handle == handle->head.device->legacy) {
        soft_count_misuse();
        return soft_leave(
            soft_refuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamDestroy: this is no stream any more"));
    }
    result = soft_stream_wait(handle);
    soft_stream_destroy(handle);
    return soft_leave(result);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    soft_stream *stream = NULL;
    const CUresult result = enter_stream(handle, &stream);
    return result != CUDA_SUCCESS ? result : soft_leave(soft_stream_wait(stream));
}

/* The function may not call the driver: the lock is held while it runs. */
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
    return softLaunchHost(handle, function, NULL, argument);
}

/* For the libraries of this device: release(argument) is called once when the work ends, and if it
 * never runs since the device is lost or the stream goes. Not when the call fails. */
CUresult softLaunchHost(CUstream handle, CUhostFn function, CUhostFn release, void *argument)
{
    soft_stream *stream = NULL;
    const CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    soft_op *op = function != NULL ? soft_op_create(SOFT_OP_CALL, 0) : NULL;
    if (op == NULL) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    op->of.call.function = function;
    op->of.call.release = release;
    op->of.call.argument = argument;
    soft_stream_push(stream, op);
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    return result != CUDA_SUCCESS ? result : soft_leave(soft_device_wait(device));
}

CUresult cuStreamQuery(CUstream handle)
{
    soft_stream *stream = NULL;
    const CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const bool is_empty = stream->first == NULL;
    if (!is_empty) {
        soft_run_one();
    }
    const CUresult fault = stream->head.device->fault;
    return soft_leave(fault != CUDA_SUCCESS ? fault
                      : is_empty            ? CUDA_SUCCESS
                                            : CUDA_ERROR_NOT_READY);
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || flags > 7) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *out = soft_object_create(device, SOFT_EVENT, sizeof(soft_event));
    if (*out == NULL) {
        return soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    (*out)->flags = flags;
    (*out)->head.next = device->events;
    device->events = &(*out)->head;
    return soft_leave(CUDA_SUCCESS);
}

static void destroy_event(soft_event *event)
{
    soft_object **at = &event->head.device->events;
    while (*at != &event->head) {
        at = &(*at)->next;
    }
    *at = event->head.next;
    soft_record_release(event->record);
    event->record = NULL;
    soft_object_destroy(&event->head);
}

void soft_events_destroy(soft_device *device)
{
    while (device->events != NULL) {
        destroy_event((soft_event *)device->events);
    }
}

CUresult cuEventDestroy_v2(CUevent event)
{
    const CUresult result = soft_enter();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(event, SOFT_EVENT)) {
        soft_count_misuse();
        return soft_leave(
            soft_refuse(CUDA_ERROR_INVALID_HANDLE, "cuEventDestroy: this is no event any more"));
    }
    destroy_event(event);
    return soft_leave(CUDA_SUCCESS);
}

/* Queues a piece of work that holds the event's record. */
static CUresult push_record(soft_stream *stream, enum soft_op_kind kind, soft_record *record)
{
    soft_op *op = soft_op_create(kind, 0);
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    record->references++;
    op->of.record = record;
    soft_stream_push(stream, op);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    soft_stream *stream = NULL;
    const CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(event, SOFT_EVENT) || event->head.device != stream->head.device) {
        return soft_leave(soft_refuse(
            CUDA_ERROR_INVALID_HANDLE,
            "cuEventRecord: the event is destroyed, or of another device than the stream"));
    }
    soft_record *record = calloc(1, sizeof(soft_record));
    if (record == NULL) {
        return soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    record->references = 1;
    soft_record_release(event->record);
    event->record = record;
    return soft_leave(push_record(stream, SOFT_OP_RECORD, record));
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    soft_stream *stream = NULL;
    const CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(event, SOFT_EVENT) || flags > 1) {
        return soft_leave(
            soft_refuse(CUDA_ERROR_INVALID_HANDLE, "cuStreamWaitEvent: the event is destroyed"));
    }
    if (event->record == NULL) { /* an event that was never recorded has happened */
        return soft_leave(CUDA_SUCCESS);
    }
    return soft_leave(push_record(stream, SOFT_OP_WAIT, event->record));
}

static CUresult enter_event(CUevent event)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result == CUDA_SUCCESS && !soft_is_object(event, SOFT_EVENT)) {
        return soft_leave(soft_refuse(CUDA_ERROR_INVALID_HANDLE, "an event is destroyed"));
    }
    return result;
}

static bool has_happened(const soft_event *event)
{
    return event->record == NULL || event->record->is_done;
}

CUresult cuEventQuery(CUevent event)
{
    const CUresult result = enter_event(event);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const bool is_done = has_happened(event);
    if (!is_done) {
        soft_run_one();
    }
    const CUresult fault = event->head.device->fault;
    return soft_leave(fault != CUDA_SUCCESS ? fault
                      : is_done             ? CUDA_SUCCESS
                                            : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent event)
{
    const CUresult result = enter_event(event);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    while (!has_happened(event) && soft_run_one()) {
    }
    return soft_leave(event->head.device->fault);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    const CUresult result = enter_event(begin);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!soft_is_object(end, SOFT_EVENT) || begin->record == NULL || end->record == NULL ||
        ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
        return soft_leave(
            soft_refuse(CUDA_ERROR_INVALID_HANDLE,
                        "cuEventElapsedTime: an event was not recorded, or keeps no time"));
    }
    if (!has_happened(begin) || !has_happened(end)) {
        return soft_leave(CUDA_ERROR_NOT_READY);
    }
    *milliseconds = (float)((double)(int64_t)(end->record->time_ns - begin->record->time_ns) / 1e6);
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end)
{
    return cuEventElapsedTime(milliseconds, begin, end);
}
