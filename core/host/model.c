/* Loading models and asking about them; see model.h and stator/stator.h. */
#define _GNU_SOURCE
#include "core/host/model.h"

#include "core/base/fdio.h"
#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/base/vec.h"
#include "core/compile/compile.h"
#include "core/context/item_options.h"
#include "core/host/foreign_format.h"
#include "core/host/host_table.h"
#include "core/plugins/plugin_call.h"
#include "core/runtime/tensor.h"
#include "ir/sizes/bound_symbols.h"
#include <stator/inspect.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOAD_COPY 1u /* stator_load_options.flags: all that are known */

void st_model_retain(stator_model *model)
{
    atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
}

void st_model_forget_facts(stator_model *model)
{
    st_mem *mem = &model->ctx->mem;
    for (uint32_t i = 0; i < model->facts.count; i++) {
        st_free(mem, model->facts.data[i].kind);
        st_free(mem, model->facts.data[i].name);
        st_free(mem, model->facts.data[i].value);
    }
    st_vec_free(mem, &model->facts);
}

stator_status st_model_find_alias(const stator_model *model, const char *name, char **out_name,
                                  stator_diag **err)
{
    stator_model *m = (stator_model *)(uintptr_t)model;
    bool is_known = false;
    *out_name = NULL;
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < m->facts.count && !is_known; i++) {
        const st_fact *fact = &m->facts.data[i];
        is_known = strcmp(fact->kind, "alias") == 0 && strcmp(fact->name, name) == 0;
        *out_name = is_known ? st_strdup(&m->ctx->mem, fact->value) : NULL;
    }
    pthread_mutex_unlock(&m->lock);
    ST_TRY_MEM(!is_known || *out_name != NULL, err);
    return STATOR_OK;
}

static void free_specialisation(st_mem *mem, st_specialisation *spec)
{
    for (uint32_t i = 0; spec->base == NULL && i < spec->n_values; i++) {
        stator_tensor_release(spec->values[i]);
    }
    st_free(mem, spec->base == NULL ? spec->values : NULL);
    st_size_plan_deinit(&spec->size_plan);
    st_module_destroy(spec->module);
    st_free(mem, spec);
}

void st_model_release(stator_model *model)
{
    if (model == NULL || atomic_fetch_sub_explicit(&model->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    st_mem *mem = &model->ctx->mem;
    while (model->specialisations != NULL) {
        st_specialisation *spec = model->specialisations;
        model->specialisations = spec->next;
        free_specialisation(mem, spec);
    }
    st_model_forget_facts(model);
    st_module_destroy(model->declared);
    for (uint32_t i = 0; i < model->n_needed; i++) {
        st_free(mem, model->needed[i]);
    }
    st_free(mem, model->needed);
    st_options_destroy(model->options);
    st_blob_release(model->source);
    for (uint32_t i = 0; i < model->own_data.count; i++) {
        st_free(mem, model->own_data.data[i]);
    }
    st_vec_free(mem, &model->own_data);
    st_free(mem, model->roles);
    st_free(mem, model->path);
    st_free(mem, model->dir);
    pthread_mutex_destroy(&model->lock);
    st_free(mem, model);
}

void stator_model_destroy(stator_model *model)
{
    st_model_release(model);
}

/* ---- choosing a frontend ---- */

typedef struct chooser {
    const stator_model *model;
    const char *extension;
    st_vec(const st_loaded *) found; /* frontends that come into question */
    st_str known;                    /* names of all that can be used */
} chooser;

static int64_t sniff(const st_loaded *loaded, const stator_model *model)
{
    const stator_frontend *f = loaded->as.frontend;
    st_plugin_call call;
    if (f->sniff == NULL) {
        return 0;
    }
    st_plugin_enter(&call, loaded->callee, "sniff");
    const uint32_t score = f->sniff(loaded->self, model->bytes, model->size);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    if (score > 100) {
        st_registry_warn_of(model->ctx->registry, loaded->row,
                            "its sniff answered %u where 100 is the most; it is taken as 0", score);
        return 0;
    }
    return score;
}

static stator_status add_found(chooser *c, const st_loaded *loaded)
{
    const st_loaded **slot = st_vec_push(&c->model->ctx->mem, &c->found);
    if (slot == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    *slot = loaded;
    return STATOR_OK;
}

static stator_status add_any(void *self, const st_loaded *loaded)
{
    chooser *c = self;
    st_str_addf(&c->known, "%s%s", c->known.len != 0 ? ", " : "", loaded->desc->name);
    return add_found(c, loaded);
}

/* Finds frontends whose note names the extension; the others are not loaded. */
static stator_status find_by_note(chooser *c)
{
    st_registry *registry = c->model->ctx->registry;
    const st_registry_item *item;
    for (uint32_t i = 0; (item = st_registry_at(registry, i)) != NULL; i++) {
        const st_loaded *loaded = NULL;
        if (st_registry_item_kind(item) == STATOR_KIND_FRONTEND && c->extension != NULL &&
            st_list_has(st_registry_item_extensions(item), c->extension) &&
            st_registry_item_wins(registry, item) &&
            st_registry_load_unnamed(registry, item, &loaded, NULL) == STATOR_OK) {
            ST_TRY(add_found(c, loaded));
        }
    }
    return STATOR_OK;
}

/* Keeps, of all frontends, those that name the extension only once they are loaded. */
static void keep_by_extension(chooser *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->found.count; i++) {
        const st_loaded *loaded = c->found.data[i];
        if (c->extension != NULL && st_list_has(loaded->as.frontend->extensions, c->extension)) {
            const st_loaded *first = c->found.data[n];
            c->found.data[n++] = loaded;
            c->found.data[i] = first;
        }
    }
    c->found.count = n != 0 ? n : c->found.count;
}

/* The one there is, without a question; of several the one that is surest of the bytes, and the
 * first where they are equally sure. Where the extension speaks for none of them, one has to be
 * sure at all. */
static const st_loaded *surest(const chooser *c)
{
    const st_loaded *best = NULL;
    int64_t most = -1;
    for (uint32_t i = 0; i < c->found.count; i++) {
        const st_loaded *loaded = c->found.data[i];
        const bool is_named =
            c->extension != NULL && st_list_has(loaded->as.frontend->extensions, c->extension);
        const int64_t score = is_named && c->found.count == 1 ? 100 : sniff(loaded, c->model);
        if (score > most && (score > 0 || is_named)) {
            most = score;
            best = loaded;
        }
    }
    return best;
}

static const char *extension_of(const stator_model *model)
{
    const char *slash = strrchr(model->path, '/');
    const char *dot = strrchr(slash != NULL ? slash : model->path, '.');
    return dot != NULL ? dot + 1 : NULL;
}

static stator_status fail_unrecognised(const stator_model *model, const st_str *known,
                                       stator_diag **err)
{
    st_str unusable;
    const st_foreign_format *foreign =
        st_foreign_format_of(extension_of(model), model->bytes, model->size);
    if (foreign != NULL) {
        const stator_status refused = st_fail(
            err, STATOR_INVALID_ARGUMENT, "'%s' is %s, which no frontend reads (available: %s)",
            model->path, foreign->what, known->len != 0 ? known->data : "none");
        if (err != NULL && *err != NULL) {
            st_diag_set_hint(*err, "%s", foreign->hint);
        }
        return refused;
    }
    st_str_init(&unusable, &model->ctx->mem);
    st_registry_list_unusable(model->ctx->registry, STATOR_KIND_FRONTEND, &unusable);
    const stator_status status = st_fail(
        err, STATOR_INVALID_ARGUMENT, "'%s': no frontend recognises this file (available: %s%s%s)",
        model->path, known->len != 0 ? known->data : "none",
        unusable.len != 0 ? "; cannot be used: " : "", unusable.len != 0 ? unusable.data : "");
    st_str_deinit(&unusable);
    return status;
}

static stator_status choose_frontend(stator_model *model, const char *wanted, stator_diag **err)
{
    st_registry *registry = model->ctx->registry;
    if (wanted != NULL) {
        return st_registry_get(registry, STATOR_KIND_FRONTEND, wanted, &model->frontend, err);
    }
    chooser c = {.model = model, .extension = extension_of(model)};
    st_str_init(&c.known, &model->ctx->mem);
    stator_status status = find_by_note(&c);
    if (status == STATOR_OK && c.found.count == 0) {
        status = st_registry_each(registry, STATOR_KIND_FRONTEND, add_any, &c, err);
        keep_by_extension(&c);
    }
    if (status == STATOR_OK) {
        model->frontend = surest(&c);
        status = model->frontend != NULL ? STATOR_OK : fail_unrecognised(model, &c.known, err);
    }
    st_str_deinit(&c.known);
    st_vec_free(&model->ctx->mem, &c.found);
    return status;
}

/* ---- loading ---- */

/* All that a pipe brings, as the model's own bytes. A pipe that nobody writes to is empty. */
static stator_status read_pipe(stator_model *model, const char *path, stator_diag **err)
{
    st_mem *mem = &model->ctx->mem;
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    model->path = st_strdup(mem, path);
    ST_TRY_MEM(model->path, err);
    stator_status status = st_read_pipe(mem, path, &bytes, &size, err);
    if (status == STATOR_OK) {
        model->source = st_blob_copy(mem, bytes, size);
        model->size = size;
        status = model->source != NULL ? st_blob_get(model->source, &model->bytes, err)
                                       : st_fail_oom(err);
    }
    st_free(mem, bytes);
    return status;
}

static bool is_pipe(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

static stator_status open_source(stator_model *model, const char *path, stator_diag **err)
{
    st_mem *mem = &model->ctx->mem;
    ST_REQUIRE(path, err);
    if (is_pipe(path)) {
        return read_pipe(model, path, err);
    }
    char *real = realpath(path, NULL);
    ST_FAIL_IF(real == NULL, err, STATOR_NOT_FOUND, "cannot open '%s': %m", path);
    model->path = st_strdup(mem, real);
    const char *slash = strrchr(real, '/');
    model->dir = st_strndup(mem, real, slash == real ? 1 : (uint64_t)(slash - real));
    free(real);
    ST_TRY_MEM(model->path && model->dir, err);
    st_file *file = NULL;
    ST_TRY(st_file_open(mem, model->path, &file, err));
    model->size = st_file_size(file);
    const stator_status status = st_blob_from_file(
        mem, file, 0, model->size, (int)(model->flags & LOAD_COPY), &model->source, err);
    st_file_release(file);
    ST_TRY(status);
    return st_blob_get(model->source, &model->bytes, err);
}

static stator_status frontend_options(stator_model *model, const stator_load_options *options,
                                      stator_diag **err)
{
    const st_option_pairs given = {.count = options->option_count,
                                   .keys = options->option_keys,
                                   .values = options->option_values};
    return st_item_options(model->ctx, &model->frontend->as.frontend->item, &given, &model->options,
                           err);
}

static stator_model *new_model(stator_ctx *ctx, uint32_t flags)
{
    stator_model *model = st_calloc(&ctx->mem, 1, sizeof *model);
    if (model != NULL) {
        atomic_init(&model->refs, 1);
        model->ctx = ctx;
        model->flags = flags;
        pthread_mutex_init(&model->lock, NULL);
    }
    return model;
}

/* Imports at once where no input values are needed. */
static stator_status finish_load(stator_model *model, const stator_load_options *options,
                                 stator_diag **err)
{
    ST_TRY(st_ctx_load_oplibs(model->ctx, err));
    ST_TRY(choose_frontend(model, options->frontend, err));
    ST_TRY(frontend_options(model, options, err));
    st_specialisation *spec = NULL;
    stator_diag *diag = NULL;
    const stator_status status = st_model_specialise(model, 0, NULL, NULL, &spec, &diag);
    if (status == STATOR_NEED_VALUE && model->declared != NULL) {
        st_diag_release(diag);
        return STATOR_OK;
    }
    ST_FAIL_IF(status == STATOR_NEED_VALUE && diag == NULL, err, status,
               "plugin '%s' needs the value of '%s' to import the model, and has declared "
               "no such input",
               model->frontend->callee->name,
               model->n_needed != 0 ? model->needed[0] : "an input that it does not name");
    return st_diag_give(status, diag, err);
}

static stator_status read_options(const stator_load_options *given, stator_load_options *out,
                                  stator_diag **err)
{
    *out = (stator_load_options){.struct_size = sizeof *out};
    if (given != NULL) {
        ST_TRY(ST_SIZED_READ(stator_load_options, out, given, err));
    }
    return st_check_flags(out->flags, LOAD_COPY, "stator_load_options", err);
}

static stator_status end_load(stator_model *model, stator_status status, stator_diag *diag,
                              stator_model **out_model)
{
    stator_ctx *ctx = model->ctx;
    if (status != STATOR_OK) {
        st_model_release(model);
    } else {
        *out_model = model;
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status stator_model_load(stator_ctx *ctx, const char *path, const stator_load_options *given,
                                stator_model **out_model)
{
    *out_model = NULL;
    stator_load_options options;
    stator_diag *diag = NULL;
    stator_status status = read_options(given, &options, &diag);
    ST_FAIL_BY_IF(st_ctx_fail, status != STATOR_OK, ctx, status, diag);
    stator_model *model = new_model(ctx, options.flags);
    ST_FAIL_BY_IF(st_ctx_fail, model == NULL, ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    status = open_source(model, path, &diag);
    ST_THEN(status, finish_load(model, &options, &diag));
    return end_load(model, status, diag, out_model);
}

stator_status stator_model_load_bytes(stator_ctx *ctx, const void *bytes, uint64_t size,
                                      const char *name, const stator_load_options *given,
                                      stator_model **out_model)
{
    *out_model = NULL;
    stator_load_options options;
    stator_diag *diag = NULL;
    stator_status status = read_options(given, &options, &diag);
    if (status == STATOR_OK && bytes == NULL && size != 0) {
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "the model's bytes are NULL");
    }
    ST_FAIL_BY_IF(st_ctx_fail, status != STATOR_OK, ctx, status, diag);
    stator_model *model = new_model(ctx, options.flags);
    ST_FAIL_BY_IF(st_ctx_fail, model == NULL, ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    model->path = st_strdup(&ctx->mem, name != NULL ? name : "<bytes>");
    model->bytes = bytes;
    model->size = size;
    if ((options.flags & LOAD_COPY) != 0) {
        model->source = st_blob_copy(&ctx->mem, bytes, size);
        if (model->source != NULL) {
            status = st_blob_get(model->source, &model->bytes, &diag);
        }
    }
    if (model->path == NULL || ((options.flags & LOAD_COPY) != 0 && model->source == NULL)) {
        status = st_fail_oom(&diag);
    }
    ST_THEN(status, finish_load(model, &options, &diag));
    return end_load(model, status, diag, out_model);
}

stator_status stator_x_model_load_again(const stator_model *of, const stator_load_options *given,
                                        stator_model **out_model)
{
    *out_model = NULL;
    stator_ctx *ctx = of->ctx;
    stator_load_options options;
    stator_diag *diag = NULL;
    stator_status status = read_options(given, &options, &diag);
    if (status == STATOR_OK && of->frontend == NULL) {
        status = st_fail(&diag, STATOR_UNSUPPORTED, "the model was read from no file");
    }
    ST_FAIL_BY_IF(st_ctx_fail, status != STATOR_OK, ctx, status, diag);
    stator_model *model = new_model(ctx, of->flags);
    ST_FAIL_BY_IF(st_ctx_fail, model == NULL, ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    options.frontend = of->frontend->desc->name;
    model->path = st_strdup(&ctx->mem, of->path);
    model->dir = of->dir != NULL ? st_strdup(&ctx->mem, of->dir) : NULL;
    model->bytes = of->bytes;
    model->size = of->size;
    if (of->source != NULL) {
        st_blob_retain(of->source);
        model->source = of->source;
    }
    if (model->path == NULL || (of->dir != NULL && model->dir == NULL)) {
        status = st_fail_oom(&diag);
    }
    ST_THEN(status, finish_load(model, &options, &diag));
    return end_load(model, status, diag, out_model);
}

/* ---- graphs written by the application ---- */

stator_status stator_model_begin(stator_ctx *ctx, stator_builder **out_builder)
{
    *out_builder = NULL;
    stator_diag *diag = NULL;
    st_module *module = NULL;
    stator_status status = st_ctx_load_oplibs(ctx, &diag);
    ST_THEN(status, st_module_create(&ctx->mem, ctx, &ctx->ops, &module, &diag));
    if (status == STATOR_OK) {
        status = st_builder_create(module, "main", out_builder, &diag);
        if (status != STATOR_OK) {
            st_module_destroy(module);
        }
    }
    return st_ctx_fail(ctx, status, diag);
}

stator_status st_model_wrap(stator_ctx *ctx, st_module *module, stator_model **out_model,
                            stator_diag **err)
{
    *out_model = NULL;
    stator_model *model = new_model(ctx, 0);
    st_specialisation *spec = st_calloc(&ctx->mem, 1, sizeof *spec);
    if (model == NULL || spec == NULL) {
        st_free(&ctx->mem, spec);
        st_model_release(model);
        st_module_destroy(module);
        return st_fail_oom(err);
    }
    *spec = (st_specialisation){.module = module, .index = 1};
    model->specialisations = spec;
    st_model_publish(model, module->root, module->root);
    model->n_specialisations = 1;
    *out_model = model;
    return STATOR_OK;
}

stator_status stator_model_finish(stator_builder *builder, stator_model **out_model)
{
    *out_model = NULL;
    st_module *module = builder->module;
    stator_ctx *ctx = module->ctx;
    stator_diag *diag = NULL;
    stator_status status = st_builder_finish(builder, &module->root, &diag);
    ST_THEN(status, st_check_symbols_bound(module->root, &diag));
    if (status != STATOR_OK) {
        st_module_destroy(module);
    } else {
        status = st_model_wrap(ctx, module, out_model, &diag);
    }
    return st_ctx_fail(ctx, status, diag);
}

/* ---- asking ---- */

const stator_graph *stator_model_graph(const stator_model *model)
{
    return atomic_load(&model->imported);
}

stator_status stator_model_specialise(stator_model *model, uint32_t n_in, stator_tensor *const *in)
{
    stator_ctx *ctx = model->ctx;
    stator_diag *diag = NULL;
    stator_status status = STATOR_OK;
    const uint32_t wanted = stator_model_input_count(model);
    DLTensor *views = st_calloc(&ctx->mem, n_in + 1u, sizeof *views);
    if (views == NULL) {
        status = st_fail_oom(&diag);
    } else if (n_in != wanted) {
        status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "%u inputs given, the model has %u", n_in,
                         wanted);
    }
    for (uint32_t i = 0; status == STATOR_OK && i < n_in; i++) {
        if (in == NULL) {
            status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "in is NULL");
        } else if (in[i] == NULL || in[i]->view.strides != NULL) {
            status = st_fail(&diag, STATOR_INVALID_ARGUMENT, "input %u is %s", i,
                             in[i] == NULL ? "missing" : "not dense; give a dense copy");
        } else {
            views[i] = *stator_tensor_view(in[i]);
        }
    }
    st_specialisation *spec = NULL;
    ST_THEN(status, st_model_specialise(model, n_in, views, NULL, &spec, &diag));
    st_free(&ctx->mem, views);
    return st_ctx_fail(ctx, status, diag);
}

uint32_t stator_model_input_count(const stator_model *model)
{
    return st_graph_call_inputs(st_model_signature(model), NULL);
}

uint32_t stator_model_output_count(const stator_model *model)
{
    const stator_graph *graph = stator_model_graph(model);
    return graph != NULL ? st_graph_view(graph)->n_outputs : 0;
}

/* The name of the dimension when it is one symbol, else "?". */
static const char *dim_name(const stator_graph_view *v, stator_ref sym)
{
    const stator_atom_row *atom = stator_sym_as_symbol(v, sym);
    if (atom != NULL && atom->name != 0) {
        return stator_string_at(v, atom->name);
    }
    return "?";
}

stator_status st_port_info_write(stator_ctx *ctx, const stator_graph_view *v, stator_ref value,
                                 const char *name, stator_port_info *out)
{
    const stator_type_row *type = stator_value_type(v, value);
    stator_port_info info = {.struct_size = sizeof info,
                             .dtype = type->dtype,
                             .name = name,
                             .rank = type->rank,
                             .is_param =
                                 (stator_value_at(v, value)->flags & STATOR_VALUE_PARAM) != 0};
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        const stator_ref dim = stator_dim_at(v, type, axis);
        if (!stator_sym_is_const(v, dim, &info.dims[axis])) {
            info.dims[axis] = -1;
            info.dim_names[axis] = dim_name(v, dim);
        }
    }
    return ST_CTX_WRITE(ctx, stator_port_info, out, &info);
}

static stator_status out_of_range(const stator_model *model, const char *what, uint32_t index)
{
    stator_diag *diag = NULL;
    const stator_status status =
        st_fail(&diag, STATOR_OUT_OF_RANGE, "the model has no %s %u", what, index);
    return st_ctx_fail(model->ctx, status, diag);
}

stator_ref st_model_call_input(const stator_graph *graph, uint32_t index)
{
    const stator_graph_view *v = st_graph_view(graph);
    uint32_t seen = 0;
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        if ((stator_value_at(v, value)->flags & STATOR_VALUE_PARAM) == 0 && seen++ == index) {
            return value;
        }
    }
    return 0;
}

stator_status stator_model_input_info(const stator_model *model, uint32_t index,
                                      stator_port_info *out_info)
{
    const stator_graph *graph = st_model_signature(model);
    const stator_graph_view *v = st_graph_view(graph);
    const stator_ref value = st_model_call_input(graph, index);
    return value != 0
               ? st_port_info_write(model->ctx, v, value,
                                    stator_string_at(v, stator_value_at(v, value)->name), out_info)
               : out_of_range(model, "input", index);
}

stator_status stator_model_output_info(const stator_model *model, uint32_t index,
                                       stator_port_info *out_info)
{
    const stator_graph *graph = stator_model_graph(model);
    const stator_graph_view *v = graph != NULL ? st_graph_view(graph) : NULL;
    if (v == NULL || index >= v->n_outputs) {
        return out_of_range(model, "output", index);
    }
    const stator_ref name = stator_ref_at(v, v->output_name_begin + index);
    return st_port_info_write(model->ctx, v, stator_output_at(v, index), stator_string_at(v, name),
                              out_info);
}
