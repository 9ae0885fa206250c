/* The room of what outlives a process: an executable as bytes for the compile cache (save_exe.c)
 * and as C source and data for a package that runs without Stator, which is what this header is
 * about (unstable, see docs/build.md).
 *
 * The emitter hands over its machine code; beside it there are the piece "plan", the C source that
 * launches it, and a piece of data for each constant. The body of a scan has all that too: its
 * source is "plan1", "plan2", ..., and its functions end in the number. The launch plan defines,
 * hidden:
 *
 *   int stator_package_workspace(const int64_t *sizes, uint64_t *out_bytes);
 *   int stator_package_run(void *const *in, void *const *out, const int64_t *sizes, void *work);
 *
 * Both give 0, 1 when a size cannot be computed or a shape constraint does not hold, 2 when an
 * index is outside its axis. Tensors are dense and aligned to 16 bytes, the workspace to 64;
 * outputs share no memory with anything else. */
#ifndef STATOR_CODEGEN_PACKER_H
#define STATOR_CODEGEN_PACKER_H

#include "codegen/codegen.h"

/* How kernel k is called. */
typedef struct st_cg_code {
    uint32_t id;          /* kernels of one id are the same code */
    uint32_t is_parallel; /* has a parallel loop; ranges of it begin at multiples of `step` */
    int64_t step;
    const char *symbol;   /* symbol of the function, an st_kernel_fn */
    const char *streamed; /* behind it: the one that stores past the caches; NULL: there is none */
    const uint32_t *streams; /* buffers that must be aligned to stream_align bytes for that */
    uint32_t n_streams;
    uint32_t stream_align;
} st_cg_code;

/* The emitter's half; `module` is what its compile gave, NULL for a program without kernels. */
typedef struct st_cg_packer {
    void *self;
    void (*code)(void *self, void *module, uint32_t kernel, st_cg_code *out);
    /* Hands the machine code and what else the emitter adds to the sink; errors are our own. Called
     * once for each unit: 0 is the program, others are the bodies of its scans. */
    stator_status (*give)(void *self, void *module, uint32_t unit, const stator_package_sink *sink,
                          stator_diag **err);
} st_cg_packer;

/* UNSUPPORTED: a step is a library's, a size is read from data, or scans are nested more
 * than 6 deep. */
stator_status st_cg_package(const st_cg_exe *exe, const st_cg_packer *packer,
                            const stator_package_sink *sink, stator_diag **err);

#endif
