/* core/base/threads: loops over all processors, the pool behind them, where threads run (apart.h)
 * and whether other programs want the processors (contention.h).
 *
 * parallel_for over one process-wide OpenMP team, or the thread pool where processors are
 * scarce; clock. */
#ifndef STATOR_BASE_THREADS_H
#define STATOR_BASE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ST_PARALLEL_CHUNKS 4

/* Cuts [0, n) into chunks, at most ST_PARALLEL_CHUNKS for each of `threads` (one each where grain
 * allows no more) and none shorter than grain (but the last), and calls fn on each: a thread has
 * its own, then takes what others have left. Inside another parallel region, or when there is one
 * chunk, runs in the caller. */
void st_parallel_for(int32_t threads, int64_t n, int64_t grain,
                     void (*fn)(void *self, int64_t begin, int64_t end), void *self);
bool st_is_in_parallel(void); /* in a chunk of a team or the thread pool, or in a parallel region */
int32_t st_cpu_count(void);   /* processors this process may use */
uint64_t st_now_ns(void);     /* monotonic clock */

/* Between two looks at what another thread will write. */
static inline void st_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#ifdef __cplusplus
}
#endif
#endif
