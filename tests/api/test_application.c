/* What an application asks for beside loading and calling: tensors over its own memory, compiles
 * ahead, ports by name, a compile that is watched and cancelled, log channels by option. */
#include "api_check.h"

static const char PROGRAM[] = "stir 1\n"
                              "sym N in [1, 1000]\n"
                              "graph @main(%a: f32[N, 3], %b: f32[N, 3]) {\n"
                              "  %s = add(%a, %b) : f32[N, 3]\n"
                              "  %t = exp(%s) : f32[N, 3]\n"
                              "  return total: %s, %t\n"
                              "}\n";

/* ---- buffers ---- */

static void count_end(void *self, void *data)
{
    (void)data;
    ++*(int *)self;
}

static void test_wrap(stator_ctx *ctx)
{
    float memory[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    int ends = 0;
    const int64_t shape[2] = {2, 3};
    stator_buffer buffer = {.struct_size = sizeof buffer,
                            .data = memory + 1, /* not aligned to 16 bytes */
                            .size_bytes = 24,
                            .deleter = count_end,
                            .self = &ends};
    stator_tensor *x = NULL, *none = NULL;
    stator_tensor *out[2] = {NULL, NULL};
    CHECK_OK(ctx, stator_tensor_wrap(ctx, STATOR_F32, 2, shape, &buffer, &x));
    CHECK(stator_tensor_data(x) == memory + 1 && stator_tensor_size_bytes(x) == 24);
    stator_model *model = load_text(ctx, PROGRAM);
    stator_function *function = compile_for(ctx, model, "eager");
    CHECK_OK(ctx, stator_call_tensors(function, 2, (stator_tensor *[]){x, x}, 2, out));
    CHECK(((const float *)stator_tensor_data(out[0]))[5] == 12.0f);
    stator_tensor *small = tensor_2d(ctx, 1, 3, memory); /* no room for the result */
    CHECK(stator_call_tensors(function, 2, (stator_tensor *[]){x, x}, 2,
                              (stator_tensor *[]){small, NULL}) == STATOR_INVALID_ARGUMENT);
    CHECK(strcmp(stator_ctx_error_text(ctx), "the tensor given for output 0 is f32[1, 3], expected "
                                             "f32[2, 3]") == 0);
    stator_tensor_release(small);
    stator_tensor_retain(x);
    stator_tensor_release(x);
    CHECK(ends == 0);
    stator_tensor_release(x);
    CHECK(ends == 1);
    for (int k = 0; k < 2; k++) {
        stator_tensor_release(out[k]);
    }
    buffer.size_bytes = 23;
    CHECK(stator_tensor_wrap(ctx, STATOR_F32, 2, shape, &buffer, &none) == STATOR_INVALID_ARGUMENT);
    CHECK(strcmp(stator_ctx_error_text(ctx), "the tensor takes 24 bytes, the buffer has 23") == 0);
    buffer = (stator_buffer){
        .struct_size = sizeof buffer, .size_bytes = 24, .deleter = count_end, .self = &ends};
    CHECK(stator_tensor_wrap(ctx, STATOR_F32, 2, shape, &buffer, &none) == STATOR_INVALID_ARGUMENT);
    CHECK(stator_tensor_wrap(ctx, STATOR_F32, 2, NULL, &buffer, &none) == STATOR_INVALID_ARGUMENT);
    CHECK(stator_tensor_wrap(ctx, 99, 0, NULL, &buffer, &none) == STATOR_INVALID_ARGUMENT);
    CHECK(strcmp(stator_ctx_error_text(ctx), "dtype 99 is not one of stator/dtype.def") == 0);
    buffer.data = memory;
    buffer.reserved = 7;
    CHECK(stator_tensor_wrap(ctx, STATOR_F32, 2, shape, &buffer, &none) == STATOR_INVALID_ARGUMENT);
    CHECK(none == NULL && ends == 1);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

/* ---- compiles ahead ---- */

static void test_prepare(stator_ctx *ctx)
{
    const int64_t two[2] = {2, 3}, wrong[2] = {2, 4}, negative[2] = {-1, 3};
    const float values[6] = {1, 2, 3, 4, 5, 6};
    stator_model *model = load_text(ctx, PROGRAM);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *x = tensor_2d(ctx, 2, 3, values);
    stator_tensor *out[2] = {NULL, NULL};
    stator_shape in[2] = {{.rank = 2, .dims = two}, {.rank = 2, .dims = two}};
    CHECK_OK(ctx, stator_function_prepare(function, 2, in));
    CHECK(stator_function_compiles(function) == 1);
    CHECK_OK(ctx, stator_call_tensors(function, 2, (stator_tensor *[]){x, x}, 2, out));
    CHECK_OK(ctx, stator_function_prepare(function, 2, in));
    CHECK(stator_function_compiles(function) == 1);
    CHECK(stator_function_prepare(function, 1, in) == STATOR_INVALID_ARGUMENT);
    CHECK(stator_function_prepare(function, 2, NULL) == STATOR_INVALID_ARGUMENT);
    in[1].reserved = 1;
    CHECK(stator_function_prepare(function, 2, in) == STATOR_INVALID_ARGUMENT);
    in[1].reserved = 0;
    in[1].dims = negative;
    CHECK(stator_function_prepare(function, 2, in) == STATOR_INVALID_ARGUMENT);
    in[1].dims = wrong; /* an axis that the model declares becomes a symbol, and does not add up */
    CHECK(stator_function_prepare(function, 2, in) == STATOR_INVALID_ARGUMENT);
    for (int k = 0; k < 2; k++) {
        stator_tensor_release(out[k]);
    }
    stator_tensor_release(x);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

/* ---- names ---- */

static void test_names(stator_ctx *ctx)
{
    uint32_t k = 9;
    stator_model *model = load_text(ctx, PROGRAM);
    CHECK_OK(ctx, stator_model_find_input(model, "b", &k));
    CHECK(k == 1);
    CHECK_OK(ctx, stator_model_find_output(model, "total", &k));
    CHECK(k == 0);
    CHECK_OK(ctx, stator_model_find_output(model, "output_1", &k));
    CHECK(k == 1);
    CHECK(stator_model_find_output(model, "totl", &k) == STATOR_NOT_FOUND);
    CHECK(strcmp(stator_ctx_error_text(ctx), "the model has no output 'totl' (did you mean "
                                             "'total'?); its outputs are total, output_1") == 0);
    CHECK(stator_model_find_input(model, NULL, &k) == STATOR_INVALID_ARGUMENT);
    stator_model_destroy(model);
}

/* ---- watching ---- */

typedef struct watched {
    int stages, parts, cancel_at, asked;
} watched;

static void on_stage(void *self, const char *stage, uint32_t done, uint32_t total)
{
    watched *w = self;
    w->stages++;
    w->parts += strcmp(stage, "compile eager") == 0 && done < total;
}

static int32_t ask(void *self)
{
    watched *w = self;
    return ++w->asked == w->cancel_at;
}

static void test_watch(stator_ctx *ctx)
{
    const float values[6] = {0};
    watched w = {.cancel_at = 1};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "eager",
                                            .flags = STATOR_COMPILE_NO_CACHE,
                                            .progress = on_stage,
                                            .is_cancelled = ask,
                                            .watch_self = &w};
    stator_model *model = load_text(ctx, PROGRAM);
    stator_function *function = NULL;
    stator_tensor *x = tensor_2d(ctx, 2, 3, values);
    stator_tensor *const in[2] = {x, x};
    stator_tensor *out[2] = {NULL, NULL};
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    CHECK(stator_call_tensors(function, 2, in, 2, out) == STATOR_CANCELLED);
    CHECK(strstr(stator_ctx_error_text(ctx), "cancelled the compile before stage '") != NULL);
    CHECK(out[0] == NULL && stator_function_compiles(function) == 0);
    w = (watched){.cancel_at = 0};
    CHECK_OK(ctx, stator_call_tensors(function, 2, in, 2, out));
    CHECK(w.stages > 0 && w.parts == 1 && w.asked == w.stages + 1);
    w = (watched){.cancel_at = 1};
    CHECK(stator_call_tensors(function, 2, in, 2, out) == STATOR_CANCELLED);
    CHECK(w.stages == 0);
    CHECK_OK(ctx, stator_call_tensors(function, 2, in, 2, out));
    for (int k = 0; k < 2; k++) {
        stator_tensor_release(out[k]);
    }
    stator_tensor_release(x);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

/* ---- the log ---- */

typedef struct heard {
    int passes, warnings;
} heard;

static void on_line(void *self, const char *channel, uint32_t level, const char *text)
{
    heard *h = self;
    h->passes += strcmp(channel, "passes") == 0 && level == 2;
    h->warnings += strstr(text, "log_channels: there is no channel 'nonsense'") != NULL;
}

static void test_channels(void)
{
    heard h = {0};
    const float values[6] = {0};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE,
                                        .log = on_line,
                                        .log_self = &h,
                                        .log_channels = "passes,nonsense"};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *x = tensor_2d(ctx, 2, 3, values);
    stator_tensor *out[2] = {NULL, NULL};
    CHECK_OK(ctx, stator_call_tensors(function, 2, (stator_tensor *[]){x, x}, 2, out));
    CHECK(h.passes > 0 && h.warnings == 1);
    for (int k = 0; k < 2; k++) {
        stator_tensor_release(out[k]);
    }
    stator_tensor_release(x);
    stator_function_destroy(function);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

int main(void)
{
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    test_wrap(ctx);
    test_prepare(ctx);
    test_names(ctx);
    test_watch(ctx);
    test_channels();
    stator_ctx_destroy(ctx);
    return 0;
}
