/* Kernels of inductor-cpu read nothing behind an input: it ends where no memory is. */
#define _GNU_SOURCE
#include <stator/stator.h>

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N (4 * 24)

/* A window of 5 beside each other at three pixels, in vectors of 8 with a mask each. */
static const char text[] =
    "stir 1\n"
    "graph @main(%x: f32[1, 4, 24]) {\n"
    "  %w = constant {value = f32[4, 1, 5] {1, 2, 1, 2, 1, 1, 1, 1, 1, 1,"
    " 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}\n"
    "  %b = constant {value = f32[4] {1, 1, 2, 1}}\n"
    "  %y = conv(%x, %w, %b) {strides = [2], pads = [3, 2], dilations = [1], groups = 4}\n"
    "  %lo = constant {value = f32[] {0}}\n"
    "  %hi = constant {value = f32[] {6}}\n"
    "  %z = clamp(%y, %lo, %hi)\n"
    "  return z: %z\n"
    "}\n";

/* x, whose last element is the last of a page before one that may not be read. */
static stator_tensor *tensor_at_end(stator_ctx *ctx, char *pages, size_t page)
{
    static const int64_t shape[3] = {1, 4, 24};
    float *data = (float *)(void *)(pages + page) - N;
    const stator_buffer buffer = {
        .struct_size = sizeof buffer, .data = data, .size_bytes = N * sizeof *data};
    stator_tensor *out = NULL;
    for (int i = 0; i < N; i++) {
        data[i] = 1;
    }
    cr_assert_eq(stator_tensor_wrap(ctx, STATOR_F32, 3, shape, &buffer, &out), STATOR_OK);
    return out;
}

/* Does nothing where the backend is not there. */
static void check(stator_ctx *ctx, stator_model *model, stator_tensor *x)
{
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "inductor-cpu"};
    stator_function *function = NULL;
    stator_tensor *out = NULL;
    if (stator_compile(model, &options, &function) != STATOR_OK) {
        return;
    }
    cr_assert_eq(stator_call_tensors(function, 1, &x, 1, &out), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    const float *y = stator_tensor_data(out);
    cr_expect_eq(y[0], 4, "three places of the padding");
    cr_expect_eq(y[13 + 5], 6);
    stator_tensor_release(out);
    stator_function_destroy(function);
}

Test(masked_loads, masked_lanes_past_the_last_page_are_not_read, .timeout = 60)
{
    const stator_ctx_options no_cache = {.struct_size = sizeof no_cache,
                                         .flags = STATOR_CTX_NO_CACHE};
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    stator_ctx *ctx = NULL;
    stator_model *model = NULL;
    cr_assert_eq(stator_ctx_create(&no_cache, &ctx), STATOR_OK);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(pages != MAP_FAILED);
    cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
    cr_assert_eq(stator_model_load_bytes(ctx, text, strlen(text), "m.stir", &load, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(ctx));
    stator_tensor *x = tensor_at_end(ctx, pages, page);
    check(ctx, model, x);
    stator_tensor_release(x);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    (void)munmap(pages, 2 * page);
}
