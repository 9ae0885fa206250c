/* Copies between the host and the device.
 *
 * A caller's memory must have been read when an upload returns, which the driver promises of pinned
 * memory alone: few bytes go through a pinned block, for many the stream is waited for. */
#include "codegen/gpu/fixed/gpu_fixed.h"

#include <stator/plugin.h>
#include <string.h>

#define STAGED_BYTES_MAX (UINT64_C(64) << 10)
#define PINNED_BYTES_MAX (UINT64_C(16) << 20) /* held for copies before a wait makes room */

/* A pinned block for the host to use at once. */
static stator_status take_pinned(st_gpu *gpu, gpu_stream *stream, uint64_t bytes,
                                 st_gpu_address *out, stator_diag **err)
{
    pthread_mutex_lock(&gpu->lock);
    const bool is_full = gpu->pinned.held > PINNED_BYTES_MAX && gpu_is_busy(stream);
    if (is_full) {
        gpu_wait_for_all(gpu);
    }
    pthread_mutex_unlock(&gpu->lock);
    return gpu_take(gpu, &gpu->pinned, NULL, bytes, out, err);
}

stator_status gpu_upload(st_gpu *gpu, gpu_stream *stream, st_gpu_address dst, const void *src,
                         uint64_t bytes, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    st_gpu_address staged = 0;
    if (bytes == 0) {
        return STATOR_OK;
    }
    if (bytes > STAGED_BYTES_MAX) {
        ST_TRY(driver->copy_to_device(driver->self, dst, src, bytes, stream->driver_stream, err));
        return gpu_stream_drain(gpu, stream, err);
    }
    ST_TRY(driver->check(driver->self, err));
    ST_TRY(take_pinned(gpu, stream, bytes, &staged, err));
    memcpy(gpu_pointer(staged), src, (size_t)bytes);
    const stator_status status = driver->copy_to_device(driver->self, dst, gpu_pointer(staged),
                                                        bytes, stream->driver_stream, err);
    gpu_note_queued(gpu, stream);
    gpu_give(gpu, &gpu->pinned, stream, staged);
    return status;
}

stator_status gpu_read_back(st_gpu *gpu, gpu_stream *stream, void *dst, st_gpu_address src,
                            uint64_t bytes, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    st_gpu_address staged = 0;
    ST_TRY(take_pinned(gpu, stream, bytes, &staged, err));
    stator_status status = driver->copy_to_host(driver->self, gpu_pointer(staged), src, bytes,
                                                stream->driver_stream, err);
    ST_THEN(status, gpu_stream_wait(gpu, stream, err));
    if (status == STATOR_OK) {
        memcpy(dst, gpu_pointer(staged), (size_t)bytes);
    }
    gpu_give(gpu, &gpu->pinned, stream, staged);
    return status;
}

/* ---- slots ---- */

static stator_status copy_by(st_gpu *gpu, gpu_stream *stream, void *dst, const void *src,
                             uint64_t bytes, uint32_t direction, stator_diag **err)
{
    const st_gpu_driver *driver = gpu->driver;
    switch (direction) {
    case STATOR_COPY_TO_DEVICE:
        return gpu_upload(gpu, stream, gpu_address(dst), src, bytes, err);
    case STATOR_COPY_TO_HOST:
        return driver->copy_to_host(driver->self, dst, gpu_address(src), bytes,
                                    stream->driver_stream, err);
    case STATOR_COPY_ON_DEVICE:
        return driver->copy_on_device(driver->self, gpu_address(dst), gpu_address(src), bytes,
                                      stream->driver_stream, err);
    default:
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "a copy in direction %u; expected 1 (to the device), 2 (to the host) or 3 "
                       "(on the device)",
                       direction);
    }
}

stator_status st_gpu_copy(st_gpu *gpu, void *dst, const void *src, uint64_t bytes,
                          uint32_t direction, void *handle, stator_diag **err)
{
    gpu_stream *stream = NULL;
    if (bytes == 0) {
        return STATOR_OK;
    }
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    const stator_status status = copy_by(gpu, stream, dst, src, bytes, direction, err);
    gpu_note_queued(gpu, stream);
    return status;
}

stator_status st_gpu_fill(st_gpu *gpu, void *dst, uint8_t value, uint64_t bytes, void *handle,
                          stator_diag **err)
{
    gpu_stream *stream = NULL;
    if (bytes == 0) {
        return STATOR_OK;
    }
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    const stator_status status = gpu->driver->fill(gpu->driver->self, gpu_address(dst), value,
                                                   bytes, stream->driver_stream, err);
    gpu_note_queued(gpu, stream);
    return status;
}

/* ---- between layouts ----
 *
 * By kernels that are compiled at the first such copy. A thread moves one unit, of the most bytes
 * that every address of the copy is a multiple of; of an element with more, the units become an
 * axis of their own. */

#define AXES_MAX 17u /* STATOR_RANK_MAX and one of the units */
#define BLOCK_THREADS 256u
#define UNITS 4u /* of 1, 2, 4 and 8 bytes */

/* As the text has it. */
typedef struct arguments {
    uint64_t dst, src;
    int64_t n, n_axes;
    int64_t sizes[AXES_MAX], to[AXES_MAX], from[AXES_MAX];
} arguments;

static const char text[] =
    "#include \"gpu_prelude.h\"\n"
    "\n"
    "typedef struct st_strided_arguments {\n"
    "    st_u64 dst, src;\n"
    "    st_i64 n, n_axes;\n"
    "    st_i64 sizes[17], to[17], from[17];\n"
    "} st_strided_arguments;\n"
    "\n"
    "#define ST_MOVE(name, type) \\\n"
    "ST_KERNEL(name, st_strided_arguments, 256) \\\n"
    "{ \\\n"
    "    st_i64 rest = (st_i64)ST_BLOCK * 256 + (st_i64)ST_THREAD; \\\n"
    "    if (rest < ST_ARG(n)) { \\\n"
    "        st_i64 to = 0; \\\n"
    "        st_i64 from = 0; \\\n"
    "        for (st_i64 axis = ST_ARG(n_axes) - 1; axis >= 0; axis--) { \\\n"
    "            const st_i64 i = rest % ST_ARG(sizes)[axis]; \\\n"
    "            rest = rest / ST_ARG(sizes)[axis]; \\\n"
    "            to += i * ST_ARG(to)[axis]; \\\n"
    "            from += i * ST_ARG(from)[axis]; \\\n"
    "        } \\\n"
    "        const type *s = ST_GLOBAL(const type, ST_ARG(src) + (st_u64)from); \\\n"
    "        type *d = ST_GLOBAL(type, ST_ARG(dst) + (st_u64)to); \\\n"
    "        *d = *s; \\\n"
    "    } \\\n"
    "}\n"
    "\n"
    "ST_MOVE(st_strided_1, st_u8)\n"
    "ST_MOVE(st_strided_2, st_u16)\n"
    "ST_MOVE(st_strided_4, st_u32)\n"
    "ST_MOVE(st_strided_8, st_u64)\n";

static stator_status find_kernels(st_gpu *gpu, gpu_program **out, stator_diag **err)
{
    static const char *const kernels[UNITS + 1u] = {"st_strided_1", "st_strided_2", "st_strided_4",
                                                    "st_strided_8"};
    const st_str whole = {.data = (char *)(uintptr_t)text, .len = sizeof text - 1u};
    return gpu_program_find(gpu, &whole, kernels, NULL, out, err);
}

/* The power of the unit's bytes. */
static uint32_t unit_of(st_gpu_address dst, st_gpu_address src, const stator_strided_copy *layout)
{
    uint64_t all = dst | src | layout->item_bytes;
    uint32_t power = 0;
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        all |= (uint64_t)layout->dst_strides[axis] | (uint64_t)layout->src_strides[axis];
    }
    while (power + 1u < UNITS && all % (UINT64_C(2) << power) == 0) {
        power++;
    }
    return power;
}

static void fill_arguments(const stator_strided_copy *layout, uint32_t power, arguments *a)
{
    const int64_t unit = INT64_C(1) << power;
    a->n = 1;
    a->n_axes = (int64_t)layout->rank + 1;
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        a->sizes[axis] = layout->sizes[axis];
        a->to[axis] = layout->dst_strides[axis];
        a->from[axis] = layout->src_strides[axis];
        a->n *= layout->sizes[axis];
    }
    a->sizes[layout->rank] = (int64_t)layout->item_bytes / unit;
    a->to[layout->rank] = unit;
    a->from[layout->rank] = unit;
    a->n *= a->sizes[layout->rank];
}

stator_status st_gpu_copy_strided(st_gpu *gpu, void *dst, const void *src,
                                  const stator_strided_copy *layout, void *handle,
                                  stator_diag **err)
{
    gpu_stream *stream = NULL;
    gpu_program *program = NULL;
    arguments a = {.dst = gpu_address(dst), .src = gpu_address(src)};
    const uint32_t power = unit_of(a.dst, a.src, layout);
    ST_FAIL_IF(layout->rank >= AXES_MAX, err, STATOR_INVALID_ARGUMENT,
               "a copy has %u axes, more than %u", layout->rank, AXES_MAX - 1u);
    fill_arguments(layout, power, &a);
    if (a.n == 0) {
        return STATOR_OK;
    }
    ST_TRY(find_kernels(gpu, &program, err));
    ST_TRY(gpu_queue_on(gpu, handle, &stream, err));
    const uint64_t blocks = ((uint64_t)a.n + BLOCK_THREADS - 1u) / BLOCK_THREADS;
    ST_FAIL_IF(blocks > INT32_MAX, err, STATOR_RESOURCE_EXHAUSTED,
               "a copy between layouts has %lld elements, more than a grid of 2^31 blocks moves",
               (long long)a.n);
    const st_gpu_launch launch = {.function = program->functions[power],
                                  .blocks = {(uint32_t)blocks, 1, 1},
                                  .threads = BLOCK_THREADS,
                                  .arguments = &a,
                                  .argument_bytes = sizeof a};
    const stator_status status = gpu_queue_launch(gpu, &launch, stream, err);
    gpu_note_queued(gpu, stream);
    return status;
}
