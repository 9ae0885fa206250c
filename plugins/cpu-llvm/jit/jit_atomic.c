/* ATOMIC rows: memory combined with a value, safe when threads or lanes meet in one element.
 *
 * Lanes take turns in a small loop. Where threads can meet (a kernel with a parallel loop),
 * integers use one atomic instruction; floats and products compare and exchange until nobody
 * interfered. */
#include "jit_emit.h"

typedef struct target {
    const st_loop_op *row;
    const st_loop_buffer *buffer;
    LLVMTypeRef type;
    uint32_t kind;
    int is_shared; /* with other threads */
} target;

/* LLVM's operation for it, or -1. */
static int direct_op(const target *t)
{
    const int is_signed = st_loop_class_of(t->buffer->dtype) == ST_LOOP_INTS;
    if (t->buffer->dtype == STATOR_BOOL) {
        const int is_or = t->kind == ST_ACC_ANY || t->kind == ST_ACC_SUM || t->kind == ST_ACC_MAX;
        return is_or ? LLVMAtomicRMWBinOpOr : LLVMAtomicRMWBinOpAnd;
    }
    if (st_loop_class_of(t->buffer->dtype) == ST_LOOP_FLOATS) {
        return -1;
    }
    switch (t->kind) {
    case ST_ACC_SUM:
        return LLVMAtomicRMWBinOpAdd;
    case ST_ACC_MIN:
        return is_signed ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
    case ST_ACC_MAX:
        return is_signed ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
    default:
        return -1;
    }
}

static LLVMValueRef as_bits(jit_fn *f, const target *t, LLVMValueRef v)
{
    const LLVMTypeRef bits =
        LLVMIntTypeInContext(f->u->context, jit_dtype_bytes(t->buffer->dtype) * 8u);
    return LLVMBuildBitCast(f->u->ir, v, bits, "");
}

/* Reads, combines, writes unless another came between; repeats. */
static void exchange_loop(jit_fn *f, const target *t, LLVMValueRef p, LLVMValueRef value)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef bits =
        LLVMIntTypeInContext(f->u->context, jit_dtype_bytes(t->buffer->dtype) * 8u);
    const LLVMBasicBlockRef again = jit_block(f);
    const LLVMBasicBlockRef done = jit_block(f);
    LLVMValueRef seen[2] = {LLVMBuildLoad2(ir, bits, p, ""), NULL};
    LLVMSetAlignment(seen[0], jit_dtype_bytes(t->buffer->dtype));
    LLVMSetOrdering(seen[0], LLVMAtomicOrderingMonotonic);
    LLVMBasicBlockRef from[2] = {f->block, again};
    LLVMBuildBr(ir, again);
    jit_go(f, again);
    const LLVMValueRef old = LLVMBuildPhi(ir, bits, "");
    const LLVMValueRef sum =
        jit_combine(f, t->kind, t->buffer->dtype, LLVMBuildBitCast(ir, old, t->type, ""), value);
    const LLVMValueRef pair =
        LLVMBuildAtomicCmpXchg(ir, p, old, as_bits(f, t, sum), LLVMAtomicOrderingMonotonic,
                               LLVMAtomicOrderingMonotonic, 0);
    LLVMSetWeak(pair, 1);
    seen[1] = LLVMBuildExtractValue(ir, pair, 0, "");
    LLVMBuildCondBr(ir, LLVMBuildExtractValue(ir, pair, 1, ""), done, again);
    LLVMAddIncoming(old, seen, from, 2);
    jit_go(f, done);
}

static void combine_at(jit_fn *f, const target *t, LLVMValueRef p, LLVMValueRef value)
{
    const LLVMBuilderRef ir = f->u->ir;
    const int op = direct_op(t);
    if (t->is_shared && op >= 0) {
        const LLVMValueRef v =
            t->buffer->dtype == STATOR_BOOL ? LLVMBuildZExt(ir, value, t->type, "") : value;
        (void)LLVMBuildAtomicRMW(ir, (LLVMAtomicRMWBinOp)op, p, v, LLVMAtomicOrderingMonotonic, 0);
        return;
    }
    if (t->is_shared) {
        exchange_loop(f, t, p, value);
        return;
    }
    LLVMValueRef old = LLVMBuildLoad2(ir, t->type, p, "");
    LLVMSetAlignment(old, jit_dtype_bytes(t->buffer->dtype));
    if (t->buffer->dtype == STATOR_BOOL) {
        old = LLVMBuildICmp(ir, LLVMIntNE, old, LLVMConstNull(t->type), "");
    }
    LLVMValueRef now = jit_combine(f, t->kind, t->buffer->dtype, old, value);
    now = t->buffer->dtype == STATOR_BOOL ? LLVMBuildZExt(ir, now, t->type, "") : now;
    LLVMSetAlignment(LLVMBuildStore(ir, now, p), jit_dtype_bytes(t->buffer->dtype));
}

/* One element, where `is_on` holds (NULL: always). */
static void atomic_scalar(jit_fn *f, const target *t, LLVMValueRef p, LLVMValueRef value,
                          LLVMValueRef is_on)
{
    LLVMBasicBlockRef join = NULL;
    if (is_on != NULL) {
        const LLVMBasicBlockRef then = jit_block(f);
        join = jit_block(f);
        LLVMBuildCondBr(f->u->ir, is_on, then, join);
        jit_go(f, then);
    }
    combine_at(f, t, p, value);
    if (is_on != NULL) {
        LLVMBuildBr(f->u->ir, join);
        jit_go(f, join);
    }
}

/* A loop over the lanes, one after the other. */
static void atomic_lanes(jit_fn *f, const target *t, st_loop_ref ref)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef i64 = f->u->types[JIT_I64];
    const LLVMValueRef mask =
        jit_bounds(f, ref, f->lanes, jit_active(f, t->row->args[1], f->lanes));
    const LLVMValueRef values = jit_row(f, t->row->args[0], f->lanes);
    int64_t coef = 0;
    const LLVMValueRef index = jit_sym_shape(f, t->row->sym, &coef) == JIT_UNIFORM
                                   ? jit_splat(f, jit_sym(f, t->row->sym))
                                   : jit_vsym(f, t->row->sym, 0);
    const LLVMBasicBlockRef before = f->block;
    const LLVMBasicBlockRef body = jit_block(f);
    const LLVMBasicBlockRef after = jit_block(f);
    LLVMBuildBr(ir, body);
    jit_go(f, body);
    const LLVMValueRef lane = LLVMBuildPhi(ir, i64, "");
    LLVMValueRef at = LLVMBuildExtractElement(ir, index, lane, "");
    const LLVMValueRef p = LLVMBuildGEP2(ir, t->type, f->buffers[t->row->ref], &at, 1, "");
    atomic_scalar(f, t, p, LLVMBuildExtractElement(ir, values, lane, ""),
                  mask ? LLVMBuildExtractElement(ir, mask, lane, "") : NULL);
    LLVMValueRef next[2] = {jit_i64(f, 0), LLVMBuildAdd(ir, lane, jit_i64(f, 1), "")};
    LLVMBasicBlockRef from[2] = {before, f->block};
    LLVMBuildCondBr(ir, LLVMBuildICmp(ir, LLVMIntULT, next[1], jit_i64(f, f->lanes), ""), body,
                    after);
    LLVMAddIncoming(lane, next, from, 2);
    jit_go(f, after);
}

void jit_atomic(jit_fn *f, st_loop_ref ref)
{
    const st_loop_op *row = st_loop_at(f->kernel, ref);
    const st_loop_buffer *buffer = &f->kernel->buffers.data[row->ref];
    const target t = {.row = row,
                      .buffer = buffer,
                      .type = jit_memory_type(f, buffer->dtype),
                      .kind = (uint32_t)row->imm.i,
                      .is_shared = st_kernel_parallel_loop(f->kernel) != 0};
    if (st_loop_class_of(buffer->dtype) == ST_LOOP_STORAGE || t.kind < ST_ACC_SUM ||
        t.kind == ST_ACC_ARGMIN || t.kind == ST_ACC_ARGMAX || t.kind == ST_ACC_LAST) {
        (void)jit_fail(f->u, STATOR_UNSUPPORTED, "kernel '%s': no atomic combination of this kind",
                       f->kernel->name);
        return;
    }
    if (f->lanes > 1) {
        atomic_lanes(f, &t, ref);
        return;
    }
    const LLVMValueRef is_on = jit_bounds(f, ref, 1, jit_active(f, row->args[1], 1));
    const LLVMValueRef p = jit_address(f, row->ref, row->sym);
    atomic_scalar(f, &t, p, jit_row(f, row->args[0], 1), is_on);
}
