/* Symbolic integers to code: values in lane 0, vectors of all lanes, addresses.
 *
 * In the vector loop the sym of an address is one of three: the same in all lanes, linear with a
 * constant step a lane, or anything else. floordiv(e, c) of a linear e is the same in all lanes
 * when the lanes never step over a multiple of c: the vector axis is at a multiple of the lanes, so
 * with e = k * axis + r it is enough that k * lanes divides r and c; mod(e, c) then steps by k.
 * Floor division needs care for negative operands alone; ranges of sym.h say where there are none.
 */
#include "jit_emit.h"

#include "core/base/check.h"
#include "core/base/seg.h"

#define DIVISOR_MAX ((int64_t)1 << 40)

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* ---- divisibility in lane 0 ---- */

static int64_t atom_divisor(jit_fn *f, const stator_atom_row *atom)
{
    if (atom->kind == STATOR_ATOM_SYMBOL && f->lanes > 1 && atom->index == f->vec_symbol) {
        return f->lanes;
    }
    if (atom->kind == STATOR_ATOM_PRODUCT) {
        const int64_t a = jit_sym_divisor(f, atom->a);
        const int64_t b = jit_sym_divisor(f, atom->b);
        return a < DIVISOR_MAX && b < DIVISOR_MAX / (a ? a : 1) ? a * b : a > b ? a : b;
    }
    return atom->divisor > 0 && atom->divisor < DIVISOR_MAX ? atom->divisor : 1;
}

int64_t jit_sym_divisor(jit_fn *f, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(&f->syms->tab, sym);
    int64_t g = row->constant == INT64_MIN ? 1 : row->constant;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&f->syms->tab, row, i);
        int64_t part = 0;
        if (!st_mul_i64(atom_divisor(f, st_atom_at(&f->syms->tab, term->atom)), term->coef,
                        &part) ||
            part == INT64_MIN) {
            part = 1;
        }
        g = gcd(g, part);
    }
    return g < 0 ? -g : g;
}

/* ---- shape over the lanes ---- */

static uint32_t atom_shape(jit_fn *f, const stator_atom_row *atom, int64_t *out_coef)
{
    *out_coef = 0;
    if (atom->kind == STATOR_ATOM_SYMBOL) {
        *out_coef = atom->index == f->vec_symbol;
        return *out_coef                           ? JIT_LINEAR
               : f->symbols[atom->index].is_vector ? JIT_GENERAL
                                                   : JIT_UNIFORM;
    }
    int64_t k = 0;
    int64_t unused = 0;
    int64_t c = 0;
    int64_t span = 0;
    const uint32_t a = jit_sym_shape(f, atom->a, &k);
    const uint32_t b = jit_sym_shape(f, atom->b, &unused);
    if (a == JIT_UNIFORM && b == JIT_UNIFORM) {
        return JIT_UNIFORM;
    }
    const bool is_division = atom->kind == STATOR_ATOM_FLOORDIV || atom->kind == STATOR_ATOM_MOD;
    if (!is_division || a != JIT_LINEAR || b != JIT_UNIFORM || k <= 0 ||
        !st_sym_const(&f->syms->tab, atom->b, &c) || !st_mul_i64(k, f->lanes, &span) ||
        c % span != 0 || jit_sym_divisor(f, atom->a) % span != 0) {
        return JIT_GENERAL;
    }
    if (atom->kind == STATOR_ATOM_FLOORDIV) {
        return JIT_UNIFORM;
    }
    *out_coef = k;
    return JIT_LINEAR;
}

uint32_t jit_sym_shape(jit_fn *f, uint32_t sym, int64_t *out_coef)
{
    *out_coef = 0;
    if (f->lanes <= 1) {
        return JIT_UNIFORM;
    }
    const stator_sym_row *row = st_sym_row_at(&f->syms->tab, sym);
    uint32_t shape = JIT_UNIFORM;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&f->syms->tab, row, i);
        int64_t k = 0;
        const uint32_t s = atom_shape(f, st_atom_at(&f->syms->tab, term->atom), &k);
        if (!st_mul_i64(k, term->coef, &k) || !st_add_i64(*out_coef, k, out_coef)) {
            return JIT_GENERAL;
        }
        shape = s > shape ? s : shape;
    }
    return shape == JIT_LINEAR && *out_coef == 0 ? JIT_UNIFORM : shape;
}

/* ---- levels ---- */

static uint32_t sym_level(const jit_fn *f, uint32_t sym);

static uint32_t atom_level(const jit_fn *f, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(&f->syms->tab, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        return f->symbols[row->index].level;
    }
    const uint32_t a = sym_level(f, row->a);
    const uint32_t b = sym_level(f, row->b);
    return a > b ? a : b;
}

static uint32_t sym_level(const jit_fn *f, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(&f->syms->tab, sym);
    uint32_t level = 0;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const uint32_t l = atom_level(f, st_sym_term(&f->syms->tab, row, i)->atom);
        level = l > level ? l : level;
    }
    return level;
}

/* ---- arithmetic ---- */

typedef struct divide {
    uint32_t kind;
    int64_t lo; /* least value of the dividend */
    int64_t divisor_lo;
    int64_t divisor; /* when constant, else 0 */
} divide;

static bool is_power_of_two(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

/* floordiv or mod of scalars or vectors. Where the divisor may be of either sign nothing that
 * counts runs when it is 0, but the division may stand before that is known. */
static LLVMValueRef build_divide(jit_fn *f, const divide *d, LLVMValueRef x, LLVMValueRef y)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef type = LLVMTypeOf(x);
    const LLVMValueRef zero = jit_int(type, 0);
    const bool is_floor = d->kind == STATOR_ATOM_FLOORDIV;
    const bool has_sign = d->divisor_lo < 1; /* the divisor */
    if (is_power_of_two(d->divisor)) {
        return is_floor
                   ? LLVMBuildAShr(ir, x, jit_int(type, __builtin_ctzll((uint64_t)d->divisor)), "")
                   : LLVMBuildAnd(ir, x, jit_int(type, d->divisor - 1), "");
    }
    if (!has_sign && d->lo >= 0) {
        return is_floor ? LLVMBuildUDiv(ir, x, y, "") : LLVMBuildURem(ir, x, y, "");
    }
    if (has_sign) {
        y = jit_select(f, LLVMBuildICmp(ir, LLVMIntEQ, y, zero, ""), jit_int(type, 1), y);
    }
    const LLVMValueRef rest = LLVMBuildSRem(ir, x, y, "");
    LLVMValueRef is_off =
        LLVMBuildICmp(ir, LLVMIntSLT, has_sign ? LLVMBuildXor(ir, rest, y, "") : rest, zero, "");
    if (has_sign) {
        is_off = LLVMBuildAnd(ir, is_off, LLVMBuildICmp(ir, LLVMIntNE, rest, zero, ""), "");
    }
    return is_floor ? LLVMBuildAdd(ir, LLVMBuildSDiv(ir, x, y, ""),
                                   LLVMBuildSExt(ir, is_off, type, ""), "")
                    : LLVMBuildAdd(ir, rest, jit_select(f, is_off, y, zero), "");
}

static LLVMValueRef build_atom(jit_fn *f, const stator_atom_row *atom, LLVMValueRef x,
                               LLVMValueRef y)
{
    divide d = {.kind = atom->kind};
    int64_t unused = 0;
    switch (atom->kind) {
    case STATOR_ATOM_FLOORDIV:
    case STATOR_ATOM_MOD:
        st_sym_range(&f->syms->tab, atom->a, &d.lo, &unused);
        st_sym_range(&f->syms->tab, atom->b, &d.divisor_lo, &unused);
        if (!st_sym_const(&f->syms->tab, atom->b, &d.divisor)) {
            d.divisor = 0;
        }
        return build_divide(f, &d, x, y);
    case STATOR_ATOM_PRODUCT:
        return LLVMBuildMul(f->u->ir, x, y, "");
    case STATOR_ATOM_MIN:
        return jit_intrinsic2(f, "llvm.smin", x, y);
    case STATOR_ATOM_MAX:
        return jit_intrinsic2(f, "llvm.smax", x, y);
    default:
        (void)jit_fail(f->u, STATOR_INTERNAL, "symbolic integer of unknown kind %u", atom->kind);
        return x;
    }
}

/* ---- values in lane 0 ---- */

static LLVMValueRef size_value(jit_fn *f, uint32_t id)
{
    const LLVMTypeRef i64 = f->u->types[JIT_I64];
    const LLVMValueRef at = jit_element(f, i64, f->sizes, jit_i64(f, id));
    const LLVMValueRef v = LLVMBuildLoad2(f->u->ir, i64, at, "");
    jit_set_invariant(f, v);
    return v;
}

static LLVMValueRef symbol_value(jit_fn *f, uint32_t index)
{
    const st_loop_symbol *symbol = &f->syms->symbols.data[index];
    if (symbol->kind == ST_SYMBOL_SIZE) {
        return size_value(f, symbol->id);
    }
    if (f->symbols[index].value == NULL) {
        (void)jit_fail(f->u, STATOR_INTERNAL, "kernel '%s' uses the symbol '%s' out of its scope",
                       f->kernel->name, symbol->name);
        return jit_i64(f, 0);
    }
    return f->symbols[index].value;
}

static LLVMValueRef atom_value(jit_fn *f, uint32_t atom)
{
    LLVMValueRef v = jit_memo_get(f, JIT_MEMO_ATOM, atom);
    if (v != NULL) {
        return v;
    }
    const stator_atom_row *row = st_atom_at(&f->syms->tab, atom);
    const uint32_t level = atom_level(f, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        jit_at(f, level);
        v = symbol_value(f, row->index);
    } else {
        const LLVMValueRef a = jit_sym(f, row->a);
        const LLVMValueRef b = jit_sym(f, row->b);
        jit_at(f, level);
        v = build_atom(f, row, a, b);
    }
    jit_here(f);
    jit_memo_put(f, JIT_MEMO_ATOM, atom, level, v);
    return v;
}

static LLVMValueRef times(jit_fn *f, LLVMValueRef v, int64_t coef)
{
    return coef == 1 ? v : LLVMBuildMul(f->u->ir, v, jit_int(LLVMTypeOf(v), coef), "");
}

/* The sym's terms of this level, or those of them that do not differ freely by lane. */
static LLVMValueRef level_sum(jit_fn *f, const stator_sym_row *row, uint32_t level, bool want_all)
{
    LLVMValueRef sum = NULL;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&f->syms->tab, row, i);
        int64_t coef = 0;
        if (atom_level(f, term->atom) != level ||
            (!want_all &&
             atom_shape(f, st_atom_at(&f->syms->tab, term->atom), &coef) == JIT_GENERAL)) {
            continue;
        }
        const LLVMValueRef v = atom_value(f, term->atom);
        jit_at(f, level);
        const LLVMValueRef part = times(f, v, term->coef);
        sum = sum ? LLVMBuildAdd(f->u->ir, sum, part, "") : part;
    }
    jit_here(f);
    return sum;
}

/* Sums outer levels first, so that each part stands as far out as it can. */
static LLVMValueRef all_levels(jit_fn *f, const stator_sym_row *row, uint32_t top, bool want_all)
{
    LLVMValueRef v = NULL;
    for (uint32_t level = 0; level <= top; level++) {
        const LLVMValueRef part = level_sum(f, row, level, want_all);
        if (part == NULL) {
            continue;
        }
        jit_at(f, level);
        if (v != NULL) {
            v = LLVMBuildAdd(f->u->ir, v, part, "");
        } else {
            v = row->constant ? LLVMBuildAdd(f->u->ir, part, jit_i64(f, row->constant), "") : part;
        }
        jit_here(f);
    }
    return v ? v : jit_i64(f, row->constant);
}

LLVMValueRef jit_sym(jit_fn *f, uint32_t sym)
{
    LLVMValueRef v = jit_memo_get(f, JIT_MEMO_SYM, sym);
    if (v == NULL) {
        const uint32_t top = sym_level(f, sym);
        v = all_levels(f, st_sym_row_at(&f->syms->tab, sym), top, true);
        jit_memo_put(f, JIT_MEMO_SYM, sym, top, v);
    }
    return v;
}

/* ---- addresses ---- */

LLVMValueRef jit_address(jit_fn *f, uint32_t buffer, uint32_t sym)
{
    const uint64_t key = ((uint64_t)buffer << 32) | sym;
    LLVMValueRef p = jit_memo_get(f, JIT_MEMO_ADDRESS, key);
    if (p != NULL) {
        return p;
    }
    const LLVMTypeRef type = jit_buffer_type(f, buffer);
    const stator_sym_row *row = st_sym_row_at(&f->syms->tab, sym);
    const uint32_t top = sym_level(f, sym);
    p = f->buffers[buffer];
    for (uint32_t level = 0; level <= top; level++) {
        const LLVMValueRef part = level_sum(f, row, level, true);
        if (part != NULL) {
            jit_at(f, level);
            p = jit_element(f, type, p, part);
        }
    }
    if (row->constant) {
        jit_at(f, top);
        p = jit_element(f, type, p, jit_i64(f, row->constant));
    }
    jit_here(f);
    jit_memo_put(f, JIT_MEMO_ADDRESS, key, top, p);
    return p;
}

/* ---- values in all lanes ---- */

static bool is_32bit(const jit_fn *f, uint32_t sym)
{
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&f->syms->tab, sym, &lo, &hi);
    return lo >= INT32_MIN && hi <= INT32_MAX;
}

/* Sums and products are right modulo 2^32; the operands of the other atoms must fit. */
static bool parts_are_32bit(const jit_fn *f, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(&f->syms->tab, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_atom_row *atom =
            st_atom_at(&f->syms->tab, st_sym_term(&f->syms->tab, row, i)->atom);
        if (atom->kind == STATOR_ATOM_SYMBOL) {
            continue;
        }
        if (!parts_are_32bit(f, atom->a) || !parts_are_32bit(f, atom->b) ||
            (atom->kind != STATOR_ATOM_PRODUCT &&
             (!is_32bit(f, atom->a) || !is_32bit(f, atom->b)))) {
            return false;
        }
    }
    return true;
}

static LLVMValueRef to_width(jit_fn *f, LLVMValueRef v, LLVMTypeRef element)
{
    const LLVMTypeRef type = jit_wide(element, jit_lanes_of(v));
    return LLVMBuildIntCast2(f->u->ir, v, type, 1, "");
}

static LLVMValueRef vector_sym(jit_fn *f, uint32_t sym, LLVMTypeRef element);

static LLVMValueRef vector_atom(jit_fn *f, const stator_atom_row *atom, LLVMTypeRef element)
{
    if (atom->kind == STATOR_ATOM_SYMBOL) {
        return to_width(f, f->symbols[atom->index].value, element);
    }
    const LLVMValueRef a = vector_sym(f, atom->a, element);
    const LLVMValueRef b = vector_sym(f, atom->b, element);
    return build_atom(f, atom, a, b);
}

/* Terms that are uniform or linear in the lanes are summed in lane 0 and broadcast; the others
 * follow. */
static LLVMValueRef vector_sym(jit_fn *f, uint32_t sym, LLVMTypeRef element)
{
    const LLVMBuilderRef ir = f->u->ir;
    const stator_sym_row *row = st_sym_row_at(&f->syms->tab, sym);
    int64_t step = 0;
    LLVMValueRef first = all_levels(f, row, sym_level(f, sym), false);
    LLVMValueRef sum = jit_splat(f, to_width(f, first, element));
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&f->syms->tab, row, i);
        const stator_atom_row *atom = st_atom_at(&f->syms->tab, term->atom);
        int64_t coef = 0;
        const uint32_t shape = atom_shape(f, atom, &coef);
        if (shape == JIT_GENERAL) {
            const LLVMValueRef part = vector_atom(f, atom, element);
            sum = LLVMBuildAdd(ir, sum, times(f, part, term->coef), "");
        } else if (!st_mul_i64(coef, term->coef, &coef) || !st_add_i64(step, coef, &step)) {
            (void)jit_fail(f->u, STATOR_OUT_OF_RANGE, "kernel '%s': an index overflows 64 bits",
                           f->kernel->name);
            return sum;
        }
    }
    return step ? LLVMBuildAdd(ir, sum, jit_iota(element, f->lanes, step), "") : sum;
}

LLVMValueRef jit_vsym(jit_fn *f, uint32_t sym, bool may_be_narrow)
{
    const bool is_narrow = is_32bit(f, sym) && parts_are_32bit(f, sym);
    LLVMValueRef v = jit_memo_get(f, JIT_MEMO_VSYM, sym);
    if (v == NULL) {
        v = vector_sym(f, sym, f->u->types[is_narrow ? JIT_I32 : JIT_I64]);
        jit_memo_put(f, JIT_MEMO_VSYM, sym, f->depth, v);
    }
    return is_narrow && !may_be_narrow ? to_width(f, v, f->u->types[JIT_I64]) : v;
}
