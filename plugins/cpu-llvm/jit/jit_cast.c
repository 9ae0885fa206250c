/* Conversions between dtypes; the values are those of core/base/convert.h.
 *
 * Storage floats (bf16, f16, f8) are integers in registers; expansion has left casts of them from
 * and to f32 alone. f32 is rounded to nearest, ties to even, by the CPU where it can.
 * Float to integer gives what x86 gives: fptosi's result for what does not fit is frozen, not
 * poison, and the instruction's value is the smallest integer. */
#include "jit_emit.h"

static bool is_storage(uint32_t dtype)
{
    return st_loop_class_of(dtype) == ST_LOOP_STORAGE;
}

static LLVMValueRef to_bits(jit_fn *f, LLVMValueRef x)
{
    return LLVMBuildBitCast(f->u->ir, x, jit_like(f, JIT_I32, x), "");
}

static LLVMValueRef to_f32(jit_fn *f, LLVMValueRef bits)
{
    return LLVMBuildBitCast(f->u->ir, bits, jit_like(f, JIT_F32, bits), "");
}

static LLVMValueRef and_int(jit_fn *f, LLVMValueRef v, int64_t mask)
{
    return LLVMBuildAnd(f->u->ir, v, jit_int(LLVMTypeOf(v), mask), "");
}

static LLVMValueRef add_int(jit_fn *f, LLVMValueRef v, int64_t n)
{
    return LLVMBuildAdd(f->u->ir, v, jit_int(LLVMTypeOf(v), n), "");
}

static LLVMValueRef shift_right(jit_fn *f, LLVMValueRef v, int64_t n)
{
    return LLVMBuildLShr(f->u->ir, v, jit_int(LLVMTypeOf(v), n), "");
}

static LLVMValueRef shift_left(jit_fn *f, LLVMValueRef v, int64_t n)
{
    return LLVMBuildShl(f->u->ir, v, jit_int(LLVMTypeOf(v), n), "");
}

static LLVMValueRef exceeds(jit_fn *f, LLVMValueRef v, uint32_t limit)
{
    return LLVMBuildICmp(f->u->ir, LLVMIntUGT, v, jit_int(LLVMTypeOf(v), limit), "");
}

/* ---- storage floats to f32 ---- */

/* For processors without the instruction: the exponent is rebiased in the integer. */
static LLVMValueRef half_by_parts(jit_fn *f, LLVMValueRef bits16)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMValueRef v = LLVMBuildZExt(ir, bits16, jit_like(f, JIT_I32, bits16), "");
    const LLVMTypeRef i32 = LLVMTypeOf(v);
    const LLVMValueRef u = shift_left(f, and_int(f, v, 0x7fff), 13);
    const LLVMValueRef exponent = and_int(f, u, (int64_t)0x7c00 << 13);
    const LLVMValueRef normal = add_int(f, u, (int64_t)112 << 23); /* 127 - 15 */
    const LLVMValueRef small = LLVMBuildFSub(ir, to_f32(f, add_int(f, u, (int64_t)113 << 23)),
                                             to_f32(f, jit_int(i32, (int64_t)113 << 23)), "");
    LLVMValueRef out = jit_select(f, LLVMBuildICmp(ir, LLVMIntEQ, exponent, jit_int(i32, 0), ""),
                                  to_bits(f, small), normal);
    out = jit_select(
        f, LLVMBuildICmp(ir, LLVMIntEQ, exponent, jit_int(i32, (int64_t)0x7c00 << 13), ""),
        add_int(f, normal, (int64_t)112 << 23), out);
    return to_f32(f, LLVMBuildOr(ir, out, shift_left(f, and_int(f, v, 0x8000), 16), ""));
}

static LLVMValueRef half_to_f32(jit_fn *f, LLVMValueRef bits16)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef half = jit_like(f, JIT_F16, bits16);
    if (!f->u->features.has_f16c) {
        return half_by_parts(f, bits16);
    }
    return LLVMBuildFPExt(ir, LLVMBuildBitCast(ir, bits16, half, ""), jit_like(f, JIT_F32, bits16),
                          "");
}

/* 4 exponent bits of bias 7, 3 mantissa bits, no inf; subnormals are multiples of 2^-9. */
static LLVMValueRef e4m3_to_f32(jit_fn *f, LLVMValueRef bits8)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMValueRef v = LLVMBuildZExt(ir, bits8, jit_like(f, JIT_I32, bits8), "");
    const LLVMValueRef magnitude = and_int(f, v, 0x7f);
    const LLVMValueRef sign = shift_left(f, and_int(f, v, 0x80), 24);
    const LLVMValueRef normal = add_int(f, shift_left(f, magnitude, 20), (int64_t)120 << 23);
    const LLVMValueRef small =
        to_bits(f, LLVMBuildFMul(ir, LLVMBuildUIToFP(ir, magnitude, jit_like(f, JIT_F32, v), ""),
                                 jit_real(jit_like(f, JIT_F32, v), 0x1p-9), ""));
    LLVMValueRef out = jit_select(f, exceeds(f, magnitude, 7), normal, small);
    out = jit_select(f, exceeds(f, magnitude, 0x7e), jit_int(LLVMTypeOf(v), 0x7fc00000), out);
    return to_f32(f, LLVMBuildOr(ir, out, sign, ""));
}

static LLVMValueRef widen(jit_fn *f, uint32_t from, LLVMValueRef x)
{
    const LLVMBuilderRef ir = f->u->ir;
    switch (from) {
    case STATOR_BF16:
        return to_f32(f, shift_left(f, LLVMBuildZExt(ir, x, jit_like(f, JIT_I32, x), ""), 16));
    case STATOR_F16:
        return half_to_f32(f, x);
    case STATOR_F8E5M2:
        return half_to_f32(f, shift_left(f, LLVMBuildZExt(ir, x, jit_like(f, JIT_I16, x), ""), 8));
    default:
        return e4m3_to_f32(f, x);
    }
}

/* ---- f32 to storage floats ---- */

/* Rounded to nearest even; not for NaN. */
static LLVMValueRef bf16_bits(jit_fn *f, LLVMValueRef u)
{
    const LLVMValueRef odd = and_int(f, shift_right(f, u, 16), 1);
    return shift_right(f, LLVMBuildAdd(f->u->ir, add_int(f, u, 0x7fff), odd, ""), 16);
}

/* Rounds by vcvtneps2bf16, which makes 0 of subnormals: when a lane holds one, those lanes are
 * rounded as integers in a block that is skipped otherwise. */
static LLVMValueRef bf16_by_cpu(jit_fn *f, LLVMValueRef x)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMValueRef bf16 = LLVMBuildFPTrunc(ir, x, jit_like(f, JIT_BF16, x), "");
    const LLVMTypeRef i16 = jit_like(f, JIT_I16, x);
    const LLVMValueRef usual = LLVMBuildBitCast(ir, bf16, i16, "");
    const LLVMValueRef u = to_bits(f, x);
    const LLVMValueRef below_1 =
        add_int(f, shift_left(f, u, 1), -1); /* without the sign; 0: huge */
    const LLVMValueRef is_small =
        LLVMBuildICmp(ir, LLVMIntULT, below_1, jit_int(LLVMTypeOf(u), 0x00ffffff), "");
    const jit_if small = jit_begin_if(f, jit_any(f, is_small), true);
    return jit_end_if(f, &small,
                      jit_select(f, is_small, LLVMBuildTrunc(ir, bf16_bits(f, u), i16, ""), usual),
                      usual);
}

static LLVMValueRef f32_to_bf16(jit_fn *f, LLVMValueRef x)
{
    const LLVMBuilderRef ir = f->u->ir;
    if (f->u->features.has_bf16) {
        return bf16_by_cpu(f, x);
    }
    const LLVMValueRef u = to_bits(f, x);
    const LLVMValueRef nan =
        LLVMBuildOr(ir, shift_right(f, u, 16), jit_int(LLVMTypeOf(u), 0x40), "");
    const LLVMValueRef is_nan = LLVMBuildFCmp(ir, LLVMRealUNO, x, x, "");
    return LLVMBuildTrunc(ir, jit_select(f, is_nan, nan, bf16_bits(f, u)), jit_like(f, JIT_I16, x),
                          "");
}

/* The value's magnitude as bits of a format with `mantissa` bits and this exponent bias, rounded to
 * even; values above the format's range come out above its largest. As in F. Giesen's
 * float_to_half_fast3_rtne: adding a power of two aligns the last place of subnormals. */
static LLVMValueRef round_small(jit_fn *f, LLVMValueRef magnitude, int64_t mantissa, int64_t bias)
{
    const LLVMBuilderRef ir = f->u->ir;
    const int64_t drop = 23 - mantissa;
    const int64_t least = (127 - bias + 1) << 23;        /* smallest normal */
    const int64_t align = (127 - bias + 1 + drop) << 23; /* an f32 with the format's last place */
    const LLVMValueRef aligned = LLVMBuildFAdd(
        ir, to_f32(f, magnitude), to_f32(f, jit_int(LLVMTypeOf(magnitude), align)), "");
    const LLVMValueRef small = add_int(f, to_bits(f, aligned), -align);
    const LLVMValueRef odd = and_int(f, shift_right(f, magnitude, drop), 1);
    const int64_t rebias = -((127 - bias) << 23) + (((int64_t)1 << (drop - 1)) - 1);
    const LLVMValueRef normal =
        shift_right(f, LLVMBuildAdd(ir, add_int(f, magnitude, rebias), odd, ""), drop);
    return jit_select(f, exceeds(f, magnitude, (uint32_t)(least - 1)), normal, small);
}

typedef struct format {
    int64_t mantissa, bias;
    uint32_t largest;  /* finite */
    uint32_t overflow; /* inf, or NaN */
    uint32_t nan;
} format;

static LLVMValueRef to_small_float(jit_fn *f, LLVMValueRef x, const format *to, uint32_t type)
{
    const LLVMBuilderRef ir = f->u->ir;
    const uint32_t width = type == JIT_I16 ? 16u : 8u;
    const LLVMValueRef u = to_bits(f, x);
    const LLVMTypeRef i32 = LLVMTypeOf(u);
    const LLVMValueRef magnitude = and_int(f, u, 0x7fffffff);
    const LLVMValueRef sign = shift_left(f, shift_right(f, u, 31), width - 1u);
    LLVMValueRef out = round_small(f, magnitude, to->mantissa, to->bias);
    out = jit_select(f, exceeds(f, out, to->largest), jit_int(i32, to->overflow), out);
    out = jit_select(f, exceeds(f, magnitude, 0x7f800000u), jit_int(i32, to->nan), out);
    return LLVMBuildTrunc(ir, LLVMBuildOr(ir, out, sign, ""), jit_like(f, type, x), "");
}

static LLVMValueRef narrow(jit_fn *f, uint32_t to, LLVMValueRef x, bool saturates)
{
    static const format half = {10, 15, 0x7bff, 0x7c00, 0x7e00};
    static const format e4m3 = {3, 7, 0x7e, 0x7f, 0x7f};
    static const format e5m2 = {2, 15, 0x7b, 0x7c, 0x7e};
    format f8 = to == STATOR_F8E5M2 ? e5m2 : e4m3;
    f8.overflow = saturates ? f8.largest : f8.overflow;
    const LLVMBuilderRef ir = f->u->ir;
    switch (to) {
    case STATOR_BF16:
        return f32_to_bf16(f, x);
    case STATOR_F16:
        if (f->u->features.has_f16c) {
            const LLVMValueRef v = LLVMBuildFPTrunc(ir, x, jit_like(f, JIT_F16, x), "");
            return LLVMBuildBitCast(ir, v, jit_like(f, JIT_I16, x), "");
        }
        return to_small_float(f, x, &half, JIT_I16);
    default:
        return to_small_float(f, x, &f8, JIT_I8);
    }
}

/* ---- integers ---- */

static LLVMValueRef float_to_u64(jit_fn *f, LLVMValueRef x)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef i64 = jit_like(f, JIT_I64, x);
    const LLVMValueRef big = jit_real(LLVMTypeOf(x), 0x1p63);
    const LLVMValueRef is_big = LLVMBuildFCmp(ir, LLVMRealOGE, x, big, "");
    const LLVMValueRef low = LLVMBuildFreeze(ir, LLVMBuildFPToSI(ir, x, i64, ""), "");
    const LLVMValueRef high =
        LLVMBuildFreeze(ir, LLVMBuildFPToSI(ir, LLVMBuildFSub(ir, x, big, ""), i64, ""), "");
    return jit_select(f, is_big, LLVMBuildOr(ir, high, jit_int(i64, INT64_MIN), ""), low);
}

static LLVMValueRef float_to_int(jit_fn *f, uint32_t to, LLVMValueRef x)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = jit_wide(jit_type_of(f, to), jit_lanes_of(x));
    if (to == STATOR_BOOL) {
        return LLVMBuildFCmp(ir, LLVMRealUNE, x, jit_real(LLVMTypeOf(x), 0.0), "");
    }
    if (to == STATOR_U64) {
        return float_to_u64(f, x);
    }
    const uint32_t through = to == STATOR_I64 || to == STATOR_U32 ? JIT_I64 : JIT_I32;
    const LLVMValueRef v =
        LLVMBuildFreeze(ir, LLVMBuildFPToSI(ir, x, jit_like(f, through, x), ""), "");
    return LLVMBuildIntCast2(ir, v, type, 1, "");
}

static LLVMValueRef int_to_float(jit_fn *f, uint32_t to, uint32_t from, LLVMValueRef x)
{
    const LLVMTypeRef type = jit_like(f, to == STATOR_F64 ? JIT_F64 : JIT_F32, x);
    return st_loop_class_of(from) == ST_LOOP_INTS ? LLVMBuildSIToFP(f->u->ir, x, type, "")
                                                  : LLVMBuildUIToFP(f->u->ir, x, type, "");
}

static LLVMValueRef int_to_int(jit_fn *f, uint32_t to, uint32_t from, LLVMValueRef x)
{
    if (to == STATOR_BOOL) {
        return LLVMBuildICmp(f->u->ir, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    }
    const LLVMTypeRef type = jit_wide(jit_type_of(f, to), jit_lanes_of(x));
    return LLVMBuildIntCast2(f->u->ir, x, type, st_loop_class_of(from) == ST_LOOP_INTS, "");
}

LLVMValueRef jit_cast(jit_fn *f, uint32_t to, uint32_t from, LLVMValueRef x, bool saturates)
{
    const LLVMBuilderRef ir = f->u->ir;
    if (to == from) {
        return x;
    }
    if (is_storage(from)) {
        return widen(f, from, x);
    }
    if (is_storage(to)) {
        return narrow(f, to, x, saturates);
    }
    if (jit_is_float(from) && jit_is_float(to)) {
        return to == STATOR_F64 ? LLVMBuildFPExt(ir, x, jit_like(f, JIT_F64, x), "")
                                : LLVMBuildFPTrunc(ir, x, jit_like(f, JIT_F32, x), "");
    }
    if (jit_is_float(from)) {
        return float_to_int(f, to, x);
    }
    return jit_is_float(to) ? int_to_float(f, to, from, x) : int_to_int(f, to, from, x);
}
