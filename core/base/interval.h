/* Interval packing: places blocks with lifetimes into one workspace so that blocks alive at the
 * same time do not overlap. Greedy by size (largest first, lowest fitting offset), as in the
 * "greedy by size" planners of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
 * Inference", 2020, or by first use where that takes less. Serves the memory plan between
 * partitions and inside one. */
#ifndef STATOR_BASE_INTERVAL_H
#define STATOR_BASE_INTERVAL_H

#include "core/base/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_interval {
    uint64_t size_bytes;
    uint32_t first; /* lifetime, inclusive */
    uint32_t last;
    uint64_t offset_bytes; /* result */
} st_interval;

/* Fills every offset (multiples of align) and *out_total. 0 when memory runs out or sizes overflow.
 */
bool st_interval_pack(st_mem *mem, st_interval *blocks, uint32_t n, uint64_t align,
                      uint64_t *out_total);

#ifdef __cplusplus
}
#endif
#endif
