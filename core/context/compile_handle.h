/* The handle of a compile: which lines of the log, which files of a dump and which backends inside
 * backends belong to it.
 *
 * A thread works for one handle at a time; a handle made meanwhile begins as a copy of it. The
 * slots that plugins call (log, nested) read the handle of the call that they are in, and
 * parallel_for of the host table takes it along, so that what a helper thread logs or dumps
 * belongs to the compile that asked for help. Handles lie on the stack of who enters them. */
#ifndef STATOR_CONTEXT_COMPILE_HANDLE_H
#define STATOR_CONTEXT_COMPILE_HANDLE_H

#include "core/context/ctx.h"

typedef struct st_compile_handle {
    const struct st_compile_handle *outer; /* what the thread worked for before */
    stator_ctx *ctx;
    struct st_dump *dump;                /* where it is written down; NULL: nowhere */
    struct st_deferred_log *deferred;    /* takes lines of perf_hints; NULL: none is deferred */
    const struct st_open_entry *opening; /* the innermost backend that is created or compiles */
} st_compile_handle;

/* What this thread works for, or NULL. */
extern _Thread_local const st_compile_handle *st_compile_running
    __attribute__((tls_model("initial-exec")));

/* The innermost handle of the context that this thread works for; an empty one when there is none.
 */
st_compile_handle st_compile_of(const stator_ctx *ctx);
/* The thread works for `handle` from here on, until st_compile_leave, which leaves the newest. */
void st_compile_enter(st_compile_handle *handle, stator_ctx *ctx);
void st_compile_leave(const st_compile_handle *handle);

#endif
