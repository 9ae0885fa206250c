/* stator print and stator opt: graphs as text, at any stage of a backend's pipeline or after passes
 * of one's choice. What is printed can be parsed again. */
#include "tools/cli/cli.h"

static cli_status write_model(const cli_graph *g, const char *output)
{
    cJSON *root = g->common.json ? cJSON_CreateObject() : NULL;
    const cli_status status = cli_graph_write(g, output, root);
    if (status == CLI_OK && root != NULL) {
        cli_graph_print_json(g, root);
    } else {
        cJSON_Delete(root);
    }
    return status;
}

cli_status cmd_print(int argc, char **argv)
{
    cli_graph g = {.inputs = {.random = -1}, .is_tidy = true};
    const char *output = NULL;
    const cli_option own[] = {
        {"--output", CLI_TEXT, &output, "FILE", "write FILE.stir (and .blob) or FILE.stirb (-o)"},
        CLI_END};
    cli_usage usage = {.own = own, .stage = &g.stage, .inputs = &g.inputs, .common = &g.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    cli_status status = cli_graph_open(&g, path);
    if (status == CLI_OK) {
        status = write_model(&g, output);
    }
    cli_graph_close(&g);
    return status;
}

/* ---- opt ---- */

static cli_status run_passes(cli_graph *g, const cli_list *passes, const cli_list *options,
                             int verify)
{
    cli_options_room room;
    CLI_NEED(cli_split_options(options, g->common.json, &room));
    for (uint32_t i = 0; i < passes->count; i++) {
        stator_model *next = NULL;
        if (stator_x_run_pass(g->model, passes->items[i], options->count, room.keys, room.values,
                              &next) != STATOR_OK ||
            (verify && stator_x_verify(next) != STATOR_OK)) {
            stator_model_destroy(next);
            return cli_fail_ctx(g->ctx, g->common.json);
        }
        stator_model_destroy(g->model);
        g->model = next;
    }
    return CLI_OK;
}

cli_status cmd_opt(int argc, char **argv)
{
    cli_graph g = {.inputs = {.random = -1}};
    cli_list passes = {.count = 0};
    cli_list options = {.count = 0};
    int verify = 0;
    const char *output = NULL;
    const cli_option own[] = {
        {"--pass", CLI_LIST, &passes, "NAME", "a pass to run; repeat for more, in order"},
        {"--pass-option", CLI_PASS_PAIRS, &options, "PASS:K=V", "an option of a plugin's pass"},
        {"--verify-each", CLI_FLAG, &verify, NULL, "verify the graph after each pass"},
        {"--output", CLI_TEXT, &output, "FILE", "write FILE.stir (and .blob) or FILE.stirb (-o)"},
        CLI_END};
    cli_usage usage = {.own = own, .inputs = &g.inputs, .common = &g.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    cli_status status = cli_graph_open(&g, path);
    if (status == CLI_OK) {
        status = run_passes(&g, &passes, &options, verify);
    }
    if (status == CLI_OK) {
        status = write_model(&g, output);
    }
    cli_graph_close(&g);
    return status;
}
