/* What joint models and their parts share: see stator/train.h. */
#ifndef STATOR_HOST_JOINT_H
#define STATOR_HOST_JOINT_H

#include "ir/graph.h"

/* Finishes the builder as the root of its module, without the nodes that nothing needs and as if it
 * had been imported: its values are their own witnesses. Ends the builder also on failure.
 * INVALID_ARGUMENT: a size is read that no input tells. */
stator_status st_joint_finish(stator_builder *b, stator_diag **err);

#endif
