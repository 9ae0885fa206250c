/* Segmented arrays. Chunk k holds 64 * 2^k elements and is allocated when its first element is
 * asked for; it stays until deinit, so an element's address never changes. */
#include "core/base/seg.h"

#include "core/base/check.h"
#include <string.h>

#define SEG_COUNT_MAX (UINT32_MAX - (1u << STATOR_COLUMN_BASE_LOG2) + 1u)

void st_seg_init(st_seg *seg, st_mem *mem, uint32_t stride)
{
    memset(seg, 0, sizeof *seg);
    seg->mem = mem;
    seg->stride = stride;
}

void st_seg_deinit(st_seg *seg)
{
    for (uint32_t k = 0; k < STATOR_COLUMN_CHUNKS; k++) {
        st_free(seg->mem, seg->chunks[k]);
        seg->chunks[k] = NULL;
    }
    seg->count = 0;
}

static uint32_t chunk_of(uint32_t i)
{
    return 31u - (uint32_t)__builtin_clz(i + (1u << STATOR_COLUMN_BASE_LOG2)) -
           STATOR_COLUMN_BASE_LOG2;
}

static uint32_t chunk_begin(uint32_t k)
{
    return ((1u << k) - 1u) << STATOR_COLUMN_BASE_LOG2;
}

/* Zeroes elements first..end-1, chunk by chunk (they may have been used before a truncation). */
static void clear(st_seg *seg, uint32_t first, uint32_t end)
{
    while (first < end) {
        const uint32_t k = chunk_of(first);
        const uint64_t chunk_end =
            (uint64_t)chunk_begin(k) + (UINT64_C(1) << (k + STATOR_COLUMN_BASE_LOG2));
        const uint32_t stop = chunk_end < end ? (uint32_t)chunk_end : end;
        memset(st_seg_at(seg, first), 0, (size_t)(stop - first) * seg->stride);
        first = stop;
    }
}

bool st_seg_grow(st_seg *seg, uint32_t n, uint32_t *out_index)
{
    *out_index = seg->count;
    if (n > SEG_COUNT_MAX - seg->count) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    const uint32_t last = chunk_of(seg->count + n - 1u);
    for (uint32_t k = chunk_of(seg->count); k <= last; k++) {
        if (seg->chunks[k] == NULL) {
            uint64_t bytes = 0;
            if (!st_mul_u64(UINT64_C(1) << (k + STATOR_COLUMN_BASE_LOG2), seg->stride, &bytes)) {
                return false;
            }
            seg->chunks[k] = st_alloc(seg->mem, bytes, 16);
            if (seg->chunks[k] == NULL) {
                return false;
            }
        }
    }
    clear(seg, seg->count, seg->count + n);
    seg->count += n;
    return true;
}

void *st_seg_push(st_seg *seg, uint32_t *out_index)
{
    uint32_t index = 0;
    if (!st_seg_grow(seg, 1, &index)) {
        return NULL;
    }
    if (out_index != NULL) {
        *out_index = index;
    }
    return st_seg_at(seg, index);
}

void st_seg_truncate(st_seg *seg, uint32_t count)
{
    if (count < seg->count) {
        seg->count = count;
    }
}

stator_column st_seg_column(const st_seg *seg)
{
    return (stator_column){(const void *const *)seg->chunks, seg->stride, 0};
}
