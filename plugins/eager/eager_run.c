/* Runs a plan: fills a frame in the workspace, binds the inputs, runs the steps, hands out results.
 *
 * In: an executable and one call. A call of a plan without symbols only fills pointers: nothing is
 * allocated, no size is computed. Every result whose sizes were not constants is checked against
 * its type when it is there; a symbol that nothing else tells is bound from it first. */
#include "plugins/eager/eager_execution_plan.h"

#include "core/base/threads/threads.h"

#include <stdio.h>

/* ---- steps ---- */

/* After a kernel: results whose sizes were not constants. */
static stator_status bind_results(eager_frame *f, const eager_step *step, stator_diag **err)
{
    for (uint32_t v = step->out; v < step->out + step->n_out; v++) {
        if (f->plan->values[v].is_static) {
            continue;
        }
        EAGER_FAIL_IF(!f->values[v].data, f->exe->self, step, err, STATOR_INTERNAL,
                      "the shape of result %u is not known", v - step->out);
        ST_TRY(eager_bind_dims(f, step, v, f->values[v].dims, err));
        ST_TRY(eager_check_dims(f, step, v, f->values[v].dims, "the result", err));
    }
    return STATOR_OK;
}

/* A size beside a size of 0 is not bounded by memory: no kernel computes or loops with it. */
static bool has_elements(const eager_frame *f, const eager_step *step)
{
    for (uint32_t v = step->out; v < step->out + step->n_out; v++) {
        if (!f->values[v].data || f->values[v].numel != 0) {
            return true;
        }
    }
    return false;
}

/* A kernel of one operand goes over its elements and writes as many: types say that there are, and
 * a size that was bound late must not make them differ. */
static stator_status check_counts(const eager_frame *f, const eager_step *step, stator_diag **err)
{
    const ek_tensor *in = &f->args[0];
    const ek_tensor *out = &f->args[step->n_in];
    if (step->is_static || !step->is_pointwise || step->n_in != 1 || in->numel == out->numel) {
        return STATOR_OK;
    }
    return eager_fail(f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                      "the operand has %lld elements, the result %lld", (long long)in->numel,
                      (long long)out->numel);
}

static stator_status run_kernel(eager_frame *f, const eager_step *step, stator_diag **err)
{
    if (step->n_attr_ints) {
        ST_TRY(eager_eval_attrs(f, step, err));
    }
    ST_TRY(eager_prepare_results(f, step, err));
    if (step->needs_results && !has_elements(f, step)) {
        return step->is_static ? STATOR_OK : bind_results(f, step, err);
    }
    for (uint32_t k = 0; k < step->n_in; k++) {
        f->args[k] = f->values[step->in[k]];
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        f->args[step->n_in + k] = f->values[step->out + k];
    }
    ST_TRY(check_counts(f, step, err));
    const ek_call c = {.in = f->args,
                       .out = f->args + step->n_in,
                       .attrs = step->n_attr_ints ? f->attrs : step->attrs,
                       .n_in = step->n_in,
                       .n_out = step->n_out,
                       .n_attrs = step->n_attrs,
                       .op = step->op,
                       .self = f->exe->self,
                       .frame = f,
                       .step = step};
    const stator_status status = step->fn(&c, err);
    eager_give_scratch(f);
    EAGER_FAIL_IF(status != STATOR_OK, f->exe->self, step, err, status, "failed with status %d",
                  status);
    return step->is_static ? STATOR_OK : bind_results(f, step, err);
}

/* The result shows the bytes of the first operand. */
static stator_status run_alias(eager_frame *f, const eager_step *step, stator_diag **err)
{
    const ek_tensor *from = &f->values[step->in[0]];
    ek_tensor *to = &f->values[step->out];
    to->data = from->data;
    if (!step->is_static) {
        int64_t dims[STATOR_RANK_MAX];
        if (!eager_eval_dims(f, step->out, dims)) {
            EAGER_FAIL_IF(to->rank != from->rank, f->exe->self, step, err,
                          STATOR_FAILED_PRECONDITION,
                          "the shape of the result is not known when the node runs");
            memcpy(dims, from->dims, from->rank * sizeof *dims);
            ST_TRY(eager_bind_dims(f, step, step->out, dims, err));
            ST_TRY(eager_check_dims(f, step, step->out, dims, "the result", err));
        }
        ST_TRY(eager_take_dims(f, step, step->out, dims, err));
    }
    if (to->numel != from->numel) {
        char have[200];
        char want[200];
        return eager_fail(f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                          "shape %s does not hold the elements of shape %s",
                          st_shape_text(to->dims, to->rank, want, sizeof want),
                          st_shape_text(from->dims, from->rank, have, sizeof have));
    }
    return STATOR_OK;
}

static stator_status run_sym_bind(eager_frame *f, const eager_step *step, stator_diag **err)
{
    const ek_tensor *t = &f->values[step->in[0]];
    const ek_attr *attr = &step->attrs[STATOR_sym_bind_syms];
    const uint32_t *progs = step->attr_progs[STATOR_sym_bind_syms];
    EAGER_FAIL_IF(t->numel != (int64_t)attr->count, f->exe->self, step, err,
                  STATOR_INVALID_ARGUMENT, "%lld values for %u sizes", (long long)t->numel,
                  attr->count);
    for (uint32_t i = 0; i < attr->count; i++) {
        const int64_t value = st_load_i64(t->dtype, t->data, i);
        const eager_prog *prog = progs ? &f->exe->progs.data[progs[i]] : NULL;
        if (prog && prog->has_symbol && f->syms[prog->symbol] == EAGER_UNSET) {
            ST_TRY(eager_set_symbol(f, step, prog->symbol, value, err));
            continue;
        }
        int64_t known = attr->ints[i];
        EAGER_FAIL_IF((!prog || eager_eval(f, progs[i], &known)) && known != value, f->exe->self,
                      step, err, STATOR_INVALID_ARGUMENT, "size %u is %lld, but it must be %lld", i,
                      (long long)value, (long long)known);
    }
    return run_alias(f, step, err);
}

static stator_status run_assign(eager_frame *f, const eager_step *step, stator_diag **err)
{
    ek_tensor *target = &f->values[step->in[0]];
    const ek_tensor *value = &f->values[step->in[1]];
    EAGER_FAIL_IF(target->numel != value->numel || target->dtype != value->dtype, f->exe->self,
                  step, err, STATOR_INVALID_ARGUMENT,
                  "%lld elements are written to a buffer of %lld", (long long)value->numel,
                  (long long)target->numel);
    memmove(target->data, value->data, ek_bytes(value->dtype, value->numel));
    return run_alias(f, step, err);
}

static stator_status run_step(eager_frame *f, const eager_step *step, stator_diag **err)
{
    switch (step->kind) {
    case EAGER_STEP_KERNEL:
        return run_kernel(f, step, err);
    case EAGER_STEP_CONSTANT:
        return STATOR_OK;
    case EAGER_STEP_ALIAS:
        return run_alias(f, step, err);
    case EAGER_STEP_SYM_BIND:
        return run_sym_bind(f, step, err);
    case EAGER_STEP_ASSIGN:
        return run_assign(f, step, err);
    default:
        ST_TRY(eager_run_regions(f, step, err));
        return step->is_static ? STATOR_OK : bind_results(f, step, err);
    }
}

static stator_status run_timed(eager_frame *f, const eager_step *step, stator_diag **err)
{
    char name[EAGER_STEP_NAME];
    const uint64_t begin = st_now_ns();
    const stator_status status = run_step(f, step, err);
    const uint64_t end = st_now_ns();
    f->call->note_time(f->call, eager_step_name(step, name), begin, end);
    return status;
}

static stator_status run_steps(eager_frame *f, stator_diag **err)
{
    const bool is_timed =
        f->call != NULL && STATOR_HAS(f->call, note_time) && f->call->note_time != NULL;
    for (uint32_t s = 0; s < f->plan->n_steps; s++) {
        const eager_step *step = &f->plan->steps[s];
        ST_TRY(is_timed ? run_timed(f, step, err) : run_step(f, step, err));
        for (uint32_t r = 0; r < step->n_release; r++) {
            eager_pool_give(&f->exe->pool, f->blocks[step->release[r]]);
            f->blocks[step->release[r]] = NULL;
        }
    }
    return STATOR_OK;
}

/* ---- frames ---- */

static eager_frame *frame_begin(eager_exe *exe, const eager_execution_plan *plan, char *memory,
                                const int64_t *syms, uint32_t n_syms)
{
    eager_frame *f = (eager_frame *)(void *)memory;
    *f = (eager_frame){.plan = plan,
                       .exe = exe,
                       .data = memory + plan->at_data,
                       .values = (ek_tensor *)(void *)(memory + plan->at_values),
                       .dims = (int64_t *)(void *)(memory + plan->at_dims),
                       .blocks = (void **)(void *)(memory + plan->at_blocks),
                       .args = (ek_tensor *)(void *)(memory + plan->at_args),
                       .attrs = (ek_attr *)(void *)(memory + plan->at_attrs),
                       .attr_ints = (int64_t *)(void *)(memory + plan->at_attr_ints),
                       .syms = (int64_t *)(void *)(memory + plan->at_syms)};
    memcpy(f->values, plan->tensors, (plan->n_values + 1u) * sizeof *f->values);
    if (plan->has_pooled) {
        memset(f->blocks, 0, (plan->n_values + 1u) * sizeof *f->blocks);
    }
    for (uint32_t v = 1; v <= plan->n_values; v++) {
        if (plan->values[v].storage == EAGER_FIXED) {
            f->values[v].data = f->data + plan->values[v].offset;
        } else if (plan->values[v].storage == EAGER_CONSTANT) {
            f->values[v].data = (void *)(uintptr_t)exe->constants.data[plan->values[v].index];
        }
    }
    for (uint32_t s = 0; s < exe->n_syms; s++) {
        f->syms[s] = s < n_syms ? syms[s] : EAGER_UNSET;
    }
    return f;
}

static void frame_end(eager_frame *f)
{
    eager_give_scratch(f);
    for (uint32_t v = 1; f->plan->has_pooled && v <= f->plan->n_values; v++) {
        eager_pool_give(&f->exe->pool, f->blocks[v]);
    }
}

/* Input i has these sizes: they become its sizes when the type is not static. */
static stator_status take_input(eager_frame *f, uint32_t i, void *data, uint32_t rank,
                                const int64_t *dims, stator_diag **err)
{
    ek_tensor *t = &f->values[i + 1u];
    t->data = data ? data : (void *)f; /* an empty tensor may come without data */
    EAGER_FAIL_IF(rank != t->rank, f->exe->self, NULL, err, STATOR_INVALID_ARGUMENT,
                  "input %u has rank %u, expected %u", i, rank, t->rank);
    if (f->plan->values[i + 1u].is_static) {
        return STATOR_OK;
    }
    ST_TRY(eager_take_dims(f, NULL, i + 1u, dims, err));
    return eager_bind_dims(f, NULL, i + 1u, dims, err);
}

static stator_status check_input(eager_frame *f, uint32_t i, const int64_t *dims, stator_diag **err)
{
    const ek_tensor *t = &f->values[i + 1u];
    if (f->plan->values[i + 1u].is_static &&
        (t->rank == 0 || memcmp(t->dims, dims, t->rank * sizeof *dims) == 0)) {
        return STATOR_OK;
    }
    char what[24];
    (void)snprintf(what, sizeof what, "input %u", i);
    return eager_check_dims(f, NULL, i + 1u, dims, what, err);
}

/* ---- a region ---- */

/* The results leave the frame in blocks of their own. */
static stator_status export_results(eager_frame *f, eager_owned *out, stator_diag **err)
{
    for (uint32_t k = 0; k < f->plan->n_outputs; k++) {
        const uint32_t v = f->plan->outputs[k];
        const ek_tensor *t = &f->values[v];
        const uint64_t bytes = ek_bytes(t->dtype, t->numel);
        out[k].dtype = t->dtype;
        out[k].rank = t->rank;
        out[k].numel = t->numel;
        memcpy(out[k].dims, t->dims, t->rank * sizeof *t->dims);
        if (f->plan->has_pooled && f->blocks[v]) {
            out[k].data = f->blocks[v];
            f->blocks[v] = NULL;
            continue;
        }
        out[k].data = eager_pool_take(&f->exe->pool, bytes);
        EAGER_FAIL_IF(!out[k].data, f->exe->self, NULL, err, STATOR_RESOURCE_EXHAUSTED,
                      "out of memory");
        memcpy(out[k].data, t->data, bytes);
    }
    return STATOR_OK;
}

stator_status eager_region_run(eager_frame *parent, const eager_step *step, uint32_t region,
                               const ek_tensor *in, eager_owned *out, stator_diag **err)
{
    const eager_execution_plan *plan = step->regions[region];
    eager_frame *f = frame_begin(parent->exe, plan, parent->data + step->region_offset,
                                 parent->syms, parent->exe->n_syms);
    stator_status status = STATOR_OK;
    /* What an iteration before bound is not known to this one. The root keeps what the call gives:
     * a part of the graph that ran before may have bound it. */
    for (uint32_t s = 0; s < plan->n_fresh_syms; s++) {
        f->syms[plan->fresh_syms[s]] = EAGER_UNSET;
    }
    memset(out, 0, plan->n_outputs * sizeof *out);
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        ST_TRY_DONE(take_input(f, i, in[i].data, in[i].rank, in[i].dims, err));
    }
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        ST_TRY_DONE(check_input(f, i, in[i].dims, err));
    }
    ST_TRY_DONE(run_steps(f, err));
    ST_TRY_DONE(export_results(f, out, err));
done:
    frame_end(f);
    return status;
}

/* ---- a call ---- */

static stator_status take_inputs(eager_frame *f, const stator_call *call, stator_diag **err)
{
    const uint32_t n = f->plan->n_inputs;
    EAGER_FAIL_IF(call->n_in != n || call->n_out != f->plan->n_outputs, f->exe->self, NULL, err,
                  STATOR_INVALID_ARGUMENT,
                  "the call has %u inputs and %u outputs, the graph %u and %u", call->n_in,
                  call->n_out, n, f->plan->n_outputs);
    for (uint32_t i = 0; i < n; i++) {
        const DLTensor *in = &call->in[i];
        char *data = in->data ? (char *)in->data + in->byte_offset : NULL;
        ST_TRY(take_input(f, i, data, (uint32_t)in->ndim, in->shape, err));
    }
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(check_input(f, i, call->in[i].shape, err));
    }
    return STATOR_OK;
}

/* Outputs whose sizes are known before the first step get their memory now. */
static stator_status place_early_outputs(eager_frame *f, stator_diag **err)
{
    const eager_execution_plan *plan = f->plan;
    for (uint32_t v = 1; v <= plan->n_values; v++) {
        if (plan->values[v].storage != EAGER_OUTPUT) {
            continue;
        }
        const uint32_t k = plan->values[v].index;
        const uint32_t out = plan->outputs[k];
        int64_t dims[STATOR_RANK_MAX];
        const int64_t *known = f->values[out].dims;
        if (!plan->values[out].is_static) {
            if (!plan->values[out].is_early || !eager_eval_dims(f, out, dims)) {
                continue;
            }
            known = dims;
        }
        ST_TRY(eager_caller_output(f, NULL, k, known, &f->values[v].data, err));
        if (!plan->values[v].is_static && eager_eval_dims(f, v, dims)) {
            ST_TRY(eager_take_dims(f, NULL, v, dims, err));
        }
    }
    return STATOR_OK;
}

/* Outputs that were not made in place. */
static stator_status copy_outputs(eager_frame *f, stator_diag **err)
{
    for (uint32_t k = 0; k < f->plan->n_outputs; k++) {
        if (f->plan->output_in_place[k]) {
            continue;
        }
        const ek_tensor *t = &f->values[f->plan->outputs[k]];
        void *data;
        ST_TRY(eager_caller_output(f, NULL, k, t->dims, &data, err));
        memmove(data, t->data, ek_bytes(t->dtype, t->numel));
    }
    return STATOR_OK;
}

/* Inputs receive their final contents. All are read before the first is written, so that two inputs
 * may swap. */
static stator_status write_back(eager_frame *f, stator_diag **err)
{
    const eager_execution_plan *plan = f->plan;
    void *chain = NULL;
    stator_status status = STATOR_OK;
    for (uint32_t k = plan->n_write_backs; k-- > 0;) {
        const ek_tensor *t = &f->values[plan->write_back_values[k]];
        const uint64_t bytes = ek_bytes(t->dtype, t->numel);
        void *copy = eager_pool_take(&f->exe->pool, bytes);
        if (!copy) {
            status =
                eager_fail(f->exe->self, NULL, err, STATOR_RESOURCE_EXHAUSTED, "out of memory");
            break;
        }
        memcpy(copy, t->data, bytes);
        eager_block_set_next(copy, chain);
        chain = copy;
    }
    for (uint32_t k = 0; chain; k++) {
        void *copy = chain;
        chain = eager_block_next(copy);
        if (status == STATOR_OK) {
            const ek_tensor *t = &f->values[plan->write_back_values[k]];
            memcpy(f->values[plan->write_back_inputs[k] + 1u].data, copy,
                   ek_bytes(t->dtype, t->numel));
        }
        eager_pool_give(&f->exe->pool, copy);
    }
    return status;
}

/* Symbols bound by this run are reported to the host: another part of the graph may need them. */
static void report_symbols(const eager_frame *f, const stator_call *call)
{
    for (uint32_t s = 0; s < f->exe->n_syms && s < call->n_syms; s++) {
        if (call->syms[s] == EAGER_UNSET) {
            call->syms[s] = f->syms[s];
        }
    }
}

static stator_status run_root(eager_exe *exe, const stator_call *call, char *memory,
                              stator_diag **err)
{
    eager_frame *f = frame_begin(exe, exe->root, memory, call->syms, call->n_syms);
    f->call = call;
    stator_status status = STATOR_OK;
    ST_TRY_DONE(take_inputs(f, call, err));
    ST_TRY_DONE(place_early_outputs(f, err));
    ST_TRY_DONE(run_steps(f, err));
    report_symbols(f, call);
    ST_TRY_DONE(copy_outputs(f, err));
    if (f->plan->n_write_backs) {
        ST_TRY_DONE(write_back(f, err));
    }
done:
    frame_end(f);
    return status;
}

stator_status eager_exe_run(eager_exe *exe, const stator_call *call, stator_diag **err)
{
    const uint64_t need = exe->root->frame_bytes;
    const uintptr_t begin = (uintptr_t)call->workspace;
    const uintptr_t aligned = (begin + EAGER_ALIGN - 1u) & ~(uintptr_t)(EAGER_ALIGN - 1u);
    if (begin && call->workspace_bytes >= need + (aligned - begin)) {
        return run_root(exe, call, (char *)aligned, err);
    }
    void *own = eager_pool_take(&exe->pool, need);
    EAGER_FAIL_IF(!own, exe->self, NULL, err, STATOR_RESOURCE_EXHAUSTED,
                  "out of memory for a workspace of %llu bytes", (unsigned long long)need);
    const stator_status status = run_root(exe, call, own, err);
    eager_pool_give(&exe->pool, own);
    return status;
}
