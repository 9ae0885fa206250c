/* In-place writes meet parameters: inputs keep their places among the caller's, and a parameter,
 * whose bytes are shared by all callers, cannot be written. Then: where values lie that a call
 * writes to its inputs, counted by stator_function_copies. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const backends[] = {"eager", "aot_eager"};

Test(write_back, write_to_an_input_after_a_parameter)
{
    static const char text[] =
        "stir 1\n"
        "graph @m(param %w: f32[2] = {5.0, -6.0}, %a: f32[2], %b: f32[2]) {\n"
        "  %1 = add(%b, %w)\n"
        "  %2 = assign(%b, %1)\n"
        "  %3 = neg(%a)\n"
        "  return %3\n"
        "}\n";
    static const float a[] = {1, 2}, b[] = {10, 20}, sum[] = {15, 14}, neg[] = {-1, -2};
    static const int64_t shape[] = {2};
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 2; k++) {
        stator_function *f = run_compile(ctx, backends[k], text, "write_back");
        stator_tensor *in[] = {run_tensor(ctx, STATOR_F32, 1, shape, a),
                               run_tensor(ctx, STATOR_F32, 1, shape, b)};
        stator_tensor *out = NULL;
        cr_assert(f && in[0] && in[1]);
        cr_assert_eq(stator_call_tensors(f, 2, in, 1, &out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        cr_expect_eq(memcmp(stator_tensor_data(in[0]), a, sizeof a), 0);
        cr_expect_eq(memcmp(stator_tensor_data(in[1]), sum, sizeof sum), 0);
        cr_expect_eq(memcmp(stator_tensor_data(out), neg, sizeof neg), 0);
        stator_tensor_release(in[0]);
        stator_tensor_release(in[1]);
        stator_tensor_release(out);
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

Test(write_back, write_to_a_parameter_is_refused)
{
    static const char text[] = "stir 1\n"
                               "graph @m(param %w: f32[2] = {5.0, -6.0}, %a: f32[2]) {\n"
                               "  %1 = assign(%w, %a)\n"
                               "  return %1\n"
                               "}\n";
    static const float a[] = {1, 2};
    static const int64_t shape[] = {2};
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 2; k++) {
        stator_function *f = run_compile(ctx, backends[k], text, "write_back");
        stator_tensor *in = run_tensor(ctx, STATOR_F32, 1, shape, a), *out = NULL;
        cr_assert(f && in);
        cr_expect_eq(stator_call_tensors(f, 1, &in, 1, &out), STATOR_UNSUPPORTED);
        cr_expect(strstr(stator_ctx_error_text(ctx), "writes to the parameter 'w'"), "%s",
                  stator_ctx_error_text(ctx));
        stator_tensor_release(in);
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

/* ---- written where the input lies ---- */

static const char *const places[] = {"eager", "aot_eager", "inductor-cpu"};

/* Inputs written by the last call, and those of them that were copied. */
static void expect_copies(stator_function *f, const char *backend, uint32_t written,
                          uint32_t copied, uint64_t bytes)
{
    stator_copy_info info = {.struct_size = sizeof info};
    cr_assert_eq(stator_function_copies(f, &info), STATOR_OK);
    cr_expect(info.n_write_backs == written && info.n_write_back_copies == copied &&
                  info.write_back_bytes == bytes,
              "%s: %u written, %u copied, %llu bytes; expected %u, %u, %llu", backend,
              info.n_write_backs, info.n_write_back_copies,
              (unsigned long long)info.write_back_bytes, written, copied,
              (unsigned long long)bytes);
}

#define STEP_ELEMENTS 1000

static const char step_text[] = "stir 1\n"
                                "graph @step(%p: f32[1000], %g: f32[1000], %lr: f32[]) {\n"
                                "  %1 = mul(%g, %lr)\n"
                                "  %2 = sub(%p, %1)\n"
                                "  %3 = assign(%p, %2)\n"
                                "  %5 = reduce_sum(%g) {axes = [0]}\n"
                                "  return %5\n"
                                "}\n";

/* p <- p - lr g with `in` = p, g, lr; checks p, which began as element i + 1. */
static void step(stator_ctx *ctx, stator_function *f, stator_tensor **in, float factor)
{
    stator_tensor *out = NULL;
    cr_assert_eq(stator_call_tensors(f, 3, in, 1, &out), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    const float *p = stator_tensor_data(in[0]);
    for (int i = 0; i < STEP_ELEMENTS; i++) {
        const float want = (float)(i + 1) - factor * (float)(i + 1);
        cr_assert_float_eq(p[i], want, 1e-3, "element %d is %g, not %g", i, (double)p[i],
                           (double)want);
    }
    stator_tensor_release(out);
}

Test(write_back, a_step_writes_its_parameter_where_it_lies)
{
    static const int64_t shape[] = {STEP_ELEMENTS};
    static const float lr = 0.25F;
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 3; k++) {
        stator_function *f = run_compile(ctx, places[k], step_text, "step");
        stator_tensor *in[] = {run_counting(ctx, 1, shape), run_counting(ctx, 1, shape),
                               run_tensor(ctx, STATOR_F32, 0, NULL, &lr)};
        cr_assert(f);
        const void *before = stator_tensor_data(in[0]);
        step(ctx, f, in, 0.25F);
        expect_copies(f, places[k], 1, 0, 0);
        step(ctx, f, in, 0.5F);
        expect_copies(f, places[k], 1, 0, 0);
        cr_expect_eq(stator_tensor_data(in[0]), before);
        for (int i = 0; i < 3; i++) {
            stator_tensor_release(in[i]);
        }
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

Test(write_back, inputs_that_share_memory_get_a_copy)
{
    static float memory[STEP_ELEMENTS + 4];
    static const int64_t shape[] = {STEP_ELEMENTS};
    static const float lr = 0.5F;
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 3; k++) {
        stator_function *f = run_compile(ctx, places[k], step_text, "step");
        stator_tensor *in[] = {NULL, NULL, run_tensor(ctx, STATOR_F32, 0, NULL, &lr)};
        const stator_buffer p = {
            .struct_size = sizeof p, .data = memory, .size_bytes = STEP_ELEMENTS * sizeof(float)};
        stator_buffer g = p;
        g.data = memory + 4; /* gradient i is parameter i + 4 */
        for (int i = 0; i < STEP_ELEMENTS + 4; i++) {
            memory[i] = (float)i;
        }
        cr_assert_eq(stator_tensor_wrap(ctx, STATOR_F32, 1, shape, &p, &in[0]), STATOR_OK);
        cr_assert_eq(stator_tensor_wrap(ctx, STATOR_F32, 1, shape, &g, &in[1]), STATOR_OK);
        stator_tensor *out = NULL;
        cr_assert_eq(stator_call_tensors(f, 3, in, 1, &out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        for (int i = 0; i < STEP_ELEMENTS; i++) {
            cr_assert_float_eq(memory[i], (float)i - 0.5F * (float)(i + 4), 1e-3);
        }
        expect_copies(f, places[k], 1, 1, sizeof(float) * STEP_ELEMENTS);
        stator_tensor_release(out);
        for (int i = 0; i < 3; i++) {
            stator_tensor_release(in[i]);
        }
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

Test(write_back, an_unaligned_input_is_written_through_its_copy)
{
    static _Alignas(64) float memory[STEP_ELEMENTS + 1];
    static const int64_t shape[] = {STEP_ELEMENTS};
    static const float lr = 0.25F;
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 3; k++) {
        stator_function *f = run_compile(ctx, places[k], step_text, "step");
        stator_tensor *in[] = {NULL, run_counting(ctx, 1, shape),
                               run_tensor(ctx, STATOR_F32, 0, NULL, &lr)};
        const stator_buffer p = {.struct_size = sizeof p,
                                 .data = memory + 1,
                                 .size_bytes = STEP_ELEMENTS * sizeof(float)};
        for (int i = 0; i < STEP_ELEMENTS; i++) {
            memory[i + 1] = (float)(i + 1);
        }
        cr_assert_eq(stator_tensor_wrap(ctx, STATOR_F32, 1, shape, &p, &in[0]), STATOR_OK);
        step(ctx, f, in, 0.25F);
        for (int i = 0; i < 3; i++) {
            stator_tensor_release(in[i]);
        }
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

/* Of `written` inputs some get a copy: `eager` of eager and aot_eager, `compiled` of
 * inductor-cpu. */
typedef struct copied {
    uint32_t eager, compiled;
} copied;

/* One call on tensors of 4 x 4 that count from 1. All backends leave the same in the inputs. */
static void expect_square(const char *text, uint32_t n_in, uint32_t written, copied expected)
{
    static const int64_t shape[] = {4, 4};
    stator_ctx *ctx = run_context();
    float want[4][16];
    for (uint32_t k = 0; k < 3; k++) {
        stator_function *f = run_compile(ctx, places[k], text, "square");
        stator_tensor *in[4] = {NULL};
        stator_tensor *out = NULL;
        cr_assert(f);
        for (uint32_t i = 0; i < n_in; i++) {
            in[i] = run_counting(ctx, 2, shape);
        }
        cr_assert_eq(stator_call_tensors(f, n_in, in, 1, &out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        const uint32_t n = k < 2 ? expected.eager : expected.compiled;
        expect_copies(f, places[k], written, n, 64U * n);
        for (uint32_t i = 0; i < n_in; i++) {
            const float *got = stator_tensor_data(in[i]);
            for (int e = 0; e < 16; e++) {
                cr_expect(k == 0 || got[e] == want[i][e], "%s: input %u, element %d: %g, not %g",
                          places[k], i, e, (double)got[e], (double)want[i][e]);
                want[i][e] = got[e];
            }
            stator_tensor_release(in[i]);
        }
        stator_tensor_release(out);
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

Test(write_back, moments_and_parameter_are_written_at_once)
{
    expect_square("stir 1\n"
                  "graph @m(%p: f32[4, 4], %m: f32[4, 4], %v: f32[4, 4], %g: f32[4, 4]) {\n"
                  "  %1 = mul(%m, %g)\n"
                  "  %2 = mul(%g, %g)\n"
                  "  %3 = add(%v, %2)\n"
                  "  %4 = sqrt(%3)\n"
                  "  %5 = div(%1, %4)\n"
                  "  %6 = sub(%p, %5)\n"
                  "  %7 = assign(%m, %1)\n"
                  "  %8 = assign(%v, %3)\n"
                  "  %9 = assign(%p, %6)\n"
                  "  %10 = reduce_max(%g) {axes = [0, 1]}\n"
                  "  return %10\n"
                  "}\n",
                  4, 3, (copied){0, 0});
}

Test(write_back, what_reads_other_elements_keeps_them)
{
    expect_square("stir 1\n"
                  "graph @m(%p: f32[4, 4], %g: f32[4, 4]) {\n"
                  "  %1 = transpose(%p) {perm = [1, 0]}\n"
                  "  %2 = mul(%p, %1)\n"
                  "  %3 = assign(%p, %2)\n"
                  "  return %g\n"
                  "}\n",
                  2, 1, (copied){0, 1});
}

Test(write_back, an_output_of_old_contents_keeps_them)
{
    expect_square("stir 1\n"
                  "graph @m(%p: f32[4, 4], %g: f32[4, 4]) {\n"
                  "  %1 = neg(%p)\n"
                  "  %2 = add(%p, %g)\n"
                  "  %3 = assign(%p, %2)\n"
                  "  return %1\n"
                  "}\n",
                  2, 1, (copied){0, 0});
    expect_square("stir 1\n"
                  "graph @m(%p: f32[4, 4], %g: f32[4, 4]) {\n"
                  "  %1 = add(%p, %g)\n"
                  "  write %p = %1\n"
                  "  return %p\n"
                  "}\n",
                  2, 1, (copied){1, 1});
}

Test(write_back, inputs_may_swap)
{
    expect_square("stir 1\n"
                  "graph @m(%p: f32[4, 4], %g: f32[4, 4]) {\n"
                  "  %1 = neg(%p)\n"
                  "  %2 = neg(%g)\n"
                  "  write %p = %2\n"
                  "  write %g = %1\n"
                  "  %3 = add(%p, %g)\n"
                  "  return %3\n"
                  "}\n",
                  2, 2, (copied){1, 0});
}

/* The index is out of range: nothing has been written. */
Test(write_back, a_call_that_fails_writes_nothing)
{
    static const char text[] = "stir 1\n"
                               "graph @m(%p: f32[4], %q: f32[4], %i: i64[2]) {\n"
                               "  %1 = add(%p, %q)\n"
                               "  %2 = assign(%p, %1)\n"
                               "  %3 = gather(%q, %i) {axis = 0}\n"
                               "  %4 = neg(%q)\n"
                               "  %5 = assign(%q, %4)\n"
                               "  return %3\n"
                               "}\n";
    static const int64_t shape[] = {4};
    static const int64_t pair[] = {2};
    static const int64_t good[] = {0, 3};
    static const int64_t bad[] = {0, 4};
    static const float counted[] = {1, 2, 3, 4};
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 3; k++) {
        stator_function *f = run_compile(ctx, places[k], text, "fails");
        stator_tensor *in[] = {run_counting(ctx, 1, shape), run_counting(ctx, 1, shape),
                               run_tensor(ctx, STATOR_I64, 1, pair, bad)};
        stator_tensor *out = NULL;
        cr_assert(f);
        cr_expect_neq(stator_call_tensors(f, 3, in, 1, &out), STATOR_OK);
        cr_expect_arr_eq(stator_tensor_data(in[0]), counted, sizeof counted, "%s", places[k]);
        cr_expect_arr_eq(stator_tensor_data(in[1]), counted, sizeof counted, "%s", places[k]);
        memcpy(stator_tensor_data(in[2]), good, sizeof good);
        cr_assert_eq(stator_call_tensors(f, 3, in, 1, &out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        cr_expect_eq(((const float *)stator_tensor_data(in[0]))[3], 8.0F);
        cr_expect_eq(((const float *)stator_tensor_data(in[1]))[3], -4.0F);
        expect_copies(f, places[k], 2, 0, 0);
        stator_tensor_release(out);
        for (int i = 0; i < 3; i++) {
            stator_tensor_release(in[i]);
        }
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

/* A step over many parameters: STATOR_TEST_PARAMETERS=100000000 for those of a large model. */
Test(write_back, a_large_step_copies_no_parameter)
{
    const char *wanted = getenv("STATOR_TEST_PARAMETERS");
    const int64_t total = wanted != NULL ? strtoll(wanted, NULL, 10) : 1000000;
    const int64_t shape[] = {total / 4};
    static const float lr = 0.5F;
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "stir 1\n"
                   "graph @m(%%p0: f32[%lld], %%p1: f32[%lld], %%p2: f32[%lld], %%p3: f32[%lld], "
                   "%%lr: f32[]) {\n"
                   "  %%a = mul(%%p0, %%lr)\n  %%b = assign(%%p0, %%a)\n"
                   "  %%c = mul(%%p1, %%lr)\n  %%d = assign(%%p1, %%c)\n"
                   "  %%e = mul(%%p2, %%lr)\n  %%f = assign(%%p2, %%e)\n"
                   "  %%g = mul(%%p3, %%lr)\n  %%h = assign(%%p3, %%g)\n"
                   "  return %%lr\n}\n",
                   (long long)shape[0], (long long)shape[0], (long long)shape[0],
                   (long long)shape[0]);
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, "inductor-cpu", text, "large");
    stator_tensor *in[5] = {NULL};
    stator_tensor *out = NULL;
    for (int i = 0; i < 4; i++) {
        in[i] = run_counting(ctx, 1, shape);
    }
    in[4] = run_tensor(ctx, STATOR_F32, 0, NULL, &lr);
    cr_assert_eq(stator_call_tensors(f, 5, in, 1, &out), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    expect_copies(f, "inductor-cpu", 4, 0, 0);
    for (int i = 0; i < 5; i++) {
        stator_tensor_release(in[i]);
    }
    stator_tensor_release(out);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

/* ---- updates of some elements ---- */

enum { CACHE_HEADS = 6, CACHE_ROWS = 64, CACHE_WIDTH = 32, CACHE_BEHIND = 9 };

static const int64_t cache_shape[] = {2, 3, CACHE_ROWS, CACHE_WIDTH};
static const int64_t row_shape[] = {2, 3, 1, CACHE_WIDTH};
static const int64_t one[] = {1};
static const int64_t few[] = {3};

/* What a decoder does with a cache: a row for each head, the sum over all, and behind it a step
 * that fails when %i is no index of %t. */
static const char cache_text[] =
    "stir 1\n"
    "graph @step(%c: f32[2, 3, 64, 32], %at: i64[2, 3, 1, 32], %row: f32[2, 3, 1, 32], "
    "%i: i64[1], %t: f32[3]) {\n"
    "  %n = scatter_elements(%c, %at, %row) {axis = 2}\n"
    "  %w = assign(%c, %n)\n"
    "  %s = reduce_sum(%n) {axes = [0, 1, 2, 3]}\n"
    "  %g = gather(%t, %i) {axis = 0}\n"
    "  %y = add(%g, %s)\n"
    "  return %y\n"
    "}\n";

static void set_indices(stator_tensor *at, int64_t position, int64_t last)
{
    int64_t *to = stator_tensor_data(at);
    for (int i = 0; i < CACHE_HEADS * CACHE_WIDTH; i++) {
        to[i] = i == CACHE_HEADS * CACHE_WIDTH - 1 ? last : position;
    }
}

/* A call that must fail, and leave the cache as it is. */
static void expect_undone(stator_ctx *ctx, stator_function *f, stator_tensor **in)
{
    static float before[CACHE_HEADS * CACHE_ROWS * CACHE_WIDTH];
    stator_tensor *out = NULL;
    memcpy(before, stator_tensor_data(in[0]), sizeof before);
    cr_expect_eq(stator_call_tensors(f, 5, in, 1, &out), STATOR_OUT_OF_RANGE, "%s",
                 stator_ctx_error_text(ctx));
    cr_expect_null(out);
    cr_expect_eq(memcmp(stator_tensor_data(in[0]), before, sizeof before), 0);
}

Test(write_back, a_cache_gets_its_row_and_no_more)
{
    static const int64_t index = 1;
    static const float table[] = {0, 1, 2};
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 3; k++) {
        stator_function *f = run_compile(ctx, places[k], cache_text, "cache");
        static int64_t zeros[CACHE_HEADS * CACHE_WIDTH];
        stator_tensor *in[] = {
            run_counting(ctx, 4, cache_shape), run_tensor(ctx, STATOR_I64, 4, row_shape, zeros),
            run_counting(ctx, 4, row_shape), run_tensor(ctx, STATOR_I64, 1, one, &index),
            run_tensor(ctx, STATOR_F32, 1, few, table)};
        stator_tensor *out = NULL;
        cr_assert(f);
        int64_t *behind = stator_tensor_data(in[3]);
        set_indices(in[1], 5, 5);
        *behind = CACHE_BEHIND;
        expect_undone(ctx, f, in); /* a step behind the update */
        *behind = 1;
        set_indices(in[1], 5, CACHE_ROWS);
        expect_undone(ctx, f, in); /* an index of the update itself */
        set_indices(in[1], 7, -1);
        cr_assert_eq(stator_call_tensors(f, 5, in, 1, &out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        const bool is_compiled = k == 2;
        expect_copies(f, places[k], 1, is_compiled ? 0 : 1,
                      is_compiled ? 0 : sizeof(float) * CACHE_HEADS * CACHE_ROWS * CACHE_WIDTH);
        const float *c = stator_tensor_data(in[0]);
        for (int i = 0; i < CACHE_HEADS * CACHE_ROWS * CACHE_WIDTH; i++) {
            const int head = i / (CACHE_ROWS * CACHE_WIDTH);
            const int row = i / CACHE_WIDTH % CACHE_ROWS;
            const int update = head * CACHE_WIDTH + i % CACHE_WIDTH;
            const bool is_last = update == CACHE_HEADS * CACHE_WIDTH - 1;
            const bool is_new = row == (is_last ? CACHE_ROWS - 1 : 7);
            cr_assert_eq(c[i], (float)(1 + (is_new ? update : i)), "%s: element %d is %g",
                         places[k], i, (double)c[i]);
        }
        stator_tensor_release(out);
        for (int i = 0; i < 5; i++) {
            stator_tensor_release(in[i]);
        }
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

/* Rows 4, 1 and 4 again of [6, 4], which counts from 1: %c <- scatter_nd(...). The updates lie
 * `apart` elements behind the cache in one memory. Returns what is in the cache. */
static void scatter_rows(stator_ctx *ctx, const char *backend, const char *text, int64_t apart,
                         uint32_t n_copied, float out_cache[24])
{
    static float memory[48];
    static const int64_t shape[] = {6, 4};
    static const int64_t list_shape[] = {3, 1};
    static const int64_t update_shape[] = {3, 4};
    static const int64_t list[] = {4, 1, 4};
    const stator_buffer c = {
        .struct_size = sizeof c, .data = memory, .size_bytes = 24 * sizeof(float)};
    const stator_buffer u = {
        .struct_size = sizeof u, .data = memory + apart, .size_bytes = 12 * sizeof(float)};
    stator_function *f = run_compile(ctx, backend, text, "rows");
    stator_tensor *in[3] = {NULL, run_tensor(ctx, STATOR_I64, 2, list_shape, list), NULL};
    stator_tensor *out = NULL;
    for (int i = 0; i < 48; i++) {
        memory[i] = (float)(i + 1);
    }
    cr_assert(f);
    cr_assert_eq(stator_tensor_wrap(ctx, STATOR_F32, 2, shape, &c, &in[0]), STATOR_OK);
    cr_assert_eq(stator_tensor_wrap(ctx, STATOR_F32, 2, update_shape, &u, &in[2]), STATOR_OK);
    cr_assert_eq(stator_call_tensors(f, 3, in, 1, &out), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    expect_copies(f, backend, 1, n_copied, 96U * n_copied);
    memcpy(out_cache, memory, 24 * sizeof(float));
    stator_tensor_release(out);
    for (int i = 0; i < 3; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
}

static const char rows_text[] = "stir 1\n"
                                "graph @m(%%c: f32[6, 4], %%at: i64[3, 1], %%u: f32[3, 4]) {\n"
                                "  %%v = %s\n"
                                "  %%n = scatter_nd(%%c, %%at, %%v) {reduction = \"%s\"}\n"
                                "  %%w = assign(%%c, %%n)\n"
                                "  %%s = reduce_sum(%%n) {axes = [0, 1]}\n"
                                "  return %%s\n"
                                "}\n";

/* Updates that meet, with each reduction; updates in the cache's own memory, or made of it, which
 * are written from a copy. */
Test(write_back, rows_that_meet_are_combined_in_place)
{
    static const char *const reductions[] = {"none", "add", "mul", "max"};
    static const char from_cache[] = "slice(%c) {starts = [3, 0], sizes = [3, 4], steps = [1, 1]}";
    stator_ctx *ctx = run_context();
    for (uint32_t r = 0; r < 4; r++) {
        char text[512];
        float want[24];
        float got[24];
        for (int apart = 8; apart <= 32; apart += 24) {
            (void)snprintf(text, sizeof text, rows_text, "neg(%u)", reductions[r]);
            scatter_rows(ctx, "eager", text, apart, 1, want);
            scatter_rows(ctx, "inductor-cpu", text, apart, apart < 24, got);
            cr_expect_eq(memcmp(got, want, sizeof got), 0, "%s, %d apart", reductions[r], apart);
        }
        (void)snprintf(text, sizeof text, rows_text, from_cache, reductions[r]);
        scatter_rows(ctx, "eager", text, 32, 1, want);
        scatter_rows(ctx, "inductor-cpu", text, 32, 1, got);
        cr_expect_eq(memcmp(got, want, sizeof got), 0, "%s of the cache", reductions[r]);
    }
    stator_ctx_destroy(ctx);
}

/* The second update writes the indices of the first: they are put back before it is undone. */
static const char indices_text[] =
    "stir 1\n"
    "graph @m(%x: f32[8], %i: i64[2], %u: f32[2], %j: i64[1], %g: f32[4]) {\n"
    "  %a = scatter_elements(%x, %i, %u) {axis = 0}\n"
    "  %b = assign(%x, %a)\n"
    "  %m = reduce_max(%a) {axes = [0], keepdims = 1}\n"
    "  %v = cast(%m) {dtype = i64}\n"
    "  %c = scatter_elements(%i, %j, %v) {axis = 0}\n"
    "  %d = assign(%i, %c)\n"
    "  %y = gather(%g, %c) {axis = 0}\n"
    "  return %y\n"
    "}\n";

Test(write_back, updates_are_undone_from_the_last_on)
{
    static const int64_t shapes[] = {8, 2, 2, 1, 4};
    static const int64_t list[] = {1, 2};
    static const int64_t first[] = {0};
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, "inductor-cpu", indices_text, "indices");
    stator_tensor *in[] = {
        run_counting(ctx, 1, &shapes[0]), run_tensor(ctx, STATOR_I64, 1, &shapes[1], list),
        run_counting(ctx, 1, &shapes[2]), run_tensor(ctx, STATOR_I64, 1, &shapes[3], first),
        run_counting(ctx, 1, &shapes[4])};
    stator_tensor *out = NULL;
    cr_assert(f);
    cr_expect_eq(stator_call_tensors(f, 5, in, 1, &out), STATOR_OUT_OF_RANGE, "%s",
                 stator_ctx_error_text(ctx)); /* the largest of x is no place of g */
    const float *x = stator_tensor_data(in[0]);
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(x[i], (float)(i + 1), "element %d is %g", i, (double)x[i]);
    }
    cr_expect_eq(memcmp(stator_tensor_data(in[1]), list, sizeof list), 0);
    for (int i = 0; i < 5; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}
