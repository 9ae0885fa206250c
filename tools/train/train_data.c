/* A data set: arrays of an .npz whose first axis counts rows, and batches of rows. */
#include "tools/train/training.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/philox.h"

#include <stdlib.h>
#include <string.h>

#define ERROR_SIZE 512u
#define INVALID "INVALID_ARGUMENT"

void train_data_free(train_data *data)
{
    for (uint32_t k = 0; k < data->n_ports; k++) {
        stator_tensor_release(data->ports[k].array);
    }
    cli_tensors_free(&data->arrays);
    free(data->order);
    data->n_ports = 0;
    data->order = NULL;
}

/* ---- reading ---- */

/* The elements in the dtype of the port: floats as floats, whole numbers as whole numbers. */
static cli_status convert(const train_data *data, train_port *port, stator_tensor *from)
{
    const stator_dtype have = stator_tensor_dtype(from), want = port->info.dtype;
    const DLTensor *view = stator_tensor_view(from);
    uint64_t n = 0;
    if (have == want) {
        stator_tensor_retain(from);
        port->array = from;
        return CLI_OK;
    }
    const uint32_t class_have = st_dtype_class(have), class_want = st_dtype_class(want);
    const bool is_float = class_have == STATOR_CLASS_FLOAT && class_want == STATOR_CLASS_FLOAT;
    const bool is_whole = (class_have == STATOR_CLASS_INT || class_have == STATOR_CLASS_UINT) &&
                          (class_want == STATOR_CLASS_INT || class_want == STATOR_CLASS_UINT);
    CLI_FAIL_IF(!(is_float || is_whole) || !st_numel(view->shape, (uint32_t)view->ndim, &n),
                data->json, INVALID, NULL, "%s: array '%s' is %s, and the input is %s", data->path,
                port->info.name, cli_dtype_name(have), cli_dtype_name(want));
    CLI_TRY_CTX(
        data->ctx, data->json,
        stator_tensor_create(data->ctx, want, (uint32_t)view->ndim, view->shape, &port->array));
    for (uint64_t i = 0; i < n; i++) {
        if (is_float) {
            st_store_f64(want, stator_tensor_data(port->array), (int64_t)i,
                         st_load_f64(have, stator_tensor_data(from), (int64_t)i));
        } else {
            st_store_i64(want, stator_tensor_data(port->array), (int64_t)i,
                         st_load_i64(have, stator_tensor_data(from), (int64_t)i));
        }
    }
    return CLI_OK;
}

static cli_status no_array(const train_data *data, const char *name)
{
    char near[96], list[400] = "";
    size_t used = 0;
    const char *names[CLI_OPTIONS_MAX];
    uint32_t n = 0;
    for (; n < data->arrays.count && n < CLI_OPTIONS_MAX; n++) {
        names[n] = data->arrays.names[n] != NULL ? data->arrays.names[n] : "";
        used += used < sizeof list ? (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                                      n != 0 ? ", " : "", names[n])
                                   : 0;
    }
    return cli_fail(data->json, "NOT_FOUND",
                    "data are arrays with the names of the model's inputs, and 'target'",
                    "%s has no array '%s'%s; it has %s", data->path, name,
                    cli_did_you_mean(name, names, n, near), n != 0 ? list : "none");
}

/* The first axis counts rows, the others are the input's. */
static cli_status check_shape(train_data *data, const train_port *port, const DLTensor *view)
{
    const stator_port_info *info = &port->info;
    bool is_same = view->ndim >= 1 && (uint32_t)view->ndim == info->rank;
    for (uint32_t axis = 1; is_same && axis < info->rank; axis++) {
        is_same = info->dims[axis] < 0 || info->dims[axis] == view->shape[axis];
    }
    char have[256], want[256];
    CLI_FAIL_IF(!is_same, data->json, INVALID, "the first axis counts rows",
                "%s: array '%s' is %s, and the input is %s", data->path, info->name,
                st_shape_text(view->shape, (uint32_t)view->ndim, have, sizeof have),
                st_shape_text(info->dims, info->rank, want, sizeof want));
    CLI_FAIL_IF(data->n_ports != 0 && view->shape[0] != data->rows, data->json, INVALID, NULL,
                "%s: array '%s' has %lld rows, '%s' has %lld", data->path, info->name,
                (long long)view->shape[0], data->ports[0].info.name, (long long)data->rows);
    CLI_FAIL_IF(view->shape[0] == 0, data->json, INVALID, NULL, "%s: array '%s' has no rows",
                data->path, info->name);
    data->rows = view->shape[0];
    return CLI_OK;
}

static cli_status add_port(train_data *data, const train_program *p, uint32_t input,
                           uint8_t *is_used)
{
    train_port *port = &data->ports[data->n_ports];
    uint32_t at = data->arrays.count;
    CLI_FAIL_IF(data->n_ports == CLI_OPTIONS_MAX, data->json, "UNIMPLEMENTED", NULL,
                "the model has more than %u inputs", CLI_OPTIONS_MAX);
    *port = (train_port){.input = input,
                         .is_target = p->roles[input] == STATOR_ROLE_TARGET,
                         .info = {.struct_size = sizeof port->info}};
    CLI_TRY_CTX(data->ctx, data->json, stator_model_input_info(p->model, input, &port->info));
    for (uint32_t k = 0; k < data->arrays.count; k++) {
        const char *name = data->arrays.names[k];
        at = name != NULL && strcmp(name, port->info.name) == 0 ? k : at;
    }
    if (at == data->arrays.count) {
        return no_array(data, port->info.name);
    }
    is_used[at] = 1;
    CLI_TRY(check_shape(data, port, stator_tensor_view(data->arrays.tensors[at])));
    CLI_TRY(convert(data, port, data->arrays.tensors[at]));
    port->row_bytes = stator_tensor_size_bytes(port->array) / (uint64_t)data->rows;
    data->n_ports++;
    return CLI_OK;
}

static cli_status check_used(const train_data *data, const uint8_t *is_used)
{
    for (uint32_t k = 0; k < data->arrays.count; k++) {
        const char *name = data->arrays.names[k] != NULL ? data->arrays.names[k] : "";
        CLI_FAIL_IF(!is_used[k], data->json, "NOT_FOUND",
                    strcmp(name, "target") == 0
                        ? "a loss of the table compares with 'target', and --loss names none"
                        : "data are arrays with the names of the model's inputs, and 'target'",
                    "%s: no input has the name of array '%s'", data->path, name);
    }
    return CLI_OK;
}

cli_status train_data_read(train_data *data, const train_program *p)
{
    char errbuf[ERROR_SIZE];
    data->arrays.ctx = data->ctx;
    CLI_FAIL_IF(!cli_read_npz(data->ctx, data->path, &data->arrays, errbuf), data->json, INVALID,
                NULL, "%s: %s", data->path, errbuf);
    uint8_t *is_used = calloc(data->arrays.count + 1u, 1);
    CLI_FAIL_IF(is_used == NULL, data->json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    cli_status status = CLI_OK;
    for (uint32_t k = 0; status == CLI_OK && k < p->n_in; k++) {
        if (p->roles[k] == STATOR_ROLE_DATA || p->roles[k] == STATOR_ROLE_TARGET) {
            status = add_port(data, p, k, is_used);
        }
    }
    status = status == CLI_OK ? check_used(data, is_used) : status;
    free(is_used);
    CLI_TRY(status);
    CLI_FAIL_IF(data->n_ports == 0, data->json, INVALID, NULL, "the model has no input for data");
    data->order = calloc((size_t)data->rows, sizeof *data->order);
    CLI_FAIL_IF(data->order == NULL, data->json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    train_data_order(data, false, 0, 0);
    return CLI_OK;
}

const train_port *train_data_target(const train_data *data)
{
    for (uint32_t k = 0; k < data->n_ports; k++) {
        if (data->ports[k].is_target) {
            return &data->ports[k];
        }
    }
    return NULL;
}

cli_status train_data_check_classes(const train_data *data, const train_port *port, int64_t classes,
                                    int64_t ignored)
{
    const int64_t *targets = stator_tensor_data(port->array);
    const uint64_t n = stator_tensor_size_bytes(port->array) / sizeof *targets;
    for (uint64_t i = 0; i < n; i++) {
        CLI_FAIL_IF(
            (targets[i] < 0 || targets[i] >= classes) && targets[i] != ignored, data->json, INVALID,
            NULL, "%s: element %llu of '%s' is %lld, and the model has %lld classes", data->path,
            (unsigned long long)i, port->info.name, (long long)targets[i], (long long)classes);
    }
    return CLI_OK;
}

/* ---- batches ---- */

void train_data_order(train_data *data, bool is_shuffled, uint64_t seed, uint64_t epoch)
{
    for (int64_t i = 0; i < data->rows; i++) {
        data->order[i] = i;
    }
    for (int64_t i = data->rows - 1; is_shuffled && i > 0; i--) { /* Fisher and Yates, 1938 */
        uint32_t words[4];
        st_philox((uint64_t)i, seed * 0x9E3779B97F4A7C15u + epoch, words);
        const uint64_t word = (uint64_t)words[0] << 32 | words[1];
        const int64_t k = (int64_t)(word % ((uint64_t)i + 1u));
        const int64_t kept = data->order[i];
        data->order[i] = data->order[k];
        data->order[k] = kept;
    }
}

const train_port *train_data_fixed(const train_data *data)
{
    for (uint32_t k = 0; k < data->n_ports; k++) {
        if (data->ports[k].info.dims[0] >= 0) {
            return &data->ports[k];
        }
    }
    return NULL;
}

cli_status train_data_fill(const train_data *data, int64_t first, int64_t n, stator_tensor **in)
{
    for (uint32_t k = 0; k < data->n_ports; k++) {
        const train_port *port = &data->ports[k];
        const DLTensor *view = stator_tensor_view(port->array);
        stator_tensor **batch = &in[port->input];
        int64_t shape[STATOR_RANK_MAX];
        memcpy(shape, view->shape, (size_t)view->ndim * sizeof *shape);
        shape[0] = n;
        if (*batch == NULL || stator_tensor_view(*batch)->shape[0] != n) {
            stator_tensor_release(*batch);
            *batch = NULL;
            CLI_TRY_CTX(data->ctx, data->json,
                        stator_tensor_create(data->ctx, port->info.dtype, (uint32_t)view->ndim,
                                             shape, batch));
        }
        for (int64_t i = 0; i < n; i++) {
            memcpy((char *)stator_tensor_data(*batch) + (uint64_t)i * port->row_bytes,
                   (const char *)stator_tensor_data(port->array) +
                       (uint64_t)data->order[first + i] * port->row_bytes,
                   port->row_bytes);
        }
    }
    return CLI_OK;
}
