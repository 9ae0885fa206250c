/* Inputs that a call writes, on the software device: a step whose tensors lie there writes them
 * where they lie, and a call whose check fails late leaves them as they were. */
#define _GNU_SOURCE
#include "api_check.h"

#include <unistd.h>

enum { N = 6 };

static const float counted[N] = {1, 2, 3, 4, 5, 6};

static const char step[] = "stir 1\n"
                           "graph @step(%p: f32[2, 3], %m: f32[2, 3], %g: f32[2, 3]) {\n"
                           "  %1 = add(%m, %g)\n"
                           "  %2 = sub(%p, %1)\n"
                           "  %3 = assign(%m, %1)\n"
                           "  %4 = assign(%p, %2)\n"
                           "  return %g\n"
                           "}\n";
static const char checked[] = "stir 1\n"
                              "graph @step(%p: f32[2, 3], %i: i64[2], %g: f32[2, 3]) {\n"
                              "  %1 = gather(%g, %i) {axis = 0}\n"
                              "  %2 = sub(%p, %1)\n"
                              "  %3 = assign(%p, %2)\n"
                              "  return %g\n"
                              "}\n";

static stator_tensor *on_device(stator_ctx *ctx, stator_tensor *host)
{
    const DLTensor *view = stator_tensor_view(host);
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create_on(ctx, "cuda_soft:0",
                                          view->dtype.code == kDLInt ? STATOR_I64 : STATOR_F32,
                                          (uint32_t)view->ndim, view->shape, &tensor));
    CHECK_OK(ctx, stator_tensor_copy(ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

/* The device's tensor is `factor` times what it began with. */
static void expect(stator_ctx *ctx, stator_tensor *tensor, float factor)
{
    stator_tensor *host = tensor_2d(ctx, 2, 3, counted);
    CHECK_OK(ctx, stator_tensor_copy(ctx, host, tensor));
    for (int i = 0; i < N; i++) {
        CHECK(((const float *)stator_tensor_data(host))[i] == factor * counted[i]);
    }
    stator_tensor_release(host);
}

static void expect_copies(stator_ctx *ctx, stator_function *f, uint32_t written, uint32_t copied)
{
    stator_copy_info info = {.struct_size = sizeof info};
    CHECK_OK(ctx, stator_function_copies(f, &info));
    if (info.n_write_backs != written || info.n_write_back_copies != copied) {
        (void)fprintf(stderr, "%u inputs written, %u copied; expected %u and %u\n",
                      info.n_write_backs, info.n_write_back_copies, written, copied);
        exit(1);
    }
}

/* Of the two calls `verify` are compared with eager, for which tensors come to the host. */
static void run_step(stator_ctx *ctx, uint32_t verify)
{
    stator_model *model = load_text(ctx, step);
    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = "cuda_soft", .verify = verify};
    stator_function *f = NULL;
    CHECK_OK(ctx, stator_compile(model, &options, &f));
    stator_tensor *in[3];
    stator_tensor *out = NULL;
    for (int i = 0; i < 3; i++) {
        in[i] = on_device(ctx, tensor_2d(ctx, 2, 3, counted));
    }
    CHECK_OK(ctx, stator_call_tensors(f, 3, in, 1, &out));
    expect_copies(ctx, f, 2, 0);
    expect(ctx, in[0], -1);
    expect(ctx, in[1], 2);
    CHECK_OK(ctx, stator_call_tensors(f, 3, in, 1, &out));
    expect(ctx, in[0], -4);
    expect(ctx, in[1], 3);
    stator_tensor_release(out);
    for (int i = 0; i < 3; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
    stator_model_destroy(model);
}

static stator_tensor *indices(stator_ctx *ctx, int64_t a, int64_t b)
{
    static const int64_t shape[] = {2};
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_I64, 1, shape, &tensor));
    int64_t *at = stator_tensor_data(tensor);
    at[0] = a;
    at[1] = b;
    return on_device(ctx, tensor);
}

/* The executable checks an index, which the device tells late: two buffers. */
static void run_checked(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, checked);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    stator_tensor *in[3] = {on_device(ctx, tensor_2d(ctx, 2, 3, counted)), indices(ctx, 0, 2),
                            on_device(ctx, tensor_2d(ctx, 2, 3, counted))};
    stator_tensor *out = NULL;
    CHECK(stator_call_tensors(f, 3, in, 1, &out) == STATOR_OUT_OF_RANGE && out == NULL);
    expect(ctx, in[0], 1);
    stator_tensor_release(in[1]);
    in[1] = indices(ctx, 0, 1);
    CHECK_OK(ctx, stator_call_tensors(f, 3, in, 1, &out));
    expect_copies(ctx, f, 1, 1);
    expect(ctx, in[0], 0);
    stator_tensor_release(out);
    for (int i = 0; i < 3; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
    stator_model_destroy(model);
}

/* Without checks nothing is told late, and one buffer is enough; what is outside reads 0. */
static void run_unchecked(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, checked);
    CHECK(setenv("STATOR_OPT_CUDA_SOFT_CHECKS", "false", 1) == 0);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    CHECK(unsetenv("STATOR_OPT_CUDA_SOFT_CHECKS") == 0);
    stator_tensor *in[3] = {on_device(ctx, tensor_2d(ctx, 2, 3, counted)), indices(ctx, -3, 2),
                            on_device(ctx, tensor_2d(ctx, 2, 3, counted))};
    stator_tensor *out = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 3, in, 1, &out));
    expect_copies(ctx, f, 1, 0);
    expect(ctx, in[0], 1);
    stator_tensor_release(out);
    for (int i = 0; i < 3; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
    stator_model_destroy(model);
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
    for (uint32_t verify = 0; verify < 3; verify++) {
        run_step(ctx, verify);
    }
    run_checked(ctx);
    run_unchecked(ctx);
    stator_ctx_destroy(ctx);
    return 0;
}
