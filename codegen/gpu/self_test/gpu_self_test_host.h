/* The dialect of docs/gpu.md as this file's compiler sees it: what expressions of
 * gpu_self_test.def mean on the host, from IEEE 754 and the C library. Functions of f64 are those
 * of the prelude, which are operations of IEEE 754 alone: their bits are the same here.
 *
 * To be included by one file, which is compiled without contraction of products and sums. */
#ifndef STATOR_CODEGEN_GPU_SELF_TEST_HOST_H
#define STATOR_CODEGEN_GPU_SELF_TEST_HOST_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef signed char st_i8;
typedef short st_i16;
typedef int st_i32;
typedef long long st_i64;
typedef unsigned char st_u8;
typedef unsigned short st_u16;
typedef unsigned st_u32;
typedef unsigned long long st_u64;
typedef bool st_bool;

#define ST_DEVICE static inline __attribute__((unused))
#define ST_DEVICE_CALL static __attribute__((noinline, unused))

ST_DEVICE st_u32 st_bits_of_f32(float x)
{
    st_u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ST_DEVICE st_u64 st_bits_of_f64(double x)
{
    st_u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ST_DEVICE float st_f32_of_bits(st_u32 bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

ST_DEVICE double st_f64_of_bits(st_u64 bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define st_fma_f32 fmaf
#define st_fma_f64 fma
#define st_sqrt_f32 sqrtf
#define st_sqrt_f64 sqrt
#define st_floor_f32 floorf
#define st_floor_f64 floor
#define st_ceil_f32 ceilf
#define st_ceil_f64 ceil
#define st_trunc_f32 truncf
#define st_trunc_f64 trunc
#define st_rint_f32 rintf
#define st_rint_f64 rint
#define st_abs_f32 fabsf
#define st_abs_f64 fabs
#define st_fmod_f32 fmodf
#define st_fmod_f64 fmod
#define st_math_device_lgamma lgamma

/* NaN passes, and -0 is below 0. */
ST_DEVICE float st_minimum_f32(float x, float y)
{
    return isnan(x) || isnan(y) ? NAN : x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}

ST_DEVICE float st_maximum_f32(float x, float y)
{
    return isnan(x) || isnan(y) ? NAN : x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

ST_DEVICE float st_f32_of_bf16(st_u16 bits)
{
    return st_f32_of_bits((st_u32)bits << 16);
}

/* To the nearest, ties to even, by rounding the quotient of a place. */
ST_DEVICE st_u16 st_bf16_of_f32(float x)
{
    const st_u32 bits = st_bits_of_f32(x);
    const st_u32 down = bits >> 16;
    const st_u32 rest = bits & 0xffffu;
    const bool is_up = rest > 0x8000u || (rest == 0x8000u && (down & 1u) != 0);
    return (st_u16)(isnan(x) ? 0x7fc0u : down + is_up);
}

ST_DEVICE float st_f32_of_f16(st_u16 bits)
{
    const st_u32 exponent = bits >> 10 & 31u;
    const st_u32 fraction = bits & 1023u;
    const float magnitude = exponent == 31u ? (fraction != 0 ? NAN : INFINITY)
                            : exponent == 0 ? (float)fraction * 0x1p-24f
                                            : ldexpf((float)(1024u + fraction), (int)exponent - 25);
    return bits >> 15 != 0 ? -magnitude : magnitude;
}

ST_DEVICE st_u16 st_f16_of_f32(float x)
{
    const float a = fabsf(x);
    const st_u32 sign = signbit(x) ? 0x8000u : 0;
    if (isnan(x) || a >= 65520.0f) {
        return (st_u16)(sign | (isnan(x) ? 0x7e00u : 0x7c00u));
    }
    int exponent = 0;
    (void)frexpf(a, &exponent);
    const int place = a < 0x1p-14f ? -24 : exponent - 11; /* of the last bit, as 2^place */
    const st_u32 units = (st_u32)rintf(ldexpf(a, -place));
    return (st_u16)(sign | (units + ((st_u32)(place + 24) << 10)));
}

ST_DEVICE st_u32 st_bf16x2_of_f32(float low, float high)
{
    return (st_u32)st_bf16_of_f32(low) + ((st_u32)st_bf16_of_f32(high) << 16);
}

ST_DEVICE st_u32 st_f16x2_of_f32(float low, float high)
{
    return (st_u32)st_f16_of_f32(low) + ((st_u32)st_f16_of_f32(high) << 16);
}

ST_DEVICE float st_round_bf16(float x)
{
    return st_f32_of_bf16(st_bf16_of_f32(x));
}

#include "codegen/gpu/prelude/gpu_prelude_polynomials.h" /* first */

#include "codegen/gpu/prelude/gpu_prelude_math.h"

#endif
