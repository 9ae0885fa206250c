/* The library of contractions of inductor-cpu: oneDNN, when lib/stator/jit/cpu_llvm_dnnl.so and
 * libdnnl are there. */
#ifndef STATOR_CPU_LLVM_CPU_DNNL_H
#define STATOR_CPU_LLVM_CPU_DNNL_H

#include "plugins/cpu-llvm/onednn/dnnl_api.h"

typedef struct cpu_dnnl {
    const dnnl_api *api;
    const st_library *library; /* NULL: there is none, contractions become loops */
    char reason[512];          /* why; "" when there is one */
} cpu_dnnl;

/* Looks for the library and opens it; what is missing is a line in the log, not an error. `flags`:
 * dnnl_flag. */
void cpu_dnnl_open(cpu_dnnl *out, const stator_host *host, st_mem *mem, uint32_t flags);
/* When no op of it is left. */
void cpu_dnnl_close(cpu_dnnl *dnnl);

#endif
