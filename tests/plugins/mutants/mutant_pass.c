/* A pass that leaves every graph as it is, in variants: the CMake file beside it builds one plugin
 * for each set of MUTANT_ macros. */
#include <stator/plugin.h>

#ifndef MUTANT_NAME
#error "MUTANT_NAME is the plugin's name"
#endif
#ifndef MUTANT_PASS_NAME
#define MUTANT_PASS_NAME MUTANT_NAME
#endif
#ifndef MUTANT_PHASE
#define MUTANT_PHASE STATOR_PHASE_POST_GRAD
#endif
#ifndef MUTANT_BEFORE
#define MUTANT_BEFORE NULL
#endif

#ifdef MUTANT_ESCAPE
#define MUTANT_DOC "changes \x1b[31m nothing"
#else
#define MUTANT_DOC "changes nothing"
#endif

static stator_status run(void *self, const stator_graph *in, stator_builder *out,
                         stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err)
{
    (void)self;
    (void)in;
    (void)out;
    (void)fuel;
    (void)err;
    *out_result = STATOR_PASS_SAME;
    return STATOR_OK;
}

static stator_status init(const stator_host *host, void **self, stator_diag **err)
{
#ifdef MUTANT_INIT_FAILS
    (void)host;
    (void)self;
    (void)err;
    return STATOR_INTERNAL;
#else
    return stator_init_host(host, self, err);
#endif
}

static const stator_pass pass = {
    .item = STATOR_ITEM(stator_pass, STATOR_KIND_PASS, MUTANT_PASS_NAME, MUTANT_DOC),
    .phase = MUTANT_PHASE,
    .flags = STATOR_PASS_DETERMINISTIC,
    .before = MUTANT_BEFORE,
    .run = run,
};

static const stator_item *const items[] = {&pass.item};

STATOR_PLUGIN(MUTANT_NAME, "1.0.0", "Stator's tests", "[\"pass\"]", "", items, init, NULL);
