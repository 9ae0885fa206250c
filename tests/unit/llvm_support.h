/* Kernels run twice, by the interpreter and by inductor-cpu's emitter, and compared. */
#ifndef STATOR_TESTS_LLVM_SUPPORT_H
#define STATOR_TESTS_LLVM_SUPPORT_H

#include "plugins/cpu-llvm/cpu_llvm.h"
#include "support_loop.h"

#define LLVM_BUFFERS_MAX 8u

enum llvm_fill {
    LLVM_FILL_NUMBERS = 0, /* small numbers, floats with fractions */
    LLVM_FILL_CORNERS = 1, /* extreme values, NaN, infinities, signed zeros among them */
    LLVM_FILL_INDICES = 2  /* 0 .. 15 */
};

typedef struct llvm_world {
    loop_world w;
    cpu_self self;
    cpu_inst inst;
    int64_t sizes[8];
    uint32_t fill[LLVM_BUFFERS_MAX];
    uint32_t max_ulp;   /* of float results; 0: the same bits (any NaN equals any other) */
    double tolerance;   /* relative, on top of that */
    uint32_t misalign;  /* bytes that every buffer is off a boundary of 64 */
    uint32_t status[2]; /* *args->status after the runs: interpreter, emitter */
} llvm_world;

void llvm_world_init(llvm_world *v, const char *name);
void llvm_world_deinit(llvm_world *v);
/* Verifies the kernel, runs it both ways on the same data and fails the test on a difference.
 * `count` iterations of the parallel loop (1 without one). */
void llvm_compare(llvm_world *v, int64_t count);

#endif
