/* The rule scan_axes: a scan cuts its operands and stacks its results along their first axes.
 *
 *     scan(x) {axes = [1], out_axes = [1]}  ->  t = transpose(x), with that axis in front
 *                                               y = transpose(scan(t))
 *
 * A slice along a first axis lies in one piece, so that backends take it where it lies. */
#include "ir/passes/rewrite_rules.h"

#include "core/base/check.h"

#include <stator/ops.h>

#define OPERANDS_MAX 256u

/* Entry i of a list of axes, from the front; 0 where the list is empty. */
static uint32_t axis_at(const st_match *m, uint32_t place, uint32_t i, uint32_t rank)
{
    return (uint32_t)st_normalize_axis(st_node_int_at(m->v, m->row, place, i), rank);
}

/* x with the axis in front, or (is_back) with the first axis there. */
static stator_ref move_axis(const st_match *m, stator_ref x, uint32_t axis, bool is_back)
{
    int64_t perm[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_rank(m->e, x);
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t from = i == 0 ? axis : i - (i <= axis);
        const uint32_t back = i == axis ? 0 : i + (i < axis);
        perm[i] = is_back ? back : from;
    }
    return stator_emit_transpose(m->e, x, rank, perm);
}

static uint32_t list_of(const st_match *m, uint32_t place, int64_t *out)
{
    const stator_attr_row *list = stator_attr_at(m->v, m->row, place);
    for (uint32_t i = 0; i < list->count; i++) {
        out[i] = stator_attr_int_at(m->v, list, i);
    }
    return list->count;
}

/* The scan along first axes; its results stand in m->out. */
static void build(st_match *m, uint32_t carried, uint32_t scanned, const stator_ref *operands)
{
    int64_t reverse[OPERANDS_MAX], out_reverse[OPERANDS_MAX];
    stator_graph *region =
        (stator_graph *)(uintptr_t)stator_region_at(m->copy->v, m->row, 0); /* shared */
    const uint32_t n = list_of(m, STATOR_scan_reverse, reverse);
    const uint32_t n_out = list_of(m, STATOR_scan_out_reverse, out_reverse);
    stator_emit_node(m->e, "scan", m->row->operand_count, operands,
                     STATOR_AT(STATOR_A_INT("carried", carried), STATOR_A_INT("scanned", scanned),
                               STATOR_A_INT("stacked", m->row->result_count - carried),
                               STATOR_A_INTS("reverse", n, reverse),
                               STATOR_A_INTS("out_reverse", n_out, out_reverse)),
                     1, &region, m->row->result_count, m->out);
}

bool st_rule_scan_axes(st_match *m)
{
    stator_ref operands[OPERANDS_MAX];
    const uint32_t carried = (uint32_t)stator_attr_at(m->v, m->row, STATOR_scan_carried)->i;
    const uint32_t scanned = (uint32_t)stator_attr_at(m->v, m->row, STATOR_scan_scanned)->i;
    uint32_t moved = 0;
    if (m->row->operand_count > OPERANDS_MAX || m->row->result_count > ST_RULE_RESULTS) {
        return false;
    }
    for (uint32_t k = 0; k < m->row->operand_count; k++) {
        const bool is_cut = k >= carried && k < carried + scanned;
        const uint32_t rank = stator_emit_rank(m->e, m->operands[k]);
        const uint32_t axis = is_cut ? axis_at(m, STATOR_scan_axes, k - carried, rank) : 0;
        operands[k] = axis ? move_axis(m, m->operands[k], axis, false) : m->operands[k];
        moved += axis != 0;
    }
    uint32_t axes[ST_RULE_RESULTS] = {0};
    for (uint32_t k = carried; k < m->row->result_count; k++) {
        const stator_type_row *type = stator_value_type(m->copy->v, m->row->result_begin + k);
        axes[k] = axis_at(m, STATOR_scan_out_axes, k - carried, type->rank);
        moved += axes[k] != 0;
    }
    if (moved == 0) {
        return false;
    }
    build(m, carried, scanned, operands);
    for (uint32_t k = carried; k < m->row->result_count; k++) {
        m->out[k] = axes[k] ? move_axis(m, m->out[k], axes[k], true) : m->out[k];
    }
    return true;
}
