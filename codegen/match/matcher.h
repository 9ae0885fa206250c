/* A kernel that is compared with the contractions of a library: between match_contraction.c,
 * which finds the contraction, and match_epilogue.c, which reads what follows it. */
#ifndef STATOR_CODEGEN_MATCHER_H
#define STATOR_CODEGEN_MATCHER_H

#include "codegen/lower/unit.h"

#define CG_MATCH_AXES 8u

typedef struct cg_matcher {
    cg_unit *unit;
    const cg_fusion_group *group;
    st_kernel *kernel;
    st_contraction *contraction;
    const st_loop_axis *outer[CG_MATCH_AXES];
    uint32_t n_outer;
    st_loop_ref store;
    st_loop_ref read;
    st_loop_ref update;
    uint32_t feature;     /* symbol of the axis that a bias follows, UINT32_MAX: none */
    uint32_t is_narrowed; /* to bytes, at the end */
    uint32_t bounded;     /* dtype that values are rounded to, nothing but bounds since; 0: none */
} cg_matcher;

static inline const st_loop_inst *cg_inst_at(const cg_matcher *m, st_loop_ref ref)
{
    return st_loop_at(m->kernel, ref);
}

/* The instruction, or what it widens from a narrow dtype. */
const st_loop_inst *cg_through_cast(const cg_matcher *m, st_loop_ref ref);

/* The data of a constant of the program, a buffer of the kernel; 0: it cannot be read (out of
 * memory: unit->is_oom is set). */
bool cg_read_constant(const cg_matcher *m, uint32_t buffer, const void **out_data);

/* Is it the buffer's first element at each step? */
bool cg_loads_first(const cg_matcher *m, const st_loop_inst *load);

/* The stored value: an epilogue, rounded to the output's dtype at the end alone. 0: it is none. */
bool cg_match_epilogue(cg_matcher *m);

/* The sum of integers times both scales, instructions of the kernel; to be asked before the
 * epilogue. 0: they are none that an epilogue multiplies with. */
bool cg_match_scales(cg_matcher *m, const st_loop_ref scale[2]);

/* The loops that the sum runs over: one, or one over blocks around one over what is in a block. */
typedef struct cg_walks {
    const st_loop_axis *n;    /* NULL: n is 1 */
    const st_loop_axis *k[2]; /* the inner loop first */
    uint32_t n_k;
} cg_walks;

/* Weights of few bits, instructions of the kernel: the load of them, what they are multiplied
 * with and what is subtracted (or NULL): a load or a number. */
typedef struct cg_weights {
    const st_loop_inst *bytes, *scale, *zero;
    uint32_t dtype; /* dtype that the product is rounded to */
} cg_weights;

bool cg_match_weights(const cg_matcher *m, st_loop_ref ref, cg_weights *out);
/* Fills contraction.weights. 0: they do not lie at strides. */
bool cg_locate_weights(cg_matcher *m, const cg_weights *of, const cg_walks *walks);

#endif
