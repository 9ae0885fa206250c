/* Checkpoints: where a training stands, from which it goes on with the same bits.
 *
 * A folder holds one, checkpoint.npz: state/NAME of each input of the step that a call writes
 * (parameters, the optimizer's states, the step number), run/position and run/losses of the loop,
 * and run/identity, the JSON of what has to be the same for the same bits: hashes of the model and
 * of the data, and the settings. It is written beside its place, synced and renamed, so that a kill
 * or a full disk at any moment leaves the one before or the new one whole. The order of rows is no
 * part of it, since seed and epoch give it. */
#define _GNU_SOURCE
#include "tools/train/training.h"

#include "core/base/map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define INVALID "INVALID_ARGUMENT"
#define FILE_NAME "checkpoint.npz"
#define POSITION "run/position"
#define LOSSES "run/losses"
#define IDENTITY "run/identity"
#define STATE "state/"

/* ---- identity ---- */

/* Continues a hash with more bytes. */
static void add_hash(uint8_t hash[16], const void *data, uint64_t size)
{
    uint8_t both[32];
    memcpy(both, hash, 16);
    st_hash128(data, size, both + 16);
    st_hash128(both, sizeof both, hash);
}

static void add_hash_json(cJSON *object, const char *key, const uint8_t hash[16])
{
    char text[33];
    for (uint32_t i = 0; i < 16; i++) {
        (void)snprintf(text + (size_t)2 * i, 3, "%02x", hash[i]);
    }
    cJSON_AddStringToObject(object, key, text);
}

/* Continues the hash with a name and the contents of a parameter or a constant. */
static cli_status hash_value(const train *t, const char *name, stator_blob *blob, uint8_t hash[16])
{
    uint8_t part[16];
    CLI_FAIL_IF(stator_ctx_host(t->ctx)->cst->hash(blob, part, NULL) != STATOR_OK,
                t->settings->common.json, "UNAVAILABLE", NULL,
                "the contents of '%s' cannot be read", name);
    add_hash(hash, name, strlen(name));
    add_hash(hash, part, sizeof part);
    return CLI_OK;
}

/* The model: its graph, names of its inputs, constants. */
static cli_status add_model(const train *t, cJSON *object)
{
    const stator_host *host = stator_ctx_host(t->ctx);
    const stator_graph *graph = stator_model_graph(t->model);
    uint8_t hash[16] = {0};
    CLI_FAIL_IF(graph == NULL, t->settings->common.json, "FAILED_PRECONDITION", NULL,
                "the model has no graph");
    const stator_graph_view *v = host->ir->view(graph);
    host->ir->structural_hash(graph, hash);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const char *name = stator_string_at(v, stator_value_at(v, value)->name);
        stator_blob *blob = value > v->n_inputs ? host->cst->of_value(graph, value) : NULL;
        if (value <= v->n_inputs) {
            add_hash(hash, name, strlen(name));
        }
        if (blob != NULL) {
            CLI_TRY(hash_value(t, name, blob, hash));
        }
    }
    add_hash_json(object, "model", hash);
    return CLI_OK;
}

/* Parameters that the training leaves as they are. */
static cli_status add_frozen(const train *t, cJSON *object)
{
    const stator_graph *graph = stator_model_graph(t->step.model);
    const stator_host *host = stator_ctx_host(t->ctx);
    const stator_graph_view *v = host->ir->view(graph);
    uint8_t hash[16] = {0};
    for (stator_ref input = 1; input <= v->n_inputs; input++) {
        stator_blob *blob = host->cst->of_value(graph, input);
        if (blob != NULL) {
            CLI_TRY(
                hash_value(t, stator_string_at(v, stator_value_at(v, input)->name), blob, hash));
        }
    }
    add_hash_json(object, "frozen parameters", hash);
    return CLI_OK;
}

static void add_data(const train *t, cJSON *object)
{
    uint8_t hash[16] = {0};
    for (uint32_t k = 0; k < t->data.n_ports; k++) {
        const train_port *port = &t->data.ports[k];
        add_hash(hash, port->info.name, strlen(port->info.name));
        add_hash(hash, stator_tensor_data(port->array), stator_tensor_size_bytes(port->array));
    }
    add_hash_json(object, "data", hash);
}

static void add_options(const train_settings *s, cJSON *object)
{
    cJSON *options = cJSON_AddObjectToObject(object, "options");
    for (uint32_t k = 0; k < s->options.option_count; k++) {
        cJSON_AddStringToObject(options, s->options.option_keys[k], s->options.option_values[k]);
    }
}

/* What is not given has the text of its default. */
static void add_word(cJSON *object, const char *key, const char *word, const char *usual)
{
    cJSON_AddStringToObject(object, key, word != NULL ? word : usual);
}

/* NULL: said why. */
static cJSON *identity_of(const train *t)
{
    const train_settings *s = t->settings;
    cJSON *object = cJSON_CreateObject();
    cli_status status = add_model(t, object);
    add_word(object, "loss", s->options.loss, "");
    add_word(object, "output", s->options.output, "");
    add_word(object, "optimizer", s->options.optimizer, "");
    add_word(object, "schedule", s->options.schedule, "constant");
    add_word(object, "amp", s->options.amp, "none");
    add_word(object, "freeze", s->options.freeze, "");
    add_options(s, object);
    cJSON_AddItemToObject(object, "lr", cli_json_number(s->lr));
    cJSON_AddItemToObject(object, "batch", cli_json_size(s->batch));
    cJSON_AddItemToObject(object, "accumulate", cli_json_size(s->accumulate));
    cJSON_AddItemToObject(object, "seed", cli_json_size(s->seed));
    add_word(object, "shuffle", s->shuffle, "on");
    add_word(object, "last", s->last, "keep");
    add_data(t, object);
    status = status == CLI_OK ? add_frozen(t, object) : status;
    if (status != CLI_OK) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

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

/* An array of the dtype and with n elements, any number where n is negative; NULL: there is none.
 */
static const stator_tensor *find_array(const cli_tensors *list, const char *name,
                                       stator_dtype dtype, int64_t n)
{
    for (uint32_t k = 0; k < list->count; k++) {
        const DLTensor *view = stator_tensor_view(list->tensors[k]);
        if (list->names[k] != NULL && strcmp(list->names[k], name) == 0) {
            const bool fits = stator_tensor_dtype(list->tensors[k]) == dtype && view->ndim == 1 &&
                              (n < 0 || view->shape[0] == n);
            return fits ? list->tensors[k] : NULL;
        }
    }
    return NULL;
}

/* ---- writing ---- */

static cli_status list_all(const train *t, cli_tensors *list)
{
    const train_position *at = &t->at;
    const int64_t position[] = {at->steps, at->epoch, at->row};
    const double losses[] = {at->sum, at->first_loss, at->last_loss};
    cJSON *identity = identity_of(t);
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

/* Syncs the part, gives it its name and syncs that. */
static cli_status publish(const train *t)
{
    const train_checkpoint *c = &t->checkpoint;
    const st_fd fd = open(c->part, O_RDONLY | O_CLOEXEC);
    const bool is_synced = fd >= 0 && fsync(fd) == 0;
    const bool is_done = is_synced && rename(c->part, c->path) == 0 && fsync(c->dir) == 0;
    const int number = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    CLI_FAIL_IF(!is_done, t->settings->common.json, "UNAVAILABLE", NULL, "cannot write '%s': %s",
                c->path, strerror(number));
    return CLI_OK;
}

cli_status train_checkpoint_write(train *t)
{
    char errbuf[512];
    cli_tensors list = {.ctx = t->ctx};
    if (!t->checkpoint.is_open) {
        return CLI_OK;
    }
    cli_status status = list_all(t, &list);
    if (status == CLI_OK && !cli_write_npz(t->checkpoint.part, &list, errbuf)) {
        status = cli_fail(t->settings->common.json, "UNAVAILABLE",
                          "the checkpoint before is still there", "%s", errbuf);
    }
    cli_tensors_free(&list);
    CLI_TRY(status);
    return publish(t);
}

/* ---- reading ---- */

/* The first setting that is another, with both values. */
static cli_status compare_identity(const train *t, const cJSON *there, const cJSON *here)
{
    cli_status status = CLI_OK;
    for (const cJSON *want = here->child; status == CLI_OK && want != NULL; want = want->next) {
        const cJSON *have = cJSON_GetObjectItemCaseSensitive(there, want->string);
        char *is = cJSON_PrintUnformatted(want);
        char *was = have != NULL ? cJSON_PrintUnformatted(have) : NULL;
        if (is == NULL || was == NULL || strcmp(is, was) != 0) {
            status = cli_fail(
                t->settings->common.json, "FAILED_PRECONDITION",
                "go on with the settings that it was made with, or name another folder",
                "%s is of another training: %s is %s there and %s here", t->checkpoint.path,
                want->string, was != NULL ? was : "not said", is != NULL ? is : "?");
        }
        cJSON_free(is);
        cJSON_free(was);
    }
    return status;
}

static cli_status check_identity(const train *t, const cli_tensors *list)
{
    const stator_tensor *text = find_array(list, IDENTITY, STATOR_U8, -1);
    cJSON *there = text != NULL ? cJSON_ParseWithLength(stator_tensor_data(text),
                                                        stator_tensor_size_bytes(text))
                                : NULL;
    if (!cJSON_IsObject(there)) {
        cJSON_Delete(there);
        return damaged(t, "it does not say of which training it is");
    }
    cJSON *here = identity_of(t);
    const cli_status status = here != NULL ? compare_identity(t, there, here) : CLI_FAILED;
    cJSON_Delete(there);
    cJSON_Delete(here);
    return status;
}

/* Copies an array into the tensor of the step that has its name. */
static cli_status read_state(const train *t, cli_tensors *list, uint32_t input)
{
    const int json = t->settings->common.json;
    const DLTensor *want = stator_tensor_view(t->step.in[input]);
    stator_port_info port = {.struct_size = sizeof port};
    char name[256];
    CLI_TRY_CTX(t->ctx, json, stator_model_input_info(t->step.model, input, &port));
    (void)snprintf(name, sizeof name, "%s%s", STATE, port.name);
    for (uint32_t k = 0; k < list->count; k++) {
        if (list->names[k] == NULL || strcmp(list->names[k], name) != 0) {
            continue;
        }
        list->tensors[k] = cli_from_numpy(t->ctx, port.dtype, list->tensors[k]);
        CLI_FAIL_IF(list->tensors[k] == NULL, json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
        const DLTensor *have = stator_tensor_view(list->tensors[k]);
        if (stator_tensor_dtype(list->tensors[k]) != port.dtype || have->ndim != want->ndim ||
            memcmp(have->shape, want->shape, (size_t)want->ndim * sizeof *want->shape) != 0) {
            return damaged(t, "an array has another dtype or shape than its parameter");
        }
        CLI_TRY_CTX(t->ctx, json, stator_tensor_copy(t->ctx, t->step.in[input], list->tensors[k]));
        return CLI_OK;
    }
    return damaged(t, "an array of the state is missing");
}

static cli_status read_position(train *t, const cli_tensors *list)
{
    const stator_tensor *position = find_array(list, POSITION, STATOR_I64, 3);
    const stator_tensor *losses = find_array(list, LOSSES, STATOR_F64, 3);
    if (position == NULL || losses == NULL) {
        return damaged(t, "it does not say where the training stands");
    }
    const int64_t *at = stator_tensor_data(position);
    const double *loss = stator_tensor_data(losses);
    if (at[0] < 1 || at[1] < 0 || at[2] < 0 || at[2] > t->data.rows) {
        return damaged(t, "it stands at a row that the data have not");
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

static cli_status read_all(train *t, cli_tensors *list)
{
    CLI_TRY(check_identity(t, list));
    CLI_TRY(read_position(t, list));
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        if (train_is_state(t, k)) {
            CLI_TRY(read_state(t, list, k));
        }
    }
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

/* Parts that a killed training left. */
static void sweep(const train_checkpoint *c, const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, FILE_NAME ".part", sizeof FILE_NAME ".part" - 1u) == 0) {
            (void)unlinkat(c->dir, entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static cli_status open_folder(train *t, const char *path)
{
    train_checkpoint *c = &t->checkpoint;
    const int json = t->settings->common.json;
    const int n = snprintf(c->path, sizeof c->path, "%s/" FILE_NAME, path);
    CLI_FAIL_IF(n < 0 || (size_t)n >= sizeof c->path, json, INVALID, NULL,
                "the path of --checkpoint is too long");
    (void)snprintf(c->part, sizeof c->part, "%s.part", c->path);
    CLI_FAIL_IF(mkdir(path, 0777) != 0 && errno != EEXIST, json, "UNAVAILABLE", NULL,
                "cannot make the folder '%s': %s", path, strerror(errno));
    const st_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLI_FAIL_IF(fd < 0, json, "UNAVAILABLE", NULL, "cannot open the folder '%s': %s", path,
                strerror(errno));
    c->dir = fd;
    c->is_open = true;
    CLI_FAIL_IF(flock(fd, LOCK_EX | LOCK_NB) != 0, json, "UNAVAILABLE", NULL,
                "another training writes its checkpoints into '%s'", path);
    sweep(c, path);
    return CLI_OK;
}

cli_status train_checkpoint_open(train *t)
{
    const train_settings *s = t->settings;
    if (s->checkpoint == NULL) {
        return CLI_OK;
    }
    CLI_TRY(open_folder(t, s->checkpoint));
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
