/* Values that stand for bytes. */
#ifndef STATOR_CODEGEN_QUANTIZED_VALUES_H
#define STATOR_CODEGEN_QUANTIZED_VALUES_H

#include "codegen/lower/unit.h"

typedef struct cg_bytes {
    stator_ref bytes; /* i8 or u8 */
    stator_ref zero;  /* subtracted from them: of bytes or i32; 0: nothing */
    stator_ref scale; /* f32, 0: none */
    uint32_t axis;    /* along which the scale has numbers, CG_NO_AXIS: one for all */
} cg_bytes;

#define CG_NO_AXIS UINT32_MAX

/* value is i32: bytes, or bytes less a zero point? 1 and out filled, or 0. */
bool cg_centred_of(const cg_unit *unit, stator_ref value, cg_bytes *out);
/* The same for f32: bytes scaled by one known number, or by one for each position of an axis. */
bool cg_bytes_of(const cg_unit *unit, stator_ref value, cg_bytes *out);
/* A convolution or matrix product of scaled bytes that a library might take: what its operands are.
 * The first has one scale, the second maybe one for each feature. */
bool cg_is_byte_product(const cg_unit *unit, const stator_node_row *row, cg_bytes out[2]);

/* Constant weights of four or eight bits, less their zero points, times their scales, which a
 * library might take as they are? Views and casts may lie around it. */
bool cg_is_dequantized(const cg_unit *unit, stator_ref value);

/* Each axis but `axis` is of size 1. */
bool cg_has_axis_alone(const cg_unit *unit, const cg_value *v, uint32_t axis);

bool cg_is_byte(uint32_t dtype); /* i8 or u8 */

#endif
