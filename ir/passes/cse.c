/* Equal nodes are computed once.
 *
 *     a = exp(x)  b = exp(x)  c = add(a, b)    ->    a = exp(x)  c = add(a, a)
 *
 * In: any graph. Out: nodes with the same op, operands (in either order when the op commutes),
 * attributes, regions and result types are one node, whose origin is the union. RANDOM and
 * EFFECT nodes are never merged; neither are nodes whose result types differ, which is so for
 * each run-time size: its symbol is the node's own; nor is a node that the backward part
 * computes once more with one that it repeats (STATOR_RECOMPUTED): what is not kept would be
 * kept then. Value numbering over the nodes in order, as in Alpern, Wegman and Zadeck,
 * "Detecting Equality of Variables in Programs", 1988, on an acyclic graph. */
#include "ir/passes/pass_copy.h"
#include <string.h>

typedef struct merger {
    st_copy *copy;
    st_hashset seen;              /* out-nodes */
    const stator_graph_view *out; /* view of the graph that is written */
    uint32_t node;                /* in-node at hand */
} merger;

static bool in_order(const merger *g, const stator_node_row *row, const stator_op_desc *op,
                     stator_ref out[2])
{
    if ((op->flags & STATOR_OP_COMMUTES) == 0 || row->operand_count != 2) {
        return false;
    }
    const stator_ref a = g->copy->map[stator_operand(g->copy->v, row, 0)];
    const stator_ref b = g->copy->map[stator_operand(g->copy->v, row, 1)];
    out[0] = a < b ? a : b;
    out[1] = a < b ? b : a;
    return true;
}

/* ---- hashing ---- */

static uint64_t hash_list(const st_module *m, const stator_attr_row *row, uint64_t h)
{
    for (uint32_t i = 0; i < row->count; i++) {
        const uint32_t k = row->begin + i;
        if (row->kind == STATOR_ATTR_INTS) {
            h = st_hash64(st_seg_at(&m->i64s, k), sizeof(int64_t), h);
        } else if (row->kind == STATOR_ATTR_FLOATS) {
            h = st_hash64(st_seg_at(&m->f64s, k), sizeof(double), h);
        } else {
            h = st_hash64(st_seg_at(&m->refs, k), sizeof(uint32_t), h);
        }
    }
    return h;
}

static uint64_t hash_attr(const st_module *m, const stator_attr_row *row, uint64_t h)
{
    if (st_attr_is_list(row->kind)) {
        return hash_list(m, row, h + row->count);
    }
    const struct {
        int64_t i;
        double f;
        uint64_t begin;
    } scalar = {row->i, row->f, row->begin};
    return st_hash64(&scalar, sizeof scalar, h);
}

static uint64_t hash_node(const merger *g, const stator_node_row *row, const stator_op_desc *op)
{
    const st_copy *c = g->copy;
    stator_ref pair[2];
    const uint64_t seed =
        row->result_count * UINT64_C(2) + stator_node_is_recomputed(c->v, g->node);
    uint64_t h = st_hash64(&row->op, sizeof row->op, seed);
    if (in_order(g, row, op, pair)) {
        h = st_hash64(pair, sizeof pair, h);
    } else {
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref value = stator_operand(c->v, row, k);
            const stator_ref mapped = value != 0 ? c->map[value] : 0;
            h = st_hash64(&mapped, sizeof mapped, h);
        }
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        h = hash_attr(c->in->module, stator_attr_at(c->v, row, k), h);
    }
    return h;
}

/* ---- equality of an in-node and an out-node ---- */

static bool same_list(const st_module *m, const stator_attr_row *a, const stator_attr_row *b)
{
    const st_seg *pool = a->kind == STATOR_ATTR_INTS     ? &m->i64s
                         : a->kind == STATOR_ATTR_FLOATS ? &m->f64s
                                                         : &m->refs;
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count && a->begin != b->begin; i++) {
        if (memcmp(st_seg_at(pool, a->begin + i), st_seg_at(pool, b->begin + i), pool->stride) !=
            0) {
            return false;
        }
    }
    return true;
}

static bool same_attr(const st_module *m, const stator_attr_row *a, const stator_attr_row *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    return st_attr_is_list(a->kind)
               ? same_list(m, a, b)
               : a->i == b->i && a->begin == b->begin && memcmp(&a->f, &b->f, sizeof a->f) == 0;
}

static bool same_operands(const merger *g, const stator_node_row *a, const stator_node_row *b)
{
    const st_copy *c = g->copy;
    stator_ref pair[2];
    if (a->operand_count != b->operand_count) {
        return false;
    }
    if (in_order(g, a, stator_op_at(c->v, a->op), pair)) {
        const stator_ref x = stator_operand(g->out, b, 0);
        const stator_ref y = stator_operand(g->out, b, 1);
        return (x == pair[0] && y == pair[1]) || (x == pair[1] && y == pair[0]);
    }
    for (uint32_t k = 0; k < a->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, a, k);
        if ((value != 0 ? c->map[value] : 0) != stator_operand(g->out, b, k)) {
            return false;
        }
    }
    return true;
}

static bool same_regions_and_types(const merger *g, const stator_node_row *a,
                                   const stator_node_row *b)
{
    const st_copy *c = g->copy;
    for (uint32_t k = 0; k < a->region_count; k++) {
        if (stator_region_at(c->v, a, k) != stator_region_at(g->out, b, k)) {
            return false;
        }
    }
    for (uint32_t k = 0; k < a->result_count; k++) {
        if (stator_value_at(c->v, a->result_begin + k)->type !=
            stator_value_at(g->out, b->result_begin + k)->type) {
            return false;
        }
    }
    return true;
}

static bool same_node(void *self, uint32_t out_node)
{
    const merger *g = self;
    const st_copy *c = g->copy;
    const stator_node_row *a = stator_node_at(c->v, g->node);
    const stator_node_row *b = stator_node_at(g->out, out_node);
    if (a->op != b->op || a->attr_count != b->attr_count || a->result_count != b->result_count ||
        a->region_count != b->region_count || !same_operands(g, a, b) ||
        stator_node_is_recomputed(c->v, g->node) != stator_node_is_recomputed(g->out, out_node)) {
        return false;
    }
    for (uint32_t k = 0; k < a->attr_count; k++) {
        if (!same_attr(c->in->module, stator_attr_at(c->v, a, k), stator_attr_at(g->out, b, k))) {
            return false;
        }
    }
    return same_regions_and_types(g, a, b);
}

/* ---- the pass ---- */

static void merge_into(merger *g, const stator_node_row *row, uint32_t out_node)
{
    st_copy *c = g->copy;
    stator_node_row *kept = st_seg_at(&c->out->graph->nodes, out_node);
    kept->origin = st_module_origin_merge(c->out->module, kept->origin, row->origin);
    for (uint32_t k = 0; k < row->result_count; k++) {
        st_copy_replace(c, row->result_begin + k, kept->result_begin + k);
    }
}

static void visit(void *self, stator_ref node)
{
    merger *g = self;
    st_copy *c = g->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    g->node = node;
    const stator_op_desc *op = stator_op_at(c->v, row->op);
    if ((op->flags & (STATOR_OP_RANDOM | STATOR_OP_EFFECT)) != 0) {
        st_copy_node(c, node);
        return;
    }
    const uint64_t hash = hash_node(g, row, op);
    g->out = st_graph_view(c->out->graph);
    const uint32_t found = st_hashset_find(&g->seen, hash, same_node, g);
    if (found != 0 && st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "cse", node)) {
        merge_into(g, row, found);
        return;
    }
    st_copy_node(c, node);
    if (st_copy_is_ok(c) && !st_hashset_add(&g->seen, hash, c->out->graph->nodes.count - 1u)) {
        c->e.status = st_fail_oom(c->e.err);
    }
}

void st_pass_cse(st_copy *c)
{
    merger g = {.copy = c};
    st_hashset_init(&g.seen, c->ctx->mem);
    st_copy_nodes(c, visit, &g);
    st_hashset_deinit(&g.seen);
}
