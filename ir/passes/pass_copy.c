/* Copying a graph node by node (see pass_copy.h). A region that the pass leaves as it is is shared
 * by the old and the new node; a changed one becomes a new graph of the module. */
#include "ir/passes/pass_copy.h"

#define REGIONS_MAX 8u

stator_status st_copy_run(st_pass_fn pass, const st_pass_ctx *ctx, const stator_graph *in,
                          stator_builder *out, uint32_t *out_result, stator_diag **err)
{
    st_copy c = {.ctx = ctx, .in = in, .v = st_graph_view(in), .out = out, .pass = pass};
    st_arena_init(&c.arena, ctx->mem);
    c.map = st_arena_zalloc(&c.arena, (uint64_t)c.v->n_values + 1u, sizeof *c.map);
    const stator_status status = c.map != NULL ? pass(&c, err) : st_fail_oom(err);
    *out_result = status == STATOR_OK && c.changed ? STATOR_PASS_CHANGED : STATOR_PASS_SAME;
    st_arena_deinit(&c.arena);
    return status;
}

/* Runs the pass on one region; *out_graph is the old one when nothing changed. */
static stator_status rewrite_region(st_copy *c, const stator_graph *region,
                                    stator_graph **out_graph, stator_diag **err)
{
    stator_builder *b = NULL;
    uint32_t result = STATOR_PASS_SAME;
    *out_graph = (stator_graph *)(uintptr_t)region;
    ST_TRY(st_build_region_begin(c->out, st_module_str(region->module, region->name), &b, err));
    st_pass_about(c->ctx, region);
    const stator_status status = st_copy_run(c->pass, c->ctx, region, b, &result, err);
    st_pass_about(c->ctx, c->in);
    if (status != STATOR_OK || result == STATOR_PASS_SAME) {
        st_build_region_abort(b);
        return status;
    }
    c->changed = 1;
    return st_build_region_end(b, out_graph, err);
}

stator_status st_copy_node(st_copy *c, stator_ref node, stator_diag **err)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_graph *regions[REGIONS_MAX];
    ST_FAIL_IF(row->region_count > REGIONS_MAX, err, STATOR_UNIMPLEMENTED,
               "%s: has %u regions, at most %u", st_copy_op(c, node)->name, row->region_count,
               REGIONS_MAX);
    for (uint32_t k = 0; k < row->region_count; k++) {
        ST_TRY(rewrite_region(c, stator_region_at(c->v, row, k), &regions[k], err));
    }
    return st_build_clone_node(c->out, c->in, node, row->region_count != 0 ? regions : NULL, c->map,
                               err);
}

void st_copy_replace(st_copy *c, stator_ref from, stator_ref to)
{
    const stator_value_row *old = stator_value_at(c->v, from);
    stator_value_row *row = st_seg_at(&c->out->graph->values, to);
    row->witness = row->witness != 0 ? row->witness : old->witness;
    row->name = row->name != 0 ? row->name : old->name;
    c->map[from] = to;
    c->changed = 1;
}

static bool is_unbacked(const st_symtab *tab, uint32_t atom)
{
    return (st_atom_at(tab, atom)->flags & STATOR_ATOM_UNBACKED) != 0;
}

/* Does a value before `end` hold this size in its type, or an earlier node bind it? */
static bool is_defined_before(const st_copy *c, stator_ref sym, stator_ref end)
{
    for (stator_ref value = 1; value < end; value++) {
        const stator_type_row *type = stator_value_type(c->v, value);
        for (uint32_t i = 0; i < type->rank; i++) {
            if (stator_dim_at(c->v, type, i) == sym) {
                return true;
            }
        }
        const stator_ref node = stator_value_at(c->v, value)->node;
        if (node == 0 || (st_copy_op(c, node)->flags & STATOR_OP_EFFECT) == 0) {
            continue;
        }
        const stator_node_row *row = stator_node_at(c->v, node);
        for (uint32_t k = 0; k < row->attr_count; k++) {
            const stator_attr_row *attr = stator_attr_at(c->v, row, k);
            for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
                if (stator_ref_at(c->v, attr->begin + i) == sym) {
                    return true;
                }
            }
        }
    }
    return false;
}

stator_status st_copy_bind_sizes(st_copy *c, stator_ref from, stator_ref to, stator_diag **err)
{
    const stator_value_row *old = stator_value_at(c->v, from);
    const stator_type_row *wanted = stator_type_at(c->v, old->type);
    const stator_type_row *given = stator_value_type(st_graph_view(c->out->graph), to);
    st_symtab *tab = &c->out->module->symtab;
    stator_ref syms[STATOR_RANK_MAX], sizes[STATOR_RANK_MAX], list = 0, bound = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; given->rank == wanted->rank && i < wanted->rank; i++) {
        const stator_ref sym = stator_dim_at(c->v, wanted, i);
        const uint32_t atom = st_sym_as_symbol(tab, sym);
        const stator_ref size = stator_dim_at(c->v, given, i);
        if (sym != size && atom != 0 && is_unbacked(tab, atom) &&
            !is_defined_before(c, sym, from)) {
            syms[n] = sym;
            sizes[n++] = size;
        }
    }
    if (n == 0) {
        return STATOR_OK;
    }
    const stator_attr attr = {.name = "syms", .kind = STATOR_ATTR_DIMS, .count = n, .list = syms};
    ST_TRY(st_build_from_dims(c->out, sizes, n, &list, err));
    return st_build_op(c->out, "sym_bind", 1, &list, 1, &attr, 1, &bound, err);
}

stator_status st_copy_end(st_copy *c, stator_diag **err)
{
    return c->changed ? st_build_clone_outputs(c->out, c->in, c->map, err) : STATOR_OK;
}

stator_status st_copy_nodes(st_copy *c, st_copy_visit_fn visit, void *self, stator_diag **err)
{
    ST_TRY(st_build_clone_inputs(c->out, c->in, c->map, err));
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        ST_TRY(visit(self, node, err));
    }
    return st_copy_end(c, err);
}

void st_copy_count_uses(const st_copy *c, uint32_t kept, uint32_t *uses)
{
    const stator_graph_view *v = c->v;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            uses[stator_operand(v, row, k)]++;
        }
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        uses[stator_output_at(v, k)] += kept;
    }
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        uses[stator_write_back_at(v, k)->value] += kept;
    }
}
