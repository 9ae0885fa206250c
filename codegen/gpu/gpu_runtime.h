/* The room of the runtime of a GPU, behind gpu.h.
 *
 *   gpu_checks.c     status words: what kernels write, and the texts for it
 *   gpu_streams.c    streams, waits, events
 *   gpu_memory.c     the pools of device memory and of pinned host memory
 *   gpu_copies.c     copies between host and device
 *   gpu_constants.c  constants by their content
 *   gpu_module.c     kernels to text to images, and modules as bytes
 *   gpu_launch.c     calls and launches
 *   gpu_marks.c      times of a call's steps
 *   gpu_emitter.c    the tables of all that, and the runtime from beginning to end
 *
 * One mutex guards streams, pools, words and counts. It is held for look-ups, and while all streams
 * are waited for because the device or pinned memory runs out. */
#ifndef STATOR_CODEGEN_GPU_RUNTIME_H
#define STATOR_CODEGEN_GPU_RUNTIME_H

#include "codegen/gpu/gpu.h"

#include "core/base/map.h"
#include "core/base/size_class.h"
#include "core/base/vec.h"

#include <pthread.h>
#include <stdatomic.h>

/* The texts of an executable's checks. */
typedef struct gpu_checks {
    _Atomic uint32_t references; /* the executable's, and one for each word that may tell one */
    uint32_t n;
    st_check_text *checks;
    st_mem *mem;
} gpu_checks;

/* A status word of calls that may still be under way. Linked by stream, or unused. */
typedef struct gpu_word {
    struct gpu_word *next;
    _Atomic uint32_t *value; /* pinned; 0: every check has held so far */
    gpu_checks *checks;
    uint64_t first_call, last_call; /* numbers of the calls that share it */
    uint64_t epoch;                 /* of the stream, when the last of them was queued */
    uint32_t n_open;                /* calls that still queue */
} gpu_word;

#define GPU_WORDS_PER_PAGE 1024u

typedef struct gpu_word_page {
    struct gpu_word_page *next;
    _Atomic uint32_t *values; /* pinned */
    gpu_word words[GPU_WORDS_PER_PAGE];
} gpu_word_page;

/* A stream, and how far it has been waited for. Work that was queued in an epoch before `waited` is
 * done. */
typedef struct gpu_stream {
    void *handle; /* the caller's; NULL: the runtime's own stream */
    void *driver_stream;
    uint64_t epoch;  /* from 1 */
    uint64_t queued; /* the last epoch in which something was queued */
    uint64_t waited;
    gpu_word *words;
    uint32_t n_words;
    uint32_t n_waits; /* threads in gpu_wait_for_queued that wait for it */
    bool is_open;
} gpu_stream;

/* A block of a pool. Free blocks of a size are linked. */
typedef struct gpu_block {
    st_gpu_address address;
    uint64_t bytes;
    const gpu_stream *stream; /* whose work queued before `epoch` may use it; NULL: nobody's */
    uint64_t epoch;
    uint32_t next; /* index + 1 */
    uint32_t is_used;
} gpu_block;

#define GPU_BINS 384u /* more than any class of 2^47 bytes (core/base/size_class.h) */

typedef struct gpu_pool {
    bool is_pinned; /* host memory: what is freed is used again when it has been waited for */
    uint64_t cap;   /* most bytes held; 0: no limit */
    uint64_t held, used, peak;
    uint64_t n_allocs; /* of the driver */
    st_vec(gpu_block) blocks;
    uint32_t empty; /* first block that has no memory, index + 1 */
    uint32_t bins[GPU_BINS];
    st_map by_address; /* index + 1 */
} gpu_pool;

typedef struct gpu_constant {
    struct gpu_constant *next;
    uint8_t hash[16];
    uint64_t bytes;
    uint32_t references;
    st_gpu_address address;
} gpu_constant;

#define GPU_CONSTANT_BUCKETS 256u

/* A call, from begin to end. */
typedef struct gpu_call {
    struct gpu_call *next; /* among those nobody uses */
    gpu_stream *stream;
    gpu_word *word;         /* NULL: its kernels check nothing */
    uint64_t number;        /* stator_call.number; a step of a loop has that of its call */
    st_vec(void *) marks;   /* events of the driver, of a call that is timed */
    st_gpu_address scratch; /* of its launches, one after the other; 0: each takes its own */
    uint64_t scratch_bytes;
} gpu_call;

struct st_gpu {
    st_gpu_config config;
    st_mem *mem;
    const st_gpu_driver *driver;
    st_emitter emitter;
    st_device_memory memory;
    pthread_mutex_t lock;
    pthread_cond_t wait_ended;    /* of a stream, for those that want to destroy it */
    st_vec(gpu_stream *) streams; /* the first is the runtime's own */
    gpu_pool device;
    gpu_pool pinned;
    gpu_word_page *word_pages;
    gpu_word *unused_words;
    gpu_call *unused_calls;
    st_vec(void *) unused_events;   /* timed */
    uint32_t *ignored;              /* status of kernels whose checks have no text */
    pthread_mutex_t constants_lock; /* held while a constant is uploaded */
    gpu_constant *constants[GPU_CONSTANT_BUCKETS];
    st_library fixed;              /* gpu_fixed.h */
    pthread_mutex_t programs_lock; /* held while a program is compiled */
    struct gpu_program *programs;  /* of fixed kernels */
    _Atomic uint64_t constant_bytes, launches, waits, compiled;
};

/* ---- gpu_checks.c; all but create, release and check under the lock ---- */
stator_status gpu_checks_create(st_gpu *gpu, const st_check_text *checks, uint32_t n,
                                gpu_checks **out, stator_diag **err);
void gpu_checks_release(gpu_checks *checks);
/* A word that is 0, for call `number` on the stream. */
stator_status gpu_word_begin(st_gpu *gpu, gpu_stream *stream, gpu_checks *checks, uint64_t number,
                             gpu_word **out, stator_diag **err);
void gpu_word_end(gpu_stream *stream, gpu_word *word);
/* Everything that was queued before `epoch` is done: takes back the words of calls that have ended
 * well, where `all` is set those of all calls that have ended. */
void gpu_words_take_back(st_gpu *gpu, gpu_stream *stream, uint64_t epoch, bool all);
/* Tells the oldest check that has failed, once; OK: there is none. */
stator_status gpu_words_tell(st_gpu *gpu, gpu_stream *stream, uint64_t *out_first,
                             uint64_t *out_last, stator_diag **err);
void gpu_words_destroy(st_gpu *gpu);
/* The failure of this call, where it has shown; st_gpu_late_failure tells it too. Takes the
 * lock. */
stator_status gpu_words_check(st_gpu *gpu, const gpu_call *call, stator_diag **err);

/* ---- gpu_streams.c ---- */
/* Of a handle; the runtime learns of a caller's own stream. Under the lock. NULL: out of memory. */
gpu_stream *gpu_stream_of(st_gpu *gpu, void *handle);
/* May something that was queued on it not be done? */
static inline bool gpu_is_busy(const gpu_stream *stream)
{
    return stream->queued >= stream->waited;
}
/* For what is to be queued on it; takes the lock. */
stator_status gpu_queue_on(st_gpu *gpu, void *handle, gpu_stream **out, stator_diag **err);
/* Something has been queued on it: a wait of another thread may have come in between since it was
 * looked up. Before memory that the work uses is given back; takes the lock. */
void gpu_note_queued(st_gpu *gpu, gpu_stream *stream);
stator_status gpu_streams_create(st_gpu *gpu, stator_diag **err); /* the runtime's own */
stator_status gpu_stream_wait(st_gpu *gpu, gpu_stream *stream, stator_diag **err);
/* The same, telling nothing; it counts as no wait of a call. */
stator_status gpu_stream_drain(st_gpu *gpu, gpu_stream *stream, stator_diag **err);
/* Waits for what is queued on all streams, telling nothing: what calls have read may go. The first
 * holds the lock all the time, the second takes it between waits. */
void gpu_wait_for_all(st_gpu *gpu);
void gpu_wait_for_queued(st_gpu *gpu);
void gpu_streams_destroy(st_gpu *gpu);

/* ---- gpu_memory.c ---- */
void gpu_pool_init(gpu_pool *pool, st_mem *mem, bool is_pinned, uint64_t cap);
void gpu_pool_deinit(st_gpu *gpu, gpu_pool *pool);
/* Memory for what is queued on the stream (NULL: at once) from here on, aligned to 256 bytes. */
stator_status gpu_take(st_gpu *gpu, gpu_pool *pool, const gpu_stream *stream, uint64_t bytes,
                       st_gpu_address *out, stator_diag **err);
/* Gives the driver back what nobody uses, once everything that is queued is done. */
void gpu_trim(st_gpu *gpu);
/* What has been queued on the stream (NULL: nothing) may still use it. 0: nothing. */
void gpu_give(st_gpu *gpu, gpu_pool *pool, const gpu_stream *stream, st_gpu_address address);

/* ---- gpu_copies.c ---- */
/* The source has been read when it returns. */
stator_status gpu_upload(st_gpu *gpu, gpu_stream *stream, st_gpu_address dst, const void *src,
                         uint64_t bytes, stator_diag **err);
/* Written when it returns: waits. */
stator_status gpu_read_back(st_gpu *gpu, gpu_stream *stream, void *dst, st_gpu_address src,
                            uint64_t bytes, stator_diag **err);

/* ---- gpu_constants.c ---- */
stator_status gpu_constant_take(st_gpu *gpu, stator_blob *blob, gpu_constant **out,
                                stator_diag **err);
void gpu_constant_give(st_gpu *gpu, gpu_constant *constant);

/* ---- gpu_module.c: slots of the emitter ---- */
typedef struct gpu_function {
    void *function; /* the driver's */
    st_gpu_kernel kernel;
    uint32_t image;
} gpu_function;

typedef struct gpu_image {
    void *module; /* the driver's; NULL: not loaded */
    st_str bytes; /* empty when it will not be saved */
} gpu_image;

typedef struct gpu_module {
    st_arena arena;
    uint32_t n_functions; /* by kernel */
    uint32_t n_images;    /* distinct programs */
    gpu_function *functions;
    gpu_image *images;
} gpu_module;

stator_status gpu_module_compile(void *gpu, const st_kernel *const *kernels, uint32_t n,
                                 void **out_module, stator_diag **err);
void gpu_module_destroy(void *gpu, void *module);
stator_status gpu_module_save(void *gpu, void *module, st_str *out, stator_diag **err);
stator_status gpu_module_load(void *gpu, const void *bytes, uint64_t n, uint32_t n_kernels,
                              void **out_module, stator_diag **err);

/* ---- gpu_launch.c: slots of the emitter and of st_device_memory ---- */
#define GPU_ARGUMENTS_MAX 512u /* 4 KiB, as CUDA takes */
stator_status gpu_launch(void *gpu, void *module, uint32_t k, const st_launch *launch,
                         stator_diag **err);
stator_status gpu_reserve(void *gpu, void *call, void *module, uint32_t k, int64_t count,
                          stator_diag **err);
/* A launch, which is tried again when the driver refuses it. */
stator_status gpu_queue_launch(st_gpu *gpu, const st_gpu_launch *launch, const gpu_stream *stream,
                               stator_diag **err);
stator_status gpu_call_begin(void *gpu, const stator_call *call, void *checks, void *around,
                             void **out_call, stator_diag **err);
void gpu_call_end(void *gpu, void *call);

/* ---- gpu_marks.c: slots of st_device_memory ---- */
stator_status gpu_mark(void *gpu, void *call, stator_diag **err);
stator_status gpu_read_marks(void *gpu, void *call, uint64_t *out_ns, uint32_t n,
                             stator_diag **err);
void gpu_give_marks(st_gpu *gpu, gpu_call *call); /* the call's; under the lock */
void gpu_marks_destroy(st_gpu *gpu);

/* ---- small helpers ---- */
static inline void *gpu_pointer(st_gpu_address address)
{
    return (void *)(uintptr_t)address;
}

static inline st_gpu_address gpu_address(const void *pointer)
{
    return (st_gpu_address)(uintptr_t)pointer;
}

#endif
