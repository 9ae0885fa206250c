/* A call of dn_tiles.c: its sizes and how it is cut (dn_tiles_job.c). */
#ifndef STATOR_CPU_LLVM_DN_TILES_JOB_H
#define STATOR_CPU_LLVM_DN_TILES_JOB_H

#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include <stdatomic.h>

#define DN_TILE_ALIGN 64
#define DN_SUMS_PITCH (DN_TILE_PIXELS + DN_TILE_LANES_MAX) /* sums of a feature, in scratch */

/* The terms that sums of integers get before they become f32, by feature of a panel. */
typedef struct dn_zero_terms {
    int32_t column[DN_TILE_COLUMNS_MAX], factor[DN_TILE_COLUMNS_MAX], weights[DN_TILE_COLUMNS_MAX];
    float times[DN_TILE_COLUMNS_MAX], bias[DN_TILE_COLUMNS_MAX]; /* dn_finish's */
} dn_zero_terms;

/* The facts that all blocks of a call share. */
typedef struct dn_job {
    const dn_op *op;
    const st_contraction *contraction;
    void *const *at;
    dn_sizes s;
    const dn_tiles_isa *isa;
    int64_t columns; /* columns of a panel */
    int is_bytes, is_wino;
    bool is_image; /* a convolution that is no product */
    bool is_transposed;
    bool is_last[2];          /* channels of the image that comes in, or goes out, are contiguous */
    bool is_copied;           /* the image, or the rows of a product */
    bool is_tight;            /* dn_tiles_is_tight */
    bool is_winograd_product; /* dn_tiles_is_winograd_product */
    int64_t features, channels;
    int64_t size;        /* bytes of an element of x */
    int64_t group_bytes; /* bytes of a panel's row of weights */
    int64_t depth;       /* groups of a pixel, or of a row */
    dn_sections sections;
    int64_t section_panels, section_depth; /* panels of a section, groups of a pixel they meet */
    int64_t places_at[DN_SINGLES_MAX + 1]; /* dn_tile.places of singles */
    int64_t pixel;                         /* bytes of a pixel in scratch */
    int64_t run;  /* groups of a line of the window, where they follow each other */
    int has_rest; /* the last group of a run has one element (dn_tile) */
    /* Sizes of an image; a product is one line, whose pixels are its rows. */
    int64_t images, lines, width;
    int64_t in_lines, in_width, kernel_lines, kernel_width;
    int64_t stride[2], pad[2];
    dn_phases phases[2];
    bool is_mixed;          /* more than one phase: no line's sums are whole before all are there */
    bool is_col2im;         /* dn_tiles_is_col2im */
    int64_t products;       /* col2im: rows of the weights, and of the products */
    int64_t products_step;  /* col2im: elements from one row of products to the next */
    int64_t left;           /* pixels before the image's in a line of scratch */
    int64_t pitch;          /* bytes of a line in scratch */
    int32_t x_zero, y_zero; /* zero points where one is for all */
    bool has_row_sums;
    uint32_t flip, fill;
    bool is_cut; /* places of the window above and below the image are left out, not filled */
    const dn_zero_terms *zero_terms; /* sums of bytes: the terms of each panel */
    /* Weights. */
    const int32_t *column_sums;
    const char *weights;
    int64_t panels, panel_bytes;
    bool is_packed; /* before the call */
    /* Each panel of weights that come with the call meets one block: the thread that multiplies it
     * makes Winograd's form of it then, which is read while it is in a cache. */
    bool is_panel_made;
    /* Blocks: of so many lines (rows), an image (product) has so many; panels in so many parts. */
    int64_t block, blocks, parts;
    int64_t image_chunks;   /* chunks of `together` images */
    int64_t together;       /* images in scratch at a time, as Winograd tiles */
    int64_t places;         /* places of a Winograd tile */
    int64_t across;         /* Winograd tiles of a line */
    int64_t winograd_tiles; /* Winograd tiles in scratch */
    int64_t scratch_lines;  /* lines of the input in scratch for a block */
    struct {
        int64_t sums, panel, transposed, row_sums, winograd_tiles, products, copy, all;
    } bytes; /* the parts of a thread's scratch */
    _Atomic int has_failed;
} dn_job;

/* Sets *j from a part (borrowed) of sizes (simplified) that dn_tiles_describe takes, but for
 * what comes with the call (at, zero points, weights). Weights are packed before the call for
 * plans alone that keep them, whatever became of the op's others. False: numbers are too large
 * for it. */
bool dn_job_init(dn_job *j, const dn_op *op, const dn_tiles_part *part, uint32_t is_wino,
                 bool is_packed);

/* Bytes of the packed weights. */
int64_t dn_job_packed_bytes(const dn_job *j);

/* Winograd's form of a panel of weights of f32 at y, in j->panel_bytes at `to` (dn_tiles_pack.c).
 */
void dn_job_transform_taps(const dn_job *j, const void *y, int64_t panel, float *to);

/* ---- dn_tiles_zero_points.c ---- */

/* The zero point of operand k in the bytes that are multiplied; `each`: of which row or feature. */
int32_t dn_job_zero(const dn_job *j, uint32_t k, int64_t each);
/* Has the epilogue a bias of integers, which the zero terms include? */
bool dn_job_has_bias(const st_contraction *contraction);
/* The factors of x's zero point for the panel's places of these phases, by feature. */
void dn_job_weigh_zero(const dn_job *j, int64_t panel, const dn_phase *down, const dn_phase *across,
                       int32_t *out);
/* Zero points of this call, and what follows from them. */
void dn_job_set_zeros(dn_job *j);
/* Makes j->zero_terms, in so many bytes at `to`. */
uint64_t dn_job_zero_terms_bytes(const dn_job *j);
void dn_job_make_zero_terms(dn_job *j, void *to, stator_ctx *ctx);

/* Bytes of the sums of each phase's weights, before the panels: none but for bytes. */
static inline int64_t dn_job_sums_bytes(const dn_job *j)
{
    const int64_t sums = j->panels * j->phases[0].n * j->phases[1].n * j->columns;
    return j->isa->sum_bytes ? sums * (int64_t)sizeof(int32_t) : 0;
}

/* A group of bytes that are all the same. */
static inline uint32_t dn_job_group(const dn_job *j, uint32_t byte)
{
    return byte * (j->isa->size == 1 ? 0x01010101u : 0x00010001u);
}

/* ---- dn_tiles_col2im.c ---- */

typedef struct dn_range {
    int64_t begin, end;
} dn_range;

/* Pixels of an image, [channels][pixels] or [pixels][channels], to a panel, [channels][columns]. */
void dn_col2im_load(const dn_job *j, const char *image, const dn_range *pixels, char *to);

/* The products of a panel with all rows of the weights, aligned to 64. */
void dn_col2im_multiply(const dn_job *j, const char *panel, float *to);

/* Products with all positions of the window, [position][feature][pixel]. */
typedef struct dn_col2im {
    const dn_job *job;
    const float *products;
    int64_t top;   /* line of the image that is the first */
    float *phases; /* scratch of DN_SUMS_PITCH elements a feature, [feature][phase][pixel] */
    int64_t phases_step;
} dn_col2im;

/* n pixels of a line of the output from x on, and where their sums go, in elements: from pixel to
 * pixel and from feature to feature. */
typedef struct dn_pixels {
    int64_t x, n;
    float *sums;
    int64_t step, feature;
} dn_pixels;

/* The sums of line y. Fewer than DN_PHASES_MAX pixels behind the last one are overwritten. */
void dn_col2im_sum(const dn_col2im *c, int64_t y, const dn_pixels *pixels);

/* The first feature of a panel, and how many it has. */
static inline int64_t dn_job_feature(const dn_job *j, int64_t panel)
{
    return panel / j->section_panels * j->sections.features +
           panel % j->section_panels * j->columns;
}

static inline int64_t dn_job_features(const dn_job *j, int64_t panel)
{
    const int64_t left = j->sections.features - panel % j->section_panels * j->columns;
    return dn_least(j->columns, dn_least(left, j->features - dn_job_feature(j, panel)));
}

/* Lines of the output, in whole Winograd tiles. */
static inline int64_t dn_job_rounded(const dn_job *j, int64_t lines)
{
    return j->is_wino ? dn_parts(lines, j->isa->winograd_tile) * j->isa->winograd_tile : lines;
}

static inline const dn_phase *dn_job_phase(const dn_job *j, uint32_t axis, int64_t at)
{
    const dn_phases *all = &j->phases[axis];
    return &all->of[(at + j->pad[axis]) % all->n];
}

/* Elements of the output before an image's. */
static inline int64_t dn_job_image_out(const dn_job *j, int64_t image)
{
    const dn_slices *slices = &j->s.slices;
    return slices->n == 0 ? image * j->s.out.dims[0]
                          : image / slices->out * j->s.out.dims[0] + slices->out_first +
                                image % slices->out * slices->out_step;
}

/* Groups of a line of the window. */
static inline int64_t dn_job_run(const dn_job *j, const dn_phase *across)
{
    return j->is_tight ? j->run : across->places * j->section_depth;
}

/* Line (axis 0) or pixel (1) of the image that the window meets first for this one of the
 * output. */
static inline int64_t dn_job_met(const dn_job *j, uint32_t axis, int64_t at)
{
    return j->is_transposed
               ? (at + j->pad[axis]) / j->stride[axis] - dn_job_phase(j, axis, at)->back
               : at * j->stride[axis] - j->pad[axis];
}

/* The first line or pixel that this one of the output and the following ones meet, of all phases.
 */
static inline int64_t dn_job_first_met(const dn_job *j, uint32_t axis, int64_t at)
{
    return j->is_transposed ? (at + j->pad[axis]) / j->stride[axis] - j->phases[axis].back
                            : dn_job_met(j, axis, at);
}

/* Lines of the input, in scratch, that so many lines of the output need, wherever they begin. */
static inline int64_t dn_job_lines(const dn_job *j, int64_t lines)
{
    return j->is_transposed
               ? dn_parts(lines - 1, j->stride[0]) + j->phases[0].back + 1
               : (lines - 1) * j->stride[0] + (j->kernel_lines - 1) * j->phases[0].dilation + 1;
}

#endif
