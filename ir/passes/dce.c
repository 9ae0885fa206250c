/* Nodes that nobody needs are dropped.
 *
 *     a = exp(x)  b = neg(x)  return b    ->    b = neg(x)  return b
 *
 * In: any graph. Out: the nodes that an output, a write-back or an EFFECT node needs, in the same
 * order; inputs stay. A node is also needed when it defines an unbacked symbol that a needed node
 * reads in its attributes or result types, or when an EFFECT stands in one of its regions. One
 * backward sweep. */
#include "ir/passes/pass_copy.h"

typedef struct sweeper {
    st_copy *copy;
    uint8_t *value_live; /* in-values */
    uint8_t *node_live;
    uint8_t *symbol_live; /* by atom */
    uint32_t *definer;    /* by atom: the first node whose results hold the unbacked symbol */
    uint32_t n_atoms;
} sweeper;

/* ---- symbols ---- */

static void need_sym(sweeper *s, uint32_t sym);

static void need_atom(sweeper *s, uint32_t atom)
{
    if (atom >= s->n_atoms || s->symbol_live[atom]) {
        return;
    }
    s->symbol_live[atom] = 1;
    const stator_atom_row *row = st_atom_at(&s->copy->in->module->symtab, atom);
    if (row->kind != STATOR_ATOM_SYMBOL) {
        need_sym(s, row->a);
        need_sym(s, row->b);
    }
}

static void need_sym(sweeper *s, uint32_t sym)
{
    const st_symtab *tab = &s->copy->in->module->symtab;
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        need_atom(s, st_sym_term(tab, row, i)->atom);
    }
}

static void need_type(sweeper *s, const stator_graph_view *v, stator_ref type)
{
    const stator_type_row *row = stator_type_at(v, type);
    for (uint32_t i = 0; i < row->rank; i++) {
        need_sym(s, stator_dim_at(v, row, i));
    }
}

/* Everything that a node reads by symbol, its regions' nodes included. */
static void need_symbols(sweeper *s, const stator_graph_view *v, const stator_node_row *row)
{
    for (uint32_t k = 0; k < row->result_count; k++) {
        need_type(s, v, stator_value_at(v, row->result_begin + k)->type);
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, row, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            need_sym(s, stator_ref_at(v, attr->begin + i));
        }
    }
    for (uint32_t k = 0; k < row->region_count; k++) {
        const stator_graph_view *inner = st_graph_view(stator_region_at(v, row, k));
        for (stator_ref node = 1; node <= inner->n_nodes; node++) {
            need_symbols(s, inner, stator_node_at(inner, node));
        }
    }
}

static void find_definers(sweeper *s)
{
    const stator_graph_view *v = s->copy->v;
    const st_symtab *tab = &s->copy->in->module->symtab;
    for (stator_ref value = v->n_inputs + 1u; value <= v->n_values; value++) {
        const stator_value_row *row = stator_value_at(v, value);
        const stator_type_row *type = stator_type_at(v, row->type);
        for (uint32_t i = 0; i < type->rank; i++) {
            const uint32_t atom = st_sym_as_symbol(tab, stator_dim_at(v, type, i));
            if (atom != 0 && s->definer[atom] == 0) {
                s->definer[atom] = row->node;
            }
        }
    }
}

/* Does this node define a symbol that something later needs? */
static bool defines_needed(const sweeper *s, stator_ref node)
{
    const stator_graph_view *v = s->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        for (uint32_t i = 0; i < type->rank; i++) {
            const uint32_t atom =
                st_sym_as_symbol(&s->copy->in->module->symtab, stator_dim_at(v, type, i));
            const stator_atom_row *a =
                atom != 0 ? st_atom_at(&s->copy->in->module->symtab, atom) : NULL;
            if (a != NULL && (a->flags & STATOR_ATOM_UNBACKED) != 0 && s->definer[atom] == node &&
                s->symbol_live[atom]) {
                return true;
            }
        }
    }
    return false;
}

/* ---- nodes ---- */

static bool is_needed(const sweeper *s, stator_ref node)
{
    const stator_node_row *row = stator_node_at(s->copy->v, node);
    for (uint32_t k = 0; k < row->result_count; k++) {
        if (s->value_live[row->result_begin + k]) {
            return true;
        }
    }
    return stator_node_has_effect(s->copy->v, row, st_graph_view) || defines_needed(s, node);
}

static void mark(sweeper *s)
{
    const stator_graph_view *v = s->copy->v;
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        s->value_live[stator_output_at(v, k)] = 1;
    }
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        s->value_live[stator_write_back_at(v, k)->value] = 1;
    }
    for (stator_ref node = v->n_nodes; node > 0; node--) {
        if (!is_needed(s, node) && st_pass_may(s->copy->ctx, STATOR_FUEL_REWRITE, "dce", node)) {
            continue;
        }
        const stator_node_row *row = stator_node_at(v, node);
        s->node_live[node] = 1;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            s->value_live[stator_operand(v, row, k)] = 1;
        }
        need_symbols(s, v, row);
    }
}

static void visit(void *self, stator_ref node)
{
    const sweeper *s = self;
    if (s->node_live[node]) {
        st_copy_node(s->copy, node);
    } else {
        s->copy->changed = 1;
    }
}

void st_pass_dce(st_copy *c)
{
    const uint32_t n_atoms = c->in->module->symtab.atoms.count;
    sweeper s = {.copy = c,
                 .n_atoms = n_atoms,
                 .value_live = st_copy_zalloc(c, c->v->n_values, 1),
                 .node_live = st_copy_zalloc(c, c->v->n_nodes, 1),
                 .symbol_live = st_copy_zalloc(c, n_atoms, 1),
                 .definer = st_copy_zalloc(c, n_atoms, sizeof *s.definer)};
    if (st_copy_is_ok(c)) {
        find_definers(&s);
        mark(&s);
        st_copy_nodes(c, visit, &s);
    }
}
