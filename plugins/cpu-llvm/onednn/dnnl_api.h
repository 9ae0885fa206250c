/* What the part of inductor-cpu that is linked with oneDNN offers to the plugin: a library of
 * contractions (codegen/target/library.h).
 *
 * It is a shared object of its own, lib/stator/jit/cpu_llvm_dnnl.so, so that the plugin works where
 * libdnnl is not installed: contractions are loops then. Both sides are built from one tree. */
#ifndef STATOR_CPU_LLVM_DNNL_API_H
#define STATOR_CPU_LLVM_DNNL_API_H

#include "codegen/target/library.h"
#include "core/base/alloc.h"

#define DNNL_QUERY_NAME "stator_cpu_dnnl_query_v1"

enum dnnl_flag {
    DNNL_FUSED = 1u << 0,      /* functions of more than 2 ulp are welcome (numerics=fused) */
    DNNL_WINOGRAD = 1u << 1,   /* Winograd where it is measured to be faster */
    DNNL_TUNE = 1u << 2,       /* measure the candidates of large contractions of known size */
    DNNL_TUNE_ALL = 1u << 3,   /* all candidates, of small ones too, on the whole size and longer */
    DNNL_VECTORS_32 = 1u << 4, /* kernels of our own use vectors of 32 bytes at most */
    DNNL_VECTORS_16 = 1u << 5, /* vectors of 16 bytes */
    DNNL_WINOGRAD_FIRST = 1u << 6, /* Winograd of our own without measuring (tests) */
    DNNL_TILES_FIRST = 1u << 7     /* other kernels of our own likewise */
};

typedef struct dnnl_api {
    uint32_t struct_size;
    /* The libdnnl that is loaded and how it was told to run, as a word for the keys of what is
     * kept: version, commit, the instruction set that it goes up to (ONEDNN_MAX_CPU_ISA). */
    void (*identity)(char *out, uint64_t size);
    /* host may be NULL (unit tests): the threads are then those of OpenMP, packed constants are
     * not shared. UNAVAILABLE with the reason in msg when the processor or libdnnl will not do. */
    stator_status (*open)(const stator_host *host, st_mem *mem, uint32_t flags,
                          const st_library **out, char *msg, uint64_t msg_size);
    void (*close)(const st_library *library); /* its ops are destroyed already */
    /* How the op ran a call of these sizes last, for tests and logs: oneDNN's name for the
     * implementation, "plain" or "". */
    const char *(*describe)(const void *op);
    /* Before the first op: all ops of the library together hold so many bytes of packed weights at
     * most; what passes it runs unpacked. 0: no limit. */
    void (*set_memory_cap)(const st_library *library, uint64_t bytes);
} dnnl_api;

typedef const dnnl_api *(*dnnl_query_fn)(void);

#endif
