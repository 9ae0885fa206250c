/* Trains the digits network from random weights and saves it:
 *
 *     train_digits MODEL SCORES TRAIN TEST [OUT.onnx] [BACKEND]
 *
 * SCORES is the value before the softmax, which the loss reads. TRAIN and TEST are folders with
 * image.npy, f32[N,1,8,8], and target.npy, i64[N]. Out: a line for each epoch with the share of the
 * test images that are right; status 0 from 97 % on, 1 below, 3 on a failure.
 *
 * A step of training is a model that is compiled like any other; the tensors of its inputs hold
 * what is trained, and a call writes them. The loss with the model's outputs is a second model over
 * the same tensors. */
#include "npy.h"

#include <stator/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, EPOCHS = 12, CLASSES = 10 };

typedef struct program {
    stator_model *model;
    stator_function *function;
    stator_tensor **in, *out[2];
    uint32_t n_in, n_out;
    uint32_t image, target; /* places among the inputs */
} program;

typedef struct data_set {
    stator_tensor *images, *targets;
    int64_t rows;
} data_set;

typedef struct trainer {
    stator_ctx *ctx;
    stator_model *model;
    program step, test;
    data_set train_data, test_data;
    uint64_t random; /* of the order of rows */
} trainer;

static bool ok(stator_ctx *ctx, stator_status status)
{
    if (status != STATOR_OK) {
        fprintf(stderr, "%s: %s\n", stator_status_name(status), stator_ctx_error_text(ctx));
    }
    return status == STATOR_OK;
}

/* ---- models ---- */

static bool open_program(trainer *t, program *p, const char *scores, uint32_t flags,
                         const char *backend)
{
    /* The rate falls to 0 with the last step, so that no late step spoils the result. */
    const int64_t n_steps = EPOCHS * ((t->train_data.rows + BATCH - 1) / BATCH);
    char total_steps[24];
    const char *keys[] = {"total_steps"}, *values[] = {total_steps};
    snprintf(total_steps, sizeof total_steps, "%lld", (long long)n_steps);
    const stator_train_options options = {.struct_size = sizeof options,
                                          .flags = flags,
                                          .loss = "cross_entropy",
                                          .output = scores,
                                          .optimizer = "adamw",
                                          .schedule = "cosine",
                                          .option_keys = keys,
                                          .option_values = values,
                                          .option_count = 1};
    const stator_compile_options compile = {
        .struct_size = sizeof compile, .backend = backend, .flags = STATOR_COMPILE_STRICT_SIZES};
    if (!ok(t->ctx, stator_model_train_step(t->model, &options, &p->model)) ||
        !ok(t->ctx, stator_compile(p->model, &compile, &p->function)) ||
        !ok(t->ctx, stator_model_find_input(p->model, "image", &p->image)) ||
        !ok(t->ctx, stator_model_find_input(p->model, "target", &p->target))) {
        return false;
    }
    p->n_in = stator_model_input_count(p->model);
    p->n_out = stator_model_output_count(p->model);
    p->in = calloc(p->n_in, sizeof *p->in);
    return p->in != NULL && p->n_out <= sizeof p->out / sizeof p->out[0];
}

static void close_program(program *p)
{
    for (uint32_t i = 0; p->in != NULL && i < p->n_in; i++) {
        stator_tensor_release(p->in[i]);
    }
    stator_tensor_release(p->out[0]);
    stator_tensor_release(p->out[1]);
    free(p->in);
    stator_function_destroy(p->function);
    stator_model_destroy(p->model);
}

/* Random parameters, the optimizer's states, the rate of the first step. */
static bool fill_state(trainer *t)
{
    program *p = &t->step;
    const stator_train_state_options options = {
        .struct_size = sizeof options, .init = STATOR_INIT_RANDOM, .seed = 1};
    const double rate = 0.003;
    uint32_t lr = 0;
    if (!ok(t->ctx, stator_train_state(t->model, p->model, &options, p->n_in, p->in)) ||
        !ok(t->ctx, stator_model_find_input(p->model, "lr", &lr)) ||
        !ok(t->ctx, stator_tensor_create(t->ctx, STATOR_F64, 0, NULL, &p->in[lr]))) {
        return false;
    }
    memcpy(stator_tensor_data(p->in[lr]), &rate, sizeof rate);
    return true;
}

/* Parameters of the test are the step's tensors: what a step writes is what the test reads. */
static bool share_state(trainer *t)
{
    for (uint32_t i = 0; i < t->test.n_in; i++) {
        stator_port_info port = {.struct_size = sizeof port};
        uint32_t at = 0;
        if (i == t->test.image || i == t->test.target) {
            continue;
        }
        if (!ok(t->ctx, stator_model_input_info(t->test.model, i, &port)) ||
            !ok(t->ctx, stator_model_find_input(t->step.model, port.name, &at))) {
            return false;
        }
        stator_tensor_retain(t->step.in[at]);
        t->test.in[i] = t->step.in[at];
    }
    return true;
}

/* ---- data ---- */

static bool load(trainer *t, data_set *data, const char *dir)
{
    data->images = npy_load(t->ctx, dir, "image");
    data->targets = npy_load(t->ctx, dir, "target");
    if (data->images == NULL || data->targets == NULL) {
        return false;
    }
    data->rows = stator_tensor_view(data->targets)->shape[0];
    return stator_tensor_view(data->images)->shape[0] == data->rows;
}

/* Rows order[0..n) of an array as a new tensor in the place of *batch. */
static bool take_rows(trainer *t, const stator_tensor *array, const int64_t *order, int64_t n,
                      stator_tensor **batch)
{
    const DLTensor *view = stator_tensor_view(array);
    int64_t shape[STATOR_RANK_MAX];
    const uint64_t size = stator_tensor_size_bytes(array) / (uint64_t)view->shape[0];
    memcpy(shape, view->shape, (size_t)view->ndim * sizeof *shape);
    shape[0] = n;
    stator_tensor_release(*batch);
    *batch = NULL;
    if (!ok(t->ctx, stator_tensor_create(t->ctx, stator_tensor_dtype(array), (uint32_t)view->ndim,
                                         shape, batch))) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)stator_tensor_data(*batch) + (uint64_t)i * size,
               (const char *)stator_tensor_data(array) + (uint64_t)order[i] * size, size);
    }
    return true;
}

/* Another order (Fisher and Yates, 1938) by a linear congruential generator. */
static void shuffle(trainer *t, int64_t *order)
{
    for (int64_t i = t->train_data.rows - 1; i > 0; i--) {
        t->random = t->random * 6364136223846793005u + 1442695040888963407u;
        const int64_t k = (int64_t)((t->random >> 33) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

/* ---- training ---- */

static bool train_epoch(trainer *t, int64_t *order, double *out_loss)
{
    program *p = &t->step;
    const int64_t rows = t->train_data.rows;
    *out_loss = 0;
    shuffle(t, order);
    for (int64_t first = 0; first < rows; first += BATCH) {
        const int64_t n = rows - first < BATCH ? rows - first : BATCH;
        if (!take_rows(t, t->train_data.images, order + first, n, &p->in[p->image]) ||
            !take_rows(t, t->train_data.targets, order + first, n, &p->in[p->target]) ||
            !ok(t->ctx, stator_call_tensors(p->function, p->n_in, p->in, p->n_out, p->out))) {
            return false;
        }
        *out_loss += (double)*(const float *)stator_tensor_data(p->out[0]) * (double)n;
    }
    *out_loss /= (double)rows;
    return true;
}

/* The share of the test images whose most probable class is the target; -1: failed. */
static double test(trainer *t)
{
    program *p = &t->test;
    if (!ok(t->ctx, stator_call_tensors(p->function, p->n_in, p->in, p->n_out, p->out))) {
        return -1;
    }
    const float *scores = stator_tensor_data(p->out[1]);
    const int64_t *targets = stator_tensor_data(t->test_data.targets);
    int64_t right = 0;
    for (int64_t i = 0; i < t->test_data.rows; i++, scores += CLASSES) {
        int64_t best = 0;
        for (int64_t k = 1; k < CLASSES; k++) {
            best = scores[k] > scores[best] ? k : best;
        }
        right += best == targets[i];
    }
    return (double)right / (double)t->test_data.rows;
}

static double train(trainer *t)
{
    int64_t *order = calloc((size_t)t->train_data.rows, sizeof *order);
    double share = -1, loss = 0;
    bool good = order != NULL;
    for (int64_t i = 0; good && i < t->train_data.rows; i++) {
        order[i] = i;
    }
    for (int epoch = 1; good && epoch <= EPOCHS; epoch++) {
        good = train_epoch(t, order, &loss);
        share = good ? test(t) : -1;
        good = share >= 0;
        printf("epoch %d of %d: loss %.4f, %.1f %% of %lld test images\n", epoch, EPOCHS, loss,
               100 * share, (long long)t->test_data.rows);
    }
    free(order);
    return share;
}

/* The inputs of the test model are the parameters, its data aside. */
static bool save(trainer *t, const char *path)
{
    const char **names = calloc(t->test.n_in, sizeof *names);
    stator_tensor **values = calloc(t->test.n_in, sizeof *values);
    uint32_t n = 0;
    bool good = names != NULL && values != NULL;
    for (uint32_t i = 0; good && i < t->test.n_in; i++) {
        stator_port_info port = {.struct_size = sizeof port};
        if (i != t->test.image && i != t->test.target) {
            good = ok(t->ctx, stator_model_input_info(t->test.model, i, &port));
            names[n] = port.name;
            values[n++] = t->test.in[i];
        }
    }
    good = good && ok(t->ctx, stator_model_save(t->model, path, n, names, values));
    free((void *)names);
    free(values);
    return good;
}

static bool open_all(trainer *t, char **argv, const char *backend)
{
    program *p = &t->test;
    if (!ok(NULL, stator_ctx_create(NULL, &t->ctx)) ||
        !ok(t->ctx, stator_model_load(t->ctx, argv[1], NULL, &t->model)) ||
        !load(t, &t->train_data, argv[3]) || !load(t, &t->test_data, argv[4]) ||
        !open_program(t, &t->step, argv[2], 0, backend) ||
        !open_program(t, p, argv[2], STATOR_TRAIN_LOSS_ONLY | STATOR_TRAIN_OUTPUTS, backend) ||
        !fill_state(t) || !share_state(t)) {
        return false;
    }
    stator_tensor_retain(t->test_data.images);
    stator_tensor_retain(t->test_data.targets);
    p->in[p->image] = t->test_data.images;
    p->in[p->target] = t->test_data.targets;
    return true;
}

int main(int argc, char **argv)
{
    trainer t = {.random = 1};
    double share = -1;
    if (argc < 5) {
        fprintf(stderr, "usage: train_digits MODEL SCORES TRAIN TEST [OUT.onnx] [BACKEND]\n");
        return 3;
    }
    bool good = open_all(&t, argv, argc > 6 ? argv[6] : NULL);
    share = good ? train(&t) : -1;
    good = share >= 0 && (argc < 6 || save(&t, argv[5]));
    close_program(&t.step);
    close_program(&t.test);
    stator_tensor_release(t.train_data.images);
    stator_tensor_release(t.train_data.targets);
    stator_tensor_release(t.test_data.images);
    stator_tensor_release(t.test_data.targets);
    stator_model_destroy(t.model);
    stator_ctx_destroy(t.ctx);
    return !good ? 3 : share >= 0.97 ? 0 : 1;
}
