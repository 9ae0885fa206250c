/* resize: interpolation on every axis, one axis after the other (it is separable).
 *
 * For output i of an axis, x = position(i) in the input by the coordinate mode. nearest copies the
 * element at round(x), bit for bit. linear and cubic sum kernel((j - x) * f) * in[j] over the taps
 * j within the kernel's support, f = min(scale, 1) with antialias, else 1; taps outside the input
 * read the edge, or count nothing with exclude_outside; the weights are divided by their sum where
 * these two can change it. Axes are taken in the order of growth, so that no intermediate is larger
 * than operand and result. All in f64, rounded once. Source: the text of ONNX Resize; where it says
 * length_resized for align_corners the exact length scale * length_original is meant, as its test
 * data have it. Cubic kernel: Keys, IEEE TASSP 29(6), 1981. */
#include "plugins/eager/kernels/ek_move.h"

#include <math.h>

#define TAPS_MAX (INT64_C(1) << 24)

enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };

enum {
    AT_HALF_PIXEL,
    AT_HALF_PIXEL_SYMMETRIC,
    AT_PYTORCH_HALF_PIXEL,
    AT_ALIGN_CORNERS,
    AT_ASYMMETRIC,
    AT_TF_HALF_PIXEL_FOR_NN,
    AT_TF_CROP_AND_RESIZE
};

typedef struct resize_axis {
    int64_t in, out;
    double scale;
    double roi_start, roi_end;
    uint8_t is_kept;     /* the axis stays as it is */
    int64_t width;       /* taps an output element has at most */
    int64_t *first;      /* [out]: first tap, inside the input */
    int64_t *count;      /* [out]: taps; not for nearest */
    double *weight;      /* [out][width]; not for nearest */
    uint8_t *is_outside; /* [out]: extrapolated; only with tf_crop_and_resize, else NULL */
} resize_axis;

typedef struct resize {
    const ek_call *call;
    uint32_t rank;
    int mode, coordinates;
    bool exclude_outside, antialias;
    double cubic_a;
    resize_axis axes[STATOR_RANK_MAX];
} resize;

/* ---- positions and weights ---- */

static double position(const resize *r, const resize_axis *a, int64_t i)
{
    const double x = (double)i;
    const double n = (double)a->in;
    const double length = a->scale * n; /* length of the result, before it became an integer */
    switch (r->coordinates) {
    case AT_HALF_PIXEL_SYMMETRIC:
        return n / 2.0 * (1.0 - (double)a->out / length) + (x + 0.5) / a->scale - 0.5;
    case AT_PYTORCH_HALF_PIXEL:
        return a->out > 1 ? (x + 0.5) / a->scale - 0.5 : 0.0;
    case AT_ALIGN_CORNERS:
        return length == 1.0 ? 0.0 : x * (n - 1.0) / (length - 1.0);
    case AT_ASYMMETRIC:
        return x / a->scale;
    case AT_TF_HALF_PIXEL_FOR_NN:
        return (x + 0.5) / a->scale;
    case AT_TF_CROP_AND_RESIZE:
        return a->out > 1 ? a->roi_start * (n - 1.0) +
                                x * (a->roi_end - a->roi_start) * (n - 1.0) / (double)(a->out - 1)
                          : 0.5 * (a->roi_start + a->roi_end) * (n - 1.0);
    default:
        return (x + 0.5) / a->scale - 0.5;
    }
}

/* The interpolation kernel at distance d >= 0. */
static double kernel(const resize *r, double d)
{
    const double c = r->cubic_a;
    if (r->mode == MODE_LINEAR) {
        return d < 1.0 ? 1.0 - d : 0.0;
    }
    if (d <= 1.0) {
        return ((c + 2.0) * d - (c + 3.0)) * d * d + 1.0;
    }
    return d < 2.0 ? ((c * d - 5.0 * c) * d + 8.0 * c) * d - 4.0 * c : 0.0;
}

static int64_t clamp_index(double i, int64_t n)
{
    return !(i > 0) ? 0 : i >= (double)(n - 1) ? n - 1 : (int64_t)i;
}

static int64_t nearest_index(const ek_call *c, double x, int64_t n)
{
    const double i = ek_str_is(c, STATOR_resize_nearest, "floor")               ? floor(x)
                     : ek_str_is(c, STATOR_resize_nearest, "ceil")              ? ceil(x)
                     : ek_str_is(c, STATOR_resize_nearest, "round_prefer_ceil") ? floor(x + 0.5)
                                                                                : ceil(x - 0.5);
    return clamp_index(i, n);
}

/* Taps and weights of output i; x lies within the reach of the kernel around the input. */
static void weigh(const resize *r, const resize_axis *a, int64_t i, double x, double factor)
{
    const double reach = (r->mode == MODE_CUBIC ? 2.0 : 1.0) / factor;
    const double low = floor(x - reach) + 1.0; /* the taps with kernel > 0 */
    const double high = ceil(x + reach) - 1.0;
    const int64_t first = clamp_index(low, a->in);
    double *weight = a->weight + i * a->width;
    double sum = 0.0;
    a->first[i] = first;
    a->count[i] = clamp_index(high, a->in) - first + 1;
    memset(weight, 0, (uint64_t)a->count[i] * sizeof *weight);
    for (double j = low; j <= high; j += 1.0) {
        const bool is_outside = j < 0 || j > (double)(a->in - 1);
        const double w = is_outside && r->exclude_outside ? 0.0 : kernel(r, fabs(j - x) * factor);
        weight[clamp_index(j, a->in) - first] += w;
        sum += w;
    }
    for (int64_t j = 0; j < a->count[i] && (r->exclude_outside || factor < 1.0); j++) {
        weight[j] /= sum;
    }
}

/* Allocates the table of an axis. */
static stator_status make_table(const resize *r, resize_axis *a, double factor, stator_diag **err)
{
    const ek_call *c = r->call;
    const double reach = (r->mode == MODE_CUBIC ? 2.0 : 1.0) / factor;
    EK_FAIL_IF(!(reach < (double)TAPS_MAX), c, err, STATOR_INVALID_ARGUMENT,
               "scale %g needs more than %lld input elements for one of the output; scales "
               "and sizes must fit each other",
               a->scale, (long long)TAPS_MAX);
    const int64_t taps = 2 * (int64_t)ceil(reach) + 1;
    int64_t n_weights;
    a->width = r->mode == MODE_NEAREST ? 0 : taps < a->in ? taps : a->in;
    EK_TRY_MEM(st_mul_i64(a->out, a->width, &n_weights), c, err);
    a->first = ek_scratch(c, a->out + 1, sizeof *a->first);
    a->count = ek_scratch(c, a->out + 1, sizeof *a->count);
    a->weight = ek_scratch(c, n_weights + 1, sizeof *a->weight);
    const bool crops = r->coordinates == AT_TF_CROP_AND_RESIZE;
    a->is_outside = crops ? ek_scratch(c, a->out + 1, 1) : NULL;
    return a->first && a->count && a->weight && (a->is_outside || !crops) ? STATOR_OK
                                                                          : ek_oom(c, err);
}

static stator_status fill_table(const resize *r, resize_axis *a, stator_diag **err)
{
    const double factor = r->antialias && a->scale < 1.0 ? a->scale : 1.0;
    const double reach = (r->mode == MODE_CUBIC ? 2.0 : 1.0) / factor;
    ST_TRY(make_table(r, a, factor, err));
    for (int64_t i = 0; i < a->out; i++) {
        double x = position(r, a, i);
        if (a->is_outside != NULL) {
            a->is_outside[i] = !(x >= 0.0 && x <= (double)(a->in - 1));
        }
        /* Further out every tap reads the edge: the weights are those at the end of the reach. */
        x = !(x > -reach - 1.0) ? -reach - 1.0 : x;
        x = x < (double)a->in + reach ? x : (double)a->in + reach;
        if (r->mode == MODE_NEAREST) {
            a->first[i] = nearest_index(r->call, x, a->in);
        } else {
            weigh(r, a, i, x, factor);
        }
    }
    return STATOR_OK;
}

/* ---- nearest ---- */

typedef struct nearest_job {
    const resize *r;
    ek_bytes_view view;
    int64_t in_strides[STATOR_RANK_MAX];
    char value[16]; /* the extrapolated one */
} nearest_job;

static int64_t index_on(const resize_axis *a, int64_t i)
{
    return a->is_kept ? i : a->first[i];
}

/* Where the row of output elements begins in the input, -1 when it is extrapolated. */
static int64_t row_source(const nearest_job *job, int64_t row)
{
    const resize *r = job->r;
    int64_t offset = 0;
    for (uint32_t k = r->rank - 1u; k-- > 0;) {
        const resize_axis *a = &r->axes[k];
        const int64_t i = row % a->out;
        row /= a->out;
        if (!a->is_kept && a->is_outside != NULL && a->is_outside[i]) {
            return -1;
        }
        offset += index_on(a, i) * job->in_strides[k];
    }
    return offset;
}

static void nearest_rows(void *self, int64_t begin, int64_t end)
{
    const nearest_job *job = self;
    const resize_axis *last = &job->r->axes[job->r->rank - 1u];
    const uint32_t size = job->view.size;
    for (int64_t row = begin; row < end; row++) {
        const int64_t source = row_source(job, row);
        char *to = job->view.out + (uint64_t)(row * last->out) * size;
        const char *from = job->view.in + (uint64_t)(source > 0 ? source : 0) * size;
        if (source < 0) {
            ek_fill(to, job->value, size, last->out);
        } else if (last->is_kept) {
            memcpy(to, from, (uint64_t)last->out * size);
        } else {
            for (int64_t i = 0; i < last->out; i++) {
                const bool fill = last->is_outside != NULL && last->is_outside[i];
                memcpy(to + (uint64_t)i * size,
                       fill ? job->value : from + (uint64_t)last->first[i] * size, size);
            }
        }
    }
}

static stator_status resize_nearest(const resize *r, stator_diag **err)
{
    const ek_call *c = r->call;
    const uint32_t dtype = c->in[0].dtype;
    const double value[2] = {ek_float(c, STATOR_resize_extrapolation), 0.0};
    nearest_job job = {.r = r};
    ST_TRY(ek_view_bytes(c, &job.view, err));
    if ((EK_COMPLEX >> dtype) & 1u) {
        st_store_c128(dtype, job.value, 0, value);
    } else {
        st_store_f64(dtype, job.value, 0, value[0]);
    }
    ek_strides(c->in[0].dims, r->rank, job.in_strides);
    const int64_t width = r->axes[r->rank - 1u].out;
    ek_parallel(c, c->out[0].numel / width, 1 + 16384 / width, nearest_rows, &job);
    ek_pack_out(c, job.view.out);
    return STATOR_OK;
}

/* ---- linear and cubic ---- */

typedef struct weighted_pass {
    const resize_axis *axis;
    int64_t inner; /* elements after the axis */
    const double *from;
    double *to;
} weighted_pass;

static double weighted_sum(const double *weight, const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        sum += weight[j] != 0.0 ? weight[j] * x[j] : 0.0; /* 0 * inf would be NaN */
    }
    return sum;
}

/* Rows over (elements before the axis) * (outputs of the axis). */
static void weighted_rows(void *self, int64_t begin, int64_t end)
{
    const weighted_pass *p = self;
    const resize_axis *a = p->axis;
    for (int64_t row = begin; row < end; row++) {
        const int64_t i = row % a->out;
        const double *weight = a->weight + i * a->width;
        const double *from = p->from + (row / a->out * a->in + a->first[i]) * p->inner;
        double *to = p->to + row * p->inner;
        if (p->inner == 1) {
            *to = weighted_sum(weight, from, a->count[i]);
            continue;
        }
        memset(to, 0, (uint64_t)p->inner * sizeof *to);
        for (int64_t j = 0; j < a->count[i]; j++) {
            const double w = weight[j];
            if (w == 0.0) { /* as above */
                continue;
            }
            for (int64_t k = 0; k < p->inner; k++) {
                to[k] += w * from[j * p->inner + k];
            }
        }
    }
}

typedef struct store_job {
    const resize *r;
    double *values;
} store_job;

/* Rounds rows along the last axis, extrapolated elements replaced before. */
static void store_rows(void *self, int64_t begin, int64_t end)
{
    const store_job *job = self;
    const resize *r = job->r;
    const int64_t width = r->axes[r->rank - 1u].out;
    const double value = ek_float(r->call, STATOR_resize_extrapolation);
    for (int64_t row = begin; row < end && r->coordinates == AT_TF_CROP_AND_RESIZE; row++) {
        int is_outside = 0;
        int64_t rest = row;
        for (uint32_t k = r->rank - 1u; k-- > 0;) {
            is_outside |= r->axes[k].is_outside[rest % r->axes[k].out];
            rest /= r->axes[k].out;
        }
        for (int64_t i = 0; i < width; i++) {
            if (is_outside || r->axes[r->rank - 1u].is_outside[i]) {
                job->values[row * width + i] = value;
            }
        }
    }
    st_store_f64_block(r->call->out[0].dtype, r->call->out[0].data, begin * width,
                       (end - begin) * width, job->values + begin * width);
}

typedef struct load_job {
    const ek_tensor *x;
    double *out;
} load_job;

static void load_range(void *self, int64_t begin, int64_t end)
{
    const load_job *job = self;
    st_load_f64_block(job->x->dtype, job->x->data, begin, end - begin, job->out + begin);
}

/* The axes to resize, those that grow least first. */
static uint32_t order_axes(const resize *r, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < r->rank; k++) {
        if (r->axes[k].is_kept) {
            continue;
        }
        const double growth = (double)r->axes[k].out / (double)r->axes[k].in;
        uint32_t at = n++;
        for (; at > 0; at--) {
            const resize_axis *before = &r->axes[order[at - 1u]];
            if ((double)before->out / (double)before->in <= growth) {
                break;
            }
            order[at] = order[at - 1u];
        }
        order[at] = k;
    }
    return n;
}

static stator_status resize_weighted(const resize *r, stator_diag **err)
{
    const ek_call *c = r->call;
    const ek_tensor *x = &c->in[0];
    const int64_t most = x->numel > c->out[0].numel ? x->numel : c->out[0].numel;
    uint32_t order[STATOR_RANK_MAX];
    int64_t dims[STATOR_RANK_MAX];
    double *buffers[2] = {ek_scratch(c, most, sizeof(double)), ek_scratch(c, most, sizeof(double))};
    EK_TRY_MEM(buffers[0] != NULL && buffers[1] != NULL, c, err);
    const uint32_t n = order_axes(r, order);
    load_job load = {x, buffers[0]};
    memcpy(dims, x->dims, r->rank * sizeof *dims);
    ek_parallel(c, x->numel, 65536, load_range, &load);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t axis = order[k];
        weighted_pass pass = {&r->axes[axis], ek_product(dims, axis + 1u, r->rank), buffers[k & 1u],
                              buffers[(k + 1u) & 1u]};
        dims[axis] = r->axes[axis].out;
        const int64_t rows = ek_product(dims, 0, axis + 1u);
        ek_parallel(c, rows, 1 + 16384 / (pass.inner * 4), weighted_rows, &pass);
    }
    const int64_t width = r->axes[r->rank - 1u].out;
    store_job store = {r, buffers[n & 1u]};
    const int64_t rows = c->out[0].numel / width;
    if (st_dtype_bits(c->out[0].dtype) < 8u) { /* neighbouring rows share a byte */
        store_rows(&store, 0, rows);
    } else {
        ek_parallel(c, rows, 1 + 16384 / width, store_rows, &store);
    }
    return STATOR_OK;
}

/* ---- the op ---- */

static int32_t coordinates_of(const ek_call *c)
{
    static const char *const names[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    for (int i = 0; i < 7; i++) {
        if (ek_str_is(c, STATOR_resize_coordinates, names[i])) {
            return i;
        }
    }
    return AT_HALF_PIXEL;
}

static stator_status read_axis(resize *r, uint32_t k, const double *scales, stator_diag **err)
{
    const ek_call *c = r->call;
    resize_axis *a = &r->axes[k];
    const bool crops = r->coordinates == AT_TF_CROP_AND_RESIZE;
    a->in = c->in[0].dims[k];
    a->out = c->out[0].dims[k];
    EK_FAIL_IF(a->in == 0, c, err, STATOR_INVALID_ARGUMENT,
               "axis %u is empty, %lld elements wanted", k, (long long)a->out);
    a->scale = scales != NULL ? scales[k] : (double)a->out / (double)a->in;
    EK_FAIL_IF(!(a->scale > 0.0) || !(a->scale < INFINITY), c, err, STATOR_INVALID_ARGUMENT,
               "scale %g of axis %u; scales are positive", a->scale, k);
    if (crops) {
        a->roi_start = ek_get(&c->in[1], k);
        a->roi_end = ek_get(&c->in[1], (int64_t)r->rank + k);
    }
    a->is_kept = a->in == a->out && a->scale == 1.0 && !crops;
    return a->is_kept ? STATOR_OK : fill_table(r, a, err);
}

stator_status ek_resize(const ek_call *c, stator_diag **err)
{
    const uint32_t dtype = c->in[0].dtype;
    resize r = {.call = c,
                .rank = c->in[0].rank,
                .mode = ek_str_is(c, STATOR_resize_mode, "nearest")  ? MODE_NEAREST
                        : ek_str_is(c, STATOR_resize_mode, "linear") ? MODE_LINEAR
                                                                     : MODE_CUBIC,
                .coordinates = coordinates_of(c),
                .exclude_outside = ek_int(c, STATOR_resize_exclude_outside) != 0,
                .antialias = ek_int(c, STATOR_resize_antialias) != 0,
                .cubic_a = ek_float(c, STATOR_resize_cubic_a)};
    uint32_t n_scales;
    const double *scales = ek_floats(c, STATOR_resize_scales, &n_scales);
    EK_FAIL_IF(r.mode != MODE_NEAREST && ((EK_COMPLEX >> dtype) & 1u), c, err, STATOR_UNSUPPORTED,
               "complex elements can only be copied (nearest)");
    EK_FAIL_IF(r.coordinates == AT_TF_CROP_AND_RESIZE &&
                   (!ek_has_in(c, 1) || c->in[1].numel != 2 * (int64_t)r.rank),
               c, err, STATOR_INVALID_ARGUMENT, "tf_crop_and_resize needs roi with %u values",
               2u * r.rank);
    if (c->out[0].numel == 0) {
        return STATOR_OK;
    }
    if (r.rank == 0) {
        memcpy(c->out[0].data, c->in[0].data, ek_bytes(dtype, 1));
        return STATOR_OK;
    }
    for (uint32_t k = 0; k < r.rank; k++) {
        ST_TRY(read_axis(&r, k, n_scales == r.rank ? scales : NULL, err));
    }
    return r.mode == MODE_NEAREST ? resize_nearest(&r, err) : resize_weighted(&r, err);
}
