/* Are the sizes of a program told by what a call gives? */
#ifndef STATOR_IR_TOLD_H
#define STATOR_IR_TOLD_H

#include "ir/graph.h"

/* INVALID_ARGUMENT when an input or an attribute of the verified graph, or of a region in it, reads
 * a size that no call can tell; the text names symbol and reader. For whole programs: a part of one
 * gets sizes that other parts know. */
stator_status st_check_told(const stator_graph *root, stator_diag **err);

#endif
