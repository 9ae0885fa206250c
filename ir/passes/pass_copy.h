/* Functions that the built-in passes share: copying a graph node by node, with the nodes' regions
 * rewritten by the same pass. The first failure is kept in the copy's emitter; what is called after
 * it does nothing, so a pass asks only before it reads what a call made. */
#ifndef STATOR_PASSES_PASS_COPY_H
#define STATOR_PASSES_PASS_COPY_H

#include "ir/op_emitter.h"
#include "ir/passes/pass.h"

typedef struct st_copy {
    const st_pass_ctx *ctx;
    const stator_graph *in;
    const stator_graph_view *v; /* view of `in` */
    stator_builder *out;
    stator_emitter e; /* writes to `out`; its status is the copy's */
    stator_ref *map;  /* in's values -> out's values, 0: not there yet */
    st_pass_fn pass;  /* runs on regions */
    st_arena arena;   /* holds what the pass keeps while it runs */
    uint32_t changed;
} st_copy;

/* Runs a pass over one graph. */
stator_status st_copy_run(st_pass_fn pass, const st_pass_ctx *ctx, const stator_graph *in,
                          stator_builder *out, uint32_t *out_result, stator_diag **err);
/* Copies the inputs, calls `visit` for each node, and ends. */
typedef void (*st_copy_visit_fn)(void *self, stator_ref node);
void st_copy_nodes(st_copy *c, st_copy_visit_fn visit, void *self);
/* Copies one node; its regions are run through the pass first. */
void st_copy_node(st_copy *c, stator_ref node);
/* Region k of an in-node after the pass: the old graph where nothing changed; NULL after a failure.
 */
stator_graph *st_copy_region(st_copy *c, stator_ref node, uint32_t k);
/* Zeroed elements 0..last of this size in the arena; NULL after a failure. */
void *st_copy_zalloc(st_copy *c, uint64_t last, uint64_t size);
/* After a trial with a diag of its own: its failure is none of the copy's, apart from
 * RESOURCE_EXHAUSTED. */
void st_copy_forgive(st_copy *c, stator_diag *why);
/* Evaluates the newest node of `out`, giving one blob a result. A failure (no kernel for a dtype,
 * an index out of range) is forgiven. */
bool st_copy_evaluate(st_copy *c, stator_blob **out_blobs);
/* The newest node, of one result and built since `before`, becomes a constant; 0: it could not be
 * computed. */
stator_ref st_copy_constant(st_copy *c, st_build_mark before);
/* Says that in-value `from` is computed by out-value `to`, which takes over witness and name when
 * it has none. */
void st_copy_replace(st_copy *c, stator_ref from, stator_ref to);
/* Before out-value `to` takes the place of in-value `from`: unbacked sizes that from's node defines
 * and to's type does not hold are bound to to's sizes, for those who read them. */
void st_copy_bind_sizes(st_copy *c, stator_ref from, stator_ref to);
/* Copies outputs and write-backs where something changed. */
void st_copy_end(st_copy *c);
/* Counts each in-value's uses: 1 for an operand, `kept` for an output or write-back. The array lies
 * in the arena; NULL after a failure. */
uint32_t *st_copy_count_uses(st_copy *c, uint32_t kept);

/* The op of an in-node. */
static inline const stator_op_desc *st_copy_op(const st_copy *c, stator_ref node)
{
    return stator_op_at(c->v, stator_node_at(c->v, node)->op);
}

/* Did nothing fail so far? */
static inline bool st_copy_is_ok(const st_copy *c)
{
    return c->e.status == STATOR_OK;
}

#define STATOR_PASS(name, fn, rounds, ...) void fn(st_copy *c);
#include "ir/passes/passes.def"
#undef STATOR_PASS

#endif
