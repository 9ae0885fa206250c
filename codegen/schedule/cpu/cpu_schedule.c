/* The CPU's schedule: axes merged, the vector axis chosen, streaming stores marked.
 *
 *   before  loop i0 < N { loop i1 < 64 { ... x[64*i0 + i1] ... } }
 *   after   loop i2 < 64*N parallel vector 16 { ... x[i2] ... }
 *
 * The vector axis is either that of each innermost loop or that of the innermost loop around
 * them (columns of a reduction over rows): whichever has more accesses of stride one. */
#include "codegen/schedule/cpu/cpu_schedule.h"

#define WIDE_COLUMNS 4u     /* adjacent vectors in a loop around a reduction */
#define REDUCE_IN_FLIGHT 4u /* accumulators of a reduction over the vector axis */
#define DEPTH_MAX 8u

typedef struct schedule {
    const st_target *target;
    st_kernel *kernel;
} schedule;

static st_loop_inst *inst_at(const schedule *s, st_loop_ref ref)
{
    return &s->kernel->insts.data[ref];
}

static const st_loop_axis *axis_of(const schedule *s, st_loop_ref loop)
{
    return &s->kernel->axes.data[inst_at(s, loop)->ref];
}

/* ---- the vector axis ---- */

/* Does an instruction with the code stand in the block itself? */
static bool holds(const schedule *s, uint32_t block, uint32_t code)
{
    for (st_loop_ref ref = s->kernel->blocks.data[block].first; ref; ref = inst_at(s, ref)->next) {
        if (inst_at(s, ref)->code == code) {
            return true;
        }
    }
    return false;
}

/* Bytes of an element in registers: what is only stored is f32 there. */
static uint32_t bytes_of(uint32_t dtype)
{
    const uint32_t computed = ST_LOOP_BOOLS | ST_LOOP_INTS | ST_LOOP_UINTS | ST_LOOP_FLOATS;
    return st_loop_class_of(dtype) & computed ? st_element_bytes(dtype) : 4u;
}

/* Is the load an index into a buffer, and nothing else? */
static bool is_index(const schedule *s, st_loop_ref load)
{
    bool is_bound = false;
    for (st_loop_ref ref = load + 1u; ref < s->kernel->insts.count; ref++) {
        const st_loop_inst *inst = inst_at(s, ref);
        const bool is_user = st_loop_uses(inst, load);
        if (is_user && inst->code != ST_LOOP_BIND) {
            return false;
        }
        is_bound = is_bound || is_user;
    }
    return is_bound;
}

/* The widest type that the instructions below compute in, index values apart. */
static uint32_t widest_below(const schedule *s, uint32_t block)
{
    uint32_t widest = 1;
    for (st_loop_ref ref = s->kernel->blocks.data[block].first; ref; ref = inst_at(s, ref)->next) {
        const st_loop_inst *inst = inst_at(s, ref);
        uint32_t bytes = inst->dtype && inst->dtype != STATOR_I64 ? bytes_of(inst->dtype) : 1;
        if (inst->code == ST_LOOP_LOOP) {
            bytes = widest_below(s, inst->body);
        } else if (inst->code == ST_LOOP_STORE ||
                   (inst->code == ST_LOOP_LOAD && !is_index(s, ref))) {
            bytes = bytes_of(s->kernel->buffers.data[inst->ref].dtype);
        }
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

/* The widest of them that loops compute in: what stands outside of loops is no lane's. */
static uint32_t widest_in_loops(const schedule *s)
{
    uint32_t widest = 1;
    for (st_loop_ref ref = s->kernel->blocks.data[0].first; ref; ref = inst_at(s, ref)->next) {
        const st_loop_inst *inst = inst_at(s, ref);
        const uint32_t bytes = inst->code == ST_LOOP_LOOP ? widest_below(s, inst->body) : 1u;
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

static bool is_memory(const st_loop_inst *inst)
{
    return inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE;
}

/* How well one access suits vectors along the axis: stride one, the same element, or scattered. */
static int64_t fitness(const schedule *s, const st_loop_inst *inst, const st_loop_axis *axis)
{
    uint32_t coef = 0;
    uint32_t rest = 0;
    int64_t stride = 0;
    if (!st_loop_linear(s->kernel->syms, inst->sym, axis->symbol, &coef, &rest) ||
        !st_sym_const(&s->kernel->syms->tab, coef, &stride)) {
        return -2;
    }
    if (stride == 0) {
        return inst->code == ST_LOOP_LOAD ? 1 : 0;
    }
    return stride == 1 ? 2 : -2;
}

/* Sum over the accesses below; those in deeper loops count more. */
static int64_t gain_below(const schedule *s, uint32_t block, const st_loop_axis *axis,
                          int64_t weight)
{
    int64_t gain = 0;
    for (st_loop_ref ref = s->kernel->blocks.data[block].first; ref; ref = inst_at(s, ref)->next) {
        const st_loop_inst *inst = inst_at(s, ref);
        if (inst->code == ST_LOOP_LOOP) {
            const int64_t deeper = weight < (1 << 24) ? weight * 16 : weight;
            gain += gain_below(s, inst->body, axis, deeper);
        } else if (is_memory(inst)) {
            gain += weight * fitness(s, inst, axis);
        }
    }
    return gain;
}

/* A short axis leaves lanes empty: its gain shrinks with them. */
static int64_t gain_of(const schedule *s, st_loop_ref loop, uint32_t lanes)
{
    const st_loop_axis *axis = axis_of(s, loop);
    const st_loop_inst *inst = inst_at(s, loop);
    const uint32_t depth = s->kernel->blocks.data[inst->body].depth;
    int64_t weight = 1;
    for (uint32_t k = 1; k < depth && k < DEPTH_MAX - 1u; k++) {
        weight *= 16;
    }
    const int64_t gain = gain_below(s, inst->body, axis, weight * 16);
    int64_t extent = 0;
    if (gain > 0 && st_sym_const(&s->kernel->syms->tab, axis->extent, &extent) &&
        extent < (int64_t)lanes) {
        return gain * (extent > 0 ? extent : 1) / (int64_t)lanes;
    }
    return gain;
}

typedef struct choice {
    int64_t inner; /* gain of all innermost loops together */
    int64_t outer; /* gain of the best loop around innermost ones */
    st_loop_ref outer_loop;
    uint32_t has_serial;
} choice;

/* Is scratch used below whose index does not follow the axis? Lanes would meet in it. */
static bool shares_scratch(const schedule *s, uint32_t block, uint32_t symbol)
{
    for (st_loop_ref ref = s->kernel->blocks.data[block].first; ref; ref = inst_at(s, ref)->next) {
        const st_loop_inst *inst = inst_at(s, ref);
        if (inst->code == ST_LOOP_LOOP && shares_scratch(s, inst->body, symbol)) {
            return true;
        }
        if (inst->code == ST_LOOP_STORE &&
            (s->kernel->buffers.data[inst->ref].flags & ST_BUFFER_LOCAL) &&
            !st_loop_mentions(s->kernel->syms, inst->sym, symbol)) {
            return true;
        }
    }
    return false;
}

static void look_at_loops(const schedule *s, uint32_t block, uint32_t lanes, choice *c)
{
    for (st_loop_ref ref = s->kernel->blocks.data[block].first; ref; ref = inst_at(s, ref)->next) {
        const st_loop_inst *inst = inst_at(s, ref);
        if (inst->code != ST_LOOP_LOOP) {
            continue;
        }
        if (axis_of(s, ref)->flags & ST_AXIS_SERIAL) {
            c->has_serial = 1;
        }
        if (!holds(s, inst->body, ST_LOOP_LOOP)) {
            c->inner += gain_of(s, ref, lanes);
            continue;
        }
        const int64_t gain = gain_of(s, ref, lanes);
        const bool is_outer = !(axis_of(s, ref)->flags & (ST_AXIS_REDUCE | ST_AXIS_SERIAL)) &&
                              !shares_scratch(s, inst->body, axis_of(s, ref)->symbol);
        if (is_outer && (c->outer_loop == 0 || gain > c->outer)) {
            c->outer = gain;
            c->outer_loop = ref;
        }
        look_at_loops(s, inst->body, lanes, c);
    }
}

static void make_vector(const schedule *s, st_loop_ref loop, uint32_t lanes, uint32_t unroll)
{
    st_loop_axis *axis = &s->kernel->axes.data[inst_at(s, loop)->ref];
    axis->flags |= ST_AXIS_VECTOR;
    axis->lanes = lanes;
    axis->unroll = unroll;
}

static void vectorise_innermost(const schedule *s, uint32_t block)
{
    for (st_loop_ref ref = s->kernel->blocks.data[block].first; ref; ref = inst_at(s, ref)->next) {
        const st_loop_inst *inst = inst_at(s, ref);
        if (inst->code != ST_LOOP_LOOP) {
            continue;
        }
        if (holds(s, inst->body, ST_LOOP_LOOP)) {
            vectorise_innermost(s, inst->body);
            continue;
        }
        const int64_t extent =
            st_loop_known_or(&s->kernel->syms->tab, axis_of(s, ref)->extent, INT64_MAX);
        uint32_t lanes = s->target->vector_bytes / widest_below(s, inst->body);
        while ((axis_of(s, ref)->flags & ST_AXIS_REDUCE) && lanes > 2 && lanes / 2 >= extent) {
            lanes /= 2; /* a short row, read again and again */
        }
        if (lanes > 1 && extent > 1 && !(axis_of(s, ref)->flags & ST_AXIS_SERIAL)) {
            const bool is_long = extent >= (int64_t)(lanes * REDUCE_IN_FLIGHT);
            const uint32_t unroll =
                is_long && holds(s, inst->body, ST_LOOP_UPDATE) ? REDUCE_IN_FLIGHT : 1u;
            make_vector(s, ref, lanes, unroll);
        }
    }
}

static void choose_vector(const schedule *s)
{
    const uint32_t width = s->target->vector_bytes;
    if (width == 0) {
        return;
    }
    choice c = {0, INT64_MIN, 0, 0};
    const uint32_t lanes = width / widest_in_loops(s);
    look_at_loops(s, 0, lanes, &c);
    /* Around steps that go in order lanes are rows, unless each access would be scattered. */
    const bool is_inner = c.has_serial ? c.outer < 0 : c.inner >= c.outer;
    if (c.outer_loop == 0 || is_inner || lanes < 2) {
        vectorise_innermost(s, 0);
        return;
    }
    const int64_t extent =
        st_loop_known_or(&s->kernel->syms->tab, axis_of(s, c.outer_loop)->extent, INT64_MAX);
    if (extent > 1) {
        const bool is_wide = extent >= (int64_t)(lanes * WIDE_COLUMNS);
        make_vector(s, c.outer_loop, is_wide ? lanes * WIDE_COLUMNS : lanes, 1);
    }
}

/* ---- stores past the caches ---- */

static void mark_streamed(const schedule *s)
{
    const uint64_t l3 = s->target->l3_bytes;
    for (uint32_t i = 0; i < s->kernel->buffers.count && l3 > 0; i++) {
        st_loop_buffer *buffer = &s->kernel->buffers.data[i];
        int64_t numel = 0;
        if ((buffer->flags & (ST_BUFFER_READ | ST_BUFFER_LOCAL)) == 0 &&
            st_sym_const(&s->kernel->syms->tab, buffer->numel, &numel) &&
            (uint64_t)numel * bytes_of(buffer->dtype) > l3) {
            buffer->flags |= ST_BUFFER_STREAMED;
        }
    }
}

stator_status st_cpu_schedule(const st_target *target, st_kernel *kernel, stator_diag **err)
{
    const schedule s = {target, kernel};
    ST_TRY_MEM(cg_order_reductions(kernel) && st_kernel_merge_axes(kernel), err);
    choose_vector(&s);
    ST_TRY(cg_unroll_and_jam(target, kernel, err));
    ST_TRY_MEM(cg_widen_long_sums(kernel), err);
    mark_streamed(&s);
    return st_kernel_verify(kernel, err);
}
