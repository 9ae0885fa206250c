/* A copy of a model's file with other values of parameters, by the frontend that read it; see
 * stator_model_save. The host gives the values, dense and in host memory, and two files:
 *
 *     1  data are written to MODEL.TOKEN.data, a name that no file has and no model names
 *     2  the copy, which names them, is renamed to its place: from here on it is the model
 *     3  data of the model that stood there before are removed, where no other file names them
 *
 * Each is synced first. A kill or a failure before 2 leaves the model before with its data, one
 * behind it the new model with its own. */
#define _GNU_SOURCE
#include "core/base/files/data_file.h"
#include "core/base/sized.h"
#include "core/host/model.h"
#include "core/plugins/plugin_call.h"
#include "core/runtime/tensor.h"
#include <stator/train.h>

#include <stdlib.h>

typedef struct saver {
    const stator_model *model;
    const char *path; /* NULL: it is only asked whether this would go well */
    uint32_t n;
    const char *const *names;
    stator_tensor **values; /* dense, in host memory */
    DLTensor *views;
    st_out_file copy, data;
    char data_path[ST_PATH_BYTES];
    char old_data[ST_PATH_BYTES]; /* of the model before; "": none that is known to be its own */
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
        st_out_is_direct(&s->copy), err, STATOR_UNAVAILABLE,
        "cannot write '%s': the model has data in a file of their own, which can lie beside a "
        "regular file alone",
        s->path);
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
    if (s->path == NULL) {
        return STATOR_OK;
    }
    s->has_copy = s->has_copy || file == 0;
    return file == 0 ? st_out_write(&s->copy, bytes, size, err) : append_data(s, bytes, size, err);
}

static stator_status open_files(saver *s, stator_diag **err)
{
    if (s->path == NULL) {
        return STATOR_OK;
    }
    ST_TRY(st_out_open(s->path, &s->copy, err));
    return st_out_is_direct(&s->copy) ? (stator_status)STATOR_OK
                                      : st_data_name(s->copy.place, s->data_path, err);
}

/* Data of the model before. Where the model in memory reads from them, they go with it. */
static void remove_old_data(const saver *s)
{
    stator_model *model = (stator_model *)(uintptr_t)s->model;
    bool is_kept =
        model->bytes != NULL && st_data_is_named_in(s->old_data, model->bytes, model->size);
    pthread_mutex_lock(&model->lock);
    if (is_kept && model->old_data == NULL) {
        char real[ST_PATH_BYTES];
        model->old_data =
            realpath(s->old_data, real) != NULL ? st_strdup(&model->ctx->mem, real) : NULL;
    }
    pthread_mutex_unlock(&model->lock);
    if (!is_kept) {
        st_data_remove_unnamed(s->old_data);
    }
}

static stator_status end_files(saver *s, stator_status status, stator_diag **err)
{
    if (status == STATOR_OK && s->path != NULL && !s->has_copy) {
        status = st_fail(err, STATOR_INTERNAL, "the frontend '%s' wrote nothing",
                         s->model->frontend->desc->name);
    }
    if (status == STATOR_OK && s->path != NULL && !st_out_is_direct(&s->copy)) {
        st_data_find(s->copy.place, s->old_data);
    }
    status = st_out_close(&s->data, status, err);
    status = st_out_close(&s->copy, status, err);
    if (s->has_data && s->data.is_placed && !s->copy.is_placed) {
        st_out_remove(&s->data);
    }
    if (s->copy.is_placed && s->old_data[0] != '\0') {
        remove_old_data(s);
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

stator_status stator_model_save(const stator_model *model, const char *path, uint32_t n,
                                const char *const *names, stator_tensor *const *values)
{
    saver s = {.model = model, .path = path, .n = n, .names = names};
    st_mem *mem = &model->ctx->mem;
    stator_diag *diag = NULL;
    const stator_status status = save(&s, values, &diag);
    for (uint32_t k = 0; s.values != NULL && k < n; k++) {
        stator_tensor_release(s.values[k]);
    }
    st_free(mem, s.values);
    st_free(mem, s.views);
    return st_ctx_fail(model->ctx, status, diag);
}
