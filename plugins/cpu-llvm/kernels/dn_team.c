/* Threads and floating point flags.
 *
 * oneDNN takes its number of threads from omp_get_max_threads(), when a primitive is created and
 * when it runs, and some primitives give wrong results when the two differ. So both are set from
 * the host's number, for this thread alone, and the number is part of a plan's key.
 *
 * maxps and minps drop a NaN in their first operand, which is how oneDNN does relu and clip; but
 * they set the invalid-operation flag for it (Intel SDM, MAXPS). A call that has such an epilogue
 * clears the flag in every thread of the team before and reads it after. libgomp runs regions of
 * one size from one thread on the same threads. */
#include "plugins/cpu-llvm/kernels/dn.h"

#include <omp.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define FLAG_INVALID 1u
#define FLAGS_ALL 0x3fu

int32_t dn_team_size(int wanted)
{
    if (wanted <= 1 || omp_in_parallel() || omp_get_max_active_levels() < 1) {
        return 1;
    }
    const int limit = omp_get_thread_limit();
    return wanted < limit ? wanted : limit;
}

dn_team dn_team_begin(int threads)
{
    const dn_team before = {omp_get_max_threads(), omp_get_dynamic()};
    if (before.threads != threads) {
        omp_set_num_threads(threads);
    }
    if (before.is_dynamic) {
        omp_set_dynamic(0);
    }
    return before;
}

void dn_team_end(const dn_team *before)
{
    if (omp_get_max_threads() != before->threads) {
        omp_set_num_threads(before->threads);
    }
    if (before->is_dynamic) {
        omp_set_dynamic(1);
    }
}

#if defined(__x86_64__)

static uint32_t flags_read(void)
{
    return _mm_getcsr() & FLAGS_ALL;
}

static void flags_clear(uint32_t flags)
{
    _mm_setcsr(_mm_getcsr() & ~flags);
}

uint32_t dn_flags_clear(int threads)
{
    const uint32_t before = flags_read();
    if (threads <= 1) {
        flags_clear(FLAG_INVALID);
        return before;
    }
#pragma omp parallel num_threads(threads)
    flags_clear(FLAG_INVALID);
    return before;
}

bool dn_flags_found(int threads, uint32_t before)
{
    uint32_t found = 0;
    if (threads <= 1) {
        found = flags_read();
    } else {
#pragma omp parallel num_threads(threads) reduction(| : found)
        found |= flags_read();
    }
    _mm_setcsr(_mm_getcsr() | before);
    return (found & FLAG_INVALID) != 0;
}

#else

uint32_t dn_flags_clear(int threads)
{
    (void)threads;
    return 0;
}

bool dn_flags_found(int threads, uint32_t before)
{
    (void)threads;
    (void)before;
    return 1; /* unknown: take care always */
}

#endif
