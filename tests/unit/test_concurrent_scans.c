/* Scans that run concurrently on inductor-cpu: two threads give what one gives, bit by bit, to
 * eight callers at once, and the error is that of the first scan that fails.
 *
 * The host's threads are replaced by threads of this file, which tsan can follow; libgomp's it
 * cannot. */
#include "core/context/ctx.h"
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS 8
#define CALLS 30
#define STEPS 12
#define ROWS 4
#define COLUMNS 32
#define NUMEL (STEPS * ROWS * COLUMNS)
#define TEXT_BYTES 65536u

/* Two directions over x that share a weight, a third scan over what they give. */
static const char directions[] =
    "  %z = reduce_max(%x) {axes = [0], keepdims = 0}\n"
    "  %e = exp(%x)\n"
    "  %a, %p = scan(%z, %x, %w) {carried = 1, scanned = 1, stacked = 1, axes = [0], "
    "reverse = [0], out_axes = [0], out_reverse = [0]}\n"
    "    region @body(%h: f32[4, 32], %u: f32[4, 32], %w: f32[32, 32]) {\n"
    "      %1 = matmul(%h, %w)\n      %2 = add(%1, %u)\n      %3 = tanh(%2)\n"
    "      return %3, %3\n    }\n"
    "  %b, %q = scan(%z, %e, %w) {carried = 1, scanned = 1, stacked = 1, axes = [0], "
    "reverse = [1], out_axes = [0], out_reverse = [1]}\n"
    "    region @body(%h: f32[4, 32], %u: f32[4, 32], %w: f32[32, 32]) {\n"
    "      %1 = matmul(%h, %w)\n      %2 = mul(%1, %u)\n      %3 = sigmoid(%2)\n"
    "      return %3, %2\n    }\n"
    "  %s = sub(%p, %q)\n"
    "  %c, %r = scan(%b, %s) {carried = 1, scanned = 1, stacked = 1, axes = [0], "
    "reverse = [0], out_axes = [0], out_reverse = [0]}\n"
    "    region @body(%h: f32[4, 32], %u: f32[4, 32]) {\n"
    "      %1 = add(%h, %u)\n      return %1, %1\n    }\n"
    "  return %r\n}\n";

/* ---- threads of our own ---- */

typedef struct range {
    stator_range_fn fn;
    void *self;
    int64_t begin, end;
} range;

static _Thread_local int is_inside;
static int n_regions; /* that had two threads; main thread alone, between calls */

static void *run_range(void *self)
{
    const range *r = self;
    is_inside = 1;
    r->fn(r->self, r->begin, r->end);
    is_inside = 0;
    return NULL;
}

static void for_ranges(stator_ctx *ctx, int64_t n, int64_t grain, stator_range_fn fn, void *self)
{
    pthread_t other;
    const int64_t half = n / 2;
    range r[2] = {{fn, self, 0, half}, {fn, self, half, n}};
    (void)ctx;
    if (n <= grain || half < 1 || is_inside ||
        pthread_create(&other, NULL, run_range, &r[1]) != 0) {
        fn(self, 0, n);
        return;
    }
    __atomic_fetch_add(&n_regions, 1, __ATOMIC_RELAXED);
    (void)run_range(&r[0]);
    (void)pthread_join(other, NULL);
}

static int32_t two(stator_ctx *ctx)
{
    (void)ctx;
    return 2;
}

static const stator_thr_api own_threads = {
    .struct_size = sizeof own_threads, .parallel_for = for_ranges, .thread_count = two};

static stator_ctx *open_context(int has_team)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = has_team ? 2 : 1,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    if (has_team) {
        ctx->host.thr = &own_threads;
    }
    return ctx;
}

/* ---- calls ---- */

static char *text_of_directions(void)
{
    char *text = malloc(TEXT_BYTES);
    cr_assert_not_null(text);
    size_t len = (size_t)snprintf(text, TEXT_BYTES,
                                  "stir 1\ngraph @m(%%x: f32[12, 4, 32]) {\n"
                                  "  %%w = constant {value = f32[32, 32] {");
    for (int i = 0; i < COLUMNS * COLUMNS; i++) {
        len += (size_t)snprintf(text + len, TEXT_BYTES - len, "%s%s0.%d", i ? ", " : "",
                                i % 3 ? "" : "-", (i * 5) % 7);
    }
    len += (size_t)snprintf(text + len, TEXT_BYTES - len, "}}\n");
    cr_assert_lt(len + sizeof directions, (size_t)TEXT_BYTES);
    memcpy(text + len, directions, sizeof directions);
    return text;
}

static stator_tensor *call_once(stator_ctx *ctx, stator_function *f, int number)
{
    static const int64_t shape[] = {STEPS, ROWS, COLUMNS};
    float values[NUMEL];
    for (int i = 0; i < NUMEL; i++) {
        values[i] = (float)((i * 7 + number * 3) % 23) * 0.0625f - 0.625f;
    }
    stator_tensor *y = NULL;
    stator_tensor *x = run_tensor(ctx, STATOR_F32, 3, shape, values);
    stator_tensor *const in[] = {x};
    const stator_status status = x ? stator_call_tensors(f, 1, in, 1, &y) : STATOR_INTERNAL;
    stator_tensor_release(x);
    return status == STATOR_OK ? y : NULL;
}

typedef struct job {
    stator_ctx *ctx;
    stator_function *f;
    int number;
    float want[NUMEL];
    int wrong;
} job;

static void *call_often(void *self)
{
    job *j = self;
    for (int k = 0; k < CALLS; k++) {
        stator_tensor *y = call_once(j->ctx, j->f, j->number);
        j->wrong += y == NULL || memcmp(stator_tensor_data(y), j->want, sizeof j->want) != 0;
        stator_tensor_release(y);
    }
    return NULL;
}

Test(concurrent_scans, eight_threads_call_a_bidirectional_scan)
{
    static job jobs[CALLERS];
    pthread_t threads[CALLERS];
    char *text = text_of_directions();
    stator_ctx *alone = open_context(0);
    stator_ctx *ctx = open_context(1);
    stator_function *plain = run_compile(alone, "inductor-cpu", text, "plain");
    stator_function *f = run_compile(ctx, "inductor-cpu", text, "sides");
    cr_assert(plain != NULL && f != NULL);
    for (int i = 0; i < CALLERS; i++) {
        stator_tensor *y = call_once(alone, plain, i);
        cr_assert_not_null(y, "%s", stator_ctx_error_text(alone));
        memcpy(jobs[i].want, stator_tensor_data(y), sizeof jobs[i].want);
        stator_tensor_release(y);
        jobs[i].ctx = ctx;
        jobs[i].f = f;
        jobs[i].number = i;
    }
    const int before = n_regions;
    stator_tensor_release(call_once(ctx, f, 0));
    cr_assert_gt(n_regions, before, "the directions did not run concurrently");
    for (int i = 0; i < CALLERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &jobs[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_expect_eq(jobs[i].wrong, 0, "thread %d: %d results differ", i, jobs[i].wrong);
    }
    stator_function_destroy(plain);
    stator_function_destroy(f);
    stator_ctx_destroy(alone);
    stator_ctx_destroy(ctx);
    free(text);
}

/* ---- errors ---- */

static const char lookups[] =
    "stir 1\ngraph @m(%i: i64[6, 3], %j: i64[6, 3]) {\n"
    "  %t = constant {value = f32[4] {1, 2, 3, 4}}\n"
    "  %z = constant {value = f32[3] {0, 0, 0}}\n"
    "  %a, %p = scan(%z, %i, %t) {carried = 1, scanned = 1, stacked = 1, axes = [0], "
    "reverse = [0], out_axes = [0], out_reverse = [0]}\n"
    "    region @body(%h: f32[3], %k: i64[3], %t: f32[4]) {\n"
    "      %1 = gather(%t, %k) {axis = 0}\n      %2 = add(%1, %h)\n      return %2, %2\n    }\n"
    "  %b, %q = scan(%z, %j, %t) {carried = 1, scanned = 1, stacked = 1, axes = [0], "
    "reverse = [0], out_axes = [0], out_reverse = [0]}\n"
    "    region @body(%h: f32[3], %k: i64[3], %t: f32[4]) {\n"
    "      %1 = gather(%t, %k) {axis = 0}\n      %2 = mul(%1, %h)\n      return %2, %2\n    }\n"
    "  %y = add(%p, %q)\n  return %y\n}\n";

static stator_status run_lookup(stator_ctx *ctx, stator_function *f, int bad)
{
    static const int64_t shape[] = {6, 3};
    int64_t places[2][18] = {{0}};
    stator_tensor *y = NULL;
    for (int k = 0; k < 2; k++) {
        places[k][7] = bad & 1 << k ? 9 : 2;
    }
    stator_tensor *i = run_tensor(ctx, STATOR_I64, 2, shape, places[0]);
    stator_tensor *j = run_tensor(ctx, STATOR_I64, 2, shape, places[1]);
    stator_tensor *const in[] = {i, j};
    cr_assert(i != NULL && j != NULL);
    const stator_status status = stator_call_tensors(f, 2, in, 1, &y);
    stator_tensor_release(i);
    stator_tensor_release(j);
    stator_tensor_release(y);
    return status;
}

Test(concurrent_scans, failed_check_in_any_scan_is_reported)
{
    stator_ctx *ctx = open_context(1);
    stator_function *f = run_compile(ctx, "inductor-cpu", lookups, "lookups");
    cr_assert_not_null(f);
    const int before = n_regions;
    cr_expect_eq(run_lookup(ctx, f, 0), STATOR_OK);
    cr_expect_gt(n_regions, before);
    for (int bad = 1; bad < 4; bad++) {
        cr_expect_eq(run_lookup(ctx, f, bad), STATOR_OUT_OF_RANGE);
        cr_expect(strstr(stator_ctx_error_text(ctx), "gather") != NULL, "%s",
                  stator_ctx_error_text(ctx));
        cr_expect_eq(run_lookup(ctx, f, 0), STATOR_OK);
    }
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}
