/* A kernel as text in the dialect of docs/gpu.md, with what a launch must know of it.
 *
 * In: a kernel that st_gpu_schedule has mapped and st_loop_expand has brought to native ops. Out: a
 * whole program that includes "gpu_prelude.h" and defines one kernel. Its one argument is a struct
 * of fields of eight bytes, in the order of `arguments`, passed by value; the host fills the same
 * fields as an array of uint64_t. */
#ifndef STATOR_CODEGEN_GPU_KERNEL_H
#define STATOR_CODEGEN_GPU_KERNEL_H

#include "codegen/loopir/loop.h"
#include "codegen/target/emitter.h"

enum st_gpu_argument_kind {
    ST_GPU_ARGUMENT_BUFFER = 1, /* device address of the kernel's buffer `index` */
    ST_GPU_ARGUMENT_SIZE = 2,   /* args->syms[index] of a call */
    ST_GPU_ARGUMENT_STATUS = 3, /* device address of the call's status word (u32) */
    ST_GPU_ARGUMENT_SCRATCH = 4 /* device address of memory for LOCAL buffers, see scratch_bytes */
};

typedef struct st_gpu_argument {
    uint32_t kind;
    uint32_t index;
} st_gpu_argument;

typedef struct st_gpu_kernel {
    char name[64];    /* of the function; an identifier */
    uint32_t threads; /* of a block */
    /* A launch has ceil(count / iterations) blocks, where count is the extent of the parallel loop,
     * 1 without one. */
    uint32_t iterations;
    uint32_t shared_bytes;  /* shared memory that the text declares, at most */
    uint32_t dynamic_bytes; /* what it has beside that and the launch asks for */
    uint32_t n_arguments;
    st_gpu_argument *arguments; /* from the arena given */
    uint64_t scratch_bytes;     /* of each block of the grid; 0: none */
} st_gpu_kernel;

/* What the text spells although it has a program; see st_target.spells. */
extern const uint8_t st_gpu_spells[ST_LOOP_CODE_COUNT];

/* The schedule of a GPU: which axis is spread over the blocks of the grid and over the threads of a
 * block. For st_target.schedule; see st_schedule_fn. */
stator_status st_gpu_schedule(const st_target *target, st_kernel *kernel, stator_diag **err);

/* Appends the program of one kernel to `out`; `name` becomes the function's. RESOURCE_EXHAUSTED. */
stator_status st_gpu_print(const st_target *target, const st_kernel *kernel, const char *name,
                           st_arena *arena, st_str *out, st_gpu_kernel *out_kernel,
                           stator_diag **err);

#endif
