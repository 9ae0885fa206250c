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
#include "codegen/run/scan_loop.h"

#include "core/base/bytes.h"

#include <stator/ops.h>
#include <string.h>

#define WORK_ALIGN 64u
#define SLICE_ALIGN 16u /* that buffers of a program have */

/* ---- which scans are taken ---- */

static int64_t list_at(const stator_graph_view *v, const stator_node_row *row, uint32_t attr,
                       uint32_t i)
{
    const stator_attr_row *list = stator_attr_at(v, row, attr);
    return list->kind == STATOR_ATTR_INTS && i < list->count
               ? *(const int64_t *)stator_column_at(&v->i64s, list->begin + i)
               : 0;
}

static uint32_t count_of(const stator_graph_view *v, const stator_node_row *row, uint32_t attr)
{
    return (uint32_t)stator_attr_at(v, row, attr)->i;
}

/* Is `inner` the type of `whole`, without its first axis when that is cut? */
static int is_slice(const stator_graph_view *v, const stator_type_row *whole,
                    const stator_type_row *inner, uint32_t is_cut)
{
    if (whole->dtype != inner->dtype || whole->rank != inner->rank + is_cut) {
        return 0;
    }
    for (uint32_t a = 0; a < inner->rank; a++) {
        if (stator_dim_at(v, whole, a + is_cut) != stator_dim_at(v, inner, a)) {
            return 0;
        }
    }
    return 1;
}

static int is_first_axis(int64_t axis, uint32_t rank)
{
    return axis == 0 || axis + (int64_t)rank == 0;
}

static const char *inputs_refuse(const stator_graph_view *v, const stator_node_row *row,
                                 const stator_graph_view *body)
{
    const uint32_t carried = count_of(v, row, STATOR_scan_carried);
    const uint32_t scanned = count_of(v, row, STATOR_scan_scanned);
    if (body->n_inputs != row->operand_count) {
        return "a scan whose body has other inputs";
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_type_row *type = stator_value_type(v, stator_operand(v, row, k));
        const uint32_t is_cut = k >= carried && k < carried + scanned;
        if (is_cut && !is_first_axis(list_at(v, row, STATOR_scan_axes, k - carried), type->rank)) {
            return "a scan along an axis that is not the first";
        }
        if (!is_slice(v, type, stator_value_type(body, k + 1u), is_cut)) {
            return "a scan whose body states other sizes than its operands";
        }
    }
    return NULL;
}

static const char *outputs_refuse(const stator_graph_view *v, const stator_node_row *row,
                                  const stator_graph_view *body)
{
    const uint32_t carried = count_of(v, row, STATOR_scan_carried);
    if (body->n_outputs != row->result_count) {
        return "a scan whose body has other outputs";
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, row->result_begin + k);
        const uint32_t is_cut = k >= carried;
        if (is_cut &&
            !is_first_axis(list_at(v, row, STATOR_scan_out_axes, k - carried), type->rank)) {
            return "a scan that stacks along an axis that is not the first";
        }
        if (!is_slice(v, type, stator_value_type(body, stator_output_at(body, k)), is_cut)) {
            return "a scan of values whose size changes";
        }
    }
    return NULL;
}

uint32_t cg_scan_binds(const stator_graph_view *body)
{
    uint32_t n = 0;
    for (stator_ref node = 1; node <= body->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(body, node);
        if (row->op == STATOR_OPCODE_sym_bind) {
            n += stator_attr_at(body, row, STATOR_sym_bind_syms)->count;
        }
    }
    return n;
}

/* Sizes that a step tells are different at each; those of results are not. */
static int are_outputs_known(const stator_graph_view *body)
{
    int64_t size = 0;
    for (uint32_t k = 0; k < body->n_outputs; k++) {
        const stator_type_row *type = stator_value_type(body, stator_output_at(body, k));
        for (uint32_t a = 0; a < type->rank; a++) {
            if (!stator_sym_is_const(body, stator_dim_at(body, type, a), &size)) {
                return 0;
            }
        }
    }
    return 1;
}

const char *cg_scan_refuses(const stator_host *host, const stator_graph_view *v,
                            const stator_node_row *row)
{
    const stator_graph_view *body = host->ir->view(stator_region_at(v, row, 0));
    if (count_of(v, row, STATOR_scan_scanned) == 0) {
        return "a scan over nothing";
    }
    if (cg_scan_binds(body) > CG_STEP_SIZES_MAX) {
        return "a scan whose steps tell many sizes";
    }
    if (cg_scan_binds(body) && !are_outputs_known(body)) {
        return "a scan whose steps tell the sizes of its results";
    }
    const char *why = inputs_refuse(v, row, body);
    return why ? why : outputs_refuse(v, row, body);
}

void cg_scan_write(cg_nest *nest, const cg_node *node)
{
    (void)node;
    cg_refuse(nest, "a scan is no kernel");
}

/* ---- the body ---- */

/* What the body may know of an input: a constant is one there too. */
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
    if (kept == NULL) {
        return st_fail_oom(err);
    }
    *kept = unit->blobs.data[from->index];
    body->host->cst->retain(*kept);
    cg_buffer *buffer = &body->buffers.data[body->values[k + 1u].buffer];
    buffer->kind = CG_BUFFER_CONSTANT;
    buffer->index = body->blobs.count - 1u;
    buffer->is_unaligned_mapped = from->is_unaligned_mapped;
    return STATOR_OK;
}

/* What slices of these elements are aligned to. */
static uint32_t slice_align(const cg_unit *unit, stator_ref value)
{
    const uint32_t size = cg_dtype_bytes(unit->values[value].dtype);
    const uint32_t numel = cg_numel((cg_unit *)(uintptr_t)unit, value);
    const int64_t bytes = st_loop_known_or(&unit->syms->tab, numel, 1) * (int64_t)size;
    const uint32_t lowest = (uint32_t)(bytes & -bytes);
    return lowest == 0 || lowest > SLICE_ALIGN ? SLICE_ALIGN : lowest;
}

stator_status cg_begin_body(cg_unit *body, const cg_loop *loop, stator_diag **err)
{
    const stator_node_row *row = stator_node_at(loop->unit->view, loop->node);
    const uint32_t carried = count_of(loop->unit->view, row, STATOR_scan_carried);
    const uint32_t scanned = count_of(loop->unit->view, row, STATOR_scan_scanned);
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
    const uint32_t carried = count_of(loop->unit->view, row, STATOR_scan_carried);
    for (uint32_t i = 0; i < body->buffers.count; i++) {
        cg_buffer *buffer = &body->buffers.data[i];
        if (buffer->kind == CG_BUFFER_OUTPUT && buffer->index >= carried) {
            buffer->align = slice_align(body, stator_output_at(body->view, buffer->index));
        }
    }
}

/* ---- the step ---- */

static stator_status add_operand(st_cg_exe *exe, uint32_t buffer, uint32_t step, cg_launch *launch,
                                 stator_diag **err)
{
    uint32_t *operand = st_vec_push(exe->config.mem, &exe->operands);
    if (operand == NULL) {
        return st_fail_oom(err);
    }
    *operand = buffer;
    launch->n_buffers++;
    exe->operands_max =
        launch->n_buffers > exe->operands_max ? launch->n_buffers : exe->operands_max;
    if (buffer != UINT32_MAX) {
        cg_buffer *of = &exe->buffers.data[buffer];
        of->first = of->first == UINT32_MAX ? step : of->first;
        of->last = step;
    }
    return STATOR_OK;
}

static stator_status add_scratch(st_cg_exe *exe, uint32_t dtype, uint32_t numel, uint32_t step,
                                 cg_launch *launch, stator_diag **err)
{
    cg_buffer *buffer = st_vec_push(exe->config.mem, &exe->buffers);
    if (buffer == NULL || numel == 0) {
        return st_fail_oom(err);
    }
    *buffer =
        (cg_buffer){.kind = CG_BUFFER_WORK, .dtype = dtype, .numel = numel, .first = UINT32_MAX};
    return add_operand(exe, exe->buffers.count - 1u, step, launch, err);
}

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

static stator_status add_buffers(cg_unit *unit, const stator_node_row *row, const cg_scan *scan,
                                 st_cg_exe *exe, cg_launch *launch, stator_diag **err)
{
    const uint32_t step = exe->launches.count - 1u;
    const uint64_t scratch =
        cg_scan_tensor_bytes(scan) + (scan->body->slots ? 0 : scan->body->static_bytes);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const cg_value *v = &unit->values[stator_operand(unit->view, row, k)];
        const int is_number = v->flags & CG_VALUE_SPLAT && !v->root;
        ST_TRY(add_operand(exe, is_number ? UINT32_MAX : cg_alias_root(unit, v->buffer), step,
                           launch, err));
    }
    for (uint32_t k = 0; k < row->result_count; k++) {
        ST_TRY(add_operand(exe, unit->values[row->result_begin + k].buffer, step, launch, err));
    }
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        const cg_buffer *result = &exe->buffers.data[unit->values[row->result_begin + k].buffer];
        ST_TRY(add_scratch(exe, result->dtype, result->numel, step, launch, err));
    }
    return add_scratch(exe, STATOR_U8, st_sym_int(&unit->syms->tab, (int64_t)scratch), step, launch,
                       err);
}

/* Bytes of the value's elements, from axis `from` on. */
static stator_status set_bytes(cg_unit *unit, stator_ref value, uint32_t from, st_cg_exe *exe,
                               st_symprog *out, stator_diag **err)
{
    st_symtab *tab = &unit->syms->tab;
    const cg_value *v = &unit->values[value];
    uint32_t bytes = st_sym_int(tab, (int64_t)cg_dtype_bytes(v->dtype));
    for (uint32_t a = from; a < v->rank && bytes; a++) {
        bytes = st_sym_mul(tab, bytes, v->dims[a]);
    }
    if (bytes == 0) {
        return st_fail(err, STATOR_UNSUPPORTED, "a size exceeds the limit of 16 terms, depth 4");
    }
    const st_sym_cols cols = st_sym_columns(tab);
    return st_symprog_init(out, exe->config.mem, &cols, bytes) ? STATOR_OK : st_fail_oom(err);
}

static stator_status set_ports(cg_unit *unit, const stator_node_row *row, cg_scan *scan,
                               st_cg_exe *exe, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    const uint32_t scanned = count_of(v, row, STATOR_scan_scanned);
    const uint32_t carried = scan->n_carried;
    const st_sym_cols cols = st_sym_columns(&unit->syms->tab);
    for (uint32_t k = 0; k < scan->n_in + scan->n_out; k++) {
        const int is_out = k >= scan->n_in;
        const uint32_t index = is_out ? k - scan->n_in : k;
        const stator_ref value = is_out ? row->result_begin + index : stator_operand(v, row, index);
        cg_port *p = &scan->ports[k];
        p->kind = index < carried                       ? CG_PORT_CARRIED
                  : is_out || index < carried + scanned ? CG_PORT_SLICE
                                                        : CG_PORT_WHOLE;
        if (p->kind == CG_PORT_SLICE) {
            const uint32_t attr = is_out ? STATOR_scan_out_reverse : STATOR_scan_reverse;
            p->is_reversed = list_at(v, row, attr, index - carried) != 0;
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
    launch->text = status == STATOR_OK && st_str_ok(&text)
                       ? st_arena_strndup(&exe->arena, text.data, text.len)
                       : NULL;
    st_str_deinit(&text);
    return launch->text ? STATOR_OK : st_fail_oom(err);
}

stator_status cg_make_scan(const cg_loop *loop, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err)
{
    cg_unit *unit = loop->unit;
    const stator_graph_view *v = unit->view;
    const stator_node_row *row = stator_node_at(v, loop->node);
    const uint32_t n_ports = row->operand_count + row->result_count;
    cg_scan *scan = st_arena_zalloc(&exe->arena, 1, sizeof *scan);
    if (scan == NULL) {
        return st_fail_oom(err);
    }
    scan->n_in = row->operand_count;
    scan->n_out = row->result_count;
    scan->n_carried = count_of(v, row, STATOR_scan_carried);
    scan->ports = st_arena_zalloc(&exe->arena, n_ports, sizeof *scan->ports);
    scan->carried_bytes =
        st_arena_zalloc(&exe->arena, scan->n_carried + 1u, sizeof *scan->carried_bytes);
    if (scan->ports == NULL || scan->carried_bytes == NULL) {
        return st_fail_oom(err);
    }
    launch->scan = scan;
    const char *why = NULL;
    const stator_graph *graph = stator_region_at(v, row, 0);
    const uint32_t group =
        loop->is_alone ? 1u : cg_barrier_group_wanted(unit, unit->host->ir->view(graph));
    const cg_loop body = {unit, loop->node, loop->is_alone || group > 1, loop->step};
    const stator_status status =
        cg_compile_body(unit->config, graph, &body, unit->fuel, &scan->body, &why, err);
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

void cg_scan_deinit(cg_scan *scan, st_mem *mem)
{
    st_cg_destroy(scan->body);
    st_symprog_deinit(&scan->length, mem);
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        st_symprog_deinit(&scan->carried_bytes[k], mem);
    }
    for (uint32_t k = 0; k < scan->n_in + scan->n_out; k++) {
        st_symprog_deinit(&scan->ports[k].bytes, mem);
    }
}

const st_cg_exe *cg_scan_body(const cg_scan *scan)
{
    return scan->body;
}

int cg_scan_knows(const cg_scan *scan, uint32_t k)
{
    return k < scan->n_in && scan->ports[k].kind == CG_PORT_WHOLE;
}

/* ---- as bytes ---- */

stator_status cg_save_scan(const cg_scan *scan, st_str *out, stator_diag **err)
{
    st_str body;
    st_put_u32(out, scan->n_in);
    st_put_u32(out, scan->n_out);
    st_put_u32(out, scan->n_carried);
    st_put_u32(out, scan->group);
    st_symprog_put(&scan->length, out);
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        st_symprog_put(&scan->carried_bytes[k], out);
    }
    for (uint32_t k = 0; k < scan->n_in + scan->n_out; k++) {
        st_put_u32(out, scan->ports[k].kind);
        st_put_u32(out, scan->ports[k].is_reversed);
        if (scan->ports[k].kind == CG_PORT_SLICE) {
            st_symprog_put(&scan->ports[k].bytes, out);
        }
    }
    st_str_init(&body, out->mem);
    stator_status status = st_cg_save(scan->body, &body, err);
    if (status == STATOR_OK) {
        st_put_block(out, body.data, body.len);
        status = st_str_ok(&body) && st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
    }
    st_str_deinit(&body);
    return status;
}

static int read_ports(cg_scan *scan, st_cg_exe *exe, st_reader *r)
{
    st_mem *mem = exe->config.mem;
    int is_ok = st_symprog_read(&scan->length, mem, r, exe->n_syms);
    for (uint32_t k = 0; k < scan->n_carried && is_ok; k++) {
        is_ok = st_symprog_read(&scan->carried_bytes[k], mem, r, exe->n_syms);
    }
    for (uint32_t k = 0; k < scan->n_in + scan->n_out && is_ok; k++) {
        cg_port *p = &scan->ports[k];
        p->kind = st_read_below(r, CG_PORT_SLICE + 1u);
        p->is_reversed = st_read_below(r, 2);
        is_ok = p->kind != CG_PORT_SLICE || st_symprog_read(&p->bytes, mem, r, exe->n_syms);
    }
    return is_ok && !r->failed;
}

/* Results, twins and scratch are there; operands may be numbers that the body knows. */
static int are_buffers_there(const cg_scan *scan, const st_cg_exe *exe, const cg_launch *launch)
{
    const uint64_t n = (uint64_t)scan->n_in + scan->n_out + scan->n_carried + 1u;
    if (launch->n_buffers != n || scan->n_carried > scan->n_in || scan->n_carried > scan->n_out) {
        return 0;
    }
    for (uint32_t k = scan->n_in; k < n; k++) {
        if (exe->operands.data[launch->first_buffer + k] == UINT32_MAX) {
            return 0;
        }
    }
    return 1;
}

stator_status cg_load_scan(st_cg_exe *exe, st_reader *from, cg_launch *launch, stator_diag **err)
{
    static const char damaged[] = "the kept plan of a scan is damaged";
    cg_scan *scan = st_arena_zalloc(&exe->arena, 1, sizeof *scan);
    uint64_t n = 0;
    if (scan == NULL) {
        return st_fail_oom(err);
    }
    const uint32_t n_in = st_read_below(from, launch->n_buffers + 1u);
    const uint32_t n_out = st_read_below(from, launch->n_buffers + 1u);
    const uint32_t n_carried = st_read_below(from, launch->n_buffers + 1u);
    const uint32_t group = st_read_below(from, CG_CONCURRENT_MAX + 1u);
    scan->ports = st_arena_zalloc(&exe->arena, (uint64_t)n_in + n_out + 1u, sizeof *scan->ports);
    scan->carried_bytes =
        st_arena_zalloc(&exe->arena, (uint64_t)n_carried + 1u, sizeof *scan->carried_bytes);
    if (scan->ports == NULL || scan->carried_bytes == NULL) {
        return st_fail_oom(err);
    }
    scan->n_in = n_in;
    scan->n_out = n_out;
    scan->n_carried = n_carried;
    scan->group = group;
    launch->scan = scan; /* destroyed with the executable */
    if (from->failed || !are_buffers_there(scan, exe, launch) || !read_ports(scan, exe, from)) {
        return st_fail(err, STATOR_DATA_LOSS, damaged);
    }
    const void *bytes = st_read_block(from, &n);
    scan->body = cg_new_exe(&exe->config);
    if (scan->body == NULL) {
        return st_fail_oom(err);
    }
    ST_TRY(cg_load(scan->body, bytes, n, err));
    return scan->body->n_inputs == n_in && scan->body->n_outputs == n_out &&
                   scan->body->n_syms <= exe->n_syms && group > 0 &&
                   (group == 1 || cg_barrier_group_can(scan->body))
               ? STATOR_OK
               : st_fail(err, STATOR_DATA_LOSS, damaged);
}

/* ---- a call ---- */

typedef struct steps {
    const cg_scan *scan;
    void *const *pointers;
    DLTensor *tensors;
    int64_t *bytes; /* from slice to slice, by port */
    int64_t length;
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
        if (!st_symprog_eval(&p->bytes, syms, &s->bytes[k])) {
            return st_fail(err, STATOR_OUT_OF_RANGE, "a size cannot be computed");
        }
        if (p->is_reversed) {
            s->tensors[k].byte_offset = (uint64_t)(s->bytes[k] * (s->length - 1));
            s->bytes[k] = -s->bytes[k];
        }
    }
    return STATOR_OK;
}

/* Of a loop that never ran the carried values are the first ones. */
static stator_status copy_carried(const steps *s, const int64_t *syms, stator_diag **err)
{
    const cg_scan *scan = s->scan;
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        int64_t bytes = 0;
        if (!st_symprog_eval(&scan->carried_bytes[k], syms, &bytes)) {
            return st_fail(err, STATOR_OUT_OF_RANGE, "a size cannot be computed");
        }
        if (bytes > 0) {
            memcpy(s->pointers[scan->n_in + k], s->pointers[k], (size_t)bytes);
        }
    }
    return STATOR_OK;
}

/* Where step t writes the carried values: the last one into the results. */
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
    uint32_t sizes[CG_STEP_SIZES_MAX]; /* that each step binds anew */
    const uint32_t n_sizes = cg_unbound(s->scan->body, body->syms, sizes);
    for (int64_t t = 0; t < s->length; t++) {
        set_carried(s, t);
        ST_TRY(cg_run_body(s->scan->body, body, err));
        cg_unbind(body->syms, sizes, n_sizes);
        end_step(s);
    }
    return STATOR_OK;
}

/* ---- a barrier group ---- */

typedef struct group_call {
    cg_barrier_group group;
    const steps *first; /* of member 0; others copy them into scratch of their own */
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
    int is_on = 1;
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

/* What is told is the error of the first member that has one. */
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
    const int is_group = cg_barrier_group_begin(&scan->record, &began);
    const stator_status status = is_group ? run_group(s, body, err) : run_steps(s, body, err);
    cg_barrier_group_end(&scan->record, is_group, began);
    return status;
}

stator_status cg_run_scan(const cg_scan *scan, const stator_call *call, void *const *pointers,
                          stator_diag **err)
{
    const uint32_t n = scan->n_in + scan->n_out;
    char *scratch = pointers[n + scan->n_carried];
    steps s = {.scan = scan, .pointers = pointers, .tensors = (DLTensor *)(void *)scratch};
    s.bytes = (int64_t *)(void *)(s.tensors + n);
    if (!st_symprog_eval(&scan->length, call->syms, &s.length)) {
        return st_fail(err, STATOR_OUT_OF_RANGE, "a size cannot be computed");
    }
    if (s.length <= 0) {
        return copy_carried(&s, call->syms, err);
    }
    ST_TRY(begin_steps(&s, call->syms, err));
    stator_call body = {.struct_size = 0}; /* the host's may be shorter */
    memcpy(&body, call, call->struct_size < sizeof body ? call->struct_size : sizeof body);
    body.note_time = NULL; /* timed from outside, as one step */
    body.n_in = scan->n_in;
    body.n_out = scan->n_out;
    body.in = s.tensors;
    body.out = s.tensors + scan->n_in;
    body.workspace = scratch + cg_scan_tensor_bytes(scan);
    body.workspace_bytes = scan->body->static_bytes;
    return scan->group > 1 ? run_best(&s, &body, err) : run_steps(&s, &body, err);
}
