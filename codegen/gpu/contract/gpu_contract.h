/* Tiles of contractions: what gpu_contract.c writes into a kernel's loops and gpu_contract_text.c
 * prints. */
#ifndef STATOR_CODEGEN_GPU_CONTRACT_H
#define STATOR_CODEGEN_GPU_CONTRACT_H

#include "codegen/loopir/loop.h"

/* How a block makes one tile of a product. Each of its warps makes 32 rows, each thread 8. */
typedef struct gpu_tile_shape {
    uint32_t rows, columns;  /* of the tile */
    uint32_t steps;          /* of the sum between two barriers */
    uint32_t threads;        /* of the block */
    uint32_t thread_columns; /* of the tile that one thread makes: 4 or 8 */
} gpu_tile_shape;

/* The shape of a tile with so many rows and columns; NULL: there is none. */
const gpu_tile_shape *gpu_tile_shape_of(int64_t rows, int64_t columns);

/* Sets the bit in the marks, by instruction, of what the value of an instruction is computed from,
 * itself included. */
void gpu_mark_needed(const st_kernel *kernel, st_loop_ref ref, uint8_t *marks, uint8_t bit);

#endif
