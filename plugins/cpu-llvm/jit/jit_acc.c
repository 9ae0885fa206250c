/* Accumulators: stack slots that become registers when LLVM's mem2reg has run.
 *
 *   declared inside the vector loop      a vector, each lane a result of its own
 *   declared outside, updated inside     a vector whose lanes meet at READ, by halves
 *   else                                 a scalar
 *
 * Unrolled bodies update copies of their own, so that additions do not wait for each other. NaN
 * wins in MIN and MAX; of ARGMIN and ARGMAX the smallest index of equal values (or of NaNs). */
#include "jit_emit.h"

#include <math.h>

static bool is_arg(uint32_t kind)
{
    return kind == ST_ACC_ARGMIN || kind == ST_ACC_ARGMAX;
}

/* x86's max(a, b) is a > b ? a : b, which loses a's NaN alone. With a constant the compiler makes
 * one instruction of the two conditions; otherwise a canonical NaN is put over it, so that it does
 * not merge them into more. Same values as eager's, zeros included. */
LLVMValueRef jit_max(jit_fn *f, LLVMValueRef a, LLVMValueRef b, bool want_min)
{
    const LLVMBuilderRef ir = f->u->ir;
    const bool is_bounded = LLVMIsConstant(a) || LLVMIsConstant(b);
    const LLVMValueRef first = LLVMBuildFCmp(ir, want_min ? LLVMRealOLT : LLVMRealOGT, a, b, "");
    const LLVMValueRef is_nan = LLVMBuildFCmp(ir, LLVMRealUNO, a, a, "");
    const LLVMValueRef nan = is_bounded ? a : jit_real(LLVMTypeOf(a), (double)NAN);
    return jit_select(f, is_nan, nan, jit_select(f, first, a, b));
}

/* ---- lanes and copies ---- */

void jit_acc_plan(jit_fn *f, st_loop_ref ref)
{
    const st_kernel *kernel = f->kernel;
    const st_loop_inst *update = st_loop_at(kernel, ref);
    const st_loop_inst *inst = st_loop_at(kernel, update->ref);
    jit_acc *acc = &f->accs[update->ref];
    uint32_t is_inside = 1;
    acc->copies = acc->copies ? acc->copies : 1;
    acc->lanes = acc->lanes ? acc->lanes : 1;
    for (uint32_t b = update->block; b != 0;) {
        const st_loop_inst *loop = st_loop_at(kernel, kernel->blocks.data[b].loop);
        const jit_loop_plan *plan = &f->loop_plans[loop->ref]; /* RARE bodies hold no UPDATE */
        is_inside &= b != inst->block;
        if (plan->lanes > 1) {
            acc->lanes = plan->lanes;
            acc->is_combined |= is_inside;
        }
        if (is_inside && plan->unroll > acc->copies && inst->imm.i != ST_ACC_LAST &&
            (kernel->axes.data[loop->ref].flags & ST_AXIS_REDUCE)) {
            acc->copies = plan->unroll;
        }
        b = loop->block;
    }
}

/* ---- values ---- */

static LLVMValueRef int_limit(LLVMTypeRef type, uint32_t dtype, bool want_max)
{
    const uint32_t bits = LLVMGetIntTypeWidth(jit_element_of(type));
    if (st_loop_class_of(dtype) == ST_LOOP_INTS) {
        const uint64_t least = UINT64_C(1) << (bits - 1u);
        return jit_int(type, (int64_t)(want_max ? least - 1u : UINT64_MAX - least + 1u));
    }
    return jit_int(type, want_max ? -1 : 0);
}

LLVMValueRef jit_identity(jit_fn *f, uint32_t kind, uint32_t dtype, LLVMTypeRef type)
{
    (void)f;
    switch (kind) {
    case ST_ACC_PROD:
        return jit_is_float(dtype) ? jit_real(type, 1.0) : jit_int(type, 1);
    case ST_ACC_MIN:
    case ST_ACC_ARGMIN:
        return jit_is_float(dtype) ? jit_real(type, (double)INFINITY)
                                   : int_limit(type, dtype, true);
    case ST_ACC_MAX:
    case ST_ACC_ARGMAX:
        return jit_is_float(dtype) ? jit_real(type, -(double)INFINITY)
                                   : int_limit(type, dtype, false);
    case ST_ACC_ALL:
        return jit_int(type, -1);
    default:
        return LLVMConstNull(type);
    }
}

static LLVMValueRef combine_ints(jit_fn *f, uint32_t kind, uint32_t dtype, LLVMValueRef a,
                                 LLVMValueRef b)
{
    const LLVMBuilderRef ir = f->u->ir;
    const bool is_signed = st_loop_class_of(dtype) == ST_LOOP_INTS;
    switch (kind) {
    case ST_ACC_SUM:
        return dtype == STATOR_BOOL ? LLVMBuildOr(ir, a, b, "") : LLVMBuildAdd(ir, a, b, "");
    case ST_ACC_PROD:
        return LLVMBuildMul(ir, a, b, "");
    case ST_ACC_MIN:
        return dtype == STATOR_BOOL
                   ? LLVMBuildAnd(ir, a, b, "")
                   : jit_intrinsic2(f, is_signed ? "llvm.smin" : "llvm.umin", a, b);
    default:
        return dtype == STATOR_BOOL
                   ? LLVMBuildOr(ir, a, b, "")
                   : jit_intrinsic2(f, is_signed ? "llvm.smax" : "llvm.umax", a, b);
    }
}

LLVMValueRef jit_combine(jit_fn *f, uint32_t kind, uint32_t dtype, LLVMValueRef a, LLVMValueRef b)
{
    const LLVMBuilderRef ir = f->u->ir;
    if (kind == ST_ACC_LAST) {
        return b;
    }
    if (kind == ST_ACC_ANY) {
        return LLVMBuildOr(ir, a, b, "");
    }
    if (kind == ST_ACC_ALL) {
        return LLVMBuildAnd(ir, a, b, "");
    }
    if (!jit_is_float(dtype)) {
        return combine_ints(f, kind, dtype, a, b);
    }
    if (kind == ST_ACC_MIN || kind == ST_ACC_MAX) {
        return jit_max(f, b, a, kind == ST_ACC_MIN); /* the test for NaN is off the chain of a */
    }
    const LLVMValueRef v =
        kind == ST_ACC_SUM ? LLVMBuildFAdd(ir, a, b, "") : LLVMBuildFMul(ir, a, b, "");
    if (LLVMIsAInstruction(v)) {
        LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc);
    }
    return v;
}

typedef struct pair {
    LLVMValueRef value;
    LLVMValueRef index;
} pair;

/* i1: b comes before a. */
static LLVMValueRef is_better(jit_fn *f, uint32_t kind, uint32_t dtype, pair a, pair b)
{
    const LLVMBuilderRef ir = f->u->ir;
    const bool want_max = kind == ST_ACC_ARGMAX;
    const LLVMValueRef is_earlier = LLVMBuildICmp(ir, LLVMIntSLT, b.index, a.index, "");
    if (!jit_is_float(dtype)) {
        const bool is_signed = st_loop_class_of(dtype) == ST_LOOP_INTS;
        const LLVMIntPredicate p = want_max ? (is_signed ? LLVMIntSGT : LLVMIntUGT)
                                            : (is_signed ? LLVMIntSLT : LLVMIntULT);
        const LLVMValueRef same = LLVMBuildICmp(ir, LLVMIntEQ, b.value, a.value, "");
        return LLVMBuildOr(ir, LLVMBuildICmp(ir, p, b.value, a.value, ""),
                           LLVMBuildAnd(ir, same, is_earlier, ""), "");
    }
    /* Unordered counts as better, unless a is NaN already; then only an earlier NaN is. */
    const LLVMValueRef a_nan = LLVMBuildFCmp(ir, LLVMRealUNO, a.value, a.value, "");
    const LLVMValueRef b_nan = LLVMBuildFCmp(ir, LLVMRealUNO, b.value, b.value, "");
    const LLVMValueRef beats =
        LLVMBuildFCmp(ir, want_max ? LLVMRealUGT : LLVMRealULT, b.value, a.value, "");
    const LLVMValueRef is_new = LLVMBuildAnd(ir, beats, LLVMBuildNot(ir, a_nan, ""), "");
    const LLVMValueRef same = LLVMBuildOr(ir, LLVMBuildFCmp(ir, LLVMRealOEQ, b.value, a.value, ""),
                                          LLVMBuildAnd(ir, a_nan, b_nan, ""), "");
    return LLVMBuildOr(ir, is_new, LLVMBuildAnd(ir, same, is_earlier, ""), "");
}

static pair choose(jit_fn *f, LLVMValueRef mask, pair yes, pair no)
{
    return (pair){jit_select(f, mask, yes.value, no.value),
                  yes.index ? jit_select(f, mask, yes.index, no.index) : NULL};
}

static pair combine(jit_fn *f, const st_loop_inst *inst, pair a, pair b)
{
    const uint32_t kind = (uint32_t)inst->imm.i;
    if (is_arg(kind)) {
        return choose(f, is_better(f, kind, inst->dtype, a, b), b, a);
    }
    return (pair){jit_combine(f, kind, inst->dtype, a.value, b.value), NULL};
}

/* ---- slots ---- */

static pair load_copy(jit_fn *f, const st_loop_inst *inst, const jit_acc *acc, uint32_t copy)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef i64 = jit_wide(f->u->types[JIT_I64], acc->lanes);
    pair p = {
        LLVMBuildLoad2(ir, jit_wide(jit_type_of(f, inst->dtype), acc->lanes), acc->value[copy], ""),
        NULL};
    if (is_arg((uint32_t)inst->imm.i)) {
        p.index = LLVMBuildLoad2(ir, i64, acc->index[copy], "");
    }
    return p;
}

static void store_copy(jit_fn *f, const jit_acc *acc, uint32_t copy, pair p)
{
    LLVMBuildStore(f->u->ir, p.value, acc->value[copy]);
    if (p.index != NULL) {
        LLVMBuildStore(f->u->ir, p.index, acc->index[copy]);
    }
}

static void make_slots(jit_fn *f, const st_loop_inst *inst, jit_acc *acc)
{
    for (uint32_t c = 0; c < acc->copies; c++) {
        acc->value[c] = jit_slot(f, jit_wide(jit_type_of(f, inst->dtype), acc->lanes), 0);
        if (is_arg((uint32_t)inst->imm.i)) {
            acc->index[c] = jit_slot(f, jit_wide(f->u->types[JIT_I64], acc->lanes), 0);
        }
    }
    acc->is_declared = 1;
}

void jit_acc_declare(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    jit_acc *acc = &f->accs[ref];
    const uint32_t kind = (uint32_t)inst->imm.i;
    acc->copies = acc->copies ? acc->copies : 1;
    acc->lanes = acc->lanes ? acc->lanes : f->lanes; /* 0: it is never updated */
    if (!acc->is_declared) {
        make_slots(f, inst, acc);
    }
    const LLVMTypeRef type = jit_wide(jit_type_of(f, inst->dtype), acc->lanes);
    const LLVMTypeRef i64 = jit_wide(f->u->types[JIT_I64], acc->lanes);
    const pair none = {jit_identity(f, kind, inst->dtype, type),
                       is_arg(kind) ? jit_int(i64, INT64_MAX) : NULL};
    for (uint32_t c = 0; c < acc->copies; c++) {
        store_copy(f, acc, c, none);
    }
    if (inst->args[0]) {
        pair first = none;
        const LLVMValueRef v = jit_inst(f, inst->args[0], acc->is_combined ? 1 : acc->lanes);
        first.value = acc->lanes > 1 && acc->is_combined ? jit_set_lane0(f, none.value, v) : v;
        store_copy(f, acc, 0, first);
    }
}

/* ---- update ---- */

/* acc + x * y in one step when both belong to one op of the graph; NULL otherwise. */
static LLVMValueRef fused(jit_fn *f, const st_loop_inst *update, const st_loop_inst *inst,
                          LLVMValueRef sum, uint32_t lanes)
{
    const st_loop_inst *mul = st_loop_at(f->kernel, update->args[0]);
    if (inst->imm.i != ST_ACC_SUM || !jit_is_float(inst->dtype) || mul->code != ST_LOOP_mul ||
        !mul->origin || mul->origin != update->origin || !f->u->features.has_fma) {
        return NULL;
    }
    const LLVMValueRef x = jit_inst(f, mul->args[0], lanes);
    return jit_fma(f, x, jit_inst(f, mul->args[1], lanes), sum);
}

/* An update outside the vector loop of an accumulator that has lanes: goes to lane 0. */
static void update_lane0(jit_fn *f, const st_loop_inst *update, const st_loop_inst *inst,
                         const jit_acc *acc)
{
    const pair all = load_copy(f, inst, acc, 0);
    const pair old = {jit_lane(f, all.value, 0), all.index ? jit_lane(f, all.index, 0) : NULL};
    const pair given = {jit_inst(f, update->args[0], 1),
                        all.index ? jit_inst(f, update->args[1], 1) : NULL};
    pair now = combine(f, inst, old, given);
    if (update->args[2]) {
        now = choose(f, jit_inst(f, update->args[2], 1), now, old);
    }
    now.value = jit_set_lane0(f, all.value, now.value);
    now.index = all.index ? jit_set_lane0(f, all.index, now.index) : NULL;
    store_copy(f, acc, 0, now);
}

void jit_acc_update(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *update = st_loop_at(f->kernel, ref);
    const st_loop_inst *inst = st_loop_at(f->kernel, update->ref);
    const jit_acc *acc = &f->accs[update->ref];
    if (!acc->is_declared || (acc->lanes != f->lanes && f->lanes > 1)) {
        (void)jit_fail(f->u, STATOR_INTERNAL,
                       "kernel '%s': instruction %%%u updates what is no accumulator "
                       "here",
                       f->kernel->name, ref);
        return;
    }
    if (acc->lanes > 1 && f->lanes == 1) {
        update_lane0(f, update, inst, acc);
        return;
    }
    const uint32_t copy = f->copy % acc->copies;
    const pair old = load_copy(f, inst, acc, copy);
    pair now = {fused(f, update, inst, old.value, acc->lanes), NULL};
    if (now.value == NULL) {
        const pair given = {jit_inst(f, update->args[0], acc->lanes),
                            old.index ? jit_inst(f, update->args[1], acc->lanes) : NULL};
        now = combine(f, inst, old, given);
    }
    const LLVMValueRef mask = jit_active(f, update->args[2], acc->lanes);
    if (mask != NULL) {
        now = choose(f, mask, now, old);
    }
    store_copy(f, acc, copy, now);
}

/* ---- read ---- */

static pair across_lanes(jit_fn *f, const st_loop_inst *inst, pair p, uint32_t lanes)
{
    for (uint32_t n = lanes / 2u; n >= 1u; n /= 2u) {
        const pair low = {jit_slice(f, p.value, 0, n),
                          p.index ? jit_slice(f, p.index, 0, n) : NULL};
        const pair high = {jit_slice(f, p.value, n, n),
                           p.index ? jit_slice(f, p.index, n, n) : NULL};
        p = combine(f, inst, low, high);
    }
    return (pair){jit_lane(f, p.value, 0), p.index ? jit_lane(f, p.index, 0) : NULL};
}

void jit_acc_read(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *read = st_loop_at(f->kernel, ref);
    const st_loop_inst *inst = st_loop_at(f->kernel, read->ref);
    const jit_acc *acc = &f->accs[read->ref];
    if (!acc->is_declared) {
        (void)jit_fail(f->u, STATOR_INTERNAL, "kernel '%s': instruction %%%u reads no accumulator",
                       f->kernel->name, ref);
        return;
    }
    pair p = load_copy(f, inst, acc, 0);
    for (uint32_t c = 1; c < acc->copies; c++) {
        p = combine(f, inst, p, load_copy(f, inst, acc, c));
    }
    if (acc->lanes > 1 && acc->is_combined) {
        p = across_lanes(f, inst, p, acc->lanes);
    }
    const bool want_index = is_arg((uint32_t)inst->imm.i) && read->dtype == STATOR_I64;
    f->values[ref] = want_index ? p.index : p.value;
}
