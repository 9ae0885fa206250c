/* Products of looked-up rows are looked up.
 *
 *     e = gather(table, ids)  y = dot_general(e, w)    ->    y = gather(table * w, ids)
 *
 * In: any graph, and an evaluator in the pass context (none: nothing changes). Out: such products
 * of constants are made once, when the new table is not much larger than the table and the weights
 * that it stands for. Results agree within rounding: it is the same sums, in another order. */
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
           rows * columns * st_element_bytes(x->dtype) <= GROWS(table[1] + weights[1]);
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

/* The value as one constant of the graph being written; 0: it could not be computed. */
static stator_ref make_known(st_copy *c, stator_ref value)
{
    stator_ref chain[DEPTH_MAX];
    uint32_t n = 0;
    while (!st_value_is_constant(c->out->graph, c->map[value])) {
        chain[n++] = value;
        value = stator_operand(c->v, stator_node_at(c->v, stator_value_at(c->v, value)->node), 0);
    }
    stator_ref made = c->map[value];
    while (n > 0 && made) {
        const stator_ref view = chain[--n];
        const stator_ref old[2] = {c->map[value], c->map[view]};
        const st_build_mark before = st_build_here(c->out);
        c->map[value] = made;
        ST_THEN(c->e.status, st_build_clone_node(c->out, c->in, stator_value_at(c->v, view)->node,
                                                 NULL, c->map, c->e.err));
        c->map[value] = old[0];
        c->map[view] = old[1];
        made = st_copy_constant(c, before);
        value = view;
    }
    return made;
}

/* 0: it could not be computed. */
static stator_ref make_table(st_copy *c, const product *p)
{
    const int64_t last = 1;
    const int64_t axis = stator_attr_int_at(c->v, p->contract_y, 0);
    const st_build_mark before = st_build_here(c->out);
    const stator_ref table = make_known(c, p->table);
    const stator_ref weights = table ? make_known(c, p->weights) : 0;
    stator_ref made = 0;
    if (weights) {
        stator_emit_op(&c->e, "dot_general", STATOR_IN(table, weights),
                       STATOR_AT(STATOR_A_INTS("contract_x", 1, &last),
                                 STATOR_A_INTS("contract_y", 1, &axis)));
        made = st_copy_constant(c, before);
    }
    if (made == 0) {
        st_build_rollback(c->out, before);
    }
    return made;
}

static void visit(void *self, stator_ref node)
{
    st_copy *c = self;
    const stator_node_row *row = stator_node_at(c->v, node);
    product p;
    stator_ref table = 0;
    if (find(c, node, &p) &&
        st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "fold_embedding_product", node)) {
        st_build_set_origin_ref(c->out, row->origin);
        table = make_table(c, &p);
    }
    if (table == 0) {
        st_copy_node(c, node);
        return;
    }
    st_copy_replace(c, row->result_begin, stator_emit_gather(&c->e, table, c->map[p.ids], 0));
}

void st_pass_fold_embedding_product(st_copy *c)
{
    if (c->ctx->evaluate != NULL) {
        st_copy_nodes(c, visit, c);
    }
}
