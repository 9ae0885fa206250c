/* The scale of a loss whose gradients are computed in f16: large enough that small ones are not
 * lost, halved (backoff_factor) by a step whose gradients are not all finite, which changes nothing
 * else, and doubled (growth_factor) after growth_interval steps without one. This is
 * torch.amp.GradScaler in a graph; the options are those of row `f16` in ir/optim.def. */
#ifndef STATOR_IR_LOSS_SCALE_H
#define STATOR_IR_LOSS_SCALE_H

#include "ir/optim.h"
#include <stator/emit.h>

typedef struct st_loss_scale {
    stator_ref scale;     /* input, an f32 scalar; 0: init_scale */
    stator_ref growth;    /* input, an i64 scalar: steps since the scale changed */
    stator_ref now;       /* the scale of this step, from begin on */
    stator_ref is_finite; /* a bool scalar: all gradients are, from judge on */
} st_loss_scale;

/* Both inputs are there. */
void st_loss_scale_begin(stator_emitter *e, const st_optim_values *values, st_loss_scale *s);
/* The gradient of the loss itself, in f32 or wider. */
stator_ref st_loss_scale_remove(stator_emitter *e, const st_loss_scale *s, stator_ref gradient);
void st_loss_scale_judge(stator_emitter *e, st_loss_scale *s, const stator_ref *gradients,
                         uint32_t n);
/* `after`, or `before` in a step that is skipped; they have one type. */
stator_ref st_loss_scale_keep(stator_emitter *e, const st_loss_scale *s, stator_ref before,
                              stator_ref after);
/* Writes both inputs back. */
void st_loss_scale_update(stator_emitter *e, const st_optim_values *values, const st_loss_scale *s);

#endif
