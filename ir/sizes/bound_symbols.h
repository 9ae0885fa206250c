/* Checks that a call binds every symbol of a program. */
#ifndef STATOR_IR_BOUND_SYMBOLS_H
#define STATOR_IR_BOUND_SYMBOLS_H

#include "ir/graph.h"

/* INVALID_ARGUMENT when an input or an attribute of the verified graph, or of a region in it, reads
 * a size that no call can bind; the text names symbol and reader. For whole programs: a part of one
 * gets sizes that other parts know. */
stator_status st_check_symbols_bound(const stator_graph *root, stator_diag **err);

#endif
