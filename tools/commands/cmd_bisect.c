/* stator bisect: which stage of a backend makes a model's answer wrong, which single application,
 * which node. Every run is a child process; see bisect_search.c. */
#include "tools/bisect/bisect_search.h"

/* "" is null. */
static void add_text(cJSON *to, const char *key, const char *text)
{
    cli_json_text(to, key, text != NULL && text[0] != '\0' ? text : NULL);
}

static cJSON *serial_json(const bisect_finding *f)
{
    if (!f->has_serial) {
        return cJSON_CreateNull();
    }
    cJSON *serial = cJSON_CreateObject();
    cJSON_AddNumberToObject(serial, "scope", f->scope);
    cJSON_AddNumberToObject(serial, "n", (double)f->n);
    return serial;
}

static void print_json(const bisect_finding *f)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "found", f->is_found);
    add_text(root, "rung", f->rung);
    add_text(root, "kind", f->kind);
    add_text(root, "backend", f->backend);
    add_text(root, "pass", f->pass);
    add_text(root, "rule", f->rule);
    cJSON_AddItemToObject(root, "serial", serial_json(f));
    add_text(root, "node", f->place.node);
    add_text(root, "value", f->place.name);
    add_text(root, "origin", f->place.origin);
    cJSON_AddItemToObject(root, "max_abs_err",
                          f->has_error ? cli_json_number(f->place.max_abs) : cJSON_CreateNull());
    add_text(root, "message", f->message);
    cJSON_AddBoolToObject(root, "vanishes_when_observed", f->is_hidden);
    cli_print_json(root);
}

static void print_text(const bisect_setup *setup, const bisect_finding *f)
{
    char text[CLI_CLEAN_BYTES], origin[CLI_CLEAN_BYTES];
    if (!f->is_found) {
        (void)printf("%s agrees with %s%s%s\n", setup->bad, setup->good,
                     f->message[0] != '\0' ? "; " : "", cli_clean(f->message, text));
        return;
    }
    (void)printf("%s changes the answer: a %s", f->rung, f->kind);
    if (f->pass[0] != '\0') {
        (void)printf(" in pass '%s'", f->pass);
    }
    if (f->rule[0] != '\0') {
        (void)printf(", rule '%s'", f->rule);
    }
    (void)printf("\n");
    if (f->place.node[0] != '\0') {
        (void)printf("  node   %s%s%s\n", cli_clean(f->place.node, text),
                     f->place.origin[0] != '\0' ? "  from " : "",
                     cli_clean(f->place.origin, origin));
    }
    if (f->place.name[0] != '\0') {
        (void)printf("  value  %s\n", cli_clean(f->place.name, text));
    }
    if (f->has_error) {
        (void)printf("  max abs error %g\n", f->place.max_abs);
    }
    if (f->message[0] != '\0') {
        (void)printf("  %s\n", cli_clean(f->message, text));
    }
    if (f->is_hidden) {
        (void)printf("  the difference vanishes when inner values are observed\n");
    }
    if (f->has_serial) {
        (void)printf("  wrong with STATOR_FUEL=%u:%llu, right with STATOR_FUEL=%u:%llu on backend "
                     "%s\n",
                     f->scope, (unsigned long long)f->n, f->scope, (unsigned long long)(f->n - 1),
                     f->backend);
    }
}

static cli_status run_bisect(bisect_setup *setup)
{
    bisect_finding finding;
    const cli_status status = bisect_search(setup, &finding);
    if (status == CLI_OK && setup->common.json) {
        print_json(&finding);
    } else if (status == CLI_OK) {
        print_text(setup, &finding);
    }
    child_tensors_free(&setup->want);
    return status;
}

cli_status cmd_bisect(int argc, char **argv)
{
    bisect_setup s = {.inputs = {.random = -1},
                      .good = "eager",
                      .timeout_s = 300,
                      .tolerance = ST_TOLERANCE_CHOSEN};
    const cli_option own[] = {
        {"--bad", CLI_TEXT, &s.bad, "BACKEND", "the backend with the wrong answer"},
        {"--good", CLI_TEXT, &s.good, "BACKEND", "the backend to believe (eager)"},
        {"--timeout", CLI_NUMBER, &s.timeout_s, "S", "seconds before a run counts as hung (300)"},
        CLI_END};
    cli_usage usage = {.reads_again = true,
                       .own = own,
                       .tolerance = &s.tolerance,
                       .inputs = &s.inputs,
                       .compile = &s.compile,
                       .common = &s.common};
    CLI_PARSE(&usage, &s.path);
    CLI_MISUSED_IF(s.bad == NULL || s.timeout_s < 1, &usage,
                   "write --bad BACKEND (and --timeout from 1)");
    return run_bisect(&s);
}
