/* The op table, the symbols and the storage of kernels. */
#include "codegen/loopir/loop.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

#define SYM_DEPTH_MAX 16u /* above the limit of sym.h */

/* ---- the op table ---- */

static const st_loop_op_desc descs[ST_LOOP_CODE_COUNT] = {
#define ST_LOOP_OP(name_, ...) [ST_LOOP_##name_] = {.name = #name_, __VA_ARGS__},
#include "codegen/loopir/loop_ops.def"
};

const float st_loop_tables[ST_MATH_TABLES][ST_MATH_ENTRIES] = {ST_MATH_TABLE_VALUES};

const st_loop_op_desc *st_loop_desc(uint32_t code)
{
    return code < ST_LOOP_CODE_COUNT && descs[code].name ? &descs[code] : NULL;
}

uint32_t st_loop_find(const char *name)
{
    for (uint32_t code = ST_LOOP_FIRST_SCALAR; code < ST_LOOP_CODE_COUNT; code++) {
        if (strcmp(descs[code].name, name) == 0) {
            return code;
        }
    }
    return 0;
}

uint32_t st_loop_class_of(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_BOOL:
        return ST_LOOP_BOOLS;
    case STATOR_I8:
    case STATOR_I16:
    case STATOR_I32:
    case STATOR_I64:
        return ST_LOOP_INTS;
    case STATOR_U8:
    case STATOR_U16:
    case STATOR_U32:
    case STATOR_U64:
        return ST_LOOP_UINTS;
    case STATOR_F32:
    case STATOR_F64:
        return ST_LOOP_FLOATS;
    case STATOR_BF16:
    case STATOR_F16:
    case STATOR_F8E4M3FN:
    case STATOR_F8E5M2:
        return ST_LOOP_STORAGE;
    default:
        return 0;
    }
}

uint32_t st_loop_loaded(uint32_t dtype)
{
    return dtype == STATOR_I4   ? (uint32_t)STATOR_I8
           : dtype == STATOR_U4 ? (uint32_t)STATOR_U8
                                : dtype;
}

/* ---- symbols ---- */

bool st_loop_syms_init(st_loop_syms *syms, st_mem *mem)
{
    memset(syms, 0, sizeof *syms);
    st_arena_init(&syms->names, mem);
    if (!st_symtab_init(&syms->tab, mem)) {
        st_arena_deinit(&syms->names);
        return false;
    }
    return true;
}

void st_loop_syms_deinit(st_loop_syms *syms)
{
    st_vec_free(syms->names.mem, &syms->symbols);
    st_symtab_deinit(&syms->tab);
    st_arena_deinit(&syms->names);
}

uint32_t st_loop_symbol_add(st_loop_syms *syms, const st_loop_symbol *what, int64_t lo, int64_t hi,
                            int64_t divisor)
{
    char numbered[16];
    const char *name = what->name;
    const uint32_t index = syms->symbols.count;
    if (name == NULL || name[0] == 0) {
        (void)snprintf(numbered, sizeof numbered, "k%u", index);
        name = numbered;
    }
    /* A name id of its own for each symbol: equal names stay different symbols. */
    const uint32_t sym = st_sym_symbol(&syms->tab, index + 1u, lo, hi, divisor, 0);
    const char *copy = st_arena_strndup(&syms->names, name, strlen(name));
    st_loop_symbol *row = sym && copy ? st_vec_push(syms->names.mem, &syms->symbols) : NULL;
    if (row == NULL) {
        return 0;
    }
    *row = *what;
    row->sym = sym;
    row->name = copy;
    return sym;
}

static uint32_t subst_atom(st_loop_syms *syms, uint32_t atom, const uint32_t *to, uint32_t n)
{
    const stator_atom_row *row = st_atom_at(&syms->tab, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        return row->index < n && to[row->index] ? to[row->index]
                                                : syms->symbols.data[row->index].sym;
    }
    const uint32_t a = st_loop_subst(syms, row->a, to, n);
    const uint32_t b = st_loop_subst(syms, row->b, to, n);
    return a && b ? st_sym_op(&syms->tab, row->kind, a, b) : 0;
}

uint32_t st_loop_subst(st_loop_syms *syms, uint32_t sym, const uint32_t *to, uint32_t n)
{
    const stator_sym_row *row = st_sym_row_at(&syms->tab, sym);
    uint32_t sum = st_sym_int(&syms->tab, row->constant);
    for (uint32_t i = 0; sum && i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&syms->tab, row, i);
        const uint32_t coef = st_sym_int(&syms->tab, term->coef);
        const uint32_t atom = subst_atom(syms, term->atom, to, n);
        const uint32_t part = coef && atom ? st_sym_mul(&syms->tab, coef, atom) : 0;
        sum = part ? st_sym_add(&syms->tab, sum, part) : 0;
    }
    return sum;
}

typedef struct each_symbol {
    void (*fn)(void *self, uint32_t index);
    void *self;
} each_symbol;

static bool call_each(const void *self, const stator_atom_row *row, uint32_t atom)
{
    const each_symbol *each = self;
    (void)atom;
    if (row->kind == STATOR_ATOM_SYMBOL) {
        each->fn(each->self, row->index);
    }
    return false;
}

void st_loop_each_symbol(const st_loop_syms *syms, uint32_t sym,
                         void (*fn)(void *self, uint32_t index), void *self)
{
    const each_symbol each = {fn, self};
    (void)st_sym_find_atom(&syms->tab, sym, call_each, &each);
}

static bool is_symbol(const void *self, const stator_atom_row *row, uint32_t atom)
{
    (void)atom;
    return row->kind == STATOR_ATOM_SYMBOL && row->index == *(const uint32_t *)self;
}

bool st_loop_mentions(const st_loop_syms *syms, uint32_t sym, uint32_t symbol)
{
    return st_sym_find_atom(&syms->tab, sym, is_symbol, &symbol) != 0;
}

static bool linear(st_loop_syms *syms, uint32_t sym, uint32_t symbol, uint32_t depth,
                   uint32_t *out_coef, uint32_t *out_rest);

/* The same for one atom. */
static bool linear_atom(st_loop_syms *syms, uint32_t atom, uint32_t symbol, uint32_t depth,
                        uint32_t *out_coef, uint32_t *out_rest)
{
    st_symtab *tab = &syms->tab;
    const stator_atom_row *row = st_atom_at(&syms->tab, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        const bool is_it = row->index == symbol;
        *out_coef = st_sym_int(tab, is_it);
        *out_rest = is_it ? st_sym_int(tab, 0) : syms->symbols.data[row->index].sym;
        return *out_coef && *out_rest;
    }
    const bool in_a = st_loop_mentions(syms, row->a, symbol);
    const bool in_b = st_loop_mentions(syms, row->b, symbol);
    if (!in_a && !in_b) {
        *out_coef = st_sym_int(tab, 0);
        *out_rest = st_sym_op(tab, row->kind, row->a, row->b);
        return *out_coef && *out_rest;
    }
    if (row->kind != STATOR_ATOM_PRODUCT || (in_a && in_b)) {
        return false;
    }
    uint32_t coef = 0;
    uint32_t rest = 0;
    const uint32_t factor = in_a ? row->b : row->a;
    if (!linear(syms, in_a ? row->a : row->b, symbol, depth + 1u, &coef, &rest)) {
        return false;
    }
    *out_coef = st_sym_mul(tab, coef, factor);
    *out_rest = st_sym_mul(tab, rest, factor);
    return *out_coef && *out_rest;
}

static bool linear(st_loop_syms *syms, uint32_t sym, uint32_t symbol, uint32_t depth,
                   uint32_t *out_coef, uint32_t *out_rest)
{
    st_symtab *tab = &syms->tab;
    const stator_sym_row *row = st_sym_row_at(&syms->tab, sym);
    uint32_t coef = st_sym_int(tab, 0);
    uint32_t rest = st_sym_int(tab, row->constant);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&syms->tab, row, i);
        const uint32_t times = st_sym_int(tab, term->coef);
        uint32_t c = 0;
        uint32_t r = 0;
        if (depth > SYM_DEPTH_MAX || !coef || !rest || !times ||
            !linear_atom(syms, term->atom, symbol, depth, &c, &r)) {
            return false;
        }
        c = st_sym_mul(tab, c, times);
        r = st_sym_mul(tab, r, times);
        coef = c ? st_sym_add(tab, coef, c) : 0;
        rest = r ? st_sym_add(tab, rest, r) : 0;
    }
    *out_coef = coef;
    *out_rest = rest;
    return coef && rest;
}

bool st_loop_linear(st_loop_syms *syms, uint32_t sym, uint32_t symbol, uint32_t *out_coef,
                    uint32_t *out_rest)
{
    return linear(syms, sym, symbol, 0, out_coef, out_rest);
}

static const char *name_of(void *self, uint32_t name)
{
    const st_loop_syms *syms = self;
    return name && name <= syms->symbols.count ? syms->symbols.data[name - 1u].name : "?";
}

void st_loop_sym_print(const st_loop_syms *syms, uint32_t sym, st_str *out)
{
    st_sym_print(&syms->tab, sym, name_of, (void *)(uintptr_t)syms, out);
}

/* ---- kernels ---- */

bool st_kernel_init(st_kernel *kernel, st_mem *mem, st_loop_syms *syms, const char *name)
{
    memset(kernel, 0, sizeof *kernel);
    kernel->mem = mem;
    kernel->syms = syms;
    kernel->number = ++syms->n_kernels;
    kernel->name = st_arena_strndup(&syms->names, name, strlen(name));
    const bool is_ok = kernel->name && st_vec_resize(mem, &kernel->insts, 1) &&
                       st_vec_resize(mem, &kernel->blocks, 1);
    if (!is_ok) {
        st_kernel_deinit(kernel);
    }
    return is_ok;
}

void st_kernel_deinit(st_kernel *kernel)
{
    if (kernel->mem == NULL) {
        return;
    }
    st_vec_free(kernel->mem, &kernel->insts);
    st_vec_free(kernel->mem, &kernel->blocks);
    st_vec_free(kernel->mem, &kernel->axes);
    st_vec_free(kernel->mem, &kernel->buffers);
}

void st_loop_chain(st_kernel *kernel, uint32_t block, st_loop_ref ref)
{
    st_loop_block *of = &kernel->blocks.data[block];
    kernel->insts.data[ref].block = block;
    kernel->insts.data[ref].next = 0;
    if (of->last) {
        kernel->insts.data[of->last].next = ref;
    } else {
        of->first = ref;
    }
    of->last = ref;
}

st_loop_ref st_kernel_parallel_loop(const st_kernel *kernel)
{
    for (st_loop_ref ref = kernel->blocks.data[0].first; ref; ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == ST_LOOP_LOOP && (kernel->axes.data[inst->ref].flags & ST_AXIS_PARALLEL)) {
            return ref;
        }
    }
    return 0;
}
