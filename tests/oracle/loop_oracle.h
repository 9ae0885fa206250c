/* The oracle of the loop IR: it runs a kernel by walking it, and so defines the meaning of the
 * instructions that expansions and emitters are tested against. It is slow and exact: scalar ops
 * are C's (libm for functions), accumulators are as wide as their dtype, vector and parallel
 * axes run in order. Indices are checked against the buffers: OUT_OF_RANGE names the
 * instruction. */
#ifndef STATOR_TESTS_LOOP_ORACLE_H
#define STATOR_TESTS_LOOP_ORACLE_H

#include "codegen/loopir/loop.h"

/* LOCAL buffers whose args->buffers[k] is NULL are allocated here, and hold NaN before each
 * iteration of the parallel loop. INVALID_ARGUMENT: a buffer is missing, or begin..end is not
 * within the loop; OUT_OF_RANGE; RESOURCE_EXHAUSTED. A kernel without a parallel loop runs once. */
stator_status loop_oracle_run(const st_kernel *kernel, const st_kernel_args *args, int64_t begin,
                              int64_t end, stator_diag **err);

#endif
