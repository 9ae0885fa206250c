/* Normalisations, written from their formulas in f64: softmax, log_softmax, layer_norm, rms_norm,
 * batch_norm, batch_norm_train, group_norm, lrn, lp_norm, nll_loss. One thread computes one row. */
#include "plugins/eager/eager.h"

#include <math.h>

/* Rows of length n whose elements lie `step` apart: row r begins at outer * n * step + inner. */
typedef struct rows {
    const ek_call *call;
    int64_t n, step, count;
    double eps;
    int64_t groups;
    uint8_t flag;
} rows;

static int64_t row_begin(const rows *r, int64_t row)
{
    return row / r->step * r->n * r->step + row % r->step;
}

/* Rows along one axis. */
static rows axis_rows(const ek_call *call, uint32_t axis)
{
    const ek_tensor *x = &call->in[0];
    const int64_t n = x->dims[axis];
    const int64_t step = ek_product(x->dims, axis + 1, x->rank);
    return (rows){.call = call, .n = n, .step = step, .count = n > 0 ? x->numel / n : 0};
}

/* Rows over axes axis..rank-1. */
static rows trailing_rows(const ek_call *call, uint32_t axis)
{
    const ek_tensor *x = &call->in[0];
    const int64_t n = ek_product(x->dims, axis, x->rank);
    return (rows){.call = call, .n = n, .step = 1, .count = ek_product(x->dims, 0, axis)};
}

static void for_rows(rows *r, stator_range_fn fn)
{
    ek_parallel(r->call, r->count, 1 + 4096 / (r->n + 1), fn, r);
}

/* ---- softmax ---- */

static double row_max(const rows *r, int64_t base)
{
    double best = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        const double v = ek_get(&r->call->in[0], base + i * r->step);
        best = v > best || isnan(v) ? v : best;
        if (isnan(best)) {
            return best;
        }
    }
    return best;
}

static void softmax_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_tensor *x = &r->call->in[0];
    const ek_tensor *y = &r->call->out[0];
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = row_begin(r, row);
        const double max = row_max(r, base);
        double sum = 0.0;
        for (int64_t i = 0; i < r->n; i++) {
            sum += exp(ek_get(x, base + i * r->step) - max);
        }
        const double log_sum = log(sum);
        for (int64_t i = 0; i < r->n; i++) {
            const double d = ek_get(x, base + i * r->step) - max;
            ek_put(y, base + i * r->step, r->flag ? d - log_sum : exp(d) / sum);
        }
    }
}

stator_status ek_softmax(const ek_call *call, stator_diag **err)
{
    (void)err;
    const bool is_log = call->op == EAGER_OP_log_softmax;
    rows r = axis_rows(call, ek_axis(call, is_log ? STATOR_log_softmax_axis : STATOR_softmax_axis,
                                     call->in[0].rank));
    r.flag = (uint8_t)is_log;
    for_rows(&r, softmax_range);
    return STATOR_OK;
}

/* ---- layer_norm, rms_norm ---- */

typedef struct moments {
    double mean, var; /* biased */
} moments;

static moments row_moments(const rows *r, int64_t base)
{
    const ek_tensor *x = &r->call->in[0];
    moments m = {0.0, 0.0};
    for (int64_t i = 0; i < r->n; i++) {
        m.mean += ek_get(x, base + i * r->step);
    }
    m.mean /= (double)r->n;
    for (int64_t i = 0; i < r->n; i++) {
        const double d = ek_get(x, base + i * r->step) - m.mean;
        m.var += d * d;
    }
    m.var /= (double)r->n;
    return m;
}

/* Element i of a scale or shift that broadcasts from the right over the row. */
static double affine(const ek_call *c, uint32_t k, int64_t i, double other)
{
    if (!ek_has_in(c, k) || c->in[k].numel == 0) {
        return other;
    }
    return ek_get(&c->in[k], i % c->in[k].numel);
}

static void layer_norm_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = row * r->n;
        const moments m = row_moments(r, base);
        const double rstd = 1.0 / sqrt(m.var + r->eps);
        for (int64_t i = 0; i < r->n; i++) {
            const double v = (ek_get(&c->in[0], base + i) - m.mean) * rstd;
            ek_put(&c->out[0], base + i, v * affine(c, 1, i, 1.0) + affine(c, 2, i, 0.0));
        }
        if (c->n_out > 1) {
            ek_put(&c->out[1], row, m.mean);
        }
        if (c->n_out > 2) {
            ek_put(&c->out[2], row, rstd);
        }
    }
}

static void rms_norm_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = row * r->n;
        double sum = 0.0;
        for (int64_t i = 0; i < r->n; i++) {
            const double v = ek_get(&c->in[0], base + i);
            sum += v * v;
        }
        const double scale = 1.0 / sqrt(sum / (double)r->n + r->eps);
        for (int64_t i = 0; i < r->n; i++) {
            ek_put(&c->out[0], base + i,
                   ek_get(&c->in[0], base + i) * scale * affine(c, 1, i, 1.0));
        }
    }
}

/* Scale and shift must repeat evenly over a row; affine() then broadcasts by counting from the
 * right. Sizes 1 inside them are the importer's to expand. */
static stator_status check_affine(const ek_call *c, const rows *r, uint32_t k, stator_diag **err)
{
    EK_FAIL_IF(ek_has_in(c, k) && (c->in[k].numel == 0 || r->n % c->in[k].numel != 0), c, err,
               STATOR_INVALID_ARGUMENT, "scale or shift has %lld elements, a row has %lld",
               (long long)c->in[k].numel, (long long)r->n);
    return STATOR_OK;
}

stator_status ek_layer_norm(const ek_call *call, stator_diag **err)
{
    rows r = trailing_rows(call, ek_axis(call, STATOR_layer_norm_axis, call->in[0].rank));
    r.eps = ek_float(call, STATOR_layer_norm_eps);
    ST_TRY(r.n > 0 ? check_affine(call, &r, 1, err) : STATOR_OK);
    ST_TRY(r.n > 0 ? check_affine(call, &r, 2, err) : STATOR_OK);
    for_rows(&r, layer_norm_range);
    return STATOR_OK;
}

stator_status ek_rms_norm(const ek_call *call, stator_diag **err)
{
    rows r = trailing_rows(call, ek_axis(call, STATOR_rms_norm_axis, call->in[0].rank));
    r.eps = ek_float(call, STATOR_rms_norm_eps);
    ST_TRY(r.n > 0 ? check_affine(call, &r, 1, err) : STATOR_OK);
    for_rows(&r, rms_norm_range);
    return STATOR_OK;
}

/* ---- batch_norm, group_norm ---- */

/* Channels (axis 1) as rows of the spatial elements of one image. */
static rows channel_rows(const ek_call *call)
{
    const ek_tensor *x = &call->in[0];
    const int64_t n = ek_product(x->dims, 2, x->rank);
    return (rows){.call = call, .n = n, .step = 1, .count = n > 0 ? x->numel / n : 0};
}

static stator_status check_channels(const ek_call *c, uint32_t first, uint32_t last,
                                    stator_diag **err)
{
    for (uint32_t k = first; k <= last; k++) {
        EK_FAIL_IF(ek_has_in(c, k) && c->in[k].numel != c->in[0].dims[1], c, err,
                   STATOR_INVALID_ARGUMENT,
                   "operand %u has %lld elements, the input has %lld channels", k,
                   (long long)c->in[k].numel, (long long)c->in[0].dims[1]);
    }
    return STATOR_OK;
}

static void batch_norm_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    for (int64_t row = begin; row < end; row++) {
        const int64_t ch = row % c->in[0].dims[1];
        const double rstd = 1.0 / sqrt(ek_get(&c->in[4], ch) + r->eps);
        const double mean = ek_get(&c->in[3], ch);
        for (int64_t i = row * r->n; i < (row + 1) * r->n; i++) {
            ek_put(&c->out[0], i,
                   (ek_get(&c->in[0], i) - mean) * rstd * ek_get(&c->in[1], ch) +
                       ek_get(&c->in[2], ch));
        }
    }
}

stator_status ek_batch_norm(const ek_call *call, stator_diag **err)
{
    rows r = channel_rows(call);
    r.eps = ek_float(call, STATOR_batch_norm_eps);
    ST_TRY(check_channels(call, 1, 4, err));
    for_rows(&r, batch_norm_range);
    return STATOR_OK;
}

/* One channel over the whole batch. */
static void batch_norm_train_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    const int64_t channels = c->in[0].dims[1];
    const int64_t images = c->in[0].dims[0];
    const double momentum = ek_float(c, STATOR_batch_norm_train_momentum);
    for (int64_t ch = begin; ch < end; ch++) {
        double mean = 0.0;
        double var = 0.0;
        const double count = (double)(images * r->n);
        for (int64_t k = 0; k < images * r->n; k++) {
            mean += ek_get(&c->in[0], (k / r->n * channels + ch) * r->n + k % r->n);
        }
        mean /= count;
        for (int64_t k = 0; k < images * r->n; k++) {
            const double d = ek_get(&c->in[0], (k / r->n * channels + ch) * r->n + k % r->n) - mean;
            var += d * d;
        }
        var /= count;
        const double rstd = 1.0 / sqrt(var + r->eps);
        for (int64_t k = 0; k < images * r->n; k++) {
            const int64_t i = (k / r->n * channels + ch) * r->n + k % r->n;
            ek_put(&c->out[0], i,
                   (ek_get(&c->in[0], i) - mean) * rstd * ek_get(&c->in[1], ch) +
                       ek_get(&c->in[2], ch));
        }
        if (c->n_out > 1) {
            ek_put(&c->out[1], ch, ek_get(&c->in[3], ch) * momentum + mean * (1.0 - momentum));
        }
        if (c->n_out > 2) {
            ek_put(&c->out[2], ch, ek_get(&c->in[4], ch) * momentum + var * (1.0 - momentum));
        }
    }
}

stator_status ek_batch_norm_train(const ek_call *call, stator_diag **err)
{
    rows r = channel_rows(call);
    r.eps = ek_float(call, STATOR_batch_norm_train_eps);
    ST_TRY(check_channels(call, 1, 4, err));
    ek_parallel(call, call->in[0].dims[1], 1, batch_norm_train_range, &r);
    return STATOR_OK;
}

static void group_norm_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    const int64_t per_group = c->in[0].dims[1] / r->groups;
    const int64_t spatial = per_group > 0 ? r->n / per_group : 0;
    for (int64_t row = begin; row < end; row++) {
        const moments m = row_moments(r, row * r->n);
        const double rstd = 1.0 / sqrt(m.var + r->eps);
        for (int64_t i = 0; i < r->n; i++) {
            const int64_t ch = row % r->groups * per_group + i / spatial;
            const double v = (ek_get(&c->in[0], row * r->n + i) - m.mean) * rstd;
            const double scale = ek_has_in(c, 1) ? ek_get(&c->in[1], ch) : 1.0;
            const double shift = ek_has_in(c, 2) ? ek_get(&c->in[2], ch) : 0.0;
            ek_put(&c->out[0], row * r->n + i, v * scale + shift);
        }
    }
}

stator_status ek_group_norm(const ek_call *call, stator_diag **err)
{
    const ek_tensor *x = &call->in[0];
    const int64_t groups = ek_int(call, STATOR_group_norm_groups);
    EK_FAIL_IF(groups < 1 || x->dims[1] % groups != 0, call, err, STATOR_INVALID_ARGUMENT,
               "%lld channels cannot be divided into %lld groups", (long long)x->dims[1],
               (long long)groups);
    const int64_t count = x->dims[0] * groups;
    rows r = {.call = call,
              .n = count > 0 ? x->numel / count : 0,
              .step = 1,
              .count = x->numel > 0 ? count : 0,
              .eps = ek_float(call, STATOR_group_norm_eps),
              .groups = groups};
    ST_TRY(check_channels(call, 1, 2, err));
    for_rows(&r, group_norm_range);
    return STATOR_OK;
}

/* ---- lrn, lp_norm ---- */

static void lrn_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    const int64_t channels = c->in[0].dims[1];
    const int64_t size = ek_int(c, STATOR_lrn_size);
    const double alpha = ek_float(c, STATOR_lrn_alpha) / (double)size;
    for (int64_t row = begin; row < end; row++) {
        const int64_t ch = row % channels;
        const int64_t first = ch - (size - 1) / 2 < 0 ? 0 : ch - (size - 1) / 2;
        const int64_t last = ch + size / 2 >= channels ? channels - 1 : ch + size / 2;
        for (int64_t i = 0; i < r->n; i++) {
            double sum = 0.0;
            for (int64_t k = first; k <= last; k++) {
                const double v = ek_get(&c->in[0], (row + k - ch) * r->n + i);
                sum += v * v;
            }
            const double v = ek_get(&c->in[0], row * r->n + i);
            ek_put(
                &c->out[0], row * r->n + i,
                v / pow(ek_float(c, STATOR_lrn_bias) + alpha * sum, ek_float(c, STATOR_lrn_beta)));
        }
    }
}

stator_status ek_lrn(const ek_call *call, stator_diag **err)
{
    rows r = channel_rows(call);
    EK_FAIL_IF(ek_int(call, STATOR_lrn_size) < 1, call, err, STATOR_INVALID_ARGUMENT,
               "size must be 1 or more");
    for_rows(&r, lrn_range);
    return STATOR_OK;
}

static void lp_norm_range(void *self, int64_t begin, int64_t end)
{
    const rows *r = self;
    const ek_call *c = r->call;
    const int64_t p = ek_int(c, STATOR_lp_norm_p);
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = row_begin(r, row);
        double sum = 0.0;
        for (int64_t i = 0; i < r->n; i++) {
            const double v = fabs(ek_get(&c->in[0], base + i * r->step));
            sum += p == 1 ? v : v * v;
        }
        const double norm = p == 1 ? sum : sqrt(sum);
        for (int64_t i = 0; i < r->n; i++) {
            const double v = ek_get(&c->in[0], base + i * r->step);
            ek_put(&c->out[0], base + i * r->step, norm == 0.0 ? 0.0 : v / norm);
        }
    }
}

stator_status ek_lp_norm(const ek_call *call, stator_diag **err)
{
    const int64_t p = ek_int(call, STATOR_lp_norm_p);
    EK_FAIL_IF(p != 1 && p != 2, call, err, STATOR_UNSUPPORTED, "p is %lld; 1 and 2 are defined",
               (long long)p);
    rows r = axis_rows(call, ek_axis(call, STATOR_lp_norm_axis, call->in[0].rank));
    for_rows(&r, lp_norm_range);
    return STATOR_OK;
}

/* ---- nll_loss ---- */

stator_status ek_nll_loss(const ek_call *call, stator_diag **err)
{
    const ek_tensor *logp = &call->in[0];
    const ek_tensor *target = &call->in[1];
    const int64_t classes = logp->dims[1];
    const int64_t spatial = ek_product(logp->dims, 2, logp->rank);
    const bool has_ignored = ek_has(call, STATOR_nll_loss_ignore_index);
    const int64_t ignored = has_ignored ? ek_int(call, STATOR_nll_loss_ignore_index) : 0;
    const bool is_none = ek_str_is(call, STATOR_nll_loss_reduction, "none");
    double sum = 0.0;
    double weights = 0.0;
    EK_FAIL_IF(logp->numel != target->numel * classes, call, err, STATOR_INVALID_ARGUMENT,
               "target does not fit the input");
    EK_FAIL_IF(ek_has_in(call, 2) && call->in[2].numel != classes, call, err,
               STATOR_INVALID_ARGUMENT,
               "w has %lld elements, expected one for each of %lld classes",
               (long long)call->in[2].numel, (long long)classes);
    for (int64_t i = 0; i < target->numel; i++) {
        const int64_t t = st_load_i64(target->dtype, target->data, i);
        double loss = 0.0;
        if (!has_ignored || t != ignored) {
            EK_FAIL_IF(t < 0 || t >= classes, call, err, STATOR_INVALID_ARGUMENT,
                       "target %lld is outside [0, %lld)", (long long)t, (long long)classes);
            const double w = ek_has_in(call, 2) ? ek_get(&call->in[2], t) : 1.0;
            const int64_t at = (i / spatial * classes + t) * spatial + i % spatial;
            loss = -w * ek_get(logp, at);
            weights += w;
        }
        sum += loss;
        if (is_none) {
            ek_put(&call->out[0], i, loss);
        }
    }
    if (!is_none) {
        const bool is_mean = ek_str_is(call, STATOR_nll_loss_reduction, "mean");
        ek_put(&call->out[0], 0, is_mean ? sum / weights : sum);
    }
    return STATOR_OK;
}
