/* The log and the last error of a context. See ctx.h and stator/stator.h. */
#define _GNU_SOURCE
#include "core/context/deferred_log.h"
#include "core/context/dump.h"

#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/base/utf8.h"
#include "core/runtime/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_text(const char *text, size_t len, const char *word)
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

static const char *named_channels(const stator_ctx_options *options)
{
    return (options->flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv("STATOR_LOGS") : NULL;
}

static const char *const channels[] = {"cache",   "dispatch",    "dump",   "fusion",
                                       "options", "output_code", "passes", ST_HINTS,
                                       "plugins", "recompiles",  "all"};

#define CHANNELS (sizeof channels / sizeof channels[0])

static bool is_channel(const char *name, size_t len)
{
    for (size_t i = 0; i < CHANNELS; i++) {
        if (is_text(name, len, channels[i])) {
            return true;
        }
    }
    return false;
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

void st_log_init(stator_ctx *ctx, const stator_ctx_options *options)
{
    ctx->log = options->log != NULL ? options->log : log_to_stderr;
    ctx->log_self = options->log_self;
    parse_channels(ctx, named_channels(options));
    parse_channels(ctx, options->log_channels);
}

void st_log_check_channels(stator_ctx *ctx, const stator_ctx_options *options)
{
    check_channels(ctx, "STATOR_LOGS", named_channels(options));
    check_channels(ctx, "log_channels", options->log_channels);
}

/* Does anybody listen beside what STATOR_DUMP writes down? Warnings are always heard. */
static bool is_heard(const stator_ctx *ctx, const char *channel, uint32_t level)
{
    for (uint32_t i = 0; i < ctx->n_channels; i++) {
        const st_log_channel *c = &ctx->channels[i];
        if (level <= c->level && (strcmp(c->name, channel) == 0 || strcmp(c->name, "all") == 0)) {
            return true;
        }
    }
    return level <= 1;
}

bool st_log_enabled(const stator_ctx *ctx, const char *channel, uint32_t level)
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
    const bool is_dumped = st_dump_hears(ctx, channel, level);
    const bool is_said = is_heard(ctx, channel, level);
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
    const bool is_deferred =
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
static struct st_error *error_of(stator_ctx *ctx, bool make)
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
    struct st_error *entry = error_of(ctx, true);
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
    const struct st_error *entry = ctx != NULL ? error_of(ctx, false) : NULL;
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

void st_errors_free(stator_ctx *ctx)
{
    while (ctx->errors != NULL) {
        struct st_error *entry = ctx->errors;
        ctx->errors = entry->next;
        st_diag_release(entry->diag);
        st_process_free(entry);
    }
}
