/* Options of a plugin's pass from C: "PASS:key" beside the backend's own keys. A value decides
 * what the pass makes, two functions of one model may have different ones, and what is wrong is
 * said when the function is made. */
#define _GNU_SOURCE
#include "api_check.h"

static const char PROGRAM[] = "stir 1\n"
                              "graph @main(%x: f32[2, 3]) {\n"
                              "  %y = tanh(%x)\n"
                              "  return y: %y\n"
                              "}\n";

static stator_status make(stator_ctx *ctx, stator_model *model, const char *key, const char *value,
                          stator_function **out_function)
{
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .flags = STATOR_COMPILE_NO_CACHE,
                                            .backend = "aot_eager",
                                            .option_count = key != NULL ? 1 : 0,
                                            .option_keys = &key,
                                            .option_values = &value};
    (void)ctx;
    return stator_compile(model, &options, out_function);
}

/* The pass adds `limit` negations: an odd number of them turns the sign. */
static void expect_sign(stator_ctx *ctx, stator_model *model, const char *value, float sign)
{
    const float values[6] = {100, 100, 100, 100, 100, 100};
    stator_function *function = NULL;
    stator_tensor *out = NULL;
    CHECK_OK(ctx, make(ctx, model, value != NULL ? "acme.pass:limit" : NULL, value, &function));
    stator_tensor *in = tensor_2d(ctx, 2, 3, values);
    CHECK_OK(ctx, stator_call_tensors(function, 1, &in, 1, &out));
    CHECK(((const float *)stator_tensor_data(out))[5] == sign);
    stator_tensor_release(in);
    stator_tensor_release(out);
    stator_function_destroy(function);
}

static void expect_refused(stator_ctx *ctx, stator_model *model, const char *key, const char *value,
                           const char *words)
{
    stator_function *function = NULL;
    CHECK(make(ctx, model, key, value, &function) != STATOR_OK && function == NULL);
    if (strstr(stator_ctx_error_text(ctx), words) == NULL) {
        (void)fprintf(stderr, "%s=%s: %s\n", key, value, stator_ctx_error_text(ctx));
        CHECK(0);
    }
}

int main(void)
{
    const stator_ctx_options options = {.struct_size = sizeof options};
    stator_ctx *ctx = NULL;
    CHECK(setenv("STATOR_PLUGIN_FILES", ST_TEST_BUILD "/tests/mutants/acme.pass.so", 1) == 0);
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    expect_sign(ctx, model, NULL, 1); /* the default is two */
    expect_sign(ctx, model, "3", -1);
    expect_sign(ctx, model, "8", 1);
    CHECK(setenv("STATOR_OPT_ACME_PASS_LIMIT", "1", 1) == 0);
    expect_sign(ctx, model, NULL, -1);
    expect_sign(ctx, model, "4", 1);
    CHECK(unsetenv("STATOR_OPT_ACME_PASS_LIMIT") == 0);
    expect_refused(ctx, model, "acme.pass:limit", "9",
                   "option 'limit' of 'acme.pass' is 9, outside its range [1, 8]");
    expect_refused(ctx, model, "acme.pass:limit", "many",
                   "option 'limit' of 'acme.pass' is 'many', expected a whole number");
    expect_refused(
        ctx, model, "acme.pass:limits", "1",
        "'acme.pass' has no option 'limits' (did you mean 'limit'?); its options: limit");
    expect_refused(ctx, model, "acme.pas:limit", "1",
                   "is for 'acme.pas', and there is no pass of that name");
    expect_refused(ctx, model, "cse:limit", "1", "'cse' has no option 'limit'; its options: none");
    expect_refused(ctx, model, "acme.pass.limit", "1", "there is no backend or frontend");
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
