/* plugins/cpu-llvm/onednn is the library of contractions around the kernels. It describes the ways
 * of doing a contraction (candidates), chooses one, makes a plan of it, and runs the plan. */
#ifndef STATOR_CPU_LLVM_DN_LIBRARY_H
#define STATOR_CPU_LLVM_DN_LIBRARY_H

#include "plugins/cpu-llvm/kernels/dn.h"

/* ---- dn_desc.c ---- */

/* Descriptors for the candidate. DN_NO: it cannot be done so. */
uint32_t dn_describe(const dn_op *op, const dn_sizes *sizes, const dn_candidate *how, dn_desc *out);
void dn_desc_deinit(dn_desc *desc);
uint64_t dn_desc_moved(const dn_desc *desc); /* bytes that are reordered in each call */

/* ---- dn_post.c ---- */

/* Post-ops of the op's epilogue into attr; fills roles of `desc`. 0: not possible. */
bool dn_post_ops(const dn_op *op, const dn_candidate *how, uint32_t feature,
                 const dnnl_memory_desc_t *out, dnnl_primitive_attr_t attr, dn_desc *desc);

/* Is row `i` of the epilogue done with a tensor of one element, the row's number? */
bool dn_is_number_read(const dn_op *op, uint32_t i);

/* Zero points of the operands into attr; fills roles of `desc`. 0: not possible. */
bool dn_zero_points(const dn_op *op, dnnl_primitive_attr_t attr, dn_desc *desc);

/* ---- dn_plan.c ---- */

/* The next step of a chain of calls of oneDNN, which the first failure ends. */
#define DN_THEN(status, expr) ((status) = (status) == dnnl_success ? (expr) : (status))

/* Takes desc over. Weights are not bound yet when they are constant. */
stator_status dn_plan_make(dn_op *op, const dn_sizes *key, dn_desc *desc, dn_plan **out,
                           stator_diag **err);
stator_status dn_plan_other(dn_op *op, const dn_sizes *key, uint32_t kind, dn_plan **out,
                            stator_diag **err); /* PLAIN, EMPTY */
/* A plan of what dn_skinny_describe, dn_tiles_describe or dn_planes_describe said, by kernels of
 * our own; the weights are not bound yet. */
stator_status dn_plan_own(dn_op *op, const dn_sizes *key, const dn_desc *desc, dn_plan **out,
                          stator_diag **err);
void dn_plan_destroy(dn_op *op, dn_plan *plan);
/* Constant weights at `data`, in the order of desc.md[DN_Y2]. */
stator_status dn_plan_bind(dn_op *op, dn_plan *plan, void *data, stator_diag **err);
dn_slot *dn_slot_make(dn_op *op, dn_plan *plan);
/* `at`: the first elements by role: X, Y, OUT and the epilogue's. */
stator_status dn_slot_run(dn_op *op, const dn_plan *plan, dn_slot *slot, void *const at[DN_ROLES],
                          stator_diag **err);
stator_status dn_fail(stator_diag **err, const char *what, dnnl_status_t status);

/* ---- dn_pack.c ---- */

/* Weights at `y`, the first element by `sizes`, packed as the descriptors say; made once an op and
 * format. y NULL: those of op->y_blob, if they must be read at all. Under op->making, as is
 * dn_pack_has. */
stator_status dn_pack_get(dn_op *op, const dn_desc *desc, const void *y, const dn_sizes *sizes,
                          void **out_data, stator_diag **err);
/* Weights packed as `to` fit under the library's cap (or are there already). */
bool dn_pack_fits(dn_op *op, const dnnl_memory_desc_t *to);
/* The op has weights in this order already. */
bool dn_pack_has(dn_op *op, const dnnl_memory_desc_t *md);
void dn_packs_release(dn_op *op);

/* ---- dn_choose.c ---- */

/* A plan for the sizes, its weights bound when they are constant (`y`: their first element).
 * `tune`: measure. Under op->making. */
stator_status dn_choose(dn_op *op, const dn_sizes *sizes, const void *y, bool tune, dn_plan **out,
                        stator_diag **err);
/* Makes the plan of a candidate that was chosen before; weights are those of op->y_blob. Puts
 * the plan in the op's list. DATA_LOSS: it is none for these sizes. */
stator_status dn_adopt(dn_op *op, const dn_sizes *sizes, uint32_t kind, const dn_candidate *how,
                       stator_diag **err);
/* Notes what was chosen for the sizes of the hints, once the op has a plan for them. */
void dn_note_hinted(dn_op *op, const dn_sizes *sizes);
/* Best class that any candidate has. */
uint32_t dn_best_class(const dn_op *op, const dn_sizes *sizes);
/* All candidates but Winograd; their number. */
uint32_t dn_candidates(const dn_op *op, const dn_sizes *sizes, dn_candidate all[DN_CANDIDATES_MAX]);
/* dn_describe, or that of the kernel of our own that the candidate names. */
uint32_t dn_describe_any(const dn_op *op, const dn_sizes *sizes, const dn_candidate *how,
                         dn_desc *out);
dn_candidate dn_winograd_of(const dn_op *op);

/* ---- dn_tune.c ---- */

/* The fastest of the guessed candidate, its rivals in moving, and Winograd. */
dn_candidate dn_tune(dn_op *op, const dn_sizes *sizes, const dn_candidate *guessed);

/* ---- dn_main.c ---- */

/* The dtypes and epilogue are such as oneDNN does exactly enough. */
bool dn_is_kind_taken(const dn_lib *lib, const st_contraction *contraction);
void dn_op_destroy(void *self, void *op);
/* Drops what a contraction borrows for create. */
static inline void dn_contraction_forget(st_contraction *contraction)
{
    contraction->syms = NULL;
    contraction->y_data = NULL;
    contraction->weights.scale.data = NULL;
    contraction->weights.zero.data = NULL;
}
/* Properties of an op that its contraction decides. */
void dn_op_note(dn_op *op);
/* Makes the `n` numbers of a bias that dn_fill_bias made; none where n is 0. */
stator_status dn_op_fill(dn_op *op, int64_t n, stator_diag **err);

/* ---- dn_save.c ---- */

stator_status dn_op_save(void *self, void *op, st_str *out, stator_diag **err);
stator_status dn_op_load(void *self, const st_library_kept *kept, void **out_op,
                         uint32_t *out_unread, stator_diag **err);
/* Element `offset` of the weights of an op from the cache, read now. */
stator_status dn_y_data(dn_op *op, const dn_sizes *sizes, int64_t offset, const void **out,
                        stator_diag **err);

/* ---- dn_run.c ---- */

/* The key of a plan: it does not depend on where tensors begin. */
void dn_key_of(const dn_sizes *sizes, dn_sizes *out);
stator_status dn_run(void *self, void *op, const st_library_call *call, stator_diag **err);
stator_status dn_run_part(void *self, void *op, const st_library_call *call, uint32_t part,
                          uint32_t parts, stator_diag **err);
/* Once the op has its first plan, for these sizes: is it what every call does, on one thread? */
void dn_note_steady(dn_op *op, const dn_sizes *sizes);
/* Makes the plan for the sizes before the first call. */
stator_status dn_prepare(dn_op *op, const dn_sizes *sizes, const void *y, bool is_tuned,
                         stator_diag **err);
/* Threads that a call of these sizes runs on here: one when there is little to do. */
int32_t dn_threads(const dn_lib *lib, const st_contraction *contraction, const dn_sizes *sizes,
                   stator_ctx *ctx);
/* oneDNN's code for this processor takes operands at any address. */
bool dn_reads_unaligned(void);

/* Runs a call whose buffers are found. */
stator_status dn_run_at(dn_op *op, const dn_sizes *sizes, void *const at[DN_ROLES], stator_ctx *ctx,
                        stator_diag **err);

/* ---- dn_alone.c ---- */

/* A call of a primitive. */
typedef struct dn_call {
    dn_op *op;
    dn_plan *plan;
    void *const *at; /* first elements by role (DN_ROLES), as for dn_slot_run */
    stator_ctx *ctx;
    bool is_watched; /* the call looks out for NaN */
    bool has_nan;    /* there was a NaN */
} dn_call;

/* Runs the call with a slot of the plan. Any thread. */
stator_status dn_primitive_run(dn_call *call, dn_slot *slot, stator_diag **err);

/* ---- dn_half.c ---- */

/* Makes f32 of the contraction's f16, or of its bf16 where oneDNN has none; *out_narrow: which.
 * Returns a bit for each role that had it. */
uint32_t dn_widen(st_contraction *contraction, uint32_t *out_narrow);
/* Where `roles` are of the dtype, f16 or bf16. */
stator_status dn_half_make(dn_op *op, uint32_t roles, uint32_t dtype, stator_diag **err);
void dn_half_destroy(dn_op *op);
bool dn_half_has(const dn_op *op, uint32_t role); /* is the role's buffer narrow? */
uint32_t dn_half_dtype(const dn_op *op);          /* f16 or bf16, of its narrow roles */
uint32_t dn_half_roles(const dn_op *op);
/* The constant weights, y their first element, in f32; made once. Any thread. */
stator_status dn_half_widen(dn_op *op, const dn_sizes *sizes, const void *y, const void **out,
                            stator_diag **err);
uint64_t dn_half_bytes(const dn_op *op);
/* dn_run_at with f16 in the buffers. */
stator_status dn_half_run(dn_op *op, const dn_sizes *sizes, void *const at[DN_ROLES],
                          stator_ctx *ctx, stator_diag **err);

/* ---- dn_transpose.c ---- */

/* Is the reorder one that dn_transpose_run does? Then fills *out. */
bool dn_transpose_of(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                     dn_transpose *out);
void dn_transpose_run(const dn_transpose *transpose, const void *from, void *to, int threads);

#endif
