/* What a thread works for; see the header. */
#include "core/context/compile_handle.h"

_Thread_local const st_compile_handle *st_compile_running;

st_compile_handle st_compile_of(const stator_ctx *ctx)
{
    const st_compile_handle *handle = st_compile_running;
    while (handle != NULL && handle->ctx != ctx) {
        handle = handle->outer;
    }
    return handle != NULL ? *handle : (st_compile_handle){.ctx = NULL};
}

void st_compile_enter(st_compile_handle *handle, stator_ctx *ctx)
{
    *handle = st_compile_of(ctx);
    handle->outer = st_compile_running;
    handle->ctx = ctx;
    st_compile_running = handle;
}

void st_compile_leave(const st_compile_handle *handle)
{
    st_compile_running = handle->outer;
}
