/* Rows ahead: in kernels that walk a row several times, the second walk asks the cache for the same
 * place of the next row, so that the first walk of that row does not wait for memory.
 *
 *     loop i0 < rows parallel
 *       loop i1 < n vector    ... x[n * i0 + i1]        from memory
 *       loop i2 < n vector    ... x[n * i0 + i2]        from the cache; prefetch x[n * (i0 + 1) +
 * i2]
 *
 * Past the last row it asks for what is not there, which does no harm. */
#include "jit_emit.h"

#define LINE_BYTES 64u
#define LOCALITY_L2 2

/* The parallel axis around, when it is not the vector axis; NULL: none. */
static const st_loop_axis *row_axis(const jit_fn *f)
{
    const st_loop_ref ref = st_kernel_parallel_loop(f->kernel);
    const st_loop_axis *axis = ref ? &f->kernel->axes.data[st_loop_at(f->kernel, ref)->ref] : NULL;
    return axis != NULL && axis->symbol != f->vec_symbol ? axis : NULL;
}

/* The walk's place among those seen; a new one when it is the first of its row. NULL: no memory. */
static jit_walk *find_walk(jit_fn *f, uint32_t buffer, uint32_t rest)
{
    for (uint32_t i = 0; i < f->walks.count; i++) {
        jit_walk *walk = &f->walks.data[i];
        if (walk->buffer == buffer && walk->rest == rest) {
            return walk;
        }
    }
    jit_walk *walk = st_vec_push(f->u->mem, &f->walks);
    if (walk == NULL) {
        (void)jit_fail(f->u, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    *walk = (jit_walk){.buffer = buffer, .rest = rest, .first = f->vec_symbol};
    return walk;
}

static void prefetch(jit_fn *f, LLVMValueRef address)
{
    const LLVMTypeRef i32 = f->u->types[JIT_I32];
    LLVMTypeRef type = f->u->types[JIT_PTR];
    LLVMValueRef args[4] = {address, LLVMConstInt(i32, 0, 0), LLVMConstInt(i32, LOCALITY_L2, 0),
                            LLVMConstInt(i32, 1, 0)};
    (void)jit_intrinsic(f, "llvm.prefetch", &type, 1, args, 4);
}

void jit_prefetch_row(jit_fn *f, uint32_t buffer, uint32_t sym, LLVMValueRef address)
{
    const st_loop_axis *axis = row_axis(f);
    uint32_t coef = 0;
    uint32_t rest = 0;
    int64_t step = 0;
    if (axis == NULL || f->kernel->buffers.data[buffer].flags & ST_BUFFER_LOCAL ||
        !st_loop_linear(f->syms, sym, f->vec_symbol, &coef, &rest)) {
        return;
    }
    jit_walk *walk = find_walk(f, buffer, rest);
    if (walk == NULL || walk->first == f->vec_symbol ||
        (walk->second != 0 && walk->second != f->vec_symbol + 1u) ||
        !st_loop_linear(f->syms, sym, axis->symbol, &coef, &rest) ||
        (st_sym_const(&f->syms->tab, coef, &step) && step <= 0)) {
        return;
    }
    walk->second = f->vec_symbol + 1u;
    LLVMValueRef ahead = jit_sym(f, coef);
    const LLVMTypeRef type = jit_memory_type(f, f->kernel->buffers.data[buffer].dtype);
    const LLVMValueRef next = LLVMBuildGEP2(f->u->ir, type, address, &ahead, 1, "");
    const uint32_t bytes = f->lanes * jit_dtype_bytes(f->kernel->buffers.data[buffer].dtype);
    prefetch(f, next);
    for (uint32_t at = LINE_BYTES; at < bytes; at += LINE_BYTES) {
        LLVMValueRef offset = jit_i64(f, at);
        prefetch(f, LLVMBuildGEP2(f->u->ir, f->u->types[JIT_I8], next, &offset, 1, ""));
    }
}
