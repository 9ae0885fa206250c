/* Calls and launches: the arguments of a kernel are filled and it is queued. Nothing is allocated
 * and nothing waits, but for the first calls of a kind. */
#include "codegen/gpu/gpu_runtime.h"

/* ---- calls ---- */

/* Under the lock. */
static stator_status begin(st_gpu *gpu, gpu_call *call, gpu_checks *checks, stator_diag **err)
{
    call->word = NULL;
    call->stream->queued = call->stream->epoch;
    return checks ? gpu_word_begin(gpu, call->stream, checks, call->number, &call->word, err)
                  : STATOR_OK;
}

static gpu_call *new_call(st_gpu *gpu)
{
    gpu_call *call = gpu->unused_calls;
    if (call) {
        gpu->unused_calls = call->next;
        return call;
    }
    return st_calloc(gpu->mem, 1, sizeof *call);
}

stator_status gpu_call_begin(void *self, const stator_call *of, void *checks, void *around,
                             void **out_call, stator_diag **err)
{
    st_gpu *gpu = self;
    stator_status status = STATOR_OK;
    pthread_mutex_lock(&gpu->lock);
    gpu_call *call = new_call(gpu);
    if (call) {
        call->stream = gpu_stream_of(gpu, of->stream);
        call->number =
            around ? ((const gpu_call *)around)->number : (STATOR_HAS(of, number) ? of->number : 0);
    }
    if (call == NULL || call->stream == NULL) {
        status = st_fail_oom(err);
    }
    ST_THEN(status, begin(gpu, call, checks, err));
    if (status != STATOR_OK && call) {
        call->next = gpu->unused_calls;
        gpu->unused_calls = call;
    }
    pthread_mutex_unlock(&gpu->lock);
    *out_call = status == STATOR_OK ? call : NULL;
    return status;
}

void gpu_call_end(void *self, void *call_)
{
    st_gpu *gpu = self;
    gpu_call *call = call_;
    if (call->scratch) {
        gpu_note_queued(gpu, call->stream);
        gpu_give(gpu, &gpu->device, call->stream, call->scratch);
        call->scratch = 0;
        call->scratch_bytes = 0;
    }
    pthread_mutex_lock(&gpu->lock);
    call->stream->queued = call->stream->epoch;
    if (call->word) {
        gpu_word_end(call->stream, call->word);
    }
    gpu_give_marks(gpu, call);
    call->next = gpu->unused_calls;
    gpu->unused_calls = call;
    pthread_mutex_unlock(&gpu->lock);
}

void *st_gpu_call_stream(const void *device_call)
{
    const gpu_call *call = device_call;
    return call->stream->driver_stream;
}

/* ---- launches ---- */

static uint64_t argument_of(const st_gpu *gpu, const st_gpu_argument *argument,
                            const st_launch *launch, st_gpu_address scratch)
{
    const gpu_call *call = launch->device_call;
    switch (argument->kind) {
    case ST_GPU_ARGUMENT_BUFFER:
        return gpu_address(launch->args->buffers[argument->index]);
    case ST_GPU_ARGUMENT_SIZE:
        return (uint64_t)launch->args->syms[argument->index];
    case ST_GPU_ARGUMENT_STATUS:
        return gpu_address(call->word ? (const void *)call->word->value
                                      : (const void *)gpu->ignored);
    default:
        return scratch;
    }
}

/* Blocks of the grid; 0: more than a device takes. */
static uint32_t blocks_of(const st_gpu_kernel *kernel, int64_t count)
{
    const uint64_t each = kernel->iterations ? kernel->iterations : 1;
    const uint64_t blocks = ((uint64_t)count + each - 1u) / each;
    return blocks <= INT32_MAX ? (uint32_t)blocks : 0;
}

/* The driver makes room for a kernel's stacks, and loads it, when it is launched first: there may
 * be room when unused memory has gone back. */
stator_status gpu_queue_launch(st_gpu *gpu, const st_gpu_launch *launch, const gpu_stream *stream,
                               stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    stator_diag *first = NULL;
    stator_status status = driver->launch(driver->self, launch, stream->driver_stream, &first);
    if (status == STATOR_OK || status == STATOR_UNAVAILABLE) {
        return st_diag_give(status, first, err);
    }
    st_diag_release(first);
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        gpu_trim(gpu);
    }
    return driver->launch(driver->self, launch, stream->driver_stream, err);
}

static stator_status launch_with(st_gpu *gpu, const gpu_function *f, const st_launch *launch,
                                 st_gpu_launch *what, stator_diag **err)
{
    const gpu_call *call = launch->device_call;
    const st_gpu_kernel *kernel = &f->kernel;
    const uint64_t scratch_bytes = kernel->scratch_bytes * what->blocks[0];
    const bool is_reserved = scratch_bytes <= call->scratch_bytes;
    uint64_t arguments[GPU_ARGUMENTS_MAX];
    st_gpu_address scratch = call->scratch;
    if (!is_reserved) {
        ST_TRY(gpu_take(gpu, &gpu->device, call->stream, scratch_bytes, &scratch, err));
    }
    for (uint32_t i = 0; i < kernel->n_arguments; i++) {
        arguments[i] = argument_of(gpu, &kernel->arguments[i], launch, scratch);
    }
    what->arguments = arguments;
    what->argument_bytes = kernel->n_arguments * (uint32_t)sizeof *arguments;
    const stator_status status = gpu_queue_launch(gpu, what, call->stream, err);
    if (!is_reserved) {
        gpu_note_queued(gpu, call->stream);
        gpu_give(gpu, &gpu->device, call->stream, scratch);
    }
    return status;
}

static stator_status find_blocks(const gpu_function *f, int64_t count, uint32_t *out,
                                 stator_diag **err)
{
    *out = blocks_of(&f->kernel, count);
    ST_FAIL_IF(*out == 0, err, STATOR_OUT_OF_RANGE,
               "kernel %s: %lld iterations are more than one grid has", f->kernel.name,
               (long long)count);
    return STATOR_OK;
}

stator_status gpu_reserve(void *self, void *call_, void *module_, uint32_t k, int64_t count,
                          stator_diag **err)
{
    st_gpu *gpu = self;
    gpu_call *call = call_;
    const gpu_function *f = &((const gpu_module *)module_)->functions[k];
    uint32_t blocks = 0;
    st_gpu_address scratch = 0;
    ST_TRY(find_blocks(f, count, &blocks, err));
    const uint64_t bytes = f->kernel.scratch_bytes * blocks;
    if (bytes <= call->scratch_bytes) {
        return STATOR_OK;
    }
    ST_TRY(gpu_take(gpu, &gpu->device, call->stream, bytes, &scratch, err));
    gpu_give(gpu, &gpu->device, call->stream, call->scratch);
    call->scratch = scratch;
    call->scratch_bytes = bytes;
    return STATOR_OK;
}

stator_status gpu_launch(void *self, void *module_, uint32_t k, const st_launch *launch,
                         stator_diag **err)
{
    st_gpu *gpu = self;
    const gpu_module *module = module_;
    const gpu_function *f = &module->functions[k];
    st_gpu_launch what = {.function = f->function,
                          .blocks = {0, 1, 1},
                          .threads = f->kernel.threads,
                          .dynamic_shared_bytes = f->kernel.dynamic_bytes};
    ST_TRY(find_blocks(f, launch->count, &what.blocks[0], err));
    atomic_fetch_add(&gpu->launches, 1);
    return launch_with(gpu, f, launch, &what, err);
}
