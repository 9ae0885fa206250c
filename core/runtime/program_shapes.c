/* Sizes while a program runs: evaluated from symbols, bound by results, held against their types.
 *
 * In: a call state. Out: shapes in state->shapes, symbols in state->syms. A symbol that a result
 * binds must lie in its range, be a multiple of its divisor and agree with what it was bound to
 * before. */
#include "core/base/check.h"
#include "core/runtime/program_state.h"

#include <stdio.h>

bool st_state_eval_shape(st_call_state *state, const st_slot *slot)
{
    const st_program *p = state->program;
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        int64_t size = 0;
        if (!st_symprog_eval(&p->dims[slot->dim_begin + axis], state->syms, &size) || size < 0) {
            return false;
        }
        state->shapes[slot->dim_begin + axis] = size;
    }
    return true;
}

/* "size 1 of the result of nonzero 'find' (f32[...])" */
static const char *where(const st_program *p, uint32_t i, uint32_t axis, char buf[320])
{
    const st_slot *slot = &p->slots[i];
    if (slot->op == NULL) {
        (void)snprintf(buf, 320, "size %u of input %u of the body", axis, i);
    } else {
        (void)snprintf(buf, 320, "size %u of the result of %.60s '%.200s'", axis, slot->op,
                       slot->name);
    }
    return buf;
}

static stator_status out_of_range(const st_program *p, uint32_t i, uint32_t axis, int64_t size,
                                  const st_symbol *s, stator_diag **err)
{
    char place[320];
    char bound[64] = "or more";
    char multiple[64] = "";
    if (s->hi != INT64_MAX) {
        (void)snprintf(bound, sizeof bound, "to %lld", (long long)s->hi);
    }
    if (s->divisor > 1) {
        (void)snprintf(multiple, sizeof multiple, " and a multiple of %lld", (long long)s->divisor);
    }
    return st_fail(err, STATOR_OUT_OF_RANGE, "%s is %lld, but symbol %s must be %lld %s%s",
                   where(p, i, axis, place), (long long)size, s->name, (long long)s->lo, bound,
                   multiple);
}

/* Binds the symbol to size `axis` of slot i. */
static stator_status bind(st_call_state *state, uint32_t i, uint32_t axis, uint32_t symbol,
                          int64_t size, stator_diag **err)
{
    const st_program *p = state->program;
    const st_symbol *s = &p->symbols[symbol];
    char place[320];
    if (size < s->lo || size > s->hi || (s->divisor > 1 && size % s->divisor != 0)) {
        return out_of_range(p, i, axis, size, s, err);
    }
    ST_FAIL_IF(state->syms[symbol] != INT64_MIN && state->syms[symbol] != size, err,
               STATOR_INVALID_ARGUMENT, "%s is %lld, but symbol %s is bound to %lld already",
               where(p, i, axis, place), (long long)size, s->name, (long long)state->syms[symbol]);
    state->syms[symbol] = size;
    return STATOR_OK;
}

/* Size `axis` of slot i is held against its type. */
static stator_status check(const st_call_state *state, uint32_t i, uint32_t axis, int64_t size,
                           stator_diag **err)
{
    const st_program *p = state->program;
    int64_t expected = 0;
    char place[320];
    if (st_symprog_eval(&p->dims[p->slots[i].dim_begin + axis], state->syms, &expected) &&
        expected != size) {
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s is %lld, but it must be %lld",
                       where(p, i, axis, place), (long long)size, (long long)expected);
    }
    return STATOR_OK;
}

static stator_status bind_shape(st_call_state *state, uint32_t i, const int64_t *shape,
                                stator_diag **err)
{
    const st_program *p = state->program;
    const st_slot *slot = &p->slots[i];
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        const int32_t symbol = p->bound_symbol[slot->dim_begin + axis];
        if (symbol >= 0) {
            ST_TRY(bind(state, i, axis, (uint32_t)symbol, shape[axis], err));
        }
    }
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        ST_TRY(check(state, i, axis, shape[axis], err));
    }
    return STATOR_OK;
}

stator_status st_state_bind_shape(st_call_state *state, uint32_t i, stator_diag **err)
{
    return bind_shape(state, i, &state->shapes[state->program->slots[i].dim_begin], err);
}

stator_status st_state_bad_shape(st_call_state *state, uint32_t i, const int64_t *shape,
                                 stator_diag **err)
{
    const st_slot *slot = &state->program->slots[i];
    char want[320];
    char got[320];
    ST_TRY(bind_shape(state, i, shape, err)); /* names the symbol, when that is it */
    return st_fail(err, STATOR_INVALID_ARGUMENT,
                   "the result of %s '%s' has shape %s, but it must be %s",
                   slot->op != NULL ? slot->op : "", slot->name != NULL ? slot->name : "",
                   st_shape_text(shape, slot->rank, got, sizeof got),
                   st_shape_text(&state->shapes[slot->dim_begin], slot->rank, want, sizeof want));
}

stator_status st_state_bind_inputs(st_call_state *state, const DLTensor *in, stator_diag **err)
{
    const st_program *p = state->program;
    for (uint32_t i = 0; i < p->n_in; i++) {
        const st_slot *slot = &p->slots[i];
        ST_FAIL_IF((uint32_t)in[i].ndim != slot->rank, err, STATOR_INVALID_ARGUMENT,
                   "input %u of the body has rank %d, expected %u", i, in[i].ndim, slot->rank);
        for (uint32_t axis = 0; axis < slot->rank; axis++) {
            const int32_t symbol = p->bound_symbol[slot->dim_begin + axis];
            if (symbol >= 0 && state->syms[symbol] == INT64_MIN) {
                ST_TRY(bind(state, i, axis, (uint32_t)symbol, in[i].shape[axis], err));
            }
        }
    }
    for (uint32_t i = 0; i < p->n_in; i++) {
        for (uint32_t axis = 0; axis < p->slots[i].rank; axis++) {
            ST_TRY(check(state, i, axis, in[i].shape[axis], err));
        }
    }
    return STATOR_OK;
}
