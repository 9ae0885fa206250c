/* stator print and stator opt: graphs as text, at any stage of a backend's pipeline or after passes of
 * one's choice. What is printed can be parsed again. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct print {
    cli_common common;
    cli_inputs inputs;
    const char *after;
    const char *backend;
    const char *output;
    cli_list passes;
    int verify;
    stator_ctx *ctx;
    stator_model *model;
    stator_model *result; /* what is printed when it is not model */
    int found;
    stator_status status;
} print;

static int write_model(const print *p, const stator_model *model) {
    if (p->output != NULL) {
        return stator_x_model_write(model, p->output) == STATOR_OK
                   ? CLI_OK
                   : cli_fail_ctx(p->ctx, p->common.json);
    }
    const stator_host *host = stator_ctx_host(p->ctx);
    char *text = NULL;
    uint64_t len = 0;
    stator_diag *diag = NULL;
    if (host->ir->print(p->ctx, stator_model_graph(model), &text, &len, &diag) != STATOR_OK) {
        const int status =
            cli_fail(p->common.json, "INTERNAL", NULL, "%s", host->diag->text(diag));
        host->diag->release(diag);
        return status;
    }
    if (p->common.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "text", text);
        cli_print_json(root);
    } else {
        (void)fwrite(text, 1, len, stdout);
    }
    host->mem->free(p->ctx, text);
    return CLI_OK;
}

static void on_stage(void *self, const char *stage, const stator_graph *graph, uint64_t ns) {
    (void)ns;
    print *p = self;
    if (strcmp(stage, p->after) == 0) {
        stator_model_destroy(p->result); /* the last run of a pass that runs twice */
        p->found = 1;
        p->status = stator_x_model_of_graph(p->ctx, graph, &p->result);
    }
}

/* The graph after a stage of the backend's pipeline. */
static int print_stage(print *p) {
    const stator_compile_options options = {.struct_size = sizeof options, .backend = p->backend};
    stator_function *function = NULL;
    if (stator_compile(p->model, &options, &function) != STATOR_OK ||
        stator_x_stages(function, NULL, on_stage, p) != STATOR_OK) {
        stator_function_destroy(function);
        return cli_fail_ctx(p->ctx, p->common.json);
    }
    stator_function_destroy(function);
    if (p->status != STATOR_OK) {
        return cli_fail_ctx(p->ctx, p->common.json);
    }
    if (!p->found) {
        return cli_fail(p->common.json, "NOT_FOUND", "`stator passes --backend NAME` lists them",
                        "the pipeline has no stage '%s'", p->after);
    }
    return write_model(p, p->result);
}

/* Loads the model; one that needs input values gets them from the input flags. */
static int open_model(print *p, const char *path) {
    if (cli_open(&p->common, &p->ctx) != STATOR_OK ||
        stator_model_load(p->ctx, path, NULL, &p->model) != STATOR_OK) {
        return cli_fail_ctx(p->ctx, p->common.json);
    }
    stator_tensor **in = NULL;
    uint32_t n = 0;
    if (stator_model_graph(p->model) == NULL) {
        if (!cli_load_inputs(p->ctx, p->model, &p->inputs, p->common.json, &in, &n)) {
            return CLI_FAILED;
        }
        cli_free_inputs(in, n);
    }
    return CLI_OK;
}

static void close_model(print *p) {
    stator_model_destroy(p->result);
    stator_model_destroy(p->model);
    stator_ctx_destroy(p->ctx);
}

int cmd_print(int argc, char **argv) {
    print p = {.inputs = {.random = -1}};
    const cli_option own[] = {
        {"--after", CLI_TEXT, &p.after, "PASS", "the graph after this stage of the pipeline"},
        {"--backend", CLI_TEXT, &p.backend, "NAME", "whose pipeline --after means"},
        {"--output", CLI_TEXT, &p.output, "FILE", "write FILE.stir (and .blob) or FILE.stirb (-o)"},
        {NULL, 0, NULL, NULL, NULL}};
    const cli_option inputs[] = {CLI_INPUT_ROWS(&p.inputs)};
    const cli_option common[] = {CLI_COMMON_ROWS(&p.common)};
    const cli_option *const tables[] = {own, inputs, common, NULL};
    const cli_usage usage = {.command = "print",
                             .positional = "MODEL",
                             .summary = "Prints a model's graph in the text form.",
                             .tables = tables};
    const char *path = NULL;
    uint32_t n = 0;
    int status = cli_parse(&usage, argc, argv, &path, 1, &n);
    if (status >= 0) {
        return status;
    }
    status = open_model(&p, path);
    if (status == CLI_OK) {
        status = p.after != NULL ? print_stage(&p) : write_model(&p, p.model);
    }
    close_model(&p);
    return status;
}

/* ---- opt ---- */

static int run_passes(print *p) {
    const stator_model *at = p->model;
    for (uint32_t i = 0; i < p->passes.count; i++) {
        stator_model *next = NULL;
        if (stator_x_run_pass(at, p->passes.items[i], &next) != STATOR_OK ||
            (p->verify && stator_x_verify(next) != STATOR_OK)) {
            stator_model_destroy(next);
            return cli_fail_ctx(p->ctx, p->common.json);
        }
        stator_model_destroy(p->result);
        p->result = next;
        at = next;
    }
    return write_model(p, at);
}

int cmd_opt(int argc, char **argv) {
    print p = {.inputs = {.random = -1}};
    const cli_option own[] = {
        {"--pass", CLI_LIST, &p.passes, "NAME", "a pass to run; repeat for more, in order"},
        {"--verify-each", CLI_FLAG, &p.verify, NULL, "verify the graph after each pass"},
        {"--output", CLI_TEXT, &p.output, "FILE", "write FILE.stir (and .blob) or FILE.stirb (-o)"},
        {NULL, 0, NULL, NULL, NULL}};
    const cli_option inputs[] = {CLI_INPUT_ROWS(&p.inputs)};
    const cli_option common[] = {CLI_COMMON_ROWS(&p.common)};
    const cli_option *const tables[] = {own, inputs, common, NULL};
    const cli_usage usage = {.command = "opt",
                             .positional = "MODEL",
                             .summary = "Runs passes over a graph and prints the result.",
                             .tables = tables};
    const char *path = NULL;
    uint32_t n = 0;
    int status = cli_parse(&usage, argc, argv, &path, 1, &n);
    if (status >= 0) {
        return status;
    }
    status = open_model(&p, path);
    if (status == CLI_OK) {
        status = run_passes(&p);
    }
    close_model(&p);
    return status;
}
