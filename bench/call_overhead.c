/* Cost of calling a compiled one-op graph on a backend, from C: bench/call_overhead [BACKEND].
 *
 * The graph is y = x + x over f32[N]. A bound call is timed for N = 1 and N = 4096, 200,000 calls a
 * round, and the median of 5 rounds printed beside the loop `y[i] = x[i] + x[i]` alone; the
 * difference is what Stator adds. Also counts the host's allocations during the calls, which must
 * be none. */
#define _GNU_SOURCE
#include <stator/inspect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS 200000
#define ROUNDS 5

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

static int fail(stator_ctx *ctx)
{
    (void)fprintf(stderr, "call_overhead: %s\n", stator_ctx_error_text(ctx));
    return 3;
}

static stator_status make_model(stator_ctx *ctx, int64_t n, stator_model **out_model)
{
    const stator_host *host = stator_ctx_host(ctx);
    stator_builder *b = NULL;
    stator_status status = stator_model_begin(ctx, &b);
    if (status != STATOR_OK) {
        return status;
    }
    const stator_ref dim = host->types->sym_int(b, n);
    const stator_ref type = host->types->tensor(b, STATOR_F32, 1, &dim);
    stator_ref x = 0;
    stator_ref y = 0;
    status = host->build->input(b, "x", type, &x, NULL);
    const stator_ref operands[2] = {x, x};
    const stator_node_desc node = {.struct_size = sizeof node,
                                   .op = host->ir->find_op(ctx, "add"),
                                   .operands = operands,
                                   .operand_count = 2};
    if (status == STATOR_OK) {
        status = host->build->node(b, &node, &y, NULL);
    }
    if (status == STATOR_OK) {
        status = host->build->output(b, "y", y, NULL);
    }
    const stator_status finished = stator_model_finish(b, out_model);
    return status != STATOR_OK ? status : finished;
}

__attribute__((noinline)) static void plain_loop(const float *restrict x, float *restrict y,
                                                 int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] + x[i];
    }
    __asm__ volatile("" ::: "memory");
}

static int measure(stator_ctx *ctx, const char *backend, int64_t n)
{
    stator_model *model = NULL;
    stator_function *function = NULL;
    stator_tensor *x = NULL;
    stator_tensor *y = NULL;
    stator_bound_call *call = NULL;
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    if (make_model(ctx, n, &model) != STATOR_OK ||
        stator_compile(model, &options, &function) != STATOR_OK ||
        stator_tensor_create(ctx, STATOR_F32, 1, &n, &x) != STATOR_OK) {
        return fail(ctx);
    }
    memset(stator_tensor_data(x), 0, (size_t)n * sizeof(float));
    if (stator_bind(function, 1, &x, 1, &y, &call) != STATOR_OK) {
        return fail(ctx);
    }
    double ours[ROUNDS];
    double loop[ROUNDS];
    float *out = malloc((size_t)n * sizeof *out);
    const uint64_t before = stator_x_alloc_requests(ctx);
    for (int round = 0; out != NULL && round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < CALLS; i++) {
            if (stator_bound_call_run(call) != STATOR_OK) {
                return fail(ctx);
            }
        }
        ours[round] = (now_ns() - start) / CALLS;
        start = now_ns();
        for (int i = 0; i < CALLS; i++) {
            plain_loop(stator_tensor_data(x), out, n);
        }
        loop[round] = (now_ns() - start) / CALLS;
    }
    const uint64_t allocations = stator_x_alloc_requests(ctx) - before;
    const double a = median(ours);
    const double b = median(loop);
    (void)printf("%s, f32[%lld]: call %.0f ns, loop alone %.0f ns, above it %.0f ns (bound 1000); "
                 "%llu allocations in %d calls\n",
                 backend, (long long)n, a, b, a - b, (unsigned long long)allocations,
                 CALLS * ROUNDS);
    free(out);
    stator_bound_call_destroy(call);
    stator_tensor_release(x);
    stator_tensor_release(y);
    stator_function_destroy(function);
    stator_model_destroy(model);
    return 0;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "eager";
    stator_ctx *ctx = NULL;
    if (stator_ctx_create(NULL, &ctx) != STATOR_OK) {
        return 3;
    }
    int status = measure(ctx, backend, 1);
    if (status == 0) {
        status = measure(ctx, backend, 4096);
    }
    stator_ctx_destroy(ctx);
    return status;
}
