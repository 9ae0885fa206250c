/* A race takes ways to do the same, and a function that times one run of one, and finds the
 * shortest runs of each. */
#include "plugins/cpu-llvm/onednn/dn_race.h"

#define RUNS_MIN 2u /* the first may make what a library keeps for all others: 60 ms, at times */
#define RUNS_MAX 8u
#define LONG_NS UINT64_C(20000000) /* ways as long as this run as seldom as may be */
#define RIVAL_PART 2u /* a rival is longer than the fastest by no more than this part of it */
#define CLOSE_PART 8u /* by no more than this: too close to tell from so few runs */
#define CLOSE_ROUNDS 2u
#define CLOSE_IN_A_ROW 2u /* the second finds in the caches what the first has left there */

typedef struct race {
    dn_racer *all;
    uint32_t n;
    uint32_t times;
    dn_timed run;
    void *user;
} race;

uint32_t dn_race_best(const dn_racer *all, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        best = all[i].ns < all[best].ns ? i : best;
    }
    return best;
}

static uint64_t best_ns(const race *r)
{
    return r->all[dn_race_best(r->all, r->n)].ns;
}

static bool is_long(const race *r, uint64_t ns)
{
    return ns >= r->times * LONG_NS;
}

/* Two runs of a long way are enough, where they are not too far apart to be of one way. */
static bool has_converged(const race *r, const dn_racer *way)
{
    const uint64_t apart = way->next_ns - way->ns;
    return apart <= way->ns / (is_long(r, way->ns) ? 1u : 8u);
}

/* A race of long ways has the fewest runs, however thorough it is to be. */
static uint32_t times_of(const race *r)
{
    return is_long(r, best_ns(r)) ? 1 : r->times;
}

/* The longest that the shortest run of a way may take which may still be the fastest; in a thorough
 * race every way may that is not long. */
static uint64_t limit_of(const race *r, uint64_t part)
{
    const uint64_t ns = best_ns(r);
    const uint64_t near_ns = ns == UINT64_MAX ? ns : ns + ns / part;
    const uint64_t long_ns = r->times * LONG_NS;
    return r->times > 1 && near_ns < long_ns ? long_ns : near_ns;
}

static bool is_in(const dn_racer *way, uint64_t limit_ns)
{
    return way->works && way->ns <= limit_ns;
}

static void run(const race *r, uint32_t i)
{
    dn_racer *way = &r->all[i];
    const uint64_t ns = r->run(r->user, i);
    if (ns == UINT64_MAX) {
        *way = (dn_racer){.ns = UINT64_MAX, .next_ns = UINT64_MAX, .works = false};
    } else if (ns < way->ns) {
        way->next_ns = way->ns;
        way->ns = ns;
    } else if (ns < way->next_ns) {
        way->next_ns = ns;
    }
}

/* So many runs of each way within the limit: other work then slows all of a round, and not all runs
 * of one. */
static void run_round(const race *r, uint64_t limit_ns, uint32_t in_a_row)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const bool is_rival = is_in(&r->all[i], limit_ns);
        for (uint32_t k = 0; is_rival && k < in_a_row && r->all[i].works; k++) {
            run(r, i);
        }
    }
}

static bool have_converged(const race *r, uint64_t limit_ns)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (is_in(&r->all[i], limit_ns) && !has_converged(r, &r->all[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t count_within(const race *r, uint64_t limit_ns)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        n += (uint32_t)is_in(&r->all[i], limit_ns);
    }
    return n;
}

static void run_rivals(const race *r)
{
    for (uint32_t n = 0; n < times_of(r) * RUNS_MAX; n++) {
        const uint64_t limit_ns = n < RUNS_MIN ? UINT64_MAX : limit_of(r, RIVAL_PART);
        if (n >= times_of(r) * RUNS_MIN && have_converged(r, limit_ns)) {
            return;
        }
        run_round(r, limit_ns, 1);
    }
}

static void run_close(const race *r)
{
    for (uint32_t n = 0; n < times_of(r) * CLOSE_ROUNDS; n++) {
        const uint64_t limit_ns = limit_of(r, CLOSE_PART);
        if (count_within(r, limit_ns) < 2) {
            return;
        }
        run_round(r, limit_ns, is_long(r, best_ns(r)) ? 1 : CLOSE_IN_A_ROW);
    }
}

void dn_race(dn_racer *all, uint32_t n, uint32_t times, dn_timed time_run, void *user)
{
    const race r = {.all = all, .n = n, .times = times, .run = time_run, .user = user};
    for (uint32_t i = 0; i < n; i++) {
        all[i] = (dn_racer){.ns = UINT64_MAX, .next_ns = UINT64_MAX, .works = true};
    }
    run_rivals(&r);
    run_close(&r);
}
