/* Op calls of expression programs: arguments become operands and attributes of one node.
 *
 * In: a call node and its evaluated arguments. Out: the node's results as a tensor or a tuple.
 * Tuples are spread, numbers adopt a dtype, lists of sizes become tensors; an infer rule's refusal
 * is told with the place in the program. */
#include "core/base/str.h"
#include "ir/expr/expr_eval.h"

#include <stator/ops.h>
#include <string.h>

#define OPERANDS_MAX 256u

/* The dtype that literals among the operands adopt: that of the first tensor (of select: of its
 * values, since its first operand is a condition). */
static stator_dtype literal_dtype(const st_xeval *e, uint32_t op, const st_xvalue *operands,
                                  uint32_t n)
{
    for (uint32_t i = op == STATOR_OPCODE_select; i < n; i++) {
        if (operands[i].kind == ST_X_TENSOR && operands[i].ref != 0) {
            return st_xtype(e, operands[i].ref)->dtype;
        }
    }
    return STATOR_DTYPE_NONE;
}

/* The positional arguments, tuples spread. */
static stator_status spread(const st_xeval *e, const st_expr_node *node, const st_xvalue *args,
                            st_xvalue *out, uint32_t *out_n)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_kids && node->keys[i] == NULL; i++) {
        const uint32_t count = args[i].kind == ST_X_TUPLE ? args[i].n : 1u;
        const st_xvalue *items = args[i].kind == ST_X_TUPLE ? args[i].items : &args[i];
        ST_XFAIL_IF(count > OPERANDS_MAX - n, e, node, "more than %u operands", OPERANDS_MAX);
        memcpy(out + n, items, count * sizeof *out);
        n += count;
    }
    *out_n = n;
    return STATOR_OK;
}

static const stator_attr_desc *schema_of(const st_op *op, const char *name)
{
    for (uint32_t a = 0; a < op->desc.attr_count; a++) {
        if (strcmp(op->desc.attrs[a].name, name) == 0) {
            return &op->desc.attrs[a];
        }
    }
    return NULL;
}

static stator_status read_attrs(st_xeval *e, const st_expr_node *node, const st_op *op,
                                const st_xvalue *args, stator_attr *out, uint32_t *out_n)
{
    *out_n = 0;
    for (uint32_t i = 0; i < node->n_kids; i++) {
        if (node->keys[i] == NULL || args[i].kind == ST_X_NONE) {
            continue;
        }
        const stator_attr_desc *schema = schema_of(op, node->keys[i]);
        ST_XFAIL_IF(schema == NULL, e, node->kids[i], "op %s has no attribute '%s'", op->desc.name,
                    node->keys[i]);
        ST_XFAIL_IF(*out_n == 32, e, node, "more than 32 attributes");
        ST_TRY(st_xto_attr(e, node->kids[i], &args[i], schema, &out[(*out_n)++]));
    }
    return STATOR_OK;
}

/* How many results to ask for: at least those that are not optional. */
static stator_status result_count(const st_xeval *e, const st_expr_node *node, const st_op *op,
                                  uint32_t want, uint32_t *out)
{
    uint32_t least = 0, most = 0;
    st_name_counts(op->desc.results, &least, &most);
    *out = want > least ? want : least;
    ST_XFAIL_IF(*out > most, e, node, "op %s gives at most %u results, %u wanted", op->desc.name,
                most, want);
    return STATOR_OK;
}

static stator_status pack_results(st_xeval *e, const stator_ref *results, uint32_t n,
                                  st_xvalue *out)
{
    *out = st_xtensor(results[0]);
    if (n == 1) {
        return STATOR_OK;
    }
    st_xvalue *items = st_xitems(e, n);
    ST_TRY_MEM(items, e->err);
    for (uint32_t i = 0; i < n; i++) {
        items[i] = st_xtensor(results[i]);
    }
    *out = (st_xvalue){.kind = ST_X_TUPLE, .items = items, .n = n};
    return STATOR_OK;
}

static stator_status find_op(const st_xeval *e, const st_expr_node *node, uint32_t *out)
{
    const char *candidates[512];
    const st_optable *ops = e->b->module->ops;
    *out = st_optable_find(ops, node->text);
    if (*out != 0 && st_optable_at(ops, *out)->desc.region_count == 0) {
        return STATOR_OK;
    }
    ST_XFAIL_IF(*out != 0, e, node, "op %s has regions, which programs cannot write", node->text);
    uint32_t n = 0;
    for (uint32_t i = 1; i <= st_optable_count(ops) && n < 400; i++) {
        candidates[n++] = st_optable_at(ops, i)->desc.name;
    }
    for (uint32_t i = 0; st_xhelper_name(i) != NULL && n < 512; i++) {
        candidates[n++] = st_xhelper_name(i);
    }
    const char *near = st_nearest(node->text, candidates, n);
    return near ? st_xfail(e, node, "no op or function is named '%s'; did you mean '%s'?",
                           node->text, near)
                : st_xfail(e, node, "no op or function is named '%s'", node->text);
}

/* Puts the place in the program before an infer rule's text. */
static stator_status located(const st_xeval *e, const st_expr_node *node, stator_status status)
{
    if (status != STATOR_OK && e->err != NULL && *e->err != NULL) {
        st_diag_prefix(*e->err, "expression `%.80s%s`, column %u", e->in->program,
                       strlen(e->in->program) > 80 ? "..." : "", node->column + 1u);
    }
    return status;
}

stator_status st_xcall_op(st_xeval *e, const st_expr_node *node, const st_xvalue *args,
                          uint32_t want, st_xvalue *out)
{
    uint32_t id = 0, n = 0, n_attrs = 0, n_results = 0;
    stator_attr attrs[32];
    stator_ref results[OPERANDS_MAX] = {0};
    ST_TRY(find_op(e, node, &id));
    const st_op *op = st_optable_at(e->b->module->ops, id);
    st_xvalue *operands = st_xitems(e, OPERANDS_MAX);
    stator_ref *refs = st_arena_zalloc(&e->arena, OPERANDS_MAX, sizeof *refs);
    ST_TRY_MEM(operands && refs, e->err);
    ST_TRY(spread(e, node, args, operands, &n));
    const stator_dtype dtype = literal_dtype(e, id, operands, n);
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(st_xto_tensor(e, node, &operands[i], dtype, true, &refs[i]));
    }
    ST_TRY(read_attrs(e, node, op, args, attrs, &n_attrs));
    ST_TRY(result_count(e, node, op, want, &n_results));
    ST_TRY(located(
        e, node,
        st_build_op(e->b, node->text, n, refs, n_attrs, attrs, n_results, results, e->err)));
    return pack_results(e, results, n_results, out);
}
