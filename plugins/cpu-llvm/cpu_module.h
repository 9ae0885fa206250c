/* A loaded module of the emitter: what cpu_emitter.c makes and launches and cpu_save.c keeps. */
#ifndef STATOR_CPU_LLVM_CPU_MODULE_H
#define STATOR_CPU_LLVM_CPU_MODULE_H

#include "cpu_llvm.h"
#include "cpu_names.h"

typedef struct cpu_entry {
    st_kernel_fn fn;
    st_kernel_fn streamed; /* stores past the caches; NULL: there is none */
    int64_t step;
    uint32_t is_parallel;
    uint32_t n_streams;
    uint32_t *streams; /* buffers that must be aligned for it */
    char *name;
} cpu_entry;

typedef struct cpu_module {
    st_mem *mem;
    cpu_entry *entries;
    uint32_t n_entries;
    uint32_t *entry_of; /* by kernel: equal ones share code */
    uint32_t n_kernels;
    uint32_t n_images;
    uint32_t debug_bounds;
    cpu_image images[JIT_MODULES_MAX];
    cpu_named *names[JIT_MODULES_MAX]; /* NULL without debug_names */
    const jit_api *jit;                /* code generator that owns `kept`, or NULL */
    jit_output kept;                   /* the objects: of self-contained code, or to be saved */
} cpu_module;

/* Loads the objects and finds the code of each entry, whose streams are filled by the caller. */
stator_status cpu_module_fill(cpu_inst *inst, const jit_output *out, cpu_module *m,
                              stator_diag **err);
void cpu_module_destroy(void *self, void *module);

/* ---- cpu_save.c: the emitter's hooks for the compile cache ---- */

stator_status cpu_module_save(void *self, void *module, st_str *out, stator_diag **err);
stator_status cpu_module_load(void *self, const void *bytes, uint64_t n, uint32_t n_kernels,
                              void **out_module, stator_diag **err);

#endif
