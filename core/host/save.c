/* A copy of a model's file with other values of parameters, by the frontend that read it; see
 * stator_model_save. The host gives the values, dense and in host memory, and two files:
 *
 *     1  data are written to MODEL.TOKEN.data, a name that no file has and no model names
 *     2  the copy, which names them, is renamed to its place: from here on it is the model
 *     3  data that this model has written there before are removed, where no file beside them names
 *        them; those of a copy that somebody else has made stay, for a model of any folder may
 *        name them
 *
 * Each is synced first. A kill or a failure before 2 leaves the model before with its data, one
 * behind it the new model with its own. */
#define _GNU_SOURCE
#include "core/base/files/data_file.h"
#include "core/base/sized.h"
#include "core/host/model.h"
#include "core/plugins/plugin_call.h"
#include "core/runtime/tensor.h"
#include <stator/inspect.h>
#include <stator/train.h>

#include <stdlib.h>
#include <string.h>

typedef struct saver {
    const stator_model *model;
    const char *path;
    bool is_asked; /* only whether this would go well */
    bool is_direct;
    uint32_t n;
    const char *const *names;
    stator_tensor **values; /* dense, in host memory */
    DLTensor *views;
    st_out_file copy, data;
    char data_path[ST_PATH_BYTES];
    char old_data[ST_PATH_BYTES]; /* of the copy before; "": none that has a name of such */
    bool has_copy, has_data;      /* something was appended */
} saver;

/* ---- the values ---- */

static stator_status place_value(saver *s, const stator_graph *graph, uint32_t k,
                                 stator_tensor *value, stator_diag **err)
{
    stator_ctx *ctx = s->model->ctx;
    stator_ref param = 0;
    ST_FAIL_IF(s->names[k] == NULL, err, STATOR_INVALID_ARGUMENT, "name %u is NULL", k);
    ST_TRY(st_graph_require_param(graph, "the model", s->names[k], &param, err));
    ST_TRY(st_graph_check_param(graph, param, value, err));
    ST_TRY(st_tensor_on_host(&ctx->mem, &ctx->pool, value, &s->values[k], err));
    s->views[k] = s->values[k]->view;
    s->views[k].data = st_tensor_address(s->values[k]);
    s->views[k].byte_offset = 0;
    return STATOR_OK;
}

static stator_status place_values(saver *s, stator_tensor *const *values, stator_diag **err)
{
    const stator_graph *graph = NULL;
    st_mem *mem = &s->model->ctx->mem;
    ST_TRY(st_model_need_graph(s->model, &graph, err));
    ST_FAIL_IF(s->n != 0 && (s->names == NULL || values == NULL), err, STATOR_INVALID_ARGUMENT,
               "the list of parameters is NULL and not empty");
    s->values = st_calloc(mem, s->n + UINT64_C(1), sizeof *s->values);
    s->views = st_calloc(mem, s->n + UINT64_C(1), sizeof *s->views);
    ST_TRY_MEM(s->values && s->views, err);
    for (uint32_t k = 0; k < s->n; k++) {
        ST_TRY(place_value(s, graph, k, values[k], err));
    }
    return STATOR_OK;
}

/* ---- the files ---- */

static stator_status append_data(saver *s, const void *bytes, uint64_t size, stator_diag **err)
{
    ST_FAIL_IF(
        s->is_direct, err, STATOR_UNAVAILABLE,
        "cannot write '%s': the model has data in a file of their own, which can lie beside a "
        "regular file alone",
        s->path);
    if (s->is_asked) {
        return STATOR_OK;
    }
    ST_TRY(s->has_data ? STATOR_OK : st_out_open_new(s->data_path, s->copy.mode, &s->data, err));
    s->has_data = true;
    return st_out_write(&s->data, bytes, size, err);
}

static stator_status append(const stator_rewrite *to, uint32_t file, const void *bytes,
                            uint64_t size, stator_diag **err)
{
    saver *s = to->host;
    ST_FAIL_IF(file > 1, err, STATOR_INVALID_ARGUMENT, "a copy has two files, and no file %u",
               file);
    s->has_copy = s->has_copy || file == 0;
    if (file != 0) {
        return append_data(s, bytes, size, err);
    }
    return s->is_asked ? (stator_status)STATOR_OK : st_out_write(&s->copy, bytes, size, err);
}

static stator_status open_files(saver *s, stator_diag **err)
{
    if (s->is_asked) {
        return s->path != NULL ? st_out_check(s->path, &s->is_direct, err)
                               : (stator_status)STATOR_OK;
    }
    ST_TRY(st_out_open(s->path, &s->copy, err));
    s->is_direct = st_out_is_direct(&s->copy);
    return s->is_direct ? (stator_status)STATOR_OK : st_data_name(s->copy.place, s->data_path, err);
}

/* ---- data of the copy before ---- */

/* Remembers the data file that was written. Where there is no memory for that it stays for good. */
static void keep_own_data(stator_model *model, const char *data_path)
{
    char real[ST_PATH_BYTES];
    if (realpath(data_path, real) != NULL) {
        char **slot = st_vec_push(&model->ctx->mem, &model->own_data);
        if (slot != NULL) {
            *slot = st_strdup(&model->ctx->mem, real);
        }
    }
}

/* Did this model write it? It is forgotten then. */
static bool take_own_data(stator_model *model, const char *data_path)
{
    char real[ST_PATH_BYTES];
    const bool is_there = realpath(data_path, real) != NULL;
    for (uint32_t i = 0; is_there && i < model->own_data.count; i++) {
        char **slot = &model->own_data.data[i];
        if (*slot != NULL && strcmp(*slot, real) == 0) {
            st_free(&model->ctx->mem, *slot);
            *slot = model->own_data.data[--model->own_data.count];
            return true;
        }
    }
    return false;
}

static void end_data(const saver *s)
{
    stator_model *model = (stator_model *)(uintptr_t)s->model;
    pthread_mutex_lock(&model->lock);
    const bool is_own = s->old_data[0] != '\0' && take_own_data(model, s->old_data);
    if (s->has_data) {
        keep_own_data(model, s->data_path);
    }
    pthread_mutex_unlock(&model->lock);
    if (is_own) {
        st_data_remove_unnamed(s->old_data);
    } else if (s->old_data[0] != '\0') {
        st_log(model->ctx, "save", 1,
               "'%s', the data of the model that '%s' was, stay: another model may name them",
               s->old_data, s->path);
    }
}

static stator_status end_files(saver *s, stator_status status, stator_diag **err)
{
    if (s->is_asked) {
        return status;
    }
    if (status == STATOR_OK && !s->has_copy) {
        status = st_fail(err, STATOR_INTERNAL, "the frontend '%s' wrote nothing",
                         s->model->frontend->desc->name);
    }
    if (status == STATOR_OK && !s->is_direct) {
        st_data_find(s->copy.place, s->old_data);
    }
    status = st_out_close(&s->data, status, err);
    status = st_out_close(&s->copy, status, err);
    if (s->has_data && s->data.is_placed && !s->copy.is_placed) {
        st_out_remove(&s->data);
    }
    if (s->copy.is_placed) {
        end_data(s);
    }
    return status;
}

/* ---- the whole ---- */

static stator_status rewrite(saver *s, stator_diag **err)
{
    const stator_model *model = s->model;
    char folder[ST_PATH_BYTES];
    const stator_source source = {.struct_size = sizeof source,
                                  .flags = model->flags,
                                  .path = model->dir != NULL ? model->path : NULL,
                                  .bytes = model->bytes,
                                  .size = model->size,
                                  .dir = model->dir};
    const stator_rewrite to = {.struct_size = sizeof to,
                               .value_count = s->n,
                               .names = s->names,
                               .values = s->views,
                               .data_name = st_out_split(s->data_path, folder),
                               .append = append,
                               .host = s};
    const stator_frontend *frontend = model->frontend->as.frontend;
    st_plugin_call call;
    st_plugin_enter(&call, model->frontend->callee, "rewrite");
    const stator_status status = frontend->rewrite(model->frontend->self, &source, &to, err);
    return st_plugin_leave(&call, status, err);
}

/* The frontend reads the bytes where they were mapped: a file that was cut would end the
 * process. */
static stator_status check_source(const stator_model *model, stator_diag **err)
{
    const st_file *file = model->source != NULL ? st_blob_file(model->source, NULL) : NULL;
    return file != NULL ? st_file_check_bytes(file, err) : (stator_status)STATOR_OK;
}

static stator_status save(saver *s, stator_tensor *const *values, stator_diag **err)
{
    const st_loaded *frontend = s->model->frontend;
    ST_FAIL_IF(frontend == NULL, err, STATOR_UNSUPPORTED,
               "the model was read from no file, so there is none to copy");
    ST_FAIL_IF(frontend->as.frontend->rewrite == NULL, err, STATOR_UNSUPPORTED,
               "the frontend '%s', which read '%s', writes no models", frontend->desc->name,
               s->model->path);
    ST_TRY(check_source(s->model, err));
    ST_TRY(place_values(s, values, err));
    stator_status status = open_files(s, err);
    ST_THEN(status, rewrite(s, err));
    return end_files(s, status, err);
}

static stator_status run(saver *s, stator_tensor *const *values)
{
    st_mem *mem = &s->model->ctx->mem;
    stator_diag *diag = NULL;
    const stator_status status = save(s, values, &diag);
    for (uint32_t k = 0; s->values != NULL && k < s->n; k++) {
        stator_tensor_release(s->values[k]);
    }
    st_free(mem, s->values);
    st_free(mem, s->views);
    return st_ctx_fail(s->model->ctx, status, diag);
}

stator_status stator_model_save(const stator_model *model, const char *path, uint32_t n,
                                const char *const *names, stator_tensor *const *values)
{
    saver s = {.model = model, .path = path, .is_asked = path == NULL, .n = n, .names = names};
    return run(&s, values);
}

stator_status stator_x_model_check_save(const stator_model *model, const char *path, uint32_t n,
                                        const char *const *names, stator_tensor *const *values)
{
    saver s = {.model = model, .path = path, .is_asked = true, .n = n, .names = names};
    return run(&s, values);
}
