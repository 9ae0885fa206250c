/* Parameters become constants.
 *
 *     graph(x, w: param)      ->    graph(x)
 *     y = mul(x, w)                 w' = constant{value = default of w}
 *                                   y = mul(x, w')
 *
 * Before: PARAM inputs carry a default blob. After: those that nothing writes are constant nodes
 * sharing the blob; the other inputs keep their order. Runs only when the context says freeze. */
#include "ir/passes/pass_copy.h"

/* Marks inputs whose buffer the graph writes: they cannot be constants. */
static void mark_written(const st_copy *c, uint8_t *written)
{
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        written[i] = (stator_value_at(c->v, i)->flags & STATOR_VALUE_WRITTEN) != 0;
    }
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(c->v, node);
        const stator_ref target = stator_operand(c->v, row, 0);
        if ((st_copy_op(c, node)->flags & STATOR_OP_WRITES) != 0 && target <= c->v->n_inputs) {
            written[target] = 1;
        }
    }
}

static bool is_frozen(const st_copy *c, const uint8_t *written, stator_ref input)
{
    return (stator_value_at(c->v, input)->flags & STATOR_VALUE_PARAM) != 0 && !written[input] &&
           st_pass_may(c->ctx, STATOR_FUEL_REWRITE, "freeze", input);
}

static void freeze_inputs(st_copy *c, const uint8_t *written)
{
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        if (!is_frozen(c, written, i)) {
            ST_THEN(c->e.status, st_build_clone_input(c->out, c->in, i, c->map, c->e.err));
        }
    }
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        if (c->map[i] == 0) {
            const stator_value_row *row = stator_value_at(c->v, i);
            stator_ref value = 0;
            ST_THEN(c->e.status,
                    st_build_constant_blob(c->out, row->type, st_graph_blob_at(c->in, row->blob),
                                           &value, c->e.err));
            st_copy_replace(c, i, value);
        }
    }
}

void st_pass_freeze(st_copy *c)
{
    uint8_t *written = c->ctx->freeze ? st_copy_zalloc(c, c->v->n_inputs, 1) : NULL;
    if (written == NULL) {
        return;
    }
    mark_written(c, written);
    freeze_inputs(c, written);
    for (stator_ref node = 1; st_copy_is_ok(c) && node <= c->v->n_nodes; node++) {
        st_copy_node(c, node);
    }
    st_copy_end(c);
}
