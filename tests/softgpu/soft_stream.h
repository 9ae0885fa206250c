/* Streams: queues of work that run when somebody waits. */
#ifndef STATOR_TESTS_SOFT_STREAM_H
#define STATOR_TESTS_SOFT_STREAM_H

#include "soft_block.h"
#include "soft_device.h"

/* The recording of an event at one place of a stream. */
typedef struct soft_record {
    unsigned references;
    bool is_done;
    uint64_t time_ns;
} soft_record;

enum soft_op_kind {
    SOFT_OP_KERNEL,
    SOFT_OP_COPY,
    SOFT_OP_FILL,
    SOFT_OP_CALL, /* of a function of the host */
    SOFT_OP_RECORD,
    SOFT_OP_WAIT
};

/* One piece of work; freed by the stream. */
typedef struct soft_op {
    struct soft_op *next;
    uint64_t number; /* in the order of the calls */
    enum soft_op_kind kind;
    union {
        soft_launch launch; /* its arguments lie behind the soft_op */
        struct {
            unsigned char *dst;
            const unsigned char *src;
            size_t dst_pitch, src_pitch, width, height;
        } copy;
        struct {
            unsigned char *dst;
            uint32_t value;
            uint32_t bytes; /* of the value: 1 or 4 */
            size_t n;
        } fill;
        struct {
            CUhostFn function;
            CUhostFn release; /* called with the argument when the work ends, run or not; or NULL */
            void *argument;
        } call;
        soft_record *record;
    } of;
} soft_op;

typedef struct soft_stream {
    soft_object head;
    unsigned flags;
    soft_op *first, *last;
} soft_stream;

typedef struct soft_event {
    soft_object head;
    unsigned flags;
    soft_record *record; /* the last one; NULL before the first */
} soft_event;

void soft_record_release(soft_record *record);

/* The stream behind a handle, the legacy one for 0; NULL when there is none. */
soft_stream *soft_stream_of(soft_device *device, CUstream handle);
/* A zeroed piece of work with room for so many bytes of arguments; NULL without memory. */
soft_op *soft_op_create(enum soft_op_kind kind, size_t argument_bytes);
/* Puts it at the end of the stream, which owns it from now on. */
void soft_stream_push(soft_stream *stream, soft_op *op);
/* Runs one piece of work of any stream; false when there is none. */
bool soft_run_one(void);
/* Runs work, of this and maybe of other streams, until the stream is empty. The device's error. */
CUresult soft_stream_wait(soft_stream *stream);
/* The same for all streams of a device. */
CUresult soft_device_wait(soft_device *device);
soft_stream *soft_stream_create(soft_device *device, unsigned flags); /* NULL: no memory */
void soft_stream_destroy(soft_stream *stream);
/* Makes the stream 0 of a context that begins; false when the host has no memory. */
bool soft_streams_begin(soft_device *device);
/* Ends all streams of a context that is going. */
void soft_streams_destroy(soft_device *device);
/* Ends all events of a context that is going. */
void soft_events_destroy(soft_device *device);

#endif
