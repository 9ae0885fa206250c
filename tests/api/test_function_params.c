/* Parameters of a compiled function: what they are, other values for them on each backend (folded,
 * packed by a library, read by control flow), and what is refused. */
#include "api_check.h"

#include <stator/train.h>

/* y = relu(x w + b) wt, z = -b: w is packed where a backend packs, -b is folded. */
static const char PROGRAM[] = "stir 1\n"
                              "sym N in [1, 64]\n"
                              "graph @main(\n"
                              "  %x: f32[N, 2],\n"
                              "  param %w \"w\": f32[2, 3] = {1, 0, 2, 0, 1, -1},\n"
                              "  param %b \"bias\": f32[3] = {0.5, 0, -1}\n"
                              ") {\n"
                              "  %p = matmul(%x, %w)\n"
                              "  %a = add(%p, %b)\n"
                              "  %r = relu(%a)\n"
                              "  %t = transpose(%w) {perm = [1, 0]}\n"
                              "  %y = matmul(%r, %t)\n"
                              "  %z = neg(%b)\n"
                              "  return y: %y, z: %z\n"
                              "}\n";

static const float W[2][6] = {{1, 0, 2, 0, 1, -1}, {0.5f, -1, 0, 2, 1, 3}};
static const float B[2][3] = {{0.5f, 0, -1}, {1, 2, 3}};

/* Calls with rows of ones and compares with the formula at these values. */
static void expect_values(stator_ctx *ctx, stator_function *f, int64_t rows, const float *w,
                          const float *b)
{
    float ones[16], h[3];
    for (int i = 0; i < 16; i++) {
        ones[i] = 1;
    }
    stator_tensor *x = tensor_2d(ctx, rows, 2, ones), *out[2] = {NULL, NULL};
    CHECK_OK(ctx, stator_call_tensors(f, 1, &x, 2, out));
    const float *y = stator_tensor_data(out[0]), *z = stator_tensor_data(out[1]);
    for (int j = 0; j < 3; j++) {
        h[j] = w[j] + w[3 + j] + b[j];
        h[j] = h[j] > 0 ? h[j] : 0;
        CHECK(z[j] == -b[j]);
    }
    for (int64_t i = 0; i < rows; i++) { /* sums of small multiples of a half: exact */
        CHECK(y[2 * i] == h[0] * w[0] + h[1] * w[1] + h[2] * w[2]);
        CHECK(y[2 * i + 1] == h[0] * w[3] + h[1] * w[4] + h[2] * w[5]);
    }
    stator_tensor_release(x);
    stator_tensor_release(out[0]);
    stator_tensor_release(out[1]);
}

static stator_tensor *vector_3(stator_ctx *ctx, const float *values)
{
    const int64_t three = 3;
    stator_tensor *t = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, &three, &t));
    memcpy(stator_tensor_data(t), values, 3 * sizeof *values);
    return t;
}

static void set(stator_ctx *ctx, stator_function *f, const char *name, stator_tensor *value)
{
    CHECK_OK(ctx, stator_function_param_set(f, name, value));
    stator_tensor_release(value);
}

static void expect_get(stator_ctx *ctx, stator_function *f, const char *name, const float *want,
                       uint64_t n)
{
    stator_tensor *value = NULL;
    CHECK_OK(ctx, stator_function_param_get(f, name, &value));
    CHECK(stator_tensor_size_bytes(value) == n * sizeof *want);
    CHECK(memcmp(stator_tensor_data(value), want, n * sizeof *want) == 0);
    stator_tensor_release(value);
}

static void check_backend(stator_ctx *ctx, stator_model *model, const char *backend)
{
    stator_function *f = compile_for(ctx, model, backend);
    stator_function *other = compile_for(ctx, model, backend);
    expect_values(ctx, f, 2, W[0], B[0]);
    expect_values(ctx, f, 5, W[0], B[0]);
    set(ctx, f, "bias", vector_3(ctx, B[1]));
    expect_values(ctx, f, 5, W[0], B[1]);
    set(ctx, f, "w", tensor_2d(ctx, 2, 3, W[1]));
    set(ctx, f, "bias", vector_3(ctx, B[0]));
    expect_get(ctx, f, "w", W[1], 6);
    for (int64_t rows = 1; rows < 8; rows++) {
        expect_values(ctx, f, rows, W[1], B[0]);
    }
    expect_values(ctx, other, 2, W[0], B[0]); /* the model and its other functions keep theirs */
    expect_get(ctx, other, "w", W[0], 6);
    stator_function_destroy(f);
    stator_function_destroy(other);
}

static void refused(stator_ctx *ctx, stator_status status, stator_status code, const char *words)
{
    if (status != code || strstr(stator_ctx_error_text(ctx), words) == NULL) {
        (void)fprintf(stderr, "status %d, no '%s': %s\n", (int)status, words,
                      stator_ctx_error_text(ctx));
        exit(1);
    }
}

static void check_refusals(stator_ctx *ctx, stator_model *model)
{
    stator_function *f = compile_for(ctx, model, "eager");
    stator_tensor *b = vector_3(ctx, B[1]), *w = tensor_2d(ctx, 2, 3, W[1]), *got = b;
    stator_port_info port = {.struct_size = sizeof port};
    CHECK(stator_function_param_count(f) == 2);
    CHECK_OK(ctx, stator_function_param_info(f, 1, &port));
    CHECK(strcmp(port.name, "bias") == 0 && port.rank == 1 && port.dims[0] == 3 && port.is_param);
    refused(ctx, stator_function_param_info(f, 2, &port), STATOR_OUT_OF_RANGE, "no parameter 2");
    refused(ctx, stator_function_param_get(f, "bios", &got), STATOR_NOT_FOUND,
            "has no parameter 'bios'; did you mean 'bias'?");
    CHECK(got == NULL);
    refused(ctx, stator_function_param_set(f, "x", b), STATOR_NOT_FOUND, "has no parameter 'x'");
    refused(ctx, stator_function_param_set(f, NULL, b), STATOR_INVALID_ARGUMENT, "NULL");
    refused(ctx, stator_function_param_set(f, "bias", NULL), STATOR_INVALID_ARGUMENT, "NULL");
    refused(ctx, stator_function_param_set(f, "bias", w), STATOR_INVALID_ARGUMENT,
            "the value of parameter 'bias' is f32 [2, 3], and the parameter is f32 [3]");
    const int64_t three = 3;
    stator_tensor *wide = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F64, 1, &three, &wide));
    refused(ctx, stator_function_param_set(f, "bias", wide), STATOR_INVALID_ARGUMENT, "is f64 [3]");

    const float ones[4] = {1, 1, 1, 1};
    stator_tensor *x = tensor_2d(ctx, 2, 2, ones), *out[2] = {NULL, NULL};
    stator_bound_call *call = NULL;
    CHECK_OK(ctx, stator_bind(f, 1, &x, 2, out, &call));
    refused(ctx, stator_function_param_set(f, "bias", b), STATOR_FAILED_PRECONDITION,
            "1 bound calls of the function");
    stator_bound_call_destroy(call);
    expect_values(ctx, f, 2, W[0], B[0]); /* nothing changed */
    CHECK_OK(ctx, stator_function_param_set(f, "bias", b));
    stator_function_destroy(f);

    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = "eager", .verify = 1};
    CHECK_OK(ctx, stator_compile(model, &options, &f));
    refused(ctx, stator_function_param_set(f, "bias", b), STATOR_UNSUPPORTED, "are compared");
    stator_function_destroy(f);
    stator_tensor_release(b);
    stator_tensor_release(w);
    stator_tensor_release(wide);
    stator_tensor_release(x);
    stator_tensor_release(out[0]);
    stator_tensor_release(out[1]);
}

int main(void)
{
    static const char *const backends[] = {"eager", "aot_eager", "inductor-cpu"};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        const stator_compile_options options = {.struct_size = sizeof options,
                                                .backend = backends[i]};
        stator_function *f = NULL;
        if (stator_compile(model, &options, &f) != STATOR_OK) { /* LLVM is not there */
            (void)printf("left out: %s: %s\n", backends[i], stator_ctx_error_text(ctx));
            continue;
        }
        stator_function_destroy(f);
        check_backend(ctx, model, backends[i]);
    }
    check_refusals(ctx, model);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
