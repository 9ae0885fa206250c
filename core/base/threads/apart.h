/* Threads of a team off the processor of their caller (core/base/threads/apart.c). */
#ifndef STATOR_BASE_APART_H
#define STATOR_BASE_APART_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ST_APART_MAX 64 /* seats that are looked after */

/* The team of a thread, as its last region had it. */
typedef struct st_apart {
    int32_t n;   /* seats; 0 is the caller's */
    int32_t cpu; /* the caller's processor, which the other threads avoid; -1: not set */
    int32_t thread[ST_APART_MAX]; /* by seat; 0: not seen */
} st_apart;

/* The caller, before a region of so many seats: where it has moved to another processor since,
 * or the team has changed, the team's threads are to leave that. Costs a look at the processor
 * else. */
void st_apart_begin(st_apart *team, int32_t seats);
/* Each thread of the region, in it. */
void st_apart_note(st_apart *team, int32_t seat);
/* The caller, behind it. */
void st_apart_end(st_apart *team, int32_t seats);

#ifdef __cplusplus
}
#endif
#endif
