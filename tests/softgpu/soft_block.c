/* The threads of a block.
 *
 * A warp that can go on is taken at random (or the first, or the last); its lanes run one after the
 * other, in an order of the same kind, until each waits at a meeting point or has ended. Then the
 * warp converges: a shuffle where all its lanes wait gives each its value and the warp can go on;
 * a barrier where all wait makes the warp wait for the others; anything else is a divergence, which
 * ends the launch. So between two meeting points nothing is known about who runs first, within a
 * warp too: what needs an order that no meeting point makes reads old values here.
 *
 * A lane begins on a free stack. As long as lanes end without waiting, the next one begins on the
 * same stack (run_lanes), which costs a call. */
#include "soft_block.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "soft_memory.h"

static const char *name_of(uint32_t kind)
{
    return kind == ST_SOFT_BARRIER ? "barrier" : kind == ST_SOFT_GATHER ? "matrix" : "shuffle";
}

__attribute__((format(printf, 3, 4))) static void fail(soft_worker *w, CUresult code,
                                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n =
        snprintf(w->error.text, sizeof(w->error.text), "kernel '%s', block %llu: ", w->launch->name,
                 (unsigned long long)w->block);
    vsnprintf(w->error.text + n, sizeof(w->error.text) - (size_t)n, format, arguments);
    va_end(arguments);
    w->error.code = code;
}

/* ---- lanes ---- */

static st_u64 meet(struct st_soft_thread *self, st_u32 kind, st_u32 line, st_u64 value, st_u32 mask)
{
    soft_worker *w = self->worker;
    soft_lane *lane = &w->lanes[self->thread];
    soft_stack *stack = self->stack;
    lane->state = SOFT_LANE_WAITS;
    lane->kind = kind;
    lane->line = line;
    lane->value = value;
    lane->mask = mask;
    lane->stack = stack;
    soft_switch(&stack->fiber, &w->scheduler);
    return lane->value;
}

static void begin_lane(soft_worker *w, struct st_soft_thread *self, uint32_t thread)
{
    self->block = (st_i64)w->block;
    self->thread = thread;
    self->shared_used = 0;
    w->current = thread;
    w->launch->kernel->entry(w->launch->arguments);
    w->lanes[thread].state = SOFT_LANE_DONE;
}

/* What a stack runs: new lanes of the queue, as long as none of them waited. A lane that did has
 * been resumed by the scheduler, and the stack goes back there when it ends. */
static void run_lanes(void *argument)
{
    soft_stack *stack = argument;
    struct st_soft_thread *self = stack->self;
    soft_worker *w = self->worker;
    for (;;) {
        bool has_waited = false;
        while (!has_waited && w->queue_at < w->n_queue &&
               w->lanes[w->queue[w->queue_at]].state == SOFT_LANE_NEW) {
            const uint32_t thread = w->queue[w->queue_at++];
            begin_lane(w, self, thread);
            has_waited = w->lanes[thread].stack != NULL;
            w->lanes[thread].stack = NULL;
        }
        stack->next = w->free_stacks;
        w->free_stacks = stack;
        soft_switch(&stack->fiber, &w->scheduler);
    }
}

static void begin_stack(soft_worker *w, unsigned n)
{
    soft_stack *stack = &w->stacks[n];
    *stack->self = (struct st_soft_thread){.blocks = (st_i64)w->launch->n_blocks,
                                           .shared = w->shared,
                                           .meet = meet,
                                           .worker = w,
                                           .stack = stack};
    soft_stack_begin(stack, n, run_lanes, stack);
    stack->next = w->free_stacks;
    w->free_stacks = stack;
}

/* A stack that runs no lane; NULL when the host has no memory. */
static soft_stack *take_stack(soft_worker *w)
{
    if (w->free_stacks == NULL) {
        if (!soft_stacks_create(&w->stacks[w->n_stacks])) {
            return NULL;
        }
        for (unsigned i = 0; i < SOFT_STACK_GROUP; i++) {
            begin_stack(w, w->n_stacks++);
        }
    }
    soft_stack *stack = w->free_stacks;
    w->free_stacks = stack->next;
    return stack;
}

/* ---- warps ---- */

/* Puts the lanes of a warp into the queue, in the order of this pass. */
static void order_lanes(soft_worker *w, uint32_t first, uint32_t n)
{
    w->queue_at = 0;
    w->n_queue = n;
    for (uint32_t i = 0; i < n; i++) {
        w->queue[i] = w->launch->order == SOFT_DESCENDING ? first + n - 1 - i : first + i;
    }
    for (uint32_t i = n; w->launch->order == SOFT_RANDOM && i > 1; i--) {
        const uint32_t j = (uint32_t)soft_random(&w->random, i);
        const uint32_t other = w->queue[j];
        w->queue[j] = w->queue[i - 1];
        w->queue[i - 1] = other;
    }
}

/* Runs the lanes of a warp until each waits or has ended. */
static bool run_warp(soft_worker *w, uint32_t first, uint32_t n)
{
    order_lanes(w, first, n);
    while (w->queue_at < n) {
        soft_lane *lane = &w->lanes[w->queue[w->queue_at]];
        soft_stack *stack = lane->stack;
        if (lane->state == SOFT_LANE_NEW) {
            stack = take_stack(w);
            if (stack == NULL) {
                fail(w, CUDA_ERROR_LAUNCH_FAILED, "the host has no memory for a thread's stack");
                return false;
            }
        } else {
            w->current = w->queue[w->queue_at++];
        }
        w->is_in_kernel = true;
        soft_switch(&w->scheduler, &stack->fiber);
        w->is_in_kernel = false;
        if (w->trap.signal != 0) {
            return false;
        }
    }
    return true;
}

static void describe_lane(const soft_worker *w, uint32_t thread, char out[80])
{
    const soft_lane *lane = &w->lanes[thread];
    if (lane->state == SOFT_LANE_DONE) {
        snprintf(out, 80, "thread %u has ended", thread);
    } else {
        snprintf(out, 80, "thread %u waits at the %s of line %u", thread, name_of(lane->kind),
                 lane->line);
    }
}

static void fail_divergent(soft_worker *w, uint32_t one, uint32_t other)
{
    char first[80];
    char second[80];
    describe_lane(w, one, first);
    describe_lane(w, other, second);
    const bool is_shuffle = w->lanes[one].kind != ST_SOFT_BARRIER;
    fail(w, CUDA_ERROR_LAUNCH_FAILED, "%s, but %s; all threads of a %s must meet there", first,
         second, is_shuffle ? "warp" : "block");
}

static bool is_same_place(const soft_lane *a, const soft_lane *b)
{
    return a->state == b->state &&
           (a->state == SOFT_LANE_DONE || (a->kind == b->kind && a->line == b->line));
}

/* Gives each lane of a warp the value of the lane that its mask names. */
static bool exchange(soft_worker *w, uint32_t first, uint32_t n)
{
    uint64_t values[64];
    const uint32_t warp = w->launch->kernel->warp;
    for (uint32_t i = 0; i < n; i++) {
        const soft_lane *lane = &w->lanes[first + i];
        const uint32_t from = i ^ lane->mask;
        if (lane->mask >= warp || from >= n) {
            fail(w, CUDA_ERROR_LAUNCH_FAILED,
                 "thread %u reads lane %u in the shuffle of line %u, but its warp has %u lanes",
                 first + i, from, lane->line, n);
            return false;
        }
        values[i] = w->lanes[first + from].value;
    }
    for (uint32_t i = 0; i < n; i++) {
        w->lanes[first + i].value = values[i];
    }
    return true;
}

/* Gives each lane of a whole warp the address of all lanes' values. */
static bool gather(soft_worker *w, uint32_t warp, uint32_t first, uint32_t n)
{
    if (n != w->launch->kernel->warp) {
        fail(w, CUDA_ERROR_LAUNCH_FAILED, "warp %u has %u lanes where it meets for a matrix", warp,
             n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        w->gathered[first + i] = w->lanes[first + i].value;
        w->lanes[first + i].value = (uint64_t)(uintptr_t)&w->gathered[first];
    }
    return true;
}

/* After a pass of a warp: it has ended, can go on, or waits at a barrier. */
static bool converge_warp(soft_worker *w, uint32_t warp, uint32_t first, uint32_t n)
{
    uint32_t waiting = first;
    for (uint32_t i = first; i < first + n; i++) {
        waiting = w->lanes[i].state == SOFT_LANE_WAITS && w->lanes[waiting].state == SOFT_LANE_DONE
                      ? i
                      : waiting;
    }
    for (uint32_t i = first; i < first + n; i++) {
        if (!is_same_place(&w->lanes[waiting], &w->lanes[i])) {
            fail_divergent(w, waiting, i);
            return false;
        }
    }
    if (w->lanes[first].state == SOFT_LANE_DONE) {
        w->n_done++;
    } else if (w->lanes[first].kind == ST_SOFT_BARRIER) {
        w->n_at_barrier++;
    } else {
        w->warps[w->n_warps++] = warp;
        return w->lanes[first].kind == ST_SOFT_GATHER ? gather(w, warp, first, n)
                                                      : exchange(w, first, n);
    }
    return true;
}

/* ---- the block ---- */

/* When no warp can go on: all have ended, or all wait at one barrier, which lets them go on. */
static bool pass_barrier(soft_worker *w, uint32_t n_warps)
{
    const uint32_t warp = w->launch->kernel->warp;
    uint32_t waiting = 0;
    while (w->lanes[waiting].state == SOFT_LANE_DONE) {
        waiting += warp;
    }
    for (uint32_t i = 0; i < n_warps; i++) {
        if (!is_same_place(&w->lanes[waiting], &w->lanes[i * warp])) {
            fail_divergent(w, waiting, i * warp);
            return false;
        }
        w->warps[i] = i;
    }
    w->n_warps = n_warps;
    w->n_at_barrier = 0;
    return true;
}

static uint32_t take_warp(soft_worker *w)
{
    const enum soft_order order = w->launch->order;
    uint32_t at = 0;
    for (uint32_t i = 1; i < w->n_warps && order != SOFT_RANDOM; i++) {
        at = (w->warps[i] < w->warps[at]) == (order == SOFT_ASCENDING) ? i : at;
    }
    at = order == SOFT_RANDOM ? (uint32_t)soft_random(&w->random, w->n_warps) : at;
    const uint32_t warp = w->warps[at];
    w->warps[at] = w->warps[--w->n_warps];
    return warp;
}

static bool run_warps(soft_worker *w)
{
    const uint32_t threads = w->launch->threads;
    const uint32_t width = w->launch->kernel->warp;
    const uint32_t n_warps = (threads + width - 1) / width;
    w->n_warps = n_warps;
    w->n_at_barrier = w->n_done = 0;
    for (uint32_t i = 0; i < n_warps; i++) {
        w->warps[i] = i;
    }
    while (w->n_done < n_warps) {
        if (w->n_warps == 0 && !pass_barrier(w, n_warps)) {
            return false;
        }
        const uint32_t warp = take_warp(w);
        const uint32_t first = warp * width;
        const uint32_t n = threads - first < width ? threads - first : width;
        if (!run_warp(w, first, n) || !converge_warp(w, warp, first, n)) {
            return false;
        }
    }
    return true;
}

/* Whether an address is in the guard page of a thread's stack. */
static bool is_below_stack(const soft_worker *w, uint64_t address)
{
    for (unsigned i = 0; i < w->n_stacks; i++) {
        const uint64_t low = (uint64_t)(uintptr_t)(w->stacks[i].self + 1) - ST_SOFT_STACK_BYTES;
        if (address - low < SOFT_GUARD_BYTES) {
            return true;
        }
    }
    return false;
}

/* The error that a signal of a kernel stands for. Kernels are compiled so that an access that is
 * not aligned to its type is an illegal instruction. */
static void explain_trap(soft_worker *w)
{
    char where[300];
    const soft_trap *trap = &w->trap;
    if (trap->signal == SIGFPE) {
        fail(w, CUDA_ERROR_LAUNCH_FAILED, "thread %u: integer division by zero", w->current);
    } else if (trap->signal == SIGILL) {
        fail(w, CUDA_ERROR_MISALIGNED_ADDRESS,
             "thread %u reads or writes at an address that is not aligned to its type", w->current);
    } else if (is_below_stack(w, trap->address)) {
        fail(w, CUDA_ERROR_LAUNCH_FAILED, "thread %u has used up its stack of %llu bytes",
             w->current, ST_SOFT_STACK_BYTES);
    } else {
        soft_describe_address(trap->address, where, sizeof(where));
        fail(w, CUDA_ERROR_ILLEGAL_ADDRESS, "thread %u %s %s", w->current,
             trap->is_write ? "writes" : "reads", where);
    }
}

bool soft_run_block(soft_worker *w, const soft_launch *launch, uint64_t block)
{
    w->launch = launch;
    w->block = block;
    w->trap.signal = 0;
    w->error.code = CUDA_SUCCESS;
    w->free_stacks = NULL;
    memset(w->lanes, 0, launch->threads * sizeof(w->lanes[0]));
    memset(w->shared, 0xff, launch->shared_bytes);
    for (unsigned i = w->n_stacks; i-- > 0;) {
        begin_stack(w, i);
    }
    if (run_warps(w)) {
        return true;
    }
    if (w->trap.signal != 0) {
        explain_trap(w);
    }
    return false;
}
