/* Packages: what the option target=self_contained makes, taken apart.
 *
 * Such code is compiled for the features of a level that is set instead of everything that this
 * machine has, calls libm where other code calls SLEEF and has no library of contractions; its
 * objects are kept. Pieces: an object a module ("code0", ..., in the body of a scan "code0_1"),
 * the C source "cpu" that looks at the processor, and what codegen/package/packer.h adds. */
#include "cpu_features.h"
#include "cpu_llvm.h"

#include "core/base/diag.h"

#include <stdio.h>

/* ---- settings ---- */

/* Takes the place of the emitter's launch where the code could meet an unknown instruction. */
static stator_status refuse_launch(void *self, void *module, uint32_t k, const st_launch *launch,
                                   stator_diag **err)
{
    const cpu_inst *inst = self;
    (void)module;
    (void)k;
    (void)launch;
    return st_fail(err, STATOR_UNAVAILABLE,
                   "inductor-cpu: the option cpu names a level that this processor does not have: "
                   "it lacks %s",
                   cpu_features_missing(inst->settings.level));
}

bool cpu_package_complete(cpu_inst *inst)
{
    const uint32_t level = inst->settings.level;
    st_str text;
    if (!inst->settings.self_contained) {
        return true;
    }
    st_str_init(&text, &inst->self->mem);
    cpu_features_print(level, &text);
    const bool is_ok = st_str_ok(&text);
    (void)snprintf(inst->features, sizeof inst->features, "%s", text.data ? text.data : "");
    st_str_deinit(&text);
    if (level != CPU_NATIVE) {
        cpu_target_set_vectors(cpu_level_vector_bytes(level), inst->settings.vector_bytes,
                               &inst->emitter.target);
    }
    if (cpu_features_missing(level) != NULL) {
        inst->emitter.launch = refuse_launch;
    }
    return is_ok;
}

/* ---- pieces ---- */

static void code_of(void *self, void *module, uint32_t kernel, st_cg_code *out)
{
    (void)self;
    cpu_emitter_code(module, kernel, out);
}

static stator_status give_objects(const jit_output *output, uint32_t unit,
                                  const stator_package_sink *sink)
{
    for (uint32_t i = 0; output != NULL && i < output->n_objects; i++) {
        char name[32];
        const int n = snprintf(name, sizeof name, "code%u", i);
        if (unit > 0) {
            (void)snprintf(name + n, sizeof name - (size_t)n, "_%u", unit);
        }
        ST_TRY(sink->piece(sink->self, STATOR_PACKAGE_OBJECT, name, output->objects[i].bytes,
                           output->objects[i].size));
    }
    return STATOR_OK;
}

static stator_status give_check(const cpu_inst *inst, const stator_package_sink *sink,
                                stator_diag **err)
{
    st_str text;
    st_str_init(&text, &inst->self->mem);
    cpu_features_print_check(inst->settings.level, &text);
    const stator_status status =
        st_str_ok(&text) ? sink->piece(sink->self, STATOR_PACKAGE_C, "cpu", text.data, text.len)
                         : st_fail_oom(err);
    st_str_deinit(&text);
    return status;
}

static stator_status give(void *self, void *module, uint32_t unit, const stator_package_sink *sink,
                          stator_diag **err)
{
    if (unit == 0) {
        ST_TRY(give_check(self, sink, err));
    }
    return give_objects(cpu_emitter_output(module), unit, sink);
}

stator_status cpu_package(void *inst_, void *exe, const stator_package_sink *sink,
                          stator_diag **err)
{
    cpu_inst *inst = inst_;
    if (!inst->settings.self_contained) {
        stator_diag *own = NULL;
        const stator_status status = st_fail(
            &own, STATOR_FAILED_PRECONDITION,
            "inductor-cpu: packages are made of code with the option target=self_contained");
        return st_cg_to_host(inst->self->host, status, own, err);
    }
    const st_cg_packer packer = {.self = inst, .code = code_of, .give = give};
    return st_cg_package(exe, &packer, sink, err);
}
