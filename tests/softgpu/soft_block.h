/* The executor: the threads of a block as fibers of one OS thread (soft_block.c), the blocks of a
 * grid on one or two OS threads (soft_grid.c), and signals of kernels as errors (soft_trap.c). */
#ifndef STATOR_TESTS_SOFT_BLOCK_H
#define STATOR_TESTS_SOFT_BLOCK_H

#include <stdatomic.h>

#include "soft_device.h"
#include "soft_fiber.h"

#define SOFT_BLOCK_THREADS_MAX 1024u
#define SOFT_TEXT_BYTES 600

typedef struct soft_launch {
    const char *name;
    const struct st_soft_kernel *kernel;
    uint64_t n_blocks;
    uint32_t threads;
    uint32_t shared_bytes; /* static and dynamic */
    const void *arguments;
    enum soft_order order;
    uint64_t seed;
} soft_launch;

enum soft_lane_state { SOFT_LANE_NEW, SOFT_LANE_WAITS, SOFT_LANE_DONE };

typedef struct soft_lane {
    enum soft_lane_state state;
    uint32_t kind, line, mask; /* of the meeting point where it waits */
    uint64_t value;
    soft_stack *stack; /* while it waits */
} soft_lane;

/* What went wrong: an error of the API, and a sentence. */
typedef struct soft_error {
    CUresult code; /* CUDA_SUCCESS: nothing */
    char text[SOFT_TEXT_BYTES];
} soft_error;

/* A signal that a kernel, or a copy, was ended by. */
typedef struct soft_trap {
    int signal; /* 0: none */
    uint64_t address;
    bool is_write;
} soft_trap;

/* What an OS thread needs to run blocks: one for who holds the lock, one for the helper thread. */
typedef struct soft_worker {
    const soft_launch *launch;
    uint64_t block;
    uint64_t random;
    soft_fiber scheduler;
    soft_stack *free_stacks;
    soft_stack stacks[SOFT_BLOCK_THREADS_MAX];
    unsigned n_stacks;
    soft_lane lanes[SOFT_BLOCK_THREADS_MAX];
    uint32_t queue[SOFT_BLOCK_THREADS_MAX]; /* lanes of one warp, in the order of this pass */
    uint32_t queue_at, n_queue;
    uint32_t warps[SOFT_BLOCK_THREADS_MAX];    /* those that can go on */
    uint32_t n_warps, n_at_barrier, n_done;    /* warps */
    uint32_t current;                          /* the lane that runs */
    uint64_t gathered[SOFT_BLOCK_THREADS_MAX]; /* by thread, see ST_SOFT_GATHER */
    unsigned char *shared;
    uint32_t shared_room;
    _Alignas(16) char handler_stack[32 << 10]; /* of signals */
    soft_trap trap;
    void *escape; /* a sigjmp_buf of soft_guarded_call, while it runs */
    bool is_in_kernel;
    soft_error error;
} soft_worker;

/* Worker 0, of the thread that holds the lock, or 1, of the helper; created at first use, NULL when
 * the host has no memory. */
soft_worker *soft_worker_get(unsigned i);
/* Runs a block to its end; false with worker->error set. */
bool soft_run_block(soft_worker *worker, const soft_launch *launch, uint64_t block);
/* Runs a grid to its end; what went wrong first is in *out_error. */
void soft_run_grid(const soft_launch *launch, unsigned n_workers, soft_error *out_error);

/* Lets signals of kernels come to the worker of the calling thread, until soft_trap_leave. */
void soft_trap_enter(soft_worker *worker);
void soft_trap_leave(void);
/* Calls function(argument) on the caller's own stack; false when a signal ended it, see
 * worker->trap. */
bool soft_guarded_call(soft_worker *worker, void (*function)(void *), void *argument);

#endif
