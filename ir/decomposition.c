/* Decomposing one node: through its row's C function, or its row's expression body.
 *
 * In: a composite with its operands already in the builder. Out: values that compute its results,
 * written with lower ops. A body sees operands and attributes by name; a variadic operand is a
 * tuple. Pointwise and reducing bodies are evaluated in f32 when their operands are narrower floats
 * (f16, bf16, f8) and the result is cast back once; other bodies say themselves where they widen.
 *
 *     gelu(x: bf16)  ->  cast(gelu_body(cast(x, f32)), bf16) */
#include "core/base/check.h"
#include "ir/expr/expr_eval.h"
#include "ir/infer.h"
#include <string.h>

#define NAMED_MAX 320u /* operands of a variadic op, and 64 more */

typedef struct body_names {
    char text[NAMED_MAX / 8u][32]; /* one a name of the row */
    const char *names[NAMED_MAX];
    stator_ref values[NAMED_MAX];
    uint32_t n;
} body_names;

static bool is_narrow(const stator_builder *b, stator_ref value)
{
    const stator_type_row *type = stator_value_type(st_graph_view(b->graph), value);
    return st_dtype_class(type->dtype) == STATOR_CLASS_FLOAT && st_dtype_bits(type->dtype) < 32u;
}

static stator_status cast_value(stator_builder *b, stator_ref *value, stator_dtype dtype,
                                stator_diag **err)
{
    const stator_attr attr = {.name = "dtype", .kind = STATOR_ATTR_DTYPE, .i = dtype};
    return st_build_op(b, "cast", 1, value, 1, &attr, 1, value, err);
}

/* Names of the row's operands with their values; what is absent has value 0. */
static stator_status bind_names(const st_decompose_node *node, body_names *out, stator_diag **err)
{
    const char *p = node->op->desc.operands;
    uint32_t n_texts = 0, operand = 0;
    out->n = 0;
    while (*p != '\0') {
        p += strspn(p, " ,");
        const size_t len = strcspn(p, " ,?*");
        if (len == 0 || len >= 32u || n_texts == NAMED_MAX / 8u) {
            break;
        }
        char *text = out->text[n_texts++];
        memcpy(text, p, len);
        text[len] = '\0';
        const bool many = p[len] == '*';
        p += len + strspn(p + len, "?*");
        do {
            ST_FAIL_IF(out->n == NAMED_MAX, err, STATOR_UNIMPLEMENTED, "%s: more than %u operands",
                       node->op->desc.name, NAMED_MAX);
            out->names[out->n] = text;
            out->values[out->n++] = operand < node->n_operands ? node->operands[operand] : 0;
            operand++;
        } while (many && operand < node->n_operands);
    }
    return STATOR_OK;
}

/* The dtype of the first narrow float operand after widening all of them, or 0. */
static stator_status widen(stator_builder *b, body_names *names, stator_dtype *out_narrow,
                           stator_diag **err)
{
    *out_narrow = STATOR_DTYPE_NONE;
    for (uint32_t i = 0; i < names->n; i++) {
        if (names->values[i] == 0 || !is_narrow(b, names->values[i])) {
            continue;
        }
        const stator_graph_view *v = st_graph_view(b->graph);
        if (*out_narrow == STATOR_DTYPE_NONE) {
            *out_narrow = stator_value_type(v, names->values[i])->dtype;
        }
        ST_TRY(cast_value(b, &names->values[i], STATOR_F32, err));
    }
    return STATOR_OK;
}

static stator_status run_body(stator_builder *b, const st_decompose_node *node,
                              stator_ref *out_results, stator_diag **err)
{
    const uint64_t wide = STATOR_OP_POINTWISE | STATOR_OP_REDUCES;
    body_names names;
    stator_dtype narrow = STATOR_DTYPE_NONE;
    ST_TRY(bind_names(node, &names, err));
    if ((node->op->desc.flags & wide) != 0) {
        ST_TRY(widen(b, &names, &narrow, err));
    }
    const st_expr_inputs in = {.program = node->op->desc.body,
                               .n_names = names.n,
                               .names = names.names,
                               .values = names.values,
                               .n_attrs = node->n_attrs,
                               .attrs = node->attrs};
    ST_TRY(st_expr_run(b, &in, true, node->n_results ? node->n_results : 1u, out_results, err));
    if (narrow != STATOR_DTYPE_NONE) {
        return cast_value(b, &out_results[0], narrow, err);
    }
    return STATOR_OK;
}

stator_status st_decompose(stator_builder *b, const st_decompose_node *node,
                           stator_ref *out_results, stator_diag **err)
{
    stator_status status;
    if (node->op->decompose != NULL) {
        status = node->op->decompose(b, node, out_results, err);
    } else if (node->op->desc.body != NULL) {
        status = run_body(b, node, out_results, err);
    } else {
        return st_fail(err, STATOR_NOT_FOUND, "%s is a primitive, it has no decomposition",
                       node->op->desc.name);
    }
    if (status != STATOR_OK && err != NULL && *err != NULL) {
        st_diag_prefix(*err, "decomposing %s", node->op->desc.name);
    }
    return status;
}
