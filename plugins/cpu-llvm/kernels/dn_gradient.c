/* Gradients of convolutions to their weights as products of tiles, f32, images with channels last.
 *
 * For each place of the window the weights are a product of two matrices whose common axis is that
 * of pixels: the channels of the pixels that the place meets, and the features of what arrived at
 * the output. Some lines of both are copied into panels, of as many channels as a tile has rows and
 * of as many features as it has columns, in which all that the places of the window meet lies once;
 * an inner loop (dn_gradient_isa.h) then goes over the lines of two panels for one place, a line's
 * pixels the stride apart, and holds its sums in registers. Where channels are few, neighbouring
 * places of a line of the window are rows of one tile, for the pixels that all of them meet; each
 * place goes through those that it meets beyond these. Pixels outside of the image are left out. A
 * block is as many lines as leave two panels in the second cache; the sums of a block are added to
 * those of the blocks before. Threads take tiles, each of which adds up all its pixels in one
 * order, so results do not depend on their number.
 *
 * With a group for each channel there are no tiles (dn_gradient_depthwise.c). */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"

#include "core/base/check.h"
#include "core/base/diag.h"

#include <string.h>

#define PAIR_BYTES ((int64_t)448 << 10)  /* of two panels: a part of the second cache */
#define PANELS_BYTES ((int64_t)16 << 20) /* of all panels */
#define SCRATCH_MAX ((int64_t)1 << 28)
/* Larger numbers than these are left to others: so products of them stay within 64 bits. */
#define PLACES_MAX 1024
#define EXTENT_MAX ((int64_t)1 << 20)
#define STEP_MAX 4096      /* of strides and dilations */
#define GRAIN_MACS 100000  /* worth a thread */
#define GRAIN_FLOATS 20000 /* copied */

/* NULL: this processor has none. */
static const dn_gradient_isa *isa_of(const dn_lib *lib)
{
    return DN_ISA_OF(lib, dn_gradient);
}

/* ---- sizes ---- */

/* Of an axis on which the window has one place, the pixels that no window meets are no part of the
 * image. */
static void skip_pixels(dn_gradient *d, uint32_t axis)
{
    if (d->kernel[axis] == 1 && d->pad[axis] == 0 &&
        (d->out[axis] - 1) * d->stride[axis] < d->in[axis]) {
        d->in[axis] = d->out[axis];
        d->x_dim[axis] *= d->stride[axis];
        d->stride[axis] = 1;
    }
}

static void gradient_init(dn_gradient *d, const dn_op *op, const dn_sizes *s)
{
    const st_contraction *contraction = &op->contraction;
    const uint32_t before = DN_GRADIENT_AXES - contraction->n_spatial;
    *d = (dn_gradient){.op = op, .s = s, .isa = isa_of(op->lib), .places = 1};
    d->channels = s->channels / contraction->groups;
    d->features = s->features / contraction->groups;
    for (uint32_t i = 0; i < DN_GRADIENT_AXES; i++) {
        d->in[i] = d->out[i] = d->kernel[i] = d->stride[i] = d->dilation[i] = 1;
    }
    for (uint32_t i = before; i < DN_GRADIENT_AXES; i++) {
        const uint32_t a = i - before;
        d->in[i] = s->in[a];
        d->out[i] = s->out_size[a];
        d->kernel[i] = s->kernel[a];
        d->stride[i] = contraction->stride[a];
        d->dilation[i] = contraction->dilation[a];
        d->pad[i] = s->pad_low[a];
        d->x_dim[i] = s->x.dims[2u + a];
        d->g_dim[i] = s->y.dims[2u + a];
        d->w_dim[i] = s->out.dims[2u + a];
        d->places *= s->kernel[a];
        skip_pixels(d, i);
    }
}

/* ---- blocks ---- */

typedef struct tiles {
    dn_gradient d;
    int64_t columns;                 /* of a tile */
    int64_t pitch;                   /* floats of a pixel in a panel of x */
    int64_t row_tiles, column_tiles; /* of a group */
    int64_t joined;                  /* places of a line of the window that are rows of a tile */
    int64_t passes;                  /* of an inner loop over the pixels of a block */
    int64_t images, lines[2]; /* extents of a block: images, and lines on the first two axes */
    int64_t x_lines, g_lines; /* that panels have room for */
    int64_t tile_floats;      /* sums of a tile */
    float *x, *g, *sums;
    dn_gradient_pixels *met; /* the pixels that each pass meets, `list` each */
    int64_t *n_met;
    int64_t list;
    dn_gradient_range at[3]; /* images and lines of the block */
    dn_gradient_range in[2]; /* lines of the image that it meets */
    bool is_first, is_last;
} tiles;

static void set_lines(tiles *t)
{
    const dn_gradient *d = &t->d;
    t->g_lines = t->images * t->lines[0] * t->lines[1];
    t->x_lines = t->images * dn_gradient_lines_met(d, 0, t->lines[0]) *
                 dn_gradient_lines_met(d, 1, t->lines[1]);
}

/* Floats of panels of so many channels and features. */
static int64_t panel_floats(const tiles *t, int64_t channels, int64_t features)
{
    return t->x_lines * t->d.in[2] * channels + t->g_lines * t->d.out[2] * features;
}

static int64_t all_floats(const tiles *t)
{
    const int64_t groups = t->d.op->contraction.groups;
    return panel_floats(t, t->row_tiles * t->pitch * groups, t->column_tiles * t->columns * groups);
}

static bool does_fit(const tiles *t)
{
    return panel_floats(t, t->pitch, t->columns) * (int64_t)sizeof(float) <= PAIR_BYTES &&
           all_floats(t) * (int64_t)sizeof(float) <= PANELS_BYTES;
}

/* Halves the extent until the block fits, or is of one. */
static void shrink(tiles *t, int64_t *extent)
{
    const int64_t whole = *extent;
    for (int64_t parts = 2; *extent > 1 && !does_fit(t); parts *= 2) {
        *extent = (whole + parts - 1) / parts;
        set_lines(t);
    }
}

static int64_t tile_count(const tiles *t)
{
    return t->d.op->contraction.groups * t->column_tiles * t->row_tiles;
}

static int64_t joins_of_line(const tiles *t)
{
    return (t->d.kernel[2] + t->joined - 1) / t->joined;
}

/* The order of channels and places in panels of x and in sums. */
static void set_rows(tiles *t)
{
    dn_gradient *d = &t->d;
    const bool is_wide = d->channels > d->isa->lanes / 2;
    t->row_tiles = (d->channels + d->isa->rows - 1) / d->isa->rows;
    /* Pixels of a panel begin where vectors do, unless that leaves most of them empty. */
    t->pitch = is_wide ? d->isa->lanes : d->channels;
    t->joined = is_wide || d->dilation[2] > 1 ? 1 : d->isa->rows / d->channels;
    t->joined = st_max_i64(1, st_min_i64(t->joined, d->kernel[2]));
    d->is_place_major = t->joined > 1;
    t->passes = d->places / d->kernel[2] * joins_of_line(t);
    t->passes += d->is_place_major ? d->places : 0; /* for what places do not meet together */
}

static void tiles_init(tiles *t, const dn_gradient *d)
{
    *t = (tiles){.d = *d, .columns = DN_GRADIENT_VECTORS * d->isa->lanes};
    set_rows(t);
    t->column_tiles = (d->features + t->columns - 1) / t->columns;
    t->tile_floats = d->isa->rows * d->places * t->columns;
    t->images = d->s->images;
    t->lines[0] = d->out[0];
    t->lines[1] = d->out[1];
    set_lines(t);
    shrink(t, &t->images);
    shrink(t, &t->lines[0]);
    shrink(t, &t->lines[1]);
    t->list = t->d.is_place_major ? 2 * t->g_lines : t->g_lines;
}

static uint64_t scratch_of(const tiles *t)
{
    const int64_t floats =
        all_floats(t) + DN_GRADIENT_VECTORS * t->d.isa->lanes + tile_count(t) * t->tile_floats;
    return (uint64_t)floats * sizeof(float) +
           (uint64_t)(t->passes * t->list) * sizeof(dn_gradient_pixels) +
           ((uint64_t)t->passes + 1u) * sizeof(int64_t);
}

/* Sums first, which begin at a cache line then. */
static void set_memory(tiles *t, void *scratch)
{
    const int64_t groups = t->d.op->contraction.groups;
    t->sums = scratch;
    t->g = t->sums + tile_count(t) * t->tile_floats;
    t->x = t->g + t->g_lines * t->d.out[2] * t->column_tiles * t->columns * groups;
    t->met = (dn_gradient_pixels *)(void *)(t->x + t->x_lines * t->d.in[2] * t->row_tiles *
                                                       t->pitch * groups);
    const uintptr_t counts = (uintptr_t)(t->met + t->passes * t->list);
    t->n_met = (int64_t *)((counts + sizeof(int64_t) - 1u) / sizeof(int64_t) * sizeof(int64_t));
}

/* ---- lines of a block ---- */

static int64_t length(dn_gradient_range range)
{
    return range.end - range.begin;
}

/* The part of an axis of the block that meets the image at place k. */
static dn_gradient_range met_in_block(const tiles *t, uint32_t axis, int64_t k)
{
    return dn_gradient_both(t->at[axis + 1], dn_gradient_met(&t->d, axis, k));
}

/* Places of a line of the window that an inner loop takes at once, for the pixels that all of them
 * meet; or one of them, for those that it meets beyond these. */
typedef struct pass {
    int64_t k[3]; /* the first place */
    int64_t n;
    bool is_rest;
} pass;

static pass pass_at(const tiles *t, int64_t i)
{
    const int64_t joins = joins_of_line(t);
    const int64_t of_line = t->passes / (t->d.kernel[0] * t->d.kernel[1]);
    const int64_t line = i / of_line;
    pass p = {.k = {line / t->d.kernel[1], line % t->d.kernel[1]}, .is_rest = i % of_line >= joins};
    p.k[2] = p.is_rest ? i % of_line - joins : i % of_line * t->joined;
    p.n = p.is_rest ? 1 : st_min_i64(t->joined, t->d.kernel[2] - p.k[2]);
    return p;
}

/* The pixels of a line that a pass meets: how many ranges. */
static uint32_t ranges_of(const tiles *t, const pass *p, dn_gradient_range out[2])
{
    const dn_gradient *d = &t->d;
    const dn_gradient_range met =
        dn_gradient_met_by_all(d, 2, (dn_gradient_range){p->k[2], p->k[2] + p->n});
    out[0] = met;
    if (!p->is_rest) {
        return 1;
    }
    const int64_t first = p->k[2] / t->joined * t->joined;
    const dn_gradient_range joined = {first, st_min_i64(first + t->joined, d->kernel[2])};
    const dn_gradient_range all = dn_gradient_met_by_all(d, 2, joined);
    if (length(all) == 0) {
        return 1;
    }
    out[0].end = all.begin;
    out[1] = (dn_gradient_range){all.end, met.end};
    return 2;
}

/* These pixels of line `g` of the block, which meet line `x` at place k of a line of the window. */
static dn_gradient_pixels run_of(const tiles *t, int64_t x, int64_t g, int64_t k,
                                 dn_gradient_range met)
{
    const dn_gradient *d = &t->d;
    const int64_t first = x * d->in[2] + met.begin * d->stride[2] + k * d->dilation[2] - d->pad[2];
    return (dn_gradient_pixels){(uint32_t)(first * t->pitch),
                                (uint32_t)((g * d->out[2] + met.begin) * t->columns),
                                (uint32_t)length(met)};
}

/* The pixels that a pass meets. */
static int64_t note_pass(const tiles *t, const pass *p, dn_gradient_pixels *to)
{
    const dn_gradient *d = &t->d;
    const dn_gradient_range rows[2] = {met_in_block(t, 0, p->k[0]), met_in_block(t, 1, p->k[1])};
    const int64_t first[2] = {p->k[0] * d->dilation[0] - d->pad[0] - t->in[0].begin,
                              p->k[1] * d->dilation[1] - d->pad[1] - t->in[1].begin};
    dn_gradient_range ranges[2];
    const uint32_t n_ranges = ranges_of(t, p, ranges);
    int64_t n = 0;
    for (int64_t image = 0; image < length(t->at[0]); image++) {
        for (int64_t i = rows[0].begin; i < rows[0].end; i++) {
            const int64_t x = image * length(t->in[0]) + i * d->stride[0] + first[0];
            const int64_t g = image * length(t->at[1]) + i - t->at[1].begin;
            for (int64_t j = rows[1].begin; j < rows[1].end; j++) {
                for (uint32_t r = 0; r < n_ranges; r++) {
                    to[n] = run_of(t, x * length(t->in[1]) + j * d->stride[1] + first[1],
                                   g * length(t->at[2]) + j - t->at[2].begin, p->k[2], ranges[r]);
                    n += length(ranges[r]) > 0;
                }
            }
        }
    }
    return n;
}

static void note_passes(const tiles *t)
{
    for (int64_t i = 0; i < t->passes; i++) {
        const pass p = pass_at(t, i);
        t->n_met[i] = note_pass(t, &p, t->met + i * t->list);
    }
}

/* ---- panels ---- */

/* The first channel of a row tile. */
static int64_t first_row(const tiles *t, int64_t tile)
{
    return tile * t->d.channels / t->row_tiles;
}

/* A line of few channels that do not lie side by side. */
static void pack_planes(const tiles *t, const float *from, float *to)
{
    const dn_gradient *d = &t->d;
    for (int64_t c = 0; c < d->channels; c++) {
        const float *plane = from + c * d->s->x.dims[1];
        for (int64_t i = 0; i < d->in[2]; i++) {
            to[i * t->pitch + c] = plane[i * d->x_dim[2]];
        }
    }
}

static void pack_x(const tiles *t, int64_t line)
{
    const dn_gradient *d = &t->d;
    const int64_t n[2] = {length(t->in[0]), length(t->in[1])};
    const float *from = (const float *)d->at[DN_X] +
                        (t->at[0].begin + line / n[1] / n[0]) * d->s->x.dims[0] +
                        (t->in[0].begin + line / n[1] % n[0]) * d->x_dim[0] +
                        (t->in[1].begin + line % n[1]) * d->x_dim[1];
    for (int64_t i = 0; i < d->op->contraction.groups * t->row_tiles; i++) {
        const int64_t begin = first_row(t, i % t->row_tiles);
        const int64_t rows = first_row(t, i % t->row_tiles + 1) - begin;
        const int64_t channel = i / t->row_tiles * d->channels + begin;
        float *panel = t->x + i * t->x_lines * d->in[2] * t->pitch;
        if (d->s->x.dims[1] != 1) {
            pack_planes(t, from + channel * d->s->x.dims[1], panel + line * d->in[2] * t->pitch);
            continue;
        }
        const dn_gradient_pack pack = {.from = from + channel,
                                       .n = d->in[2],
                                       .step = d->x_dim[2],
                                       .count = rows,
                                       .width = t->pitch,
                                       .next = d->x_dim[1]};
        d->isa->pack(&pack, panel + line * d->in[2] * t->pitch);
    }
}

/* Features of a column tile. */
static int64_t columns_of(const tiles *t, int64_t tile)
{
    return st_min_i64(t->columns, t->d.features - tile * t->columns);
}

static int64_t vectors_of(const tiles *t, int64_t tile)
{
    return columns_of(t, tile) > t->d.isa->lanes ? 2 : 1;
}

static void pack_g(const tiles *t, int64_t line)
{
    const dn_gradient *d = &t->d;
    const int64_t n[2] = {length(t->at[1]), length(t->at[2])};
    const float *from = (const float *)d->at[DN_Y] +
                        (t->at[0].begin + line / n[1] / n[0]) * d->s->y.dims[0] +
                        (t->at[1].begin + line / n[1] % n[0]) * d->g_dim[0] +
                        (t->at[2].begin + line % n[1]) * d->g_dim[1];
    for (int64_t i = 0; i < d->op->contraction.groups * t->column_tiles; i++) {
        const int64_t tile = i % t->column_tiles;
        const int64_t feature = i / t->column_tiles * d->features + tile * t->columns;
        float *panel = t->g + i * t->columns * t->g_lines * d->out[2];
        const dn_gradient_pack pack = {.from = from + feature,
                                       .n = d->out[2],
                                       .step = d->g_dim[2],
                                       .count = columns_of(t, tile),
                                       .width = t->columns,
                                       .next = d->g_dim[1]};
        d->isa->pack(&pack, panel + line * d->out[2] * t->columns);
    }
}

/* Lines of g, and behind them those of x. */
static void pack_range(void *self, int64_t begin, int64_t end)
{
    const tiles *t = self;
    const int64_t n = length(t->at[0]) * length(t->at[1]) * length(t->at[2]);
    for (int64_t i = begin; i < end; i++) {
        if (i < n) {
            pack_g(t, i);
        } else {
            pack_x(t, i - n);
        }
    }
}

/* ---- tiles ---- */

/* The sums of a tile to the weights. */
static void give_weights(const tiles *t, int64_t i, int64_t begin, int64_t rows)
{
    const dn_gradient *d = &t->d;
    const int64_t column = i / t->row_tiles % t->column_tiles;
    const int64_t group = i / t->row_tiles / t->column_tiles;
    const int64_t n = rows * d->places;
    for (int64_t v = 0; v < vectors_of(t, column); v++) {
        const int64_t first = v * d->isa->lanes;
        const int64_t feature = group * d->features + column * t->columns + first;
        dn_gradient_give(d, t->sums + i * t->tile_floats + first * n, n,
                         st_min_i64(d->isa->lanes, columns_of(t, column) - first), 0,
                         (float *)d->at[DN_OUT] + feature * d->s->out.dims[0] +
                             begin * d->s->out.dims[1]);
    }
}

/* Of a place, sums lie behind each other where rows are places too; else those of a row do. */
static void run_tile(const tiles *t, int64_t i)
{
    const dn_gradient *d = &t->d;
    const int64_t begin = first_row(t, i % t->row_tiles);
    const int64_t rows = first_row(t, i % t->row_tiles + 1) - begin;
    const int64_t column = i / t->row_tiles % t->column_tiles;
    const int64_t panel = i / t->row_tiles / t->column_tiles * t->row_tiles + i % t->row_tiles;
    const int64_t place_step = (d->is_place_major ? rows : 1) * d->isa->lanes;
    dn_gradient_tile tile = {.x = t->x + panel * t->x_lines * d->in[2] * t->pitch,
                             .g = t->g + i / t->row_tiles * t->columns * t->g_lines * d->out[2],
                             .x_step = d->stride[2] * t->pitch,
                             .sums_step = (d->is_place_major ? 1 : d->places) * d->isa->lanes,
                             .second = rows * d->places * d->isa->lanes};
    for (int64_t at = 0; at < t->passes; at++) {
        const pass p = pass_at(t, at);
        const int64_t place = (p.k[0] * d->kernel[1] + p.k[1]) * d->kernel[2] + p.k[2];
        tile.sums = t->sums + i * t->tile_floats + place * place_step;
        tile.runs = t->met + at * t->list;
        tile.n = t->n_met[at];
        tile.is_first = t->is_first && !p.is_rest;
        d->isa->run(&tile, p.n * rows, vectors_of(t, column));
    }
    if (t->is_last) {
        give_weights(t, i, begin, rows);
    }
}

static void run_range(void *self, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        run_tile(self, i);
    }
}

static void run_block(tiles *t, stator_ctx *ctx)
{
    const dn_gradient *d = &t->d;
    const stator_host *host = d->s->threads > 1 ? d->op->lib->host : NULL;
    const int64_t floats = d->in[2] * d->s->channels + d->out[2] * d->s->features;
    t->in[0] = dn_gradient_lines_of(d, 0, t->at[1]);
    t->in[1] = dn_gradient_lines_of(d, 1, t->at[2]);
    note_passes(t);
    const int64_t g_lines = length(t->at[0]) * length(t->at[1]) * length(t->at[2]);
    const int64_t x_lines = length(t->at[0]) * length(t->in[0]) * length(t->in[1]);
    dn_parallel(host, ctx, g_lines + x_lines, GRAIN_FLOATS / floats + 1, pack_range, t);
    const int64_t macs = d->isa->rows * t->columns * d->places * g_lines * d->out[2];
    dn_parallel(host, ctx, tile_count(t), GRAIN_MACS / macs + 1, run_range, t);
}

static dn_gradient_range part_at(int64_t begin, int64_t extent, int64_t whole)
{
    return (dn_gradient_range){begin, st_min_i64(whole, begin + extent)};
}

static void run_blocks(tiles *t, stator_ctx *ctx)
{
    const dn_gradient *d = &t->d;
    const int64_t n[3] = {(d->s->images + t->images - 1) / t->images,
                          (d->out[0] + t->lines[0] - 1) / t->lines[0],
                          (d->out[1] + t->lines[1] - 1) / t->lines[1]};
    const int64_t blocks = n[0] * n[1] * n[2];
    for (int64_t i = 0; i < blocks; i++) {
        t->at[0] = part_at(i / n[2] / n[1] * t->images, t->images, d->s->images);
        t->at[1] = part_at(i / n[2] % n[1] * t->lines[0], t->lines[0], d->out[0]);
        t->at[2] = part_at(i % n[2] * t->lines[1], t->lines[1], d->out[1]);
        t->is_first = i == 0;
        t->is_last = i + 1 == blocks;
        run_block(t, ctx);
    }
}

static bool is_depthwise(const st_contraction *contraction, const dn_sizes *s)
{
    return contraction->groups == s->channels && s->channels > 1;
}

stator_status dn_gradient_run(const dn_op *op, const dn_plan *plan, const dn_sizes *s,
                              void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err)
{
    dn_gradient d;
    tiles t;
    gradient_init(&d, op, s);
    d.at = at;
    if (plan->desc.how.is_winograd) {
        return dn_wino_gradient_run(&d, ctx, err);
    }
    if (is_depthwise(&op->contraction, s)) {
        return dn_gradient_depthwise_run(&d, ctx, err);
    }
    tiles_init(&t, &d);
    dn_scratch *scratch = dn_scratch_take(op->lib, scratch_of(&t));
    ST_TRY_MEM(scratch, err);
    set_memory(&t, dn_scratch_data(scratch));
    run_blocks(&t, ctx);
    dn_scratch_give(op->lib, scratch);
    return STATOR_OK;
}

uint64_t dn_gradient_scratch(const dn_op *op, const dn_sizes *s, uint32_t is_winograd)
{
    dn_gradient d;
    tiles t;
    gradient_init(&d, op, s);
    if (is_winograd) {
        return dn_wino_gradient_scratch(&d);
    }
    if (is_depthwise(&op->contraction, s)) {
        return dn_gradient_depthwise_scratch(&d);
    }
    tiles_init(&t, &d);
    return scratch_of(&t);
}

/* ---- which ---- */

static bool is_small(const st_contraction *contraction, const dn_sizes *s)
{
    int64_t places = 1;
    bool is_small = s->images < EXTENT_MAX && s->channels < EXTENT_MAX && s->features < EXTENT_MAX;
    for (uint32_t i = 0; is_small && i < contraction->n_spatial; i++) {
        is_small = s->in[i] < EXTENT_MAX && s->out_size[i] < EXTENT_MAX && s->kernel[i] >= 1 &&
                   s->kernel[i] <= PLACES_MAX && contraction->stride[i] <= STEP_MAX &&
                   contraction->dilation[i] <= STEP_MAX && s->pad_low[i] < EXTENT_MAX &&
                   s->pad_low[i] > -EXTENT_MAX;
        places *= is_small ? s->kernel[i] : 1;
        is_small = is_small && places <= PLACES_MAX;
    }
    return is_small;
}

/* Channels lie side by side, but for few of an image, and vectors of features, or of channels,
 * are at least half full. */
static bool is_taken(const dn_op *op, const dn_sizes *s, int64_t lanes)
{
    const st_contraction *contraction = &op->contraction;
    const bool is_f32 = contraction->x.dtype == STATOR_F32 && contraction->y.dtype == STATOR_F32 &&
                        contraction->out.dtype == STATOR_F32;
    if (contraction->kind != ST_CONTRACTION_CONV || !contraction->is_weight_grad) {
        return false;
    }
    const bool is_each = is_depthwise(contraction, s);
    const int64_t of_vectors = is_each ? s->channels : s->features / contraction->groups;
    const bool are_few = !is_each && s->channels / contraction->groups <= lanes / 2;
    return is_f32 && (s->x.dims[1] == 1 || are_few) && s->y.dims[1] == 1 &&
           of_vectors >= lanes / 2 && (!is_each || s->features == s->channels) &&
           is_small(contraction, s);
}

bool dn_gradient_describe(const dn_op *op, const dn_sizes *s, uint32_t is_winograd, dn_desc *out)
{
    const dn_gradient_isa *isa = isa_of(op->lib);
    memset(out, 0, sizeof *out);
    if (isa == NULL || !is_taken(op, s, isa->lanes) ||
        (is_winograd && !dn_wino_gradient_takes(op, s)) ||
        dn_gradient_scratch(op, s, is_winograd) > (uint64_t)SCRATCH_MAX) {
        return false;
    }
    out->name = is_winograd ? "gradient, winograd" : "gradient";
    out->class_ = DN_GOOD;
    out->how.is_gradient = 1;
    out->how.is_winograd = is_winograd;
    return dn_note_operands(op, s, s->features, out);
}
