/* Calls into plugins; see plugin_call.h. Here is what seldom happens in one, and the functions
 * of op libraries, which others than the host call too (`eager` runs their kernels): they are
 * handed out wrapped. */
#include "core/plugins/plugin_call.h"

#include <stator/inspect.h>
#include <stator/stator.h>
#include <stdio.h>

_Thread_local const st_plugin_call *st_plugin_running;

int32_t stator_x_running_slot(const char **out_plugin, const char **out_slot)
{
    const st_plugin_call *call = st_plugin_running;
    *out_plugin = call != NULL ? call->callee->name : NULL;
    *out_slot = call != NULL ? call->slot : NULL;
    return call != NULL;
}

void st_plugin_restore(const st_plugin_call *call)
{
    st_callee *callee = call->callee;
    st_fp_control_set(call->fp_control);
    if (callee->warn != NULL && atomic_exchange(&callee->is_warned, 1) == 0) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            "plugin '%s' left slot %s with another rounding mode, flushing of subnormals or "
            "trapping of exceptions than it was called with (-ffast-math links code that does "
            "so); they are put back after each of its calls",
            callee->name, call->slot);
        callee->warn(callee->warn_self, text);
    }
}

stator_status st_plugin_explain(const st_plugin_call *call, stator_status status, stator_diag **err)
{
    if (err == NULL || *err != NULL) {
        return status;
    }
    return st_fail(err, status,
                   "plugin '%s', slot %s failed with status %d (%s) and gave no reason",
                   call->callee->name, call->slot, status, stator_status_name(status));
}

/* ---- op libraries ---- */

static stator_status infer(void *self, stator_builder *b, const stator_node_desc *node,
                           stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const st_oplib_call *c = self;
    st_plugin_call call;
    st_plugin_enter(&call, c->callee, "infer");
    return st_plugin_leave(&call, c->own->infer(c->self, b, node, out_types, n_types, err), err);
}

static stator_status decompose(void *self, stator_builder *b, const stator_node_desc *node,
                               stator_ref *out_results, stator_diag **err)
{
    const st_oplib_call *c = self;
    st_plugin_call call;
    st_plugin_enter(&call, c->callee, "decompose");
    return st_plugin_leave(&call, c->own->decompose(c->self, b, node, out_results, err), err);
}

static stator_status kernel(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out,
                            DLTensor *out, const stator_attr *attrs, uint32_t n_attrs,
                            stator_diag **err)
{
    const st_oplib_call *c = self;
    st_plugin_call call;
    st_plugin_enter(&call, c->callee, "kernel");
    return st_plugin_leave(&call,
                           c->own->kernel(c->self, n_in, in, n_out, out, attrs, n_attrs, err), err);
}

static stator_status gradient(void *self, stator_builder *b, const stator_node_desc *node,
                              const stator_ref *out_grads, stator_ref *in_grads, stator_diag **err)
{
    const st_oplib_call *c = self;
    st_plugin_call call;
    st_plugin_enter(&call, c->callee, "gradient");
    return st_plugin_leave(&call, c->own->gradient(c->self, b, node, out_grads, in_grads, err),
                           err);
}

st_oplib_call *st_oplib_calls(const stator_oplib *lib, void *self, st_callee *callee,
                              st_arena *arena)
{
    st_oplib_call *calls = st_arena_zalloc(arena, lib->op_count + UINT64_C(1), sizeof *calls);
    for (uint32_t i = 0; calls != NULL && i < lib->op_count; i++) {
        const stator_oplib_op *own = &lib->ops[i];
        calls[i] = (st_oplib_call){.op = *own, .own = own, .self = self, .callee = callee};
        calls[i].op.infer = own->infer != NULL ? infer : NULL;
        calls[i].op.decompose = own->decompose != NULL ? decompose : NULL;
        calls[i].op.kernel = own->kernel != NULL ? kernel : NULL;
        calls[i].op.gradient = own->gradient != NULL ? gradient : NULL;
    }
    return calls;
}
