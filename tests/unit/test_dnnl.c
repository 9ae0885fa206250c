/* Contractions by oneDNN against plain loops in f64: contractions built by hand, without a
 * graph. Skipped, with a line that says so, where the build or the machine is without libdnnl. */
#define _GNU_SOURCE
#include "dnnl_support.h"

#include "core/base/convert.h"
#include "core/base/diag.h"
#include "core/base/threads/threads.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(dnnl, .init = dnnl_begin, .fini = dnnl_end);

/* ---- GEMM ---- */

Test(dnnl, gemm_of_every_axis_order)
{
    static const struct {
        const char *name;
        int64_t x[2], y[2], out[2];
    } cases[] = {{"dense", {50, 1}, {70, 1}, {70, 1}},
                 {"x transposed", {1, 37}, {70, 1}, {70, 1}},
                 {"y transposed", {50, 1}, {1, 50}, {70, 1}},
                 {"both transposed", {1, 37}, {1, 50}, {70, 1}},
                 {"out transposed", {50, 1}, {70, 1}, {1, 37}},
                 {"all transposed", {1, 37}, {1, 50}, {1, 37}},
                 {"rows apart", {64, 1}, {96, 1}, {80, 1}},
                 {"every second", {100, 2}, {140, 2}, {140, 2}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p;
        gemm(&p, STATOR_F32, STATOR_F32, num(37), num(70), num(50));
        strides(&p.contraction.x, cases[i].x[0], cases[i].x[1]);
        strides(&p.contraction.y, cases[i].y[0], cases[i].y[1]);
        strides(&p.contraction.out, cases[i].out[0], cases[i].out[1]);
        check(&p, cases[i].name);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        p.contraction.x.offset = num(3);
        p.contraction.y.offset = num(5);
        p.contraction.out.offset = num(7);
        check(&p, cases[i].name);
    }
}

Test(dnnl, gemm_shapes)
{
    static const int64_t shapes[][3] = {{1, 1000, 512}, {1000, 1, 512},  {8, 3072, 768},
                                        {197, 64, 197}, {33, 65, 1},     {256, 256, 256},
                                        {5, 9, 2000},   {17, 100, 1000}, {1, 1, 9000}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        problem p;
        char name[64];
        (void)snprintf(name, sizeof name, "%lld x %lld x %lld", (long long)shapes[i][0],
                       (long long)shapes[i][1], (long long)shapes[i][2]);
        gemm(&p, STATOR_F32, STATOR_F32, num(shapes[i][0]), num(shapes[i][1]), num(shapes[i][2]));
        if (shapes[i][0] * shapes[i][1] * shapes[i][2] >= 8192) {
            check(&p, name);
        } else {
            cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "%s is too small to be taken",
                         name);
        }
    }
}

Test(dnnl, gemm_batches)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 16 * 40, 40 * 24, 16 * 24);
    check(&p, "batch");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 16 * 40, 0, 16 * 24);
    check(&p, "y for all, rows that join");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 20 * 40, 0, 16 * 24);
    check(&p, "y for all, rows apart");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 0, 40 * 24, 16 * 24);
    check(&p, "x for all");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 2, 3 * 16 * 40, 0, 3 * 16 * 24);
    batch(&p, 3, 16 * 40, 40 * 24, 16 * 24);
    check(&p, "two, one of them for all");
    gemm(&p, STATOR_F32, STATOR_F32, num(1), num(24), num(40));
    batch(&p, 30, 40, 0, 24);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    check(&p, "a batch of rows");
    gemm(&p, STATOR_F32, STATOR_F32, num(8), num(9), num(10));
    batch(&p, 2, 1, 1, 9000);
    batch(&p, 1, 7, 7, 7);
    batch(&p, 3, 200, 300, 1000);
    batch(&p, 2, 1000, 2000, 100);
    strides(&p.contraction.x, 20, 2);
    strides(&p.contraction.y, 27, 3);
    check(&p, "four, strides of their own");
}

/* Heads of attention out of one tensor of queries, keys and values. */
Test(dnnl, gemm_of_interleaved_attention_heads)
{
    enum { S = 20, H = 3, D = 16, W = 3 * H * D };
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(S), num(S), num(D));
    strides(&p.contraction.x, W, 1);
    strides(&p.contraction.y, 1, W);
    batch(&p, 2, (int64_t)S * W, (int64_t)S * W, (int64_t)H * S * S);
    batch(&p, H, D, D, (int64_t)S * S);
    p.contraction.y.offset = num(H * D);
    epilogue(&p, ST_EPILOGUE_SCALE, 0.25, 0);
    check(&p, "queries by keys");
    gemm(&p, STATOR_F32, STATOR_F32, num(S), num(D), num(S));
    strides(&p.contraction.y, W, 1);
    strides(&p.contraction.out, H * D, 1);
    batch(&p, 2, (int64_t)H * S * S, (int64_t)S * W, (int64_t)S * H * D);
    batch(&p, H, (int64_t)S * S, D, D);
    p.contraction.y.offset = num(2 * H * D);
    check(&p, "weights by values");
}

Test(dnnl, epilogues)
{
    static const uint32_t exact[] = {ST_EPILOGUE_RELU, ST_EPILOGUE_SCALE, ST_EPILOGUE_CLIP,
                                     ST_EPILOGUE_GELU_TANH, ST_EPILOGUE_TANH};
    static const uint32_t rough[] = {ST_EPILOGUE_GELU_ERF, ST_EPILOGUE_SIGMOID, ST_EPILOGUE_SILU};
    for (size_t i = 0; i < 5 + 3; i++) {
        const uint32_t kind = i < 5 ? exact[i] : rough[i - 5];
        problem p;
        gemm(&p, STATOR_F32, STATOR_F32, num(40), num(50), num(30));
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, kind, -0.5, 2);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        if (i == 5) {
            cr_assert_eq(lib->takes(lib->self, &p.contraction), 0,
                         "beyond 2 ulp: refused when exact");
            api->close(lib);
            open_with(DNNL_FUSED);
        }
        check(&p, "epilogue");
    }
}

Test(dnnl, unsupported_contractions_are_refused)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 1);
    epilogue(&p, ST_EPILOGUE_SCALE, 0.1, 0);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "0.1 is no f32");
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    epilogue(&p, ST_EPILOGUE_CLIP, 2, 1);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0);
    gemm(&p, STATOR_F64, STATOR_F64, num(64), num(64), num(64));
    p.contraction.acc_dtype = STATOR_F64;
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0);
    gemm(&p, STATOR_F32, STATOR_F32, num(40), num(64), num(64)); /* kernels of our own take more */
    strides(&p.contraction.x, 1, 1);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "rows that overlap");
    gemm(&p, STATOR_F32, STATOR_F32, num(40), num(64), num(64));
    strides(&p.contraction.x, 64, -1);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "rows that run backwards");
}

Test(dnnl, bf16)
{
    problem p;
    gemm(&p, STATOR_BF16, STATOR_F32, num(60), num(80), num(128));
    if (lib->takes(lib->self, &p.contraction) != 1) {
        cr_skip_test("this processor has no fast bf16");
    }
    check(&p, "bf16 to f32");
    gemm(&p, STATOR_BF16, STATOR_BF16, num(60), num(80), num(128));
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    check(&p, "bf16 to bf16");
    const conv_case c = {2, 2, 32, 48, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    conv(&p, STATOR_BF16, STATOR_BF16, &c, 1, 1);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    check(&p, "bf16 convolution");
    p.contraction.epilogue[0].dtype = STATOR_BF16;
    check(&p, "a bias of bf16");
    conv(&p, STATOR_BF16, STATOR_BF16, &c, 1, 1);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    p.contraction.epilogue[0].dtype = p.contraction.epilogue[1].dtype = STATOR_BF16;
    check(&p, "a residual of bf16");
    conv(&p, STATOR_F32, STATOR_F32, &c, 1, 1);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    p.contraction.epilogue[0].dtype = STATOR_BF16;
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "a bias of bf16 in f32");
}

/* Done in f32, whatever the processor. */
Test(dnnl, f16_is_computed_in_f32)
{
    problem p;
    const conv_case c = {2, 2, 32, 48, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t out = i ? STATOR_F32 : STATOR_F16;
        gemm(&p, STATOR_F16, out, num(60), num(80), num(128));
        check(&p, "f16");
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        p.contraction.epilogue[0].dtype = STATOR_F16;
        check(&p, "f16, a bias of f16");
        strides(&p.contraction.out, 100, 1);
        p.contraction.x.offset = num(3);
        p.contraction.y.offset = num(5);
        p.contraction.out.offset = num(7);
        p.contraction.epilogue[1].dtype = STATOR_F16;
        check(&p, "f16 in rows apart");
        conv(&p, STATOR_F16, out, &c, 1, 1);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        p.contraction.epilogue[0].dtype = STATOR_F16;
        check(&p, "f16 convolution");
    }
}

/* Sums beyond 2^24, which f32 would round. */
Test(dnnl, integer_products_are_exact_beyond_2_24)
{
    static const uint32_t dtypes[] = {STATOR_U8, STATOR_I8};
    for (uint32_t i = 0; i < 2; i++) {
        problem p;
        gemm(&p, dtypes[i], STATOR_I32, num(20), num(30), num(3000));
        if (lib->takes(lib->self, &p.contraction) != 1) {
            cr_skip_test("this processor has no VNNI");
        }
        for (uint32_t is_constant = 0; is_constant < 4; is_constant++) {
            p.contraction.x_zero.value = is_constant < 2 ? 0 : -100;
            fill(&p);
            for (int64_t k = 0; k < p.elements[X]; k++) {
                st_store_i64(dtypes[i], p.buffers[X], k, 127 - k % 3);
            }
            for (int64_t k = 0; k < p.elements[Y]; k++) {
                st_store_i64(STATOR_I8, p.buffers[Y], k, 127 - k % 2);
            }
            p.contraction.y_data = NULL;
            if (is_constant % 2) {
                set_constant(&p);
            }
            void *op = create(&p, "integers");
            call(&p, op);
            const walk w = walk_of(&p);
            for (int64_t e = 0; e < 600; e++) {
                const int64_t index[2] = {e / 30, e % 30};
                const total t = gemm_at(&p, &w, index);
                cr_assert_eq(st_load_i64(STATOR_I32, p.buffers[OUT], e), (int64_t)t.value);
            }
            lib->destroy(lib->self, op);
            empty(&p);
        }
    }
}

/* Sums of bytes that are made f32: zero points known and not, a factor, a row of factors. */
Test(dnnl, byte_products_with_zero_points_and_scales)
{
    static const uint32_t dtypes[] = {STATOR_U8, STATOR_I8};
    for (uint32_t i = 0; i < 2 * 3; i++) {
        problem p;
        gemm(&p, dtypes[i % 2], STATOR_F32, num(40), num(50), num(70));
        if (lib->takes(lib->self, &p.contraction) != 1) {
            cr_skip_test("this processor has no VNNI");
        }
        if (i / 2 == 1) {
            p.contraction.x_zero.value = 77;
        } else if (i / 2 == 2) {
            p.contraction.x_zero =
                (st_contraction_zero){.has_buffer = 1, .buffer = 3, .dtype = dtypes[i % 2]};
            p.contraction.n_buffers++;
        }
        check(&p, "bytes to f32");
        epilogue(&p, ST_EPILOGUE_TIMES_ONE, 0, 0);
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        check(&p, "bytes to f32, scaled");
        p.contraction.epilogue[2].dtype = STATOR_I32;
        cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "a bias of i32 among f32");
    }
}

/* The same in a convolution; integers where f32 can hold every sum, with what is 0 outside. */
Test(dnnl, convolutions_of_bytes)
{
    static const uint32_t dtypes[] = {STATOR_U8, STATOR_I8};
    const conv_case deep = {2, 1, 56, 32, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const conv_case deeper = {2, 1, 58, 32, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const conv_case grouped = {2, 2, 16, 32, 2, {9, 11}, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {2, 0}};
    for (uint32_t i = 0; i < 2 * 2; i++) {
        problem p;
        conv(&p, dtypes[i % 2], STATOR_I32, &deep, 1, 1);
        p.contraction.x_zero.value = i / 2 ? -100 : 0;
        if (lib->takes(lib->self, &p.contraction) != 1) {
            cr_skip_test("this processor has no VNNI");
        }
        fill(&p);
        for (int64_t k = 0; k < p.elements[X]; k++) {
            st_store_i64(dtypes[i % 2], p.buffers[X], k, 127 - k % 3);
        }
        for (int64_t k = 0; k < p.elements[Y]; k++) {
            st_store_i64(STATOR_I8, p.buffers[Y], k, 127 - k % 2);
        }
        void *op = create(&p, "a deep convolution");
        call(&p, op);
        compare(&p, "a deep convolution", 0);
        lib->destroy(lib->self, op);
        empty(&p);
        conv(&p, dtypes[i % 2], STATOR_I32, &deeper, 1, 1);
        p.contraction.x_zero.value = i / 2 ? -100 : 3;
        cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "sums may pass 2^24");
        conv(&p, dtypes[i % 2], STATOR_F32, &grouped, 1, 0);
        p.contraction.x_zero.value = i / 2 ? 31 : 0;
        epilogue(&p, ST_EPILOGUE_SCALE, 0.25, 0);
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        check(&p, "a convolution of bytes to f32");
    }
}

/* Sums made bytes again. The numbers are such that f32 holds every step: not one quantum may
 * differ. */
static void quantise(problem *p, double zero)
{
    epilogue(p, ST_EPILOGUE_SCALE, 0.015625, 0);
    epilogue(p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(p, ST_EPILOGUE_DIVIDE, 8, 0);
    epilogue(p, ST_EPILOGUE_ROUND, 0, 0);
    if (zero != 0) {
        epilogue(p, ST_EPILOGUE_OFFSET, zero, 0);
    }
}

static void set_whole(problem *p, const st_epilogue *e)
{
    const double unit = e->dtype == STATOR_I32 ? 1000 : 0.5;
    for (int64_t i = 0; e->buffer && i < p->elements[e->buffer]; i++) {
        st_store_f64(e->dtype, p->buffers[e->buffer], i, (double)(i % 9 - 4) * unit);
    }
}

static void check_exact(problem *p, const char *what)
{
    fill(p);
    set_constant(p);
    for (uint32_t i = 0; i < p->contraction.n_epilogue; i++) {
        set_whole(p, &p->contraction.epilogue[i]);
    }
    void *op = create(p, what);
    call(p, op);
    compare(p, what, 0);
    cr_assert_str_neq(api->describe(op), "plain", "%s", what);
    lib->destroy(lib->self, op);
    empty(p);
}

Test(dnnl, byte_products_requantized_to_bytes)
{
    static const uint32_t dtypes[] = {STATOR_U8, STATOR_I8};
    const conv_case image = {2, 2, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    for (uint32_t i = 0; i < 2 * 2 * 2; i++) {
        problem p;
        const uint32_t to = dtypes[i / 2 % 2];
        const double zero = i / 4 ? (to == STATOR_U8 ? 129 : -3) : 0;
        gemm(&p, dtypes[i % 2], STATOR_F32, num(40), num(50), num(70));
        if (lib->takes(lib->self, &p.contraction) != 1) {
            cr_skip_test("this processor has no VNNI");
        }
        p.contraction.out.dtype = to;
        p.contraction.x_zero.value = i % 2 ? 0 : 100;
        quantise(&p, zero);
        check_exact(&p, "a matrix product of bytes");
        epilogue(&p, ST_EPILOGUE_CLIP, 0, 99);
        check_exact(&p, "a matrix product of bytes, bounded");
        conv(&p, dtypes[i % 2], STATOR_F32, &image, 1, i & 1);
        p.contraction.out.dtype = to;
        quantise(&p, zero);
        check_exact(&p, "a convolution of bytes");
    }
}

/* A bias of integers in front, as QLinearConv has it. */
Test(dnnl, integer_bias_before_requantization)
{
    const conv_case image = {2, 2, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    for (uint32_t is_conv = 0; is_conv < 2; is_conv++) {
        problem p;
        if (is_conv) {
            conv(&p, STATOR_U8, STATOR_F32, &image, 1, 1);
        } else {
            gemm(&p, STATOR_U8, STATOR_F32, num(40), num(50), num(70));
        }
        if (lib->takes(lib->self, &p.contraction) != 1) {
            cr_skip_test("this processor has no VNNI");
        }
        p.contraction.x_zero.value = 100;
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        p.contraction.epilogue[0].dtype = STATOR_I32;
        epilogue(&p, ST_EPILOGUE_SCALE, 0.0078125, 0);
        check_exact(&p, "bytes to f32");
        p.contraction.out.dtype = STATOR_U8;
        epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
        epilogue(&p, ST_EPILOGUE_OFFSET, 128, 0);
        check_exact(&p, "bytes to bytes");
    }
}

/* Rows of one kind with numbers of their own: oneDNN 2.6 mixes up those of eltwise post-ops. */
Test(dnnl, repeated_epilogues_keep_their_numbers)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(40), num(50), num(70));
    epilogue(&p, ST_EPILOGUE_SCALE, 0.5, 0);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_SCALE, 3, 0);
    check(&p, "two factors");
    gemm(&p, STATOR_F32, STATOR_F32, num(40), num(50), num(70));
    epilogue(&p, ST_EPILOGUE_CLIP, -1, 1);
    epilogue(&p, ST_EPILOGUE_CLIP, -0.5, 2);
    cr_assert_eq(lib->takes(lib->self, &p.contraction), 0, "two clips");
}

/* A bias that is one number; also where few rows meet constants, and behind another row. */
Test(dnnl, scalar_bias)
{
    for (int64_t m = 2; m <= 40; m += 38) {
        problem p;
        gemm(&p, STATOR_F32, STATOR_F32, num(m), num(60), num(70));
        epilogue(&p, ST_EPILOGUE_OFFSET, 0.5, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        check(&p, "a number");
        epilogue(&p, ST_EPILOGUE_OFFSET, -3, 0);
        check(&p, "two numbers");
    }
}

/* ---- convolutions ---- */

static const conv_case convs[] = {
    {2, 2, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 16, 32, 1, {9, 11}, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {2, 0}}, /* pads not alike */
    {2, 1, 3, 64, 1, {33, 33}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}}, /* a stem */
    {2, 1, 64, 40, 1, {14, 14}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 24, 24, 24, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* depthwise */
    {2, 1, 24, 48, 24, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* two a channel */
    {2, 1, 24, 36, 3, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},  /* groups */
    {2, 1, 16, 16, 1, {15, 15}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},  /* dilated */
    {2, 1, 5, 7, 1, {10, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 64, 64, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 1, 16, 1, {28, 28}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {1, 2, 16, 32, 1, {40}, {5}, {2}, {1}, {2}, {1}},
    {3, 1, 8, 16, 1, {6, 7, 8}, {3, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};

Test(dnnl, convs)
{
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++) {
        for (uint32_t order = 0; order < 4; order++) {
            char name[64];
            problem p;
            (void)snprintf(name, sizeof name, "convolution %zu, orders %u", i, order);
            conv(&p, STATOR_F32, STATOR_F32, &convs[i], order & 1, order >> 1);
            p.misalign = 16;
            check(&p, name);
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            if (lib->takes(lib->self, &p.contraction) == 1) {
                check(&p, name);
            } else { /* with AVX2 oneDNN reads the tensor that is added at a wrong place */
                cr_assert(convs[i].groups > 1 && order >= 2, "%s is not taken", name);
            }
        }
    }
}

/* Channels first: images are transposed on their way to what wants channels last, of any size. With
 * tanh, as kernels of our own would be chosen without. */
Test(dnnl, convs_of_bf16)
{
    static const conv_case odd[] = {
        {2, 3, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 2, 20, 36, 1, {20, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 9, 12, 1, {21, 20}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}},
        {1, 2, 16, 32, 1, {600}, {5}, {2}, {1}, {2}, {1}}};
    uint32_t transposed = 0;
    problem first;
    conv(&first, STATOR_BF16, STATOR_BF16, &odd[0], 1, 1);
    if (lib->takes(lib->self, &first.contraction) != 1) {
        cr_skip_test("this processor has no bf16");
    }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        for (uint32_t order = 0; order < 4; order++) {
            problem p;
            conv(&p, STATOR_BF16, STATOR_BF16, &odd[i], order & 1, order >> 1);
            check(&p, "a convolution of bf16");
            epilogue(&p, ST_EPILOGUE_TANH, 0, 0);
            fill(&p);
            set_constant(&p);
            void *op = create(&p, "a convolution of bf16");
            call(&p, op);
            transposed += order == 0 && strstr(api->describe(op), "brgconv") != NULL;
            lib->destroy(lib->self, op);
            empty(&p);
        }
    }
    /* Without bf16 instructions oneDNN has another way. */
    cr_assert(transposed || !__builtin_cpu_supports("avx512bf16"));
}

static const struct {
    conv_case c;
    int64_t more[3];
} transposed[] = {
    {{2, 2, 32, 16, 1, {7, 9}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}}, /* no overlap */
    {{2, 1, 16, 32, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
    {{2, 1, 16, 16, 1, {8, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}}, /* more of it */
    {{2, 1, 16, 16, 1, {8, 8}, {3, 2}, {1, 3}, {1, 1}, {0, 1}, {1, 0}}, {0, 2}},
    {{2, 1, 16, 32, 1, {9, 9}, {3, 3}, {1, 1}, {2, 2}, {0, 0}, {0, 0}}, {0, 0}}, /* dilated */
    {{2, 1, 24, 36, 3, {8, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}}, /* groups */
    {{2, 1, 24, 24, 24, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
    {{2, 1, 5, 7, 1, {10, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}}, {0, 0}},
    {{1, 2, 32, 16, 1, {20}, {4}, {2}, {1}, {1}, {1}}, {0}},
    {{3, 1, 16, 8, 1, {4, 5, 6}, {3, 3, 3}, {2, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
     {1, 0, 0}}};

Test(dnnl, transposed_convs)
{
    for (size_t i = 0; i < sizeof transposed / sizeof transposed[0]; i++) {
        for (uint32_t order = 0; order < 4; order++) {
            char name[64];
            problem p;
            (void)snprintf(name, sizeof name, "transposed %zu, orders %u", i, order);
            conv_transpose(&p, &transposed[i].c, transposed[i].more, order & 1, order >> 1);
            check(&p, name);
            epilogue(&p, i % 2 ? ST_EPILOGUE_BIAS : ST_EPILOGUE_OFFSET, 0.5, 0);
            check(&p, name);
            epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            p.contraction.y_data =
                NULL; /* kernels of our own take constants alone, but plane by plane */
            const conv_case *c = &transposed[i].c;
            const int is_plane = order == 0 && c->groups > 1 && c->groups == c->channels;
            cr_assert_eq(lib->takes(lib->self, &p.contraction), is_plane, "%s: another row", name);
        }
    }
}

/* Channels that are a part of a wider tensor's. */
Test(dnnl, convs_of_channel_slices)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 1, 1);
    for (uint32_t i = 0; i < 4; i++) {
        if (i != 1) {
            p.contraction.x.dims[i] = st_sym_mul(&syms.tab, p.contraction.x.dims[i], num(2));
            p.contraction.out.dims[i] = st_sym_mul(&syms.tab, p.contraction.out.dims[i], num(3));
        }
    }
    p.contraction.x.offset = num(16);
    p.contraction.out.offset = num(32);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    check(&p, "slices");
}

Test(dnnl, tuned_convs_equal_the_reference)
{
    static const conv_case cases[] = {
        {2, 2, 32, 32, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 64, 64, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 3, 64, 1, {64, 64}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}}};
    api->close(lib);
    open_with(DNNL_TUNE | DNNL_WINOGRAD);
    for (size_t i = 0; i < 3; i++) {
        for (int last = 0; last < 2; last++) {
            problem p;
            conv(&p, STATOR_F32, STATOR_F32, &cases[i], last, last);
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            check(&p, "measured");
        }
    }
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(128), num(256), num(128));
    strides(&p.contraction.x, 200, 1);
    check(&p, "measured product");
}

/* ---- values that are not finite ---- */

Test(dnnl, nan_and_infinity_propagate)
{
    static const int32_t threads[] = {1, 2, 4};
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t t = 0; t < 3 * 4; t++) {
        f.threads = threads[t / 4];
        for (uint32_t kind = 0; kind < 3; kind++) {
            problem p;
            if (kind == 2) {
                conv(&p, STATOR_F32, STATOR_F32, &convs[0], 1, 1);
            } else {
                gemm(&p, STATOR_F32, kind ? STATOR_BF16 : STATOR_F32, num(64), num(48), num(32));
                p.contraction.out.dtype = STATOR_F32;
            }
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            if (kind == 1) {
                epilogue(&p, ST_EPILOGUE_CLIP, -1, 1);
            } else {
                epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            }
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            fill(&p);
            set_constant(&p);
            void *op = create(&p, "not finite");
            call(&p, op);
            compare(&p, "finite", 1);
            for (uint32_t place = 0; place < 3; place++) {
                float *x = p.buffers[place == 2 ? EXTRA : X];
                const int64_t i = place == 1 ? p.elements[X] - 1 : 7;
                const float before = x[i];
                x[i] = odd[t % 4];
                call(&p, op);
                compare(&p, "not finite", 1);
                x[i] = before;
            }
            call(&p, op);
            compare(&p, "finite again", 1);
            lib->destroy(lib->self, op);
            empty(&p);
        }
    }
}

/* ---- sizes that change ---- */

static void set_size(problem *p, int64_t m)
{
    empty(p);
    p->sizes[0] = m;
    fill(p);
}

Test(dnnl, symbolic_rows)
{
    problem p;
    const uint32_t m = sym("m");
    gemm(&p, STATOR_F32, STATOR_F32, m, num(96), num(64));
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    p.sizes[0] = 5;
    fill(&p);
    void *weights = st_alloc(&f.mem, 64 * 96 * 4, 64);
    memcpy(weights, p.buffers[Y], 64 * 96 * 4);
    p.contraction.y_data = weights;
    p.contraction.y_hash[0] = 1;
    void *op = create(&p, "rows");
    for (int64_t i = 0; i < 60; i++) {
        set_size(&p, i * 7 % 40);
        memcpy(p.buffers[Y], weights, 64 * 96 * 4);
        call(&p, op);
        compare(&p, "rows", 1);
    }
    cr_assert_eq(f.packs, 1, "one form of the weights for all sizes, not %u", f.packs);
    st_library_memory held;
    lib->memory(lib->self, op, &held);
    cr_assert_geq(held.packed_bytes, 64 * 96 * 4);
    lib->destroy(lib->self, op);
    empty(&p);
    st_free(&f.mem, weights);
}

Test(dnnl, symbolic_reduction_size)
{
    problem p;
    const uint32_t n = sym("n");
    gemm(&p, STATOR_F32, STATOR_F32, n, n, n);
    void *op = create(&p, "inner");
    for (int64_t i = 0; i < 40; i += 3) {
        set_size(&p, i);
        call(&p, op);
        compare(&p, "inner", 1);
    }
    lib->destroy(lib->self, op);
    empty(&p);
}

/* Nothing to sum over: the epilogue of 0, and no look at operands that have no element. */
static void sum_of_nothing(uint32_t dtype)
{
    problem p;
    const uint32_t k = sym("k");
    gemm(&p, dtype, dtype, num(30), num(40), k);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    p.contraction.epilogue[0].dtype = dtype;
    void *op = create(&p, "nothing");
    set_size(&p, 20);
    call(&p, op);
    compare(&p, "something", 1);
    p.sizes[0] = 0;
    uint32_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    for (uint32_t i = 0; i < st_contraction_numbers(&p.contraction, numbers); i++) {
        p.numbers[i] = value(&p, numbers[i]);
    }
    void *forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(forbidden != MAP_FAILED);
    p.buffers[X] = p.buffers[Y] = forbidden;
    call(&p, op);
    compare(&p, "nothing", 1);
    (void)munmap(forbidden, 4096);
    lib->destroy(lib->self, op);
    empty(&p);
}

Test(dnnl, sum_over_zero_elements_is_zero)
{
    sum_of_nothing(STATOR_F32);
    sum_of_nothing(STATOR_F16);
    sum_of_nothing(STATOR_BF16);
}

/* Strides of a later call that oneDNN has no primitive for. */
Test(dnnl, strides_without_a_primitive_run_in_plain_loops)
{
    problem p;
    const uint32_t s = sym("s");
    gemm(&p, STATOR_F32, STATOR_F32, num(40), num(40), num(40));
    p.contraction.x.stride[0] = s;
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "plain");
    for (int64_t i = 0; i < 50; i += 10) {
        set_size(&p, i);
        call(&p, op);
        compare(&p, "plain", 1);
        cr_assert_eq(strcmp(api->describe(op), "plain") == 0, i < 40);
    }
    lib->destroy(lib->self, op);
    empty(&p);
}

/* ---- threads and memory ---- */

typedef struct caller {
    problem p;
    void *op;
    uint32_t rounds;
} caller;

static void *call_often(void *self)
{
    caller *c = self;
    for (uint32_t i = 0; i < c->rounds; i++) {
        call(&c->p, c->op);
    }
    return NULL;
}

Test(dnnl, many_threads_call_one_op)
{
    static caller callers[4];
    pthread_t threads[4];
    problem p;
    const uint32_t m = sym("m");
    gemm(&p, STATOR_F32, STATOR_F32, m, num(96), num(64));
    p.contraction.x.stride[0] = num(100); /* rows apart: some sizes are moved to scratch */
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "shared");
    for (uint32_t i = 0; i < 4; i++) {
        callers[i].p = p;
        callers[i].op = op;
        callers[i].rounds = 50;
        set_size(&callers[i].p, 20 + 30 * (i / 2)); /* two by two of one size */
    }
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        compare(&callers[i].p, "shared", 1);
        empty(&callers[i].p);
    }
    lib->destroy(lib->self, op);
}

/* One thread when the host has one: no other comes to life. */
Test(dnnl, no_thread_is_made_when_the_host_has_one)
{
    problem p;
    const uint32_t before = thread_count();
    f.threads = 1;
    gemm(&p, STATOR_F32, STATOR_F32, num(256), num(256), num(256));
    fill(&p);
    set_constant(&p);
    void *op = create(&p, "one thread");
    call(&p, op);
    cr_assert_eq(thread_count(), before);
    f.threads = 2;
    call(&p, op);
    compare(&p, "two threads", 1);
    cr_assert_eq(thread_count(), before + 1);
    f.threads = 3;
    call(&p, op);
    compare(&p, "three threads", 1);
    lib->destroy(lib->self, op);
    empty(&p);
}

static void call_in_range(void *self, int64_t first, int64_t last)
{
    caller *c = self;
    for (int64_t i = first; i < last; i++) {
        call_often(&c[i]);
    }
}

/* Inside a parallel region a call has one thread, and must not count on more. */
Test(dnnl, call_inside_a_parallel_region_runs_on_one_thread)
{
    static caller callers[2];
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(128), num(128), num(512));
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "region");
    for (uint32_t i = 0; i < 2; i++) {
        callers[i].p = p;
        callers[i].op = op;
        callers[i].rounds = 2;
        fill(&callers[i].p);
    }
    st_parallel_for(2, 2, 1, call_in_range, callers);
    for (uint32_t i = 0; i < 2; i++) {
        compare(&callers[i].p, "region", 1);
        empty(&callers[i].p);
    }
    lib->destroy(lib->self, op);
}

Test(dnnl, steady_calls_allocate_nothing)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    fill(&p);
    set_constant(&p);
    void *op = create(&p, "steady");
    call(&p, op);
    const uint64_t requests = mem.requests;
    for (uint32_t i = 0; i < 10; i++) {
        call(&p, op);
    }
    cr_assert_eq(mem.requests, requests);
    lib->destroy(lib->self, op);
    empty(&p);
}

Test(dnnl, packed_weights_are_shared)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    fill(&p);
    set_constant(&p);
    void *first = create(&p, "first");
    void *second = create(&p, "second");
    cr_assert_eq(f.packs, 1);
    p.contraction.y.offset = num(0);
    p.contraction.y_hash[3] ^= 1;
    void *third = create(&p, "third");
    cr_assert_eq(f.packs, 2);
    lib->destroy(lib->self, first);
    call(&p, second);
    compare(&p, "second", 1);
    lib->destroy(lib->self, second);
    lib->destroy(lib->self, third);
    empty(&p);
}

/* One pack fits under the cap; the second op works on the weights as they are, and when the first
 * is gone a third packs again. */
static void check_cap(uint32_t rows)
{
    const uint64_t bytes = 256 * 256 * sizeof(float);
    problem p;
    st_library_memory held[3];
    void *ops[3];
    api->set_memory_cap(lib, 2u * bytes - 1u);
    gemm(&p, STATOR_F32, STATOR_F32, num(rows), num(256), num(256));
    fill(&p);
    set_constant(&p);
    for (uint32_t i = 0; i < 2; i++) {
        ops[i] = create(&p, "under a cap");
        lib->memory(lib->self, ops[i], &held[i]);
        call(&p, ops[i]);
        compare(&p, "under a cap", 1);
    }
    cr_assert_geq(held[0].packed_bytes, bytes);
    cr_assert_eq(held[0].unread, p.contraction.y.buffer);
    cr_assert_eq(held[1].packed_bytes, 0);
    cr_assert_eq(held[1].unread, UINT32_MAX);
    lib->destroy(lib->self, ops[0]);
    ops[2] = create(&p, "room again");
    lib->memory(lib->self, ops[2], &held[2]);
    cr_assert_geq(held[2].packed_bytes, bytes);
    lib->destroy(lib->self, ops[1]);
    lib->destroy(lib->self, ops[2]);
    empty(&p);
}

Test(dnnl, packed_weights_stay_under_their_limit)
{
    check_cap(64);
}

/* Up to 8 rows have a kernel of our own, with a packing of its own. */
Test(dnnl, packed_weights_of_few_rows_stay_under_their_limit)
{
    check_cap(1);
    check_cap(4);
    check_cap(8);
}

/* Scratch of ops that run one after the other is one block. */
Test(dnnl, sequential_ops_share_scratch)
{
    problem p;
    void *ops[2];
    api->set_memory_cap(lib, 1); /* nothing is packed: weights are reordered in scratch */
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 0, 0);
    fill(&p);
    set_constant(&p);
    for (uint32_t i = 0; i < 2; i++) {
        ops[i] = create(&p, "scratch");
        call(&p, ops[i]);
        compare(&p, "scratch", 1);
    }
    const uint64_t live = mem.live_bytes;
    const uint64_t requests = mem.requests;
    call(&p, ops[0]);
    call(&p, ops[1]);
    cr_assert_eq(mem.requests, requests);
    cr_assert_eq(mem.live_bytes, live);
    lib->destroy(lib->self, ops[0]);
    lib->destroy(lib->self, ops[1]);
    empty(&p);
}

Test(dnnl, every_allocation_may_fail)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 0, 1);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    fill(&p);
    set_constant(&p);
    host.cst = NULL; /* packs in the library's account */
    fail_allocations(&p);
    empty(&p);
}
