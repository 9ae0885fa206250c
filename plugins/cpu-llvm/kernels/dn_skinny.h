/* Few rows against constant weights: what the driver (dn_skinny.c) and the inner loops of each
 * instruction set share.
 *
 * dn_skinny_isa.h is the text of the inner loops; dn_skinny_512.c and _256.c are that text for
 * vectors of 64 and 32 bytes. */
#ifndef STATOR_CPU_LLVM_DN_SKINNY_H
#define STATOR_CPU_LLVM_DN_SKINNY_H

#include "plugins/cpu-llvm/kernels/dn.h"

#define DN_SKINNY_ROWS 8
#define DN_SKINNY_BLOCK 16 /* k is padded to a multiple of it */

struct dn_skinny_isa;

/* A call. */
typedef struct dn_skinny {
    const struct dn_skinny_isa *isa;
    const dn_op *op;
    const dn_sizes *s; /* as a product */
    void *const *at;
    const float *w; /* panels */
    int64_t panel;  /* floats from one panel to the next */
} dn_skinny;

typedef struct dn_skinny_isa {
    int64_t columns;         /* columns of a panel, [k][columns] */
    dnnl_format_tag_t order; /* oneDNN's name for the panels */
    /* Panels begin to end - 1. */
    void (*run)(const dn_skinny *s, int64_t begin, int64_t end);
} dn_skinny_isa;

const dn_skinny_isa *dn_skinny_512(void); /* AVX-512F */
const dn_skinny_isa *dn_skinny_256(void); /* AVX2 and FMA */

#endif
