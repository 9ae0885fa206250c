/* Lines of perf_hints of a compile that may be tried again: they are deferred until it is known
 * whether the parts that they describe stay; each line is said once. */
#ifndef STATOR_CONTEXT_DEFERRED_LOG_H
#define STATOR_CONTEXT_DEFERRED_LOG_H

#include "core/base/vec.h"
#include "core/context/compile_handle.h"

/* The deferred lines of one compile and of its helper threads; the innermost such log takes a
 * line. */
typedef struct st_deferred_log {
    st_compile_handle handle;
    st_vec(char *) lines;
} st_deferred_log;

/* Begins to defer the lines of this compile. */
void st_deferred_log_begin(st_deferred_log *deferred, stator_ctx *ctx);
/* Ends that; the deferred lines are said in their order, or forgotten. */
void st_deferred_log_end(st_deferred_log *deferred, bool is_said);
/* Is the line deferred? Without memory it is not, and the caller says it at once. */
bool st_deferred_log_take(stator_ctx *ctx, const char *channel, const char *text);

#endif
