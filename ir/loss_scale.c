/* Scaling of a loss; see loss_scale.h. The scale's new values are those of PyTorch's
 * _amp_update_scale_, where one that would be infinite stays as it is, but none is below the
 * smallest normal f32: PyTorch's sinks to 0, and 0 stands for init_scale here. */
#include "ir/loss_scale.h"

void st_loss_scale_begin(stator_emitter *e, const st_optim_values *values, st_loss_scale *s)
{
    s->now = stator_emit_expr(e, "select(scale == 0, init_scale, scale)", "scale",
                              STATOR_IN(s->scale), values->count, values->attrs);
}

stator_ref st_loss_scale_remove(stator_emitter *e, const st_loss_scale *s, stator_ref gradient)
{
    return stator_emit_expr(e, "w = wide(g); w * cast(1 / scale, w)", "g, scale",
                            STATOR_IN(gradient, s->now), STATOR_NONE);
}

void st_loss_scale_judge(stator_emitter *e, st_loss_scale *s, const stator_ref *gradients,
                         uint32_t n)
{
    s->is_finite = 0;
    for (uint32_t k = 0; k < n; k++) {
        const stator_ref one =
            stator_emit_expr(e, "reduce_min(is_finite(g), axes=range(0, rank(g)))", "g",
                             STATOR_IN(gradients[k]), STATOR_NONE);
        s->is_finite =
            s->is_finite == 0 ? one : stator_emit_binary(e, "bit_and", s->is_finite, one);
    }
}

stator_ref st_loss_scale_keep(stator_emitter *e, const st_loss_scale *s, stator_ref before,
                              stator_ref after)
{
    return stator_emit_op(e, "select", STATOR_IN(s->is_finite, after, before), STATOR_NONE);
}

void st_loss_scale_update(stator_emitter *e, const st_optim_values *values, const st_loss_scale *s)
{
    const stator_ref growth = stator_emit_expr(
        e, "n = growth + 1; select(bit_and(fine, n < growth_interval), n, 0)", "fine, growth",
        STATOR_IN(s->is_finite, s->growth), values->count, values->attrs);
    const stator_ref scale =
        stator_emit_expr(e,
                         "grown = now * growth_factor; up = select(is_finite(grown), grown, now); "
                         "down = max(now * backoff_factor, " ST_F32_MIN "); "
                         "select(fine, select(growth + 1 >= growth_interval, up, now), down)",
                         "fine, growth, now", STATOR_IN(s->is_finite, s->growth, s->now),
                         values->count, values->attrs);
    stator_emit_write_back(e, s->scale, scale);
    stator_emit_write_back(e, s->growth, growth);
}
