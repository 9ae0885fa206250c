/* grid_sample: interpolation at positions the data give, in f64, rounded once.
 *
 * A position in [-1, 1] becomes x in pixels; outside the image's border (pixel centres
 * with align_corners, else pixel edges) border clamps it, though not for cubic, and reflection
 * mirrors it. Along each axis x has 1 (nearest), 2 (linear) or 4 (cubic) taps, brought inside in
 * the same way or, with zeros, left out; the value is the sum over all combinations of taps. The
 * last axis of grid lists the coordinates in reverse order of the axes. A position that is NaN, or
 * infinite where padding does not clamp it, gives NaN; with nearest and zeros it is outside, which
 * gives 0. So does PyTorch with zeros (ONNX says nothing). With cubic and border only the taps are
 * clamped, so that the curve goes on outside: so PyTorch and ONNX Runtime have it, where the text
 * is silent. Sources: the text of ONNX GridSample; cubic kernel with a = -0.75, Keys, IEEE TASSP
 * 29(6), 1981. */
#include "plugins/eager/kernels/ek_gemm.h"

#include <math.h>

#define AXES_MAX 8u

enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

typedef struct sampler {
    const ek_call *call;
    ek_wide *x;
    uint32_t n; /* spatial axes */
    int mode, padding, align;
    int64_t size[AXES_MAX];
    int64_t channels, plane; /* elements of one channel of x */
    int64_t points;          /* samples of one image */
} sampler;

/* The taps of a position along one axis. */
typedef struct taps {
    uint32_t n;
    int64_t index[4]; /* -1: reads 0 */
    double weight[4];
} taps;

/* Mirrors v at the borders lo and hi until it lies between them. */
static double reflect(double v, double lo, double hi)
{
    const double range = hi - lo;
    if (!(range > 0.0)) {
        return lo;
    }
    if (v >= lo && v <= hi) {
        return v;
    }
    const double distance = v < lo ? lo - v : v - hi;
    const double reflections = trunc(distance / range);
    const double rest = distance - reflections * range;
    const bool from_low = (fmod(reflections, 2.0) == 0.0) == (v < lo);
    return from_low ? lo + rest : hi - rest;
}

static int64_t clamp_index(double i, int64_t n)
{
    return !(i > 0.0) ? 0 : i >= (double)(n - 1) ? n - 1 : (int64_t)i;
}

static double cubic(double d)
{
    const double a = -0.75;
    return d <= 1.0 ? ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
                    : ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
}

/* Taps of the grid's coordinate g along an axis of n pixels. */
static taps find_taps(const sampler *s, double g, int64_t n)
{
    const double size = (double)n;
    const double lo = s->align ? 0.0 : -0.5;
    const double hi = s->align ? size - 1.0 : size - 0.5;
    double x = s->align ? (g + 1.0) / 2.0 * (size - 1.0) : ((g + 1.0) * size - 1.0) / 2.0;
    taps t = {.n = s->mode == MODE_NEAREST ? 1 : s->mode == MODE_LINEAR ? 2 : 4};
    x = s->mode == MODE_NEAREST ? nearbyint(x) : x; /* halves to even */
    if (s->padding == PAD_REFLECTION && (x < lo || x > hi)) {
        x = reflect(x, lo, hi);
    } else if (s->padding == PAD_BORDER && s->mode != MODE_CUBIC && (x < lo || x > hi)) {
        x = x < 0.0 ? 0.0 : x > size - 1.0 ? size - 1.0 : x;
    }
    const double first = floor(x) - (s->mode == MODE_CUBIC ? 1.0 : 0.0);
    const bool is_dropped = s->mode == MODE_NEAREST && s->padding == PAD_ZEROS;
    for (uint32_t k = 0; k < t.n; k++) {
        const double i = first + (double)k;
        const double d = fabs(x - i); /* NaN where x is infinite */
        t.weight[k] = isnan(x) && !is_dropped   ? x
                      : s->mode == MODE_NEAREST ? 1.0
                      : s->mode == MODE_LINEAR  ? 1.0 - d
                                                : cubic(d);
        t.index[k] = clamp_index(s->padding == PAD_REFLECTION ? reflect(i, lo, hi) : i, n);
        if (s->padding == PAD_ZEROS && !(i >= 0.0 && i <= size - 1.0)) {
            t.index[k] = -1;
        }
    }
    return t;
}

/* The sum over all combinations of taps from axis k on; `at` is the offset of the axes before. */
static double combine(const sampler *s, const taps *t, uint32_t k, const ek_wide *x, int64_t at)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < t[k].n; i++) {
        if (t[k].index[i] >= 0 && t[k].weight[i] != 0.0) { /* 0 * inf would be NaN */
            const int64_t here = at * s->size[k] + t[k].index[i];
            sum += t[k].weight[i] * (k + 1u < s->n ? combine(s, t, k + 1u, x, here) : x[here].f);
        }
    }
    return sum;
}

/* Taps that are outside elsewhere do not hide a position that is no number. */
static bool has_nan(const sampler *s, const taps *t)
{
    bool is_found = false;
    for (uint32_t k = 0; k < s->n; k++) {
        is_found = is_found || isnan(t[k].weight[0]);
    }
    return is_found;
}

/* Points [begin, end) over images * samples, all channels. */
static void sample_range(void *self, int64_t begin, int64_t end)
{
    const sampler *s = self;
    const ek_tensor *grid = &s->call->in[1];
    const ek_tensor *out = &s->call->out[0];
    for (int64_t p = begin; p < end; p++) {
        taps t[AXES_MAX];
        for (uint32_t k = 0; k < s->n; k++) {
            const int64_t at = p * s->n + (s->n - 1u - k);
            t[k] = find_taps(s, ek_get(grid, at), s->size[k]);
        }
        const bool is_nan = has_nan(s, t);
        for (int64_t c = 0; c < s->channels; c++) {
            const int64_t plane = p / s->points * s->channels + c;
            ek_put(out, plane * s->points + p % s->points,
                   is_nan ? NAN : combine(s, t, 0, s->x + plane * s->plane, 0));
        }
    }
}

static stator_status check_grid(const sampler *s, stator_diag **err)
{
    const ek_call *c = s->call;
    const ek_tensor *out = &c->out[0];
    bool fits = c->in[1].dims[0] == c->in[0].dims[0] && out->dims[0] == c->in[0].dims[0] &&
                out->dims[1] == s->channels && c->in[1].dims[s->n + 1u] == (int64_t)s->n;
    for (uint32_t k = 0; k < s->n; k++) {
        fits = fits && out->dims[2u + k] == c->in[1].dims[1u + k];
    }
    EK_FAIL_IF(!fits, c, err, STATOR_INVALID_ARGUMENT,
               "x[N, C, spatial] needs grid[N, out.., %u] of the same N", s->n);
    EK_FAIL_IF(s->plane == 0, c, err, STATOR_INVALID_ARGUMENT, "an empty image cannot be sampled");
    return STATOR_OK;
}

stator_status ek_grid_sample(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    sampler s = {.call = c,
                 .n = x->rank - 2u,
                 .mode = ek_str_is(c, STATOR_grid_sample_mode, "nearest")  ? MODE_NEAREST
                         : ek_str_is(c, STATOR_grid_sample_mode, "linear") ? MODE_LINEAR
                                                                           : MODE_CUBIC,
                 .padding = ek_str_is(c, STATOR_grid_sample_padding, "zeros")    ? PAD_ZEROS
                            : ek_str_is(c, STATOR_grid_sample_padding, "border") ? PAD_BORDER
                                                                                 : PAD_REFLECTION,
                 .align = ek_int(c, STATOR_grid_sample_align_corners) != 0,
                 .channels = x->dims[1],
                 .plane = ek_product(x->dims, 2, x->rank)};
    EK_FAIL_IF(s.n > AXES_MAX, c, err, STATOR_UNSUPPORTED, "%u spatial axes; 1 to %u are supported",
               s.n, AXES_MAX);
    if (c->out[0].numel == 0) {
        return STATOR_OK;
    }
    for (uint32_t k = 0; k < s.n; k++) {
        s.size[k] = x->dims[2u + k];
    }
    ST_TRY(check_grid(&s, err));
    s.points = ek_product(c->out[0].dims, 2, x->rank);
    ST_TRY(ek_widen(c, x, &s.x, err));
    ek_parallel(c, x->dims[0] * s.points, 1 + 1024 / s.channels, sample_range, &s);
    return STATOR_OK;
}
