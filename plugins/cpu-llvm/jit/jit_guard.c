/* Guarded threads; see the header. */
#include "jit_guard.h"

#include "core/base/alloc.h"

#include <llvm-c/ErrorHandling.h>
#include <stdio.h>
#include <unistd.h>

#define GUARD_STACK_BYTES ((size_t)16 << 20) /* LLVM's recursions; reserved, not used */
#define GUARD_TEXT_BYTES 256u

enum guard_state { GUARD_RUNS = 0, GUARD_ENDED = 1, GUARD_DIED = 2 };

struct jit_guard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t state;
    pthread_t thread;
    void (*fn)(void *arg);
    void *arg;
    char text[GUARD_TEXT_BYTES];
};

/* LLVM's handler gets no argument of ours, so the thread itself must know its guard. */
static _Thread_local jit_guard *current_guard;

static void change(jit_guard *guard, uint32_t state)
{
    (void)pthread_mutex_lock(&guard->mutex);
    guard->state = state;
    (void)pthread_cond_signal(&guard->changed);
    (void)pthread_mutex_unlock(&guard->mutex);
}

static void *guarded(void *self)
{
    jit_guard *guard = self;
    current_guard = guard;
    guard->fn(guard->arg);
    change(guard, GUARD_ENDED);
    return NULL;
}

static void on_fatal(const char *reason)
{
    jit_guard *guard = current_guard;
    if (guard == NULL) {
        return; /* not one of ours: LLVM's default follows */
    }
    (void)snprintf(guard->text, sizeof guard->text, "%s", reason);
    change(guard, GUARD_DIED);
    for (;;) {
        (void)pause();
    }
}

void jit_guard_install(void)
{
    LLVMInstallFatalErrorHandler(on_fatal);
}

jit_guard *jit_guard_start(void (*fn)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    jit_guard *guard = st_process_alloc(sizeof *guard);
    if (guard == NULL) {
        return NULL;
    }
    *guard = (jit_guard){.fn = fn, .arg = arg};
    (void)pthread_mutex_init(&guard->mutex, NULL);
    (void)pthread_cond_init(&guard->changed, NULL);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, GUARD_STACK_BYTES);
    const int failed = pthread_create(&guard->thread, &attributes, guarded, guard);
    (void)pthread_attr_destroy(&attributes);
    if (failed) {
        st_process_free(guard);
        return NULL;
    }
    return guard;
}

bool jit_guard_wait(jit_guard *guard, char *msg, uint64_t msg_size)
{
    (void)pthread_mutex_lock(&guard->mutex);
    while (guard->state == GUARD_RUNS) {
        (void)pthread_cond_wait(&guard->changed, &guard->mutex);
    }
    const bool has_ended = guard->state == GUARD_ENDED;
    (void)pthread_mutex_unlock(&guard->mutex);
    if (!has_ended) {
        (void)snprintf(msg, (size_t)msg_size, "LLVM gave up: %s", guard->text);
        (void)pthread_detach(guard->thread);
        return false; /* the parked thread keeps the guard */
    }
    (void)pthread_join(guard->thread, NULL);
    (void)pthread_cond_destroy(&guard->changed);
    (void)pthread_mutex_destroy(&guard->mutex);
    st_process_free(guard);
    return true;
}
