/* The experimental inspection API; see stator/inspect.h. */
#define _GNU_SOURCE
#include "core/base/files/out_file.h"
#include "core/context/item_options.h"
#include "core/context/self_test.h"
#include "core/host/function.h"
#include "ir/binary.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include <stator/inspect.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- passes ---- */

typedef struct pass_walk {
    stator_ctx *ctx;
    stator_x_pass_fn fn;
    void *self;
} pass_walk;

static stator_status plugin_pass(void *self, const st_loaded *loaded)
{
    pass_walk *w = self;
    const stator_item *item = &loaded->as.pass->item;
    w->fn(w->self, item->name, item->doc != NULL ? item->doc : "");
    return STATOR_OK;
}

stator_status stator_x_passes(stator_ctx *ctx, stator_x_pass_fn fn, void *self)
{
    uint32_t count = 0;
    const st_pass_def *defs = st_pass_defs(&count);
    for (uint32_t i = 0; i < count; i++) {
        fn(self, defs[i].name, defs[i].doc);
    }
    pass_walk w = {.ctx = ctx, .fn = fn, .self = self};
    stator_diag *diag = NULL;
    const stator_status status =
        st_registry_each(ctx->registry, STATOR_KIND_PASS, plugin_pass, &w, &diag);
    return st_ctx_fail(ctx, status, diag);
}

static stator_status stage_name(void *self, const char *stage)
{
    pass_walk *w = self;
    if (w->fn == NULL) {
        return STATOR_OK; /* only the backend's existence is asked */
    }
    const st_pass_def *def = st_pass_find(stage);
    const st_loaded *loaded = NULL;
    const char *doc = "";
    if (def != NULL) {
        doc = def->doc;
    } else if (st_registry_get(w->ctx->registry, STATOR_KIND_PASS, stage, &loaded, NULL) ==
               STATOR_OK) {
        doc = loaded->as.pass->item.doc != NULL ? loaded->as.pass->item.doc : "";
    }
    w->fn(w->self, stage, doc);
    return STATOR_OK;
}

stator_status stator_x_pipeline(stator_ctx *ctx, const char *backend, stator_x_pass_fn fn,
                                void *self)
{
    pass_walk w = {.ctx = ctx, .fn = fn, .self = self};
    stator_diag *diag = NULL;
    stator_instance *instance = NULL;
    stator_status status = st_instance_open(ctx, backend, 0, NULL, NULL, &instance, &diag);
    ST_THEN(status,
            st_pipeline_stages(ctx, instance->loaded, instance->options, stage_name, &w, &diag));
    st_instance_close(instance);
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_x_item_options(stator_ctx *ctx, uint32_t index, stator_x_option_fn fn,
                                    void *self)
{
    stator_diag *diag = NULL;
    const st_loaded *loaded = NULL;
    stator_status status = st_registry_scan(ctx->registry, &diag);
    const st_registry_item *item = st_registry_at(ctx->registry, index);
    if (status == STATOR_OK && item == NULL) {
        status = st_fail(&diag, STATOR_OUT_OF_RANGE, "there is no plugin item %u", index);
    }
    ST_THEN(status, st_registry_load(ctx->registry, item, &loaded, &diag));
    for (uint32_t i = 0; status == STATOR_OK && i < loaded->desc->option_count; i++) {
        fn(self, &loaded->desc->options[i]);
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_x_self_test(stator_ctx *ctx, const char *backend, uint32_t device,
                                 uint64_t *out_ns)
{
    const st_option_pairs none = {.count = 0};
    stator_instance *instance = NULL;
    stator_diag *diag = NULL;
    *out_ns = 0;
    stator_status status = st_instance_open_on(ctx, backend, device, &none, &instance, &diag);
    ST_THEN(status, st_self_test_now(instance, out_ns, &diag));
    st_instance_close(instance);
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_x_run_pass(const stator_model *model, const char *pass, uint32_t option_count,
                                const char *const *keys, const char *const *values,
                                stator_model **out_model)
{
    static const stator_item no_item = {.name = "opt"}; /* every key names a pass */
    const st_option_pairs given = {.count = option_count, .keys = keys, .values = values};
    stator_options *options = NULL;
    *out_model = NULL;
    stator_ctx *ctx = model->ctx;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    st_fuel fuel;
    st_fuel_init(&fuel, &ctx->mem);
    stator_instance *evaluator = NULL;
    stator_diag *ignored = NULL;
    (void)st_instance_open(ctx, "eager", 0, NULL, NULL, &evaluator, &ignored);
    st_diag_release(ignored);
    stator_status status = st_item_options(ctx, &no_item, &given, &options, &diag);
    const st_compile_request request = {
        .ctx = ctx, .evaluator = evaluator, .options = options, .fuel = &fuel};
    ST_THEN(status, st_model_copy(model, &copy, &diag));
    if (status == STATOR_OK) {
        stator_graph *after = NULL;
        status = st_run_stage(&request, pass, copy->root, &after, &diag);
        copy->root = after;
    }
    st_instance_close(evaluator);
    st_options_destroy(options);
    st_fuel_deinit(&fuel);
    return st_model_end_copy(model, copy, status, out_model, diag);
}

stator_status stator_x_verify(const stator_model *model)
{
    stator_diag *diag = NULL;
    const stator_graph *graph = NULL;
    stator_status status = st_model_need_graph(model, &graph, &diag);
    ST_THEN(status, st_verify(graph, &diag));
    return st_ctx_fail(model->ctx, status, diag);
}

stator_status stator_x_stages(stator_function *function, const char *stop_after,
                              stator_x_stage_fn fn, void *self)
{
    stator_model *model = st_function_model(function);
    stator_diag *diag = NULL;
    const stator_graph *graph = NULL;
    st_module *result = NULL;
    stator_status status = st_model_need_graph(model, &graph, &diag);
    if (status == STATOR_OK) {
        st_compile_request request;
        pthread_mutex_lock(&model->lock);
        const st_specialisation *newest = model->specialisations;
        pthread_mutex_unlock(&model->lock);
        st_function_request(function, newest, &request);
        st_fuel fuel;
        st_fuel_init(&fuel, &model->ctx->mem);
        request.fuel = &fuel;
        request.on_stage = fn;
        request.stage_self = self;
        request.stop_after = stop_after;
        status = st_run_pipeline(&request, NULL, &result, &diag);
        st_fuel_deinit(&fuel);
    }
    st_module_destroy(result);
    return st_ctx_fail(model->ctx, status, diag);
}

/* ---- writing ---- */

typedef struct blob_writer {
    st_out_file out; /* open once there is a blob */
    const char *path;
    const char *name; /* path without its folder */
    uint64_t offset;
} blob_writer;

static stator_status place_blob(void *self, stator_blob *blob, const char **out_path,
                                uint64_t *out_offset, stator_diag **err)
{
    static const char zeros[64];
    blob_writer *w = self;
    const void *data = NULL;
    ST_TRY(st_blob_get(blob, &data, err));
    const uint64_t size = st_blob_size(blob);
    const uint64_t gap = (64u - w->offset % 64u) % 64u;
    ST_TRY(w->out.file == NULL ? st_out_open(w->path, &w->out, err) : STATOR_OK);
    ST_TRY(st_out_write(&w->out, zeros, gap, err));
    ST_TRY(st_out_write(&w->out, data, size, err));
    *out_path = w->name;
    *out_offset = w->offset + gap;
    w->offset += gap + size;
    return STATOR_OK;
}

static stator_status write_file(const char *path, const st_str *text, stator_diag **err)
{
    st_out_file out;
    ST_TRY(st_out_open(path, &out, err));
    return st_out_close(&out, st_out_write(&out, text->data, text->len, err), err);
}

/* The text, and its large constants in <name>.blob beside it where there are any. */
static stator_status write_text(const stator_graph *graph, const char *path, st_str *text,
                                stator_diag **err)
{
    char blob_path[ST_PATH_BYTES], folder[ST_PATH_BYTES];
    const size_t len = strlen(path);
    ST_FAIL_IF(len + 6 > sizeof blob_path, err, STATOR_INVALID_ARGUMENT, "the path is too long");
    (void)snprintf(blob_path, sizeof blob_path, "%.*s.blob", (int)(len - 5), path);
    blob_writer w = {.path = blob_path, .name = st_out_split(blob_path, folder)};
    const st_print_options options = {.place = place_blob, .self = &w};
    return st_out_close(&w.out, st_print_graph(graph, &options, text, err), err);
}

stator_status stator_x_model_write(const stator_model *model, const char *path)
{
    stator_diag *diag = NULL;
    const stator_graph *graph = NULL;
    st_str text;
    st_str_init(&text, &model->ctx->mem);
    const size_t len = strlen(path);
    stator_status status = st_model_need_graph(model, &graph, &diag);
    if (status == STATOR_OK && len > 6 && strcmp(path + len - 6, ".stirb") == 0) {
        status = st_write_binary(graph, &text, &diag);
    } else if (status == STATOR_OK && len > 5 && strcmp(path + len - 5, ".stir") == 0) {
        status = write_text(graph, path, &text, &diag);
    } else if (status == STATOR_OK) {
        status =
            st_fail(&diag, STATOR_INVALID_ARGUMENT, "'%s' ends neither in .stir nor .stirb", path);
    }
    ST_THEN(status, st_str_ok(&text) ? write_file(path, &text, &diag) : st_fail_oom(&diag));
    st_str_deinit(&text);
    return st_ctx_fail(model->ctx, status, diag);
}

/* ---- fuel ---- */

void stator_x_fuel_record(stator_function *function)
{
    (void)st_function_fuel(function);
}

void stator_x_fuel_watch(stator_function *function, stator_x_fuel_fn fn, void *self)
{
    st_function_watch(function, fn, self);
}

stator_status stator_x_prepare(stator_function *function, uint32_t n_in, stator_tensor *const *in)
{
    stator_ctx *ctx = st_function_model(function)->ctx;
    stator_diag *diag = NULL;
    DLTensor *views = st_calloc(&ctx->mem, n_in + 1u, sizeof *views);
    stator_status status = views != NULL ? STATOR_OK : st_fail_oom(&diag);
    for (uint32_t i = 0; status == STATOR_OK && i < n_in; i++) {
        if (in == NULL || in[i] == NULL) {
            status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "input %u is missing", i);
        } else {
            views[i] = in[i]->view;
        }
    }
    st_compiled *compiled = NULL;
    ST_THEN(status, st_function_prepare(function, n_in, views, &compiled, &diag));
    st_free(&ctx->mem, views);
    return st_ctx_fail(ctx, status, diag);
}

uint32_t stator_x_fuel_count(stator_function *function)
{
    return st_function_fuel(function)->n_records;
}

stator_status stator_x_fuel_at(stator_function *function, uint32_t index,
                               stator_x_fuel_row *out_row)
{
    const st_fuel *fuel = st_function_fuel(function);
    if (index >= fuel->n_records) {
        return STATOR_OUT_OF_RANGE;
    }
    const stator_x_fuel_row row = st_fuel_row(&fuel->records[index]);
    return ST_CTX_WRITE(st_function_ctx(function), stator_x_fuel_row, out_row, &row);
}

uint32_t stator_x_fuel_scopes(stator_function *function)
{
    return st_function_fuel(function)->n_scopes;
}

/* ---- memory ---- */

void stator_x_fail_alloc_at(stator_ctx *ctx, uint64_t n)
{
    atomic_store(&ctx->mem.requests, 0);
    atomic_store(&ctx->mem.fail_at, n);
}

uint64_t stator_x_alloc_requests(stator_ctx *ctx)
{
    return atomic_load(&ctx->mem.requests);
}

/* ---- the file ---- */

void stator_x_model_facts(stator_model *model, stator_x_fact_fn fn, void *self)
{
    pthread_mutex_lock(&model->lock);
    for (uint32_t i = 0; i < model->facts.count; i++) {
        const st_fact *fact = &model->facts.data[i];
        fn(self, fact->kind, fact->name, fact->value);
    }
    pthread_mutex_unlock(&model->lock);
}
