/* The room of the launch plan: fusion groups become the steps of an executable.
 *
 * It orders the groups, has each one lowered, matched or scheduled (through the target), decides
 * which values share memory, and writes down what a call has to test. What it fills is a st_cg_exe
 * (codegen/run); the graph is not needed after it. */
#ifndef STATOR_CODEGEN_PLAN_H
#define STATOR_CODEGEN_PLAN_H

#include "codegen/lower/unit.h"

/* ---- launch_plan.c ---- */
/* Orders the fusion groups, keeps the buffers that are needed and gives them slots of the
 * workspace. Kernels are made, scheduled and moved to the executable. */
stator_status cg_make_exe(cg_unit *unit, st_cg_exe *exe, stator_diag **err);

/* ---- launch_notes.c ---- */
/* Records nodes, flops and bytes of a launch, read off the kernel that it runs or stands for. */
stator_status cg_note_step(const st_kernel *kernel, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err);
/* Records a launch's nodes alone, ascending and each once; they are copied. */
stator_status cg_note_nodes(const stator_ref *nodes, uint32_t n, st_cg_exe *exe, cg_launch *launch,
                            stator_diag **err);
/* Gives the newest step one more operand (UINT32_MAX: LOCAL), which is alive there. */
stator_status cg_add_operand(st_cg_exe *exe, uint32_t buffer, cg_launch *launch, stator_diag **err);

/* ---- memory_plan.c ---- */
/* Gives the buffers of the workspace their offsets, two of them the same where a kernel may write
 * over what it reads; those that are dead before an output is written may lie there. */
stator_status cg_plan_memory(st_cg_exe *exe, stator_diag **err);
/* May the kernel of the step write its buffer `to` over its buffer `from`, which is as long and
 * read by nobody behind it? */
bool cg_may_overwrite(st_cg_exe *exe, const cg_launch *l, uint32_t from, uint32_t to);

/* ---- plan_write_backs.c ---- */
/* Moves the groups that make written outputs, and nothing that others read, to the end of `order`
 * (n groups). */
stator_status cg_sink_writes(cg_unit *unit, uint32_t *order, uint32_t n, stator_diag **err);
/* Fills exe->may_alias, once outputs and launches are there and before memory is planned. */
stator_status cg_plan_write_backs(const cg_unit *unit, st_cg_exe *exe, stator_diag **err);

/* ---- plan_updates.c ---- */
/* Finds the groups whose steps are divided, and adds the buffers for what they keep (`kept` of the
 * group). */
stator_status cg_find_updates(cg_unit *unit, const st_cg_exe *exe, stator_diag **err);
/* Once all launches are there: what restoring steps read lives to the end. */
void cg_keep_until_end(st_cg_exe *exe);

/* ---- copy_elision.c ---- */
/* 1: the kernel moves nothing and is not needed; what it writes is another name for what it reads.
 */
bool cg_drop_copy(cg_unit *unit, st_cg_exe *exe, const st_kernel *kernel);
/* The buffer that holds what the program's buffer names. */
uint32_t cg_alias_root(const cg_unit *unit, uint32_t buffer);

/* ---- concurrent_scans.c ---- */
/* Reorders `order` (n groups) so that scans which may run concurrently are neighbours.
 * n_concurrent[i] > 1: as many begin at index i. */
stator_status cg_gather_scans(cg_unit *unit, uint32_t *order, uint32_t n, uint32_t *n_concurrent,
                              stator_diag **err);

/* ---- plan_binds.c ---- */
/* The sizes of bind number k of the unit, and what the step says, appended to the executable. */
stator_status cg_make_bind(cg_unit *unit, uint32_t k, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err);

/* ---- plan_shape_constraints.c ---- */
/* Notes the shape constraints that are not proved; nodes that cannot state theirs are declined.
 */
stator_status cg_find_shape_constraints(cg_unit *unit, st_cg_exe *exe, stator_diag **err);

/* ---- plan_scan.c ---- */
/* The newest step of the executable becomes the scan. */
stator_status cg_make_scan(const cg_loop *loop, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err);
/* Tells the body what is known of its inputs, and aligns its outputs once it has roots. */
stator_status cg_begin_body(cg_unit *body, const cg_loop *loop, stator_diag **err);
void cg_align_outputs(cg_unit *body, const cg_loop *loop);

#endif
