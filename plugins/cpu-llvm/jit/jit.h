/* What the code generator of cpu-llvm offers to the plugin: kernels in, object code out.
 *
 * The code generator is a shared object of its own, lib/stator/jit/cpu_llvm_jit.so, because it
 * needs libLLVM, 140 MB that nobody who runs compiled programs should have to load. The plugin
 * opens it at the first compile; it holds no state between calls. The objects are ELF files of
 * x86-64 whose code is position-independent and calls nothing but functions named in
 * `has_function`'s space; the plugin's cpu_object.c loads them without LLVM.
 *
 * Both sides are built from one tree and share core/base and codegen. Memory of the results is in
 * the account of the request. Threads: compile may be called concurrently. */
#ifndef STATOR_CPU_LLVM_JIT_H
#define STATOR_CPU_LLVM_JIT_H

#include "codegen/loopir/loop.h"

#define JIT_QUERY_NAME "stator_cpu_jit_query_v1"
#define JIT_MODULES_MAX 8u
/* A kernel of this flag writes past the caches when its pointers allow it: there is a second
 * function, "<name>.nt", that needs every STREAMED buffer aligned to 64 bytes. */
#define JIT_STREAM_ALIGN 64u

enum jit_tier {
    JIT_TIER_FAST = 0, /* little time to compile, slower code */
    JIT_TIER_DEFAULT = 1
};

enum jit_flag {
    JIT_DEBUG_BOUNDS = 1u << 0, /* every index is checked; see JIT_STATUS_BOUNDS */
    JIT_VERIFY = 1u << 1,       /* run LLVM's verifier over each module */
    JIT_LISTING = 1u << 2,      /* also give the LLVM IR as text */
    JIT_ASSEMBLY = 1u << 3      /* also give the machine code as text */
};

/* *args->status of a kernel that was compiled with JIT_DEBUG_BOUNDS and met a bad index: this bit
 * and the instruction's number. */
#define JIT_STATUS_BOUNDS 0x80000000u

typedef struct jit_request {
    uint32_t struct_size;
    uint32_t flags; /* jit_flag */
    st_mem *mem;
    const st_kernel *const *kernels;
    uint32_t n_kernels;
    uint32_t tier;
    uint32_t vector_bytes; /* 16, 32 or 64 */
    uint32_t modules;      /* compiled concurrently, 1..JIT_MODULES_MAX */
    const uint8_t *spells; /* as in st_target */
    /* Features beyond x86-64 that the code may use, "+avx,+avx2"; NULL: all that this machine
     * has. */
    const char *features;
    void *self;
    /* Does the loader know a function of this name? */
    bool (*has_function)(void *self, const char *name);
} jit_request;

typedef struct jit_kernel {
    char *symbol;
    uint32_t module;
    uint32_t step;        /* ranges of the parallel loop begin at multiples of this */
    uint32_t is_parallel; /* has a parallel loop */
    uint32_t is_streamed; /* has a second function, symbol + ".nt" */
} jit_kernel;

typedef struct jit_object {
    uint8_t *bytes;
    uint64_t size;
} jit_object;

typedef struct jit_output {
    st_mem *mem;
    jit_kernel *kernels;
    uint32_t n_kernels;
    uint32_t n_objects;
    jit_object objects[JIT_MODULES_MAX];
    char *texts[JIT_MODULES_MAX];      /* LLVM IR, NULL without JIT_LISTING */
    char *assemblies[JIT_MODULES_MAX]; /* NULL without JIT_ASSEMBLY */
    uint64_t build_ns;                 /* kernels to LLVM IR */
    uint64_t passes_ns;                /* the largest of the modules */
    uint64_t codegen_ns;               /* likewise */
} jit_output;

typedef struct jit_api {
    uint32_t struct_size;
    uint32_t llvm_major;
    /* 1 when code for this machine can be made, else 0 with the reason in msg. */
    bool (*probe)(char *msg, uint64_t msg_size);
    /* `out` is the caller's, emptied with output_free in every case. */
    stator_status (*compile)(const jit_request *request, jit_output *out, char *msg,
                             uint64_t msg_size);
    void (*output_free)(jit_output *out);
} jit_api;

typedef const jit_api *(*jit_query_fn)(void);

#endif
