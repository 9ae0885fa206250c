/* --profile FILE.json: how long each step of a run took, as a table on stdout and as a trace that
 * Perfetto and chrome://tracing open.
 *
 * In: the context's record of steps. Out: a row a name (total, share, calls), the longest first;
 * the file has an event a step, {"traceEvents": [{name, ph "X", ts, dur (microseconds), pid,
 * tid}]}. */
#define _GNU_SOURCE
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    char *name;
    uint64_t calls, total_ns;
} row;

struct cli_profile {
    cli_file file;
    uint64_t first_ns, n_events, total_ns;
    row *rows;
    uint32_t n_rows;
    int failed; /* no memory */
};

static row *row_of(cli_profile *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (strcmp(p->rows[i].name, name) == 0) {
            return &p->rows[i];
        }
    }
    row *grown = realloc(p->rows, (p->n_rows + 1u) * sizeof *grown);
    char *copy = grown != NULL ? strdup(name) : NULL;
    p->rows = grown != NULL ? grown : p->rows;
    if (copy == NULL) {
        p->failed = 1;
        return NULL;
    }
    p->rows[p->n_rows] = (row){.name = copy};
    return &p->rows[p->n_rows++];
}

static void write_event(cli_profile *p, const stator_x_profile_row *event)
{
    cJSON *name = cJSON_CreateString(event->name);
    char *text = name != NULL ? cJSON_PrintUnformatted(name) : NULL;
    if (text == NULL) {
        p->failed = 1;
    } else {
        (void)fprintf(p->file.file, "%s\n{\"name\":", p->n_events > 0 ? "," : "");
        cli_put_utf8(p->file.file, text);
        (void)fprintf(p->file.file, ",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":1}",
                      ((double)event->begin_ns - (double)p->first_ns) / 1e3,
                      (double)(event->end_ns - event->begin_ns) / 1e3);
    }
    cJSON_free(text);
    cJSON_Delete(name);
}

static void on_event(void *self, const stator_x_profile_row *event)
{
    cli_profile *p = self;
    row *r = row_of(p, event->name);
    p->first_ns = p->n_events == 0 ? event->begin_ns : p->first_ns;
    write_event(p, event);
    p->n_events++;
    if (r != NULL) {
        r->calls++;
        r->total_ns += event->end_ns - event->begin_ns;
        p->total_ns += event->end_ns - event->begin_ns;
    }
}

static int longest_first(const void *a_, const void *b_)
{
    const row *a = a_;
    const row *b = b_;
    return a->total_ns != b->total_ns ? (a->total_ns < b->total_ns ? 1 : -1)
                                      : strcmp(a->name, b->name);
}

cli_profile *cli_profile_start(stator_ctx *ctx, const char *path, int json)
{
    cli_profile *p = calloc(1, sizeof *p);
    if (p == NULL) {
        (void)cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
        return NULL;
    }
    if (!cli_file_check(path, json)) {
        free(p);
        return NULL;
    }
    stator_x_profile_start(ctx);
    return p;
}

int cli_profile_stop(cli_profile *p, stator_ctx *ctx, const char *path, int json)
{
    if (!cli_file_open(&p->file, path, json)) {
        return CLI_FAILED;
    }
    (void)fprintf(p->file.file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    const stator_status status = stator_x_profile_stop(ctx, on_event, p);
    (void)fprintf(p->file.file, "\n]}\n");
    if (!cli_file_close(&p->file, json)) {
        return CLI_FAILED;
    }
    if (p->n_rows > 0) {
        qsort(p->rows, p->n_rows, sizeof *p->rows, longest_first);
    }
    if (p->failed) {
        return cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    }
    if (status != STATOR_OK) {
        (void)fprintf(stderr, "stator: warning: %s\n", stator_ctx_error_text(ctx));
    }
    return CLI_OK;
}

static double share_of(const cli_profile *p, const row *r)
{
    return p->total_ns > 0 ? (double)r->total_ns / (double)p->total_ns : 0.0;
}

void cli_profile_print(const cli_profile *p)
{
    (void)printf("%12s %7s %8s  %s\n", "total ms", "share", "calls", "step");
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const row *r = &p->rows[i];
        (void)printf("%12.3f %6.1f%% %8llu  ", (double)r->total_ns / 1e6, 100.0 * share_of(p, r),
                     (unsigned long long)r->calls);
        cli_put(stdout, r->name);
        (void)printf("\n");
    }
    (void)printf("%12.3f  in all\n", (double)p->total_ns / 1e6);
}

cJSON *cli_profile_json(const cli_profile *p)
{
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const row *r = &p->rows[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "step", r->name);
        cJSON_AddNumberToObject(item, "calls", (double)r->calls);
        cJSON_AddNumberToObject(item, "total_ms", (double)r->total_ns / 1e6);
        cJSON_AddNumberToObject(item, "share", share_of(p, r));
        cJSON_AddItemToArray(rows, item);
    }
    return rows;
}

void cli_profile_free(cli_profile *p)
{
    for (uint32_t i = 0; p != NULL && i < p->n_rows; i++) {
        free(p->rows[i].name);
    }
    if (p != NULL) {
        free(p->rows);
    }
    free(p);
}
