/* What training steps are made of, and what the inputs of one are for; see stator/train.h. */
#include "core/base/sized.h"
#include "core/host/model.h"
#include "ir/optim.h"
#include <stator/train.h>

_Static_assert((int)STATOR_TRAIN_LOSS == (int)ST_OPTIM_LOSS &&
                   (int)STATOR_TRAIN_STEP == (int)ST_OPTIM_STEP &&
                   (int)STATOR_TRAIN_OPTIMIZER == (int)ST_OPTIM_OPTIMIZER &&
                   (int)STATOR_TRAIN_SCHEDULE == (int)ST_OPTIM_SCHEDULE,
               "kinds of the table are those of the API");

stator_status stator_train_item_info(stator_ctx *ctx, uint32_t index, stator_train_item *out_item)
{
    const st_optim_row *row = st_optim_at(index);
    if (row == NULL) {
        return STATOR_OUT_OF_RANGE;
    }
    const stator_train_item item = {.struct_size = sizeof item,
                                    .kind = row->kind,
                                    .name = row->name,
                                    .options = row->options != NULL ? row->options : "",
                                    .state = row->state != NULL ? row->state : "",
                                    .doc = row->doc,
                                    .ranges = row->ranges != NULL ? row->ranges : ""};
    return ST_CTX_WRITE(ctx, stator_train_item, out_item, &item);
}

stator_status stator_train_input_role(const stator_model *step, uint32_t index, uint32_t *out_role)
{
    stator_diag *diag = NULL;
    const stator_graph *graph = NULL;
    stator_ref value = 0;
    *out_role = STATOR_ROLE_DATA;
    stator_status status = st_model_need_graph(step, &graph, &diag);
    if (status == STATOR_OK && step->roles == NULL) {
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT,
                         "the model is no step that stator_model_train_step has made");
    }
    if (status == STATOR_OK) {
        value = st_model_call_input(graph, index);
        status = value != 0
                     ? STATOR_OK
                     : st_fail(&diag, STATOR_OUT_OF_RANGE, "the step has no input %u", index);
    }
    *out_role = status == STATOR_OK ? step->roles[value] : STATOR_ROLE_DATA;
    return st_ctx_fail(step->ctx, status, diag);
}
