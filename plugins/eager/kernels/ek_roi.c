/* roi_align: bilinear samples of each bin of a region, in f64, rounded once.
 *
 * He et al., "Mask R-CNN", 2017, as the text of ONNX RoiAlign has it: each bin of a region is
 * sampled on a grid of points bilinearly. Points further than one pixel outside count 0, others are
 * clamped. mode max takes the largest of the four weighted corners of every point, not of the
 * interpolated values: ONNX's definition by its test data.
 *
 * All channels of a region share its points, so x is copied with its channels last and BLOCK of
 * them are done at a time:
 *
 *     x[N, C, H, W]  ->  pixels[N, H, W, C]  ->  sums[bins, BLOCK] of a region  ->  y[R, C, bins]
 *
 * A point's weights are products of weights along y and x. So an average over a bin's points is one
 * over pixels, whose weights are products of what all points give a pixel along each axis. */
#include "plugins/eager/eager.h"

#include "core/base/check.h"

#include <math.h>

#define BLOCK 64 /* channels that a thread does together: the sums of 7x7 bins stay in its cache */
#define LANES 16 /* channels whose sums are in registers */
#define PIXELS_MAX 64 /* pixels that are added at a time */

typedef struct aligner {
    const ek_call *call;
    const void *pixels;              /* f64 where x is, else f32, which holds every x */
    int64_t channels, height, width; /* sizes of x */
    int64_t blocks;                  /* blocks of channels */
    int64_t rows, columns;           /* bins of a region */
    int64_t sampling;
    double scale, shift;
    bool is_max, is_wide; /* is_wide: pixels are f64 */
    int64_t taps_most;    /* taps of a region, along y and x together */
    int64_t chunks;       /* regions times blocks; each has room of its own: */
    struct tap *taps;
    struct share *shares;
    double *sums;
} aligner;

typedef struct region {
    double y, x;         /* begin */
    double bin_y, bin_x; /* size of a bin */
    int64_t n_y, n_x;    /* points of a bin */
} region;

/* Where points on a line of the grid lie along an axis: two pixels and their weights. */
typedef struct tap {
    int64_t at[2];
    double weight[2];
    bool is_inside;
} tap;

/* What the points of a bin give one pixel along an axis. A bin's shares are two a point, those
 * that are not needed of weight 0 and `is_none`. */
typedef struct share {
    int64_t at;
    double weight;
    bool is_none;
} share;

/* The room of one chunk. */
typedef struct room {
    tap *taps;
    share *shares;
    double *sums;
} room;

/* ---- channels last ---- */

#define TILE 16

/* One tile of rows of pixels by channels; f32 to f32 is by far the most common. */
static void copy_tile(const aligner *a, int64_t image, int64_t pixel, int64_t channel)
{
    const ek_tensor *x = &a->call->in[0];
    const int64_t n = a->height * a->width;
    const int64_t pixel_end = st_min_i64(pixel + TILE, n);
    const int64_t channel_end = st_min_i64(channel + TILE, a->channels);
    for (int64_t p = pixel; p < pixel_end; p++) {
        for (int64_t c = channel; c < channel_end; c++) {
            const int64_t from = (image * a->channels + c) * n + p;
            const int64_t to = (image * n + p) * a->channels + c;
            if (a->is_wide) {
                ((double *)(uintptr_t)a->pixels)[to] = ((const double *)x->data)[from];
            } else {
                ((float *)(uintptr_t)a->pixels)[to] = x->dtype == STATOR_F32
                                                          ? ((const float *)x->data)[from]
                                                          : (float)ek_get(x, from);
            }
        }
    }
}

/* Rows of tiles [begin, end) over images * tiles of pixels. */
static void copy_range(void *self, int64_t begin, int64_t end)
{
    const aligner *a = self;
    const int64_t tiles = (a->height * a->width + TILE - 1) / TILE;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t c = 0; c < a->channels; c += TILE) {
            copy_tile(a, i / tiles, i % tiles * TILE, c);
        }
    }
}

/* ---- points ---- */

static tap tap_at(double at, int64_t size)
{
    tap t = {.is_inside = at >= -1.0 && at <= (double)size};
    if (t.is_inside) {
        const double clamped = at < 0.0 ? 0.0 : at > (double)(size - 1) ? (double)(size - 1) : at;
        const int64_t first = (int64_t)clamped;
        const double fraction = clamped - (double)first;
        t.at[0] = first;
        t.at[1] = first + 1 < size ? first + 1 : first;
        t.weight[0] = 1.0 - fraction;
        t.weight[1] = fraction;
    }
    return t;
}

/* Taps of all points of a region along one axis, bin by bin. */
static void find_taps(double begin, double bin, int64_t bins, int64_t points, int64_t size,
                      tap *out)
{
    for (int64_t b = 0; b < bins; b++) {
        for (int64_t p = 0; p < points; p++) {
            const double i = (double)p + 0.5;
            *out++ = tap_at(begin + (double)b * bin + i * bin / (double)points, size);
        }
    }
}

/* Shares of a bin's pixels from the taps of its points, which ascend. */
static void find_shares(const tap *taps, int64_t points, share *out)
{
    int64_t n = 0;
    for (int64_t p = 0; p < points; p++) {
        for (int k = 0; k < 2 && taps[p].is_inside; k++) {
            int64_t i = n;
            while (i > 0 && i + 2 > n && out[i - 1].at != taps[p].at[k]) {
                i--;
            }
            if (i > 0 && i + 2 > n) {
                out[i - 1].weight += taps[p].weight[k];
            } else {
                out[n++] = (share){taps[p].at[k], taps[p].weight[k], false};
            }
        }
    }
    for (; n < 2 * points; n++) {
        out[n] = (share){.is_none = true};
    }
}

/* ---- channels of a bin ---- */

/* Pixels and their weights. */
typedef struct pixels {
    int64_t n;
    const void *at[PIXELS_MAX];
    double weight[PIXELS_MAX];
} pixels;

/* Adds the weighted pixels to each channel's sum. */
#define ADD_PIXELS(name, type, attribute)                                                          \
    attribute static void name(const pixels *list, int64_t n, double *sums)                        \
    {                                                                                              \
        int64_t first = 0;                                                                         \
        for (; first + LANES <= n; first += LANES) {                                               \
            double sum[LANES];                                                                     \
            memcpy(sum, sums + first, sizeof sum);                                                 \
            for (int64_t k = 0; k < list->n; k++) {                                                \
                const type *x = (const type *)list->at[k] + first;                                 \
                for (int64_t i = 0; i < LANES; i++) {                                              \
                    sum[i] += list->weight[k] * (double)x[i];                                      \
                }                                                                                  \
            }                                                                                      \
            memcpy(sums + first, sum, sizeof sum);                                                 \
        }                                                                                          \
        for (int64_t k = 0; k < list->n; k++) {                                                    \
            for (int64_t i = first; i < n; i++) {                                                  \
                sums[i] += list->weight[k] * (double)((const type *)list->at[k])[i];               \
            }                                                                                      \
        }                                                                                          \
    }

/* Makes the largest of a point's four weighted corners each channel's value where it is larger than
 * what is there, or NaN. */
#define MAX_POINT(name, type, attribute)                                                           \
    attribute static void name(const pixels *list, int64_t n, double *values)                      \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            double value = list->weight[0] * (double)((const type *)list->at[0])[i];               \
            for (int k = 1; k < 4; k++) {                                                          \
                const double w = list->weight[k] * (double)((const type *)list->at[k])[i];         \
                value = w > value || w != w ? w : value;                                           \
            }                                                                                      \
            values[i] = value > values[i] || value != value ? value : values[i];                   \
        }                                                                                          \
    }

ADD_PIXELS(add_pixels, float, )
ADD_PIXELS(add_pixels_wide, double, )
MAX_POINT(max_point, float, )
MAX_POINT(max_point_wide, double, )
#if defined(__x86_64__)
ADD_PIXELS(add_pixels_avx2, float, __attribute__((target("avx2"))))
MAX_POINT(max_point_avx2, float, __attribute__((target("avx2"))))
#define BY_WIDTH(a, name, ...)                                                                     \
    ((a)->is_wide                     ? name##_wide(__VA_ARGS__)                                   \
     : __builtin_cpu_supports("avx2") ? name##_avx2(__VA_ARGS__)                                   \
                                      : name(__VA_ARGS__))
#else
#define BY_WIDTH(a, name, ...) ((a)->is_wide ? name##_wide(__VA_ARGS__) : name(__VA_ARGS__))
#endif

static const void *pixel_at(const aligner *a, const char *image, int64_t y, int64_t x)
{
    const int64_t bytes = a->is_wide ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
    return image + (y * a->width + x) * a->channels * bytes;
}

/* The n channels of a bin whose points have these taps along y and x. */
static void largest_of_bin(const aligner *a, const region *r, const char *image, const tap *y,
                           const tap *x, int64_t n, double *values)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = r->n_y * r->n_x > 0 ? -INFINITY : 0.0;
    }
    for (int64_t p = 0; p < r->n_y * r->n_x; p++) {
        const tap *const ty = &y[p / r->n_x];
        const tap *const tx = &x[p % r->n_x];
        pixels corners = {.n = 4};
        for (int k = 0; k < 4; k++) {
            corners.at[k] = pixel_at(a, image, ty->at[k / 2], tx->at[k % 2]);
            corners.weight[k] = ty->weight[k / 2] * tx->weight[k % 2];
        }
        if (ty->is_inside && tx->is_inside) {
            BY_WIDTH(a, max_point, &corners, n, values);
            continue;
        }
        for (int64_t i = 0; i < n; i++) { /* a point outside counts as 0 */
            values[i] = 0.0 > values[i] ? 0.0 : values[i];
        }
    }
}

/* The same with shares. */
static void average_of_bin(const aligner *a, const region *r, const char *image, const share *y,
                           const share *x, int64_t n, double *sums)
{
    const double count = (double)(r->n_y * r->n_x);
    pixels list;
    list.n = 0;
    memset(sums, 0, (uint64_t)n * sizeof *sums);
    for (int64_t i = 0; i < 2 * r->n_y && !y[i].is_none; i++) {
        for (int64_t j = 0; j < 2 * r->n_x && !x[j].is_none; j++) {
            if (list.n == PIXELS_MAX) {
                BY_WIDTH(a, add_pixels, &list, n, sums);
                list.n = 0;
            }
            list.at[list.n] = pixel_at(a, image, y[i].at, x[j].at);
            list.weight[list.n++] = y[i].weight * x[j].weight;
        }
    }
    BY_WIDTH(a, add_pixels, &list, n, sums);
    for (int64_t i = 0; count > 0 && i < n; i++) {
        sums[i] /= count;
    }
}

/* ---- regions ---- */

static bool read_region(const aligner *a, int64_t roi, region *out)
{
    const ek_tensor *rois = &a->call->in[1];
    double box[4]; /* x1, y1, x2, y2 */
    for (int k = 0; k < 4; k++) {
        box[k] = ek_get(rois, roi * 4 + k) * a->scale - a->shift;
    }
    double height = box[3] - box[1];
    double width = box[2] - box[0];
    if (a->shift == 0.0) { /* without the half pixel a region has at least one pixel */
        height = height > 1.0 ? height : 1.0;
        width = width > 1.0 ? width : 1.0;
    }
    *out = (region){box[1], box[0], height / (double)a->rows, width / (double)a->columns, 0, 0};
    const double n_y = a->sampling > 0 ? (double)a->sampling : ceil(out->bin_y);
    const double n_x = a->sampling > 0 ? (double)a->sampling : ceil(out->bin_x);
    ST_NEED(n_y < 65536.0 && n_x < 65536.0);
    out->n_y = n_y > 0.0 ? (int64_t)n_y : 0;
    out->n_x = n_x > 0.0 ? (int64_t)n_x : 0;
    return true;
}

/* Taps of all points of a region, and shares where values are averages. */
static void find_points(const aligner *a, const region *r, const room *in)
{
    tap *const x = in->taps + a->rows * r->n_y;
    find_taps(r->y, r->bin_y, a->rows, r->n_y, a->height, in->taps);
    find_taps(r->x, r->bin_x, a->columns, r->n_x, a->width, x);
    for (int64_t b = 0; b < a->rows && !a->is_max; b++) {
        find_shares(in->taps + b * r->n_y, r->n_y, in->shares + b * 2 * r->n_y);
    }
    share *const of_x = in->shares + a->rows * 2 * r->n_y;
    for (int64_t b = 0; b < a->columns && !a->is_max; b++) {
        find_shares(x + b * r->n_x, r->n_x, of_x + b * 2 * r->n_x);
    }
}

/* n channels of a region from `channel` on, whose sums are there. */
static void store_block(const aligner *a, int64_t roi, int64_t channel, int64_t n,
                        const double *sums)
{
    const ek_tensor *out = &a->call->out[0];
    const int64_t bins = a->rows * a->columns;
    const int64_t first = (roi * a->channels + channel) * bins;
    for (int64_t c = 0; c < n; c++) {
        for (int64_t bin = 0; bin < bins; bin++) {
            const int64_t at = first + c * bins + bin;
            if (out->dtype == STATOR_F32) {
                ((float *)out->data)[at] = (float)sums[bin * BLOCK + c];
            } else {
                ek_put(out, at, sums[bin * BLOCK + c]);
            }
        }
    }
}

/* A block of channels of a region. */
static void align_block(const aligner *a, int64_t roi, int64_t block, const room *in)
{
    const ek_tensor *batch = &a->call->in[2];
    const int64_t bytes = a->is_wide ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
    const int64_t number = st_load_i64(batch->dtype, batch->data, roi);
    const int64_t channel = block * BLOCK;
    const int64_t n = st_min_i64(BLOCK, a->channels - channel);
    const char *image =
        (const char *)a->pixels + (number * a->height * a->width * a->channels + channel) * bytes;
    region r;
    (void)read_region(a, roi, &r); /* checked before */
    find_points(a, &r, in);
    for (int64_t bin = 0; bin < a->rows * a->columns; bin++) {
        const int64_t row = bin / a->columns;
        const int64_t y = row * r.n_y;
        const int64_t x = a->rows * r.n_y + bin % a->columns * r.n_x;
        double *sums = in->sums + bin * BLOCK;
        if (a->is_max) {
            largest_of_bin(a, &r, image, in->taps + y, in->taps + x, n, sums);
        } else {
            average_of_bin(a, &r, image, in->shares + 2 * y, in->shares + 2 * x, n, sums);
        }
    }
    store_block(a, roi, channel, n, in->sums);
}

/* Chunks [begin, end) of regions times blocks. */
static void align_range(void *self, int64_t begin, int64_t end)
{
    const aligner *a = self;
    const int64_t n = a->call->out[0].dims[0] * a->blocks;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const room in = {a->taps + chunk * a->taps_most, a->shares + chunk * 2 * a->taps_most,
                         a->sums + chunk * a->rows * a->columns * BLOCK};
        for (int64_t i = n * chunk / a->chunks; i < n * (chunk + 1) / a->chunks; i++) {
            align_block(a, i / a->blocks, i % a->blocks, &in);
        }
    }
}

/* ---- the call ---- */

static stator_status check_regions(aligner *a, stator_diag **err)
{
    const ek_call *c = a->call;
    const int64_t n = c->in[2].numel;
    EK_FAIL_IF(c->in[1].numel != 4 * n || c->out[0].dims[0] != n ||
                   c->out[0].dims[1] != a->channels || a->height * a->width == 0,
               c, err, STATOR_INVALID_ARGUMENT,
               "%lld image numbers need rois[%lld, 4] and an image that is not empty", (long long)n,
               (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t image = st_load_i64(c->in[2].dtype, c->in[2].data, i);
        region r;
        EK_FAIL_IF(image < 0 || image >= c->in[0].dims[0], c, err, STATOR_OUT_OF_RANGE,
                   "region %lld is in image %lld of %lld", (long long)i, (long long)image,
                   (long long)c->in[0].dims[0]);
        EK_FAIL_IF(!read_region(a, i, &r), c, err, STATOR_INVALID_ARGUMENT,
                   "region %lld needs more than 65535 points a bin or is not finite", (long long)i);
        const int64_t taps = a->rows * r.n_y + a->columns * r.n_x;
        a->taps_most = taps > a->taps_most ? taps : a->taps_most;
    }
    return STATOR_OK;
}

static bool make_scratch(aligner *a)
{
    const ek_call *c = a->call;
    const stator_host *host = c->self->host;
    const int64_t threads = host->thr->thread_count(host->ctx);
    a->chunks = st_min_i64(c->out[0].dims[0] * a->blocks, threads * 4);
    a->taps = ek_scratch(c, a->chunks * a->taps_most + 1, sizeof *a->taps);
    a->shares = ek_scratch(c, 2 * a->chunks * a->taps_most + 1, sizeof *a->shares);
    a->sums = ek_scratch(c, a->chunks * a->rows * a->columns, BLOCK * sizeof *a->sums);
    a->pixels = ek_scratch(c, c->in[0].numel + 1, a->is_wide ? sizeof(double) : sizeof(float));
    return a->taps && a->shares && a->sums && a->pixels;
}

stator_status ek_roi_align(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    aligner a = {.call = c,
                 .channels = x->dims[1],
                 .height = x->dims[2],
                 .width = x->dims[3],
                 .blocks = (x->dims[1] + BLOCK - 1) / BLOCK,
                 .rows = c->out[0].dims[2],
                 .columns = c->out[0].dims[3],
                 .sampling = ek_int(c, STATOR_roi_align_sampling_ratio),
                 .scale = ek_float(c, STATOR_roi_align_scale),
                 .shift = ek_int(c, STATOR_roi_align_half_pixel) != 0 ? 0.5 : 0.0,
                 .is_max = ek_str_is(c, STATOR_roi_align_mode, "max"),
                 .is_wide = x->dtype == STATOR_F64};
    if (c->out[0].numel == 0) {
        return STATOR_OK;
    }
    ST_TRY(check_regions(&a, err));
    EK_TRY_MEM(make_scratch(&a), c, err);
    ek_parallel(c, x->dims[0] * ((a.height * a.width + TILE - 1) / TILE), 1 + 4096 / a.channels,
                copy_range, &a);
    ek_parallel(c, a.chunks, 1, align_range, &a);
    return STATOR_OK;
}
