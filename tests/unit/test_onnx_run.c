/* The onnx frontend on models written by hand, run on eager: functions, values of inputs that the
 * import needs, control flow, symbolic sizes. */
#include "support_onnx.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <string.h>

static const int64_t ANY[1] = {-1};

typedef struct world {
    stator_ctx *ctx;
    stator_function *fn;
} world;

static world compile(onnx_bytes *m)
{
    world w = {.ctx = run_context()};
    stator_model *model = NULL;
    const stator_load_options options = {
        .struct_size = sizeof options, .frontend = "onnx", .flags = 1};
    const stator_compile_options how = {.struct_size = sizeof how, .backend = "eager"};
    cr_assert_eq(stator_model_load_bytes(w.ctx, m->data, m->size, "hand.onnx", &options, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(w.ctx));
    onnx_free(m);
    cr_assert_eq(stator_compile(model, &how, &w.fn), STATOR_OK, "%s", stator_ctx_error_text(w.ctx));
    stator_model_destroy(model);
    return w;
}

static void end(world *w)
{
    stator_function_destroy(w->fn);
    stator_ctx_destroy(w->ctx);
}

static stator_tensor *call(world *w, uint32_t n, stator_tensor *const *in)
{
    stator_tensor *out[1] = {NULL};
    cr_assert_eq(stator_call_tensors(w->fn, n, in, 1, out), STATOR_OK, "%s",
                 stator_ctx_error_text(w->ctx));
    for (uint32_t i = 0; i < n; i++) {
        stator_tensor_release(in[i]);
    }
    return out[0];
}

static void expect_floats(stator_tensor *t, uint32_t rank, const int64_t *dims, const float *want)
{
    const DLTensor *v = stator_tensor_view(t);
    int64_t n = 1;
    cr_assert_eq((uint32_t)v->ndim, rank);
    for (uint32_t i = 0; i < rank; i++) {
        cr_assert_eq(v->shape[i], dims[i]);
        n *= dims[i];
    }
    cr_assert_eq(stator_tensor_dtype(t), STATOR_F32);
    for (int64_t i = 0; i < n; i++) {
        cr_assert_float_eq(((const float *)stator_tensor_data(t))[i], want[i], 1e-6);
    }
    stator_tensor_release(t);
}

/* A FunctionProto field (25 of ModelProto) with one node of the default domain. */
static void add_function(onnx_bytes *more, const char *name, const char *in, const char *out,
                         const char *attribute, onnx_bytes *nodes)
{
    onnx_bytes f = {0}, set = {0};
    onnx_text(&f, 1, name);
    for (const char *p = in; *p != '\0'; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        onnx_blob(&f, 4, p, strcspn(p, ","));
    }
    onnx_text(&f, 5, out);
    if (attribute != NULL) {
        onnx_text(&f, 6, attribute);
    }
    onnx_int(&set, 2, 13);
    onnx_message(&f, 9, &set);
    onnx_text(&f, 10, "my");
    for (size_t at = 0; at < nodes->size;) { /* nodes are fields 1 of a graph, 7 of a function */
        size_t size = 0;
        unsigned shift = 0;
        at++;
        do {
            size |= (size_t)(nodes->data[at] & 0x7fu) << shift;
            shift += 7;
        } while (nodes->data[at++] & 0x80u);
        onnx_blob(&f, 7, nodes->data + at, size);
        at += size;
    }
    onnx_free(nodes);
    onnx_message(more, 25, &f);
}

Test(onnx_run, functions_see_their_attributes_and_names)
{
    onnx_bytes g = {0}, more = {0}, nodes = {0}, a = {0};
    onnx_attr_ref(&a, "axis", "where", 2);
    onnx_node(&nodes, "Concat", "p,q", "t", &a);
    onnx_node(&nodes, "Neg", "t", "r", NULL);
    add_function(&more, "Join", "p,q", "r", "where", &nodes);
    onnx_attr_ref(&a, "where", "axis", 2);
    onnx_node(&nodes, "my.Join", "u,u", "t", &a);
    onnx_node(&nodes, "Neg", "t", "r", NULL);
    add_function(&more, "Twice", "u", "r", "axis", &nodes);
    onnx_input(&g, "t", ONNX_FLOAT, 1, ANY);
    onnx_attr_int(&a, "axis", 0);
    onnx_node(&g, "my.Twice", "t", "y", &a);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes set = {0};
    onnx_text(&set, 1, "my");
    onnx_int(&set, 2, 1);
    onnx_message(&more, 8, &set);
    onnx_bytes m = onnx_model(&g, 13, &more);
    world w = compile(&m);
    const float x[3] = {1, -2, 3};
    for (int64_t n = 1; n <= 3; n++) {
        stator_tensor *in[1] = {run_tensor(w.ctx, STATOR_F32, 1, &n, x)};
        float want[6];
        memcpy(want, x, (size_t)n * sizeof x[0]);
        memcpy(want + n, x, (size_t)n * sizeof x[0]);
        const int64_t dims[1] = {2 * n};
        expect_floats(call(&w, 1, in), 1, dims, want);
    }
    end(&w);
}

Test(onnx_run, function_that_calls_itself_is_refused)
{
    onnx_bytes g = {0}, more = {0}, nodes = {0};
    onnx_node(&nodes, "my.F", "p", "r", NULL);
    add_function(&more, "F", "p", "r", NULL, &nodes);
    onnx_input(&g, "x", ONNX_FLOAT, 1, ANY);
    onnx_node(&g, "my.F", "x", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, &more);
    stator_ctx *ctx = run_context();
    stator_model *model = NULL;
    const stator_load_options options = {
        .struct_size = sizeof options, .frontend = "onnx", .flags = 1};
    cr_assert_neq(stator_model_load_bytes(ctx, m.data, m.size, "f.onnx", &options, &model),
                  STATOR_OK);
    cr_assert_not_null(strstr(stator_ctx_error_text(ctx), "calls itself"));
    onnx_free(&m);
    stator_ctx_destroy(ctx);
}

Test(onnx_run, axes_from_an_input_specialise)
{
    const int64_t dims[2] = {2, 3};
    const int64_t one[1] = {1};
    const float x[6] = {1, 2, 3, 4, 5, 6};
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 2, dims);
    onnx_input(&g, "axes", ONNX_INT64, 1, one);
    onnx_node(&g, "ReduceSum", "x,axes", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    world w = compile(&m);
    const int64_t axes[3] = {0, 1, -2};
    const float want[3][3] = {{5, 7, 9}, {6, 15, 0}, {5, 7, 9}};
    const int64_t shapes[3][2] = {{1, 3}, {2, 1}, {1, 3}};
    for (int i = 0; i < 3; i++) {
        stator_tensor *in[2] = {run_tensor(w.ctx, STATOR_F32, 2, dims, x),
                                run_tensor(w.ctx, STATOR_I64, 1, one, &axes[i])};
        expect_floats(call(&w, 2, in), 2, shapes[i], want[i]);
    }
    end(&w);
}

/* The contents decide the import; their number is symbolic, so the guard must look at it too: one
 * shape begins like another, and one has no elements at all. */
Test(onnx_run, shapes_of_changing_rank_specialise)
{
    const int64_t dims[1] = {1};
    const float x[1] = {7};
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 1, dims);
    onnx_input(&g, "shape", ONNX_INT64, 1, ANY);
    onnx_node(&g, "Reshape", "x,shape", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    world w = compile(&m);
    const int64_t ones[3] = {1, 1, 1};
    const int64_t ranks[6] = {0, 2, 3, 1, 0, 3};
    for (int i = 0; i < 6; i++) {
        stator_tensor *in[2] = {run_tensor(w.ctx, STATOR_F32, 1, dims, x),
                                run_tensor(w.ctx, STATOR_I64, 1, &ranks[i], ones)};
        expect_floats(call(&w, 2, in), (uint32_t)ranks[i], ones, x);
    }
    end(&w);
}

/* y = x grown by itself in each of n iterations; the carried size changes. */
Test(onnx_run, loop_with_a_growing_carried_size)
{
    onnx_bytes g = {0}, body = {0}, a = {0};
    onnx_input(&body, "i", ONNX_INT64, 0, NULL);
    onnx_input(&body, "c", ONNX_BOOL, 0, NULL);
    onnx_input(&body, "v", ONNX_FLOAT, 1, ANY);
    onnx_node(&body, "Identity", "c", "again", NULL);
    onnx_bytes axis = {0};
    onnx_attr_int(&axis, "axis", 0);
    onnx_node(&body, "Concat", "v,x", "next", &axis);
    onnx_output(&body, "again", ONNX_BOOL);
    onnx_output(&body, "next", ONNX_FLOAT);
    onnx_attr_graph(&a, "body", &body);
    onnx_input(&g, "n", ONNX_INT64, 0, NULL);
    onnx_input(&g, "x", ONNX_FLOAT, 1, ANY);
    onnx_node(&g, "Loop", "n,,x", "y", &a);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    world w = compile(&m);
    const float x[2] = {1, 2};
    const float want[8] = {1, 2, 1, 2, 1, 2, 1, 2};
    const int64_t two[1] = {2};
    for (int64_t n = 0; n < 4; n++) {
        stator_tensor *in[2] = {run_tensor(w.ctx, STATOR_I64, 0, NULL, &n),
                                run_tensor(w.ctx, STATOR_F32, 1, two, x)};
        const int64_t dims[1] = {2 + 2 * n};
        expect_floats(call(&w, 2, in), 1, dims, want);
    }
    end(&w);
}

/* Branches of different rank: the condition's value decides at import, one graph for each. */
Test(onnx_run, branches_of_different_rank_specialise)
{
    onnx_bytes g = {0}, yes = {0}, no = {0}, a = {0}, axes = {0};
    const int64_t zero[1] = {0};
    onnx_attr_ints(&axes, "axes", 1, zero);
    onnx_node(&yes, "Unsqueeze", "x", "t", &axes);
    onnx_output(&yes, "t", ONNX_FLOAT);
    onnx_node(&no, "Neg", "x", "e", NULL);
    onnx_output(&no, "e", ONNX_FLOAT);
    onnx_attr_graph(&a, "then_branch", &yes);
    onnx_attr_graph(&a, "else_branch", &no);
    onnx_input(&g, "c", ONNX_BOOL, 0, NULL);
    onnx_input(&g, "x", ONNX_FLOAT, 1, ANY);
    onnx_node(&g, "If", "c", "y", &a);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 11, NULL);
    world w = compile(&m);
    const float x[2] = {1, 2};
    const float minus[2] = {-1, -2};
    const int64_t two[1] = {2};
    const int64_t flat[2] = {1, 2};
    for (uint8_t c = 0; c < 2; c++) {
        stator_tensor *in[2] = {run_tensor(w.ctx, STATOR_BOOL, 0, NULL, &c),
                                run_tensor(w.ctx, STATOR_F32, 1, two, x)};
        expect_floats(call(&w, 2, in), c ? 2 : 1, c ? flat : two, c ? x : minus);
    }
    end(&w);
}

/* Bounds of a slice that are known only while the program runs. */
Test(onnx_run, slice_with_bounds_from_inputs)
{
    const int64_t one[1] = {1};
    const int64_t six[1] = {6};
    const float x[6] = {0, 1, 2, 3, 4, 5};
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 1, ANY);
    onnx_input(&g, "from", ONNX_INT64, 1, one);
    onnx_input(&g, "to", ONNX_INT64, 1, one);
    onnx_node(&g, "Slice", "x,from,to", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    world w = compile(&m);
    const int64_t bounds[5][4] = {
        {1, 4, 1, 3}, {-2, INT64_MAX, 4, 2}, {4, 2, 0, 0}, {-100, 2, 0, 2}, {0, -1, 0, 5}};
    for (int i = 0; i < 5; i++) {
        stator_tensor *in[3] = {run_tensor(w.ctx, STATOR_F32, 1, six, x),
                                run_tensor(w.ctx, STATOR_I64, 1, one, &bounds[i][0]),
                                run_tensor(w.ctx, STATOR_I64, 1, one, &bounds[i][1])};
        expect_floats(call(&w, 3, in), 1, &bounds[i][3], x + bounds[i][2]);
    }
    end(&w);
}

/* Bounds without axes are lists of one. */
Test(onnx_run, slice_with_scalar_bounds)
{
    const int64_t three[1] = {3};
    const int64_t from = 1, to = 3;
    const float x[3] = {5, 6, 7};
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 1, ANY);
    onnx_init(&g, "from", ONNX_INT64, 0, NULL, &from, sizeof from);
    onnx_init(&g, "to", ONNX_INT64, 0, NULL, &to, sizeof to);
    onnx_node(&g, "Slice", "x,from,to", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    world w = compile(&m);
    const int64_t two[1] = {2};
    stator_tensor *in[1] = {run_tensor(w.ctx, STATOR_F32, 1, three, x)};
    expect_floats(call(&w, 1, in), 1, two, x + 1);
    end(&w);
}

/* An input without a shape takes its rank from the value. */
Test(onnx_run, input_without_a_shape)
{
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, -1, NULL);
    onnx_node(&g, "Neg", "x", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 13, NULL);
    world w = compile(&m);
    const float x[2] = {1, 2};
    const float minus[2] = {-1, -2};
    const int64_t dims[2] = {1, 2};
    for (uint32_t rank = 1; rank <= 2; rank++) {
        const int64_t *shape = dims + 2 - rank;
        stator_tensor *in[1] = {run_tensor(w.ctx, STATOR_F32, rank, shape, x)};
        expect_floats(call(&w, 1, in), rank, shape, minus);
    }
    end(&w);
}

/* A real signal as [batch, length], as TorchScript's exporter writes it: frames of 2 in steps of
 * 2 of {1, 2, 3, 5}, whose spectra are the sum and the difference of each frame. */
Test(onnx_run, stft_of_a_signal_without_a_last_axis)
{
    const int64_t dims[2] = {1, 4};
    const int64_t spectrum[4] = {1, 2, 2, 2};
    const int64_t step = 2, length = 2;
    const float x[4] = {1, 2, 3, 5};
    const float want[8] = {3, 0, -1, 0, 8, 0, -2, 0};
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 2, dims);
    onnx_init(&g, "step", ONNX_INT64, 0, NULL, &step, sizeof step);
    onnx_init(&g, "length", ONNX_INT64, 0, NULL, &length, sizeof length);
    onnx_node(&g, "STFT", "x,step,,length", "y", NULL);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_bytes m = onnx_model(&g, 17, NULL);
    world w = compile(&m);
    stator_tensor *in[1] = {run_tensor(w.ctx, STATOR_F32, 2, dims, x)};
    expect_floats(call(&w, 1, in), 4, spectrum, want);
    end(&w);
}
