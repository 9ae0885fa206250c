/* The interface of libcublasLt.so, NVIDIA's library of matrix products, declared by hand: only what
 * the plugin calls is here, by the names and numbers of cublasLt.h, which are those of CUDA 12 and
 * 13. Matrices are described by columns: element (row, column) lies at column * leading + row.
 *
 * Handles are pointers to structs that only the library knows. Two structs are the caller's: the
 * algorithm, 64 bytes that mean something to the library alone, and the answer of a heuristic. */
#ifndef STATOR_CUDA_CUDA_CUBLASLT_H
#define STATOR_CUDA_CUDA_CUBLASLT_H

#include "cuda_api.h"

#define CUBLASLT_MAJOR_MIN 12u
#define CUBLASLT_MAJOR_MAX 13u

typedef int32_t cublaslt_status; /* cublasStatus_t */
typedef struct cublaslt_context_ *cublaslt_handle;
typedef struct cublaslt_desc_ *cublaslt_desc;
typedef struct cublaslt_layout_ *cublaslt_layout;
typedef struct cublaslt_preference_ *cublaslt_preference;

/* cublasLtMatmulAlgo_t */
typedef struct cublaslt_algo {
    uint64_t data[8];
} cublaslt_algo;

/* cublasLtMatmulHeuristicResult_t */
typedef struct cublaslt_result {
    cublaslt_algo algo;
    size_t workspace_bytes;
    cublaslt_status state;
    float waves;
    int32_t reserved[4];
} cublaslt_result;
_Static_assert(sizeof(cublaslt_algo) == 64 && sizeof(cublaslt_result) == 96 &&
                   offsetof(cublaslt_result, workspace_bytes) == 64 &&
                   offsetof(cublaslt_result, state) == 72,
               "as in cublasLt.h");

enum cublaslt_status_code {
    CUBLASLT_STATUS_SUCCESS = 0,
    CUBLASLT_STATUS_NOT_INITIALIZED = 1,
    CUBLASLT_STATUS_ALLOC_FAILED = 3,
    CUBLASLT_STATUS_INVALID_VALUE = 7,
    CUBLASLT_STATUS_ARCH_MISMATCH = 8,
    CUBLASLT_STATUS_EXECUTION_FAILED = 13,
    CUBLASLT_STATUS_INTERNAL_ERROR = 14,
    CUBLASLT_STATUS_NOT_SUPPORTED = 15
};

/* libraryPropertyType */
enum cublaslt_property {
    CUBLASLT_PROPERTY_MAJOR = 0,
    CUBLASLT_PROPERTY_MINOR = 1,
    CUBLASLT_PROPERTY_PATCH = 2
};

/* cudaDataType_t */
enum cublaslt_type {
    CUBLASLT_TYPE_F32 = 0,
    CUBLASLT_TYPE_F64 = 1,
    CUBLASLT_TYPE_F16 = 2,
    CUBLASLT_TYPE_BF16 = 14
};

/* cublasComputeType_t: f32 by products and sums of f32, tensor cores for narrow operands alone;
 * by tensor cores whose factors are tf32 */
enum cublaslt_compute {
    CUBLASLT_COMPUTE_F32 = 68,
    CUBLASLT_COMPUTE_F64 = 70,
    CUBLASLT_COMPUTE_TF32 = 77
};

/* cublasLtMatmulDescAttributes_t; operations and the epilogue are 32 bits, the bias a pointer */
enum cublaslt_desc_attribute {
    CUBLASLT_DESC_TRANSPOSE_A = 3,
    CUBLASLT_DESC_TRANSPOSE_B = 4,
    CUBLASLT_DESC_EPILOGUE = 7,
    CUBLASLT_DESC_BIAS_POINTER = 8
};

enum cublaslt_operation { CUBLASLT_PLAIN = 0, CUBLASLT_TRANSPOSED = 1 };

/* cublasLtEpilogue_t: a bias is one number for each row of the result. */
enum cublaslt_epilogue { CUBLASLT_EPILOGUE_NONE = 1, CUBLASLT_EPILOGUE_BIAS = 4 };

/* cublasLtMatrixLayoutAttribute_t; the count is 32 bits, the stride 64, in elements */
enum cublaslt_layout_attribute {
    CUBLASLT_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_LAYOUT_BATCH_STRIDE = 6
};

/* cublasLtMatmulPreferenceAttributes_t; bytes are 64 bits, the rest 32 */
enum cublaslt_preference_attribute {
    CUBLASLT_PREFERENCE_WORKSPACE_BYTES = 1,
    CUBLASLT_PREFERENCE_REDUCTION_SCHEMES = 3,
    CUBLASLT_PREFERENCE_ALIGNMENT_A = 5,
    CUBLASLT_PREFERENCE_ALIGNMENT_B = 6,
    CUBLASLT_PREFERENCE_ALIGNMENT_C = 7,
    CUBLASLT_PREFERENCE_ALIGNMENT_D = 8
};

/* cublasLtReductionScheme_t: parts of a sum are kept in the type of the sum, not of the result. */
enum cublaslt_reduction { CUBLASLT_REDUCTION_COMPUTE_TYPE = 2 };

typedef struct cuda_cublaslt_api {
#define CUDA_FUNCTION(field, symbol, arguments) cublaslt_status(*field) arguments;
#include "cuda_cublaslt_functions.def"
#undef CUDA_FUNCTION
} cuda_cublaslt_api;

#endif
