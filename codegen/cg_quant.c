/* Values that stand for bytes: (bytes - zero) * scale, as quantised models write them.
 *
 * In: a value of the graph. Out: the bytes, the zero point and the scale behind it. A convolution
 * of two such values is one of bytes, its sums exact, multiplied once with both scales: the
 * products of f32 that the graph spells differ from that by their rounding alone, as another order
 * of the sum would. */
#include "codegen/cg_quant.h"

#include <string.h>

static const stator_node_row *node_of(const cg_unit *unit, stator_ref value, const char *op)
{
    const stator_ref node = stator_value_at(unit->view, value)->node;
    const stator_node_row *row = node ? stator_node_at(unit->view, node) : NULL;
    return row && strcmp(stator_op_at(unit->view, row->op)->name, op) == 0 ? row : NULL;
}

int cg_is_byte(uint32_t dtype)
{
    return dtype == STATOR_I8 || dtype == STATOR_U8;
}

/* The bytes that are widened to i32, else 0. */
static stator_ref widened(const cg_unit *unit, stator_ref value)
{
    const stator_node_row *row = node_of(unit, value, "cast");
    const stator_ref from = row ? stator_operand(unit->view, row, 0) : 0;
    return from && unit->values[value].dtype == STATOR_I32 && cg_is_byte(unit->values[from].dtype)
               ? from
               : 0;
}

int cg_centred_of(const cg_unit *unit, stator_ref value, cg_bytes *out)
{
    const stator_node_row *difference = node_of(unit, value, "sub");
    *out = (cg_bytes){.bytes = widened(unit, value)};
    if (difference) {
        const stator_ref zero = stator_operand(unit->view, difference, 1);
        const stator_ref narrow = widened(unit, zero);
        out->bytes = widened(unit, stator_operand(unit->view, difference, 0));
        out->zero = narrow && !(unit->values[zero].flags & CG_VALUE_SPLAT) ? narrow : zero;
    }
    return out->bytes != 0;
}

/* One element, known or not; of a view, what it shows. */
static int is_single(const cg_unit *unit, stator_ref value)
{
    const cg_value *v = &unit->values[value];
    for (uint32_t a = 0; a < v->rank; a++) {
        if (!cg_is_one(unit, v->dims[a])) {
            return 0;
        }
    }
    return 1;
}

int cg_bytes_of(const cg_unit *unit, stator_ref value, cg_bytes *out)
{
    const stator_node_row *product = node_of(unit, value, "mul");
    if (product == NULL || unit->values[value].dtype != STATOR_F32) {
        return 0;
    }
    const stator_node_row *wide = node_of(unit, stator_operand(unit->view, product, 0), "cast");
    const stator_ref scale = stator_operand(unit->view, product, 1);
    if (wide == NULL || !(unit->values[scale].flags & CG_VALUE_SPLAT) || !is_single(unit, scale)) {
        return 0;
    }
    const stator_ref from = stator_operand(unit->view, wide, 0);
    if (cg_is_byte(unit->values[from].dtype)) {
        *out = (cg_bytes){.bytes = from};
    } else if (!cg_centred_of(unit, from, out)) {
        return 0;
    }
    out->scale = scale;
    return out->zero == 0 || is_single(unit, out->zero);
}

int cg_is_byte_conv(const cg_unit *unit, const stator_node_row *row, cg_bytes out[2])
{
    const stator_graph_view *v = unit->view;
    return unit->config->emitter->library != NULL &&
           strcmp(stator_op_at(v, row->op)->name, "conv") == 0 &&
           cg_bytes_of(unit, stator_operand(v, row, 0), &out[0]) &&
           cg_bytes_of(unit, stator_operand(v, row, 1), &out[1]);
}
