/* The room of the GPU's text, shared by its files: gpu_text.c prints the program around a kernel,
 * gpu_block.c what the threads of a block do together, gpu_combine.c how their accumulators become
 * one, gpu_spelling.c has the words of the dialect. */
#ifndef STATOR_CODEGEN_GPU_TEXT_H
#define STATOR_CODEGEN_GPU_TEXT_H

#include "codegen/gpu/gpu_kernel.h"
#include "codegen/loopir/loop_text.h"

/* What a thread's copy of an accumulator holds, between two instructions of the block. */
enum gpu_acc_state {
    GPU_ACC_IDENTITY = 0, /* what an update leaves as it is */
    GPU_ACC_UNIFORM = 1,  /* the same in all threads */
    GPU_ACC_PARTIAL = 2   /* what this thread's iterations gave */
};

enum gpu_access { GPU_ACCESS_READ = 1u << 0, GPU_ACCESS_WRITTEN = 1u << 1 };

typedef struct gpu_text {
    st_loop_text t;
    const st_kernel *kernel;
    uint32_t n_loops;     /* around the instruction, that all threads of the block run together */
    uint8_t *acc_state;   /* gpu_acc_state, by ACC instruction */
    uint8_t *is_combined; /* over the block, by ACC instruction */
    uint32_t columns;     /* iterations of the parallel loop in a block of COLUMNS, else 0 */
    uint32_t row_threads; /* of ROWS that share an iteration of the parallel loop, else 0 */
    const char *guard;    /* what is false in threads beyond the last iteration; NULL: none are */
    uint8_t *touched;     /* gpu_access since the last barrier, by buffer */
    uint8_t *is_staged;   /* of the loop that is printed; see st_loop_text */
    st_loop_ref *held; /* by LOAD along a held axis: that whose words it has, itself if it is it */
    bool has_words;    /* does a load of the loop that is printed have words of its own? */
    bool is_aligned;   /* is the body printed for memory that is aligned as `alignment` says? */
    bool is_rolled;    /* does it keep loops as they are, because it seldom runs? */
    uint8_t
        *alignment; /* by buffer: bytes of an access that its first element must be aligned to */
    /* Is there a function that moves so many elements? By load or store, size and lanes. */
    uint8_t has_move[2][4][3];
    uint8_t *needed; /* by instruction; see contract/gpu_contract_text.h */
    /* Is there a function that combines such accumulators over a warp? By kind and dtype. */
    uint8_t has_function[ST_ACC_LAST + 1u][STATOR_DTYPE_COUNT];
} gpu_text;

/* ---- gpu_spelling.c ---- */
extern const st_loop_spelling gpu_spelling;
/* Appends the helpers of the dialect that `body` names. */
void gpu_put_helpers(const char *body, st_str *out);

/* ---- gpu_block.c ---- */
/* Prints a block of instructions that all threads of a block run together. */
void gpu_put_shared_block(gpu_text *g, uint32_t block);
/* A LOOP that one thread runs by itself; for st_loop_text.put_loop. */
void gpu_put_loop(st_loop_text *t, const st_loop_inst *inst);

/* ---- gpu_lanes.c ---- */
/* Does each thread take several iterations of the loop side by side? */
bool gpu_has_lanes(const gpu_text *g, const st_loop_inst *loop);
/* Prints those iterations, of which f<axis> is the first. */
void gpu_put_lanes(gpu_text *g, const st_loop_inst *loop);
/* Prints a loop over a held axis. */
void gpu_put_held(gpu_text *g, const st_loop_inst *loop);
/* Elements that a thread has of a LOCAL buffer that each has a part of. */
uint32_t gpu_own_elements(const gpu_text *g, uint32_t buffer);
/* The functions through which lanes are loaded and stored. */
void gpu_put_moves(gpu_text *g);

/* ---- contract/gpu_contract_text.c ---- */
/* Prints what a block does for a tile of a contraction: the loop over the tile's rows. */
void gpu_put_tile(gpu_text *g, const st_loop_inst *rows);
/* Shared memory of the tile, if the kernel has one; its bytes, and those that the launch asks for,
 * which are declared last. */
uint32_t gpu_put_tile_memory(gpu_text *g, uint32_t *out_dynamic);

/* ---- gpu_combine.c ---- */
/* Prints the thread's number among those that share the iterations of a loop. */
void gpu_put_member(gpu_text *g);
/* The same as an operand of the index type. */
void gpu_put_member_index(gpu_text *g);
/* How many they are. */
uint32_t gpu_members(const gpu_text *g);
/* The accumulator becomes the same in all threads; a barrier is part of it. */
void gpu_put_combine(gpu_text *g, st_loop_ref acc);
/* The functions that the body calls. */
void gpu_put_functions(gpu_text *g);
/* Shared memory through which warps exchange accumulators; its bytes. */
uint32_t gpu_put_exchanges(gpu_text *g);

#endif
