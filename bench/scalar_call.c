/* What a call costs: sin(x) + cos(x) of one number, 100,000 calls from C, backends side by side.
 *
 *     scalar_call [--json] [BACKEND...]        without names: every backend there is
 *
 * Two ways of calling: a bound call, and stator_call_tensors with a new output each time. Both
 * check the guards (dtype, shape, where the data lie) at every call. The median of 5 rounds is
 * printed in nanoseconds, beside sinf + cosf of the C library in a loop, which is the floor; the
 * bound of a compiling backend's bound call is 500. A wrong result is an error, not a time. */
#define _GNU_SOURCE
#include <stator/inspect.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS 100000
#define ROUNDS 5
#define BACKENDS_MAX 32
#define BOUND_NS 500

static const char program[] = "stir 1\n"
                              "graph @sin_scalar(%x: f32[]) {\n"
                              "  %s = sin(%x)\n"
                              "  %c = cos(%x)\n"
                              "  %y = add(%s, %c)\n"
                              "  return y: %y\n"
                              "}\n";

typedef struct subject {
    stator_model *model;
    stator_function *function;
    stator_tensor *x, *y;
    stator_bound_call *call;
} subject;

static double now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static stator_status prepare(stator_ctx *ctx, const char *backend, float x, subject *s)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    stator_status status = stator_model_load_bytes(ctx, program, sizeof program - 1,
                                                   "sin_scalar.stir", NULL, &s->model);
    if (status == STATOR_OK) {
        status = stator_compile(s->model, &options, &s->function);
    }
    if (status == STATOR_OK) {
        status = stator_tensor_create(ctx, STATOR_F32, 0, NULL, &s->x);
    }
    if (status == STATOR_OK) {
        memcpy(stator_tensor_data(s->x), &x, sizeof x);
        status = stator_bind(s->function, 1, &s->x, 1, &s->y, &s->call);
    }
    return status;
}

static void dispose(subject *s)
{
    stator_bound_call_destroy(s->call);
    stator_tensor_release(s->x);
    stator_tensor_release(s->y);
    stator_function_destroy(s->function);
    stator_model_destroy(s->model);
}

static stator_status time_bound(const subject *s, double *out_ns)
{
    stator_status status = STATOR_OK;
    const double start = now_ns();
    for (int i = 0; i < CALLS && status == STATOR_OK; i++) {
        status = stator_bound_call_run(s->call);
    }
    *out_ns = (now_ns() - start) / CALLS;
    return status;
}

static stator_status time_new(const subject *s, double *out_ns)
{
    stator_status status = STATOR_OK;
    const double start = now_ns();
    for (int i = 0; i < CALLS && status == STATOR_OK; i++) {
        stator_tensor *x = s->x;
        stator_tensor *y = NULL;
        status = stator_call_tensors(s->function, 1, &x, 1, &y);
        stator_tensor_release(y);
    }
    *out_ns = (now_ns() - start) / CALLS;
    return status;
}

static double time_libm(float x)
{
    volatile float in = x;
    volatile float out = 0;
    const double start = now_ns();
    for (int i = 0; i < CALLS; i++) {
        out = sinf(in) + cosf(in);
    }
    (void)out;
    return (now_ns() - start) / CALLS;
}

static int measure(stator_ctx *ctx, const char *backend, int json)
{
    const float x = 1.0f;
    double bound[ROUNDS];
    double fresh[ROUNDS];
    double libm[ROUNDS];
    subject s = {0};
    stator_status status = prepare(ctx, backend, x, &s);
    const uint64_t before = stator_x_alloc_requests(ctx);
    for (int i = 0; i < ROUNDS && status == STATOR_OK; i++) {
        status = time_bound(&s, &bound[i]);
        libm[i] = time_libm(x);
    }
    const uint64_t allocations = stator_x_alloc_requests(ctx) - before;
    for (int i = 0; i < ROUNDS && status == STATOR_OK; i++) {
        status = time_new(&s, &fresh[i]);
    }
    float y = 0;
    if (status == STATOR_OK) {
        memcpy(&y, stator_tensor_data(s.y), sizeof y);
    }
    const int right = status == STATOR_OK && fabsf(y - (sinf(x) + cosf(x))) <= 4e-7f;
    if (!right) {
        (void)fprintf(stderr, "scalar_call: %s: %s\n", backend,
                      status == STATOR_OK ? "wrong result" : stator_ctx_error_text(ctx));
    } else {
        (void)printf(json ? "{\"backend\": \"%s\", \"bound_ns\": %.1f, \"new_output_ns\": %.1f, "
                            "\"libm_ns\": %.1f, \"allocations\": %llu, \"bound\": %d}\n"
                          : "%-16s bound call %6.0f ns, new output %6.0f ns, sinf + cosf alone "
                            "%4.0f ns; %llu allocations in the bound calls (bound %d ns)\n",
                     backend, median(bound), median(fresh), median(libm),
                     (unsigned long long)allocations, BOUND_NS);
    }
    dispose(&s);
    return right ? 0 : 3;
}

/* Names of the available backends; they live as long as the context. */
static int find_backends(stator_ctx *ctx, const char *names[BACKENDS_MAX])
{
    int n = 0;
    if (stator_ctx_scan(ctx) != STATOR_OK) {
        return 0;
    }
    for (uint32_t i = 0; i < stator_ctx_item_count(ctx) && n < BACKENDS_MAX; i++) {
        stator_item_info item = {.struct_size = sizeof item};
        if (stator_ctx_item_info(ctx, i, &item) == STATOR_OK && strcmp(item.kind, "backend") == 0 &&
            item.shadowed_by == NULL && stator_ctx_item_probe(ctx, i) == STATOR_OK &&
            stator_ctx_item_info(ctx, i, &item) == STATOR_OK &&
            strcmp(item.state, "AVAILABLE") == 0) {
            names[n++] = item.name;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *names[BACKENDS_MAX];
    int n = 0;
    int json = 0;
    for (int i = 1; i < argc && n < BACKENDS_MAX; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = 1;
        } else {
            names[n++] = argv[i];
        }
    }
    stator_ctx *ctx = NULL;
    if (stator_ctx_create(NULL, &ctx) != STATOR_OK) {
        return 3;
    }
    n = n > 0 ? n : find_backends(ctx, names);
    int status = n > 0 ? 0 : 3;
    for (int i = 0; i < n; i++) {
        const int got = measure(ctx, names[i], json);
        status = got != 0 ? got : status;
    }
    stator_ctx_destroy(ctx);
    return status;
}
