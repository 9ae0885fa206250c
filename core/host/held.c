/* Lines of perf_hints that wait; see the header. A compile whose backend declines nodes is made
 * again, and what the first attempt said of the parts that it did compile would be said twice; what
 * is the same of each part is said once.
 *
 * Like the dumps of dump.c they are found by the thread: a backend compiles on the thread that asks
 * it to, and its log has no other tie to the compile. */
#include "core/host/held.h"

#include <stdatomic.h>
#include <string.h>

void st_held_begin(st_held *held, stator_ctx *ctx)
{
    *held = (st_held){.ctx = ctx, .thread = pthread_self()};
    (void)pthread_mutex_lock(&ctx->lock);
    held->next = ctx->held;
    ctx->held = held;
    (void)pthread_mutex_unlock(&ctx->lock);
    atomic_fetch_add(&ctx->n_held, 1u);
}

/* The newest of this thread; NULL: none. */
static st_held *held_of(stator_ctx *ctx)
{
    (void)pthread_mutex_lock(&ctx->lock);
    st_held *held = ctx->held;
    while (held != NULL && !pthread_equal(held->thread, pthread_self())) {
        held = held->next;
    }
    (void)pthread_mutex_unlock(&ctx->lock);
    return held;
}

static int has_line(const st_held *held, const char *text)
{
    for (uint32_t i = 0; i < held->lines.count; i++) {
        if (strcmp(held->lines.data[i], text) == 0) {
            return 1;
        }
    }
    return 0;
}

int st_held_take(stator_ctx *ctx, const char *channel, const char *text)
{
    if (atomic_load(&ctx->n_held) == 0 || strcmp(channel, ST_HINTS) != 0) {
        return 0;
    }
    st_held *held = held_of(ctx);
    if (held != NULL && has_line(held, text)) {
        return 1;
    }
    const size_t bytes = strlen(text) + 1u;
    char *line = held != NULL ? st_alloc(&ctx->mem, bytes, 1) : NULL;
    char **slot = line != NULL ? st_vec_push(&ctx->mem, &held->lines) : NULL;
    if (slot == NULL) {
        st_free(&ctx->mem, line);
        return 0;
    }
    memcpy(line, text, bytes);
    *slot = line;
    return 1;
}

void st_held_end(st_held *held, int is_said)
{
    stator_ctx *ctx = held->ctx;
    atomic_fetch_sub(&ctx->n_held, 1u);
    (void)pthread_mutex_lock(&ctx->lock);
    st_held **at = &ctx->held;
    while (*at != held) {
        at = &(*at)->next;
    }
    *at = held->next;
    (void)pthread_mutex_unlock(&ctx->lock);
    for (uint32_t i = 0; i < held->lines.count; i++) {
        if (is_said) {
            st_log(ctx, ST_HINTS, 2, "%s", held->lines.data[i]);
        }
        st_free(&ctx->mem, held->lines.data[i]);
    }
    st_vec_free(&ctx->mem, &held->lines);
}
