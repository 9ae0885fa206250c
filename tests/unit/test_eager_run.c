/* The executor of the reference backend: control flow, sizes known only while running, aliases,
 * errors, failing memory, and what a call costs. test_eager_threads.c has many callers. */
#include "core/base/threads/threads.h"
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_pairs(const char *name, const char *text)
{
    stator_ctx *ctx = run_context();
    cr_assert_not_null(ctx);
    cr_expect_eq(run_pairs(ctx, "eager", 0, text, strlen(text), name), 0, "%s", name);
    cr_expect_eq(run_pairs(ctx, "aot_eager", 0, text, strlen(text), name), 0, "aot: %s", name);
    stator_ctx_destroy(ctx);
}

/* ---- control flow ---- */

Test(eager_run, cond_runs_the_chosen_branch)
{
    check_pairs("cond", "stir 1\n"
                        "graph @m() {\n"
                        "  %1 = constant {value = bool[] {true}}\n"
                        "  %2 = constant {value = bool[] {false}}\n"
                        "  %x = constant {value = f32[3] {1.0, 2.0, 3.0}}\n"
                        "  %4 = cond(%1, %x)\n"
                        "    region @t(%1: f32[3]) { %2 = neg(%1) return %2 }\n"
                        "    region @e(%1: f32[3]) { return %1 }\n"
                        "  %5 = cond(%2, %x)\n"
                        "    region @t(%1: f32[3]) { %2 = neg(%1) return %2 }\n"
                        "    region @e(%1: f32[3]) { return %1 }\n"
                        "  %w = constant {value = f32[3] {-1.0, -2.0, -3.0}}\n"
                        "  return %4, %w, %5, %x\n"
                        "}\n");
}

Test(eager_run, while_carries_and_stacks)
{
    /* a = 1; 4 times: a += i; stack [a, a]. */
    check_pairs("while", "stir 1\n"
                         "graph @m() {\n"
                         "  %t = constant {value = i64[] {4}}\n"
                         "  %p = constant {value = bool[] {true}}\n"
                         "  %a = constant {value = i64[] {1}}\n"
                         "  %c = constant {value = i64[2] {10, 20}}\n"
                         "  %5, %6 = while(%t, %p, %a, %c) {carried = 1, stacked = 1}\n"
                         "    region @b(%i: i64[], %a: i64[], %c: i64[2]) {\n"
                         "      %1 = add(%a, %i)\n"
                         "      %2 = add(%c, %1)\n"
                         "      %3 = constant {value = bool[] {true}}\n"
                         "      return %3, %1, %2\n"
                         "    }\n"
                         "  %w1 = constant {value = i64[] {7}}\n"
                         "  %w2 = constant {value = i64[4, 2] {11, 21, 12, 22, 14, 24, 17, 27}}\n"
                         "  return %5, %w1, %6, %w2\n"
                         "}\n");
}

Test(eager_run, while_stops_by_its_condition_and_may_never_run)
{
    check_pairs("while stop", "stir 1\n"
                              "graph @m() {\n"
                              "  %t = constant {value = i64[] {1000}}\n"
                              "  %p = constant {value = bool[] {true}}\n"
                              "  %n = constant {value = bool[] {false}}\n"
                              "  %a = constant {value = i64[] {1}}\n"
                              "  %5, %6 = while(%t, %p, %a) {carried = 1, stacked = 1}\n"
                              "    region @b(%i: i64[], %a: i64[]) {\n"
                              "      %1 = add(%a, %a)\n"
                              "      %2 = constant {value = i64[] {50}}\n"
                              "      %3 = lt(%1, %2)\n"
                              "      return %3, %1, %a\n"
                              "    }\n"
                              "  %7, %8 = while(%t, %n, %a) {carried = 1, stacked = 1}\n"
                              "    region @b(%i: i64[], %a: i64[]) {\n"
                              "      %1 = add(%a, %a)\n"
                              "      %3 = constant {value = bool[] {true}}\n"
                              "      return %3, %1, %a\n"
                              "    }\n"
                              "  %w1 = constant {value = i64[] {64}}\n"
                              "  %w2 = constant {value = i64[6] {1, 2, 4, 8, 16, 32}}\n"
                              "  %w3 = constant {value = i64[0] {}}\n"
                              "  return %5, %w1, %6, %w2, %7, %a, %8, %w3\n"
                              "}\n");
}

Test(eager_run, while_state_may_grow)
{
    check_pairs("while grows", "stir 1\n"
                               "sym L unbacked in [0, inf]\n"
                               "graph @m() {\n"
                               "  %t = constant {value = i64[] {3}}\n"
                               "  %p = constant {value = bool[] {true}}\n"
                               "  %a = constant {value = f32[1] {1.0}}\n"
                               "  %5 = while(%t, %p, %a) {carried = 1}\n"
                               "    region @b(%i: i64[], %a: f32[L]) {\n"
                               "      %1 = concat(%a, %a) {axis = 0}\n"
                               "      %3 = constant {value = bool[] {true}}\n"
                               "      return %3, %1\n"
                               "    }\n"
                               "  %6 = reduce_sum(%5) {axes = [0]}\n"
                               "  %w = constant {value = f32[] {8.0}}\n"
                               "  return %6, %w\n"
                               "}\n");
}

Test(eager_run, scan_slices_and_stacks_on_any_axis)
{
    check_pairs("scan", "stir 1\n"
                        "graph @m() {\n"
                        "  %s = constant {value = f32[2] {0.0, 0.0}}\n"
                        "  %x = constant {value = f32[2, 3] {1.0, 2.0, 3.0, 10.0, 20.0, 30.0}}\n"
                        "  %3, %4 = scan(%s, %x) {carried = 1, scanned = 1, stacked = 1, axes = "
                        "[1], out_axes = [1]}\n"
                        "    region @b(%s: f32[2], %x: f32[2]) { %1 = add(%s, %x) return %1, %1 }\n"
                        "  %5, %6 = scan(%s, %x) {carried = 1, scanned = 1, stacked = 1, axes = "
                        "[1], reverse = [1], "
                        "out_axes = [0], out_reverse = [1]}\n"
                        "    region @b(%s: f32[2], %x: f32[2]) { %1 = add(%s, %x) return %1, %1 }\n"
                        "  %w1 = constant {value = f32[2] {6.0, 60.0}}\n"
                        "  %w2 = constant {value = f32[2, 3] {1.0, 3.0, 6.0, 10.0, 30.0, 60.0}}\n"
                        "  %w3 = constant {value = f32[3, 2] {6.0, 60.0, 5.0, 50.0, 3.0, 30.0}}\n"
                        "  return %3, %w1, %4, %w2, %5, %w1, %6, %w3\n"
                        "}\n");
}

Test(eager_run, regions_nest)
{
    check_pairs("nested", "stir 1\n"
                          "graph @m() {\n"
                          "  %t = constant {value = i64[] {4}}\n"
                          "  %p = constant {value = bool[] {true}}\n"
                          "  %a = constant {value = i64[] {0}}\n"
                          "  %5 = while(%t, %p, %a) {carried = 1}\n"
                          "    region @b(%i: i64[], %a: i64[]) {\n"
                          "      %1 = constant {value = i64[] {2}}\n"
                          "      %2 = rem(%i, %1)\n"
                          "      %3 = cast(%2) {dtype = bool}\n"
                          "      %4 = cond(%3, %a, %i)\n"
                          "        region @t(%1: i64[], %2: i64[]) {\n"
                          "          %3 = call(%1, %2)\n"
                          "            region @f(%1: i64[], %2: i64[]) { %3 = mul(%2, %2) %4 = "
                          "add(%1, %3) return %4 }\n"
                          "          return %3\n"
                          "        }\n"
                          "        region @e(%1: i64[], %2: i64[]) { return %1 }\n"
                          "      %5 = constant {value = bool[] {true}}\n"
                          "      return %5, %4\n"
                          "    }\n"
                          "  %w = constant {value = i64[] {10}}\n"
                          "  return %5, %w\n"
                          "}\n");
}

/* ---- sizes known only while running ---- */

Test(eager_run, unbacked_sizes_reach_later_nodes)
{
    check_pairs("unbacked", "stir 1\n"
                            "graph @m() {\n"
                            "  %x = constant {value = f32[5] {0.0, 3.0, 0.0, 4.0, 5.0}}\n"
                            "  %1 = nonzero(%x)\n"
                            "  %2 = constant {value = i64[] {0}}\n"
                            "  %3 = gather(%1, %2) {axis = 0}\n"
                            "  %4 = gather(%x, %3) {axis = 0}\n"
                            "  %5 = add(%4, %4)\n"
                            "  %6 = reduce_sum(%5) {axes = [0]}\n"
                            "  %w1 = constant {value = f32[3] {6.0, 8.0, 10.0}}\n"
                            "  %w2 = constant {value = f32[] {24.0}}\n"
                            "  return %5, %w1, %6, %w2, %4, %4\n"
                            "}\n");
}

Test(eager_run, sym_bind_gives_sizes)
{
    check_pairs("sym_bind", "stir 1\n"
                            "sym A unbacked in [0, inf]\n"
                            "sym B unbacked in [0, inf]\n"
                            "graph @m() {\n"
                            "  %s = constant {value = i64[2] {2, 3}}\n"
                            "  %x = constant {value = f32[6] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}\n"
                            "  %1 = sym_bind(%s) {syms = [A, B]}\n"
                            "  %2 = reshape(%x) {shape = [A, B]}\n"
                            "  %3 = transpose(%2) {perm = [1, 0]}\n"
                            "  %4 = dims {values = [B, A, A*B + 1]}\n"
                            "  %w1 = constant {value = f32[3, 2] {1.0, 4.0, 2.0, 5.0, 3.0, 6.0}}\n"
                            "  %w2 = constant {value = i64[3] {3, 2, 7}}\n"
                            "  return %3, %w1, %4, %w2\n"
                            "}\n");
}

/* Twenty sizes that nobody knows add up to more terms than the symbolic engine keeps. */
Test(eager_run, sizes_beyond_the_limits)
{
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "stir 1\ngraph @m() {\n");
    char list[512] = "";
    for (int i = 0; i < 20; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "  %%x%d = constant {value = f32[3] {%d.0, 0.0, 1.0}}\n"
                              "  %%n%d = nonzero(%%x%d)\n",
                              i, i, i, i);
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), i ? ", %%n%d" : "%%n%d", i);
    }
    (void)snprintf(text + n, sizeof text - n,
                   "  %%c = concat(%s) {axis = 1}\n"
                   "  %%d = add(%%c, %%c)\n"
                   "  %%s = reduce_sum(%%d) {axes = [0, 1]}\n"
                   "  %%w = constant {value = i64[] {80}}\n"
                   "  return %%s, %%w\n}\n",
                   list);
    check_pairs("limits", text);
}

static stator_status call1(stator_function *f, stator_tensor *x, stator_tensor **y)
{
    stator_tensor *const in[] = {x};
    *y = NULL;
    return stator_call_tensors(f, 1, in, 1, y);
}

Test(eager_run, symbolic_inputs)
{
    static const char text[] = "stir 1\nsym N in [1, 64]\ngraph @m(%x: f32[N, 2]) {\n"
                               "  %1 = add(%x, %x)\n"
                               "  %2 = transpose(%1) {perm = [1, 0]}\n"
                               "  %3 = reshape(%2) {shape = [2*N]}\n"
                               "  return %3\n}\n";
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, "eager", text, "symbolic");
    cr_assert_not_null(f);
    for (int64_t n = 1; n <= 5; n++) {
        float data[10];
        for (int i = 0; i < 10; i++) {
            data[i] = (float)i;
        }
        const int64_t shape[] = {n, 2};
        stator_tensor *x = run_tensor(ctx, STATOR_F32, 2, shape, data);
        stator_tensor *y;
        cr_assert_eq(call1(f, x, &y), STATOR_OK, "%s", stator_ctx_error_text(ctx));
        cr_assert_eq(stator_tensor_view(y)->shape[0], 2 * n);
        for (int64_t i = 0; i < 2 * n; i++) {
            cr_expect_eq(((float *)stator_tensor_data(y))[i], (float)(2 * (i % n * 2 + i / n)));
        }
        stator_tensor_release(y);
        stator_tensor_release(x);
    }
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

/* ---- outputs, errors ---- */

Test(eager_run, outputs_may_be_inputs_constants_and_each_other)
{
    check_pairs("aliases", "stir 1\n"
                           "graph @m() {\n"
                           "  %x = constant {value = f32[4] {1.0, 2.0, 3.0, 4.0}}\n"
                           "  %1 = neg(%x)\n"
                           "  %2 = reshape(%1) {shape = [2, 2]}\n"
                           "  %3 = reshape(%x) {shape = [2, 2]}\n"
                           "  %4 = neg(%2)\n"
                           "  %w = constant {value = f32[4] {-1.0, -2.0, -3.0, -4.0}}\n"
                           "  %v = constant {value = f32[2, 2] {-1.0, -2.0, -3.0, -4.0}}\n"
                           "  return %2, %v, %1, %w, %1, %w, %3, %4, %x, %x\n"
                           "}\n");
}

static void expect_failure(const char *text, stator_status code, const char *in_text)
{
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, "eager", text, "failure");
    cr_assert_not_null(f);
    stator_tensor *y = NULL;
    cr_expect_eq(stator_call_tensors(f, 0, NULL, 1, &y), code);
    cr_expect(strstr(stator_ctx_error_text(ctx), in_text) != NULL, "text: %s",
              stator_ctx_error_text(ctx));
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

Test(eager_run, errors_name_the_node)
{
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = f32[2] {1.0, 2.0}}\n"
                   "  %i = constant {value = i64[1] {2}}\n"
                   "  %1 = gather(%x, %i) {axis = 0} @\"emb/lookup\":Gather\n  return %1\n}\n",
                   STATOR_OUT_OF_RANGE, "gather 'emb/lookup' (Gather): index 2");
    expect_failure("stir 1\ngraph @m() {\n"
                   "  %x = constant {value = bool[2] {true, false}}\n"
                   "  %1 = check(%x) {message = \"sizes differ\"}\n  return %1\n}\n",
                   STATOR_FAILED_PRECONDITION, "sizes differ");
    expect_failure("stir 1\nsym A unbacked in [0, inf]\ngraph @m() {\n"
                   "  %s = constant {value = i64[1] {4}}\n"
                   "  %x = constant {value = f32[6] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}\n"
                   "  %1 = sym_bind(%s) {syms = [A]}\n"
                   "  %2 = reshape(%x) {shape = [A, 2]}\n  return %2\n}\n",
                   STATOR_INVALID_ARGUMENT, "[4, 2] does not hold");
    expect_failure("stir 1\nsym A unbacked in [0, inf]\ngraph @m() {\n"
                   "  %s = constant {value = i64[1] {-1}}\n"
                   "  %1 = sym_bind(%s) {syms = [A]}\n  return %1\n}\n",
                   STATOR_OUT_OF_RANGE, "a size is -1");
    expect_failure("stir 1\nsym A unbacked in [0, inf]\ngraph @m() {\n"
                   "  %s = constant {value = i64[1] {4611686018427387904}}\n"
                   "  %1 = sym_bind(%s) {syms = [A]}\n"
                   "  %2 = iota {shape = [A, 2]}\n  return %2\n}\n",
                   STATOR_RESOURCE_EXHAUSTED, "");
}

/* ---- writing into inputs ---- */

static void check_writes(const char *backend, const char *text)
{
    stator_ctx *ctx = run_context();
    stator_function *f = run_compile(ctx, backend, text, "writes");
    cr_assert_not_null(f);
    const int64_t shape[] = {2};
    const float a[] = {1, 2};
    const float b[] = {10, 20};
    stator_tensor *in[2] = {run_tensor(ctx, STATOR_F32, 1, shape, a),
                            run_tensor(ctx, STATOR_F32, 1, shape, b)};
    stator_tensor *y = NULL;
    cr_assert_eq(stator_call_tensors(f, 2, in, 1, &y), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    cr_expect_eq(((float *)stator_tensor_data(y))[1], 22.0f, "%s: sum", backend);
    cr_expect_eq(((float *)stator_tensor_data(in[0]))[1], 20.0f, "%s: x", backend);
    cr_expect_eq(((float *)stator_tensor_data(in[1]))[1], 2.0f, "%s: y", backend);
    stator_tensor_release(y);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

Test(eager_run, writes_may_swap_two_inputs)
{
    static const char text[] = "stir 1\ngraph @m(%x: f32[2], %y: f32[2]) {\n"
                               "  %1 = add(%x, %y)\n"
                               "  write %x = %y\n  write %y = %x\n  return %1\n}\n";
    check_writes("eager", text);
    check_writes("aot_eager", text);
}

Test(eager_run, assign_writes_in_order)
{
    static const char text[] = "stir 1\ngraph @m(%x: f32[2], %y: f32[2]) {\n"
                               "  %0 = constant {value = f32[2] {0.0, 0.0}}\n"
                               "  %1 = add(%x, %0)\n"
                               "  %2 = assign(%x, %y)\n"
                               "  %3 = add(%2, %1)\n"
                               "  %4 = assign(%y, %1)\n"
                               "  return %3\n}\n";
    check_writes("eager", text);
    check_writes("aot_eager", text);
}

/* ---- memory, and the cost of one call ---- */

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

static stator_ctx *counted_context(counted *c)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs,
                                        .alloc = counted_alloc,
                                        .free = counted_free,
                                        .alloc_self = c};
    stator_ctx *ctx = NULL;
    return stator_ctx_create(&options, &ctx) == STATOR_OK ? ctx : NULL;
}

/* A warm call of a one-op graph allocates nothing. 20 us is a bound that a busy machine and a
 * sanitizer keep; the figure itself is measured in bench/. */
Test(eager_run, warm_call_of_one_op_allocates_nothing)
{
    static const char text[] = "stir 1\ngraph @m(%x: f32[4], %y: f32[4]) {\n"
                               "  %1 = add(%x, %y)\n  return %1\n}\n";
    counted c = {0, 0, 0};
    stator_ctx *ctx = counted_context(&c);
    cr_assert_not_null(ctx);
    stator_function *f = run_compile(ctx, "eager", text, "add");
    cr_assert_not_null(f);
    const int64_t shape[] = {4};
    const float one[] = {1, 2, 3, 4};
    stator_tensor *x = run_tensor(ctx, STATOR_F32, 1, shape, one);
    stator_tensor *y = run_tensor(ctx, STATOR_F32, 1, shape, one);
    stator_tensor *out[] = {run_tensor(ctx, STATOR_F32, 1, shape, one)};
    stator_tensor *const in[] = {x, y};
    stator_bound_call *call;
    cr_assert_eq(stator_bind(f, 2, in, 1, out, &call), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(stator_bound_call_run(call), STATOR_OK);
    }
    const uint64_t before = c.requests;
    const uint64_t begin = st_now_ns();
    for (int i = 0; i < 100000; i++) {
        cr_assert_eq(stator_bound_call_run(call), STATOR_OK);
    }
    const double ns = (double)(st_now_ns() - begin) / 1e5;
    cr_expect_eq(c.requests, before);
    cr_expect_lt(ns, 20000.0);
    cr_expect_eq(((float *)stator_tensor_data(out[0]))[3], 8.0f);
    stator_bound_call_destroy(call);
    stator_tensor_release(x);
    stator_tensor_release(y);
    stator_tensor_release(out[0]);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

/* One graph with most of what an executable can hold. */
static const char everything[] = "stir 1\nsym N in [1, 64]\n"
                                 "graph @m(%x: f32[N, 2], %y: i64[3]) {\n"
                                 "  %1 = add(%x, %x)\n"
                                 "  %2 = transpose(%1) {perm = [1, 0]}\n"
                                 "  %3 = reshape(%2) {shape = [2*N]}\n"
                                 "  %4, %5 = sort(%3)\n"
                                 "  %6 = nonzero(%y)\n"
                                 "  %7 = constant {value = i64[] {0}}\n"
                                 "  %8 = gather(%6, %7) {axis = 0}\n"
                                 "  %9 = constant {value = i64[] {3}}\n"
                                 "  %10 = constant {value = bool[] {true}}\n"
                                 "  %11, %12 = while(%9, %10, %4) {carried = 1, stacked = 1}\n"
                                 "    region @b(%i: i64[], %a: f32[2*N]) {\n"
                                 "      %1 = add(%a, %a)\n"
                                 "      %2 = reduce_max(%1) {axes = [0]}\n"
                                 "      %3 = constant {value = bool[] {true}}\n"
                                 "      return %3, %1, %2\n"
                                 "    }\n"
                                 "  return %11, %12, %8\n}\n";

/* Loads, compiles and calls; 1 when the call worked. */
static int try_everything(counted *c)
{
    const float data[] = {3, 1, 2, 5};
    const int64_t shape[] = {2, 2};
    const int64_t values[] = {0, 7, 9};
    const int64_t three = 3;
    int worked = 0;
    stator_ctx *ctx = counted_context(c);
    if (!ctx) {
        return 0;
    }
    stator_function *f = run_compile(ctx, "eager", everything, "everything");
    stator_tensor *in[2] = {run_tensor(ctx, STATOR_F32, 2, shape, data),
                            run_tensor(ctx, STATOR_I64, 1, &three, values)};
    if (f && in[0] && in[1]) {
        stator_tensor *out[3] = {NULL, NULL, NULL};
        worked = stator_call_tensors(f, 2, in, 3, out) == STATOR_OK;
        if (worked) {
            cr_expect_eq(((float *)stator_tensor_data(out[0]))[3], 80.0f);
            cr_expect_eq(((float *)stator_tensor_data(out[1]))[2], 80.0f);
            cr_expect_eq(((int64_t *)stator_tensor_data(out[2]))[1], 2);
        }
        for (int k = 0; k < 3; k++) {
            stator_tensor_release(out[k]);
        }
    }
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
    return worked;
}

/* Sizes beside a size of 0 are not bounded by memory: no kernel multiplies or counts up to them. */
Test(eager_run, huge_sizes_beside_a_size_of_zero_run_at_once)
{
    static const char text[] = "stir 1\ngraph @main() {\n"
                               "  %0 = constant {value = f32[1, 1, 1099511627776, 0] {}}\n"
                               "  %1 = sdpa(%0, %0, %0, _)\n"
                               "  %2 = constant {value = f32[1099511627776, 0] {}}\n"
                               "  %3, %4 = sort(%2) {axis = 1, descending = 0}\n"
                               "  %5 = trilu(%2) {k = [0], upper = 0}\n"
                               "  %6, %7, %8 = sdpa_gradient(%0, %0, %0, %0)\n"
                               "  return %1, %0, %3, %2, %5, %2, %6, %0, %7, %0, %8, %0\n}\n";
    stator_ctx *ctx = run_context();
    cr_expect_eq(run_pairs(ctx, "eager", 0.0, text, sizeof text - 1u, "huge"), 0);
    stator_ctx_destroy(ctx);
}

Test(eager_run, every_allocation_may_fail)
{
    counted c = {0, 0, 0};
    cr_assert(try_everything(&c));
    const uint64_t requests = c.requests;
    cr_assert_eq(c.live, 0);
    FILE *quiet = freopen("/dev/null", "w", stderr);
    for (uint64_t n = 1; n <= requests; n++) {
        c = (counted){0, n, 0};
        cr_expect_eq(try_everything(&c), 0, "request %llu failed, the call did not",
                     (unsigned long long)n);
        cr_expect_eq(c.live, 0, "request %llu: %llu blocks are left", (unsigned long long)n,
                     (unsigned long long)c.live);
    }
    cr_expect_not_null(quiet);
}
