/* Pointwise ops of one operand.
 *
 * Transcendental functions are computed in f64 and rounded once. f32 has typed loops for what is
 * exact in f32; integers go through blocks of 64 bits. */
#define _DEFAULT_SOURCE /* lgamma_r: lgamma writes a global */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

typedef void (*row_f64)(double *restrict z, const double *restrict x, int64_t n);
typedef void (*row_f32)(float *restrict z, const float *restrict x, int64_t n);
typedef void (*row_i64)(int64_t *restrict z, const int64_t *restrict x, int64_t n);

#define DEFINE(name, T, expr)                                                                      \
    static void name(T *restrict z, const T *restrict x, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T a = x[i];                                                                      \
            z[i] = (expr);                                                                         \
        }                                                                                          \
    }

static inline double log_gamma(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

/* clang-format off */
DEFINE(neg_f64, double, -a)
DEFINE(abs_f64, double, fabs(a))
DEFINE(sign_f64, double, a > 0 ? 1.0 : a < 0 ? -1.0 : a)
DEFINE(ceil_f64, double, ceil(a))
DEFINE(floor_f64, double, floor(a))
DEFINE(round_f64, double, rint(a))
DEFINE(trunc_f64, double, trunc(a))
DEFINE(exp_f64, double, exp(a))
DEFINE(exp2_f64, double, exp2(a))
DEFINE(expm1_f64, double, expm1(a))
DEFINE(log_f64, double, log(a))
DEFINE(log2_f64, double, log2(a))
DEFINE(log1p_f64, double, log1p(a))
DEFINE(sqrt_f64, double, sqrt(a))
DEFINE(rsqrt_f64, double, 1.0 / sqrt(a))
DEFINE(sin_f64, double, sin(a))
DEFINE(cos_f64, double, cos(a))
DEFINE(tan_f64, double, tan(a))
DEFINE(asin_f64, double, asin(a))
DEFINE(acos_f64, double, acos(a))
DEFINE(atan_f64, double, atan(a))
DEFINE(sinh_f64, double, sinh(a))
DEFINE(cosh_f64, double, cosh(a))
DEFINE(tanh_f64, double, tanh(a))
DEFINE(asinh_f64, double, asinh(a))
DEFINE(acosh_f64, double, acosh(a))
DEFINE(atanh_f64, double, atanh(a))
DEFINE(erf_f64, double, erf(a))
DEFINE(lgamma_f64, double, log_gamma(a))

DEFINE(neg_f32, float, -a)
DEFINE(abs_f32, float, fabsf(a))
DEFINE(sign_f32, float, a > 0 ? 1.0f : a < 0 ? -1.0f : a)
DEFINE(ceil_f32, float, ceilf(a))
DEFINE(floor_f32, float, floorf(a))
DEFINE(round_f32, float, rintf(a))
DEFINE(trunc_f32, float, truncf(a))
DEFINE(sqrt_f32, float, sqrtf(a))

DEFINE(neg_i64, int64_t, (int64_t)(0 - (uint64_t)a))
DEFINE(abs_i64, int64_t, a < 0 ? (int64_t)(0 - (uint64_t)a) : a)
DEFINE(sign_i64, int64_t, (a > 0) - (a < 0))
DEFINE(same_i64, int64_t, a)
DEFINE(sign_u64, int64_t, a != 0)
DEFINE(bit_not_i64, int64_t, ~a)
DEFINE(not_bool, int64_t, !a)

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
    [EAGER_OP_exp] = {.f64 = exp_f64},
    [EAGER_OP_exp2] = {.f64 = exp2_f64},
    [EAGER_OP_expm1] = {.f64 = expm1_f64},
    [EAGER_OP_log] = {.f64 = log_f64},
    [EAGER_OP_log2] = {.f64 = log2_f64},
    [EAGER_OP_log1p] = {.f64 = log1p_f64},
    [EAGER_OP_sqrt] = {.f64 = sqrt_f64, .f32 = sqrt_f32},
    [EAGER_OP_rsqrt] = {.f64 = rsqrt_f64},
    [EAGER_OP_sin] = {.f64 = sin_f64},
    [EAGER_OP_cos] = {.f64 = cos_f64},
    [EAGER_OP_tan] = {.f64 = tan_f64},
    [EAGER_OP_asin] = {.f64 = asin_f64},
    [EAGER_OP_acos] = {.f64 = acos_f64},
    [EAGER_OP_atan] = {.f64 = atan_f64},
    [EAGER_OP_sinh] = {.f64 = sinh_f64},
    [EAGER_OP_cosh] = {.f64 = cosh_f64},
    [EAGER_OP_tanh] = {.f64 = tanh_f64},
    [EAGER_OP_asinh] = {.f64 = asinh_f64},
    [EAGER_OP_acosh] = {.f64 = acosh_f64},
    [EAGER_OP_atanh] = {.f64 = atanh_f64},
    [EAGER_OP_erf] = {.f64 = erf_f64},
    [EAGER_OP_lgamma] = {.f64 = lgamma_f64},
    [EAGER_OP_bit_not] = {.signed_int = bit_not_i64, .unsigned_int = bit_not_i64},
};
/* clang-format on */

typedef struct unary {
    const ek_call *c;
    unary_row row;
    row_i64 i64;
} unary;

static void f32_range(void *self, int64_t begin, int64_t end)
{
    const unary *u = self;
    u->row.f32((float *)u->c->out[0].data + begin, (const float *)u->c->in[0].data + begin,
               end - begin);
}

static void f64_range(void *self, int64_t begin, int64_t end)
{
    const unary *u = self;
    const ek_tensor *in = &u->c->in[0];
    const ek_tensor *out = &u->c->out[0];
    double x[EK_BLOCK];
    double z[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_f64_block(in->dtype, in->data, i, m, x);
        u->row.f64(z, x, m);
        st_store_f64_block(out->dtype, out->data, i, m, z);
    }
}

static void i64_range(void *self, int64_t begin, int64_t end)
{
    const unary *u = self;
    const ek_tensor *in = &u->c->in[0];
    const ek_tensor *out = &u->c->out[0];
    int64_t x[EK_BLOCK];
    int64_t z[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_i64_block(in->dtype, in->data, i, m, x);
        u->i64(z, x, m);
        st_store_i64_block(out->dtype, out->data, i, m, z);
    }
}

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
            st_store_f64(out->dtype, out->data, i, hypot(x[0], x[1]));
        } else {
            const double z[2] = {-x[0], -x[1]};
            st_store_c128(out->dtype, out->data, i, z);
        }
    }
}

stator_status ek_unary(const ek_call *c, stator_diag **err)
{
    const uint32_t dtype = c->in[0].dtype;
    unary u = {c, table[c->op], NULL};
    if (dtype == STATOR_C64 || dtype == STATOR_C128) {
        ek_parallel(c, c->in[0].numel, 4096, complex_range, &u);
        return STATOR_OK;
    }
    if (dtype == STATOR_F32 && u.row.f32) {
        ek_parallel(c, c->in[0].numel, 16384, f32_range, &u);
        return STATOR_OK;
    }
    if (ek_is_float(dtype) && u.row.f64) {
        ek_parallel(c, c->in[0].numel, 2048, f64_range, &u);
        return STATOR_OK;
    }
    u.i64 = (EK_UINT >> dtype) & 1u ? u.row.unsigned_int : u.row.signed_int;
    if (dtype == STATOR_BOOL) {
        u.i64 = c->op == EAGER_OP_bit_not ? not_bool : NULL;
    }
    if (!u.i64) {
        return ek_fail(c, err, STATOR_UNSUPPORTED, "there is no kernel for %s",
                       st_dtype_name(dtype));
    }
    ek_parallel(c, c->in[0].numel, 16384, i64_range, &u);
    return STATOR_OK;
}

/* ---- is_nan, is_inf, is_finite ---- */

static void predicate_range(void *self, int64_t begin, int64_t end)
{
    const ek_call *c = self;
    const ek_tensor *in = &c->in[0];
    uint8_t *out = c->out[0].data;
    double x[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_f64_block(in->dtype, in->data, i, m, x);
        for (int64_t k = 0; k < m; k++) {
            const bool nan = x[k] != x[k];
            const bool inf = fabs(x[k]) > 0x1.fffffffffffffp1023;
            out[i + k] = (uint8_t)(c->op == EAGER_OP_is_nan   ? nan
                                   : c->op == EAGER_OP_is_inf ? inf
                                                              : !nan && !inf);
        }
    }
}

stator_status ek_predicate(const ek_call *c, stator_diag **err)
{
    (void)err;
    ek_parallel(c, c->in[0].numel, 8192, predicate_range, (void *)(uintptr_t)c);
    return STATOR_OK;
}
