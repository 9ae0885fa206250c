/* Lines of the log channel perf_hints about kernels and calls of the library. */
#ifndef STATOR_CODEGEN_PERF_HINTS_H
#define STATOR_CODEGEN_PERF_HINTS_H

#include "codegen/lower/unit.h"

/* Notes lines about a group's kernel: contractions that the library does not do, work of one thread
 * alone, constants that are made anew in each call. */
void cg_hint_kernel(cg_unit *unit, uint32_t group, const st_kernel *kernel);
/* Notes lines about a group's library call: operands that are put into another order in each
 * call. */
void cg_hint_call(cg_unit *unit, uint32_t group, const st_kernel *kernel,
                  const st_contraction *contraction, void *op);
/* When all are made: writes the lines, unless nodes were declined. */
void cg_hint_end(cg_unit *unit);

#endif
