/* Control flow: cond, call, while, scan. Each runs the plans of its regions in frames of their own;
 * a frame begins with a copy of the symbols around it, and symbols of the region's input types are
 * bound from the actual shapes. What a region returns comes in blocks of the pool, which the node's
 * results or the next iteration take over.
 *
 * In: the operands of the step. Out: all its results, placed. Meanings: rows cond, while, scan and
 * call of ir/ops.def. */
#include "core/base/check.h"
#include "plugins/eager/eager_execution_plan.h"

/* Results of iterations put together along a new axis. */
typedef struct stack {
    void *data;
    uint64_t capacity_bytes;
    int64_t slice_dims[STATOR_RANK_MAX]; /* shape of an iteration's slice */
    int64_t slice_numel;
    uint32_t slice_rank;
    uint32_t dtype;
    uint32_t axis;
    int64_t length; /* along the axis, of the memory */
    int64_t used;
    uint32_t has_slice;
} stack;

typedef struct loop { /* a while or scan that runs */
    eager_frame *frame;
    const eager_step *step;
    stator_diag **err;
    uint32_t n_carried;
    uint32_t n_stacked;
    uint32_t n_in; /* inputs of the region */
    uint32_t n_out;
    ek_tensor *in;
    eager_owned *out;
    eager_owned *carried; /* data NULL: still the operand */
    stack *stacks;
    void *memory; /* memory of the four arrays */
} loop;

static stator_status no_memory(const loop *l)
{
    return eager_fail(l->frame->exe->self, l->step, l->err, STATOR_RESOURCE_EXHAUSTED,
                      "out of memory");
}

static stator_status bad_node(const loop *l, const char *what)
{
    return eager_fail(l->frame->exe->self, l->step, l->err, STATOR_INVALID_ARGUMENT, "%s", what);
}

/* ---- cond and call ---- */

static stator_status run_once(eager_frame *f, const eager_step *step, uint32_t region,
                              uint32_t first_in, stator_diag **err)
{
    const eager_execution_plan *plan = step->regions[region];
    if (plan->n_inputs + first_in != step->n_in || plan->n_outputs != step->n_out) {
        return eager_fail(f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                          "the region takes %u values and gives %u, the node has %u and %u",
                          plan->n_inputs, plan->n_outputs, step->n_in - first_in, step->n_out);
    }
    const uint64_t in_bytes = (uint64_t)plan->n_inputs * sizeof(ek_tensor);
    char *memory = eager_pool_take(&f->exe->pool,
                                   in_bytes + (uint64_t)plan->n_outputs * sizeof(eager_owned) + 1u);
    EAGER_FAIL_IF(!memory, f->exe->self, step, err, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    ek_tensor *in = (ek_tensor *)(void *)memory;
    eager_owned *out = (eager_owned *)(void *)(memory + in_bytes);
    for (uint32_t k = 0; k < plan->n_inputs; k++) {
        in[k] = f->values[step->in[first_in + k]];
    }
    stator_status status = eager_region_run(f, step, region, in, out, err);
    for (uint32_t k = 0; k < plan->n_outputs && status == STATOR_OK; k++) {
        status = eager_adopt(f, step, k, &out[k], err);
    }
    eager_give_owned(f, out, plan->n_outputs);
    eager_pool_give(&f->exe->pool, memory);
    return status;
}

static stator_status run_cond(eager_frame *f, const eager_step *step, stator_diag **err)
{
    const ek_tensor *pred = &f->values[step->in[0]];
    EAGER_FAIL_IF(pred->numel != 1, f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                  "the condition has %lld elements, expected 1", (long long)pred->numel);
    return run_once(f, step, st_load_i64(pred->dtype, pred->data, 0) ? 0 : 1, 1, err);
}

/* ---- what while and scan share ---- */

static stator_status loop_begin(loop *l)
{
    const eager_execution_plan *plan = l->step->regions[0];
    l->n_in = plan->n_inputs;
    l->n_out = plan->n_outputs;
    ST_FAIL_BY_IF(bad_node, l->n_carried + l->n_stacked != l->step->n_out, l,
                  "the attributes carried and stacked do not match the results");
    const uint64_t in_bytes = (uint64_t)l->n_in * sizeof(ek_tensor);
    const uint64_t out_bytes = (uint64_t)l->n_out * sizeof(eager_owned);
    const uint64_t carried_bytes = (uint64_t)l->n_carried * sizeof(eager_owned);
    const uint64_t stack_bytes = (uint64_t)l->n_stacked * sizeof(stack);
    const uint64_t bytes = in_bytes + out_bytes + carried_bytes + stack_bytes;
    char *memory = eager_pool_take(&l->frame->exe->pool, bytes + 1u);
    ST_FAIL_BY_IF(no_memory, !memory, l);
    memset(memory, 0, bytes);
    l->memory = memory;
    l->in = (ek_tensor *)(void *)memory;
    l->out = (eager_owned *)(void *)(memory + in_bytes);
    l->carried = (eager_owned *)(void *)(memory + in_bytes + out_bytes);
    l->stacks = (stack *)(void *)(memory + in_bytes + out_bytes + carried_bytes);
    return STATOR_OK;
}

static void loop_end(loop *l)
{
    if (!l->memory) {
        return;
    }
    eager_give_owned(l->frame, l->out, l->n_out);
    eager_give_owned(l->frame, l->carried, l->n_carried);
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        eager_pool_give(&l->frame->exe->pool, l->stacks[k].data);
    }
    eager_pool_give(&l->frame->exe->pool, l->memory);
}

static ek_tensor tensor_of(const eager_owned *owned)
{
    return (ek_tensor){owned->data, owned->dims, owned->numel, owned->dtype, owned->rank};
}

/* The region's results first..first+n_carried become the carried values of the next iteration,
 * which are the region's inputs in_first... */
static void carry(loop *l, uint32_t first, uint32_t in_first)
{
    for (uint32_t k = 0; k < l->n_carried; k++) {
        eager_pool_give(&l->frame->exe->pool, l->carried[k].data);
        l->carried[k] = l->out[first + k];
        l->out[first + k].data = NULL;
        l->in[in_first + k] = tensor_of(&l->carried[k]);
    }
}

/* Carried values become results; those of a loop that never ran are copies of the operands. */
static stator_status finish_carried(loop *l, uint32_t operand)
{
    for (uint32_t k = 0; k < l->n_carried; k++) {
        eager_owned *owned = &l->carried[k];
        if (!owned->data) {
            const ek_tensor *t = &l->frame->values[l->step->in[operand + k]];
            const uint64_t bytes = ek_bytes(t->dtype, t->numel);
            *owned = (eager_owned){.numel = t->numel, .dtype = t->dtype, .rank = t->rank};
            memcpy(owned->dims, t->dims, t->rank * sizeof *t->dims);
            owned->data = eager_pool_take(&l->frame->exe->pool, bytes);
            ST_FAIL_BY_IF(no_memory, !owned->data, l);
            memcpy(owned->data, t->data, bytes);
        }
        ST_TRY(eager_adopt(l->frame, l->step, k, owned, l->err));
    }
    return STATOR_OK;
}

/* ---- stacking ---- */

/* Memory for `length` slices; what is there is kept (axis 0 alone grows). */
static stator_status stack_reserve(loop *l, stack *s, int64_t length)
{
    uint64_t numel, bytes;
    if (!st_mul_u64((uint64_t)s->slice_numel, (uint64_t)length, &numel) ||
        !st_dtype_bytes(s->dtype, numel, &bytes)) {
        return no_memory(l);
    }
    if (s->data && bytes <= s->capacity_bytes) {
        s->length = length;
        return STATOR_OK;
    }
    void *data = eager_pool_take(&l->frame->exe->pool, bytes);
    ST_FAIL_BY_IF(no_memory, !data, l);
    if (s->data) {
        memcpy(data, s->data, ek_bytes(s->dtype, s->used * s->slice_numel));
        eager_pool_give(&l->frame->exe->pool, s->data);
    }
    s->data = data;
    s->capacity_bytes = bytes;
    s->length = length;
    return STATOR_OK;
}

static stator_status stack_first(loop *l, stack *s, const eager_owned *slice)
{
    s->dtype = slice->dtype;
    s->slice_rank = slice->rank;
    s->slice_numel = slice->numel;
    s->has_slice = 1;
    memcpy(s->slice_dims, slice->dims, slice->rank * sizeof *slice->dims);
    ST_FAIL_BY_IF(bad_node, slice->rank + 1u > STATOR_RANK_MAX || s->axis > slice->rank, l,
                  "the axis of a stacked result lies outside its rank");
    return STATOR_OK;
}

/* Copies a slice to position `at` along the axis. */
static stator_status stack_put(loop *l, stack *s, const eager_owned *slice, int64_t at)
{
    if (slice->rank != s->slice_rank ||
        memcmp(slice->dims, s->slice_dims, slice->rank * sizeof *slice->dims) != 0) {
        return bad_node(l, "a stacked result has another shape than in the iteration before; the "
                           "shapes of all iterations must be equal");
    }
    const int64_t outer = ek_product(s->slice_dims, 0, s->axis);
    const int64_t inner = ek_product(s->slice_dims, s->axis, s->slice_rank);
    ST_FAIL_BY_IF(bad_node, ((uint64_t)inner * st_dtype_bits(s->dtype)) % 8u != 0, l,
                  "slices of a 4-bit type must have an even number of elements");
    const uint64_t bytes = ek_bytes(s->dtype, inner);
    for (int64_t o = 0; o < outer; o++) {
        memcpy((char *)s->data + (uint64_t)(o * s->length + at) * bytes,
               (const char *)slice->data + (uint64_t)o * bytes, bytes);
    }
    return STATOR_OK;
}

/* The whole stack becomes result k; of a loop that never ran, sizes come from the type. */
static stator_status stack_finish(loop *l, uint32_t k, int64_t length)
{
    stack *s = &l->stacks[k];
    const uint32_t r = l->n_carried + k;
    const ek_tensor *t = &l->frame->values[l->step->out + r];
    if (!s->has_slice) {
        s->dtype = t->dtype;
        s->slice_rank = t->rank - 1u;
        s->slice_numel = 0;
        for (uint32_t a = 0, b = 0; a < t->rank; a++) {
            int64_t size = 0;
            if (a != s->axis) {
                (void)eager_eval_dim(l->frame, l->step->out + r, a, &size);
                s->slice_dims[b++] = size;
            }
        }
    }
    ST_TRY(stack_reserve(l, s, length));
    eager_owned owned = {.data = s->data,
                         .numel = s->slice_numel * length,
                         .dtype = s->dtype,
                         .rank = s->slice_rank + 1u};
    for (uint32_t a = 0, b = 0; a < owned.rank; a++) {
        owned.dims[a] = a == s->axis ? length : s->slice_dims[b++];
    }
    s->data = NULL;
    const stator_status status = eager_adopt(l->frame, l->step, r, &owned, l->err);
    eager_give_owned(l->frame, &owned, 1);
    return status;
}

/* ---- while ---- */

static stator_status while_iteration(loop *l, int64_t *out_again)
{
    ST_TRY(eager_region_run(l->frame, l->step, 0, l->in, l->out, l->err));
    ST_FAIL_BY_IF(bad_node, l->out[0].numel != 1, l, "the region's first result must be one bool");
    *out_again = st_load_i64(l->out[0].dtype, l->out[0].data, 0);
    carry(l, 1, 1);
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        stack *s = &l->stacks[k];
        const eager_owned *slice = &l->out[1u + l->n_carried + k];
        if (!s->has_slice) {
            ST_TRY(stack_first(l, s, slice));
        }
        if (s->used == s->length) {
            ST_TRY(stack_reserve(l, s, s->length ? s->length * 2 : 4));
        }
        ST_TRY(stack_put(l, s, slice, s->used));
        s->used++;
    }
    eager_give_owned(l->frame, l->out, l->n_out);
    return STATOR_OK;
}

static stator_status while_loop(loop *l)
{
    eager_frame *f = l->frame;
    if (l->n_in != l->step->n_in - 1u || l->n_out != 1u + l->n_carried + l->n_stacked) {
        return bad_node(l, "the region's inputs or results do not match the node's");
    }
    const uint32_t trips = l->step->in[0];
    const uint32_t pred = l->step->in[1];
    const int64_t limit =
        trips ? st_load_i64(f->values[trips].dtype, f->values[trips].data, 0) : INT64_MAX;
    int64_t again = pred ? st_load_i64(f->values[pred].dtype, f->values[pred].data, 0) : 1;
    int64_t iteration = 0;
    l->in[0] = (ek_tensor){&iteration, NULL, 1, STATOR_I64, 0};
    for (uint32_t k = 1; k < l->n_in; k++) {
        l->in[k] = f->values[l->step->in[k + 1u]];
    }
    while (again && iteration < limit) {
        ST_TRY(while_iteration(l, &again));
        iteration++;
    }
    ST_TRY(finish_carried(l, 2));
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        ST_TRY(stack_finish(l, k, iteration));
    }
    return STATOR_OK;
}

static stator_status run_while(eager_frame *f, const eager_step *step, stator_diag **err)
{
    loop l = {.frame = f,
              .step = step,
              .err = err,
              .n_carried = (uint32_t)step->attrs[STATOR_while_carried].i,
              .n_stacked = (uint32_t)step->attrs[STATOR_while_stacked].i};
    stator_status status = loop_begin(&l);
    ST_THEN(status, while_loop(&l));
    loop_end(&l);
    return status;
}

/* ---- scan ---- */

typedef struct scanned { /* an operand cut into slices */
    ek_tensor whole;
    uint32_t axis;
    uint32_t is_reversed;
    int64_t dims[STATOR_RANK_MAX]; /* shape of a slice */
    int64_t outer, inner;
    void *copy; /* room for one slice, NULL when slices lie in one piece */
} scanned;

static int64_t list_at(const eager_step *step, uint32_t place, uint32_t i)
{
    const ek_attr *attr = &step->attrs[place];
    return i < attr->count ? attr->ints[i] : 0;
}

static stator_status scanned_begin(loop *l, uint32_t k, scanned *s)
{
    const int64_t axis = list_at(l->step, STATOR_scan_axes, k);
    s->whole = l->frame->values[l->step->in[l->n_carried + k]];
    const int64_t rank = s->whole.rank;
    ST_FAIL_BY_IF(bad_node, rank == 0 || axis < -rank || axis >= rank, l,
                  "the axis of a scanned value lies outside its rank");
    s->axis = (uint32_t)st_normalize_axis(axis, rank);
    s->is_reversed = list_at(l->step, STATOR_scan_reverse, k) != 0;
    for (uint32_t a = 0, b = 0; a < s->whole.rank; a++) {
        if (a != s->axis) {
            s->dims[b++] = s->whole.dims[a];
        }
    }
    s->outer = ek_product(s->whole.dims, 0, s->axis);
    s->inner = ek_product(s->whole.dims, s->axis + 1u, s->whole.rank);
    ST_FAIL_BY_IF(bad_node, ((uint64_t)s->inner * st_dtype_bits(s->whole.dtype)) % 8u != 0, l,
                  "slices of a 4-bit type must have an even number of elements");
    if (s->outer > 1) {
        s->copy =
            eager_pool_take(&l->frame->exe->pool, ek_bytes(s->whole.dtype, s->outer * s->inner));
        ST_FAIL_BY_IF(no_memory, !s->copy, l);
    }
    return STATOR_OK;
}

static ek_tensor slice_of(const scanned *s, int64_t t)
{
    const int64_t length = s->whole.dims[s->axis];
    const int64_t at = s->is_reversed ? length - 1 - t : t;
    const uint64_t bytes = ek_bytes(s->whole.dtype, s->inner);
    char *from = (char *)s->whole.data + (uint64_t)at * bytes;
    for (int64_t o = 0; s->copy && o < s->outer; o++) {
        memcpy((char *)s->copy + (uint64_t)o * bytes, from + (uint64_t)(o * length) * bytes, bytes);
    }
    return (ek_tensor){s->copy ? s->copy : from, s->dims, s->outer * s->inner, s->whole.dtype,
                       s->whole.rank - 1u};
}

static stator_status scan_stack(loop *l, int64_t t, int64_t length)
{
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        stack *s = &l->stacks[k];
        const eager_owned *slice = &l->out[l->n_carried + k];
        if (!s->has_slice) {
            ST_TRY(stack_first(l, s, slice));
            ST_TRY(stack_reserve(l, s, length));
        }
        const bool reversed = list_at(l->step, STATOR_scan_out_reverse, k) != 0;
        ST_TRY(stack_put(l, s, slice, reversed ? length - 1 - t : t));
    }
    return STATOR_OK;
}

static stator_status scan_loop(loop *l, scanned *cut, uint32_t n_scanned)
{
    const uint32_t n_values = l->step->n_in;
    if (n_scanned == 0 || l->n_in != n_values || l->n_carried + n_scanned > n_values ||
        l->n_out != l->n_carried + l->n_stacked) {
        return bad_node(l, "the region's inputs or results do not match the node's");
    }
    for (uint32_t k = 0; k < n_scanned; k++) {
        ST_TRY(scanned_begin(l, k, &cut[k]));
        ST_FAIL_BY_IF(bad_node, cut[k].whole.dims[cut[k].axis] != cut[0].whole.dims[cut[0].axis], l,
                      "the scanned values have different lengths along their axes");
    }
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        const int64_t axis = list_at(l->step, STATOR_scan_out_axes, k);
        const int64_t rank = l->frame->values[l->step->out + l->n_carried + k].rank;
        l->stacks[k].axis = (uint32_t)st_normalize_axis(axis, rank);
    }
    for (uint32_t k = 0; k < n_values; k++) {
        l->in[k] = l->frame->values[l->step->in[k]];
    }
    const int64_t length = cut[0].whole.dims[cut[0].axis];
    for (int64_t t = 0; t < length; t++) {
        for (uint32_t k = 0; k < n_scanned; k++) {
            l->in[l->n_carried + k] = slice_of(&cut[k], t);
        }
        ST_TRY(eager_region_run(l->frame, l->step, 0, l->in, l->out, l->err));
        ST_TRY(scan_stack(l, t, length));
        carry(l, 0, 0);
        eager_give_owned(l->frame, l->out, l->n_out);
    }
    ST_TRY(finish_carried(l, 0));
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        ST_TRY(stack_finish(l, k, length));
    }
    return STATOR_OK;
}

static stator_status run_scan(eager_frame *f, const eager_step *step, stator_diag **err)
{
    loop l = {.frame = f,
              .step = step,
              .err = err,
              .n_carried = (uint32_t)step->attrs[STATOR_scan_carried].i,
              .n_stacked = (uint32_t)step->attrs[STATOR_scan_stacked].i};
    const int64_t n_scanned = step->attrs[STATOR_scan_scanned].i;
    ST_FAIL_BY_IF(bad_node, n_scanned < 0 || n_scanned > step->n_in, &l,
                  "the attribute scanned is not a number of operands");
    const uint64_t bytes = (uint64_t)n_scanned * sizeof(scanned);
    scanned *cut = eager_pool_take(&f->exe->pool, bytes + 1u);
    ST_FAIL_BY_IF(no_memory, !cut, &l);
    memset(cut, 0, bytes);
    stator_status status = loop_begin(&l);
    ST_THEN(status, scan_loop(&l, cut, (uint32_t)n_scanned));
    loop_end(&l);
    for (int64_t k = 0; k < n_scanned; k++) {
        eager_pool_give(&f->exe->pool, cut[k].copy);
    }
    eager_pool_give(&f->exe->pool, cut);
    return status;
}

stator_status eager_run_regions(eager_frame *frame, const eager_step *step, stator_diag **err)
{
    switch (step->kind) {
    case EAGER_STEP_COND:
        return run_cond(frame, step, err);
    case EAGER_STEP_WHILE:
        return run_while(frame, step, err);
    case EAGER_STEP_SCAN:
        return run_scan(frame, step, err);
    default:
        return run_once(frame, step, 0, 0, err);
    }
}
