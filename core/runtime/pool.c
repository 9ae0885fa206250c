/* Size-class pool; see pool.h. Classes are powers of two and three quarters in between, so that at
 * most a third of a block is unused. A block's header lies in the 64 bytes before it. */
#define _GNU_SOURCE
#include "core/runtime/pool.h"

#include <sys/mman.h>

#define BLOCK_ALIGN 64u
#define PAGE_BYTES 4096u
#define HUGE_BYTES (2u << 20)

struct st_pool_block {
    struct st_pool_block *next;
    void *base;
    uint32_t size_class;
};
_Static_assert(sizeof(struct st_pool_block) <= BLOCK_ALIGN, "the header fits before the block");

/* Bytes of class c: 256 * 2^(c/2), odd classes half as much again. */
static uint64_t class_bytes(uint32_t c)
{
    const uint64_t base = UINT64_C(256) << (c / 2u);
    return (c & 1u) != 0 ? base + base / 2u : base;
}

/* The smallest class that holds size, or ST_POOL_CLASSES. */
static uint32_t class_of(uint64_t size)
{
    uint32_t c = 0;
    if (size > 256) {
        c = 2u * (55u - (uint32_t)__builtin_clzll(size));
    }
    while (c < ST_POOL_CLASSES && class_bytes(c) < size) {
        c++;
    }
    return c;
}

void st_pool_init(st_pool *pool, st_mem *mem)
{
    *pool = (st_pool){.mem = mem};
    pthread_mutex_init(&pool->lock, NULL);
}

void st_pool_trim(st_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    for (uint32_t c = 0; c < ST_POOL_CLASSES; c++) {
        while (pool->free_lists[c] != NULL) {
            struct st_pool_block *block = pool->free_lists[c];
            pool->free_lists[c] = block->next;
            st_free(pool->mem, block->base);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

void st_pool_deinit(st_pool *pool)
{
    st_pool_trim(pool);
    pthread_mutex_destroy(&pool->lock);
}

/* Large blocks begin with a page, so that elements of equal place in a call's tensors have equal
 * low bits of their addresses: a processor that compares the low 12 bits takes no load for one of
 * what was just stored. */
static uint64_t align_of(uint64_t bytes)
{
    if (bytes >= HUGE_BYTES) {
        return HUGE_BYTES;
    }
    return bytes >= 4u * PAGE_BYTES ? PAGE_BYTES : BLOCK_ALIGN;
}

static void *fresh_block(st_pool *pool, uint32_t c)
{
    const uint64_t bytes = class_bytes(c);
    const uint64_t align = align_of(bytes);
    char *base = st_alloc(pool->mem, bytes + align, align);
    if (base == NULL) {
        return NULL;
    }
    if (align == HUGE_BYTES) {
        /* Advice only: a kernel without huge pages refuses, and nothing changes. */
        (void)madvise(base + align, bytes & ~(uint64_t)(HUGE_BYTES - 1u), MADV_HUGEPAGE);
    }
    char *data = base + align;
    struct st_pool_block *block = (struct st_pool_block *)(void *)(data - BLOCK_ALIGN);
    *block = (struct st_pool_block){.base = base, .size_class = c};
    return data;
}

void *st_pool_take(st_pool *pool, uint64_t size)
{
    const uint32_t c = class_of(size);
    if (c >= ST_POOL_CLASSES) {
        return NULL;
    }
    pthread_mutex_lock(&pool->lock);
    struct st_pool_block *block = pool->free_lists[c];
    if (block != NULL) {
        pool->free_lists[c] = block->next;
    }
    pthread_mutex_unlock(&pool->lock);
    if (block != NULL) {
        return (char *)block + BLOCK_ALIGN;
    }
    void *fresh = fresh_block(pool, c);
    if (fresh == NULL) {
        /* Free blocks of other sizes count against the context's limit: without them it may fit. */
        st_pool_trim(pool);
        fresh = fresh_block(pool, c);
    }
    return fresh;
}

void st_pool_give(st_pool *pool, void *data)
{
    if (data == NULL) {
        return;
    }
    struct st_pool_block *block = (struct st_pool_block *)(void *)((char *)data - BLOCK_ALIGN);
    pthread_mutex_lock(&pool->lock);
    block->next = pool->free_lists[block->size_class];
    pool->free_lists[block->size_class] = block;
    pthread_mutex_unlock(&pool->lock);
}
