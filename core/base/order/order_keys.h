/* Keys of elements, and searches in blocks of keys (core/base/order/order.c alone). */
#ifndef STATOR_BASE_ORDER_KEYS_H
#define STATOR_BASE_ORDER_KEYS_H

#include <stdint.h>

#define ORDER_BLOCK 256 /* keys that are made at a time */
#define ORDER_MASK 32   /* keys that searches look at together */
#define ORDER_ROWS 32   /* rows of a panel */
#define ORDER_PANEL (ORDER_ROWS * ORDER_MASK)

/* Elements of a row. */
typedef struct order_line {
    const char *data; /* element 0 */
    int64_t step;     /* elements */
    uint32_t dtype;
    uint32_t is_falling;
} order_line;

/* Keys of elements [first, first + n). Signed: the lower one stands before; INT_MAX of its width
 * is NaN, or a number. The second form takes any dtype. */
void order_keys_32(const order_line *line, int64_t first, int64_t n, int32_t *out);
void order_keys_64(const order_line *line, int64_t first, int64_t n, int64_t *out);
/* n keys, a multiple of ORDER_MASK: bit j of out_masks[i] is keys[i * ORDER_MASK + j] < bound. */
void order_below_32(const int32_t *keys, int64_t n, int32_t bound, uint32_t *out_masks);
void order_below_64(const int64_t *keys, int64_t n, int64_t bound, uint32_t *out_masks);
/* The lowest key of each column of n keys in panels, ORDER_MASK a panel, the panels one behind the
 * other: key i is in panel i / ORDER_PANEL, column i % ORDER_MASK. */
void order_column_least_32(const int32_t *keys, int64_t n, int32_t *out_least);
void order_column_least_64(const int64_t *keys, int64_t n, int64_t *out_least);
/* The lowest of n keys; n, here too, a multiple of ORDER_MASK. */
int32_t order_least_32(const int32_t *keys, int64_t n);
int64_t order_least_64(const int64_t *keys, int64_t n);
/* Bit j: keys[j] == key, for ORDER_MASK keys. */
uint32_t order_equal_32(const int32_t *keys, int32_t key);
uint32_t order_equal_64(const int64_t *keys, int64_t key);
/* How many of n words stand below each; n up to ORDER_MASK, both arrays have room for so many. */
void order_ranks(uint64_t *words, int64_t n, int64_t *out_ranks);

#endif
