/* The part of cuBLASLt that the software device has, declared by hand from its documentation.
 * Names, numbers and layouts are the vendor's. */
#ifndef STATOR_TESTS_SOFT_CUBLASLT_H
#define STATOR_TESTS_SOFT_CUBLASLT_H

#include "soft_cuda.h"

/* How far the addresses of device memory are above where it lies (soft_memory.h). */
#define SOFT_DEVICE_OFFSET (1ull << 46)

typedef enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;

enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };

enum {
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
};
enum { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

typedef struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "as in cublasLt.h");

/* Descriptors are the library's own. */
struct soft_desc;
struct soft_layout;
struct soft_preference;

SOFT_EXPORT cublasStatus_t cublasLtGetProperty(int property, int *value);
SOFT_EXPORT cublasStatus_t cublasLtCreate(void **handle);
SOFT_EXPORT cublasStatus_t cublasLtDestroy(void *handle);
SOFT_EXPORT cublasStatus_t cublasLtMatmulDescCreate(struct soft_desc **desc, int compute,
                                                    int scale);
SOFT_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(struct soft_desc *desc);
SOFT_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(struct soft_desc *desc, int attribute,
                                                          const void *value, size_t bytes);
SOFT_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(struct soft_layout **layout, int type,
                                                      uint64_t rows, uint64_t columns,
                                                      int64_t leading);
SOFT_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(struct soft_layout *layout);
SOFT_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(struct soft_layout *layout,
                                                            int attribute, const void *value,
                                                            size_t bytes);
SOFT_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(struct soft_preference **preference);
SOFT_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(struct soft_preference *preference);
SOFT_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(struct soft_preference *preference,
                                                                int attribute, const void *value,
                                                                size_t bytes);
SOFT_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    void *handle, const struct soft_desc *desc, const struct soft_layout *a,
    const struct soft_layout *b, const struct soft_layout *c, const struct soft_layout *d,
    const struct soft_preference *preference, int wanted, cublasLtMatmulHeuristicResult_t *results,
    int *found);
SOFT_EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(
    void *handle, const struct soft_desc *desc, const struct soft_layout *a,
    const struct soft_layout *b, const struct soft_layout *c, const struct soft_layout *d,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result);
SOFT_EXPORT cublasStatus_t cublasLtMatmul(void *handle, const struct soft_desc *desc,
                                          const void *alpha, const void *a,
                                          const struct soft_layout *a_layout, const void *b,
                                          const struct soft_layout *b_layout, const void *beta,
                                          const void *c, const struct soft_layout *c_layout,
                                          void *d, const struct soft_layout *d_layout,
                                          const cublasLtMatmulAlgo_t *algo, void *workspace,
                                          size_t workspace_bytes, CUstream stream);

/* Of libcuda.so.1 */
CUresult cuCtxGetCurrent(CUcontext *out);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr address);
/* Of the driver beside it (cu_stream.c). */
CUresult softLaunchHost(CUstream stream, CUhostFn function, CUhostFn release, void *argument);

#endif
