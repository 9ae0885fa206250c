/* First calls compared with the reference; see verify_calls.h.
 *
 * In: a compiled program and a call of it. The inputs are copied to the host, the program runs,
 * `eager` runs the model as it was imported on the copies, and results, copied to the host where
 * they lie on a device, are compared as two right answers may differ (core/base/compare.h). Out:
 * the program's results, or an error that says where the two part. */
#include "core/host/verify_calls.h"

#include "core/base/compare.h"
#include "core/host/function.h"

#include <pthread.h>
#include <stator/inspect.h>
#include <string.h>

struct st_verifier {
    stator_ctx *ctx;
    stator_model *model; /* the function's model, which outlives this */
    st_arena arena;      /* strings of `options` */
    stator_compile_options options;
    stator_compile_options believed; /* options of the reference */
    uint32_t n_calls;                /* calls to verify of each program */
    pthread_mutex_t lock;
    stator_function *reference; /* NULL until the first call that is verified */
};

/* ---- making ---- */

/* A copy of the text, NULL for NULL; *ok becomes 0 without memory. */
static const char *keep(st_verifier *v, const char *text, bool *ok)
{
    const char *kept = text != NULL ? st_arena_strndup(&v->arena, text, strlen(text)) : NULL;
    *ok &= (kept != NULL) == (text != NULL);
    return kept;
}

static const char *const *keep_list(st_verifier *v, const char *const *list, uint32_t n, bool *ok)
{
    const char **kept = st_arena_zalloc(&v->arena, n + UINT64_C(1), sizeof *kept);
    *ok &= kept != NULL;
    for (uint32_t i = 0; kept != NULL && i < n; i++) {
        kept[i] = keep(v, list[i], ok);
    }
    return kept;
}

/* The same program once more, of which nothing is verified. */
static bool keep_options(st_verifier *v, const stator_compile_options *options, const char *backend)
{
    bool ok = true;
    v->options = *options;
    v->options.verify = 0;
    v->options.outputs = STATOR_OUTPUTS_HOST; /* inner values are compared there */
    v->options.device = keep(v, options->device, &ok);
    v->options.node_fallbacks = keep(v, options->node_fallbacks, &ok);
    v->options.backend = keep(v, backend, &ok);
    v->options.fallback = NULL; /* `backend` may be it */
    v->options.mode = keep(v, options->mode, &ok);
    v->options.fuel_scope = keep(v, options->fuel_scope, &ok);
    v->options.option_keys = keep_list(v, options->option_keys, options->option_count, &ok);
    v->options.option_values = keep_list(v, options->option_values, options->option_count, &ok);
    return ok;
}

stator_status st_verifier_create(stator_model *model, const stator_compile_options *options,
                                 const char *backend, st_verifier **out_verifier, stator_diag **err)
{
    stator_ctx *ctx = model->ctx;
    st_verifier *v = st_calloc(&ctx->mem, 1, sizeof *v);
    *out_verifier = NULL;
    ST_TRY_MEM(v, err);
    v->ctx = ctx;
    v->model = model;
    v->n_calls = options->verify;
    /* Where values of inputs decide shapes it has as many programs as the function. */
    v->believed = (stator_compile_options){.struct_size = sizeof v->believed,
                                           .flags = STATOR_COMPILE_NO_CACHE,
                                           .backend = "eager",
                                           .recompile_limit = options->recompile_limit};
    st_arena_init(&v->arena, &ctx->mem);
    pthread_mutex_init(&v->lock, NULL);
    if (!keep_options(v, options, backend)) {
        st_verifier_destroy(v);
        return st_fail_oom(err);
    }
    *out_verifier = v;
    return STATOR_OK;
}

void st_verifier_destroy(st_verifier *v)
{
    if (v != NULL) {
        stator_function_destroy(v->reference);
        st_arena_deinit(&v->arena);
        pthread_mutex_destroy(&v->lock);
        st_free(&v->ctx->mem, v);
    }
}

/* ---- both runs ---- */

bool st_verify_next(const st_verifier *v, st_compiled *entry)
{
    return v != NULL &&
           atomic_load_explicit(&entry->n_verified, memory_order_relaxed) < v->n_calls &&
           atomic_fetch_add(&entry->n_verified, 1) < v->n_calls;
}

/* Compiled by the first call that needs it. */
static stator_status reference_of(st_verifier *v, stator_function **out_reference)
{
    stator_status status = STATOR_OK;
    pthread_mutex_lock(&v->lock);
    if (v->reference == NULL) {
        status = stator_compile(v->model, &v->believed, &v->reference);
    }
    *out_reference = v->reference;
    pthread_mutex_unlock(&v->lock);
    return status;
}

/* State of a verified call beside the call itself. */
typedef struct both {
    const st_verified_call *call;
    stator_tensor **before;   /* copies of the inputs before the call */
    stator_tensor **expected; /* outputs of the reference, then inputs as it left them */
    uint8_t *is_given;        /* by output: the caller's own tensor */
    st_difference difference; /* the first difference */
} both;

/* The elements in host memory; `tensor` is what lies on a device, NULL: the view is the host's. */
static stator_status copy_to_host(const both *b, const DLTensor *view, stator_tensor *tensor,
                                  stator_tensor **out, stator_diag **err)
{
    stator_ctx *ctx = b->call->verifier->ctx;
    ST_TRY(st_tensor_create(&ctx->mem, &ctx->pool, st_dtype_from_dl(view->dtype),
                            (uint32_t)view->ndim, view->shape, out, err));
    if (tensor != NULL) {
        return st_tensor_copy(*out, tensor, err);
    }
    st_tensor_copy_dense(view, (*out)->view.data);
    return STATOR_OK;
}

/* The tensor of input i where that lies on a device. */
static stator_tensor *device_input(const both *b, uint32_t i)
{
    const st_verified_call *call = b->call;
    return call->tensors != NULL && call->in[i].device.device_type != kDLCPU ? call->tensors[i]
                                                                             : NULL;
}

static stator_status copy_inputs(both *b, stator_diag **err)
{
    const st_verified_call *call = b->call;
    for (uint32_t i = 0; i < call->n_in; i++) {
        ST_TRY(copy_to_host(b, &call->in[i], device_input(b, i), &b->before[i], err));
    }
    return STATOR_OK;
}

/* "output 'y'", "input 'x' that the call wrote" */
static void print_result(const both *b, uint32_t k, st_str *out)
{
    stator_port_info port = {.struct_size = sizeof port};
    const stator_model *model = b->call->verifier->model;
    const bool is_output = k < b->call->n_out;
    const stator_status known = is_output
                                    ? stator_model_output_info(model, k, &port)
                                    : stator_model_input_info(model, k - b->call->n_out, &port);
    const bool has_name = known == STATOR_OK && port.name != NULL && port.name[0] != '\0';
    st_str_addf(out, "%s ", is_output ? "output" : "input");
    if (has_name) {
        st_str_addf(out, "'%s'", port.name);
    } else {
        st_str_addf(out, "%u", is_output ? k : k - b->call->n_out);
    }
    st_str_add(out, is_output ? "" : ", which the call wrote,");
}

/* Result k beside the reference's; *out_ok: they agree. */
static stator_status compare_result(both *b, uint32_t k, bool *out_ok, stator_diag **err)
{
    const st_verified_call *call = b->call;
    const st_tolerance chosen = ST_TOLERANCE_CHOSEN;
    const bool is_output = k < call->n_out;
    stator_tensor *out = is_output ? call->out[k] : NULL;
    stator_tensor *there =
        is_output ? (out->domain != NULL ? out : NULL) : device_input(b, k - call->n_out);
    const DLTensor *view = is_output ? stator_tensor_view(out) : &call->in[k - call->n_out];
    stator_tensor *here = NULL;
    const stator_status status =
        there != NULL ? copy_to_host(b, view, there, &here, err) : STATOR_OK;
    if (status == STATOR_OK) {
        st_compare(here != NULL ? stator_tensor_view(here) : view,
                   stator_tensor_view(b->expected[k]), &chosen, &b->difference);
        *out_ok = b->difference.ok != 0;
    }
    stator_tensor_release(here);
    return status;
}

/* The first result that differs; UINT32_MAX: none does. */
static stator_status compare_results(both *b, uint32_t *out_first, stator_diag **err)
{
    const uint32_t n = b->call->n_out + b->call->n_in;
    bool is_ok = true;
    *out_first = UINT32_MAX;
    for (uint32_t k = 0; k < n && is_ok; k++) {
        ST_TRY(compare_result(b, k, &is_ok, err));
        *out_first = is_ok ? UINT32_MAX : k;
    }
    return STATOR_OK;
}

/* The place where the two part: compiles and runs both again. */
static void find_place(const both *b, stator_x_place *out)
{
    const st_verified_call *call = b->call;
    const stator_x_pair pair = {.struct_size = sizeof pair,
                                .model = call->verifier->model,
                                .good = &call->verifier->believed,
                                .bad = &call->verifier->options,
                                .in = b->before,
                                .n_in = call->n_in,
                                .rtol = -1,
                                .atol = -1};
    *out = (stator_x_place){.struct_size = sizeof *out};
    (void)!stator_x_first_difference(&pair, out); /* both sizes are ours */
}

static void print_place(const stator_x_place *place, st_str *out)
{
    if (place->n_steps != 0) {
        st_str_addf(out, "; past %u value%s off by one step of a rounding, first at node '%s',",
                    place->n_steps, place->n_steps == 1 ? "" : "s", place->step_node);
    }
    if (!place->is_found) {
        st_str_addf(out, "%s the difference vanishes when inner values are looked at",
                    place->n_steps != 0 ? "" : ";");
        return;
    }
    st_str_addf(out, "%s the first value that differs is '%s' of node '%s', by %g",
                place->n_steps != 0 ? "" : ";", place->name, place->node, place->max_abs);
    if (place->origin[0] != '\0') {
        st_str_addf(out, ", from %s", place->origin);
    }
}

static stator_status report(const both *b, uint32_t k, stator_diag **err)
{
    const st_verifier *v = b->call->verifier;
    st_str text;
    stator_x_place place;
    st_str_init(&text, &v->ctx->mem);
    print_result(b, k, &text);
    find_place(b, &place);
    if (place.is_rounding) { /* a right answer: said, and no failure */
        st_log(v->ctx, "dispatch", 1,
               "%s of %s differs from eager's by one step of a rounding alone, at node '%s'%s",
               text.data != NULL ? text.data : "a result", v->options.backend, place.step_node,
               place.n_steps > 1 ? " and others" : "");
        st_str_deinit(&text);
        return STATOR_OK;
    }
    st_str_addf(&text, " of %s differs from eager's in %s", v->options.backend,
                b->difference.reason);
    if (b->difference.detail[0] != '\0') {
        st_str_addf(&text, ": %s", b->difference.detail);
    } else {
        st_str_addf(&text, " (max abs error %g, rel %g)", b->difference.max_abs,
                    b->difference.max_rel);
    }
    print_place(&place, &text);
    const stator_status status =
        st_fail(err, STATOR_DATA_LOSS, "%s", text.data != NULL ? text.data : "a result differs");
    if (err != NULL && *err != NULL) {
        st_diag_set_hint(*err, "`stator bisect MODEL --bad %s` names the pass or kernel",
                         v->options.backend);
    }
    st_str_deinit(&text);
    return status;
}

/* Calls the reference. Its steps are none of the program's, so they are not timed; nor are those of
 * other threads meanwhile. */
static stator_status call_reference(both *b, stator_function *reference)
{
    const st_verified_call *call = b->call;
    st_profile *profile = &call->verifier->ctx->profile;
    const bool is_timed = st_profile_is_on(profile);
    if (is_timed) {
        st_profile_stop(profile);
    }
    const stator_status status =
        stator_x_call_copies(reference, call->n_in, b->before, call->n_out, b->expected);
    if (is_timed) {
        st_profile_go_on(profile);
    }
    return status;
}

static stator_status compare_with_reference(both *b, stator_diag **err)
{
    const st_verified_call *call = b->call;
    stator_function *reference = NULL;
    stator_status status = reference_of(call->verifier, &reference);
    ST_THEN(status, call_reference(b, reference));
    ST_FAIL_IF(status != STATOR_OK, err, status,
               "the call cannot be verified, as the reference failed: %s",
               stator_ctx_error_text(call->verifier->ctx));
    uint32_t k = 0;
    ST_TRY(compare_results(b, &k, err));
    return k == UINT32_MAX ? STATOR_OK : report(b, k, err);
}

static stator_status run_both(both *b, st_call_state *state, stator_diag **err)
{
    const st_verified_call *call = b->call;
    ST_TRY(copy_inputs(b, err));
    for (uint32_t k = 0; k < call->n_out; k++) {
        b->is_given[k] = call->out[k] != NULL;
    }
    st_call_state_fill(state, true);
    const stator_status ran = call->run(call->run_self, err);
    st_call_state_fill(state, false);
    ST_TRY(ran);
    const stator_status status = compare_with_reference(b, err);
    for (uint32_t k = 0; status != STATOR_OK && k < call->n_out; k++) {
        if (!b->is_given[k]) {
            stator_tensor_release(call->out[k]);
            call->out[k] = NULL;
        }
    }
    return status;
}

stator_status st_verify_call(const st_verified_call *call, st_call_state *state, stator_diag **err)
{
    st_mem *mem = &call->verifier->ctx->mem;
    const uint64_t n = (uint64_t)call->n_in + call->n_out + 1u;
    both b = {.call = call};
    b.before = st_calloc(mem, n, sizeof(stator_tensor *));
    b.expected = st_calloc(mem, n, sizeof(stator_tensor *));
    b.is_given = st_calloc(mem, n, sizeof *b.is_given);
    const bool ok = b.before != NULL && b.expected != NULL && b.is_given != NULL;
    const stator_status status = ok ? run_both(&b, state, err) : st_fail_oom(err);
    for (uint32_t i = 0; ok && i < n; i++) {
        stator_tensor_release(b.before[i]);
        stator_tensor_release(b.expected[i]);
    }
    st_free(mem, (void *)b.before);
    st_free(mem, (void *)b.expected);
    st_free(mem, b.is_given);
    return status;
}
