/* Rows one behind the other: which loops of a kernel are run for two rows at once.
 *
 * A kernel over rows that writes past the caches reads memory in one of its loops and writes it in
 * the last one; done one after the other, reading waits while writing is slow, and writing while
 * there is computing to do. So the last loop of row r is run inside an earlier loop of row r + 1:
 *
 *     loop i0 parallel                     row begin: A, B
 *       A: loop i1  ... x[i0, i1]          loop i0 from begin + 1
 *       B: loop i2  local[i2] = ...          A, then { C of row i0 - 1; B } interleaved
 *       C: loop i3  out[i0, i3] = ...      row end - 1: C
 *
 * B is the loop that fills the scratch that C reads. It works when C reads of it nothing but the
 * element at its own index, which C of the old row does right before B of the new row writes it,
 * and when C and B are the same walk: extent, lanes. What C takes from its row besides (a mean) is
 * kept in slots.
 *
 * C's stores stand behind B's loads: rows of in and out often lie a multiple of 4096 bytes apart,
 * and a processor that compares the low 12 bits of addresses lets a load wait for a store before
 * it, which past the caches takes long (twice the time of softmax on Zen 4). */
#include "jit_emit.h"

static const st_loop_axis *axis_at(const jit_fn *f, st_loop_ref loop)
{
    return &f->kernel->axes.data[st_loop_at(f->kernel, loop)->ref];
}

static bool is_local(const jit_fn *f, uint32_t buffer)
{
    return (f->kernel->buffers.data[buffer].flags & ST_BUFFER_LOCAL) != 0;
}

/* May the loop be taken out of its row: no loops, accumulators or bound values in it, of scratch
 * only loads at its own index, and no loads of what the kernel writes? */
static bool may_wait(const jit_fn *f, uint32_t block, const st_loop_axis *axis)
{
    const uint32_t own = f->syms->symbols.data[axis->symbol].sym;
    for (st_loop_ref ref = f->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(f->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        const bool is_access = inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE;
        if (inst->sym && jit_may_differ(f, inst->sym, 0, UINT32_MAX)) {
            return false;
        }
        switch (inst->code) {
        case ST_LOOP_LOOP:
        case ST_LOOP_ACC:
        case ST_LOOP_UPDATE:
        case ST_LOOP_READ:
        case ST_LOOP_BIND:
            return false;
        case ST_LOOP_RARE:
            if (!may_wait(f, inst->body, axis)) {
                return false;
            }
            break;
        default:
            break;
        }
        if (is_access && is_local(f, inst->ref) &&
            (inst->code == ST_LOOP_STORE || inst->sym != own)) {
            return false;
        }
        if (inst->code == ST_LOOP_LOAD && !is_local(f, inst->ref) &&
            (f->kernel->buffers.data[inst->ref].flags & ST_BUFFER_WRITTEN)) {
            return false;
        }
    }
    return true;
}

typedef struct scratch_use {
    st_loop_ref first; /* loop of the row that touches it first; 0: none does */
    bool is_good;      /* written there alone, at the loop's own index */
    bool is_in_last;
} scratch_use;

static void note_access(const jit_fn *f, uint32_t buffer, st_loop_ref loop, st_loop_ref last,
                        scratch_use *u)
{
    const st_kernel *kernel = f->kernel;
    const uint32_t body = st_loop_at(kernel, loop)->body;
    const uint32_t own = f->syms->symbols.data[axis_at(f, loop)->symbol].sym;
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if ((inst->code != ST_LOOP_LOAD && inst->code != ST_LOOP_STORE) || inst->ref != buffer ||
            !jit_is_within(kernel, inst->block, body)) {
            continue;
        }
        u->first = u->first ? u->first : loop;
        u->is_in_last |= loop == last;
        u->is_good &= loop == u->first ? inst->sym == own : inst->code == ST_LOOP_LOAD;
    }
}

/* The loop that fills the scratch which the last one reads; 0: there is none such. */
static st_loop_ref find_filler(const jit_fn *f, uint32_t body, st_loop_ref last)
{
    const st_kernel *kernel = f->kernel;
    st_loop_ref filler = 0;
    for (uint32_t b = 0; b < kernel->buffers.count; b++) {
        scratch_use u = {0, true, false};
        for (st_loop_ref ref = kernel->blocks.data[body].first; ref && is_local(f, b);
             ref = st_loop_at(kernel, ref)->next) {
            if (st_loop_at(kernel, ref)->code == ST_LOOP_LOOP) {
                note_access(f, b, ref, last, &u);
            }
        }
        if (!u.is_in_last) {
            continue;
        }
        if (!u.is_good || u.first == last || (filler && filler != u.first)) {
            return 0;
        }
        filler = u.first;
    }
    return filler;
}

static bool same_walk(const jit_fn *f, st_loop_ref a, st_loop_ref b)
{
    const jit_loop_plan *plan_a = &f->loop_plans[st_loop_at(f->kernel, a)->ref];
    const jit_loop_plan *plan_b = &f->loop_plans[st_loop_at(f->kernel, b)->ref];
    return axis_at(f, a)->extent == axis_at(f, b)->extent && plan_a->lanes == plan_b->lanes &&
           plan_a->lanes > 1;
}

/* Notes the row's values that the block uses; 0: too many. */
static bool note_uses(const jit_fn *f, uint32_t block, uint32_t body, jit_pipeline *p)
{
    for (st_loop_ref ref = f->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(f->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t at = 0;
            if (inst->args[k] == 0 || st_loop_at(f->kernel, inst->args[k])->block != body) {
                continue;
            }
            while (at < p->n_kept && p->kept[at] != inst->args[k]) {
                at++;
            }
            if (at == JIT_KEPT_MAX) {
                return false;
            }
            p->kept[at] = inst->args[k];
            p->n_kept = at == p->n_kept ? at + 1u : p->n_kept;
        }
        if (inst->code == ST_LOOP_RARE && !note_uses(f, inst->body, body, p)) {
            return false;
        }
    }
    return true;
}

bool jit_pipeline_find(const jit_fn *f, st_loop_ref row_loop, jit_pipeline *out)
{
    const st_kernel *kernel = f->kernel;
    const uint32_t body = st_loop_at(kernel, row_loop)->body;
    const st_loop_ref last = kernel->blocks.data[body].last;
    *out = (jit_pipeline){.last = last};
    if (!f->is_streamed || f->loop_plans[st_loop_at(kernel, row_loop)->ref].lanes > 1 ||
        st_loop_at(kernel, last)->code != ST_LOOP_LOOP ||
        jit_may_differ(f, axis_at(f, last)->extent, 0, UINT32_MAX) ||
        !may_wait(f, st_loop_at(kernel, last)->body, axis_at(f, last))) {
        return false;
    }
    out->with = find_filler(f, body, last);
    return out->with != 0 && same_walk(f, last, out->with) &&
           note_uses(f, st_loop_at(kernel, last)->body, body, out);
}

/* ---- stores of the row before ---- */

void jit_pipeline_note(jit_fn *f, LLVMValueRef store)
{
    jit_pipeline *p = f->pipeline;
    if (p != NULL && p->is_in_last && p->n_late < JIT_LATE_MAX) {
        p->late[p->n_late++] = store;
    }
}

void jit_pipeline_flush_stores(jit_fn *f)
{
    jit_pipeline *p = f->pipeline;
    for (uint32_t k = 0; k < p->n_late; k++) {
        LLVMInstructionRemoveFromParent(p->late[k]);
        LLVMInsertIntoBuilder(f->u->ir, p->late[k]);
    }
    p->n_late = 0;
}
