/* Products and convolutions by kernels of our own, weights in panels: what the driver (dn_tiles.c),
 * its weights (dn_tiles_pack.c) and the inner loops share (dn_tiles_512.c for bf16
 * and bytes, dn_tiles_256.c for f32 and bytes).
 *
 * Elements of the sum lie in groups of four bytes: one of f32, or two of bf16 or four of bytes, of
 * which one instruction sums the products; or two of bytes, made words in scratch, where no
 * instruction takes bytes exactly. Weights are signed bytes and what they meet is unsigned; the
 * other kind is moved by 128, and so is its zero point. dn_tiles_wino.c has Winograd's way, where
 * `float *` stands for groups and sums of bytes as well. */
#ifndef STATOR_CPU_LLVM_DN_TILES_H
#define STATOR_CPU_LLVM_DN_TILES_H

#include "plugins/cpu-llvm/kernels/dn.h"

#include <string.h>

#define DN_TILE_GROUP 4          /* bytes */
#define DN_TILE_PIXELS 128       /* rows of sums that are finished together, at most */
#define DN_TILE_LANES_MAX 16     /* lanes of a vector, at most */
#define DN_TILE_COLUMNS_MAX 32   /* columns of a panel of weights: two vectors */
#define DN_FINISH_VECTORS 8      /* vectors that are finished together, best */
#define DN_FINISH_BYTE_ROWS 64   /* rows that become bytes together, best */
#define DN_TILE_WHOLE_MAX 512.0f /* quotients above make the same byte, whatever the offset */
#define DN_TILE_ASK 8            /* groups from one prefetched line of weights to the next */
#define DN_TILE_AHEAD 128        /* bytes of an image that a regroup prefetches ahead */
#define DN_PHASES_MAX 16         /* largest stride of a transposed convolution */
#define DN_SLICES_MAX ((int64_t)1 << 16) /* extents of a depth axis: products stay in 64 bits */
#define DN_SINGLES_MAX 64  /* places of a window of a convolution with a group a channel */
#define DN_TILE_PAIR 64    /* bytes: weights of two places then, of 16 channels; words of a group */
#define DN_TILE_COLUMN 256 /* bytes: four places of 32 channels twice (dn_depthwise_512.c) */
#define DN_WINOGRAD_PRODUCT_ROWS 4 /* rows of a tile of `run_winograd_product` */
#define DN_FLOATS_ROWS 14          /* rows of a tile of f32 with AVX-512 */

/* Rows of sums against a panel: sums over `lines` times `pixels` runs of `length` groups. */
typedef struct dn_tile {
    const char *x;                      /* the first row */
    int64_t row;                        /* bytes from row to row */
    int64_t lines, line, pixels, pixel; /* line, pixel: bytes from one to the next */
    int64_t length;
    int has_rest; /* a run has one more group, of which the first element alone is there */
    const char *weights;
    const char *ask;       /* the address to prefetch first while the tile runs */
    int64_t ask_step;      /* bytes from one prefetch to the next: a cache line, or 0 */
    const int32_t *starts; /* run_winograd_product: the first value of the sums, by row */
    const char *first;     /* run_winograd_product: the same of the weights, by column */
    const int64_t *places; /* run_singles of words: bytes from x to each place of the window */
    int32_t *sums;         /* out: rows of columns, f32 but for bytes; aligned to 64 */
    int64_t step;          /* sums from row to row */
} dn_tile;

/* Elements of an image, [channels][pixels], to groups of channels, [pixels][depth]. */
typedef struct dn_regroup {
    const char *from;
    int64_t plane; /* elements from channel to channel */
    int64_t channels;
    int64_t first, n; /* pixels */
    int64_t width;    /* pixels of a line */
    char *to;         /* place of pixel `first`, which begins a line */
    int64_t depth;    /* groups of a pixel that are written */
    int64_t pixel;    /* bytes of `to` from pixel to pixel */
    bool is_tight;    /* pixels follow each other without filled groups */
    int64_t line;     /* bytes from line to line of `to` */
    uint32_t flip;    /* each group is xored with it */
    uint32_t fill;    /* the group that stands for channels past the last one */
} dn_regroup;

/* Sums that become elements of the output, in vectors: features of a row, two vectors a row; or
 * pixels of a feature. */
typedef struct dn_finish {
    const st_contraction *contraction;
    void *const *at;
    bool is_across;    /* lanes are features */
    int64_t n;         /* vectors */
    const float *sums; /* sums of integers are here as their bits */
    int64_t pitch;     /* elements of sums from vector to vector where lanes are pixels */
    int64_t feature;   /* the first */
    int64_t out;       /* place in the output of the first element */
    int64_t step;      /* elements of the output to the next row, or feature */
    /* Lanes in use of even and of odd vectors (the same where not across). */
    uint16_t mask[2];
    /* A sum of integers becomes sum + column + row_sums * factor + row_zeros * weights first. */
    const int32_t *column, *factor;     /* by feature */
    const int32_t *row_sums;            /* by row or pixel; NULL: the term is 0 */
    const int32_t *row_zeros, *weights; /* across alone, by row and by feature; NULL: it is 0 */
    uint32_t first_row;                 /* the epilogue's row to begin with */
    /* For finish_bytes: the factor and the summand of each feature, both divided by the epilogue's
     * divisor. */
    const dn_to_bytes *to_bytes;
    const float *times, *bias;
} dn_finish;

/* Pixels of the edge of a tile that Winograd's way brings: F(4,3) of floats, F(2,3) of bytes. */
#define DN_WINO_FLOATS 4
#define DN_WINO_BYTES 2
/* Points of Winograd's F(4,3). */
#define DN_WINO_A 0.625
#define DN_WINO_B 1.5

/* Pixels of channels, [channels][plane], to a panel of so many columns, n of them, [channels]
 * [columns]. */
typedef struct dn_panel {
    const float *from;
    int64_t plane, channels, n, columns;
    float *to;
} dn_panel;

/* For n contiguous pixels of each feature the sum over `lines` times `positions` of the window;
 * steps are elements. */
typedef struct dn_positions {
    const float *from;
    int64_t lines, line, positions, position, features, from_step, n;
    float *to;
    int64_t to_step; /* elements of `to` from feature to feature */
} dn_positions;

/* [every][n] elements to [n][every], `step` apart. */
typedef struct dn_interleave {
    const float *from;
    int64_t every, n;
    float *to;
    int64_t step;
} dn_interleave;

/* Taps of 3x3 windows, of a panel's features and all their channels: how many, and elements from
 * one to the next. */
typedef struct dn_wino_taps {
    const float *from;
    int64_t features, feature, channels, channel;
    int64_t line, place; /* negative: from the last tap to the first */
    float *to;    /* [places][channels][columns], aligned to 64; others' columns are any numbers */
    int64_t step; /* elements of `to` from place to place */
} dn_wino_taps;

/* 4 x 4 pixels of up to 16 features of what arrived at the output, to 36 places of 16, with zeros
 * behind the features. */
typedef struct dn_wino_gradient_tile {
    const float *from;
    int64_t line, pixel; /* floats from line to line, and from pixel to pixel */
    int64_t features;
    float *to;
    int64_t step; /* floats from place to place */
} dn_wino_gradient_tile;

/* The inner loops for one kind of elements. A panel has two vectors of columns. */
typedef struct dn_tiles_isa {
    int64_t rows;      /* rows of a tile, at most: its sums leave registers for their operands */
    int64_t lanes;     /* lanes of a vector */
    int64_t size;      /* bytes of an element of a group; of x it may have fewer */
    bool may_be_tight; /* `regroup` leaves the filling of groups out (dn_tiles_is_tight) */
    void (*run)(const dn_tile *t, int64_t rows);
    void (*regroup)(const dn_regroup *r);
    /* n contiguous elements to their size in groups, each group xored with flip. NULL: they have
     * it and are never flipped. */
    void (*widen)(const char *from, int64_t n, uint32_t flip, char *to);
    /* Sums of the elements of the `groups` groups at x, unsigned; NULL but for bytes. */
    int32_t (*sum_bytes)(const char *x, int64_t groups);
    /* Makes a vector of each column of as many rows of sums as there are lanes. That many rows are
     * read, also where fewer count. */
    void (*transpose_sums)(const int32_t *sums, float *to);
    void (*finish)(const dn_finish *f);
    /* Finishes by f->to_bytes, lanes being features. NULL: `finish` does it. */
    void (*finish_bytes)(const dn_finish *f);
    /* The loops of col2im (dn_tiles_col2im.c); NULL but for f32. */
    void (*copy_panel)(const dn_panel *p);
    void (*sum_positions)(const dn_positions *p);
    void (*interleave)(const dn_interleave *p);
    /* `run` for a section of groups of four channels and features (dn_sections): row u of
     * the weights at a place of the window meets channel u of each feature's group, and `length` is
     * 4. NULL: it has none. */
    void (*run_fours)(const dn_tile *t, int64_t rows);
    /* `run` for a section of groups of one channel and feature: `length` pairs of `places`,
     * or of bytes `pixels` columns of `lines`. NULL: it has none. */
    void (*run_singles)(const dn_tile *t, int64_t rows);
    /* `run` for rows of an even number of groups, DN_WINOGRAD_PRODUCT_ROWS at most: half the
     * products (dn_winograd_product_256.c), against words. NULL: it has none. */
    void (*run_winograd_product)(const dn_tile *t, int64_t rows);
    /* The value with which the sums of a row of so many groups begin. */
    int32_t (*start_winograd_product)(const char *x, int64_t groups);
    /* A panel of so many groups, of bytes, to words. */
    void (*widen_winograd_product)(const char *from, int64_t groups, char *to);
    /* Winograd's tiles, of so many pixels an edge as they come out; 0: it has none. They are made
     * of tiles with two more, one group for each channel or channels of one. */
    int64_t winograd_tile;
    /* `run` for operands that are transformed already. */
    void (*wino_run)(const dn_tile *t, int64_t rows);
    /* A tile of pixels, of `groups` contiguous and with `line` groups from line to line, to as
     * many places (36 or 16), `step` groups from one to the next. */
    void (*wino_in)(const float *x, int64_t line, int64_t groups, int64_t step, float *to);
    /* The places' rows of columns, `step` sums from one to the next, to lines of n rows of columns,
     * the lines `width` rows apart. */
    void (*wino_out)(const float *from, int64_t step, int64_t lines, int64_t n, int64_t width,
                     float *to);
    /* The weights of a panel; NULL but for f32. */
    void (*wino_taps)(const dn_wino_taps *t);
    /* The same of gradients to weights, and back (dn_wino_gradient.c). NULL: it has none. */
    void (*wino_gradient_in)(const dn_wino_gradient_tile *t);
    /* 36 vectors of sums, `step` floats apart, to those of the nine taps. */
    void (*wino_gradient_out)(const float *sums, int64_t step, float *to);
} dn_tiles_isa;

/* Winograd's tiles of one or more images, `across` of them a line. */
typedef struct dn_wino {
    const dn_tiles_isa *isa;
    int64_t depth; /* groups */
    int64_t across, tiles;
    float *inputs; /* [places][tiles][depth], places dn_wino_step apart */
    float *sums;   /* [places][tiles][columns], as far apart; aligned to 64, as what they become */
} dn_wino;

/* Elements from a place of n elements to the next: an odd number of cache lines, as all places of a
 * tile are written, or read, together, and would meet in few sets of the caches. */
static inline int64_t dn_wino_step(int64_t n)
{
    return ((n + 15) / 16 | 1) * 16;
}

/* `down` lines of tiles of an image, padded, with `pitch` bytes a line, to tiles from `first`
 * on. */
void dn_wino_load(const dn_wino *b, const char *x, int64_t pitch, int64_t down, int64_t first);
/* The products with a panel, [places][depth][columns] groups, places dn_wino_step apart. */
void dn_wino_panel(const dn_wino *b, const char *weights);
/* A line of tiles, from `first` on, to lines of `width` rows of columns. */
void dn_wino_store(const dn_wino *b, int64_t first, int64_t lines, int64_t width, float *to);

/* `wino_in`, `wino_out` and `wino_taps` of AVX2 (dn_wino_256.c), of floats and of words. */
void dn_wino_in_256(const float *x, int64_t line, int64_t groups, int64_t step, float *to);
void dn_wino_out_256(const float *from, int64_t step, int64_t lines, int64_t n, int64_t width,
                     float *to);
void dn_wino_taps_256(const dn_wino_taps *t);
void dn_wino_words_in_256(const float *x, int64_t line, int64_t groups, int64_t step, float *to);
void dn_wino_words_out_256(const float *from, int64_t step, int64_t lines, int64_t n, int64_t width,
                           float *to);
/* The tiles' `wino_gradient_in` and `_out` of AVX2. */
void dn_wino_gradient_in_256(const dn_wino_gradient_tile *t);
void dn_wino_gradient_out_256(const float *sums, int64_t step, float *to);

/* `run_winograd_product` and what it needs, of AVX2 (dn_winograd_product_256.c). */
void dn_widen_winograd_product_256(const char *from, int64_t groups, char *to);
void dn_run_winograd_product_256(const dn_tile *t, int64_t rows);
int32_t dn_start_winograd_product_256(const char *x, int64_t groups);

/* The loops of col2im over f32 (dn_col2im_256.c), which AVX-512 uses as well. */
void dn_copy_panel_256(const dn_panel *p);
void dn_sum_positions_256(const dn_positions *p);
void dn_interleave_256(const dn_interleave *p);

/* `run_singles` of AVX2 (dn_depthwise_256.c) and of AVX-512 (dn_depthwise_512.c). */
void dn_run_singles_256(const dn_tile *t, int64_t rows);
void dn_run_singles_512(const dn_tile *t, int64_t rows);

/* `regroup` of f32 with AVX2, which AVX-512 has as well. */
void dn_regroup_floats_256(const dn_regroup *r);

/* `run` of f32 with AVX-512, for panels of AVX2's width (dn_floats_512.c). */
void dn_run_floats_512(const dn_tile *t, int64_t rows);

/* `finish_bytes` of AVX2 (dn_bytes_256.c) and of AVX-512 (dn_bytes_512.c). */
void dn_finish_bytes_256(const dn_finish *f);
void dn_finish_bytes_512(const dn_finish *f);

/* The inner loops that this processor has. NULL: it has none for x of this dtype. */
#if defined(__x86_64__)
const dn_tiles_isa *dn_tiles_512(uint32_t dtype); /* bf16, bytes */
const dn_tiles_isa *dn_tiles_256(uint32_t dtype); /* f32, bytes */
const dn_tiles_isa *dn_tiles_floats_512(void);    /* f32, panels of AVX2's width */
const dn_tiles_isa *dn_tiles_wide_512(void);      /* f32, panels of two vectors of AVX-512 */
#else
#define dn_tiles_512(dtype) NULL
#define dn_tiles_256(dtype) NULL
#define dn_tiles_floats_512() NULL
#define dn_tiles_wide_512() NULL
#endif
/* The narrowest for x of this dtype, and the one that does a contraction of these (simplified)
 * sizes. */
const dn_tiles_isa *dn_tiles_isa_of(const dn_lib *lib, uint32_t dtype);
const dn_tiles_isa *dn_tiles_isa_for(const dn_lib *lib, const st_contraction *contraction,
                                     const dn_sizes *s);

static inline int64_t dn_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t dn_parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Elements of a group. */
static inline int64_t dn_tiles_together(const dn_tiles_isa *isa)
{
    return DN_TILE_GROUP / isa->size;
}

/* Lanes in use of a vector with so many left (dn_finish.mask). */
static inline uint16_t dn_tiles_mask(const dn_tiles_isa *isa, int64_t left)
{
    const int64_t lanes = dn_least(left, isa->lanes);
    return (uint16_t)(lanes > 0 ? (1u << lanes) - 1u : 0u);
}

static inline int64_t dn_tiles_places(const dn_tiles_isa *isa)
{
    return (isa->winograd_tile + 2) * (isa->winograd_tile + 2);
}

/* A few contiguous channels, of elements of `size` bytes, which become `to_size` (1 or 2). */
static inline __attribute__((always_inline)) void dn_regroup_tight(const dn_regroup *r,
                                                                   const int64_t size,
                                                                   const int64_t to_size)
{
    const int64_t step = r->channels * to_size;
    for (int64_t y = 0; y < r->n / r->width; y++) {
        for (int64_t c = 0; c < r->channels; c++) {
            const char *from = r->from + (c * r->plane + r->first + y * r->width) * size;
            char *to = r->to + y * r->line + c * to_size;
            for (int64_t x = 0; x < r->width; x++, from += size, to += step) {
                uint16_t word = 0;
                memcpy(&word, from, (size_t)size); /* the low bytes: x86 */
                word ^= (uint16_t)(r->flip & 0xffu);
                memcpy(to, &word, (size_t)to_size);
            }
        }
    }
}

/* Pixels of few channels lie tightly in scratch, filling no groups: the window's line is one run of
 * groups, of which the last alone may have a rest (`has_rest`; of bytes it is filled with what
 * follows, times 0). */
bool dn_tiles_is_tight(const dn_tiles_isa *isa, const st_contraction *contraction,
                       const dn_sizes *s);

/* Are the products of these (simplified) sizes done by `run_winograd_product`? */
bool dn_tiles_is_winograd_product(const dn_tiles_isa *isa, const st_contraction *contraction,
                                  const dn_sizes *s);

/* Sections are what the groups of a convolution are to the panels: each has features of its own,
 * which meet some channels of a pixel. Else there is one. */
typedef struct dn_sections {
    int64_t n, features; /* sections, and features of one */
    int64_t channels;    /* channels that a feature meets: those of its group */
    int64_t step;        /* channels from a section's first one to that of the next */
    bool are_fours;      /* a section is four groups of four channels and features: `run_fours` */
    bool are_singles;    /* a section is a panel's columns of groups of one each: `run_singles` */
} dn_sections;
dn_sections dn_tiles_sections(const dn_tiles_isa *isa, const st_contraction *contraction,
                              const dn_sizes *s);

/* Lines (or pixels) of the output that meet the same places of the window. */
typedef struct dn_phase {
    int64_t places;
    int64_t first, step; /* the first place and the way to the next, in the image's order */
    int64_t back;        /* lines from the output's place in the image back to what is met first */
    int64_t before;      /* places of the phases before this one */
} dn_phase;

/* All there are along an axis; one but for transposed convolutions, of which a panel has those
 * adjacent places that a phase of lines and one of pixels meet. Line y is of phase (y + pad) %
 * n, and its place in the image (y + pad) / n. */
typedef struct dn_phases {
    int64_t n;
    int64_t dilation; /* lines of the image from place to place */
    int64_t back;     /* the most */
    dn_phase of[DN_PHASES_MAX];
} dn_phases;

/* The phases of the lines (axis 0) or of the pixels (1). Strides are DN_PHASES_MAX at most. */
dn_phases dn_tiles_phases(const st_contraction *contraction, const dn_sizes *s, uint32_t axis);

/* A contraction over one or two spatial axes: the whole of a contraction, or one depth phase of
 * a transposed convolution over three, whose images are the output slices of that phase. */
typedef struct dn_tiles_part {
    st_contraction contraction;
    dn_sizes sizes;
} dn_tiles_part;

/* How many parts a contraction has. */
int64_t dn_tiles_slices(const st_contraction *contraction);
/* Are the parts done here, as far as the depth axis tells? True without a depth axis. */
bool dn_tiles_are_slices_done(const st_contraction *contraction, const dn_sizes *s);
/* The part of depth phase `phase`. */
void dn_tiles_slice(const st_contraction *contraction, const dn_sizes *s, int64_t phase,
                    dn_tiles_part *out);

/* A transposed convolution of few features: each pixel of the image is multiplied with all
 * positions of the window, and col2im sums the products. Its weights are packed as rows,
 * [position][feature][channel]. */
bool dn_tiles_is_col2im(const st_contraction *contraction, const dn_sizes *s);

#endif
