/* Tiles of contractions as text, shared by the files that print them: gpu_tile_load.c brings
 * factors to shared memory, gpu_contract_text.c makes products of them and does with each sum
 * what the kernel does; gpu_matrix_load.c and gpu_matrix_text.c do so where matrix instructions
 * make the products; gpu_skinny.c prints tiles of few rows or columns, gpu_product.c has what they
 * have in common. */
#ifndef STATOR_CODEGEN_GPU_CONTRACT_TEXT_H
#define STATOR_CODEGEN_GPU_CONTRACT_TEXT_H

#include "codegen/gpu/contract/gpu_contract.h"
#include "codegen/gpu/gpu_text.h"

#define GPU_VECTOR 4u  /* elements that a thread brings at once for its own sums */
#define GPU_BUFFERS 2u /* of shared memory: one is written while the other one is read */

/* Bits of gpu_text.needed, each shifted by the operand's number. */
enum { GPU_NEEDED_BY_FACTOR = 1u, GPU_NEEDED_BY_MASK = 4u };

/* How a factor is brought: along its own side of the tile or along the steps, a few elements that
 * lie side by side at once or one by one. */
enum gpu_walk { GPU_WALK_SIDE = 0, GPU_WALK_STEPS = 1 };

typedef struct gpu_operand {
    uint32_t number; /* 0: of rows, 1: of columns */
    char name;
    st_loop_ref factor;
    const st_loop_inst *loop; /* over its side */
    uint32_t side;
    enum gpu_walk walk;
    st_loop_ref vector; /* the load that is made of `lanes` elements at once, 0: none is */
    uint32_t lanes;     /* before gpu_choose_walk the most */
    bool is_even;       /* a thread's vectors at the same steps are aligned where one is */
    const char *first;  /* where the thread's places on the side begin, "x + "; NULL: at 0 */
} gpu_operand;

typedef struct gpu_product {
    gpu_text *g;
    const gpu_tile_shape *shape;
    const st_loop_inst *loops[3]; /* over rows, columns, steps */
    st_loop_ref acc;
    gpu_operand operands[2];
    const char *member; /* the thread's number among the `members` that bring the same factors */
    uint32_t members;
    bool is_even;   /* steps are a multiple of those between two barriers, of all shares together */
    bool is_shared; /* a thread brings what it multiplies, for itself */
} gpu_product;

/* ---- gpu_product.c ---- */
/* A line of the text, indented. */
void gpu_line(const gpu_product *t, const char *format, ...) STATOR_PRINTF(2, 3);
/* What follows stands inside braces, the latter ends them. */
void gpu_open_block(const gpu_product *t);
void gpu_close_block(const gpu_product *t);
/* The type of the sum, and of an index. */
const char *gpu_type_of(const gpu_product *t);
const char *gpu_index_type(const gpu_product *t);
bool gpu_sums_f32(const gpu_product *t);
const st_loop_axis *gpu_loop_axis(const gpu_product *t, const st_loop_inst *loop);
/* Elements of shared memory from one step to the next. */
uint32_t gpu_pitch_of(const gpu_operand *o);
/* Elements of a few steps of the factor that one thread brings. */
uint32_t gpu_elements_of(const gpu_product *t, const gpu_operand *o);
/* The loop inside the block; NULL: there is none. */
const st_loop_inst *gpu_loop_in(const gpu_text *g, uint32_t block);
/* Does what is marked walk the loop? */
bool gpu_walks(const gpu_product *t, uint32_t bit, const st_loop_inst *loop);
/* Prints what stands in the block but for its loop and its sums; how many instructions. */
uint32_t gpu_put_rest(const gpu_product *t, uint32_t block, bool is_counted);
/* Prints "c[i][j] becomes its sum with p * q", of the sum's type. */
void gpu_put_multiply(const gpu_product *t, const char *c, const char *p, const char *q);
/* "share * n + ": where in shared memory of n elements a share those of the thread's begin. */
void gpu_put_share(const gpu_product *t, uint32_t n);

/* ---- gpu_tile_load.c ---- */
/* What stands in the loops of the tile and the bit of gpu_text.needed marks. */
void gpu_put_marked(const gpu_product *t, uint32_t bit);
/* "i2 < K", or 1 where no step is beyond. */
void gpu_put_is_step(const gpu_product *t, const char *before, const char *after);
/* Is all of the vector that begins at f<axis> in the product? Into is_whole. */
void gpu_put_is_whole(const gpu_product *t, const gpu_operand *o, uint32_t axis);
/* The address of the element that the load reads. */
void gpu_put_address(const gpu_product *t, const st_loop_inst *load);
/* The vector as words, and its elements in the array x<load>. */
void gpu_put_vector_load(const gpu_product *t, const gpu_operand *o);
/* Chooses how the factor is walked: along what lies side by side in memory. */
void gpu_choose_walk(const gpu_product *t, gpu_operand *o);
/* Memory to the registers x<name>, at the steps from `first_step` on. */
void gpu_put_loads(const gpu_product *t, const gpu_operand *o);
/* Those registers to shared memory t<name>. */
void gpu_put_stores(const gpu_product *t, const gpu_operand *o);
/* A table in shared memory u<name> of what the steps decide of a factor's places, of which threads
 * would compute the same: its words (0: there is none), and the text that writes those of the steps
 * that `step` counts. */
uint32_t gpu_table_words(const gpu_product *t, const gpu_operand *o);
void gpu_put_table(const gpu_product *t, const gpu_operand *o, const char *step);

/* ---- gpu_skinny.c ---- */
/* Prints a tile of which the threads share the steps, and its shared memory; its bytes. */
void gpu_put_skinny(gpu_text *g, const st_loop_inst *rows);
uint32_t gpu_put_skinny_memory(gpu_text *g, const st_loop_inst *rows);

/* ---- gpu_matrix_load.c ---- */

/* A factor's way to shared memory, where it lies in rows of chunks of 16 bytes. */
typedef struct gpu_matrix_operand {
    const gpu_operand *o;
    const gpu_matrix_kind *kind;
    bool is_across;  /* rows of shared memory are steps; else they are of the side */
    bool is_direct;  /* copied as it lies in memory */
    uint32_t across; /* direct: elements from one row of shared memory to the next, a sym; 0: that
                        differs */
    uint32_t lanes;  /* elements that a thread brings at once */
    uint32_t groups; /* so many such a thread brings */
    uint32_t chunks; /* of a row */
    uint32_t piece_bytes, stage_bytes;
} gpu_matrix_operand;

void gpu_matrix_operand_init(const gpu_product *t, uint32_t number, gpu_matrix_operand *out);
/* Words of registers that a thread needs between the two below; 0: none. */
uint32_t gpu_matrix_words(const gpu_matrix_operand *m);
/* What does not change from step to step. */
void gpu_put_matrix_begin(const gpu_product *t, const gpu_matrix_operand *m);
/* Of the steps that `next` counts: memory to shared memory, or to the registers x<name>; and those
 * to shared memory. */
void gpu_put_matrix_loads(const gpu_product *t, const gpu_matrix_operand *m);
void gpu_put_matrix_stores(const gpu_product *t, const gpu_matrix_operand *m);
/* Prints where a chunk of a row of shared memory lies, in bytes. */
void gpu_put_position(const gpu_product *t, const gpu_matrix_operand *m, const char *row,
                      const char *chunk);

/* ---- gpu_matrix_text.c ---- */
/* What a block does for a tile of matrices. */
void gpu_put_matrix_tile(const gpu_product *t);

#endif
