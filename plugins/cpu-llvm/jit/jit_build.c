/* Small pieces that all of the emitter uses: types, constants, placement, the memo, masks. */
#include "jit_emit.h"

#include "core/base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SELDOM_ODDS (1u << 20) /* against one */

/* ---- errors ---- */

stator_status jit_fail(jit_unit *u, stator_status status, const char *format, ...)
{
    if (u->status == STATOR_OK) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(u->msg, (size_t)u->msg_size, format, args);
        va_end(args);
        u->status = status;
    }
    return u->status;
}

bool jit_failed(const jit_fn *f)
{
    return f->u->status != STATOR_OK;
}

void jit_no_memory(jit_fn *f)
{
    (void)jit_fail(f->u, STATOR_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- types ---- */

LLVMTypeRef jit_type_of(const jit_fn *f, uint32_t dtype)
{
    const jit_unit *u = f->u;
    switch (st_loop_class_of(dtype)) {
    case ST_LOOP_BOOLS:
        return u->types[JIT_I1];
    case ST_LOOP_FLOATS:
        return u->types[dtype == STATOR_F32 ? JIT_F32 : JIT_F64];
    default:
        return LLVMIntTypeInContext(u->context, st_dtype_bits(dtype));
    }
}

LLVMTypeRef jit_memory_type(const jit_fn *f, uint32_t dtype)
{
    return dtype == STATOR_BOOL ? f->u->types[JIT_I8] : jit_type_of(f, dtype);
}

LLVMTypeRef jit_buffer_type(const jit_fn *f, uint32_t buffer)
{
    return jit_wide(jit_memory_type(f, f->kernel->buffers.data[buffer].dtype),
                    f->private_lanes[buffer]);
}

LLVMTypeRef jit_wide(LLVMTypeRef type, uint32_t lanes)
{
    return lanes > 1 ? LLVMVectorType(type, lanes) : type;
}

static bool is_vector(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind;
}

uint32_t jit_lanes_of(LLVMValueRef v)
{
    const LLVMTypeRef type = LLVMTypeOf(v);
    return is_vector(type) ? LLVMGetVectorSize(type) : 1u;
}

LLVMTypeRef jit_element_of(LLVMTypeRef type)
{
    return is_vector(type) ? LLVMGetElementType(type) : type;
}

LLVMTypeRef jit_like(const jit_fn *f, uint32_t type, LLVMValueRef v)
{
    return jit_wide(f->u->types[type], jit_lanes_of(v));
}

/* ---- constants ---- */

static LLVMValueRef splat_constant(LLVMTypeRef type, LLVMValueRef element)
{
    LLVMValueRef lanes[JIT_LANES_MAX];
    if (!is_vector(type)) {
        return element;
    }
    const uint32_t n = LLVMGetVectorSize(type);
    for (uint32_t i = 0; i < n; i++) {
        lanes[i] = element;
    }
    return LLVMConstVector(lanes, n);
}

LLVMValueRef jit_i64(const jit_fn *f, int64_t value)
{
    return LLVMConstInt(f->u->types[JIT_I64], (unsigned long long)value, 1);
}

LLVMValueRef jit_i32(const jit_fn *f, uint32_t value)
{
    return LLVMConstInt(f->u->types[JIT_I32], value, 0);
}

LLVMValueRef jit_int(LLVMTypeRef type, int64_t value)
{
    return splat_constant(type, LLVMConstInt(jit_element_of(type), (unsigned long long)value, 1));
}

LLVMValueRef jit_real(LLVMTypeRef type, double value)
{
    return splat_constant(type, LLVMConstReal(jit_element_of(type), value));
}

LLVMValueRef jit_poison(LLVMTypeRef type)
{
    return LLVMGetPoison(type);
}

LLVMValueRef jit_iota(LLVMTypeRef element, uint32_t lanes, int64_t step)
{
    LLVMValueRef values[JIT_LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++) {
        values[i] = LLVMConstInt(element, (unsigned long long)(step * (int64_t)i), 1);
    }
    return LLVMConstVector(values, lanes);
}

/* ---- placement ---- */

void jit_at(jit_fn *f, uint32_t level)
{
    if (level >= f->depth) {
        LLVMPositionBuilderAtEnd(f->u->ir, f->block);
    } else {
        LLVMPositionBuilderBefore(f->u->ir, f->hoist[level]);
    }
}

void jit_here(jit_fn *f)
{
    LLVMPositionBuilderAtEnd(f->u->ir, f->block);
}

LLVMBasicBlockRef jit_block(jit_fn *f)
{
    return LLVMAppendBasicBlockInContext(f->u->context, f->fn, "");
}

void jit_go(jit_fn *f, LLVMBasicBlockRef b)
{
    f->block = b;
    jit_here(f);
}

LLVMValueRef jit_node(const jit_fn *f, LLVMMetadataRef *parts, uint32_t n)
{
    LLVMContextRef context = f->u->context;
    return LLVMMetadataAsValue(context, LLVMMDNodeInContext2(context, parts, n));
}

static void set_seldom(jit_fn *f, LLVMValueRef branch)
{
    static const char kind[] = "branch_weights";
    LLVMContextRef context = f->u->context;
    LLVMMetadataRef parts[3] = {LLVMMDStringInContext2(context, kind, sizeof kind - 1u),
                                LLVMValueAsMetadata(jit_i32(f, 1)),
                                LLVMValueAsMetadata(jit_i32(f, SELDOM_ODDS))};
    LLVMSetMetadata(branch, f->u->kind_profile, jit_node(f, parts, 3));
}

jit_if jit_begin_if(jit_fn *f, LLVMValueRef is_on, bool is_seldom)
{
    const LLVMBasicBlockRef then = jit_block(f);
    jit_if in = {.before = f->block, .join = jit_block(f)};
    in.branch = LLVMBuildCondBr(f->u->ir, is_on, then, in.join);
    if (is_seldom) {
        set_seldom(f, in.branch);
    }
    jit_go(f, then);
    return in;
}

LLVMValueRef jit_end_if(jit_fn *f, const jit_if *in, LLVMValueRef then, LLVMValueRef otherwise)
{
    LLVMBasicBlockRef from[2] = {in->before, f->block};
    LLVMValueRef values[2] = {otherwise, then};
    LLVMBuildBr(f->u->ir, in->join);
    jit_go(f, in->join);
    if (then == NULL) {
        return NULL;
    }
    const LLVMValueRef phi = LLVMBuildPhi(f->u->ir, LLVMTypeOf(then), "");
    LLVMAddIncoming(phi, values, from, 2);
    return phi;
}

LLVMValueRef jit_slot(jit_fn *f, LLVMTypeRef type, uint32_t align)
{
    LLVMPositionBuilderBefore(f->u->ir, f->entry_end);
    const LLVMValueRef slot = LLVMBuildAlloca(f->u->ir, type, "");
    if (align) {
        LLVMSetAlignment(slot, align);
    }
    jit_here(f);
    return slot;
}

/* ---- the memo ---- */

static uint64_t memo_key(uint32_t kind, uint64_t key)
{
    return ((uint64_t)kind << 60) | key;
}

LLVMValueRef jit_memo_get(const jit_fn *f, uint32_t kind, uint64_t key)
{
    const uint64_t all = memo_key(kind, key);
    const uint32_t at = st_map_get(&f->memo_map, all);
    return at && at <= f->memo.count && f->memo.data[at - 1u].key == all
               ? f->memo.data[at - 1u].value
               : NULL;
}

void jit_memo_put(jit_fn *f, uint32_t kind, uint64_t key, uint32_t level, LLVMValueRef value)
{
    const uint64_t all = memo_key(kind, key);
    jit_memo_entry *entry = st_vec_push(f->u->mem, &f->memo);
    if (entry == NULL || !st_map_put(&f->memo_map, all, f->memo.count)) {
        jit_no_memory(f);
        return;
    }
    *entry = (jit_memo_entry){all, value, level};
}

void jit_memo_drop(jit_fn *f, uint32_t level)
{
    for (uint32_t i = 0; i < f->memo.count; i++) {
        jit_memo_entry *entry = &f->memo.data[i];
        if (entry->level >= level) {
            entry->value = NULL;
        }
    }
    while (f->memo.count && f->memo.data[f->memo.count - 1u].value == NULL) {
        f->memo.count--;
    }
}

/* ---- values ---- */

static LLVMValueRef build_splat(jit_fn *f, LLVMValueRef scalar, uint32_t lanes)
{
    const LLVMTypeRef type = jit_wide(LLVMTypeOf(scalar), lanes);
    if (LLVMIsConstant(scalar)) {
        return splat_constant(type, scalar);
    }
    return LLVMBuildShuffleVector(f->u->ir, jit_set_lane0(f, jit_poison(type), scalar),
                                  jit_poison(type),
                                  LLVMConstNull(jit_wide(f->u->types[JIT_I32], lanes)), "");
}

LLVMValueRef jit_splat(jit_fn *f, LLVMValueRef scalar)
{
    return f->lanes > 1 ? build_splat(f, scalar, f->lanes) : scalar;
}

LLVMValueRef jit_inst(jit_fn *f, st_loop_ref ref, uint32_t lanes)
{
    const LLVMValueRef v = f->values[ref];
    if (v == NULL) {
        (void)jit_fail(f->u, STATOR_INTERNAL, "instruction %%%u is used before it has a value",
                       ref);
        return jit_poison(jit_wide(jit_type_of(f, st_loop_at(f->kernel, ref)->dtype), lanes));
    }
    if (lanes <= 1 || jit_lanes_of(v) > 1) {
        return v;
    }
    if (LLVMIsConstant(v)) {
        return build_splat(f, v, lanes);
    }
    const uint64_t key = (uint64_t)lanes << 32 | ref; /* sibling loops differ in lanes */
    LLVMValueRef wide = jit_memo_get(f, JIT_MEMO_SPLAT, key);
    if (wide == NULL) {
        const uint32_t level = f->kernel->blocks.data[st_loop_at(f->kernel, ref)->block].depth;
        jit_at(f, level);
        wide = build_splat(f, v, lanes);
        jit_here(f);
        jit_memo_put(f, JIT_MEMO_SPLAT, key, level, wide);
    }
    return wide;
}

LLVMValueRef jit_intrinsic(jit_fn *f, const char *name, LLVMTypeRef *types, uint32_t n_types,
                           LLVMValueRef *args, uint32_t n_args)
{
    jit_unit *u = f->u;
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0) {
        (void)jit_fail(u, STATOR_INTERNAL, "LLVM %u has no intrinsic '%s'", LLVM_VERSION_MAJOR,
                       name);
        return jit_poison(n_args ? LLVMTypeOf(args[0]) : u->types[JIT_I64]);
    }
    const LLVMValueRef fn = LLVMGetIntrinsicDeclaration(u->module, id, types, n_types);
    return LLVMBuildCall2(u->ir, LLVMGlobalGetValueType(fn), fn, args, n_args, "");
}

LLVMValueRef jit_intrinsic1(jit_fn *f, const char *name, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    return jit_intrinsic(f, name, &type, 1, &x, 1);
}

LLVMValueRef jit_intrinsic2(jit_fn *f, const char *name, LLVMValueRef x, LLVMValueRef y)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef args[2] = {x, y};
    return jit_intrinsic(f, name, &type, 1, args, 2);
}

LLVMValueRef jit_fma(jit_fn *f, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef args[3] = {x, y, z};
    return jit_intrinsic(f, "llvm.fma", &type, 1, args, 3);
}

void jit_mark(const jit_unit *u, LLVMValueRef fn, const char *attribute)
{
    const unsigned kind = LLVMGetEnumAttributeKindForName(attribute, strlen(attribute));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(u->context, kind, 0));
}

LLVMValueRef jit_element(const jit_fn *f, LLVMTypeRef type, LLVMValueRef base, LLVMValueRef index)
{
    return LLVMBuildGEP2(f->u->ir, type, base, &index, 1, "");
}

/* ---- lanes ---- */

LLVMValueRef jit_shuffle(const jit_fn *f, LLVMValueRef v, LLVMValueRef *order, uint32_t n)
{
    return LLVMBuildShuffleVector(f->u->ir, v, jit_poison(LLVMTypeOf(v)), LLVMConstVector(order, n),
                                  "");
}

LLVMValueRef jit_slice(jit_fn *f, LLVMValueRef v, uint32_t first, uint32_t n)
{
    LLVMValueRef order[JIT_LANES_MAX];
    const LLVMTypeRef i32 = f->u->types[JIT_I32];
    const uint32_t lanes = jit_lanes_of(v);
    if (first == 0 && n == lanes) {
        return v;
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = first + i < lanes ? jit_i32(f, first + i) : jit_poison(i32);
    }
    return jit_shuffle(f, v, order, n);
}

LLVMValueRef jit_join(jit_fn *f, LLVMValueRef low, LLVMValueRef high)
{
    LLVMValueRef order[JIT_LANES_MAX];
    const uint32_t n = 2u * jit_lanes_of(low);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = jit_i32(f, i);
    }
    return LLVMBuildShuffleVector(f->u->ir, low, high, LLVMConstVector(order, n), "");
}

LLVMValueRef jit_lane(jit_fn *f, LLVMValueRef v, uint32_t lane)
{
    return LLVMBuildExtractElement(f->u->ir, v, jit_i32(f, lane), "");
}

LLVMValueRef jit_set_lane0(jit_fn *f, LLVMValueRef v, LLVMValueRef x)
{
    return LLVMBuildInsertElement(f->u->ir, v, x, jit_i32(f, 0), "");
}

/* Lanes first .. first + lanes - 1 of the operands; a scalar becomes the first lane. */
static LLVMValueRef on_lanes(jit_fn *f, const jit_instruction *op, const LLVMValueRef *args,
                             uint32_t first, uint32_t lanes)
{
    LLVMValueRef part[2];
    for (uint32_t k = 0; k < op->n_args; k++) {
        const LLVMTypeRef type = LLVMTypeOf(args[k]);
        part[k] = jit_lanes_of(args[k]) > 1
                      ? jit_slice(f, args[k], first, lanes)
                      : jit_set_lane0(f, jit_poison(jit_wide(type, lanes)), args[k]);
    }
    return lanes > op->most ? jit_by_registers(f, op, part) : op->one(f, part, op->detail);
}

LLVMValueRef jit_by_registers(jit_fn *f, const jit_instruction *op, const LLVMValueRef *args)
{
    const uint32_t lanes = jit_lanes_of(args[0]);
    const uint32_t n = lanes / 2u;
    if (lanes > op->most) {
        const LLVMValueRef low = on_lanes(f, op, args, 0, n);
        return jit_join(f, low, on_lanes(f, op, args, n, n));
    }
    const LLVMValueRef v = on_lanes(f, op, args, 0, lanes < op->least ? op->least : lanes);
    return lanes == 1 ? jit_lane(f, v, 0) : jit_slice(f, v, 0, lanes);
}

/* ---- masks ---- */

LLVMValueRef jit_any(jit_fn *f, LLVMValueRef mask)
{
    const uint32_t lanes = jit_lanes_of(mask);
    if (lanes == 1) {
        return mask;
    }
    const LLVMTypeRef bits = LLVMIntTypeInContext(f->u->context, lanes);
    const LLVMValueRef word = LLVMBuildBitCast(f->u->ir, mask, bits, "");
    return LLVMBuildICmp(f->u->ir, LLVMIntNE, word, LLVMConstInt(bits, 0, 0), "");
}

void jit_set_invariant(const jit_fn *f, LLVMValueRef load)
{
    LLVMMetadataRef empty = LLVMMDNodeInContext2(f->u->context, NULL, 0);
    LLVMSetMetadata(load, f->u->kind_invariant, LLVMMetadataAsValue(f->u->context, empty));
}

LLVMValueRef jit_select(jit_fn *f, LLVMValueRef mask, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(f->u->ir, mask, a, b, "");
}

LLVMValueRef jit_active(jit_fn *f, st_loop_ref mask, uint32_t lanes)
{
    const LLVMValueRef own = mask ? jit_inst(f, mask, lanes) : NULL;
    if (lanes <= 1 || f->mask == NULL) {
        return own;
    }
    return own ? LLVMBuildAnd(f->u->ir, f->mask, own, "") : f->mask;
}
