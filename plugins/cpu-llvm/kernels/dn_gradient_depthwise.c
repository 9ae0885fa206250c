/* Gradients to weights with a group for each channel, f32, images with channels last: a vector's
 * lanes are channels.
 *
 * Lines of the image and of what arrived at the output are copied into scratch, of as many
 * channels as a vector has lanes, a vector a pixel: where they lie, pixels are so far apart that
 * few lines of them stay in the first cache. The places of a line of the window are summed
 * together, as many as registers have room for, over the pixels for which all of them lie in the
 * image; for the few pixels beside these, those places that do. Some lines of the output at a
 * time meet all lines of the window, those of several images where these are small: so the sums
 * stay in registers for many pixels though lines are short. Threads take vectors of channels and
 * lines of the window; each adds up its pixels in one order, so results do not depend on their
 * number. */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"

#include "core/base/check.h"
#include "core/base/diag.h"

#include <string.h>

#define BLOCK_BYTES ((int64_t)96 << 10) /* of a block's lines: a part of the second cache */
#define NEAR_BYTES ((int64_t)16 << 10)  /* of lines that are met at once: of the first one */
#define GRAIN_MACS 100000               /* worth a thread */

/* Pixels of a line at places of a line of the window that all lie in the image; the places are as
 * many as registers have sums for, or fewer. */
typedef struct segment {
    int64_t first, pixels;
    dn_gradient_range places;
} segment;

typedef struct depthwise {
    const dn_gradient *d;
    float *sums;             /* a vector for each place of the window and vector of channels */
    segment *segments;       /* of a line of the window */
    dn_gradient_range *met;  /* of each line of the window, lines of the output on axis 1 */
    dn_gradient_range *deep; /* of each plane of the window, those on axis 0 */
    int64_t n_segments;
    int64_t vectors;     /* of channels */
    int64_t images;      /* of a block */
    int64_t block, near; /* lines of the output on axis 1: of a block, met at once */
    _Atomic int has_failed;
} depthwise;

static int64_t window_lines(const dn_gradient *d)
{
    return d->kernel[0] * d->kernel[1];
}

/* ---- segments ---- */

static bool is_met(const dn_gradient *d, int64_t pixel, int64_t place)
{
    const dn_gradient_range met = dn_gradient_met(d, 2, place);
    return pixel >= met.begin && pixel < met.end;
}

/* One pixel, at those of the places that lie in the image. */
static void note_pixel(depthwise *w, int64_t pixel, dn_gradient_range places)
{
    while (places.begin < places.end && !is_met(w->d, pixel, places.begin)) {
        places.begin++;
    }
    while (places.begin < places.end && !is_met(w->d, pixel, places.end - 1)) {
        places.end--;
    }
    if (places.begin < places.end) {
        w->segments[w->n_segments++] = (segment){pixel, 1, places};
    }
}

/* All pixels at the places. The last place is the first to meet the image, and to leave it. */
static void note_pixels(depthwise *w, dn_gradient_range places)
{
    const dn_gradient_range first = dn_gradient_met(w->d, 2, places.begin);
    const dn_gradient_range last = dn_gradient_met(w->d, 2, places.end - 1);
    const int64_t begin = st_min_i64(first.begin, w->d->out[2]);
    const int64_t end = st_max_i64(begin, last.end);
    for (int64_t i = last.begin; i < begin; i++) {
        note_pixel(w, i, places);
    }
    if (begin < end) {
        w->segments[w->n_segments++] = (segment){begin, end - begin, places};
    }
    for (int64_t i = end; i < first.end; i++) {
        note_pixel(w, i, places);
    }
}

static int64_t parts_of(const dn_gradient *d)
{
    return (d->kernel[2] + d->isa->places - 1) / d->isa->places;
}

static void note_all(depthwise *w)
{
    const dn_gradient *d = w->d;
    const int64_t parts = parts_of(d);
    for (int64_t i = 0; i < parts; i++) {
        note_pixels(w,
                    (dn_gradient_range){i * d->kernel[2] / parts, (i + 1) * d->kernel[2] / parts});
    }
    for (int64_t k = 0; k < d->kernel[0]; k++) {
        w->deep[k] = dn_gradient_met(d, 0, k);
    }
    for (int64_t k = 0; k < d->kernel[1]; k++) {
        w->met[k] = dn_gradient_met(d, 1, k);
    }
}

/* ---- sizes ---- */

static int64_t block_floats(const dn_gradient *d, int64_t n)
{
    return (dn_gradient_lines_met(d, 1, n) * d->in[2] + n * d->out[2]) * d->isa->lanes;
}

static void depthwise_init(depthwise *w, const dn_gradient *d)
{
    const int64_t size = (int64_t)sizeof(float);
    const int64_t line = (d->stride[1] * d->in[2] + d->out[2]) * d->isa->lanes * size;
    *w = (depthwise){.d = d, .vectors = (d->s->channels + d->isa->lanes - 1) / d->isa->lanes};
    w->near = st_max_i64(1, NEAR_BYTES / line);
    w->block = d->out[1];
    while (w->block > 1 && block_floats(d, w->block) * size > BLOCK_BYTES) {
        w->block = (w->block + 1) / 2;
    }
    const int64_t plane = st_max_i64(1, block_floats(d, d->out[1]) * size);
    w->images = st_max_i64(1, st_min_i64(NEAR_BYTES / plane, d->s->images));
}

static uint64_t shared_bytes(const depthwise *w)
{
    const dn_gradient *d = w->d;
    return (uint64_t)(w->vectors * d->places * d->isa->lanes) * sizeof(float) +
           (uint64_t)(parts_of(d) * (d->out[2] + 1)) * sizeof(segment) +
           (uint64_t)(d->kernel[0] + d->kernel[1]) * sizeof(dn_gradient_range);
}

/* Of a thread. */
static uint64_t own_bytes(const depthwise *w)
{
    return (uint64_t)(w->images * block_floats(w->d, w->block)) * sizeof(float);
}

static void set_memory(depthwise *w, void *scratch)
{
    const dn_gradient *d = w->d;
    const int64_t floats = w->vectors * d->places * d->isa->lanes;
    w->sums = scratch;
    w->segments = (segment *)(void *)(w->sums + floats);
    w->deep = (dn_gradient_range *)(void *)(w->segments + parts_of(d) * (d->out[2] + 1));
    w->met = w->deep + d->kernel[0];
    memset(w->sums, 0, (size_t)floats * sizeof *w->sums);
}

/* ---- blocks ---- */

/* Lines of a plane of each image, and of one of the output, in scratch: all of an image one behind
 * the other. */
typedef struct block {
    dn_gradient_range images;
    int64_t vector;
    int64_t deep;              /* the plane of the output, on axis 0 */
    dn_gradient_range out, in; /* lines on axis 1 */
    float *x, *g;
} block;

/* Floats of an image in scratch. */
static int64_t image_floats(const depthwise *w, const block *b, bool is_x)
{
    const int64_t lines = is_x ? b->in.end - b->in.begin : b->out.end - b->out.begin;
    return lines * (is_x ? w->d->in[2] : w->d->out[2]) * w->d->isa->lanes;
}

/* Those of plane `deep` of each image. */
static void pack_lines(const depthwise *w, const block *b, int64_t deep, bool is_x)
{
    const dn_gradient *d = w->d;
    const int64_t lanes = d->isa->lanes;
    const int64_t *dim = is_x ? d->x_dim : d->g_dim;
    const int64_t step = is_x ? d->s->x.dims[0] : d->s->y.dims[0]; /* from image to image */
    const float *from = (const float *)d->at[is_x ? DN_X : DN_Y] + b->images.begin * step +
                        deep * dim[0] + b->vector * lanes;
    float *to = is_x ? b->x : b->g;
    const dn_gradient_range lines = is_x ? b->in : b->out;
    dn_gradient_pack pack = {.n = is_x ? d->in[2] : d->out[2],
                             .step = dim[2],
                             .next = dim[1],
                             .count = st_min_i64(lanes, d->s->channels - b->vector * lanes),
                             .width = lanes};
    for (int64_t image = b->images.begin; image < b->images.end; image++, from += step) {
        for (int64_t i = lines.begin; i < lines.end; i++, to += pack.n * lanes) {
            pack.from = from + i * dim[1];
            d->isa->pack(&pack, to);
        }
    }
}

/* Lines of the output, all that line k1 of a plane of the window meets. */
static void run_line(const depthwise *w, const block *b, int64_t k1, float *sums,
                     dn_gradient_range lines)
{
    const dn_gradient *d = w->d;
    const int64_t lanes = d->isa->lanes;
    const int64_t begin = st_max_i64(lines.begin, w->met[k1].begin);
    const int64_t x = begin * d->stride[1] - d->pad[1] + k1 * d->dilation[1] - b->in.begin;
    dn_gradient_lines of = {.images = b->images.end - b->images.begin,
                            .n = st_min_i64(lines.end, w->met[k1].end) - begin,
                            .x_image = image_floats(w, b, true),
                            .g_image = image_floats(w, b, false),
                            .x_line = d->stride[1] * d->in[2] * lanes,
                            .g_line = d->out[2] * lanes,
                            .x_step = d->stride[2] * lanes,
                            .place_step = d->dilation[2] * lanes};
    for (int64_t i = 0; of.n > 0 && i < w->n_segments; i++) {
        const segment *s = &w->segments[i];
        const int64_t pixel =
            s->first * d->stride[2] - d->pad[2] + s->places.begin * d->dilation[2];
        of.pixels = s->pixels;
        of.x = b->x + (x * d->in[2] + pixel) * lanes;
        of.g = b->g + ((begin - b->out.begin) * d->out[2] + s->first) * lanes;
        of.sums = sums + s->places.begin * lanes;
        d->isa->run_lines(&of, s->places.end - s->places.begin);
    }
}

/* Lines begin to end - 1 of plane k0 of the window. */
static void run_plane(const depthwise *w, block *b, int64_t k0, dn_gradient_range lines)
{
    const dn_gradient *d = w->d;
    const int64_t plane = b->deep * d->stride[0] - d->pad[0] + k0 * d->dilation[0];
    float *sums =
        w->sums + (b->vector * d->places + k0 * d->kernel[1] * d->kernel[2]) * d->isa->lanes;
    if (b->deep < w->deep[k0].begin || b->deep >= w->deep[k0].end) {
        return;
    }
    pack_lines(w, b, plane, true);
    for (int64_t i = b->out.begin; i < b->out.end; i += w->near) {
        const dn_gradient_range some = {i, st_min_i64(b->out.end, i + w->near)};
        for (int64_t k = lines.begin; k < lines.end; k++) {
            run_line(w, b, k, sums + k * d->kernel[2] * d->isa->lanes, some);
        }
    }
}

/* Lines begin to end - 1 of the window. */
static void run_block(const depthwise *w, block *b, int64_t begin, int64_t end)
{
    const dn_gradient *d = w->d;
    b->in = dn_gradient_lines_of(d, 1, b->out);
    pack_lines(w, b, b->deep, false);
    for (int64_t k0 = begin / d->kernel[1]; k0 * d->kernel[1] < end; k0++) {
        const int64_t before = k0 * d->kernel[1];
        run_plane(w, b, k0,
                  (dn_gradient_range){st_max_i64(begin - before, 0),
                                      st_min_i64(end - before, d->kernel[1])});
    }
}

/* Lines of the window of all vectors of channels, one behind the other: those of vector `v`. */
static dn_gradient_range lines_of(const depthwise *w, int64_t v, int64_t begin, int64_t end)
{
    const int64_t n = window_lines(w->d);
    return (dn_gradient_range){st_max_i64(begin - v * n, 0), st_min_i64(end - v * n, n)};
}

static void give_weights(const depthwise *w, int64_t vector, dn_gradient_range lines)
{
    const dn_gradient *d = w->d;
    const int64_t lanes = d->isa->lanes;
    const int64_t feature = vector * lanes;
    const int64_t first = lines.begin * d->kernel[2];
    dn_gradient_give(d, w->sums + (vector * d->places + first) * lanes,
                     lines.end * d->kernel[2] - first, st_min_i64(lanes, d->s->channels - feature),
                     first, (float *)d->at[DN_OUT] + feature * d->s->out.dims[0]);
}

/* The i-th part of `extent` each. */
static dn_gradient_range part_of(int64_t i, int64_t extent, int64_t whole)
{
    return (dn_gradient_range){i * extent, st_min_i64(whole, (i + 1) * extent)};
}

static void run_range(void *self, int64_t begin, int64_t end)
{
    depthwise *w = self;
    const dn_gradient *d = w->d;
    const int64_t n = window_lines(d);
    const int64_t last = (end + n - 1) / n;
    dn_scratch *scratch = dn_scratch_take(d->op->lib, own_bytes(w));
    if (scratch == NULL) {
        w->has_failed = 1;
        return;
    }
    const int64_t blocks = (d->out[1] + w->block - 1) / w->block;
    block b = {.x = dn_scratch_data(scratch)};
    b.g = b.x + w->images * dn_gradient_lines_met(d, 1, w->block) * d->in[2] * d->isa->lanes;
    const int64_t image_blocks = (d->s->images + w->images - 1) / w->images;
    for (int64_t i = 0; i < image_blocks * d->out[0] * blocks; i++) {
        b.images = part_of(i / blocks / d->out[0], w->images, d->s->images);
        b.deep = i / blocks % d->out[0];
        b.out = part_of(i % blocks, w->block, d->out[1]);
        for (b.vector = begin / n; b.vector < last; b.vector++) {
            const dn_gradient_range lines = lines_of(w, b.vector, begin, end);
            run_block(w, &b, lines.begin, lines.end);
        }
    }
    for (int64_t v = begin / n; v < last; v++) {
        give_weights(w, v, lines_of(w, v, begin, end));
    }
    dn_scratch_give(d->op->lib, scratch);
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
    set_memory(&w, dn_scratch_data(scratch));
    note_all(&w);
    const int64_t n = w.vectors * window_lines(d);
    const int64_t macs = d->s->images * d->out[0] * d->out[1] * d->out[2] * d->kernel[2];
    dn_scratch_reserve(d->op->lib, own_bytes(&w), st_min_i64(n, d->s->threads));
    dn_parallel(d->s->threads > 1 ? d->op->lib->host : NULL, ctx, n,
                GRAIN_MACS / (macs * d->isa->lanes) + 1, run_range, &w);
    dn_scratch_give(d->op->lib, scratch);
    return w.has_failed ? st_fail_oom(err) : STATOR_OK;
}
