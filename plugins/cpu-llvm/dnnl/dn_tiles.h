/* Products and convolutions of bf16 and of bytes: what the driver (dn_tiles.c), its weights
 * (dn_tiles_pack.c) and the inner loops (dn_tiles_512.c) share.
 *
 * Elements of the sum lie in groups of four bytes, two of bf16 or four of bytes, of which one
 * instruction sums the products. Weights are signed bytes and what they meet is unsigned; the other
 * kind is moved by 128, and so is its zero point. */
#ifndef STATOR_CPU_LLVM_DN_TILES_H
#define STATOR_CPU_LLVM_DN_TILES_H

#include "dn.h"

#define DN_TILE_ROWS 14    /* of a tile: 28 sums of 16 lanes leave registers for their operands */
#define DN_TILE_COLUMNS 32 /* of a panel of weights */
#define DN_TILE_GROUP 4    /* bytes */
#define DN_TILE_PIXELS 128 /* rows of sums that are finished together, at most */
#define DN_TILE_LANES 16
#define DN_TILE_AHEAD 128 /* bytes; of an image that is asked for while others are regrouped */

/* Rows of sums against a panel: sums over `lines` times `pixels` runs of `length` groups. */
typedef struct dn_tile {
    const char *x; /* of the first row */
    int64_t row;   /* bytes from row to row, as are the following */
    int64_t lines, line, pixels, pixel;
    int64_t length;
    const char *weights;
    int32_t *sums; /* out: [rows][DN_TILE_COLUMNS], f32 for bf16; aligned to 64 */
} dn_tile;

/* Elements of an image, [channels][pixels], to groups of channels, [pixels][depth]. */
typedef struct dn_regroup {
    const char *from;
    int64_t plane; /* elements from channel to channel */
    int64_t channels;
    int64_t first, n; /* pixels */
    int64_t width;    /* pixels of a line; */
    char *to;         /* where pixel `first` goes, which begins a line */
    int64_t depth;    /* groups of a pixel */
    int64_t line;     /* bytes from line to line of `to` */
    uint32_t flip;    /* each group is xored with it */
    uint32_t fill;    /* four bytes of what channels are that there are not */
} dn_regroup;

/* Sums that become elements of the output, in vectors: 16 features of a row, two vectors a row; or
 * 16 pixels of a feature. */
typedef struct dn_finish {
    const st_form *form;
    void *const *at;
    int is_across;                      /* lanes are features */
    int64_t n;                          /* vectors */
    const float (*sums)[DN_TILE_LANES]; /* of integers: their bits */
    int64_t feature;                    /* the first */
    int64_t out;                        /* place in the output of the first element; */
    int64_t step;                       /* to the next row, or feature */
    uint16_t
        mask[2]; /* lanes that there are, of even and odd vectors (the same where not across) */
    /* Integers: first sum + column, and + row_sums * factor. By feature; row_sums NULL: nothing. */
    const int32_t *column, *factor;
    const int32_t *row_sums; /* by row or pixel */
    /* + row_zeros * weights, across alone: by row; NULL: nothing; and by feature. */
    const int32_t *row_zeros, *weights;
    uint32_t first_row; /* of the epilogue */
} dn_finish;

/* 1: this processor runs the loops for bf16 (is_half) or bytes. */
int dn_tiles_is_able(int is_half);
/* Bytes of the sums of weights before the panels. */
int64_t dn_tiles_sums_bytes(int64_t panels);
void dn_tile_run(const dn_tile *t, int64_t rows, int is_half);
void dn_regroup_run(const dn_regroup *r, int is_half);
/* Sums of the `groups` groups of bytes at x, unsigned. */
int32_t dn_sum_bytes(const char *x, int64_t groups);
/* 16 rows of DN_TILE_COLUMNS sums to vectors of 16 rows each. Rows past n are read, too. */
void dn_turn_sums(const int32_t *sums, float to[DN_TILE_COLUMNS][DN_TILE_LANES]);
void dn_finish_run(const dn_finish *f);

#endif
