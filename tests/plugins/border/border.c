/* A plugin that does everything right but one thing, which STATOR_BORDER names: "slot=fault". Built
 * once for each kind; tests/cli/test_bad_plugins.sh has the list and what must become of each.
 *
 *   backend   `border_backend`, the default where it lies: hands all to `eager`, like aot_eager
 *   pass      `border_pass`: copies the graph
 *   frontend  `border_frontend`: reads Stator's text form from files that end in .border
 *   oplib     `border_oplib`: border_neg(x) = -x
 *
 * Faults of any slot: segv, overflow (of the stack), abort, throw, exit, pthread_exit, hang, fp;
 * status=N is a failure without a text. The others are named where they are. */
#define _GNU_SOURCE
#include <stator/plugin.h>

#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#if defined(BORDER_backend)
#define KIND "backend"
#elif defined(BORDER_pass)
#define KIND "pass"
#elif defined(BORDER_frontend)
#define KIND "frontend"
#else
#define KIND "oplib"
#endif
#define NAME "border_" KIND

/* ---- faults ---- */

/* The fault of this slot; "" none. */
static const char *fault_of(const char *slot)
{
    const char *spec = getenv("STATOR_BORDER");
    const size_t n = strlen(slot);
    return spec != NULL && strncmp(spec, slot, n) == 0 && spec[n] == '=' ? spec + n + 1 : "";
}

static int is_fault(const char *slot, const char *fault)
{
    return strcmp(fault_of(slot), fault) == 0;
}

static void throw_out(void)
{
    static struct _Unwind_Exception exception;
    (void)_Unwind_RaiseException(&exception); /* comes back when nobody catches it; then */
    abort();                                  /* std::terminate, as C++ has it */
}

static int overflow(volatile char *above)
{
    volatile char room[65536];
    room[0] = above != NULL ? above[0] : 1;
    return room[0] != 0 ? overflow(room) + room[0] : 0;
}

/* At the end of a slot's work, so that what it computed is right. */
static void change_fp(void)
{
    (void)fesetround(FE_UPWARD);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u); /* flush subnormals */
#endif
}

static stator_status misbehave(const char *slot)
{
    const char *fault = fault_of(slot);
    if (strcmp(fault, "segv") == 0) {
        volatile int *volatile nowhere = NULL;
        *nowhere = 1;
    } else if (strcmp(fault, "overflow") == 0) {
        return overflow(NULL);
    } else if (strcmp(fault, "abort") == 0) {
        abort();
    } else if (strcmp(fault, "throw") == 0) {
        throw_out();
    } else if (strcmp(fault, "exit") == 0) {
        exit(0); /* NOLINT: that is the fault */
    } else if (strcmp(fault, "pthread_exit") == 0) {
        pthread_exit(NULL);
    } else if (strcmp(fault, "hang") == 0) {
        for (;;) {
            pause();
        }
    } else if (strcmp(fault, "fp") == 0) {
        change_fp();
    } else if (strncmp(fault, "status=", 7) == 0) {
        return atoi(fault + 7);
    }
    return STATOR_OK;
}

__attribute__((constructor)) static void on_load(void)
{
    (void)misbehave("dlopen");
}

static stator_status border_init(const stator_host *host, void **self, stator_diag **err)
{
    (void)err;
    *self = (void *)(uintptr_t)host;
    return misbehave("init");
}

static void border_shutdown(void *self)
{
    (void)self;
    (void)misbehave("shutdown");
}

#if defined(BORDER_backend)
/* ---- the backend ---- */

typedef struct border_inst {
    const stator_host *host;
    stator_instance *eager;
} border_inst;

static stator_status border_probe(void *self, stator_diag **err)
{
    (void)self;
    (void)err;
    return misbehave("probe");
}

static stator_status border_create(void *self, const stator_options *options, uint32_t device,
                                   void **out_inst, stator_diag **err)
{
    const stator_host *host = self;
    border_inst *inst = host->mem->alloc(host->ctx, sizeof *inst, 16);
    (void)device;
    *out_inst = NULL;
    *inst = (border_inst){.host = host};
    const stator_status status =
        host->nested->open(host->ctx, "border_backend", "eager", options, &inst->eager, err);
    if (status != STATOR_OK) {
        host->mem->free(host->ctx, inst);
        return status;
    }
    *out_inst = inst;
    return misbehave("create");
}

static void border_destroy(void *self, void *inst_)
{
    border_inst *inst = inst_;
    (void)self;
    inst->host->nested->close(inst->eager);
    inst->host->mem->free(inst->host->ctx, inst);
    (void)misbehave("destroy");
}

static stator_status border_pipeline(void *self, const stator_options *options,
                                     const stator_pipeline_sink *sink)
{
    (void)self;
    (void)options;
    sink->stage(sink->self, "functionalize");
    sink->stage(sink->self, "freeze");
    if (is_fault("pipeline", "unknown_stage")) {
        sink->stage(sink->self, "no.such.pass");
    }
    sink->stage(sink->self, is_fault("pipeline", "null_stage") ? NULL : "cse");
    return misbehave("pipeline");
}

static int32_t border_keep(void *inst, const char *op, uint32_t version, const stator_dtype *dtypes,
                           const uint32_t *ranks, uint32_t n)
{
    (void)inst, (void)op, (void)version, (void)dtypes, (void)ranks, (void)n;
    return misbehave("keep") == STATOR_OK;
}

static stator_status border_capability(void *inst_, const stator_graph *graph,
                                       const stator_capability_sink *sink, stator_diag **err)
{
    const border_inst *inst = inst_;
    const stator_graph_view *v = inst->host->ir->view(graph);
    const stator_ref strangers[] = {0, v->n_nodes + 1u, UINT32_MAX};
    (void)err;
    for (stator_ref n = 1; n <= v->n_nodes && !is_fault("capability", "silent"); n++) {
        sink->yes(sink->self, n, 0);
    }
    if (is_fault("capability", "strangers")) {
        for (size_t i = 0; i < 3; i++) {
            sink->yes(sink->self, strangers[i], 0);
            sink->no(sink->self, strangers[i], STATOR_UNSUPPORTED, NULL);
        }
        sink->group(sink->self, strangers, 3, STATOR_GROUP_ATOMIC);
    } else if (is_fault("capability", "no_text")) {
        sink->no(sink->self, 1, 12345, NULL);
    }
    return misbehave("capability");
}

static stator_status border_compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                                    void **out_exe, stator_diag **err)
{
    const border_inst *inst = inst_;
    (void)fuel;
    if (is_fault("compile", "null")) {
        *out_exe = NULL;
        return STATOR_OK;
    }
    const stator_status status = inst->host->nested->compile(inst->eager, graph, out_exe, err);
    return status == STATOR_OK ? misbehave("compile") : status;
}

static stator_status border_exe_info(void *inst_, void *exe, stator_exe_info *out)
{
    const border_inst *inst = inst_;
    const stator_status status = inst->host->nested->exe_info(inst->eager, exe, out);
    if (is_fault("exe_info", "huge")) {
        out->workspace_bytes = UINT64_MAX - 8;
    }
    return status == STATOR_OK ? misbehave("exe_info") : status;
}

static void fp_range(void *self, int64_t begin, int64_t end)
{
    (void)self, (void)begin, (void)end;
    change_fp();
}

static stator_status border_exe_run(void *inst_, void *exe, const stator_call *call,
                                    stator_diag **err)
{
    static float elsewhere[4096];
    const border_inst *inst = inst_;
    if (is_fault("exe_run", "unwritten")) {
        return STATOR_OK;
    }
    stator_status status = inst->host->nested->run(inst->eager, exe, call, err);
    if (is_fault("exe_run", "elsewhere")) {
        call->out[0].data = elsewhere;
    } else if (is_fault("exe_run", "nowhere")) {
        call->out[0].data = NULL;
    } else if (is_fault("exe_run", "half")) {
        memset((char *)call->out[0].data, 0, 4);
    } else if (is_fault("exe_run", "fp_range")) {
        inst->host->thr->parallel_for(call->ctx, 64, 1, fp_range, NULL);
    }
    return status == STATOR_OK ? misbehave("exe_run") : status;
}

static void border_exe_destroy(void *inst_, void *exe)
{
    const border_inst *inst = inst_;
    inst->host->nested->exe_destroy(inst->eager, exe);
    (void)misbehave("exe_destroy");
}

/* Kept on disk, as far as the slots go: what is read back is refused, and the host compiles. */
static stator_status border_serialize(void *inst_, void *exe, stator_blob **out, stator_diag **err)
{
    const border_inst *inst = inst_;
    (void)exe, (void)err;
    *out = is_fault("exe_serialize", "null") ? NULL
                                             : inst->host->cst->create(inst->host->ctx, "bytes", 5);
    return misbehave("exe_serialize");
}

static stator_status border_deserialize(void *inst_, stator_blob *blob, void **out_exe,
                                        stator_diag **err)
{
    (void)inst_, (void)blob, (void)err;
    *out_exe = NULL;
    const stator_status status = misbehave("exe_deserialize");
    return status != STATOR_OK || is_fault("exe_deserialize", "null") ? status : STATOR_DATA_LOSS;
}

static const char *border_compat_key(void *inst)
{
    (void)inst;
    (void)misbehave("compat_key");
    return is_fault("compat_key", "null") ? NULL : "border";
}

static stator_backend item = {
    .item = STATOR_ITEM(stator_backend, STATOR_KIND_BACKEND, NAME, "misbehaves when it is told to"),
    .tags = "cpu",
    .priority = 1000,
    .probe = border_probe,
    .create = border_create,
    .destroy = border_destroy,
    .pipeline = border_pipeline,
    .keep = border_keep,
    .capability = border_capability,
    .compile = border_compile,
    .exe_info = border_exe_info,
    .exe_run = border_exe_run,
    .exe_destroy = border_exe_destroy,
    .exe_serialize = border_serialize,
    .exe_deserialize = border_deserialize,
    .compat_key = border_compat_key,
};
#define REQUIRED_SLOT item.exe_run

#elif defined(BORDER_pass)
/* ---- the pass ---- */

typedef struct copy {
    const stator_host *host;
    const stator_graph *in;
    const stator_graph_view *v;
    stator_builder *out;
    stator_ref *map;
    stator_diag **err;
} copy;

static stator_status copy_inputs(const copy *c)
{
    const stator_build_api *build = c->host->build;
    stator_status status = STATOR_OK;
    for (stator_ref value = 1; status == STATOR_OK && value <= c->v->n_inputs; value++) {
        const stator_value_row *row = stator_value_at(c->v, value);
        const char *name = stator_string_at(c->v, row->name);
        if (is_fault("run", "rename_input")) {
            name = "renamed";
        }
        status = build->input(c->out, name, row->type, &c->map[value], c->err);
    }
    if (status == STATOR_OK && is_fault("run", "add_input")) {
        stator_ref more = 0;
        status = build->input(c->out, "more", stator_value_at(c->v, 1)->type, &more, c->err);
    }
    return status;
}

static stator_status copy_outputs(const copy *c)
{
    const stator_build_api *build = c->host->build;
    const uint32_t n = is_fault("run", "drop_output") ? c->v->n_outputs - 1u : c->v->n_outputs;
    stator_status status = STATOR_OK;
    for (uint32_t k = 0; status == STATOR_OK && k < n; k++) {
        const uint32_t from = is_fault("run", "swap_outputs") ? n - 1u - k : k;
        const char *name =
            stator_string_at(c->v, stator_ref_at(c->v, c->v->output_name_begin + from));
        stator_ref value = c->map[stator_output_at(c->v, from)];
        if (is_fault("run", "retype_output")) {
            value = c->map[1];
        } else if (is_fault("run", "bad_ref")) {
            value = 9999;
        }
        status = build->output(c->out, is_fault("run", "rename_output") ? "renamed" : name, value,
                               c->err);
    }
    if (status == STATOR_OK && is_fault("run", "add_output")) {
        status = build->output(c->out, "more", c->map[1], c->err);
    }
    return status;
}

static stator_status border_run(void *self, const stator_graph *in, stator_builder *out,
                                stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err)
{
    const stator_host *host = self;
    stator_ref map[64] = {0};
    copy c = {host, in, host->ir->view(in), out, map, err};
    (void)fuel;
    *out_result = is_fault("run", "result") ? 77 : STATOR_PASS_CHANGED;
    if (is_fault("run", "nothing")) {
        return STATOR_OK;
    }
    stator_status status = c.v->n_values < 64 ? copy_inputs(&c) : STATOR_UNSUPPORTED;
    if (status == STATOR_OK) {
        status = host->build->clone(out, in, 1, c.v->n_nodes, map, err);
    }
    if (status == STATOR_OK) {
        status = copy_outputs(&c);
    }
    return status == STATOR_OK ? misbehave("run") : status;
}

static stator_pass item = {
    .item = STATOR_ITEM(stator_pass, STATOR_KIND_PASS, NAME, "copies the graph, mostly"),
    .phase = STATOR_PHASE_PRE_GRAD,
    .flags = STATOR_PASS_DETERMINISTIC,
    .run = border_run,
};
#define REQUIRED_SLOT item.run

#elif defined(BORDER_frontend)
/* ---- the frontend ---- */

static uint32_t border_sniff(void *self, const uint8_t *bytes, uint64_t size)
{
    (void)self, (void)bytes, (void)size;
    (void)misbehave("sniff");
    return is_fault("sniff", "score") ? UINT32_MAX : 0;
}

static stator_status border_import(void *self, const stator_source *source,
                                   const stator_options *options, stator_builder *b,
                                   stator_diag **err)
{
    const stator_host *host = self;
    stator_ref value = 0;
    (void)options;
    if (is_fault("import", "nothing")) {
        return STATOR_OK;
    }
    if (is_fault("import", "bad_type")) {
        return host->build->input(b, "x", 9999, &value, err);
    }
    if (is_fault("import", "no_output")) {
        const stator_ref type = host->types->tensor(b, STATOR_F32, 0, NULL);
        return host->build->input(b, "x", type, &value, err);
    }
    if (is_fault("import", "stranger")) { /* needs the value of what is no input */
        source->need_value(source, "stranger");
        return STATOR_NEED_VALUE;
    }
    const stator_status status =
        host->ir->parse(b, source->bytes, source->size, source->path, source->dir, err);
    return status == STATOR_OK ? misbehave("import") : status;
}

static stator_status border_rewrite(void *self, const stator_source *source,
                                    const stator_rewrite *to, stator_diag **err)
{
    (void)self;
    if (is_fault("rewrite", "nothing")) {
        return STATOR_OK;
    }
    const uint32_t file = is_fault("rewrite", "file") ? 7 : 0;
    const stator_status status = to->append(to, file, source->bytes, source->size, err);
    return status == STATOR_OK ? misbehave("rewrite") : status;
}

static stator_frontend item = {
    .item = STATOR_ITEM(stator_frontend, STATOR_KIND_FRONTEND, NAME, "reads .border files"),
    .extensions = "border",
    .sniff = border_sniff,
    .import = border_import,
    .rewrite = border_rewrite,
};
#define REQUIRED_SLOT item.import

#else
/* ---- the op library ---- */

static stator_status border_infer(void *self, stator_builder *b, const stator_node_desc *node,
                                  stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    const stator_graph_view *v = host->build->view(b);
    (void)n_types, (void)err;
    out_types[0] = stator_value_at(v, node->operands[0])->type;
    if (is_fault("infer", "no_type")) {
        out_types[0] = 0;
    } else if (is_fault("infer", "bad_type")) {
        out_types[0] = 999999;
    }
    return misbehave("infer");
}

static stator_status border_decompose(void *self, stator_builder *b, const stator_node_desc *node,
                                      stator_ref *out_results, stator_diag **err)
{
    static const char *const names[] = {"x"};
    const stator_host *host = self;
    if (is_fault("decompose", "nothing")) {
        return STATOR_OK;
    }
    if (is_fault("decompose", "bad_ref")) {
        out_results[0] = 999999;
        return STATOR_OK;
    }
    const stator_status status =
        host->build->expr(b, "neg(x)", 1, names, node->operands, 0, NULL, 1, out_results, err);
    return status == STATOR_OK ? misbehave("decompose") : status;
}

static stator_status border_kernel(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                                   DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                                   stator_diag **err)
{
    const float *x = in[0].data;
    float *y = out[0].data;
    (void)self, (void)n_in, (void)n_out, (void)attrs, (void)n_attrs, (void)err;
    for (int64_t i = 0; i < in[0].shape[0]; i++) {
        y[i] = -x[i];
    }
    return misbehave("kernel");
}

static const stator_oplib_op ops[] = {{
    .desc = {.struct_size = sizeof(stator_op_desc),
             .version = 1,
             .name = "border_neg",
             .operands = "x",
             .results = "y",
             .doc = "-x",
             .operand_min = 1,
             .operand_max = 1},
    .infer = border_infer,
    .decompose = border_decompose,
    .kernel = border_kernel,
}};

static stator_oplib item = {
    .item = STATOR_ITEM(stator_oplib, STATOR_KIND_OPLIB, NAME, "border_neg(x) = -x"),
    .ops = ops,
    .op_count = 1,
    .op_stride = sizeof(stator_oplib_op),
};
#define REQUIRED_SLOT item.ops
#endif

/* ---- the descriptor ---- */

static const stator_item *items[] = {&item.item, &item.item};

static stator_plugin plugin = {
    .struct_size = sizeof(stator_plugin),
    .abi_major = STATOR_ABI_MAJOR,
    .abi_minor_min = STATOR_ABI_MINOR,
    .abi_minor_built = STATOR_ABI_MINOR,
    .item_count = 1,
    .name = NAME,
    .vendor = "Stator's tests",
    .version = "1.0.0",
    .sanitizer = STATOR_SANITIZER,
    .items = items,
    .init = border_init,
    .shutdown = border_shutdown,
};

/* Writes the fault into the descriptor. */
static void spoil(const char *fault)
{
    if (strcmp(fault, "plugin_size") == 0) {
        plugin.struct_size = 8;
    } else if (strcmp(fault, "item_size") == 0) {
        item.item.struct_size = 16;
    } else if (strcmp(fault, "zero_size") == 0) {
        item.item.struct_size = 0;
    } else if (strcmp(fault, "items") == 0) {
        plugin.item_count = UINT32_MAX;
    } else if (strcmp(fault, "twice") == 0) {
        plugin.item_count = 2;
    } else if (strcmp(fault, "null_item") == 0) {
        items[0] = NULL;
    } else if (strcmp(fault, "null_items") == 0) {
        plugin.items = NULL;
    } else if (strcmp(fault, "wild_item") == 0) {
        items[0] = (const stator_item *)(uintptr_t)4096;
    } else if (strcmp(fault, "kind") == 0) {
        item.item.kind = 99;
    } else if (strcmp(fault, "name") == 0) {
        item.item.name = "another name";
    } else if (strcmp(fault, "null_name") == 0) {
        item.item.name = NULL;
    } else if (strcmp(fault, "options") == 0) {
        item.item.option_count = UINT32_MAX;
    } else if (strcmp(fault, "slot") == 0) {
        REQUIRED_SLOT = NULL;
    } else if (strcmp(fault, "version") == 0) {
        plugin.version = NULL;
    }
}

STATOR_EXPORT const stator_plugin *stator_plugin_query_v1(const stator_host *host,
                                                          uint32_t host_abi_major);

const stator_plugin *stator_plugin_query_v1(const stator_host *host, uint32_t host_abi_major)
{
    (void)host;
    (void)host_abi_major;
    (void)misbehave("query");
    spoil(fault_of("query"));
    return is_fault("query", "null") ? NULL : &plugin;
}

#if defined(BORDER_backend)
#define MEMBERS ",\"tags\":[\"cpu\"],\"priority\":1000"
#elif defined(BORDER_frontend)
#define MEMBERS ",\"extensions\":[\"border\"]"
#else
#define MEMBERS ""
#endif
STATOR_PLUGIN_NOTE(NAME, "1.0.0", "[\"" KIND "\"]", MEMBERS);
