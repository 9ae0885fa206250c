/* Running .stir texts on a backend of the build. */
#include "tests/unit/support_run.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

stator_ctx *run_context(void)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    return stator_ctx_create(&options, &ctx) == STATOR_OK ? ctx : NULL;
}

static void print_error(stator_ctx *ctx, const char *name, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", name, what, stator_ctx_error_text(ctx));
}

static stator_model *load(stator_ctx *ctx, const char *text, uint64_t len, const char *name)
{
    const stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .frontend = "text"};
    stator_model *model = NULL;
    if (stator_model_load_bytes(ctx, text, len, name, &options, &model) != STATOR_OK) {
        print_error(ctx, name, "load");
        return NULL;
    }
    return model;
}

static stator_function *compile(stator_ctx *ctx, stator_model *model, const char *backend,
                                const char *name)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    stator_function *function = NULL;
    if (stator_compile(model, &options, &function) != STATOR_OK) {
        print_error(ctx, name, "compile");
        return NULL;
    }
    return function;
}

stator_function *run_compile(stator_ctx *ctx, const char *backend, const char *text,
                             const char *name)
{
    stator_model *model = load(ctx, text, strlen(text), name);
    stator_function *function = model ? compile(ctx, model, backend, name) : NULL;
    stator_model_destroy(model);
    return function;
}

stator_tensor *run_counting(stator_ctx *ctx, uint32_t rank, const int64_t *shape)
{
    stator_tensor *tensor = NULL;
    if (stator_tensor_create(ctx, STATOR_F32, rank, shape, &tensor) != STATOR_OK) {
        print_error(ctx, "tensor", "create");
        abort();
    }
    for (uint64_t i = 0; i < stator_tensor_size_bytes(tensor) / sizeof(float); i++) {
        ((float *)stator_tensor_data(tensor))[i] = (float)(i + 1u);
    }
    return tensor;
}

stator_tensor *run_tensor(stator_ctx *ctx, stator_dtype dtype, uint32_t rank, const int64_t *shape,
                          const void *data)
{
    stator_tensor *tensor = NULL;
    if (stator_tensor_create(ctx, dtype, rank, shape, &tensor) != STATOR_OK) {
        print_error(ctx, "tensor", "create");
        return NULL;
    }
    memcpy(stator_tensor_data(tensor), data, stator_tensor_size_bytes(tensor));
    return tensor;
}

/* ---- comparing ---- */

typedef struct tolerance {
    double rtol, atol;
    double slack; /* places of the dtype */
    int exact;    /* the sign of zero counts */
} tolerance;

static tolerance tolerance_of(const char *text)
{
    tolerance t = {.rtol = 0};
    const char *line = strstr(text, "// rtol ");
    if (line && sscanf(line, "// rtol %lf atol %lf", &t.rtol, &t.atol) != 2) {
        t = (tolerance){.rtol = 0};
    }
    return t;
}

/* Distance from 1 to the next number. */
static double place_of(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_F64:
    case STATOR_C128:
        return 0x1p-52;
    case STATOR_F32:
    case STATOR_C64:
        return 0x1p-23;
    case STATOR_F16:
        return 0x1p-10;
    case STATOR_BF16:
        return 0x1p-7;
    default:
        return 0;
    }
}

static int equal(double a, double b, const tolerance *t)
{
    if (a == b || (isnan(a) && isnan(b))) {
        return t->exact == 0 || isnan(a) || signbit(a) == signbit(b);
    }
    return isfinite(a) && isfinite(b) && fabs(a - b) <= t->atol + t->rtol * fabs(b);
}

static int64_t compare(stator_tensor *got, stator_tensor *want, const tolerance *given,
                       uint32_t pair, const char *name)
{
    const double places = given->slack * place_of(stator_tensor_dtype(want));
    const tolerance wider = {.rtol = given->rtol + places,
                             .atol = given->atol + places,
                             .exact = given->rtol == 0 && given->atol == 0 && places == 0};
    const tolerance *t = &wider;
    const DLTensor *a = stator_tensor_view(got);
    const DLTensor *b = stator_tensor_view(want);
    const uint32_t dtype = stator_tensor_dtype(want);
    if (stator_tensor_dtype(got) != dtype || a->ndim != b->ndim ||
        (a->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0)) {
        fprintf(stderr, "%s: pair %u: dtype or shape differ (%s, rank %d)\n", name, pair,
                st_dtype_name(stator_tensor_dtype(got)), a->ndim);
        return 1;
    }
    uint64_t n = 1;
    int64_t wrong = 0;
    (void)st_numel(b->shape, (uint32_t)b->ndim, &n);
    for (int64_t i = 0; i < (int64_t)n; i++) {
        double x[2];
        double y[2];
        st_load_c128(dtype, a->data, i, x);
        st_load_c128(dtype, b->data, i, y);
        const int64_t xi = st_load_i64(dtype, a->data, i);
        const int64_t yi = st_load_i64(dtype, b->data, i);
        const int is_int =
            st_dtype_class(dtype) == STATOR_CLASS_INT || st_dtype_class(dtype) == STATOR_CLASS_UINT;
        if (is_int ? xi == yi : equal(x[0], y[0], t) && equal(x[1], y[1], t)) {
            continue;
        }
        if (wrong++ < 4) {
            fprintf(stderr, "%s: pair %u (%s) element %lld: got %.17g, wanted %.17g\n", name, pair,
                    st_dtype_name(dtype), (long long)i, x[0], y[0]);
        }
    }
    return wrong;
}

/* The text after a line "// inputs" is a second graph that makes the call's inputs: its outputs are
 * each input before the call and after it, in turn. */
static const char *inputs_text(const char *text)
{
    const char *mark = strstr(text, "\n// inputs\n");
    return mark ? mark + strlen("\n// inputs\n") : NULL;
}

typedef struct tensors {
    stator_tensor *at[64];
    uint32_t n;
} tensors;

static void release(tensors *t)
{
    for (uint32_t k = 0; k < t->n; k++) {
        stator_tensor_release(t->at[k]);
    }
    *t = (tensors){.n = 0};
}

static int make_inputs(stator_ctx *ctx, const char *text, const char *name, tensors *out)
{
    stator_model *model = load(ctx, text, strlen(text), name);
    stator_function *function = model ? compile(ctx, model, "eager", name) : NULL;
    out->n = model ? stator_model_output_count(model) : 0;
    const int ok = function && out->n <= 64 && out->n % 2 == 0 &&
                   stator_call_tensors(function, 0, NULL, out->n, out->at) == STATOR_OK;
    if (!ok) {
        print_error(ctx, name, "inputs");
        out->n = 0;
    }
    stator_function_destroy(function);
    stator_model_destroy(model);
    return ok;
}

/* The call itself; `inputs` holds before and after in turn. */
static int call_pairs(stator_ctx *ctx, stator_function *function, tensors *inputs, uint32_t n,
                      stator_tensor **out, const char *name)
{
    stator_tensor *in[32];
    for (uint32_t k = 0; k < inputs->n / 2; k++) {
        in[k] = inputs->at[2 * k];
    }
    if (stator_call_tensors(function, inputs->n / 2, in, n, out) != STATOR_OK) {
        print_error(ctx, name, "call");
        return 0;
    }
    return n % 2 == 0 && n > 0;
}

int64_t run_pairs(stator_ctx *ctx, const char *backend, double slack, const char *text,
                  uint64_t len, const char *name)
{
    tolerance t = tolerance_of(text);
    t.slack = slack;
    tensors inputs = {.n = 0};
    const char *more = inputs_text(text);
    if (more && !make_inputs(ctx, more, name, &inputs)) {
        return -1;
    }
    stator_model *model = load(ctx, text, more ? (uint64_t)(more - text) : len, name);
    stator_function *function = model ? compile(ctx, model, backend, name) : NULL;
    const uint32_t n = model ? stator_model_output_count(model) : 0;
    stator_tensor **out = calloc(n + 1u, sizeof *out);
    int64_t wrong = function && out && call_pairs(ctx, function, &inputs, n, out, name) ? 0 : -1;
    for (uint32_t k = 0; wrong >= 0 && k + 1 < n; k += 2) {
        wrong += compare(out[k], out[k + 1], &t, k / 2, name);
    }
    for (uint32_t k = 0; wrong >= 0 && k < inputs.n; k += 2) {
        wrong += compare(inputs.at[k], inputs.at[k + 1], &t, n / 2 + k / 2, name);
    }
    for (uint32_t k = 0; out && k < n; k++) {
        stator_tensor_release(out[k]);
    }
    free(out);
    release(&inputs);
    stator_function_destroy(function);
    stator_model_destroy(model);
    return wrong;
}
