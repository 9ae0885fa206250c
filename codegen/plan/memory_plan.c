/* Where values lie between kernels: the workspace.
 *
 * Before: steps in order, each buffer with the steps in which it is alive. After: an offset or a
 * slot for each. With known sizes they are packed by lifetime (core/base/interval.h); with symbolic
 * ones a slot is handed on when its value is dead and its size is the largest that it ever holds.
 *
 * In place: a kernel may write its result over a value that dies there. Both then have one alias
 * root, alive as long as any of them. It is safe when the kernel has one store to the result, reads
 * the value at the very index of that store alone, in the same loop body and before it or in a walk
 * over the same row that ends before, and each iteration stores an element of its own: no row
 * touches another. What the emitter takes for granted of memory that is not shared (UNIQUE,
 * STREAMED) is taken back. Calls of the library keep their results apart from what they read.
 *
 * In outputs: the memory of an output is there from the beginning of a call, and free until the
 * step that first touches it. Values that are dead by then lie in it, the largest first. Sizes must
 * be known, and the call in one stage. */
#include "codegen/plan/plan.h"

#include "core/base/interval.h"

#include <stdlib.h>
#include <string.h>

#define WORK_ALIGN 64u
#define HELD_MAX 128u                     /* values in one output */
#define OUTPUT_ALIAS_BYTES_MIN WORK_ALIGN /* smaller values stay in the workspace */

static bool is_work(const cg_buffer *buffer)
{
    return buffer->kind == CG_BUFFER_WORK && buffer->first != UINT32_MAX;
}

/* ---- in place ---- */

static bool is_access(const st_loop_inst *inst, uint32_t buffer)
{
    return (inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE) && inst->ref == buffer;
}

/* The only instruction that writes to the buffer, a STORE of every element; 0: there is another. */
static st_loop_ref only_store(const st_kernel *kernel, uint32_t buffer)
{
    st_loop_ref store = 0;
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (is_access(inst, buffer)) {
            if (inst->code != ST_LOOP_STORE || inst->args[1] || store) {
                return 0;
            }
            store = ref;
        }
    }
    return store;
}

/* Does instruction `a` come before `b` in their block? True when they are the same. */
static bool is_before(const st_kernel *kernel, st_loop_ref a, st_loop_ref b)
{
    while (a && a != b) {
        a = st_loop_at(kernel, a)->next;
    }
    return a == b;
}

/* The loops in whose bodies the two instructions stand follow each other and are as long, and
 * where one has its axis in the index the other has its own. */
static bool is_earlier_walk(const st_kernel *kernel, const st_loop_inst *load,
                            const st_loop_inst *store)
{
    const st_loop_ref walks[2] = {kernel->blocks.data[load->block].loop,
                                  kernel->blocks.data[store->block].loop};
    const st_loop_axis *axes[2];
    uint32_t coef[2];
    uint32_t rest[2];
    const uint32_t indices[2] = {load->sym, store->sym};
    for (uint32_t i = 0; i < 2; i++) {
        const st_loop_inst *loop = walks[i] ? st_loop_at(kernel, walks[i]) : NULL;
        if (loop == NULL || loop->code != ST_LOOP_LOOP) {
            return false;
        }
        axes[i] = &kernel->axes.data[loop->ref];
        if (!st_loop_linear(kernel->syms, indices[i], axes[i]->symbol, &coef[i], &rest[i])) {
            return false;
        }
    }
    return walks[0] != walks[1] && axes[0]->extent == axes[1]->extent && coef[0] == coef[1] &&
           rest[0] == rest[1] &&
           st_loop_at(kernel, walks[0])->block == st_loop_at(kernel, walks[1])->block &&
           is_before(kernel, walks[0], walks[1]);
}

/* Every access to the buffer is a load of what the store's iteration writes, before it, or of what
 * its walk writes, in a walk before it. */
static bool is_read_there(const st_kernel *kernel, uint32_t buffer, st_loop_ref store)
{
    const st_loop_inst *to = st_loop_at(kernel, store);
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (!is_access(inst, buffer)) {
            continue;
        }
        const bool is_same =
            inst->block == to->block && inst->sym == to->sym && is_before(kernel, ref, store);
        if (inst->code != ST_LOOP_LOAD || (!is_same && !is_earlier_walk(kernel, inst, to))) {
            return false;
        }
    }
    return true;
}

/* True with as many iterations as elements: all are written, so no two iterations write to one. */
static bool is_once_each(st_cg_exe *exe, const st_kernel *kernel, st_loop_ref store, uint32_t numel)
{
    st_symtab *tab = &exe->syms.tab;
    uint32_t times = st_sym_int(tab, 1);
    st_loop_ref loop = kernel->blocks.data[st_loop_at(kernel, store)->block].loop;
    while (loop && times) {
        const st_loop_inst *inst = st_loop_at(kernel, loop);
        times = inst->code == ST_LOOP_LOOP
                    ? st_sym_mul(tab, times, kernel->axes.data[inst->ref].extent)
                    : 0;
        loop = kernel->blocks.data[inst->block].loop;
    }
    return times != 0 && times == numel;
}

bool cg_may_overwrite(st_cg_exe *exe, const cg_launch *l, uint32_t from, uint32_t to)
{
    const uint32_t *operands = &exe->operands.data[l->first_buffer];
    const st_kernel *kernel = &exe->kernels.data[l->kernel];
    if (kernel->buffers.data[from].flags & ST_BUFFER_WRITTEN) {
        return false;
    }
    for (uint32_t k = 0; k < l->n_buffers; k++) {
        if (k != from && operands[k] == operands[from]) {
            return false; /* read under two names, see copy_elision.c */
        }
    }
    const st_loop_ref store = only_store(kernel, to);
    return store && is_read_there(kernel, from, store) &&
           is_once_each(exe, kernel, store, exe->buffers.data[operands[to]].numel);
}

/* May the result `to` of the step be written over `from`? Both are indices of the kernel's
 * buffers. */
static bool may_replace(st_cg_exe *exe, const cg_launch *l, uint32_t from, uint32_t to)
{
    const uint32_t *operands = &exe->operands.data[l->first_buffer];
    if (operands[from] == UINT32_MAX || from == to) {
        return false;
    }
    const uint32_t step = (uint32_t)(l - exe->launches.data);
    const cg_buffer *old = &exe->buffers.data[operands[from]];
    const cg_buffer *new = &exe->buffers.data[operands[to]];
    return is_work(old) && old->last == step && old->first != step &&
           old->numel == new->numel &&st_element_bytes(old->dtype) ==
               st_element_bytes(new->dtype) &&
           cg_may_overwrite(exe, l, from, to);
}

/* The result takes over the alias root of a value that it may replace. */
static void replace_in(st_cg_exe *exe, const cg_launch *l, uint32_t to, uint32_t *alias_root,
                       uint8_t *is_taken)
{
    const uint32_t step = (uint32_t)(l - exe->launches.data);
    const uint32_t *operands = &exe->operands.data[l->first_buffer];
    const uint32_t result = operands[to];
    if (result == UINT32_MAX || !is_work(&exe->buffers.data[result]) ||
        exe->buffers.data[result].first != step) {
        return;
    }
    for (uint32_t from = 0; from < l->n_buffers; from++) {
        if (may_replace(exe, l, from, to) && !is_taken[operands[from]]) {
            cg_buffer *shared = &exe->buffers.data[alias_root[operands[from]]];
            is_taken[operands[from]] = 1;
            alias_root[result] = alias_root[operands[from]];
            shared->last = exe->buffers.data[result].last;
            exe->kernels.data[l->kernel].buffers.data[to].flags &=
                ~(uint32_t)(ST_BUFFER_UNIQUE | ST_BUFFER_STREAMED);
            return;
        }
    }
}

/* alias_root[b]: the buffer whose memory b has, mostly itself. */
static void share_alias_roots(st_cg_exe *exe, uint32_t *alias_root, uint8_t *is_taken)
{
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        alias_root[i] = i;
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *l = &exe->launches.data[i];
        for (uint32_t to = 0; l->kernel != UINT32_MAX && to < l->n_buffers; to++) {
            replace_in(exe, l, to, alias_root, is_taken);
        }
    }
}

/* ---- in outputs ---- */

/* The free memory of an output before its own value is stored. */
typedef struct room {
    uint64_t bytes;
    uint32_t index; /* index of the output */
    uint32_t free_until;
    uint32_t n;
    uint32_t held[HELD_MAX]; /* alias roots, by offset */
} room;

static uint64_t bytes_of(st_cg_exe *exe, const cg_buffer *buffer)
{
    int64_t numel = 0;
    return st_sym_const(&exe->syms.tab, buffer->numel, &numel) && numel > 0
               ? (uint64_t)numel * st_element_bytes(buffer->dtype)
               : 0;
}

/* Where a value fits between those that are alive with it; UINT64_MAX: nowhere. *out_at: its index
 * in the list. */
static uint64_t find_gap(st_cg_exe *exe, const room *r, const cg_buffer *value, uint64_t bytes,
                         uint32_t *out_at)
{
    uint64_t offset = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const cg_buffer *held = &exe->buffers.data[r->held[i]];
        if (held->last < value->first || value->last < held->first) {
            continue;
        }
        if (held->offset >= offset && held->offset - offset >= bytes) {
            break;
        }
        const uint64_t end = held->offset + bytes_of(exe, held) + WORK_ALIGN - 1u;
        offset = end / WORK_ALIGN * WORK_ALIGN > offset ? end / WORK_ALIGN * WORK_ALIGN : offset;
    }
    while (at < r->n && exe->buffers.data[r->held[at]].offset < offset) {
        at++;
    }
    *out_at = at;
    return offset <= r->bytes && r->bytes - offset >= bytes ? offset : UINT64_MAX;
}

typedef struct sized {
    uint64_t bytes;
    uint32_t alias_root;
} sized;

static void put_in(st_cg_exe *exe, room *r, const sized *list, uint32_t n)
{
    for (uint32_t i = 0; i < n && r->n < HELD_MAX; i++) {
        cg_buffer *value = &exe->buffers.data[list[i].alias_root];
        const uint64_t bytes = list[i].bytes;
        uint32_t at = 0;
        if (value->kind != CG_BUFFER_WORK || value->last >= r->free_until || bytes > r->bytes) {
            continue;
        }
        const uint64_t offset = find_gap(exe, r, value, bytes, &at);
        if (offset == UINT64_MAX) {
            continue;
        }
        memmove(&r->held[at + 1u], &r->held[at], (r->n - at) * sizeof r->held[0]);
        r->held[at] = list[i].alias_root;
        r->n++;
        value->kind = CG_BUFFER_OUTPUT;
        value->index = r->index;
        value->offset = offset;
        value->output_alias_bytes = bytes;
        exe->n_output_aliases++;
    }
}

/* The room that output `buffer` is; bytes 0: none, such as one that may lie in an input. */
static room room_of(st_cg_exe *exe, const cg_buffer *buffer)
{
    room r = {.bytes = bytes_of(exe, buffer), .index = buffer->index, .free_until = buffer->first};
    for (uint32_t i = 0; i < exe->buffers.count; i++) { /* an output may have several names */
        const cg_buffer *other = &exe->buffers.data[i];
        if (other->kind == CG_BUFFER_OUTPUT && other->index == buffer->index &&
            other->first < r.free_until) {
            r.free_until = other->first;
        }
    }
    const bool is_free = exe->may_alias == NULL || exe->may_alias[buffer->index] == 0;
    r.bytes = is_free && r.free_until != UINT32_MAX && !buffer->align ? r.bytes : 0;
    return r;
}

static int by_size(const void *a, const void *b)
{
    const sized *x = a;
    const sized *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1)
                                : (x->alias_root > y->alias_root) - (x->alias_root < y->alias_root);
}

/* Homes of values that are worth it, the largest first; how many. */
static uint32_t list_alias_roots(st_cg_exe *exe, const uint32_t *alias_root, sized *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        const cg_buffer *buffer = &exe->buffers.data[i];
        const uint64_t bytes = is_work(buffer) && alias_root[i] == i ? bytes_of(exe, buffer) : 0;
        if (bytes >= OUTPUT_ALIAS_BYTES_MIN) {
            list[n++] = (sized){bytes, i};
        }
    }
    qsort(list, n, sizeof *list, by_size);
    return n;
}

static stator_status alias_outputs(st_cg_exe *exe, const uint32_t *alias_root, stator_diag **err)
{
    st_mem *mem = exe->config.mem;
    if (exe->is_body || exe->binds.count) {
        return STATOR_OK;
    }
    sized *list = st_calloc(mem, (uint64_t)exe->buffers.count + 1u, sizeof *list);
    ST_TRY_MEM(list, err);
    const uint32_t n = list_alias_roots(exe, alias_root, list);
    for (uint32_t i = 0; n && i < exe->buffers.count; i++) {
        const cg_buffer *buffer = &exe->buffers.data[i];
        const bool is_output = buffer->kind == CG_BUFFER_OUTPUT && buffer->output_alias_bytes == 0;
        room r = is_output ? room_of(exe, buffer) : (room){.bytes = 0};
        if (r.bytes >= OUTPUT_ALIAS_BYTES_MIN) {
            put_in(exe, &r, list, n);
        }
    }
    st_free(mem, list);
    return STATOR_OK;
}

/* ---- packing ---- */

/* Known sizes: packed by lifetime. *out_done is 0 when a size is symbolic. */
static stator_status pack_static(st_cg_exe *exe, const uint32_t *alias_root, bool *out_done,
                                 stator_diag **err)
{
    st_mem *mem = exe->config.mem;
    st_interval *blocks = st_calloc(mem, (uint64_t)exe->buffers.count + 1u, sizeof *blocks);
    uint32_t n = 0;
    *out_done = false;
    ST_TRY_MEM(blocks, err);
    for (uint32_t i = 0; i < exe->buffers.count; i++) {
        cg_buffer *buffer = &exe->buffers.data[i];
        int64_t numel = 0;
        if (!is_work(buffer) || alias_root[i] != i) {
            continue;
        }
        if (!st_sym_const(&exe->syms.tab, buffer->numel, &numel)) {
            st_free(mem, blocks);
            return STATOR_OK;
        }
        blocks[n] = (st_interval){.size_bytes = (uint64_t)numel * st_element_bytes(buffer->dtype),
                                  .first = buffer->first,
                                  .last = buffer->last};
        buffer->index = n++;
    }
    exe->static_offsets = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof(uint64_t));
    const bool is_ok =
        exe->static_offsets && st_interval_pack(mem, blocks, n, WORK_ALIGN, &exe->static_bytes);
    for (uint32_t i = 0; is_ok && i < n; i++) {
        exe->static_offsets[i] = blocks[i].offset_bytes;
    }
    exe->n_slots = n;
    st_free(mem, blocks);
    *out_done = true;
    return is_ok ? STATOR_OK : st_fail_oom(err);
}

typedef struct slot {
    uint32_t bytes; /* sym */
    uint32_t last;
    uint32_t stage;
} slot;

/* A slot whose value is dead and that can grow to the size, else a new one; UINT32_MAX: no memory.
 */
static uint32_t take_slot(st_cg_exe *exe, slot *slots, uint32_t *n, uint32_t bytes,
                          const cg_buffer *buffer)
{
    st_symtab *tab = &exe->syms.tab;
    const uint32_t stage = exe->launches.data[buffer->first].stage;
    for (uint32_t i = 0; i < *n; i++) {
        const bool is_free = slots[i].last < buffer->first && slots[i].stage == stage;
        const uint32_t grown = is_free ? st_sym_max(tab, slots[i].bytes, bytes) : 0;
        if (grown) {
            slots[i] = (slot){grown, buffer->last, stage};
            return i;
        }
    }
    slots[*n] = (slot){bytes, buffer->last, stage};
    return (*n)++;
}

static stator_status pack_symbolic(st_cg_exe *exe, const uint32_t *alias_root, stator_diag **err)
{
    st_mem *mem = exe->config.mem;
    st_symtab *tab = &exe->syms.tab;
    slot *slots = st_calloc(mem, (uint64_t)exe->buffers.count + 1u, sizeof *slots);
    uint32_t n = 0;
    stator_status status = slots ? STATOR_OK : st_fail_oom(err);
    for (uint32_t i = 0; i < exe->buffers.count && status == STATOR_OK; i++) {
        cg_buffer *buffer = &exe->buffers.data[i];
        if (!is_work(buffer) || alias_root[i] != i) {
            continue;
        }
        const uint32_t size = st_sym_int(tab, (int64_t)st_element_bytes(buffer->dtype));
        const uint32_t bytes = size ? st_sym_mul(tab, buffer->numel, size) : 0;
        if (bytes == 0) {
            status = st_fail(err, STATOR_UNSUPPORTED,
                             "a workspace size exceeds the limit of 16 terms, depth 4");
            break;
        }
        buffer->index = take_slot(exe, slots, &n, bytes, buffer);
    }
    if (status == STATOR_OK) {
        exe->slots = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof *exe->slots);
        exe->slot_stages = st_arena_zalloc(&exe->arena, (uint64_t)n + 1u, sizeof(uint32_t));
        status = exe->slots && exe->slot_stages ? STATOR_OK : st_fail_oom(err);
    }
    const st_sym_cols cols = st_sym_columns(tab);
    for (uint32_t i = 0; i < n && status == STATOR_OK; i++) {
        if (!st_symprog_init(&exe->slots[i], mem, &cols, slots[i].bytes)) {
            status = st_fail_oom(err);
            break;
        }
        exe->slot_stages[i] = slots[i].stage;
        exe->n_slots = i + 1u;
    }
    st_free(mem, slots);
    return status;
}

stator_status cg_plan_memory(st_cg_exe *exe, stator_diag **err)
{
    st_mem *mem = exe->config.mem;
    bool is_static = false;
    uint32_t *alias_root = st_calloc(mem, (uint64_t)exe->buffers.count + 1u, sizeof *alias_root);
    uint8_t *is_taken = st_calloc(mem, (uint64_t)exe->buffers.count + 1u, 1);
    stator_status status = alias_root && is_taken ? STATOR_OK : st_fail_oom(err);
    if (status == STATOR_OK) {
        share_alias_roots(exe, alias_root, is_taken);
        status = alias_outputs(exe, alias_root, err);
    }
    ST_THEN(status, pack_static(exe, alias_root, &is_static, err));
    if (status == STATOR_OK && !is_static) {
        status = pack_symbolic(exe, alias_root, err);
    }
    for (uint32_t i = 0; status == STATOR_OK && i < exe->buffers.count; i++) {
        cg_buffer *buffer = &exe->buffers.data[i];
        const cg_buffer *of = &exe->buffers.data[alias_root[i]];
        if (is_work(buffer)) {
            buffer->kind = of->kind;
            buffer->index = of->index;
            buffer->offset = of->offset;
            buffer->output_alias_bytes = of->output_alias_bytes;
        }
    }
    st_free(mem, alias_root);
    st_free(mem, is_taken);
    return status;
}
