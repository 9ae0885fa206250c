/* Ordering edges between nodes: producers of operands, and definers of run-time sizes.
 *
 * A size that only a node's result tells (an unbacked symbol) is no operand, yet a node that states
 * it in its attributes or result types cannot run before the definer. In: a graph in topological
 * order. Out: for each node the list of its producers, constants left out. */
#include "core/compile/partition_work.h"

#include "core/base/sym/sym.h"

#include <stator/ops.h>

typedef struct edges {
    st_part_work *w;
    stator_ref *definer; /* by symbol index: the first node that defines it, 0 none */
    uint32_t has_definers;
    stator_ref node; /* the node whose producers are listed */
    stator_status status;
} edges;

/* A size that is exactly one unbacked symbol is defined where it occurs first. */
static void define(edges *e, stator_ref sym, stator_ref node)
{
    const stator_atom_row *atom = stator_sym_as_symbol(e->w->v, sym);
    if (atom != NULL && (atom->flags & STATOR_ATOM_UNBACKED) != 0 && e->definer[atom->index] == 0) {
        e->definer[atom->index] = node;
        e->has_definers = 1;
    }
}

static void find_definers(edges *e)
{
    const stator_graph_view *v = e->w->v;
    for (stator_ref n = 1; n <= v->n_nodes; n++) {
        const stator_node_row *row = stator_node_at(v, n);
        for (uint32_t k = 0; k < row->result_count; k++) {
            const stator_type_row *type = stator_value_type(v, row->result_begin + k);
            for (uint32_t axis = 0; axis < type->rank; axis++) {
                define(e, stator_dim_at(v, type, axis), n);
            }
        }
        if (row->op == STATOR_OPCODE_sym_bind) {
            const stator_attr_row *syms = stator_attr_at(v, row, 0);
            for (uint32_t i = 0; i < syms->count; i++) {
                define(e, stator_ref_at(v, syms->begin + i), n);
            }
        }
    }
}

static void add_producer(edges *e, stator_ref producer)
{
    if (producer == 0 || producer == e->node || st_part_is_constant(e->w, producer)) {
        return;
    }
    stator_ref *slot = st_vec_push(e->w->mem, &e->w->producers);
    if (slot == NULL) {
        e->status = STATOR_RESOURCE_EXHAUSTED;
    } else {
        *slot = producer;
    }
}

/* The definers of a size's symbols; those of later nodes are the region's own. */
static bool add_definer(const void *self, const stator_atom_row *row, uint32_t atom)
{
    edges *const *e = self;
    (void)atom;
    if (row->kind == STATOR_ATOM_SYMBOL && (*e)->definer[row->index] < (*e)->node) {
        add_producer(*e, (*e)->definer[row->index]);
    }
    return false;
}

static void add_size(edges *e, stator_ref sym)
{
    const st_sym_cols cols = st_sym_view_columns(e->w->v);
    (void)st_sym_find_in(&cols, sym, add_definer, &e);
}

/* Sizes that a node states: its attributes', its results', and those inside its regions. */
static void add_sizes(edges *e, const stator_graph_view *v, const stator_node_row *row)
{
    for (uint32_t a = 0; a < row->attr_count; a++) {
        const stator_attr_row *attr = stator_attr_at(v, row, a);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            add_size(e, stator_ref_at(v, attr->begin + i));
        }
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            add_size(e, stator_dim_at(v, type, axis));
        }
    }
    for (uint32_t r = 0; r < row->region_count; r++) {
        const stator_graph_view *body = st_graph_view(stator_region_at(v, row, r));
        for (stator_ref n = 1; n <= body->n_nodes; n++) {
            add_sizes(e, body, stator_node_at(body, n));
        }
    }
}

stator_status st_part_edges(st_part_work *w, stator_diag **err)
{
    edges e = {.w = w};
    const stator_graph_view *v = w->v;
    w->producer_begin = st_calloc(w->mem, v->n_nodes + UINT64_C(2), sizeof *w->producer_begin);
    e.definer = st_calloc(w->mem, v->n_symbols + UINT64_C(1), sizeof *e.definer);
    if (w->producer_begin == NULL || e.definer == NULL) {
        st_free(w->mem, e.definer);
        return st_fail_oom(err);
    }
    find_definers(&e);
    for (e.node = 1; e.node <= v->n_nodes && e.status == STATOR_OK; e.node++) {
        const stator_node_row *row = stator_node_at(v, e.node);
        w->producer_begin[e.node] = w->producers.count;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            add_producer(&e, operand != 0 ? stator_value_at(v, operand)->node : 0);
        }
        if (e.has_definers) {
            add_sizes(&e, v, row);
        }
    }
    w->producer_begin[v->n_nodes + 1u] = w->producers.count;
    st_free(w->mem, e.definer);
    return e.status == STATOR_OK ? STATOR_OK : st_fail_oom(err);
}
