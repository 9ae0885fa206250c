/* Matrix products by cuBLASLt, as a library of contractions (codegen/target/library.h).
 *
 * A product is taken when its operands lie as matrices of which one axis is contiguous, whatever
 * the order of the axes, and when every rounding is known: products and sums of f32 (f64) and one
 * rounding to the result, with at most a bias of f32 before it. The rest stays loops.
 *
 * The library sees columns where codegen sees rows, so operands are swapped: out = x y by rows is
 * out' = y' x' by columns. Batches are one axis to it; other batch axes are calls of their own. */
#ifndef STATOR_CUDA_CUDA_GEMM_H
#define STATOR_CUDA_CUDA_GEMM_H

#include "cuda_cublaslt.h"

#include "codegen/gpu/gpu.h"
#include "codegen/gpu/gpu_native.h"

#include <pthread.h>

/* The library of one device; its handle is made by the first op. */
typedef struct cuda_gemm_library {
    st_library table; /* self is this struct */
    cuda_cublaslt_api api;
    char path[ST_GPU_PATH_BYTES];
    uint32_t version; /* 130100: 13.1.0 */
    st_gpu_context *context;
    const st_device_memory *memory; /* scratch of calls */
    st_mem *mem;
    pthread_mutex_t mutex; /* guards handle */
    cublaslt_handle handle;
} cuda_gemm_library;

/* For st_gpu_vendor.contractions. cuBLASLt is half a gigabyte, which takes 0.2 s the first time. */
extern const st_gpu_contractions cuda_cublaslt;

/* ---- cuda_gemm_layout.c: how operands lie ---- */

/* What an op keeps of its contraction. */
typedef struct gemm_operands {
    uint32_t n_batch;
    uint32_t in, out; /* dtypes of operands and result */
    uint32_t is_tf32; /* operands of f32 are rounded to tf32 */
    uint32_t x, y, d; /* buffers */
    uint32_t bias;    /* buffer; UINT32_MAX: none */
} gemm_operands;

typedef struct gemm_side {
    int64_t offset;
    int64_t batch[ST_CONTRACTION_BATCH_MAX];
    int64_t stride[2];
} gemm_side;

/* The numbers of a contraction: values, or syms while they are not known. */
typedef struct gemm_sizes {
    int64_t batch[ST_CONTRACTION_BATCH_MAX];
    int64_t m, n, k;
    gemm_side x, y, out;
} gemm_sizes;

/* A matrix by columns. */
typedef struct gemm_matrix {
    int64_t rows, columns, leading;
    int64_t batch_stride;
    uint32_t is_transposed;
    uint32_t alignment; /* of its first element, in bytes */
} gemm_matrix;

/* What the library is told of a call: what one plan is for. Compared as bytes. */
typedef struct gemm_key {
    gemm_matrix a, b, d;
    int64_t count; /* of the batch */
} gemm_key;

void gemm_read_sizes(const gemm_operands *operands, const int64_t *numbers, gemm_sizes *out);
/* The library's view of the sizes; without alignments, batches and their strides. `tab`: sizes are
 * syms, and the answer holds for all values of them; the key is not meant for use. false: the
 * operands are no such matrices. *out_swapped: a is y and b is x. */
bool gemm_describe(const gemm_operands *operands, const gemm_sizes *sizes, const st_symtab *tab,
                   gemm_key *out, bool *out_swapped);

/* ---- cuda_gemm_plan.c: descriptors and the choice of an algorithm ---- */

typedef struct gemm_plan {
    gemm_key key;
    cublaslt_desc desc;
    cublaslt_layout a, b, d;
    cublaslt_algo algo;
    uint64_t workspace_bytes;
} gemm_plan;

/* The context is current. `kept`: an algorithm that was chosen before, taken if the library still
 * agrees; NULL: none. */
stator_status gemm_plan_make(const cuda_gemm_library *library, const gemm_operands *operands,
                             const gemm_key *key, const cublaslt_algo *kept, gemm_plan *out,
                             stator_diag **err);
void gemm_plan_destroy(const cuda_gemm_library *library, gemm_plan *plan);
/* "cuda:0: cuBLASLt refuses to NAME: CUBLAS_STATUS_NOT_SUPPORTED, 15" */
stator_status gemm_fail(const cuda_gemm_library *library, const char *doing, cublaslt_status status,
                        stator_diag **err);

#endif
