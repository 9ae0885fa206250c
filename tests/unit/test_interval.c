/* Interval packing: no two blocks alive together overlap, known optima, random sets. */
#include "core/base/interval.h"
#include "support_sym.h"

#include <criterion/criterion.h>

static void is_valid(const st_interval *b, uint32_t n, uint64_t align, uint64_t total)
{
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(b[i].offset_bytes % align, 0);
        cr_assert_leq(b[i].offset_bytes + b[i].size_bytes, total);
        for (uint32_t j = 0; j < i; j++) {
            const int together = b[i].first <= b[j].last && b[j].first <= b[i].last;
            const int apart = b[i].offset_bytes + b[i].size_bytes <= b[j].offset_bytes ||
                              b[j].offset_bytes + b[j].size_bytes <= b[i].offset_bytes;
            cr_assert(!together || apart || b[i].size_bytes == 0 || b[j].size_bytes == 0,
                      "blocks %u and %u overlap", i, j);
        }
    }
}

Test(interval, small_cases)
{
    st_mem mem;
    uint64_t total = 1;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    cr_assert(st_interval_pack(&mem, NULL, 0, 64, &total) && total == 0);
    st_interval chain[3] = {{100, 0, 1, 9}, {100, 1, 2, 9}, {100, 2, 3, 9}}; /* two alive at once */
    cr_assert(st_interval_pack(&mem, chain, 3, 64, &total));
    is_valid(chain, 3, 64, total);
    cr_assert_eq(total, 256);
    st_interval apart[2] = {{70, 0, 1, 0}, {90, 2, 3, 0}};
    cr_assert(st_interval_pack(&mem, apart, 2, 1, &total) && total == 90);
    /* the small block goes into the gap that the short-lived middle one leaves */
    st_interval gap[4] = {{50, 0, 9, 0}, {40, 0, 3, 0}, {30, 0, 9, 0}, {20, 5, 6, 0}};
    cr_assert(st_interval_pack(&mem, gap, 4, 1, &total));
    is_valid(gap, 4, 1, total);
    cr_assert_eq(total, 120);
    cr_assert_eq(gap[3].offset_bytes, 50);
    /* largest first leaves gaps that the order of first use does not */
    st_interval order[7] = {{4, 0, 2, 0}, {4, 1, 2, 0}, {1, 2, 3, 0}, {1, 2, 3, 0},
                            {2, 3, 5, 0}, {4, 4, 6, 0}, {4, 5, 6, 0}};
    cr_assert(st_interval_pack(&mem, order, 7, 1, &total));
    is_valid(order, 7, 1, total);
    cr_assert_eq(total, 10);
    st_interval empty[2] = {{0, 0, 9, 5}, {8, 0, 9, 5}};
    cr_assert(st_interval_pack(&mem, empty, 2, 16, &total) && total == 16);
    cr_assert_eq(mem.live_blocks, 0);
}

Test(interval, overflow_and_failed_allocations_are_errors)
{
    st_mem mem;
    uint64_t total = 0;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_interval big[2] = {{UINT64_MAX - 1, 0, 1, 0}, {100, 0, 1, 0}};
    cr_assert_not(st_interval_pack(&mem, big, 1, 64, &total));
    big[0].size_bytes = UINT64_MAX - 127;
    cr_assert_not(st_interval_pack(&mem, big, 2, 64, &total));
    for (uint64_t n = 1; n < 3; n++) {
        st_mem_init(&mem, NULL, NULL, NULL, 0);
        mem.fail_at = n;
        cr_assert_not(st_interval_pack(&mem, big, 2, 64, &total));
        cr_assert_eq(mem.live_blocks, 0);
    }
}

Test(interval, random_sets_fit_without_overlap)
{
    uint64_t random = test_seed(3);
    static st_interval b[300];
    for (uint32_t round = 0; round < 60; round++) {
        st_mem mem;
        uint64_t total = 0;
        uint64_t most = 0;
        uint64_t all = 0;
        st_mem_init(&mem, NULL, NULL, NULL, 0);
        const uint32_t n = (uint32_t)test_random_in(&random, 1, 300);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t first = (uint32_t)test_random_in(&random, 0, 200);
            b[i] = (st_interval){(uint64_t)test_random_in(&random, 0, 40) * 64, first,
                                 first + (uint32_t)test_random_in(&random, 0, 12), 1};
            all += b[i].size_bytes;
        }
        for (uint32_t t = 0; t < 220; t++) { /* what is alive at t must fit */
            uint64_t alive = 0;
            for (uint32_t i = 0; i < n; i++) {
                alive += b[i].first <= t && t <= b[i].last ? b[i].size_bytes : 0;
            }
            most = alive > most ? alive : most;
        }
        cr_assert(st_interval_pack(&mem, b, n, 64, &total));
        is_valid(b, n, 64, total);
        cr_assert(total >= most && total <= all);
        cr_assert_leq(total, most * 2, "%llu bytes for a peak of %llu", (unsigned long long)total,
                      (unsigned long long)most);
    }
}
