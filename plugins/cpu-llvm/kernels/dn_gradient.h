/* Gradients of convolutions to their weights, f32, images with channels last: what the drivers
 * (dn_gradient.c, dn_gradient_depthwise.c) and the inner loops of each instruction set share.
 *
 * The weight of a place of the window is a sum over pixels of what arrived at the output (g): of
 * the pixels whose window has a pixel of the image at that place, which along a line are
 * neighbours. So whatever strides, dilations and paddings are, an inner loop walks lines of x and
 * of g, some floats from pixel to pixel in each.
 *
 * dn_gradient_isa.h is the text of the inner loops; dn_gradient_512.c and _256.c are that text for
 * vectors of 64 and 32 bytes. */
#ifndef STATOR_CPU_LLVM_DN_GRADIENT_H
#define STATOR_CPU_LLVM_DN_GRADIENT_H

#include "plugins/cpu-llvm/kernels/dn.h"

#define DN_GRADIENT_AXES 3u /* axes that a convolution has not are of one pixel, and come first */
#define DN_GRADIENT_VECTORS 2

/* Pixels of an axis of the output, from begin to end - 1. */
typedef struct dn_gradient_range {
    int64_t begin, end;
} dn_gradient_range;

/* Pixels of a line of g and those of x that they meet at a place of the window: floats from the
 * begin of their panels to the first. */
typedef struct dn_gradient_pixels {
    uint32_t x, g, pixels;
} dn_gradient_pixels;

/* Products of neighbours in x with vectors of g, summed over pixels. */
typedef struct dn_gradient_tile {
    const dn_gradient_pixels *runs;
    int64_t n;
    const float *x, *g; /* panels; one of g has DN_GRADIENT_VECTORS vectors a pixel */
    int64_t x_step;     /* floats from pixel to pixel */
    float *sums;
    int64_t sums_step; /* floats from row to row */
    int64_t second;    /* floats from the sums of the first vector to those of the second */
    bool is_first;     /* the sums begin here; else they are added to what is there */
} dn_gradient_tile;

/* Products of a vector of g with one of x for each of some places of the window, summed over the
 * pixels of lines for which the place lies in the image. */
typedef struct dn_gradient_lines {
    const float *x, *g;
    int64_t first;             /* floats from x to what the first pixel meets at the first place */
    int64_t images, n, pixels; /* lines of each image, pixels of each line */
    int64_t x_image, g_image;  /* floats from image to image */
    int64_t x_line, g_line; /* floats of g from line to line, of x between those that they meet */
    int64_t x_step, g_step; /* the same from pixel to pixel */
    int64_t row_step, place_step;  /* floats of x from place to place, of two lines and of a line */
    const uint32_t *rows, *places; /* of each line and pixel, bits of those that lie in the image */
    dn_gradient_range whole;       /* pixels for which all places do */
    float *sums;                   /* a vector for each place, to which is added */
    int64_t sums_row;              /* floats from line to line */
} dn_gradient_lines;

/* `count` floats of each of n pixels, `step` floats apart, to `width` floats each, zeros behind
 * them. Both are at most DN_GRADIENT_VECTORS vectors. */
typedef struct dn_gradient_pack {
    const float *from;
    int64_t n, step, count, width;
    int64_t next; /* floats to the line that is packed next, for prefetching */
} dn_gradient_pack;

typedef struct dn_gradient_isa {
    int64_t lanes, rows;
    /* What run_lines takes at once, at most: places of a line of the window, lines, and places. */
    int64_t places, window_rows, window_sums;
    void (*run)(const dn_gradient_tile *tile, int64_t rows, int64_t vectors);
    void (*run_lines)(const dn_gradient_lines *lines, int64_t rows, int64_t places);
    void (*pack)(const dn_gradient_pack *pack, float *to);
} dn_gradient_isa;

const dn_gradient_isa *dn_gradient_512(void); /* AVX-512F */
const dn_gradient_isa *dn_gradient_256(void); /* AVX2 and FMA */

/* The numbers of a call. */
typedef struct dn_gradient {
    const dn_op *op;
    const dn_sizes *s;
    void *const *at;
    const dn_gradient_isa *isa;
    int64_t in[DN_GRADIENT_AXES], out[DN_GRADIENT_AXES], kernel[DN_GRADIENT_AXES];
    int64_t stride[DN_GRADIENT_AXES], dilation[DN_GRADIENT_AXES], pad[DN_GRADIENT_AXES];
    int64_t x_dim[DN_GRADIENT_AXES], g_dim[DN_GRADIENT_AXES], w_dim[DN_GRADIENT_AXES];
    int64_t channels, features; /* of a group */
    int64_t places;             /* of the window */
    bool is_place_major; /* of the sums of a tile, those of one place lie one behind the other */
} dn_gradient;

/* ---- dn_gradient_weights.c ---- */

/* Sums, n vectors one behind the other, to n weights of each of `count` features: those of places
 * from `first` on of a window, and of windows of the channels behind. */
void dn_gradient_give(const dn_gradient *d, const float *sums, int64_t n, int64_t count,
                      int64_t first, float *weights);

/* Pixels of both; empty ones begin where the later one does. */
dn_gradient_range dn_gradient_both(dn_gradient_range a, dn_gradient_range b);
/* Those of an axis whose window has a pixel of the image at place k. */
dn_gradient_range dn_gradient_met(const dn_gradient *d, uint32_t axis, int64_t k);
/* Those whose window has one at each of these places. */
dn_gradient_range dn_gradient_met_by_all(const dn_gradient *d, uint32_t axis,
                                         dn_gradient_range places);

/* Lines of the image on an axis that `n` lines of the output meet, at most. */
int64_t dn_gradient_lines_met(const dn_gradient *d, uint32_t axis, int64_t n);
/* Those that these lines of the output meet. */
dn_gradient_range dn_gradient_lines_of(const dn_gradient *d, uint32_t axis, dn_gradient_range out);

/* ---- dn_gradient_depthwise.c ---- */

uint64_t dn_gradient_depthwise_scratch(const dn_gradient *d);
stator_status dn_gradient_depthwise_run(const dn_gradient *d, stator_ctx *ctx, stator_diag **err);

/* ---- tiles/dn_wino_gradient.c ---- */

/* The sizes are for dn_wino_gradient_run. */
bool dn_wino_gradient_takes(const dn_op *op, const dn_sizes *sizes);
uint64_t dn_wino_gradient_scratch(const dn_gradient *d);
stator_status dn_wino_gradient_run(const dn_gradient *d, stator_ctx *ctx, stator_diag **err);

#endif
