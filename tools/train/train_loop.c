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
    free(p->is_own);
    stator_function_destroy(p->function);
    stator_model_destroy(p->model);
    *p = (train_program){.model = NULL};
}

static cli_status open_program(train *t, train_program *p, uint32_t flags)
{
    const train_settings *s = t->settings;
    stator_train_options options = s->options;
    options.flags = flags;
    CLI_TRY_CTX(t->ctx, s->common.json, stator_model_train_step(t->model, &options, &p->model));
    p->function =
        cli_compile_model(t->ctx, p->model, &s->compile, s->compile.backend, s->common.json);
    CLI_NEED(p->function != NULL);
    p->n_in = stator_model_input_count(p->model);
    p->n_out = stator_model_output_count(p->model);
    p->in = calloc(p->n_in + 1u, sizeof(stator_tensor *));
    p->out = calloc(p->n_out + 1u, sizeof(stator_tensor *));
    p->is_own = calloc(p->n_in + 1u, 1);
    CLI_FAIL_IF(p->in == NULL || p->out == NULL || p->is_own == NULL, s->common.json,
                "RESOURCE_EXHAUSTED", NULL, "out of memory");
    return CLI_OK;
}

static cli_status scalar(const train *t, stator_dtype dtype, const void *value, stator_tensor **out)
{
    CLI_TRY_CTX(t->ctx, t->settings->common.json,
                stator_tensor_create(t->ctx, dtype, 0, NULL, out));
    memcpy(stator_tensor_data(*out), value, 8);
    return CLI_OK;
}

/* The rate and the seed stand behind the model's own inputs and the target. */
static cli_status fill_own(const train *t, train_program *p)
{
    const train_settings *s = t->settings;
    for (uint32_t k = stator_model_input_count(t->model); k < p->n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        CLI_TRY_CTX(t->ctx, s->common.json, stator_model_input_info(p->model, k, &port));
        const bool is_lr = port.dtype == STATOR_F64 && strncmp(port.name, "lr", 2) == 0;
        const bool is_seed = port.dtype == STATOR_I64 && strncmp(port.name, "seed", 4) == 0;
        if (p->in[k] != NULL || port.rank != 0 || !(is_lr || is_seed)) {
            continue;
        }
        p->is_own[k] = 1;
        CLI_TRY(is_lr ? scalar(t, STATOR_F64, &s->lr, &p->in[k])
                      : scalar(t, STATOR_I64, &s->seed, &p->in[k]));
    }
    return CLI_OK;
}

/* Parameters of the loss are the step's own tensors. */
static void share_parameters(const train *t)
{
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        uint32_t at = 0;
        if (t->step.in[k] != NULL && !t->step.is_own[k] &&
            stator_model_input_info(t->step.model, k, &port) == STATOR_OK &&
            stator_model_find_input(t->loss.model, port.name, &at) == STATOR_OK &&
            t->loss.in[at] == NULL) {
            stator_tensor_retain(t->step.in[k]);
            t->loss.in[at] = t->step.in[k];
        }
    }
}

/* ---- the data ---- */

/* Class indices are looked at before the first step. */
static cli_status check_targets(const train *t, const train_data *data)
{
    stator_port_info port = {.struct_size = sizeof port};
    const train_port *target = train_data_find(data, "target");
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

static cli_status check_batch(const train *t, const train_data *data)
{
    int64_t fixed = 0;
    CLI_FAIL_IF(!train_data_is_free(data, &fixed) && fixed != t->settings->batch,
                t->settings->common.json, INVALID, NULL,
                "--batch is %lld, and the model takes batches of %lld",
                (long long)t->settings->batch, (long long)fixed);
    return CLI_OK;
}

/* Does the last batch, which has fewer rows, count? */
static bool keeps_rest(const train *t, const train_data *data)
{
    int64_t fixed = 0;
    const char *last = t->settings->last;
    return (last == NULL || strcmp(last, "keep") == 0) && train_data_is_free(data, &fixed);
}

static cli_status open_data(train *t, train_data *data, const char *path, const train_program *p)
{
    const int64_t batch = t->settings->batch;
    data->ctx = t->ctx;
    data->path = path;
    data->json = t->settings->common.json;
    CLI_TRY(train_data_read(data, p->model, p->in, p->is_own));
    CLI_TRY(check_targets(t, data));
    CLI_TRY(check_batch(t, data));
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
    CLI_TRY(open_program(t, &t->step, 0));
    CLI_TRY_CTX(t->ctx, s->common.json,
                stator_train_state(t->model, t->step.model, &state, t->step.n_in, t->step.in));
    CLI_TRY(fill_own(t, &t->step));
    CLI_TRY(open_data(t, &t->data, s->data, &t->step));
    if (s->val != NULL) {
        CLI_TRY(open_program(t, &t->loss, STATOR_TRAIN_LOSS_ONLY | STATOR_TRAIN_OUTPUTS));
        share_parameters(t);
        CLI_TRY(open_data(t, &t->val, s->val, &t->loss));
    }
    return CLI_OK;
}

/* ---- steps ---- */

static double number_of(const stator_tensor *tensor)
{
    return st_load_f64(stator_tensor_dtype(tensor), stator_tensor_data(tensor), 0);
}

static void write_log(train *t, int64_t epoch, double loss, double ms)
{
    cJSON *row = cJSON_CreateObject();
    const double lr = t->step.n_out > 1 ? number_of(t->step.out[1]) : t->settings->lr;
    cJSON_AddItemToObject(row, "step", cli_json_size(t->report.steps));
    cJSON_AddItemToObject(row, "epoch", cli_json_size(epoch + 1));
    cJSON_AddItemToObject(row, "loss", cli_json_number(loss));
    cJSON_AddItemToObject(row, "lr", cli_json_number(lr));
    cJSON_AddNumberToObject(row, "ms", ms);
    char *text = cJSON_PrintUnformatted(row);
    (void)fprintf(t->log.file, "%s\n", text != NULL ? text : "");
    free(text);
    cJSON_Delete(row);
}

static cli_status one_step(train *t, int64_t epoch, int64_t first, int64_t n)
{
    train_program *p = &t->step;
    train_report *r = &t->report;
    CLI_TRY(train_data_fill(&t->data, first, n, p->in));
    const uint64_t start = st_now_ns();
    CLI_TRY_CTX(t->ctx, t->settings->common.json,
                stator_call_tensors(p->function, p->n_in, p->in, p->n_out, p->out));
    const double ms = cli_ms_since(start), loss = number_of(p->out[0]);
    if (r->steps == 0) {
        r->first_loss = loss;
        r->compile_ms = (double)stator_function_compile_ns(p->function) / 1e6;
    }
    t->times[r->steps++] = ms;
    r->last_loss = loss;
    if (t->log.file != NULL) {
        write_log(t, epoch, loss, ms);
    }
    if (!isfinite(loss)) {
        r->stopped_at = r->steps;
        (void)fprintf(stderr, "the loss is %s at step %lld (epoch %lld)\n",
                      isnan(loss) ? "nan" : "inf", (long long)r->steps, (long long)epoch + 1);
        return CLI_WRONG;
    }
    return CLI_OK;
}

/* ---- the validation set ---- */

/* How many targets are where the scores along axis 1 of the model's first output are largest; -1:
 * these are no scores of the targets' classes. */
static int64_t count_right(const train *t, int64_t *out_targets)
{
    const train_port *target = train_data_find(&t->val, "target");
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
    t->report.val_accuracy = right >= 0 && targets != 0 ? (double)right / (double)targets : NAN;
    return CLI_OK;
}

/* ---- epochs ---- */

static void print_epoch(const train *t, int64_t epoch, double mean)
{
    const train_report *r = &t->report;
    (void)fprintf(stderr, "epoch %lld of %lld: loss %.6g", (long long)epoch + 1,
                  (long long)t->settings->epochs, mean);
    if (t->settings->val != NULL) {
        (void)fprintf(stderr, ", validation %.6g", r->val_loss);
    }
    if (t->settings->val != NULL && !isnan(r->val_accuracy)) {
        (void)fprintf(stderr, ", %.2f %% right", 100 * r->val_accuracy);
    }
    (void)fprintf(stderr, "\n");
}

static cli_status one_epoch(train *t, int64_t epoch)
{
    const train_settings *s = t->settings;
    double sum = 0;
    int64_t rows = 0;
    train_data_order(&t->data, s->shuffle == NULL || strcmp(s->shuffle, "on") == 0,
                     (uint64_t)s->seed, (uint64_t)epoch);
    for (int64_t first = 0; first < t->data.rows; first += s->batch) {
        const int64_t left = t->data.rows - first, n = left < s->batch ? left : s->batch;
        if (n < s->batch && !keeps_rest(t, &t->data)) {
            t->report.dropped_rows += n;
            break;
        }
        CLI_TRY(one_step(t, epoch, first, n));
        sum += t->report.last_loss * (double)n;
        rows += n;
    }
    if (s->val != NULL) {
        CLI_TRY(validate(t));
    }
    print_epoch(t, epoch, sum / (double)rows);
    return CLI_OK;
}

static cli_status run_epochs(train *t)
{
    for (int64_t epoch = 0; epoch < t->settings->epochs; epoch++) {
        CLI_TRY(one_epoch(t, epoch));
    }
    return CLI_OK;
}

cli_status train_run(train *t)
{
    const train_settings *s = t->settings;
    const int64_t steps = (t->data.rows + s->batch - 1) / s->batch * s->epochs;
    stator_mem_stats stats = {.struct_size = sizeof stats};
    t->report = (train_report){.stopped_at = -1, .val_loss = NAN, .val_accuracy = NAN};
    t->times = calloc((size_t)steps + 1u, sizeof *t->times);
    CLI_FAIL_IF(t->times == NULL, s->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    CLI_NEED(s->log == NULL || cli_file_open(&t->log, s->log, s->common.json));
    cli_status status = run_epochs(t);
    if (t->log.file != NULL && !cli_file_close(&t->log, s->common.json)) {
        status = CLI_FAILED;
    }
    stator_ctx_mem_stats(t->ctx, &stats);
    t->report.peak_bytes = stats.peak_bytes;
    if (t->report.steps != 0) {
        cli_sort(t->times, (size_t)t->report.steps);
        t->report.median_ms = t->times[t->report.steps / 2];
    }
    return status;
}

/* ---- saving ---- */

/* A tensor of the state, in host memory. */
static stator_status on_host(stator_ctx *ctx, stator_tensor *tensor, stator_tensor **out)
{
    const DLTensor *view = stator_tensor_view(tensor);
    *out = NULL;
    if (strcmp(stator_tensor_device(tensor), "cpu") == 0) {
        stator_tensor_retain(tensor);
        *out = tensor;
        return STATOR_OK;
    }
    ST_TRY(stator_tensor_create(ctx, stator_tensor_dtype(tensor), (uint32_t)view->ndim, view->shape,
                                out));
    return stator_tensor_copy(ctx, *out, tensor);
}

static cli_status list_state(const train *t, cli_tensors *list)
{
    const int json = t->settings->common.json;
    for (uint32_t k = stator_model_input_count(t->model); k < t->step.n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        stator_tensor *tensor = NULL;
        bool is_data = t->step.is_own[k] != 0;
        for (uint32_t i = 0; i < t->data.n_ports; i++) {
            is_data |= t->data.ports[i].input == k;
        }
        if (is_data) {
            continue;
        }
        CLI_TRY_CTX(t->ctx, json, stator_model_input_info(t->step.model, k, &port));
        CLI_TRY_CTX(t->ctx, json, on_host(t->ctx, t->step.in[k], &tensor));
        tensor = cli_to_numpy(t->ctx, tensor);
        CLI_FAIL_IF(tensor == NULL || !cli_tensors_add(list, port.name, tensor), json,
                    "RESOURCE_EXHAUSTED", NULL, "out of memory");
    }
    return CLI_OK;
}

cli_status train_save(const train *t, const char *path)
{
    char errbuf[512];
    cli_tensors list = {.ctx = t->ctx};
    cli_status status = list_state(t, &list);
    if (status == CLI_OK && !cli_write_npz(path, &list, errbuf)) {
        status = cli_fail(t->settings->common.json, "UNAVAILABLE", NULL, "%s: %s", path, errbuf);
    }
    cli_tensors_free(&list);
    return status;
}

void train_close(train *t)
{
    train_data_free(&t->data);
    train_data_free(&t->val);
    close_program(&t->step);
    close_program(&t->loss);
    free(t->times);
    stator_model_destroy(t->model);
    stator_ctx_destroy(t->ctx);
}
