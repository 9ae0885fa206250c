/* Sorting by keys: every element becomes a 64-bit integer whose order is the element's order (NaN
 * largest, -0 equal to 0), so that one stable merge sort serves all dtypes. */
#ifndef STATOR_EAGER_EK_ORDER_H
#define STATOR_EAGER_EK_ORDER_H

#include "plugins/eager/eager.h"

/* Keys of n elements from `first` by `step`; ~key orders the other way. */
void ek_order_keys(uint32_t dtype, const void *data, int64_t first, int64_t step, int64_t n,
                   int64_t *out_keys);
/* Sorts index[0..n), a list of item numbers, by width keys an item (compared one after the other),
 * equal items in their given order. spare: room for n more. */
void ek_order_sort(const int64_t *keys, int64_t width, int64_t *index, int64_t *spare, int64_t n);

#endif
