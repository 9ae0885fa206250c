/* stator compare: the outputs of two backends, and where they differ the first node at which they
 * part. The first backend is the one believed. Plugins run in this process. */
#include "tools/bisect/bisect_observe.h"

#include <stdlib.h>
#include <string.h>

typedef struct compare {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    st_tolerance tolerance;
    const char *backends;
    char names[2][64];
    stator_ctx *ctx;
    stator_model *model;
    stator_tensor **in;
    uint32_t n_in;
    bisect_results results[2];
    uint32_t n_out; /* results compared: outputs, and inputs that the call wrote */
    st_difference *differences;
    int ok;
    stator_x_place first;
    const char *note; /* NULL, or why `first` is absent */
} compare;

static bool split_backends(compare *c)
{
    const char *comma = c->backends != NULL ? strchr(c->backends, ',') : NULL;
    if (comma == NULL || comma == c->backends || comma[1] == '\0' ||
        strchr(comma + 1, ',') != NULL) {
        return false;
    }
    const int a =
        snprintf(c->names[0], sizeof c->names[0], "%.*s", (int)(comma - c->backends), c->backends);
    const int b = snprintf(c->names[1], sizeof c->names[1], "%s", comma + 1);
    return a < (int)sizeof c->names[0] && b < (int)sizeof c->names[1];
}

static cli_status run_backend(compare *c, uint32_t i)
{
    stator_function *function =
        cli_compile_model(c->ctx, c->model, &c->compile, c->names[i], c->common.json);
    CLI_NEED(function != NULL);
    const uint32_t n_out = stator_model_output_count(c->model);
    const bool ok = bisect_call(function, c->n_in, c->in, n_out, &c->results[i]);
    stator_function_destroy(function);
    return ok ? CLI_OK : cli_fail_ctx(c->ctx, c->common.json);
}

static cli_status compare_outputs(compare *c)
{
    const bisect_results *good = &c->results[0];
    const uint32_t count = good->n_out + good->n_in;
    c->differences = calloc(count + 1u, sizeof *c->differences);
    CLI_FAIL_IF(c->differences == NULL, c->common.json, "RESOURCE_EXHAUSTED", NULL,
                "out of memory");
    c->ok = 1;
    for (uint32_t k = 0; k < count; k++) {
        st_compare(stator_tensor_view(c->results[1].tensors[k]),
                   stator_tensor_view(good->tensors[k]), &c->tolerance, &c->differences[k]);
        c->ok &= c->differences[k].ok;
    }
    return CLI_OK;
}

static void find_first(compare *c)
{
    const bisect_pair pair = {.model = c->model,
                              .in = c->in,
                              .n_in = c->n_in,
                              .good = {.backend = c->names[0], .flags = &c->compile},
                              .bad = {.backend = c->names[1], .flags = &c->compile},
                              .tolerance = c->tolerance};
    bisect_observe(&pair, 0, &c->first);
    if (c->first.is_rounding) {
        c->ok = 1;
        c->note = "only steps of roundings differ: no wrong answer";
    } else if (!c->first.is_found) {
        c->note = "the difference vanishes when inner values are observed; try stator bisect";
    }
}

/* Row k of the results: an output, or an input that the call left different. NULL: nothing to say.
 */
static const char *result_name(const compare *c, uint32_t k, char buffer[32])
{
    stator_port_info port = {.struct_size = sizeof port};
    const uint32_t n_out = c->results[0].n_out;
    if (k < n_out) {
        return cli_output_name(c->model, k, buffer);
    }
    return !c->differences[k].ok && stator_model_input_info(c->model, k - n_out, &port) == STATOR_OK
               ? port.name
               : NULL;
}

static cJSON *first_json(const compare *c)
{
    if (!c->first.is_found) {
        return cJSON_CreateNull();
    }
    cJSON *first = cJSON_CreateObject();
    cJSON_AddStringToObject(first, "node", c->first.node);
    cJSON_AddStringToObject(first, "value", c->first.name);
    cli_json_text(first, "origin", c->first.origin[0] != '\0' ? c->first.origin : NULL);
    cJSON_AddItemToObject(first, "max_abs_err", cli_json_number(c->first.max_abs));
    return first;
}

/* Steps of roundings that the search for the first difference passed over. */
static cJSON *rounding_json(const compare *c)
{
    if (c->first.n_steps == 0) {
        return cJSON_CreateNull();
    }
    cJSON *steps = cJSON_CreateObject();
    cJSON_AddNumberToObject(steps, "values", c->first.n_steps);
    cJSON_AddStringToObject(steps, "node", c->first.step_node);
    cJSON_AddStringToObject(steps, "value", c->first.step_name);
    return steps;
}

static void print_json(const compare *c)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "ok", c->ok);
    cJSON *outputs = cJSON_AddArrayToObject(root, "outputs");
    for (uint32_t k = 0; k < c->results[0].n_out + c->results[0].n_in; k++) {
        char buffer[32];
        const char *name = result_name(c, k, buffer);
        if (name == NULL) {
            continue;
        }
        const st_difference *d = &c->differences[k];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", name);
        cli_json_difference(row, d);
        cJSON_AddItemToArray(outputs, row);
    }
    cJSON_AddItemToObject(root, "first", first_json(c));
    cJSON_AddItemToObject(root, "rounding", rounding_json(c));
    cli_json_text(root, "note", c->note);
    cli_print_json(root);
}

static void print_text(const compare *c)
{
    for (uint32_t k = 0; k < c->results[0].n_out + c->results[0].n_in; k++) {
        char buffer[32];
        char clean[CLI_CLEAN_BYTES];
        const char *name = result_name(c, k, buffer);
        const st_difference *d = &c->differences[k];
        if (name != NULL) {
            (void)printf("%-24s %s%s%s%s%s  max abs error %g, rel %g\n", cli_clean(name, clean),
                         d->ok ? "agrees" : "differs in ", d->ok ? "" : d->reason,
                         d->detail[0] != '\0' ? ": " : "", d->detail,
                         k >= c->results[0].n_out ? " (an input that was written)" : "", d->max_abs,
                         d->max_rel);
        }
    }
    if (c->first.n_steps != 0) {
        char node[CLI_CLEAN_BYTES], name[CLI_CLEAN_BYTES];
        (void)printf("one step of a rounding: node %s, value %s",
                     cli_clean(c->first.step_node, node), cli_clean(c->first.step_name, name));
        (void)printf(c->first.n_steps > 1 ? ", and %u more\n" : "\n", c->first.n_steps - 1u);
    }
    if (c->first.is_found) {
        char node[CLI_CLEAN_BYTES], name[CLI_CLEAN_BYTES], origin[CLI_CLEAN_BYTES];
        (void)printf("first difference: node %s, value %s, max abs error %g%s%s\n",
                     cli_clean(c->first.node, node), cli_clean(c->first.name, name),
                     c->first.max_abs, c->first.origin[0] != '\0' ? ", from " : "",
                     cli_clean(c->first.origin, origin));
    } else if (c->note != NULL) {
        (void)printf("%s\n", c->note);
    }
}

static cli_status run_compare(compare *c, const char *path)
{
    CLI_TRY(cli_open_model(&c->common, path, &c->ctx, &c->model));
    CLI_NEED(cli_load_inputs(c->ctx, c->model, &c->inputs, c->common.json, &c->in, &c->n_in));
    CLI_TRY(run_backend(c, 0));
    CLI_TRY(run_backend(c, 1));
    CLI_TRY(compare_outputs(c));
    if (!c->ok) {
        find_first(c);
    }
    if (c->common.json) {
        print_json(c);
    } else {
        print_text(c);
    }
    return c->ok ? CLI_OK : CLI_WRONG;
}

cli_status cmd_compare(int argc, char **argv)
{
    compare c = {.inputs = {.random = -1}, .tolerance = ST_TOLERANCE_CHOSEN};
    const cli_option own[] = {
        {"--backends", CLI_TEXT, &c.backends, "A,B", "the backends; A is believed"}, CLI_END};
    cli_usage usage = {.own = own,
                       .tolerance = &c.tolerance,
                       .inputs = &c.inputs,
                       .compile = &c.compile,
                       .common = &c.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    CLI_MISUSED_IF(!split_backends(&c), &usage, "write --backends A,B");
    const cli_status status = run_compare(&c, path);
    bisect_results_free(&c.results[0]);
    bisect_results_free(&c.results[1]);
    free(c.differences);
    cli_free_inputs(c.in, c.n_in);
    stator_model_destroy(c.model);
    stator_ctx_destroy(c.ctx);
    return status;
}
