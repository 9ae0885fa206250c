/* The blocks of a grid, in the options' order, on the thread that holds the lock and maybe on one
 * helper thread, which waits for grids as long as the process lives. */
#include "soft_block.h"

#include <pthread.h>
#include <stdlib.h>

#define ALONE 4096 /* threads of a grid up to which a helper costs more than it brings */

typedef struct grid {
    const soft_launch *launch;
    uint64_t start, step; /* block i is the one of number start + i * step, modulo their number */
    _Atomic uint64_t next;
    _Atomic bool is_over; /* a block has failed */
} grid;

/* What the helper is asked for. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    grid *asked;
    bool is_there;
    bool is_busy;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

soft_worker *soft_worker_get(unsigned i)
{
    static soft_worker *workers[2];
    if (workers[i] == NULL) {
        soft_worker *worker = calloc(1, sizeof(soft_worker));
        /* An odd step keeps the workers' numbers apart. */
        if (worker != NULL) {
            worker->random = soft.options.seed * 2 + i;
            worker->shared_room = soft.options.chip->shared_optin_bytes;
            worker->shared = aligned_alloc(256, (worker->shared_room + 511u) / 256 * 256);
        }
        if (worker != NULL && worker->shared == NULL) {
            free(worker);
            worker = NULL;
        }
        workers[i] = worker;
    }
    return workers[i];
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void order_blocks(grid *g)
{
    const uint64_t n = g->launch->n_blocks;
    uint64_t random = g->launch->seed;
    g->start = 0;
    g->step = 1;
    if (g->launch->order == SOFT_DESCENDING) {
        g->start = n - 1;
        g->step = n - 1;
    } else if (g->launch->order == SOFT_RANDOM) {
        g->start = soft_random(&random, n);
        do {
            g->step = n > 1 ? 1 + soft_random(&random, n - 1) : 1;
        } while (divisor(n, g->step) != 1);
    }
}

/* Runs blocks until none is left or one has failed. */
static void run_blocks(soft_worker *w, grid *g)
{
    const uint64_t n = g->launch->n_blocks;
    w->error.code = CUDA_SUCCESS;
    soft_trap_enter(w);
    while (!atomic_load(&g->is_over)) {
        const uint64_t i = atomic_fetch_add(&g->next, 1);
        if (i >= n) {
            break;
        }
        const uint64_t block = (uint64_t)((g->start + (unsigned __int128)i * g->step) % n);
        if (!soft_run_block(w, g->launch, block)) {
            atomic_store(&g->is_over, true);
        }
    }
    soft_trap_leave();
}

static void *help(void *argument)
{
    pthread_mutex_lock(&helper.lock);
    for (;;) {
        while (helper.asked == NULL) {
            pthread_cond_wait(&helper.changed, &helper.lock);
        }
        grid *g = helper.asked;
        helper.asked = NULL;
        pthread_mutex_unlock(&helper.lock);
        run_blocks(argument, g);
        pthread_mutex_lock(&helper.lock);
        helper.is_busy = false;
        pthread_cond_broadcast(&helper.changed);
    }
    return NULL;
}

/* Gives the grid to the helper; NULL when there is none. */
static soft_worker *ask_helper(grid *g)
{
    soft_worker *worker = soft_worker_get(1);
    pthread_mutex_lock(&helper.lock);
    if (!helper.is_there && worker != NULL) {
        pthread_t thread;
        helper.is_there = pthread_create(&thread, NULL, help, worker) == 0;
        if (helper.is_there) {
            pthread_detach(thread);
        }
    }
    if (helper.is_there) {
        helper.asked = g;
        helper.is_busy = true;
        pthread_cond_broadcast(&helper.changed);
    }
    const bool is_asked = helper.is_there;
    pthread_mutex_unlock(&helper.lock);
    return is_asked ? worker : NULL;
}

static void wait_for_helper(void)
{
    pthread_mutex_lock(&helper.lock);
    while (helper.is_busy) {
        pthread_cond_wait(&helper.changed, &helper.lock);
    }
    pthread_mutex_unlock(&helper.lock);
}

void soft_run_grid(const soft_launch *launch, unsigned n_workers, soft_error *out_error)
{
    grid g = {.launch = launch};
    soft_worker *own = soft_worker_get(0);
    out_error->code = CUDA_SUCCESS;
    if (own == NULL) {
        *out_error = (soft_error){CUDA_ERROR_LAUNCH_FAILED, "the host has no memory for a worker"};
        return;
    }
    order_blocks(&g);
    const bool is_large = launch->n_blocks > 1 && launch->n_blocks * launch->threads > ALONE;
    const soft_worker *other = n_workers > 1 && is_large ? ask_helper(&g) : NULL;
    run_blocks(own, &g);
    if (other != NULL) {
        wait_for_helper();
    }
    if (own->error.code != CUDA_SUCCESS) {
        *out_error = own->error;
    } else if (other != NULL && other->error.code != CUDA_SUCCESS) {
        *out_error = other->error;
    }
}
