/* Training steps from C: fifty updates of a small network by each optimizer beside the same
 * computed here in f64, on every backend that is there; schedules, clipping, what is frozen. */
#define _GNU_SOURCE
#include "api_check.h"

#include <math.h>
#include <stator/ops.h>
#include <stator/train.h>

#define STEPS 50

/* y = tanh(x w1 + b1) w2 + b2 */
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

#define N_PARAMS 11u /* w1, b1, w2, b2, one after the other */

static const float X[12] = {1, 2, -1, 0.5f, -1.5f, 0.25f, -0.75f, 0.5f, 1.25f, 2, 1, -0.5f};
static const float TARGET[4] = {0.5f, -1, 0.75f, 0.25f};

/* ---- the same in f64 ---- */

typedef struct reference {
    double p[N_PARAMS], g[N_PARAMS], m[N_PARAMS], v[N_PARAMS], a[N_PARAMS];
} reference;

static double reference_gradients(reference *r)
{
    const double *w1 = r->p, *b1 = r->p + 6, *w2 = r->p + 8, *b2 = r->p + 10;
    double loss = 0;
    memset(r->g, 0, sizeof r->g);
    for (int i = 0; i < 4; i++) {
        double h[2], y = b2[0];
        for (int j = 0; j < 2; j++) {
            double q = b1[j];
            for (int k = 0; k < 3; k++) {
                q += (double)X[i * 3 + k] * w1[k * 2 + j];
            }
            h[j] = tanh(q);
            y += h[j] * w2[j];
        }
        const double d = y - (double)TARGET[i], dy = 2 * d / 4;
        loss += d * d / 4;
        r->g[10] += dy;
        for (int j = 0; j < 2; j++) {
            const double dq = dy * w2[j] * (1 - h[j] * h[j]);
            r->g[8 + j] += dy * h[j];
            r->g[6 + j] += dq;
            for (int k = 0; k < 3; k++) {
                r->g[k * 2 + j] += dq * (double)X[i * 3 + k];
            }
        }
    }
    return loss;
}

typedef void (*update_fn)(reference *r, int i, int t, double lr);

/* momentum 0.9, dampening 0.2 on all but the first step, weight decay 0.01 */
static void sgd(reference *r, int i, int t, double lr)
{
    const double d = r->g[i] + 0.01 * r->p[i];
    r->m[i] = t == 1 ? d : 0.9 * r->m[i] + 0.8 * d;
    r->p[i] -= lr * r->m[i];
}

static void nesterov(reference *r, int i, int t, double lr)
{
    (void)t;
    r->m[i] = 0.9 * r->m[i] + r->g[i];
    r->p[i] -= lr * (r->g[i] + 0.9 * r->m[i]);
}

static void plain(reference *r, int i, int t, double lr)
{
    (void)t;
    r->p[i] -= lr * r->g[i];
}

static void adam_step(reference *r, int i, int t, double lr, double d, int is_ams)
{
    r->m[i] = 0.8 * r->m[i] + 0.2 * d;
    r->v[i] = 0.95 * r->v[i] + 0.05 * d * d;
    r->a[i] = fmax(r->a[i], r->v[i]);
    const double m = r->m[i] / (1 - pow(0.8, t));
    const double v = (is_ams ? r->a[i] : r->v[i]) / (1 - pow(0.95, t));
    r->p[i] -= lr * m / (sqrt(v) + 1e-3);
}

static void adam(reference *r, int i, int t, double lr)
{
    adam_step(r, i, t, lr, r->g[i] + 0.1 * r->p[i], 1);
}

/* No decay of b1 and b2. */
static void adamw(reference *r, int i, int t, double lr)
{
    const int is_weight = i < 6 || (i >= 8 && i < 10);
    r->p[i] *= is_weight ? 1 - lr * 0.1 : 1;
    adam_step(r, i, t, lr, r->g[i], 0);
}

static void rmsprop(reference *r, int i, int t, double lr)
{
    (void)t;
    r->v[i] = 0.9 * r->v[i] + 0.1 * r->g[i] * r->g[i];
    r->a[i] = 0.9 * r->a[i] + 0.1 * r->g[i];
    r->m[i] = 0.5 * r->m[i] + r->g[i] / (sqrt(r->v[i] - r->a[i] * r->a[i]) + 1e-2);
    r->p[i] -= lr * r->m[i];
}

/* The norm of all gradients is at most 0.25, and each element at most 0.2. */
static void clip(reference *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < N_PARAMS; i++) {
        sum += r->g[i] * r->g[i];
    }
    const double factor = fmin(0.25 / (sqrt(sum) + 1e-6), 1);
    for (uint32_t i = 0; i < N_PARAMS; i++) {
        r->g[i] = fmax(-0.2, fmin(0.2, r->g[i] * factor));
    }
}

static double linear_rate(int t, double lr)
{
    const double r = lr + (0.01 - lr) * fmin(fmax((t - 6) / 35.0, 0), 1);
    return t < 5 ? r * t / 5 : r;
}

static double cosine_rate(int t, double lr)
{
    const double f = fmin((t - 1) / 40.0, 1);
    return 0.01 + (lr - 0.01) * 0.5 * (1 + cos(f * acos(-1)));
}

static double warm_rate(int t, double lr)
{
    return lr * fmin(t / 8.0, 1);
}

static double same_rate(int t, double lr)
{
    (void)t;
    return lr;
}

/* ---- one optimizer ---- */

typedef struct row {
    const char *optimizer, *schedule;
    update_fn update;
    double (*rate)(int t, double lr);
    int is_clipped;
    uint32_t n_options;
    const char *keys[6], *values[6];
} row;

static const row rows[] = {
    {"sgd", NULL, plain, same_rate, 0, 0, {NULL}, {NULL}},
    {"sgd",
     "linear",
     sgd,
     linear_rate,
     0,
     6,
     {"momentum", "dampening", "weight_decay", "total_steps", "warmup", "min_lr"},
     {"0.9", "0.2", "0.01", "40", "5", "0.01"}},
    {"sgd",
     "cosine",
     nesterov,
     cosine_rate,
     0,
     4,
     {"momentum", "nesterov", "total_steps", "min_lr"},
     {"0.9", "1", "40", "0.01"}},
    {"adam",
     "warmup",
     adam,
     warm_rate,
     0,
     5,
     {"betas", "eps", "weight_decay", "amsgrad", "warmup"},
     {"0.8,0.95", "1e-3", "0.1", "1", "8"}},
    {"adamw",
     NULL,
     adamw,
     same_rate,
     1,
     6,
     {"betas", "eps", "weight_decay", "no_decay", "clip_norm", "clip_value"},
     {"0.8,0.95", "1e-3", "0.1", "b1,*2?,b2", "0.25", "0.2"}},
    {"rmsprop",
     NULL,
     rmsprop,
     same_rate,
     0,
     4,
     {"alpha", "eps", "momentum", "centered"},
     {"0.9", "1e-2", "0.5", "1"}}};

static stator_model *make_step(stator_ctx *ctx, const stator_model *model, const row *r)
{
    const stator_train_options options = {.struct_size = sizeof options,
                                          .loss = "mse",
                                          .optimizer = r->optimizer,
                                          .schedule = r->schedule,
                                          .option_keys = r->keys,
                                          .option_values = r->values,
                                          .option_count = r->n_options};
    stator_model *step = NULL;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    return step;
}

static uint32_t input_of(stator_ctx *ctx, const stator_model *step, const char *name)
{
    uint32_t k = 0;
    CHECK_OK(ctx, stator_model_find_input(step, name, &k));
    return k;
}

static void expect_parameters(stator_ctx *ctx, const stator_model *step, stator_tensor **in,
                              const reference *r, const char *what)
{
    static const char *const names[] = {"w1", "b1", "w2", "b2"};
    uint32_t i = 0;
    for (uint32_t k = 0; k < 4; k++) {
        const stator_tensor *t = in[input_of(ctx, step, names[k])];
        const float *got = stator_tensor_data(t);
        for (uint64_t e = 0; e < stator_tensor_size_bytes(t) / sizeof *got; e++, i++) {
            /* fifty roundings of f32, and what the steps make of them */
            if (!(fabs((double)got[e] - r->p[i]) < 2e-5 * fmax(1, fabs(r->p[i])))) {
                (void)fprintf(stderr, "%s: element %u is %.9g, in f64 %.9g\n", what, i,
                              (double)got[e], r->p[i]);
                CHECK(0);
            }
        }
    }
    CHECK(i == N_PARAMS);
}

#define INPUTS_MAX 32u

static void run_row(stator_ctx *ctx, stator_model *model, const row *r, stator_function *function,
                    const stator_model *step)
{
    const double lr = 0.05;
    const uint32_t n_in = stator_model_input_count(step), n_out = stator_model_output_count(step);
    reference ref = {.p = {0.5, -0.25, 0.125, 0.75, -0.5, 0.375, (double)0.1f, (double)-0.2f, 0.625,
                           -0.875, (double)0.05f}};
    stator_tensor *in[INPUTS_MAX] = {NULL}, *out[2] = {NULL};
    CHECK(n_in <= INPUTS_MAX && n_out == 1u + (r->schedule != NULL));
    in[input_of(ctx, step, "x")] = tensor_2d(ctx, 4, 3, X);
    in[input_of(ctx, step, "target")] = tensor_2d(ctx, 4, 1, TARGET);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[input_of(ctx, step, "lr")]));
    *(double *)stator_tensor_data(in[input_of(ctx, step, "lr")]) = lr;
    CHECK_OK(ctx, stator_train_state(model, step, NULL, n_in, in));
    for (int t = 1; t <= STEPS; t++) {
        const double loss = reference_gradients(&ref);
        CHECK_OK(ctx, stator_call_tensors(function, n_in, in, n_out, out));
        CHECK(fabs((double)*(float *)stator_tensor_data(out[0]) - loss) < 2e-5);
        if (r->schedule != NULL) {
            CHECK(fabs(*(double *)stator_tensor_data(out[1]) - r->rate(t, lr)) < 1e-15);
        }
        if (r->is_clipped) {
            clip(&ref);
        }
        for (int i = 0; i < (int)N_PARAMS; i++) {
            r->update(&ref, i, t, r->rate(t, lr));
        }
    }
    CHECK(*(int64_t *)stator_tensor_data(in[input_of(ctx, step, "step")]) == STEPS);
    expect_parameters(ctx, step, in, &ref, r->optimizer);
    for (uint32_t k = 0; k < n_in; k++) {
        stator_tensor_release(in[k]);
    }
    for (uint32_t k = 0; k < n_out; k++) {
        stator_tensor_release(out[k]);
    }
}

/* How many backends there are. */
static int run_everywhere(stator_ctx *ctx, stator_model *model, const row *r)
{
    static const char *const backends[] = {"eager", "aot_eager", "inductor-cpu", "cuda_soft"};
    int n = 0;
    for (int b = 0; b < 4; b++) {
        stator_model *step = make_step(ctx, model, r);
        const stator_compile_options options = {.struct_size = sizeof options,
                                                .backend = backends[b]};
        stator_function *function = NULL;
        const stator_status status = stator_compile(step, &options, &function);
        if (status == STATOR_OK) {
            run_row(ctx, model, r, function, step);
            n++;
        } else {
            CHECK(b >= 2 && (status == STATOR_NOT_FOUND || status == STATOR_UNAVAILABLE));
        }
        stator_function_destroy(function);
        stator_model_destroy(step);
    }
    return n;
}

/* ---- what is written where ---- */

/* A call of a step copies nothing at its end. */
static void expect_in_place(stator_ctx *ctx, stator_model *model)
{
    stator_model *step = make_step(ctx, model, &rows[4]);
    stator_function *function = compile_for(ctx, step, "eager");
    const uint32_t n_in = stator_model_input_count(step);
    stator_tensor *in[INPUTS_MAX] = {NULL}, *out = NULL;
    stator_copy_info info = {.struct_size = sizeof info};
    in[0] = tensor_2d(ctx, 4, 3, X);
    in[1] = tensor_2d(ctx, 4, 1, TARGET);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[2]));
    *(double *)stator_tensor_data(in[2]) = 0.1;
    CHECK_OK(ctx, stator_train_state(model, step, NULL, n_in, in));
    const void *address = stator_tensor_data(in[3]);
    CHECK_OK(ctx, stator_call_tensors(function, n_in, in, 1, &out));
    CHECK_OK(ctx, stator_function_copies(function, &info));
    CHECK(info.n_write_backs == 4 * 3 + 1 && info.n_write_back_copies == 0);
    CHECK(stator_tensor_data(in[3]) == address);
    for (uint32_t k = 0; k < n_in; k++) {
        stator_tensor_release(in[k]);
    }
    stator_tensor_release(out);
    stator_function_destroy(function);
    stator_model_destroy(step);
}

/* What is frozen is no input and keeps no state; without a loss of the table there is no target. */
static void expect_frozen(stator_ctx *ctx, stator_model *model)
{
    const stator_train_options options = {.struct_size = sizeof options,
                                          .flags = STATOR_TRAIN_OUTPUTS,
                                          .loss = "y",
                                          .optimizer = "adam",
                                          .freeze = "w1,b*"};
    stator_model *step = NULL;
    uint32_t k = 0;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    CHECK(stator_model_input_count(step) == 6); /* x, lr, w2, its two states, step */
    CHECK(stator_model_find_input(step, "target", &k) == STATOR_NOT_FOUND);
    CHECK_OK(ctx, stator_model_find_input(step, "exp_avg_w2", &k));
    CHECK(stator_model_output_count(step) == 2);
    CHECK_OK(ctx, stator_model_find_output(step, "y", &k));
    stator_model_destroy(step);
}

/* The loss alone, by the same options: its inputs are the step's but for the state. */
static void expect_loss_only(stator_ctx *ctx, stator_model *model)
{
    row r = rows[3];
    const stator_train_options options = {.struct_size = sizeof options,
                                          .flags = STATOR_TRAIN_LOSS_ONLY,
                                          .loss = "mse",
                                          .optimizer = r.optimizer,
                                          .schedule = r.schedule,
                                          .option_keys = r.keys,
                                          .option_values = r.values,
                                          .option_count = r.n_options};
    stator_model *loss = NULL;
    stator_tensor *in[6] = {tensor_2d(ctx, 4, 3, X), tensor_2d(ctx, 4, 1, TARGET)}, *out = NULL;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &loss));
    CHECK(stator_model_input_count(loss) == 6);
    CHECK_OK(ctx, stator_train_state(model, loss, NULL, 6, in));
    stator_function *function = compile_for(ctx, loss, "eager");
    CHECK_OK(ctx, stator_call_tensors(function, 6, in, 1, &out));
    reference ref = {.p = {0.5, -0.25, 0.125, 0.75, -0.5, 0.375, (double)0.1f, (double)-0.2f, 0.625,
                           -0.875, (double)0.05f}};
    CHECK(fabs((double)*(float *)stator_tensor_data(out) - reference_gradients(&ref)) < 1e-6);
    for (uint32_t k = 0; k < 6; k++) {
        stator_tensor_release(in[k]);
    }
    stator_tensor_release(out);
    stator_function_destroy(function);
    stator_model_destroy(loss);
}

/* Random weights: within the bound of their fan-in, equal for equal seeds; vectors 0. */
static void expect_random(stator_ctx *ctx, stator_model *model)
{
    stator_model *step = make_step(ctx, model, &rows[0]);
    stator_tensor *in[3][INPUTS_MAX] = {{NULL}};
    const uint32_t n = stator_model_input_count(step);
    for (uint32_t k = 0; k < 3; k++) {
        const stator_train_state_options options = {
            .struct_size = sizeof options, .init = STATOR_INIT_RANDOM, .seed = k == 2};
        CHECK_OK(ctx, stator_train_state(model, step, &options, n, in[k]));
    }
    const uint32_t w1 = input_of(ctx, step, "w1"), b1 = input_of(ctx, step, "b1");
    const float *w = stator_tensor_data(in[0][w1]), *b = stator_tensor_data(in[0][b1]);
    for (int i = 0; i < 6; i++) {
        CHECK(fabs((double)w[i]) < 1 / sqrt(3) && w[i] != 0);
    }
    CHECK(b[0] == 0 && b[1] == 0);
    CHECK(memcmp(w, stator_tensor_data(in[1][w1]), 6 * sizeof *w) == 0);
    CHECK(memcmp(w, stator_tensor_data(in[2][w1]), 6 * sizeof *w) != 0);
    for (uint32_t k = 0; k < 3 * INPUTS_MAX; k++) {
        stator_tensor_release(in[k / INPUTS_MAX][k % INPUTS_MAX]);
    }
    stator_model_destroy(step);
}

/* Masks of dropout are others in each step and for each seed. */
static const char RANDOM[] =
    "stir 1\n"
    "graph @main(%x: f32[8], param %w \"w\": f32[8] = {1, 1, 1, 1, 1, 1, 1, 1}) {\n"
    "  %k = constant {value = i64[] {7}}\n"
    "  %o = constant {value = i64[] {0}}\n"
    "  %m = rng_uniform(%k, %o) {shape = [8]}\n"
    "  %p = mul(%m, %x)\n"
    "  %y = mul(%p, %w)\n"
    "  return y: %y\n"
    "}\n";

static float random_loss(stator_ctx *ctx, int64_t seed, int64_t made)
{
    stator_model *model = load_text(ctx, RANDOM), *step = NULL;
    const stator_train_options options = {
        .struct_size = sizeof options, .loss = "y", .optimizer = "sgd"};
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    stator_tensor *in[5] = {NULL}, *out = NULL; /* x, lr, seed, w, step */
    CHECK(stator_model_input_count(step) == 5);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, (const int64_t[]){8}, &in[0]));
    for (int i = 0; i < 8; i++) {
        ((float *)stator_tensor_data(in[0]))[i] = 1;
    }
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[1]));
    *(double *)stator_tensor_data(in[1]) = 0;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_I64, 0, NULL, &in[2]));
    *(int64_t *)stator_tensor_data(in[2]) = seed;
    CHECK_OK(ctx, stator_train_state(model, step, NULL, 5, in));
    *(int64_t *)stator_tensor_data(in[4]) = made;
    stator_function *function = compile_for(ctx, step, "eager");
    CHECK_OK(ctx, stator_call_tensors(function, 5, in, 1, &out));
    const float loss = *(float *)stator_tensor_data(out);
    for (int k = 0; k < 5; k++) {
        stator_tensor_release(in[k]);
    }
    stator_tensor_release(out);
    stator_function_destroy(function);
    stator_model_destroy(step);
    stator_model_destroy(model);
    return loss;
}

/* Running statistics are written by the step, and are not trained. */
static const char NORM[] =
    "stir 1\n"
    "graph @main(%x: f32[4, 1], param %w \"w\": f32[1] = {1}, param %b \"b\": f32[1] = {0},\n"
    "    param %m \"m\": f32[1] = {0}, param %v \"v\": f32[1] = {1}) {\n"
    "  %y, %nm, %nv = batch_norm_train(%x, %w, %b, %m, %v) {momentum = 0.5}\n"
    "  return y: %y\n"
    "}\n";

static void expect_statistics(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, NORM), *step = NULL;
    const float x[4] = {1, 2, 3, 6}, t[4] = {0, 0, 0, 1};
    const stator_train_options options = {
        .struct_size = sizeof options, .loss = "mse", .optimizer = "sgd"};
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    stator_tensor *in[8] = {tensor_2d(ctx, 4, 1, x), tensor_2d(ctx, 4, 1, t)}, *out = NULL;
    CHECK(stator_model_input_count(step) == 8); /* x, target, lr, w, b, m, v, step */
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 0, NULL, &in[2]));
    *(double *)stator_tensor_data(in[2]) = 0.1;
    CHECK_OK(ctx, stator_train_state(model, step, NULL, 8, in));
    stator_function *function = compile_for(ctx, step, "eager");
    CHECK_OK(ctx, stator_call_tensors(function, 8, in, 1, &out));
    CHECK(*(float *)stator_tensor_data(in[input_of(ctx, step, "m")]) == 1.5f);
    CHECK(*(float *)stator_tensor_data(in[input_of(ctx, step, "v")]) == 2.25f); /* (1 + 3.5) / 2 */
    for (int k = 0; k < 8; k++) {
        stator_tensor_release(in[k]);
    }
    stator_tensor_release(out);
    stator_function_destroy(function);
    stator_model_destroy(step);
    stator_model_destroy(model);
}

/* A group norm as exporters write it, over an image seen as [N, groups, all the rest]. */
static const char GROUPS[] =
    "stir 1\n"
    "graph @main(%x: f32[2, 4, 2, 2], param %w \"w\": f32[4, 1, 1] = {1, 2, 3, 4}) {\n"
    "  %one = constant {value = f32[2] {1.0, 1.0}}\n"
    "  %zero = constant {value = f32[2] {0.0, 0.0}}\n"
    "  %z = mul(%x, %w)\n"
    "  %r = reshape(%z) {shape = [2, 2, 8]}\n"
    "  %n = group_norm(%r, %one, %zero) {groups = 2}\n"
    "  %q = reshape(%n) {shape = [2, 4, 2, 2]}\n"
    "  %y = mul(%q, %w)\n"
    "  return y: %y\n"
    "}\n";

/* Axes of what the step's group norm reads, with `output` or NULL. */
static uint32_t axes_of_norm(stator_ctx *ctx, const char *output)
{
    stator_model *model = load_text(ctx, GROUPS), *step = NULL;
    const stator_train_options options = {
        .struct_size = sizeof options, .loss = "mse", .optimizer = "sgd", .output = output};
    uint32_t axes = 0;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    const stator_graph_view *v = stator_ctx_host(ctx)->ir->view(stator_model_graph(step));
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *made = stator_node_at(v, node);
        if (made->op == STATOR_OPCODE_group_norm) {
            axes = stator_value_type(v, stator_operand(v, made, 0))->rank;
        }
    }
    stator_model_destroy(step);
    stator_model_destroy(model);
    return axes;
}

/* Inputs say what they are for, whatever names they have. */
static void expect_roles(stator_ctx *ctx)
{
    static const char program[] =
        "stir 1\n"
        "graph @main(%x \"lr\": f32[4, 2], param %w \"target\": f32[2, 1] = {1, 2}) {\n"
        "  %y = matmul(%x, %w)\n"
        "  return y: %y\n"
        "}\n";
    static const uint32_t roles[] = {STATOR_ROLE_DATA,    STATOR_ROLE_TARGET,    STATOR_ROLE_RATE,
                                     STATOR_ROLE_BATCHES, STATOR_ROLE_PARAMETER, STATOR_ROLE_STATE,
                                     STATOR_ROLE_SUM,     STATOR_ROLE_STEP};
    const uint32_t n = sizeof roles / sizeof roles[0];
    const char *key = "momentum", *value = "0.5";
    const stator_train_options options = {.struct_size = sizeof options,
                                          .flags = STATOR_TRAIN_ACCUMULATE,
                                          .loss = "mse",
                                          .optimizer = "sgd",
                                          .option_keys = &key,
                                          .option_values = &value,
                                          .option_count = 1};
    stator_model *model = load_text(ctx, program), *step = NULL;
    uint32_t role = 0;
    CHECK_OK(ctx, stator_model_train_step(model, &options, &step));
    CHECK(stator_model_input_count(step) == n);
    for (uint32_t k = 0; k < n; k++) {
        CHECK_OK(ctx, stator_train_input_role(step, k, &role));
        CHECK(role == roles[k]);
    }
    CHECK(stator_train_input_role(step, n, &role) == STATOR_OUT_OF_RANGE);
    CHECK(stator_train_input_role(model, 0, &role) == STATOR_INVALID_ARGUMENT);
    stator_model_destroy(step);
    stator_model_destroy(model);
}

int main(void)
{
    const stator_ctx_options options = {.struct_size = sizeof options};
    stator_ctx *ctx = NULL;
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(run_everywhere(ctx, model, &rows[i]) >= 2);
    }
    expect_in_place(ctx, model);
    expect_frozen(ctx, model);
    expect_loss_only(ctx, model);
    expect_random(ctx, model);
    CHECK(random_loss(ctx, 3, 0) == random_loss(ctx, 3, 0));
    CHECK(random_loss(ctx, 3, 0) != random_loss(ctx, 4, 0));
    CHECK(random_loss(ctx, 3, 0) != random_loss(ctx, 3, 1));
    expect_statistics(ctx);
    CHECK(axes_of_norm(ctx, NULL) == 4);
    CHECK(axes_of_norm(ctx, "q") == 4); /* a value that is named is kept beside the normal form */
    CHECK(axes_of_norm(ctx, "n") == 3); /* and one within it stands in its way */
    expect_roles(ctx);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
