/* The structural hash of a graph: two lanes of a 64-bit multiply-mix over a canonical byte stream.
 *
 * The stream holds, in order: inputs (type, parameter or not), nodes (op name and version,
 * operands, attributes, regions' hashes, result types), outputs, write-backs. Refs into pools are
 * replaced by what they name, so graphs of different modules compare. Names, origins, witnesses and
 * hints do not count; constants count by contents up to 4 KiB and by type alone above. */
#include "core/base/blob.h"
#include "ir/graph.h"
#include <string.h>

#define CONTENT_BYTES 4096u

static void put(st_str *s, const void *data, uint64_t n)
{
    st_str_addn(s, data, n);
}

static void put_u32(st_str *s, uint32_t x)
{
    put(s, &x, sizeof x);
}

static void put_text(st_str *s, const char *text)
{
    put(s, text, strlen(text) + 1u);
}

static const char *symbol_name(void *self, uint32_t name)
{
    return st_module_str(self, name);
}

static void put_sym(st_str *s, const st_module *m, uint32_t sym)
{
    st_sym_print(&m->symtab, sym, symbol_name, (void *)(uintptr_t)m, s);
    put(s, "", 1);
}

static void put_type(st_str *s, const st_module *m, uint32_t type)
{
    st_module_print_type(m, type, s);
    put(s, "", 1);
}

static void put_blob(st_str *s, const st_module *m, const stator_attr_row *row)
{
    stator_blob *blob = st_module_blob_at(m, row->begin);
    const void *data = NULL;
    put_type(s, m, (uint32_t)row->i);
    if (st_blob_size(blob) <= CONTENT_BYTES && st_blob_get(blob, &data, NULL) == STATOR_OK) {
        put(s, data, st_blob_size(blob));
    }
}

static void put_attr(st_str *s, const st_module *m, const stator_attr_row *row)
{
    put_u32(s, row->kind);
    put_u32(s, row->count);
    switch (row->kind) {
    case STATOR_ATTR_INTS:
        for (uint32_t i = 0; i < row->count; i++) {
            put(s, st_seg_at(&m->i64s, row->begin + i), sizeof(int64_t));
        }
        break;
    case STATOR_ATTR_FLOATS:
        for (uint32_t i = 0; i < row->count; i++) {
            put(s, st_seg_at(&m->f64s, row->begin + i), sizeof(double));
        }
        break;
    case STATOR_ATTR_DIMS:
        for (uint32_t i = 0; i < row->count; i++) {
            put_sym(s, m, *(const uint32_t *)st_seg_at(&m->refs, row->begin + i));
        }
        break;
    case STATOR_ATTR_STRING:
        put_text(s, st_module_str(m, row->begin));
        break;
    case STATOR_ATTR_BLOB:
        put_blob(s, m, row);
        break;
    default:
        put(s, &row->i, sizeof row->i);
        put(s, &row->f, sizeof row->f);
        break;
    }
}

static void put_node(st_str *s, const stator_graph *g, const stator_graph_view *v, uint32_t node)
{
    const stator_node_row *row = stator_node_at(v, node);
    const stator_op_desc *op = stator_op_at(v, row->op);
    uint8_t hash[16];
    put_text(s, op->name);
    put_u32(s, op->version);
    put_u32(s, row->operand_count);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        put_u32(s, stator_operand(v, row, k));
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        put_attr(s, g->module, stator_attr_at(v, row, k));
    }
    for (uint32_t k = 0; k < row->region_count; k++) {
        s->failed |= !st_graph_hash(stator_region_at(v, row, k), hash);
        put(s, hash, sizeof hash);
    }
    put_u32(s, row->result_count);
    for (uint32_t k = 0; k < row->result_count; k++) {
        put_type(s, g->module, stator_value_at(v, row->result_begin + k)->type);
    }
}

/* Folds the stream so far into one block, so that it does not grow with the graph. */
static void fold(st_str *s, uint8_t hash[16])
{
    put(s, hash, 16);
    st_hash128(s->data, s->len, hash);
    s->len = 0;
}

bool st_graph_hash(const stator_graph *graph, uint8_t out_hash[16])
{
    const stator_graph_view *v = st_graph_view(graph);
    st_str s;
    memset(out_hash, 0, 16);
    st_str_init(&s, graph->module->mem);
    put_u32(&s, v->n_inputs);
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        put_type(&s, graph->module, row->type);
        put_u32(&s, row->flags & STATOR_VALUE_PARAM);
    }
    for (uint32_t node = 1; node <= v->n_nodes; node++) {
        put_node(&s, graph, v, node);
        fold(&s, out_hash);
    }
    put_u32(&s, v->n_outputs);
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        put_u32(&s, stator_output_at(v, k));
    }
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        put(&s, stator_write_back_at(v, k), sizeof(stator_write_back_row));
    }
    fold(&s, out_hash);
    const bool is_ok = st_str_ok(&s);
    if (!is_ok) {
        memset(out_hash, 0, 16);
    }
    st_str_deinit(&s);
    return is_ok;
}
