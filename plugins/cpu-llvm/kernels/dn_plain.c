/* Plain loops: for what oneDNN has no implementation of (axes that overlap, nothing to sum over),
 * and the epilogue of accumulated values among which are NaNs, which oneDNN's relu and clip would
 * drop. Sums are in f64. Slow, and right for every contraction. */
#include "plugins/cpu-llvm/kernels/dn.h"

#include "core/base/convert.h"

#include <math.h>
#include <string.h>

typedef struct plain {
    const dn_op *op;
    const dn_sizes *s;
    const float *t; /* NULL: to be computed */
    void *const *at;
    uint32_t n; /* axes of the output */
    int64_t extent[DN_DIMS_MAX];
    int64_t out[DN_DIMS_MAX]; /* strides */
    uint32_t feature;
} plain;

/* ---- sums ---- */

typedef struct sum {
    double f;
    int64_t i;
} sum;

/* The zero point of operand k, at row or feature `each`. */
static int64_t zero_at(const plain *p, uint32_t k, int64_t each)
{
    const st_contraction_zero *zero = k ? &p->op->contraction.y_zero : &p->op->contraction.x_zero;
    const void *at = p->at[DN_ZERO + k];
    return zero->is_each ? st_load_i64(zero->dtype, at, each) : *(const int32_t *)at;
}

/* `row`, `feature`: of the element that is summed. */
static void add_product(const plain *p, int64_t x, int64_t y, int64_t row, int64_t feature, sum *to)
{
    const uint32_t x_type = p->op->contraction.x.dtype;
    const uint32_t y_type = p->op->contraction.y.dtype;
    if (p->op->contraction.acc_dtype == STATOR_I32) {
        const int64_t a = st_load_i64(x_type, p->at[DN_X], x) - zero_at(p, 0, row);
        const int64_t b = st_load_i64(y_type, p->at[DN_Y], y) - zero_at(p, 1, feature);
        to->i += a * b;
    } else {
        to->f += st_load_f64(x_type, p->at[DN_X], x) * st_load_f64(y_type, p->at[DN_Y], y);
    }
}

/* add_product with a weight of few bits, whose scale and zero point depend on k and n. */
static void add_weighted(const plain *p, int64_t x, int64_t y, int64_t k, int64_t n, sum *to)
{
    const st_contraction *contraction = &p->op->contraction;
    const double number = st_load_f64(contraction->y.dtype, p->at[DN_Y], (uint64_t)y);
    to->f += st_load_f64(contraction->x.dtype, p->at[DN_X], (uint64_t)x) *
             dn_quant_weight(contraction, p->at, number, k, n);
}

static sum gemm_at(const plain *p, const int64_t *index)
{
    const dn_sizes *s = p->s;
    const int64_t row = index[s->n_batch];
    const int64_t column = index[s->n_batch + 1];
    int64_t x = row * s->x.stride[0];
    int64_t y = column * s->y.stride[1];
    sum total = {0, 0};
    for (int64_t i = 0; i < s->n_batch; i++) {
        x += index[i] * s->x.batch[i];
        y += index[i] * s->y.batch[i];
    }
    for (int64_t k = 0; k < s->k; k++, x += s->x.stride[1], y += s->y.stride[0]) {
        if (p->op->contraction.weights.is_scaled) {
            add_weighted(p, x, s->y.offset + y, k, column, &total);
        } else {
            add_product(p, x, y, row, column, &total);
        }
    }
    return total;
}

/* The places in x and y that a position of the window multiplies; false: it is padding. */
static bool conv_place(const plain *p, const int64_t *index, int64_t window, int64_t *x, int64_t *y)
{
    const st_contraction *contraction = &p->op->contraction;
    for (uint32_t i = contraction->n_spatial; i-- > 0;) {
        const int64_t k = window % p->s->kernel[i];
        int64_t at =
            index[2 + i] * contraction->stride[i] + k * contraction->dilation[i] - p->s->pad_low[i];
        window /= p->s->kernel[i];
        if (contraction->is_transposed) {
            const int64_t reached = index[2 + i] + p->s->pad_low[i] - k * contraction->dilation[i];
            at = reached % contraction->stride[i] ? -1 : reached / contraction->stride[i];
        }
        if (at < 0 || at >= p->s->in[i]) {
            return false;
        }
        *x += at * p->s->x.dims[2 + i];
        *y += k * p->s->y.dims[2 + i];
    }
    return true;
}

static sum conv_at(const plain *p, const int64_t *index)
{
    const st_contraction *contraction = &p->op->contraction;
    const dn_sizes *s = p->s;
    const int64_t channels = s->channels / contraction->groups;
    const int64_t features = s->features / contraction->groups;
    const int64_t group = index[1] / features;
    const int64_t first = contraction->is_transposed
                              ? index[1] % features * s->y.dims[0] + group * channels * s->y.dims[1]
                              : index[1] * s->y.dims[0];
    int64_t windows = 1;
    sum total = {0, 0};
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        windows *= s->kernel[i];
    }
    for (int64_t window = 0; window < windows; window++) {
        int64_t x = index[0] * s->x.dims[0] + group * channels * s->x.dims[1];
        int64_t y = first;
        if (!conv_place(p, index, window, &x, &y)) {
            continue;
        }
        for (int64_t c = 0; c < channels; c++) {
            add_product(p, x + c * s->x.dims[1], y + c * s->y.dims[1], 0, index[1], &total);
        }
    }
    return total;
}

/* An element of the gradient to the weight: the window's position k.. is index[2..], and the sum is
 * over images and positions of y. */
static sum weight_grad_at(const plain *p, const int64_t *index)
{
    const st_contraction *contraction = &p->op->contraction;
    const dn_sizes *s = p->s;
    const int64_t group = index[0] / (s->features / contraction->groups);
    const int64_t channel = group * (s->channels / contraction->groups) + index[1];
    int64_t positions = s->images;
    sum total = {0, 0};
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        positions *= s->out_size[i];
    }
    for (int64_t position = 0; position < positions; position++) {
        int64_t rest = position;
        int64_t x = channel * s->x.dims[1];
        int64_t y = index[0] * s->y.dims[1];
        bool is_inside = true;
        for (uint32_t i = contraction->n_spatial; i-- > 0;) {
            const int64_t o = rest % s->out_size[i];
            const int64_t at = o * contraction->stride[i] +
                               index[2 + i] * contraction->dilation[i] - s->pad_low[i];
            rest /= s->out_size[i];
            is_inside = is_inside && at >= 0 && at < s->in[i];
            x += at * s->x.dims[2 + i];
            y += o * s->y.dims[2 + i];
        }
        if (is_inside) {
            add_product(p, x + rest * s->x.dims[0], y + rest * s->y.dims[0], 0, 0, &total);
        }
    }
    return total;
}

/* ---- the epilogue ---- */

/* The number, rounded to the dtype. */
static float narrowed(uint32_t dtype, float t)
{
    char element[sizeof t];
    st_store_f64(dtype, element, 0, (double)t);
    return (float)st_load_f64(dtype, element, 0);
}

static float apply(const st_epilogue *e, float t, const void *buffer, int64_t feature, int64_t out)
{
    switch (e->kind) {
    case ST_EPILOGUE_BIAS:
        return t + (float)st_load_f64(e->dtype, buffer, feature);
    case ST_EPILOGUE_ADD:
        return t + (float)st_load_f64(e->dtype, buffer, out);
    case ST_EPILOGUE_TIMES:
        return t * (float)st_load_f64(e->dtype, buffer, feature);
    case ST_EPILOGUE_TIMES_ONE:
        return t * (float)st_load_f64(e->dtype, buffer, 0);
    case ST_EPILOGUE_RELU:
        return t < 0 ? 0 : t;
    case ST_EPILOGUE_SCALE:
        return t * (float)e->value;
    case ST_EPILOGUE_DIVIDE:
        return t / (float)e->value;
    case ST_EPILOGUE_ROUND:
        return rintf(t);
    case ST_EPILOGUE_OFFSET:
        return t + (float)e->value;
    case ST_EPILOGUE_CLIP:
        t = t < (float)e->value ? (float)e->value : t;
        return t > (float)e->value2 ? (float)e->value2 : t;
    case ST_EPILOGUE_GELU_ERF:
        return 0.5f * t * (1.0f + erff(t * 0.70710678f));
    case ST_EPILOGUE_GELU_TANH:
        return 0.5f * t * (1.0f + tanhf(0.79788456f * (t + 0.044715f * t * t * t)));
    case ST_EPILOGUE_SIGMOID:
        return 1.0f / (1.0f + expf(-t));
    case ST_EPILOGUE_TANH:
        return tanhf(t);
    default: /* SILU */
        return t * (1.0f / (1.0f + expf(-t)));
    }
}

/* Stores t in the output's dtype; as a byte, the nearest one. */
static void store(const plain *p, int64_t out, float t)
{
    const uint32_t dtype = p->op->contraction.out.dtype;
    if (st_element_bytes(dtype) == 1u) {
        const float least = dtype == STATOR_I8 ? -128.0f : 0.0f;
        t = fminf(fmaxf(t, least), least + 255.0f);
    }
    st_store_f64(dtype, p->at[DN_OUT], out, (double)t);
}

static void finish(const plain *p, const int64_t *index, int64_t out)
{
    const st_contraction *contraction = &p->op->contraction;
    float t = 0;
    if (p->t) {
        t = p->t[out];
    } else {
        const sum total = contraction->kind == ST_CONTRACTION_GEMM ? gemm_at(p, index)
                          : contraction->is_weight_grad            ? weight_grad_at(p, index)
                                                                   : conv_at(p, index);
        if (contraction->out.dtype == STATOR_I32) {
            st_store_i64(contraction->out.dtype, p->at[DN_OUT], out, total.i);
            return;
        }
        t = contraction->acc_dtype == STATOR_I32 ? (float)(int32_t)(uint32_t)total.i
                                                 : (float)total.f;
    }
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        t = e->kind == ST_EPILOGUE_NARROW ? narrowed(contraction->out.dtype, t)
                                          : apply(e, t, p->at[DN_POST + i], index[p->feature], out);
    }
    store(p, out, t);
}

static void run_range(void *self, int64_t begin, int64_t end)
{
    const plain *p = self;
    int64_t index[DN_DIMS_MAX] = {0};
    int64_t rest = begin;
    int64_t out = 0;
    for (uint32_t i = p->n; i-- > 0;) {
        index[i] = rest % p->extent[i];
        rest /= p->extent[i];
        out += index[i] * p->out[i];
    }
    for (int64_t at = begin; at < end; at++) {
        finish(p, index, out);
        for (uint32_t i = p->n; i-- > 0;) {
            out += p->out[i];
            if (++index[i] < p->extent[i]) {
                break;
            }
            out -= p->extent[i] * p->out[i];
            index[i] = 0;
        }
    }
}

/* ---- all of it ---- */

static void set_axes(plain *p)
{
    const st_contraction *contraction = &p->op->contraction;
    const dn_sizes *s = p->s;
    if (contraction->kind == ST_CONTRACTION_CONV) {
        const bool is_weight = contraction->is_weight_grad;
        p->n = 2u + contraction->n_spatial;
        p->feature = 1;
        p->extent[0] = is_weight ? s->features : s->images;
        p->extent[1] = is_weight ? s->channels / contraction->groups : s->features;
        for (uint32_t i = 0; i < contraction->n_spatial; i++) {
            p->extent[2 + i] = is_weight ? s->kernel[i] : s->out_size[i];
        }
        memcpy(p->out, s->out.dims, p->n * sizeof p->out[0]);
        return;
    }
    p->n = (uint32_t)s->n_batch + 2u;
    p->feature = p->n - 1u;
    for (uint32_t i = 0; i < (uint32_t)s->n_batch; i++) {
        p->extent[i] = s->batch[i];
        p->out[i] = s->out.batch[i];
    }
    p->extent[p->n - 2u] = s->m;
    p->extent[p->n - 1u] = s->n;
    p->out[p->n - 2u] = s->out.stride[0];
    p->out[p->n - 1u] = s->out.stride[1];
}

void dn_plain(const dn_op *op, const dn_sizes *s, const float *t, void *const at[DN_ROLES],
              stator_ctx *ctx)
{
    plain p = {.op = op, .s = s, .t = t, .at = at};
    int64_t elements = 0;
    int64_t macs = 0;
    set_axes(&p);
    dn_work(&op->contraction, s, &elements, &macs);
    if (elements > 0) {
        dn_parallel(op->lib->host, ctx, elements, 256, run_range, &p);
    }
}
