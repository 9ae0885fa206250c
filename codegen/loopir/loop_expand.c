/* The expansion pass.
 *
 *     before   v3 = sign v1                after   v3 = const f32 0
 *                                                  v4 = gt v1, v3  ...
 *
 * The kernel is copied and its chains are written anew: structural instructions keep their
 * indices (symbols name BIND instructions by them), scalar instructions are appended and chained
 * where they stood. Equal ones in scope are shared, so sin and cos of one value share their
 * reduction. Instructions of a program that the target does not spell are expanded in turn. */
#include "codegen/loopir/loop_expand.h"

#include "codegen/loopir/loop_expand_parse.h"
#include "core/base/check.h"
#include "core/base/diag.h"
#include "core/base/map.h"
#include <string.h>

#define NESTING_MAX 8u

typedef struct expander {
    const uint8_t *spells;
    st_kernel *out;
    stator_diag **err;
    stator_status status; /* sticky */
    uint32_t block;       /* where instructions go */
    uint32_t origin;
    uint32_t nesting;       /* programs within programs */
    st_vec(st_loop_ref) to; /* by instruction of the input: its replacement; 0: itself */
    st_hashset memo;        /* scalar instructions by contents */
} expander;

static uint32_t fail(expander *e, stator_status status)
{
    if (e->status == STATOR_OK) {
        e->status = status;
    }
    return 0;
}

static uint32_t out_of_memory(expander *e)
{
    return e->status == STATOR_OK ? fail(e, st_fail_oom(e->err)) : 0;
}

static uint32_t dtype_at(const expander *e, st_loop_ref ref)
{
    return st_loop_at(e->out, ref)->dtype;
}

/* ---- instructions ---- */

/* Is the block the current one or around it? */
static bool is_around(const expander *e, uint32_t block)
{
    const st_kernel *out = e->out;
    for (uint32_t at = e->block; at != block;
         at = st_loop_at(out, out->blocks.data[at].loop)->block) {
        if (at == 0) {
            return false;
        }
    }
    return true;
}

typedef struct sought {
    const expander *e;
    const st_loop_inst *inst;
} sought;

static bool same_inst(void *self, uint32_t id)
{
    const sought *s = self;
    const st_loop_inst *a = st_loop_at(s->e->out, id);
    const st_loop_inst *b = s->inst;
    return a->code == b->code && a->dtype == b->dtype &&
           memcmp(a->args, b->args, sizeof a->args) == 0 && a->imm.i == b->imm.i &&
           is_around(s->e, a->block);
}

static uint64_t hash_inst(const st_loop_inst *inst)
{
    const uint64_t key[3] = {
        ((uint64_t)inst->code << 40) | ((uint64_t)inst->dtype << 32) | inst->args[0],
        ((uint64_t)inst->args[1] << 32) | inst->args[2], (uint64_t)inst->imm.i};
    return st_hash64(key, sizeof key, 0);
}

static void remember(expander *e, st_loop_ref ref)
{
    if (!st_hashset_add(&e->memo, hash_inst(st_loop_at(e->out, ref)), ref)) {
        (void)out_of_memory(e);
    }
}

/* A CONST or scalar instruction: an equal one in scope, or a new one here. */
static st_loop_ref pure(expander *e, const st_loop_inst *inst)
{
    if (e->status != STATOR_OK) {
        return 0;
    }
    sought s = {e, inst};
    const st_loop_ref found = st_hashset_find(&e->memo, hash_inst(inst), same_inst, &s);
    if (found) {
        return found;
    }
    const st_loop_ref ref = e->out->insts.count;
    st_loop_inst *at = st_vec_push(e->out->mem, &e->out->insts);
    ST_FAIL_BY_IF(out_of_memory, at == NULL, e);
    *at = *inst;
    at->origin = e->origin;
    st_loop_chain(e->out, e->block, ref);
    remember(e, ref);
    return e->status == STATOR_OK ? ref : 0;
}

static st_loop_ref scalar(expander *e, const st_loop_inst *inst);

static st_loop_ref apply(expander *e, uint32_t code, uint32_t dtype, st_loop_ref x, st_loop_ref y,
                         st_loop_ref z)
{
    const st_loop_inst inst = {.code = (uint16_t)code, .dtype = (uint8_t)dtype, .args = {x, y, z}};
    return e->status == STATOR_OK ? scalar(e, &inst) : 0;
}

static st_loop_ref cast(expander *e, uint32_t dtype, st_loop_ref x)
{
    return x == 0 || dtype_at(e, x) == dtype ? x : apply(e, ST_LOOP_cast, dtype, x, 0, 0);
}

/* ---- programs ---- */

typedef struct run {
    expander *e;
    const st_expansion *program;
    const st_loop_ref *operands; /* x, y, z */
    uint32_t dtype;              /* dtype of numbers in expressions without a dtype of their own */
    st_loop_ref *lets;           /* by node: what a LET gave */
} run;

static const st_expr *expr_at(const run *r, uint32_t node)
{
    return &r->program->nodes.data[node];
}

static uint32_t as_other(uint32_t dtype, bool to_float)
{
    switch (st_dtype_bits(dtype)) {
    case 64:
        return to_float ? STATOR_F64 : STATOR_I64;
    case 32:
        return to_float ? STATOR_F32 : STATOR_I32;
    case 16:
        return to_float ? STATOR_DTYPE_NONE : STATOR_I16;
    default:
        return to_float ? STATOR_DTYPE_NONE : STATOR_I8;
    }
}

/* The dtype that an expression has by itself; 0: it takes that of its surroundings. */
static uint32_t own_dtype(const run *r, uint32_t node);

/* The same of the operands of an op. */
static uint32_t own_dtype_of_args(const run *r, const st_expr *expr)
{
    uint32_t dtype = 0;
    for (uint32_t k = expr->code == ST_LOOP_select;
         k < st_loop_desc(expr->code)->arity && dtype == 0; k++) {
        dtype = own_dtype(r, expr->args[k]);
    }
    return dtype;
}

/* A dispatch switch over the kinds of nodes. */
static uint32_t own_dtype(const run *r, uint32_t node)
{
    const st_expr *expr = expr_at(r, node);
    switch (expr->kind) {
    case ST_EXPR_OPERAND:
        return dtype_at(r->e, r->operands[expr->i]);
    case ST_EXPR_OP:
        return st_loop_desc(expr->code)->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL
                                                                : own_dtype_of_args(r, expr);
    case ST_EXPR_CAST:
        return expr->code;
    case ST_EXPR_AS_INT:
    case ST_EXPR_AS_FLOAT:
        return as_other(own_dtype(r, expr->args[0]), expr->kind == ST_EXPR_AS_FLOAT);
    case ST_EXPR_LOOKUP:
        return own_dtype(r, expr->args[0]);
    case ST_EXPR_RARE: {
        const uint32_t usual = own_dtype(r, expr->args[2]);
        return usual ? usual : own_dtype(r, expr->args[1]);
    }
    case ST_EXPR_USE:
        return r->lets[expr->args[0]] ? dtype_at(r->e, r->lets[expr->args[0]])
                                      : own_dtype(r, expr_at(r, expr->args[0])->args[0]);
    case ST_EXPR_BLOCK:
        return own_dtype(r, expr->args[1]);
    default:
        return 0;
    }
}

static st_loop_ref number(run *r, const st_expr *expr, uint32_t dtype)
{
    st_loop_inst inst = {.code = ST_LOOP_CONST, .dtype = (uint8_t)dtype};
    if (st_loop_class_of(dtype) == ST_LOOP_FLOATS) {
        inst.imm.f = dtype == STATOR_F32 ? (double)(float)expr->number : expr->number;
    } else if (expr->is_int) {
        inst.imm.i = expr->i;
    } else if (expr->number == 0) {
        inst.imm.i = 0; /* -0.0 is meant for floats */
    } else {
        return fail(r->e, st_fail(r->e->err, STATOR_INTERNAL,
                                  "an expansion has the fraction %g where a %s is needed",
                                  expr->number, st_dtype_name(dtype)));
    }
    return pure(r->e, &inst);
}

static st_loop_ref eval(run *r, uint32_t node, uint32_t want);

static st_loop_ref eval_op(run *r, const st_expr *expr, uint32_t want)
{
    const st_loop_op_desc *desc = st_loop_desc(expr->code);
    st_loop_ref args[3] = {0};
    uint32_t dtype = own_dtype_of_args(r, expr);
    if (dtype == 0) {
        dtype = desc->result == ST_LOOP_BOOL ? r->dtype : want;
    }
    for (uint32_t k = 0; k < desc->arity; k++) {
        const bool is_condition = expr->code == ST_LOOP_select && k == 0;
        args[k] = eval(r, expr->args[k], is_condition ? (uint32_t)STATOR_BOOL : dtype);
    }
    return apply(r->e, expr->code, desc->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL : dtype,
                 args[0], args[1], args[2]);
}

static st_loop_ref eval_as(run *r, const st_expr *expr)
{
    const st_loop_ref x = eval(r, expr->args[0], r->dtype);
    if (x == 0) {
        return 0;
    }
    const uint32_t dtype = as_other(dtype_at(r->e, x), expr->kind == ST_EXPR_AS_FLOAT);
    return dtype_at(r->e, x) == dtype ? x : apply(r->e, ST_LOOP_bitcast, dtype, x, 0, 0);
}

static st_loop_ref eval_lookup(run *r, const st_expr *expr)
{
    const st_loop_ref x = eval(r, expr->args[0], r->dtype);
    st_loop_inst inst = {.code = ST_LOOP_lookup, .args = {x}};
    inst.dtype = (uint8_t)(x ? dtype_at(r->e, x) : 0);
    inst.imm.i = expr_at(r, expr->args[1])->i;
    return x ? pure(r->e, &inst) : 0;
}

static st_loop_ref eval_rare(run *r, const st_expr *expr, uint32_t want)
{
    expander *e = r->e;
    st_kernel *out = e->out;
    const uint32_t own = own_dtype(r, expr->args[2]);
    const st_loop_ref condition = eval(r, expr->args[0], STATOR_BOOL);
    const st_loop_ref usual = eval(r, expr->args[2], own ? own : want);
    const st_loop_ref ref = out->insts.count;
    st_loop_inst *inst = e->status == STATOR_OK ? st_vec_push(out->mem, &out->insts) : NULL;
    const uint32_t body = out->blocks.count;
    st_loop_block *block = inst ? st_vec_push(out->mem, &out->blocks) : NULL;
    ST_FAIL_BY_IF(out_of_memory, block == NULL, e);
    const uint32_t around = e->block;
    *inst = (st_loop_inst){.code = ST_LOOP_RARE,
                           .dtype = (uint8_t)dtype_at(e, usual),
                           .args = {condition, usual},
                           .body = body,
                           .origin = e->origin};
    *block = (st_loop_block){.loop = ref, .depth = out->blocks.data[around].depth + 1u};
    st_loop_chain(e->out, e->block, ref);
    e->block = body;
    const st_loop_ref given = eval(r, expr->args[1], dtype_at(e, usual));
    e->block = around;
    out->insts.data[ref].args[2] = given;
    return e->status == STATOR_OK ? ref : 0;
}

static st_loop_ref eval_block(run *r, const st_expr *expr, uint32_t want)
{
    for (uint32_t let = expr->args[0]; let; let = expr_at(r, let)->next) {
        const uint32_t value = expr_at(r, let)->args[0];
        const uint32_t own = own_dtype(r, value);
        /* A named number has no dtype of its own: it gets one at each use. */
        r->lets[let] = own ? eval(r, value, own) : 0;
        if (r->e->status != STATOR_OK) {
            return 0;
        }
    }
    return eval(r, expr->args[1], want);
}

/* A dispatch switch over the kinds of nodes. `want`: the dtype where the node has none of its own.
 */
static st_loop_ref eval(run *r, uint32_t node, uint32_t want)
{
    const st_expr *expr = expr_at(r, node);
    if (r->e->status != STATOR_OK) {
        return 0;
    }
    switch (expr->kind) {
    case ST_EXPR_NUMBER:
        return number(r, expr, want);
    case ST_EXPR_OPERAND:
        return r->operands[expr->i];
    case ST_EXPR_OP:
        return eval_op(r, expr, want);
    case ST_EXPR_CAST:
        return cast(r->e, expr->code, eval(r, expr->args[0], expr->code));
    case ST_EXPR_AS_INT:
    case ST_EXPR_AS_FLOAT:
        return eval_as(r, expr);
    case ST_EXPR_BITS: {
        const uint32_t own = own_dtype(r, expr->args[0]);
        const st_expr bits = {
            .kind = ST_EXPR_NUMBER, .is_int = 1, .i = st_dtype_bits(own ? own : r->dtype)};
        return number(r, &bits, want);
    }
    case ST_EXPR_LOOKUP:
        return eval_lookup(r, expr);
    case ST_EXPR_RARE:
        return eval_rare(r, expr, want);
    case ST_EXPR_USE:
        return r->lets[expr->args[0]] ? r->lets[expr->args[0]]
                                      : eval(r, expr_at(r, expr->args[0])->args[0], want);
    case ST_EXPR_BLOCK:
        return eval_block(r, expr, want);
    default:
        return fail(r->e, st_fail(r->e->err, STATOR_INTERNAL, "an expansion node of no kind"));
    }
}

/* Runs a program over the instruction's operands; its result has the instruction's dtype. */
static st_loop_ref expand_by(expander *e, const char *text, const st_loop_inst *inst)
{
    st_expansion program = {.mem = NULL};
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    run r = {.e = e, .program = &program, .operands = inst->args};
    st_loop_ref result = 0;
    if (++e->nesting > NESTING_MAX) {
        return fail(
            e, st_fail(e->err, STATOR_INTERNAL, "the expansion of %s does not end", desc->name));
    }
    const stator_status parsed = st_expansion_parse(&program, e->out->mem, text, e->err);
    if (parsed != STATOR_OK) {
        (void)fail(e, parsed);
    } else {
        r.lets = st_calloc(e->out->mem, program.nodes.count, sizeof *r.lets);
        r.dtype = dtype_at(e, inst->args[desc->arity - 1u]);
        result = r.lets ? eval(&r, program.root, inst->dtype) : out_of_memory(e);
    }
    if (result && dtype_at(e, result) != inst->dtype) {
        result = fail(e, st_fail(e->err, STATOR_INTERNAL, "the expansion of %s gives %s, not %s",
                                 desc->name, st_dtype_name(dtype_at(e, result)),
                                 st_dtype_name(inst->dtype)));
    }
    st_free(e->out->mem, r.lets);
    st_expansion_deinit(&program);
    e->nesting--;
    return result;
}

/* ---- casts of storage types go through f32, and its bits ---- */

/* f64 to f32 so that the next rounding decides as if it saw the f64 (core/base/convert.c). */
static const char round_to_odd[] =
    "n = f32(x); w = f64(n); b = as_int(n); d = select(abs(w) > abs(x), b - 1, b);"
    "as_float(select(w == x || x != x, b, bit_or(d, 1)))";

/* How the bits of a storage type become an f32 and an f32 those bits, rounded to nearest, ties to
 * even. Narrower exponents: the bits in the place of an f32's, times two to the difference of the
 * biases, which also makes subnormals; and back, a sum with a power of two that has the last place
 * of the narrow subnormals (F. Giesen's float_to_half_fast3_rtne). */
typedef struct storage_cast {
    uint8_t dtype;
    uint8_t bits; /* dtype of the bits */
    const char *widen;
    const char *narrow;
    const char *narrow_plain; /* overflow gives inf or NaN although `narrow` saturates */
} storage_cast;

#define NARROW_F8(above, nan, over)                                                                \
    "m = as_float(bit_and(u, 0x7fffffff)) + " above                                                \
    "; r = select(a < least, as_int(m) - base, s);"                                                \
    "c = select(x != x, " nan ", select(r > most, " over ", r));"                                  \
    "u8(bit_or(c, bit_and(shift_right(u, 24), 0x80)))"
#define NARROW_E4M3(over)                                                                          \
    "u = as_int(x); a = bit_and(u, 0x7fffffff); least = 0x3c800000; base = 0x46800000;"            \
    "most = 0x7e; s = shift_right(a + 0x7ffff + bit_and(shift_right(a, 20), 1), 20) - "            \
    "960;" NARROW_F8("16384", "0x7f", over)
#define NARROW_E5M2(over)                                                                          \
    "u = as_int(x); a = bit_and(u, 0x7fffffff); least = 0x38800000; base = 0x43000000;"            \
    "most = 0x7b; s = shift_right(a + 0xfffff + bit_and(shift_right(a, 21), 1), 21) - "            \
    "448;" NARROW_F8("128", "0x7e", over)

static const storage_cast storage_casts[] = {
    {STATOR_BF16, STATOR_U16, "as_float(shift_left(i32(x), 16))",
     "u = as_int(x); q = bit_or(shift_right(u, 16), 0x40);"
     "r = shift_right(u + 0x7fff + bit_and(shift_right(u, 16), 1), 16); u16(select(x != x, q, r))",
     NULL},
    {STATOR_F16, STATOR_U16,
     "h = i32(x); o = shift_left(bit_and(h, 0x7fff), 13); m = as_int(as_float(o) * 0x1p112);"
     "v = select(o >= 0x0f800000, bit_or(o, 0x7f800000), m);"
     "as_float(bit_or(v, shift_left(bit_and(h, 0x8000), 16)))",
     "u = as_int(x); a = bit_and(u, 0x7fffffff);"
     "low = as_int(as_float(a) + 0.5) - 0x3f000000;"
     "s = shift_right(a - 0x37fff001 + bit_and(shift_right(a, 13), 1), 13);"
     "r = select(a < 0x38800000, low, s);"
     "c = select(a >= 0x47800000, select(x != x, 0x7e00, 0x7c00), r);"
     "u16(bit_or(c, bit_and(shift_right(u, 16), 0x8000)))",
     NULL},
    {STATOR_F8E4M3FN, STATOR_U8,
     "h = i32(x); a = bit_and(h, 0x7f); m = as_int(as_float(shift_left(a, 20)) * 0x1p120);"
     "v = select(a == 0x7f, 0x7fc00000, m); as_float(bit_or(v, shift_left(bit_and(h, 0x80), 24)))",
     NARROW_E4M3("0x7e"), NARROW_E4M3("0x7f")},
    {STATOR_F8E5M2, STATOR_U8,
     "h = i32(x); o = shift_left(bit_and(h, 0x7f), 21); m = as_int(as_float(o) * 0x1p112);"
     "v = select(o >= 0x0f800000, bit_or(o, 0x7f800000), m);"
     "as_float(bit_or(v, shift_left(bit_and(h, 0x80), 24)))",
     NARROW_E5M2("0x7b"), NARROW_E5M2("0x7c")},
};

static const storage_cast *storage_cast_of(uint32_t dtype)
{
    size_t i = 0;
    while (i + 1 < sizeof storage_casts / sizeof storage_casts[0] &&
           storage_casts[i].dtype != dtype) {
        i++;
    }
    return &storage_casts[i];
}

static bool is_storage(uint32_t dtype)
{
    return st_loop_class_of(dtype) == ST_LOOP_STORAGE;
}

/* Every value of these is an f32. */
static bool fits_f32(uint32_t dtype)
{
    return dtype == STATOR_BOOL || ((st_loop_class_of(dtype) & (ST_LOOP_INTS | ST_LOOP_UINTS)) &&
                                    st_dtype_bits(dtype) <= 16);
}

/* Does the emitter spell casts between f32 and the storage type? */
static bool spells_cast(const expander *e, uint32_t storage)
{
    const uint32_t spelled = e->spells ? e->spells[ST_LOOP_cast] : 0u;
    return spelled == ST_CAST_ALL || (spelled == ST_CAST_HALVES && st_dtype_bits(storage) == 16);
}

/* A storage type to f32, or f32 to a storage type. */
static st_loop_ref cast_bits(expander *e, const st_loop_inst *inst)
{
    const bool widens = inst->dtype == STATOR_F32;
    const storage_cast *c = storage_cast_of(widens ? dtype_at(e, inst->args[0]) : inst->dtype);
    st_loop_inst part = {.code = ST_LOOP_cast, .dtype = STATOR_F32, .args = {inst->args[0]}};
    if (spells_cast(e, c->dtype)) {
        return pure(e, inst);
    }
    if (widens) {
        part.args[0] = apply(e, ST_LOOP_bitcast, c->bits, inst->args[0], 0, 0);
        return part.args[0] ? expand_by(e, c->widen, &part) : 0;
    }
    part.dtype = c->bits;
    const st_loop_ref bits =
        expand_by(e, inst->imm.i && c->narrow_plain ? c->narrow_plain : c->narrow, &part);
    return bits ? apply(e, ST_LOOP_bitcast, inst->dtype, bits, 0, 0) : 0;
}

static st_loop_ref cast_storage(expander *e, const st_loop_inst *inst)
{
    const uint32_t from = dtype_at(e, inst->args[0]);
    st_loop_inst last = *inst;
    if (from == STATOR_F32 || (inst->dtype == STATOR_F32 && is_storage(from))) {
        return cast_bits(e, inst);
    }
    if (is_storage(from) || fits_f32(from)) {
        last.args[0] = apply(e, ST_LOOP_cast, STATOR_F32, inst->args[0], 0, 0);
    } else {
        st_loop_inst narrow = {.code = ST_LOOP_cast, .dtype = STATOR_F32};
        narrow.args[0] = cast(e, STATOR_F64, inst->args[0]);
        last.args[0] = narrow.args[0] ? expand_by(e, round_to_odd, &narrow) : 0;
    }
    return last.args[0] ? scalar(e, &last) : 0;
}

/* ---- one instruction ---- */

/* The program for a value that is rounded to 16 bits, where the instruction says so. */
static const char *half_program(const st_loop_op_desc *desc, const st_loop_inst *inst)
{
    if (inst->dtype != STATOR_F32 || desc->expand_bf16 == NULL) {
        return NULL;
    }
    return inst->imm.i == STATOR_BF16  ? desc->expand_bf16
           : inst->imm.i == STATOR_F16 ? desc->expand_f16
                                       : NULL;
}

static st_loop_ref scalar(expander *e, const st_loop_inst *inst)
{
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    const uint32_t dtype = dtype_at(e, inst->args[desc->arity - 1u]);
    const uint32_t class_ = st_loop_class_of(dtype);
    if (inst->code == ST_LOOP_cast && (is_storage(dtype) || is_storage(inst->dtype))) {
        return dtype == inst->dtype ? inst->args[0] : cast_storage(e, inst);
    }
    if ((desc->native & class_) || inst->code == ST_LOOP_bitcast ||
        (e->spells && e->spells[inst->code])) {
        return pure(e, inst);
    }
    const char *half = half_program(desc, inst);
    if (half) {
        return expand_by(e, half, inst);
    }
    const uint32_t entries = dtype == STATOR_F32 && e->spells ? e->spells[ST_LOOP_lookup] : 0u;
    if (entries >= ST_MATH_ENTRIES && desc->expand_lookup) {
        return expand_by(e, desc->expand_lookup, inst);
    }
    if (entries >= ST_MATH_FEW && desc->expand_few) {
        return expand_by(e, desc->expand_few, inst);
    }
    if (dtype == STATOR_F32 && desc->expand_f32) {
        return expand_by(e, desc->expand_f32, inst);
    }
    if (class_ == ST_LOOP_FLOATS && desc->libm) {
        return pure(e, inst);
    }
    return desc->expand ? expand_by(e, desc->expand, inst)
                        : fail(e, st_fail(e->err, STATOR_INTERNAL, "%s of %s has no expansion",
                                          desc->name, st_dtype_name(dtype)));
}

/* ---- instructions of the input ---- */

static st_loop_ref now(const expander *e, st_loop_ref ref)
{
    return e->to.data[ref] ? e->to.data[ref] : ref;
}

static void expand_block(expander *e, uint32_t block);

static void expand_inst(expander *e, st_loop_ref ref)
{
    st_loop_inst *inst = &e->out->insts.data[ref];
    const bool is_scalar = st_loop_desc(inst->code) != NULL;
    for (uint32_t k = 0; k < 3; k++) {
        inst->args[k] = now(e, inst->args[k]);
    }
    if (!is_scalar) {
        st_loop_chain(e->out, e->block, ref);
        if (inst->code == ST_LOOP_CONST) {
            remember(e, ref);
        } else if (inst->code == ST_LOOP_LOOP || inst->code == ST_LOOP_RARE) {
            expand_block(e, inst->body);
            st_loop_inst *again = &e->out->insts.data[ref]; /* instructions may have moved */
            again->args[2] = now(e, again->args[2]);
        }
        return;
    }
    const st_loop_inst old = *inst;
    inst->code = ST_LOOP_NONE; /* out of the chains; what stands for it is appended */
    e->origin = old.origin;
    e->to.data[ref] = scalar(e, &old);
}

static void expand_block(expander *e, uint32_t block)
{
    const uint32_t around = e->block;
    st_loop_block *b = &e->out->blocks.data[block];
    st_loop_ref ref = b->first;
    b->first = b->last = 0;
    e->block = block;
    while (ref && e->status == STATOR_OK) {
        const st_loop_ref next = st_loop_at(e->out, ref)->next;
        expand_inst(e, ref);
        ref = next;
    }
    e->block = around;
}

/* ---- the kernel ---- */

#define COPY(mem, to, from)                                                                        \
    (st_vec_resize((mem), (to), (from)->count)                                                     \
         ? ((from)->count ? memcpy((to)->data, (from)->data, (from)->count * sizeof *(to)->data)   \
                          : NULL,                                                                  \
            1)                                                                                     \
         : 0)

static bool copy_kernel(const st_kernel *from, st_kernel *to)
{
    *to = (st_kernel){.mem = from->mem,
                      .syms = from->syms,
                      .name = from->name,
                      .number = from->number,
                      .failed = from->failed,
                      .threads = from->threads};
    return COPY(to->mem, &to->insts, &from->insts) && COPY(to->mem, &to->blocks, &from->blocks) &&
           COPY(to->mem, &to->axes, &from->axes) && COPY(to->mem, &to->buffers, &from->buffers);
}

stator_status st_loop_expand(const st_kernel *kernel, const uint8_t *spells, st_kernel *out,
                             stator_diag **err)
{
    expander e = {.spells = spells, .out = out, .err = err};
    st_hashset_init(&e.memo, kernel->mem);
    if (!copy_kernel(kernel, out) || !st_vec_resize(kernel->mem, &e.to, kernel->insts.count)) {
        (void)out_of_memory(&e);
    } else {
        expand_block(&e, 0);
    }
    st_vec_free(kernel->mem, &e.to);
    st_hashset_deinit(&e.memo);
    if (e.status != STATOR_OK) {
        st_kernel_deinit(out);
    }
    return e.status;
}
