/* Failures that show late: calls that have returned and whose work on a device may still fail.
 *
 * Nobody waits for a check inside a kernel. So a value on a device has a list of the calls that it
 * was computed by, which goes on to what is computed from it; whoever has waited for the value
 * looks whether one of them has failed, and is told that one's error. An entry of the list is a
 * range of calls of one stream. It goes once they are known to have gone well: a program that waits
 * has short lists, and executables without checks have empty ones.
 *
 *   call 7 on stream A: x -> y     y by A 7
 *   call 8 on stream B: y -> z     z by A 7, B 8
 *   call 9 on stream A: y -> y     y by A 7 to 9, as no other call was on A between the two
 *   copy z to the host on C        C has come behind B: are there failures of A 7 or B 8?
 *
 * Failures are kept with the stream, as many as ST_LATE_KEPT; the oldest become one of a range
 * then. All numbers are those of the domain (stator_call.number). */
#ifndef STATOR_RUNTIME_LATE_CALLS_H
#define STATOR_RUNTIME_LATE_CALLS_H

#include "core/base/diag.h"
#include "core/runtime/domain.h"

#define ST_LATE_MAX 4u /* ranges of a list before they are joined */

typedef struct st_late_calls {
    uint32_t n;
    st_late_range ranges[ST_LATE_MAX];
} st_late_calls;

/* A call on the stream that may fail late; behind st_stream_note. */
void st_late_note(st_late_calls *calls, st_stream *stream, uint64_t number);
/* Adds those of `from` that are not known to have gone well. */
void st_late_add(st_late_calls *to, const st_late_calls *from);
/* The failure of one of the calls, where it has been seen already. */
stator_status st_late_known(const st_late_calls *calls, st_domain *domain, stator_diag **err);
/* The same once all of their work is done: nothing is waited for, but streams of a backend without
 * the slot late_failure. OK: they have gone well, and the list is empty. */
stator_status st_late_check(st_late_calls *calls, st_domain *domain, stator_diag **err);

#endif
