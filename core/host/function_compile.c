/* What a function compiles for a set of inputs; see function_state.h. */
#include "core/host/function_state.h"

#include "core/base/str.h"
#include "core/base/threads/threads.h"
#include "core/cache/cache.h"
#include "core/host/compile_graph.h"
#include "core/host/hints.h"

#include <stdatomic.h>
#include <string.h>

static stator_status publish(stator_function *f, st_compiled *compiled, stator_diag **err)
{
    entry_list *old = atomic_load(&f->list);
    const uint32_t count = old != NULL ? old->count : 0;
    entry_list *list =
        st_calloc(&f->ctx->mem, 1, sizeof *list + (count + 1u) * sizeof list->entries[0]);
    ST_TRY_MEM(list, err);
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
    const bool is_eager = strcmp(f->backends.main->backend->item.name, "eager") == 0;
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
    st_module *source = NULL;
    int64_t *hints = NULL;
    ST_TRY(st_function_source(f, spec, &source, err));
    st_function_request(f, spec, &request);
    request.source = source;
    /* Values that change would fill the cache. */
    request.flags |= source != spec->module ? (uint32_t)STATOR_COMPILE_NO_CACHE : 0;
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

stator_status st_function_entry_for(stator_function *f, uint32_t n_in, const DLTensor *in,
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
        ST_FAIL_IF(*out_state == NULL, err, STATOR_RESOURCE_EXHAUSTED,
                   "no memory for a workspace of %llu bytes",
                   (unsigned long long)(*out_entry)->program.workspace_bytes);
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
    ST_TRY(st_function_entry_for(f, n_in, in, out_compiled, &state, err));
    st_program_release(&(*out_compiled)->program, state);
    return STATOR_OK;
}

stator_status st_function_cache_why(stator_function *f, uint32_t n_in, const DLTensor *in,
                                    bool *out_hit, st_str *text, stator_diag **err)
{
    st_specialisation *spec = NULL;
    st_compile_request request;
    int64_t *hints = NULL;
    uint32_t n_hints = 0;
    pthread_mutex_lock(&f->lock);
    stator_status status = choose_spec(f, n_in, in, &spec, err);
    ST_THEN(status, reset_fuel(f, err));
    ST_THEN(status, st_sizes_hints(&f->ctx->mem, spec, in, &hints, &n_hints, err));
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
