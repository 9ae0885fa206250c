/* Creating and ending contexts, and the public functions over the registry. See ctx.h and
 * stator/stator.h. */
#include "core/cache/cache.h"
#include "core/context/devices.h"
#include "core/host/host_table.h"

#include "core/base/sized.h"
#include "core/base/threads/threads.h"
#include "core/runtime/tensor.h"

#include <stdatomic.h>

/* ---- life ---- */

static void warn_of_plugin(void *self, const char *text)
{
    st_log(self, "plugins", 1, "%s", text);
}

static stator_status ctx_open(stator_ctx *ctx, const stator_ctx_options *options, stator_diag **err)
{
    ST_TRY(st_optable_init(&ctx->ops, &ctx->mem, err));
    ctx->cache_writer = st_cache_writer_create(ctx);
    ST_TRY_MEM(ctx->cache_writer, err);
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
    pthread_mutex_init(&ctx->devices_lock, NULL);
    ctx->flags = options.flags;
    ctx->is_threads_given = options.threads > 0;
    ctx->threads = options.threads > 0 ? options.threads : st_cpu_count();
    st_log_init(ctx, &options);
    stator_diag *diag = NULL;
    const stator_status status = ctx_open(ctx, &options, &diag);
    st_diag_release(diag);
    if (status != STATOR_OK) {
        stator_ctx_destroy(ctx);
        return status;
    }
    st_log_check_channels(ctx, &options);
    *out_ctx = ctx;
    return STATOR_OK;
}

void stator_ctx_destroy(stator_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    st_cache_destroy(ctx);
    st_devices_close(ctx);
    st_registry_destroy(ctx->registry);
    st_packs_destroy(ctx);
    st_optable_deinit(&ctx->ops);
    st_errors_free(ctx);
    st_pool_deinit(&ctx->pool);
    st_profile_deinit(&ctx->profile);
    pthread_mutex_destroy(&ctx->lock);
    pthread_mutex_destroy(&ctx->oplib_lock);
    pthread_mutex_destroy(&ctx->devices_lock);
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
    ST_THEN(status, st_registry_probe(ctx->registry, item, &diag));
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
    const st_reach reach = {.p = buffer.data, .above = buffer.size_bytes};
    ST_THEN(status, st_device_check_host(ctx, &reach, &diag));
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
