/* Gradients of convolutions to their weights by oneDNN and by kernels of our own, against plain
 * loops in f64. */
#include "dnnl_support.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(dnnl_gradients, .init = dnnl_begin, .fini = dnnl_end);

/* One, two and three axes; pads that differ; strides that leave a rest of the image; dilation;
 * windows of one place; groups, also one for each channel; few channels and features, places of
 * a line without a common pixel. */
static const conv_case cases[] = {
    {2, 2, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 16, 32, 1, {9, 11}, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {2, 0}},
    {2, 1, 3, 32, 1, {21, 21}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {2, 3, 64, 40, 1, {14, 14}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 64, 40, 1, {14, 14}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 24, 24, 24, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 32, 32, 32, {15, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}},
    {2, 1, 24, 36, 3, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 64, 32, 2, {10, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 16, 16, 1, {15, 15}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {2, 1, 5, 7, 1, {10, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 1, 16, 1, {28, 28}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 2, 32, 32, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 2, 16, 32, 1, {40}, {5}, {2}, {1}, {2}, {1}},
    {3, 1, 8, 16, 1, {6, 7, 8}, {3, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {2, 2, 2, 16, 1, {7, 8}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 1, 2, 16, 1, {9, 2}, {3, 7}, {1, 1}, {1, 1}, {1, 3}, {1, 3}},
    {2, 1, 6, 48, 3, {9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}};
#define CASES (sizeof cases / sizeof cases[0])

/* Orders of both images, at offsets, on one thread and on several; every `step`th of them. */
static void check_all(uint32_t dtype, uint32_t step)
{
    for (uint32_t i = 0; i < 4 * CASES; i += step) {
        char name[64];
        problem p;
        (void)snprintf(name, sizeof name, "gradient %u, orders %u", i / 4, i % 4);
        f.threads = 1 + (int32_t)(i % 3);
        conv_weight_grad(&p, dtype, &cases[i / 4], i & 1, i >> 1 & 1);
        p.misalign = 16;
        check(&p, name);
        p.contraction.x.offset = num(3);
        p.contraction.y.offset = num(5);
        p.contraction.out.offset = num(7);
        check(&p, name);
    }
}

Test(dnnl_gradients, weights_of_every_kind_of_convolution)
{
    check_all(STATOR_F32, 1);
}

Test(dnnl_gradients, weights_in_f16)
{
    check_all(STATOR_F16, 3);
}

Test(dnnl_gradients, measured_candidates_equal_the_reference)
{
    api->close(lib);
    open_with(DNNL_TUNE | DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST);
    check_all(STATOR_F32, 5);
}

/* What follows the sum is for the loops. */
Test(dnnl_gradients, epilogues_are_refused)
{
    problem p;
    conv_weight_grad(&p, STATOR_F32, &cases[0], 0, 0);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 1);
    epilogue(&p, ST_EPILOGUE_SCALE, 0.5, 0);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0);
    conv_weight_grad(&p, STATOR_F32, &cases[0], 0, 0);
    p.contraction.is_transposed = 1;
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0);
}

/* What kernels of our own do: strides on one axis or both, that are larger than the window or
 * leave a rest of the image; dilation with and without a stride; windows of one place, of one
 * line, larger than the image; pads that differ, that are wider than the window, below 0;
 * channels and features that are no multiple of a tile; groups; several blocks of lines; one and
 * three axes. */
static const conv_case own[] = {
    {2, 3, 16, 32, 1, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}},
    {2, 2, 33, 41, 1, {14, 14}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 15, 64, 1, {14, 13}, {1, 1}, {2, 3}, {1, 1}, {1, 0}, {0, 1}},
    {2, 2, 29, 17, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 3, 49, 1, {21, 20}, {7, 5}, {2, 1}, {1, 1}, {3, 2}, {3, 2}},
    {2, 1, 3, 16, 1, {21, 21}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 8, 16, 1, {17, 19}, {3, 2}, {2, 3}, {3, 2}, {3, 0}, {2, 4}},
    {2, 5, 6, 20, 1, {9, 9}, {2, 2}, {4, 3}, {1, 1}, {0, 1}, {0, 0}},
    {2, 1, 20, 24, 1, {4, 5}, {7, 7}, {1, 1}, {1, 1}, {4, 3}, {3, 4}},
    {2, 1, 5, 16, 1, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {-1, -2}, {1, 1}},
    {2, 1, 24, 48, 2, {10, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 9, 60, 3, {12, 12}, {3, 1}, {1, 2}, {1, 1}, {1, 0}, {1, 0}},
    {2, 3, 16, 33, 1, {60, 61}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 2, 16, 32, 1, {40}, {5}, {2}, {1}, {2}, {1}},
    {3, 2, 8, 16, 1, {6, 7, 8}, {3, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 1, 32, 32, 1, {20, 24, 31}, {2, 1, 3}, {1, 2, 2}, {2, 1, 1}, {1, 0, 1}, {0, 0, 0}},
    /* A group for each channel. */
    {2, 2, 32, 32, 32, {15, 14}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 2, 41, 41, 41, {28, 27}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 1}},
    {2, 1, 9, 9, 9, {7, 8}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {2, 2, 24, 24, 24, {12, 15}, {3, 3}, {1, 2}, {3, 2}, {3, 2}, {3, 2}},
    {2, 1, 16, 16, 16, {4, 4}, {9, 10}, {1, 1}, {1, 1}, {6, 7}, {5, 6}},
    {2, 4, 200, 200, 200, {9, 31}, {2, 2}, {3, 4}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 16, 16, 16, {40, 60}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 12, 18, 18, 18, {50}, {4}, {3}, {2}, {1}, {2}},
    {3, 1, 17, 17, 17, {5, 6, 8}, {3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}, {1, 1, 2}},
    /* Lines so short that several images are met at once, the last of them fewer; lines of one
     * pixel; windows wider than the image. */
    {2, 7, 40, 40, 40, {7, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 9, 19, 19, 19, {13, 14}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 1}},
    {2, 23, 24, 24, 24, {5, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 5, 16, 16, 16, {3, 4}, {7, 6}, {2, 1}, {1, 2}, {3, 5}, {3, 4}},
    {3, 3, 33, 33, 33, {3, 4, 5}, {2, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    /* In place, and where pixels share sets of the cache, or the window has many parts, copied:
     * parts of several lines, some of which leave the image; lines that meet none. */
    {2, 2, 256, 256, 256, {6, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 48, 48, 48, {9, 30}, {5, 3}, {2, 1}, {1, 2}, {2, 2}, {2, 2}},
    {2, 17, 40, 40, 40, {11, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 16, 16, 16, {13, 17}, {4, 8}, {1, 2}, {1, 1}, {3, 4}, {2, 3}},
    {2, 3, 32, 32, 32, {8, 8}, {3, 3}, {1, 1}, {5, 6}, {5, 6}, {5, 6}},
    {2, 2, 32, 32, 32, {8, 9}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {2, 3, 32, 32, 32, {70, 60}, {3, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 2}}};
#define OWN (sizeof own / sizeof own[0])

static void check_own(void)
{
    for (uint32_t i = 0; i < OWN; i++) {
        char name[64];
        problem p;
        (void)snprintf(name, sizeof name, "own gradient %u", i);
        f.threads = 1 + (int32_t)(i % 3);
        conv_weight_grad(&p, STATOR_F32, &own[i], 1, 1);
        p.contraction.x.offset = num(3);
        p.contraction.out.offset = num(7);
        fill(&p);
        run_as(&p, name, 1, "gradient");
    }
}

/* Channels that are at most half a vector of 32 bytes are packed from any order: x has them first
 * here. */
static void check_few(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < CASES + OWN; i++) {
        const conv_case *c = i < CASES ? &cases[i] : &own[i - CASES];
        char name[64];
        problem p;
        if (c->channels / c->groups > 4 || c->features / c->groups < 8) {
            continue;
        }
        (void)snprintf(name, sizeof name, "gradient of few channels %u", i);
        f.threads = 1 + (int32_t)(n % 3);
        conv_weight_grad(&p, STATOR_F32, c, 0, 1);
        p.contraction.x.offset = num(3);
        p.contraction.out.offset = num(7);
        fill(&p);
        run_as(&p, name, 1, "gradient");
        n++;
    }
    cr_assert_eq(n, 8);
}

Test(dnnl_gradients, kernels_of_our_own_equal_the_reference)
{
    check_own();
    check_few();
}

Test(dnnl_gradients, kernels_of_our_own_with_vectors_of_32_bytes)
{
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_own();
    check_few();
}

/* Tiles that reach over the edges, rests of panels and channels, blocks of several images and of
 * some lines. */
static const conv_case winograd_cases[] = {
    {2, 1, 16, 32, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 9, 20, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 24, 33, 1, {30, 23}, {3, 3}, {1, 1}, {1, 1}, {2, 0}, {0, 2}},
    {2, 5, 70, 24, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 8, 8, 1, {60, 61}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 12, 16, 1, {3, 70}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {2, 2}}};
#define WINOGRAD_CASES (sizeof winograd_cases / sizeof winograd_cases[0])

Test(dnnl_gradients, winograd)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (size_t i = 0; i < 3 * WINOGRAD_CASES; i++) {
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        conv_weight_grad(&p, STATOR_F32, &winograd_cases[i / 3], 1, 1);
        fill(&p);
        run_as(&p, "a gradient by Winograd", 40, "gradient, winograd");
    }
}

static void check_threads(const conv_case *c)
{
    problem p;
    conv_weight_grad(&p, STATOR_F32, c, 1, 1);
    fill(&p);
    void *op = create(&p, "threads");
    f.threads = 1;
    call(&p, op);
    const size_t size = (size_t)p.elements[OUT] * sizeof(float);
    float *alone = st_alloc(&f.mem, size, 64);
    memcpy(alone, p.buffers[OUT], size);
    f.threads = 3;
    call(&p, op);
    cr_assert_eq(memcmp(alone, p.buffers[OUT], size), 0, "%lld channels", (long long)c->channels);
    st_free(&f.mem, alone);
    lib->destroy(lib->self, op);
    empty(&p);
}

Test(dnnl_gradients, scratch_of_winograd_is_counted)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    problem p;
    conv_weight_grad(&p, STATOR_F32, &winograd_cases[1], 1, 1);
    fill(&p);
    check_scratch(&p, DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST | DNNL_VECTORS_32);
    empty(&p);
}

/* Threads divide tiles, or parts of the window and shares of the images: each weight is summed in
 * one order. */
Test(dnnl_gradients, bits_do_not_depend_on_threads)
{
    static const uint32_t of[] = {0, 11, 15, 16, 25, 26, 27, 30, 31, 32, 36};
    for (uint32_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        check_threads(&own[of[i]]);
    }
}

Test(dnnl_gradients, bits_by_winograd_do_not_depend_on_threads)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (size_t i = 0; i < WINOGRAD_CASES; i++) {
        check_threads(&winograd_cases[i]);
    }
}

/* Channels first, or several features a channel: oneDNN wastes most of its work, and kernels of our
 * own are not written for them. */
Test(dnnl_gradients, wide_windows_of_a_channel_each_are_for_the_loops)
{
    static const conv_case slow[] = {
        {2, 1, 32, 32, 32, {15, 14}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 1}},
        {2, 1, 24, 48, 24, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}};
    for (uint32_t i = 0; i < 8; i++) {
        problem p;
        conv_weight_grad(&p, STATOR_F32, &slow[i / 4], i & 1, i >> 1 & 1);
        cr_assert_eq(lib->takes(lib->self, &p.contraction), i == 3, "gradient %u, orders %u", i / 4,
                     i % 4);
    }
}

/* A number of images that calls decide, 0 of them: then all weights are 0. */
Test(dnnl_gradients, images_known_at_the_call)
{
    for (uint32_t order = 0; order < 4; order++) {
        problem p;
        conv_weight_grad(&p, STATOR_F32, &cases[order % 2 ? 5 : 0], order & 1, order >> 1);
        p.contraction.images = sym("images");
        void *op = create(&p, "images");
        for (int64_t images = 4; images >= 0; images--) {
            p.sizes[0] = images;
            fill(&p);
            call(&p, op);
            compare(&p, "images", 1);
            empty(&p);
        }
        lib->destroy(lib->self, op);
    }
}

/* An infinite pixel reaches the weights of its channel, and what arrives at an output those of its
 * feature. */
Test(dnnl_gradients, infinity_and_nan_stay_in_their_channel)
{
    for (uint32_t order = 0; order < 4; order++) {
        problem p;
        conv_weight_grad(&p, STATOR_F32, &cases[3], order & 1, order >> 1);
        fill(&p);
        st_store_f64(STATOR_F32, p.buffers[X], (uint64_t)p.elements[X] / 2, INFINITY);
        st_store_f64(STATOR_F32, p.buffers[Y], (uint64_t)p.elements[Y] / 3, NAN);
        run_as(&p, "one infinity", 1, NULL);
    }
}

/* Pixels at a corner: only the places of the window that meet them are infinite or NaN. */
Test(dnnl_gradients, infinity_at_a_corner_stays_with_the_places_that_meet_it)
{
    for (uint32_t i = 0; i < OWN; i++) {
        char name[64];
        problem p;
        (void)snprintf(name, sizeof name, "own gradient %u", i);
        conv_weight_grad(&p, STATOR_F32, &own[i], 1, 1);
        fill(&p);
        st_store_f64(STATOR_F32, p.buffers[X], 0, INFINITY);
        st_store_f64(STATOR_F32, p.buffers[X], (uint64_t)p.elements[X] - 1, NAN);
        st_store_f64(STATOR_F32, p.buffers[Y], 0, NAN);
        st_store_f64(STATOR_F32, p.buffers[Y], (uint64_t)p.elements[Y] - 1, INFINITY);
        run_as(&p, name, 1, "gradient");
    }
}

static st_library_kept kept_of(const problem *p, const st_str *bytes)
{
    uint32_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    return (st_library_kept){.bytes = bytes->data,
                             .size_bytes = bytes->len,
                             .n_buffers = BUFFERS,
                             .n_numbers = st_contraction_numbers(&p->contraction, numbers),
                             .numbers = p->numbers,
                             .is_static = 1};
}

/* The contraction as the compile cache keeps it, and with flags that it cannot have. */
Test(dnnl_gradients, contraction_round_trips_through_the_compile_cache)
{
    static const size_t flags[] = {offsetof(st_contraction, is_weight_grad),
                                   offsetof(st_contraction, is_transposed)};
    problem p;
    st_str bytes;
    uint32_t unread = 0;
    void *again = NULL;
    stator_diag *err = NULL;
    conv_weight_grad(&p, STATOR_F32, &cases[0], 1, 1);
    fill(&p);
    st_str_init(&bytes, &f.mem);
    void *op = create(&p, "kept");
    cr_assert_eq(lib->op_save(lib->self, op, &bytes, &err), STATOR_OK);
    const st_library_kept kept = kept_of(&p, &bytes);
    cr_assert_eq(lib->op_load(lib->self, &kept, &again, &unread, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(unread, UINT32_MAX);
    call(&p, again);
    compare(&p, "kept", 1);
    lib->destroy(lib->self, again);
    for (uint32_t i = 0; i < 2; i++) {
        char *at = bytes.data + sizeof(uint64_t) + flags[i];
        const uint32_t wrong = 2;
        uint32_t right = 0;
        memcpy(&right, at, sizeof right);
        memcpy(at, &wrong, sizeof wrong);
        cr_assert_eq(lib->op_load(lib->self, &kept, &again, &unread, &err), STATOR_DATA_LOSS);
        st_diag_release(err);
        err = NULL;
        memcpy(at, &right, sizeof right);
    }
    lib->destroy(lib->self, op);
    st_str_deinit(&bytes);
    empty(&p);
}

Test(dnnl_gradients, every_allocation_may_fail)
{
    problem p;
    conv_weight_grad(&p, STATOR_F16, &cases[2], 0, 1);
    fill(&p);
    fail_allocations(&p);
    empty(&p);
}
