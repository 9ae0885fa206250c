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

static stator_status init(const stator_host *host, void **out_self, stator_diag **err)
{
    return st_plugin_self_create(host, sizeof(st_plugin_self), out_self, err);
}

/* ---- instances ---- */

static const stator_option_desc options[] = {
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "cc", "cc",
                      "the C compiler: gcc or clang, by name or path"),
    STATOR_OPTION_ROW(STATOR_OPTION_STR, STATOR_OPTION_AFFECTS_CODE, "flags", "-O2 -march=native",
                      "what it is given besides what the kernels need"),
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
    st_plugin_self *self = self_;
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

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "cc", ABOUT, options),
    .tags = "experimental,cpu",
    .priority = 10,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE,
    .create = create,
    .destroy = destroy,
    .pipeline = stator_pipeline_primitives, /* what the code generator takes */
    .capability = st_cg_slot_capability,
    .compile = st_cg_slot_compile,
    .exe_info = st_cg_slot_exe_info,
    .exe_run = st_cg_slot_exe_run,
    .exe_destroy = st_cg_slot_exe_destroy,
    .exe_steps = st_cg_slot_exe_steps,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("cc", VERSION, "a Stator example", "[\"backend\"]",
              ",\"licence\":\"Apache-2.0\",\"tags\":[\"experimental\",\"cpu\"],\"priority\":10,"
              "\"devices\":[\"cpu\"],\"description\":\"" ABOUT "\"",
              items, init, st_plugin_self_destroy);
