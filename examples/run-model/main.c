/* Loads a model, compiles it for a backend, calls it once with zeros and shows what came out:
 *
 *     run_model MODEL [BACKEND]
 *
 * Every call returns a status; `ok` prints the context's error text for the first one that fails.
 * Objects are destroyed in any order before the context. */
#include <stator/stator.h>

#include <stdio.h>
#include <string.h>

#define PORTS_MAX 16

static bool ok(stator_ctx *ctx, stator_status status)
{
    if (status != STATOR_OK) {
        fprintf(stderr, "%s: %s\n", stator_status_name(status), stator_ctx_error_text(ctx));
    }
    return status == STATOR_OK;
}

static void show(const char *name, const DLTensor *t)
{
    printf("%s: shape", name);
    for (int32_t i = 0; i < t->ndim; i++) {
        printf(" %lld", (long long)t->shape[i]);
    }
    if (t->dtype.code == kDLFloat && t->dtype.bits == 32 && t->ndim > 0 && t->shape[0] > 0) {
        printf(", first element %g", (double)*(const float *)t->data);
    }
    printf("\n");
}

/* A tensor of zeros for input i; symbolic sizes are taken as 1. */
static bool zeros_for_input(stator_ctx *ctx, stator_model *model, uint32_t i, stator_tensor **out)
{
    stator_port_info port = {.struct_size = sizeof port};
    bool good = ok(ctx, stator_model_input_info(model, i, &port));
    for (uint32_t k = 0; good && k < port.rank; k++) {
        port.dims[k] = port.dims[k] < 0 ? 1 : port.dims[k];
    }
    good = good && ok(ctx, stator_tensor_create(ctx, port.dtype, port.rank, port.dims, out));
    if (good) {
        memset(stator_tensor_data(*out), 0, stator_tensor_size_bytes(*out));
    }
    return good;
}

int main(int argc, char **argv)
{
    stator_ctx *ctx = NULL;
    stator_model *model = NULL;
    stator_function *fn = NULL;
    stator_tensor *in[PORTS_MAX] = {NULL}, *out[PORTS_MAX] = {NULL};
    stator_port_info port = {.struct_size = sizeof port};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = argc > 2 ? argv[2] : NULL};
    bool good = argc > 1 && ok(ctx, stator_ctx_create(NULL, &ctx)) &&
                ok(ctx, stator_model_load(ctx, argv[1], NULL, &model)) &&
                ok(ctx, stator_compile(model, &options, &fn));
    const uint32_t n_in = good ? stator_model_input_count(model) : 0;
    const uint32_t n_out = good ? stator_model_output_count(model) : 0;
    good = good && n_in <= PORTS_MAX && n_out <= PORTS_MAX;
    for (uint32_t i = 0; good && i < n_in; i++) {
        good = zeros_for_input(ctx, model, i, &in[i]);
    }
    good = good && ok(ctx, stator_call_tensors(fn, n_in, in, n_out, out));
    for (uint32_t i = 0; good && i < n_out; i++) {
        good = ok(ctx, stator_model_output_info(model, i, &port));
        show(port.name, stator_tensor_view(out[i]));
    }
    for (uint32_t i = 0; i < PORTS_MAX; i++) {
        stator_tensor_release(in[i]);
        stator_tensor_release(out[i]);
    }
    stator_function_destroy(fn);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return good ? 0 : 1;
}
