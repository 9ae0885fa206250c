/* What is cheap is computed again by the backward part instead of being kept for it.
 *
 *     s = sin(x)  y = neg(s)  |  dx = mul(dy, s)     ->     s = sin(x)  y = neg(s)
 *                                                       |  s' = sin(x)  dx = mul(dy, s')
 *
 * Before: the backward part reads what the forward part made. After: of that it reads what the plan
 * keeps (ir/recompute/kept.c); the other values are made once more in front of their first reader,
 * by nodes that say so in their origin (STATOR_RECOMPUTED), which cse therefore leaves apart from
 * those that they repeat. Regions stay as they are: what a step of a loop makes is gone with the
 * step. Each node asks fuel (REWRITE); refused, its result is kept. */
#include "ir/passes/pass_copy.h"

typedef struct remat {
    st_copy *c;
    st_kept kept;
    stator_ref *again;   /* by in-value: the copy that the backward part reads; 0: none so far */
    uint8_t *is_refused; /* by node */
    stator_ref *stack;   /* nodes that wait for their operands */
} remat;

/* The node that makes the value and is computed again; 0: the value is read as it is. */
static stator_ref repeated_maker(const remat *r, stator_ref value)
{
    const stator_ref node = value != 0 ? stator_value_at(r->c->v, value)->node : 0;
    return node != 0 && r->kept.is_again[node] && !r->is_refused[node] ? node : 0;
}

/* Copies a node whose operands of the forward part are those computed again, where they are. */
static void copy_reading_again(remat *r, stator_ref node)
{
    st_copy *c = r->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_ref *first = st_copy_zalloc(c, row->operand_count, sizeof *first);
    for (uint32_t k = 0; st_copy_is_ok(c) && k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        first[k] = c->map[value];
        if (repeated_maker(r, value) != 0) {
            c->map[value] = r->again[value];
        }
    }
    ST_THEN(c->e.status, st_build_clone_node(c->out, c->in, node, NULL, c->map, c->e.err));
    for (uint32_t k = row->operand_count; st_copy_is_ok(c) && k > 0; k--) {
        c->map[stator_operand(c->v, row, k - 1u)] = first[k - 1u];
    }
}

/* The node once more, with a name that says so. Its results have no names of their own and are
 * witnesses of nothing: the first ones are. */
static void repeat(remat *r, stator_ref node)
{
    st_copy *c = r->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_ref *first = st_copy_zalloc(c, row->result_count, sizeof *first);
    for (uint32_t k = 0; st_copy_is_ok(c) && k < row->result_count; k++) {
        first[k] = c->map[row->result_begin + k];
    }
    copy_reading_again(r, node);
    if (!st_copy_is_ok(c)) {
        return;
    }
    stator_node_row *made = st_seg_at(&c->out->graph->nodes, c->out->graph->nodes.count - 1u);
    made->origin = st_module_origin_marked(c->out->module, row->origin, STATOR_RECOMPUTED,
                                           st_copy_op(c, node)->name);
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_ref value = row->result_begin + k;
        stator_value_row *result = st_seg_at(&c->out->graph->values, made->result_begin + k);
        result->name = 0;
        result->witness = 0;
        r->again[value] = made->result_begin + k;
        c->map[value] = first[k];
    }
    c->changed = 1;
}

/* An operand that is to be computed again and is not there yet: its node; 0: none. */
static stator_ref missing_operand(remat *r, stator_ref node)
{
    const stator_node_row *row = stator_node_at(r->c->v, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(r->c->v, row, k);
        const stator_ref maker = repeated_maker(r, value);
        if (maker == 0 || r->again[value] != 0) {
            continue;
        }
        if (st_pass_may(r->c->ctx, STATOR_FUEL_REWRITE, "rematerialise", maker)) {
            return maker;
        }
        r->is_refused[maker] = 1;
    }
    return 0;
}

/* A node of the backward part, behind what it needs computed again: operands first. */
static void copy_backward(remat *r, stator_ref node)
{
    uint32_t n = 0;
    r->stack[n++] = node;
    while (st_copy_is_ok(r->c) && n != 0) {
        const stator_ref top = r->stack[n - 1u];
        const stator_ref missing = missing_operand(r, top);
        if (missing != 0) {
            r->stack[n++] = missing;
        } else if (--n == 0) {
            copy_reading_again(r, top);
        } else {
            repeat(r, top);
        }
    }
}

static void visit(void *self, stator_ref node)
{
    remat *r = self;
    st_copy *c = r->c;
    if (r->kept.is_backward[node]) {
        copy_backward(r, node);
    } else {
        ST_THEN(c->e.status, st_build_clone_node(c->out, c->in, node, NULL, c->map, c->e.err));
    }
}

/* Is there a backward part? Most graphs have none. */
static bool has_backward(const stator_graph_view *v)
{
    for (stator_ref node = v->n_nodes; node > 0; node--) {
        if (stator_node_is_backward(v, node)) {
            return true;
        }
    }
    return false;
}

void st_pass_rematerialise(st_copy *c)
{
    remat r = {.c = c};
    if (!has_backward(c->v)) {
        return;
    }
    c->e.status = st_kept_plan(c->in, c->ctx->keep_limits, c->ctx->mem, &r.kept, c->e.err);
    if (st_copy_is_ok(c) && r.kept.is_capped && c->ctx->note != NULL) {
        c->ctx->note(c->ctx->note_self, st_kept_capped_note(&r.kept));
    }
    r.again = st_copy_zalloc(c, c->v->n_values, sizeof *r.again);
    r.is_refused = st_copy_zalloc(c, c->v->n_nodes, 1);
    r.stack = st_copy_zalloc(c, c->v->n_nodes, sizeof *r.stack);
    if (st_copy_is_ok(c) && r.kept.n_again != 0) {
        st_copy_nodes(c, visit, &r);
    }
    st_kept_deinit(&r.kept, c->ctx->mem);
}
