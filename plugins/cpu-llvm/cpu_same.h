/* Which kernels of a program are the same code: a network's layers repeat, and each kind is
 * compiled once. */
#ifndef STATOR_CPU_LLVM_CPU_SAME_H
#define STATOR_CPU_LLVM_CPU_SAME_H

#include "codegen/loopir/loop.h"

/* first[k] becomes the lowest j <= k whose code serves for kernel k as well: equal but for names,
 * buffer ids and the indices of equal syms. RESOURCE_EXHAUSTED. */
stator_status cpu_same_kernels(st_mem *mem, const st_kernel *const *kernels, uint32_t n,
                               uint32_t *first);

#endif
