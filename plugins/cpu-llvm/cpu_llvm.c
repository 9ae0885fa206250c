/* The plugin "inductor-cpu": fused kernels, compiled by LLVM for this machine. The default backend.
 *
 * In: graphs of primitives, after the stages of cpu_pipeline. codegen/ turns them into kernels and
 * a plan, cpu_emitter.c the kernels into machine code. The plugin itself does not need LLVM; the
 * part that does is opened at the first compile (cpu_jit.c). */
#include "cpu_llvm.h"
#include "cpu_features.h"
#include "cpu_hints.h"

#include "core/base/diag.h"

#include <string.h>

#define CPU_VERSION "1.0.0"
#define CPU_DOC "fused, vectorised kernels compiled by LLVM for this machine"

static stator_status cpu_init(const stator_host *host, void **out_self, stator_diag **err)
{
    const stator_status status = st_plugin_self_create(host, sizeof(cpu_self), out_self, err);
    if (status == STATOR_OK) {
        (void)pthread_mutex_init(&((cpu_self *)*out_self)->mutex, NULL);
    }
    return status;
}

static void cpu_shutdown(void *self_)
{
    cpu_self *self = self_;
    (void)pthread_mutex_destroy(&self->mutex);
    st_plugin_self_destroy(self);
}

static stator_status look(cpu_self *self, stator_diag **err)
{
#if !defined(__x86_64__)
    return st_fail(err, STATOR_UNSUPPORTED,
                   "inductor-cpu loads code for x86-64 processors alone; this is another one");
#endif
    return cpu_jit_look(self, err);
}

static stator_status cpu_probe(void *self_, stator_diag **err)
{
    cpu_self *self = self_;
    stator_diag *own = NULL;
    const stator_status status = look(self, &own);
    return st_cg_to_host(self->host, status, own, err);
}

/* ---- instances ---- */

static const stator_option_desc options_table[] = {
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "tier", "default", "default,fast",
                           "fast: compile in a fraction of the time, to slower code"),
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "numerics", "exact", "exact,fused",
                           "fused: inside a kernel f32 or wider, and faster functions"),
    STATOR_OPTION_ROW(
        STATOR_OPTION_BOOL, STATOR_OPTION_AFFECTS_CODE, "debug_bounds", "false",
        "check the index of each load and store; a bad one ends the call with an error"),
    STATOR_OPTION_ROW(STATOR_OPTION_BOOL, 0, "debug_names", "false",
                      "kernels show up by name in perf (/tmp/perf-PID.map) and gdb"),
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "vector_bits", "auto", "auto,128,256,512",
                           "width of vectors; auto: the widest of the processor"),
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "contractions", "onednn", "onednn,loops",
                           "what computes matrix products and convolutions; loops: generated code"),
    STATOR_OPTION_ROW(
        STATOR_OPTION_BOOL, STATOR_OPTION_AFFECTS_CODE, "winograd", "true",
        "use Winograd's algorithm for f32 convolutions where it is measured to be faster"),
    STATOR_OPTION_ROW(STATOR_OPTION_BOOL, STATOR_OPTION_AFFECTS_CODE, "measure", "true",
                      "choose between ways to do a contraction by trying them at compile time"),
    STATOR_OPTION_ROW(
        STATOR_OPTION_BYTES, STATOR_OPTION_AFFECTS_CODE, "memory_cap", "0",
        "bytes of packed weights at most, as in 300M; what would pass it runs from the weights as "
        "they are in the file. 0: no limit"),
    STATOR_OPTION_ENUM_ROW(STATOR_OPTION_AFFECTS_CODE, "mode", "default",
                           "default,reduce-overhead,max-autotune,max-autotune-no-cudagraphs",
                           "max-autotune: try every way of each contraction, on its whole size"),
    STATOR_OPTION_ENUM_ROW(
        STATOR_OPTION_AFFECTS_CODE, "target", "host", "host,self_contained",
        "self_contained: code that calls nothing but libc and libm, for `stator build`"),
    STATOR_OPTION_ENUM_ROW(
        STATOR_OPTION_AFFECTS_CODE, "cpu", "native", "native,x86-64,x86-64-v2,x86-64-v3,x86-64-v4",
        "processors that self-contained code is for; native: those like this one"),
};

static uint32_t vector_bytes_of(const char *text)
{
    return strcmp(text, "128") == 0   ? 16
           : strcmp(text, "256") == 0 ? 32
           : strcmp(text, "512") == 0 ? 64
                                      : 0;
}

static cpu_settings settings_of(const stator_host *host, const stator_options *options)
{
    const stator_opt_api *opt = host->opt;
    const char *tier = opt->get_str(options, "tier");
    const char *bits = opt->get_str(options, "vector_bits");
    const char *numerics = opt->get_str(options, "numerics");
    const char *contractions = opt->get_str(options, "contractions");
    const char *target = opt->get_str(options, "target");
    const char *mode = opt->get_str(options, "mode");
    return (cpu_settings){.tier =
                              tier && strcmp(tier, "fast") == 0 ? JIT_TIER_FAST : JIT_TIER_DEFAULT,
                          .debug_bounds = opt->get_bool(options, "debug_bounds") != 0,
                          .debug_names = opt->get_bool(options, "debug_names") != 0,
                          .vector_bytes = bits ? vector_bytes_of(bits) : 0,
                          .fused = numerics && strcmp(numerics, "fused") == 0,
                          .loops_only = contractions && strcmp(contractions, "loops") == 0,
                          .winograd = opt->get_bool(options, "winograd") != 0,
                          .memory_cap = opt->get_i64(options, "memory_cap"),
                          .measure = opt->get_bool(options, "measure") != 0,
                          .measure_all = mode && strncmp(mode, "max-autotune", 12) == 0,
                          .self_contained = target && strcmp(target, "self_contained") == 0,
                          .level = cpu_level_of(opt->get_str(options, "cpu"))};
}

/* An option that would do nothing is an error. */
static stator_status check_options(const stator_host *host, const stator_options *options,
                                   const cpu_settings *s, stator_diag **err)
{
    const char *cpu = host->opt->get_str(options, "cpu");
    if (s->self_contained || cpu == NULL || strcmp(cpu, "native") == 0) {
        return STATOR_OK;
    }
    (void)st_fail(err, STATOR_INVALID_ARGUMENT,
                  "inductor-cpu: cpu=%s is for target=self_contained; code that is run here is for "
                  "this processor",
                  cpu);
    if (err != NULL) {
        st_diag_set_hint(*err,
                         "`stator build --cpu %s` makes code for others; vector_bits narrows "
                         "the vectors",
                         cpu);
    }
    return STATOR_INVALID_ARGUMENT;
}

static void open_library(cpu_inst *inst)
{
    const cpu_settings *s = &inst->settings;
    if (!s->loops_only && !s->self_contained) {
        const bool is_measured = s->measure && s->tier == JIT_TIER_DEFAULT;
        cpu_dnnl_open(&inst->dnnl, inst->self->host, &inst->self->mem,
                      (s->fused ? DNNL_FUSED : 0u) | (is_measured ? DNNL_TUNE : 0u) |
                          (is_measured && s->measure_all ? DNNL_TUNE_ALL : 0u) |
                          (is_measured && s->winograd ? DNNL_WINOGRAD : 0u) |
                          (s->vector_bytes == 32 ? DNNL_VECTORS_32 : 0u) |
                          (s->vector_bytes == 16 ? DNNL_VECTORS_16 : 0u));
        inst->emitter.library = inst->dnnl.library;
        inst->config.no_library = inst->dnnl.library == NULL ? inst->dnnl.reason : NULL;
        if (inst->dnnl.library != NULL && s->memory_cap > 0) {
            inst->dnnl.api->set_memory_cap(inst->dnnl.library, (uint64_t)s->memory_cap);
        }
    }
}

static stator_status make_instance(cpu_self *self, const stator_options *options, uint32_t device,
                                   cpu_inst **out, stator_diag **err)
{
    ST_FAIL_IF(device != 0, err, STATOR_NOT_FOUND, "inductor-cpu: there is no device %u, only 0",
               device);
    cpu_inst *inst = st_calloc(&self->mem, 1, sizeof *inst);
    ST_TRY_MEM(inst, err);
    inst->self = self;
    inst->settings = settings_of(self->host, options);
    stator_status status = check_options(self->host, options, &inst->settings, err);
    if (status == STATOR_OK) {
        cpu_emitter_init(inst);
        status = cpu_package_complete(inst) ? STATOR_OK : st_fail_oom(err);
    }
    if (status != STATOR_OK) {
        st_free(&self->mem, inst);
        return status;
    }
    inst->config = (st_cg_config){.host = self->host,
                                  .emitter = &inst->emitter,
                                  .mem = &self->mem,
                                  .exact = !inst->settings.fused};
    open_library(inst);
    *out = inst;
    return STATOR_OK;
}

static stator_status cpu_create(void *self_, const stator_options *options, uint32_t device,
                                void **out_inst, stator_diag **err)
{
    cpu_self *self = self_;
    cpu_inst *inst = NULL;
    stator_diag *own = NULL;
    const stator_status status = make_instance(self, options, device, &inst, &own);
    *out_inst = inst;
    return st_cg_to_host(self->host, status, own, err);
}

static void cpu_destroy(void *self_, void *inst_)
{
    cpu_self *self = self_;
    cpu_inst *inst = inst_;
    cpu_dnnl_close(&inst->dnnl);
    st_free(&self->mem, inst);
}

static stator_status cpu_pipeline(void *self, const stator_options *options,
                                  const stator_pipeline_sink *sink)
{
    (void)self, (void)options;
    stator_pipeline_begin(sink);
    sink->stage(sink->self, "canonicalize");
    sink->stage(sink->self, "recompose");
    sink->stage(sink->self, "dce");
    sink->stage(sink->self, "decompose");
    sink->stage(sink->self, "canonicalize");
    sink->stage(sink->self, "fold_lean");
    sink->stage(sink->self, "canonicalize"); /* what rules say of constants that were folded */
    sink->stage(sink->self, "fold_embedding_product");
    sink->stage(sink->self, "lut");
    sink->stage(sink->self, "cse");
    sink->stage(sink->self, "merge_scans");
    sink->stage(sink->self, "move_into_scan");
    sink->stage(sink->self, "split");
    sink->stage(sink->self, "dce");
    sink->phase(sink->self, STATOR_PHASE_LOWERING);
    return STATOR_OK;
}

/* Attention that is kept computes in f32 inside. Of what a model writes out in ops of 16 bits, each
 * rounded, `exact` numerics make no such node, and what comes whole is taken apart alike. */
static int32_t cpu_keep(void *inst_, const char *op, uint32_t version, const stator_dtype *dtypes,
                        const uint32_t *ranks, uint32_t n)
{
    const cpu_inst *inst = inst_;
    (void)version;
    (void)ranks;
    const stator_dtype dtype = n > 0 ? dtypes[0] : (stator_dtype)0;
    const bool is_half = dtype == STATOR_BF16 || dtype == STATOR_F16;
    return st_cg_keeps(op, dtype, inst->emitter.library != NULL) &&
           (inst->settings.fused || !is_half);
}

/* ---- executables ---- */

/* The kernels and the plan, for STATOR_LOGS=output_code. */
static void log_kernels(const cpu_inst *inst, const st_cg_exe *exe)
{
    const stator_host *host = inst->self->host;
    st_str text;
    if (!host->log->enabled(host->ctx, "output_code", 2)) {
        return;
    }
    st_str_init(&text, &inst->self->mem);
    if (st_cg_print(exe, &text) == STATOR_OK && st_str_ok(&text) && text.data != NULL) {
        host->log->write(host->ctx, "output_code", 2, text.data);
    }
    st_str_deinit(&text);
}

static stator_status cpu_compile(void *inst_, const stator_graph *graph, stator_fuel_scope *fuel,
                                 void **out_exe, stator_diag **err)
{
    const cpu_inst *inst = inst_;
    const stator_status status = st_cg_slot_compile(inst_, graph, fuel, out_exe, err);
    if (status == STATOR_OK) {
        log_kernels(inst, *out_exe);
        cpu_hint_settings(inst);
    }
    return status;
}

static stator_status cpu_exe_info(void *inst_, void *exe, stator_exe_info *out)
{
    const cpu_inst *inst = inst_;
    st_cg_info(exe, out);
    out->flags |= inst->settings.debug_bounds ? (uint32_t)STATOR_EXE_FILL_OUTPUTS : 0;
    return STATOR_OK;
}

/* ---- the descriptor ---- */

static const stator_backend backend = {
    .item = STATOR_ITEM_OPTIONS(stator_backend, STATOR_KIND_BACKEND, "inductor-cpu", CPU_DOC,
                                options_table),
    .tags = "stable,cpu",
    .priority = 200,
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE | STATOR_BACKEND_FORK_SAFE,
    .probe = cpu_probe,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .pipeline = cpu_pipeline,
    .keep = cpu_keep,
    .capability = st_cg_slot_capability,
    .compile = cpu_compile,
    .exe_info = cpu_exe_info,
    .exe_run = st_cg_slot_exe_run,
    .exe_destroy = st_cg_slot_exe_destroy,
    .exe_serialize = st_cg_slot_exe_serialize,
    .exe_deserialize = st_cg_slot_exe_deserialize,
    .compat_key = cpu_compat_key,
    .exe_package = cpu_package,
    .exe_steps = st_cg_slot_exe_steps,
};

static const stator_item *const items[] = {&backend.item};

STATOR_PLUGIN("inductor-cpu", CPU_VERSION, "Stator", "[\"backend\"]",
              ",\"licence\":\"Apache-2.0\",\"tags\":[\"stable\",\"cpu\"],\"priority\":200,"
              "\"devices\":[\"cpu\"],\"description\":\"" CPU_DOC "\"",
              items, cpu_init, cpu_shutdown);
