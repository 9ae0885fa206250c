/* Segmented array: grows without moving an element; readable through a stator_column. Chunk k holds
 * 64 * 2^k elements, see stator/ir.h. */
#ifndef STATOR_BASE_SEG_H
#define STATOR_BASE_SEG_H

#include "core/base/alloc.h"
#include <stator/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_seg {
    st_mem *mem;
    void *chunks[STATOR_COLUMN_CHUNKS];
    uint32_t stride;
    uint32_t count;
} st_seg;

void st_seg_init(st_seg *seg, st_mem *mem, uint32_t stride);
void st_seg_deinit(st_seg *seg);
/* n more zeroed elements; the first one's index in *out_index. 0 when memory runs out. The new
 * elements need not be contiguous. */
bool st_seg_grow(st_seg *seg, uint32_t n, uint32_t *out_index);
void *st_seg_push(st_seg *seg, uint32_t *out_index); /* one zeroed element, NULL: out of memory */
void st_seg_truncate(st_seg *seg, uint32_t count);
stator_column st_seg_column(const st_seg *seg);
/* *to, uninitialised storage, becomes a copy in `mem`; 0: out of memory, *to is then deinitialised.
 */
bool st_seg_clone(st_seg *to, st_mem *mem, const st_seg *from);

static inline void *st_seg_at(const st_seg *seg, uint32_t i)
{
    uint32_t j = i + (1u << STATOR_COLUMN_BASE_LOG2);
    uint32_t k = 31u - (uint32_t)__builtin_clz(j) - STATOR_COLUMN_BASE_LOG2;
    return (char *)seg->chunks[k] +
           (uint64_t)(j - (1u << (k + STATOR_COLUMN_BASE_LOG2))) * seg->stride;
}

#ifdef __cplusplus
}
#endif
#endif
