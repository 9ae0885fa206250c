/* Parameters of a graph, by name. See model.h. */
#include "core/base/check.h"
#include "core/base/str.h"
#include "core/host/model.h"
#include "core/runtime/tensor.h"

#include <string.h>

stator_ref st_graph_find_param(const stator_graph *graph, const char *name)
{
    const stator_graph_view *v = st_graph_view(graph);
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        if ((row->flags & STATOR_VALUE_PARAM) != 0 &&
            strcmp(stator_string_at(v, row->name), name) == 0) {
            return i;
        }
    }
    return 0;
}

static stator_status fail_unknown(const stator_graph *graph, const char *whose, const char *name,
                                  stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    st_mem *mem = graph->module->mem;
    const char **names = st_calloc(mem, v->n_inputs + UINT64_C(1), sizeof *names);
    uint32_t n = 0;
    ST_TRY_MEM(names, err);
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        if ((row->flags & STATOR_VALUE_PARAM) != 0) {
            names[n++] = stator_string_at(v, row->name);
        }
    }
    const char *near = st_nearest(name, names, n);
    const stator_status status =
        near != NULL
            ? st_fail(err, STATOR_NOT_FOUND, "%s has no parameter '%s'; did you mean '%s'?", whose,
                      name, near)
            : st_fail(err, STATOR_NOT_FOUND, "%s has no parameter '%s', of %u", whose, name, n);
    st_free(mem, (void *)names);
    return status;
}

stator_status st_graph_require_param(const stator_graph *graph, const char *whose, const char *name,
                                     stator_ref *out_param, stator_diag **err)
{
    *out_param = st_graph_find_param(graph, name);
    return *out_param != 0 ? STATOR_OK : fail_unknown(graph, whose, name, err);
}

stator_status st_graph_check_param(const stator_graph *graph, stator_ref param,
                                   const stator_tensor *value, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    const stator_type_row *type = stator_value_type(v, param);
    const char *name = stator_string_at(v, stator_value_at(v, param)->name);
    int64_t dims[STATOR_RANK_MAX] = {0};
    char have[256], want[256];
    ST_FAIL_IF(value == NULL, err, STATOR_INVALID_ARGUMENT, "the value of parameter '%s' is NULL",
               name);
    bool is_same = value->dtype == type->dtype && (uint32_t)value->view.ndim == type->rank;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        (void)stator_sym_is_const(v, stator_dim_at(v, type, axis), &dims[axis]);
        is_same = is_same && value->view.shape[axis] == dims[axis];
    }
    ST_FAIL_IF(!is_same, err, STATOR_INVALID_ARGUMENT,
               "the value of parameter '%s' is %s %s, and the parameter is %s %s", name,
               st_dtype_name(value->dtype),
               st_shape_text(value->view.shape, (uint32_t)value->view.ndim, have, sizeof have),
               st_dtype_name(type->dtype), st_shape_text(dims, type->rank, want, sizeof want));
    return STATOR_OK;
}
