/* Arithmetic that cannot overflow silently. Each returns 1 and stores the result, or returns 0. */
#ifndef STATOR_BASE_CHECK_H
#define STATOR_BASE_CHECK_H

#include <stator/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline bool st_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool st_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool st_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool st_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool st_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline int64_t st_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t st_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
/* floor(a / b) and its remainder for b != 0. */
static inline int64_t st_floordiv(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
static inline int64_t st_floormod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
/* An axis that may be counted from the end (-1 is the last), counted from the start. */
static inline int64_t st_normalize_axis(int64_t axis, int64_t rank)
{
    return axis < 0 ? axis + rank : axis;
}
/* Product of dims, each >= 0; 0 on overflow past 2^62 or a negative one. */
bool st_numel(const int64_t *dims, uint32_t rank, uint64_t *out);
/* The shape as "[2, 3]", cut where buf ends; returns buf. */
const char *st_shape_text(const int64_t *shape, uint32_t rank, char *buf, size_t size);
/* Bytes of count elements of dtype (sub-byte types round up). */
bool st_dtype_bytes(uint32_t dtype, uint64_t count, uint64_t *out);
uint32_t st_dtype_bits(uint32_t dtype);             /* 0 for an unknown dtype */
uint32_t st_element_bytes(uint32_t dtype);          /* a whole one of four bits; 0 as above */
uint32_t st_dtype_class(uint32_t dtype);            /* stator_dtype_class, 0 unknown */
const char *st_dtype_name(uint32_t dtype);          /* "f32"; "?" unknown */
uint32_t st_dtype_parse(const char *s, uint64_t n); /* 0 unknown */
DLDataType st_dtype_to_dl(uint32_t dtype);          /* bits 0 for an unknown dtype */
uint32_t st_dtype_from_dl(DLDataType type);         /* 0: none of ours */

#ifdef __cplusplus
}
#endif
#endif
