/* Convolutions with a group for each channel, images with channels first: what the driver
 * (dn_planes.c) and the inner loops of each instruction set share.
 *
 * dn_planes_isa.h is the text of the inner loops; dn_planes_512.c and _256.c are that text for
 * vectors of 64 and 32 bytes. */
#ifndef STATOR_CPU_LLVM_DN_PLANES_H
#define STATOR_CPU_LLVM_DN_PLANES_H

#include "dn.h"

/* Some lines of a feature's plane of the output. What they meet lies padded in memory, every
 * `stride`-th pixel of a line side by side, so that neighbours in the output meet neighbours. */
typedef struct dn_plane {
    const dn_op *op;
    void *const *at;
    const float *x; /* what place 0 of the window meets for the first pixel; */
    int64_t line;   /* floats from there to the same of the next line */
    int64_t lines, width;
    int64_t places;        /* of the window */
    const int64_t *offset; /* by place: floats from x to what it meets */
    const float *weights;  /* by place */
    /* Places of a line of the window, where the next line of the output meets the same lines of
     * the image one later, so that it meets at place i + shift what this line meets there with the
     * weight of place i; there are as many offsets more. 0: it does not. */
    int64_t shift;
    const float *ask;  /* of the image, for later: */
    int64_t ask_bytes; /* so many for each line of the output */
    int64_t feature;
    int64_t out;      /* place of the first pixel in the output; */
    int64_t out_line; /* and from line to line */
} dn_plane;

/* Lines of an image between zeros: `width` floats each, of which those from `begin` to `end` - 1 are
 * copied. Up to a vector behind the last line is written, too. */
typedef struct dn_padding {
    const float *from; /* the first one copied; */
    int64_t line;      /* floats from there to the same of the next line */
    int64_t lines, width, begin, end;
} dn_padding;

typedef struct dn_planes_isa {
    int64_t lanes;
    void (*run)(const dn_plane *p);
    /* Every second one of 2 * n - 1 floats. */
    void (*take_second)(const float *from, int64_t n, float *to);
    void (*pad_lines)(const dn_padding *p, float *to);
} dn_planes_isa;

const dn_planes_isa *dn_planes_512(void); /* AVX-512F */
const dn_planes_isa *dn_planes_256(void); /* AVX2 and FMA */

#endif
