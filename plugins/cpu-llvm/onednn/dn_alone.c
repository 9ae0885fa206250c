/* A call of a primitive: on all threads, or where the machine is contended on the caller's alone.
 *
 * oneDNN divides a primitive evenly and waits for the last thread. Where another program has that
 * one's processor, a call of microseconds waits for time slices; so the host is told what calls
 * take beside what they would take alone, and says when to do without a team
 * (stator_thr_api.is_contended).
 *
 * A primitive is made for a number of threads, so the plan has a counterpart on one, made at the
 * first call that wants it, from the same candidate and the same packed weights. That call does
 * both and compares: a counterpart that sums in another order, so that its bits differ, or that
 * would need its weights packed anew is never used, and the plan goes on with its team. Where a
 * comparison would show nothing there is none. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/threads/threads.h"

#include <stdatomic.h>
#include <string.h>

#define UNTRIED_PARTS 8 /* of team_ns, for each thread, that one is expected to take longer */
#define SMOOTHING 8     /* calls that alone_ns tells of, about */
#define OUTLIER_TIMES 4 /* a call counts for so many times alone_ns at most */

static uint64_t get(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

static void set(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_relaxed);
}

/* ---- one call ---- */

/* Runs the plan, the call's or its counterpart, on the plan's threads. */
static stator_status run_on(dn_call *c, dn_plan *plan, dn_slot *slot, stator_diag **err)
{
    const int threads = (int)plan->key.threads;
    const uint32_t flags = c->is_watched ? dn_flags_clear(threads) : 0;
    const stator_status status = dn_slot_run(c->op, plan, slot, c->at, err);
    c->has_nan = c->is_watched && dn_flags_found(threads, flags);
    return status;
}

static dn_slot *take_slot(dn_op *op, dn_plan *plan)
{
    (void)pthread_mutex_lock(&op->mutex);
    dn_slot *slot = plan->slots;
    if (slot) {
        plan->slots = slot->next;
    }
    (void)pthread_mutex_unlock(&op->mutex);
    return slot ? slot : dn_slot_make(op, plan);
}

static void give_slot(dn_op *op, dn_plan *plan, dn_slot *slot)
{
    (void)pthread_mutex_lock(&op->mutex);
    slot->next = plan->slots;
    plan->slots = slot;
    (void)pthread_mutex_unlock(&op->mutex);
}

static void note_alone(dn_plan *plan, uint64_t took)
{
    const uint64_t usual = get(&plan->alone_ns);
    if (usual == 0) {
        set(&plan->alone_ns, took);
    } else if (took < usual) {
        set(&plan->alone_ns, usual - (usual - took) / 2);
    } else {
        const uint64_t counts = took < OUTLIER_TIMES * usual ? took : OUTLIER_TIMES * usual;
        set(&plan->alone_ns, usual + (counts - usual) / SMOOTHING);
    }
}

/* Runs the call on the caller's thread. UNAVAILABLE: there was no memory for that, and nothing
 * was done. */
static stator_status run_alone(dn_call *c, stator_diag **err)
{
    dn_plan *alone = c->plan->alone;
    dn_slot *slot = take_slot(c->op, alone);
    if (slot == NULL) {
        return STATOR_UNAVAILABLE;
    }
    const uint64_t began = st_now_ns();
    const stator_status status = run_on(c, alone, slot, err);
    note_alone(c->plan, st_now_ns() - began);
    give_slot(c->op, alone, slot);
    return status;
}

/* ---- the counterpart ---- */

/* Would other orders of sums show in one call's output? A gradient to the weight is summed over
 * images, which oneDNN divides among threads; it does so with long sums of products, too. Rounding
 * to 16 bits hides that from all but one element in thousands. */
static bool is_order_shown(const st_contraction *contraction)
{
    const uint32_t dtype = contraction->out.dtype;
    const bool is_rounded = dtype == STATOR_BF16 || dtype == STATOR_F16;
    const bool is_product = contraction->kind == ST_CONTRACTION_GEMM;
    return !contraction->is_weight_grad && !(is_rounded && is_product);
}

/* From the plan's candidate, in its order of packed weights. NULL: there is none. */
static dn_plan *make_locked(dn_op *op, const dn_plan *plan)
{
    dn_desc desc;
    dn_plan *alone = NULL;
    dn_sizes key = plan->key;
    key.threads = 1;
    dn_sizes simple = key;
    dn_simplify(&op->contraction, &simple);
    /* Plans that are made after the cap of packed weights was reached read them as they are. */
    if (plan->is_packed != op->has_constant ||
        dn_describe(op, &simple, &plan->desc.how, &desc) == DN_NO) {
        return NULL;
    }
    if (plan->is_packed && !dnnl_memory_desc_equal(&desc.md[DN_Y2], &plan->desc.md[DN_Y2])) {
        dn_desc_deinit(&desc);
        return NULL;
    }
    return dn_plan_make(op, &key, &desc, &alone, NULL) == STATOR_OK ? alone : NULL;
}

/* NULL: there is none. */
static dn_plan *make_alone(dn_op *op, const dn_plan *plan)
{
    void *weights = NULL;
    (void)pthread_mutex_lock(&op->making);
    dn_plan *alone = make_locked(op, plan);
    (void)pthread_mutex_unlock(&op->making);
    if (alone && plan->is_packed &&
        (dnnl_memory_get_data_handle(plan->packed, &weights) != dnnl_success ||
         dn_plan_bind(op, alone, weights, NULL) != STATOR_OK)) {
        dn_plan_destroy(op, alone);
        return NULL;
    }
    return alone;
}

/* The call's output, or room for it, by the counterpart. NULL: there is none, or no memory. */
static void *output_alone(const dn_call *c, size_t bytes)
{
    void *at[DN_ROLES];
    dn_call copy = *c;
    void *out = st_alloc(c->op->lib->mem, bytes, 64);
    if (out == NULL) {
        return NULL;
    }
    memcpy(at, c->at, sizeof at);
    memcpy(out, at[DN_OUT], bytes); /* bytes between the rows of the output stay */
    at[DN_OUT] = out;
    copy.at = at;
    if (run_alone(&copy, NULL) != STATOR_OK) {
        st_free(c->op->lib->mem, out);
        return NULL;
    }
    return out;
}

/* The first call that wants the counterpart: makes it, runs both, compares. */
static stator_status try_alone(dn_call *c, dn_slot *slot, stator_diag **err)
{
    dn_plan *plan = c->plan;
    const st_contraction *contraction = &c->op->contraction;
    const uint32_t dtype = plan->key.is_bare ? STATOR_F32 : contraction->out.dtype;
    const size_t bytes = (size_t)dn_span(contraction, &plan->key, DN_OUT) * st_element_bytes(dtype);
    plan->alone = is_order_shown(contraction) ? make_alone(c->op, plan) : NULL;
    void *out = plan->alone ? output_alone(c, bytes) : NULL;
    const stator_status status = run_on(c, plan, slot, err);
    const bool is_same = out && status == STATOR_OK && memcmp(out, c->at[DN_OUT], bytes) == 0;
    atomic_store_explicit(&plan->alone_state, is_same ? DN_ALONE_SAME : DN_ALONE_REFUSED,
                          memory_order_release);
    st_free(c->op->lib->mem, out);
    return status;
}

/* ---- a call ---- */

/* The time that the call would take alone, as far as that is known. Until then a try is worth while
 * where two threads take 1.25 times their shortest call, or 16 take three times theirs. */
static uint64_t expected_alone(const dn_plan *plan, uint64_t took)
{
    const uint64_t alone = get(&plan->alone_ns);
    const uint64_t least = get(&plan->team_ns);
    if (atomic_load_explicit(&plan->alone_state, memory_order_relaxed) == DN_ALONE_REFUSED ||
        least == 0) {
        return took; /* neither better nor worse */
    }
    return alone ? alone : least + least * (uint64_t)plan->key.threads / UNTRIED_PARTS;
}

static stator_status run_team(dn_call *c, dn_slot *slot, const stator_host *host, stator_diag **err)
{
    dn_plan *plan = c->plan;
    const uint64_t began = st_now_ns();
    const stator_status status = run_on(c, plan, slot, err);
    const uint64_t took = st_now_ns() - began;
    host->thr->note_team(c->ctx, took, expected_alone(plan, took));
    if (get(&plan->team_ns) == 0 || took < get(&plan->team_ns)) {
        set(&plan->team_ns, took);
    }
    return status;
}

stator_status dn_primitive_run(dn_call *c, dn_slot *slot, stator_diag **err)
{
    const stator_host *host = c->op->lib->host;
    dn_plan *plan = c->plan;
    uint32_t state = DN_ALONE_UNTRIED;
    if (plan->key.threads <= 1 || host == NULL || !STATOR_HAS(host->thr, note_team)) {
        return run_on(c, plan, slot, err);
    }
    if (!host->thr->is_contended(c->ctx)) {
        return run_team(c, slot, host, err);
    }
    if (atomic_compare_exchange_strong_explicit(&plan->alone_state, &state, DN_ALONE_TRYING,
                                                memory_order_acquire, memory_order_acquire)) {
        return try_alone(c, slot, err);
    }
    if (state == DN_ALONE_SAME) {
        const stator_status status = run_alone(c, err);
        if (status != STATOR_UNAVAILABLE) {
            return status;
        }
    }
    return run_on(c, plan, slot, err);
}
