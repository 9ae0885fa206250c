/* A frontend that reads nothing, in variants: the CMake file beside it builds one plugin for each
 * set of MUTANT_ macros. */
#include "mutant_init.h"

#include <stator/plugin.h>

#ifndef MUTANT_NAME
#error "MUTANT_NAME is the plugin's name"
#endif
#ifndef MUTANT_SCORE
#define MUTANT_SCORE 0 /* what sniff answers */
#endif

static uint32_t sniff(void *self, const uint8_t *bytes, uint64_t size)
{
    (void)self;
    (void)bytes;
    (void)size;
    return MUTANT_SCORE;
}

static stator_status import(void *self, const stator_source *source, const stator_options *options,
                            stator_builder *builder, stator_diag **err)
{
    (void)self;
    (void)source;
    (void)options;
    (void)builder;
    (void)err;
    return STATOR_UNIMPLEMENTED;
}

static const stator_frontend frontend = {
    .item = STATOR_ITEM(stator_frontend, STATOR_KIND_FRONTEND, MUTANT_NAME, "reads nothing"),
    .extensions = "nothing",
    .sniff = sniff,
    .import = import,
};

static const stator_item *const items[] = {&frontend.item};

STATOR_PLUGIN(MUTANT_NAME, "1.0.0", "Stator's tests", "[\"frontend\"]",
              ",\"extensions\":[\"nothing\"]", items, init, NULL);
