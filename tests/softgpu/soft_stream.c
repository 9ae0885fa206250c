/* Streams run nothing until somebody waits; then work is taken from a stream at random among those
 * whose next piece may run, until what is waited for is done. So an event or a wait that is missing
 * shows as a wrong number, and a query that polls makes one step each time.
 *
 * The stream 0 runs in the order of the calls with all streams but those created with
 * CU_STREAM_NON_BLOCKING. */
#define _GNU_SOURCE
#include "soft_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "soft_context.h"
#include "soft_memory.h"

static uint64_t n_ops;

/* ---- queues ---- */

void soft_record_release(soft_record *record)
{
    if (record != NULL && --record->references == 0) {
        free(record);
    }
}

static void op_destroy(soft_op *op)
{
    if (op->kind == SOFT_OP_RECORD || op->kind == SOFT_OP_WAIT) {
        soft_record_release(op->of.record);
    }
    if (op->kind == SOFT_OP_CALL && op->of.call.release != NULL) {
        op->of.call.release(op->of.call.argument);
    }
    free(op);
}

soft_op *soft_op_create(enum soft_op_kind kind, size_t argument_bytes)
{
    soft_op *op = calloc(1, sizeof(soft_op) + argument_bytes);
    if (op != NULL) {
        op->kind = kind;
    }
    return op;
}

void soft_stream_push(soft_stream *stream, soft_op *op)
{
    op->number = ++n_ops;
    if (stream->last != NULL) {
        stream->last->next = op;
    } else {
        stream->first = op;
    }
    stream->last = op;
}

static void pop(soft_stream *stream)
{
    soft_op *op = stream->first;
    stream->first = op->next;
    stream->last = stream->first == NULL ? NULL : stream->last;
    op_destroy(op);
}

soft_stream *soft_stream_of(soft_device *device, CUstream handle)
{
    if (handle == NULL || handle == SOFT_STREAM_LEGACY || handle == SOFT_STREAM_PER_THREAD) {
        return device->legacy;
    }
    const bool is_own = soft_is_object(handle, SOFT_STREAM) && handle->head.device == device;
    return is_own ? handle : NULL;
}

/* ---- running ---- */

static void copy_rows(void *argument)
{
    const soft_op *op = argument;
    for (size_t row = 0; row < op->of.copy.height; row++) {
        memmove(op->of.copy.dst + row * op->of.copy.dst_pitch,
                op->of.copy.src + row * op->of.copy.src_pitch, op->of.copy.width);
    }
}

static void fill_values(void *argument)
{
    const soft_op *op = argument;
    if (op->of.fill.bytes == 1) {
        memset(op->of.fill.dst, (int)op->of.fill.value, op->of.fill.n);
        return;
    }
    for (size_t i = 0; i < op->of.fill.n; i++) {
        memcpy(op->of.fill.dst + 4 * i, &op->of.fill.value, 4);
    }
}

static void call_host(void *argument)
{
    const soft_op *op = argument;
    op->of.call.function(op->of.call.argument);
}

static void run_on_host(soft_device *device, soft_op *op)
{
    static void (*const work[])(void *) = {
        [SOFT_OP_COPY] = copy_rows, [SOFT_OP_FILL] = fill_values, [SOFT_OP_CALL] = call_host};
    soft_worker *worker = soft_worker_get(0);
    if (worker == NULL) {
        soft_fail_device(device, CUDA_ERROR_LAUNCH_FAILED, "the host has no memory for a worker");
        return;
    }
    soft_trap_enter(worker);
    const bool is_done = soft_guarded_call(worker, work[op->kind], op);
    soft_trap_leave();
    if (!is_done) {
        char text[SOFT_TEXT_BYTES];
        snprintf(text, sizeof(text),
                 "a %s %s host memory at 0x%llx, which is not there any more: it must stay "
                 "until the stream has been waited for",
                 op->kind == SOFT_OP_CALL ? "function of the host" : "copy",
                 worker->trap.is_write ? "writes" : "reads",
                 (unsigned long long)worker->trap.address);
        soft_fail_device(device, CUDA_ERROR_ILLEGAL_ADDRESS, text);
    }
}

static void run_kernel(soft_device *device, const soft_launch *launch)
{
    soft_error error;
    if (soft_is_to_fail(SOFT_FAIL_LOST)) {
        soft_fail_device(device, CUDA_ERROR_LAUNCH_FAILED,
                         "the device is lost (STATOR_SOFT_FAIL=lost)");
        return;
    }
    soft_run_grid(launch, soft.options.n_workers, &error);
    if (error.code != CUDA_SUCCESS) {
        soft_fail_device(device, error.code, error.text);
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run_op(soft_device *device, soft_op *op)
{
    switch (op->kind) {
    case SOFT_OP_KERNEL:
        run_kernel(device, &op->of.launch);
        break;
    case SOFT_OP_COPY:
    case SOFT_OP_FILL:
    case SOFT_OP_CALL:
        run_on_host(device, op);
        break;
    case SOFT_OP_RECORD:
        op->of.record->is_done = true;
        op->of.record->time_ns = now_ns();
        break;
    case SOFT_OP_WAIT:
        break;
    }
}

/* Whether the streams that `op` is ordered with have nothing of before it. */
static bool is_in_order(const soft_stream *stream, const soft_op *op)
{
    const soft_stream *legacy = stream->head.device->legacy;
    if (stream != legacy) {
        return (stream->flags & CU_STREAM_NON_BLOCKING) != 0 || legacy->first == NULL ||
               legacy->first->number > op->number;
    }
    for (const soft_object *o = stream->head.device->streams; o != NULL; o = o->next) {
        const soft_stream *other = (const soft_stream *)o;
        if ((other->flags & CU_STREAM_NON_BLOCKING) == 0 && other->first != NULL &&
            other->first->number < op->number) {
            return false;
        }
    }
    return true;
}

static bool can_run(const soft_stream *stream)
{
    const soft_op *op = stream->first;
    return op != NULL && is_in_order(stream, op) &&
           (op->kind != SOFT_OP_WAIT || op->of.record->is_done);
}

/* A stream whose next piece can run: any, at random, or the first one found. NULL: none. */
static soft_stream *choose(void)
{
    soft_stream *chosen = NULL;
    uint64_t n = 0;
    for (unsigned i = 0; i < soft.options.n_devices; i++) {
        for (soft_object *o = soft.devices[i].streams; o != NULL; o = o->next) {
            soft_stream *stream = (soft_stream *)o;
            if (can_run(stream) && (chosen == NULL || (soft.options.order == SOFT_RANDOM &&
                                                       soft_random(&soft.random, ++n + 1) == 0))) {
                chosen = stream;
            }
        }
    }
    return chosen;
}

static void drop_all(soft_stream *stream)
{
    while (stream->first != NULL) {
        if (stream->first->kind == SOFT_OP_RECORD) {
            stream->first->of.record->is_done = true; /* nobody is to wait for it */
        }
        pop(stream);
    }
}

bool soft_run_one(void)
{
    soft_stream *stream = choose();
    if (stream == NULL) {
        return false;
    }
    soft_device *device = stream->head.device;
    run_op(device, stream->first);
    pop(stream);
    for (soft_object *o = device->streams; o != NULL && device->fault != CUDA_SUCCESS;
         o = o->next) {
        drop_all((soft_stream *)o);
    }
    return true;
}

CUresult soft_stream_wait(soft_stream *stream)
{
    while (stream->first != NULL && soft_run_one()) {
    }
    return stream->head.device->fault;
}

CUresult soft_device_wait(soft_device *device)
{
    for (soft_object *o = device->streams; o != NULL; o = o->next) {
        soft_stream_wait((soft_stream *)o);
    }
    return device->fault;
}

void soft_stream_destroy(soft_stream *stream)
{
    soft_object **at = &stream->head.device->streams;
    while (*at != &stream->head) {
        at = &(*at)->next;
    }
    *at = stream->head.next;
    drop_all(stream);
    soft_object_destroy(&stream->head);
}

void soft_streams_destroy(soft_device *device)
{
    while (device->streams != NULL) {
        soft_stream_destroy((soft_stream *)device->streams);
    }
    device->legacy = NULL;
}

soft_stream *soft_stream_create(soft_device *device, unsigned flags)
{
    soft_stream *stream = soft_object_create(device, SOFT_STREAM, sizeof(soft_stream));
    if (stream != NULL) {
        stream->flags = flags;
        stream->head.next = device->streams;
        device->streams = &stream->head;
    }
    return stream;
}

bool soft_streams_begin(soft_device *device)
{
    device->legacy = soft_stream_create(device, 0);
    return device->legacy != NULL;
}
