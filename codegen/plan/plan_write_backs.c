/* Outputs that may be written where an input lies (stator_exe_info.may_alias).
 *
 * Before: the launch plan, of a graph whose write-backs name outputs and the inputs that their
 * bytes are for. After: exe->may_alias says for which of them one buffer is enough. That is so
 *
 * - when no step reads the input after the first one that writes the output, and that one, if it
 *   reads the input, reads each element where it writes it (cg_may_overwrite);
 * - when no step from there on can fail, so that a call which fails has written nothing: kernels
 *   without checks cannot, calls of a library, scans and binds may; or when what is written over
 *   is kept and put back (plan_updates.c). On a device a check is told when all is done, so there
 *   the executable has none at all. Its driver can refuse a launch, and all else that could is
 *   looked at before the first of these steps (run_exe.c, reserve_rest): a launch that is refused
 *   twice behind an input that has been written loses the inputs, with DATA_LOSS. More would take
 *   a second buffer for each.
 *
 * Groups that make such outputs for nobody else come last in the plan (cg_sink_writes). */
#include "codegen/plan/plan.h"
#include "codegen/run/scan_loop.h"

#include <string.h>

/* ---- order ---- */

/* Does the group make written outputs, and nothing that another group reads? */
static bool may_sink(const cg_unit *unit, uint32_t group)
{
    const cg_fusion_group *of = &unit->groups.data[group];
    bool is_any = false;
    if (of->kept) {
        return false; /* what it writes can be undone */
    }
    for (uint32_t i = 0; i < of->roots.count; i++) {
        const cg_root *root = &unit->roots.data[of->roots.data[i]];
        for (uint32_t k = 0; k < root->n_readers; k++) {
            if (unit->roots.data[unit->readers[root->first_reader + k]].group != group) {
                return false;
            }
        }
        is_any |= root->is_written != 0;
    }
    return is_any;
}

stator_status cg_sink_writes(cg_unit *unit, uint32_t *order, uint32_t n, stator_diag **err)
{
    if (unit->view->n_write_backs == 0 || unit->binds.count != 0) {
        return STATOR_OK;
    }
    uint32_t *last = st_arena_zalloc(&unit->arena, n + UINT64_C(1), sizeof *last);
    uint32_t n_first = 0;
    uint32_t n_last = 0;
    ST_TRY_MEM(last, err);
    for (uint32_t i = 0; i < n; i++) {
        if (may_sink(unit, order[i])) {
            last[n_last++] = order[i];
        } else {
            order[n_first++] = order[i];
        }
    }
    memcpy(order + n_first, last, n_last * sizeof *last);
    return STATOR_OK;
}

/* ---- which may be one buffer ---- */

static bool has_check(const st_kernel *kernel)
{
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        if (st_loop_at(kernel, ref)->code == ST_LOOP_CHECK) {
            return true;
        }
    }
    return false;
}

/* May a step fail when all is done? Calls of fixed kernels and steps of scans have checks too. */
static bool may_fail_late(const st_cg_exe *exe)
{
    bool may = exe->checks.count != 0;
    for (uint32_t i = 0; i < exe->kernels.count; i++) {
        may = may || has_check(&exe->kernels.data[i]);
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_scan *scan = exe->launches.data[i].scan;
        may = may || (scan && may_fail_late(scan->body));
    }
    return may && exe->config.emitter->memory;
}

/* The first step from which on none can fail. */
static uint32_t find_safe_end(const st_cg_exe *exe)
{
    uint32_t first = exe->launches.count;
    while (first > 0) {
        const cg_launch *l = &exe->launches.data[first - 1u];
        if (l->kernel == UINT32_MAX || has_check(&exe->kernels.data[l->kernel])) {
            break;
        }
        first--;
    }
    return first;
}

/* The launch's operand that is this input or output; UINT32_MAX: none is, or two are. */
static uint32_t operand_of(const st_cg_exe *exe, const cg_launch *l, uint32_t kind, uint32_t index,
                           uint32_t *out_count)
{
    uint32_t at = UINT32_MAX;
    *out_count = 0;
    for (uint32_t k = 0; k < l->n_buffers; k++) {
        const uint32_t operand = exe->operands.data[l->first_buffer + k];
        if (operand != UINT32_MAX && exe->buffers.data[operand].kind == kind &&
            exe->buffers.data[operand].index == index) {
            at = k;
            (*out_count)++;
        }
    }
    return at;
}

/* May output `out` lie in input `in`? *out_step: the step that writes it, *out_operand: its operand
 * there when that step reads the input too, else UINT32_MAX. */
static bool is_safe(st_cg_exe *exe, uint32_t safe_end, uint32_t in, uint32_t out,
                    uint32_t *out_step, uint32_t *out_operand)
{
    uint32_t first_write = UINT32_MAX;
    *out_operand = UINT32_MAX;
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *l = &exe->launches.data[i];
        uint32_t n_from = 0;
        uint32_t n_to = 0;
        const uint32_t from = operand_of(exe, l, CG_BUFFER_INPUT, in, &n_from);
        const uint32_t to = operand_of(exe, l, CG_BUFFER_OUTPUT, out, &n_to);
        if (n_to != 0 && first_write == UINT32_MAX) {
            first_write = i;
            if (l->when == CG_TO_COPY) {
                continue; /* is no step of a call that writes in place, and what it does is undone */
            }
            if (i < safe_end || (n_from != 0 && (n_from != 1 || n_to != 1 ||
                                                 !cg_may_overwrite(exe, l, from, to)))) {
                return false;
            }
            *out_operand = n_from != 0 ? to : UINT32_MAX;
        } else if (n_from != 0 && first_write != UINT32_MAX) {
            return false; /* the old contents are read after the write */
        }
    }
    *out_step = first_write;
    return first_write != UINT32_MAX;
}

/* The number of the output that is the value; UINT32_MAX: none is, or several are. */
static uint32_t output_of(const stator_graph_view *v, stator_ref value)
{
    uint32_t found = UINT32_MAX;
    uint32_t n = 0;
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        if (stator_output_at(v, k) == value) {
            found = k;
            n++;
        }
    }
    return n == 1 ? found : UINT32_MAX;
}

static bool is_taken(const st_cg_exe *exe, uint32_t in)
{
    for (uint32_t k = 0; k < exe->n_outputs; k++) {
        if (exe->may_alias[k] == in + 1u) {
            return true;
        }
    }
    return false;
}

stator_status cg_plan_write_backs(const cg_unit *unit, st_cg_exe *exe, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    if (v->n_write_backs == 0 || exe->is_body || exe->binds.count != 0 || may_fail_late(exe)) {
        return STATOR_OK;
    }
    exe->may_alias = st_arena_zalloc(&exe->arena, exe->n_outputs + UINT64_C(1), sizeof(uint32_t));
    ST_TRY_MEM(exe->may_alias, err);
    const uint32_t safe_end = find_safe_end(exe);
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(v, k);
        const uint32_t in = stator_value_at(v, row->input)->index;
        const uint32_t out = output_of(v, row->value);
        uint32_t step = 0;
        uint32_t operand = 0;
        if (out == UINT32_MAX || exe->may_alias[out] != 0 || is_taken(exe, in) ||
            !is_safe(exe, safe_end, in, out, &step, &operand)) {
            continue;
        }
        exe->may_alias[out] = in + 1u;
        if (operand != UINT32_MAX) { /* the kernel has both names for one memory */
            const cg_launch *l = &exe->launches.data[step];
            exe->kernels.data[l->kernel].buffers.data[operand].flags &=
                ~(uint32_t)(ST_BUFFER_UNIQUE | ST_BUFFER_STREAMED);
        }
    }
    return STATOR_OK;
}
