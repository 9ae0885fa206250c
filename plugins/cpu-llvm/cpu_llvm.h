/* The backend inductor-cpu: what its files share. */
#ifndef STATOR_CPU_LLVM_CPU_LLVM_H
#define STATOR_CPU_LLVM_CPU_LLVM_H

#include "cpu_dnnl.h"
#include "cpu_object.h"
#include "jit/jit.h"

#include "codegen/codegen.h"
#include "codegen/package/packer.h"
#include <stator/plugin.h>

#include <pthread.h>

/* One a plugin. */
typedef struct cpu_self {    /* begins as st_plugin_self */
    const stator_host *host; /* NULL in unit tests */
    st_mem mem;
    pthread_mutex_t mutex; /* guards the fields below */
    uint32_t is_open;      /* the code generator was looked for */
    const jit_api *jit;    /* NULL: `reason` says why */
    uint32_t tried[3];     /* whether the library was looked for */
    void *libraries[3];    /* libm, libc, libsleef; NULL where missing */
    char reason[512];
    char hint[160];
} cpu_self;

/* Values of the instance's options. */
typedef struct cpu_settings {
    uint32_t tier; /* jit_tier */
    uint32_t debug_bounds;
    uint32_t vector_bytes; /* 0: the machine's */
    uint32_t fused;        /* numerics=fused */
    uint32_t debug_names;  /* for perf and gdb */
    uint32_t verify;       /* LLVM's verifier over each module: tests */
    uint32_t loops_only;   /* contractions=loops */
    uint32_t winograd;
    uint32_t measure;
    int64_t memory_cap;      /* limit of packed weights, bytes; 0: none */
    uint32_t measure_all;    /* mode=max-autotune */
    uint32_t self_contained; /* target=self_contained: code for packages, see cpu_package.c */
    uint32_t level;          /* cpu_level of such code */
} cpu_settings;

/* One an instance: the emitter and what st_cg_* is given. */
typedef struct cpu_inst {
    st_cg_config config; /* first, for the slots of codegen/codegen.h */
    cpu_self *self;
    cpu_settings settings;
    st_emitter emitter;
    cpu_dnnl dnnl;
    char features[512]; /* features of self-contained code, LLVM's names */
    char compat[768];   /* text of cpu_compat_key */
} cpu_inst;

/* Caches, vector width and threads of this machine. */
void cpu_target_of_host(const stator_host *host, uint32_t vector_bytes, st_target *out);
/* What follows from the widest registers (64: AVX-512 F, BW, DQ, VL; 32: AVX2; 16), of which code
 * uses vector_bytes (0: all). */
void cpu_target_set_vectors(uint32_t widest, uint32_t vector_bytes, st_target *out);

/* ---- cpu_jit.c ---- */

/* Does the code generator seem to be there? Without opening it when its files are where the build
 * found them; UNAVAILABLE with reason and hint. */
stator_status cpu_jit_look(cpu_self *self, stator_diag **err);
/* Opens the code generator at the first call. UNAVAILABLE with reason and hint. */
stator_status cpu_jit_open(cpu_self *self, const jit_api **out, stator_diag **err);
/* Functions that generated code may call: the C library's mathematics, memory functions, SLEEF. */
const void *cpu_resolve(void *self, const char *name);

/* ---- cpu_compat.c ---- */

/* The slot compat_key. */
const char *cpu_compat_key(void *inst);

/* ---- cpu_emitter.c ---- */

/* Fills inst->emitter; self and settings are set. */
void cpu_emitter_init(cpu_inst *inst);
/* How a package calls kernel k of a module. */
void cpu_emitter_code(const void *module, uint32_t k, st_cg_code *out);
/* The objects of a module; NULL when they were not kept. */
const jit_output *cpu_emitter_output(const void *module);

/* ---- cpu_package.c ---- */

/* Completes the settings of target=self_contained; the emitter is ready. 0: out of memory. */
bool cpu_package_complete(cpu_inst *inst);
/* The slot exe_package. */
stator_status cpu_package(void *inst, void *exe, const stator_package_sink *sink,
                          stator_diag **err);

#endif
