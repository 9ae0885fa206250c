/* Kernels of the reference backend beyond their case files: results that do not depend on the
 * number of threads, sizes that turn out wrong while running, allocations that fail, elements with
 * weight 0. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same bits with any number of threads ---- */

#define N_RESULTS 12u

/* Big enough that every kernel splits its work. */
static const char big[] =
    "stir 1\n"
    "graph @m() {\n"
    "  %s = constant {value = i64[] {7}}\n"
    "  %o = constant {value = i64[] {0}}\n"
    "  %x = rng_normal(%s, %o) {shape = [2, 6, 33, 35], dtype = f32}\n"
    "  %w = rng_normal(%o, %s) {shape = [6, 8, 3, 3], dtype = f32}\n"
    "  %1 = conv_transpose(%x, %w) {strides = [2, 2], pads = [1, 1, 0, 0], dilations = [1, 1],"
    " groups = 2}\n"
    "  %g = rng_normal(%s, %s) {shape = [2, 10, 31, 33], dtype = f32}\n"
    "  %2 = conv_weight_grad(%x, %g) {kernel = [3, 3], strides = [1, 1], pads = [0, 0, 0, 0],"
    " dilations = [1, 1], groups = 2}\n"
    "  %3 = resize(%x) {sizes = [2, 6, 20, 71], mode = \"cubic\", antialias = 1}\n"
    "  %4 = resize(%x) {sizes = [2, 6, 80, 21], mode = \"nearest\"}\n"
    "  %p = rng_uniform(%s, %o) {shape = [2, 40, 40, 2], dtype = f32, low = -1.5, high = 1.5}\n"
    "  %5 = grid_sample(%x, %p) {mode = \"cubic\", padding = \"reflection\"}\n"
    "  %t = rng_normal(%s, %o) {shape = [40, 37, 5], dtype = f32}\n"
    "  %u = rng_normal(%s, %o) {shape = [2, 28, 5], dtype = f32}\n"
    "  %v = rng_normal(%o, %s) {shape = [2, 28, 7], dtype = f32}\n"
    "  %6, %7, %8 = lstm(%t, %u, %v) {hidden = 7, direction = \"bidirectional\"}\n"
    "  %9 = einsum(%x, %x, %p) {equation = \"abcd,abed,aghi->bceg\"}\n"
    "  %d = reshape(%t) {shape = [40, 37, 5, 1]}\n"
    "  %10 = dft(%d) {axis = 0, length = [101]}\n"
    "  %11 = col2im(%t) {image = [5, 7], block = [1, 37], strides = [1, 1],"
    " pads = [0, 15, 0, 15], dilations = [1, 1]}\n"
    "  %m = rng_normal(%s, %o) {shape = [50, 9, 9], dtype = f32}\n"
    "  %12 = det(%m)\n"
    "  return %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12\n"
    "}\n";

static stator_ctx *context_with(int32_t threads)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = threads,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    return stator_ctx_create(&options, &ctx) == STATOR_OK ? ctx : NULL;
}

static uint64_t byte_count(const stator_tensor *t)
{
    const DLTensor *view = stator_tensor_view(t);
    uint64_t n = view->dtype.bits / 8u;
    for (int32_t a = 0; a < view->ndim; a++) {
        n *= (uint64_t)view->shape[a];
    }
    return n;
}

static void run_big(int32_t threads, stator_ctx **ctx, stator_tensor **out)
{
    *ctx = context_with(threads);
    cr_assert_not_null(*ctx);
    stator_function *f = run_compile(*ctx, "eager", big, "big");
    cr_assert_not_null(f);
    cr_assert_eq(stator_call_tensors(f, 0, NULL, N_RESULTS, out), STATOR_OK, "%s",
                 stator_ctx_error_text(*ctx));
    stator_function_destroy(f);
}

Test(eager_kernels, results_do_not_depend_on_thread_count, .timeout = 120)
{
    static const int32_t counts[] = {2, 3, 8};
    stator_ctx *ctx, *other;
    stator_tensor *want[N_RESULTS] = {NULL}, *got[N_RESULTS] = {NULL};
    run_big(1, &ctx, want);
    for (int i = 0; i < 3; i++) {
        run_big(counts[i], &other, got);
        for (uint32_t k = 0; k < N_RESULTS; k++) {
            const uint64_t n = byte_count(want[k]);
            cr_assert_eq(byte_count(got[k]), n);
            cr_expect_eq(memcmp(stator_tensor_data(got[k]), stator_tensor_data(want[k]), n), 0,
                         "result %u with %d threads", k, counts[i]);
            stator_tensor_release(got[k]);
            got[k] = NULL;
        }
        stator_ctx_destroy(other);
    }
    for (uint32_t k = 0; k < N_RESULTS; k++) {
        stator_tensor_release(want[k]);
    }
    stator_ctx_destroy(ctx);
}

/* ---- places of what is not zero, over many chunks ---- */

/* Every seventh of 39000 elements, from the third on, is 1. */
static const char places[] = "stir 1\nsym u unbacked in [0, 39000]\ngraph @m() {\n"
                             "  %%n = iota() {shape = [39000], dtype = i64, axis = 0}\n"
                             "  %%seven = constant {value = i64[] {7}}\n"
                             "  %%three = constant {value = i64[] {3}}\n"
                             "  %%row = constant {value = i64[] {13000}}\n"
                             "  %%r = mod(%%n, %%seven)\n"
                             "  %%e = eq(%%r, %%three)\n"
                             "  %%c = cast(%%e) {dtype = %s}\n"
                             "  %%x = reshape(%%c) {shape = [1, 3, 13000]}\n"
                             "  %%1 = nonzero(%%x) : i64[3, u]\n"
                             "  %%i = iota() {shape = [5571], dtype = i64, axis = 0}\n"
                             "  %%s = mul(%%i, %%seven)\n"
                             "  %%t = add(%%s, %%three)\n"
                             "  %%z = mul(%%t, %%three)\n"
                             "  %%o = sub(%%z, %%z)\n"
                             "  %%a = div(%%t, %%row)\n"
                             "  %%b = mod(%%t, %%row)\n"
                             "  %%o1 = reshape(%%o) {shape = [1, 5571]}\n"
                             "  %%a1 = reshape(%%a) {shape = [1, 5571]}\n"
                             "  %%b1 = reshape(%%b) {shape = [1, 5571]}\n"
                             "  %%2 = concat(%%o1, %%a1, %%b1) {axis = 0}\n"
                             "  return %%1, %%2\n}\n";

Test(eager_kernels, nonzero_of_many_elements)
{
    static const char *const dtypes[] = {"bool", "u8", "i16", "f16", "f32", "i64", "f64", "c64"};
    stator_ctx *ctx = run_context();
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        char text[2048];
        (void)snprintf(text, sizeof text, places, dtypes[k]);
        cr_expect_eq(run_pairs(ctx, "eager", 0, text, strlen(text), dtypes[k]), 0, "%s", dtypes[k]);
    }
    stator_ctx_destroy(ctx);
}

/* ---- what only the data tell ---- */

static void expect_failure(const char *text, stator_status code, const char *in_text)
{
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, "eager", text, "failure");
    stator_tensor *y = NULL;
    cr_assert_not_null(f);
    cr_expect_eq(stator_call_tensors(f, 0, NULL, 1, &y), code, "%s", text);
    cr_expect(strstr(stator_ctx_error_text(ctx), in_text) != NULL, "text: %s",
              stator_ctx_error_text(ctx));
    stator_tensor_release(y);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

Test(eager_kernels, bad_values_are_refused)
{
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[2] {1.0, 2.0}}\n"
                   "  %i = constant {value = i64[2] {0, 4}}\n"
                   "  %1 = max_unpool(%x, %i) {shape = [4]}\n  return %1\n}\n",
                   STATOR_OUT_OF_RANGE, "index 4 of element 1");
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[1, 1, 1, 1] {1.0}}\n"
                   "  %r = constant {value = f32[1, 4] {0.0, 0.0, 1.0, 1.0}}\n"
                   "  %b = constant {value = i64[1] {1}}\n"
                   "  %1 = roi_align(%x, %r, %b)\n  return %1\n}\n",
                   STATOR_OUT_OF_RANGE, "region 0 is in image 1 of 1");
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[1, 1, 1, 1] {1.0}}\n"
                   "  %r = constant {value = f32[1, 4] {0.0, 0.0, nan, 1.0}}\n"
                   "  %b = constant {value = i64[1] {0}}\n"
                   "  %1 = roi_align(%x, %r, %b)\n  return %1\n}\n",
                   STATOR_INVALID_ARGUMENT, "not finite");
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[0, 3] {}}\n"
                   "  %1 = resize(%x) {sizes = [2, 3]}\n  return %1\n}\n",
                   STATOR_INVALID_ARGUMENT, "axis 0 is empty");
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[3] {1.0, 2.0, 3.0}}\n"
                   "  %1 = resize(%x) {sizes = [3], scales = [0.0]}\n  return %1\n}\n",
                   STATOR_INVALID_ARGUMENT, "scales are positive");
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[3] {1.0, 2.0, 3.0}}\n"
                   "  %1 = resize(%x) {sizes = [3], scales = [1e-30], mode = \"linear\","
                   " antialias = 1}\n  return %1\n}\n",
                   STATOR_INVALID_ARGUMENT, "scales and sizes must fit");
    expect_failure(
        "stir 1\ngraph @m() {\n"
        "  %x = constant {value = f32[1, 1, 1] {1.0}}\n"
        "  %w = constant {value = f32[1, 1, 1] {1.0}}\n"
        "  %1, %2 = rnn(%x, %w, %w) {hidden = 1, activations = \"Sine\"}\n  return %1\n}\n",
        STATOR_INVALID_ARGUMENT, "");
}

/* Sizes that were unknown while the graph was built and do not fit. `node` computes %2 from
 * %u: f32[A, B], where A and B turn out to be 2 and 3. */
static void expect_misfit(const char *node, const char *in_text)
{
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "stir 1\nsym A unbacked in [0, 64]\nsym B unbacked in [0, 64]\ngraph @m() {\n"
                   "  %%s = constant {value = i64[2] {2, 3}}\n"
                   "  %%1 = sym_bind(%%s) {syms = [A, B]}\n"
                   "  %%o = constant {value = f32[] {1.0}}\n"
                   "  %%u = expand(%%o) {shape = [A, B]}\n"
                   "%s\n  return %%2\n}\n",
                   node);
    expect_failure(text, STATOR_INVALID_ARGUMENT, in_text);
}

Test(eager_kernels, sizes_are_checked_before_memory_is_touched)
{
    expect_misfit("  %2 = det(%u)", "not square");
    expect_misfit("  %2 = einsum(%u, %u) {equation = \"ij,jk->ik\"}", "the same label");
    expect_misfit(
        "  %3 = reshape(%u) {shape = [1, A, B]}\n"
        "  %w = constant {value = f32[4, 1, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}}\n"
        "  %2 = conv_transpose(%3, %w) {strides = [1], pads = [0, 0], dilations = [1]}",
        "do not fit");
    expect_misfit("  %3 = reshape(%u) {shape = [1, A, B]}\n"
                  "  %2 = col2im(%3) {image = [5], block = [2], strides = [1], pads = [0, 0],"
                  " dilations = [1]}",
                  "blocks");
    expect_misfit("  %3 = reshape(%u) {shape = [1, 1, A, B]}\n"
                  "  %4 = reshape(%u) {shape = [1, 1, A, B]}\n"
                  "  %2 = grid_sample(%3, %4)",
                  "grid");
    expect_misfit("  %3 = reshape(%u) {shape = [A, 1, B]}\n"
                  "  %w = expand(%o) {shape = [1, 2, A]}\n"
                  "  %r = expand(%o) {shape = [1, 2, 2]}\n"
                  "  %2, %5 = rnn(%3, %w, %r) {hidden = 2}",
                  "operand w has 4 elements, expected 6");
    expect_misfit("  %3 = reshape(%u) {shape = [1, A, B]}\n"
                  "  %2 = dft(%3) {axis = 1, length = [4]}",
                  "expected 1 (real) or 2 (complex)");
}

/* ---- a tap of weight 0 does not spread inf and NaN ---- */

Test(eager_kernels, nan_under_a_zero_weight_is_ignored)
{
    static const char text[] =
        "stir 1\n"
        "graph @m() {\n"
        "  %x = constant {value = f32[5] {1.0, inf, 3.0, nan, 5.0}}\n"
        "  %1 = resize(%x) {sizes = [3], mode = \"linear\", coordinates = \"align_corners\"}\n"
        "  %2 = resize(%x) {sizes = [3], mode = \"cubic\", coordinates = \"align_corners\"}\n"
        "  %w = constant {value = f32[3] {1.0, 3.0, 5.0}}\n"
        "  %i = reshape(%x) {shape = [1, 1, 5]}\n"
        "  %g = constant {value = f32[1, 3, 1] {-1.0, 0.0, 1.0}}\n"
        "  %3 = grid_sample(%i, %g) {align_corners = 1}\n"
        "  %v = reshape(%w) {shape = [1, 1, 3]}\n"
        "  return %1, %w, %2, %w, %3, %v\n"
        "}\n";
    stator_ctx *ctx = run_context();
    cr_assert_not_null(ctx);
    cr_expect_eq(run_pairs(ctx, "eager", 0, text, strlen(text), "weight 0"), 0);
    stator_ctx_destroy(ctx);
}

/* ---- allocations ---- */

typedef struct counted { /* an application's allocator */
    uint64_t requests;
    uint64_t fail_at; /* this request and all later ones fail; 0: none */
    uint64_t live;
} counted;

static void *counted_alloc(void *self, uint64_t size, uint64_t align)
{
    counted *c = self;
    const uint64_t request = __atomic_add_fetch(&c->requests, 1, __ATOMIC_RELAXED);
    if (c->fail_at && request >= c->fail_at) {
        return NULL;
    }
    const uint64_t unit = align < 16 ? 16 : align;
    void *p = aligned_alloc(unit, (size + unit - 1) / unit * unit);
    if (p) {
        __atomic_add_fetch(&c->live, 1, __ATOMIC_RELAXED);
    }
    return p;
}

static void counted_free(void *self, void *p)
{
    counted *c = self;
    if (p) {
        __atomic_sub_fetch(&c->live, 1, __ATOMIC_RELAXED);
    }
    free(p);
}

/* Compiles `text` and calls it with only `granted` more allocations (0: any number). Returns the
 * status of the call and the allocations it asked for. */
static stator_status call_with(const char *text, uint64_t granted, uint64_t *out_requests)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    counted c = {0, 0, 0};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = 1,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs,
                                        .alloc = counted_alloc,
                                        .free = counted_free,
                                        .alloc_self = &c};
    stator_ctx *ctx = NULL;
    stator_tensor *y = NULL;
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    stator_function *f = run_compile(ctx, "eager", text, "out of memory");
    cr_assert_not_null(f);
    const uint64_t before = c.requests;
    c.fail_at = granted ? before + granted : 0;
    const stator_status status = stator_call_tensors(f, 0, NULL, 1, &y);
    *out_requests = c.requests - before;
    c.fail_at = 0;
    stator_tensor_release(y);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
    cr_expect_eq(c.live, 0, "%llu blocks are left", (unsigned long long)c.live);
    return status;
}

#define F8 "{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}"

/* One node each; %x: f32[1, 2, 4], %w: f32[2, 2, 2]. */
static const char *const nodes[] = {
    "%1 = conv_transpose(%x, %w) {strides = [1], pads = [0, 0], dilations = [1]}",
    "%1 = conv_weight_grad(%x, %x) {kernel = [1], strides = [1], pads = [0, 0], dilations = [1]}",
    "%1 = col2im(%x) {image = [5], block = [2], strides = [1], pads = [0, 0], dilations = [1]}",
    "%1 = resize(%x) {sizes = [1, 3, 5], mode = \"linear\"}",
    "%1 = resize(%x) {sizes = [1, 3, 5], mode = \"nearest\"}",
    "%2 = reshape(%x) {shape = [1, 8, 1]}\n  %1 = grid_sample(%x, %2)",
    "%2 = reshape(%x) {shape = [1, 1, 2, 4]}\n  %3 = reshape(%x) {shape = [2, 4]}\n"
    "  %4 = constant {value = i64[2] {0, 0}}\n  %1 = roi_align(%2, %3, %4)",
    "%2 = reshape(%x) {shape = [2, 2, 2]}\n  %1, %3 = rnn(%2, %2, %2) {hidden = 2,"
    " direction = \"bidirectional\"}",
    "%1 = einsum(%x, %w, %w) {equation = \"abc,def,deg->acfg\"}",
    "%1 = dft(%w) {axis = 1, length = [67]}",
    "%1 = det(%w)",
    "%2 = reshape(%x) {shape = [1, 2, 4]}\n  %3 = constant {value = f32[1, 1, 2] {1.0, 2.0}}\n"
    "  %4 = constant {value = i64[] {2}}\n  %1 = nms(%2, %3, %4)",
};

Test(eager_kernels, every_allocation_may_fail, .timeout = 120)
{
    FILE *quiet = freopen("/dev/null", "w", stderr);
    cr_expect_not_null(quiet);
    for (size_t k = 0; k < sizeof nodes / sizeof nodes[0]; k++) {
        char text[1024];
        uint64_t requests, ignored;
        (void)snprintf(text, sizeof text,
                       "stir 1\ngraph @m() {\n  %%x = constant {value = f32[1, 2, 4] " F8 "}\n"
                       "  %%w = constant {value = f32[2, 2, 2] " F8 "}\n  %s\n  return %%1\n}\n",
                       nodes[k]);
        cr_assert_eq(call_with(text, 0, &requests), STATOR_OK, "%s", nodes[k]);
        for (uint64_t n = 1; n <= requests; n++) {
            cr_expect_eq(call_with(text, n, &ignored), STATOR_RESOURCE_EXHAUSTED,
                         "%s: request %llu of the call failed, the call did not", nodes[k],
                         (unsigned long long)n);
        }
    }
}
