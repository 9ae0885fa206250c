/* Products against constant weights of four or eight bits: what the driver (dn_quant.c) and the
 * inner loops of each instruction set share.
 *
 * dn_quant_isa.h is the text of the inner loops; dn_quant_512.c and _256.c are that text for
 * vectors of 64 and 32 bytes.
 *
 * A panel has the columns of two vectors and lies block after block of k:
 *
 *     scales   f32[columns]
 *     zeros    u8[columns], where there are any
 *     words    u32[ceil(k of the block / together)][columns], each of `together` numbers of k
 *
 *     31      28 27    4 3     0      of four bits; the first number in the low ones. Signed
 * numbers
 *     +---------+-- .. -+-------+     and their zero points are greater by 8 (128): all are from 0
 *     |  k + 7  |       |   k   |     on.
 *     +---------+-- .. -+-------+ */
#ifndef STATOR_CPU_LLVM_DN_QUANT_H
#define STATOR_CPU_LLVM_DN_QUANT_H

#include "plugins/cpu-llvm/kernels/dn.h"

#define DN_QUANT_BITS_A_WORD 32
#define DN_QUANT_ROWS 256  /* rows of x that share a panel made f32, at most */
#define DN_QUANT_CHUNK 128 /* numbers of k of a panel that are made f32 together, at most */

struct dn_quant_isa;

/* How panels lie. */
typedef struct dn_quant_order {
    int64_t bits;     /* bits of a number: 4 or 8 */
    int64_t together; /* numbers of a word */
    int64_t block;    /* numbers of k that share a scale; the last block may have less */
    int64_t k, columns;
    int64_t head;  /* bytes of a block before its words */
    int64_t panel; /* bytes from one panel to the next */
    int64_t panels;
    int32_t has_zeros;
    float zero;     /* zero point of all, where there are none */
    uint32_t dtype; /* dtype that weights are rounded to */
} dn_quant_order;

/* A call. */
typedef struct dn_quant {
    const struct dn_quant_isa *isa;
    const dn_op *op;
    const dn_sizes *s; /* as a product */
    void *const *at;
    dn_quant_order order;
    const char *weights; /* panels; NULL: each is made of the op's constants when it is needed */
    int64_t scratch;     /* bytes that a thread needs */
    _Atomic int has_failed;
} dn_quant;

/* Rows of x against a panel. */
typedef struct dn_quant_part {
    const dn_quant *q;
    const char *panel;
    int64_t column; /* the first */
    int64_t row, rows;
    float *scratch; /* `scratch_floats` numbers, aligned to 64 */
} dn_quant_part;

typedef struct dn_quant_isa {
    int64_t columns; /* columns of a panel */
    int64_t (*scratch_floats)(int64_t rows);
    void (*run)(const dn_quant_part *part);
} dn_quant_isa;

const dn_quant_isa *dn_quant_512(void); /* AVX-512F */
const dn_quant_isa *dn_quant_256(void); /* AVX2, FMA and F16C */

#endif
