/* Composites that the backend does not keep become lower ops.
 *
 *     y = silu(x)    ->    s = sigmoid(x)  y = mul(x, s)    ->    ... exp, add, div ...
 *
 * In: any graph; the keep-set of the context. Out: each refused composite is replaced by its
 * decomposition, one level a round; the manager repeats the pass until primitives and kept
 * composites are left (at most the depth of the op table). A node stays when fuel refuses it or
 * when its decomposition cannot be written (a size that it needs is symbolic, say): it is then the
 * partitioner's to give away. A result whose size is not proved equal to the old one is reshaped to
 * it, which checks it while the program runs. */
#include "ir/infer.h"
#include "ir/passes/pass_copy.h"

#define ATTRS_MAX 32u
#define RESULTS_MAX 256u

typedef struct lowering {
    st_copy *copy;
    st_arena arena; /* of a node: its attribute lists and operands */
} lowering;

static bool is_wanted(const st_copy *c, stator_ref node)
{
    const stator_op_desc *op = st_copy_op(c, node);
    return (op->flags & STATOR_OP_COMPOSITE) != 0 &&
           (c->ctx->keep == NULL || !c->ctx->keep(c->ctx->keep_self, c->in, node)) &&
           st_pass_may(c->ctx, STATOR_FUEL_DECOMPOSITION, op->name, node);
}

static stator_status write_body(lowering *d, const stator_node_row *row, stator_ref *results,
                                stator_diag **err)
{
    st_copy *c = d->copy;
    stator_attr attrs[ATTRS_MAX];
    const st_op *op = st_optable_at(c->in->module->ops, row->op);
    ST_FAIL_IF(row->attr_count > ATTRS_MAX || row->result_count > RESULTS_MAX, err,
               STATOR_UNIMPLEMENTED, "%s: too many attributes or results", op->desc.name);
    st_arena_reset(&d->arena);
    stator_ref *operands = st_arena_zalloc(&d->arena, row->operand_count + 1u, sizeof *operands);
    ST_TRY_MEM(operands, err);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        operands[k] = c->map[stator_operand(c->v, row, k)]; /* map[0] is 0 */
    }
    for (uint32_t k = 0; k < row->attr_count; k++) {
        ST_TRY(st_attr_from_row(c->v, c->in->module, &d->arena, op->desc.attrs[k].name,
                                stator_attr_at(c->v, row, k), &attrs[k], err));
    }
    const st_decompose_node node = {.op = op,
                                    .operands = operands,
                                    .n_operands = row->operand_count,
                                    .n_attrs = row->attr_count,
                                    .attrs = attrs,
                                    .n_results = row->result_count};
    /* Nodes made of one without an origin still get one origin in common. */
    const stator_ref origin =
        row->origin ? row->origin : st_module_origin(c->out->module, "", op->desc.name, "", 0);
    st_build_set_origin_ref(c->out, origin);
    return st_decompose(c->out, &node, results, err);
}

/* Brings a result to the type of the value it replaces. */
static stator_status fit_type(lowering *d, stator_ref old, stator_ref *value, stator_diag **err)
{
    st_copy *c = d->copy;
    const stator_graph_view *out = st_graph_view(c->out->graph);
    const stator_ref wanted = stator_value_at(c->v, old)->type;
    ST_FAIL_IF(*value == 0 || *value > out->n_values, err, STATOR_INTERNAL,
               "a decomposition gave no value for a result");
    const stator_ref given = stator_value_at(out, *value)->type;
    if (given == wanted) {
        return STATOR_OK;
    }
    const stator_type_row *a = stator_type_at(out, given);
    const stator_type_row *b = stator_type_at(out, wanted);
    stator_ref dims[STATOR_RANK_MAX];
    bool is_possible = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t i = 0; is_possible && i < b->rank; i++) {
        dims[i] = stator_dim_at(out, b, i);
        is_possible = st_sym_eq(&c->out->module->symtab, stator_dim_at(out, a, i), dims[i]) != 0;
    }
    ST_FAIL_IF(!is_possible, err, STATOR_INTERNAL, "a decomposition gave a result of another type");
    ST_TRY(st_copy_bind_sizes(c, old, *value, err));
    const stator_attr shape = {
        .name = "shape", .kind = STATOR_ATTR_DIMS, .count = b->rank, .list = dims};
    return st_build_op(c->out, "reshape", 1, value, 1, &shape, 1, value, err);
}

static stator_status lower(lowering *d, stator_ref node, stator_diag **err)
{
    st_copy *c = d->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_ref results[RESULTS_MAX] = {0};
    ST_TRY(write_body(d, row, results, err));
    for (uint32_t k = 0; k < row->result_count; k++) {
        ST_TRY(fit_type(d, row->result_begin + k, &results[k], err));
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        st_copy_replace(c, row->result_begin + k, results[k]);
    }
    return STATOR_OK;
}

/* An op of a library, whose decomposition may fail for reasons that are no property of the node. */
static bool is_stranger(const st_copy *c, stator_ref node)
{
    return st_optable_at(c->in->module->ops, stator_node_at(c->v, node)->op)->oplib_op != NULL;
}

static stator_status visit(void *self, stator_ref node, stator_diag **err)
{
    lowering *d = self;
    st_copy *c = d->copy;
    if (!is_wanted(c, node)) {
        return st_copy_node(c, node, err);
    }
    const st_build_mark before = st_build_here(c->out);
    stator_diag *inner = NULL;
    const stator_status status = lower(d, node, &inner);
    if (status == STATOR_OK) {
        return STATOR_OK;
    }
    if (is_stranger(c, node) && status != STATOR_UNSUPPORTED && status != STATOR_UNIMPLEMENTED) {
        return st_diag_give(status, inner, err);
    }
    st_diag_release(inner);
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        return st_fail_oom(err);
    }
    st_build_rollback(c->out, before);
    return st_copy_node(c, node, err);
}

stator_status st_pass_decompose(st_copy *c, stator_diag **err)
{
    lowering d = {.copy = c};
    st_arena_init(&d.arena, c->ctx->mem);
    const stator_status status = st_copy_nodes(c, visit, &d, err);
    st_arena_deinit(&d.arena);
    return status;
}
