/* Functions: a model compiled for a backend, one executable a guard, and the two ways to call it.
 * See stator/stator.h.
 *
 * The list of compiled entries is immutable: readers take an atomic snapshot, a compile publishes a
 * longer list and keeps the old one until the function ends, so a call never waits for a compile of
 * another shape. */
#define _GNU_SOURCE
#include "core/host/function.h"

#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/base/threads/threads.h"
#include "core/cache/cache.h"
#include "core/host/hints.h"
#include "core/host/open_backends.h"
#include "core/host/sizes.h"
#include "core/host/verify_calls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_RECOMPILE_LIMIT 8u
#define COMPILE_FLAGS (2u * STATOR_COMPILE_FILL_OUTPUTS - 1u) /* stator_compile_flag, all of it */

typedef struct entry_list {
    struct entry_list *previous;
    uint32_t count;
    st_compiled *entries[];
} entry_list;

/* Room for the inputs of one call that has many. */
typedef struct input_block {
    struct input_block *next;
    stator_tensor **copies;
    DLTensor views[];
} input_block;

struct stator_function {
    stator_ctx *ctx;
    stator_model *model;
    uint32_t n_inputs; /* inputs of a call */
    st_backends backends;
    uint32_t flags;
    uint32_t recompile_limit;
    int64_t fuel_limit;
    char *fuel_scope;
    uint32_t is_recording;
    stator_x_fuel_fn fuel_watch;
    void *fuel_watch_self;
    st_watch watch;       /* the application's watcher */
    pthread_mutex_t lock; /* compiles */
    st_sizes sizes;
    _Atomic(entry_list *) list;
    _Atomic uint64_t compile_ns;
    st_fuel fuel; /* fuel of the last compile */
    pthread_mutex_t blocks_lock;
    input_block *blocks;   /* free ones: calls that overlap take one each */
    st_verifier *verifier; /* NULL: calls are not compared */
};

/* ---- making ---- */

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
    const int is_set = options->fuel != 0 || options->fuel_scope != NULL ||
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
        if (end == limit || *end != '\0' || f->fuel_limit < 0 || before >= sizeof number) {
            return st_fail(err, STATOR_INVALID_ARGUMENT,
                           "STATOR_FUEL is '%s': write a number N, or SCOPE:N", text);
        }
        (void)snprintf(number, sizeof number, "%.*s", (int)before, text);
        scope = limit != text ? number : NULL;
        f->flags |= scope == NULL && f->fuel_limit == 0 ? (uint32_t)STATOR_COMPILE_NO_FUEL : 0;
    }
    if (scope != NULL) {
        f->fuel_scope = st_strdup(&f->ctx->mem, scope);
        if (f->fuel_scope == NULL) {
            return st_fail_oom(err);
        }
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
    if (strcmp(f->backends.main->backend->item.name, "eager") != 0) {
        f->backends.reference = st_open_reference(f->backends.main);
    }
    ST_TRY(st_open_fallbacks(&f->backends, options, err));
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
    if (status == STATOR_OK) {
        status = st_check_flags(options.flags, COMPILE_FLAGS, "stator_compile_options", &diag);
    }
    if (status != STATOR_OK) {
        return st_ctx_fail(ctx, status, diag);
    }
    stator_function *f = st_calloc(&ctx->mem, 1, sizeof *f);
    if (f == NULL) {
        return st_ctx_fail(ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    }
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
    entry_list *list = atomic_load(&f->list);
    st_cache_writer_flush(&f->ctx->cache_writer);
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        st_compiled_destroy(list->entries[i]);
    }
    while (list != NULL) {
        entry_list *previous = list->previous;
        st_free(mem, list);
        list = previous;
    }
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

/* ---- compiling for a set of inputs ---- */

static stator_status publish(stator_function *f, st_compiled *compiled, stator_diag **err)
{
    entry_list *old = atomic_load(&f->list);
    const uint32_t count = old != NULL ? old->count : 0;
    entry_list *list =
        st_calloc(&f->ctx->mem, 1, sizeof *list + (count + 1u) * sizeof list->entries[0]);
    if (list == NULL) {
        return st_fail_oom(err);
    }
    list->previous = old;
    list->count = count + 1u;
    list->entries[0] = compiled; /* newest first: the likeliest */
    if (count != 0) {
        memcpy(&list->entries[1], old->entries, count * sizeof list->entries[0]);
    }
    atomic_store_explicit(&f->list, list, memory_order_release);
    return STATOR_OK;
}

/* Guards the inputs whose values the import used. The values live in the model's specialisation. */
static void guard_values(st_compiled *compiled, const stator_model *model,
                         const st_specialisation *spec)
{
    for (uint32_t i = 0; i < spec->n_values; i++) {
        const uint32_t position = st_model_needed_position(model, i);
        st_guard_input *input = &compiled->guard.inputs[position];
        input->value_shape = spec->values[i]->shape;
        input->value = stator_tensor_data(spec->values[i]);
        input->value_bytes = spec->values[i]->size_bytes;
    }
}

void st_function_request(stator_function *f, const st_specialisation *spec,
                         st_compile_request *out_request)
{
    *out_request = (st_compile_request){.ctx = f->ctx,
                                        .source = spec->module,
                                        .main = f->backends.main,
                                        .options = f->backends.main->options,
                                        .evaluator = f->backends.reference,
                                        .fuel = &f->fuel,
                                        .watch = f->watch,
                                        /* STRICT_SIZES decides about calls, not programs: it is no
                                         * part of a key */
                                        .flags = f->flags & ~(uint32_t)STATOR_COMPILE_STRICT_SIZES,
                                        .n_fallbacks = f->backends.n_fallbacks};
    memcpy(out_request->fallbacks, f->backends.fallbacks, sizeof out_request->fallbacks);
}

static stator_status reset_fuel(stator_function *f, stator_diag **err)
{
    st_fuel_deinit(&f->fuel);
    st_fuel_init(&f->fuel, &f->ctx->mem);
    f->fuel.is_recording = f->is_recording;
    f->fuel.watch = f->fuel_watch;
    f->fuel.watch_self = f->fuel_watch_self;
    return st_fuel_configure(&f->fuel, f->fuel_limit, f->fuel_scope,
                             (f->flags & STATOR_COMPILE_NO_FUEL) != 0, err);
}

/* Inputs that no compile can serve: said against the signature of the imported graph. */
static stator_status explain_mismatch(stator_function *f, const st_compiled *compiled,
                                      const DLTensor *in, stator_diag **err)
{
    st_str text;
    st_str_init(&text, &f->ctx->mem);
    st_guard_explain(&compiled->guard, in, &text);
    const stator_status status =
        st_fail(err, STATOR_INVALID_ARGUMENT, "%s", text.data != NULL ? text.data : "bad input");
    st_str_deinit(&text);
    return status;
}

static st_compiled *entry_of(const stator_function *f, const st_specialisation *spec)
{
    const entry_list *list = atomic_load(&f->list);
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        if (list->entries[i]->specialisation == spec->index) {
            return list->entries[i];
        }
    }
    return NULL;
}

/* Eager runs a graph as it is imported: sizes need not be known better for it. */
static uint32_t sizes_flags(const stator_function *f)
{
    const int is_eager = strcmp(f->backends.main->backend->item.name, "eager") == 0;
    const uint32_t strict = (f->flags & STATOR_COMPILE_STRICT_SIZES) != 0 ? ST_SIZES_STRICT : 0;
    return strict | ((f->flags & STATOR_COMPILE_STATIC) != 0 ? ST_SIZES_STATIC
                     : is_eager                              ? 0
                                                             : ST_SIZES_REFINE);
}

/* Chooses the import to compile: at the recompile limit one graph for all sizes, and none after
 * that. */
static stator_status choose_spec(stator_function *f, uint32_t n_in, const DLTensor *in,
                                 st_specialisation **out_spec, stator_diag **err)
{
    const uint32_t count = stator_function_compiles(f);
    uint32_t flags = sizes_flags(f);
    if (count > f->recompile_limit) {
        flags = ST_SIZES_GENERIC | (flags & ST_SIZES_STRICT);
        st_log(f->ctx, "recompiles", 2, "compiled %u times (recompile_limit %u): for all sizes now",
               count, f->recompile_limit);
        st_log(f->ctx, ST_HINTS, 2,
               "compiled %u times (recompile_limit %u): one more program, which knows no sizes, "
               "serves all that the others do not; give fewer different sizes, or raise the limit",
               count, f->recompile_limit);
    }
    ST_TRY(st_sizes_choose(&f->sizes, f->model, flags, n_in, in, out_spec, err));
    const st_compiled *known = entry_of(f, *out_spec);
    if (known != NULL) {
        return explain_mismatch(f, known, in, err);
    }
    /* Values of inputs have no form for all of them. */
    return count <= f->recompile_limit + ((*out_spec)->n_values == 0)
               ? STATOR_OK
               : st_fail(err, STATOR_RESOURCE_EXHAUSTED,
                         "compiled %u times already: sizes or values of inputs that decide shapes "
                         "keep changing (recompile_limit %u)",
                         count, f->recompile_limit);
}

/* Why there is another compile, and for which sizes. */
static void log_compile(stator_function *f, const st_specialisation *spec, const DLTensor *in,
                        uint64_t ns)
{
    const entry_list *list = atomic_load(&f->list);
    st_str text;
    if (!st_log_enabled(f->ctx, "recompiles", 2)) {
        return;
    }
    st_str_init(&text, &f->ctx->mem);
    if (list != NULL) {
        st_str_addf(&text, "compile %u: ", list->count + 1u);
        st_guard_explain(&list->entries[0]->guard, in, &text);
    } else {
        st_str_add(&text, "compile 1");
    }
    if (spec->size_plan.ranges.count != 0) {
        st_str_add(&text, "; for ");
        st_size_plan_print(&spec->size_plan, &text);
    }
    st_log(f->ctx, "recompiles", 2, "%s (sizes chosen in %.1f ms)",
           text.data != NULL ? text.data : "", (double)ns / 1e6);
    st_str_deinit(&text);
}

static void hint_recompile(stator_function *f, const st_specialisation *spec, const DLTensor *in)
{
    const entry_list *list = atomic_load(&f->list);
    if (list != NULL) {
        const st_hint_recompile what = {.ctx = f->ctx,
                                        .programs = list->entries,
                                        .n_programs = list->count,
                                        .next = spec,
                                        .in = in,
                                        .sizes = &f->sizes,
                                        .is_static = (f->flags & STATOR_COMPILE_STATIC) != 0,
                                        .is_generic = list->count > f->recompile_limit};
        st_hint_recompiled(&what);
    }
}

static stator_status compile_spec(stator_function *f, const st_specialisation *spec,
                                  const DLTensor *in, st_compiled **out_compiled, stator_diag **err)
{
    st_compile_request request;
    int64_t *hints = NULL;
    st_function_request(f, spec, &request);
    ST_TRY(st_sizes_hints(&f->ctx->mem, spec, in, &hints, &request.n_hints, err));
    request.hints = hints;
    const stator_status status = st_compile_graph(&request, out_compiled, err);
    st_free(&f->ctx->mem, hints);
    return status;
}

static stator_status compile_locked(stator_function *f, uint32_t n_in, const DLTensor *in,
                                    st_compiled **out_compiled, stator_diag **err)
{
    st_specialisation *spec = NULL;
    const uint64_t start = st_now_ns();
    ST_TRY(choose_spec(f, n_in, in, &spec, err));
    log_compile(f, spec, in, st_now_ns() - start);
    hint_recompile(f, spec, in);
    ST_TRY(reset_fuel(f, err));
    st_compiled *compiled = NULL;
    ST_TRY(compile_spec(f, spec, in, &compiled, err));
    compiled->specialisation = spec->index;
    guard_values(compiled, f->model, spec);
    const stator_status status = publish(f, compiled, err);
    if (status != STATOR_OK) {
        st_compiled_destroy(compiled);
        return status;
    }
    atomic_store(&f->compile_ns, st_now_ns() - start);
    *out_compiled = compiled;
    return STATOR_OK;
}

/* An entry whose guard accepts the inputs, with a call state whose symbols are bound. */
static st_compiled *find_entry(stator_function *f, const DLTensor *in, st_call_state **out_state)
{
    entry_list *list = atomic_load_explicit(&f->list, memory_order_acquire);
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        st_compiled *entry = list->entries[i];
        st_call_state *state = st_program_acquire(&entry->program);
        if (state == NULL) {
            return NULL;
        }
        if (st_guard_check(&entry->guard, in, st_call_state_syms(state))) {
            *out_state = state;
            return entry;
        }
        st_program_release(&entry->program, state);
    }
    return NULL;
}

/* Sizes that the guard bound and the graph cannot work with end the call; its state goes back. */
static stator_status check_shape_constraints(st_compiled *entry, st_call_state **state,
                                             stator_diag **err)
{
    const stator_status status =
        st_guard_check_shape_constraints(&entry->guard, st_call_state_syms(*state), err);
    if (status != STATOR_OK) {
        st_program_release(&entry->program, *state);
        *state = NULL;
    }
    return status;
}

static stator_status entry_for(stator_function *f, uint32_t n_in, const DLTensor *in,
                               st_compiled **out_entry, st_call_state **out_state,
                               stator_diag **err)
{
    *out_entry = find_entry(f, in, out_state);
    if (*out_entry != NULL) {
        return check_shape_constraints(*out_entry, out_state, err);
    }
    pthread_mutex_lock(&f->lock);
    stator_status status = STATOR_OK;
    *out_entry = find_entry(f, in, out_state); /* another thread may have compiled it meanwhile */
    if (*out_entry == NULL) {
        status = compile_locked(f, n_in, in, out_entry, err);
    }
    pthread_mutex_unlock(&f->lock);
    if (status == STATOR_OK && *out_state == NULL) {
        *out_state = st_program_acquire(&(*out_entry)->program);
        if (*out_state == NULL) {
            return st_fail(err, STATOR_RESOURCE_EXHAUSTED,
                           "no memory for a workspace of %llu bytes",
                           (unsigned long long)(*out_entry)->program.workspace_bytes);
        }
        if (!st_guard_check(&(*out_entry)->guard, in, st_call_state_syms(*out_state))) {
            st_program_release(&(*out_entry)->program, *out_state);
            *out_state = NULL; /* the free list owns it again */
            return explain_mismatch(f, *out_entry, in, err);
        }
    }
    return status == STATOR_OK ? check_shape_constraints(*out_entry, out_state, err) : status;
}

stator_status st_function_prepare(stator_function *f, uint32_t n_in, const DLTensor *in,
                                  st_compiled **out_compiled, stator_diag **err)
{
    st_call_state *state = NULL;
    ST_TRY(entry_for(f, n_in, in, out_compiled, &state, err));
    st_program_release(&(*out_compiled)->program, state);
    return STATOR_OK;
}

stator_status st_function_cache_why(stator_function *f, uint32_t n_in, const DLTensor *in,
                                    int *out_hit, st_str *text, stator_diag **err)
{
    st_specialisation *spec = NULL;
    st_compile_request request;
    int64_t *hints = NULL;
    uint32_t n_hints = 0;
    pthread_mutex_lock(&f->lock);
    stator_status status = choose_spec(f, n_in, in, &spec, err);
    if (status == STATOR_OK) {
        status = reset_fuel(f, err);
    }
    if (status == STATOR_OK) {
        status = st_sizes_hints(&f->ctx->mem, spec, in, &hints, &n_hints, err);
    }
    if (status == STATOR_OK) {
        st_function_request(f, spec, &request);
        request.hints = hints;
        request.n_hints = n_hints;
        *out_hit = st_cache_ask(&request, text);
    }
    st_free(&f->ctx->mem, hints);
    pthread_mutex_unlock(&f->lock);
    return status;
}

/* ---- calling ---- */

#define FEW_INPUTS 16u

/* Views of the inputs, dense and aligned: others are copied into new tensors listed in copies. The
 * arrays of a call with few inputs lie on the stack, those of others in a block that is kept. */
typedef struct call_inputs {
    DLTensor small[FEW_INPUTS];
    stator_tensor *small_copies[FEW_INPUTS];
    DLTensor *views;
    stator_tensor **copies;
    input_block *block;
    uint32_t n;
} call_inputs;

static input_block *take_block(stator_function *f)
{
    pthread_mutex_lock(&f->blocks_lock);
    input_block *block = f->blocks;
    if (block != NULL) {
        f->blocks = block->next;
    }
    pthread_mutex_unlock(&f->blocks_lock);
    if (block == NULL) {
        const uint64_t views = f->n_inputs * sizeof block->views[0];
        block = st_alloc(&f->ctx->mem,
                         sizeof *block + views + f->n_inputs * sizeof block->copies[0], 16);
        if (block != NULL) {
            block->copies = (stator_tensor **)(void *)(block->views + f->n_inputs);
        }
    }
    return block;
}

static void give_block(stator_function *f, input_block *block)
{
    pthread_mutex_lock(&f->blocks_lock);
    block->next = f->blocks;
    f->blocks = block;
    pthread_mutex_unlock(&f->blocks_lock);
}

static void inputs_deinit(stator_function *f, call_inputs *inputs)
{
    for (uint32_t i = 0; inputs->copies != NULL && i < inputs->n; i++) {
        stator_tensor_release(inputs->copies[i]);
    }
    if (inputs->block != NULL) {
        give_block(f, inputs->block);
    }
}

static stator_status take_input(stator_function *f, call_inputs *inputs, uint32_t i,
                                stator_tensor *tensor, stator_diag **err)
{
    if (tensor == NULL) {
        return st_fail(err, STATOR_INVALID_ARGUMENT, "input %u is missing", i);
    }
    const DLTensor *view = &tensor->view;
    const uintptr_t address = (uintptr_t)stator_tensor_data(tensor);
    if (view->strides == NULL && address % 16u == 0) {
        inputs->views[i] = *view;
        return STATOR_OK;
    }
    ST_TRY(st_tensor_create(&f->ctx->mem, &f->ctx->pool, tensor->dtype, (uint32_t)view->ndim,
                            view->shape, &inputs->copies[i], err));
    st_tensor_copy_dense(view, inputs->copies[i]->view.data);
    inputs->views[i] = inputs->copies[i]->view;
    return STATOR_OK;
}

static stator_status inputs_init(stator_function *f, call_inputs *inputs, uint32_t n,
                                 stator_tensor *const *in, stator_diag **err)
{
    ST_REQUIRE_LIST(in, n, err);
    inputs->n = n;
    inputs->views = inputs->small;
    inputs->copies = inputs->small_copies;
    if (n > FEW_INPUTS) {
        inputs->copies = NULL;
        inputs->block = take_block(f);
        if (inputs->block == NULL) {
            return st_fail_oom(err);
        }
        inputs->views = inputs->block->views;
        inputs->copies = inputs->block->copies;
    }
    memset(inputs->copies, 0, n * sizeof inputs->copies[0]);
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(take_input(f, inputs, i, in[i], err));
    }
    return STATOR_OK;
}

static stator_status check_counts(stator_function *f, uint32_t n_in, stator_diag **err)
{
    const uint32_t wanted = f->n_inputs;
    return n_in == wanted ? STATOR_OK
                          : st_fail(err, STATOR_INVALID_ARGUMENT,
                                    "%u inputs given, the model has %u", n_in, wanted);
}

static stator_status check_outputs(const st_compiled *entry, uint32_t n_out, stator_diag **err)
{
    return n_out == entry->program.n_outputs
               ? STATOR_OK
               : st_fail(err, STATOR_INVALID_ARGUMENT,
                         "room for %u outputs given, the model has %u", n_out,
                         entry->program.n_outputs);
}

/* Do the tensors share a byte? */
static int shares_memory(const stator_tensor *a, const stator_tensor *b)
{
    const uintptr_t x = (uintptr_t)stator_tensor_data(a);
    const uintptr_t y = (uintptr_t)stator_tensor_data(b);
    return x < y ? y - x < stator_tensor_size_bytes(a) && stator_tensor_size_bytes(b) != 0
                 : x - y < stator_tensor_size_bytes(b) && stator_tensor_size_bytes(a) != 0;
}

/* Results that the caller has room for: values of the call may lie there before they do. */
static stator_status check_apart(uint32_t n_in, stator_tensor *const *in, uint32_t n_out,
                                 stator_tensor *const *out, stator_diag **err)
{
    ST_REQUIRE_LIST(out, n_out, err);
    for (uint32_t k = 0; k < n_out; k++) {
        for (uint32_t i = 0; out[k] != NULL && i < n_in; i++) {
            if (shares_memory(out[k], in[i])) {
                return st_fail(
                    err, STATOR_INVALID_ARGUMENT,
                    "output %u shares memory with input %u; pass another tensor, or NULL "
                    "for a new one",
                    k, i);
            }
        }
        for (uint32_t i = 0; out[k] != NULL && i < k; i++) {
            if (out[i] != NULL && shares_memory(out[k], out[i])) {
                return st_fail(err, STATOR_INVALID_ARGUMENT,
                               "outputs %u and %u share memory; pass another tensor, or NULL for a "
                               "new one",
                               i, k);
            }
        }
    }
    return STATOR_OK;
}

/* The program on dense inputs, one of its first calls beside the reference. */
static stator_status run_entry(stator_function *f, st_compiled *entry, st_call_state *state,
                               const DLTensor *in, stator_tensor **out, stator_diag **err)
{
    ST_TRY(st_watch_stage(&f->watch, NULL, 0, 0, err));
    if (!st_verify_next(f->verifier, entry)) {
        return st_program_run(&entry->program, state, in, out, err);
    }
    const st_verified_call call = {.verifier = f->verifier,
                                   .entry = entry,
                                   .n_in = f->n_inputs,
                                   .n_out = entry->program.n_outputs,
                                   .in = in,
                                   .out = out};
    return st_verify_call(&call, state, err);
}

stator_status stator_call_tensors(stator_function *f, uint32_t n_in, stator_tensor *const *in,
                                  uint32_t n_out, stator_tensor **out)
{
    stator_diag *diag = NULL;
    call_inputs inputs;
    inputs.views = NULL;
    inputs.copies = NULL;
    inputs.block = NULL;
    st_compiled *entry = NULL;
    st_call_state *state = NULL;
    stator_status status = check_counts(f, n_in, &diag);
    if (status == STATOR_OK) {
        status = inputs_init(f, &inputs, n_in, in, &diag);
        if (status == STATOR_OK) {
            status = entry_for(f, n_in, inputs.views, &entry, &state, &diag);
        }
        if (status == STATOR_OK) {
            status = st_compiled_check_files(entry, &diag);
        }
        if (status == STATOR_OK) {
            status = check_outputs(entry, n_out, &diag);
        }
        if (status == STATOR_OK) {
            status = check_apart(n_in, in, n_out, out, &diag);
        }
        if (status == STATOR_OK) {
            status = run_entry(f, entry, state, inputs.views, out, &diag);
        }
        if (state != NULL) {
            st_program_release(&entry->program, state);
        }
        inputs_deinit(f, &inputs);
    }
    st_cache_writer_start(&f->ctx->cache_writer);
    return status == STATOR_OK ? STATOR_OK : st_ctx_fail(f->ctx, status, diag);
}

/* ---- bound calls ---- */

struct stator_bound_call {
    stator_function *function;
    st_compiled *entry;
    st_call_state *state;
    uint32_t n_in, n_out;
    DLTensor *views;
    stator_tensor **in;
    stator_tensor **out;
};

void stator_bound_call_destroy(stator_bound_call *call)
{
    if (call == NULL) {
        return;
    }
    st_mem *mem = &call->function->ctx->mem;
    if (call->state != NULL) {
        st_program_release(&call->entry->program, call->state);
    }
    for (uint32_t i = 0; call->in != NULL && i < call->n_in; i++) {
        stator_tensor_release(call->in[i]);
    }
    for (uint32_t k = 0; call->out != NULL && k < call->n_out; k++) {
        stator_tensor_release(call->out[k]);
    }
    st_free(mem, call->views);
    st_free(mem, call->in);
    st_free(mem, call->out);
    st_free(mem, call);
}

/* Runs once through the plain path, so that out[] exists, then keeps entry and state. */
static stator_status bind_call(stator_bound_call *call, stator_tensor *const *in,
                               stator_tensor **out, stator_diag **err)
{
    stator_function *f = call->function;
    st_mem *mem = &f->ctx->mem;
    call->views = st_calloc(mem, call->n_in + 1u, sizeof *call->views);
    call->in = st_calloc(mem, call->n_in + 1u, sizeof *call->in);
    call->out = st_calloc(mem, call->n_out + 1u, sizeof *call->out);
    if (call->views == NULL || call->in == NULL || call->out == NULL) {
        return st_fail_oom(err);
    }
    ST_TRY(check_counts(f, call->n_in, err));
    ST_REQUIRE_LIST(in, call->n_in, err);
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (in[i] == NULL || in[i]->view.strides != NULL ||
            (uintptr_t)stator_tensor_data(in[i]) % 16u != 0) {
            return st_fail(err, STATOR_INVALID_ARGUMENT,
                           "input %u of a bound call must be dense and aligned to 16 bytes", i);
        }
        call->views[i] = in[i]->view;
        call->in[i] = in[i];
        stator_tensor_retain(in[i]);
    }
    ST_TRY(entry_for(f, call->n_in, call->views, &call->entry, &call->state, err));
    ST_TRY(check_outputs(call->entry, call->n_out, err));
    ST_TRY(check_apart(call->n_in, in, call->n_out, out, err));
    ST_TRY(run_entry(f, call->entry, call->state, call->views, out, err));
    for (uint32_t k = 0; k < call->n_out; k++) {
        call->out[k] = out[k];
        stator_tensor_retain(out[k]);
    }
    return STATOR_OK;
}

stator_status stator_bind(stator_function *f, uint32_t n_in, stator_tensor *const *in,
                          uint32_t n_out, stator_tensor **out, stator_bound_call **out_call)
{
    *out_call = NULL;
    stator_bound_call *call = st_calloc(&f->ctx->mem, 1, sizeof *call);
    if (call == NULL) {
        return st_ctx_fail(f->ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    }
    call->function = f;
    call->n_in = n_in;
    call->n_out = n_out;
    stator_diag *diag = NULL;
    const stator_status status = bind_call(call, in, out, &diag);
    st_cache_writer_start(&f->ctx->cache_writer);
    if (status != STATOR_OK) {
        stator_bound_call_destroy(call);
    } else {
        *out_call = call;
    }
    return st_ctx_fail(f->ctx, status, diag);
}

stator_status stator_bound_call_run(stator_bound_call *call)
{
    stator_diag *diag = NULL;
    stator_status status = STATOR_OK;
    if (!st_guard_check(&call->entry->guard, call->views, st_call_state_syms(call->state))) {
        status = st_fail(&diag, STATOR_FAILED_PRECONDITION,
                         "an input of the bound call no longer fits what was compiled");
    }
    if (status == STATOR_OK) {
        status = st_guard_check_shape_constraints(&call->entry->guard,
                                                  st_call_state_syms(call->state), &diag);
    }
    if (status == STATOR_OK) {
        status = st_compiled_check_files(call->entry, &diag);
    }
    if (status == STATOR_OK) {
        status = run_entry(call->function, call->entry, call->state, call->views, call->out, &diag);
    }
    return status == STATOR_OK ? STATOR_OK : st_ctx_fail(call->function->ctx, status, diag);
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
