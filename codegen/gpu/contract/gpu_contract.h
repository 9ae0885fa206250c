/* Tiles of contractions: what gpu_contract.c writes into a kernel's loops and gpu_contract_text.c
 * prints. */
#ifndef STATOR_CODEGEN_GPU_CONTRACT_H
#define STATOR_CODEGEN_GPU_CONTRACT_H

#include "codegen/loopir/loop.h"

/* How a block makes one tile of a product. Each of its warps makes 32 rows, each thread 8. With
 * several shares, as many groups of its threads take turns at the steps, each makes a tile of its
 * own, and these are added in their order. */
typedef struct gpu_tile_shape {
    uint32_t rows, columns;  /* of the tile */
    uint32_t steps;          /* of the sum between two barriers, of one share */
    uint32_t threads;        /* of the block */
    uint32_t thread_columns; /* of the tile that one thread makes: 4 or 8 */
    uint32_t shares;
} gpu_tile_shape;

/* The shape of a tile with so many rows, columns, steps and threads; NULL: there is none. */
const gpu_tile_shape *gpu_tile_shape_of(int64_t rows, int64_t columns, uint32_t steps,
                                        uint32_t threads);

#define GPU_SUMS_MAX 4u       /* of a skinny product */
#define GPU_SKINNY_STEPS 4u   /* that a thread takes side by side */
#define GPU_SKINNY_COLUMNS 4u /* of the wide side that a thread makes */

/* A product to choose by, in iterations that it is likely to have. */
typedef struct gpu_product_size {
    uint32_t dtype;  /* of the sums */
    uint32_t n_sums; /* of which all have one factor in common */
    int64_t batch, rows, columns, steps;
    bool has_rows, has_columns; /* are these known? */
    uint32_t n_multiprocessors, block_threads_max;
} gpu_product_size;

/* ---- gpu_tile_shape.c ---- */
/* The tile that takes the shortest time; false: one side is too narrow for any. */
bool gpu_choose_tile(const gpu_product_size *of, gpu_tile_shape *out);
/* The tile of a product one side of which is narrow: the threads of a block share the steps. false:
 * there is too little to share. */
bool gpu_choose_skinny(const gpu_product_size *of, gpu_tile_shape *out);

/* ---- gpu_contract.c ---- */

/* Sets the bit in the marks, by instruction, of what the value of an instruction is computed from,
 * itself included. */
void gpu_mark_needed(const st_kernel *kernel, st_loop_ref ref, uint8_t *marks, uint8_t bit);

#endif
