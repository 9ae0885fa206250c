/* Barrier groups of scans (codegen/run/barrier_group.h): members see what the others wrote before
 * a barrier, a failure ends all of them wherever they are, and a group that nobody comes to is
 * one thread. */
#include "codegen/run/barrier_group.h"

#include <criterion/criterion.h>
#include <pthread.h>

#define MEMBERS 3u
#define ROUNDS 2000u

typedef struct work {
    cg_barrier_group group;
    uint32_t fails_at; /* round in which member 1 fails; 0: never */
    uint64_t cells[MEMBERS];
    uint64_t wrong;
    uint32_t rounds[MEMBERS];
} work;

typedef struct one {
    work *w;
    uint32_t member;
} one;

static void *take_part(void *self)
{
    const one *o = self;
    work *w = o->w;
    int is_on = cg_barrier_group_join(&w->group, o->member);
    for (uint32_t r = 1; r <= ROUNDS && is_on; r++) {
        w->cells[o->member] = r;
        const int has_failed = o->member == 1 && r == w->fails_at;
        is_on = cg_barrier_group_meet(&w->group, o->member, has_failed);
        for (uint32_t i = 0; i < MEMBERS && is_on; i++) {
            if (w->cells[i] != r) {
                __atomic_fetch_add(&w->wrong, 1, __ATOMIC_RELAXED);
            }
        }
        w->rounds[o->member] += is_on != 0;
        is_on =
            is_on && cg_barrier_group_meet(&w->group, o->member, false); /* before cells change */
    }
    return NULL;
}

static void run(work *w)
{
    pthread_t threads[MEMBERS];
    one all[MEMBERS];
    w->group.n = MEMBERS;
    for (uint32_t i = MEMBERS; i-- > 0;) { /* the first waits for nobody */
        all[i] = (one){w, i};
        cr_assert_eq(pthread_create(&threads[i], NULL, take_part, &all[i]), 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
}

Test(barrier_group, barrier_publishes_the_writes_of_all_members)
{
    for (uint32_t again = 0; again < 20; again++) {
        work w = {.fails_at = 0};
        run(&w);
        cr_assert_eq(w.wrong, 0);
        for (uint32_t i = 0; i < MEMBERS; i++) { /* all of them, or none when one came late */
            cr_assert(w.rounds[i] == ROUNDS || (w.rounds[i] == 0 && w.rounds[0] == 0));
        }
    }
}

Test(barrier_group, failure_of_one_member_ends_all)
{
    for (uint32_t again = 0; again < 50; again++) {
        work w = {.fails_at = 1 + again * 7};
        run(&w);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            cr_assert_lt(w.rounds[i], w.fails_at);
        }
    }
}

Test(barrier_group, join_fails_where_members_are_missing)
{
    cg_barrier_group group = {.n = 2};
    cr_assert_not(cg_barrier_group_join(&group, 0));
    cr_assert_not(cg_barrier_group_join(&group, 1), "a member that comes late has nothing to do");
}

Test(barrier_group, record_keeps_the_faster_way_after_eight_calls)
{
    cg_barrier_group_record record = {.calls = 0};
    for (uint32_t call = 0; call < 100; call++) {
        uint64_t began = 0;
        const int is_group = cg_barrier_group_begin(&record, &began);
        if (call < 8) {
            cr_assert_eq(is_group, call % 2 != 0);
            cr_assert_neq(began, 0);
            cg_barrier_group_end(&record, is_group, is_group ? began : began - 1000000000u);
        } else {
            cr_assert(is_group);
            cr_assert_eq(began, 0);
            cg_barrier_group_end(&record, is_group, began);
        }
    }
}
