/* The compile cache of a context: opening it, one compile's job, the slots for plugins. See the
 * header. */
#define _GNU_SOURCE
#include "core/cache/cache.h"

#include "core/base/cache_root.h"
#include "core/context/dump.h"

#include "core/base/threads/threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CAP_BYTES (UINT64_C(4) << 30)
#define PACK_BYTES_MIN (UINT64_C(32) << 10) /* smaller ones are made again faster */

/* ---- opening ---- */

static const char *setting(const stator_ctx *ctx, const char *name)
{
    return (ctx->flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv(name) : NULL;
}

/* A setting that cannot be used is told, not passed over. */
static void warn(stator_ctx *ctx, const char *name, const char *text, const char *wanted)
{
    if (text != NULL && text[0] != '\0') {
        st_log(ctx, "cache", 1, "%s='%.200s' is not used: %s", name, text, wanted);
    }
}

/* 0: there is none. A path from somewhere else would be another folder in each process. */
static bool find_root(stator_ctx *ctx, char out[4096])
{
    const char *own = setting(ctx, "STATOR_CACHE_DIR");
    if (own != NULL && own[0] != '/') {
        warn(ctx, "STATOR_CACHE_DIR", own, "the path of the folder must begin with '/'");
        own = NULL;
    }
    return st_cache_root(own, out);
}

/* STATOR_CACHE_SIZE: a number of bytes, or of K, M or G. */
static uint64_t find_cap(stator_ctx *ctx)
{
    const char *text = setting(ctx, "STATOR_CACHE_SIZE");
    char *end = NULL;
    if (text != NULL && text[0] >= '0' && text[0] <= '9') {
        errno = 0;
        const unsigned long long n = strtoull(text, &end, 10);
        const unsigned shift = *end == 'K' ? 10u : *end == 'M' ? 20u : *end == 'G' ? 30u : 0u;
        end += shift != 0;
        if (errno == 0 && *end == '\0' && n <= UINT64_MAX >> shift) {
            return (uint64_t)n << shift;
        }
    }
    warn(ctx, "STATOR_CACHE_SIZE", text, "expected whole bytes, or such with K, M or G");
    return CAP_BYTES;
}

static bool is_one_of(const char *text, const char *const words[4])
{
    for (uint32_t i = 0; i < 4; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_switched_off(const stator_ctx *ctx)
{
    static const char *const off[4] = {"0", "off", "no", "false"};
    const char *text = setting(ctx, "STATOR_CACHE");
    return (ctx->flags & STATOR_CTX_NO_CACHE) != 0 || (text != NULL && is_one_of(text, off));
}

/* Warns of a STATOR_CACHE that is no known word: its writer meant something by it. */
static void check_switch(stator_ctx *ctx)
{
    static const char *const on[4] = {"1", "on", "yes", "true"};
    const char *text = setting(ctx, "STATOR_CACHE");
    if (text != NULL && !is_one_of(text, on)) {
        warn(ctx, "STATOR_CACHE", text, "expected 0, off, no or false, or 1, on, yes or true");
    }
}

/* A file of the folder that does not check. */
static void say_damaged(void *self, const char *file)
{
    st_log(self, "cache", 2,
           "%s is damaged (its size or its checksum is wrong): removed, made anew", file);
}

static st_cache_store *open_store(stator_ctx *ctx)
{
    char root[4096];
    st_cache_store *store = st_calloc(&ctx->mem, 1, sizeof *store);
    if (store != NULL) {
        check_switch(ctx);
        st_cache_store_open(store, &ctx->mem, find_root(ctx, root) ? root : NULL, find_cap(ctx),
                            ctx->threads);
        store->on_damage = say_damaged;
        store->on_damage_self = ctx;
    }
    return store;
}

st_cache_store *st_cache_look(stator_ctx *ctx)
{
    if (is_switched_off(ctx)) {
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    st_cache_store *store = ctx->cache;
    pthread_mutex_unlock(&ctx->lock);
    if (store != NULL) {
        return store;
    }
    store = open_store(ctx);
    pthread_mutex_lock(&ctx->lock);
    st_cache_store *other = ctx->cache; /* another thread was faster */
    if (other == NULL) {
        ctx->cache = store;
    }
    pthread_mutex_unlock(&ctx->lock);
    if (other != NULL && store != NULL) {
        st_cache_store_close(store);
        st_free(&ctx->mem, store);
    }
    return other != NULL ? other : store;
}

st_cache_store *st_cache_of(stator_ctx *ctx)
{
    st_cache_store *store = st_cache_look(ctx);
    if (store == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    st_cache_store_make(store);
    const bool is_news = !store->is_told;
    store->is_told = 1;
    pthread_mutex_unlock(&ctx->lock);
    if (is_news && store->fd >= 0) {
        st_log(ctx, "cache", 2, "in %s", store->folder);
    } else if (is_news) {
        /* without any folder named, HOME neither, nobody asked for a cache */
        st_log(ctx, "cache", store->folder != NULL ? 1 : 2,
               "compiled programs are not kept on disk: %s; STATOR_CACHE_DIR names another folder, "
               "STATOR_CACHE=0 does without",
               store->reason);
    }
    return store;
}

void st_cache_destroy(stator_ctx *ctx)
{
    st_cache_writer_destroy(ctx->cache_writer);
    if (ctx->cache != NULL) {
        st_cache_store_close(ctx->cache);
        st_free(&ctx->mem, ctx->cache);
        ctx->cache = NULL;
    }
}

/* ---- a job ---- */

static void enter(st_cache_job *job)
{
    stator_ctx *ctx = job->request->ctx;
    pthread_mutex_lock(&ctx->lock);
    job->next = ctx->cache_jobs;
    ctx->cache_jobs = job;
    pthread_mutex_unlock(&ctx->lock);
}

static void leave(st_cache_job *job)
{
    stator_ctx *ctx = job->request->ctx;
    pthread_mutex_lock(&ctx->lock);
    st_cache_job **at = &ctx->cache_jobs;
    while (*at != job) {
        at = &(*at)->next;
    }
    *at = job->next;
    pthread_mutex_unlock(&ctx->lock);
}

/* The cache job of this thread's compile or load; NULL: none. */
static st_cache_job *job_of(stator_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    st_cache_job *job = ctx->cache_jobs;
    while (job != NULL && !pthread_equal(job->thread, pthread_self())) {
        job = job->next;
    }
    pthread_mutex_unlock(&ctx->lock);
    return job;
}

void st_cache_begin(st_cache_job *job, const st_compile_request *request)
{
    stator_ctx *ctx = request->ctx;
    *job = (st_cache_job){.thread = pthread_self(), .request = request};
    st_str_init(&job->key, &ctx->mem);
    st_cache_store *store =
        (request->flags & STATOR_COMPILE_NO_CACHE) == 0 ? st_cache_of(ctx) : NULL;
    job->refusal = store == NULL ? "the cache is switched off" : store->reason;
    if (store != NULL && store->fd >= 0) {
        job->store = store;
        const uint64_t start = st_now_ns();
        job->refusal = st_cache_make_key(job);
        if (job->refusal != NULL) {
            st_log(ctx, "cache", 2, "left out: %s", job->refusal);
            job->store = NULL;
        } else {
            st_log(ctx, "cache", 3, "key %s in %.1f ms", job->name,
                   (double)(st_now_ns() - start) / 1e6);
        }
    }
    if (job->store != NULL && st_cache_writer_has(ctx->cache_writer, ST_CACHE_CODE, job->name)) {
        st_cache_writer_flush(ctx->cache_writer);
    }
    /* Code that is to be shown is made, not loaded. */
    job->may_read =
        job->store != NULL && !st_log_enabled(ctx, "output_code", 2) && !st_dump_is_on(ctx);
    job->phase = job->store != NULL ? ST_CACHE_COMPILING : ST_CACHE_OFF;
    enter(job);
}

static void forget_constants(st_cache_job *job)
{
    for (uint32_t i = 0; i < job->constants.count; i++) {
        st_blob_release(job->constants.data[i].blob);
    }
    st_vec_free(&job->request->ctx->mem, &job->constants);
}

void st_cache_end(st_cache_job *job)
{
    leave(job);
    st_cache_writer_put(job->request->ctx->cache_writer, &job->parcel);
    forget_constants(job);
    st_str_deinit(&job->key);
}

static void explain(st_cache_job *job, const st_cache_bytes *entry, st_str *out)
{
    if (entry->is_damaged) {
        st_str_add(out, "its entry was damaged (size or checksum was wrong) and is removed");
    } else {
        st_cache_explain(job, out);
    }
}

bool st_cache_ask(const st_compile_request *request, st_str *out)
{
    st_cache_job job;
    st_cache_bytes entry;
    bool is_hit = false;
    st_cache_begin(&job, request);
    if (job.store == NULL) {
        st_str_add(out, job.refusal);
    } else if (st_cache_read(job.store, ST_CACHE_CODE, job.name, job.key.data, &entry)) {
        st_str_add(out, job.name);
        st_free(&request->ctx->mem, entry.file);
        is_hit = true;
    } else {
        explain(&job, &entry, out);
    }
    st_cache_end(&job);
    return is_hit;
}

static void say_missed(st_cache_job *job, const st_cache_bytes *entry)
{
    stator_ctx *ctx = job->request->ctx;
    st_str why;
    if (!st_log_enabled(ctx, "cache", 2)) {
        return;
    }
    st_str_init(&why, &ctx->mem);
    explain(job, entry, &why);
    st_log(ctx, "cache", 2, "miss %s: %s", job->name,
           st_str_ok(&why) && why.data != NULL ? why.data : "out of memory");
    st_str_deinit(&why);
}

/* Channels of what a hit does not do would else be silent, as if there were nothing to tell. */
static void say_loaded(const st_cache_job *job)
{
    for (uint32_t i = 0; i < ST_COMPILE_CHANNELS; i++) {
        st_log(job->request->ctx, st_compile_channels[i], 2,
               "the program came from the cache (%s), so there is nothing to tell: STATOR_CACHE=0 "
               "compiles it anew",
               job->name);
    }
}

bool st_cache_load(st_cache_job *job, st_compiled *out)
{
    stator_ctx *ctx = job->request->ctx;
    st_cache_bytes entry;
    stator_diag *why = NULL;
    ST_NEED(job->may_read);
    const uint64_t start = st_now_ns();
    const uint64_t refused = atomic_load(&ctx->mem.refused);
    if (!st_cache_read(job->store, ST_CACHE_CODE, job->name, job->key.data, &entry)) {
        say_missed(job, &entry);
        return false;
    }
    job->phase = ST_CACHE_LOADING;
    const stator_status status =
        st_cache_read_compiled(job, entry.payload, entry.size_bytes, out, &why);
    job->phase = ST_CACHE_COMPILING;
    st_free(&ctx->mem, entry.file);
    forget_constants(job);
    if (status == STATOR_OK) {
        st_log(ctx, "cache", 2, "hit %s, loaded in %.1f ms", job->name,
               (double)(st_now_ns() - start) / 1e6);
        say_loaded(job);
    } else {
        st_log(ctx, "cache", 2, "miss %s: the entry cannot be used: %s", job->name,
               st_diag_text(why));
        /* No memory is no fault of the entry, and may have passed for damage. */
        if (status != STATOR_RESOURCE_EXHAUSTED && atomic_load(&ctx->mem.refused) == refused) {
            st_cache_remove(job->store, ST_CACHE_CODE, job->name);
        }
        st_compiled_clear(out);
    }
    out->is_cached = status == STATOR_OK;
    st_diag_release(why);
    return status == STATOR_OK;
}

/* The program, behind its constants. 0: out of memory. */
static bool add_program(st_cache_job *job, const st_str *bytes)
{
    st_mem *mem = &job->request->ctx->mem;
    stator_blob *blob = st_blob_copy(mem, bytes->data, bytes->len);
    const st_cache_item item = {
        .key = job->key.data, .name = job->name, .payload = blob, .kind = ST_CACHE_CODE};
    const bool is_added = blob != NULL && st_cache_parcel_add(mem, &job->parcel, &item);
    st_blob_release(blob);
    return is_added;
}

void st_cache_save(st_cache_job *job, const st_compiled *compiled)
{
    stator_ctx *ctx = job->request->ctx;
    stator_diag *why = NULL;
    st_str bytes;
    if (job->store == NULL) {
        return;
    }
    st_str_init(&bytes, &ctx->mem);
    job->phase = ST_CACHE_SAVING;
    stator_status status = st_cache_write_compiled(job, compiled, &bytes, &why);
    if (status == STATOR_OK && !add_program(job, &bytes)) {
        status = st_fail_oom(&why);
    }
    if (status != STATOR_OK) {
        st_log(ctx, "cache", 2, "not kept: %s", st_diag_text(why));
    }
    job->phase = ST_CACHE_OFF;
    st_diag_release(why);
    st_str_deinit(&bytes);
}

/* ---- packed constants ---- */

static bool is_for_packs(const st_cache_job *job)
{
    return job != NULL && job->store != NULL &&
           (job->phase == ST_CACHE_COMPILING || job->phase == ST_CACHE_LOADING);
}

static bool pack_key(const uint8_t hash[16], const char *format, char key[256],
                     char name[ST_CACHE_NAME_BYTES])
{
    uint64_t halves[2];
    memcpy(halves, hash, sizeof halves);
    const int n = snprintf(key, 256, "packed: %016llx%016llx %s", (unsigned long long)halves[0],
                           (unsigned long long)halves[1], format);
    ST_NEED(n > 0 && n < 256);
    st_cache_name(key, (uint64_t)n, name);
    return true;
}

stator_blob *st_cache_pack_find(stator_ctx *ctx, const uint8_t hash[16], const char *format,
                                uint64_t size_bytes)
{
    char key[256];
    char name[ST_CACHE_NAME_BYTES];
    const st_cache_job *job = size_bytes >= PACK_BYTES_MIN ? job_of(ctx) : NULL;
    return is_for_packs(job) && pack_key(hash, format, key, name)
               ? st_cache_map(job->store, name, key, size_bytes)
               : NULL;
}

void st_cache_pack_keep(stator_ctx *ctx, const uint8_t hash[16], const char *format,
                        stator_blob *blob)
{
    char key[256];
    char name[ST_CACHE_NAME_BYTES];
    const uint64_t size = st_blob_size(blob);
    st_cache_job *job = size >= PACK_BYTES_MIN ? job_of(ctx) : NULL;
    const st_cache_item item = {.key = key, .name = name, .payload = blob, .kind = ST_CACHE_DATA};
    if (is_for_packs(job) && job->data_bytes + size <= job->store->cap_bytes / 2u &&
        pack_key(hash, format, key, name) && st_cache_parcel_add(&ctx->mem, &job->parcel, &item)) {
        job->data_bytes += size;
    }
}

/* ---- what plugins ask ---- */

static int32_t wanted(stator_ctx *ctx)
{
    const st_cache_job *job = job_of(ctx);
    return job != NULL && job->phase == ST_CACHE_COMPILING;
}

static stator_status put_constant(stator_ctx *ctx, stator_blob *blob, uint32_t *out_id,
                                  stator_diag **err)
{
    st_cache_job *job = job_of(ctx);
    st_cached_constant row = {.blob = blob};
    *out_id = 0;
    ST_REQUIRE(blob, err);
    ST_FAIL_IF(job == NULL || job->phase != ST_CACHE_SAVING, err, STATOR_FAILED_PRECONDITION,
               "nothing is being kept on this thread");
    ST_TRY(st_blob_hash(blob, row.hash, err));
    row.size_bytes = st_blob_size(blob);
    for (uint32_t i = 0; i < job->constants.count; i++) {
        if (job->constants.data[i].size_bytes == row.size_bytes &&
            memcmp(job->constants.data[i].hash, row.hash, sizeof row.hash) == 0) {
            *out_id = i;
            return STATOR_OK;
        }
    }
    st_cached_constant *at = st_vec_push(&ctx->mem, &job->constants);
    ST_TRY_MEM(at, err);
    st_blob_retain(blob);
    *at = row;
    *out_id = job->constants.count - 1u;
    return STATOR_OK;
}

static stator_status get_constant(stator_ctx *ctx, uint32_t id, stator_blob **out,
                                  stator_diag **err)
{
    const st_cache_job *job = job_of(ctx);
    *out = NULL;
    ST_FAIL_IF(job == NULL || job->phase != ST_CACHE_LOADING || id >= job->constants.count, err,
               STATOR_DATA_LOSS, "there is no constant %u", id);
    *out = job->constants.data[id].blob;
    st_blob_retain(*out);
    return STATOR_OK;
}

const stator_cache_api st_cache_api = {.struct_size = sizeof st_cache_api,
                                       .wanted = wanted,
                                       .put_constant = put_constant,
                                       .get_constant = get_constant};
