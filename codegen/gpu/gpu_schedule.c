/* The GPU's schedule: loops ordered and merged, then spread over a grid of blocks of threads.
 *
 *   before  loop i0 < N parallel { loop i1 < 64 { ... x[64*i0 + i1], y[i1] ... } }
 *   after   loop i2 < 64*N parallel over the grid { n = mod(i2, 64); ... x[i2], y[n] ... }
 *
 * Independent loops right inside each other become one, of which each thread takes an iteration and
 * runs what is left inside. Where rows are long each block takes an iteration and its threads share
 * the loops inside (gpu_row.c). Contractions are made tile by tile (contract/gpu_contract.c). */
#include "codegen/gpu/gpu_schedule.h"

#include "codegen/loopir/loop_narrow.h"
#include "codegen/schedule/cpu/cpu_schedule.h"

#define GRID_THREADS 256u /* of a block of independent iterations: the best of those measured */
#define LANES_MIN 1024    /* fewer iterations are taken one by one */

static void map_grid(const gpu_mapper *m, uint32_t mapping)
{
    const st_loop_ref loop = st_kernel_parallel_loop(m->kernel);
    if (mapping == ST_MAPPING_GRID) {
        const bool has_lanes = loop && gpu_hint_of(m, loop) >= LANES_MIN;
        m->kernel->threads = loop ? GRID_THREADS : 1u;
        if (has_lanes) {
            gpu_axis_of(m, loop)->lanes = gpu_lanes_for(m->kernel, loop);
        }
    }
    if (loop) {
        gpu_axis_of(m, loop)->mapping = mapping;
    }
}

/* The nest becomes one loop, and threads share those inside where that is better. */
static bool map_rows(const gpu_mapper *m, gpu_nest *of, uint32_t *out_mapping)
{
    const bool is_column = gpu_is_column(m, of);
    const uint32_t members = is_column ? 0 : gpu_short_row(m, of);
    const bool is_row = !is_column && gpu_is_row(m, of);
    bool is_short = false;
    if (!gpu_flatten(m, of) || (members && !gpu_map_short_row(m, members, &is_short)) ||
        (is_row && !is_short && !gpu_map_row(m)) || (is_column && !gpu_map_column(m))) {
        return false;
    }
    *out_mapping = is_column  ? ST_MAPPING_COLUMNS
                   : is_short ? ST_MAPPING_ROWS
                   : is_row   ? ST_MAPPING_BLOCKS
                              : ST_MAPPING_GRID;
    return true;
}

stator_status st_gpu_schedule(const st_target *target, st_kernel *kernel, stator_diag **err)
{
    const gpu_mapper m = {target, kernel};
    gpu_nest of;
    st_loop_narrow_functions(kernel);
    ST_TRY_MEM(cg_order_reductions(kernel) && st_kernel_merge_axes(kernel), err);
    bool is_tile = false;
    ST_TRY_MEM(gpu_map_contraction(&m, &is_tile), err);
    if (is_tile) {
        return st_kernel_verify(kernel, err);
    }
    gpu_find_nest(&m, st_kernel_parallel_loop(kernel), &of);
    ST_TRY_MEM(gpu_map_tile(&m, &of, &is_tile), err);
    if (is_tile) {
        map_grid(&m, ST_MAPPING_BLOCKS);
        return st_kernel_verify(kernel, err);
    }
    uint32_t mapping = ST_MAPPING_GRID;
    ST_TRY_MEM(map_rows(&m, &of, &mapping), err);
    map_grid(&m, mapping);
    ST_TRY_MEM(cg_widen_long_sums(kernel), err);
    return st_kernel_verify(kernel, err);
}
