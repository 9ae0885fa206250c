/* A model in f64: every float of its graph, and of the bodies of control flow, is one of f64; see
 * stator/inspect.h.
 *
 * In: a graph of any dtypes. Out: a graph of its own. A node that does not work with f64 (bits of
 * an f32, say) stays as it was between casts, so that all floats outside of it are of f64 all the
 * same.
 *
 *   %y = exp(%x) : f32[3]                  gives   %y = exp(%x) : f64[3]
 *   %i = bitcast(%y) {dtype = i32}         gives   %1 = cast(%y) {dtype = f32}  %i = bitcast(%1)
 * .. */
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/host/model.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/op_emitter.h"
#include "ir/rebuild.h"
#include "ir/verify.h"
#include <stator/inspect.h>

typedef struct widener {
    st_module *module; /* a copy, which becomes the result */
    st_mem *mem;
    st_rebuild rebuild;
    st_arena arena; /* attributes */
    stator_diag **err;
} widener;

/* One graph being written. */
typedef struct wide_graph {
    widener *w;
    const stator_graph_view *v; /* of the graph as it was */
    stator_builder *b;
    stator_ref *map; /* its values in the new graph, floats as f64 */
} wide_graph;

static bool is_narrow(uint32_t dtype)
{
    return st_dtype_class(dtype) == STATOR_CLASS_FLOAT && dtype != STATOR_F64;
}

/* The type with f64 in the place of a narrower float; 0: out of memory. */
static stator_ref wide_type(const widener *w, const stator_graph_view *v, stator_ref type)
{
    const stator_type_row *row = stator_type_at(v, type);
    stator_ref dims[STATOR_RANK_MAX];
    if (!is_narrow(row->dtype)) {
        return type;
    }
    for (uint32_t axis = 0; axis < row->rank; axis++) {
        dims[axis] = stator_dim_at(v, row, axis);
    }
    return st_module_type(w->module, STATOR_F64, row->rank, dims);
}

/* The contents as f64, with a reference for the caller. */
static stator_status widen_blob(const widener *w, uint32_t dtype, stator_blob *blob,
                                stator_blob **out, stator_diag **err)
{
    const void *data = NULL;
    void *to = NULL;
    if (!is_narrow(dtype)) {
        st_blob_retain(blob);
        *out = blob;
        return STATOR_OK;
    }
    ST_TRY(st_blob_get(blob, &data, err));
    const uint64_t n = st_blob_size(blob) * 8u / st_dtype_bits(dtype);
    *out = st_blob_alloc(w->mem, n * sizeof(double), &to);
    ST_TRY_MEM(*out, err);
    st_load_f64_block(dtype, data, 0, (int64_t)n, to);
    return STATOR_OK;
}

/* ---- inputs and constants ---- */

static stator_status widen_input(wide_graph *g, stator_ref input)
{
    const widener *w = g->w;
    const stator_value_row *row = stator_value_at(g->v, input);
    const stator_ref type = wide_type(w, g->v, row->type);
    const char *name = stator_string_at(g->v, row->name);
    stator_blob *blob = NULL;
    ST_TRY_MEM(type, w->err);
    if ((row->flags & STATOR_VALUE_PARAM) == 0) {
        return st_build_input(g->b, name, type, &g->map[input], w->err);
    }
    ST_TRY(widen_blob(w, stator_type_at(g->v, row->type)->dtype,
                      st_module_blob_at(w->module, row->blob), &blob, w->err));
    const stator_status status = st_build_param(g->b, name, type, blob, &g->map[input], w->err);
    st_blob_release(blob);
    return status;
}

static stator_status widen_constant(wide_graph *g, const stator_node_row *row)
{
    const widener *w = g->w;
    const stator_value_row *value = stator_value_at(g->v, row->result_begin);
    const stator_ref type = wide_type(w, g->v, value->type);
    stator_blob *blob = NULL;
    ST_TRY_MEM(type, w->err);
    ST_TRY(widen_blob(w, stator_type_at(g->v, value->type)->dtype,
                      st_module_blob_at(w->module, stator_attr_at(g->v, row, 0)->begin), &blob,
                      w->err));
    const stator_status status =
        st_build_constant_blob(g->b, type, blob, &g->map[row->result_begin], w->err);
    st_blob_release(blob);
    return status;
}

/* ---- nodes ---- */

typedef struct wide_node {
    stator_node_desc desc;
    stator_ref *operands, *types, results[ST_RESULTS_MAX];
    stator_attr attrs[ST_ATTRS_MAX];
    stator_graph **regions;
} wide_node;

static stator_status read_attrs(const wide_graph *g, const stator_node_row *row, wide_node *n)
{
    const stator_op_desc *op = stator_op_at(g->v, row->op);
    for (uint32_t a = 0; a < row->attr_count; a++) {
        const stator_attr_row *attr = stator_attr_at(g->v, row, a);
        stator_attr *out = &n->attrs[n->desc.attr_count];
        if (attr->kind == STATOR_ATTR_NONE) {
            continue;
        }
        ST_TRY(st_attr_from_row(g->v, g->w->module, &g->w->arena, op->attrs[a].name, attr, out,
                                g->w->err));
        n->desc.attr_count++;
    }
    return STATOR_OK;
}

/* Operands, attributes, regions and result types as they were; operands in the new graph. */
static stator_status read_node(const wide_graph *g, stator_ref node, wide_node *n)
{
    const stator_node_row *row = stator_node_at(g->v, node);
    st_arena *arena = &g->w->arena;
    n->operands = st_arena_zalloc(arena, row->operand_count + 1u, sizeof *n->operands);
    n->types = st_arena_zalloc(arena, row->result_count + 1u, sizeof *n->types);
    n->regions = st_arena_zalloc(arena, row->region_count + 1u, sizeof(stator_graph *));
    ST_TRY_MEM(n->operands && n->types && n->regions, g->w->err);
    n->desc = (stator_node_desc){.struct_size = sizeof n->desc,
                                 .op = row->op,
                                 .operands = n->operands,
                                 .operand_count = row->operand_count,
                                 .attrs = n->attrs,
                                 .regions = n->regions,
                                 .region_count = row->region_count,
                                 .result_count = row->result_count};
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(g->v, row, k);
        n->operands[k] = operand != 0 ? g->map[operand] : 0;
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        n->types[k] = stator_value_at(g->v, row->result_begin + k)->type;
    }
    for (uint32_t k = 0; k < row->region_count; k++) {
        n->regions[k] = (stator_graph *)(uintptr_t)stator_region_at(g->v, row, k);
    }
    return read_attrs(g, row, n);
}

static stator_status widen_graph(wide_graph *g);

/* The region with f64 in it. */
static stator_status widen_region(const wide_graph *g, stator_graph *region, stator_graph **out)
{
    widener *w = g->w;
    stator_builder *b = NULL;
    wide_graph inner = {.w = w, .v = st_graph_view(region)};
    const uint32_t mark = st_rebuild_enter(&w->rebuild);
    inner.map = st_arena_zalloc(&w->arena, inner.v->n_values + UINT64_C(1), sizeof *inner.map);
    ST_TRY_MEM(inner.map, w->err);
    ST_TRY(st_build_region_begin(g->b, stator_string_at(inner.v, inner.v->name), &b, w->err));
    inner.b = b;
    stator_status status = widen_graph(&inner);
    for (uint32_t k = 0; status == STATOR_OK && k < inner.v->n_outputs; k++) {
        status = st_build_output(b, "", inner.map[stator_output_at(inner.v, k)], w->err);
    }
    st_rebuild_leave(&w->rebuild, mark);
    if (status != STATOR_OK) {
        st_build_region_abort(b);
        return status;
    }
    return st_build_region_end(b, out, w->err);
}

/* The node with everything in f64. */
static stator_status try_wide(const wide_graph *g, wide_node *n, stator_diag **err)
{
    widener *w = g->w;
    for (uint32_t a = 0; a < n->desc.attr_count; a++) {
        if (n->attrs[a].kind == STATOR_ATTR_DTYPE && is_narrow((uint32_t)n->attrs[a].i)) {
            n->attrs[a].i = STATOR_F64;
        }
    }
    for (uint32_t k = 0; k < n->desc.result_count; k++) {
        n->types[k] = wide_type(w, g->v, n->types[k]);
        ST_TRY_MEM(n->types[k], err);
    }
    for (uint32_t k = 0; k < n->desc.region_count; k++) {
        ST_TRY(widen_region(g, n->regions[k], &n->regions[k]));
    }
    return st_rebuild_node(&w->rebuild, g->b, &n->desc, n->types, n->results, err);
}

static stator_ref cast_to(stator_emitter *e, stator_ref value, uint32_t dtype)
{
    return stator_emit_op(e, "cast", STATOR_IN(value), STATOR_AT(STATOR_A_DTYPE("dtype", dtype)));
}

/* The node as it was, between casts. */
static stator_status keep_narrow(const wide_graph *g, stator_ref node, wide_node *n)
{
    const stator_node_row *row = stator_node_at(g->v, node);
    stator_emitter e = st_op_emitter(g->b, g->w->err);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(g->v, row, k);
        const uint32_t dtype = operand != 0 ? stator_value_type(g->v, operand)->dtype : 0;
        if (operand != 0 && is_narrow(dtype)) {
            n->operands[k] = cast_to(&e, n->operands[k], dtype);
        }
    }
    ST_TRY(e.status);
    ST_TRY(st_rebuild_node(&g->w->rebuild, g->b, &n->desc, n->types, n->results, g->w->err));
    for (uint32_t k = 0; k < row->result_count; k++) {
        if (is_narrow(stator_type_at(g->v, n->types[k])->dtype)) {
            n->results[k] = cast_to(&e, n->results[k], STATOR_F64);
        }
    }
    return e.status;
}

static stator_status widen_node(wide_graph *g, stator_ref node)
{
    const stator_node_row *row = stator_node_at(g->v, node);
    const st_build_mark here = st_build_here(g->b);
    const uint32_t mark = st_rebuild_enter(&g->w->rebuild);
    stator_diag *why = NULL;
    wide_node n = {.desc = {.struct_size = sizeof n.desc}};
    st_build_set_origin_ref(g->b, row->origin);
    if ((stator_op_at(g->v, row->op)->flags & STATOR_OP_CONSTANT) != 0) {
        return widen_constant(g, row);
    }
    ST_TRY(read_node(g, node, &n));
    stator_status status = try_wide(g, &n, &why);
    if (status != STATOR_OK && status != STATOR_RESOURCE_EXHAUSTED) {
        st_build_rollback(g->b, here);
        st_rebuild_leave(&g->w->rebuild, mark);
        n = (wide_node){.desc = {.struct_size = sizeof n.desc}};
        ST_TRY(read_node(g, node, &n));
        status = keep_narrow(g, node, &n);
    } else if (status != STATOR_OK) {
        (void)st_fail_oom(g->w->err);
    }
    st_diag_release(why);
    for (uint32_t k = 0; status == STATOR_OK && k < row->result_count; k++) {
        const stator_value_row *value = stator_value_at(g->v, row->result_begin + k);
        g->map[row->result_begin + k] = n.results[k];
        st_build_set_name(g->b, n.results[k], stator_string_at(g->v, value->name));
    }
    return status;
}

static stator_status widen_graph(wide_graph *g)
{
    for (stator_ref input = 1; input <= g->v->n_inputs; input++) {
        ST_TRY(widen_input(g, input));
    }
    for (stator_ref node = 1; node <= g->v->n_nodes; node++) {
        ST_TRY(widen_node(g, node));
    }
    return STATOR_OK;
}

/* ---- the whole ---- */

static stator_status write_root(widener *w, stator_builder *b, const stator_graph *from)
{
    wide_graph g = {.w = w, .v = st_graph_view(from), .b = b};
    g.map = st_arena_zalloc(&w->arena, g.v->n_values + UINT64_C(1), sizeof *g.map);
    ST_TRY_MEM(g.map, w->err);
    ST_TRY(widen_graph(&g));
    return st_build_clone_outputs(b, from, g.map, w->err);
}

static stator_status widen_module(st_module *module, stator_diag **err)
{
    const stator_graph *from = module->root;
    widener w = {.module = module, .mem = module->mem, .err = err};
    stator_builder *b = NULL;
    ST_TRY(st_builder_create(module, st_module_str(module, from->name), &b, err));
    st_arena_init(&w.arena, w.mem);
    st_rebuild_init(&w.rebuild, module);
    const stator_status status = write_root(&w, b, from);
    st_rebuild_deinit(&w.rebuild);
    st_arena_deinit(&w.arena);
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    module->root = NULL; /* the next root is an import: its values are their own witnesses */
    ST_TRY(st_builder_finish(b, &module->root, err));
    return st_verify(module->root, err);
}

stator_status stator_x_model_in_f64(const stator_model *model, stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = st_model_copy(model, &copy, &diag);
    ST_THEN(status, widen_module(copy, &diag));
    return st_model_end_copy(model, copy, status, out_model, diag);
}
