/* Reductions, arg reductions, running sums, and softmax with its kin. */
#include "frontends/onnx/onnx.h"

#include <string.h>

static const struct {
    const char *onnx;
    const char *op;
    const char *alone; /* op that replaces a reduction over no axis; NULL: the identity */
} REDUCTIONS[] = {
    {"ReduceL1", "reduce_l1", "abs"},          {"ReduceL2", "reduce_l2", "abs"},
    {"ReduceLogSum", "reduce_log_sum", "log"}, {"ReduceLogSumExp", "reduce_log_sum_exp", NULL},
    {"ReduceMax", "reduce_max", NULL},         {"ReduceMean", "reduce_mean", NULL},
    {"ReduceMin", "reduce_min", NULL},         {"ReduceProd", "reduce_prod", NULL},
    {"ReduceSum", "reduce_sum", NULL},         {"ReduceSumSquare", "reduce_sum_square", "square"},
};

/* Axes from the attribute, or from input 1 in newer operator sets. */
static const int64_t *reduce_axes(ox_node *n, uint32_t *out_count)
{
    const int64_t since = strcmp(n->row->name, "ReduceSum") == 0 ? 13 : 18;
    *out_count = 0;
    if (n->version < since) {
        return ox_attr_ints(n, "axes", out_count);
    }
    return ox_in(n, 1) != 0 ? ox_need_ints(n, ox_in(n, 1), out_count, "the axes") : NULL;
}

void ox_reduce_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    const bool keepdims = ox_attr_int(n, "keepdims", 1) != 0;
    uint32_t count;
    int64_t list[STATOR_RANK_MAX];
    size_t row = 0;
    while (strcmp(REDUCTIONS[row].onnx, n->row->name) != 0) {
        row++;
    }
    const int64_t *axes = reduce_axes(n, &count);
    OX_NEED(n, count <= rank, "%u axes for an input of rank %u", count, rank);
    if (count == 0 && ox_attr_int(n, "noop_with_empty_axes", 0) != 0) {
        ox_out(n, 0, REDUCTIONS[row].alone != NULL ? ox_un(n, REDUCTIONS[row].alone, x) : x);
        return;
    }
    for (uint32_t i = 0; i < (count != 0 ? count : rank); i++) {
        list[i] = count != 0 ? (int64_t)ox_axis(n, axes[i], rank) : (int64_t)i;
    }
    count = count != 0 ? count : rank;
    ox_out(n, 0, ox_reduce(n, REDUCTIONS[row].op, x, count, list, keepdims));
}

void ox_arg(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    const char *op = strcmp(n->row->name, "ArgMax") == 0 ? "argmax" : "argmin";
    ox_out(
        n, 0,
        ox_op(n, op, STATOR_IN(x),
              STATOR_AT(STATOR_A_INT("axis", axis),
                        STATOR_A_INT("keepdims", ox_attr_int(n, "keepdims", 1) != 0),
                        STATOR_A_INT("select_last", ox_attr_int(n, "select_last_index", 0) != 0))));
}

void ox_cumulative(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_need_int(n, ox_need(n, 1), "the axis"), ox_rank(n, x));
    const char *op = strcmp(n->row->name, "CumSum") == 0 ? "cumsum" : "cumprod";
    ox_out(n, 0,
           ox_op(n, op, STATOR_IN(x),
                 STATOR_AT(STATOR_A_INT("axis", axis),
                           STATOR_A_INT("exclusive", ox_attr_int(n, "exclusive", 0) != 0),
                           STATOR_A_INT("reverse", ox_attr_int(n, "reverse", 0) != 0))));
}

/* Operator sets below 13 see the input as a matrix: axes before `axis` are rows, the others one row
 * of numbers. Gives the matrix (or x itself when that changes nothing) and the axis to work on. */
static stator_ref as_rows(ox_node *n, stator_ref x, uint32_t *out_axis)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    const int64_t axis = ox_attr_int(n, "axis", n->version < 13 ? 1 : -1);
    const bool is_end = n->version < 13 && axis == (int64_t)rank;
    *out_axis = is_end ? rank : ox_axis(n, axis, rank);
    if (!ox_ok(n) || n->version >= 13 || *out_axis + 1u == rank) {
        return x;
    }
    const stator_ref rows[2] = {ox_sym_prod(n, *out_axis, dims),
                                ox_sym_prod(n, rank - *out_axis, dims + *out_axis)};
    *out_axis = 1;
    return ox_reshape(n, x, 2, rows);
}

static void give_back_shape(ox_node *n, stator_ref x, stator_ref y)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    ox_out(n, 0, ox_rank(n, y) == rank ? y : ox_reshape(n, y, rank, dims));
}

void ox_softmax(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const char *op = strcmp(n->row->name, "Softmax") == 0 ? "softmax" : "log_softmax";
    uint32_t axis;
    const stator_ref rows = as_rows(n, x, &axis);
    give_back_shape(n, x, ox_op(n, op, STATOR_IN(rows), STATOR_AT(STATOR_A_INT("axis", axis))));
}

void ox_hardmax(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    uint32_t axis;
    stator_ref dims[STATOR_RANK_MAX];
    const stator_ref rows = as_rows(n, x, &axis);
    const uint32_t rank = ox_dims(n, rows, dims);
    const stator_ref best =
        ox_op(n, "argmax", STATOR_IN(rows),
              STATOR_AT(STATOR_A_INT("axis", axis), STATOR_A_INT("keepdims", 1)));
    const stator_ref place = ox_iota(n, STATOR_I64, rank, dims, axis);
    const stator_ref y = ox_cast(n, ox_bin(n, "eq", place, best), ox_dtype(n, x));
    give_back_shape(n, x, y);
}
