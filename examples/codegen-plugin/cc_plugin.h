/* The backend "cc": what its files share. */
#ifndef STATOR_EXAMPLE_CC_PLUGIN_H
#define STATOR_EXAMPLE_CC_PLUGIN_H

#include "codegen/codegen.h"

/* One an instance. */
typedef struct cc_instance {
    st_cg_config config; /* first, for the slots of codegen/codegen.h */
    const stator_host *host;
    st_mem *mem;
    char *compiler; /* option `cc` */
    char *flags;    /* option `flags`, words with spaces between */
    st_emitter emitter;
} cc_instance;

/* cc_emitter.c: fills instance->emitter; the fields before it are set. */
void cc_emitter_init(cc_instance *instance);

/* cc_compiler.c: the C program `text` as a shared object, opened; dlclose ends it. INTERNAL with
 * the compiler's first messages when it refuses the text, UNAVAILABLE when there is no compiler. */
stator_status cc_build(const cc_instance *instance, const char *text, void **out_handle,
                       stator_diag **err);

#endif
