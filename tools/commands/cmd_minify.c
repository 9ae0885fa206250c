/* stator minify: the smallest program that still fails as a model does on a backend, in a folder of
 * its own. Every run is a child process; see minify.h. */
#include "tools/minify/minify.h"

#include "core/base/str.h"

#include <stdlib.h>

static const char *failure_of(const minify_outcome *o)
{
    return o->verdict == BISECT_DIFFERS ? "differs"
           : o->verdict == BISECT_FAILS ? "fails"
                                        : "crashes";
}

/* ---- what is said ---- */

static void print_agrees(const minify *m)
{
    if (!m->setup.common.json) {
        const char *note = m->whole.error.message;
        (void)printf("%s agrees with %s%s%s; nothing was written\n", m->setup.bad, m->setup.good,
                     note[0] != '\0' ? "; " : "", note);
        return;
    }
    static const char *const absent[] = {"failure", "code",  "message", "max_abs_err",
                                         "nodes",   "ops",   "inputs",  "note",
                                         "folder",  "files", "repeat"};
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "found", 0);
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        cJSON_AddNullToObject(root, absent[i]);
    }
    cJSON_AddNumberToObject(root, "trials", m->trials);
    cJSON_AddBoolToObject(root, "is_smallest", 0);
    cli_print_json(root);
}

/* Nodes of the program that is written. */
static uint32_t ops_left(const minify *m)
{
    return m->best.is_whole ? m->graph.n_ops : m->best.n_ops;
}

static const char *inputs_of(const minify *m)
{
    return m->best.is_random && m->best.n_inputs > 0 ? "random"
           : minify_has_inputs(m)                    ? "kept"
                                                     : "none";
}

static cJSON *ops_json(const minify *m)
{
    cJSON *ops = cJSON_CreateArray();
    for (stator_ref node = 1; m->best.is_whole && node <= m->graph.n_nodes; node++) {
        if (minify_is_op(&m->graph, node)) {
            cJSON_AddItemToArray(ops, cJSON_CreateString(m->graph.nodes[node].op));
        }
    }
    for (uint32_t k = 0; k < m->best.n_nodes; k++) {
        if (minify_is_op(&m->graph, m->best.nodes[k])) {
            cJSON_AddItemToArray(ops, cJSON_CreateString(m->graph.nodes[m->best.nodes[k]].op));
        }
    }
    return ops;
}

static void print_json(const minify *m, const char *const *files, const char *repeat)
{
    const bool is_dead = m->whole.verdict != BISECT_DIFFERS;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "found", 1);
    cJSON_AddStringToObject(root, "failure", failure_of(&m->whole));
    cli_json_text(root, "code", is_dead ? m->last.error.code : NULL);
    cli_json_text(root, "message", is_dead ? m->last.error.message : NULL);
    cJSON_AddItemToObject(root, "max_abs_err",
                          is_dead ? cJSON_CreateNull() : cli_json_number(m->last.max_abs));
    cJSON *nodes = cJSON_AddObjectToObject(root, "nodes");
    cJSON_AddNumberToObject(nodes, "before", m->graph.n_ops);
    cJSON_AddNumberToObject(nodes, "after", ops_left(m));
    cJSON_AddItemToObject(root, "ops", ops_json(m));
    cJSON_AddStringToObject(root, "inputs", inputs_of(m));
    cJSON_AddNumberToObject(root, "trials", m->trials);
    cJSON_AddBoolToObject(root, "is_smallest", !m->is_capped && !m->best.is_whole);
    cli_json_text(root, "note", m->note[0] != '\0' ? m->note : NULL);
    cJSON_AddStringToObject(root, "folder", m->folder);
    cJSON *list = cJSON_AddArrayToObject(root, "files");
    for (uint32_t i = 0; files[i] != NULL; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateString(files[i]));
    }
    cJSON_AddStringToObject(root, "repeat", repeat);
    cli_print_json(root);
}

#define SHOWN_OPS 12u

static void print_text(const minify *m, const char *const *files, const char *repeat)
{
    char text[CLI_CLEAN_BYTES];
    const uint32_t left = ops_left(m);
    if (m->whole.verdict == BISECT_DIFFERS) {
        (void)printf("%s differs from %s: max abs error %g\n", m->setup.bad, m->setup.good,
                     m->last.max_abs);
    } else {
        (void)printf("%s %s: %s: ", m->setup.bad, failure_of(&m->whole), m->last.error.code);
        cli_put_lines(stdout, m->last.error.message);
        (void)printf("\n");
    }
    (void)printf("  %u of %u nodes after %u trials", left, m->graph.n_ops, m->trials);
    cJSON *ops = ops_json(m);
    for (uint32_t i = 0; i < left && i < SHOWN_OPS; i++) {
        (void)printf("%s%s", i == 0 ? ": " : ", ",
                     cli_clean(cJSON_GetArrayItem(ops, (int)i)->valuestring, text));
    }
    cJSON_Delete(ops);
    (void)printf("%s\n", left > SHOWN_OPS ? ", ..." : "");
    if (m->note[0] != '\0') {
        (void)printf("  %s\n", m->note);
    }
    (void)printf("  %s:", cli_clean(m->folder, text));
    for (uint32_t i = 0; files[i] != NULL; i++) {
        (void)printf(" %s", files[i]);
    }
    (void)printf("\n  repeat: ");
    cli_put_lines(stdout, repeat); /* whole: it is there to be run */
    (void)printf("\n");
}

static cli_status report(const minify *m, const char *const *files)
{
    st_mem mem;
    st_str repeat;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&repeat, &mem);
    minify_command(m, m->folder, &repeat);
    const bool ok = st_str_ok(&repeat);
    if (!ok) {
        (void)cli_fail(m->setup.common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    } else if (m->setup.common.json) {
        print_json(m, files, repeat.data);
    } else {
        print_text(m, files, repeat.data);
    }
    st_str_deinit(&repeat);
    return ok ? CLI_OK : CLI_FAILED;
}

/* ---- the steps ---- */

static cli_status fail_with(const minify *m, const child_error *e)
{
    return cli_fail(m->setup.common.json, e->code, e->hint[0] != '\0' ? e->hint : NULL, "%s",
                    e->message);
}

/* Runs the whole model: m->whole. */
static cli_status run_whole(minify *m)
{
    const minify_cut whole = {.is_whole = true};
    const minify_job job = {.task = MINIFY_TRIAL, .setup = &m->setup, .cut = &whole};
    child c;
    const bool ok = minify_child(m, &job, &c, &m->whole);
    child_close(&c);
    m->trials++;
    CLI_NEED(ok);
    if (m->whole.verdict == BISECT_REFUSED) {
        return fail_with(m, &m->whole.error);
    }
    return m->whole.is_good_done
               ? CLI_OK
               : cli_fail(m->setup.common.json, m->whole.error.code, "choose another --good",
                          "the good backend '%s' itself fails: %s", m->setup.good,
                          m->whole.error.message);
}

/* The graph and the inputs. */
static cli_status take_survey(minify *m)
{
    const minify_job job = {.task = MINIFY_SURVEY, .setup = &m->setup};
    minify_outcome outcome;
    child c;
    cli_status status = CLI_OK;
    if (!minify_child(m, &job, &c, &outcome)) {
        status = CLI_FAILED;
    } else if (outcome.verdict != BISECT_AGREES) {
        status = fail_with(m, &outcome.error);
    } else if (!minify_graph_map(c.files[CHILD_LIST], &m->graph) || !minify_record_begin(m, &c)) {
        status = cli_fail(m->setup.common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    }
    child_close(&c);
    return status;
}

static cli_status run_minify(minify *m)
{
    const char *files[8];
    CLI_NEED(minify_folder_check(m->folder, m->setup.common.json));
    CLI_TRY(run_whole(m));
    if (m->whole.verdict == BISECT_AGREES) {
        print_agrees(m);
        return CLI_OK;
    }
    CLI_TRY(take_survey(m));
    minify_search(m);
    if (!m->is_broken) {
        minify_simplify(m);
    }
    CLI_NEED(!m->is_broken);
    if (m->is_capped) {
        minify_add_note(m, "so many trials are the limit; there may be a smaller one");
    }
    CLI_TRY(minify_write(m, files));
    return report(m, files);
}

static void free_minify(minify *m)
{
    minify_cut_free(&m->best);
    minify_cut_free(&m->exact);
    minify_record_free(&m->record);
    minify_graph_free(&m->graph);
    free(m->seen);
}

cli_status cmd_minify(int argc, char **argv)
{
    minify m = {.setup = {.inputs = {.random = -1},
                          .good = "eager",
                          .timeout_s = 300,
                          .tolerance = ST_TOLERANCE_CHOSEN},
                .best = {.is_whole = true}};
    bisect_setup *s = &m.setup;
    const cli_option own[] = {
        {"--bad", CLI_TEXT, &s->bad, "BACKEND", "the backend that fails or gives a wrong answer"},
        {"--good", CLI_TEXT, &s->good, "BACKEND", "the backend to believe (eager)"},
        {"--output", CLI_TEXT, &m.folder, "DIR", "a new folder for what is found (-o)"},
        {"--timeout", CLI_NUMBER, &s->timeout_s, "S", "seconds before a run counts as hung (300)"},
        CLI_END};
    cli_usage usage = {.reads_again = true,
                       .own = own,
                       .tolerance = &s->tolerance,
                       .inputs = &s->inputs,
                       .compile = &s->compile,
                       .common = &s->common};
    CLI_PARSE(&usage, &s->path);
    CLI_MISUSED_IF(s->bad == NULL || m.folder == NULL || m.folder[0] == '\0' || s->timeout_s < 1,
                   &usage, "write --bad BACKEND and -o DIR (and --timeout from 1)");
    const cli_status status = run_minify(&m);
    free_minify(&m);
    return status;
}
