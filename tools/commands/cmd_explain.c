/* stator explain: what a model becomes on a backend, without running it: what inputs it is for,
 * which parts run where, what was left to another backend and why, what each part takes of memory
 * and the steps of a call. The program is compiled anew: one from the cache knows less of itself.
 */
#include "tools/explain.h"

#include <string.h>

#define NODES_SHOWN 6 /* nodes printed for a step; JSON has all */

typedef struct explain {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    cli_program p;
} explain;

/* ---- the facts as text ---- */

/* What goes from one memory to another, and for whom. */
static void print_copies(const cJSON *facts)
{
    const cJSON *copies = explain_list(facts, "copies");
    const cJSON *row = NULL;
    char value[CLI_CLEAN_BYTES], node[CLI_CLEAN_BYTES];
    if (cJSON_GetArraySize(copies) != 0) {
        (void)printf("copied between memories, unless it lies there:\n");
    }
    cJSON_ArrayForEach(row, copies)
    {
        const char *name = cli_clean(explain_text(row, "value"), value);
        const char *reader = cli_clean(explain_text(row, "node"), node);
        (void)printf("  %s from %s to %s for %s%s%s%s%s%s\n", name[0] != '\0' ? name : "an input",
                     explain_text(row, "from"), explain_text(row, "to"),
                     explain_text(row, "backend"), explain_text(row, "op")[0] != '\0' ? ": " : "",
                     explain_text(row, "op"), reader[0] != '\0' ? " '" : "", reader,
                     reader[0] != '\0' ? "'" : "");
    }
}

/* The inputs that the program is for, and the backend. */
static void print_program(const explain *e, const cJSON *facts)
{
    const cJSON *fallback_nodes = explain_list(facts, "fallback_nodes");
    const cJSON *row = NULL;
    char name[CLI_CLEAN_BYTES], text[CLI_CLEAN_BYTES];
    cli_print_coverage(e->p.function);
    if (cJSON_GetArraySize(fallback_nodes) != 0) {
        (void)printf("left to another backend:\n");
    }
    cJSON_ArrayForEach(row, fallback_nodes)
    {
        const char *first = cli_clean(explain_text(row, "first"), name);
        const bool has_others = explain_number(row, "nodes") > 1;
        (void)printf("  %.0f %s%s%s%s: %s\n", explain_number(row, "nodes"), explain_text(row, "op"),
                     first[0] != '\0' ? " '" : "", first,
                     first[0] == '\0' ? ""
                     : has_others     ? "' and others"
                                      : "'",
                     cli_clean(explain_text(row, "reason"), text));
    }
    print_copies(facts);
    (void)printf("the program is for calls in which:\n");
    cJSON_ArrayForEach(row, explain_list(facts, "guards"))
    {
        const bool is_need = strcmp(explain_text(row, "kind"), "need") == 0;
        (void)printf("  %s%s%s\n", cli_clean(explain_text(row, "name"), name),
                     is_need ? "refused when " : " is ",
                     cli_clean(explain_text(row, "text"), text));
    }
}

static void print_parts(const cJSON *facts)
{
    static const struct {
        const char *key, *heading;
    } columns[] = {{"result_bytes", "results"},  {"workspace_bytes", "workspace"},
                   {"scratch_bytes", "scratch"}, {"constant_bytes", "constants"},
                   {"packed_bytes", "packed"},   {"winograd_bytes", "of it Winograd"}};
    const cJSON *sum = explain_list(facts, "memory");
    const cJSON *part = NULL;
    (void)printf("%-12s %-14s", "part", "backend");
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        (void)printf(" %14s", columns[c].heading);
    }
    (void)printf("\n");
    cJSON_ArrayForEach(part, explain_list(facts, "parts"))
    {
        (void)printf("%-12s %-14s", explain_text(part, "name"), explain_text(part, "backend"));
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            (void)printf(" %14.0f", explain_number(part, columns[c].key));
        }
        (void)printf("\n");
    }
    (void)printf("a call takes %.0f bytes of workspace, %.0f of outputs, %.0f of scratch; kept are "
                 "%.0f of constants and %.0f of packed weights\n",
                 explain_number(sum, "workspace_bytes"), explain_number(sum, "output_bytes"),
                 explain_number(sum, "scratch_bytes"), explain_number(sum, "constant_bytes"),
                 explain_number(sum, "packed_bytes"));
}

/* "602112+": and more, of sizes known only at call time. */
static void print_bytes(int is_open, double read, double written)
{
    const char *more = is_open ? "+" : " ";
    (void)printf("%14.0f%s%14.0f%s ", read, more, written, more);
}

static void print_nodes(const cJSON *nodes)
{
    const cJSON *node = NULL;
    char clean[CLI_CLEAN_BYTES];
    int n = 0;
    cJSON_ArrayForEach(node, nodes)
    {
        if (n++ < NODES_SHOWN) {
            (void)printf("%s%s", n == 1 ? "                               = " : ", ",
                         cli_clean(node->valuestring, clean));
        }
    }
    if (n > NODES_SHOWN) {
        (void)printf(" and %d more", n - NODES_SHOWN);
    }
    (void)printf("%s", n != 0 ? "\n" : "");
}

static void print_steps(const cJSON *part)
{
    const cJSON *step = NULL;
    char clean[CLI_CLEAN_BYTES];
    int n = 0, n_others = 0, is_open = 0;
    double read = 0, written = 0;
    (void)printf("\n%14s %14s  steps of %s on %s\n", "reads", "writes", explain_text(part, "name"),
                 explain_text(part, "backend"));
    cJSON_ArrayForEach(step, explain_list(part, "steps"))
    {
        const int step_open = cJSON_IsTrue(explain_list(step, "open"));
        print_bytes(step_open, explain_number(step, "read_bytes"),
                    explain_number(step, "written_bytes"));
        const char *only = explain_text(step, "only");
        (void)printf("%*s%-8s %s%s%s\n", (int)explain_number(step, "depth") * 2, "",
                     explain_text(step, "kind"), cli_clean(explain_text(step, "name"), clean),
                     only[0] != '\0' ? ", " : "", only);
        if (strcmp(explain_text(step, "kind"), "node") != 0) { /* a node's step has its name */
            print_nodes(explain_list(step, "nodes"));
        }
        if (only[0] != '\0') {
            n_others++; /* no step of a call that writes in place and goes well */
            continue;
        }
        n++;
        is_open |= step_open;
        read += explain_number(step, "read_bytes");
        written += explain_number(step, "written_bytes");
    }
    if (n == 0) {
        (void)printf("%14s %14s  not reported\n", "", "");
    } else {
        print_bytes(is_open, read, written);
        (void)printf("in %d step%s%s\n", n, n == 1 ? "" : "s",
                     n_others != 0 ? " of a call that writes in place" : "");
    }
}

static void print_text(const explain *e, const cJSON *facts)
{
    const cJSON *part = NULL;
    print_program(e, facts);
    print_parts(facts);
    cJSON_ArrayForEach(part, explain_list(facts, "parts"))
    {
        print_steps(part);
    }
}

static cli_status explain_model(explain *e, const char *path)
{
    const cli_program_flags flags = {&e->common, &e->inputs, &e->compile, e->compile.backend};
    CLI_TRY(cli_program_open(&e->p, &flags, path));
    CLI_TRY_CTX(e->p.ctx, e->common.json, stator_x_prepare(e->p.function, e->p.n_in, e->p.in));
    cJSON *facts = explain_facts(&e->p);
    ST_FAIL_BY_IF(cli_fail_ctx, facts == NULL, e->p.ctx, e->common.json);
    if (e->common.json) {
        cli_print_json(facts);
    } else {
        print_text(e, facts);
        cJSON_Delete(facts);
    }
    return CLI_OK;
}

cli_status cmd_explain(int argc, char **argv)
{
    explain e = {.inputs = {.random = -1}, .compile = {.compile_flags = STATOR_COMPILE_NO_CACHE}};
    cli_usage usage = {.inputs = &e.inputs,
                       .backend = &e.compile.backend,
                       .compile = &e.compile,
                       .common = &e.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    const cli_status status = explain_model(&e, path);
    cli_program_close(&e.p);
    return status;
}
