/* Programs under symbols: whatever the sizes of the first call were, which decide how contractions
 * are done, later calls of smaller and larger sizes give what eager gives. */
#include "support_run.h"

#include <criterion/criterion.h>
#include <math.h>

/* Weights that are folded: sin(i), so that no two filters are alike. */
#define WEIGHTS(name, n, shape)                                                                    \
    "  %i" name " = iota() {shape = [" n "], dtype = f32}\n"                                       \
    "  %s" name " = sin(%i" name ")\n"                                                             \
    "  %" name " = reshape(%s" name ") {shape = " shape "}\n"

static const char chain[] =
    "stir 1\n"
    "sym B in [0, inf]\nsym T in [0, inf]\n"
    "graph @m(%x: f32[B, 32, T]) {\n" WEIGHTS("u", "3072", "[32, 32, 3]")
        WEIGHTS("v", "3072", "[32, 32, 3]") WEIGHTS(
            "w", "3072",
            "[32, 32, 3]") "  %1 = conv(%x, %u) {strides = [2], pads = [0, 0], dilations = [1]}\n"
                           "  %2 = relu(%1)\n"
                           "  %3 = conv(%2, %v) {strides = [2], pads = [0, 0], dilations = [1]}\n"
                           "  %4 = relu(%3)\n"
                           "  %5 = conv(%4, %w) {strides = [2], pads = [0, 0], dilations = [1]}\n"
                           "  return y: %5\n"
                           "}\n";

static const char image[] =
    "stir 1\n"
    "sym B in [0, inf]\nsym H in [0, inf]\nsym W in [0, inf]\n"
    "graph @m(%x: f32[B, 32, H, W]) {\n" WEIGHTS("u", "9216", "[32, 32, 3, 3]")
        WEIGHTS("v", "1024", "[32, 32, 1, 1]") "  %1 = conv(%x, %u) {strides = [1, 1], pads = [1, "
                                               "1, 1, 1], dilations = [1, 1]}\n"
                                               "  %2 = relu(%1)\n"
                                               "  %3 = conv(%2, %v) {strides = [1, 1], pads = [0, "
                                               "0, 0, 0], dilations = [1, 1]}\n"
                                               "  %4 = add(%3, %x)\n"
                                               "  return y: %4\n"
                                               "}\n";

static const char rows[] = "stir 1\n"
                           "sym B in [0, inf]\nsym S in [0, inf]\n"
                           "graph @m(%x: f32[B, S, 64]) {\n" WEIGHTS("u", "16384", "[64, 256]")
                               WEIGHTS("v", "16384", "[256, 64]") "  %1 = matmul(%x, %u)\n"
                                                                  "  %2 = relu(%1)\n"
                                                                  "  %3 = matmul(%2, %v)\n"
                                                                  "  return y: %3\n"
                                                                  "}\n";

static stator_tensor *input_of(stator_ctx *ctx, uint32_t rank, const int64_t *shape)
{
    stator_tensor *t = run_counting(ctx, rank, shape);
    float *data = (float *)stator_tensor_data(t);
    for (uint64_t i = 0; i < stator_tensor_size_bytes(t) / sizeof *data; i++) {
        data[i] = (float)((i * 37u + 11u) % 101u) / 50.0f - 1.0f;
    }
    return t;
}

static void expect_alike(const stator_tensor *got, const stator_tensor *want, const int64_t *shape)
{
    const uint64_t n = stator_tensor_size_bytes(want) / sizeof(float);
    const float *a = stator_tensor_data(got);
    const float *b = stator_tensor_data(want);
    float largest = 0;
    cr_assert_eq(stator_tensor_size_bytes(got), stator_tensor_size_bytes(want));
    for (uint64_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf(b[i]));
    }
    for (uint64_t i = 0; i < n; i++) { /* Winograd's 2^-20 of the largest, twice and relayed */
        cr_assert_float_eq(a[i], b[i], 1e-5f * largest, "element %u of [%d, %d, ..]: %g, not %g",
                           (unsigned)i, (int)shape[0], (int)shape[2], (double)a[i], (double)b[i]);
    }
}

/* Calls of all sizes in turn on one function, beginning with each. */
static void in_every_order(const char *text, uint32_t rank, uint32_t n, const int64_t (*shapes)[4])
{
    stator_ctx *ctx = run_context();
    cr_assert_eq(stator_ctx_scan(ctx), STATOR_OK);
    for (uint32_t first = 0; first < n; first++) {
        stator_function *fn = run_compile(ctx, "inductor-cpu", text, "hints.stir");
        stator_function *eager = run_compile(ctx, "eager", text, "hints.stir");
        cr_assert(eager != NULL);
        for (uint32_t k = 0; fn != NULL && k < n; k++) {
            const int64_t *shape = shapes[(first + k) % n];
            stator_tensor *in = input_of(ctx, rank, shape), *got = NULL, *want = NULL;
            cr_assert_eq(stator_call_tensors(fn, 1, &in, 1, &got), STATOR_OK, "%s",
                         stator_ctx_error_text(ctx));
            cr_assert_eq(stator_call_tensors(eager, 1, &in, 1, &want), STATOR_OK, "%s",
                         stator_ctx_error_text(ctx));
            expect_alike(got, want, shape);
            stator_tensor_release(in);
            stator_tensor_release(got);
            stator_tensor_release(want);
        }
        stator_function_destroy(fn); /* NULL: the backend is not available in this build */
        stator_function_destroy(eager);
    }
    stator_ctx_destroy(ctx);
}

Test(size_hints, hints_follow_strided_convolutions)
{
    static const int64_t shapes[5][4] = {
        {2, 32, 1000}, {2, 32, 15}, {3, 32, 64}, {2, 32, 16}, {5, 32, 300}};
    in_every_order(chain, 3, 5, shapes);
}

Test(size_hints, hints_of_image_convolutions)
{
    static const int64_t shapes[4][4] = {
        {2, 32, 40, 40}, {2, 32, 2, 3}, {3, 32, 90, 7}, {8, 32, 12, 12}};
    in_every_order(image, 4, 4, shapes);
}

Test(size_hints, hints_of_row_products)
{
    static const int64_t shapes[4][4] = {{2, 512, 64}, {2, 2, 64}, {3, 7, 64}, {4, 128, 64}};
    in_every_order(rows, 3, 4, shapes);
}
