/* Helpers that nobody waits for until they have begun (core/base/threads/thread_pool.c). */
#ifndef STATOR_BASE_THREAD_POOL_H
#define STATOR_BASE_THREAD_POOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls fn(self, 0) in the caller and, while that lasts, fn(self, seat) in threads of the thread
 * pool, each seat from 1 below `seats` at most once. Returns when all that have begun have
 * ended. So fn(self, 0) has to leave nothing undone when it is the only one. Any number of
 * threads may call at once and share the thread pool, which is made at the first call and stays. */
void st_thread_pool_run(int32_t seats, void (*fn)(void *self, int32_t seat), void *self);

/* Shall threads that wait in parallel regions, oneDNN's too, sleep soon? Else they spin for what
 * the environment says, some milliseconds. Any thread. */
void st_omp_spin_shortly(int32_t is_short);

#ifdef __cplusplus
}
#endif
#endif
