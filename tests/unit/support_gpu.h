/* A driver of a GPU in host memory, and a runtime over it, for tests of codegen/gpu.
 *
 * Streams are lazy: what is queued is done when the stream is waited for, so that memory which is
 * used again too early shows. A program is a line of words, "KIND NAME"; KIND is one of
 *
 *   copy     out[i] = in[i] for i < n             arguments: in, out, n
 *   twice    out[i] = 2 * in[i]                   the same, of f32
 *   check    sets the status to 7 if in[0] < 0    arguments: in, status
 *   note     keeps its arguments in fake_gpu.noted
 *
 * and "broken" is refused by the compiler. */
#ifndef STATOR_TESTS_SUPPORT_GPU_H
#define STATOR_TESTS_SUPPORT_GPU_H

#include "codegen/gpu/gpu.h"

typedef struct fake_gpu {
    st_gpu_driver driver;
    st_mem mem;
    st_gpu *gpu;
    stator_host host;
    uint64_t n_allocs,
        fail_at;           /* the alloc of this number (from 1) and those after fail; 0: none */
    uint64_t memory_bytes; /* 0: as much as there is */
    uint64_t live_bytes, n_live, n_pinned, n_modules, n_streams, n_events;
    uint64_t now; /* in milliseconds: copies, fills and launches that were done */
    uint64_t n_compiled;
    bool is_wanted;     /* the compile cache asks for images */
    bool is_waited_for; /* all streams are waited for just before something is queued, as by another
                           thread */
    bool is_asked_in_waits; /* the runtime is asked for its counts while the device is waited for */
    uint64_t noted[16];
    uint32_t n_noted, noted_blocks, noted_threads;
} fake_gpu;

void fake_gpu_init(fake_gpu *f, uint64_t memory_cap); /* with a runtime */
void fake_gpu_deinit(fake_gpu *f); /* fails the test when something of the device is left */

/* A constant for the host's table of constants. */
typedef struct fake_blob {
    const void *data;
    uint64_t bytes;
    uint8_t hash[16];
    uint32_t n_reads;
} fake_blob;

/* A kernel whose program is this text; `kernel` is one that verifies, with this name. */
stator_status fake_print(const st_target *target, const st_kernel *kernel, const char *name,
                         st_arena *arena, st_str *out, st_gpu_kernel *out_kernel,
                         stator_diag **err);

#endif
