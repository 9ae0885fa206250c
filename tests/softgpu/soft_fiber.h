/* Stacks of a kernel's threads, and the switch between them.
 *
 * A stack is ST_SOFT_STACK_BYTES of memory aligned to as many, with a guard page at its low end and
 * an st_soft_thread at its high end (gpu_prelude_soft.h). Stacks belong to one OS thread. This file
 * and the executor are built without sanitizers, which know nothing of the switch. */
#ifndef STATOR_TESTS_SOFT_FIBER_H
#define STATOR_TESTS_SOFT_FIBER_H

#define ST_SOFT_EXECUTOR
#include "gpu_prelude_soft.h"

#include <stdbool.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

/* Where a computation goes on. */
typedef struct soft_fiber {
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t context;
#endif
} soft_fiber;

#define SOFT_STACK_GROUP 32u
#define SOFT_GUARD_BYTES 4096u

typedef struct soft_stack {
    soft_fiber fiber;
    struct st_soft_thread *self; /* at the end of the memory */
    struct soft_stack *next;     /* of a list of free ones */
} soft_stack;

/* Saves where the caller is in `from` and goes on at `to`; returns when something switches back. */
void soft_switch(soft_fiber *from, const soft_fiber *to);
/* In a signal handler: lets the interrupted thread go on at `to` when the handler returns.
 * `context` is the handler's third argument. What was interrupted never goes on. */
void soft_go_on_after_signal(void *context, const soft_fiber *to);
/* Makes SOFT_STACK_GROUP new stacks, which stay; false when the host has no memory. */
bool soft_stacks_create(soft_stack *out);
/* Lets the stack begin with main(argument), which never returns, at the next switch to it. */
void soft_stack_begin(soft_stack *stack, unsigned n, void (*main)(void *), void *argument);

#endif
