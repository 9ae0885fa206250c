/* What a training leaves: the arrays that its step holds. */
#include "tools/train/training.h"

#include <string.h>

/* A tensor of the state, in host memory. */
static stator_status on_host(stator_ctx *ctx, stator_tensor *tensor, stator_tensor **out)
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
        CLI_TRY_CTX(t->ctx, json, on_host(t->ctx, t->step.in[k], &tensor));
        tensor = cli_to_numpy(t->ctx, tensor);
        CLI_FAIL_IF(tensor == NULL || !cli_tensors_add(list, name, tensor), json,
                    "RESOURCE_EXHAUSTED", NULL, "out of memory");
    }
    return CLI_OK;
}

cli_status train_save(const train *t, const char *path)
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
