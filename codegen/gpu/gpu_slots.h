/* Slots of a backend over the runtime of GPUs: its descriptor names them as they are (header
 * unstable, see docs/gpu.md).
 *
 * An instance begins with a st_gpu_instance; the slots of compiling and running are st_cg_slot_*
 * of codegen/codegen.h, which find their st_cg_config at its beginning. What each slot promises
 * is said in stator_backend and stator_memory_info. */
#ifndef STATOR_CODEGEN_GPU_SLOTS_H
#define STATOR_CODEGEN_GPU_SLOTS_H

#include "codegen/codegen.h"
#include "codegen/gpu/gpu.h"

typedef struct st_gpu_instance {
    st_cg_config config; /* its emitter is the runtime's */
    st_gpu *gpu;         /* shared by the instances on one device */
    const st_gpu_device *device;
} st_gpu_instance;

/* Device memory begins at multiples of this, as every GPU's driver gives it. */
#define ST_GPU_ALIGNMENT 256u

/* Our error, if there is one, becomes the host's. */
static inline stator_status st_gpu_answer(const st_gpu_instance *inst, stator_status status,
                                          stator_diag *own, stator_diag **err)
{
    return st_cg_to_host(inst->config.host, status, own, err);
}

static inline stator_status st_gpu_slot_memory(void *inst_, stator_memory_info *out,
                                               stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    (void)err;
    out->flags = 0;
    out->device = (DLDevice){(DLDeviceType)inst->device->device_type, inst->device->id};
    out->alignment = ST_GPU_ALIGNMENT;
    return STATOR_OK;
}

static inline stator_status st_gpu_slot_alloc(void *inst_, uint64_t size, void *stream, void **out,
                                              stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_alloc(inst->gpu, size, stream, out, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline void st_gpu_slot_free(void *inst_, void *p, void *stream)
{
    const st_gpu_instance *inst = inst_;
    st_gpu_free(inst->gpu, p, stream);
}

static inline stator_status st_gpu_slot_copy(void *inst_, void *dst, const void *src, uint64_t size,
                                             uint32_t direction, void *stream, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_copy(inst->gpu, dst, src, size, direction, stream, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline stator_status st_gpu_slot_copy_strided(void *inst_, void *dst, const void *src,
                                                     const stator_strided_copy *layout,
                                                     void *stream, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_copy_strided(inst->gpu, dst, src, layout, stream, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline stator_status st_gpu_slot_fill(void *inst_, void *dst, uint8_t value, uint64_t size,
                                             void *stream, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_fill(inst->gpu, dst, value, size, stream, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline stator_status st_gpu_slot_stream_create(void *inst_, void **out, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_stream_create(inst->gpu, out, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline void st_gpu_slot_stream_destroy(void *inst_, void *stream)
{
    const st_gpu_instance *inst = inst_;
    st_gpu_stream_destroy(inst->gpu, stream);
}

static inline stator_status st_gpu_slot_synchronize(void *inst_, void *stream, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_wait(inst->gpu, stream, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline stator_status st_gpu_slot_late_failure(void *inst_, void *stream, uint64_t *out_first,
                                                     uint64_t *out_last, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_late_failure(inst->gpu, stream, out_first, out_last, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline stator_status st_gpu_slot_event_create(void *inst_, void **out, stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_event_create(inst->gpu, out, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline void st_gpu_slot_event_destroy(void *inst_, void *event)
{
    const st_gpu_instance *inst = inst_;
    st_gpu_event_destroy(inst->gpu, event);
}

static inline stator_status st_gpu_slot_event_record(void *inst_, void *event, void *stream,
                                                     stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_event_record(inst->gpu, event, stream, &own);
    return st_gpu_answer(inst, status, own, err);
}

static inline stator_status st_gpu_slot_event_wait(void *inst_, void *event, void *stream,
                                                   stator_diag **err)
{
    const st_gpu_instance *inst = inst_;
    stator_diag *own = NULL;
    const stator_status status = st_gpu_event_wait(inst->gpu, event, stream, &own);
    return st_gpu_answer(inst, status, own, err);
}

#endif
