/* Products and convolutions by kernels of our own: of bf16 and of bytes on processors with AVX-512
 * and its products of those, of f32 and of bytes on those with AVX2. Bytes: every result exact. */
#include "plugins/cpu-llvm/kernels/dn.h" /* before globals of the same names */

#include "dnnl_support.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dnnl_tiles, .init = dnnl_begin_tiles, .fini = dnnl_end);

/* Sizes that leave rests of tiles, panels, groups and vectors; windows apart, one line and two
 * axes. */
static const conv_case images[] = {
    {2, 2, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 5, 33, 1, {20, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 64, 70, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 3, 40, 1, {37, 41}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {2, 2, 35, 16, 1, {13, 15}, {3, 2}, {2, 1}, {2, 3}, {2, 0}, {1, 4}},
    {2, 2, 66, 31, 1, {12, 12}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 3, 35, 50, 1, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 3, 40, 1, {40, 41}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 4, 8, 1, {5, 300}, {1, 5}, {1, 1}, {1, 2}, {0, 4}, {0, 4}},
    {2, 1, 8, 24, 1, {3, 4}, {5, 5}, {1, 1}, {1, 1}, {4, 4}, {4, 4}},
    {2, 1, 120, 2, 1, {31, 70}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* not all lines at a time
                                                                          */
    {2, 1, 1, 20, 1, {19, 37}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 2, 3, 32, 1, {12, 70}, {3, 4}, {1, 1}, {2, 1}, {2, 2}, {2, 1}},
    {1, 2, 17, 48, 1, {600}, {5}, {2}, {1}, {2}, {1}}};
#define IMAGES (sizeof images / sizeof images[0])

/* Where others may do it, and vectors are wide, there may be nobody who does: then it is loops. */
static void run(problem *p, const char *what, double slack, int may_be_other)
{
    if (may_be_other && has_wide(STATOR_U8) && !lib->takes(lib->self, &p->contraction)) {
        empty(p);
        return;
    }
    run_as(p, what, slack, may_be_other ? NULL : "tiles");
}

/* With each kind of vectors of bytes that this processor has. */
static void check_bytes(uint32_t flags, void (*body)(void))
{
    flags |= DNNL_TILES_FIRST;
    if (has_wide(STATOR_U8)) {
        api->close(lib);
        open_with(flags);
        body();
    }
    if (!dnnl_begin_narrow(flags)) {
        cr_skip_test("this processor has no AVX2");
    }
    body();
}

Test(dnnl_tiles, convolutions_of_halves)
{
    if (!has_wide(STATOR_BF16)) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < 2 * IMAGES; i++) {
        const conv_case *c = &images[i / 2];
        problem p;
        conv(&p, STATOR_BF16, i % 2 ? STATOR_F32 : STATOR_BF16, c, 0, 0);
        with_constant(&p);
        run(&p, "a convolution of bf16", 1, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, i % 2 ? ST_EPILOGUE_RELU : ST_EPILOGUE_CLIP, -0.5, 2);
        epilogue(&p, ST_EPILOGUE_SCALE, 0.75, 0);
        p.contraction.epilogue[i % 2].dtype = STATOR_BF16;
        p.contraction.epilogue[2].dtype = i % 2 ? STATOR_F32 : STATOR_BF16;
        with_constant(&p);
        run(&p, "a convolution of bf16 and more", 1, 0);
    }
}

/* A residual, added to what was rounded: by tiles or not at all. */
Test(dnnl_tiles, residual_is_added_to_the_rounded_half)
{
    for (size_t i = 0; i < 2 * IMAGES; i++) {
        problem p;
        conv(&p, STATOR_BF16, STATOR_BF16, &images[i / 2], 0, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_NARROW, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        p.contraction.epilogue[2].dtype = i % 2 ? STATOR_F32 : STATOR_BF16;
        with_constant(&p);
        if (has_wide(STATOR_BF16)) {
            run(&p, "a convolution of bf16, rounded, and more", 1, 0);
            continue;
        }
        cr_assert_not(lib->takes(lib->self, &p.contraction));
        empty(&p);
    }
}

static void check_images_of_floats(void)
{
    for (size_t i = 0; i < 4 * IMAGES; i++) {
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        conv(&p, STATOR_F32, STATOR_F32, &images[i / 4], i % 2, i / 2 % 2);
        with_constant(&p);
        run(&p, "a convolution of f32", 1, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, i % 2 ? ST_EPILOGUE_RELU : ST_EPILOGUE_CLIP, -0.5, 2);
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_TIMES_ONE, 0, 0);
        epilogue(&p, i % 3 ? ST_EPILOGUE_GELU_ERF : ST_EPILOGUE_DIVIDE, 0.75, 0);
        with_constant(&p);
        run(&p, "a convolution of f32 and more", 1, 0);
    }
}

/* With vectors of 64 bytes, where this processor has them, when oneDNN is not to come first. */
static int begin_wide_floats(uint32_t flags)
{
    if (!has_wide(STATOR_F32)) {
        return 0;
    }
    api->close(lib);
    open_with(flags | DNNL_TILES_FIRST);
    return 1;
}

Test(dnnl_tiles, convolutions_of_floats)
{
    if (!dnnl_begin_narrow(DNNL_FUSED)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_images_of_floats();
}

Test(dnnl_tiles, convolutions_of_floats_wide)
{
    if (!begin_wide_floats(DNNL_FUSED)) {
        cr_skip_test("this processor has no AVX-512");
    }
    check_images_of_floats();
}

/* Groups: of four channels and features (in chunks of four groups, and not), of fewer features
 * than a panel has and of more; windows apart, one axis. */
static const conv_case grouped[] = {
    {2, 2, 128, 128, 32, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 48, 48, 12, {13, 15}, {3, 2}, {2, 1}, {2, 3}, {2, 0}, {1, 4}},
    {2, 1, 20, 20, 5, {18, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 30, 18, 3, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 40, 72, 2, {12, 12}, {1, 3}, {2, 2}, {1, 1}, {0, 1}, {0, 1}},
    {2, 1, 12, 48, 6, {5, 300}, {1, 5}, {1, 1}, {1, 2}, {0, 4}, {0, 4}},
    {2, 1, 32, 64, 2, {9, 11}, {3, 3}, {3, 3}, {1, 1}, {0, 1}, {0, 1}},
    {1, 2, 12, 24, 6, {700}, {5}, {2}, {1}, {2}, {1}}};
#define GROUPED (sizeof grouped / sizeof grouped[0])

static void check_groups_of_floats(void)
{
    for (size_t i = 0; i < 4 * GROUPED; i++) {
        const conv_case *c = &grouped[i / 4];
        const int is_last = (int)(i / 2 % 2);
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        conv(&p, STATOR_F32, STATOR_F32, c, is_last, is_last);
        with_constant(&p);
        run(&p, "groups of f32", 1, 0);
        conv(&p, STATOR_F32, STATOR_F32, c, is_last, is_last);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        with_constant(&p);
        st_store_f64(STATOR_F32, p.buffers[X], 70, i % 2 ? NAN : INFINITY); /* of its group alone */
        run(&p, "groups of f32 and more", 1, 0);
    }
}

Test(dnnl_tiles, groups_of_floats)
{
    if (!dnnl_begin_narrow(DNNL_TILES_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_groups_of_floats();
}

Test(dnnl_tiles, groups_of_floats_wide)
{
    if (!begin_wide_floats(0)) {
        cr_skip_test("this processor has no AVX-512");
    }
    check_groups_of_floats();
}

Test(dnnl_tiles, products_of_floats)
{
    static const int64_t sizes[][3] = {{1, 40, 1000},  {15, 33, 77},    {127, 64, 96}, {300, 1, 65},
                                       {29, 200, 250}, {100, 90, 5000}, {120, 16, 9},  {260, 8, 8}};
    if (!dnnl_begin_narrow(DNNL_FUSED)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (size_t i = 0; i < 3 * sizeof sizes / sizeof sizes[0]; i++) {
        problem p;
        const int64_t *s = sizes[i / 3];
        f.threads = 1 + (int32_t)(i % 3);
        gemm(&p, STATOR_F32, STATOR_F32, num(s[0]), num(s[1]), num(s[2]));
        strides(&p.contraction.x, s[2] + 5, 1);
        strides(&p.contraction.out, s[1] + 3, 1);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, i % 2 ? ST_EPILOGUE_RELU : ST_EPILOGUE_GELU_ERF, 0, 0);
        epilogue(&p, ST_EPILOGUE_SCALE, 3, 0);
        epilogue(&p, ST_EPILOGUE_OFFSET, 2, 0);
        with_constant(&p);
        run(&p, "a product of f32", 1, s[0] <= 8);
    }
}

/* Weights as [features][channels][taps], with a gap behind each window, with channels first, or
 * with the features last. */
static void order_weights(problem *p, const conv_case *c, uint32_t order)
{
    const int64_t n = c->features, m = c->channels;
    const int64_t steps[4][4] = {
        {9 * m, 9, 3, 1}, {11 * m, 11, 3, 1}, {9, 9 * n, 3, 1}, {1, n, 3 * n * m, n * m}};
    for (uint32_t i = 0; i < 4; i++) {
        p->contraction.y.dims[i] = num(steps[order][i]);
    }
}

/* Winograd tiles that reach over the edges, several images at a time. */
static const conv_case winograd_cases[] = {
    {2, 1, 16, 32, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 5, 20, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 24, 33, 1, {30, 23}, {3, 3}, {1, 1}, {1, 1}, {2, 0}, {0, 2}},
    {2, 5, 70, 24, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 9, 16, 1, {3, 60}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 5, 12, 70, 1, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 6, 16, 1, {1, 2}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {2, 2}}};
#define WINOGRAD_CASES (sizeof winograd_cases / sizeof winograd_cases[0])

/* Every order of both images; weights that come with the call as well, in every order of axes. */
static void check_winograd(int is_constant)
{
    for (size_t i = 0; i < 4 * WINOGRAD_CASES; i++) {
        problem p;
        void (*const with_weights)(problem *) = is_constant ? with_constant : fill;
        f.threads = 1 + (int32_t)(i % 3);
        conv(&p, STATOR_F32, STATOR_F32, &winograd_cases[i / 4], i % 2, i / 2 % 2);
        order_weights(&p, &winograd_cases[i / 4], (uint32_t)(i + i / 4) % 4);
        with_weights(&p);
        run_as(&p, "a convolution by Winograd", 40, "tiles, winograd");
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        with_weights(&p);
        run_as(&p, "a convolution by Winograd and more", 40, "tiles, winograd");
    }
}

Test(dnnl_tiles, winograd)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_winograd(1);
}

Test(dnnl_tiles, winograd_of_weights_of_the_call)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_winograd(0);
}

/* The first call of an op, and one with other weights. `by`: what is to have done it, or NULL. */
static void call_twice(problem *p, const char *what, const char *by)
{
    void *op = create(p, what);
    call(p, op);
    compare(p, what, 40);
    for (int64_t k = 0; k < p->elements[Y]; k++) {
        const double y = st_load_f64(STATOR_F32, p->buffers[Y], k);
        st_store_f64(STATOR_F32, p->buffers[Y], k, 0.5 - y);
    }
    call(p, op);
    compare(p, what, 40);
    if (by) {
        cr_assert_str_eq(api->describe(op), by);
    }
    lib->destroy(lib->self, op);
}

/* As measured, and of sizes that calls alone tell. */
Test(dnnl_tiles, winograd_meets_the_weights_of_each_call)
{
    const conv_case c = {2, 2, 64, 64, 1, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    problem p;
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_TUNE)) {
        cr_skip_test("this processor has no AVX2");
    }
    conv(&p, STATOR_F32, STATOR_F32, &c, 0, 0);
    fill(&p);
    call_twice(&p, "a measured convolution", NULL);
    empty(&p);
    api->close(lib);
    open_with(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST | DNNL_VECTORS_32);
    conv(&p, STATOR_F32, STATOR_F32, &c, 0, 0);
    p.contraction.images = sym("n");
    p.sizes[0] = 2;
    fill(&p);
    call_twice(&p, "a convolution of any number of images", "tiles, winograd");
    empty(&p);
}

/* An op of the cache goes on in the way that was chosen, without a measurement. */
Test(dnnl_tiles, winograd_of_weights_of_the_call_is_kept)
{
    const conv_case c = {2, 2, 20, 24, 1, {15, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    static const int64_t none[3];
    stator_diag *err = NULL;
    uint32_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    st_str bytes;
    void *again = NULL;
    uint32_t unread = 0;
    problem p;
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    conv_transpose(&p, &c, none, 0, 0);
    fill(&p);
    st_str_init(&bytes, &f.mem);
    void *op = create(&p, "a kept convolution");
    cr_assert_eq(lib->op_save(lib->self, op, &bytes, &err), STATOR_OK);
    lib->destroy(lib->self, op);
    const st_library_kept kept = {.bytes = bytes.data,
                                  .size_bytes = bytes.len,
                                  .n_buffers = 3,
                                  .n_numbers = st_contraction_numbers(&p.contraction, numbers),
                                  .numbers = p.numbers,
                                  .is_static = 1};
    api->close(lib);
    open_with(DNNL_WINOGRAD | DNNL_VECTORS_32);
    cr_assert_eq(lib->op_load(lib->self, &kept, &again, &unread, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    call(&p, again);
    compare(&p, "a kept convolution", 40);
    cr_assert_str_eq(api->describe(again), "tiles, winograd");
    lib->destroy(lib->self, again);
    st_str_deinit(&bytes);
    empty(&p);
}

/* One block of Winograd tiles, and more: what a call asks for beside the heads of its blocks is
 * what the library says that it asks for, and it may fail. */
Test(dnnl_tiles, winograd_scratch_is_counted)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (int64_t i = 0; i < 2; i++) {
        const conv_case c = {2,      1,      16,     150,    1,     {9 + 90 * i, 31},
                             {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
        problem p;
        conv(&p, STATOR_F32, STATOR_F32, &c, 0, 0);
        fill(&p);
        check_scratch(&p, DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST | DNNL_VECTORS_32);
        empty(&p);
    }
}

/* A plan that keeps its packed weights asks for no scratch for them, also when another plan of
 * the op, past the cap, has given up the op's. */
Test(dnnl_tiles, winograd_of_a_plan_keeps_its_weights)
{
    const conv_case c = {2, 1, 16, 150, 1, {9, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    problem p;
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    f.threads = 1;
    conv(&p, STATOR_F32, STATOR_F32, &c, 0, 0);
    with_constant(&p);
    dn_op *op = create(&p, "a convolution that keeps its weights");
    cr_assert_str_eq(api->describe(op), "tiles, winograd");
    op->has_constant = 0;
    call(&p, op);
    compare(&p, "a convolution that keeps its weights", 40);
    lib->destroy(lib->self, op);
    empty(&p);
}

/* One block of Winograd tiles, whose panels the threads share, and more of them. */
Test(dnnl_tiles, winograd_has_the_same_bits_on_any_threads)
{
    static const conv_case cases[] = {
        {2, 3, 70, 90, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 3, 40, 20, 1, {50, 41}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 9, 20, 16, 1, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {0, 1}, {2, 0}}};
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        problem p;
        static const int64_t none[3];
        if (i % 2) {
            conv_transpose(&p, &cases[i / 2], none, 0, 0);
        } else {
            conv(&p, STATOR_F32, STATOR_F32, &cases[i / 2], 0, 0);
        }
        fill(&p);
        const size_t bytes = (size_t)p.elements[OUT] * sizeof(float);
        float *alone = malloc(bytes);
        void *op = create(&p, "one op for all threads");
        for (f.threads = 1; f.threads <= 4; f.threads++) {
            memset(p.buffers[OUT], 0, bytes);
            call(&p, op);
            if (f.threads == 1) {
                memcpy(alone, p.buffers[OUT], bytes);
            }
            cr_assert_eq(memcmp(alone, p.buffers[OUT], bytes), 0, "case %zu, %d threads", i,
                         (int)f.threads);
        }
        compare(&p, "one op for all threads", 40);
        cr_assert_str_eq(api->describe(op), "tiles, winograd");
        lib->destroy(lib->self, op);
        free(alone);
        empty(&p);
    }
}

/* Where gelu goes over to nothing and to all of x, and beyond. */
Test(dnnl_tiles, gelu_over_the_whole_range)
{
    if (!dnnl_begin_narrow(DNNL_FUSED)) {
        cr_skip_test("this processor has no AVX2");
    }
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, sym("m"), num(16), num(1));
    p.sizes[0] = 400;
    epilogue(&p, ST_EPILOGUE_GELU_ERF, 0, 0);
    with_constant(&p);
    for (int64_t i = 0; i < 400; i++) {
        st_store_f64(STATOR_F32, p.buffers[X], i,
                     i < 390 ? (double)(i - 195) / 32 : 1e30 * (double)(i - 395));
    }
    for (int64_t i = 0; i < 16; i++) {
        st_store_f64(STATOR_F32, p.buffers[Y], i, 1 + (double)i / 16);
    }
    void *op = create(&p, "gelu");
    call(&p, op);
    compare(&p, "gelu", 1);
    for (int64_t i = 0; i < 400; i++) { /* next to nothing, however large x is */
        const double x = st_load_f64(STATOR_F32, p.buffers[X], i);
        const double y = st_load_f64(STATOR_F32, p.buffers[OUT], 16 * i);
        cr_assert(x > -6 || (y <= 0 && y > -1e-6), "gelu(%g) is %g", x, y);
    }
    lib->destroy(lib->self, op);
    empty(&p);
}

static void one_nan(uint32_t dtype, const char *conv_name, const char *gemm_name)
{
    problem p;
    conv(&p, dtype, STATOR_F32, &images[1], 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    with_constant(&p);
    st_store_f64(dtype, p.buffers[X], 70, NAN);
    run(&p, conv_name, 1, 0);
    gemm(&p, dtype, STATOR_F32, num(20), num(40), num(33));
    epilogue(&p, ST_EPILOGUE_CLIP, -1, 1);
    with_constant(&p);
    st_store_f64(dtype, p.buffers[X], 70, NAN);
    run(&p, gemm_name, 1, 0);
}

Test(dnnl_tiles, nan_propagates)
{
    if (!has_wide(STATOR_BF16)) {
        cr_skip_test("this processor has no bf16");
    }
    one_nan(STATOR_BF16, "a convolution of bf16, one NaN", "a product of bf16, one NaN");
}

Test(dnnl_tiles, nan_propagates_in_floats)
{
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    one_nan(STATOR_F32, "a convolution of f32, one NaN", "a product of f32, one NaN");
}

Test(dnnl_tiles, products_of_halves)
{
    static const int64_t sizes[][3] = {
        {1, 40, 1000}, {15, 33, 77}, {127, 64, 96}, {300, 1, 65}, {29, 200, 250}};
    if (!has_wide(STATOR_BF16)) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        problem p;
        const int64_t *s = sizes[i];
        gemm(&p, STATOR_BF16, i % 2 ? STATOR_F32 : STATOR_BF16, num(s[0]), num(s[1]), num(s[2]));
        strides(&p.contraction.x, s[2] + 5, 1);
        strides(&p.contraction.out, s[1] + 3, 1);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        with_constant(&p);
        run(&p, "a product of bf16", 1, 0);
    }
}

/* Whole numbers that f32 holds at every step, so that not one may differ. */
static void set_whole(problem *p)
{
    for (uint32_t i = 0; i < p->contraction.n_epilogue; i++) {
        const st_epilogue *e = &p->contraction.epilogue[i];
        const double unit = e->dtype == STATOR_I32 ? 1000 : e->kind == ST_EPILOGUE_TIMES ? 2 : 0.5;
        for (int64_t k = 0; e->buffer && k < p->elements[e->buffer]; k++) {
            st_store_f64(e->dtype, p->buffers[e->buffer], k, (double)(k % 9 - 4) * unit);
        }
    }
}

/* Zero points by case: none, numbers, elements of buffers, one for each row and feature. */
static void set_zeros(problem *p, uint32_t kind)
{
    st_contraction *contraction = &p->contraction;
    if (kind == 1) {
        contraction->x_zero.value = contraction->x.dtype == STATOR_U8 ? 255 : -128;
        contraction->y_zero.value = contraction->y.dtype == STATOR_U8 ? 3 : 5;
    } else if (kind >= 2) {
        contraction->x_zero =
            (st_contraction_zero){.has_buffer = 1, .buffer = 3, .dtype = contraction->x.dtype};
        contraction->y_zero =
            (st_contraction_zero){.has_buffer = 1, .buffer = 4, .dtype = contraction->y.dtype};
        contraction->n_buffers = 5;
        contraction->x_zero.is_each = kind == 3 && contraction->kind == ST_CONTRACTION_GEMM;
        contraction->y_zero.is_each = kind == 3;
    }
}

/* Which case: both signs of both operands, with each kind of zero points. */
#define BYTE_CASES 16u

static const uint32_t bytes[] = {STATOR_U8, STATOR_I8};

static void set_kind(problem *p, uint32_t kind)
{
    p->contraction.y.dtype = bytes[kind / 2 % 2];
    set_zeros(p, kind / 4);
}

static void check_convolutions(void)
{
    for (uint32_t i = 0; i < BYTE_CASES * IMAGES; i++) {
        const conv_case *c = &images[i / BYTE_CASES];
        const uint32_t kind = i % BYTE_CASES;
        if (c->channels > 7 && (kind + i / BYTE_CASES) % 2) {
            continue; /* all kinds where pixels may fill no groups, else half of them */
        }
        const int x_last = (int)(i / 5 % 2);
        const int out_last = (int)(i / 7 % 2);
        const int may_be_other = x_last || out_last; /* AVX-512 takes channels first alone */
        problem p;
        conv(&p, bytes[kind % 2], STATOR_I32, c, x_last, out_last);
        set_kind(&p, kind);
        with_constant(&p);
        run(&p, "a convolution of bytes to integers", 0, may_be_other);
        if (i % 3) {
            continue;
        }
        conv(&p, bytes[kind % 2], STATOR_F32, c, x_last, out_last);
        p.contraction.y.dtype = bytes[kind / 2 % 2];
        p.contraction.x_zero.value = kind / 4 ? 17 : 0;
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        p.contraction.epilogue[0].dtype = STATOR_I32;
        epilogue(&p, ST_EPILOGUE_SCALE, 0.015625, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_DIVIDE, 8, 0);
        epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
        epilogue(&p, ST_EPILOGUE_OFFSET, 11, 0);
        p.contraction.out.dtype = bytes[kind / 4 % 2];
        with_constant(&p);
        set_whole(&p);
        run(&p, "a convolution of bytes to bytes", 0, may_be_other);
    }
}

Test(dnnl_tiles, convolutions_of_bytes)
{
    check_bytes(0, check_convolutions);
}

static void check_groups(void)
{
    for (uint32_t i = 0; i < 8 * GROUPED; i++) {
        problem p;
        conv(&p, bytes[i % 2], STATOR_I32, &grouped[i / 8], i / 2 % 2, i / 4 % 2);
        p.contraction.y.dtype = STATOR_I8;
        p.contraction.x_zero.value = i % 3 ? 17 : 0;
        with_constant(&p);
        run(&p, "groups of bytes", 0, has_wide(STATOR_U8));
        conv(&p, bytes[i % 2], STATOR_F32, &grouped[i / 8], i / 2 % 2, i / 4 % 2);
        p.contraction.y.dtype = STATOR_I8;
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        p.contraction.epilogue[0].dtype = STATOR_I32;
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
        p.contraction.out.dtype = bytes[i / 2 % 2];
        with_constant(&p);
        set_whole(&p);
        run(&p, "groups of bytes to bytes", 0, has_wide(STATOR_U8));
    }
}

Test(dnnl_tiles, groups_of_bytes)
{
    check_bytes(0, check_groups);
}

static void check_products(void)
{
    static const int64_t sizes[][3] = {{1, 40, 1000}, {15, 33, 77},   {127, 64, 96},
                                       {300, 1, 65},  {29, 200, 250}, {40, 20, 3000}};
    for (uint32_t i = 0; i < BYTE_CASES * sizeof sizes / sizeof sizes[0]; i++) {
        const uint32_t kind = i % BYTE_CASES;
        const int64_t *s = sizes[i / BYTE_CASES];
        problem p;
        gemm(&p, bytes[kind % 2], STATOR_I32, num(s[0]), num(s[1]), num(s[2]));
        strides(&p.contraction.x, s[2] + 5, 1);
        strides(&p.contraction.out, s[1] + 3, 1);
        set_kind(&p, kind);
        with_constant(&p);
        run(&p, "a product of bytes to integers", 0, 0);
        gemm(&p, bytes[kind % 2], STATOR_F32, num(s[0]), num(s[1]), num(s[2]));
        p.contraction.y.dtype = bytes[kind / 2 % 2];
        p.contraction.x_zero.value = kind / 4 ? 17 : 0;
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
        p.contraction.out.dtype = bytes[kind / 4 % 2];
        with_constant(&p);
        set_whole(&p);
        run(&p, "a product of bytes to bytes", 0, 0);
    }
}

Test(dnnl_tiles, products_of_bytes)
{
    check_bytes(0, check_products);
}

/* As direct convolutions, to the last bit: both signs of x, each end of what bytes are; weights
 * that have zero points, or are unsigned, are done without. */
Test(dnnl_tiles, winograd_of_bytes)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (uint32_t i = 0; i < 8 * WINOGRAD_CASES; i++) {
        const conv_case *c = &winograd_cases[i / 8];
        const int is_last = (int)(i / 2 % 2);
        problem p;
        f.threads = 1 + (int32_t)(i % 3);
        conv(&p, bytes[i % 2], STATOR_I32, c, is_last, (int)(i / 4 % 2));
        p.contraction.y.dtype = STATOR_I8;
        set_zeros(&p, i / 4 % 2);
        p.contraction.y_zero.value = 0;
        with_constant(&p);
        for (int64_t k = 0; i % 3 == 0 && k < p.elements[X]; k++) {
            st_store_i64(bytes[i % 2], p.buffers[X], k, i % 2 ? -128 : 255);
        }
        for (int64_t k = 0; i % 3 == 0 && k < p.elements[Y]; k++) {
            st_store_i64(STATOR_I8, p.buffers[Y], k, k % 7 ? -128 : 127);
        }
        run_as(&p, "a convolution of bytes by Winograd", 0, "tiles, winograd");
        if (i % 5) {
            continue;
        }
        conv(&p, bytes[i % 2], STATOR_F32, c, is_last, (int)(i / 4 % 2));
        p.contraction.y.dtype = STATOR_I8;
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        p.contraction.epilogue[0].dtype = STATOR_I32;
        epilogue(&p, ST_EPILOGUE_SCALE, 0.015625, 0);
        epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
        p.contraction.out.dtype = bytes[i / 2 % 2];
        with_constant(&p);
        set_whole(&p);
        run_as(&p, "a convolution of bytes to bytes by Winograd", 0, "tiles, winograd");
        conv(&p, bytes[i % 2], STATOR_I32, c, is_last, is_last);
        p.contraction.y.dtype = bytes[i / 2 % 2];
        p.contraction.y_zero.value = 1;
        with_constant(&p);
        run_as(&p, "a convolution of bytes and a zero point", 0, "tiles");
    }
}

/* Sums past 2^24, which f32 would round, with zero points of both operands. */
static void check_deep(void)
{
    const conv_case deep = {2, 1, 100, 40, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    for (uint32_t i = 0; i < 2; i++) {
        problem p;
        conv(&p, STATOR_U8, STATOR_I32, &deep, 0, 0);
        p.contraction.y.dtype = bytes[i];
        p.contraction.x_zero.value = 3;
        p.contraction.y_zero.value = i ? -120 : 7;
        with_constant(&p);
        for (int64_t k = 0; k < p.elements[X]; k++) {
            st_store_i64(STATOR_U8, p.buffers[X], k, 255 - k % 3);
        }
        for (int64_t k = 0; k < p.elements[Y]; k++) {
            st_store_i64(bytes[i], p.buffers[Y], k, (i ? 127 : 255) - k % 2);
        }
        run(&p, "a deep convolution of bytes", 0, 0);
    }
}

Test(dnnl_tiles, deep_convolutions_of_bytes)
{
    check_bytes(0, check_deep);
}

/* What is no number of the output: NaN is the least one. */
static void check_limits(void)
{
    static const float factors[] = {NAN, INFINITY, -INFINITY, 1e9f, -1e9f, 2, -0.25f, 3.9f};
    static const int unsigned_[] = {0, 255, 0, 255, 0, 128, 0, 250};
    static const int signed_[] = {-128, 127, -128, 127, -128, 127, -16, 127};
    for (uint32_t i = 0; i < 2; i++) {
        problem p;
        gemm(&p, STATOR_U8, STATOR_F32, num(30), num(40), num(64));
        p.contraction.y.dtype = STATOR_I8;
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
        p.contraction.out.dtype = bytes[i];
        with_constant(&p);
        memset(p.buffers[X], 1, (size_t)p.elements[X]);
        memset(p.buffers[Y], 1, (size_t)p.elements[Y]);
        for (int64_t k = 0; k < 40; k++) {
            st_store_f64(STATOR_F32, p.buffers[p.contraction.epilogue[0].buffer], k,
                         factors[k % 8]);
        }
        void *op = create(&p, "limits of bytes");
        call(&p, op);
        for (int64_t k = 0; k < 30 * 40; k++) {
            const int64_t is = st_load_i64(bytes[i], p.buffers[OUT], k);
            const int expected = i ? signed_[k % 8] : unsigned_[k % 8];
            cr_assert_eq(is, expected, "64 * %g is %d", (double)factors[k % 8], (int)is);
        }
        lib->destroy(lib->self, op);
        empty(&p);
    }
}

Test(dnnl_tiles, byte_products_at_the_limits_of_the_range)
{
    check_bytes(0, check_limits);
}

/* An image of which not all lines are in scratch at a time; places above and below it left out. */
Test(dnnl_tiles, image_taller_than_scratch_is_computed_in_blocks)
{
    const conv_case c = {2, 1, 160, 1, 1, {19, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (int is_last = 0; is_last < 2; is_last++) {
        problem p;
        f.threads = 1 + is_last;
        conv(&p, STATOR_U8, STATOR_I32, &c, is_last, 0);
        with_constant(&p);
        run(&p, "blocks of lines of bytes", 0, 0);
        conv(&p, STATOR_F32, STATOR_F32, &c, is_last, 0);
        with_constant(&p);
        run(&p, "blocks of lines", 1, 0);
    }
}

/* As many channels as four times the sums of fit, and one more. */
Test(dnnl_tiles, winograd_channels_are_limited_by_int32_sums)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (uint32_t i = 0; i < 8; i++) {
        const int64_t channels = i < 4 ? 1800 : 1801;
        const conv_case c = {2, 1, channels, 2, 1, {4, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
        problem p;
        conv(&p, bytes[i % 2], STATOR_I32, &c, 0, 0);
        p.contraction.y.dtype = STATOR_I8;
        with_constant(&p);
        memset(p.buffers[X], i % 2 ? 0x80 : 0xff, (size_t)p.elements[X]);
        memset(p.buffers[Y], i / 2 % 2 ? 0x80 : 0x7f, (size_t)p.elements[Y]);
        run_as(&p, "many channels", 0, i < 4 ? "tiles, winograd" : "tiles");
    }
}

/* One constant for two widths of vectors, which pack it each in its way. */
Test(dnnl_tiles, one_constant_is_packed_for_two_vector_widths)
{
    const conv_case c = {2, 1, 16, 32, 1, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    problem p;
    if (!has_wide(STATOR_U8)) {
        cr_skip_test("this processor has one width alone");
    }
    conv(&p, STATOR_U8, STATOR_I32, &c, 0, 0);
    with_constant(&p);
    void *wide = create(&p, "wide vectors");
    lib->destroy(lib->self, wide);
    cr_assert(dnnl_begin_narrow(0));
    run(&p, "the constant of wide vectors", 0, 0);
}

/* Sizes of a call that were not known before; measured against what oneDNN has. */
Test(dnnl_tiles, kernels_are_measured_against_onednn_at_call_sizes)
{
    problem p;
    if (!has_wide(STATOR_BF16)) {
        cr_skip_test("this processor has no bf16");
    }
    api->close(lib);
    open_with(DNNL_TUNE);
    const conv_case c = {2, 4, 64, 64, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    conv(&p, STATOR_BF16, STATOR_BF16, &c, 0, 0);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    p.contraction.epilogue[0].dtype = STATOR_BF16;
    with_constant(&p);
    run(&p, "a measured convolution", 1, 1);
    gemm(&p, STATOR_U8, STATOR_F32, sym("m"), num(64), num(128));
    p.sizes[0] = 37;
    with_constant(&p);
    run(&p, "rows of any number", 1, 0);
}

/* What was measured for signed weights is no choice for unsigned ones, which oneDNN does not take:
 * for many sizes, as either may have won. */
static void check_chosen(void)
{
    for (int64_t i = 0; i < 16; i++) {
        for (uint32_t kind = 0; kind < 2; kind++) {
            problem p;
            gemm(&p, STATOR_U8, STATOR_I32, num(64 + 16 * i), num(128 + 32 * (i % 4)), num(256));
            p.contraction.y.dtype = kind ? STATOR_U8 : STATOR_I8;
            with_constant(&p);
            run(&p, kind ? "unsigned weights" : "signed weights", 0, kind == 0);
        }
    }
}

Test(dnnl_tiles, kernel_is_chosen_by_dtypes)
{
    check_bytes(DNNL_TUNE, check_chosen);
}
