/* What a plugin of GPUs has beside its vendor's data: devices that are open, instances, and the
 * slots about them (header unstable, see docs/gpu.md). Slots of memory and streams are in
 * gpu_slots.h, those of compiling and running in codegen/codegen.h; they find their parts at the
 * beginning of an instance. */
#ifndef STATOR_CODEGEN_GPU_BACKEND_H
#define STATOR_CODEGEN_GPU_BACKEND_H

#include "codegen/gpu/gpu_settings.h"
#include "codegen/gpu/gpu_slots.h"

/* A plugin; lives as long as it. */
typedef struct st_gpu_backend {
    const st_gpu_vendor *vendor;
    const char *name;              /* the backend's */
    const char *driver_variable;   /* that gives the option driver to the probe */
    const char *compiler_variable; /* and the compiler's */
    const char *library_variable;  /* and that of vendor->contractions, if there is one */
    const char *cap_variable;      /* and memory_cap to all instances */
    /* Files that stand in for what would be looked for, in the plugin's folder; NULL: none. */
    const char *driver_beside;
    const char *compiler_beside;
    const char *library_beside; /* of vendor->contractions */
    /* What stator_device_info.arch says, of st_gpu_device.arch; NULL: the same. */
    void (*put_arch)(const char *arch, char out[32]);
} st_gpu_backend;

/* Init, shutdown and the slots of stator_backend; `backend` outlives the plugin's self. */
stator_status st_gpu_backend_init(const stator_host *host, const st_gpu_backend *backend,
                                  void **out_self, stator_diag **err);
void st_gpu_backend_shutdown(void *self);
stator_status st_gpu_slot_probe(void *self, stator_diag **err);
stator_status st_gpu_slot_devices(void *self, stator_device_fn fn, void *fn_self);
stator_status st_gpu_slot_pipeline(void *self, const stator_options *options,
                                   const stator_pipeline_sink *sink);
stator_status st_gpu_slot_create(void *self, const stator_options *options, uint32_t device,
                                 void **out_inst, stator_diag **err);
void st_gpu_slot_destroy(void *self, void *inst);
/* What a device's kernels depend on beside the plugin's build and options. */
const char *st_gpu_slot_compat_key(void *inst);
stator_status st_gpu_slot_self_test(void *inst, stator_diag **err);
stator_status st_gpu_slot_check_address(void *inst, const void *p, stator_diag **err);
stator_status st_gpu_slot_check_stream(void *inst, void *stream, stator_diag **err);
stator_status st_gpu_slot_check_range(void *inst, const void *p, uint64_t below, uint64_t above,
                                      stator_diag **err);

/* All of them, in a descriptor of a backend. */
#define ST_GPU_SLOTS                                                                               \
    .flags = STATOR_BACKEND_CONCURRENT_COMPILE, .probe = st_gpu_slot_probe,                        \
    .devices = st_gpu_slot_devices, .create = st_gpu_slot_create, .destroy = st_gpu_slot_destroy,  \
    .pipeline = st_gpu_slot_pipeline, .capability = st_cg_slot_capability,                         \
    .compile = st_cg_slot_compile, .exe_info = st_cg_slot_exe_info, .exe_run = st_cg_slot_exe_run, \
    .exe_destroy = st_cg_slot_exe_destroy, .exe_steps = st_cg_slot_exe_steps,                      \
    .exe_serialize = st_cg_slot_exe_serialize, .exe_deserialize = st_cg_slot_exe_deserialize,      \
    .compat_key = st_gpu_slot_compat_key, .self_test = st_gpu_slot_self_test,                      \
    .memory = st_gpu_slot_memory, .alloc = st_gpu_slot_alloc, .free = st_gpu_slot_free,            \
    .copy = st_gpu_slot_copy, .fill = st_gpu_slot_fill,                                            \
    .stream_create = st_gpu_slot_stream_create, .stream_destroy = st_gpu_slot_stream_destroy,      \
    .synchronize = st_gpu_slot_synchronize, .event_create = st_gpu_slot_event_create,              \
    .event_destroy = st_gpu_slot_event_destroy, .event_record = st_gpu_slot_event_record,          \
    .event_wait = st_gpu_slot_event_wait, .check_address = st_gpu_slot_check_address,              \
    .copy_strided = st_gpu_slot_copy_strided, .check_stream = st_gpu_slot_check_stream,            \
    .check_range = st_gpu_slot_check_range, .late_failure = st_gpu_slot_late_failure

#endif
