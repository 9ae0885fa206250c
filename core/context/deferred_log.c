/* Deferred lines of perf_hints; see the header. A compile whose backend declines nodes is made
 * again, and what the first attempt said of the parts that it did compile would be said twice; what
 * is the same of each part is said once. */
#include "core/context/deferred_log.h"

#include <string.h>

void st_deferred_log_begin(st_deferred_log *deferred, stator_ctx *ctx)
{
    *deferred = (st_deferred_log){.lines = {0}};
    st_compile_enter(&deferred->handle, ctx);
    deferred->handle.deferred = deferred;
}

static bool has_line(const st_deferred_log *deferred, const char *text)
{
    for (uint32_t i = 0; i < deferred->lines.count; i++) {
        if (strcmp(deferred->lines.data[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* False: there is no memory for it. */
static bool add_line(st_deferred_log *deferred, st_mem *mem, const char *text)
{
    char *line = st_strdup(mem, text);
    char **slot = line != NULL ? st_vec_push(mem, &deferred->lines) : NULL;
    if (slot == NULL) {
        st_free(mem, line);
        return false;
    }
    *slot = line;
    return true;
}

bool st_deferred_log_take(stator_ctx *ctx, const char *channel, const char *text)
{
    st_deferred_log *deferred = st_compile_of(ctx).deferred;
    if (deferred == NULL || strcmp(channel, ST_HINTS) != 0) {
        return false;
    }
    (void)pthread_mutex_lock(&ctx->lock); /* helpers of the compile say something too */
    const bool is_taken = has_line(deferred, text) || add_line(deferred, &ctx->mem, text);
    (void)pthread_mutex_unlock(&ctx->lock);
    return is_taken;
}

void st_deferred_log_end(st_deferred_log *deferred, bool is_said)
{
    stator_ctx *ctx = deferred->handle.ctx;
    st_compile_leave(&deferred->handle);
    for (uint32_t i = 0; i < deferred->lines.count; i++) {
        if (is_said) {
            st_log(ctx, ST_HINTS, 2, "%s", deferred->lines.data[i]);
        }
        st_free(&ctx->mem, deferred->lines.data[i]);
    }
    st_vec_free(&ctx->mem, &deferred->lines);
}
