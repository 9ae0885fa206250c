/* Every symbol of a program must be bound by a call.
 *
 * A symbol is bound where it alone is a size of an input, or of the result of an earlier node
 * (which has the shape that the node made), or where sym_bind reads it. A program that reads any
 * other can never run: an input of 2*N + 1 elements says nothing of N, since no call solves for it,
 * and a reshape to [M, 60] has no M.
 *
 * In: a verified graph. Out: OK, or the first reader of such a size. */
#include "ir/sizes/bound_symbols.h"

#include "ir/builder.h"

typedef struct bound_check {
    st_module *m;
    uint8_t *is_bound; /* by atom */
    stator_diag **err;
} bound_check;

static void bind(const bound_check *t, stator_ref sym)
{
    const uint32_t atom = st_sym_as_symbol(&t->m->symtab, sym);
    if (atom != 0) {
        t->is_bound[atom] = 1;
    }
}

static void bind_type(const bound_check *t, const stator_graph_view *v, stator_ref value)
{
    const stator_type_row *type = stator_value_type(v, value);
    for (uint32_t a = 0; a < type->rank; a++) {
        bind(t, stator_dim_at(v, type, a));
    }
}

static bool is_unbound(const void *self, const stator_atom_row *row, uint32_t atom)
{
    const bound_check *t = self;
    return row->kind == STATOR_ATOM_SYMBOL && !t->is_bound[atom] &&
           (row->flags & STATOR_ATOM_UNBACKED) == 0;
}

/* A backed symbol in the sym that nothing has bound (the verifier looks at the others), or 0. */
static uint32_t find_unbound(const bound_check *t, uint32_t sym)
{
    return st_sym_find_atom(&t->m->symtab, sym, is_unbound, t);
}

static const char *name_of(const bound_check *t, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(&t->m->symtab, atom);
    const char *name = st_module_str(t->m, row->name);
    return name[0] != '\0' ? name : "?";
}

static stator_status fail_input(const bound_check *t, const stator_graph_view *v, stator_ref value,
                                uint32_t atom)
{
    return st_fail(
        t->err, STATOR_INVALID_ARGUMENT,
        "input '%s' has a size that is computed of '%s', and no input has '%s' itself as "
        "a size: no call could bind it; let a symbol stand for the whole size",
        stator_string_at(v, stator_value_at(v, value)->name), name_of(t, atom), name_of(t, atom));
}

static stator_status fail_node(const bound_check *t, const stator_graph_view *v,
                               const stator_node_row *row, uint32_t k, uint32_t atom)
{
    const stator_op_desc *op = stator_op_at(v, row->op);
    const stator_status status = st_fail(
        t->err, STATOR_INVALID_ARGUMENT,
        "%s: attribute '%s' reads the size '%s', which is no size of an input by itself: no "
        "call could bind it; write a number, or a size of the inputs",
        op->name, op->attrs[k].name, name_of(t, atom));
    st_module_note_origin(t->m, row->origin, t->err);
    return status;
}

/* Attributes of a node read bound symbols only; an op with an effect binds them itself. */
static stator_status check_attrs(const bound_check *t, const stator_graph_view *v,
                                 const stator_node_row *row)
{
    const bool is_binding = (stator_op_at(v, row->op)->flags & STATOR_OP_EFFECT) != 0;
    for (uint32_t k = 0; k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, row, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            const stator_ref sym = stator_ref_at(v, attr->begin + i);
            const uint32_t atom = is_binding ? 0 : find_unbound(t, sym);
            if (atom != 0) {
                return fail_node(t, v, row, k, atom);
            }
            if (is_binding) {
                bind(t, sym);
            }
        }
    }
    return STATOR_OK;
}

static stator_status check_graph(const bound_check *t, const stator_graph *g);

static stator_status check_node(const bound_check *t, const stator_graph_view *v,
                                const stator_node_row *row)
{
    ST_TRY(check_attrs(t, v, row));
    for (uint32_t k = 0; k < row->region_count; k++) {
        ST_TRY(check_graph(t, stator_region_at(v, row, k)));
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        bind_type(t, v, row->result_begin + k);
    }
    return STATOR_OK;
}

static stator_status check_inputs(const bound_check *t, const stator_graph_view *v)
{
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        const stator_type_row *type = stator_value_type(v, value);
        for (uint32_t a = 0; a < type->rank; a++) {
            const uint32_t atom = find_unbound(t, stator_dim_at(v, type, a));
            if (atom != 0) {
                return fail_input(t, v, value, atom);
            }
        }
    }
    return STATOR_OK;
}

static stator_status check_graph(const bound_check *t, const stator_graph *g)
{
    const stator_graph_view *v = st_graph_view(g);
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        bind_type(t, v, value);
    }
    ST_TRY(check_inputs(t, v));
    for (uint32_t node = 1; node <= v->n_nodes; node++) {
        ST_TRY(check_node(t, v, stator_node_at(v, node)));
    }
    return STATOR_OK;
}

stator_status st_check_symbols_bound(const stator_graph *root, stator_diag **err)
{
    st_module *m = root->module;
    if (st_graph_view(root)->n_symbols == 0) {
        return STATOR_OK;
    }
    const bound_check t = {
        .m = m, .is_bound = st_calloc(m->mem, m->symtab.atoms.count + 1u, 1), .err = err};
    ST_TRY_MEM(t.is_bound, err);
    const stator_status status = check_graph(&t, root);
    st_free(m->mem, t.is_bound);
    return status;
}
