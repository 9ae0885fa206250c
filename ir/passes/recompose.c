/* Composites that an exported graph has written out become one node again, where the backend keeps
 * them whole.
 *
 *     a = div(x, 1.414214)  b = erf(a)  c = add(b, 1)  d = mul(x, c)  y = mul(d, 0.5)
 *         ->  y = gelu(x)
 *
 * In: any graph, in the normal form of canonicalize; the keep-set of the context, without which
 * nothing is done. Out: the node that made the composite's last value is the composite; nodes that
 * nothing else reads are gone. Results agree within the composite's tolerance, not bit for bit.
 *
 * First the nodes are looked at from the last to the first, so that what belongs to a larger
 * composite is not taken for a smaller one, and what will be unused is known; a composite is built
 * for a trial, of which the backend is asked whether it keeps it, then fuel is asked. Then the
 * graph is copied from the first node to the last. Each node is tried against patterns of fixed
 * size, so the time is proportional to the graph. */
#include "ir/passes/recompose.h"
#include <math.h>
#include <string.h>

#define ATTRS_MAX 8u
#define FLOAT_DISTANCE_MAX 1e-7 /* an attribute this near to its default is the default */

typedef struct plan {
    const st_rc_pattern *pattern; /* NULL: attention */
    const char *name;
    st_rc_found found;
    int64_t axis;
    st_rc_step vectors[ST_RC_VARS]; /* operands that are vectors with axes of size 1 before them */
    st_rc_attention attention;
} plan;

typedef struct recomposer {
    st_copy *copy;
    st_rc_patterns patterns;
    plan **plans;    /* by node */
    uint32_t *uses;  /* by value: nodes, outputs and write-backs that read it */
    uint8_t *inside; /* by node: a composite replaces it */
    uint8_t *dead;
    stator_ref *trial; /* by value: inputs of the graph that tries a plan */
    uint32_t n_plans;
} recomposer;

/* ---- uses ---- */

static void drop_operands(recomposer *r, const stator_node_row *row)
{
    for (uint32_t k = 0; k < row->operand_count; k++) {
        r->uses[stator_operand(r->copy->v, row, k)]--;
    }
}

static bool is_used(const recomposer *r, const stator_node_row *row)
{
    for (uint32_t k = 0; k < row->result_count; k++) {
        if (r->uses[row->result_begin + k] != 0) {
            return true;
        }
    }
    return false;
}

/* Does the node define a run-time size? Others may read that without reading the value. */
static bool defines_size(const recomposer *r, const stator_node_row *row)
{
    const stator_graph_view *v = r->copy->v;
    const st_symtab *tab = &r->copy->in->module->symtab;
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        for (uint32_t i = 0; i < type->rank; i++) {
            const uint32_t atom = st_sym_as_symbol(tab, stator_dim_at(v, type, i));
            if (atom != 0 && (st_atom_at(tab, atom)->flags & STATOR_ATOM_UNBACKED) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* ---- building a plan ---- */

/* The FLOAT attributes that were found, axis, and what the row sets. */
static uint32_t list_attrs(const plan *p, const stator_op_desc *op, stator_attr out[ATTRS_MAX])
{
    const st_rc_def *def = p->pattern->def;
    uint32_t n = 0, hole = 0;
    for (uint32_t k = 0; k < op->attr_count && n < ATTRS_MAX; k++) {
        const stator_attr_desc *d = &op->attrs[k];
        stator_attr a = {.name = d->name, .kind = d->kind};
        bool is_set = false;
        if (d->kind == STATOR_ATTR_FLOAT && hole < ST_RC_HOLES) {
            is_set = (p->found.has_hole >> hole & 1u) != 0;
            a.f = p->found.holes[hole++];
            a.f = fabs(a.f - d->f) <= FLOAT_DISTANCE_MAX * fabs(d->f) ? d->f : a.f;
        } else if (d->kind == STATOR_ATTR_INT && strcmp(d->name, "axis") == 0) {
            is_set = def->axes != ST_AXES_NONE;
            a.i = p->axis;
        } else if (def->set != NULL && strcmp(d->name, def->set) == 0) {
            is_set = true;
            a.s = def->to;
        }
        if (is_set) {
            out[n++] = a;
        }
    }
    return n;
}

static stator_status build_pattern(const plan *p, stator_builder *b, const stator_ref *map,
                                   stator_ref *out_node, stator_ref *out, stator_diag **err)
{
    const st_rc_def *def = p->pattern->def;
    const st_op *op = st_optable_at(b->module->ops, def->op);
    stator_attr attrs[ATTRS_MAX];
    stator_ref operands[ST_RC_VARS] = {0};
    stator_ref results[4] = {0};
    uint32_t least = 0, most = 0;
    for (uint32_t k = 0; k < def->operands; k++) {
        operands[k] = map[p->found.vars[k]];
        if (p->vectors[k].rank != 0) {
            const stator_attr shape = {.name = "shape",
                                       .kind = STATOR_ATTR_DIMS,
                                       .count = p->vectors[k].rank,
                                       .list = p->vectors[k].dims};
            ST_TRY(st_build_op(b, "reshape", 1, &operands[k], 1, &shape, 1, &operands[k], err));
        }
    }
    st_name_counts(op->desc.results, &least, &most);
    const uint32_t n = list_attrs(p, &op->desc, attrs);
    ST_TRY(st_build_op(b, op->desc.name, def->operands, operands, n, attrs, least, results, err));
    *out = results[0];
    *out_node = stator_value_at(st_graph_view(b->graph), results[0])->node;
    return STATOR_OK;
}

static stator_status build(const plan *p, stator_builder *b, const stator_ref *map,
                           stator_ref *out_node, stator_ref *out, stator_diag **err)
{
    return p->pattern != NULL ? build_pattern(p, b, map, out_node, out, err)
                              : st_rc_build_sdpa(&p->attention, b, map, out_node, out, err);
}

#define READS_MAX (ST_RC_MASKS + 3u)

/* The values that the composite reads. */
static uint32_t reads_of(const plan *p, stator_ref out[READS_MAX])
{
    uint32_t n = 0;
    if (p->pattern != NULL) {
        while (n < p->pattern->def->operands) {
            out[n] = p->found.vars[n];
            n++;
        }
        return n;
    }
    out[n++] = p->attention.q.value;
    out[n++] = p->attention.k.value;
    out[n++] = p->attention.v.value;
    for (uint32_t i = 0; i < p->attention.n_masks; i++) {
        out[n++] = p->attention.masks[i].at.value;
    }
    return n;
}

static const stator_ref *nodes_of(const plan *p, uint32_t *out_n)
{
    *out_n = p->pattern != NULL ? p->found.n_nodes : p->attention.n_nodes;
    return p->pattern != NULL ? p->found.nodes : p->attention.nodes;
}

/* ---- does it fit? ---- */

/* Scale and shift of a norm are vectors over the normalised axes, however many axes of size 1 stand
 * before those. */
static bool take_vectors(const recomposer *r, plan *p)
{
    const stator_graph_view *v = r->copy->v;
    const stator_type_row *x = stator_value_type(v, p->found.vars[0]);
    const uint32_t n = x->rank - (uint32_t)p->axis;
    for (uint32_t k = 1; k < p->pattern->def->operands; k++) {
        const stator_type_row *w = stator_value_type(v, p->found.vars[k]);
        int64_t size = 0;
        if (w->rank < n) {
            return false;
        }
        for (uint32_t i = 0; i < w->rank; i++) {
            const stator_ref dim = stator_dim_at(v, w, i);
            if (i < w->rank - n ? !stator_sym_is_const(v, dim, &size) || size != 1
                                : dim != stator_dim_at(v, x, x->rank - w->rank + i)) {
                return false;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            p->vectors[k].dims[i] = stator_dim_at(v, w, w->rank - n + i);
        }
        p->vectors[k].rank = w->rank != n ? n : 0;
    }
    return true;
}

/* Inputs with the types of what the plan reads, in r->trial. */
static stator_status add_trial_inputs(recomposer *r, const plan *p, stator_builder *b,
                                      stator_diag **err)
{
    stator_ref reads[READS_MAX];
    const uint32_t n = reads_of(p, reads);
    for (uint32_t i = 0; i < n; i++) {
        r->trial[reads[i]] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (r->trial[reads[i]] == 0) {
            ST_TRY(st_build_input(b, NULL, stator_value_at(r->copy->v, reads[i])->type,
                                  &r->trial[reads[i]], err));
        }
    }
    return STATOR_OK;
}

/* Builds the composite in a graph of its own: it must have the type of the value that it replaces,
 * and the backend must keep it. */
static stator_status try_plan(recomposer *r, const plan *p, stator_ref value, bool *out_fits,
                              stator_diag **err)
{
    const st_pass_ctx *ctx = r->copy->ctx;
    stator_builder *b = NULL;
    stator_diag *why = NULL;
    stator_ref node = 0, result = 0;
    *out_fits = false;
    ST_TRY(st_builder_create(r->copy->in->module, "recompose", &b, err));
    stator_status status = add_trial_inputs(r, p, b, &why);
    ST_THEN(status, build(p, b, r->trial, &node, &result, &why));
    if (status == STATOR_OK) {
        const stator_graph_view *v = st_graph_view(b->graph);
        *out_fits = stator_value_at(v, result)->type == stator_value_at(r->copy->v, value)->type &&
                    ctx->keep(ctx->keep_self, b->graph, node);
    }
    st_builder_abort(b);
    st_diag_release(why);
    return status == STATOR_RESOURCE_EXHAUSTED ? st_fail_oom(err) : STATOR_OK;
}

/* ---- planning ---- */

/* The plan is kept: what it replaces loses its reader, what it reads has one more. */
static stator_status accept(recomposer *r, const plan *p, stator_ref node, stator_diag **err)
{
    stator_ref reads[READS_MAX];
    uint32_t n_nodes = 0;
    const stator_ref *nodes = nodes_of(p, &n_nodes);
    const uint32_t n = reads_of(p, reads);
    plan *kept = st_arena_alloc(&r->copy->arena, sizeof *kept, _Alignof(plan));
    ST_TRY_MEM(kept, err);
    *kept = *p;
    r->plans[node] = kept;
    r->n_plans++;
    drop_operands(r, stator_node_at(r->copy->v, node));
    for (uint32_t i = 0; i < n; i++) {
        r->uses[reads[i]]++;
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        r->inside[nodes[i]] = 1;
    }
    return STATOR_OK;
}

static stator_status consider(recomposer *r, const plan *p, stator_ref node, stator_diag **err)
{
    const stator_ref value = stator_node_at(r->copy->v, node)->result_begin;
    bool fits = false;
    ST_TRY(try_plan(r, p, value, &fits, err));
    if (!fits || !st_pass_may(r->copy->ctx, STATOR_FUEL_REWRITE, p->name, node)) {
        return STATOR_OK;
    }
    return accept(r, p, node, err);
}

static stator_status plan_patterns(recomposer *r, plan *p, stator_ref node, stator_diag **err)
{
    const stator_ref value = stator_node_at(r->copy->v, node)->result_begin;
    const stator_graph *g = r->copy->in;
    for (uint32_t i = 0; i < r->patterns.n && r->plans[node] == NULL; i++) {
        p->pattern = &r->patterns.list[i];
        p->name = p->pattern->def->name;
        memset(p->vectors, 0, sizeof p->vectors);
        if (st_rc_match(p->pattern, g, value, &p->found) &&
            st_rc_axis(p->pattern, g, &p->found, &p->axis) &&
            (p->pattern->def->axes != ST_AXES_TRAILING || take_vectors(r, p))) {
            ST_TRY(consider(r, p, node, err));
        }
    }
    return STATOR_OK;
}

static stator_status plan_node(recomposer *r, stator_ref node, stator_diag **err)
{
    const stator_graph_view *v = r->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    plan p = {.pattern = NULL, .name = st_rc_sdpa_name};
    if (r->inside[node] && !is_used(r, row)) {
        r->dead[node] = !defines_size(r, row);
        if (r->dead[node]) {
            drop_operands(r, row);
        }
        return STATOR_OK;
    }
    if (row->result_count != 1 || row->operand_count == 0 || row->region_count != 0 ||
        st_dtype_class(stator_value_type(v, row->result_begin)->dtype) != STATOR_CLASS_FLOAT) {
        return STATOR_OK;
    }
    if (st_rc_match_sdpa(&r->patterns, r->copy->in, r->uses, row->result_begin, &p.attention)) {
        ST_TRY(consider(r, &p, node, err));
    }
    return r->plans[node] == NULL ? plan_patterns(r, &p, node, err) : STATOR_OK;
}

/* ---- writing ---- */

static stator_status write_plan(recomposer *r, stator_ref node, stator_diag **err)
{
    st_copy *c = r->copy;
    const plan *p = r->plans[node];
    const stator_node_row *row = stator_node_at(c->v, node);
    uint32_t n_nodes = 0, origin = row->origin;
    const stator_ref *nodes = nodes_of(p, &n_nodes);
    stator_ref made = 0, result = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (r->dead[nodes[i]]) {
            origin = st_module_origin_merge(c->out->module, origin,
                                            stator_node_at(c->v, nodes[i])->origin);
        }
    }
    st_build_set_origin_ref(c->out, origin);
    ST_TRY(build(p, c->out, c->map, &made, &result, err));
    st_copy_replace(c, row->result_begin, result);
    return STATOR_OK;
}

static bool has_regions(const stator_graph_view *v)
{
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        if (stator_node_at(v, node)->region_count != 0) {
            return true;
        }
    }
    return false;
}

static stator_status rewrite(recomposer *r, stator_diag **err)
{
    const uint32_t n = r->copy->v->n_nodes;
    for (stator_ref node = n; node != 0; node--) {
        ST_TRY(plan_node(r, node, err));
    }
    if (r->n_plans == 0 && !has_regions(r->copy->v)) {
        return STATOR_OK;
    }
    ST_TRY(st_build_clone_inputs(r->copy->out, r->copy->in, r->copy->map, err));
    for (stator_ref node = 1; node <= n; node++) {
        if (r->plans[node] != NULL) {
            ST_TRY(write_plan(r, node, err));
        } else if (!r->dead[node]) {
            ST_TRY(st_copy_node(r->copy, node, err));
        }
    }
    return st_copy_end(r->copy, err);
}

stator_status st_pass_recompose(st_copy *c, stator_diag **err)
{
    if (c->ctx->keep == NULL) {
        return STATOR_OK;
    }
    const uint64_t n_nodes = c->v->n_nodes + 1u, n_values = c->v->n_values + 1u;
    recomposer r = {.copy = c,
                    .plans = st_arena_zalloc(&c->arena, n_nodes, sizeof *r.plans),
                    .uses = st_arena_zalloc(&c->arena, n_values, sizeof *r.uses),
                    .inside = st_arena_zalloc(&c->arena, n_nodes, 1),
                    .dead = st_arena_zalloc(&c->arena, n_nodes, 1),
                    .trial = st_arena_zalloc(&c->arena, n_values, sizeof *r.trial)};
    ST_TRY_MEM(r.plans && r.uses && r.inside && r.dead && r.trial, err);
    st_copy_count_uses(c, 1, r.uses);
    ST_TRY(st_rc_patterns_init(&r.patterns, c->ctx->mem, c->in, err));
    const stator_status status = rewrite(&r, err);
    st_rc_patterns_deinit(&r.patterns);
    return status;
}
