/* A backend that claims a few nodes and computes them with eager's kernels, so that graphs are
 * divided: what it leaves runs on eager, and control flow is the host's. For tests of the
 * partitioner; the results must be eager's bit for bit.
 *
 * Options: `ops` the ops that it claims (default add, mul; "while" and the like take control flow
 * too); `every` claims every n-th node that is no constant and no control flow instead. When it
 * compiles it declines the nodes of the ops in `declines`, or with `declines=any` the first node of
 * whatever it is given, or with `declines=all` the whole graph without naming a node. `plain`
 * leaves the graph as it was imported. */
#include "tests/over/over_backend.h"

#include <string.h>

typedef struct instance {
    over over;
    const char *ops;
    const char *declines;
    int64_t every;
} instance;

static void destroy(void *self, void *inst_)
{
    instance *inst = inst_;
    const stator_host *host = self;
    if (inst != NULL) {
        host->nested->close(inst->over.inner);
        host->mem->free(host->ctx, (void *)(uintptr_t)inst->ops);
        host->mem->free(host->ctx, (void *)(uintptr_t)inst->declines);
        host->mem->free(host->ctx, inst);
    }
}

static stator_status create(void *self, const stator_options *options, uint32_t device,
                            void **out_inst, stator_diag **err)
{
    const stator_host *host = self;
    (void)device;
    instance *inst = host->mem->alloc(host->ctx, sizeof *inst, 16);
    if (inst == NULL) {
        return over_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "divided: out of memory");
    }
    *inst = (instance){.over = {.host = host},
                       .ops = over_copy(host, host->opt->get_str(options, "ops")),
                       .declines = over_copy(host, host->opt->get_str(options, "declines")),
                       .every = host->opt->get_i64(options, "every")};
    const stator_status status =
        host->nested->open(host->ctx, "divided", "eager", options, &inst->over.inner, err);
    if (status != STATOR_OK || inst->ops == NULL || inst->declines == NULL) {
        destroy(self, inst);
        return status != STATOR_OK ? status : STATOR_RESOURCE_EXHAUSTED;
    }
    *out_inst = inst;
    return STATOR_OK;
}

static stator_status pipeline(void *self, const stator_options *options,
                              const stator_pipeline_sink *sink)
{
    static const char *const stages[] = {"functionalize", "freeze", "canonicalize", "decompose",
                                         "canonicalize",  "fold",   "cse",          "dce"};
    const stator_host *host = self;
    const size_t n = host->opt->get_bool(options, "plain") ? 1 : sizeof stages / sizeof stages[0];
    for (size_t i = 0; i < n; i++) {
        sink->stage(sink->self, stages[i]);
    }
    return STATOR_OK;
}

/* ---- which nodes ---- */

static stator_status capability(void *inst_, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const instance *inst = inst_;
    const stator_graph_view *v = inst->over.host->ir->view(graph);
    int64_t seen = 0;
    (void)err;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_op_desc *op = stator_op_at(v, stator_node_at(v, node)->op);
        const int is_free = (op->flags & (STATOR_OP_CONSTANT | STATOR_OP_REGIONS)) == 0;
        const int is_mine = inst->every > 0 ? is_free && seen++ % inst->every == 0
                                            : over_has_word(inst->ops, op->name);
        if (is_mine || (op->flags & STATOR_OP_CONSTANT) != 0) {
            sink->yes(sink->self, node, 0);
        } else {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, "left to others");
        }
    }
    return STATOR_OK;
}

/* ---- executables: eager's ---- */

static stator_status decline(const instance *inst, const stator_graph_view *v, stator_diag **err)
{
    const stator_diag_api *diag = inst->over.host->diag;
    const char *text = "divided: asked to decline";
    stator_diag *why = diag->create(STATOR_NEED_FALLBACK, text, strlen(text));
    int is_any = strcmp(inst->declines, "any") == 0;
    uint32_t count = strcmp(inst->declines, "all") == 0;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_op_desc *op = stator_op_at(v, stator_node_at(v, node)->op);
        if ((op->flags & STATOR_OP_CONSTANT) == 0 &&
            (is_any || over_has_word(inst->declines, op->name))) {
            diag->add_node(why, node, "declined while compiling");
            is_any = 0;
            count++;
        }
    }
    if (count == 0 || err == NULL || *err != NULL) {
        diag->release(why);
    } else {
        *err = why;
    }
    return count != 0 ? STATOR_NEED_FALLBACK : STATOR_OK;
}

static stator_status compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **out_exe, stator_diag **err)
{
    const instance *inst = inst_;
    *out_exe = NULL;
    const stator_host *host = inst->over.host;
    const stator_status status = decline(inst, host->ir->view(graph), err);
    if (status == STATOR_OK) {
        host->log->write(host->ctx, "perf_hints", 2, "divided: compiles a part");
    }
    return status != STATOR_OK ? status : over_compile(inst_, graph, fuel, out_exe, err);
}

/* ---- the descriptor ---- */

static const stator_option_desc options[] = {
    OVER_OPTION("ops", STATOR_OPTION_LIST, "add,mul", "ops that are claimed"),
    OVER_OPTION("declines", STATOR_OPTION_LIST, "", "ops that compile declines; any, all"),
    OVER_OPTION("plain", STATOR_OPTION_BOOL, "0", "no passes but functionalize"),
    OVER_OPTION("every", STATOR_OPTION_I64, "0", "n > 0: every n-th node is claimed instead"),
};

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "divided",
                                "claims a few nodes, for tests of the partitioner", options),
    .tags = "debug,cpu",
    .priority = -300,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE,
    .create = create,
    .destroy = destroy,
    .pipeline = pipeline,
    .capability = capability,
    .compile = compile,
    .exe_info = over_exe_info,
    .exe_run = over_exe_run,
    .exe_destroy = over_exe_destroy,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("divided", "1.0.0", "Stator tests", "[\"backend\"]",
              ",\"tags\":[\"debug\",\"cpu\"],\"priority\":-300,"
              "\"options\":[\"ops\",\"every\",\"declines\",\"plain\"]",
              items, stator_init_host, NULL);
