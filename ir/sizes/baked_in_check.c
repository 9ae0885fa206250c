/* Refusals: values whose baked-in sizes cannot be told from numbers, or that follow them in part
 * alone; see baked_in.h. */
#include "core/base/check.h"
#include "ir/sizes/baked_in_parts.h"

#include <math.h>
#include <stator/ops.h>

#define STEPS_MAX 64u

/* ---- means ---- */

/* Does the node sum over an axis that was `size` long and is a symbol's? */
static bool sums_over(st_baked_in *s, const stator_graph_view *v, const stator_node_row *row,
                      double size)
{
    const stator_type_row *x = stator_value_type(v, stator_operand(v, row, 0));
    const stator_attr_row *over = stator_attr_at(v, row, STATOR_reduce_sum_axes);
    for (uint32_t k = 0; k < over->count; k++) {
        const int64_t axis = stator_attr_int_at(v, over, k);
        const stator_ref dim = stator_dim_at(v, x, (uint32_t)st_normalize_axis(axis, x->rank));
        int64_t was;
        if (!st_baked_in_is_number(s, dim) && st_baked_in_size(s, dim, &was) && was > 1 &&
            (double)was == size) {
            return true;
        }
    }
    return false;
}

/* The same of the sum behind a value's casts and reshapes. */
static bool is_sum_over(st_baked_in *s, const stator_graph_view *v, stator_ref value, double size)
{
    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        const stator_ref node = value != 0 ? stator_value_at(v, value)->node : 0;
        const stator_node_row *row = node != 0 ? stator_node_at(v, node) : NULL;
        const uint32_t op = row != NULL ? row->op : STATOR_OPCODE_none;
        if (op == STATOR_OPCODE_reduce_sum) {
            return sums_over(s, v, row, size);
        }
        if (op != STATOR_OPCODE_cast && op != STATOR_OPCODE_reshape) {
            return false;
        }
        value = stator_operand(v, row, 0);
    }
    return false;
}

stator_status st_baked_in_check_mean(st_baked_in *s, const stator_builder *b,
                                     const stator_node_desc *desc, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(b->graph);
    const bool is_div = desc->op == STATOR_OPCODE_div;
    double number;
    for (uint32_t k = is_div ? 1 : 0; k < 2 && desc->operand_count == 2; k++) {
        if ((!is_div && desc->op != STATOR_OPCODE_mul) ||
            !st_value_is_splat(b->graph, desc->operands[k], &number) || number == 0) {
            continue;
        }
        const double size = is_div ? number : round(1 / number);
        if ((is_div || fabs(number * size - 1) < 1e-6) &&
            is_sum_over(s, v, desc->operands[1u - k], size)) {
            return st_fail(err, STATOR_FAILED_PRECONDITION,
                           "%s: a sum over an axis of %g, which is to become another size, is "
                           "divided by that number",
                           stator_op_at(v, desc->op)->name, size);
        }
    }
    return STATOR_OK;
}

/* ---- readers ---- */

/* Marks what the graph's outputs and effects need. */
static void mark_needed(const stator_graph_view *v, uint8_t *is_needed)
{
    for (stator_ref node = v->n_nodes; node > 0; node--) {
        const stator_node_row *row = stator_node_at(v, node);
        int is_read = (stator_op_at(v, row->op)->flags & STATOR_OP_EFFECT) != 0;
        for (uint32_t k = 0; k < row->result_count; k++) {
            is_read |= is_needed[row->result_begin + k];
        }
        for (uint32_t k = 0; is_read && k < row->operand_count; k++) {
            is_needed[stator_operand(v, row, k)] = 1;
        }
    }
}

/* The values of one graph that were built again: are they needed as they were, too? */
static stator_status check_graph(const st_baked_in *s, const stator_graph *g, uint8_t *is_needed,
                                 stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(g);
    for (uint32_t i = 0; i < g->write_backs.count; i++) {
        is_needed[((const stator_write_back_row *)st_seg_at(&g->write_backs, i))->value] = 1;
    }
    mark_needed(v, is_needed);
    for (uint32_t i = 0; i < s->values.count; i++) {
        const st_baked_in_value *value = &s->values.data[i];
        if (value->graph == g && value->again != 0 && value->value < g->values.count &&
            is_needed[value->value] && st_graph_value_blob(g, value->value) == NULL) {
            const stator_value_row *row = stator_value_at(v, value->value);
            return st_fail(err, STATOR_FAILED_PRECONDITION,
                           "value '%s' has to follow another size for one of its readers, and not "
                           "for another",
                           st_module_str(s->m, row->name));
        }
    }
    return STATOR_OK;
}

stator_status st_baked_in_check(st_baked_in *s, const stator_builder *b, stator_diag **err)
{
    for (const stator_graph *g = s->m->graphs; g != NULL && s->values.count != 0; g = g->next) {
        const bool is_open = g == b->graph;
        uint8_t *is_needed = st_calloc(s->m->mem, g->values.count + UINT64_C(1), 1);
        ST_TRY_MEM(is_needed, err);
        for (uint32_t k = 0; k < (is_open          ? b->n_outputs
                                  : g->is_finished ? g->n_outputs
                                                   : 0);
             k++) {
            is_needed[is_open ? b->outputs[k] : stator_output_at(st_graph_view(g), k)] = 1;
        }
        const stator_status status = check_graph(s, g, is_needed, err);
        st_free(s->m->mem, is_needed);
        ST_TRY(status);
    }
    return STATOR_OK;
}
