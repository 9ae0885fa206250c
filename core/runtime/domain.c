/* Memory domains; see domain.h.
 *
 * Free blocks lie in lists by class of size. A class is found from the size alone, so that whoever
 * gives a block back says its size and nothing is written beside the block, which the host cannot
 * reach. The struct of a block that is in use waits in `spare`: giving one back cannot fail. */
#include "core/runtime/domain.h"

#include "core/base/check.h"

#include <string.h>

#define BYTES_MIN 256u
#define FIRST_CLASS_LOG2 8u

typedef struct st_device_block {
    struct st_device_block *next;
    void *p;
    st_stream *stream;
} st_device_block;

/* The class of the smallest size that holds `bytes`; *out_bytes is that size. Eight classes lie
 * between 2^k and 2^(k+1), in equal steps. */
static uint32_t class_of(uint64_t bytes, uint64_t *out_bytes)
{
    if (bytes <= BYTES_MIN) {
        *out_bytes = BYTES_MIN;
        return 0;
    }
    const uint32_t k = 63u - (uint32_t)__builtin_clzll(bytes - 1u);
    const uint64_t step = UINT64_C(1) << (k - 3u);
    const uint64_t steps = (bytes - (UINT64_C(1) << k) + step - 1u) / step; /* 1 to 8 */
    *out_bytes = (UINT64_C(1) << k) + steps * step;
    return (k - FIRST_CLASS_LOG2) * 8u + (uint32_t)steps;
}
_Static_assert((62u - FIRST_CLASS_LOG2) * 8u + 8u < ST_DOMAIN_CLASSES, "2^62 bytes have a class");

void st_domain_init(st_domain *d, st_mem *mem, st_pool *host_pool)
{
    d->mem = mem;
    d->host_pool = host_pool;
    pthread_mutex_init(&d->lock, NULL);
}

/* ---- memory ---- */

/* All free blocks, taken off their lists. */
static st_device_block *take_free(st_domain *d)
{
    st_device_block *all = NULL;
    pthread_mutex_lock(&d->lock);
    for (uint32_t c = 0; c < ST_DOMAIN_CLASSES; c++) {
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
        d->ops->free(d->self, block->p, block->stream != NULL ? block->stream->handle : NULL);
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
        if ((*b)->stream == stream || (*b)->stream == NULL) {
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
    const uint32_t c = class_of(bytes, &size);
    pthread_mutex_lock(&d->lock);
    st_device_block *block = find_free(d, c, stream);
    pthread_mutex_unlock(&d->lock);
    const bool is_fresh = block == NULL;
    if (is_fresh) {
        block = st_calloc(d->mem, 1, sizeof *block);
        ST_TRY_MEM(block, err);
        const stator_status status = alloc_fresh(d, size, stream, &block->p, err);
        if (status != STATOR_OK) {
            st_free(d->mem, block);
            return status;
        }
    }
    *out = block->p;
    st_stream *before = block->stream;
    put_spare(d, block, size, is_fresh ? size : 0);
    if (before == NULL || before == stream) {
        return STATOR_OK;
    }
    if (stream == NULL) { /* what failed there is told to who waits for its results */
        st_stream_drain(before);
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
    const uint32_t c = class_of(bytes, &size);
    pthread_mutex_lock(&d->lock);
    st_device_block *block = d->spare;
    d->spare = block->next;
    *block = (st_device_block){.next = d->free_blocks[c], .p = p, .stream = stream};
    d->free_blocks[c] = block;
    d->used_bytes -= size;
    pthread_mutex_unlock(&d->lock);
}

/* ---- streams ---- */

static stator_status make_stream(st_domain *d, st_stream **out, stator_diag **err)
{
    st_stream *s = st_calloc(d->mem, 1, sizeof *s);
    ST_TRY_MEM(s, err);
    s->domain = d;
    stator_status status = d->ops->stream_create(d->self, &s->handle, err);
    if (status == STATOR_OK) {
        status = d->ops->event_create(d->self, &s->event, err);
        if (status != STATOR_OK) {
            d->ops->stream_destroy(d->self, s->handle);
        }
    }
    if (status != STATOR_OK) {
        st_free(d->mem, s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_lock(&d->lock);
    s->all = d->all_streams;
    d->all_streams = s;
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return STATOR_OK;
}

/* A failure that is kept is told to who waits for a tensor, not to the next user of the stream. */
static bool keeps_failure(st_stream *s)
{
    pthread_mutex_lock(&s->lock);
    const bool is_kept = s->kept != STATOR_OK;
    pthread_mutex_unlock(&s->lock);
    return is_kept;
}

stator_status st_stream_acquire(st_domain *d, st_stream **out, stator_diag **err)
{
    pthread_mutex_lock(&d->lock);
    st_stream **at = &d->free_streams;
    while (*at != NULL && keeps_failure(*at)) {
        at = &(*at)->next;
    }
    st_stream *s = *at;
    if (s != NULL) {
        *at = s->next;
    }
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return s != NULL ? STATOR_OK : make_stream(d, out, err);
}

void st_stream_release(st_stream *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->domain->lock);
    s->next = s->domain->free_streams;
    s->domain->free_streams = s;
    pthread_mutex_unlock(&s->domain->lock);
}

stator_status st_stream_follow(st_stream *later, st_stream *earlier, stator_diag **err)
{
    const st_domain *d = earlier->domain;
    if (later == earlier) {
        return STATOR_OK;
    }
    if (later->domain != d) {
        return st_stream_wait(earlier, err);
    }
    pthread_mutex_lock(&earlier->lock);
    stator_status status = d->ops->event_record(d->self, earlier->event, earlier->handle, err);
    if (status == STATOR_OK) {
        status = d->ops->event_wait(d->self, earlier->event, later->handle, err);
    }
    pthread_mutex_unlock(&earlier->lock);
    return status;
}

static stator_status synchronize(const st_stream *s, stator_diag **err)
{
    return s->domain->ops->synchronize(s->domain->self, s->handle, err);
}

void st_stream_drain(st_stream *s)
{
    stator_diag *why = NULL;
    const stator_status status = synchronize(s, &why);
    pthread_mutex_lock(&s->lock);
    if (s->kept == STATOR_OK) {
        s->kept = status;
        s->kept_why = why;
        why = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    st_diag_release(why);
}

stator_status st_stream_wait(st_stream *s, stator_diag **err)
{
    pthread_mutex_lock(&s->lock);
    const stator_status kept = s->kept;
    stator_diag *why = s->kept_why;
    s->kept = STATOR_OK;
    s->kept_why = NULL;
    pthread_mutex_unlock(&s->lock);
    if (kept == STATOR_OK) {
        return synchronize(s, err);
    }
    (void)synchronize(s, NULL);
    return st_diag_give(kept, why, err);
}

void st_domain_deinit(st_domain *d)
{
    for (st_stream *s = d->all_streams; s != NULL; s = s->all) {
        st_stream_drain(s); /* nothing queued names an event or a block that ends */
    }
    (void)st_domain_trim(d);
    while (d->all_streams != NULL) {
        st_stream *s = d->all_streams;
        d->all_streams = s->all;
        d->ops->event_destroy(d->self, s->event);
        d->ops->stream_destroy(d->self, s->handle);
        pthread_mutex_destroy(&s->lock);
        st_diag_release(s->kept_why);
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
    const st_domain *d = stream->domain;
    return d->ops->copy(d->self, dst, src, bytes, direction, stream->handle, err);
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

stator_status st_domain_fill(void *dst, st_stream *stream, uint8_t value, uint64_t bytes,
                             stator_diag **err)
{
    if (stream == NULL) {
        memset(dst, value, bytes);
        return STATOR_OK;
    }
    const st_domain *d = stream->domain;
    return bytes != 0 ? d->ops->fill(d->self, dst, value, bytes, stream->handle, err) : STATOR_OK;
}
