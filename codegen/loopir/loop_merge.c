/* Two loops become one when one holds nothing but the other and every index walks them as one.
 *
 *   before  loop i0 < N { loop i1 < 64 { ... x[64*i0 + i1] ... } }
 *   after   loop i2 < 64*N { ... x[i2] ... }
 *
 * In: a kernel whose axes have no lanes yet. Out: the same kernel with fewer loops. A library's
 * contractions are recognised in this form, and schedules begin with it. */
#include "codegen/loopir/loop_build.h"

static st_loop_inst *inst_at(const st_kernel *kernel, st_loop_ref ref)
{
    return &kernel->insts.data[ref];
}

static const st_loop_axis *axis_of(const st_kernel *kernel, st_loop_ref loop)
{
    return &kernel->axes.data[inst_at(kernel, loop)->ref];
}

/* Does every index below the block walk outer and inner as one axis? */
static bool walks_as_one(st_kernel *kernel, uint32_t block, const st_loop_axis *outer,
                         const st_loop_axis *inner)
{
    st_loop_syms *syms = kernel->syms;
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = inst_at(kernel, ref)->next) {
        const st_loop_inst *inst = inst_at(kernel, ref);
        if (inst->code == ST_LOOP_LOOP && !walks_as_one(kernel, inst->body, outer, inner)) {
            return false;
        }
        uint32_t coef[2] = {0, 0};
        uint32_t rest = 0;
        if (inst->sym == 0 || inst->code == ST_LOOP_BIND) {
            continue;
        }
        if (!st_loop_linear(syms, inst->sym, outer->symbol, &coef[0], &rest) ||
            !st_loop_linear(syms, inst->sym, inner->symbol, &coef[1], &rest) ||
            coef[0] != st_sym_mul(&syms->tab, coef[1], inner->extent)) {
            return false;
        }
    }
    return true;
}

/* Puts the merged axis instead of both; 0 beyond the limits. */
static bool rewrite(st_kernel *kernel, uint32_t block, uint32_t outer, uint32_t inner,
                    uint32_t merged)
{
    st_loop_syms *syms = kernel->syms;
    st_symtab *tab = &syms->tab;
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = inst_at(kernel, ref)->next) {
        st_loop_inst *inst = inst_at(kernel, ref);
        uint32_t coef = 0;
        uint32_t rest = 0;
        if (inst->code == ST_LOOP_LOOP && !rewrite(kernel, inst->body, outer, inner, merged)) {
            return false;
        }
        if (inst->sym == 0 || inst->code == ST_LOOP_BIND) {
            continue;
        }
        uint32_t unused = 0;
        if (!st_loop_linear(syms, inst->sym, outer, &unused, &rest) ||
            !st_loop_linear(syms, rest, inner, &coef, &rest)) {
            return false;
        }
        const uint32_t moved = st_sym_mul(tab, coef, merged);
        inst->sym = moved ? st_sym_add(tab, moved, rest) : 0;
        if (inst->sym == 0) {
            return false;
        }
    }
    return true;
}

void st_loop_set_depths(st_kernel *kernel, uint32_t block, uint32_t depth)
{
    kernel->blocks.data[block].depth = depth;
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = inst_at(kernel, ref)->next) {
        if (inst_at(kernel, ref)->code == ST_LOOP_LOOP) {
            st_loop_set_depths(kernel, inst_at(kernel, ref)->body, depth + 1u);
        }
    }
}

/* Merges the loop with the one that is all of its body, if it can; kernel->failed says when it
 * failed. */
static bool merge_with_body(st_kernel *kernel, st_loop_ref loop)
{
    const st_loop_block *body = &kernel->blocks.data[inst_at(kernel, loop)->body];
    const st_loop_ref next = body->first;
    if (next == 0 || next != body->last || inst_at(kernel, next)->code != ST_LOOP_LOOP) {
        return false;
    }
    const st_loop_axis outer = *axis_of(kernel, loop);
    const st_loop_axis inner = *axis_of(kernel, next);
    const uint32_t kinds = ST_AXIS_REDUCE | ST_AXIS_SERIAL;
    if ((outer.flags & kinds) != (inner.flags & kinds) || (outer.flags & ST_AXIS_SERIAL) ||
        !walks_as_one(kernel, inst_at(kernel, next)->body, &outer, &inner)) {
        return false;
    }
    const uint32_t extent = st_sym_mul(&kernel->syms->tab, outer.extent, inner.extent);
    if (extent == 0) {
        return false;
    }
    /* The outer loop's instruction stays; the block of the inner one becomes its body. */
    st_loop_builder b;
    st_loop_builder_init(&b, kernel);
    const uint32_t merged = st_loop_axis_add(&b, extent, outer.flags | inner.flags);
    st_loop_builder_deinit(&b);
    if (kernel->failed) {
        return false;
    }
    const uint32_t block = inst_at(kernel, next)->body;
    if (!rewrite(kernel, block, outer.symbol, inner.symbol, kernel->axes.data[merged].sym)) {
        kernel->failed = STATOR_RESOURCE_EXHAUSTED;
        return false;
    }
    inst_at(kernel, next)->code = ST_LOOP_NONE;
    inst_at(kernel, loop)->ref = merged;
    inst_at(kernel, loop)->body = block;
    kernel->axes.data[merged].block = block;
    kernel->blocks.data[block].loop = loop;
    return true;
}

static bool merge_below(st_kernel *kernel, uint32_t block)
{
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = inst_at(kernel, ref)->next) {
        if (inst_at(kernel, ref)->code != ST_LOOP_LOOP) {
            continue;
        }
        if (!merge_below(kernel, inst_at(kernel, ref)->body)) {
            return false;
        }
        while (merge_with_body(kernel, ref)) {
        }
        if (kernel->failed) {
            return false;
        }
    }
    return true;
}

bool st_kernel_merge_axes(st_kernel *kernel)
{
    if (!merge_below(kernel, 0)) {
        return false;
    }
    st_loop_set_depths(kernel, 0, 0);
    return true;
}
