/* The operations that nodes make, from their types; see the header. Contractions have a formula
 * each, in a table; all others go by the properties of their op. Doubles, since counts only
 * serve ratios: they are exact below 2^53. */
#include "ir/recompute/node_flops.h"
#include "core/base/check.h"

#include <stator/ops.h>

typedef struct flop_node {
    const stator_graph_view *v;
    const stator_node_row *row;
    const st_symtab *likely; /* sizes for symbols; NULL: none */
} flop_node;

/* Size of an axis, counted from the end when negative; 0: not known, or no such axis. */
static double size_of(const flop_node *n, stator_ref value, int64_t axis)
{
    int64_t size = 0;
    if (value == 0) {
        return 0;
    }
    const stator_type_row *type = stator_value_type(n->v, value);
    const int64_t at = st_normalize_axis(axis, type->rank);
    if (at < 0 || at >= (int64_t)type->rank) {
        return 0;
    }
    const stator_ref sym = stator_dim_at(n->v, type, (uint32_t)at);
    if (!stator_sym_is_const(n->v, sym, &size)) {
        size = n->likely != NULL ? st_sym_size_hint(n->likely, sym) : 0;
    }
    return (double)size;
}

static double numel(const flop_node *n, stator_ref value)
{
    double count = value != 0;
    const uint32_t rank = value != 0 ? stator_value_type(n->v, value)->rank : 0;
    for (uint32_t axis = 0; axis < rank; axis++) {
        count *= size_of(n, value, axis);
    }
    return count;
}

static stator_ref operand(const flop_node *n, uint32_t k)
{
    return stator_operand(n->v, n->row, k);
}

static double result(const flop_node *n)
{
    return n->row->result_count != 0 ? numel(n, n->row->result_begin) : 0;
}

/* [.., M, K] x [.., K, N]. */
static double of_matmul(const flop_node *n)
{
    return 2 * result(n) * size_of(n, operand(n, 0), -1);
}

static double of_dot_general(const flop_node *n)
{
    const stator_attr_row *axes = stator_attr_at(n->v, n->row, STATOR_dot_general_contract_x);
    double flops = 2 * result(n);
    for (uint32_t i = 0; i < axes->count; i++) {
        flops *= size_of(n, operand(n, 0), stator_attr_int_at(n->v, axes, i));
    }
    return flops;
}

/* A filter [M, C / groups, k..] for each element of `of`. */
static double of_filters(const flop_node *n, double of, stator_ref filters)
{
    const double count = size_of(n, filters, 0);
    return count > 0 ? 2 * of * (numel(n, filters) / count) : 0;
}

static double of_conv(const flop_node *n)
{
    return of_filters(n, result(n), operand(n, 1));
}

static double of_conv_transpose(const flop_node *n)
{
    return of_filters(n, numel(n, operand(n, 0)), operand(n, 1));
}

/* Each element of the gradient meets the window of a filter. */
static double of_conv_weight_grad(const flop_node *n)
{
    return of_filters(n, numel(n, operand(n, 1)), n->row->result_begin);
}

/* Scores [.., T, S] over E, then their sum over S. */
static double of_sdpa(const flop_node *n)
{
    const double keys = size_of(n, operand(n, 1), -2);
    return 2 * keys * (numel(n, operand(n, 0)) + result(n));
}

/* Of scores and their gradients, then what each of the three gradients sums. */
static double of_sdpa_gradient(const flop_node *n)
{
    const double keys = size_of(n, operand(n, 1), -2);
    return 2 * keys * (3 * numel(n, operand(n, 0)) + 2 * numel(n, operand(n, 3)));
}

/* The weights of input and state, once a step and row of x [T, B, I]. */
static double of_recurrent(const flop_node *n)
{
    const stator_ref x = operand(n, 0);
    return 2 * size_of(n, x, 0) * size_of(n, x, 1) *
           (numel(n, operand(n, 1)) + numel(n, operand(n, 2)));
}

static double (*const contraction_flops[STATOR_OPCODE_end])(const flop_node *n) = {
    [STATOR_OPCODE_dot_general] = of_dot_general,
    [STATOR_OPCODE_matmul] = of_matmul,
    [STATOR_OPCODE_conv] = of_conv,
    [STATOR_OPCODE_deform_conv] = of_conv,
    [STATOR_OPCODE_sdpa] = of_sdpa,
    [STATOR_OPCODE_sdpa_gradient] = of_sdpa_gradient,
    [STATOR_OPCODE_conv_transpose] = of_conv_transpose,
    [STATOR_OPCODE_lstm] = of_recurrent,
    [STATOR_OPCODE_conv_weight_grad] = of_conv_weight_grad,
    [STATOR_OPCODE_gru] = of_recurrent,
    [STATOR_OPCODE_rnn] = of_recurrent,
};

uint64_t st_node_flops(const stator_graph_view *v, stator_ref node, const st_symtab *likely)
{
    const flop_node n = {v, stator_node_at(v, node), likely};
    const uint64_t flags = stator_op_at(v, n.row->op)->flags;
    double flops = 0;
    if (n.row->op < STATOR_OPCODE_end && contraction_flops[n.row->op]) {
        flops = contraction_flops[n.row->op](&n);
    } else if ((flags & STATOR_OP_REDUCES) != 0) {
        flops = numel(&n, operand(&n, 0));
    } else if ((flags & STATOR_OP_POINTWISE) != 0) {
        flops = result(&n);
    }
    return flops < 0x1p63 ? (uint64_t)flops : UINT64_MAX;
}
