/* Importing: choosing the frontend, running it, and specialising on input values. See model.h. */
#define _GNU_SOURCE
#include "core/host/model.h"

#include "core/base/check.h"
#include "core/plugins/plugin_call.h"
#include "core/runtime/tensor.h"
#include "ir/sizes/baked_in.h"
#include "ir/sizes/bound_symbols.h"
#include "ir/sizes/reinfer.h"
#include "ir/verify.h"

#include <stdatomic.h>
#include <string.h>

#define NEEDED_MAX 64u
#define FACTS_MAX 4096u

/* State and results of one run of a frontend. */
typedef struct import_state {
    stator_model *model;
    stator_tensor *const *values; /* parallel to model->needed */
    stator_diag *diag;
    stator_status status;
} import_state;

static int64_t find_needed(const stator_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->n_needed; i++) {
        if (strcmp(model->needed[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static const DLTensor *input_value(const stator_source *source, const char *name)
{
    const import_state *state = source->host;
    const int64_t i = find_needed(state->model, name);
    return i >= 0 && state->values != NULL && state->values[i] != NULL ? &state->values[i]->view
                                                                       : NULL;
}

static void need_value(const stator_source *source, const char *name)
{
    import_state *state = source->host;
    stator_model *model = state->model;
    if (find_needed(model, name) >= 0) {
        return;
    }
    st_mem *mem = &model->ctx->mem;
    char *copy = model->n_needed < NEEDED_MAX ? st_strdup(mem, name) : NULL;
    char **grown = st_realloc(mem, model->needed, (model->n_needed + 1u) * sizeof *grown, 16);
    if (grown != NULL) {
        model->needed = grown;
    }
    if (copy == NULL || grown == NULL) {
        st_free(mem, copy);
        state->status = STATOR_RESOURCE_EXHAUSTED;
        return;
    }
    model->needed[model->n_needed++] = copy;
}

/* A fact that there is no memory for is left out: an import does not fail for want of it. */
static void take_fact(const stator_source *source, const char *kind, const char *name,
                      const char *value)
{
    const import_state *state = source->host;
    stator_model *model = state->model;
    st_mem *mem = &model->ctx->mem;
    const st_fact fact = {st_strdup(mem, kind != NULL ? kind : ""),
                          st_strdup(mem, name != NULL ? name : ""),
                          st_strdup(mem, value != NULL ? value : "")};
    const bool is_whole = fact.kind != NULL && fact.name != NULL && fact.value != NULL;
    st_fact *slot =
        is_whole && model->facts.count < FACTS_MAX ? st_vec_push(mem, &model->facts) : NULL;
    if (slot != NULL) {
        *slot = fact;
        return;
    }
    st_free(mem, fact.kind);
    st_free(mem, fact.name);
    st_free(mem, fact.value);
}

static bool is_told(const stator_model *model, const char *path)
{
    for (uint32_t i = 0; i < model->facts.count; i++) {
        const st_fact *fact = &model->facts.data[i];
        if (strcmp(fact->kind, "data") == 0 && strcmp(fact->value, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Files beside the model's that constants are mapped from, whatever the frontend told of them. */
static void tell_mapped(const stator_source *source, const stator_model *model, const st_module *m)
{
    const st_file *last = NULL;
    for (uint32_t i = 1; i < m->blobs.count; i++) {
        const st_file *file = st_blob_file(st_module_blob_at(m, i), NULL);
        const char *path = file != NULL && file != last ? st_file_path(file) : NULL;
        last = file;
        if (path != NULL && (model->path == NULL || strcmp(path, model->path) != 0) &&
            !is_told(model, path)) {
            const char *slash = strrchr(path, '/');
            take_fact(source, "data", slash != NULL ? slash + 1 : path, path);
        }
    }
}

/* The frontend's part of an import. What it writes under a plan with axes has the file's numbers
 * read as sizes. */
static stator_status read_source(stator_model *model, const stator_source *source,
                                 const st_size_plan *size_plan, stator_builder *b,
                                 stator_diag **err)
{
    st_module *m = b->module;
    const stator_frontend *frontend = model->frontend->as.frontend;
    const bool has_axes = size_plan != NULL && size_plan->axes.count != 0;
    st_baked_in baked_in;
    m->plan = size_plan;
    if (has_axes) {
        st_baked_in_begin(&baked_in, m);
    }
    st_plugin_call call;
    st_plugin_enter(&call, model->frontend->callee, "import");
    stator_status status = frontend->import(model->frontend->self, source, model->options, b, err);
    /* NEED_VALUE is a question and no failure. */
    status = st_plugin_leave(&call, status, status != STATOR_NEED_VALUE ? err : NULL);
    m->plan = NULL;
    if (has_axes) {
        ST_THEN(status, st_baked_in_check(&baked_in, b, err));
        if (status == STATOR_OK && st_str_ok(&baked_in.log) && baked_in.log.len != 0) {
            st_log(model->ctx, "recompiles", 2, "constants that go on: %s", baked_in.log.data);
        }
        st_baked_in_end(&baked_in);
    }
    return status;
}

/* The plan's symbols, before a frontend asks for them by name: what it computes of them is decided
 * by the plan's ranges. The axes of a plan bring symbols of their own. */
static stator_status declare_ranges(st_module *m, const st_size_plan *size_plan, stator_diag **err)
{
    const uint32_t n =
        size_plan != NULL && size_plan->axes.count == 0 ? size_plan->ranges.count : 0;
    for (uint32_t i = 0; i < n; i++) {
        const st_plan_range *range = &size_plan->ranges.data[i];
        const uint32_t name = st_module_string(m, range->name, strlen(range->name));
        ST_TRY_MEM(name && st_sym_symbol(&m->symtab, name, range->lo, range->hi, 1, 0), err);
    }
    return STATOR_OK;
}

/* Runs the frontend once. On NEED_VALUE the declared inputs are kept in model->declared. */
static stator_status import_once(stator_model *model, stator_tensor *const *values,
                                 const st_size_plan *size_plan, st_module **out_module,
                                 stator_diag **err)
{
    *out_module = NULL;
    stator_ctx *ctx = model->ctx;
    import_state state = {.model = model, .values = values};
    const stator_source source = {.struct_size = sizeof source,
                                  .flags = model->flags,
                                  .path = model->dir != NULL ? model->path : NULL,
                                  .bytes = model->bytes,
                                  .size = model->size,
                                  .dir = model->dir,
                                  .input_value = input_value,
                                  .need_value = need_value,
                                  .host = &state,
                                  .fact = take_fact};
    st_module *module = NULL;
    ST_TRY(st_module_create(&ctx->mem, ctx, &ctx->ops, &module, err));
    stator_builder *b = NULL;
    stator_status status = st_builder_create(module, "main", &b, err);
    if (status != STATOR_OK) {
        st_module_destroy(module);
        return status;
    }
    status = declare_ranges(module, size_plan, err);
    if (status == STATOR_OK) {
        st_model_forget_facts(model);
        status = read_source(model, &source, size_plan, b, err);
        tell_mapped(&source, model, module);
    }
    if (status == STATOR_NEED_VALUE && state.status == STATOR_OK) {
        stator_graph *inputs_only = NULL;
        stator_diag *ignored = NULL;
        /* A graph needs an output; which one does not matter here. */
        if (b->n_outputs == 0) {
            (void)st_build_output(b, "", 1, &ignored);
        }
        if (st_builder_finish(b, &inputs_only, &ignored) == STATOR_OK && model->declared == NULL) {
            module->root = inputs_only;
            model->declared = module;
            st_model_publish(model, inputs_only, NULL);
            module = NULL;
        }
        st_diag_release(ignored);
        st_module_destroy(module);
        return STATOR_NEED_VALUE;
    }
    if (status == STATOR_OK) {
        status = st_builder_finish(b, &module->root, err);
    } else {
        st_builder_abort(b);
    }
    ST_THEN(status, st_verify(module->root, err));
    if (status != STATOR_OK) {
        st_module_destroy(module);
        return status;
    }
    *out_module = module;
    return STATOR_OK;
}

/* A frontend's message names the file, in front where it does not by itself, and one of a stranger
 * the plugin: what is wrong with its graph is its fault as often as the file's. */
static void name_file(const stator_model *model, stator_diag *diag)
{
    const st_callee *callee = model->frontend->callee;
    const char *slash = strrchr(model->path, '/');
    const char *name = slash != NULL ? slash + 1 : model->path;
    if (diag != NULL && strstr(st_diag_text(diag), name) == NULL) {
        st_diag_prefix(diag, "%s", name);
    }
    if (diag != NULL && !callee->is_ours && strstr(st_diag_text(diag), callee->name) == NULL) {
        st_diag_prefix(diag, "plugin '%s'", callee->name);
    }
}

/* The same; a failure while memory was refused is said to be that: a size that could not be made
 * for want of memory looks to a frontend like one beyond the limits of the symbolic engine. */
static stator_status run_frontend(stator_model *model, stator_tensor *const *values,
                                  const st_size_plan *size_plan, st_module **out_module,
                                  stator_diag **err)
{
    st_mem *mem = &model->ctx->mem;
    const uint64_t refused = atomic_load(&mem->refused);
    stator_diag *diag = NULL;
    const stator_status status = import_once(model, values, size_plan, out_module, &diag);
    if (status != STATOR_OK && status != STATOR_NEED_VALUE &&
        atomic_load(&mem->refused) != refused) {
        st_diag_release(diag);
        return st_fail_oom(err);
    }
    if (status != STATOR_OK && status != STATOR_NEED_VALUE) {
        name_file(model, diag);
    }
    return st_diag_give(status, diag, err);
}

void st_model_publish(stator_model *model, const stator_graph *signature,
                      const stator_graph *imported)
{
    const stator_graph *none = NULL;
    (void)atomic_compare_exchange_strong(&model->signature, &none, signature);
    none = NULL;
    if (imported != NULL) {
        (void)atomic_compare_exchange_strong(&model->imported, &none, imported);
    }
}

const stator_graph *st_model_signature(const stator_model *model)
{
    return atomic_load(&model->signature);
}

uint32_t st_model_needed_position(const stator_model *model, uint32_t i)
{
    const stator_graph_view *v = st_graph_view(st_model_signature(model));
    uint32_t position = 0;
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        const stator_value_row *row = stator_value_at(v, value);
        if ((row->flags & STATOR_VALUE_PARAM) != 0) {
            continue;
        }
        if (strcmp(stator_string_at(v, row->name), model->needed[i]) == 0) {
            return position;
        }
        position++;
    }
    return UINT32_MAX;
}

static bool values_match(const stator_model *model, const st_specialisation *spec,
                         const DLTensor *in)
{
    for (uint32_t i = 0; i < spec->n_values; i++) {
        const DLTensor *have = &spec->values[i]->view;
        const DLTensor *given = &in[st_model_needed_position(model, i)];
        if (have->ndim != given->ndim ||
            memcmp(&have->dtype, &given->dtype, sizeof have->dtype) != 0 ||
            (have->ndim > 0 &&
             memcmp(have->shape, given->shape, (size_t)have->ndim * sizeof(int64_t)) != 0) ||
            memcmp(have->data, (const char *)given->data + given->byte_offset,
                   spec->values[i]->size_bytes) != 0) {
            return false;
        }
    }
    return true;
}

static void free_values(st_mem *mem, stator_tensor **values, uint32_t n)
{
    for (uint32_t i = 0; values != NULL && i < n; i++) {
        stator_tensor_release(values[i]);
    }
    st_free(mem, values);
}

/* Copies of the needed inputs' contents, in model->needed order. */
static stator_status copy_values(stator_model *model, uint32_t n_in, const DLTensor *in,
                                 stator_tensor ***out_values, stator_diag **err)
{
    stator_ctx *ctx = model->ctx;
    stator_tensor **values = st_calloc(&ctx->mem, model->n_needed + 1u, sizeof *values);
    ST_TRY_MEM(values, err);
    stator_status status = STATOR_OK;
    for (uint32_t i = 0; status == STATOR_OK && i < model->n_needed; i++) {
        const uint32_t position = st_model_needed_position(model, i);
        if (position >= n_in) {
            status = st_fail(err, STATOR_INTERNAL,
                             "frontend needs the value of '%s', which is not an input",
                             model->needed[i]);
            break;
        }
        const DLTensor *src = &in[position];
        status = st_tensor_create(&ctx->mem, &ctx->pool, st_dtype_from_dl(src->dtype),
                                  (uint32_t)src->ndim, src->shape, &values[i], err);
        if (status == STATOR_OK) {
            st_tensor_copy_dense(src, values[i]->view.data);
        }
    }
    if (status != STATOR_OK) {
        free_values(&ctx->mem, values, model->n_needed);
        return status;
    }
    *out_values = values;
    return STATOR_OK;
}

/* Takes the module over, also on failure; values only on success. */
static stator_status add_specialisation(stator_model *model, st_module *module,
                                        stator_tensor **values, const st_size_plan *size_plan,
                                        st_specialisation **out_spec, stator_diag **err)
{
    st_mem *mem = &model->ctx->mem;
    st_specialisation *spec = st_calloc(mem, 1, sizeof *spec);
    if (spec == NULL ||
        (size_plan != NULL && !st_size_plan_copy(&spec->size_plan, mem, size_plan))) {
        st_free(mem, spec);
        st_module_destroy(module);
        return st_fail_oom(err);
    }
    spec->next = model->specialisations;
    spec->module = module;
    spec->values = values;
    spec->n_values = values != NULL ? model->n_needed : 0;
    spec->index = ++model->n_specialisations;
    model->specialisations = spec;
    if (size_plan == NULL) {
        st_model_publish(model, module->root, module->root);
    }
    *out_spec = spec;
    return STATOR_OK;
}

/* The declared import of a model that no frontend reads. */
static const st_module *built_module(const stator_model *model)
{
    const st_specialisation *s = model->specialisations;
    while (s != NULL && (s->base != NULL || s->size_plan.ranges.count != 0)) {
        s = s->next;
    }
    return s != NULL ? s->module : NULL;
}

/* One import; what a frontend took from the file although the plan says otherwise is inferred anew.
 */
static stator_status import_as(stator_model *model, stator_tensor *const *values,
                               const st_size_plan *size_plan, st_module **out_module,
                               stator_diag **err)
{
    st_module *new_module = NULL;
    const st_module *from = built_module(model);
    *out_module = NULL;
    if (model->frontend != NULL) {
        ST_TRY(run_frontend(model, values, size_plan, &new_module, err));
        const stator_status symbols_bound = st_check_symbols_bound(new_module->root, err);
        if (symbols_bound != STATOR_OK) {
            st_module_destroy(new_module);
            return symbols_bound;
        }
        if (size_plan == NULL || st_reinfer_follows(new_module, size_plan)) {
            *out_module = new_module;
            return STATOR_OK;
        }
        from = new_module;
    }
    st_size_plan copy;
    stator_status status = STATOR_OK;
    if (from == NULL || !st_size_plan_copy(&copy, &model->ctx->mem, size_plan)) {
        status = st_fail_oom(err);
    } else {
        status = st_reinfer(from, &copy, NULL, out_module, err);
        st_size_plan_deinit(&copy);
    }
    ST_THEN(status, st_verify((*out_module)->root, err));
    if (status != STATOR_OK) {
        st_module_destroy(*out_module);
        *out_module = NULL;
    }
    st_module_destroy(new_module);
    return status;
}

/* A plan whose numbers are symbols while the source is read. */
typedef struct opened_size_plan {
    st_size_plan open;    /* the plan with symbols */
    st_size_plan numbers; /* the same sizes as numbers again */
    bool has_one;         /* a 1 where the model has more: it would broadcast where it must not */
} opened_size_plan;

static void close_size_plan(opened_size_plan *p)
{
    st_size_plan_deinit(&p->open);
    st_size_plan_deinit(&p->numbers);
}

static bool open_size_plan(const st_size_plan *size_plan, st_mem *mem, opened_size_plan *out)
{
    bool ok = st_size_plan_copy(&out->open, mem, size_plan);
    out->has_one = false;
    st_size_plan_init(&out->numbers, mem);
    for (uint32_t i = 0; ok && i < out->open.ranges.count; i++) {
        st_plan_range *range = &out->open.ranges.data[i];
        if (range->lo != range->hi) {
            continue;
        }
        ok = st_size_plan_range(&out->numbers, range->name, range->lo, range->hi);
        out->has_one |= range->lo == 1 && range->baked_in > 1;
        range->lo = range->lo < 2 ? range->lo : 2;
        range->hi = ST_PLAN_SIZE_MAX;
    }
    if (!ok) {
        close_size_plan(out);
    }
    return ok;
}

/* Does the module work with other sizes than 1 and those baked into the file? Those tried obey
 * what the baked-in ones obey (a multiple of 4), or fit into what they fit into (a table of
 * 512). */
static stator_status follows_sizes(const st_module *m, const opened_size_plan *p, stator_diag **err)
{
    stator_status status = STATOR_OK;
    for (uint32_t round = 0; round < 3; round++) {
        st_size_plan other;
        st_module *tried = NULL;
        st_size_plan_init(&other, m->mem);
        status = STATOR_OK;
        for (uint32_t i = 0; status == STATOR_OK && i < p->numbers.ranges.count; i++) {
            const st_plan_range *number = &p->numbers.ranges.data[i];
            const int64_t was = st_size_plan_find(&p->open, number->name)->baked_in;
            const int64_t near[3] = {2 * was, was / 2, was - 1};
            const int64_t size = was > 1 && near[round] > 1 ? near[round] : number->lo;
            status =
                st_size_plan_range(&other, number->name, size, size) ? STATOR_OK : st_fail_oom(err);
        }
        if (status == STATOR_OK) {
            if (err != NULL && *err != NULL) {
                st_diag_release(*err);
                *err = NULL;
            }
            status = st_reinfer(m, &other, NULL, &tried, err);
        }
        st_module_destroy(tried);
        st_size_plan_deinit(&other);
        if (status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED) {
            return status;
        }
    }
    if (err != NULL && *err != NULL) {
        st_diag_prefix(*err, "1 would only be repeated where the file's size is meant; of others");
    }
    return status;
}

/* An import with symbols in place of the plan's numbers. *out_module stays NULL where these may
 * be imported as such: nothing of the source comes from the baked-in ones, or does not work with
 * symbols. FAILED_PRECONDITION: what it does with them is not to be had (baked_in.h). */
static stator_status import_opened(stator_model *model, stator_tensor *const *values,
                                   opened_size_plan *p, st_module **out_module, stator_diag **err)
{
    st_module *symbolic = NULL;
    stator_diag *why = NULL;
    stator_status status = import_as(model, values, &p->open, &symbolic, &why);
    if (status == STATOR_FAILED_PRECONDITION && err != NULL && *err == NULL) {
        *err = why;
        return status;
    }
    st_diag_release(why);
    if (status != STATOR_OK) {
        return status == STATOR_FAILED_PRECONDITION ? status : STATOR_OK;
    }
    status = p->has_one ? follows_sizes(symbolic, p, err) : STATOR_OK;
    if (status == STATOR_OK && symbolic->n_read_as_sizes != 0) {
        status = st_reinfer(symbolic, &p->numbers, NULL, out_module, err);
    }
    st_module_destroy(symbolic);
    return status;
}

/* One import. A number that takes the place of a baked-in one is a symbol first, so that what the
 * file has of the baked-in one is read as it. */
static stator_status import_with_size_plan(stator_model *model, stator_tensor *const *values,
                                           const st_size_plan *size_plan, st_module **out_module,
                                           stator_diag **err)
{
    opened_size_plan opened;
    *out_module = NULL;
    if (size_plan != NULL && size_plan->axes.count != 0) {
        ST_TRY_MEM(open_size_plan(size_plan, &model->ctx->mem, &opened), err);
        const stator_status status = opened.numbers.ranges.count != 0
                                         ? import_opened(model, values, &opened, out_module, err)
                                         : STATOR_OK;
        close_size_plan(&opened);
        if (status != STATOR_OK || *out_module != NULL) {
            return status;
        }
    }
    return import_as(model, values, size_plan, out_module, err);
}

/* Imports with the values at hand, asking for more until the frontend is content. */
static stator_status import_with(stator_model *model, uint32_t n_in, const DLTensor *in,
                                 const st_size_plan *size_plan, st_specialisation **out_spec,
                                 stator_diag **err)
{
    for (uint32_t round = 0; round <= NEEDED_MAX; round++) {
        const uint32_t known = model->n_needed;
        stator_tensor **values = NULL;
        if (known > 0) {
            ST_TRY(copy_values(model, n_in, in, &values, err));
        }
        st_module *module = NULL;
        stator_diag *diag = NULL;
        stator_status status = import_with_size_plan(model, values, size_plan, &module, &diag);
        if (status == STATOR_OK) {
            status = add_specialisation(model, module, values, size_plan, out_spec, &diag);
            if (status == STATOR_OK) {
                return STATOR_OK;
            }
        }
        free_values(&model->ctx->mem, values, known);
        if (status == STATOR_NEED_VALUE && model->n_needed == NEEDED_MAX && diag == NULL) {
            (void)st_fail(&diag, status, "more than %u inputs decide shapes by their values",
                          NEEDED_MAX - 1u);
        }
        if (status == STATOR_NEED_VALUE && model->n_needed > known && in != NULL) {
            st_diag_release(diag);
            continue;
        }
        return st_diag_give(status, diag, err);
    }
    return st_fail(err, STATOR_INTERNAL, "the frontend keeps asking for input values");
}

static bool has_size_plan(const st_specialisation *spec, const st_size_plan *size_plan)
{
    return size_plan != NULL ? st_size_plan_equal(&spec->size_plan, size_plan)
                             : spec->size_plan.ranges.count == 0;
}

stator_status st_model_specialise(stator_model *model, uint32_t n_in, const DLTensor *in,
                                  const st_size_plan *size_plan, st_specialisation **out_spec,
                                  stator_diag **err)
{
    *out_spec = NULL;
    pthread_mutex_lock(&model->lock);
    stator_status status = STATOR_OK;
    for (st_specialisation *s = model->specialisations; s != NULL && *out_spec == NULL;
         s = s->next) {
        if (s->base == NULL && has_size_plan(s, size_plan) &&
            (s->n_values == 0 || (in != NULL && values_match(model, s, in)))) {
            *out_spec = s;
        }
    }
    if (*out_spec == NULL) {
        status = import_with(model, n_in, in, size_plan, out_spec, err);
    }
    pthread_mutex_unlock(&model->lock);
    return status;
}

static stator_status refine_locked(stator_model *model, const st_specialisation *base,
                                   st_size_plan *size_plan, const int64_t *at,
                                   st_specialisation **out_spec, stator_diag **err)
{
    st_module *module = NULL;
    ST_TRY(st_reinfer(base->module, size_plan, at, &module, err));
    /* The plan is narrowed now: there may be one of the same ranges after all. */
    for (st_specialisation *s = model->specialisations; s != NULL; s = s->next) {
        if (s->base == base && st_size_plan_equal(&s->size_plan, size_plan)) {
            st_module_destroy(module);
            *out_spec = s;
            return STATOR_OK;
        }
    }
    const stator_status status = st_verify(module->root, err);
    if (status != STATOR_OK) {
        st_module_destroy(module);
        return status;
    }
    ST_TRY(add_specialisation(model, module, base->values, size_plan, out_spec, err));
    (*out_spec)->base = base;
    (*out_spec)->n_values = base->n_values;
    return STATOR_OK;
}

stator_status st_model_refine(stator_model *model, const st_specialisation *base,
                              st_size_plan *size_plan, const int64_t *at,
                              st_specialisation **out_spec, stator_diag **err)
{
    *out_spec = NULL;
    pthread_mutex_lock(&model->lock);
    const stator_status status = refine_locked(model, base, size_plan, at, out_spec, err);
    pthread_mutex_unlock(&model->lock);
    return status;
}
