/* The joint model of a model: what it computes, and behind that its gradients; see stator/train.h.
 *
 * In: a graph, and which of its inputs and outputs are differentiated. Out: a graph of its own, as
 * if it had been imported, so that every value, also of the backward part, is one that compare,
 * verify and bisect can ask about.
 *
 *   (%x) { %y = sin(%x) }    gives    (%x, %tangent_y) { %y = sin(%x)  %1 = cos(%x)
 *                                                        %grad_x = mul(%tangent_y, %1) } */
#include "core/base/check.h"
#include "core/base/sized.h"
#include "core/host/model.h"
#include "core/train/joint.h"
#include "ir/gradient/gradient.h"
#include "ir/op_emitter.h"
#include <stator/train.h>

#include <stdio.h>
#include <string.h>

typedef struct joint {
    stator_differentiate_options options;
    st_module *module; /* a copy, which becomes the result */
    const stator_graph *from;
    const stator_graph_view *v;
    st_mem *mem;
    stator_emitter e;
    stator_ref *map;             /* values of `from` in the joint graph */
    stator_ref *inputs;          /* values of `from` that get a gradient */
    stator_ref *ys, *seeds, *xs; /* values of the joint graph */
    stator_ref *grads;
    uint32_t *y_names; /* strings */
    uint32_t n_x, n_y;
} joint;

/* ---- what is asked for ---- */

static bool is_float(const stator_graph_view *v, stator_ref value)
{
    return st_dtype_class(stator_value_type(v, value)->dtype) == STATOR_CLASS_FLOAT;
}

static const char *input_name(const joint *j, stator_ref input)
{
    return stator_string_at(j->v, stator_value_at(j->v, input)->name);
}

static stator_status fail_no_float(const joint *j, const char *what, const char *name,
                                   stator_ref value, stator_diag **err)
{
    return st_fail(err, STATOR_INVALID_ARGUMENT,
                   "%s '%s' is %s, and only values of a float dtype have a gradient", what, name,
                   st_dtype_name(stator_value_type(j->v, value)->dtype));
}

/* Marks the input of this name. */
static stator_status find_input(const joint *j, const char *name, uint8_t *is_wanted,
                                stator_diag **err)
{
    const char **names = st_calloc(j->mem, j->v->n_inputs + UINT64_C(1), sizeof *names);
    ST_TRY_MEM(names, err);
    stator_ref found = 0;
    for (stator_ref i = 1; i <= j->v->n_inputs; i++) {
        names[i - 1u] = input_name(j, i);
        found = strcmp(names[i - 1u], name) == 0 ? i : found;
    }
    stator_status status = STATOR_OK;
    if (found == 0) {
        status = st_joint_fail_unknown("parameter or input", name, names, j->v->n_inputs, err);
    } else if (!is_float(j->v, found)) {
        status = fail_no_float(j, "input", name, found, err);
    } else {
        is_wanted[found] = 1;
    }
    st_free(j->mem, (void *)(uintptr_t)names);
    return status;
}

/* Marks the inputs of a kind; how many there are. */
static uint32_t mark_inputs(const joint *j, uint32_t wrt, uint8_t *is_wanted)
{
    uint32_t n = 0;
    for (stator_ref i = 1; i <= j->v->n_inputs; i++) {
        const bool is_param = (stator_value_at(j->v, i)->flags & STATOR_VALUE_PARAM) != 0;
        if ((wrt & (is_param ? STATOR_WRT_PARAMS : STATOR_WRT_INPUTS)) != 0 && is_float(j->v, i)) {
            is_wanted[i] = 1;
            n++;
        }
    }
    return n;
}

static stator_status choose_inputs(joint *j, stator_diag **err)
{
    const stator_differentiate_options *o = &j->options;
    uint8_t *is_wanted = st_calloc(j->mem, j->v->n_inputs + UINT64_C(1), 1);
    stator_status status = is_wanted != NULL ? STATOR_OK : st_fail_oom(err);
    for (uint32_t k = 0; status == STATOR_OK && k < o->name_count; k++) {
        status = find_input(j, o->names[k], is_wanted, err);
    }
    if (status == STATOR_OK && mark_inputs(j, o->wrt, is_wanted) == 0 && o->name_count == 0) {
        const bool found = o->wrt == 0 && (mark_inputs(j, STATOR_WRT_PARAMS, is_wanted) != 0 ||
                                           mark_inputs(j, STATOR_WRT_INPUTS, is_wanted) != 0);
        status = found
                     ? STATOR_OK
                     : st_fail(err, STATOR_INVALID_ARGUMENT, "the model has no %s of a float dtype",
                               o->wrt == STATOR_WRT_PARAMS   ? "parameter"
                               : o->wrt == STATOR_WRT_INPUTS ? "input"
                                                             : "parameter or input");
    }
    for (stator_ref i = 1; status == STATOR_OK && i <= j->v->n_inputs; i++) {
        if (is_wanted[i]) {
            j->inputs[j->n_x++] = i;
        }
    }
    st_free(j->mem, is_wanted);
    return status;
}

/* ---- ports ---- */

/* An output to be differentiated, with a tangent unless it is the loss. */
static stator_status add_output(joint *j, uint32_t k, stator_diag **err)
{
    const stator_ref y = stator_output_at(j->v, k);
    char made[24];
    j->ys[j->n_y] = y;
    if (j->options.loss == NULL) {
        const uint32_t name =
            st_joint_port_name(j->e.b, "tangent", st_joint_output_name(j->v, k, made), NULL);
        ST_TRY_MEM(name != 0, err);
        ST_TRY(st_build_input(j->e.b, st_module_str(j->module, name),
                              stator_value_at(j->v, y)->type, &j->seeds[j->n_y], err));
    }
    j->n_y++;
    return STATOR_OK;
}

static stator_status choose_outputs(joint *j, stator_diag **err)
{
    uint32_t loss = 0;
    if (j->options.loss != NULL) {
        ST_TRY(st_joint_find_output(j->from, j->options.loss, &loss, err));
        const stator_ref value = stator_output_at(j->v, loss);
        ST_TRY(is_float(j->v, value) ? STATOR_OK
                                     : fail_no_float(j, "output", j->options.loss, value, err));
        return add_output(j, loss, err);
    }
    for (uint32_t k = 0; k < j->v->n_outputs; k++) {
        if (is_float(j->v, stator_output_at(j->v, k))) {
            ST_TRY(add_output(j, k, err));
        }
    }
    return j->n_y != 0
               ? STATOR_OK
               : st_fail(err, STATOR_INVALID_ARGUMENT, "the model has no output of a float dtype");
}

/* ---- the two parts ---- */

static void write_forward(joint *j)
{
    if (j->v->n_nodes != 0) {
        stator_emit_clone(&j->e, j->from, 1, j->v->n_nodes, j->map);
    }
    if (j->options.loss != NULL) {
        st_joint_begin_backward(j->e.b, j->from, j->ys[0]);
        j->seeds[0] =
            stator_emit_expr(&j->e, "ones_like(y)", "y", STATOR_IN(j->map[j->ys[0]]), STATOR_NONE);
        st_build_set_origin_ref(j->e.b, 0);
    }
    for (uint32_t k = 0; k < j->n_y; k++) {
        j->ys[k] = j->map[j->ys[k]];
    }
    for (uint32_t k = 0; k < j->n_x; k++) {
        j->xs[k] = j->map[j->inputs[k]];
    }
}

/* A gradient is the result of a node of the backward part, also where it is a tangent as it
 * came. */
static stator_ref own_gradient(joint *j, uint32_t k)
{
    const stator_graph_view *v = st_graph_view(j->e.b->graph);
    const stator_ref grad = j->grads[k];
    const stator_ref node = j->e.status == STATOR_OK ? stator_value_at(v, grad)->node : 0;
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(&j->e, grad, dims);
    if (node != 0 && stator_node_is_backward(v, node) && stator_value_at(v, grad)->name == 0) {
        return grad;
    }
    st_joint_begin_backward(j->e.b, j->from, j->inputs[k]);
    return stator_emit_op(&j->e, "reshape", STATOR_IN(grad),
                          STATOR_AT(STATOR_A_DIMS("shape", rank, dims)));
}

static void write_backward(joint *j)
{
    const st_gradient_request request = {
        .n_y = j->n_y, .n_x = j->n_x, .ys = j->ys, .seeds = j->seeds, .xs = j->xs};
    if (j->e.status == STATOR_OK) {
        stator_emit_check(&j->e, st_gradient_many(j->e.b, &request, j->grads, j->e.err));
    }
}

static void write_outputs(joint *j)
{
    st_map names;
    st_map_init(&names, j->mem);
    for (uint32_t k = 0; k < j->v->n_outputs; k++) {
        const uint32_t name = stator_ref_at(j->v, j->v->output_name_begin + k);
        stator_emit_check(&j->e, name == 0 || st_map_put(&names, name, 1) ? STATOR_OK
                                                                          : st_fail_oom(j->e.err));
    }
    ST_THEN(j->e.status, st_build_clone_outputs(j->e.b, j->from, j->map, j->e.err));
    for (uint32_t k = 0; j->e.status == STATOR_OK && k < j->n_x; k++) {
        const uint32_t name =
            st_joint_port_name(j->e.b, "grad", input_name(j, j->inputs[k]), &names);
        const stator_ref grad = own_gradient(j, k);
        const bool ok = name != 0 && st_map_put(&names, name, 1);
        if (!stator_emit_check(&j->e, ok ? STATOR_OK : st_fail_oom(j->e.err))) {
            break;
        }
        st_build_set_name(j->e.b, grad, st_module_str(j->module, name));
        stator_emit_output(&j->e, st_module_str(j->module, name), grad);
    }
    st_map_deinit(&names);
}

/* ---- the whole ---- */

static stator_status allocate(joint *j, stator_diag **err)
{
    const uint64_t x = j->v->n_inputs + UINT64_C(1), y = j->v->n_outputs + UINT64_C(1);
    j->map = st_calloc(j->mem, j->v->n_values + UINT64_C(1), sizeof *j->map);
    j->inputs = st_calloc(j->mem, x * 3u, sizeof *j->inputs);
    j->ys = st_calloc(j->mem, y * 2u, sizeof *j->ys);
    ST_TRY_MEM(j->map && j->inputs && j->ys, err);
    j->xs = j->inputs + x;
    j->grads = j->xs + x;
    j->seeds = j->ys + y;
    return STATOR_OK;
}

static stator_status build(joint *j, stator_diag **err)
{
    ST_TRY(allocate(j, err));
    ST_TRY(choose_inputs(j, err));
    ST_TRY(st_build_clone_inputs(j->e.b, j->from, j->map, err));
    ST_TRY(choose_outputs(j, err));
    write_forward(j);
    write_backward(j);
    write_outputs(j);
    return j->e.status;
}

static stator_status differentiate_module(st_module *module,
                                          const stator_differentiate_options *options,
                                          stator_diag **err)
{
    stator_builder *b = NULL;
    const st_joint_wishes nothing = {.is_normal = false};
    ST_TRY(st_joint_prepare(module, &nothing, err));
    joint j = {.options = *options,
               .module = module,
               .from = module->root,
               .v = st_graph_view(module->root),
               .mem = module->mem};
    ST_TRY(st_builder_create(module, stator_string_at(j.v, j.v->name), &b, err));
    j.e = st_op_emitter(b, err);
    stator_status status = build(&j, err);
    st_free(j.mem, j.map);
    st_free(j.mem, j.inputs);
    st_free(j.mem, j.ys);
    return st_joint_finish(b, status, err);
}

static stator_status read_options(const stator_differentiate_options *given,
                                  stator_differentiate_options *out, stator_diag **err)
{
    static const stator_differentiate_options nothing = {.struct_size = sizeof nothing};
    ST_TRY(ST_SIZED_READ(stator_differentiate_options, out, given != NULL ? given : &nothing, err));
    ST_TRY(st_check_flags(out->wrt, STATOR_WRT_PARAMS | STATOR_WRT_INPUTS,
                          "stator_differentiate_options.wrt", err));
    ST_FAIL_IF(out->name_count != 0 && out->names == NULL, err, STATOR_INVALID_ARGUMENT,
               "the list of names is NULL and not empty");
    for (uint32_t k = 0; k < out->name_count; k++) {
        ST_FAIL_IF(out->names[k] == NULL, err, STATOR_INVALID_ARGUMENT, "name %u is NULL", k);
    }
    return STATOR_OK;
}

stator_status stator_model_differentiate(const stator_model *model,
                                         const stator_differentiate_options *options,
                                         stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_differentiate_options whole;
    stator_status status = read_options(options, &whole, &diag);
    ST_THEN(status, st_model_copy(model, &copy, &diag));
    ST_THEN(status, differentiate_module(copy, &whole, &diag));
    return st_model_end_copy(model, copy, status, out_model, diag);
}
