/* Small inputs of the host go to the device as one copy, on the software device: several sizes, one
 * that is too large to go with them, one that lies on the device already. */
#define _GNU_SOURCE
#include "api_check.h"

#include <unistd.h>

enum { INPUTS = 4, LARGE = 5000 };

static const char text[] =
    "stir 1\n"
    "sym n in [1, 10000]\n"
    "graph @g(%a: f32[1, n], %b: f32[1, 3], %c: f32[1, 1], %d: f32[1, 5000]) {\n"
    "  %1 = reduce_sum(%a) {axes = [0, 1]}\n"
    "  %2 = reduce_sum(%b) {axes = [0, 1]}\n"
    "  %3 = reduce_sum(%c) {axes = [0, 1]}\n"
    "  %4 = reduce_sum(%d) {axes = [0, 1]}\n"
    "  %5 = add(%1, %2)\n"
    "  %6 = add(%3, %4)\n"
    "  %7 = add(%5, %6)\n"
    "  return %7\n"
    "}\n";

static uint64_t copies(stator_ctx *ctx)
{
    stator_device_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(ctx, stator_ctx_device_stats(ctx, "cuda_soft:0", &stats));
    return stats.n_copies;
}

/* All elements are `value`. */
static stator_tensor *filled(stator_ctx *ctx, int64_t n, float value)
{
    static float values[10000];
    for (int64_t i = 0; i < n; i++) {
        values[i] = value;
    }
    return tensor_2d(ctx, 1, n, values);
}

static stator_tensor *on_device(stator_ctx *ctx, stator_tensor *host)
{
    stator_tensor *tensor = NULL;
    const DLTensor *view = stator_tensor_view(host);
    CHECK_OK(ctx, stator_tensor_create_on(ctx, "cuda_soft:0", STATOR_F32, 2, view->shape, &tensor));
    CHECK_OK(ctx, stator_tensor_copy(ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

/* Calls with n elements of a; `there` is the input that lies on the device, INPUTS: none does.
 * `moved` are copies of the driver's to the device, `values` those of the call's own count. */
static void call(stator_ctx *ctx, stator_function *f, int64_t n, int there, uint64_t moved,
                 uint64_t values)
{
    stator_tensor *in[INPUTS] = {filled(ctx, n, 1), filled(ctx, 3, 2), filled(ctx, 1, 0.5F),
                                 filled(ctx, LARGE, 3)};
    stator_tensor *out = NULL;
    stator_copy_info info = {.struct_size = sizeof info};
    const stator_call_options options = {.struct_size = sizeof options,
                                         .outputs = STATOR_OUTPUTS_HOST};
    if (there < INPUTS) {
        in[there] = on_device(ctx, in[there]);
    }
    const uint64_t before = copies(ctx);
    CHECK_OK(ctx, stator_call_with(f, INPUTS, in, 1, &out, &options));
    CHECK(copies(ctx) - before == moved + 1u); /* and the result */
    CHECK_OK(ctx, stator_function_copies(f, &info));
    CHECK(info.n_copies == values + 1u);
    CHECK(*(const float *)stator_tensor_data(out) == (float)n + 6 + 0.5F + 3 * LARGE);
    stator_tensor_release(out);
    for (int i = 0; i < INPUTS; i++) {
        stator_tensor_release(in[i]);
    }
}

int main(void)
{
    if (access(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", F_OK) != 0) {
        (void)puts("this build is without the software device");
        return 0;
    }
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, text);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    for (int k = 0; k < 2; k++) {
        call(ctx, f, 100, INPUTS, 2, 4);  /* a, b and c together, d alone: 20,000 bytes */
        call(ctx, f, 4096, INPUTS, 2, 4); /* 16 KiB */
        call(ctx, f, 4097, INPUTS, 3, 4); /* a alone too */
        call(ctx, f, 100, 1, 3, 3);       /* b stands between a and c, and is there */
        call(ctx, f, 100, 0, 2, 3);
    }
    stator_function_destroy(f);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
