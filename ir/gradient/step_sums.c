/* Sums over the steps of a loop that are formed behind it.
 *
 *     sum over t of dot(a[t], b[t])   ->   dot of the stacked a and b, which folds t too
 *
 * A weight that every step multiplies with has the sum of the steps' gradients as its gradient, and
 * each of those is a product that folds the step's rows: a long one behind the loop runs at a
 * library's best speed and on all threads, where short ones are added to a carried sum step by
 * step. The same goes for the sums of elements that biases have. What stands behind such a product
 * and is linear (a reshape, zeros around it, a sum of two) is done once, with the sum.
 *
 * In: the graph of a step, and which of its values the graph around it has for all steps. Out: what
 * else the loop has to stack, and the sums in the graph around it. Values whose sizes only a step
 * tells cannot be stacked, and what is the same at each step is not. */
#include "ir/gradient/step_sums.h"

#include "core/base/check.h"
#include "ir/recompute/kept.h"
#include <stator/ops.h>

#define NODES_MAX 256u /* looked at for one sum, which bounds the recursion */

typedef struct sum_rule {
    uint32_t op;
    bool is_linear; /* operands are sums; of the others they are rows */
    stator_ref (*emit)(const st_step_sums *sums, stator_emitter *e, stator_ref node);
} sum_rule;

static const sum_rule *rule_of(const st_step_sums *sums, stator_ref value);

/* ---- rows ---- */

static uint32_t find_row(const st_step_sums *sums, stator_ref inner)
{
    uint32_t i = 0;
    while (i < sums->n && sums->rows[i].inner != inner) {
        i++;
    }
    return i;
}

void st_step_sums_add(st_step_sums *sums, stator_ref inner, const stator_ref *outer, uint32_t axis)
{
    if (sums->n < ST_STEP_ROWS_MAX && find_row(sums, inner) == sums->n) {
        sums->rows[sums->n++] = (st_step_row){.inner = inner, .outer = outer, .axis = axis};
    }
}

static bool can_stack(const st_step_sums *sums, stator_ref value)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    const stator_ref node = stator_value_at(v, value)->node;
    return stator_value_type(v, value)->rank < STATOR_RANK_MAX &&
           (node == 0 ? value <= sums->n_changing
                      : !st_node_holds_unbacked(sums->step, stator_node_at(v, node)));
}

static bool need_row(st_step_sums *sums, stator_ref value)
{
    const uint32_t i = find_row(sums, value);
    if (i == sums->n) {
        ST_NEED(sums->n < ST_STEP_ROWS_MAX && sums->room > 0 && can_stack(sums, value));
        st_step_sums_add(sums, value, NULL, 0);
        sums->room--;
    }
    sums->rows[i].is_read = true;
    return true;
}

/* ---- what can be summed ---- */

static bool can_sum(st_step_sums *sums, stator_ref value, uint32_t *left)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    const sum_rule *rule = rule_of(sums, value);
    ST_NEED(rule != NULL && *left > 0);
    const stator_node_row *row = stator_node_at(v, stator_value_at(v, value)->node);
    bool is_ok = !st_node_holds_unbacked(sums->step, row);
    --*left;
    for (uint32_t k = 0; is_ok && k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        is_ok = operand == 0      ? rule->is_linear
                : rule->is_linear ? can_sum(sums, operand, left)
                                  : need_row(sums, operand);
    }
    return is_ok;
}

bool st_step_sums_can(st_step_sums *sums, stator_ref value)
{
    const st_step_sums before = *sums;
    uint32_t left = NODES_MAX;
    const bool is_ok = can_sum(sums, value, &left);
    if (!is_ok) {
        *sums = before;
    }
    return is_ok;
}

/* ---- writing ---- */

static const st_step_row *row_of(const st_step_sums *sums, stator_ref node, uint32_t operand)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    return &sums->rows[find_row(sums, stator_operand(v, stator_node_at(v, node), operand))];
}

/* Axes that an attribute names, in a row with the axis of steps. Returns how many. */
static uint32_t shift_axes(const st_step_sums *sums, stator_ref node, uint32_t attr,
                           const st_step_row *of, int64_t *out)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    const stator_attr_row *axes = stator_attr_at(v, stator_node_at(v, node), attr);
    const uint32_t rank = stator_value_type(v, of->inner)->rank;
    const uint32_t n = axes->kind == STATOR_ATTR_INTS ? axes->count : 0;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t axis = st_normalize_axis(stator_attr_int_at(v, axes, i), rank);
        out[i] = axis + (axis >= (int64_t)of->axis);
    }
    return n;
}

static stator_ref sum_products(const st_step_sums *sums, stator_emitter *e, stator_ref node)
{
    const st_step_row *x = row_of(sums, node, 0);
    const st_step_row *y = row_of(sums, node, 1);
    int64_t folded_x[STATOR_RANK_MAX + 1u] = {x->axis}, folded_y[STATOR_RANK_MAX + 1u] = {y->axis};
    int64_t batch_x[STATOR_RANK_MAX], batch_y[STATOR_RANK_MAX];
    const uint32_t n = 1u + shift_axes(sums, node, STATOR_dot_general_contract_x, x, folded_x + 1);
    const uint32_t n_batch = shift_axes(sums, node, STATOR_dot_general_batch_x, x, batch_x);
    (void)shift_axes(sums, node, STATOR_dot_general_contract_y, y, folded_y + 1);
    (void)shift_axes(sums, node, STATOR_dot_general_batch_y, y, batch_y);
    return stator_emit_op(e, "dot_general", STATOR_IN(*x->outer, *y->outer),
                          STATOR_AT(STATOR_A_INTS("batch_x", n_batch, batch_x),
                                    STATOR_A_INTS("batch_y", n_batch, batch_y),
                                    STATOR_A_INTS("contract_x", n, folded_x),
                                    STATOR_A_INTS("contract_y", n, folded_y)));
}

static stator_ref sum_elements(const st_step_sums *sums, stator_emitter *e, stator_ref node)
{
    const st_step_row *x = row_of(sums, node, 0);
    int64_t axes[STATOR_RANK_MAX + 1u] = {x->axis};
    const uint32_t n = 1u + shift_axes(sums, node, STATOR_reduce_sum_axes, x, axes + 1);
    return stator_emit_op(e, "reduce_sum", 1, x->outer, STATOR_AT(STATOR_A_INTS("axes", n, axes)));
}

/* The node itself, over sums. */
static stator_ref sum_linear(const st_step_sums *sums, stator_emitter *e, stator_ref node)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    const stator_node_row *row = stator_node_at(v, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        if (stator_operand(v, row, k) != 0) {
            (void)st_step_sums_emit(sums, e, stator_operand(v, row, k));
        }
    }
    stator_emit_clone(e, sums->step, node, node, sums->map);
    return sums->map[row->result_begin];
}

/* The sum in the sizes that its steps have. Those of rows may be other symbols, which are equal
 * only when the program runs, and axes of size 1 that a step keeps are folded away. */
static stator_ref fit(const st_step_sums *sums, stator_emitter *e, stator_ref value, stator_ref sum)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    const stator_type_row *type = stator_value_type(v, value);
    stator_ref dims[STATOR_RANK_MAX];
    bool is_same = e->status == STATOR_OK && stator_emit_rank(e, sum) == type->rank;
    for (uint32_t a = 0; a < type->rank; a++) {
        dims[a] = stator_dim_at(v, type, a);
        is_same = is_same && stator_emit_dim(e, sum, a) == dims[a];
    }
    return is_same ? sum : stator_emit_reshape(e, sum, type->rank, dims);
}

stator_ref st_step_sums_emit(const st_step_sums *sums, stator_emitter *e, stator_ref value)
{
    const stator_graph_view *v = st_graph_view(sums->step);
    if (sums->map[value] == 0 && e->status == STATOR_OK) {
        const sum_rule *rule = rule_of(sums, value);
        const stator_ref sum = rule->emit(sums, e, stator_value_at(v, value)->node);
        sums->map[value] = rule->is_linear ? sum : fit(sums, e, value, sum);
    }
    return sums->map[value];
}

/* ---- the rules ---- */

/* NULL: no sum of it can be formed from rows.
 *
 * Ops are listed, where other code asks for flags, because no flag says what is needed: how the
 * sum of a node over all steps is written. The first two become another node, over rows, with
 * attributes of their own; of the others the sum is the node itself over the sums of its operands,
 * for they are linear in all operands together, which POINTWISE and VIEW do not say: mul is
 * pointwise and not linear. An op that is not here costs speed alone: its gradient is carried.
 */
static const sum_rule *rule_of(const st_step_sums *sums, stator_ref value)
{
    static const sum_rule rules[] = {
        {STATOR_OPCODE_dot_general, false, sum_products},
        {STATOR_OPCODE_reduce_sum, false, sum_elements},
        {STATOR_OPCODE_add, true, sum_linear},
        {STATOR_OPCODE_sub, true, sum_linear},
        {STATOR_OPCODE_neg, true, sum_linear},
        {STATOR_OPCODE_reshape, true, sum_linear},
        {STATOR_OPCODE_transpose, true, sum_linear},
        {STATOR_OPCODE_slice, true, sum_linear},
        {STATOR_OPCODE_pad, true, sum_linear},
    };
    const stator_graph_view *v = st_graph_view(sums->step);
    const stator_ref node = stator_value_at(v, value)->node;
    for (uint32_t i = 0; node != 0 && i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].op == stator_node_at(v, node)->op) {
            return &rules[i];
        }
    }
    return NULL;
}
