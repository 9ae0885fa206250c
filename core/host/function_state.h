/* A function's fields, for the files that make, compile and call it.
 *
 * The list of compiled entries is immutable: readers take an atomic snapshot, a compile publishes a
 * longer list and keeps the old one until the function ends, so a call never waits for a compile of
 * another shape. */
#ifndef STATOR_HOST_FUNCTION_STATE_H
#define STATOR_HOST_FUNCTION_STATE_H

#include "core/host/function.h"
#include "core/host/open_backends.h"
#include "core/host/sizes.h"
#include "core/host/verify_calls.h"

typedef struct entry_list {
    struct entry_list *previous;
    uint32_t count;
    st_compiled *entries[];
} entry_list;

/* Room for the inputs of one call that has many. */
typedef struct input_block {
    struct input_block *next;
    stator_tensor **copies;
    DLTensor views[];
} input_block;

/* A parameter whose value is another than the model's. */
typedef struct set_param {
    char *name;
    stator_blob *blob;
} set_param;

struct stator_function {
    stator_ctx *ctx;
    stator_model *model;
    uint32_t n_inputs; /* inputs of a call */
    st_backends backends;
    uint32_t flags;
    uint32_t recompile_limit;
    int64_t fuel_limit;
    char *fuel_scope;
    uint32_t is_recording;
    uint32_t has_devices; /* a backend of it has memory of its own */
    uint32_t outputs;     /* stator_outputs, for calls that do not say */
    stator_x_fuel_fn fuel_watch;
    void *fuel_watch_self;
    st_watch watch;       /* the application's watcher */
    pthread_mutex_t lock; /* compiles */
    st_sizes sizes;
    _Atomic(entry_list *) list;
    _Atomic uint64_t compile_ns;
    st_fuel fuel; /* fuel of the last compile */
    pthread_mutex_t blocks_lock;
    input_block *blocks;         /* free ones: calls that overlap take one each */
    st_verifier *verifier;       /* NULL: calls are not compared */
    st_vec(set_param) params;    /* under `lock` */
    st_vec(st_module *) sources; /* copies of imports that hold these */
    _Atomic uint32_t n_bound;    /* bound calls that are alive */
};

/* The import as the function compiles it: a copy, which the function keeps, where a parameter was
 * set. Under f->lock. */
stator_status st_function_source(stator_function *f, const st_specialisation *spec,
                                 st_module **out_module, stator_diag **err);
/* Ends the programs, and what was set. */
void st_function_params_deinit(stator_function *f);

/* INVALID_ARGUMENT: no value of stator_outputs, or a device is wanted of a backend without one. */
stator_status st_function_check_outputs(const stator_function *f, uint32_t outputs,
                                        stator_diag **err);
/* The program for these inputs, compiled now where none fits, and a state for the call, whose
 * symbols hold the sizes of the call; the caller releases it, also after a failure. */
stator_status st_function_entry_for(stator_function *f, uint32_t n_in, const DLTensor *in,
                                    st_compiled **out_entry, st_call_state **out_state,
                                    stator_diag **err);

#endif
