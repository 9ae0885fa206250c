/* The verifier: every ref in range, topological order, schema respected, result types equal to what
 * the infer rules give (up to provable equality), captures explicit, outputs present. */
#ifndef STATOR_IR_VERIFY_H
#define STATOR_IR_VERIFY_H

#include "ir/graph.h"

stator_status st_verify(const stator_graph *graph, stator_diag **err);
/* Does a call see the same graph behind a pass as before it? Both are graphs of one module.
 * INTERNAL with "it removes the input 'x'" and the like: an input or output more, less, of
 * another name or type, or another number of written inputs (signature.c). */
stator_status st_verify_signature(const stator_graph *before, const stator_graph *after,
                                  stator_diag **err);

#endif
