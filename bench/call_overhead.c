/* Cost of calling a compiled one-op graph on a backend, from C: bench/call_overhead [BACKEND].
 *
 * The graph is y = x + x over f32[N]. A bound call is timed for N = 1 and N = 4096, 200,000 calls a
 * round, and the median of 5 rounds printed beside the loop `y[i] = x[i] + x[i]` alone; the
 * difference is what Stator adds. A plain call with 40 inputs f32[1], each written back, is timed
 * too. Also counts the host's allocations during the calls, which must be none. */
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

#define MANY 40

/* y = x0 + x1 + ... of MANY scalars, each of which receives its own negative. */
static stator_status make_many(stator_ctx *ctx, stator_model **out_model)
{
    const stator_host *host = stator_ctx_host(ctx);
    stator_builder *b = NULL;
    stator_status status = stator_model_begin(ctx, &b);
    if (status != STATOR_OK) {
        return status;
    }
    stator_ref x[MANY];
    stator_ref sum[2] = {0, 0};
    stator_ref negative = 0;
    char name[8];
    const stator_ref dim = host->types->sym_int(b, 1);
    const stator_ref type = host->types->tensor(b, STATOR_F32, 1, &dim);
    for (int i = 0; status == STATOR_OK && i < MANY; i++) {
        (void)snprintf(name, sizeof name, "x%d", i);
        status = host->build->input(b, name, type, &x[i], NULL);
    }
    const stator_node_desc add = {.struct_size = sizeof add,
                                  .op = host->ir->find_op(ctx, "add"),
                                  .operands = sum,
                                  .operand_count = 2};
    sum[0] = x[0];
    for (int i = 1; status == STATOR_OK && i < MANY; i++) {
        sum[1] = x[i];
        status = host->build->node(b, &add, &sum[0], NULL);
    }
    for (int i = 0; status == STATOR_OK && i < MANY; i++) {
        const stator_node_desc neg = {.struct_size = sizeof neg,
                                      .op = host->ir->find_op(ctx, "neg"),
                                      .operands = &x[i],
                                      .operand_count = 1};
        status = host->build->node(b, &neg, &negative, NULL);
        if (status == STATOR_OK) {
            status = host->build->write_back(b, x[i], negative, NULL);
        }
    }
    if (status == STATOR_OK) {
        status = host->build->output(b, "y", sum[0], NULL);
    }
    const stator_status finished = stator_model_finish(b, out_model);
    return status != STATOR_OK ? status : finished;
}

static int measure_many(stator_ctx *ctx, const char *backend)
{
    stator_model *model = NULL;
    stator_function *function = NULL;
    stator_tensor *x[MANY] = {NULL};
    stator_tensor *y = NULL;
    const int64_t n = 1;
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    if (make_many(ctx, &model) != STATOR_OK ||
        stator_compile(model, &options, &function) != STATOR_OK) {
        return fail(ctx);
    }
    for (int i = 0; i < MANY; i++) {
        if (stator_tensor_create(ctx, STATOR_F32, 1, &n, &x[i]) != STATOR_OK) {
            return fail(ctx);
        }
        memset(stator_tensor_data(x[i]), 0, sizeof(float));
    }
    if (stator_call_tensors(function, MANY, x, 1, &y) != STATOR_OK) {
        return fail(ctx);
    }
    const int calls = CALLS / 10;
    const uint64_t before = stator_x_alloc_requests(ctx);
    const double start = now_ns();
    for (int i = 0; i < calls; i++) {
        if (stator_call_tensors(function, MANY, x, 1, &y) != STATOR_OK) {
            return fail(ctx);
        }
    }
    (void)printf("%s, %d inputs written back: call %.0f ns; %llu allocations in %d calls\n",
                 backend, MANY, (now_ns() - start) / calls,
                 (unsigned long long)(stator_x_alloc_requests(ctx) - before), calls);
    for (int i = 0; i < MANY; i++) {
        stator_tensor_release(x[i]);
    }
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
    if (status == 0) {
        status = measure_many(ctx, backend);
    }
    stator_ctx_destroy(ctx);
    return status;
}
