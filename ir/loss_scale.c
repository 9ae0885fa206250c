/* Scaling of a loss; see loss_scale.h. The scale's new values are those of PyTorch's
 * _amp_update_scale_: one that would be infinite stays as it is. */
#include "ir/loss_scale.h"

#include "core/base/check.h"

#include <math.h>

stator_status st_loss_scale_check(st_optim_values *values, stator_diag **err)
{
    const double init = st_optim_value(values, "init_scale")->f;
    const double growth = st_optim_value(values, "growth_factor")->f;
    const double backoff = st_optim_value(values, "backoff_factor")->f;
    const int64_t interval = st_optim_value(values, "growth_interval")->i;
    ST_FAIL_IF(!(init > 0 && isfinite((float)init)), err, STATOR_INVALID_ARGUMENT,
               "option init_scale is %g, expected more than 0 and a finite f32", init);
    ST_FAIL_IF(!(growth > 1 && isfinite(growth)), err, STATOR_INVALID_ARGUMENT,
               "option growth_factor is %g, expected more than 1", growth);
    ST_FAIL_IF(!(backoff > 0 && backoff < 1), err, STATOR_INVALID_ARGUMENT,
               "option backoff_factor is %g, expected more than 0 and less than 1", backoff);
    ST_FAIL_IF(interval < 1, err, STATOR_INVALID_ARGUMENT,
               "option growth_interval is %lld, expected at least 1", (long long)interval);
    return STATOR_OK;
}

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
    const stator_ref scale = stator_emit_expr(
        e,
        "grown = now * growth_factor; up = select(is_finite(grown), grown, now); "
        "select(fine, select(growth + 1 >= growth_interval, up, now), now * backoff_factor)",
        "fine, growth, now", STATOR_IN(s->is_finite, s->growth, s->now), values->count,
        values->attrs);
    stator_emit_write_back(e, s->scale, scale);
    stator_emit_write_back(e, s->growth, growth);
}
