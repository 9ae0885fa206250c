/* The models of a training, and the loop over epochs and batches. In: settings, a model, data. Out:
 * the trained parameters, in the tensors of the step's inputs. */
#define _GNU_SOURCE
#include "tools/train/training.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/threads/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INVALID "INVALID_ARGUMENT"

/* ---- the models ---- */

static void close_program(train_program *p)
{
    cli_free_inputs(p->in, p->n_in);
    cli_free_inputs(p->out, p->n_out);
    free(p->roles);
    stator_function_destroy(p->function);
    stator_model_destroy(p->model);
    *p = (train_program){.model = NULL};
}

static cli_status open_program(train *t, train_program *p, const stator_model *model,
                               uint32_t flags)
{
    const train_settings *s = t->settings;
    stator_train_options options = s->options;
    options.flags |= flags;
    CLI_TRY_CTX(t->ctx, s->common.json, stator_model_train_step(model, &options, &p->model));
    p->function =
        cli_compile_model(t->ctx, p->model, &s->compile, s->compile.backend, s->common.json);
    CLI_NEED(p->function != NULL);
    p->n_in = stator_model_input_count(p->model);
    p->n_out = stator_model_output_count(p->model);
    p->in = calloc(p->n_in + 1u, sizeof(stator_tensor *));
    p->out = calloc(p->n_out + 1u, sizeof(stator_tensor *));
    p->roles = calloc(p->n_in + 1u, 1);
    CLI_FAIL_IF(p->in == NULL || p->out == NULL || p->roles == NULL, s->common.json,
                "RESOURCE_EXHAUSTED", NULL, "out of memory");
    for (uint32_t k = 0; k < p->n_in; k++) {
        uint32_t role = 0;
        CLI_TRY_CTX(t->ctx, s->common.json, stator_train_input_role(p->model, k, &role));
        p->roles[k] = (uint8_t)role;
    }
    return CLI_OK;
}

static cli_status scalar(const train *t, stator_dtype dtype, const void *value, stator_tensor **out)
{
    CLI_TRY_CTX(t->ctx, t->settings->common.json,
                stator_tensor_create(t->ctx, dtype, 0, NULL, out));
    memcpy(stator_tensor_data(*out), value, 8);
    return CLI_OK;
}

/* The rate, the seed and the number of the batch. */
static cli_status fill_own(const train *t, train_program *p)
{
    const train_settings *s = t->settings;
    const double one = 1;
    for (uint32_t k = 0; k < p->n_in; k++) {
        const uint8_t role = p->roles[k];
        if (role == STATOR_ROLE_SEED) {
            CLI_TRY(scalar(t, STATOR_I64, &s->seed, &p->in[k]));
        } else if (role == STATOR_ROLE_RATE || role == STATOR_ROLE_BATCHES) {
            CLI_TRY(scalar(t, STATOR_F64, role == STATOR_ROLE_RATE ? &s->lr : &one, &p->in[k]));
        }
        p->batches = role == STATOR_ROLE_BATCHES ? p->in[k] : p->batches;
    }
    return CLI_OK;
}

/* Parameters and sums of another program are the step's own tensors. */
static void share_state(const train *t, train_program *p)
{
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        uint32_t at = 0;
        if (train_is_state(t, k) && stator_model_input_info(t->step.model, k, &port) == STATOR_OK &&
            stator_model_find_input(p->model, port.name, &at) == STATOR_OK && p->in[at] == NULL) {
            stator_tensor_retain(t->step.in[k]);
            p->in[at] = t->step.in[k];
        }
    }
}

/* ---- the data ---- */

/* Class indices are looked at before the first step. */
static cli_status check_targets(const train *t, const train_data *data)
{
    stator_port_info port = {.struct_size = sizeof port};
    const train_port *target = train_data_target(data);
    int64_t ignored = -100;
    const stator_train_options *o = &t->settings->options;
    if (target == NULL || target->info.dtype != STATOR_I64 ||
        stator_model_output_info(t->model, 0, &port) != STATOR_OK || port.rank < 2 ||
        port.dims[1] < 0) {
        return CLI_OK;
    }
    for (uint32_t k = 0; k < o->option_count; k++) {
        if (strcmp(o->option_keys[k], "ignore_index") == 0) {
            ignored = strtoll(o->option_values[k], NULL, 10);
        }
    }
    return train_data_check_classes(data, target, port.dims[1], ignored);
}

/* Inputs of the model whose rows of a batch are a number have --batch of them. */
static cli_status check_batch(const train *t, const train_data *data)
{
    const train_port *fixed = train_data_fixed(data);
    const int64_t batch = t->settings->batch;
    if (fixed == NULL || fixed->is_target) {
        return CLI_OK;
    }
    const int64_t want = fixed->info.dims[0];
    for (uint32_t k = 0; k < data->n_ports; k++) {
        const train_port *port = &data->ports[k];
        const int64_t n = port->info.dims[0];
        CLI_FAIL_IF(n >= 0 && n != want && !port->is_target, data->json, INVALID, NULL,
                    "input '%s' takes batches of %lld, and input '%s' of %lld", port->info.name,
                    (long long)n, fixed->info.name, (long long)want);
    }
    CLI_FAIL_IF(want != batch, data->json, INVALID, NULL,
                "--batch is %lld, and input '%s' takes batches of %lld", (long long)batch,
                fixed->info.name, (long long)want);
    return CLI_OK;
}

/* What a loss of the table reads has the rows of the batch along its first axis, as its target. */
static cli_status check_read(const train *t, const train_data *data)
{
    const train_settings *s = t->settings;
    const train_port *target = train_data_target(data), *fixed = train_data_fixed(data);
    const bool is_input = fixed != NULL && !fixed->is_target;
    const int64_t rows = target != NULL ? target->info.dims[0] : -1;
    const char *output = s->options.output;
    const char *quote = output != NULL ? "'" : "";
    CLI_FAIL_IF(rows >= 0 && rows != s->batch, data->json, INVALID,
                "a loss of the table reads a value whose first axis counts the rows of the batch",
                "%s%s%s%s, which the loss %s reads, has size %lld along axis 0, and a batch has "
                "the %lld rows of %s%s%s",
                output != NULL ? "--output " : "", quote,
                output != NULL ? output : "the first output", quote, s->options.loss,
                (long long)rows, (long long)s->batch, is_input ? "input '" : "--batch",
                is_input ? fixed->info.name : "", is_input ? "'" : "");
    return CLI_OK;
}

/* Does the last batch, which has fewer rows, count? */
static bool keeps_rest(const train *t, const train_data *data)
{
    const char *last = t->settings->last;
    return (last == NULL || strcmp(last, "keep") == 0) && train_data_fixed(data) == NULL;
}

static cli_status open_data(train *t, train_data *data, const char *path, const train_program *p)
{
    const int64_t batch = t->settings->batch;
    data->ctx = t->ctx;
    data->path = path;
    data->json = t->settings->common.json;
    CLI_TRY(train_data_read(data, p));
    CLI_TRY(check_targets(t, data));
    CLI_TRY(check_batch(t, data));
    CLI_TRY(check_read(t, data));
    const int64_t rest = data->rows % batch;
    CLI_FAIL_IF(!keeps_rest(t, data) && data->rows < batch, data->json, INVALID, NULL,
                "%s has %lld rows, less than one batch of %lld", path, (long long)data->rows,
                (long long)batch);
    if (rest != 0) {
        (void)fprintf(stderr, "%s: the last batch has %lld of %lld rows and is %s\n", path,
                      (long long)rest, (long long)batch, keeps_rest(t, data) ? "kept" : "left out");
    }
    return CLI_OK;
}

cli_status train_open(train *t)
{
    const train_settings *s = t->settings;
    const stator_train_state_options state = {
        .struct_size = sizeof state,
        .init = s->init != NULL && strcmp(s->init, "random") == 0 ? STATOR_INIT_RANDOM
                                                                  : STATOR_INIT_KEEP,
        .seed = (uint64_t)s->seed,
        .device = s->compile.device};
    CLI_TRY(open_program(t, &t->step, t->model, s->accumulate > 1 ? STATOR_TRAIN_ACCUMULATE : 0));
    CLI_TRY_CTX(t->ctx, s->common.json,
                stator_train_state(t->model, t->step.model, &state, t->step.n_in, t->step.in));
    CLI_TRY(fill_own(t, &t->step));
    CLI_TRY(open_data(t, &t->data, s->data, &t->step));
    if (s->accumulate > 1) {
        CLI_TRY(open_program(t, &t->gradients, t->model, STATOR_TRAIN_GRADIENTS_ONLY));
        CLI_TRY(fill_own(t, &t->gradients));
        share_state(t, &t->gradients);
    }
    if (s->val != NULL) {
        CLI_TRY(
            open_program(t, &t->loss, t->inference != NULL ? t->inference : t->model,
                         STATOR_TRAIN_LOSS_ONLY | STATOR_TRAIN_OUTPUTS | STATOR_TRAIN_INFERENCE));
        share_state(t, &t->loss);
        CLI_TRY(open_data(t, &t->val, s->val, &t->loss));
    }
    return CLI_OK;
}

/* ---- steps ---- */

static double number_of(const stator_tensor *tensor)
{
    return st_load_f64(stator_tensor_dtype(tensor), stator_tensor_data(tensor), 0);
}

static void write_log(train *t, double loss, double ms)
{
    cJSON *row = cJSON_CreateObject();
    const double lr = t->step.n_out > 1 ? number_of(t->step.out[1]) : t->settings->lr;
    cJSON_AddItemToObject(row, "step", cli_json_size(t->at.steps));
    cJSON_AddItemToObject(row, "epoch", cli_json_size(t->at.epoch + 1));
    cJSON_AddItemToObject(row, "loss", cli_json_number(loss));
    cJSON_AddItemToObject(row, "lr", cli_json_number(lr));
    cJSON_AddNumberToObject(row, "ms", ms);
    char *text = cJSON_PrintUnformatted(row);
    (void)fprintf(t->log.file, "%s\n", text != NULL ? text : "");
    free(text);
    cJSON_Delete(row);
}

/* CLI_WRONG, said where, unless the loss is finite, and with --nan-check the state too. */
static cli_status check_finite(train *t, double loss)
{
    bool is_finite = isfinite(loss);
    if (t->kept != NULL) {
        CLI_TRY(train_nan_is_finite(t, loss, &is_finite));
    }
    if (is_finite) {
        return CLI_OK;
    }
    t->report.stopped_at = t->at.steps;
    const char *what = isnan(loss)   ? "the loss is nan"
                       : isinf(loss) ? "the loss is inf"
                                     : "a parameter or a state is not finite";
    (void)fprintf(stderr, "%s at step %lld (epoch %lld)\n", what, (long long)t->at.steps,
                  (long long)t->at.epoch + 1);
    CLI_TRY(t->kept != NULL ? train_nan_name(t) : CLI_OK);
    return CLI_WRONG;
}

/* Calls the program on a batch of n rows of the step that begins at t->at.row; adds loss and
 * time. */
static cli_status one_batch(train *t, train_program *p, int64_t row, int64_t n, double *loss,
                            double *ms)
{
    const double number = (double)((row - t->at.row) / t->settings->batch + 1);
    CLI_TRY(train_data_fill(&t->data, row, n, p->in));
    if (p->batches != NULL) {
        memcpy(stator_tensor_data(p->batches), &number, sizeof number);
    }
    CLI_TRY(t->kept != NULL ? train_nan_keep(t) : CLI_OK);
    const uint64_t start = st_now_ns();
    CLI_TRY_CTX(t->ctx, t->settings->common.json,
                stator_call_tensors(p->function, p->n_in, p->in, p->n_out, p->out));
    *ms += cli_ms_since(start);
    *loss += number_of(p->out[0]);
    return CLI_OK;
}

/* On the next n rows of the epoch, batch by batch: the loss is the mean of theirs. */
static cli_status one_step(train *t, int64_t n)
{
    const int64_t batch = t->settings->batch, count = (n + batch - 1) / batch;
    double loss = 0, ms = 0;
    for (int64_t k = 0; k < count; k++) {
        CLI_TRY(one_batch(t, k + 1 < count ? &t->gradients : &t->step, t->at.row + k * batch,
                          st_min_i64(n - k * batch, batch), &loss, &ms));
    }
    loss /= (double)count;
    if (t->n_times == 0) {
        t->report.compile_ms = (double)stator_function_compile_ns(t->step.function) / 1e6;
    }
    if (t->at.steps == 0) {
        t->at.first_loss = loss;
    }
    if (t->losses.data != NULL) {
        t->losses.data[t->losses.count++] = (train_point){t->at.steps + 1, loss};
    }
    t->times[t->n_times++] = ms;
    t->at.steps++;
    t->at.last_loss = loss;
    if (t->log.file != NULL) {
        write_log(t, loss, ms);
    }
    CLI_TRY(check_finite(t, loss));
    t->at.row += n;
    t->at.sum += loss * (double)n;
    return CLI_OK;
}

/* ---- the validation set ---- */

/* How many targets are where the scores along axis 1 of the model's first output are largest; -1:
 * these are no scores of the targets' classes. */
static int64_t count_right(const train *t, int64_t *out_targets)
{
    const train_port *target = train_data_target(&t->val);
    if (t->loss.n_out < 2 || target == NULL || target->info.dtype != STATOR_I64) {
        return -1;
    }
    const DLTensor *scores = stator_tensor_view(t->loss.out[1]);
    const DLTensor *targets = stator_tensor_view(t->loss.in[target->input]);
    const stator_dtype dtype = stator_tensor_dtype(t->loss.out[1]);
    if (scores->ndim != targets->ndim + 1 || st_dtype_class(dtype) != STATOR_CLASS_FLOAT) {
        return -1;
    }
    const int64_t classes = scores->shape[1];
    const int64_t n = (int64_t)(stator_tensor_size_bytes(t->loss.in[target->input]) / 8u);
    const int64_t inner = scores->shape[0] != 0 ? n / scores->shape[0] : 0;
    const int64_t *wanted = stator_tensor_data(t->loss.in[target->input]);
    int64_t right = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t base = i / inner * classes * inner + i % inner;
        int64_t best = 0;
        double most = -INFINITY;
        for (int64_t c = 0; c < classes; c++) {
            const double score =
                st_load_f64(dtype, stator_tensor_data(t->loss.out[1]), base + c * inner);
            best = score > most ? c : best;
            most = fmax(score, most);
        }
        right += best == wanted[i];
    }
    *out_targets += n;
    return right;
}

static cli_status validate(train *t)
{
    train_program *p = &t->loss;
    double sum = 0;
    int64_t right = 0, targets = 0, rows = 0;
    const int64_t batch = t->settings->batch;
    for (int64_t first = 0; first < t->val.rows; first += batch) {
        const int64_t n = t->val.rows - first < batch ? t->val.rows - first : batch;
        if (n < batch && !keeps_rest(t, &t->val)) {
            break;
        }
        CLI_TRY(train_data_fill(&t->val, first, n, p->in));
        for (uint32_t k = 0; k < p->n_out; k++) { /* a batch may have other sizes than the last */
            stator_tensor_release(p->out[k]);
            p->out[k] = NULL;
        }
        CLI_TRY_CTX(t->ctx, t->settings->common.json,
                    stator_call_tensors(p->function, p->n_in, p->in, p->n_out, p->out));
        sum += number_of(p->out[0]) * (double)n;
        rows += n;
        const int64_t found = right >= 0 ? count_right(t, &targets) : -1;
        right = found >= 0 ? right + found : -1;
    }
    t->report.val_loss = sum / (double)rows;
    if (t->validations.data != NULL) {
        t->validations.data[t->validations.count++] =
            (train_point){t->at.steps, t->report.val_loss};
    }
    t->report.val_accuracy = right >= 0 && targets != 0 ? (double)right / (double)targets : NAN;
    return CLI_OK;
}

/* ---- epochs ---- */

static void print_epoch(const train *t, int64_t rows)
{
    const train_report *r = &t->report;
    char text[32];
    (void)fprintf(stderr, "epoch %lld of %lld: loss %s", (long long)t->at.epoch + 1,
                  (long long)t->settings->epochs, cli_double_text(t->at.sum / (double)rows, text));
    if (t->settings->val != NULL) {
        (void)fprintf(stderr, ", validation %s", cli_double_text(r->val_loss, text));
    }
    if (t->settings->val != NULL && !isnan(r->val_accuracy)) {
        (void)fprintf(stderr, ", %.2f %% right", 100 * r->val_accuracy);
    }
    (void)fprintf(stderr, "\n");
}

int64_t train_epoch_rows(const train *t)
{
    return t->data.rows - (keeps_rest(t, &t->data) ? 0 : t->data.rows % t->settings->batch);
}

/* From the row that it stands at: a checkpoint may lie in the middle of an epoch. */
static cli_status one_epoch(train *t)
{
    const train_settings *s = t->settings;
    const int64_t rows = train_epoch_rows(t);
    train_data_order(&t->data, s->shuffle == NULL || strcmp(s->shuffle, "on") == 0,
                     (uint64_t)s->seed, (uint64_t)t->at.epoch);
    while (t->at.row < rows) {
        CLI_TRY(one_step(t, st_min_i64(rows - t->at.row, s->batch * s->accumulate)));
        if (s->every > 0 ? t->at.steps % s->every == 0 : t->at.row == rows) {
            CLI_TRY(train_checkpoint_write(t));
        }
    }
    if (s->val != NULL) {
        CLI_TRY(validate(t));
    }
    print_epoch(t, rows);
    t->report.dropped_rows += t->data.rows - rows;
    return CLI_OK;
}

static cli_status run_epochs(train *t)
{
    for (; t->at.epoch < t->settings->epochs; t->at.epoch++) {
        CLI_TRY(one_epoch(t));
        t->at.row = 0;
        t->at.sum = 0;
    }
    return CLI_OK;
}

/* Room for a picture's points and for what --nan-check keeps, where they are asked for. */
static bool allocate_extras(train *t, int64_t steps)
{
    const train_settings *s = t->settings;
    if (s->plot != NULL) {
        t->losses.data = calloc((size_t)steps + 1u, sizeof *t->losses.data);
        t->validations.data = calloc((size_t)s->epochs + 1u, sizeof *t->validations.data);
        ST_NEED(t->losses.data != NULL && t->validations.data != NULL);
    }
    if (s->nan_check) {
        t->kept = calloc(t->step.n_in + 1u, sizeof(stator_tensor *));
        ST_NEED(t->kept != NULL);
    }
    return true;
}

cli_status train_run(train *t)
{
    const train_settings *s = t->settings;
    const int64_t steps = (t->data.rows + s->batch - 1) / s->batch * s->epochs;
    stator_mem_stats stats = {.struct_size = sizeof stats};
    t->report = (train_report){.stopped_at = -1, .val_loss = NAN, .val_accuracy = NAN};
    CLI_TRY(train_checkpoint_open(t));
    t->times = calloc((size_t)steps + 1u, sizeof *t->times);
    CLI_FAIL_IF(t->times == NULL || !allocate_extras(t, steps), s->common.json,
                "RESOURCE_EXHAUSTED", NULL, "out of memory");
    CLI_NEED(s->log == NULL || cli_file_open(&t->log, s->log, s->common.json));
    cli_status status = run_epochs(t);
    if (t->log.file != NULL && !cli_file_close(&t->log, s->common.json)) {
        status = CLI_FAILED;
    }
    if (s->plot != NULL && (status == CLI_OK || status == CLI_WRONG)) {
        const cli_status drawn = train_plot(t, s->plot);
        status = drawn != CLI_OK ? drawn : status;
    }
    stator_ctx_mem_stats(t->ctx, &stats);
    t->report.peak_bytes = stats.peak_bytes;
    if (t->n_times != 0) {
        cli_sort(t->times, t->n_times);
        t->report.median_ms = t->times[t->n_times / 2];
    }
    return status;
}

void train_close(train *t)
{
    train_checkpoint_close(t);
    if (t->kept != NULL) {
        cli_free_inputs(t->kept, t->step.n_in);
    }
    free(t->losses.data);
    free(t->validations.data);
    train_data_free(&t->data);
    train_data_free(&t->val);
    close_program(&t->step);
    close_program(&t->loss);
    close_program(&t->gradients);
    free(t->times);
    stator_model_destroy(t->inference);
    stator_model_destroy(t->teacher);
    stator_model_destroy(t->model);
    stator_ctx_destroy(t->ctx);
}
