/* Backend instances: created with validated options, used by the driver and, through the host
 * table, by other backends (aot_eager runs on eager). Opening a backend from inside itself,
 * directly or through others, is refused with the chain named. */
#ifndef STATOR_CONTEXT_NESTED_H
#define STATOR_CONTEXT_NESTED_H

#include "core/context/ctx.h"
#include "core/plugins/options.h"
#include "core/plugins/plugin_call.h"
#include "core/runtime/domain.h"
#include <stdatomic.h>

struct stator_instance {
    stator_ctx *ctx;
    const st_loaded *loaded;
    const stator_backend *backend;
    stator_options *options;
    void *inst;
    _Atomic uint32_t refs;
    uint32_t device;              /* number of the device, as create got it */
    st_domain *domain;            /* memory of its executables; NULL: the host's (see devices.h) */
    pthread_mutex_t compile_lock; /* compiles on one instance are serial unless the flag says not */
    pthread_mutex_t run_lock;     /* SERIAL_RUN */
};

/* Finds, loads and creates an instance of the backend. */
stator_status st_instance_open(stator_ctx *ctx, const char *backend, uint32_t option_count,
                               const char *const *keys, const char *const *values,
                               stator_instance **out_instance, stator_diag **err);
/* The same on one of the backend's devices, by its number. */
stator_status st_instance_open_on(stator_ctx *ctx, const char *backend, uint32_t device,
                                  const st_option_pairs *given, stator_instance **out_instance,
                                  stator_diag **err);
/* The same with what `options`, another backend's, hold in the namespace of `backend` ("eager.x=1"
 * given for aot_eager); the rest of them is passed on for what `backend` opens in its turn. */
stator_status st_instance_open_below(stator_ctx *ctx, const char *backend,
                                     const stator_options *options, stator_instance **out_instance,
                                     stator_diag **err);
/* Close ends one of its references; whoever opened it has the first. */
void st_instance_retain(stator_instance *instance);
void st_instance_close(stator_instance *instance);
stator_status st_instance_compile(stator_instance *instance, const stator_graph *graph,
                                  stator_fuel_scope *fuel, void **out_exe, stator_diag **err);
stator_status st_instance_run(stator_instance *instance, void *exe, const stator_call *call,
                              stator_diag **err);
stator_status st_instance_exe_info(stator_instance *instance, void *exe, stator_exe_info *out);
void st_instance_exe_destroy(stator_instance *instance, void *exe);
/* Slots that may be NULL; the caller has looked. What they answer is not NULL. */
stator_status st_instance_serialize(stator_instance *instance, void *exe, stator_blob **out_blob,
                                    stator_diag **err);
stator_status st_instance_deserialize(stator_instance *instance, stator_blob *blob, void **out_exe,
                                      stator_diag **err);
stator_status st_instance_package(stator_instance *instance, void *exe,
                                  const stator_package_sink *sink, stator_diag **err);
const char *st_instance_compat_key(stator_instance *instance); /* "" for none */
/* The backend's exe_steps; a backend without it reports no step. */
stator_status st_instance_steps(stator_instance *instance, void *exe, const stator_step_sink *sink,
                                stator_diag **err);
/* accepts[1..n_nodes] = 1 when the backend runs the node. reasons (may be NULL) receives for each
 * refused node a text in ctx memory, to be freed by the caller; groups (may be NULL) the first
 * member of each node's ATOMIC group, 0 none. */
stator_status st_instance_capability(stator_instance *instance, const stator_graph *graph,
                                     uint8_t *accepts, char **reasons, uint32_t *groups,
                                     stator_diag **err);
bool st_instance_keeps(stator_instance *instance, const stator_graph *graph, stator_ref node);

extern const stator_nested_api st_nested_api;

#endif
