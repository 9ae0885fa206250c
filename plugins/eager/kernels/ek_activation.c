/* Pointwise composites of one operand, from their formulas (not their bodies), in f64 and rounded
 * once. Integers: relu and square in 64 bits, the others through f64. */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

typedef struct params {
    const ek_call *c;
    double alpha;
    double beta;
    double gamma;
    bool use_tanh;
} params;

typedef double (*scalar_fn)(double x, const params *p);

static double f_reciprocal(double x, const params *p)
{
    (void)p;
    return 1.0 / x;
}
static double f_square(double x, const params *p)
{
    (void)p;
    return x * x;
}
static double f_relu(double x, const params *p)
{
    (void)p;
    return x > 0 || x != x ? x : 0.0;
}
static double f_sigmoid(double x, const params *p)
{
    (void)p;
    return 1.0 / (1.0 + exp(-x));
}
static double f_silu(double x, const params *p)
{
    return x / (1.0 + exp(-p->alpha * x));
}
static double f_gelu(double x, const params *p)
{
    if (p->use_tanh) {
        return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    }
    return 0.5 * x * erfc(-x * 0.70710678118654752440); /* no cancellation for x << 0 */
}
static double f_leaky_relu(double x, const params *p)
{
    return x < 0 ? p->alpha * x : x;
}
static double f_elu(double x, const params *p)
{
    return x < 0 ? p->alpha * expm1(x) : x;
}
static double f_selu(double x, const params *p)
{
    return p->gamma * (x > 0 ? x : p->alpha * expm1(x));
}
static double f_celu(double x, const params *p)
{
    const double low = p->alpha * expm1(x / p->alpha);
    return (x > 0 || x != x ? x : 0.0) + (low < 0 || low != low ? low : 0.0);
}
static double f_hard_sigmoid(double x, const params *p)
{
    const double y = p->alpha * x + p->beta;
    return y != y ? y : fmax(fmin(y, 1.0), 0.0);
}
static double f_hard_swish(double x, const params *p)
{
    (void)p;
    const double y = x / 6.0 + 0.5;
    return x * (y != y ? y : fmax(fmin(y, 1.0), 0.0));
}
static double softplus(double x)
{
    return (x > 0 || x != x ? x : 0.0) + log1p(exp(-fabs(x)));
}
static double f_mish(double x, const params *p)
{
    (void)p;
    return x * tanh(softplus(x));
}
static double f_softplus(double x, const params *p)
{
    (void)p;
    return softplus(x);
}
static double f_softsign(double x, const params *p)
{
    (void)p;
    return x / (1.0 + fabs(x));
}
static double f_thresholded_relu(double x, const params *p)
{
    return x > p->alpha ? x : 0.0;
}
static double f_shrink(double x, const params *p)
{
    return x < -p->alpha ? x + p->beta : x > p->alpha ? x - p->beta : 0.0;
}

typedef struct activation {
    scalar_fn fn;
    int32_t alpha, beta, gamma; /* places of the attributes, -1 none */
} activation;

/* clang-format off */
static const activation table[EAGER_OP_COUNT] = {
    [EAGER_OP_reciprocal] = {f_reciprocal, -1, -1, -1},
    [EAGER_OP_square] = {f_square, -1, -1, -1},
    [EAGER_OP_relu] = {f_relu, -1, -1, -1},
    [EAGER_OP_sigmoid] = {f_sigmoid, -1, -1, -1},
    [EAGER_OP_silu] = {f_silu, STATOR_silu_alpha, -1, -1},
    [EAGER_OP_gelu] = {f_gelu, -1, -1, -1},
    [EAGER_OP_leaky_relu] = {f_leaky_relu, STATOR_leaky_relu_alpha, -1, -1},
    [EAGER_OP_elu] = {f_elu, STATOR_elu_alpha, -1, -1},
    [EAGER_OP_selu] = {f_selu, STATOR_selu_alpha, -1, STATOR_selu_gamma},
    [EAGER_OP_celu] = {f_celu, STATOR_celu_alpha, -1, -1},
    [EAGER_OP_hard_sigmoid] = {f_hard_sigmoid, STATOR_hard_sigmoid_alpha, STATOR_hard_sigmoid_beta, -1},
    [EAGER_OP_hard_swish] = {f_hard_swish, -1, -1, -1},
    [EAGER_OP_mish] = {f_mish, -1, -1, -1},
    [EAGER_OP_softplus] = {f_softplus, -1, -1, -1},
    [EAGER_OP_softsign] = {f_softsign, -1, -1, -1},
    [EAGER_OP_thresholded_relu] = {f_thresholded_relu, STATOR_thresholded_relu_alpha, -1, -1},
    [EAGER_OP_shrink] = {f_shrink, STATOR_shrink_lambd, STATOR_shrink_bias, -1},
};
/* clang-format on */

static void f64_range(void *self, int64_t begin, int64_t end)
{
    const params *p = self;
    const scalar_fn fn = table[p->c->op].fn;
    const ek_tensor *in = &p->c->in[0];
    const ek_tensor *out = &p->c->out[0];
    double x[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_f64_block(in->dtype, in->data, i, m, x);
        for (int64_t k = 0; k < m; k++) {
            x[k] = fn(x[k], p);
        }
        st_store_f64_block(out->dtype, out->data, i, m, x);
    }
}

static void relu_f32_range(void *self, int64_t begin, int64_t end)
{
    const params *p = self;
    const float *x = p->c->in[0].data;
    float *z = p->c->out[0].data;
    for (int64_t i = begin; i < end; i++) {
        z[i] = x[i] <= 0 ? 0.0f : x[i]; /* max(-0, 0) is 0; NaN stays */
    }
}

/* relu, square, reciprocal of integers. */
static void i64_range(void *self, int64_t begin, int64_t end)
{
    const params *p = self;
    const ek_tensor *in = &p->c->in[0];
    const ek_tensor *out = &p->c->out[0];
    const int is_unsigned = (EK_UINT >> in->dtype) & 1u;
    int64_t x[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_i64_block(in->dtype, in->data, i, m, x);
        for (int64_t k = 0; k < m; k++) {
            const int64_t a = x[k];
            x[k] = p->c->op == EAGER_OP_relu     ? (a > 0 || is_unsigned ? a : 0)
                   : p->c->op == EAGER_OP_square ? (int64_t)((uint64_t)a * (uint64_t)a)
                                                 : (a == 1 || a == -1 ? a : 0);
        }
        st_store_i64_block(out->dtype, out->data, i, m, x);
    }
}

stator_status ek_activation(const ek_call *c, stator_diag **err)
{
    const activation *a = &table[c->op];
    const uint32_t dtype = c->in[0].dtype;
    params p = {.c = c};
    (void)err;
    p.alpha = a->alpha >= 0 ? ek_float(c, (uint32_t)a->alpha) : 0;
    p.beta = a->beta >= 0 ? ek_float(c, (uint32_t)a->beta) : 0;
    p.gamma = a->gamma >= 0 ? ek_float(c, (uint32_t)a->gamma) : 0;
    p.use_tanh = c->op == EAGER_OP_gelu && ek_str_is(c, STATOR_gelu_approximate, "tanh");
    const int64_t n = c->in[0].numel;
    if (!ek_is_float(dtype) &&
        (c->op == EAGER_OP_relu || c->op == EAGER_OP_square || c->op == EAGER_OP_reciprocal)) {
        ek_parallel(c, n, 16384, i64_range, &p);
    } else if (dtype == STATOR_F32 && c->op == EAGER_OP_relu) {
        ek_parallel(c, n, 16384, relu_f32_range, &p);
    } else {
        ek_parallel(c, n, 2048, f64_range, &p);
    }
    return STATOR_OK;
}
