/* The graph without a context, and the cuts that sets of its nodes make; see minify.h. */
#define _GNU_SOURCE
#include "tools/minify/minify.h"

#include "core/base/check.h"
#include "core/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define INLINE_ELEMENTS 64u /* docs/stir.md: larger data lie in the .blob */
#define GUESSED_SIZE 64     /* assumed for a symbolic size, for the memory that a value takes */

/* In the file: this, nodes and values from 0, refs, results. */
typedef struct header {
    uint32_t n_nodes, n_values, n_refs, n_results;
} header;

/* ---- in the child ---- */

static uint64_t count_elements(const stator_graph_view *v, const stator_type_row *type,
                               uint32_t *out_flags)
{
    uint64_t count = 1;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        const stator_ref dim = stator_dim_at(v, type, axis);
        const stator_atom_row *symbol = stator_sym_as_symbol(v, dim);
        int64_t size = 0;
        if (!stator_sym_is_const(v, dim, &size)) {
            size = GUESSED_SIZE;
        }
        if (symbol != NULL && (symbol->flags & STATOR_ATOM_UNBACKED) != 0) {
            *out_flags |= MINIFY_UNBACKED;
        }
        if (size < 0 || !st_mul_u64(count, (uint64_t)size, &count)) {
            count = UINT64_MAX / 64u;
        }
    }
    return count;
}

static void describe_values(const stator_graph_view *v, minify_value *values)
{
    for (uint32_t i = 1; i <= v->n_values; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        const stator_type_row *type = stator_type_at(v, row->type);
        const bool is_constant =
            row->node != 0 &&
            (stator_op_at(v, stator_node_at(v, row->node)->op)->flags & STATOR_OP_CONSTANT) != 0;
        const bool is_param = (row->flags & STATOR_VALUE_PARAM) != 0;
        uint32_t flags = (is_constant ? MINIFY_CONSTANT : 0u) | (is_param ? MINIFY_PARAM : 0u);
        const uint64_t count = count_elements(v, type, &flags);
        flags |= (is_constant || is_param) && count > INLINE_ELEMENTS ? MINIFY_LARGE : 0u;
        values[i] = (minify_value){.node = row->node, .flags = flags};
        if (!st_dtype_bytes(type->dtype, count, &values[i].size_bytes)) {
            values[i].size_bytes = UINT64_MAX / 64u;
        }
    }
}

/* Nodes and their operands; the number of operands. */
static uint32_t describe_nodes(const stator_graph_view *v, minify_node *nodes, uint32_t *refs,
                               minify_value *values)
{
    uint32_t n_refs = 0;
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        const stator_node_row *row = stator_node_at(v, n);
        const stator_op_desc *op = stator_op_at(v, row->op);
        nodes[n] = (minify_node){.flags = op->flags,
                                 .operand_begin = n_refs,
                                 .result_begin = row->result_begin,
                                 .result_count = row->result_count};
        (void)snprintf(nodes[n].op, sizeof nodes[n].op, "%s", op->name);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref value = stator_operand(v, row, k);
            if (value != 0) {
                refs[n_refs++] = value;
                values[value].flags |= MINIFY_READ;
            }
        }
        nodes[n].operand_count = n_refs - nodes[n].operand_begin;
    }
    return n_refs;
}

/* The outputs and what inputs are overwritten with, each once. */
static uint32_t describe_results(const stator_graph_view *v, uint32_t *results,
                                 minify_value *values)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < v->n_outputs + v->n_write_backs; k++) {
        const stator_write_back_row *write =
            k >= v->n_outputs ? stator_write_back_at(v, k - v->n_outputs) : NULL;
        const stator_ref value = write != NULL ? write->value : stator_output_at(v, k);
        if ((values[value].flags & MINIFY_RESULT) == 0) {
            values[value].flags |= MINIFY_RESULT | MINIFY_READ;
            results[n++] = value;
        }
    }
    return n;
}

static uint32_t count_operands(const stator_graph_view *v)
{
    uint32_t n = 0;
    for (uint32_t node = 1; node <= v->n_nodes; node++) {
        n += stator_node_at(v, node)->operand_count;
    }
    return n;
}

bool minify_graph_write(const stator_graph_view *v, int fd)
{
    header h = {.n_nodes = v->n_nodes, .n_values = v->n_values};
    const uint64_t nodes_bytes = (h.n_nodes + UINT64_C(1)) * sizeof(minify_node);
    const uint64_t values_bytes = (h.n_values + UINT64_C(1)) * sizeof(minify_value);
    minify_node *nodes = calloc(1, nodes_bytes);
    minify_value *values = calloc(1, values_bytes);
    uint32_t *refs =
        calloc(count_operands(v) + UINT64_C(1) + v->n_outputs + v->n_write_backs, sizeof *refs);
    bool ok = nodes != NULL && values != NULL && refs != NULL;
    if (ok) {
        describe_values(v, values);
        h.n_refs = describe_nodes(v, nodes, refs, values);
        h.n_results = describe_results(v, refs + h.n_refs, values);
        const uint64_t nodes_at = sizeof h;
        const uint64_t values_at = nodes_at + nodes_bytes;
        ok = child_write(fd, &h, sizeof h, 0) && child_write(fd, nodes, nodes_bytes, nodes_at) &&
             child_write(fd, values, values_bytes, values_at) &&
             child_write(fd, refs, (h.n_refs + (uint64_t)h.n_results) * sizeof *refs,
                         values_at + values_bytes);
    }
    free(nodes);
    free(values);
    free(refs);
    return ok;
}

/* ---- in the parent ---- */

bool minify_graph_map(int fd, minify_graph *out)
{
    struct stat st;
    header h;
    *out = (minify_graph){.n_nodes = 0};
    if (fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof h) {
        return false;
    }
    char *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    ST_NEED(base != MAP_FAILED);
    memcpy(&h, base, sizeof h);
    *out = (minify_graph){.n_nodes = h.n_nodes,
                          .n_values = h.n_values,
                          .n_refs = h.n_refs,
                          .n_results = h.n_results,
                          .mapping = base,
                          .size = (size_t)st.st_size};
    base += sizeof h;
    out->nodes = (const void *)base;
    base += (h.n_nodes + UINT64_C(1)) * sizeof(minify_node);
    out->values = (const void *)base;
    base += (h.n_values + UINT64_C(1)) * sizeof(minify_value);
    out->refs = (const void *)base;
    out->results = out->refs + h.n_refs;
    for (stator_ref node = 1; node <= h.n_nodes; node++) {
        out->n_ops += (uint32_t)minify_is_op(out, node);
    }
    return true;
}

void minify_graph_free(minify_graph *graph)
{
    if (graph->mapping != NULL) {
        (void)munmap(graph->mapping, graph->size);
    }
    *graph = (minify_graph){.n_nodes = 0};
}

bool minify_is_op(const minify_graph *graph, stator_ref node)
{
    return (graph->nodes[node].flags & STATOR_OP_CONSTANT) == 0;
}

void minify_ancestors(const minify_graph *graph, const uint8_t *is_kept, uint32_t n,
                      const stator_ref *values, uint8_t *out_is_kept)
{
    memset(out_is_kept, 0, graph->n_nodes + (size_t)1);
    for (uint32_t k = 0; k < n; k++) {
        out_is_kept[graph->values[values[k]].node] = 1;
    }
    out_is_kept[0] = 0;
    for (stator_ref node = graph->n_nodes; node > 0; node--) {
        const minify_node *row = &graph->nodes[node];
        out_is_kept[node] &= is_kept[node];
        for (uint32_t k = 0; out_is_kept[node] && k < row->operand_count; k++) {
            out_is_kept[graph->values[graph->refs[row->operand_begin + k]].node] = 1;
        }
        out_is_kept[0] = 0;
    }
}

/* ---- cuts ---- */

enum value_state { IS_INPUT = 1, IS_READ_INSIDE = 2, IS_READ_OUTSIDE = 4 };

typedef struct maker {
    const minify_graph *g;
    const minify_cut_spec *spec;
    minify_cut *cut;
    uint8_t *state; /* by value */
    uint8_t *nodes; /* with the constants that are read */
} maker;

static bool is_made(const maker *k, stator_ref value)
{
    const uint32_t node = k->g->values[value].node;
    return node != 0 && k->spec->is_kept[node] && minify_is_op(k->g, node);
}

/* Operands of kept nodes are made by kept nodes, or are parameters or constants, or become
 * inputs. */
static void take_operand(maker *k, stator_ref value)
{
    const minify_value *row = &k->g->values[value];
    const bool is_given = k->spec->is_given != NULL && k->spec->is_given[value];
    k->state[value] |= IS_READ_INSIDE;
    if (is_made(k, value) || (k->state[value] & IS_INPUT) != 0) {
        return;
    }
    if (!is_given && (row->flags & MINIFY_PARAM) != 0) {
        return;
    }
    if (!is_given && (row->flags & MINIFY_CONSTANT) != 0) {
        k->nodes[row->node] = 1;
        return;
    }
    k->state[value] |= IS_INPUT;
    k->cut->inputs[k->cut->n_inputs++] = value;
}

static void take_nodes(maker *k)
{
    const minify_graph *g = k->g;
    for (stator_ref node = 1; node <= g->n_nodes; node++) {
        const minify_node *row = &g->nodes[node];
        const bool is_kept = k->spec->is_kept[node] && minify_is_op(g, node);
        k->nodes[node] |= (uint8_t)is_kept;
        k->cut->n_ops += (uint32_t)is_kept;
        for (uint32_t i = 0; i < row->operand_count; i++) {
            const stator_ref value = g->refs[row->operand_begin + i];
            if (is_kept) {
                take_operand(k, value);
            } else {
                k->state[value] |= IS_READ_OUTSIDE;
            }
        }
    }
    for (stator_ref node = 1; node <= g->n_nodes; node++) {
        if (k->nodes[node]) {
            k->cut->nodes[k->cut->n_nodes++] = node;
        }
    }
}

/* Is any result of the node read at all? One that has only an effect, or whose results nobody
 * wants, is seen by all of them. */
static bool is_read(const minify_graph *g, const minify_node *row)
{
    uint32_t flags = 0;
    for (uint32_t i = 0; i < row->result_count; i++) {
        flags |= g->values[row->result_begin + i].flags;
    }
    return (flags & MINIFY_READ) != 0;
}

static void take_outputs(maker *k)
{
    const minify_graph *g = k->g;
    for (stator_ref node = 1; node <= g->n_nodes; node++) {
        const minify_node *row = &g->nodes[node];
        if (!k->spec->is_kept[node] || !minify_is_op(g, node)) {
            continue;
        }
        const bool all = !is_read(g, row);
        for (uint32_t i = 0; i < row->result_count; i++) {
            const stator_ref value = row->result_begin + i;
            const uint32_t state = k->state[value];
            const bool leaves =
                (state & IS_READ_OUTSIDE) != 0 || (g->values[value].flags & MINIFY_RESULT) != 0;
            const bool ends = (state & IS_READ_INSIDE) == 0;
            if (all || (leaves && (ends || k->spec->form == MINIFY_LEAVES))) {
                k->cut->outputs[k->cut->n_outputs++] = value;
            }
        }
    }
}

static void take_given_outputs(maker *k)
{
    for (uint32_t i = 0; i < k->spec->n_outputs; i++) {
        const stator_ref value = k->spec->outputs[i];
        const minify_value *row = &k->g->values[value];
        /* A result that is an input, a parameter or a constant fails in no backend. */
        if (is_made(k, value) || (k->state[value] & IS_INPUT) != 0 ||
            ((row->flags & MINIFY_CONSTANT) != 0 && k->nodes[row->node])) {
            k->cut->outputs[k->cut->n_outputs++] = value;
        }
    }
}

static uint64_t hash_of(const minify_cut *cut)
{
    uint64_t hash = st_hash64(cut->nodes, cut->n_nodes * sizeof *cut->nodes, 1);
    hash = st_hash64(cut->inputs, cut->n_inputs * sizeof *cut->inputs, hash);
    return st_hash64(cut->outputs, cut->n_outputs * sizeof *cut->outputs, hash);
}

bool minify_cut_make(const minify_graph *graph, const minify_cut_spec *spec, minify_cut *out)
{
    maker k = {.g = graph, .spec = spec, .cut = out};
    *out = (minify_cut){.n_ops = 0};
    const size_t n_values = graph->n_values + (size_t)1;
    out->nodes = calloc(graph->n_nodes + (size_t)1, sizeof *out->nodes);
    out->inputs = calloc(n_values, sizeof *out->inputs);
    out->outputs = calloc(n_values + spec->n_outputs, sizeof *out->outputs);
    k.state = calloc(n_values, 1);
    k.nodes = calloc(graph->n_nodes + (size_t)1, 1);
    if (out->nodes != NULL && out->inputs != NULL && out->outputs != NULL && k.state != NULL &&
        k.nodes != NULL) {
        take_nodes(&k);
        if (spec->outputs != NULL) {
            take_given_outputs(&k);
        } else {
            take_outputs(&k);
        }
        out->hash = hash_of(out);
    }
    free(k.state);
    free(k.nodes);
    if (out->n_outputs == 0) {
        minify_cut_free(out);
        return false;
    }
    return true;
}

void minify_cut_free(minify_cut *cut)
{
    free(cut->nodes);
    free(cut->inputs);
    free(cut->outputs);
    *cut = (minify_cut){.n_ops = 0};
}
