/* Training in mixed precision from C: fifty steps in bf16 and f16 beside the same in f32 on every
 * backend that is there; a step that overflows changes nothing but the scale of the loss; two runs
 * end in equal bits; what is refused. */
#define _GNU_SOURCE
#include "api_check.h"

#include <float.h>
#include <math.h>
#include <stator/train.h>

#define STEPS 50
#define INPUTS_MAX 24u

static const char PROGRAM[] =
    "stir 1\n"
    "graph @main(\n"
    "  %x: f32[4, 3],\n"
    "  param %w1 \"w1\": f32[3, 2] = {0.5, -0.25, 0.125, 0.75, -0.5, 0.375},\n"
    "  param %b1 \"b1\": f32[2] = {0.1, -0.2},\n"
    "  param %w2 \"w2\": f32[2, 1] = {0.625, -0.875},\n"
    "  param %b2 \"b2\": f32[1] = {0.05}\n"
    ") {\n"
    "  %p = matmul(%x, %w1)\n"
    "  %q = add(%p, %b1)\n"
    "  %h = tanh(%q)\n"
    "  %r = matmul(%h, %w2)\n"
    "  %y = add(%r, %b2)\n"
    "  return y: %y\n"
    "}\n";

static const float X[12] = {1, 2, -1, 0.5f, -1.5f, 0.25f, -0.75f, 0.5f, 1.25f, 2, 1, -0.5f};
static const float TARGET[4] = {0.5f, -1, 0.75f, 0.25f};

/* ---- a step and what it is called with ---- */

typedef struct training {
    stator_ctx *ctx;
    stator_model *step;
    stator_function *function;
    uint32_t n_in;
    stator_tensor *in[INPUTS_MAX];
    float loss; /* of the newest call */
} training;

static const char *const scale_keys[] = {"init_scale", "growth_interval"};
static const char *const scale_values[] = {"1024", "10"};

/* 0: there is no such backend here. */
static int open_training(training *t, stator_ctx *ctx, stator_model *model, const char *backend,
                         const char *amp)
{
    const stator_train_options options = {.struct_size = sizeof options,
                                          .loss = "mse",
                                          .optimizer = "adamw",
                                          .amp = amp,
                                          .option_keys = scale_keys,
                                          .option_values = scale_values,
                                          .option_count =
                                              amp != NULL && strcmp(amp, "f16") == 0 ? 2 : 0};
    const stator_compile_options compile = {.struct_size = sizeof compile, .backend = backend};
    *t = (training){.ctx = ctx};
    CHECK_OK(ctx, stator_model_train_step(model, &options, &t->step));
    const stator_status status = stator_compile(t->step, &compile, &t->function);
    if (status == STATOR_NOT_FOUND || status == STATOR_UNAVAILABLE) {
        CHECK(strcmp(backend, "eager") != 0 && strcmp(backend, "aot_eager") != 0);
        stator_model_destroy(t->step);
        return 0;
    }
    CHECK_OK(ctx, status);
    t->n_in = stator_model_input_count(t->step);
    CHECK(t->n_in <= INPUTS_MAX);
    t->in[0] = tensor_2d(ctx, 4, 3, X);
    t->in[1] = tensor_2d(ctx, 4, 1, TARGET);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &t->in[2]));
    *(double *)stator_tensor_data(t->in[2]) = 0.02;
    CHECK_OK(ctx, stator_train_state(model, t->step, NULL, t->n_in, t->in));
    return 1;
}

static void close_training(training *t)
{
    for (uint32_t k = 0; k < t->n_in; k++) {
        stator_tensor_release(t->in[k]);
    }
    stator_function_destroy(t->function);
    stator_model_destroy(t->step);
}

static void *state(training *t, const char *name)
{
    uint32_t k = 0;
    CHECK_OK(t->ctx, stator_model_find_input(t->step, name, &k));
    return stator_tensor_data(t->in[k]);
}

static void make_steps(training *t, int n)
{
    stator_tensor *out = NULL;
    for (int i = 0; i < n; i++) {
        CHECK_OK(t->ctx, stator_call_tensors(t->function, t->n_in, t->in, 1, &out));
    }
    CHECK(stator_tensor_dtype(out) == STATOR_F32);
    t->loss = *(float *)stator_tensor_data(out);
    stator_tensor_release(out);
}

/* All that is trained, byte behind byte; returns how many bytes. */
static size_t copy_state(training *t, const char *const *names, uint32_t n, uint8_t *to)
{
    size_t size = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        CHECK_OK(t->ctx, stator_model_find_input(t->step, names[i], &k));
        memcpy(to + size, stator_tensor_data(t->in[k]), stator_tensor_size_bytes(t->in[k]));
        size += stator_tensor_size_bytes(t->in[k]);
    }
    return size;
}

static const char *const trained[] = {"w1",
                                      "b1",
                                      "w2",
                                      "b2",
                                      "exp_avg_w1",
                                      "exp_avg_b1",
                                      "exp_avg_w2",
                                      "exp_avg_b2",
                                      "exp_avg_sq_w1",
                                      "exp_avg_sq_b1",
                                      "exp_avg_sq_w2",
                                      "exp_avg_sq_b2",
                                      "step"};
#define N_TRAINED 13u
#define STATE_BYTES (3u * 11u * 4u + 8u)

/* ---- what is expected ---- */

/* Numbers of 8 bits (bf16) or 11 (f16) in forward and backward pass: fifty steps of 0.02 differ
 * from those in f32 by a few of their roundings, and no more. */
static void expect_near(training *low, training *f32, double tolerance)
{
    const float *const a = state(low, "w1"), *const b = state(f32, "w1");
    CHECK(low->loss < 0.5f && fabs((double)low->loss - (double)f32->loss) < tolerance);
    for (int i = 0; i < 6; i++) {
        CHECK(fabs((double)a[i] - (double)b[i]) < tolerance);
    }
}

/* In one step x is infinite in f16: the step leaves every bit, the scale is halved and the count of
 * steps begins anew; ten good ones double it. */
static void expect_skipped(training *t)
{
    uint8_t before[STATE_BYTES], after[STATE_BYTES];
    float *const x = stator_tensor_data(t->in[0]);
    const float scale = *(float *)state(t, "loss_scale");
    CHECK(copy_state(t, trained, N_TRAINED, before) == STATE_BYTES);
    x[0] = 1e6f;
    make_steps(t, 1);
    x[0] = X[0];
    CHECK(copy_state(t, trained, N_TRAINED, after) == STATE_BYTES);
    CHECK(memcmp(before, after, STATE_BYTES) == 0);
    CHECK(*(float *)state(t, "loss_scale") == scale / 2);
    CHECK(*(int64_t *)state(t, "growth_tracker") == 0);
    make_steps(t, 9);
    CHECK(*(float *)state(t, "loss_scale") == scale / 2);
    CHECK(*(int64_t *)state(t, "growth_tracker") == 9);
    make_steps(t, 1);
    CHECK(*(float *)state(t, "loss_scale") == scale);
    CHECK(*(int64_t *)state(t, "growth_tracker") == 0);
    CHECK(*(int64_t *)state(t, "step") == STEPS + 10);
}

/* However often a step overflows, the scale is a normal number, and good steps double it again. */
static void expect_held(training *t)
{
    float *const x = stator_tensor_data(t->in[0]);
    x[0] = 1e6f;
    make_steps(t, 180); /* 2^-165 of 2^15 would be 0 */
    CHECK(*(float *)state(t, "loss_scale") == FLT_MIN);
    x[0] = X[0];
    make_steps(t, 10);
    CHECK(*(float *)state(t, "loss_scale") == 2 * FLT_MIN);
}

static void expect_same_bits(stator_ctx *ctx, stator_model *model, const char *backend,
                             const char *amp)
{
    uint8_t bytes[2][STATE_BYTES];
    for (int i = 0; i < 2; i++) {
        training t;
        CHECK(open_training(&t, ctx, model, backend, amp));
        make_steps(&t, STEPS);
        CHECK(copy_state(&t, trained, N_TRAINED, bytes[i]) == STATE_BYTES);
        close_training(&t);
    }
    CHECK(memcmp(bytes[0], bytes[1], STATE_BYTES) == 0);
}

/* Returns whether the backend is there. */
static int run_on(stator_ctx *ctx, stator_model *model, const char *backend)
{
    training f32, bf16, f16;
    if (!open_training(&f32, ctx, model, backend, NULL)) {
        return 0;
    }
    CHECK(open_training(&bf16, ctx, model, backend, "bf16"));
    CHECK(open_training(&f16, ctx, model, backend, "f16"));
    make_steps(&f32, STEPS);
    make_steps(&bf16, STEPS);
    make_steps(&f16, STEPS);
    expect_near(&bf16, &f32, 0.03);
    expect_near(&f16, &f32, 0.004);
    CHECK(bf16.n_in == f32.n_in && f16.n_in == f32.n_in + 2u);
    CHECK(*(float *)state(&f16, "loss_scale") == 1024 * 32); /* 50 steps, doubled after each 10 */
    expect_skipped(&f16);
    expect_held(&f16);
    close_training(&f32);
    close_training(&bf16);
    close_training(&f16);
    expect_same_bits(ctx, model, backend, "bf16");
    expect_same_bits(ctx, model, backend, "f16");
    return 1;
}

static void expect_refused(stator_ctx *ctx, stator_model *model, const char *amp, const char *key,
                           const char *value, const char *words)
{
    const stator_train_options options = {.struct_size = sizeof options,
                                          .loss = "mse",
                                          .optimizer = "sgd",
                                          .amp = amp,
                                          .option_keys = &key,
                                          .option_values = &value,
                                          .option_count = key != NULL};
    stator_model *step = NULL;
    CHECK(stator_model_train_step(model, &options, &step) != STATOR_OK && step == NULL);
    if (strstr(stator_ctx_error_text(ctx), words) == NULL) {
        (void)fprintf(stderr, "%s\n", stator_ctx_error_text(ctx));
        CHECK(0);
    }
}

int main(void)
{
    stator_ctx *ctx = NULL;
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    static const char *const backends[] = {"eager", "aot_eager", "inductor-cpu", "cuda_soft"};
    int n = 0;
    for (int b = 0; b < 4; b++) {
        n += run_on(ctx, model, backends[b]);
    }
    CHECK(n >= 2);
    expect_refused(ctx, model, "bf17", NULL, NULL, "amp is 'bf17', expected bf16 or f16");
    expect_refused(ctx, model, "f16", "grow_interval", "5", "did you mean 'growth_interval'?");
    expect_refused(ctx, model, "f16", "growth_interval", "0", "a whole number in [1, inf)");
    expect_refused(ctx, model, "f16", "init_scale", "0",
                   "a number in [1.1754943508222875e-38, 3.4028234663852886e38]");
    expect_refused(ctx, model, "f16", "growth_factor", "1", "a number in (1, inf)");
    expect_refused(ctx, model, "f16", "backoff_factor", "1", "a number in (0, 1)");
    expect_refused(ctx, model, "bf16", "init_scale", "8",
                   "in this step: a step with amp f16 has it");
    expect_refused(ctx, model, NULL, "backoff_factor", "0.5",
                   "in this step: a step with amp f16 has it");
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
