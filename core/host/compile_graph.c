/* The compile driver: a program comes from the cache, or is compiled and kept there. */
#include "core/host/compile_graph.h"

#include "core/cache/cache.h"
#include "core/context/dump.h"
#include "core/host/hints.h"

static stator_status load_or_compile(const st_compile_request *request, st_compiled *out,
                                     stator_diag **err)
{
    st_cache_job job;
    stator_status status = STATOR_OK;
    st_cache_begin(&job, request);
    st_hint_settings(request);
    if (st_cache_load(&job, out)) {
        status = st_compiled_list_files(out, request->source, err);
    } else {
        status = st_compile_anew(request, out, err);
        if (status == STATOR_OK) {
            st_cache_save(&job, out);
        }
    }
    st_cache_end(&job);
    return status;
}

stator_status st_compile_graph(const st_compile_request *request, st_compiled **out_compiled,
                               stator_diag **err)
{
    *out_compiled = NULL;
    st_compiled *out = st_calloc(&request->ctx->mem, 1, sizeof *out);
    ST_TRY_MEM(out, err);
    out->ctx = request->ctx;
    const char *backend = request->main != NULL ? request->main->backend->item.name : "none";
    st_dump dump;
    stator_status status = st_dump_begin(&dump, out->ctx, request->source->root, backend, err);
    if (status == STATOR_OK) {
        status = load_or_compile(request, out, err);
        st_dump_end(&dump);
    }
    if (status != STATOR_OK) {
        st_compiled_destroy(out);
        return status;
    }
    *out_compiled = out;
    return STATOR_OK;
}
