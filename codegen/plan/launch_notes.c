/* What each launch does, for profiles and explain: the nodes that it computes and the bytes of the
 * buffers that it reads and writes.
 *
 * In: a kernel in loop IR, whose instructions know their nodes; for a call of the library the
 * kernel that it stands for. Out: fields of the launch. */
#include "codegen/plan/plan.h"

#include "core/base/check.h"

#include <stdlib.h>
#include <string.h>

/* The bytes that the step reads and writes. */
static void count_bytes(const st_kernel *kernel, cg_launch *launch)
{
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &kernel->buffers.data[i];
        const int64_t count = st_loop_known_or(&kernel->syms->tab, buffer->numel, -1);
        uint64_t bytes = 0;
        if (buffer->flags & ST_BUFFER_LOCAL) {
            continue;
        }
        if (count < 0 || !st_dtype_bytes(buffer->dtype, (uint64_t)count, &bytes)) {
            launch->step_flags |= STATOR_STEP_OPEN;
        }
        launch->read_bytes += buffer->flags & ST_BUFFER_READ ? bytes : 0;
        launch->written_bytes += buffer->flags & ST_BUFFER_WRITTEN ? bytes : 0;
    }
}

static int ascending(const void *a, const void *b)
{
    const stator_ref x = *(const stator_ref *)a;
    const stator_ref y = *(const stator_ref *)b;
    return (x > y) - (x < y);
}

/* The nodes of a kernel's instructions, each once, into `out`, which has room for all
 * instructions; how many. */
static uint32_t list_nodes(const st_kernel *kernel, stator_ref *out)
{
    uint32_t n = 0;
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const stator_ref origin = st_loop_at(kernel, ref)->origin;
        if (origin && (n == 0 || out[n - 1u] != origin)) {
            out[n++] = origin;
        }
    }
    qsort(out, n, sizeof *out, ascending);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || out[i] != out[n_kept - 1u]) {
            out[n_kept++] = out[i];
        }
    }
    return n_kept;
}

stator_status cg_note_nodes(const stator_ref *nodes, uint32_t n, st_cg_exe *exe, cg_launch *launch,
                            stator_diag **err)
{
    stator_ref *kept = st_arena_alloc(&exe->arena, (n + UINT64_C(1)) * sizeof *kept, sizeof *kept);
    ST_TRY_MEM(kept, err);
    memcpy(kept, nodes, n * sizeof *kept);
    launch->nodes = kept;
    launch->n_nodes = n;
    return STATOR_OK;
}

stator_status cg_note_step(const st_kernel *kernel, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err)
{
    count_bytes(kernel, launch);
    stator_ref *nodes =
        st_calloc(exe->config.mem, kernel->insts.count + UINT64_C(1), sizeof *nodes);
    ST_TRY_MEM(nodes, err);
    const stator_status status = cg_note_nodes(nodes, list_nodes(kernel, nodes), exe, launch, err);
    st_free(exe->config.mem, nodes);
    return status;
}

stator_status cg_add_operand(st_cg_exe *exe, uint32_t buffer, cg_launch *launch, stator_diag **err)
{
    const uint32_t step = exe->launches.count - 1u;
    uint32_t *operand = st_vec_push(exe->config.mem, &exe->operands);
    ST_TRY_MEM(operand, err);
    *operand = buffer;
    launch->n_buffers++;
    exe->operands_max =
        launch->n_buffers > exe->operands_max ? launch->n_buffers : exe->operands_max;
    if (buffer != UINT32_MAX) {
        cg_buffer *of = &exe->buffers.data[buffer];
        of->first = of->first == UINT32_MAX ? step : of->first;
        of->last = step;
    }
    return STATOR_OK;
}
