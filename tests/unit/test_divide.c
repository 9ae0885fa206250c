/* Graphs divided between the test backend "divided" (tests/plugins/divided.c), eager and the host:
 * results must be eager's bit for bit, coverage must count what is inside control flow, a loop must
 * not allocate once it is warm, fuel must reach the bodies, and nodes that compile() declines must
 * go to eager. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <stdio.h>
#include <string.h>

static stator_ctx *context(void)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1",
                                       ST_TEST_BUILD "/tests/plugins"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .plugin_dir_count = 2,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    return ctx;
}

typedef struct setup {
    const char *backend;
    const char *keys[3];
    const char *values[3];
    uint32_t n_options;
    uint32_t flags;
    int64_t fuel;
} setup;

static stator_function *compile(stator_ctx *ctx, const char *text, const setup *s)
{
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1, .frontend = "text"};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = s->backend,
                                            .option_count = s->n_options,
                                            .option_keys = s->keys,
                                            .option_values = s->values,
                                            .flags = s->flags,
                                            .fuel = s->fuel};
    stator_model *model = NULL;
    stator_function *f = NULL;
    cr_assert_eq(stator_model_load_bytes(ctx, text, strlen(text), "divide", &load, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(ctx));
    cr_assert_eq(stator_compile(model, &options, &f), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    stator_model_destroy(model);
    return f;
}

#define OUT_MAX 8u

typedef struct outputs {
    stator_tensor *t[OUT_MAX];
    uint32_t n;
} outputs;

static outputs call(stator_ctx *ctx, stator_function *f, uint32_t n_in, stator_tensor *const *in,
                    uint32_t n_out)
{
    outputs out = {.n = n_out};
    cr_assert_eq(stator_call_tensors(f, n_in, in, n_out, out.t), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    return out;
}

static void release(outputs *out)
{
    for (uint32_t k = 0; k < out->n; k++) {
        stator_tensor_release(out->t[k]);
    }
}

static int equal(const outputs *a, const outputs *b)
{
    int same = a->n == b->n;
    for (uint32_t k = 0; same && k < a->n; k++) {
        const DLTensor *x = stator_tensor_view(a->t[k]);
        const DLTensor *y = stator_tensor_view(b->t[k]);
        same = x->ndim == y->ndim &&
               memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0 &&
               stator_tensor_size_bytes(a->t[k]) == stator_tensor_size_bytes(b->t[k]) &&
               memcmp(stator_tensor_data(a->t[k]), stator_tensor_data(b->t[k]),
                      stator_tensor_size_bytes(a->t[k])) == 0;
    }
    return same;
}

/* ---- models ---- */

/* while in cond in scan; sizes that grow in the loop; stacked results, reversed and on axis 1. */
static const char nested[] =
    "stir 1\n"
    "graph @m(%x: f32[5, 4], %w: f32[4], %n: i64[]) {\n"
    "  %1 = constant {value = f32[4] {0, 0, 0, 0}} : f32[4]\n"
    "  %2, %3, %4 = scan(%1, %x, %w, %n) {carried = 1, scanned = 1, stacked = 2, reverse = [1],\n"
    "      out_axes = [1, 0], out_reverse = [0, 1]}\n"
    "    region @step(%a: f32[4], %b: f32[4], %c: f32[4], %n: i64[]) {\n"
    "      %1 = mul(%b, %c)\n"
    "      %2 = reduce_sum(%1) {axes = [0]}\n"
    "      %3 = constant {value = f32[] {0.5}} : f32[]\n"
    "      %4 = gt(%2, %3)\n"
    "      %5 = cond(%4, %1, %n)\n"
    "        region @then(%p: f32[4], %n: i64[]) {\n"
    "          %1 = constant {value = bool[] {true}} : bool[]\n"
    "          %2, %3 = while(%n, %1, %p) {carried = 1, stacked = 1}\n"
    "            region @body(%i: i64[], %q: f32[4]) {\n"
    "              %1 = tanh(%q)\n"
    "              %2 = add(%q, %1)\n"
    "              %3 = constant {value = f32[] {40}} : f32[]\n"
    "              %4 = reduce_max(%2) {axes = [0]}\n"
    "              %5 = lt(%4, %3)\n"
    "              return %5, %2, %1\n"
    "            }\n"
    "          %4 = reduce_sum(%3) {axes = [0]}\n"
    "          %5 = mul(%2, %4)\n"
    "          return %5\n"
    "        }\n"
    "        region @else(%p: f32[4], %n: i64[]) {\n"
    "          return %p\n"
    "        }\n"
    "      %6 = add(%a, %5)\n"
    "      %7 = neg(%6)\n"
    "      return %6, %7, %5\n"
    "    }\n"
    "  %5 = exp(%2)\n"
    "  return %5, %3, %4, %2\n"
    "}\n";

/* A carried value that grows by one row an iteration; the sizes are the body's own. */
static const char growing[] = "stir 1\n"
                              "sym N in [0, 64]\n"
                              "sym K in [0, 1000]\n"
                              "sym $0 unbacked in [0, 1000]\n"
                              "graph @m(%x: f32[N, 2], %n: i64[]) {\n"
                              "  %1 = constant {value = bool[] {true}} : bool[]\n"
                              "  %2 = while(%n, %1, %x) {carried = 1} : f32[$0, 2]\n"
                              "    region @grow(%i: i64[], %a: f32[K, 2]) {\n"
                              "      %1 = constant {value = bool[] {true}} : bool[]\n"
                              "      %2 = add(%a, %a)\n"
                              "      %3 = constant {value = f32[1, 2] {1, 2}} : f32[1, 2]\n"
                              "      %4 = concat(%2, %3) {axis = 0}\n"
                              "      return %1, %4\n"
                              "    }\n"
                              "  %3 = mul(%2, %2)\n"
                              "  %4 = neg(%3)\n"
                              "  return %4\n"
                              "}\n";

static const char called[] = "stir 1\n"
                             "graph @m(%x: f32[6], %y: f32[6]) {\n"
                             "  %1, %2 = call(%x, %y)\n"
                             "    region @f(%a: f32[6], %b: f32[6]) {\n"
                             "      %1 = add(%a, %b)\n"
                             "      %2 = sin(%1)\n"
                             "      %3 = call(%2)\n"
                             "        region @g(%p: f32[6]) {\n"
                             "          %1 = mul(%p, %p)\n"
                             "          return %1\n"
                             "        }\n"
                             "      return %3, %a\n"
                             "    }\n"
                             "  %3 = sub(%1, %2)\n"
                             "  return %3, %1\n"
                             "}\n";

typedef struct model {
    const char *name;
    const char *text;
    uint32_t n_out;
} model;

static const model models[] = {
    {"nested", nested, 4}, {"growing", growing, 1}, {"called", called, 2}};

static uint32_t inputs_of(stator_ctx *ctx, const model *m, int64_t n, stator_tensor **in)
{
    float values[64];
    for (int i = 0; i < 64; i++) {
        values[i] = (float)((i * 37) % 19) * 0.21f - 0.9f;
    }
    if (m->text == nested) {
        in[0] = run_tensor(ctx, STATOR_F32, 2, (const int64_t[]){5, 4}, values);
        in[1] = run_tensor(ctx, STATOR_F32, 1, (const int64_t[]){4}, values + 3);
        in[2] = run_tensor(ctx, STATOR_I64, 0, NULL, &n);
        return 3;
    }
    if (m->text == growing) {
        in[0] = run_tensor(ctx, STATOR_F32, 2, (const int64_t[]){n, 2}, values);
        in[1] = run_tensor(ctx, STATOR_I64, 0, NULL, &n);
        return 2;
    }
    in[0] = run_tensor(ctx, STATOR_F32, 1, (const int64_t[]){6}, values);
    in[1] = run_tensor(ctx, STATOR_F32, 1, (const int64_t[]){6}, values + 7);
    return 2;
}

/* Runs a model on eager and as `s` says, for loops of 0 to 6 iterations. */
static void same_as_eager(stator_ctx *ctx, const model *m, const setup *s)
{
    const setup reference = {.backend = "eager"};
    stator_function *want = compile(ctx, m->text, &reference);
    stator_function *got = compile(ctx, m->text, s);
    for (int64_t n = 0; n <= 6; n += 2) {
        stator_tensor *in[3];
        const uint32_t n_in = inputs_of(ctx, m, n, in);
        outputs a = call(ctx, want, n_in, in, m->n_out);
        outputs b = call(ctx, got, n_in, in, m->n_out);
        cr_expect(equal(&a, &b), "%s differs for %lld iterations", m->name, (long long)n);
        release(&a);
        release(&b);
        for (uint32_t i = 0; i < n_in; i++) {
            stator_tensor_release(in[i]);
        }
    }
    stator_function_destroy(want);
    stator_function_destroy(got);
}

Test(divide, host_steps_control_flow_as_eager_does)
{
    stator_ctx *ctx = context();
    static const char *const ops[] = {"add,mul", "add", "tanh,neg,concat", "mul,while",
                                      "call,sin,mul"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
            const setup s = {.backend = "divided",
                             .n_options = 2,
                             .keys = {"ops", "plain"},
                             .values = {ops[k], k % 2 == 0 ? "1" : "0"}};
            same_as_eager(ctx, &models[i], &s);
        }
        for (int64_t every = 1; every <= 3; every++) {
            char text[24];
            (void)snprintf(text, sizeof text, "%lld", (long long)every);
            const setup s = {
                .backend = "divided", .n_options = 1, .keys = {"every"}, .values = {text}};
            same_as_eager(ctx, &models[i], &s);
        }
    }
    stator_ctx_destroy(ctx);
}

/* ---- coverage, strict ---- */

static uint32_t nodes_of(stator_function *f, const char *backend, uint32_t *out_parts)
{
    stator_coverage rows[4];
    const uint32_t n = stator_function_coverage(f, 4, rows);
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(rows[i].backend, backend) == 0) {
            *out_parts = rows[i].partitions;
            return rows[i].nodes;
        }
    }
    *out_parts = 0;
    return 0;
}

static stator_status prepare(stator_ctx *ctx, stator_function *f, const model *m)
{
    stator_tensor *in[3];
    const uint32_t n_in = inputs_of(ctx, m, 2, in);
    const stator_status status = stator_x_prepare(f, n_in, in);
    for (uint32_t i = 0; i < n_in; i++) {
        stator_tensor_release(in[i]);
    }
    return status;
}

Test(divide, coverage_counts_nodes_of_bodies)
{
    stator_ctx *ctx = context();
    const setup s = {.backend = "divided", .n_options = 1, .keys = {"plain"}, .values = {"1"}};
    const setup eager = {.backend = "eager"};
    const setup whole = {.backend = "divided",
                         .n_options = 2,
                         .keys = {"ops", "plain"},
                         .values = {"call,sin,mul,add", "1"}};
    uint32_t parts = 0;
    stator_function *f = compile(ctx, called, &s);
    cr_assert_eq(prepare(ctx, f, &models[2]), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    cr_expect(nodes_of(f, "divided", &parts) == 2 && parts == 2);
    cr_expect(nodes_of(f, "eager", &parts) == 2 && parts == 2, "sin and sub");
    cr_expect(nodes_of(f, "host", &parts) == 2 && parts == 2, "both calls");
    stator_function_destroy(f);
    f = compile(ctx, called, &eager);
    cr_assert_eq(prepare(ctx, f, &models[2]), STATOR_OK);
    cr_expect(nodes_of(f, "eager", &parts) == 6 && parts == 1);
    stator_function_destroy(f);
    f = compile(ctx, called, &whole);
    cr_assert_eq(prepare(ctx, f, &models[2]), STATOR_OK);
    cr_expect(nodes_of(f, "divided", &parts) == 5 && parts == 1, "both calls with their bodies");
    cr_expect(nodes_of(f, "eager", &parts) == 1 && parts == 1);
    cr_expect_eq(nodes_of(f, "host", &parts), 0);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

Test(divide, strict_allows_control_flow_on_the_host)
{
    stator_ctx *ctx = context();
    const setup all = {.backend = "divided",
                       .n_options = 2,
                       .keys = {"ops", "plain"},
                       .values = {"add,mul,sin,sub", "1"},
                       .flags = STATOR_COMPILE_STRICT};
    const setup some = {.backend = "divided",
                        .n_options = 1,
                        .keys = {"plain"},
                        .values = {"1"},
                        .flags = STATOR_COMPILE_STRICT};
    same_as_eager(ctx, &models[2], &all);
    stator_function *f = compile(ctx, called, &some);
    cr_expect_eq(prepare(ctx, f, &models[2]), STATOR_UNSUPPORTED);
    const char *text = stator_ctx_error_text(ctx);
    cr_expect(strstr(text, "2 of 6 nodes") && strstr(text, "sin") && strstr(text, "sub"), "%s",
              text);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

/* ---- allocations ---- */

Test(divide, warm_host_loop_allocates_nothing)
{
    stator_ctx *ctx = context();
    const setup s = {.backend = "divided"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        stator_function *f = compile(ctx, models[i].text, &s);
        stator_tensor *in[3];
        const uint32_t n_in = inputs_of(ctx, &models[i], 6, in);
        outputs out = call(ctx, f, n_in, in, models[i].n_out);
        for (int round = 0; round < 2; round++) {
            const uint64_t before = stator_x_alloc_requests(ctx);
            cr_assert_eq(stator_call_tensors(f, n_in, in, out.n, out.t), STATOR_OK);
            const uint64_t requests = stator_x_alloc_requests(ctx) - before;
            cr_expect(round == 0 || requests == 0, "%s: %llu requests", models[i].name,
                      (unsigned long long)requests);
        }
        release(&out);
        for (uint32_t k = 0; k < n_in; k++) {
            stator_tensor_release(in[k]);
        }
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

/* ---- fuel ---- */

static void count_claims(void *self, const stator_x_fuel_row *row)
{
    uint32_t *counts = self; /* outside, inside */
    if (row->kind == STATOR_FUEL_CLAIM) {
        counts[strchr(row->scope_name, '/') != NULL]++;
    }
}

Test(divide, fuel_limits_claims_inside_bodies)
{
    stator_ctx *ctx = context();
    uint32_t counts[2] = {0, 0};
    const setup s = {.backend = "divided"};
    stator_function *f = compile(ctx, nested, &s);
    stator_x_fuel_watch(f, count_claims, counts);
    stator_x_fuel_record(f);
    cr_assert_eq(prepare(ctx, f, &models[0]), STATOR_OK);
    cr_expect_eq(counts[0], 0, "nothing is claimed outside of the scan");
    cr_expect_eq(counts[1], 4, "mul and add of the step, mul of the branch, add of the loop");
    const uint32_t n = stator_x_fuel_count(f);
    stator_function_destroy(f);
    for (uint32_t limit = 1; limit <= n; limit++) {
        const setup limited = {.backend = "divided", .fuel = limit};
        same_as_eager(ctx, &models[0], &limited);
    }
    const setup none = {.backend = "divided", .flags = STATOR_COMPILE_NO_FUEL};
    same_as_eager(ctx, &models[0], &none);
    stator_ctx_destroy(ctx);
}

/* ---- nodes that compile declines ---- */

static stator_function *declining(stator_ctx *ctx, const char *ops, const char *declines,
                                  uint32_t flags, stator_status *out_status)
{
    const setup s = {.backend = "divided",
                     .n_options = 3,
                     .keys = {"ops", "declines", "plain"},
                     .values = {ops, declines, "1"},
                     .flags = flags};
    stator_function *f = compile(ctx, called, &s);
    *out_status = prepare(ctx, f, &models[2]);
    return f;
}

/* A composite that eager has no kernel for, by itself and in a region. */
static const char losses[] = "stir 1\n"
                             "graph @m(%x: f32[3], %p: bool[]) {\n"
                             "  %1 = sin(%x)\n"
                             "  %2 = mse_loss(%1, %x) {reduction = \"none\"}\n"
                             "  %3 = cond(%p, %2, %x)\n"
                             "    region @yes(%x: f32[3], %y: f32[3]) {\n"
                             "      %1 = huber_loss(%x, %y) {reduction = \"none\"}\n"
                             "      return %1\n"
                             "    }\n"
                             "    region @no(%x: f32[3], %y: f32[3]) {\n"
                             "      return %y\n"
                             "    }\n"
                             "  return %3\n"
                             "}\n";

static outputs run_losses(stator_ctx *ctx, const setup *s)
{
    static const float x[3] = {0.5f, -2, 3};
    static const uint8_t yes = 1;
    const int64_t size = 3;
    stator_tensor *in[2] = {NULL, NULL};
    cr_assert_eq(stator_tensor_create(ctx, STATOR_F32, 1, &size, &in[0]), STATOR_OK);
    cr_assert_eq(stator_tensor_create(ctx, STATOR_BOOL, 0, &size, &in[1]), STATOR_OK);
    memcpy(stator_tensor_data(in[0]), x, sizeof x);
    memcpy(stator_tensor_data(in[1]), &yes, sizeof yes);
    stator_function *f = compile(ctx, losses, s);
    const outputs out = call(ctx, f, 2, in, 1);
    stator_function_destroy(f);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    return out;
}

Test(divide, fallbacks_get_composites_decomposed)
{
    static const struct {
        const char *ops, *declines;
        uint32_t flags;
    } rows[] = {
        {"sin,mse_loss", "mse_loss", 0},
        {"sin,mse_loss,cond,huber_loss", "all", 0},
        {"sin,mse_loss,cond,huber_loss", "any", 0},
        {"sin,mse_loss", "", STATOR_COMPILE_NO_FUEL},
    };
    stator_ctx *ctx = context();
    outputs want = run_losses(ctx, &(setup){.backend = "eager"});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const setup s = {.backend = "divided",
                         .n_options = 3,
                         .keys = {"ops", "declines", "plain"},
                         .values = {rows[i].ops, rows[i].declines, "1"},
                         .flags = rows[i].flags};
        outputs out = run_losses(ctx, &s);
        cr_expect(equal(&out, &want), "row %zu", i);
        release(&out);
    }
    release(&want);
    stator_ctx_destroy(ctx);
}

Test(divide, declined_nodes_go_to_eager)
{
    static const struct {
        const char *ops, *declines;
        uint32_t mine, eager, host;
    } rows[] = {
        {"add,mul,sin,sub", "sin", 3, 1, 2},   /* named: divided again without it */
        {"add,mul,sin,sub", "mul", 3, 2, 1},   /* nothing is left of the inner call's body */
        {"call,add,mul,sin", "call", 0, 5, 1}, /* then its body, whose call is declined too */
        {"add,mul,sin,sub", "all", 0, 4, 2},   /* nothing named: partition by partition */
        {"add,mul,sin,sub", "any", 0, 5, 1},   /* never content: the second time is the last */
    };
    stator_ctx *ctx = context();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stator_status status;
        uint32_t parts = 0;
        stator_function *f = declining(ctx, rows[i].ops, rows[i].declines, 0, &status);
        cr_assert_eq(status, STATOR_OK, "%s", stator_ctx_error_text(ctx));
        cr_expect_eq(nodes_of(f, "divided", &parts), rows[i].mine, "row %zu", i);
        cr_expect_eq(nodes_of(f, "eager", &parts), rows[i].eager, "row %zu", i);
        cr_expect_eq(nodes_of(f, "host", &parts), rows[i].host, "row %zu", i);
        stator_function_destroy(f);
        const setup s = {.backend = "divided",
                         .n_options = 3,
                         .keys = {"ops", "declines", "plain"},
                         .values = {rows[i].ops, rows[i].declines, "1"}};
        same_as_eager(ctx, &models[2], &s);
    }
    stator_ctx_destroy(ctx);
}

Test(divide, declined_nodes_are_an_error_when_strict)
{
    stator_ctx *ctx = context();
    stator_status status;
    stator_function *f = declining(ctx, "add,mul,sin,sub", "sin", STATOR_COMPILE_STRICT, &status);
    cr_expect_eq(status, STATOR_UNSUPPORTED);
    cr_expect(strstr(stator_ctx_error_text(ctx), "sin") &&
                  strstr(stator_ctx_error_text(ctx), "declined while compiling"),
              "%s", stator_ctx_error_text(ctx));
    stator_function_destroy(f);
    f = declining(ctx, "add,mul,sin,sub", "all", STATOR_COMPILE_STRICT, &status);
    cr_expect_eq(status, STATOR_UNSUPPORTED);
    cr_expect(strstr(stator_ctx_error_text(ctx), "asked to decline"), "%s",
              stator_ctx_error_text(ctx));
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

/* ---- options of a backend behind another ---- */

Test(divide, namespaced_options_reach_nested_backends)
{
    stator_ctx *ctx = context();
    static const char *const named[] = {"0", "1"};
    for (uint32_t i = 0; i < 2; i++) {
        const setup s = {.backend = "opener",
                         .n_options = 2,
                         .keys = {"divided.ops", "named"},
                         .values = {"sin", named[i]}};
        uint32_t parts = 0;
        stator_function *f = compile(ctx, called, &s);
        cr_assert_eq(prepare(ctx, f, &models[2]), STATOR_OK, "%s", stator_ctx_error_text(ctx));
        cr_expect_eq(nodes_of(f, "opener", &parts), 1, "sin alone");
        cr_expect_eq(nodes_of(f, "eager", &parts), 3);
        stator_function_destroy(f);
        same_as_eager(ctx, &models[2], &s);
    }
    stator_ctx_destroy(ctx);
}

Test(divide, wrong_options_of_nested_backends_are_refused)
{
    static const char *const wrong[][2] = {{"divided.opps", "sin"}, {"divided.every", "often"}};
    stator_ctx *ctx = context();
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1, .frontend = "text"};
    stator_model *loaded = NULL;
    cr_assert_eq(stator_model_load_bytes(ctx, called, strlen(called), "divide", &load, &loaded),
                 STATOR_OK);
    for (size_t i = 0; i < 2; i++) {
        const stator_compile_options options = {.struct_size = sizeof options,
                                                .backend = "opener",
                                                .option_count = 1,
                                                .option_keys = &wrong[i][0],
                                                .option_values = &wrong[i][1]};
        stator_function *f = NULL;
        cr_expect_eq(stator_compile(loaded, &options, &f), STATOR_INVALID_ARGUMENT);
        cr_expect(strstr(stator_ctx_error_text(ctx), i == 0 ? "did you mean 'ops'" : "often"), "%s",
                  stator_ctx_error_text(ctx));
    }
    stator_model_destroy(loaded);
    stator_ctx_destroy(ctx);
}

/* ---- memory ---- */

Test(divide, every_allocation_may_fail)
{
    uint32_t failed = 0;
    for (uint64_t n = 1;; n += 1 + n / 16) {
        stator_ctx *ctx = context();
        const setup s = {.backend = "divided"};
        stator_tensor *in[3];
        outputs out = {.n = 4};
        stator_function *f = compile(ctx, nested, &s);
        const uint32_t n_in = inputs_of(ctx, &models[0], 4, in);
        stator_x_fail_alloc_at(ctx, n);
        const stator_status status = stator_call_tensors(f, n_in, in, 4, out.t);
        stator_x_fail_alloc_at(ctx, 0);
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED, "request %llu: %s",
                  (unsigned long long)n, stator_ctx_error_text(ctx));
        release(&out);
        for (uint32_t i = 0; i < n_in; i++) {
            stator_tensor_release(in[i]);
        }
        stator_function_destroy(f);
        stator_ctx_destroy(ctx);
        if (status == STATOR_OK) {
            break;
        }
        failed++;
    }
    cr_expect_gt(failed, 50);
}
