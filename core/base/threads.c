/* One OpenMP team for the process: the threads of the first parallel region stay for the next.
 *
 * Chunks are cut before the team starts, so which ones there are depends on (threads, n, grain)
 * alone, not on how many threads came. A thread takes those of its own lot, in order, so that what
 * it did in the call before is in its cache; then those of others' lots: a processor that is slower
 * than the rest, or busy with something else, holds nobody up for long. A child made by fork after
 * a parallel region must not call st_parallel_for with threads > 1: libgomp's team does not survive
 * fork. */
#define _GNU_SOURCE
#include "core/base/threads.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static int is_nested(void)
{
#ifdef _OPENMP
    return omp_in_parallel();
#else
    return 1;
#endif
}

#define LINE 64          /* bytes, of a cache */
#define THREADS_MOST 512 /* whose lots are on the caller's stack */

typedef struct lot {
    _Alignas(LINE) _Atomic int64_t next; /* of its chunks */
} lot;

typedef struct work {
    void (*fn)(void *self, int64_t begin, int64_t end);
    void *self;
    int64_t n;
    int64_t lots, each; /* of so many chunks */
    int64_t step, left; /* elements of a chunk; of those that are left each lot has its share */
    lot *taken;
} work;

static int64_t begin_of(const work *w, int64_t chunk)
{
    const int64_t begin = chunk * w->step + chunk * w->left / (w->lots * w->each);
    return begin < w->n ? begin : w->n;
}

/* Chunks of a lot, one after the other, until there are no more. */
static void run_lot(const work *w, int64_t l)
{
    for (;;) {
        const int64_t k = atomic_fetch_add_explicit(&w->taken[l].next, 1, memory_order_relaxed);
        if (k >= w->each) {
            return;
        }
        const int64_t chunk = l * w->each + k;
        w->fn(w->self, begin_of(w, chunk), begin_of(w, chunk + 1));
    }
}

static void run_team(work *w)
{
    lot taken[THREADS_MOST];
    w->taken = taken;
    for (int64_t l = 0; l < w->lots; l++) {
        atomic_init(&taken[l].next, 0);
    }
#ifdef _OPENMP
#pragma omp parallel num_threads((int)w->lots)
    {
        const int64_t own = omp_get_thread_num();
        for (int64_t l = 0; l < w->lots; l++) {
            run_lot(w, (own + l) % w->lots);
        }
    }
#else
    for (int64_t l = 0; l < w->lots; l++) {
        run_lot(w, l);
    }
#endif
}

void st_parallel_for(int32_t threads, int64_t n, int64_t grain,
                     void (*fn)(void *self, int64_t begin, int64_t end), void *self)
{
    if (n <= 0) {
        return;
    }
    grain = grain < 1 ? 1 : grain;
    if (threads <= 1 || n <= grain || is_nested()) {
        fn(self, 0, n);
        return;
    }
    threads = threads < THREADS_MOST ? threads : THREADS_MOST;
    const int64_t most = n / threads / grain; /* chunks of a thread */
    work w = {.fn = fn,
              .self = self,
              .n = n,
              .each = most < ST_PARALLEL_CHUNKS ? most : ST_PARALLEL_CHUNKS};
    if (most >= 1) {
        w.lots = threads;
        w.step = n / (threads * w.each);
        w.left = n % (threads * w.each);
    } else {
        w.each = 1;
        w.lots = n / grain + (n % grain != 0);
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
