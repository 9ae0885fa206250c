/* Looking into the compile cache; see stator/inspect.h. */
#include "core/cache/cache.h"
#include "core/host/function.h"

#include <stator/inspect.h>

const char *stator_x_cache_folder(stator_ctx *ctx, const char **out_reason)
{
    const st_cache_store *store = st_cache_look(ctx);
    *out_reason = store == NULL ? "it is switched off" : store->reason;
    return store != NULL && store->reason[0] == '\0' ? store->folder : NULL;
}

typedef struct listing {
    st_cache_store *store;
    stator_x_cache_fn fn;
    void *self;
    bool is_out_of_memory;
} listing;

static bool give_row(void *self, const st_cache_entry *entry)
{
    static const char *const kinds[ST_CACHE_KINDS] = {"code", "data", "sums"};
    listing *l = self;
    st_str key;
    st_str_init(&key, l->store->mem);
    (void)st_cache_read_key(l->store, entry->kind, entry->name, &key); /* gone meanwhile: no key */
    const stator_x_cache_row row = {.struct_size = sizeof row,
                                    .name = entry->name,
                                    .kind = kinds[entry->kind],
                                    .key = key.data != NULL ? key.data : "",
                                    .size_bytes = entry->size_bytes,
                                    .used_s = entry->used_s};
    l->is_out_of_memory |= !st_str_ok(&key);
    l->fn(l->self, &row);
    st_str_deinit(&key);
    return !l->is_out_of_memory;
}

stator_status stator_x_cache_list(stator_ctx *ctx, stator_x_cache_fn fn, void *self)
{
    stator_diag *diag = NULL;
    listing l = {.store = st_cache_look(ctx), .fn = fn, .self = self};
    const bool is_whole =
        l.store == NULL || (st_cache_each(l.store, give_row, &l) && !l.is_out_of_memory);
    return st_ctx_fail(ctx, is_whole ? STATOR_OK : st_fail_oom(&diag), diag);
}

typedef struct clearing {
    st_cache_store *store;
    uint64_t entries;
    uint64_t bytes;
} clearing;

static bool remove_entry(void *self, const st_cache_entry *entry)
{
    clearing *c = self;
    st_cache_remove(c->store, entry->kind, entry->name);
    c->entries++;
    c->bytes += entry->size_bytes;
    return true;
}

stator_status stator_x_cache_clear(stator_ctx *ctx, uint64_t *out_entries, uint64_t *out_bytes)
{
    stator_diag *diag = NULL;
    clearing c = {.store = st_cache_look(ctx)};
    const bool is_whole = c.store == NULL || st_cache_each(c.store, remove_entry, &c);
    *out_entries = c.entries;
    *out_bytes = c.bytes;
    return st_ctx_fail(ctx, is_whole ? STATOR_OK : st_fail_oom(&diag), diag);
}

stator_status stator_x_cache_why(stator_function *function, uint32_t n_in, stator_tensor *const *in,
                                 stator_x_text_fn fn, void *self)
{
    stator_ctx *ctx = st_function_model(function)->ctx;
    stator_diag *diag = NULL;
    st_str text;
    bool is_hit = false;
    DLTensor *views = st_calloc(&ctx->mem, n_in + UINT64_C(1), sizeof *views);
    stator_status status = views != NULL ? STATOR_OK : st_fail_oom(&diag);
    st_str_init(&text, &ctx->mem);
    for (uint32_t i = 0; status == STATOR_OK && i < n_in; i++) {
        views[i] = *stator_tensor_view(in[i]);
    }
    ST_THEN(status, st_function_cache_why(function, n_in, views, &is_hit, &text, &diag));
    ST_THEN(status, st_str_ok(&text) ? STATOR_OK : st_fail_oom(&diag));
    if (status == STATOR_OK) {
        fn(self, is_hit, text.data != NULL ? text.data : "");
    }
    st_str_deinit(&text);
    st_free(&ctx->mem, views);
    return st_ctx_fail(ctx, status, diag);
}
