/* Linking graphs of two modules.
 *
 * In: a finished graph, the sizes of the other module that its symbols stand for, the values that
 * its inputs are. Out: nodes in a builder of the other module, with types, attributes, regions and
 * origins in the pools of that. Nothing is inferred again: what was proved for every value of a
 * symbol holds for the size that takes its place, if that lies in the symbol's range.
 *
 *   sym B   %x: f32[B, 2]   %y = exp(%x) @"/exp"    with B = N, prefix t_, mark "t: "    gives
 *           %t_y = exp(%image) : f32[N, 2] @"t: /exp" */
#include "ir/linker.h"

#include "ir/builder.h"
#include "ir/infer.h"

#include <string.h>

#define REGIONS_MAX 8u

/* One graph being copied: the whole, or a region. */
typedef struct linked_graph {
    st_linker *l;
    const stator_graph_view *v;
    stator_builder *b;
    stator_ref *map;
} linked_graph;

stator_status st_linker_init(st_linker *l, const stator_graph *from, st_module *to,
                             const char *prefix, const char *mark, stator_diag **err)
{
    *l = (st_linker){.from = from, .to = to, .prefix = prefix, .mark = mark};
    st_binding_init_between(&l->sizes, from->module, to);
    st_map_init(&l->origins, to->mem);
    st_arena_init(&l->arena, to->mem);
    l->map = st_calloc(to->mem, st_graph_view(from)->n_values + UINT64_C(1), sizeof *l->map);
    ST_TRY_MEM(l->map, err);
    return STATOR_OK;
}

void st_linker_deinit(st_linker *l)
{
    if (l->to == NULL) {
        return;
    }
    st_free(l->to->mem, l->map);
    st_arena_deinit(&l->arena);
    st_map_deinit(&l->origins);
    st_binding_deinit(&l->sizes);
}

/* ---- names and origins ---- */

/* The string of `to` that is the prefix and the text; 0: out of memory, or no text. */
static uint32_t prefixed(const st_linker *l, const char *prefix, const char *text)
{
    st_str name;
    uint32_t string = 0;
    if (*text == '\0') {
        return 0;
    }
    st_str_init(&name, l->to->mem);
    st_str_addf(&name, "%s%s", prefix, text);
    string = st_str_ok(&name) ? st_module_string(l->to, name.data, name.len) : 0;
    st_str_deinit(&name);
    return string;
}

/* One row of an origin; a node without a name is called by its kind. */
static uint32_t origin_row(const st_linker *l, const stator_origin_row *row)
{
    const st_module *m = l->from->module;
    const char *kind = st_module_str(m, row->kind);
    const uint32_t name = prefixed(l, l->mark, row->name != 0 ? st_module_str(m, row->name) : kind);
    return st_module_origin(l->to, st_module_str(l->to, name), kind, st_module_str(m, row->file),
                            row->line);
}

/* The origin of a node in `to`: that of its op where it has none. */
static uint32_t link_origin(st_linker *l, uint32_t origin, const char *op)
{
    uint32_t made = origin != 0 ? st_map_get(&l->origins, origin) : 0;
    if (origin == 0) {
        return st_module_origin(l->to, st_module_str(l->to, prefixed(l, l->mark, op)), op, NULL, 0);
    }
    for (uint32_t next = origin; made == 0 && next != 0;) {
        const stator_origin_row *row = st_seg_at(&l->from->module->origins, next);
        made = st_module_origin_merge(l->to, made, origin_row(l, row));
        next = row->next;
    }
    return st_map_put(&l->origins, origin, made) ? made : 0;
}

/* ---- sizes ---- */

/* A symbol like this one. A name that `to` has already gets `_` at its end. */
static stator_ref new_symbol(st_linker *l, const stator_atom_row *row)
{
    st_symtab *tab = &l->to->symtab;
    const uint32_t before = tab->n_symbols;
    uint32_t name = prefixed(l, l->prefix, st_module_str(l->from->module, row->name));
    for (;;) {
        const stator_ref sym =
            row->name != 0 && name == 0
                ? 0
                : st_sym_symbol(tab, name, row->lo, row->hi, row->divisor, row->flags);
        if (sym == 0 || tab->n_symbols != before) {
            st_sym_set_hint(tab, sym, row->hint);
            return sym;
        }
        st_str longer;
        st_str_init(&longer, l->to->mem);
        st_str_addf(&longer, "%s_", st_module_str(l->to, name));
        name = st_str_ok(&longer) ? st_module_string(l->to, longer.data, longer.len) : 0;
        st_str_deinit(&longer);
    }
}

stator_status st_linker_add_symbols(st_linker *l, stator_diag **err)
{
    const st_symtab *tab = &l->from->module->symtab;
    for (uint32_t atom = 1; atom < tab->atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(tab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && st_map_get(&l->sizes.values, atom) == 0) {
            ST_TRY_MEM(st_binding_set(&l->sizes, atom, new_symbol(l, row)), err);
        }
    }
    return STATOR_OK;
}

static stator_status link_type(st_linker *l, stator_ref *type, stator_diag **err)
{
    *type = st_binding_type(&l->sizes, *type);
    return l->sizes.failed ? st_fail(err, STATOR_RESOURCE_EXHAUSTED,
                                     "a size cannot be written in the other model's sizes: memory "
                                     "is short or a limit of the symbolic engine is exceeded")
                           : STATOR_OK;
}

/* ---- nodes ---- */

static stator_status link_graph(const linked_graph *g, stator_diag **err);

static stator_status link_region(const linked_graph *g, const stator_graph *from,
                                 stator_graph **out, stator_diag **err)
{
    st_linker *l = g->l;
    linked_graph inner = {.l = l, .v = st_graph_view(from)};
    const char *name = st_module_str(from->module, from->name);
    ST_TRY(st_build_region_begin(g->b, name, &inner.b, err));
    inner.map = st_calloc(l->to->mem, inner.v->n_values + UINT64_C(1), sizeof *inner.map);
    stator_status status = inner.map != NULL ? STATOR_OK : st_fail_oom(err);
    for (stator_ref i = 1; status == STATOR_OK && i <= inner.v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(inner.v, i);
        stator_ref type = row->type;
        status = link_type(l, &type, err);
        ST_THEN(status, st_build_input(inner.b, stator_string_at(inner.v, row->name), type,
                                       &inner.map[i], err));
    }
    ST_THEN(status, link_graph(&inner, err));
    for (uint32_t k = 0; status == STATOR_OK && k < inner.v->n_outputs; k++) {
        status = st_build_output(inner.b, "", inner.map[stator_output_at(inner.v, k)], err);
    }
    st_free(l->to->mem, inner.map);
    if (status != STATOR_OK) {
        st_build_region_abort(inner.b);
        return status;
    }
    return st_build_region_end(inner.b, out, err);
}

/* Rows of the node's attributes in the pools of `to`. */
static stator_status link_attrs(const linked_graph *g, const stator_node_row *row,
                                stator_attr_row *rows, stator_diag **err)
{
    st_linker *l = g->l;
    const st_op *op = st_optable_at(l->to->ops, row->op);
    stator_attr attrs[ST_ATTRS_MAX];
    stator_node_desc desc = {.struct_size = sizeof desc, .op = row->op, .attrs = attrs};
    st_arena_reset(&l->arena);
    for (uint32_t k = 0; k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(g->v, row, k);
        stator_attr *out = &attrs[desc.attr_count];
        stator_ref type = (stator_ref)attr->i;
        if (attr->kind == STATOR_ATTR_NONE) {
            continue;
        }
        ST_TRY(st_attr_from_row(g->v, l->from->module, &l->arena, op->desc.attrs[k].name, attr, out,
                                err));
        if (attr->kind == STATOR_ATTR_BLOB) {
            ST_TRY(link_type(l, &type, err));
            out->i = type;
        }
        stator_ref *sizes = (stator_ref *)(uintptr_t)out->list;
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < out->count; i++) {
            sizes[i] = st_binding_sym(&l->sizes, sizes[i]);
        }
        desc.attr_count++;
    }
    return st_build_attr_rows(g->b, op, &desc, rows, err);
}

/* Operands and result types, in the arena, behind the attributes' reset. */
static stator_status link_values(const linked_graph *g, const stator_node_row *row,
                                 stator_ref **out_operands, stator_ref **out_types,
                                 stator_diag **err)
{
    st_arena *arena = &g->l->arena;
    stator_ref *operands =
        st_arena_zalloc(arena, row->operand_count + UINT64_C(1), sizeof *operands);
    stator_ref *types = st_arena_zalloc(arena, row->result_count + UINT64_C(1), sizeof *types);
    ST_TRY_MEM(operands && types, err);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(g->v, row, k);
        operands[k] = value != 0 ? g->map[value] : 0;
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        types[k] = stator_value_at(g->v, row->result_begin + k)->type;
        ST_TRY(link_type(g->l, &types[k], err));
    }
    *out_operands = operands;
    *out_types = types;
    return STATOR_OK;
}

static stator_status link_node(const linked_graph *g, stator_ref node, stator_diag **err)
{
    st_linker *l = g->l;
    stator_node_row row = *stator_node_at(g->v, node);
    const char *op = stator_op_at(g->v, row.op)->name;
    stator_attr_row attrs[ST_ATTRS_MAX];
    stator_graph *regions[REGIONS_MAX];
    stator_ref *operands = NULL, *types = NULL;
    ST_FAIL_IF(row.attr_count > ST_ATTRS_MAX || row.region_count > REGIONS_MAX, err,
               STATOR_UNIMPLEMENTED, "%s: too many attributes or regions", op);
    row.origin = link_origin(l, row.origin, op);
    ST_TRY_MEM(row.origin, err);
    for (uint32_t k = 0; k < row.region_count; k++) {
        ST_TRY(link_region(g, stator_region_at(g->v, &row, k), &regions[k], err));
    }
    ST_TRY(link_attrs(g, &row, attrs, err));
    ST_TRY(link_values(g, &row, &operands, &types, err));
    const stator_ref first = g->b->graph->values.count;
    ST_TRY(st_build_raw_node(g->b, &row, operands, attrs, regions, types, err));
    for (uint32_t k = 0; k < row.result_count; k++) {
        const stator_value_row *value = stator_value_at(g->v, row.result_begin + k);
        stator_value_row *made = st_seg_at(&g->b->graph->values, first + k);
        made->name = prefixed(l, l->prefix, stator_string_at(g->v, value->name));
        g->map[row.result_begin + k] = first + k;
    }
    return STATOR_OK;
}

static stator_status link_graph(const linked_graph *g, stator_diag **err)
{
    for (stator_ref node = 1; node <= g->v->n_nodes; node++) {
        ST_TRY(link_node(g, node, err));
    }
    return STATOR_OK;
}

/* ---- the whole ---- */

stator_status st_linker_add_param(st_linker *l, stator_builder *b, stator_ref input,
                                  const char *name, stator_diag **err)
{
    const stator_value_row *row = st_seg_at(&l->from->values, input);
    stator_ref type = row->type;
    ST_TRY(link_type(l, &type, err));
    return st_build_param(b, name, type, st_module_blob_at(l->from->module, row->blob),
                          &l->map[input], err);
}

stator_status st_linker_add_nodes(st_linker *l, stator_builder *b, stator_diag **err)
{
    const linked_graph whole = {.l = l, .v = st_graph_view(l->from), .b = b, .map = l->map};
    return link_graph(&whole, err);
}
