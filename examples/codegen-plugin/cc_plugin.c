/* The backend "cc": fuses a graph into kernels with Stator's code generator, prints them as C and
 * has the C compiler of this machine compile them.
 *
 *     stator run model.onnx --backend cc --plugin-dir build --backend-option flags=-O1
 *     STATOR_LOGS=output_code stator run model.onnx --backend cc --plugin-dir build
 *
 * It is a whole code-generating backend to start from: the five functions of codegen/codegen.h are
 * the slots of a backend, what is written here is an emitter (cc_emitter.c). The archive
 * libstator-codegen.a is linked into the plugin; its headers may change with each release. */
#include "cc_plugin.h"

#include <string.h>

#define VERSION "1.0.0"
#define ABOUT "prints fused kernels as C and calls the C compiler"

/* One a plugin. */
typedef struct cc_self {
    const stator_host *host;
    st_mem mem; /* counts; the memory is the host's */
} cc_self;

static void *host_alloc(void *self, uint64_t size, uint64_t align)
{
    const stator_host *host = self;
    return host->mem->alloc(host->ctx, size, align);
}

static void host_free(void *self, void *p)
{
    const stator_host *host = self;
    host->mem->free(host->ctx, p);
}

static stator_status init(const stator_host *host, void **out_self, stator_diag **err)
{
    cc_self *self = host->mem->alloc(host->ctx, sizeof *self, 16);
    *out_self = self;
    if (self == NULL) {
        return st_cg_to_host(host, STATOR_RESOURCE_EXHAUSTED, NULL, err);
    }
    memset(self, 0, sizeof *self);
    self->host = host;
    st_mem_init(&self->mem, host_alloc, host_free, (void *)(uintptr_t)host, 0);
    return STATOR_OK;
}

static void shutdown(void *self_)
{
    cc_self *self = self_;
    self->host->mem->free(self->host->ctx, self);
}

/* ---- instances ---- */

static const stator_option_desc options[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_STR,
     .flags = STATOR_OPTION_AFFECTS_CODE,
     .key = "cc",
     .default_text = "cc",
     .help = "the C compiler: gcc or clang, by name or path"},
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_STR,
     .flags = STATOR_OPTION_AFFECTS_CODE,
     .key = "flags",
     .default_text = "-O2 -march=native",
     .help = "what it is given besides what the kernels need"},
};

static void destroy(void *self, void *inst)
{
    cc_instance *instance = inst;
    (void)self;
    if (instance != NULL) {
        st_mem *mem = instance->mem;
        st_free(mem, instance->compiler);
        st_free(mem, instance->flags);
        st_free(mem, instance);
    }
}

static stator_status create(void *self_, const stator_options *values, uint32_t device, void **inst,
                            stator_diag **err)
{
    cc_self *self = self_;
    const stator_opt_api *opt = self->host->opt;
    (void)device;
    *inst = NULL;
    cc_instance *instance = st_calloc(&self->mem, 1, sizeof *instance);
    if (instance == NULL) {
        return st_cg_to_host(self->host, STATOR_RESOURCE_EXHAUSTED, NULL, err);
    }
    instance->host = self->host;
    instance->mem = &self->mem;
    instance->compiler = st_strdup(&self->mem, opt->get_str(values, "cc"));
    instance->flags = st_strdup(&self->mem, opt->get_str(values, "flags"));
    if (instance->compiler == NULL || instance->flags == NULL) {
        destroy(self, instance);
        return st_cg_to_host(self->host, STATOR_RESOURCE_EXHAUSTED, NULL, err);
    }
    cc_emitter_init(instance);
    instance->config = (st_cg_config){
        .host = self->host, .emitter = &instance->emitter, .mem = &self->mem, .exact = 1};
    *inst = instance;
    return STATOR_OK;
}

/* The code generator takes primitives: composite ops are taken apart, constants folded. */
static stator_status pipeline(void *self, const stator_options *values,
                              const stator_pipeline_sink *sink)
{
    (void)self;
    (void)values;
    sink->stage(sink->self, "functionalize");
    sink->stage(sink->self, "freeze");
    sink->phase(sink->self, STATOR_PHASE_PRE_GRAD);
    sink->phase(sink->self, STATOR_PHASE_JOINT);
    sink->phase(sink->self, STATOR_PHASE_POST_GRAD);
    sink->stage(sink->self, "decompose");
    sink->stage(sink->self, "canonicalize");
    sink->stage(sink->self, "fold");
    sink->stage(sink->self, "cse");
    sink->stage(sink->self, "dce");
    sink->phase(sink->self, STATOR_PHASE_LOWERING);
    return STATOR_OK;
}

/* ---- the slots ---- */

static stator_status capability(void *inst, const stator_graph *graph,
                                const stator_capability_sink *sink, stator_diag **err)
{
    const cc_instance *instance = inst;
    return st_cg_capability(&instance->config, graph, sink, err);
}

static stator_status compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                             void **out_exe, stator_diag **err)
{
    const cc_instance *instance = inst;
    st_cg_exe *exe = NULL;
    const stator_status status = st_cg_compile(&instance->config, graph, fuel, &exe, err);
    *out_exe = exe;
    return status;
}

static stator_status exe_info(void *inst, void *exe, stator_exe_info *out)
{
    (void)inst;
    st_cg_info(exe, out);
    return STATOR_OK;
}

static stator_status exe_run(void *inst, void *exe, const stator_call *call, stator_diag **err)
{
    (void)inst;
    return st_cg_run(exe, call, err);
}

static stator_status exe_steps(void *inst, void *exe, const stator_step_sink *sink,
                               stator_diag **err)
{
    (void)inst;
    (void)err;
    return st_cg_steps(exe, sink);
}

static void exe_destroy(void *inst, void *exe)
{
    (void)inst;
    st_cg_destroy(exe);
}

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "cc", ABOUT, options),
    .tags = "experimental,cpu",
    .priority = 10,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE,
    .create = create,
    .destroy = destroy,
    .pipeline = pipeline,
    .capability = capability,
    .compile = compile,
    .exe_info = exe_info,
    .exe_run = exe_run,
    .exe_destroy = exe_destroy,
    .exe_steps = exe_steps,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("cc", VERSION, "a Stator example", "[\"backend\"]",
              ",\"licence\":\"Apache-2.0\",\"tags\":[\"experimental\",\"cpu\"],\"priority\":10,"
              "\"devices\":[\"cpu\"],\"description\":\"" ABOUT "\"",
              items, init, shutdown);
