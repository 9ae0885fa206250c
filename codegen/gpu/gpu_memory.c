/* The pools: blocks of device memory, and of pinned host memory, that are used again.
 *
 * Sizes are rounded up to one of eight for each power of two. A free block remembers on which
 * stream its last use was queued, and in which epoch (gpu_streams.c): what is queued on that stream
 * later may use it at once, others when the stream has been waited for. The host writes to pinned
 * memory itself, so a block of it serves again when it has been waited for.
 *
 * When the cap is reached or the driver has none left, all streams are waited for, the blocks that
 * nobody uses go back to the driver, and it is asked once more. */
#include "codegen/gpu/gpu_runtime.h"

#include <string.h>

#define BYTES_MAX (UINT64_C(1) << 47)

void gpu_pool_init(gpu_pool *pool, st_mem *mem, bool is_pinned, uint64_t cap)
{
    *pool = (gpu_pool){.is_pinned = is_pinned, .cap = cap};
    st_map_init(&pool->by_address, mem);
}

/* ---- the driver's memory ---- */

static stator_status ask_driver(const st_gpu *gpu, const gpu_pool *pool, uint64_t bytes,
                                st_gpu_address *out, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    if (!pool->is_pinned) {
        return driver->alloc(driver->self, bytes, out, err);
    }
    void *made = NULL;
    const stator_status status = driver->alloc_pinned(driver->self, bytes, &made, err);
    *out = gpu_address(made);
    return status;
}

static void return_to_driver(const st_gpu *gpu, const gpu_pool *pool, st_gpu_address address)
{
    const st_gpu_driver *driver = gpu->driver;
    if (pool->is_pinned) {
        driver->free_pinned(driver->self, gpu_pointer(address));
    } else {
        driver->free(driver->self, address);
    }
}

void gpu_pool_deinit(st_gpu *gpu, gpu_pool *pool)
{
    for (uint32_t i = 0; i < pool->blocks.count; i++) {
        if (pool->blocks.data[i].address) {
            return_to_driver(gpu, pool, pool->blocks.data[i].address);
        }
    }
    st_vec_free(gpu->mem, &pool->blocks);
    st_map_deinit(&pool->by_address);
}

/* ---- free blocks ---- */

static bool may_use(const gpu_pool *pool, const gpu_block *block, const gpu_stream *stream)
{
    return block->stream == NULL || block->epoch < block->stream->waited ||
           (block->stream == stream && !pool->is_pinned);
}

/* Takes a free block out of its bin; 0: there is none that may be used. Index + 1. */
static uint32_t take_free(gpu_pool *pool, uint32_t bin, const gpu_stream *stream)
{
    for (uint32_t *at = &pool->bins[bin]; *at; at = &pool->blocks.data[*at - 1u].next) {
        const uint32_t found = *at;
        gpu_block *block = &pool->blocks.data[found - 1u];
        if (may_use(pool, block, stream)) {
            *at = block->next;
            return found;
        }
    }
    return 0;
}

static void put_free(gpu_pool *pool, uint32_t index)
{
    gpu_block *block = &pool->blocks.data[index - 1u];
    uint64_t bytes = 0;
    uint32_t *bin = &pool->bins[st_size_class(block->bytes, &bytes)];
    block->next = *bin;
    *bin = index;
}

/* Gives the driver back what nobody uses. */
static void trim(st_gpu *gpu, gpu_pool *pool)
{
    gpu_wait_for_all(gpu);
    for (uint32_t bin = 0; bin < GPU_BINS; bin++) {
        for (uint32_t index = 0; (index = take_free(pool, bin, NULL)) != 0;) {
            gpu_block *block = &pool->blocks.data[index - 1u];
            return_to_driver(gpu, pool, block->address);
            pool->held -= block->bytes;
            *block = (gpu_block){.next = pool->empty};
            pool->empty = index;
        }
    }
}

void gpu_trim(st_gpu *gpu)
{
    pthread_mutex_lock(&gpu->lock);
    trim(gpu, &gpu->device);
    pthread_mutex_unlock(&gpu->lock);
}

/* ---- new blocks ---- */

/* A record without memory; 0: out of host memory. Index + 1. */
static uint32_t new_record(st_gpu *gpu, gpu_pool *pool)
{
    const uint32_t index = pool->empty;
    if (index) {
        pool->empty = pool->blocks.data[index - 1u].next;
        return index;
    }
    gpu_block *block = st_vec_push(gpu->mem, &pool->blocks);
    if (block == NULL) {
        return 0;
    }
    *block = (gpu_block){.next = 0};
    return pool->blocks.count;
}

/* From the driver, within the cap; the reason why not goes to *err. */
static stator_status try_driver(const st_gpu *gpu, gpu_pool *pool, uint64_t bytes,
                                st_gpu_address *out, stator_diag **err)
{
    ST_FAIL_IF(pool->cap && pool->held + bytes > pool->cap, err, STATOR_RESOURCE_EXHAUSTED,
               "%llu bytes of device memory were asked for, but %llu are held, %llu of them in "
               "use, and the cap is %llu: raise memory_cap or free what is not needed",
               (unsigned long long)bytes, (unsigned long long)pool->held,
               (unsigned long long)pool->used, (unsigned long long)pool->cap);
    pool->n_allocs++;
    return ask_driver(gpu, pool, bytes, out, err);
}

/* The driver, and once more after it got back what nobody uses. */
static stator_status from_driver(st_gpu *gpu, gpu_pool *pool, uint64_t bytes, st_gpu_address *out,
                                 stator_diag **err)
{
    stator_diag *first = NULL;
    stator_status status = try_driver(gpu, pool, bytes, out, &first);
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        st_diag_release(first);
        first = NULL;
        trim(gpu, pool);
        status = try_driver(gpu, pool, bytes, out, &first);
    }
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        st_diag_set_hint(first, "of %s, %llu bytes are in use by this context",
                         pool->is_pinned ? "pinned host memory" : "the device's memory",
                         (unsigned long long)pool->used);
    }
    return st_diag_give(status, first, err);
}

static stator_status add_block(st_gpu *gpu, gpu_pool *pool, uint64_t bytes, uint32_t *out,
                               stator_diag **err)
{
    st_gpu_address address = 0;
    ST_TRY(from_driver(gpu, pool, bytes, &address, err));
    const uint32_t index = new_record(gpu, pool);
    if (index == 0 || !st_map_put(&pool->by_address, address, index)) {
        return_to_driver(gpu, pool, address);
        if (index) {
            pool->blocks.data[index - 1u].next = pool->empty;
            pool->empty = index;
        }
        return st_fail_oom(err);
    }
    pool->blocks.data[index - 1u] = (gpu_block){.address = address, .bytes = bytes};
    pool->held += bytes;
    pool->peak = pool->held > pool->peak ? pool->held : pool->peak;
    *out = index;
    return STATOR_OK;
}

/* ---- take and give ---- */

stator_status gpu_take(st_gpu *gpu, gpu_pool *pool, const gpu_stream *stream, uint64_t bytes,
                       st_gpu_address *out, stator_diag **err)
{
    stator_status status = STATOR_OK;
    uint64_t size = 0;
    *out = 0;
    ST_FAIL_IF(bytes > BYTES_MAX, err, STATOR_RESOURCE_EXHAUSTED,
               "%llu bytes of device memory were asked for; no device has as many",
               (unsigned long long)bytes);
    const uint32_t bin = st_size_class(bytes, &size);
    pthread_mutex_lock(&gpu->lock);
    uint32_t index = take_free(pool, bin, stream);
    if (index == 0) {
        status = add_block(gpu, pool, size, &index, err);
    }
    if (status == STATOR_OK) {
        gpu_block *block = &pool->blocks.data[index - 1u];
        block->is_used = 1;
        pool->used += block->bytes;
        *out = block->address;
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

void gpu_give(st_gpu *gpu, gpu_pool *pool, const gpu_stream *stream, st_gpu_address address)
{
    pthread_mutex_lock(&gpu->lock);
    const uint32_t index = address ? st_map_get(&pool->by_address, address) : 0;
    gpu_block *block = index ? &pool->blocks.data[index - 1u] : NULL;
    if (block && block->address == address && block->is_used) {
        block->is_used = 0;
        block->stream = stream && gpu_is_busy(stream) ? stream : NULL;
        block->epoch = stream ? stream->epoch : 0;
        pool->used -= block->bytes;
        put_free(pool, index);
    }
    pthread_mutex_unlock(&gpu->lock);
}

stator_status st_gpu_alloc(st_gpu *gpu, uint64_t bytes, void *handle, void **out, stator_diag **err)
{
    gpu_stream *stream = NULL;
    st_gpu_address address = 0;
    *out = NULL;
    if (handle) {
        ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    }
    const stator_status status = gpu_take(gpu, &gpu->device, stream, bytes, &address, err);
    *out = gpu_pointer(address);
    return status;
}

/* Without a stream it may still have been used on the runtime's own. */
void st_gpu_free(st_gpu *gpu, void *p, void *handle)
{
    pthread_mutex_lock(&gpu->lock);
    const gpu_stream *stream = gpu_stream_of(gpu, handle);
    if (stream == NULL) { /* out of memory for what would be remembered */
        gpu_wait_for_all(gpu);
    }
    pthread_mutex_unlock(&gpu->lock);
    gpu_give(gpu, &gpu->device, stream, gpu_address(p));
}
