/* Memory domains: memory of a device that the host does not read, and the streams that order work
 * on it. The host's own memory is the domain NULL.
 *
 * A domain belongs to a context and lives as long. Its memory comes from a backend's slots and is
 * recycled here: a warmed call takes nothing from the backend.
 *
 * Order. What is queued on a stream happens in that order, and nothing orders two streams but
 * st_stream_follow. A block that is free belongs to the stream that was given with it; a take for
 * another stream lets that one follow first. So memory may be given back while work that uses it is
 * still queued. Threads: any, at once, on one domain and on one stream. */
#ifndef STATOR_RUNTIME_DOMAIN_H
#define STATOR_RUNTIME_DOMAIN_H

#include "core/base/alloc.h"
#include "core/base/diag.h"
#include "core/base/size_class.h"
#include "core/runtime/pool.h"

#include <pthread.h>
#include <stator/plugin.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The slots of a backend, for one instance of it; see stator/plugin.h. */
typedef struct st_device_ops {
    stator_status (*alloc)(void *self, uint64_t size, void *stream, void **out, stator_diag **err);
    void (*free)(void *self, void *p, void *stream);
    stator_status (*copy)(void *self, void *dst, const void *src, uint64_t size, uint32_t direction,
                          void *stream, stator_diag **err);
    stator_status (*fill)(void *self, void *dst, uint8_t value, uint64_t size, void *stream,
                          stator_diag **err);
    stator_status (*stream_create)(void *self, void **out, stator_diag **err);
    void (*stream_destroy)(void *self, void *stream);
    stator_status (*synchronize)(void *self, void *stream, stator_diag **err);
    stator_status (*event_create)(void *self, void **out, stator_diag **err);
    void (*event_destroy)(void *self, void *event);
    stator_status (*event_record)(void *self, void *event, void *stream, stator_diag **err);
    stator_status (*event_wait)(void *self, void *event, void *stream, stator_diag **err);
    stator_status (*late_failure)(void *self, void *stream, uint64_t *out_first, uint64_t *out_last,
                                  stator_diag **err);
    stator_status (*check_address)(void *self, const void *p, stator_diag **err);
    stator_status (*check_stream)(void *self, void *stream, stator_diag **err);
    stator_status (*check_range)(void *self, const void *p, uint64_t below, uint64_t above,
                                 stator_diag **err);
    stator_status (*copy_strided)(void *self, void *dst, const void *src,
                                  const stator_strided_copy *layout, void *stream,
                                  stator_diag **err);
    /* Makes it the context's error, for functions that are not given the context. */
    stator_status (*tell)(void *self, stator_status status, stator_diag *diag);
} st_device_ops;

typedef struct st_domain st_domain;

#define ST_LATE_KEPT 16u /* failures of a stream; the oldest are joined when there are more */

/* One that showed late; see late_calls.h. */
typedef struct st_late_failure {
    uint64_t first, last;       /* numbers of calls of which one has failed */
    uint64_t after_at, last_at; /* or what was queued behind the one, up to the other */
    stator_status status;
    stator_diag *why;
    bool is_told; /* to somebody */
} st_late_failure;

/* A stream of a domain; lives as long as the domain. One of the application's is the backend's
 * handle of it alone: while nothing is queued on it the handle is not touched, since its owner may
 * have ended the stream. */
typedef struct st_stream {
    struct st_stream *next; /* in the domain's list of free ones */
    struct st_stream *all;
    st_domain *domain;
    void *handle;
    uint32_t is_callers;        /* the application made it */
    _Atomic uint64_t queued;    /* grows with what is queued */
    _Atomic uint64_t reached;   /* `queued` at the last wait: while equal, nothing is queued */
    _Atomic uint64_t examined;  /* the same, and failures of calls until then are kept here */
    _Atomic uint64_t late_at;   /* `queued` behind the last call that may fail late */
    _Atomic uint64_t last_late; /* and its number */
    void *event;                /* recorded when another stream is to follow */
    pthread_mutex_t lock;       /* of the event, and of the failures */
    pthread_mutex_t waits;      /* held in waits of a backend that tells failures by them alone */
    _Atomic uint32_t n_failures;
    st_late_failure failures[ST_LATE_KEPT]; /* from the oldest on */
} st_stream;

/* Calls of a stream. */
typedef struct st_late_range {
    st_stream *stream; /* NULL: of any stream of the domain */
    uint64_t first, last;
    uint64_t before;            /* the one on the stream before the first; 0: none */
    uint64_t first_at, last_at; /* st_stream.queued behind the first and the last of them */
} st_late_range;

struct st_domain {
    struct st_domain *next; /* of the context's domains */
    st_mem *mem;
    st_pool *host_pool; /* for bytes on their way between two devices */
    const st_device_ops *ops;
    void *self; /* first argument of the ops */
    DLDevice device;
    uint64_t alignment;
    char name[64]; /* "cuda:0", for messages */
    pthread_mutex_t lock;
    st_stream *free_streams;
    st_stream *all_streams;
    struct st_device_block *free_blocks[ST_SIZE_CLASSES];
    struct st_device_block *spare; /* blocks whose memory is taken: their structs */
    uint64_t held_bytes;           /* taken from the backend */
    uint64_t used_bytes;           /* of these, not free */
    uint64_t peak_bytes;           /* the most that was held */
    uint64_t n_allocs;             /* calls of the backend's alloc */
    _Atomic uint64_t n_copies;     /* between here and elsewhere */
    _Atomic uint64_t copied_bytes;
    _Atomic uint64_t n_waits;   /* of the host for a stream */
    _Atomic uint64_t n_calls;   /* of executables: the last one's number */
    _Atomic uint32_t is_tested; /* by its backend's self test */
    /* Slots that a backend may leave out; without a check everything is believed. */
    bool checks_addresses, checks_streams, checks_ranges, copies_strided, tells_late;
};

/* name, device, alignment, ops and self of *domain are set. */
void st_domain_init(st_domain *domain, st_mem *mem, st_pool *host_pool);
/* Frees memory and streams; every block must have come back. */
void st_domain_deinit(st_domain *domain);

/* Memory for `bytes`, aligned as the domain says, which what is queued on the stream may use.
 * RESOURCE_EXHAUSTED with the sizes, once the free blocks did not help. */
stator_status st_domain_take(st_domain *domain, uint64_t bytes, st_stream *stream, void **out,
                             stator_diag **err);
/* `bytes` as it was taken; the stream is the last that uses it, NULL: none does. */
void st_domain_give(st_domain *domain, void *p, uint64_t bytes, st_stream *stream);
/* Gives free blocks back to the backend; were there some? */
bool st_domain_trim(st_domain *domain);

/* A stream of its own for the caller, back with release; what is queued on it stays queued. */
stator_status st_stream_acquire(st_domain *domain, st_stream **out, stator_diag **err);
void st_stream_release(st_stream *stream);
/* The application's stream with this handle, which stays its own. INVALID_ARGUMENT, from the
 * backend: it is none of this device. */
stator_status st_stream_of_caller(st_domain *domain, void *handle, st_stream **out,
                                  stator_diag **err);
/* Something has been queued on the stream: said behind it, before anybody is told of its results,
 * so that a wait that counts it has waited for it. */
static inline void st_stream_note(st_stream *stream)
{
    (void)atomic_fetch_add_explicit(&stream->queued, 1, memory_order_relaxed);
}
/* May something be queued on it still? */
static inline bool st_stream_is_busy(const st_stream *stream)
{
    return atomic_load(&stream->queued) != atomic_load(&stream->reached);
}
/* What `later` queues from here on happens after what is queued on `earlier` now. */
stator_status st_stream_follow(st_stream *later, st_stream *earlier, stator_diag **err);
/* Waits for all that is queued, and tells what the wait itself fails at. Which calls have failed is
 * known then (late_calls.h). */
stator_status st_stream_wait(st_stream *stream, stator_diag **err);

/* Between two places, each the host's (stream NULL) or on the device of a stream. Host memory that
 * is read has been read when this returns; host memory that is written has been when the stream has
 * been waited for. Two devices exchange bytes through the host, with a wait. */
stator_status st_domain_copy(void *dst, st_stream *dst_stream, const void *src,
                             st_stream *src_stream, uint64_t bytes, stator_diag **err);
/* Elements of one layout to another, on the device of the stream or, where it is NULL, by the host:
 * element i of axis k lies i * strides[k] bytes further. */
stator_status st_domain_copy_strided(void *dst, const void *src, const stator_strided_copy *layout,
                                     st_stream *stream, stator_diag **err);
stator_status st_domain_fill(void *dst, st_stream *stream, uint8_t value, uint64_t bytes,
                             stator_diag **err);

#endif
