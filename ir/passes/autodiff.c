/* Gradients are written out.
 *
 *     y, dx = gradient(x) {wrt = [0]}     ->     y = sin(x)
 *       region (x) { return sin(x) }             dx = mul(ones_like(y), cos(x))
 *
 * Before: an op `gradient` holds what is to be differentiated as its region. After: none is
 * left. The region's nodes stand in its place (the forward part), behind them what reverse-mode
 * differentiation adds (ir/gradient/gradient.c, the backward part), whose origins are "backward
 * of" those of the forward nodes. A gradient inside the region of another is written out first,
 * so the outer one differentiates it again. A composite that has both a gradient rule and a
 * decomposition asks fuel (REWRITE, "gradient of OP"); refused, its decomposition is
 * differentiated. */
#include "ir/gradient/gradient.h"
#include "ir/passes/pass_copy.h"
#include <stator/ops.h>
#include <stdio.h>

/* One node `gradient` being written out. */
typedef struct expansion {
    st_copy *c;
    const stator_node_row *row;
    stator_graph *region;
    const stator_graph_view *v; /* of the region */
    stator_ref *map;            /* the region's values in the new graph */
    stator_ref first;           /* the region's node 1 in the new graph */
    stator_ref *xs;             /* what is differentiated to */
    uint32_t n_x;
} expansion;

static bool may_use_rule(void *self, const char *op, stator_ref node)
{
    const expansion *x = self;
    char rule[80];
    (void)snprintf(rule, sizeof rule, "gradient of %s", op);
    const bool is_forward = node >= x->first && node - x->first < x->v->n_nodes;
    return st_pass_may(x->c->ctx, STATOR_FUEL_REWRITE, rule, is_forward ? node - x->first + 1u : 0);
}

/* Is the operand at place k one before it as well? Each has a gradient of its own. */
static bool is_repeated(const expansion *x, uint32_t k)
{
    const stator_ref operand = stator_operand(x->c->v, x->row, k);
    for (uint32_t i = 0; i < k; i++) {
        if (stator_operand(x->c->v, x->row, i) == operand) {
            return true;
        }
    }
    return false;
}

static void write_forward(expansion *x)
{
    st_copy *c = x->c;
    for (uint32_t k = 0; st_copy_is_ok(c) && k < x->row->operand_count; k++) {
        const stator_ref operand = c->map[stator_operand(c->v, x->row, k)];
        stator_ref dims[STATOR_RANK_MAX];
        const uint32_t rank = stator_emit_dims(&c->e, operand, dims);
        x->map[1u + k] =
            is_repeated(x, k) ? stator_emit_reshape(&c->e, operand, rank, dims) : operand;
    }
    x->first = st_graph_view(c->out->graph)->n_nodes + 1u;
    stator_emit_clone(&c->e, x->region, 1, x->v->n_nodes, x->map);
}

/* Result k of the node is `value`, under sizes that are the result's where the two are written
 * otherwise. */
static void set_result(expansion *x, uint32_t k, stator_ref value)
{
    st_copy *c = x->c;
    const stator_ref result = x->row->result_begin + k;
    st_copy_bind_sizes(c, result, value);
    st_copy_replace(c, result, value);
}

/* d(sum of the first result)/d(xs): in x->xs, gradients take the places of the values. */
static void write_backward(expansion *x)
{
    st_copy *c = x->c;
    const stator_ref y = x->map[stator_output_at(x->v, 0)];
    const stator_ref seed = stator_emit_expr(&c->e, "ones_like(y)", "y", STATOR_IN(y), STATOR_NONE);
    const st_gradient_request request = {.n_y = 1,
                                         .n_x = x->n_x,
                                         .ys = &y,
                                         .seeds = &seed,
                                         .xs = x->xs,
                                         .first = x->first,
                                         .may_use_rule = may_use_rule,
                                         .self = x};
    stator_ref *grads = st_copy_zalloc(c, x->n_x, sizeof *grads);
    st_pass_about(c->ctx, x->region);
    ST_THEN(c->e.status, st_gradient_many(c->out, &request, grads, c->e.err));
    st_pass_about(c->ctx, c->in);
    for (uint32_t i = 0; st_copy_is_ok(c) && i < x->n_x; i++) {
        set_result(x, x->v->n_outputs + i, grads[i]);
    }
}

static void expand(st_copy *c, stator_ref node)
{
    expansion x = {.c = c, .row = stator_node_at(c->v, node)};
    const stator_attr_row *wrt = stator_attr_at(c->v, x.row, STATOR_gradient_wrt);
    x.region = st_copy_region(c, node, 0);
    if (x.region == NULL) {
        return;
    }
    x.v = st_graph_view(x.region);
    x.n_x = wrt->count;
    x.map = st_copy_zalloc(c, x.v->n_values, sizeof *x.map);
    x.xs = st_copy_zalloc(c, x.n_x, sizeof *x.xs);
    if (!st_copy_is_ok(c)) {
        return;
    }
    write_forward(&x);
    for (uint32_t i = 0; i < x.n_x; i++) {
        x.xs[i] = x.map[1u + (uint32_t)stator_attr_int_at(c->v, wrt, i)];
    }
    for (uint32_t k = 0; k < x.v->n_outputs; k++) {
        set_result(&x, k, x.map[stator_output_at(x.v, k)]);
    }
    st_build_set_origin_ref(c->out, st_module_origin_backward(c->out->module, x.row->origin,
                                                              st_copy_op(c, node)->name));
    write_backward(&x);
    st_build_set_origin_ref(c->out, 0);
}

static void visit(void *self, stator_ref node)
{
    st_copy *c = self;
    if (stator_node_at(c->v, node)->op == STATOR_OPCODE_gradient) {
        expand(c, node);
    } else {
        st_copy_node(c, node);
    }
}

void st_pass_autodiff(st_copy *c)
{
    st_copy_nodes(c, visit, c);
}
