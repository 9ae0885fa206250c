/* stator grad: the joint graph of a model, which computes its outputs and their gradients, as
 * text or into a file; or the check of each node's gradient against differences. docs/grad.md. */
#define _GNU_SOURCE
#include "tools/grad/grad.h"

#include "core/base/check.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 256u

typedef struct grad {
    cli_graph g;
    const char *wrt;
    const char *graph;
    const char *plan;
    const char *budget;
    const char *output;
    int check;
    char *words; /* of wrt, ended where commas were */
    const char *names[NAMES_MAX];
    stator_differentiate_options options;
    stator_partition_facts facts;
    grad_report report;
} grad;

/* ---- what is asked for ---- */

/* "params", "inputs" and names, with commas between. */
static cli_status read_wrt(grad *c)
{
    stator_differentiate_options *o = &c->options;
    o->names = c->names;
    c->words = c->wrt != NULL ? strdup(c->wrt) : NULL;
    CLI_FAIL_IF(c->wrt != NULL && c->words == NULL, c->g.common.json, "RESOURCE_EXHAUSTED", NULL,
                "out of memory");
    char *rest = NULL;
    for (char *word = c->words != NULL ? strtok_r(c->words, ",", &rest) : NULL; word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (strcmp(word, "params") == 0) {
            o->wrt |= STATOR_WRT_PARAMS;
        } else if (strcmp(word, "inputs") == 0) {
            o->wrt |= STATOR_WRT_INPUTS;
        } else {
            CLI_FAIL_IF(o->name_count == NAMES_MAX, c->g.common.json, "INVALID_ARGUMENT",
                        "params and inputs name all of a kind", "--wrt has more than %u names",
                        NAMES_MAX);
            c->names[o->name_count++] = word;
        }
    }
    return CLI_OK;
}

/* ---- facts of the joint graph ---- */

typedef struct part_counts {
    uint32_t forward, backward;
} part_counts;

static part_counts count_parts(const stator_graph_view *v)
{
    part_counts n = {0, 0};
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const bool is_backward = stator_node_is_backward(v, node);
        n.backward += is_backward;
        n.forward += !is_backward;
    }
    return n;
}

/* Bytes of a port, or -1 where a size is a symbol. */
static int64_t bytes_of(const stator_port_info *port)
{
    int64_t n = 1;
    for (uint32_t axis = 0; axis < port->rank; axis++) {
        if (port->dims[axis] < 0) {
            return -1;
        }
        n *= port->dims[axis];
    }
    return (n * (int64_t)st_dtype_bits(port->dtype) + 7) / 8;
}

/* What the backward graph takes of the results of the forward one. */
static void list_saved(const stator_model *forward, const stator_model *backward, cJSON *saved)
{
    stator_port_info port = {.struct_size = sizeof port};
    uint32_t place = 0;
    for (uint32_t k = 0; k < stator_model_input_count(backward); k++) {
        if (stator_model_input_info(backward, k, &port) != STATOR_OK ||
            stator_model_find_output(forward, port.name, &place) != STATOR_OK) {
            continue;
        }
        const bool is_marked = strncmp(port.name, "saved_", 6) == 0;
        const int64_t bytes = bytes_of(&port);
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", port.name + (is_marked ? 6 : 0));
        cJSON_AddItemToObject(entry, "bytes",
                              bytes >= 0 ? cli_json_size(bytes) : cJSON_CreateNull());
        cJSON_AddItemToArray(saved, entry);
    }
}

/* null: the two graphs cannot be told apart, and --graph says why. */
static cJSON *saved_json(const grad *c)
{
    stator_model *forward = NULL, *backward = NULL;
    if (stator_model_partition(c->g.model, NULL, &forward, &backward) != STATOR_OK) {
        return cJSON_CreateNull();
    }
    cJSON *saved = cJSON_CreateArray();
    list_saved(forward, backward, saved);
    stator_model_destroy(forward);
    stator_model_destroy(backward);
    return saved;
}

static void add_joint(const grad *c, const stator_graph_view *v, cJSON *root)
{
    const part_counts n = count_parts(v);
    cJSON *joint = cJSON_AddObjectToObject(root, "joint");
    cJSON_AddNumberToObject(joint, "nodes", v->n_nodes);
    cJSON_AddNumberToObject(joint, "forward", n.forward);
    cJSON_AddNumberToObject(joint, "backward", n.backward);
    cJSON_AddItemToObject(root, "saved", saved_json(c));
    cJSON_AddNumberToObject(root, "recomputed", c->facts.recomputed);
    cJSON_AddBoolToObject(root, "capped", c->facts.is_capped != 0);
}

/* ---- the check ---- */

static void add_check(const grad *c, cJSON *root)
{
    const grad_report *r = &c->report;
    cJSON_AddItemToObject(root, "checked",
                          c->check ? cJSON_CreateNumber(r->checked) : cJSON_CreateNull());
    cJSON_AddItemToObject(root, "unchecked",
                          c->check ? cJSON_CreateNumber(r->unchecked) : cJSON_CreateNull());
    cJSON *wrong = cJSON_AddArrayToObject(root, "wrong");
    cJSON *undecided = cJSON_AddArrayToObject(root, "undecided");
    for (uint32_t k = 0; k < r->n_wrong; k++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "node", r->wrong[k].node);
        cJSON_AddStringToObject(entry, "operand", r->wrong[k].operand);
        cJSON_AddItemToObject(entry, "got", cli_json_number(r->wrong[k].got));
        cJSON_AddItemToObject(entry, "want", cli_json_number(r->wrong[k].want));
        cJSON_AddItemToArray(r->wrong[k].is_undecided ? undecided : wrong, entry);
    }
}

static void print_entry(const grad_wrong *wrong)
{
    char node[CLI_CLEAN_BYTES];
    if (wrong->is_undecided) {
        (void)printf("node %s has operands or results that are not finite: its gradient to its "
                     "operand %s was not compared\n",
                     cli_clean(wrong->node, node), wrong->operand);
    } else {
        (void)printf("the gradient of node %s to its operand %s is %.9g along a direction, "
                     "differences give %.9g\n",
                     cli_clean(wrong->node, node), wrong->operand, wrong->got, wrong->want);
    }
}

static void print_check(const grad *c)
{
    const grad_report *r = &c->report;
    const uint32_t n_off = r->n_wrong - r->n_undecided;
    for (uint32_t k = 0; k < r->n_wrong; k++) {
        print_entry(&r->wrong[k]);
    }
    if (n_off > 0 && r->repro != NULL) {
        (void)printf("  repeat: sh %s/repeat.sh\n", r->repro);
    }
    (void)printf("%u nodes checked, %u gradients are off", r->checked, n_off);
    if (r->n_undecided != 0) {
        (void)printf("; %u gradients were not compared, for values are not finite", r->n_undecided);
    }
    if (r->unchecked != 0) {
        (void)printf("; %u nodes were not checked, for they do not work in f64", r->unchecked);
    }
    (void)printf("\n");
}

/* ---- the command ---- */

/* Replaces the model by its joint model. */
static cli_status differentiate(grad *c)
{
    stator_model *joint = NULL;
    CLI_TRY_CTX(c->g.ctx, c->g.common.json,
                stator_model_differentiate(c->g.model, &c->options, &joint));
    stator_model_destroy(c->g.model);
    c->g.model = joint;
    return CLI_OK;
}

/* Replaces the joint model by one whose backward part computes again what the plan does not
 * keep. */
static cli_status plan(grad *c)
{
    stator_partition_options options = {
        .struct_size = sizeof options, .plan = c->plan, .facts = &c->facts};
    if (c->budget != NULL) {
        options.flags = STATOR_PARTITION_BUDGET;
        CLI_TRY(cli_read_budget(c->budget, c->g.common.json, &options.budget));
    }
    stator_model *planned = NULL;
    CLI_TRY_CTX(c->g.ctx, c->g.common.json,
                stator_model_rematerialise(c->g.model, &options, &planned));
    stator_model_destroy(c->g.model);
    c->g.model = planned;
    return CLI_OK;
}

/* Replaces the joint model by the part that is asked for. */
static cli_status take_part(grad *c)
{
    stator_model *forward = NULL, *backward = NULL;
    if (c->graph == NULL || strcmp(c->graph, "joint") == 0) {
        return CLI_OK;
    }
    CLI_TRY_CTX(c->g.ctx, c->g.common.json,
                stator_model_partition(c->g.model, NULL, &forward, &backward));
    const bool is_forward = strcmp(c->graph, "forward") == 0;
    stator_model_destroy(c->g.model);
    c->g.model = is_forward ? forward : backward;
    stator_model_destroy(is_forward ? backward : forward);
    return CLI_OK;
}

/* With --check the graph goes nowhere but into a file that is asked for. */
static cli_status write_graph(grad *c, cJSON *root)
{
    if (root != NULL) {
        add_joint(c, stator_ctx_host(c->g.ctx)->ir->view(stator_model_graph(c->g.model)), root);
        add_check(c, root);
    }
    CLI_TRY(take_part(c));
    return c->check && c->output == NULL ? CLI_OK : cli_graph_write(&c->g, c->output, root);
}

static cli_status run_grad(grad *c)
{
    if (c->check) {
        CLI_TRY(grad_check(&c->g, &c->options, &c->report));
    }
    CLI_TRY(differentiate(c));
    CLI_TRY(plan(c));
    cJSON *root = c->g.common.json ? cJSON_CreateObject() : NULL;
    const cli_status status = write_graph(c, root);
    if (status != CLI_OK) {
        cJSON_Delete(root);
        return status;
    }
    if (root != NULL) {
        cli_graph_print_json(&c->g, root);
    } else if (c->check) {
        print_check(c);
    }
    return c->report.n_wrong == c->report.n_undecided ? CLI_OK : CLI_WRONG;
}

/* Is the graph one that there is? */
static cli_status check_graph(const grad *c)
{
    static const char *const graphs[] = {"joint", "forward", "backward"};
    char near[96] = "";
    for (uint32_t k = 0; k < 3; k++) {
        if (c->graph == NULL || strcmp(c->graph, graphs[k]) == 0) {
            return CLI_OK;
        }
    }
    return cli_fail(c->g.common.json, "INVALID_ARGUMENT", NULL,
                    "--graph '%s' is none of joint, forward and backward%s", c->graph,
                    cli_did_you_mean(c->graph, graphs, 3, near));
}

cli_status cmd_grad(int argc, char **argv)
{
    grad c = {.g = {.inputs = {.random = -1}, .is_tidy = true},
              .options = {.struct_size = sizeof c.options},
              .facts = {.struct_size = sizeof c.facts}};
    const cli_option own[] = {
        {"--loss", CLI_TEXT, &c.options.loss, "OUTPUT",
         "what is differentiated: the sum of its elements (all, each with a tangent)"},
        {"--wrt", CLI_TEXT, &c.wrt, "LIST", "params, inputs, names, with commas between (params)"},
        {"--graph", CLI_TEXT, &c.graph, "WHICH", "joint (the default), forward or backward"},
        {"--partition", CLI_TEXT, &c.plan, "PLAN",
         "what is kept between the two: default (what the forward part made) or min-cut"},
        {"--budget", CLI_TEXT, &c.budget, "B",
         "of min-cut, 0 to 1: how much of what it keeps at 1 may be kept (1)"},
        {"--check", CLI_FLAG, &c.check, NULL, "compare each node's gradient with differences"},
        {"--repro", CLI_TEXT, &c.report.repro, "DIR",
         "with --check: write the first node that is off as a program to a new folder"},
        {"--output", CLI_TEXT, &c.output, "FILE", "write FILE.stir (and .blob) or FILE.stirb (-o)"},
        CLI_END};
    cli_usage usage = {.own = own, .inputs = &c.g.inputs, .common = &c.g.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    CLI_TRY(check_graph(&c));
    CLI_FAIL_IF(c.report.repro != NULL && !c.check, c.g.common.json, "INVALID_ARGUMENT", NULL,
                "--repro writes what --check finds");
    cli_status status = read_wrt(&c);
    if (status == CLI_OK) {
        status = cli_graph_open(&c.g, path);
    }
    if (status == CLI_OK) {
        status = run_grad(&c);
    }
    grad_report_free(&c.report);
    free(c.words);
    cli_graph_close(&c.g);
    return status;
}
