/* Inputs that a call writes: see program.h.
 *
 *   before:  run a, x -> v         copy v into x, at the end of the call
 *   after:   run a, x -> x         where it is safe
 *
 * It is safe when the last step of the program makes the value, its executable allows it
 * (stator_exe_info.may_alias), and nobody else reads what the input held before: no output, no
 * other write-back. Nothing that may fail is left behind that step, so that a call writes all of
 * its inputs or none: an earlier step that may fail late must have been waited for. Whether inputs
 * share memory with each other is known at the call alone; if
 * so, the value gets memory of its own and is copied, like all other write-backs. */
#include "core/runtime/program_state.h"

#include "core/base/check.h"
#include "core/runtime/stream_failures.h"

#include <string.h>

/* ---- planning ---- */

/* The write-back of the slot into the input; UINT32_MAX: none, or another one has to do with the
 * input. */
static uint32_t find_write_back(const st_program *p, uint32_t slot, uint32_t input)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        const st_slot_write *w = &p->write_backs[k];
        if (w->slot == input || (w->input == input && w->slot != slot)) {
            return UINT32_MAX;
        }
        found = w->input == input ? k : found;
    }
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        found = p->outputs[k] == input ? UINT32_MAX : found;
    }
    return found;
}

/* Output k of the program's last step. */
static void plan_in_place(st_program *p, const st_step *step, uint32_t k)
{
    const uint32_t alias = step->may_alias[k];
    st_slot *slot = &p->slots[step->out[k]];
    if (alias == 0 || alias > step->n_in || slot->output >= 0 || slot->in_place != 0) {
        return;
    }
    const uint32_t input = st_program_source(p, step->in[alias - 1u]);
    const uint32_t w = input < p->n_in ? find_write_back(p, step->out[k], input) : UINT32_MAX;
    if (w != UINT32_MAX && slot->dtype == p->slots[input].dtype &&
        slot->rank == p->slots[input].rank) {
        slot->in_place = w + 1u;
        p->n_in_place++;
    }
}

bool st_program_plan_write_backs(st_program *p)
{
    uint8_t *is_written = st_calloc(p->mem, p->n_in + UINT64_C(1), 1);
    bool is_any_kept = false;
    if (is_written == NULL) {
        return false;
    }
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        is_written[p->write_backs[k].input] = 1;
    }
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        st_slot_write *w = &p->write_backs[k];
        w->is_kept = w->slot < p->n_in && is_written[w->slot];
        is_any_kept |= w->is_kept != 0; /* takes memory at the end, which may fail */
    }
    st_free(p->mem, is_written);
    const st_step *last = p->n_steps != 0 ? &p->steps[p->n_steps - 1u] : NULL;
    const bool may = last != NULL && last->kind == ST_STEP_RUN && last->may_alias != NULL &&
                     p->n_write_backs != 0 && !is_any_kept;
    for (uint32_t k = 0; may && k < last->n_out; k++) {
        plan_in_place(p, last, k);
    }
    return true;
}

/* ---- before the steps ---- */

static bool is_shared(const st_input_memory *a, const st_input_memory *b)
{
    return a->begin < b->begin + b->bytes && b->begin < a->begin + a->bytes;
}

/* Does input i share memory with a written one, or a written one i with any? */
static bool is_input_apart(const st_call_state *state, uint32_t i)
{
    const st_program *p = state->program;
    bool is_target = false;
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        const uint32_t target = p->write_backs[k].input;
        is_target |= target == i;
        if (target != i && is_shared(&state->inputs[i], &state->inputs[target])) {
            return false;
        }
    }
    for (uint32_t j = 0; is_target && j < p->n_in; j++) {
        if (j != i && is_shared(&state->inputs[i], &state->inputs[j])) {
            return false;
        }
    }
    return true;
}

/* Do written inputs share no memory with others? Looked at again for those that have changed. */
static bool are_inputs_apart(st_call_state *state)
{
    const st_program *p = state->program;
    bool is_any_changed = false;
    for (uint32_t i = 0; i < p->n_in; i++) {
        const DLTensor *t = &state->slots[i];
        const uint64_t bytes = p->slots[i].is_static ? p->slots[i].size_bytes : st_state_bytes(t);
        st_input_memory *seen = &state->inputs[i];
        seen->is_changed = seen->begin != (uintptr_t)t->data || seen->bytes != bytes;
        seen->begin = (uintptr_t)t->data;
        seen->bytes = bytes;
        is_any_changed |= seen->is_changed != 0;
    }
    const bool was_apart = state->is_apart != 0;
    state->is_apart = was_apart || is_any_changed;
    for (uint32_t i = 0; is_any_changed && state->is_apart && i < p->n_in; i++) {
        if (!was_apart || state->inputs[i].is_changed) {
            state->is_apart = is_input_apart(state, i);
        }
    }
    return state->is_apart != 0;
}

/* Takes the outputs that are copied at the end, and may fail. *out_all: 0 when the size of one is
 * not known yet. */
static stator_status reserve_outputs(st_call_state *state, bool *out_all, stator_diag **err)
{
    const st_program *p = state->program;
    *out_all = true;
    for (uint32_t k = 0; k < p->n_outputs && *out_all; k++) {
        const uint32_t i = p->outputs[k];
        const st_slot *slot = &p->slots[i];
        if (slot->output == (int32_t)k && p->n_domains == 0) {
            continue; /* taken before its step runs */
        }
        *out_all = i < p->n_in || slot->is_static || st_state_eval_shape(state, slot);
        if (*out_all) {
            void *data = NULL;
            ST_TRY(st_state_take_output(state, k, &state->slots[i], &data, err));
        }
    }
    return STATOR_OK;
}

stator_status st_state_begin_writes(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    memset(state->is_written, 0, p->n_write_backs);
    state->is_in_place = p->n_in_place != 0 && are_inputs_apart(state);
    if (!state->is_in_place) {
        return STATOR_OK;
    }
    bool is_all = false;
    ST_TRY(reserve_outputs(state, &is_all, err));
    state->is_in_place = is_all;
    return STATOR_OK;
}

bool st_state_place_in_input(st_call_state *state, uint32_t i)
{
    const st_program *p = state->program;
    const uint32_t k = p->slots[i].in_place - 1u;
    const DLTensor *in = &state->slots[p->write_backs[k].input];
    DLTensor *t = &state->slots[i];
    if (!state->is_in_place || state->n_own_late != 0 ||
        st_state_domain(state, in) != p->slots[i].domain ||
        (t->ndim != 0 && memcmp(in->shape, t->shape, (size_t)t->ndim * sizeof *t->shape) != 0)) {
        return false;
    }
    t->data = in->data;
    state->is_written[k] = 1;
    return true;
}

void st_state_lose_inputs(st_call_state *state, const st_step *step, const stator_diag *why)
{
    st_stream *stream = state->streams[step->domain - 1u];
    const st_late_failure failure = {.first = state->call.number,
                                     .last = state->call.number,
                                     .after_at = UINT64_MAX,
                                     .status = STATOR_DATA_LOSS,
                                     .why = (stator_diag *)(uintptr_t)why,
                                     .is_told = true};
    st_failures_keep(stream, &failure);
    st_late_note(&state->late[step->domain - 1u], stream, state->call.number);
    state->is_lost = 1;
}

bool st_call_state_lost(const st_call_state *state, uint32_t i)
{
    const st_program *p = state->program;
    for (uint32_t k = 0; state->is_lost && k < p->n_write_backs; k++) {
        if (p->write_backs[k].input == i && state->is_written[k]) {
            return true;
        }
    }
    return false;
}

/* ---- behind the steps ---- */

/* Copies what a write-back reads and another one writes; the slots then show the copies. */
static stator_status keep_sources(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        DLTensor *source = &state->slots[p->write_backs[k].slot];
        if (!p->write_backs[k].is_kept) {
            continue;
        }
        const uint32_t domain = st_state_domain(state, source);
        const uint64_t bytes = st_state_bytes(source);
        ST_TRY(st_state_take(state, domain, bytes, &state->kept[k], err));
        ST_TRY(st_state_move(state, domain, state->kept[k], domain, source->data, bytes, err));
        source->data = state->kept[k];
    }
    return STATOR_OK;
}

/* A device tells of a failed check when it is waited for: before anything is written. */
static stator_status wait_before_copies(st_call_state *state, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t d = 0; d < p->n_domains; d++) {
        if (state->streams[d] != NULL) {
            state->counts.n_waits++;
            ST_TRY(st_stream_wait(state->streams[d], err));
        }
    }
    return st_state_check_late(state, 0, err);
}

static stator_status copy_values(st_call_state *state, const DLTensor *in, stator_diag **err)
{
    const st_program *p = state->program;
    bool is_first = true;
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        const st_slot_write *w = &p->write_backs[k];
        const DLTensor *source = &state->slots[w->slot];
        if (state->is_written[k]) {
            continue;
        }
        if (is_first) {
            ST_TRY(wait_before_copies(state, err));
            is_first = false;
        }
        const DLTensor *target = &in[w->input]; /* the slot may show the kept copy */
        ST_TRY(st_check_given(target, source, "the written input", w->input, err));
        state->counts.n_written++;
        state->counts.n_written_bytes += st_state_bytes(source);
        ST_TRY(st_state_move_value(state, source, target,
                                   (char *)target->data + target->byte_offset, err));
    }
    return STATOR_OK;
}

stator_status st_state_write_back(st_call_state *state, const DLTensor *in, stator_diag **err)
{
    const st_program *p = state->program;
    stator_status status = keep_sources(state, err);
    ST_THEN(status, copy_values(state, in, err));
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        const DLTensor *source = &state->slots[p->write_backs[k].slot];
        if (state->kept[k] != NULL) {
            st_state_give(state, st_state_domain(state, source), state->kept[k],
                          st_state_bytes(source));
            state->kept[k] = NULL;
        }
    }
    return status;
}
