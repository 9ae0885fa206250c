/* Writing the graph of one part.
 *
 * In: the part's nodes and which values are read elsewhere. Out: a graph of the same module whose
 * inputs are the values that the part reads of others, whose outputs are those that escape, and the
 * lists that tie both to the whole graph. The map by value is the only array of the whole graph's
 * length; the places that a part touched are cleared after it. */
#include "core/compile/partition_work.h"

#include <stdio.h>

/* Room for the part's lists: operands, results and nodes with the constants copied in. */
static stator_status alloc_lists(st_part_work *w, st_part *part, stator_diag **err)
{
    uint64_t n_operands = 0;
    uint64_t n_results = 0;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const stator_node_row *row = stator_node_at(w->v, part->nodes[i]);
        n_operands += row->operand_count;
        n_results += row->result_count;
    }
    const uint64_t n_copied = part->n_nodes + n_operands + 1u;
    part->in = st_calloc(w->mem, n_operands + n_results + n_copied, sizeof *part->in);
    ST_TRY_MEM(part->in, err);
    part->out = part->in + n_operands;
    part->node_of = part->out + n_results;
    return STATOR_OK;
}

/* The value's own name, if it has one that no earlier input has: values of nodes may share names,
 * and one may be named as another is numbered. */
static const char *input_name(const st_part_work *w, stator_builder *b, stator_ref value,
                              char room[32])
{
    const char *given = stator_string_at(w->v, stator_value_at(w->v, value)->name);
    if (given[0] != '\0' && !st_build_has_input(b, given)) {
        return given;
    }
    (void)snprintf(room, 32, "v%u", value);
    for (uint32_t n = 2; st_build_has_input(b, room); n++) {
        (void)snprintf(room, 32, "v%u.%u", value, n);
    }
    return room;
}

static stator_status add_input(st_part_work *w, stator_builder *b, st_part *part, stator_ref value,
                               stator_diag **err)
{
    char room[32];
    const stator_value_row *row = stator_value_at(w->v, value);
    const char *given = input_name(w, b, value, room);
    ST_TRY(st_build_input(b, given, row->type, &w->map[value], err));
    st_build_set_witness(b, w->map[value], row->witness);
    part->in[part->n_in++] = value;
    return STATOR_OK;
}

/* Inputs must come before nodes: a first walk declares them. */
static stator_status declare_inputs(st_part_work *w, stator_builder *b, st_part *part,
                                    uint32_t number, stator_diag **err)
{
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const stator_node_row *row = stator_node_at(w->v, part->nodes[i]);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(w->v, row, k);
            if (operand == 0 || w->map[operand] != 0) {
                continue;
            }
            const stator_ref producer = stator_value_at(w->v, operand)->node;
            if (producer == 0 ||
                (w->part_of[producer] != number && !st_part_is_constant(w, producer))) {
                ST_TRY(add_input(w, b, part, operand, err));
            }
        }
    }
    return STATOR_OK;
}

static stator_status copy_node(st_part_work *w, stator_builder *b, st_part *part, stator_ref node,
                               stator_diag **err)
{
    ST_TRY(st_build_clone(b, w->graph, node, node, w->map, err));
    part->node_of[st_graph_view(b->graph)->n_nodes] = node;
    return STATOR_OK;
}

static stator_status copy_nodes(st_part_work *w, stator_builder *b, st_part *part,
                                stator_diag **err)
{
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const stator_node_row *row = stator_node_at(w->v, part->nodes[i]);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(w->v, row, k);
            const stator_ref producer = operand != 0 ? stator_value_at(w->v, operand)->node : 0;
            if (producer != 0 && w->map[operand] == 0 && st_part_is_constant(w, producer)) {
                ST_TRY(copy_node(w, b, part, producer, err));
            }
        }
        ST_TRY(copy_node(w, b, part, part->nodes[i], err));
    }
    return STATOR_OK;
}

static stator_status add_outputs(st_part_work *w, stator_builder *b, st_part *part,
                                 stator_diag **err)
{
    char name[32];
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const stator_node_row *row = stator_node_at(w->v, part->nodes[i]);
        for (uint32_t k = 0; k < row->result_count; k++) {
            const stator_ref value = row->result_begin + k;
            if (w->escapes[value]) {
                (void)snprintf(name, sizeof name, "v%u", value);
                ST_TRY(st_build_output(b, name, w->map[value], err));
                part->out[part->n_out++] = value;
            }
        }
    }
    for (uint32_t i = part->n_nodes; part->n_out == 0 && i-- > 0;) {
        /* Nobody reads this part; it must still be a graph. */
        const stator_node_row *row = stator_node_at(w->v, part->nodes[i]);
        if (row->result_count != 0) {
            ST_TRY(st_build_output(b, "unused", w->map[row->result_begin], err));
            part->out[part->n_out++] = row->result_begin;
        }
    }
    return STATOR_OK;
}

static void clear_map(st_part_work *w, const st_part *part)
{
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const stator_node_row *row = stator_node_at(w->v, part->nodes[i]);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            w->map[stator_operand(w->v, row, k)] = 0;
        }
        for (uint32_t k = 0; k < row->result_count; k++) {
            w->map[row->result_begin + k] = 0;
        }
    }
}

/* A control-flow node that the host runs has no graph: its operands and results as they are. */
static void list_ports(const st_part_work *w, st_part *part)
{
    const stator_node_row *row = stator_node_at(w->v, part->nodes[0]);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        part->in[part->n_in++] = stator_operand(w->v, row, k);
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        part->out[part->n_out++] = row->result_begin + k;
    }
}

stator_status st_part_write(st_part_work *w, st_part *part, uint32_t number, stator_diag **err)
{
    ST_TRY(alloc_lists(w, part, err));
    if (part->color == ST_COLOR_HOST) {
        list_ports(w, part);
        return STATOR_OK;
    }
    char name[32];
    stator_builder *b = NULL;
    (void)snprintf(name, sizeof name, "part%u", number);
    ST_TRY(st_builder_create(w->graph->module, name, &b, err));
    stator_status status = declare_inputs(w, b, part, number, err);
    ST_THEN(status, copy_nodes(w, b, part, err));
    ST_THEN(status, add_outputs(w, b, part, err));
    clear_map(w, part);
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    return st_builder_finish(b, &part->graph, err);
}
