/* libcublasLt.so.13 of the software device: matrix products by definition.
 *
 * It does what the descriptors say and nothing else, so that a wrong stride, order or batch shows
 * as a wrong number or a refusal: a leading dimension below the rows, sizes that do not match,
 * memory beyond an allocation, addresses that are less aligned than was promised, an algorithm that
 * was chosen for other matrices, workspace that is missing. Sums are of f64 and are rounded once.
 * Work is queued on the stream as a function of the host. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "soft_cublaslt.h"

#define HANDLES_MAX 64

/* ---- descriptors ---- */

typedef struct soft_layout {
    int type;
    int32_t count;
    uint64_t rows, columns;
    int64_t leading, batch_stride;
} soft_layout;

typedef struct soft_desc {
    int compute, scale;
    int32_t transpose_a, transpose_b;
    uint32_t epilogue;
    const void *bias;
} soft_desc;

typedef struct soft_preference {
    uint64_t workspace_bytes;
    uint32_t schemes;
    uint32_t alignment[4];
} soft_preference;

cublasStatus_t cublasLtGetProperty(int property, int *value)
{
    static const int version[3] = {13, 0, 0};
    if (property < 0 || property > 2 || value == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *value = version[property];
    return CUBLAS_STATUS_SUCCESS;
}

/* Handles are places of this table and no memory of the heap: one that is left when the driver has
 * ended cannot be destroyed any more, and is no leak. */
static _Atomic bool is_handle[HANDLES_MAX];

cublasStatus_t cublasLtCreate(void **handle)
{
    CUcontext context = NULL;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    for (size_t i = 0; i < HANDLES_MAX; i++) {
        if (!atomic_exchange(&is_handle[i], true)) {
            *handle = (void *)&is_handle[i];
            return CUBLAS_STATUS_SUCCESS;
        }
    }
    return CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(void *handle)
{
    for (size_t i = 0; i < HANDLES_MAX; i++) {
        if (handle == (void *)&is_handle[i] && atomic_exchange(&is_handle[i], false)) {
            return CUBLAS_STATUS_SUCCESS;
        }
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(soft_desc **desc, int compute, int scale)
{
    *desc = calloc(1, sizeof(soft_desc));
    if (*desc == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    **desc = (soft_desc){.compute = compute, .scale = scale, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(soft_desc *desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

/* Copies a value of exactly so many bytes. */
static cublasStatus_t set(void *to, size_t wanted, const void *value, size_t bytes)
{
    if (value == NULL || bytes != wanted) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(soft_desc *desc, int attribute, const void *value,
                                              size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&desc->transpose_a, sizeof(desc->transpose_a), value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&desc->transpose_b, sizeof(desc->transpose_b), value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&desc->epilogue, sizeof(desc->epilogue), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&desc->bias, sizeof(desc->bias), value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(soft_layout **layout, int type, uint64_t rows,
                                          uint64_t columns, int64_t leading)
{
    *layout = calloc(1, sizeof(soft_layout));
    if (*layout == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    **layout = (soft_layout){
        .type = type, .count = 1, .rows = rows, .columns = columns, .leading = leading};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(soft_layout *layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(soft_layout *layout, int attribute,
                                                const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return set(&layout->count, sizeof(layout->count), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return set(&layout->batch_stride, sizeof(layout->batch_stride), value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(soft_preference **preference)
{
    *preference = calloc(1, sizeof(soft_preference));
    if (*preference == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    **preference = (soft_preference){.alignment = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(soft_preference *preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(soft_preference *preference, int attribute,
                                                    const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&preference->workspace_bytes, sizeof(uint64_t), value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(&preference->schemes, sizeof(uint32_t), value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                   sizeof(uint32_t), value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- what it does ---- */

static size_t bytes_of(int type)
{
    switch (type) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    default:
        return 0;
    }
}

/* The layouts of a product, and what follows from them. */
typedef struct product {
    soft_desc desc;
    soft_layout a, b, d;
    uint64_t k;
} product;

static bool is_layout(const soft_layout *l)
{
    return l->rows > 0 && l->columns > 0 && l->count > 0 && bytes_of(l->type) != 0 &&
           l->leading >= (int64_t)l->rows;
}

static bool are_types_known(const product *p)
{
    const bool is_f64 = p->a.type == CUDA_R_64F;
    const bool is_narrow = bytes_of(p->a.type) == 2;
    const bool is_tf32 = p->a.type == CUDA_R_32F && p->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    return p->a.type == p->b.type &&
           (is_tf32 || p->desc.compute == (is_f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F)) &&
           p->desc.scale == (is_f64 ? CUDA_R_64F : CUDA_R_32F) &&
           (p->d.type == p->a.type || (is_narrow && p->d.type == CUDA_R_32F));
}

static cublasStatus_t describe(const soft_desc *desc, const soft_layout *a, const soft_layout *b,
                               const soft_layout *c, const soft_layout *d, product *out)
{
    *out = (product){.desc = *desc, .a = *a, .b = *b, .d = *d};
    const uint64_t rows = desc->transpose_a ? a->columns : a->rows;
    const uint64_t columns = desc->transpose_b ? b->rows : b->columns;
    const uint64_t inner = desc->transpose_b ? b->columns : b->rows;
    out->k = desc->transpose_a ? a->rows : a->columns;
    out->desc.bias = NULL; /* none of the product's shape */
    const bool is_product =
        is_layout(a) && is_layout(b) && is_layout(d) && rows == d->rows && columns == d->columns &&
        inner == out->k && a->count == d->count && b->count == d->count &&
        memcmp(c, d, sizeof(*c)) == 0 &&
        (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc->epilogue == CUBLASLT_EPILOGUE_BIAS);
    return !is_product            ? CUBLAS_STATUS_INVALID_VALUE
           : are_types_known(out) ? CUBLAS_STATUS_SUCCESS
                                  : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* An algorithm remembers what it was chosen for: a sum over the product's bytes, and alignments. */
static uint64_t sum_of(const product *p)
{
    const int64_t numbers[] = {p->desc.compute,       p->desc.transpose_a, p->desc.transpose_b,
                               p->desc.epilogue,      p->a.type,           (int64_t)p->a.rows,
                               (int64_t)p->a.columns, p->a.leading,        p->a.count,
                               p->a.batch_stride,     (int64_t)p->b.rows,  (int64_t)p->b.columns,
                               p->b.leading,          p->b.batch_stride,   p->d.type,
                               p->d.leading,          p->d.batch_stride};
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        sum = (sum ^ (uint64_t)numbers[i]) * 1099511628211u;
    }
    return sum;
}

/* Long sums want room for parts. */
static size_t workspace_of(const product *p)
{
    return p->k >= 64 ? 512 : 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(void *handle, const soft_desc *desc,
                                              const soft_layout *a, const soft_layout *b,
                                              const soft_layout *c, const soft_layout *d,
                                              const soft_preference *preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    product p;
    *found = 0;
    if (handle == NULL || wanted < 1) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const cublasStatus_t status = describe(desc, a, b, c, d, &p);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    results[0] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = workspace_of(&p)};
    results[0].algo.data[0] = sum_of(&p);
    for (int i = 0; i < 4; i++) {
        results[0].algo.data[1 + i] = preference->alignment[i];
    }
    if (results[0].workspaceSize > preference->workspace_bytes) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(void *handle, const soft_desc *desc, const soft_layout *a,
                                       const soft_layout *b, const soft_layout *c,
                                       const soft_layout *d, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    product p;
    const cublasStatus_t status =
        handle != NULL ? describe(desc, a, b, c, d, &p) : CUBLAS_STATUS_INVALID_VALUE;
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    *result = (cublasLtMatmulHeuristicResult_t){.algo = *algo, .workspaceSize = workspace_of(&p)};
    return algo->data[0] == sum_of(&p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- the product itself ---- */

typedef struct work {
    product of;
    double alpha;
    const unsigned char *a, *b, *bias; /* where they lie for the host */
    unsigned char *d, *workspace;
} work;

static double read_number(const unsigned char *at, int type)
{
    double wide = 0;
    float number = 0;
    _Float16 half = 0;
    uint16_t bits = 0;
    switch (type) {
    case CUDA_R_64F:
        memcpy(&wide, at, 8);
        return wide;
    case CUDA_R_16F:
        memcpy(&half, at, 2);
        return (double)half;
    case CUDA_R_16BF:
        memcpy(&bits, at, 2);
        memcpy((unsigned char *)&number + 2, &bits, 2);
        return (double)number;
    default:
        memcpy(&number, at, 4);
        return (double)number;
    }
}

static void write_number(unsigned char *at, int type, double value)
{
    const float number = (float)value;
    const _Float16 half = (_Float16)number;
    uint32_t bits = 0;
    switch (type) {
    case CUDA_R_64F:
        memcpy(at, &value, 8);
        break;
    case CUDA_R_16F:
        memcpy(at, &half, 2);
        break;
    case CUDA_R_16BF:
        memcpy(&bits, &number, 4);
        bits = number == number ? bits + 0x7fffu + (bits >> 16 & 1u) : 0x7fc00000u;
        memcpy(at, (unsigned char *)&bits + 2, 2);
        break;
    default:
        memcpy(at, &number, 4);
    }
}

static double element(const unsigned char *base, const soft_layout *l, bool is_transposed,
                      uint64_t batch, uint64_t row, uint64_t column)
{
    const uint64_t r = is_transposed ? column : row;
    const uint64_t c = is_transposed ? row : column;
    const int64_t at = (int64_t)batch * l->batch_stride + (int64_t)c * l->leading + (int64_t)r;
    return read_number(base + at * (int64_t)bytes_of(l->type), l->type);
}

/* To 10 bits of fraction, ties away from 0, which is as near to nearest. */
static double to_tf32(double value)
{
    const float number = (float)value;
    float rounded = 0;
    uint32_t bits = 0;
    memcpy(&bits, &number, 4);
    bits = (bits & 0x7fffffffu) >= 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
    memcpy(&rounded, &bits, 4);
    return (double)rounded;
}

static double sum(const work *w, uint64_t batch, uint64_t row, uint64_t column)
{
    const product *p = &w->of;
    double total = 0;
    for (uint64_t k = 0; k < p->k; k++) {
        const double a = element(w->a, &p->a, p->desc.transpose_a != 0, batch, row, k);
        const double b = element(w->b, &p->b, p->desc.transpose_b != 0, batch, k, column);
        const bool is_tf32 = p->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
        total += is_tf32 ? to_tf32(a) * to_tf32(b) : a * b;
    }
    return p->a.type == CUDA_R_64F ? total * w->alpha : (double)((float)total * (float)w->alpha);
}

static void multiply(void *argument)
{
    const work *w = argument;
    const product *p = &w->of;
    if (w->workspace != NULL) { /* what it held is gone */
        memset(w->workspace, 0xff, workspace_of(p));
    }
    for (uint64_t batch = 0; batch < (uint64_t)p->d.count; batch++) {
        for (uint64_t column = 0; column < p->d.columns; column++) {
            for (uint64_t row = 0; row < p->d.rows; row++) {
                const int64_t at = (int64_t)batch * p->d.batch_stride +
                                   (int64_t)column * p->d.leading + (int64_t)row;
                double value = sum(w, batch, row, column);
                if (w->bias != NULL) {
                    value += read_number(w->bias + row * bytes_of(p->d.type), p->d.type);
                }
                write_number(w->d + at * (int64_t)bytes_of(p->d.type), p->d.type, value);
            }
        }
    }
}

/* ---- a call ---- */

/* Where `bytes` of device memory lie for the host; NULL: they do not all lie in one allocation. */
static unsigned char *host_of(const void *address, uint64_t bytes)
{
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    CUdeviceptr start = 0;
    size_t size = 0;
    if (cuMemGetAddressRange_v2(&start, &size, at) != CUDA_SUCCESS || at - start > size ||
        bytes > size - (at - start)) {
        return NULL;
    }
    return (unsigned char *)(uintptr_t)(at - SOFT_DEVICE_OFFSET);
}

static uint64_t span_of(const soft_layout *l)
{
    const int64_t last = (l->count - 1) * l->batch_stride + ((int64_t)l->columns - 1) * l->leading +
                         (int64_t)l->rows;
    return (uint64_t)last * bytes_of(l->type);
}

static bool is_aligned(const void *address, uint64_t alignment)
{
    return alignment != 0 && (uintptr_t)address % alignment == 0;
}

/* The numbers that a scale is given as; beta must be 0, since nothing else is asked for. */
static bool read_scales(const product *p, const void *alpha, const void *beta, work *out)
{
    out->alpha = read_number(alpha, p->desc.scale);
    return read_number(beta, p->desc.scale) == 0;
}

static bool find_memory(const product *p, const void *const at[4], const void *bias,
                        size_t workspace_bytes, work *out)
{
    out->a = host_of(at[0], span_of(&p->a));
    out->b = host_of(at[1], span_of(&p->b));
    out->d = host_of(at[2], span_of(&p->d));
    const size_t workspace = workspace_of(p);
    out->workspace = workspace != 0 ? host_of(at[3], workspace) : NULL;
    const bool has_bias = p->desc.epilogue == CUBLASLT_EPILOGUE_BIAS;
    out->bias = has_bias ? host_of(bias, p->d.rows * bytes_of(p->d.type)) : NULL;
    return out->a != NULL && out->b != NULL && out->d != NULL && workspace_bytes >= workspace &&
           (workspace == 0 || out->workspace != NULL) && (!has_bias || out->bias != NULL);
}

cublasStatus_t cublasLtMatmul(void *handle, const soft_desc *desc, const void *alpha, const void *a,
                              const soft_layout *a_layout, const void *b,
                              const soft_layout *b_layout, const void *beta, const void *c,
                              const soft_layout *c_layout, void *d, const soft_layout *d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, CUstream stream)
{
    work w = {.alpha = 0};
    const void *const at[4] = {a, b, d, workspace};
    const cublasStatus_t status =
        handle != NULL ? describe(desc, a_layout, b_layout, c_layout, d_layout, &w.of)
                       : CUBLAS_STATUS_NOT_INITIALIZED;
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (algo->data[0] != sum_of(&w.of) || !is_aligned(a, algo->data[1]) ||
        !is_aligned(b, algo->data[2]) || !is_aligned(c, algo->data[3]) ||
        !is_aligned(d, algo->data[4]) || !read_scales(&w.of, alpha, beta, &w) ||
        !find_memory(&w.of, at, desc->bias, workspace_bytes, &w)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    work *queued = malloc(sizeof(w));
    if (queued == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *queued = w;
    if (softLaunchHost(stream, multiply, free, queued) != CUDA_SUCCESS) {
        free(queued);
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    return CUBLAS_STATUS_SUCCESS;
}
