/* Features of x86-64 processors: what code for a level may use, what this machine has, and the C
 * source by which a package asks the machine that it runs on. */
#ifndef STATOR_CPU_LLVM_CPU_FEATURES_H
#define STATOR_CPU_LLVM_CPU_FEATURES_H

#include "core/base/str.h"

/* Levels of the x86-64 psABI; NATIVE is all that this machine has and code may use. */
enum cpu_level { CPU_NATIVE = 0, CPU_BASE = 1, CPU_V2 = 2, CPU_V3 = 3, CPU_V4 = 4 };

/* "native", "x86-64", "x86-64-v2", ... */
uint32_t cpu_level_of(const char *text);
/* Vector registers of the level, in bytes; 0: those of this machine. */
uint32_t cpu_level_vector_bytes(uint32_t level);
/* LLVM's names, "+sse3,+avx". */
void cpu_features_print(uint32_t level, st_str *out);
/* The first feature of the level that this machine lacks, NULL: none. */
const char *cpu_features_missing(uint32_t level);
/* C source of `int stator_package_cpu(void)`: 1 when the machine has the level's features. */
void cpu_features_print_check(uint32_t level, st_str *out);

#endif
