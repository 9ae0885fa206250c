/* Threads: eight callers of one function with different sizes, while others load, compile and run
 * models of their own in the same context. Each result is compared with what one thread computed on
 * the same backend. */
#include "api_check.h"

#include <pthread.h>

#define CALLERS 8
#define ROUNDS 40

static const char shared_text[] = "stir 1\n"
                                  "sym N in [1, 64]\n"
                                  "graph @main(%x: f32[N, 4], %w: f32[4, 4]) {\n"
                                  "  %3 = matmul(%x, %w) : f32[N, 4]\n"
                                  "  %4 = softmax(%3) : f32[N, 4]\n"
                                  "  %5 = add(%4, %x) : f32[N, 4]\n"
                                  "  return y: %5\n"
                                  "}\n";

typedef struct job {
    stator_ctx *ctx;
    stator_function *shared;
    const char *backend;
    int64_t rows;
    float expected[64 * 4];
    int failures;
} job;

static void fill(float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float)((i * 7) % 11) * 0.25f - 1.0f;
    }
}

static stator_tensor *call_once(stator_ctx *ctx, stator_function *function, int64_t rows)
{
    float values[64 * 4];
    fill(values, 64 * 4);
    stator_tensor *in[2] = {tensor_2d(ctx, rows, 4, values), tensor_2d(ctx, 4, 4, values)};
    stator_tensor *out[1] = {NULL};
    CHECK_OK(ctx, stator_call_tensors(function, 2, in, 1, out));
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    return out[0];
}

static void compare(job *j, stator_tensor *y)
{
    const size_t bytes = (size_t)j->rows * 4 * sizeof(float);
    j->failures += memcmp(stator_tensor_data(y), j->expected, bytes) != 0;
    stator_tensor_release(y);
}

static void *call_shared(void *self)
{
    job *j = self;
    for (int round = 0; round < ROUNDS; round++) {
        compare(j, call_once(j->ctx, j->shared, j->rows));
    }
    return NULL;
}

static void *compile_own(void *self)
{
    job *j = self;
    for (int round = 0; round < ROUNDS / 8; round++) {
        stator_model *model = load_text(j->ctx, shared_text);
        stator_function *function = compile_for(j->ctx, model, j->backend);
        compare(j, call_once(j->ctx, function, j->rows));
        stator_function_destroy(function);
        stator_model_destroy(model);
    }
    return NULL;
}

static void expect(job *j)
{
    stator_model *model = load_text(j->ctx, shared_text);
    stator_function *function = compile_for(j->ctx, model, j->backend);
    stator_tensor *y = call_once(j->ctx, function, j->rows);
    memcpy(j->expected, stator_tensor_data(y), stator_tensor_size_bytes(y));
    stator_tensor_release(y);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

int main(void)
{
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options, .threads = 1};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, shared_text);
    stator_function *shared = compile_for(ctx, model, "eager");
    static job jobs[CALLERS + 4];
    pthread_t threads[CALLERS + 4];
    for (int i = 0; i < CALLERS + 4; i++) {
        jobs[i] = (job){.ctx = ctx, .shared = shared, .rows = 1 + 5 * i};
        jobs[i].backend = i < CALLERS || i % 2 == 0 ? "eager" : "aot_eager";
        expect(&jobs[i]);
    }
    for (int i = 0; i < CALLERS + 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, i < CALLERS ? call_shared : compile_own,
                             &jobs[i]) == 0);
    }
    for (int i = 0; i < CALLERS + 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(jobs[i].failures == 0);
    }
    stator_function_destroy(shared);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
