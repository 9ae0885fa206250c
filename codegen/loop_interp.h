/* Runs a kernel by walking it: the meaning of the loop IR. Slow and exact: scalar ops are C's (libm
 * for functions), accumulators are as wide as their dtype, vector and parallel axes run in order.
 * Used by tests as the judge of expansions and emitters. Indices are checked against the buffers:
 * OUT_OF_RANGE names the row. */
#ifndef STATOR_CODEGEN_LOOP_INTERP_H
#define STATOR_CODEGEN_LOOP_INTERP_H

#include "codegen/loop.h"

/* LOCAL buffers whose args->buffers[k] is NULL are allocated here, and hold NaN before each
 * iteration of the parallel loop. INVALID_ARGUMENT: a buffer is missing, or begin..end is not
 * within the loop; OUT_OF_RANGE; RESOURCE_EXHAUSTED. A kernel without a parallel loop runs once. */
stator_status st_loop_interpret(const st_kernel *kernel, const st_kernel_args *args, int64_t begin,
                                int64_t end, stator_diag **err);

#endif
