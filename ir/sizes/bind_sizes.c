/* Substitution of symbols by numbers.
 *
 * In: a module of its own, names and values. Out: the same graphs, in which every size is the
 * normal form of the old one under the substitution: types and lists of sizes are interned anew and
 * the rows that name them are pointed there. What was proved for every value of a symbol holds for
 * one, so that nothing is inferred again.
 *
 *     sym N in [0, inf]; f32[N, 2*N + 1]   with N = 8   becomes   f32[8, 17] */
#include "ir/sizes/bind_sizes.h"

#include "core/base/sym/sym_lin.h"
#include "core/base/vec.h"
#include "ir/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void st_binding_init_between(st_binding *b, const st_module *from, st_module *m)
{
    *b = (st_binding){.m = m, .from = from};
    st_map_init(&b->values, m->mem);
    st_map_init(&b->done, m->mem);
}

void st_binding_init(st_binding *b, st_module *m)
{
    st_binding_init_between(b, m, m);
}

void st_binding_deinit(st_binding *b)
{
    st_map_deinit(&b->values);
    st_map_deinit(&b->done);
}

bool st_binding_set(st_binding *b, uint32_t atom, stator_ref sym)
{
    if (b->done.count != 0) { /* forms that hold the symbol may be among them */
        st_map_deinit(&b->done);
        st_map_init(&b->done, b->m->mem);
    }
    return sym != 0 && st_map_put(&b->values, atom, sym);
}

static stator_ref bind_atom(st_binding *b, uint32_t atom)
{
    st_symtab *tab = &b->m->symtab;
    const uint32_t value = st_map_get(&b->values, atom);
    const stator_atom_row row = *st_atom_at(&b->from->symtab, atom);
    if (value != 0 || row.kind == STATOR_ATOM_SYMBOL) {
        return value != 0 ? value : b->from == b->m ? st_atom_sym(tab, atom) : 0;
    }
    const stator_ref lhs = st_binding_sym(b, row.a);
    const stator_ref rhs = st_binding_sym(b, row.b);
    return lhs != 0 && rhs != 0 ? st_sym_op(tab, row.kind, lhs, rhs) : 0;
}

/* constant + sum(coef * value of atom). The depth of a sym is capped by the engine. */
stator_ref st_binding_sym(st_binding *b, stator_ref sym)
{
    st_symtab *tab = &b->m->symtab;
    const uint32_t known = st_map_get(&b->done, sym);
    if (known != 0) {
        return known;
    }
    const stator_sym_row row = *st_sym_row_at(&b->from->symtab, sym);
    stator_ref sum = st_sym_int(tab, row.constant);
    for (uint32_t i = 0; sum != 0 && i < row.term_count; i++) {
        const stator_term_row term = *st_sym_term(&b->from->symtab, &row, i);
        const stator_ref value = bind_atom(b, term.atom);
        const stator_ref factor = st_sym_int(tab, term.coef);
        const stator_ref part =
            value != 0 && factor != 0 ? st_sym_op(tab, STATOR_SYM_MUL, factor, value) : 0;
        sum = part != 0 ? st_sym_op(tab, STATOR_SYM_ADD, sum, part) : 0;
    }
    if (sum == 0 || !st_map_put(&b->done, sym, sum)) {
        b->failed = true;
        return sym;
    }
    return sum;
}

/* ---- rows ---- */

stator_ref st_binding_type(st_binding *b, stator_ref type)
{
    st_module *m = b->m;
    const stator_type_row row = *(const stator_type_row *)st_seg_at(&b->from->types, type);
    stator_ref dims[STATOR_RANK_MAX];
    bool is_same = b->from == m;
    for (uint32_t i = 0; i < row.rank; i++) {
        const stator_ref dim = *(const stator_ref *)st_seg_at(&b->from->refs, row.dims_begin + i);
        dims[i] = st_binding_sym(b, dim);
        is_same &= dims[i] == dim;
    }
    const stator_ref bound = is_same ? type : st_module_type(m, row.dtype, row.rank, dims);
    b->failed |= bound == 0;
    return bound != 0 ? bound : type;
}

static void bind_list(st_binding *b, stator_attr_row *attr)
{
    st_module *m = b->m;
    st_vec(stator_ref) dims = {0};
    for (uint32_t i = 0; i < attr->count && !b->failed; i++) {
        stator_ref *slot = st_vec_push(m->mem, &dims);
        if (slot == NULL) {
            b->failed = true;
        } else {
            *slot = st_binding_sym(b, *(const stator_ref *)st_seg_at(&m->refs, attr->begin + i));
        }
    }
    uint32_t begin = 0;
    if (!b->failed && attr->count != 0) {
        if (st_module_ref_list(m, dims.data, attr->count, &begin)) {
            attr->begin = begin;
        } else {
            b->failed = true;
        }
    }
    st_vec_free(m->mem, &dims);
}

static void bind_rows(st_binding *b)
{
    st_module *m = b->m;
    for (uint32_t i = 0; i < m->attrs.count && !b->failed; i++) {
        stator_attr_row *attr = st_seg_at(&m->attrs, i);
        if (attr->kind == STATOR_ATTR_DIMS) {
            bind_list(b, attr);
        }
    }
    for (stator_graph *graph = m->graphs; graph != NULL; graph = graph->next) {
        for (uint32_t i = 1; i < graph->values.count && !b->failed; i++) {
            stator_value_row *value = st_seg_at(&graph->values, i);
            value->type = value->type != 0 ? st_binding_type(b, value->type) : 0;
        }
    }
}

/* ---- names ---- */

/* The names of the symbols that a caller may set, into names[0..capacity). */
static uint32_t list_symbols(const st_module *m, const char **names, uint32_t *atoms,
                             uint32_t capacity)
{
    uint32_t n = 0;
    for (uint32_t atom = 1; atom < m->symtab.atoms.count && n < capacity; atom++) {
        const stator_atom_row *row = st_atom_at(&m->symtab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && row->name != 0 &&
            (row->flags & STATOR_ATOM_UNBACKED) == 0) {
            atoms[n] = atom;
            names[n++] = st_module_str(m, row->name);
        }
    }
    return n;
}

static stator_status fail_name(const char *name, const char *const *known, uint32_t n,
                               stator_diag **err)
{
    char list[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < n && used < sizeof list - 80; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s", i > 0 ? ", " : "",
                                 known[i]);
    }
    const char *near = st_nearest(name, known, n);
    return st_fail(err, STATOR_INVALID_ARGUMENT,
                   "the model has no symbolic size '%s'%s%s%s (it has: %s)", name,
                   near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "", n > 0 ? list : "none");
}

static stator_status bind_symbol(st_binding *b, uint32_t atom, int64_t value, stator_diag **err)
{
    const stator_atom_row *row = st_atom_at(&b->m->symtab, atom);
    ST_FAIL_IF(value < row->lo || value > row->hi, err, STATOR_INVALID_ARGUMENT,
               "size '%s' cannot be %" PRId64 ": it lies in [%" PRId64 ", %" PRId64 "]",
               st_module_str(b->m, row->name), value, row->lo, row->hi);
    ST_FAIL_IF(row->divisor > 1 && value % row->divisor != 0, err, STATOR_INVALID_ARGUMENT,
               "size '%s' cannot be %" PRId64 ": it is a multiple of %" PRId64,
               st_module_str(b->m, row->name), value, row->divisor);
    const stator_ref sym = st_sym_int(&b->m->symtab, value);
    return st_binding_set(b, atom, sym) ? STATOR_OK : st_fail_oom(err);
}

static stator_status bind_name(st_binding *b, const char *name, int64_t value, stator_diag **err)
{
    enum { SYMBOLS_MAX = 256 };
    const char *names[SYMBOLS_MAX];
    uint32_t atoms[SYMBOLS_MAX];
    const uint32_t n = list_symbols(b->m, names, atoms, SYMBOLS_MAX);
    uint32_t k = 0;
    while (k < n && strcmp(names[k], name) != 0) {
        k++;
    }
    if (k == n) {
        return fail_name(name, names, n, err);
    }
    return bind_symbol(b, atoms[k], value, err);
}

/* Ends a substitution that went well so far. */
static stator_status finish(st_binding *b, stator_status status, stator_diag **err)
{
    if (status == STATOR_OK) {
        bind_rows(b);
        if (b->failed) {
            status = st_fail(err, STATOR_RESOURCE_EXHAUSTED,
                             "the sizes of the model cannot be computed for these values: memory "
                             "is short or one does not fit 64 bits");
        }
    }
    st_binding_deinit(b);
    return status;
}

stator_status st_bind_sizes(st_module *m, uint32_t n, const char *const *names,
                            const int64_t *values, stator_diag **err)
{
    st_binding b;
    stator_status status = STATOR_OK;
    st_binding_init(&b, m);
    for (uint32_t k = 0; k < n && status == STATOR_OK; k++) {
        status = bind_name(&b, names[k], values[k], err);
    }
    return finish(&b, status, err);
}

stator_status st_bind_atoms(st_module *m, uint32_t n, const uint32_t *atoms, const int64_t *values,
                            stator_diag **err)
{
    st_binding b;
    stator_status status = STATOR_OK;
    st_binding_init(&b, m);
    for (uint32_t k = 0; k < n && status == STATOR_OK; k++) {
        status = bind_symbol(&b, atoms[k], values[k], err);
    }
    return finish(&b, status, err);
}
