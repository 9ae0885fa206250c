/* Composites that a fallback has no kernel for. */
#ifndef STATOR_COMPILE_LOWER_REFUSED_H
#define STATOR_COMPILE_LOWER_REFUSED_H

#include "core/context/nested.h"
#include "ir/graph.h"

/* Decomposes the composites of `graph`, and of its regions, that the backend refuses, until it runs
 * all of them or none of what is left can be taken apart. *out_graph is `graph` itself where it
 * refuses none, else a graph of the same module with the same inputs and outputs. */
stator_status st_lower_refused(stator_instance *backend, stator_graph *graph,
                               stator_graph **out_graph, stator_diag **err);

#endif
