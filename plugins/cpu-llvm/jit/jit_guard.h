/* Running LLVM so that its fatal errors do not end the process.
 *
 * LLVM's handler for fatal errors must not return, and unwinding through LLVM is not allowed. So
 * whatever calls LLVM runs on a thread of its own; on a fatal error that thread stays parked for
 * ever (its stack and LLVM objects are lost) and the caller goes on with the error's text. */
#ifndef STATOR_CPU_LLVM_JIT_GUARD_H
#define STATOR_CPU_LLVM_JIT_GUARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct jit_guard jit_guard;

/* Starts fn(arg) on a guarded thread; NULL when there is no thread or memory for one. `arg` must
 * outlive the wait, and for a thread that died everything it used must stay as it is. */
jit_guard *jit_guard_start(void (*fn)(void *arg), void *arg);
/* Waits until it has ended: 1, or died: 0 with LLVM's text in msg. Frees the guard. */
bool jit_guard_wait(jit_guard *guard, char *msg, uint64_t msg_size);
/* Once a process, before the first use of LLVM. */
void jit_guard_install(void);

#endif
