/* A team of threads that runs the steps of a scan together (cg_team.c). */
#ifndef STATOR_CODEGEN_CG_TEAM_H
#define STATOR_CODEGEN_CG_TEAM_H

#include "codegen/cg_exe.h"

#define CG_TEAM_OPERANDS 64u /* of one launch, at most */

/* How far a member is: the barriers that it has come to. A line of the cache each. */
typedef struct cg_team_mark {
    _Alignas(64) _Atomic uint32_t round;
} cg_team_mark;

#define CG_TEAM_FAILED UINT32_MAX /* beyond all barriers */

typedef struct cg_team {
    uint32_t n; /* members */
    _Atomic uint32_t arrived, state;
    cg_team_mark marks[CG_CONCURRENT_MAX];
} cg_team;

/* What a team and one thread took at least, of the calls that were timed lately. */
typedef struct cg_team_record {
    _Atomic uint32_t calls;
    _Atomic uint64_t least_ns[2]; /* one thread, a team */
} cg_team_record;

/* Shall a call be a team's? *out_began: for cg_team_end, when the call has ended. */
int cg_team_begin(cg_team_record *record, uint64_t *out_began);
void cg_team_end(cg_team_record *record, int was_team, uint64_t began);

/* How many threads a scan over this body is worth; 1: no team. */
uint32_t cg_team_wanted(const cg_unit *unit, const stator_graph_view *body);
/* Can the body be run in parts? */
int cg_team_can(const st_cg_exe *body);

/* A member is there. 1: so are all others; 0: member 0 does everything, others do nothing. */
int cg_team_join(cg_team *team, uint32_t member);
/* Member 0 goes on alone. */
void cg_team_disband(cg_team *team);
/* Waits for all members. 0: this one or another has failed, and no one waits for it any more. */
int cg_team_meet(cg_team *team, uint32_t member, int has_failed);

/* ---- cg_run.c ---- */
/* The member's part of a call of the body. All members call it. *out_on 0: the call ends; the error
 * is told by the member that has it, others answer OK. */
stator_status cg_run_part(const st_cg_exe *exe, const stator_call *call, cg_team *team,
                          uint32_t member, int *out_on, stator_diag **err);

#endif
