/* Launching planned programs; see program.h. */
#include "core/base/check.h"
#include "core/base/compare.h"
#include "core/runtime/program_state.h"

#include "core/base/threads/threads.h"
#include <stdio.h>
#include <string.h>

/* ---- storage ---- */

stator_status st_check_given(const DLTensor *given, const DLTensor *expected, const char *what,
                             uint32_t k, stator_diag **err)
{
    if (given->ndim != expected->ndim ||
        memcmp(&given->dtype, &expected->dtype, sizeof given->dtype) != 0 ||
        memcmp(given->shape, expected->shape, (size_t)given->ndim * sizeof *given->shape) != 0 ||
        !st_tensor_is_dense(given)) {
        char layouts[ST_DIFFERENCE_TEXT];
        st_print_layouts(given, expected, layouts);
        return st_fail(err, STATOR_INVALID_ARGUMENT, "the tensor given for %s %u is %s%s", what, k,
                       layouts, st_tensor_is_dense(given) ? "" : ", dense");
    }
    return STATOR_OK;
}

/* Bytes of a tensor with this shape. */
static stator_status bytes_of(const st_slot *slot, const int64_t *shape, uint64_t *out_bytes,
                              stator_diag **err)
{
    uint64_t count = 0;
    ST_FAIL_IF(!st_numel(shape, slot->rank, &count) ||
                   !st_dtype_bytes(slot->dtype, count, out_bytes),
               err, STATOR_RESOURCE_EXHAUSTED, "an intermediate tensor is too large");
    return STATOR_OK;
}

/* A block of a pool for output k of a body. */
static stator_status take_owned(st_call_state *state, uint32_t k, const st_slot *slot,
                                const DLTensor *shaped, stator_diag **err)
{
    const int64_t *shape = shaped->shape;
    st_owned *owned = &state->owned[k];
    uint64_t bytes = 0;
    ST_TRY(bytes_of(slot, shape, &bytes, err));
    void *data = NULL;
    ST_TRY(st_state_take(state, st_state_domain(state, shaped), bytes, &data, err));
    if (slot->rank != 0) {
        memcpy(owned->shape, shape, slot->rank * sizeof *shape);
    }
    owned->view = (DLTensor){.data = data,
                             .device = shaped->device,
                             .ndim = (int32_t)slot->rank,
                             .dtype = st_dtype_to_dl(slot->dtype),
                             .shape = owned->shape};
    return STATOR_OK;
}

/* A new tensor for output k, where it is wanted. */
static stator_status make_output(st_call_state *state, const st_slot *slot, const int64_t *shape,
                                 stator_tensor **out, stator_diag **err)
{
    const st_program *p = state->program;
    const uint32_t wanted = state->wanted_domain;
    return wanted == 0 ? st_tensor_create(p->mem, p->pool, slot->dtype, slot->rank, shape, out, err)
                       : st_tensor_create_on(p->domains[wanted - 1u], state->streams[wanted - 1u],
                                             slot->dtype, slot->rank, shape, out, err);
}

stator_status st_state_take_output(st_call_state *state, uint32_t k, const DLTensor *shaped,
                                   void **out_data, stator_diag **err)
{
    const st_program *p = state->program;
    const st_slot *slot = &p->slots[p->outputs[k]];
    if (state->owned != NULL) {
        ST_TRY(take_owned(state, k, slot, shaped, err));
        *out_data = state->owned[k].view.data;
        return STATOR_OK;
    }
    stator_tensor **out = &state->out[k];
    if (*out == NULL) {
        ST_TRY(make_output(state, slot, shaped->shape, out, err));
        state->is_fresh[k] = 1;
    } else {
        ST_TRY(st_check_given(&(*out)->view, shaped, "output", k, err));
    }
    *out_data = st_tensor_address(*out);
    return STATOR_OK;
}

void st_call_state_fill(st_call_state *state, bool is_filled)
{
    state->is_filled = is_filled != 0;
}

/* All ones are a NaN in every float and complex type. */
static stator_status fill(const st_call_state *state, const st_slot *slot, const DLTensor *t,
                          stator_diag **err)
{
    uint64_t bytes = 0;
    ST_TRY(bytes_of(slot, t->shape, &bytes, err));
    return st_domain_fill(t->data, slot->domain != 0 ? state->streams[slot->domain - 1u] : NULL,
                          st_dtype_class(slot->dtype) >= STATOR_CLASS_FLOAT ? 0xff : 0xa5, bytes,
                          err);
}

/* Does the result of a step lie at once where the caller wants output k? */
static bool is_placed_at_once(const st_call_state *state, uint32_t k, const st_slot *slot)
{
    if (state->program->n_domains == 0 || state->owned != NULL) {
        return true;
    }
    return slot->domain == (state->out[k] != NULL ? st_state_domain(state, &state->out[k]->view)
                                                  : state->wanted_domain);
}

static stator_status find_place(st_call_state *state, uint32_t i, stator_diag **err)
{
    const st_program *p = state->program;
    const st_slot *slot = &p->slots[i];
    DLTensor *t = &state->slots[i];
    uint64_t bytes = 0;
    if (slot->output >= 0 && is_placed_at_once(state, (uint32_t)slot->output, slot)) {
        return st_state_take_output(state, (uint32_t)slot->output, t, &t->data, err);
    }
    if (slot->has_offset || (slot->in_place != 0 && st_state_place_in_input(state, i))) {
        return STATOR_OK;
    }
    ST_TRY(bytes_of(slot, t->shape, &bytes, err));
    ST_TRY(st_state_take(state, slot->domain, bytes, &t->data, err));
    state->from_pool[i] = 1;
    return STATOR_OK;
}

stator_status st_state_place(st_call_state *state, uint32_t i, stator_diag **err)
{
    ST_TRY(find_place(state, i, err));
    const bool is_filled = (state->is_filled || (state->step != NULL && state->step->is_filled)) &&
                           (state->program->slots[i].in_place == 0 || state->from_pool[i]);
    return is_filled ? fill(state, &state->program->slots[i], &state->slots[i], err) : STATOR_OK;
}

/* ---- running ---- */

/* The alloc_output slot of a call. */
static stator_status alloc_output(const stator_call *call, uint32_t k, uint32_t rank,
                                  const int64_t *shape, stator_diag **err)
{
    st_call_state *state = call->host;
    ST_FAIL_IF(k >= state->step->n_out, err, STATOR_INTERNAL, "the executable has no output %u", k);
    const uint32_t i = state->step->out[k];
    const st_slot *slot = &state->program->slots[i];
    ST_FAIL_IF(rank != slot->rank, err, STATOR_INTERNAL, "output %u has rank %u, its type says %u",
               k, rank, slot->rank);
    int64_t *known = &state->shapes[slot->dim_begin];
    if (state->slots[i].data != NULL) { /* placed before the step began, or asked for twice */
        if (rank != 0 && memcmp(known, shape, rank * sizeof *shape) != 0) {
            return st_state_bad_shape(state, i, shape, err);
        }
        call->out[k] = state->slots[i];
        return STATOR_OK;
    }
    if (rank != 0) {
        memcpy(known, shape, rank * sizeof *shape);
    }
    ST_TRY(st_state_place(state, i, err));
    call->out[k] = state->slots[i];
    return STATOR_OK;
}

/* Places the results whose sizes are known; the others are placed when their symbols are bound. */
static stator_status place_results(st_call_state *state, const st_step *step, stator_diag **err)
{
    for (uint32_t k = 0; k < step->n_out; k++) {
        const uint32_t i = step->out[k];
        const st_slot *slot = &state->program->slots[i];
        if (slot->is_static || st_state_eval_shape(state, slot)) {
            ST_TRY(st_state_place(state, i, err));
        } else {
            state->slots[i].data = NULL;
        }
    }
    return STATOR_OK;
}

static void note_time(const stator_call *call, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    st_call_state *state = call->host;
    state->n_noted++;
    st_profile_add(state->program->profile, name, begin_ns, end_ns);
}

/* After a failure: a device that has no memory for values of the executable's own gets the free
 * blocks of the host back, and the step runs once more: it writes to its outputs alone. */
static stator_status run_again(st_call_state *state, const st_step *step, stator_status status,
                               stator_diag **err)
{
    if (status != STATOR_RESOURCE_EXHAUSTED || step->domain == 0 ||
        !st_domain_trim(state->program->domains[step->domain - 1u])) {
        return status;
    }
    if (err != NULL) {
        st_diag_release(*err);
        *err = NULL;
    }
    return step->run(step->self, step->exe, &state->call, err);
}

static stator_status run_plain(st_call_state *state, const st_step *step, stator_diag **err)
{
    const stator_status status = step->run(step->self, step->exe, &state->call, err);
    return status == STATOR_OK ? STATOR_OK : run_again(state, step, status, err);
}

/* The step, timed as a whole where its executable tells nothing of its own steps. */
static stator_status run_timed(st_call_state *state, const st_step *step, stator_diag **err)
{
    char name[64];
    state->n_noted = 0;
    state->call.note_time = note_time;
    const uint64_t begin = st_now_ns();
    const stator_status status = run_plain(state, step, err);
    if (state->n_noted == 0) {
        (void)snprintf(name, sizeof name, "partition %u, as a whole",
                       (uint32_t)(step - state->program->steps));
        st_profile_add(state->program->profile, name, begin, st_now_ns());
    }
    return status;
}

/* A result lies where the host put it, else what the plugin has in its place would be lost. */
static stator_status check_places(const st_call_state *state, const st_step *step,
                                  stator_diag **err)
{
    const DLTensor *out = state->args + step->n_in;
    for (uint32_t k = 0; k < step->n_out; k++) {
        if (out[k].data != state->slots[step->out[k]].data) {
            return st_fail(err, STATOR_INTERNAL,
                           "backend '%s': its exe_run puts another pointer into output %u%s; "
                           "results are written to the one that is there, or to that of "
                           "alloc_output",
                           step->backend, k, out[k].data == NULL ? " (NULL)" : "");
        }
    }
    return STATOR_OK;
}

/* A step on a device gets its stream; one on the host gets what was copied for it. */
static stator_status prepare_domain(st_call_state *state, const st_step *step, stator_diag **err)
{
    if (step->domain == 0) {
        return st_state_flush(state, err);
    }
    state->call.stream = state->streams[step->domain - 1u]->handle;
    state->call.number =
        atomic_fetch_add(&state->program->domains[step->domain - 1u]->n_calls, 1) + 1u;
    state->call.workspace = NULL;
    return STATOR_OK;
}

static stator_status run_executable(st_call_state *state, const st_step *step, stator_diag **err)
{
    const st_program *p = state->program;
    DLTensor *in = state->args;
    DLTensor *out = state->args + step->n_in;
    for (uint32_t k = 0; k < step->n_in; k++) {
        in[k] = state->slots[step->in[k]];
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        out[k] = state->slots[step->out[k]];
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
    if (p->n_domains != 0) {
        ST_TRY(prepare_domain(state, step, err));
    }
    stator_status status = p->profile != NULL && st_profile_is_on(p->profile)
                               ? run_timed(state, step, err)
                               : run_plain(state, step, err);
    if (step->domain != 0) {
        st_state_note_call(state, step);
        if (status == STATOR_DATA_LOSS && p->n_in_place != 0) {
            st_state_lose_inputs(state, step, err != NULL ? *err : NULL);
        }
    }
    ST_THEN(status, check_places(state, step, err));
    return status;
}

static stator_status run_step(st_call_state *state, const st_step *step, stator_diag **err)
{
    const st_program *p = state->program;
    state->step = step;
    if (step->kind == ST_STEP_RUN) {
        ST_TRY(place_results(state, step, err));
        ST_TRY(run_executable(state, step, err));
    } else if (step->kind == ST_STEP_COPY) {
        return st_state_run_copy(state, step, err);
    } else {
        ST_TRY(st_control_run(state, step, err));
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        const uint32_t i = step->out[k];
        ST_FAIL_IF(state->slots[i].data == NULL, err, STATOR_INTERNAL,
                   "backend '%s': its exe_run left output %u without data",
                   step->backend != NULL ? step->backend : step->op, k);
        if (!p->slots[i].is_static) {
            ST_TRY(st_state_bind_shape(state, i, err));
        }
    }
    return STATOR_OK;
}

/* Gives back those of the slots that lie in buffers of a pool. */
static void give_back(st_call_state *state, const uint32_t *slots, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = slots[k];
        if (state->from_pool[i]) {
            st_state_give_tensor(state, &state->slots[i]);
            state->from_pool[i] = 0;
        }
    }
}

static stator_status run_steps(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t s = 0; s < p->n_steps;) {
        uint32_t n = 0;
        if (p->steps[s].kind == ST_STEP_COPY) {
            ST_TRY(st_state_run_packed(state, s, &n, err));
        }
        if (n == 0) {
            ST_TRY(run_step(state, &p->steps[s], err));
            n = 1;
        }
        for (; n > 0; n--, s++) {
            give_back(state, p->steps[s].release, p->steps[s].n_release);
        }
    }
    return STATOR_OK;
}

stator_status st_state_move_value(st_call_state *state, const DLTensor *src, const DLTensor *to,
                                  void *dst, stator_diag **err)
{
    if (state->program->n_domains == 0) {
        st_tensor_copy_dense(src, dst);
        return STATOR_OK;
    }
    return st_state_move(state, st_state_domain(state, to), dst, st_state_domain(state, src),
                         src->data, st_state_bytes(src), err);
}

/* Outputs that are inputs, parameters, or another output's value, or lie elsewhere than wanted. */
static stator_status copy_shared_outputs(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        const uint32_t i = p->outputs[k];
        if (p->slots[i].output != (int32_t)k || state->from_pool[i]) {
            void *data = NULL;
            ST_TRY(st_state_take_output(state, k, &state->slots[i], &data, err));
            ST_TRY(st_state_move_value(
                state, &state->slots[i],
                state->owned != NULL ? &state->owned[k].view : &state->out[k]->view, data, err));
        }
    }
    return STATOR_OK;
}

static void take_inputs(st_call_state *state, const DLTensor *in)
{
    const st_program *p = state->program;
    for (uint32_t i = 0; i < p->n_in; i++) {
        state->slots[i] = in[i];
        state->slots[i].data = (char *)in[i].data + in[i].byte_offset;
        state->slots[i].byte_offset = 0;
        state->slots[i].strides = NULL;
    }
}

/* Streams, and where results are wanted: on the device where an input lies, unless the call says.
 * Domain 1 is the main backend's. */
static stator_status begin_on_devices(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    state->wanted_domain = state->outputs == STATOR_OUTPUTS_DEVICE ? 1 : 0;
    const bool is_auto = state->outputs == STATOR_OUTPUTS_AUTO;
    for (uint32_t i = 0; is_auto && i < p->n_in && state->wanted_domain == 0; i++) {
        state->wanted_domain = st_state_domain(state, &state->slots[i]);
    }
    return st_state_open_streams(state, err);
}

/* The call's one wait, if the host has received something. */
static stator_status end_on_devices(st_call_state *state, stator_status status, stator_diag **err)
{
    ST_THEN(status, st_state_flush(state, err));
    return status == STATOR_OK ? STATOR_OK : st_state_drain(state, status, err);
}

static void note_counts(const st_call_state *state)
{
    st_program *p = state->program;
    pthread_mutex_lock(&p->lock);
    p->last_counts = state->counts;
    p->n_calls++;
    pthread_mutex_unlock(&p->lock);
}

/* What a call on devices, or one that writes to inputs, does before its steps and behind them. */
static stator_status begin_call(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    state->counts = (st_copy_counts){0};
    if (p->n_domains != 0) {
        ST_TRY(begin_on_devices(state, err));
    }
    return p->n_write_backs != 0 ? st_state_begin_writes(state, err) : STATOR_OK;
}

static stator_status end_call(st_call_state *state, const DLTensor *in, stator_status status,
                              stator_diag **err)
{
    const st_program *p = state->program;
    if (p->n_write_backs != 0) {
        ST_THEN(status, st_state_write_back(state, in, err));
    }
    if (p->n_domains != 0) {
        status = end_on_devices(state, status, err);
    }
    note_counts(state);
    return status;
}

stator_status st_program_run(st_program *p, st_call_state *state, const DLTensor *in,
                             stator_tensor **out, stator_diag **err)
{
    const bool is_plain = p->n_domains == 0 && p->n_write_backs == 0;
    state->out = out;
    memset(state->is_fresh, 0, p->n_outputs);
    take_inputs(state, in);
    stator_status status = is_plain ? STATOR_OK : begin_call(state, err);
    ST_THEN(status, run_steps(state, err));
    ST_THEN(status, copy_shared_outputs(state, err));
    if (!is_plain) {
        status = end_call(state, in, status, err);
    }
    give_back(state, p->releases, p->n_pooled); /* buffers that a failure or a write-back left */
    st_state_give_packed(state);
    for (uint32_t k = 0; status != STATOR_OK && k < p->n_outputs; k++) {
        if (state->is_fresh[k]) {
            stator_tensor_release(out[k]);
            out[k] = NULL;
        }
    }
    return status;
}

stator_status st_body_run(st_program *p, st_call_state *state, const int64_t *syms,
                          const DLTensor *in, st_owned *out, stator_diag **err)
{
    state->owned = out;
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        out[k].view.data = NULL;
    }
    memcpy(state->syms, syms, p->n_syms * sizeof *syms);
    take_inputs(state, in);
    stator_status status = st_state_bind_inputs(state, in, err);
    ST_THEN(status, run_steps(state, err));
    ST_THEN(status, copy_shared_outputs(state, err));
    give_back(state, p->releases, p->n_pooled);
    return status;
}
