/* Interval packing, greedy by size: blocks are placed largest first, each at the lowest offset
 * where it touches no placed block that is alive at the same time (Pisarchyk and Lee 2020). Equal
 * sizes go by first use, then by place in the list, so the result is the same on every machine.
 *
 *     order:  [big ......][medium ...][small]
 *     placed, by offset:  |a|  gap  |b|   ->  a block that fits the first gap goes there
 *
 * Time is O(n * overlapping blocks); the placed list is kept sorted by offset. */
#include "core/base/interval.h"

#include "core/base/check.h"
#include <stdlib.h>
#include <string.h>

typedef struct item {
    uint64_t size; /* rounded up to the alignment */
    uint32_t first;
    uint32_t index;
} item;

static int by_size(const void *a, const void *b)
{
    const item *x = a;
    const item *y = b;
    if (x->size != y->size) {
        return x->size > y->size ? -1 : 1;
    }
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

static int round_up(uint64_t size, uint64_t align, uint64_t *out)
{
    const uint64_t rest = size % align;
    return st_add_u64(size, rest != 0 ? align - rest : 0, out);
}

static int overlaps(const st_interval *a, const st_interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest offset where `block` of rounded size fits among the placed ones; 0 on overflow. */
static int find_offset(const st_interval *blocks, const item *items, const uint32_t *placed,
                       uint32_t n_placed, const item *wanted, uint64_t *out_offset)
{
    const st_interval *block = &blocks[wanted->index];
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_placed; i++) {
        const item *other = &items[placed[i]];
        const st_interval *o = &blocks[other->index];
        if (!overlaps(block, o)) {
            continue;
        }
        uint64_t end = 0;
        if (!st_add_u64(at, wanted->size, &end)) {
            return 0;
        }
        if (end <= o->offset_bytes) {
            break;
        }
        const uint64_t past = o->offset_bytes + other->size;
        at = past > at ? past : at;
    }
    *out_offset = at;
    return 1;
}

/* Inserts items[which] into the list sorted by offset. */
static void insert(const st_interval *blocks, const item *items, uint32_t *placed,
                   uint32_t n_placed, uint32_t which)
{
    const uint64_t offset = blocks[items[which].index].offset_bytes;
    uint32_t lo = 0;
    uint32_t hi = n_placed;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2u;
        if (blocks[items[placed[mid]].index].offset_bytes <= offset) {
            lo = mid + 1u;
        } else {
            hi = mid;
        }
    }
    memmove(placed + lo + 1, placed + lo, (n_placed - lo) * sizeof *placed);
    placed[lo] = which;
}

static int place_all(st_interval *blocks, const item *items, uint32_t *placed, uint32_t n,
                     uint64_t *out_total)
{
    uint32_t n_placed = 0;
    for (uint32_t i = 0; i < n; i++) {
        st_interval *block = &blocks[items[i].index];
        uint64_t end = 0;
        block->offset_bytes = 0;
        if (items[i].size == 0) {
            continue;
        }
        if (!find_offset(blocks, items, placed, n_placed, &items[i], &block->offset_bytes) ||
            !st_add_u64(block->offset_bytes, items[i].size, &end)) {
            return 0;
        }
        *out_total = end > *out_total ? end : *out_total;
        insert(blocks, items, placed, n_placed++, i);
    }
    return 1;
}

int st_interval_pack(st_mem *mem, st_interval *blocks, uint32_t n, uint64_t align,
                     uint64_t *out_total)
{
    *out_total = 0;
    if (n == 0) {
        return 1;
    }
    align = align == 0 ? 1 : align;
    item *items = st_calloc(mem, n, sizeof *items);
    uint32_t *placed = st_calloc(mem, n, sizeof *placed);
    int ok = items != NULL && placed != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        items[i] = (item){0, blocks[i].first, i};
        ok = round_up(blocks[i].size_bytes, align, &items[i].size);
    }
    if (ok) {
        qsort(items, n, sizeof *items, by_size);
        ok = place_all(blocks, items, placed, n, out_total);
    }
    st_free(mem, items);
    st_free(mem, placed);
    return ok;
}
