/* cumsum, cumprod: the st_contraction for fixed kernels; and, where there are none, a serial loop
 * along the axis with an accumulator that is stored at each step, in the loops over the other axes.
 * Floats accumulate in f64. */
#include "codegen/lower/lower.h"
#include "codegen/target/contraction_desc.h"

#include <stator/ops.h>
#include <string.h>

const char *cg_cumulate_refuses(const stator_graph_view *view, const stator_node_row *row)
{
    const stator_type_row *type = stator_value_type(view, stator_operand(view, row, 0));
    return type->dtype == STATOR_BOOL ? "sums of truth values" : NULL;
}

static uint32_t sum_dtype(uint32_t dtype)
{
    return st_loop_class_of(cg_wide_dtype(dtype)) == ST_LOOP_FLOATS ? (uint32_t)STATOR_F64 : dtype;
}

bool cg_cumulate_contraction(cg_unit *unit, const cg_node *node, const st_kernel *kernel,
                             st_contraction *out)
{
    const cg_value *x = cg_value_of(unit, cg_operand(node, 0));
    st_contraction_cumulate *c = &out->cumulate;
    cg_strided seen;
    if (x->rank == 0 || x->rank > ST_CONTRACTION_ORDER_RANK_MAX || x->dtype != node->out->dtype ||
        !cg_strided_of(unit, cg_operand(node, 0), &seen) ||
        !cg_strides(unit, node->out, c->out_stride)) {
        return false;
    }
    c->rank = x->rank;
    c->axis = cg_axis(node, STATOR_cumsum_axis, x->rank);
    c->is_product = node->row->op == STATOR_OPCODE_cumprod;
    c->is_exclusive = cg_attr(node, STATOR_cumsum_exclusive)->i != 0;
    c->is_reverse = cg_attr(node, STATOR_cumsum_reverse)->i != 0;
    memcpy(c->dims, x->dims, x->rank * sizeof *c->dims);
    memcpy(c->x_stride, seen.stride, x->rank * sizeof *c->x_stride);
    out->kind = ST_CONTRACTION_CUMULATE;
    out->x = (st_contraction_operand){
        .buffer = cg_buffer_index(kernel, seen.buffer), .dtype = x->dtype, .offset = seen.offset};
    out->out.dtype = x->dtype;
    out->out.buffer = cg_buffer_index(kernel, node->out->buffer);
    return out->x.buffer != UINT32_MAX && out->out.buffer != UINT32_MAX;
}

void cg_cumulate(cg_nest *nest, const cg_node *node)
{
    st_loop_builder *b = &nest->b;
    const cg_value *out = node->out;
    const uint32_t kind = node->row->op == STATOR_OPCODE_cumsum ? ST_ACC_SUM : ST_ACC_PROD;
    const uint32_t axis = out->rank ? cg_axis(node, STATOR_cumsum_axis, out->rank) : 0;
    const uint32_t size = out->rank ? out->dims[axis] : cg_int(nest, 1);
    const uint32_t dtype = sum_dtype(out->dtype);
    const bool is_exclusive = cg_attr(node, STATOR_cumsum_exclusive)->i != 0;
    uint32_t index[CG_RANK_MAX] = {0};
    const uint32_t n_open = cg_open_all(nest, out->rank, out->dims, axis, 0, index);
    const st_loop_ref sum = st_loop_acc(b, kind, dtype, 0);
    const uint32_t step = cg_open(nest, size, ST_AXIS_SERIAL);
    index[axis] = step;
    if (cg_attr(node, STATOR_cumsum_reverse)->i != 0) {
        index[axis] = cg_sub(nest, cg_sub(nest, size, cg_int(nest, 1)), step);
    }
    const st_loop_ref x = st_loop_cast(b, dtype, cg_wide_at(nest, cg_operand(node, 0), index));
    st_loop_ref seen = is_exclusive ? st_loop_read(b, sum, dtype) : 0;
    if (x) {
        st_loop_update(b, sum, x, 0, 0);
    }
    seen = is_exclusive ? seen : st_loop_read(b, sum, dtype);
    cg_put(nest, node, 0, index, st_loop_cast(b, out->dtype, seen), 0);
    cg_close(nest, n_open + 1u);
}
