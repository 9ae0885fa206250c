/* The interfaces of libcuda.so.1 (the CUDA driver API) and of NVRTC, declared by hand: the vendor's
 * headers are needed neither to build nor to run. Only what the plugin calls is here, by the names
 * and numbers of cuda.h and nvrtc.h, which NVIDIA keeps from release to release.
 *
 * Handles are pointers to structs that only the library knows; no struct is passed by value. The
 * functions themselves are in codegen/gpu/gpu_native_functions.def (those that HIP has too),
 * cuda_own_functions.def and cuda_nvrtc_functions.def. */
#ifndef STATOR_CUDA_CUDA_API_H
#define STATOR_CUDA_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t nvrtc_result; /* nvrtcResult */
typedef struct nvrtc_program_ *nvrtc_program;

enum cuda_result_code {
    CUDA_RESULT_SUCCESS = 0,
    CUDA_RESULT_INVALID_VALUE = 1,
    CUDA_RESULT_OUT_OF_MEMORY = 2,
    CUDA_RESULT_NOT_INITIALIZED = 3, /* also: the driver was begun before a fork */
    CUDA_RESULT_DEINITIALIZED = 4,   /* the process is ending */
    CUDA_RESULT_NO_DEVICE = 100,
    CUDA_RESULT_INVALID_IMAGE = 200,
    CUDA_RESULT_NO_BINARY_FOR_GPU = 209,
    CUDA_RESULT_ECC_UNCORRECTABLE = 214,
    CUDA_RESULT_INVALID_PTX = 218,
    CUDA_RESULT_NVLINK_UNCORRECTABLE = 220,
    CUDA_RESULT_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_RESULT_CONTAINED = 226,
    CUDA_RESULT_ILLEGAL_ADDRESS = 700,
    CUDA_RESULT_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_RESULT_LAUNCH_TIMEOUT = 702,
    CUDA_RESULT_CONTEXT_IS_DESTROYED = 709,
    CUDA_RESULT_ASSERT = 710,
    CUDA_RESULT_HARDWARE_STACK_ERROR = 714,
    CUDA_RESULT_ILLEGAL_INSTRUCTION = 715,
    CUDA_RESULT_MISALIGNED_ADDRESS = 716,
    CUDA_RESULT_INVALID_ADDRESS_SPACE = 717,
    CUDA_RESULT_INVALID_PC = 718,
    CUDA_RESULT_LAUNCH_FAILED = 719,
    CUDA_RESULT_TENSOR_MEMORY_LEAK = 721,
    CUDA_RESULT_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_RESULT_EXTERNAL_DEVICE = 911,
    CUDA_RESULT_UNKNOWN = 999
};

/* CUdevice_attribute */
enum cuda_attribute {
    CUDA_ATTRIBUTE_BLOCK_THREADS_MAX = 1,
    CUDA_ATTRIBUTE_SHARED_BYTES = 8,
    CUDA_ATTRIBUTE_WARP_SIZE = 10,
    CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
    CUDA_ATTRIBUTE_L2_BYTES = 38,
    CUDA_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_CAPABILITY_MINOR = 76,
    CUDA_ATTRIBUTE_REGISTERS = 82, /* of a multiprocessor */
    CUDA_ATTRIBUTE_SHARED_OPTIN_BYTES = 97
};

enum cuda_constant {
    CUDA_ADDRESS_MEMORY_TYPE = 2, /* CUpointer_attribute */
    CUDA_MEMORY_TYPE_HOST = 1,    /* CUmemorytype */
    CUDA_COMPUTE_MODE_PROHIBITED = 2,
    CUDA_FUNCTION_DYNAMIC_SHARED_BYTES = 8 /* CUfunction_attribute */
};

enum nvrtc_result_code {
    NVRTC_RESULT_SUCCESS = 0,
    NVRTC_RESULT_OUT_OF_MEMORY = 1,
    NVRTC_RESULT_INVALID_OPTION = 5,
    NVRTC_RESULT_COMPILATION = 6
};

typedef struct cuda_own_api {
#define CUDA_FUNCTION(field, symbol, arguments) int32_t(*field) arguments;
#include "cuda_own_functions.def"
#undef CUDA_FUNCTION
} cuda_own_api;

typedef struct cuda_nvrtc_api {
#define CUDA_FUNCTION(field, symbol, arguments) nvrtc_result(*field) arguments;
#include "cuda_nvrtc_functions.def"
#undef CUDA_FUNCTION
} cuda_nvrtc_api;

#endif
