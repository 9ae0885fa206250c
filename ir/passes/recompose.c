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

static stator_ref build_pattern(const plan *p, stator_emitter *e, const stator_ref *map,
                                stator_ref *out_node)
{
    const st_rc_def *def = p->pattern->def;
    const st_op *op = st_optable_at(e->b->module->ops, def->op);
    stator_attr attrs[ATTRS_MAX];
    stator_ref operands[ST_RC_VARS] = {0};
    stator_ref results[4] = {0};
    uint32_t least = 0, most = 0;
    for (uint32_t k = 0; k < def->operands; k++) {
        operands[k] = map[p->found.vars[k]];
        if (p->vectors[k].rank != 0) {
            operands[k] =
                stator_emit_reshape(e, operands[k], p->vectors[k].rank, p->vectors[k].dims);
        }
    }
    st_name_counts(op->desc.results, &least, &most);
    const uint32_t n = list_attrs(p, &op->desc, attrs);
    stator_emit_node(e, op->desc.name, def->operands, operands, n, attrs, 0, NULL, least, results);
    *out_node = results[0] ? stator_value_at(st_graph_view(e->b->graph), results[0])->node : 0;
    return results[0];
}

static stator_ref build(const plan *p, stator_emitter *e, const stator_ref *map,
                        stator_ref *out_node)
{
    return p->pattern != NULL ? build_pattern(p, e, map, out_node)
                              : st_rc_build_sdpa(&p->attention, e, map, out_node);
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
static void add_trial_inputs(recomposer *r, const plan *p, stator_emitter *e)
{
    stator_ref reads[READS_MAX];
    const uint32_t n = reads_of(p, reads);
    for (uint32_t i = 0; i < n; i++) {
        r->trial[reads[i]] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (r->trial[reads[i]] == 0) {
            r->trial[reads[i]] =
                stator_emit_input(e, NULL, stator_value_at(r->copy->v, reads[i])->type);
        }
    }
}

/* Builds the composite in a graph of its own: it must have the type of the value that it replaces,
 * and the backend must keep it. */
static bool try_plan(recomposer *r, const plan *p, stator_ref value)
{
    st_copy *c = r->copy;
    stator_builder *b = NULL;
    stator_diag *why = NULL;
    stator_ref node = 0;
    bool fits = false;
    ST_THEN(c->e.status, st_builder_create(c->in->module, "recompose", &b, c->e.err));
    if (b == NULL) {
        return false;
    }
    stator_emitter e = st_op_emitter(b, &why);
    add_trial_inputs(r, p, &e);
    const stator_ref result = build(p, &e, r->trial, &node);
    if (e.status == STATOR_OK) {
        const stator_graph_view *v = st_graph_view(b->graph);
        fits = stator_value_at(v, result)->type == stator_value_at(c->v, value)->type &&
               c->ctx->keep(c->ctx->keep_self, b->graph, node);
    }
    st_builder_abort(b);
    c->e.status = e.status;
    st_copy_forgive(c, why);
    return fits;
}

/* ---- planning ---- */

/* The plan is kept: what it replaces loses its reader, what it reads has one more. */
static void accept(recomposer *r, const plan *p, stator_ref node)
{
    stator_ref reads[READS_MAX];
    uint32_t n_nodes = 0;
    const stator_ref *nodes = nodes_of(p, &n_nodes);
    const uint32_t n = reads_of(p, reads);
    plan *kept = st_copy_zalloc(r->copy, 0, sizeof *kept);
    if (kept == NULL) {
        return;
    }
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
}

static void consider(recomposer *r, const plan *p, stator_ref node)
{
    if (try_plan(r, p, stator_node_at(r->copy->v, node)->result_begin) &&
        st_pass_may(r->copy->ctx, STATOR_FUEL_REWRITE, p->name, node)) {
        accept(r, p, node);
    }
}

static void plan_patterns(recomposer *r, plan *p, stator_ref node)
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
            consider(r, p, node);
        }
    }
}

static void plan_node(recomposer *r, stator_ref node)
{
    const stator_graph_view *v = r->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    plan p = {.pattern = NULL, .name = st_rc_sdpa_name};
    if (r->inside[node] && !is_used(r, row)) {
        r->dead[node] = !defines_size(r, row);
        if (r->dead[node]) {
            drop_operands(r, row);
        }
        return;
    }
    if (row->result_count != 1 || row->operand_count == 0 || row->region_count != 0 ||
        st_dtype_class(stator_value_type(v, row->result_begin)->dtype) != STATOR_CLASS_FLOAT) {
        return;
    }
    if (st_rc_match_sdpa(&r->patterns, r->copy->in, r->uses, row->result_begin, &p.attention)) {
        consider(r, &p, node);
    }
    plan_patterns(r, &p, node);
}

/* ---- writing ---- */

static void write_plan(recomposer *r, stator_ref node)
{
    st_copy *c = r->copy;
    const plan *p = r->plans[node];
    const stator_node_row *row = stator_node_at(c->v, node);
    uint32_t n_nodes = 0, origin = row->origin;
    const stator_ref *nodes = nodes_of(p, &n_nodes);
    stator_ref made = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (r->dead[nodes[i]]) {
            origin = st_module_origin_merge(c->out->module, origin,
                                            stator_node_at(c->v, nodes[i])->origin);
        }
    }
    st_build_set_origin_ref(c->out, origin);
    st_copy_replace(c, row->result_begin, build(p, &c->e, c->map, &made));
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

static void visit(void *self, stator_ref node)
{
    recomposer *r = self;
    if (r->plans[node] != NULL) {
        write_plan(r, node);
    } else if (!r->dead[node]) {
        st_copy_node(r->copy, node);
    }
}

static void rewrite(recomposer *r)
{
    const stator_graph_view *v = r->copy->v;
    for (stator_ref node = v->n_nodes; st_copy_is_ok(r->copy) && node != 0; node--) {
        plan_node(r, node);
    }
    if (r->n_plans != 0 || has_regions(v)) {
        st_copy_nodes(r->copy, visit, r);
    }
}

void st_pass_recompose(st_copy *c)
{
    if (c->ctx->keep == NULL) {
        return;
    }
    const uint64_t n_nodes = c->v->n_nodes, n_values = c->v->n_values;
    recomposer r = {.copy = c,
                    .plans = st_copy_zalloc(c, n_nodes, sizeof *r.plans),
                    .uses = st_copy_count_uses(c, 1),
                    .inside = st_copy_zalloc(c, n_nodes, 1),
                    .dead = st_copy_zalloc(c, n_nodes, 1),
                    .trial = st_copy_zalloc(c, n_values, sizeof *r.trial)};
    ST_THEN(c->e.status, st_rc_patterns_init(&r.patterns, c->ctx->mem, c->in, c->e.err));
    if (st_copy_is_ok(c)) {
        rewrite(&r);
        st_rc_patterns_deinit(&r.patterns);
    }
}
