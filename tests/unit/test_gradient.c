/* Gradients against central differences, in f64 through `eager`.
 *
 * Each program computes y from inputs; the test appends st_gradient of sum(seed * y), prints the
 * graph, runs it, and moves every element of every input by +-h and +-2h. Error of the differences
 * after Richardson's extrapolation: h^4 times a fifth derivative, and 1e-15/h of rounding. */
#include "core/base/diag.h"
#include "ir/optable.h"
#include "tests/unit/support_gradient.h"
#include "tests/unit/support_run.h"
#include "tests/unit/support_text.h"
#include <stator/plugin.h>

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEP 3e-4
#define TOLERANCE 1e-8
#define TOLERANCE_SECOND 1e-7
#define IN_MAX GRADIENT_INPUTS_MAX

/* ---- running it ---- */

typedef struct problem {
    stator_ctx *ctx;
    stator_function *f;
    stator_tensor *in[IN_MAX + 1u]; /* the inputs, then the seed */
    uint32_t n;
} problem;

static double loss(problem *p, stator_tensor **out)
{
    double sum = 0;
    cr_assert_eq(stator_call_tensors(p->f, p->n + 1u, p->in, p->n + 1u, out), STATOR_OK, "%s",
                 stator_ctx_error_text(p->ctx));
    for (uint64_t k = 0; k < gradient_element_count(out[0]); k++) {
        sum += gradient_data(out[0])[k] * gradient_data(p->in[p->n])[k];
    }
    return sum;
}

static void release(stator_tensor **t, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        stator_tensor_release(t[k]);
        t[k] = NULL;
    }
}

/* The central difference of the loss at *x +- step, an element of an input. */
static double difference(problem *p, double *x, double step)
{
    stator_tensor *out[IN_MAX + 1u] = {NULL};
    const double kept = *x;
    *x = kept + step;
    const double above = loss(p, out);
    release(out, p->n + 1u);
    *x = kept - step;
    const double below = loss(p, out);
    release(out, p->n + 1u);
    *x = kept;
    return (above - below) / (2 * step);
}

/* Richardson's extrapolation: the error of h^2 falls out. */
static double slope(problem *p, double *x)
{
    return (4 * difference(p, x, STEP) - difference(p, x, 2 * STEP)) / 3;
}

/* How many elements of input i's gradient differ. */
static uint32_t compare_input(problem *p, uint32_t i, stator_tensor *grad, double tolerance,
                              const char *name)
{
    uint32_t wrong = 0;
    cr_assert_eq(gradient_element_count(grad), gradient_element_count(p->in[i]));
    for (uint64_t k = 0; k < gradient_element_count(grad); k++) {
        const double want = slope(p, &gradient_data(p->in[i])[k]), got = gradient_data(grad)[k];
        if (!(fabs(got - want) <= tolerance * (1 + fabs(want)))) {
            wrong++;
            fprintf(stderr, "%s: input %u element %llu: gradient %.9g, differences %.9g\n", name, i,
                    (unsigned long long)k, got, want);
        }
    }
    return wrong;
}

/* text: a graph @name with f64 inputs of static sizes and one output. */
static uint32_t count_wrong(const char *text, double tolerance)
{
    text_world w;
    stator_diag *err = NULL;
    text_world_init(&w);
    char *printed = gradient_text(&w, text, &err);
    cr_assert_not_null(printed, "%s: %s", text, st_diag_text(err));
    problem p = {.ctx = run_context()};
    const stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .frontend = "text"};
    stator_model *model = NULL;
    cr_assert_eq(
        stator_model_load_bytes(p.ctx, printed, strlen(printed), "gradient", &options, &model),
        STATOR_OK, "%s", stator_ctx_error_text(p.ctx));
    p.n = stator_model_input_count(model) - 1u;
    for (uint32_t i = 0; i <= p.n; i++) {
        stator_port_info info = {.struct_size = sizeof info};
        cr_assert_eq(stator_model_input_info(model, i, &info), STATOR_OK);
        p.in[i] = gradient_values(p.ctx, info.rank, info.dims, i);
    }
    p.f = run_compile(p.ctx, "eager", printed, "gradient");
    stator_tensor *out[IN_MAX + 1u] = {NULL};
    uint32_t wrong = 0;
    (void)loss(&p, out);
    for (uint32_t i = 0; i < p.n; i++) {
        wrong += compare_input(&p, i, out[1u + i], tolerance, text);
    }
    release(out, p.n + 1u);
    release(p.in, p.n + 1u);
    stator_function_destroy(p.f);
    stator_model_destroy(model);
    stator_ctx_destroy(p.ctx);
    st_free(&w.mem, printed);
    text_world_deinit(&w);
    return wrong;
}

static void check(const char *text)
{
    const uint32_t wrong = count_wrong(text, TOLERANCE);
    cr_expect_eq(wrong, 0u, "%u elements differ in %s", wrong, text);
}

/* y = line, after "%x ... =" of the given inputs. */
static void check_op(const char *inputs, const char *lines)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "stir 1\ngraph @g(%s) {\n  %s\n  return %%y\n}\n", inputs,
                   lines);
    check(text);
}

static void check_group(const char *group)
{
    uint32_t n = 0;
    for (size_t k = 0; k < gradient_case_count; k++) {
        if (strcmp(gradient_cases[k].group, group) == 0) {
            check_op(gradient_cases[k].inputs, gradient_cases[k].lines);
            n++;
        }
    }
    cr_expect_gt(n, 0u, "%s", group);
}

#define GROUP(name_)                                                                               \
    Test(gradient, name_)                                                                          \
    {                                                                                              \
        check_group(#name_);                                                                       \
    }
GROUP(pointwise_of_one)
GROUP(pointwise_of_two_and_three)
GROUP(movement_and_sums)
GROUP(contractions)
GROUP(convolutions)
GROUP(activations_and_softmax)
GROUP(norms)
GROUP(attention)
GROUP(resize)
GROUP(values_that_do_not_matter_give_zeros)
GROUP(running_sums_and_products)
GROUP(reductions)
GROUP(order)
GROUP(windows)
GROUP(scatters)
GROUP(losses)
GROUP(sampling)
GROUP(transforms)
GROUP(recurrent)
GROUP(control_flow)
GROUP(scan)

/* Does a case have the line "... = op(...)"? */
static int has_case(const char *op)
{
    char call[64];
    (void)snprintf(call, sizeof call, "= %s(", op);
    for (size_t k = 0; k < gradient_case_count; k++) {
        if (strstr(gradient_cases[k].lines, call) != NULL) {
            return 1;
        }
    }
    return 0;
}

/* Composites whose results no float operand decides. */
static bool is_constant(const char *op)
{
    static const char *const names[] = {"rng_uniform", "rng_normal"};
    bool found = false;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        found |= strcmp(names[k], op) == 0;
    }
    return found;
}

/* The rest of the table says why it has none (tools/gen_ops_header.c refuses a row that does
 * not). */
Test(gradient, every_row_with_a_gradient_has_a_case)
{
    uint32_t n = 0, with_gradient = 0;
    const st_op_def *defs = st_op_defs(&n);
    for (uint32_t k = 0; k < n; k++) {
        const bool is_composite = (defs[k].flags & STATOR_OP_COMPOSITE) != 0;
        const bool has_rule = defs[k].grad != NULL || defs[k].differentiate != NULL;
        const bool has_gradient = has_rule || (is_composite && !is_constant(defs[k].name));
        with_gradient += has_gradient;
        cr_expect(!has_gradient || defs[k].no_grad == NULL, "%s has a gradient and says why not",
                  defs[k].name);
        cr_expect(has_gradient || is_composite || defs[k].no_grad != NULL,
                  "%s does not say what its gradient is", defs[k].name);
        cr_expect(!has_gradient || has_case(defs[k].name), "%s has a gradient and no case",
                  defs[k].name);
    }
    cr_expect_gt(with_gradient, 110u);
}

/* Each program's gradients once more. */
Test(gradient, of_gradients)
{
    uint32_t n = 0;
    for (size_t k = 0; k < gradient_case_count; k++) {
        char text[2048];
        text_world w;
        stator_diag *err = NULL;
        text_world_init(&w);
        (void)snprintf(text, sizeof text, "stir 1\ngraph @g(%s) {\n  %s\n  return %%y\n}\n",
                       gradient_cases[k].inputs, gradient_cases[k].lines);
        char *second = gradient_text_of_order(&w, text, 2, &err);
        cr_expect_not_null(second, "%s: %s", text, st_diag_text(err));
        const uint32_t wrong = second != NULL ? count_wrong(second, TOLERANCE_SECOND) : 0;
        cr_expect_eq(wrong, 0u, "%u elements of the second order differ in %s", wrong, text);
        st_free(&w.mem, second);
        st_diag_release(err);
        text_world_deinit(&w);
        n++;
    }
    cr_expect_gt(n, 150u);
}

/* A product in which one element, or two, are 0: %x minus its own first elements. */
Test(gradient, products_with_zeros)
{
    stator_ctx *ctx = run_context();
    const int64_t shape[] = {4};
    stator_tensor *x = gradient_values(ctx, 1, shape, 0);
    for (int zeros = 0; zeros <= 3; zeros++) {
        char lines[256];
        double at[4] = {0, 0, 0, 0};
        for (int k = 0; k < zeros; k++) {
            at[k] = gradient_data(x)[k];
        }
        (void)snprintf(lines, sizeof lines,
                       "%%c = constant {value = f64[4] {%.17g, %.17g, %.17g, %.17g}} "
                       "%%a = sub(%%x, %%c) %%y = reduce_prod(%%a) {axes = [0]}",
                       at[0], at[1], at[2], at[3]);
        check_op("%x: f64[4]", lines);
    }
    stator_tensor_release(x);
    stator_ctx_destroy(ctx);
}

/* ---- kinks ---- */

#define JOINED                                                                                     \
    "%p = reshape(%a) {shape = [1]} %q = reshape(%b) {shape = [1]} "                               \
    "%r = reshape(%c) {shape = [1]} %v = concat(%p, %q, %r) {axis = 0} "
#define VECTOR "%v = reshape(%a) {shape = [1]} "
#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const struct gradient_kink {
    const char *lines;
    uint32_t n;
    double in[3], want[3];
} kinks[] = {
#define KINK(lines_, n_, in_, want_) {lines_, n_, LIST in_, LIST want_},
#include "gradient_kinks.def"
#undef KINK
};

static bool is_same(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-15;
}

/* How many gradients are not PyTorch's. */
static uint32_t check_kink(stator_ctx *ctx, const struct gradient_kink *kink)
{
    static const char *const inputs[] = {"%a: f64[]", "%a: f64[], %b: f64[]",
                                         "%a: f64[], %b: f64[], %c: f64[]"};
    char text[1024];
    text_world w;
    stator_diag *err = NULL;
    stator_tensor *in[4] = {NULL}, *out[4] = {NULL};
    const double one = 1;
    uint32_t wrong = 0;
    text_world_init(&w);
    (void)snprintf(text, sizeof text, "stir 1\ngraph @g(%s) {\n  %s\n  return %%y\n}\n",
                   inputs[kink->n - 1u], kink->lines);
    char *printed = gradient_text(&w, text, &err);
    cr_assert_not_null(printed, "%s: %s", text, st_diag_text(err));
    for (uint32_t i = 0; i < kink->n; i++) {
        in[i] = run_tensor(ctx, STATOR_F64, 0, NULL, &kink->in[i]);
    }
    stator_function *f = run_compile(ctx, "eager", printed, "kink");
    in[kink->n] = run_tensor(ctx, STATOR_F64, 0, NULL, &one);
    cr_assert_eq(stator_call_tensors(f, kink->n + 1u, in, kink->n + 1u, out), STATOR_OK, "%s: %s",
                 text, stator_ctx_error_text(ctx));
    for (uint32_t i = 0; i < kink->n; i++) {
        const double got = *gradient_data(out[1u + i]);
        if (!is_same(got, kink->want[i])) {
            wrong++;
            fprintf(stderr, "%s: at (%g, %g, %g) input %u has the gradient %.17g, PyTorch %.17g\n",
                    kink->lines, kink->in[0], kink->in[1], kink->in[2], i, got, kink->want[i]);
        }
    }
    release(in, kink->n + 1u);
    release(out, kink->n + 1u);
    stator_function_destroy(f);
    st_free(&w.mem, printed);
    text_world_deinit(&w);
    return wrong;
}

Test(gradient, kinks_are_pytorchs)
{
    stator_ctx *ctx = run_context();
    const size_t n = sizeof kinks / sizeof *kinks;
    uint32_t wrong = 0;
    for (size_t k = 0; k < n; k++) {
        wrong += check_kink(ctx, &kinks[k]);
    }
    cr_expect_eq(wrong, 0u, "%u of the gradients at %zu kinks", wrong, n);
    cr_expect_geq(n, (size_t)40);
    stator_ctx_destroy(ctx);
}

Test(gradient, symbolic_sizes_and_narrow_floats)
{
    static const char *const programs[] = {
        "%x: f32[N, 4], %w: f32[4, M]) { %y = matmul(%x, %w)",
        "%x: bf16[N, 4], %w: bf16[4], %b: bf16[4]) { %y, %m, %r = layer_norm(%x, %w, %b)",
        "%q: f16[N, 4, T, 8], %k: f16[N, 2, S, 8], %v: f16[N, 2, S, 8]) { %y = sdpa(%q, %k, %v)",
        "%x: f16[N, M]) { %y = gelu(%x) {approximate = \"tanh\"}",
        "%x: f32[N, 3, T, S], %w: f32[8, 3, 3, 3]) { %y = conv(%x, %w) {strides = [1, 1], pads = "
        "[1, "
        "1, 1, 1], dilations = [1, 1]}",
        "%x: f32[N, 3, T, S]) { %y = resize(%x) {sizes = [N, 3, 2*T, 2*S], mode = \"linear\"}"};
    for (uint32_t k = 0; k < sizeof programs / sizeof *programs; k++) {
        text_world w;
        char text[512];
        stator_diag *err = NULL;
        text_world_init(&w);
        (void)snprintf(text, sizeof text, "stir 1\ngraph @g(%s return %%y }\n", programs[k]);
        char *printed = gradient_text(&w, text, &err);
        cr_expect_not_null(printed, "%s: %s", text, st_diag_text(err));
        st_diag_release(err);
        st_free(&w.mem, printed);
        text_world_deinit(&w);
    }
}

Test(gradient, an_op_without_a_rule_is_named)
{
    text_world w;
    stator_diag *err = NULL;
    text_world_init(&w);
    cr_expect_null(gradient_text(
        &w, "stir 1\ngraph @g(%x: f64[3, 3]) { %y = bitcast(%x) {dtype = f64} return %y }\n",
        &err));
    cr_expect(strstr(st_diag_text(err), "bitcast has no gradient: bits have no slope"), "%s",
              st_diag_text(err));
    st_diag_release(err);
    text_world_deinit(&w);
}

/* ---- ops of libraries ---- */

static stator_status library_infer(void *self, stator_builder *b, const stator_node_desc *node,
                                   stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    (void)self, (void)n_types, (void)err;
    out_types[0] = stator_value_at(st_graph_view(b->graph), node->operands[0])->type;
    return STATOR_OK;
}

/* Of scale * x * y: for x alone, so that y's gradient is zeros; fails when scale is 0. */
static stator_status library_gradient(void *self, stator_builder *b, const stator_node_desc *node,
                                      const stator_ref *out_grads, stator_ref *in_grads,
                                      stator_diag **err)
{
    const char *const names[] = {"g", "y"};
    const stator_ref values[] = {out_grads[0], node->operands[1]};
    (void)self;
    return node->attrs[0].f == 0 ? STATOR_UNSUPPORTED
                                 : st_build_expr(b, "g * y * scale", 2, names, values,
                                                 node->attr_count, node->attrs, 1, in_grads, err);
}

Test(gradient, a_library_has_its_own_rule)
{
    static const stator_attr_desc attrs[] = {
        {.name = "scale", .kind = STATOR_ATTR_FLOAT, .f = 0.0}};
    const stator_oplib_op op = {.desc = {.struct_size = sizeof(stator_op_desc),
                                         .name = "test_scaled",
                                         .operands = "x, y",
                                         .results = "z",
                                         .doc = "scale * x * y",
                                         .attrs = attrs,
                                         .attr_count = 1},
                                .infer = library_infer,
                                .gradient = library_gradient};
    text_world w;
    stator_diag *err = NULL;
    text_world_init(&w);
    cr_assert_eq(st_optable_add(&w.ops, "test", &op, NULL, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    char *printed = gradient_text(&w,
                                  "stir 1\ngraph @g(%x: f64[3], %y: f64[3]) {"
                                  " %z = test_scaled(%x, %y) {scale = 2.0} return %z }\n",
                                  &err);
    cr_assert_not_null(printed, "%s", st_diag_text(err));
    cr_expect_not_null(strstr(printed, "mul(%seed, %y)"), "%s", printed);
    cr_expect_not_null(strstr(printed, "f64[] {2}"), "%s", printed);
    st_free(&w.mem, printed);
    cr_expect_null(gradient_text(&w,
                                 "stir 1\ngraph @g(%x: f64[3], %y: f64[3]) {"
                                 " %z = test_scaled(%x, %y) return %z }\n",
                                 &err));
    cr_expect_not_null(strstr(st_diag_text(err), "test_scaled: the op library's gradient function"),
                       "%s", st_diag_text(err));
    st_diag_release(err);
    text_world_deinit(&w);
}
