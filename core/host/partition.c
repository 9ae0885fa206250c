/* Partitioning; see compile.h.
 *
 * Method: nodes are walked in topological order; a node's level is the highest level of its
 * producers, one more where the producer has the other color. Nodes of equal color and level form a
 * part. An edge between two parts always goes to a higher level, so the parts are convex and the
 * division has no circle, in linear time. ATOMIC groups are contracted first: all members get the
 * level of the highest, repeated until nothing changes; a group that would have to wait for itself
 * is not convex and refused. Constants belong to no part: each part that reads one gets its own
 * copy of the node. */
#include "core/host/compile.h"

#include <stdio.h>
#include <string.h>

typedef struct work {
    stator_graph *graph;
    const stator_graph_view *v;
    const uint8_t *color;
    const uint32_t *group;
    uint32_t *level;   /* by node */
    uint32_t *part_of; /* by node; UINT32_MAX for constants */
    uint8_t *escapes;  /* by value: read outside its part */
    st_mem *mem;
} work;

static int is_constant(const work *w, stator_ref node)
{
    const stator_op_desc *op = stator_op_at(w->v, stator_node_at(w->v, node)->op);
    return (op->flags & STATOR_OP_CONSTANT) != 0;
}

static uint32_t level_of(const work *w, stator_ref node)
{
    const stator_node_row *row = stator_node_at(w->v, node);
    uint32_t level = 0;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(w->v, row, k);
        const stator_ref producer = operand != 0 ? stator_value_at(w->v, operand)->node : 0;
        if (producer == 0 || is_constant(w, producer)) {
            continue;
        }
        const uint32_t step = w->color[producer] != w->color[node] ? 1u : 0u;
        if (w->level[producer] + step > level) {
            level = w->level[producer] + step;
        }
    }
    return level;
}

/* Raises every member of a group to its highest level; 1 when something changed. */
static int level_groups(work *w, uint32_t *highest, uint32_t n_groups)
{
    int changed = 0;
    memset(highest, 0, (n_groups + 1u) * sizeof *highest);
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        const uint32_t g = w->group[n];
        if (g != 0 && w->level[n] > highest[g]) {
            highest[g] = w->level[n];
        }
    }
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        const uint32_t g = w->group[n];
        if (g != 0 && w->level[n] != highest[g]) {
            w->level[n] = highest[g];
            changed = 1;
        }
    }
    return changed;
}

static stator_status assign_levels(work *w, stator_diag **err)
{
    uint32_t n_groups = 0;
    for (stator_ref n = 1; w->group != NULL && n <= w->v->n_nodes; n++) {
        n_groups = w->group[n] > n_groups ? w->group[n] : n_groups;
    }
    uint32_t *highest = st_calloc(w->mem, n_groups + 1u, sizeof *highest);
    if (highest == NULL) {
        return st_fail_oom(err);
    }
    int changed = 1;
    for (uint32_t round = 0; changed; round++) {
        if (round > w->v->n_nodes + 1u) {
            st_free(w->mem, highest);
            return st_fail(err, STATOR_FAILED_PRECONDITION,
                           "an ATOMIC group of the backend is not convex: a node outside lies "
                           "between two of its members");
        }
        changed = 0;
        for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
            const uint32_t level = is_constant(w, n) ? 0 : level_of(w, n);
            if (level > w->level[n]) {
                w->level[n] = level;
                changed = 1;
            }
        }
        if (n_groups != 0) {
            changed |= level_groups(w, highest, n_groups);
        } else {
            changed = 0;
        }
    }
    st_free(w->mem, highest);
    return STATOR_OK;
}

/* Numbers the parts by (level, color) and fills part_of. */
static uint32_t number_parts(work *w)
{
    uint32_t top = 0;
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        top = w->level[n] > top ? w->level[n] : top;
    }
    uint32_t n_parts = 0;
    for (uint32_t key = 0; key < 2u * (top + 1u); key++) {
        int used = 0;
        for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
            if (!is_constant(w, n) && 2u * w->level[n] + w->color[n] == key) {
                w->part_of[n] = n_parts;
                used = 1;
            }
        }
        n_parts += used ? 1u : 0u;
    }
    return n_parts;
}

static void mark_escapes(work *w)
{
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        const stator_node_row *row = stator_node_at(w->v, n);
        const stator_op_desc *op = stator_op_at(w->v, row->op);
        /* A graph needs an output: effects are kept by naming their result. */
        w->escapes[row->result_begin] |= (op->flags & STATOR_OP_EFFECT) != 0;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(w->v, row, k);
            const stator_ref producer = operand != 0 ? stator_value_at(w->v, operand)->node : 0;
            if (producer != 0 && w->part_of[producer] != w->part_of[n]) {
                w->escapes[operand] = 1;
            }
        }
    }
    for (uint32_t k = 0; k < w->v->n_outputs; k++) {
        w->escapes[stator_output_at(w->v, k)] = 1;
    }
    for (uint32_t k = 0; k < w->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_column_at(&w->v->write_backs, k);
        w->escapes[row->value] = 1;
    }
}

/* ---- writing one part ---- */

static stator_status add_input(work *w, stator_builder *b, st_part *part, stator_ref value,
                               stator_ref *map, stator_diag **err)
{
    char name[32];
    const stator_value_row *row = stator_value_at(w->v, value);
    const char *given = stator_string_at(w->v, row->name);
    if (given[0] == '\0') {
        (void)snprintf(name, sizeof name, "v%u", value);
        given = name;
    }
    ST_TRY(st_build_input(b, given, row->type, &map[value], err));
    st_build_set_witness(b, map[value], row->witness);
    part->in[part->n_in++] = value;
    return STATOR_OK;
}

/* Inputs must come before nodes: a first walk declares them. */
static stator_status declare_inputs(work *w, stator_builder *b, st_part *part, uint32_t number,
                                    stator_ref *map, stator_diag **err)
{
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        if (w->part_of[n] != number) {
            continue;
        }
        const stator_node_row *row = stator_node_at(w->v, n);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(w->v, row, k);
            if (operand == 0 || map[operand] != 0) {
                continue;
            }
            const stator_ref producer = stator_value_at(w->v, operand)->node;
            if (producer == 0 || w->part_of[producer] != number) {
                if (producer != 0 && is_constant(w, producer)) {
                    continue;
                }
                ST_TRY(add_input(w, b, part, operand, map, err));
            }
        }
    }
    return STATOR_OK;
}

static stator_status copy_nodes(work *w, stator_builder *b, uint32_t number, stator_ref *map,
                                stator_diag **err)
{
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        if (w->part_of[n] != number) {
            continue;
        }
        const stator_node_row *row = stator_node_at(w->v, n);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(w->v, row, k);
            const stator_ref producer = operand != 0 ? stator_value_at(w->v, operand)->node : 0;
            if (producer != 0 && map[operand] == 0 && is_constant(w, producer)) {
                ST_TRY(st_build_clone(b, w->graph, producer, producer, map, err));
            }
        }
        ST_TRY(st_build_clone(b, w->graph, n, n, map, err));
    }
    return STATOR_OK;
}

static stator_status add_outputs(work *w, stator_builder *b, st_part *part, uint32_t number,
                                 const stator_ref *map, stator_diag **err)
{
    char name[32];
    stator_ref last = 0;
    for (stator_ref value = 1; value <= w->v->n_values; value++) {
        const stator_ref node = stator_value_at(w->v, value)->node;
        if (node != 0 && w->escapes[value] && w->part_of[node] == number) {
            (void)snprintf(name, sizeof name, "v%u", value);
            ST_TRY(st_build_output(b, name, map[value], err));
            part->out[part->n_out++] = value;
            last = 0;
        } else if (node != 0 && part->n_out == 0 && w->part_of[node] == number) {
            last = value;
        }
    }
    if (last != 0) { /* nobody reads this part; it must still be a graph */
        ST_TRY(st_build_output(b, "unused", map[last], err));
        part->out[part->n_out++] = last;
    }
    return STATOR_OK;
}

static stator_status write_part(work *w, st_part *part, uint32_t number, stator_diag **err)
{
    const uint32_t n_values = w->v->n_values;
    part->in = st_calloc(w->mem, n_values + 1u, sizeof *part->in);
    part->out = st_calloc(w->mem, n_values + 1u, sizeof *part->out);
    stator_ref *map = st_calloc(w->mem, n_values + 1u, sizeof *map);
    stator_builder *b = NULL;
    stator_status status = STATOR_OK;
    if (part->in == NULL || part->out == NULL || map == NULL) {
        status = st_fail_oom(err);
        goto done;
    }
    char name[32];
    (void)snprintf(name, sizeof name, "part%u", number);
    ST_TRY_DONE(st_builder_create(w->graph->module, name, &b, err));
    ST_TRY_DONE(declare_inputs(w, b, part, number, map, err));
    ST_TRY_DONE(copy_nodes(w, b, number, map, err));
    ST_TRY_DONE(add_outputs(w, b, part, number, map, err));
    status = st_builder_finish(b, &part->graph, err);
    b = NULL;
done:
    if (b != NULL) {
        st_builder_abort(b);
    }
    st_free(w->mem, map);
    return status;
}

static stator_status write_parts(work *w, uint32_t n_parts, st_parts *out, stator_diag **err)
{
    out->parts = st_calloc(w->mem, n_parts + 1u, sizeof *out->parts);
    if (out->parts == NULL) {
        return st_fail_oom(err);
    }
    out->n_parts = n_parts;
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        if (!is_constant(w, n)) {
            out->n_nodes[w->color[n]]++;
            out->parts[w->part_of[n]].color = w->color[n];
        }
    }
    for (uint32_t i = 0; i < n_parts; i++) {
        ST_TRY(write_part(w, &out->parts[i], i, err));
    }
    return STATOR_OK;
}

stator_status st_partition(stator_graph *graph, const uint8_t *color, const uint32_t *group,
                           st_mem *mem, st_parts *out_parts, stator_diag **err)
{
    *out_parts = (st_parts){.mem = mem};
    const stator_graph_view *v = st_graph_view(graph);
    work w = {.graph = graph, .v = v, .color = color, .group = group, .mem = mem};
    w.level = st_calloc(mem, v->n_nodes + 1u, sizeof *w.level);
    w.part_of = st_calloc(mem, v->n_nodes + 1u, sizeof *w.part_of);
    w.escapes = st_calloc(mem, v->n_values + 1u, 1);
    stator_status status = STATOR_OK;
    if (w.level == NULL || w.part_of == NULL || w.escapes == NULL) {
        status = st_fail_oom(err);
        goto done;
    }
    memset(w.part_of, 0xff, (v->n_nodes + 1u) * sizeof *w.part_of);
    ST_TRY_DONE(assign_levels(&w, err));
    const uint32_t n_parts = number_parts(&w);
    mark_escapes(&w);
    status = write_parts(&w, n_parts, out_parts, err);
done:
    st_free(mem, w.level);
    st_free(mem, w.part_of);
    st_free(mem, w.escapes);
    if (status != STATOR_OK) {
        st_parts_deinit(out_parts);
    }
    return status;
}

void st_parts_deinit(st_parts *parts)
{
    for (uint32_t i = 0; parts->parts != NULL && i < parts->n_parts; i++) {
        st_free(parts->mem, parts->parts[i].in);
        st_free(parts->mem, parts->parts[i].out);
    }
    st_free(parts->mem, parts->parts);
    *parts = (st_parts){0};
}
