/* Lines of the log channel perf_hints that are about this plugin: functions without a vector form,
 * options that slow a program down. */
#ifndef STATOR_CPU_LLVM_HINTS_H
#define STATOR_CPU_LLVM_HINTS_H

#include "cpu_llvm.h"

#define CPU_ASKED_MAX 16u

/* Functions that the code generator asks for in one compile, from several threads. */
typedef struct cpu_asked {
    cpu_inst *inst;
    uint32_t is_heard; /* missing functions are noted */
    pthread_mutex_t mutex;
    uint32_t n_missing;
    char missing[CPU_ASKED_MAX][24]; /* as the C library names the function for f64 */
} cpu_asked;

void cpu_asked_init(cpu_asked *asked, cpu_inst *inst);
/* Notes a function that generated code may not call, by SLEEF's name for it without "Sleef_". */
void cpu_hint_missing(cpu_asked *asked, const char *name);
/* Says what was missing, and ends it. */
void cpu_hint_asked(cpu_asked *asked);
/* Options of the instance that are for finding errors. */
void cpu_hint_settings(const cpu_inst *inst);

#endif
