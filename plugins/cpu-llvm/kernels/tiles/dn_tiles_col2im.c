/* Transposed convolutions of few features: the window, [position][feature], is multiplied with the
 * pixels of the image, and the products are summed where they belong (col2im).
 *
 * By phases the features alone would fill a panel, for a picture 3 columns of 16. Here the pixels
 * are the columns of a panel and the positions of the window with their features are the rows, so
 * tiles are full, channels that come first are copied without a transposition, and a feature's
 * sums, contiguous along a line, are summed in vectors. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles_job.h"

#define FEATURES_MAX 8 /* half a panel of AVX2 */
#define CHANNELS_MIN 8

bool dn_tiles_is_col2im(const st_contraction *contraction, const dn_sizes *s)
{
    const uint32_t last = contraction->n_spatial - 1u;
    const int64_t *strides = s->y.dims + 2;
    return contraction->kind == ST_CONTRACTION_CONV && contraction->is_transposed &&
           contraction->x.dtype == STATOR_F32 && contraction->groups == 1 &&
           s->features <= FEATURES_MAX && s->channels >= CHANNELS_MIN &&
           (last == 0 || strides[0] == s->kernel[last] * strides[last]);
}

/* ---- products ---- */

void dn_col2im_load(const dn_job *j, const char *image, const dn_range *pixels, char *to)
{
    const int64_t n = pixels->end - pixels->begin;
    const int64_t row = j->columns * (int64_t)sizeof(float);
    const dn_regroup r = {.from = image + pixels->begin * j->s.channels * j->size,
                          .plane = j->s.channels,
                          .channels = n,
                          .n = j->s.channels,
                          .width = j->s.channels,
                          .to = to,
                          .depth = n,
                          .pixel = row};
    const dn_panel p = {.from = (const float *)(const void *)image + pixels->begin,
                        .plane = j->s.x.dims[1],
                        .channels = j->s.channels,
                        .n = n,
                        .columns = j->columns,
                        .to = (float *)(void *)to};
    if (j->is_last[0]) {
        j->isa->regroup(&r);
    } else {
        j->isa->copy_panel(&p);
    }
}

void dn_col2im_multiply(const dn_job *j, const char *panel, float *to)
{
    const int64_t tiles = dn_parts(j->products, j->isa->rows);
    dn_tile t = {.row = j->depth * DN_TILE_GROUP,
                 .lines = 1,
                 .pixels = 1,
                 .length = j->depth,
                 .weights = panel,
                 .ask = panel,
                 .step = j->products_step};
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t first = j->products * i / tiles;
        t.x = j->weights + first * t.row;
        t.sums = (int32_t *)(void *)(to + first * j->products_step);
        j->isa->run(&t, j->products * (i + 1) / tiles - first);
    }
}

/* ---- sums ---- */

/* Positions of a phase's window that are inside the image, where the first one meets `met`. */
static dn_range inside(int64_t met, int64_t positions, int64_t dilation, int64_t extent)
{
    dn_range r = {0, positions};
    if (met < 0) {
        r.begin = dn_least(dn_parts(-met, dilation), positions);
    }
    if (met + (positions - 1) * dilation >= extent) {
        r.end = met < extent ? dn_parts(extent - met, dilation) : 0;
    }
    r.end = r.end < r.begin ? r.begin : r.end;
    return r;
}

/* The sums of n pixels of line y that are of x's phase, from pixel x on. Pixels at the edges, whose
 * windows are not whole, are summed one at a time. */
static void sum_phase(const dn_col2im *c, int64_t y, int64_t x, int64_t n, float *to)
{
    const dn_job *j = c->job;
    const dn_phase *down = dn_job_phase(j, 0, y);
    const dn_phase *across = dn_job_phase(j, 1, x);
    const int64_t dilation[2] = {j->phases[0].dilation, j->phases[1].dilation};
    const int64_t met[2] = {dn_job_met(j, 0, y), dn_job_met(j, 1, x)};
    const int64_t position = j->features * j->products_step;
    const int64_t line = j->kernel_width * position;
    const dn_range lines = inside(met[0], down->places, dilation[0], j->in_lines);
    const float *from = c->products + (down->first + lines.begin * down->step) * line +
                        across->first * position +
                        (met[0] + lines.begin * dilation[0] - c->top) * j->in_width + met[1];
    dn_positions p = {.lines = lines.end - lines.begin,
                      .line = down->step * line + dilation[0] * j->in_width,
                      .position = across->step * position + dilation[1],
                      .features = j->features,
                      .from_step = j->products_step,
                      .to_step = c->phases_step};
    for (int64_t i = 0; i < n; i += p.n) {
        const dn_range r = inside(met[1] + i, across->places, dilation[1], j->in_width);
        const int64_t whole = j->in_width - met[1] - (across->places - 1) * dilation[1];
        const bool is_whole = r.end - r.begin == across->places;
        p.n = across->places == 0 ? n : is_whole ? dn_least(n, whole) - i : 1;
        p.positions = r.end - r.begin;
        p.from = from + i + r.begin * p.position;
        p.to = to + i;
        j->isa->sum_positions(&p);
    }
}

void dn_col2im_sum(const dn_col2im *c, int64_t y, const dn_pixels *pixels)
{
    const dn_job *j = c->job;
    dn_col2im of_line = *c;
    dn_interleave both = {.every = j->phases[1].n, .step = pixels->step};
    both.n = dn_parts(pixels->n, both.every);
    of_line.phases_step = both.every * both.n;
    for (int64_t i = 0; i < dn_least(both.every, pixels->n); i++) {
        sum_phase(&of_line, y, pixels->x + i, dn_parts(pixels->n - i, both.every),
                  c->phases + i * both.n);
    }
    for (int64_t i = 0; i < j->features; i++) {
        both.from = c->phases + i * of_line.phases_step;
        both.to = pixels->sums + i * pixels->feature;
        j->isa->interleave(&both);
    }
}
