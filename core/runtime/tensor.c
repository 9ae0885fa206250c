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

stator_status st_tensor_adopt(st_mem *mem, DLManagedTensorVersioned *managed,
                              stator_tensor **out_tensor, stator_diag **err)
{
    *out_tensor = NULL;
    ST_REQUIRE(managed, err);
    const DLTensor *src = &managed->dl_tensor;
    ST_FAIL_IF(managed->version.major != DLPACK_MAJOR_VERSION, err, STATOR_INVALID_ARGUMENT,
               "DLPack %u.%u is not version 1", managed->version.major, managed->version.minor);
    ST_FAIL_IF(src->device.device_type != kDLCPU, err, STATOR_UNIMPLEMENTED,
               "only tensors in host memory can be taken over");
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
        if (t->managed->deleter != NULL) {
            t->managed->deleter(t->managed);
        }
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
    return (char *)t->view.data + t->view.byte_offset;
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
