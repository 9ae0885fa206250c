/* The host library (host_library.h).
 *
 * An op keeps what of its contraction is no size; sizes and strides come with each call. Scratch
 * is kept from call to call; calls that overlap get some of their own. */
#include "codegen/run/host_library.h"

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/diag.h"
#include "core/base/order/order.h"
#include "core/base/str.h"

#include <stdatomic.h>

#define SCRATCH_ALIGN 64u

typedef struct host_op {
    uint32_t kind, dtype;
    uint32_t rank, axis, is_falling;
    uint32_t x, values, indices; /* buffers; UINT32_MAX: none */
    _Atomic(void *) spare;       /* scratch that nobody uses */
} host_op;

/* The head of a block of scratch. */
typedef struct scratch {
    uint64_t capacity;
    char padding[SCRATCH_ALIGN - sizeof(uint64_t)];
} scratch;
_Static_assert(sizeof(scratch) == SCRATCH_ALIGN, "what follows is aligned");

static int32_t takes(void *self, const st_contraction *contraction)
{
    (void)self;
    return contraction->kind == ST_CONTRACTION_ORDER;
}

static host_op *new_op(const st_cg_config *config, stator_diag **err)
{
    host_op *op = st_calloc(config->mem, 1, sizeof *op);
    if (op == NULL) {
        (void)st_fail_oom(err);
    }
    return op;
}

static stator_status create(void *self, const st_contraction *contraction, void **out_op,
                            stator_diag **err)
{
    host_op *op = new_op(self, err);
    *out_op = op;
    if (op == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    op->kind = contraction->kind;
    op->dtype = contraction->x.dtype;
    op->rank = contraction->order.rank;
    op->axis = contraction->order.axis;
    op->is_falling = contraction->order.is_falling;
    op->x = contraction->x.buffer;
    op->values = contraction->out.buffer;
    op->indices = contraction->order.indices;
    return STATOR_OK;
}

static void destroy(void *self, void *op_)
{
    const st_cg_config *config = self;
    host_op *op = op_;
    if (op) {
        st_free(config->mem, atomic_load(&op->spare));
        st_free(config->mem, op);
    }
}

/* ---- a call ---- */

/* The block is the caller's, to give back with atomic_exchange; NULL: out of memory. */
static scratch *take_scratch(const st_cg_config *config, host_op *op, uint64_t bytes)
{
    scratch *block = atomic_exchange(&op->spare, NULL);
    if (block && block->capacity >= bytes) {
        return block;
    }
    st_free(config->mem, block);
    block = bytes < UINT64_MAX - sizeof *block
                ? st_alloc(config->mem, sizeof *block + bytes, SCRATCH_ALIGN)
                : NULL;
    if (block) {
        block->capacity = bytes;
    }
    return block;
}

typedef struct host_threads {
    const stator_host *host;
    stator_ctx *ctx;
} host_threads;

static void parallel_for(void *self, int64_t n, int64_t grain,
                         void (*fn)(void *fn_self, int64_t begin, int64_t end), void *fn_self)
{
    const host_threads *t = self;
    t->host->thr->parallel_for(t->ctx, n, grain, fn, fn_self);
}

/* Sizes and strides in the order of st_contraction_numbers. */
static st_order_job job_of(const host_op *op, const st_library_call *call)
{
    const int64_t *numbers = call->numbers;
    st_order_job job = {.dtype = op->dtype, .is_falling = op->is_falling, .take = numbers[1]};
    uint64_t bytes = 0;
    (void)st_dtype_bytes(op->dtype, 1, &bytes);
    job.x = (const char *)call->buffers[op->x] + numbers[0] * (int64_t)bytes;
    job.values = op->values == UINT32_MAX ? NULL : call->buffers[op->values];
    job.indices = op->indices == UINT32_MAX ? NULL : call->buffers[op->indices];
    for (uint32_t a = 0; a < op->rank; a++) {
        const int64_t *of_axis = numbers + 2 + (int64_t)a * 4;
        if (a == op->axis) {
            job.size = of_axis[0];
            job.x_step = of_axis[1];
            job.values_step = of_axis[2];
            job.indices_step = of_axis[3];
        } else if (of_axis[0] != 1) {
            job.axes[job.n_axes++] =
                (st_order_axis){of_axis[0], of_axis[1], of_axis[2], of_axis[3]};
        }
    }
    return job;
}

static stator_status run(void *self, void *op_, const st_library_call *call, stator_diag **err)
{
    const st_cg_config *config = self;
    host_op *op = op_;
    const stator_host *host = config->host;
    host_threads on = {host, call->call->ctx ? call->call->ctx : host->ctx};
    const st_order_threads threads = {
        .count = host->thr->thread_count(on.ctx), .parallel_for = parallel_for, .self = &on};
    const st_order_job job = job_of(op, call);
    scratch *block = take_scratch(config, op, st_order_scratch(&job, threads.count));
    ST_TRY_MEM(block, err);
    st_order_run(&job, &threads, block + 1);
    st_free(config->mem, atomic_exchange(&op->spare, block));
    return STATOR_OK;
}

/* ---- the compile cache ---- */

static stator_status op_save(void *self, void *op_, st_str *out, stator_diag **err)
{
    const host_op *op = op_;
    (void)self;
    (void)err;
    st_put_u32(out, op->kind);
    st_put_u32(out, op->dtype);
    st_put_u32(out, op->rank);
    st_put_u32(out, op->axis);
    st_put_u32(out, op->is_falling);
    st_put_u32(out, op->x);
    st_put_u32(out, op->values);
    st_put_u32(out, op->indices);
    return STATOR_OK;
}

/* A buffer's index; UINT32_MAX: none. */
static uint32_t read_buffer(st_reader *r, uint32_t n)
{
    const uint32_t index = st_read_u32(r);
    r->failed |= index >= n && index != UINT32_MAX;
    return index;
}

static stator_status op_load(void *self, const st_library_kept *kept, void **out_op,
                             uint32_t *out_unread, stator_diag **err)
{
    host_op *op = new_op(self, err);
    st_reader r = st_reader_of(kept->bytes, kept->size_bytes);
    *out_unread = UINT32_MAX;
    *out_op = op;
    if (op == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    op->kind = st_read_u32(&r);
    op->dtype = st_read_u32(&r);
    op->rank = st_read_below(&r, ST_CONTRACTION_ORDER_RANK_MAX + 1u);
    op->axis = st_read_below(&r, op->rank);
    op->is_falling = st_read_below(&r, 2);
    op->x = st_read_below(&r, kept->n_buffers);
    op->values = read_buffer(&r, kept->n_buffers);
    op->indices = read_buffer(&r, kept->n_buffers);
    if (r.failed || r.left || op->kind != ST_CONTRACTION_ORDER ||
        kept->n_numbers != 2u + 4u * op->rank) {
        destroy(self, op);
        *out_op = NULL;
        return st_fail(err, STATOR_DATA_LOSS, "the bytes of a kept order are damaged");
    }
    return STATOR_OK;
}

static void memory(void *self, void *op_, st_library_memory *out)
{
    host_op *op = op_;
    (void)self;
    scratch *block = atomic_exchange(&op->spare, NULL);
    *out = (st_library_memory){.unread = UINT32_MAX, .scratch_bytes = block ? block->capacity : 0};
    st_free(((const st_cg_config *)self)->mem, atomic_exchange(&op->spare, block));
}

void st_host_library_init(st_library *library, const st_cg_config *config)
{
    *library = (st_library){.struct_size = sizeof *library,
                            .self = (void *)(uintptr_t)config,
                            .takes = takes,
                            .create = create,
                            .run = run,
                            .destroy = destroy,
                            .op_save = op_save,
                            .op_load = op_load,
                            .memory = memory};
}
