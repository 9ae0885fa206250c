/* What is decided of a kernel before code is written: which loops run in lanes, how many bodies are
 * in flight, which scratch each lane needs for itself.
 *
 * A vector loop runs lane by lane (scalar) when an inner extent differs by lane, when a value of
 * lane-wise order is read inside (LAST, a READ of an accumulator from outside), or when scratch
 * cannot be made private. Scratch of which an iteration of the vector loop uses elements of its own
 * choice (their index does not hold the axis) gets `lanes` elements for each: [j] becomes
 * [j][lane]. */
#include "jit_emit.h"

/* Instructions of the bodies in flight together. A body of so many instructions takes longer
 * than an addition waits for the one before it, and each copy costs time to compile. */
#define INSTS_IN_FLIGHT 64u
#define PRIVATE_BYTES_MAX ((int64_t)128 << 10) /* stack for all private scratch of a kernel */

bool jit_is_power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1u)) == 0;
}

bool jit_is_within(const st_kernel *kernel, uint32_t block, uint32_t outer)
{
    while (block != outer && block != 0) {
        block = st_loop_at(kernel, kernel->blocks.data[block].loop)->block;
    }
    return block == outer;
}

/* ---- syms that differ by lane ---- */

typedef struct search {
    const jit_fn *f;
    uint32_t body;
    uint32_t axis; /* symbol of the vector loop, UINT32_MAX: only bound values count */
    bool found;
} search;

/* Is it the axis, or bound inside the body? */
static void note_symbol(void *self, uint32_t index)
{
    search *s = self;
    const st_kernel *kernel = s->f->kernel;
    s->found |= index == s->axis;
    if (s->f->syms->symbols.data[index].kind != ST_SYMBOL_VALUE) {
        return;
    }
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        s->found |= inst->code == ST_LOOP_BIND &&
                    inst->sym == s->f->syms->symbols.data[index].sym &&
                    jit_is_within(kernel, inst->block, s->body);
    }
}

bool jit_may_differ(const jit_fn *f, uint32_t sym, uint32_t body, uint32_t axis)
{
    search s = {f, body, axis, false};
    st_loop_each_symbol(f->syms, sym, note_symbol, &s);
    return s.found;
}

/* ---- scratch ---- */

typedef struct uses {
    uint32_t shared;  /* accesses inside the loop whose index holds the axis */
    uint32_t own;     /* accesses inside whose index does not */
    uint32_t stores;  /* inside, among `own` */
    uint32_t outside; /* the loop */
} uses;

static bool is_access(const st_loop_inst *inst)
{
    return inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE;
}

static uses uses_of(const jit_fn *f, uint32_t buffer, uint32_t body, uint32_t axis)
{
    uses u = {0, 0, 0, 0};
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        if (!is_access(inst) || inst->ref != buffer) {
            continue;
        }
        if (!jit_is_within(f->kernel, inst->block, body)) {
            u.outside++;
        } else if (jit_may_differ(f, inst->sym, body, axis)) {
            u.shared++;
        } else {
            u.own++;
            u.stores += inst->code != ST_LOOP_LOAD;
        }
    }
    return u;
}

/* Scratch that the lanes of the loop would share, though each iteration means its own: made
 * private, or 0 when that cannot be. */
static bool privatize_scratch(jit_fn *f, uint32_t body, uint32_t axis, uint32_t lanes)
{
    int64_t bytes = f->private_bytes;
    for (int is_trial = 1; is_trial >= 0; is_trial--) {
        for (uint32_t b = 0; b < f->kernel->buffers.count; b++) {
            const st_loop_buffer *buffer = &f->kernel->buffers.data[b];
            const uses u =
                buffer->flags & ST_BUFFER_LOCAL ? uses_of(f, b, body, axis) : (uses){0, 0, 0, 0};
            int64_t numel = 0;
            if (u.stores == 0) {
                continue;
            }
            if (!is_trial) {
                f->private_lanes[b] = lanes;
                continue;
            }
            (void)st_sym_const(&f->syms->tab, buffer->numel, &numel);
            bytes += numel * (int64_t)(st_element_bytes(buffer->dtype) * lanes);
            if (u.shared || u.outside || bytes > PRIVATE_BYTES_MAX) {
                return false;
            }
        }
    }
    f->private_bytes = bytes;
    return true;
}

/* ---- loops ---- */

static bool inst_can_widen(const jit_fn *f, const st_loop_inst *inst, uint32_t body, uint32_t lanes)
{
    const st_kernel *kernel = f->kernel;
    if (inst->code == ST_LOOP_LOOP) {
        return !jit_may_differ(f, kernel->axes.data[inst->ref].extent, body, UINT32_MAX);
    }
    if (inst->code != ST_LOOP_UPDATE && inst->code != ST_LOOP_READ) {
        return true;
    }
    const st_loop_inst *acc = st_loop_at(kernel, inst->ref);
    const uint32_t other = f->accs[inst->ref].lanes;
    return jit_is_within(kernel, acc->block, body) ||
           (inst->code == ST_LOOP_UPDATE && acc->imm.i != ST_ACC_LAST &&
            (other <= 1 || other == lanes));
}

static bool can_widen(const jit_fn *f, const st_loop_axis *axis, uint32_t body)
{
    if (!(axis->flags & ST_AXIS_VECTOR) || (axis->flags & ST_AXIS_SERIAL) || axis->lanes < 2 ||
        axis->lanes > JIT_LANES_MAX || !jit_is_power_of_two(axis->lanes)) {
        return false;
    }
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        if (jit_is_within(f->kernel, inst->block, body) &&
            !inst_can_widen(f, inst, body, axis->lanes)) {
            return false;
        }
    }
    return true;
}

static void claim_accumulators(jit_fn *f, uint32_t body, uint32_t lanes)
{
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        if (inst->code == ST_LOOP_UPDATE && jit_is_within(f->kernel, inst->block, body)) {
            f->accs[inst->ref].lanes = lanes;
        }
    }
}

static uint32_t unroll_of(const jit_fn *f, const st_loop_axis *axis, uint32_t body)
{
    uint32_t insts = 1;
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        insts += inst->code != ST_LOOP_CONST && jit_is_within(f->kernel, inst->block, body);
    }
    uint32_t unroll = axis->unroll < JIT_UNROLL_MAX ? axis->unroll : JIT_UNROLL_MAX;
    while (unroll > 1 && unroll * insts > INSTS_IN_FLIGHT) {
        unroll /= 2u;
    }
    return unroll ? unroll : 1;
}

static void loop_plans_of_block(jit_fn *f, uint32_t block, uint32_t is_wide)
{
    const st_kernel *kernel = f->kernel;
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code != ST_LOOP_LOOP) {
            continue;
        }
        const st_loop_axis *axis = &kernel->axes.data[inst->ref];
        jit_loop_plan *plan = &f->loop_plans[inst->ref];
        plan->unroll = unroll_of(f, axis, inst->body);
        plan->lanes = 1;
        if (!is_wide && can_widen(f, axis, inst->body) &&
            privatize_scratch(f, inst->body, axis->symbol, axis->lanes)) {
            plan->lanes = axis->lanes;
            claim_accumulators(f, inst->body, axis->lanes);
        }
        loop_plans_of_block(f, inst->body, is_wide || plan->lanes > 1);
    }
}

void jit_make_loop_plans(jit_fn *f)
{
    loop_plans_of_block(f, 0, 0);
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        f->accs[ref].lanes = 0;
    }
    for (st_loop_ref ref = 1; ref < f->kernel->insts.count; ref++) {
        if (st_loop_at(f->kernel, ref)->code == ST_LOOP_UPDATE) {
            jit_acc_plan(f, ref);
        }
    }
}
