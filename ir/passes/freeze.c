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

static stator_status freeze_inputs(st_copy *c, const uint8_t *written, stator_diag **err)
{
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        if (!is_frozen(c, written, i)) {
            ST_TRY(st_build_clone_input(c->out, c->in, i, c->map, err));
        }
    }
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        if (c->map[i] == 0) {
            const stator_value_row *row = stator_value_at(c->v, i);
            stator_ref value = 0;
            ST_TRY(st_build_constant_blob(c->out, row->type, st_graph_blob_at(c->in, row->blob),
                                          &value, err));
            st_copy_replace(c, i, value);
        }
    }
    return STATOR_OK;
}

stator_status st_pass_freeze(st_copy *c, stator_diag **err)
{
    if (!c->ctx->freeze) {
        return STATOR_OK;
    }
    uint8_t *written = st_arena_zalloc(&c->arena, (uint64_t)c->v->n_inputs + 1u, 1);
    ST_TRY_MEM(written, err);
    mark_written(c, written);
    ST_TRY(freeze_inputs(c, written, err));
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        ST_TRY(st_copy_node(c, node, err));
    }
    return st_copy_end(c, err);
}
