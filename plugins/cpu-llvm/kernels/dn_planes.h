/* Convolutions with a group for each channel, images with channels first: what the driver
 * (dn_planes.c) and the inner loops of each instruction set share.
 *
 * dn_planes_isa.h and dn_blocked_isa.h are the text of the inner loops; dn_planes_512.c and _256.c
 * are that text for vectors of 64 and 32 bytes. */
#ifndef STATOR_CPU_LLVM_DN_PLANES_H
#define STATOR_CPU_LLVM_DN_PLANES_H

#include "plugins/cpu-llvm/kernels/dn.h"

/* Some lines of a feature's plane of the output. What they meet lies padded in memory, every
 * `stride`-th pixel of a line contiguous, so that neighbours in the output meet neighbours. */
typedef struct dn_plane {
    const dn_op *op;
    void *const *at;
    const float *x; /* the float that place 0 of the window meets for the first pixel */
    int64_t line;   /* floats from x to the same of the next line */
    int64_t lines, width;
    int64_t places;        /* positions of the window */
    const int64_t *offset; /* floats from x to what each place meets */
    const float *weights;  /* the weight of each place */
    /* Places of a line of the window, where the next line of the output meets the same lines of
     * the image one later, so that it meets at place i + shift what this line meets there with the
     * weight of place i; there are as many offsets more. 0: it does not. */
    int64_t shift;
    const float *ask;  /* the image's next lines, prefetched for later */
    int64_t ask_bytes; /* bytes to prefetch for each line of the output */
    int64_t feature;
    int64_t out;      /* place of the first pixel in the output */
    int64_t out_line; /* floats of the output from line to line */
} dn_plane;

/* Lines of an image between zeros: `width` floats each, of which those from `begin` to `end` - 1
 * are copied. Up to a vector behind the last line is written, too. */
typedef struct dn_padding {
    const float *from; /* the first float copied */
    int64_t line;      /* floats of `from` from line to line */
    int64_t lines, width, begin, end;
} dn_padding;

typedef struct dn_planes dn_planes;

/* Some lines of the planes of a vector's lanes, a vector a pixel: those of `count` features from
 * `feature` on, and of the last one in the lanes behind. */
typedef struct dn_block {
    const dn_planes *p;
    int64_t feature, count;
    int64_t lines;     /* lines of x, `pitch` pixels each; others are zeros */
    int64_t top;       /* line of x that the first line of the window and of out meet */
    int64_t out_lines; /* lines of out, dense */
    const float *x;
    const float *weights; /* a vector for each place */
    float *out;
} dn_block;

typedef struct dn_planes_isa {
    int64_t lanes;
    void (*run)(const dn_plane *p);
    /* Every second one of 2 * n - 1 floats. */
    void (*take_second)(const float *from, int64_t n, float *to);
    void (*pad_lines)(const dn_padding *p, float *to);
    /* Pixels first to first + n - 1 of each lane's row to vectors: pixel first + i is the one at
     * place[i] of `to`. */
    void (*to_vectors)(const float *const *rows, int64_t first, int64_t n, const int64_t *place,
                       float *to);
    /* n vectors to pixels first to first + n - 1 of each lane's row. */
    void (*to_rows)(const float *from, int64_t first, int64_t n, float *const *rows);
    void (*run_block)(const dn_block *b);
} dn_planes_isa;

/* The numbers of a call; axis 0 is that of lines, of one for sequences. */
struct dn_planes {
    dn_lib *lib;
    const dn_op *op;
    const dn_sizes *s;
    void *const *at;
    const dn_planes_isa *isa;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int64_t apart[2];         /* pixels from one of the image to the next, zeros between them */
    int64_t x_line, out_line; /* elements from line to line */
    int64_t w_step[2];
    int64_t places, table; /* positions of the window; entries of a table of them */
    int64_t phase;         /* floats of a line that are every stride-th pixel */
    int64_t pitch;         /* floats of a padded line; in dn_blocked.c pixels of one */
    int64_t block, blocks; /* lines of the output in a block, blocks of a plane */
    int64_t bytes;         /* scratch: offsets, weights, lines */
    bool is_blocked;       /* dn_blocked.c does it */
    _Atomic int has_failed;
};

const dn_planes_isa *dn_planes_512(void); /* AVX-512F */
const dn_planes_isa *dn_planes_256(void); /* AVX2 and FMA */

/* ---- dn_planes_weights.c ---- */

/* A feature's weights, by place; those of a transposed convolution from the last to the first. */
void dn_planes_weights(const dn_planes *p, int64_t feature, float *weights);
/* Zeros that stand between pixels are no part of a transposed convolution: times weights that
 * are not finite they would be NaN. */
bool dn_planes_may_meet_zeros(const dn_planes *p);

/* ---- dn_blocked.c ---- */

/* Are these planes done a vector's lanes at a time? Then sets pitch, block, blocks and bytes. */
bool dn_blocked_init(dn_planes *p);
/* Blocks of all planes; run_range takes a range of them, and a dn_planes. */
int64_t dn_blocked_count(const dn_planes *p);
void dn_blocked_run_range(void *self, int64_t begin, int64_t end);

#endif
