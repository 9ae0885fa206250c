/* Writing the attention that recompose_sdpa.c found: moves of q, k and v, the mask, sdpa itself
 * and, for three axes, the way back. A mask that only selects stays bool; others are added up. */
#include "ir/passes/recompose.h"
#include <math.h>

static stator_status build_step(stator_builder *b, const st_rc_step *step, stator_ref *value,
                                stator_diag **err)
{
    if (step->rank == 0) {
        return STATOR_OK;
    }
    const stator_attr perm = {
        .name = "perm", .kind = STATOR_ATTR_INTS, .count = step->rank, .list = step->perm};
    const stator_attr shape = {
        .name = "shape", .kind = STATOR_ATTR_DIMS, .count = step->rank, .list = step->dims};
    return step->is_transpose ? st_build_op(b, "transpose", 1, value, 1, &perm, 1, value, err)
                              : st_build_op(b, "reshape", 1, value, 1, &shape, 1, value, err);
}

static stator_status build_moved(stator_builder *b, const st_rc_moved *x, const stator_ref *map,
                                 stator_ref *out, stator_diag **err)
{
    *out = map[x->value];
    for (uint32_t i = 0; i < 3; i++) {
        ST_TRY(build_step(b, &x->steps[i], out, err));
    }
    return STATOR_OK;
}

/* A bool mask as numbers to add, in the dtype of q. */
static stator_status as_added(stator_builder *b, const st_rc_mask *mask, stator_ref q,
                              stator_ref *value, stator_diag **err)
{
    static const char *const names[] = {"m", "q"};
    const stator_ref operands[2] = {*value, q};
    const stator_attr fill = {.name = "fill", .kind = STATOR_ATTR_FLOAT, .f = mask->fill};
    return st_build_expr(b,
                         mask->kind == ST_MASK_TRUE    ? "select(m, scalar(0, q), scalar(fill, q))"
                         : mask->kind == ST_MASK_FALSE ? "select(m, scalar(fill, q), scalar(0, q))"
                                                       : "cast(m, q)",
                         2, names, operands, 1, &fill, 1, value, err);
}

/* One bool mask that fills with -inf is sdpa's own; anything else is added up. */
static stator_status build_mask(const st_rc_attention *a, stator_builder *b, const stator_ref *map,
                                stator_ref q, stator_ref *out, stator_diag **err)
{
    const st_rc_mask *only = &a->masks[0];
    *out = 0;
    if (a->n_masks == 1 && only->kind != ST_MASK_ADDED && isinf(only->fill)) {
        ST_TRY(build_moved(b, &only->at, map, out, err));
        return only->kind == ST_MASK_TRUE ? STATOR_OK
                                          : st_build_op(b, "bit_not", 1, out, 0, NULL, 1, out, err);
    }
    for (uint32_t i = 0; i < a->n_masks; i++) {
        stator_ref both[2] = {0, *out};
        ST_TRY(build_moved(b, &a->masks[i].at, map, &both[0], err));
        ST_TRY(as_added(b, &a->masks[i], q, &both[0], err));
        *out = both[0];
        if (i != 0) {
            ST_TRY(st_build_op(b, "add", 2, both, 0, NULL, 1, out, err));
        }
    }
    return STATOR_OK;
}

stator_status st_rc_build_sdpa(const st_rc_attention *a, stator_builder *b, const stator_ref *map,
                               stator_ref *out_node, stator_ref *out, stator_diag **err)
{
    stator_ref operands[4] = {0};
    ST_TRY(build_moved(b, &a->q, map, &operands[0], err));
    ST_TRY(build_moved(b, &a->k, map, &operands[1], err));
    ST_TRY(build_moved(b, &a->v, map, &operands[2], err));
    ST_TRY(build_mask(a, b, map, operands[0], &operands[3], err));
    const stator_attr scale = {.name = "scale", .kind = STATOR_ATTR_FLOAT, .f = a->scale};
    ST_TRY(st_build_op(b, "sdpa", a->n_masks != 0 ? 4 : 3, operands, 1, &scale, 1, out, err));
    *out_node = stator_value_at(st_graph_view(b->graph), *out)->node;
    return build_step(b, &a->result, out, err);
}
