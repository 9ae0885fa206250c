/* Interval packing, greedy by size: blocks are placed largest first, each at the lowest offset
 * where it touches no placed block that is alive at the same time (Pisarchyk and Lee 2020). Equal
 * sizes go by first use, then by place in the list, so the result is the same on every machine.
 * Where that takes more than is ever alive at once, blocks are placed in the order of their first
 * use as well, and the smaller of the two results stays.
 *
 *     order:  [big ......][medium ...][small]
 *     placed, by offset:  |a|  gap  |b|   ->  a block that fits the first gap goes there
 *
 * Placed blocks are found by lifetime. Times are the ranks of the blocks' first uses, so that a
 * lifetime is a range of ranks [lo, hi]. A block alive at the same time as another begins inside
 * the other's lifetime (a list by lo), or is alive when that one begins (a segment tree of lists:
 * the leaf of a time and the nodes above it hold all that are alive then). Time is
 * O(n log n + p log p) for p pairs of blocks alive at the same time. */
#include "core/base/interval.h"

#include "core/base/check.h"
#include "core/base/diag.h"
#include "core/base/vec.h"
#include <stdlib.h>
#include <string.h>

#define SMALL_PART 16u /* a block below 1/16 of the largest one is small */

typedef struct item {
    uint64_t size; /* rounded up to the alignment */
    uint32_t first;
    uint32_t index;
    uint32_t sort_key; /* in the second order */
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

static int by_sort_key(const void *a, const void *b)
{
    const item *x = a;
    const item *y = b;
    return x->sort_key != y->sort_key ? (x->sort_key > y->sort_key) - (x->sort_key < y->sort_key)
                                      : by_size(a, b);
}

/* Blocks by first use; small ones, which would stand between large ones for long, come after them.
 */
static void set_sort_keys(item *items, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        most = items[i].size > most ? items[i].size : most;
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i].sort_key = items[i].size > most / SMALL_PART ? items[i].first : UINT32_MAX;
    }
}

static bool round_up(uint64_t size, uint64_t align, uint64_t *out)
{
    const uint64_t rest = size % align;
    return st_add_u64(size, rest != 0 ? align - rest : 0, out);
}

/* ---- placed blocks by lifetime ---- */

typedef struct link { /* an entry of a linked list; entry 0 ends it */
    uint32_t block;
    uint32_t next;
} link;

typedef struct packing {
    st_mem *mem;
    st_interval *blocks;
    uint32_t *times; /* distinct first uses, ascending */
    uint32_t n_times;
    uint32_t *lo, *hi;  /* by block: its lifetime in ranks of times */
    uint32_t *begins;   /* by rank: list of placed blocks that begin then */
    uint32_t *alive;    /* by node of the tree, 2 * n_times: list of placed blocks */
    uint64_t *rounded;  /* by block */
    st_vec(link) links; /* from 1 */
    st_vec(uint32_t) found;
} packing;

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Rank of the last time that is not after t; there is one. */
static uint32_t rank_of(const packing *p, uint32_t t)
{
    uint32_t lo = 0;
    uint32_t hi = p->n_times;
    while (hi - lo > 1u) {
        const uint32_t mid = lo + (hi - lo) / 2u;
        if (p->times[mid] <= t) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static bool add_link(packing *p, uint32_t *list, uint32_t block)
{
    link *l = st_vec_push(p->mem, &p->links);
    ST_NEED(l != NULL);
    *l = (link){block, *list};
    *list = p->links.count - 1u;
    return true;
}

static bool remember(packing *p, uint32_t block)
{
    bool ok = add_link(p, &p->begins[p->lo[block]], block);
    uint32_t lo = p->lo[block] + p->n_times;
    uint32_t hi = p->hi[block] + p->n_times + 1u;
    for (; ok && lo < hi; lo /= 2u, hi /= 2u) {
        if (lo % 2u != 0) {
            ok = add_link(p, &p->alive[lo++], block);
        }
        if (ok && hi % 2u != 0) {
            ok = add_link(p, &p->alive[--hi], block);
        }
    }
    return ok;
}

static bool collect(packing *p, uint32_t list)
{
    for (uint32_t i = list; i != 0; i = p->links.data[i].next) {
        uint32_t *slot = st_vec_push(p->mem, &p->found);
        ST_NEED(slot != NULL);
        *slot = p->links.data[i].block;
    }
    return true;
}

/* ---- placing ---- */

typedef struct range { /* an interval that a block already occupies */
    uint64_t begin;
    uint64_t end;
} range;

static int by_begin(const void *a, const void *b)
{
    const range *x = a;
    const range *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Lowest offset where a block fits among those alive at the same time; 0 on overflow. */
static bool find_offset(const packing *p, range *ranges, uint32_t n, uint64_t size,
                        uint64_t *out_offset)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t other = p->found.data[i];
        ranges[i].begin = p->blocks[other].offset_bytes;
        ranges[i].end = ranges[i].begin + p->rounded[other];
    }
    qsort(ranges, n, sizeof *ranges, by_begin);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = 0;
        ST_NEED(st_add_u64(at, size, &end));
        if (end <= ranges[i].begin) {
            break;
        }
        at = ranges[i].end > at ? ranges[i].end : at;
    }
    *out_offset = at;
    return true;
}

static bool place(packing *p, range *ranges, const item *wanted, uint64_t *out_total)
{
    st_interval *block = &p->blocks[wanted->index];
    uint64_t end = 0;
    bool ok = true;
    block->offset_bytes = 0;
    if (wanted->size == 0) {
        return true;
    }
    p->found.count = 0;
    for (uint32_t r = p->lo[wanted->index] + 1u; ok && r <= p->hi[wanted->index]; r++) {
        ok = collect(p, p->begins[r]);
    }
    for (uint32_t i = p->lo[wanted->index] + p->n_times; ok && i > 0; i /= 2u) {
        ok = collect(p, p->alive[i]);
    }
    ok = ok && find_offset(p, ranges, p->found.count, wanted->size, &block->offset_bytes) &&
         st_add_u64(block->offset_bytes, wanted->size, &end) && remember(p, wanted->index);
    *out_total = ok && end > *out_total ? end : *out_total;
    return ok;
}

static bool alloc_packing(packing *p, uint32_t n)
{
    p->times = st_calloc(p->mem, n, sizeof *p->times);
    p->lo = st_calloc(p->mem, n, sizeof *p->lo);
    p->hi = st_calloc(p->mem, n, sizeof *p->hi);
    p->begins = st_calloc(p->mem, n, sizeof *p->begins);
    p->alive = st_calloc(p->mem, 2u * (uint64_t)n, sizeof *p->alive);
    p->rounded = st_calloc(p->mem, n, sizeof *p->rounded);
    link *end = st_vec_push(p->mem, &p->links);
    if (p->times == NULL || p->lo == NULL || p->hi == NULL || p->begins == NULL ||
        p->alive == NULL || p->rounded == NULL || end == NULL) {
        return false;
    }
    *end = (link){0, 0};
    for (uint32_t i = 0; i < n; i++) {
        p->times[i] = p->blocks[i].first;
    }
    qsort(p->times, n, sizeof *p->times, by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || p->times[i] != p->times[p->n_times - 1u]) {
            p->times[p->n_times++] = p->times[i];
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        p->lo[i] = rank_of(p, p->blocks[i].first);
        p->hi[i] = rank_of(p, p->blocks[i].last);
    }
    return true;
}

static void free_packing(packing *p)
{
    st_free(p->mem, p->times);
    st_free(p->mem, p->lo);
    st_free(p->mem, p->hi);
    st_free(p->mem, p->begins);
    st_free(p->mem, p->alive);
    st_free(p->mem, p->rounded);
    st_vec_free(p->mem, &p->links);
    st_vec_free(p->mem, &p->found);
}

/* The most bytes that are alive at once: no more than any placement takes. `steps`: n + 1 zeros. */
static uint64_t most_alive(const packing *p, uint32_t n, uint64_t *steps)
{
    uint64_t most = 0;
    uint64_t alive = 0;
    for (uint32_t i = 0; i < n; i++) { /* modulo 2^64 */
        steps[p->lo[i]] += p->rounded[i];
        steps[p->hi[i] + 1u] -= p->rounded[i];
    }
    for (uint32_t t = 0; t < p->n_times; t++) {
        alive += steps[t];
        most = alive > most ? alive : most;
    }
    return most;
}

/* Places all in the order of the items; what was placed before is forgotten. */
static bool place_all(packing *p, range *ranges, const item *items, uint32_t n, uint64_t *out_total)
{
    bool ok = true;
    memset(p->begins, 0, n * sizeof *p->begins);
    memset(p->alive, 0, 2u * (size_t)n * sizeof *p->alive);
    p->links.count = 1;
    *out_total = 0;
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = place(p, ranges, &items[i], out_total);
    }
    return ok;
}

/* Tries the other order where the first one left gaps; what fails changes nothing. Changes items.
 */
static void improve(packing *p, range *ranges, item *items, uint32_t n, uint64_t *total)
{
    uint64_t other = 0;
    uint64_t *kept = st_calloc(p->mem, (uint64_t)n + 1u, sizeof *kept);
    if (kept == NULL || most_alive(p, n, kept) == *total) {
        st_free(p->mem, kept);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        kept[i] = p->blocks[i].offset_bytes;
    }
    set_sort_keys(items, n);
    qsort(items, n, sizeof *items, by_sort_key);
    const bool is_better = place_all(p, ranges, items, n, &other) && other < *total;
    for (uint32_t i = 0; i < n && !is_better; i++) {
        p->blocks[i].offset_bytes = kept[i];
    }
    *total = is_better ? other : *total;
    st_free(p->mem, kept);
}

bool st_interval_pack(st_mem *mem, st_interval *blocks, uint32_t n, uint64_t align,
                      uint64_t *out_total)
{
    *out_total = 0;
    if (n == 0) {
        return true;
    }
    align = align == 0 ? 1 : align;
    packing p = {.mem = mem, .blocks = blocks};
    item *items = st_calloc(mem, n, sizeof *items);
    range *ranges = st_calloc(mem, n, sizeof *ranges);
    bool ok = items != NULL && ranges != NULL && alloc_packing(&p, n);
    for (uint32_t i = 0; ok && i < n; i++) {
        items[i] = (item){0, blocks[i].first, i, 0};
        ok = round_up(blocks[i].size_bytes, align, &items[i].size);
        p.rounded[i] = items[i].size;
    }
    if (ok) {
        qsort(items, n, sizeof *items, by_size);
    }
    ok = ok && place_all(&p, ranges, items, n, out_total);
    if (ok) {
        improve(&p, ranges, items, n, out_total);
    }
    st_free(mem, items);
    st_free(mem, ranges);
    free_packing(&p);
    return ok;
}
