/* A scan of the graph: its body is an executable of its own, run once a step.
 *
 * In: a node `scan` (ir/ops.def) whose slices lie one behind the other and whose body keeps every
 * size. Out: a step of the launch plan over the buffers
 *
 *     | operands | results | one more of each carried value | scratch |
 *
 * where scratch has the tensors and the workspace of the body.
 *
 * Carried values go to and fro between the result and its twin, so that the last step writes the
 * result; slices are read and written where they lie. Captured constants are constants of the body,
 * so its contractions pack them. A step allocates nothing, unless it binds sizes (sym_bind): then
 * what is of those sizes is made anew at each step. */
#include "codegen/lower/lower.h"
#include "codegen/plan/plan.h"
#include "codegen/run/scan_loop.h"
#include "core/base/check.h"

#include <stator/ops.h>

#define MEMBER_MACS ((int64_t)50000)
#define STEP_MACS_MAX ((int64_t)1000000) /* longer steps are divided launch by launch */
#define SLICE_ALIGN 16u                  /* alignment of a program's buffers */

/* ---- the body ---- */

/* Tells the body what is known of an input: a constant is a constant there as well. */
static stator_status give_input(cg_unit *body, uint32_t k, const cg_unit *unit, stator_ref operand,
                                stator_diag **err)
{
    const cg_value *v = &unit->values[operand];
    const cg_buffer *from = v->buffer == CG_NO_BUFFER ? NULL : &unit->buffers.data[v->buffer];
    if (v->flags & CG_VALUE_SPLAT) {
        body->values[k + 1u].flags |= CG_VALUE_SPLAT;
        body->values[k + 1u].splat = v->splat;
        return STATOR_OK;
    }
    if (from == NULL || from->kind != CG_BUFFER_CONSTANT) {
        return STATOR_OK;
    }
    stator_blob **kept = st_vec_push(body->mem, &body->blobs);
    ST_TRY_MEM(kept, err);
    *kept = unit->blobs.data[from->index];
    body->host->cst->retain(*kept);
    cg_buffer *buffer = &body->buffers.data[body->values[k + 1u].buffer];
    buffer->kind = CG_BUFFER_CONSTANT;
    buffer->index = body->blobs.count - 1u;
    buffer->is_unaligned_mapped = from->is_unaligned_mapped;
    return STATOR_OK;
}

/* Alignment of slices of a value. */
static uint32_t slice_align(const cg_unit *unit, stator_ref value)
{
    const uint32_t size = st_element_bytes(unit->values[value].dtype);
    const uint32_t numel = cg_numel((cg_unit *)(uintptr_t)unit, value);
    const int64_t bytes = st_loop_known_or(&unit->syms->tab, numel, 1) * (int64_t)size;
    const uint32_t lowest = (uint32_t)(bytes & -bytes);
    return lowest == 0 || lowest > SLICE_ALIGN ? SLICE_ALIGN : lowest;
}

stator_status cg_begin_body(cg_unit *body, const cg_loop *loop, stator_diag **err)
{
    const stator_node_row *row = stator_node_at(loop->unit->view, loop->node);
    const uint32_t carried = cg_scan_count(loop->unit->view, row, STATOR_scan_carried);
    const uint32_t scanned = cg_scan_count(loop->unit->view, row, STATOR_scan_scanned);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        if (k >= carried && k < carried + scanned) {
            body->buffers.data[body->values[k + 1u].buffer].align = slice_align(body, k + 1u);
        } else if (k >= carried) {
            ST_TRY(give_input(body, k, loop->unit, stator_operand(loop->unit->view, row, k), err));
        }
    }
    return STATOR_OK;
}

void cg_align_outputs(cg_unit *body, const cg_loop *loop)
{
    const stator_node_row *row = stator_node_at(loop->unit->view, loop->node);
    const uint32_t carried = cg_scan_count(loop->unit->view, row, STATOR_scan_carried);
    for (uint32_t i = 0; i < body->buffers.count; i++) {
        cg_buffer *buffer = &body->buffers.data[i];
        if (buffer->kind == CG_BUFFER_OUTPUT && buffer->index >= carried) {
            buffer->align = slice_align(body, stator_output_at(body->view, buffer->index));
        }
    }
}

/* ---- which scans a barrier group runs ---- */

/* Products of a step of dot_general; 0: more than is looked for, or a size is not known. */
static int64_t macs_of(const stator_graph_view *body, const stator_node_row *row)
{
    const stator_type_row *x = stator_value_type(body, stator_operand(body, row, 0));
    const stator_type_row *z = stator_value_type(body, row->result_begin);
    const stator_attr_row *folded = stator_attr_at(body, row, STATOR_dot_general_contract_x);
    int64_t macs = 1;
    for (uint32_t i = 0; i < z->rank + folded->count; i++) {
        int64_t dim = 0;
        int64_t axis = i;
        if (i >= z->rank) {
            axis = stator_attr_int_at(body, folded, i - z->rank);
            axis = st_normalize_axis(axis, x->rank);
        }
        if (!stator_sym_is_const(body, stator_dim_at(body, i < z->rank ? z : x, (uint32_t)axis),
                                 &dim) ||
            dim <= 0 || macs > STEP_MACS_MAX / dim) {
            return 0;
        }
        macs *= dim;
    }
    return macs;
}

/* Multiply-adds of all products of a step; 0: too few for a group. */
static int64_t step_macs(const stator_graph_view *body)
{
    int64_t macs = 0;
    for (stator_ref node = 1; node <= body->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(body, node);
        if (row->region_count) {
            return 0;
        }
        if (row->op == STATOR_OPCODE_dot_general) {
            const int64_t one = macs_of(body, row);
            if (one == 0) {
                return 0;
            }
            macs += one;
        }
    }
    return macs <= STEP_MACS_MAX ? macs : 0;
}

/* How many threads a scan over this body is worth; 1: no group. */
static uint32_t threads_wanted(const cg_unit *unit, const stator_graph_view *body)
{
    const st_emitter *emitter = unit->config->emitter;
    const int64_t macs = step_macs(body);
    const uint32_t threads = emitter->target.threads;
    if (threads < 2 || unit->is_alone || !(emitter->flags & ST_EMITTER_PARTS) || emitter->memory ||
        cg_scan_binds(body)) {
        return 1;
    }
    const int64_t n = macs / MEMBER_MACS;
    const int64_t most = threads < CG_CONCURRENT_MAX ? threads : CG_CONCURRENT_MAX;
    return n < 2 ? 1u : (uint32_t)(n < most ? n : most);
}

/* ---- the step ---- */

static stator_status add_scratch(st_cg_exe *exe, uint32_t dtype, uint32_t numel, cg_launch *launch,
                                 stator_diag **err)
{
    cg_buffer *buffer = st_vec_push(exe->config.mem, &exe->buffers);
    ST_TRY_MEM(buffer && numel, err);
    *buffer =
        (cg_buffer){.kind = CG_BUFFER_WORK, .dtype = dtype, .numel = numel, .first = UINT32_MAX};
    return cg_add_operand(exe, exe->buffers.count - 1u, launch, err);
}

static stator_status add_buffers(cg_unit *unit, const stator_node_row *row, const cg_scan *scan,
                                 st_cg_exe *exe, cg_launch *launch, stator_diag **err)
{
    const bool is_on_host = exe->config.emitter->memory == NULL;
    const uint64_t scratch = (is_on_host ? cg_scan_tensor_bytes(scan) : 1u) +
                             (scan->body->slots ? 0 : scan->body->static_bytes);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const cg_value *v = &unit->values[stator_operand(unit->view, row, k)];
        const bool is_number = v->flags & CG_VALUE_SPLAT && !v->root;
        ST_TRY(cg_add_operand(exe, is_number ? UINT32_MAX : cg_alias_root(unit, v->buffer), launch,
                              err));
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        ST_TRY(cg_add_operand(exe, unit->values[row->result_begin + k].buffer, launch, err));
    }
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        const cg_buffer *result = &exe->buffers.data[unit->values[row->result_begin + k].buffer];
        ST_TRY(add_scratch(exe, result->dtype, result->numel, launch, err));
    }
    return add_scratch(exe, STATOR_U8, st_sym_int(&unit->syms->tab, (int64_t)scratch), launch, err);
}

/* Bytes of the value's elements, from axis `from` on. */
static stator_status set_bytes(cg_unit *unit, stator_ref value, uint32_t from, st_cg_exe *exe,
                               st_symprog *out, stator_diag **err)
{
    st_symtab *tab = &unit->syms->tab;
    const cg_value *v = &unit->values[value];
    uint32_t bytes = st_sym_int(tab, (int64_t)st_element_bytes(v->dtype));
    for (uint32_t a = from; a < v->rank && bytes; a++) {
        bytes = st_sym_mul(tab, bytes, v->dims[a]);
    }
    ST_FAIL_IF(bytes == 0, err, STATOR_UNSUPPORTED,
               "a size exceeds the limit of 16 terms, depth 4");
    const st_sym_cols cols = st_sym_columns(tab);
    return st_symprog_init(out, exe->config.mem, &cols, bytes) ? STATOR_OK : st_fail_oom(err);
}

static stator_status set_ports(cg_unit *unit, const stator_node_row *row, cg_scan *scan,
                               st_cg_exe *exe, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    const uint32_t scanned = cg_scan_count(v, row, STATOR_scan_scanned);
    const uint32_t carried = scan->n_carried;
    const st_sym_cols cols = st_sym_columns(&unit->syms->tab);
    for (uint32_t k = 0; k < scan->n_in + scan->n_out; k++) {
        const bool is_out = k >= scan->n_in;
        const uint32_t index = is_out ? k - scan->n_in : k;
        const stator_ref value = is_out ? row->result_begin + index : stator_operand(v, row, index);
        cg_port *p = &scan->ports[k];
        p->kind = index < carried                       ? CG_PORT_CARRIED
                  : is_out || index < carried + scanned ? CG_PORT_SLICE
                                                        : CG_PORT_WHOLE;
        if (p->kind == CG_PORT_SLICE) {
            const uint32_t attr = is_out ? STATOR_scan_out_reverse : STATOR_scan_reverse;
            p->is_reversed = cg_scan_list_at(v, row, attr, index - carried) != 0;
            ST_TRY(set_bytes(unit, value, 1, exe, &p->bytes, err));
        }
        if (is_out && index < carried) {
            ST_TRY(set_bytes(unit, value, 0, exe, &scan->carried_bytes[index], err));
        }
    }
    const cg_value *first = &unit->values[stator_operand(v, row, carried)];
    return st_symprog_init(&scan->length, exe->config.mem, &cols, first->dims[0])
               ? STATOR_OK
               : st_fail_oom(err);
}

/* The body in words. */
static stator_status set_text(const cg_unit *unit, const cg_scan *scan, uint32_t length,
                              st_cg_exe *exe, cg_launch *launch, stator_diag **err)
{
    st_str text;
    st_str_init(&text, exe->config.mem);
    st_str_addf(&text, "scan %u carried, steps ", scan->n_carried);
    st_loop_sym_print(unit->syms, length, &text);
    if (scan->group > 1) {
        st_str_addf(&text, ", a barrier group of %u", scan->group);
    }
    st_str_add(&text, " {\n");
    const stator_status status = st_cg_print(scan->body, &text);
    st_str_add(&text, "}\n");
    launch->text = cg_keep_text(exe, &text);
    return status == STATOR_OK && launch->text ? STATOR_OK : st_fail_oom(err);
}

stator_status cg_make_scan(const cg_loop *loop, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err)
{
    cg_unit *unit = loop->unit;
    const stator_graph_view *v = unit->view;
    const stator_node_row *row = stator_node_at(v, loop->node);
    const uint32_t n_ports = row->operand_count + row->result_count;
    cg_scan *scan = st_arena_zalloc(&exe->arena, 1, sizeof *scan);
    ST_TRY_MEM(scan, err);
    scan->n_in = row->operand_count;
    scan->n_out = row->result_count;
    scan->n_carried = cg_scan_count(v, row, STATOR_scan_carried);
    scan->ports = st_arena_zalloc(&exe->arena, n_ports, sizeof *scan->ports);
    scan->carried_bytes =
        st_arena_zalloc(&exe->arena, scan->n_carried + 1u, sizeof *scan->carried_bytes);
    ST_TRY_MEM(scan->ports && scan->carried_bytes, err);
    launch->scan = scan;
    const char *why = NULL;
    const stator_graph *graph = stator_region_at(v, row, 0);
    const uint32_t group = loop->is_alone ? 1u : threads_wanted(unit, unit->host->ir->view(graph));
    const cg_loop body = {unit, loop->node, loop->is_alone || group > 1, loop->step};
    const stator_status status = unit->compile_body(graph, &body, &scan->body, &why, err);
    if (status == STATOR_NEED_FALLBACK) {
        return cg_decline(unit, loop->node, why, err);
    }
    ST_TRY(status);
    scan->group = cg_barrier_group_can(scan->body) ? group : 1u;
    ST_TRY(set_ports(unit, row, scan, exe, err));
    ST_TRY(add_buffers(unit, row, scan, exe, launch, err));
    const cg_value *first = &unit->values[stator_operand(v, row, scan->n_carried)];
    return set_text(unit, scan, first->dims[0], exe, launch, err);
}
