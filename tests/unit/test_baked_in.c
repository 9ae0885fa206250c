/* Numbers of a model that stand for sizes of its inputs, called with other sizes: reshapes,
 * constants that go on, what is not read and refused. Each model is run with its own sizes first.
 */
#include "support_onnx.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <stdio.h>
#include <string.h>

typedef struct world {
    stator_ctx *ctx;
    stator_function *fn;
} world;

static world open_bytes(const void *bytes, uint64_t size, const char *name)
{
    world w = {.ctx = run_context()};
    stator_model *model = NULL;
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    const stator_compile_options how = {.struct_size = sizeof how, .backend = "aot_eager"};
    cr_assert_eq(stator_model_load_bytes(w.ctx, bytes, size, name, &options, &model), STATOR_OK,
                 "%s", stator_ctx_error_text(w.ctx));
    cr_assert_eq(stator_compile(model, &how, &w.fn), STATOR_OK, "%s", stator_ctx_error_text(w.ctx));
    stator_model_destroy(model);
    return w;
}

static world open_text(const char *text)
{
    return open_bytes(text, strlen(text), "baked_in.stir");
}

static void end(world *w)
{
    stator_function_destroy(w->fn);
    stator_ctx_destroy(w->ctx);
}

/* What element i of output 0 is to be, of inputs whose element i is i + 1. */
typedef float (*wanted)(const int64_t *in, int64_t i);

static void call(const world *w, uint32_t rank, const int64_t *in, uint32_t out_rank,
                 const int64_t *out, wanted want)
{
    stator_tensor *x = run_counting(w->ctx, rank, in), *y = NULL;
    cr_assert_eq(stator_call_tensors(w->fn, 1, &x, 1, &y), STATOR_OK, "%s",
                 stator_ctx_error_text(w->ctx));
    const DLTensor *view = stator_tensor_view(y);
    cr_assert_eq((uint32_t)view->ndim, out_rank);
    for (uint32_t i = 0; i < out_rank; i++) {
        cr_assert_eq(view->shape[i], out[i], "axis %u is %d", i, (int)view->shape[i]);
    }
    for (uint64_t i = 0; i < stator_tensor_size_bytes(y) / sizeof(float); i++) {
        const float have = ((const float *)stator_tensor_data(y))[i];
        cr_assert_float_eq(have, want(in, (int64_t)i), 1e-5, "element %d: %g", (int)i,
                           (double)have);
    }
    stator_tensor_release(x);
    stator_tensor_release(y);
}

static void refuse(const world *w, uint32_t rank, const int64_t *in, const char *words)
{
    stator_tensor *x = run_counting(w->ctx, rank, in), *y = NULL;
    cr_assert_neq(stator_call_tensors(w->fn, 1, &x, 1, &y), STATOR_OK);
    cr_expect(strstr(stator_ctx_error_text(w->ctx), words) != NULL, "%s",
              stator_ctx_error_text(w->ctx));
    stator_tensor_release(x);
}

#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define COUNT(w) stator_function_compiles((w)->fn)

static float same(const int64_t *in, int64_t i)
{
    (void)in;
    return (float)(i + 1);
}

/* ---- reshapes ---- */

/* Heads apart, next to the batch, and together again: an attention's reshapes. What is
 * in between turns nothing, so that elements keep their order. */
static const char HEADS[] = "stir 1\n"
                            "graph @main(%x: f32[2, 8, 12]) {\n"
                            "  %heads = reshape(%x) {shape = [2, 8, 4, 3]}\n"
                            "  %flat = reshape(%heads) {shape = [16, 12]}\n"
                            "  %wide = reshape(%flat) {shape = [1, 2, 96]}\n"
                            "  %back = reshape(%wide) {shape = [2, 8, 12]}\n"
                            "  return %back\n"
                            "}\n";

Test(baked_in, reshape_follows_the_symbol)
{
    world w = open_text(HEADS);
    call(&w, 3, DIMS(2, 8, 12), 3, DIMS(2, 8, 12), same);
    call(&w, 3, DIMS(2, 5, 12), 3, DIMS(2, 5, 12), same);
    cr_expect_eq(COUNT(&w), 2);
    call(&w, 3, DIMS(2, 31, 12), 3, DIMS(2, 31, 12), same);
    cr_expect_eq(COUNT(&w), 2); /* a third size compiles nothing */
    call(&w, 3, DIMS(3, 31, 12), 3, DIMS(3, 31, 12), same);
    call(&w, 3, DIMS(7, 4, 12), 3, DIMS(7, 4, 12), same);
    cr_expect_eq(COUNT(&w), 3);
    call(&w, 3, DIMS(2, 1, 12), 3, DIMS(2, 1, 12), same);
    end(&w);
}

/* [N, 32] as [8, 8] with N = 2: by the order of elements the first 8 is 4 * N. */
static float times_sum(const int64_t *in, int64_t i)
{
    const int64_t n = in[0] * in[1];
    return (float)((i + 1) * (n * (n + 1) / 2));
}

/* A list of sizes may be empty, and so may a node's operands. */
Test(baked_in, reshape_to_a_scalar_is_loaded)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[2, 3]) {\n"
                        "  %s = reduce_sum(%x) {axes = [0, 1], keepdims = 1}\n"
                        "  %r = reshape(%s) {shape = []}\n"
                        "  %f = reshape(%x) {shape = [6]}\n"
                        "  %i = iota() {shape = [1]}\n"
                        "  %o = cast(%i) {dtype = f32}\n"
                        "  %z = add(%f, %o)\n"
                        "  %y = mul(%z, %r)\n"
                        "  return y: %y\n"
                        "}\n");
    call(&w, 2, DIMS(2, 3), 1, DIMS(6), times_sum);
    call(&w, 2, DIMS(4, 3), 1, DIMS(12), times_sum);
    end(&w);
}

Test(baked_in, reshape_that_merges_axes_scales_the_merged_size)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[2, 32]) {\n"
                        "  %y = reshape(%x) {shape = [8, 8]}\n"
                        "  return %y\n"
                        "}\n");
    call(&w, 2, DIMS(2, 32), 2, DIMS(8, 8), same);
    call(&w, 2, DIMS(5, 32), 2, DIMS(20, 8), same);
    end(&w);
}

/* Sequence first, as MultiheadAttention of PyTorch has it: [S, N, 12] as [S, N * 4, 3], whose
 * middle size is taken apart again. */
Test(baked_in, reshape_splits_a_merged_size_as_it_was_merged)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[4, 2, 12]) {\n"
                        "  %merged = reshape(%x) {shape = [4, 8, 3]}\n"
                        "  %t = transpose(%merged) {perm = [1, 0, 2]}\n"
                        "  %u = transpose(%t) {perm = [1, 0, 2]}\n"
                        "  %y = reshape(%u) {shape = [8, 12]}\n"
                        "  return %y\n"
                        "}\n");
    call(&w, 3, DIMS(4, 2, 12), 2, DIMS(8, 12), same);
    call(&w, 3, DIMS(4, 7, 12), 2, DIMS(28, 12), same);
    call(&w, 3, DIMS(9, 3, 12), 2, DIMS(27, 12), same);
    end(&w);
}

/* ONNX: -1 stands beside a size that was written out. Without the reading [1, 8, -1, 3] of five
 * rows would be five times as many heads. */
static void add_reshape(onnx_bytes *g, const char *name, const char *inputs, const char *out,
                        int count, const int64_t *to)
{
    const int64_t dims[1] = {count};
    onnx_init(g, name, ONNX_INT64, 1, dims, to, (size_t)count * sizeof *to);
    onnx_node(g, "Reshape", inputs, out, NULL);
}

Test(baked_in, reshape_with_minus_one_and_a_baked_in_size_follows)
{
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 3, DIMS(1, 8, 12));
    onnx_output(&g, "y", ONNX_FLOAT);
    add_reshape(&g, "to", "x,to", "y", 4, DIMS(1, 8, -1, 3));
    onnx_bytes m = onnx_model(&g, 14, NULL);
    world w = open_bytes(m.data, m.size, "baked_in.onnx");
    call(&w, 3, DIMS(1, 8, 12), 4, DIMS(1, 8, 4, 3), same);
    call(&w, 3, DIMS(1, 16, 12), 4, DIMS(1, 16, 4, 3), same);
    call(&w, 3, DIMS(1, 1, 12), 4, DIMS(1, 1, 4, 3), same);
    end(&w);
    onnx_free(&m);
}

/* ---- constants that go on ---- */

static float plus_position(const int64_t *in, int64_t i)
{
    const int64_t s = i / in[2] % in[1], c = i % in[2];
    return (float)(i + 1 + 10 * s + c);
}

/* Positions 0 to 3 look up rows of a longer table: row r has 10 * r and 10 * r + 1. */
static const char POSITIONS[] = "stir 1\n"
                                "graph @main(%x: f32[2, 4, 2]) {\n"
                                "  %table = constant {value = f32[7, 2] {0, 1, 10, 11, 20, 21, 30, "
                                "31, 40, 41, 50, 51, 60, 61}}\n"
                                "  %at = constant {value = i64[1, 4] {0, 1, 2, 3}}\n"
                                "  %p = gather(%table, %at)\n"
                                "  %y = add(%x, %p)\n"
                                "  return %y\n"
                                "}\n";

Test(baked_in, constant_of_counted_positions_is_extended)
{
    world w = open_text(POSITIONS);
    call(&w, 3, DIMS(2, 4, 2), 3, DIMS(2, 4, 2), plus_position);
    call(&w, 3, DIMS(2, 7, 2), 3, DIMS(2, 7, 2), plus_position);
    call(&w, 3, DIMS(2, 3, 2), 3, DIMS(2, 3, 2), plus_position);
    cr_expect_eq(COUNT(&w), 2);
    call(&w, 3, DIMS(2, 1, 2), 3, DIMS(2, 1, 2), plus_position);
    refuse(&w, 3, DIMS(2, 8, 2), "outside"); /* past the table */
    end(&w);
}

/* The first rows of a longer table. */
Test(baked_in, slice_of_a_constant_table_follows_the_symbol)
{
    world w = open_text(
        "stir 1\n"
        "graph @main(%x: f32[2, 4, 2]) {\n"
        "  %table = constant {value = f32[1, 7, 2] {0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, "
        "60, "
        "61}}\n"
        "  %p = slice(%table) {starts = [0, 0, 0], sizes = [1, 4, 2], steps = [1, 1, 1]}\n"
        "  %y = add(%x, %p)\n"
        "  return %y\n"
        "}\n");
    call(&w, 3, DIMS(2, 4, 2), 3, DIMS(2, 4, 2), plus_position);
    call(&w, 3, DIMS(3, 6, 2), 3, DIMS(3, 6, 2), plus_position);
    call(&w, 3, DIMS(2, 1, 2), 3, DIMS(2, 1, 2), plus_position);
    refuse(&w, 3, DIMS(2, 9, 2), "slice");
    end(&w);
}

static float lower_triangle(const int64_t *in, int64_t i)
{
    const int64_t row = i / in[1] % in[1], column = i % in[1];
    return column <= row ? (float)(i / (in[1] * in[1]) * in[1] + column + 1) : -50;
}

/* A causal mask, written out for each of the batch. */
Test(baked_in, constant_causal_mask_is_extended)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[2, 3]) {\n"
                        "  %mask = constant {value = bool[2, 3, 3] {true, false, false, true, "
                        "true, false, true, true, "
                        "true, true, false, false, true, true, false, true, true, true}}\n"
                        "  %no = constant {value = f32[] {-50}}\n"
                        "  %rows = reshape(%x) {shape = [2, 1, 3]}\n"
                        "  %all = expand(%rows) {shape = [2, 3, 3]}\n"
                        "  %y = select(%mask, %all, %no)\n"
                        "  return %y\n"
                        "}\n");
    call(&w, 2, DIMS(2, 3), 3, DIMS(2, 3, 3), lower_triangle);
    call(&w, 2, DIMS(5, 3), 3, DIMS(5, 3, 3), lower_triangle);
    end(&w);
}

static float row_and_column(const int64_t *in, int64_t i)
{
    return (float)(i + 1 + 100 * (i / in[1]) + i % in[1]);
}

/* Pairs (row, column), as exporters index a mask: each number of the pair counts along its own
 * axis. */
Test(baked_in, constant_index_pairs_are_extended)
{
    world w =
        open_text("stir 1\n"
                  "graph @main(%x: f32[2, 3]) {\n"
                  "  %at = constant {value = i64[2, 3, 2] {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}}\n"
                  "  %y = gather_nd(%x, %at)\n"
                  "  %row = constant {value = i64[2, 1] {0, 1}}\n"
                  "  %hundred = constant {value = i64[] {100}}\n"
                  "  %rows = mul(%row, %hundred)\n"
                  "  %column = constant {value = i64[1, 3] {0, 1, 2}}\n"
                  "  %sum = add(%rows, %column)\n"
                  "  %f = cast(%sum) {dtype = f32}\n"
                  "  %z = add(%y, %x)\n"
                  "  %half = constant {value = f32[] {0.5}}\n"
                  "  %h = mul(%z, %half)\n"
                  "  %r = add(%h, %f)\n"
                  "  return %r\n"
                  "}\n");
    call(&w, 2, DIMS(2, 3), 2, DIMS(2, 3), row_and_column);
    call(&w, 2, DIMS(2, 9), 2, DIMS(2, 9), row_and_column);
    call(&w, 2, DIMS(6, 4), 2, DIMS(6, 4), row_and_column);
    end(&w);
}

/* ---- what is not read ---- */

static void refused(const char *constant, const char *op, int64_t size)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "stir 1\ngraph @main(%%x: f32[2, 4]) {\n  %%c = constant {value = %s}\n"
                   "  %%y = %s(%%x, %%c)\n  return %%y\n}\n",
                   constant, op);
    world w = open_text(text);
    refuse(&w, 2, DIMS(2, size), op);
    end(&w);
}

Test(baked_in, constants_without_a_pattern_are_not_extended)
{
    refused("f32[4] {3, 1, 4, 1}", "add", 5);
    refused("f32[4] {0, 1, 2, 3}", "add", 5);             /* counted floats are no positions */
    refused("f32[4] {0.25, 0.25, 0.25, 0.25}", "mul", 5); /* the weights of a mean */
    refused("f32[4, 1] {1, 1, 1, 1}", "matmul", 5);       /* weights */
    refused("f32[4] {3, 1, 4, 1}", "add", 1);             /* 1 would be repeated */
}

/* One call, of two rows more. */
static void refused_text(const char *text, const char *words)
{
    world w = open_text(text);
    refuse(&w, 2, DIMS(6, 4), words);
    end(&w);
}

/* What is built before anybody shows that it has to follow has the number still. */
Test(baked_in, value_that_must_follow_two_sizes_is_refused)
{
    refused_text("stir 1\n"
                 "graph @main(%x: f32[4, 4]) {\n"
                 "  %i = constant {value = i64[4] {0, 1, 2, 3}}\n"
                 "  %a = gather(%x, %i) {axis = 0}\n"
                 "  %s = reduce_sum(%a) {axes = [0]}\n"
                 "  %b = add(%a, %x)\n"
                 "  %y = add(%b, %s)\n"
                 "  return %y\n"
                 "}\n",
                 "value 'a' has to follow another size");
}

Test(baked_in, mean_that_divides_by_a_number_is_refused)
{
    refused_text("stir 1\n"
                 "graph @main(%x: f32[4, 4]) {\n"
                 "  %r = reshape(%x) {shape = [4, 2, 2]}\n"
                 "  %s = reduce_sum(%r) {axes = [0]}\n"
                 "  %n = constant {value = f32[] {4}}\n"
                 "  %y = div(%s, %n)\n"
                 "  return %y\n"
                 "}\n",
                 "divided by that number");
    refused_text("stir 1\n"
                 "graph @main(%x: f32[4, 4]) {\n"
                 "  %s = reduce_sum(%x) {axes = [0], keepdims = 1}\n"
                 "  %n = constant {value = f32[] {0.25}}\n"
                 "  %y = mul(%n, %s)\n"
                 "  return %y\n"
                 "}\n",
                 "divided by that number");
}

/* More rows of a table may be what a longer input needs; more of something computed is not. */
Test(baked_in, slice_of_a_computed_value_does_not_follow)
{
    refused_text("stir 1\n"
                 "graph @main(%x: f32[4, 4]) {\n"
                 "  %a = constant {value = f32[4, 1] {0, 0, 0, 0}}\n"
                 "  %b = constant {value = f32[4, 1] {1, 1, 1, 1}}\n"
                 "  %ab = concat(%a, %b) {axis = 0}\n"
                 "  %p = slice(%ab) {starts = [0, 0], sizes = [4, 1], steps = [1, 1]}\n"
                 "  %y = add(%x, %p)\n"
                 "  return %y\n"
                 "}\n",
                 "add");
}

/* A baked-in 1 stands for itself: a constant of one row does for a batch of any size, and of a
 * batch of one nobody can say what it was. */
Test(baked_in, baked_in_one_stays_one)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[1, 6]) {\n"
                        "  %y = reshape(%x) {shape = [1, 2, 3]}\n"
                        "  return %y\n"
                        "}\n");
    call(&w, 2, DIMS(1, 6), 3, DIMS(1, 2, 3), same);
    refuse(&w, 2, DIMS(4, 6), "reshape");
    end(&w);
}

/* A call of another size with memory short at each place: refused as that, and right afterwards. */
Test(baked_in, every_allocation_may_fail)
{
    for (uint64_t n = 1;; n++) {
        world w = open_text(POSITIONS);
        stator_tensor *x = run_counting(w.ctx, 3, DIMS(2, 6, 2)), *y = NULL;
        stator_x_fail_alloc_at(w.ctx, n);
        const stator_status status = stator_call_tensors(w.fn, 1, &x, 1, &y);
        const int was_reached = stator_x_alloc_requests(w.ctx) >= n;
        stator_x_fail_alloc_at(w.ctx, 0);
        cr_assert(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED,
                  "request %d: status %d, %s", (int)n, (int)status, stator_ctx_error_text(w.ctx));
        stator_tensor_release(x);
        stator_tensor_release(y);
        call(&w, 3, DIMS(2, 5, 2), 3, DIMS(2, 5, 2), plus_position);
        end(&w);
        if (!was_reached) {
            break;
        }
    }
}

/* ---- what a value is for its other readers ---- */

static const char READERS[] = "stir 1\n"
                              "graph @main(%x: f32[3]) {\n"
                              "  %i = constant {value = i64[3] {0, 1, 2}}\n"
                              "  %a = gather(%x, %i) {axis = 0}\n"
                              "  %b = add(%a, %x)\n"
                              "  %s = reduce_sum(%a) {axes = [0]}\n"
                              "  %t = reduce_sum(%b) {axes = [0]}\n"
                              "  %u = sub(%t, %s)\n"
                              "  return %u\n"
                              "}\n";

static float sum_of_all(const int64_t *in, int64_t i)
{
    (void)i;
    return (float)(in[0] * (in[0] + 1) / 2);
}

Test(baked_in, every_reader_of_a_changed_value_follows)
{
    world w = open_text(READERS);
    call(&w, 1, DIMS(3), 0, DIMS(0), sum_of_all);
    call(&w, 1, DIMS(5), 0, DIMS(0), sum_of_all);
    end(&w);
}

/* A slice of the second axis lists the whole of the first. */
static const char WHOLE[] =
    "stir 1\n"
    "graph @main(%x: f32[4, 2, 3]) {\n"
    "  %flat = reshape(%x) {shape = [8, 3]}\n"
    "  %y = slice(%flat) {starts = [0, 0], sizes = [8, 3], steps = [1, 1]}\n"
    "  return %y\n"
    "}\n";

Test(baked_in, slice_of_a_whole_axis_follows)
{
    world w = open_text(WHOLE);
    call(&w, 3, DIMS(4, 2, 3), 2, DIMS(8, 3), same);
    call(&w, 3, DIMS(7, 2, 3), 2, DIMS(14, 3), same);
    end(&w);
}

/* ---- constants that do not go on ---- */

static const char BYTES_COUNT[] = "stir 1\n"
                                  "graph @main(%x: f32[4]) {\n"
                                  "  %i = constant {value = u8[4] {0, 1, 2, 3}}\n"
                                  "  %f = cast(%i) {dtype = f32}\n"
                                  "  %y = add(%x, %f)\n"
                                  "  return %y\n"
                                  "}\n";
static const char BYTES_MEAN[] = "stir 1\n"
                                 "graph @main(%x: f32[4]) {\n"
                                 "  %i = constant {value = i8[4] {64, 64, 64, 64}}\n"
                                 "  %f = cast(%i) {dtype = f32}\n"
                                 "  %y = mul(%x, %f)\n"
                                 "  return %y\n"
                                 "}\n";
static const char TWO_WEIGHTS[] = "stir 1\n"
                                  "graph @main(%x: f32[2, 2]) {\n"
                                  "  %w = constant {value = f32[2, 2] {3.5, 7.25, 3.5, 3.5}}\n"
                                  "  %y = mul(%x, %w)\n"
                                  "  return %y\n"
                                  "}\n";

Test(baked_in, byte_ranges_and_weights_are_not_extended)
{
    static const struct {
        const char *text;
        uint32_t rank;
        int64_t in[2];
    } all[] = {{BYTES_COUNT, 1, {300}}, {BYTES_MEAN, 1, {8}}, {TWO_WEIGHTS, 2, {3, 3}}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        world w = open_text(all[i].text);
        refuse(&w, all[i].rank, all[i].in, "do not broadcast");
        end(&w);
    }
}
