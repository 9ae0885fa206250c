/* The op library "llm_ops": two ops of language models that Stator does not have.
 *
 *     llm_softcap(x) {cap = 50}   cap * tanh(x / cap), logit soft-capping (Gemma 2, 2024)
 *     llm_rotate_half(x)          concat(-x[..., n/2:], x[..., :n/2]), half of rotary position
 *                                 embeddings (Su et al., 2021)
 *
 *     stator ops llm_softcap --plugin-dir build
 *     stator run ops.stir --plugin-dir build
 *
 * An op brings a descriptor, an infer function and a decomposition into ops that every backend has:
 * as an expression (softcap) or as a C function (rotate_half). With that, every backend runs it.
 * llm_softcap also has a kernel, its reference: `eager` calls it, and comparing `eager` with any
 * other backend compares the decomposition with the kernel.
 *
 *     STATOR_LOGS=dispatch stator run ops.stir --plugin-dir build     tells when the kernel runs
 *     stator compare ops.stir --backends eager,aot_eager --plugin-dir build
 *
 * The kernel converts elements of any float dtype with the SDK (core/base/convert.h). */
#include <stator/emit.h>

#include "core/base/convert.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define VERSION "1.0.0"
#define ABOUT "soft-capped logits and rotary embeddings"

static const stator_type_row *operand_type(const stator_graph_view *v, const stator_node_desc *node)
{
    return stator_value_type(v, node->operands[0]);
}

/* ---- llm_softcap ---- */

static stator_status infer_softcap(void *self, stator_builder *b, const stator_node_desc *node,
                                   stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    const stator_graph_view *v = host->build->view(b);
    const stator_dtype dtype = operand_type(v, node)->dtype;
    (void)n_types;
    if (dtype < STATOR_F8E4M3FN || dtype > STATOR_F64) {
        return stator_fail(host, err, STATOR_INVALID_ARGUMENT,
                           "llm_softcap: x must be of a float dtype");
    }
    out_types[0] = stator_value_at(v, node->operands[0])->type;
    return STATOR_OK;
}

static stator_dtype dtype_of(const DLTensor *t)
{
    const uint32_t bits = t->dtype.bits;
    return t->dtype.code == kDLFloat           ? (bits == 16   ? STATOR_F16
                                                  : bits == 32 ? STATOR_F32
                                                               : STATOR_F64)
           : t->dtype.code == kDLBfloat        ? STATOR_BF16
           : t->dtype.code == kDLFloat8_e4m3fn ? STATOR_F8E4M3FN
                                               : STATOR_F8E5M2;
}

/* Computed in f64 and rounded once, whatever the dtype. */
static stator_status run_softcap(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                                 DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                                 stator_diag **err)
{
    const stator_host *host = self;
    const stator_dtype dtype = dtype_of(&in[0]);
    const double cap = attrs[0].f;
    int64_t n = 1;
    char text[80];
    (void)n_in, (void)n_out, (void)n_attrs, (void)err;
    for (int32_t axis = 0; axis < in[0].ndim; axis++) {
        n *= in[0].shape[axis];
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = st_load_f64(dtype, in[0].data, i);
        st_store_f64(dtype, out[0].data, i, cap * tanh(x / cap));
    }
    if (host->log->enabled(host->ctx, "dispatch", 2)) {
        (void)snprintf(text, sizeof text, "llm_softcap: the library's kernel, %lld elements",
                       (long long)n);
        host->log->write(host->ctx, "dispatch", 2, text);
    }
    return STATOR_OK;
}

/* ---- llm_rotate_half ---- */

static stator_status infer_rotate(void *self, stator_builder *b, const stator_node_desc *node,
                                  stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    const stator_graph_view *v = host->build->view(b);
    const stator_type_row *type = operand_type(v, node);
    (void)n_types;
    if (type->rank == 0) {
        return stator_fail(host, err, STATOR_INVALID_ARGUMENT,
                           "llm_rotate_half: x must have an axis");
    }
    /* Sizes may be symbolic: only an odd size that is proved is refused here. */
    const stator_ref size = stator_dim_at(v, type, type->rank - 1);
    const stator_ref rest =
        host->types->sym_op(b, STATOR_SYM_MOD, size, host->types->sym_int(b, 2));
    if (host->types->sym_compare(b, STATOR_SYM_EQ, rest, host->types->sym_int(b, 1)) == 1) {
        return stator_fail(host, err, STATOR_INVALID_ARGUMENT,
                           "llm_rotate_half: the last axis of x must have an even size");
    }
    out_types[0] = stator_value_at(v, node->operands[0])->type;
    return STATOR_OK;
}

static stator_status decompose_rotate(void *self, stator_builder *b, const stator_node_desc *node,
                                      stator_ref *out_results, stator_diag **err)
{
    stator_emitter e = stator_emitter_of(self, b, err);
    const stator_ref x = node->operands[0];
    const uint32_t last = stator_emit_rank(&e, x) - 1;
    const stator_ref size = stator_emit_dim(&e, x, last);
    const stator_ref half = stator_emit_sym_int(&e, STATOR_SYM_FLOORDIV, size, 2);
    const stator_ref rest = stator_emit_sym(&e, STATOR_SYM_SUB, size, half);
    const stator_ref upper = stator_emit_slice(&e, x, last, half, rest, 1);
    const stator_ref turned = stator_emit_unary(&e, "neg", upper);
    const stator_ref lower = stator_emit_slice(&e, x, last, stator_emit_size(&e, 0), half, 1);
    out_results[0] = stator_emit_concat(&e, -1, STATOR_IN(turned, lower));
    return e.status;
}

/* ---- the plugin ---- */

static const stator_attr_desc softcap_attrs[] = {
    {.name = "cap", .kind = STATOR_ATTR_FLOAT, .f = 50},
};

static const stator_oplib_op ops[] = {
    {.desc = {.struct_size = sizeof(stator_op_desc),
              .version = 1,
              .name = "llm_softcap",
              .operands = "x",
              .results = "y",
              .doc = "cap * tanh(x / cap): logit soft-capping (Gemma 2, 2024)",
              .body = "cap * tanh(x / cap)",
              .attrs = softcap_attrs,
              .attr_count = 1,
              .flags = STATOR_OP_POINTWISE},
     .infer = infer_softcap,
     .kernel = run_softcap},
    {.desc = {.struct_size = sizeof(stator_op_desc),
              .version = 1,
              .name = "llm_rotate_half",
              .operands = "x",
              .results = "y",
              .doc = "concat(-x[..., n/2:], x[..., :n/2]) (Su et al., 2021)"},
     .infer = infer_rotate,
     .decompose = decompose_rotate},
};

static const stator_oplib library = {
    .item = STATOR_ITEM(stator_oplib, STATOR_KIND_OPLIB, "llm_ops", ABOUT),
    .ops = ops,
    .op_count = sizeof ops / sizeof ops[0],
    .op_stride = sizeof(stator_oplib_op),
};

static const stator_item *const items[] = {&library.item};

STATOR_PLUGIN("llm_ops", VERSION, "Stator examples", "[\"oplib\"]",
              ",\"description\":\"" ABOUT "\"", items, stator_init_host, NULL);
