/* stator report: one page about a model on a backend, to be sent to somebody: what explain tells,
 * how long each step of a call takes, and a picture of the graph. The page refers to nothing
 * outside itself and runs no script.
 *
 * In: explain's facts as JSON and the times of some calls. Out: an HTML file; every text of a model
 * is escaped. */
#define _GNU_SOURCE
#include "tools/draw/draw.h"
#include "tools/explain.h"

#include "core/base/map.h"
#include "core/base/threads/threads.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define NODES_DRAWN 300u /* a larger graph takes long to place, and nobody sees anything in it */
#define NODES_SHOWN 12   /* nodes shown for a step */
#define LONGEST_SHOWN 20 /* steps by time */

typedef struct step_time {
    uint64_t ns;
    uint16_t is_shown;  /* in the row of the first step of this name */
    uint16_t is_listed; /* among the steps by time */
} step_time;

typedef struct report {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    cli_program p;
    const char *output;
    int64_t repeat;
    st_out_file file;
    st_mem mem;
    st_map place_of;  /* hash of a step's name -> place in times + 1 */
    step_time *times; /* times of all timed calls, by the step's name */
    uint32_t n_times;
    uint64_t total_ns;
    double *calls_ms;
    char logs[512]; /* channels to listen to */
    cli_list hints; /* lines of perf_hints, each once */
} report;

/* A step of the program and its time in the timed calls. */
typedef struct timed_step {
    const cJSON *facts;
    uint64_t ns;
} timed_step;

/* ---- text ---- */

/* A model's words in a page: markup as entities, control characters as \xNN, U+FFFD for what is no
 * UTF-8. */
static void put(const report *r, const char *text)
{
    static const char *const entities[256] = {
        ['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;", ['\''] = "&#39;"};
    char clean[CLI_CLEAN_BYTES];
    char escaped[6 * CLI_CLEAN_BYTES];
    size_t n = 0;
    for (const char *p = cli_clean(text, clean); *p != '\0'; p++) {
        const char *entity = entities[(unsigned char)*p];
        n += (size_t)snprintf(escaped + n, sizeof escaped - n, entity != NULL ? "%s" : "%.1s",
                              entity != NULL ? entity : p);
    }
    escaped[n] = '\0';
    cli_put_utf8(r->file.file, escaped);
}

static void row_head(const report *r, const char *name)
{
    (void)fprintf(r->file.file, "<tr><th>%s<td>", name);
}

/* "1.5 MiB" */
static void put_bytes(const report *r, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    uint32_t unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    (void)fprintf(r->file.file, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

/* ---- hints ---- */

/* Lines of perf_hints go to the page, all others where they always go. */
static void take_line(void *self, const char *channel, uint32_t level, const char *text)
{
    report *r = self;
    if (strcmp(channel, "perf_hints") != 0) {
        cli_log(NULL, channel, level, text);
        return;
    }
    for (uint32_t i = 0; i < r->hints.count; i++) {
        if (strcmp(r->hints.items[i], text) == 0) {
            return;
        }
    }
    char *copy = r->hints.count < CLI_OPTIONS_MAX ? strdup(text) : NULL;
    if (copy != NULL) {
        r->hints.items[r->hints.count++] = copy;
    }
}

static void put_hints(const report *r)
{
    if (r->hints.count == 0) {
        return;
    }
    (void)fprintf(r->file.file, "<h2>Hints</h2>\n<ul>\n");
    for (uint32_t i = 0; i < r->hints.count; i++) {
        for (const char *line = r->hints.items[i]; *line != '\0';) { /* a text may have many */
            char one[CLI_CLEAN_BYTES];
            const size_t n = strcspn(line, "\n");
            (void)snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1),
                           line);
            (void)fprintf(r->file.file, "<li>");
            put(r, one);
            (void)fprintf(r->file.file, "\n");
            line += n + (line[n] == '\n');
        }
    }
    (void)fprintf(r->file.file, "</ul>\n");
}

/* ---- times ---- */

static void take_time(void *self, const stator_x_profile_row *event)
{
    report *r = self;
    const uint64_t key = explain_step_key(event->name);
    uint32_t place = st_map_get(&r->place_of, key);
    if (place == 0) {
        step_time *grown = realloc(r->times, (r->n_times + 1u) * sizeof *grown);
        if (grown == NULL || !st_map_put(&r->place_of, key, r->n_times + 1u)) {
            r->times = grown != NULL ? grown : r->times;
            return;
        }
        r->times = grown;
        r->times[r->n_times++] = (step_time){.ns = 0};
        place = r->n_times;
    }
    r->times[place - 1u].ns += event->end_ns - event->begin_ns;
    r->total_ns += event->end_ns - event->begin_ns;
}

/* The first call makes ready and is not timed. */
static stator_status time_calls(report *r)
{
    const uint32_t n_out = stator_model_output_count(r->p.model);
    stator_tensor **out = calloc(n_out + (size_t)1, sizeof(stator_tensor *));
    r->calls_ms = calloc((size_t)r->repeat, sizeof *r->calls_ms);
    stator_status status =
        out == NULL || r->calls_ms == NULL ? STATOR_RESOURCE_EXHAUSTED : STATOR_OK;
    for (int64_t i = -1; status == STATOR_OK && i < r->repeat; i++) {
        if (i == 0) {
            stator_x_profile_start(r->p.ctx);
        }
        const uint64_t begin = st_now_ns();
        status = stator_call_tensors(r->p.function, r->p.n_in, r->p.in, n_out, out);
        if (i >= 0) {
            r->calls_ms[i] = cli_ms_since(begin);
        }
    }
    if (status == STATOR_OK) {
        status = stator_x_profile_stop(r->p.ctx, take_time, r);
        cli_sort(r->calls_ms, (size_t)r->repeat);
    }
    cli_free_inputs(out, n_out);
    return status;
}

/* ---- the page ---- */

static void put_head(const report *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    (void)fprintf(r->file.file,
                  "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<title>");
    put(r, name);
    (void)fprintf(
        r->file.file,
        "</title>\n<style>\n"
        ":root{color-scheme:light dark}\n"
        "body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 "
        "1rem}\n"
        "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\n"
        "table{border-collapse:collapse;width:100%%}\n"
        "th,td{text-align:left;vertical-align:top;padding:.2rem .6rem;border-bottom:1px solid "
        "#8884}\n"
        "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
        "code{font-size:.9em;overflow-wrap:anywhere}small{opacity:.75;overflow-wrap:anywhere}\n"
        "meter{width:6rem}svg{max-width:100%%;height:auto;background:#fff}\n"
        "td,li,h1,h2{overflow-wrap:anywhere}td.s{padding-left:calc(.6rem + var(--d)*1.5rem)}\n"
        /* a narrow screen: a row is a block, its numbers a line with what they are */
        "@media(max-width:40rem){table.steps tr.h{display:none}\n"
        "table.steps tr{display:block;border-bottom:1px solid #8884;padding:.3rem 0}\n"
        "table.steps td{display:inline-block;border:0;padding:.1rem .5rem .1rem 0}\n"
        "table.steps td.s{display:block;padding-left:calc(min(var(--d),6)*.8rem)}\n"
        "table.steps td.n::before{content:attr(data-h) ' ';opacity:.7}}\n"
        "</style>\n<h1>");
    put(r, name);
    (void)fprintf(r->file.file, "</h1>\n");
}

/* The processor as Linux names it, "" unknown. */
static void read_processor(char out[128])
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    out[0] = '\0';
    while (file != NULL && out[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            (void)snprintf(out, 128, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
                           strchr(line, ':') + 2);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void put_coverage(const report *r, const cJSON *facts)
{
    const cJSON *coverage = explain_list(facts, "coverage");
    const cJSON *backend = NULL;
    const char *comma = "";
    row_head(r, "nodes");
    cJSON_ArrayForEach(backend, explain_list(coverage, "by_backend"))
    {
        (void)fprintf(r->file.file, "%s%.0f on ", comma, backend->valuedouble);
        put(r, backend->string);
        comma = ", ";
    }
    (void)fprintf(r->file.file, "\n");
}

static void put_summary(const report *r, const cJSON *facts)
{
    const cJSON *memory = explain_list(facts, "memory");
    char processor[128];
    struct utsname system;
    FILE *f = r->file.file;
    read_processor(processor);
    (void)fprintf(f, "<table>\n");
    put_coverage(r, facts);
    row_head(r, "compile");
    (void)fprintf(f, "%.1f ms, nothing from the cache\n", explain_number(facts, "compile_ms"));
    if (r->repeat > 0) {
        row_head(r, "a call");
        (void)fprintf(f, "%.3f ms, the median of %lld; the least %.3f\n",
                      r->calls_ms[r->repeat / 2], (long long)r->repeat, r->calls_ms[0]);
    }
    row_head(r, "memory of a call");
    put_bytes(r, explain_number(memory, "workspace_bytes"));
    (void)fprintf(f, " of workspace, ");
    put_bytes(r, explain_number(memory, "output_bytes"));
    (void)fprintf(f, " of outputs, ");
    put_bytes(r, explain_number(memory, "scratch_bytes"));
    (void)fprintf(f, " of scratch\n");
    row_head(r, "kept");
    put_bytes(r, explain_number(memory, "constant_bytes"));
    (void)fprintf(f, " of constants, ");
    put_bytes(r, explain_number(memory, "packed_bytes"));
    (void)fprintf(f, " of packed weights\n");
    row_head(r, "made by");
    (void)fprintf(f, "Stator %s", stator_version());
    if (uname(&system) == 0) {
        (void)fprintf(f, " on ");
        put(r, system.sysname);
        (void)fprintf(f, " ");
        put(r, system.machine);
    }
    (void)fprintf(f, "%s", processor[0] != '\0' ? ", " : "");
    put(r, processor);
    (void)fprintf(f, "\n</table>\n");
}

static void put_fallback_nodes(const report *r, const cJSON *facts)
{
    const cJSON *rows = explain_list(facts, "fallback_nodes");
    const cJSON *row = NULL;
    if (cJSON_GetArraySize(rows) == 0) {
        return;
    }
    (void)fprintf(r->file.file, "<h2>Left to another backend</h2>\n<table>\n"
                                "<tr><th class=\"n\">nodes<th>op<th>first<th>reason\n");
    cJSON_ArrayForEach(row, rows)
    {
        (void)fprintf(r->file.file, "<tr><td class=\"n\">%.0f<td>", explain_number(row, "nodes"));
        put(r, explain_text(row, "op"));
        (void)fprintf(r->file.file, "<td><code>");
        put(r, explain_text(row, "first"));
        (void)fprintf(r->file.file, "</code><td>");
        put(r, explain_text(row, "reason"));
        (void)fprintf(r->file.file, "\n");
    }
    (void)fprintf(r->file.file, "</table>\n");
}

static void put_guards(const report *r, const cJSON *facts)
{
    const cJSON *row = NULL;
    (void)fprintf(r->file.file, "<h2>Calls that the program is for</h2>\n<table>\n");
    cJSON_ArrayForEach(row, explain_list(facts, "guards"))
    {
        const char *kind = explain_text(row, "kind");
        (void)fprintf(r->file.file, "<tr><td>%s<td><code>",
                      strcmp(kind, "need") == 0 ? "refused when" : kind);
        put(r, explain_text(row, "name"));
        (void)fprintf(r->file.file, "</code><td>");
        put(r, explain_text(row, "text"));
        (void)fprintf(r->file.file, "\n");
    }
    (void)fprintf(r->file.file, "</table>\n");
}

/* ---- steps ---- */

static void put_nodes(const report *r, const cJSON *step)
{
    const cJSON *nodes = explain_list(step, "nodes");
    const cJSON *node = NULL;
    const bool is_named = strcmp(explain_text(step, "kind"), "node") == 0; /* by its own name */
    const int n = is_named ? 0 : cJSON_GetArraySize(nodes);
    int i = 0;
    cJSON_ArrayForEach(node, nodes)
    {
        if (i < NODES_SHOWN && !is_named) {
            (void)fprintf(r->file.file, "%s", i == 0 ? "<br><small>" : ", ");
            put(r, node->valuestring);
        }
        i++;
    }
    if (n > NODES_SHOWN) {
        (void)fprintf(r->file.file, " and %d more", n - NODES_SHOWN);
    }
    (void)fprintf(r->file.file, "%s\n", n > 0 ? "</small>" : "");
}

/* Steps of one name have their time together, in the row of the first; those of a loop's body have
 * none of their own. */
static void put_time(report *r, const char *name)
{
    const uint32_t place = r->repeat > 0 ? st_map_get(&r->place_of, explain_step_key(name)) : 0;
    step_time *time = place != 0 ? &r->times[place - 1u] : NULL;
    if (r->repeat == 0) {
        return;
    }
    if (time == NULL || time->is_shown) {
        (void)fprintf(r->file.file, "<td class=\"n\" data-h=\"time\">%s<td>",
                      time != NULL ? "as above" : "-");
        return;
    }
    time->is_shown = 1;
    (void)fprintf(r->file.file,
                  "<td class=\"n\" data-h=\"ms a call\">%.3f<td><meter value=\"%.4f\"></meter>",
                  (double)time->ns / 1e6 / (double)r->repeat,
                  r->total_ns > 0 ? (double)time->ns / (double)r->total_ns : 0.0);
}

static void put_step(report *r, const cJSON *step)
{
    const char *more = cJSON_IsTrue(explain_list(step, "open")) ? " +" : "";
    (void)fprintf(r->file.file, "<tr><td>%s<td class=\"s\" style=\"--d:%.0f\"><code>",
                  explain_text(step, "kind"), explain_number(step, "depth"));
    put(r, explain_text(step, "name"));
    (void)fprintf(r->file.file, "</code>");
    put_nodes(r, step);
    (void)fprintf(r->file.file, "<td class=\"n\" data-h=\"reads\">");
    put_bytes(r, explain_number(step, "read_bytes"));
    (void)fprintf(r->file.file, "%s<td class=\"n\" data-h=\"writes\">", more);
    put_bytes(r, explain_number(step, "written_bytes"));
    (void)fprintf(r->file.file, "%s", more);
    put_time(r, explain_text(step, "name"));
    (void)fprintf(r->file.file, "\n");
}

static int longest_first(const void *a_, const void *b_)
{
    const timed_step *a = a_;
    const timed_step *b = b_;
    return (a->ns < b->ns) - (a->ns > b->ns);
}

/* The steps that have a time, those of one name once; their number, at most n_times. */
static uint32_t list_timed(report *r, const cJSON *facts, timed_step *out)
{
    const cJSON *part = NULL, *step = NULL;
    uint32_t n = 0;
    cJSON_ArrayForEach(part, explain_list(facts, "parts"))
    {
        cJSON_ArrayForEach(step, explain_list(part, "steps"))
        {
            const uint32_t place =
                st_map_get(&r->place_of, explain_step_key(explain_text(step, "name")));
            if (place != 0 && !r->times[place - 1u].is_listed) {
                r->times[place - 1u].is_listed = 1;
                out[n++] = (timed_step){step, r->times[place - 1u].ns};
            }
        }
    }
    return n;
}

static void put_longest(report *r, const cJSON *facts)
{
    timed_step *steps = calloc(r->n_times + (size_t)1, sizeof *steps);
    uint64_t sum = 0;
    FILE *f = r->file.file;
    const uint32_t n = steps != NULL && r->repeat > 0 ? list_timed(r, facts, steps) : 0;
    if (n == 0) {
        free(steps);
        return;
    }
    qsort(steps, n, sizeof *steps, longest_first);
    (void)fprintf(f,
                  "<h2>Steps by time</h2>\n<table class=\"steps\">\n<tr class=\"h\"><th "
                  "class=\"n\">ms a call<th class=\"n\">share<th class=\"n\">together<th>step\n");
    for (uint32_t i = 0; i < n && i < LONGEST_SHOWN; i++) {
        const double total = r->total_ns > 0 ? (double)r->total_ns : 1;
        sum += steps[i].ns;
        (void)fprintf(f,
                      "<tr><td class=\"n\" data-h=\"ms a call\">%.3f<td class=\"n\" "
                      "data-h=\"share\">%.1f %%<td class=\"n\" data-h=\"together\">%.1f %%<td "
                      "class=\"s\" style=\"--d:0\"><code>",
                      (double)steps[i].ns / 1e6 / (double)r->repeat,
                      100 * (double)steps[i].ns / total, 100 * (double)sum / total);
        put(r, explain_text(steps[i].facts, "name"));
        (void)fprintf(f, "</code>");
        put_nodes(r, steps[i].facts);
    }
    (void)fprintf(f, "</table>\n%s",
                  n > LONGEST_SHOWN ? "<p>The others are shorter; all are below.\n" : "");
    free(steps);
}

static void put_parts(report *r, const cJSON *facts)
{
    const cJSON *part = NULL;
    cJSON_ArrayForEach(part, explain_list(facts, "parts"))
    {
        const cJSON *steps = explain_list(part, "steps");
        const cJSON *step = NULL;
        (void)fprintf(r->file.file, "<h2>Steps of %s on ", explain_text(part, "name"));
        put(r, explain_text(part, "backend"));
        (void)fprintf(r->file.file, "</h2>\n");
        if (cJSON_GetArraySize(steps) == 0) {
            (void)fprintf(r->file.file, "<p>The backend does not tell them.\n");
            continue;
        }
        (void)fprintf(r->file.file,
                      "<table class=\"steps\">\n<tr class=\"h\"><th>kind<th>step, and the nodes it "
                      "computes<th class=\"n\">reads"
                      "<th class=\"n\">writes%s\n",
                      r->repeat > 0 ? "<th class=\"n\">ms a call<th>share" : "");
        cJSON_ArrayForEach(step, steps)
        {
            put_step(r, step);
        }
        (void)fprintf(r->file.file, "</table>\n");
    }
}

/* ---- the picture ---- */

static void put_picture(report *r, const char *path)
{
    const stator_graph *graph = stator_model_graph(r->p.model);
    const stator_host *host = stator_ctx_host(r->p.ctx);
    const uint32_t n = graph != NULL ? host->ir->view(graph)->n_nodes : 0;
    draw_picture picture = {.bytes = NULL};
    st_str dot;
    FILE *f = r->file.file;
    (void)fprintf(f, "<h2>The graph</h2>\n");
    if (n == 0 || n > NODES_DRAWN) {
        (void)fprintf(f, "<p>%u nodes%s.\n", n, n > 0 ? ": `stator draw` draws them" : "");
        return;
    }
    st_str_init(&dot, &r->mem);
    draw_graph(&dot, host, graph, path);
    if (st_str_ok(&dot) && draw_render(dot.data, "svg", &picture)) {
        const char *svg = picture.size > 0 ? strstr(picture.bytes, "<svg") : NULL;
        (void)fprintf(f, "<details open><summary>%u nodes</summary>\n", n);
        (void)fwrite(svg != NULL ? svg : "", 1,
                     svg != NULL ? picture.size - (size_t)(svg - picture.bytes) : 0, f);
        (void)fprintf(f, "</details>\n");
        draw_picture_free(&picture);
    } else {
        (void)fprintf(f, "<p>Not drawn: ");
        put(r, picture.why);
        (void)fprintf(f, "\n");
    }
    st_str_deinit(&dot);
}

/* ---- the command ---- */

static cli_status write_page(report *r, const char *path, const cJSON *facts)
{
    const char *slash = strrchr(path, '/');
    CLI_NEED(cli_file_open(&r->file, r->output, r->common.json));
    put_head(r, path);
    put_summary(r, facts);
    put_fallback_nodes(r, facts);
    put_hints(r);
    put_longest(r, facts);
    put_guards(r, facts);
    put_parts(r, facts);
    put_picture(r, slash != NULL ? slash + 1 : path);
    (void)fprintf(r->file.file, "</html>\n");
    return cli_file_close(&r->file, r->common.json) ? CLI_OK : CLI_FAILED;
}

static void say_file(const report *r)
{
    if (r->common.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "file", r->output);
        cli_print_json(root);
    }
}

static cli_status make_report(report *r, const char *path)
{
    const cli_program_flags flags = {&r->common, &r->inputs, &r->compile, r->compile.backend};
    CLI_NEED(cli_file_check(r->output, r->common.json));
    CLI_TRY(cli_program_open(&r->p, &flags, path));
    if (stator_x_prepare(r->p.function, r->p.n_in, r->p.in) != STATOR_OK ||
        (r->repeat > 0 && time_calls(r) != STATOR_OK)) {
        return cli_fail_ctx(r->p.ctx, r->common.json);
    }
    cJSON *facts = explain_facts(&r->p);
    ST_FAIL_BY_IF(cli_fail_ctx, facts == NULL, r->p.ctx, r->common.json);
    const cli_status status = write_page(r, path, facts);
    cJSON_Delete(facts);
    if (status == CLI_OK) {
        say_file(r);
    }
    return status;
}

cli_status cmd_report(int argc, char **argv)
{
    report r = {.inputs = {.random = -1},
                .compile = {.compile_flags = STATOR_COMPILE_NO_CACHE},
                .repeat = 10};
    const cli_option own[] = {
        {"--output", CLI_TEXT, &r.output, "FILE.html", "the page (-o)"},
        {"--repeat", CLI_NUMBER, &r.repeat, "N", "calls that are timed (10); 0: nothing runs"},
        CLI_END};
    cli_usage usage = {.own = own,
                       .inputs = &r.inputs,
                       .backend = &r.compile.backend,
                       .compile = &r.compile,
                       .common = &r.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    CLI_MISUSED_IF(r.output == NULL, &usage, "-o FILE.html is missing");
    (void)snprintf(r.logs, sizeof r.logs, "perf_hints%s%s", r.common.logs != NULL ? "," : "",
                   r.common.logs != NULL ? r.common.logs : "");
    r.common.logs = r.logs;
    r.common.log = take_line;
    r.common.log_self = &r;
    st_mem_init(&r.mem, NULL, NULL, NULL, 0);
    st_map_init(&r.place_of, &r.mem);
    const cli_status status = make_report(&r, path);
    st_map_deinit(&r.place_of);
    free(r.times);
    free(r.calls_ms);
    cli_program_close(&r.p);
    for (uint32_t i = 0; i < r.hints.count; i++) {
        free((void *)(uintptr_t)r.hints.items[i]);
    }
    return status;
}
