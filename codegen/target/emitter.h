/* What a code generator plugs in: an emitter turns kernels into something that runs (header
 * unstable, see docs/codegen.md).
 *
 * The emitter says what its machine is like (`target`), compiles a program's kernels in one go and
 * launches one of them. Nothing here is of a CPU or of LLVM; examples/codegen-plugin is a whole
 * backend around an emitter that prints C. */
#ifndef STATOR_CODEGEN_EMITTER_H
#define STATOR_CODEGEN_EMITTER_H

#include "codegen/loopir/loop.h"
#include "codegen/target/device_memory.h"
#include "codegen/target/library.h"
#include <stator/plugin.h>

enum st_target_kind {
    ST_TARGET_CPU = 0,
    ST_TARGET_GPU = 1 /* kernels are mapped onto blocks of threads, docs/gpu.md */
};

enum st_target_flag {
    ST_TARGET_GATHER = 1u << 0, /* indirect vector loads are worth it */
    /* Kernels, as the buffer's `align` says, and the library read constants at any address. */
    ST_TARGET_UNALIGNED = 1u << 1
};

/* How contractions of f32 are computed where there are matrix instructions. */
enum st_f32_products {
    ST_F32_STRICT = 0, /* by products and sums of f32 */
    ST_F32_TF32 = 1,   /* factors rounded to 10 bits of fraction */
    ST_F32_BF16X3 = 2, /* factors as sums of two values of bf16: three products */
    ST_F32_BF16X6 = 3  /* of three: six products */
};

struct st_target;

/* Decides how the loops of one kernel run on the target, in place: their order, which axis is a
 * vector, which is parallel. The kernel comes as it was lowered and must verify afterwards. Pure,
 * any thread. For a CPU: st_cpu_schedule (codegen/schedule/cpu/cpu_schedule.h). */
typedef stator_status (*st_schedule_fn)(const struct st_target *target, st_kernel *kernel,
                                        stator_diag **err);

typedef struct st_target {
    uint32_t struct_size;
    uint32_t flags;        /* st_target_flag */
    uint32_t vector_bytes; /* width of a vector register, 0: no vector axis */
    uint32_t threads;      /* threads that parallel axes are spread over */
    uint64_t l1_bytes;     /* data cache of one core */
    uint64_t l2_bytes;
    uint64_t l3_bytes; /* shared; outputs beyond it are written past the caches */
    /* Ops that the emitter spells although they have an expansion, by code; NULL: none. Of lookup
     * the entries of a table that is fast: ST_MATH_FEW or ST_MATH_ENTRIES; of cast st_cast_spelled:
     * which of those between f32 and a storage type. */
    const uint8_t *spells;
    st_schedule_fn schedule;
    /* Of a GPU; a CPU's are 0. There `threads` are the blocks that keep it busy, and vectors have 0
     * bytes. */
    uint32_t kind; /* st_target_kind */
    uint32_t n_multiprocessors;
    uint32_t warp_size;          /* threads that run together: 32 or 64 */
    uint32_t block_threads_max;  /* threads of a block */
    uint32_t shared_bytes;       /* of memory that the threads of a block share */
    uint32_t shared_optin_bytes; /* the most of it that a block can ask for */
    uint32_t has_matrices;       /* 1: matrix instructions, see ST_MAPPING_MATRIX_STEPS */
    uint32_t f32_products; /* st_f32_products: how contractions of f32 are computed on a GPU */
} st_target;

typedef struct st_launch {
    const stator_call *call;
    const st_kernel_args *args;
    int64_t count; /* iterations of the parallel loop; 1 without one */
    int64_t grain; /* iterations that are worth a thread of their own */
    /* 1: nothing but iterations [begin, count) of the parallel loop, on the calling thread, while
     * others do the rest; `begin` is a multiple of the lanes. Of emitters with ST_EMITTER_PARTS. */
    uint32_t is_part;
    uint32_t reserved;
    int64_t begin;
    void *device_call; /* of st_device_memory.begin; then args->status is NULL */
} st_launch;

enum st_emitter_flag {
    ST_EMITTER_PARTS = 1u << 0,
    /* Buffers are memory that this process reads, and codegen's own kernels in C may be steps of a
     * program (codegen/run/host_library.h). */
    ST_EMITTER_HOST = 1u << 1
};

typedef struct st_emitter {
    uint32_t struct_size;
    uint32_t flags; /* st_emitter_flag */
    void *self;
    st_target target;
    /* Kernels are borrowed for the call. Any thread. */
    stator_status (*compile)(void *self, const st_kernel *const *kernels, uint32_t n,
                             void **out_module, stator_diag **err);
    /* Runs kernel k of the module; returns when it is done (or queued on call->stream). Any thread,
     * concurrently. */
    stator_status (*launch)(void *self, void *module, uint32_t k, const st_launch *launch,
                            stator_diag **err);
    void (*module_destroy)(void *self, void *module);
    const st_library *library; /* NULL: every contraction becomes loops */
    /* Ops that are no loops, in kernels of the emitter's own: contractions from ORDER on. NULL:
     * those of codegen/run/host_library.h with ST_EMITTER_HOST, else none. */
    const st_library *fixed;
    /* Both NULL: modules cannot be kept in the compile cache. save, called at most once and before
     * the first launch, appends the module as bytes; load makes it again, in another process, on an
     * emitter of the same build, options and machine. The bytes may be damaged: DATA_LOSS. */
    stator_status (*module_save)(void *self, void *module, st_str *out, stator_diag **err);
    stator_status (*module_load)(void *self, const void *bytes, uint64_t n, uint32_t n_kernels,
                                 void **out_module, stator_diag **err);
    /* NULL: buffers are host memory, and `launch` has done its work when it returns. Else without
     * PARTS and HOST. */
    const st_device_memory *memory;
} st_emitter;

#endif
