/* Inferring a module anew under other sizes of its inputs; see reinfer.h.
 *
 * In: a module that others may read, a plan. Out: a new module. A clone of the old one gets symbols
 * with the plan's ranges (or numbers) under the old names; then its root graph and their regions
 * are written again node by node: lists of sizes are substituted, types come from the infer rules.
 * Where a node made an unbacked symbol, whatever now stands in its place replaces it in all that
 * follows. The old graphs are dropped. */
#include "ir/sizes/reinfer.h"

#include "core/base/sym/sym_lin.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/sizes/baked_in.h"
#include "ir/sizes/bind_sizes.h"

#include <stdatomic.h>

#define ROUNDS_MAX 3u
#define REGIONS_MAX 8u
#define BREAK_MAX (INT64_C(1) << 60) /* sizes past it are no places to divide a range at */

typedef struct reinfer {
    st_module *m;
    const st_size_plan *plan;
    st_binding sizes;
    st_arena arena; /* attributes of one node */
} reinfer;

/* One graph being written. */
typedef struct writer {
    reinfer *r;
    const stator_graph *from;
    const stator_graph_view *v;
    stator_builder *b;
    stator_ref *map;
} writer;

/* ---- symbols ---- */

/* The new symbol takes the old one's number, so that texts and kernels stay as they were. */
static void swap_numbers(st_symtab *tab, uint32_t old, stator_ref sym)
{
    const uint32_t atom = st_sym_as_symbol(tab, sym);
    stator_atom_row *a = st_seg_at(&tab->atoms, old);
    stator_atom_row *b = st_seg_at(&tab->atoms, atom);
    if (atom != 0 && b->index > a->index) {
        const uint32_t index = a->index;
        a->index = b->index;
        b->index = index;
    }
}

/* The plan's symbols take the old ones' names and places. */
static stator_status replace_symbols(reinfer *r, stator_diag **err)
{
    st_symtab *tab = &r->m->symtab;
    const uint32_t n_atoms = tab->atoms.count;
    for (uint32_t atom = 1; atom < n_atoms; atom++) {
        stator_atom_row *row = st_seg_at(&tab->atoms, atom);
        const st_plan_range *range =
            row->kind == STATOR_ATOM_SYMBOL && row->name != 0 &&
                    (row->flags & STATOR_ATOM_UNBACKED) == 0
                ? st_size_plan_find(r->plan, st_module_str(r->m, row->name))
                : NULL;
        if (range == NULL) {
            continue;
        }
        const uint32_t name = row->name;
        row->name = 0; /* unused from here on; the new symbol takes its name */
        const stator_ref sym =
            range->lo == range->hi
                ? st_sym_int(tab, range->lo)
                : st_sym_symbol(tab, name, range->lo, range->hi, row->divisor, row->flags);
        ST_TRY_MEM(st_binding_set(&r->sizes, atom, sym), err);
        swap_numbers(tab, atom, sym);
    }
    return STATOR_OK;
}

static stator_ref dim_at(const st_module *m, const stator_type_row *type, uint32_t axis)
{
    return *(const stator_ref *)st_seg_at(&m->refs, type->dims_begin + axis);
}

/* Where an unbacked symbol stood, its successor stands from now on. */
static stator_status follow_unbacked(reinfer *r, stator_ref old, stator_ref fresh,
                                     stator_diag **err)
{
    st_symtab *tab = &r->m->symtab;
    const stator_type_row *a = st_seg_at(&r->m->types, old);
    const stator_type_row *b = st_seg_at(&r->m->types, fresh);
    for (uint32_t i = 0; old != fresh && i < a->rank && a->rank == b->rank; i++) {
        const stator_ref was = dim_at(r->m, a, i), is = dim_at(r->m, b, i);
        const uint32_t atom = st_sym_as_symbol(tab, was);
        const uint32_t fresh_atom = st_sym_as_symbol(tab, is);
        if (was == is || atom == 0 || (st_atom_at(tab, atom)->flags & STATOR_ATOM_UNBACKED) == 0 ||
            st_map_get(&r->sizes.values, atom) != 0) {
            continue;
        }
        ST_TRY_MEM(st_binding_set(&r->sizes, atom, is), err);
        if (fresh_atom != 0 && (st_atom_at(tab, fresh_atom)->flags & STATOR_ATOM_UNBACKED) != 0) {
            swap_numbers(tab, atom, is);
        }
    }
    return STATOR_OK;
}

/* ---- graphs ---- */

static stator_status write_graph(reinfer *r, const stator_graph *from, stator_builder *b,
                                 stator_diag **err);

static stator_status write_region(writer *w, const stator_graph *from, stator_graph **out,
                                  stator_diag **err)
{
    stator_builder *b = NULL;
    const char *name = st_module_str(w->r->m, from->name);
    ST_TRY(st_build_region_begin(w->b, name, &b, err));
    const stator_status status = write_graph(w->r, from, b, err);
    if (status != STATOR_OK) {
        st_build_region_abort(b);
        return status;
    }
    return st_build_region_end(b, out, err);
}

/* The node's attributes for the builder, with sizes substituted. */
static stator_status take_attrs(writer *w, const st_op *op, const stator_node_row *row,
                                stator_attr *attrs, stator_diag **err)
{
    reinfer *r = w->r;
    for (uint32_t k = 0; k < row->attr_count; k++) {
        ST_TRY(st_attr_from_row(w->v, r->m, &r->arena, op->desc.attrs[k].name,
                                stator_attr_at(w->v, row, k), &attrs[k], err));
        stator_ref *list = (stator_ref *)(uintptr_t)attrs[k].list;
        for (uint32_t i = 0; attrs[k].kind == STATOR_ATTR_DIMS && i < attrs[k].count; i++) {
            list[i] = st_binding_sym(&r->sizes, list[i]);
        }
    }
    return r->sizes.failed
               ? st_fail(err, STATOR_UNSUPPORTED,
                         "%s: a size of its attributes cannot be written under these sizes",
                         op->desc.name)
               : STATOR_OK;
}

static stator_status take_operands(writer *w, const stator_node_row *row, stator_ref **out,
                                   stator_diag **err)
{
    stator_ref *operands =
        st_arena_zalloc(&w->r->arena, row->operand_count + UINT64_C(1), sizeof *operands);
    ST_TRY_MEM(operands, err);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(w->v, row, k);
        operands[k] = value != 0 ? w->map[value] : 0;
    }
    *out = operands;
    return STATOR_OK;
}

static void copy_names(writer *w, stator_ref old, stator_ref fresh)
{
    const stator_value_row *from = stator_value_at(w->v, old);
    stator_value_row *to = st_seg_at(&w->b->graph->values, fresh);
    to->name = from->name;
    to->witness = from->witness;
    w->map[old] = fresh;
}

static stator_status build(writer *w, const st_op *op, const stator_node_row *row,
                           const stator_node_desc *desc, stator_diag **err)
{
    stator_ref results[ST_RESULTS_MAX];
    ST_TRY(st_build_node(w->b, desc, results, err));
    ST_FAIL_IF(
        row->result_count != 0 && w->b->graph->values.count - results[0] != row->result_count, err,
        STATOR_INTERNAL, "%s has another number of results under these sizes", op->desc.name);
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_ref old = row->result_begin + k;
        const stator_value_row *fresh = st_seg_at(&w->b->graph->values, results[k]);
        copy_names(w, old, results[k]);
        ST_TRY(follow_unbacked(w->r, stator_value_at(w->v, old)->type, fresh->type, err));
    }
    return STATOR_OK;
}

static stator_status write_node(writer *w, stator_ref node, stator_diag **err)
{
    const reinfer *r = w->r;
    const stator_node_row *row = stator_node_at(w->v, node);
    const st_op *op = st_optable_at(w->r->m->ops, row->op);
    stator_attr attrs[ST_ATTRS_MAX];
    stator_graph *regions[REGIONS_MAX];
    stator_ref *operands = NULL;
    ST_FAIL_IF(row->attr_count > ST_ATTRS_MAX || row->region_count > REGIONS_MAX, err,
               STATOR_UNIMPLEMENTED, "%s: too many attributes or regions", op->desc.name);
    for (uint32_t k = 0; k < row->region_count; k++) {
        ST_TRY(write_region(w, stator_region_at(w->v, row, k), &regions[k], err));
    }
    st_arena_reset(&w->r->arena);
    ST_TRY(take_attrs(w, op, row, attrs, err));
    ST_TRY(take_operands(w, row, &operands, err));
    if (row->operand_count != 0 && operands[0] != 0) {
        const stator_ref x = stator_operand(w->v, row, 0);
        st_baked_in_keep_whole(r->m, op, attrs, stator_value_type(w->v, x),
                               stator_value_type(st_graph_view(w->b->graph), operands[0]));
    }
    st_build_set_origin_ref(w->b, row->origin);
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = row->op,
                                   .operands = operands,
                                   .operand_count = row->operand_count,
                                   .attrs = attrs,
                                   .attr_count = row->attr_count,
                                   .regions = regions,
                                   .region_count = row->region_count,
                                   .result_count = row->result_count};
    return build(w, op, row, &desc, err);
}

/* Says which node it was, as frontends do. */
static void name_node(const writer *w, stator_ref node, stator_diag *diag)
{
    const st_module *m = w->r->m;
    const stator_node_row *row = stator_node_at(w->v, node);
    const stator_origin_row *origin = st_seg_at(&m->origins, row->origin);
    const uint32_t name =
        row->result_count != 0 ? stator_value_at(w->v, row->result_begin)->name : 0;
    if (diag != NULL && row->origin != 0 && origin->name != 0 && origin->kind != 0) {
        st_diag_prefix(diag, "node '%s' (%s)", st_module_str(m, origin->name),
                       st_module_str(m, origin->kind));
    } else if (diag != NULL && row->origin == 0 && name != 0) {
        st_diag_prefix(diag, "node '%s'", st_module_str(m, name));
    }
}

static stator_status write_inputs(writer *w, stator_diag **err)
{
    st_module *m = w->r->m;
    uint32_t position = 0;
    for (stator_ref i = 1; i <= w->from->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(w->v, i);
        const char *name = st_module_str(m, row->name);
        if ((row->flags & STATOR_VALUE_PARAM) != 0) {
            ST_TRY(st_build_param(w->b, name, row->type, st_module_blob_at(m, row->blob),
                                  &w->map[i], err));
        } else {
            stator_ref type = st_binding_type(&w->r->sizes, row->type);
            if (w->b->parent == NULL) {
                type = st_size_plan_type(w->r->plan, m, position++, type);
            }
            if (type == 0 || w->r->sizes.failed) {
                return st_fail_oom(err);
            }
            ST_TRY(st_build_input(w->b, name, type, &w->map[i], err));
        }
        copy_names(w, i, w->map[i]);
    }
    return STATOR_OK;
}

static stator_status write_graph(reinfer *r, const stator_graph *from, stator_builder *b,
                                 stator_diag **err)
{
    writer w = {.r = r, .from = from, .v = st_graph_view(from), .b = b};
    w.map = st_calloc(r->m->mem, w.v->n_values + UINT64_C(1), sizeof *w.map);
    ST_TRY_MEM(w.map, err);
    b->graph->has_witnesses = from->has_witnesses;
    stator_status status = write_inputs(&w, err);
    for (stator_ref node = 1; status == STATOR_OK && node <= w.v->n_nodes; node++) {
        stator_diag *diag = NULL;
        status = write_node(&w, node, &diag);
        if (status != STATOR_OK) {
            name_node(&w, node, diag);
        }
        (void)st_diag_give(status, diag, err);
    }
    ST_THEN(status, st_build_clone_outputs(b, from, w.map, err));
    st_free(r->m->mem, w.map);
    return status;
}

/* Graphs from `old` on in the list are read no more. Slots of regions that name them are of no
 * node any more; they get a graph that is there. */
static void drop_graphs(st_module *m, stator_graph *old)
{
    for (const stator_graph *g = old; g != NULL; g = g->next) {
        for (uint32_t i = 0; i < m->regions.count; i++) {
            const stator_graph **slot = st_seg_at(&m->regions, i);
            *slot = *slot == g ? m->root : *slot;
        }
    }
    stator_graph **link = &m->graphs;
    while (*link != NULL && *link != old) {
        link = &(*link)->next;
    }
    *link = NULL;
    while (old != NULL) {
        stator_graph *next = old->next;
        st_seg_deinit(&old->nodes);
        st_seg_deinit(&old->values);
        st_seg_deinit(&old->write_backs);
        old = next;
    }
}

/* ---- narrowing ---- */

typedef struct narrowing {
    const st_module *m;
    st_symtab *tab; /* symbols of a module of one's own: differences are interned in it */
    st_size_plan *plan;
    const int64_t *at;
    st_map seen; /* atoms */
    uint32_t changes;
    bool failed;
} narrowing;

/* The difference a - b when it is c*S + k with S a symbol of the plan: S's place, else -1. */
static int64_t difference(const narrowing *n, const stator_atom_row *row, int64_t *c, int64_t *k)
{
    const stator_ref sum = st_sym_sub(n->tab, row->a, row->b);
    const stator_sym_row *form = sum != 0 ? st_sym_row_at(n->tab, sum) : NULL;
    if (form == NULL || form->term_count != 1) {
        return -1;
    }
    const stator_term_row *term = st_sym_term(n->tab, form, 0);
    const stator_atom_row *atom = st_atom_at(n->tab, term->atom);
    if (atom->kind != STATOR_ATOM_SYMBOL || atom->name == 0 || term->coef > INT32_MAX ||
        term->coef < -INT32_MAX || form->constant > BREAK_MAX || form->constant < -BREAK_MAX) {
        return -1;
    }
    const st_plan_range *range = st_size_plan_find(n->plan, st_module_str(n->m, atom->name));
    *c = term->coef;
    *k = form->constant;
    return range != NULL ? (range - n->plan->ranges.data) : -1;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Keeps the side of `c*S + k <= 0` or `c*S + k > 0` on which the size of the call lies. */
static void keep_side(narrowing *n, uint32_t place, int64_t c, int64_t k)
{
    st_plan_range *range = &n->plan->ranges.data[place];
    const int64_t value = n->at[place];
    if (range->lo == range->hi || value > BREAK_MAX / INT32_MAX) {
        return;
    }
    int64_t lo = range->lo, hi = range->hi;
    const bool is_below = c * value + k <= 0;
    if (c > 0 && is_below) {
        hi = floor_div(-k, c);
    } else if (c > 0) {
        lo = floor_div(-k, c) + 1;
    } else if (is_below) {
        lo = floor_div(k - c - 1, -c); /* S >= k/-c, rounded up */
    } else {
        hi = floor_div(k - 1, -c);
    }
    if (lo > range->lo || hi < range->hi) {
        range->lo = lo > range->lo ? lo : range->lo;
        range->hi = hi < range->hi ? hi : range->hi;
        n->changes++;
    }
}

static void look_at_sym(narrowing *n, stator_ref sym);

static void look_at_atom(narrowing *n, uint32_t atom)
{
    const stator_atom_row row = *st_atom_at(n->tab, atom);
    if (row.kind == STATOR_ATOM_SYMBOL || st_map_get(&n->seen, atom) != 0) {
        return;
    }
    n->failed |= !st_map_put(&n->seen, atom, 1);
    look_at_sym(n, row.a);
    look_at_sym(n, row.b);
    int64_t c, k;
    const int place = row.kind == STATOR_ATOM_MIN || row.kind == STATOR_ATOM_MAX
                          ? difference(n, &row, &c, &k)
                          : -1;
    if (place >= 0) {
        keep_side(n, (uint32_t)place, c, k);
    }
}

static void look_at_sym(narrowing *n, stator_ref sym)
{
    const stator_sym_row row = *st_sym_row_at(n->tab, sym);
    for (uint32_t i = 0; i < row.term_count && !n->failed; i++) {
        look_at_atom(n, st_sym_term(n->tab, &row, i)->atom);
    }
}

static void look_at_graph(narrowing *n, const stator_graph *graph)
{
    const stator_graph_view *v = st_graph_view(graph);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const stator_type_row *type = stator_value_type(v, value);
        for (uint32_t i = 0; i < type->rank; i++) {
            look_at_sym(n, stator_dim_at(v, type, i));
        }
    }
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->attr_count; k++) {
            const stator_attr_row *attr = stator_attr_at(v, row, k);
            for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
                look_at_sym(n, stator_ref_at(v, attr->begin + i));
            }
        }
    }
}

/* Narrows the plan by the sizes that m's graphs use; the number of changes. */
static stator_status narrow(st_module *m, st_size_plan *plan, const int64_t *at,
                            uint32_t *out_changes, stator_diag **err)
{
    narrowing n = {.m = m, .tab = &m->symtab, .plan = plan, .at = at};
    st_map_init(&n.seen, m->mem);
    for (const stator_graph *g = m->graphs; at != NULL && g != NULL; g = g->next) {
        look_at_graph(&n, g);
    }
    st_map_deinit(&n.seen);
    *out_changes = n.changes;
    return n.failed ? st_fail_oom(err) : STATOR_OK;
}

/* ---- the whole ---- */

static stator_status rewrite(st_module *m, const st_size_plan *plan, stator_diag **err)
{
    reinfer r = {.m = m, .plan = plan};
    st_baked_in baked_in;
    stator_graph *old = m->graphs;
    const stator_graph *root = m->root;
    stator_builder *b = NULL;
    st_binding_init(&r.sizes, m);
    st_arena_init(&r.arena, m->mem);
    stator_status status = replace_symbols(&r, err);
    ST_THEN(status, st_builder_create(m, st_module_str(m, root->name), &b, err));
    if (status == STATOR_OK) {
        if (plan->axes.count != 0) {
            st_baked_in_begin(&baked_in, m);
        }
        status = write_graph(&r, root, b, err);
        if (status == STATOR_OK && plan->axes.count != 0) {
            status = st_baked_in_check(&baked_in, b, err);
        }
        if (status != STATOR_OK) {
            st_builder_abort(b);
        }
        if (plan->axes.count != 0) {
            st_baked_in_end(&baked_in);
        }
    }
    ST_THEN(status, st_builder_finish(b, &m->root, err));
    if (status == STATOR_OK) {
        drop_graphs(m, old);
    }
    st_arena_deinit(&r.arena);
    st_binding_deinit(&r.sizes);
    return status;
}

/* Out of memory, whatever was said before. */
static stator_status forget(stator_diag **err)
{
    if (err != NULL) {
        st_diag_release(*err);
        *err = NULL;
    }
    return st_fail_oom(err);
}

stator_status st_reinfer(const st_module *from, st_size_plan *plan, const int64_t *at,
                         st_module **out_module, stator_diag **err)
{
    st_mem *mem = from->mem;
    const uint64_t refused = atomic_load(&mem->refused);
    *out_module = NULL;
    for (uint32_t round = 0;; round++) {
        st_module *m = NULL;
        uint32_t changes = 0;
        ST_TRY(st_module_clone(from, &m, err));
        stator_status status = round == 0 ? narrow(m, plan, at, &changes, err) : STATOR_OK;
        ST_THEN(status, rewrite(m, plan, err));
        if (status == STATOR_OK && round < ROUNDS_MAX) {
            status = narrow(m, plan, at, &changes, err);
        }
        if (status != STATOR_RESOURCE_EXHAUSTED && atomic_load(&mem->refused) != refused) {
            status = forget(err); /* a failed allocation may have looked like a limit */
        }
        if (status != STATOR_OK || changes == 0 || round == ROUNDS_MAX) {
            *out_module = status == STATOR_OK ? m : NULL;
            if (status != STATOR_OK) {
                st_module_destroy(m);
            }
            return status;
        }
        st_module_destroy(m);
    }
}

bool st_reinfer_follows(st_module *m, const st_size_plan *plan)
{
    const stator_graph_view *v = st_graph_view(m->root);
    uint32_t position = 0;
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        const stator_value_row *row = stator_value_at(v, value);
        if ((row->flags & STATOR_VALUE_PARAM) == 0 &&
            st_size_plan_type(plan, m, position++, row->type) != row->type) {
            return false;
        }
    }
    return true;
}
