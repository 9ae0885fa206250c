/* The memory of a GPU's runtime: what is used again and when, the cap, a device without memory, and
 * constants shared by content. */
#include "support_gpu.h"

#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static fake_gpu f;

static void begin(void)
{
    fake_gpu_init(&f, 0);
}

static void end(void)
{
    fake_gpu_deinit(&f);
}

TestSuite(gpu_memory, .init = begin, .fini = end);

static void *take(uint64_t bytes, void *stream)
{
    void *p = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_gpu_alloc(f.gpu, bytes, stream, &p, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_assert_not_null(p);
    cr_assert_eq((uintptr_t)p % 256, 0);
    return p;
}

static void *new_stream(void)
{
    void *stream = NULL;
    cr_assert_eq(st_gpu_stream_create(f.gpu, &stream, NULL), STATOR_OK);
    return stream;
}

static void fill(void *p, void *stream)
{
    cr_assert_eq(st_gpu_fill(f.gpu, p, 1, 1, stream, NULL), STATOR_OK);
}

static st_gpu_stats stats(void)
{
    st_gpu_stats s;
    st_gpu_get_stats(f.gpu, &s);
    return s;
}

/* ---- what is used again ---- */

Test(gpu_memory, a_stream_uses_its_own_memory_again_at_once)
{
    void *stream = new_stream();
    void *first = take(1000, stream);
    fill(first, stream);
    st_gpu_free(f.gpu, first, stream);
    for (uint32_t i = 0; i < 100; i++) {
        void *p = take(1000 - i % 100, stream);
        cr_expect_eq(p, first);
        fill(p, stream);
        st_gpu_free(f.gpu, p, stream);
    }
    cr_expect_eq(f.n_allocs, 1);
    st_gpu_stream_destroy(f.gpu, stream);
}

Test(gpu_memory, another_stream_gets_it_after_a_wait)
{
    void *a = new_stream();
    void *b = new_stream();
    void *first = take(1000, a);
    fill(first, a);
    st_gpu_free(f.gpu, first, a);
    void *other = take(1000, b);
    cr_expect_neq(other, first, "what is queued on another stream still writes there");
    void *at_once = take(1000, NULL);
    cr_expect_neq(at_once, first);
    cr_assert_eq(st_gpu_wait(f.gpu, a, NULL), STATOR_OK);
    cr_expect_eq(take(1000, b), first);
    st_gpu_free(f.gpu, first, b);
    st_gpu_free(f.gpu, other, b);
    st_gpu_free(f.gpu, at_once, NULL);
    st_gpu_stream_destroy(f.gpu, a);
    st_gpu_stream_destroy(f.gpu, b);
}

Test(gpu_memory, what_is_freed_while_work_is_queued_behind_a_wait_is_not_free)
{
    void *a = new_stream();
    void *first = take(1000, a);
    fill(first, a);
    cr_assert_eq(st_gpu_wait(f.gpu, a, NULL), STATOR_OK);
    fill(first, a);
    st_gpu_free(f.gpu, first, a);
    void *other = take(1000, NULL);
    cr_expect_neq(other, first);
    st_gpu_stream_destroy(f.gpu, a);
    cr_expect_eq(take(1000, NULL), first, "the stream is gone, and was waited for");
    st_gpu_free(f.gpu, first, NULL);
    st_gpu_free(f.gpu, other, NULL);
}

Test(gpu_memory, streams_that_come_and_go_keep_nothing)
{
    void *p = take(64, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        void *stream = new_stream();
        fill(p, stream);
        st_gpu_stream_destroy(f.gpu, stream);
    }
    const uint64_t blocks = f.mem.live_blocks;
    for (uint32_t i = 0; i < 100; i++) {
        void *stream = new_stream();
        fill(p, stream);
        st_gpu_stream_destroy(f.gpu, stream);
    }
    cr_expect_eq(f.mem.live_blocks, blocks);
    st_gpu_free(f.gpu, p, NULL);
}

Test(gpu_memory, sizes_waste_an_eighth_at_most)
{
    for (uint64_t bytes = 1; bytes < UINT64_C(1) << 33; bytes = bytes * 3 / 2 + 1) {
        const uint64_t before = stats().used_bytes;
        f.memory_bytes = 1; /* nothing is made: the error has the size */
        void *p = NULL;
        stator_diag *err = NULL;
        cr_assert_eq(st_gpu_alloc(f.gpu, bytes, NULL, &p, &err), STATOR_RESOURCE_EXHAUSTED);
        unsigned long long rounded = 0;
        cr_assert_eq(sscanf(st_diag_text(err), "the fake device has no %llu", &rounded), 1);
        cr_expect_geq(rounded, bytes);
        cr_expect(rounded <= bytes + bytes / 8 + 256, "%llu for %llu", rounded,
                  (unsigned long long)bytes);
        st_diag_release(err);
        cr_expect_eq(stats().used_bytes, before);
    }
    void *p = NULL;
    cr_expect_eq(st_gpu_alloc(f.gpu, UINT64_MAX, NULL, &p, NULL), STATOR_RESOURCE_EXHAUSTED);
}

/* ---- no memory ---- */

Test(gpu_memory, what_nobody_uses_goes_back_before_an_error)
{
    void *stream = new_stream();
    f.memory_bytes = 1 << 20;
    void *half = take(512 << 10, stream);
    fill(half, stream);
    st_gpu_free(f.gpu, half, stream);
    void *all = take(1 << 20, stream);
    cr_expect_eq(f.n_live, 1, "the half went back to the driver");
    void *more = NULL;
    stator_diag *err = NULL;
    cr_expect_eq(st_gpu_alloc(f.gpu, 256, stream, &more, &err), STATOR_RESOURCE_EXHAUSTED);
    cr_expect_null(more);
    cr_expect(strstr(st_diag_hint(err), "1048576 bytes are in use"), "%s", st_diag_hint(err));
    st_diag_release(err);
    st_gpu_free(f.gpu, all, stream);
    st_gpu_free(f.gpu, take(256, stream), stream);
    st_gpu_stream_destroy(f.gpu, stream);
}

Test(gpu_memory, the_cap_holds)
{
    end();
    fake_gpu_init(&f, 4096);
    void *p = take(4096, NULL);
    void *more = NULL;
    stator_diag *err = NULL;
    cr_expect_eq(st_gpu_alloc(f.gpu, 1, NULL, &more, &err), STATOR_RESOURCE_EXHAUSTED);
    cr_expect(strstr(st_diag_text(err), "256 bytes of device memory were asked for, but 4096 are "
                                        "held, 4096 of them in use, and the cap is 4096"),
              "%s", st_diag_text(err));
    st_diag_release(err);
    cr_expect_eq(f.n_allocs, 1, "the driver was not asked");
    st_gpu_free(f.gpu, p, NULL);
    st_gpu_free(f.gpu, take(1024, NULL), NULL);
    cr_expect_eq(stats().held_bytes, 1024);
    cr_expect_eq(stats().peak_bytes, 4096);
}

Test(gpu_memory, the_nth_request_fails_and_the_next_call_is_right)
{
    for (uint64_t n = 1; n <= 4; n++) {
        void *held[4] = {NULL};
        f.n_allocs = 0;
        f.fail_at = n;
        uint32_t made = 0;
        for (uint32_t i = 0; i < 4; i++) {
            stator_diag *err = NULL;
            const stator_status status =
                st_gpu_alloc(f.gpu, (n * 4 + i + 1) << 20, NULL, &held[i], &err);
            made += status == STATOR_OK;
            cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED);
            st_diag_release(err);
        }
        cr_expect_eq(made, n - 1u);
        f.fail_at = 0;
        st_gpu_free(f.gpu, take(n * 1000, NULL), NULL);
        for (uint32_t i = 0; i < 4; i++) {
            st_gpu_free(f.gpu, held[i], NULL);
        }
    }
}

/* The host's memory fails at each request in turn; nothing is lost. */
Test(gpu_memory, the_host_runs_out_at_the_nth_request)
{
    end();
    uint64_t n = 1;
    for (bool is_done = false; !is_done; n++) {
        st_gpu *gpu = NULL;
        st_gpu_config config;
        fake_gpu_init(&f, 0);
        config = (st_gpu_config){
            .host = &f.host, .mem = &f.mem, .driver = &f.driver, .print = fake_print};
        atomic_store(&f.mem.requests, 0);
        atomic_store(&f.mem.fail_at, n);
        stator_diag *err = NULL;
        void *p = NULL;
        stator_status status = st_gpu_create(&config, &gpu, &err);
        ST_THEN(status, st_gpu_alloc(gpu, 100, NULL, &p, &err));
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED, "%s",
                  st_diag_text(err));
        is_done = status == STATOR_OK;
        st_diag_release(err);
        atomic_store(&f.mem.fail_at, 0);
        if (gpu) {
            st_gpu_free(gpu, p, NULL);
        }
        st_gpu_destroy(gpu);
        end();
    }
    cr_expect_gt(n, 4);
    begin();
}

/* ---- copies ---- */

Test(gpu_memory, a_source_has_been_read_when_an_upload_returns)
{
    static char there[200000];
    static char back[200000];
    void *stream = new_stream();
    char *p = take(sizeof there, stream);
    const uint64_t sizes[] = {1, 4096, 65536, 65537, sizeof there};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(there, (int)i + 1, sizeof there);
        cr_assert_eq(st_gpu_copy(f.gpu, p, there, sizes[i], STATOR_COPY_TO_DEVICE, stream, NULL),
                     STATOR_OK);
        memset(there, 0, sizeof there);
        cr_assert_eq(st_gpu_copy(f.gpu, back, p, sizes[i], STATOR_COPY_TO_HOST, stream, NULL),
                     STATOR_OK);
        cr_assert_eq(st_gpu_wait(f.gpu, stream, NULL), STATOR_OK);
        cr_expect_eq(back[0], (char)(i + 1));
        cr_expect_eq(back[sizes[i] - 1u], (char)(i + 1));
    }
    st_gpu_free(f.gpu, p, stream);
    st_gpu_stream_destroy(f.gpu, stream);
}

/* Another thread's wait between a look-up of the stream and the driver's call ends nothing. */
Test(gpu_memory, what_is_queued_behind_another_threads_wait_is_not_done)
{
    static char there[4096];
    void *a = new_stream();
    char *p = take(sizeof there, a);
    char *q = take(sizeof there, a);
    f.is_waited_for = true;
    memset(there, 1, sizeof there);
    cr_assert_eq(st_gpu_copy(f.gpu, p, there, sizeof there, STATOR_COPY_TO_DEVICE, a, NULL),
                 STATOR_OK);
    f.is_waited_for = false;
    memset(there, 2, sizeof there);
    cr_assert_eq(st_gpu_copy(f.gpu, q, there, sizeof there, STATOR_COPY_TO_DEVICE, a, NULL),
                 STATOR_OK);
    cr_assert_eq(st_gpu_wait(f.gpu, a, NULL), STATOR_OK);
    cr_expect_eq(p[0], 1, "its pinned memory was used again before the copy");
    cr_expect_eq(q[0], 2);
    f.is_waited_for = true;
    fill(p, a);
    f.is_waited_for = false;
    st_gpu_free(f.gpu, p, a);
    char *other = take(sizeof there, NULL);
    cr_expect_neq(other, p, "a fill of it is still queued");
    st_gpu_free(f.gpu, q, a);
    st_gpu_free(f.gpu, other, NULL);
    st_gpu_stream_destroy(f.gpu, a);
}

Test(gpu_memory, many_small_uploads_without_a_wait_hold_few_bytes)
{
    static char there[65536];
    void *stream = new_stream();
    char *p = take(2048 * sizeof there, stream);
    for (uint32_t i = 0; i < 2048; i++) {
        memset(there, (int)(i % 100), sizeof there);
        cr_assert_eq(st_gpu_copy(f.gpu, p + i * sizeof there, there, sizeof there,
                                 STATOR_COPY_TO_DEVICE, stream, NULL),
                     STATOR_OK);
    }
    cr_expect_leq(f.n_pinned, 300);
    cr_assert_eq(st_gpu_wait(f.gpu, stream, NULL), STATOR_OK);
    for (uint32_t i = 0; i < 2048; i++) {
        cr_assert_eq(p[i * sizeof there], (char)(i % 100));
    }
    st_gpu_free(f.gpu, p, stream);
    st_gpu_stream_destroy(f.gpu, stream);
}

Test(gpu_memory, a_copy_needs_a_direction)
{
    char there = 0;
    stator_diag *err = NULL;
    cr_expect_eq(st_gpu_copy(f.gpu, &there, &there, 1, 4, NULL, &err), STATOR_INVALID_ARGUMENT);
    cr_expect(strstr(st_diag_text(err), "a copy in direction 4"));
    st_diag_release(err);
}

/* ---- constants ---- */

static void *take_constant(fake_blob *blob, const void **out)
{
    const st_device_memory *memory = st_gpu_emitter(f.gpu)->memory;
    void *constant = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(
        memory->constant_take(memory->self, (stator_blob *)(void *)blob, &constant, out, &err),
        STATOR_OK, "%s", st_diag_text(err));
    return constant;
}

Test(gpu_memory, constants_are_shared_by_content)
{
    const st_device_memory *memory = st_gpu_emitter(f.gpu)->memory;
    static const float numbers[3] = {1, 2, 3};
    static const float others[3] = {4, 5, 6};
    fake_blob a = {numbers, sizeof numbers, {1}, 0};
    fake_blob b = {numbers, sizeof numbers, {1}, 0}; /* the same content again */
    fake_blob c = {others, sizeof others, {1, 1}, 0};
    const void *at[4];
    void *held[4] = {take_constant(&a, &at[0]), take_constant(&b, &at[1]),
                     take_constant(&c, &at[2]), take_constant(&a, &at[3])};
    cr_expect_eq(at[0], at[1]);
    cr_expect_eq(at[0], at[3]);
    cr_expect_neq(at[0], at[2]);
    cr_expect_arr_eq(at[0], numbers, sizeof numbers);
    cr_expect_arr_eq(at[2], others, sizeof others);
    cr_expect_eq(stats().constant_bytes, 24);
    for (uint32_t i = 0; i < 3; i++) {
        memory->constant_give(memory->self, held[i]);
    }
    cr_expect_eq(stats().constant_bytes, 12, "one executable still holds the first");
    cr_expect_arr_eq(at[0], numbers, sizeof numbers);
    memory->constant_give(memory->self, held[3]);
    cr_expect_eq(stats().constant_bytes, 0);
    cr_expect_eq(stats().used_bytes, 0);
}

Test(gpu_memory, a_constant_that_finds_no_memory_leaves_nothing)
{
    const st_device_memory *memory = st_gpu_emitter(f.gpu)->memory;
    static const float numbers[3] = {1, 2, 3};
    fake_blob a = {numbers, sizeof numbers, {9}, 0};
    void *constant = NULL;
    const void *at = NULL;
    f.fail_at = 1;
    cr_expect_eq(
        memory->constant_take(memory->self, (stator_blob *)(void *)&a, &constant, &at, NULL),
        STATOR_RESOURCE_EXHAUSTED);
    f.fail_at = 0;
    constant = take_constant(&a, &at);
    cr_expect_arr_eq(at, numbers, sizeof numbers);
    memory->constant_give(memory->self, constant);
}
