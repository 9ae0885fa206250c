/* A team of threads that runs the steps of a scan together (cg_team.c). */
#ifndef STATOR_CODEGEN_CG_TEAM_H
#define STATOR_CODEGEN_CG_TEAM_H

#include "codegen/cg_exe.h"

#define CG_TEAM_OPERANDS 64u /* of one launch, at most */

typedef struct cg_team {
    uint32_t n; /* members */
    _Atomic uint32_t arrived, state;
    _Atomic uint32_t has_failed; /* a member, by now */
    uint32_t verdict;            /* the same as of the last barrier: all members read one answer */
    _Alignas(64) _Atomic uint32_t waiting; /* at the barrier */
    _Alignas(64) _Atomic uint32_t round;
} cg_team;

/* How many threads a scan over this body is worth; 1: no team. */
uint32_t cg_team_wanted(const cg_unit *unit, const stator_graph_view *body);
/* Can the body be run in parts? */
int cg_team_can(const st_cg_exe *body);

/* A member is there. 1: so are all others; 0: member 0 does everything, others do nothing. */
int cg_team_join(cg_team *team, uint32_t member);
/* Member 0 goes on alone. */
void cg_team_disband(cg_team *team);
/* Waits for all members. 0: one had failed when the last came; all hear the same. */
int cg_team_meet(cg_team *team);

/* ---- cg_run.c ---- */
/* The member's part of a call of the body. All members call it; an error is the caller's own, or
 * OK when it is another's (the verdict tells). */
stator_status cg_run_part(const st_cg_exe *exe, const stator_call *call, cg_team *team,
                          uint32_t member, stator_diag **err);

#endif
