/* One OpenMP team for the process: the threads of the first parallel region stay for the next.
 * Where they come late again and again, since other programs want the processors too, a crew takes
 * the team's place for a while (core/base/crew.h): nobody waits for one that has not begun. The
 * team's threads are kept off their caller's processor (core/base/apart.h).
 *
 * Chunks are cut before the team starts, so which ones there are depends on (threads, n, grain)
 * alone, not on how many threads came. A thread takes those of its own lot, in order, so that what
 * it did in the call before is in its cache; then those of others' lots: a processor that is slower
 * than the rest, or busy with something else, holds nobody up for long. A child made by fork after
 * a parallel region must not call st_parallel_for with threads > 1: libgomp's team does not survive
 * fork, nor does the crew. */
#define _GNU_SOURCE
#include "core/base/threads.h"

#include "core/base/apart.h"
#include "core/base/crew.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static _Thread_local int is_inside; /* of a job of the crew */

int st_is_in_parallel(void)
{
#ifdef _OPENMP
    return is_inside || omp_in_parallel();
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
    uint64_t ended_ns; /* the caller's last chunk, */
    int64_t done;      /* of so many */
} work;

static int64_t begin_of(const work *w, int64_t chunk)
{
    const int64_t begin = chunk * w->step + chunk * w->left / (w->lots * w->each);
    return begin < w->n ? begin : w->n;
}

/* Chunks of a lot, one after the other, until there are no more. Returns how many it was. */
static int64_t run_lot(const work *w, int64_t l)
{
    for (int64_t done = 0;; done++) {
        const int64_t k = atomic_fetch_add_explicit(&w->taken[l].next, 1, memory_order_relaxed);
        if (k >= w->each) {
            return done;
        }
        const int64_t chunk = l * w->each + k;
        w->fn(w->self, begin_of(w, chunk), begin_of(w, chunk + 1));
    }
}

static void run_seat(void *self, int32_t seat)
{
    work *w = self;
    int64_t done = 0;
    is_inside = 1;
    for (int64_t l = 0; l < w->lots; l++) {
        done += run_lot(w, (seat + l) % w->lots);
    }
    is_inside = 0;
    if (seat == 0) {
        w->done = done;
        w->ended_ns = st_now_ns();
    }
}

/* ---- is the machine busy ---- */

#define LATE_NS UINT64_C(100000)     /* that others may be behind the caller, and a chunk or two */
#define WINDOW_NS UINT64_C(20000000) /* of time in regions that is judged */
#define LOST_SHARE 5                 /* tenths of it that waiting for threads takes: a bad window */
#define BAD_WINDOWS 3                /* in a row: the machine is busy */
#define BUSY_NS UINT64_C(250000000)  /* for so long; then one more bad window is enough, */
#define BUSY_DOUBLINGS 5             /* each time for twice as long, so often at most */

/* Threads that race here lose a note of one of them. */
static struct {
    _Atomic uint64_t region_ns, lost_ns; /* of this window */
    _Atomic uint64_t busy_until_ns;
    _Atomic int32_t bad_windows;
    _Atomic int32_t doublings; /* of BUSY_NS, the next time */
} load;

static uint64_t get(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void set(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_relaxed);
}

static int is_busy(uint64_t now)
{
    return now < get(&load.busy_until_ns);
}

static void judge_window(int is_bad, uint64_t now)
{
    int32_t bad = is_bad ? atomic_load_explicit(&load.bad_windows, memory_order_relaxed) + 1 : 0;
    if (bad == 0) {
        atomic_store_explicit(&load.doublings, 0, memory_order_relaxed);
    } else if (bad == BAD_WINDOWS) {
        const int32_t n = atomic_load_explicit(&load.doublings, memory_order_relaxed);
        bad--;
        set(&load.busy_until_ns, now + (BUSY_NS << n));
        atomic_store_explicit(&load.doublings, n < BUSY_DOUBLINGS ? n + 1 : n,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&load.bad_windows, bad, memory_order_relaxed);
}

/* A region has ended. */
static void note_region(const work *w, uint64_t began, uint64_t now)
{
    const uint64_t chunk = w->done ? (w->ended_ns - began) / (uint64_t)w->done : 0;
    const uint64_t waited = now - w->ended_ns;
    const uint64_t late = waited > LATE_NS + 2 * chunk ? waited : 0;
    const uint64_t region = get(&load.region_ns) + (now - began);
    const uint64_t lost = get(&load.lost_ns) + late;
    const int is_whole = region >= WINDOW_NS;
    set(&load.region_ns, is_whole ? 0 : region);
    set(&load.lost_ns, is_whole ? 0 : lost);
    if (is_whole) {
        judge_window(lost >= region / 10 * LOST_SHARE, now);
    }
}

/* ---- a team or the crew ---- */

#ifdef _OPENMP

static _Thread_local st_apart own_team;

static void run_region(work *w)
{
    st_apart *team = &own_team;
    st_apart_begin(team, (int32_t)w->lots);
#pragma omp parallel num_threads((int)w->lots)
    {
        st_apart_note(team, omp_get_thread_num());
        run_seat(w, omp_get_thread_num());
    }
    st_apart_end(team, (int32_t)w->lots);
}

#else

static void run_region(work *w)
{
    run_seat(w, 0);
}

#endif

static void run_team(work *w)
{
    lot taken[THREADS_MOST];
    const uint64_t began = st_now_ns();
    w->taken = taken;
    for (int64_t l = 0; l < w->lots; l++) {
        atomic_init(&taken[l].next, 0);
    }
    const int is_crew = is_busy(began);
    st_omp_spin_shortly(is_crew);
    if (is_crew) {
        st_crew_run((int32_t)w->lots, run_seat, w);
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
