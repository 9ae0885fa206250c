/* What steps and kernels need of a frame: texts of errors, sizes from symbols, memory for results,
 * scratch, threads.
 *
 * Sizes are evaluated per call unless they are constants; a symbol that nothing else tells is bound
 * from the result that has it, and every such result is checked against its type. */
#include "plugins/eager/eager_execution_plan.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- errors ---- */

const char *eager_op_name(const eager_step *step)
{
    if (step && step->op == EAGER_OP_library) {
        return step->library.op->desc.name;
    }
    return step ? eager_rows[step->op].op : "";
}

static stator_status fail_with(const eager_self *self, const eager_step *step, stator_diag **err,
                               stator_status code, const char *format, va_list args)
{
    if (!err || *err) {
        return code;
    }
    char text[768];
    int n = 0;
    if (!step) {
        n = snprintf(text, sizeof text, "eager: ");
    } else if (step->node_name[0] || step->node_kind[0]) {
        n = snprintf(text, sizeof text, "eager: %s '%.200s' (%.60s): ", eager_op_name(step),
                     step->node_name, step->node_kind);
    } else {
        n = snprintf(text, sizeof text, "eager: %s: ", eager_op_name(step));
    }
    (void)vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    *err = self->host->diag->create(code, text, strlen(text));
    return code;
}

stator_status eager_fail(const eager_self *self, const eager_step *step, stator_diag **err,
                         stator_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fail_with(self, step, err, code, format, args);
    va_end(args);
    return code;
}

stator_status ek_fail(const ek_call *c, stator_diag **err, stator_status code, const char *format,
                      ...)
{
    va_list args;
    va_start(args, format);
    (void)fail_with(c->self, c->step, err, code, format, args);
    va_end(args);
    return code;
}

stator_status ek_oom(const ek_call *c, stator_diag **err)
{
    return eager_fail(c->self, c->step, err, STATOR_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- sizes ---- */

bool eager_eval(const eager_frame *f, uint32_t prog, int64_t *out)
{
    const st_symprog *code = &f->exe->progs.data[prog].code;
    if (code->is_const) {
        *out = code->constant;
        return true;
    }
    return st_symprog_eval(code, f->syms, out);
}

bool eager_eval_dims(const eager_frame *f, uint32_t v, int64_t *out_dims)
{
    const uint32_t *progs = f->plan->dim_progs + f->plan->values[v].dims_at;
    for (uint32_t a = 0; a < f->values[v].rank; a++) {
        ST_NEED(eager_eval(f, progs[a], &out_dims[a]));
    }
    return true;
}

bool eager_eval_dim(const eager_frame *f, uint32_t v, uint32_t axis, int64_t *out)
{
    return eager_eval(f, f->plan->dim_progs[f->plan->values[v].dims_at + axis], out);
}

stator_status eager_set_symbol(eager_frame *f, const eager_step *step, uint32_t symbol,
                               int64_t value, stator_diag **err)
{
    const eager_sym *s = &f->exe->syms[symbol];
    EAGER_FAIL_IF(value < s->lo || value > s->hi || value % s->divisor != 0, f->exe->self, step,
                  err, STATOR_OUT_OF_RANGE,
                  "a size is %lld, but it must lie in [%lld, %lld] and be a multiple of %lld",
                  (long long)value, (long long)s->lo, (long long)s->hi, (long long)s->divisor);
    f->syms[symbol] = value;
    return STATOR_OK;
}

/* Binds the symbols that alone are a size of value v and are not set yet. */
stator_status eager_bind_dims(eager_frame *f, const eager_step *step, uint32_t v,
                              const int64_t *dims, stator_diag **err)
{
    const uint32_t *progs = f->plan->dim_progs + f->plan->values[v].dims_at;
    for (uint32_t a = 0; a < f->values[v].rank; a++) {
        const eager_prog *prog = &f->exe->progs.data[progs[a]];
        if (prog->has_symbol && f->syms[prog->symbol] == EAGER_UNSET) {
            ST_TRY(eager_set_symbol(f, step, prog->symbol, dims[a], err));
        }
    }
    return STATOR_OK;
}

/* Are these the sizes that the type of v states? Sizes that cannot be evaluated agree. */
stator_status eager_check_dims(eager_frame *f, const eager_step *step, uint32_t v,
                               const int64_t *dims, const char *what, stator_diag **err)
{
    const uint32_t *progs = f->plan->dim_progs + f->plan->values[v].dims_at;
    for (uint32_t a = 0; a < f->values[v].rank; a++) {
        int64_t want;
        if (eager_eval(f, progs[a], &want) && want != dims[a]) {
            char text[200];
            return eager_fail(f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                              "%s has shape %s, but size %u must be %lld", what,
                              st_shape_text(dims, f->values[v].rank, text, sizeof text), a,
                              (long long)want);
        }
    }
    return STATOR_OK;
}

/* Makes `dims` the sizes of value v, whose type is not static. */
stator_status eager_take_dims(eager_frame *f, const eager_step *step, uint32_t v,
                              const int64_t *dims, stator_diag **err)
{
    ek_tensor *t = &f->values[v];
    int64_t *own = f->dims + f->plan->values[v].dims_at;
    uint64_t numel, bytes;
    if (!st_numel(dims, t->rank, &numel) || !st_dtype_bytes(t->dtype, numel, &bytes)) {
        char text[200];
        return eager_fail(f->exe->self, step, err, STATOR_RESOURCE_EXHAUSTED,
                          "shape %s is negative or larger than memory",
                          st_shape_text(dims, t->rank, text, sizeof text));
    }
    memmove(own, dims, t->rank * sizeof *own);
    t->dims = own;
    t->numel = (int64_t)numel;
    return STATOR_OK;
}

/* ---- places for results ---- */

static stator_status pooled(eager_frame *f, const eager_step *step, uint32_t v, stator_diag **err)
{
    ek_tensor *t = &f->values[v];
    t->data = eager_pool_take(&f->exe->pool, ek_bytes(t->dtype, t->numel));
    f->blocks[v] = t->data;
    EAGER_FAIL_IF(!t->data, f->exe->self, step, err, STATOR_RESOURCE_EXHAUSTED,
                  "out of memory for a result of %llu bytes",
                  (unsigned long long)ek_bytes(t->dtype, t->numel));
    return STATOR_OK;
}

/* The caller's output k with these sizes. */
stator_status eager_caller_output(eager_frame *f, const eager_step *step, uint32_t k,
                                  const int64_t *dims, void **out_data, stator_diag **err)
{
    const stator_call *call = f->call;
    DLTensor *out = &call->out[k];
    const uint32_t rank = f->values[f->plan->outputs[k]].rank;
    if (out->data == NULL) {
        EAGER_FAIL_IF(!call->alloc_output, f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                      "output %u has no data and the call has no alloc_output", k);
        ST_TRY(call->alloc_output(call, k, rank, dims, err));
        EAGER_FAIL_IF(out->data == NULL, f->exe->self, step, err, STATOR_INTERNAL,
                      "alloc_output gave no memory for output %u", k);
    } else if (out->ndim != (int32_t)rank ||
               (rank && memcmp(out->shape, dims, rank * sizeof *dims) != 0)) {
        char want[200];
        char got[200];
        return eager_fail(f->exe->self, step, err, STATOR_INVALID_ARGUMENT,
                          "output %u was given with shape %s, but its shape is %s", k,
                          st_shape_text(out->shape, (uint32_t)out->ndim, got, sizeof got),
                          st_shape_text(dims, rank, want, sizeof want));
    }
    *out_data = (char *)out->data + out->byte_offset;
    return STATOR_OK;
}

/* Memory for value v, whose sizes are set. */
static stator_status place(eager_frame *f, const eager_step *step, uint32_t v, stator_diag **err)
{
    const eager_value *value = &f->plan->values[v];
    if (f->values[v].data) {
        return STATOR_OK;
    }
    if (value->storage == EAGER_OUTPUT) {
        return eager_caller_output(f, step, value->index, f->values[v].dims, &f->values[v].data,
                                   err);
    }
    return pooled(f, step, v, err);
}

/* Before a step: sizes and memory of the results that can be computed now. */
stator_status eager_prepare_results(eager_frame *f, const eager_step *step, stator_diag **err)
{
    int64_t dims[STATOR_RANK_MAX];
    for (uint32_t v = step->out; v < step->out + step->n_out; v++) {
        if (f->values[v].data || f->plan->values[v].storage == EAGER_ALIAS) {
            continue;
        }
        if (!f->plan->values[v].is_static) {
            if (!eager_eval_dims(f, v, dims)) {
                if (step->tells_shape) {
                    continue;
                }
                EAGER_FAIL_IF(
                    !eager_shape(f, step, v - step->out, dims), f->exe->self, step, err,
                    STATOR_FAILED_PRECONDITION,
                    "the shape of result %u has a size that cannot be computed: it passes 64 "
                    "bits, divides by 0 or needs a size that nothing has bound yet",
                    v - step->out);
            }
            ST_TRY(eager_take_dims(f, step, v, dims, err));
        }
        ST_TRY(place(f, step, v, err));
    }
    return STATOR_OK;
}

stator_status ek_alloc_out(const ek_call *c, uint32_t k, const int64_t *dims, stator_diag **err)
{
    eager_frame *f = c->frame;
    const uint32_t v = c->step->out + k;
    if (c->out[k].data) {
        return eager_check_dims(f, c->step, v, dims, "the result", err);
    }
    ST_TRY(eager_take_dims(f, c->step, v, dims, err));
    ST_TRY(place(f, c->step, v, err));
    c->out[k] = f->values[v];
    return STATOR_OK;
}

void *ek_scratch(const ek_call *c, int64_t count, uint64_t size)
{
    uint64_t bytes;
    if (count < 0 || !st_mul_u64((uint64_t)count, size, &bytes)) {
        return NULL;
    }
    void *block = eager_pool_take(&c->frame->exe->pool, bytes);
    if (block) {
        eager_block_set_next(block, c->frame->scratch);
        c->frame->scratch = block;
    }
    return block;
}

void ek_parallel(const ek_call *c, int64_t n, int64_t grain, stator_range_fn fn, void *fn_self)
{
    if (n <= grain) {
        if (n > 0) {
            fn(fn_self, 0, n);
        }
        return;
    }
    c->self->host->thr->parallel_for(c->self->host->ctx, n, grain, fn, fn_self);
}

void eager_give_scratch(eager_frame *f)
{
    while (f->scratch) {
        void *block = f->scratch;
        f->scratch = eager_block_next(block);
        eager_pool_give(&f->exe->pool, block);
    }
}

/* ---- attributes, results of regions ---- */

stator_status eager_eval_attrs(eager_frame *f, const eager_step *step, stator_diag **err)
{
    int64_t *next = f->attr_ints;
    for (uint32_t k = 0; k < step->n_attrs; k++) {
        f->attrs[k] = step->attrs[k];
        if (!step->attr_progs[k]) {
            continue;
        }
        f->attrs[k].ints = next;
        for (uint32_t i = 0; i < step->attrs[k].count; i++) {
            EAGER_FAIL_IF(!eager_eval(f, step->attr_progs[k][i], next), f->exe->self, step, err,
                          STATOR_FAILED_PRECONDITION,
                          "element %u of attribute %u is a size that cannot be computed: it "
                          "passes 64 bits, divides by 0 or needs a size that nothing has "
                          "bound yet",
                          i, k);
            next++;
        }
    }
    return STATOR_OK;
}

void eager_give_owned(eager_frame *frame, eager_owned *owned, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        eager_pool_give(&frame->exe->pool, owned[i].data);
        owned[i].data = NULL;
    }
}

stator_status eager_adopt(eager_frame *f, const eager_step *step, uint32_t k, eager_owned *owned,
                          stator_diag **err)
{
    const uint32_t v = step->out + k;
    ek_tensor *t = &f->values[v];
    EAGER_FAIL_IF(owned->rank != t->rank || owned->dtype != t->dtype, f->exe->self, step, err,
                  STATOR_INTERNAL,
                  "result %u of the region has another rank or dtype than the node states", k);
    if (f->plan->values[v].is_static) {
        ST_TRY(eager_check_dims(f, step, v, owned->dims, "the result", err));
    } else {
        ST_TRY(eager_take_dims(f, step, v, owned->dims, err));
    }
    if (f->plan->values[v].storage == EAGER_POOLED) {
        t->data = f->blocks[v] = owned->data;
        owned->data = NULL;
        return STATOR_OK;
    }
    if (f->plan->values[v].storage == EAGER_OUTPUT) {
        ST_TRY(place(f, step, v, err));
        memcpy(t->data, owned->data, ek_bytes(t->dtype, t->numel));
    }
    return STATOR_OK;
}
