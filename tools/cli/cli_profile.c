/* --profile FILE.json: how long each step of a run took, as a table on stdout and as a trace that
 * Perfetto and chrome://tracing open.
 *
 * In: the context's record of steps. Out: a row a name (total, share, calls), the longest first;
 * the file has an event a step, {"traceEvents": [{name, ph "X", ts, dur (microseconds), pid,
 * tid, args: {kind, nodes, read_bytes, written_bytes, flops, open}}]}. Steps of one name are
 * told apart by their order in a call. */
#define _GNU_SOURCE
#include "tools/explain.h"

#include "core/base/map.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    char *name;
    uint64_t calls, total_ns;
} row;

/* A step as explain describes it. */
typedef struct known_step {
    const cJSON *facts;
    uint64_t key;
    uint32_t next; /* next step of this name, plus 1; the last one's is the first */
} known_step;

struct cli_profile {
    cJSON *facts; /* explain's; NULL: nothing is known */
    known_step *steps;
    uint32_t n_steps;
    st_mem mem;
    st_map next_of; /* key -> place of the step that the next event of the name is, plus 1 */
    st_out_file file;
    uint64_t first_ns, n_events, total_ns;
    row *rows;
    uint32_t n_rows;
    bool failed; /* no memory */
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
        p->failed = true;
        return NULL;
    }
    p->rows[p->n_rows] = (row){.name = copy};
    return &p->rows[p->n_rows++];
}

/* ---- what is known of steps ---- */

static bool add_known(cli_profile *p, const cJSON *facts)
{
    known_step *grown = realloc(p->steps, (p->n_steps + 1u) * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    p->steps = grown;
    const uint64_t key = explain_step_key(explain_text(facts, "name"));
    const uint32_t place = ++p->n_steps;
    known_step *step = &p->steps[place - 1u];
    *step = (known_step){.facts = facts, .key = key, .next = place};
    const uint32_t last = st_map_get(&p->next_of, key); /* while they are added: the last so far */
    if (last != 0) {
        step->next = p->steps[last - 1u].next;
        p->steps[last - 1u].next = place;
    }
    return st_map_put(&p->next_of, key, place);
}

/* The steps of a function that was called. Without them the trace has names and times alone. */
static void know_steps(cli_profile *p, const cli_program *program)
{
    const cJSON *part = NULL;
    const cJSON *step = NULL;
    bool ok = true;
    p->facts = explain_facts(program);
    cJSON_ArrayForEach(part, explain_list(p->facts, "parts"))
    {
        cJSON_ArrayForEach(step, explain_list(part, "steps"))
        {
            ok = ok && add_known(p, step);
        }
    }
    for (uint32_t i = 0; ok && i < p->n_steps; i++) { /* the first step comes first */
        const known_step *last = &p->steps[st_map_get(&p->next_of, p->steps[i].key) - 1u];
        ok = last != &p->steps[i] || st_map_put(&p->next_of, last->key, last->next);
    }
    p->failed |= !ok;
}

static void write_args(cli_profile *p, const char *name)
{
    static const char *const keys[] = {"kind",          "nodes", "read_bytes",
                                       "written_bytes", "flops", "open"};
    const uint64_t key = explain_step_key(name);
    const uint32_t place = st_map_get(&p->next_of, key);
    if (place == 0) {
        return;
    }
    cJSON *args = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cJSON *fact = (cJSON *)(uintptr_t)explain_list(p->steps[place - 1u].facts, keys[i]);
        p->failed |= !cJSON_AddItemReferenceToObject(args, keys[i], fact);
    }
    char *text = cJSON_PrintUnformatted(args);
    if (text != NULL && st_map_put(&p->next_of, key, p->steps[place - 1u].next)) {
        (void)fprintf(p->file.file, ",\"args\":");
        cli_put_utf8(p->file.file, text);
    } else {
        p->failed = true;
    }
    cJSON_free(text);
    cJSON_Delete(args);
}

static void write_event(cli_profile *p, const stator_x_profile_row *event)
{
    cJSON *name = cJSON_CreateString(event->name);
    char *text = name != NULL ? cJSON_PrintUnformatted(name) : NULL;
    if (text == NULL) {
        p->failed = true;
    } else {
        (void)fprintf(p->file.file, "%s\n{\"name\":", p->n_events > 0 ? "," : "");
        cli_put_utf8(p->file.file, text);
        (void)fprintf(p->file.file, ",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":1",
                      ((double)event->begin_ns - (double)p->first_ns) / 1e3,
                      (double)(event->end_ns - event->begin_ns) / 1e3);
        write_args(p, event->name);
        (void)fprintf(p->file.file, "}");
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
    st_mem_init(&p->mem, NULL, NULL, NULL, 0);
    st_map_init(&p->next_of, &p->mem);
    stator_x_profile_start(ctx);
    return p;
}

cli_status cli_profile_stop(cli_profile *p, const cli_program *program, const char *path, int json)
{
    stator_ctx *ctx = program->ctx;
    CLI_NEED(cli_file_open(&p->file, path, json));
    know_steps(p, program);
    (void)fprintf(p->file.file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    const stator_status status = stator_x_profile_stop(ctx, on_event, p);
    (void)fprintf(p->file.file, "\n]}\n");
    CLI_NEED(cli_file_close(&p->file, json));
    if (p->n_rows > 0) {
        qsort(p->rows, p->n_rows, sizeof *p->rows, longest_first);
    }
    CLI_FAIL_IF(p->failed, json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
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
        st_map_deinit(&p->next_of);
        cJSON_Delete(p->facts);
        free(p->steps);
        free(p->rows);
    }
    free(p);
}
