/* In-place writes meet parameters: inputs keep their places among the caller's, and a parameter,
 * whose bytes are shared by all callers, cannot be written. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const backends[] = {"eager", "aot_eager"};

Test(write_back, write_to_an_input_after_a_parameter)
{
    static const char text[] =
        "stir 1\n"
        "graph @m(param %w: f32[2] = {5.0, -6.0}, %a: f32[2], %b: f32[2]) {\n"
        "  %1 = add(%b, %w)\n"
        "  %2 = assign(%b, %1)\n"
        "  %3 = neg(%a)\n"
        "  return %3\n"
        "}\n";
    static const float a[] = {1, 2}, b[] = {10, 20}, sum[] = {15, 14}, neg[] = {-1, -2};
    static const int64_t shape[] = {2};
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 2; k++) {
        stator_function *f = run_compile(ctx, backends[k], text, "write_back");
        stator_tensor *in[] = {run_tensor(ctx, STATOR_F32, 1, shape, a),
                               run_tensor(ctx, STATOR_F32, 1, shape, b)};
        stator_tensor *out = NULL;
        cr_assert(f && in[0] && in[1]);
        cr_assert_eq(stator_call_tensors(f, 2, in, 1, &out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        cr_expect_eq(memcmp(stator_tensor_data(in[0]), a, sizeof a), 0);
        cr_expect_eq(memcmp(stator_tensor_data(in[1]), sum, sizeof sum), 0);
        cr_expect_eq(memcmp(stator_tensor_data(out), neg, sizeof neg), 0);
        stator_tensor_release(in[0]);
        stator_tensor_release(in[1]);
        stator_tensor_release(out);
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}

Test(write_back, write_to_a_parameter_is_refused)
{
    static const char text[] = "stir 1\n"
                               "graph @m(param %w: f32[2] = {5.0, -6.0}, %a: f32[2]) {\n"
                               "  %1 = assign(%w, %a)\n"
                               "  return %1\n"
                               "}\n";
    static const float a[] = {1, 2};
    static const int64_t shape[] = {2};
    stator_ctx *ctx = run_context();
    for (uint32_t k = 0; k < 2; k++) {
        stator_function *f = run_compile(ctx, backends[k], text, "write_back");
        stator_tensor *in = run_tensor(ctx, STATOR_F32, 1, shape, a), *out = NULL;
        cr_assert(f && in);
        cr_expect_eq(stator_call_tensors(f, 1, &in, 1, &out), STATOR_UNSUPPORTED);
        cr_expect(strstr(stator_ctx_error_text(ctx), "writes to the parameter 'w'"), "%s",
                  stator_ctx_error_text(ctx));
        stator_tensor_release(in);
        stator_function_destroy(f);
    }
    stator_ctx_destroy(ctx);
}
