/* A full device through the public API, on the small chip of the software device: memory that the
 * host keeps for later serves an executable's own values too. */
#define _GNU_SOURCE
#include "api_check.h"

#include <unistd.h>

/* What lies between the two sums is the plugin's own: 36 MB each. */
static const char sums[] = "stir 1\n"
                           "graph @main(%x: f32[3000, 3000]) {\n"
                           "  %a = cumsum(%x) {axis = 1} : f32[3000, 3000]\n"
                           "  %b = cumsum(%a) {axis = 0} : f32[3000, 3000]\n"
                           "  %r = reduce_sum(%b) {axes = [0]} : f32[3000]\n"
                           "  return %r\n"
                           "}\n";

static stator_tensor *on_device(stator_ctx *ctx, int64_t rows, int64_t columns)
{
    const int64_t shape[2] = {rows, columns};
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create_on(ctx, "cuda_soft:0", STATOR_F32, 2, shape, &tensor));
    return tensor;
}

int main(void)
{
    if (access(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", F_OK) != 0) {
        (void)puts("this build is without the software device");
        return 0;
    }
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setenv("STATOR_SOFT_CHIP", "small", 1) == 0); /* 256 MiB */
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, sums);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    stator_tensor *in = on_device(ctx, 3000, 3000);
    stator_tensor_release(on_device(ctx, 45, 1 << 20)); /* 180 MiB, free and kept */
    stator_tensor *out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 1, &in, 1, &out));
    CHECK_OK(ctx, stator_tensor_wait(ctx, out));
    stator_tensor_release(out);

    /* In use it is refused with a sentence, and the next call is right. */
    stator_tensor *used = on_device(ctx, 45, 1 << 20);
    out = NULL;
    CHECK(stator_call_tensors(f, 1, &in, 1, &out) == STATOR_RESOURCE_EXHAUSTED && out == NULL);
    CHECK(strstr(stator_ctx_error_text(ctx), "no memory for") != NULL);
    stator_tensor_release(used);
    CHECK_OK(ctx, stator_call_tensors(f, 1, &in, 1, &out));
    stator_tensor_release(out);
    stator_tensor_release(in);
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
