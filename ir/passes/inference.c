/* Nodes that compute otherwise where a model is trained compute as they do where it is used.
 *
 *     y, m, v = batch_norm_train(x, w, b, mean, var)    ->    y = batch_norm(x, w, b, mean, var)
 *
 * In: any graph. Out: each node whose row of the op table names a counterpart (.inference) is that
 * one, on its first operands and with the attributes of the same names. What would become of
 * running statistics (result new_NAME of operand NAME) is what they are. Such a node asks fuel
 * (REWRITE, "inference"). What drops out at random is spelled out in a graph and stays. */
#include "core/base/check.h"
#include "ir/builder.h"
#include "ir/passes/pass_copy.h"

#include <string.h>

typedef struct switcher {
    st_copy *c;
    st_arena attrs; /* of the node in hand */
} switcher;

/* The operand of this name, in `out`; 0: there is none. */
static stator_ref operand_named(const st_copy *c, const stator_node_row *row, const st_op_def *def,
                                const char *name, uint32_t n)
{
    const uint32_t k = st_list_place(def->operands, name, n);
    return k < row->operand_count ? c->map[stator_operand(c->v, row, k)] : 0;
}

static stator_status read_attrs(switcher *s, const stator_node_row *row,
                                const stator_op_desc *counterpart, stator_attr *attrs,
                                uint32_t *out_count, stator_diag **err)
{
    const st_copy *c = s->c;
    const stator_op_desc *op = stator_op_at(c->v, row->op);
    *out_count = 0;
    st_arena_reset(&s->attrs);
    for (uint32_t k = 0; k < row->attr_count; k++) {
        bool is_known = false;
        const stator_attr_row *attr = stator_attr_at(c->v, row, k);
        for (uint32_t i = 0; i < counterpart->attr_count; i++) {
            is_known |= strcmp(counterpart->attrs[i].name, op->attrs[k].name) == 0;
        }
        if (is_known && attr->kind != STATOR_ATTR_NONE) {
            ST_TRY(st_attr_from_row(c->v, c->in->module, &s->attrs, op->attrs[k].name, attr,
                                    &attrs[(*out_count)++], err));
        }
    }
    return STATOR_OK;
}

/* The counterpart's only result. */
static stator_ref build(switcher *s, const stator_node_row *row, const char *name)
{
    st_copy *c = s->c;
    const st_optable *ops = c->in->module->ops;
    const stator_op_desc *counterpart = &st_optable_at(ops, st_optable_find(ops, name))->desc;
    stator_attr attrs[ST_ATTRS_MAX];
    uint32_t n_attrs = 0;
    const uint32_t n = counterpart->operand_max;
    stator_ref *operands = st_copy_zalloc(c, n, sizeof *operands);
    for (uint32_t k = 0; st_copy_is_ok(c) && k < n; k++) {
        operands[k] = c->map[stator_operand(c->v, row, k)];
    }
    ST_THEN(c->e.status, read_attrs(s, row, counterpart, attrs, &n_attrs, c->e.err));
    st_build_set_origin_ref(c->out, row->origin);
    const stator_ref y = stator_emit_op(&c->e, name, n, operands, n_attrs, attrs);
    st_build_set_origin_ref(c->out, 0);
    return y;
}

static void visit(void *self, stator_ref node)
{
    switcher *s = self;
    st_copy *c = s->c;
    const stator_node_row *row = stator_node_at(c->v, node);
    const st_op_def *def = st_optable_at(c->in->module->ops, row->op)->def;
    if (def == NULL || def->inference == NULL ||
        !st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "inference", node)) {
        st_copy_node(c, node);
        return;
    }
    const stator_ref y = build(s, row, def->inference);
    if (!st_copy_is_ok(c)) {
        return;
    }
    st_copy_replace(c, row->result_begin, y);
    for (uint32_t k = 1; k < row->result_count; k++) {
        uint32_t len = 0;
        char mark = 0;
        const char *name = st_list_name(def->results, k, &len, &mark); /* new_NAME */
        c->map[row->result_begin + k] = operand_named(c, row, def, name + 4, len - 4u);
    }
    c->changed = 1;
}

void st_pass_inference(st_copy *c)
{
    switcher s = {.c = c};
    st_arena_init(&s.attrs, c->ctx->mem);
    st_copy_nodes(c, visit, &s);
    st_arena_deinit(&s.attrs);
}
