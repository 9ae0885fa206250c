/* conv and deform_conv: for each image, group and tile of output positions the input windows are
 * laid out as columns (im2col, Chellapilla et al., 2006), multiplied by the weights in f64 (or
 * 64-bit integers), the bias is added and the result rounded once. */
#include "plugins/eager/kernels/ek_taps.h"

#include <math.h>

#define COLUMN_BYTES (2 << 20) /* one tile's columns: the second level cache */

typedef struct conv {
    const ek_call *call;
    ek_taps taps;
    int64_t batch, groups, c_group, m_group;
    int64_t depth; /* c_group * taps.n_kernel */
    int64_t tile, tiles;
    ek_wide *weights; /* [groups * m_group, depth] */
    ek_wide *scratch; /* per worker: columns [depth, tile], result [m_group, tile] */
    const ek_tensor *bias;
    uint8_t is_int;
    /* deform_conv only */
    const ek_tensor *offset, *mask;
    int64_t offset_groups;
} conv;

static int64_t clamp_tile(int64_t depth)
{
    int64_t tile = COLUMN_BYTES / (8 * (depth > 0 ? depth : 1));
    tile = tile / 16 * 16;
    return tile < 32 ? 32 : tile > 512 ? 512 : tile;
}

stator_status ek_taps_check(const ek_call *c, const ek_taps *t, stator_diag **err)
{
    const int64_t limit = INT64_C(1) << 31;
    for (uint32_t a = 0; a < t->n; a++) {
        EK_FAIL_IF(t->stride[a] < 1 || t->stride[a] > limit || t->dilation[a] < 1 ||
                       t->dilation[a] > limit || t->low[a] < -limit || t->low[a] > limit ||
                       t->kernel[a] > (INT64_C(1) << 20),
                   c, err, STATOR_INVALID_ARGUMENT,
                   "axis %u has kernel %lld, stride %lld, dilation %lld, padding %lld; "
                   "strides and dilations are at least 1 and all below 2^31 (kernel 2^20)",
                   a, (long long)t->kernel[a], (long long)t->stride[a], (long long)t->dilation[a],
                   (long long)t->low[a]);
    }
    return STATOR_OK;
}

void ek_taps_gather(const ek_taps *t, const ek_tensor *x, int64_t base, const int64_t *tap,
                    int64_t first, int64_t n, ek_wide *row)
{
    const ek_wide zero = {.i = 0}; /* 0.0 has these bits, too */
    for (int64_t done = 0; done < n;) {
        const ek_tap_run run = ek_tap_run_at(t, tap, first + done, n - done);
        for (int64_t i = 0; i < run.length; i++) {
            row[done + i] = zero;
        }
        if (run.count > 0) {
            ek_load_wide(x, base + run.offset, t->stride[t->n - 1u], run.count,
                         row + done + run.skip);
        }
        done += run.length;
    }
}

static void fill_columns(const conv *c, int64_t image, int64_t group, int64_t first, int64_t n,
                         ek_wide *columns)
{
    const int64_t channels = c->groups * c->c_group;
    for (int64_t d = 0; d < c->depth; d++) {
        int64_t tap[EK_TAPS_AXES];
        ek_unflatten(d % c->taps.n_kernel, c->taps.kernel, c->taps.n, tap);
        const int64_t channel = image * channels + group * c->c_group + d / c->taps.n_kernel;
        ek_taps_gather(&c->taps, &c->call->in[0], channel * c->taps.n_image, tap, first, n,
                       columns + d * n);
    }
}

/* Bilinear sample of one channel at (y, x), zeros outside. */
static double bilinear(const conv *c, int64_t base, double y, double x)
{
    const double y0 = floor(y);
    const double x0 = floor(x);
    double sum = 0.0;
    for (int k = 0; k < 4; k++) {
        const double yy = y0 + (double)(k / 2);
        const double xx = x0 + (double)(k % 2);
        if (yy < 0 || xx < 0 || yy > (double)(c->taps.image[0] - 1) ||
            xx > (double)(c->taps.image[1] - 1)) {
            continue;
        }
        const double weight = (1.0 - fabs(y - yy)) * (1.0 - fabs(x - xx));
        sum +=
            weight * ek_get(&c->call->in[0], base + (int64_t)yy * c->taps.image[1] + (int64_t)xx);
    }
    return sum;
}

/* Columns of a deformable convolution (two spatial axes). */
static void fill_deformed(const conv *c, int64_t image, int64_t group, int64_t first, int64_t n,
                          ek_wide *columns)
{
    const int64_t channels = c->groups * c->c_group;
    const int64_t per_offset_group = channels / c->offset_groups;
    for (int64_t d = 0; d < c->depth; d++) {
        const int64_t channel = group * c->c_group + d / c->taps.n_kernel;
        const int64_t tap = d % c->taps.n_kernel;
        const int64_t og = channel / per_offset_group;
        const int64_t base = (image * channels + channel) * c->taps.n_image;
        const int64_t plane = (image * c->offset_groups + og) * c->taps.n_kernel + tap;
        for (int64_t i = 0; i < n; i++) {
            const int64_t p = first + i;
            const int64_t row = p / c->taps.position[1];
            const int64_t col = p % c->taps.position[1];
            const double dy = ek_get(c->offset, 2 * plane * c->taps.n_positions + p);
            const double dx = ek_get(c->offset, (2 * plane + 1) * c->taps.n_positions + p);
            const int64_t ty = tap / c->taps.kernel[1] * c->taps.dilation[0];
            const int64_t tx = tap % c->taps.kernel[1] * c->taps.dilation[1];
            double v =
                bilinear(c, base, (double)(row * c->taps.stride[0] - c->taps.low[0] + ty) + dy,
                         (double)(col * c->taps.stride[1] - c->taps.low[1] + tx) + dx);
            if (c->mask != NULL) {
                v *= ek_get(c->mask, plane * c->taps.n_positions + p);
            }
            columns[d * n + i].f = v;
        }
    }
}

static void add_bias(const conv *c, int64_t channel, ek_wide *row, int64_t n)
{
    if (c->bias == NULL) {
        return;
    }
    ek_wide b;
    ek_load_wide(c->bias, channel, 1, 1, &b);
    for (int64_t i = 0; i < n; i++) {
        if (c->is_int) {
            row[i].i = (int64_t)((uint64_t)row[i].i + (uint64_t)b.i);
        } else {
            row[i].f += b.f;
        }
    }
}

static void do_tile(void *self, int64_t task, int64_t worker)
{
    const conv *c = self;
    const int64_t first = task % c->tiles * c->tile;
    const int64_t group = task / c->tiles % c->groups;
    const int64_t image = task / c->tiles / c->groups;
    const int64_t n = c->taps.n_positions - first < c->tile ? c->taps.n_positions - first : c->tile;
    ek_wide *columns = c->scratch + worker * (c->depth + c->m_group) * c->tile;
    ek_wide *result = columns + c->depth * c->tile;
    if (c->offset != NULL) {
        fill_deformed(c, image, group, first, n, columns);
    } else {
        fill_columns(c, image, group, first, n, columns);
    }
    const ek_matrix_tile t = {.m = c->m_group,
                              .n = n,
                              .k = c->depth,
                              .a = c->weights + group * c->m_group * c->depth,
                              .lda = c->depth > 0 ? c->depth : 1,
                              .b = columns,
                              .ldb = n,
                              .c = result,
                              .ldc = n,
                              .is_int = c->is_int};
    ek_gemm_tile(c->call, &t);
    for (int64_t m = 0; m < c->m_group; m++) {
        const int64_t channel = group * c->m_group + m;
        add_bias(c, channel, result + m * n, n);
        ek_store_wide(&c->call->out[0],
                      (image * c->groups * c->m_group + channel) * c->taps.n_positions + first, n,
                      result + m * n);
    }
}

static stator_status check_sizes(const conv *c, stator_diag **err)
{
    const ek_tensor *x = &c->call->in[0];
    const ek_tensor *y = &c->call->out[0];
    const int64_t filters = c->call->in[1].dims[0];
    EK_FAIL_IF(c->groups < 1 || filters % c->groups != 0, c->call, err, STATOR_INVALID_ARGUMENT,
               "%lld filters are no multiple of %lld groups", (long long)filters,
               (long long)c->groups);
    EK_FAIL_IF(c->bias != NULL && c->bias->numel != filters, c->call, err, STATOR_INVALID_ARGUMENT,
               "bias has %lld elements, expected one for each of %lld filters",
               (long long)c->bias->numel, (long long)filters);
    EK_FAIL_IF(x->dims[1] != c->groups * c->c_group || y->dims[0] != x->dims[0] ||
                   y->dims[1] != filters,
               c->call, err, STATOR_INVALID_ARGUMENT,
               "input has %lld channels, weights want %lld groups of %lld", (long long)x->dims[1],
               (long long)c->groups, (long long)c->c_group);
    for (uint32_t a = 0; a < c->taps.n; a++) {
        EK_FAIL_IF(c->taps.kernel[a] > 0 && c->taps.position[a] < 0, c->call, err,
                   STATOR_INVALID_ARGUMENT, "the kernel exceeds the input");
    }
    return STATOR_OK;
}

static stator_status run(conv *c, stator_diag **err)
{
    const ek_call *call = c->call;
    if (call->out[0].numel == 0) {
        return STATOR_OK;
    }
    c->depth = c->c_group * c->taps.n_kernel;
    c->is_int = (uint8_t)ek_is_int_math(call->in[0].dtype);
    c->tile = clamp_tile(c->depth);
    c->tiles = (c->taps.n_positions + c->tile - 1) / c->tile;
    const int64_t n_tasks = c->batch * c->groups * c->tiles;
    const int64_t workers = ek_worker_count(call, n_tasks);
    ST_TRY(EK_SCRATCH(call, c->scratch, workers * (c->depth + c->m_group) * c->tile, err));
    ST_TRY(ek_widen(call, &call->in[1], &c->weights, err));
    ek_gemm_prepare(call);
    ek_workers(call, workers, n_tasks, do_tile, c);
    return STATOR_OK;
}

/* Sizes common to both ops; places of the attributes differ. */
static void read_geometry(conv *c, const ek_call *call, uint32_t strides, uint32_t pads,
                          uint32_t dilations, uint32_t groups)
{
    const ek_tensor *x = &call->in[0];
    const ek_tensor *w = &call->in[1];
    c->call = call;
    c->taps.n = x->rank - 2;
    c->groups = ek_int(call, groups);
    c->batch = x->dims[0];
    c->c_group = w->dims[1];
    c->m_group = w->dims[0] / (c->groups > 0 ? c->groups : 1);
    for (uint32_t a = 0; a < c->taps.n; a++) {
        c->taps.image[a] = x->dims[a + 2];
        c->taps.position[a] = call->out[0].dims[a + 2];
        c->taps.kernel[a] = w->dims[a + 2];
    }
    ek_taps_read(call, &c->taps, strides, pads, dilations);
}

stator_status ek_conv(const ek_call *call, stator_diag **err)
{
    conv c = {0};
    EK_FAIL_IF(call->in[0].rank < 3 || call->in[0].rank > EK_TAPS_AXES + 2, call, err,
               STATOR_UNSUPPORTED, "%u spatial axes; 1 to %u are supported", call->in[0].rank - 2,
               EK_TAPS_AXES);
    read_geometry(&c, call, STATOR_conv_strides, STATOR_conv_pads, STATOR_conv_dilations,
                  STATOR_conv_groups);
    c.bias = ek_has_in(call, 2) ? &call->in[2] : NULL;
    ST_TRY(check_sizes(&c, err));
    return run(&c, err);
}

stator_status ek_deform_conv(const ek_call *call, stator_diag **err)
{
    conv c = {0};
    EK_FAIL_IF(call->in[0].rank != 4, call, err, STATOR_UNSUPPORTED,
               "deform_conv has two spatial axes");
    read_geometry(&c, call, STATOR_deform_conv_strides, STATOR_deform_conv_pads,
                  STATOR_deform_conv_dilations, STATOR_deform_conv_groups);
    c.offset = &call->in[2];
    c.bias = ek_has_in(call, 3) ? &call->in[3] : NULL;
    c.mask = ek_has_in(call, 4) ? &call->in[4] : NULL;
    c.offset_groups = ek_int(call, STATOR_deform_conv_offset_groups);
    ST_TRY(check_sizes(&c, err));
    const int64_t planes = c.batch * c.offset_groups * c.taps.n_kernel * c.taps.n_positions;
    EK_FAIL_IF(c.offset->numel != 2 * planes || (c.mask != NULL && c.mask->numel != planes) ||
                   c.offset_groups < 1 || c.groups * c.c_group % c.offset_groups != 0,
               call, err, STATOR_INVALID_ARGUMENT,
               "offset and mask do not fit kernel, groups and output size");
    return run(&c, err);
}
