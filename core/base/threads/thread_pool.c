/* Helpers that nobody waits for until they have begun.
 *
 * A parallel region of OpenMP ends when every thread of its team has come, and on a busy machine
 * one that has nothing left to do may come a time slice later. Here a caller does its work itself;
 * who of the thread pool gets a processor meanwhile takes part, and who comes too late finds the
 * job gone.
 *
 * The pool has threads of its own. Parallel regions of others, oneDNN's, go on meanwhile;
 * their threads are to sleep soon when they wait, and libgomp has them do so as long as it
 * counts more threads than processors, as it does where a team has one for each and one more
 * team is kept. */
#define _GNU_SOURCE
#include "core/base/threads/thread_pool.h"

#include "core/base/threads/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define SPIN_NS UINT64_C(10000) /* time that a thread spins before it sleeps */
#define LOOKS 64u               /* between two looks at the clock */

typedef struct job {
    void (*fn)(void *self, int32_t seat);
    void *self;
    int32_t seats, taken;
    _Atomic int32_t at_work; /* pool threads that run this job */
    pthread_cond_t is_done;  /* nobody is at work any more */
    struct job *next;
} job;

/* One for the process. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t has_job;
    job *first;
    int32_t asked;         /* threads that were asked for */
    int32_t asleep;        /* asked-for threads that sleep */
    _Atomic uint32_t jobs; /* jobs so far */
} pool = {.mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, .has_job = PTHREAD_COND_INITIALIZER};

/* For a while, or until there are other jobs than those seen. */
static void look_out(uint32_t seen)
{
    const uint64_t end = st_now_ns() + SPIN_NS;
    do {
        for (uint32_t i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&pool.jobs, memory_order_relaxed) != seen) {
                return;
            }
            st_cpu_pause();
        }
    } while (st_now_ns() < end);
}

/* Under the mutex; NULL: there is none. */
static job *job_with_seats(void)
{
    job *j = pool.first;
    while (j && j->taken == j->seats) {
        j = j->next;
    }
    return j;
}

/* Under the mutex, which is given back meanwhile. */
static job *next_job(void)
{
    job *j = job_with_seats();
    if (j == NULL) {
        const uint32_t seen = atomic_load_explicit(&pool.jobs, memory_order_relaxed);
        (void)pthread_mutex_unlock(&pool.mutex);
        look_out(seen);
        (void)pthread_mutex_lock(&pool.mutex);
    }
    while ((j = job_with_seats()) == NULL) {
        pool.asleep++;
        (void)pthread_cond_wait(&pool.has_job, &pool.mutex);
        pool.asleep--;
    }
    return j;
}

static void *help(void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&pool.mutex);
    for (;;) {
        job *j = next_job();
        const int32_t seat = j->taken++;
        atomic_fetch_add_explicit(&j->at_work, 1, memory_order_relaxed);
        (void)pthread_mutex_unlock(&pool.mutex);
        j->fn(j->self, seat);
        (void)pthread_mutex_lock(&pool.mutex);
        if (atomic_fetch_sub_explicit(&j->at_work, 1, memory_order_release) == 1) {
            (void)pthread_cond_signal(&j->is_done);
        }
    }
    return NULL;
}

/* A thread that stays, to which no signal of the program's goes. 0: there is none. */
static bool start(void *(*fn)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started = pthread_create(&thread, NULL, fn, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started && pthread_detach(thread) == 0;
}

/* Under the mutex: as many as a job wants, if there never were. Without them a caller is alone. */
static void ask_for(int32_t threads)
{
    while (pool.asked < threads && start(help, NULL)) {
        pool.asked++;
    }
}

static void publish(job *j)
{
    (void)pthread_mutex_lock(&pool.mutex);
    ask_for(j->seats - 1);
    job **end = &pool.first;
    while (*end) {
        end = &(*end)->next;
    }
    *end = j;
    const int32_t asleep = pool.asleep;
    (void)pthread_mutex_unlock(&pool.mutex);
    atomic_fetch_add_explicit(&pool.jobs, 1, memory_order_relaxed);
    if (asleep) {
        (void)pthread_cond_broadcast(&pool.has_job);
    }
}

static void withdraw(job *j)
{
    (void)pthread_mutex_lock(&pool.mutex);
    job **at = &pool.first;
    while (*at != j) {
        at = &(*at)->next;
    }
    *at = j->next;
    (void)pthread_mutex_unlock(&pool.mutex);
    const uint64_t end = st_now_ns() + SPIN_NS;
    while (atomic_load_explicit(&j->at_work, memory_order_relaxed) && st_now_ns() < end) {
        st_cpu_pause();
    }
    (void)pthread_mutex_lock(&pool.mutex); /* a thread that has left still signals under it */
    while (atomic_load_explicit(&j->at_work, memory_order_acquire)) {
        (void)pthread_cond_wait(&j->is_done, &pool.mutex);
    }
    (void)pthread_mutex_unlock(&pool.mutex);
}

void st_thread_pool_run(int32_t seats, void (*fn)(void *self, int32_t seat), void *self)
{
    job j = {.fn = fn, .self = self, .seats = seats, .taken = 1};
    int cancel = 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the job is on this stack */
    (void)pthread_cond_init(&j.is_done, NULL);
    publish(&j);
    fn(self, 0);
    withdraw(&j);
    (void)pthread_cond_destroy(&j.is_done);
    (void)pthread_setcancelstate(cancel, NULL);
}

/* ---- spinning in parallel regions ---- */

#ifdef _OPENMP

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t is_over;
    uint32_t term; /* odd: spins are short */
} spins = {.mutex = PTHREAD_MUTEX_INITIALIZER, .is_over = PTHREAD_COND_INITIALIZER};

static _Atomic int32_t is_spinning_shortly;

/* Has a team of two, which ends with this thread. */
static void *hold_team(void *term)
{
    _Atomic int32_t members = 0;
#pragma omp parallel num_threads(2)
    atomic_fetch_add_explicit(&members, 1, memory_order_relaxed);
    (void)pthread_mutex_lock(&spins.mutex);
    while (spins.term == (uint32_t)(uintptr_t)term) {
        (void)pthread_cond_wait(&spins.is_over, &spins.mutex);
    }
    (void)pthread_mutex_unlock(&spins.mutex);
    return NULL;
}

void st_omp_spin_shortly(int32_t is_short)
{
    if (atomic_load_explicit(&is_spinning_shortly, memory_order_relaxed) == is_short) {
        return;
    }
    (void)pthread_mutex_lock(&spins.mutex);
    if ((spins.term & 1u) != (uint32_t)is_short) {
        spins.term++;
        (void)pthread_cond_broadcast(&spins.is_over);
        if (is_short) {
            (void)start(hold_team, (void *)(uintptr_t)spins.term);
        }
        atomic_store_explicit(&is_spinning_shortly, is_short, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&spins.mutex);
}

#else

void st_omp_spin_shortly(int32_t is_short)
{
    (void)is_short;
}

#endif
