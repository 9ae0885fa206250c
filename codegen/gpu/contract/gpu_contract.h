/* Tiles of contractions: what gpu_contract.c writes into a kernel's loops and gpu_contract_text.c
 * prints. */
#ifndef STATOR_CODEGEN_GPU_CONTRACT_H
#define STATOR_CODEGEN_GPU_CONTRACT_H

#include "codegen/loopir/loop.h"
#include "codegen/target/emitter.h"

/* How a block makes one tile of a product. Where each result is a thread's own sum, each warp makes
 * 32 rows, each thread 8; with several shares, as many groups of its threads take turns at the
 * steps, each makes a tile of its own, and these are added in their order. Where matrix
 * instructions make products, a warp makes a part of the tile. */
typedef struct gpu_tile_shape {
    uint32_t mapping;        /* st_axis_mapping of the steps */
    uint32_t rows, columns;  /* of the tile */
    uint32_t steps;          /* of the sum between two barriers, of one share */
    uint32_t threads;        /* of the block */
    uint32_t thread_columns; /* of the tile that one thread makes: 4 or 8; 0: matrices */
    uint32_t shares;
    /* Of matrices alone: of the tile that one warp makes, and so many times the steps of both
     * factors that shared memory has, three or more. */
    uint32_t warp_rows, warp_columns;
    uint32_t stages;
} gpu_tile_shape;

/* The shape of TILE_STEPS with so many rows, columns, steps and threads; NULL: there is none. */
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

/* ---- gpu_matrix.c ---- */

/* What matrix instructions are for one mapping. */
typedef struct gpu_matrix_kind {
    uint32_t mapping;
    uint32_t bytes;  /* of an element in shared memory */
    uint32_t pieces; /* that an element is taken apart into */
} gpu_matrix_kind;

/* NULL: the mapping is of no matrices. */
const gpu_matrix_kind *gpu_matrix_kind_of(uint32_t mapping);
/* The shape of this mapping with so many rows and columns; NULL: there is none. */
const gpu_tile_shape *gpu_matrix_shape_of(uint32_t mapping, int64_t rows, int64_t columns);
/* Bytes of shared memory that its tile takes. */
uint32_t gpu_matrix_bytes(const gpu_tile_shape *shape);

/* A contraction as gpu_matrix_choose sees it. */
typedef struct gpu_matrix_question {
    const st_target *target;
    const st_kernel *kernel;
    st_loop_ref product;          /* the mul */
    int64_t batch, rows, columns; /* to decide by */
} gpu_matrix_question;

/* Chooses a tile of matrices; NULL: the target, the types or its options have none. */
const gpu_tile_shape *gpu_matrix_choose(const gpu_matrix_question *q);

#endif
