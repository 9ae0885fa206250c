/* The rule count_loop: a `while` that nothing ends but its number of trips is a scan over
 * 0, 1, 2, ...
 *
 *     while(n, true, ..) { (i, ..) -> (true, ..) }
 *         ->  scan(.., iota n, ..) { (.., i, ..) -> .. }
 *
 * n is known when the graph is compiled, as a number or by sizes. */
#include "ir/passes/rewrite_rules.h"

#include <stator/ops.h>
#include <string.h>

#define RESULTS_MAX ST_RULE_RESULTS
#define OPERANDS_MAX 256u

typedef struct count_loop {
    const stator_graph *body;
    const stator_graph_view *v; /* view of the body */
    uint32_t carried, stacked, captured;
    stator_ref length;
} count_loop;

/* Does the region say "again" at each step, and has it the results of the node? */
static bool goes_on(const count_loop *l)
{
    double again = 0;
    return l->v->n_outputs == 1u + l->carried + l->stacked &&
           l->v->n_inputs == 1u + l->carried + l->captured &&
           st_value_is_splat(l->body, stator_output_at(l->v, 0), &again) && again != 0;
}

static bool find(st_match *m, count_loop *l)
{
    double pred = 0;
    *l = (count_loop){.body = stator_region_at(m->copy->v, m->row, 0)};
    l->v = st_graph_view(l->body);
    l->carried = (uint32_t)stator_attr_at(m->copy->v, m->row, STATOR_while_carried)->i;
    l->stacked = (uint32_t)stator_attr_at(m->copy->v, m->row, STATOR_while_stacked)->i;
    l->captured = m->row->operand_count - 2u - l->carried;
    return m->row->result_count > 0 && m->row->result_count <= RESULTS_MAX &&
           m->row->operand_count <= OPERANDS_MAX && m->operands[0] && m->operands[1] &&
           goes_on(l) && st_value_is_splat(m->b->graph, m->operands[1], &pred) && pred != 0 &&
           st_build_known_ints(m->b, m->operands[0], 1, &l->length) &&
           st_sym_le(&m->b->module->symtab, st_sym_int(&m->b->module->symtab, 0), l->length) == 1;
}

/* The region of the scan: carried, the number of the step, captures. */
static void write_body(const count_loop *l, stator_emitter *e, stator_ref *map)
{
    for (uint32_t k = 0; k <= l->carried; k++) {
        const stator_ref input = k < l->carried ? k + 2u : 1u;
        ST_THEN(e->status, st_build_clone_input(e->b, l->body, input, map, e->err));
    }
    for (uint32_t k = 0; k < l->captured; k++) {
        const stator_ref input = l->carried + k + 2u;
        ST_THEN(e->status, st_build_clone_input(e->b, l->body, input, map, e->err));
    }
    stator_emit_clone(e, l->body, 1, l->v->n_nodes, map);
    for (uint32_t k = 1; k < l->v->n_outputs && e->status == STATOR_OK; k++) {
        const char *name = stator_string_at(l->v, stator_ref_at(l->v, l->v->output_name_begin + k));
        stator_emit_output(e, name, map[stator_output_at(l->v, k)]);
    }
}

static void build(st_match *m, const count_loop *l)
{
    stator_ref operands[OPERANDS_MAX];
    stator_ref *map = st_copy_zalloc(m->copy, l->v->n_values, sizeof *map);
    memcpy(operands, m->operands + 2, l->carried * sizeof *operands);
    memcpy(operands + l->carried + 1, m->operands + 2 + l->carried, l->captured * sizeof *operands);
    operands[l->carried] =
        stator_emit_op(m->e, "iota", STATOR_NONE, STATOR_AT(STATOR_A_DIMS("shape", 1, &l->length)));
    stator_builder *around =
        stator_emit_region_begin(m->e, st_module_str(l->body->module, l->body->name));
    write_body(l, m->e, map);
    stator_graph *region = stator_emit_region_end(m->e, around);
    stator_emit_node(m->e, "scan", l->carried + 1u + l->captured, operands,
                     STATOR_AT(STATOR_A_INT("carried", l->carried), STATOR_A_INT("scanned", 1),
                               STATOR_A_INT("stacked", l->stacked)),
                     1, &region, m->row->result_count, m->out);
}

/* A loop that no scan can be (a carried value that changes its size) stays one. */
bool st_rule_count_loop(st_match *m)
{
    count_loop l;
    stator_diag **err = m->e->err, *inner = NULL;
    if (!find(m, &l)) {
        return false;
    }
    m->e->err = &inner;
    build(m, &l);
    const bool is_built = st_copy_is_ok(m->copy);
    m->e->err = err;
    st_copy_forgive(m->copy, inner);
    if (!is_built) {
        return false;
    }
    const stator_graph_view *v = st_graph_view(m->b->graph);
    for (uint32_t k = 0; k < m->row->result_count; k++) {
        if (stator_value_at(v, m->out[k])->type !=
            stator_value_at(m->copy->v, m->row->result_begin + k)->type) {
            return false;
        }
    }
    return true;
}
