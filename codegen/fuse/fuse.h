/* The room of fusion: which values get a loop nest of their own (roots), and which of these share a
 * kernel (fusion groups).
 *
 * A join is tried by writing the kernel (codegen/lower), and a contraction that a library takes is
 * kept apart (codegen/match). What comes out are the unit's groups; the order in which they run is
 * the launch plan's (codegen/plan). */
#ifndef STATOR_CODEGEN_FUSE_H
#define STATOR_CODEGEN_FUSE_H

#include "codegen/lower/unit.h"

/* ---- roots.c: which values get a nest ---- */
stator_status cg_make_roots(cg_unit *unit, stator_diag **err);

/* ---- fuse_roots.c: which roots share a kernel ---- */
stator_status cg_join_roots(cg_unit *unit, stator_diag **err);
/* The domain of a group of this root alone, written to an empty group. */
void cg_domain_of(cg_unit *unit, const cg_root *root, cg_fusion_group *group);

#endif
