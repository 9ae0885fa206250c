/* Values of syms under given symbols: directly over columns, and as a flat postfix program for
 * repeated use without the graph.
 *
 * Program: pairs (operation, argument) on a stack of at most STACK_MAX numbers.
 *     CONST v: push v     SYMBOL i: push env[i]     MADD k: x = pop, top += k * x
 *     others: y = pop, top = top op y */
#include "core/base/sym/sym.h"

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/vec.h"

#include <string.h>

#define EVAL_DEPTH_MAX 64u /* far above what the limits allow; a view may come from elsewhere */
#define STACK_MAX ST_SYMPROG_STACK
#define CODE_MAX (1u << 20)
#define LIKELY_SIZE 64 /* hint of a symbol that has none, if its range contains it */

static const stator_sym_row *sym_at(const st_sym_cols *cols, uint32_t sym)
{
    return stator_column_at(&cols->syms, sym);
}

static const stator_term_row *term_at(const st_sym_cols *cols, uint32_t i)
{
    return stator_column_at(&cols->terms, i);
}

static const stator_atom_row *atom_at(const st_sym_cols *cols, uint32_t atom)
{
    return stator_column_at(&cols->atoms, atom);
}

/* One operation on two numbers; 0 on overflow or division by zero. */
static bool apply(uint32_t kind, int64_t a, int64_t b, int64_t *out)
{
    switch (kind) {
    case STATOR_ATOM_FLOORDIV:
        if (b == 0 || (b == -1 && a == INT64_MIN)) {
            return false;
        }
        *out = st_floordiv(a, b);
        return true;
    case STATOR_ATOM_MOD:
        if (b == 0) {
            return false;
        }
        *out = b == -1 ? 0 : st_floormod(a, b);
        return true;
    case STATOR_ATOM_PRODUCT:
        return st_mul_i64(a, b, out);
    case STATOR_ATOM_MIN:
        *out = a < b ? a : b;
        return true;
    case STATOR_ATOM_MAX:
        *out = a > b ? a : b;
        return true;
    default:
        return false;
    }
}

static int64_t clamp(int64_t value, int64_t lo, int64_t hi)
{
    return value < lo ? lo : value > hi ? hi : value;
}

static int64_t hint_of(const stator_atom_row *symbol)
{
    const int64_t divisor = symbol->divisor > 1 ? symbol->divisor : 1;
    const int64_t wanted = symbol->hint != INT64_MIN ? symbol->hint : LIKELY_SIZE;
    const int64_t value = clamp(wanted, symbol->lo, symbol->hi);
    const int64_t below = value - st_floormod(value, divisor);
    return below < symbol->lo && below <= symbol->hi - divisor ? below + divisor : below;
}

/* env NULL: under the symbols' hints. */
static bool eval(const st_sym_cols *cols, uint32_t sym, const int64_t *env, uint32_t depth,
                 int64_t *out);

static bool eval_atom(const st_sym_cols *cols, uint32_t atom, const int64_t *env, uint32_t depth,
                      int64_t *out)
{
    const stator_atom_row *row = atom_at(cols, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        *out = env != NULL ? env[row->index] : hint_of(row);
        return *out != INT64_MIN;
    }
    int64_t a = 0;
    int64_t b = 0;
    return eval(cols, row->a, env, depth + 1u, &a) && eval(cols, row->b, env, depth + 1u, &b) &&
           apply(row->kind, a, b, out);
}

static bool eval(const st_sym_cols *cols, uint32_t sym, const int64_t *env, uint32_t depth,
                 int64_t *out)
{
    const stator_sym_row *row = sym_at(cols, sym);
    int64_t sum = row->constant;
    if (depth > EVAL_DEPTH_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *t = term_at(cols, row->term_begin + i);
        int64_t v = 0;
        if (!eval_atom(cols, t->atom, env, depth, &v) || !st_mul_i64(v, t->coef, &v) ||
            !st_add_i64(sum, v, &sum)) {
            return false;
        }
    }
    *out = sum;
    return true;
}

bool st_sym_eval(const st_sym_cols *cols, uint32_t sym, const int64_t *env, int64_t *out)
{
    *out = 0;
    return sym != 0 && eval(cols, sym, env, 0, out);
}

/* ---- hints ---- */

void st_symtab_set_hints(st_symtab *tab, const int64_t *hints, uint32_t n_symbols)
{
    for (uint32_t atom = 1; atom < tab->atoms.count; atom++) {
        stator_atom_row *row = st_seg_at(&tab->atoms, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && row->index < n_symbols) {
            row->hint = hints[row->index];
        }
    }
}

void st_sym_set_hint(st_symtab *tab, uint32_t sym, int64_t hint)
{
    const uint32_t atom = st_sym_as_symbol(tab, sym);
    if (atom != 0) {
        stator_atom_row *row = st_seg_at(&tab->atoms, atom);
        row->hint = hint;
    }
}

int64_t st_sym_size_hint(const st_symtab *tab, uint32_t sym)
{
    const st_sym_cols cols = st_sym_columns(tab);
    int64_t lo = 0;
    int64_t hi = 0;
    int64_t value = 0;
    st_sym_range(tab, sym, &lo, &hi);
    return sym != 0 && eval(&cols, sym, NULL, 0, &value) ? clamp(value, lo, hi) : lo;
}

/* ---- programs ---- */

enum { OP_CONST = ST_SYMPROG_CONST, OP_SYMBOL = ST_SYMPROG_SYMBOL, OP_MADD = ST_SYMPROG_MADD };

typedef struct writer {
    st_mem *mem;
    const st_sym_cols *cols;
    st_vec(int64_t) code;
    uint32_t depth;
} writer;

static bool emit(writer *w, int64_t op, int64_t argument, int push)
{
    int64_t *at = w->code.count < CODE_MAX ? st_vec_push(w->mem, &w->code) : NULL;
    int64_t *argument_at = NULL;
    if (at != NULL) {
        *at = op;
        argument_at = st_vec_push(w->mem, &w->code);
    }
    if (argument_at == NULL) {
        return false;
    }
    *argument_at = argument;
    w->depth += (uint32_t)push;
    return w->depth <= STACK_MAX;
}

static bool emit_sym(writer *w, uint32_t sym);

static bool emit_atom(writer *w, uint32_t atom)
{
    const stator_atom_row *row = atom_at(w->cols, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        return emit(w, OP_SYMBOL, row->index, 1);
    }
    return emit_sym(w, row->a) && emit_sym(w, row->b) && emit(w, row->kind, 0, -1);
}

static bool emit_sym(writer *w, uint32_t sym)
{
    const stator_sym_row *row = sym_at(w->cols, sym);
    uint32_t i = 0;
    if (row->constant == 0 && row->term_count != 0 &&
        term_at(w->cols, row->term_begin)->coef == 1) {
        if (!emit_atom(w, term_at(w->cols, row->term_begin)->atom)) {
            return false;
        }
        i = 1;
    } else if (!emit(w, OP_CONST, row->constant, 1)) {
        return false;
    }
    for (; i < row->term_count; i++) {
        const stator_term_row *t = term_at(w->cols, row->term_begin + i);
        if (!emit_atom(w, t->atom) || !emit(w, OP_MADD, t->coef, -1)) {
            return false;
        }
    }
    return true;
}

bool st_symprog_init(st_symprog *prog, st_mem *mem, const st_sym_cols *cols, uint32_t sym)
{
    *prog = (st_symprog){.code = NULL};
    if (sym == 0) {
        return false;
    }
    const stator_sym_row *row = sym_at(cols, sym);
    if (row->term_count == 0) {
        prog->is_const = 1;
        prog->constant = row->constant;
        return true;
    }
    writer w = {.mem = mem, .cols = cols, .code = ST_VEC_INIT};
    if (!emit_sym(&w, sym)) {
        st_vec_free(mem, &w.code);
        return false;
    }
    prog->code = w.code.data;
    prog->count = w.code.count / 2u;
    return true;
}

void st_symprog_deinit(st_symprog *prog, st_mem *mem)
{
    st_free(mem, prog->code);
    *prog = (st_symprog){.code = NULL};
}

bool st_symprog_eval(const st_symprog *prog, const int64_t *env, int64_t *out)
{
    int64_t stack[STACK_MAX];
    uint32_t n = 0;
    *out = prog->constant;
    if (prog->is_const) {
        return true;
    }
    for (uint32_t i = 0; i < prog->count; i++) {
        const int64_t op = prog->code[2u * i];
        const int64_t argument = prog->code[2u * i + 1u];
        if (op == OP_CONST) {
            stack[n++] = argument;
        } else if (op == OP_SYMBOL) {
            stack[n++] = env[argument];
            if (env[argument] == INT64_MIN) {
                return false;
            }
        } else if (op == OP_MADD) {
            n--;
            int64_t v = 0;
            if (!st_mul_i64(stack[n], argument, &v) ||
                !st_add_i64(stack[n - 1], v, &stack[n - 1])) {
                return false;
            }
        } else {
            n--;
            if (!apply((uint32_t)op, stack[n - 1], stack[n], &stack[n - 1])) {
                return false;
            }
        }
    }
    *out = stack[0];
    return n == 1;
}

/* ---- kept in a file ---- */

bool st_symprog_is_same(const st_symprog *a, const st_symprog *b)
{
    if (a->is_const || b->is_const) {
        return a->is_const && b->is_const && a->constant == b->constant;
    }
    return a->count == b->count && memcmp(a->code, b->code, a->count * 2u * sizeof *a->code) == 0;
}

void st_symprog_put(const st_symprog *prog, st_str *out)
{
    st_put_u32(out, prog->is_const);
    st_put_i64(out, prog->constant);
    st_put_block(out, prog->code, (uint64_t)prog->count * 2u * sizeof *prog->code);
}

/* Follows the stack's height. */
static bool is_sound(const st_symprog *prog, uint32_t n_symbols)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < prog->count; i++) {
        const int64_t op = prog->code[2u * i];
        const int64_t argument = prog->code[2u * i + 1u];
        if (op == OP_CONST || op == OP_SYMBOL) {
            if (n++ == STACK_MAX ||
                (op == OP_SYMBOL && (argument < 0 || argument >= (int64_t)n_symbols))) {
                return false;
            }
        } else if (n < 2u ||
                   (op != OP_MADD && (op < STATOR_ATOM_FLOORDIV || op > STATOR_ATOM_MAX))) {
            return false;
        } else {
            n--;
        }
    }
    return n == 1u;
}

bool st_symprog_read(st_symprog *prog, st_mem *mem, st_reader *r, uint32_t n_symbols)
{
    uint64_t n = 0;
    *prog = (st_symprog){.is_const = st_read_below(r, 2)};
    prog->constant = st_read_i64(r);
    const void *code = st_read_block(r, &n);
    const uint64_t pair = 2u * sizeof *prog->code;
    if (r->failed || n % pair != 0 || n / pair > CODE_MAX || (prog->is_const && n != 0)) {
        r->failed = 1;
        return false;
    }
    if (prog->is_const) {
        return true;
    }
    prog->code = st_alloc(mem, n + 1u, 16);
    if (prog->code == NULL) {
        return false;
    }
    if (n != 0) {
        memcpy(prog->code, code, (size_t)n);
    }
    prog->count = (uint32_t)(n / pair);
    if (!is_sound(prog, n_symbols)) {
        st_symprog_deinit(prog, mem);
        r->failed = 1;
        return false;
    }
    return true;
}
