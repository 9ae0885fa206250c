/* The backend "aot_eager": the mid-level pipeline, then "eager", reached through the host by name.
 *
 * It has no kernels: every node runs in one of eager's. A difference between the two backends is
 * therefore a pass, or a composite's kernel against its decomposition. In: graphs after the stages
 * of aot_stages, each of which an option of its name leaves out. Out: eager's executables, handed
 * through as they are. */
#include <stator/plugin.h>

#include <stdio.h>
#include <string.h>

#define AOT_VERSION "1.0.0"
#define AOT_DOC "the whole mid-level pipeline, run by eager's kernels"

typedef struct aot_inst {
    const stator_host *host;
    stator_instance *eager;
} aot_inst;

/* ---- the pipeline ---- */

#define STAGE_ROW(name_, help_)                                                                    \
    STATOR_OPTION_ROW(STATOR_OPTION_BOOL, STATOR_OPTION_AFFECTS_CODE, name_, "true", help_)

static const stator_option_desc options_table[] = {
    STAGE_ROW("functionalize", "in-place writes become values; false: eager writes in place"),
    STAGE_ROW("freeze", "parameters become constants"),
    STAGE_ROW("autodiff", "gradients are written out; false: a graph that asks for one is refused"),
    STAGE_ROW("decompose", "composites become primitives; false: eager's own kernels run them"),
    STAGE_ROW("canonicalize", "algebra rules"),
    STAGE_ROW("fold", "what constants make becomes constants"),
    STAGE_ROW("cse", "equal nodes are computed once"),
    STAGE_ROW("rematerialise", "the backward part computes again what is cheap"),
    STAGE_ROW("dce", "what nobody needs goes"),
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_F64,
     .flags = STATOR_OPTION_AFFECTS_CODE,
     .key = "memory_budget",
     .default_text = "1",
     .min_f64 = 0,
     .max_f64 = 1,
     .help = "of what rematerialise keeps at 1, how much it may; below 1 contractions run again"},
};

/* A stage, or what stands in front of it: the passes of plugins of a phase. */
static const struct {
    const char *stage;
    uint32_t phase;
} aot_stages[] = {
    {.stage = "functionalize"},
    {.stage = "freeze"},
    {.phase = STATOR_PHASE_PRE_GRAD},
    {.stage = "autodiff"},
    {.phase = STATOR_PHASE_JOINT},
    {.phase = STATOR_PHASE_POST_GRAD},
    {.stage = "decompose"},
    {.stage = "canonicalize"},
    {.stage = "fold"},
    {.stage = "cse"},
    {.stage = "rematerialise"},
    {.stage = "dce"},
    {.phase = STATOR_PHASE_LOWERING},
};

/* rematerialise stands behind cse, which would keep what decompositions of the forward and of the
 * backward part both make. Without options (`stator passes`) all stages are there. */
static stator_status aot_pipeline(void *self, const stator_options *options,
                                  const stator_pipeline_sink *sink)
{
    const stator_host *host = self;
    for (size_t k = 0; k < sizeof aot_stages / sizeof aot_stages[0]; k++) {
        const char *stage = aot_stages[k].stage;
        if (stage == NULL) {
            sink->phase(sink->self, aot_stages[k].phase);
        } else if (options == NULL || host->opt->get_bool(options, stage)) {
            sink->stage(sink->self, stage);
        }
    }
    return STATOR_OK;
}

/* ---- instances ---- */

static stator_status aot_init(const stator_host *host, void **out_self, stator_diag **err)
{
    if (!STATOR_HAS(host, nested) || !STATOR_HAS(host->nested, keep)) {
        return stator_fail(host, err, STATOR_UNSUPPORTED,
                           "aot_eager: this host cannot open one backend from another");
    }
    *out_self = (void *)(uintptr_t)host;
    return STATOR_OK;
}

static stator_status aot_create(void *self, const stator_options *options, uint32_t device,
                                void **out_inst, stator_diag **err)
{
    const stator_host *host = self;
    (void)options;
    *out_inst = NULL;
    if (device != 0) {
        return stator_fail(host, err, STATOR_NOT_FOUND, "aot_eager: there is one device, 0");
    }
    aot_inst *inst = host->mem->alloc(host->ctx, sizeof *inst, 16);
    if (!inst) {
        return stator_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "aot_eager: out of memory");
    }
    *inst = (aot_inst){.host = host};
    const stator_status status =
        host->nested->open(host->ctx, "aot_eager", "eager", NULL, &inst->eager, err);
    if (status != STATOR_OK) {
        host->mem->free(host->ctx, inst);
        return status;
    }
    *out_inst = inst;
    return STATOR_OK;
}

static void aot_destroy(void *self, void *inst_)
{
    aot_inst *inst = inst_;
    (void)self;
    if (inst) {
        inst->host->nested->close(inst->eager);
        inst->host->mem->free(inst->host->ctx, inst);
    }
}

static void answer(const stator_graph_view *v, const uint8_t *accepts,
                   const stator_capability_sink *sink)
{
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        if (accepts[n]) {
            sink->yes(sink->self, n, 0);
            continue;
        }
        char why[160];
        (void)snprintf(why, sizeof why,
                       "eager, whose kernels aot_eager uses, does not run op '%s' here",
                       stator_op_at(v, stator_node_at(v, n)->op)->name);
        sink->no(sink->self, n, STATOR_UNSUPPORTED, why);
    }
}

static stator_status aot_capability(void *inst_, const stator_graph *graph,
                                    const stator_capability_sink *sink, stator_diag **err)
{
    const aot_inst *inst = inst_;
    const stator_host *host = inst->host;
    const stator_graph_view *v = host->ir->view(graph);
    uint8_t *accepts = host->mem->alloc(host->ctx, (uint64_t)v->n_nodes + 1u, 16);
    if (!accepts) {
        return stator_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "aot_eager: out of memory");
    }
    memset(accepts, 0, (uint64_t)v->n_nodes + 1u);
    const stator_status status = host->nested->capability(inst->eager, graph, accepts, err);
    if (status == STATOR_OK) {
        answer(v, accepts, sink);
    }
    host->mem->free(host->ctx, accepts);
    return status;
}

/* ---- executables: eager's own ---- */

static stator_status aot_compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                                 void **out_exe, stator_diag **err)
{
    const aot_inst *inst = inst_;
    (void)fuel; /* nothing here is optional; the passes asked */
    return inst->host->nested->compile(inst->eager, graph, out_exe, err);
}

static stator_status aot_exe_info(void *inst_, void *exe, stator_exe_info *out)
{
    const aot_inst *inst = inst_;
    return inst->host->nested->exe_info(inst->eager, exe, out);
}

static stator_status aot_exe_run(void *inst_, void *exe, const stator_call *call, stator_diag **err)
{
    const aot_inst *inst = inst_;
    return inst->host->nested->run(inst->eager, exe, call, err);
}

static stator_status aot_exe_steps(void *inst_, void *exe, const stator_step_sink *sink,
                                   stator_diag **err)
{
    const aot_inst *inst = inst_;
    const stator_nested_api *nested = inst->host->nested;
    return STATOR_HAS(nested, exe_steps) ? nested->exe_steps(inst->eager, exe, sink, err)
                                         : STATOR_OK;
}

static void aot_exe_destroy(void *inst_, void *exe)
{
    const aot_inst *inst = inst_;
    inst->host->nested->exe_destroy(inst->eager, exe);
}

/* ---- the descriptor ---- */

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "aot_eager", AOT_DOC,
                                options_table),
    .tags = "reference,stable,cpu",
    .priority = 50,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE | STATOR_BACKEND_FORK_SAFE,
    .create = aot_create,
    .destroy = aot_destroy,
    .pipeline = aot_pipeline,
    .capability = aot_capability,
    .compile = aot_compile,
    .exe_info = aot_exe_info,
    .exe_run = aot_exe_run,
    .exe_destroy = aot_exe_destroy,
    .exe_steps = aot_exe_steps,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("aot_eager", AOT_VERSION, "Stator", "[\"backend\"]",
              ",\"licence\":\"Apache-2.0\",\"tags\":[\"reference\","
              "\"stable\",\"cpu\"],\"priority\":50,\"devices\":[\"cpu\"],\"description\":"
              "\"" AOT_DOC "\"",
              items, aot_init, NULL);
