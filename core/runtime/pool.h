/* A pool of recycled buffers: outputs and intermediates come from here, never from a fresh mapping
 * per call. Blocks are aligned to 64 bytes; those of 2 MiB and more to 2 MiB, on huge pages where
 * the system gives them on request (madvise). Thread-safe. */
#ifndef STATOR_RUNTIME_POOL_H
#define STATOR_RUNTIME_POOL_H

#include "core/base/alloc.h"
#include <pthread.h>

#define ST_POOL_CLASSES 96u

typedef struct st_pool {
    st_mem *mem;
    pthread_mutex_t lock;
    struct st_pool_block *free_lists[ST_POOL_CLASSES];
} st_pool;

void st_pool_init(st_pool *pool, st_mem *mem);
/* Every block must have come back. */
void st_pool_deinit(st_pool *pool);
/* A block of at least size bytes, contents undefined; NULL when out of memory. */
void *st_pool_take(st_pool *pool, uint64_t size);
void st_pool_give(st_pool *pool, void *block); /* give(NULL) does nothing */
/* Frees the blocks that nobody holds. */
void st_pool_trim(st_pool *pool);

#endif
