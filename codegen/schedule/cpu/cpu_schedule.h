/* The room of the CPU's schedule: how the loops of one kernel are run by cores with vector units.
 *
 * An emitter names a schedule in its target (st_target.schedule); everything else in codegen
 * calls it through that. So a GPU's schedule stands in a room beside this one, and an emitter
 * for it names that one. A schedule sees a kernel and the target: neither the graph nor what was
 * fused. */
#ifndef STATOR_CODEGEN_CPU_SCHEDULE_H
#define STATOR_CODEGEN_CPU_SCHEDULE_H

#include "codegen/loopir/loop_build.h"
#include "codegen/target/emitter.h"
#include "core/base/diag.h"

/* Orders reductions, merges axes, chooses the vector axis, unrolls and jams, and marks stores
 * that go past the caches; the kernel is verified at the end. */
stator_status st_cpu_schedule(const st_target *target, st_kernel *kernel, stator_diag **err);

/* ---- reduction_order.c ---- */
/* Puts the loops of reductions into the order of memory; 0: out of memory or beyond the limits. */
bool cg_order_reductions(st_kernel *kernel);

/* ---- long_sums.c ---- */
/* Widens sums of f32 that one lane or thread adds to thousands of times; 0: out of memory. */
bool cg_widen_long_sums(st_kernel *kernel);

/* ---- unroll_and_jam.c ---- */
/* With the vector axis chosen: steps of an outer axis are interleaved where that saves loads. */
stator_status cg_unroll_and_jam(const st_target *target, st_kernel *kernel, stator_diag **err);

#endif
