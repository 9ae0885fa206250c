/* Tensors on devices; see stator/stator.h and core/runtime/domain.h. */
#include "core/base/sized.h"
#include "core/context/devices.h"
#include "core/runtime/tensor.h"

#include <string.h>

static stator_status create_on(stator_ctx *ctx, const char *device, stator_dtype dtype,
                               uint32_t rank, const int64_t *shape, stator_tensor **out_tensor,
                               stator_diag **err)
{
    st_domain *domain = NULL;
    ST_REQUIRE(device, err);
    ST_TRY(st_device_find(ctx, device, &domain, err));
    return domain == NULL
               ? st_tensor_create(&ctx->mem, &ctx->pool, dtype, rank, shape, out_tensor, err)
               : st_tensor_create_on(domain, NULL, dtype, rank, shape, out_tensor, err);
}

stator_status stator_tensor_create_on(stator_ctx *ctx, const char *device, stator_dtype dtype,
                                      uint32_t rank, const int64_t *shape,
                                      stator_tensor **out_tensor)
{
    stator_diag *diag = NULL;
    *out_tensor = NULL;
    const stator_status status = create_on(ctx, device, dtype, rank, shape, out_tensor, &diag);
    return st_ctx_fail(ctx, status, diag);
}

static stator_status check_alike(const stator_tensor *dst, const stator_tensor *src,
                                 stator_diag **err)
{
    const bool is_alike =
        dst->dtype == src->dtype && dst->view.ndim == src->view.ndim &&
        memcmp(dst->shape, src->shape, (size_t)src->view.ndim * sizeof *src->shape) == 0;
    char to[256];
    char from[256];
    ST_FAIL_IF(!is_alike, err, STATOR_INVALID_ARGUMENT,
               "a tensor of %s%s cannot be copied to one of %s%s; dtype and shape must be equal",
               st_dtype_name(src->dtype),
               st_shape_text(src->shape, (uint32_t)src->view.ndim, from, sizeof from),
               st_dtype_name(dst->dtype),
               st_shape_text(dst->shape, (uint32_t)dst->view.ndim, to, sizeof to));
    ST_FAIL_IF(dst->view.strides != NULL || dst->is_read_only, err, STATOR_INVALID_ARGUMENT,
               "the tensor that is copied to is %s",
               dst->is_read_only ? "read-only, as its DLPack tensor says" : "not dense");
    return STATOR_OK;
}

stator_status stator_tensor_copy(stator_ctx *ctx, stator_tensor *dst, stator_tensor *src)
{
    stator_diag *diag = NULL;
    stator_status status = STATOR_OK;
    if (dst == NULL || src == NULL) {
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "the tensor to copy %s is NULL",
                         dst == NULL ? "to" : "from");
    }
    ST_THEN(status, check_alike(dst, src, &diag));
    if (status == STATOR_OK && dst != src) {
        status = st_tensor_copy(dst, src, &diag);
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_tensor_wait(stator_ctx *ctx, stator_tensor *tensor)
{
    stator_diag *diag = NULL;
    const stator_status status = st_tensor_wait(tensor, &diag);
    return st_ctx_fail(ctx, status, diag);
}

const char *stator_tensor_device(const stator_tensor *tensor)
{
    return tensor->domain != NULL ? tensor->domain->name : "cpu";
}

/* The domain of a tensor that comes from elsewhere. */
static stator_status foreign_domain(stator_ctx *ctx, const DLTensor *t, st_domain **out_domain,
                                    stator_diag **err)
{
    st_reach reach;
    const DLDevice device = t->device;
    *out_domain = NULL;
    ST_TRY(st_tensor_reach(t, &reach, err));
    if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
        device.device_type == kDLROCMHost) { /* pinned memory is the host's as well */
        return st_device_check_host(ctx, &reach, err);
    }
    return st_device_of_memory(ctx, device, &reach, out_domain, err);
}

/* `stream`: the maker's, on which the elements may still be computed; NULL: they are there. */
static stator_status adopt(stator_ctx *ctx, DLManagedTensorVersioned *managed, void *stream,
                           stator_tensor **out_tensor, stator_diag **err)
{
    st_domain *domain = NULL;
    st_stream *writer = NULL;
    ST_REQUIRE(managed, err);
    ST_FAIL_IF(managed->version.major != DLPACK_MAJOR_VERSION, err, STATOR_INVALID_ARGUMENT,
               "DLPack %u.%u is not version 1", managed->version.major, managed->version.minor);
    ST_TRY(foreign_domain(ctx, &managed->dl_tensor, &domain, err));
    if (domain != NULL && stream != NULL) {
        ST_TRY(st_stream_of_caller(domain, stream, &writer, err));
        st_stream_note(writer);
    }
    ST_TRY(st_tensor_adopt(&ctx->mem, domain, managed, out_tensor, err));
    (*out_tensor)->writer = writer;
    return STATOR_OK;
}

stator_status stator_tensor_from_dlpack_on(stator_ctx *ctx, DLManagedTensorVersioned *managed,
                                           void *stream, stator_tensor **out_tensor)
{
    stator_diag *diag = NULL;
    *out_tensor = NULL;
    const stator_status status = adopt(ctx, managed, stream, out_tensor, &diag);
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_tensor_from_dlpack(stator_ctx *ctx, DLManagedTensorVersioned *managed,
                                        stator_tensor **out_tensor)
{
    return stator_tensor_from_dlpack_on(ctx, managed, NULL, out_tensor);
}

/* ---- memory ---- */

stator_status stator_ctx_device_stats(stator_ctx *ctx, const char *device,
                                      stator_device_stats *out_stats)
{
    st_domain *d = NULL;
    stator_diag *diag = NULL;
    stator_device_stats stats = {.struct_size = sizeof stats};
    stator_status status =
        device == NULL ? st_fail(&diag, STATOR_INVALID_ARGUMENT, "the name of the device is NULL")
                       : st_device_in_use(ctx, device, &d, &diag);
    ST_FAIL_BY_IF(st_ctx_fail, status != STATOR_OK, ctx, status, diag);
    if (d != NULL) {
        pthread_mutex_lock(&d->lock);
        stats.held_bytes = d->held_bytes;
        stats.used_bytes = d->used_bytes;
        stats.peak_bytes = d->peak_bytes;
        stats.n_allocs = d->n_allocs;
        pthread_mutex_unlock(&d->lock);
        stats.n_copies = atomic_load(&d->n_copies);
        stats.copied_bytes = atomic_load(&d->copied_bytes);
        stats.n_waits = atomic_load(&d->n_waits);
    }
    return ST_CTX_WRITE(ctx, stator_device_stats, out_stats, &stats);
}
