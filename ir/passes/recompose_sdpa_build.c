/* Writing the attention that recompose_sdpa.c found: moves of q, k and v, the mask, sdpa itself
 * and, for three axes, the way back. A mask that only selects stays bool; others are added up. As
 * it was written out, an element that is not finite made NaN: sdpa need not ask for those. */
#include "ir/passes/recompose.h"
#include <math.h>

static stator_ref build_step(stator_emitter *e, const st_rc_step *step, stator_ref value)
{
    return step->rank == 0      ? value
           : step->is_transpose ? stator_emit_transpose(e, value, step->rank, step->perm)
                                : stator_emit_reshape(e, value, step->rank, step->dims);
}

static stator_ref build_moved(stator_emitter *e, const st_rc_moved *x, const stator_ref *map)
{
    stator_ref value = map[x->value];
    for (uint32_t i = 0; i < 3; i++) {
        value = build_step(e, &x->steps[i], value);
    }
    return value;
}

/* A bool mask as numbers to add, in the dtype of q. */
static stator_ref as_added(stator_emitter *e, const st_rc_mask *mask, stator_ref q,
                           stator_ref value)
{
    return stator_emit_expr(
        e,
        mask->kind == ST_MASK_TRUE    ? "select(m, scalar(0, q), scalar(fill, q))"
        : mask->kind == ST_MASK_FALSE ? "select(m, scalar(fill, q), scalar(0, q))"
                                      : "cast(m, q)",
        "m, q", STATOR_IN(value, q), STATOR_AT(STATOR_A_FLOAT("fill", mask->fill)));
}

/* One bool mask that fills with -inf is sdpa's own; anything else is added up. */
static stator_ref build_mask(const st_rc_attention *a, stator_emitter *e, const stator_ref *map,
                             stator_ref q)
{
    const st_rc_mask *only = &a->masks[0];
    stator_ref sum = 0;
    if (a->n_masks == 1 && only->kind != ST_MASK_ADDED && isinf(only->fill)) {
        const stator_ref mask = build_moved(e, &only->at, map);
        return only->kind == ST_MASK_TRUE ? mask : stator_emit_unary(e, "bit_not", mask);
    }
    for (uint32_t i = 0; i < a->n_masks; i++) {
        const stator_ref mask = as_added(e, &a->masks[i], q, build_moved(e, &a->masks[i].at, map));
        sum = i != 0 ? stator_emit_binary(e, "add", mask, sum) : mask;
    }
    return sum;
}

stator_ref st_rc_build_sdpa(const st_rc_attention *a, stator_emitter *e, const stator_ref *map,
                            stator_ref *out_node)
{
    stator_ref operands[4] = {0};
    operands[0] = build_moved(e, &a->q, map);
    operands[1] = build_moved(e, &a->k, map);
    operands[2] = build_moved(e, &a->v, map);
    operands[3] = build_mask(a, e, map, operands[0]);
    const stator_ref made =
        stator_emit_op(e, "sdpa", a->n_masks != 0 ? 4 : 3, operands,
                       STATOR_AT(STATOR_A_FLOAT("scale", a->scale), STATOR_A_INT("finite", 1)));
    *out_node = made ? stator_value_at(st_graph_view(e->b->graph), made)->node : 0;
    return build_step(e, &a->result, made);
}
