/* The two ways to call a function; see stator/stator.h. */
#include "core/host/function_state.h"

#include "core/base/sized.h"
#include "core/cache/cache_writer.h"

#include <string.h>

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

/* May calls take the tensor where it lies? In host memory; or on a device of the function, unless
 * values of inputs, which the host reads, decide its shapes. */
static bool is_reached(const stator_function *f, const stator_tensor *tensor)
{
    return tensor->domain == NULL || (f->has_devices && f->model->n_needed == 0 &&
                                      st_backends_use(&f->backends, tensor->domain));
}

static inline bool is_plain(const stator_tensor *tensor)
{
    return tensor->view.strides == NULL && (uintptr_t)st_tensor_address(tensor) % 16u == 0;
}

static stator_status take_input(stator_function *f, call_inputs *inputs, uint32_t i,
                                stator_tensor *tensor, stator_diag **err)
{
    ST_FAIL_IF(tensor == NULL, err, STATOR_INVALID_ARGUMENT, "input %u is missing", i);
    const DLTensor *view = &tensor->view;
    const bool is_where_it_lies = tensor->domain == NULL || is_reached(f, tensor);
    if (is_where_it_lies && is_plain(tensor)) {
        inputs->views[i] = *view;
        return STATOR_OK;
    }
    stator_tensor **copy = &inputs->copies[i];
    if (is_where_it_lies && tensor->domain != NULL) {
        ST_TRY(st_tensor_create_on(tensor->domain, NULL, tensor->dtype, (uint32_t)view->ndim,
                                   view->shape, copy, err));
    } else {
        ST_TRY(st_tensor_create(&f->ctx->mem, &f->ctx->pool, tensor->dtype, (uint32_t)view->ndim,
                                view->shape, copy, err));
    }
    ST_TRY(st_tensor_copy(*copy, tensor, err));
    inputs->views[i] = (*copy)->view;
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
        ST_TRY_MEM(inputs->block, err);
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
static bool shares_memory(const stator_tensor *a, const stator_tensor *b)
{
    const uintptr_t x = (uintptr_t)st_tensor_address(a);
    const uintptr_t y = (uintptr_t)st_tensor_address(b);
    if (a->domain != b->domain) {
        return false;
    }
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
            ST_FAIL_IF(shares_memory(out[k], in[i]), err, STATOR_INVALID_ARGUMENT,
                       "output %u shares memory with input %u; pass another tensor, or NULL "
                       "for a new one",
                       k, i);
        }
        for (uint32_t i = 0; out[k] != NULL && i < k; i++) {
            ST_FAIL_IF(out[i] != NULL && shares_memory(out[k], out[i]), err,
                       STATOR_INVALID_ARGUMENT,
                       "outputs %u and %u share memory; pass another tensor, or NULL for a "
                       "new one",
                       i, k);
        }
    }
    return STATOR_OK;
}

/* What the call writes may be written, each element of an input by itself. */
static stator_status check_written(const st_program *p, stator_tensor *const *in, uint32_t n_out,
                                   stator_tensor *const *out, stator_diag **err)
{
    for (uint32_t k = 0; k < n_out; k++) {
        ST_FAIL_IF(out[k] != NULL && out[k]->is_read_only, err, STATOR_INVALID_ARGUMENT,
                   "output %u is read-only, as its DLPack tensor says; pass another tensor, or "
                   "NULL for a new one",
                   k);
    }
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        const uint32_t i = p->write_backs[k].input;
        const bool is_read_only = in[i]->is_read_only;
        const bool is_safe = in[i]->size_bytes == 0 || !st_tensor_has_overlap(&in[i]->view);
        ST_FAIL_IF(is_read_only || !is_safe, err, STATOR_INVALID_ARGUMENT,
                   "the call writes input %u, %s; pass a copy of it", i,
                   is_read_only ? "which is read-only, as its DLPack tensor says"
                                : "of which several elements may lie in one place");
    }
    return STATOR_OK;
}

/* Outputs that the caller has room for lie where the function can write. */
static stator_status check_reached(const stator_function *f, uint32_t n_out,
                                   stator_tensor *const *out, stator_diag **err)
{
    for (uint32_t k = 0; k < n_out; k++) {
        const st_domain *d = out[k] != NULL ? out[k]->domain : NULL;
        const st_domain *own = f->backends.main->domain;
        const bool is_other = d != NULL && !st_backends_use(&f->backends, d);
        ST_FAIL_IF(is_other && own != NULL && strcmp(d->name, own->name) == 0, err,
                   STATOR_INVALID_ARGUMENT,
                   "output %u lies on %s in another context; give a tensor of the function's "
                   "context, or NULL for a new one",
                   k, d->name);
        ST_FAIL_IF(is_other, err, STATOR_INVALID_ARGUMENT,
                   "output %u lies on %s, where no backend of the function works (%s); give a "
                   "tensor of the host or of its device, or NULL for a new one",
                   k, d->name, f->backends.main->backend->item.name);
    }
    return STATOR_OK;
}

typedef struct call_tensors {
    uint32_t n_in, n_out;
    stator_tensor *const *in;
    stator_tensor *const *copies; /* of inputs; NULL: none */
    stator_tensor **out;
    uint32_t outputs;  /* stator_outputs */
    st_stream *stream; /* the application's; NULL: the call's own */
} call_tensors;

enum use { READ = 1, WRITTEN = 2, RESULT = 4 };

/* A device tensor and the call's stream get in order. What is read takes along the calls that
 * computed it, a RESULT gets those of this call. */
static stator_status use_tensor(const stator_function *f, st_call_state *state,
                                stator_tensor *tensor, uint32_t use, stator_diag **err)
{
    st_stream *stream = NULL;
    if (tensor == NULL || tensor->domain == NULL || !is_reached(f, tensor)) {
        return STATOR_OK;
    }
    ST_TRY(st_call_state_stream(state, tensor->domain, &stream, err));
    if (stream == NULL) {
        return STATOR_OK;
    }
    ST_TRY((use & (WRITTEN | RESULT)) != 0 ? st_tensor_write(tensor, stream, err)
                                           : st_tensor_read(tensor, stream, err));
    st_late_calls *late = st_call_state_late(state, tensor->domain);
    if ((use & RESULT) != 0) {
        st_tensor_set_late(tensor, late);
    }
    return (use & READ) != 0 ? st_tensor_get_late(tensor, late, err) : STATOR_OK;
}

/* Before the call. */
static stator_status use_all(const stator_function *f, const st_program *program,
                             st_call_state *state, const call_tensors *tensors, stator_diag **err)
{
    st_call_state_forget_late(state);
    for (uint32_t i = 0; i < tensors->n_in; i++) {
        stator_tensor *copy = tensors->copies != NULL ? tensors->copies[i] : NULL;
        const bool is_written = st_program_writes_input(program, i);
        ST_TRY(use_tensor(f, state, copy, READ, err));
        ST_TRY(use_tensor(f, state, tensors->in[i], is_written ? READ | WRITTEN : READ, err));
    }
    for (uint32_t k = 0; k < tensors->n_out; k++) {
        ST_TRY(use_tensor(f, state, tensors->out[k], WRITTEN, err));
    }
    return STATOR_OK;
}

/* Again behind it, since another call may have used a tensor meanwhile. A call that has failed
 * leaves its inputs as they were, or they are lost. */
static stator_status leave_all(const stator_function *f, const st_program *program,
                               st_call_state *state, const call_tensors *tensors, bool is_ok,
                               stator_diag **err)
{
    const uint32_t result = is_ok ? RESULT : WRITTEN;
    for (uint32_t i = 0; i < tensors->n_in; i++) {
        stator_tensor *copy = tensors->copies != NULL ? tensors->copies[i] : NULL;
        const bool is_lost = copy == NULL && st_call_state_lost(state, i);
        const uint32_t use = !st_program_writes_input(program, i) ? 0 : is_lost ? RESULT : result;
        ST_TRY(use_tensor(f, state, copy, use, err));
        ST_TRY(use_tensor(f, state, tensors->in[i], use, err));
    }
    for (uint32_t k = 0; k < tensors->n_out; k++) {
        ST_TRY(use_tensor(f, state, tensors->out[k], result, err));
    }
    return STATOR_OK;
}

/* Inputs that the call has written, but to dense copies of them. */
static stator_status write_copied_inputs(const st_program *p, const call_tensors *tensors,
                                         stator_diag **err)
{
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        const uint32_t i = p->write_backs[k].input;
        if (tensors->copies[i] != NULL) {
            ST_TRY(st_tensor_copy(tensors->in[i], tensors->copies[i], err));
        }
    }
    return STATOR_OK;
}

/* A call of a program on dense inputs. */
typedef struct program_call {
    const stator_function *function;
    st_compiled *entry;
    st_call_state *state;
    const DLTensor *in;
    const call_tensors *tensors; /* NULL: none lies on a device */
    stator_tensor **out;
} program_call;

/* Behind the program its tensors on devices follow what it has queued. */
static stator_status run_program(void *self, stator_diag **err)
{
    const program_call *c = self;
    st_program *program = &c->entry->program;
    if (c->tensors == NULL) {
        return st_program_run(program, c->state, c->in, c->out, err);
    }
    ST_TRY(use_all(c->function, program, c->state, c->tensors, err));
    const stator_status status = st_program_run(program, c->state, c->in, c->out, err);
    stator_diag *behind = NULL;
    const stator_status used =
        leave_all(c->function, program, c->state, c->tensors, status == STATOR_OK, &behind);
    if (status != STATOR_OK) {
        st_diag_release(behind);
        return status;
    }
    return st_diag_give(used, behind, err);
}

/* The same, one of its first calls beside the reference. */
static stator_status run_entry(stator_function *f, program_call *c, stator_diag **err)
{
    ST_TRY(st_watch_stage(&f->watch, NULL, 0, 0, err));
    if (!st_verify_next(f->verifier, c->entry)) {
        return run_program(c, err);
    }
    stator_tensor **tensors = NULL;
    if (c->tensors != NULL) {
        tensors = st_calloc(&f->ctx->mem, f->n_inputs + 1u, sizeof *tensors);
        ST_TRY_MEM(tensors, err);
    }
    for (uint32_t i = 0; tensors != NULL && i < f->n_inputs; i++) {
        stator_tensor *copy = c->tensors->copies != NULL ? c->tensors->copies[i] : NULL;
        tensors[i] = copy != NULL ? copy : c->tensors->in[i];
    }
    const st_verified_call call = {.verifier = f->verifier,
                                   .entry = c->entry,
                                   .n_in = f->n_inputs,
                                   .n_out = c->entry->program.n_outputs,
                                   .in = c->in,
                                   .out = c->out,
                                   .tensors = tensors,
                                   .run = run_program,
                                   .run_self = c};
    const stator_status status = st_verify_call(&call, c->state, err);
    st_free(&f->ctx->mem, (void *)tensors);
    return status;
}

static bool is_any_on_device(const call_tensors *tensors)
{
    bool is_any = false;
    for (uint32_t k = 0; k < tensors->n_out; k++) {
        is_any |= tensors->out[k] != NULL && tensors->out[k]->domain != NULL;
    }
    return is_any;
}

/* The same where all tensors lie in host memory. */
static stator_status run_on_host(stator_function *f, st_compiled *entry, st_call_state *state,
                                 const DLTensor *in, stator_tensor **out, stator_diag **err)
{
    program_call call = {f, entry, state, in, NULL, out};
    return run_entry(f, &call, err);
}

/* The same where tensors may lie on devices. */
static stator_status run_on_devices(stator_function *f, st_compiled *entry, st_call_state *state,
                                    const DLTensor *in, const call_tensors *tensors,
                                    stator_diag **err)
{
    ST_TRY(check_reached(f, tensors->n_out, tensors->out, err));
    if (tensors->stream != NULL) {
        ST_TRY(st_call_state_use_stream(state, tensors->stream, err));
    }
    st_call_state_want(state, tensors->outputs);
    program_call call = {f, entry, state, in, tensors, tensors->out};
    const stator_status status = run_entry(f, &call, err);
    if (tensors->stream != NULL) {
        st_call_state_reset(state);
    }
    return status;
}

/* What the application asks of this call. */
static stator_status take_options(stator_function *f, const stator_call_options *given,
                                  call_tensors *tensors, stator_diag **err)
{
    stator_call_options options = {.struct_size = sizeof options};
    tensors->outputs = f->outputs;
    if (given == NULL) {
        return STATOR_OK;
    }
    ST_TRY(ST_SIZED_READ(stator_call_options, &options, given, err));
    ST_TRY(st_function_check_outputs(f, options.outputs, err));
    if (options.outputs != STATOR_OUTPUTS_AUTO) {
        tensors->outputs = options.outputs;
    }
    st_domain *domain = f->backends.main->domain;
    ST_FAIL_IF(options.stream != NULL && domain == NULL, err, STATOR_INVALID_ARGUMENT,
               "a stream is given for the call, and the backend '%s' of the function has no device",
               f->backends.main->backend->item.name);
    return options.stream != NULL
               ? st_stream_of_caller(domain, options.stream, &tensors->stream, err)
               : STATOR_OK;
}

stator_status stator_call_with(stator_function *f, uint32_t n_in, stator_tensor *const *in,
                               uint32_t n_out, stator_tensor **out,
                               const stator_call_options *options)
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
        ST_THEN(status, st_function_entry_for(f, n_in, inputs.views, &entry, &state, &diag));
        ST_THEN(status, st_compiled_check_files(entry, &diag));
        ST_THEN(status, check_outputs(entry, n_out, &diag));
        ST_THEN(status, check_apart(n_in, in, n_out, out, &diag));
        ST_THEN(status, check_written(&entry->program, in, n_out, out, &diag));
        call_tensors tensors = {n_in, n_out, in, inputs.copies, out, 0, NULL};
        ST_THEN(status, take_options(f, options, &tensors, &diag));
        if (status == STATOR_OK) {
            status = f->has_devices || is_any_on_device(&tensors)
                         ? run_on_devices(f, entry, state, inputs.views, &tensors, &diag)
                         : run_on_host(f, entry, state, inputs.views, out, &diag);
            ST_THEN(status, write_copied_inputs(&entry->program, &tensors, &diag));
        }
        if (state != NULL) {
            st_program_release(&entry->program, state);
        }
        inputs_deinit(f, &inputs);
    }
    st_cache_writer_start(f->ctx->cache_writer);
    return status == STATOR_OK ? STATOR_OK : st_ctx_fail(f->ctx, status, diag);
}

stator_status stator_call_tensors(stator_function *f, uint32_t n_in, stator_tensor *const *in,
                                  uint32_t n_out, stator_tensor **out)
{
    return stator_call_with(f, n_in, in, n_out, out, NULL);
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
    (void)atomic_fetch_sub(&call->function->n_bound, 1u);
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
    ST_TRY_MEM(call->views && call->in && call->out, err);
    ST_TRY(check_counts(f, call->n_in, err));
    ST_REQUIRE_LIST(in, call->n_in, err);
    for (uint32_t i = 0; i < call->n_in; i++) {
        ST_FAIL_IF(in[i] == NULL || !is_plain(in[i]) || !is_reached(f, in[i]), err,
                   STATOR_INVALID_ARGUMENT,
                   "input %u of a bound call must be dense, aligned to 16 bytes and lie in host "
                   "memory or on the function's device",
                   i);
        call->views[i] = in[i]->view;
        call->in[i] = in[i];
        stator_tensor_retain(in[i]);
    }
    ST_TRY(st_function_entry_for(f, call->n_in, call->views, &call->entry, &call->state, err));
    ST_TRY(check_outputs(call->entry, call->n_out, err));
    ST_TRY(check_apart(call->n_in, in, call->n_out, out, err));
    ST_TRY(check_written(&call->entry->program, in, call->n_out, out, err));
    const call_tensors tensors = {call->n_in, call->n_out, in, NULL, out, f->outputs, NULL};
    ST_TRY(f->has_devices || is_any_on_device(&tensors)
               ? run_on_devices(f, call->entry, call->state, call->views, &tensors, err)
               : run_on_host(f, call->entry, call->state, call->views, out, err));
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
    ST_FAIL_BY_IF(st_ctx_fail, call == NULL, f->ctx, STATOR_RESOURCE_EXHAUSTED, NULL);
    call->function = f;
    (void)atomic_fetch_add(&f->n_bound, 1u);
    call->n_in = n_in;
    call->n_out = n_out;
    stator_diag *diag = NULL;
    const stator_status status = bind_call(call, in, out, &diag);
    st_cache_writer_start(f->ctx->cache_writer);
    if (status != STATOR_OK) {
        stator_bound_call_destroy(call);
    } else {
        *out_call = call;
    }
    return st_ctx_fail(f->ctx, status, diag);
}

static stator_status run_bound(const stator_bound_call *call, stator_diag **err)
{
    stator_function *f = call->function;
    if (!f->has_devices) {
        return run_on_host(f, call->entry, call->state, call->views, call->out, err);
    }
    const call_tensors tensors = {call->n_in, call->n_out, call->in, NULL,
                                  call->out,  f->outputs,  NULL};
    return run_on_devices(f, call->entry, call->state, call->views, &tensors, err);
}

stator_status stator_bound_call_run(stator_bound_call *call)
{
    stator_diag *diag = NULL;
    stator_status status = STATOR_OK;
    if (!st_guard_check(&call->entry->guard, call->views, st_call_state_syms(call->state))) {
        status = st_fail(&diag, STATOR_FAILED_PRECONDITION,
                         "an input of the bound call no longer fits what was compiled");
    }
    ST_THEN(status, st_guard_check_shape_constraints(&call->entry->guard,
                                                     st_call_state_syms(call->state), &diag));
    ST_THEN(status, st_compiled_check_files(call->entry, &diag));
    ST_THEN(status, run_bound(call, &diag));
    return status == STATOR_OK ? STATOR_OK : st_ctx_fail(call->function->ctx, status, diag);
}
