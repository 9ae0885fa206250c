/* What a training leaves: the arrays that its step holds, or a copy of the model's file with the
 * trained values. */
#define _GNU_SOURCE
#include "tools/train/training.h"

#include <stdlib.h>
#include <string.h>

bool train_is_state(const train *t, uint32_t input)
{
    return t->step.roles[input] >= STATOR_ROLE_PARAMETER;
}

char *train_state_name(const train *t, uint32_t input, const char *prefix)
{
    stator_port_info port = {.struct_size = sizeof port};
    char *name = NULL;
    if (stator_model_input_info(t->step.model, input, &port) != STATOR_OK) {
        (void)cli_fail_ctx(t->ctx, t->settings->common.json);
        return NULL;
    }
    if (asprintf(&name, "%s%s", prefix, port.name) < 0) {
        (void)cli_fail(t->settings->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
        return NULL;
    }
    return name;
}

cli_status train_check_names(const train *t, const char *prefix)
{
    char errbuf[512];
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        if (!train_is_state(t, k)) {
            continue;
        }
        char *name = train_state_name(t, k, prefix);
        CLI_NEED(name != NULL);
        const bool is_ok = cli_check_npz_name(name, errbuf);
        free(name);
        CLI_FAIL_IF(!is_ok, t->settings->common.json, "UNIMPLEMENTED", NULL, "%s", errbuf);
    }
    return CLI_OK;
}

static cli_status add_state(const train *t, uint32_t input, const char *name, cli_tensors *list)
{
    const int json = t->settings->common.json;
    stator_tensor *tensor = NULL;
    CLI_TRY_CTX(t->ctx, json, cli_on_host(t->ctx, t->step.in[input], &tensor));
    CLI_FAIL_IF(!cli_tensors_add(list, name, tensor), json, "RESOURCE_EXHAUSTED", NULL,
                "out of memory");
    return CLI_OK;
}

cli_status train_list_state(const train *t, const char *prefix, cli_tensors *list)
{
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        if (train_is_state(t, k)) {
            char *name = train_state_name(t, k, prefix);
            CLI_NEED(name != NULL);
            const cli_status status = add_state(t, k, name, list);
            free(name);
            CLI_TRY(status);
        }
    }
    return CLI_OK;
}

static cli_status save_arrays(const train *t, const char *path)
{
    char errbuf[512];
    cli_tensors list = {.ctx = t->ctx};
    cli_status status = train_list_state(t, "", &list);
    if (status == CLI_OK && !cli_write_npz(path, &list, errbuf)) {
        status = cli_fail(t->settings->common.json, "UNAVAILABLE", NULL, "%s", errbuf);
    }
    cli_tensors_free(&list);
    return status;
}

/* Parameters of the model that the training changes, as they are now. */
static cli_status list_parameters(const train *t, const char **names, stator_tensor **values,
                                  uint32_t *out_n)
{
    const stator_graph *graph = stator_model_graph(t->model);
    const stator_graph_view *v = stator_ctx_host(t->ctx)->ir->view(graph);
    *out_n = 0;
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        const char *name = stator_string_at(v, row->name);
        uint32_t input = 0;
        if ((row->flags & STATOR_VALUE_PARAM) != 0 &&
            stator_model_find_input(t->step.model, name, &input) == STATOR_OK &&
            train_is_state(t, input)) {
            names[*out_n] = name;
            values[(*out_n)++] = t->step.in[input];
        }
    }
    return CLI_OK;
}

typedef stator_status (*save_fn)(const stator_model *model, const char *path, uint32_t n,
                                 const char *const *names, stator_tensor *const *values);

/* fn saves, or only asks whether that would go well. */
static cli_status save_model(const train *t, const char *path, save_fn fn)
{
    const int json = t->settings->common.json;
    const char **names = calloc(t->step.n_in + 1u, sizeof *names);
    stator_tensor **values = calloc(t->step.n_in + 1u, sizeof *values);
    uint32_t n = 0;
    cli_status status = names != NULL && values != NULL
                            ? list_parameters(t, names, values, &n)
                            : cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    if (status == CLI_OK && fn(t->model, path, n, names, values) != STATOR_OK) {
        status = cli_fail_ctx(t->ctx, json);
    }
    free((void *)names);
    free((void *)values);
    return status;
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

static bool is_archive(const char *path)
{
    return ends_in(path, ".npz");
}

static cli_status check_archive(const train *t, const char *path)
{
    char errbuf[512];
    CLI_FAIL_IF(!cli_check_npz(path, errbuf), t->settings->common.json, "UNAVAILABLE", NULL, "%s",
                errbuf);
    return train_check_names(t, "");
}

static cli_status check_model(const train *t, const char *path)
{
    const int json = t->settings->common.json;
    CLI_NEED(cli_file_check(path, json));
    CLI_TRY(save_model(t, path, stator_x_model_check_save));
    CLI_FAIL_IF(ends_in(path, ".stir") || ends_in(path, ".stirb"), json, "INVALID_ARGUMENT",
                "--write-step writes the step as .stirb; --save OUT.npz writes arrays",
                "--save '%s': a copy is of the kind of the model's file, which is no .stir", path);
    return CLI_OK;
}

cli_status train_save_check(const train *t, const char *path)
{
    return is_archive(path) ? check_archive(t, path) : check_model(t, path);
}

cli_status train_save(const train *t, const char *path)
{
    return is_archive(path) ? save_arrays(t, path) : save_model(t, path, stator_model_save);
}
