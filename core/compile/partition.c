/* Partitioning; see partition.h.
 *
 * Method: nodes of equal level (partition_levels.c) and color form a part. An edge between two
 * parts always goes to a higher level, so the parts are convex and the division has no circle.
 * Control-flow nodes that the host runs are a part each, in node order within their level.
 * Constants belong to no part: each part that reads one gets its own copy of the node.
 *
 * Nodes are sorted by part once (counting sort), and what is kept of a part is as long as the part
 * itself: time and memory are linear in nodes and edges. */
#include "core/compile/partition_work.h"

#include <string.h>

/* Sorts the nodes by (level, color) into out->order and fills part_of; the number of parts. */
static uint32_t number_parts(st_part_work *w, uint32_t *count, uint32_t n_keys, st_parts *out)
{
    const uint32_t n_nodes = w->v->n_nodes;
    for (stator_ref n = 1; n <= n_nodes; n++) {
        if (!st_part_is_constant(w, n)) {
            count[ST_COLORS * w->level[n] + w->color[n] + 1u]++;
        }
    }
    for (uint32_t key = 0; key < n_keys; key++) {
        count[key + 1u] += count[key];
    }
    const uint32_t n_sorted = count[n_keys];
    for (stator_ref n = 1; n <= n_nodes; n++) {
        if (!st_part_is_constant(w, n)) {
            out->order[count[ST_COLORS * w->level[n] + w->color[n]]++] = n;
        }
    }
    uint32_t n_parts = 0;
    for (uint32_t i = 0; i < n_sorted; i++) {
        const stator_ref n = out->order[i];
        const stator_ref before = i > 0 ? out->order[i - 1u] : 0;
        n_parts += before == 0 || w->level[n] != w->level[before] ||
                   w->color[n] != w->color[before] || w->color[n] == ST_COLOR_HOST;
        w->part_of[n] = n_parts - 1u;
    }
    return n_parts;
}

static stator_status sort_nodes(st_part_work *w, st_parts *out, stator_diag **err)
{
    uint32_t top = 0;
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        top = w->level[n] > top ? w->level[n] : top;
    }
    const uint32_t n_keys = ST_COLORS * (top + 1u);
    uint32_t *count = st_calloc(w->mem, n_keys + UINT64_C(1), sizeof *count);
    out->order = st_calloc(w->mem, w->v->n_nodes + UINT64_C(1), sizeof *out->order);
    if (count != NULL && out->order != NULL) {
        out->n_parts = number_parts(w, count, n_keys, out);
        out->parts = st_calloc(w->mem, out->n_parts + UINT64_C(1), sizeof *out->parts);
    }
    st_free(w->mem, count);
    ST_TRY_MEM(out->parts, err);
    for (uint32_t i = 0; i < w->v->n_nodes && out->order[i] != 0; i++) {
        st_part *part = &out->parts[w->part_of[out->order[i]]];
        part->nodes = part->n_nodes == 0 ? &out->order[i] : part->nodes;
        part->color = w->color[out->order[i]];
        part->n_nodes++;
    }
    return STATOR_OK;
}

static void mark_escapes(st_part_work *w)
{
    for (stator_ref n = 1; n <= w->v->n_nodes; n++) {
        const stator_node_row *row = stator_node_at(w->v, n);
        /* A graph needs an output: effects are kept by naming their result. */
        if (row->result_count != 0) {
            w->escapes[row->result_begin] |= stator_node_has_effect(w->v, row, st_graph_view);
        }
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
        const stator_write_back_row *row = stator_write_back_at(w->v, k);
        w->escapes[row->value] = 1;
    }
}

static stator_status divide(st_part_work *w, st_parts *out, stator_diag **err)
{
    ST_TRY(st_part_edges(w, err));
    ST_TRY(st_part_levels(w, err));
    ST_TRY(sort_nodes(w, out, err));
    mark_escapes(w);
    w->n_parts = out->n_parts;
    st_part_find_finals(w);
    for (uint32_t i = 0; i < out->n_parts; i++) {
        ST_TRY(st_part_write(w, &out->parts[i], i, err));
    }
    return STATOR_OK;
}

stator_status st_partition(const st_partition_request *request, st_parts *out_parts,
                           stator_diag **err)
{
    st_mem *mem = request->mem;
    *out_parts = (st_parts){.mem = mem};
    const stator_graph_view *v = st_graph_view(request->graph);
    const uint64_t n = v->n_nodes + UINT64_C(1);
    st_part_work w = {.graph = request->graph,
                      .v = v,
                      .mem = mem,
                      .color = request->color,
                      .fallback = request->fallback,
                      .may_dissolve = request->may_dissolve};
    w.group = st_calloc(mem, n, sizeof *w.group);
    w.level = st_calloc(mem, n, sizeof *w.level);
    w.part_of = st_calloc(mem, n, sizeof *w.part_of);
    w.escapes = st_calloc(mem, v->n_values + UINT64_C(1), 1);
    w.map = st_calloc(mem, v->n_values + UINT64_C(1), sizeof *w.map);
    w.is_final = st_calloc(mem, n, sizeof *w.is_final);
    stator_status status = STATOR_OK;
    if (w.group == NULL || w.level == NULL || w.part_of == NULL || w.escapes == NULL ||
        w.map == NULL || w.is_final == NULL) {
        status = st_fail_oom(err);
    } else {
        memset(w.part_of, 0xff, n * sizeof *w.part_of);
        for (stator_ref node = 1; request->group != NULL && node < n; node++) {
            w.group[node] = w.color[node] == ST_COLOR_MAIN ? request->group[node] : 0;
        }
        status = divide(&w, out_parts, err);
    }
    st_free(mem, w.group);
    st_free(mem, w.level);
    st_free(mem, w.part_of);
    st_free(mem, w.escapes);
    st_free(mem, w.map);
    st_free(mem, w.is_final);
    st_free(mem, w.producer_begin);
    st_vec_free(mem, &w.producers);
    if (status != STATOR_OK) {
        st_parts_deinit(out_parts);
    }
    return status;
}

void st_parts_deinit(st_parts *parts)
{
    for (uint32_t i = 0; parts->parts != NULL && i < parts->n_parts; i++) {
        st_free(parts->mem, parts->parts[i].in); /* in, out and node_of are one block */
    }
    st_free(parts->mem, parts->parts);
    st_free(parts->mem, parts->order);
    *parts = (st_parts){0};
}
