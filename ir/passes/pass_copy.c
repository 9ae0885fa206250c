/* Copying a graph node by node (see pass_copy.h). A region that the pass leaves as it is is shared
 * by the old and the new node; a changed one becomes a new graph of the module. */
#include "ir/passes/pass_copy.h"
#include "core/base/blob.h"

#define REGIONS_MAX 8u

stator_status st_copy_run(st_pass_fn pass, const st_pass_ctx *ctx, const stator_graph *in,
                          stator_builder *out, uint32_t *out_result, stator_diag **err)
{
    st_copy c = {.ctx = ctx,
                 .in = in,
                 .v = st_graph_view(in),
                 .out = out,
                 .pass = pass,
                 .e = st_op_emitter(out, err)};
    st_arena_init(&c.arena, ctx->mem);
    c.map = st_copy_zalloc(&c, c.v->n_values, sizeof *c.map);
    if (c.map != NULL) {
        pass(&c);
    }
    *out_result = st_copy_is_ok(&c) && c.changed ? STATOR_PASS_CHANGED : STATOR_PASS_SAME;
    st_arena_deinit(&c.arena);
    return c.e.status;
}

/* Runs the pass on one region; *out_graph is the old one when nothing changed. */
static stator_status rewrite_region(st_copy *c, const stator_graph *region,
                                    stator_graph **out_graph)
{
    stator_diag **err = c->e.err;
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

stator_graph *st_copy_region(st_copy *c, stator_ref node, uint32_t k)
{
    stator_graph *region = NULL;
    if (st_copy_is_ok(c)) {
        c->e.status =
            rewrite_region(c, stator_region_at(c->v, stator_node_at(c->v, node), k), &region);
    }
    return st_copy_is_ok(c) ? region : NULL;
}

void st_copy_node(st_copy *c, stator_ref node)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_graph *regions[REGIONS_MAX];
    if (row->region_count > REGIONS_MAX) {
        stator_emit_fail(&c->e, STATOR_UNIMPLEMENTED, "%s: has %u regions, at most %u",
                         st_copy_op(c, node)->name, row->region_count, REGIONS_MAX);
    }
    for (uint32_t k = 0; st_copy_is_ok(c) && k < row->region_count; k++) {
        regions[k] = st_copy_region(c, node, k);
    }
    ST_THEN(c->e.status,
            st_build_clone_node(c->out, c->in, node, row->region_count != 0 ? regions : NULL,
                                c->map, c->e.err));
}

void *st_copy_zalloc(st_copy *c, uint64_t last, uint64_t size)
{
    void *made = st_copy_is_ok(c) ? st_arena_zalloc(&c->arena, last + 1u, size) : NULL;
    if (made == NULL && st_copy_is_ok(c)) {
        c->e.status = st_fail_oom(c->e.err);
    }
    return made;
}

void st_copy_forgive(st_copy *c, stator_diag *why)
{
    st_diag_release(why);
    c->e.status =
        c->e.status == STATOR_RESOURCE_EXHAUSTED ? st_fail_oom(c->e.err) : (stator_status)STATOR_OK;
}

bool st_copy_evaluate(st_copy *c, stator_blob **out_blobs)
{
    const stator_graph *graph = c->out->graph;
    stator_diag *inner = NULL;
    if (!st_copy_is_ok(c)) {
        return false;
    }
    c->e.status = c->ctx->evaluate(c->ctx->evaluate_self, graph, st_graph_view(graph)->n_nodes,
                                   out_blobs, &inner);
    const bool is_done = st_copy_is_ok(c);
    st_copy_forgive(c, inner);
    return is_done;
}

stator_ref st_copy_constant(st_copy *c, st_build_mark before)
{
    const stator_graph_view *v = st_graph_view(c->out->graph);
    const stator_ref type = stator_value_at(v, v->n_values)->type;
    stator_blob *blob = NULL;
    stator_ref made = 0;
    if (st_copy_evaluate(c, &blob)) {
        st_build_rollback(c->out, before);
        c->e.status = st_build_constant_blob(c->out, type, blob, &made, c->e.err);
        st_blob_release(blob);
    }
    return made;
}

void st_copy_replace(st_copy *c, stator_ref from, stator_ref to)
{
    const stator_value_row *old = stator_value_at(c->v, from);
    if (!st_copy_is_ok(c)) {
        return;
    }
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

void st_copy_bind_sizes(st_copy *c, stator_ref from, stator_ref to)
{
    const stator_value_row *old = stator_value_at(c->v, from);
    const stator_type_row *wanted = stator_type_at(c->v, old->type);
    const stator_type_row *given = stator_value_type(st_graph_view(c->out->graph), to);
    st_symtab *tab = &c->out->module->symtab;
    stator_ref syms[STATOR_RANK_MAX], sizes[STATOR_RANK_MAX];
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
    if (n != 0) {
        stator_emit_op(&c->e, "sym_bind", STATOR_IN(stator_emit_from_dims(&c->e, n, sizes)),
                       STATOR_AT(STATOR_A_DIMS("syms", n, syms)));
    }
}

void st_copy_end(st_copy *c)
{
    if (c->changed) {
        ST_THEN(c->e.status, st_build_clone_outputs(c->out, c->in, c->map, c->e.err));
    }
}

void st_copy_nodes(st_copy *c, st_copy_visit_fn visit, void *self)
{
    ST_THEN(c->e.status, st_build_clone_inputs(c->out, c->in, c->map, c->e.err));
    for (stator_ref node = 1; st_copy_is_ok(c) && node <= c->v->n_nodes; node++) {
        visit(self, node);
    }
    st_copy_end(c);
}

uint32_t *st_copy_count_uses(st_copy *c, uint32_t kept)
{
    const stator_graph_view *v = c->v;
    uint32_t *uses = st_copy_zalloc(c, v->n_values, sizeof *uses);
    if (uses == NULL) {
        return NULL;
    }
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
    return uses;
}
