/* Symbols and liveness: which symbols a graph binds itself, and which of its nodes have to run.
 *
 * In: a graph and the symbols known around it. Out: known and fresh symbols, live nodes. A node is
 * live when something live reads it, when it has an effect, or when its result binds a symbol. */
#include "plugins/eager/eager_compile.h"

/* ---- symbols ---- */

/* Marks a symbol in a set by symbol. */
static bool mark_symbol(const void *self, const stator_atom_row *row, uint32_t atom)
{
    uint8_t *const *set = self;
    (void)atom;
    if (row->kind == STATOR_ATOM_SYMBOL) {
        (*set)[row->index] = 1;
    }
    return false;
}

/* The symbol when the sym is exactly one. */
bool eager_lone_symbol(const stator_graph_view *v, stator_ref sym, uint32_t *out_index)
{
    const stator_atom_row *atom = stator_sym_as_symbol(v, sym);
    *out_index = atom != NULL ? atom->index : 0;
    return atom != NULL;
}

void eager_mark_type(const stator_graph_view *v, const stator_type_row *type, uint8_t *set)
{
    const st_sym_cols cols = st_sym_view_columns(v);
    for (uint32_t a = 0; a < type->rank; a++) {
        (void)st_sym_find_in(&cols, stator_dim_at(v, type, a), mark_symbol, &set);
    }
}

/* Keeps range and divisor of a symbol that is about to be bound. */
static void note_symbol(eager_graph_state *g, stator_ref sym)
{
    const stator_atom_row *atom = stator_sym_as_symbol(g->v, sym);
    if (atom != NULL) {
        g->c->exe->syms[atom->index] =
            (eager_sym){atom->lo, atom->hi, atom->divisor > 0 ? atom->divisor : 1};
    }
}

/* ---- which nodes run ---- */

bool eager_is_unbacked(const stator_graph_view *v, stator_ref sym)
{
    const stator_atom_row *atom = stator_sym_as_symbol(v, sym);
    return atom != NULL && (atom->flags & STATOR_ATOM_UNBACKED) != 0;
}

/* Symbols that a node's results bind; 1 when there are any. */
static bool mark_fresh(eager_graph_state *g, const stator_node_row *node)
{
    bool any = false;
    for (uint32_t r = 0; r < node->result_count; r++) {
        const stator_type_row *type = stator_value_type(g->v, node->result_begin + r);
        for (uint32_t a = 0; a < type->rank; a++) {
            const stator_ref dim = stator_dim_at(g->v, type, a);
            uint32_t index;
            if (eager_is_unbacked(g->v, dim) && eager_lone_symbol(g->v, dim, &index) &&
                !g->known[index] && !g->fresh[index]) {
                g->fresh[index] = 1;
                note_symbol(g, dim);
                any = true;
            }
        }
    }
    return any;
}

static bool mark_sym_bind(eager_graph_state *g, const stator_node_row *node)
{
    const stator_attr_row *attr = stator_attr_at(g->v, node, STATOR_sym_bind_syms);
    for (uint32_t i = 0; i < attr->count; i++) {
        const stator_ref sym = stator_ref_at(g->v, attr->begin + i);
        uint32_t index;
        if (eager_lone_symbol(g->v, sym, &index) && !g->known[index]) {
            g->fresh[index] = 1;
            note_symbol(g, sym);
        }
    }
    return true;
}

static void mark_value(eager_graph_state *g, stator_ref value)
{
    if (value) {
        g->is_live[stator_value_at(g->v, value)->node] = 1;
    }
}

void eager_find_live(eager_graph_state *g)
{
    const stator_graph_view *v = g->v;
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        const stator_node_row *node = stator_node_at(v, n);
        const eager_row *row = &eager_rows[g->c->inst->row_of_op[node->op]];
        bool binds = mark_fresh(g, node);
        if (row->step_kind == EAGER_STEP_SYM_BIND) {
            binds |= mark_sym_bind(g, node);
        }
        g->is_live[n] = binds || stator_node_has_effect(v, node, g->c->host->ir->view);
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        mark_value(g, stator_output_at(v, k));
    }
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        mark_value(g, stator_write_back_at(v, k)->value);
    }
    for (uint32_t n = v->n_nodes; n > 0; n--) {
        const stator_node_row *node = stator_node_at(v, n);
        for (uint32_t k = 0; g->is_live[n] && k < node->operand_count; k++) {
            mark_value(g, stator_operand(v, node, k));
        }
    }
}

/* Symbols of the inputs' types: those that the frame around does not know are bound from the actual
 * shapes when the frame starts. */
void eager_input_symbols(eager_graph_state *g, uint8_t *known_inside)
{
    const stator_graph_view *v = g->v;
    for (uint32_t i = 1; i <= v->n_inputs; i++) {
        const stator_type_row *type = stator_value_type(v, i);
        for (uint32_t a = 0; a < type->rank; a++) {
            const stator_ref dim = stator_dim_at(v, type, a);
            uint32_t index;
            if (eager_lone_symbol(v, dim, &index) && !known_inside[index]) {
                known_inside[index] = 2;
                note_symbol(g, dim);
            }
        }
    }
}
