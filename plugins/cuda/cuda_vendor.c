/* The CUDA driver as data: its library, names, numbers and sentences. */
#include "cuda_vendor.h"

#include "cuda_compile.h"
#include "cuda_gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* kDLCUDA of dlpack.h */
#define DEVICE_TYPE_CUDA 2

/* The first architecture with the instructions of the prelude for matrices. */
#define CUDA_MATRICES_SINCE 80

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const st_gpu_library driver_library = {
    .what = "the CUDA driver",
    .option = "driver",
    .sonames = {"libcuda.so.1"},
    .folders = {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"},
    .install = "install NVIDIA's driver (Debian: nvidia-driver, or nvidia-driver-libs in a "
               "container whose host has it)",
    .too_old = "install a driver of CUDA 11 or newer"};

#define GPU_FUNCTION(field, cuda, hip, arguments) cuda,
static const char *const symbols[] = {
#include "codegen/gpu/gpu_native_functions.def"
};
#undef GPU_FUNCTION
#define CUDA_FUNCTION(field, symbol, arguments) symbol,
static const char *const own_symbols[] = {
#include "cuda_own_functions.def"
};
#undef CUDA_FUNCTION
_Static_assert(sizeof(st_gpu_api) == sizeof symbols && sizeof(cuda_own_api) == sizeof own_symbols &&
                   COUNT(own_symbols) <= ST_GPU_OWN_MAX,
               "a pointer for each name, without gaps");

static cuda_own_api own_of(const st_gpu_native *driver)
{
    cuda_own_api own;
    memcpy(&own, driver->own, sizeof own);
    return own;
}

static const char *cuda_error_name(const st_gpu_native *driver, int32_t result)
{
    const char *name = NULL;
    return own_of(driver).error_name(result, &name) == CUDA_RESULT_SUCCESS && name != NULL
               ? name
               : "an error of a newer driver";
}

static const char *cuda_error_text(const st_gpu_native *driver, int32_t result)
{
    const char *text = NULL;
    return own_of(driver).error_text(result, &text) == CUDA_RESULT_SUCCESS && text != NULL
               ? text
               : "no text";
}

static const char *cuda_loading(int32_t result)
{
    switch (result) {
    case CUDA_RESULT_INVALID_IMAGE:
        return "loading machine code (the driver is of an older release of CUDA than NVRTC: update "
               "the driver, or name an older NVRTC with the option nvrtc)";
    case CUDA_RESULT_NO_BINARY_FOR_GPU:
        return "loading machine code (the device does not run its architecture)";
    case CUDA_RESULT_UNSUPPORTED_PTX_VERSION:
        return "loading PTX (the driver is older than NVRTC: update the driver, or name an older "
               "NVRTC with the option nvrtc)";
    case CUDA_RESULT_INVALID_PTX:
        return "loading PTX (the driver cannot compile it for this device)";
    default:
        return "loading a kernel's image";
    }
}

static stator_status cuda_arch(const st_gpu_native *driver, int32_t ordinal, char out[32],
                               stator_diag **err)
{
    int major = 0;
    int minor = 0;
    (void)err;
    (void)driver->api.device_attribute(&major, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, ordinal);
    (void)driver->api.device_attribute(&minor, CUDA_ATTRIBUTE_CAPABILITY_MINOR, ordinal);
    (void)snprintf(out, 32, "sm_%d%d", major, minor);
    return STATOR_OK;
}

static bool cuda_is_host_memory(const st_gpu_native *driver, uint32_t type)
{
    (void)driver;
    return type == CUDA_MEMORY_TYPE_HOST;
}

static void cuda_ask_shared(const st_gpu_native *driver, void *function, uint32_t bytes)
{
    (void)own_of(driver).function_attribute(function, CUDA_FUNCTION_DYNAMIC_SHARED_BYTES,
                                            (int)bytes);
}

static bool cuda_has_matrices(const char *arch)
{
    const char *number = strchr(arch, '_'); /* of sm_90, compute_90 */
    return number != NULL && strtol(number + 1, NULL, 10) >= CUDA_MATRICES_SINCE;
}

/* Of these cuda.h says that the process must be started anew. */
static const int32_t ending[] = {CUDA_RESULT_DEINITIALIZED,
                                 CUDA_RESULT_ECC_UNCORRECTABLE,
                                 CUDA_RESULT_NVLINK_UNCORRECTABLE,
                                 CUDA_RESULT_CONTAINED,
                                 CUDA_RESULT_ILLEGAL_ADDRESS,
                                 CUDA_RESULT_LAUNCH_TIMEOUT,
                                 CUDA_RESULT_CONTEXT_IS_DESTROYED,
                                 CUDA_RESULT_ASSERT,
                                 CUDA_RESULT_HARDWARE_STACK_ERROR,
                                 CUDA_RESULT_ILLEGAL_INSTRUCTION,
                                 CUDA_RESULT_MISALIGNED_ADDRESS,
                                 CUDA_RESULT_INVALID_ADDRESS_SPACE,
                                 CUDA_RESULT_INVALID_PC,
                                 CUDA_RESULT_LAUNCH_FAILED,
                                 CUDA_RESULT_TENSOR_MEMORY_LEAK,
                                 CUDA_RESULT_EXTERNAL_DEVICE,
                                 CUDA_RESULT_UNKNOWN};

/* ---- NVRTC ---- */

static void *cuda_compiler_create(const char *file)
{
    cuda_compiler *compiler = st_process_alloc(sizeof *compiler);
    if (compiler != NULL) {
        cuda_compiler_init(compiler, file);
    }
    return compiler;
}

static void cuda_compiler_destroy(void *compiler)
{
    if (compiler != NULL) {
        cuda_compiler_deinit(compiler);
        st_process_free(compiler);
    }
}

static stator_status cuda_compiler_version(void *compiler_, int *major, int *minor,
                                           stator_diag **err)
{
    cuda_compiler *compiler = compiler_;
    ST_TRY(cuda_compiler_open(compiler, err));
    *major = compiler->major;
    *minor = compiler->minor;
    return STATOR_OK;
}

static stator_status cuda_compile_for(void *compiler, const st_gpu_device *device, const char *name,
                                      const char *text, uint64_t text_bytes, st_str *out,
                                      stator_diag **err)
{
    return cuda_compile(compiler, device->arch, name, text, text_bytes, out, err);
}

const st_gpu_vendor cuda_vendor = {
    .device_type = DEVICE_TYPE_CUDA,
    .default_stream = 1, /* CU_STREAM_LEGACY */
    .visible = "CUDA_VISIBLE_DEVICES",
    .see_devices = "see whether `nvidia-smi` shows a device, and whether this user may open "
                   "/dev/nvidia0",
    .see_users = "see with `nvidia-smi` who uses the device",
    .find_fault = "compute-sanitizer names it",
    .mismatch = "the driver's library and kernel module differ: restart the machine",
    .mismatch_result = CUDA_RESULT_SYSTEM_DRIVER_MISMATCH,
    .compiler = "nvrtc",
    .contractions = &cuda_cublaslt,
    .driver = &driver_library,
    .symbols = symbols,
    .own_symbols = own_symbols,
    .own_count = COUNT(own_symbols),
    .attributes = {[ST_GPU_BLOCK_THREADS_MAX] = CUDA_ATTRIBUTE_BLOCK_THREADS_MAX,
                   [ST_GPU_SHARED_BYTES] = CUDA_ATTRIBUTE_SHARED_BYTES,
                   [ST_GPU_SHARED_OPTIN_BYTES] = CUDA_ATTRIBUTE_SHARED_OPTIN_BYTES,
                   [ST_GPU_WARP_SIZE] = CUDA_ATTRIBUTE_WARP_SIZE,
                   [ST_GPU_MULTIPROCESSORS] = CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                   [ST_GPU_COMPUTE_MODE] = CUDA_ATTRIBUTE_COMPUTE_MODE,
                   [ST_GPU_L2_BYTES] = CUDA_ATTRIBUTE_L2_BYTES,
                   [ST_GPU_REGISTERS] = CUDA_ATTRIBUTE_REGISTERS},
    .prohibited = CUDA_COMPUTE_MODE_PROHIBITED,
    .ending = ending,
    .ending_count = COUNT(ending),
    .error_name = cuda_error_name,
    .error_text = cuda_error_text,
    .loading = cuda_loading,
    .arch = cuda_arch,
    .is_host_memory = cuda_is_host_memory,
    .refuse_arch = cuda_refuse_arch,
    .has_matrices = cuda_has_matrices,
    .ask_shared = cuda_ask_shared,
    .compiler_create = cuda_compiler_create,
    .compiler_destroy = cuda_compiler_destroy,
    .compiler_version = cuda_compiler_version,
    .compile = cuda_compile_for};
