/* stator info: what a model is, on one screen: what its file says of itself, inputs and outputs,
 * parameters, operators by count, and which backends its nodes would run on.
 *
 * In: a model; for the last part it is compiled for inputs of the sizes that the flags give, and
 * not run. A model that cannot be compiled is described all the same. */
#include "tools/explain.h"

#include "core/base/check.h"

#include <stdlib.h>
#include <string.h>

#define METADATA_MAX 12 /* entries that the text shows */

typedef struct info {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    int no_compile;
    int all_metadata;
    cli_program p;
    cJSON *facts;
} info;

/* ---- gathering ---- */

static cJSON *port_json(const stator_port_info *port)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", port->name);
    cJSON_AddStringToObject(row, "dtype", cli_dtype_name(port->dtype));
    cJSON *shape = cJSON_AddArrayToObject(row, "shape");
    for (uint32_t axis = 0; axis < port->rank; axis++) {
        cJSON_AddItemToArray(shape, port->dims[axis] >= 0
                                        ? cli_json_size(port->dims[axis])
                                        : cJSON_CreateString(port->dim_names[axis]));
    }
    return row;
}

static void add_ports(const info *f)
{
    const stator_model *model = f->p.model;
    cJSON *inputs = cJSON_AddArrayToObject(f->facts, "inputs");
    cJSON *outputs = cJSON_AddArrayToObject(f->facts, "outputs");
    const uint32_t n_in = stator_model_input_count(model);
    const uint32_t n_out = stator_model_output_count(model);
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        stator_port_info port = {.struct_size = sizeof port};
        const stator_status status = i < n_in ? stator_model_input_info(model, i, &port)
                                              : stator_model_output_info(model, i - n_in, &port);
        if (status == STATOR_OK) {
            cJSON_AddItemToArray(i < n_in ? inputs : outputs, port_json(&port));
        }
    }
}

/* A fact of the frontend: opsets and operators are lists of their own. Aliases are left out. */
static void add_fact(void *self, const char *kind, const char *name, const char *value)
{
    cJSON *facts = self;
    if (strcmp(kind, "opset") == 0 || strcmp(kind, "op") == 0) {
        cJSON_AddNumberToObject(cJSON_GetObjectItem(facts, kind[2] == 's' ? "opsets" : "operators"),
                                name, strtod(value, NULL));
    } else if (strcmp(kind, "metadata") == 0) {
        cJSON_AddStringToObject(cJSON_GetObjectItem(facts, "metadata"), name, value);
    } else if (strcmp(kind, "alias") != 0 && strcmp(kind, "data") != 0) {
        char text[CLI_CLEAN_BYTES];
        (void)snprintf(text, sizeof text, "%s%s%s", name, value[0] != '\0' ? " " : "", value);
        if (!cJSON_HasObjectItem(facts, kind)) {
            cJSON_AddStringToObject(facts, kind, text);
        }
    }
}

/* The members in order of their counts, the largest first; takes the object over. */
static cJSON *by_count(cJSON *counts)
{
    cJSON *sorted = cJSON_CreateObject();
    while (counts->child != NULL) {
        cJSON *most = counts->child;
        for (cJSON *item = most->next; item != NULL; item = item->next) {
            most = item->valuedouble > most->valuedouble ? item : most;
        }
        (void)cJSON_DetachItemViaPointer(counts, most);
        cJSON_AddItemToObject(sorted, most->string, most);
    }
    cJSON_Delete(counts);
    return sorted;
}

static void add_file(const info *f)
{
    cJSON_AddObjectToObject(f->facts, "opsets");
    cJSON_AddObjectToObject(f->facts, "operators");
    cJSON_AddObjectToObject(f->facts, "metadata");
    stator_x_model_facts(f->p.model, add_fact, f->facts);
    cJSON_AddItemToObject(f->facts, "operators",
                          by_count(cJSON_DetachItemFromObject(f->facts, "operators")));
    if (!cJSON_HasObjectItem(f->facts, "format")) {
        cJSON_AddNullToObject(f->facts, "format");
    }
    if (!cJSON_HasObjectItem(f->facts, "producer")) {
        cJSON_AddNullToObject(f->facts, "producer");
    }
}

static void count_up(cJSON *counts, const char *name, double by)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(counts, name);
    if (item != NULL) {
        cJSON_SetNumberValue(item, item->valuedouble + by);
    } else {
        cJSON_AddNumberToObject(counts, name, by);
    }
}

static void count_nodes(const stator_ir_api *ir, const stator_graph *graph, cJSON *counts)
{
    const stator_graph_view *v = ir->view(graph);
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        count_up(counts, stator_op_at(v, row->op)->name, 1);
        for (uint32_t k = 0; k < row->region_count; k++) {
            count_nodes(ir, stator_region_at(v, row, k), counts);
        }
    }
}

/* Elements of a parameter; symbolic ones count as 0. */
static uint64_t elements_of(const stator_graph_view *v, const stator_type_row *type)
{
    int64_t dims[STATOR_RANK_MAX];
    uint64_t count = 0;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        if (!stator_sym_is_const(v, stator_dim_at(v, type, axis), &dims[axis])) {
            return 0;
        }
    }
    return st_numel(dims, type->rank, &count) ? count : 0;
}

static void add_parameters(const info *f, const stator_graph_view *v)
{
    double tensors = 0, elements = 0, bits = 0;
    cJSON *row = cJSON_AddObjectToObject(f->facts, "parameters");
    cJSON *by_dtype = cJSON_CreateObject();
    for (stator_ref value = 1; v != NULL && value <= v->n_inputs; value++) {
        if ((stator_value_at(v, value)->flags & STATOR_VALUE_PARAM) != 0) {
            const stator_type_row *type = stator_value_type(v, value);
            const double n = (double)elements_of(v, type);
            tensors++;
            elements += n;
            bits += n * st_dtype_bits(type->dtype);
            count_up(by_dtype, cli_dtype_name(type->dtype), n);
        }
    }
    cJSON_AddNumberToObject(row, "tensors", tensors);
    cJSON_AddNumberToObject(row, "elements", elements);
    cJSON_AddNumberToObject(row, "bytes", (double)(uint64_t)((bits + 7) / 8));
    cJSON_AddItemToObject(row, "by_dtype", by_dtype);
}

static void add_graph(const info *f)
{
    const stator_ir_api *ir = stator_ctx_host(f->p.ctx)->ir;
    const stator_graph *graph = stator_model_graph(f->p.model);
    cJSON *counts = cJSON_CreateObject();
    add_parameters(f, graph != NULL ? ir->view(graph) : NULL);
    if (graph != NULL) {
        count_nodes(ir, graph, counts);
    }
    cJSON_AddItemToObject(f->facts, "nodes", by_count(counts));
}

/* Compiles for the inputs; what fails is told and fails nothing else, but for names that are
 * wrong. */
static bool compile_it(info *f)
{
    if (f->p.function == NULL) {
        return false;
    }
    return stator_x_prepare(f->p.function, f->p.n_in, f->p.in) == STATOR_OK ||
           cli_fail_ctx(f->p.ctx, -1) == CLI_OK;
}

static void add_places(info *f, bool has_inputs)
{
    const bool is_wanted = !f->no_compile && has_inputs;
    const bool is_compiled = is_wanted && compile_it(f);
    cJSON *more = is_compiled ? explain_coverage(&f->p) : NULL;
    cJSON_AddItemToObject(f->facts, "coverage",
                          more != NULL ? cJSON_DetachItemFromObject(more, "coverage")
                                       : cJSON_CreateNull());
    cJSON_AddItemToObject(f->facts, "fallback_nodes",
                          more != NULL ? cJSON_DetachItemFromObject(more, "fallback_nodes")
                                       : cJSON_CreateArray());
    cli_json_text(f->facts, "error", f->no_compile || is_compiled ? NULL : cli_last_error());
    cJSON_Delete(more);
}

/* ---- as text ---- */

static void print_pairs(const char *heading, const cJSON *counts)
{
    const cJSON *item = NULL;
    char name[CLI_CLEAN_BYTES];
    int n = 0;
    (void)printf("%-12s", heading);
    cJSON_ArrayForEach(item, counts)
    {
        (void)printf("%s%s %.0f", n++ == 0 ? "" : ", ", cli_clean(item->string, name),
                     item->valuedouble);
    }
    (void)printf("%s\n", n == 0 ? "none" : "");
}

static void print_ports(const char *heading, const cJSON *ports)
{
    const cJSON *port = NULL;
    char clean[CLI_CLEAN_BYTES];
    cJSON_ArrayForEach(port, ports)
    {
        const cJSON *size = NULL;
        int n = 0;
        (void)printf("%-12s%s: %s[", heading, cli_clean(explain_text(port, "name"), clean),
                     explain_text(port, "dtype"));
        cJSON_ArrayForEach(size, explain_list(port, "shape"))
        {
            (void)printf("%s", n++ == 0 ? "" : ", ");
            cli_put(stdout, size->valuestring); /* a symbol, or a number as it is written */
        }
        (void)printf("]\n");
        heading = "";
    }
}

static void print_file(const cJSON *facts)
{
    const cJSON *item = NULL;
    char name[CLI_CLEAN_BYTES];
    if (cJSON_IsString(explain_list(facts, "format"))) {
        (void)printf("%-12s%s", "file", cli_clean(explain_text(facts, "format"), name));
        cJSON_ArrayForEach(item, explain_list(facts, "opsets"))
        {
            (void)printf(", opset %s %.0f", cli_clean(item->string, name), item->valuedouble);
        }
        if (cJSON_IsString(explain_list(facts, "producer"))) {
            (void)printf(", by %s", cli_clean(explain_text(facts, "producer"), name));
        }
        (void)printf("\n");
    }
}

/* Files may carry thousands of entries, which would push all else off the screen. */
static void print_metadata(const cJSON *metadata, int is_whole)
{
    const cJSON *item = NULL;
    char name[CLI_CLEAN_BYTES], value[CLI_CLEAN_BYTES];
    const int n = cJSON_GetArraySize(metadata);
    int shown = 0;
    cJSON_ArrayForEach(item, metadata)
    {
        if (!is_whole && shown == METADATA_MAX && n > METADATA_MAX + 1) {
            (void)printf("%-12sand %d more entries of metadata (--metadata prints all)\n", "",
                         n - shown);
            return;
        }
        (void)printf("%-12s%s: %s\n", "", cli_clean(item->string, name),
                     cli_clean(item->valuestring, value));
        shown++;
    }
}

static void print_parameters(const cJSON *facts)
{
    const cJSON *row = explain_list(facts, "parameters");
    (void)printf("%-12s%.0f in %.0f tensors, %.0f bytes\n", "parameters",
                 explain_number(row, "elements"), explain_number(row, "tensors"),
                 explain_number(row, "bytes"));
}

static void print_places(const info *f)
{
    char clean[CLI_CLEAN_BYTES], reason[CLI_CLEAN_BYTES];
    const cJSON *row = NULL;
    if (cJSON_IsString(explain_list(f->facts, "error"))) {
        (void)printf("%-12s%s\n", "runs", cli_clean(explain_text(f->facts, "error"), clean));
    } else if (f->p.function != NULL) {
        (void)printf("%-12s", "runs");
        cli_print_coverage(f->p.function);
    }
    cJSON_ArrayForEach(row, explain_list(f->facts, "fallback_nodes"))
    {
        (void)printf("%-12sleft to another backend: %.0f %s: %s\n", "",
                     explain_number(row, "nodes"), cli_clean(explain_text(row, "op"), clean),
                     cli_clean(explain_text(row, "reason"), reason));
    }
}

static void print_text(const info *f)
{
    print_file(f->facts);
    print_metadata(explain_list(f->facts, "metadata"), f->all_metadata);
    print_ports("inputs", explain_list(f->facts, "inputs"));
    print_ports("outputs", explain_list(f->facts, "outputs"));
    print_parameters(f->facts);
    if (cJSON_GetArraySize(explain_list(f->facts, "operators")) != 0) {
        print_pairs("operators", explain_list(f->facts, "operators"));
    }
    print_pairs("nodes", explain_list(f->facts, "nodes"));
    print_places(f);
}

static cli_status describe(info *f, const char *path)
{
    CLI_TRY(cli_open_model(&f->common, path, &f->p.ctx, &f->p.model));
    /* Inputs that files give must be there; random ones may not fit a model that needs values. */
    const bool is_silent = !cli_has_input_files(&f->inputs) && f->inputs.dim.count == 0;
    const bool has_inputs = cli_load_inputs(f->p.ctx, f->p.model, &f->inputs,
                                            is_silent ? -1 : f->common.json, &f->p.in, &f->p.n_in);
    CLI_NEED(has_inputs || is_silent);
    const bool is_named = f->compile.backend != NULL;
    f->p.function = f->no_compile
                        ? NULL
                        : cli_compile_model(f->p.ctx, f->p.model, &f->compile, f->compile.backend,
                                            is_named ? f->common.json : -1);
    if (f->p.function == NULL && is_named && !f->no_compile) {
        return CLI_FAILED;
    }
    f->facts = cJSON_CreateObject();
    add_file(f);
    add_ports(f);
    add_graph(f);
    add_places(f, has_inputs);
    if (f->common.json) {
        cli_print_json(f->facts);
        f->facts = NULL;
    } else {
        print_text(f);
    }
    return CLI_OK;
}

cli_status cmd_info(int argc, char **argv)
{
    info f = {.inputs = {.random = -1}, .compile = {.compile_flags = STATOR_COMPILE_NO_CACHE}};
    const cli_option own[] = {
        {"--no-compile", CLI_FLAG, &f.no_compile, NULL, "do not find out what would run where"},
        {"--metadata", CLI_FLAG, &f.all_metadata, NULL,
         "all of the metadata, not the first 12 entries"},
        CLI_END};
    cli_usage usage = {.own = own,
                       .inputs = &f.inputs,
                       .backend = &f.compile.backend,
                       .compile = &f.compile,
                       .common = &f.common};
    const char *path = NULL;
    CLI_PARSE(&usage, &path);
    const cli_status status = describe(&f, path);
    cJSON_Delete(f.facts);
    cli_program_close(&f.p);
    return status;
}
