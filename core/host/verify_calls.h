/* The option `verify` of a compile: the first calls of each program run on the reference as well.
 */
#ifndef STATOR_HOST_VERIFY_CALLS_H
#define STATOR_HOST_VERIFY_CALLS_H

#include "core/compile/compile.h"

typedef struct st_verifier st_verifier;

/* Creates a verifier for a function of this model. `options` says how many calls to verify;
 * `backend` is the function's. The options are copied. RESOURCE_EXHAUSTED. */
stator_status st_verifier_create(stator_model *model, const stator_compile_options *options,
                                 const char *backend, st_verifier **out_verifier,
                                 stator_diag **err);
void st_verifier_destroy(st_verifier *verifier);

/* A call that runs on both. */
typedef struct st_verified_call {
    st_verifier *verifier;
    st_compiled *entry;
    uint32_t n_in, n_out;
    const DLTensor *in; /* dense; the program may write them */
    stator_tensor **out;
    /* Of the inputs that lie on a device, the tensor; NULL: none does. */
    stator_tensor *const *tensors;
    /* Runs the program of the entry; behind it what it has queued on devices is known of each
     * tensor. */
    stator_status (*run)(void *self, stator_diag **err);
    void *run_self;
} st_verified_call;

/* Is this call of the entry one of the first? Each answer of 1 counts. */
bool st_verify_next(const st_verifier *verifier, st_compiled *entry);
/* Runs the entry's program, and the reference on what the inputs were. DATA_LOSS: they differ, with
 * the output and the node where they part; results that were made for the call are gone then. What
 * the program fails with; what the reference fails with. */
stator_status st_verify_call(const st_verified_call *call, st_call_state *state, stator_diag **err);

#endif
