/* Parameters of a function, by name; see stator/train.h. In: a value. Out: a function whose next
 * call compiles a copy of the import in which the parameter has it, so that it is folded and packed
 * as the first one was. Programs of before go at once, which is why nobody may use them. */
#include "core/base/check.h"
#include "core/cache/cache_writer.h"
#include "core/host/function_state.h"
#include "core/runtime/tensor.h"
#include <stator/train.h>

#include <string.h>

/* ---- values that were set ---- */

static set_param *find_set(const stator_function *f, const char *name)
{
    for (uint32_t i = 0; i < f->params.count; i++) {
        if (strcmp(f->params.data[i].name, name) == 0) {
            return &f->params.data[i];
        }
    }
    return NULL;
}

static stator_status keep(stator_function *f, const char *name, stator_blob *blob,
                          stator_diag **err)
{
    st_mem *mem = &f->ctx->mem;
    set_param *p = find_set(f, name);
    if (p == NULL) {
        char *copy = st_strdup(mem, name);
        p = copy != NULL ? st_vec_push(mem, &f->params) : NULL;
        if (p == NULL) {
            st_free(mem, copy);
            return st_fail_oom(err);
        }
        *p = (set_param){.name = copy};
    }
    st_blob_release(p->blob);
    st_blob_retain(blob);
    p->blob = blob;
    return STATOR_OK;
}

/* A blob with the elements of a tensor, which may lie on a device. */
static stator_status blob_of(stator_function *f, stator_tensor *value, stator_blob **out,
                             stator_diag **err)
{
    stator_ctx *ctx = f->ctx;
    stator_tensor *dense = NULL;
    stator_status status = st_tensor_on_host(&ctx->mem, &ctx->pool, value, &dense, err);
    if (status == STATOR_OK) {
        *out = st_blob_copy(&ctx->mem, st_tensor_address(dense), dense->size_bytes);
        status = *out != NULL ? STATOR_OK : st_fail_oom(err);
    }
    stator_tensor_release(dense);
    return status;
}

/* ---- compiling with them ---- */

stator_status st_function_source(stator_function *f, const st_specialisation *spec,
                                 st_module **out_module, stator_diag **err)
{
    st_module *copy = NULL;
    *out_module = spec->module;
    if (f->params.count == 0) {
        return STATOR_OK;
    }
    ST_TRY(st_module_clone(spec->module, &copy, err));
    st_module **slot = st_vec_push(&f->ctx->mem, &f->sources);
    bool is_made = slot != NULL;
    if (is_made) {
        *slot = copy;
    } else {
        st_module_destroy(copy);
    }
    for (uint32_t i = 0; is_made && i < f->params.count; i++) {
        const stator_ref param = st_graph_find_param(copy->root, f->params.data[i].name);
        const uint32_t blob = param != 0 ? st_module_blob(copy, f->params.data[i].blob) : 0;
        is_made = param == 0 || blob != 0;
        if (blob != 0) {
            ((stator_value_row *)st_seg_at(&copy->root->values, param))->blob = blob;
        }
    }
    ST_TRY_MEM(is_made, err);
    *out_module = copy;
    return STATOR_OK;
}

/* Programs were made of other values. */
static void drop_programs(stator_function *f)
{
    st_mem *mem = &f->ctx->mem;
    entry_list *list = atomic_exchange(&f->list, NULL);
    st_cache_writer_flush(f->ctx->cache_writer);
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        st_compiled_destroy(list->entries[i]);
    }
    while (list != NULL) {
        entry_list *previous = list->previous;
        st_free(mem, list);
        list = previous;
    }
    for (uint32_t i = 0; i < f->sources.count; i++) {
        st_module_destroy(f->sources.data[i]);
    }
    f->sources.count = 0;
}

void st_function_params_deinit(stator_function *f)
{
    st_mem *mem = &f->ctx->mem;
    drop_programs(f);
    for (uint32_t i = 0; i < f->params.count; i++) {
        st_free(mem, f->params.data[i].name);
        st_blob_release(f->params.data[i].blob);
    }
    st_vec_free(mem, &f->params);
    st_vec_free(mem, &f->sources);
}

/* ---- the calls ---- */

/* A parameter of the model's graph. */
static stator_status find_param(const stator_function *f, const char *name,
                                const stator_graph **out_graph, stator_ref *out_param,
                                stator_diag **err)
{
    ST_FAIL_IF(name == NULL, err, STATOR_INVALID_ARGUMENT, "the name of the parameter is NULL");
    ST_TRY(st_model_need_graph(f->model, out_graph, err));
    return st_graph_require_param(*out_graph, "the function's model", name, out_param, err);
}

uint32_t stator_function_param_count(stator_function *f)
{
    const stator_graph *graph = stator_model_graph(f->model);
    const stator_graph_view *v = graph != NULL ? st_graph_view(graph) : NULL;
    uint32_t n = 0;
    for (stator_ref i = 1; v != NULL && i <= v->n_inputs; i++) {
        n += (stator_value_at(v, i)->flags & STATOR_VALUE_PARAM) != 0;
    }
    return n;
}

stator_status stator_function_param_info(stator_function *f, uint32_t index,
                                         stator_port_info *out_info)
{
    const stator_graph *graph = NULL;
    stator_diag *diag = NULL;
    stator_status status = st_model_need_graph(f->model, &graph, &diag);
    const stator_graph_view *v = status == STATOR_OK ? st_graph_view(graph) : NULL;
    uint32_t seen = 0;
    for (stator_ref i = 1; v != NULL && i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        if ((row->flags & STATOR_VALUE_PARAM) != 0 && seen++ == index) {
            return st_port_info_write(f->ctx, v, i, stator_string_at(v, row->name), out_info);
        }
    }
    if (status == STATOR_OK) {
        status =
            st_fail(&diag, STATOR_OUT_OF_RANGE, "the function's model has no parameter %u", index);
    }
    return st_ctx_fail(f->ctx, status, diag);
}

static stator_status get_param(stator_function *f, const char *name, stator_tensor **out,
                               stator_diag **err)
{
    const stator_graph *graph = NULL;
    const void *data = NULL;
    stator_ref param = 0;
    int64_t dims[STATOR_RANK_MAX];
    ST_TRY(find_param(f, name, &graph, &param, err));
    const stator_graph_view *v = st_graph_view(graph);
    const stator_type_row *type = stator_value_type(v, param);
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        (void)stator_sym_is_const(v, stator_dim_at(v, type, axis), &dims[axis]);
    }
    const set_param *set = find_set(f, name);
    ST_TRY(st_blob_get(set != NULL ? set->blob : st_graph_value_blob(graph, param), &data, err));
    ST_TRY(st_tensor_create(&f->ctx->mem, &f->ctx->pool, type->dtype, type->rank, dims, out, err));
    memcpy(stator_tensor_data(*out), data, (*out)->size_bytes);
    return STATOR_OK;
}

stator_status stator_function_param_get(stator_function *f, const char *name,
                                        stator_tensor **out_value)
{
    stator_diag *diag = NULL;
    *out_value = NULL;
    pthread_mutex_lock(&f->lock);
    const stator_status status = get_param(f, name, out_value, &diag);
    pthread_mutex_unlock(&f->lock);
    return st_ctx_fail(f->ctx, status, diag);
}

static stator_status set_value(stator_function *f, const char *name, stator_tensor *value,
                               stator_diag **err)
{
    const stator_graph *graph = NULL;
    stator_blob *blob = NULL;
    stator_ref param = 0;
    ST_TRY(find_param(f, name, &graph, &param, err));
    ST_TRY(st_graph_check_param(graph, param, value, err));
    ST_FAIL_IF(f->verifier != NULL, err, STATOR_UNSUPPORTED,
               "calls of the function are compared with those of its model, whose parameter '%s' "
               "would be another",
               name);
    ST_FAIL_IF(atomic_load(&f->n_bound) != 0, err, STATOR_FAILED_PRECONDITION,
               "%u bound calls of the function use parameter '%s'", atomic_load(&f->n_bound), name);
    ST_TRY(blob_of(f, value, &blob, err));
    const stator_status status = keep(f, name, blob, err);
    st_blob_release(blob);
    ST_TRY(status);
    drop_programs(f);
    return STATOR_OK;
}

stator_status stator_function_param_set(stator_function *f, const char *name, stator_tensor *value)
{
    stator_diag *diag = NULL;
    stator_status status = stator_function_wait(f);
    if (status != STATOR_OK) {
        return status;
    }
    pthread_mutex_lock(&f->lock);
    status = set_value(f, name, value, &diag);
    pthread_mutex_unlock(&f->lock);
    return st_ctx_fail(f->ctx, status, diag);
}
