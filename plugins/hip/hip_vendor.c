/* HIP as data: its library, names, numbers and sentences. */
#define _GNU_SOURCE
#include "hip_vendor.h"

#include "hip_api.h"
#include "hip_compile.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

/* kDLROCM of dlpack.h */
#define DEVICE_TYPE_ROCM 10

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const st_gpu_library driver_library = {
    .what = "HIP, AMD's runtime,",
    .option = "driver",
    .sonames = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
    .folders = {"$ROCM_PATH/lib", "$ROCM_HOME/lib", "/opt/rocm/lib", "/opt/rocm-*/lib"},
    .install = "install ROCm's runtime (Debian: libamdhip64-5; AMD's packages: hip-runtime-amd), "
               "or name its file with the option driver",
    .too_old = "install ROCm 5 or newer"};

#define GPU_FUNCTION(field, cuda, hip, arguments) hip,
static const char *const symbols[] = {
#include "codegen/gpu/gpu_native_functions.def"
};
#undef GPU_FUNCTION
#define HIP_FUNCTION(field, symbol, result, arguments) symbol,
static const char *const own_symbols[] = {
#include "hip_own_functions.def"
};
#undef HIP_FUNCTION
_Static_assert(sizeof(st_gpu_api) == sizeof symbols && sizeof(hip_own_api) == sizeof own_symbols &&
                   COUNT(own_symbols) <= ST_GPU_OWN_MAX,
               "a pointer for each name, without gaps");

static hip_own_api own_of(const st_gpu_native *driver)
{
    hip_own_api own;
    memcpy(&own, driver->own, sizeof own);
    return own;
}

static const char *hip_error_name(const st_gpu_native *driver, int32_t result)
{
    const char *name = own_of(driver).error_name(result);
    return name != NULL ? name : "an error of a newer HIP";
}

static const char *hip_error_text(const st_gpu_native *driver, int32_t result)
{
    const char *text = own_of(driver).error_text(result);
    return text != NULL ? text : "no text";
}

static const char *hip_loading(int32_t result)
{
    switch (result) {
    case HIP_RESULT_NO_BINARY_FOR_GPU:
        return "loading a code object (the device does not run its architecture)";
    case HIP_RESULT_INVALID_IMAGE:
    case HIP_RESULT_INVALID_KERNEL_FILE:
        return "loading a code object (hiprtc is of another release than HIP: install one of the "
               "same, or name it with the option hiprtc)";
    default:
        return "loading a kernel's image";
    }
}

/* "gfx90a:sramecc+:xnack-": the features behind the name are part of what code is made for. */
static stator_status hip_arch(const st_gpu_native *driver, int32_t ordinal, char out[32],
                              stator_diag **err)
{
    const hip_own_api own = own_of(driver);
    const bool is_new = own.properties_r0600 != NULL;
    const size_t at = is_new ? HIP_ARCH_NAME_AT_R0600 : HIP_ARCH_NAME_AT;
    char properties[HIP_PROPERTIES_BYTES] = {0};
    ST_FAIL_IF(!is_new && own.properties == NULL, err, STATOR_UNAVAILABLE,
               "%s has neither hipGetDevicePropertiesR0600 nor hipGetDeviceProperties",
               driver->path);
    const int32_t result =
        is_new ? own.properties_r0600(properties, ordinal) : own.properties(properties, ordinal);
    if (result == ST_GPU_RESULT_DEINITIALIZED) {
        return st_gpu_say_ended(driver, "", err);
    }
    const char *name = properties + at;
    const size_t n = strnlen(name, HIP_ARCH_NAME_BYTES);
    ST_FAIL_IF(result != ST_GPU_RESULT_SUCCESS || strncmp(name, "gfx", 3) != 0 || n >= 32, err,
               STATOR_UNAVAILABLE,
               "HIP says no architecture of %s:%d: expected a name such as gfx90a (%s, %d)",
               driver->name, (int)ordinal, hip_error_name(driver, result), (int)result);
    memcpy(out, name, n + 1);
    return STATOR_OK;
}

static const char *hip_refuse_arch(const char *own, const char *wanted)
{
    const size_t n = strcspn(own, ":");
    const size_t n_wanted = strcspn(wanted, ":");
    if (strncmp(wanted, "gfx", 3) != 0) {
        return "which is no architecture; expected a name such as gfx90a";
    }
    const bool is_generic = strstr(wanted, "-generic") != NULL; /* of several chips: HIP decides */
    return is_generic || (n == n_wanted && strncmp(own, wanted, n) == 0)
               ? NULL
               : "whose code objects do not run on the device; leave the option out";
}

static bool hip_is_host_memory(const st_gpu_native *driver, uint32_t type)
{
    return type == (driver->version < HIP_VERSION_ROCM_6 ? HIP_MEMORY_TYPE_HOST_ROCM_5
                                                         : HIP_MEMORY_TYPE_HOST);
}

/* What ends the queues of a process: a fault of a kernel's memory ends the process itself. */
static const int32_t ending[] = {HIP_RESULT_DEINITIALIZED,        HIP_RESULT_ECC_UNCORRECTABLE,
                                 HIP_RESULT_ILLEGAL_ADDRESS,      HIP_RESULT_LAUNCH_TIMEOUT,
                                 HIP_RESULT_CONTEXT_IS_DESTROYED, HIP_RESULT_ASSERT,
                                 HIP_RESULT_LAUNCH_FAILED,        HIP_RESULT_UNKNOWN};

const st_gpu_vendor hip_vendor = {
    .device_type = DEVICE_TYPE_ROCM,
    .default_stream = 0, /* HIP had no other name of it before ROCm 6.2 */
    .visible = "HIP_VISIBLE_DEVICES",
    .see_devices = "see whether `rocminfo` shows a device, and whether this user may open /dev/kfd "
                   "(groups video and render)",
    .see_users = "see with `rocm-smi` who uses the device",
    .find_fault = "AMD_LOG_LEVEL=3 names the last one launched",
    .mismatch = "",
    .mismatch_result = -1,
    .compiler = "hiprtc",
    .driver = &driver_library,
    .symbols = symbols,
    .own_symbols = own_symbols,
    .own_count = COUNT(own_symbols),
    .attributes = {[ST_GPU_BLOCK_THREADS_MAX] = HIP_ATTRIBUTE_BLOCK_THREADS_MAX,
                   [ST_GPU_SHARED_BYTES] = HIP_ATTRIBUTE_SHARED_BYTES,
                   [ST_GPU_SHARED_OPTIN_BYTES] = HIP_ATTRIBUTE_SHARED_BYTES,
                   [ST_GPU_WARP_SIZE] = HIP_ATTRIBUTE_WARP_SIZE,
                   [ST_GPU_MULTIPROCESSORS] = HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                   [ST_GPU_L2_BYTES] = HIP_ATTRIBUTE_L2_BYTES,
                   [ST_GPU_REGISTERS] = HIP_ATTRIBUTE_REGISTERS},
    .ending = ending,
    .ending_count = COUNT(ending),
    .error_name = hip_error_name,
    .error_text = hip_error_text,
    .loading = hip_loading,
    .arch = hip_arch,
    .refuse_arch = hip_refuse_arch,
    .is_host_memory = hip_is_host_memory,
    .compiler_create = hip_compiler_create,
    .compiler_destroy = hip_compiler_destroy,
    .compiler_version = hip_compiler_version,
    .compile = hip_compile};
