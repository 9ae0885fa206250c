/* The room of the GPU's schedule, shared by its files: gpu_schedule.c decides and makes one axis of
 * a nest, gpu_row.c spreads rows over blocks. */
#ifndef STATOR_CODEGEN_GPU_SCHEDULE_H
#define STATOR_CODEGEN_GPU_SCHEDULE_H

#include "codegen/gpu/gpu_kernel.h"

typedef struct gpu_mapper {
    const st_target *target;
    st_kernel *kernel;
} gpu_mapper;

static inline st_loop_inst *gpu_at(const gpu_mapper *m, st_loop_ref ref)
{
    return &m->kernel->insts.data[ref];
}

static inline st_loop_axis *gpu_axis_of(const gpu_mapper *m, st_loop_ref loop)
{
    return &m->kernel->axes.data[gpu_at(m, loop)->ref];
}

/* Do the iterations of the loop touch nothing of each other, accumulators included? */
bool gpu_is_independent(const gpu_mapper *m, st_loop_ref loop);

/* ---- gpu_row.c ---- */
/* Is the kernel better run with a block for each iteration of the parallel loop? `inner` is the
 * symbol that neighbouring iterations of it differ in, 0: there is no parallel loop. */
bool gpu_is_row(const gpu_mapper *m, uint32_t inner_axis, int64_t n_iterations);
/* Spreads the iterations over blocks, and the loops inside over their threads. */
void gpu_map_row(const gpu_mapper *m);

#endif
