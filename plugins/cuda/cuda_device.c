/* The driver's beginning, what its devices are like, and opening one. */
#include "cuda_device.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* kDLCUDA of dlpack.h */
#define DEVICE_TYPE_CUDA 2

/* What a kernel's arguments may take on every device and driver; CUDA 12.1 on sm_70 has 32,764. */
#define ARGUMENT_BYTES_MAX 4096u

/* ---- the driver ---- */

/* cuInit's answer in words. */
static stator_status say_no_driver(const cuda_driver *driver, cuda_result result, stator_diag **err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const bool is_hidden = result == CUDA_RESULT_NO_DEVICE && visible != NULL;
    (void)st_fail(err, STATOR_UNAVAILABLE,
                  "the CUDA driver (%s) sees no device: %s, %d, %s%s%.100s%s",
                  driver->path[0] != '\0' ? driver->path : "libcuda.so.1",
                  cuda_error_name(driver, result), (int)result, cuda_error_text(driver, result),
                  is_hidden ? "; CUDA_VISIBLE_DEVICES is '" : "", is_hidden ? visible : "",
                  is_hidden ? "'" : "");
    if (err != NULL) {
        st_diag_set_hint(*err, "%s",
                         is_hidden ? "CUDA_VISIBLE_DEVICES may hide the device: unset it"
                         : result == CUDA_RESULT_NOT_INITIALIZED
                             ? "the driver does not survive fork: start a new process"
                         : result == CUDA_RESULT_SYSTEM_DRIVER_MISMATCH
                             ? "the driver's library and kernel module differ: restart the machine"
                             : "see whether `nvidia-smi` shows a device, and whether this user may "
                               "open /dev/nvidia0");
    }
    return STATOR_UNAVAILABLE;
}

stator_status cuda_driver_begin(cuda_driver *driver, const char *file, stator_diag **err)
{
    cuda_missing why;
    memset(driver, 0, sizeof *driver);
    if (!cuda_open_driver(file, &driver->api, driver->path, &why)) {
        (void)st_fail(err, STATOR_NOT_FOUND, "%s", why.reason);
        if (err != NULL) {
            st_diag_set_hint(*err, "%s", why.hint);
        }
        return STATOR_NOT_FOUND;
    }
    cuda_result result = driver->api.init(0);
    if (result == CUDA_RESULT_SUCCESS) {
        result = driver->api.device_count(&driver->device_count);
    }
    if (result == CUDA_RESULT_SUCCESS && driver->device_count == 0) {
        result = CUDA_RESULT_NO_DEVICE;
    }
    if (result != CUDA_RESULT_SUCCESS) {
        return say_no_driver(driver, result, err);
    }
    (void)driver->api.driver_version(&driver->version);
    return STATOR_OK;
}

/* ---- one device ---- */

/* 0 where the driver does not know the attribute. */
static uint32_t attribute_of(const cuda_driver *driver, cuda_ordinal ordinal, int attribute)
{
    int value = 0;
    const cuda_result result = driver->api.device_attribute(&value, attribute, ordinal);
    return result == CUDA_RESULT_SUCCESS && value > 0 ? (uint32_t)value : 0;
}

stator_status cuda_describe(const cuda_driver *driver, uint32_t id, st_gpu_device *out,
                            stator_diag **err)
{
    cuda_ordinal ordinal = 0;
    size_t bytes = 0;
    *out = (st_gpu_device){.device_type = DEVICE_TYPE_CUDA, .id = (int32_t)id};
    ST_FAIL_IF(id >= (uint32_t)driver->device_count, err, STATOR_NOT_FOUND,
               "there is no device cuda:%u: the driver sees %d (CUDA_VISIBLE_DEVICES says which), "
               "with numbers from 0",
               id, driver->device_count);
    cuda_result result = driver->api.device_get(&ordinal, (int)id);
    if (result == CUDA_RESULT_SUCCESS) {
        result = driver->api.device_name(out->name, (int)sizeof out->name, ordinal);
    }
    if (result == CUDA_RESULT_SUCCESS) {
        result = driver->api.device_memory(&bytes, ordinal);
    }
    ST_FAIL_IF(result != CUDA_RESULT_SUCCESS, err, STATOR_UNAVAILABLE,
               "the driver tells nothing of cuda:%u: %s, %d, %s", id,
               cuda_error_name(driver, result), (int)result, cuda_error_text(driver, result));
    (void)snprintf(out->arch, sizeof out->arch, "sm_%u%u",
                   attribute_of(driver, ordinal, CUDA_ATTRIBUTE_CAPABILITY_MAJOR),
                   attribute_of(driver, ordinal, CUDA_ATTRIBUTE_CAPABILITY_MINOR));
    out->memory_bytes = bytes;
    out->n_multiprocessors = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out->warp_size = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_WARP_SIZE);
    out->block_threads_max = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_BLOCK_THREADS_MAX);
    out->shared_bytes = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_SHARED_BYTES);
    out->shared_optin_bytes = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_SHARED_OPTIN_BYTES);
    out->registers = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_REGISTERS);
    out->argument_bytes_max = ARGUMENT_BYTES_MAX;
    out->l2_bytes = attribute_of(driver, ordinal, CUDA_ATTRIBUTE_L2_BYTES);
    return STATOR_OK;
}

/* ---- opening and closing ---- */

static stator_status retain_context(cuda_device *d, stator_diag **err)
{
    const cuda_driver *driver = d->driver;
    const uint32_t id = (uint32_t)d->table.device.id;
    ST_FAIL_IF(attribute_of(driver, d->ordinal, CUDA_ATTRIBUTE_COMPUTE_MODE) ==
                   CUDA_COMPUTE_MODE_PROHIBITED,
               err, STATOR_UNAVAILABLE,
               "cuda:%u is in the compute mode 'prohibited'; `nvidia-smi -c DEFAULT` allows it",
               id);
    const cuda_result result = driver->api.context_retain(&d->context, d->ordinal);
    if (result == CUDA_RESULT_SUCCESS) {
        return STATOR_OK;
    }
    d->context = NULL;
    return st_fail(
        err, result == CUDA_RESULT_OUT_OF_MEMORY ? STATOR_RESOURCE_EXHAUSTED : STATOR_UNAVAILABLE,
        "cuda:%u gives no context: %s, %d, %s; see with `nvidia-smi` who uses the device", id,
        cuda_error_name(driver, result), (int)result, cuda_error_text(driver, result));
}

stator_status cuda_device_open(cuda_device *d, const cuda_driver *driver, uint32_t id,
                               const cuda_device_options *options, stator_diag **err)
{
    memset(d, 0, sizeof *d);
    d->driver = driver;
    cuda_compiler_init(&d->compiler, options->nvrtc);
    d->table = (st_gpu_driver){.struct_size = sizeof d->table, .self = d};
    stator_status status = cuda_describe(driver, id, &d->table.device, err);
    if (status == STATOR_OK && options->arch != NULL && options->arch[0] != '\0') {
        (void)snprintf(d->table.device.arch, sizeof d->table.device.arch, "%s", options->arch);
    }
    if (status == STATOR_OK) {
        (void)driver->api.device_get(&d->ordinal, (int)id);
        d->here = cuda_mark_process();
        status = d->here != NULL ? retain_context(d, err) : st_fail_oom(err);
    }
    if (status == STATOR_OK) {
        cuda_fill_table(d);
    } else {
        cuda_device_close(d);
    }
    return status;
}

void cuda_device_close(cuda_device *d)
{
    if (d->context != NULL && *d->here != 0) {
        (void)d->driver->api.context_release(d->ordinal);
    }
    d->context = NULL;
    cuda_unmark_process(d->here);
    d->here = NULL;
    cuda_compiler_deinit(&d->compiler);
}
