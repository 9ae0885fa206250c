/* stator bench: one model on several backends, side by side: compile time, first call, median of
 * calls taken in turn (A B A B ...), memory. */
#include "cli.h"

#include "core/base/threads.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BACKENDS 8u

typedef struct lane { /* one backend */
    char name[64];
    stator_ctx *ctx; /* its own, so that memory is counted apart */
    stator_model *model;
    stator_function *function;
    stator_tensor **in;
    stator_tensor **out;
    uint32_t n_in, n_out;
    double compile_ms, first_ms;
    double *times;
    uint64_t peak_bytes;
} lane;

typedef struct bench {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    const char *backends;
    int64_t rounds;
    lane lanes[MAX_BACKENDS];
    uint32_t count;
} bench;

static double ms_since(uint64_t start)
{
    return (double)(st_now_ns() - start) / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static int open_lane(bench *b, lane *l, const char *path)
{
    if (cli_open(&b->common, &l->ctx) != STATOR_OK ||
        stator_model_load(l->ctx, path, NULL, &l->model) != STATOR_OK) {
        return cli_fail_ctx(l->ctx, b->common.json);
    }
    l->function = cli_compile_model(l->ctx, l->model, &b->compile, l->name, b->common.json);
    if (l->function == NULL ||
        !cli_load_inputs(l->ctx, l->model, &b->inputs, b->common.json, &l->in, &l->n_in)) {
        return CLI_FAILED;
    }
    l->n_out = stator_model_output_count(l->model);
    l->out = calloc(l->n_out + 1u, sizeof(stator_tensor *));
    l->times = calloc((size_t)b->rounds, sizeof *l->times);
    if (l->out == NULL || l->times == NULL) {
        return cli_fail(b->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    }
    const uint64_t start = st_now_ns();
    if (stator_call_tensors(l->function, l->n_in, l->in, l->n_out, l->out) != STATOR_OK) {
        return cli_fail_ctx(l->ctx, b->common.json);
    }
    l->first_ms = ms_since(start);
    l->compile_ms = (double)stator_function_compile_ns(l->function) / 1e6;
    return CLI_OK;
}

static void close_lane(lane *l)
{
    cli_free_inputs(l->in, l->n_in);
    cli_free_inputs(l->out, l->n_out);
    free(l->times);
    stator_function_destroy(l->function);
    stator_model_destroy(l->model);
    stator_ctx_destroy(l->ctx);
}

static int run_rounds(bench *b)
{
    for (int64_t round = 0; round < b->rounds; round++) {
        for (uint32_t i = 0; i < b->count; i++) {
            lane *l = &b->lanes[i];
            const uint64_t start = st_now_ns();
            if (stator_call_tensors(l->function, l->n_in, l->in, l->n_out, l->out) != STATOR_OK) {
                return cli_fail_ctx(l->ctx, b->common.json);
            }
            l->times[round] = ms_since(start);
        }
    }
    return CLI_OK;
}

static void report(bench *b)
{
    cJSON *array = cJSON_CreateArray();
    if (!b->common.json) {
        (void)printf("%-16s %12s %12s %12s %12s %14s\n", "backend", "compile ms", "first ms",
                     "median ms", "min ms", "peak bytes");
    }
    for (uint32_t i = 0; i < b->count; i++) {
        lane *l = &b->lanes[i];
        stator_mem_stats stats = {.struct_size = sizeof stats};
        stator_ctx_mem_stats(l->ctx, &stats);
        qsort(l->times, (size_t)b->rounds, sizeof *l->times, by_value);
        const double median = l->times[b->rounds / 2];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "backend", l->name);
        cJSON_AddNumberToObject(row, "compile_ms", l->compile_ms);
        cJSON_AddNumberToObject(row, "first_ms", l->first_ms);
        cJSON_AddNumberToObject(row, "median_ms", median);
        cJSON_AddNumberToObject(row, "min_ms", l->times[0]);
        cJSON_AddNumberToObject(row, "peak_bytes", (double)stats.peak_bytes);
        cJSON_AddItemToArray(array, row);
        if (!b->common.json) {
            (void)printf("%-16s %12.3f %12.3f %12.3f %12.3f %14llu\n", l->name, l->compile_ms,
                         l->first_ms, median, l->times[0], (unsigned long long)stats.peak_bytes);
        }
    }
    if (b->common.json) {
        cli_print_json(array);
    } else {
        cJSON_Delete(array);
    }
}

static int split_backends(bench *b)
{
    const char *at = b->backends;
    while (at != NULL && *at != '\0' && b->count < MAX_BACKENDS) {
        const size_t n = strcspn(at, ",");
        (void)snprintf(b->lanes[b->count++].name, sizeof b->lanes[0].name, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
    }
    return b->count > 0;
}

int cmd_bench(int argc, char **argv)
{
    bench b = {.rounds = 10, .inputs = {.random = -1}};
    const cli_option own[] = {
        {"--backends", CLI_TEXT, &b.backends, "A,B", "the backends to time"},
        {"--rounds", CLI_NUMBER, &b.rounds, "N", "calls of each backend (10)"},
        {NULL, 0, NULL, NULL, NULL}};
    const cli_option inputs[] = {CLI_INPUT_ROWS(&b.inputs)};
    const cli_option compile[] = {CLI_COMPILE_ROWS(&b.compile)};
    const cli_option common[] = {CLI_COMMON_ROWS(&b.common)};
    const cli_option *const tables[] = {own, inputs, compile, common, NULL};
    const cli_usage usage = {.command = "bench",
                             .positional = "MODEL",
                             .summary = "Times a model on several backends, in turn.",
                             .tables = tables};
    const char *path = NULL;
    uint32_t n = 0;
    int status = cli_parse(&usage, argc, argv, &path, 1, &n);
    if (status >= 0) {
        return status;
    }
    if (!split_backends(&b) || b.rounds < 1 || b.rounds > 1000000) {
        (void)fprintf(stderr, "stator bench: write --backends A,B and --rounds from 1\n");
        return CLI_USAGE;
    }
    status = CLI_OK;
    for (uint32_t i = 0; status == CLI_OK && i < b.count; i++) {
        status = open_lane(&b, &b.lanes[i], path);
    }
    if (status == CLI_OK) {
        status = run_rounds(&b);
    }
    if (status == CLI_OK) {
        report(&b);
    }
    for (uint32_t i = 0; i < b.count; i++) {
        close_lane(&b.lanes[i]);
    }
    return status;
}
