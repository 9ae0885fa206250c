/* Tensors of the application; see tensor.h. Zero-copy DLPack both ways: a tensor made from a
 * capsule runs the capsule's deleter when its last reference goes, a capsule made from a tensor
 * holds a reference. Sub-byte dtypes have no DLPack spelling with our packing other than bits = 4.
 */
#include "core/runtime/tensor.h"

#include "core/base/check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool st_tensor_is_dense(const DLTensor *t)
{
    if (t->strides == NULL) {
        return true;
    }
    int64_t expected = 1;
    for (int32_t axis = t->ndim - 1; axis >= 0; axis--) {
        if (t->shape[axis] != 1 && t->strides[axis] != expected) {
            return false;
        }
        ST_NEED(st_mul_i64(expected, t->shape[axis], &expected));
    }
    return true;
}

/* The axis of the smallest stride among those of more than one element that are left; -1: none. */
static int32_t find_least(const DLTensor *t, const bool *is_done)
{
    int32_t least = -1;
    for (int32_t axis = 0; axis < t->ndim; axis++) {
        if (!is_done[axis] && t->shape[axis] > 1 &&
            (least < 0 || llabs(t->strides[axis]) < llabs(t->strides[least]))) {
            least = axis;
        }
    }
    return least;
}

/* One axis after the other leads past what those of smaller strides reach: then no two elements lie
 * in one place. */
bool st_tensor_has_overlap(const DLTensor *t)
{
    bool is_done[STATOR_RANK_MAX] = {false};
    int64_t reach = 0;
    int32_t axis = t->strides != NULL ? find_least(t, is_done) : -1;
    for (; axis >= 0; axis = find_least(t, is_done)) {
        const int64_t stride = llabs(t->strides[axis]);
        if (stride <= reach) {
            return true;
        }
        reach += stride * (t->shape[axis] - 1);
        is_done[axis] = true;
    }
    return false;
}

void st_tensor_copy_dense(const DLTensor *src, void *dst)
{
    const uint64_t item = src->dtype.bits / 8u;
    const char *base = (const char *)src->data + src->byte_offset;
    uint64_t count = 0;
    if (!st_numel(src->shape, (uint32_t)src->ndim, &count)) {
        return;
    }
    if (st_tensor_is_dense(src)) {
        uint64_t bytes = 0;
        if (st_dtype_bytes(st_dtype_from_dl(src->dtype), count, &bytes)) {
            memcpy(dst, base, bytes);
        }
        return;
    }
    int64_t index[STATOR_RANK_MAX] = {0};
    int64_t offset = 0;
    for (uint64_t i = 0; i < count; i++) {
        memcpy((char *)dst + i * item, base + offset * (int64_t)item, item);
        for (int32_t axis = src->ndim - 1; axis >= 0; axis--) {
            offset += src->strides[axis];
            if (++index[axis] < src->shape[axis]) {
                break;
            }
            offset -= src->strides[axis] * src->shape[axis];
            index[axis] = 0;
        }
    }
}

static stator_status check_shape(stator_dtype dtype, uint32_t rank, const int64_t *shape,
                                 uint64_t *out_bytes, stator_diag **err)
{
    ST_FAIL_IF(rank > STATOR_RANK_MAX, err, STATOR_INVALID_ARGUMENT,
               "a tensor has at most %d axes, not %u", STATOR_RANK_MAX, rank);
    ST_FAIL_IF(st_dtype_bits(dtype) == 0, err, STATOR_INVALID_ARGUMENT,
               "dtype %u is not one of stator/dtype.def", dtype);
    uint64_t count = 0;
    ST_REQUIRE_LIST(shape, rank, err);
    if (!st_numel(shape, rank, &count) || !st_dtype_bytes(dtype, count, out_bytes)) {
        char text[256];
        return st_fail(
            err, STATOR_INVALID_ARGUMENT,
            "there is no tensor of %s%s: its sizes must be 0 or more, and 2^62 bytes are "
            "the most",
            st_dtype_name(dtype), st_shape_text(shape, rank, text, sizeof text));
    }
    return STATOR_OK;
}

static stator_tensor *new_tensor(st_mem *mem, stator_dtype dtype, uint32_t rank,
                                 const int64_t *shape, uint64_t bytes)
{
    stator_tensor *t = st_calloc(mem, 1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->dtype = dtype;
    t->size_bytes = bytes;
    t->mem = mem;
    if (rank != 0) {
        memcpy(t->shape, shape, rank * sizeof *shape);
    }
    t->view = (DLTensor){.device = {.device_type = kDLCPU},
                         .ndim = (int32_t)rank,
                         .dtype = st_dtype_to_dl(dtype),
                         .shape = t->shape};
    return t;
}

stator_status st_tensor_create(st_mem *mem, st_pool *pool, stator_dtype dtype, uint32_t rank,
                               const int64_t *shape, stator_tensor **out_tensor, stator_diag **err)
{
    *out_tensor = NULL;
    uint64_t bytes = 0;
    ST_TRY(check_shape(dtype, rank, shape, &bytes, err));
    stator_tensor *t = new_tensor(mem, dtype, rank, shape, bytes);
    ST_TRY_MEM(t, err);
    t->pool = pool;
    t->view.data = st_pool_take(pool, bytes);
    if (t->view.data == NULL) {
        st_free(mem, t);
        return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "no memory for a tensor of %llu bytes",
                       (unsigned long long)bytes);
    }
    *out_tensor = t;
    return STATOR_OK;
}

stator_status st_tensor_create_on(st_domain *domain, st_stream *stream, stator_dtype dtype,
                                  uint32_t rank, const int64_t *shape, stator_tensor **out_tensor,
                                  stator_diag **err)
{
    *out_tensor = NULL;
    uint64_t bytes = 0;
    ST_TRY(check_shape(dtype, rank, shape, &bytes, err));
    stator_tensor *t = new_tensor(domain->mem, dtype, rank, shape, bytes);
    ST_TRY_MEM(t, err);
    t->domain = domain;
    t->view.device = domain->device;
    t->writer = stream;
    const stator_status status = st_domain_take(domain, bytes, stream, &t->view.data, err);
    if (status != STATOR_OK) {
        st_free(domain->mem, t);
        return status;
    }
    *out_tensor = t;
    return STATOR_OK;
}

/* The first and last element, in elements from `data`, of a tensor with strides. */
static bool reach_of_axes(const DLTensor *t, int64_t *out_lowest, int64_t *out_highest)
{
    *out_lowest = *out_highest = 0;
    for (int32_t axis = 0; axis < t->ndim; axis++) {
        int64_t span = 0;
        ST_NEED(st_mul_i64(t->shape[axis] - 1, t->strides[axis], &span));
        int64_t *bound = span < 0 ? out_lowest : out_highest;
        ST_NEED(st_add_i64(*bound, span, bound));
    }
    return true;
}

/* In bytes from `data`. */
static bool reach_in_bytes(const DLTensor *t, uint64_t bytes, int64_t *begin, int64_t *end)
{
    const int64_t item = t->dtype.bits / 8u;
    if (item == 0 || st_tensor_is_dense(t)) {
        *begin = 0;
        *end = (int64_t)bytes;
    } else {
        ST_NEED(reach_of_axes(t, begin, end));
        ST_NEED(st_mul_i64(*begin, item, begin) && st_mul_i64(*end, item, end));
        ST_NEED(st_add_i64(*end, item, end));
    }
    return t->byte_offset <= INT64_MAX && st_add_i64(*begin, (int64_t)t->byte_offset, begin) &&
           st_add_i64(*end, (int64_t)t->byte_offset, end);
}

stator_status st_tensor_reach(const DLTensor *t, st_reach *out, stator_diag **err)
{
    uint64_t bytes = 0;
    int64_t begin = 0;
    int64_t end = 0;
    *out = (st_reach){.p = NULL};
    const stator_dtype dtype = st_dtype_from_dl(t->dtype);
    ST_FAIL_IF(t->ndim < 0 || (t->ndim != 0 && t->shape == NULL), err, STATOR_INVALID_ARGUMENT,
               "the tensor has %d axes%s", t->ndim, t->ndim > 0 ? " and no shape" : "");
    ST_FAIL_IF(dtype == 0, err, STATOR_INVALID_ARGUMENT,
               "DLPack's dtype of code %u with %u bits and %u lanes is none of stator/dtype.def",
               t->dtype.code, t->dtype.bits, t->dtype.lanes);
    ST_TRY(check_shape(dtype, (uint32_t)t->ndim, t->shape, &bytes, err));
    if (bytes == 0) {
        return STATOR_OK;
    }
    ST_FAIL_IF(t->data == NULL, err, STATOR_INVALID_ARGUMENT, "the tensor's data is NULL");
    const uintptr_t p = (uintptr_t)t->data;
    const bool is_known = reach_in_bytes(t, bytes, &begin, &end);
    const uint64_t below = is_known && begin < 0 ? (uint64_t)-begin : 0;
    const uint64_t above = is_known && end > 0 ? (uint64_t)end : 0;
    ST_FAIL_IF(!is_known || below > p || above > UINTPTR_MAX - p, err, STATOR_INVALID_ARGUMENT,
               "the tensor's strides and byte_offset (%llu) lead past the last address",
               (unsigned long long)t->byte_offset);
    *out = (st_reach){.p = t->data, .below = below, .above = above};
    return STATOR_OK;
}

/* The deleter of a capsule while a tensor has it: any context of the process sees that it is taken,
 * and whoever still runs the deleter, as of a capsule that was not given away, ends nothing. */
static void end_nothing(DLManagedTensorVersioned *managed)
{
    (void)managed;
}

/* Of two threads one gets the capsule. */
static bool claim(stator_tensor *t)
{
    t->end_managed = __atomic_exchange_n(&t->managed->deleter, end_nothing, __ATOMIC_ACQ_REL);
    return t->end_managed != end_nothing;
}

/* The capsule's owner finds it as it was. */
static void end_managed(const stator_tensor *t)
{
    __atomic_store_n(&t->managed->deleter, t->end_managed, __ATOMIC_RELEASE);
    if (t->end_managed != NULL) {
        t->end_managed(t->managed);
    }
}

/* ---- capsules ---- */

typedef struct export_box {
    DLManagedTensorVersioned managed; /* first: the capsule's address is the box's */
    stator_tensor *tensor;
} export_box;

static void delete_export(DLManagedTensorVersioned *managed)
{
    export_box *box = (export_box *)(void *)managed;
    st_mem *mem = box->tensor->mem;
    stator_tensor_release(box->tensor);
    st_free(mem, box);
}

/* A capsule of ours that comes back: the calls that computed its elements. */
static void adopt_late(stator_tensor *t)
{
    if (t->end_managed != delete_export || t->domain == NULL) {
        return;
    }
    stator_tensor *of = ((export_box *)(void *)t->managed)->tensor;
    if (of->domain == t->domain) {
        pthread_mutex_lock(&t->domain->lock);
        t->late = of->late;
        atomic_store(&t->has_late, t->late.n != 0);
        pthread_mutex_unlock(&t->domain->lock);
    }
}

stator_status st_tensor_adopt(st_mem *mem, st_domain *domain, DLManagedTensorVersioned *managed,
                              stator_tensor **out_tensor, stator_diag **err)
{
    *out_tensor = NULL;
    const DLTensor *src = &managed->dl_tensor;
    uint64_t bytes = 0;
    const stator_dtype dtype = st_dtype_from_dl(src->dtype);
    ST_TRY(check_shape(dtype, (uint32_t)src->ndim, src->shape, &bytes, err));
    ST_FAIL_IF(st_dtype_bits(dtype) < 8 && !st_tensor_is_dense(src), err, STATOR_UNIMPLEMENTED,
               "tensors of %s must be dense", st_dtype_name(dtype));
    stator_tensor *t = new_tensor(mem, dtype, (uint32_t)src->ndim, src->shape, bytes);
    ST_TRY_MEM(t, err);
    t->managed = managed;
    t->is_read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    t->domain = domain;
    t->view.device = src->device;
    t->view.data = src->data;
    t->view.byte_offset = src->byte_offset;
    if (!st_tensor_is_dense(src)) {
        memcpy(t->strides, src->strides, (size_t)src->ndim * sizeof *src->strides);
        t->view.strides = t->strides;
    }
    if (!claim(t)) {
        st_free(mem, t);
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "the DLPack tensor has been taken over already by a tensor that lives; a "
                       "capsule is consumed once");
    }
    adopt_late(t);
    *out_tensor = t;
    return STATOR_OK;
}

stator_status st_tensor_wrap(st_mem *mem, const DLTensor *layout, const stator_buffer *buffer,
                             stator_tensor **out_tensor, stator_diag **err)
{
    *out_tensor = NULL;
    uint64_t bytes = 0;
    const stator_dtype dtype = st_dtype_from_dl(layout->dtype);
    ST_TRY(check_shape(dtype, (uint32_t)layout->ndim, layout->shape, &bytes, err));
    ST_FAIL_IF(buffer->size_bytes < bytes || (buffer->data == NULL && bytes != 0), err,
               STATOR_INVALID_ARGUMENT, "the tensor takes %llu bytes, the buffer has %llu%s",
               (unsigned long long)bytes, (unsigned long long)buffer->size_bytes,
               buffer->data == NULL ? " and no data" : "");
    stator_tensor *t = new_tensor(mem, dtype, (uint32_t)layout->ndim, layout->shape, bytes);
    ST_TRY_MEM(t, err);
    t->view.data = buffer->data;
    t->deleter = buffer->deleter;
    t->deleter_self = buffer->self;
    *out_tensor = t;
    return STATOR_OK;
}

/* ---- devices ---- */

/* Those that a stream has to follow. */
typedef struct earlier {
    st_stream *streams[ST_TENSOR_READERS + 1u];
    uint32_t n;
} earlier;

static void add_earlier(earlier *e, st_stream *stream)
{
    if (stream != NULL) {
        e->streams[e->n++] = stream;
    }
}

static stator_status follow_all(const earlier *e, st_stream *stream, stator_diag **err)
{
    for (uint32_t i = 0; i < e->n; i++) {
        ST_TRY(st_stream_follow(stream, e->streams[i], err));
    }
    return STATOR_OK;
}

/* Lock held. Where there is no room the reader follows one that is there, and takes its place. */
static void add_reader(stator_tensor *t, st_stream *stream, earlier *e)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < ST_TENSOR_READERS; i++) {
        if (t->readers[i] == stream) { /* it has followed the writer */
            return;
        }
        at = t->readers[i] == NULL || !st_stream_is_busy(t->readers[i]) ? i : at;
    }
    add_earlier(e, t->readers[at]);
    add_earlier(e, t->writer);
    t->readers[at] = stream;
}

stator_status st_tensor_read(stator_tensor *t, st_stream *stream, stator_diag **err)
{
    earlier e = {.n = 0};
    pthread_mutex_lock(&t->domain->lock);
    if (t->writer != stream) {
        add_reader(t, stream, &e);
    }
    pthread_mutex_unlock(&t->domain->lock);
    return follow_all(&e, stream, err);
}

/* Lock held: all that use it, and nobody from here on. */
static void take_users(stator_tensor *t, earlier *e)
{
    add_earlier(e, t->writer);
    t->writer = NULL;
    for (uint32_t i = 0; i < ST_TENSOR_READERS; i++) {
        add_earlier(e, t->readers[i]);
        t->readers[i] = NULL;
    }
}

stator_status st_tensor_write(stator_tensor *t, st_stream *stream, stator_diag **err)
{
    earlier e = {.n = 0};
    pthread_mutex_lock(&t->domain->lock);
    take_users(t, &e);
    t->writer = stream;
    pthread_mutex_unlock(&t->domain->lock);
    return follow_all(&e, stream, err);
}

stator_status st_tensor_get_late(stator_tensor *t, st_late_calls *into, stator_diag **err)
{
    if (!atomic_load(&t->has_late)) {
        return STATOR_OK;
    }
    pthread_mutex_lock(&t->domain->lock);
    const st_late_calls late = t->late;
    pthread_mutex_unlock(&t->domain->lock);
    st_late_add(into, &late);
    return st_late_known(&late, t->domain, err);
}

void st_tensor_set_late(stator_tensor *t, const st_late_calls *calls)
{
    const uint32_t n = calls != NULL ? calls->n : 0;
    if (n == 0 && !atomic_load(&t->has_late)) {
        return;
    }
    pthread_mutex_lock(&t->domain->lock);
    t->late.n = n;
    if (n != 0) {
        memcpy(t->late.ranges, calls->ranges, n * sizeof calls->ranges[0]);
    }
    atomic_store(&t->has_late, n != 0);
    pthread_mutex_unlock(&t->domain->lock);
}

stator_status st_tensor_wait(stator_tensor *t, stator_diag **err)
{
    if (t->domain == NULL) {
        return STATOR_OK;
    }
    pthread_mutex_lock(&t->domain->lock);
    st_stream *writer = t->writer;
    st_late_calls late = t->late;
    pthread_mutex_unlock(&t->domain->lock);
    if (writer != NULL) {
        ST_TRY(st_stream_wait(writer, err));
    }
    return st_late_check(&late, t->domain, err);
}

/* ---- copies ---- */

/* The bytes between neighbours of two tensors of one shape. */
typedef struct packing {
    stator_strided_copy layout;
    int64_t dst[STATOR_RANK_MAX], src[STATOR_RANK_MAX];
} packing;

/* Of two tensors, or of one and a dense block, which is NULL. */
static void set_layout(const DLTensor *dst, const DLTensor *src, packing *p)
{
    const DLTensor *shaped = src != NULL ? src : dst;
    const int64_t *to = dst != NULL ? dst->strides : NULL;
    const int64_t *from = src != NULL ? src->strides : NULL;
    const int64_t item = shaped->dtype.bits / 8u;
    int64_t dense = item;
    for (int32_t axis = shaped->ndim - 1; axis >= 0; axis--) {
        p->dst[axis] = to != NULL ? to[axis] * item : dense;
        p->src[axis] = from != NULL ? from[axis] * item : dense;
        dense *= shaped->shape[axis];
    }
    p->layout = (stator_strided_copy){.struct_size = sizeof p->layout,
                                      .rank = (uint32_t)shaped->ndim,
                                      .item_bytes = (uint64_t)item,
                                      .sizes = shaped->shape,
                                      .dst_strides = p->dst,
                                      .src_strides = p->src};
}

/* A dense block beside a tensor, in its memory. */
static stator_status take_beside(const stator_tensor *t, st_stream *stream, st_pool *pool,
                                 void **out, stator_diag **err)
{
    if (t->domain != NULL) {
        return st_domain_take(t->domain, t->size_bytes, stream, out, err);
    }
    *out = st_pool_take(pool, t->size_bytes);
    ST_TRY_MEM(*out, err);
    return STATOR_OK;
}

static void give_beside(const stator_tensor *t, st_stream *stream, st_pool *pool, void *block)
{
    if (t->domain != NULL) {
        st_domain_give(t->domain, block, t->size_bytes, stream);
    } else {
        st_pool_give(pool, block);
    }
}

/* Between two memories one of the tensors is dense; the other one's elements pass through a dense
 * block beside it. */
static stator_status copy_through(stator_tensor *dst, st_stream *to, const stator_tensor *src,
                                  st_stream *from, stator_diag **err)
{
    packing p;
    void *block = NULL;
    void *into = st_tensor_address(dst);
    const void *address = st_tensor_address(src);
    const uint64_t bytes = src->size_bytes;
    const bool is_packed_first = !st_tensor_is_dense(&src->view);
    const stator_tensor *strided = is_packed_first ? src : dst;
    st_stream *stream = is_packed_first ? from : to;
    st_pool *pool = (to != NULL ? dst : src)->domain->host_pool;
    ST_TRY(take_beside(strided, stream, pool, &block, err));
    stator_status status = STATOR_OK;
    if (is_packed_first) {
        set_layout(NULL, &src->view, &p);
        status = st_domain_copy_strided(block, address, &p.layout, from, err);
        ST_THEN(status, st_domain_copy(into, to, block, from, bytes, err));
    } else {
        set_layout(&dst->view, NULL, &p);
        status = st_domain_copy(block, to, address, from, bytes, err);
        if (status == STATOR_OK && to == NULL) {
            status = st_stream_wait(from, err);
        }
        ST_THEN(status, st_domain_copy_strided(into, block, &p.layout, to, err));
    }
    give_beside(strided, stream, pool, block);
    return status;
}

static stator_status copy_elements(stator_tensor *dst, st_stream *to, stator_tensor *src,
                                   st_stream *from, stator_diag **err)
{
    const bool is_dense = st_tensor_is_dense(&dst->view);
    void *into = st_tensor_address(dst);
    packing p;
    if (to == NULL && from == NULL && is_dense) {
        st_tensor_copy_dense(&src->view, into);
        return STATOR_OK;
    }
    if (is_dense && st_tensor_is_dense(&src->view)) {
        return st_domain_copy(into, to, st_tensor_address(src), from, src->size_bytes, err);
    }
    if (to == from) {
        set_layout(&dst->view, &src->view, &p);
        return st_domain_copy_strided(into, st_tensor_address(src), &p.layout, from, err);
    }
    return copy_through(dst, to, src, from, err);
}

/* What has gone through the host has been waited for; on one device dst is told of what src is. */
static stator_status copy_on(stator_tensor *dst, st_stream *to, stator_tensor *src, st_stream *from,
                             stator_diag **err)
{
    st_late_calls late = {.n = 0};
    if (from != NULL) {
        ST_TRY(st_tensor_read(src, from, err));
        ST_TRY(st_tensor_get_late(src, &late, err));
    }
    if (to != NULL) {
        ST_TRY(st_tensor_write(dst, to, err));
    }
    ST_TRY(copy_elements(dst, to, src, from, err));
    if (to == NULL && from != NULL) {
        ST_TRY(st_stream_wait(from, err));
    }
    if (from != NULL && to != from) {
        ST_TRY(st_late_check(&late, src->domain, err));
    }
    if (to != NULL) {
        st_tensor_set_late(dst, &late);
    }
    return STATOR_OK;
}

stator_status st_tensor_copy(stator_tensor *dst, stator_tensor *src, stator_diag **err)
{
    st_stream *from = NULL;
    st_stream *to = NULL;
    stator_status status =
        src->domain != NULL ? st_stream_acquire(src->domain, &from, err) : STATOR_OK;
    if (dst->domain != NULL && dst->domain == src->domain) {
        to = from;
    } else if (dst->domain != NULL && status == STATOR_OK) {
        status = st_stream_acquire(dst->domain, &to, err);
    }
    ST_THEN(status, copy_on(dst, to, src, from, err));
    st_stream_release(from);
    st_stream_release(to != from ? to : NULL);
    return status;
}

stator_status st_tensor_on_host(st_mem *mem, st_pool *pool, stator_tensor *tensor,
                                stator_tensor **out, stator_diag **err)
{
    *out = NULL;
    if (tensor->domain == NULL && st_tensor_is_dense(&tensor->view)) {
        stator_tensor_retain(tensor);
        *out = tensor;
        return STATOR_OK;
    }
    ST_TRY(st_tensor_create(mem, pool, tensor->dtype, (uint32_t)tensor->view.ndim,
                            tensor->view.shape, out, err));
    return st_tensor_copy(*out, tensor, err);
}

void stator_tensor_retain(stator_tensor *t)
{
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
}

/* The owner of the memory may end it at once. It has ordered its own streams itself. */
static void end_uses(stator_tensor *t)
{
    earlier e = {.n = 0};
    take_users(t, &e);
    for (uint32_t i = 0; i < e.n; i++) {
        if (!e.streams[i]->is_callers) {
            (void)st_stream_wait(e.streams[i], NULL);
        }
    }
}

/* A stream behind all that used the memory, NULL: nothing queued does. */
static st_stream *last_user(stator_tensor *t)
{
    earlier e = {.n = 0};
    st_stream *last = NULL;
    take_users(t, &e);
    for (uint32_t i = 0; i < e.n; i++) { /* none of the application's, if there is a choice */
        st_stream *stream = e.streams[i];
        if (!st_stream_is_busy(stream) || stream == last) {
            continue;
        }
        st_stream *before = last != NULL && last->is_callers ? last : stream;
        last = last == NULL || before == last ? stream : last;
        if (before != last && st_stream_follow(last, before, NULL) != STATOR_OK) {
            (void)st_stream_wait(before, NULL);
        }
    }
    return last;
}

void stator_tensor_release(stator_tensor *t)
{
    if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (t->managed != NULL) {
        end_uses(t);
        end_managed(t);
    } else if (t->domain != NULL) {
        st_domain_give(t->domain, t->view.data, t->size_bytes, last_user(t));
    } else if (t->pool != NULL) {
        st_pool_give(t->pool, t->view.data);
    } else if (t->deleter != NULL) {
        t->deleter(t->deleter_self, t->view.data);
    }
    st_free(t->mem, t);
}

const DLTensor *stator_tensor_view(const stator_tensor *t)
{
    return &t->view;
}

stator_dtype stator_tensor_dtype(const stator_tensor *t)
{
    return t->dtype;
}

void *stator_tensor_data(const stator_tensor *t)
{
    if (t->domain != NULL) {
        stator_diag *why = NULL;
        const stator_status status =
            st_fail(&why, STATOR_FAILED_PRECONDITION,
                    "the tensor lies on a device, and its address is none of the host: copy it to "
                    "a tensor of the host with stator_tensor_copy, or take the device's address "
                    "from stator_tensor_view");
        (void)t->domain->ops->tell(t->domain->self, status, why);
        return NULL;
    }
    return st_tensor_address(t);
}

uint64_t stator_tensor_size_bytes(const stator_tensor *t)
{
    return t->size_bytes;
}

/* The consumer's stream comes behind the writer and is who reads, and may write, from then on. What
 * is known to have failed is told: later the consumer asks nobody. */
static stator_status hand_to_stream(stator_tensor *t, void *handle, stator_diag **err)
{
    st_stream *stream = NULL;
    st_late_calls late = {.n = 0};
    ST_TRY(st_tensor_get_late(t, &late, err));
    ST_TRY(st_stream_of_caller(t->domain, handle, &stream, err));
    ST_TRY(st_tensor_write(t, stream, err));
    st_stream_note(stream); /* what it queues we are not told */
    return STATOR_OK;
}

static stator_status make_ready(stator_tensor *t, void *stream)
{
    stator_diag *why = NULL;
    const stator_status status =
        stream != NULL ? hand_to_stream(t, stream, &why) : st_tensor_wait(t, &why);
    return status == STATOR_OK ? STATOR_OK : t->domain->ops->tell(t->domain->self, status, why);
}

stator_status stator_tensor_to_dlpack_on(stator_tensor *t, void *stream,
                                         DLManagedTensorVersioned **out_managed)
{
    *out_managed = NULL;
    if (t->domain != NULL) {
        ST_TRY(make_ready(t, stream));
    }
    export_box *box = st_calloc(t->mem, 1, sizeof *box);
    if (box == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    stator_tensor_retain(t);
    box->tensor = t;
    box->managed = (DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .deleter = delete_export,
        .flags = t->is_read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
        .dl_tensor = t->view};
    *out_managed = &box->managed;
    return STATOR_OK;
}

stator_status stator_tensor_to_dlpack(stator_tensor *t, DLManagedTensorVersioned **out_managed)
{
    return stator_tensor_to_dlpack_on(t, NULL, out_managed);
}
