/* A call of a scan: its body, an executable of its own, is run once a step (plan_scan.c says over
 * which buffers), by one thread, by as many as each launch takes, or by a barrier group. */
#include "codegen/run/scan_loop.h"

#include <string.h>

#define WORK_ALIGN 64u

static uint64_t tensor_bytes(const cg_scan *scan)
{
    const uint64_t n = (uint64_t)scan->n_in + scan->n_out;
    const uint64_t bytes = n * (sizeof(DLTensor) + sizeof(int64_t));
    return (bytes + WORK_ALIGN - 1u) / WORK_ALIGN * WORK_ALIGN;
}

uint64_t cg_scan_tensor_bytes(const cg_scan *scan)
{
    return scan->group * tensor_bytes(scan);
}

typedef struct steps {
    const cg_scan *scan;
    void *const *pointers;
    DLTensor *tensors;
    int64_t *bytes; /* from slice to slice, by port */
    int64_t length;
    void *device_call; /* NULL: in host memory */
} steps;

/* A pointer that is never NULL: an empty output's may be. */
static void *some(const steps *s, uint32_t index)
{
    return s->pointers[index] ? s->pointers[index] : (void *)s->tensors;
}

static stator_status begin_steps(steps *s, const int64_t *syms, stator_diag **err)
{
    const cg_scan *scan = s->scan;
    const uint32_t n = scan->n_in + scan->n_out;
    memset(s->tensors, 0, n * sizeof *s->tensors);
    for (uint32_t k = 0; k < n; k++) {
        const cg_port *p = &scan->ports[k];
        s->bytes[k] = 0;
        s->tensors[k].data = some(s, k);
        if (p->kind != CG_PORT_SLICE) {
            continue;
        }
        ST_FAIL_IF(!st_symprog_eval(&p->bytes, syms, &s->bytes[k]), err, STATOR_OUT_OF_RANGE,
                   "a size cannot be computed");
        if (p->is_reversed) {
            s->tensors[k].byte_offset = (uint64_t)(s->bytes[k] * (s->length - 1));
            s->bytes[k] = -s->bytes[k];
        }
    }
    return STATOR_OK;
}

/* Stores the initial carried values as results, when the loop has no step. */
static stator_status copy_carried(const steps *s, const int64_t *syms, stator_diag **err)
{
    const cg_scan *scan = s->scan;
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        int64_t bytes = 0;
        ST_FAIL_IF(!st_symprog_eval(&scan->carried_bytes[k], syms, &bytes), err,
                   STATOR_OUT_OF_RANGE, "a size cannot be computed");
        if (bytes > 0 && s->device_call) {
            const st_device_memory *memory = scan->body->config.emitter->memory;
            ST_TRY(memory->copy(memory->self, s->device_call, s->pointers[scan->n_in + k],
                                s->pointers[k], (uint64_t)bytes, err));
        } else if (bytes > 0) {
            memcpy(s->pointers[scan->n_in + k], s->pointers[k], (size_t)bytes);
        }
    }
    return STATOR_OK;
}

/* Sets where step t writes the carried values: the last step, into the results. */
static void set_carried(const steps *s, int64_t t)
{
    const cg_scan *scan = s->scan;
    const uint32_t n = scan->n_in + scan->n_out;
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        DLTensor *out = &s->tensors[scan->n_in + k];
        s->tensors[k].data = t ? out->data : s->tensors[k].data;
        out->data = some(s, (s->length - t) % 2 ? scan->n_in + k : n + k);
    }
}

static void end_step(const steps *s)
{
    for (uint32_t k = 0; k < s->scan->n_in + s->scan->n_out; k++) {
        s->tensors[k].byte_offset += (uint64_t)s->bytes[k];
    }
}

/* One thread, or as many as each launch takes. */
static stator_status run_steps(const steps *s, const stator_call *body, stator_diag **err)
{
    uint32_t sizes[CG_STEP_SIZES_MAX]; /* symbols that each step binds anew */
    const uint32_t n_sizes = cg_unbound(s->scan->body, body->syms, sizes);
    for (int64_t t = 0; t < s->length; t++) {
        set_carried(s, t);
        ST_TRY(cg_run_body(s->scan->body, body, s->device_call, err));
        cg_unbind(body->syms, sizes, n_sizes);
        end_step(s);
    }
    return STATOR_OK;
}

/* ---- a barrier group ---- */

typedef struct group_call {
    cg_barrier_group group;
    const steps *first; /* member 0's; others copy them into scratch of their own */
    const stator_call *body;
    stator_status status[CG_CONCURRENT_MAX];
    stator_diag *err[CG_CONCURRENT_MAX];
} group_call;

static stator_status run_member(group_call *c, uint32_t member)
{
    const cg_scan *scan = c->first->scan;
    const uint64_t bytes = tensor_bytes(scan);
    const uint32_t n = scan->n_in + scan->n_out;
    steps s = *c->first;
    stator_call body = *c->body;
    s.tensors = (DLTensor *)(void *)((char *)c->first->tensors + member * bytes);
    s.bytes = (int64_t *)(void *)(s.tensors + n);
    body.in = s.tensors;
    body.out = s.tensors + scan->n_in;
    stator_status status = STATOR_OK;
    bool is_on = true;
    for (int64_t t = 0; t < s.length && is_on; t++) {
        set_carried(&s, t);
        status = cg_run_part(scan->body, &body, &c->group, member, &is_on, &c->err[member]);
        end_step(&s);
    }
    return status;
}

static void run_members(void *self, int64_t begin, int64_t end)
{
    group_call *c = self;
    const uint32_t member = (uint32_t)begin;
    if (end - begin > 1) { /* fewer threads than members */
        cg_barrier_group_disband(&c->group);
    } else if (cg_barrier_group_join(&c->group, member)) {
        c->status[member] = run_member(c, member);
        return;
    }
    if (member == 0) {
        c->status[0] = run_steps(c->first, c->body, &c->err[0]);
    }
}

/* Returns the error of the first member that has one. */
static stator_status run_group(const steps *s, const stator_call *body, stator_diag **err)
{
    const stator_host *host = s->scan->body->config.host;
    const uint64_t bytes = tensor_bytes(s->scan);
    stator_ctx *ctx = body->ctx ? body->ctx : host->ctx;
    group_call c = {.group = {.n = s->scan->group}, .first = s, .body = body};
    stator_status status = STATOR_OK;
    if (host->thr->thread_count(ctx) < (int32_t)s->scan->group) {
        return run_steps(s, body, err);
    }
    for (uint32_t i = 1; i < s->scan->group; i++) {
        memcpy((char *)s->tensors + i * bytes, s->tensors, bytes);
    }
    host->thr->parallel_for(ctx, s->scan->group, 1, run_members, &c);
    for (uint32_t i = 0; i < s->scan->group; i++) {
        if (c.status[i] != STATOR_OK && status == STATOR_OK) {
            status = c.status[i];
            *err = c.err[i];
        } else {
            st_diag_release(c.err[i]);
        }
    }
    return status;
}

/* A barrier group, or one thread where that is faster. */
static stator_status run_best(const steps *s, const stator_call *body, stator_diag **err)
{
    cg_scan *scan = (cg_scan *)(uintptr_t)s->scan; /* only `record`, which is atomic */
    uint64_t began = 0;
    const bool is_group = cg_barrier_group_begin(&scan->record, &began);
    const stator_status status = is_group ? run_group(s, body, err) : run_steps(s, body, err);
    cg_barrier_group_end(&scan->record, is_group, began);
    return status;
}

/* All steps, with `tensors` for their descriptors and `work` for the body's values. */
static stator_status run_all(steps *s, const stator_call *call, void *work, stator_diag **err)
{
    const cg_scan *scan = s->scan;
    s->bytes = (int64_t *)(void *)(s->tensors + scan->n_in + scan->n_out);
    ST_FAIL_IF(!st_symprog_eval(&scan->length, call->syms, &s->length), err, STATOR_OUT_OF_RANGE,
               "a size cannot be computed");
    if (s->length <= 0) {
        return copy_carried(s, call->syms, err);
    }
    ST_TRY(begin_steps(s, call->syms, err));
    stator_call body = {.struct_size = 0}; /* the host's struct may be shorter */
    memcpy(&body, call, call->struct_size < sizeof body ? call->struct_size : sizeof body);
    body.note_time = NULL; /* timed from outside, as one step */
    body.n_in = scan->n_in;
    body.n_out = scan->n_out;
    body.in = s->tensors;
    body.out = s->tensors + scan->n_in;
    body.workspace = work;
    body.workspace_bytes = scan->body->static_bytes;
    return scan->group > 1 ? run_best(s, &body, err) : run_steps(s, &body, err);
}

/* On a device the step's last buffer has the body's values alone. */
static stator_status run_on_device(steps *s, const stator_call *call, void *work, stator_diag **err)
{
    cg_scan *scan = (cg_scan *)(uintptr_t)s->scan; /* only `spare`, which is atomic */
    st_mem *mem = scan->body->config.mem;
    s->tensors = atomic_exchange(&scan->spare, NULL);
    if (s->tensors == NULL) {
        s->tensors = st_alloc(mem, cg_scan_tensor_bytes(scan), WORK_ALIGN);
        ST_TRY_MEM(s->tensors, err);
    }
    const stator_status status = run_all(s, call, work, err);
    st_free(mem, atomic_exchange(&scan->spare, s->tensors));
    return status;
}

stator_status cg_run_scan(const cg_scan *scan, const stator_call *call, void *const *pointers,
                          void *device_call, stator_diag **err)
{
    char *scratch = pointers[scan->n_in + scan->n_out + scan->n_carried];
    steps s = {.scan = scan, .pointers = pointers, .device_call = device_call};
    if (device_call) {
        return run_on_device(&s, call, scratch, err);
    }
    s.tensors = (DLTensor *)(void *)scratch;
    return run_all(&s, call, scratch + cg_scan_tensor_bytes(scan), err);
}
