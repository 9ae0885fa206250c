/* The first parameters, states and step number of a training step; see stator/train.h.
 *
 * Random weights w of a product or convolution: uniform in (-b, b), b = 1 / sqrt(fan-in), PyTorch's
 * default for both. How a parameter is used says what it is: its first reader, behind views and
 * casts. */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/philox.h"
#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/host/model.h"
#include "core/runtime/tensor.h"
#include "ir/builder.h"
#include "ir/optable.h"
#include <stator/ops.h>
#include <stator/train.h>

#include <math.h>
#include <string.h>

typedef struct state_maker {
    stator_ctx *ctx;
    stator_train_state_options options;
    const stator_graph *graph; /* of the model */
    const stator_graph_view *v, *step;
    const st_optable *ops;
    stator_ref *reader; /* by value of the model: its first reader */
    uint32_t *place;    /* and the operand of that */
} state_maker;

/* ---- what a parameter is ---- */

static void find_readers(const state_maker *m)
{
    for (stator_ref node = 1; node <= m->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(m->v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(m->v, row, k);
            if (operand != 0 && m->reader[operand] == 0) {
                m->reader[operand] = node;
                m->place[operand] = k;
            }
        }
    }
}

/* The parameter as its reader has it, behind views and casts. */
static stator_ref behind_views(const state_maker *m, stator_ref value)
{
    while (m->reader[value] != 0) {
        const stator_node_row *row = stator_node_at(m->v, m->reader[value]);
        if ((stator_op_at(m->v, row->op)->flags & STATOR_OP_VIEW) == 0 &&
            row->op != STATOR_OPCODE_cast) {
            break;
        }
        value = row->result_begin;
    }
    return value;
}

static double size_at(const state_maker *m, stator_ref value, uint32_t axis)
{
    const stator_type_row *type = stator_value_type(m->v, value);
    int64_t size = 1;
    (void)stator_sym_is_const(m->v, stator_dim_at(m->v, type, axis), &size);
    return (double)size;
}

/* How many elements each element of a product's or a convolution's result adds up. */
static double fan_in(const state_maker *m, stator_ref value)
{
    const stator_ref node = m->reader[value];
    const uint32_t rank = stator_value_type(m->v, value)->rank;
    const stator_attr_row *hidden = node != 0 ? st_graph_attr(m->graph, node, "hidden") : NULL;
    double fan = 1;
    if (hidden != NULL) {
        return (double)stator_attr_int_at(m->v, hidden, 0);
    }
    if (node != 0 && stator_node_at(m->v, node)->op == STATOR_OPCODE_matmul &&
        m->place[value] == 1) {
        return size_at(m, value, rank - 2u);
    }
    for (uint32_t axis = 1; axis < rank; axis++) {
        fan *= size_at(m, value, axis);
    }
    return fan;
}

/* The row of the op table of the value's reader; NULL: there is none. */
static const st_op_def *reader_def(const state_maker *m, stator_ref value)
{
    const stator_ref node = m->reader[value];
    return node != 0 ? st_optable_at(m->ops, stator_node_at(m->v, node)->op)->def : NULL;
}

/* Vectors that multiply, and variances, are 1 at first. */
static bool begins_as_one(const state_maker *m, stator_ref value)
{
    const st_op_def *def = reader_def(m, value);
    uint32_t len = 0;
    char mark = 0;
    const char *name =
        def != NULL ? st_list_name(def->operands, m->place[value], &len, &mark) : NULL;
    const stator_node_row *row = name != NULL ? stator_node_at(m->v, m->reader[value]) : NULL;
    return name != NULL && (row->op == STATOR_OPCODE_mul || (len == 1 && name[0] == 'w') ||
                            (len == 3 && strncmp(name, "var", 3) == 0));
}

/* Does the parameter begin with random numbers? Not one of several axes that a normalisation with
 * running statistics reads as a vector. */
static bool begins_at_random(const state_maker *m, stator_ref param, stator_ref used)
{
    const st_op_def *def = reader_def(m, used);
    const bool is_norm = def != NULL && def->statistics != NULL && m->place[used] != 0;
    return stator_value_type(m->v, param)->rank >= 2 && !is_norm;
}

/* ---- numbers ---- */

static void fill_uniform(const state_maker *m, stator_ref param, double bound, uint64_t n,
                         stator_dtype dtype, void *data)
{
    const uint64_t key = m->options.seed * 0x9E3779B97F4A7C15u + param;
    uint32_t words[4];
    for (uint64_t i = 0; i < n; i++) {
        if (i % 4u == 0) {
            st_philox(i / 4u, key, words);
        }
        st_store_f64(dtype, data, (int64_t)i,
                     bound * ((double)(words[i % 4u] >> 8) * 0x1p-23 - 1 + 0x1p-24));
    }
}

static stator_status fill_parameter(const state_maker *m, stator_ref param, stator_tensor *t,
                                    stator_diag **err)
{
    const stator_value_row *row = stator_value_at(m->v, param);
    const void *data = NULL;
    const stator_ref used = behind_views(m, param);
    const stator_dtype dtype = stator_tensor_dtype(t);
    const uint64_t n = stator_tensor_size_bytes(t) * 8u / st_dtype_bits(dtype);
    if (m->options.init == STATOR_INIT_RANDOM && st_dtype_class(dtype) == STATOR_CLASS_FLOAT) {
        if (begins_at_random(m, param, used)) {
            fill_uniform(m, param, 1 / sqrt(fmax(fan_in(m, used), 1)), n, dtype,
                         stator_tensor_data(t));
            return STATOR_OK;
        }
        for (uint64_t i = 0; i < n; i++) {
            st_store_f64(dtype, stator_tensor_data(t), (int64_t)i, begins_as_one(m, used));
        }
        return STATOR_OK;
    }
    ST_TRY(st_blob_get(st_graph_blob_at(m->graph, row->blob), &data, err));
    memcpy(stator_tensor_data(t), data, stator_tensor_size_bytes(t));
    return STATOR_OK;
}

/* ---- tensors ---- */

/* On the device that is asked for. *tensor is replaced. */
static stator_status place_tensor(const state_maker *m, stator_tensor **tensor, stator_diag **err)
{
    const DLTensor *view = &(*tensor)->view;
    stator_tensor *placed = NULL;
    if (m->options.device == NULL || strcmp(m->options.device, "cpu") == 0) {
        return STATOR_OK;
    }
    stator_status status = stator_tensor_create_on(m->ctx, m->options.device, (*tensor)->dtype,
                                                   (uint32_t)view->ndim, view->shape, &placed);
    ST_THEN(status, stator_tensor_copy(m->ctx, placed, *tensor));
    if (status != STATOR_OK) {
        stator_tensor_release(placed);
        return st_fail(err, status, "%s", stator_ctx_error_text(m->ctx));
    }
    stator_tensor_release(*tensor);
    *tensor = placed;
    return STATOR_OK;
}

static stator_status make_tensor(const state_maker *m, stator_ref input, stator_tensor **out,
                                 stator_diag **err)
{
    const stator_value_row *row = stator_value_at(m->step, input);
    const stator_type_row *type = stator_value_type(m->step, input);
    const stator_ref param = st_graph_find_param(m->graph, stator_string_at(m->step, row->name));
    int64_t dims[STATOR_RANK_MAX];
    stator_tensor *t = NULL;
    if (param == 0 && (row->flags & STATOR_VALUE_WRITTEN) == 0) {
        return STATOR_OK;
    }
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        ST_FAIL_IF(!stator_sym_is_const(m->step, stator_dim_at(m->step, type, axis), &dims[axis]),
                   err, STATOR_INVALID_ARGUMENT, "input '%s' of the step has no known size",
                   stator_string_at(m->step, row->name));
    }
    ST_TRY(st_tensor_create(&m->ctx->mem, &m->ctx->pool, type->dtype, type->rank, dims, &t, err));
    memset(stator_tensor_data(t), 0, stator_tensor_size_bytes(t));
    stator_status status = param != 0 ? fill_parameter(m, param, t, err) : STATOR_OK;
    ST_THEN(status, place_tensor(m, &t, err));
    if (status != STATOR_OK) {
        stator_tensor_release(t);
        return status;
    }
    *out = t;
    return STATOR_OK;
}

static void drop(stator_tensor **in, uint8_t *is_made, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (is_made[k]) {
            stator_tensor_release(in[k]);
            in[k] = NULL;
        }
    }
}

/* Inputs of the step that are no parameters of it stand in the order of calls. */
static stator_status make_all(const state_maker *m, uint32_t n, stator_tensor **in,
                              stator_diag **err)
{
    uint8_t *is_made = st_calloc(&m->ctx->mem, n + UINT64_C(1), 1);
    ST_TRY_MEM(is_made, err);
    stator_status status = STATOR_OK;
    uint32_t k = 0;
    for (stator_ref i = 1; status == STATOR_OK && i <= m->step->n_inputs; i++) {
        if ((stator_value_at(m->step, i)->flags & STATOR_VALUE_PARAM) == 0) {
            stator_tensor *made = NULL;
            status = make_tensor(m, i, &made, err);
            in[k] = made != NULL ? made : in[k];
            is_made[k++] = made != NULL;
        }
    }
    if (status != STATOR_OK) {
        drop(in, is_made, n);
    }
    st_free(&m->ctx->mem, is_made);
    return status;
}

static stator_status make_state(state_maker *m, const stator_model *model, const stator_model *step,
                                uint32_t n, stator_tensor **in, stator_diag **err)
{
    const uint32_t wanted = stator_model_input_count(step);
    const stator_graph *graph = NULL;
    ST_TRY(st_model_need_graph(model, &m->graph, err));
    ST_TRY(st_model_need_graph(step, &graph, err));
    ST_FAIL_IF(n != wanted || (in == NULL && n != 0), err, STATOR_INVALID_ARGUMENT,
               "room for %u inputs given, the step has %u", in != NULL ? n : 0, wanted);
    m->v = st_graph_view(m->graph);
    m->step = st_graph_view(graph);
    m->ops = m->graph->module->ops;
    st_mem *mem = &m->ctx->mem;
    m->reader = st_calloc(mem, m->v->n_values + UINT64_C(1), sizeof *m->reader);
    m->place = st_calloc(mem, m->v->n_values + UINT64_C(1), sizeof *m->place);
    stator_status status = m->reader != NULL && m->place != NULL ? STATOR_OK : st_fail_oom(err);
    if (status == STATOR_OK) {
        find_readers(m);
        status = make_all(m, n, in, err);
    }
    st_free(mem, m->reader);
    st_free(mem, m->place);
    return status;
}

stator_status stator_train_state(const stator_model *model, const stator_model *step,
                                 const stator_train_state_options *options, uint32_t n,
                                 stator_tensor **in)
{
    static const stator_train_state_options nothing = {.struct_size = sizeof nothing};
    state_maker m = {.ctx = model->ctx};
    stator_diag *diag = NULL;
    stator_status status = ST_SIZED_READ(stator_train_state_options, &m.options,
                                         options != NULL ? options : &nothing, &diag);
    if (status == STATOR_OK && m.options.init > STATOR_INIT_RANDOM) {
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT,
                         "init is %u; expected one of stator_train_init", m.options.init);
    }
    ST_THEN(status, make_state(&m, model, step, n, in, &diag));
    return st_ctx_fail(m.ctx, status, diag);
}
