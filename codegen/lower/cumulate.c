/* cumsum, cumprod: a serial loop along the axis with an accumulator that is stored at each step, in
 * the loops over the other axes. Floats accumulate in f64. */
#include "codegen/lower/lower.h"

#include <stator/ops.h>

const char *cg_cumulate_refuses(const stator_graph_view *view, const stator_node_row *row)
{
    const stator_type_row *type = stator_value_type(view, stator_operand(view, row, 0));
    return type->dtype == STATOR_BOOL ? "sums of truth values" : NULL;
}

static uint32_t sum_dtype(uint32_t dtype)
{
    return st_loop_class_of(cg_wide_dtype(dtype)) == ST_LOOP_FLOATS ? (uint32_t)STATOR_F64 : dtype;
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
