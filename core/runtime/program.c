/* Launching planned programs; see program.h. */
#include "core/runtime/program.h"

#include "core/base/check.h"
#include "core/base/interval.h"

#include <string.h>

#define WORKSPACE_ALIGN 64u

struct st_call_state {
    struct st_call_state *next;
    st_program *program;
    DLTensor *slots;
    int64_t *shapes; /* by dim_begin */
    int64_t *syms;
    DLTensor *args; /* inputs then outputs of the step that runs */
    char *workspace;
    uint8_t *from_pool;  /* per slot */
    stator_tensor **out; /* the call's outputs */
    uint8_t *is_fresh;   /* per output: made by this call */
    const st_step *step;
    stator_call call;
};

/* ---- planning ---- */

static void last_uses(st_program *p)
{
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            p->slots[p->steps[s].out[k]].last_use = s;
        }
        for (uint32_t k = 0; k < p->steps[s].n_in; k++) {
            p->slots[p->steps[s].in[k]].last_use = s;
        }
    }
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        p->slots[p->write_backs[k].slot].last_use = p->n_steps;
    }
}

/* Which slots may lie in buffers of the pool: made by a step, of a size that only a call tells. */
static int is_pooled(const st_slot *slot)
{
    return !slot->is_static && slot->output < 0;
}

/* Sorts the pooled slots by the step after which they go back. */
static int plan_releases(st_program *p)
{
    p->releases = st_calloc(p->mem, p->n_slots + UINT64_C(1), sizeof *p->releases);
    uint32_t *begin = st_calloc(p->mem, p->n_steps + UINT64_C(2), sizeof *begin);
    if (p->releases == NULL || begin == NULL) {
        st_free(p->mem, begin);
        return 0;
    }
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            const st_slot *slot = &p->slots[p->steps[s].out[k]];
            begin[slot->last_use + 1u] += is_pooled(slot);
        }
    }
    for (uint32_t s = 0; s <= p->n_steps; s++) {
        begin[s + 1u] += begin[s];
    }
    for (uint32_t s = 0; s < p->n_steps; s++) {
        p->steps[s].release = p->releases + begin[s];
        p->steps[s].n_release = begin[s + 1u] - begin[s];
    }
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            const uint32_t i = p->steps[s].out[k];
            if (is_pooled(&p->slots[i])) {
                p->releases[begin[p->slots[i].last_use]++] = i;
            }
        }
    }
    p->n_pooled = begin[p->n_steps];
    st_free(p->mem, begin);
    return 1;
}

static uint32_t collect_intervals(st_program *p, st_interval *blocks, uint32_t *owners)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            const uint32_t slot = p->steps[s].out[k];
            if (p->slots[slot].is_static && p->slots[slot].output < 0) {
                blocks[n] = (st_interval){.size_bytes = p->slots[slot].size_bytes,
                                          .first = s,
                                          .last = p->slots[slot].last_use};
                owners[n++] = slot;
            }
        }
    }
    return n;
}

int st_program_plan(st_program *p)
{
    last_uses(p);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        if (step->workspace_bytes > p->step_workspace_bytes) {
            p->step_workspace_bytes = step->workspace_bytes;
        }
        if (step->n_in + step->n_out > p->max_args) {
            p->max_args = step->n_in + step->n_out;
        }
    }
    st_interval *blocks = st_calloc(p->mem, p->n_slots + 1u, sizeof *blocks);
    uint32_t *owners = st_calloc(p->mem, p->n_slots + 1u, sizeof *owners);
    int ok = plan_releases(p) && blocks != NULL && owners != NULL;
    if (ok) {
        const uint32_t n = collect_intervals(p, blocks, owners);
        uint64_t base = 0;
        uint64_t total = 0;
        ok = st_add_u64(p->step_workspace_bytes, WORKSPACE_ALIGN - 1u, &base);
        base &= ~(uint64_t)(WORKSPACE_ALIGN - 1u);
        ok = ok && st_interval_pack(p->mem, blocks, n, WORKSPACE_ALIGN, &total) &&
             st_add_u64(base, total, &p->workspace_bytes);
        for (uint32_t i = 0; ok && i < n; i++) {
            p->slots[owners[i]].offset = base + blocks[i].offset_bytes;
            p->slots[owners[i]].has_offset = 1;
        }
    }
    st_free(p->mem, blocks);
    st_free(p->mem, owners);
    return ok;
}

/* ---- call states ---- */

static void free_state(st_mem *mem, st_call_state *state)
{
    if (state == NULL) {
        return;
    }
    st_free(mem, state->slots);
    st_free(mem, state->shapes);
    st_free(mem, state->syms);
    st_free(mem, state->args);
    st_free(mem, state->workspace);
    st_free(mem, state->from_pool);
    st_free(mem, state->is_fresh);
    st_free(mem, state);
}

static void init_slots(st_call_state *state)
{
    const st_program *p = state->program;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        const st_slot *slot = &p->slots[i];
        int64_t *shape = &state->shapes[slot->dim_begin];
        state->slots[i] = (DLTensor){.device = {.device_type = kDLCPU},
                                     .ndim = (int32_t)slot->rank,
                                     .dtype = st_dtype_to_dl(slot->dtype),
                                     .shape = shape};
        for (uint32_t axis = 0; slot->is_static && axis < slot->rank; axis++) {
            shape[axis] = p->dims[slot->dim_begin + axis].constant;
        }
        if (slot->data != NULL) {
            /* Executables only read their inputs. */
            memcpy(&state->slots[i].data, &slot->data, sizeof slot->data);
        } else if (slot->has_offset) {
            state->slots[i].data = state->workspace + slot->offset;
        }
    }
}

static st_call_state *new_state(st_program *p)
{
    st_call_state *state = st_calloc(p->mem, 1, sizeof *state);
    if (state == NULL) {
        return NULL;
    }
    state->program = p;
    state->slots = st_calloc(p->mem, p->n_slots + 1u, sizeof *state->slots);
    state->shapes = st_calloc(p->mem, p->n_dims + 1u, sizeof *state->shapes);
    state->syms = st_calloc(p->mem, p->n_syms + 1u, sizeof *state->syms);
    state->args = st_calloc(p->mem, p->max_args + 1u, sizeof *state->args);
    state->workspace = st_alloc(p->mem, p->workspace_bytes, WORKSPACE_ALIGN);
    state->from_pool = st_calloc(p->mem, p->n_slots + 1u, 1);
    state->is_fresh = st_calloc(p->mem, p->n_outputs + 1u, 1);
    if (state->slots == NULL || state->shapes == NULL || state->syms == NULL ||
        state->args == NULL || state->workspace == NULL || state->from_pool == NULL ||
        state->is_fresh == NULL) {
        free_state(p->mem, state);
        return NULL;
    }
    init_slots(state);
    return state;
}

st_call_state *st_program_acquire(st_program *p)
{
    pthread_mutex_lock(&p->lock);
    st_call_state *state = p->free_states;
    if (state != NULL) {
        p->free_states = state->next;
    }
    pthread_mutex_unlock(&p->lock);
    return state != NULL ? state : new_state(p);
}

void st_program_release(st_program *p, st_call_state *state)
{
    if (state == NULL) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    state->next = p->free_states;
    p->free_states = state;
    pthread_mutex_unlock(&p->lock);
}

int64_t *st_call_state_syms(st_call_state *state)
{
    return state->syms;
}

void st_program_deinit(st_program *p)
{
    if (p->mem == NULL) {
        return;
    }
    while (p->free_states != NULL) {
        st_call_state *state = p->free_states;
        p->free_states = state->next;
        free_state(p->mem, state);
    }
    for (uint32_t i = 0; p->dims != NULL && i < p->n_dims; i++) {
        st_symprog_deinit(&p->dims[i], p->mem);
    }
    for (uint32_t s = 0; p->steps != NULL && s < p->n_steps; s++) {
        st_free(p->mem, (void *)(uintptr_t)p->steps[s].in); /* in and out are one block */
    }
    st_free(p->mem, p->steps);
    st_free(p->mem, p->slots);
    st_free(p->mem, p->outputs);
    st_free(p->mem, p->write_backs);
    st_free(p->mem, p->dims);
    st_free(p->mem, p->unbacked_symbol);
    st_free(p->mem, p->releases);
    pthread_mutex_destroy(&p->lock);
    *p = (st_program){0};
}

/* ---- running ---- */

/* Evaluates a slot's sizes; 0 when one of them is not known yet. */
static int eval_shape(st_call_state *state, const st_slot *slot)
{
    const st_program *p = state->program;
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        int64_t size = 0;
        if (!st_symprog_eval(&p->dims[slot->dim_begin + axis], state->syms, &size) || size < 0) {
            return 0;
        }
        state->shapes[slot->dim_begin + axis] = size;
    }
    return 1;
}

static stator_status check_given(const DLTensor *given, const DLTensor *expected, const char *what,
                                 uint32_t k, stator_diag **err)
{
    if (given->ndim != expected->ndim ||
        memcmp(&given->dtype, &expected->dtype, sizeof given->dtype) != 0 ||
        memcmp(given->shape, expected->shape, (size_t)given->ndim * sizeof *given->shape) != 0 ||
        !st_tensor_is_dense(given)) {
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "the tensor given for %s %u has not the dtype, shape or dense layout of "
                       "the result",
                       what, k);
    }
    return STATOR_OK;
}

/* Storage for slot i, whose shape stands in state->shapes. */
static stator_status place_slot(st_call_state *state, uint32_t i, stator_diag **err)
{
    const st_program *p = state->program;
    const st_slot *slot = &p->slots[i];
    DLTensor *t = &state->slots[i];
    if (slot->output >= 0) {
        stator_tensor **out = &state->out[slot->output];
        if (*out == NULL) {
            ST_TRY(st_tensor_create(p->mem, p->pool, slot->dtype, slot->rank, t->shape, out, err));
            state->is_fresh[slot->output] = 1;
        } else {
            ST_TRY(check_given(&(*out)->view, t, "output", (uint32_t)slot->output, err));
        }
        t->data = stator_tensor_data(*out);
        return STATOR_OK;
    }
    if (slot->has_offset) {
        return STATOR_OK;
    }
    uint64_t count = 0;
    uint64_t bytes = 0;
    if (!st_numel(t->shape, slot->rank, &count) || !st_dtype_bytes(slot->dtype, count, &bytes)) {
        return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "an intermediate tensor is too large");
    }
    t->data = st_pool_take(p->pool, bytes);
    if (t->data == NULL) {
        return st_fail_oom(err);
    }
    state->from_pool[i] = 1;
    return STATOR_OK;
}

/* The alloc_output slot of a call. */
static stator_status alloc_output(const stator_call *call, uint32_t k, uint32_t rank,
                                  const int64_t *shape, stator_diag **err)
{
    st_call_state *state = call->host;
    if (k >= state->step->n_out) {
        return st_fail(err, STATOR_INTERNAL, "the executable has no output %u", k);
    }
    const uint32_t i = state->step->out[k];
    const st_slot *slot = &state->program->slots[i];
    if (rank != slot->rank) {
        return st_fail(err, STATOR_INTERNAL, "output %u has rank %u, its type says %u", k, rank,
                       slot->rank);
    }
    int64_t *known = &state->shapes[slot->dim_begin];
    if (state->slots[i].data != NULL) { /* placed before the step began, or asked for twice */
        if (rank != 0 && memcmp(known, shape, rank * sizeof *shape) != 0) {
            return st_fail(err, STATOR_INTERNAL, "output %u has another shape already", k);
        }
        call->out[k] = state->slots[i];
        return STATOR_OK;
    }
    if (rank != 0) {
        memcpy(known, shape, rank * sizeof *shape);
    }
    ST_TRY(place_slot(state, i, err));
    call->out[k] = state->slots[i];
    return STATOR_OK;
}

/* Binds the symbols that a produced slot defines and checks the others. */
static stator_status settle_shape(st_call_state *state, uint32_t i, stator_diag **err)
{
    const st_program *p = state->program;
    const st_slot *slot = &p->slots[i];
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        const uint32_t d = slot->dim_begin + axis;
        const int32_t symbol = p->unbacked_symbol[d];
        int64_t expected = 0;
        if (symbol >= 0) {
            state->syms[symbol] = state->shapes[d];
        } else if (st_symprog_eval(&p->dims[d], state->syms, &expected) &&
                   expected != state->shapes[d]) {
            return st_fail(err, STATOR_INTERNAL, "a result has size %lld on axis %u, expected %lld",
                           (long long)state->shapes[d], axis, (long long)expected);
        }
    }
    return STATOR_OK;
}

static stator_status run_step(st_call_state *state, const st_step *step, stator_diag **err)
{
    const st_program *p = state->program;
    DLTensor *in = state->args;
    DLTensor *out = state->args + step->n_in;
    state->step = step;
    for (uint32_t k = 0; k < step->n_in; k++) {
        in[k] = state->slots[step->in[k]];
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        const uint32_t i = step->out[k];
        const st_slot *slot = &p->slots[i];
        if (slot->is_static || eval_shape(state, slot)) {
            ST_TRY(place_slot(state, i, err));
        } else {
            state->slots[i].data = NULL;
        }
        out[k] = state->slots[i];
    }
    state->call = (stator_call){.struct_size = sizeof(stator_call),
                                .n_in = step->n_in,
                                .n_out = step->n_out,
                                .n_syms = p->n_syms,
                                .in = in,
                                .out = out,
                                .syms = state->syms,
                                .workspace = state->workspace,
                                .workspace_bytes = step->workspace_bytes,
                                .ctx = p->ctx,
                                .alloc_output = alloc_output,
                                .host = state};
    ST_TRY(step->run(step->self, step->exe, &state->call, err));
    for (uint32_t k = 0; k < step->n_out; k++) {
        const uint32_t i = step->out[k];
        if (state->slots[i].data == NULL) {
            return st_fail(err, STATOR_INTERNAL, "the executable left output %u without data", k);
        }
        if (p->slots[i].is_unbacked) {
            ST_TRY(settle_shape(state, i, err));
        }
    }
    return STATOR_OK;
}

/* Gives back those of the slots that lie in buffers of the pool. */
static void give_back(st_call_state *state, const uint32_t *slots, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = slots[k];
        if (state->from_pool[i]) {
            st_pool_give(state->program->pool, state->slots[i].data);
            state->from_pool[i] = 0;
        }
    }
}

/* Outputs that are inputs, parameters, or another output's value. */
static stator_status copy_shared_outputs(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        const uint32_t i = p->outputs[k];
        if (p->slots[i].output == (int32_t)k) {
            continue;
        }
        const DLTensor *src = &state->slots[i];
        if (state->out[k] == NULL) {
            ST_TRY(st_tensor_create(p->mem, p->pool, p->slots[i].dtype, p->slots[i].rank,
                                    src->shape, &state->out[k], err));
            state->is_fresh[k] = 1;
        } else {
            ST_TRY(check_given(&state->out[k]->view, src, "output", k, err));
        }
        st_tensor_copy_dense(src, stator_tensor_data(state->out[k]));
    }
    return STATOR_OK;
}

static int is_written(const st_program *p, uint32_t slot)
{
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        if (p->write_backs[k].input == slot) {
            return 1;
        }
    }
    return 0;
}

/* Inputs that are read by one write-back and written by another (x and y swap) are copied first,
 * into copies[k]; their slots then show the copies. */
static stator_status keep_sources(st_call_state *state, void **copies, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        DLTensor *source = &state->slots[p->write_backs[k].slot];
        uint64_t count = 0, bytes = 0;
        if (p->write_backs[k].slot >= p->n_in || !is_written(p, p->write_backs[k].slot)) {
            continue;
        }
        if (!st_numel(source->shape, (uint32_t)source->ndim, &count) ||
            !st_dtype_bytes(st_dtype_from_dl(source->dtype), count, &bytes) ||
            (copies[k] = st_alloc(p->mem, bytes, 16)) == NULL) {
            return st_fail_oom(err);
        }
        memcpy(copies[k], source->data, bytes);
        source->data = copies[k];
    }
    return STATOR_OK;
}

/* In-place updates reach the caller's buffers once everything has been read. */
static stator_status write_back(st_call_state *state, const DLTensor *in, stator_diag **err)
{
    const st_program *p = state->program;
    if (p->n_write_backs == 0) {
        return STATOR_OK;
    }
    void **copies = st_calloc(p->mem, p->n_write_backs, sizeof *copies);
    if (copies == NULL) {
        return st_fail_oom(err);
    }
    stator_status status = keep_sources(state, copies, err);
    for (uint32_t k = 0; k < p->n_write_backs && status == STATOR_OK; k++) {
        const st_slot_write *w = &p->write_backs[k];
        const DLTensor *target = &in[w->input];
        status = check_given(target, &state->slots[w->slot], "the written input", w->input, err);
        if (status == STATOR_OK) {
            st_tensor_copy_dense(&state->slots[w->slot],
                                 (char *)target->data + target->byte_offset);
        }
    }
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        st_free(p->mem, copies[k]);
    }
    st_free(p->mem, copies);
    return status;
}

stator_status st_program_run(st_program *p, st_call_state *state, const DLTensor *in,
                             stator_tensor **out, stator_diag **err)
{
    state->out = out;
    memset(state->is_fresh, 0, p->n_outputs);
    for (uint32_t i = 0; i < p->n_in; i++) {
        state->slots[i] = in[i];
        state->slots[i].data = (char *)in[i].data + in[i].byte_offset;
        state->slots[i].byte_offset = 0;
        state->slots[i].strides = NULL;
    }
    stator_status status = STATOR_OK;
    for (uint32_t s = 0; status == STATOR_OK && s < p->n_steps; s++) {
        status = run_step(state, &p->steps[s], err);
        give_back(state, p->steps[s].release, p->steps[s].n_release);
    }
    if (status == STATOR_OK) {
        status = copy_shared_outputs(state, err);
    }
    if (status == STATOR_OK) {
        status = write_back(state, in, err);
    }
    give_back(state, p->releases, p->n_pooled); /* what a failure or a write-back left */
    for (uint32_t k = 0; status != STATOR_OK && k < p->n_outputs; k++) {
        if (state->is_fresh[k]) {
            stator_tensor_release(out[k]);
            out[k] = NULL;
        }
    }
    return status;
}
