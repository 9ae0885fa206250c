/* One call of a program that inspect_plugin.c took apart. Values live in host memory from the node
 * that makes them to the node that reads them last; the host's inputs are read where they lie. */
#include "inspect_plugin.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct value {
    DLTensor tensor;
    int64_t shape[STATOR_RANK_MAX];
    void *owned; /* to be freed, or NULL */
} value;

typedef struct run {
    const inspect_exe *exe;
    const stator_host *host;
    const stator_call *call; /* the host's call */
    value *values;           /* by ref */
    const inspect_step *step;
    void *workspace;
    DLTensor *in, *out; /* room for any step */
    double total_ms;
} run;

/* ---- dtypes ---- */

typedef struct dtype_row {
    const char *name;
    uint8_t bits;
    uint8_t stator_class;
} dtype_row;

static const dtype_row dtype_rows[STATOR_DTYPE_COUNT] = {
#define STATOR_DTYPE(name, id, text, bits, class_) [id] = {text, bits, STATOR_CLASS_##class_},
#include <stator/dtype.def>
#undef STATOR_DTYPE
};

static DLDataType dl_dtype(stator_dtype dtype)
{
    static const uint8_t codes[] = {[STATOR_CLASS_BOOL] = kDLBool,
                                    [STATOR_CLASS_INT] = kDLInt,
                                    [STATOR_CLASS_UINT] = kDLUInt,
                                    [STATOR_CLASS_FLOAT] = kDLFloat,
                                    [STATOR_CLASS_COMPLEX] = kDLComplex};
    const dtype_row *row = &dtype_rows[dtype];
    const uint8_t code = dtype == STATOR_BF16       ? kDLBfloat
                         : dtype == STATOR_F8E4M3FN ? kDLFloat8_e4m3fn
                         : dtype == STATOR_F8E5M2   ? kDLFloat8_e5m2
                                                    : codes[row->stator_class];
    return (DLDataType){code, row->bits, 1};
}

/* Elements, and bytes of a dense tensor; sub-byte elements lie two a byte. */
static uint64_t element_count(const int64_t *shape, uint32_t rank)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) {
        n *= (uint64_t)shape[i];
    }
    return n;
}

static uint64_t byte_count(stator_dtype dtype, const int64_t *shape, uint32_t rank)
{
    return (element_count(shape, rank) * dtype_rows[dtype].bits + 7) / 8;
}

/* ---- values ---- */

static void set_value(value *v, stator_dtype dtype, uint32_t rank, const int64_t *shape, void *data)
{
    if (rank != 0) {
        memcpy(v->shape, shape, rank * sizeof *shape);
    }
    v->tensor = (DLTensor){.data = data,
                           .device = {kDLCPU, 0},
                           .ndim = (int32_t)rank,
                           .dtype = dl_dtype(dtype),
                           .shape = v->shape};
}

/* `eager` asks for the memory of a result here, through the call that run_step makes. */
static stator_status alloc_result(const stator_call *call, uint32_t k, uint32_t rank,
                                  const int64_t *shape, stator_diag **err)
{
    run *r = call->host;
    const stator_ref ref = r->step->out[k];
    const stator_dtype dtype = r->exe->dtypes[ref];
    value *v = &r->values[ref];
    v->owned = r->host->mem->alloc(r->host->ctx, byte_count(dtype, shape, rank) + 1, 64);
    if (v->owned == NULL) {
        return stator_fail(r->host, err, STATOR_RESOURCE_EXHAUSTED, "inspect: out of memory");
    }
    set_value(v, dtype, rank, shape, v->owned);
    call->out[k] = v->tensor;
    return STATOR_OK;
}

static void free_value(run *r, stator_ref ref)
{
    r->host->mem->free(r->host->ctx, r->values[ref].owned);
    r->values[ref].owned = NULL;
}

/* ---- one line a node ---- */

static void print_type(stator_dtype dtype, const DLTensor *t)
{
    fprintf(stderr, " %s[", dtype_rows[dtype].name);
    for (int32_t i = 0; i < t->ndim; i++) {
        fprintf(stderr, i ? ",%lld" : "%lld", (long long)t->shape[i]);
    }
    fprintf(stderr, "]");
}

static double element(stator_dtype dtype, const void *data, uint64_t i)
{
    switch (dtype) {
    case STATOR_F32:
        return (double)((const float *)data)[i];
    case STATOR_F64:
        return ((const double *)data)[i];
    case STATOR_I64:
        return (double)((const int64_t *)data)[i];
    case STATOR_I32:
        return (double)((const int32_t *)data)[i];
    case STATOR_I8:
        return (double)((const int8_t *)data)[i];
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

static bool is_readable(stator_dtype dtype)
{
    return dtype == STATOR_F32 || dtype == STATOR_F64 || dtype == STATOR_I64 ||
           dtype == STATOR_I32 || dtype == STATOR_I8 || dtype == STATOR_U8 || dtype == STATOR_BOOL;
}

static void print_contents(const run *r, stator_ref ref)
{
    const stator_dtype dtype = r->exe->dtypes[ref];
    const DLTensor *t = &r->values[ref].tensor;
    const uint64_t n = element_count(t->shape, (uint32_t)t->ndim);
    const uint64_t wanted = (uint64_t)r->exe->instance->elements;
    uint64_t nan = 0, inf = 0;
    for (uint64_t i = 0; i < n && (dtype == STATOR_F32 || dtype == STATOR_F64); i++) {
        const double x = element(dtype, t->data, i);
        nan += isnan(x) != 0;
        inf += isinf(x) != 0;
    }
    if (nan != 0 || inf != 0) {
        fprintf(stderr, "  %llu NaN, %llu inf of %llu", (unsigned long long)nan,
                (unsigned long long)inf, (unsigned long long)n);
    }
    for (uint64_t i = 0; i < n && i < wanted && is_readable(dtype); i++) {
        fprintf(stderr, i ? ", %.6g" : "  {%.6g", element(dtype, t->data, i));
    }
    if (n != 0 && wanted != 0 && is_readable(dtype)) {
        fprintf(stderr, n > wanted ? ", ...}" : "}");
    }
}

static void print_step(const run *r, double ms)
{
    const inspect_step *step = r->step;
    const char *only = r->exe->instance->only;
    if (*only != '\0' && strcmp(only, step->op) != 0) {
        return;
    }
    fprintf(stderr, "inspect: %9.3f ms  %-28s", ms, step->title);
    for (uint32_t k = 0; k < step->n_in; k++) {
        print_type(r->exe->dtypes[step->in[k]], &r->values[step->in[k]].tensor);
    }
    fprintf(stderr, " ->");
    for (uint32_t k = 0; k < step->n_out; k++) {
        print_type(r->exe->dtypes[step->out[k]], &r->values[step->out[k]].tensor);
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        print_contents(r, step->out[k]);
    }
    fprintf(stderr, "\n");
}

/* ---- the call ---- */

static double now_ms(void)
{
    struct timespec t;
    (void)timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Tells later nodes the sizes that this one found out. */
static void define_symbols(const run *r)
{
    for (uint32_t i = 0; i < r->step->n_symbols; i++) {
        const inspect_symbol *s = &r->step->symbols[i];
        const DLTensor *t = &r->values[r->step->out[s->result]].tensor;
        if (s->symbol < r->call->n_syms) {
            r->call->syms[s->symbol] =
                s->is_element ? ((const int64_t *)t->data)[s->index] : t->shape[s->index];
        }
    }
}

static stator_status run_step(run *r, stator_diag **err)
{
    const inspect_step *step = r->step;
    for (uint32_t k = 0; k < step->n_in; k++) {
        r->in[k] = r->values[step->in[k]].tensor;
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        r->out[k] =
            (DLTensor){.device = {kDLCPU, 0}}; /* no data: asked for when the size is known */
    }
    const stator_call call = {.struct_size = sizeof call,
                              .n_in = step->n_in,
                              .n_out = step->n_out,
                              .n_syms = r->call->n_syms,
                              .in = r->in,
                              .out = r->out,
                              .syms = r->call->syms,
                              .workspace = r->workspace,
                              .workspace_bytes = step->workspace_bytes,
                              .ctx = r->call->ctx,
                              .alloc_output = alloc_result,
                              .host = r,
                              .fuel = r->call->fuel};
    const double begin = now_ms();
    const stator_status status =
        r->host->nested->run(r->exe->instance->eager, step->exe, &call, err);
    const double ms = now_ms() - begin;
    if (status != STATOR_OK) {
        fprintf(stderr, "inspect: %s failed\n", step->title);
        return status;
    }
    r->total_ms += ms;
    define_symbols(r);
    print_step(r, ms);
    return STATOR_OK;
}

/* Frees what step number i was the last to read. */
static void free_dead(run *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->step->n_in; k++) {
        if (r->exe->last_use[r->step->in[k]] == i) {
            free_value(r, r->step->in[k]);
        }
    }
    for (uint32_t k = 0; k < r->step->n_out; k++) {
        if (r->exe->last_use[r->step->out[k]] == i) {
            free_value(r, r->step->out[k]);
        }
    }
}

static stator_status give_outputs(run *r, stator_diag **err)
{
    for (uint32_t k = 0; k < r->exe->n_outputs; k++) {
        const stator_ref ref = r->exe->outputs[k];
        const DLTensor *t = &r->values[ref].tensor;
        const uint32_t rank = (uint32_t)t->ndim;
        DLTensor *to = &r->call->out[k];
        if (to->data == NULL) {
            const stator_status status = r->call->alloc_output(r->call, k, rank, t->shape, err);
            if (status != STATOR_OK) {
                return status;
            }
        }
        const uint64_t bytes = byte_count(r->exe->dtypes[ref], t->shape, rank);
        if (bytes != 0) {
            memcpy((char *)to->data + to->byte_offset, (const char *)t->data + t->byte_offset,
                   (size_t)bytes);
        }
    }
    return STATOR_OK;
}

static stator_status prepare(run *r, stator_diag **err)
{
    const inspect_exe *exe = r->exe;
    uint32_t n_in = 0, n_out = 0;
    for (uint32_t i = 0; i < exe->n_steps; i++) {
        n_in = exe->steps[i].n_in > n_in ? exe->steps[i].n_in : n_in;
        n_out = exe->steps[i].n_out > n_out ? exe->steps[i].n_out : n_out;
    }
    r->values = inspect_alloc(r->host, exe->n_values + 1u, sizeof *r->values);
    r->in = inspect_alloc(r->host, n_in, sizeof *r->in);
    r->out = inspect_alloc(r->host, n_out, sizeof *r->out);
    r->workspace = r->host->mem->alloc(r->host->ctx, exe->workspace_bytes + 1, 64);
    if (r->values == NULL || r->in == NULL || r->out == NULL || r->workspace == NULL) {
        return stator_fail(r->host, err, STATOR_RESOURCE_EXHAUSTED, "inspect: out of memory");
    }
    for (uint32_t i = 1; i <= exe->n_inputs && i <= r->call->n_in; i++) {
        const DLTensor *t = &r->call->in[i - 1];
        set_value(&r->values[i], exe->dtypes[i], (uint32_t)t->ndim, t->shape,
                  (char *)t->data + t->byte_offset);
    }
    return STATOR_OK;
}

stator_status inspect_run(void *instance, void *exe_, const stator_call *call, stator_diag **err)
{
    const inspect_exe *exe = exe_;
    run r = {.exe = exe, .host = ((inspect_instance *)instance)->host, .call = call};
    stator_status status = prepare(&r, err);
    for (uint32_t i = 0; status == STATOR_OK && i < exe->n_steps; i++) {
        r.step = &exe->steps[i];
        status = run_step(&r, err);
        if (status == STATOR_OK) {
            free_dead(&r, i);
        }
    }
    if (status == STATOR_OK) {
        status = give_outputs(&r, err);
        fprintf(stderr, "inspect: %9.3f ms  %u nodes\n", r.total_ms, exe->n_steps);
    }
    for (stator_ref ref = 1; r.values != NULL && ref <= exe->n_values; ref++) {
        free_value(&r, ref);
    }
    r.host->mem->free(r.host->ctx, r.values);
    r.host->mem->free(r.host->ctx, r.in);
    r.host->mem->free(r.host->ctx, r.out);
    r.host->mem->free(r.host->ctx, r.workspace);
    return status;
}
