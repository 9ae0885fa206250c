/* Inputs that a call writes, on the software device: a step whose tensors lie there writes them
 * where they lie, of a cache the rows that it updates alone, and a call whose check fails late
 * leaves them as they were. */
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

/* ---- updates of some elements ---- */

enum { ROWS = 100 };

/* The index is bounded, so that no check is told late; behind it a call of a library. */
static const char cache[] = "stir 1\n"
                            "graph @step(%c: f32[2, 100], %at: i64[2, 1], %row: f32[2, 1], "
                            "%f: f32[100, 4]) {\n"
                            "  %lo = constant {value = i64[1] {0}}\n"
                            "  %hi = constant {value = i64[1] {99}}\n"
                            "  %a = max(%at, %lo)\n"
                            "  %b = min(%a, %hi)\n"
                            "  %n = scatter_elements(%c, %b, %row) {axis = 1}\n"
                            "  %w = assign(%c, %n)\n"
                            "  %y = matmul(%n, %f)\n"
                            "  return %y\n"
                            "}\n";

static stator_tensor *filled(stator_ctx *ctx, stator_dtype dtype, uint32_t rank,
                             const int64_t *shape, int64_t from, int64_t step_size)
{
    stator_tensor *tensor = NULL;
    int64_t n = 1;
    for (uint32_t a = 0; a < rank; a++) {
        n *= shape[a];
    }
    CHECK_OK(ctx, stator_tensor_create(ctx, dtype, rank, shape, &tensor));
    for (int64_t i = 0; i < n; i++) {
        const int64_t value = from + i * step_size;
        if (dtype == STATOR_I64) {
            ((int64_t *)stator_tensor_data(tensor))[i] = value;
        } else {
            ((float *)stator_tensor_data(tensor))[i] = (float)value;
        }
    }
    return on_device(ctx, tensor);
}

static void run_cache(stator_ctx *ctx)
{
    static const int64_t shape[] = {2, ROWS};
    static const int64_t row_shape[] = {2, 1};
    static const int64_t factor_shape[] = {ROWS, 4};
    stator_model *model = load_text(ctx, cache);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    stator_tensor *in[4] = {filled(ctx, STATOR_F32, 2, shape, 1, 1),
                            filled(ctx, STATOR_I64, 2, row_shape, 7, 500),
                            filled(ctx, STATOR_F32, 2, row_shape, -1, -1),
                            filled(ctx, STATOR_F32, 2, factor_shape, 1, 0)};
    stator_tensor *out = NULL;
    stator_tensor *host = NULL;
    CHECK_OK(ctx, stator_call_tensors(f, 4, in, 1, &out));
    expect_copies(ctx, f, 1, 0);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 2, shape, &host));
    CHECK_OK(ctx, stator_tensor_copy(ctx, host, in[0]));
    for (int i = 0; i < 2 * ROWS; i++) {
        const float want = i == 7 ? -1.0F : i == 2 * ROWS - 1 ? -2.0F : (float)(i + 1);
        CHECK(((const float *)stator_tensor_data(host))[i] == want);
    }
    stator_tensor_release(host);
    stator_tensor_release(out);
    for (int i = 0; i < 4; i++) {
        stator_tensor_release(in[i]);
    }
    stator_function_destroy(f);
    stator_model_destroy(model);
}

/* A fixed kernel tells of its check late too: what is written behind it has two buffers. */
static const char fixed[] = "stir 1\n"
                            "graph @step(%p: f32[2, 100], %x: f32[200], %i: i64[200]) {\n"
                            "  %1 = scatter_elements(%x, %i, %x) {axis = 0}\n"
                            "  %2 = reshape(%1) {shape = [2, 100]}\n"
                            "  %3 = sub(%p, %2)\n"
                            "  %4 = assign(%p, %3)\n"
                            "  return %i\n"
                            "}\n";

static void run_fixed(stator_ctx *ctx)
{
    static const int64_t shape[] = {2, ROWS};
    static const int64_t list_shape[] = {2 * ROWS};
    stator_model *model = load_text(ctx, fixed);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    stator_tensor *in[3] = {filled(ctx, STATOR_F32, 2, shape, 1, 1),
                            filled(ctx, STATOR_F32, 1, list_shape, 1, 1),
                            filled(ctx, STATOR_I64, 1, list_shape, 1, 1)};
    stator_tensor *out = NULL;
    stator_tensor *host = NULL;
    stator_status status = stator_call_tensors(f, 3, in, 1, &out);
    if (status == STATOR_OK) { /* told by the next wait */
        status = stator_tensor_wait(ctx, out);
    }
    CHECK(status == STATOR_OUT_OF_RANGE);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 2, shape, &host));
    CHECK_OK(ctx, stator_tensor_copy(ctx, host, in[0]));
    for (int i = 0; i < 2 * ROWS; i++) {
        CHECK(((const float *)stator_tensor_data(host))[i] == (float)(i + 1));
    }
    stator_tensor_release(host);
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
    run_cache(ctx);
    run_fixed(ctx);
    stator_ctx_destroy(ctx);
    return 0;
}
