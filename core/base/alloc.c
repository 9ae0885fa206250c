/* The account over malloc, and the only file that calls it.
 *
 * Each block has a head in front of it; `offset` leads back to what the raw allocator gave:
 *
 *     raw |<------- offset (a multiple of align, >= 16) ------->| block ...
 *                                        | size | offset (8+8) |
 *
 * A block of 0 bytes has one of its own, so that its address lies inside of what was given: a leak
 * checker takes an address at the very end for one of something else.
 *
 * Invariants: live_bytes and live_blocks are the sums over the blocks that are out (sizes as asked
 * for, plus what st_mem_charge added); a refused request changes neither. */
#define _GNU_SOURCE
#include "core/base/alloc.h"

#include "core/base/check.h"
#include <stdlib.h>
#include <string.h>

#define ALIGN_MIN 16u

typedef struct block_head {
    uint64_t size;
    uint64_t offset;
} block_head;

_Static_assert(sizeof(block_head) == ALIGN_MIN, "the head fills the least alignment");

static void *malloc_raw(void *self, uint64_t size, uint64_t align)
{
    (void)self;
    if (align <= ALIGN_MIN) {
        return malloc((size_t)size);
    }
    void *p = NULL;
    return posix_memalign(&p, (size_t)align, (size_t)size) == 0 ? p : NULL;
}

static void free_raw(void *self, void *p)
{
    (void)self;
    free(p);
}

void st_mem_init(st_mem *mem, void *(*raw_alloc)(void *, uint64_t, uint64_t),
                 void (*raw_free)(void *, void *), void *raw_self, uint64_t limit_bytes)
{
    mem->raw_alloc = raw_alloc != NULL ? raw_alloc : malloc_raw;
    mem->raw_free = raw_alloc != NULL ? raw_free : free_raw;
    mem->raw_self = raw_self;
    mem->limit_bytes = limit_bytes;
    atomic_init(&mem->live_bytes, 0);
    atomic_init(&mem->peak_bytes, 0);
    atomic_init(&mem->live_blocks, 0);
    atomic_init(&mem->requests, 0);
    atomic_init(&mem->fail_at, 0);
    atomic_init(&mem->refused, 0);
}

static void raise_peak(st_mem *mem, uint64_t live)
{
    uint64_t peak = atomic_load_explicit(&mem->peak_bytes, memory_order_relaxed);
    while (live > peak &&
           !atomic_compare_exchange_weak_explicit(&mem->peak_bytes, &peak, live,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Adds size to the account unless that passes the limit. */
static bool reserve_bytes(st_mem *mem, uint64_t size)
{
    uint64_t live = atomic_load_explicit(&mem->live_bytes, memory_order_relaxed);
    uint64_t sum = 0;
    do {
        if (!st_add_u64(live, size, &sum) || (mem->limit_bytes != 0 && sum > mem->limit_bytes)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&mem->live_bytes, &live, sum,
                                                    memory_order_relaxed, memory_order_relaxed));
    raise_peak(mem, sum);
    return true;
}

static bool is_request_refused(st_mem *mem)
{
    const uint64_t number = atomic_fetch_add_explicit(&mem->requests, 1, memory_order_relaxed) + 1u;
    const uint64_t fail_at = atomic_load_explicit(&mem->fail_at, memory_order_relaxed);
    return fail_at != 0 && number >= fail_at;
}

static block_head *head_of(void *p)
{
    return (block_head *)(void *)((char *)p - sizeof(block_head));
}

void *st_alloc(st_mem *mem, uint64_t size, uint64_t align)
{
    const uint64_t offset = align > ALIGN_MIN ? align : ALIGN_MIN;
    uint64_t total = 0;
    if ((offset & (offset - 1u)) != 0 || !st_add_u64(size > 0 ? size : 1u, offset, &total) ||
        total > PTRDIFF_MAX || is_request_refused(mem) || !reserve_bytes(mem, size)) {
        atomic_fetch_add_explicit(&mem->refused, 1, memory_order_relaxed);
        return NULL;
    }
    char *raw = mem->raw_alloc(mem->raw_self, total, offset);
    if (raw == NULL) {
        atomic_fetch_sub_explicit(&mem->live_bytes, size, memory_order_relaxed);
        atomic_fetch_add_explicit(&mem->refused, 1, memory_order_relaxed);
        return NULL;
    }
    atomic_fetch_add_explicit(&mem->live_blocks, 1, memory_order_relaxed);
    block_head *head = head_of(raw + offset);
    head->size = size;
    head->offset = offset;
    return raw + offset;
}

void *st_calloc(st_mem *mem, uint64_t count, uint64_t size)
{
    uint64_t total = 0;
    if (!st_mul_u64(count, size, &total)) {
        return NULL;
    }
    void *p = st_alloc(mem, total, ALIGN_MIN);
    if (p != NULL) {
        memset(p, 0, (size_t)total);
    }
    return p;
}

void *st_realloc(st_mem *mem, void *p, uint64_t size, uint64_t align)
{
    void *grown = st_alloc(mem, size, align);
    if (grown != NULL && p != NULL) {
        const uint64_t old = head_of(p)->size;
        memcpy(grown, p, (size_t)(old < size ? old : size));
        st_free(mem, p);
    }
    return grown;
}

void st_free(st_mem *mem, void *p)
{
    if (p == NULL) {
        return;
    }
    const block_head head = *head_of(p);
    atomic_fetch_sub_explicit(&mem->live_bytes, head.size, memory_order_relaxed);
    atomic_fetch_sub_explicit(&mem->live_blocks, 1, memory_order_relaxed);
    mem->raw_free(mem->raw_self, (char *)p - head.offset);
}

char *st_strndup(st_mem *mem, const char *s, uint64_t n)
{
    uint64_t size = 0;
    char *copy = st_add_u64(n, 1, &size) ? st_alloc(mem, size, 1) : NULL;
    if (copy != NULL) {
        if (n != 0) {
            memcpy(copy, s, (size_t)n);
        }
        copy[n] = '\0';
    }
    return copy;
}

char *st_strdup(st_mem *mem, const char *s)
{
    return st_strndup(mem, s, strlen(s));
}

void st_mem_charge(st_mem *mem, int64_t bytes)
{
    const uint64_t before =
        atomic_fetch_add_explicit(&mem->live_bytes, (uint64_t)bytes, memory_order_relaxed);
    if (bytes > 0) {
        raise_peak(mem, before + (uint64_t)bytes);
    }
}

void *st_process_alloc(uint64_t size)
{
    return size <= PTRDIFF_MAX ? malloc((size_t)size) : NULL;
}

void st_process_free(void *p)
{
    free(p);
}

/* ---- plugins ---- */

static void *host_alloc(void *self, uint64_t size, uint64_t align)
{
    const stator_host *host = self;
    return host->mem->alloc(host->ctx, size, align);
}

static void host_free(void *self, void *p)
{
    const stator_host *host = self;
    host->mem->free(host->ctx, p);
}

void st_mem_init_host(st_mem *mem, const stator_host *host, uint64_t limit_bytes)
{
    st_mem_init(mem, host_alloc, host_free, (void *)(uintptr_t)host, limit_bytes);
}

stator_status st_plugin_self_create(const stator_host *host, uint64_t size, void **out_self,
                                    stator_diag **err)
{
    st_plugin_self *self = host->mem->alloc(host->ctx, size, 16);
    *out_self = self;
    if (self == NULL) {
        return stator_fail(host, err, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    memset(self, 0, (size_t)size);
    self->host = host;
    st_mem_init_host(&self->mem, host, 0);
    return STATOR_OK;
}

void st_plugin_self_destroy(void *self)
{
    const stator_host *host = ((st_plugin_self *)self)->host;
    host->mem->free(host->ctx, self);
}
