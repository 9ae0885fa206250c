/* See soft_fiber.h. */
#define _GNU_SOURCE
#include "soft_fiber.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

/* The memory of a group is mapped at once, so that its alignment costs one stack in a group. */
bool soft_stacks_create(soft_stack *out)
{
    const size_t bytes = ST_SOFT_STACK_BYTES;
    char *memory = mmap(NULL, (SOFT_STACK_GROUP + 1) * bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    char *low = memory + (bytes - (uintptr_t)memory % bytes) % bytes;
    for (unsigned i = 0; i < SOFT_STACK_GROUP; i++, low += bytes) {
        if (mprotect(low, SOFT_GUARD_BYTES, PROT_NONE) != 0) {
            return false;
        }
        out[i].self = (struct st_soft_thread *)(low + bytes) - 1;
        out[i].next = NULL;
    }
    return true;
}

/* The first frame of the n-th stack lies a little lower than that of its neighbour: without that,
 * what all threads touch would fall into the same few lines of the first-level cache. */
static char *top_of(const soft_stack *stack, unsigned n)
{
    return (char *)stack->self - 64 - (size_t)(n % 32) * 128;
}

#ifdef __x86_64__

/* rdi: where to save the stack pointer; rsi: the one to go on with. The registers that a function
 * keeps for its caller lie on the stack that is left. */
__asm__(".text\n"
        ".type soft_switch_sp, @function\n"
        "soft_switch_sp:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "soft_go_on:\n" /* with rsp as it was saved */
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size soft_switch_sp, . - soft_switch_sp\n"
        /* The first thing that a stack runs: main in r12 with its argument in r13. */
        ".type soft_begin, @function\n"
        "soft_begin:\n"
        "    movq %r13, %rdi\n"
        "    call *%r12\n"
        "    ud2\n"
        ".size soft_begin, . - soft_begin\n");
void soft_switch_sp(void **from, void *to) __attribute__((visibility("hidden")));
void soft_begin(void) __attribute__((visibility("hidden")));

void soft_go_on(void) __attribute__((visibility("hidden")));

void soft_switch(soft_fiber *from, const soft_fiber *to)
{
    soft_switch_sp(&from->sp, to->sp);
}

void soft_go_on_after_signal(void *context, const soft_fiber *to)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    registers[REG_RSP] = (greg_t)(uintptr_t)to->sp;
    registers[REG_RIP] = (greg_t)(uintptr_t)soft_go_on;
}

void soft_stack_begin(soft_stack *stack, unsigned n, void (*main)(void *), void *argument)
{
    void **sp = (void **)((uintptr_t)top_of(stack, n) & ~(uintptr_t)15);
    *--sp = (void *)soft_begin; /* popped by ret: the stack is aligned to 16 before the call */
    *--sp = NULL;               /* rbp: the end of the frames */
    *--sp = NULL;               /* rbx */
    *--sp = (void *)main;       /* r12 */
    *--sp = argument;           /* r13 */
    *--sp = NULL;
    *--sp = NULL;
    stack->fiber.sp = sp;
}

#else

void soft_switch(soft_fiber *from, const soft_fiber *to)
{
    swapcontext(&from->context, &to->context);
}

void soft_go_on_after_signal(void *context, const soft_fiber *to)
{
    (void)context;
    setcontext(&to->context); /* from within the handler, which is left */
}

/* makecontext passes numbers of 32 bits. */
static void begin(unsigned main_low, unsigned main_high, unsigned low, unsigned high)
{
    void (*main)(void *) = (void (*)(void *))(((uintptr_t)main_high << 32) | main_low);
    main((void *)(((uintptr_t)high << 32) | low));
}

void soft_stack_begin(soft_stack *stack, unsigned n, void (*main)(void *), void *argument)
{
    char *low = (char *)(stack->self + 1) - ST_SOFT_STACK_BYTES;
    const uintptr_t f = (uintptr_t)main;
    const uintptr_t a = (uintptr_t)argument;
    getcontext(&stack->fiber.context);
    stack->fiber.context.uc_stack.ss_sp = low;
    stack->fiber.context.uc_stack.ss_size = (size_t)(top_of(stack, n) - low);
    stack->fiber.context.uc_link = NULL;
    makecontext(&stack->fiber.context, (void (*)(void))begin, 4, (unsigned)f, (unsigned)(f >> 32),
                (unsigned)a, (unsigned)(a >> 32));
}

#endif
