/* Memory domains; see domain.h.
 *
 * Free blocks lie in lists by class of size. A class is found from the size alone, so that whoever
 * gives a block back says its size and nothing is written beside the block, which the host cannot
 * reach. The struct of a block that is in use waits in `spare`: giving one back cannot fail. */
#include "core/runtime/stream_failures.h"

#include "core/base/check.h"

#include <string.h>

typedef struct st_device_block {
    struct st_device_block *next;
    void *p;
    st_stream *stream;
} st_device_block;

void st_domain_init(st_domain *d, st_mem *mem, st_pool *host_pool)
{
    d->mem = mem;
    d->host_pool = host_pool;
    pthread_mutex_init(&d->lock, NULL);
}

/* ---- memory ---- */

/* What the backend is told of a stream that used memory: NULL, nothing queued uses it any more. */
static void *handle_of(const st_stream *stream)
{
    return stream != NULL && st_stream_is_busy(stream) ? stream->handle : NULL;
}

/* All free blocks, taken off their lists. */
static st_device_block *take_free(st_domain *d)
{
    st_device_block *all = NULL;
    pthread_mutex_lock(&d->lock);
    for (uint32_t c = 0; c < ST_SIZE_CLASSES; c++) {
        while (d->free_blocks[c] != NULL) {
            st_device_block *block = d->free_blocks[c];
            d->free_blocks[c] = block->next;
            block->next = all;
            all = block;
        }
    }
    d->held_bytes = d->used_bytes;
    pthread_mutex_unlock(&d->lock);
    return all;
}

bool st_domain_trim(st_domain *d)
{
    st_device_block *block = take_free(d);
    const bool is_some = block != NULL;
    while (block != NULL) {
        st_device_block *next = block->next;
        d->ops->free(d->self, block->p, handle_of(block->stream));
        st_free(d->mem, block);
        block = next;
    }
    return is_some;
}

/* A free block of the class, one of the same stream before others, taken off its list. */
static st_device_block *find_free(st_domain *d, uint32_t c, const st_stream *stream)
{
    st_device_block **at = &d->free_blocks[c];
    for (st_device_block **b = at; *b != NULL; b = &(*b)->next) {
        if ((*b)->stream == stream || handle_of((*b)->stream) == NULL) {
            at = b;
            break;
        }
    }
    st_device_block *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    return found;
}

static void put_spare(st_domain *d, st_device_block *block, uint64_t used, uint64_t held)
{
    pthread_mutex_lock(&d->lock);
    block->next = d->spare;
    d->spare = block;
    d->used_bytes += used;
    d->held_bytes += held;
    d->peak_bytes = d->held_bytes > d->peak_bytes ? d->held_bytes : d->peak_bytes;
    d->n_allocs += held != 0;
    pthread_mutex_unlock(&d->lock);
}

static stator_status alloc_fresh(st_domain *d, uint64_t bytes, const st_stream *stream, void **out,
                                 stator_diag **err)
{
    void *handle = stream != NULL ? stream->handle : NULL;
    stator_diag *why = NULL;
    stator_status status = d->ops->alloc(d->self, bytes, handle, out, &why);
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        st_diag_release(why);
        why = NULL;
        (void)st_domain_trim(d);
        status = d->ops->alloc(d->self, bytes, handle, out, &why);
    }
    if (status == STATOR_RESOURCE_EXHAUSTED && why != NULL) {
        pthread_mutex_lock(&d->lock);
        const uint64_t used = d->used_bytes;
        pthread_mutex_unlock(&d->lock);
        st_diag_prefix(why, "device %s: no memory for %llu bytes beside the %llu that are in use",
                       d->name, (unsigned long long)bytes, (unsigned long long)used);
    }
    ST_TRY(st_diag_give(status, why, err));
    ST_FAIL_IF(*out == NULL || (uintptr_t)*out % d->alignment != 0, err, STATOR_INTERNAL,
               "device %s: its alloc gave %p for %llu bytes, expected an address aligned to %llu",
               d->name, *out, (unsigned long long)bytes, (unsigned long long)d->alignment);
    return STATOR_OK;
}

stator_status st_domain_take(st_domain *d, uint64_t bytes, st_stream *stream, void **out,
                             stator_diag **err)
{
    *out = NULL;
    ST_FAIL_IF(bytes > UINT64_C(1) << 62, err, STATOR_RESOURCE_EXHAUSTED,
               "a tensor has more than 2^62 bytes");
    uint64_t size = 0;
    const uint32_t c = st_size_class(bytes, &size);
    pthread_mutex_lock(&d->lock);
    st_device_block *block = find_free(d, c, stream);
    pthread_mutex_unlock(&d->lock);
    const bool is_fresh = block == NULL;
    if (is_fresh) {
        block = st_calloc(d->mem, 1, sizeof *block);
        ST_TRY_MEM(block, err);
        const stator_status status = alloc_fresh(d, size, stream, &block->p, err);
        if (stream != NULL) {
            st_stream_note(stream);
        }
        if (status != STATOR_OK) {
            st_free(d->mem, block);
            return status;
        }
    }
    *out = block->p;
    st_stream *before = block->stream;
    put_spare(d, block, size, is_fresh ? size : 0);
    if (before == NULL || before == stream || !st_stream_is_busy(before)) {
        return STATOR_OK;
    }
    if (stream == NULL) { /* what failed there is told to who waits for its results */
        (void)st_stream_wait(before, NULL);
        return STATOR_OK;
    }
    const stator_status status = st_stream_follow(stream, before, err);
    if (status != STATOR_OK) {
        st_domain_give(d, *out, bytes, before);
        *out = NULL;
    }
    return status;
}

void st_domain_give(st_domain *d, void *p, uint64_t bytes, st_stream *stream)
{
    if (p == NULL) {
        return;
    }
    uint64_t size = 0;
    const uint32_t c = st_size_class(bytes, &size);
    pthread_mutex_lock(&d->lock);
    st_device_block *block = d->spare;
    d->spare = block->next;
    *block = (st_device_block){.next = d->free_blocks[c], .p = p, .stream = stream};
    d->free_blocks[c] = block;
    d->used_bytes -= size;
    pthread_mutex_unlock(&d->lock);
}

void st_domain_deinit(st_domain *d)
{
    for (st_stream *s = d->all_streams; s != NULL; s = s->all) {
        (void)st_stream_wait(s, NULL); /* nothing queued names an event or a block that ends */
    }
    (void)st_domain_trim(d);
    while (d->all_streams != NULL) {
        st_stream *s = d->all_streams;
        d->all_streams = s->all;
        d->ops->event_destroy(d->self, s->event);
        if (!s->is_callers) {
            d->ops->stream_destroy(d->self, s->handle);
        }
        pthread_mutex_destroy(&s->lock);
        pthread_mutex_destroy(&s->waits);
        st_failures_forget(s);
        st_free(d->mem, s);
    }
    while (d->spare != NULL) {
        st_device_block *block = d->spare;
        d->spare = block->next;
        st_free(d->mem, block);
    }
    pthread_mutex_destroy(&d->lock);
}

/* ---- copies ---- */

static stator_status copy_by(st_stream *stream, void *dst, const void *src, uint64_t bytes,
                             uint32_t direction, stator_diag **err)
{
    st_domain *d = stream->domain;
    if (direction != STATOR_COPY_ON_DEVICE) {
        (void)atomic_fetch_add_explicit(&d->n_copies, 1, memory_order_relaxed);
        (void)atomic_fetch_add_explicit(&d->copied_bytes, bytes, memory_order_relaxed);
    }
    const stator_status status =
        d->ops->copy(d->self, dst, src, bytes, direction, stream->handle, err);
    st_stream_note(stream);
    return status;
}

static stator_status copy_through_host(void *dst, st_stream *to, const void *src, st_stream *from,
                                       uint64_t bytes, stator_diag **err)
{
    void *middle = st_pool_take(to->domain->host_pool, bytes);
    ST_TRY_MEM(middle, err);
    stator_status status = copy_by(from, middle, src, bytes, STATOR_COPY_TO_HOST, err);
    ST_THEN(status, st_stream_wait(from, err));
    ST_THEN(status, copy_by(to, dst, middle, bytes, STATOR_COPY_TO_DEVICE, err));
    st_pool_give(to->domain->host_pool, middle);
    return status;
}

stator_status st_domain_copy(void *dst, st_stream *to, const void *src, st_stream *from,
                             uint64_t bytes, stator_diag **err)
{
    if (bytes == 0) {
        return STATOR_OK;
    }
    if (to == NULL && from == NULL) {
        memcpy(dst, src, bytes);
        return STATOR_OK;
    }
    if (to == NULL) {
        return copy_by(from, dst, src, bytes, STATOR_COPY_TO_HOST, err);
    }
    if (from == NULL) {
        return copy_by(to, dst, src, bytes, STATOR_COPY_TO_DEVICE, err);
    }
    if (to->domain != from->domain) {
        return copy_through_host(dst, to, src, from, bytes, err);
    }
    ST_TRY(st_stream_follow(to, from, err));
    return copy_by(to, dst, src, bytes, STATOR_COPY_ON_DEVICE, err);
}

/* ---- strided copies ---- */

/* Runs of item bytes, one after the other. */
static stator_status copy_runs(char *dst, const char *src, const stator_strided_copy *layout,
                               st_stream *stream, stator_diag **err)
{
    int64_t index[STATOR_RANK_MAX] = {0};
    int64_t to = 0;
    int64_t from = 0;
    int32_t axis = 0;
    while (axis >= 0) {
        ST_TRY(st_domain_copy(dst + to, stream, src + from, stream, layout->item_bytes, err));
        for (axis = (int32_t)layout->rank - 1; axis >= 0; axis--) {
            to += layout->dst_strides[axis];
            from += layout->src_strides[axis];
            if (++index[axis] < layout->sizes[axis]) {
                break;
            }
            to -= layout->dst_strides[axis] * layout->sizes[axis];
            from -= layout->src_strides[axis] * layout->sizes[axis];
            index[axis] = 0;
        }
    }
    return STATOR_OK;
}

/* Axes that lie one behind the other in both layouts, written as one; those of size 1 left out. */
typedef struct merged {
    stator_strided_copy layout;
    int64_t sizes[STATOR_RANK_MAX], dst[STATOR_RANK_MAX], src[STATOR_RANK_MAX];
} merged;

static void merge_axes(const stator_strided_copy *layout, merged *m)
{
    uint32_t n = 0;
    uint64_t item = layout->item_bytes;
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        const int64_t size = layout->sizes[axis];
        const int64_t to = layout->dst_strides[axis];
        const int64_t from = layout->src_strides[axis];
        if (size == 1) {
            continue;
        }
        if (n != 0 && m->dst[n - 1u] == to * size && m->src[n - 1u] == from * size) {
            n--;
            m->sizes[n] *= size;
        } else {
            m->sizes[n] = size;
        }
        m->dst[n] = to;
        m->src[n] = from;
        n++;
    }
    if (n != 0 && m->dst[n - 1u] == (int64_t)item && m->src[n - 1u] == (int64_t)item) {
        item *= (uint64_t)m->sizes[--n];
    }
    m->layout = (stator_strided_copy){.struct_size = sizeof m->layout,
                                      .rank = n,
                                      .item_bytes = item,
                                      .sizes = m->sizes,
                                      .dst_strides = m->dst,
                                      .src_strides = m->src};
}

stator_status st_domain_copy_strided(void *dst, const void *src, const stator_strided_copy *layout,
                                     st_stream *stream, stator_diag **err)
{
    merged m;
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        if (layout->sizes[axis] == 0) {
            return STATOR_OK;
        }
    }
    merge_axes(layout, &m);
    if (stream == NULL || !stream->domain->copies_strided || m.layout.rank == 0) {
        return copy_runs(dst, src, &m.layout, stream, err);
    }
    const st_domain *d = stream->domain;
    const stator_status status =
        d->ops->copy_strided(d->self, dst, src, &m.layout, stream->handle, err);
    st_stream_note(stream);
    return status;
}

stator_status st_domain_fill(void *dst, st_stream *stream, uint8_t value, uint64_t bytes,
                             stator_diag **err)
{
    if (stream == NULL) {
        memset(dst, value, bytes);
        return STATOR_OK;
    }
    if (bytes == 0) {
        return STATOR_OK;
    }
    const st_domain *d = stream->domain;
    const stator_status status = d->ops->fill(d->self, dst, value, bytes, stream->handle, err);
    st_stream_note(stream);
    return status;
}
