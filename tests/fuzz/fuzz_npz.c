/* Fuzz target of the .npz reader of the command line: any bytes are refused with a message or make
 * named tensors, and leave no memory behind. */
#include "fuzz_inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stator_ctx *ctx = fuzz_context();
    const uint64_t before = fuzz_live_blocks(ctx);
    cli_tensors list = {.ctx = ctx};
    char text[FUZZ_TEXT] = "";
    const int ok = cli_parse_npz(ctx, data, size, &list, text);
    if (!ok && text[0] == '\0') {
        fprintf(stderr, "refused without a text\n");
        abort();
    }
    for (uint32_t i = 0; i < list.count; i++) {
        stator_tensor_retain(list.tensors[i]);
        fuzz_check_tensor(1, list.tensors[i], text);
        if (list.names[i] == NULL) {
            abort();
        }
    }
    cli_tensors_free(&list);
    fuzz_check_memory(ctx, before);
    return 0;
}
