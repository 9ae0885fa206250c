/* Functions whose values come from 16 bits and are rounded to them at once: they may be computed by
 * shorter programs, whose error no such value shows. */
#ifndef STATOR_CODEGEN_LOOP_NARROW_H
#define STATOR_CODEGEN_LOOP_NARROW_H

#include "codegen/loopir/loop.h"

/* Finds them and marks them with the 16-bit dtype, in their imm; see .expand_bf16 of loop_ops.def.
 * A target that is to have the bits of the longer programs does not ask for it. */
void st_loop_narrow_functions(st_kernel *kernel);

#endif
