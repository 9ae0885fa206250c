/* Planning a program, and the states that calls run in; see program.h.
 *
 * Memory between partitions is planned here: slots of fixed size that live from the step that
 * makes them to the last that reads them are packed into one workspace (core/base/interval.c),
 * behind the part that the executables use in turn. Slots whose sizes are known only at call
 * time are listed by the step after which their buffers go back to the pool. */
#include "core/base/check.h"
#include "core/base/interval.h"
#include "core/runtime/program_state.h"

#include <string.h>

#define WORKSPACE_ALIGN 64u

/* ---- planning ---- */

static void last_uses(st_program *p)
{
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            p->slots[p->steps[s].out[k]].last_use = s;
        }
        for (uint32_t k = 0; k < p->steps[s].n_in; k++) {
            if (p->steps[s].in[k] != ST_NO_SLOT) {
                p->slots[p->steps[s].in[k]].last_use = s;
            }
        }
    }
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        p->slots[p->write_backs[k].slot].last_use = p->n_steps;
    }
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        p->slots[p->outputs[k]].last_use = p->n_steps;
    }
    const uint32_t first_copy = p->n_domains != 0 ? p->n_own_slots : p->n_slots;
    for (uint32_t i = first_copy; i < p->n_slots; i++) { /* a copy may be the value itself */
        st_slot *source = &p->slots[p->slots[i].source];
        source->last_use =
            p->slots[i].last_use > source->last_use ? p->slots[i].last_use : source->last_use;
    }
}

/* Finds the largest workspace, argument count and control-flow scratch of any step. */
static void measure_steps(st_program *p)
{
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        const uint64_t control = step->control != NULL ? st_control_bytes(step) : 0;
        if (step->workspace_bytes > p->step_workspace_bytes) {
            p->step_workspace_bytes = step->workspace_bytes;
        }
        if (step->n_in + step->n_out > p->max_args) {
            p->max_args = step->n_in + step->n_out;
        }
        if (control > p->control_bytes) {
            p->control_bytes = control;
        }
    }
}

/* May the result of a step lie in a buffer of a pool? Its size is known only at call time; it
 * lies in an input if it can; or there are devices: it lies on one, it is an output that is
 * wanted elsewhere, or control flow made it. */
static bool is_pooled(const st_program *p, const st_step *step, const st_slot *slot)
{
    if (p->n_domains != 0 && (slot->domain != 0 || slot->output >= 0 || step->control != NULL)) {
        return true;
    }
    return (!slot->is_static || slot->in_place != 0) && slot->output < 0;
}

/* Sorts the pooled slots by the step after which they go back. */
static bool plan_releases(st_program *p)
{
    p->releases = st_calloc(p->mem, p->n_slots + UINT64_C(1), sizeof *p->releases);
    uint32_t *begin = st_calloc(p->mem, p->n_steps + UINT64_C(2), sizeof *begin);
    if (p->releases == NULL || begin == NULL) {
        st_free(p->mem, begin);
        return false;
    }
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            const st_slot *slot = &p->slots[p->steps[s].out[k]];
            begin[slot->last_use + 1u] += is_pooled(p, &p->steps[s], slot);
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
            if (is_pooled(p, &p->steps[s], &p->slots[i])) {
                p->releases[begin[p->slots[i].last_use]++] = i;
            }
        }
    }
    p->n_pooled = begin[p->n_steps];
    st_free(p->mem, begin);
    return true;
}

static uint32_t collect_intervals(st_program *p, st_interval *blocks, uint32_t *owners)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        for (uint32_t k = 0; k < p->steps[s].n_out; k++) {
            const uint32_t slot = p->steps[s].out[k];
            if (p->slots[slot].output < 0 && !is_pooled(p, &p->steps[s], &p->slots[slot])) {
                blocks[n] = (st_interval){.size_bytes = p->slots[slot].size_bytes,
                                          .first = s,
                                          .last = p->slots[slot].last_use};
                owners[n++] = slot;
            }
        }
    }
    return n;
}

bool st_program_plan_memory(st_program *p)
{
    last_uses(p);
    measure_steps(p);
    st_interval *blocks = st_calloc(p->mem, p->n_slots + 1u, sizeof *blocks);
    uint32_t *owners = st_calloc(p->mem, p->n_slots + 1u, sizeof *owners);
    bool ok =
        st_program_plan_write_backs(p) && plan_releases(p) && blocks != NULL && owners != NULL;
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
    for (uint32_t d = 0; d < ST_DOMAINS_MAX; d++) {
        st_stream_release(state->own_streams[d]);
    }
    st_free(mem, state->slots);
    st_free(mem, state->shapes);
    st_free(mem, state->syms);
    st_free(mem, state->args);
    st_free(mem, state->workspace);
    st_free(mem, state->from_pool);
    st_free(mem, state->is_fresh);
    st_free(mem, state->control);
    st_free(mem, state->kept);
    st_free(mem, state->is_written);
    st_free(mem, state->inputs);
    st_free(mem, state);
}

static void init_slots(st_call_state *state)
{
    const st_program *p = state->program;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        const st_slot *slot = &p->slots[i];
        int64_t *shape = &state->shapes[slot->dim_begin];
        state->slots[i] = (DLTensor){.device = st_state_device(state, slot->domain),
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
    state->control = st_alloc(p->mem, p->control_bytes, 16);
    state->kept = st_calloc(p->mem, p->n_write_backs + 1u, sizeof *state->kept);
    state->is_written = st_calloc(p->mem, p->n_write_backs + 1u, 1);
    state->inputs = st_calloc(p->mem, p->n_in_place != 0 ? p->n_in : 1u, sizeof *state->inputs);
    if (state->slots == NULL || state->shapes == NULL || state->syms == NULL ||
        state->args == NULL || state->workspace == NULL || state->from_pool == NULL ||
        state->is_fresh == NULL || state->control == NULL || state->kept == NULL ||
        state->is_written == NULL || state->inputs == NULL) {
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
    st_program_drain(p);
    for (uint32_t i = 0; p->uploads != NULL && i < p->n_slots; i++) {
        if (p->uploads[i] != NULL) {
            st_domain_give(p->domains[p->slots[i].domain - 1u], p->uploads[i],
                           p->slots[i].size_bytes, NULL);
        }
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
        st_free(p->mem, (void *)(uintptr_t)p->steps[s].in);      /* one block with `out` */
        st_free(p->mem, (void *)(uintptr_t)p->steps[s].control); /* one block with its lists */
    }
    st_free(p->mem, p->steps);
    st_free(p->mem, p->slots);
    st_free(p->mem, p->outputs);
    st_free(p->mem, p->write_backs);
    st_free(p->mem, p->dims);
    st_free(p->mem, p->bound_symbol);
    st_free(p->mem, p->releases);
    st_free(p->mem, p->uploads);
    st_free(p->mem, p->streams);
    pthread_mutex_destroy(&p->lock);
    *p = (st_program){0};
}
