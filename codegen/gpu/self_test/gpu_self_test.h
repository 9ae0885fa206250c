/* The self test of a device: each name of the prelude (docs/gpu.md) is used by a small program,
 * with edge values among its operands, and what comes out is held against the host. The room behind
 * st_gpu_self_test of gpu.h.
 *
 *   gpu_self_test.def      what is asked of each name
 *   gpu_self_test_rows.c   expressions, and what they are on the host
 *   gpu_self_test_block.c  statements of whole blocks, and what they are on the host
 *   gpu_self_test.c        programs, launches, the comparison */
#ifndef STATOR_CODEGEN_GPU_SELF_TEST_H
#define STATOR_CODEGEN_GPU_SELF_TEST_H

#include <stdint.h>

/* Programs are compiled on several threads. */
enum gpu_self_test_program {
    GPU_SELF_TEST_WORDS,
    GPU_SELF_TEST_SINGLES,
    GPU_SELF_TEST_DOUBLES,
    GPU_SELF_TEST_POWERS,
    GPU_SELF_TEST_ANGLES,
    GPU_SELF_TEST_ARCS,
    GPU_SELF_TEST_HYPERBOLAS,
    GPU_SELF_TEST_BLOCKS,   /* rows of gpu_self_test_block.c */
    GPU_SELF_TEST_MATRICES, /* those for devices that have matrices */
    GPU_SELF_TEST_PROGRAMS
};

/* What the words of operands are samples of; the first three programs are named alike. */
enum { GPU_SELF_TEST_OPERANDS = 3 };

enum gpu_self_test_result {
    GPU_SELF_TEST_BITS,
    GPU_SELF_TEST_HALF,
    GPU_SELF_TEST_BRAIN,
    GPU_SELF_TEST_SINGLE,
    GPU_SELF_TEST_DOUBLE
};

typedef struct gpu_self_test_row {
    const char *name;
    enum gpu_self_test_program program;
    enum gpu_self_test_program operands; /* one of the first three */
    enum gpu_self_test_result result;
    const char *text; /* the expression */
    uint64_t (*host)(uint64_t a, uint64_t b, uint64_t c);
} gpu_self_test_row;

enum { GPU_SELF_TEST_THREADS = 256, GPU_SELF_TEST_BLOCK_COUNT = 2 };

/* One thread of a program of blocks. */
typedef struct gpu_self_test_place {
    uint32_t thread, block, warp;
    const uint32_t *in;
} gpu_self_test_place;

typedef struct gpu_self_test_block_row {
    const char *name;
    enum gpu_self_test_program program; /* BLOCKS or MATRICES */
    const char *text;                   /* the statements */
    uint64_t (*host)(const gpu_self_test_place *p);
} gpu_self_test_block_row;

extern const gpu_self_test_row gpu_self_test_rows[];
extern const uint32_t gpu_self_test_row_count;
extern const gpu_self_test_block_row gpu_self_test_block_rows[];
extern const uint32_t gpu_self_test_block_row_count;

#endif
