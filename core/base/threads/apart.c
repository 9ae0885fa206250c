/* Threads of a team off the processor of their caller.
 *
 * A caller that waits for its team spins. A thread of the team that the scheduler has put behind
 * it, on its processor, begins when the caller's time slice is over, milliseconds later, and does
 * so at each region; where other processes keep the other processors busy it may stay there for
 * many regions. So the caller takes its processor out of what the others may run on, and does so
 * again when it has moved.
 *
 * What the program has chosen stays: a thread is left alone unless it may run wherever the caller
 * may, but for one processor at most, and a caller with one processor does nothing. */
#define _GNU_SOURCE
#include "core/base/threads/apart.h"

#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local int32_t own_number; /* this thread's kernel id; 0: not asked for yet */

/* The number of a thread that has ended may be another program's by now. */
static bool is_here(int32_t thread)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d", (int)thread);
    return access(path, F_OK) == 0;
}

/* Is it where the caller is, as far as the program had a say? */
static bool is_free(int32_t thread, const cpu_set_t *all)
{
    cpu_set_t now;
    cpu_set_t both;
    if (!is_here(thread) || sched_getaffinity(thread, sizeof now, &now) != 0) {
        return false;
    }
    CPU_AND(&both, &now, all);
    return CPU_EQUAL(&both, &now) && CPU_COUNT(&now) + 1 >= CPU_COUNT(all);
}

static void keep_off(const st_apart *team, int cpu)
{
    cpu_set_t all;
    cpu_set_t others;
    if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0) {
        return; /* more processors than cpu_set_t holds */
    }
    others = all;
    CPU_CLR((unsigned)cpu, &others);
    if (CPU_COUNT(&others) == 0) {
        return;
    }
    for (int32_t seat = 1; seat < team->n; seat++) {
        if (team->thread[seat] != 0 && is_free(team->thread[seat], &all)) {
            (void)sched_setaffinity(team->thread[seat], sizeof others, &others);
        }
    }
}

void st_apart_begin(st_apart *team, int32_t seats)
{
    const int cpu = sched_getcpu();
    if (seats < team->n) {
        team->n = seats; /* libgomp ends those that it has no seat for */
    }
    if (cpu >= 0 && cpu != team->cpu && team->n > 1) {
        team->cpu = cpu;
        keep_off(team, cpu);
    }
}

void st_apart_note(st_apart *team, int32_t seat)
{
    if (own_number == 0) {
        own_number = (int32_t)syscall(SYS_gettid);
    }
    if (seat < ST_APART_MAX && team->thread[seat] != own_number) {
        team->thread[seat] = own_number;
    }
}

void st_apart_end(st_apart *team, int32_t seats)
{
    const int32_t n = seats < ST_APART_MAX ? seats : ST_APART_MAX;
    if (team->n != n) {
        team->n = n;
        team->cpu = -1;
        st_apart_begin(team, n); /* regions of others, oneDNN's, may be the next */
    }
}
