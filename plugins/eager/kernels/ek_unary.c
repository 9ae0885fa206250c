/* Pointwise ops of one operand.
 *
 * Transcendental functions are computed in f64 and rounded once; composites come from their
 * formulas (not their bodies). f32 has typed loops for what is exact in f32; integers go through
 * blocks of 64 bits. */
#define _DEFAULT_SOURCE /* lgamma_r: lgamma writes a global */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

/* z[i] = f(x[i]); c: the call, for the op's attributes. */
typedef void (*row_f64)(const ek_call *c, double *restrict z, const double *restrict x, int64_t n);
typedef void (*row_f32)(const ek_call *c, float *restrict z, const float *restrict x, int64_t n);
typedef void (*row_i64)(const ek_call *c, int64_t *restrict z, const int64_t *restrict x,
                        int64_t n);

#define DEFINE(name, T, expr)                                                                      \
    static void name(const ek_call *c, T *restrict z, const T *restrict x, int64_t n)              \
    {                                                                                              \
        (void)c;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T a = x[i];                                                                      \
            z[i] = (expr);                                                                         \
        }                                                                                          \
    }

/* ---- scalar meanings that are more than an expression ---- */

static inline double log_gamma(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

/* The recurrence up to 10, then the asymptotic series; x <= 0 by reflection. */
static inline double digamma(double a)
{
    const double pi = 3.14159265358979323846;
    double sum = 0;
    if (a <= 0) {
        if (a == 0 || a == trunc(a)) {
            return a == 0 ? copysign(INFINITY, -a) : NAN;
        }
        sum = -pi / tan(pi * (a - rint(a)));
        a = 1 - a;
    }
    for (; a < 10; a += 1) {
        sum -= 1 / a;
    }
    static const double series[] = {-3617.0 / 8160, 1.0 / 12,  -691.0 / 32760, 1.0 / 132,
                                    -1.0 / 240,     1.0 / 252, -1.0 / 120,     1.0 / 12};
    const double q = 1 / (a * a);
    double tail = 0;
    for (uint32_t i = 0; i < sizeof series / sizeof *series; i++) {
        tail = q * (series[i] + tail);
    }
    return log(a) - 0.5 / a - tail + sum;
}

static inline double rectified(double a)
{
    return a > 0 || a != a ? a : 0.0;
}

static inline double celu(double a, double alpha)
{
    const double low = alpha * expm1(a / alpha);
    return rectified(a) + (low < 0 || low != low ? low : 0.0);
}

static inline double in_unit_interval(double a)
{
    return a != a ? a : fmax(fmin(a, 1.0), 0.0);
}

static inline double softplus(double a)
{
    return rectified(a) + log1p(exp(-fabs(a)));
}

static inline double shrink(double a, double limit, double bias)
{
    return a < -limit ? a + bias : a > limit ? a - bias : 0.0;
}

static inline bool is_infinite(double a)
{
    return fabs(a) > 0x1.fffffffffffffp1023;
}

/* ---- rows ---- */

/* clang-format off */
DEFINE(neg_f64, double, -a)
DEFINE(abs_f64, double, fabs(a))
DEFINE(sign_f64, double, a > 0 ? 1.0 : a < 0 ? -1.0 : a)
DEFINE(ceil_f64, double, ceil(a))
DEFINE(floor_f64, double, floor(a))
DEFINE(round_f64, double, rint(a))
DEFINE(trunc_f64, double, trunc(a))
DEFINE(sqrt_f64, double, sqrt(a))
DEFINE(relu_f64, double, rectified(a))
DEFINE(reciprocal_f64, double, 1.0 / a)
DEFINE(square_f64, double, a * a)
DEFINE(gelu_tanh_f64, double,
       0.5 * a * (1.0 + tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a))))

DEFINE(neg_f32, float, -a)
DEFINE(abs_f32, float, fabsf(a))
DEFINE(sign_f32, float, a > 0 ? 1.0f : a < 0 ? -1.0f : a)
DEFINE(ceil_f32, float, ceilf(a))
DEFINE(floor_f32, float, floorf(a))
DEFINE(round_f32, float, rintf(a))
DEFINE(trunc_f32, float, truncf(a))
DEFINE(sqrt_f32, float, sqrtf(a))
DEFINE(relu_f32, float, a <= 0 ? 0.0f : a) /* max(-0, 0) is 0; NaN stays */

DEFINE(neg_i64, int64_t, (int64_t)(0 - (uint64_t)a))
DEFINE(abs_i64, int64_t, a < 0 ? (int64_t)(0 - (uint64_t)a) : a)
DEFINE(sign_i64, int64_t, (a > 0) - (a < 0))
DEFINE(same_i64, int64_t, a)
DEFINE(sign_u64, int64_t, a != 0)
DEFINE(bit_not_i64, int64_t, ~a)
DEFINE(not_bool, int64_t, !a)
DEFINE(relu_i64, int64_t, a > 0 ? a : 0)
DEFINE(reciprocal_i64, int64_t, a == 1 || a == -1 ? a : 0)
DEFINE(square_i64, int64_t, (int64_t)((uint64_t)a * (uint64_t)a))

/* Ops of f64 alone: name and meaning. Their other dtypes go through f64. */
#define ATTR(name) ek_float(c, STATOR_##name)
#define F64_OPS(X)                                                                                 \
    X(exp, exp(a))                                                                                 \
    X(exp2, exp2(a))                                                                               \
    X(expm1, expm1(a))                                                                             \
    X(log, log(a))                                                                                 \
    X(log2, log2(a))                                                                               \
    X(log1p, log1p(a))                                                                             \
    X(rsqrt, 1.0 / sqrt(a))                                                                        \
    X(sin, sin(a))                                                                                 \
    X(cos, cos(a))                                                                                 \
    X(tan, tan(a))                                                                                 \
    X(asin, asin(a))                                                                               \
    X(acos, acos(a))                                                                               \
    X(atan, atan(a))                                                                               \
    X(sinh, sinh(a))                                                                               \
    X(cosh, cosh(a))                                                                               \
    X(tanh, tanh(a))                                                                               \
    X(asinh, asinh(a))                                                                             \
    X(acosh, acosh(a))                                                                             \
    X(atanh, atanh(a))                                                                             \
    X(erf, erf(a))                                                                                 \
    X(lgamma, log_gamma(a))                                                                        \
    X(digamma, digamma(a))                                                                         \
    X(is_nan, a != a)                                                                              \
    X(is_inf, is_infinite(a))                                                                      \
    X(is_finite, a == a && !is_infinite(a))                                                        \
    X(sigmoid, 1.0 / (1.0 + exp(-a)))                                                              \
    X(silu, a / (1.0 + exp(-ATTR(silu_alpha) * a)))                                                \
    X(gelu, 0.5 * a * erfc(-a * 0.70710678118654752440)) /* no cancellation for a << 0 */          \
    X(leaky_relu, a < 0 ? ATTR(leaky_relu_alpha) * a : a)                                          \
    X(elu, a < 0 ? ATTR(elu_alpha) * expm1(a) : a)                                                 \
    X(selu, ATTR(selu_gamma) * (a > 0 ? a : ATTR(selu_alpha) * expm1(a)))                          \
    X(celu, celu(a, ATTR(celu_alpha)))                                                             \
    X(hard_sigmoid, in_unit_interval(ATTR(hard_sigmoid_alpha) * a + ATTR(hard_sigmoid_beta)))      \
    X(hard_swish, a * in_unit_interval(a / 6.0 + 0.5))                                             \
    X(mish, a * tanh(softplus(a)))                                                                 \
    X(softplus, softplus(a))                                                                       \
    X(softsign, a / (1.0 + fabs(a)))                                                               \
    X(thresholded_relu, a > ATTR(thresholded_relu_alpha) ? a : 0.0)                                \
    X(shrink, shrink(a, ATTR(shrink_lambd), ATTR(shrink_bias)))
#define F64_FUNCTION(op, expr) DEFINE(op##_f64, double, expr)
#define F64_ROW(op, expr) [EAGER_OP_##op] = {.f64 = op##_f64},
F64_OPS(F64_FUNCTION)

typedef struct unary_row {
    row_f64 f64;
    row_f32 f32;
    row_i64 signed_int;
    row_i64 unsigned_int;
} unary_row;

static const unary_row table[EAGER_OP_COUNT] = {
    [EAGER_OP_neg] = {neg_f64, neg_f32, neg_i64, neg_i64},
    [EAGER_OP_abs] = {abs_f64, abs_f32, abs_i64, same_i64},
    [EAGER_OP_sign] = {sign_f64, sign_f32, sign_i64, sign_u64},
    [EAGER_OP_ceil] = {ceil_f64, ceil_f32, same_i64, same_i64},
    [EAGER_OP_floor] = {floor_f64, floor_f32, same_i64, same_i64},
    [EAGER_OP_round] = {round_f64, round_f32, same_i64, same_i64},
    [EAGER_OP_trunc] = {trunc_f64, trunc_f32, same_i64, same_i64},
    [EAGER_OP_relu] = {relu_f64, relu_f32, relu_i64, same_i64},
    [EAGER_OP_reciprocal] = {reciprocal_f64, NULL, reciprocal_i64, reciprocal_i64},
    [EAGER_OP_square] = {square_f64, NULL, square_i64, square_i64},
    [EAGER_OP_sqrt] = {.f64 = sqrt_f64, .f32 = sqrt_f32},
    [EAGER_OP_bit_not] = {.signed_int = bit_not_i64, .unsigned_int = bit_not_i64},
    F64_OPS(F64_ROW)
};
/* clang-format on */

typedef struct unary {
    const ek_call *c;
    row_f64 f64;
    row_f32 f32;
    row_i64 i64; /* the row for the operand's signedness */
} unary;

static void f32_range(void *self, int64_t begin, int64_t end)
{
    const unary *u = self;
    u->f32(u->c, (float *)u->c->out[0].data + begin, (const float *)u->c->in[0].data + begin,
           end - begin);
}

#define DEFINE_RANGE(S, T)                                                                         \
    static void S##_range(void *self, int64_t begin, int64_t end)                                  \
    {                                                                                              \
        const unary *u = self;                                                                     \
        const ek_tensor *in = &u->c->in[0];                                                        \
        const ek_tensor *out = &u->c->out[0];                                                      \
        T x[EK_BLOCK];                                                                             \
        T z[EK_BLOCK];                                                                             \
        for (int64_t i = begin; i < end; i += EK_BLOCK) {                                          \
            const int64_t m = st_min_i64(end - i, EK_BLOCK);                                       \
            st_load_##S##_block(in->dtype, in->data, i, m, x);                                     \
            u->S(u->c, z, x, m);                                                                   \
            st_store_##S##_block(out->dtype, out->data, i, m, z);                                  \
        }                                                                                          \
    }
DEFINE_RANGE(f64, double)
DEFINE_RANGE(i64, int64_t)

/* neg and abs. */
static void complex_range(void *self, int64_t begin, int64_t end)
{
    const unary *u = self;
    const ek_tensor *in = &u->c->in[0];
    const ek_tensor *out = &u->c->out[0];
    for (int64_t i = begin; i < end; i++) {
        double x[2];
        st_load_c128(in->dtype, in->data, i, x);
        if (u->c->op == EAGER_OP_abs) {
            ek_put(out, i, hypot(x[0], x[1]));
        } else {
            const double z[2] = {-x[0], -x[1]};
            st_store_c128(out->dtype, out->data, i, z);
        }
    }
}

stator_status ek_unary(const ek_call *c, stator_diag **err)
{
    const uint32_t dtype = c->in[0].dtype;
    const int64_t n = c->in[0].numel;
    const unary_row *row = &table[c->op];
    unary u = {c, row->f64, row->f32,
               (EK_UINT >> dtype) & 1u ? row->unsigned_int : row->signed_int};
    if (c->op == EAGER_OP_gelu && ek_str_is(c, STATOR_gelu_approximate, "tanh")) {
        u.f64 = gelu_tanh_f64;
    }
    if (dtype == STATOR_BOOL) {
        u.i64 = c->op == EAGER_OP_bit_not ? not_bool : NULL;
    }
    if (dtype == STATOR_C64 || dtype == STATOR_C128) {
        ek_parallel(c, n, 4096, complex_range, &u);
    } else if (dtype == STATOR_F32 && u.f32) {
        ek_parallel(c, n, 16384, f32_range, &u);
    } else if (!ek_is_float(dtype) && u.i64) {
        ek_parallel(c, n, 16384, i64_range, &u);
    } else if (u.f64) {
        ek_parallel(c, n, 2048, f64_range, &u);
    } else {
        return ek_fail(c, err, STATOR_UNSUPPORTED, "there is no kernel for %s",
                       st_dtype_name(dtype));
    }
    return STATOR_OK;
}
