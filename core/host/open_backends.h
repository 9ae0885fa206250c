/* The backends of a function: the main one, by name or by priority; the reference, which folds
 * constants; and those that nodes go through which main leaves.
 *
 * In: stator_compile_options. Out: instances, which st_backends_close ends. */
#ifndef STATOR_HOST_OPEN_BACKENDS_H
#define STATOR_HOST_OPEN_BACKENDS_H

#include "core/compile/compile.h"

typedef struct st_backends {
    stator_instance *main;
    stator_instance *reference;                   /* eager; NULL: main is it, or there is none */
    stator_instance *fallbacks[ST_FALLBACKS_MAX]; /* one of them may be the reference */
    uint32_t n_fallbacks;
} st_backends;

/* The backend that the options name, with their options and mode, or the one that is to replace it;
 * none named: the best that can be used, and each better one is warned of. */
stator_status st_open_main(stator_ctx *ctx, const stator_compile_options *options,
                           stator_instance **out, stator_diag **err);
/* The reference backend, when it is there; its absence is no error until something needs it. */
stator_instance *st_open_reference(const stator_instance *main);
/* The backends that nodes go through which main leaves: those named, else the reference; none with
 * STRICT. main and reference are open. */
stator_status st_open_fallbacks(st_backends *b, const stator_compile_options *options,
                                stator_diag **err);
/* Does one of them work in this memory? */
bool st_backends_use(const st_backends *b, const st_domain *domain);
void st_backends_close(st_backends *b);

#endif
