/* Tensors of the application; see tensor.h. Zero-copy DLPack both ways: a tensor made from a
 * capsule runs the capsule's deleter when its last reference goes, a capsule made from a tensor
 * holds a reference. Sub-byte dtypes have no DLPack spelling with our packing other than bits = 4.
 */
#include "core/runtime/tensor.h"

#include "core/base/check.h"

#include <stdatomic.h>
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
        expected *= t->shape[axis];
    }
    return true;
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
    atomic_init(&t->stream, NULL);
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
    atomic_init(&t->stream, stream);
    const stator_status status = st_domain_take(domain, bytes, stream, &t->view.data, err);
    if (status != STATOR_OK) {
        st_free(domain->mem, t);
        return status;
    }
    *out_tensor = t;
    return STATOR_OK;
}

stator_status st_tensor_adopt(st_mem *mem, st_domain *domain, DLManagedTensorVersioned *managed,
                              stator_tensor **out_tensor, stator_diag **err)
{
    *out_tensor = NULL;
    ST_REQUIRE(managed, err);
    const DLTensor *src = &managed->dl_tensor;
    ST_FAIL_IF(managed->version.major != DLPACK_MAJOR_VERSION, err, STATOR_INVALID_ARGUMENT,
               "DLPack %u.%u is not version 1", managed->version.major, managed->version.minor);
    ST_FAIL_IF(src->ndim < 0, err, STATOR_INVALID_ARGUMENT, "ndim is negative");
    uint64_t bytes = 0;
    const stator_dtype dtype = st_dtype_from_dl(src->dtype);
    ST_TRY(check_shape(dtype, (uint32_t)src->ndim, src->shape, &bytes, err));
    ST_FAIL_IF(bytes != 0 && src->data == NULL, err, STATOR_INVALID_ARGUMENT,
               "the tensor's data is NULL");
    ST_FAIL_IF(st_dtype_bits(dtype) < 8 && !st_tensor_is_dense(src), err, STATOR_UNIMPLEMENTED,
               "tensors of %s must be dense", st_dtype_name(dtype));
    stator_tensor *t = new_tensor(mem, dtype, (uint32_t)src->ndim, src->shape, bytes);
    ST_TRY_MEM(t, err);
    t->managed = managed;
    t->domain = domain;
    t->view.device = src->device;
    t->view.data = src->data;
    t->view.byte_offset = src->byte_offset;
    if (!st_tensor_is_dense(src)) {
        memcpy(t->strides, src->strides, (size_t)src->ndim * sizeof *src->strides);
        t->view.strides = t->strides;
    }
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

stator_status st_tensor_use(stator_tensor *t, st_stream *stream, stator_diag **err)
{
    st_stream *before = atomic_exchange(&t->stream, stream);
    return before != NULL && before != stream ? st_stream_follow(stream, before, err) : STATOR_OK;
}

stator_status st_tensor_wait(stator_tensor *t, stator_diag **err)
{
    st_stream *stream = atomic_load(&t->stream);
    return stream != NULL ? st_stream_wait(stream, err) : STATOR_OK;
}

/* Copies runs of elements that lie side by side in both; `at` counts bytes of dst. */
static stator_status copy_runs(const DLTensor *src, st_stream *from, char *dst, st_stream *to,
                               stator_diag **err)
{
    const uint64_t item = src->dtype.bits / 8u;
    const char *base = (const char *)src->data + src->byte_offset;
    const int32_t last = src->ndim - 1;
    const bool is_run = last >= 0 && (src->strides[last] == 1 || src->shape[last] == 1);
    const uint64_t run = is_run ? (uint64_t)src->shape[last] : 1u;
    const int32_t n_axes = is_run ? last : src->ndim;
    int64_t index[STATOR_RANK_MAX] = {0};
    int64_t offset = 0;
    uint64_t count = 0;
    (void)st_numel(src->shape, (uint32_t)src->ndim, &count);
    for (uint64_t i = 0; i < count; i += run) {
        ST_TRY(st_domain_copy(dst + i * item, to, base + offset * (int64_t)item, from, run * item,
                              err));
        for (int32_t axis = n_axes - 1; axis >= 0; axis--) {
            offset += src->strides[axis];
            if (++index[axis] < src->shape[axis]) {
                break;
            }
            offset -= src->strides[axis] * src->shape[axis];
            index[axis] = 0;
        }
    }
    return STATOR_OK;
}

static stator_status copy_on(stator_tensor *dst, st_stream *to, stator_tensor *src, st_stream *from,
                             stator_diag **err)
{
    if (from != NULL) {
        ST_TRY(st_tensor_use(src, from, err));
    }
    if (to != NULL) {
        ST_TRY(st_tensor_use(dst, to, err));
    }
    if (to == NULL && from == NULL) {
        st_tensor_copy_dense(&src->view, st_tensor_address(dst));
        return STATOR_OK;
    }
    if (st_tensor_is_dense(&src->view)) {
        ST_TRY(st_domain_copy(st_tensor_address(dst), to, st_tensor_address(src), from,
                              src->size_bytes, err));
    } else {
        ST_TRY(copy_runs(&src->view, from, st_tensor_address(dst), to, err));
    }
    return to == NULL ? st_stream_wait(from, err) : STATOR_OK;
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

void stator_tensor_retain(stator_tensor *t)
{
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
}

void stator_tensor_release(stator_tensor *t)
{
    if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (t->managed != NULL) {
        st_stream *stream = atomic_load(&t->stream);
        if (stream != NULL) { /* its owner may end the memory at once */
            st_stream_drain(stream);
        }
        if (t->managed->deleter != NULL) {
            t->managed->deleter(t->managed);
        }
    } else if (t->domain != NULL) {
        st_domain_give(t->domain, t->view.data, t->size_bytes, atomic_load(&t->stream));
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
        t->domain->ops->refuse(t->domain->self,
                               "the tensor lies on a device, and its address is none of the host: "
                               "copy it to a tensor of the host with stator_tensor_copy, or take "
                               "the device's address from stator_tensor_view");
        return NULL;
    }
    return st_tensor_address(t);
}

uint64_t stator_tensor_size_bytes(const stator_tensor *t)
{
    return t->size_bytes;
}

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

stator_status stator_tensor_to_dlpack(stator_tensor *t, DLManagedTensorVersioned **out_managed)
{
    *out_managed = NULL;
    ST_TRY(st_tensor_wait(t, NULL)); /* who takes it knows nothing of our streams */
    export_box *box = st_calloc(t->mem, 1, sizeof *box);
    if (box == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    stator_tensor_retain(t);
    box->tensor = t;
    box->managed = (DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .deleter = delete_export,
        .dl_tensor = t->view};
    *out_managed = &box->managed;
    return STATOR_OK;
}
