/* The pipeline: which stages run before a backend compiles, and running them. See compile.h.
 *
 * A stage is one of our passes (ir/passes/passes.def) or a plugin's. Third-party passes stand where
 * the backend's pipeline has the marker of their phase, ordered by their after/before names. Each
 * stage has a fuel scope; a stage that is optional as a whole asks the first question in it. */
#include "core/compile/compile.h"
#include "core/context/dump.h"

#include "core/base/str.h"
#include "core/base/threads/threads.h"
#include "core/base/vec.h"
#include "core/context/item_options.h"
#include "ir/verify.h"

#include <string.h>

/* ---- naming the stages ---- */

enum { STAGES_MAX = 1000 }; /* stages of a pipeline; the longest of Stator's own has some twenty */

typedef struct stage_list {
    stator_ctx *ctx;
    stator_status (*fn)(void *self, const char *stage);
    void *self;
    const char *backend; /* for messages */
    uint32_t count;
    stator_status status;
    stator_diag **err;
} stage_list;

typedef st_vec(const st_loaded *) pass_list;

typedef struct phase_passes {
    st_mem *mem;
    uint32_t phase;
    pass_list list;   /* passes of this phase */
    pass_list others; /* passes of all other phases */
} phase_passes;

static stator_status collect_phase(void *self, const st_loaded *loaded)
{
    phase_passes *p = self;
    pass_list *to = loaded->as.pass->phase == p->phase ? &p->list : &p->others;
    const st_loaded **slot = st_vec_push(p->mem, to);
    if (slot == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    *slot = loaded;
    return STATOR_OK;
}

/* A wish to stand before or after a pass that is not of the phase changes nothing. Of one that is
 * not installed nothing is said: it may be there another time. */
static void check_order(st_registry *registry, const phase_passes *p, const st_loaded *pass)
{
    const char *const lists[2] = {pass->as.pass->before, pass->as.pass->after};
    uint32_t n_own = 0;
    const st_pass_def *own = st_pass_defs(&n_own);
    for (uint32_t k = 0; k < 2; k++) {
        const char *found = NULL;
        for (uint32_t i = 0; i < n_own && found == NULL; i++) {
            found = st_list_has(lists[k], own[i].name) ? own[i].name : NULL;
        }
        for (uint32_t i = 0; i < p->others.count && found == NULL; i++) {
            const char *name = p->others.data[i]->as.pass->item.name;
            found = st_list_has(lists[k], name) ? name : NULL;
        }
        if (found != NULL) {
            st_registry_warn_of(
                registry, pass->row,
                "it is to run %s '%s', which is no plugin's pass of its phase: that "
                "has no effect",
                k == 0 ? "before" : "after", found);
        }
    }
}

/* Must `a` come before `b`? */
static bool precedes(const stator_pass *a, const stator_pass *b)
{
    return st_list_has(b->after, a->item.name) || st_list_has(a->before, b->item.name);
}

/* Emits the passes of one phase; the next one is the first that nothing left has to precede. A
 * circle of after/before is broken at the first of its members. */
static stator_status emit_phase(stage_list *list, uint32_t phase)
{
    phase_passes found = {.mem = &list->ctx->mem, .phase = phase};
    stator_status status =
        st_registry_each(list->ctx->registry, STATOR_KIND_PASS, collect_phase, &found, list->err);
    for (uint32_t i = 0; status == STATOR_OK && i < found.list.count; i++) {
        check_order(list->ctx->registry, &found, found.list.data[i]);
    }
    while (status == STATOR_OK && found.list.count > 0) {
        uint32_t pick = 0;
        for (uint32_t i = 0; i < found.list.count; i++) {
            bool is_free = true;
            for (uint32_t j = 0; j < found.list.count; j++) {
                is_free &=
                    j == i || !precedes(found.list.data[j]->as.pass, found.list.data[i]->as.pass);
            }
            if (is_free) {
                pick = i;
                break;
            }
        }
        status = list->fn(list->self, found.list.data[pick]->as.pass->item.name);
        memmove(&found.list.data[pick], &found.list.data[pick + 1],
                (found.list.count - pick - 1) * sizeof *found.list.data);
        found.list.count--;
    }
    st_vec_free(&list->ctx->mem, &found.list);
    st_vec_free(&list->ctx->mem, &found.others);
    return status;
}

static void on_stage(void *self, const char *name)
{
    stage_list *list = self;
    if (list->status == STATOR_OK && (name == NULL || ++list->count > STAGES_MAX)) {
        list->status = st_fail(list->err, STATOR_INVALID_ARGUMENT,
                               name == NULL ? "the pipeline of '%s' has a stage without a name"
                                            : "the pipeline of '%s' has more than %d stages",
                               list->backend, (int)STAGES_MAX);
    } else if (list->status == STATOR_OK) {
        list->status = list->fn(list->self, name);
    }
}

static void on_phase(void *self, uint32_t phase)
{
    stage_list *list = self;
    if (list->status == STATOR_OK) {
        list->status = emit_phase(list, phase);
    }
}

static void default_pipeline(const stator_pipeline_sink *sink)
{
    sink->stage(sink->self, "functionalize");
    sink->stage(sink->self, "freeze");
    sink->stage(sink->self, "canonicalize");
    sink->phase(sink->self, STATOR_PHASE_PRE_GRAD);
    sink->stage(sink->self, "autodiff");
    sink->phase(sink->self, STATOR_PHASE_JOINT);
    sink->phase(sink->self, STATOR_PHASE_POST_GRAD);
    stator_pipeline_lower(sink);
}

stator_status st_pipeline_stages(stator_ctx *ctx, const st_loaded *backend,
                                 const stator_options *options,
                                 stator_status (*fn)(void *self, const char *stage), void *self,
                                 stator_diag **err)
{
    stage_list list = {
        .ctx = ctx, .fn = fn, .self = self, .backend = backend->as.backend->item.name, .err = err};
    const stator_pipeline_sink sink = {
        .struct_size = sizeof sink, .self = &list, .stage = on_stage, .phase = on_phase};
    if (backend->as.backend->pipeline == NULL) {
        default_pipeline(&sink);
    } else {
        st_plugin_call call;
        st_plugin_enter(&call, backend->callee, "pipeline");
        const stator_status status = backend->as.backend->pipeline(backend->self, options, &sink);
        ST_TRY(st_plugin_leave(&call, list.status != STATOR_OK ? STATOR_OK : status, err));
    }
    return list.status;
}

/* ---- running ---- */

static int32_t ask_fuel(void *self, uint32_t kind, const char *rule, stator_ref node)
{
    return st_fuel_api.may_apply(self, kind, rule, node);
}

static void about_graph(void *self, const stator_graph *graph)
{
    st_fuel_about(self, graph);
}

static int32_t ask_keep(void *self, const stator_graph *graph, stator_ref node)
{
    return st_instance_keeps(self, graph, node);
}

void st_pass_ctx_init(const st_compile_request *request, stator_fuel_scope *scope,
                      st_pass_ctx *out_ctx)
{
    *out_ctx = (st_pass_ctx){.mem = &request->ctx->mem,
                             .may_apply = ask_fuel,
                             .fuel_self = scope,
                             .fuel_scope = scope,
                             .about = about_graph,
                             .keep = request->main != NULL ? ask_keep : NULL,
                             .keep_self = request->main,
                             .evaluate = request->evaluator != NULL ? st_evaluate_node : NULL,
                             .evaluate_self = request->evaluator,
                             .freeze = (request->flags & STATOR_COMPILE_NO_FREEZE) == 0};
}

static stator_status verify_stage(const stator_graph *before, const stator_graph *after,
                                  stator_diag **err)
{
    ST_TRY(st_verify(after, err));
    return st_verify_signature(before, after, err);
}

/* The slot itself, with the values of its options where it takes them. */
static stator_status call_pass(const st_compile_request *request, const st_loaded *loaded,
                               stator_fuel_scope *scope, const stator_graph *in, stator_builder *b,
                               uint32_t *out_result, stator_diag **err)
{
    const stator_pass *pass = loaded->as.pass;
    stator_options *options = NULL;
    st_plugin_call call;
    if (pass->run_with == NULL) {
        st_plugin_enter(&call, loaded->callee, "run");
        return st_plugin_leave(&call, pass->run(loaded->self, in, b, scope, out_result, err), err);
    }
    ST_TRY(st_pass_options(request->ctx, &pass->item, request->options, &options, err));
    st_plugin_enter(&call, loaded->callee, "run_with");
    stator_status status = pass->run_with(loaded->self, in, options, b, scope, out_result, err);
    status = st_plugin_leave(&call, status, err);
    st_options_destroy(options);
    return status;
}

static stator_status run_plugin_pass(const st_compile_request *request, const st_loaded *loaded,
                                     stator_fuel_scope *scope, stator_graph *in, stator_graph **out,
                                     stator_diag **err)
{
    stator_builder *b = NULL;
    ST_TRY(st_builder_create(in->module, stator_string_at(st_graph_view(in), in->name), &b, err));
    uint32_t result = STATOR_PASS_CHANGED;
    stator_status status = call_pass(request, loaded, scope, in, b, &result, err);
    if (status != STATOR_OK || result == STATOR_PASS_SAME) {
        st_builder_abort(b);
        *out = in;
    } else {
        status = st_builder_finish(b, out, err);
    }
    if (status == STATOR_OK && *out != in) {
        status = verify_stage(in, *out, err); /* a stranger's is checked in every build */
    }
    if (status != STATOR_OK && err != NULL && *err != NULL) {
        st_diag_prefix(*err, "pass %s of plugin '%s'", loaded->desc->name, loaded->callee->name);
    }
    return status;
}

/* A name that nobody has is answered with the built-in names too, which the registry does not know.
 */
static stator_status find_plugin_pass(const st_compile_request *request, const char *name,
                                      const st_loaded **out_loaded, stator_diag **err)
{
    stator_ctx *ctx = request->ctx;
    stator_diag *diag = NULL;
    const stator_status status =
        st_registry_get(ctx->registry, STATOR_KIND_PASS, name, out_loaded, &diag);
    if (status != STATOR_NOT_FOUND) {
        return st_diag_give(status, diag, err);
    }
    st_diag_release(diag);
    const char *names[64];
    uint32_t count = 0;
    const st_pass_def *defs = st_pass_defs(&count);
    for (uint32_t i = 0; i < count && i < 64; i++) {
        names[i] = defs[i].name;
    }
    const char *near = st_nearest(name, names, count < 64 ? count : 64);
    (void)st_fail(err, STATOR_NOT_FOUND, "there is no pass '%s'%s%s%s", name,
                  near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                  near != NULL ? "'?)" : "");
    if (err != NULL && *err != NULL) {
        st_diag_set_hint(*err, "'stator passes' lists the built-in ones and those of plugins");
    }
    return STATOR_NOT_FOUND;
}

/* The budget of `rematerialise` is an option of the backend in whose pipeline it stands; 1 where
 * that has no such option. */
static st_keep_limits keep_limits(const st_compile_request *request)
{
    st_keep_limits limits = {.budget = 1, .is_one_graph = true};
    const stator_item *item = request->main != NULL ? &request->main->backend->item : NULL;
    for (uint32_t k = 0; item != NULL && k < item->option_count; k++) {
        const stator_option_desc *row =
            (const stator_option_desc *)((const char *)item->options +
                                         (size_t)k * item->option_stride);
        if (strcmp(row->key, "memory_budget") == 0) {
            limits.budget = st_opt_api.get_f64(request->main->options, row->key);
        }
    }
    return limits;
}

static void on_note(void *self, const char *text)
{
    st_log(self, "passes", 1, "%s", text);
}

stator_status st_run_stage(const st_compile_request *request, const char *stage, stator_graph *in,
                           stator_graph **out, stator_diag **err)
{
    *out = in;
    stator_fuel_scope *scope = st_fuel_stage(request->fuel, stage, stage, in);
    ST_TRY_MEM(scope, err);
    const st_pass_def *def = st_pass_find(stage);
    if (def == NULL) {
        const st_loaded *loaded = NULL;
        ST_TRY(find_plugin_pass(request, stage, &loaded, err));
        if (!st_fuel_api.may_apply(scope, STATOR_FUEL_PASS, stage, 0)) {
            return STATOR_OK;
        }
        return run_plugin_pass(request, loaded, scope, in, out, err);
    }
    st_pass_ctx ctx;
    const st_keep_limits limits = keep_limits(request);
    st_pass_ctx_init(request, scope, &ctx);
    ctx.keep_limits = &limits;
    ctx.note = on_note;
    ctx.note_self = request->ctx;
    return st_pass_run(def, &ctx, in, out, err);
}

typedef struct pipeline_run {
    const st_compile_request *request;
    stator_graph *graph;
    stator_diag **err;
    uint32_t is_stopped;
} pipeline_run;

static void report(const st_compile_request *request, const char *stage, const stator_graph *graph,
                   uint64_t ns)
{
    st_dump_stage(request->ctx, stage, graph);
    st_log(request->ctx, "passes", 2, "%s: %u nodes, %.3f ms", stage, st_graph_view(graph)->n_nodes,
           (double)ns / 1e6);
    if (request->on_stage != NULL) {
        request->on_stage(request->stage_self, stage, graph, ns);
    }
}

static stator_status run_one(void *self, const char *stage)
{
    pipeline_run *run = self;
    if (run->is_stopped) {
        return STATOR_OK;
    }
    ST_TRY(st_watch_stage(&run->request->watch, stage, 0, 0, run->err));
    const uint64_t start = st_now_ns();
    stator_graph *next = NULL;
    const stator_status ran = st_run_stage(run->request, stage, run->graph, &next, run->err);
    if (ran == STATOR_NOT_FOUND && run->err != NULL && *run->err != NULL) {
        st_diag_prefix(*run->err, "the pipeline of '%s'", run->request->main->backend->item.name);
    }
    ST_TRY(ran);
    if ((run->request->flags & STATOR_COMPILE_VERIFY_EACH) != 0) {
        const stator_status status = verify_stage(run->graph, next, run->err);
        if (status != STATOR_OK) {
            if (run->err != NULL && *run->err != NULL) {
                st_diag_prefix(*run->err, "after %s", stage);
            }
            return status;
        }
    }
    run->graph = next;
    report(run->request, stage, next, st_now_ns() - start);
    run->is_stopped =
        run->request->stop_after != NULL && strcmp(run->request->stop_after, stage) == 0;
    return STATOR_OK;
}

stator_status st_run_pipeline(const st_compile_request *request,
                              st_shape_constraints *shape_constraints, st_module **out_module,
                              stator_diag **err)
{
    *out_module = NULL;
    st_module *module = NULL;
    ST_TRY(st_module_clone(request->source, &module, err));
    st_symtab_set_hints(&module->symtab, request->hints, request->n_hints);
    pipeline_run run = {.request = request, .graph = module->root, .err = err};
    report(request, "import", run.graph, 0);
    stator_status status = shape_constraints == NULL
                               ? STATOR_OK
                               : st_graph_shape_constraints(run.graph, shape_constraints, err);
    if (status == STATOR_OK && request->main != NULL) {
        status = st_pipeline_stages(request->ctx, request->main->loaded, request->main->options,
                                    run_one, &run, err);
    }
    if (status != STATOR_OK) {
        st_module_destroy(module);
        return status;
    }
    module->root = run.graph;
    *out_module = module;
    return STATOR_OK;
}
