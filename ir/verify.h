/* The verifier: every ref in range, topological order, schema respected, result types equal to what
 * the infer rules give (up to provable equality), captures explicit, outputs present. */
#ifndef STATOR_IR_VERIFY_H
#define STATOR_IR_VERIFY_H

#include "ir/graph.h"

stator_status st_verify(const stator_graph *graph, stator_diag **err);

#endif
