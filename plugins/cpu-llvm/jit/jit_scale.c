/* ldexp in one instruction: vscalef of AVX-512, on registers of 16, 32 or 64 bytes. A scalar takes
 * the smallest register, more lanes than the largest that the code may use are done piece by piece:
 * LLVM splits other operations, but no instruction asked for by name. */
#include "jit_emit.h"

#include <stdio.h>

#define REGISTER_LEAST 16u /* bytes */
#define REGISTER_MOST 64u

/* One register. */
static LLVMValueRef scale(jit_fn *f, LLVMValueRef x, LLVMValueRef y)
{
    char name[64];
    const LLVMTypeRef i32 = f->u->types[JIT_I32];
    const LLVMTypeRef type = LLVMTypeOf(x);
    const uint32_t lanes = jit_lanes_of(x);
    const uint32_t bytes = jit_element_of(type) == f->u->types[JIT_F32] ? 4 : 8;
    const uint32_t is_full = lanes * bytes == REGISTER_MOST;
    (void)snprintf(name, sizeof name, "llvm.x86.avx512.mask.scalef.p%c.%u", bytes == 4 ? 's' : 'd',
                   lanes * bytes * 8u);
    const LLVMTypeRef bits = f->u->types[lanes > 8u ? JIT_I16 : JIT_I8];
    LLVMValueRef args[5] = {x, y, LLVMConstNull(type), LLVMConstAllOnes(bits),
                            LLVMConstInt(i32, 4, 0)}; /* 4: round as the mode says */
    return jit_intrinsic(f, name, NULL, 0, args, is_full ? 5 : 4);
}

LLVMValueRef jit_ldexp(jit_fn *f, LLVMValueRef x, LLVMValueRef y)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(x);
    const uint32_t lanes = jit_lanes_of(x);
    const uint32_t bytes = jit_element_of(type) == f->u->types[JIT_F32] ? 4 : 8;
    const LLVMValueRef zero = LLVMConstInt(f->u->types[JIT_I32], 0, 0);
    if (lanes == 1) {
        const LLVMValueRef none = jit_poison(jit_wide(type, REGISTER_LEAST / bytes));
        const LLVMValueRef v = scale(f, LLVMBuildInsertElement(ir, none, x, zero, ""),
                                     LLVMBuildInsertElement(ir, none, y, zero, ""));
        return LLVMBuildExtractElement(ir, v, zero, "");
    }
    if (lanes * bytes < REGISTER_LEAST) {
        const uint32_t n = REGISTER_LEAST / bytes;
        return jit_slice(f, scale(f, jit_slice(f, x, 0, n), jit_slice(f, y, 0, n)), 0, lanes);
    }
    if (lanes * bytes > f->u->request->vector_bytes) {
        const uint32_t n = lanes / 2u;
        return jit_join(f, jit_ldexp(f, jit_slice(f, x, 0, n), jit_slice(f, y, 0, n)),
                        jit_ldexp(f, jit_slice(f, x, n, n), jit_slice(f, y, n, n)));
    }
    return scale(f, x, y);
}
