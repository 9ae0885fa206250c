/* Calls that are refused leave a function as it was: with every wrong input as the first call, then
 * again, then a right one; the same for bound calls. The texts name the input, sizes that no tensor
 * can have are refused with a text as well, and nothing stays allocated. */
#include "api_check.h"

static const char PROGRAM[] = "stir 1\n"
                              "graph @main(%x: f32[2, 3]) {\n"
                              "  %c = constant {value = f32[2, 1] {0, -9}} : f32[2, 1]\n"
                              "  %y = max(%x, %c) : f32[2, 3]\n"
                              "  return y: %y\n"
                              "}\n";

static stator_tensor *make(stator_ctx *ctx, stator_dtype dtype, uint32_t rank, const int64_t *shape)
{
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, dtype, rank, shape, &tensor));
    memset(stator_tensor_data(tensor), 0, stator_tensor_size_bytes(tensor));
    return tensor;
}

static void expect_refused(stator_ctx *ctx, stator_function *function, stator_tensor *wrong,
                           const char *words)
{
    stator_tensor *out = NULL;
    stator_bound_call *call = NULL;
    for (int again = 0; again < 3; again++) {
        CHECK(stator_call_tensors(function, 1, &wrong, 1, &out) == STATOR_INVALID_ARGUMENT);
        CHECK(out == NULL);
        CHECK(strstr(stator_ctx_error_text(ctx), words) != NULL);
        CHECK(stator_bind(function, 1, &wrong, 1, &out, &call) == STATOR_INVALID_ARGUMENT);
        CHECK(call == NULL && out == NULL);
    }
}

static void expect_right(stator_ctx *ctx, stator_function *function)
{
    const float values[6] = {-1, 2, -3, 4, -5, 6};
    stator_tensor *in = tensor_2d(ctx, 2, 3, values);
    stator_tensor *out = NULL;
    CHECK_OK(ctx, stator_call_tensors(function, 1, &in, 1, &out));
    CHECK(((const float *)stator_tensor_data(out))[0] == 0.0f);
    CHECK(((const float *)stator_tensor_data(out))[5] == 6.0f);
    stator_tensor_release(in);
    stator_tensor_release(out);
}

static void test_wrong_tensor(stator_ctx *ctx, stator_dtype dtype, uint32_t rank,
                              const int64_t *shape, const char *words)
{
    stator_model *model = load_text(ctx, PROGRAM);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *wrong = make(ctx, dtype, rank, shape);
    expect_refused(ctx, function, wrong, words);
    expect_right(ctx, function);
    expect_refused(ctx, function, wrong, words);
    stator_tensor_release(wrong);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void test_impossible_tensors(stator_ctx *ctx)
{
    const int64_t huge[2] = {INT64_C(1) << 62, INT64_C(1) << 62};
    const int64_t large[2] = {INT64_C(1) << 30, INT64_C(1) << 20};
    const int64_t negative[1] = {-1};
    stator_tensor *tensor = NULL;
    CHECK(stator_tensor_create(ctx, STATOR_F32, 2, huge, &tensor) == STATOR_INVALID_ARGUMENT);
    CHECK(strstr(stator_ctx_error_text(ctx), "2^62") != NULL);
    CHECK(stator_tensor_create(ctx, STATOR_F32, 2, large, &tensor) == STATOR_RESOURCE_EXHAUSTED);
    CHECK(strstr(stator_ctx_error_text(ctx), "no memory") != NULL);
    CHECK(stator_tensor_create(ctx, STATOR_F32, 1, negative, &tensor) == STATOR_INVALID_ARGUMENT);
    CHECK(tensor == NULL);
}

/* With strict sizes a call of other sizes than the model declares is refused, each time. */
static void test_strict_sizes(stator_ctx *ctx)
{
    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = "eager", .flags = STATOR_COMPILE_STRICT_SIZES};
    stator_model *model = load_text(ctx, "stir 1\n"
                                         "graph @main(%x: f32[2, 3]) {\n"
                                         "  %y = relu(%x) : f32[2, 3]\n"
                                         "  return y: %y\n"
                                         "}\n");
    stator_function *function = NULL;
    stator_tensor *wrong = make(ctx, STATOR_F32, 2, (const int64_t[]){4, 3});
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    expect_refused(ctx, function, wrong, "axis 0 of input 'x' has size 4, the model declares 2");
    expect_right(ctx, function);
    expect_refused(ctx, function, wrong, "axis 0 of input 'x' has size 4, the model declares 2");
    stator_tensor_release(wrong);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

int main(void)
{
    static const int64_t right[2] = {2, 3}, other[2] = {3, 3}, flat[1] = {6};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .memory_limit_bytes = UINT64_C(1) << 30};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    test_wrong_tensor(ctx, STATOR_I64, 2, right, "input 'x' is i64[2, 3], expected f32[2, 3]");
    test_wrong_tensor(ctx, STATOR_F32, 2, other, "input 'x' is f32[3, 3], expected f32[2, 3]");
    test_wrong_tensor(ctx, STATOR_F32, 1, flat, "input 'x' is f32[6], expected f32[2, 3]");
    test_strict_sizes(ctx);
    test_impossible_tensors(ctx);
    stator_ctx_destroy(ctx);
    return 0;
}
