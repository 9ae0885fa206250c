/* stator bench: one model on several backends, side by side: compile time, first call, median of
 * calls taken in turn (A B A B ...), memory. */
#include "tools/cli/cli.h"

#include "core/base/threads/threads.h"

#include <stdlib.h>
#include <string.h>

#define BACKENDS_MAX 8u

typedef struct lane { /* one backend */
    char name[64];
    cli_program p; /* a program with a context of its own, so that memory is counted apart */
    stator_tensor **out;
    uint32_t n_out;
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
    lane lanes[BACKENDS_MAX];
    uint32_t count;
} bench;

static cli_status open_lane(bench *b, lane *l, const char *path)
{
    const cli_program_flags flags = {&b->common, &b->inputs, &b->compile, l->name};
    CLI_TRY(cli_program_open(&l->p, &flags, path));
    l->n_out = stator_model_output_count(l->p.model);
    l->out = calloc(l->n_out + 1u, sizeof(stator_tensor *));
    l->times = calloc((size_t)b->rounds, sizeof *l->times);
    CLI_FAIL_IF(l->out == NULL || l->times == NULL, b->common.json, "RESOURCE_EXHAUSTED", NULL,
                "out of memory");
    const uint64_t start = st_now_ns();
    CLI_TRY_CTX(l->p.ctx, b->common.json,
                stator_call_tensors(l->p.function, l->p.n_in, l->p.in, l->n_out, l->out));
    l->first_ms = cli_ms_since(start);
    l->compile_ms = (double)stator_function_compile_ns(l->p.function) / 1e6;
    return CLI_OK;
}

static void close_lane(lane *l)
{
    cli_free_inputs(l->out, l->n_out);
    free(l->times);
    cli_program_close(&l->p);
}

static cli_status run_rounds(bench *b)
{
    for (int64_t round = 0; round < b->rounds; round++) {
        for (uint32_t i = 0; i < b->count; i++) {
            lane *l = &b->lanes[i];
            const uint64_t start = st_now_ns();
            CLI_TRY_CTX(l->p.ctx, b->common.json,
                        stator_call_tensors(l->p.function, l->p.n_in, l->p.in, l->n_out, l->out));
            l->times[round] = cli_ms_since(start);
        }
    }
    return CLI_OK;
}

/* The backend that ran: "eager" in a word, or with counts when other backends ran fallback
 * nodes. */
static void print_coverage(const lane *l)
{
    stator_coverage rows[CLI_COVERAGE_MAX];
    const uint32_t n = cli_coverage(l->p.function, rows);
    for (uint32_t i = 0; i < n; i++) {
        (void)printf("%s%s %u", i > 0 ? ", " : "", rows[i].backend, rows[i].nodes);
    }
    (void)printf("\n");
}

static cJSON *lane_json(const lane *l, double median, uint64_t peak_bytes)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "backend", l->name);
    cJSON_AddNumberToObject(row, "compile_ms", l->compile_ms);
    cJSON_AddNumberToObject(row, "first_ms", l->first_ms);
    cJSON_AddNumberToObject(row, "median_ms", median);
    cJSON_AddNumberToObject(row, "min_ms", l->times[0]);
    cJSON_AddNumberToObject(row, "peak_bytes", (double)peak_bytes);
    cJSON_AddItemToObject(row, "coverage", cli_json_coverage(l->p.function));
    return row;
}

static void report(bench *b)
{
    cJSON *array = cJSON_CreateArray();
    if (!b->common.json) {
        (void)printf("%-16s %12s %12s %12s %12s %14s  %s\n", "backend", "compile ms", "first ms",
                     "median ms", "min ms", "peak bytes", "nodes on");
    }
    for (uint32_t i = 0; i < b->count; i++) {
        lane *l = &b->lanes[i];
        stator_mem_stats stats = {.struct_size = sizeof stats};
        stator_ctx_mem_stats(l->p.ctx, &stats);
        cli_sort(l->times, (size_t)b->rounds);
        const double median = l->times[b->rounds / 2];
        if (b->common.json) {
            cJSON_AddItemToArray(array, lane_json(l, median, stats.peak_bytes));
        } else {
            (void)printf("%-16s %12.3f %12.3f %12.3f %12.3f %14llu  ", l->name, l->compile_ms,
                         l->first_ms, median, l->times[0], (unsigned long long)stats.peak_bytes);
            print_coverage(l);
        }
    }
    if (b->common.json) {
        cli_print_json(array);
    } else {
        cJSON_Delete(array);
    }
}

/* 1 when it is a list of names that all fit. */
static bool split_backends(bench *b)
{
    const char *at = b->backends;
    while (at != NULL) {
        const size_t n = strcspn(at, ",");
        if (b->count == BACKENDS_MAX || n == 0 || n >= sizeof b->lanes[0].name) {
            return false;
        }
        (void)snprintf(b->lanes[b->count++].name, sizeof b->lanes[0].name, "%.*s", (int)n, at);
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return b->count > 0;
}

cli_status cmd_bench(int argc, char **argv)
{
    bench b = {.rounds = 10, .inputs = {.random = -1}};
    const cli_option own[] = {
        {"--backends", CLI_TEXT, &b.backends, "A,B", "the backends to time"},
        {"--rounds", CLI_NUMBER, &b.rounds, "N", "calls of each backend (10)"},
        CLI_END};
    cli_usage usage = {.own = own, .inputs = &b.inputs, .compile = &b.compile, .common = &b.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    CLI_MISUSED_IF(!split_backends(&b) || b.rounds < 1 || b.rounds > 1000000, &usage,
                   "write --backends A,B (at most %u) and --rounds from 1 to 1000000",
                   BACKENDS_MAX);
    cli_status status = CLI_OK;
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
