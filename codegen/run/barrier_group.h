/* A barrier group: threads that run the steps of a scan together and meet at barriers
 * (barrier_group.c). */
#ifndef STATOR_CODEGEN_BARRIER_GROUP_H
#define STATOR_CODEGEN_BARRIER_GROUP_H

#include "codegen/run/exe.h"

#define CG_BARRIER_GROUP_OPERANDS 64u /* operands of one launch, at most */

/* How far a member is: the barriers that it has come to. A line of the cache each. */
typedef struct cg_barrier_group_mark {
    _Alignas(64) _Atomic uint32_t round;
} cg_barrier_group_mark;

#define CG_BARRIER_GROUP_FAILED UINT32_MAX /* beyond all barriers */

typedef struct cg_barrier_group {
    uint32_t n; /* members */
    _Atomic uint32_t arrived, state;
    cg_barrier_group_mark marks[CG_CONCURRENT_MAX];
} cg_barrier_group;

/* The shortest times of a group and of one thread among recently timed calls. */
typedef struct cg_barrier_group_record {
    _Atomic uint32_t calls;
    _Atomic uint64_t least_ns[2]; /* one thread, a group */
} cg_barrier_group_record;

/* Shall a call be a group's? *out_began: for cg_barrier_group_end, when the call has ended. */
bool cg_barrier_group_begin(cg_barrier_group_record *record, uint64_t *out_began);
void cg_barrier_group_end(cg_barrier_group_record *record, int was_group, uint64_t began);

/* Can the body be run in parts? */
bool cg_barrier_group_can(const st_cg_exe *body);

/* A member is there. 1: so are all others; 0: member 0 does everything, others do nothing. */
bool cg_barrier_group_join(cg_barrier_group *group, uint32_t member);
/* Member 0 goes on alone. */
void cg_barrier_group_disband(cg_barrier_group *group);
/* Waits for all members. 0: this one or another has failed, and no one waits for it any more. */
bool cg_barrier_group_meet(cg_barrier_group *group, uint32_t member, bool has_failed);

/* ---- run_exe.c ---- */
/* The member's part of a call of the body. All members call it. *out_on 0: the call ends; the
 * member that failed returns the error, others return OK. */
stator_status cg_run_part(const st_cg_exe *exe, const stator_call *call, cg_barrier_group *group,
                          uint32_t member, bool *out_on, stator_diag **err);

#endif
