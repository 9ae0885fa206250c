/* A copy of a model's file with other values of parameters, by the frontend that read it; see
 * stator_model_save. The host gives the values, dense and in host memory, and two files that are
 * moved to their places when both are whole. */
#define _GNU_SOURCE
#include "core/base/fdio.h"
#include "core/base/sized.h"
#include "core/host/model.h"
#include "core/plugins/plugin_call.h"
#include "core/runtime/tensor.h"
#include <stator/train.h>

#include <stdio.h>
#include <string.h>

#define FILES 2u /* the copy, and what lies beside it */

typedef struct saver {
    const stator_model *model;
    uint32_t n;
    const char *const *names;
    stator_tensor **values; /* dense, in host memory */
    DLTensor *views;
    char paths[FILES][4096];
    st_part_file files[FILES];
    bool is_open[FILES];
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

static stator_status append(const stator_rewrite *to, uint32_t file, const void *bytes,
                            uint64_t size, stator_diag **err)
{
    saver *s = to->host;
    ST_FAIL_IF(file >= FILES, err, STATOR_INVALID_ARGUMENT, "a copy has two files, and no file %u",
               file);
    if (s->paths[0][0] == '\0') { /* it is only asked whether this would go well */
        return STATOR_OK;
    }
    if (!s->is_open[file]) {
        ST_TRY(st_part_open(s->paths[file], &s->files[file], err));
        s->is_open[file] = true;
    }
    ST_FAIL_IF(size != 0 && fwrite(bytes, 1, size, s->files[file].file) != size, err,
               STATOR_UNAVAILABLE, "cannot write '%s': %m", s->paths[file]);
    return STATOR_OK;
}

/* Ends the files; the copy gets its place last, for it names the other. */
static stator_status end_files(saver *s, stator_status status, stator_diag **err)
{
    for (uint32_t k = 0; k < FILES; k++) {
        if (s->is_open[k]) {
            status = st_part_close(&s->files[k], status, err);
        }
    }
    for (uint32_t k = FILES; k-- > 0;) {
        if (s->is_open[k] && status == STATOR_OK) {
            status = st_part_place(&s->files[k], err);
        } else if (s->is_open[k]) {
            (void)remove(s->files[k].part);
        }
    }
    return status;
}

static stator_status name_files(saver *s, const char *path, stator_diag **err)
{
    if (path == NULL) {
        return STATOR_OK;
    }
    const int n = snprintf(s->paths[0], sizeof s->paths[0], "%s", path);
    const int m = snprintf(s->paths[1], sizeof s->paths[1], "%s.data", path);
    ST_FAIL_IF(n <= 0 || m < 0 || (size_t)m >= sizeof s->paths[1], err, STATOR_INVALID_ARGUMENT,
               "the path is empty or too long");
    return STATOR_OK;
}

/* ---- the whole ---- */

static stator_status rewrite(saver *s, stator_diag **err)
{
    const stator_model *model = s->model;
    const char *slash = strrchr(s->paths[1], '/');
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
                               .data_name = slash != NULL ? slash + 1 : s->paths[1],
                               .append = append,
                               .host = s};
    const stator_frontend *frontend = model->frontend->as.frontend;
    const uint32_t held = st_file_limit_hold();
    st_plugin_call call;
    st_plugin_enter(&call, model->frontend->callee, "rewrite");
    stator_status status = frontend->rewrite(model->frontend->self, &source, &to, err);
    status = st_plugin_leave(&call, status, err);
    if (status == STATOR_OK && s->paths[0][0] != '\0' && !s->is_open[0]) {
        status = st_fail(err, STATOR_INTERNAL, "the frontend '%s' wrote nothing",
                         model->frontend->desc->name);
    }
    status = end_files(s, status, err);
    st_file_limit_release(held);
    return status;
}

static stator_status save(saver *s, const char *path, stator_tensor *const *values,
                          stator_diag **err)
{
    const st_loaded *frontend = s->model->frontend;
    ST_FAIL_IF(frontend == NULL, err, STATOR_UNSUPPORTED,
               "the model was read from no file, so there is none to copy");
    ST_FAIL_IF(frontend->as.frontend->rewrite == NULL, err, STATOR_UNSUPPORTED,
               "the frontend '%s', which read '%s', writes no models", frontend->desc->name,
               s->model->path);
    ST_TRY(name_files(s, path, err));
    ST_TRY(place_values(s, values, err));
    return rewrite(s, err);
}

stator_status stator_model_save(const stator_model *model, const char *path, uint32_t n,
                                const char *const *names, stator_tensor *const *values)
{
    saver s = {.model = model, .n = n, .names = names};
    st_mem *mem = &model->ctx->mem;
    stator_diag *diag = NULL;
    const stator_status status = save(&s, path, values, &diag);
    for (uint32_t k = 0; s.values != NULL && k < n; k++) {
        stator_tensor_release(s.values[k]);
    }
    st_free(mem, s.values);
    st_free(mem, s.views);
    return st_ctx_fail(model->ctx, status, diag);
}
