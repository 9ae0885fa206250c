/* What a training leaves: the arrays that its step holds, or a copy of the model's file with the
 * trained values. */
#include "tools/train/training.h"

#include <stdlib.h>
#include <string.h>

stator_status train_on_host(stator_ctx *ctx, stator_tensor *tensor, stator_tensor **out)
{
    const DLTensor *view = stator_tensor_view(tensor);
    *out = NULL;
    if (strcmp(stator_tensor_device(tensor), "cpu") == 0) {
        stator_tensor_retain(tensor);
        *out = tensor;
        return STATOR_OK;
    }
    ST_TRY(stator_tensor_create(ctx, stator_tensor_dtype(tensor), (uint32_t)view->ndim, view->shape,
                                out));
    return stator_tensor_copy(ctx, *out, tensor);
}

bool train_is_state(const train *t, uint32_t input)
{
    bool is_state = input >= stator_model_input_count(t->model) && t->step.is_own[input] == 0;
    for (uint32_t i = 0; i < t->data.n_ports; i++) {
        is_state = is_state && t->data.ports[i].input != input;
    }
    return is_state;
}

cli_status train_list_state(const train *t, const char *prefix, cli_tensors *list)
{
    const int json = t->settings->common.json;
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        stator_tensor *tensor = NULL;
        char name[256];
        if (!train_is_state(t, k)) {
            continue;
        }
        CLI_TRY_CTX(t->ctx, json, stator_model_input_info(t->step.model, k, &port));
        const int n = snprintf(name, sizeof name, "%s%s", prefix, port.name);
        CLI_FAIL_IF(n < 0 || (size_t)n >= sizeof name, json, "UNIMPLEMENTED", NULL,
                    "the name '%s' is too long for an archive", port.name);
        CLI_TRY_CTX(t->ctx, json, train_on_host(t->ctx, t->step.in[k], &tensor));
        CLI_FAIL_IF(!cli_tensors_add(list, name, tensor), json, "RESOURCE_EXHAUSTED", NULL,
                    "out of memory");
    }
    return CLI_OK;
}

static cli_status save_arrays(const train *t, const char *path)
{
    char errbuf[512];
    cli_tensors list = {.ctx = t->ctx};
    cli_status status = train_list_state(t, "", &list);
    if (status == CLI_OK && !cli_write_npz(path, &list, errbuf)) {
        status = cli_fail(t->settings->common.json, "UNAVAILABLE", NULL, "%s: %s", path, errbuf);
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

/* path NULL: only asks whether that would go well. */
static cli_status save_model(const train *t, const char *path)
{
    const int json = t->settings->common.json;
    const char **names = calloc(t->step.n_in + 1u, sizeof *names);
    stator_tensor **values = calloc(t->step.n_in + 1u, sizeof *values);
    uint32_t n = 0;
    cli_status status = names != NULL && values != NULL
                            ? list_parameters(t, names, values, &n)
                            : cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    if (status == CLI_OK && stator_model_save(t->model, path, n, names, values) != STATOR_OK) {
        status = cli_fail_ctx(t->ctx, json);
    }
    free((void *)names);
    free((void *)values);
    return status;
}

static bool is_archive(const char *path)
{
    const size_t n = strlen(path);
    return n >= 4 && strcmp(path + n - 4, ".npz") == 0;
}

cli_status train_save_check(const train *t, const char *path)
{
    CLI_NEED(cli_file_check(path, t->settings->common.json));
    return is_archive(path) ? CLI_OK : save_model(t, NULL);
}

cli_status train_save(const train *t, const char *path)
{
    return is_archive(path) ? save_arrays(t, path) : save_model(t, path);
}
