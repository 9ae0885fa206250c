/* Inputs and outputs of a model by name. */
#include "core/host/model.h"

#include "core/base/str.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_NAME_BYTES 24u /* room for "output_4294967295" */

typedef stator_status (*port_fn)(const stator_model *model, uint32_t index,
                                 stator_port_info *out_info);

typedef struct port_names {
    const char **names;
    char *made; /* names of outputs that have none */
    uint32_t n;
} port_names;

static stator_status list_ports(const stator_model *model, port_fn info, port_names *out,
                                stator_diag **err)
{
    st_mem *mem = &model->ctx->mem;
    out->names = st_calloc(mem, out->n + UINT64_C(1), sizeof *out->names);
    out->made = st_calloc(mem, out->n + UINT64_C(1), OUTPUT_NAME_BYTES);
    ST_TRY_MEM(out->names && out->made, err);
    for (uint32_t k = 0; k < out->n; k++) {
        stator_port_info port = {.struct_size = sizeof port};
        char *made = out->made + (size_t)k * OUTPUT_NAME_BYTES;
        ST_TRY(info(model, k, &port));
        (void)snprintf(made, OUTPUT_NAME_BYTES, "output_%u", k);
        out->names[k] = port.name[0] != '\0' || info == stator_model_input_info ? port.name : made;
    }
    return STATOR_OK;
}

/* The text names the ports that there are, as far as 400 bytes hold them. */
static stator_status fail_name(const stator_model *model, const char *what, const char *name,
                               const port_names *ports, stator_diag **err)
{
    st_str list;
    st_str_init(&list, &model->ctx->mem);
    for (uint32_t k = 0; k < ports->n && list.len < 400; k++) {
        st_str_addf(&list, "%s%s", k != 0 ? ", " : "", ports->names[k]);
    }
    const char *near = st_nearest(name, ports->names, ports->n);
    const stator_status status = st_fail(
        err, STATOR_NOT_FOUND, "the model has no %s '%s'%s%s%s; its %ss are %s", what, name,
        near != NULL ? " (did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?)" : "",
        what, ports->n != 0 && st_str_ok(&list) ? list.data : "not known yet");
    st_str_deinit(&list);
    return status;
}

static stator_status find_port(const stator_model *model, const char *what, const char *name,
                               uint32_t *out_index)
{
    const bool is_input = strcmp(what, "input") == 0;
    port_names ports = {.n = is_input ? stator_model_input_count(model)
                                      : stator_model_output_count(model)};
    stator_diag *diag = NULL;
    *out_index = 0;
    stator_status status =
        name == NULL
            ? st_fail(&diag, STATOR_INVALID_ARGUMENT, "the %s's name is missing", what)
            : list_ports(model, is_input ? stator_model_input_info : stator_model_output_info,
                         &ports, &diag);
    uint32_t k = 0;
    while (status == STATOR_OK && k < ports.n && strcmp(ports.names[k], name) != 0) {
        k++;
    }
    if (status == STATOR_OK && k == ports.n) {
        status = fail_name(model, what, name, &ports, &diag);
    }
    *out_index = status == STATOR_OK ? k : 0;
    st_free(&model->ctx->mem, (void *)(uintptr_t)ports.names);
    st_free(&model->ctx->mem, ports.made);
    return st_ctx_fail(model->ctx, status, diag);
}

stator_status stator_model_find_input(const stator_model *model, const char *name,
                                      uint32_t *out_index)
{
    return find_port(model, "input", name, out_index);
}

stator_status stator_model_find_output(const stator_model *model, const char *name,
                                       uint32_t *out_index)
{
    return find_port(model, "output", name, out_index);
}
