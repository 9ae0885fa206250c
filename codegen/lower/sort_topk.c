/* sort and topk: the st_contraction for fixed kernels or the host library; and, where there is
 * neither, loops for a short axis that count, for each element, the elements before it: its
 * position.
 *
 *     loop over the other axes and i               parallel
 *       loop over j: count x[j] before x[i]
 *       values[count] = x[i], indices[count] = i
 *
 * n comparisons an element, all alike, which beats a sort of branches while n is small. NaN
 * sorts as the largest; of equal elements the one with the lower index comes first. */
#include "codegen/lower/lower.h"
#include "codegen/target/contraction_desc.h"
#include "core/base/check.h"

#include <stator/ops.h>
#include <string.h>

#define ORDER_MAX 512 /* elements of the axis: past it sorting is for another backend */

static bool is_topk(const stator_node_row *row)
{
    return row->op == STATOR_OPCODE_topk;
}

static int64_t axis_attr(const stator_graph_view *view, const stator_node_row *row)
{
    return stator_attr_at(view, row, is_topk(row) ? STATOR_topk_axis : STATOR_sort_axis)->i;
}

const char *cg_order_refuses(const stator_graph_view *view, const stator_node_row *row)
{
    return stator_value_type(view, stator_operand(view, row, 0))->rank == 0 ? "an order of a scalar"
                                                                            : NULL;
}

const char *cg_order_is_slow(const stator_graph_view *view, const stator_node_row *row)
{
    const stator_type_row *x = stator_value_type(view, stator_operand(view, row, 0));
    const int64_t axis = axis_attr(view, row);
    const uint32_t a = (uint32_t)st_normalize_axis(axis, x->rank);
    int64_t size = 0;
    if (!stator_sym_is_const(view, stator_dim_at(view, x, a), &size)) {
        return "sorting an axis of a size that is not known";
    }
    return size > ORDER_MAX ? "sorting a long axis" : NULL;
}

/* Does y stand before x whatever their indices are? */
static st_loop_ref is_before(st_loop_builder *b, bool is_falling, st_loop_ref y, st_loop_ref x)
{
    const uint32_t dtype = st_loop_at(b->kernel, x)->dtype;
    const st_loop_ref first = st_loop_apply(b, is_falling ? ST_LOOP_gt : ST_LOOP_lt, 0, y, x, 0);
    if (st_loop_class_of(dtype) != ST_LOOP_FLOATS) {
        return first;
    }
    const st_loop_ref nan =
        st_loop_apply(b, ST_LOOP_ne, 0, is_falling ? y : x, is_falling ? y : x, 0);
    const st_loop_ref number =
        st_loop_apply(b, ST_LOOP_eq, 0, is_falling ? x : y, is_falling ? x : y, 0);
    const st_loop_ref last = st_loop_apply(b, ST_LOOP_bit_and, STATOR_BOOL, nan, number, 0);
    return st_loop_apply(b, ST_LOOP_bit_or, STATOR_BOOL, first, last, 0);
}

/* 1 where x[j] stands before x[i]: it is smaller, or as large with a lower index. Not larger and a
 * lower index is the same, and needs no test for equality. */
static st_loop_ref stands_before(cg_nest *nest, bool is_falling, st_loop_ref xj, st_loop_ref xi,
                                 uint32_t j, uint32_t i)
{
    st_loop_builder *b = &nest->b;
    const st_loop_ref lower =
        st_loop_apply(b, ST_LOOP_lt, 0, st_loop_index(b, j), st_loop_index(b, i), 0);
    const st_loop_ref larger = is_before(b, is_falling, xi, xj);
    const st_loop_ref as_large = st_loop_apply(b, ST_LOOP_bit_not, STATOR_BOOL, larger, 0, 0);
    const st_loop_ref by_index = st_loop_apply(b, ST_LOOP_bit_and, STATOR_BOOL, as_large, lower, 0);
    return st_loop_apply(b, ST_LOOP_bit_or, STATOR_BOOL, is_before(b, is_falling, xj, xi), by_index,
                         0);
}

static bool falls(const cg_node *node)
{
    return is_topk(node->row) ? cg_attr(node, STATOR_topk_largest)->i != 0
                              : cg_attr(node, STATOR_sort_descending)->i != 0;
}

void cg_order(cg_nest *nest, const cg_node *node)
{
    st_loop_builder *b = &nest->b;
    const stator_ref operand = cg_operand(node, 0);
    const cg_value *x = cg_value_of(nest->unit, operand);
    const int64_t given = axis_attr(node->unit->view, node->row);
    const uint32_t axis = (uint32_t)st_normalize_axis(given, x->rank);
    uint32_t index[CG_RANK_MAX] = {0};
    const uint32_t n_open = cg_open_all(nest, x->rank, x->dims, axis, 0, index);
    const uint32_t i = cg_open(nest, x->dims[axis], 0);
    index[axis] = i;
    const st_loop_ref stored = cg_at(nest, operand, index);
    const st_loop_ref xi = cg_wide_at(nest, operand, index);
    const st_loop_ref count = st_loop_acc(b, ST_ACC_SUM, STATOR_I32, 0);
    const uint32_t j = cg_open(nest, x->dims[axis], ST_AXIS_REDUCE);
    index[axis] = j;
    const st_loop_ref xj = cg_wide_at(nest, operand, index);
    if (stored == 0 || xi == 0 || xj == 0) {
        return; /* refused */
    }
    st_loop_update(b, count,
                   st_loop_cast(b, STATOR_I32, stands_before(nest, falls(node), xj, xi, j, i)), 0,
                   0);
    cg_close(nest, 1);
    const st_loop_ref position = st_loop_cast(b, STATOR_I64, st_loop_read(b, count, STATOR_I32));
    int64_t lo = 0;
    int64_t hi = 0;
    st_sym_range(&nest->unit->syms->tab, x->dims[axis], &lo, &hi);
    index[axis] = st_loop_bind(b, position, 0, hi > 0 ? hi - 1 : 0);
    if (index[axis] == 0) {
        return;
    }
    const st_loop_ref is_kept = cg_within(nest, index[axis], node->out->dims[axis], false, true);
    cg_put(nest, node, 0, index, stored, is_kept);
    cg_put(nest, node, 1, index, st_loop_index(b, i), is_kept);
    cg_close(nest, n_open + 1u);
}

/* ---- as a contraction ---- */

/* The buffer of result k and its strides; UINT32_MAX where nobody reads it. 0: beyond the
 * limits. */
static bool set_result(cg_unit *unit, const cg_node *node, const st_kernel *kernel, uint32_t k,
                       uint32_t *out_buffer, uint32_t strides[ST_CONTRACTION_ORDER_RANK_MAX])
{
    const cg_value *v = cg_value_of(unit, node->row->result_begin + k);
    *out_buffer = v->buffer == CG_NO_BUFFER ? UINT32_MAX : cg_buffer_index(kernel, v->buffer);
    return cg_strides(unit, k == 0 || *out_buffer != UINT32_MAX ? v : node->out, strides);
}

bool cg_order_contraction(cg_unit *unit, const cg_node *node, const st_kernel *kernel,
                          st_contraction *out)
{
    const cg_value *x = cg_value_of(unit, cg_operand(node, 0));
    const uint32_t rank = x->rank;
    st_contraction_order *contraction = &out->order;
    cg_strided seen;
    if (rank > ST_CONTRACTION_ORDER_RANK_MAX || !cg_strided_of(unit, cg_operand(node, 0), &seen)) {
        return false;
    }
    const int64_t axis = axis_attr(unit->view, node->row);
    *contraction = (st_contraction_order){.rank = rank,
                                          .axis = (uint32_t)st_normalize_axis(axis, rank),
                                          .is_falling = (uint32_t)falls(node)};
    contraction->take = node->out->dims[contraction->axis];
    memcpy(contraction->dims, x->dims, rank * sizeof *contraction->dims);
    memcpy(contraction->x_stride, seen.stride, rank * sizeof *contraction->x_stride);
    out->kind = ST_CONTRACTION_ORDER;
    out->x = (st_contraction_operand){
        .buffer = cg_buffer_index(kernel, seen.buffer), .dtype = x->dtype, .offset = seen.offset};
    out->out.dtype = x->dtype;
    return out->x.buffer != UINT32_MAX &&
           set_result(unit, node, kernel, 0, &out->out.buffer, contraction->out_stride) &&
           set_result(unit, node, kernel, 1, &contraction->indices, contraction->indices_stride);
}
