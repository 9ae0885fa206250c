/* Counted tensors of the application API, and their DLPack element types. */
#ifndef STATOR_RUNTIME_TENSOR_H
#define STATOR_RUNTIME_TENSOR_H

#include "core/base/check.h"
#include "core/base/diag.h"
#include "core/runtime/late_calls.h"
#include "core/runtime/pool.h"
#include <stator/stator.h>

/* Streams that read a tensor at once before one more has to follow one of them. */
#define ST_TENSOR_READERS 4u

struct stator_tensor {
    _Atomic uint32_t refs;
    stator_dtype dtype;
    bool is_read_only; /* its capsule says so */
    uint64_t size_bytes;
    st_pool *pool;                           /* owner of the data, or NULL */
    void (*deleter)(void *self, void *data); /* frees the application's memory, or NULL */
    void *deleter_self;
    DLManagedTensorVersioned *managed; /* the foreign owner of the data, or NULL */
    void (*end_managed)(DLManagedTensorVersioned *managed); /* its own deleter, or NULL */
    st_mem *mem;
    st_domain *domain; /* of the data; NULL: the host's memory */
    /* Under the domain's lock. Who reads follows the stream that wrote last, who writes follows the
     * readers since then too; NULL: nobody. */
    st_stream *writer;
    st_stream *readers[ST_TENSOR_READERS];
    st_late_calls late; /* calls that computed it and may have failed */
    _Atomic uint32_t has_late;
    DLTensor view; /* shape points at `shape`; strides NULL when dense */
    int64_t shape[STATOR_RANK_MAX];
    int64_t strides[STATOR_RANK_MAX];
};

stator_status st_tensor_create(st_mem *mem, st_pool *pool, stator_dtype dtype, uint32_t rank,
                               const int64_t *shape, stator_tensor **out_tensor, stator_diag **err);
/* On a device; what is queued on `stream` (may be NULL) may use it. */
stator_status st_tensor_create_on(st_domain *domain, st_stream *stream, stator_dtype dtype,
                                  uint32_t rank, const int64_t *shape, stator_tensor **out_tensor,
                                  stator_diag **err);
/* The memory of a tensor: `below` bytes before `p` and `above` bytes from it on. */
typedef struct st_reach {
    const void *p; /* DLTensor.data; NULL: the tensor has no elements */
    uint64_t below, above;
} st_reach;

/* Where the elements of a tensor from elsewhere lie, by shape, strides and byte_offset.
 * INVALID_ARGUMENT: they are no tensor's. */
stator_status st_tensor_reach(const DLTensor *tensor, st_reach *out, stator_diag **err);
/* `managed` is of a version that is known, and st_tensor_reach has looked at it. `domain` is that
 * of the tensor's device, NULL for the host's memory. INVALID_ARGUMENT too: a tensor that lives has
 * taken the capsule over, in whatever context. */
stator_status st_tensor_adopt(st_mem *mem, st_domain *domain, DLManagedTensorVersioned *managed,
                              stator_tensor **out_tensor, stator_diag **err);
/* See stator_tensor_wrap. */
stator_status st_tensor_wrap(st_mem *mem, const DLTensor *layout, const stator_buffer *buffer,
                             stator_tensor **out_tensor, stator_diag **err);
bool st_tensor_is_dense(const DLTensor *tensor);
/* May two elements lie in one place? Of a tensor that has elements. */
bool st_tensor_has_overlap(const DLTensor *tensor);
/* Elements of src, of any strides, row-major into dst. */
void st_tensor_copy_dense(const DLTensor *src, void *dst);
/* Where the data begins, on whatever device. */
static inline void *st_tensor_address(const stator_tensor *tensor)
{
    return (char *)tensor->view.data + tensor->view.byte_offset;
}
/* `stream` is about to read a device tensor, or has queued work that reads it: it follows the
 * writer, and the next writer follows it. Readers do not follow readers. */
stator_status st_tensor_read(stator_tensor *tensor, st_stream *stream, stator_diag **err);
/* The same of a stream that writes: it follows all that used the tensor. */
stator_status st_tensor_write(stator_tensor *tensor, st_stream *stream, stator_diag **err);
/* Adds the calls that computed it, which the reader's results depend on. The failure of one, where
 * it has been seen. */
stator_status st_tensor_get_late(stator_tensor *tensor, st_late_calls *into, stator_diag **err);
/* It has been computed by these, or by none (NULL). */
void st_tensor_set_late(stator_tensor *tensor, const st_late_calls *calls);
/* Waits for what writes a device tensor, and tells which of the calls that computed it failed. */
stator_status st_tensor_wait(stator_tensor *tensor, stator_diag **err);
/* Elements of src to dst; both may lie on devices, and one of two memories is dense. Host memory is
 * there when this returns. */
stator_status st_tensor_copy(stator_tensor *dst, stator_tensor *src, stator_diag **err);
/* A reference to dense elements in host memory: to the tensor itself, or to a copy. Release *out,
 * also after a failure, when it may be NULL. */
stator_status st_tensor_on_host(st_mem *mem, st_pool *pool, stator_tensor *tensor,
                                stator_tensor **out, stator_diag **err);

#endif
