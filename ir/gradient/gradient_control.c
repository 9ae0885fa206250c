/* The gradients of call, cond and while.
 *
 *     call    the region's nodes stand in the graph once more and are differentiated there; of a
 *             checkpoint they are named STATOR_RECOMPUTED, so that cse leaves them apart from those
 *             of the call wherever it is written out
 *     cond    a cond on the same predicate: each branch computes its own and the gradients of what
 * it
 *             reads
 *     while   runs again, to count: the iterations are then known when a scan of the same body
 * begins,
 *             and that scan is differentiated
 *
 * What is computed twice and not needed is dce's to drop. */
#include "core/base/check.h"
#include "ir/gradient/gradient_rules.h"

#include <stator/ops.h>
#include <string.h>

typedef struct control {
    stator_emitter e;
    const st_gradient_node *v;
    const stator_graph *region;
    const stator_graph_view *view; /* of the region */
    stator_ref *map;               /* the region's values where it is written */
    stator_ref *ys, *seeds;        /* results that have a gradient, and it */
    stator_ref *xs, *grads;
    uint32_t *place; /* of an x among the operands */
    uint32_t n_y, n_x;
} control;

static bool is_float(const stator_emitter *e, stator_ref value)
{
    return value != 0 && st_dtype_class(stator_emit_dtype(e, value)) == STATOR_CLASS_FLOAT;
}

/* Room for lists; freed by `end`. */
static control begin(stator_builder *b, const st_gradient_node *v, const stator_graph *region,
                     stator_diag **err)
{
    control c = {
        .e = st_op_emitter(b, err), .v = v, .region = region, .view = st_graph_view(region)};
    const uint64_t n = UINT64_C(1) + v->of->n_operands + v->of->n_results;
    c.map = st_calloc(b->module->mem, c.view->n_values + UINT64_C(1), sizeof *c.map);
    c.ys = st_calloc(b->module->mem, n * 5u, sizeof *c.ys);
    if (c.map == NULL || c.ys == NULL) {
        stator_emit_check(&c.e, st_fail_oom(err));
        return c;
    }
    c.seeds = c.ys + n;
    c.xs = c.seeds + n;
    c.grads = c.xs + n;
    c.place = c.grads + n;
    return c;
}

static stator_status end(const control *c)
{
    st_free(c->e.b->module->mem, c->map);
    st_free(c->e.b->module->mem, c->ys);
    return c->e.status;
}

/* The operands from `first` on that are floats, each value once: a value that stands at two places
 * has the gradients of both at the first. */
static void list_xs(control *c, uint32_t first)
{
    const st_decompose_node *of = c->v->of;
    for (uint32_t k = first; k < of->n_operands; k++) {
        bool is_new = is_float(&c->e, of->operands[k]);
        for (uint32_t i = 0; i < c->n_x; i++) {
            is_new = is_new && c->xs[i] != of->operands[k];
        }
        if (is_new) {
            c->place[c->n_x] = k;
            c->xs[c->n_x++] = of->operands[k];
        }
    }
}

/* The gradients of ys to xs, which the nodes from `first` on make. */
static void differentiate(control *c, stator_ref first)
{
    const st_gradient_request request = {
        .n_y = c->n_y, .n_x = c->n_x, .ys = c->ys, .seeds = c->seeds, .xs = c->xs, .first = first};
    if (c->e.status == STATOR_OK) {
        stator_emit_check(&c->e, st_gradient_many(c->e.b, &request, c->grads, c->e.err));
    }
}

static stator_ref next_node(const control *c)
{
    return st_graph_view(c->e.b->graph)->n_nodes + 1u;
}

/* ---- call ---- */

/* Is the node one that was written for the backward part, inside a checkpoint? */
static bool is_recomputed(const control *c)
{
    const stator_graph_view *v = st_graph_view(c->e.b->graph);
    return stator_node_is_recomputed(v, stator_value_at(v, c->v->results[0])->node);
}

/* Nodes that the region's were written as compute once more what the call does. */
static void mark_recomputed(control *c)
{
    st_module *module = c->e.b->module;
    const stator_graph_view *v = st_graph_view(c->e.b->graph);
    for (stator_ref k = 1; c->e.status == STATOR_OK && k <= c->view->n_nodes; k++) {
        const stator_node_row *row = stator_node_at(c->view, k);
        const stator_ref node = stator_value_at(v, c->map[row->result_begin])->node;
        stator_node_row *made = st_seg_at(&c->e.b->graph->nodes, node);
        made->origin = st_module_origin_marked(module, row->origin, STATOR_RECOMPUTED,
                                               stator_op_at(c->view, row->op)->name);
    }
}

stator_status st_grad_call(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                           stator_diag **err)
{
    control c = begin(b, v, v->of->regions[0], err);
    if (c.e.status == STATOR_OK) {
        const stator_ref first = next_node(&c);
        memcpy(c.map + 1, v->of->operands, v->of->n_operands * sizeof *c.map);
        stator_emit_clone(&c.e, c.region, 1, c.view->n_nodes, c.map);
        if (v->of->attrs[STATOR_call_checkpoint].i != 0 || is_recomputed(&c)) {
            mark_recomputed(&c);
        }
        for (uint32_t k = 0; c.e.status == STATOR_OK && k < v->of->n_results; k++) {
            if (v->grads[k] != 0) {
                c.ys[c.n_y] = c.map[stator_output_at(c.view, k)];
                c.seeds[c.n_y++] = v->grads[k];
            }
        }
        list_xs(&c, 0);
        differentiate(&c, first);
        for (uint32_t i = 0; c.e.status == STATOR_OK && i < c.n_x; i++) {
            in_grads[c.place[i]] = c.grads[i];
        }
    }
    return end(&c);
}

/* ---- cond ---- */

/* A branch that computes the region and, from the results' gradients behind the captures, those of
 * the float captures. */
static stator_graph *back_branch(const st_gradient_node *v, uint32_t k, stator_emitter *e)
{
    control c = begin(e->b, v, v->of->regions[k], e->err);
    stator_graph *branch = NULL;
    stator_emit_check(e, c.e.status);
    c.e = *e;
    stator_builder *around = stator_emit_region_begin(&c.e, k == 0 ? "then" : "else");
    if (around != NULL) {
        stator_emit_check(&c.e, st_build_clone_inputs(c.e.b, c.region, c.map, c.e.err));
    }
    for (uint32_t i = 0; c.e.status == STATOR_OK && i < v->of->n_results; i++) {
        if (v->grads[i] != 0) {
            const stator_ref out = stator_output_at(c.view, i);
            c.seeds[c.n_y] = stator_emit_input(&c.e, "", stator_value_at(c.view, out)->type);
            c.ys[c.n_y++] = out;
        }
    }
    stator_emit_clone(&c.e, c.region, 1, c.view->n_nodes, c.map);
    for (uint32_t i = 0; c.e.status == STATOR_OK && i < c.n_y; i++) {
        c.ys[i] = c.map[c.ys[i]];
    }
    for (uint32_t i = 1; c.e.status == STATOR_OK && i < v->of->n_operands; i++) {
        if (is_float(&c.e, c.map[i])) {
            c.xs[c.n_x++] = c.map[i];
        }
    }
    differentiate(&c, 1);
    for (uint32_t i = 0; c.e.status == STATOR_OK && i < c.n_x; i++) {
        stator_emit_output(&c.e, "", c.grads[i]);
    }
    if (around != NULL) {
        branch = stator_emit_region_end(&c.e, around);
    }
    (void)end(&c);
    stator_emit_check(e, c.e.status);
    return branch;
}

stator_status st_grad_cond(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                           stator_diag **err)
{
    control c = begin(b, v, v->of->regions[0], err);
    stator_graph *branches[2];
    branches[0] = back_branch(v, 0, &c.e);
    branches[1] = back_branch(v, 1, &c.e);
    if (c.e.status == STATOR_OK) {
        uint32_t n = v->of->n_operands;
        memcpy(c.xs, v->of->operands, n * sizeof *c.xs);
        for (uint32_t k = 0; k < v->of->n_results; k++) {
            if (v->grads[k] != 0) {
                c.xs[n++] = v->grads[k];
            }
        }
        for (uint32_t k = 1; k < v->of->n_operands; k++) {
            c.n_x += is_float(&c.e, v->of->operands[k]);
        }
    }
    if (c.n_x != 0) {
        uint32_t n = v->of->n_operands;
        for (uint32_t k = 0; k < v->of->n_results; k++) {
            n += v->grads[k] != 0;
        }
        stator_emit_node(&c.e, "cond", n, c.xs, STATOR_NONE, 2, branches, c.n_x, c.grads);
    }
    for (uint32_t k = 1, i = 0; c.e.status == STATOR_OK && k < v->of->n_operands; k++) {
        in_grads[k] = is_float(&c.e, v->of->operands[k]) ? c.grads[i++] : 0;
    }
    return end(&c);
}

/* ---- while ---- */

/* The body again, which stacks the number of the iteration and nothing else. */
static stator_graph *counting_body(control *c, uint32_t carried)
{
    stator_builder *around = stator_emit_region_begin(&c->e, "count");
    if (around != NULL) {
        stator_emit_check(&c->e, st_build_clone_inputs(c->e.b, c->region, c->map, c->e.err));
    }
    stator_emit_clone(&c->e, c->region, 1, c->view->n_nodes, c->map);
    for (uint32_t k = 0; c->e.status == STATOR_OK && k <= carried; k++) {
        stator_emit_output(&c->e, "", c->map[stator_output_at(c->view, k)]);
    }
    stator_emit_output(&c->e, "", c->map[1]);
    return around != NULL ? stator_emit_region_end(&c->e, around) : NULL;
}

/* Inputs carried, iteration, captures; outputs without the predicate. */
static stator_graph *scan_body(control *c, uint32_t carried)
{
    stator_builder *around = stator_emit_region_begin(&c->e, "steps");
    for (uint32_t k = 0; c->e.status == STATOR_OK && k < c->view->n_inputs; k++) {
        const stator_ref input = k < carried ? k + 2u : k == carried ? 1u : k + 1u;
        c->map[input] = stator_emit_input(&c->e, "", stator_value_at(c->view, input)->type);
    }
    stator_emit_clone(&c->e, c->region, 1, c->view->n_nodes, c->map);
    for (uint32_t k = 1; c->e.status == STATOR_OK && k < c->view->n_outputs; k++) {
        stator_emit_output(&c->e, "", c->map[stator_output_at(c->view, k)]);
    }
    return around != NULL ? stator_emit_region_end(&c->e, around) : NULL;
}

stator_status st_grad_while(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                            stator_diag **err)
{
    control c = begin(b, v, v->of->regions[0], err);
    const st_decompose_node *of = v->of;
    const uint32_t carried = (uint32_t)of->attrs[STATOR_while_carried].i;
    const uint32_t stacked = (uint32_t)of->attrs[STATOR_while_stacked].i;
    stator_graph *body = counting_body(&c, carried);
    stator_emit_node(&c.e, "while", of->n_operands, of->operands,
                     STATOR_AT(STATOR_A_INT("carried", carried), STATOR_A_INT("stacked", 1)), 1,
                     &body, carried + 1u, c.ys);
    if (c.e.status == STATOR_OK) {
        const stator_ref steps = c.ys[carried];
        stator_graph *scan = scan_body(&c, carried);
        const uint32_t n = of->n_operands - 1u; /* without trips and pred, with the iterations */
        memcpy(c.xs, of->operands + 2, carried * sizeof *c.xs);
        c.xs[carried] = steps;
        memcpy(c.xs + carried + 1u, of->operands + 2u + carried, (n - carried - 1u) * sizeof *c.xs);
        const stator_ref first = next_node(&c);
        stator_emit_node(&c.e, "scan", n, c.xs,
                         STATOR_AT(STATOR_A_INT("carried", carried), STATOR_A_INT("scanned", 1),
                                   STATOR_A_INT("stacked", stacked)),
                         1, &scan, carried + stacked, c.ys);
        for (uint32_t k = 0; k < carried + stacked; k++) {
            if (v->grads[k] != 0) {
                c.seeds[c.n_y] = v->grads[k];
                c.ys[c.n_y++] = c.ys[k];
            }
        }
        list_xs(&c, 2);
        differentiate(&c, first);
        for (uint32_t i = 0; c.e.status == STATOR_OK && i < c.n_x; i++) {
            in_grads[c.place[i]] = c.grads[i];
        }
    }
    return end(&c);
}
