/* Checkpoints: where a training stands, from which it goes on with the same bits.
 *
 * A folder holds one, checkpoint.npz: state/NAME of each input of the step that a call writes
 * (parameters, the optimizer's states, the step number), run/position and run/losses of the loop,
 * and run/identity, which training it is of (train_identity.c). A kill or a full disk at any moment
 * leaves the one before or the new one whole. The order of rows is no part of it, since seed and
 * epoch give it. */
#define _GNU_SOURCE
#include "tools/train/training.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define INVALID "INVALID_ARGUMENT"
#define POSITION "run/position"
#define LOSSES "run/losses"
#define IDENTITY "run/identity"
#define STATE "state/"

/* ---- arrays ---- */

static cli_status add_array(const train *t, cli_tensors *list, const char *name, stator_dtype dtype,
                            int64_t n, const void *data)
{
    stator_tensor *tensor = NULL;
    CLI_TRY_CTX(t->ctx, t->settings->common.json,
                stator_tensor_create(t->ctx, dtype, 1, &n, &tensor));
    memcpy(stator_tensor_data(tensor), data, stator_tensor_size_bytes(tensor));
    CLI_FAIL_IF(!cli_tensors_add(list, name, tensor), t->settings->common.json,
                "RESOURCE_EXHAUSTED", NULL, "out of memory");
    return CLI_OK;
}

static cli_status damaged(const train *t, const char *why)
{
    return cli_fail(t->settings->common.json, "DATA_LOSS", NULL,
                    "%s is damaged, or is no checkpoint: %s", t->checkpoint.path, why);
}

/* The place of the array of that name; NULL: there is none. */
static stator_tensor **find_array(const cli_tensors *list, const char *name)
{
    for (uint32_t k = 0; k < list->count; k++) {
        if (list->names[k] != NULL && strcmp(list->names[k], name) == 0) {
            return &list->tensors[k];
        }
    }
    return NULL;
}

/* The vector of that name, of the dtype and with n elements, any number where n is negative; NULL:
 * there is none. */
static const stator_tensor *find_vector(const cli_tensors *list, const char *name,
                                        stator_dtype dtype, int64_t n)
{
    stator_tensor *const *array = find_array(list, name);
    const DLTensor *view = array != NULL ? stator_tensor_view(*array) : NULL;
    return view != NULL && stator_tensor_dtype(*array) == dtype && view->ndim == 1 &&
                   (n < 0 || view->shape[0] == n)
               ? *array
               : NULL;
}

/* ---- writing ---- */

static cli_status list_all(const train *t, cli_tensors *list)
{
    const train_position *at = &t->at;
    const int64_t position[] = {at->steps, at->epoch, at->row};
    const double losses[] = {at->sum, at->first_loss, at->last_loss};
    cJSON *identity = train_identity(t);
    CLI_NEED(identity != NULL);
    char *text = cJSON_PrintUnformatted(identity);
    cJSON_Delete(identity);
    CLI_FAIL_IF(text == NULL, t->settings->common.json, "RESOURCE_EXHAUSTED", NULL,
                "out of memory");
    cli_status status = add_array(t, list, IDENTITY, STATOR_U8, (int64_t)strlen(text), text);
    cJSON_free(text);
    CLI_TRY(status);
    CLI_TRY(add_array(t, list, POSITION, STATOR_I64, 3, position));
    CLI_TRY(add_array(t, list, LOSSES, STATOR_F64, 3, losses));
    return train_list_state(t, STATE, list);
}

cli_status train_checkpoint_write(train *t)
{
    char errbuf[512];
    train_checkpoint *c = &t->checkpoint;
    cli_tensors list = {.ctx = t->ctx};
    if (!c->is_open) {
        return CLI_OK;
    }
    cli_status status = list_all(t, &list);
    if (status == CLI_OK && !cli_write_npz(c->path, &list, errbuf)) {
        status = cli_fail(t->settings->common.json, "UNAVAILABLE",
                          c->has_one ? "the checkpoint before is still there" : NULL, "%s", errbuf);
    }
    cli_tensors_free(&list);
    c->has_one = c->has_one || status == CLI_OK;
    return status;
}

/* ---- reading ---- */

static cli_status check_identity(const train *t, const cli_tensors *list)
{
    const stator_tensor *text = find_vector(list, IDENTITY, STATOR_U8, -1);
    cJSON *there = text != NULL ? cJSON_ParseWithLength(stator_tensor_data(text),
                                                        stator_tensor_size_bytes(text))
                                : NULL;
    const cli_status status = cJSON_IsObject(there)
                                  ? train_compare_identity(t, there)
                                  : damaged(t, "it does not say of which training it is");
    cJSON_Delete(there);
    return status;
}

/* Copies an array into the tensor of the step's input, where it fits. */
static cli_status take_array(const train *t, stator_tensor **array, uint32_t input)
{
    const int json = t->settings->common.json;
    const DLTensor *want = stator_tensor_view(t->step.in[input]);
    const stator_dtype dtype = stator_tensor_dtype(t->step.in[input]);
    *array = cli_from_numpy(t->ctx, dtype, *array);
    CLI_FAIL_IF(*array == NULL, json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    const DLTensor *have = stator_tensor_view(*array);
    if (stator_tensor_dtype(*array) != dtype || have->ndim != want->ndim ||
        memcmp(have->shape, want->shape, (size_t)want->ndim * sizeof *want->shape) != 0) {
        return damaged(t, "an array has another dtype or shape than its parameter");
    }
    CLI_TRY_CTX(t->ctx, json, stator_tensor_copy(t->ctx, t->step.in[input], *array));
    return CLI_OK;
}

static cli_status read_state(const train *t, const cli_tensors *list)
{
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        if (!train_is_state(t, k)) {
            continue;
        }
        char *name = train_state_name(t, k, STATE);
        CLI_NEED(name != NULL);
        stator_tensor **array = find_array(list, name);
        free(name);
        CLI_TRY(array != NULL ? take_array(t, array, k)
                              : damaged(t, "an array of the state is missing"));
    }
    return CLI_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Why no training stands there: checkpoints are written behind steps, each of which goes through
 * the rows of its batches, the last one of an epoch through those that are left. NULL: it may. */
static const char *position_problem(const train *t, int64_t steps, int64_t epoch, int64_t row)
{
    const int64_t rows = train_epoch_rows(t);
    const int64_t step_rows = t->settings->batch * t->settings->accumulate;
    const int64_t of_epoch = ceil_div(rows, step_rows);
    if (row < 1 || row > rows) {
        return "it stands at a row that the data have not";
    }
    if (row % step_rows != 0 && row != rows) {
        return "it stands at a row within a step";
    }
    const int64_t before = steps - ceil_div(row, step_rows);
    return steps < 1 || epoch < 0 || before % of_epoch != 0 || before / of_epoch != epoch
               ? "its step, epoch and row contradict each other"
               : NULL;
}

static cli_status read_position(train *t, const cli_tensors *list)
{
    const stator_tensor *position = find_vector(list, POSITION, STATOR_I64, 3);
    const stator_tensor *losses = find_vector(list, LOSSES, STATOR_F64, 3);
    if (position == NULL || losses == NULL) {
        return damaged(t, "it does not say where the training stands");
    }
    const int64_t *at = stator_tensor_data(position);
    const double *loss = stator_tensor_data(losses);
    const char *problem = position_problem(t, at[0], at[1], at[2]);
    problem = problem == NULL && !(isfinite(loss[0]) && isfinite(loss[1]) && isfinite(loss[2]))
                  ? "a loss in it is not finite"
                  : problem;
    if (problem != NULL) {
        return damaged(t, problem);
    }
    t->at = (train_position){.steps = at[0],
                             .epoch = at[1],
                             .row = at[2],
                             .sum = loss[0],
                             .first_loss = loss[1],
                             .last_loss = loss[2]};
    CLI_FAIL_IF(t->at.epoch >= t->settings->epochs, t->settings->common.json, INVALID, NULL,
                "%s stands in epoch %lld, past --epochs %lld", t->checkpoint.path,
                (long long)t->at.epoch + 1, (long long)t->settings->epochs);
    t->report.resumed_at = t->at.steps;
    return CLI_OK;
}

/* The step number of the state is that of the position; steps that loss scaling skips count in the
 * latter alone. */
static cli_status check_step(const train *t)
{
    int64_t step = t->at.steps;
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        stator_tensor *host = NULL;
        if (t->step.roles[k] == STATOR_ROLE_STEP) {
            CLI_TRY_CTX(t->ctx, t->settings->common.json,
                        cli_on_host(t->ctx, t->step.in[k], &host));
            memcpy(&step, stator_tensor_data(host), sizeof step);
            stator_tensor_release(host);
        }
    }
    const char *amp = t->settings->options.amp;
    const bool may_skip = amp != NULL && strcmp(amp, "f16") == 0;
    return step == t->at.steps || (may_skip && step >= 0 && step < t->at.steps)
               ? CLI_OK
               : damaged(t, "the step number of its state is another than that of its position");
}

static cli_status read_all(train *t, cli_tensors *list)
{
    CLI_TRY(check_identity(t, list));
    CLI_TRY(read_position(t, list));
    CLI_TRY(read_state(t, list));
    CLI_TRY(check_step(t));
    t->checkpoint.has_one = true;
    (void)fprintf(stderr, "%s: goes on behind step %lld (epoch %lld)\n", t->checkpoint.path,
                  (long long)t->at.steps, (long long)t->at.epoch + 1);
    return CLI_OK;
}

static cli_status resume(train *t)
{
    char errbuf[512];
    cli_tensors list = {.ctx = t->ctx};
    const cli_status status = cli_read_npz(t->ctx, t->checkpoint.path, &list, errbuf)
                                  ? read_all(t, &list)
                                  : damaged(t, errbuf);
    cli_tensors_free(&list);
    return status;
}

/* ---- the folder ---- */

/* Parts that a killed training left: checkpoint.npz.TOKEN.part. */
static void sweep(const train_checkpoint *c, const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const size_t n = strlen(entry->d_name);
        if (strncmp(entry->d_name, TRAIN_CHECKPOINT ".", sizeof TRAIN_CHECKPOINT) == 0 && n > 5 &&
            strcmp(entry->d_name + n - 5, ".part") == 0) {
            (void)unlinkat(c->dir, entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static cli_status lock_folder(const train *t, const char *path)
{
    const int json = t->settings->common.json;
    if (flock(t->checkpoint.dir, LOCK_EX | LOCK_NB) == 0) {
        return CLI_OK;
    }
    const char *why = strerror(errno);
    CLI_FAIL_IF(errno == EWOULDBLOCK, json, "UNAVAILABLE", NULL,
                "another training writes its checkpoints into '%s'", path);
    return cli_fail(json, "UNAVAILABLE", NULL, "cannot lock the folder '%s': %s", path, why);
}

static cli_status open_folder(train *t, const char *path)
{
    train_checkpoint *c = &t->checkpoint;
    const int json = t->settings->common.json;
    const int n = snprintf(c->path, sizeof c->path, "%s/" TRAIN_CHECKPOINT, path);
    CLI_FAIL_IF(n < 0 || (size_t)n >= sizeof c->path, json, INVALID, NULL,
                "the path of --checkpoint is too long");
    CLI_FAIL_IF(mkdir(path, 0777) != 0 && errno != EEXIST, json, "UNAVAILABLE", NULL,
                "cannot make the folder '%s': %s", path, strerror(errno));
    const st_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLI_FAIL_IF(fd < 0, json, "UNAVAILABLE", NULL, "cannot open the folder '%s': %s", path,
                strerror(errno));
    c->dir = fd;
    c->is_open = true;
    CLI_TRY(lock_folder(t, path));
    sweep(c, path);
    return CLI_OK;
}

/* Could checkpoints be written? Asked before the first step. */
static cli_status check_writable(const train *t)
{
    char errbuf[512];
    CLI_FAIL_IF(!cli_check_npz(t->checkpoint.path, errbuf), t->settings->common.json, "UNAVAILABLE",
                NULL, "%s", errbuf);
    return train_check_names(t, STATE);
}

cli_status train_checkpoint_open(train *t)
{
    const train_settings *s = t->settings;
    if (s->checkpoint == NULL) {
        return CLI_OK;
    }
    CLI_TRY(open_folder(t, s->checkpoint));
    CLI_TRY(check_writable(t));
    const bool is_there = access(t->checkpoint.path, F_OK) == 0;
    CLI_FAIL_IF(is_there && !s->resume, s->common.json, "FAILED_PRECONDITION",
                "--resume goes on from it", "'%s' is there already", t->checkpoint.path);
    if (is_there) {
        return resume(t);
    }
    if (s->resume) {
        (void)fprintf(stderr, "%s is not there: the training begins\n", t->checkpoint.path);
    }
    return CLI_OK;
}

void train_checkpoint_close(train *t)
{
    if (t->checkpoint.is_open) {
        (void)close(t->checkpoint.dir);
    }
}
