/* Nodes whose operands are constants become constants.
 *
 *     a = constant [2]  b = constant [3]  c = add(a, b)    ->    c = constant [5]
 *
 * In: any graph, and an evaluator in the pass context (none: nothing changes). Out: foldable nodes
 * are replaced; what then has no user is dce's. Foldable: no EFFECT, RANDOM or regions, static
 * result types and constant attributes, and a result not much larger than what it was made of, so
 * that `expand` of a scalar does not become megabytes. A view of many bytes that is read by ops at
 * any stride alone stays: the weights would be in memory twice. A node is evaluated in the graph
 * being written, where its operands are already folded, and then taken back.
 *
 * fold_lean is the same for a backend whose products read integers of a byte or less: weights and
 * long rows of them that an elementwise op makes wider stay, so that the products see the bytes,
 * which are the smaller too; and so does a view that repeats elements (scales of blocks), which is
 * index arithmetic there. Weights that products cannot read so, of a convolution or of a product
 * with a batch whose other operand is made of no bytes, are widened: else each call would do it.
 */
#include "core/base/blob.h"
#include "core/base/check.h"
#include "ir/passes/pass_copy.h"

#include <string.h>

#define FREE_BYTES 65536u /* a result up to this size is always worth a constant */
#define ROW_BYTES 1024u   /* integers from this size on stay as they are */
#define WEIGHT_BYTES 64u  /* the same of weights: scales and zero points have one axis */
#define RESULTS_MAX 16u

typedef struct folding {
    st_copy *copy;
    bool is_lean;
    uint8_t *is_read;  /* by value: by something that is not at any stride, also through views */
    uint8_t *is_float; /* by value: weights that fold_lean widens, and what they are made of */
} folding;

static bool has_static_attrs(const stator_graph_view *v, const stator_node_row *row)
{
    for (uint32_t k = 0; k < row->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, row, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            int64_t value = 0;
            if (!stator_sym_is_const(v, stator_ref_at(v, attr->begin + i), &value)) {
                return false;
            }
        }
    }
    return true;
}

/* Bytes of the operands, all of which must be constants of the graph being written. */
static bool operand_bytes(const st_copy *c, const stator_node_row *row, uint64_t *out_bytes)
{
    *out_bytes = 0;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(c->v, row, k);
        if (value == 0) {
            continue;
        }
        if (!st_value_is_constant(c->out->graph, c->map[value])) {
            return false;
        }
        *out_bytes += st_blob_size(st_graph_value_blob(c->out->graph, c->map[value]));
    }
    return true;
}

/* Axes that have more than one element. */
static uint32_t long_axes(const stator_graph_view *v, const stator_type_row *type)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < type->rank; a++) {
        int64_t size = 0;
        n += !stator_sym_is_const(v, stator_dim_at(v, type, a), &size) || size != 1;
    }
    return n;
}

/* Integers of a byte or less, a row or weights, of which each becomes more? */
static bool is_widening(const st_copy *c, const stator_node_row *row, uint64_t in_bytes)
{
    if (in_bytes < WEIGHT_BYTES || row->operand_count != 1 || row->result_count != 1 ||
        (stator_op_at(c->v, row->op)->flags & STATOR_OP_POINTWISE) == 0) {
        return false;
    }
    const stator_type_row *from = stator_value_type(c->v, stator_operand(c->v, row, 0));
    const uint32_t to = stator_value_type(c->v, row->result_begin)->dtype;
    const bool is_byte = from->dtype == STATOR_I8 || from->dtype == STATOR_U8;
    const bool is_nibble = from->dtype == STATOR_I4 || from->dtype == STATOR_U4;
    return (is_byte || is_nibble) && st_dtype_bits(to) > st_dtype_bits(from->dtype) &&
           (in_bytes >= ROW_BYTES || long_axes(c->v, from) > 1);
}

static bool are_results_static(const st_copy *c, const stator_node_row *row, uint64_t *out_bytes)
{
    *out_bytes = 0;
    for (uint32_t k = 0; k < row->result_count; k++) {
        uint64_t elements = 0;
        uint64_t bytes = 0;
        const stator_value_row *value = stator_value_at(c->v, row->result_begin + k);
        if (!st_type_static_size(c->in->module, value->type, &elements, &bytes)) {
            return false;
        }
        *out_bytes += bytes;
    }
    return true;
}

static bool is_foldable(const folding *f, const stator_node_row *row)
{
    const st_copy *c = f->copy;
    const uint64_t flags = stator_op_at(c->v, row->op)->flags;
    uint64_t in_bytes = 0;
    uint64_t all_bytes = 0;
    if ((flags & (STATOR_OP_EFFECT | STATOR_OP_RANDOM | STATOR_OP_CONSTANT | STATOR_OP_REGIONS |
                  STATOR_OP_UNBACKED)) != 0 ||
        row->region_count != 0 || row->result_count > RESULTS_MAX || !has_static_attrs(c->v, row) ||
        !operand_bytes(c, row, &in_bytes) || !are_results_static(c, row, &all_bytes)) {
        return false;
    }
    if (f->is_lean && f->is_float[row->result_begin]) {
        return true;
    }
    if (f->is_lean && is_widening(c, row, in_bytes)) {
        return false;
    }
    const bool is_repeated = f->is_lean && (flags & STATOR_OP_VIEW) && all_bytes > ROW_BYTES;
    return all_bytes <= in_bytes || (all_bytes <= FREE_BYTES && !is_repeated);
}

static void make_constants(st_copy *c, stator_ref node, stator_blob *const *blobs)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    st_build_set_origin_ref(c->out, row->origin);
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_ref from = row->result_begin + k;
        stator_ref to = 0;
        ST_THEN(c->e.status, st_build_constant_blob(c->out, stator_value_at(c->v, from)->type,
                                                    blobs[k], &to, c->e.err));
        st_copy_replace(c, from, to);
    }
}

/* The node is copied by now. An evaluation that fails (no kernel for a dtype, an index out of
 * range) leaves it: it will fail, or run, where it would have. */
static void fold_node(st_copy *c, stator_ref node, st_build_mark before)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    stator_blob *blobs[RESULTS_MAX] = {NULL};
    if (st_copy_evaluate(c, blobs)) {
        st_build_rollback(c->out, before);
        make_constants(c, node, blobs);
    }
    for (uint32_t k = 0; k < row->result_count && k < RESULTS_MAX; k++) {
        st_blob_release(blobs[k]);
    }
}

/* ---- views that stay ---- */

/* folding.is_read; NULL: no memory. */
static uint8_t *mark_read(st_copy *c)
{
    uint8_t *is_read = st_copy_zalloc(c, c->v->n_values, 1);
    for (uint32_t k = 0; is_read != NULL && k < c->v->n_outputs; k++) {
        is_read[stator_output_at(c->v, k)] = 1;
    }
    for (stator_ref node = c->v->n_nodes; is_read != NULL && node >= 1; node--) {
        const stator_node_row *row = stator_node_at(c->v, node);
        const stator_op_desc *op = st_copy_op(c, node);
        const bool is_view = (op->flags & STATOR_OP_VIEW) != 0 && row->result_count == 1;
        if ((op->flags & STATOR_OP_ANY_STRIDE) != 0 || (is_view && !is_read[row->result_begin])) {
            continue;
        }
        for (uint32_t k = 0; k < row->operand_count; k++) {
            is_read[stator_operand(c->v, row, k)] = 1;
        }
    }
    return is_read;
}

static bool is_kept_view(const folding *f, stator_ref node)
{
    const st_copy *c = f->copy;
    const stator_node_row *row = stator_node_at(c->v, node);
    uint64_t elements = 0;
    uint64_t bytes = 0;
    return (st_copy_op(c, node)->flags & STATOR_OP_VIEW) != 0 && row->result_count == 1 &&
           !f->is_read[row->result_begin] && !(f->is_lean && f->is_float[row->result_begin]) &&
           st_type_static_size(c->in->module, stator_value_at(c->v, row->result_begin)->type,
                               &elements, &bytes) &&
           bytes > FREE_BYTES;
}

/* ---- weights that are widened ---- */

static bool is_byte(const st_copy *c, stator_ref value)
{
    const uint32_t dtype = stator_value_type(c->v, value)->dtype;
    return dtype == STATOR_I8 || dtype == STATOR_U8 || dtype == STATOR_I4 || dtype == STATOR_U4;
}

static bool is_elementwise(const st_copy *c, stator_ref node)
{
    return (st_copy_op(c, node)->flags & (STATOR_OP_POINTWISE | STATOR_OP_VIEW)) != 0;
}

/* By value: bytes, or made of bytes element by element. NULL: no memory. */
static uint8_t *mark_bytes(st_copy *c)
{
    uint8_t *is_of_bytes = st_copy_zalloc(c, c->v->n_values, 1);
    for (stator_ref value = 1; is_of_bytes != NULL && value <= c->v->n_values; value++) {
        is_of_bytes[value] = (uint8_t)is_byte(c, value);
    }
    for (stator_ref node = 1; is_of_bytes != NULL && node <= c->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(c->v, node);
        for (uint32_t k = 0; is_elementwise(c, node) && k < row->operand_count; k++) {
            is_of_bytes[row->result_begin] |= is_of_bytes[stator_operand(c->v, row, k)];
        }
    }
    return is_of_bytes;
}

/* NULL: the node's op has no such attribute. */
static const stator_attr_row *attr_named(const st_copy *c, stator_ref node, const char *name)
{
    const stator_op_desc *op = st_copy_op(c, node);
    for (uint32_t k = 0; k < op->attr_count; k++) {
        if (strcmp(op->attrs[k].name, name) == 0) {
            return stator_attr_at(c->v, stator_node_at(c->v, node), k);
        }
    }
    return NULL;
}

/* Has the second operand of a product matrices of its own for each place of a batch? */
static bool has_batch(const st_copy *c, stator_ref node)
{
    const stator_ref y = stator_operand(c->v, stator_node_at(c->v, node), 1);
    const stator_type_row *type = stator_value_type(c->v, y);
    const stator_attr_row *axes = attr_named(c, node, "batch_y");
    bool has_long = false;
    for (uint32_t k = 0; axes != NULL && k < axes->count; k++) {
        int64_t size = 0;
        const int64_t axis = stator_attr_int_at(c->v, axes, k);
        const stator_ref dim = stator_dim_at(c->v, type, (uint32_t)axis);
        has_long |= !stator_sym_is_const(c->v, dim, &size) || size != 1;
    }
    return has_long;
}

/* Does the node contract its second operand with what is made of no bytes, in a way for which
 * codegen/match/match_weights.c has no form that reads bytes? */
static bool meets_floats(const st_copy *c, stator_ref node, const uint8_t *is_of_bytes)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    const stator_op_desc *op = st_copy_op(c, node);
    return (op->flags & STATOR_OP_CONTRACTS) != 0 && row->operand_count >= 2 &&
           !is_of_bytes[stator_operand(c->v, row, 0)] &&
           is_of_bytes[stator_operand(c->v, row, 1)] &&
           (attr_named(c, node, "dilations") != NULL || has_batch(c, node));
}

/* folding.is_float; NULL: no memory. */
static uint8_t *mark_float(st_copy *c)
{
    uint8_t *is_of_bytes = mark_bytes(c);
    uint8_t *is_float = st_copy_zalloc(c, c->v->n_values, 1);
    for (stator_ref node = c->v->n_nodes; is_float && node >= 1; node--) {
        const stator_node_row *row = stator_node_at(c->v, node);
        if (meets_floats(c, node, is_of_bytes)) {
            is_float[stator_operand(c->v, row, 1)] = 1;
        }
        const bool is_part = is_elementwise(c, node) && is_float[row->result_begin];
        for (uint32_t k = 0; is_part && k < row->operand_count; k++) {
            is_float[stator_operand(c->v, row, k)] = 1;
        }
    }
    return is_float;
}

static void visit(void *self, stator_ref node)
{
    const folding *f = self;
    st_copy *c = f->copy;
    const st_build_mark before = st_build_here(c->out);
    const bool is_wanted = is_foldable(f, stator_node_at(c->v, node)) && !is_kept_view(f, node) &&
                           st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "fold", node);
    st_copy_node(c, node);
    if (is_wanted) {
        fold_node(c, node, before);
    }
}

static void run_fold(st_copy *c, bool is_lean)
{
    if (c->ctx->evaluate != NULL) {
        folding f = {.copy = c,
                     .is_lean = is_lean,
                     .is_read = mark_read(c),
                     .is_float = is_lean ? mark_float(c) : NULL};
        st_copy_nodes(c, visit, &f);
    }
}

void st_pass_fold(st_copy *c)
{
    run_fold(c, false);
}

void st_pass_fold_lean(st_copy *c)
{
    run_fold(c, true);
}
