/* Building programs; see assemble.h.
 *
 * In: a unit and its parts. Out: a program whose slots are the unit's inputs, its parameters, what
 * parts hand to each other, and constants that only the host reads. Each part is compiled by its
 * backend; a part of the host becomes a control-flow step whose bodies are assembled first. */
#include "core/compile/assemble.h"

#include "core/compile/lower_refused.h"
#include "core/context/dump.h"

#include "core/base/check.h"
#include <stator/ops.h>

#include <stdio.h>
#include <string.h>

typedef struct build { /* the state of assembling one program */
    st_assembly *a;
    st_unit *u;
    const stator_graph_view *v;
    st_mem *mem;
    st_program *p;
    uint32_t *slot_of; /* by value */
} build;

static const st_compile_request *request_of(const build *b)
{
    return b->a->division->request;
}

static const stator_op_desc *op_at(const build *b, stator_ref node)
{
    return stator_op_at(b->v, stator_node_at(b->v, node)->op);
}

/* ---- slots ---- */

/* The symbol when the size is exactly one, and unbacked or any is wanted; else -1. */
static int32_t symbol_to_bind(const stator_graph_view *v, stator_ref sym, bool any)
{
    const stator_atom_row *atom = stator_sym_as_symbol(v, sym);
    const bool is_wanted = atom != NULL && (any || (atom->flags & STATOR_ATOM_UNBACKED) != 0);
    return is_wanted ? (int32_t)atom->index : -1;
}

static stator_status fail_size(const build *b, stator_ref value, stator_diag **err)
{
    const stator_value_row *row = stator_value_at(b->v, value);
    ST_FAIL_IF(row->node == 0, err, STATOR_RESOURCE_EXHAUSTED,
               "input '%s' has more than 2^62 bytes", stator_string_at(b->v, row->name));
    return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "the result of %s '%s' has more than 2^62 bytes",
                   op_at(b, row->node)->name, stator_node_origin(b->v, row->node));
}

static stator_status add_slot(build *b, stator_ref value, stator_diag **err)
{
    st_program *p = b->p;
    const stator_graph_view *v = b->v;
    const stator_type_row *type = stator_value_type(v, value);
    const stator_ref node = stator_value_at(v, value)->node;
    st_slot *slot = &p->slots[p->n_slots];
    *slot = (st_slot){.dtype = type->dtype,
                      .rank = type->rank,
                      .dim_begin = p->n_dims,
                      .is_static = 1,
                      .output = -1,
                      .op = node != 0 ? op_at(b, node)->name : NULL,
                      .name = node != 0 ? stator_node_origin(v, node) : NULL};
    const st_sym_cols cols = {.syms = v->syms, .terms = v->terms, .atoms = v->atoms};
    int64_t shape[STATOR_RANK_MAX];
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        const stator_ref dim = stator_dim_at(v, type, axis);
        st_symprog *prog = &p->dims[p->n_dims];
        ST_TRY_MEM(st_symprog_init(prog, p->mem, &cols, dim), err);
        /* A root's inputs bind symbols in the guard, a body's when it starts. */
        p->bound_symbol[p->n_dims] = symbol_to_bind(v, dim, node == 0);
        slot->is_static &= prog->is_const != 0;
        shape[axis] = prog->constant;
        p->n_dims++;
    }
    uint64_t count = 0;
    if (slot->is_static && (!st_numel(shape, type->rank, &count) ||
                            !st_dtype_bytes(type->dtype, count, &slot->size_bytes))) {
        return fail_size(b, value, err);
    }
    b->slot_of[value] = p->n_slots++;
    return STATOR_OK;
}

/* The bytes of a parameter or a constant. */
static stator_status set_data(build *b, stator_ref value, stator_diag **err)
{
    st_slot *slot = &b->p->slots[b->slot_of[value]];
    slot->blob = st_graph_value_blob(b->u->graph, value);
    return st_blob_get(slot->blob, &slot->data, err);
}

/* Inputs that a call gives come first, then parameters. */
static stator_status add_inputs(build *b, stator_diag **err)
{
    st_program *p = b->p;
    for (int is_param = 0; is_param <= 1; is_param++) {
        for (stator_ref value = 1; value <= b->v->n_inputs; value++) {
            const stator_value_row *row = stator_value_at(b->v, value);
            if (((row->flags & STATOR_VALUE_PARAM) != 0) != is_param) {
                continue;
            }
            ST_TRY(add_slot(b, value, err));
            if (is_param) {
                ST_TRY(set_data(b, value, err));
            } else {
                p->n_in++;
            }
        }
    }
    return STATOR_OK;
}

/* Slot of a value that an output, a write-back or a control-flow step reads: constants get theirs
 * here. */
static stator_status slot_of_value(build *b, stator_ref value, uint32_t *out_slot,
                                   stator_diag **err)
{
    const stator_ref node = stator_value_at(b->v, value)->node;
    if (node != 0 && b->slot_of[value] == UINT32_MAX &&
        (op_at(b, node)->flags & STATOR_OP_CONSTANT) != 0) {
        ST_TRY(add_slot(b, value, err));
        ST_TRY(set_data(b, value, err));
    }
    *out_slot = b->slot_of[value];
    return STATOR_OK;
}

/* ---- steps ---- */

static stator_status run_instance(void *self, void *exe, const stator_call *call, stator_diag **err)
{
    return st_instance_run(self, exe, call, err);
}

static stator_status add_domain(st_program *p, const stator_instance *instance, stator_diag **err)
{
    if (instance == NULL || instance->domain == NULL) {
        return STATOR_OK;
    }
    for (uint32_t d = 0; d < p->n_domains; d++) {
        const st_domain *other = p->domains[d];
        if (other == instance->domain) {
            return STATOR_OK;
        }
        ST_FAIL_IF(other->device.device_type == instance->domain->device.device_type &&
                       other->device.device_id == instance->domain->device.device_id,
                   err, STATOR_UNSUPPORTED,
                   "the backends of %s and %s share a device and have memories of their own; use "
                   "one of them for all nodes",
                   other->name, instance->domain->name);
    }
    ST_FAIL_IF(p->n_domains == ST_DOMAINS_MAX, err, STATOR_UNSUPPORTED,
               "the backends and node fallbacks of a function have more than %u devices",
               ST_DOMAINS_MAX);
    p->domains[p->n_domains++] = instance->domain;
    return STATOR_OK;
}

stator_status st_request_domains(const st_compile_request *request, st_program *p,
                                 stator_diag **err)
{
    ST_TRY(add_domain(p, request->main, err));
    for (uint32_t i = 0; i < request->n_fallbacks; i++) {
        ST_TRY(add_domain(p, request->fallbacks[i], err));
    }
    return STATOR_OK;
}

stator_status st_describe_step(const st_compile_request *request, const st_program *p,
                               stator_instance *instance, const stator_exe_info *info,
                               st_step *step, stator_diag **err)
{
    ST_FAIL_IF(instance->domain != NULL && info->workspace_bytes != 0, err, STATOR_INTERNAL,
               "backend '%s': its exe_info asks for %llu bytes of workspace; a backend with memory "
               "of its own takes it there itself",
               instance->backend->item.name, (unsigned long long)info->workspace_bytes);
    step->domain = 0;
    for (uint32_t d = 0; d < p->n_domains; d++) {
        step->domain = p->domains[d] == instance->domain ? d + 1u : step->domain;
    }
    step->self = instance;
    step->run = run_instance;
    step->backend = instance->backend->item.name;
    step->workspace_bytes = info->workspace_bytes;
    step->may_alias = info->may_alias;
    step->is_filled = (request->flags & STATOR_COMPILE_FILL_OUTPUTS) != 0 ||
                      (info->flags & STATOR_EXE_FILL_OUTPUTS) != 0;
    step->fails_late = (info->flags & STATOR_EXE_TELLS_AT_ONCE) == 0;
    return STATOR_OK;
}

/* Slots of a step's inputs and outputs, in one block. */
static stator_status add_ports(build *b, const st_part *part, st_step *step, stator_diag **err)
{
    uint32_t *slots = st_calloc(b->mem, part->n_in + part->n_out + 1u, sizeof *slots);
    ST_TRY_MEM(slots, err);
    step->n_in = part->n_in;
    step->n_out = part->n_out;
    step->in = slots;
    step->out = slots + part->n_in;
    for (uint32_t k = 0; k < part->n_in; k++) {
        slots[k] = ST_NO_SLOT;
        if (part->in[k] != 0) {
            ST_TRY(slot_of_value(b, part->in[k], &slots[k], err));
        }
    }
    for (uint32_t k = 0; k < part->n_out; k++) {
        ST_TRY(add_slot(b, part->out[k], err));
        slots[part->n_in + k] = b->slot_of[part->out[k]];
    }
    return STATOR_OK;
}

static stator_status watch_part(const build *b, const char *backend, stator_diag **err)
{
    char stage[96];
    (void)snprintf(stage, sizeof stage, "compile %.80s", backend);
    return st_watch_stage(&request_of(b)->watch, stage, b->p->n_steps - 1u, b->u->parts.n_parts,
                          err);
}

static stator_status compile_part(build *b, stator_instance *instance, stator_graph *graph,
                                  st_step *step, stator_diag **err)
{
    stator_fuel_scope *scope =
        st_fuel_scope(request_of(b)->fuel, NULL, instance->backend->item.name);
    ST_TRY_MEM(scope, err);
    ST_TRY(watch_part(b, instance->backend->item.name, err));
    st_fuel_about(scope, graph);
    st_dump_part_begin(request_of(b)->ctx, instance->backend->item.name, graph);
    const stator_status made = st_instance_compile(instance, graph, scope, &step->exe, err);
    st_dump_part_end(request_of(b)->ctx);
    ST_TRY(made);
    step->self = instance; /* ends the executable, whatever fails from here on */
    step->graph = graph;
    stator_exe_info info = {.struct_size = sizeof info};
    const stator_status status = st_instance_exe_info(instance, step->exe, &info);
    const char *name = stator_string_at(st_graph_view(graph), st_graph_view(graph)->name);
    ST_FAIL_IF(status != STATOR_OK, err, status,
               "backend '%s' cannot tell what its executable of '%s' needs",
               instance->backend->item.name, name);
    ST_FAIL_IF(info.workspace_bytes > INT64_MAX, err, STATOR_RESOURCE_EXHAUSTED,
               "no memory for a workspace of %llu bytes, which backend '%s' needs for '%s'",
               (unsigned long long)info.workspace_bytes, instance->backend->item.name, name);
    return st_describe_step(request_of(b), b->p, instance, &info, step, err);
}

/* Marks the nodes that main's compile named; how many are new. */
static stator_status decline_nodes(build *b, const st_part *part, const stator_diag *why,
                                   uint32_t *out_count, stator_diag **err)
{
    const uint32_t n_nodes = st_graph_view(part->graph)->n_nodes;
    *out_count = 0;
    for (const st_diag_node *at = st_diag_nodes(why); at != NULL; at = at->next) {
        const stator_ref node = at->node <= n_nodes ? part->node_of[at->node] : 0;
        if (node != 0 && (op_at(b, node)->flags & STATOR_OP_CONSTANT) == 0 &&
            !b->u->declined[node]) {
            ST_TRY(st_division_decline(b->a->division, b->u, node, at->reason, err));
            (*out_count)++;
        }
    }
    return STATOR_OK;
}

static stator_instance *fallback_of(const build *b, const st_part *part)
{
    return request_of(b)->fallbacks[part->color - ST_COLOR_FALLBACK];
}

/* The part's graph as its fallback can run it. */
static stator_status compile_lowered(build *b, const st_part *part, st_step *step,
                                     stator_diag **err)
{
    stator_graph *graph = NULL;
    ST_TRY(st_lower_refused(fallback_of(b, part), part->graph, &graph, err));
    return compile_part(b, fallback_of(b, part), graph, step, err);
}

/* By the part's fallback, or by the next one that runs its nodes when that declines it. */
static stator_status compile_fallback(build *b, st_part *part, st_step *step, stator_diag **err)
{
    for (;;) {
        stator_diag *why = NULL;
        const stator_instance *instance = fallback_of(b, part);
        const stator_status status = compile_lowered(b, part, step, &why);
        const uint32_t next =
            st_division_next_fallback(b->a->division, b->u, part, part->color - ST_COLOR_FALLBACK);
        if (status != STATOR_NEED_FALLBACK || step->exe != NULL ||
            next == request_of(b)->n_fallbacks) {
            return st_diag_give(status, why, err);
        }
        part->color = ST_COLOR_FALLBACK + next;
        st_log(request_of(b)->ctx, "dispatch", 2, "%s: a partition of %u nodes goes to %s: %s",
               instance->backend->item.name, part->n_nodes,
               fallback_of(b, part)->backend->item.name, st_diag_text(why));
        st_diag_release(why);
    }
}

/* main's compile answered NEED_FALLBACK: the nodes it named are for the next division; when it
 * named none, or this is the last, the whole part goes to a fallback. */
static stator_status fall_back(build *b, st_part *part, st_step *step, const stator_diag *why,
                               stator_diag **err)
{
    const st_compile_request *request = request_of(b);
    const char *backend = request->main->backend->item.name;
    uint32_t count = 0;
    if (!b->a->is_last) {
        ST_TRY(decline_nodes(b, part, why, &count, err));
        b->a->n_declined += count;
    }
    if (count != 0) {
        return STATOR_OK;
    }
    ST_FAIL_IF(request->n_fallbacks == 0, err, STATOR_UNSUPPORTED,
               "backend '%s' declined a partition of %u nodes while compiling it: %s", backend,
               part->n_nodes, st_diag_text(why));
    const uint32_t first = st_division_next_fallback(b->a->division, b->u, part, UINT32_MAX);
    const uint32_t last = request->n_fallbacks - 1u;
    part->color = ST_COLOR_FALLBACK + (first < last ? first : last);
    st_log(request->ctx, "dispatch", 2, "%s: a partition of %u nodes goes to %s: %s", backend,
           part->n_nodes, fallback_of(b, part)->backend->item.name, st_diag_text(why));
    return compile_fallback(b, part, step, err);
}

static stator_status add_step(build *b, st_part *part, stator_diag **err)
{
    st_step *step = &b->p->steps[b->p->n_steps++];
    ST_TRY(add_ports(b, part, step, err));
    if (part->color != ST_COLOR_MAIN) {
        return compile_fallback(b, part, step, err);
    }
    stator_diag *why = NULL;
    stator_status status = compile_part(b, request_of(b)->main, part->graph, step, &why);
    if (status == STATOR_NEED_FALLBACK && step->exe == NULL) {
        status = fall_back(b, part, step, why, err);
        st_diag_release(why);
        return status;
    }
    return st_diag_give(status, why, err);
}

/* ---- control flow ---- */

static stator_status assemble_unit(st_assembly *a, st_unit *u, st_program *p, stator_diag **err);

/* The program of a region, assembled when its first node needs it. */
static stator_status body_program(build *b, const stator_graph *region, st_program **out_program,
                                  stator_diag **err)
{
    st_unit *u = st_division_unit(b->a->division, region);
    st_compiled *out = b->a->out;
    if (u->program == NULL) {
        st_program **grown =
            st_realloc(b->mem, out->bodies, (out->n_bodies + UINT64_C(1)) * sizeof *grown, 16);
        ST_TRY_MEM(grown, err);
        out->bodies = grown;
        st_program *p = st_calloc(b->mem, 1, sizeof *p);
        ST_TRY_MEM(p, err);
        out->bodies[out->n_bodies++] = p;
        u->program = p;
        ST_TRY(assemble_unit(b->a, u, p, err));
    }
    *out_program = u->program;
    return STATOR_OK;
}

static int64_t int_attr(const build *b, const stator_node_row *row, uint32_t place)
{
    const stator_attr_row *attr = stator_attr_at(b->v, row, place);
    return attr->kind == STATOR_ATTR_INT ? attr->i : 0;
}

static uint32_t axis_of(int64_t axis, uint32_t rank)
{
    return (uint32_t)st_normalize_axis(axis, rank);
}

/* Lists of a scan, behind its control. */
static void read_scan(const build *b, const stator_node_row *row, st_control *c, uint32_t *lists)
{
    uint32_t *scanned_axes = lists;
    uint32_t *scanned_reverse = scanned_axes + c->n_scanned;
    uint32_t *stacked_axes = scanned_reverse + c->n_scanned;
    uint32_t *stacked_reverse = stacked_axes + c->n_stacked;
    for (uint32_t k = 0; k < c->n_scanned; k++) {
        const stator_ref value = stator_operand(b->v, row, c->n_carried + k);
        scanned_axes[k] = axis_of(st_node_int_at(b->v, row, STATOR_scan_axes, k),
                                  stator_value_type(b->v, value)->rank);
        scanned_reverse[k] = st_node_int_at(b->v, row, STATOR_scan_reverse, k) != 0;
    }
    for (uint32_t k = 0; k < c->n_stacked; k++) {
        const stator_ref value = row->result_begin + c->n_carried + k;
        stacked_axes[k] = axis_of(st_node_int_at(b->v, row, STATOR_scan_out_axes, k),
                                  stator_value_type(b->v, value)->rank);
        stacked_reverse[k] = st_node_int_at(b->v, row, STATOR_scan_out_reverse, k) != 0;
    }
    c->scanned_axes = scanned_axes;
    c->scanned_reverse = scanned_reverse;
    c->stacked_axes = stacked_axes;
    c->stacked_reverse = stacked_reverse;
}

static stator_status read_control(build *b, const stator_node_row *row, st_step *step,
                                  stator_diag **err)
{
    st_control head = {.n_bodies = row->region_count};
    if (step->kind == ST_STEP_WHILE) {
        head.n_carried = (uint32_t)int_attr(b, row, STATOR_while_carried);
        head.n_stacked = (uint32_t)int_attr(b, row, STATOR_while_stacked);
    } else if (step->kind == ST_STEP_SCAN) {
        head.n_carried = (uint32_t)int_attr(b, row, STATOR_scan_carried);
        head.n_scanned = (uint32_t)int_attr(b, row, STATOR_scan_scanned);
        head.n_stacked = (uint32_t)int_attr(b, row, STATOR_scan_stacked);
    }
    const uint64_t n_lists = 2u * ((uint64_t)head.n_scanned + head.n_stacked);
    st_control *c = st_calloc(b->mem, 1, sizeof *c + n_lists * sizeof(uint32_t));
    ST_TRY_MEM(c, err);
    *c = head;
    step->control = c; /* owned by the program from here on */
    if (step->kind == ST_STEP_SCAN) {
        read_scan(b, row, c, (uint32_t *)(void *)(c + 1));
    }
    for (uint32_t k = 0; k < row->region_count; k++) {
        ST_TRY(body_program(b, stator_region_at(b->v, row, k), &c->bodies[k], err));
    }
    return STATOR_OK;
}

static stator_status add_control(build *b, st_part *part, stator_diag **err)
{
    static const uint8_t kinds[STATOR_OPCODE_end] = {[STATOR_OPCODE_cond] = ST_STEP_COND,
                                                     [STATOR_OPCODE_call] = ST_STEP_CALL,
                                                     [STATOR_OPCODE_while] = ST_STEP_WHILE,
                                                     [STATOR_OPCODE_scan] = ST_STEP_SCAN};
    const stator_ref node = part->nodes[0];
    const stator_node_row *row = stator_node_at(b->v, node);
    st_step *step = &b->p->steps[b->p->n_steps++];
    step->op = op_at(b, node)->name;
    step->name = stator_node_origin(b->v, node);
    step->kind = row->op < STATOR_OPCODE_end ? kinds[row->op] : ST_STEP_RUN;
    ST_FAIL_IF(step->kind == ST_STEP_RUN || row->region_count > 2, err, STATOR_UNIMPLEMENTED,
               "%s '%s': no backend runs it, and the host runs cond, call, while and scan "
               "alone",
               step->op, step->name);
    ST_TRY(add_ports(b, part, step, err));
    return read_control(b, row, step, err);
}

/* ---- ends ---- */

static stator_status bind_outputs(build *b, stator_diag **err)
{
    st_program *p = b->p;
    for (uint32_t k = 0; k < b->v->n_outputs; k++) {
        ST_TRY(slot_of_value(b, stator_output_at(b->v, k), &p->outputs[k], err));
        st_slot *slot = &p->slots[p->outputs[k]];
        if (slot->output < 0 && slot->data == NULL && p->outputs[k] >= p->n_in) {
            slot->output = (int32_t)k;
        }
    }
    p->n_outputs = b->v->n_outputs;
    for (uint32_t k = 0; k < b->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(b->v, k);
        p->write_backs[k].input = b->slot_of[row->input];
        if (p->write_backs[k].input >= p->n_in) {
            return st_fail(
                err, STATOR_UNSUPPORTED,
                "the graph writes to the parameter '%s' (input %u), whose bytes are shared "
                "and cannot change; make it an input that the caller gives",
                stator_string_at(b->v, stator_value_at(b->v, row->input)->name),
                stator_value_at(b->v, row->input)->index);
        }
        ST_TRY(slot_of_value(b, row->value, &p->write_backs[k].slot, err));
    }
    p->n_write_backs = b->v->n_write_backs;
    return STATOR_OK;
}

/* Room for every slot, size and step that can arise: each value at most once. */
static stator_status alloc_program(build *b, stator_diag **err)
{
    st_program *p = b->p;
    stator_ctx *ctx = request_of(b)->ctx;
    *p = (st_program){.mem = b->mem,
                      .pool = &ctx->pool,
                      .profile = &ctx->profile,
                      .ctx = ctx,
                      .n_syms = b->v->n_symbols,
                      .symbols = b->a->out->symbols};
    pthread_mutex_init(&p->lock, NULL);
    ST_TRY(st_request_domains(request_of(b), p, err));
    uint64_t n_dims = 1;
    for (stator_ref value = 1; value <= b->v->n_values; value++) {
        n_dims += stator_value_type(b->v, value)->rank;
    }
    p->slots = st_calloc(b->mem, b->v->n_values + UINT64_C(1), sizeof *p->slots);
    p->dims = st_calloc(b->mem, n_dims, sizeof *p->dims);
    p->bound_symbol = st_calloc(b->mem, n_dims, sizeof *p->bound_symbol);
    p->steps = st_calloc(b->mem, b->u->parts.n_parts + UINT64_C(1), sizeof *p->steps);
    p->outputs = st_calloc(b->mem, b->v->n_outputs + UINT64_C(1), sizeof *p->outputs);
    p->write_backs = st_calloc(b->mem, b->v->n_write_backs + UINT64_C(1), sizeof *p->write_backs);
    b->slot_of = st_alloc(b->mem, (b->v->n_values + UINT64_C(1)) * sizeof *b->slot_of, 16);
    ST_TRY_MEM(p->slots && p->dims && p->bound_symbol && p->steps && p->outputs && p->write_backs &&
                   b->slot_of,
               err);
    memset(b->slot_of, 0xff, (b->v->n_values + UINT64_C(1)) * sizeof *b->slot_of);
    return STATOR_OK;
}

/* With STRICT_COPIES a part that leaves a value where the next one does not read it is an error. */
static stator_status check_copies(const build *b, stator_diag **err)
{
    const st_program *p = b->p;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        const st_slot *slot = step->kind == ST_STEP_COPY ? &p->slots[step->in[0]] : NULL;
        ST_FAIL_IF(slot != NULL && !slot->is_varying && slot->data == NULL, err, STATOR_UNSUPPORTED,
                   "the result of %s '%s' is copied from %s to %s for backend '%s'; with strict "
                   "copies the parts must work in one memory",
                   slot->op, slot->name,
                   slot->domain != 0 ? p->domains[slot->domain - 1u]->name : "cpu",
                   step->domain != 0 ? p->domains[step->domain - 1u]->name : "cpu", step->backend);
    }
    return STATOR_OK;
}

static stator_status add_all(build *b, stator_diag **err)
{
    ST_TRY(alloc_program(b, err));
    ST_TRY(add_inputs(b, err));
    for (uint32_t i = 0; i < b->u->parts.n_parts; i++) {
        st_part *part = &b->u->parts.parts[i];
        ST_TRY(part->color == ST_COLOR_HOST ? add_control(b, part, err) : add_step(b, part, err));
    }
    ST_TRY(bind_outputs(b, err));
    ST_TRY_MEM(st_program_plan_copies(b->p), err);
    if ((request_of(b)->flags & STATOR_COMPILE_STRICT_COPIES) != 0) {
        ST_TRY(check_copies(b, err));
    }
    return st_program_plan_memory(b->p) ? STATOR_OK : st_fail_oom(err);
}

static stator_status assemble_unit(st_assembly *a, st_unit *u, st_program *p, stator_diag **err)
{
    build b = {.a = a, .u = u, .v = u->v, .mem = a->division->mem, .p = p};
    const stator_status status = add_all(&b, err);
    st_free(b.mem, b.slot_of);
    return status;
}

/* Ranges and names of the module's symbols. */
static stator_status list_symbols(st_compiled *out, st_mem *mem, stator_diag **err)
{
    const st_module *m = out->module;
    out->symbols = st_calloc(mem, m->symtab.n_symbols + UINT64_C(1), sizeof *out->symbols);
    ST_TRY_MEM(out->symbols, err);
    for (uint32_t atom = 1; atom < m->symtab.atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(&m->symtab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL) {
            st_symbol *s = &out->symbols[row->index];
            *s = (st_symbol){.lo = row->lo, .hi = row->hi, .divisor = row->divisor};
            if (row->name != 0) {
                (void)snprintf(s->name, sizeof s->name, "%s", st_module_str(m, row->name));
            } else {
                (void)snprintf(s->name, sizeof s->name, "$%u", row->index);
            }
        }
    }
    return STATOR_OK;
}

stator_status st_assemble(st_assembly *a, stator_diag **err)
{
    a->n_declined = 0;
    for (uint32_t i = 0; i < a->division->units.count; i++) {
        a->division->units.data[i]->program = NULL;
    }
    ST_TRY(list_symbols(a->out, a->division->mem, err));
    return assemble_unit(a, a->division->root, &a->out->program, err);
}

static void end_program(st_program *p)
{
    st_program_drain(p);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        stator_instance *instance = p->steps[s].self;
        if (p->steps[s].exe != NULL) {
            st_instance_exe_destroy(instance, p->steps[s].exe);
        }
    }
    st_program_deinit(p);
}

void st_disassemble(st_compiled *compiled)
{
    st_mem *mem = &compiled->ctx->mem;
    end_program(&compiled->program);
    for (uint32_t i = 0; i < compiled->n_bodies; i++) {
        end_program(compiled->bodies[i]);
        st_free(mem, compiled->bodies[i]);
    }
    st_free(mem, compiled->bodies);
    st_free(mem, compiled->symbols);
    compiled->bodies = NULL;
    compiled->n_bodies = 0;
    compiled->symbols = NULL;
}
