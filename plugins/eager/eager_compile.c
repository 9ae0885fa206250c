/* From a graph to a plan: values with their sizes, steps with their attributes, nested plans of
 * regions. Storage and workspace are decided by eager_layout.c.
 *
 * In: a graph whose nodes all have a row of kernels.def (the first other one is named).
 * Out: an executable that keeps nothing of the graph but retained constants. Nodes that nothing
 * reads, that have no effect and bind no symbol are left out. */
#include "plugins/eager/eager_compile.h"

#include <stdio.h>

static void *take(eager_compile_state *c, uint64_t count, uint64_t size)
{
    return st_arena_zalloc(&c->exe->arena, count ? count : 1, size);
}

/* ---- can this node run here? ---- */

static bool mask_has(uint32_t mask, uint32_t dtype)
{
    return dtype < 32 && (mask >> dtype) & 1u;
}

static bool region_accepted(const eager_inst *inst, const stator_graph *region, char *why,
                            uint64_t why_size)
{
    const stator_graph_view *v = inst->self->host->ir->view(region);
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        if (!eager_accepts(inst, v, stator_node_at(v, n), why, why_size)) {
            return false;
        }
    }
    return true;
}

bool eager_accepts(const eager_inst *inst, const stator_graph_view *v, const stator_node_row *node,
                   char *why, uint64_t why_size)
{
    const char *op = stator_op_at(v, node->op)->name;
    const uint32_t place = node->op < inst->n_ops ? inst->row_of_op[node->op] : 0;
    if (place == 0) {
        (void)snprintf(why, why_size, "eager has no kernel for op '%s'", op);
        return false;
    }
    const eager_row *row = &eager_rows[place];
    const stator_ref first = stator_operand(v, node, 0);
    if (first && !mask_has(row->in_mask, stator_value_type(v, first)->dtype)) {
        (void)snprintf(why, why_size, "eager has no kernel for op '%s' on %s", op,
                       st_dtype_name(stator_value_type(v, first)->dtype));
        return false;
    }
    if (node->result_count > 0 &&
        !mask_has(row->out_mask, stator_value_type(v, node->result_begin)->dtype)) {
        (void)snprintf(why, why_size, "eager has no kernel for op '%s' to %s", op,
                       st_dtype_name(stator_value_type(v, node->result_begin)->dtype));
        return false;
    }
    const char *refusal = place == EAGER_OP_library ? eager_library_refusal(v, node) : NULL;
    if (refusal) {
        (void)snprintf(why, why_size, "eager cannot call the kernel of op '%s', which %s", op,
                       refusal);
        return false;
    }
    for (uint32_t k = 0; k < node->region_count; k++) {
        if (!region_accepted(inst, stator_region_at(v, node, k), why, why_size)) {
            return false;
        }
    }
    return true;
}

/* ---- symbols ---- */

/* Program of a sym, made once. 0 when memory runs out, else its number + 1. */
static uint32_t prog_of(eager_compile_state *c, const stator_graph_view *v, stator_ref sym)
{
    const uint32_t found = st_map_get(&c->prog_of_sym, sym);
    if (found) {
        return found;
    }
    eager_prog *prog = st_vec_push(&c->exe->self->mem, &c->exe->progs);
    if (!prog) {
        return 0;
    }
    memset(prog, 0, sizeof *prog);
    const st_sym_cols cols = {v->syms, v->terms, v->atoms};
    if (!st_symprog_init(&prog->code, &c->exe->self->mem, &cols, sym)) {
        c->exe->progs.count--;
        return 0;
    }
    prog->has_symbol = (uint32_t)eager_lone_symbol(v, sym, &prog->symbol);
    return st_map_put(&c->prog_of_sym, sym, c->exe->progs.count) ? c->exe->progs.count : 0;
}

static stator_status read_symbols(eager_compile_state *c, const stator_graph_view *v)
{
    eager_exe *exe = c->exe;
    exe->n_syms = v->n_symbols;
    exe->syms = take(c, v->n_symbols, sizeof *exe->syms);
    EAGER_TRY_MEM(exe->syms, c->inst->self, c->err);
    for (uint32_t i = 0; i < exe->n_syms; i++) {
        exe->syms[i] = (eager_sym){INT64_MIN, INT64_MAX, 1};
    }
    return STATOR_OK;
}

/* ---- values ---- */

static stator_status read_value(eager_graph_state *g, uint32_t i, uint32_t *dims_at)
{
    eager_execution_plan *plan = g->plan;
    const stator_type_row *type = stator_value_type(g->v, i);
    eager_value *value = &plan->values[i];
    ek_tensor *tensor = &plan->tensors[i];
    value->dims_at = *dims_at;
    value->is_static = value->is_early = 1;
    tensor->dtype = type->dtype;
    tensor->rank = type->rank;
    int64_t *dims = plan->dims + *dims_at;
    for (uint32_t a = 0; a < type->rank; a++) {
        const stator_ref dim = stator_dim_at(g->v, type, a);
        const uint32_t prog = prog_of(g->c, g->v, dim);
        EAGER_TRY_MEM(prog, g->c->inst->self, g->c->err);
        plan->dim_progs[*dims_at + a] = prog - 1;
        if (!stator_sym_is_const(g->v, dim, &dims[a])) {
            value->is_static = 0;
            plan->is_static = 0;
        }
    }
    *dims_at += type->rank;
    if (value->is_static) {
        uint64_t numel, bytes;
        if (!st_numel(dims, type->rank, &numel) || !st_dtype_bytes(type->dtype, numel, &bytes)) {
            return eager_fail(g->c->inst->self, NULL, g->c->err, STATOR_RESOURCE_EXHAUSTED,
                              "a tensor of this graph has more bytes than memory can hold");
        }
        tensor->numel = (int64_t)numel;
        tensor->dims = dims;
    }
    return STATOR_OK;
}

/* Is every symbol of the type set before the first step? */
static uint32_t type_is_early(eager_graph_state *g, uint32_t i, uint8_t *scratch)
{
    memset(scratch, 0, g->v->n_symbols);
    eager_mark_type(g->v, stator_value_type(g->v, i), scratch);
    for (uint32_t s = 0; s < g->v->n_symbols; s++) {
        if (scratch[s] && g->fresh[s]) {
            return 0;
        }
    }
    return 1;
}

static stator_status read_values(eager_graph_state *g)
{
    eager_execution_plan *plan = g->plan;
    uint32_t dims_at = 0;
    for (uint32_t i = 1; i <= g->v->n_values; i++) {
        plan->n_dims += stator_value_type(g->v, i)->rank;
    }
    plan->n_values = g->v->n_values;
    plan->values = take(g->c, plan->n_values + 1u, sizeof *plan->values);
    plan->tensors = take(g->c, plan->n_values + 1u, sizeof *plan->tensors);
    plan->dims = take(g->c, plan->n_dims, sizeof *plan->dims);
    plan->dim_progs = take(g->c, plan->n_dims, sizeof *plan->dim_progs);
    uint8_t *scratch = take(g->c, g->v->n_symbols, 1);
    EAGER_TRY_MEM(plan->values && plan->tensors && plan->dims && plan->dim_progs && scratch,
                  g->c->inst->self, g->c->err);
    plan->is_static = 1;
    for (uint32_t i = 1; i <= plan->n_values; i++) {
        ST_TRY(read_value(g, i, &dims_at));
        if (!plan->values[i].is_static) {
            plan->values[i].is_early = type_is_early(g, i, scratch);
        }
    }
    return STATOR_OK;
}

/* ---- attributes ---- */

static stator_status read_dims_attr(eager_graph_state *g, const stator_attr_row *row, ek_attr *attr,
                                    const uint32_t **out_progs)
{
    int64_t *ints = take(g->c, row->count, sizeof *ints);
    uint32_t *progs = take(g->c, row->count, sizeof *progs);
    EAGER_TRY_MEM(ints && progs, g->c->inst->self, g->c->err);
    attr->ints = ints;
    for (uint32_t i = 0; i < row->count; i++) {
        const stator_ref sym = stator_ref_at(g->v, row->begin + i);
        const uint32_t prog = prog_of(g->c, g->v, sym);
        EAGER_TRY_MEM(prog, g->c->inst->self, g->c->err);
        progs[i] = prog - 1;
        if (!stator_sym_is_const(g->v, sym, &ints[i])) {
            *out_progs = progs;
        }
    }
    return STATOR_OK;
}

static stator_status read_list_attr(eager_graph_state *g, const stator_attr_row *row, ek_attr *attr)
{
    int64_t *ints = take(g->c, row->count, sizeof *ints); /* as wide as a double */
    EAGER_TRY_MEM(ints, g->c->inst->self, g->c->err);
    const bool is_ints = row->kind == STATOR_ATTR_INTS;
    const stator_column *from = is_ints ? &g->v->i64s : &g->v->f64s;
    for (uint32_t i = 0; i < row->count; i++) {
        memcpy(&ints[i], stator_column_at(from, row->begin + i), sizeof *ints);
    }
    if (is_ints) {
        attr->ints = ints;
    } else {
        attr->floats = (const double *)(const void *)ints;
    }
    return STATOR_OK;
}

static stator_status read_attr(eager_graph_state *g, const stator_attr_row *row, ek_attr *attr,
                               const uint32_t **out_progs)
{
    *attr = (ek_attr){.kind = row->kind, .i = row->i, .f = row->f};
    switch (row->kind) {
    case STATOR_ATTR_STRING: {
        const char *text = stator_string_at(g->v, row->begin);
        attr->s = st_arena_strndup(&g->c->exe->arena, text, strlen(text));
        EAGER_TRY_MEM(attr->s, g->c->inst->self, g->c->err);
        return STATOR_OK;
    }
    case STATOR_ATTR_INTS:
    case STATOR_ATTR_FLOATS:
        attr->count = row->count;
        return read_list_attr(g, row, attr);
    case STATOR_ATTR_DIMS:
        attr->count = row->count;
        return read_dims_attr(g, row, attr, out_progs);
    default:
        return STATOR_OK;
    }
}

static stator_status read_attrs(eager_graph_state *g, const stator_node_row *node, eager_step *step)
{
    ek_attr *attrs = take(g->c, node->attr_count, sizeof *attrs);
    const uint32_t **progs = take(g->c, node->attr_count, sizeof *progs);
    EAGER_TRY_MEM(attrs && progs, g->c->inst->self, g->c->err);
    for (uint32_t k = 0; k < node->attr_count; k++) {
        ST_TRY(read_attr(g, stator_attr_at(g->v, node, k), &attrs[k], &progs[k]));
        if (progs[k]) {
            step->n_attr_ints += attrs[k].count;
        }
    }
    step->attrs = attrs;
    step->n_attrs = node->attr_count;
    step->attr_progs = progs;
    return STATOR_OK;
}

/* ---- steps ---- */

static stator_status compile_graph(eager_compile_state *c, const stator_graph *graph,
                                   const uint8_t *known, bool is_root,
                                   eager_execution_plan **out_plan);

static stator_status compile_regions(eager_graph_state *g, const stator_node_row *node,
                                     eager_step *step)
{
    step->n_regions = node->region_count;
    step->regions = take(g->c, node->region_count, sizeof *step->regions);
    uint8_t *known = take(g->c, g->v->n_symbols, 1);
    EAGER_TRY_MEM(step->regions && known, g->c->inst->self, g->c->err);
    for (uint32_t i = 0; i < g->v->n_symbols; i++) {
        known[i] = g->known[i] || g->fresh[i];
    }
    for (uint32_t k = 0; k < node->region_count; k++) {
        ST_TRY(
            compile_graph(g->c, stator_region_at(g->v, node, k), known, false, &step->regions[k]));
    }
    return STATOR_OK;
}

static stator_status read_constant(eager_graph_state *g, const stator_node_row *node,
                                   eager_step *step)
{
    eager_exe *exe = g->c->exe;
    const stator_cst_api *cst = g->c->host->cst;
    stator_blob *blob = cst->of_value(g->graph, node->result_begin);
    stator_blob_info info = {.struct_size = sizeof info};
    EAGER_FAIL_IF(!blob, g->c->inst->self, step, g->c->err, STATOR_INVALID_ARGUMENT,
                  "the constant has no contents");
    ST_TRY(cst->get(blob, &info, g->c->err));
    const ek_tensor *t = &g->plan->tensors[node->result_begin];
    EAGER_FAIL_IF(info.size_bytes < ek_bytes(t->dtype, t->numel), g->c->inst->self, step, g->c->err,
                  STATOR_INVALID_ARGUMENT, "the constant has %llu bytes, its type needs %llu",
                  (unsigned long long)info.size_bytes,
                  (unsigned long long)ek_bytes(t->dtype, t->numel));
    stator_blob **kept = st_vec_push(&exe->self->mem, &exe->blobs);
    EAGER_TRY_MEM(kept, g->c->inst->self, g->c->err);
    *kept = blob;
    cst->retain(blob);
    const void **data = st_vec_push(&exe->self->mem, &exe->constants);
    EAGER_TRY_MEM(data, g->c->inst->self, g->c->err);
    *data = info.data ? info.data : (const void *)exe;
    g->plan->values[node->result_begin].storage = EAGER_CONSTANT;
    g->plan->values[node->result_begin].index = exe->constants.count - 1u;
    return STATOR_OK;
}

static const char *copy_text(eager_graph_state *g, stator_ref string)
{
    const char *text = stator_string_at(g->v, string);
    const char *copy = *text ? st_arena_strndup(&g->c->exe->arena, text, strlen(text)) : "";
    return copy ? copy : "";
}

static stator_status read_step(eager_graph_state *g, const stator_node_row *node, eager_step *step)
{
    const uint32_t place = g->c->inst->row_of_op[node->op];
    step->kind = eager_rows[place].step_kind;
    step->op = place;
    step->fn = eager_rows[place].fn;
    step->library = g->c->inst->libraries[node->op];
    step->tells_shape = (stator_op_at(g->v, node->op)->flags & STATOR_OP_UNBACKED) != 0;
    step->is_pointwise = (stator_op_at(g->v, node->op)->flags & STATOR_OP_POINTWISE) != 0;
    step->needs_results = node->result_count != 0 && (stator_op_at(g->v, node->op)->flags &
                                                      (STATOR_OP_EFFECT | STATOR_OP_UNBACKED)) == 0;
    step->node_name = step->node_kind = "";
    if (node->origin) {
        const stator_origin_row *origin = stator_origin_at(g->v, node->origin);
        step->node_name = copy_text(g, origin->name);
        step->node_kind = copy_text(g, origin->kind);
    }
    uint32_t *in = take(g->c, node->operand_count, sizeof *in);
    EAGER_TRY_MEM(in, g->c->inst->self, g->c->err);
    for (uint32_t k = 0; k < node->operand_count; k++) {
        in[k] = stator_operand(g->v, node, k);
    }
    step->in = in;
    step->n_in = node->operand_count;
    step->out = node->result_begin;
    step->n_out = node->result_count;
    step->is_static = 1;
    for (uint32_t r = 0; r < node->result_count; r++) {
        step->is_static &= g->plan->values[node->result_begin + r].is_static;
    }
    if (step->kind == EAGER_STEP_CONSTANT) {
        return read_constant(g, node, step);
    }
    ST_TRY(read_attrs(g, node, step));
    return node->region_count ? compile_regions(g, node, step) : STATOR_OK;
}

static stator_status read_steps(eager_graph_state *g)
{
    eager_execution_plan *plan = g->plan;
    for (uint32_t n = 1; n <= g->v->n_nodes; n++) {
        plan->n_steps += g->is_live[n];
    }
    plan->steps = take(g->c, plan->n_steps, sizeof *plan->steps);
    EAGER_TRY_MEM(plan->steps, g->c->inst->self, g->c->err);
    eager_step *step = plan->steps;
    for (uint32_t n = 1; n <= g->v->n_nodes; n++) {
        if (!g->is_live[n]) {
            continue;
        }
        ST_TRY(read_step(g, stator_node_at(g->v, n), step));
        step->node = n;
        const uint32_t args = step->n_in + step->n_out;
        plan->max_args = args > plan->max_args ? args : plan->max_args;
        if (step->n_attr_ints) {
            plan->max_attrs = step->n_attrs > plan->max_attrs ? step->n_attrs : plan->max_attrs;
            plan->max_attr_ints =
                step->n_attr_ints > plan->max_attr_ints ? step->n_attr_ints : plan->max_attr_ints;
        }
        step++;
    }
    return STATOR_OK;
}

/* ---- a graph ---- */

/* The first output that is the value; n_outputs: none. */
static uint32_t output_of(const eager_execution_plan *plan, stator_ref value)
{
    uint32_t k = 0;
    while (k < plan->n_outputs && plan->outputs[k] != value) {
        k++;
    }
    return k;
}

static stator_status read_ends(eager_graph_state *g)
{
    eager_execution_plan *plan = g->plan;
    plan->n_inputs = g->v->n_inputs;
    plan->n_outputs = g->v->n_outputs;
    plan->n_write_backs = g->v->n_write_backs;
    uint32_t n_own = 0;
    plan->outputs = take(g->c, plan->n_outputs, sizeof *plan->outputs);
    plan->output_in_place = take(g->c, plan->n_outputs, sizeof *plan->output_in_place);
    plan->wanted_alias = take(g->c, plan->n_outputs, sizeof *plan->wanted_alias);
    plan->write_back_inputs = take(g->c, plan->n_write_backs, sizeof(uint32_t));
    plan->write_back_values = take(g->c, plan->n_write_backs, sizeof(uint32_t));
    plan->fresh_syms = take(g->c, g->v->n_symbols, sizeof *plan->fresh_syms);
    EAGER_TRY_MEM(plan->outputs && plan->output_in_place && plan->wanted_alias &&
                      plan->write_back_inputs && plan->write_back_values && plan->fresh_syms,
                  g->c->inst->self, g->c->err);
    for (uint32_t k = 0; k < plan->n_outputs; k++) {
        plan->outputs[k] = stator_output_at(g->v, k);
    }
    for (uint32_t k = 0; k < plan->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(g->v, k);
        const uint32_t input = stator_value_at(g->v, row->input)->index;
        const uint32_t output = output_of(plan, row->value);
        if (output < plan->n_outputs) { /* the caller copies it, unless it lies there */
            plan->wanted_alias[output] = input + 1u;
            continue;
        }
        plan->write_back_inputs[n_own] = input;
        plan->write_back_values[n_own++] = row->value;
    }
    plan->n_write_backs = n_own;
    return STATOR_OK;
}

static void list_fresh(eager_graph_state *g, const uint8_t *known_inside)
{
    eager_execution_plan *plan = g->plan;
    for (uint32_t s = 0; s < g->v->n_symbols; s++) {
        if (g->fresh[s] || known_inside[s] == 2) {
            plan->fresh_syms[plan->n_fresh_syms++] = s;
        }
    }
}

static stator_status compile_graph(eager_compile_state *c, const stator_graph *graph,
                                   const uint8_t *known, bool is_root,
                                   eager_execution_plan **out_plan)
{
    const stator_graph_view *v = c->host->ir->view(graph);
    eager_graph_state g = {.c = c, .graph = graph, .v = v};
    g.plan = take(c, 1, sizeof *g.plan);
    g.fresh = take(c, v->n_symbols, 1);
    g.is_live = take(c, v->n_nodes + 1u, 1);
    uint8_t *known_inside = take(c, v->n_symbols, 1);
    EAGER_TRY_MEM(g.plan && g.fresh && g.is_live && known_inside, c->inst->self, c->err);
    memcpy(known_inside, known, v->n_symbols);
    eager_input_symbols(&g, known_inside);
    g.known = known_inside;
    eager_find_live(&g);
    ST_TRY(read_ends(&g));
    list_fresh(&g, known_inside);
    ST_TRY(read_values(&g));
    ST_TRY(read_steps(&g));
    ST_TRY(eager_layout(c->exe, g.plan, is_root, c->err));
    *out_plan = g.plan;
    return STATOR_OK;
}

/* ---- the public functions ---- */

static stator_status check_accepted(eager_inst *inst, const stator_graph_view *v, stator_diag **err)
{
    char why[160];
    for (uint32_t n = 1; n <= v->n_nodes; n++) {
        const stator_node_row *node = stator_node_at(v, n);
        if (eager_accepts(inst, v, node, why, sizeof why)) {
            continue;
        }
        return eager_fail(inst->self, NULL, err, STATOR_UNSUPPORTED, "%s (node '%s')", why,
                          stator_node_origin(v, n));
    }
    return STATOR_OK;
}

void eager_exe_destroy(eager_exe *exe)
{
    if (!exe) {
        return;
    }
    st_mem *mem = &exe->self->mem;
    for (uint32_t i = 0; i < exe->blobs.count; i++) {
        exe->self->host->cst->release(exe->blobs.data[i]);
    }
    for (uint32_t i = 0; i < exe->progs.count; i++) {
        st_symprog_deinit(&exe->progs.data[i].code, mem);
    }
    st_vec_free(mem, &exe->blobs);
    st_vec_free(mem, &exe->progs);
    st_vec_free(mem, &exe->constants);
    eager_pool_deinit(&exe->pool);
    st_arena_deinit(&exe->arena);
    st_free(mem, exe);
}

static stator_status compile_root(eager_compile_state *c, const stator_graph *graph)
{
    const stator_graph_view *v = c->host->ir->view(graph);
    ST_TRY(check_accepted(c->inst, v, c->err));
    ST_TRY(read_symbols(c, v));
    const uint8_t *known = take(c, v->n_symbols, 1);
    EAGER_TRY_MEM(known, c->inst->self, c->err);
    ST_TRY(compile_graph(c, graph, known, true, &c->exe->root));
    uint32_t is_early = 1;
    for (uint32_t k = 0; k < c->exe->root->n_outputs; k++) {
        is_early &= c->exe->root->values[c->exe->root->outputs[k]].is_early;
    }
    c->exe->flags = is_early ? STATOR_EXE_STATIC_OUTPUTS : 0;
    return STATOR_OK;
}

stator_status eager_compile(eager_inst *inst, const stator_graph *graph, eager_exe **out_exe,
                            stator_diag **err)
{
    *out_exe = NULL;
    st_mem *mem = &inst->self->mem;
    eager_compile_state c = {.inst = inst, .host = inst->self->host, .err = err};
    c.exe = st_calloc(mem, 1, sizeof *c.exe);
    EAGER_TRY_MEM(c.exe, c.inst->self, c.err);
    c.exe->self = inst->self;
    st_arena_init(&c.exe->arena, mem);
    st_map_init(&c.prog_of_sym, mem);
    stator_status status = eager_pool_init(&c.exe->pool, mem);
    ST_THEN(status, compile_root(&c, graph));
    st_map_deinit(&c.prog_of_sym);
    if (status != STATOR_OK) {
        eager_exe_destroy(c.exe);
        return status;
    }
    *out_exe = c.exe;
    return STATOR_OK;
}
