/* How the time to divide and compile a graph grows with its length: bench/partition_scale [NODES].
 *
 * The graph is a chain of NODES unary ops (default 20,000) that two backends share in turn, so that
 * each node is a partition of its own: the worst case for the partitioner and for the launch. Run
 * for a quarter, a half and all of the nodes; near-linear growth shows in the time a node. Needs
 * the test backend: STATOR_PLUGIN_PATH=<build>/tests/plugins. */
#define _GNU_SOURCE
#include <stator/inspect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int fail(stator_ctx *ctx)
{
    (void)fprintf(stderr, "partition_scale: %s\n", stator_ctx_error_text(ctx));
    return 3;
}

static stator_status make_chain(stator_ctx *ctx, uint32_t n_nodes, stator_model **out_model)
{
    const stator_host *host = stator_ctx_host(ctx);
    static const char *const ops[] = {"sin", "cos", "atan"};
    stator_builder *b = NULL;
    stator_status status = stator_model_begin(ctx, &b);
    if (status != STATOR_OK) {
        return status;
    }
    const stator_ref dim = host->types->sym_int(b, 8);
    stator_ref x = 0;
    status = host->build->input(b, "x", host->types->tensor(b, STATOR_F32, 1, &dim), &x, NULL);
    for (uint32_t i = 0; status == STATOR_OK && i < n_nodes; i++) {
        const stator_node_desc node = {.struct_size = sizeof node,
                                       .op = host->ir->find_op(ctx, ops[i % 3]),
                                       .operands = &x,
                                       .operand_count = 1};
        status = host->build->node(b, &node, &x, NULL);
    }
    if (status == STATOR_OK) {
        status = host->build->output(b, "y", x, NULL);
    }
    const stator_status finished = stator_model_finish(b, out_model);
    return status != STATOR_OK ? status : finished;
}

static int measure(stator_ctx *ctx, uint32_t n_nodes)
{
    static const char *const keys[] = {"every"};
    static const char *const values[] = {"2"};
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "divided",
                                            .option_count = 1,
                                            .option_keys = keys,
                                            .option_values = values};
    const int64_t shape = 8;
    stator_model *model = NULL;
    stator_function *function = NULL;
    stator_tensor *x = NULL;
    stator_tensor *y = NULL;
    if (make_chain(ctx, n_nodes, &model) != STATOR_OK ||
        stator_compile(model, &options, &function) != STATOR_OK ||
        stator_tensor_create(ctx, STATOR_F32, 1, &shape, &x) != STATOR_OK) {
        return fail(ctx);
    }
    memset(stator_tensor_data(x), 0, (size_t)shape * sizeof(float));
    double start = now_ms();
    if (stator_x_prepare(function, 1, &x) != STATOR_OK) {
        return fail(ctx);
    }
    const double compile = now_ms() - start;
    if (stator_call_tensors(function, 1, &x, 1, &y) != STATOR_OK) {
        return fail(ctx);
    }
    start = now_ms();
    if (stator_call_tensors(function, 1, &x, 1, &y) != STATOR_OK) {
        return fail(ctx);
    }
    const double call = now_ms() - start;
    stator_coverage rows[2] = {{.backend = ""}, {.backend = ""}};
    (void)stator_function_coverage(function, 2, rows);
    (void)printf("%u nodes in %u partitions: compile %.1f ms (%.2f us a node), call %.3f ms (%.2f "
                 "us a node)\n",
                 n_nodes, rows[0].partitions + rows[1].partitions, compile, compile * 1e3 / n_nodes,
                 call, call * 1e3 / n_nodes);
    stator_tensor_release(x);
    stator_tensor_release(y);
    stator_function_destroy(function);
    stator_model_destroy(model);
    return 0;
}

int main(int argc, char **argv)
{
    const uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
    stator_ctx *ctx = NULL;
    if (stator_ctx_create(NULL, &ctx) != STATOR_OK) {
        return 3;
    }
    int status = 0;
    for (uint32_t part = 4; part >= 1 && status == 0; part /= 2) {
        status = measure(ctx, n / part);
    }
    stator_ctx_destroy(ctx);
    return status;
}
