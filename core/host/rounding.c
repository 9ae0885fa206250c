/* See rounding.h. Two right answers x and x' of a few ulp apart round to different whole numbers
 * where one lies on either side of a boundary: rare, of values that are spread over many steps,
 * and by one step alone. */
#include "core/host/rounding.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <math.h>
#include <stator/ops.h>

#define STEP_SHARE 50u

bool st_rounds(const stator_graph_view *v, stator_ref value)
{
    const stator_ref node =
        value != 0 && value <= v->n_values ? stator_value_at(v, value)->node : 0;
    if (node == 0) {
        return false;
    }
    const stator_node_row *row = stator_node_at(v, node);
    const stator_ref x = stator_operand(v, row, 0);
    if (row->op == STATOR_OPCODE_round || row->op == STATOR_OPCODE_floor ||
        row->op == STATOR_OPCODE_ceil || row->op == STATOR_OPCODE_trunc) {
        return true;
    }
    if (row->op != STATOR_OPCODE_cast || x == 0) {
        return false;
    }
    const uint32_t to = st_dtype_class(stator_value_type(v, value)->dtype);
    return st_dtype_class(stator_value_type(v, x)->dtype) == STATOR_CLASS_FLOAT &&
           (to == STATOR_CLASS_INT || to == STATOR_CLASS_UINT);
}

bool st_is_rounding_step(const DLTensor *got, const DLTensor *want)
{
    uint64_t count = 0, steps = 0;
    const uint32_t dtype = st_dtype_from_dl(want->dtype);
    if (st_dtype_class(dtype) == STATOR_CLASS_COMPLEX || got->ndim != want->ndim ||
        !st_numel(want->shape, (uint32_t)want->ndim, &count)) {
        return false;
    }
    const char *a = (const char *)got->data + got->byte_offset;
    const char *b = (const char *)want->data + want->byte_offset;
    for (uint64_t i = 0; i < count; i++) {
        const double x = st_load_f64(dtype, a, (int64_t)i);
        const double y = st_load_f64(dtype, b, (int64_t)i);
        if (x == y || (isnan(x) && isnan(y))) {
            continue;
        }
        if (!(fabs(x - y) == 1) || x != rint(x)) {
            return false;
        }
        steps++;
    }
    return steps != 0 && (steps == 1 || steps * STEP_SHARE <= count);
}
