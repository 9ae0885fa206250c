/* The C text of kernels; see the header.
 *
 *     void k(const st_args *args, int64_t begin, int64_t end)
 *     {
 *         const float *b0 = args->buffers[0];
 *         const int64_t s0 = args->syms[0];
 *         for (int64_t i0 = begin; i0 < end; i0++) {
 *             const float v5 = b0[i0];
 *
 * The frame stands here: the head, the function, its buffers and loops. The rows are those of
 * loop_text.h, in the spelling of C11. */
#include "codegen/loopir/loop_c.h"

#include "codegen/loopir/loop_text.h"
#include <inttypes.h>
#include <string.h>

/* ---- the head ---- */

static const char head[] =
    "#include <math.h>\n"
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "#include <string.h>\n"
    "\n"
    "typedef struct st_args {\n"
    "    void *const *buffers;\n"
    "    const int64_t *syms;\n"
    "    uint32_t *status;\n"
    "} st_args;\n"
    "\n"
    "#if defined(__clang__)\n"
    "#define ST_VECTOR _Pragma(\"clang loop vectorize(assume_safety)\")\n"
    "#else\n"
    "#define ST_VECTOR _Pragma(\"GCC ivdep\")\n"
    "#endif\n"
    "#define ST_UNUSED __attribute__((unused))\n"
    "#define ST_BITS(To, From, name) \\\n"
    "    ST_UNUSED static inline To name(From x) \\\n"
    "    { \\\n"
    "        To y; \\\n"
    "        _Static_assert(sizeof x == sizeof y, \"width\"); \\\n"
    "        memcpy(&y, &x, sizeof y); \\\n"
    "        return y; \\\n"
    "    }\n"
    "ST_BITS(float, uint32_t, st_f32_of)\n"
    "ST_BITS(double, uint64_t, st_f64_of)\n"
    "ST_BITS(uint32_t, float, st_bits_f32)\n"
    "ST_BITS(uint64_t, double, st_bits_f64)\n"
    "\n"
    "/* Truncation as x86 does it: what does not fit is the smallest integer. */\n"
    "ST_UNUSED static inline int32_t st_i32_of(double x)\n"
    "{\n"
    "    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;\n"
    "}\n"
    "ST_UNUSED static inline int32_t st_i32_of_f32(float x)\n"
    "{\n"
    "    return x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)x : INT32_MIN;\n"
    "}\n"
    "ST_UNUSED static inline int64_t st_i64_of(double x)\n"
    "{\n"
    "    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : "
    "INT64_MIN;\n"
    "}\n"
    "ST_UNUSED static inline uint64_t st_u64_of(double x)\n"
    "{\n"
    "    const uint64_t top = UINT64_C(1) << 63;\n"
    "    if (x >= 9223372036854775808.0) {\n"
    "        return x < 18446744073709551616.0 ? (uint64_t)(x - 9223372036854775808.0) + top : "
    "top;\n"
    "    }\n"
    "    return (uint64_t)st_i64_of(x);\n"
    "}\n"
    "\n"
    "/* NaN passes; for integers the test is folded away. */\n"
    "#define ST_MIN(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))\n"
    "#define ST_MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))\n"
    "/* Does x at i take the place of y at j? */\n"
    "#define ST_BETTER(x, i, y, j, less) \\\n"
    "    ((x) != (x) || (y) != (y) ? (y) == (y) || ((x) != (x) && (i) < (j)) \\\n"
    "                              : (x) == (y) ? (i) < (j) : (less))\n"
    "\n"
    "ST_UNUSED static inline int64_t st_floordiv(int64_t a, int64_t b)\n"
    "{\n"
    "    const int64_t q = b == 0 ? 0 : b == -1 ? -a : a / b;\n"
    "    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;\n"
    "}\n"
    "ST_UNUSED static inline int64_t st_mod(int64_t a, int64_t b)\n"
    "{\n"
    "    return a - b * st_floordiv(a, b);\n"
    "}\n"
    "/* Element i of integers of four bits, the one of even index in the low ones. */\n"
    "ST_UNUSED static inline uint8_t st_u4(const uint8_t *b, int64_t i)\n"
    "{\n"
    "    return (uint8_t)(b[i >> 1] >> (i & 1) * 4 & 15);\n"
    "}\n"
    "ST_UNUSED static inline int8_t st_i4(const uint8_t *b, int64_t i)\n"
    "{\n"
    "    return (int8_t)((st_u4(b, i) ^ 8) - 8);\n"
    "}\n"
    "\n";

/* Entry (bits) mod 32 of a table. */
static void put_tables(st_str *out)
{
    char text[32];
    st_str_addf(out, "ST_UNUSED static const float st_tables[][%d] = {\n", ST_MATH_ENTRIES);
    for (uint32_t t = 0; t < ST_MATH_TABLES; t++) {
        st_str_add(out, "    {");
        for (uint32_t k = 0; k < ST_MATH_ENTRIES; k++) {
            (void)st_format_f64((double)st_loop_tables[t][k], text);
            const char *between = k % 8u ? ", " : ",\n     ";
            st_str_addf(out, "%s%s%sf", k ? between : "", text, strpbrk(text, ".e") ? "" : ".0");
        }
        st_str_add(out, t + 1u < ST_MATH_TABLES ? "},\n" : "}};\n\n");
    }
}

void st_loop_c_head(st_str *out)
{
    st_str_add(out, head);
    put_tables(out);
}

/* ---- the spelling ---- */

static const st_loop_pattern functions[] = {
    {ST_LOOP_abs, "fabs#(1)"},   {ST_LOOP_ceil, "ceil#(1)"},   {ST_LOOP_floor, "floor#(1)"},
    {ST_LOOP_round, "rint#(1)"}, {ST_LOOP_trunc, "trunc#(1)"}, {ST_LOOP_fma, "fma#(1, 2, 3)"},
    {ST_LOOP_sqrt, "sqrt#(1)"},
};

static const st_loop_spelling c11 = {
    .types = {[STATOR_BOOL] = "_Bool",
              [STATOR_I8] = "int8_t",
              [STATOR_I16] = "int16_t",
              [STATOR_I32] = "int32_t",
              [STATOR_I64] = "int64_t",
              [STATOR_U8] = "uint8_t",
              [STATOR_U16] = "uint16_t",
              [STATOR_U32] = "uint32_t",
              [STATOR_U64] = "uint64_t",
              [STATOR_F8E4M3FN] = "uint8_t",
              [STATOR_F8E5M2] = "uint8_t",
              [STATOR_BF16] = "uint16_t",
              [STATOR_F16] = "uint16_t",
              [STATOR_F32] = "float",
              [STATOR_F64] = "double"},
    .least = {[STATOR_BOOL] = "0",
              [STATOR_I8] = "INT8_MIN",
              [STATOR_I16] = "INT16_MIN",
              [STATOR_I32] = "INT32_MIN",
              [STATOR_I64] = "INT64_MIN",
              [STATOR_U8] = "0",
              [STATOR_U16] = "0",
              [STATOR_U32] = "0",
              [STATOR_U64] = "0",
              [STATOR_F32] = "-INFINITY",
              [STATOR_F64] = "-INFINITY"},
    .greatest = {[STATOR_BOOL] = "1",
                 [STATOR_I8] = "INT8_MAX",
                 [STATOR_I16] = "INT16_MAX",
                 [STATOR_I32] = "INT32_MAX",
                 [STATOR_I64] = "INT64_MAX",
                 [STATOR_U8] = "UINT8_MAX",
                 [STATOR_U16] = "UINT16_MAX",
                 [STATOR_U32] = "UINT32_MAX",
                 [STATOR_U64] = "UINT64_MAX",
                 [STATOR_F32] = "INFINITY",
                 [STATOR_F64] = "INFINITY"},
    .index_type = "int64_t",
    .index_literal = {"INT64_C(", ")"},
    .bits_literal = {"UINT64_C(", ")"},
    .nan = {"(float)NAN", "(double)NAN"},
    .infinity = {"(float)INFINITY", "(double)INFINITY"},
    .minus_infinity = {"(float)-INFINITY", "(double)-INFINITY"},
    .of_bits = {"st_f32_of", "st_f64_of"},
    .to_bits = {"st_bits_f32", "st_bits_f64"},
    .suffix = {"f", ""},
    .libm_prefix = "",
    .functions = functions,
    .n_functions = sizeof functions / sizeof functions[0],
    .is_wrapping = true,
    .unused = "ST_UNUSED ",
    .set_status = {"__atomic_store_n(args->status, ", ", __ATOMIC_RELAXED)"},
};

/* ---- the frame ---- */

static void put_loop(st_loop_text *t, const st_loop_inst *inst)
{
    const st_loop_axis *axis = &t->kernel->axes.data[inst->ref];
    const bool is_parallel = (axis->flags & ST_AXIS_PARALLEL) != 0;
    if (axis->flags & ST_AXIS_VECTOR) {
        st_loop_text_put(t, "ST_VECTOR\n");
        st_loop_text_indent(t);
    }
    st_loop_text_put(t, "for (int64_t i%" PRIu32 " = %s; i%" PRIu32 " < ", inst->ref,
                     is_parallel ? "begin" : "0", inst->ref);
    if (is_parallel) {
        st_loop_text_put(t, "end");
    } else {
        st_loop_text_sym(t, axis->extent);
    }
    st_loop_text_put(t, "; i%" PRIu32 "++) {\n", inst->ref);
    st_loop_text_body(t, inst->body);
    st_loop_text_indent(t);
    st_loop_text_put(t, "}\n");
}

static void put_buffer(st_loop_text *t, uint32_t i)
{
    const st_loop_buffer *buffer = &t->kernel->buffers.data[i];
    const char *is_const = buffer->flags & ST_BUFFER_WRITTEN ? "" : "const ";
    int64_t numel = 0;
    if (buffer->flags & ST_BUFFER_LOCAL) { /* scratch of one iteration: the call's own */
        (void)st_sym_const(&t->kernel->syms->tab, buffer->numel, &numel);
        st_loop_text_put(t, "    ST_UNUSED _Alignas(64) %s b%" PRIu32 "[%" PRId64 "]; /* %s */\n",
                         st_loop_text_memory_type(t, buffer->dtype), i, numel ? numel : 1,
                         buffer->name);
        return;
    }
    const char *is_alone = buffer->flags & ST_BUFFER_UNIQUE ? "restrict " : "";
    st_loop_text_put(
        t, "    ST_UNUSED %s%s *%sb%" PRIu32 " = args->buffers[%" PRIu32 "]; /* %s */\n", is_const,
        st_loop_text_memory_type(t, buffer->dtype), is_alone, i, i, buffer->name);
}

void st_loop_c_print(const st_kernel *kernel, const char *symbol, st_str *out)
{
    st_loop_text t = {.kernel = kernel, .spelling = &c11, .out = out, .put_loop = put_loop};
    st_loop_text_put(&t, "void %s(const st_args *args, int64_t begin, int64_t end);\n", symbol);
    st_loop_text_put(&t, "void %s(const st_args *args, int64_t begin, int64_t end)\n{\n", symbol);
    st_loop_text_put(&t, "    (void)begin;\n    (void)end;\n");
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        put_buffer(&t, i);
    }
    for (uint32_t i = 0; i < kernel->syms->symbols.count; i++) {
        const st_loop_symbol *size = &kernel->syms->symbols.data[i];
        if (size->kind == ST_SYMBOL_SIZE) {
            st_loop_text_put(
                &t, "    ST_UNUSED const int64_t s%" PRIu32 " = args->syms[%" PRIu32 "];\n",
                size->id, size->id);
        }
    }
    st_loop_text_block(&t, 0);
    st_loop_text_put(&t, "}\n\n");
}
