/* The C text of kernels; see the header.
 *
 *     void k(const st_args *args, int64_t begin, int64_t end)
 *     {
 *         const float *b0 = args->buffers[0];
 *         const int64_t s0 = args->syms[0];
 *         for (int64_t i0 = begin; i0 < end; i0++) {
 *             const float v5 = b0[i0];
 *
 * Instruction r is v<r>, an accumulator a<r> with its index in at<r>, axis k is i<k>, the value
 * bound by instruction r is n<r>, size k is s<k>. */
#include "codegen/loopir/loop_c.h"

#include "core/base/check.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
    const st_kernel *kernel;
    st_str *out;
    uint32_t depth;
} printer;

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

/* ---- pieces ---- */

static void put(printer *p, const char *format, ...) STATOR_PRINTF(2, 3);
static void put(printer *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    st_str_vaddf(p->out, format, args);
    va_end(args);
}

static void line(printer *p)
{
    for (uint32_t i = 0; i <= p->depth; i++) {
        put(p, "    ");
    }
}

/* The C type of a value; storage types are their bits. */
static const char *type_of(uint32_t dtype)
{
    static const char *const names[STATOR_DTYPE_COUNT] = {
        [STATOR_BOOL] = "_Bool",       [STATOR_I8] = "int8_t",      [STATOR_I16] = "int16_t",
        [STATOR_I32] = "int32_t",      [STATOR_I64] = "int64_t",    [STATOR_U8] = "uint8_t",
        [STATOR_U16] = "uint16_t",     [STATOR_U32] = "uint32_t",   [STATOR_U64] = "uint64_t",
        [STATOR_F8E4M3FN] = "uint8_t", [STATOR_F8E5M2] = "uint8_t", [STATOR_BF16] = "uint16_t",
        [STATOR_F16] = "uint16_t",     [STATOR_F32] = "float",      [STATOR_F64] = "double"};
    return dtype < STATOR_DTYPE_COUNT && names[dtype] ? names[dtype] : "void";
}

/* In memory a bool is a byte, and so are two integers of four bits. */
static const char *memory_type_of(uint32_t dtype)
{
    const bool is_byte = dtype == STATOR_BOOL || st_loop_loaded(dtype) != dtype;
    return is_byte ? "uint8_t" : type_of(dtype);
}

static void put_float(printer *p, uint32_t dtype, double value)
{
    char text[32];
    if (value - value != 0) {
        put(p, "(%s)%s", type_of(dtype),
            value != value ? "NAN"
            : value > 0    ? "INFINITY"
                           : "-INFINITY");
        return;
    }
    (void)st_format_f64(value, text);
    put(p, "%s%s%s", text, strpbrk(text, ".e") ? "" : ".0", dtype == STATOR_F32 ? "f" : "");
}

static void put_const(printer *p, uint32_t dtype, st_loop_imm imm)
{
    if (st_loop_class_of(dtype) == ST_LOOP_FLOATS) {
        put_float(p, dtype, dtype == STATOR_F32 ? (double)(float)imm.f : imm.f);
    } else if (dtype == STATOR_BOOL) {
        put(p, "%d", imm.i != 0);
    } else {
        put(p, "(%s)UINT64_C(0x%" PRIx64 ")", type_of(dtype), (uint64_t)imm.i);
    }
}

/* ---- symbolic integers ---- */

static void put_sym(printer *p, uint32_t sym);

static void put_symbol(printer *p, uint32_t index)
{
    const st_loop_symbol *symbol = &p->kernel->syms->symbols.data[index];
    static const char letters[] = {
        [ST_SYMBOL_SIZE] = 's', [ST_SYMBOL_AXIS] = 'i', [ST_SYMBOL_VALUE] = 'n'};
    put(p, "%c%" PRIu32, letters[symbol->kind], symbol->id);
}

static bool is_never_negative(const printer *p, uint32_t sym, int64_t least)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&p->kernel->syms->tab, sym, &lo, &hi);
    return lo >= least;
}

static void put_pair(printer *p, const char *before, uint32_t a, const char *between, uint32_t b)
{
    put(p, "%s", before);
    put_sym(p, a);
    put(p, "%s", between);
    put_sym(p, b);
    put(p, ")");
}

static void put_division(printer *p, const stator_atom_row *atom)
{
    const bool is_div = atom->kind == STATOR_ATOM_FLOORDIV;
    if (is_never_negative(p, atom->a, 0) && is_never_negative(p, atom->b, 1)) {
        put_pair(p, "(", atom->a, is_div ? " / " : " % ", atom->b);
    } else {
        put_pair(p, is_div ? "st_floordiv(" : "st_mod(", atom->a, ", ", atom->b);
    }
}

static void put_atom(printer *p, uint32_t ref)
{
    const stator_atom_row *atom = st_atom_at(&p->kernel->syms->tab, ref);
    switch (atom->kind) {
    case STATOR_ATOM_SYMBOL:
        put_symbol(p, atom->index);
        break;
    case STATOR_ATOM_FLOORDIV:
    case STATOR_ATOM_MOD:
        put_division(p, atom);
        break;
    case STATOR_ATOM_MIN:
        put_pair(p, "ST_MIN(", atom->a, ", ", atom->b);
        break;
    case STATOR_ATOM_MAX:
        put_pair(p, "ST_MAX(", atom->a, ", ", atom->b);
        break;
    default:
        put_pair(p, "(", atom->a, " * ", atom->b);
        break;
    }
}

static void put_int(printer *p, int64_t value)
{
    put(p, "INT64_C(%" PRId64 ")%s", value == INT64_MIN ? -INT64_MAX : value,
        value == INT64_MIN ? " - 1" : "");
}

static void put_sym(printer *p, uint32_t sym)
{
    const st_symtab *tab = &p->kernel->syms->tab;
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    put(p, "(");
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(tab, row, i);
        put(p, i ? " + " : "");
        if (term->coef != 1) {
            put_int(p, term->coef);
            put(p, " * ");
        }
        put_atom(p, term->atom);
    }
    if (row->constant || row->term_count == 0) {
        put(p, row->term_count ? " + " : "");
        put_int(p, row->constant);
    }
    put(p, ")");
}

/* ---- scalar instructions ---- */

typedef struct operator_text {
    uint16_t code;
    const char *text; /* 1, 2, 3 stand for the operands, # for the suffix of f32's functions */
} operator_text;

static const operator_text operators[] = {
    {ST_LOOP_neg, "-1"},
    {ST_LOOP_abs, "fabs#(1)"},
    {ST_LOOP_ceil, "ceil#(1)"},
    {ST_LOOP_floor, "floor#(1)"},
    {ST_LOOP_round, "rint#(1)"},
    {ST_LOOP_trunc, "trunc#(1)"},
    {ST_LOOP_add, "1 + 2"},
    {ST_LOOP_sub, "1 - 2"},
    {ST_LOOP_mul, "1 * 2"},
    {ST_LOOP_fma, "fma#(1, 2, 3)"},
    {ST_LOOP_quot, "1 / 2"},
    {ST_LOOP_div, "1 / 2"},
    {ST_LOOP_min, "ST_MIN(1, 2)"},
    {ST_LOOP_max, "ST_MAX(1, 2)"},
    {ST_LOOP_bit_and, "1 & 2"},
    {ST_LOOP_bit_or, "1 | 2"},
    {ST_LOOP_bit_xor, "1 ^ 2"},
    {ST_LOOP_shift_left, "1 << 2"},
    {ST_LOOP_shift_right, "1 >> 2"},
    {ST_LOOP_eq, "1 == 2"},
    {ST_LOOP_ne, "1 != 2"},
    {ST_LOOP_lt, "1 < 2"},
    {ST_LOOP_le, "1 <= 2"},
    {ST_LOOP_gt, "1 > 2"},
    {ST_LOOP_ge, "1 >= 2"},
    {ST_LOOP_select, "1 ? 2 : 3"},
    {ST_LOOP_sqrt, "sqrt#(1)"},
};

static void put_pattern(printer *p, const st_loop_inst *inst, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c >= '1' && *c <= '3') {
            put(p, "v%" PRIu32, inst->args[*c - '1']);
        } else if (*c == '#') {
            put(p, "%s", inst->dtype == STATOR_F32 ? "f" : "");
        } else {
            st_str_addn(p->out, c, 1);
        }
    }
}

static void put_cast(printer *p, const st_loop_inst *inst)
{
    const uint32_t from = st_loop_at(p->kernel, inst->args[0])->dtype;
    const char *through = "";
    if (inst->dtype == STATOR_BOOL) {
        put(p, "v%" PRIu32 " != 0", inst->args[0]);
        return;
    }
    if (st_loop_class_of(from) == ST_LOOP_FLOATS &&
        st_loop_class_of(inst->dtype) != ST_LOOP_FLOATS) {
        const uint32_t bits = st_dtype_bits(inst->dtype);
        through = inst->dtype == STATOR_U64                 ? "st_u64_of"
                  : bits == 64 || inst->dtype == STATOR_U32 ? "st_i64_of"
                  : from == STATOR_F32                      ? "st_i32_of_f32"
                                                            : "st_i32_of";
    }
    put(p, "(%s)%s(v%" PRIu32 ")", type_of(inst->dtype), through, inst->args[0]);
}

static void put_bitcast(printer *p, const st_loop_inst *inst)
{
    const uint32_t from = st_loop_at(p->kernel, inst->args[0])->dtype;
    const char *into = inst->dtype == STATOR_F32   ? "st_f32_of("
                       : inst->dtype == STATOR_F64 ? "st_f64_of("
                                                   : "(";
    const char *out_of = from == STATOR_F32   ? "st_bits_f32("
                         : from == STATOR_F64 ? "st_bits_f64("
                                              : "(";
    put(p, "(%s)%s%sv%" PRIu32 "))", type_of(inst->dtype), into, out_of, inst->args[0]);
}

static void put_lookup(printer *p, const st_loop_inst *inst)
{
    put(p, "(%s)st_tables[%" PRId64 "][%s(v%" PRIu32 ") %% %du]", type_of(inst->dtype), inst->imm.i,
        inst->dtype == STATOR_F32 ? "st_bits_f32" : "st_bits_f64", inst->args[0], ST_MATH_ENTRIES);
}

static void put_scalar(printer *p, const st_loop_inst *inst)
{
    if (inst->code == ST_LOOP_lookup) {
        put_lookup(p, inst);
        return;
    }
    if (inst->code == ST_LOOP_cast) {
        put_cast(p, inst);
        return;
    }
    if (inst->code == ST_LOOP_bitcast) {
        put_bitcast(p, inst);
        return;
    }
    if (inst->code == ST_LOOP_bit_not) {
        put(p, inst->dtype == STATOR_BOOL ? "!v%" PRIu32 : "~v%" PRIu32, inst->args[0]);
        return;
    }
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (operators[i].code == inst->code) {
            put(p, "(%s)(", type_of(inst->dtype));
            put_pattern(p, inst, operators[i].text);
            put(p, ")");
            return;
        }
    }
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    put(p, "%s%s(v%" PRIu32, desc->libm ? desc->libm : "st_no_such_function_",
        inst->dtype == STATOR_F32 ? "f" : "", inst->args[0]);
    for (uint32_t k = 1; k < desc->arity; k++) {
        put(p, ", v%" PRIu32, inst->args[k]);
    }
    put(p, ")");
}

/* ---- memory ---- */

static void put_element(printer *p, const st_loop_inst *inst)
{
    put(p, "b%" PRIu32 "[", inst->ref);
    put_sym(p, inst->sym);
    put(p, "]");
}

static void put_load(printer *p, const st_loop_inst *inst)
{
    if (inst->args[0]) {
        put(p, "v%" PRIu32 " ? ", inst->args[0]);
    }
    const uint32_t dtype = p->kernel->buffers.data[inst->ref].dtype;
    if (st_loop_loaded(dtype) != dtype) {
        put(p, "st_%s(b%" PRIu32 ", ", st_dtype_name(dtype), inst->ref);
        put_sym(p, inst->sym);
        put(p, ")");
    } else {
        put_element(p, inst);
    }
    put(p, inst->dtype == STATOR_BOOL ? " != 0" : "");
    if (inst->args[1]) {
        put(p, " : v%" PRIu32, inst->args[1]);
    } else if (inst->args[0]) {
        put(p, " : 0");
    }
}

static void put_if(printer *p, st_loop_ref mask)
{
    if (mask) {
        put(p, "if (v%" PRIu32 ") ", mask);
    }
}

/* old and value combined */
static void put_combined(printer *p, uint32_t kind, const char *old, const char *value)
{
    switch (kind) {
    case ST_ACC_SUM:
        put(p, "%s + %s", old, value);
        break;
    case ST_ACC_PROD:
        put(p, "%s * %s", old, value);
        break;
    case ST_ACC_MIN:
        put(p, "ST_MIN(%s, %s)", old, value);
        break;
    case ST_ACC_MAX:
        put(p, "ST_MAX(%s, %s)", old, value);
        break;
    case ST_ACC_ANY:
        put(p, "%s | %s", old, value);
        break;
    case ST_ACC_ALL:
        put(p, "%s & %s", old, value);
        break;
    default:
        put(p, "%s", value);
        break;
    }
}

/* ---- accumulators ---- */

static bool has_index(const st_loop_inst *acc)
{
    return acc->imm.i == ST_ACC_ARGMIN || acc->imm.i == ST_ACC_ARGMAX;
}

/* The greatest value of a dtype, or the least. */
static void put_extreme(printer *p, uint32_t dtype, int greatest)
{
    const uint32_t bits = st_dtype_bits(dtype);
    switch (st_loop_class_of(dtype)) {
    case ST_LOOP_FLOATS:
        put(p, "%sINFINITY", greatest ? "" : "-");
        break;
    case ST_LOOP_BOOLS:
        put(p, "%d", greatest);
        break;
    case ST_LOOP_UINTS:
        if (greatest) {
            put(p, "UINT%u_MAX", bits);
        } else {
            put(p, "0");
        }
        break;
    default:
        put(p, "INT%u_%s", bits, greatest ? "MAX" : "MIN");
        break;
    }
}

static void put_acc(printer *p, const st_loop_inst *inst, st_loop_ref ref)
{
    put(p, "%s a%" PRIu32 " = ", type_of(inst->dtype), ref);
    if (inst->args[0]) {
        put(p, "v%" PRIu32, inst->args[0]);
    } else if (inst->imm.i == ST_ACC_MIN || inst->imm.i == ST_ACC_ARGMIN) {
        put_extreme(p, inst->dtype, 1);
    } else if (inst->imm.i == ST_ACC_MAX || inst->imm.i == ST_ACC_ARGMAX) {
        put_extreme(p, inst->dtype, 0);
    } else {
        put(p, "%d", inst->imm.i == ST_ACC_PROD || inst->imm.i == ST_ACC_ALL);
    }
    put(p, ";\n");
    if (has_index(inst)) {
        line(p);
        put(p, "int64_t at%" PRIu32 " = INT64_MAX;\n", ref);
    }
}

static void put_update(printer *p, const st_loop_inst *inst)
{
    const st_loop_inst *acc = st_loop_at(p->kernel, inst->ref);
    char old[16];
    char value[16];
    (void)snprintf(old, sizeof old, "a%" PRIu32, inst->ref);
    (void)snprintf(value, sizeof value, "v%" PRIu32, inst->args[0]);
    put_if(p, inst->args[2]);
    if (!has_index(acc)) {
        put(p, "%s = (%s)(", old, type_of(acc->dtype));
        put_combined(p, (uint32_t)acc->imm.i, old, value);
        put(p, ");\n");
        return;
    }
    put(p,
        "{ if (ST_BETTER(%s, v%" PRIu32 ", %s, at%" PRIu32 ", %s %s %s)) { %s = %s; at%" PRIu32
        " = v%" PRIu32 "; } }\n",
        value, inst->args[1], old, inst->ref, value, acc->imm.i == ST_ACC_ARGMIN ? "<" : ">", old,
        old, value, inst->ref, inst->args[1]);
}

static void put_read(printer *p, const st_loop_inst *inst)
{
    const st_loop_inst *acc = st_loop_at(p->kernel, inst->ref);
    put(p, has_index(acc) && inst->dtype == STATOR_I64 ? "at%" PRIu32 : "a%" PRIu32, inst->ref);
}

/* ---- structure ---- */

static void put_block(printer *p, uint32_t block);

static void put_body(printer *p, uint32_t block)
{
    p->depth++;
    put_block(p, block);
    p->depth--;
}

static void put_loop(printer *p, const st_loop_inst *inst)
{
    const st_loop_axis *axis = &p->kernel->axes.data[inst->ref];
    const bool is_parallel = (axis->flags & ST_AXIS_PARALLEL) != 0;
    if (axis->flags & ST_AXIS_VECTOR) {
        put(p, "ST_VECTOR\n");
        line(p);
    }
    put(p, "for (int64_t i%" PRIu32 " = %s; i%" PRIu32 " < ", inst->ref,
        is_parallel ? "begin" : "0", inst->ref);
    if (is_parallel) {
        put(p, "end");
    } else {
        put_sym(p, axis->extent);
    }
    put(p, "; i%" PRIu32 "++) {\n", inst->ref);
    put_body(p, inst->body);
    line(p);
    put(p, "}\n");
}

static void put_rare(printer *p, const st_loop_inst *inst, st_loop_ref ref)
{
    put(p, "%s v%" PRIu32 " = v%" PRIu32 ";\n", type_of(inst->dtype), ref, inst->args[1]);
    line(p);
    put(p, "if (v%" PRIu32 ") {\n", inst->args[0]);
    put_body(p, inst->body);
    line(p);
    put(p, "    v%" PRIu32 " = v%" PRIu32 ";\n", ref, inst->args[2]);
    line(p);
    put(p, "}\n");
}

/* The instructions that are "const T v = ...". A dispatch switch. */
static void put_value(printer *p, const st_loop_inst *inst, st_loop_ref ref)
{
    put(p, "ST_UNUSED const %s v%" PRIu32 " = ", type_of(inst->dtype), ref);
    switch (inst->code) {
    case ST_LOOP_CONST:
        put_const(p, inst->dtype, inst->imm);
        break;
    case ST_LOOP_INDEX:
        put_sym(p, inst->sym);
        break;
    case ST_LOOP_LOAD:
        put_load(p, inst);
        break;
    case ST_LOOP_READ:
        put_read(p, inst);
        break;
    default:
        put_scalar(p, inst);
        break;
    }
    put(p, ";\n");
}

/* A dispatch switch: one case a structural code. */
static void put_inst(printer *p, const st_loop_inst *inst, st_loop_ref ref)
{
    switch (inst->code) {
    case ST_LOOP_STORE:
        put_if(p, inst->args[1]);
        put_element(p, inst);
        put(p, " = v%" PRIu32 ";\n", inst->args[0]);
        break;
    case ST_LOOP_CHECK:
        put_if(p, inst->args[1]);
        put(p,
            "{ if (!v%" PRIu32 ") __atomic_store_n(args->status, %" PRIu32
            ", __ATOMIC_RELAXED); }\n",
            inst->args[0], st_loop_check_status(inst));
        break;
    case ST_LOOP_LOOP:
        put_loop(p, inst);
        break;
    case ST_LOOP_BIND:
        put(p, "ST_UNUSED const int64_t n%" PRIu32 " = v%" PRIu32 ";\n", ref, inst->args[0]);
        break;
    case ST_LOOP_ACC:
        put_acc(p, inst, ref);
        break;
    case ST_LOOP_UPDATE:
        put_update(p, inst);
        break;
    case ST_LOOP_RARE:
        put_rare(p, inst, ref);
        break;
    default:
        put_value(p, inst, ref);
        break;
    }
}

static void put_block(printer *p, uint32_t block)
{
    for (st_loop_ref ref = p->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(p->kernel, ref)->next) {
        line(p);
        put_inst(p, st_loop_at(p->kernel, ref), ref);
    }
}

static void put_buffer(printer *p, uint32_t i)
{
    const st_loop_buffer *buffer = &p->kernel->buffers.data[i];
    const char *is_const = buffer->flags & ST_BUFFER_WRITTEN ? "" : "const ";
    int64_t numel = 0;
    if (buffer->flags & ST_BUFFER_LOCAL) { /* scratch of one iteration: the call's own */
        (void)st_sym_const(&p->kernel->syms->tab, buffer->numel, &numel);
        put(p, "    ST_UNUSED _Alignas(64) %s b%" PRIu32 "[%" PRId64 "]; /* %s */\n",
            memory_type_of(buffer->dtype), i, numel ? numel : 1, buffer->name);
        return;
    }
    const char *is_alone = buffer->flags & ST_BUFFER_UNIQUE ? "restrict " : "";
    put(p, "    ST_UNUSED %s%s *%sb%" PRIu32 " = args->buffers[%" PRIu32 "]; /* %s */\n", is_const,
        memory_type_of(buffer->dtype), is_alone, i, i, buffer->name);
}

void st_loop_c_print(const st_kernel *kernel, const char *symbol, st_str *out)
{
    printer p = {.kernel = kernel, .out = out};
    put(&p, "void %s(const st_args *args, int64_t begin, int64_t end);\n", symbol);
    put(&p, "void %s(const st_args *args, int64_t begin, int64_t end)\n{\n", symbol);
    put(&p, "    (void)begin;\n    (void)end;\n");
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        put_buffer(&p, i);
    }
    for (uint32_t i = 0; i < kernel->syms->symbols.count; i++) {
        const st_loop_symbol *size = &kernel->syms->symbols.data[i];
        if (size->kind == ST_SYMBOL_SIZE) {
            put(&p, "    ST_UNUSED const int64_t s%" PRIu32 " = args->syms[%" PRIu32 "];\n",
                size->id, size->id);
        }
    }
    put_block(&p, 0);
    put(&p, "}\n\n");
}
