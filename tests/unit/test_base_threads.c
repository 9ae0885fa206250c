/* Work split over threads, the account and blobs under concurrent use, shared objects. */
#define _GNU_SOURCE
#include "core/base/blob.h"
#include "core/base/dso.h"
#include "core/base/threads/contention.h"
#include "core/base/threads/thread_pool.h"
#include "core/base/threads/threads.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#else
#define omp_in_parallel() 0
#endif

#if defined(__SANITIZE_THREAD__) || !defined(_OPENMP)
#define TEAM 1 /* libgomp is not built for tsan */
#else
#define TEAM 4
#endif

typedef struct split {
    _Atomic uint32_t hits[1000];
    _Atomic uint32_t calls;
    _Atomic int64_t shortest;
} split;

static void mark(void *self, int64_t begin, int64_t end)
{
    split *s = self;
    atomic_fetch_add(&s->calls, 1);
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&s->hits[i], 1);
    }
    if (end != 1000 && end - begin < atomic_load(&s->shortest)) {
        atomic_store(&s->shortest, end - begin);
    }
}

Test(base_threads, parallel_for_visits_every_index_once)
{
    static const int64_t grains[] = {0, 1, 7, 100, 333, 999, 1000, 5000};
    for (int32_t threads = 0; threads <= TEAM; threads++) {
        for (uint32_t g = 0; g < 8; g++) {
            split s;
            memset(&s, 0, sizeof s);
            s.shortest = 1000;
            st_parallel_for(threads, 1000, grains[g], mark, &s);
            for (uint32_t i = 0; i < 1000; i++) {
                cr_assert_eq(s.hits[i], 1, "index %u, %d threads, grain %d", i, threads,
                             (int)grains[g]);
            }
            const uint32_t most = threads <= 1 ? 1u : (uint32_t)threads * ST_PARALLEL_CHUNKS;
            cr_assert(s.calls >= 1 && s.calls <= most);
            cr_assert(s.calls == 1 || s.shortest >= grains[g]);
        }
    }
    split none;
    memset(&none, 0, sizeof none);
    st_parallel_for(TEAM, 0, 1, mark, &none);
    st_parallel_for(TEAM, -5, 1, mark, &none);
    cr_assert_eq(none.calls, 0);
}

/* A chunk that takes long is waited for by nobody who could do another. */
typedef struct stall {
    _Atomic int64_t done;
    _Atomic int has_seen_rest;
} stall;

static void wait_for_rest(void *self, int64_t begin, int64_t end)
{
    stall *s = self;
    for (int64_t i = begin; i < end; i++) {
        const uint64_t start = st_now_ns();
        while (i == 0 && atomic_load(&s->done) < 2 * ST_PARALLEL_CHUNKS - 1 &&
               st_now_ns() - start < UINT64_C(2000000000)) {
            usleep(100);
        }
        atomic_fetch_or(&s->has_seen_rest, i == 0 && s->done == 2 * ST_PARALLEL_CHUNKS - 1);
        atomic_fetch_add(&s->done, 1);
    }
}

Test(base_threads, idle_threads_take_chunks_of_a_stalled_one)
{
    stall s = {0};
    if (TEAM == 1) {
        cr_skip_test("libgomp is not built for tsan: there is no team");
    }
    st_parallel_for(2, 2 * ST_PARALLEL_CHUNKS, 1, wait_for_rest, &s);
    cr_assert_eq(s.done, 2 * ST_PARALLEL_CHUNKS);
    cr_assert(s.has_seen_rest, "the first chunk's thread did the others, too");
}

typedef struct nest {
    _Atomic uint32_t inner_calls;
    _Atomic uint32_t outer_calls;
    _Atomic int64_t sum;
} nest;

static void inner(void *self, int64_t begin, int64_t end)
{
    nest *n = self;
    atomic_fetch_add(&n->inner_calls, 1);
    atomic_fetch_add(&n->sum, end - begin);
}

static void outer(void *self, int64_t begin, int64_t end)
{
    nest *n = self;
    atomic_fetch_add(&n->outer_calls, 1);
    for (int64_t i = begin; i < end; i++) {
        st_parallel_for(TEAM, 100, 1, inner, self);
    }
}

Test(base_threads, nested_parallel_for_runs_in_its_caller)
{
    nest n;
    memset(&n, 0, sizeof n);
    st_parallel_for(TEAM, 8, 1, outer, &n);
    cr_assert_eq(n.sum, 800);
    if (n.outer_calls > 1) { /* a team came: each inner call is one range */
        cr_assert_eq(n.inner_calls, 8);
    }
}

/* ---- off the caller's processor ---- */

typedef struct places {
    pthread_t caller;
    int chosen; /* > 0: the others choose this processor */
    _Atomic int others, count;
} places;

static void look_where(void *self, int64_t begin, int64_t end)
{
    places *p = self;
    cpu_set_t set;
    (void)begin;
    (void)end;
    if (!pthread_equal(p->caller, pthread_self())) {
        if (p->chosen > 0) {
            CPU_ZERO(&set);
            CPU_SET((unsigned)p->chosen, &set);
            (void)sched_setaffinity(0, sizeof set, &set);
        }
        cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
        atomic_store(&p->count, CPU_COUNT(&set));
        atomic_fetch_add(&p->others, 1);
    }
    usleep(100); /* for the other to come */
}

/* Regions until a thread of the team had a part in one; how many processors it may use. */
static int processors_of_other(int chosen)
{
    places p = {.caller = pthread_self(), .chosen = chosen};
    for (int i = 0; i < 10000 && p.others == 0; i++) {
        st_parallel_for(2, 2, 1, look_where, &p);
    }
    cr_assert_gt(p.others, 0);
    return p.count;
}

static int pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

Test(base_threads, pool_threads_avoid_the_callers_processor)
{
    cpu_set_t all;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    const int n = CPU_COUNT(&all);
    if (TEAM == 1 || n < 2) {
        cr_skip_test("there is no team, or one processor for it");
    }
    (void)processors_of_other(0); /* now the caller knows who it is */
    cr_assert_eq(processors_of_other(0), n - 1);
    cr_assert_eq(pin(sched_getcpu()), 0); /* a caller with one processor leaves them alone */
    cr_assert_eq(processors_of_other(0), n - 1);
    cr_assert_eq(sched_setaffinity(0, sizeof all, &all), 0);
    cr_assert_eq(processors_of_other(0), n - 1);
}

/* What the program has chosen for a thread of the team stays, wherever the caller goes. */
Test(base_threads, pool_threads_keep_an_affinity_the_program_set)
{
    cpu_set_t all;
    cpu_set_t most;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    if (TEAM == 1 || CPU_COUNT(&all) < 4 || !CPU_ISSET(0, &all) || !CPU_ISSET(3, &all)) {
        cr_skip_test("too few processors to tell");
    }
    (void)processors_of_other(3);
    for (unsigned cpu = 0; cpu < 3; cpu++) { /* the caller moves */
        most = all;
        CPU_CLR(cpu, &most);
        cr_assert_eq(sched_setaffinity(0, sizeof most, &most), 0);
        cr_assert_eq(processors_of_other(0), 1);
    }
}

/* ---- the thread pool ---- */

#define SEATS 4

typedef struct watch {
    pthread_t caller;
    _Atomic uint32_t seats[SEATS];
    _Atomic uint32_t begun, ended, elsewhere;
} watch;

static void sit(void *self, int32_t seat)
{
    watch *s = self;
    atomic_fetch_add(&s->begun, 1);
    cr_assert(seat >= 0 && seat < SEATS);
    atomic_fetch_add(&s->seats[seat], 1);
    if (seat == 0) {
        cr_assert(pthread_equal(s->caller, pthread_self()));
        usleep(200); /* for others to come */
    } else {
        atomic_fetch_add(&s->elsewhere, !pthread_equal(s->caller, pthread_self()));
        usleep(1000); /* longer than the caller */
    }
    atomic_fetch_add(&s->ended, 1);
}

static void *call_pool(void *helped)
{
    for (uint32_t i = 0; i < 50; i++) {
        watch s = {.caller = pthread_self()};
        st_thread_pool_run(SEATS, sit, &s);
        cr_assert_eq(s.begun, s.ended, "all that have begun have ended");
        cr_assert_eq(s.seats[0], 1);
        cr_assert_eq(s.elsewhere + 1, s.begun);
        for (uint32_t k = 1; k < SEATS; k++) {
            cr_assert_leq(s.seats[k], 1);
        }
        atomic_fetch_add((_Atomic uint32_t *)helped, s.elsewhere);
    }
    return NULL;
}

Test(base_threads, several_callers_share_the_thread_pool)
{
    pthread_t callers[3];
    _Atomic uint32_t helped = 0;
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(pthread_create(&callers[i], NULL, call_pool, &helped), 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        (void)pthread_join(callers[i], NULL);
    }
#ifdef _OPENMP
    cr_assert_gt(helped, 0, "somebody came in 150 calls");
#endif
}

/* The others are late, as on a busy machine: what they have taken takes them long. */
typedef struct late {
    pthread_t caller;
    _Atomic int64_t done;
    _Atomic int is_pool;
} late;

static void be_late(void *self, int64_t begin, int64_t end)
{
    late *l = self;
    cr_assert(st_is_in_parallel());
    if (!pthread_equal(l->caller, pthread_self())) {
        usleep(3000);
    } else if (!omp_in_parallel()) {
        l->is_pool = 1;
    }
    st_parallel_for(TEAM, end - begin, 1, inner, &(nest){0}); /* stays here */
    atomic_fetch_add(&l->done, end - begin);
}

Test(base_threads, pool_takes_over_when_openmp_threads_come_late)
{
    late l = {.caller = pthread_self()};
    if (TEAM == 1) {
        cr_skip_test("libgomp is not built for tsan: there is no team");
    }
    const uint64_t begin = st_now_ns();
    int64_t calls = 0;
    while (!l.is_pool && st_now_ns() - begin < UINT64_C(20000000000)) {
        st_parallel_for(TEAM, 100, 1, be_late, &l);
        calls++;
        cr_assert_eq(l.done, 100 * calls);
        cr_assert_not(st_is_in_parallel());
    }
    cr_assert(l.is_pool, "%d calls", (int)calls);
}

/* Work of 30 ms is a window of its own. */
static void note(uint32_t windows, uint64_t alone_ms)
{
    for (uint32_t i = 0; i < windows; i++) {
        st_contention_note(UINT64_C(30000000), alone_ms * UINT64_C(1000000), st_now_ns());
    }
}

Test(base_threads, contention_is_detected_and_expires)
{
    const uint64_t now = st_now_ns();
    note(10, 30); /* as good with a team */
    cr_assert_not(st_is_contended(now));
    note(2, 10);
    note(1, 60); /* not three in a row */
    note(2, 10);
    cr_assert_not(st_is_contended(now));
    note(1, 10);
    cr_assert(st_is_contended(st_now_ns()));
    const uint64_t later = st_now_ns() + UINT64_C(1000000000);
    cr_assert_not(st_is_contended(later));
    note(1, 10); /* one is enough then, and for longer */
    cr_assert(st_is_contended(st_now_ns() + UINT64_C(400000000)));
    cr_assert_not(st_is_contended(later));
    note(1, 60);
    note(2, 10); /* anew */
    cr_assert_not(st_is_contended(later));
}

Test(base_threads, clock_and_processors)
{
    const uint64_t a = st_now_ns();
    usleep(2000);
    const uint64_t b = st_now_ns();
    cr_assert(b - a >= 2000000 && b - a < UINT64_C(60000000000));
    cr_assert_geq(st_cpu_count(), 1);
}

typedef struct shared {
    st_mem mem;
    stator_blob *blob;
    uint8_t expected[16];
    _Atomic uint32_t errors;
} shared;

static void *hammer(void *arg)
{
    shared *s = arg;
    for (uint32_t i = 0; i < 2000; i++) {
        void *p = st_alloc(&s->mem, 1 + i % 300, 1);
        const void *data = NULL;
        uint8_t hash[16];
        st_blob_retain(s->blob);
        if (p == NULL || st_blob_get(s->blob, &data, NULL) != STATOR_OK ||
            ((const uint8_t *)data)[5] != 6 || st_blob_hash(s->blob, hash, NULL) != STATOR_OK ||
            memcmp(hash, s->expected, 16) != 0) {
            atomic_fetch_add(&s->errors, 1);
        }
        st_blob_release(s->blob);
        st_free(&s->mem, p);
    }
    return NULL;
}

/* The first read of a misaligned range copies it once, however many threads ask. */
Test(base_threads, memory_account_and_blobs_are_thread_safe)
{
    shared s;
    char path[] = "/tmp/stator-threads-XXXXXX";
    uint8_t bytes[100];
    st_file *file = NULL;
    pthread_t threads[4];
    memset(&s, 0, sizeof s);
    for (uint32_t i = 0; i < 100; i++) {
        bytes[i] = (uint8_t)i;
    }
    const int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, bytes, 100) == 100);
    close(fd);
    st_mem_init(&s.mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_file_open(&s.mem, path, &file, NULL), STATOR_OK);
    cr_assert_eq(st_blob_from_file(&s.mem, file, 1, 64, 0, &s.blob, NULL), STATOR_OK);
    stator_blob *copy = st_blob_copy(&s.mem, bytes + 1, 64);
    st_blob_hash(copy, s.expected, NULL);
    st_blob_release(copy);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, hammer, &s), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert_eq(s.errors, 0);
    cr_assert_eq(s.mem.live_blocks, 4); /* file, its path, blob, one aligned copy */
    st_blob_release(s.blob);
    st_file_release(file);
    cr_assert_eq(s.mem.live_blocks, 0);
    cr_assert_eq(s.mem.live_bytes, 0);
    unlink(path);
}

Test(base_threads, shared_objects)
{
    char msg[256];
    char folder[4096];
    void *dso = st_dso_open("libm.so.6", msg, sizeof msg);
    cr_assert_not_null(dso, "%s", msg);
    cr_assert_str_eq(msg, "");
    cr_assert_not_null(st_dso_symbol(dso, "cos"));
    cr_assert_null(st_dso_symbol(dso, "no_such_symbol_here"));
    cr_assert_null(st_dso_open("/nowhere/none.so", msg, sizeof msg));
    cr_assert(strstr(msg, "none.so") != NULL);
    cr_assert(st_dso_folder_of((const void *)(uintptr_t)st_dso_symbol(dso, "cos"), folder,
                               sizeof folder));
    cr_assert(folder[0] == '/' && strstr(folder, "libm") == NULL);
    cr_assert_not(st_dso_folder_of((const void *)(uintptr_t)st_dso_symbol(dso, "cos"), folder, 2));
    cr_assert_not(st_dso_folder_of(&msg, folder, sizeof folder));
}
