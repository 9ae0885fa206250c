/* Kernels by name in perf and gdb, for the option debug_names. */
#ifndef STATOR_CPU_LLVM_CPU_NAMES_H
#define STATOR_CPU_LLVM_CPU_NAMES_H

#include "cpu_object.h"

typedef struct cpu_named cpu_named;

/* Tells perf (a line a function in /tmp/perf-PID.map) and gdb (its JIT interface) of a loaded
 * image, whose object must still be there. NULL when memory runs out: the names are then missing.
 */
cpu_named *cpu_names_add(st_mem *mem, const cpu_image *image);
/* The image is about to be unloaded. perf's file keeps its lines: it is read after the run. */
void cpu_names_remove(st_mem *mem, cpu_named *named);

#endif
