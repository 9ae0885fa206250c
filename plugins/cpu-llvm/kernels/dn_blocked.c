/* Depthwise convolutions of short lines or with strides, f32, images with channels first: a
 * vector's lanes are channels.
 *
 * Where lines are shorter than two vectors, vectors of neighbours are partly empty and each line
 * is met at many offsets. Here the planes of as many channels as a vector has lanes are
 * transposed into scratch (nChw16c, of one block of channels), some lines at a time, between
 * zeros, so that each product of a pixel and a place of the window is one vector's, whatever the
 * sizes; the sums are transposed back. The zeros beside the pixels stay from block to block, and
 * lines outside of the image are left out. Lanes that no channel is left for do the last one
 * once more. Threads take blocks. */
#include "plugins/cpu-llvm/kernels/dn_planes.h"

#include "core/base/check.h"

#include <string.h>

#define LANES_MAX 16
#define BYTES_MAX ((int64_t)96 << 10) /* scratch, about: a part of the second cache */
#define EXTENT_MAX 4096               /* so that products of extents stay within 64 bits */

/* Scratch of a thread. */
typedef struct blocked {
    const dn_planes *p;
    int64_t *place;      /* place in scratch of each pixel of the lines there */
    int64_t *place_w;    /* place in scratch of each weight of the window */
    float *lane_weights; /* the weights lane by lane, where the caller's do not lie so */
    float *x, *out, *weights;
} blocked;

/* ---- sizes ---- */

/* Lines between the first and the last pixel of the image, with those that lie between. */
static int64_t lines_of(const dn_planes *p)
{
    return (p->in[0] - 1) * p->apart[0] + 1;
}

/* Lines of the image that lie in scratch for n lines of the output. */
static int64_t lines_held(const dn_planes *p, int64_t n)
{
    const int64_t met = (n - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
    return st_min_i64(lines_of(p), met);
}

static int64_t pixels_held(const dn_planes *p, int64_t n)
{
    return ((lines_held(p, n) - 1) / p->apart[0] + 1) * p->in[1];
}

static int64_t bytes_of(const dn_planes *p, int64_t n)
{
    const int64_t vectors = lines_held(p, n) * p->pitch + n * p->out[1] + 2 * p->places;
    return vectors * p->isa->lanes * (int64_t)sizeof(float) +
           (pixels_held(p, n) + p->places) * (int64_t)sizeof(int64_t);
}

/* Transposing takes somewhat less time than 3x3 products of all lanes do: that is saved where lines
 * leave many lanes empty, and where their pixels are copied one by one for the stride. */
static bool is_worth_it(const dn_planes *p)
{
    return (p->out[1] < 2 * p->isa->lanes || p->stride[1] > 1) &&
           p->s->features >= p->isa->lanes / 2 &&
           !(dn_epilogue_kinds(&p->op->contraction) & DN_KIND(ADD));
}

bool dn_blocked_init(dn_planes *p)
{
    const int64_t met = (p->out[1] - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1;
    const int64_t pitch = st_max_i64(met, p->pad[1] + (p->in[1] - 1) * p->apart[1] + 1);
    if (!is_worth_it(p) || lines_of(p) > EXTENT_MAX || pitch > EXTENT_MAX ||
        p->out[0] > EXTENT_MAX || p->out[1] > EXTENT_MAX || p->places > EXTENT_MAX) {
        return false;
    }
    p->pitch = pitch;
    p->block = p->out[0];
    while (p->block > 1 && bytes_of(p, p->block) > BYTES_MAX) {
        p->block = (p->block + 1) / 2;
    }
    p->blocks = (p->out[0] + p->block - 1) / p->block;
    p->bytes = bytes_of(p, p->block);
    return p->bytes <= 2 * BYTES_MAX;
}

int64_t dn_blocked_count(const dn_planes *p)
{
    const int64_t lanes = p->isa->lanes;
    return p->s->images * ((p->s->features + lanes - 1) / lanes) * p->blocks;
}

/* ---- a block ---- */

static void set_memory(blocked *b, const dn_planes *p, void *scratch)
{
    const int64_t lanes = p->isa->lanes;
    const int64_t floats = lines_held(p, p->block) * p->pitch * lanes;
    b->p = p;
    b->x = scratch;
    b->out = b->x + floats;
    b->weights = b->out + p->block * p->out[1] * lanes;
    b->lane_weights = b->weights + p->places * lanes;
    b->place = (int64_t *)(void *)(b->lane_weights + p->places * lanes);
    b->place_w = b->place + pixels_held(p, p->block);
    memset(b->x, 0, (size_t)floats * sizeof *b->x);
    int64_t line = p->pad[1];
    for (int64_t *at = b->place; at < b->place_w; line += p->apart[0] * p->pitch) {
        for (int64_t i = 0; i < p->in[1]; i++) {
            *at++ = line + i * p->apart[1];
        }
    }
    for (int64_t i = 0; i < p->places; i++) {
        b->place_w[i] = i;
    }
}

static void take_weights(const blocked *b, const dn_block *block)
{
    const dn_planes *p = b->p;
    const dn_operand *y = &p->s->y;
    const bool is_dense =
        !p->op->contraction.is_transposed && p->w_step[1] == 1 && p->w_step[0] == p->kernel[1];
    const float *rows[LANES_MAX];
    for (int64_t i = 0; i < p->isa->lanes; i++) {
        const int64_t at = block->feature + st_min_i64(i, block->count - 1);
        if (is_dense) {
            rows[i] = (const float *)p->at[DN_Y] + at * y->dims[0];
        } else {
            float *line = b->lane_weights + i * p->places;
            dn_planes_weights(p, at, line);
            rows[i] = line;
        }
    }
    p->isa->to_vectors(rows, 0, p->places, b->place_w, b->weights);
}

/* The lines of the image that the block meets, to vectors. */
static void take_lines(const blocked *b, int64_t image, int64_t first, dn_block *block)
{
    const dn_planes *p = b->p;
    const dn_sizes *s = p->s;
    const int64_t times = s->features / s->channels;
    const int64_t top = first * p->stride[0] - p->pad[0];
    const int64_t last =
        top + (block->out_lines - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0];
    const int64_t begin = top <= 0 ? 0 : (top + p->apart[0] - 1) / p->apart[0];
    const int64_t end = last < 0 ? 0 : st_min_i64(p->in[0], last / p->apart[0] + 1);
    block->top = top - begin * p->apart[0];
    block->lines = begin < end ? (end - begin - 1) * p->apart[0] + 1 : 0;
    const float *rows[LANES_MAX];
    for (int64_t i = 0; i < p->isa->lanes; i++) {
        const int64_t channel = (block->feature + st_min_i64(i, block->count - 1)) / times;
        rows[i] = (const float *)p->at[DN_X] + image * s->x.dims[0] + channel * s->x.dims[1];
    }
    const bool is_dense = p->x_line == p->in[1];
    const int64_t run = is_dense ? (end - begin) * p->in[1] : p->in[1];
    for (int64_t i = begin; i < end; i += is_dense ? end - begin : 1) {
        p->isa->to_vectors(rows, i * p->x_line, run, b->place + (i - begin) * p->in[1], b->x);
    }
}

static void give_lines(const blocked *b, int64_t image, int64_t first, const dn_block *block)
{
    const dn_planes *p = b->p;
    const dn_operand *out = &p->s->out;
    const int64_t n = block->out_lines;
    float *rows[LANES_MAX];
    for (int64_t i = 0; i < p->isa->lanes; i++) {
        const int64_t feature = block->feature + st_min_i64(i, block->count - 1);
        rows[i] = (float *)p->at[DN_OUT] + image * out->dims[0] + feature * out->dims[1] +
                  first * p->out_line;
    }
    if (p->out_line == p->out[1]) {
        p->isa->to_rows(b->out, 0, n * p->out[1], rows);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        p->isa->to_rows(b->out + i * p->out[1] * p->isa->lanes, i * p->out_line, p->out[1], rows);
    }
}

void dn_blocked_run_range(void *self, int64_t begin, int64_t end)
{
    dn_planes *p = self;
    const int64_t lanes = p->isa->lanes;
    const int64_t of_lanes = p->s->images * p->blocks;
    dn_scratch *scratch = dn_scratch_take(p->lib, (uint64_t)p->bytes);
    if (scratch == NULL) {
        p->has_failed = 1;
        return;
    }
    blocked b;
    set_memory(&b, p, dn_scratch_data(scratch));
    for (int64_t i = begin; i < end; i++) {
        const int64_t feature = i / of_lanes * lanes;
        const int64_t image = i % of_lanes / p->blocks;
        const int64_t first = i % p->blocks * p->block;
        dn_block block = {.p = p,
                          .feature = feature,
                          .count = st_min_i64(lanes, p->s->features - feature),
                          .out_lines = st_min_i64(p->block, p->out[0] - first),
                          .x = b.x,
                          .weights = b.weights,
                          .out = b.out};
        if (i == begin || i % of_lanes == 0) {
            take_weights(&b, &block);
        }
        take_lines(&b, image, first, &block);
        p->isa->run_block(&block);
        give_lines(&b, image, first, &block);
    }
    dn_scratch_give(p->lib, scratch);
}
