/* Gradients of 3x3 convolutions of stride 1 to their weights by Winograd's F(4,3) the other way
 * round, f32, images with channels last, AVX2.
 *
 * With Y = A'[(G w G') o (B'XB)]A for each tile of 6 x 6 pixels of the image (X) and 4 x 4 of the
 * output (Y), the gradient to w is G'[(A dY A') o (B'XB)]G. So the tiles of both become 36 numbers
 * each, and for each of these places the weights of all channels and features are a product of two
 * matrices whose common axis is that of tiles: a quarter of the products. Sums of all tiles stay in
 * scratch and become weights at the end. Some lines of tiles are transformed at a time by all
 * threads, then threads take places and panels of features; each sum is made in one order, whatever
 * their number.
 *
 * (A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", 2015; the way back is
 * the transposed of that bilinear algorithm.) */
#include "plugins/cpu-llvm/kernels/dn_gradient.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include "core/base/check.h"
#include "core/base/diag.h"

#include <string.h>

#define EDGE 6
#define TILE DN_WINO_FLOATS
#define PLACES (EDGE * EDGE)
#define TAPS 9
#define COLUMNS 16 /* of a panel */
#define LANES 8
#define TILES_BYTES ((int64_t)6 << 20) /* of transformed tiles: a part of the last cache */
#define TILES_MAX 256                  /* of a block: a panel's stay in the first cache */
#define SUMS_MAX ((int64_t)64 << 20)   /* bytes */
#define CHANNELS_MIN 8
#define TILES_A_RANGE 16 /* worth a thread */

/* The numbers of a call. */
typedef struct wino {
    const dn_gradient *d;
    const dn_tiles_isa *isa;
    int64_t channels, features, panels;
    int64_t across, down, lines; /* tiles of a line, lines of an image and of all images */
    int64_t held;                /* lines of a block */
    int64_t tiles;               /* of this block, or of the largest */
    int64_t first;               /* line of this block */
    int64_t x_step, g_step;      /* floats from place to place */
    float *x, *g;                /* [place][tile][channel] and [place][panel][tile][COLUMNS] */
    float *sums;                 /* [panel][place][channel][COLUMNS] */
    _Atomic bool has_failed;
} wino;

/* NULL: this processor has none. */
static const dn_tiles_isa *isa_of(const dn_lib *lib)
{
    return dn_vector_bytes(lib) == 32 ? dn_tiles_256(STATOR_F32) : NULL;
}

static void set_tiles(wino *w, int64_t lines)
{
    w->tiles = lines * w->across;
    w->x_step = dn_wino_step(w->tiles * w->channels);
    w->g_step = dn_wino_step(w->tiles * w->panels * COLUMNS);
}

static void wino_init(wino *w, const dn_gradient *d)
{
    *w = (wino){.d = d, .isa = isa_of(d->op->lib)};
    w->channels = d->channels;
    w->features = d->features;
    w->panels = dn_parts(d->features, COLUMNS);
    w->down = dn_parts(d->out[1], TILE);
    w->across = dn_parts(d->out[2], TILE);
    w->lines = w->down * d->s->images;
    const int64_t line =
        PLACES * w->across * (w->channels + w->panels * COLUMNS) * (int64_t)sizeof(float);
    const int64_t held = dn_least(TILES_BYTES / line, TILES_MAX / w->across);
    w->held = dn_least(held < 1 ? 1 : held, w->lines);
    set_tiles(w, w->held);
}

static int64_t sums_floats(const wino *w)
{
    return w->panels * PLACES * w->channels * COLUMNS;
}

/* A thread's copies of a tile of each image. */
static uint64_t copy_bytes(const wino *w)
{
    return (uint64_t)(EDGE * EDGE * w->channels + TILE * TILE * w->features) * sizeof(float);
}

static uint64_t tiles_bytes(const wino *w)
{
    return (uint64_t)(PLACES * (w->x_step + w->g_step) + sums_floats(w)) * sizeof(float);
}

uint64_t dn_wino_gradient_scratch(const dn_gradient *d)
{
    wino w;
    wino_init(&w, d);
    return tiles_bytes(&w) + copy_bytes(&w) * (uint64_t)d->s->threads;
}

/* ---- tiles ---- */

/* A tile of an image: where it begins, and its edge. */
typedef struct patch {
    const float *image;
    int64_t lines, width, channels; /* of the image, whose pixels lie side by side */
    int64_t line;                   /* floats from line to line */
    int64_t y, x, edge;
} patch;

/* The pixels of a tile that reaches out of its image, with zeros for those that are not there. */
static void copy_patch(const patch *p, float *to)
{
    const int64_t bytes = p->channels * (int64_t)sizeof *to;
    for (int64_t i = 0; i < p->edge; i++) {
        for (int64_t j = 0; j < p->edge; j++, to += p->channels) {
            const int64_t y = p->y + i;
            const int64_t x = p->x + j;
            if (y < 0 || y >= p->lines || x < 0 || x >= p->width) {
                memset(to, 0, (size_t)bytes);
            } else {
                memcpy(to, p->image + y * p->line + x * p->channels, (size_t)bytes);
            }
        }
    }
}

/* The tile's first pixel and, in *line, floats from line to line: where it lies, or its copy. */
static const float *find_patch(const patch *p, float *copy, int64_t *line)
{
    if (p->y >= 0 && p->x >= 0 && p->y + p->edge <= p->lines && p->x + p->edge <= p->width) {
        *line = p->line;
        return p->image + p->y * p->line + p->x * p->channels;
    }
    copy_patch(p, copy);
    *line = p->edge * p->channels;
    return copy;
}

static void load_tile(const wino *w, int64_t tile, float *copy)
{
    const dn_gradient *d = w->d;
    const int64_t at = w->first * w->across + tile;
    const int64_t image = at / w->across / w->down;
    const int64_t y = at / w->across % w->down * TILE;
    const int64_t x = at % w->across * TILE;
    int64_t line = 0;
    const patch of_x = {.image = (const float *)d->at[DN_X] + image * d->s->x.dims[0],
                        .lines = d->in[1],
                        .width = d->in[2],
                        .channels = w->channels,
                        .line = d->x_dim[1],
                        .y = y - d->pad[1],
                        .x = x - d->pad[2],
                        .edge = EDGE};
    const float *from = find_patch(&of_x, copy, &line);
    w->isa->wino_in(from, line, w->channels, w->x_step, w->x + tile * w->channels);
    const patch of_g = {.image = (const float *)d->at[DN_Y] + image * d->s->y.dims[0],
                        .lines = d->out[1],
                        .width = d->out[2],
                        .channels = w->features,
                        .line = d->g_dim[1],
                        .y = y,
                        .x = x,
                        .edge = TILE};
    from = find_patch(&of_g, copy, &line);
    for (int64_t i = 0; i < w->panels; i++) {
        const dn_wino_gradient_tile tile_in = {.from = from + i * COLUMNS,
                                               .line = line,
                                               .pixel = w->features,
                                               .features =
                                                   dn_least(COLUMNS, w->features - i * COLUMNS),
                                               .to = w->g + (i * w->tiles + tile) * COLUMNS,
                                               .step = w->g_step};
        w->isa->wino_gradient_in(&tile_in);
    }
}

static void load_tiles(void *self, int64_t begin, int64_t end)
{
    wino *w = self;
    dn_scratch *copy = dn_scratch_take(w->d->op->lib, copy_bytes(w));
    if (copy == NULL) {
        w->has_failed = true;
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        load_tile(w, i, dn_scratch_data(copy));
    }
    dn_scratch_give(w->d->op->lib, copy);
}

/* ---- products ---- */

/* A place and a panel: all channels. */
static void multiply(void *self, int64_t begin, int64_t end)
{
    const wino *w = self;
    const dn_gradient_isa *isa = w->d->isa;
    const dn_gradient_pixels all = {.pixels = (uint32_t)w->tiles};
    for (int64_t i = begin; i < end; i++) {
        const int64_t panel = i / PLACES;
        const int64_t place = i % PLACES;
        const int64_t vectors = w->features - panel * COLUMNS > LANES ? 2 : 1;
        const int64_t parts = dn_parts(w->channels, isa->rows);
        for (int64_t k = 0; k < parts; k++) {
            const int64_t channel = w->channels * k / parts;
            const dn_gradient_tile tile = {.runs = &all,
                                           .n = 1,
                                           .x = w->x + place * w->x_step + channel,
                                           .g = w->g + place * w->g_step +
                                                panel * w->tiles * COLUMNS,
                                           .x_step = w->channels,
                                           .sums = w->sums + (i * w->channels + channel) * COLUMNS,
                                           .sums_step = COLUMNS,
                                           .second = LANES,
                                           .is_first = w->first == 0};
            isa->run(&tile, w->channels * (k + 1) / parts - channel, vectors);
        }
    }
}

/* ---- weights ---- */

/* Panels and channels: the sums of a channel to the weights of the panel's features. */
static void give(void *self, int64_t begin, int64_t end)
{
    const wino *w = self;
    const dn_gradient *d = w->d;
    float weights[TAPS * LANES];
    for (int64_t i = begin; i < end; i++) {
        const int64_t panel = i / w->channels;
        const int64_t channel = i % w->channels;
        for (int64_t v = 0; v < COLUMNS && panel * COLUMNS + v < w->features; v += LANES) {
            const int64_t feature = panel * COLUMNS + v;
            w->isa->wino_gradient_out(w->sums + (panel * PLACES * w->channels + channel) * COLUMNS +
                                          v,
                                      w->channels * COLUMNS, weights);
            dn_gradient_give(d, weights, TAPS, dn_least(LANES, w->features - feature), 0,
                             (float *)d->at[DN_OUT] + feature * d->s->out.dims[0] +
                                 channel * d->s->out.dims[1]);
        }
    }
}

/* ---- a call ---- */

stator_status dn_wino_gradient_run(const dn_gradient *d, stator_ctx *ctx, stator_diag **err)
{
    wino w;
    wino_init(&w, d);
    dn_lib *lib = d->op->lib;
    const stator_host *host = d->s->threads > 1 ? lib->host : NULL;
    dn_scratch *scratch = dn_scratch_take(lib, tiles_bytes(&w));
    ST_TRY_MEM(scratch, err);
    dn_scratch_reserve(lib, copy_bytes(&w), d->s->threads);
    w.sums = dn_scratch_data(scratch);
    w.x = w.sums + sums_floats(&w);
    w.g = w.x + PLACES * w.x_step;
    for (w.first = 0; w.first < w.lines && !w.has_failed; w.first += w.held) {
        set_tiles(&w, dn_least(w.held, w.lines - w.first));
        dn_parallel(host, ctx, w.tiles, TILES_A_RANGE, load_tiles, &w);
        dn_parallel(host, ctx, w.panels * PLACES, 1, multiply, &w);
    }
    dn_parallel(host, ctx, w.panels * w.channels, TILES_A_RANGE, give, &w);
    dn_scratch_give(lib, scratch);
    return w.has_failed ? st_fail_oom(err) : STATOR_OK;
}

/* ---- which ---- */

bool dn_wino_gradient_takes(const dn_op *op, const dn_sizes *s)
{
    const st_contraction *contraction = &op->contraction;
    bool is_taken = (op->lib->flags & DNNL_WINOGRAD) && isa_of(op->lib) != NULL && s->images >= 1 &&
                    contraction->n_spatial == 2 && contraction->groups == 1 &&
                    s->channels >= CHANNELS_MIN && s->features >= CHANNELS_MIN &&
                    s->x.dims[1] == 1 && s->y.dims[1] == 1 && s->x.dims[3] == s->channels &&
                    s->y.dims[3] == s->features &&
                    PLACES * s->channels * dn_parts(s->features, COLUMNS) * COLUMNS <=
                        SUMS_MAX / (int64_t)sizeof(float);
    for (uint32_t i = 0; i < 2; i++) {
        is_taken = is_taken && s->kernel[i] == 3 && contraction->stride[i] == 1 &&
                   contraction->dilation[i] == 1 && s->out_size[i] >= TILE;
    }
    return is_taken;
}
