/* Ops of libraries: their infer and decompose callbacks behind the built-in interfaces. In: what an
 * infer rule or a decomposition of ours sees, given on as a stator_node_desc. Out: the library's
 * types and values, checked before they are used. */
#include "core/base/arena.h"
#include "ir/ops/rules.h"

static stator_status node_of(const st_infer *in, st_arena *arena, stator_node_desc *out,
                             stator_diag **err)
{
    const stator_op_desc *desc = &in->op->desc;
    stator_attr *attrs = st_arena_zalloc(arena, desc->attr_count + 1u, sizeof *attrs);
    ST_TRY_MEM(attrs, err);
    for (uint32_t a = 0; a < desc->attr_count; a++) {
        ST_TRY(st_attr_from_row(in->v, in->m, arena, desc->attrs[a].name, in->attrs[a], &attrs[a],
                                err));
    }
    *out = (stator_node_desc){
        .struct_size = sizeof *out,
        .op = st_optable_find(in->m->ops, desc->name),
        .operands = in->operands,
        .operand_count = in->n_operands,
        .attr_count = desc->attr_count,
        .attrs = attrs,
        .regions = in->regions,
        .region_count = in->n_regions,
        .result_count = in->n_results,
        .result_types = in->given_types,
    };
    return STATOR_OK;
}

/* A library without a text of its own still gets one that names the op. */
static stator_status told(const stator_op_desc *desc, stator_status status, const char *what,
                          stator_diag **err)
{
    ST_FAIL_IF(status != STATOR_OK && err != NULL && *err == NULL, err, status,
               "%s: the op library's %s refused the node", desc->name, what);
    return status;
}

stator_status st_infer_oplib(st_infer *in)
{
    stator_diag **err = in->err;
    const stator_oplib_op *lib = in->op->oplib_op;
    const uint32_t n = in->n_results;
    stator_node_desc node;
    st_arena arena;
    st_arena_init(&arena, in->m->mem);
    stator_status status = node_of(in, &arena, &node, err);
    if (status == STATOR_OK) {
        status = lib->infer(in->op->oplib_self, in->b, &node, in->types, n, err);
        status = told(&in->op->desc, status, "infer function", err);
    }
    st_arena_deinit(&arena);
    for (uint32_t k = 0; status == STATOR_OK && k < n; k++) {
        if (in->types[k] == 0 || in->types[k] >= in->m->types.count) {
            status = st_in_fail(in, "plugin '%s', slot infer gave no type for result %u",
                                in->op->plugin, k);
        }
    }
    return status;
}

static stator_node_desc desc_of(const stator_builder *b, const st_decompose_node *node)
{
    return (stator_node_desc){.struct_size = sizeof(stator_node_desc),
                              .op = st_optable_find(b->module->ops, node->op->desc.name),
                              .operands = node->operands,
                              .operand_count = node->n_operands,
                              .attr_count = node->n_attrs,
                              .attrs = node->attrs,
                              .regions = node->regions,
                              .region_count = node->n_regions,
                              .result_count = node->n_results};
}

stator_status st_dec_oplib(stator_builder *b, const st_decompose_node *node,
                           stator_ref *out_results, stator_diag **err)
{
    const stator_oplib_op *lib = node->op->oplib_op;
    const stator_node_desc desc = desc_of(b, node);
    const stator_status status = lib->decompose(node->op->oplib_self, b, &desc, out_results, err);
    ST_TRY(told(&node->op->desc, status, "decompose function", err));
    for (uint32_t k = 0; k < node->n_results; k++) {
        ST_FAIL_IF(out_results[k] == 0 || out_results[k] > st_graph_view(b->graph)->n_values, err,
                   STATOR_INTERNAL, "plugin '%s', slot decompose gave no value for result %u",
                   node->op->plugin, k);
    }
    return STATOR_OK;
}

stator_status st_gradient_oplib(stator_builder *b, const st_decompose_node *node,
                                const stator_ref *out_grads, stator_ref *in_grads,
                                stator_diag **err)
{
    const stator_oplib_op *lib = node->op->oplib_op;
    const stator_node_desc desc = desc_of(b, node);
    const stator_status status =
        lib->gradient(node->op->oplib_self, b, &desc, out_grads, in_grads, err);
    return told(&node->op->desc, status, "gradient function", err);
}
