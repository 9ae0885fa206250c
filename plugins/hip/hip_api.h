/* The interfaces of libamdhip64 and hiprtc, declared by hand: the vendor's headers are needed
 * neither to build nor to run. Names and numbers are those of hip_runtime_api.h and hiprtc.h of
 * ROCm 5 to 7. Handles are pointers to structs that only the library knows. */
#ifndef STATOR_HIP_HIP_API_H
#define STATOR_HIP_HIP_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct hiprtc_program_ *hiprtc_program;

/* hipError_t */
enum hip_result_code {
    HIP_RESULT_DEINITIALIZED = 4, /* the process is ending */
    HIP_RESULT_INVALID_IMAGE = 200,
    HIP_RESULT_NO_BINARY_FOR_GPU = 209,
    HIP_RESULT_ECC_UNCORRECTABLE = 214,
    HIP_RESULT_INVALID_KERNEL_FILE = 218,
    HIP_RESULT_ILLEGAL_ADDRESS = 700,
    HIP_RESULT_LAUNCH_TIMEOUT = 702,
    HIP_RESULT_CONTEXT_IS_DESTROYED = 709,
    HIP_RESULT_ASSERT = 710,
    HIP_RESULT_LAUNCH_FAILED = 719,
    HIP_RESULT_UNKNOWN = 999
};

/* hipDeviceAttribute_t; ROCm 4 numbered them otherwise */
enum hip_attribute {
    HIP_ATTRIBUTE_L2_BYTES = 19,
    HIP_ATTRIBUTE_BLOCK_THREADS_MAX = 56,
    HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT = 63,
    HIP_ATTRIBUTE_REGISTERS = 72, /* of a multiprocessor */
    HIP_ATTRIBUTE_SHARED_BYTES = 74,
    HIP_ATTRIBUTE_WARP_SIZE = 87
};

/* hipDeviceProp_t: where gcnArchName stands, "gfx90a:sramecc+:xnack-", and room for all of it. */
enum hip_properties {
    HIP_PROPERTIES_BYTES = 4096,
    HIP_ARCH_NAME_AT = 396,        /* until ROCm 5 */
    HIP_ARCH_NAME_AT_R0600 = 1160, /* since ROCm 6 */
    HIP_ARCH_NAME_BYTES = 256
};

/* hipMemoryType, which ROCm 6 numbered anew. */
enum hip_memory_type {
    HIP_VERSION_ROCM_6 = 60000000,
    HIP_MEMORY_TYPE_HOST_ROCM_5 = 0,
    HIP_MEMORY_TYPE_HOST = 1
};

enum hiprtc_result_code { HIPRTC_RESULT_SUCCESS = 0, HIPRTC_RESULT_COMPILATION = 6 };

#define HIP_FUNCTION(field, symbol, result, arguments) result(*field) arguments;
typedef struct hip_own_api {
#include "hip_own_functions.def"
} hip_own_api;
typedef struct hip_rtc_api {
#include "hip_rtc_functions.def"
} hip_rtc_api;
#undef HIP_FUNCTION

#endif
