/* Products of two matrices of f32 that both come with the call: what the driver (dn_product.c) and
 * the inner loops of each instruction set share. dn_product_isa.h is the text of the inner loops;
 * dn_product_512.c and _256.c are that text for vectors of 64 and 32 bytes.
 *
 * A panel of x has `rows` rows, one of y `columns` columns, of two vectors; both lie by place in
 * the sum: [k][rows] and [k][columns]. */
#ifndef STATOR_CPU_LLVM_DN_PRODUCT_H
#define STATOR_CPU_LLVM_DN_PRODUCT_H

#include "plugins/cpu-llvm/kernels/dn.h"

#define DN_PRODUCT_ASK 8 /* places in the sum from one prefetched cache line to the next */

/* The products of a panel of x with one of y, summed over n places. */
typedef struct dn_product_tile {
    const float *x, *y;
    int64_t n;
    float *sums;      /* [rows][columns] */
    bool is_first;    /* the sums begin here; else they are added to what is there */
    const float *ask; /* the first cache line that is prefetched meanwhile */
} dn_product_tile;

/* n places of up to a panel's rows (or columns) to a panel, with zeros for those that are not
 * there. One of the steps is 1. */
typedef struct dn_product_pack {
    const float *from;
    int64_t place_step, row_step; /* floats from place to place, and from row to row */
    int64_t n, count;             /* places, and rows that are there */
} dn_product_pack;

typedef struct dn_product_isa {
    int64_t rows, columns;
    int64_t depth; /* places, at most: a panel of y of so many leaves the first cache to x */
    void (*run)(const dn_product_tile *tile);
    /* A panel of x is followed by room for a vector. */
    void (*pack_rows)(const dn_product_pack *pack, float *to);
    void (*pack_columns)(const dn_product_pack *pack, float *to);
} dn_product_isa;

const dn_product_isa *dn_product_512(void); /* AVX-512F */
const dn_product_isa *dn_product_256(void); /* AVX2 and FMA */

#endif
