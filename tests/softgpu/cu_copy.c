/* The driver API of copies and fills. Host memory that is not pinned is read and written when the
 * stream runs, which is as late as the API allows: a source that is freed before shows. */
#include "soft_memory.h"
#include "soft_stream.h"

SOFT_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s);
SOFT_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream s);
SOFT_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s);
SOFT_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n);
SOFT_EXPORT CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n);
SOFT_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n);
SOFT_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s);
SOFT_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream s);
SOFT_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream s);
SOFT_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream s);

/* One side of a copy: device memory, host memory, or what the address says. */
typedef struct side {
    CUmemorytype type;
    uint64_t address;
    size_t pitch;
} side;

/* Where a side's rows lie for the host; NULL and a sentence when they cannot. */
static unsigned char *resolve(const side *s, size_t width, size_t height, const char *name)
{
    const uint64_t bytes = (height - 1) * s->pitch + width;
    unsigned char *p = soft_host_of(s->address, bytes);
    soft_range range;
    const bool is_known = soft_find_range(s->address, &range);
    if (s->type == CU_MEMORYTYPE_HOST || (s->type == CU_MEMORYTYPE_UNIFIED && !is_known)) {
        if (is_known && !range.is_pinned) {
            soft_say("a copy's %s is device memory where the host's is wanted", name);
            return NULL;
        }
        return (unsigned char *)(uintptr_t)s->address;
    }
    if (p == NULL && is_known) {
        soft_say("a copy of %llu bytes begins at byte %llu of its %s, which has %llu",
                 (unsigned long long)bytes, (unsigned long long)(s->address - range.start), name,
                 (unsigned long long)range.bytes);
    } else if (p == NULL) {
        soft_say("a copy's %s, 0x%llx, is no device memory", name, (unsigned long long)s->address);
    }
    return p;
}

/* Queues the copy of `height` rows, or makes it at once. */
static CUresult copy(const side *dst, const side *src, size_t width, size_t height, CUstream s)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    soft_stream *stream = soft_stream_of(device, s);
    if (stream == NULL || soft_is_to_fail(SOFT_FAIL_COPY)) {
        return soft_leave(stream == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
    }
    if (width == 0 || height == 0) {
        return soft_leave(CUDA_SUCCESS);
    }
    unsigned char *to = resolve(dst, width, height, "destination");
    const unsigned char *from = resolve(src, width, height, "source");
    soft_op *op = to != NULL && from != NULL ? soft_op_create(SOFT_OP_COPY, 0) : NULL;
    if (op == NULL) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    op->of.copy.dst = to;
    op->of.copy.src = from;
    op->of.copy.dst_pitch = dst->pitch;
    op->of.copy.src_pitch = src->pitch;
    op->of.copy.width = width;
    op->of.copy.height = height;
    soft_stream_push(stream, op);
    return soft_leave(CUDA_SUCCESS);
}

static CUresult copy_flat(side dst, side src, size_t n, CUstream s)
{
    return copy(&dst, &src, n, 1, s);
}

static side device_side(CUdeviceptr p)
{
    return (side){.type = CU_MEMORYTYPE_DEVICE, .address = p};
}

static side host_side(const void *p)
{
    return (side){.type = CU_MEMORYTYPE_HOST, .address = (uint64_t)(uintptr_t)p};
}

/* Waits for the stream 0, where a synchronous call has put its work. */
static CUresult finish(CUresult queued)
{
    soft_device *device = NULL;
    const CUresult result = queued != CUDA_SUCCESS ? queued : soft_enter_context(&device);
    return result != CUDA_SUCCESS ? result : soft_leave(soft_stream_wait(device->legacy));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s)
{
    return copy_flat(device_side(dst), host_side(src), n, s);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy_flat(host_side(dst), device_side(src), n, s);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy_flat(device_side(dst), device_side(src), n, s);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
    return finish(cuMemcpyHtoDAsync_v2(dst, src, n, NULL));
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
    return finish(cuMemcpyDtoHAsync_v2(dst, src, n, NULL));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return finish(cuMemcpyDtoDAsync_v2(dst, src, n, NULL));
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy_flat((side){.type = CU_MEMORYTYPE_UNIFIED, .address = dst},
                     (side){.type = CU_MEMORYTYPE_UNIFIED, .address = src}, n, s);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream s)
{
    if (c == NULL || c->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
        c->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        return soft_refuse(CUDA_ERROR_INVALID_VALUE, "cuMemcpy2DAsync: arrays are not known here");
    }
    if (c->Height > 1 && (c->srcPitch < c->WidthInBytes || c->dstPitch < c->WidthInBytes)) {
        return soft_refuse(CUDA_ERROR_INVALID_VALUE,
                           "cuMemcpy2DAsync: a pitch is smaller than the width");
    }
    const uint64_t from =
        c->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)c->srcHost : c->srcDevice;
    const uint64_t to =
        c->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)c->dstHost : c->dstDevice;
    const side src = {c->srcMemoryType, from + c->srcY * c->srcPitch + c->srcXInBytes, c->srcPitch};
    const side dst = {c->dstMemoryType, to + c->dstY * c->dstPitch + c->dstXInBytes, c->dstPitch};
    return copy(&dst, &src, c->WidthInBytes, c->Height, s);
}

static CUresult fill(CUdeviceptr address, uint32_t value, uint32_t bytes, size_t n, CUstream s)
{
    soft_device *device = NULL;
    const CUresult result = soft_enter_context(&device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    soft_stream *stream = soft_stream_of(device, s);
    if (stream == NULL) {
        return soft_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (n == 0) {
        return soft_leave(CUDA_SUCCESS);
    }
    const side dst = {.type = CU_MEMORYTYPE_DEVICE, .address = address};
    unsigned char *to = resolve(&dst, n * bytes, 1, "destination");
    soft_op *op = to != NULL && address % bytes == 0 ? soft_op_create(SOFT_OP_FILL, 0) : NULL;
    if (op == NULL) {
        return soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    op->of.fill.dst = to;
    op->of.fill.value = value;
    op->of.fill.bytes = bytes;
    op->of.fill.n = n;
    soft_stream_push(stream, op);
    return soft_leave(CUDA_SUCCESS);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream s)
{
    return fill(dst, value, 1, n, s);
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream s)
{
    return fill(dst, value, 4, n, s);
}
