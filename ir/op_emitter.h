/* The emitter of stator/emit.h inside ir, for decompositions, gradients and passes: the same inline
 * calls over the same tables that a plugin's host has. */
#ifndef STATOR_IR_OP_EMITTER_H
#define STATOR_IR_OP_EMITTER_H

#include "ir/infer.h"
#include <stator/emit.h>

static inline stator_emitter st_op_emitter(stator_builder *b, stator_diag **err)
{
    const stator_emitter e = {&st_build_api, &st_types_api, &st_diag_api, b, err, STATOR_OK, 0};
    return e;
}

#endif
