/* Deferred lines of perf_hints; see the header. A compile whose backend declines nodes is made
 * again, and what the first attempt said of the parts that it did compile would be said twice; what
 * is the same of each part is said once.
 *
 * Like the dumps of dump.c they are found by the thread: a backend compiles on the thread that asks
 * it to, and its log has no other tie to the compile. */
#include "core/context/deferred_log.h"

#include <stdatomic.h>
#include <string.h>

void st_deferred_log_begin(st_deferred_log *deferred, stator_ctx *ctx)
{
    *deferred = (st_deferred_log){.ctx = ctx, .thread = pthread_self()};
    (void)pthread_mutex_lock(&ctx->lock);
    deferred->next = ctx->deferred;
    ctx->deferred = deferred;
    (void)pthread_mutex_unlock(&ctx->lock);
    atomic_fetch_add(&ctx->n_deferred, 1u);
}

/* The newest of this thread; NULL: none. */
static st_deferred_log *deferred_of(stator_ctx *ctx)
{
    (void)pthread_mutex_lock(&ctx->lock);
    st_deferred_log *deferred = ctx->deferred;
    while (deferred != NULL && !pthread_equal(deferred->thread, pthread_self())) {
        deferred = deferred->next;
    }
    (void)pthread_mutex_unlock(&ctx->lock);
    return deferred;
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

bool st_deferred_log_take(stator_ctx *ctx, const char *channel, const char *text)
{
    if (atomic_load(&ctx->n_deferred) == 0 || strcmp(channel, ST_HINTS) != 0) {
        return false;
    }
    st_deferred_log *deferred = deferred_of(ctx);
    if (deferred != NULL && has_line(deferred, text)) {
        return true;
    }
    const size_t bytes = strlen(text) + 1u;
    char *line = deferred != NULL ? st_alloc(&ctx->mem, bytes, 1) : NULL;
    char **slot = line != NULL ? st_vec_push(&ctx->mem, &deferred->lines) : NULL;
    if (slot == NULL) {
        st_free(&ctx->mem, line);
        return false;
    }
    memcpy(line, text, bytes);
    *slot = line;
    return true;
}

void st_deferred_log_end(st_deferred_log *deferred, bool is_said)
{
    stator_ctx *ctx = deferred->ctx;
    atomic_fetch_sub(&ctx->n_deferred, 1u);
    (void)pthread_mutex_lock(&ctx->lock);
    st_deferred_log **at = &ctx->deferred;
    while (*at != deferred) {
        at = &(*at)->next;
    }
    *at = deferred->next;
    (void)pthread_mutex_unlock(&ctx->lock);
    for (uint32_t i = 0; i < deferred->lines.count; i++) {
        if (is_said) {
            st_log(ctx, ST_HINTS, 2, "%s", deferred->lines.data[i]);
        }
        st_free(&ctx->mem, deferred->lines.data[i]);
    }
    st_vec_free(&ctx->mem, &deferred->lines);
}
