/* The n-th allocation fails, for every n until none fails any more: loading, compiling, running,
 * a verified call and asking for steps, guards and a cut each end with RESOURCE_EXHAUSTED (or
 * succeed), lose no memory, and work again afterwards. Over a text model with control flow, and the
 * digits model through the onnx frontend; and over a backend with memory of its own. */
#define _GNU_SOURCE
#include "api_check.h"

static const char loop_text[] = "stir 1\n"
                                "sym N in [1, 64]\n"
                                "graph @main(%x: f32[N, 4], %w: f32[4, 4]) {\n"
                                "  %3 = matmul(%x, %w) : f32[N, 4]\n"
                                "  %4 = gelu(%3) : f32[N, 4]\n"
                                "  %5 = constant {value = i64[] {3}} : i64[]\n"
                                "  %6 = constant {value = bool[] {true}} : bool[]\n"
                                "  %7 = while(%5, %6, %4) {carried = 1} : f32[N, 4]\n"
                                "    region @body(%1: i64[], %2: f32[N, 4]) {\n"
                                "      %3 = constant {value = bool[] {true}} : bool[]\n"
                                "      %4 = tanh(%2) : f32[N, 4]\n"
                                "      return %3, %4\n"
                                "    }\n"
                                "  return y: %7\n"
                                "}\n";

typedef struct attempt {
    const char *path; /* NULL: loop_text */
    const char *backend;
    uint32_t verify; /* and what is told of the program, and a cut */
    uint64_t requests;
} attempt;

static void take_step(void *self, const stator_x_step *row)
{
    *(uint32_t *)self += row->struct_size != 0;
}

static void take_guard(void *self, const stator_x_guard *row)
{
    *(uint32_t *)self += row->struct_size != 0;
}

/* Steps and guard of the function, and the model's gelu alone. */
static stator_status ask(const attempt *a, stator_model *model, stator_function *function)
{
    static const stator_ref node = 2, input = 3, output = 4;
    const stator_x_cut gelu = {.struct_size = sizeof gelu,
                               .n_nodes = 1,
                               .n_inputs = 1,
                               .n_outputs = 1,
                               .nodes = &node,
                               .inputs = &input,
                               .outputs = &output};
    uint32_t rows = 0;
    stator_model *cut = NULL;
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; status == STATOR_OK && i < stator_x_part_count(function); i++) {
        status = stator_x_part_steps(function, i, take_step, &rows);
    }
    if (status == STATOR_OK) {
        status = stator_x_guards(function, take_guard, &rows);
    }
    CHECK(status != STATOR_OK || rows > 1);
    if (status == STATOR_OK && a->path == NULL) {
        status = stator_x_model_cut(model, &gelu, &cut);
        stator_model_destroy(cut);
    }
    return status;
}

/* Loads, compiles and runs once in a fresh context whose n-th request fails; 1 when all went well.
 */
static int try_with(attempt *a, uint64_t n)
{
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options, .threads = 1};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    CHECK(stator_ctx_scan(ctx) == STATOR_OK);
    stator_x_fail_alloc_at(ctx, n);
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1};
    stator_model *model = NULL;
    stator_function *function = NULL;
    stator_tensor *in[2] = {NULL, NULL};
    stator_tensor *out[1] = {NULL};
    stator_status status = a->path != NULL
                               ? stator_model_load(ctx, a->path, NULL, &model)
                               : stator_model_load_bytes(ctx, loop_text, sizeof loop_text - 1,
                                                         "loop.stir", &load, &model);
    const stator_compile_options compile = {
        .struct_size = sizeof compile, .backend = a->backend, .verify = a->verify};
    if (status == STATOR_OK) {
        status = stator_compile(model, &compile, &function);
    }
    const uint32_t n_in = a->path != NULL ? 1 : 2;
    const int64_t shapes[2][4] = {{2, 4, 0, 0}, {4, 4, 0, 0}};
    const int64_t image[4] = {1, 1, 8, 8};
    for (uint32_t i = 0; status == STATOR_OK && i < n_in; i++) {
        status = stator_tensor_create(ctx, STATOR_F32, a->path != NULL ? 4 : 2,
                                      a->path != NULL ? image : shapes[i], &in[i]);
        if (status == STATOR_OK) {
            memset(stator_tensor_data(in[i]), 0, stator_tensor_size_bytes(in[i]));
        }
    }
    if (status == STATOR_OK) {
        status = stator_call_tensors(function, n_in, in, 1, out);
    }
    if (status == STATOR_OK && a->verify != 0) {
        status = ask(a, model, function);
    }
    a->requests = stator_x_alloc_requests(ctx);
    if (status != STATOR_OK && status != STATOR_RESOURCE_EXHAUSTED) {
        (void)fprintf(stderr, "request %llu: %s: %s\n", (unsigned long long)n,
                      stator_status_name(status), stator_ctx_error_text(ctx));
    }
    /* A plugin whose loading ran out of memory is reported as unavailable. */
    CHECK(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED ||
          status == STATOR_UNAVAILABLE);
    stator_x_fail_alloc_at(ctx, 0);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_tensor_release(out[0]);
    stator_function_destroy(function);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return status == STATOR_OK;
}

static void fail_each(const char *path, const char *backend, uint32_t verify)
{
    attempt a = {.path = path, .backend = backend, .verify = verify};
    CHECK(try_with(&a, 0));
    const uint64_t total = a.requests;
    uint64_t failed = 0;
    /* Every one of the first thousand, then ever larger steps: the later ones repeat each other. */
    for (uint64_t n = 1; n <= total; n += 1 + n / 1000) {
        failed += try_with(&a, n) == 0;
    }
    (void)printf("%s on %s: %llu requests, %llu failures handled\n", path != NULL ? path : "loop",
                 backend, (unsigned long long)total, (unsigned long long)failed);
    CHECK(failed > 0);
    CHECK(try_with(&a, 0));
}

int main(void)
{
    CHECK(setenv("STATOR_PLUGIN_FILES", ST_TEST_BUILD "/tests/device/sim.so", 1) == 0);
    fail_each(NULL, "sim", 0);
    fail_each(NULL, "eager", 0);
    fail_each(NULL, "aot_eager", 0);
    fail_each(ST_TEST_SOURCE "/examples/digits/digits.onnx", "eager", 0);
    fail_each(ST_TEST_SOURCE "/examples/digits/digits.onnx", "aot_eager", 0);
    fail_each(NULL, "aot_eager", 1);
    return 0;
}
