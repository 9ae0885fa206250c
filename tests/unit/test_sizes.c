/* Sizes of calls through the public interface: classes of symbols, baked-in sizes that change, what
 * is compiled again and what is not, the recompile limit, models that cannot follow. */
#include "core/host/sizes.h"
#include "ir/graph.h"
#include "support_onnx.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <string.h>

typedef struct world {
    stator_ctx *ctx;
    stator_function *fn;
} world;

static world open_world(const char *text, const void *bytes, uint64_t size, const char *name,
                        const stator_compile_options *how)
{
    world w = {.ctx = run_context()};
    stator_model *model = NULL;
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    cr_assert_eq(stator_model_load_bytes(w.ctx, text != NULL ? text : bytes,
                                         text != NULL ? strlen(text) : size, name, &options,
                                         &model),
                 STATOR_OK, "%s", stator_ctx_error_text(w.ctx));
    cr_assert_eq(stator_compile(model, how, &w.fn), STATOR_OK, "%s", stator_ctx_error_text(w.ctx));
    stator_model_destroy(model);
    return w;
}

static world open_text(const char *text, const char *backend)
{
    const stator_compile_options how = {.struct_size = sizeof how, .backend = backend};
    return open_world(text, NULL, 0, "sizes.stir", &how);
}

static world open_onnx(onnx_bytes *m, const char *backend)
{
    const stator_compile_options how = {.struct_size = sizeof how, .backend = backend};
    const world w = open_world(NULL, m->data, m->size, "sizes.onnx", &how);
    onnx_free(m);
    return w;
}

static void end(world *w)
{
    stator_function_destroy(w->fn);
    stator_ctx_destroy(w->ctx);
}

/* Calls with one input of rank 2; the output must be `want` (dims) and start with `first`. */
static void call_2d(world *w, int64_t rows, int64_t columns, uint32_t rank, const int64_t *want,
                    float first)
{
    const int64_t shape[2] = {rows, columns};
    stator_tensor *in = run_counting(w->ctx, 2, shape), *out = NULL;
    cr_assert_eq(stator_call_tensors(w->fn, 1, &in, 1, &out), STATOR_OK, "%s",
                 stator_ctx_error_text(w->ctx));
    const DLTensor *view = stator_tensor_view(out);
    cr_assert_eq((uint32_t)view->ndim, rank);
    for (uint32_t i = 0; i < rank; i++) {
        cr_assert_eq(view->shape[i], want[i], "axis %u is %d", i, (int)view->shape[i]);
    }
    if (stator_tensor_size_bytes(out) != 0) {
        cr_assert_float_eq(((const float *)stator_tensor_data(out))[0], first, 1e-5);
    }
    stator_tensor_release(in);
    stator_tensor_release(out);
}

static void refuse_2d(world *w, int64_t rows, int64_t columns, const char *words)
{
    const int64_t shape[2] = {rows, columns};
    stator_tensor *in = run_counting(w->ctx, 2, shape), *out = NULL;
    cr_assert_neq(stator_call_tensors(w->fn, 1, &in, 1, &out), STATOR_OK);
    cr_expect(strstr(stator_ctx_error_text(w->ctx), words) != NULL, "%s",
              stator_ctx_error_text(w->ctx));
    stator_tensor_release(in);
}

#define COUNT(w) stator_function_compiles((w)->fn)

/* ---- baked-in sizes that change ---- */

/* Rows divided by their sums; the sum of a column of ones at the end tells the number of rows. */
static const char ROWS[] = "stir 1\n"
                           "graph @main(%x: f32[2, 3]) {\n"
                           "  %s = reduce_sum(%x) {axes = [1], keepdims = 1}\n"
                           "  %q = div(%x, %s)\n"
                           "  return %q\n"
                           "}\n";

static void call_rows(world *w, int64_t rows)
{
    call_2d(w, rows, 3, 2, (const int64_t[2]){rows, 3}, 1.0f / 6.0f);
}

static void baked_in_rows(const char *backend)
{
    world w = open_text(ROWS, backend);
    call_rows(&w, 2);
    cr_expect_eq(COUNT(&w), 1);
    call_rows(&w, 4);
    cr_expect_eq(COUNT(&w), 2);
    call_rows(&w, 7);
    call_rows(&w, 2);
    call_rows(&w, 300);
    cr_expect_eq(COUNT(&w), 2);
    call_rows(&w, 1);
    cr_expect_eq(COUNT(&w), 3);
    call_rows(&w, 0);
    cr_expect_eq(COUNT(&w), 4);
    call_rows(&w, 1);
    call_rows(&w, 9);
    cr_expect_eq(COUNT(&w), 4);
    end(&w);
}

Test(sizes, a_baked_in_size_that_changes_becomes_a_symbol)
{
    baked_in_rows("eager");
    baked_in_rows("aot_eager");
}

Test(sizes, the_first_call_may_be_of_another_size)
{
    world w = open_text(ROWS, "eager");
    call_rows(&w, 5);
    call_rows(&w, 2);
    call_rows(&w, 8);
    cr_expect_eq(COUNT(&w), 1);
    end(&w);
}

Test(sizes, axes_that_change_in_turn_become_symbols_in_turn)
{
    world w = open_text(ROWS, "eager");
    call_rows(&w, 2);
    call_rows(&w, 4);
    call_2d(&w, 4, 5, 2, (const int64_t[2]){4, 5}, 1.0f / 15.0f);
    cr_expect_eq(COUNT(&w), 3);
    call_2d(&w, 9, 2, 2, (const int64_t[2]){9, 2}, 1.0f / 3.0f);
    call_rows(&w, 2);
    cr_expect_eq(COUNT(&w), 3);
    end(&w);
}

/* ---- sizes that change together ---- */

static void call_pair(world *w, int64_t a, int64_t b, int is_fine)
{
    stator_tensor *in[2] = {run_counting(w->ctx, 1, &a), run_counting(w->ctx, 1, &b)};
    stator_tensor *out = NULL;
    cr_assert_eq(stator_call_tensors(w->fn, 2, in, 1, &out) == STATOR_OK, is_fine, "%s",
                 stator_ctx_error_text(w->ctx));
    if (is_fine) {
        cr_assert_float_eq(((const float *)stator_tensor_data(out))[0], 2.0f, 1e-6);
        stator_tensor_release(out);
    }
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
}

Test(sizes, axes_that_change_alike_share_a_symbol)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[4], %y: f32[4]) {\n"
                        "  %z = add(%x, %y)\n"
                        "  return %z\n"
                        "}\n",
                        "aot_eager");
    call_pair(&w, 4, 4, 1);
    call_pair(&w, 6, 6, 1);
    call_pair(&w, 9, 9, 1);
    cr_expect_eq(COUNT(&w), 2);
    call_pair(&w, 6, 7, 0); /* cannot be added */
    cr_expect(strstr(stator_ctx_error_text(w.ctx), "sizes 6 and 7") != NULL, "%s",
              stator_ctx_error_text(w.ctx));
    call_pair(&w, 11, 11, 1);
    cr_expect_eq(COUNT(&w), 2);
    end(&w);
}

Test(sizes, axes_that_stop_changing_alike_get_symbols_of_their_own)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[4], %y: f32[4]) {\n"
                        "  %p = reduce_max(%x) {axes = [0]}\n"
                        "  %q = reduce_min(%y) {axes = [0]}\n"
                        "  %r = reduce_min(%x) {axes = [0]}\n"
                        "  %s = mul(%q, %r)\n"
                        "  %m = div(%p, %p)\n"
                        "  %z = add(%s, %m)\n"
                        "  return %z\n"
                        "}\n",
                        "eager");
    call_pair(&w, 4, 4, 1);
    call_pair(&w, 6, 6, 1);
    cr_expect_eq(COUNT(&w), 2);
    call_pair(&w, 6, 7, 1);
    cr_expect_eq(COUNT(&w), 3);
    call_pair(&w, 8, 3, 1);
    call_pair(&w, 5, 5, 1);
    cr_expect_eq(COUNT(&w), 3);
    end(&w);
}

/* ---- models that cannot follow ---- */

Test(sizes, weights_of_another_size_are_an_error_that_names_the_node)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[4, 6]) {\n"
                        "  %e = neg(%x)\n"
                        "  %w = constant {value = f32[4, 1] {3, 1, 4, 1}}\n"
                        "  %scaled = mul(%e, %w)\n"
                        "  %n = neg(%scaled)\n"
                        "  return %n\n"
                        "}\n",
                        "aot_eager");
    refuse_2d(&w, 5, 6, "mul");
    refuse_2d(&w, 5, 6, "scaled");
    refuse_2d(&w, 5, 6, "input 'x' is f32[5, 6], expected f32[4, 6]");
    cr_expect_eq(COUNT(&w), 0);
    call_2d(&w, 4, 6, 2, (const int64_t[2]){4, 6}, 3);
    call_2d(&w, 4, 8, 2, (const int64_t[2]){4, 8}, 3);
    cr_expect_eq(COUNT(&w), 2);
    refuse_2d(&w, 5, 6, "mul");
    call_2d(&w, 4, 12, 2, (const int64_t[2]){4, 12}, 3);
    cr_expect_eq(COUNT(&w), 2);
    end(&w);
}

/* A call that is refused does not make sizes symbolic for later ones. */
Test(sizes, refused_call_makes_no_size_symbolic)
{
    world w = open_text("stir 1\n"
                        "graph @main(%x: f32[2, 3]) {\n"
                        "  %w = constant {value = f32[3, 1] {1, 1, 1}}\n"
                        "  %y = matmul(%x, %w)\n"
                        "  return %y\n"
                        "}\n",
                        "aot_eager");
    refuse_2d(&w, 5, 4, "matmul");
    call_2d(&w, 5, 3, 2, (const int64_t[2]){5, 1}, 6);
    call_2d(&w, 6, 3, 2, (const int64_t[2]){6, 1}, 6);
    cr_expect_eq(COUNT(&w), 1);
    refuse_2d(&w, 5, 2, "matmul");
    call_2d(&w, 7, 3, 2, (const int64_t[2]){7, 1}, 6);
    cr_expect_eq(COUNT(&w), 1);
    end(&w);
}

/* ---- ONNX: what exporters write for shapes ---- */

static void add_reshape(onnx_bytes *g, const char *name, const char *in, const char *out, int count,
                        const int64_t *to)
{
    const int64_t dims[1] = {count};
    char inputs[64];
    onnx_init(g, name, ONNX_INT64, 1, dims, to, (size_t)count * sizeof *to);
    strcpy(inputs, in);
    strcat(inputs, ",");
    strcat(inputs, name);
    onnx_node(g, "Reshape", inputs, out, NULL);
}

static world reshapes(int64_t first, const char *backend)
{
    onnx_bytes g = {0};
    const int64_t x[2] = {2, 6};
    onnx_input(&g, "x", ONNX_FLOAT, 2, x);
    onnx_output(&g, "y", ONNX_FLOAT);
    add_reshape(&g, "copy", "x", "a", 3, (const int64_t[3]){0, 2, 3});
    add_reshape(&g, "rest", "a", "b", 2, (const int64_t[2]){-1, 3});
    add_reshape(&g, "back", "b", "y", 2, (const int64_t[2]){first, 6});
    onnx_bytes m = onnx_model(&g, 14, NULL);
    return open_onnx(&m, backend);
}

Test(sizes, reshape_by_zero_and_minus_one_follows)
{
    static const char *const backends[] = {"eager", "aot_eager"};
    for (int i = 0; i < 2; i++) {
        world w = reshapes(-1, backends[i]);
        call_2d(&w, 2, 6, 2, (const int64_t[2]){2, 6}, 1);
        call_2d(&w, 5, 6, 2, (const int64_t[2]){5, 6}, 1);
        cr_expect_eq(COUNT(&w), 2);
        call_2d(&w, 9, 6, 2, (const int64_t[2]){9, 6}, 1);
        cr_expect_eq(COUNT(&w), 2);
        end(&w);
    }
}

/* The 2 of the last shape is x's (test_baked_in.c has what that takes). */
Test(sizes, reshape_to_the_baked_in_size_follows)
{
    world w = reshapes(2, "eager");
    call_2d(&w, 2, 6, 2, (const int64_t[2]){2, 6}, 1);
    call_2d(&w, 5, 6, 2, (const int64_t[2]){5, 6}, 1);
    call_2d(&w, 9, 6, 2, (const int64_t[2]){9, 6}, 1);
    cr_expect_eq(COUNT(&w), 2);
    end(&w);
}

/* Every second row of x[N, 4], added to itself seen as [(N - less) / 2 + (less + 1) / 2, 4],
 * where the quotient is cut toward zero as Div does it, and of these what `op`, a pool, gives of
 * two: with less = 1 what exporters write behind a convolution of stride 2. */
static onnx_bytes halves(int64_t less, const char *op, int ceil_mode)
{
    const int64_t number[4] = {0, -less, 2, (less + 1) / 2};
    static const int64_t n4 = 4, image[4] = {1, 1, -1, 4}, ends = INT64_MAX;
    static const int64_t one[1] = {1}, four[1] = {4}, x[2] = {-1, 4}, two[2] = {2, 1};
    onnx_bytes g = {0}, starts = {0}, pool = {0}, join = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 2, x);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_init(&g, "zero", ONNX_INT64, 1, one, &number[0], sizeof number[0]);
    onnx_init(&g, "minus", ONNX_INT64, 1, one, &number[1], sizeof number[1]);
    onnx_init(&g, "two", ONNX_INT64, 1, one, &number[2], sizeof number[2]);
    onnx_init(&g, "one", ONNX_INT64, 1, one, &number[3], sizeof number[3]);
    onnx_init(&g, "four", ONNX_INT64, 1, one, &n4, sizeof n4);
    onnx_init(&g, "end", ONNX_INT64, 1, one, &ends, sizeof ends);
    onnx_init(&g, "image", ONNX_INT64, 1, four, image, sizeof image);
    onnx_attr_int(&starts, "end", 1);
    onnx_node(&g, "Shape", "x", "n", &starts);
    onnx_node(&g, "Add", "minus,n", "less", NULL);
    onnx_node(&g, "Div", "less,two", "half", NULL);
    onnx_node(&g, "Add", "one,half", "rows", NULL);
    onnx_attr_int(&join, "axis", 0);
    onnx_node(&g, "Concat", "rows,four", "shape", &join);
    onnx_node(&g, "Slice", "x,zero,end,zero,two", "s", NULL);
    onnx_node(&g, "Reshape", "s,shape", "r", NULL);
    onnx_node(&g, "Add", "s,r", "a", NULL);
    onnx_node(&g, "Reshape", "a,image", "i", NULL);
    onnx_attr_ints(&pool, "kernel_shape", 2, two);
    onnx_attr_ints(&pool, "strides", 2, two);
    onnx_attr_int(&pool, "ceil_mode", ceil_mode);
    onnx_node(&g, op, "i", "y", &pool);
    return onnx_model(&g, 15, NULL);
}

Test(sizes, quotients_of_sizes_less_one_are_followed)
{
    static const char *const backends[] = {"eager", "aot_eager"};
    for (int i = 0; i < 4; i++) {
        onnx_bytes m = halves(i < 2 ? 1 : 3, "MaxPool", 0);
        world w = open_onnx(&m, backends[i % 2]);
        call_2d(&w, 8, 4, 4, (const int64_t[4]){1, 1, 2, 4}, 18);
        call_2d(&w, 5, 4, 4, (const int64_t[4]){1, 1, 1, 4}, 18);
        call_2d(&w, 11, 4, 4, (const int64_t[4]){1, 1, 3, 4}, 18);
        cr_expect_eq(COUNT(&w), 1);
        end(&w);
    }
}

/* The last window of an odd number of rows has one row. Sizes without a formula grew beyond the
 * limits here, and the model was refused when it was loaded. */
Test(sizes, quotients_of_sizes_less_one_are_pooled_in_ceil_mode)
{
    static const char *const backends[] = {"eager", "aot_eager"};
    for (int i = 0; i < 2; i++) {
        onnx_bytes m = halves(1, "AveragePool", 1);
        world w = open_onnx(&m, backends[i]);
        call_2d(&w, 8, 4, 4, (const int64_t[4]){1, 1, 2, 4}, 10);
        call_2d(&w, 5, 4, 4, (const int64_t[4]){1, 1, 2, 4}, 10);
        call_2d(&w, 11, 4, 4, (const int64_t[4]){1, 1, 3, 4}, 10);
        cr_expect_eq(COUNT(&w), 1);
        call_2d(&w, 1, 4, 4, (const int64_t[4]){1, 1, 1, 4}, 2);
        refuse_2d(&w, 0, 4, "elements of x and of the new shape");
        end(&w);
    }
}

/* How many sizes of results are read while the model runs: in the import for all sizes, or in the
 * one under the ranges of a call. */
static uint32_t unbacked_sizes(onnx_bytes *m, uint32_t flags)
{
    stator_ctx *ctx = run_context();
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    const int64_t shape[2] = {8, 4};
    stator_tensor *in = run_counting(ctx, 2, shape);
    stator_model *model = NULL;
    st_specialisation *spec = NULL;
    st_sizes sizes = {.changed = {0}};
    uint32_t count = 0;
    cr_assert_eq(stator_model_load_bytes(ctx, m->data, m->size, "halves.onnx", &options, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(ctx));
    cr_assert_eq(st_sizes_choose(&sizes, model, flags, 1, stator_tensor_view(in), &spec, NULL),
                 STATOR_OK);
    const stator_graph_view *v = st_graph_view(spec->module->root);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const stator_type_row *type = stator_value_type(v, value);
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            const stator_atom_row *atom = stator_sym_as_symbol(v, stator_dim_at(v, type, axis));
            count += atom != NULL && (atom->flags & STATOR_ATOM_UNBACKED) != 0;
        }
    }
    stator_tensor_release(in);
    stator_model_destroy(model);
    onnx_free(m);
    stator_ctx_destroy(ctx);
    return count;
}

/* N - 1 is above -2 for every N; N - 3 is, and has a formula, only in the ranges of a call. */
Test(sizes, window_sizes_are_formulas_of_input_sizes)
{
    onnx_bytes for_all = halves(1, "MaxPool", 0), open = halves(3, "MaxPool", 0),
               in_ranges = halves(3, "MaxPool", 0);
    cr_expect_eq(unbacked_sizes(&for_all, 0), 0);
    cr_expect_neq(unbacked_sizes(&open, 0), 0);
    cr_expect_eq(unbacked_sizes(&in_ranges, ST_SIZES_REFINE), 0);
}

/* ---- symbols ---- */

static const char SYMBOL[] = "stir 1\n"
                             "sym N in [0, inf]\n"
                             "graph @main(%x: f32[N, 3]) {\n"
                             "  %s = reduce_sum(%x) {axes = [1], keepdims = 1}\n"
                             "  %q = div(%x, %s)\n"
                             "  return %q\n"
                             "}\n";

Test(sizes, sizes_0_and_1_compile_separately)
{
    world w = open_text(SYMBOL, "aot_eager");
    call_rows(&w, 5);
    call_rows(&w, 90);
    call_rows(&w, 2);
    cr_expect_eq(COUNT(&w), 1);
    call_rows(&w, 1);
    cr_expect_eq(COUNT(&w), 2);
    call_rows(&w, 0);
    cr_expect_eq(COUNT(&w), 3);
    call_rows(&w, 1);
    call_rows(&w, 7);
    cr_expect_eq(COUNT(&w), 3);
    end(&w);
}

Test(sizes, eager_compiles_once_for_all_sizes)
{
    world w = open_text(SYMBOL, "eager");
    call_rows(&w, 5);
    call_rows(&w, 1);
    call_rows(&w, 0);
    cr_expect_eq(COUNT(&w), 1);
    end(&w);
}

/* The limit allows two graphs more than the first; then one is made for all sizes. */
static void limited(const char *text)
{
    const stator_compile_options how = {.struct_size = sizeof how,
                                        .backend = "aot_eager",
                                        .recompile_limit = 2,
                                        .flags = STATOR_COMPILE_STATIC};
    world w = open_world(text, NULL, 0, "sizes.stir", &how);
    for (int64_t rows = 2; rows < 5; rows++) {
        call_rows(&w, rows);
        cr_expect_eq(COUNT(&w), (uint32_t)rows - 1u);
    }
    call_rows(&w, 5);
    cr_expect_eq(COUNT(&w), 4);
    for (int64_t rows = 0; rows < 12; rows++) {
        call_rows(&w, rows);
    }
    cr_expect_eq(COUNT(&w), 4);
    end(&w);
}

Test(sizes, at_the_limit_one_graph_serves_all)
{
    limited(SYMBOL);
    limited(ROWS);
}

static const char QUOTED[] = "stir 1\n"
                             "sym \"batch size\" in [0, 64]\n"
                             "graph @main(%x: f32[\"batch size\", 3]) {\n"
                             "  %y = neg(%x)\n"
                             "  return %y\n"
                             "}\n";

Test(sizes, names_of_symbols_may_be_any_text)
{
    world w = open_text(QUOTED, "aot_eager");
    call_2d(&w, 5, 3, 2, (const int64_t[2]){5, 3}, -1);
    call_2d(&w, 1, 3, 2, (const int64_t[2]){1, 3}, -1);
    cr_expect_eq(COUNT(&w), 2);
    refuse_2d(&w, 65, 3, "must be in 0..64");
    end(&w);
}

/* A call of another size with memory short at each place: refused as that, and right afterwards. */
Test(sizes, every_allocation_may_fail)
{
    const int64_t shape[2] = {5, 3};
    for (uint64_t n = 1;; n++) {
        world w = open_text(ROWS, "aot_eager");
        stator_tensor *in = run_counting(w.ctx, 2, shape), *out = NULL;
        stator_x_fail_alloc_at(w.ctx, n);
        const stator_status status = stator_call_tensors(w.fn, 1, &in, 1, &out);
        const int was_reached = stator_x_alloc_requests(w.ctx) >= n;
        stator_x_fail_alloc_at(w.ctx, 0);
        cr_assert(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED, "request %d: %s",
                  (int)n, stator_ctx_error_text(w.ctx));
        stator_tensor_release(in);
        stator_tensor_release(out);
        const uint32_t before = COUNT(&w);
        call_rows(&w, 7);
        cr_expect_eq(COUNT(&w), 1, "request %d: %u graphs, %u before", (int)n, COUNT(&w), before);
        end(&w);
        if (!was_reached) {
            break;
        }
    }
}
