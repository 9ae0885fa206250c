/* Blocks of an executable, recycled by size class so that warm calls ask the host for no memory.
 *
 * A size is rounded up to a class: four a power of two from 64 bytes on, so at most a fifth is
 * lost. A bin keeps a few free blocks, the rest goes back to the host. The header lies before the
 * data:
 *
 *   | eager_block, 64 bytes | data, aligned to 64 |
 */
#include "plugins/eager/eager_execution_plan.h"

#define KEPT_PER_BIN 16u

struct eager_block {
    struct eager_block *next_free;
    void *next; /* the owner's chain */
    uint32_t bin;
    uint32_t reserved[11];
};

_Static_assert(sizeof(eager_block) == EAGER_ALIGN, "the header keeps the data aligned");

static eager_block *header_of(const void *data)
{
    return (eager_block *)((char *)(uintptr_t)data - sizeof(eager_block));
}

/* Bin of a size >= 1 and the bytes that its blocks hold; 0 when there is no such class. */
static bool class_of(uint64_t size, uint32_t *out_bin, uint64_t *out_bytes)
{
    if (size <= 64) {
        *out_bin = 0;
        *out_bytes = 64;
        return true;
    }
    const uint32_t log2 =
        63u - (uint32_t)__builtin_clzll(size - 1); /* 2^log2 <= size-1, log2 >= 6 */
    const uint64_t quarter = UINT64_C(1) << (log2 - 2u);
    const uint64_t quarters = (size + quarter - 1) / quarter; /* 5 to 8 */
    ST_NEED(log2 <= 56);
    *out_bin = 1u + (log2 - 6u) * 4u + (uint32_t)(quarters - 5u);
    *out_bytes = quarters * quarter;
    return true;
}

stator_status eager_pool_init(eager_pool *pool, st_mem *mem)
{
    memset(pool, 0, sizeof *pool);
    pool->mem = mem;
    return pthread_mutex_init(&pool->lock, NULL) == 0 ? STATOR_OK : STATOR_RESOURCE_EXHAUSTED;
}

void eager_pool_deinit(eager_pool *pool)
{
    if (!pool->mem) {
        return;
    }
    for (uint32_t bin = 0; bin < 256; bin++) {
        while (pool->bins[bin]) {
            eager_block *block = pool->bins[bin];
            pool->bins[bin] = block->next_free;
            st_free(pool->mem, block);
        }
    }
    pthread_mutex_destroy(&pool->lock);
}

void *eager_pool_take(eager_pool *pool, uint64_t size)
{
    uint32_t bin;
    uint64_t bytes;
    if (!class_of(size, &bin, &bytes)) {
        return NULL;
    }
    pthread_mutex_lock(&pool->lock);
    eager_block *block = pool->bins[bin];
    if (block) {
        pool->bins[bin] = block->next_free;
        pool->kept[bin]--;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!block) {
        block = st_alloc(pool->mem, bytes + sizeof *block, EAGER_ALIGN);
        if (!block) {
            return NULL;
        }
        memset(block, 0, sizeof *block);
        block->bin = bin;
    }
    return block + 1;
}

void eager_pool_give(eager_pool *pool, void *data)
{
    if (!data) {
        return;
    }
    eager_block *block = header_of(data);
    pthread_mutex_lock(&pool->lock);
    const bool keep = pool->kept[block->bin] < KEPT_PER_BIN;
    if (keep) {
        block->next_free = pool->bins[block->bin];
        pool->bins[block->bin] = block;
        pool->kept[block->bin]++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep) {
        st_free(pool->mem, block);
    }
}

void *eager_block_next(const void *data)
{
    return header_of(data)->next;
}

void eager_block_set_next(void *data, void *next)
{
    header_of(data)->next = next;
}
