/* The scalar operations of codegen/loopir/loop_ops.def that are native or have a libm name, on
 * scalars and vectors alike. */
#include "jit_emit.h"

#include "core/base/check.h"

typedef struct scalar {
    const st_loop_inst *inst;
    uint32_t class_; /* class of the operands */
    uint32_t dtype;  /* likewise */
    uint32_t lanes;
    LLVMValueRef x, y, z;
} scalar;

static LLVMValueRef compare(jit_fn *f, const scalar *s)
{
    static const struct {
        uint16_t code;
        LLVMIntPredicate for_signed, for_unsigned;
        LLVMRealPredicate for_float;
    } table[] = {{ST_LOOP_eq, LLVMIntEQ, LLVMIntEQ, LLVMRealOEQ},
                 {ST_LOOP_ne, LLVMIntNE, LLVMIntNE, LLVMRealUNE},
                 {ST_LOOP_lt, LLVMIntSLT, LLVMIntULT, LLVMRealOLT},
                 {ST_LOOP_le, LLVMIntSLE, LLVMIntULE, LLVMRealOLE},
                 {ST_LOOP_gt, LLVMIntSGT, LLVMIntUGT, LLVMRealOGT},
                 {ST_LOOP_ge, LLVMIntSGE, LLVMIntUGE, LLVMRealOGE}};
    const uint32_t at = s->inst->code - ST_LOOP_eq;
    _Static_assert(ST_LOOP_ge == ST_LOOP_eq + 5, "the comparisons are neighbours");
    if (s->class_ == ST_LOOP_FLOATS) {
        return LLVMBuildFCmp(f->u->ir, table[at].for_float, s->x, s->y, "");
    }
    return LLVMBuildICmp(f->u->ir,
                         s->class_ == ST_LOOP_INTS ? table[at].for_signed : table[at].for_unsigned,
                         s->x, s->y, "");
}

/* Division toward zero. Narrow vectors divide as floats wide enough to be exact; where lanes are
 * inactive the divisor may be anything. */
static LLVMValueRef quotient(jit_fn *f, const scalar *s)
{
    const LLVMBuilderRef ir = f->u->ir;
    const bool is_signed = s->class_ == ST_LOOP_INTS;
    const LLVMTypeRef type = LLVMTypeOf(s->x);
    const uint32_t bits = LLVMGetIntTypeWidth(jit_element_of(type));
    if (s->lanes > 1 && bits <= 32 && !LLVMIsConstant(s->y)) {
        const LLVMTypeRef wide = jit_like(f, bits <= 16 ? JIT_F32 : JIT_F64, s->x);
        const LLVMValueRef x =
            is_signed ? LLVMBuildSIToFP(ir, s->x, wide, "") : LLVMBuildUIToFP(ir, s->x, wide, "");
        const LLVMValueRef y =
            is_signed ? LLVMBuildSIToFP(ir, s->y, wide, "") : LLVMBuildUIToFP(ir, s->y, wide, "");
        const LLVMValueRef q = LLVMBuildFDiv(ir, x, y, "");
        return LLVMBuildFreeze(
            ir, is_signed ? LLVMBuildFPToSI(ir, q, type, "") : LLVMBuildFPToUI(ir, q, type, ""),
            "");
    }
    LLVMValueRef y = s->y;
    if (s->lanes > 1 && f->mask != NULL && !LLVMIsConstant(y)) {
        y = jit_select(f, f->mask, y, jit_int(type, 1));
    }
    return is_signed ? LLVMBuildSDiv(ir, s->x, y, "") : LLVMBuildUDiv(ir, s->x, y, "");
}

/* The exponent of an ldexp: vscalef takes the floor of it by itself. */
static LLVMValueRef scale_of(jit_fn *f, const scalar *s)
{
    const st_loop_inst *y = st_loop_at(f->kernel, s->inst->args[1]);
    return y->code == ST_LOOP_floor ? jit_inst(f, y->args[0], s->lanes) : s->y;
}

static LLVMValueRef float_op(jit_fn *f, const scalar *s)
{
    const LLVMBuilderRef ir = f->u->ir;
    static const char *const intrinsics[ST_LOOP_CODE_COUNT] = {
        [ST_LOOP_abs] = "llvm.fabs",    [ST_LOOP_ceil] = "llvm.ceil",
        [ST_LOOP_floor] = "llvm.floor", [ST_LOOP_round] = "llvm.roundeven",
        [ST_LOOP_trunc] = "llvm.trunc", [ST_LOOP_sqrt] = "llvm.sqrt"};
    static const LLVMOpcode opcodes[ST_LOOP_CODE_COUNT] = {[ST_LOOP_add] = LLVMFAdd,
                                                           [ST_LOOP_sub] = LLVMFSub,
                                                           [ST_LOOP_mul] = LLVMFMul,
                                                           [ST_LOOP_div] = LLVMFDiv};
    if (intrinsics[s->inst->code]) {
        return jit_intrinsic1(f, intrinsics[s->inst->code], s->x);
    }
    if (opcodes[s->inst->code]) {
        return LLVMBuildBinOp(ir, opcodes[s->inst->code], s->x, s->y, "");
    }
    switch (s->inst->code) {
    case ST_LOOP_lookup:
        return jit_lookup(f, s->x, (uint32_t)s->inst->imm.i);
    case ST_LOOP_neg:
        return LLVMBuildFNeg(ir, s->x, "");
    case ST_LOOP_fma:
        return jit_fma(f, s->x, s->y, s->z);
    case ST_LOOP_ldexp:
        return jit_ldexp(f, s->x, scale_of(f, s));
    case ST_LOOP_min:
    case ST_LOOP_max:
        return jit_max(f, s->x, s->y, s->inst->code == ST_LOOP_min);
    default:
        return NULL;
    }
}

static LLVMValueRef int_op(jit_fn *f, const scalar *s)
{
    const LLVMBuilderRef ir = f->u->ir;
    const bool is_signed = s->class_ == ST_LOOP_INTS;
    static const LLVMOpcode opcodes[ST_LOOP_CODE_COUNT] = {
        [ST_LOOP_add] = LLVMAdd,       [ST_LOOP_sub] = LLVMSub,   [ST_LOOP_mul] = LLVMMul,
        [ST_LOOP_bit_and] = LLVMAnd,   [ST_LOOP_bit_or] = LLVMOr, [ST_LOOP_bit_xor] = LLVMXor,
        [ST_LOOP_shift_left] = LLVMShl};
    if (opcodes[s->inst->code]) {
        return LLVMBuildBinOp(ir, opcodes[s->inst->code], s->x, s->y, "");
    }
    switch (s->inst->code) {
    case ST_LOOP_neg:
        return LLVMBuildNeg(ir, s->x, "");
    case ST_LOOP_quot:
        return quotient(f, s);
    case ST_LOOP_min:
        return jit_combine(f, ST_ACC_MIN, s->dtype, s->x, s->y);
    case ST_LOOP_max:
        return jit_combine(f, ST_ACC_MAX, s->dtype, s->x, s->y);
    case ST_LOOP_bit_not:
        return LLVMBuildNot(ir, s->x, "");
    case ST_LOOP_shift_right:
        return is_signed ? LLVMBuildAShr(ir, s->x, s->y, "") : LLVMBuildLShr(ir, s->x, s->y, "");
    default:
        return NULL;
    }
}

static LLVMValueRef any_op(jit_fn *f, const scalar *s)
{
    const LLVMBuilderRef ir = f->u->ir;
    const uint32_t to = s->inst->dtype;
    LLVMValueRef args[3] = {s->x, s->y, s->z};
    const st_loop_op_desc *desc = st_loop_desc(s->inst->code);
    switch (s->inst->code) {
    case ST_LOOP_eq:
    case ST_LOOP_ne:
    case ST_LOOP_lt:
    case ST_LOOP_le:
    case ST_LOOP_gt:
    case ST_LOOP_ge:
        return compare(f, s);
    case ST_LOOP_select:
        return jit_select(f, s->x, s->y, s->z);
    case ST_LOOP_cast:
        return jit_cast(f, to, s->dtype, s->x, s->inst->imm.i == 0);
    case ST_LOOP_bitcast:
        return LLVMBuildBitCast(ir, s->x, jit_wide(jit_type_of(f, to), s->lanes), "");
    default:
        return desc->libm && s->class_ == ST_LOOP_FLOATS ? jit_math(f, desc, s->dtype, args) : NULL;
    }
}

/* ---- constants ---- */

/* Rows that become an instruction one operand of which may lie in memory. */
static bool may_read(uint32_t code)
{
    return code == ST_LOOP_add || code == ST_LOOP_sub || code == ST_LOOP_mul || code == ST_LOOP_fma;
}

/* With AVX2 LLVM broadcasts a constant from a scalar inside the loop when registers run out: one
 * instruction more for most coefficients of a polynomial, which fill the window in which the
 * processor looks for work. A vector loaded before the loops, from memory that LLVM does not know
 * to be constant, becomes an operand in memory instead. AVX-512 has more registers, and broadcasts
 * what it reads. */
static LLVMValueRef kept(jit_fn *f, LLVMValueRef v)
{
    const jit_unit *u = f->u;
    const uint64_t key = (uint64_t)(uintptr_t)v;
    if (u->features.has_avx512 || u->request->vector_bytes < 32 ||
        u->request->tier == JIT_TIER_FAST || jit_lanes_of(v) < 2 || !LLVMIsConstant(v)) {
        return v;
    }
    LLVMValueRef load = jit_memo_get(f, JIT_MEMO_CONSTANT, key);
    if (load == NULL) {
        const LLVMTypeRef type = LLVMTypeOf(v);
        const LLVMValueRef global = LLVMAddGlobal(u->module, type, "");
        LLVMSetInitializer(global, v);
        LLVMSetLinkage(global, LLVMInternalLinkage);
        jit_at(f, 0);
        load = LLVMBuildLoad2(u->ir, type, global, "");
        jit_here(f);
        jit_set_invariant(f, load);
        jit_memo_put(f, JIT_MEMO_CONSTANT, key, 0, load);
    }
    return load;
}

/* ---- instructions ---- */

/* Lanes of an instruction: those of its widest operand. */
static uint32_t inst_lanes(jit_fn *f, const st_loop_inst *inst, uint32_t arity)
{
    uint32_t lanes = 1;
    for (uint32_t k = 0; k < arity; k++) {
        const uint32_t n = inst->args[k] ? jit_lanes_of(jit_inst(f, inst->args[k], 1)) : 1;
        lanes = n > lanes ? n : lanes;
    }
    return lanes;
}

void jit_scalar(jit_fn *f, st_loop_ref ref)
{
    const st_kernel *kernel = f->kernel;
    const st_loop_inst *inst = st_loop_at(kernel, ref);
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    if (desc == NULL) {
        (void)jit_fail(f->u, STATOR_INTERNAL, "kernel '%s': instruction %%%u has no known code",
                       kernel->name, ref);
        return;
    }
    scalar s = {.inst = inst, .lanes = inst_lanes(f, inst, desc->arity)};
    LLVMValueRef *const operands[3] = {&s.x, &s.y, &s.z};
    for (uint32_t k = 0; k < desc->arity; k++) {
        *operands[k] = jit_inst(f, inst->args[k], s.lanes);
    }
    s.dtype = st_loop_at(kernel, inst->args[desc->arity - 1u])->dtype;
    s.class_ = st_loop_class_of(s.dtype);
    for (uint32_t k = 0; s.class_ == ST_LOOP_FLOATS && may_read(inst->code) && k < desc->arity;
         k++) {
        *operands[k] = kept(f, *operands[k]);
    }
    LLVMValueRef v = any_op(f, &s);
    if (v == NULL) {
        v = s.class_ == ST_LOOP_FLOATS ? float_op(f, &s) : int_op(f, &s);
    }
    if (v == NULL) {
        (void)jit_fail(f->u, STATOR_UNSUPPORTED,
                       "kernel '%s': '%s' of %s is not spelled by this emitter and was not "
                       "expanded",
                       kernel->name, desc->name, st_dtype_name(s.dtype));
        v = jit_poison(jit_wide(jit_type_of(f, inst->dtype), s.lanes));
    }
    f->values[ref] = v;
}
