/* The table of the symbolic engine: interning of syms and atoms, linear arithmetic, facts.
 *
 *     sym  = constant + sum(coef * atom), terms sorted by atom       interned: equal forms, one ref
 *     atom = symbol | floordiv | mod | product | min | max of syms   interned: equal rows, one ref
 *
 * An atom's operands are older than the atom, so refs are a topological order. The canonical form
 * beyond sorting and merging is made by st_lin_canon: exact divisions of one base are added up as
 * fractions, and c * floordiv(a, c) + mod(a, c) becomes a. See docs/sym.md. */
#include "core/base/sym/sym_lin.h"

#include "core/base/check.h"
#include <string.h>

bool st_symtab_init(st_symtab *tab, st_mem *mem)
{
    memset(tab, 0, sizeof *tab);
    tab->mem = mem;
    st_seg_init(&tab->syms, mem, sizeof(stator_sym_row));
    st_seg_init(&tab->terms, mem, sizeof(stator_term_row));
    st_seg_init(&tab->atoms, mem, sizeof(stator_atom_row));
    st_seg_init(&tab->depths, mem, sizeof(uint32_t));
    st_hashset_init(&tab->sym_set, mem);
    st_hashset_init(&tab->atom_set, mem);
    uint32_t none = 0;
    if (!st_seg_grow(&tab->syms, 1, &none) || !st_seg_grow(&tab->atoms, 1, &none) ||
        !st_seg_grow(&tab->depths, 1, &none)) {
        st_symtab_deinit(tab);
        return false;
    }
    return true;
}

void st_symtab_deinit(st_symtab *tab)
{
    st_seg_deinit(&tab->syms);
    st_seg_deinit(&tab->terms);
    st_seg_deinit(&tab->atoms);
    st_seg_deinit(&tab->depths);
    st_hashset_deinit(&tab->sym_set);
    st_hashset_deinit(&tab->atom_set);
}

uint64_t st_abs_u64(int64_t v)
{
    return v < 0 ? 0u - (uint64_t)v : (uint64_t)v;
}

uint64_t st_gcd_u64(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* ---- linear forms ---- */

void st_lin_set(st_lin *lin, int64_t constant)
{
    lin->constant = constant;
    lin->count = 0;
    lin->reserved = 0;
}

void st_lin_copy(st_lin *to, const st_lin *from)
{
    st_lin_set(to, from->constant);
    to->count = from->count;
    memcpy(to->terms, from->terms, from->count * sizeof from->terms[0]);
}

void st_lin_remove(st_lin *lin, uint32_t i)
{
    lin->count--;
    memmove(&lin->terms[i], &lin->terms[i + 1], (lin->count - i) * sizeof lin->terms[0]);
}

bool st_lin_add_const(st_lin *lin, int64_t value)
{
    return st_add_i64(lin->constant, value, &lin->constant);
}

bool st_lin_add_term(st_lin *lin, uint32_t atom, int64_t coef)
{
    uint32_t i = lin->count;
    while (i > 0 && lin->terms[i - 1].atom >= atom) {
        i--;
    }
    if (coef == 0) {
        return true;
    }
    if (i < lin->count && lin->terms[i].atom == atom) {
        if (!st_add_i64(lin->terms[i].coef, coef, &lin->terms[i].coef)) {
            return false;
        }
        if (lin->terms[i].coef == 0) {
            st_lin_remove(lin, i);
        }
        return true;
    }
    if (lin->count == ST_LIN_MAX) {
        return false;
    }
    memmove(&lin->terms[i + 1], &lin->terms[i], (lin->count - i) * sizeof lin->terms[0]);
    lin->terms[i] = (stator_term_row){coef, atom, 0};
    lin->count++;
    return true;
}

bool st_lin_add_sym(const st_symtab *tab, st_lin *lin, uint32_t sym, int64_t factor)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    int64_t v = 0;
    if (!st_mul_i64(row->constant, factor, &v) || !st_lin_add_const(lin, v)) {
        return false;
    }
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *t = st_sym_term(tab, row, i);
        if (!st_mul_i64(t->coef, factor, &v) || !st_lin_add_term(lin, t->atom, v)) {
            return false;
        }
    }
    return true;
}

bool st_lin_add_lin(st_lin *lin, const st_lin *other, int64_t factor)
{
    int64_t v = 0;
    if (!st_mul_i64(other->constant, factor, &v) || !st_lin_add_const(lin, v)) {
        return false;
    }
    for (uint32_t i = 0; i < other->count; i++) {
        if (!st_mul_i64(other->terms[i].coef, factor, &v) ||
            !st_lin_add_term(lin, other->terms[i].atom, v)) {
            return false;
        }
    }
    return true;
}

bool st_lin_scale(st_lin *lin, int64_t factor)
{
    if (factor == 0) {
        st_lin_set(lin, 0);
        return true;
    }
    bool ok = st_mul_i64(lin->constant, factor, &lin->constant);
    for (uint32_t i = 0; ok && i < lin->count; i++) {
        ok = st_mul_i64(lin->terms[i].coef, factor, &lin->terms[i].coef);
    }
    return ok;
}

int64_t st_lin_coef(const st_lin *lin, uint32_t atom)
{
    for (uint32_t i = 0; i < lin->count; i++) {
        if (lin->terms[i].atom == atom) {
            return lin->terms[i].coef;
        }
    }
    return 0;
}

/* ---- interning ---- */

typedef struct sym_key {
    const st_symtab *tab;
    const st_lin *lin;
} sym_key;

static bool same_sym(void *self, uint32_t id)
{
    const sym_key *key = self;
    const stator_sym_row *row = st_sym_row_at(key->tab, id);
    if (row->constant != key->lin->constant || row->term_count != key->lin->count) {
        return false;
    }
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *t = st_sym_term(key->tab, row, i);
        if (t->coef != key->lin->terms[i].coef || t->atom != key->lin->terms[i].atom) {
            return false;
        }
    }
    return true;
}

static uint32_t add_sym_row(st_symtab *tab, const st_lin *lin, uint64_t hash)
{
    const uint32_t terms_before = tab->terms.count;
    uint32_t begin = 0;
    uint32_t sym = 0;
    if (!st_seg_grow(&tab->terms, lin->count, &begin)) {
        return 0;
    }
    stator_sym_row *row = st_seg_push(&tab->syms, &sym);
    if (row == NULL || !st_hashset_add(&tab->sym_set, hash, sym)) {
        st_seg_truncate(&tab->terms, terms_before);
        st_seg_truncate(&tab->syms, row != NULL ? sym : tab->syms.count);
        return 0;
    }
    *row = (stator_sym_row){lin->constant, begin, lin->count};
    for (uint32_t i = 0; i < lin->count; i++) {
        *(stator_term_row *)st_seg_at(&tab->terms, begin + i) = lin->terms[i];
    }
    return sym;
}

uint32_t st_lin_intern(st_symtab *tab, st_lin *lin)
{
    bool changed = false;
    if (!st_lin_canon(tab, lin, &changed) || lin->count > ST_SYM_TERMS_MAX) {
        return 0;
    }
    const uint64_t hash =
        st_hash64(lin->terms, lin->count * sizeof lin->terms[0], (uint64_t)lin->constant);
    sym_key key = {tab, lin};
    const uint32_t found = st_hashset_find(&tab->sym_set, hash, same_sym, &key);
    return found != 0 ? found : add_sym_row(tab, lin, hash);
}

typedef struct atom_key {
    const st_symtab *tab;
    uint32_t kind, a, b, name;
} atom_key;

static bool same_atom(void *self, uint32_t id)
{
    const atom_key *key = self;
    const stator_atom_row *row = st_atom_at(key->tab, id);
    return row->kind == key->kind && row->a == key->a && row->b == key->b && row->name == key->name;
}

static uint64_t atom_hash(uint32_t kind, uint32_t a, uint32_t b, uint32_t name)
{
    const uint32_t words[4] = {kind, a, b, name};
    return st_hash64(words, sizeof words, 0);
}

uint32_t st_atom_find(const st_symtab *tab, uint32_t kind, uint32_t a, uint32_t b)
{
    atom_key key = {tab, kind, a, b, 0};
    return st_hashset_find(&tab->atom_set, atom_hash(kind, a, b, 0), same_atom, &key);
}

/* Adds the row with its depth; into the set too unless it is an unnamed symbol. */
static uint32_t add_atom_row(st_symtab *tab, const stator_atom_row *row, uint32_t depth)
{
    uint32_t atom = 0;
    uint32_t unused = 0;
    stator_atom_row *to = st_seg_push(&tab->atoms, &atom);
    uint32_t *depth_at = to != NULL ? st_seg_push(&tab->depths, &unused) : NULL;
    const bool is_fresh = row->kind == STATOR_ATOM_SYMBOL && row->name == 0;
    if (depth_at == NULL ||
        (!is_fresh &&
         !st_hashset_add(&tab->atom_set, atom_hash(row->kind, row->a, row->b, row->name), atom))) {
        st_seg_truncate(&tab->atoms, to != NULL ? atom : tab->atoms.count);
        st_seg_truncate(&tab->depths, tab->atoms.count);
        return 0;
    }
    *to = *row;
    *depth_at = depth;
    return atom;
}

static uint32_t sym_depth(const st_symtab *tab, uint32_t sym, bool in_product)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    uint32_t depth = 0;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const uint32_t atom = st_sym_term(tab, row, i)->atom;
        uint32_t d = *(const uint32_t *)st_seg_at(&tab->depths, atom);
        /* A product of products is one product: it counts once however many factors it has. */
        d -= in_product && st_atom_at(tab, atom)->kind == STATOR_ATOM_PRODUCT;
        depth = d > depth ? d : depth;
    }
    return depth;
}

uint32_t st_atom_make(st_symtab *tab, uint32_t kind, uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0) {
        return 0;
    }
    const uint32_t found = st_atom_find(tab, kind, a, b);
    if (found != 0) {
        return found;
    }
    const bool is_product = kind == STATOR_ATOM_PRODUCT;
    const uint32_t da = sym_depth(tab, a, is_product);
    const uint32_t db = sym_depth(tab, b, is_product);
    const uint32_t depth = 1u + (da > db ? da : db);
    if (depth > ST_SYM_DEPTH_MAX) {
        return 0;
    }
    stator_atom_row row = {.kind = kind, .a = a, .b = b, .hint = INT64_MIN};
    st_atom_facts(tab, &row);
    return add_atom_row(tab, &row, depth);
}

uint32_t st_sym_single_atom(const st_symtab *tab, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    if (row->constant != 0 || row->term_count != 1) {
        return 0;
    }
    const stator_term_row *t = st_sym_term(tab, row, 0);
    return t->coef == 1 ? t->atom : 0;
}

uint32_t st_atom_sym(st_symtab *tab, uint32_t atom)
{
    st_lin lin;
    st_lin_set(&lin, 0);
    return atom != 0 && st_lin_add_term(&lin, atom, 1) ? st_lin_intern(tab, &lin) : 0;
}

uint32_t st_atom_base(const st_symtab *tab, uint32_t atom, int64_t *out_q)
{
    const stator_atom_row *row = st_atom_at(tab, atom);
    int64_t q = 0;
    *out_q = 1;
    if (row->kind != STATOR_ATOM_FLOORDIV || !st_sym_const(tab, row->b, &q) || q <= 0) {
        return atom;
    }
    const uint32_t base = st_sym_single_atom(tab, row->a);
    if (base == 0 || st_atom_at(tab, base)->divisor % q != 0) {
        return atom;
    }
    *out_q = q;
    return base;
}

/* ---- canonical sums ---- */

/* k * mod(a, c) + k * c * floordiv(a, c) = k * a */
static bool join_mods(const st_symtab *tab, st_lin *lin, bool *out_changed)
{
    for (uint32_t i = 0; i < lin->count; i++) {
        const stator_term_row t = lin->terms[i];
        const stator_atom_row *mod = st_atom_at(tab, t.atom);
        int64_t c = 0;
        int64_t kc = 0;
        if (mod->kind != STATOR_ATOM_MOD || !st_sym_const(tab, mod->b, &c) ||
            !st_mul_i64(t.coef, c, &kc)) {
            continue;
        }
        const uint32_t div = st_atom_find(tab, STATOR_ATOM_FLOORDIV, mod->a, mod->b);
        if (div == 0 || st_lin_coef(lin, div) != kc || kc == INT64_MIN) {
            continue;
        }
        if (!st_lin_add_term(lin, div, -kc) || !st_lin_add_term(lin, t.atom, -t.coef) ||
            !st_lin_add_sym(tab, lin, mod->a, t.coef)) {
            return false;
        }
        *out_changed = true;
        i = UINT32_MAX; /* start again */
    }
    return true;
}

/* a/b += n/d, reduced. */
static bool add_fraction(int64_t *a, int64_t *b, int64_t n, int64_t d)
{
    const int64_t g = (int64_t)st_gcd_u64((uint64_t)*b, (uint64_t)d);
    int64_t x = 0;
    int64_t y = 0;
    int64_t den = 0;
    if (!st_mul_i64(*a, d / g, &x) || !st_mul_i64(n, *b / g, &y) || !st_add_i64(x, y, &x) ||
        !st_mul_i64(*b, d / g, &den)) {
        return false;
    }
    const uint64_t r = st_gcd_u64(st_abs_u64(x), (uint64_t)den);
    *a = r == 0 ? x : x / (int64_t)r;
    *b = r == 0 ? den : den / (int64_t)r;
    return true;
}

/* All terms over the base of the exact division at i become one fraction of that base. */
static bool join_base(st_symtab *tab, st_lin *lin, uint32_t base, bool *out_changed)
{
    int64_t num = 0;
    int64_t den = 1;
    uint32_t n = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < lin->count; i++) {
        int64_t q = 1;
        if (st_atom_base(tab, lin->terms[i].atom, &q) == base) {
            last = i;
            n++;
            if (!add_fraction(&num, &den, lin->terms[i].coef, q)) {
                return false;
            }
        }
    }
    int64_t q = 1;
    st_atom_base(tab, lin->terms[last].atom, &q);
    if (n == 1 && q == den) {
        return true;
    }
    *out_changed = true;
    for (uint32_t i = lin->count; i-- > 0;) {
        if (st_atom_base(tab, lin->terms[i].atom, &q) == base) {
            st_lin_remove(lin, i);
        }
    }
    if (den == 1) {
        return st_lin_add_term(lin, base, num);
    }
    const uint32_t divided =
        st_atom_make(tab, STATOR_ATOM_FLOORDIV, st_atom_sym(tab, base), st_sym_int(tab, den));
    return divided != 0 && st_lin_add_term(lin, divided, num);
}

bool st_lin_canon(st_symtab *tab, st_lin *lin, bool *out_changed)
{
    *out_changed = false;
    if (!join_mods(tab, lin, out_changed)) {
        return false;
    }
    for (uint32_t i = 0; i < lin->count; i++) {
        int64_t q = 1;
        const uint32_t base = st_atom_base(tab, lin->terms[i].atom, &q);
        bool changed = false;
        if (q != 1 && !join_base(tab, lin, base, &changed)) {
            return false;
        }
        if (changed) {
            *out_changed = true;
            i = UINT32_MAX;
        }
    }
    return true;
}

/* ---- public: making and reading ---- */

uint32_t st_sym_int(st_symtab *tab, int64_t value)
{
    st_lin lin;
    st_lin_set(&lin, value);
    return st_lin_intern(tab, &lin);
}

uint32_t st_sym_symbol(st_symtab *tab, uint32_t name, int64_t lo, int64_t hi, int64_t divisor,
                       uint32_t flags)
{
    atom_key key = {tab, STATOR_ATOM_SYMBOL, 0, 0, name};
    const uint64_t hash = atom_hash(STATOR_ATOM_SYMBOL, 0, 0, name);
    uint32_t atom = name != 0 ? st_hashset_find(&tab->atom_set, hash, same_atom, &key) : 0;
    if (atom == 0) {
        const stator_atom_row row = {.kind = STATOR_ATOM_SYMBOL,
                                     .name = name,
                                     .index = tab->n_symbols,
                                     .flags = flags,
                                     .lo = lo,
                                     .hi = hi,
                                     .divisor = divisor < 1 ? 1 : divisor,
                                     .hint = INT64_MIN};
        atom = lo <= hi ? add_atom_row(tab, &row, 0) : 0;
        tab->n_symbols += atom != 0;
    }
    return st_atom_sym(tab, atom);
}

static uint32_t combine(st_symtab *tab, uint32_t a, uint32_t b, int64_t factor)
{
    st_lin lin;
    st_lin_set(&lin, 0);
    if (a == 0 || b == 0 || !st_lin_add_sym(tab, &lin, a, 1) ||
        !st_lin_add_sym(tab, &lin, b, factor)) {
        return 0;
    }
    return st_lin_intern(tab, &lin);
}

uint32_t st_sym_add(st_symtab *tab, uint32_t a, uint32_t b)
{
    return combine(tab, a, b, 1);
}

uint32_t st_sym_sub(st_symtab *tab, uint32_t a, uint32_t b)
{
    return combine(tab, a, b, -1);
}

uint32_t st_sym_op(st_symtab *tab, uint32_t op, uint32_t a, uint32_t b)
{
    switch (op) {
    case STATOR_SYM_ADD:
        return st_sym_add(tab, a, b);
    case STATOR_SYM_SUB:
        return st_sym_sub(tab, a, b);
    case STATOR_SYM_MUL:
        return st_sym_mul(tab, a, b);
    case STATOR_SYM_FLOORDIV:
        return st_sym_floordiv(tab, a, b);
    case STATOR_SYM_MOD:
        return st_sym_mod(tab, a, b);
    case STATOR_SYM_MIN:
        return st_sym_min(tab, a, b);
    case STATOR_SYM_MAX:
        return st_sym_max(tab, a, b);
    case STATOR_SYM_CEILDIV:
        return st_sym_ceildiv(tab, a, b);
    default:
        return 0;
    }
}

bool st_sym_const(const st_symtab *tab, uint32_t sym, int64_t *out)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    *out = row->constant;
    return sym != 0 && row->term_count == 0;
}

uint32_t st_sym_as_symbol(const st_symtab *tab, uint32_t sym)
{
    const uint32_t atom = st_sym_single_atom(tab, sym);
    return atom != 0 && st_atom_at(tab, atom)->kind == STATOR_ATOM_SYMBOL ? atom : 0;
}

uint32_t st_sym_find_in(const st_sym_cols *cols, uint32_t sym, st_sym_atom_fn is, const void *self)
{
    const stator_sym_row *row = stator_column_at(&cols->syms, sym);
    uint32_t found = 0;
    for (uint32_t i = 0; i < row->term_count && found == 0; i++) {
        const stator_term_row *term = stator_column_at(&cols->terms, row->term_begin + i);
        const stator_atom_row *at = stator_column_at(&cols->atoms, term->atom);
        found = is(self, at, term->atom) ? term->atom : 0;
        if (found == 0 && at->kind != STATOR_ATOM_SYMBOL) {
            found = st_sym_find_in(cols, at->a, is, self);
            found = found != 0 ? found : st_sym_find_in(cols, at->b, is, self);
        }
    }
    return found;
}

uint32_t st_sym_find_atom(const st_symtab *tab, uint32_t sym, st_sym_atom_fn is, const void *self)
{
    const st_sym_cols cols = st_sym_columns(tab);
    return st_sym_find_in(&cols, sym, is, self);
}

static bool is_atom(const void *self, const stator_atom_row *row, uint32_t atom)
{
    (void)row;
    return atom == *(const uint32_t *)self;
}

bool st_sym_uses(const st_sym_cols *cols, uint32_t sym, uint32_t atom)
{
    return st_sym_find_in(cols, sym, is_atom, &atom) != 0;
}

int64_t st_sym_divisor(const st_symtab *tab, uint32_t sym)
{
    st_lin lin;
    st_lin_set(&lin, 0);
    st_lin_add_sym(tab, &lin, sym, 1);
    const uint64_t g = st_gcd_u64(st_lin_modulus(tab, &lin), st_abs_u64(lin.constant));
    return g > INT64_MAX ? 1 : (int64_t)g;
}

st_sym_cols st_sym_columns(const st_symtab *tab)
{
    return (st_sym_cols){st_seg_column(&tab->syms), st_seg_column(&tab->terms),
                         st_seg_column(&tab->atoms)};
}
