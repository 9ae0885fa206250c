/* The library of contractions over oneDNN: what it takes, its slots, opening and closing. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

#define MACS_MIN 8192 /* below, a call costs more than the loops */

/* ---- takes ---- */

/* Sums of integers: as they are, or made f32 before the first row of the epilogue. */
static bool are_bytes_taken(const dn_lib *lib, const st_contraction *contraction)
{
    const uint32_t out = contraction->out.dtype;
    return (contraction->y.dtype == STATOR_I8 || contraction->y.dtype == STATOR_U8) &&
           contraction->acc_dtype == STATOR_I32 &&
           (out == STATOR_F32 || out == STATOR_U8 || out == STATOR_I8 ||
            (out == STATOR_I32 && contraction->n_epilogue == 0)) &&
           ((dn_are_onednn_bytes_exact() && !contraction->is_transposed) ||
            dn_tiles_isa_of(lib, contraction->x.dtype) != NULL);
}

static bool are_dtypes_taken(const dn_lib *lib, const st_contraction *contraction)
{
    const uint32_t x = contraction->x.dtype;
    const uint32_t out = contraction->out.dtype;
    if (contraction->weights.is_scaled) {
        return dn_quant_takes(contraction);
    }
    if (x == STATOR_U8 || x == STATOR_I8) {
        return are_bytes_taken(lib, contraction);
    }
    if (contraction->y.dtype != x || contraction->acc_dtype != STATOR_F32) {
        return false;
    }
    return (x == STATOR_F32 && out == STATOR_F32) ||
           (x == STATOR_BF16 && (out == STATOR_BF16 || out == STATOR_F32));
}

/* Buffers that the epilogue adds. A bias of integers meets the sums as f32: exact while both are
 * below 2^24, else it may round a second time. */
static bool is_added_taken(const st_contraction *contraction, const st_epilogue *e)
{
    const bool is_sum = e == contraction->epilogue && e->kind == ST_EPILOGUE_BIAS &&
                        contraction->acc_dtype == STATOR_I32 &&
                        contraction->out.dtype != STATOR_I32;
    return !st_epilogue_has_buffer(e->kind) || e->dtype == STATOR_F32 ||
           (e->dtype == STATOR_I32 && is_sum) ||
           (e->dtype == STATOR_BF16 && contraction->x.dtype == STATOR_BF16);
}

/* Rounding in the middle: by kernels of our own, which nothing may take the place of. */
static bool is_narrowing_taken(const dn_lib *lib, const st_contraction *contraction,
                               const st_epilogue *e)
{
    return e->kind != ST_EPILOGUE_NARROW ||
           (contraction->x.dtype == STATOR_BF16 && contraction->out.dtype == STATOR_BF16 &&
            !lib->memory_cap && !dn_has_amx(lib));
}

/* Measured against f64: tanh 1.2 ulp, gelu_tanh as a composite of such functions; logistic 3.2 ulp
 * and 0 below -87, silu 4.2, gelu_erf 4 units of t * 2^-24 where the composite has 1.7. */
static bool is_exact(uint32_t kind)
{
    return kind != ST_EPILOGUE_GELU_ERF && kind != ST_EPILOGUE_SIGMOID && kind != ST_EPILOGUE_SILU;
}

/* Zero points for each row are those of a product's rows. */
static bool are_zeros_taken(const st_contraction *contraction)
{
    return !contraction->x_zero.is_each ||
           (contraction->kind == ST_CONTRACTION_GEMM && contraction->n_batch == 0);
}

/* oneDNN has no post-ops behind a gradient to the weight. */
static bool is_gradient_taken(const st_contraction *contraction)
{
    return !contraction->is_transposed && contraction->acc_dtype == STATOR_F32 &&
           contraction->n_epilogue == 0;
}

bool dn_is_kind_taken(const dn_lib *lib, const st_contraction *contraction)
{
    if (!are_dtypes_taken(lib, contraction) || !are_zeros_taken(contraction) ||
        contraction->n_epilogue > ST_CONTRACTION_EPILOGUE_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        const bool is_known = e->kind >= ST_EPILOGUE_BIAS && e->kind <= ST_EPILOGUE_NARROW;
        const bool is_narrowed =
            (double)(float)e->value != e->value || (double)(float)e->value2 != e->value2;
        const bool is_crossed = e->kind == ST_EPILOGUE_CLIP && e->value > e->value2;
        if (!is_known || !is_added_taken(contraction, e) ||
            !is_narrowing_taken(lib, contraction, e) || is_narrowed || is_crossed ||
            (!is_exact(e->kind) && !(lib->flags & DNNL_FUSED))) {
            return false;
        }
    }
    if (contraction->kind == ST_CONTRACTION_CONV) {
        return contraction->n_spatial >= 1 &&
               contraction->n_spatial <= ST_CONTRACTION_SPATIAL_MAX && contraction->groups >= 1 &&
               (!contraction->is_weight_grad || is_gradient_taken(contraction));
    }
    return contraction->kind == ST_CONTRACTION_GEMM && !contraction->is_weight_grad &&
           contraction->n_batch <= ST_CONTRACTION_BATCH_MAX;
}

void dn_op_note(dn_op *op)
{
    const st_contraction *contraction = &op->contraction;
    const bool is_float =
        st_element_bytes(contraction->out.dtype) > 1u; /* a NaN as a byte is any byte */
    op->has_bound = is_float && (dn_epilogue_kinds(contraction) & (DN_KIND(RELU) | DN_KIND(CLIP)));
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        op->numbers[i] = (float)contraction->epilogue[i].value;
    }
}

/* An op as far as dn_describe looks at it. */
static void op_init(dn_op *op, dn_lib *lib, const st_contraction *contraction)
{
    memset(op, 0, sizeof *op);
    op->lib = lib;
    op->contraction = *contraction;
    op->has_constant = (uint32_t)dn_is_constant(contraction);
    dn_op_note(op);
}

static int32_t takes(void *self, const st_contraction *given)
{
    dn_lib *lib = self;
    st_contraction wide = *given;
    const st_contraction *contraction = &wide;
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    int64_t elements = 0;
    int64_t macs = 0;
    dn_sizes sizes;
    dn_op op;
    uint32_t narrow = 0;
    (void)dn_widen(&wide, &narrow);
    (void)dn_fill_bias(&wide);
    if (st_contraction_is_sdpa(contraction->kind)) {
        return dn_takes_attention(contraction);
    }
    if (!dn_is_kind_taken(lib, contraction)) {
        return 0;
    }
    const uint32_t is_static = dn_sample(contraction, numbers);
    dn_sizes_of(contraction, numbers, &sizes);
    dn_work(contraction, &sizes, &elements, &macs);
    if (macs <= 0 || (is_static && macs < MACS_MIN)) {
        return 0;
    }
    sizes.threads = dn_threads(lib, contraction, &sizes, lib->host ? lib->host->ctx : NULL);
    op_init(&op, lib, contraction);
    dn_simplify(contraction, &sizes);
    return dn_best_class(&op, &sizes) != DN_NO;
}

/* ---- create and destroy ---- */

void dn_op_destroy(void *self, void *op_)
{
    dn_lib *lib = self;
    dn_op *op = op_;
    if (op == NULL) {
        return;
    }
    for (uint32_t i = 0; i < op->n_plans; i++) {
        dn_plan_destroy(op, op->plans[i]);
    }
    dn_packs_release(op);
    dn_half_destroy(op);
    st_free(lib->mem, op->filled);
    stator_blob *const blobs[3] = {op->y_blob, op->block_blobs[0], op->block_blobs[1]};
    for (uint32_t i = 0; i < 3; i++) {
        if (blobs[i]) {
            lib->host->cst->release(blobs[i]);
        }
    }
    (void)pthread_mutex_destroy(&op->mutex);
    (void)pthread_mutex_destroy(&op->making);
    st_free(lib->mem, op);
}

stator_status dn_op_fill(dn_op *op, int64_t n, stator_diag **err)
{
    if (n == 0) {
        return STATOR_OK;
    }
    op->filled = st_alloc(op->lib->mem, (uint64_t)n * sizeof *op->filled, 64);
    ST_TRY_MEM(op->filled, err);
    op->n_filled = n;
    for (int64_t i = 0; i < n; i++) {
        op->filled[i] = (float)op->contraction.epilogue[0].value;
    }
    return STATOR_OK;
}

/* The constant weights, in f32 where they are narrow; NULL: they come with the call. */
static stator_status first_weight(dn_op *op, const dn_sizes *sizes, const void **out,
                                  stator_diag **err)
{
    const bool is_half = dn_half_has(op, DN_Y);
    const int64_t size = is_half ? 2 : (int64_t)st_element_bytes(op->contraction.y.dtype);
    if (!op->has_constant) {
        *out = NULL;
        return STATOR_OK;
    }
    const int64_t offset = op->contraction.weights.is_scaled ? 0 : sizes->y.offset;
    *out = (const char *)op->contraction.y_data + offset * size;
    return is_half ? dn_half_widen(op, sizes, *out, out, err) : STATOR_OK;
}

/* `roles`, `narrow`: of dn_widen. */
static stator_status prepare(dn_op *op, const st_contraction *contraction, uint32_t roles,
                             uint32_t narrow, stator_diag **err)
{
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX] = {0};
    dn_sizes sizes;
    if (st_contraction_is_sdpa(contraction->kind)) {
        op->attention_bytes = contraction->kind == ST_CONTRACTION_SDPA
                                  ? dn_attention_scratch(contraction)
                                  : dn_attention_gradient_scratch(contraction);
        return STATOR_OK; /* such an op has no plans */
    }
    op->is_static = dn_sample(contraction, numbers);
    dn_sizes_of(contraction, numbers, &sizes);
    if (roles) {
        ST_TRY(dn_half_make(op, roles, narrow, err));
    }
    if (!op->is_static && !op->has_constant) {
        return STATOR_OK; /* all is made at the first call */
    }
    sizes.threads =
        dn_threads(op->lib, contraction, &sizes, op->lib->host ? op->lib->host->ctx : NULL);
    const void *y = NULL;
    ST_TRY(first_weight(op, &sizes, &y, err));
    ST_TRY(dn_prepare(op, &sizes, y, (op->lib->flags & DNNL_TUNE) != 0, err));
    dn_note_steady(op, &sizes);
    dn_note_hinted(op, &sizes);
    return STATOR_OK;
}

static stator_status create(void *self, const st_contraction *given, void **out_op,
                            stator_diag **err)
{
    dn_lib *lib = self;
    st_contraction wide = *given;
    const st_contraction *contraction = &wide;
    uint32_t narrow = 0;
    const uint32_t roles = dn_widen(&wide, &narrow);
    const int64_t n_filled = dn_fill_bias(&wide);
    dn_op *op = st_alloc(lib->mem, sizeof *op, 16);
    *out_op = NULL;
    ST_TRY_MEM(op, err);
    op_init(op, lib, contraction);
    dn_to_bytes_of(contraction, &op->to_bytes);
    (void)pthread_mutex_init(&op->mutex, NULL);
    (void)pthread_mutex_init(&op->making, NULL);
    stator_status status = dn_op_fill(op, n_filled, err);
    ST_THEN(status, prepare(op, contraction, roles, narrow, err));
    dn_contraction_forget(&op->contraction);
    if (status != STATOR_OK) {
        dn_op_destroy(lib, op);
        return status;
    }
    *out_op = op;
    return STATOR_OK;
}

/* Every constant y of a call that is packed is read through its packed form alone. */
static uint32_t packed_buffer(const dn_op *op)
{
    const st_contraction *contraction = &op->contraction;
    return op->has_constant && op->n_packs && contraction->x.buffer != contraction->y.buffer
               ? contraction->y.buffer
               : UINT32_MAX;
}

/* Bytes that each call of known sizes puts into another order before the primitive. */
static void note_moved(const dn_op *op, st_library_memory *out)
{
    static const uint32_t roles[2][2] = {{DN_X, DN_X2}, {DN_Y, DN_Y2}};
    const dn_plan *plan = op->is_static && op->n_plans == 1 ? op->plans[0] : NULL;
    for (uint32_t k = 0; plan && plan->kind == DN_PLAN_PRIMITIVE && k < 2; k++) {
        const dnnl_memory_desc_t *to = &plan->desc.md[roles[k][1]];
        const bool is_bound = roles[k][0] == DN_Y && plan->is_packed;
        if (!is_bound && !dnnl_memory_desc_equal(&plan->desc.md[roles[k][0]], to)) {
            out->moved_bytes[k] = dnnl_memory_desc_get_size(to);
        }
    }
}

static void memory(void *self, void *op_, st_library_memory *out)
{
    dn_op *op = op_;
    const stator_host *host = ((const dn_lib *)self)->host;
    const int32_t threads = host ? host->thr->thread_count(host->ctx) : 1;
    *out = (st_library_memory){.unread = UINT32_MAX};
    (void)pthread_mutex_lock(&op->making);
    for (uint32_t i = 0; i < op->n_packs; i++) {
        const dn_pack *pack = &op->packs[i];
        out->packed_bytes += pack->bytes;
        out->winograd_bytes += pack->is_winograd ? pack->bytes : 0;
    }
    out->unread = packed_buffer(op);
    (void)pthread_mutex_lock(&op->mutex);
    note_moved(op, out);
    out->scratch_bytes = dn_half_bytes(op) + op->attention_bytes * (uint64_t)threads;
    for (uint32_t i = 0; i < op->n_plans; i++) {
        const uint64_t bytes = op->plans[i]->scratch_bytes;
        out->scratch_bytes = bytes > out->scratch_bytes ? bytes : out->scratch_bytes;
    }
    (void)pthread_mutex_unlock(&op->mutex);
    (void)pthread_mutex_unlock(&op->making);
}

/* ---- the library ---- */

static void close_library(const st_library *library)
{
    if (library == NULL) {
        return;
    }
    dn_lib *lib = library->self;
    st_mem *mem = lib->mem;
    dn_scratch_deinit(lib);
    if (lib->engine) {
        (void)dnnl_engine_destroy(lib->engine);
    }
    (void)pthread_mutex_destroy(&lib->mutex);
    st_free(mem, lib);
}

void dn_identity(char *out, uint64_t size)
{
    const dnnl_version_t *v = dnnl_version();
    (void)snprintf(out, size, "onednn-%d.%d.%d-%.12s-%x", v->major, v->minor, v->patch,
                   v->hash ? v->hash : "", (unsigned)dnnl_get_effective_cpu_isa());
}

static stator_status refuse(char *msg, uint64_t msg_size, stator_status status, const char *why)
{
    (void)snprintf(msg, msg_size, "%s", why);
    return status;
}

static stator_status open_library(const stator_host *host, st_mem *mem, uint32_t flags,
                                  const st_library **out, char *msg, uint64_t msg_size)
{
    const dnnl_version_t *version = dnnl_version();
    *out = NULL;
    if (version->major != DNNL_VERSION_MAJOR ||
        version->cpu_runtime != (unsigned)DNNL_CPU_THREADING_RUNTIME) {
        return refuse(msg, msg_size, STATOR_UNAVAILABLE,
                      "libdnnl is of another version than the one that Stator was built with");
    }
    dn_lib *lib = st_calloc(mem, 1, sizeof *lib);
    if (lib == NULL) {
        return refuse(msg, msg_size, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    (void)pthread_mutex_init(&lib->mutex, NULL);
    lib->host = host;
    lib->mem = mem;
    lib->flags = flags;
    lib->library = (st_library){.struct_size = sizeof lib->library,
                                .self = lib,
                                .takes = takes,
                                .create = create,
                                .run = dn_run,
                                .destroy = dn_op_destroy,
                                .memory = memory,
                                .run_part = dn_run_part,
                                .op_save = host ? dn_op_save : NULL,
                                .op_load = host ? dn_op_load : NULL};
    if (dnnl_engine_create(&lib->engine, dnnl_cpu, 0) != dnnl_success) {
        close_library(&lib->library);
        return refuse(msg, msg_size, STATOR_UNAVAILABLE, "oneDNN has no engine for this processor");
    }
    *out = &lib->library;
    return STATOR_OK;
}

static const char *describe(const void *op_)
{
    const dn_op *op = op_;
    const uint32_t kind = op->contraction.kind;
    return kind == ST_CONTRACTION_SDPA            ? "attention"
           : kind == ST_CONTRACTION_SDPA_GRADIENT ? "gradient of attention"
           : op->last                             ? op->last
                                                  : "";
}

static void set_memory_cap(const st_library *library, uint64_t bytes)
{
    dn_lib *lib = library->self;
    lib->memory_cap = bytes;
}

__attribute__((visibility("default"))) const dnnl_api *stator_cpu_dnnl_query_v1(void);

const dnnl_api *stator_cpu_dnnl_query_v1(void)
{
    static const dnnl_api api = {.struct_size = sizeof api,
                                 .identity = dn_identity,
                                 .open = open_library,
                                 .close = close_library,
                                 .describe = describe,
                                 .set_memory_cap = set_memory_cap};
    return &api;
}
