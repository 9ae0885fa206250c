/* Models made of the graph of another: as it is, with inner values as outputs, with numbers in
 * place of symbolic sizes; see stator/inspect.h. */
#include "core/host/function.h"
#include "ir/sizes/bind_sizes.h"
#include "ir/sizes/reinfer.h"
#include "ir/verify.h"
#include <stator/inspect.h>

#include <stdio.h>

stator_status st_model_need_graph(const stator_model *model, const stator_graph **out_graph,
                                  stator_diag **err)
{
    *out_graph = stator_model_graph(model);
    return *out_graph != NULL
               ? STATOR_OK
               : st_fail(err, STATOR_NEED_VALUE,
                         "the model's graph depends on the values of its inputs; give them first");
}

stator_status stator_x_model_of_graph(stator_ctx *ctx, const stator_graph *graph,
                                      stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    /* The graph need not be its module's root: the copy's refs are the same, so find it by place.
     */
    st_module *from = graph->module;
    stator_graph *kept_root = from->root;
    from->root = (stator_graph *)(uintptr_t)graph;
    st_module *copy = NULL;
    stator_status status = st_module_clone(from, &copy, &diag);
    from->root = kept_root;
    ST_THEN(status, st_model_wrap(ctx, copy, out_model, &diag));
    return st_ctx_fail(ctx, status, diag);
}

static stator_status with_outputs(st_module *module, uint32_t n, const stator_ref *values,
                                  stator_diag **err)
{
    const stator_graph *from = module->root;
    const stator_graph_view *v = st_graph_view(from);
    stator_ref *map = st_calloc(module->mem, v->n_values + 1u, sizeof *map);
    stator_builder *b = NULL;
    stator_status status = map != NULL ? STATOR_OK : st_fail_oom(err);
    ST_THEN(status, st_builder_create(module, stator_string_at(v, v->name), &b, err));
    ST_THEN(status, st_build_clone_inputs(b, from, map, err));
    if (status == STATOR_OK && v->n_nodes != 0) {
        status = st_build_clone(b, from, 1, v->n_nodes, map, err);
    }
    for (uint32_t k = 0; status == STATOR_OK && k < n; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "value%u", values[k]);
        if (values[k] == 0 || values[k] > v->n_values) {
            status = st_fail(err, STATOR_OUT_OF_RANGE, "the graph has no value %u", values[k]);
        } else {
            status = st_build_output(b, name, map[values[k]], err);
        }
    }
    st_free(module->mem, map);
    if (status != STATOR_OK) {
        if (b != NULL) {
            st_builder_abort(b);
        }
        return status;
    }
    return st_builder_finish(b, &module->root, err);
}

stator_status st_model_copy(const stator_model *model, st_module **out_copy, stator_diag **err)
{
    const stator_graph *graph = NULL;
    *out_copy = NULL;
    ST_TRY(st_model_need_graph(model, &graph, err));
    return st_module_clone(graph->module, out_copy, err);
}

stator_status st_model_end_copy(const stator_model *model, st_module *copy, stator_status status,
                                stator_model **out_model, stator_diag *diag)
{
    if (status == STATOR_OK) {
        status = st_model_wrap(model->ctx, copy, out_model, &diag);
    } else {
        st_module_destroy(copy);
    }
    return st_ctx_fail(model->ctx, status, diag);
}

stator_status stator_x_model_with_outputs(const stator_model *model, uint32_t n,
                                          const stator_ref *values, stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = st_model_copy(model, &copy, &diag);
    ST_THEN(status, with_outputs(copy, n, values, &diag));
    return st_model_end_copy(model, copy, status, out_model, diag);
}

stator_status st_model_reinfer(st_module **module, stator_diag **err)
{
    st_size_plan nothing;
    st_module *inferred = NULL;
    st_size_plan_init(&nothing, (*module)->mem);
    const stator_status status = st_reinfer(*module, &nothing, NULL, &inferred, NULL);
    st_size_plan_deinit(&nothing);
    if (status != STATOR_OK) {
        return status == STATOR_RESOURCE_EXHAUSTED ? st_fail_oom(err)
                                                   : st_verify((*module)->root, err);
    }
    st_module_destroy(*module);
    *module = inferred;
    return st_verify(inferred->root, err);
}

stator_status stator_x_model_with_sizes(const stator_model *model, uint32_t n,
                                        const char *const *names, const int64_t *values,
                                        stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = st_model_copy(model, &copy, &diag);
    ST_THEN(status, st_bind_sizes(copy, n, names, values, &diag));
    ST_THEN(status, st_model_reinfer(&copy, &diag));
    return st_model_end_copy(model, copy, status, out_model, diag);
}
