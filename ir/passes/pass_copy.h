/* Functions that the built-in passes share: copying a graph node by node, with the nodes' regions
 * rewritten by the same pass. */
#ifndef STATOR_PASSES_PASS_COPY_H
#define STATOR_PASSES_PASS_COPY_H

#include "ir/passes/pass.h"

typedef struct st_copy {
    const st_pass_ctx *ctx;
    const stator_graph *in;
    const stator_graph_view *v; /* view of `in` */
    stator_builder *out;
    stator_ref *map; /* in's values -> out's values, 0: not there yet */
    st_pass_fn pass; /* runs on regions */
    uint32_t changed;
} st_copy;

/* Copies the inputs too, unless with_inputs is 0. */
stator_status st_copy_begin(st_copy *c, const st_pass_ctx *ctx, const stator_graph *in,
                            stator_builder *out, st_pass_fn pass, bool with_inputs,
                            stator_diag **err);
/* Copies one node; its regions are run through the pass first. */
stator_status st_copy_node(st_copy *c, stator_ref node, stator_diag **err);
/* Says that in-value `from` is computed by out-value `to`, which takes over witness and name when
 * it has none. */
void st_copy_replace(st_copy *c, stator_ref from, stator_ref to);
/* Before out-value `to` takes the place of in-value `from`: unbacked sizes that from's node defines
 * and to's type does not hold are bound to to's sizes, for those who read them. */
stator_status st_copy_bind_sizes(st_copy *c, stator_ref from, stator_ref to, stator_diag **err);
/* Copies outputs and write-backs and sets the result. */
stator_status st_copy_end(st_copy *c, uint32_t *out_result, stator_diag **err);
void st_copy_deinit(st_copy *c);

/* The op of an in-node. */
static inline const stator_op_desc *st_copy_op(const st_copy *c, stator_ref node)
{
    return stator_op_at(c->v, stator_node_at(c->v, node)->op);
}

stator_status st_pass_functionalize(const st_pass_ctx *ctx, const stator_graph *in,
                                    stator_builder *out, uint32_t *out_result, stator_diag **err);
stator_status st_pass_freeze(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                             uint32_t *out_result, stator_diag **err);
stator_status st_pass_canonicalize(const st_pass_ctx *ctx, const stator_graph *in,
                                   stator_builder *out, uint32_t *out_result, stator_diag **err);
stator_status st_pass_fold(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                           uint32_t *out_result, stator_diag **err);
stator_status st_pass_fold_lean(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                                uint32_t *out_result, stator_diag **err);
stator_status st_pass_recompose(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                                uint32_t *out_result, stator_diag **err);
stator_status st_pass_decompose(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                                uint32_t *out_result, stator_diag **err);
stator_status st_pass_cse(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                          uint32_t *out_result, stator_diag **err);
stator_status st_pass_fold_embedding_product(const st_pass_ctx *ctx, const stator_graph *in,
                                             stator_builder *out, uint32_t *out_result,
                                             stator_diag **err);
stator_status st_pass_lut(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                          uint32_t *out_result, stator_diag **err);
stator_status st_pass_move_into_scan(const st_pass_ctx *ctx, const stator_graph *in,
                                     stator_builder *out, uint32_t *out_result, stator_diag **err);
stator_status st_pass_split(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                            uint32_t *out_result, stator_diag **err);
stator_status st_pass_dce(const st_pass_ctx *ctx, const stator_graph *in, stator_builder *out,
                          uint32_t *out_result, stator_diag **err);

#endif
