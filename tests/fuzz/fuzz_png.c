/* Fuzz target of the picture reader of the command line: any bytes, as gray and as RGB, are refused
 * with a message or make a tensor, and leave no memory behind. */
#include "fuzz_inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const cli_image_norm norm = {
        .mean = {0.5f, 0.4f, 0.3f}, .std = {0.2f, 0.3f, 0.4f}, .n_mean = 3, .n_std = 3};
    stator_ctx *ctx = fuzz_context();
    const uint64_t before = fuzz_live_blocks(ctx);
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        stator_tensor *tensor = NULL;
        char text[FUZZ_TEXT] = "";
        const int ok = cli_parse_png(ctx, data, size, channels, &norm, &tensor, text);
        fuzz_check_tensor(ok, tensor, text);
    }
    fuzz_check_memory(ctx, before);
    return 0;
}
