/* The unit's sizes, and what is read of its nodes and values.
 *
 * The symbols of the graph keep their numbers: SIZE symbol i of our table is syms[i] of a call, so
 * an extent can be evaluated straight from what the host hands over. */
#include "codegen/lower/unit.h"

#include <string.h>

/* ---- syms ---- */

/* Notes the atom of every symbol in a list by symbol. */
static bool note_symbol(const void *self, const stator_atom_row *row, uint32_t atom)
{
    uint32_t *const *atom_of_symbol = self;
    if (row->kind == STATOR_ATOM_SYMBOL) {
        (*atom_of_symbol)[row->index] = atom;
    }
    return false;
}

static void find_all_symbols(const cg_unit *unit, uint32_t *atom_of_symbol)
{
    const stator_graph_view *v = unit->view;
    const st_sym_cols cols = st_sym_view_columns(v);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const stator_type_row *type = stator_value_type(v, value);
        for (uint32_t a = 0; a < type->rank; a++) {
            (void)st_sym_find_in(&cols, stator_dim_at(v, type, a), note_symbol, &atom_of_symbol);
        }
    }
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->attr_count; k++) {
            const stator_attr_row *attr = stator_attr_at(v, row, k);
            for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
                (void)st_sym_find_in(&cols, stator_ref_at(v, attr->begin + i), note_symbol,
                                     &atom_of_symbol);
            }
        }
    }
}

stator_status cg_import_symbols(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    uint32_t *atoms = st_arena_zalloc(&unit->arena, (uint64_t)v->n_symbols + 1u, sizeof *atoms);
    ST_TRY_MEM(atoms, err);
    find_all_symbols(unit, atoms);
    for (uint32_t i = 0; i < v->n_symbols; i++) {
        const stator_atom_row *at = atoms[i] ? stator_atom_at(unit->view, atoms[i]) : NULL;
        const st_loop_symbol size = {
            .kind = ST_SYMBOL_SIZE, .id = i, .name = at ? stator_string_at(v, at->name) : NULL};
        const int64_t lo = at ? at->lo : 0;
        const int64_t hi = at ? at->hi : INT64_MAX;
        const uint32_t sym =
            st_loop_symbol_add(unit->syms, &size, lo, hi, at && at->divisor > 0 ? at->divisor : 1);
        ST_TRY_MEM(sym, err);
        st_sym_set_hint(&unit->syms->tab, sym, at ? at->hint : INT64_MIN);
    }
    return STATOR_OK;
}

static uint32_t import_atom(cg_unit *unit, uint32_t atom)
{
    const stator_atom_row *at = stator_atom_at(unit->view, atom);
    if (at->kind == STATOR_ATOM_SYMBOL) {
        return unit->syms->symbols.data[at->index].sym;
    }
    const uint32_t a = cg_sym(unit, at->a);
    const uint32_t b = cg_sym(unit, at->b);
    return a && b ? st_sym_op(&unit->syms->tab, at->kind, a, b) : 0;
}

uint32_t cg_sym(cg_unit *unit, stator_ref graph_sym)
{
    const uint32_t known = st_map_get(&unit->sym_memo, graph_sym);
    if (known) {
        return known;
    }
    st_symtab *tab = &unit->syms->tab;
    const stator_sym_row *row = stator_sym_at(unit->view, graph_sym);
    uint32_t sum = st_sym_int(tab, row->constant);
    for (uint32_t i = 0; sum && i < row->term_count; i++) {
        const stator_term_row *term = stator_term_at(unit->view, row, i);
        const uint32_t coef = st_sym_int(tab, term->coef);
        const uint32_t atom = import_atom(unit, term->atom);
        const uint32_t part = coef && atom ? st_sym_mul(tab, coef, atom) : 0;
        sum = part ? st_sym_add(tab, sum, part) : 0;
    }
    if (sum && !st_map_put(&unit->sym_memo, graph_sym, sum)) {
        return 0;
    }
    return sum;
}

uint32_t cg_product(st_symtab *tab, const uint32_t *dims, uint32_t n)
{
    uint32_t count = st_sym_int(tab, 1);
    for (uint32_t a = 0; count && a < n; a++) {
        count = st_sym_mul(tab, count, dims[a]);
    }
    return count;
}

uint32_t cg_numel(cg_unit *unit, stator_ref value)
{
    const cg_value *v = &unit->values[value];
    return cg_product(&unit->syms->tab, v->dims, v->rank);
}

void cg_storage_order(const cg_value *value, uint32_t *out_axes)
{
    for (uint32_t a = 0; a < value->rank; a++) {
        out_axes[a] = value->order ? value->order[a] : a;
    }
}

bool cg_strides(cg_unit *unit, const cg_value *value, uint32_t *out_strides)
{
    uint32_t order[CG_RANK_MAX];
    uint32_t stride = st_sym_int(&unit->syms->tab, 1);
    cg_storage_order(value, order);
    for (uint32_t k = value->rank; stride && k-- > 0;) {
        out_strides[order[k]] = stride;
        stride = st_sym_mul(&unit->syms->tab, stride, value->dims[order[k]]);
    }
    return stride != 0;
}

bool cg_same_shape(const cg_value *a, const cg_value *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

bool cg_is_one(const cg_unit *unit, uint32_t sym)
{
    int64_t value = 0;
    return st_sym_const(&unit->syms->tab, sym, &value) && value == 1;
}

uint32_t cg_wide_axes(const cg_unit *unit, const uint32_t *dims, uint32_t n)
{
    uint32_t wide = 0;
    for (uint32_t a = 0; a < n; a++) {
        wide += !cg_is_one(unit, dims[a]);
    }
    return wide;
}

/* ---- reading a node ---- */

cg_node cg_node_of(cg_unit *unit, stator_ref node)
{
    const stator_node_row *row = stator_node_at(unit->view, node);
    return (cg_node){unit, node, row, &unit->values[row->result_begin]};
}

const stator_attr_row *cg_attr(const cg_node *node, uint32_t k)
{
    return stator_attr_at(node->unit->view, node->row, k);
}

uint32_t cg_attr_dim(const cg_node *node, uint32_t k, uint32_t i)
{
    const stator_graph_view *v = node->unit->view;
    return cg_sym(node->unit, stator_ref_at(v, cg_attr(node, k)->begin + i));
}

int64_t cg_attr_int_at(const cg_node *node, uint32_t k, uint32_t i)
{
    const stator_graph_view *v = node->unit->view;
    return stator_attr_int_at(v, cg_attr(node, k), i);
}

uint32_t cg_attr_axis_at(const cg_node *node, uint32_t k, uint32_t i, uint32_t rank)
{
    return (uint32_t)st_normalize_axis(cg_attr_int_at(node, k, i), rank);
}

const char *cg_attr_text(const cg_node *node, uint32_t k)
{
    const stator_attr_row *attr = cg_attr(node, k);
    return attr->kind == STATOR_ATTR_STRING ? stator_string_at(node->unit->view, attr->begin) : "";
}

bool cg_attr_is(const cg_node *node, uint32_t k, const char *text)
{
    return strcmp(cg_attr_text(node, k), text) == 0;
}

stator_ref cg_operand(const cg_node *node, uint32_t k)
{
    return stator_operand(node->unit->view, node->row, k);
}

stator_status cg_decline(cg_unit *unit, stator_ref node, const char *reason, stator_diag **err)
{
    cg_declined *at = st_vec_push(unit->mem, &unit->declined);
    ST_TRY_MEM(at, err);
    *at = (cg_declined){node, reason};
    return STATOR_OK;
}

const cg_value *cg_value_of(const cg_unit *unit, stator_ref value)
{
    return &unit->values[value];
}

/* ---- roots ---- */

bool cg_is_stored(const cg_unit *unit, uint32_t root_index)
{
    const cg_root *root = &unit->roots.data[root_index];
    if (root->n_readers == 0 ||
        unit->buffers.data[unit->values[root->value].buffer].kind == CG_BUFFER_OUTPUT) {
        return true;
    }
    for (uint32_t k = 0; k < root->n_readers; k++) {
        if (unit->roots.data[unit->readers[root->first_reader + k]].group != root->group) {
            return true;
        }
    }
    return false;
}
