/* Creating and ending contexts, the log, the last error, and the public functions over the
 * registry. See ctx.h and stator/stator.h. */
#define _GNU_SOURCE
#include "core/cache/cache.h"
#include "core/context/deferred_log.h"
#include "core/context/dump.h"

#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/base/threads/threads.h"
#include "core/base/utf8.h"
#include "core/runtime/tensor.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- status names ---- */

typedef struct status_row {
    stator_status code;
    const char *name;
    const char *text;
} status_row;

static const status_row status_rows[] = {
#define STATOR_STATUS(name, number, text) {number, #name, text},
#include <stator/status.def>
#undef STATOR_STATUS
};

static const status_row *find_status(stator_status status)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].code == status) {
            return &status_rows[i];
        }
    }
    return &status_rows[2]; /* UNKNOWN */
}

const char *stator_status_name(stator_status status)
{
    return find_status(status)->name;
}

const char *stator_status_text(stator_status status)
{
    return find_status(status)->text;
}

const char *stator_version(void)
{
    return STATOR_VERSION;
}

/* ---- log ---- */

static void log_to_stderr(void *self, const char *channel, uint32_t level, const char *text)
{
    (void)self;
    if (level <= 1) {
        (void)fprintf(stderr, "stator: warning: %s\n", text);
    } else {
        (void)fprintf(stderr, "[%s] %s\n", channel, text);
    }
}

/* A word of STATOR_LOGS: "name" or "name:level". Returns what follows it and its comma. */
static const char *take_word(const char *spec, size_t *out_len, size_t *out_name_len)
{
    *out_len = strcspn(spec, ",");
    *out_name_len = strcspn(spec, ",:");
    return spec + *out_len + (spec[*out_len] == ',');
}

static int is_text(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* STATOR_LOGS is "name,name:debug,..."; a bare name means level info. */
static void parse_channels(stator_ctx *ctx, const char *spec)
{
    size_t len = 0;
    size_t name_len = 0;
    for (const char *word = spec; word != NULL && *word != '\0' && ctx->n_channels < 32;
         word = spec) {
        st_log_channel *c = &ctx->channels[ctx->n_channels];
        spec = take_word(word, &len, &name_len);
        if (name_len > 0 && name_len < sizeof c->name) {
            memcpy(c->name, word, name_len);
            c->name[name_len] = '\0';
            c->level = is_text(word + name_len, len - name_len, ":debug") ? 3 : 2;
            ctx->n_channels++;
        }
    }
}

static const char *const channels[] = {"cache",   "dispatch",    "dump",   "fusion",
                                       "options", "output_code", "passes", ST_HINTS,
                                       "plugins", "recompiles",  "all"};

#define CHANNELS (sizeof channels / sizeof channels[0])

static int is_channel(const char *name, size_t len)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        if (is_text(name, len, channels[i])) {
            return 1;
        }
    }
    return 0;
}

static void say_channels(stator_ctx *ctx, const char *from, const char *unknown, int n_shown)
{
    st_str list;
    st_str_init(&list, &ctx->mem);
    for (size_t i = 0; i < CHANNELS; i++) {
        st_str_addf(&list, "%s%s", i == 0 ? "" : i + 1 < CHANNELS ? ", " : " and ", channels[i]);
    }
    if (st_str_ok(&list)) {
        st_log(ctx, "options", 1,
               "%s: there is no channel '%.*s', unless a plugin has it; there are %s", from,
               n_shown, unknown, list.data);
    }
    st_str_deinit(&list);
}

/* Says which words of `from`, STATOR_LOGS or the option, nothing of Stator listens to. */
static void check_channels(stator_ctx *ctx, const char *from, const char *spec)
{
    size_t len = 0;
    size_t name_len = 0;
    for (const char *word = spec; word != NULL && *word != '\0'; word = spec) {
        spec = take_word(word, &len, &name_len);
        const char *level = word + name_len;
        const size_t level_len = len - name_len;
        const int name_shown = name_len < 64 ? (int)name_len : 64;
        if (len > 0 && !is_channel(word, name_len)) {
            say_channels(ctx, from, word, name_shown);
        }
        if (level_len > 0 && !is_text(level, level_len, ":debug") &&
            !is_text(level, level_len, ":info")) {
            st_log(ctx, "options", 1, "%s: '%.*s' is no level of '%.*s'; there are info and debug",
                   from, level_len < 64 ? (int)level_len - 1 : 64, level + 1, name_shown, word);
        }
    }
}

/* Does anybody listen beside what STATOR_DUMP writes down? Warnings are always heard. */
static int is_heard(const stator_ctx *ctx, const char *channel, uint32_t level)
{
    for (uint32_t i = 0; i < ctx->n_channels; i++) {
        const st_log_channel *c = &ctx->channels[i];
        if (level <= c->level && (strcmp(c->name, channel) == 0 || strcmp(c->name, "all") == 0)) {
            return 1;
        }
    }
    return level <= 1;
}

int st_log_enabled(const stator_ctx *ctx, const char *channel, uint32_t level)
{
    return is_heard(ctx, channel, level) || st_dump_hears(ctx, channel, level);
}

/* Names of models and plugins are among what is logged; texts of several lines are kept. */
static void make_printable(st_str *text)
{
    if (st_str_ok(text) && st_printable(NULL, text->data, text->len, ST_LINES_ALL) != text->len) {
        st_str shown;
        st_str_init(&shown, text->mem);
        st_str_add_printable(&shown, text->data, text->len, ST_LINES_ALL);
        st_str_deinit(text);
        *text = shown;
    }
}

void st_log(stator_ctx *ctx, const char *channel, uint32_t level, const char *format, ...)
{
    const int is_dumped = st_dump_hears(ctx, channel, level);
    const int is_said = is_heard(ctx, channel, level);
    if (!is_dumped && !is_said) {
        return;
    }
    st_str text;
    st_str_init(&text, &ctx->mem);
    va_list args;
    va_start(args, format);
    st_str_vaddf(&text, format, args);
    va_end(args);
    make_printable(&text);
    const char *line = text.data != NULL ? text.data : "";
    const int is_deferred =
        st_str_ok(&text) && level == 2 && st_deferred_log_take(ctx, channel, line);
    if (is_dumped && !is_deferred && st_str_ok(&text)) {
        st_dump_line(ctx, channel, line);
    }
    if (is_said && !is_deferred && st_str_ok(&text)) {
        ctx->log(ctx->log_self, channel, level, line);
    }
    st_str_deinit(&text);
}

/* ---- the last error ---- */

/* One entry a thread: what a caller reads is never taken away by another thread's failure. Entries
 * are few (threads that failed) and end with the context. */
struct st_error {
    struct st_error *next;
    pthread_t thread;
    stator_diag *diag;
};

/* The calling thread's entry, made when wanted; NULL when there is none. */
static struct st_error *error_of(stator_ctx *ctx, int make)
{
    const pthread_t self = pthread_self();
    pthread_mutex_lock(&ctx->lock);
    struct st_error *entry = ctx->errors;
    while (entry != NULL && !pthread_equal(entry->thread, self)) {
        entry = entry->next;
    }
    if (entry == NULL && make) {
        entry = st_process_alloc(sizeof *entry);
        if (entry != NULL) {
            *entry = (struct st_error){.next = ctx->errors, .thread = self};
            ctx->errors = entry;
        }
    }
    pthread_mutex_unlock(&ctx->lock);
    return entry;
}

stator_status st_ctx_fail(stator_ctx *ctx, stator_status status, stator_diag *diag)
{
    if (status == STATOR_OK) {
        st_diag_release(diag);
        return STATOR_OK;
    }
    if (diag == NULL) {
        diag =
            st_diag_create(status, stator_status_text(status), strlen(stator_status_text(status)));
    }
    struct st_error *entry = error_of(ctx, 1);
    if (entry == NULL) {
        st_diag_release(diag); /* no memory to remember it by; the code says enough */
        return status;
    }
    st_diag_release(entry->diag);
    entry->diag = diag;
    return status;
}

stator_status st_ctx_write(stator_ctx *ctx, void *out, const void *from, uint32_t size,
                           const char *type)
{
    stator_diag *diag = NULL;
    const stator_status status = st_sized_write(out, from, size, type, &diag);
    return status != STATOR_OK ? st_ctx_fail(ctx, status, diag) : STATOR_OK;
}

static const stator_diag *last_error(stator_ctx *ctx)
{
    const struct st_error *entry = ctx != NULL ? error_of(ctx, 0) : NULL;
    return entry != NULL ? entry->diag : NULL;
}

const char *stator_ctx_error_text(stator_ctx *ctx)
{
    return st_diag_text(last_error(ctx));
}

const char *stator_ctx_error_hint(stator_ctx *ctx)
{
    const stator_diag *diag = last_error(ctx);
    return diag != NULL ? st_diag_hint(diag) : NULL;
}

stator_status stator_ctx_error_code(stator_ctx *ctx)
{
    const stator_diag *diag = last_error(ctx);
    return diag != NULL ? st_diag_code(diag) : STATOR_OK;
}

static void free_errors(stator_ctx *ctx)
{
    while (ctx->errors != NULL) {
        struct st_error *entry = ctx->errors;
        ctx->errors = entry->next;
        st_diag_release(entry->diag);
        st_process_free(entry);
    }
}

/* ---- life ---- */

static void warn_of_plugin(void *self, const char *text)
{
    st_log(self, "plugins", 1, "%s", text);
}

static stator_status ctx_open(stator_ctx *ctx, const stator_ctx_options *options, stator_diag **err)
{
    ST_TRY(st_optable_init(&ctx->ops, &ctx->mem, err));
    st_host_table_init(ctx);
    const st_registry_options registry = {.mem = &ctx->mem,
                                          .host = &ctx->host,
                                          .flags = options->flags,
                                          .plugin_dir_count = options->plugin_dir_count,
                                          .plugin_dirs = options->plugin_dirs,
                                          .warn = warn_of_plugin,
                                          .warn_self = ctx};
    return st_registry_create(&registry, &ctx->registry, err);
}

#define CTX_FLAGS (2u * STATOR_CTX_NO_CACHE - 1u) /* stator_ctx_flag, all of it */

stator_status stator_ctx_create(const stator_ctx_options *given, stator_ctx **out_ctx)
{
    *out_ctx = NULL;
    stator_ctx_options options = {.struct_size = sizeof options};
    if (given != NULL) {
        ST_TRY(ST_SIZED_READ(stator_ctx_options, &options, given, NULL));
    }
    ST_TRY(st_check_flags(options.flags, CTX_FLAGS, "stator_ctx_options", NULL));
    if ((options.alloc == NULL) != (options.free == NULL)) {
        return STATOR_INVALID_ARGUMENT;
    }
    st_mem first;
    st_mem_init(&first, options.alloc, options.free, options.alloc_self, 0);
    stator_ctx *ctx = st_calloc(&first, 1, sizeof *ctx);
    if (ctx == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    st_mem_init(&ctx->mem, options.alloc, options.free, options.alloc_self,
                options.memory_limit_bytes);
    st_pool_init(&ctx->pool, &ctx->mem);
    st_profile_init(&ctx->profile, &ctx->mem);
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_mutex_init(&ctx->oplib_lock, NULL);
    st_cache_writer_init(&ctx->cache_writer, ctx);
    ctx->flags = options.flags;
    ctx->is_threads_given = options.threads > 0;
    ctx->threads = options.threads > 0 ? options.threads : st_cpu_count();
    ctx->log = options.log != NULL ? options.log : log_to_stderr;
    ctx->log_self = options.log_self;
    const char *named =
        (options.flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv("STATOR_LOGS") : NULL;
    parse_channels(ctx, named);
    parse_channels(ctx, options.log_channels);
    stator_diag *diag = NULL;
    const stator_status status = ctx_open(ctx, &options, &diag);
    st_diag_release(diag);
    if (status != STATOR_OK) {
        stator_ctx_destroy(ctx);
        return status;
    }
    check_channels(ctx, "STATOR_LOGS", named);
    check_channels(ctx, "log_channels", options.log_channels);
    *out_ctx = ctx;
    return STATOR_OK;
}

void stator_ctx_destroy(stator_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    st_cache_destroy(ctx);
    st_registry_destroy(ctx->registry);
    st_packs_destroy(ctx);
    st_optable_deinit(&ctx->ops);
    free_errors(ctx);
    st_pool_deinit(&ctx->pool);
    st_profile_deinit(&ctx->profile);
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->oplib_lock);
    st_mem last;
    st_mem_init(&last, ctx->mem.raw_alloc, ctx->mem.raw_free, ctx->mem.raw_self, 0);
    st_free(&last, ctx);
}

void stator_ctx_mem_stats(stator_ctx *ctx, stator_mem_stats *out)
{
    const stator_mem_stats stats = {.struct_size = sizeof stats,
                                    .live_bytes = atomic_load(&ctx->mem.live_bytes),
                                    .peak_bytes = atomic_load(&ctx->mem.peak_bytes),
                                    .live_blocks = atomic_load(&ctx->mem.live_blocks)};
    (void)ST_CTX_WRITE(ctx, stator_mem_stats, out, &stats);
}

void stator_ctx_mem_reset_peak(stator_ctx *ctx)
{
    atomic_store(&ctx->mem.peak_bytes, atomic_load(&ctx->mem.live_bytes));
}

const stator_host *stator_ctx_host(stator_ctx *ctx)
{
    return &ctx->host;
}

/* ---- plugins ---- */

stator_status stator_ctx_scan(stator_ctx *ctx)
{
    stator_diag *diag = NULL;
    const stator_status status = st_registry_scan(ctx->registry, &diag);
    return st_ctx_fail(ctx, status, diag);
}

uint32_t stator_ctx_item_count(stator_ctx *ctx)
{
    return st_registry_count(ctx->registry);
}

static stator_status item_at(stator_ctx *ctx, uint32_t index, const st_registry_item **out_item,
                             stator_diag **err)
{
    *out_item = st_registry_at(ctx->registry, index);
    return *out_item != NULL
               ? STATOR_OK
               : st_fail(err, STATOR_OUT_OF_RANGE, "there is no plugin item %u", index);
}

stator_status stator_ctx_item_info(stator_ctx *ctx, uint32_t index, stator_item_info *out_info)
{
    const st_registry_item *item = NULL;
    stator_diag *diag = NULL;
    stator_status status = item_at(ctx, index, &item, &diag);
    if (status == STATOR_OK) {
        const stator_item_info info = st_registry_info(ctx->registry, item);
        status = ST_SIZED_WRITE(stator_item_info, out_info, &info, &diag);
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_ctx_item_probe(stator_ctx *ctx, uint32_t index)
{
    const st_registry_item *item = NULL;
    stator_diag *diag = NULL;
    stator_status status = item_at(ctx, index, &item, &diag);
    if (status == STATOR_OK) {
        status = st_registry_probe(ctx->registry, item, &diag);
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_backend_register(stator_ctx *ctx, const stator_backend *backend, void *self)
{
    stator_diag *diag = NULL;
    const stator_status status = st_registry_add_static(ctx->registry, backend, self, &diag);
    return st_ctx_fail(ctx, status, diag);
}

static stator_status add_oplib(void *self, const st_loaded *loaded)
{
    stator_ctx *ctx = self;
    const stator_oplib *lib = loaded->as.oplib;
    for (uint32_t i = 0; i < lib->op_count; i++) {
        stator_diag *diag = NULL;
        const st_oplib_call *call = &loaded->oplib_calls[i];
        const stator_status status = st_optable_add(&ctx->ops, loaded->callee->name, &call->op,
                                                    (void *)(uintptr_t)call, &diag);
        if (status != STATOR_OK) {
            st_log(ctx, "plugins", 1, "op library %s: %s", lib->item.name, st_diag_text(diag));
        }
        st_diag_release(diag);
        if (status == STATOR_RESOURCE_EXHAUSTED) {
            return status;
        }
    }
    return STATOR_OK;
}

stator_status st_ctx_load_oplibs(stator_ctx *ctx, stator_diag **err)
{
    stator_status status = STATOR_OK;
    pthread_mutex_lock(&ctx->oplib_lock); /* a second thread waits for the whole table */
    if (!ctx->oplibs_loaded) {
        status = st_registry_each(ctx->registry, STATOR_KIND_OPLIB, add_oplib, ctx, err);
        ctx->oplibs_loaded = status == STATOR_OK;
    }
    pthread_mutex_unlock(&ctx->oplib_lock);
    return status;
}

/* ---- tensors ---- */

stator_status stator_tensor_create(stator_ctx *ctx, stator_dtype dtype, uint32_t rank,
                                   const int64_t *shape, stator_tensor **out_tensor)
{
    stator_diag *diag = NULL;
    const stator_status status =
        st_tensor_create(&ctx->mem, &ctx->pool, dtype, rank, shape, out_tensor, &diag);
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_tensor_wrap(stator_ctx *ctx, stator_dtype dtype, uint32_t rank,
                                 const int64_t *shape, const stator_buffer *given,
                                 stator_tensor **out_tensor)
{
    stator_diag *diag = NULL;
    stator_buffer buffer = {.struct_size = sizeof buffer};
    *out_tensor = NULL;
    stator_status status = ST_SIZED_READ(stator_buffer, &buffer, given, &diag);
    if (status == STATOR_OK && rank != 0 && shape == NULL) {
        status =
            st_fail(&diag, STATOR_INVALID_ARGUMENT, "the tensor has %u axes and no shape", rank);
    }
    if (status == STATOR_OK && buffer.reserved != 0) {
        status =
            st_fail(&diag, STATOR_INVALID_ARGUMENT,
                    "member 'reserved' of the stator_buffer is %u; set it to 0", buffer.reserved);
    }
    if (status == STATOR_OK && st_dtype_bits(dtype) == 0) { /* DLPack has no spelling for it */
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "dtype %u is not one of stator/dtype.def",
                         dtype);
    }
    if (status == STATOR_OK) {
        const DLTensor layout = {.dtype = st_dtype_to_dl(dtype),
                                 .ndim = (int32_t)rank,
                                 .shape = (int64_t *)(uintptr_t)shape};
        status = st_tensor_wrap(&ctx->mem, &layout, &buffer, out_tensor, &diag);
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_tensor_from_dlpack(stator_ctx *ctx, DLManagedTensorVersioned *managed,
                                        stator_tensor **out_tensor)
{
    stator_diag *diag = NULL;
    const stator_status status = st_tensor_adopt(&ctx->mem, managed, out_tensor, &diag);
    return st_ctx_fail(ctx, status, diag);
}
