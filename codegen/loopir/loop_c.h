/* Kernels as C11 text: the core of an emitter that calls a C compiler, and a second judge of
 * kernels beside the oracle (tests/oracle).
 *
 * In: a verified kernel that went through st_loop_expand without `spells`. The text is whole with
 * st_loop_c_head before the first function. It is compiled with -fwrapv (integers wrap) and
 * -ffp-contract=off (a product and a sum are rounded each); gcc and clang. Vector axes are plain
 * loops that the compiler may vectorise; conversions out of range give what core/base/convert.h
 * says. LOCAL buffers are arrays of the function. */
#ifndef STATOR_CODEGEN_LOOP_C_H
#define STATOR_CODEGEN_LOOP_C_H

#include "codegen/loopir/loop.h"

/* Includes, the arguments' struct (that of loop.h) and helpers. */
void st_loop_c_head(st_str *out);
/* One function of type st_kernel_fn with the name `symbol` and external linkage. */
void st_loop_c_print(const st_kernel *kernel, const char *symbol, st_str *out);

#endif
