/* conv and deform_conv: for each image, group and tile of output positions the input windows are
 * laid out as columns (im2col, Chellapilla et al., 2006), multiplied by the weights in f64 (or
 * 64-bit integers), the bias is added and the result rounded once. */
#include "plugins/eager/kernels/ek_gemm.h"

#include <math.h>

#define SPATIAL_MAX 6u
#define COLUMN_BYTES (2 << 20) /* of one tile's columns: the second level cache */

typedef struct conv {
    const ek_call *call;
    uint32_t spatial; /* number of spatial axes */
    int64_t batch, groups, c_group, m_group;
    int64_t in[SPATIAL_MAX], out[SPATIAL_MAX], kernel[SPATIAL_MAX];
    int64_t stride[SPATIAL_MAX], dilation[SPATIAL_MAX], low[SPATIAL_MAX];
    int64_t in_count, out_count, kernel_count, depth; /* depth = c_group * kernel_count */
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

/* Offset in one channel of the input of window element `tap` for output position `at`, -1 outside.
 */
static int64_t input_offset(const conv *c, const int64_t *at, const int64_t *tap)
{
    int64_t offset = 0;
    for (uint32_t a = 0; a < c->spatial; a++) {
        const int64_t i = at[a] * c->stride[a] + tap[a] * c->dilation[a] - c->low[a];
        if (i < 0 || i >= c->in[a]) {
            return -1;
        }
        offset = offset * c->in[a] + i;
    }
    return offset;
}

/* One row of the columns: channel and tap fixed, positions [first, first + n). Runs along the last
 * axis that lie inside the input are loaded at once. */
static void fill_row(const conv *c, int64_t channel_base, const int64_t *tap, int64_t first,
                     int64_t n, ek_wide *out)
{
    const ek_tensor *x = &c->call->in[0];
    const uint32_t last = c->spatial - 1;
    const ek_wide zero = {.i = 0}; /* also the bits of 0.0 */
    int64_t done = 0;
    while (done < n) {
        int64_t at[SPATIAL_MAX];
        ek_unflatten(first + done, c->out, c->spatial, at);
        int64_t run = c->out[last] - at[last];
        run = run < n - done ? run : n - done;
        int64_t left = at[last]; /* positions [begin, end) of the run read inside the input */
        const int64_t shift = tap[last] * c->dilation[last] - c->low[last];
        const int64_t s = c->stride[last];
        int64_t begin = shift >= 0 ? 0 : (-shift + s - 1) / s;
        int64_t end = c->in[last] - 1 - shift < 0 ? 0 : (c->in[last] - 1 - shift) / s + 1;
        begin = begin < left ? left : begin;
        end = end > left + run ? left + run : end;
        at[last] = begin;
        const int64_t offset = begin < end ? input_offset(c, at, tap) : -1;
        for (int64_t i = 0; i < run; i++) {
            const int64_t p = left + i;
            if (offset < 0 || p < begin || p >= end) {
                out[done + i] = zero;
            }
        }
        if (offset >= 0) {
            ek_load_wide(x, channel_base + offset, s, end - begin, out + done + begin - left);
        }
        done += run;
    }
}

static void fill_columns(const conv *c, int64_t image, int64_t group, int64_t first, int64_t n,
                         ek_wide *columns)
{
    const int64_t channels = c->groups * c->c_group;
    for (int64_t d = 0; d < c->depth; d++) {
        int64_t tap[SPATIAL_MAX];
        ek_unflatten(d % c->kernel_count, c->kernel, c->spatial, tap);
        const int64_t channel = image * channels + group * c->c_group + d / c->kernel_count;
        fill_row(c, channel * c->in_count, tap, first, n, columns + d * n);
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
        if (yy < 0 || xx < 0 || yy > (double)(c->in[0] - 1) || xx > (double)(c->in[1] - 1)) {
            continue;
        }
        const double weight = (1.0 - fabs(y - yy)) * (1.0 - fabs(x - xx));
        sum += weight * st_load_f64(c->call->in[0].dtype, c->call->in[0].data,
                                    base + (int64_t)yy * c->in[1] + (int64_t)xx);
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
        const int64_t channel = group * c->c_group + d / c->kernel_count;
        const int64_t tap = d % c->kernel_count;
        const int64_t og = channel / per_offset_group;
        const int64_t base = (image * channels + channel) * c->in_count;
        const int64_t plane = (image * c->offset_groups + og) * c->kernel_count + tap;
        for (int64_t i = 0; i < n; i++) {
            const int64_t p = first + i;
            const int64_t row = p / c->out[1];
            const int64_t col = p % c->out[1];
            const double dy =
                st_load_f64(c->offset->dtype, c->offset->data, 2 * plane * c->out_count + p);
            const double dx =
                st_load_f64(c->offset->dtype, c->offset->data, (2 * plane + 1) * c->out_count + p);
            const int64_t ty = tap / c->kernel[1] * c->dilation[0];
            const int64_t tx = tap % c->kernel[1] * c->dilation[1];
            double v = bilinear(c, base, (double)(row * c->stride[0] - c->low[0] + ty) + dy,
                                (double)(col * c->stride[1] - c->low[1] + tx) + dx);
            if (c->mask != NULL) {
                v *= st_load_f64(c->mask->dtype, c->mask->data, plane * c->out_count + p);
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
    const int64_t n = c->out_count - first < c->tile ? c->out_count - first : c->tile;
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
                      (image * c->groups * c->m_group + channel) * c->out_count + first, n,
                      result + m * n);
    }
}

static stator_status check_sizes(const conv *c, stator_diag **err)
{
    const ek_tensor *x = &c->call->in[0];
    const ek_tensor *y = &c->call->out[0];
    const int64_t filters = c->call->in[1].dims[0];
    if (c->groups < 1 || filters % c->groups != 0) {
        return ek_fail(c->call, err, STATOR_INVALID_ARGUMENT,
                       "%lld filters are no multiple of %lld groups", (long long)filters,
                       (long long)c->groups);
    }
    if (c->bias != NULL && c->bias->numel != filters) {
        return ek_fail(c->call, err, STATOR_INVALID_ARGUMENT,
                       "bias has %lld elements, expected one for each of %lld filters",
                       (long long)c->bias->numel, (long long)filters);
    }
    if (x->dims[1] != c->groups * c->c_group || y->dims[0] != x->dims[0] || y->dims[1] != filters) {
        return ek_fail(c->call, err, STATOR_INVALID_ARGUMENT,
                       "input has %lld channels, weights want %lld groups of %lld",
                       (long long)x->dims[1], (long long)c->groups, (long long)c->c_group);
    }
    for (uint32_t a = 0; a < c->spatial; a++) {
        if (c->kernel[a] > 0 && c->out[a] < 0) {
            return ek_fail(c->call, err, STATOR_INVALID_ARGUMENT, "the kernel exceeds the input");
        }
    }
    return STATOR_OK;
}

static stator_status run(conv *c, stator_diag **err)
{
    const ek_call *call = c->call;
    if (call->out[0].numel == 0) {
        return STATOR_OK;
    }
    c->depth = c->c_group * c->kernel_count;
    c->is_int = (uint8_t)ek_is_int_math(call->in[0].dtype);
    c->tile = clamp_tile(c->depth);
    c->tiles = (c->out_count + c->tile - 1) / c->tile;
    const int64_t n_tasks = c->batch * c->groups * c->tiles;
    const int64_t workers = ek_worker_count(call, n_tasks);
    c->weights = ek_scratch(call, call->in[1].numel + 1, sizeof *c->weights);
    c->scratch = ek_scratch(call, workers * (c->depth + c->m_group) * c->tile, sizeof *c->scratch);
    if (c->weights == NULL || c->scratch == NULL) {
        return ek_oom(call, err);
    }
    ek_load_wide(&call->in[1], 0, 1, call->in[1].numel, c->weights);
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
    c->spatial = x->rank - 2;
    c->groups = ek_int(call, groups);
    c->batch = x->dims[0];
    c->c_group = w->dims[1];
    c->m_group = w->dims[0] / (c->groups > 0 ? c->groups : 1);
    for (uint32_t a = 0; a < c->spatial; a++) {
        c->in[a] = x->dims[a + 2];
        c->out[a] = call->out[0].dims[a + 2];
        c->kernel[a] = w->dims[a + 2];
        c->stride[a] = ek_int_at(call, strides, a, 1);
        c->dilation[a] = ek_int_at(call, dilations, a, 1);
        c->low[a] = ek_int_at(call, pads, a, 0);
    }
    c->in_count = ek_product(c->in, 0, c->spatial);
    c->out_count = ek_product(c->out, 0, c->spatial);
    c->kernel_count = ek_product(c->kernel, 0, c->spatial);
}

stator_status ek_conv(const ek_call *call, stator_diag **err)
{
    conv c = {0};
    if (call->in[0].rank < 3 || call->in[0].rank > SPATIAL_MAX + 2) {
        return ek_fail(call, err, STATOR_UNSUPPORTED, "%u spatial axes; 1 to %u are supported",
                       call->in[0].rank - 2, SPATIAL_MAX);
    }
    read_geometry(&c, call, STATOR_conv_strides, STATOR_conv_pads, STATOR_conv_dilations,
                  STATOR_conv_groups);
    c.bias = ek_has_in(call, 2) ? &call->in[2] : NULL;
    const stator_status status = check_sizes(&c, err);
    return status == STATOR_OK ? run(&c, err) : status;
}

stator_status ek_deform_conv(const ek_call *call, stator_diag **err)
{
    conv c = {0};
    if (call->in[0].rank != 4) {
        return ek_fail(call, err, STATOR_UNSUPPORTED, "deform_conv has two spatial axes");
    }
    read_geometry(&c, call, STATOR_deform_conv_strides, STATOR_deform_conv_pads,
                  STATOR_deform_conv_dilations, STATOR_deform_conv_groups);
    c.offset = &call->in[2];
    c.bias = ek_has_in(call, 3) ? &call->in[3] : NULL;
    c.mask = ek_has_in(call, 4) ? &call->in[4] : NULL;
    c.offset_groups = ek_int(call, STATOR_deform_conv_offset_groups);
    stator_status status = check_sizes(&c, err);
    const int64_t planes = c.batch * c.offset_groups * c.kernel_count * c.out_count;
    if (status == STATOR_OK &&
        (c.offset->numel != 2 * planes || (c.mask != NULL && c.mask->numel != planes) ||
         c.offset_groups < 1 || c.groups * c.c_group % c.offset_groups != 0)) {
        status = ek_fail(call, err, STATOR_INVALID_ARGUMENT,
                         "offset and mask do not fit kernel, groups and output size");
    }
    return status == STATOR_OK ? run(&c, err) : status;
}
