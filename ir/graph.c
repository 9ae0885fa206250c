/* Reading graphs inside the core: the view, attributes by name, constants, static sizes.
 *
 * A view's columns are fixed when the graph is made (segments never move their chunk tables); its
 * counts follow the graph while it is built and are final once it is finished, so that many threads
 * may read a finished graph. */
#include "ir/graph.h"
#include "core/base/blob.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include <string.h>

static void set_columns(stator_graph *g)
{
    const st_module *m = g->module;
    g->view = (stator_graph_view){
        .struct_size = sizeof g->view,
        .nodes = st_seg_column(&g->nodes),
        .values = st_seg_column(&g->values),
        .write_backs = st_seg_column(&g->write_backs),
        .types = st_seg_column(&m->types),
        .syms = st_seg_column(&m->symtab.syms),
        .terms = st_seg_column(&m->symtab.terms),
        .atoms = st_seg_column(&m->symtab.atoms),
        .attrs = st_seg_column(&m->attrs),
        .refs = st_seg_column(&m->refs),
        .i64s = st_seg_column(&m->i64s),
        .f64s = st_seg_column(&m->f64s),
        .strings = st_seg_column(&m->strings),
        .origins = st_seg_column(&m->origins),
        .regions = st_seg_column(&m->regions),
        .ops = st_seg_column(&m->ops->ops),
    };
}

stator_graph *st_graph_alloc(st_module *m)
{
    stator_graph *g = st_arena_zalloc(&m->arena, 1, sizeof *g);
    if (g == NULL) {
        return NULL;
    }
    g->module = m;
    st_seg_init(&g->nodes, m->mem, sizeof(stator_node_row));
    st_seg_init(&g->values, m->mem, sizeof(stator_value_row));
    st_seg_init(&g->write_backs, m->mem, sizeof(stator_write_back_row));
    if (st_seg_push(&g->nodes, NULL) == NULL || st_seg_push(&g->values, NULL) == NULL) {
        st_seg_deinit(&g->nodes);
        st_seg_deinit(&g->values);
        return NULL;
    }
    set_columns(g);
    return g;
}

void st_graph_refresh(stator_graph *g)
{
    stator_graph_view *v = &g->view;
    v->n_nodes = g->nodes.count - 1u;
    v->n_values = g->values.count - 1u;
    v->n_inputs = g->n_inputs;
    v->n_outputs = g->n_outputs;
    v->output_begin = g->output_begin;
    v->output_name_begin = g->output_name_begin;
    v->n_write_backs = g->write_backs.count;
    v->n_symbols = g->module->symtab.n_symbols;
    v->name = g->name;
}

/* The view is a cache inside the graph, hence the cast: a finished graph's counts only change in
 * n_symbols, and only while a builder of the same module is at work. */
const stator_graph_view *st_graph_view(const stator_graph *graph)
{
    stator_graph *g = (stator_graph *)(uintptr_t)graph;
    if (!g->is_finished || g->view.n_symbols != g->module->symtab.n_symbols) {
        st_graph_refresh(g);
    }
    return &g->view;
}

const stator_attr_row *st_graph_attr(const stator_graph *graph, stator_ref node, const char *name)
{
    const stator_graph_view *v = st_graph_view(graph);
    if (node == 0 || node > v->n_nodes) {
        return NULL;
    }
    const stator_node_row *row = stator_node_at(v, node);
    const stator_op_desc *op = stator_op_at(v, row->op);
    for (uint32_t k = 0; k < row->attr_count && k < op->attr_count; k++) {
        if (strcmp(op->attrs[k].name, name) == 0) {
            return stator_attr_at(v, row, k);
        }
    }
    return NULL;
}

/* ---- constants ---- */

/* The blob attribute of the constant node that makes the value, or NULL. */
static const stator_attr_row *constant_attr(const stator_graph_view *v, stator_ref value)
{
    if (value == 0 || value > v->n_values) {
        return NULL;
    }
    const stator_value_row *row = stator_value_at(v, value);
    if (row->node == 0) {
        return NULL;
    }
    const stator_node_row *node = stator_node_at(v, row->node);
    if ((stator_op_at(v, node->op)->flags & STATOR_OP_CONSTANT) == 0 || node->attr_count == 0) {
        return NULL;
    }
    const stator_attr_row *attr = stator_attr_at(v, node, 0);
    return attr->kind == STATOR_ATTR_BLOB ? attr : NULL;
}

bool st_value_is_constant(const stator_graph *graph, stator_ref value)
{
    return constant_attr(st_graph_view(graph), value) != NULL;
}

stator_blob *st_graph_value_blob(const stator_graph *graph, stator_ref value)
{
    const stator_graph_view *v = st_graph_view(graph);
    if (value == 0 || value > v->n_values) {
        return NULL;
    }
    const stator_attr_row *attr = constant_attr(v, value);
    const uint32_t blob = attr != NULL ? attr->begin : stator_value_at(v, value)->blob;
    return blob != 0 ? st_module_blob_at(graph->module, blob) : NULL;
}

stator_blob *st_graph_blob_at(const stator_graph *graph, stator_ref blob)
{
    const st_module *m = graph->module;
    return blob != 0 && blob < m->blobs.count ? st_module_blob_at(m, blob) : NULL;
}

bool st_type_static_size(const st_module *m, stator_ref type, uint64_t *out_elements,
                         uint64_t *out_bytes)
{
    const stator_type_row *row = st_seg_at(&m->types, type);
    int64_t dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < row->rank; i++) {
        const uint32_t sym = *(const uint32_t *)st_seg_at(&m->refs, row->dims_begin + i);
        if (!st_sym_const(&m->symtab, sym, &dims[i])) {
            return false;
        }
    }
    return st_numel(dims, row->rank, out_elements) &&
           st_dtype_bytes(row->dtype, *out_elements, out_bytes);
}

/* ---- splats ---- */

#define SPLAT_BYTES_MAX 4096u /* larger constants are not looked through */

/* Steps over views: an index map of a splat is a splat. */
static stator_ref through_views(const stator_graph_view *v, stator_ref value)
{
    for (;;) {
        const stator_value_row *row = stator_value_at(v, value);
        if (row->node == 0) {
            return value;
        }
        const stator_node_row *node = stator_node_at(v, row->node);
        if ((stator_op_at(v, node->op)->flags & STATOR_OP_VIEW) == 0) {
            return value;
        }
        value = stator_operand(v, node, 0);
    }
}

bool st_value_is_splat(const stator_graph *graph, stator_ref value, double *out_v)
{
    const stator_graph_view *v = st_graph_view(graph);
    *out_v = 0;
    if (value == 0 || value > v->n_values) {
        return false;
    }
    value = through_views(v, value);
    const stator_attr_row *attr = constant_attr(v, value);
    uint64_t n = 0;
    uint64_t bytes = 0;
    if (attr == NULL || !st_type_static_size(graph->module, (stator_ref)attr->i, &n, &bytes) ||
        n == 0 || bytes > SPLAT_BYTES_MAX) {
        return false;
    }
    const uint32_t dtype = stator_type_at(v, (stator_ref)attr->i)->dtype;
    const void *data = NULL;
    if (st_dtype_class(dtype) == STATOR_CLASS_COMPLEX ||
        st_blob_get(st_module_blob_at(graph->module, attr->begin), &data, NULL) != STATOR_OK) {
        return false;
    }
    *out_v = st_load_f64(dtype, data, 0);
    for (uint64_t i = 1; i < n; i++) {
        const double x = st_load_f64(dtype, data, (int64_t)i);
        if (memcmp(&x, out_v, sizeof x) != 0) {
            return false;
        }
    }
    return true;
}
