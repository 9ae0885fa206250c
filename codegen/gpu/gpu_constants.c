/* Constants on the device: one copy of each content, for all executables that hold it. */
#include "codegen/gpu/gpu_runtime.h"

#include "codegen/codegen.h"

#include <string.h>

static gpu_constant **bucket_of(st_gpu *gpu, const uint8_t hash[16])
{
    return &gpu->constants[hash[0] % GPU_CONSTANT_BUCKETS];
}

static gpu_constant *find(gpu_constant *first, const stator_blob_info *info)
{
    while (first && (first->bytes != info->size_bytes ||
                     memcmp(first->hash, info->content_hash, sizeof first->hash) != 0)) {
        first = first->next;
    }
    return first;
}

/* On the runtime's own stream, and waited for: every stream may read it then. */
static stator_status upload(st_gpu *gpu, const stator_blob_info *info, st_gpu_address *out,
                            stator_diag **err)
{
    gpu_stream *stream = NULL;
    ST_TRY(gpu_queue_on(gpu, NULL, &stream, err));
    ST_TRY(gpu_take(gpu, &gpu->device, stream, info->size_bytes, out, err));
    stator_status status = gpu_upload(gpu, stream, *out, info->data, info->size_bytes, err);
    ST_THEN(status, gpu_stream_drain(gpu, stream, err));
    if (status != STATOR_OK) {
        gpu_give(gpu, &gpu->device, stream, *out);
    }
    return status;
}

static stator_status add(st_gpu *gpu, const stator_blob_info *info, gpu_constant **out,
                         stator_diag **err)
{
    gpu_constant *constant = st_calloc(gpu->mem, 1, sizeof *constant);
    ST_TRY_MEM(constant, err);
    const stator_status status = upload(gpu, info, &constant->address, err);
    if (status != STATOR_OK) {
        st_free(gpu->mem, constant);
        return status;
    }
    gpu_constant **bucket = bucket_of(gpu, info->content_hash);
    memcpy(constant->hash, info->content_hash, sizeof constant->hash);
    constant->bytes = info->size_bytes;
    constant->next = *bucket;
    *bucket = constant;
    atomic_fetch_add(&gpu->constant_bytes, constant->bytes);
    *out = constant;
    return STATOR_OK;
}

stator_status gpu_constant_take(st_gpu *gpu, stator_blob *blob, gpu_constant **out,
                                stator_diag **err)
{
    const stator_host *host = gpu->config.host;
    const stator_cst_api *cst = host->cst;
    stator_blob_info info = {.struct_size = sizeof info};
    stator_diag *theirs = NULL;
    stator_status status = cst->get(blob, &info, &theirs);
    ST_TRY(st_cg_from_host(host, status, &theirs, err));
    pthread_mutex_lock(&gpu->constants_lock);
    gpu_constant *constant = find(*bucket_of(gpu, info.content_hash), &info);
    status = constant ? STATOR_OK : add(gpu, &info, &constant, err);
    if (status == STATOR_OK) {
        constant->references++;
    }
    pthread_mutex_unlock(&gpu->constants_lock);
    if (info.flags & STATOR_BLOB_MAPPED) {
        cst->will_not_read(blob);
    }
    *out = constant;
    return status;
}

/* Calls of the executable that has ended may still read it. */
void gpu_constant_give(st_gpu *gpu, gpu_constant *constant)
{
    pthread_mutex_lock(&gpu->constants_lock);
    const bool is_last = --constant->references == 0;
    if (is_last) {
        gpu_constant **at = bucket_of(gpu, constant->hash);
        while (*at != constant) {
            at = &(*at)->next;
        }
        *at = constant->next;
    }
    pthread_mutex_unlock(&gpu->constants_lock);
    if (is_last) {
        gpu_wait_for_queued(gpu);
        gpu_give(gpu, &gpu->device, NULL, constant->address);
        atomic_fetch_sub(&gpu->constant_bytes, constant->bytes);
        st_free(gpu->mem, constant);
    }
}
