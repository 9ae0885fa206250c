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
static stator_status write_body(const count_loop *l, stator_builder *b, stator_ref *map,
                                stator_diag **err)
{
    for (uint32_t k = 0; k < l->carried; k++) {
        ST_TRY(st_build_clone_input(b, l->body, k + 2u, map, err));
    }
    ST_TRY(st_build_clone_input(b, l->body, 1, map, err));
    for (uint32_t k = 0; k < l->captured; k++) {
        ST_TRY(st_build_clone_input(b, l->body, l->carried + k + 2u, map, err));
    }
    if (l->v->n_nodes) {
        ST_TRY(st_build_clone(b, l->body, 1, l->v->n_nodes, map, err));
    }
    for (uint32_t k = 1; k < l->v->n_outputs; k++) {
        const char *name = stator_string_at(l->v, stator_ref_at(l->v, l->v->output_name_begin + k));
        ST_TRY(st_build_output(b, name, map[stator_output_at(l->v, k)], err));
    }
    return STATOR_OK;
}

static stator_status make_body(st_match *m, const count_loop *l, stator_graph **out,
                               stator_diag **err)
{
    stator_builder *b = NULL;
    st_mem *mem = m->copy->ctx->mem;
    stator_ref *map = st_calloc(mem, (uint64_t)l->v->n_values + 1u, sizeof *map);
    ST_TRY_MEM(map, err);
    stator_status status =
        st_build_region_begin(m->b, st_module_str(l->body->module, l->body->name), &b, err);
    if (status == STATOR_OK) {
        status = write_body(l, b, map, err);
        if (status == STATOR_OK) {
            status = st_build_region_end(b, out, err);
        } else {
            st_build_region_abort(b);
        }
    }
    st_free(mem, map);
    return status;
}

static stator_status build(st_match *m, const count_loop *l, stator_diag **err)
{
    stator_ref operands[OPERANDS_MAX];
    stator_graph *region = NULL;
    const stator_attr shape = {
        .name = "shape", .kind = STATOR_ATTR_DIMS, .count = 1, .list = &l->length};
    const stator_attr attrs[3] = {{.name = "carried", .kind = STATOR_ATTR_INT, .i = l->carried},
                                  {.name = "scanned", .kind = STATOR_ATTR_INT, .i = 1},
                                  {.name = "stacked", .kind = STATOR_ATTR_INT, .i = l->stacked}};
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = STATOR_OPCODE_scan,
                                   .operands = operands,
                                   .operand_count = l->carried + 1u + l->captured,
                                   .attrs = attrs,
                                   .attr_count = 3,
                                   .regions = &region,
                                   .region_count = 1};
    memcpy(operands, m->operands + 2, l->carried * sizeof *operands);
    memcpy(operands + l->carried + 1, m->operands + 2 + l->carried, l->captured * sizeof *operands);
    ST_TRY(st_build_op(m->b, "iota", 0, NULL, 1, &shape, 1, &operands[l->carried], err));
    ST_TRY(make_body(m, l, &region, err));
    return st_build_node(m->b, &desc, m->out, err);
}

/* A loop that no scan can be (a carried value that changes its size) stays one. */
bool st_rule_count_loop(st_match *m, stator_status *out_status, stator_diag **err)
{
    count_loop l;
    stator_diag *inner = NULL;
    if (!find(m, &l)) {
        return false;
    }
    const stator_status status = build(m, &l, &inner);
    st_diag_release(inner);
    if (status != STATOR_OK) {
        *out_status = status == STATOR_RESOURCE_EXHAUSTED ? st_fail_oom(err) : STATOR_OK;
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
