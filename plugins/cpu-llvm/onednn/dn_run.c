/* A call: the plan for its numbers, made when they are new; a slot; the run.
 *
 * A steady call takes the op's lock twice for a few loads and allocates nothing. Making a plan
 * holds another lock, so calls with known numbers go on meanwhile. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/convert.h"
#include "core/base/diag.h"
#include "core/base/threads/threads.h"

#include <string.h>

/* Products that one thread has done about when two would have met: 2 us. */
#define ALONE_MACS 100000

/* ---- plans ---- */

/* Under op->mutex. */
static dn_plan *find(dn_op *op, const dn_sizes *key)
{
    for (uint32_t i = 0; i < op->n_plans; i++) {
        if (memcmp(&op->plans[i]->key, key, sizeof *key) == 0) {
            op->plans[i]->stamp = ++op->clock;
            return op->plans[i];
        }
    }
    return NULL;
}

/* Under op->mutex: puts the plan into the list. *out_dropped: the one that made room, to be
 * destroyed. 0: every plan is in use. */
static bool insert(dn_op *op, dn_plan *plan, dn_plan **out_dropped)
{
    uint32_t oldest = UINT32_MAX;
    *out_dropped = NULL;
    if (op->n_plans < DN_PLANS_MAX) {
        op->plans[op->n_plans++] = plan;
        return true;
    }
    for (uint32_t i = 0; i < op->n_plans; i++) {
        const bool is_older =
            oldest == UINT32_MAX || op->plans[i]->stamp < op->plans[oldest]->stamp;
        oldest = op->plans[i]->refs == 0 && is_older ? i : oldest;
    }
    if (oldest == UINT32_MAX) {
        return false;
    }
    *out_dropped = op->plans[oldest];
    op->plans[oldest] = plan;
    return true;
}

static dn_plan *find_locked(dn_op *op, const dn_sizes *key, dn_slot **out_slot)
{
    (void)pthread_mutex_lock(&op->mutex);
    dn_plan *plan = find(op, key);
    if (plan) {
        plan->refs++;
        *out_slot = plan->slots;
        if (plan->slots) {
            plan->slots = plan->slots->next;
        }
    }
    (void)pthread_mutex_unlock(&op->mutex);
    return plan;
}

void dn_key_of(const dn_sizes *sizes, dn_sizes *out)
{
    memcpy(out, sizes, sizeof *out); /* padding too: keys are compared byte by byte */
    out->x.offset = out->y.offset = out->out.offset = 0;
}

static stator_status make(dn_op *op, const dn_sizes *sizes, const void *y, bool is_tuned,
                          dn_plan **out, dn_slot **out_slot, stator_diag **err)
{
    dn_plan *dropped = NULL;
    dn_plan *plan = NULL;
    stator_status status = STATOR_OK;
    dn_sizes key;
    dn_key_of(sizes, &key);
    (void)pthread_mutex_lock(&op->making);
    *out = find_locked(op, &key, out_slot); /* another thread may have been here */
    if (*out == NULL) {
        status = dn_choose(op, sizes, y, is_tuned, &plan, err);
    }
    if (plan) {
        (void)pthread_mutex_lock(&op->mutex);
        plan->refs = 1;
        plan->stamp = ++op->clock;
        plan->is_loose = !insert(op, plan, &dropped);
        (void)pthread_mutex_unlock(&op->mutex);
        *out = plan;
    }
    (void)pthread_mutex_unlock(&op->making);
    dn_plan_destroy(op, dropped);
    return status;
}

static void give_back(dn_op *op, dn_plan *plan, dn_slot *slot)
{
    (void)pthread_mutex_lock(&op->mutex);
    if (slot) {
        slot->next = plan->slots;
        plan->slots = slot;
    }
    op->last = plan->desc.name;
    plan->refs--;
    const bool is_unwanted = plan->is_loose && plan->refs == 0;
    (void)pthread_mutex_unlock(&op->mutex);
    if (is_unwanted) {
        dn_plan_destroy(op, plan);
    }
}

stator_status dn_prepare(dn_op *op, const dn_sizes *sizes, const void *y, bool is_tuned,
                         stator_diag **err)
{
    dn_plan *plan = NULL;
    dn_slot *slot = NULL;
    ST_TRY(make(op, sizes, y, is_tuned, &plan, &slot, err));
    give_back(op, plan, slot);
    return STATOR_OK;
}

/* ---- a call ---- */

static void *element(void *base, int64_t offset, uint32_t dtype)
{
    return (char *)base + offset * (int64_t)st_element_bytes(dtype);
}

/* The dtype of what is in memory behind a role. */
static uint32_t stored(const dn_op *op, uint32_t role, uint32_t dtype)
{
    return dn_half_has(op, role) ? dn_half_dtype(op) : dtype;
}

static void find_buffers(const dn_op *op, const dn_sizes *s, const st_library_call *call,
                         void *at[DN_ROLES])
{
    const st_contraction *contraction = &op->contraction;
    memset(at, 0, DN_ROLES * sizeof at[0]);
    at[DN_X] = element(call->buffers[contraction->x.buffer], s->x.offset,
                       stored(op, DN_X, contraction->x.dtype));
    if (contraction->weights.is_scaled) {
        at[DN_Y] = call->buffers[contraction->y.buffer]; /* elements may be less than a byte */
    } else if (call->buffers[contraction->y.buffer]) {   /* NULL: they are packed */
        at[DN_Y] = element(call->buffers[contraction->y.buffer], s->y.offset,
                           stored(op, DN_Y, contraction->y.dtype));
    }
    at[DN_OUT] = element(call->buffers[contraction->out.buffer], s->out.offset,
                         stored(op, DN_OUT, contraction->out.dtype));
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        if (e->kind == ST_EPILOGUE_BIAS && e->buffer == DN_FILLED) {
            at[DN_POST + i] = op->filled;
        } else if (st_epilogue_has_buffer(e->kind)) {
            at[DN_POST + i] =
                element(call->buffers[e->buffer], e->kind == ST_EPILOGUE_ADD ? s->out.offset : 0,
                        stored(op, DN_POST + i, e->dtype));
        } else if (dn_is_number_read(op, i)) {
            at[DN_POST + i] = (void *)(uintptr_t)&op->numbers[i];
        }
    }
}

static void find_blocks(const st_contraction_weights *weights, const st_library_call *call,
                        void *at[DN_ROLES])
{
    const st_contraction_blocks *const blocks[2] = {&weights->scale, &weights->zero};
    const uint32_t roles[2] = {DN_SCALE, DN_ZERO + 1};
    for (uint32_t k = 0; weights->is_scaled && k < 2; k++) {
        if (blocks[k]->buffer != UINT32_MAX) {
            at[roles[k]] = call->buffers[blocks[k]->buffer];
        }
    }
}

/* The weights as they are, which an op from the cache has not read yet. */
static stator_status find_weights(dn_op *op, const dn_sizes *s, void *at[DN_ROLES],
                                  stator_diag **err)
{
    const void *y = at[DN_Y];
    if (y == NULL) {
        ST_TRY(dn_y_data(op, s, s->y.offset, &y, err));
    }
    at[DN_Y] = (void *)(uintptr_t)y;
    return STATOR_OK;
}

static int32_t zero_of(const st_contraction_zero *zero, const st_library_call *call)
{
    return zero->has_buffer ? (int32_t)st_load_i64(zero->dtype, call->buffers[zero->buffer], 0)
                            : zero->value;
}

static stator_status run_plan(dn_op *op, const dn_sizes *s, void *const given[DN_ROLES],
                              stator_ctx *ctx, bool *out_nan, stator_diag **err)
{
    void *at[DN_ROLES];
    dn_slot *slot = NULL;
    dn_sizes key;
    stator_status status = STATOR_OK;
    dn_key_of(s, &key);
    memcpy(at, given, sizeof at);
    dn_plan *plan = find_locked(op, &key, &slot);
    if (plan == NULL) {
        ST_TRY(make(op, s, at[DN_Y], false, &plan, &slot, err));
    }
    if (!plan->is_packed && plan->kind != DN_PLAN_EMPTY && !op->contraction.weights.is_scaled) {
        status = find_weights(op, s, at, err);
    }
    if (status != STATOR_OK) {
        give_back(op, plan, slot);
        return status;
    }
    if (plan->kind == DN_PLAN_PLAIN) {
        dn_plain(op, s, NULL, at, ctx);
    } else if (plan->kind == DN_PLAN_SKINNY) {
        dn_skinny_run(op, plan, s, at, ctx);
    } else if (plan->kind == DN_PLAN_QUANT) {
        status = dn_quant_run(op, plan, s, at, ctx, err);
    } else if (plan->kind == DN_PLAN_TILES) {
        status = dn_tiles_run(op, plan, s, at, ctx, err);
    } else if (plan->kind == DN_PLAN_PLANES) {
        status = dn_planes_run(op, s, at, ctx, err);
    } else if (plan->kind == DN_PLAN_GRADIENT) {
        status = dn_gradient_run(op, plan, s, at, ctx, err);
    } else if (plan->kind == DN_PLAN_PRODUCT) {
        status = dn_product_run(op, s, at, ctx, err);
    } else if (plan->kind == DN_PLAN_PRIMITIVE) {
        dn_call call = {.op = op,
                        .plan = plan,
                        .at = at,
                        .ctx = ctx,
                        .is_watched = op->has_bound && !s->is_bare};
        slot = slot ? slot : dn_slot_make(op, plan);
        status = slot ? dn_primitive_run(&call, slot, err) : st_fail_oom(err);
        *out_nan = call.has_nan;
    }
    give_back(op, plan, slot);
    return status;
}

/* NaN came to a relu or a clip: the sums alone, and the epilogue by plain loops. */
static stator_status run_bare(dn_op *op, const dn_sizes *s, void *const at[DN_ROLES],
                              stator_ctx *ctx, stator_diag **err)
{
    void *bare[DN_ROLES];
    dn_sizes sizes = *s;
    bool unused = false;
    float *t = at[DN_OUT];
    memcpy(bare, at, sizeof bare);
    sizes.is_bare = 1;
    if (op->contraction.out.dtype != STATOR_F32) {
        t = st_alloc(op->lib->mem, (uint64_t)dn_span(&op->contraction, s, DN_OUT) * sizeof *t, 64);
        ST_TRY_MEM(t, err);
    }
    bare[DN_OUT] = t;
    const stator_status status = run_plan(op, &sizes, bare, ctx, &unused, err);
    if (status == STATOR_OK) {
        dn_plain(op, s, t, at, ctx);
    }
    if (t != at[DN_OUT]) {
        st_free(op->lib->mem, t);
    }
    return status;
}

bool dn_reads_unaligned(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2;
}

int32_t dn_threads(const dn_lib *lib, const st_contraction *contraction, const dn_sizes *sizes,
                   stator_ctx *ctx)
{
    int64_t elements = 0;
    int64_t macs = 0;
    dn_work(contraction, sizes, &elements, &macs);
    if (macs <= ALONE_MACS || contraction->is_alone) {
        return 1;
    }
    return dn_team_size(lib->host ? lib->host->thr->thread_count(ctx) : st_cpu_count());
}

stator_status dn_run_at(dn_op *op, const dn_sizes *s, void *const at[DN_ROLES], stator_ctx *ctx,
                        stator_diag **err)
{
    bool has_nan = false;
    ST_TRY(run_plan(op, s, at, ctx, &has_nan, err));
    return has_nan ? run_bare(op, s, at, ctx, err) : STATOR_OK;
}

/* ---- steady calls: no lock, no look for a plan ---- */

void dn_note_steady(dn_op *op, const dn_sizes *sizes)
{
    const dn_plan *plan = op->n_plans == 1 ? op->plans[0] : NULL;
    if (plan && op->is_static && op->half == NULL && sizes->threads == 1 &&
        plan->kind == DN_PLAN_SKINNY && plan->is_packed) {
        op->steady = plan;
        dn_skinny_note(op, plan, sizes);
        op->last = plan->desc.name;
    }
}

stator_status dn_run_part(void *self, void *op_, const st_library_call *call, uint32_t part,
                          uint32_t parts, stator_diag **err)
{
    dn_op *op = op_;
    void *at[DN_ROLES];
    if (op->steady == NULL) {
        return part == 0 ? dn_run(self, op, call, err) : STATOR_OK;
    }
    find_buffers(op, &op->sizes, call, at);
    dn_skinny_part(op, at, part, parts);
    return STATOR_OK;
}

stator_status dn_run(void *self, void *op_, const st_library_call *call, stator_diag **err)
{
    const dn_lib *lib = self;
    dn_op *op = op_;
    dn_sizes sizes;
    void *at[DN_ROLES];
    stator_ctx *ctx = call->call ? call->call->ctx : lib->host ? lib->host->ctx : NULL;
    if (op->contraction.kind == ST_CONTRACTION_SDPA) {
        return dn_attention_run(op, call, ctx, err);
    }
    if (op->contraction.kind == ST_CONTRACTION_SDPA_GRADIENT) {
        return dn_attention_gradient_run(op, call, ctx, err);
    }
    if (op->steady) {
        find_buffers(op, &op->sizes, call, at);
        dn_skinny_part(op, at, 0, 1);
        return STATOR_OK;
    }
    dn_sizes_of(&op->contraction, call->numbers, &sizes);
    ST_FAIL_IF(!dn_is_fill_whole(op, &sizes), err, STATOR_DATA_LOSS,
               "inductor-cpu: a kept contraction is damaged");
    sizes.threads = dn_threads(lib, &op->contraction, &sizes, ctx);
    find_buffers(op, &sizes, call, at);
    int32_t zeros[2] = {zero_of(&op->contraction.x_zero, call),
                        zero_of(&op->contraction.y_zero, call)};
    const st_contraction_zero *const zero_points[2] = {&op->contraction.x_zero,
                                                       &op->contraction.y_zero};
    for (uint32_t k = 0; k < 2; k++) {
        at[DN_ZERO + k] =
            zero_points[k]->is_each ? call->buffers[zero_points[k]->buffer] : &zeros[k];
    }
    find_blocks(&op->contraction.weights, call, at);
    return op->half ? dn_half_run(op, &sizes, at, ctx, err) : dn_run_at(op, &sizes, at, ctx, err);
}
