/* Fuzz target of the onnx frontend: any bytes are refused with a message or make a model, and leave
 * no memory behind. The plugin is the build's own, loaded through the registry. */
#include <stator/stator.h>

#include <stdio.h>
#include <stdlib.h>

#define FUZZ_MEMORY_LIMIT (UINT64_C(1) << 28) /* inputs are small, so must be their models */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stator_ctx *open_context(void)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs,
                                        .memory_limit_bytes = FUZZ_MEMORY_LIMIT};
    stator_ctx *ctx = NULL;
    if (stator_ctx_create(&options, &ctx) != STATOR_OK) {
        fprintf(stderr, "no context\n");
        abort();
    }
    return ctx;
}

static void load_once(stator_ctx *ctx, const uint8_t *data, size_t size)
{
    const stator_load_options options = {.struct_size = sizeof options, .frontend = "onnx"};
    stator_model *model = NULL;
    const stator_status status =
        stator_model_load_bytes(ctx, data, size, "fuzz.onnx", &options, &model);
    if (status == STATOR_NOT_FOUND || status == STATOR_INTERNAL) {
        fprintf(stderr, "status %d: %s\n", status, stator_ctx_error_text(ctx));
        abort(); /* no plugin, or a place that no file may reach */
    }
    if (status != STATOR_OK && stator_ctx_error_text(ctx)[0] == '\0') {
        fprintf(stderr, "status %d without a text\n", status);
        abort();
    }
    stator_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stator_ctx *ctx;
    static uint64_t live;
    stator_mem_stats stats = {.struct_size = sizeof stats};
    if (ctx == NULL) {
        ctx = open_context();
        load_once(ctx, (const uint8_t *)"\x08\x0a", 2); /* the plugin and what it keeps */
        stator_ctx_mem_stats(ctx, &stats);
        live = stats.live_blocks;
    }
    load_once(ctx, data, size);
    stator_ctx_mem_stats(ctx, &stats);
    if (stats.live_blocks != live) {
        fprintf(stderr, "%llu blocks where %llu were\n", (unsigned long long)stats.live_blocks,
                (unsigned long long)live);
        abort();
    }
    return 0;
}
