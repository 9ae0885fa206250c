/* One call of an executable: pointers gathered, kernels launched in order.
 *
 * With known sizes nothing is computed and nothing allocated. With symbolic ones the workspace is
 * kept from call to call; calls that overlap get one of their own. On a device (st_device_memory)
 * values lie in memory that is taken in the order of the call's stream, and only the table of slots
 * is kept; a size that data states is read back, which waits. */
#include "codegen/run/barrier_group.h"

#include "core/base/threads/threads.h"

#define STACK_OPERANDS 64u
#define WORK_ALIGN 64u

typedef struct run {
    const st_cg_exe *exe;
    const stator_call *call;
    char *work;
    uintptr_t *slots; /* addresses, when sizes are symbolic */
    struct extra *extra;
    uint32_t status;
    bool is_undoing;                /* a step has failed */
    const st_device_memory *memory; /* NULL: values lie in host memory */
    void *device_call;
    void *device_work; /* of the first stage */
} run;

/* Memory of a stage behind the first: its sizes were not known when the call began. */
typedef struct extra {
    struct extra *next;
    void *on_device; /* else it follows */
    char padding[WORK_ALIGN - 2u * sizeof(void *)];
} extra;

typedef struct spare {
    uint64_t capacity;
    char padding[WORK_ALIGN - sizeof(uint64_t)];
} spare;
_Static_assert(sizeof(spare) == WORK_ALIGN, "what follows is aligned");

/* ---- outputs ---- */

static stator_status give_outputs(const run *r, uint32_t stage, stator_diag **err)
{
    const stator_call *call = r->call;
    for (uint32_t k = 0; k < call->n_out; k++) {
        const cg_output *out = &r->exe->outputs[k];
        int64_t shape[CG_RANK_MAX];
        if (call->out[k].data != NULL || out->stage != stage) {
            continue;
        }
        for (uint32_t a = 0; a < out->rank; a++) {
            ST_FAIL_IF(!st_symprog_eval(&out->dims[a], call->syms, &shape[a]), err,
                       STATOR_OUT_OF_RANGE, "the size of output %u cannot be computed", k);
        }
        stator_diag *theirs = NULL;
        const stator_status status = call->alloc_output(call, k, out->rank, shape, &theirs);
        ST_TRY(st_cg_from_host(r->exe->config.host, status, &theirs, err));
    }
    return STATOR_OK;
}

/* ---- the workspace of symbolic size ---- */

/* Offsets of the slots of a stage, and their bytes. */
static stator_status measure(run *r, uint32_t stage, uint64_t *out_bytes, stator_diag **err)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < r->exe->n_slots; i++) {
        int64_t bytes = 0;
        if (r->exe->slot_stages[i] != stage) {
            continue;
        }
        if (!st_symprog_eval(&r->exe->slots[i], r->call->syms, &bytes) || bytes < 0 ||
            (uint64_t)bytes > (UINT64_MAX >> 1) - total - WORK_ALIGN) {
            return st_fail(err, STATOR_OUT_OF_RANGE, "a workspace size cannot be computed");
        }
        r->slots[i] = (uintptr_t)total;
        total += ((uint64_t)bytes + WORK_ALIGN - 1u) / WORK_ALIGN * WORK_ALIGN;
    }
    *out_bytes = total;
    return STATOR_OK;
}

/* Offsets become addresses. */
static void set_slots(const run *r, uint32_t stage, const char *base)
{
    for (uint32_t i = 0; i < r->exe->n_slots; i++) {
        r->slots[i] += r->exe->slot_stages[i] == stage ? (uintptr_t)base : 0;
    }
}

/* The values of the first stage, behind a table of the block that may move, or on the device. */
static stator_status take_values(run *r, uint64_t table, uint64_t bytes, spare **block,
                                 stator_diag **err)
{
    if (r->memory) {
        ST_TRY(r->memory->take(r->memory->self, r->device_call, bytes, &r->device_work, err));
    } else if (bytes > (*block)->capacity) {
        spare *larger =
            st_realloc(r->exe->config.mem, *block, sizeof **block + table + bytes, WORK_ALIGN);
        ST_TRY_MEM(larger, err);
        *block = larger;
        larger->capacity = bytes;
        r->slots = (uintptr_t *)(larger + 1);
    }
    set_slots(r, 0, r->memory ? r->device_work : (char *)(*block + 1) + table);
    return STATOR_OK;
}

/* The table of slots stands behind the head of the block, values of the first stage behind it. */
static stator_status take_workspace(run *r, spare **out, stator_diag **err)
{
    st_cg_exe *exe = (st_cg_exe *)(uintptr_t)r->exe; /* only `spare`, which is atomic */
    st_mem *mem = exe->config.mem;
    const uint64_t table =
        ((uint64_t)exe->n_slots * sizeof(uintptr_t) + WORK_ALIGN - 1u) / WORK_ALIGN * WORK_ALIGN;
    spare *block = atomic_exchange(&exe->spare, NULL);
    uint64_t bytes = 0;
    if (block == NULL) {
        block = st_alloc(mem, sizeof *block + table, WORK_ALIGN);
        ST_TRY_MEM(block, err);
        block->capacity = 0;
    }
    r->slots = (uintptr_t *)(block + 1);
    stator_status status = measure(r, 0, &bytes, err);
    ST_THEN(status, take_values(r, table, bytes, &block, err));
    *out = block;
    return status;
}

static void give_back(const st_cg_exe *exe_, spare *block)
{
    st_cg_exe *exe = (st_cg_exe *)(uintptr_t)exe_;
    st_free(exe->config.mem, atomic_exchange(&exe->spare, block));
}

static stator_status take_extra(run *r, uint32_t stage, stator_diag **err)
{
    uint64_t bytes = 0;
    ST_TRY(measure(r, stage, &bytes, err));
    extra *block =
        st_alloc(r->exe->config.mem, sizeof *block + (r->memory ? 0 : bytes), WORK_ALIGN);
    ST_TRY_MEM(block, err);
    block->next = r->extra;
    block->on_device = NULL;
    r->extra = block;
    if (r->memory) {
        ST_TRY(r->memory->take(r->memory->self, r->device_call, bytes, &block->on_device, err));
    }
    set_slots(r, stage, r->memory ? block->on_device : (char *)(block + 1));
    return STATOR_OK;
}

static void free_extra(run *r)
{
    while (r->extra) {
        extra *next = r->extra->next;
        if (r->memory) {
            r->memory->give(r->memory->self, r->device_call, r->extra->on_device);
        }
        st_free(r->exe->config.mem, r->extra);
        r->extra = next;
    }
}

/* A size has been bound: what is of that size can be made. */
static stator_status begin_stage(run *r, uint32_t stage, stator_diag **err)
{
    ST_TRY(cg_check_shape_constraints(r->exe, stage, r->call->syms, err));
    ST_TRY(give_outputs(r, stage, err));
    return r->slots && r->exe->n_slots ? take_extra(r, stage, err) : STATOR_OK;
}

/* ---- launches ---- */

static void *data_of(const DLTensor *tensor)
{
    return (char *)tensor->data + tensor->byte_offset;
}

static void *pointer_of(const run *r, uint32_t buffer)
{
    if (buffer == UINT32_MAX) {
        return NULL;
    }
    const cg_buffer *of = &r->exe->buffers.data[buffer];
    switch (of->kind) {
    case CG_BUFFER_INPUT:
        return data_of(&r->call->in[of->index]);
    case CG_BUFFER_OUTPUT:
        return (char *)data_of(&r->call->out[of->index]) + of->offset;
    case CG_BUFFER_CONSTANT:
        return (void *)(uintptr_t)r->exe->constants[of->index];
    default:
        return r->slots ? (void *)r->slots[of->index] : r->work + r->exe->static_offsets[of->index];
    }
}

static void find_pointers(const run *r, const cg_launch *l, void **pointers)
{
    for (uint32_t i = 0; i < l->n_buffers; i++) {
        pointers[i] = pointer_of(r, r->exe->operands.data[l->first_buffer + i]);
    }
}

/* Numbers of a library's call: known, or computed into `room`; NULL: they cannot be computed. */
static const int64_t *numbers_of(const run *r, const cg_launch *l,
                                 int64_t room[ST_CONTRACTION_NUMBERS_MAX])
{
    for (uint32_t i = 0; l->known == NULL && i < l->n_numbers; i++) {
        if (!st_symprog_eval(&l->numbers[i], r->call->syms, &room[i])) {
            return NULL;
        }
    }
    return l->known ? l->known : room;
}

/* The part of one of n members; n = 0: all of it. */
static stator_status call_library(run *r, const cg_launch *l, void **pointers, uint32_t member,
                                  uint32_t n, stator_diag **err)
{
    const st_library *library = cg_library_of(r->exe, l);
    const bool has_parts = n && STATOR_HAS(library, run_part) && library->run_part;
    int64_t room[ST_CONTRACTION_NUMBERS_MAX];
    if (!has_parts && member) {
        return STATOR_OK;
    }
    const st_library_call what = {.call = r->call,
                                  .buffers = pointers,
                                  .numbers = numbers_of(r, l, room),
                                  .device_call = r->device_call};
    ST_FAIL_IF(what.numbers == NULL, err, STATOR_OUT_OF_RANGE, "a size cannot be computed");
    return has_parts ? library->run_part(library->self, l->op, &what, member, n, err)
                     : library->run(library->self, l->op, &what, err);
}

static bool is_in_place(const run *r, const cg_launch *l)
{
    return pointer_of(r, l->old) == pointer_of(r, l->new);
}

static bool is_due(const run *r, const cg_launch *l)
{
    switch (l->when) {
    case CG_TO_COPY:
        return !is_in_place(r, l);
    case CG_TO_KEEP:
        return is_in_place(r, l);
    case CG_TO_RESTORE:
        return r->is_undoing && is_in_place(r, l);
    default:
        return true;
    }
}

static stator_status launch(run *r, const cg_launch *l, void **pointers, stator_diag **err)
{
    const st_emitter *emitter = r->exe->config.emitter;
    int64_t count = 1;
    if (!is_due(r, l)) {
        return STATOR_OK;
    }
    ST_FAIL_IF(l->has_parallel && !st_symprog_eval(&l->count, r->call->syms, &count), err,
               STATOR_OUT_OF_RANGE, "a size cannot be computed");
    if (count <= 0) {
        return STATOR_OK;
    }
    find_pointers(r, l, pointers);
    if (l->scan) {
        return cg_run_scan(l->scan, r->call, pointers, r->device_call, err);
    }
    if (l->kernel == UINT32_MAX) {
        return call_library(r, l, pointers, 0, 0, err);
    }
    const st_kernel_args args = {
        .buffers = pointers, .syms = r->call->syms, .status = r->memory ? NULL : &r->status};
    const st_launch what = {.call = r->call,
                            .args = &args,
                            .count = count,
                            .grain = l->grain,
                            .device_call = r->device_call};
    return emitter->launch(emitter->self, r->exe->module, l->kernel, &what, err);
}

/* ---- concurrent scans ---- */

typedef struct concurrent_scans {
    const run *run;
    const cg_launch *first;
    void **pointers; /* pointers of all scans, one after the other */
    stator_status status[CG_CONCURRENT_MAX];
    stator_diag *err[CG_CONCURRENT_MAX];
} concurrent_scans;

static void run_concurrent(void *self, int64_t begin, int64_t end)
{
    concurrent_scans *s = self;
    for (int64_t i = begin; i < end; i++) {
        const cg_launch *l = &s->first[i];
        void **pointers = s->pointers;
        for (const cg_launch *before = s->first; before < l; before++) {
            pointers += before->n_buffers;
        }
        find_pointers(s->run, l, pointers);
        s->status[i] = cg_run_scan(l->scan, s->run->call, pointers, NULL, &s->err[i]);
    }
}

/* Returns the error of the first scan that fails, in order, whichever ends first. */
static stator_status launch_concurrent(const run *r, const cg_launch *first, void **pointers,
                                       stator_diag **err)
{
    const stator_host *host = r->exe->config.host;
    concurrent_scans s = {.run = r, .first = first, .pointers = pointers};
    stator_status status = STATOR_OK;
    host->thr->parallel_for(r->call->ctx ? r->call->ctx : host->ctx, first->n_concurrent, 1,
                            run_concurrent, &s);
    for (uint32_t i = 0; i < first->n_concurrent; i++) {
        if (s.status[i] != STATOR_OK && status == STATOR_OK) {
            status = s.status[i];
            *err = s.err[i];
        } else {
            st_diag_release(s.err[i]);
        }
    }
    return status;
}

/* A kernel says which node it was, not which index: looking for that costs, and eager does. */
static stator_status check_failed(const run *r, stator_diag **err)
{
    const bool is_new = err != NULL && *err == NULL;
    const char *text = "a check inside a kernel failed";
    for (uint32_t i = 0; i < r->exe->checks.count; i++) {
        if (r->exe->checks.data[i].origin == r->status) {
            text = r->exe->checks.data[i].text;
        }
    }
    const stator_status status = st_fail(err, STATOR_OUT_OF_RANGE, "%s", text);
    if (is_new) {
        st_diag_set_hint(*err,
                         "the backend eager names the index and its position for these inputs");
    }
    return status;
}

/* One launch, or those that run concurrently; *out_count: how many. */
static stator_status launch_next(run *r, const cg_launch *l, void **pointers, uint32_t *out_count,
                                 stator_diag **err)
{
    *out_count = l->n_concurrent > 1 ? l->n_concurrent : 1u;
    return l->n_concurrent > 1 ? launch_concurrent(r, l, pointers, err)
                               : launch(r, l, pointers, err);
}

/* Is there something to do in this call? */
static bool has_work(const run *r, const cg_launch *l)
{
    int64_t count = 1;
    const bool is_known = !l->has_parallel || st_symprog_eval(&l->count, r->call->syms, &count);
    return is_due(r, l) && (!is_known || count > 0);
}

/* The same, and the caller hears how long it took. */
static stator_status launch_timed(run *r, const cg_launch *l, void **pointers, uint32_t *out_count,
                                  stator_diag **err)
{
    if (!has_work(r, l)) {
        return launch_next(r, l, pointers, out_count, err);
    }
    const uint64_t begin = st_now_ns();
    const stator_status status = launch_next(r, l, pointers, out_count, err);
    const uint64_t end = st_now_ns();
    r->call->note_time(r->call, cg_launch_name(l), begin, end);
    return status;
}

/* On a device a step is timed between two marks of its stream, which are read when all is queued:
 * what the host takes to queue it does not count. */
static stator_status launch_marked(run *r, const cg_launch *l, void **pointers, stator_diag **err)
{
    const st_device_memory *memory = r->memory;
    if (!has_work(r, l)) {
        return launch(r, l, pointers, err);
    }
    ST_TRY(memory->mark(memory->self, r->device_call, err));
    ST_TRY(launch(r, l, pointers, err));
    return memory->mark(memory->self, r->device_call, err);
}

static bool is_marked(const run *r, const cg_launch *l)
{
    return !l->bind && has_work(r, l);
}

/* The steps of a call that began to queue at that time, by their marks. */
static stator_status note_marks(const run *r, uint64_t began, stator_diag **err)
{
    const st_device_memory *memory = r->memory;
    st_mem *mem = r->exe->config.mem;
    uint32_t n = 0;
    uint64_t *ns = st_calloc(mem, 2u * (uint64_t)r->exe->launches.count + 1u, sizeof *ns);
    ST_TRY_MEM(ns, err);
    for (uint32_t i = 0; i < r->exe->launches.count; i++) {
        n += is_marked(r, &r->exe->launches.data[i]) ? 2u : 0;
    }
    const stator_status status = memory->read_marks(memory->self, r->device_call, ns, n, err);
    const uint64_t *at = ns;
    for (uint32_t i = 0; i < r->exe->launches.count && status == STATOR_OK; i++) {
        const cg_launch *l = &r->exe->launches.data[i];
        if (is_marked(r, l)) {
            r->call->note_time(r->call, cg_launch_name(l), began + at[0], began + at[1]);
            at += 2;
        }
    }
    st_free(mem, ns);
    return status;
}

/* Reads the elements of a bind where they lie, and binds them. */
static stator_status bind_sizes(run *r, const cg_launch *l, stator_diag **err)
{
    const cg_size_bind *bind = &r->exe->binds.data[l->bind - 1u];
    const int64_t *elements = pointer_of(r, r->exe->operands.data[l->first_buffer]);
    int64_t read[CG_STEP_SIZES_MAX];
    if (r->memory) {
        ST_FAIL_IF(bind->n > CG_STEP_SIZES_MAX, err, STATOR_UNSUPPORTED,
                   "sym_bind %s binds %u sizes; a device reads back up to %u", bind->name, bind->n,
                   CG_STEP_SIZES_MAX);
        ST_TRY(r->memory->read_back(r->memory->self, r->device_call, read, elements,
                                    bind->n * sizeof *read, err));
        elements = read;
    }
    return cg_run_bind(bind, elements, r->call->syms, err);
}

/* Puts back what the steps before this one have written over in inputs, the last first: the indices
 * of an update may lie in an input that a later one has written. Could it? */
static bool undo(run *r, uint32_t step, void **pointers)
{
    bool is_done = true;
    r->is_undoing = true;
    for (uint32_t i = step; i-- > 0;) {
        const cg_launch *l = &r->exe->launches.data[i];
        stator_diag *ignored = NULL;
        if (l->when == CG_TO_RESTORE) {
            is_done = launch(r, l, pointers, &ignored) == STATOR_OK && is_done;
            st_diag_release(ignored);
        }
    }
    r->is_undoing = false;
    return is_done;
}

/* ---- writes of inputs on a device ---- */

/* Does the step write output k where the input lies, and nothing puts that back? */
static bool is_final_write(const run *r, const cg_launch *step, uint32_t buffer)
{
    const st_cg_exe *exe = r->exe;
    const cg_buffer *of = &exe->buffers.data[buffer];
    const uint32_t alias = of->kind == CG_BUFFER_OUTPUT ? exe->may_alias[of->index] : 0;
    if (alias == 0 || step->when != CG_ALWAYS ||
        data_of(&r->call->out[of->index]) != data_of(&r->call->in[alias - 1u])) {
        return false;
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *l = &exe->launches.data[i];
        if (l->when == CG_TO_RESTORE && exe->buffers.data[l->new].index == of->index) {
            return false;
        }
    }
    return true;
}

/* Has a step before this one written an input for good? */
static bool has_written(const run *r, uint32_t step)
{
    for (uint32_t i = r->exe->first_write; i < step; i++) {
        const cg_launch *l = &r->exe->launches.data[i];
        for (uint32_t k = 0; k < l->n_buffers; k++) {
            const uint32_t operand = r->exe->operands.data[l->first_buffer + k];
            if (operand != UINT32_MAX && is_final_write(r, l, operand)) {
                return true;
            }
        }
    }
    return false;
}

/* Whatever can refuse a step from here on but the driver does it before inputs are written. */
static stator_status reserve_rest(run *r, uint32_t step, stator_diag **err)
{
    const st_device_memory *memory = r->memory;
    for (uint32_t i = step; i < r->exe->launches.count; i++) {
        const cg_launch *l = &r->exe->launches.data[i];
        int64_t count = 1;
        if (l->kernel == UINT32_MAX) {
            continue; /* such a step is undone */
        }
        ST_FAIL_IF(l->has_parallel && !st_symprog_eval(&l->count, r->call->syms, &count), err,
                   STATOR_OUT_OF_RANGE, "a size cannot be computed");
        if (count > 0) {
            ST_TRY(memory->reserve(memory->self, r->device_call, r->exe->module, l->kernel, count,
                                   err));
        }
    }
    return STATOR_OK;
}

/* The failure of a call that has left inputs neither as they were nor as they should be. */
static stator_status lose_inputs(stator_status status, stator_diag **err)
{
    if (status == STATOR_UNAVAILABLE) {
        return status; /* with everything else on the device */
    }
    if (err != NULL) {
        st_diag_prefix(*err, "inputs that the call writes are lost, as it failed when some had "
                             "been written; copy other contents there");
    }
    return STATOR_DATA_LOSS;
}

/* *out_step: the step that has failed. */
static stator_status launch_steps(run *r, void **pointers, uint32_t *out_step, stator_diag **err)
{
    const bool is_timed = STATOR_HAS(r->call, note_time) && r->call->note_time != NULL;
    const uint64_t began = is_timed ? st_now_ns() : 0;
    for (uint32_t i = 0; i < r->exe->launches.count; i++) {
        const cg_launch *l = &r->exe->launches.data[i];
        *out_step = i;
        if (r->memory && i == r->exe->first_write) {
            ST_TRY(reserve_rest(r, i, err));
        }
        if (l->bind) {
            ST_TRY(bind_sizes(r, l, err));
            ST_TRY(begin_stage(r, l->stage + 1u, err));
            continue;
        }
        uint32_t count = 1;
        if (is_timed && r->memory) {
            ST_TRY(launch_marked(r, l, pointers, err));
        } else {
            ST_TRY(is_timed ? launch_timed(r, l, pointers, &count, err)
                            : launch_next(r, l, pointers, &count, err));
        }
        if (r->status) {
            return check_failed(r, err);
        }
        i += count - 1u;
    }
    *out_step = r->exe->launches.count;
    return is_timed && r->memory ? note_marks(r, began, err) : STATOR_OK;
}

static stator_status launch_all(run *r, void **pointers, stator_diag **err)
{
    uint32_t step = 0;
    const stator_status status = launch_steps(r, pointers, &step, err);
    if (status == STATOR_OK) {
        return STATOR_OK;
    }
    const bool is_undone = undo(r, step, pointers);
    return r->memory && (!is_undone || has_written(r, step)) ? lose_inputs(status, err) : status;
}

/* Pointers, workspace and launches of a call whose first outputs are there. */
static stator_status run_steps(run *r, stator_diag **err)
{
    const st_cg_exe *exe = r->exe;
    void *few[STACK_OPERANDS];
    void **pointers = few;
    spare *block = NULL;
    stator_status status = STATOR_OK;
    if (exe->slots && exe->n_slots) {
        ST_TRY_DONE(take_workspace(r, &block, err));
    }
    if (exe->operands_max > STACK_OPERANDS) {
        pointers = st_calloc(exe->config.mem, exe->operands_max, sizeof *pointers);
        if (pointers == NULL) {
            status = st_fail_oom(err);
            goto done;
        }
    }
    status = launch_all(r, pointers, err);
done:
    free_extra(r);
    if (pointers != few) {
        st_free(exe->config.mem, pointers);
    }
    if (block) {
        give_back(exe, block);
    }
    return status;
}

/* The same on a device. The body of a scan is given its workspace, as with host memory. */
static stator_status run_on_device(run *r, void *around, stator_diag **err)
{
    const st_device_memory *memory = r->memory;
    const st_cg_exe *exe = r->exe;
    ST_TRY(memory->begin(memory->self, r->call, exe->device_checks, around, &r->device_call, err));
    stator_status status = STATOR_OK;
    if (exe->slots == NULL && exe->static_bytes && !exe->is_body) {
        status =
            memory->take(memory->self, r->device_call, exe->static_bytes, &r->device_work, err);
        r->work = r->device_work;
    }
    ST_THEN(status, run_steps(r, err));
    memory->give(memory->self, r->device_call, r->device_work);
    memory->end(memory->self, r->device_call);
    return status;
}

static stator_status run_call(const st_cg_exe *exe, const stator_call *call, void *around,
                              stator_diag **err)
{
    run r = {
        .exe = exe, .call = call, .work = call->workspace, .memory = exe->config.emitter->memory};
    ST_FAIL_IF(call->n_in < exe->n_inputs || call->n_out < exe->n_outputs ||
                   call->n_syms < exe->n_syms,
               err, STATOR_INTERNAL, "a call of another program");
    ST_TRY(cg_check_shape_constraints(exe, 0, call->syms, err));
    ST_TRY(give_outputs(&r, 0, err));
    return r.memory ? run_on_device(&r, around, err) : run_steps(&r, err);
}

/* ---- a member's part ---- */

static stator_status launch_part(run *r, const cg_launch *l, void **pointers, uint32_t member,
                                 uint32_t n, stator_diag **err)
{
    const st_emitter *emitter = r->exe->config.emitter;
    int64_t count = 1;
    find_pointers(r, l, pointers);
    if (l->kernel == UINT32_MAX) {
        return call_library(r, l, pointers, member, n, err);
    }
    if (!l->has_parallel && member) {
        return STATOR_OK;
    }
    ST_FAIL_IF(l->has_parallel && !st_symprog_eval(&l->count, r->call->syms, &count), err,
               STATOR_OUT_OF_RANGE, "a size cannot be computed");
    const int64_t groups = (count + l->lanes - 1) / l->lanes;
    const int64_t begin = groups * member / n * l->lanes;
    const int64_t end = l->has_parallel ? groups * (member + 1) / n * l->lanes : 1;
    if (begin >= end) {
        return STATOR_OK;
    }
    const st_kernel_args args = {.buffers = pointers, .syms = r->call->syms, .status = &r->status};
    const st_launch what = {.call = r->call,
                            .args = &args,
                            .count = end < count ? end : count,
                            .grain = l->grain,
                            .is_part = l->has_parallel,
                            .begin = begin};
    return emitter->launch(emitter->self, r->exe->module, l->kernel, &what, err);
}

stator_status cg_run_part(const st_cg_exe *exe, const stator_call *call, cg_barrier_group *group,
                          uint32_t member, bool *out_on, stator_diag **err)
{
    run r = {.exe = exe, .call = call, .work = call->workspace};
    void *pointers[CG_BARRIER_GROUP_OPERANDS];
    stator_status status = STATOR_OK;
    *out_on = true;
    for (uint32_t i = 0; i < exe->launches.count && *out_on; i++) {
        status = launch_part(&r, &exe->launches.data[i], pointers, member, group->n, err);
        if (status == STATOR_OK && r.status) {
            status = check_failed(&r, err);
        }
        *out_on = cg_barrier_group_meet(group, member, status != STATOR_OK);
    }
    return status;
}

stator_status cg_run_body(const st_cg_exe *exe, const stator_call *call, void *around,
                          stator_diag **err)
{
    return run_call(exe, call, around, err);
}

stator_status st_cg_run(const st_cg_exe *exe, const stator_call *call, stator_diag **err)
{
    stator_diag *own = NULL;
    const stator_status status = run_call(exe, call, NULL, &own);
    return st_cg_to_host(exe->config.host, status, own, err);
}
