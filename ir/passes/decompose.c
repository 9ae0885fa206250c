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
    st_arena arena; /* attribute lists and operands of the node in hand */
} lowering;

static bool is_wanted(const st_copy *c, stator_ref node)
{
    const stator_op_desc *op = st_copy_op(c, node);
    return (op->flags & STATOR_OP_COMPOSITE) != 0 &&
           (c->ctx->keep == NULL || !c->ctx->keep(c->ctx->keep_self, c->in, node)) &&
           st_pass_may(c->ctx, STATOR_FUEL_DECOMPOSITION, op->name, node);
}

static stator_status write_body(lowering *d, const stator_node_row *row, stator_ref *results)
{
    st_copy *c = d->copy;
    stator_diag **err = c->e.err;
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
static void fit_type(st_copy *c, stator_ref old, stator_ref *value)
{
    const stator_graph_view *out = st_graph_view(c->out->graph);
    const stator_ref wanted = stator_value_at(c->v, old)->type;
    if (*value == 0 || *value > out->n_values) {
        stator_emit_fail(&c->e, STATOR_INTERNAL, "a decomposition gave no value for a result");
        return;
    }
    const stator_ref given = stator_value_at(out, *value)->type;
    if (given == wanted) {
        return;
    }
    const stator_type_row *a = stator_type_at(out, given);
    const stator_type_row *b = stator_type_at(out, wanted);
    stator_ref dims[STATOR_RANK_MAX];
    bool is_possible = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t i = 0; is_possible && i < b->rank; i++) {
        dims[i] = stator_dim_at(out, b, i);
        is_possible = st_sym_eq(&c->out->module->symtab, stator_dim_at(out, a, i), dims[i]) != 0;
    }
    if (!is_possible) {
        stator_emit_fail(&c->e, STATOR_INTERNAL, "a decomposition gave a result of another type");
    }
    st_copy_bind_sizes(c, old, *value);
    *value = stator_emit_reshape(&c->e, *value, b->rank, dims);
}

static void lower(lowering *d, stator_ref node)
{
    st_copy *c = d->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_ref results[RESULTS_MAX] = {0};
    c->e.status = write_body(d, row, results);
    for (uint32_t k = 0; st_copy_is_ok(c) && k < row->result_count; k++) {
        fit_type(c, row->result_begin + k, &results[k]);
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        st_copy_replace(c, row->result_begin + k, results[k]);
    }
}

/* An op of a library, whose decomposition may fail for reasons that are no property of the node. */
static bool is_stranger(const st_copy *c, stator_ref node)
{
    return st_optable_at(c->in->module->ops, stator_node_at(c->v, node)->op)->oplib_op != NULL;
}

static void visit(void *self, stator_ref node)
{
    lowering *d = self;
    st_copy *c = d->copy;
    const st_build_mark before = st_build_here(c->out);
    stator_diag **err = c->e.err, *inner = NULL;
    if (is_wanted(c, node)) {
        c->e.err = &inner;
        lower(d, node);
        c->e.err = err;
        const stator_status status = c->e.status;
        if (status == STATOR_OK) {
            return;
        }
        if (is_stranger(c, node) && status != STATOR_UNSUPPORTED &&
            status != STATOR_UNIMPLEMENTED) {
            (void)st_diag_give(status, inner, err);
            return;
        }
        st_copy_forgive(c, inner);
        st_build_rollback(c->out, before);
    }
    st_copy_node(c, node);
}

void st_pass_decompose(st_copy *c)
{
    lowering d = {.copy = c};
    st_arena_init(&d.arena, c->ctx->mem);
    st_copy_nodes(c, visit, &d);
    st_arena_deinit(&d.arena);
}
