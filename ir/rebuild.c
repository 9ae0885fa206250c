/* Building nodes of declared types in two steps. First without the declared types: what
 * inference cannot know appears as symbols that are newer than the node. When types differ only
 * there, and the file's symbols are free, the node is taken back and built again with the
 * declared types, so that every result of one node sees the same choice; then everything must be
 * equal. */
#include "ir/rebuild.h"

#include <stator/ops.h>

void st_rebuild_init(st_rebuild *r, st_module *m)
{
    *r = (st_rebuild){.m = m};
    st_map_init(&r->places, m->mem);
}

void st_rebuild_deinit(st_rebuild *r)
{
    st_vec_free(r->m->mem, &r->defined);
    st_map_deinit(&r->places);
}

uint32_t st_rebuild_enter(const st_rebuild *r)
{
    return r->defined.count;
}

void st_rebuild_leave(st_rebuild *r, uint32_t mark)
{
    r->defined.count = mark;
}

static const stator_atom_row *symbol_row(const st_rebuild *r, stator_ref sym)
{
    const uint32_t atom = sym ? st_sym_as_symbol(&r->m->symtab, sym) : 0;
    return atom ? st_seg_at(&r->m->symtab.atoms, atom) : NULL;
}

static bool is_unbacked(const stator_atom_row *row)
{
    return row != NULL && (row->flags & STATOR_ATOM_UNBACKED) != 0;
}

/* The place of an atom's definition, UINT32_MAX when none is in sight. */
static uint32_t place_of(const st_rebuild *r, uint32_t atom)
{
    const uint32_t place = st_map_get(&r->places, atom);
    return place != 0 && place <= r->defined.count && r->defined.data[place - 1u] == atom
               ? place - 1u
               : UINT32_MAX;
}

static stator_status define(st_rebuild *r, const char *op, stator_ref sym, stator_diag **err)
{
    const stator_atom_row *row = symbol_row(r, sym);
    const uint32_t atom = st_sym_as_symbol(&r->m->symtab, sym);
    ST_FAIL_IF(place_of(r, atom) != UINT32_MAX, err, STATOR_INVALID_ARGUMENT,
               "%s defines the size '%s', which an earlier node defines already", op,
               st_module_str(r->m, row->name));
    uint32_t *slot = st_vec_push(r->m->mem, &r->defined);
    ST_TRY_MEM(slot && st_map_put(&r->places, atom, r->defined.count), err);
    *slot = atom;
    return STATOR_OK;
}

static stator_status fail_types(const st_rebuild *r, const char *op, uint32_t k,
                                stator_ref inferred, stator_ref declared, stator_diag **err)
{
    st_str a, b;
    st_str_init(&a, r->m->mem);
    st_str_init(&b, r->m->mem);
    st_module_print_type(r->m, inferred, &a);
    st_module_print_type(r->m, declared, &b);
    const bool ok = st_str_ok(&a) && st_str_ok(&b);
    const stator_status status =
        ok ? st_fail(err, STATOR_INVALID_ARGUMENT,
                     "result %u of %s is %s by its operands and attributes, but %s is written", k,
                     op, a.data, b.data)
           : st_fail_oom(err);
    st_str_deinit(&a);
    st_str_deinit(&b);
    return status;
}

static stator_ref dim_of(const st_rebuild *r, const stator_type_row *type, uint32_t axis)
{
    return *(const stator_ref *)st_seg_at(&r->m->refs, type->dims_begin + axis);
}

/* How one result's types compare. NEWER: they differ only in sizes that are newer than symbol
 * number n_symbols and declared as an unbacked symbol. */
typedef enum agreement { TYPES_DIFFER, TYPES_AGREE, TYPES_NEWER } agreement;

static agreement compare_types(st_rebuild *r, stator_ref inferred, stator_ref declared,
                               uint32_t n_symbols)
{
    const stator_type_row *a = st_seg_at(&r->m->types, inferred);
    const stator_type_row *b = st_seg_at(&r->m->types, declared);
    agreement result = TYPES_AGREE;
    if (inferred == declared) {
        return TYPES_AGREE;
    }
    if (a->dtype != b->dtype || a->rank != b->rank) {
        return TYPES_DIFFER;
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        const stator_ref x = dim_of(r, a, i), y = dim_of(r, b, i);
        const stator_atom_row *fresh = symbol_row(r, x);
        if (x == y || st_sym_eq(&r->m->symtab, x, y) == 1) {
            continue;
        }
        if (fresh == NULL || fresh->index < n_symbols || !is_unbacked(symbol_row(r, y))) {
            return TYPES_DIFFER;
        }
        result = TYPES_NEWER;
    }
    return result;
}

static stator_ref type_of(const stator_builder *b, stator_ref value)
{
    return ((const stator_value_row *)st_seg_at(&b->graph->values, value))->type;
}

/* Notes what the node defines: declared symbols that stand where inference gave a newer one. A
 * symbol may stand in several places of one node. */
static stator_status define_declared(st_rebuild *r, const char *op, stator_ref inferred,
                                     stator_ref declared, uint32_t n_symbols, uint32_t mark,
                                     stator_diag **err)
{
    const stator_type_row *a = st_seg_at(&r->m->types, inferred);
    const stator_type_row *b = st_seg_at(&r->m->types, declared);
    for (uint32_t i = 0; i < a->rank; i++) {
        const stator_ref y = dim_of(r, b, i);
        const stator_atom_row *fresh = symbol_row(r, dim_of(r, a, i));
        if (fresh == NULL || fresh->index < n_symbols || dim_of(r, a, i) == y) {
            continue;
        }
        const uint32_t place = place_of(r, st_sym_as_symbol(&r->m->symtab, y));
        if (place == UINT32_MAX || place < mark) {
            ST_TRY(define(r, op, y, err));
        }
    }
    return STATOR_OK;
}

/* sym_bind defines symbols by an attribute. */
static stator_status define_bound(st_rebuild *r, stator_builder *b, stator_ref result,
                                  const st_op *op, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(b->graph);
    const stator_node_row *node =
        result != 0 ? stator_node_at(v, stator_value_at(v, result)->node) : NULL;
    if (node == NULL || node->op != STATOR_OPCODE_sym_bind) {
        return STATOR_OK;
    }
    const stator_attr_row *syms = stator_attr_at(v, node, STATOR_sym_bind_syms);
    for (uint32_t i = 0; i < syms->count; i++) {
        const stator_ref sym = stator_ref_at(v, syms->begin + i);
        ST_FAIL_IF(!is_unbacked(symbol_row(r, sym)), err, STATOR_INVALID_ARGUMENT,
                   "sym_bind: element %u of syms is no unbacked symbol", i);
        ST_TRY(define(r, op->desc.name, sym, err));
    }
    return STATOR_OK;
}

/* Is the node as declared? *out_again = 1 when it has to be built again with the declared types. */
static stator_status check_first(st_rebuild *r, stator_builder *b, const stator_node_desc *desc,
                                 const stator_ref *declared, const stator_ref *results,
                                 uint32_t n_symbols, bool *out_again, stator_diag **err)
{
    const char *op = st_optable_at(r->m->ops, desc->op)->desc.name;
    const uint32_t mark = r->defined.count;
    *out_again = false;
    for (uint32_t k = 0; k < desc->result_count; k++) {
        const stator_ref inferred = type_of(b, results[k]);
        const agreement same =
            declared[k] ? compare_types(r, inferred, declared[k], n_symbols) : TYPES_AGREE;
        if (same == TYPES_DIFFER) {
            return fail_types(r, op, k, inferred, declared[k], err);
        }
        if (same == TYPES_NEWER) {
            ST_TRY(define_declared(r, op, inferred, declared[k], n_symbols, mark, err));
            *out_again = true;
        }
    }
    return STATOR_OK;
}

/* Types proved equal but written differently stay as they are written. */
static stator_status take_declared(st_rebuild *r, stator_builder *b, const stator_node_desc *desc,
                                   const stator_ref *declared, const stator_ref *results,
                                   stator_diag **err)
{
    for (uint32_t k = 0; k < desc->result_count; k++) {
        stator_value_row *row = st_seg_at(&b->graph->values, results[k]);
        if (declared[k] == 0 || row->type == declared[k]) {
            continue;
        }
        if (compare_types(r, row->type, declared[k], UINT32_MAX) != TYPES_AGREE) {
            return fail_types(r, st_optable_at(r->m->ops, desc->op)->desc.name, k, row->type,
                              declared[k], err);
        }
        row->type = declared[k];
    }
    return STATOR_OK;
}

/* Builds, and sees to it that the node has as many results as are listed. */
static stator_status build_counted(stator_builder *b, const stator_node_desc *node, const st_op *op,
                                   stator_ref *out_results, stator_diag **err)
{
    const uint32_t before = b->graph->values.count;
    ST_TRY(st_build_node(b, node, out_results, err));
    const uint32_t count = b->graph->values.count - before;
    return count == node->result_count
               ? STATOR_OK
               : st_fail(err, STATOR_INVALID_ARGUMENT, "%s has %u results, %u are written",
                         op->desc.name, count, node->result_count);
}

stator_status st_rebuild_node(st_rebuild *r, stator_builder *b, const stator_node_desc *desc,
                              const stator_ref *declared, stator_ref *out_results,
                              stator_diag **err)
{
    const uint32_t n_symbols = r->m->symtab.n_symbols;
    const st_build_mark mark = st_build_here(b);
    const st_op *op = st_optable_at(r->m->ops, desc->op);
    stator_node_desc node = *desc;
    bool again = false;
    node.result_types = NULL;
    ST_TRY(build_counted(b, &node, op, out_results, err));
    ST_TRY(check_first(r, b, desc, declared, out_results, n_symbols, &again, err));
    if (again) {
        st_build_rollback(b, mark);
        node.result_types = declared;
        ST_TRY(build_counted(b, &node, op, out_results, err));
    }
    ST_TRY(take_declared(r, b, desc, declared, out_results, err));
    return define_bound(r, b, desc->result_count ? out_results[0] : 0, op, err);
}
