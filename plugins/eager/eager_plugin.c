/* The plugin "eager": descriptor, options, what it keeps and accepts. The reference backend runs a
 * graph before any composite is decomposed, so its pipeline is functionalize and
 * autodiff alone. */
#include "plugins/eager/eager_execution_plan.h"

#include <stator/ops.h>

const eager_row eager_rows[EAGER_OP_COUNT + 1] = {
#define EAGER_KERNEL(name, function, in, out)                                                      \
    [EAGER_OP_##name] = {#name, STATOR_OPCODE_##name, function, EAGER_STEP_KERNEL, (in), (out)},
#define EAGER_STEP(name, kind)                                                                     \
    [EAGER_OP_##name] = {#name, STATOR_OPCODE_##name, NULL, kind, EK_ANY, EK_ANY},
#include "plugins/eager/kernels/kernels.def"
#undef EAGER_KERNEL
#undef EAGER_STEP
    [EAGER_OP_library] = {"library", STATOR_OPCODE_none, ek_library, EAGER_STEP_KERNEL, EK_ANY,
                          EK_ANY},
};

static stator_status eager_init(const stator_host *host, void **out_self, stator_diag **err)
{
    return st_plugin_self_create(host, sizeof(eager_self), out_self, err);
}

/* ---- instances ---- */

static void eager_destroy(void *self_, void *inst_)
{
    eager_self *self = self_;
    eager_inst *inst = inst_;
    if (inst) {
        st_free(&self->mem, inst->row_of_op);
        st_free(&self->mem, inst->libraries);
        st_free(&self->mem, inst);
    }
}

static void find_kernels(eager_inst *inst)
{
    const stator_host *host = inst->self->host;
    for (uint32_t row = 1; row < EAGER_OP_COUNT; row++) {
        inst->row_of_op[eager_rows[row].opcode] = (uint16_t)row;
    }
    for (uint32_t op = 1; STATOR_HAS(host->ir, library_op) && op < inst->n_ops; op++) {
        eager_library *library = &inst->libraries[op];
        library->op = host->ir->library_op(host->ctx, op, &library->self);
        if (library->op && library->op->kernel) {
            inst->row_of_op[op] = EAGER_OP_library;
        }
    }
}

static stator_status eager_create(void *self_, const stator_options *options, uint32_t device,
                                  void **out_inst, stator_diag **err)
{
    eager_self *self = self_;
    (void)options;
    *out_inst = NULL;
    EAGER_FAIL_IF(device != 0, self, NULL, err, STATOR_NOT_FOUND, "there is no device %u, only 0",
                  device);
    eager_inst *inst = st_calloc(&self->mem, 1, sizeof *inst);
    if (inst) {
        inst->self = self;
        inst->n_ops = self->host->ir->op_count(self->host->ctx) + 1u;
        inst->row_of_op = st_calloc(&self->mem, inst->n_ops, sizeof *inst->row_of_op);
        inst->libraries = st_calloc(&self->mem, inst->n_ops, sizeof *inst->libraries);
    }
    if (!inst || !inst->row_of_op || !inst->libraries) {
        eager_destroy(self, inst);
        return eager_fail(self, NULL, err, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    find_kernels(inst);
    *out_inst = inst;
    return STATOR_OK;
}

/* ---- what runs here ---- */

static int32_t eager_keep(void *inst_, const char *op, uint32_t version, const stator_dtype *dtypes,
                          const uint32_t *ranks, uint32_t n_operands)
{
    const eager_inst *inst = inst_;
    (void)version;
    (void)dtypes;
    (void)ranks;
    (void)n_operands;
    const uint32_t id = inst->self->host->ir->find_op(inst->self->host->ctx, op);
    return id && id < inst->n_ops && inst->row_of_op[id] != 0;
}

static stator_status eager_capability(void *inst_, const stator_graph *graph,
                                      const stator_capability_sink *sink, stator_diag **err)
{
    const eager_inst *inst = inst_;
    const stator_graph_view *v = inst->self->host->ir->view(graph);
    char why[160];
    (void)err;
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        if (eager_accepts(inst, v, stator_node_at(v, n), why, sizeof why)) {
            sink->yes(sink->self, n, 0);
        } else {
            sink->no(sink->self, n, STATOR_UNSUPPORTED, why);
        }
    }
    return STATOR_OK;
}

/* ---- executables ---- */

static stator_status slot_compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                                  void **out_exe, stator_diag **err)
{
    (void)fuel; /* nothing here is optional */
    eager_exe *exe;
    const stator_status status = eager_compile(inst, graph, &exe, err);
    *out_exe = exe;
    return status;
}

static stator_status slot_exe_info(void *inst, void *exe_, stator_exe_info *out)
{
    const eager_exe *exe = exe_;
    (void)inst;
    out->flags = exe->flags;
    out->workspace_bytes = exe->root->frame_bytes + EAGER_ALIGN;
    if (out->struct_size >= sizeof *out) {
        out->may_alias = exe->root->may_alias;
    }
    return STATOR_OK;
}

static stator_status slot_exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    (void)inst;
    return eager_exe_run(exe, call, err);
}

static stator_status slot_exe_steps(void *inst, void *exe, const stator_step_sink *sink,
                                    stator_diag **err)
{
    (void)inst;
    (void)err;
    return eager_tell_steps(exe, sink);
}

static void slot_exe_destroy(void *inst, void *exe)
{
    (void)inst;
    eager_exe_destroy(exe);
}

/* ---- the descriptor ---- */

#define EAGER_VERSION "1.0.0"

static const stator_backend backend = {
    .item =
        STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, "eager",
                    "the reference: one kernel an op, wide accumulation, same answer every time"),
    .tags = "reference,stable,cpu",
    .priority = 100,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE | STATOR_BACKEND_FORK_SAFE,
    .create = eager_create,
    .destroy = eager_destroy,
    .pipeline = stator_pipeline_imported,
    .keep = eager_keep,
    .capability = eager_capability,
    .compile = slot_compile,
    .exe_info = slot_exe_info,
    .exe_run = slot_exe_run,
    .exe_destroy = slot_exe_destroy,
    .exe_steps = slot_exe_steps,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("eager", EAGER_VERSION, "Stator", "[\"backend\"]",
              ",\"licence\":\"Apache-2.0\",\"tags\":[\"reference\","
              "\"stable\",\"cpu\"],\"priority\":100,\"devices\":[\"cpu\"],\"description\":"
              "\"the reference: one kernel an op, wide accumulation, same answer every time\"",
              items, eager_init, st_plugin_self_destroy);
