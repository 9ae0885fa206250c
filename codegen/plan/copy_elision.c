/* Copies that move nothing.
 *
 * Before: a scheduled kernel that only copies, each element to the same position (a reshape of
 * a value that is stored, an output that another step has made). After: no kernel. What was to be
 * written is another name for what was read, or, where the copy is an output, what was read is made
 * in the output from the start; cg_alias_root finds the buffer behind a name. */
#include "codegen/plan/plan.h"

#define BUFFER_ALIGN 16u /* alignment of a buffer that states none */

static uint32_t align_of(const cg_buffer *buffer)
{
    return buffer->align ? buffer->align : BUFFER_ALIGN;
}

/* May the name `to` stand for `from`? */
static bool may_name(const cg_buffer *from, const cg_buffer *to)
{
    return to->kind == CG_BUFFER_WORK &&
           (from->kind == CG_BUFFER_WORK || from->kind == CG_BUFFER_INPUT) &&
           align_of(from) >= align_of(to);
}

static uint32_t stage_of(const cg_unit *unit, const cg_buffer *buffer)
{
    const uint32_t root = unit->values[buffer->value].root;
    return root == 0 ? UINT32_MAX : unit->roots.data[root - 1u].stage;
}

/* May `from` be made in the output `to`? Of one stage, so that the output's memory is there. */
static bool may_make(const cg_unit *unit, const cg_buffer *from, const cg_buffer *to)
{
    return to->kind == CG_BUFFER_OUTPUT && from->kind == CG_BUFFER_WORK &&
           (unit->binds.count == 0 || stage_of(unit, from) == stage_of(unit, to)) &&
           align_of(to) >= align_of(from);
}

/* The loop of a kernel that has one, with nothing around it, 0: it has none or more. */
static st_loop_ref only_loop(const st_kernel *kernel)
{
    const st_loop_ref loop = kernel->blocks.data[0].first;
    const st_loop_inst *inst = loop ? st_loop_at(kernel, loop) : NULL;
    return inst && inst->code == ST_LOOP_LOOP && inst->next == 0 ? loop : 0;
}

/* An instruction of a body of loads and of stores of what was loaded from the same index. */
static bool is_copy_inst(const st_kernel *kernel, const st_loop_inst *inst,
                         const st_loop_axis *axis)
{
    if (inst->code == ST_LOOP_LOAD) {
        return inst->args[0] == 0 && inst->sym == axis->sym;
    }
    const st_loop_inst *from =
        inst->code == ST_LOOP_STORE ? st_loop_at(kernel, inst->args[0]) : NULL;
    return from && from->code == ST_LOOP_LOAD && inst->args[1] == 0 && inst->sym == axis->sym;
}

/* Can the STORE go? */
static bool may_drop(const cg_unit *unit, const st_cg_exe *exe, const st_kernel *kernel,
                     const st_loop_inst *store, const st_loop_axis *axis)
{
    const uint32_t from_id = kernel->buffers.data[st_loop_at(kernel, store->args[0])->ref].id;
    const uint32_t to_id = kernel->buffers.data[store->ref].id;
    const cg_buffer *from = &exe->buffers.data[cg_alias_root(unit, from_id)];
    const cg_buffer *to = &exe->buffers.data[to_id];
    return from->dtype == to->dtype && from->numel == to->numel && to->numel == axis->extent &&
           (may_name(from, to) || may_make(unit, from, to));
}

/* All reads and writes of `from` up to here are of `to`. */
static void make_in(cg_unit *unit, st_cg_exe *exe, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < exe->operands.count; i++) {
        if (exe->operands.data[i] == from) {
            exe->operands.data[i] = to;
        }
    }
    cg_buffer *old = &exe->buffers.data[from];
    cg_buffer *alias_root = &exe->buffers.data[to];
    if (old->first != UINT32_MAX) { /* the merged lifetime begins where the value is made */
        alias_root->last = alias_root->first == UINT32_MAX || old->last > alias_root->last
                               ? old->last
                               : alias_root->last;
        alias_root->first = old->first < alias_root->first ? old->first : alias_root->first;
    }
    old->first = UINT32_MAX; /* not alive any more */
    unit->alias_roots[from] = to;
}

uint32_t cg_alias_root(const cg_unit *unit, uint32_t buffer)
{
    while (unit->alias_roots[buffer] != buffer) {
        buffer = unit->alias_roots[buffer];
    }
    return buffer;
}

bool cg_drop_copy(cg_unit *unit, st_cg_exe *exe, const st_kernel *kernel)
{
    const st_loop_ref loop = only_loop(kernel);
    if (loop == 0) {
        return false;
    }
    const st_loop_inst *outer = st_loop_at(kernel, loop);
    const st_loop_axis *axis = &kernel->axes.data[outer->ref];
    const st_loop_ref first = kernel->blocks.data[outer->body].first;
    uint32_t n_stores = 0;
    uint32_t n_outputs = 0;
    for (st_loop_ref ref = first; ref; ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        const int is_store = inst->code == ST_LOOP_STORE;
        if (!is_copy_inst(kernel, inst, axis) ||
            (is_store && !may_drop(unit, exe, kernel, inst, axis))) {
            return false;
        }
        n_stores += is_store;
        n_outputs += is_store &&
                     exe->buffers.data[kernel->buffers.data[inst->ref].id].kind == CG_BUFFER_OUTPUT;
    }
    if (n_outputs > 0 && n_stores > 1) {
        return false; /* both may be of one value */
    }
    for (st_loop_ref ref = first; ref; ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code != ST_LOOP_STORE) {
            continue;
        }
        const uint32_t from =
            cg_alias_root(unit, kernel->buffers.data[st_loop_at(kernel, inst->args[0])->ref].id);
        const uint32_t to = kernel->buffers.data[inst->ref].id;
        if (exe->buffers.data[to].kind == CG_BUFFER_WORK) {
            unit->alias_roots[to] = from;
        } else {
            make_in(unit, exe, from, to);
        }
    }
    return true;
}
