/* Where the running statistics of a normalisation come from.
 *
 * In: a value of the model. Out: the parameter that it holds, where only reshape, transpose and
 * casts of floats stand between the two, and the way through them in both directions; and of other
 * values, what they are computed from. Inputs of a region are the last operands of its node, in
 * order. */
#include "core/train/statistic_source.h"

#include "core/base/check.h"
#include "core/base/str.h"
#include "ir/optable.h"

#include <stator/ops.h>
#include <stdio.h>

/* ---- what the table says ---- */

const char *st_statistic_name(const st_op_def *def, uint32_t k, char name[48])
{
    uint32_t len = 0;
    char mark = 0;
    const char *text =
        def != NULL && def->statistics != NULL ? st_list_name(def->operands, k, &len, &mark) : NULL;
    (void)snprintf(name, 48, "%.*s", text != NULL ? (int)len : 0, text != NULL ? text : "");
    return text != NULL && st_list_has(def->statistics, name) ? name : NULL;
}

stator_ref st_statistic_result(const stator_node_row *row, const st_op_def *def, const char *name)
{
    char wanted[56];
    const int len = snprintf(wanted, sizeof wanted, "new_%s", name);
    const uint32_t k = st_list_place(def->results, wanted, (uint32_t)len);
    return k < row->result_count ? row->result_begin + k : 0;
}

stator_ref st_statistic_of(const st_module *m, const stator_graph_view *v,
                           const stator_node_row *row, stator_ref result)
{
    const st_op_def *def = st_optable_at(m->ops, row->op)->def;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        char name[48];
        if (st_statistic_name(def, k, name) != NULL &&
            st_statistic_result(row, def, name) == result) {
            return stator_operand(v, row, k);
        }
    }
    return 0;
}

/* ---- ops that lose nothing ---- */

static bool is_float(const stator_graph_view *v, stator_ref value)
{
    return st_dtype_class(stator_value_type(v, value)->dtype) == STATOR_CLASS_FLOAT;
}

/* Elements stay as they are, all of them, or are rounded: other views drop or repeat some, and a
 * cast to whole numbers drops fractions. */
static bool loses_nothing(const stator_graph_view *v, const stator_node_row *row)
{
    return row->op == STATOR_OPCODE_reshape || row->op == STATOR_OPCODE_transpose ||
           (row->op == STATOR_OPCODE_cast && is_float(v, stator_operand(v, row, 0)) &&
            is_float(v, row->result_begin));
}

static const stator_node_row *maker_of(const stator_graph_view *v, stator_ref value)
{
    return stator_node_at(v, stator_value_at(v, value)->node);
}

/* The operand of the node around that an input of the region is; 0: none is. */
static stator_ref outer_value(const st_scope *at, stator_ref input)
{
    const uint32_t place = input - 1u + at->node->operand_count - at->v->n_inputs;
    return place < at->node->operand_count ? stator_operand(at->outer->v, at->node, place) : 0;
}

stator_ref st_scope_parameter(const st_scope *at, stator_ref value)
{
    while (value != 0 && (value > at->v->n_inputs || at->outer != NULL)) {
        if (value <= at->v->n_inputs) {
            value = outer_value(at, value);
            at = at->outer;
        } else {
            const stator_node_row *row = maker_of(at->v, value);
            value = loses_nothing(at->v, row) ? stator_operand(at->v, row, 0) : 0;
        }
    }
    return value != 0 && (stator_value_at(at->v, value)->flags & STATOR_VALUE_PARAM) != 0 ? value
                                                                                          : 0;
}

static stator_ref as_type_of(st_train_step *s, stator_ref value, stator_ref now)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_type_row *type = stator_value_type(s->v, value);
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        dims[axis] = stator_dim_at(s->v, type, axis);
    }
    return stator_emit_reshape(&s->e, now, type->rank, dims);
}

/* The transpose that the node is, or its inverse. */
static stator_ref transposed(st_train_step *s, const stator_node_row *row, stator_ref now,
                             bool is_inverse)
{
    int64_t perm[STATOR_RANK_MAX];
    const stator_ref node = stator_value_at(s->v, row->result_begin)->node;
    const stator_attr_row *attr = st_graph_attr(s->from, node, "perm");
    const uint32_t rank = stator_value_type(s->v, row->result_begin)->rank;
    for (uint32_t axis = 0; axis < rank; axis++) {
        const int64_t from = stator_attr_int_at(s->v, attr, axis);
        perm[is_inverse ? from : axis] = is_inverse ? axis : from;
    }
    return stator_emit_transpose(&s->e, now, rank, perm);
}

/* What the node makes of `now`, or what it would have made that of. Casts wait for the end: one of
 * the whole way rounds once. */
static stator_ref show(st_train_step *s, const stator_node_row *row, stator_ref now,
                       bool is_inverse)
{
    const stator_ref as = is_inverse ? stator_operand(s->v, row, 0) : row->result_begin;
    return row->op == STATOR_OPCODE_reshape     ? as_type_of(s, as, now)
           : row->op == STATOR_OPCODE_transpose ? transposed(s, row, now, is_inverse)
                                                : now;
}

stator_ref st_step_shown(st_train_step *s, stator_ref value, stator_ref now)
{
    uint32_t n = 0;
    for (stator_ref at = value; at > s->v->n_inputs; n++) {
        at = stator_operand(s->v, maker_of(s->v, at), 0);
    }
    const stator_node_row **way = st_arena_zalloc(&s->arena, n + UINT64_C(1), sizeof *way);
    if (!stator_emit_check(&s->e, way != NULL ? STATOR_OK : st_fail_oom(s->e.err))) {
        return 0;
    }
    stator_ref at = value;
    for (uint32_t k = n; k-- > 0;) {
        way[k] = maker_of(s->v, at);
        at = stator_operand(s->v, way[k], 0);
    }
    for (uint32_t k = 0; s->e.status == STATOR_OK && k < n; k++) {
        now = show(s, way[k], now, false);
    }
    return stator_emit_cast(&s->e, now, stator_value_type(s->v, value)->dtype);
}

stator_ref st_step_unshown(st_train_step *s, stator_ref value, stator_ref now)
{
    while (s->e.status == STATOR_OK && value > s->v->n_inputs) {
        const stator_node_row *row = maker_of(s->v, value);
        value = stator_operand(s->v, row, 0);
        now = show(s, row, now, true);
    }
    return stator_emit_cast(&s->e, now, stator_value_type(s->v, value)->dtype);
}

/* ---- what values are computed from ---- */

/* An input of the model's own graph, or of a region. */
static st_source source_of_input(const st_train_step *s, const st_scope *at, stator_ref input)
{
    if (at->outer != NULL) {
        const stator_ref outer = outer_value(at, input);
        return outer != 0 ? at->outer->made[outer] : (st_source){.parameter = 0};
    }
    const uint32_t flags = stator_value_at(at->v, input)->flags;
    const bool is_kept = (flags & STATOR_VALUE_WRITTEN) != 0 ||
                         st_step_matches(s->options.freeze, st_step_value_name(s, input));
    const bool is_param = (flags & STATOR_VALUE_PARAM) != 0;
    return is_float(at->v, input)
               ? (st_source){.parameter = is_param && !is_kept ? input : 0, .has_data = !is_param}
               : (st_source){.parameter = 0};
}

static void add_source(st_source *to, const st_source *from)
{
    if (to->parameter == 0) {
        to->parameter = from->parameter;
        to->op = from->op;
    }
    to->has_data |= from->has_data;
}

/* A node computes with its operands of the highest rank: whole numbers beside floats only
 * choose, as an index does, and bools beside either. */
static uint32_t rank_of(stator_dtype dtype)
{
    const uint32_t class = st_dtype_class(dtype);
    return class == STATOR_CLASS_BOOL ? 1 : class >= STATOR_CLASS_FLOAT ? 3 : 2;
}

/* The least rank of an operand that results are computed from. What a region computes with, its
 * node does not say. */
static uint32_t least_rank(const stator_graph_view *v, const stator_node_row *row)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        const uint32_t rank = operand != 0 ? rank_of(stator_value_type(v, operand)->dtype) : 0;
        most = rank > most ? rank : most;
    }
    return row->region_count != 0 && most > 2 ? 2 : most;
}

/* Of a node's results: what its operands are. What becomes of running statistics is computed from
 * these, and from data. */
static void trace_results(const st_train_step *s, const st_scope *at, st_source *made,
                          const stator_node_row *row)
{
    st_source all = {.parameter = 0};
    const uint32_t least = least_rank(at->v, row);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(at->v, row, k);
        if (operand != 0 && rank_of(stator_value_type(at->v, operand)->dtype) >= least) {
            add_source(&all, &made[operand]);
        }
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_ref result = row->result_begin + k;
        const stator_ref statistic = st_statistic_of(s->module, at->v, row, result);
        made[result] = statistic != 0 ? made[statistic] : all;
        made[result].has_data = all.has_data;
        if (made[result].op == NULL && !loses_nothing(at->v, row)) {
            made[result].op = stator_op_at(at->v, row->op)->name;
        }
    }
}

stator_status st_scope_trace(st_train_step *s, st_scope *at, stator_diag **err)
{
    st_source *made = st_arena_zalloc(&s->arena, at->v->n_values + UINT64_C(1), sizeof *made);
    ST_TRY_MEM(made, err);
    for (stator_ref input = 1; input <= at->v->n_inputs; input++) {
        made[input] = source_of_input(s, at, input);
    }
    for (stator_ref node = 1; node <= at->v->n_nodes; node++) {
        trace_results(s, at, made, stator_node_at(at->v, node));
    }
    at->made = made;
    return STATOR_OK;
}
