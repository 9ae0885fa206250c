/* Calling compiled functions: symbolic sizes, wrong inputs, outputs in place, bound calls, DLPack
 * in and out, write-backs, and that nothing stays allocated. */
#include "api_check.h"

static const char add_text[] = "stir 1\n"
                               "sym N in [1, 64]\n"
                               "graph @main(%x: f32[N, 3], %y: f32[3]) {\n"
                               "  %3 = add(%x, %y) : f32[N, 3]\n"
                               "  return z: %3\n"
                               "}\n";

static stator_tensor *row_tensor(stator_ctx *ctx)
{
    const int64_t shape[1] = {3};
    const float values[3] = {10, 20, 30};
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, shape, &tensor));
    memcpy(stator_tensor_data(tensor), values, sizeof values);
    return tensor;
}

static void check_sum(const stator_tensor *z, int64_t rows)
{
    const DLTensor *view = stator_tensor_view(z);
    CHECK(view->ndim == 2 && view->shape[0] == rows && view->shape[1] == 3);
    const float *data = stator_tensor_data(z);
    for (int64_t i = 0; i < rows * 3; i++) {
        CHECK(data[i] == (float)i + 10.0f * (float)(i % 3 + 1));
    }
}

static void test_sizes(stator_ctx *ctx, const char *backend)
{
    float values[12];
    for (int i = 0; i < 12; i++) {
        values[i] = (float)i;
    }
    stator_model *model = load_text(ctx, add_text);
    stator_function *function = compile_for(ctx, model, backend);
    stator_model_destroy(model); /* the function keeps what it needs */
    stator_tensor *y = row_tensor(ctx);
    for (int64_t rows = 1; rows <= 4; rows++) {
        stator_tensor *in[2] = {tensor_2d(ctx, rows, 3, values), y};
        stator_tensor *out[1] = {NULL};
        CHECK_OK(ctx, stator_call_tensors(function, 2, in, 1, out));
        check_sum(out[0], rows);
        memset(stator_tensor_data(out[0]), 0, stator_tensor_size_bytes(out[0]));
        CHECK_OK(ctx, stator_call_tensors(function, 2, in, 1, out)); /* in place */
        check_sum(out[0], rows);
        stator_tensor_release(out[0]);
        stator_tensor_release(in[0]);
    }
    stator_tensor_release(y);
    stator_function_destroy(function);
}

/* A result that lies in an input's memory, or partly, is refused, in plain and in bound calls. */
static void test_shared_memory(stator_ctx *ctx, const char *backend)
{
    float values[6] = {0};
    stator_model *model = load_text(ctx, add_text);
    stator_function *function = compile_for(ctx, model, backend);
    stator_bound_call *call = NULL;
    stator_tensor *y = row_tensor(ctx);
    stator_tensor *x = tensor_2d(ctx, 2, 3, values);
    stator_tensor *in[2] = {x, y};
    stator_tensor *out[1] = {x};
    CHECK(stator_call_tensors(function, 2, in, 1, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "output 0 shares memory with input 0") != NULL);
    CHECK(stator_bind(function, 2, in, 1, out, &call) == STATOR_INVALID_ARGUMENT);
    CHECK(call == NULL);
    CHECK(((const float *)stator_tensor_data(x))[0] == 0.0f);
    stator_tensor_release(x);
    stator_tensor_release(y);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void test_wrong_inputs(stator_ctx *ctx)
{
    const float values[8] = {0};
    stator_model *model = load_text(ctx, add_text);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *y = row_tensor(ctx);
    stator_tensor *good = tensor_2d(ctx, 2, 3, values);
    stator_tensor *bad = tensor_2d(ctx, 2, 4, values);
    stator_tensor *empty = tensor_2d(ctx, 0, 3, values);
    stator_tensor *in[2] = {bad, y};
    stator_tensor *out[2] = {NULL, NULL};
    CHECK(stator_call_tensors(function, 2, in, 1, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "input 'x' is f32[2, 4], expected f32[N, 3], and the "
                                             "model does not work with that") != NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "add: sizes 4 and 3") != NULL);
    CHECK(out[0] == NULL);
    CHECK(stator_call_tensors(function, 1, in, 1, out) == STATOR_INVALID_ARGUMENT);
    in[0] = good;
    CHECK(stator_call_tensors(function, 2, in, 2, out) == STATOR_INVALID_ARGUMENT);
    in[0] = empty;
    CHECK(stator_call_tensors(function, 2, in, 1, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strcmp(stator_ctx_error_text(ctx), "input 'x' is f32[0, 3], expected f32[N, 3]: size N "
                                             "must be in 1..64") == 0);
    in[0] = good;
    out[0] = bad; /* a result that does not fit is not overwritten */
    CHECK(stator_call_tensors(function, 2, in, 1, out) == STATOR_INVALID_ARGUMENT);
    CHECK(out[0] == bad);
    stator_tensor_release(y);
    stator_tensor_release(good);
    stator_tensor_release(bad);
    stator_tensor_release(empty);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

/* Sizes that decide each other, and one with a divisor. */
static void test_related_sizes(stator_ctx *ctx)
{
    const char text[] = "stir 1\n"
                        "sym N in [0, 64] multiple of 2\n"
                        "graph @main(%x: f32[N, 1], %y: f32[2*N + 1, 1]) {\n"
                        "  %3 = concat(%x, %y) {axis = 0}\n"
                        "  return z: %3\n"
                        "}\n";
    const float values[9] = {0};
    stator_model *model = load_text(ctx, text);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *t[3] = {tensor_2d(ctx, 4, 1, values), tensor_2d(ctx, 9, 1, values),
                           tensor_2d(ctx, 5, 1, values)};
    stator_tensor *out[1] = {NULL};
    CHECK_OK(ctx, stator_call_tensors(function, 2, t, 1, out));
    stator_tensor *in[2] = {t[0], t[2]};
    CHECK(stator_call_tensors(function, 2, in, 1, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strcmp(stator_ctx_error_text(ctx),
                 "input 'y' is f32[5, 1], expected f32[2*N + 1, 1]: size 2*N + 1 is 9, as other "
                 "sizes of the inputs say") == 0);
    in[0] = t[2];
    CHECK(stator_call_tensors(function, 2, in, 1, out) == STATOR_INVALID_ARGUMENT);
    CHECK(strcmp(stator_ctx_error_text(ctx), "input 'x' is f32[5, 1], expected f32[N, 1]: size N "
                                             "must be in 0..64 and a multiple of 2") == 0);
    for (int i = 0; i < 3; i++) {
        stator_tensor_release(t[i]);
    }
    stator_tensor_release(out[0]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

#define MANY 40

/* MANY inputs are added up; the first two swap their contents, the third doubles. */
static stator_model *many_inputs(stator_ctx *ctx)
{
    char text[8192] = "stir 1\ngraph @main(";
    size_t n = strlen(text);
    for (int i = 0; i < MANY; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%%x%d: f32[4, 4]", i ? ", " : "", i);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, ") {\n  %%s0 = add(%%x0, %%x1)\n");
    for (int i = 2; i < MANY; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "  %%s%d = add(%%s%d, %%x%d)\n", i - 1,
                              i - 2, i);
    }
    (void)snprintf(text + n, sizeof text - n,
                   "  %%d = add(%%x2, %%x2)\n  write %%x0 = %%x1\n  write %%x1 = %%x0\n"
                   "  write %%x2 = %%d\n  return y: %%s%d\n}\n",
                   MANY - 2);
    return load_text(ctx, text);
}

/* A call whose outputs are given allocates nothing, neither for its many inputs nor for its
 * write-backs. */
static void test_steady_call(stator_ctx *ctx, const char *backend)
{
    stator_model *model = many_inputs(ctx);
    stator_function *function = compile_for(ctx, model, backend);
    stator_tensor *in[MANY];
    stator_tensor *out[1] = {NULL};
    for (int i = 0; i < MANY; i++) {
        float values[16];
        for (int k = 0; k < 16; k++) {
            values[k] = (float)(i + 1);
        }
        in[i] = tensor_2d(ctx, 4, 4, values);
    }
    CHECK_OK(ctx, stator_call_tensors(function, MANY, in, 1, out));
    const uint64_t before = stator_x_alloc_requests(ctx);
    for (int i = 0; i < 9; i++) {
        CHECK_OK(ctx, stator_call_tensors(function, MANY, in, 1, out));
    }
    CHECK(stator_x_alloc_requests(ctx) == before);
    CHECK(*(float *)stator_tensor_data(in[0]) == 1.0f); /* swapped ten times */
    CHECK(*(float *)stator_tensor_data(in[1]) == 2.0f);
    CHECK(*(float *)stator_tensor_data(in[2]) == 3.0f * 1024.0f);
    CHECK(*(float *)stator_tensor_data(out[0]) == 817.0f + 3.0f * 512.0f);
    for (int i = 0; i < MANY; i++) {
        stator_tensor_release(in[i]);
    }
    stator_tensor_release(out[0]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void test_bound_call(stator_ctx *ctx)
{
    const float values[6] = {0, 1, 2, 3, 4, 5};
    stator_model *model = load_text(ctx, add_text);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *in[2] = {tensor_2d(ctx, 2, 3, values), row_tensor(ctx)};
    stator_tensor *out[1] = {NULL};
    stator_bound_call *call = NULL;
    CHECK_OK(ctx, stator_bind(function, 2, in, 1, out, &call));
    const uint64_t before = stator_x_alloc_requests(ctx);
    for (int i = 0; i < 100; i++) {
        memset(stator_tensor_data(out[0]), 0, stator_tensor_size_bytes(out[0]));
        CHECK_OK(ctx, stator_bound_call_run(call));
        check_sum(out[0], 2);
    }
    CHECK(stator_x_alloc_requests(ctx) == before);
    stator_bound_call_destroy(call);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_tensor_release(out[0]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static int deleted;

static void count_delete(DLManagedTensorVersioned *managed)
{
    (void)managed;
    deleted++;
}

/* A transposed view goes in without the caller copying, a result comes out without a copy. */
static void test_dlpack(stator_ctx *ctx)
{
    static float values[6] = {0, 3, 1, 4, 2, 5}; /* column-major 2x3 of 0..5 */
    int64_t shape[2] = {2, 3};
    int64_t strides[2] = {1, 2};
    DLManagedTensorVersioned managed = {
        .version = {.major = DLPACK_MAJOR_VERSION},
        .deleter = count_delete,
        .dl_tensor = {.data = values,
                      .device = {.device_type = kDLCPU},
                      .ndim = 2,
                      .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                      .shape = shape,
                      .strides = strides}};
    stator_model *model = load_text(ctx, add_text);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *in[2] = {NULL, row_tensor(ctx)};
    stator_tensor *out[1] = {NULL};
    CHECK_OK(ctx, stator_tensor_from_dlpack(ctx, &managed, &in[0]));
    CHECK(stator_tensor_data(in[0]) == (void *)values);
    CHECK_OK(ctx, stator_call_tensors(function, 2, in, 1, out));
    check_sum(out[0], 2);
    stator_tensor_release(in[0]);
    CHECK(deleted == 1);
    DLManagedTensorVersioned *exported = NULL;
    CHECK_OK(ctx, stator_tensor_to_dlpack(out[0], &exported));
    CHECK(exported->dl_tensor.data == stator_tensor_data(out[0]));
    stator_tensor_release(out[0]);
    CHECK(((const float *)exported->dl_tensor.data)[5] == 35.0f); /* the capsule holds it */
    exported->deleter(exported);
    stator_tensor_release(in[1]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void test_write_back(stator_ctx *ctx, const char *backend)
{
    const char text[] = "stir 1\n"
                        "graph @main(%x: f32[2, 2], %y: f32[2, 2]) {\n"
                        "  %3 = add(%x, %y) : f32[2, 2]\n"
                        "  %4 = assign(%x, %3) : f32[2, 2]\n"
                        "  %5 = mul(%4, %y) : f32[2, 2]\n"
                        "  return z: %5\n"
                        "}\n";
    const float a[4] = {1, 2, 3, 4};
    const float b[4] = {10, 20, 30, 40};
    stator_model *model = load_text(ctx, text);
    stator_function *function = compile_for(ctx, model, backend);
    stator_tensor *in[2] = {tensor_2d(ctx, 2, 2, a), tensor_2d(ctx, 2, 2, b)};
    stator_tensor *out[1] = {NULL};
    CHECK_OK(ctx, stator_call_tensors(function, 2, in, 1, out));
    CHECK(((float *)stator_tensor_data(in[0]))[3] == 44.0f);
    CHECK(((float *)stator_tensor_data(out[0]))[3] == 1760.0f);
    stator_tensor_release(out[0]);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

int main(void)
{
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    test_sizes(ctx, "eager");
    test_sizes(ctx, "aot_eager");
    test_shared_memory(ctx, "eager");
    test_shared_memory(ctx, "aot_eager");
    test_wrong_inputs(ctx);
    test_related_sizes(ctx);
    test_steady_call(ctx, "eager");
    test_steady_call(ctx, "aot_eager");
    test_bound_call(ctx);
    test_dlpack(ctx);
    test_write_back(ctx, "eager");
    test_write_back(ctx, "aot_eager");
    stator_ctx_destroy(ctx);
    return 0;
}
