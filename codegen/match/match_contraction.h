/* The room of contractions: which kernels are a product, a convolution or attention that a library
 * does better than loops.
 *
 * The loop IR of a kernel is compared with the forms of codegen/target/library.h: its skeleton
 * (match_contraction.c), what follows the sum (match_epilogue.c), and weights of few bits
 * (match_weights.c). quantized_values.c looks at the graph instead: which values stand for
 * bytes. */
#ifndef STATOR_CODEGEN_MATCH_CONTRACTION_H
#define STATOR_CODEGEN_MATCH_CONTRACTION_H

#include "codegen/lower/unit.h"

/* Is there a library for whole nodes of the lowering: fixed kernels or the host library for ops of
 * theirs, else the emitter's? */
bool cg_has_library(const st_cg_config *config, const cg_lowering *lowering);

/* Is the root one that a library is asked about: a sum of products, or a node of its own loops? */
bool cg_may_be_library(const cg_unit *unit, const cg_root *root);

/* Is the group's kernel a contraction that the emitter's library takes (*out_is_taken)? Fills the
 * contraction; its buffers are numbered as kernel->buffers. Matching may merge the kernel's axes.
 * RESOURCE_EXHAUSTED: memory ran out, and nothing is known. */
stator_status cg_match(cg_unit *unit, uint32_t group, st_kernel *kernel, st_contraction *out,
                       bool *out_is_taken, stator_diag **err);

/* Would the library take it, or, where it leaves sums of integers alone, what a consumer that
 * makes f32 of them may make of it? */
stator_status cg_may_match(cg_unit *unit, uint32_t group, st_kernel *kernel, bool *out_is_taken,
                           stator_diag **err);

#endif
