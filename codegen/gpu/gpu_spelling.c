/* The words of the dialect of docs/gpu.md, and helpers of programs in it. */
#include "codegen/gpu/gpu_text.h"

#include <string.h>

static const st_loop_pattern functions[] = {
    {ST_LOOP_abs, "st_abs#(1)"},     {ST_LOOP_ceil, "st_ceil#(1)"},
    {ST_LOOP_floor, "st_floor#(1)"}, {ST_LOOP_round, "st_rint#(1)"},
    {ST_LOOP_trunc, "st_trunc#(1)"}, {ST_LOOP_fma, "st_fma#(1, 2, 3)"},
    {ST_LOOP_sqrt, "st_sqrt#(1)"},
};

#define INFINITY_F32 "st_f32_of_bits(0x7f800000u)"
#define INFINITY_F64 "st_f64_of_bits(0x7ff0000000000000ull)"
#define MINUS_INFINITY_F32 "st_f32_of_bits(0xff800000u)"
#define MINUS_INFINITY_F64 "st_f64_of_bits(0xfff0000000000000ull)"
#define I32_MIN "(-2147483647 - 1)"
#define I64_MIN "(-9223372036854775807ll - 1)"

const st_loop_spelling gpu_spelling = {
    .types = {[STATOR_BOOL] = "st_bool",
              [STATOR_I8] = "st_i8",
              [STATOR_I16] = "st_i16",
              [STATOR_I32] = "st_i32",
              [STATOR_I64] = "st_i64",
              [STATOR_U8] = "st_u8",
              [STATOR_U16] = "st_u16",
              [STATOR_U32] = "st_u32",
              [STATOR_U64] = "st_u64",
              [STATOR_F8E4M3FN] = "st_u8",
              [STATOR_F8E5M2] = "st_u8",
              [STATOR_BF16] = "st_u16",
              [STATOR_F16] = "st_u16",
              [STATOR_F32] = "float",
              [STATOR_F64] = "double"},
    .least = {[STATOR_BOOL] = "0",
              [STATOR_I8] = "(-128)",
              [STATOR_I16] = "(-32768)",
              [STATOR_I32] = I32_MIN,
              [STATOR_I64] = I64_MIN,
              [STATOR_U8] = "0",
              [STATOR_U16] = "0",
              [STATOR_U32] = "0",
              [STATOR_U64] = "0",
              [STATOR_F32] = MINUS_INFINITY_F32,
              [STATOR_F64] = MINUS_INFINITY_F64},
    .greatest = {[STATOR_BOOL] = "1",
                 [STATOR_I8] = "127",
                 [STATOR_I16] = "32767",
                 [STATOR_I32] = "2147483647",
                 [STATOR_I64] = "9223372036854775807ll",
                 [STATOR_U8] = "255",
                 [STATOR_U16] = "65535",
                 [STATOR_U32] = "4294967295u",
                 [STATOR_U64] = "18446744073709551615ull",
                 [STATOR_F32] = INFINITY_F32,
                 [STATOR_F64] = INFINITY_F64},
    .index_type = "st_i64",
    .index_literal = {"", "ll"},
    .bits_literal = {"", "ull"},
    .nan = {"st_f32_of_bits(0x7fc00000u)", "st_f64_of_bits(0x7ff8000000000000ull)"},
    .infinity = {INFINITY_F32, INFINITY_F64},
    .minus_infinity = {MINUS_INFINITY_F32, MINUS_INFINITY_F64},
    .of_bits = {"st_f32_of_bits", "st_f64_of_bits"},
    .to_bits = {"st_bits_of_f32", "st_bits_of_f64"},
    .suffix = {"_f32", "_f64"},
    .extremes_f32 = {"st_minimum_f32", "st_maximum_f32"},
    .round_bf16 = "st_round_bf16",
    .libm_prefix = "st_",
    .functions = functions,
    .n_functions = sizeof functions / sizeof functions[0],
    .is_wrapping = false,
    .unused = "",
    .set_status = {"st_set_status(ST_ARG(status), ", ")"},
};

const uint8_t st_gpu_spells[ST_LOOP_CODE_COUNT] = {[ST_LOOP_cast] = ST_CAST_HALVES};

typedef struct helper {
    const char *name; /* as it is called */
    const char *text;
} helper;

/* What loop_text.h asks of a frame; the meaning is that of loop_c.c. */
static const helper helpers[] = {
    {"ST_MIN(", "/* NaN passes; for integers the test is folded away. */\n"
                "#define ST_MIN(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))\n"},
    {"ST_MAX(", "#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))\n"},
    {"ST_BETTER(", "/* Does x at i take the place of y at j? */\n"
                   "#define ST_BETTER(x, i, y, j, less) \\\n"
                   "    ((x) != (x) || (y) != (y) ? (y) == (y) || ((x) != (x) && (i) < (j)) \\\n"
                   "                              : (x) == (y) ? (i) < (j) : (less))\n"},
    /* Sizes of symbols are divided some dozen times in a kernel: inlined, 64 bits each, they keep
     * NVRTC busy for minutes. */
    {"st_floordiv(", "ST_DEVICE_CALL st_i64 st_floordiv(st_i64 a, st_i64 b)\n"
                     "{\n"
                     "    const st_i64 q = b == 0 ? 0 : b == -1 ? -a : a / b;\n"
                     "    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : "
                     "q;\n"
                     "}\n"},
    {"st_mod(", "ST_DEVICE_CALL st_i64 st_mod(st_i64 a, st_i64 b)\n"
                "{\n"
                "    const st_i64 r = b == 0 ? a : b == -1 ? 0 : a % b;\n"
                "    return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
                "}\n"},
    {"st_u4(", "/* Element i of integers of four bits, the one of even index in the low ones. */\n"
               "ST_DEVICE st_u8 st_u4(const st_u8 *b, st_i64 i)\n"
               "{\n"
               "    return (st_u8)(b[i >> 1] >> (i & 1) * 4 & 15);\n"
               "}\n"},
    {"st_i4(", "ST_DEVICE st_i8 st_i4(const st_u8 *b, st_i64 i)\n"
               "{\n"
               "    return (st_i8)(((b[i >> 1] >> (i & 1) * 4 & 15) ^ 8) - 8);\n"
               "}\n"},
    {"st_rest_of(", "/* What a value is more than a piece of it; beyond the largest, nothing. */\n"
                    "ST_DEVICE float st_rest_of(float x, st_u16 piece)\n"
                    "{\n"
                    "    const float rest = x - st_f32_of_bf16(piece);\n"
                    "    return rest - rest == 0 ? rest : 0;\n"
                    "}\n"},
    {"st_i32_of(", "/* Truncation; what does not fit is the smallest integer. */\n"
                   "ST_DEVICE st_i32 st_i32_of(double x)\n"
                   "{\n"
                   "    return x > -2147483649.0 && x < 2147483648.0 ? (st_i32)x : " I32_MIN ";\n"
                   "}\n"},
    {"st_i32_of_f32(",
     "ST_DEVICE st_i32 st_i32_of_f32(float x)\n"
     "{\n"
     "    return x >= -2147483648.0f && x < 2147483648.0f ? (st_i32)x : " I32_MIN ";\n"
     "}\n"},
    {"st_i64_of(",
     "ST_DEVICE st_i64 st_i64_of(double x)\n"
     "{\n"
     "    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (st_i64)x\n"
     "                                                                    : " I64_MIN ";\n"
     "}\n"},
    {"st_u64_of(",
     "ST_DEVICE st_u64 st_u64_of(double x)\n"
     "{\n"
     "    const st_u64 top = 1ull << 63;\n"
     "    if (x >= 9223372036854775808.0) {\n"
     "        return x < 18446744073709551616.0 ? (st_u64)(x - 9223372036854775808.0) "
     "+ top\n"
     "                                          : top;\n"
     "    }\n"
     "    return x >= -9223372036854775808.0 ? (st_u64)(st_i64)x : top;\n"
     "}\n"},
};

void gpu_put_helpers(const char *body, st_str *out)
{
    bool is_first = true;
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        if (strstr(body, helpers[i].name)) {
            st_str_add(out, is_first ? "\n" : "");
            st_str_add(out, helpers[i].text);
            is_first = false;
        }
    }
}
