/* The account over malloc: sizes, alignment, limit, planned failures, the caller's allocator. */
#include "core/base/alloc.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static st_mem mem;

static void begin(void)
{
    st_mem_init(&mem, NULL, NULL, NULL, 0);
}

static void end(void)
{
    cr_assert_eq(mem.live_blocks, 0);
    cr_assert_eq(mem.live_bytes, 0);
}

TestSuite(alloc, .init = begin, .fini = end);

Test(alloc, blocks_are_counted_and_aligned)
{
    void *blocks[13];
    uint64_t total = 0;
    for (uint32_t i = 0; i < 13; i++) {
        const uint64_t align = UINT64_C(1) << i;
        blocks[i] = st_alloc(&mem, 100 + i, align);
        cr_assert_not_null(blocks[i]);
        cr_assert_eq((uintptr_t)blocks[i] % (align < 16 ? 16 : align), 0);
        memset(blocks[i], 0xa5, 100 + i);
        total += 100 + i;
        cr_assert_eq(mem.live_bytes, total);
        cr_assert_eq(mem.live_blocks, i + 1);
    }
    for (uint32_t i = 0; i < 13; i++) {
        st_free(&mem, blocks[i]);
    }
    cr_assert_eq(mem.peak_bytes, total);
    cr_assert_eq(mem.requests, 13);
    st_free(&mem, NULL);
}

Test(alloc, sizes_of_zero_and_beyond_memory)
{
    void *p = st_alloc(&mem, 0, 0);
    cr_assert_not_null(p);
    st_free(&mem, p);
    cr_assert_null(st_alloc(&mem, UINT64_MAX, 1));
    cr_assert_null(st_alloc(&mem, UINT64_MAX - 8, 64));
    cr_assert_null(st_alloc(&mem, 8, 24)); /* no power of two */
    cr_assert_null(st_calloc(&mem, UINT64_MAX / 2, 3));
    cr_assert_null(st_strndup(&mem, "x", UINT64_MAX));
    unsigned char *z = st_calloc(&mem, 10, 7);
    for (uint32_t i = 0; i < 70; i++) {
        cr_assert_eq(z[i], 0);
    }
    st_free(&mem, z);
}

Test(alloc, realloc_keeps_contents)
{
    char *p = st_realloc(&mem, NULL, 5, 1);
    memcpy(p, "abcd", 5);
    p = st_realloc(&mem, p, 1000, 64);
    cr_assert_str_eq(p, "abcd");
    cr_assert_eq((uintptr_t)p % 64, 0);
    p = st_realloc(&mem, p, 3, 1);
    cr_assert_eq(memcmp(p, "abc", 3), 0);
    mem.fail_at = 1;
    cr_assert_null(st_realloc(&mem, p, 3000, 1));
    cr_assert_eq(memcmp(p, "abc", 3), 0); /* the old block is untouched */
    mem.fail_at = 0;
    st_free(&mem, p);
    char *s = st_strdup(&mem, "text");
    cr_assert_str_eq(s, "text");
    st_free(&mem, s);
}

Test(alloc, the_limit_holds)
{
    st_mem_init(&mem, NULL, NULL, NULL, 1000);
    void *p = st_alloc(&mem, 600, 1);
    cr_assert_not_null(p);
    cr_assert_null(st_alloc(&mem, 401, 1));
    void *q = st_alloc(&mem, 400, 1);
    cr_assert_not_null(q);
    cr_assert_null(st_alloc(&mem, 1, 1));
    st_free(&mem, p);
    p = st_alloc(&mem, 600, 1);
    cr_assert_not_null(p);
    st_free(&mem, p);
    st_free(&mem, q);
    st_mem_charge(&mem, 900); /* foreign bytes count too */
    cr_assert_null(st_alloc(&mem, 101, 1));
    st_mem_charge(&mem, -900);
    cr_assert_eq(mem.peak_bytes, 1000);
}

Test(alloc, fail_at_fails_that_request_and_all_later)
{
    mem.fail_at = 3;
    void *a = st_alloc(&mem, 1, 1);
    void *b = st_alloc(&mem, 1, 1);
    cr_assert(a != NULL && b != NULL);
    cr_assert_null(st_alloc(&mem, 1, 1));
    cr_assert_null(st_alloc(&mem, 1, 1)); /* and all later ones */
    cr_assert_eq(mem.requests, 4);
    st_free(&mem, a);
    st_free(&mem, b);
}

typedef struct counter {
    int allocs, frees, fail;
} counter;

static void *count_alloc(void *self, uint64_t size, uint64_t align)
{
    counter *c = self;
    c->allocs += !c->fail;
    return c->fail ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
}

static void count_free(void *self, void *p)
{
    ((counter *)self)->frees++;
    free(p);
}

Test(alloc, callers_allocation_functions_are_used)
{
    counter c = {0, 0, 0};
    st_mem_init(&mem, count_alloc, count_free, &c, 0);
    void *p = st_alloc(&mem, 10, 256);
    cr_assert(p != NULL && (uintptr_t)p % 256 == 0 && c.allocs == 1);
    c.fail = 1;
    cr_assert_null(st_alloc(&mem, 10, 1));
    cr_assert_eq(mem.live_bytes, 10); /* the refused request left nothing in the account */
    st_free(&mem, p);
    cr_assert_eq(c.frees, 1);
}
