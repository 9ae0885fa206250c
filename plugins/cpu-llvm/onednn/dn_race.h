/* Which of several ways to do the same is the fastest: a race (after Maron and Moore, "Hoeffding
 * Races", 1994), with the shortest of a few runs in the place of a bound on the mean. */
#ifndef STATOR_DN_RACE_H
#define STATOR_DN_RACE_H

#include <stdbool.h>
#include <stdint.h>

/* One way. */
typedef struct dn_racer {
    uint64_t ns;      /* the shortest run; UINT64_MAX: there is none */
    uint64_t next_ns; /* the shortest but one */
    bool works;       /* none of its runs has failed */
} dn_racer;

/* Runs way `i` once and returns its nanoseconds; UINT64_MAX: it does not work. */
typedef uint64_t (*dn_timed)(void *user, uint32_t i);

/* Times the `n` ways, of which there is one at least. They run in turn until of each rival the two
 * shortest runs agree, or for eight rounds, so that other work on the machine makes the race longer
 * and seldom its winner another; those close to the fastest run some times more. Fills `all`.
 * `times`: 1, or so many times as many runs, where the fastest is not long (20 ms, so many times),
 * and every way that is not long is a rival. All runs are on the caller's thread. */
void dn_race(dn_racer *all, uint32_t n, uint32_t times, dn_timed time_run, void *user);

/* The index of the fastest; 0 also where none works. */
uint32_t dn_race_best(const dn_racer *all, uint32_t n);

#endif
