/* Products of looked-up rows are looked up.
 *
 *     e = gather(table, ids)  y = dot_general(e, w)    ->    y = gather(table * w, ids)
 *
 * In: any graph, and an evaluator in the pass context (none: nothing changes). Out: such products
 * of constants are made once, when the new table is not much larger than the table and the weights
 * that it stands for. Results agree within rounding: it is the same sums, in another order. */
#include "core/base/blob.h"
#include "core/base/check.h"
#include "ir/passes/pass_copy.h"

#include <stator/ops.h>
#include <string.h>

#define DEPTH_MAX 8u                   /* views of the weights */
#define MACS_MAX ((uint64_t)1 << 27)   /* multiply-adds of the new table */
#define GROWS(bytes) ((bytes) / 2 * 3) /* size that the table may grow to */

/* A look-up in an embedding table whose result is multiplied by weights. */
typedef struct product {
    stator_ref table, ids, weights; /* in-values */
    const stator_attr_row *contract_y;
    const stator_type_row *type; /* type of the result */
} product;

static const stator_node_row *maker(const st_copy *c, stator_ref value, const char *op)
{
    const stator_ref node = stator_value_at(c->v, value)->node;
    return node && strcmp(st_copy_op(c, node)->name, op) == 0 ? stator_node_at(c->v, node) : NULL;
}

static bool is_axis(const st_copy *c, const stator_attr_row *axes, uint32_t rank, uint32_t axis)
{
    const int64_t at = axes->count == 1 ? stator_attr_int_at(c->v, axes, 0) : -99;
    return at == (int64_t)axis || at + (int64_t)rank == (int64_t)axis;
}

/* A constant, or views of one. */
static bool is_known(const st_copy *c, stator_ref value)
{
    for (uint32_t i = 0; i < DEPTH_MAX && value; i++) {
        const stator_ref node = stator_value_at(c->v, value)->node;
        if (st_value_is_constant(c->out->graph, c->map[value])) {
            return true;
        }
        if (node == 0 || (st_copy_op(c, node)->flags & STATOR_OP_VIEW) == 0) {
            return false;
        }
        value = stator_operand(c->v, stator_node_at(c->v, node), 0);
    }
    return false;
}

/* Is the new table worth its memory, and soon made? */
static bool is_worth(const st_copy *c, const product *p)
{
    const stator_type_row *x = stator_value_type(c->v, p->table);
    uint64_t table[2] = {0, 0};
    uint64_t weights[2] = {0, 0};
    if (!st_type_static_size(c->in->module, stator_value_at(c->v, p->table)->type, &table[0],
                             &table[1]) ||
        !st_type_static_size(c->in->module, stator_value_at(c->v, p->weights)->type, &weights[0],
                             &weights[1]) ||
        table[0] == 0 || weights[0] == 0) {
        return false;
    }
    int64_t folded = 0;
    (void)stator_sym_is_const(c->v, stator_dim_at(c->v, x, 1), &folded);
    const uint64_t rows = table[0] / (uint64_t)folded;
    const uint64_t columns = weights[0] / (uint64_t)folded;
    return table[0] <= MACS_MAX / columns &&
           rows * columns * (st_dtype_bits(x->dtype) / 8u) <= GROWS(table[1] + weights[1]);
}

static bool find(const st_copy *c, stator_ref node, product *p)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    if (row->op != STATOR_OPCODE_dot_general ||
        stator_attr_at(c->v, row, STATOR_dot_general_batch_x)->count != 0) {
        return false;
    }
    const stator_ref x = stator_operand(c->v, row, 0);
    const uint32_t rank = stator_value_type(c->v, x)->rank;
    const stator_node_row *gather = maker(c, x, "gather");
    *p = (product){.weights = stator_operand(c->v, row, 1),
                   .contract_y = stator_attr_at(c->v, row, STATOR_dot_general_contract_y),
                   .type = stator_value_type(c->v, row->result_begin)};
    if (gather == NULL || stator_attr_at(c->v, gather, STATOR_gather_axis)->i != 0) {
        return false;
    }
    p->table = stator_operand(c->v, gather, 0);
    p->ids = stator_operand(c->v, gather, 1);
    const stator_type_row *table = stator_value_type(c->v, p->table);
    return table->rank == 2 && (table->dtype == STATOR_F32 || table->dtype == STATOR_F64) &&
           p->type->dtype == table->dtype && stator_value_type(c->v, p->weights)->rank == 2 &&
           is_axis(c, stator_attr_at(c->v, row, STATOR_dot_general_contract_x), rank, rank - 1u) &&
           p->contract_y->count == 1 && is_known(c, p->table) && is_known(c, p->weights) &&
           is_worth(c, p);
}

/* ---- making it ---- */

/* The newest node, built since `before`, becomes a constant; *out 0: it could not be computed. */
static stator_status evaluate(st_copy *c, st_build_mark before, stator_ref *out, stator_diag **err)
{
    const stator_graph *graph = c->out->graph;
    const stator_graph_view *v = st_graph_view(graph);
    const stator_ref node = v->n_nodes;
    const stator_ref type = stator_value_at(v, stator_node_at(v, node)->result_begin)->type;
    stator_blob *blob = NULL;
    stator_diag *inner = NULL;
    const stator_status done = c->ctx->evaluate(c->ctx->evaluate_self, graph, node, &blob, &inner);
    st_diag_release(inner);
    *out = 0;
    if (done != STATOR_OK) {
        return done == STATOR_RESOURCE_EXHAUSTED ? st_fail_oom(err) : STATOR_OK;
    }
    st_build_rollback(c->out, before);
    const stator_status status = st_build_constant_blob(c->out, type, blob, out, err);
    st_blob_release(blob);
    return status;
}

/* The value as one constant of the graph being written. */
static stator_status make_known(st_copy *c, stator_ref value, stator_ref *out, stator_diag **err)
{
    stator_ref chain[DEPTH_MAX];
    uint32_t n = 0;
    while (!st_value_is_constant(c->out->graph, c->map[value])) {
        chain[n++] = value;
        value = stator_operand(c->v, stator_node_at(c->v, stator_value_at(c->v, value)->node), 0);
    }
    *out = c->map[value];
    while (n > 0 && *out) {
        const stator_ref view = chain[--n];
        const stator_ref old[2] = {c->map[value], c->map[view]};
        const st_build_mark before = st_build_here(c->out);
        c->map[value] = *out;
        const stator_status status = st_build_clone_node(
            c->out, c->in, stator_value_at(c->v, view)->node, NULL, c->map, err);
        c->map[value] = old[0];
        c->map[view] = old[1];
        ST_TRY(status);
        ST_TRY(evaluate(c, before, out, err));
        value = view;
    }
    return STATOR_OK;
}

static stator_status make_table(st_copy *c, const product *p, stator_ref *out, stator_diag **err)
{
    const int64_t last = 1;
    const int64_t axis = stator_attr_int_at(c->v, p->contract_y, 0);
    const stator_attr attrs[2] = {
        {.name = "contract_x", .kind = STATOR_ATTR_INTS, .count = 1, .list = &last},
        {.name = "contract_y", .kind = STATOR_ATTR_INTS, .count = 1, .list = &axis}};
    stator_ref operands[2] = {0, 0};
    const st_build_mark before = st_build_here(c->out);
    *out = 0;
    ST_TRY(make_known(c, p->table, &operands[0], err));
    if (operands[0]) {
        ST_TRY(make_known(c, p->weights, &operands[1], err));
    }
    if (operands[1]) {
        ST_TRY(st_build_op(c->out, "dot_general", 2, operands, 2, attrs, 1, out, err));
        ST_TRY(evaluate(c, before, out, err));
    }
    if (*out == 0) {
        st_build_rollback(c->out, before);
    }
    return STATOR_OK;
}

static stator_status visit(void *self, stator_ref node, stator_diag **err)
{
    st_copy *c = self;
    product p;
    stator_ref operands[2] = {0, 0};
    stator_ref result = 0;
    if (!find(c, node, &p) ||
        !st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "fold_embedding_product", node)) {
        return st_copy_node(c, node, err);
    }
    st_build_set_origin_ref(c->out, stator_node_at(c->v, node)->origin);
    ST_TRY(make_table(c, &p, &operands[0], err));
    if (operands[0] == 0) {
        return st_copy_node(c, node, err);
    }
    operands[1] = c->map[p.ids];
    ST_TRY(st_build_op(c->out, "gather", 2, operands, 0, NULL, 1, &result, err));
    st_copy_replace(c, stator_node_at(c->v, node)->result_begin, result);
    return STATOR_OK;
}

stator_status st_pass_fold_embedding_product(st_copy *c, stator_diag **err)
{
    return c->ctx->evaluate != NULL ? st_copy_nodes(c, visit, c, err) : STATOR_OK;
}
