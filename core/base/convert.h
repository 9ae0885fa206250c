/* Element conversions: one element or a block of any dtype to and from f64, f32 and i64.
 *
 * Floats round to nearest, ties to even, once, straight from the wide value; overflow gives inf
 * (bf16, f16, f8e5m2) or NaN (f8e4m3fn, which has no inf). The _sat forms of f8 give the largest
 * finite value instead, also for an infinite input, as ONNX Cast with saturate = 1 does. NaN stays
 * NaN. Float to integer truncates toward zero; what does not fit gives what x86 gives: the smallest
 * integer of 32 bits (cut to the width for narrower types) or of 64 bits. Integers wrap.
 * Sub-byte types are two an element byte, the even index in the low four bits. Index `i` and
 * `first` count elements. Formats: IEEE 754-2019; bfloat16; OCP 8-bit floating point (2023). */
#ifndef STATOR_BASE_CONVERT_H
#define STATOR_BASE_CONVERT_H

#include <stator/base.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scalars ---- */

uint16_t st_f64_to_f16(double x);
uint16_t st_f64_to_bf16(double x);
uint8_t st_f64_to_f8e4m3fn(double x, bool saturate);
uint8_t st_f64_to_f8e5m2(double x, bool saturate);
uint16_t st_f32_to_f16(float x);
uint16_t st_f32_to_bf16(float x);
float st_f16_to_f32(uint16_t bits);
float st_f8e4m3fn_to_f32(uint8_t bits);
float st_f8e5m2_to_f32(uint8_t bits);
static inline float st_bf16_to_f32(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}
/* Is x finite in f32, and 0 there only if it is 0? */
bool st_fits_f32(double x);
/* Truncation to an integer of `bits` (8 to 64) as described above, without undefined behaviour. */
int64_t st_f64_to_i64(double x);
uint64_t st_f64_to_u64(double x);
int32_t st_f64_to_i32(double x);

/* ---- one element of any dtype ---- */

/* Any real dtype; complex gives the real part. bool is 0 or 1. */
double st_load_f64(uint32_t dtype, const void *base, int64_t i);
void st_store_f64(uint32_t dtype, void *base, int64_t i, double x);
/* u64 keeps its bits; floats truncate. */
int64_t st_load_i64(uint32_t dtype, const void *base, int64_t i);
void st_store_i64(uint32_t dtype, void *base, int64_t i, int64_t x);
/* Real and imaginary part; the imaginary part of a real dtype is 0. */
void st_load_c128(uint32_t dtype, const void *base, int64_t i, double out[2]);
void st_store_c128(uint32_t dtype, void *base, int64_t i, const double x[2]);

/* ---- blocks of n elements from index first ---- */

void st_load_f64_block(uint32_t dtype, const void *base, int64_t first, int64_t n, double *out);
void st_store_f64_block(uint32_t dtype, void *base, int64_t first, int64_t n, const double *x);
void st_load_f32_block(uint32_t dtype, const void *base, int64_t first, int64_t n, float *out);
void st_store_f32_block(uint32_t dtype, void *base, int64_t first, int64_t n, const float *x);
void st_load_i64_block(uint32_t dtype, const void *base, int64_t first, int64_t n, int64_t *out);
void st_store_i64_block(uint32_t dtype, void *base, int64_t first, int64_t n, const int64_t *x);
/* The same with a step between elements (in elements, may be 0 or negative). */
void st_load_f64_strided(uint32_t dtype, const void *base, int64_t first, int64_t step, int64_t n,
                         double *out);
void st_store_f64_strided(uint32_t dtype, void *base, int64_t first, int64_t step, int64_t n,
                          const double *x);

#ifdef __cplusplus
}
#endif
#endif
