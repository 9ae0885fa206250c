/* Values in the memories of devices: copies between steps, see program.h.
 *
 *   before:  run a -> v        run b (v)            a on a device, b on the host
 *   after:   run a -> v   copy v -> v'   run b (v')
 *
 * A value is copied once for each domain that reads it, in front of its first reader. Control flow
 * takes values where they lie. */
#include "core/runtime/program_state.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/runtime/stream_failures.h"

#include <string.h>

/* ---- planning ---- */

typedef struct copying {
    st_program *p;
    uint32_t *copies; /* by slot and domain: the slot of the copy, 0 none */
    st_step *steps;   /* the new list */
    uint32_t n_steps;
} copying;

static uint32_t *copy_at(const copying *c, uint32_t slot, uint32_t domain)
{
    return &c->copies[slot * (c->p->n_domains + 1u) + domain];
}

/* The slot of the copy of `slot` in `domain`, made by a step in front of `reader` if there is none;
 * ST_NO_SLOT when out of memory. */
static uint32_t copy_of(copying *c, uint32_t slot, uint32_t domain, const st_step *reader)
{
    st_program *p = c->p;
    uint32_t *at = copy_at(c, slot, domain);
    if (*at != 0) {
        return *at;
    }
    uint32_t *ports = st_calloc(p->mem, 2, sizeof *ports);
    if (ports == NULL) {
        return ST_NO_SLOT;
    }
    *at = p->n_slots++;
    st_slot *copy = &p->slots[*at];
    *copy = p->slots[slot];
    copy->output = -1;
    copy->data = NULL;
    copy->blob = NULL;
    copy->is_varying = 0;
    copy->domain = domain;
    copy->source = slot;
    ports[0] = slot;
    ports[1] = *at;
    c->steps[c->n_steps++] = (st_step){.kind = ST_STEP_COPY,
                                       .n_in = 1,
                                       .n_out = 1,
                                       .in = ports,
                                       .out = ports + 1,
                                       .domain = domain,
                                       .op = "copy",
                                       .name = copy->name != NULL ? copy->name : "",
                                       .backend = reader->backend};
    return *at;
}

static bool add_step(copying *c, const st_step *step)
{
    const st_program *p = c->p;
    const bool is_run = step->kind == ST_STEP_RUN;
    for (uint32_t k = 0; is_run && k < step->n_in; k++) {
        uint32_t *in = (uint32_t *)(uintptr_t)&step->in[k]; /* the program's own */
        if (p->slots[*in].is_varying || p->slots[*in].domain != step->domain) {
            *in = copy_of(c, *in, step->domain, step);
            ST_NEED(*in != ST_NO_SLOT);
        }
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        p->slots[step->out[k]].domain = step->domain;
        p->slots[step->out[k]].is_varying = !is_run;
    }
    c->steps[c->n_steps++] = *step;
    return true;
}

static bool plan_copies(copying *c)
{
    st_program *p = c->p;
    const uint64_t room = (uint64_t)p->n_slots * (p->n_domains + 2u) + 1u;
    st_slot *slots = st_realloc(p->mem, p->slots, room * sizeof *slots, 16);
    ST_NEED(slots != NULL);
    p->slots = slots;
    c->copies = st_calloc(p->mem, room, sizeof *c->copies);
    c->steps = st_calloc(p->mem, p->n_steps + room, sizeof *c->steps);
    p->uploads = st_calloc(p->mem, room, sizeof(void *));
    ST_NEED(c->copies != NULL && c->steps != NULL && p->uploads != NULL);
    for (uint32_t i = 0; i < p->n_in; i++) {
        p->slots[i].is_varying = 1;
    }
    for (uint32_t s = 0; s < p->n_steps; s++) {
        ST_NEED(add_step(c, &p->steps[s]));
    }
    return true;
}

bool st_program_plan_copies(st_program *p)
{
    p->n_own_slots = p->n_slots;
    if (p->n_domains == 0) {
        return true;
    }
    copying c = {.p = p};
    const bool is_ok = plan_copies(&c);
    if (is_ok) {
        st_step *before = p->steps;
        p->steps = c.steps;
        p->n_steps = c.n_steps;
        c.steps = before;
    } else { /* what was added ends here; the steps there were end with the program */
        for (uint32_t s = 0; s < c.n_steps; s++) {
            if (c.steps[s].kind == ST_STEP_COPY) {
                st_free(p->mem, (void *)(uintptr_t)c.steps[s].in);
            }
        }
    }
    st_free(p->mem, c.steps);
    st_free(p->mem, c.copies);
    return is_ok;
}

bool st_program_is_varying(const st_program *p, uint32_t slot)
{
    return p->slots[slot].is_varying != 0;
}

uint32_t st_program_source(const st_program *p, uint32_t slot)
{
    return slot != ST_NO_SLOT && slot >= p->n_own_slots ? p->slots[slot].source : slot;
}

/* ---- memory ---- */

uint32_t st_state_domain(const st_call_state *state, const DLTensor *t)
{
    const st_program *p = state->program;
    for (uint32_t d = 0; t->device.device_type != kDLCPU && d < p->n_domains; d++) {
        const DLDevice device = p->domains[d]->device;
        if (device.device_type == t->device.device_type &&
            device.device_id == t->device.device_id) {
            return d + 1u;
        }
    }
    return 0;
}

DLDevice st_state_device(const st_call_state *state, uint32_t domain)
{
    return domain != 0 ? state->program->domains[domain - 1u]->device
                       : (DLDevice){.device_type = kDLCPU};
}

static st_stream *stream_of(const st_call_state *state, uint32_t domain)
{
    return domain != 0 ? state->streams[domain - 1u] : NULL;
}

stator_status st_state_take(st_call_state *state, uint32_t domain, uint64_t bytes, void **out,
                            stator_diag **err)
{
    const st_program *p = state->program;
    if (domain != 0) {
        return st_domain_take(p->domains[domain - 1u], bytes, stream_of(state, domain), out, err);
    }
    *out = st_pool_take(p->pool, bytes);
    ST_TRY_MEM(*out, err);
    return STATOR_OK;
}

void st_state_give(st_call_state *state, uint32_t domain, void *p, uint64_t bytes)
{
    if (domain == 0) {
        st_pool_give(state->program->pool, p);
    } else {
        st_domain_give(state->program->domains[domain - 1u], p, bytes, stream_of(state, domain));
    }
}

uint64_t st_state_bytes(const DLTensor *t)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    (void)(st_numel(t->shape, (uint32_t)t->ndim, &count) &&
           st_dtype_bytes(st_dtype_from_dl(t->dtype), count, &bytes));
    return bytes;
}

void st_state_give_tensor(st_call_state *state, const DLTensor *t)
{
    const uint32_t domain = st_state_domain(state, t);
    st_state_give(state, domain, t->data, domain != 0 && t->data != NULL ? st_state_bytes(t) : 0);
}

/* ---- copies ---- */

/* The state of the call that a body is run for. */
static st_call_state *state_of_call(st_call_state *state)
{
    while (state->around != NULL) {
        state = state->around;
    }
    return state;
}

stator_status st_state_flush(st_call_state *state, stator_diag **err)
{
    st_call_state *call = state_of_call(state);
    if (!call->is_host_pending) {
        return STATOR_OK;
    }
    call->is_host_pending = 0;
    for (uint32_t d = 0; d < call->program->n_domains; d++) {
        if (call->streams[d] != NULL) {
            call->counts.n_waits++;
            ST_TRY(st_stream_wait(call->streams[d], err));
        }
    }
    return st_state_check_late(call, 0, err);
}

stator_status st_state_drain(st_call_state *state, stator_status status, stator_diag **err)
{
    stator_diag *why = NULL;
    for (uint32_t d = 0; d < state->program->n_domains; d++) {
        if (state->streams[d] != NULL) {
            (void)st_stream_wait(state->streams[d], NULL);
        }
    }
    state->is_host_pending = 0;
    const stator_status late = st_state_check_late(state, 0, &why);
    if (late == STATOR_OK || status == STATOR_UNAVAILABLE) {
        st_diag_release(why);
        return status;
    }
    if (err != NULL) {
        st_diag_release(*err);
        *err = NULL;
    }
    return st_diag_give(late, why, err);
}

stator_status st_state_move(st_call_state *state, uint32_t to, void *dst, uint32_t from,
                            const void *src, uint64_t bytes, stator_diag **err)
{
    st_call_state *call = state_of_call(state);
    if (from == 0) {
        ST_TRY(st_state_flush(state, err)); /* the host reads */
    }
    if (to != from) {
        call->counts.n_copies++;
        call->counts.n_bytes += bytes;
        call->counts.n_waits += to != 0 && from != 0; /* through the host */
        call->is_host_pending |= to == 0;
    }
    ST_TRY(st_domain_copy(dst, stream_of(state, to), src, stream_of(state, from), bytes, err));
    return to != from && to != 0 && from != 0 ? st_state_check_late(call, from, err) : STATOR_OK;
}

stator_status st_state_load_i64(st_call_state *state, const DLTensor *t, int64_t *out,
                                stator_diag **err)
{
    _Alignas(16) char bytes[16] = {0};
    const uint64_t n = (t->dtype.bits + 7u) / 8u;
    ST_TRY(st_state_move(state, 0, bytes, st_state_domain(state, t), t->data, n, err));
    ST_TRY(st_state_flush(state, err));
    *out = st_load_i64(st_dtype_from_dl(t->dtype), bytes, 0);
    return STATOR_OK;
}

/* A constant is copied to the device once for all calls. */
static stator_status upload(st_call_state *state, uint32_t i, stator_diag **err)
{
    st_program *p = state->program;
    const st_slot *slot = &p->slots[i];
    stator_status status = STATOR_OK;
    pthread_mutex_lock(&p->lock);
    if (p->uploads[i] == NULL) {
        void *at = NULL;
        status = st_state_take(state, slot->domain, slot->size_bytes, &at, err);
        ST_THEN(status, st_state_move(state, slot->domain, at, 0, p->slots[slot->source].data,
                                      slot->size_bytes, err));
        ST_THEN(status, st_stream_wait(stream_of(state, slot->domain), err));
        if (status == STATOR_OK) {
            p->uploads[i] = at;
        } else {
            st_state_give(state, slot->domain, at, slot->size_bytes);
        }
    }
    state->slots[i].data = p->uploads[i];
    pthread_mutex_unlock(&p->lock);
    return status;
}

stator_status st_state_run_copy(st_call_state *state, const st_step *step, stator_diag **err)
{
    const uint32_t i = step->out[0];
    const st_slot *slot = &state->program->slots[i];
    const DLTensor *src = &state->slots[step->in[0]];
    DLTensor *dst = &state->slots[i];
    const uint32_t from = st_state_domain(state, src);
    dst->shape = src->shape;
    if (from == slot->domain) {
        dst->data = src->data;
        return STATOR_OK;
    }
    if (state->program->slots[slot->source].data != NULL) {
        return upload(state, i, err);
    }
    const uint64_t bytes = st_state_bytes(src);
    if (slot->has_offset) {
        dst->data = state->workspace + slot->offset;
    } else {
        ST_TRY(st_state_take(state, slot->domain, bytes, &dst->data, err));
        state->from_pool[i] = 1;
    }
    return st_state_move(state, slot->domain, dst->data, from, src->data, bytes, err);
}

/* ---- failures that show late ---- */

void st_state_note_call(st_call_state *state, const st_step *step)
{
    st_stream *stream = state->streams[step->domain - 1u];
    st_stream_note(stream);
    if (step->fails_late) {
        st_call_state *call = state_of_call(state);
        st_late_note(&call->late[step->domain - 1u], stream, state->call.number);
        call->n_own_late++;
    }
}

stator_status st_state_check_late(st_call_state *state, uint32_t domain, stator_diag **err)
{
    st_program *p = state->program;
    for (uint32_t d = 0; d < p->n_domains; d++) {
        if (domain == 0 || domain == d + 1u) {
            ST_TRY(st_late_check(&state->late[d], p->domains[d], err));
        }
    }
    state->n_own_late = domain == 0 ? 0 : state->n_own_late;
    return STATOR_OK;
}

st_late_calls *st_call_state_late(st_call_state *state, const st_domain *domain)
{
    for (uint32_t d = 0; d < state->program->n_domains; d++) {
        if (state->program->domains[d] == domain) {
            return &state->late[d];
        }
    }
    return NULL;
}

void st_call_state_forget_late(st_call_state *state)
{
    for (uint32_t d = 0; d < state->program->n_domains; d++) {
        state->late[d].n = 0;
    }
    state->n_own_late = 0;
    state->is_lost = 0;
}

/* ---- streams ---- */

/* Remembers a stream for st_program_wait. */
static stator_status note_stream(st_program *p, st_stream *stream, stator_diag **err)
{
    stator_status status = STATOR_OK;
    uint32_t i = 0;
    pthread_mutex_lock(&p->lock);
    while (i < p->n_streams && p->streams[i] != stream) {
        i++;
    }
    if (i == p->n_streams) {
        st_stream **longer = st_realloc(p->mem, p->streams, (i + 1u) * sizeof(void *), 16);
        if (longer == NULL) {
            status = st_fail_oom(err);
        } else {
            p->streams = longer;
            p->streams[p->n_streams++] = stream;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

stator_status st_state_open_streams(st_call_state *state, stator_diag **err)
{
    st_program *p = state->program;
    for (uint32_t d = 0; d < p->n_domains; d++) {
        if (state->streams[d] != NULL) {
            continue;
        }
        if (state->own_streams[d] == NULL) {
            ST_TRY(st_stream_acquire(p->domains[d], &state->own_streams[d], err));
            ST_TRY(note_stream(p, state->own_streams[d], err));
        }
        state->streams[d] = state->own_streams[d];
    }
    return STATOR_OK;
}

stator_status st_call_state_use_stream(st_call_state *state, st_stream *stream, stator_diag **err)
{
    st_program *p = state->program;
    ST_TRY(note_stream(p, stream, err));
    for (uint32_t d = 0; d < p->n_domains; d++) {
        if (p->domains[d] == stream->domain) {
            state->streams[d] = stream;
        }
    }
    return STATOR_OK;
}

void st_call_state_want(st_call_state *state, uint32_t outputs)
{
    state->outputs = outputs;
}

void st_call_state_reset(st_call_state *state)
{
    memcpy(state->streams, state->own_streams, sizeof state->streams);
}

stator_status st_call_state_stream(st_call_state *state, const st_domain *domain,
                                   st_stream **out_stream, stator_diag **err)
{
    *out_stream = NULL;
    ST_TRY(st_state_open_streams(state, err));
    for (uint32_t d = 0; d < state->program->n_domains; d++) {
        if (state->program->domains[d] == domain) {
            *out_stream = state->streams[d];
        }
    }
    return STATOR_OK;
}

/* The error of the wait, else of a call that failed late. */
static stator_status wait_and_tell(st_stream *stream, stator_diag **err)
{
    ST_TRY(st_stream_wait(stream, err));
    return st_failures_tell(stream, NULL, err);
}

stator_status st_program_wait(st_program *p, stator_diag **err)
{
    stator_status first = STATOR_OK;
    for (uint32_t i = 0;; i++) {
        pthread_mutex_lock(&p->lock);
        st_stream *stream = i < p->n_streams ? p->streams[i] : NULL;
        pthread_mutex_unlock(&p->lock);
        if (stream == NULL) {
            return first;
        }
        const stator_status status = wait_and_tell(stream, first == STATOR_OK ? err : NULL);
        first = first == STATOR_OK ? status : first;
    }
}

void st_program_drain(st_program *p)
{
    for (uint32_t i = 0; i < p->n_streams; i++) {
        (void)st_stream_wait(p->streams[i], NULL);
    }
}

bool st_program_writes_input(const st_program *p, uint32_t i)
{
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        if (p->write_backs[k].input == i) {
            return true;
        }
    }
    return false;
}
