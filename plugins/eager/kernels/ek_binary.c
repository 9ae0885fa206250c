/* Pointwise ops of two operands.
 *
 * f32, f64 and integers have typed loops. The narrow floats, and in f32 the functions that are not
 * exact there, go through blocks of f64 and round once. Meanings: the rows of ir/ops.def. */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

/* z[i] = f(x[i * sx], y[i * sy]), sx and sy 0 or 1. */
typedef void (*binary_fn)(void *z, const void *x, const void *y, int64_t n, int32_t sx, int32_t sy);

#define DEFINE(name, TZ, T, expr)                                                                  \
    static void name(void *z_, const void *x_, const void *y_, int64_t n, int32_t sx, int32_t sy)  \
    {                                                                                              \
        TZ *restrict z = z_;                                                                       \
        const T *restrict x = x_;                                                                  \
        const T *restrict y = y_;                                                                  \
        if (sx && sy) {                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T a = x[i];                                                                  \
                const T b = y[i];                                                                  \
                z[i] = (TZ)(expr);                                                                 \
            }                                                                                      \
        } else if (sx) {                                                                           \
            const T b = y[0];                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T a = x[i];                                                                  \
                z[i] = (TZ)(expr);                                                                 \
            }                                                                                      \
        } else {                                                                                   \
            const T a = x[0];                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T b = y[i * sy];                                                             \
                z[i] = (TZ)(expr);                                                                 \
            }                                                                                      \
        }                                                                                          \
    }

/* ---- scalar meanings that are more than an operator ---- */

static inline double floor_fmod(double a, double b)
{
    const double r = fmod(a, b);
    if (r == 0) {
        return copysign(0.0, b);
    }
    return (r < 0) != (b < 0) ? r + b : r;
}

/* x^n in wrapping arithmetic of 64 bits. */
static inline uint64_t pow_wrap(uint64_t x, uint64_t n)
{
    uint64_t y = 1;
    for (; n; n >>= 1) {
        y *= n & 1 ? x : 1;
        x *= x;
    }
    return y;
}

/* A negative exponent truncates; 0 to one gives 0. */
static inline int64_t pow_signed(int64_t x, int64_t n)
{
    if (n >= 0) {
        return (int64_t)pow_wrap((uint64_t)x, (uint64_t)n);
    }
    if (x == 1 || x == -1) {
        return x == 1 || (n & 1) == 0 ? 1 : -1;
    }
    return 0;
}

static inline int64_t trunc_div(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t trunc_rem(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline int64_t floor_mod(int64_t a, int64_t b)
{
    const int64_t r = trunc_rem(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- typed loops ---- */

/* clang-format off */
#define FLOAT_OPS(T, S)                                                                            \
    DEFINE(add_##S, T, T, a + b)                                                                   \
    DEFINE(sub_##S, T, T, a - b)                                                                   \
    DEFINE(mul_##S, T, T, a * b)                                                                   \
    DEFINE(div_##S, T, T, a / b)                                                                   \
    DEFINE(min_##S, T, T, a < b || a != a ? a : b)                                                 \
    DEFINE(max_##S, T, T, a > b || a != a ? a : b)                                                 \
    DEFINE(prelu_##S, T, T, a < 0 ? b * a : a)

#define COMPARE_OPS(T, S)                                                                          \
    DEFINE(eq_##S, uint8_t, T, a == b)                                                             \
    DEFINE(ne_##S, uint8_t, T, a != b)                                                             \
    DEFINE(lt_##S, uint8_t, T, a < b)                                                              \
    DEFINE(le_##S, uint8_t, T, a <= b)                                                             \
    DEFINE(gt_##S, uint8_t, T, a > b)                                                              \
    DEFINE(ge_##S, uint8_t, T, a >= b)

/* U: the unsigned type that the arithmetic wraps in. */
#define INT_OPS(T, S, U)                                                                           \
    DEFINE(add_##S, T, T, (U)a + (U)b)                                                             \
    DEFINE(sub_##S, T, T, (U)a - (U)b)                                                             \
    DEFINE(mul_##S, T, T, (U)a * (U)b)                                                             \
    DEFINE(min_##S, T, T, a < b ? a : b)                                                           \
    DEFINE(max_##S, T, T, a > b ? a : b)                                                           \
    DEFINE(prelu_##S, T, T, a < 0 ? (U)b * (U)a : (U)a)                                            \
    DEFINE(bit_and_##S, T, T, a & b)                                                               \
    DEFINE(bit_or_##S, T, T, a | b)                                                                \
    DEFINE(bit_xor_##S, T, T, a ^ b)                                                               \
    DEFINE(shl_##S, T, T, (uint64_t)b >= sizeof(T) * 8u ? 0 : (uint64_t)a << (uint64_t)b)          \
    COMPARE_OPS(T, S)

#define SIGNED_OPS(T, S, U)                                                                        \
    INT_OPS(T, S, U)                                                                               \
    DEFINE(div_##S, T, T, trunc_div(a, b))                                                           \
    DEFINE(mod_##S, T, T, floor_mod(a, b))                                                           \
    DEFINE(rem_##S, T, T, trunc_rem(a, b))                                                           \
    DEFINE(pow_##S, T, T, pow_signed(a, b))                                                   \
    DEFINE(shr_##S, T, T, (uint64_t)b >= sizeof(T) * 8u ? (a < 0 ? -1 : 0) : a >> b)

#define UNSIGNED_OPS(T, S, U)                                                                      \
    INT_OPS(T, S, U)                                                                               \
    DEFINE(div_##S, T, T, b == 0 ? 0 : a / b)                                                      \
    DEFINE(mod_##S, T, T, b == 0 ? 0 : a % b)                                                      \
    DEFINE(rem_##S, T, T, b == 0 ? 0 : a % b)                                                      \
    DEFINE(pow_##S, T, T, pow_wrap(a, b))                                                      \
    DEFINE(shr_##S, T, T, b >= sizeof(T) * 8u ? 0 : (uint64_t)a >> (uint64_t)b)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
FLOAT_OPS(float, f32)
FLOAT_OPS(double, f64)
COMPARE_OPS(float, f32)
COMPARE_OPS(double, f64)
DEFINE(pow_f64, double, double, pow(a, b))
DEFINE(mod_f64, double, double, floor_fmod(a, b))
DEFINE(rem_f64, double, double, fmod(a, b))
DEFINE(atan2_f64, double, double, atan2(a, b))
SIGNED_OPS(int8_t, i8, uint32_t)
SIGNED_OPS(int16_t, i16, uint32_t)
SIGNED_OPS(int32_t, i32, uint32_t)
SIGNED_OPS(int64_t, i64, uint64_t)
UNSIGNED_OPS(uint8_t, u8, uint32_t)
UNSIGNED_OPS(uint16_t, u16, uint32_t)
UNSIGNED_OPS(uint32_t, u32, uint32_t)
UNSIGNED_OPS(uint64_t, u64, uint64_t)
#pragma GCC diagnostic pop

#define INT_ROW(op)                                                                                \
    [STATOR_I8] = op##_i8, [STATOR_I16] = op##_i16, [STATOR_I32] = op##_i32,                       \
    [STATOR_I64] = op##_i64, [STATOR_U8] = op##_u8, [STATOR_U16] = op##_u16,                       \
    [STATOR_U32] = op##_u32, [STATOR_U64] = op##_u64
#define FLOAT_ROW(op) [STATOR_F32] = op##_f32, [STATOR_F64] = op##_f64
#define BOOL_ROW(op) [STATOR_BOOL] = op##_u8

static const binary_fn table[EAGER_OP_COUNT][STATOR_DTYPE_COUNT] = {
    [EAGER_OP_add] = {INT_ROW(add), FLOAT_ROW(add)},
    [EAGER_OP_sub] = {INT_ROW(sub), FLOAT_ROW(sub)},
    [EAGER_OP_mul] = {INT_ROW(mul), FLOAT_ROW(mul)},
    [EAGER_OP_div] = {INT_ROW(div), FLOAT_ROW(div)},
    [EAGER_OP_min] = {INT_ROW(min), FLOAT_ROW(min), BOOL_ROW(min)},
    [EAGER_OP_max] = {INT_ROW(max), FLOAT_ROW(max), BOOL_ROW(max)},
    [EAGER_OP_prelu] = {INT_ROW(prelu), FLOAT_ROW(prelu)},
    [EAGER_OP_pow] = {INT_ROW(pow), [STATOR_F64] = pow_f64},
    [EAGER_OP_mod] = {INT_ROW(mod), [STATOR_F64] = mod_f64},
    [EAGER_OP_rem] = {INT_ROW(rem), [STATOR_F64] = rem_f64},
    [EAGER_OP_atan2] = {[STATOR_F64] = atan2_f64},
    [EAGER_OP_bit_and] = {INT_ROW(bit_and), BOOL_ROW(bit_and)},
    [EAGER_OP_bit_or] = {INT_ROW(bit_or), BOOL_ROW(bit_or)},
    [EAGER_OP_bit_xor] = {INT_ROW(bit_xor), BOOL_ROW(bit_xor)},
    [EAGER_OP_shl] = {INT_ROW(shl)},
    [EAGER_OP_shr] = {INT_ROW(shr)},
    [EAGER_OP_eq] = {INT_ROW(eq), FLOAT_ROW(eq), BOOL_ROW(eq)},
    [EAGER_OP_ne] = {INT_ROW(ne), FLOAT_ROW(ne), BOOL_ROW(ne)},
    [EAGER_OP_lt] = {INT_ROW(lt), FLOAT_ROW(lt), BOOL_ROW(lt)},
    [EAGER_OP_le] = {INT_ROW(le), FLOAT_ROW(le), BOOL_ROW(le)},
    [EAGER_OP_gt] = {INT_ROW(gt), FLOAT_ROW(gt), BOOL_ROW(gt)},
    [EAGER_OP_ge] = {INT_ROW(ge), FLOAT_ROW(ge), BOOL_ROW(ge)},
};
/* clang-format on */

/* ---- rows ---- */

typedef struct binary {
    const ek_call *c;
    const ek_loop *l;
    binary_fn fn;
    uint64_t in_size; /* bytes of an element */
    uint64_t out_size;
} binary;

static void typed_row(const void *self, int64_t out_at, const int64_t *at, int64_t n)
{
    const binary *b = self;
    b->fn((char *)b->c->out[0].data + (uint64_t)out_at * b->out_size,
          (const char *)b->c->in[0].data + (uint64_t)at[0] * b->in_size,
          (const char *)b->c->in[1].data + (uint64_t)at[1] * b->in_size, n, b->l->step[0],
          b->l->step[1]);
}

/* Through f64; the result is a float of the operands' dtype, or bool. */
static void wide_row(const void *self, int64_t out_at, const int64_t *at, int64_t n)
{
    const binary *b = self;
    double x[EK_BLOCK];
    double y[EK_BLOCK];
    double z[EK_BLOCK];
    const ek_tensor *out = &b->c->out[0];
    for (int64_t i = 0; i < n; i += EK_BLOCK) {
        const int64_t m = n - i < EK_BLOCK ? n - i : EK_BLOCK;
        ek_block_f64(&b->c->in[0], at[0] + i * b->l->step[0], b->l->step[0], m, x);
        ek_block_f64(&b->c->in[1], at[1] + i * b->l->step[1], b->l->step[1], m, y);
        if (out->dtype == STATOR_BOOL) {
            b->fn((uint8_t *)out->data + out_at + i, x, y, m, 1, 1);
        } else {
            b->fn(z, x, y, m, 1, 1);
            st_store_f64_block(out->dtype, out->data, out_at + i, m, z);
        }
    }
}

/* (a + bi) op (c + di) in f64; division by Smith, "Algorithm 116", 1962. */
static void complex_op(uint32_t op, const double x[2], const double y[2], double z[2])
{
    switch (op) {
    case EAGER_OP_add:
        z[0] = x[0] + y[0];
        z[1] = x[1] + y[1];
        break;
    case EAGER_OP_sub:
        z[0] = x[0] - y[0];
        z[1] = x[1] - y[1];
        break;
    case EAGER_OP_mul:
        z[0] = x[0] * y[0] - x[1] * y[1];
        z[1] = x[0] * y[1] + x[1] * y[0];
        break;
    default: {
        const bool swap = fabs(y[0]) < fabs(y[1]);
        const double r = swap ? y[0] / y[1] : y[1] / y[0];
        const double d = swap ? y[1] + y[0] * r : y[0] + y[1] * r;
        z[0] = swap ? (x[0] * r + x[1]) / d : (x[0] + x[1] * r) / d;
        z[1] = swap ? (x[1] * r - x[0]) / d : (x[1] - x[0] * r) / d;
        break;
    }
    }
}

static void complex_row(const void *self, int64_t out_at, const int64_t *at, int64_t n)
{
    const binary *b = self;
    const ek_call *c = b->c;
    for (int64_t i = 0; i < n; i++) {
        double x[2];
        double y[2];
        double z[2];
        st_load_c128(c->in[0].dtype, c->in[0].data, at[0] + i * b->l->step[0], x);
        st_load_c128(c->in[1].dtype, c->in[1].data, at[1] + i * b->l->step[1], y);
        if (c->out[0].dtype == STATOR_BOOL) {
            const bool equal = x[0] == y[0] && x[1] == y[1];
            ((uint8_t *)c->out[0].data)[out_at + i] = equal == (c->op == EAGER_OP_eq);
        } else {
            complex_op(c->op, x, y, z);
            st_store_c128(c->out[0].dtype, c->out[0].data, out_at + i, z);
        }
    }
}

stator_status ek_binary(const ek_call *c, stator_diag **err)
{
    const uint32_t dtype = c->in[0].dtype;
    ek_loop l;
    ST_TRY(ek_loop_init(c, &l, 2, err));
    binary b = {c, &l, table[c->op][dtype], st_element_bytes(dtype),
                st_element_bytes(c->out[0].dtype)};
    if (dtype == STATOR_C64 || dtype == STATOR_C128) {
        ek_loop_run(c, &l, complex_row, &b);
    } else if (b.fn) {
        ek_loop_run(c, &l, typed_row, &b);
    } else if (ek_is_float(dtype) && table[c->op][STATOR_F64]) {
        b.fn = table[c->op][STATOR_F64];
        ek_loop_run(c, &l, wide_row, &b);
    } else {
        return ek_fail(c, err, STATOR_UNSUPPORTED, "there is no kernel for %s",
                       st_dtype_name(dtype));
    }
    return STATOR_OK;
}
