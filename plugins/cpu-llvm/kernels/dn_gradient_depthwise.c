/* Gradients to weights with a group for each channel, f32, images with channels last: a vector's
 * lanes are channels.
 *
 * The window is divided into parts, some lines by some places of each, as many as registers have
 * sums for: 3x3 is one. A part meets the lines of a block of the output in one go, of several
 * images where these are small: each vector of what arrived is read once for the whole part, and
 * sums stay in registers. Pixels at the border meet only those places that lie in the image.
 *
 * Images are read where they lie, in blocks that the second cache holds until the last vector of
 * channels of its lines. Where pixels are so far apart that they share few sets of the first cache,
 * where the window has many parts, which read a block as often, and for a vector that channels do
 * not fill, lines are first copied into scratch, a vector a pixel.
 *
 * Threads take vectors of channels and lines of parts, with few channels also shares of the images,
 * which are the same on any number of threads; each weight is summed in one order, so results do
 * not depend on that number. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"

#include "core/base/check.h"
#include "core/base/diag.h"

#include <string.h>

#define BLOCK_BYTES ((int64_t)112 << 10) /* of a block's lines: a part of the second cache */
#define NEAR_BYTES ((int64_t)16 << 10)   /* of lines that are met at once: of the first one */
#define CACHE_LINE_BYTES 64
#define WAY_BYTES 4096    /* of the first cache: whose lines have a set each */
#define SETS_FEW 4        /* in so many or fewer 3x3 of 512@14 takes 1.2 times as long in place */
#define PARTS_IN_PLACE 3  /* 7x7 of 384@14, which has 7, takes 1.6 times as long in place */
#define PARTS_MIN 16      /* for threads to divide: with fewer, images are divided too */
#define GRAIN_MACS 100000 /* worth a thread */

/* Neighbouring places of the window on an axis, as many as are summed at once. */
typedef struct part {
    dn_gradient_range places;
    dn_gradient_range whole; /* pixels of the output for which all of them lie in the image */
    uint32_t *met;           /* of each pixel, bits of the places that do */
} part;

typedef struct depthwise {
    const dn_gradient *d;
    float *sums;          /* a vector for each place of the window, vector of channels and share */
    part *rows, *columns; /* on axes 1 and 2 */
    int64_t n_rows, n_columns;
    dn_gradient_range *deep; /* of each plane of the window, those it meets on axis 0 */
    int64_t vectors;         /* of channels */
    int64_t shares;          /* of the images, each of which has sums of its own */
    int64_t images;          /* of a block */
    int64_t block, near;     /* lines of the output on axis 1: of a block, met at once */
    bool is_packed;
    _Atomic int has_failed;
} depthwise;

/* ---- parts of the window ---- */

static int64_t column_parts(const dn_gradient *d)
{
    return (d->kernel[2] + d->isa->places - 1) / d->isa->places;
}

static int64_t row_parts(const dn_gradient *d)
{
    const int64_t parts = column_parts(d);
    const int64_t places = (d->kernel[2] + parts - 1) / parts;
    const int64_t rows = st_min_i64(d->isa->window_rows, d->isa->window_sums / places);
    return (d->kernel[1] + rows - 1) / rows;
}

static void note_part(const dn_gradient *d, uint32_t axis, part *p)
{
    p->whole = dn_gradient_met_by_all(d, axis, p->places);
    memset(p->met, 0, (size_t)d->out[axis] * sizeof *p->met);
    for (int64_t k = p->places.begin; k < p->places.end; k++) {
        const dn_gradient_range met = dn_gradient_met(d, axis, k);
        for (int64_t i = met.begin; i < met.end; i++) {
            p->met[i] |= 1u << (k - p->places.begin);
        }
    }
}

/* The window in n parts, and where `met` has room behind them. */
static uint32_t *note_parts(const dn_gradient *d, uint32_t axis, int64_t n, part *parts,
                            uint32_t *met)
{
    for (int64_t i = 0; i < n; i++, met += d->out[axis]) {
        const dn_gradient_range places = {i * d->kernel[axis] / n, (i + 1) * d->kernel[axis] / n};
        parts[i] = (part){.places = places, .met = met};
        note_part(d, axis, &parts[i]);
    }
    return met;
}

/* ---- sizes ---- */

static int64_t block_floats(const dn_gradient *d, int64_t n)
{
    return (dn_gradient_lines_met(d, 1, n) * d->in[2] + n * d->out[2]) * d->isa->lanes;
}

/* Do pixels so many floats apart share few sets of the first cache? */
static bool do_pixels_collide(int64_t floats)
{
    return floats * (int64_t)sizeof(float) % (WAY_BYTES / SETS_FEW) == 0;
}

/* Those that threads divide, of a vector of channels. */
static int64_t window_parts(const depthwise *w)
{
    return w->d->kernel[0] * w->n_rows;
}

static void depthwise_init(depthwise *w, const dn_gradient *d)
{
    const int64_t size = (int64_t)sizeof(float);
    const int64_t line = (d->stride[1] * d->in[2] + d->out[2]) * d->isa->lanes * size;
    *w = (depthwise){.d = d,
                     .n_rows = row_parts(d),
                     .n_columns = column_parts(d),
                     .vectors = (d->s->channels + d->isa->lanes - 1) / d->isa->lanes,
                     .block = d->out[1]};
    w->is_packed = do_pixels_collide(d->x_dim[2]) || do_pixels_collide(d->g_dim[2]) ||
                   w->n_rows * w->n_columns > PARTS_IN_PLACE;
    const int64_t vector = d->isa->lanes * size;
    const int64_t pixel = w->is_packed ? vector : CACHE_LINE_BYTES; /* that the cache holds */
    while (w->block > 1 && block_floats(d, w->block) * size / vector * pixel > BLOCK_BYTES) {
        w->block = (w->block + 1) / 2;
    }
    w->near = w->is_packed ? st_max_i64(1, NEAR_BYTES / line) : w->block;
    const int64_t parts = w->vectors * window_parts(w);
    w->shares = st_max_i64(1, st_min_i64((PARTS_MIN + parts - 1) / parts, d->s->images));
    const int64_t plane = st_max_i64(1, block_floats(d, d->out[1]) * size);
    w->images = st_max_i64(1, st_min_i64(NEAR_BYTES / plane, d->s->images));
}

/* Sums of a share. */
static int64_t sums_floats(const depthwise *w)
{
    return w->vectors * w->d->places * w->d->isa->lanes;
}

static uint64_t shared_bytes(const depthwise *w)
{
    const dn_gradient *d = w->d;
    return (uint64_t)(w->shares * sums_floats(w)) * sizeof(float) +
           (uint64_t)(w->n_rows + w->n_columns) * sizeof(part) +
           (uint64_t)d->kernel[0] * sizeof(dn_gradient_range) +
           (uint64_t)(w->n_rows * d->out[1] + w->n_columns * d->out[2]) * sizeof(uint32_t);
}

/* Of a thread. */
static uint64_t own_bytes(const depthwise *w)
{
    return (uint64_t)(w->images * block_floats(w->d, w->block)) * sizeof(float);
}

static void depthwise_begin(depthwise *w, void *scratch)
{
    const dn_gradient *d = w->d;
    const int64_t floats = w->shares * sums_floats(w);
    w->sums = scratch;
    memset(w->sums, 0, (size_t)floats * sizeof *w->sums);
    w->rows = (part *)(void *)(w->sums + floats);
    w->columns = w->rows + w->n_rows;
    w->deep = (dn_gradient_range *)(void *)(w->columns + w->n_columns);
    uint32_t *met = (uint32_t *)(void *)(w->deep + d->kernel[0]);
    met = note_parts(d, 1, w->n_rows, w->rows, met);
    (void)note_parts(d, 2, w->n_columns, w->columns, met);
    for (int64_t k = 0; k < d->kernel[0]; k++) {
        w->deep[k] = dn_gradient_met(d, 0, k);
    }
}

/* ---- blocks ---- */

/* Where lines lie, and floats from one image, line and pixel to the next. */
typedef struct view {
    const float *at;
    int64_t image, line, pixel;
} view;

/* Lines of a plane of each image, and of one of the output. */
typedef struct block {
    dn_gradient_range images;
    int64_t vector;
    int64_t deep;              /* the plane of the output, on axis 0 */
    dn_gradient_range out, in; /* lines on axis 1 */
    float *packed_x, *packed_g;
    view x, g;
    float *sums; /* of the share */
} block;

/* All of an image one behind the other. */
static view pack_lines(const depthwise *w, const block *b, const view *v, bool is_x)
{
    const dn_gradient *d = w->d;
    const int64_t lanes = d->isa->lanes;
    const dn_gradient_range lines = is_x ? b->in : b->out;
    float *to = is_x ? b->packed_x : b->packed_g;
    dn_gradient_pack pack = {.n = is_x ? d->in[2] : d->out[2],
                             .step = v->pixel,
                             .next = v->line,
                             .count = st_min_i64(lanes, d->s->channels - b->vector * lanes),
                             .width = lanes};
    const view packed = {.at = to,
                         .image = (lines.end - lines.begin) * pack.n * lanes,
                         .line = pack.n * lanes,
                         .pixel = lanes};
    for (int64_t image = 0; image < b->images.end - b->images.begin; image++) {
        for (int64_t i = 0; i < lines.end - lines.begin; i++, to += packed.line) {
            pack.from = v->at + image * v->image + i * v->line;
            d->isa->pack(&pack, to);
        }
    }
    return packed;
}

/* Those of plane `deep` of each image. */
static view view_lines(const depthwise *w, const block *b, int64_t deep, bool is_x)
{
    const dn_gradient *d = w->d;
    const int64_t lanes = d->isa->lanes;
    const int64_t *dim = is_x ? d->x_dim : d->g_dim;
    const int64_t image = is_x ? d->s->x.dims[0] : d->s->y.dims[0];
    const view v = {.at = (const float *)d->at[is_x ? DN_X : DN_Y] + b->images.begin * image +
                          deep * dim[0] + (is_x ? b->in : b->out).begin * dim[1] +
                          b->vector * lanes,
                    .image = image,
                    .line = dim[1],
                    .pixel = dim[2]};
    const bool is_full = d->s->channels - b->vector * lanes >= lanes;
    return w->is_packed || !is_full ? pack_lines(w, b, &v, is_x) : v;
}

/* Lines of the output, all that some lines of a plane of the window meet. */
static void run_rows(const depthwise *w, const block *b, const part *rows, float *sums,
                     dn_gradient_range lines)
{
    const dn_gradient *d = w->d;
    const int64_t y =
        lines.begin * d->stride[1] - d->pad[1] + rows->places.begin * d->dilation[1] - b->in.begin;
    dn_gradient_lines of = {.x = b->x.at,
                            .g = b->g.at + (lines.begin - b->out.begin) * b->g.line,
                            .images = b->images.end - b->images.begin,
                            .n = lines.end - lines.begin,
                            .pixels = d->out[2],
                            .x_image = b->x.image,
                            .g_image = b->g.image,
                            .x_line = d->stride[1] * b->x.line,
                            .g_line = b->g.line,
                            .x_step = d->stride[2] * b->x.pixel,
                            .g_step = b->g.pixel,
                            .row_step = d->dilation[1] * b->x.line,
                            .place_step = d->dilation[2] * b->x.pixel,
                            .rows = rows->met + lines.begin,
                            .sums_row = d->kernel[2] * d->isa->lanes};
    for (const part *columns = w->columns; columns < w->columns + w->n_columns; columns++) {
        const int64_t place = columns->places.begin;
        of.first = y * b->x.line + (place * d->dilation[2] - d->pad[2]) * b->x.pixel;
        of.places = columns->met;
        of.whole = columns->whole;
        of.sums = sums + rows->places.begin * of.sums_row + place * d->isa->lanes;
        d->isa->run_lines(&of, rows->places.end - rows->places.begin, columns->places.end - place);
    }
}

/* What of `all` lies in the i-th n of things that are divided into n each, from its first one
 * on. */
static dn_gradient_range within(dn_gradient_range all, int64_t i, int64_t n)
{
    return (dn_gradient_range){st_max_i64(all.begin - i * n, 0), st_min_i64(all.end - i * n, n)};
}

/* Parts of plane k0 of the window. */
static void run_plane(const depthwise *w, block *b, int64_t k0, dn_gradient_range parts)
{
    const dn_gradient *d = w->d;
    const int64_t plane = b->deep * d->stride[0] - d->pad[0] + k0 * d->dilation[0];
    float *sums =
        b->sums + (b->vector * d->places + k0 * d->kernel[1] * d->kernel[2]) * d->isa->lanes;
    if (b->deep < w->deep[k0].begin || b->deep >= w->deep[k0].end) {
        return;
    }
    b->x = view_lines(w, b, plane, true);
    for (int64_t i = b->out.begin; i < b->out.end; i += w->near) {
        const dn_gradient_range some = {i, st_min_i64(b->out.end, i + w->near)};
        for (int64_t k = parts.begin; k < parts.end; k++) {
            run_rows(w, b, &w->rows[k], sums, some);
        }
    }
}

/* Parts of the window, those of a plane behind those of the one before. */
static void run_block(const depthwise *w, block *b, dn_gradient_range parts)
{
    const int64_t n = w->n_rows;
    b->in = dn_gradient_lines_of(w->d, 1, b->out);
    b->g = view_lines(w, b, b->deep, false);
    for (int64_t k0 = parts.begin / n; k0 * n < parts.end; k0++) {
        run_plane(w, b, k0, within(parts, k0, n));
    }
}

/* The first place of part i of a window. */
static int64_t place_of(const depthwise *w, int64_t i)
{
    const int64_t line = i % w->n_rows ? w->rows[i % w->n_rows].places.begin : 0;
    return (i / w->n_rows * w->d->kernel[1] + line) * w->d->kernel[2];
}

static void give_weights(const depthwise *w, int64_t vector, dn_gradient_range parts)
{
    const dn_gradient *d = w->d;
    const int64_t lanes = d->isa->lanes;
    const int64_t feature = vector * lanes;
    const int64_t first = place_of(w, parts.begin);
    dn_gradient_give(d, w->sums + (vector * d->places + first) * lanes,
                     place_of(w, parts.end) - first, st_min_i64(lanes, d->s->channels - feature),
                     first, (float *)d->at[DN_OUT] + feature * d->s->out.dims[0]);
}

/* The i-th part of `extent` each. */
static dn_gradient_range part_of(int64_t i, int64_t extent, int64_t whole)
{
    return (dn_gradient_range){i * extent, st_min_i64(whole, (i + 1) * extent)};
}

/* Parts of the window, one vector's behind those of the one before, at the images of a share. */
static void run_share(const depthwise *w, float *scratch, int64_t share, dn_gradient_range all)
{
    const dn_gradient *d = w->d;
    const int64_t n = window_parts(w);
    const int64_t last = (all.end + n - 1) / n;
    const int64_t blocks = (d->out[1] + w->block - 1) / w->block;
    const int64_t x_lines = w->images * dn_gradient_lines_met(d, 1, w->block);
    const int64_t first = share * d->s->images / w->shares;
    const int64_t images = (share + 1) * d->s->images / w->shares - first;
    const int64_t image_blocks = (images + w->images - 1) / w->images;
    block b = {.packed_x = scratch,
               .packed_g = scratch + x_lines * d->in[2] * d->isa->lanes,
               .sums = w->sums + share * sums_floats(w)};
    for (int64_t i = 0; i < image_blocks * d->out[0] * blocks; i++) {
        const dn_gradient_range some = part_of(i / blocks / d->out[0], w->images, images);
        b.images = (dn_gradient_range){first + some.begin, first + some.end};
        b.deep = i / blocks % d->out[0];
        b.out = part_of(i % blocks, w->block, d->out[1]);
        for (b.vector = all.begin / n; b.vector < last; b.vector++) {
            run_block(w, &b, within(all, b.vector, n));
        }
    }
    for (int64_t v = all.begin / n; w->shares == 1 && v < last; v++) {
        give_weights(w, v, within(all, v, n));
    }
}

/* Parts of all vectors and shares. */
static void run_range(void *self, int64_t begin, int64_t end)
{
    depthwise *w = self;
    const int64_t n = w->vectors * window_parts(w);
    dn_scratch *scratch = dn_scratch_take(w->d->op->lib, own_bytes(w));
    if (scratch == NULL) {
        w->has_failed = 1;
        return;
    }
    for (int64_t share = begin / n; share * n < end; share++) {
        run_share(w, dn_scratch_data(scratch), share,
                  within((dn_gradient_range){begin, end}, share, n));
    }
    dn_scratch_give(w->d->op->lib, scratch);
}

/* Weights of the sums of several shares. */
static void give_shares(const depthwise *w)
{
    const int64_t floats = sums_floats(w);
    for (int64_t share = 1; share < w->shares; share++) {
        for (int64_t i = 0; i < floats; i++) {
            w->sums[i] += w->sums[share * floats + i];
        }
    }
    for (int64_t v = 0; w->shares > 1 && v < w->vectors; v++) {
        give_weights(w, v, (dn_gradient_range){0, window_parts(w)});
    }
}

uint64_t dn_gradient_depthwise_scratch(const dn_gradient *d)
{
    depthwise w;
    depthwise_init(&w, d);
    return shared_bytes(&w) + own_bytes(&w) * (uint64_t)d->s->threads;
}

stator_status dn_gradient_depthwise_run(const dn_gradient *d, stator_ctx *ctx, stator_diag **err)
{
    depthwise w;
    depthwise_init(&w, d);
    dn_scratch *scratch = dn_scratch_take(d->op->lib, shared_bytes(&w));
    ST_TRY_MEM(scratch, err);
    depthwise_begin(&w, dn_scratch_data(scratch));
    const int64_t n = w.shares * w.vectors * window_parts(&w);
    const int64_t macs = st_max_i64(1, d->s->images / w.shares) * d->out[0] * d->out[1] *
                         d->out[2] * d->kernel[2] * d->kernel[1] / w.n_rows;
    dn_scratch_reserve(d->op->lib, own_bytes(&w), st_min_i64(n, d->s->threads));
    dn_parallel(d->s->threads > 1 ? d->op->lib->host : NULL, ctx, n,
                GRAIN_MACS / (macs * d->isa->lanes) + 1, run_range, &w);
    give_shares(&w);
    dn_scratch_give(d->op->lib, scratch);
    return w.has_failed ? st_fail_oom(err) : STATOR_OK;
}
