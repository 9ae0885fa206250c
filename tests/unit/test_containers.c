/* Arena, segmented array, vector, map and hash set: contents, growth, every allocation failing. */
#include "core/base/arena.h"
#include "core/base/map.h"
#include "core/base/seg.h"
#include "core/base/vec.h"

#include <criterion/criterion.h>
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

TestSuite(containers, .init = begin, .fini = end);

Test(containers, arena_pointers_stay)
{
    st_arena arena;
    char *pieces[500];
    st_arena_init(&arena, &mem);
    for (uint32_t i = 0; i < 500; i++) {
        const uint64_t align = UINT64_C(1) << (i % 8);
        pieces[i] = st_arena_alloc(&arena, i + 1, align);
        cr_assert_not_null(pieces[i]);
        cr_assert_eq((uintptr_t)pieces[i] % align, 0);
        memset(pieces[i], (int)(i % 251), i + 1);
    }
    char *big = st_arena_alloc(&arena, 3u << 20, 4096);
    cr_assert(big != NULL && (uintptr_t)big % 4096 == 0);
    memset(big, 1, 3u << 20);
    for (uint32_t i = 0; i < 500; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            cr_assert_eq((unsigned char)pieces[i][j], i % 251);
        }
    }
    cr_assert_str_eq(st_arena_strndup(&arena, "hello", 4), "hell");
    const int *z = st_arena_zalloc(&arena, 10, sizeof *z);
    cr_assert(z[0] == 0 && z[9] == 0);
    cr_assert_null(st_arena_zalloc(&arena, UINT64_MAX, 2));
    cr_assert_null(st_arena_alloc(&arena, UINT64_MAX, 1));
    st_arena_reset(&arena);
    cr_assert_eq(arena.used_bytes, 0);
    cr_assert_eq(mem.live_blocks, 1);
    cr_assert_not_null(st_arena_alloc(&arena, 8, 8));
    st_arena_deinit(&arena);
}

Test(containers, seg_elements_stay_and_are_zero)
{
    st_seg seg;
    st_seg_init(&seg, &mem, sizeof(uint64_t));
    uint64_t *first = st_seg_push(&seg, NULL);
    *first = 0;
    for (uint32_t i = 1; i < 10000; i++) {
        uint32_t at = 0;
        uint64_t *p = st_seg_push(&seg, &at);
        cr_assert(p != NULL && at == i && *p == 0);
        *p = i;
    }
    cr_assert_eq(first, st_seg_at(&seg, 0));
    const stator_column column = st_seg_column(&seg);
    for (uint32_t i = 0; i < 10000; i++) {
        cr_assert_eq(*(uint64_t *)st_seg_at(&seg, i), i);
        cr_assert_eq(stator_column_at(&column, i), st_seg_at(&seg, i));
    }
    st_seg_truncate(&seg, 5);
    st_seg_truncate(&seg, 7); /* no growth */
    cr_assert_eq(seg.count, 5);
    uint32_t at = 0;
    cr_assert(st_seg_grow(&seg, 3000, &at) && at == 5 && seg.count == 3005);
    for (uint32_t i = 5; i < 3005; i++) {
        cr_assert_eq(*(uint64_t *)st_seg_at(&seg, i), 0, "old contents at %u", i);
    }
    cr_assert(st_seg_grow(&seg, 0, &at) && at == 3005);
    cr_assert_not(st_seg_grow(&seg, UINT32_MAX, &at));
    cr_assert_eq(seg.count, 3005);
    st_seg_deinit(&seg);
}

Test(containers, seg_is_usable_after_a_failed_grow)
{
    for (uint64_t n = 1;; n++) {
        st_seg seg;
        uint32_t at = 0;
        begin();
        mem.fail_at = n;
        st_seg_init(&seg, &mem, 4);
        const int ok = st_seg_grow(&seg, 1000, &at);
        cr_assert_eq(seg.count, ok ? 1000 : 0);
        mem.fail_at = 0;
        cr_assert(st_seg_grow(&seg, 10, &at) && at == (ok ? 1000 : 0));
        st_seg_deinit(&seg);
        cr_assert_eq(mem.live_blocks, 0);
        if (ok) {
            cr_assert_eq(n, 6); /* 1000 elements lie in five chunks */
            break;
        }
    }
}

Test(containers, vec_grows)
{
    st_vec(uint16_t) v = ST_VEC_INIT;
    for (uint32_t i = 0; i < 1000; i++) {
        uint16_t *p = st_vec_push(&mem, &v);
        cr_assert_not_null(p);
        *p = (uint16_t)i;
    }
    cr_assert_eq(v.count, 1000);
    cr_assert(st_vec_resize(&mem, &v, 3));
    cr_assert(st_vec_resize(&mem, &v, 2000));
    cr_assert(v.data[2] == 2 && v.data[3] == 0 && v.data[1999] == 0);
    mem.fail_at = 1;
    cr_assert_not(st_vec_resize(&mem, &v, 1u << 20));
    cr_assert_eq(v.count, 2000);
    mem.fail_at = 0;
    st_vec_free(&mem, &v);
    cr_assert(v.data == NULL && v.count == 0);
}

Test(containers, vec_size_overflow_is_refused)
{
    struct wide {
        char bytes[1u << 20];
    };
    st_vec(struct wide) v = ST_VEC_INIT;
    mem.limit_bytes = 1u << 24;
    cr_assert_not(st_vec_resize(&mem, &v, UINT32_MAX));
    cr_assert_null(v.data);
}

Test(containers, map_finds_every_inserted_key)
{
    st_map map;
    st_map_init(&map, &mem);
    cr_assert_eq(st_map_get(&map, 7), 0);
    for (uint64_t i = 0; i < 5000; i++) { /* key 0 is a key like any other */
        cr_assert(st_map_put(&map, i * 4096, (uint32_t)i + 1));
    }
    for (uint64_t i = 0; i < 5000; i++) {
        cr_assert_eq(st_map_get(&map, i * 4096), i + 1);
        cr_assert_eq(st_map_get(&map, i * 4096 + 1), 0);
    }
    cr_assert(st_map_put(&map, 0, 99));
    cr_assert_eq(st_map_get(&map, 0), 99);
    cr_assert_eq(map.count, 5000);
    st_map_deinit(&map);
}

static bool is_id(void *self, uint32_t id)
{
    return *(const uint32_t *)self == id;
}

static bool never(void *self, uint32_t id)
{
    (void)self;
    (void)id;
    return false;
}

Test(containers, hashset_compares_keys_of_equal_hashes)
{
    st_hashset set;
    st_hashset_init(&set, &mem);
    for (uint32_t id = 1; id <= 1000; id++) {
        cr_assert(st_hashset_add(&set, id % 10, id)); /* 100 ids share a hash */
    }
    for (uint32_t id = 1; id <= 1000; id++) {
        cr_assert_eq(st_hashset_find(&set, id % 10, is_id, &id), id);
        cr_assert_eq(st_hashset_find(&set, id % 10 + 10, is_id, &id), 0);
    }
    cr_assert_eq(st_hashset_find(&set, 3, never, NULL), 0);
    st_hashset_deinit(&set);
}

Test(containers, map_and_hashset_survive_failures)
{
    for (uint64_t n = 1;; n++) {
        st_map map;
        st_hashset set;
        begin();
        mem.fail_at = n;
        st_map_init(&map, &mem);
        st_hashset_init(&set, &mem);
        uint32_t in_map = 0;
        uint32_t in_set = 0;
        while (in_map < 200 && st_map_put(&map, in_map, in_map + 1)) {
            in_map++;
        }
        while (in_set < 200 && st_hashset_add(&set, in_set + 1, in_set + 1)) {
            in_set++;
        }
        for (uint32_t i = 0; i < 200; i++) { /* what went in is still there */
            const uint32_t id = i + 1;
            cr_assert_eq(st_map_get(&map, i), i < in_map ? id : 0);
            cr_assert_eq(st_hashset_find(&set, id, is_id, (void *)&id), i < in_set ? id : 0);
        }
        st_map_deinit(&map);
        st_hashset_deinit(&set);
        cr_assert_eq(mem.live_blocks, 0);
        if (in_map == 200 && in_set == 200) {
            break;
        }
    }
}
