/* What an infer rule sees and does. Rules live in ir/ops/<family>.c; helpers here. All sizes are
 * syms; a rule that meets a cap of the symbolic engine makes an unbacked symbol. */
#ifndef STATOR_IR_INFER_H
#define STATOR_IR_INFER_H

#include "ir/graph.h"

typedef struct st_infer {
    stator_builder *b;
    st_module *m;
    const stator_graph_view *v;
    const st_op *op;
    const stator_ref *operands; /* value refs, 0 absent */
    uint32_t n_operands;
    const stator_attr_row *const *attrs; /* by schema place */
    stator_graph *const *regions;
    uint32_t n_regions;
    const stator_ref *given_types; /* result types the caller stated, or NULL */
    uint32_t n_results;            /* in: wanted (0: the schema's); a rule may set it */
    stator_ref *types;             /* out, room for 256 */
} st_infer;

/* Reading operands. */
stator_dtype st_in_dtype(const st_infer *in, uint32_t k);
uint32_t st_in_rank(const st_infer *in, uint32_t k);
stator_ref st_in_dim(const st_infer *in, uint32_t k, uint32_t axis);
const stator_ref *st_in_dims(const st_infer *in, uint32_t k, stator_ref out[STATOR_MAX_RANK]);
/* Reading attributes. */
int64_t st_in_int(const st_infer *in, uint32_t a);
double st_in_float(const st_infer *in, uint32_t a);
uint32_t st_in_list(const st_infer *in, uint32_t a, int64_t *out, uint32_t capacity); /* INTS */
uint32_t st_in_syms(const st_infer *in, uint32_t a, stator_ref *out, uint32_t capacity); /* DIMS */
/* An axis attribute brought into [0, rank); fails with a text naming op and range. */
stator_status st_in_axis(const st_infer *in, int64_t axis, uint32_t rank, uint32_t *out,
                         stator_diag **err);
/* Failing: "conv: weight has 4 channels, input has 3". */
stator_status st_in_fail(const st_infer *in, stator_diag **err, const char *format, ...)
    STATOR_PRINTF(3, 4);
/* Are two sizes equal? Proved unequal fails; unknown passes (checked when the program runs). */
stator_status st_in_same_dim(const st_infer *in, stator_ref a, stator_ref b, const char *what,
                             stator_diag **err);
/* Numpy broadcasting of two dims lists; result into out. */
stator_status st_in_broadcast(const st_infer *in, const stator_ref *a, uint32_t a_rank,
                              const stator_ref *b, uint32_t b_rank, stator_ref *out,
                              uint32_t *out_rank, stator_diag **err);
/* Setting result k. */
stator_status st_in_set(st_infer *in, uint32_t k, stator_dtype dtype, uint32_t rank,
                        const stator_ref *dims, stator_diag **err);

/* A node to decompose, as a decomposition function sees it. */
typedef struct st_decompose_node {
    const st_op *op;
    const stator_ref *operands; /* already values of the builder's graph */
    uint32_t n_operands;
    uint32_t n_attrs;
    const stator_attr *attrs; /* by schema place, as stator_attr */
    stator_graph *const *regions;
    uint32_t n_regions;
    uint32_t n_results;
} st_decompose_node;

/* Decomposes through body, C function or op library. NOT_FOUND when the op is a primitive. */
stator_status st_decompose(stator_builder *b, const st_decompose_node *node,
                           stator_ref *out_results, stator_diag **err);

#endif
