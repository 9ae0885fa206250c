/* Devices that are open and instances on them, for any vendor. */
#define _GNU_SOURCE
#include "codegen/gpu/gpu_backend.h"

#include "core/base/diag.h"
#include "core/base/dso.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A device that is open, shared by the instances on it: addresses, streams and events of one hold
 * for the others. It stays open until the plugin ends. */
typedef struct open_device {
    struct open_device *next;
    uint32_t users; /* instances */
    st_gpu_settings settings;
    st_gpu_native driver;
    st_gpu_context context;
    st_gpu *runtime;
    bool was_sought; /* whether the library was looked for, by the first instance that wants it */
    const st_library *library; /* of contractions; NULL: there is none */
    uint32_t library_version;
    st_gpu_missing no_library;
} open_device;

/* One a plugin. */
typedef struct plugin { /* begins as st_plugin_self */
    const stator_host *host;
    st_mem mem;
    const st_gpu_backend *backend;
    pthread_mutex_t mutex; /* guards devices */
    open_device *devices;
} plugin;

typedef struct instance {
    st_gpu_instance base; /* first, for the slots */
    plugin *self;
    open_device *device;
    st_emitter emitter; /* the runtime's, with the library of contractions */
    char compat[256];   /* text of the compat key; written once, under the plugin's lock */
} instance;

/* ---- libraries ---- */

/* The file of a library: what was given, else one in the folder beside the plugin where this build
 * has one, else "", which means that it is looked for. */
static void choose_file(const char *given, const char *beside, char out[ST_GPU_PATH_BYTES])
{
    char folder[ST_GPU_PATH_BYTES / 2];
    char file[ST_GPU_PATH_BYTES] = "";
    if (given != NULL && given[0] != '\0') {
        (void)snprintf(file, sizeof file, "%s", given);
    } else if (beside != NULL &&
               st_dso_folder_of((const void *)(uintptr_t)&choose_file, folder, sizeof folder)) {
        (void)snprintf(file, sizeof file, "%s/%.400s", folder, beside);
    }
    memcpy(out, file, sizeof file);
}

static stator_status begin_driver(const st_gpu_backend *b, st_gpu_native *driver, stator_diag **err)
{
    char file[ST_GPU_PATH_BYTES];
    choose_file(secure_getenv(b->driver_variable), b->driver_beside, file);
    return st_gpu_native_begin(driver, b->vendor, b->name, file, err);
}

static stator_status say_missing(stator_status status, const st_gpu_missing *why, stator_diag **err)
{
    (void)st_fail(err, status, "%s", why->reason);
    if (err != NULL) {
        st_diag_set_hint(*err, "%s", why->hint);
    }
    return status;
}

/* The library of contractions may be missing, unless a variable names it. */
static stator_status look_for_library(const st_gpu_backend *b, stator_diag **err)
{
    st_gpu_missing why;
    const char *file = b->library_variable != NULL ? secure_getenv(b->library_variable) : NULL;
    const bool is_named = file != NULL && file[0] != '\0';
    return is_named && !b->vendor->contractions->check(file, &why)
               ? say_missing(STATOR_NOT_FOUND, &why, err)
               : STATOR_OK;
}

/* Is everything there that a compile and a call need? The compiler is opened for that, which takes
 * milliseconds; beginning the driver takes more. No context is made. */
static stator_status look(const st_gpu_backend *b, stator_diag **err)
{
    char file[ST_GPU_PATH_BYTES];
    st_gpu_native driver;
    int version[2];
    ST_TRY(begin_driver(b, &driver, err));
    ST_TRY(look_for_library(b, err));
    choose_file(secure_getenv(b->compiler_variable), b->compiler_beside, file);
    void *compiler = b->vendor->compiler_create(file);
    ST_TRY_MEM(compiler, err);
    const stator_status status =
        b->vendor->compiler_version(compiler, &version[0], &version[1], err);
    b->vendor->compiler_destroy(compiler);
    return status;
}

stator_status st_gpu_slot_probe(void *self_, stator_diag **err)
{
    const plugin *self = self_;
    stator_diag *own = NULL;
    const stator_status status = look(self->backend, &own);
    return st_cg_to_host(self->host, status, own, err);
}

stator_status st_gpu_slot_devices(void *self_, stator_device_fn fn, void *fn_self)
{
    const plugin *self = self_;
    const st_gpu_backend *b = self->backend;
    st_gpu_native driver;
    ST_TRY(begin_driver(b, &driver, NULL));
    for (uint32_t i = 0; i < (uint32_t)driver.device_count; i++) {
        st_gpu_device device;
        char arch[32];
        ST_TRY(st_gpu_describe(&driver, i, &device, NULL));
        memcpy(arch, device.arch, sizeof arch);
        if (b->put_arch != NULL) {
            b->put_arch(device.arch, arch);
        }
        const stator_device_info info = {.struct_size = sizeof info,
                                         .id = i,
                                         .name = device.name,
                                         .arch = arch,
                                         .memory_bytes = device.memory_bytes};
        fn(fn_self, &info);
    }
    return STATOR_OK;
}

/* Primitives, and long folds in parts that keep a device busy; no cse may follow. */
stator_status st_gpu_slot_pipeline(void *self, const stator_options *options,
                                   const stator_pipeline_sink *sink)
{
    (void)self, (void)options;
    stator_pipeline_begin(sink);
    sink->stage(sink->self, "decompose");
    sink->stage(sink->self, "compact");
    sink->stage(sink->self, "canonicalize");
    sink->stage(sink->self, "fold");
    sink->stage(sink->self, "cse");
    sink->stage(sink->self, "merge_scans");
    sink->stage(sink->self, "split_for_blocks");
    sink->stage(sink->self, "dce");
    sink->phase(sink->self, STATOR_PHASE_LOWERING);
    return STATOR_OK;
}

/* ---- open devices ---- */

static void close_device(plugin *self, open_device *device)
{
    if (device->library != NULL) {
        self->backend->vendor->contractions->close(device->library);
    }
    st_gpu_destroy(device->runtime);
    st_gpu_context_close(&device->context);
    st_free(&self->mem, device);
}

/* Settings in the device; on failure the caller frees it. */
static stator_status open_with_settings(plugin *self, open_device *device, stator_diag **err)
{
    const st_gpu_settings *s = &device->settings;
    const st_gpu_open_options options = {.compiler = s->compiler, .arch = s->arch};
    const st_gpu_backend *b = self->backend;
    ST_TRY(st_gpu_native_begin(&device->driver, b->vendor, b->name, s->driver, err));
    ST_TRY(st_gpu_context_open(&device->context, &device->driver, s->device, &options, err));
    const st_gpu_config config = {.host = self->host,
                                  .mem = &self->mem,
                                  .driver = &device->context.table,
                                  .memory_cap = s->memory_cap,
                                  .schedule = st_gpu_schedule,
                                  .print = st_gpu_print};
    const stator_status status = st_gpu_create(&config, &device->runtime, err);
    if (status != STATOR_OK) {
        st_gpu_context_close(&device->context);
    }
    return status;
}

/* Where the device's entry is, or the end of the list. */
static open_device **find_device(plugin *self, uint32_t number)
{
    open_device **at = &self->devices;
    while (*at != NULL && (*at)->settings.device != number) {
        at = &(*at)->next;
    }
    return at;
}

static stator_status add_device(plugin *self, const st_gpu_settings *settings, open_device **out,
                                stator_diag **err)
{
    open_device *device = st_calloc(&self->mem, 1, sizeof *device);
    ST_TRY_MEM(device, err);
    device->settings = *settings;
    const stator_status status = open_with_settings(self, device, err);
    if (status != STATOR_OK) {
        st_free(&self->mem, device);
        return status;
    }
    device->next = self->devices;
    self->devices = device;
    *out = device;
    return STATOR_OK;
}

static stator_status say_differs(const st_gpu_backend *b, const st_gpu_settings *settings,
                                 stator_diag **err)
{
    const st_gpu_vendor *v = b->vendor;
    const bool has_library = v->contractions != NULL;
    return st_fail(err, STATOR_FAILED_PRECONDITION,
                   "%s:%u is open in this context with other values of memory_cap, arch, driver%s "
                   "%s%s%s, and tensors and functions share it; set them as variables (%s), or use "
                   "another context",
                   b->name, settings->device, has_library ? "," : " or", v->compiler,
                   has_library ? " or " : "", has_library ? v->contractions->option : "",
                   b->cap_variable);
}

/* Lock held. One that nobody uses is opened anew where other settings are wanted. */
static stator_status acquire_locked(plugin *self, const st_gpu_settings *settings,
                                    open_device **out, stator_diag **err)
{
    const st_gpu_backend *b = self->backend;
    open_device **at = find_device(self, settings->device);
    open_device *device = *at;
    const bool is_served = device != NULL && st_gpu_settings_serve(&device->settings, settings);
    if (device != NULL && !is_served && device->users > 0) {
        return say_differs(b, settings, err);
    }
    if (device != NULL && !is_served) {
        *at = device->next;
        close_device(self, device);
        device = NULL;
    }
    if (device == NULL) {
        ST_TRY(add_device(self, settings, &device, err));
    }
    device->users++;
    *out = device;
    return STATOR_OK;
}

static stator_status acquire_device(plugin *self, const st_gpu_settings *settings,
                                    open_device **out, stator_diag **err)
{
    (void)pthread_mutex_lock(&self->mutex);
    const stator_status status = acquire_locked(self, settings, out, err);
    (void)pthread_mutex_unlock(&self->mutex);
    return status;
}

/* An open device stays so when its last instance goes, unless its settings were wrong. */
static void release_device(plugin *self, open_device *device, bool is_wrong)
{
    (void)pthread_mutex_lock(&self->mutex);
    device->users--;
    if (is_wrong && device->users == 0) {
        *find_device(self, device->settings.device) = device->next;
        close_device(self, device);
    }
    (void)pthread_mutex_unlock(&self->mutex);
}

/* The device's library of contractions; NULL where it is missing. */
static const st_library *find_library(plugin *self, open_device *device)
{
    (void)pthread_mutex_lock(&self->mutex);
    if (!device->was_sought) {
        device->was_sought = true;
        device->library = self->backend->vendor->contractions->open(
            device->settings.library, &device->context, st_gpu_emitter(device->runtime)->memory,
            &self->mem, &device->library_version, &device->no_library);
    }
    (void)pthread_mutex_unlock(&self->mutex);
    return device->library;
}

/* ---- the plugin ---- */

stator_status st_gpu_backend_init(const stator_host *host, const st_gpu_backend *backend,
                                  void **out_self, stator_diag **err)
{
    const stator_status status = st_plugin_self_create(host, sizeof(plugin), out_self, err);
    if (status == STATOR_OK) {
        plugin *self = *out_self;
        self->backend = backend;
        (void)pthread_mutex_init(&self->mutex, NULL);
    }
    return status;
}

void st_gpu_backend_shutdown(void *self_)
{
    plugin *self = self_;
    while (self->devices != NULL) {
        open_device *device = self->devices;
        self->devices = device->next;
        close_device(self, device);
    }
    (void)pthread_mutex_destroy(&self->mutex);
    st_plugin_self_destroy(self);
}

/* ---- instances ---- */

/* Says that contractions of f32 stay as they are. */
static void hint_strict(const plugin *self, const stator_options *options,
                        const st_gpu_device *device)
{
    char line[192];
    const stator_host *host = self->host;
    if (host->log->enabled(host->ctx, "perf_hints", 2)) {
        (void)snprintf(line, sizeof line,
                       "%s: code for %s has no matrix instructions, so that matmul=%s is strict: "
                       "contractions of f32 by products and sums of f32",
                       self->backend->name, device->arch, host->opt->get_str(options, "matmul"));
        host->log->write(host->ctx, "perf_hints", 2, line);
    }
}

/* A file that an option names is one that serves, whether or not it will be needed. */
static stator_status check_named(plugin *self, open_device *device, bool names_compiler,
                                 bool names_library, stator_diag **err)
{
    int version[2];
    const st_gpu_vendor *v = self->backend->vendor;
    if (names_compiler &&
        v->compiler_version(device->context.compiler, &version[0], &version[1], err) != STATOR_OK) {
        return STATOR_UNAVAILABLE;
    }
    if (names_library && find_library(self, device) == NULL) {
        return say_missing(STATOR_UNAVAILABLE, &device->no_library, err);
    }
    return STATOR_OK;
}

/* The device that the options say, open, with the files that they name. */
static stator_status find_and_open(plugin *self, const stator_options *options, uint32_t number,
                                   open_device **out, stator_diag **err)
{
    const st_gpu_backend *b = self->backend;
    st_gpu_settings settings;
    ST_TRY(st_gpu_settings_of(b->vendor, b->name, self->host, options, number, &settings, err));
    const bool names_compiler = settings.compiler[0] != '\0';
    const bool names_library = settings.library[0] != '\0';
    choose_file(settings.driver, b->driver_beside, settings.driver);
    choose_file(settings.compiler, b->compiler_beside, settings.compiler);
    choose_file(settings.library, b->library_beside, settings.library);
    ST_TRY(acquire_device(self, &settings, out, err));
    const stator_status status = check_named(self, *out, names_compiler, names_library, err);
    if (status != STATOR_OK) {
        release_device(self, *out, true);
    }
    return status;
}

static stator_status make_instance(plugin *self, const stator_options *options, uint32_t number,
                                   instance **out, stator_diag **err)
{
    const st_gpu_backend *b = self->backend;
    const stator_opt_api *opt = self->host->opt;
    open_device *device = NULL;
    instance *inst = st_calloc(&self->mem, 1, sizeof *inst);
    ST_TRY_MEM(inst, err);
    const stator_status status = find_and_open(self, options, number, &device, err);
    if (status != STATOR_OK) {
        st_free(&self->mem, inst);
        return status;
    }
    *inst =
        (instance){.base = {.config = {.host = self->host,
                                       .emitter = &inst->emitter,
                                       .mem = &self->mem,
                                       .exact = !st_gpu_is_fused(self->host, options),
                                       .is_unchecked = !opt->get_bool(options, "checks"),
                                       .is_any_order = !opt->get_bool(options, "deterministic")},
                            .gpu = device->runtime,
                            .device = &device->context.table.device},
                   .self = self,
                   .device = device,
                   .emitter = *st_gpu_emitter(device->runtime)};
    inst->emitter.target.f32_products = st_gpu_f32_products(self->host, options);
    if (inst->emitter.target.f32_products && !inst->emitter.target.has_matrices) {
        inst->emitter.target.f32_products = ST_F32_STRICT;
        hint_strict(self, options, inst->base.device);
    }
    if (st_gpu_wants_library(b->vendor, self->host, options)) {
        inst->emitter.library = find_library(self, device);
        inst->base.config.no_library =
            inst->emitter.library == NULL ? device->no_library.reason : NULL;
    }
    *out = inst;
    return STATOR_OK;
}

stator_status st_gpu_slot_create(void *self_, const stator_options *options, uint32_t device,
                                 void **out_inst, stator_diag **err)
{
    plugin *self = self_;
    instance *inst = NULL;
    stator_diag *own = NULL;
    const stator_status status = make_instance(self, options, device, &inst, &own);
    *out_inst = inst;
    return st_cg_to_host(self->host, status, own, err);
}

void st_gpu_slot_destroy(void *self_, void *inst_)
{
    plugin *self = self_;
    instance *inst = inst_;
    release_device(self, inst->device, false);
    st_free(&self->mem, inst);
}

static void write_key(const instance *inst, char *out, size_t bytes)
{
    const st_gpu_vendor *v = inst->self->backend->vendor;
    const st_gpu_device *d = inst->base.device;
    int major = 0;
    int minor = 0;
    (void)v->compiler_version(inst->device->context.compiler, &major, &minor, NULL);
    const int n = snprintf(out, bytes, "%s %s units %u warp %u shared %u registers %u %s %d.%d",
                           d->name, d->arch, d->n_multiprocessors, d->warp_size, d->shared_bytes,
                           d->registers, v->compiler, major, minor);
    if (v->contractions != NULL && n > 0 && (size_t)n < bytes) {
        (void)snprintf(out + n, bytes - (size_t)n, " %s %u", v->contractions->option,
                       inst->emitter.library != NULL ? inst->device->library_version : 0);
    }
}

const char *st_gpu_slot_compat_key(void *inst_)
{
    instance *inst = inst_;
    (void)pthread_mutex_lock(&inst->self->mutex);
    if (inst->compat[0] == '\0') {
        write_key(inst, inst->compat, sizeof inst->compat);
    }
    (void)pthread_mutex_unlock(&inst->self->mutex);
    return inst->compat;
}

/* What is wrong, or cannot be done, leaves the device unused. */
stator_status st_gpu_slot_self_test(void *inst_, stator_diag **err)
{
    const instance *inst = inst_;
    const st_gpu_backend *b = inst->self->backend;
    stator_diag *own = NULL;
    stator_status status = st_gpu_self_test(inst->base.gpu, &own);
    if (status != STATOR_OK) {
        st_diag_prefix(own, "%s:%d cannot be used", b->name, inst->base.device->id);
        st_diag_set_hint(own,
                         "update the driver and the compiler (option %s), and report this with "
                         "both versions; self_test=false uses the device all the same",
                         b->vendor->compiler);
        status = status == STATOR_RESOURCE_EXHAUSTED ? status : STATOR_UNAVAILABLE;
    }
    return st_cg_to_host(inst->base.config.host, status, own, err);
}

stator_status st_gpu_slot_check_address(void *inst_, const void *p, stator_diag **err)
{
    instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_check_address(&inst->device->context, p, &own);
    return st_cg_to_host(inst->base.config.host, status, own, err);
}

stator_status st_gpu_slot_check_stream(void *inst_, void *stream, stator_diag **err)
{
    instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_check_stream(&inst->device->context, stream, &own);
    return st_cg_to_host(inst->base.config.host, status, own, err);
}

stator_status st_gpu_slot_check_range(void *inst_, const void *p, uint64_t below, uint64_t above,
                                      stator_diag **err)
{
    instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_check_range(&inst->device->context, p, below, above, &own);
    return st_cg_to_host(inst->base.config.host, status, own, err);
}
