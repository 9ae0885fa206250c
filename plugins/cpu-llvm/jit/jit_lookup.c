/* Tables of 32 floats. With AVX-512 a table is two registers and vpermi2ps looks up 16 lanes at
 * once: it reads the low five bits of an index, so that the bits of x serve as they are. With AVX2
 * a table made of 8 entries is one register, and vpermps looks up 8 lanes. Elsewhere lane by lane.
 */
#include "jit_emit.h"

#include <string.h>

#define LANES 16u /* lanes of a register */
#define FEW_LANES ((uint32_t)ST_MATH_FEW)

/* Entries first .. first+n-1 of a table. */
static LLVMValueRef entries(jit_fn *f, uint32_t table, uint32_t first, uint32_t n)
{
    LLVMValueRef values[ST_MATH_ENTRIES];
    for (uint32_t i = 0; i < n; i++) {
        values[i] = LLVMConstReal(f->u->types[JIT_F32], (double)st_loop_tables[table][first + i]);
    }
    return LLVMConstVector(values, n);
}

/* 16 lanes. */
static LLVMValueRef permute(jit_fn *f, const LLVMValueRef *bits, uint32_t table)
{
    _Static_assert(ST_MATH_ENTRIES == 2 * LANES, "two registers");
    LLVMValueRef args[3] = {entries(f, table, 0, LANES), *bits, entries(f, table, LANES, LANES)};
    return jit_intrinsic(f, "llvm.x86.avx512.vpermi2var.ps.512", NULL, 0, args, 3);
}

/* 8 lanes. */
static LLVMValueRef permute_few(jit_fn *f, const LLVMValueRef *bits, uint32_t table)
{
    LLVMValueRef args[2] = {entries(f, table, 0, FEW_LANES), *bits};
    return jit_intrinsic(f, "llvm.x86.avx2.permps", NULL, 0, args, 2);
}

/* Is the table as many of few entries behind one another? */
static bool is_of_few(uint32_t table)
{
    const float *all = st_loop_tables[table];
    return memcmp(all, all + FEW_LANES, (ST_MATH_ENTRIES - FEW_LANES) * sizeof *all) == 0;
}

static LLVMValueRef by_lane(jit_fn *f, LLVMValueRef bits, uint32_t table)
{
    const LLVMBuilderRef ir = f->u->ir;
    const uint32_t lanes = jit_lanes_of(bits);
    const LLVMValueRef at =
        LLVMBuildAnd(ir, bits, jit_int(LLVMTypeOf(bits), ST_MATH_ENTRIES - 1), "");
    const LLVMValueRef values = entries(f, table, 0, ST_MATH_ENTRIES);
    if (lanes == 1) {
        return LLVMBuildExtractElement(ir, values, at, "");
    }
    LLVMValueRef out = jit_poison(jit_wide(f->u->types[JIT_F32], lanes));
    for (uint32_t k = 0; k < lanes; k++) {
        const LLVMValueRef lane = jit_i32(f, k);
        const LLVMValueRef i = LLVMBuildExtractElement(ir, at, lane, "");
        out = LLVMBuildInsertElement(ir, out, LLVMBuildExtractElement(ir, values, i, ""), lane, "");
    }
    return out;
}

LLVMValueRef jit_lookup(jit_fn *f, LLVMValueRef x, uint32_t table)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(x);
    const bool is_f32 = jit_element_of(type) == f->u->types[JIT_F32];
    const uint8_t *spells = f->u->request->spells;
    LLVMValueRef bits = LLVMBuildBitCast(ir, x, jit_like(f, is_f32 ? JIT_I32 : JIT_I64, x), "");
    if (!is_f32) {
        bits = LLVMBuildTrunc(ir, bits, jit_like(f, JIT_I32, x), "");
    }
    const uint32_t spelled = spells ? spells[ST_LOOP_lookup] : 0u;
    const jit_instruction all = {permute, table, 1, LANES, LANES};
    const jit_instruction few = {permute_few, table, 1, FEW_LANES, FEW_LANES};
    const LLVMValueRef y = spelled == ST_MATH_ENTRIES ? jit_by_registers(f, &all, &bits)
                           : spelled == ST_MATH_FEW && is_of_few(table)
                               ? jit_by_registers(f, &few, &bits)
                               : by_lane(f, bits, table);
    return is_f32 ? y : LLVMBuildFPExt(ir, y, type, "");
}
