/* Rows of kernels as text; see the header. */
#include "codegen/loopir/loop_text.h"

#include "core/base/check.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef st_loop_text text;

/* ---- pieces ---- */

void st_loop_text_put(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    st_str_vaddf(t->out, format, args);
    va_end(args);
}

#define put st_loop_text_put

void st_loop_text_indent(text *t)
{
    for (uint32_t i = 0; i <= t->depth; i++) {
        put(t, "    ");
    }
}

const char *st_loop_text_type(const text *t, uint32_t dtype)
{
    const char *name = dtype < STATOR_DTYPE_COUNT ? t->spelling->types[dtype] : NULL;
    return name ? name : "void";
}

const char *st_loop_text_memory_type(const text *t, uint32_t dtype)
{
    const bool is_byte = dtype == STATOR_BOOL || st_loop_loaded(dtype) != dtype;
    return st_loop_text_type(t, is_byte ? (uint32_t)STATOR_U8 : dtype);
}

static uint32_t width_of(uint32_t dtype)
{
    return dtype == STATOR_F32 ? ST_LOOP_F32 : ST_LOOP_F64;
}

static void put_float(text *t, uint32_t dtype, double value)
{
    const st_loop_spelling *s = t->spelling;
    const uint32_t width = width_of(dtype);
    char digits[32];
    if (value - value != 0) {
        put(t, "%s",
            value != value ? s->nan[width]
            : value > 0    ? s->infinity[width]
                           : s->minus_infinity[width]);
        return;
    }
    (void)st_format_f64(value, digits);
    put(t, "%s%s%s", digits, strpbrk(digits, ".e") ? "" : ".0", dtype == STATOR_F32 ? "f" : "");
}

static void put_const(text *t, uint32_t dtype, st_loop_imm imm)
{
    const char *const *around = t->spelling->bits_literal;
    if (st_loop_class_of(dtype) == ST_LOOP_FLOATS) {
        put_float(t, dtype, dtype == STATOR_F32 ? (double)(float)imm.f : imm.f);
    } else if (dtype == STATOR_BOOL) {
        put(t, "%d", imm.i != 0);
    } else {
        put(t, "(%s)%s0x%" PRIx64 "%s", st_loop_text_type(t, dtype), around[0], (uint64_t)imm.i,
            around[1]);
    }
}

/* ---- symbolic integers ---- */

static void put_symbol(text *t, uint32_t index)
{
    const st_loop_symbol *symbol = &t->kernel->syms->symbols.data[index];
    static const char letters[] = {
        [ST_SYMBOL_SIZE] = 's', [ST_SYMBOL_AXIS] = 'i', [ST_SYMBOL_VALUE] = 'n'};
    put(t, "%c%" PRIu32, letters[symbol->kind], symbol->id);
}

static bool is_never_negative(const text *t, uint32_t sym, int64_t least)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&t->kernel->syms->tab, sym, &lo, &hi);
    return lo >= least;
}

static void put_pair(text *t, const char *before, uint32_t a, const char *between, uint32_t b)
{
    put(t, "%s", before);
    st_loop_text_sym(t, a);
    put(t, "%s", between);
    st_loop_text_sym(t, b);
    put(t, ")");
}

static void put_division(text *t, const stator_atom_row *atom)
{
    const bool is_div = atom->kind == STATOR_ATOM_FLOORDIV;
    if (is_never_negative(t, atom->a, 0) && is_never_negative(t, atom->b, 1)) {
        put_pair(t, "(", atom->a, is_div ? " / " : " % ", atom->b);
    } else {
        put_pair(t, is_div ? "st_floordiv(" : "st_mod(", atom->a, ", ", atom->b);
    }
}

static void put_atom(text *t, uint32_t ref)
{
    const stator_atom_row *atom = st_atom_at(&t->kernel->syms->tab, ref);
    switch (atom->kind) {
    case STATOR_ATOM_SYMBOL:
        put_symbol(t, atom->index);
        break;
    case STATOR_ATOM_FLOORDIV:
    case STATOR_ATOM_MOD:
        put_division(t, atom);
        break;
    case STATOR_ATOM_MIN:
        put_pair(t, "ST_MIN(", atom->a, ", ", atom->b);
        break;
    case STATOR_ATOM_MAX:
        put_pair(t, "ST_MAX(", atom->a, ", ", atom->b);
        break;
    default:
        put_pair(t, "(", atom->a, " * ", atom->b);
        break;
    }
}

static void put_int(text *t, int64_t value)
{
    const char *const *around = t->spelling->index_literal;
    put(t, "%s%" PRId64 "%s%s", around[0], value == INT64_MIN ? -INT64_MAX : value, around[1],
        value == INT64_MIN ? " - 1" : "");
}

void st_loop_text_sym(text *t, uint32_t sym)
{
    const st_symtab *tab = &t->kernel->syms->tab;
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    put(t, "(");
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(tab, row, i);
        put(t, i ? " + " : "");
        if (term->coef != 1) {
            put_int(t, term->coef);
            put(t, " * ");
        }
        put_atom(t, term->atom);
    }
    if (row->constant || row->term_count == 0) {
        put(t, row->term_count ? " + " : "");
        put_int(t, row->constant);
    }
    put(t, ")");
}

/* ---- scalar instructions ---- */

static const st_loop_pattern operators[] = {
    {ST_LOOP_neg, "-1"},
    {ST_LOOP_add, "1 + 2"},
    {ST_LOOP_sub, "1 - 2"},
    {ST_LOOP_mul, "1 * 2"},
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
};

static const char *find_pattern(const st_loop_pattern *patterns, size_t n, uint16_t code)
{
    for (size_t i = 0; i < n; i++) {
        if (patterns[i].code == code) {
            return patterns[i].text;
        }
    }
    return NULL;
}

/* The cast before an operand that lets a sum, a product or a shift of integers wrap. */
static void put_wrapping(text *t, uint32_t dtype)
{
    const uint32_t integers = ST_LOOP_INTS | ST_LOOP_UINTS;
    if (!t->spelling->is_wrapping && (st_loop_class_of(dtype) & integers)) {
        put(t, "(%s)", t->spelling->types[st_dtype_bits(dtype) == 64 ? STATOR_U64 : STATOR_U32]);
    }
}

static bool may_overflow(uint16_t code)
{
    return code == ST_LOOP_neg || code == ST_LOOP_add || code == ST_LOOP_sub ||
           code == ST_LOOP_mul || code == ST_LOOP_shift_left;
}

static void put_pattern(text *t, const st_loop_inst *inst, const char *pattern)
{
    for (const char *c = pattern; *c != '\0'; c++) {
        if (*c >= '1' && *c <= '3') {
            if (may_overflow(inst->code)) {
                put_wrapping(t, inst->dtype);
            }
            put(t, "v%" PRIu32, inst->args[*c - '1']);
        } else if (*c == '#') {
            put(t, "%s", t->spelling->suffix[width_of(inst->dtype)]);
        } else {
            st_str_addn(t->out, c, 1);
        }
    }
}

/* The f32 that is rounded to bf16 by two casts, of which this is the second; 0: it is none. */
static st_loop_ref rounded(const text *t, const st_loop_inst *inst)
{
    const st_loop_inst *first = st_loop_at(t->kernel, inst->args[0]);
    const bool is_round = inst->code == ST_LOOP_cast && inst->dtype == STATOR_F32 &&
                          first->code == ST_LOOP_cast && first->dtype == STATOR_BF16 &&
                          st_loop_at(t->kernel, first->args[0])->dtype == STATOR_F32;
    return is_round && t->spelling->round_bf16 ? first->args[0] : 0;
}

static void put_cast(text *t, const st_loop_inst *inst)
{
    const uint32_t from = st_loop_at(t->kernel, inst->args[0])->dtype;
    const st_loop_ref whole = rounded(t, inst);
    const char *through = "";
    if (whole) {
        put(t, "%s(v%" PRIu32 ")", t->spelling->round_bf16, whole);
        return;
    }
    if (inst->dtype == STATOR_BOOL) {
        put(t, "v%" PRIu32 " != 0", inst->args[0]);
        return;
    }
    if (from == STATOR_BF16 || from == STATOR_F16) {
        through = from == STATOR_BF16 ? "st_f32_of_bf16" : "st_f32_of_f16";
    } else if (inst->dtype == STATOR_BF16 || inst->dtype == STATOR_F16) {
        through = inst->dtype == STATOR_BF16 ? "st_bf16_of_f32" : "st_f16_of_f32";
    } else if (st_loop_class_of(from) == ST_LOOP_FLOATS &&
               st_loop_class_of(inst->dtype) != ST_LOOP_FLOATS) {
        const uint32_t bits = st_dtype_bits(inst->dtype);
        through = inst->dtype == STATOR_U64                 ? "st_u64_of"
                  : bits == 64 || inst->dtype == STATOR_U32 ? "st_i64_of"
                  : from == STATOR_F32                      ? "st_i32_of_f32"
                                                            : "st_i32_of";
    }
    put(t, "(%s)%s(v%" PRIu32 ")", st_loop_text_type(t, inst->dtype), through, inst->args[0]);
}

static bool is_float(uint32_t dtype)
{
    return dtype == STATOR_F32 || dtype == STATOR_F64;
}

static void put_bitcast(text *t, const st_loop_inst *inst)
{
    const uint32_t from = st_loop_at(t->kernel, inst->args[0])->dtype;
    const char *into = is_float(inst->dtype) ? t->spelling->of_bits[width_of(inst->dtype)] : "";
    const char *out_of = is_float(from) ? t->spelling->to_bits[width_of(from)] : "";
    put(t, "(%s)%s(%s(v%" PRIu32 "))", st_loop_text_type(t, inst->dtype), into, out_of,
        inst->args[0]);
}

static void put_lookup(text *t, const st_loop_inst *inst)
{
    put(t, "(%s)st_tables[%" PRId64 "][%s(v%" PRIu32 ") %% %du]", st_loop_text_type(t, inst->dtype),
        inst->imm.i, t->spelling->to_bits[width_of(inst->dtype)], inst->args[0], ST_MATH_ENTRIES);
}

static void put_libm(text *t, const st_loop_inst *inst)
{
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    put(t, "%s%s%s(v%" PRIu32, t->spelling->libm_prefix,
        desc->libm ? desc->libm : "st_no_such_function_",
        t->spelling->suffix[width_of(inst->dtype)], inst->args[0]);
    for (uint32_t k = 1; k < desc->arity; k++) {
        put(t, ", v%" PRIu32, inst->args[k]);
    }
    put(t, ")");
}

/* A dispatch switch: what no pattern says. */
static void put_scalar(text *t, const st_loop_inst *inst)
{
    switch (inst->code) {
    case ST_LOOP_lookup:
        put_lookup(t, inst);
        return;
    case ST_LOOP_cast:
        put_cast(t, inst);
        return;
    case ST_LOOP_bitcast:
        put_bitcast(t, inst);
        return;
    case ST_LOOP_bit_not:
        put(t, inst->dtype == STATOR_BOOL ? "!v%" PRIu32 : "~v%" PRIu32, inst->args[0]);
        return;
    default:
        break;
    }
    const char *pattern =
        find_pattern(operators, sizeof operators / sizeof operators[0], inst->code);
    if (pattern == NULL) {
        pattern = find_pattern(t->spelling->functions, t->spelling->n_functions, inst->code);
    }
    if (pattern == NULL) {
        put_libm(t, inst);
        return;
    }
    put(t, "(%s)(", st_loop_text_type(t, inst->dtype));
    put_pattern(t, inst, pattern);
    put(t, ")");
}

/* ---- memory ---- */

static void put_element(text *t, const st_loop_inst *inst)
{
    const st_loop_ref ref = (st_loop_ref)(inst - t->kernel->insts.data);
    if (t->is_staged && t->is_staged[ref]) {
        const bool is_own = t->is_staged[ref] == ST_LOOP_OWN;
        put(t, is_own ? "r%" PRIu32 "[e]" : "x%" PRIu32 "[e]", is_own ? inst->ref : ref);
        return;
    }
    put(t, "b%" PRIu32 "[", inst->ref);
    st_loop_text_sym(t, inst->sym);
    put(t, "]");
}

static void put_load(text *t, const st_loop_inst *inst)
{
    if (inst->args[0]) {
        put(t, "v%" PRIu32 " ? ", inst->args[0]);
    }
    const uint32_t dtype = t->kernel->buffers.data[inst->ref].dtype;
    if (st_loop_loaded(dtype) != dtype) {
        put(t, "st_%s(b%" PRIu32 ", ", st_dtype_name(dtype), inst->ref);
        st_loop_text_sym(t, inst->sym);
        put(t, ")");
    } else {
        put_element(t, inst);
    }
    put(t, inst->dtype == STATOR_BOOL ? " != 0" : "");
    if (inst->args[1]) {
        put(t, " : v%" PRIu32, inst->args[1]);
    } else if (inst->args[0]) {
        put(t, " : 0");
    }
}

static void put_if(text *t, st_loop_ref mask)
{
    if (mask) {
        put(t, "if (v%" PRIu32 ") ", mask);
    }
}

/* ---- accumulators ---- */

bool st_loop_has_index(const st_loop_inst *acc)
{
    return acc->imm.i == ST_ACC_ARGMIN || acc->imm.i == ST_ACC_ARGMAX;
}

void st_loop_text_identity(text *t, const st_loop_inst *acc)
{
    const st_loop_spelling *s = t->spelling;
    if (acc->imm.i == ST_ACC_MIN || acc->imm.i == ST_ACC_ARGMIN) {
        put(t, "%s", s->greatest[acc->dtype]);
    } else if (acc->imm.i == ST_ACC_MAX || acc->imm.i == ST_ACC_ARGMAX) {
        put(t, "%s", s->least[acc->dtype]);
    } else {
        put(t, "%d", acc->imm.i == ST_ACC_PROD || acc->imm.i == ST_ACC_ALL);
    }
}

static void put_acc(text *t, const st_loop_inst *inst, st_loop_ref ref)
{
    put(t, "%s a%" PRIu32 " = ", st_loop_text_type(t, inst->dtype), ref);
    if (inst->args[0]) {
        put(t, "v%" PRIu32, inst->args[0]);
    } else {
        st_loop_text_identity(t, inst);
    }
    put(t, ";\n");
    if (st_loop_has_index(inst)) {
        st_loop_text_indent(t);
        put(t, "%s at%" PRIu32 " = %s;\n", st_loop_text_type(t, STATOR_I64), ref,
            t->spelling->greatest[STATOR_I64]);
    }
}

static void put_best(text *t, const st_loop_inst *acc, const st_loop_operands *o)
{
    put(t, "{ if (ST_BETTER(%s, %s, %s, %s, %s %s %s)) { %s = %s; %s = %s; } }\n", o->value,
        o->value_index, o->old, o->old_index, o->value, acc->imm.i == ST_ACC_ARGMIN ? "<" : ">",
        o->old, o->old, o->value, o->old_index, o->value_index);
}

/* The name of what combines two values of a minimum or maximum. */
static const char *extreme(const text *t, const st_loop_inst *acc)
{
    const bool is_max = acc->imm.i == ST_ACC_MAX;
    const char *const *of_f32 = t->spelling->extremes_f32;
    return acc->dtype == STATOR_F32 && of_f32[is_max] ? of_f32[is_max]
           : is_max                                   ? "ST_MAX"
                                                      : "ST_MIN";
}

/* A dispatch switch: one case a kind. */
void st_loop_text_combine(text *t, const st_loop_inst *acc, const st_loop_operands *o)
{
    if (st_loop_has_index(acc)) {
        put_best(t, acc, o);
        return;
    }
    put(t, "%s = (%s)(", o->old, st_loop_text_type(t, acc->dtype));
    switch (acc->imm.i) {
    case ST_ACC_SUM:
    case ST_ACC_PROD:
        put_wrapping(t, acc->dtype);
        put(t, "%s %s ", o->old, acc->imm.i == ST_ACC_SUM ? "+" : "*");
        put_wrapping(t, acc->dtype);
        put(t, "%s", o->value);
        break;
    case ST_ACC_MIN:
    case ST_ACC_MAX:
        put(t, "%s(%s, %s)", extreme(t, acc), o->old, o->value);
        break;
    case ST_ACC_ANY:
        put(t, "%s | %s", o->old, o->value);
        break;
    case ST_ACC_ALL:
        put(t, "%s & %s", o->old, o->value);
        break;
    default:
        put(t, "%s", o->value);
        break;
    }
    put(t, ");\n");
}

static void put_update(text *t, const st_loop_inst *inst)
{
    char names[4][16];
    (void)snprintf(names[0], sizeof names[0], "a%" PRIu32, inst->ref);
    (void)snprintf(names[1], sizeof names[1], "at%" PRIu32, inst->ref);
    (void)snprintf(names[2], sizeof names[2], "v%" PRIu32, inst->args[0]);
    (void)snprintf(names[3], sizeof names[3], "v%" PRIu32, inst->args[1]);
    const st_loop_operands operands = {names[0], names[1], names[2], names[3]};
    put_if(t, inst->args[2]);
    st_loop_text_combine(t, st_loop_at(t->kernel, inst->ref), &operands);
}

static void put_read(text *t, const st_loop_inst *inst)
{
    const st_loop_inst *acc = st_loop_at(t->kernel, inst->ref);
    put(t, st_loop_has_index(acc) && inst->dtype == STATOR_I64 ? "at%" PRIu32 : "a%" PRIu32,
        inst->ref);
}

/* ---- structure ---- */

void st_loop_text_body(text *t, uint32_t block)
{
    t->depth++;
    st_loop_text_block(t, block);
    t->depth--;
}

static void put_rare(text *t, const st_loop_inst *inst, st_loop_ref ref)
{
    put(t, "%s v%" PRIu32 " = v%" PRIu32 ";\n", st_loop_text_type(t, inst->dtype), ref,
        inst->args[1]);
    st_loop_text_indent(t);
    put(t, "if (v%" PRIu32 ") {\n", inst->args[0]);
    st_loop_text_body(t, inst->body);
    st_loop_text_indent(t);
    put(t, "    v%" PRIu32 " = v%" PRIu32 ";\n", ref, inst->args[2]);
    st_loop_text_indent(t);
    put(t, "}\n");
}

/* The instructions that are "const T v = ...". A dispatch switch. */
static void put_value(text *t, const st_loop_inst *inst, st_loop_ref ref)
{
    put(t, "%sconst %s v%" PRIu32 " = ", t->spelling->unused, st_loop_text_type(t, inst->dtype),
        ref);
    switch (inst->code) {
    case ST_LOOP_CONST:
        put_const(t, inst->dtype, inst->imm);
        break;
    case ST_LOOP_INDEX:
        st_loop_text_sym(t, inst->sym);
        break;
    case ST_LOOP_LOAD:
        put_load(t, inst);
        break;
    case ST_LOOP_READ:
        put_read(t, inst);
        break;
    default:
        put_scalar(t, inst);
        break;
    }
    put(t, ";\n");
}

static void put_check(text *t, const st_loop_inst *inst)
{
    const char *const *set = t->spelling->set_status;
    put_if(t, inst->args[1]);
    put(t, "{ if (!v%" PRIu32 ") %s%" PRIu32 "%s; }\n", inst->args[0], set[0],
        st_loop_check_status(inst), set[1]);
}

/* A dispatch switch: one case a structural code. */
void st_loop_text_inst(text *t, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(t->kernel, ref);
    switch (inst->code) {
    case ST_LOOP_STORE:
        put_if(t, inst->args[1]);
        put_element(t, inst);
        put(t, " = v%" PRIu32 ";\n", inst->args[0]);
        break;
    case ST_LOOP_CHECK:
        put_check(t, inst);
        break;
    case ST_LOOP_LOOP:
        t->put_loop(t, inst);
        break;
    case ST_LOOP_BIND:
        put(t, "%sconst %s n%" PRIu32 " = v%" PRIu32 ";\n", t->spelling->unused,
            t->spelling->index_type, ref, inst->args[0]);
        break;
    case ST_LOOP_ACC:
        put_acc(t, inst, ref);
        break;
    case ST_LOOP_UPDATE:
        put_update(t, inst);
        break;
    case ST_LOOP_RARE:
        put_rare(t, inst, ref);
        break;
    default:
        put_value(t, inst, ref);
        break;
    }
}

void st_loop_text_block(text *t, uint32_t block)
{
    for (st_loop_ref ref = t->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(t->kernel, ref)->next) {
        st_loop_text_indent(t);
        st_loop_text_inst(t, ref);
    }
}
