/* Writing entries of the compile cache in the background; see the header.
 *
 * Whoever writes, the thread or a caller that flushes, sets is_writing, writes one entry
 * without the lock and clears it. The thread stands back while somebody flushes: it
 * has less of a processor than the program's threads (NICE), and nobody shall wait for that. */
#define _GNU_SOURCE
#include "core/cache/cache_writer.h"

#include "core/cache/cache_store.h"
#include "core/context/ctx.h"

#include "core/base/threads/threads.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICE 10         /* a tenth of what a thread that computes gets of a processor */
#define EVICT_EVERY 32u /* programs without data beside them */

/* ---- parcels ---- */

bool st_cache_parcel_add(st_mem *mem, st_cache_parcel *parcel, const st_cache_item *item)
{
    const uint64_t key_bytes = strlen(item->key) + 1u;
    char *key = st_alloc(mem, key_bytes + ST_CACHE_NAME_BYTES, 1);
    st_cache_item *at = key != NULL ? st_vec_push(mem, &parcel->items) : NULL;
    if (at == NULL) {
        st_free(mem, key);
        return false;
    }
    memcpy(key, item->key, key_bytes);
    memcpy(key + key_bytes, item->name, ST_CACHE_NAME_BYTES);
    *at = *item;
    at->key = key;
    at->name = key + key_bytes;
    st_blob_retain(at->payload);
    return true;
}

void st_cache_parcel_deinit(st_mem *mem, st_cache_parcel *parcel)
{
    for (uint32_t i = 0; i < parcel->items.count; i++) {
        st_blob_release(parcel->items.data[i].payload);
        st_free(mem, parcel->items.data[i].key);
    }
    st_vec_free(mem, &parcel->items);
}

/* ---- writing ---- */

static void say_not_kept(stator_ctx *ctx, uint64_t size_bytes, int number)
{
    char text[96] = "";
    const uint64_t cap = ctx->cache->cap_bytes;
    if (size_bytes > cap / 2u) {
        st_log(ctx, "cache", 2,
               "not kept: %llu bytes are more than half of the cache's size, %llu "
               "(STATOR_CACHE_SIZE)",
               (unsigned long long)size_bytes, (unsigned long long)cap);
    } else {
        st_log(ctx, "cache", 2, "not kept: %s", strerror_r(number, text, sizeof text));
    }
}

static void write_program(stator_ctx *ctx, st_cache_parcel *p, const st_cache_item *item,
                          const void *data, uint64_t began)
{
    const uint64_t size = st_blob_size(item->payload);
    if (!st_cache_write(ctx->cache, item->kind, item->name, item->key, data, size)) {
        say_not_kept(ctx, size, errno);
        return;
    }
    p->spent_ns += st_now_ns() - began;
    st_log(ctx, "cache", 2, "kept %s, %llu bytes and %llu beside it, in %.1f ms", item->name,
           (unsigned long long)size, (unsigned long long)p->data_bytes, (double)p->spent_ns / 1e6);
}

static void write_item(stator_ctx *ctx, st_cache_parcel *p)
{
    const st_cache_item *item = &p->items.data[p->n_done];
    const uint64_t began = st_now_ns();
    const void *data = NULL;
    if (p->is_lost || st_blob_get(item->payload, &data, NULL) != STATOR_OK) {
        return;
    }
    if (item->kind == ST_CACHE_CODE) {
        write_program(ctx, p, item, data, began);
        return;
    }
    const uint64_t size = st_blob_size(item->payload);
    if (st_cache_write(ctx->cache, item->kind, item->name, item->key, data, size)) {
        p->data_bytes += size;
    } else if (item->is_needed) {
        p->is_lost = 1;
        st_log(ctx, "cache", 2, "not kept: there is no room for a constant of %llu bytes",
               (unsigned long long)size);
    }
    p->spent_ns += st_now_ns() - began;
}

/* Under the lock, which is given back while the oldest entry is written. */
static void write_next(st_cache_writer *w)
{
    st_cache_parcel *p = w->first;
    st_cache_store *store = w->ctx->cache;
    w->is_writing = 1;
    (void)pthread_mutex_unlock(&w->lock);
    write_item(w->ctx, p);
    const bool is_last = p->n_done + 1u == p->items.count;
    if (is_last && (p->data_bytes != 0 || atomic_fetch_add(&store->saves, 1u) % EVICT_EVERY == 0)) {
        st_cache_evict(store);
    }
    (void)pthread_mutex_lock(&w->lock);
    p->n_done++;
    if (is_last) {
        w->first = p->next;
        st_cache_parcel_deinit(&w->ctx->mem, p);
        st_free(&w->ctx->mem, p);
    }
    w->is_writing = 0;
    (void)pthread_cond_broadcast(&w->is_moved);
}

static void *write_all(void *self)
{
    st_cache_writer *w = self;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICE);
    (void)pthread_mutex_lock(&w->lock);
    while (w->first != NULL && w->n_flushing == 0) {
        if (w->is_writing) {
            (void)pthread_cond_wait(&w->is_moved, &w->lock);
        } else {
            write_next(w);
        }
    }
    w->is_over = 1;
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the thread ---- */

/* Under the lock, which is given back. */
static void join(st_cache_writer *w)
{
    const pthread_t thread = w->thread;
    const int has_thread = (int)w->has_thread;
    w->has_thread = 0;
    (void)pthread_mutex_unlock(&w->lock);
    if (has_thread) {
        (void)pthread_join(thread, NULL);
    }
}

/* No signal of the program's goes to it. */
static bool create(st_cache_writer *w)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_created = pthread_create(&w->thread, NULL, write_all, w) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_created;
}

static bool is_ours(const st_cache_writer *w)
{
    return atomic_load_explicit(&w->process, memory_order_relaxed) == getpid();
}

/* The parent's thread is not here, and its lock may be held for ever. */
static bool is_of_parent(const st_cache_writer *w)
{
    return atomic_load_explicit(&w->process, memory_order_relaxed) != 0 && !is_ours(w);
}

void st_cache_writer_start(st_cache_writer *w)
{
    if (atomic_load_explicit(&w->is_idle, memory_order_relaxed) || !is_ours(w)) {
        return;
    }
    (void)pthread_mutex_lock(&w->lock);
    atomic_store_explicit(&w->is_idle, 1, memory_order_relaxed);
    if (w->first != NULL && (!w->has_thread || w->is_over)) {
        const int was_there = (int)w->has_thread;
        const pthread_t before = w->thread;
        w->is_over = 0;
        w->has_thread = (uint32_t)create(w);
        if (was_there) {
            (void)pthread_join(before, NULL);
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
}

void st_cache_writer_flush(st_cache_writer *w)
{
    if (!is_ours(w)) {
        return;
    }
    (void)pthread_mutex_lock(&w->lock);
    w->n_flushing++;
    while (w->first != NULL) {
        if (w->is_writing) {
            (void)pthread_cond_wait(&w->is_moved, &w->lock);
        } else {
            write_next(w);
        }
    }
    w->n_flushing--;
    join(w);
}

/* ---- the rest ---- */

void st_cache_writer_put(st_cache_writer *w, st_cache_parcel *parcel)
{
    st_mem *mem = &w->ctx->mem;
    const bool is_wanted = parcel->items.count != 0 && !is_of_parent(w);
    st_cache_parcel *own = is_wanted ? st_calloc(mem, 1, sizeof *own) : NULL;
    if (own == NULL) {
        st_cache_parcel_deinit(mem, parcel);
    } else {
        *own = *parcel;
        (void)pthread_mutex_lock(&w->lock);
        atomic_store_explicit(&w->process, getpid(), memory_order_relaxed);
        st_cache_parcel **end = &w->first;
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = own;
        atomic_store_explicit(&w->is_idle, 0, memory_order_relaxed);
        (void)pthread_mutex_unlock(&w->lock);
    }
    *parcel = (st_cache_parcel){.next = NULL};
}

bool st_cache_writer_has(st_cache_writer *w, uint32_t kind, const char *name)
{
    bool has = false;
    if (!is_ours(w)) {
        return false;
    }
    (void)pthread_mutex_lock(&w->lock);
    for (const st_cache_parcel *p = w->first; p != NULL && !has; p = p->next) {
        for (uint32_t i = 0; i < p->items.count && !has; i++) {
            const st_cache_item *item = &p->items.data[i];
            has = item->kind == kind && strcmp(item->name, name) == 0;
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
    return has;
}

st_cache_writer *st_cache_writer_create(stator_ctx *ctx)
{
    st_cache_writer *w = st_calloc(&ctx->mem, 1, sizeof *w);
    if (w != NULL) {
        w->ctx = ctx;
        (void)pthread_mutex_init(&w->lock, NULL);
        (void)pthread_cond_init(&w->is_moved, NULL);
        atomic_init(&w->is_idle, 1);
    }
    return w;
}

void st_cache_writer_destroy(st_cache_writer *w)
{
    if (w != NULL) {
        st_cache_writer_flush(w);
        (void)pthread_cond_destroy(&w->is_moved);
        (void)pthread_mutex_destroy(&w->lock);
        st_free(&w->ctx->mem, w);
    }
}
