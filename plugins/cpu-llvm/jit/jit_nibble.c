/* Loads of integers of four bits, two a byte, the element of even index in the low ones. In
 * registers they are bytes.
 *
 *   index over the lanes              load
 *   the same                          one byte
 *   one element a lane, from an even  half as many bytes, each for two lanes
 *   anything else                     gather
 */
#include "jit_emit.h"

typedef struct nibbles {
    const st_loop_inst *inst;
    uint32_t lanes;    /* lanes of the result, 1: the same in all */
    LLVMValueRef mask; /* lanes that count, NULL: all */
} nibbles;

static bool is_signed(const jit_fn *f, const nibbles *n)
{
    return f->kernel->buffers.data[n->inst->ref].dtype == STATOR_I4;
}

/* The four bits of each byte from `shift` on. */
static LLVMValueRef taken(jit_fn *f, const nibbles *n, LLVMValueRef bytes, LLVMValueRef shift)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(bytes);
    const LLVMValueRef sign = jit_int(type, 8);
    LLVMValueRef v = LLVMBuildLShr(ir, bytes, shift, "");
    v = LLVMBuildAnd(ir, v, jit_int(type, 15), "");
    return is_signed(f, n) ? LLVMBuildSub(ir, LLVMBuildXor(ir, v, sign, ""), sign, "") : v;
}

/* Where the elements of an index (or of a vector of them) lie: their bytes, and the bit in them. */
static LLVMValueRef address_of(jit_fn *f, const nibbles *n, LLVMValueRef index,
                               LLVMValueRef *out_shift)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(index);
    const LLVMValueRef byte = LLVMBuildAShr(ir, index, jit_int(type, 1), "");
    LLVMValueRef odd = LLVMBuildAnd(ir, index, jit_int(type, 1), "");
    odd = LLVMBuildTrunc(ir, odd, jit_like(f, JIT_I8, odd), "");
    *out_shift = LLVMBuildShl(ir, odd, jit_int(LLVMTypeOf(odd), 2), "");
    return jit_element(f, f->u->types[JIT_I8], f->buffers[n->inst->ref], byte);
}

static LLVMValueRef load_one(jit_fn *f, const nibbles *n)
{
    LLVMValueRef shift = NULL;
    const LLVMValueRef at = address_of(f, n, jit_sym(f, n->inst->sym), &shift);
    return taken(f, n, jit_load_at(f, f->u->types[JIT_I8], at, 1, n->inst->ref), shift);
}

/* One element where the mask, of one lane, holds; else 0. */
static LLVMValueRef load_one_if(jit_fn *f, const nibbles *n)
{
    (void)jit_sym(f, n->inst->sym); /* before the branch, for later instructions */
    const jit_if on = jit_begin_if(f, n->mask, false);
    return jit_end_if(f, &on, load_one(f, n), jit_int(f->u->types[JIT_I8], 0));
}

/* All lanes, contiguous from an even element on. */
static LLVMValueRef load_run(jit_fn *f, const nibbles *n)
{
    LLVMValueRef twice[JIT_LANES_MAX];
    LLVMValueRef shifts[JIT_LANES_MAX];
    LLVMValueRef shift = NULL;
    const LLVMTypeRef i8 = f->u->types[JIT_I8];
    const LLVMValueRef at = address_of(f, n, jit_sym(f, n->inst->sym), &shift);
    const LLVMValueRef bytes = jit_load_at(f, jit_wide(i8, n->lanes / 2u), at, 1, n->inst->ref);
    for (uint32_t i = 0; i < n->lanes; i++) {
        twice[i] = jit_i32(f, n->lanes > 2u ? i / 2u : 0);
        shifts[i] = LLVMConstInt(i8, i % 2u * 4u, 0);
    }
    const LLVMValueRef splat =
        n->lanes > 2u ? jit_shuffle(f, bytes, twice, n->lanes) : jit_splat(f, bytes);
    return taken(f, n, splat, LLVMConstVector(shifts, n->lanes));
}

static LLVMValueRef gather(jit_fn *f, const nibbles *n)
{
    LLVMValueRef shift = NULL;
    const LLVMTypeRef type = jit_wide(f->u->types[JIT_I8], n->lanes);
    const LLVMValueRef at = address_of(f, n, jit_vsym(f, n->inst->sym, true), &shift);
    const LLVMValueRef bytes = jit_gather(f, at, n->mask, LLVMConstNull(type), 1);
    return taken(f, n, bytes, shift);
}

/* `v` where the instruction's mask holds, else what the instruction says, 0 where it says
 * nothing. */
static LLVMValueRef chosen(jit_fn *f, const nibbles *n, LLVMValueRef v)
{
    const st_loop_ref mask = n->inst->args[0];
    const st_loop_ref other = mask ? n->inst->args[1] : 0;
    const bool is_wide = (other && jit_lanes_of(jit_inst(f, other, 1)) > 1) ||
                         (mask && jit_lanes_of(jit_inst(f, mask, 1)) > 1);
    const uint32_t lanes = n->lanes > 1 || is_wide ? f->lanes : 1;
    if (other == 0 && (n->lanes > 1 || !is_wide)) {
        return v; /* lanes that are not loaded are 0 already, or unused */
    }
    v = n->lanes == 1 && lanes > 1 ? jit_splat(f, v) : v;
    const LLVMValueRef otherwise = other ? jit_inst(f, other, lanes) : LLVMConstNull(LLVMTypeOf(v));
    return jit_select(f, jit_inst(f, mask, lanes), v, otherwise);
}

void jit_load_nibbles(jit_fn *f, st_loop_ref ref)
{
    int64_t coef = 0;
    nibbles n = {.inst = st_loop_at(f->kernel, ref), .lanes = 1};
    const uint32_t shape = jit_sym_shape(f, n.inst->sym, &coef);
    const st_loop_ref mask = n.inst->args[0];
    LLVMValueRef v;
    if (shape == JIT_UNIFORM) {
        const uint32_t lanes = mask ? jit_lanes_of(jit_inst(f, mask, 1)) : 1;
        n.mask = jit_active(f, mask, lanes);
        n.mask = jit_bounds(f, ref, 1, n.mask && lanes > 1 ? jit_any(f, n.mask) : n.mask);
        v = n.mask ? load_one_if(f, &n) : load_one(f, &n);
    } else {
        n.lanes = f->lanes;
        n.mask = jit_bounds(f, ref, f->lanes, jit_active(f, mask, f->lanes));
        const bool is_run = shape == JIT_LINEAR && coef == 1 && n.mask == NULL &&
                            jit_sym_divisor(f, n.inst->sym) % 2 == 0;
        v = is_run ? load_run(f, &n) : gather(f, &n);
    }
    f->values[ref] = chosen(f, &n, v);
}
