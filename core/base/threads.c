/* One OpenMP team for the process: the threads of the first parallel region stay for the next.
 *
 * Ranges are cut before the team starts, so which ranges exist depends on (threads, n, grain)
 * alone, not on how many threads came. A child made by fork after a parallel region must not call
 * st_parallel_for with threads > 1: libgomp's team does not survive fork. */
#define _GNU_SOURCE
#include "core/base/threads.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static int is_nested(void)
{
#ifdef _OPENMP
    return omp_in_parallel();
#else
    return 1;
#endif
}

void st_parallel_for(int32_t threads, int64_t n, int64_t grain,
                     void (*fn)(void *self, int64_t begin, int64_t end), void *self)
{
    if (n <= 0) {
        return;
    }
    grain = grain < 1 ? 1 : grain;
    if (threads <= 1 || n <= grain || is_nested()) {
        fn(self, 0, n);
        return;
    }
    int64_t step = n / threads + (n % threads != 0);
    step = step < grain ? grain : step;
    const int64_t ranges = n / step + (n % step != 0);
    if (ranges == 1) {
        fn(self, 0, n);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for schedule(static, 1) num_threads((int)ranges)
#endif
    for (int64_t i = 0; i < ranges; i++) {
        const int64_t begin = i * step;
        fn(self, begin, n - begin < step ? n : begin + step);
    }
}

int32_t st_cpu_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return CPU_COUNT(&set);
    }
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
    return online > 0 ? (int32_t)online : 1;
}

uint64_t st_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
