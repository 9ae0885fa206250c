/* A call into a slot of a plugin. Every one that the host makes stands between st_plugin_enter and
 * st_plugin_leave, on one thread:
 *
 *     st_plugin_call call;
 *     st_plugin_enter(&call, callee, "compile");
 *     const stator_status status = backend->compile(...);
 *     return st_plugin_leave(&call, status, err);
 *
 * Meanwhile the thread knows whose slot it is in (stator_x_running_slot), also inside a signal
 * handler. Behind it the floating-point control of the thread is what it was before, with a warning
 * that names the plugin where it was not; and a failure has a text.
 *
 * Reading the control twice takes 11 ns on a Zen 5, a fifth of the cheapest call. Stator's own
 * plugins, which keep it and are tested for that, are spared it where calls are counted in
 * nanoseconds: exe_run and its ranges begin with st_plugin_enter_run (bench/scalar_call). */
#ifndef STATOR_PLUGINS_PLUGIN_CALL_H
#define STATOR_PLUGINS_PLUGIN_CALL_H

#include "core/base/arena.h"
#include "core/base/diag.h"
#include "core/base/fp_control.h"

#include <stator/plugin.h>
#include <stdatomic.h>

/* Whom a call is for; as long-lived as the plugin. */
typedef struct st_callee {
    const char *name;                           /* name of the plugin */
    void (*warn)(void *self, const char *text); /* NULL: nobody hears of it */
    void *warn_self;
    uint32_t is_ours;           /* a plugin of Stator's own, installed beside libstator */
    _Atomic uint32_t is_warned; /* a changed floating-point control was reported */
} st_callee;

typedef struct st_plugin_call {
    const struct st_plugin_call *outer; /* the enclosing call on this thread */
    st_callee *callee;
    const char *slot;
    uint32_t is_watched; /* fp_control is known, and is to be the same when the call ends */
    uint32_t fp_control;
} st_plugin_call;

/* The innermost call of this thread, or NULL. A signal handler may read it: the model does without
 * the lazy allocation of thread-local storage, and two cycles instead of ten in each call. */
extern _Thread_local const st_plugin_call *st_plugin_running
    __attribute__((tls_model("initial-exec")));

static inline void st_plugin_begin(st_plugin_call *call, st_callee *callee, const char *slot,
                                   uint32_t is_watched)
{
    *call = (st_plugin_call){st_plugin_running, callee, slot, is_watched,
                             is_watched ? st_fp_control() : 0};
    atomic_signal_fence(memory_order_release);
    st_plugin_running = call;
}

static inline void st_plugin_enter(st_plugin_call *call, st_callee *callee, const char *slot)
{
    st_plugin_begin(call, callee, slot, 1);
}

static inline void st_plugin_enter_run(st_plugin_call *call, st_callee *callee, const char *slot)
{
    st_plugin_begin(call, callee, slot, !callee->is_ours);
}

/* The cold halves of st_plugin_leave. */
void st_plugin_restore(const st_plugin_call *call);
stator_status st_plugin_explain(const st_plugin_call *call, stator_status status,
                                stator_diag **err);

/* Gives `status` back; a failure without a diag gets one that names plugin, slot and number. */
static inline stator_status st_plugin_leave(const st_plugin_call *call, stator_status status,
                                            stator_diag **err)
{
    st_plugin_running = call->outer;
    if (call->is_watched && __builtin_expect(st_fp_control() != call->fp_control, 0)) {
        st_plugin_restore(call);
    }
    return status == STATOR_OK ? STATOR_OK : st_plugin_explain(call, status, err);
}

/* An op of a library whose functions are such calls, with what it passes as their self. */
typedef struct st_oplib_call {
    stator_oplib_op op;
    const stator_oplib_op *own; /* the library's own row */
    void *self;
    st_callee *callee;
} st_oplib_call;

/* One for each op of the library, in the arena; NULL when out of memory. */
st_oplib_call *st_oplib_calls(const stator_oplib *lib, void *self, st_callee *callee,
                              st_arena *arena);

#endif
