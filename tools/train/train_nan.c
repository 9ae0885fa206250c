/* --nan-check: a step whose loss, parameters or states are no longer finite is made again on
 * `eager` from what it began with, and every value of its graph is looked at. The first node whose
 * operands are finite and a result of which is not is named; nodes come in the graph's order, the
 * forward part first, so all that follows from it comes behind it. Constants and inputs, which may
 * hold an infinity on purpose, are no nodes that do so. */
#include "tools/train/training.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_VALUES 64u /* observed in one call */

typedef struct look {
    const train *t;
    const stator_graph_view *v;
    uint8_t *is_bad;    /* by value: it holds a NaN or an infinity */
    double *low, *high; /* of a float value's elements */
} look;

/* ---- is the state finite? ---- */

static bool is_float(stator_dtype dtype)
{
    return st_dtype_class(dtype) == STATOR_CLASS_FLOAT;
}

/* Looks at all elements; true: they are finite. */
static bool find_range(const stator_tensor *tensor, double *low, double *high)
{
    const stator_dtype dtype = stator_tensor_dtype(tensor);
    const uint64_t n =
        is_float(dtype) ? stator_tensor_size_bytes(tensor) * 8u / st_dtype_bits(dtype) : 0;
    bool is_finite = true;
    *low = INFINITY;
    *high = -INFINITY;
    for (uint64_t i = 0; i < n; i++) {
        const double x = st_load_f64(dtype, stator_tensor_data(tensor), (int64_t)i);
        is_finite = is_finite && isfinite(x);
        *low = fmin(*low, x);
        *high = fmax(*high, x);
    }
    return is_finite;
}

/* A host copy of each input, of which the step is made again. */
cli_status train_nan_keep(train *t)
{
    for (uint32_t k = 0; k < t->step.n_in; k++) {
        const DLTensor *view = stator_tensor_view(t->step.in[k]);
        stator_tensor **kept = &t->kept[k];
        const bool fits = *kept != NULL && stator_tensor_size_bytes(*kept) ==
                                               stator_tensor_size_bytes(t->step.in[k]);
        if (!fits) {
            stator_tensor_release(*kept);
            *kept = NULL;
            CLI_TRY_CTX(t->ctx, t->settings->common.json,
                        stator_tensor_create(t->ctx, stator_tensor_dtype(t->step.in[k]),
                                             (uint32_t)view->ndim, view->shape, kept));
        }
        CLI_TRY_CTX(t->ctx, t->settings->common.json,
                    stator_tensor_copy(t->ctx, *kept, t->step.in[k]));
    }
    return CLI_OK;
}

cli_status train_nan_is_finite(const train *t, double loss, bool *out)
{
    *out = isfinite(loss);
    for (uint32_t k = 0; *out && k < t->step.n_in; k++) {
        double low, high;
        stator_tensor *host = NULL;
        if (train_is_state(t, k)) {
            CLI_TRY_CTX(t->ctx, t->settings->common.json,
                        cli_on_host(t->ctx, t->step.in[k], &host));
            *out = find_range(host, &low, &high);
            stator_tensor_release(host);
        }
    }
    return CLI_OK;
}

/* ---- looking at values ---- */

static cli_status call_group(const look *l, const stator_model *model, uint32_t n,
                             stator_tensor **out)
{
    const train *t = l->t;
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "eager",
                                            .flags = STATOR_COMPILE_NO_CACHE |
                                                     STATOR_COMPILE_STRICT_SIZES};
    stator_function *f = NULL;
    stator_status status = stator_compile((stator_model *)(uintptr_t)model, &options, &f);
    if (status == STATOR_OK) {
        status = stator_call_tensors(f, t->step.n_in, t->kept, n, out);
    }
    stator_function_destroy(f);
    return status == STATOR_OK ? CLI_OK : cli_fail_ctx(t->ctx, t->settings->common.json);
}

static cli_status look_at(look *l, uint32_t n, const stator_ref *values)
{
    stator_tensor *out[GROUP_VALUES] = {NULL};
    stator_model *model = NULL;
    CLI_TRY_CTX(l->t->ctx, l->t->settings->common.json,
                stator_x_model_with_outputs(l->t->step.model, n, values, &model));
    const cli_status status = call_group(l, model, n, out);
    for (uint32_t k = 0; k < n; k++) {
        if (status == CLI_OK) {
            l->is_bad[values[k]] = !find_range(out[k], &l->low[values[k]], &l->high[values[k]]);
        }
        stator_tensor_release(out[k]);
    }
    stator_model_destroy(model);
    return status;
}

/* All values of a float dtype. */
static cli_status look_at_all(look *l)
{
    stator_ref values[GROUP_VALUES];
    uint32_t n = 0;
    for (stator_ref value = 1; value <= l->v->n_values; value++) {
        if (is_float(stator_value_type(l->v, value)->dtype)) {
            values[n++] = value;
        }
        if (n == GROUP_VALUES || (value == l->v->n_values && n != 0)) {
            CLI_TRY(look_at(l, n, values));
            n = 0;
        }
    }
    return CLI_OK;
}

/* ---- naming ---- */

static bool is_culprit(const look *l, const stator_node_row *row)
{
    bool is_bad = false;
    for (uint32_t k = 0; k < row->result_count; k++) {
        is_bad = is_bad || l->is_bad[row->result_begin + k];
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(l->v, row, k);
        is_bad = is_bad && (operand == 0 || !l->is_bad[operand]);
    }
    return is_bad && row->operand_count != 0;
}

/* "; its operands are in [0, 0], [-1, 2]", of those of a float dtype. */
static void list_ranges(const look *l, const stator_node_row *row, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t k = 0; k < row->operand_count && used < size; k++) {
        const stator_ref operand = stator_operand(l->v, row, k);
        if (operand != 0 && is_float(stator_value_type(l->v, operand)->dtype)) {
            used += (size_t)snprintf(text + used, size - used, "%s[%.6g, %.6g]",
                                     used != 0 ? ", " : "", l->low[operand], l->high[operand]);
        }
    }
    if (used == 0) {
        (void)snprintf(text, size, "integers");
    }
}

static cli_status name_culprit(const look *l)
{
    char clean[CLI_CLEAN_BYTES];
    for (stator_ref input = 1; input <= l->v->n_inputs; input++) {
        if (l->is_bad[input]) {
            (void)fprintf(
                stderr, "input '%s' of that step is not finite\n",
                cli_clean(stator_string_at(l->v, stator_value_at(l->v, input)->name), clean));
            return CLI_OK;
        }
    }
    for (stator_ref node = 1; node <= l->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(l->v, node);
        if (is_culprit(l, row)) {
            stator_x_place place = {.struct_size = sizeof place};
            char ranges[256] = "";
            CLI_TRY_CTX(l->t->ctx, l->t->settings->common.json,
                        stator_x_describe(l->t->step.model, row->result_begin, &place));
            list_ranges(l, row, ranges, sizeof ranges);
            (void)fprintf(
                stderr,
                "the first value that is not finite is of %s, op %s; its operands are in %s\n",
                cli_clean(place.origin[0] != '\0' ? place.origin : place.node, clean),
                stator_op_at(l->v, row->op)->name, ranges);
            return CLI_OK;
        }
    }
    (void)fprintf(
        stderr, "on eager every node of that step whose operands are finite has finite results\n");
    return CLI_OK;
}

cli_status train_nan_name(const train *t)
{
    const stator_graph *graph = stator_model_graph(t->step.model);
    look l = {.t = t, .v = stator_ctx_host(t->ctx)->ir->view(graph)};
    const size_t n = (size_t)l.v->n_values + 1u;
    l.is_bad = calloc(n, 1);
    l.low = calloc(n, sizeof *l.low);
    l.high = calloc(n, sizeof *l.high);
    cli_status status =
        l.is_bad != NULL && l.low != NULL && l.high != NULL
            ? look_at_all(&l)
            : cli_fail(t->settings->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    status = status == CLI_OK ? name_culprit(&l) : status;
    free(l.is_bad);
    free(l.low);
    free(l.high);
    return status;
}
