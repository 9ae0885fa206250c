/* Element conversions; contracts in convert.h.
 *
 * f64 to a narrow float goes through f32 rounded to odd (Boldo and Melquiond, "Emulation of FMA and
 * correctly rounded sums", 2008): the inexact bit stays visible in the last place, so the second
 * rounding decides as if it saw the f64. f32 to f16 is F. Giesen's float_to_half_fast3_rtne. */
#include "core/base/convert.h"

#include <math.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- scalars ---- */

/* f32 whose last bit is set when the conversion was inexact. */
static float round_to_odd(double x)
{
    const float near = (float)x;
    if (!isfinite(x) || (double)near == x) {
        return near;
    }
    uint32_t u = bits_of(near);
    if (fabs((double)near) > fabs(x)) {
        u--; /* toward zero; inf becomes the largest finite */
    }
    return float_of(u | 1u);
}

uint16_t st_f32_to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((u >> 16) | 0x40u); /* quiet NaN */
    }
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

uint16_t st_f32_to_f16(float x)
{
    const uint32_t all = bits_of(x);
    const uint32_t sign = all & 0x80000000u;
    uint32_t u = all ^ sign;
    uint32_t out;
    if (u >= 0x47800000u) { /* 65536 and above, inf, NaN */
        out = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
    } else if (u < 0x38800000u) { /* subnormal: adding 0.5 aligns the last place */
        out = bits_of(float_of(u) + 0.5f) - 0x3f000000u;
    } else {
        const uint32_t odd = (u >> 13) & 1u;
        u += 0xc8000fffu; /* (15 - 127) << 23, and half a last place less one */
        out = (u + odd) >> 13;
    }
    return (uint16_t)(out | (sign >> 16));
}

uint16_t st_f64_to_f16(double x)
{
    return st_f32_to_f16(round_to_odd(x));
}

uint16_t st_f64_to_bf16(double x)
{
    return st_f32_to_bf16(round_to_odd(x));
}

typedef struct f8_format {
    int mantissa_bits;
    int bias;
    uint32_t max_finite;
    uint32_t overflow; /* inf, or NaN where there is no inf */
    uint32_t nan;
} f8_format;

static const f8_format e4m3fn = {3, 7, 0x7e, 0x7f, 0x7f};
static const f8_format e5m2 = {2, 15, 0x7b, 0x7c, 0x7e};

static uint8_t to_f8(double x, const f8_format *f, int saturate)
{
    const uint32_t sign = signbit(x) ? 0x80u : 0u;
    if (isnan(x)) {
        return (uint8_t)(sign | f->nan);
    }
    uint32_t bits;
    if (isinf(x)) {
        bits = f->max_finite + 1u;
    } else if (x == 0) {
        bits = 0;
    } else {
        int exponent = ilogb(x);
        const int min_exponent = 1 - f->bias;
        if (exponent > f->bias + 2) {
            exponent = f->bias + 2; /* surely over; keeps the shift small */
            x = ldexp(1.0, exponent);
        }
        const int base = exponent < min_exponent ? min_exponent : exponent;
        const uint32_t quanta = (uint32_t)rint(ldexp(fabs(x), f->mantissa_bits - base));
        bits = quanta + ((uint32_t)(base - min_exponent) << f->mantissa_bits);
    }
    if (bits > f->max_finite) {
        bits = saturate ? f->max_finite : f->overflow;
    }
    return (uint8_t)(sign | bits);
}

uint8_t st_f64_to_f8e4m3fn(double x, bool saturate)
{
    return to_f8(x, &e4m3fn, saturate);
}

uint8_t st_f64_to_f8e5m2(double x, bool saturate)
{
    return to_f8(x, &e5m2, saturate);
}

float st_f16_to_f32(uint16_t bits)
{
    const uint32_t exponent_mask = 0x7c00u << 13;
    uint32_t u = (uint32_t)(bits & 0x7fffu) << 13;
    const uint32_t exponent = u & exponent_mask;
    u += 112u << 23; /* 127 - 15 */
    if (exponent == exponent_mask) {
        u += 112u << 23;
    } else if (exponent == 0) {
        u = bits_of(float_of(u + (1u << 23)) - float_of(113u << 23));
    }
    return float_of(u | (uint32_t)(bits & 0x8000u) << 16);
}

float st_f8e4m3fn_to_f32(uint8_t bits)
{
    const uint32_t magnitude = bits & 0x7fu;
    const float sign = bits & 0x80u ? -1.0f : 1.0f;
    if (magnitude == 0x7fu) {
        return float_of(0x7fc00000u | (uint32_t)(bits & 0x80u) << 24);
    }
    if (magnitude < 8u) {
        return sign * (float)magnitude * 0x1p-9f;
    }
    return sign * float_of((magnitude << 20) + (120u << 23)); /* 127 - 7 */
}

float st_f8e5m2_to_f32(uint8_t bits)
{
    return st_f16_to_f32((uint16_t)((uint32_t)bits << 8));
}

bool st_fits_f32(double x)
{
    const float near = (float)x;
    return isfinite(near) && (near != 0 || x == 0);
}

int64_t st_f64_to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

int32_t st_f64_to_i32(double x)
{
    return x > -0x1p31 - 1.0 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}

uint64_t st_f64_to_u64(double x)
{
    if (x >= 0x1p63) {
        return x < 0x1p64 ? (uint64_t)(x - 0x1p63) + (UINT64_C(1) << 63) : UINT64_C(1) << 63;
    }
    return (uint64_t)st_f64_to_i64(x);
}

/* ---- one typed element; the loops below are made of these ---- */

static inline int64_t nibble_load(const uint8_t *base, int64_t i, int is_signed)
{
    const uint32_t v = (base[i >> 1] >> ((i & 1) * 4)) & 15u;
    return is_signed ? (int64_t)(int32_t)((v ^ 8u) - 8u) : (int64_t)v;
}

static inline void nibble_store(uint8_t *base, int64_t i, int64_t x)
{
    const uint32_t shift = (uint32_t)(i & 1) * 4u;
    const uint32_t kept = base[i >> 1] & ~(15u << shift);
    base[i >> 1] = (uint8_t)(kept | ((uint32_t)(x & 15) << shift));
}

/* clang-format off */
/* How an element `v` at place `at` of each dtype is read as W, and how a double or integer X is
 * written to it. LOOP(statement) repeats over the block. */
#define LOAD_CASES(W)                                                                              \
    case STATOR_BOOL: LOOP(out[k] = (W)(((const uint8_t *)base)[at] != 0)); break;                 \
    case STATOR_I4: LOOP(out[k] = (W)nibble_load(base, at, 1)); break;                             \
    case STATOR_U4: LOOP(out[k] = (W)nibble_load(base, at, 0)); break;                             \
    case STATOR_I8: LOOP(out[k] = (W)((const int8_t *)base)[at]); break;                           \
    case STATOR_I16: LOOP(out[k] = (W)((const int16_t *)base)[at]); break;                         \
    case STATOR_I32: LOOP(out[k] = (W)((const int32_t *)base)[at]); break;                         \
    case STATOR_I64: LOOP(out[k] = (W)((const int64_t *)base)[at]); break;                         \
    case STATOR_U8: LOOP(out[k] = (W)((const uint8_t *)base)[at]); break;                          \
    case STATOR_U16: LOOP(out[k] = (W)((const uint16_t *)base)[at]); break;                        \
    case STATOR_U32: LOOP(out[k] = (W)((const uint32_t *)base)[at]); break;                        \
    case STATOR_U64: LOOP(out[k] = (W)((const uint64_t *)base)[at]); break;

#define LOAD_FLOAT_CASES(FROM)                                                                     \
    case STATOR_F8E4M3FN: LOOP(out[k] = FROM(st_f8e4m3fn_to_f32(((const uint8_t *)base)[at])));    \
        break;                                                                                     \
    case STATOR_F8E5M2: LOOP(out[k] = FROM(st_f8e5m2_to_f32(((const uint8_t *)base)[at]))); break; \
    case STATOR_BF16: LOOP(out[k] = FROM(st_bf16_to_f32(((const uint16_t *)base)[at]))); break;    \
    case STATOR_F16: LOOP(out[k] = FROM(st_f16_to_f32(((const uint16_t *)base)[at]))); break;      \
    case STATOR_F32: LOOP(out[k] = FROM(((const float *)base)[at])); break;                        \
    case STATOR_F64: LOOP(out[k] = FROM(((const double *)base)[at])); break;                       \
    case STATOR_C64: LOOP(out[k] = FROM(((const float *)base)[2 * (at)])); break;                  \
    case STATOR_C128: LOOP(out[k] = FROM(((const double *)base)[2 * (at)])); break;

#define STORE_FLOATS_AS_INTS                                                                       \
    case STATOR_BOOL: LOOP(((uint8_t *)base)[at] = x[k] != 0); break;                              \
    case STATOR_I4:                                                                                \
    case STATOR_U4: LOOP(nibble_store(base, at, st_f64_to_i32((double)x[k]))); break;              \
    case STATOR_I8:                                                                                \
    case STATOR_U8: LOOP(((uint8_t *)base)[at] = (uint8_t)st_f64_to_i32((double)x[k])); break;     \
    case STATOR_I16:                                                                               \
    case STATOR_U16: LOOP(((uint16_t *)base)[at] = (uint16_t)st_f64_to_i32((double)x[k])); break;  \
    case STATOR_I32: LOOP(((int32_t *)base)[at] = st_f64_to_i32((double)x[k])); break;             \
    case STATOR_U32: LOOP(((uint32_t *)base)[at] = (uint32_t)st_f64_to_i64((double)x[k])); break;  \
    case STATOR_I64: LOOP(((int64_t *)base)[at] = st_f64_to_i64((double)x[k])); break;             \
    case STATOR_U64: LOOP(((uint64_t *)base)[at] = st_f64_to_u64((double)x[k])); break;

#define STORE_FLOAT_CASES(F16_OF, BF16_OF)                                                         \
    case STATOR_F8E4M3FN: LOOP(((uint8_t *)base)[at] = to_f8((double)x[k], &e4m3fn, 0)); break;    \
    case STATOR_F8E5M2: LOOP(((uint8_t *)base)[at] = to_f8((double)x[k], &e5m2, 0)); break;        \
    case STATOR_BF16: LOOP(((uint16_t *)base)[at] = BF16_OF(x[k])); break;                         \
    case STATOR_F16: LOOP(((uint16_t *)base)[at] = F16_OF(x[k])); break;                           \
    case STATOR_F32: LOOP(((float *)base)[at] = (float)x[k]); break;                               \
    case STATOR_F64: LOOP(((double *)base)[at] = (double)x[k]); break;                             \
    case STATOR_C64:                                                                               \
        LOOP((((float *)base)[2 * (at)] = (float)x[k], ((float *)base)[2 * (at) + 1] = 0)); break; \
    case STATOR_C128:                                                                              \
        LOOP((((double *)base)[2 * (at)] = (double)x[k], ((double *)base)[2 * (at) + 1] = 0));     \
        break;

/* A function over a block of n elements: `cases` between `base` and `list`. */
#define BLOCK_OF(name, base_type, list, cases)                                                     \
    void name(uint32_t dtype, base_type *base, int64_t first, int64_t n, list)                     \
    {                                                                                              \
        switch (dtype) {                                                                           \
            cases                                                                                  \
        default: break;                                                                            \
        }                                                                                          \
    }

/* clang-format on */

/* ---- blocks ---- */

/* A dispatch switch over the dtypes: one typed loop a case. */
#define at (first + k)
#define LOOP(statement)                                                                            \
    for (int64_t k = 0; k < n; k++) {                                                              \
        statement;                                                                                 \
    }

BLOCK_OF(st_load_f64_block, const void, double *out, LOAD_CASES(double) LOAD_FLOAT_CASES((double)))
BLOCK_OF(st_load_f32_block, const void, float *out, LOAD_CASES(float) LOAD_FLOAT_CASES((float)))
BLOCK_OF(st_load_i64_block, const void, int64_t *out,
         LOAD_CASES(int64_t) LOAD_FLOAT_CASES(st_f64_to_i64))
BLOCK_OF(st_store_f64_block, void, const double *x,
         STORE_FLOATS_AS_INTS STORE_FLOAT_CASES(st_f64_to_f16, st_f64_to_bf16))
BLOCK_OF(st_store_f32_block, void, const float *x,
         STORE_FLOATS_AS_INTS STORE_FLOAT_CASES(st_f32_to_f16, st_f32_to_bf16))

void st_store_i64_block(uint32_t dtype, void *base, int64_t first, int64_t n, const int64_t *x)
{
    /* clang-format off */
    switch (dtype) {
    case STATOR_BOOL: LOOP(((uint8_t *)base)[at] = x[k] != 0); break;
    case STATOR_I4:
    case STATOR_U4: LOOP(nibble_store(base, at, x[k])); break;
    case STATOR_I8:
    case STATOR_U8: LOOP(((uint8_t *)base)[at] = (uint8_t)x[k]); break;
    case STATOR_I16:
    case STATOR_U16: LOOP(((uint16_t *)base)[at] = (uint16_t)x[k]); break;
    case STATOR_I32:
    case STATOR_U32: LOOP(((uint32_t *)base)[at] = (uint32_t)x[k]); break;
    case STATOR_I64:
    case STATOR_U64: LOOP(((int64_t *)base)[at] = x[k]); break;
        STORE_FLOAT_CASES(st_f64_to_f16, st_f64_to_bf16)
    default: break;
    }
    /* clang-format on */
}

#undef at
#define at (first + k * step)

void st_load_f64_strided(uint32_t dtype, const void *base, int64_t first, int64_t step, int64_t n,
                         double *out)
{
    if (step == 1) {
        st_load_f64_block(dtype, base, first, n, out);
        return;
    }
    switch (dtype) {
        LOAD_CASES(double)
        LOAD_FLOAT_CASES((double))
    default:
        break;
    }
}

void st_store_f64_strided(uint32_t dtype, void *base, int64_t first, int64_t step, int64_t n,
                          const double *x)
{
    if (step == 1) {
        st_store_f64_block(dtype, base, first, n, x);
        return;
    }
    switch (dtype) {
        STORE_FLOATS_AS_INTS
        STORE_FLOAT_CASES(st_f64_to_f16, st_f64_to_bf16)
    default:
        break;
    }
}

#undef at
#undef LOOP

/* ---- one element ---- */

double st_load_f64(uint32_t dtype, const void *base, int64_t i)
{
    double x = 0;
    st_load_f64_block(dtype, base, i, 1, &x);
    return x;
}

void st_store_f64(uint32_t dtype, void *base, int64_t i, double x)
{
    st_store_f64_block(dtype, base, i, 1, &x);
}

int64_t st_load_i64(uint32_t dtype, const void *base, int64_t i)
{
    int64_t x = 0;
    st_load_i64_block(dtype, base, i, 1, &x);
    return x;
}

void st_store_i64(uint32_t dtype, void *base, int64_t i, int64_t x)
{
    st_store_i64_block(dtype, base, i, 1, &x);
}

void st_load_c128(uint32_t dtype, const void *base, int64_t i, double out[2])
{
    out[1] = 0;
    if (dtype == STATOR_C64) {
        out[0] = (double)((const float *)base)[2 * i];
        out[1] = (double)((const float *)base)[2 * i + 1];
    } else if (dtype == STATOR_C128) {
        memcpy(out, (const double *)base + 2 * i, 2 * sizeof(double));
    } else {
        out[0] = st_load_f64(dtype, base, i);
    }
}

void st_store_c128(uint32_t dtype, void *base, int64_t i, const double x[2])
{
    if (dtype == STATOR_C64) {
        ((float *)base)[2 * i] = (float)x[0];
        ((float *)base)[2 * i + 1] = (float)x[1];
    } else if (dtype == STATOR_C128) {
        memcpy((double *)base + 2 * i, x, 2 * sizeof(double));
    } else {
        st_store_f64(dtype, base, i, x[0]);
    }
}
