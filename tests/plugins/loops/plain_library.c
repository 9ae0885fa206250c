/* A contraction library written from its definition: each element by itself, in f64. */
#include "plain_library.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <math.h>

typedef struct op {
    st_contraction contraction;
} op;

typedef struct call {
    const st_contraction *contraction;
    const st_library_call *what;
    /* numbers, taken apart */
    const int64_t *sizes;
    const int64_t *operand[3]; /* offset, then strides */
} call;

static int32_t takes(void *self, const st_contraction *contraction)
{
    (void)self;
    return contraction->kind != ST_CONTRACTION_SDPA_GRADIENT &&
           (contraction->acc_dtype == STATOR_I32 ||
            (st_loop_class_of(contraction->x.dtype) & (ST_LOOP_FLOATS | ST_LOOP_STORAGE)));
}

static stator_status create(void *self_, const st_contraction *contraction, void **out,
                            stator_diag **err)
{
    st_mem *mem = self_;
    op *o = st_alloc(mem, sizeof *o, 16);
    if (o == NULL) {
        return st_fail_oom(err);
    }
    o->contraction = *contraction;
    *out = o;
    return STATOR_OK;
}

static void destroy(void *self, void *o)
{
    st_free(self, o);
}

/* An element less its zero point; `each`: of which row or feature it is. */
static double element(const call *c, const st_contraction_operand *operand,
                      const st_contraction_zero *zero, int64_t at, int64_t each)
{
    const int64_t offset = zero->is_each ? each : 0;
    const double x = st_load_f64(operand->dtype, c->what->buffers[operand->buffer], at);
    return x - (zero->has_buffer ? st_load_f64(zero->dtype, c->what->buffers[zero->buffer], offset)
                                 : zero->value);
}

/* As an element of the dtype. */
static double narrowed(uint32_t dtype, double t)
{
    char element[sizeof t];
    st_store_f64(dtype, element, 0, t);
    return st_load_f64(dtype, element, 0);
}

static double epilogue(const call *c, double t, int64_t feature, int64_t at)
{
    const st_contraction *contraction = c->contraction;
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        const void *data = c->what->buffers[e->buffer];
        switch (e->kind) {
        case ST_EPILOGUE_BIAS:
            t += st_load_f64(e->dtype, data, feature);
            break;
        case ST_EPILOGUE_ADD:
            t += st_load_f64(e->dtype, data, at);
            break;
        case ST_EPILOGUE_TIMES:
            t *= st_load_f64(e->dtype, data, feature);
            break;
        case ST_EPILOGUE_TIMES_ONE:
            t *= st_load_f64(e->dtype, data, 0);
            break;
        case ST_EPILOGUE_RELU:
            t = t > 0 || isnan(t) ? t : 0;
            break;
        case ST_EPILOGUE_SCALE:
            t *= e->value;
            break;
        case ST_EPILOGUE_CLIP:
            t = t < e->value ? e->value : t;
            t = t > e->value2 ? e->value2 : t;
            break;
        case ST_EPILOGUE_GELU_ERF:
            t = 0.5 * t * (1 + erf(t * 0.70710678118654752));
            break;
        case ST_EPILOGUE_SIGMOID:
            t = 1 / (1 + exp(-t));
            break;
        case ST_EPILOGUE_TANH:
            t = tanh(t);
            break;
        case ST_EPILOGUE_SILU:
            t = t / (1 + exp(-t));
            break;
        case ST_EPILOGUE_DIVIDE:
            t /= e->value;
            break;
        case ST_EPILOGUE_ROUND:
            t = rint(t);
            break;
        case ST_EPILOGUE_OFFSET:
            t += e->value;
            break;
        case ST_EPILOGUE_NARROW:
            t = narrowed(contraction->out.dtype, t);
            break;
        default:
            t = NAN;
            break;
        }
        t = contraction->acc_dtype == STATOR_I32 && contraction->out.dtype != STATOR_I32
                ? (double)(float)t
                : t;
    }
    return t;
}

static void store(const call *c, int64_t at, double t)
{
    const uint32_t dtype = c->contraction->out.dtype;
    if (dtype == STATOR_I8 || dtype == STATOR_U8) {
        const double least = dtype == STATOR_I8 ? -128 : 0;
        t = fmin(fmax(t, least), least + 255);
    }
    st_store_f64(c->contraction->out.dtype, c->what->buffers[c->contraction->out.buffer], at, t);
}

/* ---- GEMM: numbers are batch.., m, n, k, then offset, batch.., stride[2] of x, y, out ---- */

/* The number that belongs to k and n. */
static double number_at(const call *c, const st_contraction_blocks *of, int64_t k, int64_t n)
{
    return of->buffer == UINT32_MAX ? of->value
                                    : st_load_f64(of->dtype, c->what->buffers[of->buffer],
                                                  st_contraction_block_at(of, k, n));
}

/* What an element of y stands for. */
static double weight(const call *c, double y, int64_t k, int64_t n)
{
    const st_contraction_weights *w = &c->contraction->weights;
    return w->is_scaled ? narrowed(w->dtype, (y - number_at(c, &w->zero, k, n)) *
                                                 number_at(c, &w->scale, k, n))
                        : y;
}

static void gemm_element(const call *c, const int64_t *base, int64_t m, int64_t n)
{
    const st_contraction *contraction = c->contraction;
    const uint32_t b = contraction->n_batch;
    const int64_t k = c->sizes[b + 2];
    const int64_t *x = c->operand[0] + 1 + b;
    const int64_t *y = c->operand[1] + 1 + b;
    const int64_t *z = c->operand[2] + 1 + b;
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        const double right =
            element(c, &contraction->y, &contraction->y_zero, base[1] + i * y[0] + n * y[1], n);
        sum += element(c, &contraction->x, &contraction->x_zero, base[0] + m * x[0] + i * x[1], m) *
               weight(c, right, i, n);
    }
    const int64_t at = base[2] + m * z[0] + n * z[1];
    store(c, at, epilogue(c, sum, n, at));
}

static void gemm(const call *c)
{
    const uint32_t b = c->contraction->n_batch;
    int64_t batches = 1;
    for (uint32_t i = 0; i < b; i++) {
        batches *= c->sizes[i];
    }
    for (int64_t batch = 0; batch < batches; batch++) {
        int64_t base[3] = {c->operand[0][0], c->operand[1][0], c->operand[2][0]};
        int64_t rest = batch;
        for (uint32_t i = b; i-- > 0;) {
            for (uint32_t o = 0; o < 3; o++) {
                base[o] += rest % c->sizes[i] * c->operand[o][1 + i];
            }
            rest /= c->sizes[i];
        }
        for (int64_t m = 0; m < c->sizes[b]; m++) {
            for (int64_t n = 0; n < c->sizes[b + 1]; n++) {
                gemm_element(c, base, m, n);
            }
        }
    }
}

/* ---- convolution: numbers are images, channels, features, in.., kernel.., out.., low.., high..
 * ---- */

/* One output element; o holds its spatial position, flat over the kernel is w. */
static double conv_element(const call *c, int64_t image, int64_t feature, const int64_t *o)
{
    const st_contraction *contraction = c->contraction;
    const uint32_t s = contraction->n_spatial;
    const int64_t *in = c->sizes + 3;
    const int64_t *kernel = in + s;
    const int64_t *low = kernel + 2 * s;
    const int64_t per_group = c->sizes[1] / contraction->groups;
    const int64_t features = c->sizes[2] / contraction->groups;
    const int64_t group = feature / features;
    int64_t taps = 1;
    double sum = 0;
    for (uint32_t i = 0; i < s; i++) {
        taps *= kernel[i];
    }
    for (int64_t t = 0; t < per_group * taps; t++) {
        const int64_t channel = t / taps;
        int64_t at_x = c->operand[0][0] + image * c->operand[0][1] +
                       (group * per_group + channel) * c->operand[0][2];
        const int64_t row = contraction->is_transposed ? feature % features : feature;
        const int64_t column = contraction->is_transposed ? group * per_group + channel : channel;
        int64_t at_w = c->operand[1][0] + row * c->operand[1][1] + column * c->operand[1][2];
        int64_t rest = t % taps;
        int is_inside = 1;
        for (uint32_t i = s; i-- > 0;) {
            const int64_t k = rest % kernel[i];
            int64_t p = o[i] * contraction->stride[i] + k * contraction->dilation[i] - low[i];
            rest /= kernel[i];
            if (contraction->is_transposed) {
                const int64_t reached = o[i] + low[i] - k * contraction->dilation[i];
                p = reached % contraction->stride[i] ? -1 : reached / contraction->stride[i];
            }
            is_inside = is_inside && p >= 0 && p < in[i];
            at_x += p * c->operand[0][3 + i];
            at_w += k * c->operand[1][3 + i];
        }
        if (is_inside) {
            sum += element(c, &contraction->x, &contraction->x_zero, at_x, 0) *
                   element(c, &contraction->y, &contraction->y_zero, at_w, feature);
        }
    }
    return sum;
}

/* A weight of output channel m and input channel `channel` of the group at tap k. */
static double weight_grad_element(const call *c, int64_t m, int64_t channel, const int64_t *k)
{
    const st_contraction *contraction = c->contraction;
    const uint32_t s = contraction->n_spatial;
    const int64_t *in = c->sizes + 3;
    const int64_t *out_size = in + 2 * s;
    const int64_t *low = in + 3 * s;
    const int64_t group = m / (c->sizes[2] / contraction->groups);
    int64_t positions = 1;
    double sum = 0;
    for (uint32_t i = 0; i < s; i++) {
        positions *= out_size[i];
    }
    for (int64_t t = 0; t < c->sizes[0] * positions; t++) {
        int64_t rest = t % positions;
        int64_t at_x = c->operand[0][0] + t / positions * c->operand[0][1] +
                       (group * (c->sizes[1] / contraction->groups) + channel) * c->operand[0][2];
        int64_t at_g = c->operand[1][0] + t / positions * c->operand[1][1] + m * c->operand[1][2];
        int is_inside = 1;
        for (uint32_t i = s; i-- > 0;) {
            const int64_t o = rest % out_size[i];
            const int64_t p = o * contraction->stride[i] + k[i] * contraction->dilation[i] - low[i];
            rest /= out_size[i];
            is_inside = is_inside && p >= 0 && p < in[i];
            at_x += p * c->operand[0][3 + i];
            at_g += o * c->operand[1][3 + i];
        }
        if (is_inside) {
            sum += element(c, &contraction->x, &contraction->x_zero, at_x, 0) *
                   element(c, &contraction->y, &contraction->y_zero, at_g, 0);
        }
    }
    return sum;
}

static void weight_grad(const call *c)
{
    const uint32_t s = c->contraction->n_spatial;
    const int64_t *kernel = c->sizes + 3 + s;
    const int64_t per_group = c->sizes[1] / c->contraction->groups;
    int64_t taps = 1;
    for (uint32_t i = 0; i < s; i++) {
        taps *= kernel[i];
    }
    for (int64_t e = 0; e < c->sizes[2] * per_group * taps; e++) {
        const int64_t m = e / taps / per_group;
        const int64_t channel = e / taps % per_group;
        int64_t k[ST_CONTRACTION_SPATIAL_MAX] = {0};
        int64_t rest = e % taps;
        int64_t at = c->operand[2][0] + m * c->operand[2][1] + channel * c->operand[2][2];
        for (uint32_t i = s; i-- > 0;) {
            k[i] = rest % kernel[i];
            rest /= kernel[i];
            at += k[i] * c->operand[2][3 + i];
        }
        store(c, at, epilogue(c, weight_grad_element(c, m, channel, k), 0, at));
    }
}

static void conv(const call *c)
{
    const uint32_t s = c->contraction->n_spatial;
    const int64_t *out_size = c->sizes + 3 + 2 * s;
    int64_t positions = 1;
    for (uint32_t i = 0; i < s; i++) {
        positions *= out_size[i];
    }
    for (int64_t e = 0; e < c->sizes[0] * c->sizes[2] * positions; e++) {
        const int64_t image = e / positions / c->sizes[2];
        const int64_t feature = e / positions % c->sizes[2];
        int64_t o[ST_CONTRACTION_SPATIAL_MAX] = {0};
        int64_t rest = e % positions;
        int64_t at = c->operand[2][0] + image * c->operand[2][1] + feature * c->operand[2][2];
        for (uint32_t i = s; i-- > 0;) {
            o[i] = rest % out_size[i];
            rest /= out_size[i];
            at += o[i] * c->operand[2][3 + i];
        }
        store(c, at, epilogue(c, conv_element(c, image, feature, o), feature, at));
    }
}

/* ---- attention: numbers are B H G T S D E, then offset, four strides of q, k, out, v, mask ----
 */

static double loaded(const call *c, const st_contraction_operand *operand, const int64_t *at,
                     const int64_t index[4])
{
    int64_t offset = at[0];
    for (uint32_t i = 0; i < 4; i++) {
        offset += at[1 + i] * index[i];
    }
    return st_load_f64(operand->dtype, c->what->buffers[operand->buffer], offset);
}

/* The score of key s; -INFINITY: not attended to. */
static double score(const call *c, const int64_t *of, int64_t s)
{
    const st_contraction *contraction = c->contraction;
    const st_contraction_sdpa *a = &contraction->sdpa;
    const int64_t *first = c->sizes + 7;
    const int64_t group = of[1] / (c->sizes[1] / c->sizes[2]);
    double sum = 0;
    for (int64_t d = 0; d < c->sizes[5]; d++) {
        const int64_t at_q[4] = {of[0], of[1], of[2], d};
        const int64_t at_k[4] = {of[0], group, s, d};
        sum +=
            loaded(c, &contraction->x, first, at_q) * loaded(c, &contraction->y, first + 5, at_k);
    }
    sum *= a->has_scale ? a->scale : 1 / sqrt((double)c->sizes[5]);
    if (a->has_mask) {
        const int64_t at[4] = {of[0], of[1], of[2], s};
        const double mask = loaded(c, &a->mask, first + 20, at);
        const int is_bool = a->mask.dtype == STATOR_BOOL;
        const int is_never = is_bool ? mask == 0 : mask == -INFINITY;
        sum = is_never ? -INFINITY : is_bool ? sum : sum + mask;
    }
    return a->is_causal && s > of[2] ? -INFINITY : sum;
}

/* The row of queries of[0..2], over all keys. */
static void attend(const call *c, const int64_t *of)
{
    const int64_t *first = c->sizes + 7;
    const int64_t group = of[1] / (c->sizes[1] / c->sizes[2]);
    double max = -INFINITY;
    for (int64_t s = 0; s < c->sizes[4]; s++) {
        const double x = score(c, of, s);
        max = x > max || isnan(x) ? x : max;
    }
    for (int64_t e = 0; e < c->sizes[6]; e++) {
        double weights = 0;
        double sum = 0;
        for (int64_t s = 0; s < c->sizes[4]; s++) {
            const int64_t at[4] = {of[0], group, s, e};
            const double p = exp(score(c, of, s) - (max == -INFINITY ? 0 : max));
            weights += p;
            sum += p == 0 ? 0 : p * loaded(c, &c->contraction->sdpa.v, first + 15, at);
        }
        const int64_t *out = first + 10;
        store(c, out[0] + of[0] * out[1] + of[1] * out[2] + of[2] * out[3] + e * out[4],
              sum / (weights == 0 ? 1 : weights));
    }
}

static void sdpa(const call *c)
{
    int64_t of[3];
    for (of[0] = 0; of[0] < c->sizes[0]; of[0]++) {
        for (of[1] = 0; of[1] < c->sizes[1]; of[1]++) {
            for (of[2] = 0; of[2] < c->sizes[3]; of[2]++) {
                attend(c, of);
            }
        }
    }
}

static stator_status run(void *self, void *op_, const st_library_call *what, stator_diag **err)
{
    const st_contraction *contraction = &((const op *)op_)->contraction;
    call c = {.contraction = contraction, .what = what, .sizes = what->numbers};
    const uint32_t s = contraction->n_spatial;
    const int is_gemm = contraction->kind == ST_CONTRACTION_GEMM;
    const uint32_t width = is_gemm ? 3u + contraction->n_batch : 3u + s;
    const uint32_t first = is_gemm ? contraction->n_batch + 3u : 3u + 5u * s;
    (void)self;
    (void)err;
    if (contraction->kind == ST_CONTRACTION_SDPA) {
        sdpa(&c);
        return STATOR_OK;
    }
    for (uint32_t i = 0; i < 3; i++) {
        c.operand[i] = what->numbers + first + i * width;
    }
    if (is_gemm) {
        gemm(&c);
    } else if (contraction->is_weight_grad) {
        weight_grad(&c);
    } else {
        conv(&c);
    }
    return STATOR_OK;
}

st_library plain_library(st_mem *mem)
{
    return (st_library){.struct_size = sizeof(st_library),
                        .self = mem,
                        .takes = takes,
                        .create = create,
                        .run = run,
                        .destroy = destroy};
}
