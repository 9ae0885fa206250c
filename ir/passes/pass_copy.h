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
    st_arena arena;  /* of what the pass keeps while it runs */
    uint32_t changed;
} st_copy;

/* Runs a pass over one graph. */
stator_status st_copy_run(st_pass_fn pass, const st_pass_ctx *ctx, const stator_graph *in,
                          stator_builder *out, uint32_t *out_result, stator_diag **err);
/* Copies the inputs, calls `visit` for each node, and ends. */
typedef stator_status (*st_copy_visit_fn)(void *self, stator_ref node, stator_diag **err);
stator_status st_copy_nodes(st_copy *c, st_copy_visit_fn visit, void *self, stator_diag **err);
/* Copies one node; its regions are run through the pass first. */
stator_status st_copy_node(st_copy *c, stator_ref node, stator_diag **err);
/* Says that in-value `from` is computed by out-value `to`, which takes over witness and name when
 * it has none. */
void st_copy_replace(st_copy *c, stator_ref from, stator_ref to);
/* Before out-value `to` takes the place of in-value `from`: unbacked sizes that from's node defines
 * and to's type does not hold are bound to to's sizes, for those who read them. */
stator_status st_copy_bind_sizes(st_copy *c, stator_ref from, stator_ref to, stator_diag **err);
/* Copies outputs and write-backs where something changed. */
stator_status st_copy_end(st_copy *c, stator_diag **err);
/* Adds to uses[value] for each operand that is the value, and `kept` for each output and
 * write-back. */
void st_copy_count_uses(const st_copy *c, uint32_t kept, uint32_t *uses);

/* The op of an in-node. */
static inline const stator_op_desc *st_copy_op(const st_copy *c, stator_ref node)
{
    return stator_op_at(c->v, stator_node_at(c->v, node)->op);
}

#define STATOR_PASS(name, fn, rounds, doc) stator_status fn(st_copy *c, stator_diag **err);
#include "ir/passes/passes.def"
#undef STATOR_PASS

#endif
