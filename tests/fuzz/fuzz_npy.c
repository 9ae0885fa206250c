/* Fuzz target of the .npy reader of the command line: any bytes are refused with a message or make
 * a tensor, and leave no memory behind. */
#include "fuzz_inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stator_ctx *ctx = fuzz_context();
    const uint64_t before = fuzz_live_blocks(ctx);
    stator_tensor *tensor = NULL;
    char text[FUZZ_TEXT] = "";
    const int ok = cli_parse_npy(ctx, data, size, &tensor, text);
    fuzz_check_tensor(ok, tensor, text);
    fuzz_check_memory(ctx, before);
    return 0;
}
