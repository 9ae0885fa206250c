/* Shared by the fuzz targets of input files: one context without plugins, whose memory must be what
 * it was after each input. A broken promise aborts, which is how a fuzzer counts a finding. */
#ifndef STATOR_FUZZ_INPUTS_H
#define STATOR_FUZZ_INPUTS_H

#include "core/context/ctx.h"
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define FUZZ_MEMORY_LIMIT (UINT64_C(1) << 28) /* inputs are small, so must be their tensors */
#define FUZZ_TEXT 512

static stator_ctx *fuzz_context(void)
{
    static stator_ctx *ctx;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV | STATOR_CTX_NO_PLUGINS,
                                        .memory_limit_bytes = FUZZ_MEMORY_LIMIT};
    if (ctx == NULL && stator_ctx_create(&options, &ctx) != STATOR_OK) {
        fprintf(stderr, "no context\n");
        abort();
    }
    return ctx;
}

/* Blocks in use: what the pool keeps for the next tensor is given back first. */
static uint64_t fuzz_live_blocks(stator_ctx *ctx)
{
    st_pool_trim(&ctx->pool);
    stator_mem_stats stats = {.struct_size = sizeof stats};
    stator_ctx_mem_stats(ctx, &stats);
    return stats.live_blocks;
}

/* Either a tensor whose bytes can all be read, or a sentence. Releases it. */
static void fuzz_check_tensor(int ok, stator_tensor *tensor, const char *text)
{
    static volatile uint8_t seen;
    if (ok != (tensor != NULL) || (!ok && text[0] == '\0')) {
        fprintf(stderr, "result %d, tensor %p, text '%s'\n", ok, (void *)tensor, text);
        abort();
    }
    for (uint64_t i = 0; ok && i < stator_tensor_size_bytes(tensor); i++) {
        seen ^= ((const uint8_t *)stator_tensor_data(tensor))[i];
    }
    (void)seen;
    stator_tensor_release(tensor);
}

static void fuzz_check_memory(stator_ctx *ctx, uint64_t before)
{
    if (fuzz_live_blocks(ctx) != before) {
        fprintf(stderr, "memory is left\n");
        abort();
    }
}

#endif
