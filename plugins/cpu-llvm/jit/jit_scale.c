/* ldexp in one instruction: vscalef of AVX-512, on registers of 16 bytes to the largest that the
 * code may use. */
#include "jit_emit.h"

#include <stdio.h>

#define REGISTER_MIN 16u /* bytes */
#define REGISTER_MAX 64u

/* One register. */
static LLVMValueRef scale(jit_fn *f, const LLVMValueRef *xy, uint32_t bytes)
{
    char name[64];
    const LLVMTypeRef type = LLVMTypeOf(xy[0]);
    const uint32_t lanes = jit_lanes_of(xy[0]);
    const uint32_t is_full = lanes * bytes == REGISTER_MAX;
    (void)snprintf(name, sizeof name, "llvm.x86.avx512.mask.scalef.p%c.%u", bytes == 4 ? 's' : 'd',
                   lanes * bytes * 8u);
    const LLVMTypeRef bits = f->u->types[lanes > 8u ? JIT_I16 : JIT_I8];
    LLVMValueRef args[5] = {xy[0], xy[1], LLVMConstNull(type), LLVMConstAllOnes(bits),
                            jit_i32(f, 4)}; /* 4: round as the mode says */
    return jit_intrinsic(f, name, NULL, 0, args, is_full ? 5 : 4);
}

LLVMValueRef jit_ldexp(jit_fn *f, LLVMValueRef x, LLVMValueRef y)
{
    const LLVMValueRef args[2] = {x, y};
    const uint32_t bytes = jit_element_of(LLVMTypeOf(x)) == f->u->types[JIT_F32] ? 4 : 8;
    const jit_instruction scalef = {scale, bytes, 2, REGISTER_MIN / bytes,
                                    f->u->request->vector_bytes / bytes};
    return jit_by_registers(f, &scalef, args);
}
