/* Helpers that nobody waits for until they have begun.
 *
 * A parallel region of OpenMP ends when every thread of its team has come, and on a busy machine
 * one that has nothing left to do may come a time slice later. Here a caller does its work itself;
 * who of the crew gets a processor meanwhile takes part, and who comes too late finds the job gone.
 *
 * The crew are the threads of a parallel region that never ends, which a thread of its own opens.
 * So they are OpenMP's, and libgomp, which counts more threads than processors from then on, has
 * those that wait in other regions sleep soon in place of spinning for milliseconds. */
#define _GNU_SOURCE
#include "core/base/crew.h"

#include "core/base/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define SPIN_NS UINT64_C(10000) /* before sleeping */
#define LOOKS 64u               /* between two looks at the clock */

typedef struct job {
    void (*fn)(void *self, int32_t seat);
    void *self;
    int32_t seats, taken;
    _Atomic int32_t at_work; /* of the crew */
    pthread_cond_t is_done;  /* nobody is at work any more */
    struct job *next;
} job;

/* One for the process. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t has_job;
    job *first;
    int32_t asked;         /* threads that were asked for */
    int32_t asleep;        /* of them */
    _Atomic uint32_t jobs; /* so far */
} crew = {.mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, .has_job = PTHREAD_COND_INITIALIZER};

static void pause_once(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#ifdef _OPENMP

/* For a while, or until there are other jobs than those seen. */
static void look_out(uint32_t seen)
{
    const uint64_t end = st_now_ns() + SPIN_NS;
    do {
        for (uint32_t i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&crew.jobs, memory_order_relaxed) != seen) {
                return;
            }
            pause_once();
        }
    } while (st_now_ns() < end);
}

/* Under the mutex; NULL: there is none. */
static job *job_with_seats(void)
{
    job *j = crew.first;
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
        const uint32_t seen = atomic_load_explicit(&crew.jobs, memory_order_relaxed);
        (void)pthread_mutex_unlock(&crew.mutex);
        look_out(seen);
        (void)pthread_mutex_lock(&crew.mutex);
    }
    while ((j = job_with_seats()) == NULL) {
        crew.asleep++;
        (void)pthread_cond_wait(&crew.has_job, &crew.mutex);
        crew.asleep--;
    }
    return j;
}

static void help(void)
{
    (void)pthread_mutex_lock(&crew.mutex);
    for (;;) {
        job *j = next_job();
        const int32_t seat = j->taken++;
        atomic_fetch_add_explicit(&j->at_work, 1, memory_order_relaxed);
        (void)pthread_mutex_unlock(&crew.mutex);
        j->fn(j->self, seat);
        (void)pthread_mutex_lock(&crew.mutex);
        if (atomic_fetch_sub_explicit(&j->at_work, 1, memory_order_release) == 1) {
            (void)pthread_cond_signal(&j->is_done);
        }
    }
}

/* The first thread of the region keeps it open. */
static void *open_region(void *threads)
{
#pragma omp parallel num_threads((int)(intptr_t)threads + 1)
    if (omp_get_thread_num() > 0) {
        help();
    }
    return NULL;
}

/* Under the mutex: so many more than there ever were. Without them a caller is alone. */
static void ask_for(int32_t threads)
{
    pthread_attr_t detached;
    pthread_t opener;
    if (crew.asked >= threads || pthread_attr_init(&detached) != 0) {
        return;
    }
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    (void)pthread_create(&opener, &detached, open_region, (void *)(intptr_t)(threads - crew.asked));
    (void)pthread_attr_destroy(&detached);
    crew.asked = threads;
}

#else

static void ask_for(int32_t threads)
{
    (void)threads;
}

#endif

static void publish(job *j)
{
    (void)pthread_mutex_lock(&crew.mutex);
    ask_for(j->seats - 1);
    job **end = &crew.first;
    while (*end) {
        end = &(*end)->next;
    }
    *end = j;
    const int32_t asleep = crew.asleep;
    (void)pthread_mutex_unlock(&crew.mutex);
    atomic_fetch_add_explicit(&crew.jobs, 1, memory_order_relaxed);
    if (asleep) {
        (void)pthread_cond_broadcast(&crew.has_job);
    }
}

static void withdraw(job *j)
{
    (void)pthread_mutex_lock(&crew.mutex);
    job **at = &crew.first;
    while (*at != j) {
        at = &(*at)->next;
    }
    *at = j->next;
    (void)pthread_mutex_unlock(&crew.mutex);
    const uint64_t end = st_now_ns() + SPIN_NS;
    while (atomic_load_explicit(&j->at_work, memory_order_relaxed) && st_now_ns() < end) {
        pause_once();
    }
    (void)pthread_mutex_lock(&crew.mutex); /* who has left still signals under it */
    while (atomic_load_explicit(&j->at_work, memory_order_acquire)) {
        (void)pthread_cond_wait(&j->is_done, &crew.mutex);
    }
    (void)pthread_mutex_unlock(&crew.mutex);
}

void st_crew_run(int32_t seats, void (*fn)(void *self, int32_t seat), void *self)
{
    job j = {.fn = fn, .self = self, .seats = seats, .taken = 1};
    (void)pthread_cond_init(&j.is_done, NULL);
    publish(&j);
    fn(self, 0);
    withdraw(&j);
    (void)pthread_cond_destroy(&j.is_done);
}
