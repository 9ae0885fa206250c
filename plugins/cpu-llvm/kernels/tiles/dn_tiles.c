/* Products and convolutions by kernels of our own: against weights, constant ones but for
 * Winograd's way, of bf16 and of bytes with AVX-512, of f32 and of bytes with AVX2 where there is
 * no more (oneDNN's f32 is as good with AVX-512 but for some convolutions, dn_tiles_are_second; its
 * bytes saturate without VNNI).
 *
 * Weights lie in panels of features, two vectors wide: [panel][place in the
 * window][group][feature]. A convolution takes one image, or as many of its lines as stay in a
 * core's cache, channels last and padded, into scratch; what comes out is transposed back a few
 * lines at a time while it is in the first cache, so that nothing but the image itself is read from
 * memory or written to it. A product reads its rows where they lie, but for bytes that become
 * words; so do pointwise convolutions of images with their channels last, products of all pixels.
 * Of a convolution with groups each has panels of its own (sections). Of a transposed one output
 * lines and pixels of a phase (dn_tiles_phases.c) are made together, their sums as far apart as the
 * pixels are, so that lines are finished whole. Threads take images, lines and panels concurrently.
 *
 * Sums of bytes are exact: what zero points add is integer arithmetic of the same width, with the
 * sums of the weights, known from packing, and those of the rows. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles_job.h"

#include "core/base/diag.h"

#include <string.h>

#define RANGES_A_THREAD 2 /* at most, of copied blocks */

/* The state of one thread. */
typedef struct worker {
    const dn_job *j;
    int64_t block;           /* the block in scratch; -1: none */
    int64_t image, first, n; /* the block's lines, or rows */
    int64_t images;          /* images in scratch, from `image` on */
    dn_wino winograd;
    int64_t top;   /* line of the image that is the first in scratch */
    const char *x; /* the first line in scratch */
    char *copy;
    float *products; /* the products of col2im, aligned to 64 */
    int32_t *row_sums, *row_zeros, *row_starts;
    int32_t *sums;
    char *panel; /* the weights that are met: words, or what is_panel_made tells of */
    float *transposed;
    const char *ask, *ask_end; /* the next panel, of which each tile asks for a part */
} worker;

static void worker_init(worker *w, const dn_job *j, char *scratch)
{
    *w = (worker){.j = j, .block = -1};
    w->sums = (int32_t *)(void *)scratch;
    scratch += j->bytes.sums;
    w->panel = scratch;
    scratch += j->bytes.panel;
    w->transposed = (float *)(void *)scratch;
    scratch += j->bytes.transposed;
    w->row_sums = (int32_t *)(void *)scratch;
    w->row_zeros = w->row_sums + j->bytes.row_sums / (int64_t)sizeof *w->row_sums;
    w->row_starts = w->row_zeros + j->bytes.row_sums / (int64_t)sizeof *w->row_sums;
    scratch += 3 * j->bytes.row_sums;
    w->winograd = (dn_wino){.isa = j->isa, .depth = j->depth, .across = j->across};
    w->winograd.sums = (float *)(void *)scratch;
    w->winograd.inputs =
        w->winograd.sums + j->places * dn_wino_step(j->winograd_tiles * j->columns);
    scratch += j->bytes.winograd_tiles;
    w->products = (float *)(void *)scratch;
    w->copy = scratch + j->bytes.products;
}

/* ---- a block's input ---- */

static const char *x_of(const dn_job *j)
{
    return j->at[DN_X];
}

static void fill_groups(const dn_job *j, char *to, int64_t bytes)
{
    if (j->fill == 0) {
        memset(to, 0, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < bytes; i += DN_TILE_GROUP) {
        memcpy(to + i, &j->fill, (size_t)dn_least(DN_TILE_GROUP, bytes - i));
    }
}

/* One line of scratch: pixels before and behind the image, or all of it where `is_outside`. */
static void fill_line(const dn_job *j, char *line, bool is_outside)
{
    if (is_outside) {
        fill_groups(j, line, j->pitch);
        return;
    }
    const int64_t before = j->left * j->pixel;
    const int64_t behind = before + j->in_width * j->pixel;
    fill_groups(j, line, before);
    fill_groups(j, line + behind, j->pitch - behind);
}

/* A line of an image, channels last. */
static void copy_line(const dn_job *j, const char *from, char *to)
{
    const int64_t pixel = j->pixel;
    if (j->isa->widen == NULL && j->channels != j->s.channels) { /* a slice's beside others' */
        const int64_t bytes = j->s.channels * j->size;
        for (int64_t x = 0; x < j->in_width; x++, from += bytes, to += pixel) {
            memcpy(to, from, (size_t)bytes);
        }
    } else if (j->isa->widen == NULL) {
        memcpy(to, from, (size_t)(j->in_width * pixel));
    } else if (j->channels * j->isa->size == pixel) {
        j->isa->widen(from, j->in_width * j->channels, j->flip, to);
    } else {
        for (int64_t x = 0; x < j->in_width; x++, from += j->channels, to += pixel) {
            memcpy(to + pixel - DN_TILE_GROUP, &j->fill, DN_TILE_GROUP);
            j->isa->widen(from, j->channels, j->flip, to);
        }
    }
}

/* A range of lines (col2im: of pixels) of an image, or of one of its slices, to where the first one
 * goes. */
static void load_image(const dn_job *j, const char *image, const dn_range *range, char *to)
{
    const int64_t begin = range->begin;
    const int64_t end = range->end;
    if (j->is_col2im) {
        dn_col2im_load(j, image, range, to);
        return;
    }
    if (j->is_last[0]) {
        const int64_t line = j->in_width * j->s.channels * j->size;
        for (int64_t i = begin; i < end; i++, to += j->pitch) {
            copy_line(j, image + i * line, to);
        }
        return;
    }
    const dn_regroup r = {.from = image,
                          .plane = j->s.x.dims[1],
                          .channels = j->s.channels,
                          .first = begin * j->in_width,
                          .n = end > begin ? (end - begin) * j->in_width : 0,
                          .width = j->in_width,
                          .to = to,
                          .depth = j->s.slices.n ? j->depth / j->s.slices.n : j->depth,
                          .pixel = j->pixel,
                          .is_tight = j->is_tight,
                          .line = j->pitch,
                          .flip = j->flip,
                          .fill = j->fill};
    j->isa->regroup(&r);
}

/* The input slice that output slice `image` reads as its p-th one; outside of the image: none. */
static int64_t slice_of(const dn_job *j, int64_t image, int64_t p)
{
    const dn_slices *slices = &j->s.slices;
    return slices->first + image % slices->out + p * slices->dilation;
}

/* The channels of all slices that are read, one slice's behind the other's. */
static void load_slices(const worker *w, const dn_range *range, char *to)
{
    const dn_job *j = w->j;
    const dn_slices *slices = &j->s.slices;
    const char *image = x_of(j) + w->image / slices->out * j->s.x.dims[0] * j->size;
    const int64_t slice_bytes = j->s.channels * j->isa->size * (j->is_col2im ? j->columns : 1);
    for (int64_t p = 0; p < slices->n; p++) {
        const int64_t slice = slice_of(j, w->image, p);
        if (slice >= 0 && slice < slices->in) {
            load_image(j, image + slice * slices->x_step * j->size, range, to + p * slice_bytes);
        }
    }
}

static void load_images(const worker *w, const dn_range *range, char *to)
{
    const dn_job *j = w->j;
    if (j->s.slices.n) {
        load_slices(w, range, to);
    } else {
        load_image(j, x_of(j) + w->image * j->s.x.dims[0] * j->size, range, to);
    }
}

static bool is_slice_missing(const worker *w)
{
    const dn_slices *slices = &w->j->s.slices;
    return slices->n && (slice_of(w->j, w->image, 0) < 0 ||
                         slice_of(w->j, w->image, slices->n - 1) >= slices->in);
}

static void load_lines(worker *w)
{
    const dn_job *j = w->j;
    const int64_t top = dn_job_first_met(j, 0, w->first);
    const int64_t n = dn_job_lines(j, dn_job_rounded(j, w->n));
    const dn_range lines = {top > 0 ? top : 0, dn_least(top + n, j->in_lines)};
    const bool is_missing = is_slice_missing(w);
    for (int64_t i = 0; i < n; i++) {
        const bool is_outside = top + i < 0 || top + i >= j->in_lines;
        if (!is_outside || !j->is_cut) {
            fill_line(j, w->copy + i * j->pitch, is_outside || is_missing);
        }
    }
    w->x = w->copy;
    w->top = top;
    load_images(w, &lines, w->copy + (lines.begin - top) * j->pitch + j->left * j->pixel);
}

/* The block's pixels by all positions of the window, a panel of pixels after the other. */
static void multiply_pixels(worker *w)
{
    const dn_job *j = w->j;
    const int64_t top = dn_job_first_met(j, 0, w->first);
    const int64_t end = dn_least(top + dn_job_lines(j, w->n), j->in_lines) * j->in_width;
    w->top = top > 0 ? top : 0;
    if (is_slice_missing(w)) {
        memset(w->copy, 0, (size_t)j->bytes.copy);
    }
    float *to = w->products;
    for (int64_t i = w->top * j->in_width; i < end; i += j->columns, to += j->columns) {
        const dn_range pixels = {i, dn_least(i + j->columns, end)};
        load_images(w, &pixels, w->copy);
        dn_col2im_multiply(j, w->copy, to);
    }
}

/* The block's lines of each image become Winograd tiles. */
static void load_winograd_tiles(worker *w)
{
    const dn_job *j = w->j;
    const int64_t image = w->image;
    const int64_t down = dn_parts(w->n, j->isa->winograd_tile);
    w->winograd.tiles = w->images * down * j->across;
    for (int64_t i = 0; i < w->images; i++) {
        w->image = image + i;
        load_lines(w);
        dn_wino_load(&w->winograd, w->copy, j->pitch, down, i * down * j->across);
    }
    w->image = image;
}

static void load_rows(worker *w)
{
    const dn_job *j = w->j;
    const int64_t row = j->s.x.stride[0] * j->size;
    const int64_t bytes = j->s.k * j->isa->size;
    w->x = x_of(j) + w->first * row;
    if (!j->is_copied) {
        return;
    }
    for (int64_t i = 0; i < w->n; i++) {
        char *to = w->copy + i * j->pitch;
        if (j->isa->widen) {
            j->isa->widen(w->x + i * row, j->s.k, j->flip, to);
        } else {
            memcpy(to, w->x + i * row, (size_t)bytes);
        }
        memset(to + bytes, 0, (size_t)(j->pitch - bytes));
        if (j->is_winograd_product) {
            w->row_starts[i] = j->isa->start_winograd_product(to, j->depth);
        }
    }
    w->x = w->copy;
}

static int64_t row_bytes(const dn_job *j)
{
    return j->is_image    ? (j->is_transposed ? 1 : j->stride[1]) * j->pixel
           : j->is_copied ? j->pitch
                          : j->s.x.stride[0] * j->size;
}

/* Places of the window that lie inside the image for output line y, first to behind the last. */
static void window_of(const dn_job *j, int64_t y, int64_t *out_first, int64_t *out_end)
{
    const int64_t dilation = j->phases[0].dilation;
    const int64_t top = dn_job_met(j, 0, y);
    *out_first = 0;
    *out_end = dn_job_phase(j, 0, y)->places;
    while (j->is_cut && *out_first < *out_end && top + *out_first * dilation < 0) {
        (*out_first)++;
    }
    while (j->is_cut && *out_end > *out_first && top + (*out_end - 1) * dilation >= j->in_lines) {
        (*out_end)--;
    }
}

/* The operands of the sums at pixel x of the block's output line y, with the first panel. */
static dn_tile tile_at(const worker *w, int64_t y, int64_t x)
{
    const dn_job *j = w->j;
    const dn_phase *down = dn_job_phase(j, 0, w->first + y);
    const dn_phase *across = dn_job_phase(j, 1, x);
    const bool is_joined = j->phases[1].dilation == 1 && j->sections.n == 1 &&
                           !j->sections.are_fours && !j->sections.are_singles;
    const int64_t run = dn_job_run(j, across);
    int64_t first = 0;
    int64_t end = 0;
    window_of(j, w->first + y, &first, &end);
    dn_tile t = {.row = row_bytes(j),
                 .lines = end - first,
                 .line = j->phases[0].dilation * j->pitch,
                 .pixels = is_joined ? 1 : across->places,
                 .pixel = j->phases[1].dilation * j->pixel,
                 .length = is_joined ? run - j->has_rest : j->section_depth,
                 .has_rest = j->has_rest,
                 .places = j->places_at,
                 .step = j->phases[1].n * j->columns};
    const int64_t before =
        down->before * j->run + down->places * across->before * j->section_depth + first * run;
    t.weights = j->weights + before * j->group_bytes;
    if (!j->is_image) {
        t.x = w->x + x * t.row;
        return t;
    }
    const int64_t line = dn_job_met(j, 0, w->first + y) - w->top + first * j->phases[0].dilation;
    t.x = w->x + line * j->pitch + (dn_job_met(j, 1, x) + j->left) * j->pixel;
    return t;
}

static void sum_rows(worker *w)
{
    const dn_job *j = w->j;
    const int64_t lines = j->is_image ? w->n : 1;
    const int64_t width = j->is_image ? j->width : w->n;
    for (int64_t y = 0; y < lines; y++) {
        for (int64_t x = 0; x < width; x++) {
            const dn_tile t = tile_at(w, y, x);
            int32_t sum = 0;
            for (int64_t i = 0; i < t.lines * t.pixels; i++) {
                sum += j->isa->sum_bytes(t.x + i / t.pixels * t.line + i % t.pixels * t.pixel,
                                         t.length);
            }
            w->row_sums[y * width + x] = sum;
        }
    }
}

static void load_block(worker *w, int64_t block)
{
    const dn_job *j = w->j;
    const int64_t whole = j->is_image ? j->lines : j->width;
    if (w->block == block) {
        return;
    }
    w->block = block;
    w->image = block / j->blocks * j->together;
    w->images = dn_least(j->together, j->images - w->image);
    w->first = block % j->blocks * j->block;
    w->n = dn_least(j->block, whole - w->first);
    if (j->is_wino) {
        load_winograd_tiles(w);
    } else if (j->is_col2im) {
        multiply_pixels(w);
    } else if (j->is_image) {
        load_lines(w);
    } else {
        load_rows(w);
    }
    if (j->has_row_sums) {
        sum_rows(w);
    }
    for (int64_t i = 0; j->contraction->x_zero.is_each && i < w->n; i++) {
        w->row_zeros[i] = dn_job_zero(j, 0, w->first + i);
    }
}

/* ---- sums become output ---- */

/* Pixels of consecutive lines of an image (or some of one line), or rows of a product. */
typedef struct pixel_chunk {
    int64_t panel;
    int64_t y, lines; /* lines of the block */
    int64_t x, width;
    int64_t n;    /* pixels */
    int64_t done; /* pixels that are finished */
} pixel_chunk;

/* Place of the first feature of the chunk's panel at its first pixel. */
static int64_t place_of(const worker *w, const pixel_chunk *p)
{
    const dn_job *j = w->j;
    const int64_t pixel = (w->first + p->y) * j->width + p->x;
    return dn_job_image_out(j, w->image) + dn_job_feature(j, p->panel) * j->s.out.dims[1] +
           pixel * (j->is_last[1] ? j->s.features : 1);
}

static void set_zero_terms(const dn_job *j, const dn_zero_terms *of, dn_finish *f)
{
    f->column = of->column;
    f->factor = of->factor;
    f->weights = of->weights;
    if (j->isa->finish_bytes && j->op->to_bytes.is_done && f->is_across && !f->row_sums &&
        !f->row_zeros) {
        f->to_bytes = &j->op->to_bytes;
        f->times = of->times;
        f->bias = of->bias;
    }
}

/* Describes how sums become output from the chunk's first pixel on. */
static dn_finish finish_of(const worker *w, const pixel_chunk *p)
{
    const dn_job *j = w->j;
    const int64_t row = j->is_image ? p->y * j->width + p->x : p->x;
    const int64_t features = dn_job_features(j, p->panel);
    dn_finish f = {.contraction = j->contraction,
                   .at = j->at,
                   .is_across = !j->is_image || j->is_last[1],
                   .feature = dn_job_feature(j, p->panel),
                   .row_sums = j->has_row_sums ? w->row_sums + row : NULL,
                   .row_zeros = j->contraction->x_zero.is_each ? w->row_zeros + row : NULL,
                   .first_row = (uint32_t)dn_job_has_bias(j->contraction)};
    if (!f.is_across) {
        f.n = features;
        f.sums = j->is_col2im ? (const float *)(const void *)w->sums : w->transposed;
        f.pitch = j->is_col2im ? DN_SUMS_PITCH : j->isa->lanes;
        f.step = j->s.out.dims[1];
        f.out = place_of(w, p);
    } else {
        f.step = j->is_image ? j->s.features : j->s.out.stride[0];
        f.out = j->is_image ? place_of(w, p) : (w->first + p->x) * f.step + f.feature;
        f.mask[0] = dn_tiles_mask(j->isa, features);
        f.mask[1] = dn_tiles_mask(j->isa, features - j->isa->lanes);
    }
    if (j->is_bytes) {
        set_zero_terms(j, &j->zero_terms[p->panel], &f);
    }
    return f;
}

/* Pixels `begin` to `end` of the chunk; `begin` is a multiple of the lanes. */
static void finish_image(const worker *w, const dn_finish *of_chunk, int64_t begin, int64_t end)
{
    const dn_tiles_isa *isa = w->j->isa;
    dn_finish f = *of_chunk;
    for (int64_t pixel = begin; pixel < end; pixel += isa->lanes) {
        f.out = of_chunk->out + pixel;
        f.row_sums = of_chunk->row_sums ? of_chunk->row_sums + pixel : NULL;
        f.mask[0] = dn_tiles_mask(isa, end - pixel);
        f.mask[1] = f.mask[0];
        if (w->j->is_col2im) { /* already by feature */
            f.sums = of_chunk->sums + pixel;
        } else {
            isa->transpose_sums(w->sums + pixel * 2 * isa->lanes, w->transposed);
        }
        isa->finish(&f);
    }
}

static void finish_rows(const worker *w, const dn_finish *of_chunk, int64_t begin, int64_t end)
{
    dn_finish f = *of_chunk;
    f.n = 2 * (end - begin);
    f.sums = (const float *)(const void *)(w->sums + begin * w->j->columns);
    f.out += begin * f.step;
    f.row_sums += f.row_sums ? begin : 0;
    f.row_zeros += f.row_zeros ? begin : 0;
    if (f.to_bytes) {
        w->j->isa->finish_bytes(&f);
    } else {
        w->j->isa->finish(&f);
    }
}

/* Sums up to `made` are there: some are finished, soon, while they are in the first cache, and a
 * few stores at a time, which go on while the next sums are made. */
static void finish_some(const worker *w, pixel_chunk *p, const dn_finish *f, int64_t made)
{
    const int64_t unit = f->to_bytes    ? DN_FINISH_BYTE_ROWS
                         : f->is_across ? DN_FINISH_VECTORS / 2
                                        : w->j->isa->lanes;
    const int64_t end = made == p->n ? made : made / unit * unit;
    if (end == p->done) {
        return;
    }
    if (f->is_across) {
        finish_rows(w, f, p->done, end);
    } else {
        finish_image(w, f, p->done, end);
    }
    p->done = end;
}

/* ---- a chunk of pixels ---- */

/* The output's cache lines of pixels `begin` to `end` are fetched while the sums are made. */
static void ask_for_output(const dn_job *j, const dn_finish *f, int64_t begin, int64_t end)
{
    const int64_t size = (int64_t)st_element_bytes(j->contraction->out.dtype);
    const int64_t runs = f->is_across ? end - begin : f->n;
    const int64_t step = f->step * size;
    const int64_t bytes = (f->is_across ? j->columns : end - begin) * size;
    const char *at =
        (const char *)f->at[DN_OUT] + (f->out + (f->is_across ? begin * f->step : begin)) * size;
    for (int64_t i = 0; i < runs; i++, at += step) {
        __builtin_prefetch(at, 1, 3);
        if (bytes > DN_TILE_ALIGN) {
            __builtin_prefetch(at + DN_TILE_ALIGN, 1, 3);
        }
    }
}

/* Adds the terms of x's zero point to a phase's sums: pixels of line y from `first` on. */
static void shift_sums(const worker *w, const pixel_chunk *p, int64_t y, int64_t first)
{
    const dn_job *j = w->j;
    int32_t weights[DN_TILE_COLUMNS_MAX] = {0};
    dn_job_weigh_zero(j, p->panel, dn_job_phase(j, 0, w->first + p->y + y),
                      dn_job_phase(j, 1, p->x + first), weights);
    for (int64_t x = first; x < p->width; x += j->phases[1].n) {
        int32_t *sums = w->sums + (y * p->width + x) * j->columns;
        for (int64_t i = 0; i < j->columns; i++) {
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)j->x_zero * (uint32_t)weights[i]);
        }
    }
}

/* Line y's pixels of one phase, from `first` on; where there is one alone, they are finished. */
static void run_pixels(worker *w, pixel_chunk *p, const dn_finish *f, int64_t y, int64_t first)
{
    const dn_job *j = w->j;
    const int64_t every = j->phases[1].n;
    const int64_t n = dn_parts(p->width - first, every);
    const int64_t tiles =
        dn_parts(n, j->is_winograd_product ? DN_WINOGRAD_PRODUCT_ROWS : j->isa->rows);
    const int64_t asked = y * p->width + p->width * first / every;
    void (*const run)(const dn_tile *, int64_t) = j->is_winograd_product
                                                      ? j->isa->run_winograd_product
                                                  : j->sections.are_fours   ? j->isa->run_fours
                                                  : j->sections.are_singles ? j->isa->run_singles
                                                                            : j->isa->run;
    dn_tile t = tile_at(w, p->y + y, p->x + first);
    const char *x = t.x + p->panel / j->section_panels * j->sections.step * j->isa->size;
    const int64_t ask_bytes = t.lines * t.pixels * (t.length / DN_TILE_ASK) * DN_TILE_ALIGN;
    t.weights += p->panel * j->panel_bytes;
    if (j->is_winograd_product) {
        t.first = t.weights;
        t.weights = w->panel;
    }
    for (int64_t i = 0, begin = 0; i < tiles; i++) {
        const int64_t end = n * (i + 1) / tiles;
        t.x = x + begin * t.row;
        t.starts = w->row_starts + p->x + begin;
        t.sums = w->sums + (y * p->width + first + begin * every) * j->columns;
        t.ask = w->ask < w->ask_end ? w->ask : t.weights;
        t.ask_step = w->ask < w->ask_end ? DN_TILE_ALIGN : 0;
        w->ask += ask_bytes;
        if (!f->to_bytes) { /* bytes fill few cache lines */
            ask_for_output(j, f, asked + begin, asked + end);
        }
        run(&t, end - begin);
        if (!j->is_mixed) {
            finish_some(w, p, f, y * p->width + end);
        }
        begin = end;
    }
    if (j->is_mixed && j->is_bytes && j->x_zero) {
        shift_sums(w, p, y, first);
    }
}

/* The chunk's sums of the block's products: by feature, or by pixel where lanes are features. */
static void sum_products(const worker *w, const pixel_chunk *p, bool is_across)
{
    const dn_job *j = w->j;
    const dn_col2im from = {
        .job = j, .products = w->products, .top = w->top, .phases = w->transposed};
    dn_pixels pixels = {.x = p->x,
                        .n = p->width,
                        .sums = (float *)(void *)w->sums,
                        .step = is_across ? j->columns : 1,
                        .feature = is_across ? 1 : DN_SUMS_PITCH};
    for (int64_t y = 0; y < p->lines; y++, pixels.sums += p->width * pixels.step) {
        dn_col2im_sum(&from, w->first + p->y + y, &pixels);
    }
}

/* The lines of a phase together, which meet the same weights. */
static void run_chunk(worker *w, pixel_chunk *p)
{
    const dn_job *j = w->j;
    const dn_finish f = finish_of(w, p);
    if (j->is_col2im) {
        sum_products(w, p, f.is_across);
    }
    for (int64_t down = 0; !j->is_col2im && down < j->phases[0].n; down++) {
        for (int64_t first = 0; first < dn_least(j->phases[1].n, p->width); first++) {
            for (int64_t y = down; y < p->lines; y += j->phases[0].n) {
                run_pixels(w, p, &f, y, first);
            }
        }
    }
    if (j->is_mixed) {
        finish_some(w, p, &f, p->n);
    }
}

/* The panel's pixels of each image, lines of Winograd tiles. */
static void run_winograd_tiles(worker *w, int64_t panel)
{
    const dn_job *j = w->j;
    const int64_t edge = j->isa->winograd_tile;
    const int64_t image = w->image;
    int64_t first = 0;
    if (j->is_panel_made) {
        dn_job_transform_taps(j, j->at[DN_Y], panel, (float *)(void *)w->panel);
        dn_wino_panel(&w->winograd, w->panel);
    } else {
        dn_wino_panel(&w->winograd, j->weights + panel * j->panel_bytes);
    }
    for (int64_t i = 0; i < w->images; i++) {
        w->image = image + i;
        for (int64_t y = 0; y < w->n; y += edge, first += j->across) {
            pixel_chunk p = {.panel = panel, .y = y, .lines = dn_least(edge, w->n - y)};
            p.width = j->width;
            p.n = p.lines * p.width;
            const dn_finish f = finish_of(w, &p);
            dn_wino_store(&w->winograd, first, p.lines, p.width, (float *)(void *)w->sums);
            finish_some(w, &p, &f, p.n);
        }
    }
    w->image = image;
}

static void run_panel(worker *w, int64_t panel)
{
    const dn_job *j = w->j;
    const int64_t width = j->is_image ? j->width : w->n;
    const int64_t lines = j->is_image ? w->n : 1;
    const int64_t cuts = dn_parts(width, DN_TILE_PIXELS);
    const int64_t together = cuts > 1 ? 1 : DN_TILE_PIXELS / width;
    w->ask_end = j->weights + dn_least(panel + 2, j->panels) * j->panel_bytes;
    w->ask = j->weights + (panel + 1) * j->panel_bytes;
    if (j->is_winograd_product) {
        j->isa->widen_winograd_product(j->weights + panel * j->panel_bytes + DN_TILE_PAIR, j->depth,
                                       w->panel);
    }
    for (int64_t y = 0; y < lines; y += together) {
        for (int64_t c = 0; c < cuts; c++) {
            pixel_chunk p = {.panel = panel, .y = y, .lines = dn_least(together, lines - y)};
            p.x = width * c / cuts;
            p.width = width * (c + 1) / cuts - p.x;
            p.n = p.lines * p.width;
            run_chunk(w, &p);
        }
    }
}

/* ---- a call ---- */

static void run_range(void *self, int64_t begin, int64_t end)
{
    dn_job *j = self;
    worker w;
    dn_scratch *scratch = dn_scratch_take(j->op->lib, (uint64_t)j->bytes.all);
    if (scratch == NULL) {
        j->has_failed = 1;
        return;
    }
    worker_init(&w, j, dn_scratch_data(scratch));
    for (int64_t i = begin; i < end; i++) {
        const int64_t part = i % j->parts;
        load_block(&w, i / j->parts);
        for (int64_t p = j->panels * part / j->parts; p < j->panels * (part + 1) / j->parts; p++) {
            if (j->is_wino) {
                run_winograd_tiles(&w, p);
            } else {
                run_panel(&w, p);
            }
        }
    }
    dn_scratch_give(j->op->lib, scratch);
}

/* A copy of the input lasts for one range: ranges are few, and about whole blocks. */
static int64_t grain_of(const dn_job *j, int64_t n)
{
    const int64_t blocks = dn_parts(j->image_chunks * j->blocks, RANGES_A_THREAD * j->s.threads);
    return j->is_copied ? dn_least(blocks * j->parts, n / j->s.threads) : 1;
}

static stator_status run_job(dn_job *j, stator_ctx *ctx, stator_diag **err)
{
    dn_lib *lib = j->op->lib;
    const int64_t n = j->image_chunks * j->blocks * j->parts;
    dn_scratch_reserve(lib, (uint64_t)j->bytes.all, dn_least(n, j->s.threads));
    dn_parallel(j->s.threads > 1 ? lib->host : NULL, ctx, n, grain_of(j, n), run_range, j);
    return j->has_failed ? st_fail_oom(err) : STATOR_OK;
}

/* Weights that come with the call are packed in it. */
static stator_status run_unpacked(dn_job *j, stator_ctx *ctx, stator_diag **err)
{
    if (j->is_panel_made) {
        return run_job(j, ctx, err);
    }
    dn_scratch *scratch = dn_scratch_take(j->op->lib, (uint64_t)(j->panels * j->panel_bytes));
    ST_TRY_MEM(scratch, err);
    dn_tiles_pack(j->op, &j->s, j->is_wino, j->at[DN_Y], dn_scratch_data(scratch), ctx);
    j->weights = dn_scratch_data(scratch);
    const stator_status status = run_job(j, ctx, err);
    dn_scratch_give(j->op->lib, scratch);
    return status;
}

static stator_status run_with_zero_terms(dn_job *j, stator_ctx *ctx, stator_diag **err)
{
    dn_scratch *scratch = dn_scratch_take(j->op->lib, dn_job_zero_terms_bytes(j));
    ST_TRY_MEM(scratch, err);
    dn_job_make_zero_terms(j, dn_scratch_data(scratch), ctx);
    const stator_status status = run_job(j, ctx, err);
    dn_scratch_give(j->op->lib, scratch);
    return status;
}

stator_status dn_tiles_run(dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                           void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err)
{
    void *packed = NULL;
    dn_sizes simple = *sizes;
    dn_simplify(&op->contraction, &simple);
    if (plan->is_packed) {
        (void)dnnl_memory_get_data_handle(plan->packed, &packed);
    }
    for (int64_t i = 0; i < dn_tiles_slices(&op->contraction); i++) {
        dn_tiles_part part;
        dn_job j;
        dn_tiles_slice(&op->contraction, &simple, i, &part);
        (void)dn_job_init(&j, op, &part, plan->desc.how.is_winograd, /* described: cannot fail */
                          plan->is_packed);
        j.at = at;
        dn_job_set_zeros(&j);
        if (!plan->is_packed) {
            return run_unpacked(&j, ctx, err); /* an image without a depth axis */
        }
        j.column_sums = packed;
        j.weights = (const char *)packed + dn_job_sums_bytes(&j);
        ST_TRY(j.is_bytes ? run_with_zero_terms(&j, ctx, err) : run_job(&j, ctx, err));
        packed = (char *)packed + dn_job_packed_bytes(&j);
    }
    return STATOR_OK;
}
