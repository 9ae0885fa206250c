/* The room of the GPU's schedule, shared by its files: gpu_schedule.c spreads the parallel loop,
 * gpu_row.c the loops inside over the threads of a block, gpu_nest.c makes one loop of several. */
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

/* The extent to decide by. */
static inline int64_t gpu_hint_of(const gpu_mapper *m, st_loop_ref loop)
{
    return st_sym_size_hint(&m->kernel->syms->tab, gpu_axis_of(m, loop)->extent);
}

/* ---- gpu_nest.c ---- */
#define GPU_NEST_MAX 8u

/* Loops right inside each other, the outermost first. */
typedef struct gpu_nest {
    uint32_t n;
    st_loop_ref loops[GPU_NEST_MAX];
    st_loop_axis axes[GPU_NEST_MAX];
    uint32_t stride[GPU_NEST_MAX]; /* product of the extents inside, syms */
    uint32_t extent;               /* of all together, a sym */
    uint32_t whole;                /* the one axis, a sym */
    uint32_t *to;                  /* by symbol: what is put in its place, see st_loop_subst */
    uint32_t n_to;
} gpu_nest;

/* The nest from the loop (0: none) inwards whose iterations may be run in any order; of the
 * parallel loop those that do not meet in accumulators either. */
void gpu_find_nest(const gpu_mapper *m, st_loop_ref loop, gpu_nest *out);
/* Is the sym made of sizes alone? */
bool gpu_is_of_sizes(const gpu_mapper *m, uint32_t sym);
/* The nest becomes one loop, its first, unless an index would be beyond the limits of syms; 0: out
 * of memory. */
bool gpu_flatten(const gpu_mapper *m, gpu_nest *of);

/* Does the kernel write memory that the buffer may be part of? */
bool gpu_is_written(const st_kernel *kernel, uint32_t index);
/* Appends an instruction to the block; 0: out of memory. */
st_loop_ref gpu_append(const gpu_mapper *m, uint32_t block, const st_loop_inst *inst);
/* Opens a loop over the axis, mapped so, at the end of the block; its body, 0: out of memory. */
uint32_t gpu_open_loop(const gpu_mapper *m, uint32_t axis, uint32_t mapping, uint32_t block);
/* Binds a symbol to the value of `sym`, which lies in lo..hi, at the end of the block; 0: out of
 * memory or beyond the limits of syms. */
uint32_t gpu_bind(const gpu_mapper *m, uint32_t sym, int64_t lo, int64_t hi, uint32_t block);

/* ---- gpu_tile.c ---- */
/* Runs the nest of the parallel loop by tiles where loads and stores are contiguous along different
 * axes; 0: out of memory. */
bool gpu_map_tile(const gpu_mapper *m, gpu_nest *of, bool *out_is_done);

/* ---- contract/gpu_contract.c ---- */
/* Runs a contraction by tiles where it is large enough; the order of the kernel's loops may have
 * changed where it is not done after all. 0: out of memory. */
bool gpu_map_contraction(const gpu_mapper *m, bool *out_is_done);

/* ---- gpu_vector.c ---- */
/* Is the sym a multiple of n, whatever its symbols are? */
bool gpu_is_multiple(const st_kernel *kernel, uint32_t sym, uint32_t n);
/* About how many instructions an iteration of the loop is; 0: it has a loop inside. */
uint32_t gpu_cost_of(const st_kernel *kernel, st_loop_ref loop);
/* The most iterations whose accesses are 16 bytes at most; 1: none is made at once. */
uint32_t gpu_widest_lanes(const st_kernel *kernel, st_loop_ref at);
/* How many iterations of the loop a thread takes side by side, so that it moves up to 16 bytes at
 * once; 1: one by one. */
uint32_t gpu_lanes_for(const st_kernel *kernel, st_loop_ref loop);
/* Bytes of one access to memory over this many iterations of the loop, 0: each makes its own. */
uint32_t gpu_vector_bytes(const st_kernel *kernel, const st_loop_inst *loop, st_loop_ref access,
                          uint32_t lanes);

/* ---- gpu_row.c ---- */
/* Is the kernel run better by a block for each iteration of the nest of its parallel loop (n = 0:
 * there is none)? */
bool gpu_is_row(const gpu_mapper *m, const gpu_nest *of);
/* Is it run better by blocks that take neighbouring iterations of the nest each, of which several
 * threads share one? */
bool gpu_is_column(const gpu_mapper *m, const gpu_nest *of);
/* Spreads the loops inside over those threads; 0: as gpu_flatten. */
bool gpu_map_column(const gpu_mapper *m);
/* How many threads share an iteration of the nest where a block takes several short rows; 0: they
 * are not run so. */
uint32_t gpu_short_row(const gpu_mapper *m, const gpu_nest *of);
/* Spreads the loops inside over those threads, unless they would share memory; 0: as
 * gpu_flatten. */
bool gpu_map_short_row(const gpu_mapper *m, uint32_t members, bool *out_is_done);
/* Spreads the loops inside over the threads of a block; 0: as gpu_flatten. */
bool gpu_map_row(const gpu_mapper *m);

#endif
