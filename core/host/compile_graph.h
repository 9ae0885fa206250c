/* Compiling with the cache and the dump around it. */
#ifndef STATOR_HOST_COMPILE_GRAPH_H
#define STATOR_HOST_COMPILE_GRAPH_H

#include "core/compile/compile.h"

stator_status st_compile_graph(const st_compile_request *request, st_compiled **out_compiled,
                               stator_diag **err);

#endif
