/* Loads, stores, and the checks that a kernel makes of its data.
 *
 *   index over the lanes     load                      store
 *   the same                 one scalar load           of the last active lane
 *   one element a lane       vector load, masked load  vector store, masked or past the caches
 *   one element back         the same, reversed        the same, reversed
 *   anything else            gather                    scatter, later lanes win
 *
 * bool is a byte in memory and a bit in registers. In the last, masked iteration of the vector loop
 * f->mask says which lanes exist. */
#include "jit_emit.h"

typedef struct access {
    const st_loop_inst *inst;
    const st_loop_buffer *buffer;
    st_loop_ref ref;
    LLVMTypeRef type; /* type of an element in memory */
    uint32_t shape;
    int64_t coef;
    uint32_t align;
} access;

/* ---- alias facts ---- */

static void tag(jit_fn *f, LLVMValueRef memory_access, uint32_t buffer)
{
    if (f->scopes[buffer] != NULL) {
        LLVMSetMetadata(memory_access, f->u->kind_scope, f->scopes[buffer]);
    }
    if (f->noalias[buffer] != NULL) {
        LLVMSetMetadata(memory_access, f->u->kind_noalias, f->noalias[buffer]);
    }
}

LLVMValueRef jit_load_at(jit_fn *f, LLVMTypeRef type, LLVMValueRef at, uint32_t align,
                         uint32_t buffer)
{
    const LLVMValueRef v = LLVMBuildLoad2(f->u->ir, type, at, "");
    LLVMSetAlignment(v, align);
    tag(f, v, buffer);
    return v;
}

static LLVMValueRef store_at(jit_fn *f, LLVMValueRef value, LLVMValueRef at, uint32_t align,
                             uint32_t buffer)
{
    const LLVMValueRef store = LLVMBuildStore(f->u->ir, value, at);
    LLVMSetAlignment(store, align);
    tag(f, store, buffer);
    return store;
}

/* ---- what is known of an access ---- */

/* Alignment of the element in lane 0: what divides both the buffer's and the index. */
static uint32_t align_of(jit_fn *f, const st_loop_buffer *buffer, uint32_t sym)
{
    const uint64_t divisor = (uint64_t)jit_sym_divisor(f, sym);
    const uint64_t bytes = st_element_bytes(buffer->dtype);
    uint64_t base = buffer->align ? buffer->align : bytes;
    if (f->is_streamed && (buffer->flags & ST_BUFFER_STREAMED) && base < JIT_STREAM_ALIGN) {
        base = JIT_STREAM_ALIGN;
    }
    uint64_t align = divisor ? bytes * (divisor & (0u - divisor)) : base;
    align = align < base ? align : base;
    align &= 0u - align; /* bytes and base are powers of two in practice */
    return align < 64u ? (uint32_t)align : 64u;
}

static access access_of(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    access a = {.inst = inst, .ref = ref, .buffer = &f->kernel->buffers.data[inst->ref]};
    a.type = jit_memory_type(f, a.buffer->dtype);
    a.shape = jit_sym_shape(f, inst->sym, &a.coef);
    if (f->private_lanes[inst->ref] > 1) { /* a vector for each element: one run */
        a.shape = JIT_LINEAR;
        a.coef = 1;
        a.align = st_element_bytes(a.buffer->dtype) * f->lanes;
        a.align = a.align < 64u ? a.align : 64u;
        return a;
    }
    a.align = align_of(f, a.buffer, inst->sym);
    return a;
}

static bool is_contiguous(const access *a)
{
    return a->shape == JIT_LINEAR && (a->coef == 1 || a->coef == -1);
}

static LLVMValueRef from_memory(jit_fn *f, uint32_t dtype, LLVMValueRef v)
{
    return dtype == STATOR_BOOL
               ? LLVMBuildICmp(f->u->ir, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "")
               : v;
}

static LLVMValueRef to_memory(jit_fn *f, uint32_t dtype, LLVMValueRef v)
{
    return dtype == STATOR_BOOL ? LLVMBuildZExt(f->u->ir, v, jit_like(f, JIT_I8, v), "") : v;
}

static LLVMValueRef all_lanes(jit_fn *f)
{
    return jit_int(jit_wide(f->u->types[JIT_I1], f->lanes), -1);
}

static LLVMValueRef reversed(jit_fn *f, LLVMValueRef v)
{
    LLVMValueRef order[JIT_LANES_MAX];
    const uint32_t lanes = jit_lanes_of(v);
    const LLVMTypeRef i32 = f->u->types[JIT_I32];
    if (lanes % 4u == 0 && lanes >= 64u && jit_wide(f->u->types[JIT_I8], lanes) == LLVMTypeOf(v)) {
        /* By words: LLVM 22 never ends on a reversed vector of 64 bytes of which few are used. */
        const LLVMValueRef words = LLVMBuildBitCast(f->u->ir, v, jit_wide(i32, lanes / 4u), "");
        return LLVMBuildBitCast(f->u->ir, reversed(f, jit_intrinsic1(f, "llvm.bswap", words)),
                                LLVMTypeOf(v), "");
    }
    for (uint32_t i = 0; i < lanes; i++) {
        order[i] = jit_i32(f, lanes - 1u - i);
    }
    return jit_shuffle(f, v, order, lanes);
}

/* ---- LLVM's masked accesses ---- */

/* From LLVM 22 on the alignment is an attribute of the pointer, before it an argument behind it. */
static LLVMValueRef masked_call(jit_fn *f, const char *name, LLVMTypeRef *types, LLVMValueRef *args,
                                uint32_t n, uint32_t pointer, uint32_t align)
{
#if LLVM_VERSION_MAJOR >= 22
    const LLVMValueRef call = jit_intrinsic(f, name, types, 2, args, n);
    LLVMAddCallSiteAttribute(call, pointer + 1u,
                             LLVMCreateEnumAttribute(f->u->context, f->u->attribute_align, align));
    return call;
#else
    LLVMValueRef all[5];
    for (uint32_t i = 0; i <= n; i++) {
        all[i] = i <= pointer ? args[i] : i == pointer + 1 ? jit_i32(f, align) : args[i - 1u];
    }
    return jit_intrinsic(f, name, types, 2, all, n + 1u);
#endif
}

/* The lanes' addresses. */
static LLVMValueRef pointers(jit_fn *f, const access *a)
{
    if (a->shape == JIT_LINEAR && a->coef <= INT16_MAX && a->coef >= INT16_MIN) {
        const LLVMValueRef first = jit_address(f, a->inst->ref, a->inst->sym);
        return jit_element(f, a->type, first, jit_iota(f->u->types[JIT_I32], f->lanes, a->coef));
    }
    return jit_element(f, a->type, f->buffers[a->inst->ref], jit_vsym(f, a->inst->sym, true));
}

LLVMValueRef jit_gather(jit_fn *f, LLVMValueRef at, LLVMValueRef mask, LLVMValueRef other,
                        uint32_t align)
{
    LLVMTypeRef types[2] = {LLVMTypeOf(other), LLVMTypeOf(at)};
    LLVMValueRef args[3] = {at, mask ? mask : all_lanes(f), other};
    return masked_call(f, "llvm.masked.gather", types, args, 3, 0, align);
}

static LLVMValueRef gather(jit_fn *f, const access *a, LLVMValueRef at, LLVMValueRef mask,
                           LLVMValueRef other)
{
    return jit_gather(f, at, mask, other, st_element_bytes(a->buffer->dtype));
}

static void scatter(jit_fn *f, const access *a, LLVMValueRef value, LLVMValueRef mask)
{
    const LLVMValueRef at = a->shape == JIT_UNIFORM
                                ? jit_splat(f, jit_address(f, a->inst->ref, a->inst->sym))
                                : pointers(f, a);
    LLVMTypeRef types[2] = {jit_wide(a->type, f->lanes), LLVMTypeOf(at)};
    LLVMValueRef args[3] = {value, at, mask ? mask : all_lanes(f)};
    (void)masked_call(f, "llvm.masked.scatter", types, args, 3, 1,
                      st_element_bytes(a->buffer->dtype));
}

/* Address of the lowest of the lanes' elements, and its alignment. */
static LLVMValueRef run_address(jit_fn *f, const access *a, uint32_t *out_align)
{
    LLVMValueRef p = jit_address(f, a->inst->ref, a->inst->sym);
    *out_align = a->align;
    if (a->coef == -1) {
        p = jit_element(f, a->type, p, jit_i64(f, 1 - (int64_t)f->lanes));
        *out_align = st_element_bytes(a->buffer->dtype);
    }
    return p;
}

/* The instruction's mask when it is one for all lanes; NULL: it has none, or they differ. */
static LLVMValueRef one_mask(jit_fn *f, const access *a)
{
    const LLVMValueRef mask = a->inst->args[0] ? jit_inst(f, a->inst->args[0], 1) : NULL;
    return mask && jit_lanes_of(mask) == 1 ? mask : NULL;
}

/* `p`, but the buffer's beginning where no lane is asked for and all have one mask: a masked load
 * of nothing where no memory is takes hundreds of cycles (AVX2 on Zen 4). */
static LLVMValueRef safe_address(jit_fn *f, const access *a, LLVMValueRef p)
{
    const LLVMValueRef is_on = one_mask(f, a);
    return is_on ? LLVMBuildSelect(f->u->ir, is_on, p, f->buffers[a->inst->ref], "") : p;
}

/* What a masked load gave, behind a fence. LLVM 22 folds such a load into an instruction with
 * the same mask (vfmadd132ps (%rax),%ymm1,%ymm0{%k1}{z}), and where a register is to be kept
 * takes the two apart again: into a load without the mask, which reads past the buffer. */
static LLVMValueRef fenced(jit_fn *f, LLVMValueRef v, uint32_t bytes)
{
    const LLVMTypeRef type = LLVMTypeOf(v);
    if (!f->u->features.has_avx512 || bytes < 4) {
        return v; /* AVX2 has no such instructions; narrow elements are widened first */
    }
    const LLVMTypeRef as = jit_like(f, bytes == 8 ? JIT_F64 : JIT_F32, v);
    v = LLVMBuildBitCast(f->u->ir, v, as, "");
    return LLVMBuildBitCast(f->u->ir, jit_intrinsic1(f, "llvm.arithmetic.fence", v), type, "");
}

static LLVMValueRef load_run(jit_fn *f, const access *a, LLVMValueRef mask, LLVMValueRef other)
{
    uint32_t align = 0;
    const LLVMValueRef p = safe_address(f, a, run_address(f, a, &align));
    const LLVMTypeRef type = jit_wide(a->type, f->lanes);
    const bool is_back = a->coef == -1;
    LLVMValueRef v;
    if (mask == NULL) {
        v = jit_load_at(f, type, p, align, a->inst->ref);
        if (!is_back) {
            jit_prefetch_row(f, a->inst->ref, a->inst->sym, p);
        }
    } else {
        LLVMTypeRef types[2] = {type, LLVMTypeOf(p)};
        LLVMValueRef args[3] = {p, is_back ? reversed(f, mask) : mask,
                                is_back ? reversed(f, other) : other};
        v = masked_call(f, "llvm.masked.load", types, args, 3, 0, align);
        tag(f, v, a->inst->ref);
        v = fenced(f, v, st_element_bytes(a->buffer->dtype));
    }
    return is_back ? reversed(f, v) : v;
}

/* ---- load ---- */

static LLVMValueRef load_scalar(jit_fn *f, const access *a)
{
    const LLVMValueRef at = jit_address(f, a->inst->ref, a->inst->sym);
    return jit_load_at(f, a->type, at, a->align, a->inst->ref);
}

/* The load where `is_on` (i1) holds, `other` elsewhere. Of lanes (a gather): those of `mask`. */
static LLVMValueRef load_branch(jit_fn *f, const access *a, LLVMValueRef is_on, LLVMValueRef mask,
                                LLVMValueRef other)
{
    const bool is_wide = jit_lanes_of(other) > 1;
    const LLVMValueRef at = is_wide ? pointers(f, a) : NULL;
    if (!is_wide) {
        (void)jit_address(f, a->inst->ref,
                          a->inst->sym); /* before the branch, for later instructions */
    }
    const jit_if on = jit_begin_if(f, is_on, false);
    return jit_end_if(f, &on, is_wide ? gather(f, a, at, mask, other) : load_scalar(f, a), other);
}

/* Elements where the mask is false, in the type that memory has. */
static LLVMValueRef other_value(jit_fn *f, const access *a, uint32_t lanes)
{
    const st_loop_ref other = a->inst->args[0] ? a->inst->args[1] : 0;
    return other ? to_memory(f, a->buffer->dtype, jit_inst(f, other, lanes))
                 : LLVMConstNull(jit_wide(a->type, lanes));
}

static LLVMValueRef load_uniform(jit_fn *f, const access *a)
{
    const st_loop_ref mask_inst = a->inst->args[0];
    const uint32_t mask_lanes = mask_inst ? jit_lanes_of(jit_inst(f, mask_inst, 1)) : 1;
    const st_loop_ref other = mask_inst ? a->inst->args[1] : 0;
    const uint32_t lanes = other && jit_lanes_of(jit_inst(f, other, 1)) > 1 ? f->lanes : mask_lanes;
    LLVMValueRef mask = jit_active(f, mask_inst, mask_lanes);
    mask = jit_bounds(f, a->ref, 1, mask && mask_lanes > 1 ? jit_any(f, mask) : mask);
    if (mask == NULL) {
        return load_scalar(f, a);
    }
    if (lanes == 1) {
        return load_branch(f, a, mask, NULL, other_value(f, a, 1));
    }
    const LLVMValueRef v = jit_splat(f, load_branch(f, a, mask, NULL, LLVMConstNull(a->type)));
    return jit_select(f, jit_inst(f, mask_inst, lanes), v, other_value(f, a, lanes));
}

void jit_load(jit_fn *f, st_loop_ref ref)
{
    const uint32_t dtype = f->kernel->buffers.data[st_loop_at(f->kernel, ref)->ref].dtype;
    if (st_loop_loaded(dtype) != dtype) {
        jit_load_nibbles(f, ref);
        return;
    }
    const access a = access_of(f, ref);
    LLVMValueRef v;
    if (a.shape == JIT_UNIFORM) {
        v = load_uniform(f, &a);
    } else {
        const LLVMValueRef mask =
            jit_bounds(f, ref, f->lanes, jit_active(f, a.inst->args[0], f->lanes));
        const LLVMValueRef other = other_value(f, &a, f->lanes);
        const LLVMValueRef is_on = one_mask(f, &a);
        v = is_contiguous(&a) ? load_run(f, &a, mask, other)
            : is_on           ? load_branch(f, &a, is_on, mask, other)
                              : gather(f, &a, pointers(f, &a), mask, other);
    }
    f->values[ref] = from_memory(f, a.buffer->dtype, v);
}

/* ---- store ---- */

/* The only lane of a constant mask; -1: it is none, or has more or fewer. */
static int64_t lone_lane(LLVMValueRef mask, uint32_t lanes)
{
    int64_t lone = -1;
    for (uint32_t i = 0; i < lanes && LLVMIsConstant(mask); i++) {
        const LLVMValueRef bit = LLVMGetAggregateElement(mask, i);
        if (bit == NULL || LLVMIsAConstantInt(bit) == NULL) {
            return -1;
        }
        if (LLVMConstIntGetZExtValue(bit)) {
            if (lone >= 0) {
                return -1;
            }
            lone = i;
        }
    }
    return lone;
}

/* One lane as a scalar: LLVM 22 makes of a masked store of a narrowed vector with one lane a store
 * of the wide element. */
static void store_lane(jit_fn *f, const access *a, LLVMValueRef value, LLVMValueRef p, int64_t lane)
{
    const LLVMValueRef x = jit_lane(f, value, (uint32_t)lane);
    (void)store_at(f, x, jit_element(f, LLVMTypeOf(x), p, jit_i64(f, lane)),
                   st_element_bytes(a->buffer->dtype), a->inst->ref);
}

static void store_run(jit_fn *f, const access *a, LLVMValueRef value, LLVMValueRef mask)
{
    uint32_t align = 0;
    const LLVMValueRef p = run_address(f, a, &align);
    const uint32_t bytes = st_element_bytes(a->buffer->dtype) * f->lanes;
    if (a->coef == -1) {
        value = reversed(f, value);
        mask = mask ? reversed(f, mask) : NULL;
    }
    const int64_t lone = mask ? lone_lane(mask, f->lanes) : -1;
    if (lone >= 0) {
        store_lane(f, a, value, p, lone);
        return;
    }
    if (mask != NULL) {
        LLVMTypeRef types[2] = {LLVMTypeOf(value), LLVMTypeOf(p)};
        LLVMValueRef args[3] = {value, p, mask};
        tag(f, masked_call(f, "llvm.masked.store", types, args, 3, 1, align), a->inst->ref);
        return;
    }
    const LLVMValueRef store = store_at(f, value, p, align, a->inst->ref);
    jit_pipeline_note(f, store);
    if (f->is_streamed && (a->buffer->flags & ST_BUFFER_STREAMED) && bytes >= 16u &&
        align >= (bytes < 64u ? bytes : 64u)) {
        LLVMMetadataRef one = LLVMValueAsMetadata(jit_i32(f, 1));
        LLVMSetMetadata(store, f->u->kind_nontemporal, jit_node(f, &one, 1));
    }
}

static void store_scalar(jit_fn *f, const access *a, LLVMValueRef value, LLVMValueRef is_on)
{
    const LLVMValueRef p = jit_address(f, a->inst->ref, a->inst->sym);
    const jit_if on = is_on ? jit_begin_if(f, is_on, false) : (jit_if){.join = NULL};
    (void)store_at(f, value, p, a->align, a->inst->ref);
    if (is_on != NULL) {
        (void)jit_end_if(f, &on, NULL, NULL);
    }
}

/* All lanes write one element: the last one that counts stays. */
static void store_uniform(jit_fn *f, const access *a)
{
    const st_loop_ref mask_inst = a->inst->args[1];
    const uint32_t mask_lanes = mask_inst ? jit_lanes_of(jit_inst(f, mask_inst, 1)) : 1;
    LLVMValueRef value = to_memory(f, a->buffer->dtype, jit_inst(f, a->inst->args[0], 1));
    LLVMValueRef mask = jit_active(f, mask_inst, mask_lanes);
    const LLVMValueRef is_on =
        jit_bounds(f, a->ref, 1, mask && mask_lanes > 1 ? jit_any(f, mask) : mask);
    if (jit_lanes_of(value) > 1 && mask_lanes > 1) {
        if (f->u->request->flags & JIT_DEBUG_BOUNDS) {
            mask = LLVMBuildAnd(f->u->ir, mask, jit_splat(f, is_on), "");
        }
        scatter(f, a, value, mask);
        return;
    }
    if (jit_lanes_of(value) > 1) {
        const LLVMValueRef last = f->last ? f->last : jit_i64(f, (int64_t)f->lanes - 1);
        value = LLVMBuildExtractElement(f->u->ir, value, last, "");
    }
    store_scalar(f, a, value, is_on);
}

void jit_store(jit_fn *f, st_loop_ref ref)
{
    const access a = access_of(f, ref);
    if (a.shape == JIT_UNIFORM) {
        store_uniform(f, &a);
        return;
    }
    const LLVMValueRef mask =
        jit_bounds(f, ref, f->lanes, jit_active(f, a.inst->args[1], f->lanes));
    const LLVMValueRef value =
        to_memory(f, a.buffer->dtype, jit_inst(f, a.inst->args[0], f->lanes));
    if (is_contiguous(&a)) {
        store_run(f, &a, value, mask);
    } else {
        scatter(f, &a, value, mask);
    }
}

/* ---- checks ---- */

void jit_report(jit_fn *f, LLVMValueRef bad, uint32_t value)
{
    const LLVMBuilderRef ir = f->u->ir;
    const jit_if is_bad = jit_begin_if(f, bad, true);
    const int64_t field = (int64_t)(offsetof(st_kernel_args, status) / sizeof(void *));
    const LLVMTypeRef pointer = f->u->types[JIT_PTR];
    const LLVMValueRef at =
        LLVMBuildLoad2(ir, pointer, jit_element(f, pointer, f->args, jit_i64(f, field)), "");
    const LLVMValueRef store = LLVMBuildStore(ir, jit_i32(f, value), at);
    LLVMSetAlignment(store, 4);
    LLVMSetOrdering(store, LLVMAtomicOrderingMonotonic);
    (void)jit_end_if(f, &is_bad, NULL, NULL);
}

void jit_check(jit_fn *f, st_loop_ref ref)
{
    const LLVMBuilderRef ir = f->u->ir;
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    uint32_t lanes = jit_lanes_of(jit_inst(f, inst->args[0], 1));
    if (inst->args[1] && jit_lanes_of(jit_inst(f, inst->args[1], 1)) > 1) {
        lanes = f->lanes;
    }
    LLVMValueRef bad = LLVMBuildNot(ir, jit_inst(f, inst->args[0], lanes), "");
    const LLVMValueRef active = jit_active(f, inst->args[1], lanes);
    if (active != NULL) {
        bad = LLVMBuildAnd(ir, bad, active, "");
    }
    jit_report(f, jit_any(f, bad), st_loop_check_status(inst));
}

LLVMValueRef jit_bounds(jit_fn *f, st_loop_ref ref, uint32_t lanes, LLVMValueRef mask)
{
    const LLVMBuilderRef ir = f->u->ir;
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    if (!(f->u->request->flags & JIT_DEBUG_BOUNDS)) {
        return mask;
    }
    LLVMValueRef count = jit_sym(f, f->kernel->buffers.data[inst->ref].numel);
    LLVMValueRef index = lanes > 1 && f->private_lanes[inst->ref] <= 1
                             ? jit_vsym(f, inst->sym, false)
                             : jit_sym(f, inst->sym);
    index = lanes > 1 && jit_lanes_of(index) == 1 ? jit_splat(f, index) : index;
    count = lanes > 1 ? jit_splat(f, count) : count;
    LLVMValueRef fits = LLVMBuildICmp(ir, LLVMIntULT, index, count, "");
    LLVMValueRef bad = LLVMBuildNot(ir, fits, "");
    if (mask != NULL) {
        bad = LLVMBuildAnd(ir, bad, mask, "");
        fits = LLVMBuildAnd(ir, fits, mask, "");
    }
    jit_report(f, jit_any(f, bad), JIT_STATUS_BOUNDS | ref);
    return fits;
}
