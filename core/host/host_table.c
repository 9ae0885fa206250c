/* The host table that plugins receive: thin adapters from its slots to the parts that do the work.
 * Also the store of packed constants. */
#define _GNU_SOURCE
#include "core/host/host_table.h"
#include "core/cache/cache.h"
#include "core/context/compile_handle.h"
#include "core/context/dump.h"
#include "core/context/fuel.h"
#include "core/context/nested.h"
#include "core/plugins/options.h"

#include "core/base/blob.h"
#include "core/base/map.h"
#include "core/base/sized.h"
#include "core/base/threads/contention.h"
#include "core/base/threads/threads.h"
#include "ir/binary.h"
#include "ir/graph.h"
#include "ir/text/text.h"

#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE ((uintptr_t)2 << 20) /* bytes */

/* ---- mem ---- */

static void *mem_alloc(stator_ctx *ctx, uint64_t size, uint64_t align)
{
    return st_alloc(&ctx->mem, size, align);
}

static void *mem_realloc(stator_ctx *ctx, void *p, uint64_t size, uint64_t align)
{
    return st_realloc(&ctx->mem, p, size, align);
}

static void mem_free(stator_ctx *ctx, void *p)
{
    st_free(&ctx->mem, p);
}

static const stator_mem_api mem_api = {
    .struct_size = sizeof mem_api, .alloc = mem_alloc, .realloc = mem_realloc, .free = mem_free};

/* ---- ir ---- */

static uint32_t ir_find_op(stator_ctx *ctx, const char *name)
{
    return st_optable_find(&ctx->ops, name);
}

static uint32_t ir_op_count(stator_ctx *ctx)
{
    return st_optable_count(&ctx->ops);
}

static const stator_op_desc *ir_op_desc(stator_ctx *ctx, uint32_t op)
{
    const st_op *row = st_optable_at(&ctx->ops, op);
    return row != NULL ? &row->desc : NULL;
}

static const stator_oplib_op *ir_library_op(stator_ctx *ctx, uint32_t op, void **out_self)
{
    const st_op *row = st_optable_at(&ctx->ops, op);
    *out_self = row != NULL ? row->oplib_self : NULL;
    return row != NULL ? row->oplib_op : NULL;
}

static const stator_attr_row *ir_attr(const stator_graph *graph, stator_ref node, const char *name)
{
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    const stator_op_desc *op = stator_op_at(v, row->op);
    for (uint32_t a = 0; name != NULL && a < op->attr_count && a < row->attr_count; a++) {
        if (strcmp(op->attrs[a].name, name) == 0) {
            return stator_attr_at(v, row, a);
        }
    }
    return NULL;
}

static stator_status ir_print(stator_ctx *ctx, const stator_graph *graph, char **out_text,
                              uint64_t *out_len, stator_diag **err)
{
    *out_text = NULL;
    *out_len = 0;
    st_str text;
    st_str_init(&text, &ctx->mem);
    const st_print_options options = {.flags = ST_PRINT_HASHES};
    stator_status status = st_print_graph(graph, &options, &text, err);
    if (status == STATOR_OK) {
        *out_text = st_str_take(&text, out_len);
        status = *out_text != NULL ? STATOR_OK : st_fail_oom(err);
    }
    st_str_deinit(&text);
    return status;
}

static stator_status ir_parse(stator_builder *builder, const char *bytes, uint64_t len,
                              const char *file_name, const char *dir, stator_diag **err)
{
    ST_REQUIRE_LIST(bytes, len, err);
    if (st_is_binary(bytes, len)) {
        return st_parse_binary(builder, bytes, len, dir != NULL ? file_name : NULL, err);
    }
    return st_parse_text(builder, bytes, len, file_name, dir, err);
}

/* All zeros when out of memory. */
static void ir_structural_hash(const stator_graph *graph, uint8_t out_hash[16])
{
    (void)st_graph_hash(graph, out_hash);
}

static const stator_ir_api ir_api = {.struct_size = sizeof ir_api,
                                     .view = st_graph_view,
                                     .find_op = ir_find_op,
                                     .op_count = ir_op_count,
                                     .op_desc = ir_op_desc,
                                     .attr = ir_attr,
                                     .structural_hash = ir_structural_hash,
                                     .print = ir_print,
                                     .parse = ir_parse,
                                     .library_op = ir_library_op};

/* ---- constants ---- */

struct st_pack {
    struct st_pack *next;
    stator_blob *blob;
    uint8_t content_hash[16];
    char key[];
};

void st_packs_destroy(stator_ctx *ctx)
{
    st_file_release(ctx->last_file);
    ctx->last_file = NULL;
    while (ctx->packs != NULL) {
        struct st_pack *pack = ctx->packs;
        ctx->packs = pack->next;
        st_blob_release(pack->blob);
        st_free(&ctx->mem, pack);
    }
}

static stator_blob *cst_of_ref(const stator_graph *graph, stator_ref blob)
{
    return st_module_blob_at(graph->module, blob);
}

static stator_blob_info blob_facts(const stator_blob *blob)
{
    return (stator_blob_info){.struct_size = sizeof(stator_blob_info),
                              .flags = st_blob_file(blob, NULL) != NULL ? STATOR_BLOB_MAPPED
                                                                        : STATOR_BLOB_INLINE,
                              .size_bytes = st_blob_size(blob)};
}

static stator_status cst_get(stator_blob *blob, stator_blob_info *out, stator_diag **err)
{
    ST_REQUIRE(blob, err);
    stator_blob_info info = blob_facts(blob);
    ST_TRY(st_blob_get(blob, &info.data, err));
    ST_TRY(st_blob_hash(blob, info.content_hash, err));
    return ST_SIZED_WRITE(stator_blob_info, out, &info, err);
}

static stator_status cst_peek(stator_blob *blob, stator_blob_info *out, stator_diag **err)
{
    ST_REQUIRE(blob, err);
    stator_blob_info info = blob_facts(blob);
    ST_TRY(st_blob_peek(blob, &info.data, err));
    return ST_SIZED_WRITE(stator_blob_info, out, &info, err);
}

static stator_status cst_hash(stator_blob *blob, uint8_t out_hash[16], stator_diag **err)
{
    ST_REQUIRE(blob, err);
    return st_blob_hash(blob, out_hash, err);
}

static stator_blob *cst_create(stator_ctx *ctx, const void *data, uint64_t size)
{
    return data != NULL || size == 0 ? st_blob_copy(&ctx->mem, data, size) : NULL;
}

/* The file, opened anew only when the last one was another or has changed: the hundreds of
 * initialisers of a model share one mapping and one check a call. */
static stator_status shared_file(stator_ctx *ctx, const char *path, st_file **out_file,
                                 stator_diag **err)
{
    pthread_mutex_lock(&ctx->lock);
    st_file *file = ctx->last_file;
    stator_status status = STATOR_OK;
    if (file == NULL || strcmp(st_file_path(file), path) != 0 ||
        st_file_check(file, NULL) != STATOR_OK) {
        status = st_file_open(&ctx->mem, path, &file, err);
        if (status == STATOR_OK) {
            st_file_release(ctx->last_file);
            ctx->last_file = file;
        }
    }
    if (status == STATOR_OK) {
        st_file_retain(file);
        *out_file = file;
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

static stator_status cst_from_file(stator_ctx *ctx, const char *path, uint64_t offset,
                                   uint64_t size, int32_t copy, stator_blob **out,
                                   stator_diag **err)
{
    *out = NULL;
    ST_REQUIRE(path, err);
    st_file *file = NULL;
    ST_TRY(shared_file(ctx, path, &file, err));
    const stator_status status = st_blob_from_file(&ctx->mem, file, offset, size, copy, out, err);
    st_file_release(file);
    return status;
}

static stator_blob *find_pack(stator_ctx *ctx, const uint8_t hash[16], const char *key)
{
    for (struct st_pack *p = ctx->packs; p != NULL; p = p->next) {
        if (memcmp(p->content_hash, hash, 16) == 0 && strcmp(p->key, key) == 0) {
            return p->blob;
        }
    }
    return NULL;
}

static stator_status add_pack(stator_ctx *ctx, const uint8_t hash[16], const char *key,
                              stator_blob *blob, stator_diag **err)
{
    const size_t len = strlen(key) + 1;
    struct st_pack *pack = st_calloc(&ctx->mem, 1, sizeof *pack + len);
    ST_TRY_MEM(pack, err);
    memcpy(pack->content_hash, hash, 16);
    memcpy(pack->key, key, len);
    pack->blob = blob;
    st_blob_retain(blob);
    pack->next = ctx->packs;
    ctx->packs = pack;
    return STATOR_OK;
}

/* Names a pack by the hash of its source and its format: hashing its own bytes would have to read
 * them. */
static void name_pack(stator_blob *blob, const uint8_t hash[16], const char *key)
{
    uint8_t both[32];
    uint8_t name[16];
    memcpy(both, hash, 16);
    st_hash128(key, strlen(key), both + 16);
    st_hash128(both, sizeof both, name);
    st_blob_set_hash(blob, name);
}

/* A packed form that is wanted: of which content, in which order, and who makes it. */
typedef struct pack_wish {
    const uint8_t *hash; /* 16 bytes */
    const char *key;
    uint64_t size;
    stator_status (*fill)(void *self, void *dst, uint64_t size);
    void *self;
} pack_wish;

/* Large pages where they fit: each is one fault instead of hundreds. Advice only. */
static void advise_large(void *data, uint64_t size)
{
    const uintptr_t begin = ((uintptr_t)data + LARGE_PAGE - 1u) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t end = ((uintptr_t)data + (uintptr_t)size) / LARGE_PAGE * LARGE_PAGE;
    if (begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
}

/* From the compile cache, or made. */
static stator_status make_pack(stator_ctx *ctx, const pack_wish *w, stator_blob **out,
                               stator_diag **err)
{
    void *data = NULL;
    *out = st_cache_pack_find(ctx, w->hash, w->key, w->size);
    if (*out != NULL) {
        name_pack(*out, w->hash, w->key);
        return STATOR_OK;
    }
    *out = st_blob_alloc(&ctx->mem, w->size, &data);
    ST_TRY_MEM(*out, err);
    advise_large(data, w->size);
    ST_TRY(w->fill(w->self, data, w->size));
    name_pack(*out, w->hash, w->key);
    st_cache_pack_keep(ctx, w->hash, w->key, *out);
    return STATOR_OK;
}

/* Two threads that want the same form at once may both make it; the first to finish is kept. */
static stator_status cst_pack(stator_ctx *ctx, const uint8_t hash[16], const char *key,
                              uint64_t size,
                              stator_status (*fill)(void *self, void *dst, uint64_t size),
                              void *self, stator_blob **out, stator_diag **err)
{
    *out = NULL;
    ST_REQUIRE(hash, err);
    ST_REQUIRE(key, err);
    ST_REQUIRE(fill, err);
    pthread_mutex_lock(&ctx->lock);
    stator_blob *known = find_pack(ctx, hash, key);
    if (known != NULL) {
        st_blob_retain(known);
    }
    pthread_mutex_unlock(&ctx->lock);
    if (known != NULL) {
        *out = known;
        return STATOR_OK;
    }
    stator_blob *blob = NULL;
    const pack_wish wish = {hash, key, size, fill, self};
    stator_status status = make_pack(ctx, &wish, &blob, err);
    if (status == STATOR_OK) {
        pthread_mutex_lock(&ctx->lock);
        known = find_pack(ctx, hash, key);
        status = known == NULL ? add_pack(ctx, hash, key, blob, err) : STATOR_OK;
        pthread_mutex_unlock(&ctx->lock);
    }
    if (status != STATOR_OK) {
        st_blob_release(blob);
        return status;
    }
    *out = blob;
    return STATOR_OK;
}

static const stator_cst_api cst_api = {.struct_size = sizeof cst_api,
                                       .of_value = st_graph_value_blob,
                                       .of_ref = cst_of_ref,
                                       .get = cst_get,
                                       .retain = st_blob_retain,
                                       .release = st_blob_release,
                                       .will_not_read = st_blob_will_not_read,
                                       .create = cst_create,
                                       .from_file = cst_from_file,
                                       .pack = cst_pack,
                                       .peek = cst_peek,
                                       .hash = cst_hash};

/* ---- log, threads ---- */

static int32_t log_enabled(stator_ctx *ctx, const char *channel, uint32_t level)
{
    return channel != NULL && st_log_enabled(ctx, channel, level);
}

static void log_write(stator_ctx *ctx, const char *channel, uint32_t level, const char *text)
{
    if (channel != NULL && text != NULL) {
        st_log(ctx, channel, level, "%s", text);
    }
}

static const stator_log_api log_api = {.struct_size = sizeof log_api,
                                       .enabled = log_enabled,
                                       .write = log_write,
                                       .is_dumping = st_dump_is_on,
                                       .dump = st_dump_file};

static int32_t thr_count(stator_ctx *ctx)
{
    return st_is_in_parallel() ? 1 : ctx->threads;
}

static int32_t thr_is_contended(stator_ctx *ctx)
{
    (void)ctx;
    return st_is_contended(st_now_ns());
}

static void thr_note_team(stator_ctx *ctx, uint64_t team_ns, uint64_t alone_ns)
{
    (void)ctx;
    st_contention_note(team_ns, alone_ns, st_now_ns());
}

typedef struct ranges {
    const st_plugin_call *call; /* the call that asked for the threads */
    const st_compile_handle *compile;
    stator_range_fn fn;
    void *self;
} ranges;

static void run_range(void *self, int64_t begin, int64_t end)
{
    const ranges *r = self;
    st_plugin_call call;
    const st_compile_handle *before = st_compile_running;
    st_compile_running = r->compile;
    st_plugin_enter_run(&call, r->call->callee, r->call->slot);
    r->fn(r->self, begin, end);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    st_compile_running = before;
}

/* Each range runs as part of the slot that asked for it, and of its compile. */
static void parallel_for(stator_ctx *ctx, int64_t n, int64_t grain, stator_range_fn fn, void *self)
{
    ranges r = {st_plugin_running, st_compile_running, fn, self};
    if (r.call != NULL) {
        st_parallel_for(ctx->threads, n, grain, run_range, &r);
    } else { /* a thread of the plugin's own */
        st_parallel_for(ctx->threads, n, grain, fn, self);
    }
}

static const stator_thr_api thr_api = {.struct_size = sizeof thr_api,
                                       .parallel_for = parallel_for,
                                       .thread_count = thr_count,
                                       .is_contended = thr_is_contended,
                                       .note_team = thr_note_team};

static const void *get_ext(const char *name, uint32_t min_version)
{
    (void)name;
    (void)min_version;
    return NULL; /* no experiments at present */
}

void st_host_table_init(stator_ctx *ctx)
{
    ctx->host = (stator_host){.struct_size = sizeof(stator_host),
                              .abi_major = STATOR_ABI_MAJOR,
                              .abi_minor = STATOR_ABI_MINOR,
                              .ctx = ctx,
                              .mem = &mem_api,
                              .diag = &st_diag_api,
                              .ir = &ir_api,
                              .build = &st_build_api,
                              .types = &st_types_api,
                              .cst = &cst_api,
                              .opt = &st_opt_api,
                              .log = &log_api,
                              .thr = &thr_api,
                              .fuel = &st_fuel_api,
                              .cache = &st_cache_api,
                              .nested = &st_nested_api,
                              .get_ext = get_ext};
}
