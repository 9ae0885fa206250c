/* The option verify: the first calls of each program, and they alone, are compared with eager. A
 * planted backend is wrong about tanh; what a call hands over when it was, bound calls, programs
 * for other sizes and concurrent callers. */
#include "api_check.h"

#include <pthread.h>

#define CALLERS 4

static const char text[] = "stir 1\n"
                           "graph @main(%x: f32[N, 4]) {\n"
                           "  %a = exp(%x)\n"
                           "  %b = tanh(%a)\n"
                           "  return b: %b, a: %a\n"
                           "}\n";

/* x is written, and wrongly so. */
static const char writing[] = "stir 1\n"
                              "graph @main(%x: f32[2, 4]) {\n"
                              "  %a = tanh(%x)\n"
                              "  %w = assign(%x, %a)\n"
                              "  %b = exp(%x)\n"
                              "  return b: %b\n"
                              "}\n";

static stator_ctx *open_with(const char *plugin)
{
    static char dir[512];
    const char *dirs[] = {dir};
    (void)snprintf(dir, sizeof dir, "%s/tests/planted/%s", ST_TEST_BUILD, plugin);
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE,
                                        .threads = 2,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    return ctx;
}

static stator_function *verified(stator_ctx *ctx, stator_model *model, const char *backend,
                                 uint32_t calls)
{
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .flags = STATOR_COMPILE_STATIC,
                                            .backend = backend,
                                            .verify = calls};
    stator_function *function = NULL;
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    return function;
}

static stator_tensor *input(stator_ctx *ctx, int64_t rows)
{
    const float values[12] = {0.5f, -1, 2, 0, 1, 1, -2, 0.25f, 3, 0.125f, 1, 1};
    return tensor_2d(ctx, rows, 4, values);
}

static void check_difference(stator_ctx *ctx)
{
    const char *said = stator_ctx_error_text(ctx);
    CHECK(strstr(said, "output 'b' of wrong_tanh differs from eager's in values") != NULL);
    CHECK(strstr(said, "the first value that differs is 'b'") != NULL);
    CHECK(strstr(stator_ctx_error_hint(ctx), "stator bisect") != NULL);
}

/* Two calls of each program are compared, the third is not; each size has its own program. */
static void test_first_calls(stator_ctx *ctx, stator_model *model)
{
    stator_function *function = verified(ctx, model, "wrong_tanh", 2);
    for (int64_t rows = 2; rows <= 3; rows++) {
        stator_tensor *in = input(ctx, rows);
        for (int call = 0; call < 4; call++) {
            stator_tensor *out[2] = {NULL, NULL};
            const stator_status status = stator_call_tensors(function, 1, &in, 2, out);
            CHECK(status == (call < 2 ? STATOR_DATA_LOSS : STATOR_OK));
            CHECK((out[0] == NULL) == (call < 2) && (out[1] == NULL) == (call < 2));
            if (call < 2) {
                check_difference(ctx);
            }
            stator_tensor_release(out[0]);
            stator_tensor_release(out[1]);
        }
        stator_tensor_release(in);
    }
    stator_function_destroy(function);
}

/* The caller's tensor stays the caller's. */
static void test_given(stator_ctx *ctx, stator_model *model)
{
    stator_function *function = verified(ctx, model, "wrong_tanh", 1);
    stator_tensor *in = input(ctx, 2);
    stator_tensor *mine = input(ctx, 2);
    stator_tensor *out[2] = {mine, NULL};
    CHECK(stator_call_tensors(function, 1, &in, 2, out) == STATOR_DATA_LOSS);
    CHECK(out[0] == mine && out[1] == NULL);
    stator_tensor_release(mine);
    stator_tensor_release(in);
    stator_function_destroy(function);
}

static void test_bound(stator_ctx *ctx, stator_model *model)
{
    stator_tensor *in = input(ctx, 2);
    stator_tensor *out[2] = {NULL, NULL};
    stator_bound_call *call = NULL;
    stator_function *function = verified(ctx, model, "wrong_tanh", 1);
    CHECK(stator_bind(function, 1, &in, 2, out, &call) == STATOR_DATA_LOSS);
    CHECK(call == NULL && out[0] == NULL && out[1] == NULL);
    CHECK_OK(ctx, stator_bind(function, 1, &in, 2, out, &call)); /* the second is not compared */
    CHECK_OK(ctx, stator_bound_call_run(call));
    stator_bound_call_destroy(call);
    stator_tensor_release(out[0]);
    stator_tensor_release(out[1]);
    stator_tensor_release(in);
    stator_function_destroy(function);
}

/* What a call writes is compared too, with what the reference made of the inputs as they were. */
static void test_written(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, writing);
    stator_tensor *in = input(ctx, 2);
    stator_tensor *out = NULL;
    stator_function *right = verified(ctx, model, "aot_eager", 2);
    CHECK_OK(ctx, stator_call_tensors(right, 1, &in, 1, &out));
    CHECK_OK(ctx, stator_call_tensors(right, 1, &in, 1, &out));
    stator_function_destroy(right);
    stator_function *wrong = verified(ctx, model, "wrong_tanh", 1);
    CHECK(stator_call_tensors(wrong, 1, &in, 1, &out) == STATOR_DATA_LOSS);
    stator_function_destroy(wrong);
    stator_tensor_release(out);
    stator_tensor_release(in);
    stator_model_destroy(model);
}

/* Nothing is said of right answers, nor of eager beside itself. */
static void test_right(stator_ctx *ctx, stator_model *model)
{
    const char *const backends[] = {"eager", "aot_eager"};
    for (int b = 0; b < 2; b++) {
        stator_function *function = verified(ctx, model, backends[b], 3);
        stator_tensor *in = input(ctx, 3);
        for (int call = 0; call < 4; call++) {
            stator_tensor *out[2] = {NULL, NULL};
            CHECK_OK(ctx, stator_call_tensors(function, 1, &in, 2, out));
            stator_tensor_release(out[0]);
            stator_tensor_release(out[1]);
        }
        stator_tensor_release(in);
        stator_function_destroy(function);
    }
}

typedef struct caller {
    stator_ctx *ctx;
    stator_function *function;
    uint32_t n_wrong;
} caller;

static void *call_four_times(void *self)
{
    caller *c = self;
    stator_tensor *in = input(c->ctx, 2);
    for (int i = 0; i < 4; i++) {
        stator_tensor *out[2] = {NULL, NULL};
        const stator_status status = stator_call_tensors(c->function, 1, &in, 2, out);
        CHECK(status == STATOR_OK || status == STATOR_DATA_LOSS);
        c->n_wrong += status != STATOR_OK;
        stator_tensor_release(out[0]);
        stator_tensor_release(out[1]);
    }
    stator_tensor_release(in);
    return NULL;
}

/* So many calls are compared, whoever makes them. */
static void test_callers(stator_ctx *ctx, stator_model *model)
{
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    uint32_t n_wrong = 0;
    stator_function *function = verified(ctx, model, "wrong_tanh", 5);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.ctx = ctx, .function = function};
        CHECK(pthread_create(&threads[i], NULL, call_four_times, &callers[i]) == 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        n_wrong += callers[i].n_wrong;
    }
    CHECK(n_wrong == 5);
    stator_function_destroy(function);
}

int main(void)
{
    stator_ctx *ctx = open_with("wrong_tanh");
    stator_model *model = load_text(ctx, text);
    test_first_calls(ctx, model);
    test_given(ctx, model);
    test_bound(ctx, model);
    test_written(ctx);
    test_right(ctx, model);
    test_callers(ctx, model);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
