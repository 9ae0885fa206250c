/* Control flow that the host runs: cond, call, while, scan, their bodies being programs.
 *
 * In: the operands of the step. Out: all its results, placed. Meanings: rows cond, while, scan and
 * call of ir/ops.def; what the reference backend computes in one executable is computed here with
 * an executable, or several, an iteration. A body runs in a state of its own with a copy of the
 * symbols around it: sizes that its inputs tell are bound anew in each iteration and end with it.
 * What a body returns comes in blocks of the pool, which the next iteration or the node's results
 * take over, so that a loop allocates nothing once the pool is warm.
 *
 *     scratch of a state:  | in[] | out[] | carried[] | stacks[] | scanned[] |  */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/runtime/program_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct stack { /* results of iterations put together along a new axis */
    void *data;
    uint64_t capacity_bytes;              /* of the block, as it was taken */
    uint64_t domain;                      /* of the block and of all slices */
    int64_t slice_shape[STATOR_RANK_MAX]; /* shape of an iteration's slice */
    int64_t slice_count;
    uint32_t slice_rank;
    stator_dtype dtype;
    uint32_t axis;
    uint32_t has_slice;
    int64_t length; /* along the axis, of the memory */
    int64_t used;
} stack;

typedef struct scanned { /* an operand cut into slices */
    DLTensor whole;
    stator_dtype dtype;
    uint32_t axis;
    uint32_t is_reversed;
    uint32_t reserved;
    int64_t shape[STATOR_RANK_MAX]; /* shape of a slice */
    int64_t outer, inner;
    void *copy; /* room for one slice */
} scanned;

typedef struct loop {     /* a control-flow node that runs */
    st_call_state *state; /* state of the enclosing program */
    const st_step *step;
    const st_control *control;
    st_program *body;
    st_call_state *body_state;
    DLTensor *in;
    st_owned *out;
    st_owned *carried; /* data NULL: still the operand */
    stack *stacks;
    scanned *cut;
    stator_diag **err;
} loop;

static stator_status fail(const loop *l, stator_status code, const char *format, ...)
    STATOR_PRINTF(3, 4);

static stator_status fail(const loop *l, stator_status code, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return st_fail(l->err, code, "%s '%s': %s", l->step->op, l->step->name, text);
}

static const DLTensor *operand(const loop *l, uint32_t k)
{
    return l->step->in[k] != ST_NO_SLOT ? &l->state->slots[l->step->in[k]] : NULL;
}

static int64_t product(const int64_t *shape, uint32_t begin, uint32_t end)
{
    int64_t n = 1;
    for (uint32_t a = begin; a < end; a++) {
        n *= shape[a];
    }
    return n;
}

/* Bytes of `count` elements; the counts come from tensors that exist. */
static uint64_t bytes_of(stator_dtype dtype, int64_t count)
{
    return ((uint64_t)count * st_dtype_bits(dtype) + 7u) / 8u;
}

static stator_dtype dtype_of(const DLTensor *t)
{
    return st_dtype_from_dl(t->dtype);
}

/* ---- scratch ---- */

static const st_program *largest_body(const st_control *c)
{
    const st_program *body = c->bodies[0];
    return c->n_bodies > 1 && c->bodies[1]->n_outputs > body->n_outputs ? c->bodies[1] : body;
}

uint64_t st_control_bytes(const st_step *step)
{
    const st_control *c = step->control;
    return step->n_in * sizeof(DLTensor) +
           (uint64_t)(largest_body(c)->n_outputs + c->n_carried) * sizeof(st_owned) +
           c->n_stacked * sizeof(stack) + c->n_scanned * sizeof(scanned);
}

static stator_status loop_begin(loop *l, uint32_t body)
{
    const st_control *c = l->control;
    memset(l->state->control, 0, st_control_bytes(l->step));
    l->in = (DLTensor *)(void *)l->state->control;
    l->out = (st_owned *)(void *)(l->in + l->step->n_in);
    l->carried = l->out + largest_body(c)->n_outputs;
    l->stacks = (stack *)(void *)(l->carried + c->n_carried);
    l->cut = (scanned *)(void *)(l->stacks + c->n_stacked);
    l->body = c->bodies[body];
    l->body_state = st_program_acquire(l->body);
    ST_TRY_MEM(l->body_state, l->err);
    l->body_state->is_filled = l->state->is_filled;
    l->body_state->around = l->state;
    memcpy(l->body_state->streams, l->state->streams, sizeof l->state->streams);
    return STATOR_OK;
}
_Static_assert(sizeof(DLTensor) % 8 == 0 && sizeof(st_owned) % 8 == 0 && sizeof(stack) % 8 == 0,
               "the arrays of the scratch lie one behind the other");

static void give_owned(const loop *l, st_owned *owned, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (owned[k].view.data != NULL) {
            st_state_give_tensor(l->state, &owned[k].view);
        }
        owned[k].view.data = NULL;
    }
}

static uint32_t domain_of(const loop *l, const DLTensor *t)
{
    return st_state_domain(l->state, t);
}

static void loop_end(loop *l)
{
    if (l->body_state == NULL) {
        return;
    }
    give_owned(l, l->out, l->body->n_outputs);
    give_owned(l, l->carried, l->control->n_carried);
    for (uint32_t k = 0; k < l->control->n_stacked; k++) {
        stack *s = &l->stacks[k];
        st_state_give(l->state, (uint32_t)s->domain, s->data, s->capacity_bytes);
    }
    for (uint32_t k = 0; k < l->control->n_scanned; k++) {
        scanned *s = &l->cut[k];
        st_state_give(l->state, domain_of(l, &s->whole), s->copy,
                      bytes_of(s->dtype, s->outer * s->inner));
    }
    st_program_release(l->body, l->body_state);
}

static stator_status run_body(loop *l)
{
    return st_body_run(l->body, l->body_state, l->state->syms, l->in, l->out, l->err);
}

/* ---- results ---- */

/* Result k of the step takes over the block of `owned`, or a copy of it. */
static stator_status adopt(loop *l, uint32_t k, st_owned *owned)
{
    st_call_state *state = l->state;
    const uint32_t i = l->step->out[k];
    const st_slot *slot = &state->program->slots[i];
    int64_t *shape = &state->shapes[slot->dim_begin];
    const size_t shape_bytes = slot->rank * sizeof *shape;
    if ((uint32_t)owned->view.ndim != slot->rank || dtype_of(&owned->view) != slot->dtype) {
        return fail(l, STATOR_INTERNAL, "result %u of the body has another rank or dtype", k);
    }
    if (!slot->is_static) {
        memcpy(shape, owned->shape, shape_bytes);
    } else if (memcmp(shape, owned->shape, shape_bytes) != 0) {
        return st_state_bad_shape(state, i, owned->shape, l->err);
    }
    if (state->program->n_domains != 0 || (slot->output < 0 && !slot->has_offset)) {
        state->slots[i].data = owned->view.data;
        state->slots[i].device = owned->view.device;
        state->from_pool[i] = 1;
        owned->view.data = NULL;
        return STATOR_OK;
    }
    ST_TRY(st_state_place(state, i, l->err));
    memcpy(state->slots[i].data, owned->view.data,
           bytes_of(slot->dtype, product(shape, 0, slot->rank)));
    return STATOR_OK;
}

/* The body's results first..first+n_carried become the carried values of the next iteration, which
 * are its inputs in_first... */
static void carry(loop *l, uint32_t first, uint32_t in_first)
{
    for (uint32_t k = 0; k < l->control->n_carried; k++) {
        give_owned(l, &l->carried[k], 1);
        l->carried[k] = l->out[first + k];
        l->carried[k].view.shape = l->carried[k].shape;
        l->out[first + k].view.data = NULL;
        l->in[in_first + k] = l->carried[k].view;
    }
}

/* Carried values become results; those of a loop that never ran are copies of the operands. */
static stator_status finish_carried(loop *l, uint32_t first_operand)
{
    for (uint32_t k = 0; k < l->control->n_carried; k++) {
        st_owned *owned = &l->carried[k];
        if (owned->view.data == NULL) {
            const DLTensor *t = operand(l, first_operand + k);
            const uint32_t rank = (uint32_t)t->ndim;
            const uint64_t bytes = bytes_of(dtype_of(t), product(t->shape, 0, rank));
            owned->view = *t;
            owned->view.shape = owned->shape;
            const uint32_t domain = domain_of(l, t);
            memcpy(owned->shape, t->shape, rank * sizeof *t->shape);
            ST_TRY(st_state_take(l->state, domain, bytes, &owned->view.data, l->err));
            ST_TRY(
                st_state_move(l->state, domain, owned->view.data, domain, t->data, bytes, l->err));
        }
        ST_TRY(adopt(l, k, owned));
    }
    return STATOR_OK;
}

/* ---- cond and call ---- */

static stator_status run_once(loop *l, uint32_t body, uint32_t first_in)
{
    ST_TRY(loop_begin(l, body));
    for (uint32_t k = 0; k < l->body->n_in; k++) {
        l->in[k] = *operand(l, first_in + k);
    }
    ST_TRY(run_body(l));
    for (uint32_t k = 0; k < l->step->n_out; k++) {
        ST_TRY(adopt(l, k, &l->out[k]));
    }
    return STATOR_OK;
}

static stator_status run_cond(loop *l)
{
    const DLTensor *pred = operand(l, 0);
    const int64_t count = product(pred->shape, 0, (uint32_t)pred->ndim);
    ST_FAIL_BY_IF(fail, count != 1, l, STATOR_INVALID_ARGUMENT,
                  "the condition has %lld elements, expected 1", (long long)count);
    int64_t is_true = 0;
    ST_TRY(st_state_load_i64(l->state, pred, &is_true, l->err));
    return run_once(l, is_true ? 0 : 1, 1);
}

/* ---- stacking ---- */

/* Memory for `length` slices; what is there is kept (axis 0 alone grows). */
static stator_status stack_reserve(loop *l, stack *s, int64_t length)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    ST_TRY_MEM(st_mul_u64((uint64_t)s->slice_count, (uint64_t)length, &count) &&
                   st_dtype_bytes(s->dtype, count, &bytes),
               l->err);
    s->length = length;
    if (s->data != NULL && bytes <= s->capacity_bytes) {
        return STATOR_OK;
    }
    const uint32_t domain = (uint32_t)s->domain;
    void *data = NULL;
    ST_TRY(st_state_take(l->state, domain, bytes, &data, l->err));
    stator_status status = STATOR_OK;
    if (s->data != NULL) {
        status = st_state_move(l->state, domain, data, domain, s->data,
                               bytes_of(s->dtype, s->used * s->slice_count), l->err);
        st_state_give(l->state, domain, s->data, s->capacity_bytes);
    }
    s->data = data;
    s->capacity_bytes = bytes;
    return status;
}

static stator_status stack_first(loop *l, stack *s, const DLTensor *slice)
{
    s->dtype = dtype_of(slice);
    s->domain = domain_of(l, slice);
    s->slice_rank = (uint32_t)slice->ndim;
    s->slice_count = product(slice->shape, 0, s->slice_rank);
    s->has_slice = 1;
    memcpy(s->slice_shape, slice->shape, s->slice_rank * sizeof *slice->shape);
    return s->slice_rank < STATOR_RANK_MAX && s->axis <= s->slice_rank
               ? STATOR_OK
               : fail(l, STATOR_INVALID_ARGUMENT,
                      "the axis of a stacked result lies outside its rank");
}

/* Copies a slice to position `at` along the axis. */
static stator_status stack_put(loop *l, stack *s, const DLTensor *slice, int64_t at)
{
    if ((uint32_t)slice->ndim != s->slice_rank ||
        memcmp(slice->shape, s->slice_shape, s->slice_rank * sizeof *slice->shape) != 0) {
        return fail(l, STATOR_INVALID_ARGUMENT,
                    "a stacked result has another shape than in the iteration before; the shapes "
                    "of all iterations must be equal");
    }
    const int64_t outer = product(s->slice_shape, 0, s->axis);
    const int64_t inner = product(s->slice_shape, s->axis, s->slice_rank);
    if (((uint64_t)inner * st_dtype_bits(s->dtype)) % 8u != 0) {
        return fail(l, STATOR_INVALID_ARGUMENT,
                    "slices of a 4-bit type must have an even number of elements");
    }
    const uint64_t bytes = bytes_of(s->dtype, inner);
    for (int64_t o = 0; o < outer; o++) {
        ST_TRY(st_state_move(
            l->state, (uint32_t)s->domain, (char *)s->data + (uint64_t)(o * s->length + at) * bytes,
            domain_of(l, slice), (const char *)slice->data + (uint64_t)o * bytes, bytes, l->err));
    }
    return STATOR_OK;
}

/* Shape of the stacked result of a loop that never ran: sizes beside the axis come from the type,
 * unknown ones are 0. */
static void stack_shape_from_type(loop *l, stack *s, uint32_t slot_index)
{
    const st_program *p = l->state->program;
    const st_slot *slot = &p->slots[slot_index];
    s->dtype = slot->dtype;
    s->slice_rank = slot->rank - 1u;
    s->slice_count = 0;
    for (uint32_t a = 0, b = 0; a < slot->rank; a++) {
        int64_t size = 0;
        if (a != s->axis) {
            if (!st_symprog_eval(&p->dims[slot->dim_begin + a], l->state->syms, &size)) {
                size = 0;
            }
            s->slice_shape[b++] = size;
        }
    }
}

/* The whole stack becomes a result. */
static stator_status stack_finish(loop *l, uint32_t k, int64_t length)
{
    stack *s = &l->stacks[k];
    const uint32_t result = l->control->n_carried + k;
    if (!s->has_slice) {
        stack_shape_from_type(l, s, l->step->out[result]);
    }
    ST_TRY(stack_reserve(l, s, length));
    st_owned owned = {.view = {.data = s->data,
                               .device = st_state_device(l->state, (uint32_t)s->domain),
                               .ndim = (int32_t)s->slice_rank + 1,
                               .dtype = st_dtype_to_dl(s->dtype),
                               .shape = owned.shape}};
    for (uint32_t a = 0, b = 0; a <= s->slice_rank; a++) {
        owned.shape[a] = a == s->axis ? length : s->slice_shape[b++];
    }
    s->data = NULL;
    const stator_status status = adopt(l, result, &owned);
    give_owned(l, &owned, 1);
    return status;
}

/* ---- while ---- */

static stator_status while_iteration(loop *l, int64_t *out_again)
{
    ST_TRY(run_body(l));
    const DLTensor *again = &l->out[0].view;
    ST_FAIL_BY_IF(fail, product(again->shape, 0, (uint32_t)again->ndim) != 1, l,
                  STATOR_INVALID_ARGUMENT, "the body's first result must be one bool");
    ST_TRY(st_state_load_i64(l->state, again, out_again, l->err));
    carry(l, 1, 1);
    for (uint32_t k = 0; k < l->control->n_stacked; k++) {
        stack *s = &l->stacks[k];
        const DLTensor *slice = &l->out[1u + l->control->n_carried + k].view;
        if (!s->has_slice) {
            ST_TRY(stack_first(l, s, slice));
        }
        if (s->used == s->length) {
            ST_TRY(stack_reserve(l, s, s->length != 0 ? s->length * 2 : 4));
        }
        ST_TRY(stack_put(l, s, slice, s->used));
        s->used++;
    }
    give_owned(l, l->out, l->body->n_outputs);
    return STATOR_OK;
}

static stator_status run_while(loop *l)
{
    const DLTensor *trips = operand(l, 0);
    const DLTensor *pred = operand(l, 1);
    int64_t limit = INT64_MAX;
    int64_t again = 1;
    _Alignas(16) int64_t iteration = 0; /* executables expect their inputs aligned */
    if (trips != NULL) {
        ST_TRY(st_state_load_i64(l->state, trips, &limit, l->err));
    }
    if (pred != NULL) {
        ST_TRY(st_state_load_i64(l->state, pred, &again, l->err));
    }
    ST_TRY(loop_begin(l, 0));
    l->in[0] = (DLTensor){
        .data = &iteration, .device = {.device_type = kDLCPU}, .dtype = st_dtype_to_dl(STATOR_I64)};
    for (uint32_t k = 1; k < l->body->n_in; k++) {
        l->in[k] = *operand(l, k + 1u);
    }
    while (again && iteration < limit) {
        ST_TRY(while_iteration(l, &again));
        iteration++;
    }
    ST_TRY(finish_carried(l, 2));
    for (uint32_t k = 0; k < l->control->n_stacked; k++) {
        ST_TRY(stack_finish(l, k, iteration));
    }
    return STATOR_OK;
}

/* ---- scan ---- */

static stator_status scanned_begin(loop *l, uint32_t k, scanned *s)
{
    s->whole = *operand(l, l->control->n_carried + k);
    s->dtype = dtype_of(&s->whole);
    s->axis = l->control->scanned_axes[k];
    s->is_reversed = l->control->scanned_reverse[k];
    const uint32_t rank = (uint32_t)s->whole.ndim;
    for (uint32_t a = 0, b = 0; a < rank; a++) {
        if (a != s->axis) {
            s->shape[b++] = s->whole.shape[a];
        }
    }
    s->outer = product(s->whole.shape, 0, s->axis);
    s->inner = product(s->whole.shape, s->axis + 1u, rank);
    if (((uint64_t)s->inner * st_dtype_bits(s->dtype)) % 8u != 0) {
        return fail(l, STATOR_INVALID_ARGUMENT,
                    "slices of a 4-bit type must have an even number of elements");
    }
    return st_state_take(l->state, domain_of(l, &s->whole), bytes_of(s->dtype, s->outer * s->inner),
                         &s->copy, l->err);
}

/* Slice t: where it lies, or a copy when it lies in pieces or unaligned. */
static stator_status slice_of(const loop *l, const scanned *s, int64_t t, DLTensor *out)
{
    const int64_t length = s->whole.shape[s->axis];
    const int64_t at = s->is_reversed ? length - 1 - t : t;
    const uint64_t bytes = bytes_of(s->dtype, s->inner);
    char *from = (char *)s->whole.data + (uint64_t)at * bytes;
    DLTensor slice = s->whole;
    slice.ndim--;
    slice.shape = (int64_t *)(uintptr_t)s->shape;
    slice.data = from;
    if (s->outer != 1 || (uintptr_t)from % 16u != 0) {
        const uint32_t domain = domain_of(l, &s->whole);
        slice.data = s->copy;
        for (int64_t o = 0; o < s->outer; o++) {
            ST_TRY(st_state_move(l->state, domain, (char *)s->copy + (uint64_t)o * bytes, domain,
                                 from + (uint64_t)(o * length) * bytes, bytes, l->err));
        }
    }
    *out = slice;
    return STATOR_OK;
}

static stator_status scan_iteration(loop *l, int64_t t, int64_t length)
{
    const st_control *c = l->control;
    for (uint32_t k = 0; k < c->n_scanned; k++) {
        ST_TRY(slice_of(l, &l->cut[k], t, &l->in[c->n_carried + k]));
    }
    ST_TRY(run_body(l));
    for (uint32_t k = 0; k < c->n_stacked; k++) {
        stack *s = &l->stacks[k];
        const DLTensor *slice = &l->out[c->n_carried + k].view;
        if (!s->has_slice) {
            ST_TRY(stack_first(l, s, slice));
            ST_TRY(stack_reserve(l, s, length));
        }
        ST_TRY(stack_put(l, s, slice, c->stacked_reverse[k] ? length - 1 - t : t));
    }
    carry(l, 0, 0);
    give_owned(l, l->out, l->body->n_outputs);
    return STATOR_OK;
}

static stator_status run_scan(loop *l)
{
    const st_control *c = l->control;
    ST_TRY(loop_begin(l, 0));
    for (uint32_t k = 0; k < c->n_scanned; k++) {
        ST_TRY(scanned_begin(l, k, &l->cut[k]));
        if (l->cut[k].whole.shape[l->cut[k].axis] != l->cut[0].whole.shape[l->cut[0].axis]) {
            return fail(l, STATOR_INVALID_ARGUMENT,
                        "the scanned values have different lengths along their axes");
        }
    }
    for (uint32_t k = 0; k < c->n_stacked; k++) {
        l->stacks[k].axis = c->stacked_axes[k];
    }
    for (uint32_t k = 0; k < l->step->n_in; k++) {
        l->in[k] = *operand(l, k);
    }
    const int64_t length = l->cut[0].whole.shape[l->cut[0].axis];
    for (int64_t t = 0; t < length; t++) {
        ST_TRY(scan_iteration(l, t, length));
    }
    ST_TRY(finish_carried(l, 0));
    for (uint32_t k = 0; k < c->n_stacked; k++) {
        ST_TRY(stack_finish(l, k, length));
    }
    return STATOR_OK;
}

stator_status st_control_run(st_call_state *state, const st_step *step, stator_diag **err)
{
    loop l = {.state = state, .step = step, .control = step->control, .err = err};
    stator_status status = STATOR_OK;
    for (uint32_t k = 0; k < step->n_out; k++) {
        const st_slot *slot = &state->program->slots[step->out[k]];
        if (!slot->has_offset) {
            state->slots[step->out[k]].data = NULL;
        }
    }
    switch (step->kind) {
    case ST_STEP_COND:
        status = run_cond(&l);
        break;
    case ST_STEP_WHILE:
        status = run_while(&l);
        break;
    case ST_STEP_SCAN:
        status = run_scan(&l);
        break;
    default:
        status = run_once(&l, 0, 0);
        break;
    }
    loop_end(&l);
    return status;
}
