/* One OpenMP team for the process: the threads of the first parallel region stay for the next.
 * Where they come late again and again, since other programs want the processors too
 * (core/base/threads/contention.h), the caller does the work itself for a while, and the thread
 * pool helps with what is long (core/base/threads/thread_pool.h): nobody waits for one that has not
 * begun. The team's threads are kept off their caller's processor (core/base/threads/apart.h).
 *
 * Chunks are cut before the team starts, so which ones there are depends on (threads, n, grain)
 * alone, not on how many threads came. A thread takes those of its own queue, in order, so that
 * what it did in the call before is in its cache; then those of others' queues: a processor that
 * is slower than the rest, or busy with something else, holds nobody up for long. A child made
 * by fork after a parallel region must not call st_parallel_for with threads > 1: libgomp's team
 * does not survive fork, nor does the thread pool. */
#define _GNU_SOURCE
#include "core/base/threads/threads.h"

#include "core/base/threads/apart.h"
#include "core/base/threads/contention.h"
#include "core/base/threads/thread_pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static _Thread_local bool is_inside; /* this thread runs a job of the thread pool */

bool st_is_in_parallel(void)
{
#ifdef _OPENMP
    return is_inside || omp_in_parallel();
#else
    return 1;
#endif
}

#define LINE 64         /* bytes, of a cache */
#define THREADS_MAX 512 /* whose queues are on the caller's stack */

typedef struct chunk_queue {
    _Alignas(LINE) _Atomic int64_t next; /* chunk that nobody has taken */
} chunk_queue;

typedef struct work {
    void (*fn)(void *self, int64_t begin, int64_t end);
    void *self;
    int64_t n;
    int64_t n_queues, each; /* queues of so many chunks */
    int64_t step, left; /* elements of a chunk; those that are left are spread over the chunks */
    chunk_queue *queues;
    uint64_t ended_ns; /* when the caller ended its last chunk */
    int64_t done;      /* chunks that the caller has run */
} work;

static int64_t begin_of(const work *w, int64_t chunk)
{
    const int64_t begin = chunk * w->step + chunk * w->left / (w->n_queues * w->each);
    return begin < w->n ? begin : w->n;
}

/* Runs the next chunk of a queue. 0: there are no more. */
static bool run_chunk(const work *w, int64_t q)
{
    const int64_t k = atomic_fetch_add_explicit(&w->queues[q].next, 1, memory_order_relaxed);
    if (k >= w->each) {
        return false;
    }
    const int64_t chunk = q * w->each + k;
    w->fn(w->self, begin_of(w, chunk), begin_of(w, chunk + 1));
    return true;
}

/* Runs the chunks of a queue until there are no more. Returns how many it ran. */
static int64_t run_queue(const work *w, int64_t q)
{
    int64_t done = 0;
    while (run_chunk(w, q)) {
        done++;
    }
    return done;
}

static void run_seat(void *self, int32_t seat)
{
    work *w = self;
    int64_t done = 0;
    is_inside = true;
    for (int64_t q = 0; q < w->n_queues; q++) {
        done += run_queue(w, (seat + q) % w->n_queues);
    }
    is_inside = false;
    if (seat == 0) {
        w->done = done;
        w->ended_ns = st_now_ns();
    }
}

#define HELPED_NS UINT64_C(200000) /* shortest work for which waking threads pays */
#define LATE_NS UINT64_C(100000)   /* delay for a wake-up; no contention yet */

/* A region has ended. The caller alone would have taken up to twice the time that it did not
 * wait. */
static void note_region(const work *w, uint64_t began, uint64_t now)
{
    const uint64_t chunk = w->done ? (w->ended_ns - began) / (uint64_t)w->done : 0;
    const uint64_t waited = now - w->ended_ns;
    const uint64_t late = waited > LATE_NS + 2 * chunk ? waited : 0;
    const uint64_t took = now - began;
    st_contention_note(took, late > took / 2 ? 2 * (took - late) : took, now);
}

/* ---- a team or the thread pool ---- */

#ifdef _OPENMP

static _Thread_local st_apart own_team;

#ifdef __SANITIZE_THREAD__
/* libgomp is not built for tsan, which is told here that a region begins behind what its caller
 * did and ends before what it does. What the compiler makes of the pragma is not looked at. */
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define TSAN_ACQUIRE(address) __tsan_acquire(address)
#define TSAN_RELEASE(address) __tsan_release(address)
#define NOT_FOR_TSAN __attribute__((no_sanitize_thread))
#else
#define TSAN_ACQUIRE(address) ((void)0)
#define TSAN_RELEASE(address) ((void)0)
#define NOT_FOR_TSAN
#endif

static void run_member(work *w, st_apart *team, int32_t seat)
{
    TSAN_ACQUIRE(w);
    st_apart_note(team, seat);
    run_seat(w, seat);
    TSAN_RELEASE(w);
}

static NOT_FOR_TSAN void run_region(work *w)
{
    st_apart *team = &own_team;
    st_apart_begin(team, (int32_t)w->n_queues);
    TSAN_RELEASE(w);
#pragma omp parallel num_threads((int)w->n_queues)
    run_member(w, team, omp_get_thread_num());
    TSAN_ACQUIRE(w);
    st_apart_end(team, (int32_t)w->n_queues);
}

#else

static void run_region(work *w)
{
    run_seat(w, 0);
}

#endif

/* The caller does it, and the thread pool helps where there is enough left behind the first
 * chunk. */
static void run_contended(work *w, uint64_t began)
{
    const uint64_t chunks = (uint64_t)(w->n_queues * w->each);
    is_inside = true;
    (void)run_chunk(w, 0);
    is_inside = false;
    if ((st_now_ns() - began) * (chunks - 1) < HELPED_NS) {
        run_seat(w, 0);
    } else {
        st_thread_pool_run((int32_t)w->n_queues, run_seat, w);
    }
}

static void run_team(work *w)
{
    chunk_queue queues[THREADS_MAX];
    const uint64_t began = st_now_ns();
    w->queues = queues;
    for (int64_t q = 0; q < w->n_queues; q++) {
        atomic_init(&queues[q].next, 0);
    }
    const bool is_contended = st_is_contended(began);
    st_omp_spin_shortly(is_contended);
    if (is_contended) {
        run_contended(w, began);
    } else {
        run_region(w);
        note_region(w, began, st_now_ns());
    }
}

void st_parallel_for(int32_t threads, int64_t n, int64_t grain,
                     void (*fn)(void *self, int64_t begin, int64_t end), void *self)
{
    if (n <= 0) {
        return;
    }
    grain = grain < 1 ? 1 : grain;
    if (threads <= 1 || n <= grain || st_is_in_parallel()) {
        fn(self, 0, n);
        return;
    }
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    const int64_t most = n / threads / grain; /* chunks of a thread */
    work w = {.fn = fn,
              .self = self,
              .n = n,
              .each = most < ST_PARALLEL_CHUNKS ? most : ST_PARALLEL_CHUNKS};
    if (most >= 1) {
        w.n_queues = threads;
        w.step = n / (threads * w.each);
        w.left = n % (threads * w.each);
    } else {
        w.each = 1;
        w.n_queues = n / grain + (n % grain != 0);
        w.step = grain;
    }
    run_team(&w);
}

int32_t st_cpu_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return CPU_COUNT(&set);
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
    return online > 0 ? (int32_t)online : 1;
}

uint64_t st_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
