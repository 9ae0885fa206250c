/* The driver's beginning, what its devices are like, and opening one. */
#include "codegen/gpu/gpu_native.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a kernel's arguments may take on every device and driver; CUDA 12.1 on sm_70 has 32,764. */
#define ARGUMENT_BYTES_MAX 4096u

enum { N_FUNCTIONS = sizeof(st_gpu_api) / sizeof(void (*)(void)) };

/* ---- the driver ---- */

/* The answer of beginning, or of counting devices, in words. */
static stator_status say_no_driver(const st_gpu_native *driver, int32_t result, stator_diag **err)
{
    const st_gpu_vendor *v = driver->vendor;
    const char *visible = getenv(v->visible);
    const bool is_hidden = result == ST_GPU_RESULT_NO_DEVICE && visible != NULL;
    if (result == ST_GPU_RESULT_DEINITIALIZED) {
        return st_gpu_say_ended(driver, "", err);
    }
    const bool is_refused = result == ST_GPU_RESULT_INVALID_VALUE; /* nothing of ours was asked */
    (void)st_fail(err, STATOR_UNAVAILABLE, "%s (%s) %s: %s, %d, %s%s%s%s%.100s%s", v->driver->what,
                  driver->path[0] != '\0' ? driver->path : v->driver->sonames[0],
                  is_refused ? "does not begin" : "sees no device", v->error_name(driver, result),
                  (int)result, v->error_text(driver, result), is_hidden ? "; " : "",
                  is_hidden ? v->visible : "", is_hidden ? " is '" : "", is_hidden ? visible : "",
                  is_hidden ? "'" : "");
    if (err != NULL && is_hidden) {
        st_diag_set_hint(*err, "%s may hide the device: unset it", v->visible);
    } else if (err != NULL) {
        st_diag_set_hint(*err, "%s",
                         result == ST_GPU_RESULT_NOT_INITIALIZED
                             ? "the driver does not survive fork: start a new process"
                         : result == v->mismatch_result ? v->mismatch
                         : is_refused
                             ? "correct the variable of the environment that its text names"
                             : v->see_devices);
    }
    return STATOR_UNAVAILABLE;
}

static bool open_functions(st_gpu_native *driver, const char *file, st_gpu_missing *why)
{
    const st_gpu_vendor *v = driver->vendor;
    void *dso = NULL;
    return st_gpu_open_library(v->driver, file, why, &dso, driver->path) &&
           st_gpu_fill_functions(v->driver, dso, driver->path, v->symbols, N_FUNCTIONS,
                                 &driver->api, why) &&
           st_gpu_fill_functions(v->driver, dso, driver->path, v->own_symbols, v->own_count,
                                 driver->own, why);
}

stator_status st_gpu_native_begin(st_gpu_native *driver, const st_gpu_vendor *vendor,
                                  const char *name, const char *file, stator_diag **err)
{
    st_gpu_missing why;
    memset(driver, 0, sizeof *driver);
    driver->vendor = vendor;
    driver->name = name;
    if (!open_functions(driver, file, &why)) {
        (void)st_fail(err, STATOR_NOT_FOUND, "%s", why.reason);
        if (err != NULL) {
            st_diag_set_hint(*err, "%s", why.hint);
        }
        return STATOR_NOT_FOUND;
    }
    int32_t result = driver->api.init(0);
    if (result == ST_GPU_RESULT_SUCCESS) {
        result = driver->api.device_count(&driver->device_count);
    }
    if (result == ST_GPU_RESULT_SUCCESS && driver->device_count == 0) {
        result = ST_GPU_RESULT_NO_DEVICE;
    }
    if (result != ST_GPU_RESULT_SUCCESS) {
        return say_no_driver(driver, result, err);
    }
    (void)driver->api.driver_version(&driver->version);
    return STATOR_OK;
}

/* ---- one device ---- */

/* 0 where the driver does not know the attribute. */
static uint32_t attribute_of(const st_gpu_native *driver, int32_t ordinal,
                             enum st_gpu_attribute attribute)
{
    int value = 0;
    const int number = driver->vendor->attributes[attribute];
    const int32_t result = driver->api.device_attribute(&value, number, ordinal);
    return result == ST_GPU_RESULT_SUCCESS && value > 0 ? (uint32_t)value : 0;
}

static void describe_limits(const st_gpu_native *driver, int32_t ordinal, st_gpu_device *out)
{
    out->n_multiprocessors = attribute_of(driver, ordinal, ST_GPU_MULTIPROCESSORS);
    out->warp_size = attribute_of(driver, ordinal, ST_GPU_WARP_SIZE);
    out->block_threads_max = attribute_of(driver, ordinal, ST_GPU_BLOCK_THREADS_MAX);
    out->shared_bytes = attribute_of(driver, ordinal, ST_GPU_SHARED_BYTES);
    out->shared_optin_bytes = attribute_of(driver, ordinal, ST_GPU_SHARED_OPTIN_BYTES);
    if (out->shared_optin_bytes < out->shared_bytes) { /* 0 where a block cannot ask for more */
        out->shared_optin_bytes = out->shared_bytes;
    }
    out->registers = attribute_of(driver, ordinal, ST_GPU_REGISTERS);
    out->argument_bytes_max = ARGUMENT_BYTES_MAX;
    out->l2_bytes = attribute_of(driver, ordinal, ST_GPU_L2_BYTES);
}

stator_status st_gpu_describe(const st_gpu_native *driver, uint32_t id, st_gpu_device *out,
                              stator_diag **err)
{
    const st_gpu_vendor *v = driver->vendor;
    int32_t ordinal = 0;
    size_t bytes = 0;
    *out = (st_gpu_device){.device_type = v->device_type, .id = (int32_t)id};
    ST_FAIL_IF(id >= (uint32_t)driver->device_count, err, STATOR_NOT_FOUND,
               "there is no device %s:%u: the driver sees %d (%s says which), "
               "with numbers from 0",
               driver->name, id, driver->device_count, v->visible);
    int32_t result = driver->api.device_get(&ordinal, (int)id);
    if (result == ST_GPU_RESULT_SUCCESS) {
        result = driver->api.device_name(out->name, (int)sizeof out->name, ordinal);
    }
    if (result == ST_GPU_RESULT_SUCCESS) {
        result = driver->api.device_memory(&bytes, ordinal);
    }
    if (result == ST_GPU_RESULT_DEINITIALIZED) {
        return st_gpu_say_ended(driver, "", err);
    }
    ST_FAIL_IF(result != ST_GPU_RESULT_SUCCESS, err, STATOR_UNAVAILABLE,
               "the driver tells nothing of %s:%u: %s, %d, %s", driver->name, id,
               v->error_name(driver, result), (int)result, v->error_text(driver, result));
    ST_TRY(v->arch(driver, ordinal, out->arch, err));
    out->memory_bytes = bytes;
    describe_limits(driver, ordinal, out);
    return STATOR_OK;
}

/* ---- opening and closing ---- */

static stator_status retain_context(st_gpu_context *d, stator_diag **err)
{
    const st_gpu_native *driver = d->driver;
    const st_gpu_vendor *v = driver->vendor;
    const uint32_t id = (uint32_t)d->table.device.id;
    ST_FAIL_IF(v->prohibited != 0 &&
                   attribute_of(driver, d->ordinal, ST_GPU_COMPUTE_MODE) == (uint32_t)v->prohibited,
               err, STATOR_UNAVAILABLE,
               "%s:%u is in the compute mode 'prohibited'; `nvidia-smi -c DEFAULT` allows it",
               driver->name, id);
    const int32_t result = driver->api.context_retain(&d->context, d->ordinal);
    if (result == ST_GPU_RESULT_SUCCESS) {
        return STATOR_OK;
    }
    d->context = NULL;
    if (result == ST_GPU_RESULT_DEINITIALIZED) {
        return st_gpu_say_ended(driver, "", err);
    }
    return st_fail(
        err, result == ST_GPU_RESULT_OUT_OF_MEMORY ? STATOR_RESOURCE_EXHAUSTED : STATOR_UNAVAILABLE,
        "%s:%u gives no context: %s, %d, %s; %s", driver->name, id, v->error_name(driver, result),
        (int)result, v->error_text(driver, result), v->see_users);
}

/* The device's own architecture, or the one that the option names. */
static stator_status choose_arch(st_gpu_context *d, const char *wanted, stator_diag **err)
{
    const st_gpu_native *driver = d->driver;
    st_gpu_device *device = &d->table.device;
    if (wanted == NULL || wanted[0] == '\0') {
        return STATOR_OK;
    }
    const char *why = driver->vendor->refuse_arch(device->arch, wanted);
    ST_FAIL_IF(why != NULL, err, STATOR_INVALID_ARGUMENT,
               "%s:%d is %s, and the option arch is '%.31s', %s", driver->name, (int)device->id,
               device->arch, wanted, why);
    (void)snprintf(device->arch, sizeof device->arch, "%s", wanted);
    return STATOR_OK;
}

stator_status st_gpu_context_open(st_gpu_context *d, const st_gpu_native *driver, uint32_t id,
                                  const st_gpu_open_options *options, stator_diag **err)
{
    memset(d, 0, sizeof *d);
    d->driver = driver;
    d->table = (st_gpu_driver){.struct_size = sizeof d->table, .self = d};
    memcpy(&d->table.default_stream, &driver->vendor->default_stream, sizeof(void *));
    stator_status status = st_gpu_describe(driver, id, &d->table.device, err);
    ST_THEN(status, choose_arch(d, options->arch, err));
    if (status == STATOR_OK) {
        const st_gpu_vendor *v = driver->vendor;
        d->table.device.has_matrices =
            v->has_matrices != NULL && v->has_matrices(d->table.device.arch) ? 1u : 0u;
        (void)driver->api.device_get(&d->ordinal, (int)id);
        d->compiler = driver->vendor->compiler_create(options->compiler);
        d->here = st_gpu_mark_process();
        status = d->here != NULL && d->compiler != NULL ? retain_context(d, err) : st_fail_oom(err);
    }
    if (status == STATOR_OK) {
        st_gpu_fill_table(d);
    } else {
        st_gpu_context_close(d);
    }
    return status;
}

void st_gpu_context_close(st_gpu_context *d)
{
    if (d->context != NULL && *d->here != 0) {
        (void)d->driver->api.context_release(d->ordinal);
    }
    d->context = NULL;
    st_gpu_unmark_process(d->here);
    d->here = NULL;
    d->driver->vendor->compiler_destroy(d->compiler);
    d->compiler = NULL;
}
