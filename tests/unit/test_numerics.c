/* The option `numerics` of inductor-cpu: with `exact`, what a kernel of several ops gives is what
 * the ops give one by one, each rounded to the declared dtype, bit for bit; with `fused`
 * intermediates stay in f32 and the result alone is rounded. Both are computed here by hand, and
 * they do differ. A function has another bound there, when the processor has a faster way. */
#include "core/base/convert.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4099 /* whole vectors and a tail */

typedef struct world {
    stator_ctx *ctx;
    stator_tensor *in[2];
    float x[N], y[N]; /* as stored */
    stator_dtype dtype;
} world;

/* z = (x * y + x) * y - x */
static const char body[] = "stir 1\n"
                           "graph @m(%%x: %s[4099], %%y: %s[4099]) {\n"
                           "  %%a = mul(%%x, %%y)\n"
                           "  %%b = add(%%a, %%x)\n"
                           "  %%c = mul(%%b, %%y)\n"
                           "  %%z = sub(%%c, %%x)\n"
                           "  return z: %%z%s\n"
                           "}\n";

static float rounded(stator_dtype dtype, float x)
{
    uint16_t bits = 0;
    st_store_f64(dtype, &bits, 0, (double)x);
    return (float)st_load_f64(dtype, &bits, 0);
}

static int begin(world *w, stator_dtype dtype)
{
    uint16_t bits[2][N];
    const int64_t shape[1] = {N};
    uint64_t state = 7;
    *w = (world){.ctx = run_context(), .dtype = dtype};
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 2; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const double value = (double)(state >> 40) / 0x1p22 - 2.0; /* in [-2, 2) */
            st_store_f64(dtype, bits[k], i, value);
            (k ? w->y : w->x)[i] = (float)st_load_f64(dtype, bits[k], i);
        }
    }
    w->in[0] = run_tensor(w->ctx, dtype, 1, shape, bits[0]);
    w->in[1] = run_tensor(w->ctx, dtype, 1, shape, bits[1]);
    return stator_ctx_scan(w->ctx) == STATOR_OK;
}

static void end(world *w)
{
    stator_tensor_release(w->in[0]);
    stator_tensor_release(w->in[1]);
    stator_ctx_destroy(w->ctx);
}

/* The outputs of a program with this numerics; 0: the backend is not available in this build. */
static int run_text(world *w, const char *numerics, const char *text, uint32_t n_in,
                    stator_tensor **out, uint32_t n)
{
    static const char *const keys[] = {"inductor-cpu.numerics"};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "inductor-cpu",
                                            .option_keys = keys,
                                            .option_values = &numerics,
                                            .option_count = 1};
    stator_model *model = NULL;
    stator_function *function = NULL;
    cr_assert_eq(stator_model_load_bytes(w->ctx, text, strlen(text), "m.stir", NULL, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(w->ctx));
    const stator_status status = stator_compile(model, &options, &function);
    const int is_here = status != STATOR_UNAVAILABLE && status != STATOR_NOT_FOUND;
    if (is_here) {
        cr_assert_eq(status, STATOR_OK, "%s", stator_ctx_error_text(w->ctx));
        cr_assert_eq(stator_call_tensors(function, n_in, w->in, n, out), STATOR_OK, "%s",
                     stator_ctx_error_text(w->ctx));
    }
    stator_function_destroy(function);
    stator_model_destroy(model);
    return is_here;
}

static int run(world *w, const char *numerics, const char *more, stator_tensor **out, uint32_t n)
{
    char text[1024];
    const char *name = w->dtype == STATOR_BF16 ? "bf16" : "f16";
    (void)snprintf(text, sizeof text, body, name, name, more);
    return run_text(w, numerics, text, 2, out, n);
}

/* Elements in which `got` is not what rounding at each op, or at the end alone, gives. */
static int count_wrong(const world *w, const stator_tensor *got, int is_exact, int *out_differ)
{
    int wrong = 0;
    *out_differ = 0;
    for (int i = 0; i < N; i++) {
        const float x = w->x[i];
        const float y = w->y[i];
        /* Products of two numbers of 11 bits are exact in f32; a fused multiply-add is free there.
         */
        const float a = rounded(w->dtype, x * y);
        const float b = rounded(w->dtype, a + x);
        const float c = rounded(w->dtype, b * y);
        const float exact = rounded(w->dtype, c - x);
        const double wide = ((double)x * y + x) * y - x;
        const double have = st_load_f64(w->dtype, stator_tensor_data(got), i);
        const double step = w->dtype == STATOR_BF16 ? 0x1p-8 : 0x1p-11;
        /* Once rounded: half a place of the result, and what f32 lost on the way. */
        const double bound = step * (wide < 0 ? -wide : wide) + 0x1p-20;
        wrong += is_exact ? have != (double)exact : !(have - wide <= bound && wide - have <= bound);
        *out_differ += have != (double)exact;
    }
    return wrong;
}

static void check(stator_dtype dtype)
{
    world w;
    stator_tensor *out[1] = {NULL};
    int differ = 0;
    cr_assert(begin(&w, dtype));
    if (run(&w, "exact", "", out, 1)) {
        cr_expect_eq(count_wrong(&w, out[0], 1, &differ), 0, "exact");
        stator_tensor_release(out[0]);
        out[0] = NULL;
        cr_assert(run(&w, "fused", "", out, 1));
        cr_expect_eq(count_wrong(&w, out[0], 0, &differ), 0, "fused");
        cr_expect_gt(differ, N / 20, "fused rounds at each op: it is exact");
        stator_tensor_release(out[0]);
    }
    end(&w);
}

Test(numerics, bf16)
{
    check(STATOR_BF16);
}

Test(numerics, f16)
{
    check(STATOR_F16);
}

/* What leaves the kernel is rounded, whoever reads it on. */
Test(numerics, outputs_are_rounded)
{
    world w;
    stator_tensor *out[2] = {NULL, NULL};
    cr_assert(begin(&w, STATOR_BF16));
    if (run(&w, "fused", ", b: %b", out, 2)) {
        for (int i = 0; i < N; i++) {
            const double wide = (double)w.x[i] * w.y[i] + w.x[i];
            const double have = st_load_f64(STATOR_BF16, stator_tensor_data(out[1]), i);
            const double bound = 0x1p-8 * (wide < 0 ? -wide : wide) + 0x1p-20;
            cr_assert(have - wide <= bound && wide - have <= bound, "element %d", i);
        }
        stator_tensor_release(out[0]);
        stator_tensor_release(out[1]);
    }
    end(&w);
}

/* erf(x), and by how many places of f32 it is off at most. */
static float *erf_of(world *w, const char *numerics, const float *x, double *out_ulp)
{
    static const char text[] = "stir 1\n"
                               "graph @m(%x: f32[4099]) {\n"
                               "  %z = erf(%x)\n"
                               "  return z: %z\n"
                               "}\n";
    stator_tensor *out[1] = {NULL};
    float *y = NULL;
    *out_ulp = 0;
    if (run_text(w, numerics, text, 1, out, 1)) {
        y = malloc(N * sizeof *y);
        cr_assert_not_null(y);
        memcpy(y, stator_tensor_data(out[0]), N * sizeof *y);
        stator_tensor_release(out[0]);
    }
    for (int i = 0; y && i < N; i++) {
        const double exact = erf((double)x[i]);
        const float next = nextafterf(fabsf((float)exact), INFINITY);
        const double off = fabs((double)y[i] - exact) / (double)(next - fabsf((float)exact));
        *out_ulp = off > *out_ulp ? off : *out_ulp;
    }
    return y;
}

Test(numerics, erf)
{
    static float x[N];
    const int64_t shape[1] = {N};
    world w = {.ctx = run_context(), .dtype = STATOR_F32};
    double ulp[2] = {0, 0};
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - N / 2) * (4.0f / N) + 0x1p-13f;
    }
    w.in[0] = run_tensor(w.ctx, STATOR_F32, 1, shape, x);
    cr_assert_eq(stator_ctx_scan(w.ctx), STATOR_OK);
    float *exact = erf_of(&w, "exact", x, &ulp[0]);
    float *fused = erf_of(&w, "fused", x, &ulp[1]);
    if (exact) {
        cr_expect_leq(ulp[0], 2.0, "exact: %g ulp", ulp[0]);
        cr_expect_leq(ulp[1], 5.0, "fused: %g ulp", ulp[1]);
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f")) {
            cr_expect(memcmp(exact, fused, sizeof x) != 0, "fused takes no faster way");
        }
    }
    free(exact);
    free(fused);
    stator_tensor_release(w.in[0]);
    stator_ctx_destroy(w.ctx);
}
