/* Short programs for functions of 16-bit values.
 *
 *   before  v2 = cast f32 v1 (bf16); v3 = mul v2, 0.5; v4 = mul v2, 0.707; v5 = erf v4
 *           v6 = add v5, 1; v7 = mul v3, v6; v8 = cast bf16 v7
 *   after   v2 = cast f32 v1 (bf16); v7 = gelu v2 for bf16; v8 = cast bf16 v7
 *
 * In: a kernel as it was lowered. Out: the same, where what is a GELU of a value of 16 bits, and is
 * used rounded to the same type alone, is one instruction. The loops stay as they are. */
#include "codegen/loopir/loop_narrow.h"

#define SQRT_HALF 0.70710678118654752440

static const st_loop_inst *at(const st_kernel *kernel, st_loop_ref ref)
{
    return st_loop_at(kernel, ref);
}

static bool is_number(const st_kernel *kernel, st_loop_ref ref, double number)
{
    return at(kernel, ref)->code == ST_LOOP_CONST && at(kernel, ref)->dtype == STATOR_F32 &&
           (float)at(kernel, ref)->imm.f == (float)number;
}

/* The other factor of x times the number, or the other term of a sum with it; 0: it is none. */
static st_loop_ref other_than(const st_kernel *kernel, st_loop_ref ref, uint32_t code,
                              double number)
{
    const st_loop_inst *inst = at(kernel, ref);
    for (uint32_t k = 0; inst->code == code && k < 2; k++) {
        if (is_number(kernel, inst->args[k], number)) {
            return inst->args[1u - k];
        }
    }
    return 0;
}

/* t where the instruction is 1 + erf(t / sqrt 2), else 0. */
static st_loop_ref erf_of(const st_kernel *kernel, st_loop_ref ref)
{
    const st_loop_ref function = other_than(kernel, ref, ST_LOOP_add, 1);
    const uint32_t code = at(kernel, function)->code;
    return function && (code == ST_LOOP_erf || code == st_loop_desc(ST_LOOP_erf)->fused)
               ? other_than(kernel, at(kernel, function)->args[0], ST_LOOP_mul, SQRT_HALF)
               : 0;
}

/* t where the instruction is 0.5 t (1 + erf(t / sqrt 2)), else 0. */
static st_loop_ref gelu_of(const st_kernel *kernel, st_loop_ref ref)
{
    const st_loop_inst *product = at(kernel, ref);
    for (uint32_t k = 0; product->code == ST_LOOP_mul && k < 2; k++) {
        const st_loop_ref t = erf_of(kernel, product->args[k]);
        if (t && other_than(kernel, product->args[1u - k], ST_LOOP_mul, 0.5) == t) {
            return t;
        }
    }
    return 0;
}

/* Is the value used, and by what alone: casts to the type? 0 for dtype: by anything. */
static bool is_used(const st_kernel *kernel, st_loop_ref value, uint32_t but_for)
{
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = at(kernel, ref);
        if (inst->code != ST_LOOP_NONE && st_loop_uses(inst, value) &&
            !(but_for && inst->code == ST_LOOP_cast && inst->dtype == but_for)) {
            return true;
        }
    }
    return false;
}

static void unchain(st_kernel *kernel, st_loop_ref ref)
{
    st_loop_inst *inst = &kernel->insts.data[ref];
    st_loop_block *block = &kernel->blocks.data[inst->block];
    st_loop_ref before = 0;
    for (st_loop_ref k = block->first; k != ref; k = at(kernel, k)->next) {
        before = k;
    }
    if (before) {
        kernel->insts.data[before].next = inst->next;
    } else {
        block->first = inst->next;
    }
    block->last = block->last == ref ? before : block->last;
    *inst = (st_loop_inst){.code = ST_LOOP_NONE};
}

/* Takes scalar instructions that nobody needs out of their blocks, from these operands on. */
static void drop_unused(st_kernel *kernel, const uint32_t operands[3])
{
    for (uint32_t k = 0; k < 3; k++) {
        const st_loop_inst inst = *at(kernel, operands[k]);
        if (operands[k] && st_loop_desc(inst.code) && !is_used(kernel, operands[k], 0)) {
            unchain(kernel, operands[k]);
            drop_unused(kernel, inst.args);
        }
    }
}

/* Is the value a wider copy of one of the type? */
static bool is_of(const st_kernel *kernel, st_loop_ref value, uint32_t dtype)
{
    const st_loop_inst *inst = at(kernel, value);
    return inst->code == ST_LOOP_cast && inst->dtype == STATOR_F32 &&
           at(kernel, inst->args[0])->dtype == dtype;
}

void st_loop_narrow_functions(st_kernel *kernel)
{
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *cast = at(kernel, ref);
        const uint32_t dtype = cast->dtype;
        const st_loop_ref value = cast->args[0];
        if (cast->code != ST_LOOP_cast || (dtype != STATOR_BF16 && dtype != STATOR_F16) ||
            at(kernel, value)->dtype != STATOR_F32) {
            continue;
        }
        const st_loop_ref t = gelu_of(kernel, value);
        if (t && is_of(kernel, t, dtype) && !is_used(kernel, value, dtype)) {
            st_loop_inst *inst = &kernel->insts.data[value];
            const uint32_t operands[3] = {inst->args[0], inst->args[1], 0};
            inst->code = ST_LOOP_gelu;
            inst->args[0] = t;
            inst->args[1] = 0;
            inst->imm.i = dtype;
            drop_unused(kernel, operands);
        }
    }
}
