/* Ahead-of-time packages: the host's half of stator_x_package.
 *
 * In: a function, whose model has a graph. The graph goes through the backend's pipeline and must
 * then be one executable of that backend alone: no node elsewhere, no control flow of the host, no
 * input written in place. Out: the final graph to the caller, the executable's pieces to the sink.
 *
 * The graph is taken as it is imported, for every size that it states. Where the backend cannot do
 * that it is taken for symbols of 2 and more, as calls have them (docs/sizes.md). */
#include "core/compile/divide.h"
#include "core/host/function.h"
#include "core/host/package_shape_constraints.h"
#include "core/host/sizes.h"

#include "core/base/check.h"

typedef struct package {
    stator_function *function;
    stator_model *model;
    st_compile_request request;
    st_fuel fuel;
    st_module *module;
    st_division division;
    st_shape_constraints shape_constraints; /* constraints of the graph before any pass */
    void *exe;
} package;

/* ---- what cannot be packaged ---- */

static stator_status check_model(const stator_model *model, stator_diag **err)
{
    ST_FAIL_IF(model->n_needed != 0, err, STATOR_UNSUPPORTED,
               "the value of input '%s' decides shapes: the graph is known only at a call",
               model->needed[0]);
    return stator_model_graph(model) != NULL
               ? STATOR_OK
               : st_fail(err, STATOR_NEED_VALUE, "the model has no graph yet");
}

static stator_status check_graph(const stator_graph *graph, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    if (v->n_write_backs != 0) {
        const stator_write_back_row *row = stator_write_back_at(v, 0);
        return st_fail(err, STATOR_UNSUPPORTED,
                       "input '%s' is written in place, which a package cannot do",
                       stator_string_at(v, stator_value_at(v, row->input)->name));
    }
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        ST_FAIL_IF((stator_value_at(v, value)->flags & STATOR_VALUE_PARAM) != 0, err,
                   STATOR_UNSUPPORTED, "parameter '%s' was not made a constant",
                   stator_string_at(v, stator_value_at(v, value)->name));
    }
    return STATOR_OK;
}

/* Every node is the backend's: what it refuses was an error before, what is left is control flow.
 */
static stator_status check_colors(const st_division *d, stator_diag **err)
{
    const st_unit *u = d->root;
    for (stator_ref n = 1; n <= u->v->n_nodes; n++) {
        ST_FAIL_IF(u->color[n] != ST_COLOR_MAIN, err, STATOR_UNSUPPORTED,
                   "%s '%s' is control flow that Stator itself would run (%s)",
                   stator_op_at(u->v, stator_node_at(u->v, n)->op)->name,
                   stator_node_origin(u->v, n),
                   u->reasons[n] != NULL ? u->reasons[n] : "its bodies are divided");
    }
    return STATOR_OK;
}

/* The nodes that the backend declined while it compiled. */
static stator_status explain_declined(const package *p, const stator_diag *why, stator_diag **err)
{
    const st_diag_node *at = st_diag_nodes(why);
    const stator_graph_view *v = p->division.root->v;
    const char *backend = p->request.main->backend->item.name;
    ST_FAIL_IF(at == NULL || at->node == 0 || at->node > v->n_nodes, err, STATOR_UNSUPPORTED,
               "backend '%s' declined the graph: %s", backend, st_diag_text(why));
    return st_fail(err, STATOR_UNSUPPORTED, "backend '%s' does not run %s '%s' (%s)", backend,
                   stator_op_at(v, stator_node_at(v, at->node)->op)->name,
                   stator_node_origin(v, at->node), at->reason);
}

/* ---- steps ---- */

static stator_status compile_whole(package *p, stator_diag **err)
{
    stator_instance *main = p->request.main;
    stator_graph *graph = p->division.root->graph;
    stator_fuel_scope *scope = st_fuel_scope(&p->fuel, NULL, main->backend->item.name);
    ST_TRY_MEM(scope, err);
    st_fuel_about(scope, graph);
    stator_diag *why = NULL;
    stator_status status = st_instance_compile(main, graph, scope, &p->exe, &why);
    if (status == STATOR_NEED_FALLBACK) {
        status = explain_declined(p, why, err);
    } else if (status != STATOR_OK && err != NULL && *err == NULL) {
        *err = why;
        why = NULL;
    }
    st_diag_release(why);
    return status;
}

/* Pipeline, division and compile of one form of the model. */
static stator_status compile_spec(package *p, const st_specialisation *spec, stator_diag **err)
{
    st_function_request(p->function, spec, &p->request);
    p->request.fuel = &p->fuel;
    p->request.n_fallbacks = 0;
    p->request.flags |= STATOR_COMPILE_STRICT;
    ST_FAIL_IF(p->request.main->backend->exe_package == NULL, err, STATOR_UNSUPPORTED,
               "backend '%s' makes no packages", p->request.main->backend->item.name);
    ST_TRY(st_run_pipeline(&p->request, &p->shape_constraints, &p->module, err));
    ST_TRY(st_divide(&p->request, p->module->root, &p->division, err));
    ST_TRY(check_colors(&p->division, err));
    ST_TRY(check_graph(p->division.root->graph, err));
    return compile_whole(p, err);
}

static void drop_spec(package *p)
{
    st_division_deinit(&p->division);
    st_module_destroy(p->module);
    p->module = NULL;
    st_shape_constraints_deinit(&p->shape_constraints);
    st_shape_constraints_init(&p->shape_constraints, &p->model->ctx->mem);
    st_fuel_deinit(&p->fuel);
    st_fuel_init(&p->fuel, &p->model->ctx->mem);
}

/* ---- sizes of 2 and more ---- */

/* A call's inputs without data: each symbol has the smallest value from 2 on that it may have. 0: a
 * size cannot be computed. */
static bool small_inputs(const stator_graph_view *v, int64_t *syms, int64_t *shapes, DLTensor *in)
{
    const st_sym_cols cols = {.syms = v->syms, .terms = v->terms, .atoms = v->atoms};
    bool ok = true;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < v->n_inputs; i++) {
            const stator_type_row *type = stator_value_type(v, i + 1u);
            int64_t *shape = shapes + (size_t)i * STATOR_RANK_MAX;
            in[i] = (DLTensor){.device = {kDLCPU, 0},
                               .ndim = (int32_t)type->rank,
                               .dtype = st_dtype_to_dl(type->dtype),
                               .shape = shape};
            for (uint32_t a = 0; a < type->rank; a++) {
                const stator_ref dim = stator_dim_at(v, type, a);
                const stator_atom_row *atom = stator_sym_as_symbol(v, dim);
                if (round == 0 && atom != NULL) {
                    const int64_t step = atom->divisor > 1 ? atom->divisor : 1;
                    const int64_t least = atom->lo > 2 ? atom->lo : 2;
                    syms[atom->index] = (least + step - 1) / step * step;
                }
                ok &= round == 0 || st_sym_eval(&cols, dim, syms, &shape[a]);
            }
        }
    }
    return ok;
}

static stator_status refine(package *p, st_specialisation **out_spec, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(stator_model_graph(p->model));
    st_mem *mem = &p->model->ctx->mem;
    const uint64_t n = v->n_inputs + UINT64_C(1);
    DLTensor *in = st_calloc(mem, n, sizeof *in);
    int64_t *shapes = st_calloc(mem, n * STATOR_RANK_MAX, sizeof *shapes);
    int64_t *syms = st_calloc(mem, v->n_symbols + UINT64_C(1), sizeof *syms);
    st_sizes sizes = {.changed = ST_VEC_INIT};
    stator_status status =
        in != NULL && shapes != NULL && syms != NULL ? STATOR_OK : st_fail_oom(err);
    for (uint32_t i = 0; status == STATOR_OK && i < v->n_symbols; i++) {
        syms[i] = INT64_MIN;
    }
    if (status == STATOR_OK && !small_inputs(v, syms, shapes, in)) {
        status = st_fail(err, STATOR_UNSUPPORTED, "a size of an input cannot be computed");
    }
    ST_THEN(status,
            st_sizes_choose(&sizes, p->model, ST_SIZES_REFINE, v->n_inputs, in, out_spec, err));
    st_sizes_deinit(&sizes, mem);
    st_free(mem, in);
    st_free(mem, shapes);
    st_free(mem, syms);
    return status;
}

static stator_status compile_model(package *p, stator_diag **err)
{
    stator_diag *why = NULL;
    st_specialisation *refined = NULL;
    ST_TRY(check_model(p->model, err));
    pthread_mutex_lock(&p->model->lock);
    const st_specialisation *newest = p->model->specialisations;
    pthread_mutex_unlock(&p->model->lock);
    stator_status status = compile_spec(p, newest, &why);
    if (status == STATOR_UNSUPPORTED && p->module != NULL &&
        refine(p, &refined, NULL) == STATOR_OK && refined != newest) {
        drop_spec(p);
        st_diag_release(why);
        why = NULL;
        status = compile_spec(p, refined, &why);
    }
    if (status == STATOR_UNSUPPORTED && why != NULL) {
        st_diag_set_hint(why, "a package calls no other backend; `--dim N=8` states a size");
    }
    return st_diag_give(status, why, err);
}

static stator_status make_package(package *p, stator_x_package_fn fn, void *self,
                                  const stator_package_sink *sink, stator_diag **err)
{
    ST_TRY(compile_model(p, err));
    ST_TRY(fn(self, p->division.root->graph));
    const st_sym_cols cols = st_sym_columns(&p->module->symtab);
    ST_TRY(st_package_shape_constraints(&p->shape_constraints, &cols, sink, err));
    return st_instance_package(p->request.main, p->exe, sink, err);
}

stator_status stator_x_package(stator_function *function, stator_x_package_fn fn, void *self,
                               const stator_package_sink *sink)
{
    package p = {.function = function, .model = st_function_model(function)};
    stator_ctx *ctx = p.model->ctx;
    stator_diag *diag = NULL;
    st_fuel_init(&p.fuel, &ctx->mem);
    st_shape_constraints_init(&p.shape_constraints, &ctx->mem);
    const stator_status status = make_package(&p, fn, self, sink, &diag);
    if (p.exe != NULL) {
        st_instance_exe_destroy(p.request.main, p.exe);
    }
    st_division_deinit(&p.division);
    st_module_destroy(p.module);
    st_shape_constraints_deinit(&p.shape_constraints);
    st_fuel_deinit(&p.fuel);
    return st_ctx_fail(ctx, status, diag);
}
