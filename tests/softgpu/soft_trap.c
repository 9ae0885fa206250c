/* Signals of kernels and copies as errors of the device.
 *
 * The handler runs on a stack of its own, since a kernel's may be what has run out. Behind it the
 * thread does not go on at the place of the fault but in the scheduler, which abandons the block. A
 * kernel holds no lock and owns no memory, so nothing is lost with its stacks. Signals of other
 * code go to whom they went before. */
#define _GNU_SOURCE
#include "soft_block.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define N_SIGNALS 4

static const int signals[N_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[N_SIGNALS];
/* The signal handler reads it: of the model that never allocates. */
static _Thread_local soft_worker *running __attribute__((tls_model("initial-exec")));
static _Thread_local stack_t stack_before; /* of signals, between enter and leave */

static bool is_write(const void *context)
{
#if defined(__x86_64__) && defined(REG_ERR)
    return (((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    (void)context;
    return false;
#endif
}

/* Lets the signal go to whom it went before: when the faulting place runs again. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    int i = 0;
    while (signals[i] != signal) {
        i++;
    }
    const struct sigaction *old = &before[i];
    if ((old->sa_flags & SA_SIGINFO) != 0) {
        old->sa_sigaction(signal, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signal);
    } else {
        sigaction(signal, old, NULL);
    }
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    soft_worker *w = running;
    if (w == NULL || (!w->is_in_kernel && w->escape == NULL)) {
        pass_on(signal, info, context);
        return;
    }
    w->trap = (soft_trap){signal, (uint64_t)(uintptr_t)info->si_addr, is_write(context)};
    if (w->escape != NULL) {
        siglongjmp(*(sigjmp_buf *)w->escape, 1);
    }
    soft_go_on_after_signal(context, &w->scheduler);
}

static void install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], &action, &before[i]);
    }
}

void soft_trap_enter(soft_worker *worker)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    const stack_t own = {.ss_sp = worker->handler_stack, .ss_size = sizeof(worker->handler_stack)};
    sigaltstack(&own, &stack_before);
    running = worker;
}

void soft_trap_leave(void)
{
    running = NULL;
    sigaltstack(&stack_before, NULL);
}

bool soft_guarded_call(soft_worker *worker, void (*function)(void *), void *argument)
{
    sigjmp_buf escape;
    worker->trap.signal = 0;
    if (sigsetjmp(escape, 1) == 0) {
        worker->escape = &escape;
        function(argument);
    }
    worker->escape = NULL;
    return worker->trap.signal == 0;
}
