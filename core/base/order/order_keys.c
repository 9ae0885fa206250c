/* Keys of elements: integers in the order of the elements (order_keys.h).
 *
 * In: elements of any real dtype of whole bytes, a step apart. Out: signed keys, by blocks. What is
 * worth it is compiled twice, for AVX2 and for what the build is for (order_lanes.inc). */
#include "core/base/order/order_keys.h"

#include "core/base/check.h"

#include <stator/base.h>
#include <string.h>

#define KEY int32_t
#define UKEY uint32_t
#define NAME(x) x##_32
#define TARGET
#include "core/base/order/order_lanes.inc"

#define KEY int64_t
#define UKEY uint64_t
#define NAME(x) x##_64
#define TARGET
#include "core/base/order/order_lanes.inc"

/* Sorting by counting: n comparisons a word, all alike. Words are compared as signed numbers, which
 * AVX2 can, with their top bits flipped. */
static inline __attribute__((always_inline)) void count_ranks(uint64_t *words, int64_t n,
                                                              int64_t *out_ranks)
{
    int64_t flipped[ORDER_MASK];
    for (int64_t i = n; i < ORDER_MASK; i++) {
        words[i] = UINT64_MAX;
    }
    for (int64_t i = 0; i < ORDER_MASK; i++) {
        flipped[i] = (int64_t)(words[i] ^ (UINT64_C(1) << 63));
    }
    for (int64_t first = 0; first < n; first += 8) {
        int64_t ranks[8] = {0};
        for (int64_t j = 0; j < n; j++) {
            for (int64_t i = 0; i < 8; i++) {
                ranks[i] += flipped[j] < flipped[first + i];
            }
        }
        memcpy(out_ranks + first, ranks, sizeof ranks);
    }
}

static void ranks(uint64_t *words, int64_t n, int64_t *out_ranks)
{
    count_ranks(words, n, out_ranks);
}

#if defined(__x86_64__)
#define KEY int32_t
#define UKEY uint32_t
#define NAME(x) x##_32_avx2
#define TARGET __attribute__((target("avx2")))
#include "core/base/order/order_lanes.inc"

#define KEY int64_t
#define UKEY uint64_t
#define NAME(x) x##_64_avx2
#define TARGET __attribute__((target("avx2")))
#include "core/base/order/order_lanes.inc"

__attribute__((target("avx2"))) static void ranks_avx2(uint64_t *words, int64_t n,
                                                       int64_t *out_ranks)
{
    count_ranks(words, n, out_ranks);
}

#define CALL(name, ...)                                                                            \
    (__builtin_cpu_supports("avx2") ? name##_avx2(__VA_ARGS__) : name(__VA_ARGS__))
#else
#define CALL(name, ...) name(__VA_ARGS__)
#endif

void order_below_32(const int32_t *keys, int64_t n, int32_t bound, uint32_t *out_masks)
{
    CALL(below_32, keys, n, bound, out_masks);
}

void order_below_64(const int64_t *keys, int64_t n, int64_t bound, uint32_t *out_masks)
{
    CALL(below_64, keys, n, bound, out_masks);
}

void order_column_least_32(const int32_t *keys, int64_t n, int32_t *out_least)
{
    CALL(column_least_32, keys, n, out_least);
}

int32_t order_least_32(const int32_t *keys, int64_t n)
{
    return CALL(least_32, keys, n);
}

uint32_t order_equal_32(const int32_t *keys, int32_t key)
{
    return CALL(equal_32, keys, key);
}

void order_column_least_64(const int64_t *keys, int64_t n, int64_t *out_least)
{
    CALL(column_least_64, keys, n, out_least);
}

int64_t order_least_64(const int64_t *keys, int64_t n)
{
    return CALL(least_64, keys, n);
}

uint32_t order_equal_64(const int64_t *keys, int64_t key)
{
    return CALL(equal_64, keys, key);
}

void order_ranks(uint64_t *words, int64_t n, int64_t *out_ranks)
{
    CALL(ranks, words, n, out_ranks);
}

/* ---- dtypes ---- */

/* How bits of a dtype, moved to the high end of a key, become one. */
typedef struct key_rule {
    uint32_t is_float;
    uint64_t number; /* floats: the largest magnitude that is no NaN; integers: added by xor */
} key_rule;

static key_rule rule_of(uint32_t dtype)
{
    switch (dtype) { /* a table */
    case STATOR_F64:
        return (key_rule){1, UINT64_C(0x7ff0) << 48};
    case STATOR_F32:
        return (key_rule){1, 0x7f800000u};
    case STATOR_F16:
        return (key_rule){1, 0x7c000000u};
    case STATOR_BF16:
        return (key_rule){1, 0x7f800000u};
    case STATOR_F8E4M3FN:
        return (key_rule){1, 0x7e000000u};
    case STATOR_F8E5M2:
        return (key_rule){1, 0x7c000000u};
    case STATOR_U64:
        return (key_rule){0, UINT64_C(1) << 63};
    case STATOR_I64:
    case STATOR_I32:
    case STATOR_I16:
    case STATOR_I8:
        return (key_rule){0, 0};
    default: /* narrower ones without a sign, BOOL */
        return (key_rule){0, 0x80000000u};
    }
}

/* ---- keys ---- */

/* The elements' bits at the high end of 32. */
static const uint32_t *bits_32(const order_line *line, int64_t first, int64_t n, uint32_t *room)
{
    const uint32_t bytes = st_element_bytes(line->dtype);
    if (bytes == 4 && line->step == 1 && (uintptr_t)line->data % 4u == 0) {
        return (const uint32_t *)(const void *)(line->data + first * 4);
    }
    for (int64_t i = 0; i < n; i++) {
        const char *at = line->data + (first + i) * line->step * (int64_t)bytes;
        if (bytes == 4) {
            memcpy(&room[i], at, 4);
        } else if (bytes == 2) {
            uint16_t bits;
            memcpy(&bits, at, 2);
            room[i] = (uint32_t)bits << 16;
        } else {
            room[i] = (uint32_t)(unsigned char)*at << 24;
        }
    }
    return room;
}

static void block_32(const order_line *line, int64_t first, int64_t n, int32_t *out)
{
    const key_rule rule = rule_of(line->dtype);
    const int32_t flip = line->is_falling ? -1 : 0;
    uint32_t room[ORDER_BLOCK];
    const uint32_t *bits = bits_32(line, first, n, room);
    if (rule.is_float) {
        CALL(float_keys_32, bits, n, (uint32_t)rule.number, flip, out);
    } else {
        CALL(integer_keys_32, bits, n, (uint32_t)rule.number, flip, out);
    }
}

void order_keys_32(const order_line *line, int64_t first, int64_t n, int32_t *out)
{
    for (int64_t i = 0; i < n; i += ORDER_BLOCK) {
        block_32(line, first + i, n - i < ORDER_BLOCK ? n - i : ORDER_BLOCK, out + i);
    }
}

static void block_64(const order_line *line, int64_t first, int64_t n, int64_t *out)
{
    const key_rule rule = rule_of(line->dtype);
    const int64_t flip = line->is_falling ? -1 : 0;
    uint64_t room[ORDER_BLOCK];
    if (st_element_bytes(line->dtype) < 8) {
        int32_t narrow[ORDER_BLOCK];
        block_32(line, first, n, narrow);
        for (int64_t i = 0; i < n; i++) {
            out[i] = narrow[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(&room[i], line->data + (first + i) * line->step * 8, 8);
    }
    if (rule.is_float) {
        CALL(float_keys_64, room, n, rule.number, flip, out);
    } else {
        CALL(integer_keys_64, room, n, rule.number, flip, out);
    }
}

void order_keys_64(const order_line *line, int64_t first, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i += ORDER_BLOCK) {
        block_64(line, first + i, n - i < ORDER_BLOCK ? n - i : ORDER_BLOCK, out + i);
    }
}
