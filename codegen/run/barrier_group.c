/* A scan whose steps a barrier group of threads divides.
 *
 * Steps are short, and a group that meets anew for each launch costs as much as it saves. So the
 * threads come once: each goes through all steps and does its part of each launch, and they meet at
 * a barrier, spinning, behind each. In: a body of known sizes, made for one thread
 * (cg_unit.is_alone), on an emitter and a library that can do parts. Out: the same bits as from one
 * thread.
 *
 * Whether the host's parallel_for gives a thread to each member is seen when they are there: the
 * first waits for the others for a moment, then goes on alone and sends them away. */
#include "codegen/run/barrier_group.h"

#include "core/base/threads/threads.h"

#include <sched.h>

#define GATHER_NS 50000u /* time that the first member waits */
#define SPINS 4096u      /* spins before the processor is lent */
#define TRIES 4u         /* timed calls of each way in a period */
#define PERIOD 1024u     /* calls of a period */

enum group_state { GROUP_GATHERS = 0, GROUP_RUNS, GROUP_IS_ONE };

static void pause_once(uint32_t *spins)
{
    st_cpu_pause();
    if (++*spins >= SPINS) {
        *spins = 0;
        (void)sched_yield();
    }
}

/* ---- coming together ---- */

static uint32_t lead(cg_barrier_group *group)
{
    uint32_t spins = 0;
    uint32_t looks = 0;
    const uint64_t begin = st_now_ns();
    while (atomic_load_explicit(&group->arrived, memory_order_acquire) < group->n) {
        if (++looks % 64u == 0 && st_now_ns() - begin > GATHER_NS) {
            atomic_store_explicit(&group->state, GROUP_IS_ONE, memory_order_release);
            return GROUP_IS_ONE;
        }
        pause_once(&spins);
    }
    atomic_store_explicit(&group->state, GROUP_RUNS, memory_order_release);
    return GROUP_RUNS;
}

bool cg_barrier_group_join(cg_barrier_group *group, uint32_t member)
{
    uint32_t spins = 0;
    uint32_t state = GROUP_GATHERS;
    (void)atomic_fetch_add_explicit(&group->arrived, 1, memory_order_acq_rel);
    if (member == 0) {
        return lead(group) == GROUP_RUNS;
    }
    while ((state = atomic_load_explicit(&group->state, memory_order_acquire)) == GROUP_GATHERS) {
        pause_once(&spins);
    }
    return state == GROUP_RUNS;
}

void cg_barrier_group_disband(cg_barrier_group *group)
{
    atomic_store_explicit(&group->state, GROUP_IS_ONE, memory_order_release);
}

/* Each tells where it is and looks at all others: one way between two cores, not two. */
bool cg_barrier_group_meet(cg_barrier_group *group, uint32_t member, bool has_failed)
{
    _Atomic uint32_t *own = &group->marks[member].round;
    const uint32_t round = atomic_load_explicit(own, memory_order_relaxed) + 1u;
    uint32_t spins = 0;
    bool is_well = !has_failed;
    atomic_store_explicit(own, has_failed ? CG_BARRIER_GROUP_FAILED : round, memory_order_release);
    for (uint32_t i = 0; i < group->n && is_well; i++) {
        uint32_t theirs = 0;
        while ((theirs = atomic_load_explicit(&group->marks[i].round, memory_order_acquire)) <
               round) {
            pause_once(&spins);
        }
        is_well = theirs != CG_BARRIER_GROUP_FAILED;
    }
    if (!is_well) {
        atomic_store_explicit(own, CG_BARRIER_GROUP_FAILED, memory_order_release);
    }
    return is_well;
}

/* ---- a group or one thread ---- */

bool cg_barrier_group_begin(cg_barrier_group_record *record, uint64_t *out_began)
{
    const uint32_t call =
        atomic_fetch_add_explicit(&record->calls, 1, memory_order_relaxed) % PERIOD;
    *out_began = 0;
    if (call >= 2u * TRIES) {
        return atomic_load_explicit(&record->least_ns[1], memory_order_relaxed) <=
               atomic_load_explicit(&record->least_ns[0], memory_order_relaxed);
    }
    if (call < 2u) {
        atomic_store_explicit(&record->least_ns[call], UINT64_MAX, memory_order_relaxed);
    }
    *out_began = st_now_ns();
    return call % 2u != 0;
}

void cg_barrier_group_end(cg_barrier_group_record *record, int was_group, uint64_t began)
{
    if (began) {
        const uint64_t ns = st_now_ns() - began;
        _Atomic uint64_t *least = &record->least_ns[was_group];
        if (ns < atomic_load_explicit(least, memory_order_relaxed)) {
            atomic_store_explicit(least, ns, memory_order_relaxed);
        }
    }
}

bool cg_barrier_group_can(const st_cg_exe *body)
{
    for (uint32_t i = 0; i < body->launches.count; i++) {
        if (body->launches.data[i].scan || body->launches.data[i].bind) {
            return false;
        }
    }
    return body->slots == NULL && body->binds.count == 0 && body->shape_constraints.count == 0 &&
           body->operands_max <= CG_BARRIER_GROUP_OPERANDS;
}
