/* Fuzz target of the picture reader of the command line: any bytes, as gray and as RGB, are refused
 * with a message or make a tensor, and leave no memory behind.
 *
 * A fuzzer's changes seldom fit the chunks' sums, so that nearly all end at the first chunk; three
 * of four mutants have their sums put right. */
#include "fuzz_inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
/* libFuzzer's own; absent where corpora are only replayed. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

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

/* ---- sums ---- */

/* CRC-32 as in the PNG specification, annex D, bit by bit. */
static uint32_t crc_of(const uint8_t *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? UINT32_C(0xedb88320) : 0u);
        }
    }
    return ~crc;
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Length, type, data, sum: the sum of each whole chunk after the signature. */
static void mend_sums(uint8_t *data, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        const uint32_t length = read_u32(data + at);
        if (length > size - at - 12) {
            return;
        }
        const uint32_t crc = crc_of(data + at + 4, (size_t)length + 4);
        uint8_t *sum = data + at + 8 + length;
        for (int i = 0; i < 4; i++) {
            sum[i] = (uint8_t)(crc >> (24 - 8 * i));
        }
        at += (size_t)length + 12;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    const size_t mutated = LLVMFuzzerMutate != NULL ? LLVMFuzzerMutate(data, size, max_size) : size;
    if (seed % 4 != 0) {
        mend_sums(data, mutated);
    }
    return mutated;
}
