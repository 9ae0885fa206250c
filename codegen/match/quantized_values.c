/* Values that stand for bytes: (bytes - zero) * scale, as quantised models write them.
 *
 * In: a value of the graph. Out: the bytes, the zero point and the scale behind it. A convolution
 * of two such values is one of bytes, its sums exact, multiplied once with both scales: the
 * products of f32 that the graph spells differ from that by their rounding alone, as another order
 * of the sum would. */
#include "codegen/match/quantized_values.h"

#include <stator/ops.h>

static const stator_node_row *node_of(const cg_unit *unit, stator_ref value, uint32_t op)
{
    const stator_ref node = stator_value_at(unit->view, value)->node;
    const stator_node_row *row = node ? stator_node_at(unit->view, node) : NULL;
    return row && row->op == op ? row : NULL;
}

bool cg_is_byte(uint32_t dtype)
{
    return dtype == STATOR_I8 || dtype == STATOR_U8;
}

/* The bytes that are widened to i32, else 0. */
static stator_ref widened(const cg_unit *unit, stator_ref value)
{
    const stator_node_row *row = node_of(unit, value, STATOR_OPCODE_cast);
    const stator_ref from = row ? stator_operand(unit->view, row, 0) : 0;
    return from && unit->values[value].dtype == STATOR_I32 && cg_is_byte(unit->values[from].dtype)
               ? from
               : 0;
}

/* The value behind reshapes and other views. */
static stator_ref behind_views(const cg_unit *unit, stator_ref value)
{
    for (;;) {
        const stator_ref node = stator_value_at(unit->view, value)->node;
        const stator_node_row *row = node ? stator_node_at(unit->view, node) : NULL;
        if (row == NULL || !(stator_op_at(unit->view, row->op)->flags & STATOR_OP_VIEW)) {
            return value;
        }
        value = stator_operand(unit->view, row, 0);
    }
}

/* The zero point: bytes where it is widened from them, and one known number as what tells it. */
static stator_ref zero_of(const cg_unit *unit, stator_ref zero)
{
    const stator_ref narrow = widened(unit, zero);
    const stator_ref shown = widened(unit, behind_views(unit, zero));
    const stator_ref number = shown ? behind_views(unit, shown) : 0;
    if (number && (unit->values[number].flags & CG_VALUE_SPLAT)) {
        return number;
    }
    return narrow && !(unit->values[zero].flags & CG_VALUE_SPLAT) ? narrow : zero;
}

bool cg_centred_of(const cg_unit *unit, stator_ref value, cg_bytes *out)
{
    const stator_node_row *difference = node_of(unit, value, STATOR_OPCODE_sub);
    *out = (cg_bytes){.bytes = widened(unit, value)};
    if (difference) {
        out->bytes = widened(unit, stator_operand(unit->view, difference, 0));
        out->zero = zero_of(unit, stator_operand(unit->view, difference, 1));
    }
    return out->bytes != 0;
}

/* The one axis of the value that is not of size 1, counted as in `of`, with which it broadcasts.
 * CG_NO_AXIS: there is none, or more than one. */
static uint32_t axis_of(const cg_unit *unit, stator_ref value, stator_ref of)
{
    const cg_value *v = &unit->values[value];
    uint32_t found = CG_NO_AXIS;
    uint32_t n = 0;
    for (uint32_t a = 0; a < v->rank; a++) {
        if (!cg_is_one(unit, v->dims[a])) {
            found = a + unit->values[of].rank - v->rank;
            n++;
        }
    }
    return n == 1 ? found : CG_NO_AXIS;
}

bool cg_has_axis_alone(const cg_unit *unit, const cg_value *v, uint32_t axis)
{
    for (uint32_t a = 0; a < v->rank; a++) {
        if (a != axis && !cg_is_one(unit, v->dims[a])) {
            return false;
        }
    }
    return true;
}

/* One element, known or not; of a view, what it shows. */
static bool is_single(const cg_unit *unit, stator_ref value)
{
    return cg_has_axis_alone(unit, &unit->values[value], CG_NO_AXIS);
}

bool cg_bytes_of(const cg_unit *unit, stator_ref value, cg_bytes *out)
{
    const stator_node_row *product = node_of(unit, value, STATOR_OPCODE_mul);
    if (product == NULL || unit->values[value].dtype != STATOR_F32) {
        return false;
    }
    const stator_node_row *wide =
        node_of(unit, stator_operand(unit->view, product, 0), STATOR_OPCODE_cast);
    const stator_ref scale = stator_operand(unit->view, product, 1);
    const bool is_one = (unit->values[scale].flags & CG_VALUE_SPLAT) && is_single(unit, scale);
    const uint32_t axis = is_one ? CG_NO_AXIS : axis_of(unit, scale, value);
    if (wide == NULL || unit->values[scale].rank > unit->values[value].rank ||
        (!is_one && axis == CG_NO_AXIS)) {
        return false;
    }
    const stator_ref from = stator_operand(unit->view, wide, 0);
    if (cg_is_byte(unit->values[from].dtype)) {
        *out = (cg_bytes){.bytes = from};
    } else if (!cg_centred_of(unit, from, out)) {
        return false;
    }
    out->scale = scale;
    out->axis = axis;
    /* Zero points that are one known number may be as many as the scales. */
    return out->zero == 0 || is_single(unit, out->zero) ||
           (unit->values[out->zero].flags & CG_VALUE_SPLAT);
}

/* Is the value a constant, or a view of one? */
static bool is_constant(const cg_unit *unit, stator_ref value)
{
    const cg_value *v = &unit->values[behind_views(unit, value)];
    return (v->flags & CG_VALUE_SPLAT) ||
           (v->buffer != CG_NO_BUFFER && unit->buffers.data[v->buffer].kind == CG_BUFFER_CONSTANT);
}

/* The value at the start of a chain of casts. */
static stator_ref behind_casts(const cg_unit *unit, stator_ref value)
{
    const stator_node_row *row = node_of(unit, value, STATOR_OPCODE_cast);
    return row ? behind_casts(unit, stator_operand(unit->view, row, 0)) : value;
}

bool cg_is_dequantized(const cg_unit *unit, stator_ref value)
{
    if (value == 0) {
        return false;
    }
    const stator_ref shown = behind_casts(unit, behind_views(unit, value));
    const stator_node_row *product = node_of(unit, behind_views(unit, shown), STATOR_OPCODE_mul);
    if (product == NULL || unit->config->emitter->library == NULL) {
        return false;
    }
    stator_ref bytes = behind_casts(unit, stator_operand(unit->view, product, 0));
    const stator_ref scale = behind_casts(unit, stator_operand(unit->view, product, 1));
    const stator_node_row *difference = node_of(unit, bytes, STATOR_OPCODE_sub);
    if (difference) {
        const stator_ref zero = behind_casts(unit, stator_operand(unit->view, difference, 1));
        bytes = behind_casts(unit, stator_operand(unit->view, difference, 0));
        if (!is_constant(unit, zero)) {
            return false;
        }
    }
    return is_constant(unit, bytes) && is_constant(unit, scale) &&
           cg_is_byte(unit->values[bytes].dtype);
}

/* Index of an axis in a list of axes of a value of this rank, UINT32_MAX: it is not there. */
static uint32_t index_in(const cg_unit *unit, const stator_node_row *row, uint32_t attr,
                         uint32_t axis, uint32_t rank)
{
    const stator_attr_row *list = stator_attr_at(unit->view, row, attr);
    for (uint32_t i = 0; i < list->count; i++) {
        if (st_normalize_axis(stator_attr_int_at(unit->view, list, i), rank) == (int64_t)axis) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* Operand k of a matrix product, maybe transposed. */
static bool is_byte_operand(const cg_unit *unit, const stator_node_row *row, uint32_t k,
                            cg_bytes *out)
{
    const stator_ref value = stator_operand(unit->view, row, k);
    const stator_node_row *view = node_of(unit, value, STATOR_OPCODE_transpose);
    if (view == NULL) {
        return cg_bytes_of(unit, value, out);
    }
    if (!cg_bytes_of(unit, stator_operand(unit->view, view, 0), out)) {
        return false;
    }
    if (out->axis != CG_NO_AXIS) {
        const uint32_t rank = stator_value_type(unit->view, value)->rank;
        out->axis = index_in(unit, view, STATOR_transpose_perm, out->axis, rank);
    }
    return true;
}

static bool is_byte_matmul(const cg_unit *unit, const stator_node_row *row, cg_bytes out[2])
{
    const uint32_t rank = stator_value_type(unit->view, stator_operand(unit->view, row, 1))->rank;
    return is_byte_operand(unit, row, 0, &out[0]) && is_byte_operand(unit, row, 1, &out[1]) &&
           (out[1].axis == CG_NO_AXIS ||
            (index_in(unit, row, STATOR_dot_general_contract_y, out[1].axis, rank) == UINT32_MAX &&
             index_in(unit, row, STATOR_dot_general_batch_y, out[1].axis, rank) == UINT32_MAX));
}

bool cg_is_byte_product(const cg_unit *unit, const stator_node_row *row, cg_bytes out[2])
{
    const stator_graph_view *v = unit->view;
    if (unit->config->emitter->library == NULL) {
        return false;
    }
    if (row->op == STATOR_OPCODE_dot_general) {
        return is_byte_matmul(unit, row, out) && out[0].axis == CG_NO_AXIS;
    }
    const bool is_conv = row->op == STATOR_OPCODE_conv;
    if ((!is_conv && row->op != STATOR_OPCODE_conv_transpose) ||
        !cg_bytes_of(unit, stator_operand(v, row, 0), &out[0]) ||
        !cg_bytes_of(unit, stator_operand(v, row, 1), &out[1]) || out[0].axis != CG_NO_AXIS) {
        return false;
    }
    /* The groups of a transposed one share the second axis of its weights. */
    const bool has_features =
        is_conv ? out[1].axis == 0
                : out[1].axis == 1 && stator_attr_at(v, row, STATOR_conv_transpose_groups)->i == 1;
    return out[1].axis == CG_NO_AXIS || has_features;
}
