/* The option verify where values of inputs decide shapes: the reference is allowed as many programs
 * as the function that it is compared with. */
#include "support_onnx.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <stator/stator.h>
#include <string.h>

#define RANK 6
#define AXES (2 * RANK) /* counted from the end too: more than the limit that is not stated, 8 */

static stator_model *load(stator_ctx *ctx)
{
    const int64_t x[RANK] = {2, 2, 2, 2, 2, 2};
    const int64_t one[1] = {1};
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    stator_model *model = NULL;
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, RANK, x);
    onnx_input(&g, "axis", ONNX_INT64, 1, one);
    onnx_output(&g, "y", ONNX_FLOAT);
    onnx_node(&g, "ReduceSum", "x,axis", "y", NULL);
    onnx_bytes m = onnx_model(&g, 14, NULL);
    cr_assert_eq(stator_model_load_bytes(ctx, m.data, m.size, "values.onnx", &options, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(ctx));
    onnx_free(&m);
    return model;
}

Test(verify_values, reference_has_as_many_programs_as_the_function)
{
    const stator_compile_options how = {
        .struct_size = sizeof how, .backend = "aot_eager", .recompile_limit = 20, .verify = 1};
    const int64_t shape[RANK] = {2, 2, 2, 2, 2, 2};
    const int64_t one[1] = {1};
    stator_ctx *ctx = run_context();
    stator_function *function = NULL;
    stator_tensor *in[2] = {NULL, NULL};
    cr_assert_not_null(ctx);
    stator_model *model = load(ctx);
    cr_assert_eq(stator_compile(model, &how, &function), STATOR_OK, "%s",
                 stator_ctx_error_text(ctx));
    cr_assert_eq(stator_tensor_create(ctx, STATOR_F32, RANK, shape, &in[0]), STATOR_OK);
    cr_assert_eq(stator_tensor_create(ctx, STATOR_I64, 1, one, &in[1]), STATOR_OK);
    memset(stator_tensor_data(in[0]), 0, stator_tensor_size_bytes(in[0]));
    for (int64_t axis = -RANK; axis < RANK; axis++) {
        stator_tensor *out = NULL;
        memcpy(stator_tensor_data(in[1]), &axis, sizeof axis);
        cr_expect_eq(stator_call_tensors(function, 2, in, 1, &out), STATOR_OK, "axis %d: %s",
                     (int)axis, stator_ctx_error_text(ctx));
        stator_tensor_release(out);
    }
    cr_expect_eq(stator_function_compiles(function), (uint32_t)AXES);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(function);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}
