/* Counted tensors of the application API, and their DLPack element types. */
#ifndef STATOR_RUNTIME_TENSOR_H
#define STATOR_RUNTIME_TENSOR_H

#include "core/base/check.h"
#include "core/base/diag.h"
#include "core/runtime/pool.h"
#include <stator/stator.h>

struct stator_tensor {
    _Atomic uint32_t refs;
    stator_dtype dtype;
    uint64_t size_bytes;
    st_pool *pool;                           /* owner of the data, or NULL */
    void (*deleter)(void *self, void *data); /* frees the application's memory, or NULL */
    void *deleter_self;
    DLManagedTensorVersioned *managed; /* the foreign owner of the data, or NULL */
    st_mem *mem;
    DLTensor view; /* shape points at `shape`; strides NULL when dense */
    int64_t shape[STATOR_RANK_MAX];
    int64_t strides[STATOR_RANK_MAX];
};

stator_status st_tensor_create(st_mem *mem, st_pool *pool, stator_dtype dtype, uint32_t rank,
                               const int64_t *shape, stator_tensor **out_tensor, stator_diag **err);
stator_status st_tensor_adopt(st_mem *mem, DLManagedTensorVersioned *managed,
                              stator_tensor **out_tensor, stator_diag **err);
/* See stator_tensor_wrap. */
stator_status st_tensor_wrap(st_mem *mem, const DLTensor *layout, const stator_buffer *buffer,
                             stator_tensor **out_tensor, stator_diag **err);
bool st_tensor_is_dense(const DLTensor *tensor);
/* Elements of src, of any strides, row-major into dst. */
void st_tensor_copy_dense(const DLTensor *src, void *dst);

#endif
