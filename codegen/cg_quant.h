/* Values that stand for bytes. */
#ifndef STATOR_CODEGEN_CG_QUANT_H
#define STATOR_CODEGEN_CG_QUANT_H

#include "codegen/cg_unit.h"

typedef struct cg_bytes {
    stator_ref bytes; /* i8 or u8 */
    stator_ref zero;  /* subtracted from them: of bytes or i32; 0: nothing */
    stator_ref scale; /* f32, a known number for all; 0: none */
} cg_bytes;

/* value is i32: bytes, or bytes less a zero point? 1 and out filled, or 0. */
int cg_centred_of(const cg_unit *unit, stator_ref value, cg_bytes *out);
/* The same for f32, scaled by one known number. */
int cg_bytes_of(const cg_unit *unit, stator_ref value, cg_bytes *out);
/* A convolution of scaled bytes that a library might take: what its image and weight are. */
int cg_is_byte_conv(const cg_unit *unit, const stator_node_row *row, cg_bytes out[2]);

int cg_is_byte(uint32_t dtype); /* i8 or u8 */

#endif
