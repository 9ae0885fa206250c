/* Ops in the compile cache: the contraction, the sizes that its plan is for, and which candidate
 * was chosen.
 *
 * Structs are kept as they lie in memory: what reads them is of the same build. An op that was
 * loaded has its constant weights as a blob and looks at them only when they must be packed
 * anew. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/diag.h"

#include <string.h>

#define NO_BUFFER UINT32_MAX

/* The struct without what is of its process alone. */
static st_contraction bare_contraction(const st_contraction *contraction)
{
    st_contraction out = *contraction;
    dn_contraction_forget(&out);
    return out;
}

stator_status dn_op_save(void *self, void *op_, st_str *out, stator_diag **err)
{
    const dn_op *op = op_;
    const st_contraction contraction = bare_contraction(&op->contraction);
    (void)self;
    ST_FAIL_IF(op->n_plans > 1u, err, STATOR_UNSUPPORTED,
               "inductor-cpu: a contraction was called already");
    st_put_block(out, &contraction, sizeof contraction);
    st_put_u32(out, dn_half_roles(op));
    st_put_u32(out, dn_half_dtype(op) == STATOR_BF16);
    st_put_u64(out, op->attention_bytes);
    st_put_u32(out, (uint32_t)op->n_filled);
    st_put_u32(out, op->has_constant);
    st_put_u32(out, op->n_plans);
    if (op->n_plans) {
        const dn_plan *plan = op->plans[0];
        st_put_u32(out, plan->kind);
        dn_sizes sizes;
        memcpy(&sizes, &plan->key, sizeof sizes);
        sizes.y.offset = plan->y_offset; /* where the weights begin in their constant */
        st_put_block(out, &sizes, sizeof sizes);
        st_put_block(out, &plan->desc.how, sizeof plan->desc.how);
    }
    return STATOR_OK;
}

/* ---- loading ---- */

static stator_status damaged(stator_diag **err)
{
    return st_fail(err, STATOR_DATA_LOSS, "inductor-cpu: a kept contraction is damaged");
}

static bool read_struct(st_reader *r, void *out, uint64_t size)
{
    uint64_t n = 0;
    const void *bytes = st_read_block(r, &n);
    if (r->failed || n != size) {
        r->failed = 1;
        return false;
    }
    memcpy(out, bytes, (size_t)size);
    return true;
}

static bool is_place(const st_contraction_operand *operand, uint32_t n)
{
    return operand->buffer < n && st_element_bytes(operand->dtype) != 0;
}

static bool are_operands_sound(const st_contraction *contraction, uint32_t n)
{
    return is_place(&contraction->x, n) && is_place(&contraction->y, n) &&
           is_place(&contraction->out, n);
}

static bool is_zero_sound(const st_contraction_zero *zero, uint32_t n)
{
    return (zero->has_buffer == 0 && zero->is_each == 0) ||
           (zero->has_buffer == 1 && zero->is_each <= 1 && zero->buffer < n &&
            st_element_bytes(zero->dtype) != 0);
}

static bool are_blocks_sound(const st_contraction_blocks *of, uint32_t n)
{
    return of->buffer == UINT32_MAX ||
           (of->buffer < n && st_dtype_bits(of->dtype) != 0 && of->offset >= 0 &&
            of->stride[0] >= 0 && of->stride[1] >= 0 && of->block[0] > 0 && of->block[1] > 0);
}

/* Scales of weights, and that what is kept and what is not agrees. */
static bool are_weights_sound(const st_contraction_weights *w, uint32_t n)
{
    return w->is_scaled == 0 ||
           (w->is_scaled == 1 && are_blocks_sound(&w->scale, n) && are_blocks_sound(&w->zero, n));
}

/* A result that nobody reads has no place. */
static bool is_place_or_none(const st_contraction_operand *operand, uint32_t n)
{
    return operand->buffer == UINT32_MAX || is_place(operand, n);
}

static bool is_attention_sound(const st_contraction *contraction, const st_library_kept *kept)
{
    uint32_t syms[ST_CONTRACTION_NUMBERS_MAX];
    const uint32_t n = kept->n_buffers;
    const st_contraction_sdpa *s = &contraction->sdpa;
    const bool are_results_sound =
        contraction->kind == ST_CONTRACTION_SDPA
            ? is_place(&contraction->out, n)
            : is_place(&s->dy, n) && is_place_or_none(&contraction->out, n) &&
                  is_place_or_none(&s->dk, n) && is_place_or_none(&s->dv, n);
    return s->has_mask <= 1 && contraction->n_epilogue == 0 &&
           st_contraction_numbers(contraction, syms) == kept->n_numbers && are_results_sound &&
           is_place(&contraction->x, n) && is_place(&contraction->y, n) && is_place(&s->v, n) &&
           (!s->has_mask || is_place(&s->mask, n)) && dn_takes_attention(contraction);
}

static bool is_contraction_sound(const dn_lib *lib, const st_contraction *contraction,
                                 const st_library_kept *kept)
{
    uint32_t syms[ST_CONTRACTION_NUMBERS_MAX];
    if (st_contraction_is_sdpa(contraction->kind)) {
        return is_attention_sound(contraction, kept);
    }
    if ((contraction->kind != ST_CONTRACTION_GEMM && contraction->kind != ST_CONTRACTION_CONV) ||
        contraction->n_batch > ST_CONTRACTION_BATCH_MAX ||
        contraction->n_spatial > ST_CONTRACTION_SPATIAL_MAX ||
        contraction->n_epilogue > ST_CONTRACTION_EPILOGUE_MAX ||
        (contraction->kind == ST_CONTRACTION_CONV && contraction->groups < 1) ||
        contraction->is_weight_grad > 1 ||
        st_contraction_numbers(contraction, syms) != kept->n_numbers ||
        !are_operands_sound(contraction, kept->n_buffers) ||
        !is_zero_sound(&contraction->x_zero, kept->n_buffers) ||
        !is_zero_sound(&contraction->y_zero, kept->n_buffers) ||
        !are_weights_sound(&contraction->weights, kept->n_buffers)) {
        return false;
    }
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const uint32_t kind = contraction->epilogue[i].kind;
        const uint32_t buffer = contraction->epilogue[i].buffer;
        const bool is_filled = i == 0 && kind == ST_EPILOGUE_BIAS && buffer == DN_FILLED;
        if (st_epilogue_has_buffer(kind) && !is_filled && buffer >= kept->n_buffers) {
            return false;
        }
    }
    return dn_is_kind_taken(lib, contraction);
}

/* Are the roles with buffers of f16 or bf16 ones that the contraction calls f32? */
static bool are_roles_sound(const st_contraction *contraction, uint32_t roles)
{
    const uint32_t dtypes[3] = {contraction->x.dtype, contraction->y.dtype, contraction->out.dtype};
    for (uint32_t role = 0; role < DN_ZERO; role++) {
        const uint32_t i = role - DN_POST;
        if (!(roles >> role & 1u)) {
            continue;
        }
        if (role <= DN_OUT ? dtypes[role] != STATOR_F32
                           : role < DN_POST || i >= contraction->n_epilogue ||
                                 !st_epilogue_has_buffer(contraction->epilogue[i].kind) ||
                                 contraction->epilogue[i].dtype != STATOR_F32) {
            return false;
        }
    }
    return true;
}

/* Where nothing else of the op lies in y's buffer, calls do not read it. */
static uint32_t unread_buffer(const dn_op *op)
{
    const st_contraction *contraction = &op->contraction;
    bool is_shared = contraction->x.buffer == contraction->y.buffer ||
                     contraction->out.buffer == contraction->y.buffer;
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const uint32_t kind = contraction->epilogue[i].kind;
        is_shared |= st_epilogue_has_buffer(kind) &&
                     contraction->epilogue[i].buffer == contraction->y.buffer;
    }
    return op->has_constant && !is_shared ? contraction->y.buffer : NO_BUFFER;
}

static bool is_candidate(const dn_candidate *how)
{
    return how->move_x < 2 && how->move_y < 2 && how->move_out < 2 && how->channels_last < 2 &&
           how->is_winograd < 2 && how->is_sum < 2 && how->is_tiles < 2 && how->is_planes < 2 &&
           how->is_quant < 2 && how->is_gradient < 2 && how->is_product < 2;
}

/* Sizes of the hints come from the file; what a call of them reads is checked by its describe. */
static bool are_sizes_sound(const dn_sizes *s)
{
    return s->threads >= 1 && s->threads <= (1 << 16) && s->n_batch >= 0 &&
           s->n_batch <= ST_CONTRACTION_BATCH_MAX && s->m >= 0 && s->n >= 0 && s->k >= 0 &&
           s->images >= 0 && s->channels >= 0 && s->features >= 0;
}

static stator_status load_plan(dn_op *op, st_reader *r, const st_library_kept *kept,
                               stator_diag **err)
{
    const uint32_t kind = st_read_below(r, DN_PLAN_PRODUCT + 1u);
    dn_candidate how;
    dn_sizes sizes;
    if (!read_struct(r, &sizes, sizeof sizes) || !read_struct(r, &how, sizeof how) ||
        !is_candidate(&how) || !are_sizes_sound(&sizes)) {
        return damaged(err);
    }
    if (kept->is_static) {
        dn_sizes_of(&op->contraction, kept->numbers, &sizes);
        sizes.threads = dn_threads(op->lib, &op->contraction, &sizes, op->lib->host->ctx);
    }
    if (!dn_is_fill_whole(op, &sizes) ||
        (op->has_constant && dn_quant_check(op, &sizes) != STATOR_OK)) {
        return damaged(err);
    }
    ST_TRY(dn_adopt(op, &sizes, kind, &how, err));
    dn_note_steady(op, &sizes);
    dn_note_hinted(op, &sizes);
    return STATOR_OK;
}

/* The numbers of a bias that are equal, where the contraction says so. */
static stator_status load_filled(dn_op *op, st_reader *r, stator_diag **err)
{
    const uint32_t n = st_read_below(r, DN_FILLED_MAX + 1u);
    const bool is_filled = op->contraction.n_epilogue &&
                           op->contraction.epilogue[0].kind == ST_EPILOGUE_BIAS &&
                           op->contraction.epilogue[0].buffer == DN_FILLED;
    return (n != 0) == is_filled ? dn_op_fill(op, n, err) : damaged(err);
}

static stator_status load_constant(const dn_op *op, const st_library_kept *kept, uint32_t buffer,
                                   stator_blob **out, stator_diag **err)
{
    *out = kept->constant(kept->self, buffer);
    ST_FAIL_IF(*out == NULL, err, STATOR_DATA_LOSS, "inductor-cpu: kept weights are no constant");
    op->lib->host->cst->retain(*out);
    return STATOR_OK;
}

/* The constant weights, their scales and zero points. */
static stator_status load_constants(dn_op *op, const st_library_kept *kept, stator_diag **err)
{
    const st_contraction_weights *w = &op->contraction.weights;
    const uint32_t buffers[2] = {w->scale.buffer, w->zero.buffer};
    ST_TRY(load_constant(op, kept, op->contraction.y.buffer, &op->y_blob, err));
    for (uint32_t k = 0; w->is_scaled && k < 2; k++) {
        if (buffers[k] != UINT32_MAX) {
            ST_TRY(load_constant(op, kept, buffers[k], &op->block_blobs[k], err));
        }
    }
    return STATOR_OK;
}

static stator_status load(dn_op *op, const st_library_kept *kept, stator_diag **err)
{
    st_reader r = st_reader_of(kept->bytes, kept->size_bytes);
    if (!read_struct(&r, &op->contraction, sizeof op->contraction) ||
        !is_contraction_sound(op->lib, &op->contraction, kept)) {
        return damaged(err);
    }
    op->contraction = bare_contraction(&op->contraction);
    const uint32_t roles = st_read_below(&r, 1u << DN_ZERO);
    const uint32_t narrow = st_read_below(&r, 2) ? STATOR_BF16 : STATOR_F16;
    if (!are_roles_sound(&op->contraction, roles)) {
        return damaged(err);
    }
    op->attention_bytes = st_read_u64(&r);
    ST_TRY(load_filled(op, &r, err));
    const uint32_t limit =
        st_contraction_is_sdpa(op->contraction.kind) ? 1 : 2; /* attention has neither */
    op->has_constant = st_read_below(&r, limit);
    if (roles) {
        ST_TRY(dn_half_make(op, roles, narrow, err));
    }
    dn_op_note(op);
    dn_to_bytes_of(&op->contraction, &op->to_bytes);
    op->is_static = kept->is_static;
    if (op->has_constant) {
        ST_TRY(load_constants(op, kept, err));
    }
    if (st_read_below(&r, limit)) { /* the number of plans */
        ST_TRY(load_plan(op, &r, kept, err));
    }
    return r.failed || r.left ? damaged(err) : STATOR_OK;
}

stator_status dn_op_load(void *self, const st_library_kept *kept, void **out_op,
                         uint32_t *out_unread, stator_diag **err)
{
    dn_lib *lib = self;
    *out_op = NULL;
    *out_unread = NO_BUFFER;
    dn_op *op = st_calloc(lib->mem, 1, sizeof *op);
    ST_TRY_MEM(op, err);
    op->lib = lib;
    (void)pthread_mutex_init(&op->mutex, NULL);
    (void)pthread_mutex_init(&op->making, NULL);
    const stator_status status = load(op, kept, err);
    if (status != STATOR_OK) {
        dn_op_destroy(lib, op);
        return status;
    }
    *out_op = op;
    *out_unread = unread_buffer(op);
    return STATOR_OK;
}

/* ---- weights that were not read yet ---- */

stator_status dn_y_data(dn_op *op, const dn_sizes *sizes, int64_t offset, const void **out,
                        stator_diag **err)
{
    const stator_host *host = op->lib->host;
    stator_blob_info info = {.struct_size = sizeof info};
    const bool is_half = dn_half_has(op, DN_Y);
    const int64_t size = is_half ? 2 : (int64_t)st_element_bytes(op->contraction.y.dtype);
    *out = NULL;
    ST_FAIL_IF(op->y_blob == NULL, err, STATOR_INTERNAL,
               "inductor-cpu: a contraction has no weights");
    /* A reorder reads at any address from AVX on. */
    const stator_status status = STATOR_HAS(host->cst, peek) && dn_reads_unaligned()
                                     ? host->cst->peek(op->y_blob, &info, NULL)
                                     : host->cst->get(op->y_blob, &info, NULL);
    ST_FAIL_IF(status != STATOR_OK, err, status,
               "inductor-cpu: the weights of a contraction cannot be read");
    const int64_t elements = (int64_t)(info.size_bytes / (uint64_t)size);
    if (offset < 0 || offset > elements ||
        dn_span(&op->contraction, sizes, DN_Y) > elements - offset) {
        return st_fail(err, STATOR_DATA_LOSS, "inductor-cpu: kept weights are too short");
    }
    *out = (const char *)info.data + offset * size;
    return is_half ? dn_half_widen(op, sizes, *out, out, err) : STATOR_OK;
}
