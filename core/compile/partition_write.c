/* Writing the graph of one part.
 *
 * In: the part's nodes and which values are read elsewhere. Out: a graph of the same module whose
 * inputs are the values that the part reads of others, whose outputs are those that escape, and the
 * lists that tie both to the whole graph. The map by value is the only array of the whole graph's
 * length; the places that a part touched are cleared after it.
 *
 * Write-backs of the graph that end in an output of its last part are told to that part: nothing
 * that may fail runs after it, and nobody reads the input's old contents then, so that the part may
 * write where the input lies (st_program_plan_memory decides). */
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
    const uint64_t n_in = n_operands + w->v->n_write_backs; /* written inputs may not be read */
    part->in = st_calloc(w->mem, n_in + n_results + n_copied, sizeof *part->in);
    ST_TRY_MEM(part->in, err);
    part->out = part->in + n_in;
    part->node_of = part->out + n_results;
    return STATOR_OK;
}

/* ---- write-backs ---- */

static bool is_output(const st_part_work *w, stator_ref value)
{
    bool is_one = false;
    for (uint32_t k = 0; k < w->v->n_outputs && !is_one; k++) {
        is_one = stator_output_at(w->v, k) == value;
    }
    return is_one;
}

/* Is the value read behind the last part, as an output or by a write-back? */
static bool is_read_at_end(const st_part_work *w, stator_ref value)
{
    bool is_read = is_output(w, value);
    for (uint32_t k = 0; k < w->v->n_write_backs && !is_read; k++) {
        is_read = stator_write_back_at(w->v, k)->value == value;
    }
    return is_read;
}

/* May the part write the value where the input lies? */
static bool is_told(const st_part_work *w, uint32_t number, const stator_write_back_row *row)
{
    const stator_ref node = stator_value_at(w->v, row->value)->node;
    return number + 1u == w->n_parts && node != 0 && w->part_of[node] == number &&
           (stator_value_at(w->v, row->input)->flags & STATOR_VALUE_PARAM) == 0 &&
           !is_read_at_end(w, row->input) && !is_output(w, row->value);
}

/* Marks of a node while finals are looked for. */
enum { MARK_FINAL = 1, MARK_TOLD = 2, MARK_READ_SOONER = 4, MARK_READ_BY_FINAL = 8 };

/* Writes, and the pointwise nodes that they alone read, come behind everything that may fail or
 * that reads the old contents. */
static bool is_final(const st_part_work *w, stator_ref node)
{
    const stator_node_row *row = stator_node_at(w->v, node);
    const uint32_t flags = stator_op_at(w->v, row->op)->flags;
    const uint32_t mark = w->is_final[node];
    return w->part_of[node] + 1u == w->n_parts && (mark & MARK_READ_SOONER) == 0 &&
           (flags & STATOR_OP_RANDOM) == 0 && !stator_node_has_effect(w->v, row, st_graph_view) &&
           ((mark & MARK_TOLD) != 0 ||
            ((mark & MARK_READ_BY_FINAL) != 0 && (flags & STATOR_OP_POINTWISE) != 0));
}

void st_part_find_finals(st_part_work *w)
{
    for (uint32_t k = 0; k < w->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(w->v, k);
        if (is_told(w, w->n_parts - 1u, row)) {
            w->is_final[stator_value_at(w->v, row->value)->node] = MARK_TOLD;
        }
    }
    for (stator_ref node = w->v->n_nodes; w->v->n_write_backs != 0 && node > 0; node--) {
        const stator_node_row *row = stator_node_at(w->v, node);
        w->is_final[node] = is_final(w, node) ? MARK_FINAL : 0;
        const uint8_t mark = w->is_final[node] != 0 ? MARK_READ_BY_FINAL : MARK_READ_SOONER;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(w->v, row, k);
            w->is_final[operand != 0 ? stator_value_at(w->v, operand)->node : 0] |= mark;
        }
    }
}

/* ---- the graph ---- */

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
    for (uint32_t k = 0; k < w->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(w->v, k);
        if (w->map[row->input] == 0 && is_told(w, number, row)) {
            ST_TRY(add_input(w, b, part, row->input, err));
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

/* The node, behind the constants that it reads. */
static stator_status copy_with_constants(st_part_work *w, stator_builder *b, st_part *part,
                                         stator_ref node, stator_diag **err)
{
    const stator_node_row *row = stator_node_at(w->v, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(w->v, row, k);
        const stator_ref producer = operand != 0 ? stator_value_at(w->v, operand)->node : 0;
        if (producer != 0 && w->map[operand] == 0 && st_part_is_constant(w, producer)) {
            ST_TRY(copy_node(w, b, part, producer, err));
        }
    }
    return copy_node(w, b, part, node, err);
}

static stator_status copy_nodes(st_part_work *w, stator_builder *b, st_part *part,
                                stator_diag **err)
{
    for (uint32_t final = 0; final <= 1; final++) {
        for (uint32_t i = 0; i < part->n_nodes; i++) {
            if (w->is_final[part->nodes[i]] == final) {
                ST_TRY(copy_with_constants(w, b, part, part->nodes[i], err));
            }
        }
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

static stator_status add_write_backs(const st_part_work *w, stator_builder *b, uint32_t number,
                                     stator_diag **err)
{
    for (uint32_t k = 0; k < w->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(w->v, k);
        if (is_told(w, number, row)) {
            ST_TRY(st_build_write_back(b, w->map[row->input], w->map[row->value], err));
        }
    }
    return STATOR_OK;
}

static void clear_map(st_part_work *w, const st_part *part)
{
    for (uint32_t k = 0; k < part->n_in; k++) {
        w->map[part->in[k]] = 0;
    }
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
    ST_THEN(status, add_write_backs(w, b, number, err));
    clear_map(w, part);
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    return st_builder_finish(b, &part->graph, err);
}
