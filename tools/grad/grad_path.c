/* The values that a gradient passes through: see grad.h. */
#include "tools/grad/grad.h"

#include "core/base/check.h"

#include <stdlib.h>
#include <string.h>

static bool is_float(const stator_graph_view *v, stator_ref value)
{
    return st_dtype_class(stator_value_type(v, value)->dtype) == STATOR_CLASS_FLOAT;
}

static bool is_named(const stator_graph_view *v, stator_ref input,
                     const stator_differentiate_options *o)
{
    const char *name = stator_string_at(v, stator_value_at(v, input)->name);
    bool found = false;
    for (uint32_t k = 0; k < o->name_count; k++) {
        found |= strcmp(o->names[k], name) == 0;
    }
    return found;
}

/* Marks the inputs of these kinds; how many. */
static uint32_t mark_inputs(const stator_graph_view *v, const stator_differentiate_options *o,
                            uint32_t wrt, uint8_t *depends)
{
    uint32_t n = 0;
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const bool is_param = (stator_value_at(v, i)->flags & STATOR_VALUE_PARAM) != 0;
        const bool is_kind = (wrt & (is_param ? STATOR_WRT_PARAMS : STATOR_WRT_INPUTS)) != 0;
        if (is_float(v, i) && (is_kind || is_named(v, i, o))) {
            depends[i] = 1;
            n++;
        }
    }
    return n;
}

static void mark_depending(const stator_graph_view *v, uint8_t *depends)
{
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        uint8_t any = 0;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            any |= operand != 0 && depends[operand];
        }
        for (uint32_t k = 0; k < row->result_count; k++) {
            depends[row->result_begin + k] = any && is_float(v, row->result_begin + k);
        }
    }
}

static bool is_differentiated(const stator_graph_view *v, uint32_t k, const char *loss)
{
    const char *name = stator_string_at(v, stator_ref_at(v, v->output_name_begin + k));
    char made[32];
    (void)snprintf(made, sizeof made, "output_%u", k);
    return loss == NULL || strcmp(name[0] != '\0' ? name : made, loss) == 0;
}

/* From the outputs back: what is needed and depends stays. */
static void keep_needed(const stator_graph_view *v, const char *loss, uint8_t *depends,
                        uint8_t *needed)
{
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        needed[stator_output_at(v, k)] |= is_differentiated(v, k, loss);
    }
    for (stator_ref node = v->n_nodes; node >= 1; node--) {
        const stator_node_row *row = stator_node_at(v, node);
        uint8_t any = 0;
        for (uint32_t k = 0; k < row->result_count; k++) {
            any |= needed[row->result_begin + k] && depends[row->result_begin + k];
        }
        for (uint32_t k = 0; any && k < row->operand_count; k++) {
            needed[stator_operand(v, row, k)] = 1; /* of an absent one: place 0 */
        }
    }
    for (stator_ref value = 1; value <= v->n_values; value++) {
        depends[value] &= needed[value];
    }
}

uint8_t *grad_path(const stator_graph_view *v, const stator_differentiate_options *o)
{
    uint8_t *depends = calloc(v->n_values + UINT64_C(1), 1);
    uint8_t *needed = calloc(v->n_values + UINT64_C(1), 1);
    if (depends != NULL && needed != NULL) {
        if (mark_inputs(v, o, o->wrt, depends) == 0) {
            if (mark_inputs(v, o, STATOR_WRT_PARAMS, depends) == 0) {
                (void)mark_inputs(v, o, STATOR_WRT_INPUTS, depends);
            }
        }
        mark_depending(v, depends);
        keep_needed(v, o->loss, depends, needed);
    }
    if (needed == NULL) {
        free(depends);
        depends = NULL;
    }
    free(needed);
    return depends;
}
