/* The runtime from beginning to end, and what it is to codegen: an emitter and memory of a
 * device. */
#include "codegen/gpu/fixed/gpu_fixed.h"

/* ---- st_device_memory ---- */

static stator_status constant_take(void *gpu, stator_blob *blob, void **out_constant,
                                   const void **out_data, stator_diag **err)
{
    gpu_constant *constant = NULL;
    ST_TRY(gpu_constant_take(gpu, blob, &constant, err));
    *out_constant = constant;
    *out_data = gpu_pointer(constant->address);
    return STATOR_OK;
}

static void constant_give(void *gpu, void *constant)
{
    gpu_constant_give(gpu, constant);
}

static stator_status checks_create(void *gpu, const st_check_text *checks, uint32_t n,
                                   void **out_checks, stator_diag **err)
{
    gpu_checks *made = NULL;
    ST_TRY(gpu_checks_create(gpu, checks, n, &made, err));
    *out_checks = made;
    return STATOR_OK;
}

static void checks_release(void *gpu, void *checks)
{
    (void)gpu;
    gpu_checks_release(checks);
}

static stator_status call_take(void *gpu_, void *call_, uint64_t bytes, void **out,
                               stator_diag **err)
{
    st_gpu *gpu = gpu_;
    const gpu_call *call = call_;
    st_gpu_address address = 0;
    const stator_status status = gpu_take(gpu, &gpu->device, call->stream, bytes, &address, err);
    *out = gpu_pointer(address);
    return status;
}

static void call_give(void *gpu_, void *call_, void *p)
{
    st_gpu *gpu = gpu_;
    const gpu_call *call = call_;
    gpu_note_queued(gpu, call->stream);
    gpu_give(gpu, &gpu->device, call->stream, gpu_address(p));
}

static stator_status call_copy(void *gpu, void *call_, void *dst, const void *src, uint64_t bytes,
                               stator_diag **err)
{
    const st_gpu_driver *driver = ((const st_gpu *)gpu)->driver;
    const gpu_call *call = call_;
    return driver->copy_on_device(driver->self, gpu_address(dst), gpu_address(src), bytes,
                                  call->stream->driver_stream, err);
}

static stator_status call_read_back(void *gpu, void *call_, void *dst, const void *src,
                                    uint64_t bytes, stator_diag **err)
{
    const gpu_call *call = call_;
    ST_TRY(gpu_read_back(gpu, call->stream, dst, gpu_address(src), bytes, err));
    return gpu_words_check(gpu, call, err);
}

static stator_status call_wait(void *gpu, void *call_, stator_diag **err)
{
    const gpu_call *call = call_;
    ST_TRY(gpu_stream_wait(gpu, call->stream, err));
    return gpu_words_check(gpu, call, err);
}

/* ---- the emitter ---- */

/* Fewer long rows than twice the multiprocessors are worth a kernel that shares each out. */
#define BLOCKS_APART 2u

static st_target target_of(const st_gpu_config *config)
{
    const st_gpu_device *device = &config->driver->device;
    return (st_target){.struct_size = sizeof(st_target),
                       .kind = ST_TARGET_GPU,
                       .threads = device->n_multiprocessors * BLOCKS_APART,
                       .l1_bytes = device->shared_bytes,
                       .l2_bytes = device->l2_bytes,
                       .l3_bytes = device->l2_bytes,
                       .spells = st_gpu_spells,
                       .schedule = config->schedule,
                       .n_multiprocessors = device->n_multiprocessors,
                       .warp_size = device->warp_size,
                       .block_threads_max = device->block_threads_max,
                       .shared_bytes = device->shared_bytes,
                       .shared_optin_bytes = device->shared_optin_bytes,
                       .has_matrices = device->has_matrices};
}

static void set_tables(st_gpu *gpu)
{
    gpu->memory = (st_device_memory){.struct_size = sizeof gpu->memory,
                                     .self = gpu,
                                     .constant_take = constant_take,
                                     .constant_give = constant_give,
                                     .checks_create = checks_create,
                                     .checks_release = checks_release,
                                     .begin = gpu_call_begin,
                                     .end = gpu_call_end,
                                     .take = call_take,
                                     .give = call_give,
                                     .reserve = gpu_reserve,
                                     .copy = call_copy,
                                     .read_back = call_read_back,
                                     .wait = call_wait,
                                     .mark = gpu_mark,
                                     .read_marks = gpu_read_marks};
    gpu->emitter = (st_emitter){.struct_size = sizeof gpu->emitter,
                                .self = gpu,
                                .target = target_of(&gpu->config),
                                .compile = gpu_module_compile,
                                .launch = gpu_launch,
                                .module_destroy = gpu_module_destroy,
                                .module_save = gpu_module_save,
                                .module_load = gpu_module_load,
                                .memory = &gpu->memory,
                                .fixed = &gpu->fixed};
    gpu_fixed_init(gpu);
}

const st_emitter *st_gpu_emitter(const st_gpu *gpu)
{
    return &gpu->emitter;
}

void st_gpu_get_stats(st_gpu *gpu, st_gpu_stats *out)
{
    pthread_mutex_lock(&gpu->lock);
    *out = (st_gpu_stats){.held_bytes = gpu->device.held,
                          .used_bytes = gpu->device.used,
                          .peak_bytes = gpu->device.peak,
                          .driver_allocs = gpu->device.n_allocs + gpu->pinned.n_allocs,
                          .constant_bytes = atomic_load(&gpu->constant_bytes),
                          .launches = atomic_load(&gpu->launches),
                          .waits = atomic_load(&gpu->waits),
                          .compiled = atomic_load(&gpu->compiled)};
    pthread_mutex_unlock(&gpu->lock);
}

/* ---- from beginning to end ---- */

void st_gpu_destroy(st_gpu *gpu)
{
    if (gpu == NULL) {
        return;
    }
    gpu_wait_for_queued(gpu);
    gpu_programs_destroy(gpu);
    gpu_words_destroy(gpu);
    if (gpu->ignored) {
        gpu->driver->free_pinned(gpu->driver->self, gpu->ignored);
    }
    gpu_pool_deinit(gpu, &gpu->device);
    gpu_pool_deinit(gpu, &gpu->pinned);
    gpu_marks_destroy(gpu);
    gpu_streams_destroy(gpu);
    while (gpu->unused_calls) {
        gpu_call *next = gpu->unused_calls->next;
        st_vec_free(gpu->mem, &gpu->unused_calls->marks);
        st_free(gpu->mem, gpu->unused_calls);
        gpu->unused_calls = next;
    }
    pthread_mutex_destroy(&gpu->lock);
    pthread_cond_destroy(&gpu->wait_ended);
    pthread_mutex_destroy(&gpu->constants_lock);
    pthread_mutex_destroy(&gpu->programs_lock);
    st_free(gpu->mem, gpu);
}

static stator_status begin(st_gpu *gpu, stator_diag **err)
{
    void *ignored = NULL;
    ST_TRY(gpu_streams_create(gpu, err));
    ST_TRY(gpu->driver->alloc_pinned(gpu->driver->self, sizeof *gpu->ignored, &ignored, err));
    gpu->ignored = ignored;
    *gpu->ignored = 0;
    return STATOR_OK;
}

stator_status st_gpu_create(const st_gpu_config *config, st_gpu **out, stator_diag **err)
{
    *out = NULL;
    st_gpu *gpu = st_calloc(config->mem, 1, sizeof *gpu);
    ST_TRY_MEM(gpu, err);
    gpu->config = *config;
    gpu->mem = config->mem;
    gpu->driver = config->driver;
    pthread_mutex_init(&gpu->lock, NULL);
    pthread_cond_init(&gpu->wait_ended, NULL);
    pthread_mutex_init(&gpu->constants_lock, NULL);
    pthread_mutex_init(&gpu->programs_lock, NULL);
    gpu_pool_init(&gpu->device, gpu->mem, false, config->memory_cap);
    gpu_pool_init(&gpu->pinned, gpu->mem, true, 0);
    set_tables(gpu);
    const stator_status status = begin(gpu, err);
    if (status != STATOR_OK) {
        st_gpu_destroy(gpu);
        return status;
    }
    *out = gpu;
    return STATOR_OK;
}
