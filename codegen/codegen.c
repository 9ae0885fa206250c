/* The slots of a code-generating backend: capability, compile, run. */
#include "codegen/codegen.h"

#include "codegen/fuse/fuse.h"
#include "codegen/loopir/loop_expand.h"
#include "codegen/lower/lower.h"
#include "codegen/match/match_contraction.h"
#include "codegen/plan/plan.h"

#include <stator/ops.h>
#include <stdio.h>
#include <string.h>

#define NAMES_BYTES 400u /* of the nodes that an error names */
#define RANK_MAX 8u      /* rank of a value: a nest has room for a result and what it folds over */

/* The nodes of a NEED_FALLBACK, each with its reason. */
static void name_declined(const cg_unit *unit, stator_diag **err)
{
    static const char text[] = "some nodes cannot be compiled to loops after all";
    const stator_host *host = unit->host;
    if (err == NULL || *err != NULL) {
        return;
    }
    *err = host->diag->create(STATOR_NEED_FALLBACK, text, sizeof text - 1u);
    for (uint32_t i = 0; STATOR_HAS(host->diag, add_node) && i < unit->declined.count; i++) {
        host->diag->add_node(*err, unit->declined.data[i].node, unit->declined.data[i].reason);
    }
}

/* ---- capability ---- */

static bool is_computable(uint32_t dtype)
{
    return st_loop_class_of(dtype) != 0 && dtype != STATOR_F8E4M3FN && dtype != STATOR_F8E5M2;
}

/* Integers of four bits are loaded as bytes, and never stored: they may be moved and widened. */
static bool is_loadable(const stator_graph_view *v, uint32_t op, uint32_t dtype, bool is_result)
{
    const bool is_moved =
        (stator_op_at(v, op)->flags & (STATOR_OP_VIEW | STATOR_OP_CONSTANT)) != 0 ||
        op == STATOR_OPCODE_gather;
    return st_loop_loaded(dtype) != dtype && (is_moved || (!is_result && op == STATOR_OPCODE_cast));
}

/* ---- sizes that only the result tells ---- */

/* Is it known before the node runs: a size of an operand, or in an attribute? */
static bool is_known(const stator_graph_view *v, const stator_node_row *node, uint32_t atom)
{
    const st_sym_cols cols = st_sym_view_columns(v);
    for (uint32_t k = 0; k < node->operand_count; k++) {
        const stator_ref operand = stator_operand(v, node, k);
        const stator_type_row *type = operand ? stator_value_type(v, operand) : NULL;
        for (uint32_t a = 0; type && a < type->rank; a++) {
            if (st_sym_uses(&cols, stator_dim_at(v, type, a), atom)) {
                return true;
            }
        }
    }
    for (uint32_t k = 0; k < node->attr_count; k++) {
        const stator_attr_row *attr = stator_attr_at(v, node, k);
        for (uint32_t i = 0; attr->kind == STATOR_ATTR_DIMS && i < attr->count; i++) {
            if (st_sym_uses(&cols, stator_ref_at(v, attr->begin + i), atom)) {
                return true;
            }
        }
    }
    return false;
}

typedef struct definer {
    const stator_graph_view *v;
    const stator_node_row *node;
} definer;

/* Is it an unbacked symbol that the node defines? */
static bool is_defined(const void *self, const stator_atom_row *row, uint32_t atom)
{
    const definer *d = self;
    return row->kind == STATOR_ATOM_SYMBOL && (row->flags & STATOR_ATOM_UNBACKED) != 0 &&
           !is_known(d->v, d->node, atom);
}

static bool defines_sizes(const stator_graph_view *v, const stator_node_row *node)
{
    const st_sym_cols cols = st_sym_view_columns(v);
    const definer d = {v, node};
    for (uint32_t k = 0; k < node->result_count; k++) {
        const stator_type_row *type = stator_value_type(v, node->result_begin + k);
        for (uint32_t a = 0; a < type->rank; a++) {
            if (st_sym_find_in(&cols, stator_dim_at(v, type, a), is_defined, &d)) {
                return true;
            }
        }
    }
    return false;
}

/* Why the node has no lowering here; NULL: it has one. */
static const char *why_not(const st_cg_config *config, const stator_graph_view *v,
                           const stator_node_row *node, char text[160])
{
    const cg_lowering *lowering = cg_lowering_of(node->op);
    if (lowering == NULL) {
        return "no lowering to loops for this op";
    }
    for (uint32_t k = 0; k < node->operand_count + node->result_count; k++) {
        const stator_ref value = k < node->operand_count
                                     ? stator_operand(v, node, k)
                                     : node->result_begin + k - node->operand_count;
        const stator_type_row *type = value ? stator_value_type(v, value) : NULL;
        if (type && !is_computable(type->dtype) &&
            !is_loadable(v, node->op, type->dtype, k >= node->operand_count)) {
            return "an element type that the loop IR does not compute with";
        }
        if (type && type->rank > RANK_MAX) {
            (void)snprintf(text, 160, "rank %u; loops are made up to rank %u", type->rank,
                           RANK_MAX);
            return text;
        }
        const st_loop_op_desc *scalar = st_loop_desc(lowering->code);
        const uint32_t class_ =
            type ? st_loop_class_of(type->dtype == STATOR_BF16 || type->dtype == STATOR_F16
                                        ? (uint32_t)STATOR_F32
                                        : st_loop_loaded(type->dtype))
                 : 0;
        const bool is_condition = lowering->code == ST_LOOP_select && k == 0;
        if (type && scalar && k < node->operand_count && !is_condition && !(scalar->on & class_)) {
            return "no scalar form for this element type";
        }
    }
    if (defines_sizes(v, node)) {
        return "a size that only the result tells";
    }
    if (lowering->is_loop) {
        return cg_scan_refuses(config->host, v, node);
    }
    const char *why = lowering->refuses ? lowering->refuses(v, node) : NULL;
    const bool is_for_loops = lowering->is_slow && !cg_has_library(config, lowering);
    return why == NULL && is_for_loops ? lowering->is_slow(v, node) : why;
}

stator_status st_cg_capability(const st_cg_config *config, const stator_graph *graph,
                               const stator_capability_sink *sink, stator_diag **err)
{
    const stator_graph_view *v = config->host->ir->view(graph);
    (void)err;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        char text[160];
        const char *why = why_not(config, v, stator_node_at(v, node), text);
        if (why) {
            sink->no(sink->self, node, STATOR_UNSUPPORTED, why);
        } else {
            sink->yes(sink->self, node, 0);
        }
    }
    return STATOR_OK;
}

/* ---- compile ---- */

static stator_status emit(st_cg_exe *exe, stator_diag **err)
{
    st_mem *mem = exe->config.mem;
    const st_emitter *emitter = exe->config.emitter;
    const uint32_t n = exe->kernels.count;
    st_kernel *expanded = st_calloc(mem, (uint64_t)n + 1u, sizeof *expanded);
    const st_kernel **list = st_calloc(mem, (uint64_t)n + 1u, sizeof *list);
    uint32_t made = 0;
    stator_status status = expanded && list ? STATOR_OK : st_fail_oom(err);
    for (; status == STATOR_OK && made < n; made++) {
        status =
            st_loop_expand(&exe->kernels.data[made], emitter->target.spells, &expanded[made], err);
        list[made] = &expanded[made];
        if (status != STATOR_OK) {
            break;
        }
    }
    ST_THEN(status, emitter->compile(emitter->self, list, n, &exe->module, err));
    for (uint32_t i = 0; i < made; i++) {
        st_kernel_deinit(&expanded[i]);
    }
    st_free(mem, expanded);
    st_free(mem, list);
    return status;
}

/* The imported node's name, else the value's, else the op's. */
static const char *name_of(const stator_graph_view *v, stator_ref node)
{
    const stator_node_row *row = stator_node_at(v, node);
    const char *name = stator_node_origin(v, node);
    if (name[0] == '\0' && row->result_count != 0) {
        name = stator_string_at(v, stator_value_at(v, row->result_begin)->name);
    }
    return name[0] != '\0' ? name : stator_op_at(v, row->op)->name;
}

/* Puts the nodes of a kernel that could not be compiled, which the emitter names, before the text
 * that tells of it. */
static stator_status emit_named(const cg_unit *unit, st_cg_exe *exe, stator_diag **err)
{
    stator_diag *own = NULL;
    st_str names;
    st_str_init(&names, unit->mem);
    const stator_status status = emit(exe, &own);
    for (const st_diag_node *at = st_diag_nodes(own); at != NULL && names.len < NAMES_BYTES;
         at = at->next) {
        st_str_addf(&names, "%s%s", names.len != 0 ? ", " : "", name_of(unit->view, at->node));
    }
    if (names.len != 0 && st_str_ok(&names)) {
        st_diag_prefix(own, "computing %s", names.data);
    }
    st_str_deinit(&names);
    return st_diag_give(status, own, err);
}

/* ---- what was made, for STATOR_DUMP ---- */

static void dump_text(const st_cg_exe *exe, const char *name, const st_str *text)
{
    const stator_host *host = exe->config.host;
    if (st_str_ok(text) && text->data != NULL) {
        host->log->dump(host->ctx, name, text->data, text->len);
    }
}

/* The steps in order, a line each; kernels by name, calls of the library as they print. */
static void print_steps(const st_cg_exe *exe, st_str *out)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *launch = &exe->launches.data[i];
        if (launch->text != NULL) {
            st_str_addf(out, "%u: %s", i, launch->text);
        } else if (launch->kernel != UINT32_MAX) {
            st_str_addf(out, "%u: kernel %s\n", i, exe->kernels.data[launch->kernel].name);
        } else {
            st_str_addf(out, "%u: a scan, step by step\n", i);
        }
    }
    for (uint32_t i = 0; i < exe->shape_constraints.count; i++) {
        st_str_addf(out, "test: %s\n", exe->shape_constraints.data[i].text);
    }
}

/* plan.txt, and the loop IR of each kernel under its name. */
static void dump(const st_cg_exe *exe)
{
    const stator_host *host = exe->config.host;
    char name[128];
    st_str text;
    if (!STATOR_HAS(host->log, dump) || !host->log->is_dumping(host->ctx)) {
        return;
    }
    st_str_init(&text, exe->config.mem);
    print_steps(exe, &text);
    dump_text(exe, "plan.txt", &text);
    st_str_deinit(&text);
    for (uint32_t k = 0; k < exe->kernels.count; k++) {
        st_str_init(&text, exe->config.mem);
        st_kernel_print(&exe->kernels.data[k], &text);
        (void)snprintf(name, sizeof name, "%.100s.loop", exe->kernels.data[k].name);
        dump_text(exe, name, &text);
        st_str_deinit(&text);
    }
}

/* Kernels of bodies have other names than those around them: a package holds all of them. */
static stator_status set_scope(cg_unit *unit, const cg_loop *loop, stator_diag **err)
{
    char scope[96];
    (void)snprintf(scope, sizeof scope, "%.80ss%u_", loop->unit->scope, loop->step);
    unit->scope = st_arena_strndup(&unit->arena, scope, strlen(scope));
    return unit->scope ? STATOR_OK : st_fail_oom(err);
}

static stator_status compile_body(const stator_graph *graph, const cg_loop *loop, st_cg_exe **out,
                                  const char **out_why, stator_diag **err);

/* `loop`: whose body the graph is, NULL: none's. */
static stator_status build(cg_unit *unit, const st_cg_config *config, const stator_graph *graph,
                           const cg_loop *loop, stator_fuel_scope *fuel, st_cg_exe *exe,
                           stator_diag **err)
{
    ST_TRY(cg_unit_init(unit, config, graph, &exe->syms, fuel, err));
    unit->compile_body = compile_body;
    if (unit->declined.count) {
        return STATOR_NEED_FALLBACK; /* its sizes cannot be computed with */
    }
    if (loop) {
        unit->is_alone = loop->is_alone;
        ST_TRY(set_scope(unit, loop, err));
        ST_TRY(cg_begin_body(unit, loop, err));
    }
    ST_TRY(cg_make_roots(unit, err));
    if (loop) {
        cg_align_outputs(unit, loop);
    }
    ST_TRY(cg_join_roots(unit, err));
    ST_TRY(cg_make_exe(unit, exe, err));
    if (unit->declined.count) {
        return STATOR_NEED_FALLBACK;
    }
    dump(exe);
    ST_TRY(cg_move_to_device(exe, err));
    return exe->kernels.count ? emit_named(unit, exe, err) : STATOR_OK;
}

/* A request that got no memory may have looked like a limit of the symbolic engine. */
static stator_status unmask_memory(const st_mem *mem, uint64_t refused, stator_status status,
                                   stator_diag **own)
{
    if ((status != STATOR_UNSUPPORTED && status != STATOR_NEED_FALLBACK) ||
        atomic_load(&mem->refused) == refused) {
        return status;
    }
    st_diag_release(*own);
    *own = NULL;
    return st_fail_oom(own);
}

/* A body, on the way of the unit around it (cg_unit.compile_body). */
static stator_status compile_body(const stator_graph *graph, const cg_loop *loop, st_cg_exe **out,
                                  const char **out_why, stator_diag **err)
{
    const cg_unit *around = loop->unit;
    cg_unit unit;
    *out = NULL;
    st_cg_exe *exe = cg_new_exe(around->config);
    ST_TRY_MEM(exe, err);
    exe->is_body = 1;
    const stator_status status = build(&unit, around->config, graph, loop, around->fuel, exe, err);
    *out_why = unit.declined.count ? unit.declined.data[0].reason : NULL;
    cg_unit_deinit(&unit);
    if (status != STATOR_OK) {
        st_cg_destroy(exe);
        return status;
    }
    *out = exe;
    return STATOR_OK;
}

stator_status st_cg_compile(const st_cg_config *config, const stator_graph *graph,
                            stator_fuel_scope *fuel, st_cg_exe **out, stator_diag **err)
{
    const uint64_t refused = atomic_load(&config->mem->refused);
    *out = NULL;
    st_cg_exe *exe = cg_new_exe(config);
    if (exe == NULL) {
        return st_cg_to_host(config->host, STATOR_RESOURCE_EXHAUSTED, NULL, err);
    }
    cg_unit unit;
    stator_diag *own = NULL;
    stator_status status = build(&unit, config, graph, NULL, fuel, exe, &own);
    status = unmask_memory(config->mem, refused, status, &own);
    if (status == STATOR_NEED_FALLBACK) {
        name_declined(&unit, err);
    }
    cg_unit_deinit(&unit);
    if (status != STATOR_OK) {
        st_cg_destroy(exe);
        return st_cg_to_host(config->host, status, own, err);
    }
    *out = exe;
    return STATOR_OK;
}
