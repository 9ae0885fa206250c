/* The compile driver; see compile.h. */
#include "core/host/compile.h"

#include "core/base/check.h"
#include "core/base/str.h"

#include <string.h>

/* What is being built; everything is freed at the end but the compiled object. */
typedef struct driver {
    const st_compile_request *request;
    st_mem *mem;
    st_compiled *out;
    stator_graph *graph;
    const stator_graph_view *v;
    uint8_t *accepts;
    char **reasons;
    uint32_t *groups;
    uint8_t *refused; /* composites to be decomposed although the backend keeps them */
    st_parts parts;
    uint32_t *slot_of; /* by value of the whole graph */
} driver;

static void free_answers(driver *d)
{
    for (uint32_t n = 0; d->reasons != NULL && n <= d->v->n_nodes; n++) {
        st_free(d->mem, d->reasons[n]);
    }
    st_free(d->mem, d->reasons);
    st_free(d->mem, d->accepts);
    st_free(d->mem, d->groups);
    st_free(d->mem, d->refused);
    d->reasons = NULL;
    d->accepts = NULL;
    d->groups = NULL;
    d->refused = NULL;
}

/* ---- capability, and decomposing what is kept but refused ---- */

static stator_status ask_capability(driver *d, stator_diag **err)
{
    d->v = st_graph_view(d->graph);
    const uint32_t n = d->v->n_nodes + 1u;
    d->accepts = st_calloc(d->mem, n, 1);
    d->reasons = st_calloc(d->mem, n, sizeof *d->reasons);
    d->groups = st_calloc(d->mem, n, sizeof *d->groups);
    d->refused = st_calloc(d->mem, n, 1);
    if (d->accepts == NULL || d->reasons == NULL || d->groups == NULL || d->refused == NULL) {
        return st_fail_oom(err);
    }
    return st_instance_capability(d->request->main, d->graph, d->accepts, d->reasons, d->groups,
                                  err);
}

static int32_t keep_unless_refused(void *self, const stator_graph *graph, stator_ref node)
{
    const driver *d = self;
    if (graph != d->graph) {
        return 1; /* bodies of control flow go with their node */
    }
    return !d->refused[node];
}

static stator_status decompose_refused(driver *d, stator_graph **out_graph, stator_diag **err)
{
    stator_fuel_scope *scope =
        st_fuel_stage(d->request->fuel, "decompose-refused", "decompose", d->graph);
    if (scope == NULL) {
        return st_fail_oom(err);
    }
    st_pass_ctx ctx;
    st_pass_ctx_init(d->request, scope, &ctx);
    ctx.keep = keep_unless_refused;
    ctx.keep_self = d;
    return st_pass_run(st_pass_find("decompose"), &ctx, d->graph, out_graph, err);
}

/* Asks, decomposes refused composites and asks again, until nothing changes. The depth of the op
 * table bounds the rounds. */
static stator_status settle_capability(driver *d, stator_diag **err)
{
    for (uint32_t round = 0; round < 16; round++) {
        ST_TRY(ask_capability(d, err));
        uint32_t n_refused = 0;
        for (stator_ref n = 1; n <= d->v->n_nodes; n++) {
            const stator_op_desc *op = stator_op_at(d->v, stator_node_at(d->v, n)->op);
            d->refused[n] = !d->accepts[n] && (op->flags & STATOR_OP_COMPOSITE) != 0;
            n_refused += d->refused[n];
        }
        stator_graph *next = d->graph;
        if (n_refused != 0) {
            ST_TRY(decompose_refused(d, &next, err));
        }
        if (next == d->graph) {
            return STATOR_OK;
        }
        free_answers(d);
        d->graph = next;
    }
    return st_fail(err, STATOR_INTERNAL,
                   "decompositions do not end: after 16 rounds there are composites left that "
                   "backend '%s' refuses",
                   d->request->main->backend->item.name);
}

/* Asks fuel for each node or ATOMIC group the backend claims; refused, it goes to the fallback. A
 * group is asked about at its first member. */
static stator_status ask_claims(driver *d, stator_diag **err)
{
    if (d->request->fallback == NULL) {
        return STATOR_OK;
    }
    stator_fuel_scope *scope = st_fuel_scope(d->request->fuel, NULL, "claim");
    uint8_t *answers =
        st_calloc(d->mem, d->v->n_nodes + UINT64_C(1), 1); /* by group: 1 no, 2 yes */
    if (scope == NULL || answers == NULL) {
        st_free(d->mem, answers);
        return st_fail_oom(err);
    }
    st_fuel_about(scope, d->graph);
    for (stator_ref n = 1; n <= d->v->n_nodes; n++) {
        const stator_op_desc *op = stator_op_at(d->v, stator_node_at(d->v, n)->op);
        if (!d->accepts[n] || (op->flags & STATOR_OP_CONSTANT) != 0) {
            continue;
        }
        uint8_t *answer = &answers[d->groups[n]];
        if (d->groups[n] == 0 || *answer == 0) {
            const char *rule = d->groups[n] != 0 ? "group" : op->name;
            *answer = (uint8_t)(1 + st_fuel_api.may_apply(scope, STATOR_FUEL_CLAIM, rule, n));
        }
        d->accepts[n] = *answer == 2;
    }
    st_free(d->mem, answers);
    return STATOR_OK;
}

static const char *origin_name(const stator_graph_view *v, stator_ref node)
{
    const uint32_t origin = stator_node_at(v, node)->origin;
    if (origin == 0) {
        return "";
    }
    return stator_string_at(
        v, ((const stator_origin_row *)stator_column_at(&v->origins, origin))->name);
}

/* Every node that main refuses, with op, name and reason, in one error. */
static stator_status report_refused(driver *d, stator_diag **err)
{
    st_str text;
    st_str_init(&text, d->mem);
    uint32_t count = 0;
    for (stator_ref n = 1; n <= d->v->n_nodes; n++) {
        if (d->accepts[n]) {
            continue;
        }
        if (count++ < 20) {
            st_str_addf(&text, "%s%s '%s' (%s)", count > 1 ? "; " : "",
                        stator_op_at(d->v, stator_node_at(d->v, n)->op)->name, origin_name(d->v, n),
                        d->reasons[n] != NULL ? d->reasons[n] : "no reason");
        }
    }
    const stator_status status =
        st_fail(err, STATOR_UNSUPPORTED, "backend '%s' does not run %u of %u nodes: %s",
                d->request->main->backend->item.name, count, d->v->n_nodes,
                text.data != NULL ? text.data : "");
    if (err != NULL && *err != NULL) {
        st_diag_set_hint(*err, "%s",
                         (d->request->flags & STATOR_COMPILE_STRICT) != 0
                             ? "without --strict they would run on eager"
                             : "choose another backend; `stator backends` lists them");
    }
    st_str_deinit(&text);
    return status;
}

/* ---- slots ---- */

static int32_t defines_symbol(const stator_graph_view *v, stator_ref sym)
{
    const stator_sym_row *row = stator_column_at(&v->syms, sym);
    if (row->term_count != 1 || row->constant != 0) {
        return -1;
    }
    const stator_term_row *term = stator_column_at(&v->terms, row->term_begin);
    const stator_atom_row *atom = stator_column_at(&v->atoms, term->atom);
    const int is_unbacked =
        term->coef == 1 && atom->kind == STATOR_ATOM_SYMBOL && (atom->flags & 1u) != 0;
    return is_unbacked ? (int32_t)atom->index : -1;
}

static stator_status fail_size(const stator_graph_view *v, stator_ref value, stator_diag **err)
{
    const stator_value_row *row = stator_value_at(v, value);
    if (row->node == 0) {
        return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "input '%s' has more than 2^62 bytes",
                       stator_string_at(v, row->name));
    }
    return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "the result of %s '%s' has more than 2^62 bytes",
                   stator_op_at(v, stator_node_at(v, row->node)->op)->name,
                   origin_name(v, row->node));
}

static stator_status add_slot(st_program *p, const stator_graph_view *v, stator_ref value,
                              uint32_t *out_slot, stator_diag **err)
{
    const stator_type_row *type = stator_value_type(v, value);
    st_slot *slot = &p->slots[p->n_slots];
    *slot = (st_slot){.dtype = type->dtype,
                      .rank = type->rank,
                      .dim_begin = p->n_dims,
                      .is_static = 1,
                      .output = -1};
    const st_sym_cols cols = {.syms = v->syms, .terms = v->terms, .atoms = v->atoms};
    int64_t shape[STATOR_MAX_RANK];
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        const stator_ref dim = stator_dim_at(v, type, axis);
        st_symprog *prog = &p->dims[p->n_dims];
        if (!st_symprog_init(prog, p->mem, &cols, dim)) {
            return st_fail_oom(err);
        }
        p->unbacked_symbol[p->n_dims] = defines_symbol(v, dim);
        slot->is_unbacked |= p->unbacked_symbol[p->n_dims] >= 0;
        slot->is_static &= prog->is_const != 0;
        shape[axis] = prog->constant;
        p->n_dims++;
    }
    uint64_t count = 0;
    if (slot->is_static && (!st_numel(shape, type->rank, &count) ||
                            !st_dtype_bytes(type->dtype, count, &slot->size_bytes))) {
        return fail_size(v, value, err);
    }
    *out_slot = p->n_slots++;
    return STATOR_OK;
}

static stator_status add_inputs(driver *d, stator_diag **err)
{
    st_program *p = &d->out->program;
    for (int is_param = 0; is_param <= 1; is_param++) {
        for (stator_ref value = 1; value <= d->v->n_inputs; value++) {
            const stator_value_row *row = stator_value_at(d->v, value);
            if (((row->flags & STATOR_VALUE_PARAM) != 0) != is_param) {
                continue;
            }
            ST_TRY(add_slot(p, d->v, value, &d->slot_of[value], err));
            if (is_param) {
                stator_blob *blob = st_graph_value_blob(d->graph, value);
                ST_TRY(st_blob_get(blob, &p->slots[d->slot_of[value]].data, err));
            } else {
                p->n_in++;
            }
        }
    }
    return STATOR_OK;
}

static stator_status run_instance(void *self, void *exe, const stator_call *call, stator_diag **err)
{
    return st_instance_run(self, exe, call, err);
}

static stator_status add_step(driver *d, stator_instance *instance, const stator_graph *graph,
                              const st_part *part, stator_diag **err)
{
    st_program *p = &d->out->program;
    st_step *step = &p->steps[p->n_steps];
    uint32_t *slots = st_calloc(d->mem, part->n_in + part->n_out + 1u, sizeof *slots);
    if (slots == NULL) {
        return st_fail_oom(err);
    }
    p->n_steps++;
    *step = (st_step){.run = run_instance,
                      .self = instance,
                      .n_in = part->n_in,
                      .n_out = part->n_out,
                      .in = slots,
                      .out = slots + part->n_in};
    for (uint32_t k = 0; k < part->n_in; k++) {
        slots[k] = d->slot_of[part->in[k]];
    }
    for (uint32_t k = 0; k < part->n_out; k++) {
        ST_TRY(add_slot(p, d->v, part->out[k], &slots[part->n_in + k], err));
        d->slot_of[part->out[k]] = slots[part->n_in + k];
    }
    stator_fuel_scope *scope = st_fuel_scope(d->request->fuel, NULL, instance->backend->item.name);
    st_fuel_about(scope, graph);
    ST_TRY(st_instance_compile(instance, graph, scope, &step->exe, err));
    stator_exe_info info = {.struct_size = sizeof info};
    ST_TRY(instance->backend->exe_info(instance->inst, step->exe, &info));
    step->workspace_bytes = info.workspace_bytes;
    return STATOR_OK;
}

/* Slot of an output that no step produces into it: an input, a parameter or a constant. */
static stator_status slot_of_output(driver *d, stator_ref value, uint32_t *out_slot,
                                    stator_diag **err)
{
    st_program *p = &d->out->program;
    const stator_ref node = stator_value_at(d->v, value)->node;
    const stator_op_desc *op =
        node != 0 ? stator_op_at(d->v, stator_node_at(d->v, node)->op) : NULL;
    if (op != NULL && (op->flags & STATOR_OP_CONSTANT) != 0 && d->slot_of[value] == UINT32_MAX) {
        ST_TRY(add_slot(p, d->v, value, &d->slot_of[value], err));
        ST_TRY(st_blob_get(st_graph_value_blob(d->graph, value), &p->slots[d->slot_of[value]].data,
                           err));
    }
    *out_slot = d->slot_of[value];
    return STATOR_OK;
}

static stator_status bind_outputs(driver *d, stator_diag **err)
{
    st_program *p = &d->out->program;
    for (uint32_t k = 0; k < d->v->n_outputs; k++) {
        const stator_ref value = stator_output_at(d->v, k);
        ST_TRY(slot_of_output(d, value, &p->outputs[k], err));
        st_slot *slot = &p->slots[p->outputs[k]];
        if (slot->output < 0 && slot->data == NULL && p->outputs[k] >= p->n_in) {
            slot->output = (int32_t)k;
        }
    }
    p->n_outputs = d->v->n_outputs;
    for (uint32_t k = 0; k < d->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_column_at(&d->v->write_backs, k);
        p->write_backs[k].input = d->slot_of[row->input];
        if (p->write_backs[k].input >= p->n_in) {
            return st_fail(
                err, STATOR_UNSUPPORTED,
                "the graph writes to the parameter '%s' (input %u), whose bytes are shared "
                "and cannot change; make it an input that the caller gives",
                stator_string_at(d->v, stator_value_at(d->v, row->input)->name),
                stator_value_at(d->v, row->input)->index);
        }
        ST_TRY(slot_of_output(d, row->value, &p->write_backs[k].slot, err));
    }
    p->n_write_backs = d->v->n_write_backs;
    return STATOR_OK;
}

/* Room for every slot, size and step that can arise: each value at most once, plus one of each
 * output for parts. */
static stator_status alloc_program(driver *d, uint32_t n_parts, stator_diag **err)
{
    st_program *p = &d->out->program;
    stator_ctx *ctx = d->request->ctx;
    const uint32_t n_slots = d->v->n_values + d->v->n_outputs + 1u;
    *p = (st_program){.mem = d->mem, .pool = &ctx->pool, .ctx = ctx, .n_syms = d->v->n_symbols};
    pthread_mutex_init(&p->lock, NULL);
    uint64_t n_dims = 1;
    for (stator_ref value = 1; value <= d->v->n_values; value++) {
        n_dims += 2u * stator_value_type(d->v, value)->rank;
    }
    p->slots = st_calloc(d->mem, n_slots, sizeof *p->slots);
    p->dims = st_calloc(d->mem, n_dims, sizeof *p->dims);
    p->unbacked_symbol = st_calloc(d->mem, n_dims, sizeof *p->unbacked_symbol);
    p->steps = st_calloc(d->mem, n_parts + 1u, sizeof *p->steps);
    p->outputs = st_calloc(d->mem, d->v->n_outputs + 1u, sizeof *p->outputs);
    p->write_backs = st_calloc(d->mem, d->v->n_write_backs + 1u, sizeof *p->write_backs);
    d->slot_of = st_alloc(d->mem, (d->v->n_values + 1u) * sizeof *d->slot_of, 16);
    if (p->slots == NULL || p->dims == NULL || p->unbacked_symbol == NULL || p->steps == NULL ||
        p->outputs == NULL || p->write_backs == NULL || d->slot_of == NULL) {
        return st_fail_oom(err);
    }
    memset(d->slot_of, 0xff, (d->v->n_values + 1u) * sizeof *d->slot_of);
    return STATOR_OK;
}

static stator_status compile_parts(driver *d, stator_diag **err)
{
    ST_TRY(alloc_program(d, d->parts.n_parts, err));
    ST_TRY(add_inputs(d, err));
    for (uint32_t i = 0; i < d->parts.n_parts; i++) {
        const st_part *part = &d->parts.parts[i];
        stator_instance *instance = part->color == 0 ? d->request->main : d->request->fallback;
        ST_TRY(add_step(d, instance, part->graph, part, err));
    }
    ST_TRY(bind_outputs(d, err));
    return st_program_plan(&d->out->program) ? STATOR_OK : st_fail_oom(err);
}

/* The mapped files behind the module's blobs; a model has one or a few. */
static stator_status list_files(st_compiled *out, stator_diag **err)
{
    const st_module *m = out->module;
    out->files = st_calloc(m->mem, m->blobs.count + 1u, sizeof *out->files);
    if (out->files == NULL) {
        return st_fail_oom(err);
    }
    for (uint32_t blob = 1; blob < m->blobs.count; blob++) {
        const st_file *file = st_blob_file(st_module_blob_at(m, blob), NULL);
        uint32_t i = 0;
        while (i < out->n_files && out->files[i] != file) {
            i++;
        }
        if (file != NULL && i == out->n_files) {
            out->files[out->n_files++] = file;
        }
    }
    return STATOR_OK;
}

stator_status st_compiled_check_files(const st_compiled *compiled, stator_diag **err)
{
    for (uint32_t i = 0; i < compiled->n_files; i++) {
        ST_TRY(st_file_check(compiled->files[i], err));
    }
    return STATOR_OK;
}

static void count_coverage(driver *d)
{
    st_compiled *out = d->out;
    const stator_instance *instances[2] = {d->request->main, d->request->fallback};
    for (uint32_t color = 0; color < 2; color++) {
        stator_coverage row = {.backend = ""};
        for (uint32_t i = 0; i < d->parts.n_parts; i++) {
            const st_part *part = &d->parts.parts[i];
            row.partitions += part->color == color;
            row.nodes += part->color == color ? part->n_nodes : 0;
        }
        if (instances[color] != NULL && (color == 0 || row.nodes != 0)) {
            row.backend = instances[color]->backend->item.name;
            out->coverage[out->n_coverage++] = row;
        }
    }
}

static stator_status divide(driver *d, stator_diag **err)
{
    ST_TRY(settle_capability(d, err));
    ST_TRY(ask_claims(d, err));
    uint32_t n_refused = 0;
    uint8_t *color = st_calloc(d->mem, d->v->n_nodes + 1u, 1);
    if (color == NULL) {
        return st_fail_oom(err);
    }
    for (stator_ref n = 1; n <= d->v->n_nodes; n++) {
        color[n] = !d->accepts[n];
        n_refused += color[n];
        if (color[n]) {
            st_log(d->request->ctx, "dispatch", 2, "%s: %s '%s': %s",
                   d->request->main->backend->item.name,
                   stator_op_at(d->v, stator_node_at(d->v, n)->op)->name, origin_name(d->v, n),
                   d->reasons[n] != NULL ? d->reasons[n] : "no reason");
        }
    }
    stator_status status = STATOR_OK;
    const int is_strict = (d->request->flags & STATOR_COMPILE_STRICT) != 0;
    if (n_refused != 0 && (d->request->fallback == NULL || is_strict)) {
        status = report_refused(d, err);
    } else {
        const st_partition_request request = {.graph = d->graph,
                                              .color = color,
                                              .group = d->groups,
                                              .mem = d->mem,
                                              .may_dissolve =
                                                  d->request->fallback != NULL && !is_strict};
        status = st_partition(&request, &d->parts, err);
    }
    st_free(d->mem, color);
    return status;
}

static stator_status make_guard(driver *d, stator_diag **err)
{
    stator_ref *inputs = st_calloc(d->mem, d->v->n_inputs + 1u, sizeof *inputs);
    if (inputs == NULL) {
        return st_fail_oom(err);
    }
    const uint32_t n = st_graph_call_inputs(d->graph, inputs);
    const stator_status status = st_guard_init(&d->out->guard, d->mem, d->v, inputs, n, err);
    st_free(d->mem, inputs);
    return status;
}

stator_status st_compile_graph(const st_compile_request *request, st_compiled **out_compiled,
                               stator_diag **err)
{
    *out_compiled = NULL;
    st_mem *mem = &request->ctx->mem;
    driver d = {.request = request, .mem = mem};
    d.out = st_calloc(mem, 1, sizeof *d.out);
    if (d.out == NULL) {
        return st_fail_oom(err);
    }
    d.out->ctx = request->ctx;
    stator_status status = st_run_pipeline(request, &d.out->module, err);
    if (status == STATOR_OK) {
        d.graph = d.out->module->root;
        status = divide(&d, err);
    }
    if (status == STATOR_OK) {
        status = compile_parts(&d, err);
    }
    if (status == STATOR_OK) {
        count_coverage(&d);
        status = make_guard(&d, err);
    }
    if (status == STATOR_OK) {
        status = list_files(d.out, err);
    }
    if (d.v != NULL) {
        free_answers(&d);
    }
    st_free(mem, d.slot_of);
    st_parts_deinit(&d.parts);
    if (status != STATOR_OK) {
        st_compiled_destroy(d.out);
        return status;
    }
    *out_compiled = d.out;
    return STATOR_OK;
}

void st_compiled_destroy(st_compiled *compiled)
{
    if (compiled == NULL) {
        return;
    }
    st_program *p = &compiled->program;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        stator_instance *instance = p->steps[s].self;
        if (p->steps[s].exe != NULL) {
            instance->backend->exe_destroy(instance->inst, p->steps[s].exe);
        }
    }
    st_program_deinit(p);
    st_guard_deinit(&compiled->guard);
    st_free(&compiled->ctx->mem, compiled->files);
    st_module_destroy(compiled->module);
    st_free(&compiled->ctx->mem, compiled);
}
