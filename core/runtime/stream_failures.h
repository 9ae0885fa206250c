/* What is known of calls on a stream that have failed after they had returned; see late_calls.h. */
#ifndef STATOR_RUNTIME_STREAM_FAILURES_H
#define STATOR_RUNTIME_STREAM_FAILURES_H

#include "core/base/diag.h"
#include "core/runtime/domain.h"

/* Work up to `at` is done: asks the backend which calls have failed. */
void st_failures_collect(st_stream *stream, uint64_t at);
/* Keeps a failure, with a copy of `why`. */
void st_failures_keep(st_stream *stream, const st_late_failure *failure);
/* The oldest that concerns a call of the range; NULL: that nobody has been told of. */
stator_status st_failures_tell(st_stream *stream, const st_late_range *range, stator_diag **err);
/* Is there one? */
bool st_failures_concern(st_stream *stream, const st_late_range *range);
void st_failures_forget(st_stream *stream); /* frees what is kept */

#endif
