/* stator_x_profile_*: the context's record of steps, for who looks from outside. */
#include "core/context/ctx.h"

#include <stator/inspect.h>

void stator_x_profile_start(stator_ctx *ctx)
{
    st_profile_start(&ctx->profile);
}

stator_status stator_x_profile_stop(stator_ctx *ctx, stator_x_profile_fn fn, void *self)
{
    st_profile *p = &ctx->profile;
    stator_diag *diag = NULL;
    st_profile_stop(p);
    for (uint32_t i = 0; i < p->events.count; i++) {
        const st_profile_event *event = &p->events.data[i];
        const stator_x_profile_row row = {.struct_size = sizeof row,
                                          .name = p->names.data[event->name].text,
                                          .begin_ns = event->begin_ns,
                                          .end_ns = event->end_ns};
        fn(self, &row);
    }
    const stator_status status =
        p->is_cut ? st_fail(&diag, STATOR_RESOURCE_EXHAUSTED,
                            "the profile has no room for all steps: only the first %u are reported",
                            p->events.count)
                  : STATOR_OK;
    st_profile_forget(p);
    return st_ctx_fail(ctx, status, diag);
}
