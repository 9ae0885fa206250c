/* Scans that carry the same through the same steps are one scan.
 *
 *     h, y = scan(s, x)  region (s, x) { t = f(s, x)  return t, t }
 *     k, z = scan(s, x)  region (s, x) { t = f(s, x)  return t, g(t) }
 *       ->
 *     h, y, z = scan(s, x)  region (s, x) { t = f(s, x)  return t, t, g(t) }
 *
 * In: any graph, behind cse, so that equal operands are one value. Out: of scans with the same
 * operands, slices and carried values the first one computes what all of them stack; the others
 * are gone. The gradient of a recurrent layer runs the layer again to stack its states and what it
 * keeps (ir/gradient/gradient_scan.c); here the two become one.
 *
 * Whether two bodies carry the same is seen by writing both into one region over the same inputs,
 * on which cse runs: they do when their new carried values are then the same values. What the
 * backward part is to compute again (STATOR_RECOMPUTED) stays apart, as in cse. */
#include "ir/builder.h"
#include "ir/passes/pass_copy.h"
#include <stator/ops.h>
#include <string.h>

#define TRIALS_MAX 8u /* scans that one is compared with, body by body */

/* A scan that others become part of. */
typedef struct leader {
    stator_ref node, origin; /* origin, body: of all that it computes by now */
    const stator_graph *body;
    int64_t axes[ST_RESULTS_MAX + 1u], reverse[ST_RESULTS_MAX + 1u]; /* of what is stacked */
    uint32_t carried, n;                                             /* n: how much is stacked */
    stator_ref *results; /* in the new graph, once it is written */
    bool is_changed;
} leader;

/* Where the results of a scan are found. */
typedef struct merged {
    leader *in;       /* NULL: the scan stays as it is */
    uint32_t *places; /* by result: that of the leader */
} merged;

typedef struct scan_merger {
    st_copy *copy;
    merged *by_node;
    leader **leaders;
    uint32_t n_leaders;
} scan_merger;

static uint32_t count(const stator_graph_view *v, const stator_node_row *row, uint32_t attr)
{
    return (uint32_t)stator_attr_at(v, row, attr)->i;
}

/* ---- which scans ---- */

/* The same operands, of which the same are carried and the same are cut, in the same way? */
static bool reads_the_same(const stator_graph_view *v, stator_ref a, stator_ref b)
{
    const stator_node_row *x = stator_node_at(v, a);
    const stator_node_row *y = stator_node_at(v, b);
    const uint32_t scanned = count(v, x, STATOR_scan_scanned);
    bool is_same = x->operand_count == y->operand_count &&
                   count(v, x, STATOR_scan_carried) == count(v, y, STATOR_scan_carried) &&
                   scanned == count(v, y, STATOR_scan_scanned) &&
                   stator_node_is_recomputed(v, a) == stator_node_is_recomputed(v, b);
    for (uint32_t k = 0; is_same && k < x->operand_count; k++) {
        is_same = stator_operand(v, x, k) == stator_operand(v, y, k);
    }
    for (uint32_t k = 0; is_same && k < scanned; k++) {
        is_same = st_node_int_at(v, x, STATOR_scan_axes, k) ==
                      st_node_int_at(v, y, STATOR_scan_axes, k) &&
                  !st_node_int_at(v, x, STATOR_scan_reverse, k) ==
                      !st_node_int_at(v, y, STATOR_scan_reverse, k);
    }
    return is_same;
}

static bool has_the_same_inputs(const stator_graph *a, const stator_graph *b)
{
    const stator_graph_view *x = st_graph_view(a);
    const stator_graph_view *y = st_graph_view(b);
    bool is_same = x->n_inputs == y->n_inputs;
    for (uint32_t i = 1; is_same && i <= x->n_inputs; i++) {
        is_same = stator_value_at(x, i)->type == stator_value_at(y, i)->type;
    }
    return is_same;
}

/* ---- one body of two ---- */

/* Both bodies over the same inputs; the outputs of `a`, then those of `b`. NULL after a failure. */
static stator_graph *write_both(st_copy *c, const stator_graph *a, const stator_graph *b)
{
    const stator_graph_view *x = st_graph_view(a);
    const stator_graph_view *y = st_graph_view(b);
    stator_ref *of_a = st_copy_zalloc(c, x->n_values, sizeof *of_a);
    stator_ref *of_b = st_copy_zalloc(c, y->n_values, sizeof *of_b);
    stator_builder *around = stator_emit_region_begin(&c->e, st_module_str(a->module, a->name));
    if (around != NULL) {
        stator_emit_check(&c->e, st_build_clone_inputs(c->e.b, a, of_a, c->e.err));
    }
    stator_emit_clone(&c->e, a, 1, x->n_nodes, of_a);
    for (uint32_t i = 1; st_copy_is_ok(c) && i <= y->n_inputs; i++) {
        of_b[i] = of_a[i];
    }
    stator_emit_clone(&c->e, b, 1, y->n_nodes, of_b);
    for (uint32_t i = 0; st_copy_is_ok(c) && i < x->n_outputs; i++) {
        stator_emit_output(&c->e, "", of_a[stator_output_at(x, i)]);
    }
    for (uint32_t i = 0; st_copy_is_ok(c) && i < y->n_outputs; i++) {
        stator_emit_output(&c->e, "", of_b[stator_output_at(y, i)]);
    }
    return stator_emit_region_end(&c->e, around);
}

/* The region after cse, which is itself where that finds nothing; NULL after a failure. The trial
 * asks no fuel. */
static const stator_graph *after_cse(st_copy *c, const stator_graph *region)
{
    st_pass_ctx quiet = *c->ctx;
    stator_builder *b = NULL;
    stator_graph *out = NULL;
    uint32_t result = STATOR_PASS_SAME;
    quiet.may_apply = NULL;
    quiet.about = NULL;
    if (!st_copy_is_ok(c)) {
        return NULL;
    }
    const char *name = st_module_str(region->module, region->name);
    c->e.status = st_build_region_begin(c->out, name, &b, c->e.err);
    if (!st_copy_is_ok(c)) {
        return NULL;
    }
    c->e.status = st_copy_run(st_pass_cse, &quiet, region, b, &result, c->e.err);
    if (!st_copy_is_ok(c) || result == STATOR_PASS_SAME) {
        st_build_region_abort(b);
        return st_copy_is_ok(c) ? region : NULL;
    }
    c->e.status = st_build_region_end(b, &out, c->e.err);
    return st_copy_is_ok(c) ? out : NULL;
}

/* The region with these of its outputs. NULL after a failure. */
static stator_graph *with_outputs(st_copy *c, const stator_graph *region, const uint32_t *kept,
                                  uint32_t n)
{
    const stator_graph_view *v = st_graph_view(region);
    stator_ref *map = st_copy_zalloc(c, v->n_values, sizeof *map);
    stator_builder *around =
        stator_emit_region_begin(&c->e, st_module_str(region->module, region->name));
    if (around != NULL) {
        stator_emit_check(&c->e, st_build_clone_inputs(c->e.b, region, map, c->e.err));
    }
    stator_emit_clone(&c->e, region, 1, v->n_nodes, map);
    for (uint32_t i = 0; st_copy_is_ok(c) && i < n; i++) {
        stator_emit_output(&c->e, "", map[stator_output_at(v, kept[i])]);
    }
    return stator_emit_region_end(&c->e, around);
}

/* ---- joining a leader ---- */

static leader *add_leader(scan_merger *m, stator_ref node)
{
    const stator_graph_view *v = m->copy->v;
    const stator_node_row *row = stator_node_at(v, node);
    leader *l = st_copy_zalloc(m->copy, 0, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    l->node = node;
    l->origin = row->origin;
    l->body = stator_region_at(v, row, 0);
    l->carried = count(v, row, STATOR_scan_carried);
    l->n = count(v, row, STATOR_scan_stacked);
    for (uint32_t k = 0; k < l->n; k++) {
        l->axes[k] = st_node_int_at(v, row, STATOR_scan_out_axes, k);
        l->reverse[k] = st_node_int_at(v, row, STATOR_scan_out_reverse, k) != 0;
    }
    m->leaders[m->n_leaders++] = l;
    return l;
}

/* Which of the leader's stacked values, or of those that are new, is this one; `n`, how many there
 * are: none. `both`: view of the region of both. */
static uint32_t find_stacked(const leader *l, const stator_graph_view *both, const uint32_t *kept,
                             uint32_t output, uint32_t n)
{
    uint32_t k = 0;
    while (k < n &&
           (stator_output_at(both, kept[l->carried + k]) != stator_output_at(both, output) ||
            l->axes[k] != l->axes[n] || l->reverse[k] != l->reverse[n])) {
        k++;
    }
    return k;
}

/* Does the scan carry what the leader carries? Then it becomes part of it. */
static bool join(scan_merger *m, leader *l, stator_ref node)
{
    st_copy *c = m->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    const stator_graph *body = stator_region_at(c->v, row, 0);
    const uint32_t stacked = count(c->v, row, STATOR_scan_stacked);
    const uint32_t before = l->carried + l->n;
    uint32_t n = l->n;
    ST_NEED(before + stacked <= ST_RESULTS_MAX && has_the_same_inputs(l->body, body));
    const stator_graph *both = write_both(c, l->body, body);
    both = both ? after_cse(c, both) : NULL;
    uint32_t *places = st_copy_zalloc(c, row->result_count, sizeof *places);
    uint32_t *kept = st_copy_zalloc(c, before + stacked, sizeof *kept);
    ST_NEED(both != NULL && places != NULL && kept != NULL);
    const stator_graph_view *v = st_graph_view(both);
    for (uint32_t k = 0; k < l->carried; k++) {
        places[k] = k;
        ST_NEED(stator_output_at(v, k) == stator_output_at(v, before + k));
    }
    ST_NEED(st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "merge_scans", node));
    for (uint32_t k = 0; k < before; k++) {
        kept[k] = k;
    }
    for (uint32_t k = 0; k < stacked; k++) {
        const uint32_t output = before + l->carried + k;
        l->axes[n] = st_node_int_at(c->v, row, STATOR_scan_out_axes, k);
        l->reverse[n] = st_node_int_at(c->v, row, STATOR_scan_out_reverse, k) != 0;
        const uint32_t place = find_stacked(l, v, kept, output, n);
        kept[l->carried + n] = output;
        n += place == n;
        places[l->carried + k] = l->carried + place;
    }
    l->body = with_outputs(c, both, kept, l->carried + n);
    l->n = n;
    l->is_changed = true;
    l->origin = st_module_origin_merge(c->out->module, l->origin, row->origin);
    m->by_node[node] = (merged){.in = l, .places = places};
    return true;
}

/* Finds the leader of each scan, before anything is written. */
static void plan(scan_merger *m)
{
    const stator_graph_view *v = m->copy->v;
    for (stator_ref node = 1; st_copy_is_ok(m->copy) && node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        bool is_part = false;
        uint32_t trials = 0;
        if (row->op != STATOR_OPCODE_scan) {
            continue;
        }
        for (uint32_t i = 0;
             st_copy_is_ok(m->copy) && !is_part && i < m->n_leaders && trials < TRIALS_MAX; i++) {
            if (reads_the_same(v, m->leaders[i]->node, node)) {
                is_part = join(m, m->leaders[i], node);
                trials++;
            }
        }
        if (!is_part && st_copy_is_ok(m->copy)) {
            m->by_node[node].in = add_leader(m, node);
        }
    }
}

/* ---- writing ---- */

static void write_leader(scan_merger *m, leader *l)
{
    st_copy *c = m->copy;
    const stator_node_row *row = stator_node_at(c->v, l->node);
    const uint32_t scanned = count(c->v, row, STATOR_scan_scanned);
    stator_ref *operands = st_copy_zalloc(c, row->operand_count, sizeof *operands);
    int64_t *axes = st_copy_zalloc(c, scanned, sizeof *axes);
    int64_t *reverse = st_copy_zalloc(c, scanned, sizeof *reverse);
    stator_graph *body = (stator_graph *)(uintptr_t)l->body;
    l->results = st_copy_zalloc(c, (uint64_t)l->carried + l->n, sizeof *l->results);
    if (!st_copy_is_ok(c)) {
        return;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        operands[k] = c->map[stator_operand(c->v, row, k)];
    }
    for (uint32_t k = 0; k < scanned; k++) {
        axes[k] = st_node_int_at(c->v, row, STATOR_scan_axes, k);
        reverse[k] = st_node_int_at(c->v, row, STATOR_scan_reverse, k);
    }
    st_build_set_origin_ref(c->out, l->origin);
    stator_emit_node(&c->e, "scan", row->operand_count, operands,
                     STATOR_AT(STATOR_A_INT("carried", l->carried),
                               STATOR_A_INT("scanned", scanned), STATOR_A_INT("stacked", l->n),
                               STATOR_A_INTS("axes", scanned, axes),
                               STATOR_A_INTS("reverse", scanned, reverse),
                               STATOR_A_INTS("out_axes", l->n, l->axes),
                               STATOR_A_INTS("out_reverse", l->n, l->reverse)),
                     1, &body, l->carried + l->n, l->results);
    st_build_set_origin_ref(c->out, 0);
}

static void visit(void *self, stator_ref node)
{
    scan_merger *m = self;
    const stator_node_row *row = stator_node_at(m->copy->v, node);
    const merged *of = &m->by_node[node];
    if (of->in == NULL || !of->in->is_changed) {
        st_copy_node(m->copy, node);
        return;
    }
    if (of->in->node == node) {
        write_leader(m, of->in);
    }
    for (uint32_t k = 0; st_copy_is_ok(m->copy) && k < row->result_count; k++) {
        const uint32_t place = of->places != NULL ? of->places[k] : k;
        st_copy_replace(m->copy, row->result_begin + k, of->in->results[place]);
    }
}

void st_pass_merge_scans(st_copy *c)
{
    scan_merger m = {.copy = c,
                     .by_node = st_copy_zalloc(c, c->v->n_nodes, sizeof *m.by_node),
                     .leaders = st_copy_zalloc(c, c->v->n_nodes, sizeof *m.leaders)};
    if (st_copy_is_ok(c)) {
        plan(&m);
        st_copy_nodes(c, visit, &m);
    }
}
