/* Functions: a model compiled for a backend, one executable a guard: making one, ending it, and
 * what it tells of itself. See stator/stator.h. */
#define _GNU_SOURCE
#include "core/host/function_state.h"

#include "core/base/sized.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_RECOMPILE_LIMIT 8u
#define COMPILE_FLAGS (2u * STATOR_COMPILE_STRICT_COPIES - 1u) /* stator_compile_flag, all of it */

static stator_status check_mode(const char *mode, stator_diag **err)
{
    static const char *const modes[] = {"default", "reduce-overhead", "max-autotune",
                                        "max-autotune-no-cudagraphs"};
    for (size_t i = 0; mode != NULL && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(mode, modes[i]) == 0) {
            return STATOR_OK;
        }
    }
    return mode == NULL ? STATOR_OK
                        : st_fail(err, STATOR_INVALID_ARGUMENT,
                                  "there is no mode '%s' (default, reduce-overhead, max-autotune, "
                                  "max-autotune-no-cudagraphs)",
                                  mode);
}

/* STATOR_FUEL=N allows N transformations of a compile whose options set no limit, STATOR_FUEL=S:N
 * those before scope S and the first N in it. */
static stator_status take_fuel(stator_function *f, const stator_compile_options *options,
                               stator_diag **err)
{
    const bool is_set = options->fuel != 0 || options->fuel_scope != NULL ||
                        (options->flags & STATOR_COMPILE_NO_FUEL) != 0;
    const char *text =
        (f->ctx->flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv("STATOR_FUEL") : NULL;
    f->fuel_limit = options->fuel;
    const char *scope = options->fuel_scope;
    char number[16];
    if (!is_set && text != NULL) {
        const size_t before = strcspn(text, ":");
        const char *limit = text[before] == ':' ? text + before + 1 : text;
        char *end = NULL;
        f->fuel_limit = strtoll(limit, &end, 10);
        ST_FAIL_IF(end == limit || *end != '\0' || f->fuel_limit < 0 || before >= sizeof number,
                   err, STATOR_INVALID_ARGUMENT,
                   "STATOR_FUEL is '%s': write a number N, or SCOPE:N", text);
        (void)snprintf(number, sizeof number, "%.*s", (int)before, text);
        scope = limit != text ? number : NULL;
        f->flags |= scope == NULL && f->fuel_limit == 0 ? (uint32_t)STATOR_COMPILE_NO_FUEL : 0;
    }
    if (scope != NULL) {
        f->fuel_scope = st_strdup(&f->ctx->mem, scope);
        ST_TRY_MEM(f->fuel_scope, err);
    }
    return STATOR_OK;
}

static stator_status open_function(stator_function *f, const stator_compile_options *options,
                                   stator_diag **err)
{
    st_fuel_init(&f->fuel, &f->ctx->mem);
    ST_TRY(check_mode(options->mode, err));
    ST_TRY(st_open_main(f->ctx, options, &f->backends.main, err));
    f->flags = options->flags;
    f->watch = (st_watch){options->progress, options->is_cancelled, options->watch_self};
    f->recompile_limit =
        options->recompile_limit != 0 ? options->recompile_limit : DEFAULT_RECOMPILE_LIMIT;
    ST_TRY(take_fuel(f, options, err));
    f->has_devices = f->backends.main->domain != NULL;
    f->outputs = options->outputs;
    ST_TRY(st_function_check_outputs(f, f->outputs, err));
    if (strcmp(f->backends.main->backend->item.name, "eager") != 0) {
        f->backends.reference = st_open_reference(f->backends.main);
    }
    ST_TRY(st_open_fallbacks(&f->backends, options, err));
    for (uint32_t i = 0; i < f->backends.n_fallbacks; i++) {
        f->has_devices |= f->backends.fallbacks[i]->domain != NULL;
    }
    return options->verify != 0
               ? st_verifier_create(f->model, options, f->backends.main->backend->item.name,
                                    &f->verifier, err)
               : STATOR_OK;
}

stator_status stator_compile(stator_model *model, const stator_compile_options *given,
                             stator_function **out_function)
{
    *out_function = NULL;
    stator_ctx *ctx = model->ctx;
    stator_compile_options options = {.struct_size = sizeof options};
    stator_diag *diag = NULL;
    stator_status status =
        given != NULL ? ST_SIZED_READ(stator_compile_options, &options, given, &diag) : STATOR_OK;
    ST_THEN(status, st_check_flags(options.flags, COMPILE_FLAGS, "stator_compile_options", &diag));
    ST_FAIL_BY_IF(st_ctx_fail, status != STATOR_OK, ctx, status, diag);
    stator_function *f = st_calloc(&ctx->mem, 1, sizeof *f);
    ST_FAIL_BY_IF(st_ctx_fail, f == NULL, ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    f->ctx = ctx;
    f->model = model;
    f->n_inputs = stator_model_input_count(model);
    st_model_retain(model);
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->blocks_lock, NULL);
    status = open_function(f, &options, &diag);
    if (status != STATOR_OK) {
        stator_function_destroy(f);
    } else {
        *out_function = f;
    }
    return st_ctx_fail(ctx, status, diag);
}

void stator_function_destroy(stator_function *f)
{
    if (f == NULL) {
        return;
    }
    st_mem *mem = &f->ctx->mem;
    st_function_params_deinit(f);
    st_backends_close(&f->backends);
    st_fuel_deinit(&f->fuel);
    while (f->blocks != NULL) {
        input_block *block = f->blocks;
        f->blocks = block->next;
        st_free(mem, block);
    }
    st_sizes_deinit(&f->sizes, mem);
    st_verifier_destroy(f->verifier);
    st_free(mem, f->fuel_scope);
    st_model_release(f->model);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->blocks_lock);
    st_free(mem, f);
}

stator_status st_function_check_outputs(const stator_function *f, uint32_t outputs,
                                        stator_diag **err)
{
    ST_FAIL_IF(outputs > STATOR_OUTPUTS_DEVICE, err, STATOR_INVALID_ARGUMENT,
               "outputs is %u; expected one of stator_outputs, 0 to 2", outputs);
    ST_FAIL_IF(outputs == STATOR_OUTPUTS_DEVICE && f->backends.main->domain == NULL, err,
               STATOR_INVALID_ARGUMENT,
               "results are wanted on a device, and the backend '%s' computes in host memory",
               f->backends.main->backend->item.name);
    return STATOR_OK;
}

static stator_status wait_for_all(const stator_function *f, stator_diag **err)
{
    stator_status first = STATOR_OK;
    const entry_list *list = atomic_load(&f->list);
    for (uint32_t i = 0; f->has_devices && list != NULL && i < list->count; i++) {
        const stator_status status =
            st_program_wait(&list->entries[i]->program, first == STATOR_OK ? err : NULL);
        first = first == STATOR_OK ? status : first;
    }
    return first;
}

stator_status stator_function_wait(stator_function *f)
{
    stator_diag *diag = NULL;
    const stator_status status = wait_for_all(f, &diag);
    return st_ctx_fail(f->ctx, status, diag);
}

/* ---- asking ---- */

uint32_t stator_function_coverage(stator_function *f, uint32_t capacity, stator_coverage *out_rows)
{
    const entry_list *list = atomic_load(&f->list);
    const uint32_t n = list != NULL ? list->entries[0]->n_coverage : 0;
    for (uint32_t i = 0; i < n && i < capacity; i++) {
        out_rows[i] = list->entries[0]->coverage[i];
    }
    return n;
}

uint32_t stator_function_compiles(stator_function *f)
{
    const entry_list *list = atomic_load(&f->list);
    return list != NULL ? list->count : 0;
}

stator_status stator_function_copies(stator_function *f, stator_copy_info *out)
{
    entry_list *list = atomic_load(&f->list);
    stator_copy_info info = {.struct_size = sizeof info};
    if (list != NULL) {
        st_program *p = &list->entries[list->count - 1u]->program;
        pthread_mutex_lock(&p->lock);
        info.n_copies = (uint32_t)p->last_counts.n_copies;
        info.bytes = p->last_counts.n_bytes;
        info.n_waits = (uint32_t)p->last_counts.n_waits;
        info.n_devices = p->n_domains;
        info.n_calls = p->n_calls;
        info.n_write_backs = p->n_write_backs;
        info.n_write_back_copies = (uint32_t)p->last_counts.n_written;
        info.write_back_bytes = p->last_counts.n_written_bytes;
        pthread_mutex_unlock(&p->lock);
    }
    return ST_CTX_WRITE(f->ctx, stator_copy_info, out, &info);
}

uint64_t stator_function_compile_ns(stator_function *f)
{
    return atomic_load(&f->compile_ns);
}

const st_compiled *st_function_entry(const stator_function *f, uint32_t i)
{
    const entry_list *list = atomic_load(&f->list);
    return list != NULL && i < list->count ? list->entries[i] : NULL;
}

stator_ctx *st_function_ctx(const stator_function *f)
{
    return f->ctx;
}

stator_model *st_function_model(stator_function *f)
{
    return f->model;
}

st_fuel *st_function_fuel(stator_function *f)
{
    f->is_recording = 1;
    return &f->fuel;
}

void st_function_watch(stator_function *f, stator_x_fuel_fn fn, void *self)
{
    f->fuel_watch = fn;
    f->fuel_watch_self = self;
}
