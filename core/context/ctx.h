/* core/context is what a session has at hand before anything is compiled: the context with its log
 * and errors, backend instances (nested.h), fuel (fuel.h), the handle of a compile
 * (compile_handle.h) and what is found by it, dumps (dump.h) and lines that wait (deferred_log.h).
 *
 * The context: one session's memory account, op table, plugins, log and last error. No globals:
 * what needs any of these gets the context. */
#ifndef STATOR_CONTEXT_CTX_H
#define STATOR_CONTEXT_CTX_H

#include "core/base/alloc.h"
#include "core/base/diag.h"
#include "core/plugins/registry.h"
#include "core/runtime/pool.h"
#include "core/runtime/profile.h"
#include "core/runtime/tensor.h"
#include "ir/optable.h"
#include <pthread.h>
#include <stator/stator.h>

#define ST_HINTS "perf_hints" /* a log channel; see hints.h */

typedef struct st_log_channel {
    char name[32];
    uint32_t level;
} st_log_channel;

struct stator_ctx {
    st_mem mem;
    st_pool pool;
    st_profile profile; /* off, see stator_x_profile_start */
    st_optable ops;
    st_registry *registry;
    stator_host host;
    int32_t threads;
    uint32_t is_threads_given; /* not counted by us */
    uint32_t flags;
    st_log_channel channels[32];
    uint32_t n_channels;
    void (*log)(void *self, const char *channel, uint32_t level, const char *text);
    void *log_self;
    pthread_mutex_t lock;       /* guards errors, packs, last_file, what helpers log and dump */
    pthread_mutex_t oplib_lock; /* held while op libraries fill the op table */
    struct st_error *errors;    /* the last failure of each thread that failed */
    uint32_t oplibs_loaded;
    struct st_file *last_file;    /* last file of cst.from_file; its ranges share the mapping */
    struct st_pack *packs;        /* packed constants by (content hash, format key) */
    struct st_cache_store *cache; /* NULL until it is asked for; see cache.h */
    struct st_cache_writer *cache_writer; /* entries that wait to be written */
    struct st_cache_job *cache_jobs;      /* compiles that are in the middle of it */
    struct st_domain *domains;            /* memories of devices in use; see devices.h */
    pthread_mutex_t devices_lock;         /* of the list; held while a domain is opened */
};

/* Stores a failure as the context's last error and gives its code back: every public function ends
 * in `return st_ctx_fail(ctx, status, diag);`. Takes the diag; OK stores nothing. */
stator_status st_ctx_fail(stator_ctx *ctx, stator_status status, stator_diag *diag);
/* Gives the application a struct of `type` as far as its struct_size goes; see sized.h. */
#define ST_CTX_WRITE(ctx, type, out, from) st_ctx_write((ctx), (out), (from), sizeof(type), #type)
stator_status st_ctx_write(stator_ctx *ctx, void *out, const void *from, uint32_t size,
                           const char *type);

bool st_log_enabled(const stator_ctx *ctx, const char *channel, uint32_t level);
void st_log(stator_ctx *ctx, const char *channel, uint32_t level, const char *format, ...)
    STATOR_PRINTF(4, 5);

/* Where the log goes and which channels are heard; then, once it works, a warning of channels that
 * nothing of Stator writes to. */
void st_log_init(stator_ctx *ctx, const stator_ctx_options *options);
void st_log_check_channels(stator_ctx *ctx, const stator_ctx_options *options);
void st_errors_free(stator_ctx *ctx);

#endif
