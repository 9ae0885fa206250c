/* What a function says of its parts: one row an executable, bodies of control flow among them,
 * whose sums are those of stator_x_memory_of; callers of an older header get what they know. */
#include "api_check.h"

static const char plain[] = "stir 1\n"
                            "graph @main(%x: f32[2, 3]) {\n"
                            "  %a = exp(%x)\n"
                            "  %b = reduce_sum(%a) {axes = [1]}\n"
                            "  return a: %a, b: %b\n"
                            "}\n";

static const char branches[] = "stir 1\n"
                               "graph @main(%p: bool[], %x: f32[2, 3]) {\n"
                               "  %a = exp(%x)\n"
                               "  %o = cond(%p, %a) : f32[2, 3]\n"
                               "   region (%u: f32[2, 3]) { %v = sin(%u) return %v }\n"
                               "   region (%u: f32[2, 3]) { %v = neg(%u) return %v }\n"
                               "  return o: %o\n"
                               "}\n";

typedef struct totals {
    uint32_t parts, in_bodies;
    uint64_t constant_bytes, packed_bytes, winograd_bytes, results;
} totals;

static totals add_up(stator_function *function)
{
    totals t = {.parts = stator_x_part_count(function)};
    stator_x_part part = {.struct_size = sizeof part};
    for (uint32_t i = 0; i < t.parts; i++) {
        CHECK(stator_x_part_at(function, i, &part) == STATOR_OK);
        CHECK(part.backend != NULL && part.program == 0 && part.struct_size == sizeof part);
        t.in_bodies += part.body != 0;
        t.constant_bytes += part.constant_bytes;
        t.packed_bytes += part.packed_bytes;
        t.winograd_bytes += part.winograd_bytes;
        t.results += part.result_bytes;
    }
    CHECK(stator_x_part_at(function, t.parts, &part) == STATOR_OUT_OF_RANGE);
    return t;
}

static void check_sums(stator_function *function, const totals *t, uint64_t outputs)
{
    stator_x_memory sum = {.struct_size = sizeof sum};
    stator_x_memory_of(function, &sum);
    CHECK(sum.executables == t->parts && sum.constant_bytes == t->constant_bytes);
    CHECK(sum.packed_bytes == t->packed_bytes && sum.winograd_bytes == t->winograd_bytes);
    CHECK(sum.output_bytes == outputs);
}

/* The caller's struct ends where it says. */
static void check_older(stator_function *function)
{
    stator_x_part part;
    stator_x_memory sum;
    memset(&part, 0x55, sizeof part);
    memset(&sum, 0x55, sizeof sum);
    part.struct_size = offsetof(stator_x_part, result_bytes);
    CHECK(stator_x_part_at(function, 0, &part) == STATOR_OK);
    CHECK(part.result_bytes == UINT64_C(0x5555555555555555) && part.backend[0] != 0);
    sum.struct_size = offsetof(stator_x_memory, output_bytes);
    stator_x_memory_of(function, &sum);
    CHECK(sum.output_bytes == UINT64_C(0x5555555555555555) && sum.executables != 0);
}

static void test_plain(stator_ctx *ctx, const char *backend)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    stator_model *model = load_text(ctx, plain);
    stator_function *function = compile_for(ctx, model, backend);
    stator_tensor *in = tensor_2d(ctx, 2, 3, values);
    CHECK(stator_x_part_count(function) == 0); /* nothing is compiled yet */
    CHECK_OK(ctx, stator_x_prepare(function, 1, &in));
    const totals t = add_up(function);
    CHECK(t.parts == 1 && t.in_bodies == 0 && t.results == (6 + 2) * sizeof(float));
    check_sums(function, &t, (6 + 2) * sizeof(float));
    check_older(function);
    stator_tensor_release(in);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void test_branches(stator_ctx *ctx, const char *backend)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    stator_model *model = load_text(ctx, branches);
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    stator_function *function = NULL;
    if (stator_compile(model, &options, &function) != STATOR_OK) {
        (void)printf("%s is not available here\n", backend);
        stator_model_destroy(model);
        return;
    }
    stator_tensor *in[2] = {NULL, tensor_2d(ctx, 2, 3, values)};
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_BOOL, 0, NULL, &in[0]));
    *(char *)stator_tensor_data(in[0]) = 1;
    CHECK_OK(ctx, stator_x_prepare(function, 2, in));
    const totals t = add_up(function);
    CHECK(t.parts == 3 && t.in_bodies == 2);
    check_sums(function, &t, 6 * sizeof(float));
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

int main(void)
{
    const stator_ctx_options options = {
        .struct_size = sizeof options, .threads = 1, .flags = STATOR_CTX_NO_CACHE};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    test_plain(ctx, "eager");
    test_branches(ctx, "inductor-cpu"); /* eager runs control flow itself */
    stator_ctx_destroy(ctx);
    return 0;
}
