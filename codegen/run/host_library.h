/* Codegen's own library: ops that are no loops, in C, for emitters whose buffers this process reads
 * (ST_EMITTER_HOST).
 *
 * A node of such an op (CG_HOST in lower.def) is a step of the launch plan like a call of the
 * emitter's library: in the compile cache, in scans, with views as strides. Contraction ORDER:
 * sort and topk (core/base/order/order.h). */
#ifndef STATOR_CODEGEN_HOST_LIBRARY_H
#define STATOR_CODEGEN_HOST_LIBRARY_H

#include "codegen/codegen.h"

/* Fills the library; the configuration outlives it and its ops. */
void st_host_library_init(st_library *library, const st_cg_config *config);

#endif
