/* Plans of products: the library's descriptors, and the algorithm that its heuristic puts first.
 *
 * Parts of a sum may be added in workspace, but in the type of the sum, so that the result is
 * rounded once. An algorithm that was kept is checked by the library before it is taken. */
#include "cuda_gemm.h"

#include "core/base/diag.h"

#include <string.h>

/* What NVIDIA recommends for compute 9.0; smaller devices need less. */
#define WORKSPACE_BYTES_MAX (32u << 20)

/* Bytes behind a result, to see that the library's struct is not larger than ours. */
#define GUARD_BYTES 64u
#define GUARD_VALUE 0xa5

/* The next call of a chain, which the first failure ends. */
#define LT_THEN(status, expr) ((status) = (status) == CUBLASLT_STATUS_SUCCESS ? (expr) : (status))

stator_status gemm_fail(const cuda_gemm_library *library, const char *doing, cublaslt_status status,
                        stator_diag **err)
{
    static const char *const names[] = {
        [1] = "NOT_INITIALIZED", [3] = "ALLOC_FAILED",   [7] = "INVALID_VALUE",
        [8] = "ARCH_MISMATCH",   [11] = "MAPPING_ERROR", [13] = "EXECUTION_FAILED",
        [14] = "INTERNAL_ERROR", [15] = "NOT_SUPPORTED", [16] = "LICENSE_ERROR"};
    const bool is_named =
        status >= 0 && (size_t)status < sizeof names / sizeof names[0] && names[status] != NULL;
    (void)st_fail(
        err, status == CUBLASLT_STATUS_ALLOC_FAILED ? STATOR_RESOURCE_EXHAUSTED : STATOR_INTERNAL,
        "%s:%d: cuBLASLt (%s) fails at %s: CUBLAS_STATUS_%s, %d", library->context->driver->name,
        (int)library->context->table.device.id, library->path, doing,
        is_named ? names[status] : "of no known name", (int)status);
    if (err != NULL) {
        st_diag_set_hint(*err, "the option contractions=loops does without cuBLASLt");
    }
    return status == CUBLASLT_STATUS_ALLOC_FAILED ? STATOR_RESOURCE_EXHAUSTED : STATOR_INTERNAL;
}

static int32_t type_of(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F64:
        return CUBLASLT_TYPE_F64;
    case STATOR_F16:
        return CUBLASLT_TYPE_F16;
    case STATOR_BF16:
        return CUBLASLT_TYPE_BF16;
    default:
        return CUBLASLT_TYPE_F32;
    }
}

/* ---- descriptors ---- */

static cublaslt_status make_layout(const cuda_cublaslt_api *api, const gemm_matrix *of,
                                   uint32_t dtype, int64_t count, cublaslt_layout *out)
{
    const int32_t n = (int32_t)count;
    cublaslt_status status = api->layout_create(out, type_of(dtype), (uint64_t)of->rows,
                                                (uint64_t)of->columns, of->leading);
    LT_THEN(status, api->layout_set(*out, CUBLASLT_LAYOUT_BATCH_COUNT, &n, sizeof n));
    LT_THEN(status, api->layout_set(*out, CUBLASLT_LAYOUT_BATCH_STRIDE, &of->batch_stride,
                                    sizeof of->batch_stride));
    return status;
}

static cublaslt_status make_desc(const cuda_cublaslt_api *api, const gemm_operands *operands,
                                 const gemm_key *key, cublaslt_desc *out)
{
    const bool is_f64 = operands->in == STATOR_F64;
    const int32_t a = key->a.is_transposed ? CUBLASLT_TRANSPOSED : CUBLASLT_PLAIN;
    const int32_t b = key->b.is_transposed ? CUBLASLT_TRANSPOSED : CUBLASLT_PLAIN;
    const uint32_t epilogue =
        operands->bias == UINT32_MAX ? CUBLASLT_EPILOGUE_NONE : CUBLASLT_EPILOGUE_BIAS;
    const int32_t compute = is_f64              ? CUBLASLT_COMPUTE_F64
                            : operands->is_tf32 ? CUBLASLT_COMPUTE_TF32
                                                : CUBLASLT_COMPUTE_F32;
    cublaslt_status status =
        api->desc_create(out, compute, is_f64 ? CUBLASLT_TYPE_F64 : CUBLASLT_TYPE_F32);
    LT_THEN(status, api->desc_set(*out, CUBLASLT_DESC_TRANSPOSE_A, &a, sizeof a));
    LT_THEN(status, api->desc_set(*out, CUBLASLT_DESC_TRANSPOSE_B, &b, sizeof b));
    LT_THEN(status, api->desc_set(*out, CUBLASLT_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (epilogue == CUBLASLT_EPILOGUE_BIAS) { /* each call sets its own; the heuristic wants one */
        const void *aligned = (const void *)(uintptr_t)key->d.alignment;
        LT_THEN(status, api->desc_set(*out, CUBLASLT_DESC_BIAS_POINTER, &aligned, sizeof aligned));
    }
    return status;
}

static cublaslt_status describe(const cuda_gemm_library *library, const gemm_operands *operands,
                                gemm_plan *plan)
{
    const cuda_cublaslt_api *api = &library->api;
    const gemm_key *key = &plan->key;
    cublaslt_status status = make_desc(api, operands, key, &plan->desc);
    LT_THEN(status, make_layout(api, &key->a, operands->in, key->count, &plan->a));
    LT_THEN(status, make_layout(api, &key->b, operands->in, key->count, &plan->b));
    LT_THEN(status, make_layout(api, &key->d, operands->out, key->count, &plan->d));
    return status;
}

/* ---- the algorithm ---- */

static cublaslt_status make_preference(const cuda_cublaslt_api *api, const gemm_key *key,
                                       cublaslt_preference *out)
{
    const uint64_t workspace = WORKSPACE_BYTES_MAX;
    const uint32_t schemes = CUBLASLT_REDUCTION_COMPUTE_TYPE;
    const uint32_t alignments[4] = {key->a.alignment, key->b.alignment, key->d.alignment,
                                    key->d.alignment};
    cublaslt_status status = api->preference_create(out);
    LT_THEN(status, api->preference_set(*out, CUBLASLT_PREFERENCE_WORKSPACE_BYTES, &workspace,
                                        sizeof workspace));
    LT_THEN(status, api->preference_set(*out, CUBLASLT_PREFERENCE_REDUCTION_SCHEMES, &schemes,
                                        sizeof schemes));
    for (int32_t i = 0; i < 4; i++) {
        LT_THEN(status, api->preference_set(*out, CUBLASLT_PREFERENCE_ALIGNMENT_A + i,
                                            &alignments[i], sizeof alignments[i]));
    }
    return status;
}

/* An answer of the library, and what lies behind it. */
typedef struct guarded_result {
    cublaslt_result result;
    uint8_t guard[GUARD_BYTES];
} guarded_result;

static bool is_guard_whole(const guarded_result *r)
{
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        if (r->guard[i] != GUARD_VALUE) {
            return false;
        }
    }
    return true;
}

static cublaslt_status ask(const cuda_gemm_library *library, gemm_plan *plan, guarded_result *out)
{
    const cuda_cublaslt_api *api = &library->api;
    cublaslt_preference preference = NULL;
    int found = 0;
    cublaslt_status status = make_preference(api, &plan->key, &preference);
    LT_THEN(status, api->heuristic(library->handle, plan->desc, plan->a, plan->b, plan->d, plan->d,
                                   preference, 1, &out->result, &found));
    LT_THEN(status, found < 1 ? CUBLASLT_STATUS_NOT_SUPPORTED : out->result.state);
    if (preference != NULL) {
        (void)api->preference_destroy(preference);
    }
    return status;
}

static bool is_kept_good(const cuda_gemm_library *library, gemm_plan *plan,
                         const cublaslt_algo *kept, guarded_result *out)
{
    return library->api.check(library->handle, plan->desc, plan->a, plan->b, plan->d, plan->d, kept,
                              &out->result) == CUBLASLT_STATUS_SUCCESS &&
           out->result.workspace_bytes <= WORKSPACE_BYTES_MAX;
}

static stator_status choose(const cuda_gemm_library *library, const cublaslt_algo *kept,
                            gemm_plan *plan, stator_diag **err)
{
    guarded_result answer;
    memset(&answer, 0, sizeof answer.result);
    memset(answer.guard, GUARD_VALUE, sizeof answer.guard);
    const bool is_kept = kept != NULL && is_kept_good(library, plan, kept, &answer);
    const cublaslt_status status = is_kept ? CUBLASLT_STATUS_SUCCESS : ask(library, plan, &answer);
    if (status != CUBLASLT_STATUS_SUCCESS) {
        return gemm_fail(library, "the choice of an algorithm", status, err);
    }
    ST_FAIL_IF(!is_guard_whole(&answer), err, STATOR_INTERNAL,
               "the answers of cuBLASLt (%s, version %u) have more than %zu bytes: it is newer "
               "than this plugin; use that of CUDA 12 or 13, or contractions=loops",
               library->path, library->version, sizeof answer.result);
    plan->algo = is_kept ? *kept : answer.result.algo;
    plan->workspace_bytes = answer.result.workspace_bytes;
    return STATOR_OK;
}

stator_status gemm_plan_make(const cuda_gemm_library *library, const gemm_operands *operands,
                             const gemm_key *key, const cublaslt_algo *kept, gemm_plan *out,
                             stator_diag **err)
{
    *out = (gemm_plan){.key = *key};
    const cublaslt_status described = describe(library, operands, out);
    const stator_status status =
        described == CUBLASLT_STATUS_SUCCESS
            ? choose(library, kept, out, err)
            : gemm_fail(library, "the description of a product", described, err);
    if (status != STATOR_OK) {
        gemm_plan_destroy(library, out);
    }
    return status;
}

void gemm_plan_destroy(const cuda_gemm_library *library, gemm_plan *plan)
{
    const cuda_cublaslt_api *api = &library->api;
    cublaslt_layout const layouts[3] = {plan->a, plan->b, plan->d};
    for (uint32_t i = 0; i < 3; i++) {
        if (layouts[i] != NULL) {
            (void)api->layout_destroy(layouts[i]);
        }
    }
    if (plan->desc != NULL) {
        (void)api->desc_destroy(plan->desc);
    }
    memset(plan, 0, sizeof *plan);
}
