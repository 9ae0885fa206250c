/* Whether teams of threads pay on this machine now.
 *
 * A team of threads that share a piece of work evenly waits for the last of them. Where another
 * program has that one's processor, the wait is a time slice of the scheduler, milliseconds for
 * work of microseconds, and the caller alone would have been faster. So what teams took is added
 * up beside what it would have taken without them, over windows of time in teams; after some
 * windows in a row in which teams were slower the process does without them, for a while that
 * doubles as long as the first window behind it is no better. */
#include "core/base/threads/contention.h"

#include <stdatomic.h>

#define WINDOW_NS UINT64_C(20000000) /* parallel time after which a window is judged */
#define GAIN_PARTS 8  /* a window is bad when one of so many parts of it would be saved */
#define BAD_WINDOWS 3 /* bad windows in a row that show a contended machine */
#define REST_NS UINT64_C(250000000) /* the first rest; after a rest one more bad window is enough */
#define REST_DOUBLINGS 5            /* each rest takes twice as long, so often at most */

/* Threads that race here lose a note of one of them. */
static struct {
    _Atomic uint64_t took_ns, alone_ns; /* sums of the current window */
    _Atomic uint64_t rests_until_ns;
    _Atomic int32_t bad_windows;
    _Atomic int32_t doublings; /* factor of the next rest: REST_NS << doublings */
} load;

static uint64_t get(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void set(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_relaxed);
}

bool st_is_contended(uint64_t now)
{
    return now < get(&load.rests_until_ns);
}

static void judge_window(bool is_bad, uint64_t now)
{
    int32_t bad = is_bad ? atomic_load_explicit(&load.bad_windows, memory_order_relaxed) + 1 : 0;
    if (bad == 0) {
        atomic_store_explicit(&load.doublings, 0, memory_order_relaxed);
    } else if (bad == BAD_WINDOWS) {
        const int32_t n = atomic_load_explicit(&load.doublings, memory_order_relaxed);
        bad--;
        set(&load.rests_until_ns, now + (REST_NS << n));
        atomic_store_explicit(&load.doublings, n < REST_DOUBLINGS ? n + 1 : n,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&load.bad_windows, bad, memory_order_relaxed);
}

void st_contention_note(uint64_t took_ns, uint64_t alone_ns, uint64_t now)
{
    const uint64_t took = get(&load.took_ns) + took_ns;
    const uint64_t alone = get(&load.alone_ns) + alone_ns;
    const bool is_whole = took >= WINDOW_NS;
    set(&load.took_ns, is_whole ? 0 : took);
    set(&load.alone_ns, is_whole ? 0 : alone);
    if (is_whole) {
        judge_window(took / GAIN_PARTS * (GAIN_PARTS - 1) > alone, now);
    }
}
